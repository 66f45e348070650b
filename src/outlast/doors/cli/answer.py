"""`outlast inbox`, `approve` and `decline`: every wait of every run, and the answers to those for approval.

`outlast answer` and `outlast signal`: what a waiting run is told from outside.

What a person decides about a run: retry, skip, rewind, abort, pause, and fork.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.ask import ask_about, can_ask, repeating
from outlast.doors.cli.entry import REFUSED, WAITING
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import (
    document,
    effects_option,
    names_in,
    pairs_of,
    refuse_if,
    resume_option,
    run_argument,
    step_argument,
    wait_argument,
)
from outlast.doors.cli.outcomes import say_kept
from outlast.doors.cli.render import ago, as_json, brief, clean, counted, say
from outlast.doors.cli.run import go_on_now
from outlast.doors.cli.waits import Way, asks, say_shown, say_ways, top_of, until_when, ways, with_children
from outlast.errors import AlreadyAnswered, AnswerInvalid
from outlast.values.text import meant

if TYPE_CHECKING:
    from outlast import InboxItem, Interrupt, Listed, Outlast, RunRecord, Signal

APPROVALS = '{"approved": true} or {"approved": false, "comment": "why"}'


class NotLikeThat(AnswerInvalid):
    """Raised when a wait takes its answer by another command."""

    says = "wait {interrupt} {why}"
    advice = "{choices}"


@command("answer", of="interrupt_answer", without=("answer", "shown"))
@wait_argument
@click.argument("given", metavar="[JSON | @FILE | -]", required=False)
@click.option("--cancel", metavar="WHY", help="End the wait without an answer; the flow is told why.")
@resume_option
def answer(
    call: Invocation, interrupt_id: str, given: str | None, cancel: str | None, operation_id: str | None, resume: bool
) -> int:
    """Answer the wait ID. `outlast inbox` lists the waits, each with the answers it takes.

    The answer is JSON: as it is, from @FILE, or from standard input (-). Without it, on a terminal, it is asked for.
    """
    refuse_if(cancel is not None and given is not None, "--cancel ends the wait without an answer; give one of them")
    parsed = document("JSON", given) if given is not None else None
    with call.open() as outlast:
        if cancel is not None:
            wait = outlast.cancel(interrupt_id, cancel, operation_id=operation_id)
        elif given is not None:
            wait = answered(call, outlast, outlast.interrupt(interrupt_id), parsed, resume, operation_id)
        elif (found := _asked(call, outlast, interrupt_id)) is None:
            say("it is left open")
            return WAITING
        else:
            wait = found
        what = "is answered" if cancel is None else "is cancelled"
        run = outlast.get(wait.run_id)
        ended = "; the run has ended" if run.finished else ""
        return decided(call, outlast, run, f"wait {wait.id} {what}{ended}", resume)


def answered(
    call: Invocation, outlast: Outlast, wait: Interrupt, said: Any, again: bool, operation_id: str | None
) -> Interrupt:
    """The wait with this answer; `again` also when it was given before and the run has not gone on since.

    Raises AlreadyAnswered, which names the run that goes on; AnswerInvalid.
    """
    if wait.type == "signal":
        raise NotLikeThat(wait.id, "is for a signal", f"send it: `{ways(call, wait)[0][1]}`")
    try:
        return outlast.answer(wait.id, said, operation_id=operation_id)
    except AlreadyAnswered as error:
        now = outlast.interrupt(wait.id)
        if again and now.status == "answered" and as_json(now.answer) == as_json(said):
            return now
        raise AlreadyAnswered(wait.id, top_of(outlast, outlast.get(wait.run_id)).id, error.status, error.by) from error


def _asked(call: Invocation, outlast: Outlast, interrupt_id: str) -> Interrupt | None:
    """Show the wait and take the answer of whoever sits there, bound to what was shown; None when they leave it."""
    wait = outlast.interrupt(interrupt_id)
    if wait.status != "open":
        raise AlreadyAnswered(wait.id, wait.run_id, wait.status, wait.answered_by or "the run")
    if not wait.is_for_people or not can_ask(call):
        raise click.UsageError(_missing(call, wait))
    return ask_about(outlast, wait)


def _missing(call: Invocation, wait: Interrupt) -> str:
    """What an answer to this wait must be, for whoever gave none."""
    if wait.type in ("signal", "timer", "child"):
        return f"{asks(wait)}; {'; '.join(f'{words}: {way}' for words, way in ways(call, wait))}"
    if wait.type == "approval":
        takes = APPROVALS
    elif wait.choices:
        takes = f'{{"choice": …}} with one of {", ".join(wait.choices)}'
    elif wait.schema is not None:
        takes = f"what its schema says: {as_json(wait.schema)}"
    else:
        takes = "any JSON"
    return f"JSON is missing ({asks(wait)}); wait {wait.id} takes {takes}"


@command("signal", of="signal_send")
@click.argument("name", metavar="NAME")
@click.argument("body", metavar="[JSON | @FILE | -]", default="null")
@resume_option
def signal(call: Invocation, name: str, body: str, resume: bool, **to: str | None) -> int:
    """Send the signal NAME, with a body, to a task or a run. A flow waits for it by `wait_for`.

    One that nobody waits for is kept until a run does. It is taken once.
    """
    refuse_if((to["task"] is None) == (to["run_id"] is None), "say to whom: --task TASK or --run RUN")
    parsed = document("the body", body)
    with call.open() as outlast:
        sent = outlast.signal(name, parsed, **to)
        run = top_of(outlast, outlast.get(sent.run_id)) if sent.interrupt else None
        if resume and run is not None and not run.finished and not run.engine:
            return decided(call, outlast, run, "", resume)
    call.tell_line(sent, _sent(sent))
    if run is not None and not run.finished and not call.json:
        say(how_it_goes_on(call, run))
    return 0


def _sent(sent: Signal) -> str:
    was = "was sent before" if sent.replayed else "is sent"
    if sent.interrupt:
        return f"signal {sent.name} {was}; run {sent.run_id} waited for it"
    whose = f"run {sent.run_id} comes to wait for it" if sent.run_id else f"a run of task {sent.task} waits for it"
    return f"signal {sent.name} {was}; it is kept until {whose}"


SHOWN = 50


@command("inbox", of="interrupt_inbox")
@click.option("--limit", type=click.IntRange(1), metavar="N", help=f"How many at most [{SHOWN}; with --json all].")
def inbox(call: Invocation, limit: int | None, assignee: str | None, type: str | None) -> None:
    """Every open wait of every run, with the commands that answer it; and handoffs that something contests.

    Questions for people come first.
    """
    with call.open() as outlast:
        found = outlast.inbox(assignee=assignee, type=type, scope=call.scope)
        hint = "" if found or call.json else _meant(outlast, assignee, type)
        late = {item.interrupt.run_id for item in found if item.interrupt.is_overdue}
        tops = {run: top_of(outlast, outlast.get(run)) for run in late}
        going = _can_go_on(call, outlast)
        contested = found.contested
    if call.json:
        waits = [_told(call, item, tops) for item in found[:limit]]
        call.tell(waits, answered=going, contested=[_contesting(call, one) for one in contested])
        return
    if found:
        _say_inbox(call, found, tops, limit or SHOWN)
    elif assignee or type:
        say(f"nothing of that kind waits; {hint or '`outlast inbox` lists every wait'}")
    elif not going and not contested:
        say("no run waits for anything; `outlast runs` lists them all")
    if going:
        _say_going(call, going)
    for one in contested:
        say(f"handoff {clean(one.anchor)} is contested: {_against(one)}")
        say(f"  {call.about(('handoff', 'recover'), one.anchor)}")


def _contesting(call: Invocation, one: Listed) -> dict[str, Any]:
    told: dict[str, Any] = late.shown.shown(call.advised(one))
    return told | {"reasons": [each for each in told["verdict"]["reasons"] if each["weight"] == "contests"]}


def _against(one: Any) -> str:
    reasons = one.verdict.contesting if one.verdict else ()
    return brief("; ".join(f"{reason.code} {reason.subject}: {reason.found}" for reason in reasons), 200)


def _meant(outlast: Outlast, assignee: str | None, kind: str | None) -> str:
    """What somebody may have meant who asked for waits of which there are none."""
    every = [item.interrupt for item in outlast.inbox()] if assignee or kind else []
    kinds = {*late.outlast.INTERRUPT_TYPES, *(wait.type for wait in every)}
    if kind and kind not in kinds:
        return meant(kind, kinds)
    return meant(assignee, {wait.assignee for wait in every if wait.assignee}) if assignee else ""


def _can_go_on(call: Invocation, outlast: Outlast) -> list[str]:
    """The runs that only wait for somebody to go on with them: what they waited for was answered. No engine does."""
    now = datetime.now(UTC)
    every = (one for one in outlast.due() if call.scope in (None, one.scope))
    found = [one for one in every if one.reason != "crashed" and not one.engine]
    return [
        one.run_id
        for one in found
        if one.reason in ("answered", "asked")
        or not any(
            wait.is_overdue or (wait.type == "timer" and wait.due_at is not None and wait.due_at <= now)
            for wait in with_children(outlast, outlast.interrupts(one.run_id))
        )
    ]


def _say_going(call: Invocation, going: Sequence[str]) -> None:
    how = call.command("resume", going[0]) if len(going) == 1 else call.command("tick")
    were = "run was" if len(going) == 1 else "runs were"
    say(f"{len(going):,} {were} answered and can go on: {how}")


def _ways(call: Invocation, wait: Interrupt, tops: Mapping[str, RunRecord]) -> list[Way]:
    """What lets its run go on at once; one that is late goes on with the run above it, or by an engine."""
    top = tops.get(wait.run_id)
    if top is not None and top.engine:
        return [("it goes on by", call.worker_for(top))]
    return ways(call, wait, resume=True, top=top.id if top is not None else "")


def _told(call: Invocation, item: InboxItem, tops: Mapping[str, RunRecord]) -> dict[str, Any]:
    commands = dict(_ways(call, item.interrupt, tops))
    told: dict[str, Any] = late.shown.shown(item)
    return {**told.pop("interrupt"), **told, "commands": commands}


def _say_inbox(call: Invocation, found: Sequence[InboxItem], tops: Mapping[str, RunRecord], limit: int) -> None:
    asked = [item for item in found if item.interrupt.is_for_people and not item.interrupt.is_overdue]
    needs = f"{counted(len(asked), 'question')} for you" if asked else "no question for you"
    late = sum(1 for item in found if item.interrupt.is_overdue)
    others = [item for item in found if not item.interrupt.is_for_people and not item.interrupt.is_overdue]
    say(needs + _rest(others) + (f"; {counted(late, 'wait')} past the deadline" if late else ""))
    for item in found[:limit]:
        wait = item.interrupt
        say()
        say(asks(wait), "yellow")
        say(f"  run {wait.run_id}, {brief(clean(item.task), 40)}, {ago(wait.opened_at)}", "dim")
        say(f"  {'; '.join([wait.type, *until_when(wait)])}", "dim")
        say_shown(call, wait)
        say_ways(_ways(call, wait, tops))
    if len(found) > limit:
        say()
        say(f"and {len(found) - limit:,} more; --limit shows more, --json has all of them")


def _rest(others: Sequence[InboxItem]) -> str:
    """How many waits no person has to answer."""
    if not others:
        return ""
    signals = any(item.interrupt.type == "signal" for item in others)
    return f"; {counted(len(others), 'wait')} for a time{', a signal' if signals else ''} or another run"


def _approval(call: Invocation, outlast: Outlast, interrupt_id: str) -> Interrupt:
    """The wait, if yes or no answers it. Raises AnswerInvalid, which says what does."""
    wait = outlast.interrupt(interrupt_id)
    if wait.type != "approval" and not wait.choices and wait.is_for_people:
        use = f"use `{call.command('answer', wait.id, 'JSON')}`"
        raise NotLikeThat(wait.id, f"is for {wait.type}, which is no approval", use)
    return wait


@command("approve", of="interrupt_answer", without=("answer", "shown"))
@wait_argument
@click.option("-m", "--comment", default="", metavar="COMMENT", help="What the flow is told with it.")
@resume_option
def approve(call: Invocation, interrupt_id: str, comment: str, operation_id: str | None, resume: bool) -> int:
    """Say yes to the approval ID. `outlast inbox` lists what waits."""
    said: dict[str, Any] = {"approved": True} | ({"comment": comment} if comment else {})
    with call.open() as outlast:
        wait = answered(call, outlast, _approval(call, outlast, interrupt_id), said, resume, operation_id)
        return decided(call, outlast, outlast.get(wait.run_id), f"{wait.step} is approved", resume)


@command("decline", of="interrupt_answer", without=("answer", "shown"))
@wait_argument
@click.option("-m", "--why", required=True, metavar="WHY", help="Why; it is on the record.")
@resume_option
def decline(call: Invocation, interrupt_id: str, why: str, operation_id: str | None, resume: bool) -> int:
    """Say no to the approval ID. The run ends, aborted, unless its flow says how it goes on."""
    refuse_if(not why.strip(), "-m needs a reason; it is on the record")
    with call.open() as outlast:
        said = {"approved": False, "comment": why}
        wait = answered(call, outlast, _approval(call, outlast, interrupt_id), said, resume, operation_id)
        run = outlast.get(wait.run_id)
        what = f"{wait.step} is declined" + ("; the run has ended" if run.finished else "")
        code = decided(call, outlast, run, what, resume)
        return REFUSED if resume and run.finished else code


# -- decisions about a run ---------------------------------------------------------------------------


@command("retry", of="run_retry", without=("effects",))
@run_argument()
@step_argument()
@resume_option
def retry(call: Invocation, run_id: str, step: str, resume: bool, **given: Any) -> int:
    """Let the next resume try STEP again, also an effect in doubt."""
    with call.open() as outlast:
        return decided(call, outlast, outlast.retry(run_id, step, **given), f"{step} will be tried again", resume)


@command("skip", of="run_skip")
@run_argument()
@step_argument()
@resume_option
def skip(call: Invocation, run_id: str, step: str, result: str | None, resume: bool, **given: Any) -> int:
    """Let the next resume take a result for STEP without running it."""
    taken = None if result is None else _json("--result", result)
    with call.open() as outlast:
        run = outlast.skip(run_id, step, result=taken, **given)
        return decided(call, outlast, run, f"{step} will not run: {result or 'null'} is taken", resume)


@command("rewind", of="run_rewind")
@run_argument()
@step_argument()
def rewind(call: Invocation, run_id: str, step: str, **given: Any) -> int:
    """Let the next resume do STEP and all after it again.

    Effects are kept: with equal inputs they are reused, not repeated. So are runs of other flows that are over.
    """
    with call.open() as outlast:
        run = outlast.rewind(run_id, step, **given)
        say_kept(outlast, run)
        return decided(call, outlast, run, f"{step} and all after it will be done again")


@command("abort", of="run_abort")
@run_argument()
def abort(call: Invocation, run_id: str, **given: Any) -> int:
    """Give a run up, now, whoever holds it. It cannot be resumed."""
    with call.open() as outlast:
        return decided(call, outlast, outlast.abort(run_id, **given), "given up; nothing of it can be resumed")


@command("pause", of="run_pause")
@run_argument()
def pause(call: Invocation, run_id: str, operation_id: str | None) -> int:
    """Ask a running run to stop at its next step; it ends interrupted."""
    with call.open() as outlast:
        run = outlast.pause(run_id, operation_id=operation_id)
        if call.json:
            return decided(call, outlast, run, "")
        say(f"run {run.id}: asked to stop at its next step")
        say(f"see it stop: {call.command('events', run.id, '--follow')}")
        say(f"then continue: {call.command('resume', run.id)}")
        return 0


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f"; for text write '\"{text}\"'" if text.isprintable() and '"' not in text else ""
        raise click.UsageError(f"{what} {text!r} is not JSON ({error}){hint}") from error


def decided(call: Invocation, outlast: Outlast, run: RunRecord, what: str, resume: bool = False) -> int:
    """Say what was decided and how to go on; with `resume`, go on, unless an engine does."""
    top = top_of(outlast, run) if resume and not run.finished else None
    if top is not None and not top.engine:
        return go_on_now(call, outlast, top.id)
    call.tell_line(run, f"run {run.id}: {what}")
    if not run.finished and not call.json:
        say(how_it_goes_on(call, top_of(outlast, run)))
    return 0


def how_it_goes_on(call: Invocation, run: RunRecord) -> str:
    """What becomes of a run about which something was decided."""
    if run.status == "running":  # a resume would be refused
        holder = "the server" if late.shared.url_of(call.home) else run.holder
        return f"it is run by {holder}: it goes on there, or with the next tick"
    if run.engine:
        return f"{run.engine} goes on with it, where a worker of it is: {call.worker_for(run)}"
    return f"continue: {call.command('resume', run.id)}"


@command("fork", of="run_fork")
@run_argument()
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE …]")
@click.option("--state", multiple=True, metavar="NAME=VALUE", help="State at that step, as JSON or text. Repeatable.")
@effects_option
@resume_option
def fork(call: Invocation, run_id: str, from_step: str, effects: str, resume: bool, **given: Any) -> int:
    """Make another run that takes over what RUN did before STEP, and does the rest anew.

    RUN may have finished; it stays as it is. Inputs and state that are named are other ones from STEP on, and the code
    is the one that is there when the fork is resumed. Effects that it would do again are asked about.

    \b
      outlast fork RUN --from draft tone=stern --resume
    """
    with call.open() as outlast:
        known = outlast.get(run_id)
        inputs, state = pairs_of("NAME=VALUE", given["inputs"]), pairs_of("--state", given["state"])
        given["inputs"] = {name: _value(value, known.inputs.get(name)) for name, value in inputs.items()}
        given["state"] = {name: _value(value) for name, value in state.items()}

        def make(effects: Sequence[str], yes: bool) -> RunRecord:
            return outlast.fork(known.id, from_step, **given | {"effects": effects, "yes": yes})

        made = repeating(call, make, names_in(effects), given["yes"])
        what = f"forked as run {made.id} (task {made.task}) from {from_step}"
        return decided(call, outlast, made, f"{what} of run {known.id}", resume)


def _value(text: str, before: Any = None) -> Any:
    """A value: text in place of text; else JSON, or text where it is none."""
    if isinstance(before, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
