"""`outlast inbox`, `approve` and `decline`: every wait of every run, and the answers to those for approval.

`outlast answer` and `outlast signal`: what a waiting run is told from outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.choices import decided, go_on, how_it_goes_on, top_of
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED, WAITING
from outlast.doors.cli.render import ago, as_json, brief, clean, content_in, counted, emit, fit, say
from outlast.errors import AlreadyAnswered, AnswerInvalid
from outlast.runs.waits.interrupt import is_for_people
from outlast.values.codec import doubled

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast
    from outlast.runs.inbox import InboxItem
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
    from outlast.doors.cli.ask import ask_about, can_ask
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


SHOWN = 50


@command("inbox")
@click.option("--assignee", metavar="NAME", help="Only what is asked of NAME.")
@click.option("--type", "kind", metavar="TYPE", help="Only waits of this type: approval, in_doubt, signal, …")
@click.option("--limit", type=click.IntRange(1), metavar="N", help=f"How many at most [{SHOWN}; with --json all].")
def inbox(door: Door, assignee: str | None, kind: str | None, limit: int | None) -> int:
    """Every open wait of every run, with the commands that answer it; and handoffs that something contests.

    Questions for people come first.
    """
    from outlast.doors.cli.ways import is_overdue

    with door.open() as outlast:
        every = outlast.inbox(assignee=assignee, type=kind)
        found = [item for item in every if door.scope in (None, item.scope)]
        hint = "" if found or door.json else _meant(outlast, assignee, kind)
        late = {item.interrupt.run_id for item in found if is_overdue(item.interrupt)}
        tops = {run: top_of(outlast, outlast.get(run)).id for run in late}
        going = _can_go_on(door, outlast)
        contested = every.contested
    if door.json:
        told = {"waits": [_json(door, item, tops) for item in found[:limit]], "answered": going}
        emit(told | {"contested": [_contested_json(door, one) for one in contested]})
        return 0
    if found:
        _say_inbox(door, found, tops, limit or SHOWN)
    elif assignee or kind:
        say(f"nothing of that kind waits; {hint or '`outlast inbox` lists every wait'}")
    elif not going and not contested:
        say("no run waits for anything; `outlast runs` lists them all")
    if going:
        _say_going(door, going)
    for one in contested:
        say(f"handoff {clean(one.anchor)} is contested: {_against(one)}")
        say(f"  {door.about(('handoff', 'recover'), one.anchor)}")
    return 0


def _contested_json(door: Door, one: Any) -> dict[str, Any]:
    told = door.advised(one.verdict) or {"reasons": []}
    reasons = [reason for reason in told["reasons"] if reason["weight"] == "contests"]
    return {"anchor": one.anchor, "scope": one.scope, "handoff_id": one.handoff_id, "reasons": reasons}


def _against(one: Any) -> str:
    reasons = one.verdict.contesting if one.verdict else ()
    return brief("; ".join(f"{reason.code} {reason.subject}: {reason.found}" for reason in reasons), 200)


def _meant(outlast: Outlast, assignee: str | None, kind: str | None) -> str:
    """What somebody may have meant who asked for waits of which there are none."""
    from outlast.runs.waits.interrupt import CHOICES
    from outlast.values.text import meant

    every = [item.interrupt for item in outlast.inbox()] if assignee or kind else []
    kinds = {*CHOICES, "approval", "signal", *(wait.type for wait in every)}
    if kind and kind not in kinds:
        return meant(kind, kinds)
    return meant(assignee, {wait.assignee for wait in every if wait.assignee}) if assignee else ""


def _can_go_on(door: Door, outlast: Outlast) -> list[str]:
    """The runs that only wait for somebody to go on with them: what they waited for was answered."""
    from outlast.doors.cli.ways import is_overdue, with_children

    now = datetime.now(UTC)
    found = [one for one in outlast.due() if one.reason != "crashed" and door.scope in (None, one.scope)]
    return [
        one.run_id
        for one in found
        if one.reason in ("answered", "asked")
        or not any(
            is_overdue(wait) or (wait.type == "timer" and wait.due_at is not None and wait.due_at <= now)
            for wait in with_children(outlast, outlast.interrupts(one.run_id))
        )
    ]


def _say_going(door: Door, going: Sequence[str]) -> None:
    how = door.command("resume", going[0]) if len(going) == 1 else door.command("tick")
    were = "run was" if len(going) == 1 else "runs were"
    say(f"{len(going):,} {were} answered and can go on: {how}")


def _json(door: Door, item: InboxItem, tops: Mapping[str, str]) -> dict[str, Any]:
    from outlast.doors.cli.ways import ways
    from outlast.python.shown import wait_json

    commands = dict(ways(door, item.interrupt, resume=True, top=tops.get(item.interrupt.run_id, "")))
    whose = {"task": item.task, "flow": item.flow, "scope": item.scope}
    return wait_json(item.interrupt) | whose | {"commands": commands}


def _say_inbox(door: Door, found: Sequence[InboxItem], tops: Mapping[str, str], limit: int) -> None:
    from outlast.doors.cli.ways import asks, is_overdue, say_shown, say_ways, until_when, ways

    asked = [item for item in found if is_for_people(item.interrupt.type) and not is_overdue(item.interrupt)]
    needs = f"{counted(len(asked), 'question')} for you" if asked else "no question for you"
    late = sum(1 for item in found if is_overdue(item.interrupt))
    others = [item for item in found if not is_for_people(item.interrupt.type) and not is_overdue(item.interrupt)]
    say(needs + _rest(others) + (f"; {counted(late, 'wait')} past the deadline" if late else ""))
    for item in found[:limit]:
        wait = item.interrupt
        say()
        say(asks(wait), "yellow")
        say(f"  run {wait.run_id}, {brief(clean(item.task), 40)}, {ago(wait.opened_at)}", "dim")
        say(f"  {'; '.join([wait.type, *until_when(wait)])}", "dim")
        say_shown(door, wait)
        say_ways(ways(door, wait, resume=True, top=tops.get(wait.run_id, "")))
    if len(found) > limit:
        say()
        say(f"and {len(found) - limit:,} more; --limit shows more, --json has all of them")


def _rest(others: Sequence[InboxItem]) -> str:
    """How many waits no person has to answer."""
    if not others:
        return ""
    signals = any(item.interrupt.type == "signal" for item in others)
    return f"; {counted(len(others), 'wait')} for a time{', a signal' if signals else ''} or another run"


def _approval(door: Door, outlast: Outlast, interrupt_id: str) -> Interrupt:
    """The wait, if yes or no answers it. Raises AnswerInvalid, which says what does."""
    wait = outlast.interrupt(interrupt_id)
    if wait.type != "approval" and not wait.choices and is_for_people(wait.type):
        use = f"use `{door.command('answer', wait.id, 'JSON')}`"
        raise NotLikeThat(wait.id, f"is for {wait.type}, which is no approval", use)
    return wait


@command("approve")
@click.argument("interrupt_id", metavar="ID")
@click.option("-m", "--comment", default="", metavar="COMMENT", help="What the flow is told with it.")
@go_on
def approve(door: Door, interrupt_id: str, comment: str, resume: bool) -> int:
    """Say yes to the approval ID. `outlast inbox` lists what waits."""
    said: dict[str, Any] = {"approved": True} | ({"comment": comment} if comment else {})
    with door.open() as outlast:
        wait = answered(door, outlast, _approval(door, outlast, interrupt_id), said, resume)
        return decided(door, outlast, outlast.get(wait.run_id), f"{wait.step} is approved", resume)


@command("decline")
@click.argument("interrupt_id", metavar="ID")
@click.option("-m", "--why", required=True, metavar="WHY", help="Why; it is on the record.")
@go_on
def decline(door: Door, interrupt_id: str, why: str, resume: bool) -> int:
    """Say no to the approval ID. The run ends, aborted, unless its flow says how it goes on."""
    if not why.strip():
        raise click.UsageError("-m needs a reason; it is on the record")
    with door.open() as outlast:
        said = {"approved": False, "comment": why}
        wait = answered(door, outlast, _approval(door, outlast, interrupt_id), said, resume)
        run = outlast.get(wait.run_id)
        what = f"{wait.step} is declined" + ("; the run has ended" if run.finished else "")
        code = decided(door, outlast, run, what, resume)
        return REFUSED if resume and run.finished else code
