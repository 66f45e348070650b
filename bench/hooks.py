"""Row 7: how long a coding agent waits for a hook: the whole process, from its start to its end."""

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from measure import Ask, Rounds, Sample, environment
from plan import Plan
from report import Goal, Row, milliseconds, times

from outlast.doors.hooks import spool

GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "init.defaultBranch=main")
BARE = "bare Python"
NAMES = {"start": "SessionStart", "stop": "Stop", "compact": "PreCompact", "end": "SessionEnd"}
LIMIT_MS = 150


def hooks(plan: Plan) -> Row:
    session = _Session(plan.scratch / "hooks")
    asks: dict[str, Ask] = {
        BARE: partial(_timed, [sys.executable, "-P", "-c", ""], b""),
        **{f"`{kind}`": partial(session.fire, kind) for kind in ("stop", "compact", "end")},
        "`start`": partial(session.fire, "start"),
    }
    taken = Rounds()
    taken.take(asks, 1)  # compiles what was not compiled
    taken.forget()
    taken.take(asks, plan.import_rounds)
    row = Row(7, "A hook of a coding agent", ["new process", "ms", "× bare Python"], failed=taken.failed)
    for name in taken.samples:
        row.lines.append([name, milliseconds(taken.median(name, _wall)), times(taken.ratio(name, BARE))])
    row.goals = [
        Goal(f"hook {name}", LIMIT_MS, True, taken.median(name, _wall) if name in taken.samples else None, milliseconds)
        for name in asks
        if name != BARE
    ]
    return row


class _Session:
    """A session in a repository with a plan and an edited file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / ".outlast"
        self.home.mkdir(parents=True)
        (self.home / ".gitignore").write_text("*\n")
        for number in range(50):
            (folder / f"file{number}.py").write_text("x = 1\n" * 100)
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
            subprocess.run([*GIT, *words], cwd=folder, check=True)
        (folder / "file1.py").write_text("x = 2\n")
        step = {"content": "Patch file1.py", "status": "in_progress"}
        call = {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": [step]}}
        self.transcript = folder.with_suffix(".jsonl")
        self.transcript.write_text(json.dumps({"type": "assistant", "message": {"content": [call]}}) + "\n")

    def fire(self, kind: str) -> Sample:
        said = {"session_id": "bench", "transcript_path": str(self.transcript), "cwd": str(self.folder)}
        given = json.dumps({**said, "hook_event_name": NAMES[kind]}).encode()
        sample = _timed([sys.executable, "-P", "-m", "outlast", "hook", kind, "--client", "claude"], given)
        self._idle()
        return sample

    def _idle(self) -> None:
        """Until everything is stored: it is not what the agent waits for."""
        while True:
            with spool.alone(str(self.home), 10) as granted:
                if granted and not spool.waiting(str(self.home)):
                    return
            time.sleep(0.01)


def _timed(command: list[str], given: bytes) -> Sample:
    began = time.perf_counter()
    subprocess.run(command, input=given, stdout=subprocess.DEVNULL, env=environment(), check=True)
    return Sample(time.perf_counter() - began, 0.0)


def _wall(sample: Sample) -> float:
    return sample.wall * 1e3
