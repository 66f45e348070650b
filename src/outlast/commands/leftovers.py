"""What an attempt begins with and what it leaves: the declared files before and after, and what the last one left.

Order: the attempt before is looked at and dealt with (kept, put back, or a person is asked) -> the files as they
are now are kept -> the command, if it is one, is held -> the start is written with all of that -> the body runs ->
what became of the files is noted in the outcome. A crash anywhere leaves either the old start or the new one, and
each says how the files were before the step.

Whose the declared files are now, for a step that is done again because the run went back.

Such a step may find what its last attempt left and what later steps made of it: all of that was set aside, and can be
put back. It may also find what a step has written since the run went back: that is nobody's leftover. A file that is
like neither was edited by somebody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast import errors
from outlast.commands.transcript import blobs_in, kept, tail
from outlast.errors import OutlastError, Unavailable
from outlast.files import partial
from outlast.files.changes import TAIL_CHARACTERS, LeftFiles, SeenFile, blobs_of, changes, from_facts, judge, to_facts
from outlast.files.snapshot import look, look_and_keep
from outlast.flows.loading import lasting
from outlast.ledger.journal import Row, decode_header, decode_payload
from outlast.runs import journal
from outlast.runs.attempt import Ask, Attempt, Ended, Raised, StepCall
from outlast.runs.call import DAMAGED, GOOD, Call, Past
from outlast.values.codec import decode, encode, identity, path_of, text
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.execution import Execution
    from outlast.runs.step import ReadyWork, StepSpec
    from outlast.store.contract import Reading


class Wrote(NamedTuple):
    """The last that is known of a file: its digest, and whether the work that left it so was set aside."""

    digest: str
    aside: bool


class Writers:
    """Who wrote each declared file last."""

    def __init__(self, execution: Execution, facts_of: Callable[[bytes], Mapping[str, Any]]) -> None:
        self._execution, self._facts_of = execution, facts_of
        self._last: dict[Path, Wrote] = {}
        self._folders: dict[Call, Path] = {}
        store = execution.executor.home.store  # the runtime's: the execution of a plan has none
        for row in store.read(self._rows):
            self._read(row)

    def _rows(self, look: Reading) -> list[Row]:
        run = look.run_by_id(self._execution.id)
        assert run is not None
        return journal.read(look, run).rows

    def _read(self, row: Row) -> None:
        raw = row.told
        if raw is None or not any(word in raw for word in (b'"declared":', b'"files":', b'"left":')):
            return
        header, facts = decode_header(row.header), self._facts_of(raw)
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        if "declared" in facts:
            self._folders[call] = (self._execution.executor.home.project or Path.cwd()) / facts["declared"]["folder"]
        if call in self._folders:
            past = self._execution.ledger.calls.get(call)
            self._note(self._folders[call], _digests(facts), aside=past is not None and past.undone)

    def _note(self, root: Path, digests: Mapping[str, str], *, aside: bool) -> None:
        self._last |= {root / path_of(path): Wrote(digest, aside) for path, digest in digests.items()}

    def wrote(self, root: Path, facts: Mapping[str, Any]) -> None:
        """An attempt has ended: what it left is as of now."""
        self._note(root, _digests(facts), aside=False)

    def known_after(self, root: Path, paths: Iterable[str]) -> dict[str, str]:
        """How the files were last left, as far as that is known."""
        return {path: self._last[root / path].digest for path in paths if root / path in self._last}

    def before(self, root: Path, before: Mapping[str, SeenFile], now: Mapping[str, SeenFile]) -> dict[str, SeenFile]:
        """How the files were before the work that was set aside; those that are others' work now are as they are."""
        theirs = {path for path, seen in now.items() if self._is_work(root / path, seen)}
        kept = {path: seen for path, seen in before.items() if path not in theirs}
        return kept | {path: now[path] for path in theirs}

    def _is_work(self, path: Path, now: SeenFile) -> bool:
        last = self._last.get(path)
        return last is not None and not last.aside and last.digest == now.digest


def _digests(facts: Mapping[str, Any]) -> dict[str, str]:
    """What an outcome says of its files: all of them if it succeeded, those that it changed if it did not."""
    left = facts.get("left", {}).get("files", ())
    return {each["path"]: each["after"] for each in left} | dict(facts.get("files", {}))


INLINE_BYTES = 8 * 1024  # a longer list of files is a blob of its own
TAIL = "transcript"
TOLD = 5  # names of files in a line
NOTE_CHARACTERS = 400  # room for the note that says what was cut
ASKED = "the flow says that a person decides"
ENDED = "ended"  # the guard leaves this file: its time says when the processes of a dead runtime were surely gone


class DeclaredFiles:
    """The work around a step that declares files: a Python function's. A command is that and more (`step.py`)."""

    folder: Path | None = None  # that they are relative to; None: the project's
    secrets: tuple[str, ...] = ()  # that no kept file has in it

    def prepare(self, execution: Execution, attempt: Attempt) -> Raised | Ask | None:
        """Make an attempt ready. Gives why it cannot begin, or what a person has to be asked first."""
        try:
            ask = _deal_with_previous(execution, attempt)
            if ask is not None:
                return ask
            attempt.ready = self.ready(execution, attempt)
        except Unavailable as error:  # it is not the step that failed: nothing more can be kept
            execution.writer.sever(error)
        except (OutlastError, OSError) as error:
            # it leaves nothing: what the one before left is still there for the next
            if attempt.previous is not None:
                attempt.asked.left = attempt.previous
                _note(execution, attempt, "left", attempt.previous.to_dict())
            return Raised(error)
        return None

    def ready(self, execution: Execution, attempt: Attempt) -> ReadyWork | None:
        """What runs the attempt, held; None where that is a function, which is called."""
        return None

    def observe(self, execution: Execution, attempt: Attempt, ended: Ended) -> Ended:
        """Note what an attempt did to the files it declared: all of it if it succeeded, what it left if it did not."""
        try:
            if isinstance(ended, Raised):
                left = _left(execution, attempt, ended)
                attempt.asked.left = left
                _note_files(execution, attempt, "left", left.to_dict())
            elif attempt.asked.spec.writes:
                now = _kept_files(execution, attempt)
                _note_files(execution, attempt, "files", partial.digests_of(now))
                _note(execution, attempt, "outputs", partial.details_of(now))
        except Unavailable as error:
            execution.writer.sever(error)
        except OSError as error:  # the files cannot be looked at: what it did is not known
            return ended if isinstance(ended, Raised) else Raised(error)
        return ended

    def told(self, attempt: Attempt) -> tuple[str, int | None]:
        """The end of what an attempt printed, and its exit."""
        return "", None

    def root(self, home: Home) -> Path:
        """The folder that declared files are relative to: the command's own, or the project's."""
        return self.folder or home.project or Path.cwd()


def _work_of(spec: StepSpec) -> DeclaredFiles:
    assert isinstance(spec.work, DeclaredFiles)
    return spec.work


def _note_files(execution: Execution, attempt: Attempt, name: str, value: dict[str, Any]) -> None:
    _note(execution, attempt, name, value)
    if execution.writers is not None:
        execution.writers.wrote(root_of(execution.executor.home, attempt.asked.spec), {name: value})


def _kept_files(execution: Execution, attempt: Attempt) -> dict[str, SeenFile]:
    """The declared files as they are now, synced, and their content kept where that is small enough."""
    spec, blobs = attempt.asked.spec, execution.executor.home.blobs
    root = root_of(execution.executor.home, spec)
    now = look_and_keep(root, spec.writes, blobs, secrets=_work_of(spec).secrets)
    for path, seen in now.items():
        if seen.mode in ("file", "exec"):
            _sync(root / path)
    attempt.blobs += blobs_of(now)
    return now


def _sync(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # a link, or gone again: what was seen is on the record
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _left(execution: Execution, attempt: Attempt, ended: Raised) -> LeftFiles:
    tail, exit = _work_of(attempt.asked.spec).told(attempt)
    left = partial.judged(
        root_of(execution.executor.home, attempt.asked.spec),
        attempt.asked.spec.writes,
        attempt.before or {},
        attempt=attempt.number,
        status=ended.status,
        tail=tail,
        exit=exit,
        error=f"{type(ended.error).__name__}: {ended.error}",
    )
    return replace(_as_told(left, said_done=False), shared=attempt.asked.shared)


def _as_told(left: LeftFiles, *, said_done: bool) -> LeftFiles:
    """That all declared files are there says that the work is complete only if the work itself said so too."""
    return replace(left, judgement="partial") if left.judgement == "complete" and not said_done else left


# -- the attempt before ------------------------------------------------------------------------------


def _deal_with_previous(execution: Execution, attempt: Attempt) -> Ask | None:
    asked = attempt.asked
    found = previous(execution, asked, keeps=True)
    past, before = found.past, found.before
    attempt.previous = found.left
    if why := why_asked(execution, asked.spec, found):
        assert found.left is not None
        return _ask(found.left, why)
    if found.is_to_be_restored:
        try:
            _restore(execution, attempt, found)
        except (errors.EditedSince, errors.NotRestorable) as error:  # a moment ago
            assert found.left is not None
            return _ask(found.left, str(error))
        before = None
    if attempt.previous is not None and attempt.previous.status == "crashed" and past is not None:
        _note_crashed(execution, attempt.previous, past)
    attempt.before = before
    _remember(execution, attempt)
    return None


class Previous(NamedTuple):
    """The attempt before: what it left, how the files were before it, and what is to become of that."""

    past: Past | None
    left: LeftFiles | None
    before: dict[str, SeenFile] | None
    wish: str  # keep, restore, ask
    is_of_now: bool  # it was an attempt of this process, which looked at the files when it ended

    @property
    def has_left(self) -> bool:
        return self.left is not None and self.left.judgement != "none" and self.before is not None

    @property
    def is_to_be_restored(self) -> bool:
        return self.has_left and self.wish == "restore"


def previous(execution: Execution, asked: StepCall, *, keeps: bool = False, asks_git: bool = True) -> Previous:
    """The attempt before this one, as it is found now. No file is touched; with `keeps` their content is kept."""
    past = execution.previous_of(asked)
    left = asked.left or previous_of(execution.executor.home, execution.id, past, asks_git=asks_git)
    # unless that was put back or never known
    facts = asked.left_before
    if facts is None and past is not None:
        facts = facts_of(execution.executor.home, past.begun or past.payload).get("before")
    before = from_facts(facts) if facts is not None else None
    if past is not None and past.undone and before is not None and left is not None and asked.left is None:
        before, left = _set_aside(execution, asked.spec, before, left, keeps=keeps)
    return Previous(past, left, before, _wish(execution, asked, past), asked.left is not None)


def _set_aside(
    execution: Execution, spec: StepSpec, before: dict[str, SeenFile], left: LeftFiles, *, keeps: bool
) -> tuple[dict[str, SeenFile], LeftFiles]:
    """How the files were before work that was set aside, and what is left of it."""
    root = root_of(execution.executor.home, spec)
    if keeps:
        blobs = execution.executor.home.blobs
        now = look_and_keep(root, spec.writes, blobs, secrets=_work_of(spec).secrets)
    else:
        now = look(root, spec.writes)
    before = _writers(execution).before(root, before, now)
    told = replace(left, judgement=judge(spec.writes, before, now), files=changes(before, now))
    return before, _as_told(told, said_done=left.status in GOOD)


def _writers(execution: Execution) -> Writers:
    found: Writers | None = execution.writers
    if found is None:
        found = execution.writers = Writers(execution, lambda payload: facts_of(execution.executor.home, payload))
    return found


def why_asked(execution: Execution, spec: StepSpec, found: Previous) -> str:
    """Why a person is asked what becomes of what was left; nothing where nobody is."""
    if found.has_left and found.wish == "ask":
        return ASKED
    if not found.is_to_be_restored:
        return ""
    if found.left is not None and found.left.shared:
        return _whose(found.left.shared)
    try:
        assert found.before is not None
        root, blobs = root_of(execution.executor.home, spec), execution.executor.home.blobs
        partial.refuse_restore(root, spec.writes, found.before, blobs, **_known(execution, spec, found))
    except (errors.EditedSince, errors.NotRestorable) as error:
        return str(error)
    return ""


def _whose(shared: str) -> str:
    return f"parts of {shared} that are done at once declare the same files: nobody knows whose they are"


def asked_by_declaration(home: Home, run_id: str, past: Past) -> str:
    """Why a person is asked about what a step left that said so when it began; nothing where nobody is."""
    facts = facts_of(home, past.begun or past.payload)
    wish = past.decided if past.decided in ("keep", "restore") else facts.get("declared", {}).get("on_partial", "")
    shared = facts.get("declared", {}).get("shared", "")
    why = ASKED if wish == "ask" else _whose(shared) if wish == "restore" and shared else ""
    if not why or "before" not in facts:
        return ""
    left = previous_of(home, run_id, past, asks_git=False)
    return why if left is not None and left.judgement != "none" else ""


def _note_crashed(execution: Execution, left: LeftFiles, past: Past) -> None:
    """A crashed attempt wrote no receipt: what it left, and its transcript, go on the record with the next start."""
    path = work_folder(execution.executor.home, execution.id, past.call, past.attempts) / TAIL
    blobs = execution.executor.home.blobs
    printed = kept(path, path.stat().st_size, blobs, exact=True) if path.is_file() else {}
    facts = {"call": list(past.call), "attempt": past.attempts, "left": left.to_dict(), "transcript": printed}
    made = execution.writer.fact("run", "left", facts)
    execution.writer.note(made._replace(blobs=blobs_in(printed)))


def _ask(left: LeftFiles, why: str) -> Ask:
    return Ask("partial", {"left": left.to_dict(), "why": why})


def _wish(execution: Execution, asked: StepCall, past: Past | None) -> str:
    """Keep, restore or ask: what was decided for this call, said for this resume, or declared."""
    decided = past.decided if past is not None else ""
    return decided if decided in ("keep", "restore") else execution.partial or asked.spec.on_partial


def previous_of(home: Home, run_id: str, past: Past | None, *, asks_git: bool = True) -> LeftFiles | None:
    """What the last attempt of a call left: as it was noted, or, if it crashed, as it is found now."""
    if past is None or past.finished:
        return None
    facts = facts_of(home, past.payload)
    if past.last.status in (*GOOD, DAMAGED):  # it was set aside since, or its receipt is not what was stored
        printed, exit = _printed(home, facts.get("transcript") or {}), facts.get("exit")
        begun, status = facts_of(home, past.begun), past.last.status
        return _judged(home, past, begun, status, tail=printed, exit=exit, asks_git=asks_git)
    if past.last.status != "started" or "declared" not in facts:
        return LeftFiles.from_dict(facts["left"]) if "left" in facts else None
    folder = work_folder(home, run_id, past.call, past.attempts)
    printed, why = _tail(folder / TAIL), "it crashed"
    left = _judged(home, past, facts, "crashed", tail=printed, exit=None, error=why, asks_git=asks_git)
    return _as_told(left, said_done=(folder / "result.json").is_file()) if left is not None else None


def _judged(home: Home, past: Past, begun: dict[str, Any], status: str, **told: Any) -> LeftFiles | None:
    """What an attempt made of the files that it declared, by what its start says of them."""
    if "declared" not in begun:
        return None
    root, writes = (home.project or Path.cwd()) / begun["declared"]["folder"], begun["declared"]["writes"]
    before = from_facts(begun.get("before") or {})
    left = partial.judged(root, writes, before, attempt=past.attempts, status=status, **told)
    return replace(left, shared=str(begun["declared"].get("shared", "")))


def _printed(home: Home, transcript: Mapping[str, Any]) -> str:
    """The end of a transcript that is on the record."""
    if "blob" not in transcript:
        return str(transcript.get("text", ""))
    with home.blobs.opened(transcript["blob"]) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * TAIL_CHARACTERS))
        return file.read().decode(errors="replace")


def _known(execution: Execution, spec: StepSpec, found: Previous) -> dict[str, Any]:
    """What tells a file that was edited since: the digests when the attempt ended, or when it was surely over."""
    left, past = found.left, found.past
    assert left is not None
    if found.is_of_now or past is None:
        return {"known_after": left.known_after}
    if left.status == "crashed" and past.last.status == "started":
        return {"ended_at_us": _ended_at(execution, past)}
    if past.undone:
        paths = {*(found.before or ()), *(change.path for change in left.files)}
        return {"known_after": _writers(execution).known_after(root_of(execution.executor.home, spec), paths)}
    return {"known_after": left.known_after}


def _restore(execution: Execution, attempt: Attempt, found: Previous) -> None:
    spec = attempt.asked.spec
    assert found.before is not None
    done = partial.restore(
        root_of(execution.executor.home, spec),
        spec.writes,
        found.before,
        execution.executor.home.blobs,
        **_known(execution, spec, found),
        secrets=_work_of(spec).secrets,
        record=lambda saved: _displaced(execution, attempt, saved),
    )
    attempt.facts = {"restored": [text(change.path) for change in done.restored]}
    if done.saved:
        _announce(execution, attempt, done.saved)


def _displaced(execution: Execution, attempt: Attempt, saved: Mapping[str, str]) -> None:
    """What a restore is about to displace is kept and on the record before any file is touched."""
    facts = {"step": attempt.asked.call.path, "files": {text(path): blob for path, blob in saved.items()}}
    made = execution.writer.fact("run", "displaced", facts)
    execution.writer.commit(made._replace(blobs=tuple(saved.values())))


def _announce(execution: Execution, attempt: Attempt, saved: Mapping[str, str]) -> None:
    """Whoever watches is told what gave way, and how to get at it."""
    names = [text(path) for path in saved]
    more = f" and {len(names) - TOLD:,} more" if len(names) > TOLD else ""
    told = f"put back before {attempt.asked.spec.name}: what an attempt had left in {', '.join(names[:TOLD])}{more}"
    execution.executor.home.tell(f"{told} gave way and is kept: outlast displaced {execution.id}")


def _ended_at(execution: Execution, past: Past) -> int | None:
    """When the processes of a crashed attempt were surely gone, in microseconds of the wall clock."""
    group = facts_of(execution.executor.home, past.payload).get("group")
    if group is None:
        return execution.silent_at or None
    if group.get("boot_id") != execution.executor.home.process.boot_id:
        return execution.clock.now() - execution.clock.boot()
    folder = work_folder(execution.executor.home, execution.id, past.call, past.attempts)
    try:
        return (folder / ENDED).stat().st_mtime_ns // 1000
    except OSError:
        return execution.executor.home.clock.now()  # it was alive when this resume ended it


def _remember(execution: Execution, attempt: Attempt) -> None:
    """Keep the declared files as they are before the step begins; durable, so that they can be put back."""
    spec, home = attempt.asked.spec, execution.executor.home
    folder = lasting(str(root_of(home, spec)), home.project)
    declared = {"folder": folder, "writes": list(spec.writes)}
    shared = attempt.asked.shared
    declared |= {"on_partial": spec.on_partial} if shared or spec.on_partial == "ask" else {}
    declared |= {"shared": shared} if shared else {}
    attempt.facts = {**(attempt.facts or {}), "declared": declared}
    if not spec.writes:
        return
    if attempt.before is None:
        secrets = _work_of(spec).secrets
        attempt.before = look_and_keep(root_of(home, spec), spec.writes, home.blobs, secrets=secrets)
    attempt.blobs += blobs_of(attempt.before)
    attempt.asked.left_before = to_facts(attempt.before)
    _note(execution, attempt, "before", attempt.asked.left_before)


# -- facts in the journal ----------------------------------------------------------------------------


def _note(execution: Execution, attempt: Attempt, name: str, value: Any) -> None:
    """Put a fact into the attempt's next entry: there, or in a blob when it is long."""
    raw = encode(value)
    facts = attempt.facts = attempt.facts or {}
    if len(raw) <= INLINE_BYTES:
        facts[name] = value
        return
    blob = execution.executor.home.blobs.put(raw)
    facts[name] = {"blob": blob, "bytes": len(raw)}
    attempt.blobs += (blob,)


def facts_of(home: Home, payload: bytes | None) -> dict[str, Any]:
    """The facts of an entry about an attempt, with long ones read back."""
    facts = decode_payload(payload).facts if payload else None
    if not isinstance(facts, dict):
        return {}
    return {name: _whole(home, value) for name, value in facts.items()}


def _whole(home: Home, value: Any) -> Any:
    is_blob = isinstance(value, dict) and set(value) == {"blob", "bytes"}
    return decode(home.blobs.get(value["blob"])) if is_blob else value


# -- places ------------------------------------------------------------------------------------------


def root_of(home: Home, spec: StepSpec) -> Path:
    """The folder that declared files are relative to: the command's own, or the project's."""
    return _work_of(spec).root(home)


def work_folder(home: Home, run_id: str, call: Call, attempt: int) -> Path:
    """Where an attempt of a command keeps its files while it runs."""
    return home.folder / "work" / run_id / f"{identity(encode(list(call)))[:12]}-{attempt}"


def _tail(path: Path) -> str:
    return tail(path, TAIL_CHARACTERS - NOTE_CHARACTERS) if path.is_file() else ""
