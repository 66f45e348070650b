"""Handoffs that nobody wrote: composed, when asked for, from what an unfinished run left.

What was done comes from receipts, what was under way from its files as they are, what is waited for from its
interrupts. Nothing is stored, run or written, and nothing is invented: what no step said is not said here either. Who
claims such a handoff takes the run's own lease.

Its checks are the `accept` of a flow file's steps. Only what can be asked outside of the run is taken: not of steps
that are done for each item, and not of steps that a condition left out, or may still leave out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from outlast.commands.environment import work_shell
from outlast.commands.leftovers import facts_of, previous_of
from outlast.commands.mirror import CONDITIONS, flow_name
from outlast.errors import IntegrityBroken, OutlastError, StepNotFound
from outlast.files.changes import LeftFiles
from outlast.flows.yaml.flow import FlowFileSpec
from outlast.flows.yaml.model import Command, FlowDefinition, Node, Parallel, Repeat
from outlast.handoffs.handoff import (
    MAX_BYTES,
    MAX_CHECKS,
    MAX_FILES,
    STALE_SECONDS,
    Evidence,
    Form,
    Handoff,
    Lint,
    TaskRun,
    anchor_of,
    encode_handoff,
    key_of,
)
from outlast.handoffs.lint import lint
from outlast.handoffs.task_state import command_of, told_at, unfinished_of
from outlast.home.home import run_row
from outlast.ledger.journal import CALLS, decode_payload
from outlast.ledger.verdict import Reason, judge
from outlast.runs import journal
from outlast.runs.call import GOOD, Ledger, Past, fold, labels
from outlast.runs.decisions import find_call
from outlast.runs.found import find
from outlast.runs.look import record_now
from outlast.runs.outlook import plan
from outlast.runs.outputs.files import recorded
from outlast.runs.plan import Plan
from outlast.runs.receipt import Attempts
from outlast.runs.rewind import REWOUND
from outlast.runs.run import RunRecord
from outlast.runs.same_flow import flow_if_known
from outlast.runs.under_way import rows_of_starts
from outlast.runs.waits.interrupt import Interrupt, is_for_people
from outlast.runs.waits.stored import waits_now
from outlast.store.contract import Reading, RunRow
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.handoffs.anchor import FoundHandoff
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor


def checks_of(executor: Executor, row: RunRow, root: str, begun: Collection[str]) -> tuple[Form, ...]:
    """What the flow of a run accepts its steps by, each once, in the order of the file; to be run from the root.

    `begun`: the steps that the run has come to.
    """
    try:
        spec = flow_if_known(executor, row)
    except OutlastError:  # it is told elsewhere that the flow is not found, or is no flow any more
        return ()
    if not isinstance(spec, FlowFileSpec):
        return ()
    found: dict[str, Form] = {}
    inputs = {
        f"OUTLAST_INPUT_{name.upper().replace('-', '_')}": value if isinstance(value, str) else json.dumps(value)
        for name, value in decode(row.inputs).items()
    }
    for command in _asked(spec.definition.steps, begun):
        folder = os.path.realpath(os.path.join(spec.folder, spec.definition.cwd, command.cwd))
        inside = os.path.relpath(folder, root)
        if inside.split(os.sep)[0] == "..":
            continue  # a check stays inside of the root
        for accepted in command.accept:
            form = _form(spec.definition, command, accepted, inputs, "" if inside == "." else inside)
            found[repr(form)] = form
    return tuple(found.values())[:MAX_CHECKS]


def _asked(nodes: Sequence[Node], begun: Collection[str]) -> Iterator[Command]:
    for node in nodes:
        if node.when and node.id not in begun:
            continue
        if isinstance(node, Command):
            yield node
        elif isinstance(node, Parallel | Repeat):
            yield from _asked(node.branches if isinstance(node, Parallel) else node.steps, begun)


def _form(definition: FlowDefinition, command: Command, text: str, inputs: Mapping[str, str], folder: str) -> Form:
    known = {**inputs, **definition.env, **command.env}
    told = "".join(f"export {name}={shlex.quote(known[name])}; " for name in sorted(known) if name in text)
    shell = work_shell(command.shell or definition.shell, text)
    run = text.strip() if shell == ("/bin/sh",) else shlex.join([*shell, "-c", text])
    return {"run": told + run, "cwd": folder} if folder else told + run


ROOMS = (128 * 1024, 16 * 1024, 2 * 1024)  # bytes for each list; less when what is inherited is large
INHERITED = (
    *("acceptance_checks", "must_change", "must_remove", "must_keep", "rollback", "environment"),
    *("repo_root", "file_path", "symbol", "risk", "tags", "refs", "creates"),
)


class Composed(Struct, frozen=True):
    """A handoff made from a run, what bears on trusting it, and the run."""

    handoff: Handoff
    reasons: tuple[Reason, ...]
    run: TaskRun
    evidence: tuple[Evidence, ...] = ()  # what came of checks, as the run's record tells it, oldest first
    accepted: tuple[str, ...] = ()  # fingerprints of reasons that somebody took upon himself
    beside: FoundHandoff | None = None  # the open handoff under the same anchor: it is claimed with the run


def compose(executor: Executor, scope: str, task: str, base: Handoff | None = None, after: int = 0) -> Composed | None:
    """What the task's unfinished run gives to whoever continues; None when there is none that could go on here.

    Of several the one that was updated last; the others are named. `base`: an older handoff under the same anchor,
    whose checks, musts and files still hold. `after`: when the task was completed, which earlier runs are part of.
    """
    ours = executor.home.store.read(lambda look: unfinished_of(look, scope, task, after))
    if not ours:
        return None
    story = story_of(executor, ours[-1], ours[:-1])
    run = TaskRun(story.row.id, story.row.flow, story.plan.status, story.command)
    reasons = story.plan.verdict.reasons
    return Composed(_fitting(executor, story, base), reasons, run, *_recorded(executor.home, story))


def _recorded(home: Home, story: RunSummary) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """What checks came to and what was accepted on the run's record, as far as that record is what was stored."""
    rows, flaws, _ = home.store.read(lambda look: journal.read(look, story.row))
    ledger = fold(rows, flaws)
    evidence = [msgspec.convert(each, Evidence) for facts in ledger.checked for each in facts["evidence"]]
    return tuple(evidence), tuple(each["fingerprint"] for each in ledger.accepted)


# -- the handoff -------------------------------------------------------------------------------------


def _fitting(executor: Executor, story: RunSummary, base: Handoff | None) -> Handoff:
    """The handoff within its limit. What a base has is never cut: if it leaves no room, it is only named."""
    for room in ROOMS:
        made = _handoff(executor, story, base, room, base)
        if len(encode_handoff(made)) <= MAX_BYTES:
            return made
    return _handoff(executor, story, None, ROOMS[-1], base)


def _handoff(
    executor: Executor, story: RunSummary, inherited: Handoff | None, room: int, base: Handoff | None
) -> Handoff:
    row = story.row
    known = {name: getattr(inherited, name) for name in INHERITED} if inherited else {}
    if inherited is None and executor.home.project is not None:
        known["repo_root"] = str(executor.home.project)
    root = _root(executor.home, inherited)
    files, outside = _target_files(story, root, inherited.target_files if inherited else ())
    known["acceptance_checks"] = _checks(executor, story, root, known.get("acceptance_checks", ()))
    about = [*_left_out_files(files[MAX_FILES:], outside), *_about_base(base, inherited)]
    made = Handoff(
        **known,
        id=f"run:{row.id}",
        scope=row.scope,
        revision=0,
        anchor=anchor_of(row.task),
        actor=row.actor,
        source="run",
        stored_us=story.heard_us,
        expires_us=story.heard_us + STALE_SECONDS * 1_000_000,
        lint=Lint(100),
        summary=summary(story),
        handoff_text="\n".join([*text(story, room), *about]),
        target_files=tuple(files[:MAX_FILES]),
        next_action=next_action(story),
        execution_state_v1=msgspec.Raw(encode(state(story, room))),
    )
    return replace(made, lint=lint(made))


def _checks(executor: Executor, story: RunSummary, root: str, known: Sequence[Form]) -> tuple[Form, ...]:
    """What an older handoff is checked by, and what the flow accepts its steps by."""
    if story.broken:
        return tuple(known)
    begun = {step.step for step in story.plan.steps if step.status != "skipped"}
    asked = {key_of(form): form for form in (*known, *checks_of(executor, story.row, root, begun))}
    return tuple(asked.values())[:MAX_CHECKS]


def _root(home: Home, base: Handoff | None) -> str:
    """The folder that target files are named from."""
    told = (base.binding.root if base.binding else base.repo_root) if base else None
    return os.path.realpath(told or home.project or Path.cwd())


def _target_files(story: RunSummary, root: str, known: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that the work is about, from the root; and those that cannot be named so."""
    files, outside = dict.fromkeys(known), []
    for path in (path for undone in story.undone for path in undone.files):
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        inside = os.path.relpath(place, root)
        if inside == "." or inside.split(os.sep)[0] == ".." or not _is_text(inside):
            outside.append(path)
        else:
            files[inside] = None
    return list(files), list(dict.fromkeys(outside))


def _is_text(path: str) -> bool:
    return path.isascii() or path.encode("utf-8", "replace").decode() == path


def _left_out_files(beyond: Sequence[str], outside: Sequence[str]) -> Iterator[str]:
    if beyond:
        yield f"{len(beyond)} more files were left changed than a handoff names."
    if outside:
        yield f"Not named as target files, since they lie elsewhere or have names that are no text: {listed(outside)}."


def _about_base(base: Handoff | None, inherited: Handoff | None) -> Iterator[str]:
    if base is None:
        return
    yield f"It goes on from handoff {base.id} (revision {base.revision}): {short(base.summary)}"
    if base.next_action:
        yield f"Its next action was: {short(base.next_action)}"
    if inherited is None:
        show = f"outlast handoff show --id {base.id}"
        yield f"Its checks and musts still hold; they are too large to repeat here: {show}"


# -- a step's own handoff ----------------------------------------------------------------------------


class StepHandoff(Struct, frozen=True):
    """What one step handed to whoever came next: its envelope, and the receipt that proves it."""

    run_id: str
    flow: str
    task: str
    step: str
    agent: str
    status: str
    attempt: int
    done: str
    next: str
    artifacts: tuple[str, ...]
    state: dict[str, Any]
    result: Any
    seq: int
    hash: str
    at: datetime


def step_handoff(home: Home, run_id: str, step: str) -> StepHandoff:
    """The envelope of a step's newest attempt. The step by its label, or by its name if one call has it.

    Raises RunNotFound, AmbiguousPrefix, StepNotFound, StepAmbiguous, IntegrityBroken.
    """
    row = run_row(home, run_id)
    call, rows = home.store.read(lambda look: (find_call(look, row, step)[0], journal.read(look, row).rows))
    label = labels(rows).get(call)
    found = [one for one in Attempts(row.id, row.flow, rows) if one.label == label]
    if not found:  # it only waits: nothing of it has begun
        raise StepNotFound(row.id, step, ", ".join([*labels(rows).values()][-8:]) or "none yet")
    last = found[-1]
    return StepHandoff(
        **asdict(last.envelope),
        run_id=row.id,
        flow=row.flow,
        task=row.task,
        step=last.label,
        agent=last.agent or "main",
        status=last.status,
        attempt=last.attempt,
        result=decode(home.blobs.get(last.blob)) if last.blob else last.result,
        seq=last.seq,
        hash=last.hash,
        at=last.ended_at or last.started_at,
    )


# -- what is told of a run ---------------------------------------------------------------------------


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


def story_of(executor: Executor, row: RunRow, others: Sequence[RunRow]) -> RunSummary:
    """Everything about an unfinished run. A broken journal that nobody accepted is not believed."""
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
        heard_us=max(row.updated_at, next(filter(None, map(told_at, reversed(rows))), 0)),
        command=command_of(executor, row, planned.status),
    )


def _kept(home: Home, look: Reading, row: RunRow, *, is_held: bool) -> journal.Journal:
    """The journal of a run; of one whose process died as whoever takes it will have it: with what was under way."""
    kept = journal.read(look, row)
    return kept if is_held else kept._replace(rows=[*kept.rows, *rows_of_starts(home, look, row, kept.rows)])


def files_of_run(caller: Caller, row: RunRow) -> Iterator[str]:
    """The files that a run is about, as full paths: those that its steps left, and those of what is under way."""

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
    left = previous_of(home, row.id, past)
    declared = facts_of(home, past.begun or past.payload).get("declared", {})
    folder = (home.project or Path.cwd()) / declared.get("folder", "")
    names = [change.path for change in left.files] if left else []
    names += [name for name in declared.get("writes", ()) if Path(name) != Path() and not set(name) & set("*?[")]
    return left, tuple(str(folder / name) for name in names)


def _undone(home: Home, row: RunRow, planned: Plan, past: Past, label: str) -> Undone:
    crashed = "under way" if planned.status == "running" else "crashed"
    status = crashed if past.open else "set aside" if past.decided == REWOUND else past.last.status
    try:
        return Undone(label, past, status, *_files_left(home, row, past))
    except IntegrityBroken as error:
        return Undone(label, past, status, None, (), str(error.why))


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
