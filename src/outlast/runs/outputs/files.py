"""The files of finished steps: what they left by their receipts, and what of it is there now.

Of steps that declare the same file the one that was recorded last counts: what it left, also that it left none. An
attempt that has not succeeded says nothing of its files yet, so what others left there before is not looked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from outlast.errors import OutlastError
from outlast.files.changes import Patterns, SeenFile, from_facts
from outlast.files.partial import HASH_BYTES, Found, Looker, looker, seen_in
from outlast.flows.loading import is_flow_file, lasting, path_of
from outlast.flows.yaml.flow import FlowFileSpec, find_flow_file
from outlast.flows.yaml.model import Command, FlowDefinition, Foreach, Node, Parallel, Repeat
from outlast.home.caller import Caller
from outlast.home.home import Home
from outlast.ledger.journal import CALLS, Row, decode_header, decode_payload
from outlast.ledger.verdict import Reason
from outlast.runs.call import GOOD, Call, Ledger, labels
from outlast.runs.found import OUTPUTS, FoundRun, find_run, tells_of_files
from outlast.runs.receipt import facts_in
from outlast.runs.run import FINISHED
from outlast.runs.same_flow import whereabouts
from outlast.store.contract import RunRow
from outlast.values.codec import identity, text
from outlast.values.frozen import NamedTuple
from outlast.values.late import shlex

SHOWN = 5  # of the files of one step
_STARTED, _LEFT, _FAILED = b'"declared":', OUTPUTS, b'"left":'  # in the payloads of entries about attempts
_SIGNS, _SKIPPED = (_STARTED, _LEFT, _FAILED), b'"skipped"'  # who skips a step says nothing of its files
_UNENDED = 1 << 62  # an attempt that did not end may have written after all others
ODD = (OutlastError, ValueError, TypeError, LookupError, AttributeError)  # what a record that nobody wrote may end in


class Output(Struct, frozen=True):
    """A file that a finished step declared and left, and what is there now."""

    step: str  # its label: the last one on record that writes this file
    path: str  # from the project's folder
    found: str  # same, changed, missing
    now: str  # what is there instead
    digest: str
    size_bytes: int
    kept: bool  # its content is, so that it can be put back
    why: str  # it is not
    read_by: tuple[str, ...] = ()  # steps still to run
    child: str = ""  # the run that this one began, if the step is one of that


class RecordedOutput(NamedTuple):
    """A file by its receipt."""

    step: str
    root: Path
    path: str  # from the root
    shown: str
    seen: SeenFile
    run_id: str = ""  # of the run that this one began, if it is of a step of that

    @property
    def full(self) -> str:
        return os.path.normpath(f"{self.root}/{self.path}")


class _Writer(NamedTuple):
    """A call that declares files, as its last entry has it."""

    seq: int  # of its end
    folder: str
    writes: tuple[str, ...]
    shared: str  # the map, `foreach` or `parallel` of which another declares the same: nobody knows whose they are
    before: Mapping[str, SeenFile]  # how the files were
    files: Mapping[str, SeenFile] | None  # None: it has not succeeded


# -- what was left -----------------------------------------------------------------------------------


def recorded(caller: Caller, found: FoundRun) -> list[RecordedOutput]:
    """Every file that a finished step is the last on record to have left, by path; also of runs that this one began."""
    left: dict[str, RecordedOutput] = {}
    found_so: set[str] = set()  # files that were as they are before the step of which they are: an older one's
    later: dict[tuple[str, tuple[str, ...]], Patterns] = {}
    for each in sorted(_written(caller, found), key=lambda each: each.order, reverse=True):
        root, writer = each.root, each.writer
        key = (os.path.normpath(root), writer.writes)
        if key in later and not found_so:
            continue
        if writer.files is not None and each.counts:
            for path, seen in writer.files.items():
                step, shown = writer.shared or each.step, each.place.shown(root, path)
                one = RecordedOutput(step, root, path, shown, seen, each.run_id)
                is_older = one.full in found_so and left[one.full].seen.digest == seen.digest
                if is_older or not _is_later(later, one.full):
                    left[one.full] = one
                    (found_so.add if _is_as_found(writer, path) else found_so.discard)(one.full)
        later[key] = Patterns.of(writer.writes)
    return sorted(left.values(), key=lambda one: one.shown)


class _Told(NamedTuple):
    """A call that declares files, of a run or of one that it began."""

    order: tuple[int, ...]  # by the journal of the run that is looked at: of a child, where it was told of its end
    run_id: str  # of a child; empty of the run itself
    step: str
    place: _Place
    root: Path
    writer: _Writer
    counts: bool  # what it left is there by what the run relies on


def _written(caller: Caller, found: FoundRun, order: tuple[int, ...] = ()) -> Iterator[_Told]:
    rows = found.sound
    if tells_of_files(rows):
        names, place = labels(rows), _Place(caller, found.run)
        vouched = {row.seq for row in found.written}
        for call, writer in _writers(caller.home, rows).items():
            past, root = found.ledger.calls.get(call), place.of(writer.folder)
            counts = writer.seq in vouched or (past is not None and past.finished)
            run_id = found.run.id if order else ""
            yield _Told((*order, writer.seq), run_id, names[call], place, root, writer, counts)
    for seq, child_id in _began(found.ledger):
        with suppress(OutlastError):  # what cannot be read is said of that run itself
            child = find_run(caller.home, child_id)
            if child.unaccepted is None and not child.run.seal:
                yield from _written(caller, child, (*order, seq))


def _began(ledger: Ledger) -> Iterator[tuple[int, str]]:
    """The runs that this one began and that have succeeded, each with where it was told so."""
    for past in ledger.calls.values():
        if past.kind == "spawn" and past.finished and past.last.status == "succeeded" and past.payload:
            yield past.seq, str(decode_payload(past.payload).facts["child"])


def _writers(home: Home, rows: Iterable[Row]) -> dict[Call, _Writer]:
    found: dict[Call, _Writer] = {}
    for row in rows:
        told = row.told
        if told is None or not (any(map(told.__contains__, _SIGNS)) or _SKIPPED in row.header):
            continue
        header = decode_header(row.header)
        if header.kind not in CALLS:
            continue
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        try:
            facts, _ = facts_in(decode_payload(told), home.blobs.get)
            if header.status == "started" and facts["declared"]["writes"]:
                before = from_facts(facts.get("before") or {})
                found[call] = _Writer(_UNENDED, *_declared(facts["declared"]), before, None)
            elif call in found:
                seen = seen_in(facts["files"], facts["outputs"]) if "outputs" in facts else None
                found[call] = found[call]._replace(seq=row.seq, files=seen)
        except ODD:
            continue  # what it left is not known; that a record is not what it was, others say
    return found


def _declared(facts: Mapping[str, Any]) -> tuple[str, tuple[str, ...], str]:
    writes = tuple(map(str, facts["writes"]))
    Patterns.of(writes)
    return str(facts["folder"]), writes, str(facts.get("shared", ""))


def _is_as_found(writer: _Writer, path: str) -> bool:
    """Whether a step has left a file as it found it."""
    before, left = writer.before.get(path), (writer.files or {}).get(path)
    return before is not None and left is not None and before.digest == left.digest


def _is_later(later: Mapping[tuple[str, tuple[str, ...]], Patterns], full: str) -> bool:
    return any(
        full.startswith(f"{root}/") and meant.matches(full[len(root) + 1 :]) for (root, _), meant in later.items()
    )


class _Place:
    """Where the folders of a run's steps are now: if its flow file was moved, they were moved with it."""

    def __init__(self, caller: Caller, run: RunRow) -> None:
        self._project = caller.home.project or Path.cwd()
        self._moved = _moved(caller, run) if is_flow_file(run.source) else None

    def of(self, folder: str) -> Path:
        there = self._project / folder
        if self._moved is None:
            return there
        before, now = self._moved
        return Path(os.path.normpath(os.path.join(now, os.path.relpath(there, before))))

    def shown(self, root: Path, path: str) -> str:
        return text(lasting(os.path.normpath(f"{root}/{path}"), self._project))


def _moved(caller: Caller, run: RunRow) -> tuple[str, str] | None:
    """The flow file's folder as it was and is, if that is another."""
    try:
        source = whereabouts(caller, run.source) or run.source
    except OutlastError:
        return None
    before, now = (os.path.dirname(path_of(each, caller.home.project)) for each in (run.flow, source))
    return (before, now) if before and now and before != now else None


# -- for a mark --------------------------------------------------------------------------------------


def to_keep(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """The entries by which the files of each step are known, of its newest round: start and receipt."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.payload is None or (_STARTED not in row.payload and _LEFT not in row.payload):
            continue
        header = decode_header(row.header)
        if header.kind not in CALLS:  # a mark names such entries, and is none
            continue
        # `fix[3]/` is `fix/`: without the numbers of its rounds
        place = ("/".join(part.rpartition("[")[0] or part for part in header.scope.split("/")), header.name)
        if _LEFT in row.payload and found.get(place):
            found[place] = [found[place][0], row]
        elif b'"writes":[]' not in row.payload:
            found[place] = [row]
    return found


# -- who reads it ------------------------------------------------------------------------------------


class OutputReader(NamedTuple):
    """A step still to run that declares to read files."""

    step: str
    folder: str
    patterns: Patterns

    def reads(self, full: str) -> bool:
        return full.startswith(f"{self.folder}/") and self.patterns.matches(full[len(self.folder) + 1 :])


def readers_of(caller: Caller, found: FoundRun) -> list[OutputReader]:
    """The steps of a flow file that are still to run and declare what they read. Python steps declare nothing."""
    spec = flow_file_of(caller, found.run) if found.run.status not in FINISHED else None
    if spec is None:
        return []
    done = {past.call.step for past in found.ledger.calls.values() if past.finished and past.last.status in GOOD}
    base = spec.file.parent / spec.definition.cwd
    nodes = [node for node in _to_run(spec.definition.steps, done) if node.reads]
    return [OutputReader(node.id, os.path.normpath(base / node.cwd), Patterns.of(node.reads)) for node in nodes]


def flow_file_of(caller: Caller, run: RunRow) -> FlowFileSpec | None:
    """The flow file of a run as it is now; None for Python, and where it cannot be read: who resumes is told so."""
    if not is_flow_file(run.source):
        return None
    try:
        return find_flow_file(whereabouts(caller, run.source) or run.source, caller.home.project or Path.cwd())
    except OutlastError:
        return None


def ids_beside(definition: FlowDefinition, parallel: str) -> set[str]:
    """The ids of what stands in the branches of a `parallel`; nothing if there is none of that id."""
    found = [node for node in definition.nodes() if isinstance(node, Parallel) and node.id == parallel]
    left, names = [branch for node in found for branch in node.branches], set[str]()
    while left:
        node = left.pop()
        names.add(node.id)
        left += node.branches if isinstance(node, Parallel) else ()
    return names


def _to_run(nodes: Iterable[Node], done: set[str]) -> Iterator[Command]:
    """The commands that have no outcome yet, or may be asked for another one by a loop or for an item that is left."""
    for node in nodes:
        if isinstance(node, Parallel):
            yield from _to_run(node.branches, done)
        elif isinstance(node, Repeat | Foreach):
            yield from () if node.id in done else _to_run(node.steps, set())
        elif isinstance(node, Command) and node.id not in done:
            yield node


# -- how it is now -----------------------------------------------------------------------------------


def look(caller: Caller, found: FoundRun) -> list[Output]:
    """Every file of a finished step, looked at. A run that only stands for one elsewhere has none here."""
    if found.run.seal:
        return []
    left = recorded(caller, found)
    readers = readers_of(caller, found) if left else []
    lookers: dict[Path, Looker] = {}
    return [_looked(caller.home, one, readers, lookers.setdefault(one.root, looker(one.root))) for one in left]


def _looked(home: Home, one: RecordedOutput, readers: Iterable[OutputReader], looker: Looker) -> Output:
    read_by = tuple(reader.step for reader in readers if reader.reads(one.full))
    found: Found
    found, now = looker.compare(one.path, one.seen, whole=bool(read_by) and one.seen.size > HASH_BYTES)
    kept, why = ("", "") if found == "same" else _kept(home, one.seen)
    return Output(one.step, one.shown, found, now, one.seen.digest, one.seen.size, bool(kept), why, read_by, one.run_id)


def _kept(home: Home, seen: SeenFile) -> tuple[str, str]:
    """The blob with what it was, or why there is none. Whoever kept the same content, it is the same."""
    if seen.digest and seen.why != "secret" and home.blobs.has(seen.digest):
        return seen.digest, ""
    return "", NOT_KEPT.get(seen.why, NOT_KEPT[""])


NOT_KEPT = {
    "too_large": "it is too large to be kept",
    "over_budget": "it is more than is kept of one attempt",
    "secret": "it has a secret in it, which is never kept",
    "unreadable": "it could not be read",
    "special": "it is no plain file",
    "": "its content is not kept any more",
}


def outputs(caller: Caller, run_id: str) -> list[Output]:
    """The files that the finished steps of a run left, by path. Raises RunNotFound, IntegrityBroken."""
    found = find_run(caller.home, run_id)
    if found.unaccepted is not None:
        raise found.unaccepted.as_error()
    return look(caller, found)


# -- reasons -----------------------------------------------------------------------------------------


def reasons_of(caller: Caller, found: FoundRun) -> list[Reason]:
    """A reason for each finished step whose files are gone, or are not what it left."""
    try:
        changed = [one for one in look(caller, found) if one.found != "same"]
    except (OSError, msgspec.MsgspecError):  # there is no folder to look in, or a record that cannot be read
        return []
    groups: dict[tuple[str, str, str], list[Output]] = {}
    for one in sorted(changed, key=lambda one: not one.read_by):
        groups.setdefault((one.child, one.step, one.found), []).append(one)
    return [_reason(found.run.id, *key, files) for key, files in groups.items()]


def _reason(run_id: str, child: str, step: str, how: str, files: list[Output]) -> Reason:
    code, contests = f"output_{how}", how == "missing" and any(one.read_by for one in files)
    subject = f"{step} of run {child}" if child else step
    ways = [_again(run_id, child, step), *_ways(run_id, child, step, f"{code}:{subject}" if contests else "", files)]
    return Reason(code, subject, "as it left them", _listed(files), "; ".join(ways), "contests" if contests else "")


def _told(one: Output) -> str:
    """A file in a few words: what is there instead, and who will read it."""
    about = [one.now] if one.now != "nothing" else []
    about += [f"{', '.join(one.read_by)} will read it"] if one.read_by else []
    return f"{one.path} ({'; '.join(about)})" if about else one.path


def _listed(files: list[Output]) -> str:
    names = [_told(one) for one in files]
    if len(names) <= SHOWN:
        return ", ".join(names)
    rest = names[SHOWN:]  # what is not shown is meant as well: an acceptance holds for just these
    return f"{', '.join(names[:SHOWN])} and {len(rest):,} more ({identity(repr(rest).encode())[:6]})"


def _again(run_id: str, child: str, step: str) -> str:
    """How to do it again. A run that has ended stays as it is: another one does that."""
    name = shlex.quote(step)
    if child:
        return f"do it again in a fork of that run, which has ended: outlast fork {child} --from {name} --resume"
    return f"do it again: outlast resume {run_id} --from {name}"


def _ways(run_id: str, child: str, step: str, accept: str, files: list[Output]) -> Iterator[str]:
    name = shlex.quote(step)
    kept = sum(one.kept for one in files)
    if kept:
        some = "" if kept == len(files) else f" ({kept:,} of {len(files):,} are kept)"
        yield f"put back what was kept{some}: outlast outputs {child or run_id} --restore --step {name}"
    if accept:
        yield f"or go on without: outlast resume {run_id} --accept {shlex.quote(accept)} --why WHY"
    else:
        yield f"or go on as it is: outlast resume {run_id}"
