"""Operations about runs: started, looked at, decided about; the files of their steps; what they wait for; signals."""

from __future__ import annotations

from functools import partial

import msgspec

from outlast import errors as e
from outlast.care.acts import ACT_KINDS as ACT_KINDS
from outlast.care.acts import ACTS_OF_ADMINS as ACTS_OF_ADMINS
from outlast.care.acts import Acts
from outlast.clock import micros
from outlast.handoffs.compose import StepHandoff
from outlast.operations import answers
from outlast.operations import fields as f
from outlast.operations.handoffs import BYTES
from outlast.operations.operation import GATES_OF_RESUME, ApiKey, Change, Gated, Paged, Pages, Request, operation
from outlast.runs.events import EventQuery as EventQuery
from outlast.runs.events import HomeEvent as HomeEvent
from outlast.runs.events import HomeEvents
from outlast.runs.events import event_query as event_query
from outlast.runs.find import Due
from outlast.runs.outputs.files import Output
from outlast.runs.outputs.restore import RestoredOutputs
from outlast.runs.receipt import Event, Receipt
from outlast.runs.run import FINISHED as FINISHED
from outlast.runs.run import RunRecord as RunRecord
from outlast.runs.waits.ask import Signal

STREAM = "text/event-stream"
STREAMED = {
    "Accept": f"`{STREAM}`: a stream, each event's `id` its number; otherwise a page",
    "Last-Event-ID": "the last event seen: the stream goes on after it",
}
MISSING = (e.RunNotFound, e.RunRemoved, e.AmbiguousPrefix)
STEPS = (*MISSING, e.StepNotFound, e.StepAmbiguous, e.IntegrityBroken)
REFUSALS = (e.NoFlows, e.FlowNotFound, e.FlowElsewhere, e.RunHeld, e.RunSealed, e.Contested)
DECIDED = (
    *(*MISSING, e.RunFinished, e.RunHeld, e.RunSealed),
    *(e.StepNotFound, e.StepAmbiguous, e.Invalid, e.OperationConflict),
)
GOING = (
    "The answer comes at once (202) while the run goes on in the server; `wait` waits for its end, or for it to wait, "
    "and then answers 200. Only flows that the server was started with (`--flows`) can be run."
)
HELD = (
    " While somebody else runs it already, the answer is 202 with its id and its `holder`, and `wait` waits for that "
    "one; should its holder die, it goes on here. With an `operation_id`, or the header `Idempotency-Key`, the same "
    "call again gives the run that it began, whatever became of it."
)
BY_SHOW = "run_show tells a model all of it"
BY_LIST = "interrupt_list tells a model all of it"
FOR_PEOPLE = "people look at it and care for the home, with the command line"


class OfRun(Request):
    """Base of what is asked about one run."""

    run_id: f.RunId


class Decision(OfRun, Change):
    """Base of decisions about a run."""


@operation(
    "run_list",
    "GET /v1/runs",
    "The newest runs",
    calls="runs",
    answer=RunRecord,
    items="runs",
    pages=Pages(lambda last: last.id, by="cursor"),
    errors=(e.ValueRefused,),
)
class ListRuns(Paged):
    """Which runs to list: those that are all that is asked for."""

    status: f.Status | None = None
    flow: f.OfFlow | None = None
    task: f.OfTaskNamed | None = None
    tag: f.Tag | None = None
    session: f.OfSession | None = None
    trace: f.OfTrace | None = None
    started_by: f.StartedBy | None = None
    since: f.Since | None = None
    until: f.Until | None = None
    text: f.Searched | None = None


@operation(
    "run_start",
    "POST /v1/runs",
    "Run a flow; the same call after a crash continues the same run",
    role=Gated("write", ("again", "yes", "effects")),
    answer=answers.OUTCOME,
    status=202,
    in_query=("wait",),
    errors=(
        *(*REFUSALS, e.InputsInvalid, e.InputsConflict, e.NameInvalid, e.OperationConflict),
        *(e.TaskAborted, e.TaskDeclined, e.Finished, e.RepeatsEffects, e.IntegrityBroken),
    ),
    detail=f"{GOING}{HELD} A task that is named happens once: after its success the same call is answered with its "
    "outcome (`replayed`), and `again` starts another.",
    example={"flow": "daily_report", "inputs": {"topic": "ai"}, "task": "report-2026-11-16"},
)
class StartRun(Change):
    """A flow that the server was given, and its inputs."""

    flow: f.FlowName
    inputs: f.Inputs = f.EMPTY
    task: f.Task | None = None
    fresh: f.Fresh = False
    session: f.Session = ""
    trace_id: f.TraceId = ""
    meta: f.Meaning | None = None
    again: f.Again = False
    yes: f.Yes = False
    effects: f.Effects = ()
    tags: f.Tags = ()
    queue: f.Queue | None = None
    engine: f.Engine | None = None
    priority: f.Priority = 0
    delay: f.Delay = 0
    queue_timeout: f.QueueTimeout = 0
    wait: f.Wait = 0.0


@operation("run_get", "GET /v1/runs/{run_id}", "A run", calls="get", answer=answers.RUN, errors=MISSING)
class GetRun(OfRun):
    """Which run, and whether with its state."""

    state: f.WithState = True


@operation(
    "run_outcome",
    "GET /v1/runs/{run_id}/outcome",
    "How a run stands: its result, waits or error",
    answer=answers.OUTCOME,
    errors=MISSING,
    also={202: "It still goes on"},
    detail="202 while the run goes on; `wait` waits for its end, or for it to wait.",
    not_by_mcp=BY_SHOW,
)
class RunOutcomeNow(OfRun):
    """Of which run, and how long to wait for it to end or to wait; 0: not at all."""

    wait: f.Wait = 0.0


@operation(
    "run_events",
    "GET /v1/runs/{run_id}/events",
    "The journal of a run: a page, or a stream of it",
    calls="events",
    answer=Event,
    items="events",
    pages=Pages(lambda last: last.seq, int, "after"),
    errors=(e.RunNotFound, e.RunRemoved),
    answers=STREAM,
    headers=STREAMED,
    detail="A stream ends with an event `end` (`why`: `run` when nobody runs it any more, or `shutdown`) or `problem`. "
    "`follow=idle` ends it when the run ends or waits, `finished` only when it succeeded or was aborted, `no` "
    "after what there is now. A comment comes every 15 seconds, so that nobody takes silence for a broken line.",
)
class RunEvents(OfRun, Paged):
    """Which events: those after a number; for a stream also how long to follow."""

    limit: f.Limit = 1000
    after: f.After = 0
    follow: f.Follow = "idle"


@operation(
    "run_receipts",
    "GET /v1/runs/{run_id}/receipts",
    "One receipt for each attempt of each step",
    calls="receipts",
    answer=Receipt,
    items="receipts",
    pages=Pages(lambda last: last.seq, int),
    errors=(*MISSING, e.IntegrityBroken),
    not_by_mcp=BY_SHOW,
)
class RunReceipts(OfRun, Paged):
    """Of which run."""


@operation(
    "run_timeline",
    "GET /v1/runs/{run_id}/timeline",
    "Every attempt, wait, decision and stop of a run, with when it began and ended",
    calls="timeline",
    answer=answers.TIMELINE,
    items="timeline",
    errors=(*MISSING, e.IntegrityBroken),
    not_by_mcp=BY_SHOW,
)
class RunTimeline(OfRun):
    """Of which run."""


@operation(
    "run_plan",
    "GET /v1/runs/{run_id}/plan",
    "What resuming would do, with the verdict and its reasons",
    calls="plan",
    answer=answers.PLAN,
    errors=(*MISSING, e.IntegrityBroken, e.RunFinished, e.StepNotFound, e.StepAmbiguous, e.NameInvalid),
    not_by_mcp=BY_SHOW,
)
class PlanRun(OfRun):
    """Of which resume: one that first goes back to a step, that takes this upon itself, that keeps or restores."""

    from_step: f.FromStep | None = None
    accept: f.Accept = ()
    partial: f.PlannedPartial | None = None


@operation(
    "run_resume",
    "POST /v1/runs/{run_id}/resume",
    "Continue a run",
    role=Gated("write", GATES_OF_RESUME),
    answer=answers.OUTCOME,
    status=202,
    in_query=("wait",),
    errors=(*REFUSALS, *MISSING, e.RunFinished, e.IntegrityBroken, e.NameInvalid),
    detail=f"{GOING} To take it from who holds it (`take`, with `why`), and to name the flow that it goes on with "
    "(`flow`), needs the role approve.",
    example={"accept": ["code_changed"], "why": "the change is a comment"},
    repeats=True,
)
class ResumeRun(Decision):
    """What is taken upon oneself, what becomes of partial work, and whether it is taken from who holds it."""

    accept: f.Accept = ()
    why: f.Why = ""
    partial: f.Partial | None = None
    flow: f.FlowName | None = None
    take: f.Take = False
    wait: f.Wait = 0.0


# -- deciding ------------------------------------------------------------------------------------------

decision = partial(operation, answer=RunRecord, errors=DECIDED)


@decision(
    "run_retry",
    "POST /v1/runs/{run_id}/retry",
    "Let the next resume try a step again",
    calls="retry",
    detail="Of an effect it needs the role `approve` too.",
    example={"step": "publish", "why": "it is up again"},
)
class RetryStep(Decision):
    """The step to try again; without `effects` only if it is no effect."""

    step: f.Step
    why: f.Why = ""
    effects: f.RetryEffects = True


@decision(
    "run_skip",
    "POST /v1/runs/{run_id}/skip",
    "Let the next resume take a result instead of running a step",
    calls="skip",
    role="approve",
    example={"step": "publish", "result": None, "why": "published by hand"},
)
class SkipStep(Decision):
    """The step to skip, and what counts as its result."""

    step: f.Step
    why: f.Why
    result: f.Result = None


@decision(
    "run_rewind",
    "POST /v1/runs/{run_id}/rewind",
    "Let the next resume do a step and all after it again",
    calls="rewind",
    role="approve",
    example={"step": "draft"},
)
class RewindRun(Decision):
    """The step to do again, and all after it."""

    step: f.Step
    why: f.Why = ""


@operation(
    "run_fork",
    "POST /v1/runs/{run_id}/fork",
    "Make another run from a chosen step of one, which stays as it is",
    calls="fork",
    role="approve",
    answer=RunRecord,
    errors=(
        *(*STEPS, e.RunSealed, e.RepeatsEffects, e.InputsInvalid, e.NoFlows, e.FlowNotFound, e.FlowElsewhere),
        *(e.NameInvalid, e.ValueRefused, e.OperationConflict),
    ),
    example={"from_step": "draft", "inputs": {"tone": "stern"}, "reuse_effects": True},
    detail="What came before the step is taken over; the rest is done anew when the new run is resumed. Effects "
    "that it would repeat are refused (`repeats_effects`) unless `yes`, or `effects` names them; `reuse_effects` "
    "keeps their results. Other `inputs` need a flow that the server was started with.",
)
class ForkRun(Decision):
    """The step from which on the new run goes its own way, what is other in it, and what may happen again."""

    from_step: f.FromStep
    inputs: f.Inputs | None = None
    state: f.State | None = None
    reuse_effects: f.ReuseEffects = False
    yes: f.Yes = False
    effects: f.Effects = ()
    why: f.Why = ""


@decision(
    "run_abort",
    "POST /v1/runs/{run_id}/abort",
    "Give a run up, now, whoever owns it",
    calls="abort",
    example={"why": "not needed any more"},
)
class AbortRun(Decision):
    """Why the run is given up."""

    why: f.Why


@decision(
    "run_pause",
    "POST /v1/runs/{run_id}/pause",
    "Ask a running run to stop at its next step",
    calls="pause",
    example={},
    not_by_mcp="task_pause with stop_run does it for a model",
)
class PauseRun(Decision):
    """Nothing but, perhaps, an operation_id."""


# -- files and transcripts -----------------------------------------------------------------------------


@operation(
    "run_outputs",
    "GET /v1/runs/{run_id}/outputs",
    "The files that finished steps left, and what is there now, at the server",
    calls="outputs",
    long=True,
    answer=Output,
    items="outputs",
    errors=(*MISSING, e.IntegrityBroken),
    not_by_mcp=FOR_PEOPLE,
)
class RunOutputs(OfRun):
    """Of which run."""


@operation(
    "run_outputs_restore",
    "POST /v1/runs/{run_id}/outputs/restore",
    "Put files of finished steps back from what was kept, at the server",
    calls="restore_outputs",
    answer=RestoredOutputs,
    errors=(*MISSING, e.RunHeld, e.RunSealed, e.OutputNotFound, e.OutputNotKept, e.NotRestorable, e.IntegrityBroken),
    detail="What is missing is put back; a file that was changed only if it is in `paths`, and then what gives way "
    "is kept: `/displaced` lists it.",
    example={"step": "plan"},
    repeats=True,
    not_by_mcp=FOR_PEOPLE,
)
class RestoreOutputs(Decision):
    """Which files: of a step, or named; without both, every one that is missing."""

    step: f.Step | None = None
    paths: f.Paths = ()


@operation(
    "run_displaced",
    "GET /v1/runs/{run_id}/displaced",
    "What gave way when files were put back",
    calls="displaced",
    answer=answers.DISPLACED,
    items="displaced",
    errors=(*MISSING, e.DisplacedNotFound),
    not_by_mcp=FOR_PEOPLE,
)
class DisplacedFiles(OfRun):
    """Which files that gave way: of that path, or of an entry; without both, all."""

    path: f.Path | None = None
    seq: f.Seq | None = None


@operation(
    "run_displaced_content",
    "GET /v1/runs/{run_id}/displaced/content",
    "The content of a file that gave way",
    answer=bytes,
    answers=BYTES,
    errors=(*MISSING, e.DisplacedNotFound, e.IntegrityBroken),
    not_by_mcp=FOR_PEOPLE,
)
class DisplacedContent(OfRun):
    """Which file that gave way: the newest of that path, or that of an entry."""

    path: f.Path
    seq: f.Seq | None = None


@operation(
    "run_logs",
    "GET /v1/runs/{run_id}/logs",
    "The transcripts of a run's commands, in order",
    calls="logs",
    answer=answers.LOG,
    items="logs",
    errors=STEPS,
    not_by_mcp=FOR_PEOPLE,
)
class RunLogs(OfRun):
    """Of which step and attempt; without them, of all."""

    step: f.Step | None = None
    attempt: f.Attempt | None = None


@operation(
    "run_log",
    "GET /v1/runs/{run_id}/logs/content",
    "What one attempt of a command printed",
    answer=bytes,
    answers=BYTES,
    errors=STEPS,
    not_by_mcp=FOR_PEOPLE,
)
class RunLog(OfRun):
    """Of which step and attempt."""

    step: f.Step
    attempt: f.Attempt


@operation(
    "run_step_handoff",
    "GET /v1/runs/{run_id}/handoff",
    "What a step hands over: its envelope",
    calls="handoff.step",
    answer=StepHandoff,
    errors=STEPS,
    not_by_mcp=BY_SHOW,
)
class HandoffOfStep(OfRun):
    """Which step, by its label or name."""

    step: f.Step


@operation(
    "run_audit",
    "GET /v1/runs/{run_id}/audit",
    "The six acceptance questions of a run, answered from its records",
    long=True,
    answer=answers.AUDIT,
    errors=(*MISSING, e.IntegrityBroken),
    not_by_mcp=FOR_PEOPLE,
)
class AuditRun(OfRun):
    """Of which run."""


@operation(
    "run_due",
    "GET /v1/due",
    "The runs that can go on by themselves",
    calls="due",
    answer=Due,
    items="runs",
    not_by_mcp="run_list tells a model which runs can go on",
)
class DueRuns(Request):
    """Whether also those that were left more than a week ago."""

    all: f.Old = False


@operation(
    "home_events",
    "GET /v1/events",
    "The events of all runs, or of those that are asked for: a page, or a stream",
    calls="all_events",
    answer=HomeEvents,
    errors=(e.NameInvalid, e.ValueRefused, e.EventAhead),
    answers=STREAM,
    headers=STREAMED,
    detail="In the order in which they were written, by one number for all of them; nothing comes in later below a "
    "number that was given. A page says in `upto` after which number to go on, and in `more` whether there is more "
    "already. A stream ends with an event `end` (`why`: `shutdown`) or `problem`; a comment comes every 15 seconds. "
    "Where a client can send no header, as `EventSource` cannot, `token=` in the query is one of `stream_token`.",
    not_by_mcp="a model is not told of what happens by itself; run_list and interrupt_list tell how it stands",
)
class AllEvents(Request):
    """Which events: those after a number that are all that is asked for."""

    limit: f.Limit = 1000
    after: f.AfterNumber | None = None
    flow: f.OfFlow | None = None
    task: f.OfTaskNamed | None = None
    tag: f.Tag | None = None
    name: f.EventNamed | None = None
    inbox: f.OfInbox = False


class StreamToken(msgspec.Struct, frozen=True):
    """What opens streams for a while, and nothing else. Empty where no key is needed."""

    token: str
    expires_in: int  # seconds


@operation(
    "stream_token",
    "POST /v1/stream-token",
    "A token for a browser's `EventSource`: it opens streams for a minute, and nothing else",
    role="read",
    answer=StreamToken,
    detail="Give it as `token=` in the query of `/v1/events` or `/v1/runs/RUN/events`. A stream that was opened with "
    "it goes on when the minute is over, and ends with its key; to take it up again takes a new token.",
    example={},
    not_by_mcp="a model has no use for it",
)
class TakeStreamToken(Request):
    """Nothing more."""


# -- the home ------------------------------------------------------------------------------------------


@operation(
    "home_facts",
    "GET /v1/facts",
    "What the home stands on: versions, settings, sizes, runs by status",
    calls="facts",
    long=True,
    not_by_mcp=FOR_PEOPLE,
)
class HomeFacts(Request):
    """Nothing."""


@operation(
    "home_acts",
    "GET /v1/acts",
    "Who did what, the newest first: to runs, handoffs, schedules, queues, limits, keys and notification targets",
    calls="acts",
    answer=Acts,
    errors=(e.NameInvalid, e.ValueRefused),
    detail="A page is found among a few thousand entries: it may have fewer than `limit`, or none, and `next` although "
    "more was done before; `looked_at` says how many entries it was found among. What was done to keys and targets is "
    "told to the role `admin` alone. A key that is bound to scopes is told what was done in them.",
    not_by_mcp=FOR_PEOPLE,
)
class ListActs(Paged):
    """Which acts: those that are all that is asked for."""

    by: f.DoneBy | None = None
    kind: f.ActKind | None = None
    since: f.DoneSince | None = None


@operation(
    "key_list",
    "GET /v1/keys",
    "The API keys of the tenant, also those that are over, without their secrets",
    role="admin",
    answer=ApiKey,
    listed=True,
    not_by_mcp="a model has no business with keys",
)
class ListKeys(Request):
    """Nothing."""


@operation(
    "home_verify",
    "GET /v1/verify",
    "Check every record of a run, or of the whole store",
    calls="verify",
    long=True,
    answer=answers.CHECKED,
    errors=MISSING,
    detail="One run for who may read; the whole store, of which every byte is read, for the role `admin`.",
    not_by_mcp=FOR_PEOPLE,
)
class VerifyHome(Request):
    """Of which run; without one, of the whole store."""

    run_id: f.RunId | None = None


# -- interrupts and signals ----------------------------------------------------------------------------

NO_WAIT = (e.InterruptNotFound, e.AmbiguousPrefix)


class OfWait(Change):
    """Base of what is decided about one wait."""

    interrupt_id: f.InterruptId


@operation(
    "interrupt_list",
    "GET /v1/interrupts",
    "Every open wait, the oldest first",
    answer=answers.WAIT,
    items="waits",
    pages=Pages(lambda last: (micros(last.opened_at), last.id)),
    errors=MISSING,
    not_by_mcp="the tool interrupt_list is made from interrupt_inbox, which tells more",
)
class ListWaits(Paged):
    """Of which run; without one, of all."""

    run_id: f.RunId | None = None


@operation(
    "interrupt_inbox",
    "GET /v1/inbox",
    "Every open wait of every run, with whose it is: questions for people first",
    answer=answers.INBOX,
    items="waits",
    beside={
        "contested": (answers.ListedHandoff, "Handoffs that something contests; left out where only some waits are.")
    },
)
class ListInbox(Request):
    """Whose waits, and of what kind."""

    assignee: f.Assignee | None = None
    type: f.WaitKind | None = None


@operation(
    "interrupt_get",
    "GET /v1/interrupts/{interrupt_id}",
    "A wait, also one that is over",
    calls="interrupt",
    answer=answers.WAIT,
    errors=NO_WAIT,
    not_by_mcp=BY_LIST,
)
class GetWait(Request):
    """Which wait."""

    interrupt_id: f.InterruptId


@operation(
    "interrupt_answer",
    "POST /v1/interrupts/{interrupt_id}/answer",
    "Answer a wait: durable before it takes effect, checked, used once",
    calls="answer",
    role="approve",
    answer=answers.ANSWERED,
    errors=(*NO_WAIT, e.AlreadyAnswered, e.AnswerInvalid, e.RunSealed, e.OperationConflict, e.ValueRefused),
    detail="Who answered is the key's actor; one of many answers wins. The run goes on in the server, unless "
    "`resume` is false; `why_not` says why it does not, where it cannot.",
    example={"answer": {"approved": True, "comment": "looks right"}},
)
class AnswerWait(OfWait):
    """The answer, as the wait's schema wants it; `shown`, its digest, binds it to what was shown."""

    answer: f.InterruptAnswer
    shown: f.Shown | None = None
    resume: f.Resume = True


@operation(
    "interrupt_cancel",
    "POST /v1/interrupts/{interrupt_id}/cancel",
    "End a wait without an answer",
    calls="cancel",
    role="approve",
    answer=answers.WAIT,
    errors=(*NO_WAIT, e.AlreadyAnswered, e.Invalid, e.RunSealed, e.OperationConflict),
    example={"why": "the release was called off"},
    not_by_mcp="a person calls a question off, not a model",
)
class CancelWait(OfWait):
    """Why there will be no answer."""

    why: f.Why


@operation(
    "signal_send",
    "POST /v1/signals",
    "Send a signal that a run waits for, or will",
    calls="signal",
    answer=Signal,
    errors=(*MISSING, e.RunFinished, e.NameInvalid, e.ValueRefused, e.OperationConflict),
    example={"name": "payment", "task": "order-17", "body": {"paid": True}},
)
class SendSignal(Change):
    """A named message to a task or to one run."""

    name: f.SignalName
    body: f.Body = None
    task: f.Task | None = None
    run_id: f.RunId | None = None
