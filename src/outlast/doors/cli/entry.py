"""One command from its words to its exit code: errors as text or JSON, signals, closed pipes.

Only click and the errors are imported before a command is known, so that `outlast --help` starts fast.

As process 1 of a container: be its init, and let a child be the command. The kernel keeps signals from process 1 that
it does not handle, and leaves it every orphan to bury.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from outlast.doors.cli.exits import ASKED, BROKEN_PIPE, FAILED, INTERRUPTED, advice_of, exit_code, told
from outlast.doors.cli.group import cli
from outlast.doors.cli.render import CLOSED, emit, note, note_all
from outlast.errors import (
    OutlastError,
)
from outlast.values.text import meant

HEARD = {
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}


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
    """Return in the process that is to be the command: this one, or if this is process 1, a child of it.

    Process 1 passes signals on, buries the dead, and exits with the child's code: then the kernel ends what is left.
    """
    if os.getpid() != 1:
        return
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
