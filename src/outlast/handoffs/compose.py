"""Handoffs that nobody wrote: composed, when asked for, from what an unfinished run left.

What was done comes from receipts, what was under way from its files as they are, what is waited for from its
interrupts. Nothing is stored, and nothing is invented: what no step said is not said here either. Who claims such a
handoff takes the run's own lease.

Checks that a flow file gives to whoever continues its run: the `accept` of its steps, as a handoff has checks.

Only what can be asked outside of the run is taken: not of steps that are done for each item, and not of steps that a
condition left out, or may still leave out.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.commands.shell import work_shell
from outlast.errors import OutlastError, RunFinished, RunNotFound, StepNotFound
from outlast.flows.yaml.flow import RecipeSpec
from outlast.flows.yaml.model import Command, Node, Parallel, Recipe, Repeat
from outlast.handoffs.handoff import (
    MAX_BYTES,
    MAX_CHECKS,
    MAX_FILES,
    STALE_SECONDS,
    Evidence,
    Form,
    Handoff,
    Lint,
    encode_handoff,
    key_of,
)
from outlast.handoffs.lint import lint
from outlast.handoffs.recovered import TaskRun
from outlast.handoffs.run_summary import RunSummary, listed, next_action, short, state, story_of, summary, text
from outlast.home.claimer import print_of
from outlast.home.find import run_row
from outlast.ledger.journal import JournalEntry, Row
from outlast.ledger.lease import Beat
from outlast.ledger.verdict import Reason
from outlast.runs import claim as claims
from outlast.runs import journal
from outlast.runs.call import Call, fold, labels
from outlast.runs.receipt import receipts_of
from outlast.runs.run import FINISHED
from outlast.runs.start import flow_if_known
from outlast.runs.unproven import refuse_unproven
from outlast.store.contract import Hold, LeaseRow, Reading, RunRow, Writing
from outlast.tasks.task import anchor_of
from outlast.values.codec import decode, encode, jsonable
from outlast.values.frozen import dataclass

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
    if not isinstance(spec, RecipeSpec) or spec.recipe is None:
        return ()
    found: dict[str, Form] = {}
    inputs = {_input(name): _text(value) for name, value in decode(row.inputs).items()}
    for command in _asked(spec.recipe.steps, begun):
        folder = os.path.realpath(os.path.join(spec.folder, spec.recipe.cwd, command.cwd))
        inside = os.path.relpath(folder, root)
        if inside.split(os.sep)[0] == "..":
            continue  # a check stays inside of the root
        for accepted in command.accept:
            form = _form(spec.recipe, command, accepted, inputs, "" if inside == "." else inside)
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


def _form(recipe: Recipe, command: Command, text: str, inputs: Mapping[str, str], folder: str) -> Form:
    known = {**inputs, **recipe.env, **command.env}
    told = "".join(f"export {name}={shlex.quote(known[name])}; " for name in sorted(known) if name in text)
    shell = work_shell(command.shell or recipe.shell, text)
    run = text.strip() if shell == ("/bin/sh",) else shlex.join([*shell, "-c", text])
    return {"run": told + run, "cwd": folder} if folder else told + run


def _input(name: str) -> str:
    return f"OUTLAST_INPUT_{name.upper().replace('-', '_')}"


def _text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)


ROOMS = (128 * 1024, 16 * 1024, 2 * 1024)  # bytes for each list; less when what is inherited is large
INHERITED = (
    "acceptance_checks",
    "must_change",
    "must_remove",
    "must_keep",
    "rollback",
    "environment",
    "repo_root",
    "file_path",
    "symbol",
    "risk",
    "tags",
    "refs",
    "creates",
)


@dataclass(frozen=True, slots=True)
class Composed:
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
    rows = executor.home.store.read(lambda look: look.unfinished_of_task(scope, task))
    ours = [row for row in rows if not row.seal and row.created_at > after]
    ours.sort(key=lambda row: (row.updated_at, row.key))
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
    return _evidence(ledger.checked), tuple(each["fingerprint"] for each in ledger.accepted)


def _evidence(checked: Sequence[Mapping[str, Any]]) -> tuple[Evidence, ...]:
    if not checked:
        return ()
    import msgspec

    return tuple(msgspec.convert(each, Evidence) for facts in checked for each in facts["evidence"])


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
    import msgspec

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


@dataclass(frozen=True, slots=True)
class StepHandoff:
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
    from outlast.runs.decisions import find_call

    row = run_row(home, run_id)

    def look(reading: Reading) -> tuple[Call, list[Row]]:
        return find_call(reading, row, step)[0], journal.read(reading, row).rows

    call, rows = home.store.read(look)
    label = labels(rows).get(call)
    found = [one for one in receipts_of(row.id, row.flow, rows) if one.label == label]
    if not found:  # it only waits: nothing of it has begun
        raise StepNotFound(row.id, step, ", ".join([*labels(rows).values()][-8:]) or "none yet")
    last, envelope = found[-1], found[-1].envelope
    return StepHandoff(
        run_id=row.id,
        flow=row.flow,
        task=row.task,
        step=last.label,
        agent=last.agent or "main",
        status=last.status,
        attempt=last.attempt,
        done=envelope.done,
        next=envelope.next,
        artifacts=envelope.artifacts,
        state=envelope.state,
        result=decode(home.blobs.get(last.blob)) if last.blob else last.result,
        seq=last.seq,
        hash=last.hash,
        at=last.ended_at or last.started_at,
    )


# -- claiming ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claiming:
    """Who claims a run, why it is taken from somebody else, and what is accepted with it."""

    by: str
    take: str = ""
    accepting: tuple[Reason, ...] = ()
    why: str = ""  # it is accepted


def take_run(caller: Caller, tx: Writing, run_id: str, beat: Beat, claiming: Claiming) -> int:
    """Take a run's lease for whoever shows the token of the beat, without running it. Gives the epoch.

    Until the beat's process is dead or its time is over nobody else may resume the run; who shows the token resumes
    it, and with that the claim is used up. A run that is being executed is never taken. What is accepted is on the
    run's record with it. Raises RunNotFound, RunFinished, RunSealed, RunHeld.
    """
    row, lease, token = tx.run_by_id(run_id), tx.lease_of(run_id), beat.process.id
    if row is None or lease is None:
        raise RunNotFound(run_id)
    if row.status in FINISHED:
        raise RunFinished(run_id, row.status)
    claims.refuse_sealed(row)
    if not claiming.take or claims.is_executing(row):
        claims.refuse_held(caller, tx, run_id, lease)
    refuse_unproven(tx, row, lease)
    tx.beat_claim(beat)
    if lease.holder == token and not claiming.accepting:
        return lease.epoch
    return _taken(caller.home, tx, row, lease, token, claiming)


def _taken(home: Home, tx: Writing, row: RunRow, lease: LeaseRow, token: str, claiming: Claiming) -> int:
    from outlast.runs.under_way import starts_of

    silent_at, starts = claims.silent_since(home, tx, row, lease), starts_of(home, tx, row, lease)
    tx.take_lease(lease, token)
    if lease.holder and lease.holder not in (home.process.id, token):
        tx.forget_holder(lease.holder)
    said = {"by": claiming.by, "why": claiming.take}
    facts: dict[str, Any] = {name: value for name, value in said.items() if value} | {"claim": print_of(token)}
    if silent_at:
        facts["silent_at"] = silent_at  # by when the owner was dead: files that changed later are not its work
    hold = _hold_of(row, lease, lease.epoch + 1)
    told = [("accepted", _acceptance(one, claiming)) for one in claiming.accepting]
    told.append(("claimed", facts))  # the last one: it is read as long as the claim holds
    tx.append(hold, [*starts, *(_fact(*each, home, row, hold) for each in told)])
    if claims.is_executing(row):  # it was, and its owner is dead
        tx.set_run_status(row.key, "crashed", row.updated_at)
    return hold.epoch


def _acceptance(reason: Reason, claiming: Claiming) -> dict[str, Any]:
    """An acceptance as a resume writes and reads it."""
    return {"fingerprint": reason.fingerprint, "why": claiming.why, "actor": claiming.by, **reason.to_dict()}


def give_back(home: Home, tx: Writing, run_id: str, token: str, facts: dict[str, Any]) -> bool:
    """Give a claimed run back as it is, and say so in its journal. Whether the token still held it."""
    row, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
    if row is None or lease is None or lease.holder != token or claims.is_executing(row):
        return False
    hold = _hold_of(row, lease)
    tx.append(hold, [_fact("released", facts, home, row, hold)])
    tx.release_lease(hold)
    tx.forget_holder(token)
    return True


def note_checked(caller: Caller, tx: Writing, run_id: str, by: str, evidence: Sequence[Evidence]) -> str:
    """Write what came of checks into the journal of a run that nobody executes. Why it was not; "" when it was."""
    row, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
    if row is None or lease is None:
        return "its run is gone"
    holder = claims.holder_of(caller, tx, run_id, lease) if claims.is_executing(row) else ""
    if holder or row.status in FINISHED or row.seal:
        return f"its run is executed by {holder}" if holder else "its run has ended or left meanwhile"
    hold, blobs = _hold_of(row, lease), tuple(sorted({each.output for each in evidence if each.output}))
    facts = {"by": by, "evidence": jsonable(list(evidence))}
    tx.append(hold, [_fact("checked", facts, caller.home, row, hold)._replace(blobs=blobs)])
    return ""


def _hold_of(row: RunRow, lease: LeaseRow, epoch: int | None = None) -> Hold:
    return Hold(row.key, row.id, lease.key, lease.epoch if epoch is None else epoch, lease.head, lease.hash)


def _fact(name: str, facts: dict[str, Any], home: Home, row: RunRow, hold: Hold) -> JournalEntry:
    return claims.run_fact(name, facts, epoch=hold.epoch, at=home.clock.now(), trace_id=row.trace_id)
