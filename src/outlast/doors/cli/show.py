"""`outlast show` and `receipts`: one run, its steps a row each and a line for what a row cannot say; its timeline."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import failed_command, trouble
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import run_argument, step_argument
from outlast.doors.cli.outcomes import say_aborted, say_error, say_next, say_result, say_trace, say_verdict
from outlast.doors.cli.outputs import say_displaced
from outlast.doors.cli.render import (
    STYLES,
    Cells,
    ago,
    as_json,
    at,
    brief,
    clean,
    counted,
    facts,
    note,
    say,
    span,
    table,
    terminal_columns,
    took,
    widest,
    width,
)
from outlast.doors.cli.runs import UNPROVEN, standing
from outlast.doors.cli.waits import left_line
from outlast.errors import EmbeddedOnly, IntegrityBroken, RunFinished, StepNotFound
from outlast.values.text import ended_line

if TYPE_CHECKING:
    from outlast import Outlast, Receipt, RunRecord, TimelineItem


COLUMNS, LEAST, MOST = 80, 12, 48  # of a line, and of what is shown of a result
BAR = 16  # columns
LEAST_COLUMNS = 60  # columns of a terminal that has room for it
FINE = ("succeeded", "over", "answered", "")  # what is not worth a word
IDLE = ("wait", "decision", "sleep", "run")  # kinds in which nothing was worked on
SHOWN_STEPS = 50
NOTES = 12
WRITTEN = 5  # files that are named
BAD = ("failed", "timed_out")
BAD_SHOWN = 10  # steps that failed, of those with a line of their own


@command("show", of="run_get", without=("state",))
@run_argument()
@click.option("--timeline", is_flag=True, help="When everything in it began, and how long it took.")
def show(call: Invocation, run_id: str, timeline: bool) -> None:
    """One run: how it stands, its steps, its waits, and what to do next."""
    with call.open() as outlast:
        if timeline:
            run = outlast.get(run_id)
            items = outlast.timeline(run.id)
            told = {"run_id": run.id, "status": run.status, "timeline": items}
            call.tell_or_say(told, lambda: say_timeline(run, items))
            return
        outlast._look_once()
        run, steps = _run_and_steps(outlast, run_id)
        try:
            plan = None if run.finished or run.status == "damaged" else outlast._plan_of_rest(run.id)
        except RunFinished:  # since we looked
            (run, steps), plan = _run_and_steps(outlast, run_id), None
        waits = tuple(outlast.interrupts(run.id))
        mirror = _mirror(outlast, run.id)
        gave_way = [] if run.status == "damaged" else outlast.displaced(run.id)
        began = late.shown.failed_below(outlast, run) if run.status == "failed" else []
        if call.json:
            beside: dict[str, Any] = {"verdict": plan.verdict if plan else None, "interrupts": waits}
            beside |= {"mirror": mirror or None, "displaced": [*gave_way]}
            beside["steps"] = map(late.shown.StepNow.of, steps.made(steps.heard))
            call.tell(late.shown.ShownRun(run, began), **beside)
            return
        _say_failed(call, run, steps, began)
        _say_run(run, mirror)
        say_step_rows(run, steps)
        say_damaged(call, steps.broken())
        say_displaced(call, run.id, gave_way)
        _say_held_up(call, run)
        if plan is not None and not run.holder:
            say()
            say_verdict(plan.verdict)
            say_next(call, run, plan, waits)


HELD_UP = {
    "no_worker": "no worker has its flow, so nobody {takes}; start one: {work}",
    "queue_paused": "its queue is paused; let runs out again: {queue}",
    "delayed": "it is delayed, and is taken when its time has come",
}


def _say_held_up(call: Invocation, run: RunRecord) -> None:
    """What keeps a run, and what to do about it."""
    kind, _, name = run.held_up.partition(":")
    if kind == "limit":
        say(f"a step of it waits for the limit {name}; see: {call.command('limit', 'list')}")
    elif kind in HELD_UP:
        work, queue = call.worker_for(run), call.command("queue", "resume", run.queue)
        takes = "takes it out of its queue" if run.status == "queued" else "goes on with it by himself"
        say(HELD_UP[kind].format(work=work, queue=queue, takes=takes))


def _run_and_steps(outlast: Outlast, run_id: str) -> tuple[RunRecord, RunSteps]:
    """A run and its steps; none, and a word about it, when one of its receipts cannot be read."""
    try:
        run, attempts = outlast._whole(run_id)
        return run, RunSteps(attempts)
    except IntegrityBroken as error:
        run = outlast.get(run_id)
        note(f"its receipts cannot be read: {error}")
        return run, RunSteps(None)


class RunSteps:
    """The last attempt of each step, in the order in which the run first met them; a receipt once it is shown."""

    def __init__(self, attempts: Any) -> None:
        """`attempts`: as the run's home or server has them; None when they cannot be read."""
        self._attempts = attempts
        self.heard: list[Any] = []
        if attempts is not None:
            met = sorted(attempts.heard, key=attrgetter("started_at"))
            self.heard = met if attempts.once_each else list({each.label: each for each in met}.values())

    def made(self, heard: Iterable[Any]) -> Iterator[Receipt]:
        return map(self._attempts.receipt, heard)

    def broken(self) -> list[Receipt]:
        """Every receipt that is not what was stored, also of attempts that others followed."""
        return list(self._attempts.broken()) if self._attempts is not None else []


def _mirror(outlast: Outlast, run_id: str) -> str:
    """The folder with the run's receipts as files; empty when nobody has written them."""
    try:
        folder = outlast.mirror(run_id, write=False)
    except EmbeddedOnly:  # it is where the server is
        return ""
    return str(folder) if folder.is_dir() else ""


def _say_failed(call: Invocation, run: RunRecord, steps: RunSteps, began: Sequence[dict[str, Any]]) -> None:
    """What went wrong, before anything else: the error, where it came from, and the steps that ended badly."""
    if run.error and run.status not in ("succeeded", "aborted"):
        say(f"run {run.id} {run.status}", STYLES.get(run.status, ""))
        say_error(run.error)
        if not run.is_of_commands:  # of commands it would be our own code
            say_trace(run.error)
    for child in began:
        where = f"step {clean(child['step'])} of run" if child["step"] else "run"
        began_as = f"{where} {child['run_id']} of {child['flow']}, which it began"
        say(f"that was in {began_as}: {call.command('show', child['run_id'])}")
    if say_bad_steps(call, run, steps) or run.error:
        say()


def _say_run(run: RunRecord, mirror: str) -> None:
    facts(
        ("run", run.id),
        ("status", standing(run)),
        ("phase", run.phase),
        ("queue", f"{run.queue}, priority {run.priority}" if run.priority else run.queue),
        ("not before", at(run.not_before) if run.not_before else ""),
        ("take by", at(run.take_by) if run.take_by else ""),
        ("deadline", at(run.deadline_at) if run.deadline_at else ""),
        ("schedule", run.schedule),
        ("task", run.task),
        ("flow", run.flow),
        ("found at", run.source if run.source != run.flow else ""),
        ("work tree", run.worktree),
        ("state", as_json(run.state) if run.state else ""),
        ("tags", ", ".join(run.tags)),
        ("inputs", as_json(run.inputs) if run.inputs else ""),
        ("scope", run.scope if run.scope != "default" else ""),
        ("parent", run.parent),
        ("fork of", f"{run.origin} from {run.origin_step}" if run.origin else ""),
        ("held by", run.holder),
        ("started", f"{at(run.created_at)} by {run.actor}"),
        ("updated", f"{at(run.updated_at)} ({ago(run.updated_at)})"),
        ("mirror", mirror),
    )
    if run.status == "succeeded":
        say_result(run.result)
    elif run.status == "aborted":
        say_aborted(run.status, run.error)


@command("receipts", of="run_receipts", without=("limit", "cursor"))
@run_argument()
@step_argument(metavar="[STEP]", required=False)
def receipts(call: Invocation, run_id: str, step: str | None) -> None:
    """What each attempt of each step left on record; with STEP, in full."""
    with call.open() as outlast:
        run = outlast.get(run_id)
        attempts = outlast._attempts(run.id)
        heard = _of_step(attempts.heard, run.id, step)
        found = map(attempts.receipt, heard)  # each when it is shown
        if call.json:
            call.tell(found, run_id=run.id)
        elif step is not None:
            for receipt in found:
                _say_receipt(receipt)
        elif heard:
            _say_receipts(found)
        else:
            say(f"no receipts yet; see `outlast show {run.id}`")


def _of_step(heard: Sequence[Any], run_id: str, step: str | None) -> Sequence[Any]:
    found = [each for each in heard if step in (None, each.label, each.step)]
    if step is not None and not found:
        known = dict.fromkeys(each.label for each in heard)
        raise StepNotFound(run_id, step, ", ".join([*known][-8:]) or "none yet")
    return found


def _say_receipts(found: Iterable[Receipt]) -> None:
    """A row each. Agents and exit codes have columns when there are any; what was left has the rest of the line."""
    lines = Cells(map(_line, found))
    heads = ["SEQ", "STEP", "KIND", "AGENT", "ATTEMPT", "STATUS", "EXIT", "TOOK"]
    filled = widest([""] * len(heads), (row[:-1] for row in lines), len)
    shown = [number for number, head in enumerate(heads) if filled[number] or head not in ("AGENT", "EXIT")]
    heads = [heads[number] for number in shown]
    taken = sum(each + 2 for each in widest(heads, ([row[number] for number in shown] for row in lines), width))
    room = min(max(COLUMNS - taken, LEAST), MOST)
    table([*heads, "LEFT"], ([*[row[number] for number in shown], brief(row[-1], room)] for row in lines))


def _line(receipt: Receipt) -> tuple[object, ...]:
    """What a row may show of a receipt, which is let go of: of what it left, as much as there can be room for."""
    first = (receipt.seq, receipt.label, receipt.kind, receipt.agent, receipt.attempt, told(receipt), exit_of(receipt))
    return *first, took(receipt.started_at, receipt.ended_at), brief(_left(receipt), MOST)


def _left(receipt: Receipt) -> str:
    """What an attempt left: its result, or what it died of. A condition has said it by its status."""
    if receipt.error is not None:
        why = receipt.error["args"]["why"] if failed_command(receipt.error) else receipt.error.get("message", "")
        return str(why)
    silent = receipt.status == "started" or told(receipt) != receipt.status
    return "" if silent or (receipt.result is None and "exit" in receipt.facts) else as_json(receipt.result)


def _given(kept: Mapping[str, Any]) -> str:
    """What is known of an input: itself, whose result it is, or how large it was."""
    if "value" in kept:
        return as_json(kept["value"])
    if "result_of" in kept:
        return f"the result of {kept['result_of'] or kept['call']}"
    return f"{kept['bytes']} bytes, digest {kept.get('digest', kept.get('blob', ''))[:16]}"


def _say_receipt(receipt: Receipt) -> None:
    say(f"{receipt.label} (attempt {receipt.attempt}) {told(receipt)}", STYLES.get(receipt.status, ""))
    facts(
        ("  kind", receipt.kind),
        ("  agent", receipt.agent),
        ("  settled", receipt.mark),
        ("  started", at(receipt.started_at)),
        ("  took", took(receipt.started_at, receipt.ended_at)),
        ("  inputs", f"digest {receipt.input_digest[:16]}"),
        *((f"    {name}", _given(given)) for name, given in receipt.inputs.items()),
        ("  key", receipt.key),
        ("  code", f"digest {receipt.code_digest[:16]}" if receipt.code_digest else ""),
        *noted(receipt),
        ("  done", receipt.envelope.done),
        ("  next", receipt.envelope.next),
        ("  artifacts", ", ".join(receipt.envelope.artifacts)),
        ("  hash", receipt.hash),
    )
    if receipt.error:
        say_error(receipt.error)
        if "transcript" not in receipt.facts:
            say_trace(receipt.error)
    else:
        say_result(receipt.result)


def say_timeline(run: RunRecord, items: Sequence[TimelineItem]) -> None:
    """A line for each item: after which time it began, how long it took, a bar, what it was."""
    if not items:
        say(f"nothing happened in run {run.id} yet")
        return
    start = min(item.started_at for item in items)
    end = max([item.ended_at or item.started_at for item in items])
    end = datetime.now(UTC) if run.status == "running" and run.holder else end
    say(f"run {run.id} of {run.flow} {run.status}; began {at(start)}, {span(end - start)} in all")
    drawn = not sys.stdout.isatty() or terminal_columns() >= LEAST_COLUMNS
    for item in items:
        say(_timeline_line(item, start, end - start, drawn=drawn), STYLES.get(item.status, ""), then=" " * 19)


def _timeline_line(item: TimelineItem, start: datetime, whole: timedelta, *, drawn: bool) -> str:
    began = f"+{span(item.started_at - start)}"
    length = span(item.ended_at - item.started_at) if item.ended_at and item.ended_at != item.started_at else ""
    bar = f"{_bar(item, start, whole)}  " if drawn else ""
    return f"{began:>8}  {length:>7}  {bar}{_timeline_words(item)}".rstrip()


def _bar(item: TimelineItem, start: datetime, whole: timedelta) -> str:
    """Where it lies: `=` work, `.` waiting, `|` a moment, `?` an end that nobody knows, `>` one that is to come."""
    first = _column(item.started_at - start, whole)
    if item.ended_at is None:
        goes_on = item.status in ("running", "started", "open", "waiting", "interrupted", "failed", "answered")
        drawn = ("." if item.kind in IDLE else "=") * (BAR - first - 1) + ">" if goes_on else "?"
    elif item.ended_at == item.started_at:
        drawn = "|"
    else:
        last = _column(item.ended_at - start, whole)
        drawn = ("." if item.kind in IDLE else "=") * (last - first + 1)
    return f"{' ' * first}{drawn}"[:BAR].ljust(BAR)


def _column(passed: timedelta, whole: timedelta) -> int:
    return min(int(passed / whole * BAR), BAR - 1) if whole else 0


def _timeline_words(item: TimelineItem) -> str:
    named = item.name if item.kind in ("step", "effect") else f"{item.kind} {item.name}"
    again = f" (attempt {item.attempt})" if item.attempt > 1 else ""
    status = f" {item.status}" if item.status not in (*FINE, item.name) else ""
    note = f"{' ' if item.note.startswith('by ') else ': '}{item.note}" if item.note else ""
    where = f" [{item.interrupt}]" if item.status == "open" else ""
    return clean(f"{named}{again}{status}{note}{where}")


def say_step_rows(run: RunRecord, steps: RunSteps) -> None:
    """A row for each step, the newest ones if there are many, and what needs a line of its own."""
    say()
    if not steps.heard:
        say("no step to show")
        return
    if len(steps.heard) > SHOWN_STEPS:
        say(f"… {len(steps.heard) - SHOWN_STEPS:,} earlier steps, see `outlast receipts {run.id}`")
    shown = list(steps.made(steps.heard[-SHOWN_STEPS:]))
    heads: tuple[str, ...] = ("STEP", "KIND", "STATUS", "ATTEMPTS", "TOOK")
    rows: list[tuple[object, ...]] = [
        (s.label, s.kind, status_of(run, s), s.attempt, took(s.started_at, s.ended_at)) for s in shown
    ]
    if any("exit" in step.facts for step in shown):
        heads = (*heads, "EXIT")
        rows = [(*row, exit_of(step)) for row, step in zip(rows, shown, strict=True)]
    table(heads, rows)
    _say_notes(shown)


def say_damaged(call: Invocation, found: Sequence[Receipt]) -> None:
    for each in found[-NOTES:]:
        say(f"{clean(each.label)}, attempt {each.attempt}: damaged: {each.broken}", "yellow")
    if len(found) > NOTES:
        say(f"… and {len(found) - NOTES:,} more damaged ones: {call.command('verify', found[0].run_id)}")


def exit_of(receipt: Receipt) -> str:
    """The exit code of a command; empty of what is none, or was ended before it had one."""
    code = receipt.facts.get("exit")
    return "" if code is None else str(code)


def status_of(run: RunRecord, step: Receipt) -> str:
    """A started attempt of a run that nobody holds did not end; a condition says yes or no."""
    if step.kind == "testimony" or step.status != "started":
        return told(step)
    return "running" if run.status == "running" else "did not end"


def told(receipt: Receipt) -> str:
    """The status of an attempt; of a condition what it says, and of testimony that it is no more than that."""
    if receipt.kind == "testimony":
        return f"{UNPROVEN}: {receipt.status}" if receipt.status else UNPROVEN
    if receipt.broken:
        return f"{receipt.status}, damaged"
    if receipt.status == "succeeded" and receipt.facts.get("exit") and isinstance(receipt.result, dict):
        return "does not hold" if receipt.result.get("holds") is False else receipt.status
    return receipt.status


def noted(receipt: Receipt) -> list[tuple[str, str]]:
    """What else is on record of a command: how it ended, what it printed and wrote, what it left."""
    known = receipt.facts
    kept = known.get("transcript")
    size = kept.get("size", len(str(kept.get("text", "")).encode())) if isinstance(kept, dict) else None
    files: dict[str, str] = known.get("files") or {}
    written = ", ".join(f"{path} {digest[:12]}" for path, digest in [*files.items()][:WRITTEN])
    more = f" and {len(files) - WRITTEN:,} more (--json has all)" if len(files) > WRITTEN else ""
    left = left_line(known["left"]) if isinstance(known.get("left"), dict) and known["left"].get("files") else ""
    return [
        ("  exit", exit_of(receipt)),
        ("  printed", f"{size:,} bytes" if size is not None else ""),
        ("  masked", counted(known["masked"], "secret") if known.get("masked") else ""),
        ("  wrote", written + more),
        ("  left", left),
        ("  ended", _ended(receipt).removeprefix("ended ")),
        ("  note", "" if left else _note(receipt)),
        ("  damaged", receipt.broken),
    ]


def _say_notes(steps: Sequence[Receipt]) -> None:
    """Why steps were left out, how loops ended, what unfinished attempts left."""
    lines = [
        f"{clean(step.label)}: {text}" for step in steps for text in (_note(step), _masked(step), _ended(step)) if text
    ]
    for line in lines[-NOTES:]:
        say(line, "dim")
    if len(lines) > NOTES:
        say(f"… and {len(lines) - NOTES:,} more notes, in `outlast receipts`")


def _masked(step: Receipt) -> str:
    number = step.facts.get("masked", 0)
    return f"{counted(number, 'secret')} masked in its transcript" if number else ""


def _ended(step: Receipt) -> str:
    """The background processes that it left and that were ended."""
    return ended_line(known) if (known := step.facts.get("stragglers")) else ""


def _note(step: Receipt) -> str:
    noted = step.facts
    if step.status == "skipped" and noted.get("why"):
        return f"skipped, {brief(str(noted['why']), 200)}"
    if "items" in noted:
        return counted(int(noted["items"]), "item")
    if "run" in noted and "flow" in noted:
        return f"run {noted['run']} of {noted['flow']}"
    if "iterations" in noted:
        ended = "accepted" if noted.get("accepted") else "gone on without being accepted"
        return f"{counted(int(noted['iterations']), 'round')}, {ended}"
    if "goes_to" in noted:
        return f"went on at {noted['goes_to']}" if noted["goes_to"] != "continue" else "went on all the same"
    if isinstance(noted.get("left"), dict) and noted["left"].get("files"):
        return left_line(noted["left"])
    if noted.get("transcript_incomplete"):
        return f"its transcript is incomplete: {noted['transcript_incomplete']}"
    return ""


def say_bad_steps(call: Invocation, run: RunRecord, steps: RunSteps) -> bool:
    """The steps that ended badly or not at all, each with what it died of; and where to read what it printed."""
    if run.finished or run.holder:
        return False
    bad = [each for each in steps.heard if each.status in (*BAD, "started")]
    for step in steps.made(bad[:BAD_SHOWN]):
        again = f", attempt {step.attempt}" if step.attempt > 1 else ""
        why = f": {brief(trouble(step.error), 200)}" if step.error else ""
        say(f"{step.kind} {clean(step.label)} {status_of(run, step)}{again}{why}", "red", then="  ")
        if ("transcript" if step.status in BAD else "group") in step.facts:
            say(f"  its output: {call.command('logs', run.id, step.label)}")
    if len(bad) > BAD_SHOWN:
        say(f"… and {len(bad) - BAD_SHOWN:,} more; `outlast receipts {run.id}` lists them all")
    return bool(bad)
