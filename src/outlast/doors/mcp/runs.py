"""The tools about runs and their waits: list, show, resume, answer, and deciding about a step."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from outlast import Outcome
from outlast.doors.mcp.client import McpClient, Tool, ToolAnswer, made_from, outcome_told, run_uri, told
from outlast.doors.mcp.texts import (
    contested_line,
    error_line,
    inline,
    lines,
    outcome_text,
    run_line,
    verdict_lines,
    wait_lines,
)
from outlast.errors import NoFlows, RunFinished, RunHeld
from outlast.operations.operation import Declared
from outlast.operations.shown import AnsweredWait, ShownRun, failed_below
from outlast.python.awaited import Started, go_on
from outlast.python.door import show_claims
from outlast.python.outlast import FlowCall, Options
from outlast.python.project import inputs_of
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast import Outlast, Plan, Receipt, RunRecord

GOING_ON = "going on with a run"  # what a thread is needed for
WAITED = "How long to wait for it to end or wait; it goes on after that."


class WaitTime(Declared):
    """How long a call waits for a run."""

    wait_seconds: Annotated[float, Meta(ge=0, le=600, description=WAITED)] = 45.0


class Shown(Declared):
    """Which receipts of a run."""

    receipts: Annotated[int, Meta(ge=0, le=200, description="How many receipts at most, the newest ones.")] = 20
    before: Annotated[int, Meta(ge=1, description="Only receipts with a lower `seq`.")] | None = None


class Most(Declared):
    """How many of a list."""

    limit: Annotated[int, Meta(ge=1, le=200, description="How many at most.")] = 20


def list_runs(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """The newest runs."""
    given = client.given(asked, "started_by", "scope", "limit") | {"actor": asked.started_by}
    found = client.outlast.runs(**given, scope=asked.scope, limit=asked.limit + 1)
    runs, more = found[: asked.limit], len(found) > asked.limit
    text = lines(
        f"{len(runs)} runs, the newest first." if runs else "There are no such runs.",
        (f"- {run_line(run)}" for run in runs),
        f"There are more: ask with a limit above {asked.limit}." if more else "",
    )
    return ToolAnswer(text, {"runs": runs, "more": more}, "run_show for each")


def show(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """One run with its verdict, waits and newest receipts."""
    return shown(client.outlast, asked.run_id, asked.receipts, asked.before)


def shown(outlast: Outlast, run_id: str, most: int, before: int | None = None) -> ToolAnswer:
    """The same, with so many receipts."""
    run = outlast.get(run_id)
    try:
        plan = None if run.finished or run.seal else outlast.plan(run.id)
    except RunFinished:  # since we looked
        return shown(outlast, run_id, most, before)
    waits = outlast.interrupts(run.id)
    attempts = outlast._attempts(run.id)
    older = [each for each in attempts.heard if before is None or each.seq < before]
    receipts = [attempts.receipt(each) for each in (older[len(older) - most :] if most < len(older) else older)]
    left = len(older) - len(receipts)
    below = failed_below(outlast, run)
    text = lines(
        verdict_lines(plan.verdict if plan else None),
        run_line(run),
        f"Result: {inline(run.result, 4_000)}" if run.status == "succeeded" else error_line(run.error),
        (_below_line(child) for child in below),
        wait_lines(waits),
        _plan_lines(plan),
        f"Receipts ({left} older ones: run_show with before={receipts[0].seq})" if left and receipts else "",
        (_receipt_line(each) for each in receipts),
        _next_of(run),
    )
    beside = {"verdict": plan.verdict if plan else None, "plan": plan, "interrupts": waits, "receipts": receipts}
    return ToolAnswer(text, told(ShownRun(run, below)) | beside | {"receipts_before": left}, run_uri(run.id))


def _below_line(child: dict[str, Any]) -> str:
    where = f"step {inline(child['step'])} of " if child["step"] else ""
    return f"That was in {where}run {inline(child['run_id'])} of {inline(child['flow'])}, which it began: run_show it."


def _plan_lines(plan: Plan | None) -> list[str]:
    if plan is None:
        return []
    words = {
        "reuse": "reuses",
        "retry": "tries again",
        "confirm": "asks whether it happened",
        "decide": "needs a decision about",
        "redo": "does anew",
        "leave": "leaves as it is",
    }
    found = {word: plan.of(action) for action, word in words.items()} | {"then runs": plan.ahead}
    told = [f"A resume {word}: {inline(list(labels), 1_000)}" for word, labels in found.items() if labels]
    refused = plan.refused
    return [*told, f"A resume is refused ({refused.code}): {inline(refused.detail)}"] if refused else told


def _receipt_line(receipt: Receipt) -> str:
    left = error_line(receipt.error) if receipt.error else inline(receipt.result)
    return f"- {receipt.seq} {inline(receipt.label)} attempt {receipt.attempt} {receipt.status}: {left}"


def _next_of(run: RunRecord) -> str:
    if run.seal:
        return f"It cannot be continued here: it is sealed ({run.seal})."
    match run.status:
        case "running":
            return f"It is being run by {inline(run.holder)}: look again later."
        case "waiting":
            return "Next: show what is asked to the user; interrupt_answer passes on their answer, and the run goes on."
        case "failed" | "interrupted" | "crashed":
            return f"Next: run_resume with run_id={inline(run.id)}."
        case _:
            return ""


# -- going on ------------------------------------------------------------------------------------------


def resume(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Continue a run until it ends or waits; after `wait_seconds` it goes on without being waited for."""
    given = client.given(asked, "run_id", "scope", "operation_id", "wait_seconds", "claim_id")
    if asked.claim_id is not None:
        show_claims(client.outlast, [asked.claim_id])
    return _resumed(client, client.outlast.get(asked.run_id).id, asked.wait_seconds, given)


def _resumed(client: McpClient, run_id: str, seconds: float, given: dict[str, Any]) -> ToolAnswer:
    """In a thread of its own, which goes on when nobody waits for it any more: then the run is running."""
    work, done = Started[Any](run_id), threading.Event()
    work.when_done(done.set)
    resume = partial(client.outlast.resume, run_id, **given)
    begin(threading.Thread(target=work._work, args=(resume,), name="outlast-mcp-resume", daemon=True), GOING_ON)
    done.wait(seconds)
    while not done.is_set() and client.outlast.get(run_id).status != "running":
        done.wait(0.05)
    if not done.is_set():
        return going_on(client.outlast.get(run_id), seconds)
    outcome = work.outcome(0)
    return ToolAnswer(outcome_text(outcome), outcome_told(outcome), run_uri(run_id))


def going_on(run: RunRecord, seconds: float, holder: str = "") -> ToolAnswer:
    """A run that has not ended within the time; `holder`: who runs it, if that is somebody else."""
    text = lines(
        f"Run {run.id} goes on: after {seconds:g} seconds it has neither ended nor come to wait.",
        f"It is run by {inline(holder)}." if holder else "",
        f"Next: call run_show with run_id={inline(run.id)} later. Do not resume it again meanwhile.",
    )
    return ToolAnswer(text, outcome_told(Outcome(run.id, run.status, holder=holder), goes_on=True), run_uri(run.id))


# -- waits ---------------------------------------------------------------------------------------------


def list_interrupts(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Every open wait, questions for people first."""
    found = client.outlast.inbox(assignee=asked.assignee, type=asked.type, scope=asked.scope)
    items, left = found[: asked.limit], max(len(found) - asked.limit, 0)
    waits = [{**each.pop("interrupt"), **each} for each in map(told, items)]  # with whose it is, as one thing
    text = lines(
        f"{len(found)} open waits." if found else "Nothing waits.",
        wait_lines(each.interrupt for each in items),
        f"{left} more: ask with a limit above {asked.limit}." if left else "",
        map(contested_line, found.contested),
    )
    value = {"waits": waits, "left": left, "contested": found.contested}
    return ToolAnswer(text, value, "run_show for the run of each")


def answer(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Answer a wait."""
    given = client.given(asked, "interrupt_id", "answer", "resume", "wait_seconds", "scope")
    if client.is_remote:  # who answers needs no second role there
        given["resume"] = asked.resume
    wait = client.deciding().answer(asked.interrupt_id, asked.answer, **given)
    was = "was answered already, with the same," if wait.replayed else "answered"
    said = f"Wait {wait.id} {was} by {inline(wait.answered_by)}: {inline(wait.answer)}"
    if not asked.resume or client.is_remote:
        later = f"Next: run_resume with run_id={inline(wait.run_id)} lets the run go on."
        text = lines(said, f"Next: run_show with run_id={inline(wait.run_id)}." if asked.resume else later)
        return ToolAnswer(text, told(AnsweredWait(wait, asked.resume)) | {"outcome": None}, run_uri(wait.run_id))
    went: list[ToolAnswer] = []
    why_not = go_on(
        client.outlast, wait.run_id, lambda run: went.append(_resumed(client, run.id, asked.wait_seconds, {}))
    )
    text = lines(said, f"Its run does not go on here: {inline(why_not)}" if why_not else "", (one.text for one in went))
    outcome = went[0].value if went else None
    return ToolAnswer(text, told(AnsweredWait(wait, bool(went), why_not)) | {"outcome": outcome}, run_uri(wait.run_id))


# -- deciding about a step -----------------------------------------------------------------------------


def retry(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Let a step be tried again; an effect only by who may approve."""
    found = client.outlast.retry(**client.given(asked, "scope"), effects=client.approves)
    return _decided(found, f"{inline(asked.step)} is tried again")


def skip(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Let a step be skipped, with a result."""
    return _decided(client.perform(tool, asked), f"{inline(asked.step)} is skipped")


def rewind(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Let a step and all after it be done again."""
    return _decided(client.perform(tool, asked), f"{inline(asked.step)} and all after it are done again")


def fork(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Another run, from a step of one."""
    made = client.perform(tool, asked)
    text = lines(
        f"Run {made.id} was made: it takes over what run {made.origin} did before {inline(made.origin_step)}.",
        f"Next: run_resume with run_id={inline(made.id)} does the rest.",
    )
    return ToolAnswer(text, made, run_uri(made.id))


def abort(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Give a run up."""
    run = client.perform(tool, asked)
    return ToolAnswer(f"Run {run.id} is {run.status}: nothing of it goes on.", run, run_uri(run.id))


def events(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """The journal of a run, a part of it."""
    found = client.outlast.events(asked.run_id, after=asked.after, limit=asked.limit + 1)
    some, more = found[: asked.limit], len(found) > asked.limit
    text = lines(
        f"{len(some)} events after {asked.after}." if some else "No more events.",
        (f"- {each.seq} {inline(each)}" for each in some),
        f"There are more: run_events with after={some[-1].seq}." if more else "",
    )
    return ToolAnswer(text, {"events": some, "more": more}, "run_events with after")


def send(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """A message to a task or a run."""
    sent = client.perform(tool, asked)
    went = f"it let run {sent.run_id} go on" if sent.interrupt else "it is kept until a run waits for it"
    return ToolAnswer(f"Signal {inline(sent.name)} was sent: {went}.", sent, "run_show for the run")


# -- starting ------------------------------------------------------------------------------------------


def start(client: McpClient, tool: Tool, asked: Any) -> ToolAnswer:
    """Run a flow until it ends or waits, or the time is over; one that somebody else runs is waited for."""
    outlast = client.in_scope(asked.scope)
    flows = client.outlast._flows
    if flows is None:
        raise NoFlows(asked.flow, "no flows")
    flow = flows.named(asked.flow)
    options = Options(**client.given(asked, "flow", "inputs", "wait_seconds", "scope"))
    try:
        started = outlast._start(FlowCall(flow, (), inputs_of(flow, asked.inputs), options))
    except RunHeld as held:
        return _held(client, held, asked.wait_seconds)
    try:
        return _told(started.outcome(asked.wait_seconds))
    except TimeoutError:
        return going_on(client.outlast.get(started.run_id), asked.wait_seconds)


def _held(client: McpClient, held: RunHeld, seconds: float) -> ToolAnswer:
    """How a run stands that somebody else runs. Raises RunHeld for one that is only claimed."""
    run = client.outlast.get(held.run_id)
    if run.holder and run.status != "running":
        raise held
    try:
        return _told(client.outlast.wait(run.id, timeout=seconds))
    except TimeoutError:
        return going_on(client.outlast.get(run.id), seconds, held.holder)


def _told(outcome: Outcome[Any]) -> ToolAnswer:
    again = "It has happened before, and nothing was done now: this is how it ended." if outcome.replayed else ""
    return ToolAnswer(lines(outcome_text(outcome), again), outcome_told(outcome), run_uri(outcome.run_id))


def _decided(run: RunRecord, what: str) -> ToolAnswer:
    text = lines(f"Noted: {what} when run {run.id} goes on.", f"Next: run_resume with run_id={inline(run.id)}.")
    return ToolAnswer(text, run, run_uri(run.id))


class ShownClaim(WaitTime):
    """Of which claim, and how long a call waits."""

    claim_id: Annotated[str, Meta(description="The claim on it, if you hold one.")] | None = None


NOT_YET = """Use it only to pass on what a person decided; where the user can be asked, they are. Nothing
runs before run_resume."""

TOOLS = (
    made_from(
        "run_list",
        "List runs",
        """List the newest runs of flows, and how each stands. Use it to find one to look at or continue: crashed,
interrupted, failed and waiting ones can go on.
Errors: value_refused: mend the argument named by path.""",
        list_runs,
        more=Most,
    ),
    made_from(
        "run_get",
        "Show a run",
        """Look at one run: verdict, waits, what a resume would do, newest receipts. Use it before run_resume, and after
a call said that the run goes on. contested: a resume is refused until each such reason is mended or accepted.
Errors: run_not_found: call run_list. ambiguous_prefix: give more of the id. integrity_broken: tell the user.""",
        show,
        name="run_show",
        more=Shown,
        without=("state",),
    ),
    made_from(
        "run_events",
        "Read a run's journal",
        """Read what happened in a run, event by event. Use it when run_show does not tell why.
Errors: run_not_found: call run_list.""",
        events,
        more=Most,
    ),
    made_from(
        "run_start",
        "Start a run",
        """Run a flow by its name; the same call after a crash continues the same run, and a task that you name happens
once. Use it when the user wants a flow to run. Returns when it ends or waits, or after wait_seconds: then call
run_show later.
Errors: no_flows: its detail says which there are. inputs_conflict: the task has a run with other inputs. run_held: do
not try again at once. task_aborted, task_declined: ask the user. repeats_effects: name them in effects if the user
agrees.""",
        start,
        more=WaitTime,
        runs="flows",
    ),
    made_from(
        "run_resume",
        "Resume a run",
        """Continue a run that crashed, stopped, failed or waits: finished steps are not repeated. Use it when the user
wants it to go on, after run_show. Returns as run_start does.
Errors: contested: mend it, or ask the user and give accept and why. run_held: somebody runs it already. flow_elsewhere:
ask the user, then give the flow's name. no_flows: resume it where its code is. run_finished: nothing to do.""",
        resume,
        more=ShownClaim,
        without=("take",),
        runs="flows",
    ),
    made_from(
        "run_retry",
        "Try a step again",
        """Let the next run_resume try a failed or unfinished step again. Use it after you mended its cause. Of an
effect, which may have happened, it is refused unless you may decide in a person's place.
Errors: forbidden: it is an effect; tell the user. step_not_found, step_ambiguous: see run_show.""",
        retry,
        without=("effects",),
    ),
    made_from(
        "run_skip",
        "Skip a step",
        f"""Let the next run_resume take a result in a step's place. {NOT_YET}
Errors: forbidden: the user did not agree. step_not_found, step_ambiguous: see run_show.""",
        skip,
    ),
    made_from(
        "run_rewind",
        "Go back to a step",
        f"""Let the next run_resume do a step, and all after it, again; effects that happened are kept. {NOT_YET}
Errors: forbidden: the user did not agree. step_not_found, step_ambiguous: see run_show.""",
        rewind,
    ),
    made_from(
        "run_fork",
        "Fork a run",
        f"""Make another run that takes over what a run did before a step; that run stays as it is. {NOT_YET}
Errors: forbidden: the user did not agree. repeats_effects: let the user say which, or reuse_effects. no_flows: other
inputs need a flow of this server.""",
        fork,
    ),
    made_from(
        "run_abort",
        "Give a run up",
        """Give a run up for good, whoever runs it. Use it only when the user says so.
Errors: run_finished: nothing to do. run_not_found: call run_list.""",
        abort,
    ),
    made_from(
        "interrupt_inbox",
        "List waits",
        """List every open question of every run, those for people first, and handoffs that something contests. Use it
when the user asks what waits.
Errors: value_refused: mend the argument named by path.""",
        list_interrupts,
        name="interrupt_list",
        more=Most,
    ),
    made_from(
        "interrupt_answer",
        "Answer a wait",
        """Answer a wait of a run; the answer is final, and the run goes on at once unless resume=false. Use it only to
pass on what a person decided, with the wait's digest as `shown`; where the user can be asked, they are.
Errors: answer_invalid: its detail says where. already_answered: see run_show. interrupt_not_found: call
interrupt_list.""",
        answer,
        more=WaitTime,
        runs="flows",
    ),
    made_from(
        "signal_send",
        "Send a signal",
        """Send a named message to a task or a run that waits for it, or will. Use it when the user says that it came.
Errors: run_not_found: call run_list. run_finished: nobody waits for it.""",
        send,
    ),
)
