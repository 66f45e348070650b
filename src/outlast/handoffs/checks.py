"""Checks: rules about files looked at, commands run on this host, and the leave without which none of them runs.

A check's command runs as the person at the keyboard would run it there, in a session of its own that is ended whole:
on timeout, on Ctrl-C, and by the guard if this process dies. Nothing here is written but the blobs that hold what
the commands printed; what is evidence is recorded by who asked for it.

Ours is what was stored here, in a home that was made here or named. Another key's actor, an imported file and a home
that was only adopted are somebody else: their commands run once a person agreed to exactly these, by digest, or trusts
the actor. Both are kept in the user's own folder (`home/ours.py`), never where a stranger could have written them.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.errors import CommandNotStarted, ForeignCommands, HandoffInvalid, Stopped
from outlast.handoffs.anchor import written
from outlast.handoffs.evidence import When, on_one_line
from outlast.handoffs.handoff import CommandCheck, Contract, Evidence, Form, Handoff, command_of, label_of, rule_of
from outlast.handoffs.musts import broken_rule, inside
from outlast.handoffs.verdict import command
from outlast.home import ours
from outlast.home.process import this_place
from outlast.ledger.verdict import Reason
from outlast.values.ambient import begin
from outlast.values.codec import digest, encode, readable
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.commands import process, transcript
    from outlast.handoffs.anchor import FoundHandoff
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor
else:  # to look at files takes nothing of what runs commands
    process, transcript = late("outlast.commands.process"), late("outlast.commands.transcript")

CHECK_SECONDS = 600.0  # for a check that does not say how long it may take
_DEEPEST = 8  # a check that has its own handoff checked would go on for ever
# A check is no step of the run that may be around it, does not act for the claimer (what it prints is kept for
# everybody to read), and is about the repository it runs in.
_NOT_PASSED_ON = re.compile(
    "OUTLAST_(RUN|STEP|ATTEMPT|ITERATION|KEY|RESULT|ENVELOPE|REFUSED|HANDOFF|ANSWER|PREVIOUS|CLAIM)"
    "|GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX|NAMESPACE|COMMON_DIR|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES)"
)


# -- running checks ----------------------------------------------------------------------------------


class _Done(NamedTuple):
    """What came of one check, before it is evidence."""

    passed: bool
    note: str = ""
    exit: int | None = None
    seconds: float = 0.0
    output: str = ""


def run_checks(
    executor: Executor,
    forms: Sequence[Form],
    root: Path,
    *,
    when: When,
    by: str,
    stop: Callable[[], bool] | None = None,
    between: Callable[[], None] | None = None,
) -> list[Evidence]:
    """What comes of each check, in order, with what it printed durable as a blob.

    A check that cannot be started has failed. Raises Stopped when `stop()` is true; that, and whatever is raised in
    this thread meanwhile, ends the check under way with all it started. Nothing is given then. `between` is called
    after each check, the last one too: many checks take longer than a claim lasts that nobody uses.
    """
    found = []
    for place, form in enumerate(forms, 1):
        if stop is not None and stop():
            raise Stopped
        executor.home.tell(f"check {place} of {len(forms)}: {on_one_line(label_of(form))}")
        done, at, where = _check(executor, form, root, stop)._asdict(), executor.home.clock.now(), this_place()[0]
        found.append(Evidence(check=form, **done, at=at, by=by, where=where, runner="runner", when=when))
        if between is not None:
            between()
    return found


def _check(executor: Executor, form: Form, root: Path, stop: Callable[[], bool] | None) -> _Done:
    command = command_of(form)
    if command is not None:
        try:
            return _run(executor, command, root, stop)
        except CommandNotStarted as error:
            return _Done(False, readable(f"could not be started: {error.why}"))
    rule = rule_of(form)
    if rule is None:
        return _Done(False, "could not be started: it is neither a command nor a rule about a file")
    wrong = broken_rule(root, rule)
    return _Done(not wrong, f"{on_one_line(rule.file)} {wrong}" if wrong else "")


def _run(executor: Executor, command: CommandCheck, root: Path, stop: Callable[[], bool] | None) -> _Done:
    timeout = CHECK_SECONDS if command.timeout_seconds is None else command.timeout_seconds
    ended, printed = _run_to_end(executor, command, _folder(command, root), timeout, stop)
    if ended.how == "stopped":
        raise Stopped
    in_time, content = ended.how == "exited", printed.content()
    return _Done(
        in_time and ended.exit == command.exit,
        "; ".join((*_notes(ended, timeout), *content.notes())),
        ended.exit if in_time else None,  # else it is our signal's
        round(ended.seconds, 3),
        executor.home.blobs.put(content.kept) if content.kept else "",
    )


def _notes(ended: process.CommandEnd, timeout: float) -> Iterator[str]:
    if ended.how == "timed_out":
        yield f"timed out after {timeout:g} s"
    elif ended.exit is None:
        yield "its exit code was taken by another part of this process"
    if ended.stragglers:
        yield f"ended what it left in the background ({_processes(len(ended.stragglers))})"
    if ended.left:
        yield f"{_processes(ended.left)} could not be ended"


def _folder(command: CommandCheck, root: Path) -> Path:
    """Where it runs. Raises CommandNotStarted for a folder that is not inside the root."""
    folder = root / (command.cwd or "")
    try:
        real = os.path.realpath(folder)
        within = inside(os.path.realpath(root), real)
    except (OSError, ValueError) as error:
        raise CommandNotStarted(command.run, f"its folder {command.cwd!r} cannot be read ({error})") from error
    if not within:
        raise CommandNotStarted(command.run, f"its folder {command.cwd!r} leaves the root")
    return Path(real)


def _environment(command: CommandCheck) -> dict[str, str]:
    """Our own, and OUTLAST_CHECK: how deep checks are in checks. Raises CommandNotStarted when they have no end."""
    around = os.environ.get("OUTLAST_CHECK", "")
    depth = 1 + (int(around) if re.fullmatch(r"[0-9]{1,4}", around) else 0)
    if depth > _DEEPEST:
        raise CommandNotStarted(command.run, f"checks run checks, {_DEEPEST} deep: one of them has itself checked")
    env = {name: value for name, value in os.environ.items() if not _NOT_PASSED_ON.fullmatch(name)}
    return env | {"OUTLAST_CHECK": str(depth)}


def _run_to_end(
    executor: Executor, command: CommandCheck, folder: Path, timeout: float, stop: Callable[[], bool] | None
) -> tuple[process.CommandEnd, transcript.Printed]:
    env = _environment(command)
    try:
        printed = transcript.Printed(executor.home.secrets.rules)
    except OSError as error:
        raise CommandNotStarted(command.run, f"its output cannot be taken ({error})") from error
    try:
        held = process.hold(command.run, cwd=folder, env=env, output=printed.writer)
    except BaseException:
        printed.close()
        raise
    try:
        # a folder that is never made: nobody asks for the word
        executor.live.guard.watch(held.group.pgid, executor.home.folder / "work" / "check")
        printed.begin()
        held.go()
        return _wait(executor.home, held, timeout, stop), printed
    finally:
        with suppress(CommandNotStarted):  # it may never have been let go; nothing of it goes on, whatever came between
            held.wait(0, patience=executor.home.settings.patience_seconds)
        held.drop()
        executor.live.guard.release(held.group.pgid)
        printed.close()


def _wait(home: Home, held: process.HeldCommand, timeout: float, stop: Callable[[], bool] | None) -> process.CommandEnd:
    """How it ended. What is raised in this thread asks it to end; a second time, at once.

    It is waited for in another thread: there a Ctrl-C cannot be taken for a part of the waiting, and is never lost.
    """
    asked, over = threading.Event(), threading.Event()
    came: list[process.CommandEnd | BaseException] = []

    def wait() -> None:
        try:
            wanted = lambda: asked.is_set() or (stop is not None and stop())  # noqa: E731
            came.append(held.wait(timeout, wanted, patience=home.settings.patience_seconds))
        except BaseException as error:
            came.append(error)
        finally:
            over.set()

    begin(threading.Thread(target=wait, name="check", daemon=True), "waiting for a check")
    raised = _until(over, asked, lambda: process.end_group(held.group, home.process, 0))
    for error in (raised, came[0]):
        if isinstance(error, BaseException):
            raise error
    assert isinstance(came[0], process.CommandEnd)
    return came[0]


def _until(over: threading.Event, asked: threading.Event, hurry: Callable[[], object]) -> BaseException | None:
    """Wait until it is over; what was raised first meanwhile."""
    raised: BaseException | None = None
    while not over.is_set():
        try:
            over.wait()
        except BaseException as error:
            asked.set()
            if raised is not None:
                hurry()
            raised = raised or error
    return raised


def _processes(number: int) -> str:
    return f"{number} process{'es' if number > 1 else ''}"


# -- commands of others ------------------------------------------------------------------------------


class Leave(NamedTuple):
    """That the commands with this digest may run. Whoever runs checks compares it with what is to run."""

    digest: str


class Stranger(NamedTuple):
    """Why commands are somebody else's, and the name under which the user may trust who stored them."""

    why: str
    name: str = ""  # "": no name vouches for them


# -- what there is to agree to -----------------------------------------------------------------------


def digest_of(about: Contract) -> str:
    """What is agreed to: every check in its order, with its command, folder, exit and time, or its file and rule."""
    return digest(encode([_form(form) for form in about.acceptance_checks]))


def _form(form: str | dict[str, object]) -> list[object]:
    asked = command_of(form)
    if asked is not None:
        return ["run", asked.run, asked.cwd, asked.exit, asked.timeout_seconds]
    rule = rule_of(form)
    return ["file", rule.file, rule.rule, rule.value] if rule else ["none"]


def has_commands(about: Contract) -> bool:
    """Whether anything would run; rules about files are only looked at."""
    return any(command_of(form) is not None for form in about.acceptance_checks)


def shown(about: Contract) -> str:
    """Every check in full, a line each; what cannot be printed, or would hide something, is escaped."""
    return "\n".join(_lines(about))


def _lines(about: Contract) -> Iterator[str]:
    for number, form in enumerate(about.acceptance_checks, 1):
        asked, rule = command_of(form), rule_of(form)
        if asked is not None:
            timeout = "" if asked.timeout_seconds is None else f", timeout {asked.timeout_seconds:g} s"
            yield f"  {number}. run {asked.run!r} in {asked.cwd or '.'!r}, exit {asked.exit}{timeout}"
        elif rule is not None:
            yield f"  {number}. look at {rule.file!r}: {rule.rule}{f' {rule.value!r}' if rule.value else ''}"


# -- whose they are ----------------------------------------------------------------------------------


def foreign_to(caller: Caller, found: FoundHandoff | None) -> str:
    """Why the commands of a recorded handoff may not run here unasked; "" when they may, or there are none.

    Of a server, which runs none: why they are not those of who asks. What he agreed to is known where he is.
    """
    stranger = _stranger(caller, found) if found is not None and has_commands(found.handoff) else None
    if found is None or stranger is None:
        return ""
    return stands_against(found.handoff, stranger) if caller.looks else stranger.why


def _stranger(caller: Caller, found: FoundHandoff) -> Stranger | None:
    """Who else wrote them, as the record shows; None when that was done here. A hook only carries them on."""
    wrote = caller.home.store.read(lambda look: written(look, found)) if found.handoff.source == "hook" else found
    if wrote is None:
        return Stranger("who wrote them cannot be told: a revision before this one cannot be read")
    stored, served = wrote.handoff, bool(caller.key_id) and caller.looks
    if wrote.arrived:
        return Stranger("they were imported from a file")
    if stored.key_id and (served or stored.actor != caller.actor):  # on a server no key's actor is at home
        return Stranger(f"they were stored by {stored.actor!r}, over HTTP by key {stored.key_id}", stored.actor)
    if not caller.looks:
        return Stranger(f"they were stored by {stored.actor!r}") if stored.actor != caller.actor else None
    return Stranger("they are in a home that was not made here") if caller.home.adopted else None


def stands_against(about: Contract, stranger: Stranger) -> str:
    """Why commands of somebody else may not run; "" when they are agreed to, stored from here, or he is trusted."""
    mark = digest_of(about).encode()
    if mark in ours.lines(ours.AGREED) or mark in ours.lines(ours.STORED):
        return ""
    return "" if stranger.name and stranger.name in ours.trusted() else stranger.why


def note_of(about: Handoff, why: str, *words: str) -> Reason | None:
    """The reason that says so beside the verdict; None when nothing stands against them."""
    if not why:
        return None
    mark = digest_of(about)
    found = f"{why}; their digest is {mark}"
    advice = f"read them; to run exactly these: {agreeing(about, mark, *words)}"
    return Reason("foreign_commands", about.anchor, "yours, or agreed to", found, advice)


# -- leave -------------------------------------------------------------------------------------------


def own(about: Contract) -> Leave:
    """Leave for what the caller himself gives in this call."""
    return Leave(digest_of(about))


def leave(caller: Caller, found: FoundHandoff | None, about: Handoff, agree: str | None) -> Leave:
    """Leave for the commands of a recorded handoff. Raises ForeignCommands."""
    if not caller.looks:  # a server runs none
        return own(about)
    return given(about, foreign_to(caller, found), agree)


def given(about: Handoff, why: str, agree: str | None, *words: str) -> Leave:
    """Leave for commands that are somebody else's if there is a `why`. Raises ForeignCommands.

    What is agreed to is remembered. Having agreed to other commands than those that are there is refused in any case.
    """
    mark = digest_of(about)
    if agree is not None and agree != mark:
        raise _refused(about, mark, f"what was agreed to is {agree!r:.100}", words)
    if why and agree is None:
        raise _refused(about, mark, why, words)
    if why:
        ours.add(ours.AGREED, mark.encode())
    return Leave(mark)


def _refused(about: Handoff, mark: str, why: str, words: tuple[str, ...]) -> ForeignCommands:
    return ForeignCommands(about.anchor, why, shown(about), mark, agreeing(about, mark, *words))


def agreeing(about: Handoff, mark: str, *words: str) -> str:
    """The command by which a person agrees to these commands, and runs them."""
    return command(about, "verify", "--agree", mark, *words)


def stored_here(about: Contract) -> None:
    """Remember that this user handed these commands over himself: they are his wherever they come back from."""
    if has_commands(about):
        ours.add(ours.STORED, digest_of(about).encode())


def check_agree(agree: str | None, *, runs: bool) -> None:
    """Raises HandoffInvalid for an agreement that is none, or where nothing is run."""
    if agree is None:
        return
    if not isinstance(agree, str) or not agree:
        raise HandoffInvalid("agree", "it is no digest", "give the digest that was shown with the commands")
    if not runs:
        raise HandoffInvalid("agree", "no check is run by this call", "leave it out, or let the checks run")
