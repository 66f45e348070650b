"""What an attempt begins with and what it leaves: the declared files before and after, and what the last one left.

Order: the attempt before is looked at and dealt with (kept, put back, or a person is asked) -> the files as they
are now are kept -> the command, if it is one, is held -> the start is written with all of that -> the body runs ->
what became of the files is noted in the outcome. A crash anywhere leaves either the old start or the new one, and
each says how the files were before the step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.commands.writers import Writers
from outlast.errors import EditedSince, NotRestorable, OutlastError, Unavailable
from outlast.files import outputs, partial
from outlast.files.changes import TAIL_CHARACTERS, Left, Seen, changes, judge, text
from outlast.flows.loading import lasting
from outlast.ledger.journal import decode_payload
from outlast.runs.attempt import Ask, Asked, Attempt, Ended, Raised, Returned
from outlast.runs.call import GOOD, Call, Past
from outlast.values.codec import decode, encode
from outlast.values.digest import identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.flows.spec import StepSpec
    from outlast.home.home import Runtime
    from outlast.runs.execution import Execution

INLINE_BYTES = 8 * 1024  # a longer list of files is a blob of its own
TAIL = "transcript"
TOLD = 5  # names of files in a line
NOTE_CHARACTERS = 400  # room for the note that says what was cut
ASKED = "the flow says that a person decides"
ENDED = "ended"  # the guard leaves this file: its time says when the processes of a dead runtime were surely gone


def prepare(execution: Execution, attempt: Attempt) -> Raised | Ask | None:
    """Make an attempt ready. Gives why it cannot begin, or what a person has to be asked first."""
    spec = attempt.asked.spec
    try:
        ask = _deal_with_previous(execution, attempt)
        if ask is not None:
            return ask
        if spec.work is not None:
            attempt.work = spec.work.ready(execution, attempt)
    except Unavailable as error:  # it is not the step that failed: nothing more can be kept
        execution.pen.sever(error)
    except (OutlastError, OSError) as error:
        _pass_on(execution, attempt)
        return Raised(error)
    return None


def _pass_on(execution: Execution, attempt: Attempt) -> None:
    """An attempt that cannot begin leaves nothing: what the one before left is still there for the next."""
    if attempt.previous is not None:
        attempt.asked.left = attempt.previous
        _note(execution, attempt, "left", attempt.previous.to_dict())


def observe(execution: Execution, attempt: Attempt, ended: Ended) -> Ended:
    """Note what an attempt did to the files it declared: all of it if it succeeded, what it left if it did not."""
    try:
        if isinstance(ended, Returned):
            if attempt.asked.spec.writes:
                now = _kept_files(execution, attempt)
                _note_files(execution, attempt, "files", outputs.digests_of(now))
                _note(execution, attempt, "outputs", outputs.details_of(now))
        else:
            left = _left(execution, attempt, ended)
            attempt.asked.left = left
            _note_files(execution, attempt, "left", left.to_dict())
    except Unavailable as error:
        execution.pen.sever(error)
    except OSError as error:  # the files cannot be looked at: what it did is not known
        return ended if isinstance(ended, Raised) else Raised(error)
    return ended


def _note_files(execution: Execution, attempt: Attempt, name: str, value: dict[str, Any]) -> None:
    _note(execution, attempt, name, value)
    if execution.writers is not None:
        execution.writers.wrote(root_of(execution.runtime, attempt.asked.spec), {name: value})


def _kept_files(execution: Execution, attempt: Attempt) -> dict[str, Seen]:
    """The declared files as they are now, synced, and their content kept where that is small enough."""
    spec, blobs = attempt.asked.spec, execution.runtime.blobs
    root, secrets = root_of(execution.runtime, spec), spec.work.secrets if spec.work is not None else ()
    now = partial.look_and_keep(root, spec.writes, blobs, secrets=secrets)
    for path, seen in now.items():
        if seen.mode in ("file", "exec"):
            _sync(root / path)
    attempt.blobs += partial.blobs_of(now)
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


def _left(execution: Execution, attempt: Attempt, ended: Raised) -> Left:
    work = attempt.work
    left = partial.judged(
        root_of(execution.runtime, attempt.asked.spec),
        attempt.asked.spec.writes,
        attempt.before or {},
        attempt=attempt.number,
        status=ended.status,
        tail=work.tail() if work is not None else "",
        exit=work.exit if work is not None else None,
        error=f"{type(ended.error).__name__}: {ended.error}",
    )
    return _as_told(left, said_done=False)


def _as_told(left: Left, *, said_done: bool) -> Left:
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
        except (EditedSince, NotRestorable) as error:  # a moment ago
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
    left: Left | None
    before: dict[str, Seen] | None
    wish: str  # keep, restore, ask
    is_of_now: bool  # it was an attempt of this process, which looked at the files when it ended

    @property
    def has_left(self) -> bool:
        return self.left is not None and self.left.judgement != "none" and self.before is not None

    @property
    def is_to_be_restored(self) -> bool:
        return self.has_left and self.wish == "restore"


def previous(execution: Execution, asked: Asked, *, keeps: bool = False) -> Previous:
    """The attempt before this one, as it is found now. No file is touched; with `keeps` their content is kept."""
    past = execution.previous_of(asked)
    left = asked.left or previous_of(execution.runtime, execution.id, past)
    before = _before(execution, asked, past)
    if past is not None and past.aside and before is not None and left is not None and asked.left is None:
        before, left = _set_aside(execution, asked.spec, before, left, keeps=keeps)
    return Previous(past, left, before, _wish(execution, asked, past), asked.left is not None)


def _set_aside(
    execution: Execution, spec: StepSpec, before: dict[str, Seen], left: Left, *, keeps: bool
) -> tuple[dict[str, Seen], Left]:
    """How the files were before work that was set aside, and what is left of it."""
    root, secrets = root_of(execution.runtime, spec), spec.work.secrets if spec.work is not None else ()
    if keeps:
        now = partial.look_and_keep(root, spec.writes, execution.runtime.blobs, secrets=secrets)
    else:
        now = partial.look(root, spec.writes)
    before = _writers(execution).before(root, before, now)
    told = replace(left, judgement=judge(spec.writes, before, now), files=changes(before, now))
    return before, _as_told(told, said_done=left.status in GOOD)


def _writers(execution: Execution) -> Writers:
    found: Writers | None = execution.writers
    if found is None:
        found = execution.writers = Writers(execution, lambda payload: facts_of(execution.runtime, payload))
    return found


def why_asked(execution: Execution, spec: StepSpec, found: Previous) -> str:
    """Why a person is asked what becomes of what was left; nothing where nobody is."""
    if found.has_left and found.wish == "ask":
        return ASKED
    if not found.is_to_be_restored:
        return ""
    try:
        assert found.before is not None
        root, blobs = root_of(execution.runtime, spec), execution.runtime.blobs
        partial.refuse_restore(root, spec.writes, found.before, blobs, **_known(execution, spec, found))
    except (EditedSince, NotRestorable) as error:
        return str(error)
    return ""


def asked_by_declaration(runtime: Runtime, run_id: str, past: Past) -> str:
    """Why a person is asked about what a step left that said so when it began; nothing where nobody is."""
    facts = facts_of(runtime, past.begun or past.payload)
    wish = past.decided if past.decided in ("keep", "restore") else facts.get("declared", {}).get("on_partial", "")
    if wish != "ask" or "before" not in facts:
        return ""
    left = previous_of(runtime, run_id, past)
    return ASKED if left is not None and left.judgement != "none" else ""


def _note_crashed(execution: Execution, left: Left, past: Past) -> None:
    """A crashed attempt wrote no receipt: what it left, and its transcript, go on the record with the next start."""
    path = work_folder(execution.runtime, execution.id, past.call, past.attempts) / TAIL
    blob = execution.runtime.blobs.adopt(path) if path.is_file() else ""
    facts = {"call": list(past.call), "attempt": past.attempts, "left": left.to_dict(), "transcript": blob}
    made = execution.pen.fact("run", "left", facts)
    execution.pen.note(made._replace(blobs=(blob,)) if blob else made)


def _ask(left: Left, why: str) -> Ask:
    return Ask("partial", {"left": left.to_dict(), "why": why})


def _wish(execution: Execution, asked: Asked, past: Past | None) -> str:
    """Keep, restore or ask: what was decided for this call, said for this resume, or declared."""
    decided = past.decided if past is not None else ""
    return decided if decided in ("keep", "restore") else execution.partial or asked.spec.on_partial


def _before(execution: Execution, asked: Asked, past: Past | None) -> dict[str, Seen] | None:
    """How the files were before the step's first attempt, unless that was put back or never known."""
    facts = asked.left_before
    if facts is None and past is not None:
        facts = facts_of(execution.runtime, past.begun or past.payload).get("before")
    return partial.from_facts(facts) if facts is not None else None


def previous_of(runtime: Runtime, run_id: str, past: Past | None) -> Left | None:
    """What the last attempt of a call left: as it was noted, or, if it crashed, as it is found now."""
    if past is None or past.finished:
        return None
    facts = facts_of(runtime, past.payload)
    if past.last.status in GOOD:
        return _done(runtime, past, facts)
    if past.last.status != "started" or "declared" not in facts:
        return Left.from_dict(facts["left"]) if "left" in facts else None
    folder = work_folder(runtime, run_id, past.call, past.attempts)
    before = partial.from_facts(facts.get("before") or {})
    tail = _tail(folder / TAIL)
    left = partial.judged(
        (runtime.project or Path.cwd()) / facts["declared"]["folder"],
        facts["declared"]["writes"],
        before,
        attempt=past.attempts,
        status="crashed",
        tail=tail,
        exit=None,
        error="it crashed",
    )
    return _as_told(left, said_done=(folder / "result.json").is_file())


def _done(runtime: Runtime, past: Past, facts: dict[str, Any]) -> Left | None:
    """What an attempt made that succeeded and was set aside since."""
    begun = facts_of(runtime, past.begun)
    if "declared" not in begun:
        return None
    return partial.judged(
        (runtime.project or Path.cwd()) / begun["declared"]["folder"],
        begun["declared"]["writes"],
        partial.from_facts(begun.get("before") or {}),
        attempt=past.attempts,
        status=past.last.status,
        tail=_printed(runtime, facts.get("transcript") or {}),
        exit=facts.get("exit"),
    )


def _printed(runtime: Runtime, transcript: Mapping[str, Any]) -> str:
    """The end of a transcript that is on the record."""
    if "blob" not in transcript:
        return str(transcript.get("text", ""))
    with runtime.blobs.opened(transcript["blob"]) as file:
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
    if past.aside:
        paths = {*(found.before or ()), *(change.path for change in left.files)}
        return {"known_after": _writers(execution).known_after(root_of(execution.runtime, spec), paths)}
    return {"known_after": left.known_after}


def _restore(execution: Execution, attempt: Attempt, found: Previous) -> None:
    spec = attempt.asked.spec
    assert found.before is not None
    done = partial.restore(
        root_of(execution.runtime, spec),
        spec.writes,
        found.before,
        execution.runtime.blobs,
        **_known(execution, spec, found),
        secrets=spec.work.secrets if spec.work is not None else (),
        record=lambda saved: _displaced(execution, attempt, saved),
    )
    attempt.facts = {"restored": [text(change.path) for change in done.restored]}
    if done.saved:
        _announce(execution, attempt, done.saved)


def _displaced(execution: Execution, attempt: Attempt, saved: Mapping[str, str]) -> None:
    """What a restore is about to displace is kept and on the record before any file is touched."""
    label = attempt.asked.call.path
    facts = {"step": label, "files": {text(path): blob for path, blob in saved.items()}}
    made = execution.pen.fact("run", "displaced", facts)
    with execution.pen.lock:
        queued = execution.pen.queue(made._replace(blobs=tuple(saved.values())))
    execution.pen.write(queued)


def _announce(execution: Execution, attempt: Attempt, saved: Mapping[str, str]) -> None:
    """Whoever watches is told what gave way, and how to get at it."""
    names = [text(path) for path in saved]
    more = f" and {len(names) - TOLD:,} more" if len(names) > TOLD else ""
    told = f"put back before {attempt.asked.spec.name}: what an attempt had left in {', '.join(names[:TOLD])}{more}"
    execution.runtime.tell(f"{told} gave way and is kept: outlast displaced {execution.id}")


def _ended_at(execution: Execution, past: Past | None) -> int | None:
    """When the processes of a crashed attempt were surely gone, in microseconds of the wall clock."""
    if past is None:
        return None
    folder = work_folder(execution.runtime, execution.id, past.call, past.attempts)
    facts = facts_of(execution.runtime, past.payload)
    group = facts.get("group")
    if group is None:
        return execution.silent_at or None
    if group.get("boot_id") != execution.runtime.process.boot_id:
        return execution.clock.now() - execution.clock.boot()
    try:
        return (folder / ENDED).stat().st_mtime_ns // 1000
    except OSError:
        return execution.runtime.clock.now()  # it was alive when this resume ended it


def _remember(execution: Execution, attempt: Attempt) -> None:
    """Keep the declared files as they are before the step begins; durable, so that they can be put back."""
    spec, runtime = attempt.asked.spec, execution.runtime
    folder = lasting(str(root_of(runtime, spec)), runtime.project)
    declared = {"folder": folder, "writes": list(spec.writes)}
    declared |= {"on_partial": spec.on_partial} if spec.on_partial == "ask" else {}
    attempt.facts = {**(attempt.facts or {}), "declared": declared}
    if not spec.writes:
        return
    if attempt.before is None:
        secrets = spec.work.secrets if spec.work is not None else ()
        attempt.before = partial.look_and_keep(
            root_of(execution.runtime, spec), spec.writes, execution.runtime.blobs, secrets=secrets
        )
    attempt.blobs += partial.blobs_of(attempt.before)
    attempt.asked.left_before = partial.to_facts(attempt.before)
    _note(execution, attempt, "before", attempt.asked.left_before)


# -- facts in the journal ----------------------------------------------------------------------------


def _note(execution: Execution, attempt: Attempt, name: str, value: Any) -> None:
    """Put a fact into the attempt's next entry: there, or in a blob when it is long."""
    raw = encode(value)
    facts = attempt.facts = attempt.facts or {}
    if len(raw) <= INLINE_BYTES:
        facts[name] = value
        return
    blob = execution.runtime.blobs.put(raw)
    facts[name] = {"blob": blob, "bytes": len(raw)}
    attempt.blobs += (blob,)


def facts_of(runtime: Runtime, payload: bytes | None) -> dict[str, Any]:
    """The facts of an entry about an attempt, with long ones read back."""
    facts = decode_payload(payload).facts if payload else None
    if not isinstance(facts, dict):
        return {}
    return {name: _whole(runtime, value) for name, value in facts.items()}


def _whole(runtime: Runtime, value: Any) -> Any:
    is_blob = isinstance(value, dict) and set(value) == {"blob", "bytes"}
    return decode(runtime.blobs.get(value["blob"])) if is_blob else value


# -- places ------------------------------------------------------------------------------------------


def root_of(runtime: Runtime, spec: StepSpec) -> Path:
    """The folder that declared files are relative to: the command's own, or the project's."""
    folder: Path = spec.work.folder if spec.work is not None else runtime.project or Path.cwd()
    return folder


def work_folder(runtime: Runtime, run_id: str, call: Call, attempt: int) -> Path:
    """Where an attempt of a command keeps its files while it runs."""
    return runtime.folder / "work" / run_id / f"{identity(encode(list(call)))[:12]}-{attempt}"


def _tail(path: Path) -> str:
    from outlast.commands.transcript import tail

    return tail(path, TAIL_CHARACTERS - NOTE_CHARACTERS) if path.is_file() else ""
