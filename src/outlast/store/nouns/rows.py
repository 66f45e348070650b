"""How a named statement is run on a connection, and the one place where a row of the file becomes one of the contract.

A row is whole, or given as one that is damaged. A STRICT table holds what its columns say, but not that a text is UTF-8
or JSON, nor that a number is a time; and a table may have been changed to be less strict. Nothing that reads a row
finds out by itself.

What a row said when it was written last is kept beside it, as its proof. Which rows a piece of work has touched, each
database tells its writing connection in its own way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outlast import errors
from outlast.ledger.journal import Break
from outlast.ledger.lease import Beat, Process
from outlast.store.contract.handoffs import FirstRevision, PlainStore
from outlast.store.contract.runs import LAST, Damaged, PlainEnd, PlainStart, RunRow, damage_of
from outlast.values.ambient import notice
from outlast.values.codec import sha256

R = TypeVar("R", bound=tuple[Any, ...])

AFTER_ALL = "\U0010ffff"  # behind a prefix: after every text that begins with it
NEWEST = 1 << 62  # above every key and every limit


class Rows:
    """Named statements on one connection. A row that cannot be read is given as a damaged one, never raised for.

    How a statement is run is each database's own: what raises here, and nothing else.
    """

    execute: Callable[..., Iterable[Any]]

    def __init__(self, sql: dict[str, str]) -> None:
        self.sql = sql
        self.memo: dict[Any, Any] | None = None  # what was read before, for a process that looks but once
        self.entries_after: Callable[[int, int, int], list[Any]] | None = None  # of a chain, whatever this one does
        self.tell: Callable[[str], None] | None = None  # is told of rows that are damaged, each once
        self._lines: set[str] = set()  # that it was told

    def _one(self, name: str, *values: Any) -> Any:
        """The first row of a statement, or None."""
        raise NotImplementedError

    def _all(self, name: str, *values: Any) -> list[Any]:
        raise NotImplementedError

    def _all_at_once(self, kind: type[R], name: str, *values: Any) -> list[Any]:
        """The same, by the way that is best for many rows."""
        raise NotImplementedError

    def _listed(self, values: Sequence[str]) -> Any:
        """Many texts as one value for a statement."""
        raise NotImplementedError

    def _row(self, kind: type[R], name: str, *values: Any) -> R | None:
        row = self._one(name, *values)
        if not row:
            return None
        found = made(kind, row)
        if type(found) is not kind:
            self._tell_damage(found)
        return found

    def _rows(self, kind: type[R], name: str, *values: Any) -> list[R]:
        return self._told(kind, [made(kind, row) for row in self._all(name, *values)])

    def _rows_at_once(self, kind: type[R], name: str, *values: Any) -> list[R]:
        return self._told(kind, [made(kind, row) for row in self._all_at_once(kind, name, *values)])

    def _told(self, kind: type[R], found: list[R]) -> list[R]:
        for row in found:
            if type(row) is not kind:
                self._tell_damage(row)
        return found

    def _tell_damage(self, row: Any) -> None:
        line = f"{name_of(row)} is damaged: {damage_of(row)}; see `outlast verify`"
        notice(line)
        if self.tell is not None and line not in self._lines:
            self._lines.add(line)
            self.tell(line)


class WrittenRows(Rows):
    """The same inside a transaction, with what writing needs."""

    do: Callable[..., Any]  # for statements without rows
    do_many: Callable[..., Any]
    changes: Callable[[], int]  # how many rows the last statement wrote

    def _add_chain(self, subject: str, epoch: int, head: int, hash_: bytes, holder: str | None) -> int:
        """A chain, under a key of its own."""
        return int(self._one("add_chain", subject, epoch, head, hash_, holder)[0])

    def _did(self, name: str, *values: Any) -> bool:
        """Whether a statement wrote the one row that it is about."""
        self._one(name, *values)
        return self.changes() == 1

    def _row(self, kind: type[R], name: str, *values: Any) -> R | None:
        """The one row that is asked for; in a write, to act on it. Raises IntegrityBroken for a damaged one."""
        row = super()._row(kind, name, *values)
        if why := damage_of(row):
            raise errors.IntegrityBroken(name_of(row), why)
        return row


# -- rows of the contract ----------------------------------------------------------------------------

Test = Callable[[Any], bool]

JSON: dict[str, dict[str, Any]] = {  # columns that are JSON, and of which kind
    "RunRow": {"inputs": dict, "meta": dict, "result": dict, "error": dict},
    "FinishedRow": {"error": dict},
    "InterruptRow": {"call": tuple[str, str, str, int], "payload": dict, "form": dict, "answer": Any},
    "SignalRow": {"body": Any},
    "SessionRow": {"meta": dict},
    "MessageRow": {"content": Any, "meta": dict},
    "MemoRow": {"text": Any},
    "TaskRow": {"meta": dict},
    "TaskEventRow": {"body": Any},
    "ArtifactRow": {"tags": list[str], "source": dict},
    "CheckpointRow": {"refs": list[str], "state": dict},
    "RecordRow": {"refs": list[str], "tags": list[str], "source": dict, "masked": list[str]},
    "LinkRow": {"by": dict, "masked": list[str]},
    "ActRow": {"changes": dict[str, tuple[Any, Any]]},
}
# Columns of few words; the first stands for one that is none of them.
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "RunRow": {
        "status": ("crashed", "queued", "running", "waiting", "failed", "interrupted", "succeeded", "aborted"),
        "seal": ("copy", "", "moved", "testimony"),
    },
    "InterruptRow": {"status": ("cancelled", "open", "answered", "used")},
    "AnchorRow": {"status": ("open", "finished"), "outcome": ("", "completed", "failed", "released")},
    "TaskRow": {"state": ("paused", "active", "resumed", "completed")},
    "TaskEventRow": {"kind": ("event", "opened", "paused", "resumed", "completed", "reopened")},
    "ArtifactRow": {"codec": ("raw", "zlib")},
    "RecordRow": {"kind": ("note", "observation", "decision", "evidence")},
    "LinkRow": {"relation": ("derived_from", "supports", "contradicts", "supersedes", "produced_by")},
    "ShownRow": {"noun": ("record", "artifact", "checkpoint", "link")},
}
BY_WHOM = '{"actor":""}'  # stands for who made something, where that cannot be read
EMPTY = {"str": "", "int": 0, "bytes": b"\0" * 32, "float": 0.0}


def made(kind: type[R], row: Iterable[Any]) -> R:
    """The row; a damaged one with empty values in place of those that cannot be read.

    Hardly ever anything is wrong with one, and that is seen in few steps. If not, each value is tried.
    """
    values = tuple(row)
    texts, tests = _tests_by_types(kind, tuple(map(type, values)))
    is_readable = texts is not None and UNREADABLE not in "".join([values[number] for number in texts])
    if is_readable and all([test(values[number]) for number, test in tests]):
        return kind(*values)
    wrong = [number for number, test in _tests(kind) if not test(values[number])]
    return kind(*values) if not wrong else _damaged(kind, values, wrong)


def _damaged(kind: type[R], values: tuple[Any, ...], wrong: list[int]) -> R:
    fields = kind._fields  # type: ignore[attr-defined]
    mended = [_mended(kind, fields[n], value) if n in wrong else value for n, value in enumerate(values)]
    found = _damaged_kind(kind)(*mended)
    found.columns = tuple(fields[number] for number in wrong)
    return found  # type: ignore[no-any-return]


@cache
def _damaged_kind(kind: type) -> Any:
    return type(f"Damaged{kind.__name__}", (kind, Damaged), {"__doc__": Damaged.__doc__})


def _mended(kind: type, name: str, value: Any) -> Any:
    """What stands in the place of a value: of a text that is not UTF-8 what can be read of it, else nothing."""
    annotation = kind.__annotations__[name]
    if annotation.endswith("| None"):
        return None
    wanted = JSON.get(kind.__name__, {}).get(name)
    if few := CHOICES.get(kind.__name__, {}).get(name):
        return few[0]
    if wanted is dict:
        return BY_WHOM if name in ("source", "by") else "{}"
    if wanted is not None and name == "changes":
        return "{}"
    if wanted is not None:
        return "[]" if wanted == list[str] else '["","","",0]' if wanted is not Any else "null"
    if annotation == "str" and isinstance(value, str):
        return value.removesuffix(UNREADABLE)
    return EMPTY[annotation]


@cache
def _tests(kind: type) -> tuple[tuple[int, Test], ...]:
    json, few = JSON.get(kind.__name__, {}), CHOICES.get(kind.__name__, {})
    named = kind.__annotations__.items()
    tests = (few[name].__contains__ if name in few else _test(name, said, json.get(name)) for name, said in named)
    return tuple(enumerate(tests))


@lru_cache(maxsize=1024)
def _tests_by_types(kind: type, types: tuple[type, ...]) -> tuple[list[int] | None, list[tuple[int, Test]]]:
    """Which values of a row of these types are plain texts, and what is to be tried of the others; None: not of it."""
    json, few, texts, tests = JSON.get(kind.__name__, {}), CHOICES.get(kind.__name__, {}), [], []
    named = enumerate(zip(kind.__annotations__.items(), types, strict=True))
    for (number, ((name, annotation), given)), (_, test) in zip(named, _tests(kind), strict=True):
        if given is str and annotation.startswith("str") and name not in json and name not in few:
            texts.append(number)
        elif given is int and annotation.startswith("int") and not _names_a_time(name):
            continue
        elif given is type(None) or given is bytes:
            if not test(None if given is not bytes else b""):
                return None, []
        elif given is int and annotation == "int":
            tests.append((number, _TIMES.__contains__))
        else:
            tests.append((number, test))
    return texts, tests


def _test(name: str, annotation: str, json: Any) -> Test:
    plain, _, rest = annotation.partition(" | ")
    kind = "time" if plain == "int" and _names_a_time(name) else plain
    test: Test = _is_json(json) if json is not None else _BY_TYPE[kind]
    return test if not rest else lambda value: value is None or test(value)


def _names_a_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")


def _is_json(kind: Any) -> Test:
    decode = msgspec.json.Decoder(kind).decode

    def test(value: Any) -> bool:
        try:
            decode(value)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            return False
        return type(value) is str

    return test


_TIMES = range(LAST + 1)
_BY_TYPE: dict[str, Test] = {
    "str": lambda value: type(value) is str and UNREADABLE not in value,
    "int": lambda value: type(value) is int,
    "time": lambda value: type(value) is int and value in _TIMES,
    "float": lambda value: type(value) in (int, float),
    "bytes": lambda value: type(value) is bytes,
}


# -- text that is not UTF-8 --------------------------------------------------------------------------

UNREADABLE = "\ufffd\u2060\ufffd"  # stands for such a text: nobody writes this


NAMES = {
    "RunRow": "run {id}",
    "FinishedRow": "run {id}",
    "InterruptRow": "wait {id}",
    "AnchorRow": "handoff {anchor}",
    "HandoffRow": "handoff row {id}",
    "SessionRow": "session {id}",
    "MessageRow": "message {seq}",
    "TaskRow": "task {task}",
    "TaskEventRow": "event {seq}",
    "ArtifactRow": "artifact:{scope}/{name}@{version}",
    "CheckpointRow": "checkpoint {id} ({name})",
    "RecordRow": "record:{id}",
    "LinkRow": "link {id}",
    "SignalRow": "signal {id}",
    "ActRow": "act {number}",
}


def name_of(row: Any) -> str:
    """What a damaged row is called."""
    kind = type(row).__name__.removeprefix("Damaged")
    return NAMES.get(kind, kind.removesuffix("Row").lower()).format_map(row._asdict())


def beat(row: tuple[Any, ...]) -> Beat | None:
    """A sign of life; none when it cannot be read: then nobody has heard of that process."""
    texts, numbers = row[:5], row[5:]
    if not all(type(text) is str and UNREADABLE not in text for text in texts):
        return None
    if not all(type(number) in (int, float) and abs(number) < 1 << 62 for number in numbers):
        return None
    name, host, boot, namespace, machine, pid, started, boot_us, wall_us, lease_seconds, shared = row
    process = Process(name, host, boot, namespace, pid, started, machine)
    return Beat(process, boot_us, wall_us, lease_seconds, bool(shared))


# -- proofs ------------------------------------------------------------------------------------------

CHANGED = "it is not what was stored"
MISSING = "its row is missing"
UNPROVEN = "nothing proves that it was stored: its proof is missing"
_END = 1 << 62


def _named(text: str) -> Callable[[Any], str]:
    return lambda row: text.format(*row)


# How a row of each table is called: its key is 0, what was selected after it follows.
ROW_NAMES: dict[str, Callable[[Any], str]] = {
    "runs": _named("run {2}"),
    "chains": _named("lease {1}"),
    "claims": _named("claim number {0}"),
    "processes": _named("process {1}"),
    "interrupts": _named("wait {2}"),
    "inbox": _named("request {0} to run number {2}"),
    "operations": _named("operation {2}"),
    "deliveries": _named("delivery of run number {0}"),
    "tombstones": _named("removed run {2}"),
    "anchors": lambda row: f"handoff {row[4]}" if row[3] == "default" else f"handoff {row[4]} in scope {row[3]}",
    "handoffs": _named("handoff row {2}"),
    "signals": _named("signal {2}"),
    "schedules": _named("schedule {3} in scope {2}"),
    "acts": _named("act {0}"),
    "sessions": lambda row: f"session {row[3]}" if row[2] == "default" else f"session {row[3]} in scope {row[2]}",
    "tasks": lambda row: f"task {row[3]}" if row[2] == "default" else f"task {row[3]} in scope {row[2]}",
    "artifacts": _named("artifact number {0}"),
    "artifact_names": _named("the versions of artifact {3} in scope {2}"),
    "artifact_dropped": _named("dropped version {4} of artifact {3} in scope {2}"),
    "artifact_removed": _named("removed artifact {3}@{4} in scope {2}"),
    "checkpoints": _named("checkpoint {1}"),
    "records": _named("record:{1}"),
    "links": _named("link {1}"),
    "stored_by": _named("what is counted for blob {2}"),
    "workspace_shown": _named("entry {0} of the workspace"),
}


def proof_of(table: str, row: tuple[Any, ...]) -> bytes:
    """What a row says, in short."""
    return sha256(msgspec.msgpack.encode((table, *row))).digest()[:16]


def started_row(start: PlainStart, row: RunRow, head: int, hash_: bytes) -> tuple[Any, ...]:
    """What is written of a run that starts plainly: itself, its chain, who is to receive it, and their proofs."""
    run, key = start.run, row.key
    chain = proof_of("chains", (key, f"run:{run.id}", 1, start.holder))
    delivery = proof_of("deliveries", (key, key, run.scope, run.task, start.receiver)) if start.receiver else None
    proofs = (chain, proof_of("runs", (key, *row)), start.receiver, delivery)
    return (key, *run[:16], start.holder, head, hash_, *proofs)


def ended_row(end: PlainEnd) -> tuple[Any, ...]:
    """What is written of a run that ends plainly, and to whom; the proof that its row has before, and those after."""
    hold, row, (status, phase, result, error, at) = end.hold, end.run, end.ending
    after = row._replace(status=status, phase=phase, result=result, error=error, updated_at=at)
    chain = proof_of("chains", (hold.lease_key, f"run:{hold.run_id}", hold.epoch + 1, None))
    proofs = (proof_of("runs", (row.key, *row)), chain, proof_of("runs", (row.key, *after)))
    return (status, phase, result, at, end.receiver, *proofs)


def stored_row(store: PlainStore, first: FirstRevision, key: int, newest: int) -> tuple[Any, ...]:
    """What is written of a handoff that is stored plainly: its anchor, itself, proofs of both and the chain, files."""
    new, named = first.handoff, (first.anchor_id, store.scope, store.anchor)
    found_by = (new.branch, new.root, new.symbol, new.score, new.stored_at, new.expires_at)
    chain = proof_of("chains", (key, f"handoff:{first.anchor_id}", 0, None))
    anchor = proof_of("anchors", (key, key, *named, "open", "", 1, newest, *found_by, 0))
    handoff = proof_of("handoffs", (newest, newest, new.id, key, 1, 1, ""))
    files = msgspec.json.encode(new.files).decode()
    return (key, newest, *named, store.task, *found_by, new.id, chain, anchor, handoff, files)


class Proofs(Rows):
    """Lookups of rows against their proofs."""

    def unproven(self, table: str, after: int, limit: int) -> tuple[int, list[Break]]:
        rows = {row[0]: row for row in self._all(f"rows_of_{table}", after, limit)}
        proofs = dict(self._all("proofs_after", table, after, limit))
        ends = [max(found) for found in (rows, proofs) if len(found) == limit]
        upto = min(ends, default=_END)
        keys = sorted(key for key in {*rows, *proofs} if key <= upto)
        breaks = [Break(*told) for key in keys for told in _told(table, key, rows.get(key), proofs.get(key))]
        return upto if ends else 0, breaks

    def unproven_row(self, table: str, key: int) -> Break | None:
        row, proof = self._one(f"rows_of_{table}", key - 1, 1), self._one("proofs_after", table, key - 1, 1)
        found = row if row and row[0] == key else None
        told = _told(table, key, found, proof[1] if proof and proof[0] == key else None)
        return next((Break(*each) for each in told), None)


def _told(table: str, key: int, row: Any, proof: bytes | None) -> Iterator[tuple[str, str]]:
    if row is None:
        noun = table.removesuffix("s").replace("_", " ")
        yield f"{noun} number {key}", MISSING
    elif proof is None:
        yield ROW_NAMES[table](row), UNPROVEN
    elif proof_of(table, row) != proof:
        yield ROW_NAMES[table](row), CHANGED


# -- named statements, read from their files ---------------------------------------------------------


_FOLDER = Path(__file__).parents[1] / "sql"


def statements(dialect: str) -> dict[str, str]:
    """Every statement by its name."""
    return _read(_FOLDER / "shared") | _read(_FOLDER / dialect)


def statements_of(*what: str) -> dict[str, str]:
    """Those of no noun: of API keys, which are no tenant's, of tables as such, and of the index for recall."""
    return {name: text for each in what for name, text in _read(_FOLDER / each).items()}


def schema(dialect: str) -> str:
    """The whole model on one page."""
    return (_FOLDER / dialect / "schema.sql").read_text()


@cache  # asked by whoever looks at a file
def newest_version(dialect: str) -> int:
    """The number of the schema that this program knows."""
    return max((_number(file) for file in _later(dialect)), default=1)


@cache  # with the statements: a process may open many homes
def migrations(dialect: str) -> list[tuple[int, str]]:
    """Numbered, up-only migrations, in order. The first is the whole schema of version 1, without its comments."""
    first = re.sub(r"(?<! ) *--.*", "", schema(dialect))
    return [(1, first), *((_number(file), file.read_text()) for file in _later(dialect))]


def _later(dialect: str) -> list[Path]:
    folder = _FOLDER / dialect / "migrations"
    return sorted((folder / name for name in _files(folder) if name[0].isdigit()), key=_number)


def _number(file: Path) -> int:
    return int(file.name.split("_")[0])


@cache
def _read(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _files(folder):
        if name != "schema.sql":
            with open(f"{folder}/{name}", "rb", buffering=0) as file:
                parts = file.read().decode().split("-- name: ")[1:]
            named = (part.partition("\n") for part in parts)
            found |= {statement.strip(): body.strip() for statement, _, body in named}
    return found


def _files(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".sql"))
