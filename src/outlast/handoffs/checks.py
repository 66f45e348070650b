"""Checks: rules about files looked at, commands run on this host. Whose commands may is said in foreign.py.

A check's command runs as the person at the keyboard would run it there, in a session of its own that is ended whole:
on timeout, on Ctrl-C, and by the guard if this process dies. Nothing here is written but the blobs that hold what
the commands printed; what is evidence is recorded by who asked for it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.errors import CommandNotStarted, Stopped
from outlast.handoffs.evidence import When, on_one_line
from outlast.handoffs.handoff import CommandCheck, Evidence, Form, command_of, label_of, rule_of
from outlast.handoffs.musts import broken_rule, inside
from outlast.home.process import this_place
from outlast.values.ambient import begin
from outlast.values.codec import readable
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.commands import process, transcript
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
