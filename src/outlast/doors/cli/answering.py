"""`outlast answer` and `outlast signal`: what a waiting run is told from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.choices import decided, go_on, how_it_goes_on, top_of
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import WAITING
from outlast.doors.cli.render import as_json, content_in, emit, fit, say
from outlast.errors import AlreadyAnswered, AnswerInvalid
from outlast.values.json_text import doubled

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast
    from outlast.runs.waits.signal import Signal

APPROVALS = '{"approved": true} or {"approved": false, "comment": "why"}'


class NotLikeThat(AnswerInvalid):
    """Raised when a wait takes its answer by another command."""

    says = "wait {interrupt} {why}"
    advice = "{choices}"


@command("answer")
@click.argument("interrupt_id", metavar="ID")
@click.argument("given", metavar="[JSON | @FILE | -]", required=False)
@click.option("--cancel", metavar="WHY", help="End the wait without an answer; the flow is told why.")
@go_on
def answer(door: Door, interrupt_id: str, given: str | None, cancel: str | None, resume: bool) -> int:
    """Answer the wait ID. `outlast inbox` lists the waits, each with the answers it takes.

    The answer is JSON: as it is, from @FILE, or from standard input (-). Without it, on a terminal, it is asked for.
    """
    if cancel is not None and given is not None:
        raise click.UsageError("--cancel ends the wait without an answer; give one of them")
    parsed = document("JSON", given) if given is not None else None
    with door.open() as outlast:
        if cancel is not None:
            wait, what = outlast.cancel(interrupt_id, cancel), "is cancelled"
        elif given is not None:
            wait, what = answered(door, outlast, outlast.interrupt(interrupt_id), parsed, resume), "is answered"
        else:
            found = _asked(door, outlast, interrupt_id)
            if found is None:
                say("it is left open")
                return WAITING
            wait, what = found, "is answered"
        run = outlast.get(wait.run_id)
        ended = "; the run has ended" if run.finished else ""
        return decided(door, outlast, run, f"wait {wait.id} {what}{ended}", resume)


def answered(door: Door, outlast: Outlast, wait: Interrupt, said: Any, again: bool) -> Interrupt:
    """The wait with this answer; `again` also when it was given before and the run has not gone on since.

    Raises AlreadyAnswered, which names the run that goes on; AnswerInvalid.
    """
    from outlast.doors.cli.ways import ways

    if wait.type == "signal":
        raise NotLikeThat(wait.id, "is for a signal", f"send it: `{ways(door, wait)[0][1]}`")
    try:
        return outlast.answer(wait.id, said)
    except AlreadyAnswered as error:
        now = outlast.interrupt(wait.id)
        if again and now.status == "answered" and as_json(now.answer) == as_json(said):
            return now
        raise AlreadyAnswered(wait.id, top_of(outlast, outlast.get(wait.run_id)).id, error.status, error.by) from error


def _asked(door: Door, outlast: Outlast, interrupt_id: str) -> Interrupt | None:
    """Show the wait and take the answer of whoever sits there, bound to what was shown; None when they leave it."""
    from outlast.doors.cli.asking import ask_about, can_ask
    from outlast.runs.waits.interrupt import is_for_people

    wait = outlast.interrupt(interrupt_id)
    if wait.status != "open":
        raise AlreadyAnswered(wait.id, wait.run_id, wait.status, wait.answered_by or "the run")
    if not is_for_people(wait.type) or not can_ask(door):
        raise click.UsageError(_missing(door, wait))
    return ask_about(outlast, wait)


def _missing(door: Door, wait: Interrupt) -> str:
    """What an answer to this wait must be, for whoever gave none."""
    from outlast.doors.cli.ways import asks, ways

    if wait.type in ("signal", "timer", "child"):
        return f"{asks(wait)}; {'; '.join(f'{words}: {way}' for words, way in ways(door, wait))}"
    if wait.type == "approval":
        takes = APPROVALS
    elif wait.choices:
        takes = f'{{"choice": …}} with one of {", ".join(wait.choices)}'
    elif wait.schema is not None:
        takes = f"what its schema says: {as_json(wait.schema)}"
    else:
        takes = "any JSON"
    return f"JSON is missing ({asks(wait)}); wait {wait.id} takes {takes}"


@command("signal")
@click.argument("name", metavar="NAME")
@click.argument("body", metavar="[JSON | @FILE | -]", default="null")
@click.option("--task", metavar="TASK", help="To the run of this task that waits for it, or the next one that does.")
@click.option("--run", "run_id", metavar="RUN", help="To this run.")
@click.option("--operation-id", metavar="ID", help="An exact repeat sends nothing a second time.")
@go_on
def signal(
    door: Door,
    name: str,
    body: str,
    task: str | None,
    run_id: str | None,
    operation_id: str | None,
    resume: bool,
) -> int:
    """Send the signal NAME, with a body, to a task or a run. A flow waits for it by `wait_for`.

    One that nobody waits for is kept until a run does. It is taken once.
    """
    if (task is None) == (run_id is None):
        raise click.UsageError("say to whom: --task TASK or --run RUN")
    parsed = document("the body", body)
    with door.open() as outlast:
        sent = outlast.signal(name, parsed, task=task, run_id=run_id, operation_id=operation_id)
        run = top_of(outlast, outlast.get(sent.run_id)) if sent.interrupt else None
        if resume and run is not None and not run.finished:
            return decided(door, outlast, run, "", resume)
    if door.json:
        from outlast.values.codec import jsonable

        emit(jsonable(sent))
        return 0
    say(_sent(sent))
    if run is not None and not run.finished:
        say(how_it_goes_on(door, run))
    return 0


def _sent(sent: Signal) -> str:
    """What became of a signal."""
    was = "was sent before" if sent.replayed else "is sent"
    if sent.interrupt:
        return f"signal {sent.name} {was}; run {sent.run_id} waited for it"
    whose = f"run {sent.run_id} comes to wait for it" if sent.run_id else f"a run of task {sent.task} waits for it"
    return f"signal {sent.name} {was}; it is kept until {whose}"


def document(what: str, word: str) -> Any:
    """JSON as it is given, from @FILE or from standard input (-). What reading would lose or change is refused."""
    try:
        raw = content_in().read() if word == "-" else Path(word[1:]).read_bytes() if word[:1] == "@" else word
        return json.loads(raw, object_pairs_hook=_once, parse_constant=_no_number)
    except OSError as error:
        raise click.UsageError(f"cannot read {word[1:]}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        hint = (
            f"; for text write '\"{word}\"'" if word.isprintable() and '"' not in word and word[:1] not in "@-" else ""
        )
        raise click.UsageError(f"{what} {fit(repr(word), 80)} is not JSON ({error}){hint}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the field {doubled(name for name, _ in pairs)!r} is given twice")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")
