"""What every command shares at its edges: exit codes, errors as text or JSON, signals, closed pipes.

Only click and the errors are imported before a command is known, so that `outlast --help` starts fast.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from outlast.doors.cli.exits import BROKEN_PIPE, FAILED, INTERRUPTED, exit_code, told
from outlast.doors.cli.group import cli
from outlast.doors.cli.render import CLOSED, emit, note, note_all
from outlast.errors import OutlastError


def run_command(arguments: Sequence[str]) -> NoReturn:
    """Run one command and exit with its code."""
    if os.getpid() == 1:
        from outlast.doors.cli.init import stay_in_front

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
            emit({"error": error.to_dict()})
        else:
            for text in (f"error: {told(error)} [{error.code}]", *getattr(error, "__notes__", ())):
                note_all(text)
        return exit_code(error)
    except (KeyboardInterrupt, click.Abort):
        if as_json:
            advice = "run the same command again"
            emit({"error": {"code": "interrupted", "detail": "interrupted", "advice": advice, "path": None}})
        else:
            note("interrupted; run the same command again")
        return INTERRUPTED


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
    said = error.format_message()
    kind = getattr(getattr(error, "param", None), "type", None)
    found = re.search(r"'([^']*)' is not one of ", said)
    if not isinstance(kind, click.Choice) or found is None:
        return said
    from outlast.values.nearest import meant

    return f"{said} {meant(found[1], map(str, kind.choices))}".rstrip()


def _forget_output() -> None:
    """Nobody reads on: let the interpreter's last flush go nowhere instead of into a traceback."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
