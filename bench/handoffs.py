"""Row 6: storing and recovering a handoff in process, with few and with many stored before."""

import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from measure import Ask, Rounds, Sample
from plan import Plan
from report import Goal, Row, microseconds, times

from outlast import Outlast

COMMIT, READ = "limit: one commit", "limit: one indexed read"
FIELDS: dict[str, Any] = {
    "summary": "Pause after diagnosis",
    "handoff_text": "Resume in export.py and patch the serializer mismatch.",
    "target_files": ["export.py"],
    "next_action": "Patch the export serializer and rerun the relevant checks.",
    "acceptance_checks": ["pytest -q tests/export"],
}
EACH = 50  # calls in one sample


def handoffs(plan: Plan) -> Row:
    """What a store and a recover cost: the ledger alone, with one bound file, and in a git repository."""
    with tempfile.TemporaryDirectory(prefix="handoffs-", dir=_outside_of_git(plan.scratch)) as folder:
        homes = [_Home(Path(folder), stored) for stored in plan.handoffs]
        taken = _taken(plan, homes, _Limit(Path(folder) / "limit.db"))
        for home in homes:
            home.outlast.close()
    row = Row(6, "A handoff, in process", ["one call", "µs", "× the limit", "CPU µs"], failed=taken.failed)
    for name in taken.samples:
        limit = READ if "recover" in name or name == READ else COMMIT
        spent, cpu = taken.median(name, _wall), taken.median(name, _cpu)
        row.lines.append([name, microseconds(spent), times(taken.ratio(name, limit)), microseconds(cpu)])
    row.goals = _goals(taken, plan.handoffs)
    row.notes = [
        "Ledger: no file is looked at. A bound file is hashed at both ends and kept; in a repository git is asked too. "
        "What is stored is about a file whose content is new each time; writing that file is in the figure.",
        "The limit of a store is one synced commit of as many bytes, that of a recover one indexed read of them.",
    ]
    return row


def _goals(taken: Rounds, stored: tuple[int, ...]) -> list[Goal]:
    few, many = f"{stored[0]:,}", f"{stored[-1]:,}"
    goals = []
    for verb, bound in (("store", 1000.0), ("recover", 500.0)):
        name = f"{verb}, ledger, {many} stored"
        found = taken.median(name, _wall) if name in taken.samples else None
        goals.append(Goal(f"handoff {verb}, {many} stored", bound, True, found, microseconds))
        flat = taken.ratio(name, f"{verb}, ledger, {few} stored") if found is not None else None
        goals.append(Goal(f"handoff {verb}, {many} against {few} stored (flat)", 1.25, True, flat, times))
    few_each = (("store, one changed file", 1800.0), ("recover, one file", 500.0))
    each = [(f"{name}, {few} stored", bound) for name, bound in few_each]
    each += [("store in a git repository", 4000.0), ("recover in a git repository", 3000.0)]
    for name, bound in each:
        found = taken.median(name, _wall) if name in taken.samples else None
        goals.append(Goal(f"handoff {name}", bound, True, found, microseconds))
    return goals


def _taken(plan: Plan, homes: "list[_Home]", limit: "_Limit") -> Rounds:
    asks: dict[str, Ask] = {COMMIT: partial(_timed, limit.commit), READ: partial(_timed, limit.read)}
    for home in homes:
        asks |= {f"{name}, {home.stored:,} stored": partial(_timed, call) for name, call in home.calls().items()}
    asks |= {name: partial(_timed, call, 5) for name, call in homes[0].calls_in_git().items()}
    taken = Rounds()
    taken.take(asks, 2)
    taken.forget()
    taken.take(asks, plan.rounds)
    return taken


class _Home:
    """A home with so many handoffs in it, each under an anchor of its own."""

    def __init__(self, folder: Path, stored: int) -> None:
        self.stored = stored
        self.root = folder / f"root-{stored}"
        self.root.mkdir()
        (self.root / "export.py").write_text("def export():\n    return 1\n")
        home = folder / f"home-{stored}"
        with Outlast(home, store_options={"synchronous": "OFF"}) as filling:
            for number in range(stored):
                filling.handoff.store(f"task:old-{number}", bind=False, **FIELDS)
        self.outlast = Outlast(home)
        self._next = 0
        self.outlast.handoff.store("task:bound", repo_root=str(self.root), **FIELDS)

    def calls(self) -> dict[str, Callable[[], Any]]:
        store, recover, root = self.outlast.handoff.store, self.outlast.handoff.recover, str(self.root)
        middle = f"task:old-{self.stored // 2}"
        return {
            "store, ledger": lambda: store(self._anchor(), bind=False, **FIELDS),
            "store, one changed file": lambda: store(self._anchor(), repo_root=root, **self._changed(self.root)),
            "recover, ledger": lambda: recover(middle, repo_root=root),
            "recover, one file": lambda: recover("task:bound", repo_root=root),
        }

    def calls_in_git(self) -> dict[str, Callable[[], Any]]:
        who = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "init.defaultBranch=main"]
        repo = self.root.with_name("repository")
        repo.mkdir()
        (repo / "export.py").write_text("def export():\n    return 1\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
            subprocess.run(["git", *who, *words], cwd=repo, check=True)
        store, recover, root = self.outlast.handoff.store, self.outlast.handoff.recover, str(repo)
        store("task:in-git", repo_root=root, **FIELDS)
        return {
            "store in a git repository": lambda: store(self._anchor(), repo_root=root, **self._changed(repo)),
            "recover in a git repository": lambda: recover("task:in-git", repo_root=root),
        }

    def _changed(self, folder: Path) -> dict[str, Any]:
        """A handoff about a file whose content nobody has kept before."""
        (folder / "changed.py").write_text(f"def changed():\n    return {self._next}\n")
        return FIELDS | {"target_files": ["changed.py"]}

    def _anchor(self) -> str:
        self._next += 1
        return f"task:new-{self._next}"


class _Limit:
    """What bare SQLite does with as many bytes."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.pragma("journal_mode", "WAL")
        self.connection.pragma("synchronous", "FULL")
        self.connection.execute("CREATE TABLE handoff (anchor TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT")
        self._next = 0

    def commit(self) -> None:
        self._next += 1
        self.connection.execute("INSERT INTO handoff VALUES (?, ?)", (f"task:{self._next}", b"x" * 1500))

    def read(self) -> None:
        assert next(self.connection.execute("SELECT body FROM handoff WHERE anchor = ?", ("task:1",)))


def _timed(call: Callable[[], Any], each: int = EACH) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(each):
        call()
    return Sample((time.perf_counter() - wall) / each, (time.process_time() - cpu) / each)


def _outside_of_git(scratch: Path) -> Path:
    """A folder on a real disk that is in no repository: else git would be asked about this one's files."""
    inside = any((folder / ".git").exists() for folder in (scratch, *scratch.resolve().parents))
    return Path("/var/tmp") if inside else scratch


def _wall(sample: Sample) -> float:
    return sample.wall * 1e6


def _cpu(sample: Sample) -> float:
    return sample.cpu * 1e6
