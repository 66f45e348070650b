"""How a run stands after `run` or `resume`, and what to do next."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from signal import SIGHUP, SIGINT
from typing import Any

from outlast.doors.cli.door import Door
from outlast.doors.cli.exits import INTERRUPTED, exit_code_of, failed_command, is_declined, trouble
from outlast.doors.cli.render import (
    STYLES,
    as_json,
    counted,
    document,
    emit,
    has_lines,
    say,
    say_all,
    terminal_columns,
    width,
)
from outlast.doors.cli.ways import say_waits
from outlast.errors import CommandFailed, OutlastError, StepTimedOut
from outlast.python.shown import outcome_json
from outlast.runs.run import Outcome
from outlast.values.tracebacks import own_place


def say_outcome(door: Door, outcome: Outcome[Any], signal: int = 0) -> int:
    """Render an outcome; the exit code it stands for."""
    if outcome.status == "interrupted" and signal and not outcome.stopped_by:  # it was ended by an exception
        outcome = replace(outcome, stopped_by="person" if signal == SIGINT else "shutdown")
    with suppress(OSError) if signal == SIGHUP else nullcontext():  # the terminal is gone, and nobody reads this
        emit(outcome_json(outcome)) if door.json else _say(door, outcome)
        sys.stdout.flush()
    code = exit_code_of(outcome)
    return 128 + signal if signal and code in (1, INTERRUPTED) else code


def _say(door: Door, outcome: Outcome[Any]) -> None:
    if not outcome.run_id:
        say("interrupted before the run began; run the same command again", "yellow")
        return
    say(f"run {outcome.run_id} {outcome.status}", STYLES.get(outcome.status, ""))
    if outcome.replayed:
        say("it has happened before, so nothing was done now; to have it happen once more: --again")
    if "code_changed" in outcome.notes:
        say("its code has changed since: this is what it came to then")
    if "result_pruned" in outcome.notes:
        say("its result was removed by gc, and is not known any more")
    if outcome.replayed_steps:
        say(f"reused: {counted(outcome.replayed_steps, 'finished step')} from receipts, not repeated")
    changed = [one.subject for one in outcome.verdict.reasons if one.code == "code_changed"] if outcome.verdict else []
    if changed:
        say(f"changed since they were done, reused as they are: {', '.join(changed)}")
    if outcome.unasked:
        say(f"never asked for again: {', '.join(outcome.unasked)}")
    match outcome.status:
        case "succeeded":
            say_result(outcome.result)
        case "waiting":
            say_waits(door, outcome.run_id, outcome.interrupts)
        case "aborted":
            say_aborted(outcome.status, outcome.error)
        case "failed":
            _say_failure(door, outcome)
        case _:
            say(how_to_go_on(outcome.stopped_by, door.command("resume", outcome.run_id)))


def how_to_go_on(stopped_by: str, command: str) -> str:
    """What becomes of a run that was stopped, and how to go on with it now."""
    if stopped_by == "shutdown":
        return f"stopped by a shutdown: it goes on by itself, with the next tick or server; now: {command}"
    return f"continue: the same command again, or {command}"


def say_result(result: Any) -> None:
    """A result: text as it is, everything else as JSON."""
    if isinstance(result, str) and "\n" in result:
        say("result:")
        say_all(result, "  ")
    elif has_lines(result):
        for line in document("result", result):
            say(line)
    elif result not in (None, {}):  # a flow of commands none of which gave a result
        say(f"result: {result if isinstance(result, str) else as_json(result)}")


def say_aborted(status: str, error: dict[str, Any] | None) -> None:
    """Why somebody ended the run."""
    known = error or {}
    if is_declined(status, error):
        say(f"declined by {known.get('by', '')}: {known.get('message', '')}", "yellow")
    else:
        say(f"why: {known.get('message', '')}")


def say_error(error: dict[str, Any]) -> None:
    """What a run or a step died of."""
    kind = str(error.get("type", "")).rpartition(":")[2]
    first, *others = trouble(error).splitlines() or [""]
    say(f"error: {kind}: {first}" if first else f"error: {kind}", "red")
    for line in others:
        say(f"  {line}")


def say_trace(error: dict[str, Any]) -> None:
    """Where a recorded error came from. Marks under a line are left out where that line is broken."""
    before = ""
    for line in str(error.get("trace", "")).rstrip().splitlines():
        if not (set(line.strip()) <= set("^~") and sys.stdout.isatty() and width(before) > terminal_columns() - 2):
            say_all(line, "  ")
        before = line


def _say_failure(door: Door, outcome: Outcome[Any]) -> None:
    say_error(outcome.error or {})
    several = isinstance(outcome.exception, ExceptionGroup)
    for each in outcome.exception.exceptions if isinstance(outcome.exception, ExceptionGroup) else ():
        say(f"  {each.detail if isinstance(each, OutlastError) else each}")
    place = own_place(outcome.exception)
    if place and not several:
        say(f"at: {place}")
    for step in _commands(outcome):
        say(f"its output: {door.command('logs', outcome.run_id, step)}")
    say(f"mend the cause, then go on at the failure: {door.command('resume', outcome.run_id)}")


def _commands(outcome: Outcome[Any]) -> list[str]:
    """The steps whose commands made the run fail."""
    error = outcome.exception
    failures = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    kinds = (
        CommandFailed if own_place(error) else (CommandFailed, StepTimedOut)
    )  # without code of the user: of commands
    return [str(each.step) for each in failures if isinstance(each, kinds)] or failed_command(outcome.error or {})
