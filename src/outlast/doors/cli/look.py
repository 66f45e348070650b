"""Looking at runs: the list, one of them, its receipts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import run_argument, step_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import failed_command
from outlast.doors.cli.render import (
    STYLES,
    ago,
    as_json,
    at,
    brief,
    clean,
    emit,
    facts,
    note,
    say,
    table,
    took,
    width,
)
from outlast.doors.cli.steps import (
    UNPROVEN,
    exit_of,
    latest,
    noted,
    say_bad_steps,
    say_damaged,
    say_steps,
    step_json,
    told,
)

if TYPE_CHECKING:
    from outlast import Displaced, Interrupt, Outlast, Plan, Receipt, RunRecord

SEALS = {"moved": "moved", "copy": "{status}, copy (read-only)", "testimony": UNPROVEN}
COLUMNS, LEAST, MOST = 80, 12, 48  # of a line, and of what is shown of a result
RUN_HEADS = ("RUN", "STATUS", "UPDATED", "TASK", "FLOW")


@command("runs")
@click.option(
    "--status",
    metavar="STATUS",
    help="Only these: running, waiting, failed, interrupted, crashed, succeeded or aborted.",
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def runs(door: Door, status: str | None, limit: int) -> int:
    """List the newest runs first."""
    from outlast.runs.run import STATUSES
    from outlast.values.codec import jsonable

    if status is not None and status not in STATUSES:
        from outlast.values.text import meant

        known = f"{status!r} is none of {', '.join(STATUSES)}"
        raise click.BadParameter(f"{known}; {meant(status, STATUSES)}".rstrip("; "), param_hint="--status")
    with door.open() as outlast:
        found = [run for run in outlast.runs(status=status, limit=limit) if door.scope in (None, run.scope)]
    if door.json:
        emit({"runs": jsonable(found)})
    elif found:
        say_runs(found)
        if sys.stdout.isatty():
            say(f"one of them: {door.command('show', 'RUN')}", "dim")
    else:
        say(f"no {status} runs; see `outlast runs`" if status else "no runs yet; start one: outlast run FLOW")
    return 0


def say_runs(found: Sequence[RunRecord]) -> None:
    if found:
        table(RUN_HEADS, map(run_row, found))


def run_row(run: RunRecord) -> Sequence[object]:
    return run.id, standing(run), ago(run.updated_at), run.task, run.flow


def standing(run: RunRecord) -> str:
    """The status in a word; of a run that only stands for one elsewhere, that it does."""
    return SEALS[run.seal].format(status=run.status) if run.seal else run.status


@command("show")
@run_argument()
@click.option("--timeline", is_flag=True, help="When everything in it began, and how long it took.")
def show(door: Door, run_id: str, timeline: bool) -> int:
    """One run: how it stands, its steps, its waits, and what to do next."""
    from outlast.doors.cli.outputs import say_displaced
    from outlast.python.shown import displaced_json, failed_below

    with door.open() as outlast:
        run = outlast.get(run_id)
        if timeline:
            from outlast.doors.cli.steps import emit_timeline, say_timeline

            (emit_timeline if door.json else say_timeline)(run, outlast.timeline(run.id))
            return 0
        plan = None if run.finished or run.status == "damaged" else outlast.plan(run.id)
        receipts = _whole(outlast, run.id)
        steps, waits = latest(receipts), tuple(outlast.interrupts(run.id))
        mirror, gave_way = _mirror(outlast, run.id), _displaced(outlast, run)
        began = failed_below(outlast, run)
    if door.json:
        told = {"mirror": mirror or None, "displaced": [displaced_json(one) for one in gave_way]}
        emit(_show_json(run, plan, steps, waits) | told | {"failed_below": began})
        return 0
    _say_failed(door, run, steps, began)
    _say_run(run, mirror)
    say_steps(run, steps)
    say_damaged(door, run, receipts)
    say_displaced(door, run.id, gave_way)
    _say_standing(door, run, plan, waits)
    return 0


def _mirror(outlast: Outlast, run_id: str) -> str:
    """The folder with the run's receipts as files; empty when nobody has written them."""
    from outlast.errors import EmbeddedOnly

    try:
        folder = outlast.mirror(run_id, write=False)
    except EmbeddedOnly:  # it is where the server is
        return ""
    return str(folder) if folder.is_dir() else ""


def _displaced(outlast: Outlast, run: RunRecord) -> Sequence[Displaced]:
    return [] if run.status == "damaged" else outlast.displaced(run.id)


def _whole(outlast: Outlast, run_id: str) -> Sequence[Receipt]:
    """The receipts of a run; none, and a word about it, when one of them is damaged."""
    from outlast.errors import IntegrityBroken

    try:
        return outlast.receipts(run_id)
    except IntegrityBroken as error:
        note(f"its receipts cannot be read: {error}")
        return []


def _show_json(
    run: RunRecord, plan: Plan | None, steps: Sequence[Receipt], waits: tuple[Interrupt, ...]
) -> dict[str, Any]:
    from outlast.python.shown import verdict_json, wait_json
    from outlast.values.codec import jsonable

    return {
        **jsonable(run),
        "verdict": verdict_json(plan.verdict) if plan else None,
        "steps": [step_json(step) for step in steps],
        "interrupts": [wait_json(wait) for wait in waits],
    }


def _say_failed(door: Door, run: RunRecord, steps: Sequence[Receipt], began: Sequence[dict[str, Any]]) -> None:
    """What went wrong, before anything else: the error, where it came from, and the steps that ended badly."""
    from outlast.doors.cli.outcomes import say_error, say_trace
    from outlast.flows.loading import is_recipe

    if run.error and run.status not in ("succeeded", "aborted"):
        say(f"run {run.id} {run.status}", STYLES.get(run.status, ""))
        say_error(run.error)
        if not is_recipe(run.flow):  # of commands it would be our own code
            say_trace(run.error)
    for child in began:
        where = f"step {clean(child['step'])} of run" if child["step"] else "run"
        began_as = f"{where} {child['run_id']} of {child['flow']}, which it began"
        say(f"that was in {began_as}: {door.command('show', child['run_id'])}")
    if say_bad_steps(door, run, steps) or run.error:
        say()


def _say_run(run: RunRecord, mirror: str) -> None:
    from outlast.doors.cli.outcomes import say_aborted, say_result

    facts(
        [
            ("run", run.id),
            ("status", standing(run)),
            ("phase", run.phase),
            ("task", run.task),
            ("flow", run.flow),
            ("found at", run.source if run.source != run.flow else ""),
            ("work tree", run.worktree),
            ("inputs", as_json(run.inputs) if run.inputs else ""),
            ("scope", run.scope if run.scope != "default" else ""),
            ("parent", run.parent),
            ("fork of", f"{run.origin} from {run.origin_step}" if run.origin else ""),
            ("held by", run.holder),
            ("started", f"{at(run.created_at)} by {run.actor}"),
            ("updated", f"{at(run.updated_at)} ({ago(run.updated_at)})"),
            ("mirror", mirror),
        ]
    )
    if run.status == "succeeded":
        say_result(run.result)
    elif run.status == "aborted":
        say_aborted(run.status, run.error)


def _say_standing(door: Door, run: RunRecord, plan: Plan | None, waits: tuple[Interrupt, ...]) -> None:
    from outlast.doors.cli.plans import say_next, say_verdict

    if plan is not None and not run.holder:
        say()
        say_verdict(plan.verdict)
        say_next(door, run, plan, waits)


@command("receipts")
@run_argument()
@step_argument("[STEP]", required=False)
def receipts(door: Door, run_id: str, step: str | None) -> int:
    """What each attempt of each step left on record; with STEP, in full."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        run = outlast.get(run_id)
        found = _of_step(outlast, run.id, step)
    if door.json:
        emit({"run_id": run.id, "receipts": jsonable(found)})
    elif step is not None:
        for receipt in found:
            _say_receipt(receipt)
    elif found:
        _say_receipts(found)
    else:
        say(f"no receipts yet; see `outlast show {run.id}`")
    return 0


def _of_step(outlast: Outlast, run_id: str, step: str | None) -> list[Receipt]:
    from outlast.errors import StepNotFound

    every = outlast.receipts(run_id)
    found = [receipt for receipt in every if step in (None, receipt.label, receipt.step)]
    if step is not None and not found:
        known = dict.fromkeys(receipt.label for receipt in every)
        raise StepNotFound(run_id, step, ", ".join([*known][-8:]) or "none yet")
    return found


def _say_receipts(found: Sequence[Receipt]) -> None:
    """A row each. Agents and exit codes have columns when there are any; what was left has the rest of the line."""
    agents, exits = any(each.agent for each in found), any("exit" in each.facts for each in found)
    heads = ["SEQ", "STEP", "KIND", *["AGENT"] * agents, "ATTEMPT", "STATUS", *["EXIT"] * exits, "TOOK"]
    rows = [_row(each, agents, exits) for each in found]
    taken = sum(max(width(clean(cell)) for cell in column) + 2 for column in zip(heads, *rows, strict=True))
    room = min(max(COLUMNS - taken, LEAST), MOST)
    table([*heads, "LEFT"], [(*row, brief(_left(each), room)) for row, each in zip(rows, found, strict=True)])


def _row(receipt: Receipt, agents: bool, exits: bool) -> Sequence[object]:
    agent, code = [receipt.agent] * agents, [exit_of(receipt)] * exits
    length = took(receipt.started_at, receipt.ended_at)
    return receipt.seq, receipt.label, receipt.kind, *agent, receipt.attempt, told(receipt), *code, length


def _left(receipt: Receipt) -> str:
    """What an attempt left: its result, or what it died of. A condition has said it by its status."""
    if receipt.error is not None:
        why = receipt.error["args"]["why"] if failed_command(receipt.error) else receipt.error.get("message", "")
        return str(why)
    silent = receipt.status == "started" or told(receipt) != receipt.status
    return "" if silent or (receipt.result is None and "exit" in receipt.facts) else as_json(receipt.result)


def _say_receipt(receipt: Receipt) -> None:
    from outlast.doors.cli.outcomes import say_error, say_result, say_trace

    say(f"{receipt.label} (attempt {receipt.attempt}) {told(receipt)}", STYLES.get(receipt.status, ""))
    facts(
        [
            ("  kind", receipt.kind),
            ("  agent", receipt.agent),
            ("  settled", receipt.mark),
            ("  started", at(receipt.started_at)),
            ("  took", took(receipt.started_at, receipt.ended_at)),
            ("  inputs", f"digest {receipt.input_digest[:16]}"),
            ("  key", receipt.key),
            ("  code", f"digest {receipt.code_digest[:16]}" if receipt.code_digest else ""),
            *noted(receipt),
            ("  done", receipt.envelope.done),
            ("  next", receipt.envelope.next),
            ("  artifacts", ", ".join(receipt.envelope.artifacts)),
            ("  hash", receipt.hash),
        ]
    )
    if receipt.error:
        say_error(receipt.error)
        if "transcript" not in receipt.facts:
            say_trace(receipt.error)
    else:
        say_result(receipt.result)
