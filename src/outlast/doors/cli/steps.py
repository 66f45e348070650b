"""The steps of a run as `show` prints them: a row each, and a line for what a row cannot say.

`outlast show RUN --timeline`: when everything in a run began, how long it took, and how that lies in time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.door import Door
from outlast.doors.cli.exits import trouble
from outlast.doors.cli.render import STYLES, at, brief, clean, counted, emit, say, span, table, terminal_columns, took
from outlast.values.doubt import doubt_of
from outlast.values.text import ended_line

if TYPE_CHECKING:
    from outlast import Receipt, RunRecord, TimelineItem


BAR = 16  # columns
LEAST = 60  # columns of a terminal that has room for it
FINE = ("succeeded", "over", "answered", "")  # what is not worth a word
IDLE = ("wait", "decision", "sleep", "run")  # kinds in which nothing was worked on


def say_timeline(run: RunRecord, items: Sequence[TimelineItem]) -> None:
    """A line for each item: after which time it began, how long it took, a bar, what it was."""
    if not items:
        say(f"nothing happened in run {run.id} yet")
        return
    start = min(item.started_at for item in items)
    end = max([item.ended_at or item.started_at for item in items])
    end = datetime.now(UTC) if run.status == "running" and run.holder else end
    say(f"run {run.id} of {run.flow} {run.status}; began {at(start)}, {span(end - start)} in all")
    drawn = not sys.stdout.isatty() or terminal_columns() >= LEAST
    for item in items:
        say(_line(item, start, end - start, drawn=drawn), STYLES.get(item.status, ""), then=" " * 19)


def timeline_json(run: RunRecord, items: Sequence[TimelineItem]) -> dict[str, Any]:
    from outlast.values.codec import jsonable

    shown = [{**jsonable(item), "seconds": item.seconds} for item in items]
    return {"run_id": run.id, "status": run.status, "timeline": shown}


def emit_timeline(run: RunRecord, items: Sequence[TimelineItem]) -> None:
    emit(timeline_json(run, items))


def _line(item: TimelineItem, start: datetime, whole: timedelta, *, drawn: bool) -> str:
    began = f"+{span(item.started_at - start)}"
    length = span(item.ended_at - item.started_at) if item.ended_at and item.ended_at != item.started_at else ""
    bar = f"{_bar(item, start, whole)}  " if drawn else ""
    return f"{began:>8}  {length:>7}  {bar}{_words(item)}".rstrip()


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


def _words(item: TimelineItem) -> str:
    named = item.name if item.kind in ("step", "effect") else f"{item.kind} {item.name}"
    again = f" (attempt {item.attempt})" if item.attempt > 1 else ""
    status = f" {item.status}" if item.status not in (*FINE, item.name) else ""
    note = f"{' ' if item.note.startswith('by ') else ': '}{item.note}" if item.note else ""
    where = f" [{item.interrupt}]" if item.status == "open" else ""
    return clean(f"{named}{again}{status}{note}{where}")


SHOWN = 50
NOTES = 12
WRITTEN = 5  # files that are named
UNPROVEN = "testimony (unproven)"
BAD = ("failed", "timed_out")
BAD_SHOWN = 10  # steps that failed, of those with a line of their own
WORK = {"none": "nothing in its files", "partial": "partial work", "complete": "all its files"}


def latest(receipts: Sequence[Receipt]) -> list[Receipt]:
    """The last attempt of each step, in the order in which the run first met them."""
    found: dict[str, Receipt] = {}
    for receipt in sorted(receipts, key=lambda receipt: receipt.started_at):
        found[receipt.label] = receipt
    return list(found.values())


def step_json(step: Receipt) -> dict[str, Any]:
    from outlast.values.codec import jsonable

    return {
        "label": step.label,
        "kind": step.kind,
        "agent": step.agent,
        "status": step.status,
        "attempts": step.attempt,
        "exit": step.facts.get("exit"),
        "left": step.facts.get("left"),
        "masked": step.facts.get("masked", 0),
        "stragglers": step.facts.get("stragglers", []),
        "started_at": jsonable(step.started_at),
        "ended_at": jsonable(step.ended_at),
        "error": step.error,
        "broken": step.broken,
    }


def say_steps(run: RunRecord, steps: Sequence[Receipt]) -> None:
    """A row for each step, the newest ones if there are many, and what needs a line of its own."""
    say()
    if not steps:
        say("no step to show")
        return
    if len(steps) > SHOWN:
        say(f"… {len(steps) - SHOWN:,} earlier steps, see `outlast receipts {run.id}`")
    shown = steps[-SHOWN:]
    heads: tuple[str, ...] = ("STEP", "KIND", "STATUS", "ATTEMPTS", "TOOK")
    rows: list[tuple[object, ...]] = [
        (s.label, s.kind, status_of(run, s), s.attempt, took(s.started_at, s.ended_at)) for s in shown
    ]
    if any("exit" in step.facts for step in shown):
        heads = (*heads, "EXIT")
        rows = [(*row, exit_of(step)) for row, step in zip(rows, shown, strict=True)]
    table(heads, rows)
    _say_notes(shown)


def say_damaged(door: Door, run: RunRecord, receipts: Sequence[Receipt]) -> None:
    """Every receipt that is not what was stored, also of attempts that others followed."""
    found = [each for each in receipts if each.broken]
    for each in found[-NOTES:]:
        say(f"{clean(each.label)}, attempt {each.attempt}: damaged: {each.broken}", "yellow")
    if len(found) > NOTES:
        say(f"… and {len(found) - NOTES:,} more damaged ones: {door.command('verify', run.id)}")


def exit_of(receipt: Receipt) -> str:
    """The exit code of a command; empty of what is none, or was ended before it had one."""
    code = receipt.facts.get("exit")
    return "" if code is None else str(code)


def status_of(run: RunRecord, step: Receipt) -> str:
    """A started attempt of a run that nobody holds did not end; a condition says yes or no."""
    if step.kind == "testimony":
        return told(step)
    if step.status == "started":
        return "running" if run.status == "running" else "did not end"
    return told(step)


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


def say_bad_steps(door: Door, run: RunRecord, steps: Sequence[Receipt]) -> bool:
    """The steps that ended badly or not at all, each with what it died of; and where to read what it printed."""
    bad = [] if run.finished or run.holder else [step for step in steps if step.status in (*BAD, "started")]
    for step in bad[:BAD_SHOWN]:
        again = f", attempt {step.attempt}" if step.attempt > 1 else ""
        why = f": {brief(trouble(step.error), 200)}" if step.error else ""
        say(f"{step.kind} {clean(step.label)} {status_of(run, step)}{again}{why}", "red", then="  ")
        if ("transcript" if step.status in BAD else "group") in step.facts:
            say(f"  its output: {door.command('logs', run.id, step.label)}")
    if len(bad) > BAD_SHOWN:
        say(f"… and {len(bad) - BAD_SHOWN:,} more; `outlast receipts {run.id}` lists them all")
    return bool(bad)


def left_line(left: dict[str, Any], most: int = 3) -> str:
    """What an unfinished attempt left, in a line."""
    files = [f"{each.get('path')} {each.get('change')}" for each in left.get("files", ())]
    more = f" and {len(files) - most:,} more" if len(files) > most else ""
    names = f": {', '.join(files[:most])}{more}{doubt_of(str(left.get('shared', '')))}" if files else ""
    return f"attempt {left.get('attempt')} {left.get('status')}, left {WORK.get(str(left.get('judgement')))}{names}"
