"""Errors of runs: who may go on with one, what it waits for, how it ended."""

from __future__ import annotations

from typing import Any

from outlast.errors import Conflict, Invalid, NotFound, Refused, Unavailable, WorkFailed, fact

AGAIN = "`outlast.with_options(again=True)`"
_SEALS = {
    "moved": (
        "was moved away and goes on elsewhere",
        "import its file back (`outlast import FILE`), or start the task anew with fresh=True (`--fresh`)",
    ),
    "copy": (
        "is a read-only copy of a run that lives elsewhere",
        "decide and resume where it lives; to bring it here, export it there with `--move`",
    ),
    "testimony": (
        "is testimony: files that others wrote, unproven",
        "it can be looked at only; run the flow to do the work",
    ),
}


class RunNotFound(NotFound):
    """Raised when no run has this id or id prefix."""

    run: str
    says = "no run {run!r} in this home"
    advice = "list them with `outlast runs`"


class QueueNotFound(NotFound):
    """Raised when no run ever waited in a queue of this name."""

    queue: str
    says = "no queue {queue!r} in this home"
    advice = "list them with `outlast queue list`; one is there with the first run in it"


class EngineConflict(Conflict):
    """Raised when a call names another engine for a queue than the one that takes runs out of it."""

    queue: str
    engine: str
    wanted: str
    says = "runs of the queue {queue!r} are taken by {engine}, not by {wanted}"
    advice = "name another queue, or move this one: `outlast queue move {queue!q} --to {wanted}`"


class EventAhead(Conflict):
    """Raised when events are asked for after a number that was never given here: none would come, in silence."""

    number: int
    newest: int
    says = "event {number} was never given here, where the newest is {newest}"
    advice = "the reader knows another home, or a later state of this one: begin anew, without a number"


class EngineRefused(Refused):
    """Raised when a home cannot be worked on by an engine as it was asked for."""

    why: str
    do: str
    says = "{why}"
    advice = "{do}"


class EngineUnreachable(Unavailable):
    """Raised when the server of an engine cannot be reached. Runs stay in the ledger, and go on once it can."""

    address: str
    why: str
    says = "Temporal cannot be reached at {address}: {why}"
    advice = "start it, or name another place with --address; runs wait in the ledger meanwhile"


class LimitNotFound(NotFound):
    """Raised when a step shares a limit that nobody has set in this home: what an API allows is not guessed."""

    limit: str
    says = "no limit {limit!r} is set in this home"
    advice = "set it: `outlast limit set {limit} --concurrency 4 --rate 30/m`, then resume what was refused"


class ScheduleNotFound(NotFound):
    """Raised when there is no schedule of this name."""

    schedule: str
    says = "no schedule {schedule!r} in this scope"
    advice = "list them with `outlast schedule list`"


class ScheduleInvalid(Invalid):
    """Raised for times that are none, or a time zone that is not known."""

    cron: str
    why: str
    says = "the times {cron!r} cannot be: {why}"
    advice = "give five fields as cron takes them, such as `0 7 * * MON-FRI`, and a time zone such as Europe/Paris"


class RunRemoved(NotFound):
    """Raised when the run that was named has been removed by `gc`."""

    run: str
    status: str
    by: str
    at: str
    says = "run {run} ({status}) was removed by {by} on {at}"
    advice = "its records are gone; run its flow again to start a new run; of a task that was named, with `--again`"


class InterruptNotFound(NotFound):
    """Raised when no interrupt has this id or id prefix."""

    interrupt: str
    says = "no interrupt {interrupt!r}"
    advice = "list the open ones with `outlast.interrupts()`"


class RunHeld(Conflict):
    """Raised when another worker is running the run right now."""

    run: str
    holder: str
    epoch: int
    says = "run {run} is held by {holder} (epoch {epoch})"
    advice = (
        "wait for it: outlast.wait({run!r}), or with_options(wait=True); a dead worker is taken over at once; "
        "or take it: resume with take and why"
    )

    @property
    def run_id(self) -> str:
        """The run that is held: it can be looked at and waited for."""
        return str(self.run)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"run_id": self.run_id, "holder": self.holder}


class RunFinished(Conflict):
    """Raised when a finished run is asked to go on."""

    run: str
    status: str
    says = "run {run} is finished ({status})"
    advice = (
        "run the flow again to start a new run; of a task that was named, with `--again`; "
        "from one of its steps on: `outlast fork {run} --from STEP`"
    )


class InputsConflict(Conflict):
    """Raised when a task's unfinished run, or a named task's finished one, was started with other inputs."""

    task: str
    run: str
    standing: str
    otherwise: str
    flag: str
    says = "task {task!r} has the {standing} run {run} of this flow with other inputs"
    advice = "use the same inputs, another `task=`, or {otherwise}"

    def __init__(self, task: str, run: str, standing: str = "unfinished") -> None:
        if standing == "unfinished":
            ways = "`fresh=True` to give that run up", "--fresh to give that run up"
        else:
            ways = f"{AGAIN} to have it happen once more", "--again to have it happen once more"
        super().__init__(task=task, run=run, standing=standing, otherwise=ways[0], flag=ways[1])


class TaskAborted(Conflict):
    """Raised when a named task is called again after somebody gave its run up."""

    task: str
    run: str
    says = "task {task!r} was given up: its run {run} of this flow is aborted"
    advice = f"to have it happen after all: {AGAIN}, `--again` on the command line"


class TaskDeclined(Conflict):
    """Raised when a named task is called again after a person declined what its run asked."""

    task: str
    run: str
    says = "task {task!r} was declined: somebody said no to its run {run} of this flow"
    advice = f"to ask again: {AGAIN}, `--again` on the command line"


class FlowElsewhere(Conflict):
    """Raised when a run is of a flow in another place, and only a person can say whether it goes on with this one."""

    run: str
    task: str
    before: str
    now: str
    why: str
    named: str
    then: str
    says = "run {run} of task {task!r} is one of {before}; {now} {why}"
    advice = "{then}; or use another task"

    def __init__(
        self, run: str, task: str, before: str, now: str, why: str, named: str, *, is_finished: bool = False
    ) -> None:
        on = f"to go on with it here: `outlast resume {run} --flow {named}`"
        then = f"it has finished, and nothing was done now; how it ended: `outlast show {run}`" if is_finished else on
        super().__init__(run=run, task=task, before=before, now=now, why=why, named=named, then=then)


class LeaseLost(Conflict):
    """Raised when another worker took the run over: nothing this worker did since is recorded."""

    run: str
    epoch: int
    says = "this worker lost run {run}: epoch {epoch} is over"
    advice = "the new owner goes on; see `outlast show {run}`"


class AlreadyAnswered(Conflict):
    """Raised when an interrupt has been answered or closed before."""

    interrupt: str
    run: str
    status: str
    by: str
    says = "interrupt {interrupt} is {status} already (by {by})"
    advice = "see `outlast show {run}`"


class RunSealed(Conflict):
    """Raised when a run that only stands for one elsewhere is asked to go on or to change."""

    run: str
    seal: str
    how: str
    remedy: str
    says = "run {run} {how}"
    advice = "{remedy}"

    def __init__(self, run: str, seal: str) -> None:
        how, remedy = _SEALS.get(seal, (f"is sealed ({seal})", "look at it with `outlast show`"))
        super().__init__(run=run, seal=seal, how=how, remedy=remedy)


class RunExists(Conflict):
    """Raised by import when a run that is here already stands in the way; nothing was written."""

    run: str
    why: str
    remedy: str
    says = "run {run} cannot be imported: {why}"
    advice = "{remedy}"


class Contested(Refused):
    """Raised when resuming is contested by recorded facts that nobody has accepted."""

    run: str
    reasons: str
    says = "run {run} is contested: {reasons}"
    advice = "mend what is named, or accept it by outlast.resume(run, accept=[CODE], why=…)"


class NeverAwaited(Refused):
    """Raised when a body made a call, or asked a question, that it never awaited: it would have been left out."""

    run: str
    calls: str
    remedy: str = fact(default="write `await` before it (or hand it to asyncio.gather), then resume the run")
    says = "run {run} made and never awaited: {calls}"
    advice = "{remedy}"


class RepeatsEffects(Refused):
    """Raised when starting over would repeat effects that were done, and nobody has agreed to it."""

    how: str
    task: str
    run: str
    effects: list[dict[str, str]]
    told: str
    keep: str
    says = "{how} on task {task!r} would repeat what was done: {told}"
    advice = (
        "say so if it may happen again: yes=True or effects=[…] beside it, `--yes` or `--effects NAME,NAME` on the "
        "command line{keep}"
    )

    def __init__(self, how: str, task: str, run: str, effects: list[dict[str, str]]) -> None:
        told = "; ".join(effect["says"] for effect in effects)
        keep = "; or keep what was done: reuse_effects=True" if how == "fork" else ""
        super().__init__(how=how, task=task, run=run, effects=effects, told=told, keep=keep)


class StateTooLarge(Invalid):
    """Raised when run.state would grow past its limit."""

    path: str
    size_bytes: int
    limit_bytes: int
    says = "{path} would make the run's state {size_bytes} bytes; the limit is {limit_bytes}"
    advice = "return large values from steps (they live in the blob store) and keep a reference here"


class OptionInvalid(Invalid):
    """Raised by with_options for an option that it does not have, or a value that the option cannot have."""

    path: str
    option: str
    why: str
    known: str
    says = "option {option!r}: {why}"
    advice = "with_options takes {known}"

    def __init__(self, option: str, why: str, known: str) -> None:
        super().__init__(path=option, option=option, why=why, known=known)


class AnswerInvalid(Invalid):
    """Raised when an answer does not fit the interrupt; the interrupt stays open."""

    interrupt: str
    why: str
    choices: str
    says = "this answer does not fit interrupt {interrupt}: {why}"
    advice = "it takes one of: {choices}"


class RunTimedOut(WorkFailed):
    """Ends a run that is not done by the deadline of its flow."""

    run: str
    deadline: str
    seconds: float
    says = "run {run} was not done by its deadline, {deadline} ({seconds:g} s after its start)"
    advice = "give its flow a later deadline and resume it, or give it up: `outlast abort {run} --why WHY`"


class DeadlinePassed(WorkFailed):
    """Raised by pause_for and wait_for when nobody answered in time and there is no default."""

    run: str
    wait: str
    says = "nobody answered {wait} of run {run} in time"
    advice = "resume the run to ask again, catch it in the flow, or give the wait a default"


class WaitCancelled(WorkFailed):
    """Raised by pause_for and wait_for when the wait was cancelled."""

    run: str
    wait: str
    by: str
    why: str
    says = "{wait} of run {run} was cancelled by {by}: {why}"
    advice = "resume the run to ask again, or catch it in the flow"


class RunFailed(WorkFailed):
    """Raised by unwrap() for a run that failed."""

    run: str
    type: str
    message: str
    says = "run {run} failed: {type}: {message}"
    advice = "run the same command again to go on at the failure"


class RunWaiting(WorkFailed):
    """Raised by unwrap() for a run that waits."""

    run: str
    waits: str
    says = "run {run} waits: {waits}"
    advice = "see `outlast show {run}`"


class RunAborted(WorkFailed):
    """Raised by unwrap() for a run that somebody gave up."""

    run: str
    why: str
    says = "run {run} was aborted: {why}"


class RunInterrupted(WorkFailed):
    """Raised by unwrap() for a run that was asked to stop."""

    run: str
    says = "run {run} was interrupted"
    advice = "run the same command again to continue"


class CommandNotStarted(WorkFailed):
    """Raised when a command could not be started; nothing of it ran."""

    command: str
    why: str
    says = "the command {command!r} was not started: {why}"
    advice = "nothing of it ran; mend that and run the same command again"


class CommandFailed(WorkFailed):
    """Raised in the flow when a command's last attempt did not exit with 0, or was not accepted."""

    step: str
    exit: int
    why: str
    says = "{step} exited with {exit}: {why}"
    advice = "see `outlast logs RUN {step!q}`; mend the cause, then resume"
