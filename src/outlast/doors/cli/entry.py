"""One command from its words to its exit code: errors as text or JSON, signals, closed pipes.

Only click and the errors are imported before a command is known, so that `outlast --help` starts fast.

As process 1 of a container: be its init, and let a child be the command. The kernel keeps signals from process 1 that
it does not handle, and leaves it every orphan to bury.

Exit codes: one table for errors, one for how a run stands. And advice in the words of the command line.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from outlast import errors
from outlast.doors.cli.group import cli
from outlast.doors.cli.render import CLOSED, emit, note, note_all
from outlast.errors import OutlastError, filled
from outlast.values.text import meant

if TYPE_CHECKING:
    from outlast import Outcome
    from outlast.doors.cli.invocation import Invocation

HEARD = {signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}


def run_command(arguments: Sequence[str]) -> NoReturn:
    """Run one command and exit with its code."""
    if os.getpid() == 1:
        stay_in_front()
    given = list(arguments)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(given, as_json="--json" in given)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        code = BROKEN_PIPE
    except OSError as error:  # a full disk behind stdout: what the command did is done all the same
        _forget_output()
        note(f"error: the output cannot be written: {error.strerror or error}")
        code = FAILED
    sys.exit(code)


def _open_streams() -> None:
    """Where a caller closed a stream, nothing is read or written: no file of ours may be opened in its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            CLOSED.add(name)
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115


def _run(given: list[str], *, as_json: bool) -> int:
    try:
        return _invoke(given)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return _usage(error, as_json)
    except OutlastError as error:
        if as_json:
            emit({"error": _told_as_data(error)})
        else:
            for text in (f"error: {_pasted(told(error))} [{error.code}]", *getattr(error, "__notes__", ())):
                note_all(text)
        return exit_code(error)
    except (KeyboardInterrupt, click.Abort):
        if as_json:
            advice = "run the same command again"
            emit({"error": {"code": "interrupted", "detail": "interrupted", "advice": advice, "path": None}})
        else:
            note("interrupted; run the same command again")
        return INTERRUPTED


def _told_as_data(error: OutlastError) -> dict[str, Any]:
    """The error's fields, with the advice of a command line, its commands ready to be copied."""
    fields = error.to_dict()
    told = {"detail": fields["detail"], "advice": advice_of(error) or fields["advice"]}
    return fields | {name: _pasted(text) for name, text in told.items() if text}


def _pasted(text: str) -> str:
    """The text, its commands on the home that the command under way was to look at."""
    return ASKED[0].pasted(text) if ASKED else text


def _invoke(given: list[str]) -> int:
    """What click's own `main` does, without its handling of interrupts and closed pipes."""
    if "_OUTLAST_COMPLETE" in os.environ:
        cli.main(args=given, prog_name="outlast")
    with cli.make_context("outlast", list(given)) as context:
        return int(cli.invoke(context) or 0)


def _usage(error: click.ClickException, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    advice = f"see `{context.command_path if context else 'outlast'} --help`"
    if as_json:
        emit({"error": {"code": "usage", "detail": _said(error), "advice": advice, "path": None}})
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
    else:
        note(f"error: {_said(error)}")
        note(advice)
    return error.exit_code


def _said(error: click.ClickException) -> str:
    """What is wrong with the words that were given; of a word that is none of some, the one that was meant."""
    said = error.format_message().replace("\n\t", " ")  # click puts each choice on a line of its own
    kind = getattr(getattr(error, "param", None), "type", None)
    found = re.search(r"'([^']*)' is not one of ", said)
    if not isinstance(kind, click.Choice) or found is None:
        return said
    return f"{said} {meant(found[1], map(str, kind.choices))}".rstrip()


def _forget_output() -> None:
    """Nobody reads on: let the interpreter's last flush go nowhere instead of into a traceback."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())


def stay_in_front() -> None:
    """Return in a child of this process, which is process 1: the child is to be the command.

    Process 1 passes signals on, buries the dead, and exits with the child's code: then the kernel ends what is left.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return
    while (code := _bury(child)) is None:
        heard = signal.sigwaitinfo(HEARD)
        if heard.si_signo != signal.SIGCHLD and heard.si_code <= 0:  # else it is a terminal's, and the child has it too
            os.kill(child, heard.si_signo)
    os._exit(code)


def _bury(child: int) -> int | None:
    """Reap whoever is dead; the exit code of the child if that is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended


# -- exit codes --------------------------------------------------------------------------------------


SUCCEEDED, FAILED, USAGE, WAITING, REFUSED, MISSING, ABORTED = range(7)
INTERRUPTED, BROKEN_PIPE, TERMINATED, HUNG_UP = 130, 141, 143, 129
# By the name of a class, so that no kind is imported for it. The most special one that fits wins.
OF_ERRORS = {
    "AmbiguousPrefix": USAGE,  # choose one
    "StepAmbiguous": USAGE,
    "HandoffAmbiguous": USAGE,
    "RunWaiting": WAITING,
    "RunAborted": ABORTED,
    "TaskAborted": ABORTED,
    "RunInterrupted": INTERRUPTED,
    "NotFound": MISSING,
    "Conflict": REFUSED,
    "Refused": REFUSED,
    "Invalid": USAGE,
    "Unavailable": FAILED,
    "WorkFailed": FAILED,
}
OF_STATUS = {
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "waiting": WAITING,
    "queued": WAITING,
    "aborted": ABORTED,
    "interrupted": INTERRUPTED,
}
DECISIONS = ("in_doubt", "inputs_changed", "crash_loop", "partial")  # about work that may be done already
MAKE_A_HOME = (
    "these make one: `outlast run`, `import`, `session append`, `workspace save`, `workspace record`, `task open`, "
    "`task pause`, `handoff store`, `handoff import`, `schedule add`, `limit set`, `notify add`, `keys create`, "
    "`work`, `serve`; or name the home with --home or OUTLAST_HOME"
)
# Where an error's own advice speaks of Python, this says the same for the command line.
ADVICE = {
    "AlreadyAnswered": "see `outlast show {run}`; if it has not gone on since: `outlast resume {run}`",
    "Contested": "see `outlast resume {run} --dry-run`; mend what is named, or take it upon you: "
    "`outlast resume {run} --accept CODE[:SUBJECT] --why WHY`",
    "InputsConflict": "use the same inputs, another --task, or {flag}",
    "TaskAborted": "to have it happen after all: the same command with --again",
    "TaskDeclined": "to ask again: the same command with --again",
    "RepeatsEffects": "say so if it may happen again: --yes, or --effects NAME,NAME",
    "InterruptNotFound": "`outlast inbox` lists the open ones",
    "HomeNotFound": MAKE_A_HOME,
    "RunHeld": "wait for it: `outlast run … --wait`; or stop that worker (a dead one is taken over at once); if it is "
    "a claim of yours, show it: OUTLAST_CLAIM=ID; or take it over: `outlast resume {run} --take --why WHY`",
    "HandoffClaimed": "wait for it; if the claim is yours, show it: --claim-id ID or OUTLAST_CLAIM=ID; "
    "or take it over: `outlast handoff claim --take --why WHY {anchor!q}`",
    "HandoffContested": "mend what is named, or take it upon you: the same command with --accept CODE[:SUBJECT] "
    "--why WHY",
    "HandoffWeak": "say what is missing, or store it without --strict",
    "NotSettled": "mend it, acknowledge musts in prose word for word (--ack TEXT), or say why it counts all the same: "
    "--override WHY",
    "RevisionConflict": "recover it, take what is new into account, and store again with --expect {found}",
    "SecretFound": "take it out; of a handoff or record it can be masked: --redact",
}
ASKED: list[Invocation] = []  # of the command under way: what went wrong is told with commands on the same home


def exit_code(error: OutlastError) -> int:
    """The exit code of an error: that of its class, or of its family."""
    ours = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return next((OF_ERRORS[name] for name in ours if name in OF_ERRORS), FAILED)


def exit_code_of(outcome: Outcome[Any]) -> int:
    """The exit code of a run as it stands now."""
    if outcome.status == "waiting" and outcome.interrupts:
        undecided = all(wait.type in DECISIONS for wait in outcome.interrupts)
        return REFUSED if undecided else WAITING
    if is_declined(outcome.status, outcome.error):
        return REFUSED
    return OF_STATUS.get(outcome.status, FAILED)


def is_declined(status: str, error: Mapping[str, Any] | None) -> bool:
    """Whether a person said no, and that ended the run."""
    return status == "aborted" and (error or {}).get("type") == "declined"


def trouble(error: Mapping[str, Any]) -> str:
    """What is recorded of a failure; of a command's without the advice, which a screen gives better."""
    if not failed_command(error):
        return str(error.get("message", ""))
    return errors.CommandFailed.says.format_map(error["args"])


def failed_command(error: Mapping[str, Any]) -> list[str]:
    """The step whose command failed; nothing when it is another failure."""
    args = error.get("args")
    ours = error.get("type") == "outlast.errors:CommandFailed"
    return [str(args["step"])] if ours and isinstance(args, dict) and {"step", "exit", "why"} <= set(args) else []


def told(error: OutlastError) -> str:
    """What happened and what to do next, for someone at a command line."""
    advice = advice_of(error)
    return f"{error.detail}; {advice}" if advice else str(error)


def advice_of(error: OutlastError) -> str:
    """What to do next in the words of the command line; "" where the error's own advice is as good."""
    if (advice := ADVICE.get(type(error).__name__)) is None:
        return ""
    keep = "; or keep what was done: --reuse-effects" if error.facts.get("how") == "fork" else ""
    return filled(advice, error.facts) + keep
