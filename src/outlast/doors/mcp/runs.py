"""The tools about runs and their waits: list, show, resume, answer, and deciding about a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outlast.doors.mcp import outputs
from outlast.doors.mcp.arguments import (
    InterruptAnswer,
    InterruptList,
    RunList,
    RunResume,
    RunRetry,
    RunRewind,
    RunShow,
    RunSkip,
)
from outlast.doors.mcp.desk import Desk, Tool, ToolAnswer
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
from outlast.doors.mcp.values import listed_value, outcome_value, run_uri, verdict_value, wait_value
from outlast.python.awaited import go_on
from outlast.python.homes import GATES_OF_RESUME
from outlast.python.shown import failed_below
from outlast.values.ambient import begin
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.runs.plan import Plan
    from outlast.runs.receipt import Receipt
    from outlast.runs.run import Outcome, RunRecord


def list_runs(desk: Desk, asked: RunList) -> ToolAnswer:
    """The newest runs."""
    found = desk.outlast.runs(status=asked.given().get("status"), limit=asked.limit + 1)
    runs, more = found[: asked.limit], len(found) > asked.limit
    text = lines(
        f"{len(runs)} runs, the newest first." if runs else "There are no such runs.",
        (f"- {run_line(run)}" for run in runs),
        f"There are more: ask with a limit above {asked.limit}." if more else "",
    )
    return ToolAnswer(text, {"runs": jsonable(runs), "more": more}, "run_show for each")


def show(desk: Desk, asked: RunShow) -> ToolAnswer:
    """One run with its verdict, waits and newest receipts."""
    outlast = desk.outlast
    run = outlast.get(asked.run_id)
    plan = None if run.finished or run.seal else outlast.plan(run.id)
    waits = outlast.interrupts(run.id)
    older = [each for each in outlast.receipts(run.id) if each.seq < asked.given().get("before", each.seq + 1)]
    receipts = older[len(older) - asked.receipts :] if asked.receipts < len(older) else older
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
    value = {
        **jsonable(run),
        "verdict": verdict_value(plan.verdict if plan else None),
        "plan": {**jsonable(plan), "verdict": verdict_value(plan.verdict)} if plan else None,
        "interrupts": [wait_value(wait) for wait in waits],
        "receipts": jsonable(receipts),
        "receipts_before": left,
        "failed_below": below,
    }
    return ToolAnswer(text, value, run_uri(run.id))


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


def resume(desk: Desk, asked: RunResume) -> ToolAnswer:
    """Continue a run until it ends or waits; after `wait_seconds` it goes on without being waited for."""
    given = asked.given("run_id", "wait_seconds", "claim_id")
    if shown := asked.given().get("claim_id"):
        desk.show_claim(shown)
    return _resumed(desk, desk.outlast.get(asked.run_id).id, asked.wait_seconds, given)


def _resumed(desk: Desk, run_id: str, seconds: float, given: dict[str, Any]) -> ToolAnswer:
    work = _Work(lambda: desk.outlast.resume(run_id, **given))
    outcome = work.within(seconds, lambda: desk.outlast.get(run_id).status == "running")
    if outcome is None:
        return going_on(desk.outlast.get(run_id), seconds)
    return ToolAnswer(outcome_text(outcome), outcome_value(outcome), run_uri(run_id))


class _Work:
    """A resume in a thread of its own, which goes on when nobody waits for it any more."""

    def __init__(self, work: Callable[[], Outcome[Any]]) -> None:
        self._work = work
        self._came: list[Outcome[Any]] = []
        self._raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._body, name="outlast-mcp-resume", daemon=True)
        begin(self._thread, "going on with a run")

    def _body(self) -> None:
        try:
            self._came.append(self._work())
        except BaseException as error:
            self._raised.append(error)

    def within(self, seconds: float, is_running: Callable[[], bool]) -> Outcome[Any] | None:
        """What comes of it within that time, given or raised; None when it goes on, and it is running then."""
        self._thread.join(seconds)
        while self._thread.is_alive() and not is_running():
            self._thread.join(0.05)
        if self._raised:
            raise self._raised[0]
        return self._came[0] if self._came else None


def going_on(run: RunRecord, seconds: float, holder: str = "") -> ToolAnswer:
    """A run that has not ended within the time; `holder`: who runs it, if that is somebody else."""
    text = lines(
        f"Run {run.id} goes on: after {seconds:g} seconds it has neither ended nor come to wait.",
        f"It is run by {inline(holder)}." if holder else "",
        f"Next: call run_show with run_id={inline(run.id)} later. Do not resume it again meanwhile.",
    )
    value = {"run_id": run.id, "status": run.status, "goes_on": True, "verdict": None, "result": None, "error": None}
    value |= {"interrupts": [], "replayed_steps": 0, "unasked": [], "replayed": False, "redelivered": False}
    return ToolAnswer(text, value | {"holder": holder, "stopped_by": ""}, run_uri(run.id))


# -- waits ---------------------------------------------------------------------------------------------


def list_interrupts(desk: Desk, asked: InterruptList) -> ToolAnswer:
    """Every open wait, questions for people first."""
    found = desk.outlast.inbox(**asked.given("limit"))
    items, left = found[: asked.limit], max(len(found) - asked.limit, 0)
    waits = [
        {**wait_value(each.interrupt), "task": each.task, "flow": each.flow, "scope": each.scope} for each in items
    ]
    text = lines(
        f"{len(found)} open waits." if found else "Nothing waits.",
        wait_lines(each.interrupt for each in items),
        f"{left} more: ask with a limit above {asked.limit}." if left else "",
        map(contested_line, found.contested),
    )
    contested = [listed_value(one) for one in found.contested]
    return ToolAnswer(text, {"waits": waits, "left": left, "contested": contested}, "run_show for the run of each")


def answer(desk: Desk, asked: InterruptAnswer) -> ToolAnswer:
    """Answer a wait."""
    given = asked.given("interrupt_id", "answer", "resume", "wait_seconds")
    if desk.is_remote:  # who answers needs no second role there
        given["resume"] = asked.resume
    wait = desk.deciding().answer(asked.interrupt_id, asked.answer, **given)
    was = "was answered already, with the same," if wait.replayed else "answered"
    said = f"Wait {wait.id} {was} by {inline(wait.answered_by)}: {inline(wait.answer)}"
    if not asked.resume or desk.is_remote:
        later = f"Next: run_resume with run_id={inline(wait.run_id)} lets the run go on."
        text = lines(said, f"Next: run_show with run_id={inline(wait.run_id)}." if asked.resume else later)
        return ToolAnswer(text, wait_value(wait) | {"outcome": None, "why_not": ""}, run_uri(wait.run_id))
    went: list[ToolAnswer] = []
    why_not = go_on(desk.outlast, wait.run_id, lambda run: went.append(_resumed(desk, run.id, asked.wait_seconds, {})))
    text = lines(said, f"Its run does not go on here: {inline(why_not)}" if why_not else "", (one.text for one in went))
    value = {"outcome": went[0].value if went else None, "why_not": why_not}
    return ToolAnswer(text, wait_value(wait) | value, run_uri(wait.run_id))


# -- deciding about a step -----------------------------------------------------------------------------


def retry(desk: Desk, asked: RunRetry) -> ToolAnswer:
    """Let a step be tried again; an effect only by who may approve."""
    found = desk.outlast.retry(asked.run_id, asked.step, **asked.given("run_id", "step"), effects=desk.approves)
    return _decided(found, f"{inline(asked.step)} is tried again")


def skip(desk: Desk, asked: RunSkip) -> ToolAnswer:
    """Let a step be skipped, with a result."""
    found = desk.deciding().skip(asked.run_id, asked.step, **asked.given("run_id", "step"))
    return _decided(found, f"{inline(asked.step)} is skipped")


def rewind(desk: Desk, asked: RunRewind) -> ToolAnswer:
    """Let a step and all after it be done again."""
    found = desk.deciding().rewind(asked.run_id, asked.step, **asked.given("run_id", "step"))
    return _decided(found, f"{inline(asked.step)} and all after it are done again")


def _decided(run: RunRecord, what: str) -> ToolAnswer:
    text = lines(f"Noted: {what} when run {run.id} goes on.", f"Next: run_resume with run_id={inline(run.id)}.")
    return ToolAnswer(text, jsonable(run), run_uri(run.id))


TOOLS = (
    Tool(
        "run_list",
        "List runs",
        "read",
        """List the newest runs of flows, with how each stands.

Use it to find a run to look at or to continue: status=crashed, interrupted, failed or waiting are those that
can go on.
Returns runs with id, flow, task, status; `more` says whether there are others. Nothing is changed.
Errors: invalid: mend the argument named by path.""",
        RunList,
        list_runs,
        outputs.RUNS,
        reads=True,
    ),
    Tool(
        "run_show",
        "Show a run",
        "read",
        """Look at one run: its verdict, how it stands, what it waits for, what a resume would do, its newest receipts.

Use it before run_resume, and after run_resume said that the run goes on. A contested verdict means that a
resume will be refused until each contesting reason is mended or accepted. Nothing is changed. Older receipts
come with `before`.
Errors: run_not_found: call run_list. ambiguous_prefix: give more of the id. run_removed: its records are gone.
integrity_broken: its records were changed; tell the user.""",
        RunShow,
        show,
        outputs.RUN,
        reads=True,
    ),
    Tool(
        "run_resume",
        "Resume a run",
        "write",
        """Continue a run that crashed, was interrupted, failed or waits: finished steps are not repeated, only what is
missing is done.

Use it when the user wants the run to go on, after run_show. It runs the flow's own code here. It returns when
the run ends or comes to wait, or after wait_seconds, saying that the run goes on; then call run_show later.

Returns status succeeded with the result; waiting with what is asked (answer with interrupt_answer, then resume
again); failed with the error (mend its cause, then resume again).

Errors: contested: see run_show; mend it, or ask the user and give accept and why. run_held: somebody runs it
already; do not try again at once. run_finished: nothing to do. flow_not_found: its code is not where it was.
flow_elsewhere: it is one of a flow in another place; ask the user whether it goes on with the flow of the same name
here, then give its name as flow, or let them run what the advice says.
no_flows: this server runs no flows; resume it where its code is. run_not_found: call run_list.""",
        RunResume,
        resume,
        outputs.OUTCOME,
        gates=GATES_OF_RESUME,
        runs="flows",
    ),
    Tool(
        "interrupt_list",
        "List waits",
        "read",
        """List every open question and wait of every run, those for people first.

Use it when the user asks what is waiting, or after a run came to wait. Returns for each wait what is asked,
what is shown, what an answer must look like, its digest, and the call that answers it; and the handoffs that
something contests, if no kind or person was named. Nothing is changed.
Errors: invalid: mend the argument named by path.""",
        InterruptList,
        list_interrupts,
        outputs.WAITS,
        reads=True,
    ),
    Tool(
        "interrupt_answer",
        "Answer a wait",
        "approve",
        """Answer a wait of a run. The answer is final: it is used once, and on the record.

Use it only to pass on what a person decided: show them the question and what is shown with it, and never
approve anything on your own. Give the wait's digest as `shown`, so that the answer counts only for what the
person saw. Where the user can be asked, the question is put to them instead, and their answer counts. The run
goes on at once, for up to wait_seconds, unless resume=false.

Returns the wait with its answer, and as `outcome` how its run stands, or as `why_not` why it does not go on here.
Errors: answer_invalid: the answer does not fit; the detail says where, and the wait stays open.
already_answered: somebody was quicker; see run_show. interrupt_not_found: call interrupt_list. forbidden: this
key may not approve; ask the user.""",
        InterruptAnswer,
        answer,
        outputs.ANSWERED,
        runs="flows",
    ),
    Tool(
        "run_retry",
        "Try a step again",
        "write",
        """Let the next run_resume try a failed or unfinished step again.

Use it after you mended what a step failed of. Of an effect (it may have happened: a payment, a message) it is
refused unless you may decide in a person's place: let the user look and decide. Nothing runs before run_resume.

Returns the run.
Errors: forbidden: it is an effect; tell the user. step_not_found, step_ambiguous: see run_show. run_held: somebody
runs it. run_finished: nothing to do. invalid: it has succeeded already.""",
        RunRetry,
        retry,
        outputs.DECIDED,
    ),
    Tool(
        "run_skip",
        "Skip a step",
        "approve",
        """Let the next run_resume take a result in a step's place, without running it.

Use it only to pass on what a person decided, such as that they did it by hand. Where the user can be asked, they
are. Nothing runs before run_resume.

Returns the run.
Errors: forbidden: the user did not agree, or this key may not approve. step_not_found, step_ambiguous: see
run_show. run_held: somebody runs it. run_finished: nothing to do. invalid: it has succeeded already.""",
        RunSkip,
        skip,
        outputs.DECIDED,
    ),
    Tool(
        "run_rewind",
        "Go back to a step",
        "approve",
        """Let the next run_resume do a step, and all after it, again. Effects that happened are kept.

Use it only to pass on what a person decided. Where the user can be asked, they are. Nothing runs before run_resume.

Returns the run.
Errors: forbidden: the user did not agree, or this key may not approve. step_not_found, step_ambiguous: see
run_show. run_held: somebody runs it. run_finished: nothing to do.""",
        RunRewind,
        rewind,
        outputs.DECIDED,
    ),
)
