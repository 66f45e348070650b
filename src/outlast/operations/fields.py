"""The fields of requests: each with its type, its limits, and one sentence that says what it means.

One word per idea: a field has the same name and the same sentence wherever it stands, on every door.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlast.handoffs.handoff import Ending, Form, Standing
from outlast.runs.run import RunStatus as RunStatus
from outlast.tasks.task import State as OfTask

MOST = 1000  # items of a page
Forms = tuple[Form, ...]
Words = tuple[str, ...]
Packet = msgspec.Raw | msgspec.UnsetType  # kept byte for byte
Json = dict[str, Any]
EMPTY: Any = msgspec.field(default_factory=dict)


def about(sentence: str, **limits: Any) -> Meta:
    """What a field means, and its limits."""
    return Meta(description=sentence, **limits)


def _between(least: int, most: int, sentence: str) -> Meta:
    """The same with limits that are told, and checked by who reads the field: he says what to do instead."""
    return Meta(description=sentence, extra_json_schema={"minimum": least, "maximum": most})


# -- who, where, once --------------------------------------------------------------------------------

Scope = Annotated[str, about("The namespace, such as a project; the caller's own if it is left out.")]
Actor = Annotated[str, about("Who acts. With a key only the key's own; without one it is on record as unproven.")]
TenantId = Annotated[str, about("The tenant: only ever the caller's own.")]
OperationId = Annotated[str, about("A name for this call: the same again gives the first answer, and does nothing.")]
Limit = Annotated[int, _between(1, MOST, "How many at most.")]
Cursor = Annotated[str, about("`next` of the page before; without it a list begins at the beginning.")]
Why = Annotated[str, about("Why; it goes on the record.")]
Summary = Annotated[str, about("Where the work stands, or what it is, in one sentence.")]
Note = Annotated[str, about("Anything else to say about it.")]
Meaning = Annotated[Json, about("Any JSON object to keep with it.")]
Tags = Annotated[Words, about("Words to find it by.")]
Tag = Annotated[str, about("Only those with this tag.")]
After = Annotated[int, about("The number of the last one seen: those after it are wanted.")]
Redact = Annotated[bool, about("Whether secrets are masked rather than refused.")]
Refs = Annotated[Words, about("What it rests on: artifacts, records, checkpoints, handoffs, runs, by ref.")]
Accept = Annotated[Words, about("Contesting reasons to take upon oneself, CODE or CODE:SUBJECT as shown; needs `why`.")]
Take = Annotated[bool, about("Whether to take it from whoever holds it; needs `why`.")]
Task = Annotated[str, about("What is worked on over many runs, such as `export-repair`.")]
Session = Annotated[str, about("The conversation that a run or a task belongs to.")]

# -- handoffs ----------------------------------------------------------------------------------------

Anchor = Annotated[str, about("The stable name it is stored under and recovered by, such as `task:export-repair`.")]
HandoffId = Annotated[str, about("The id of a stored revision, or a unique prefix of it.")]
HandoffText = Annotated[str, about("What to do from here, as instructions: what to open, change and watch.")]
TargetFiles = Annotated[Words, about("Files it is about, from the root of the repository, the first to open first.")]
Creates = Annotated[Words, about("Files that are not there yet: to make them is the work.")]
NextAction = Annotated[str, about("The one thing to do next, as an order.")]
AcceptanceChecks = Annotated[
    Forms,
    about(
        'How to tell that it is done: shell commands that exit 0, {"run", "cwd", "timeout", "exit"}, or a rule '
        '{"file", "exists"|"absent"|"contains"|"sha256"}.'
    ),
]
MustChange = Annotated[Forms, about("What must be changed: a path or glob, a rule about a file, or prose.")]
MustRemove = Annotated[Forms, about("What must be gone: a path or glob, a rule about a file, or prose.")]
MustKeep = Annotated[Forms, about("What must stay as it is: a path or glob, a rule about a file, or prose.")]
Rollback = Annotated[Forms, about("How to go back if it goes wrong: prose, or rules about files.")]
ExecutionState = Annotated[Packet, about("One JSON object with the state of the work, kept byte for byte.")]
ExecutionPacket = Annotated[Packet, about("One JSON object for the next run, kept byte for byte.")]
HandoffKind = Annotated[str, about("What kind of handoff it is.")]
RepoRoot = Annotated[str, about("The folder that the files are in, on the machine that has them.")]
FilePath = Annotated[str, about("A file, named from the root of its repository.")]
Symbol = Annotated[str, about("Where in the file: a function, a class.")]
Risk = Annotated[str, about("What could go wrong.")]
Environment = Annotated[Words, about("Files such as lock files: a change of one weakens the verdict.")]
Expires = Annotated[str | float, about("When it is stale: a duration such as `48h`, seconds, or a time.")]
Supersedes = Annotated[str, about("The id of the handoff that this one replaces.")]
ExpectedRevision = Annotated[int, about("Store only if the newest revision is this one; 0: only if there is none yet.")]
Baseline = Annotated[
    bool | tuple[Json, ...],
    about("Run the checks now, where the files are, and record what came of them; or what somebody reports of them."),
]
Strict = Annotated[bool, about("Whether a weak handoff is refused.")]
Bind = Annotated[bool, about("Whether the files are looked at; not: it is stored unbound, and the verdict is weaker.")]
ClaimId = Annotated[str, about("The id of a claim, as claiming gave it: whoever shows it is the claimer.")]
Claim = Annotated[bool, about("Whether to claim it too, if nothing contests: do so before anything is changed.")]
Revision = Annotated[int, about("A revision of the anchor; without it the newest.")]
Branch = Annotated[str, about("A branch of the repository: the newest of it is meant.")]
RunChecks = Annotated[bool, about("Whether its checks are run, where its files are, and what came of them recorded.")]
IncludeFinished = Annotated[bool, about("Whether to read one that is completed too.")]
Listing = Annotated[bool, about("Whether only its verdict is wanted, for a list: it is not read, and uses no claim.")]
Outcome = Annotated[
    Ending, about("completed: done, its checks pass; failed: tried, did not work; released: given back undone.")
]
Evidence = Annotated[tuple[Json, ...], about('What somebody reports of checks: `[{"check": …, "passed": true}]`.')]
Acknowledged = Annotated[Words, about("Every must in prose that was kept, word for word.")]
Missing = Annotated[Words, about("What the handoff lacked, for whoever writes the next one.")]
Override = Annotated[str, about("Why it counts as completed although a check or must says otherwise.")]
HandoffStanding = Annotated[Standing, about("Only those that stand so.")]
Look = Annotated[bool, about("Whether each is judged here and now.")]
Looks = Annotated[bool, about("Whether the caller can look at files: then it is told at what (`look_first`).")]
Digest = Annotated[str, about("The SHA-256 of the content, by which it is kept.")]

# -- runs --------------------------------------------------------------------------------------------

RunId = Annotated[str, about("The id of a run, or a unique prefix of it.")]

Status = Annotated[RunStatus, about("Only those of this status.")]
OfFlow = Annotated[str, about("Only those of this flow, by its name or the source that a run says.")]
OfTaskNamed = Annotated[str, about("Only those of this task.")]
OfSession = Annotated[str, about("Only those of this conversation.")]
OfTrace = Annotated[str, about("Only those of this trace.")]
StartedBy = Annotated[str, about("Only those that this actor started.")]
Since = Annotated[str, about("Only those that began then or later: a time, or how long ago (`90m`, `7d`).")]
DoneBy = Annotated[str, about("Only what this actor did.")]
ActKind = Annotated[
    Literal["run", "handoff", "schedule", "queue", "limit", "key", "target"],
    about("Only what was done to such: a target is one of notifications."),
]
DoneSince = Annotated[str, about("Only what was done then or later: a time, or how long ago (`90m`, `7d`).")]
Until = Annotated[str, about("Only those that began before: a time, or how long ago.")]
Searched = Annotated[str, about("Only those with this text in id, flow, task, phase, tags, inputs, meta or error.")]
FlowName = Annotated[str, about("The name of a flow that the server was given.")]
Inputs = Annotated[Json, about("The flow's inputs by name.")]
State = Annotated[Json, about("Values that the state has from that step on.")]
Fresh = Annotated[bool, about("Whether to give the task's unfinished run up and start anew.")]
TraceId = Annotated[str, about("The trace that the run belongs to.")]
Again = Annotated[bool, about("Whether a named task that has happened is to happen once more: a person decides that.")]
Yes = Annotated[bool, about("Whether effects that were done may happen again, whichever they are.")]
Effects = Annotated[Words, about("The effects that may happen again, by their steps.")]
Queue = Annotated[str, about("The queue in which runs wait until a worker takes them.")]
Engine = Annotated[
    Literal["outlast", "temporal"], about("Who takes it out of its queue: Outlast's own workers, or Temporal.")
]
Adopt = Annotated[bool, about("Whether runs that are in no queue are put into this one.")]
Priority = Annotated[int, about("In its queue, the larger goes first.")]
Delay = Annotated[float | str, about("How long it stays in its queue at least: seconds, or text such as `10m`.")]
QueueTimeout = Annotated[
    float | str, about("It ends unless a worker took it out of its queue within this time: seconds, or text; 0: never.")
]
LimitName = Annotated[str, about("The limit, as steps name it.")]
LimitConcurrency = Annotated[int | None, about("How many steps of all runs at once; without it however many.")]
LimitRate = Annotated[str, about("How many may begin, such as `30/m`; also `/s`, `/h`, `/d`. Empty: however many.")]
ScheduleName = Annotated[str, about("The schedule, by its name in the scope.")]
Cron = Annotated[str, about("A line of cron, such as `0 7 * * MON-FRI`.")]
Timezone = Annotated[str, about("Whose clock it means, such as `Europe/Paris`.")]
Missed = Annotated[str, about("Of times at which no worker was there: run `once`, `all`, or `skip`.")]
ScheduleQueue = Annotated[str, about("In which its runs wait; empty: that of the flow, else `schedules`.")]
RetryEffects = Annotated[bool, about("Whether the step may be an effect, which then may happen twice.")]
ReuseEffects = Annotated[bool, about("Whether effects from that step on keep their results, and are not done again.")]
Wait = Annotated[float, about("Seconds to wait for the run to end or to wait for something; it goes on after that.")]
Partial = Annotated[
    Literal["keep", "restore"], about("What becomes of files that an unfinished attempt left: kept, or put back.")
]
PlannedPartial = Annotated[str, about("What becomes of files that an unfinished attempt left: `keep` or `restore`.")]
Step = Annotated[str, about("A step by its label, as receipts show it.")]
FromStep = Annotated[str, about("The step from which on it goes its own way, or to which it goes back, by its label.")]
Result = Annotated[Any, about("What counts as the step's result: any JSON value.")]
Follow = Annotated[
    Literal["idle", "finished", "no"],
    about("How long a stream goes on: until the run is `idle`, or `finished`; `no`: it does not."),
]
Paths = Annotated[Words, about("Files by their paths, as they are listed.")]
Path = Annotated[str, about("A file by its path, as it is listed.")]
Seq = Annotated[int, about("The number of an entry in the run's journal.")]
Attempt = Annotated[int, about("Which attempt of the step, counted from 1.")]
Old = Annotated[bool, about("Also those that were left more than a week ago.")]

WithState = Annotated[bool, about("Whether its state is looked up, for which all of its journal is read.")]
EventNamed = Annotated[str, about("Only events of this name, which may have `*`, such as `run.*`.")]
OfInbox = Annotated[bool, about("Only what waits for somebody, was answered or called off, or has failed.")]
AfterNumber = Annotated[int, about("The number of the last one seen; without it, what happens from now on.")]

# -- interrupts --------------------------------------------------------------------------------------

InterruptId = Annotated[str, about("The id of a wait, or a unique prefix of it.")]
InterruptAnswer = Annotated[Any, about("The answer, as the wait's `schema` or `choices` want it.")]
Shown = Annotated[str, about("The wait's `digest`: the answer counts only for what was shown then.")]
Resume = Annotated[bool, about("Whether its run goes on at once, where it can.")]
Assignee = Annotated[str, about("Only what waits for this person.")]
WaitKind = Annotated[str, about("Only waits of this kind, such as `approval`.")]
SignalName = Annotated[str, about("The name of the signal.")]
Body = Annotated[Any, about("What it carries: any JSON value.")]

# -- workspace ---------------------------------------------------------------------------------------

Name = Annotated[str, about("A name such as `report.md`.")]
Content = Annotated[str, about("The content as text.")]
ContentBase64 = Annotated[str, about("The content as base64, if it is no text.")]
MediaType = Annotated[str, about("What kind of content it is; without it, told by the name.")]
Source = Annotated[str, about("Where it came from, in the words of who saves it.")]
Prefix = Annotated[str, about("Only names that begin so.")]
OfRun = Annotated[str, about("Only what this run saved or pinned.")]
Ref = Annotated[
    str, about("A ref, such as `artifact:default/report.md@1` or `record:ID`; of an artifact also its name.")
]
RecordKind = Annotated[Literal["observation", "decision", "evidence", "note"], about("What kind of record it is.")]
Text = Annotated[str, about("What it says.")]
Pinned = Annotated[bool, about("Whether recall never leaves it out.")]
At = Annotated[datetime, about("When it was so, if not now: a time with its offset.")]
LinkRelation = Annotated[
    Literal["supports", "contradicts", "derived_from", "supersedes", "produced_by"],
    about("How the source bears on the target."),
]
LinkSource = Annotated[str, about("The ref that the link begins at.")]
LinkTarget = Annotated[str, about("The ref that the link ends at.")]
Depth = Annotated[int, about("How far to follow what it rests on.")]
Before = Annotated[str, about("The first of two checkpoints.")]
AfterCheckpoint = Annotated[str, about("The second of two checkpoints.")]
Goal = Annotated[str, about("What is to be done, in a sentence: what is recalled serves that.")]
Budget = Annotated[int, about("How many tokens there are.")]
Kinds = Annotated[Words, about("Only these: observation, decision, evidence, note, artifact, checkpoint.")]
Most = Annotated[int, about("How many at most.")]

# -- tasks and sessions ------------------------------------------------------------------------------

TaskId = Annotated[str, about("The name of a task, whole, such as `export-repair`.")]
TaskState = Annotated[OfTask, about("Only tasks in this state.")]
Reopen = Annotated[bool, about("Whether a task that is completed is opened again.")]
History = Annotated[int, about("How many of the newest events are wanted.")]
StopRun = Annotated[bool, about("Whether a running run of the task is asked to stop at its next step.")]
EventName = Annotated[str, about("The name of the event.")]
SessionId = Annotated[str, about("The id of a session.")]
Speaker = Annotated[str, about("Who speaks: user, assistant, system, tool, or any other word.")]
Said = Annotated[Any, about("What is said: text, or any JSON value.")]
SaidIn = Annotated[str, about("The run that it was said in.")]
Messages = Annotated[
    tuple[Json, ...], about("Messages, each with `role` and `content`, and perhaps `meta` and `run_id`.")
]
Upto = Annotated[int, about("The number of the last message that the memo stands for.")]
Expected = Annotated[int, about("Set it only if the memo is at this version; 0: only if there is none yet.")]
Last = Annotated[int, about("Only so many of the newest.")]
Tokens = Annotated[int, about("How many tokens there are.")]
