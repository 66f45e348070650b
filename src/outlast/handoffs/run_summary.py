"""An unfinished run as whoever continues it is told: what is done, what was under way, what is waited for.

All of it comes from the journal, from the files as they are, and from open interrupts; nothing is run or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from outlast.commands.mirror import CONDITIONS, flow_name
from outlast.errors import IntegrityBroken, OutlastError
from outlast.files.changes import LeftFiles
from outlast.ledger.journal import CALLS, Row, decode_header, decode_payload
from outlast.ledger.verdict import Reason, judge
from outlast.runs import journal
from outlast.runs.call import GOOD, Ledger, Past, fold, labels
from outlast.runs.look import record_now, waits_now
from outlast.runs.plan import Plan
from outlast.runs.rewind import REWOUND
from outlast.runs.run import RunRecord
from outlast.runs.same_flow import is_found
from outlast.runs.waits.interrupt import Interrupt, is_for_people
from outlast.store.contract import Reading, RunRow
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

LINES = 50  # of each kind in the text
ENTRIES = 200  # of steps in the state
CHARACTERS = 400  # of what one step said
_ABOUT_RUN = re.compile(r"(`outlast [a-z]+ )RUN\b")
# What is told of a run whose broken journal nobody accepted: what its receipts do not say, and what may have happened.
BELIEVED = ("integrity_broken", "claimed", "still_running", "effect_in_doubt", "effect_inputs_changed")


class Undone(NamedTuple):
    """A call without an outcome: how its last attempt ended, and what that left."""

    label: str
    past: Past
    status: str
    left: LeftFiles | None
    files: tuple[str, ...]  # left changed, or declared to be written: full paths
    unread: str = ""  # why what it left cannot be told


class RunSummary(NamedTuple):
    """All that is known of an unfinished run, gathered at one moment."""

    row: RunRow
    plan: Plan
    broken: Reason | None  # then nothing that the journal says is told
    done: tuple[tuple[str, Past], ...]  # with their labels, oldest first
    calls: int  # that the run has met, in all
    undone: tuple[Undone, ...]
    more_undone: int
    waits: tuple[Interrupt, ...]
    others: tuple[RunRecord, ...]  # unfinished runs of the task by other flows
    heard_us: int
    command: str


# -- gathering ---------------------------------------------------------------------------------------


def story_of(executor: Executor, row: RunRow, others: Sequence[RunRow]) -> RunSummary:
    """Everything about an unfinished run. A broken journal that nobody accepted is not believed."""
    from outlast.runs.planning import plan

    planned = plan(executor, row)
    kept = executor.home.store.read(lambda look: _kept(executor.home, look, row, is_held=planned.status == "running"))
    ledger = fold(kept.rows, kept.flaws)
    accepted = {each["fingerprint"] for each in ledger.accepted}
    damage = [one for one in planned.verdict.reasons if one.code == "integrity_broken"]
    broken = next((one for one in damage if one.fingerprint not in accepted), None)
    if broken:
        believed = judge(one for one in planned.verdict.reasons if one.code in BELIEVED)
        planned, ledger = replace(planned, steps=(), state={}, verdict=believed), Ledger()
    rows = [] if broken else kept.rows
    names = labels(rows)
    pasts = sorted((p for p in ledger.calls.values() if p.kind in CALLS), key=lambda past: past.seq)
    undone = [past for past in pasts if not past.finished]
    return RunSummary(
        row=row,
        plan=planned,
        broken=broken,
        done=tuple((names[past.call], past) for past in pasts if past.finished and past.call.step not in CONDITIONS),
        calls=len(pasts),
        undone=tuple(_undone(executor.home, row, planned, past, names[past.call]) for past in undone[-LINES:]),
        more_undone=len(undone[:-LINES]),
        waits=tuple(waits_now(executor.home, row.key)),
        others=tuple(record_now(executor.caller, each) for each in others),
        heard_us=max(row.updated_at, next(filter(None, map(_at, reversed(rows))), 0)),
        command=command_of(executor, row, planned.status),
    )


def _kept(home: Home, look: Reading, row: RunRow, *, is_held: bool) -> journal.Journal:
    """The journal of a run; of one whose process died as whoever takes it will have it: with what was under way."""
    from outlast.runs.under_way import rows_of_starts

    kept = journal.read(look, row)
    return kept if is_held else kept._replace(rows=[*kept.rows, *rows_of_starts(home, look, row, kept.rows)])


def _at(row: Row) -> int:
    """When an entry was written. A claim is no progress, and a handoff of the run's own stands for itself."""
    header = decode_header(row.header)
    facts = [("run", name) for name in ("claimed", "released", "checked")]
    is_none = (header.kind, header.name) in (*facts, ("value", "run.handoff"))
    return 0 if is_none else max(header.started_at, header.ended_at)


def files_of_run(caller: Caller, row: RunRow) -> Iterator[str]:
    """The files that a run is about, as full paths: those that its steps left, and those of what is under way."""
    from outlast.runs.outputs import recorded
    from outlast.runs.recovery import find

    def look(reading: Reading) -> Any:
        lease = reading.lease_of(row.id)
        return find(reading, row, lease) if lease is not None else None

    try:
        found = caller.home.store.read(look)
        if found is None:
            return
        yield from (one.full for one in recorded(caller, found))
        for past in (past for past in found.ledger.calls.values() if past.kind in CALLS and not past.finished):
            yield from _files_left(caller.home, row, past)[1]
    except OutlastError:  # a record that is not what was stored names no file
        return


def _files_left(home: Home, row: RunRow, past: Past) -> tuple[LeftFiles | None, tuple[str, ...]]:
    """What an unfinished call left, and the files of it: changed, or declared to be written. Raises IntegrityBroken."""
    from outlast.commands.leftovers import facts_of, previous_of

    left = previous_of(home, row.id, past)
    declared = facts_of(home, past.begun or past.payload).get("declared", {})
    folder = (home.project or Path.cwd()) / declared.get("folder", "")
    names = [change.path for change in left.files] if left else []
    names += [name for name in declared.get("writes", ()) if _is_concrete(name)]
    return left, tuple(str(folder / name) for name in names)


def _undone(home: Home, row: RunRow, planned: Plan, past: Past, label: str) -> Undone:
    crashed = "under way" if planned.status == "running" else "crashed"
    status = crashed if past.open else "set aside" if past.decided == REWOUND else past.last.status
    try:
        return Undone(label, past, status, *_files_left(home, row, past))
    except IntegrityBroken as error:
        return Undone(label, past, status, None, (), str(error.why))


def _is_concrete(pattern: str) -> bool:
    """Whether a pattern names one file or folder, and not the whole place."""
    return Path(pattern) != Path() and not set(pattern) & set("*?[")


def command_of(executor: Executor, row: RunRow, status: str) -> str:
    """What to type to go on; or what else has to be done, where nothing can be typed. One that runs is looked at."""
    place, _, name = row.source.rpartition(":")
    if status == "running":
        return f"outlast show {row.id}"
    if place == "script":
        return f"run the script that opens {name!r} again"
    if row.parent:
        return f"outlast resume {row.parent}"  # a child goes on with its parent
    if not is_found(executor, row):
        return f"put {place} back, then outlast resume {row.id}; or outlast resume {row.id} --flow PATH"
    return f"outlast resume {row.id}"


# -- its words ---------------------------------------------------------------------------------------


def summary(story: RunSummary) -> str:
    """How the run stands, in one line."""
    row, status = story.row, story.plan.status
    if story.broken:
        return f"run {row.id} of {short(flow_name(row.flow))} is {status}, and its record is broken"
    done = sum(past.last.status in GOOD for _, past in story.done)
    count = "no step is done" if not done else "1 step is done" if done == 1 else f"{done} steps are done"
    return f"run {row.id} of {short(flow_name(row.flow))} {_standing(story, status)}; {count}"


def _standing(story: RunSummary, status: str) -> str:
    ended = {"waiting": "waits", "running": "is running", "interrupted": "was interrupted"}.get(status, status)
    if status == "waiting" and story.waits:
        more = f" and {len(story.waits) - 1} more" if len(story.waits) > 1 else ""
        return f"{ended}: {short(story.waits[0].says)}{more}"
    if not story.undone:
        return f"{ended} between steps"
    last = story.undone[-1]
    return f"{ended} in step {short(last.label)}, attempt {last.past.attempts}"


def next_action(story: RunSummary) -> str:
    """What the last finished step said comes next, if it said so, what has to be seen to, and how to go on where."""
    said = decode_payload(story.done[-1][1].payload).next if story.done and story.done[-1][1].payload else ""
    if story.plan.status == "running":
        return f"wait for it, or look at it: {story.command}"
    return "; ".join(part for part in (short(said), _before_it(story), f"{_where(story)}: {story.command}") if part)


def _before_it(story: RunSummary) -> str:
    """What a person does before it goes on."""
    if any(is_for_people(wait.type) for wait in story.waits):
        return "answer what it waits for: outlast inbox"
    if doubts := story.plan.of("decide"):
        return f"decide about {listed(doubts, 3)}: outlast resume {story.row.id} --dry-run"
    if story.plan.status == "failed" and story.undone:
        return f"mend what {short(story.undone[-1].label)} failed of"
    return "mend what it failed of" if story.plan.status == "failed" else ""


def _where(story: RunSummary) -> str:
    """The step at which it goes on."""
    again = [step for step in story.plan.steps if step.action in ("retry", "redo", "confirm")]
    if again:
        return f"continue with step {short(again[0].label)}, attempt {again[0].attempts + 1}"
    if story.plan.ahead:
        return f"continue with step {short(story.plan.ahead[0])}"
    return f"continue after step {short(story.done[-1][0])}" if story.done else "continue"


def text(story: RunSummary, room: int) -> Iterator[str]:
    """The run in lines for people: each list within `room` bytes, with a count of what is left out."""
    row = story.row
    phase = f", phase {short(row.phase)}" if row.phase else ""
    yield f"Run {row.id} of {short(row.flow)} for task {row.task}: {story.plan.status}{phase}."
    if story.broken:
        yield f"Its record is broken ({story.broken.subject}: {story.broken.found}): nothing that it says is told here."
    if story.plan.status == "failed" and row.error:
        yield f"It failed: {_error(row, decode(row.error))}"
    see = f"outlast receipts {row.id}"
    done = [_done_line(*one) for one in story.done[-LINES:]]
    yield from _part("Done", done, len(story.done), room, see)
    undone = [_undone_line(story, one) for one in story.undone]
    yield from _part("Without an outcome", undone, len(undone) + story.more_undone, room, see)
    waits = [_wait_line(wait) for wait in story.waits[-LINES:]]
    yield from _part("Waits for", waits, len(story.waits), room, "outlast inbox")
    if story.plan.state:
        yield f"State: {short(encode(story.plan.state).decode(), 2_000)}"
    others = [f"run {one.id} of {short(one.flow)} ({one.status}): outlast show {one.id}" for one in story.others]
    yield from _part("Also unfinished for this task", others[-LINES:], len(others), room, "outlast runs")
    yield f"Next: {next_action(story)}"


def _part(title: str, lines: Sequence[str], total: int, room: int, see: str) -> Iterator[str]:
    """The newest lines of a list that fit, under its title, and how many of all there are left out."""
    if not total:
        return
    kept = _newest([f"- {line}" for line in lines], LINES, room)
    yield f"{title} ({total}):"
    if total > len(kept):
        yield f"- {total - len(kept)} earlier ones are left out here; see {see}"
    yield from kept


def _newest(items: Sequence[Any], count: int, room: int) -> list[Any]:
    """As many of the last items as fit, in order."""
    kept: list[Any] = []
    for item in reversed(items[-count:]):
        room -= len(encode(item)) + 1
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]


def _done_line(label: str, past: Past) -> str:
    said = decode_payload(past.payload).done if past.payload else ""
    status = "" if past.last.status == "succeeded" else f" ({past.last.status})"
    return f"{short(label)}{status}" + (f": {short(said)}" if said else "")


def _undone_line(story: RunSummary, undone: Undone) -> str:
    past, left = undone.past, undone.left
    doubt = " (an effect, in doubt)" if past.in_doubt else ""
    told = f"{short(undone.label)}{doubt}, attempt {past.attempts}: {undone.status}"
    error = decode_payload(past.payload).error if past.payload else None
    told += f" ({_error(story.row, error)})" if error else ""
    if undone.unread:
        return f"{told}; what it left cannot be read: {undone.unread}"
    if left is None:
        return told
    files = [f"{change.path} {change.change}" for change in left.files]
    told += f"; its work in files: {left.judgement}" + (f" ({listed(files)}){left.doubt}" if files else "")
    return f"{told}; its output: outlast logs {story.row.id} {quote(undone.label)}" if left.tail else told


def _error(row: RunRow, error: Mapping[str, Any]) -> str:
    """What went wrong; a command in it that is about the run names it."""
    said = _ABOUT_RUN.sub(rf"\g<1>{row.id}", str(error.get("message", "")))
    return short(f"{flow_name(str(error.get('type', '')))}: {said}")


def _wait_line(wait: Interrupt) -> str:
    told = f"{wait.id} ({wait.type}): {short(wait.says)}"
    if wait.type == "approval":
        return f"{told}; outlast approve {wait.id}, or outlast decline {wait.id} -m WHY"
    if wait.choices:
        form = '\'{"choice": "…"}\''
        return f"{told}; outlast answer {wait.id} {form} with one of {', '.join(wait.choices)}"
    if wait.type == "signal":
        return f"{told}; outlast signal {quote(str(wait.payload.get('name', '')))} JSON --run {wait.run_id}"
    return f"{told}; outlast answer {wait.id} JSON" if is_for_people(wait.type) else told


def listed(names: Sequence[str], limit: int = 20) -> str:
    """Names in one line; of many, the first ones and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(short(name) for name in names[:limit]) + more


def short(text: str, limit: int = CHARACTERS) -> str:
    """A text on one line that JSON and a terminal can carry; a long one says how much of it is missing."""
    plain = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    plain = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in plain)
    return plain if len(plain) <= limit else f"{plain[:limit]}… [{len(plain) - limit} more characters]"


def state(story: RunSummary, room: int) -> dict[str, Any]:
    """The run as programs read it. What is left out is counted."""
    row, planned = story.row, story.plan
    every = [
        {"step": one.label, "kind": one.kind, "status": one.status, "attempts": one.attempts, "action": one.action}
        for one in planned.steps
    ]
    steps = _newest(every, ENTRIES, room)
    made = {
        "run_id": row.id,
        "flow": row.flow,
        "task": row.task,
        "status": planned.status,
        "phase": row.phase,
        "state": planned.state,
        "steps": steps,
    }
    missing = story.calls - len(steps)
    return made | ({"steps_left_out": missing} if missing else {})
