"""Every error Outlast raises, and the signals it sends through user code.

    OutlastError
    ├── NotFound      run_not_found, run_removed, step_not_found, interrupt_not_found, flow_not_found, home_not_found,
    │                 handoff_not_found, session_not_found, task_not_found, artifact_not_found, artifact_removed,
    │                 checkpoint_not_found, tenant_not_found, key_not_found, route_not_found, record_not_found,
    │                 blob_not_found, output_not_found, displaced_not_found
    ├── Conflict      run_held, gc_running, run_finished, inputs_conflict, flow_elsewhere, lease_lost,
    │                 operation_conflict, task_aborted, task_declined,
    │                 already_answered, ambiguous_prefix, step_ambiguous, step_name_taken, map_key_taken,
    │                 run_sealed, run_exists, handoff_ambiguous, handoff_exists, finished, handoff_claimed, claim_lost,
    │                 resource_taken, revision_conflict, session_exists, memo_conflict, task_exists, address_taken,
    │                 home_not_empty, nothing_lost
    ├── Refused       contested, integrity_broken, step_outside_run, never_awaited, effect_inside_step, still_running,
    │                 runs_on_import,
    │                 orphan_alive, resource_missing, resource_cycle, resource_needs_loop, store_forked, sync_in_loop,
    │                 edited_since, not_restorable, output_not_kept, secret_missing, handoff_contested, handoff_weak,
    │                 not_settled, not_applicable, task_refused,
    │                 unauthenticated, forbidden, method_refused, no_flows, runs_on_host, look_first, embedded_only,
    │                 reply_refused, keys_needed, foreign_commands, home_not_ours, repeats_effects
    ├── Invalid       value_refused, state_too_large, flow_invalid, step_invalid, name_invalid, resource_invalid,
    │                 answer_invalid, inputs_invalid, archive_invalid, recipe_invalid, handoff_invalid, secret_found,
    │                 secret_pattern_invalid, home_settings_invalid,
    │                 budget_too_small, settings_invalid,
    │                 request_malformed, request_invalid, body_too_large, range_refused, body_too_slow,
    │                 headers_too_slow, media_type_refused, trust_invalid, option_invalid
    ├── Unavailable   store_busy, disk_full, store_read_only, home_read_only, store_failed, store_newer,
    │                 store_foreign, store_lost, network_filesystem, extra_missing,
    │                 server_unreachable, reply_invalid, internal,
    │                 server_full, too_many_requests, too_many_runs, server_busy, quota,
    │                 no_thread
    └── Failed        step_failed, step_timed_out, run_timed_out, command_not_started, command_failed, said_wrong,
                      limit_reached, items_unreadable, deadline_passed, wait_cancelled, run_failed, run_waiting,
                      run_aborted, run_interrupted

An error keeps the facts, not the text, so it survives copying between processes. `code` is stable: the
same in Python, on the command line, over HTTP and MCP. `Paused`, `Stopped` and `Severed` are no errors:
they end a flow's body, and are `BaseException`s so that a user's `except Exception` cannot eat them.
"""

from __future__ import annotations

from typing import Any, ClassVar


class OutlastError(Exception):
    """Base of everything Outlast raises. `str()` says what happened and what to do next."""

    code: ClassVar[str] = "error"
    says: ClassVar[str] = "{detail}"
    advice: ClassVar[str] = ""

    def __init__(self, **facts: Any) -> None:
        super().__init__(*facts.values())
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts)

    @property
    def detail(self) -> str:
        return self.says.format(**self.facts)

    @property
    def what_next(self) -> str:
        return self.advice.format(**self.facts)

    def __str__(self) -> str:
        return f"{self.detail}; {self.what_next}" if self.advice else self.detail

    def to_dict(self) -> dict[str, Any]:
        """The error as every door shows it: code, detail, advice, path of the offending value."""
        return {
            "code": self.code,
            "detail": self.detail,
            "advice": self.what_next,
            "path": self.facts.get("path"),
        }


def _rebuild(kind: type[OutlastError], facts: dict[str, Any]) -> OutlastError:
    error = kind.__new__(kind)
    OutlastError.__init__(error, **facts)
    return error


class NotFound(OutlastError):
    """What was asked for does not exist (or is not visible from here)."""

    code = "not_found"


class Conflict(OutlastError):
    """Someone or something else got there first."""

    code = "conflict"


class Refused(OutlastError):
    """The work may not go on as things stand."""

    code = "refused"


class Invalid(OutlastError):
    """What was given cannot be used; nothing was written."""

    code = "invalid"


class Unavailable(OutlastError):
    """The store cannot serve this now; nothing acknowledged is lost."""

    code = "unavailable"


class Failed(OutlastError):
    """The user's own work failed, or has not ended well yet."""

    code = "failed"


# -- not found ---------------------------------------------------------------------------------------


class RunNotFound(NotFound):
    """Raised when no run has this id or id prefix."""

    code = "run_not_found"
    says = "no run {run!r} in this home"
    advice = "list them with `outlast runs`"

    def __init__(self, run: str) -> None:
        super().__init__(run=run)


class RunRemoved(NotFound):
    """Raised when the run that was named has been removed by `gc`."""

    code = "run_removed"
    says = "run {run} ({status}) was removed by {by} on {at}"
    advice = "its records are gone; run its flow again to start a new run; of a task that was named, with `--again`"

    def __init__(self, run: str, status: str, by: str, at: str) -> None:
        super().__init__(run=run, status=status, by=by, at=at)


class StepNotFound(NotFound):
    """Raised when a run has no receipt of the step that was named."""

    code = "step_not_found"
    says = "run {run} has no step {step!r} (it has: {known})"
    advice = "see `outlast receipts {run}`"

    def __init__(self, run: str, step: str, known: str) -> None:
        super().__init__(run=run, step=step, known=known)

    @classmethod
    def going_back(cls, run: str, step: str, known: str, stands_at: str) -> StepNotFound:
        """The same for who wants to go back to it: a run goes forward to a step only past those that come before."""
        error = cls(run, step, known)
        error.facts["stands_at"] = stands_at or "STEP"
        return error

    @property
    def what_next(self) -> str:
        if "stands_at" not in self.facts:
            return super().what_next
        skip = "`outlast skip {run} {stands_at} --result JSON --why WHY`".format(**self.facts)
        return f"a run goes back only to what it has reached; to go on past what comes before, skip it: {skip}"


class OutputNotFound(NotFound):
    """Raised when no finished step of a run left the file that was named."""

    code = "output_not_found"
    says = "run {run} has no file {named} that a finished step left (it has: {known})"
    advice = "see `outlast outputs {run}`"

    def __init__(self, run: str, named: str, known: str) -> None:
        super().__init__(run=run, named=named, known=known)


class DisplacedNotFound(NotFound):
    """Raised when no file of that path gave way in a run."""

    code = "displaced_not_found"
    says = "nothing at {place} gave way in run {run} (what did: {known})"
    advice = "see `outlast displaced {run}`"

    def __init__(self, run: str, place: str, known: str) -> None:
        super().__init__(run=run, place=place, known=known)


class InterruptNotFound(NotFound):
    """Raised when no interrupt has this id or id prefix."""

    code = "interrupt_not_found"
    says = "no interrupt {interrupt!r}"
    advice = "list the open ones with `outlast.interrupts()`"

    def __init__(self, interrupt: str) -> None:
        super().__init__(interrupt=interrupt)


class FlowNotFound(NotFound):
    """Raised when the flow's code cannot be found or loaded from where it was recorded."""

    code = "flow_not_found"
    says = "cannot load flow {flow!r}: {why}"
    advice = (
        "name it as `flow.yaml`, `module:name` or `file.py:name`; a run whose file was moved goes on with "
        "`outlast resume RUN --flow PATH`"
    )

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow=flow, why=why)


class HomeNotFound(NotFound):
    """Raised by reading commands when there is no home to read."""

    code = "home_not_found"
    says = "no .outlast folder here or above ({path})"
    advice = "start a run first, or name the home with OUTLAST_HOME"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)


class HandoffNotFound(NotFound):
    """Raised when nothing was stored under the anchor, id, file or branch that was asked for."""

    code = "handoff_not_found"
    says = "no handoff for {asked}{nearest}"
    advice = "see `outlast handoff list`"

    def __init__(self, asked: str, nearest: str = "") -> None:
        super().__init__(asked=asked, nearest=f"; nearest: {nearest}" if nearest else "")


class ArtifactNotFound(NotFound):
    """Raised when no artifact has this ref or name, or nobody may see it yet."""

    code = "artifact_not_found"
    says = "no artifact {ref!r} in scope {scope!r}"
    advice = "see `outlast workspace list`; a ref is `artifact:SCOPE/NAME@VERSION`"

    def __init__(self, ref: str, scope: str) -> None:
        super().__init__(ref=ref, scope=scope)


class ArtifactRemoved(NotFound):
    """Raised when the version of an artifact that was named has been removed by `gc`."""

    code = "artifact_removed"
    says = "{ref} was removed by {by} on {at}"
    advice = "newer versions of it are there: `outlast workspace versions NAME`"

    def __init__(self, ref: str, by: str, at: str) -> None:
        super().__init__(ref=ref, by=by, at=at)


class CheckpointNotFound(NotFound):
    """Raised when no checkpoint has this id or id prefix."""

    code = "checkpoint_not_found"
    says = "no checkpoint {checkpoint!r}"
    advice = "see `outlast workspace checkpoints`"

    def __init__(self, checkpoint: str) -> None:
        super().__init__(checkpoint=checkpoint)


class BlobNotFound(NotFound):
    """Raised by a server when it has no content of this digest."""

    code = "blob_not_found"
    says = "no content {digest!r}"
    advice = "send it: PUT /v1/handoff/blobs/DIGEST"

    def __init__(self, digest: str) -> None:
        super().__init__(digest=digest)


class RecordNotFound(NotFound):
    """Raised when no record has this ref, id or id prefix, or nobody may see it yet."""

    code = "record_not_found"
    says = "no record {record!r}"
    advice = "see `outlast workspace records`; a ref is `record:ID`"

    def __init__(self, record: str) -> None:
        super().__init__(record=record)


class SessionNotFound(NotFound):
    """Raised when a scope has no session of this id."""

    code = "session_not_found"
    says = "no session {session!r} in scope {scope!r}"
    advice = "see `outlast session list`; the first message, or `outlast.sessions.open`, makes one"

    def __init__(self, session: str, scope: str) -> None:
        super().__init__(session=session, scope=scope)


class TaskNotFound(NotFound):
    """Raised when nothing is known of a task: nobody opened it, and it has neither runs nor a handoff."""

    code = "task_not_found"
    says = "no task {task!r} in scope {scope!r}"
    advice = "open it: outlast.tasks.open(…), `outlast task open TASK`; `outlast task list` has those that were"

    def __init__(self, task: str, scope: str) -> None:
        super().__init__(task=task, scope=scope)


class TenantNotFound(NotFound):
    """Raised by a server when a request names a tenant that its home does not have."""

    code = "tenant_not_found"
    says = "no tenant {tenant!r} here"
    advice = "name one that exists; `outlast keys create --tenant NAME --actor WHO` lets somebody in to a new one"

    def __init__(self, tenant: str) -> None:
        super().__init__(tenant=tenant)


class KeyNotFound(NotFound):
    """Raised when no API key has this id."""

    code = "key_not_found"
    says = "no key {key!r} in {home}"
    advice = "see `outlast keys list`"

    def __init__(self, key: str, home: str) -> None:
        super().__init__(key=key, home=home)


class RouteNotFound(NotFound):
    """Raised by a server for a path that it does not have."""

    code = "route_not_found"
    says = "there is nothing at {route!r}"
    advice = "see /openapi.json for what there is"

    def __init__(self, route: str) -> None:
        super().__init__(route=route)


# -- conflict ----------------------------------------------------------------------------------------


AGAIN = "`outlast.with_options(again=True)`"


class RunHeld(Conflict):
    """Raised when another worker is running the run right now."""

    code = "run_held"
    says = "run {run} is held by {holder} (epoch {epoch})"
    advice = (
        "wait for it: outlast.wait({run!r}), or with_options(wait=True); a dead worker is taken over at once; "
        "or take it: resume with take and why"
    )

    def __init__(self, run: str, holder: str, epoch: int) -> None:
        super().__init__(run=run, holder=holder, epoch=epoch)

    @property
    def run_id(self) -> str:
        """The run that is held: it can be looked at and waited for."""
        return str(self.run)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"run_id": self.run_id, "holder": self.holder}


class GcRunning(Conflict):
    """Raised when another gc, or a backup, is at work on the same tenant."""

    code = "gc_running"
    says = "another gc or a backup is at work in {path}"
    advice = "wait until it has ended, then run the same command again"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)


class HomeNotEmpty(Conflict):
    """Raised when a home is to be restored where something is already. Nothing was changed."""

    code = "home_not_empty"
    says = "{path} is there already and not empty"
    advice = "name a place where nothing is: --home DIR; what is there is never replaced"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)


class NothingLost(Conflict):
    """Raised when a tenant is to begin anew whose database is there and sound."""

    code = "nothing_lost"
    says = "nothing is lost in {path}: its database is there"
    advice = "go on with it; `outlast doctor` looks at all of it"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)


class RunFinished(Conflict):
    """Raised when a finished run is asked to go on."""

    code = "run_finished"
    says = "run {run} is finished ({status})"
    advice = "run the flow again to start a new run; of a task that was named, with `--again`"

    def __init__(self, run: str, status: str) -> None:
        super().__init__(run=run, status=status)


class InputsConflict(Conflict):
    """Raised when a task's unfinished run, or a named task's finished one, was started with other inputs."""

    code = "inputs_conflict"
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

    code = "task_aborted"
    says = "task {task!r} was given up: its run {run} of this flow is aborted"
    advice = f"to have it happen after all: {AGAIN}, `--again` on the command line"

    def __init__(self, task: str, run: str) -> None:
        super().__init__(task=task, run=run)


class TaskDeclined(Conflict):
    """Raised when a named task is called again after a person declined what its run asked."""

    code = "task_declined"
    says = "task {task!r} was declined: somebody said no to its run {run} of this flow"
    advice = f"to ask again: {AGAIN}, `--again` on the command line"

    def __init__(self, task: str, run: str) -> None:
        super().__init__(task=task, run=run)


class FlowElsewhere(Conflict):
    """Raised when a run is of a flow in another place, and only a person can say whether it goes on with this one."""

    code = "flow_elsewhere"
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

    code = "lease_lost"
    says = "this worker lost run {run}: epoch {epoch} is over"
    advice = "the new owner goes on; see `outlast show {run}`"

    def __init__(self, run: str, epoch: int) -> None:
        super().__init__(run=run, epoch=epoch)


class OperationConflict(Conflict):
    """Raised when an operation_id is used again with other content."""

    code = "operation_conflict"
    says = "operation {operation_id!r} was already used for another {kind}"
    advice = "use a new operation_id for a new request"

    def __init__(self, operation_id: str, kind: str) -> None:
        super().__init__(operation_id=operation_id, kind=kind)


class AlreadyAnswered(Conflict):
    """Raised when an interrupt has been answered or closed before."""

    code = "already_answered"
    says = "interrupt {interrupt} is {status} already (by {by})"
    advice = "see `outlast show {run}`"

    def __init__(self, interrupt: str, run: str, status: str, by: str) -> None:
        super().__init__(interrupt=interrupt, run=run, status=status, by=by)


class AmbiguousPrefix(Conflict):
    """Raised when an id prefix names more than one record."""

    code = "ambiguous_prefix"
    says = "{prefix!r} could be any of {matches}"
    advice = "give more characters"

    def __init__(self, prefix: str, matches: str) -> None:
        super().__init__(prefix=prefix, matches=matches)


class StepAmbiguous(Conflict):
    """Raised when several calls of a run could be meant by the name of a step."""

    code = "step_ambiguous"
    says = "run {run} has several calls of {step!r}: {labels}"
    advice = "name one of them by its label"

    def __init__(self, run: str, step: str, labels: str) -> None:
        super().__init__(run=run, step=step, labels=labels)


class StepNameTaken(Conflict):
    """Raised when two different functions are used as steps under one name in one run."""

    code = "step_name_taken"
    says = "step name {step!r} is used by {first} and by {second}"
    advice = "give one of them another name: @step(name=…)"

    def __init__(self, step: str, first: str, second: str) -> None:
        super().__init__(step=step, first=first, second=second)


class MapKeyTaken(Conflict):
    """Raised by run.map, before anything runs, when two items have the same key."""

    code = "map_key_taken"
    says = "map {step}: items {first} and {second} both have the key {key!r}"
    advice = "let key= give every item one of its own, or leave it out: equal items are told apart by their order"

    def __init__(self, step: str, key: str, first: int, second: int) -> None:
        super().__init__(step=step, key=key, first=first, second=second)


class ResourceTaken(Conflict):
    """Raised when two different functions are registered for one resource."""

    code = "resource_taken"
    says = "resource {key!r} is registered twice: by {first} and by {second}"
    advice = "give one of them another key, or import the one from the other's module"

    def __init__(self, key: str, first: str, second: str) -> None:
        super().__init__(key=key, first=first, second=second)


class RunSealed(Conflict):
    """Raised when a run that only stands for one elsewhere is asked to go on or to change."""

    code = "run_sealed"
    says = "run {run} {how}"
    advice = "{remedy}"

    def __init__(self, run: str, seal: str) -> None:
        how, remedy = _SEALS.get(seal, (f"is sealed ({seal})", "look at it with `outlast show`"))
        super().__init__(run=run, seal=seal, how=how, remedy=remedy)


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


class RunExists(Conflict):
    """Raised by import when a run that is here already stands in the way; nothing was written."""

    code = "run_exists"
    says = "run {run} cannot be imported: {why}"
    advice = "{remedy}"

    def __init__(self, run: str, why: str, remedy: str) -> None:
        super().__init__(run=run, why=why, remedy=remedy)


class HandoffAmbiguous(Conflict):
    """Raised when a file, branch or id prefix means more than one handoff: all of them are named."""

    code = "handoff_ambiguous"
    says = "{asked} means more than one handoff: {anchors}"
    advice = "recover one of them by its anchor: `outlast handoff recover ANCHOR`"

    def __init__(self, asked: str, anchors: str) -> None:
        super().__init__(asked=asked, anchors=anchors)


class HandoffExists(Conflict):
    """Raised when a bundle is imported under an anchor that has another history here."""

    code = "handoff_exists"
    says = "{anchor!r} has a history of its own here: {why}"
    advice = "import the file into another home (--home DIR) to read it, and store what counts from it under {anchor!r}"

    def __init__(self, anchor: str, why: str) -> None:
        super().__init__(anchor=anchor, why=why)


class Finished(Conflict):
    """Raised when a handoff is recovered, claimed or settled after it was completed; and for a named task."""

    code = "finished"
    says = "the work under {anchor!r} was completed by {by} on {at}"
    advice = "{then}"

    def __init__(self, anchor: str, by: str, at: str, then: str = "") -> None:
        read = "read it with include_finished=True (--include-finished); storing under the anchor opens it again"
        super().__init__(anchor=anchor, by=by, at=at, then=then or read)

    @classmethod
    def task(cls, task: str, run: str, at: str, call: str = "") -> Finished:
        """Of a named task: its run succeeded; a call that has no receipt there is not made."""
        before = f"{call} has no receipt there and is not done; " if call else ""
        then = f"to have it happen once more: {AGAIN}, `--again` on the command line"
        return cls(task, f"run {run}", at, before + then)


class HandoffClaimed(Conflict):
    """Raised when somebody else holds the claim on a handoff."""

    code = "handoff_claimed"
    says = "{anchor!r} is claimed by {holder} until {until}"
    advice = (
        "wait for it, show it if it is yours (claim_id=ID, --claim-id ID), or take it over: take=True, why=… (--take)"
    )

    def __init__(self, anchor: str, holder: str, until: str) -> None:
        super().__init__(anchor=anchor, holder=holder, until=until)


class ClaimLost(Conflict):
    """Raised when a claim that was shown is over: somebody else took it, or it was settled."""

    code = "claim_lost"
    says = "claim {claim} on {anchor!r} is over: {why}"
    advice = "recover the handoff again to see how it stands; what you changed in files is not undone"

    def __init__(self, claim: str, anchor: str, why: str) -> None:
        super().__init__(claim=claim, anchor=anchor, why=why)


class RevisionConflict(Conflict):
    """Raised when a handoff is stored on condition of a revision that is not the newest."""

    code = "revision_conflict"
    says = "{anchor!r} is at revision {found}, not {expected}; nothing was stored"
    advice = "recover it, take what is new into account, and store again with expected_revision={found}"

    def __init__(self, anchor: str, expected: int, found: int) -> None:
        super().__init__(anchor=anchor, expected=expected, found=found)


class SessionExists(Conflict):
    """Raised when a session is opened with other meta than it was made with."""

    code = "session_exists"
    says = "session {session!r} was made with other meta: {meta}"
    advice = "open it without meta, or choose another id"

    def __init__(self, session: str, meta: str) -> None:
        super().__init__(session=session, meta=meta)


class MemoConflict(Conflict):
    """Raised when a memo is set on condition of a version that is not the newest."""

    code = "memo_conflict"
    says = "the memo of session {session!r} is at version {found}, not {expected}; nothing was written"
    advice = "read it, take what is new into account, and set it again with expected={found}"

    def __init__(self, session: str, expected: int, found: int) -> None:
        super().__init__(session=session, expected=expected, found=found)


class TaskExists(Conflict):
    """Raised when a task is opened with other meta than it was opened with first."""

    code = "task_exists"
    says = "task {task!r} was opened with other meta: {meta}"
    advice = "open it without meta, or choose another id; what changes is recorded as an event"

    def __init__(self, task: str, meta: str) -> None:
        super().__init__(task=task, meta=meta)


class AddressTaken(Conflict):
    """Raised when a server cannot listen where it is told to, because another program does."""

    code = "address_taken"
    says = "cannot listen on {address}: {why}"
    advice = "end the program that listens there, or name another one: `outlast serve --port PORT` (0: a free one)"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address=address, why=why)


# -- refused -----------------------------------------------------------------------------------------


class Contested(Refused):
    """Raised when resuming is contested by recorded facts that nobody has accepted."""

    code = "contested"
    says = "run {run} is contested: {reasons}"
    advice = "mend what is named, or accept it by outlast.resume(run, accept=[CODE], why=…)"

    def __init__(self, run: str, reasons: str) -> None:
        super().__init__(run=run, reasons=reasons)


class IntegrityBroken(Refused):
    """Raised when a record does not match its digest or its place in the chain."""

    code = "integrity_broken"
    says = "{record} is not what was stored: {why}"
    advice = "check the store with `outlast verify` and restore it from a copy"

    def __init__(self, record: str, why: str) -> None:
        super().__init__(record=record, why=why)


class StepOutsideRun(Refused):
    """Raised when a step is called in a thread that does not belong to its run."""

    code = "step_outside_run"
    says = "step {step!r} was called in thread {thread!r}, which does not belong to a run"
    advice = (
        "hand work to threads by run.map(…) or run.bind(…), or call {step}.plain(…) to run it undurably; "
        "replay contract: a call must know its place in the run"
    )

    def __init__(self, step: str, thread: str) -> None:
        super().__init__(step=step, thread=thread)


class NeverAwaited(Refused):
    """Raised when a body made a call, or asked a question, that it never awaited: it would have been left out."""

    code = "never_awaited"
    says = "run {run} made and never awaited: {calls}"
    advice = "write `await` before it (or hand it to asyncio.gather), then resume the run"

    def __init__(self, run: str, calls: str) -> None:
        super().__init__(run=run, calls=calls)


class EffectInsideStep(Refused):
    """Raised when an effect is called inside a step, which may run again."""

    code = "effect_inside_step"
    says = "effect {effect!r} was called inside step {step!r}"
    advice = (
        "call it from the flow's body; replay contract: a step may run again until it has succeeded, "
        "so an effect inside it could happen twice"
    )

    def __init__(self, effect: str, step: str) -> None:
        super().__init__(effect=effect, step=step)


class RunsOnImport(Refused):
    """Raised when a module starts or continues a run while Outlast loads a flow from it."""

    code = "runs_on_import"
    says = "the module of {source!r} starts or continues a run as soon as it is imported"
    advice = 'put that part under `if __name__ == "__main__":`, so that the flow can be found without running it'

    def __init__(self, source: str) -> None:
        super().__init__(source=source)


class StillRunning(Refused):
    """Raised when an earlier attempt of a step has not ended yet (a timed-out thread)."""

    code = "still_running"
    says = "an earlier attempt of step {step!r} is still running in this process"
    advice = "wait until it ends, or restart the process; then resume"

    def __init__(self, step: str) -> None:
        super().__init__(step=step)


class OrphanAlive(Refused):
    """Raised when processes of an earlier attempt are still alive and cannot be ended."""

    code = "orphan_alive"
    says = "processes of an earlier attempt of {step} are still alive (process group {group}) and cannot be ended"
    advice = "end them (kill -KILL -- -{group}), then resume"

    def __init__(self, step: str, group: int) -> None:
        super().__init__(step=step, group=group)


class ResourceMissing(Refused):
    """Raised when a step, or another resource, needs a live resource that nobody provided."""

    code = "resource_missing"
    says = "resource {key!r} is needed and not provided"
    advice = "let a function make it, @resource({key!r}) in the flow's module, or call outlast.resource({key!r}, …)"

    def __init__(self, key: str, needed_by: str = "") -> None:
        super().__init__(key=key, needed_by=needed_by)

    @property
    def detail(self) -> str:
        if not self.facts["needed_by"]:
            return super().detail
        return "resource {key!r} is needed by resource {needed_by!r} and not provided".format(**self.facts)


class ResourceCycle(Refused):
    """Raised when the factories of resources need each other."""

    code = "resource_cycle"
    says = "resources need each other: {chain}"
    advice = "let one of these factories do without the other"

    def __init__(self, chain: str) -> None:
        super().__init__(chain=chain)


class ResourceNeedsLoop(Refused):
    """Raised when a resource that async code opens is needed where no event loop of the flow's can open it."""

    code = "resource_needs_loop"
    says = "resource {key!r} is opened by async code, and nothing can be awaited here"
    advice = "inject it into a step of an async flow, or provide it by a plain function"

    def __init__(self, key: str) -> None:
        super().__init__(key=key)


class StoreForked(Refused):
    """Raised when a store that was open before a fork is used in the child."""

    code = "store_forked"
    says = "{path} was open before this process was forked"
    advice = "start workers by `spawn`, or open Outlast only after the fork"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)


class SyncInLoop(Refused):
    """Raised when the blocking surface is used for an async flow inside a running event loop."""

    code = "sync_in_loop"
    says = "{what} would block the running event loop"
    advice = "use AsyncOutlast and await it"

    def __init__(self, what: str) -> None:
        super().__init__(what=what)


class SecretMissing(Refused):
    """Raised before the first step when secrets of a flow file are not set."""

    code = "secret_missing"
    says = "flow {flow!r} needs secrets that are unset or empty: {names}"
    advice = "set them in the environment of the same command; they are not stored"

    def __init__(self, flow: str, names: str) -> None:
        super().__init__(flow=flow, names=names)


class EditedSince(Refused):
    """Raised when files that would be put back were edited after the attempt ended; nobody's edits are displaced."""

    code = "edited_since"
    says = "edited after the attempt ended: {paths}"
    advice = "keep what is there (`--partial keep`), or move it away and restore again"

    def __init__(self, paths: str) -> None:
        super().__init__(paths=paths)


class NotRestorable(Refused):
    """Raised when files cannot be put back as they were before the attempt."""

    code = "not_restorable"
    says = "cannot be put back: {paths}"
    advice = "keep what is there (`--partial keep`), or mend what is named by hand and restore again; nothing is lost"

    def __init__(self, paths: str) -> None:
        super().__init__(paths=paths)


class OutputNotKept(Refused):
    """Raised when the content of a finished step's files is not kept, so that they cannot be put back."""

    code = "output_not_kept"
    says = "cannot be put back: {files}"
    advice = "do the step again: `outlast resume {run} --from {step}`; what else is kept: `outlast outputs {run}`"

    def __init__(self, run: str, step: str, files: str) -> None:
        super().__init__(run=run, step=step, files=files)


class HandoffContested(Refused):
    """Raised when a claim is contested by facts that nobody has accepted."""

    code = "handoff_contested"
    says = "{anchor!r} is contested: {reasons}"
    advice = "mend what is named, or accept it as found: accept=[CODE or CODE:SUBJECT], why=… (--accept, --why)"

    def __init__(self, anchor: str, reasons: str) -> None:
        super().__init__(anchor=anchor, reasons=reasons)


class HandoffWeak(Refused):
    """Raised when a weak handoff is stored with strict=True."""

    code = "handoff_weak"
    says = "the handoff is weak ({score} of 100): {findings}"
    advice = "say what is missing, or store it without strict; `outlast handoff lint` has better wordings"

    def __init__(self, score: int, findings: str) -> None:
        super().__init__(score=score, findings=findings)


class NotSettled(Refused):
    """Raised when work is called completed while a check fails, was not run, or a must is unacknowledged."""

    code = "not_settled"
    says = "{anchor!r} cannot be completed: {missing}"
    advice = (
        "mend it, acknowledge the musts (acknowledged=[…]), or override with a reason: override=WHY (--override WHY)"
    )

    def __init__(self, anchor: str, missing: str) -> None:
        super().__init__(anchor=anchor, missing=missing)


class NotApplicable(Refused):
    """Raised when the work of a handoff cannot be brought into this clone: nothing was touched."""

    code = "not_applicable"
    says = "the work of {anchor!r} cannot be brought here: {why}"
    advice = "see `outlast handoff diff {anchor}`; commit or stash what is in the way, then apply again"

    def __init__(self, anchor: str, why: str) -> None:
        super().__init__(anchor=anchor, why=why)


class TaskRefused(Refused):
    """Raised when a task is in no state for what is asked."""

    code = "task_refused"
    says = "cannot {action} task {task!r}: {why}"
    advice = "{remedy}"

    def __init__(self, task: str, action: str, why: str, remedy: str) -> None:
        super().__init__(task=task, action=action, why=why, remedy=remedy)


class Unauthenticated(Refused):
    """Raised by a server when a request has no key, or one that is unknown, expired or revoked."""

    code = "unauthenticated"
    says = "{why}"
    advice = "send a key as `Authorization: Bearer ol_…`; `outlast keys create --actor WHO` makes one on the server"

    def __init__(self, why: str) -> None:
        super().__init__(why=why)


class Forbidden(Refused):
    """Raised by a server when the key lacks the role, or the request comes from a place that is not let in."""

    code = "forbidden"
    says = "{why}"
    advice = "{remedy}"

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why=why, remedy=remedy)


class MethodRefused(Refused):
    """Raised by a server for a path that it has, by another method."""

    code = "method_refused"
    says = "{method} cannot be used for {route}"
    advice = "use {allowed}"

    def __init__(self, method: str, route: str, allowed: str) -> None:
        super().__init__(method=method, route=route, allowed=allowed)


class NoFlows(Refused):
    """Raised by a server that is asked to run a flow it was not given."""

    code = "no_flows"
    says = "this server may not run {flow!r}: it was started with {given}"
    advice = "start it with the flow's module or file: `outlast serve --flows MODULE`, `outlast mcp --flows MODULE`"

    def __init__(self, flow: str, given: str) -> None:
        super().__init__(flow=flow, given=given)


class RunsOnHost(Refused):
    """Raised by a server that is asked to look at files or run checks: only a host does."""

    code = "runs_on_host"
    says = "a server does not {what}"
    advice = "{remedy}"

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what=what, remedy=remedy)


class LookFirst(Refused):
    """Raised by a server to a client that can look at files: what it needs to know of them before it can go on.

    `what` is `files` or `checks` of `handoff`, or for one that is being stored `binding` or `checks`.
    """

    code = "look_first"
    says = "the {what} of {anchor!r} were not looked at as they are now"
    advice = "look, and send the same again with what was found (`observed`, `binding`, `ran`)"

    def __init__(self, what: str, anchor: str, handoff: dict[str, Any] | None = None) -> None:
        super().__init__(what=what, anchor=anchor, handoff=handoff)


class EmbeddedOnly(Refused):
    """Raised by a client of a server for what only the process that has the home can do."""

    code = "embedded_only"
    says = "{what} does not work over HTTP"
    advice = "{remedy}"

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what=what, remedy=remedy)


class ReplyRefused(Refused):
    """Raised by a client whose server's answer asks for more than the call did; nothing of that was done."""

    code = "reply_refused"
    says = "the server's answer asks for more than the call did: {why}"
    advice = "nothing of it was done; {remedy}"

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why=why, remedy=remedy)


class KeysNeeded(Refused):
    """Raised when a server is to let in only who has a key, and nobody has one."""

    code = "keys_needed"
    says = "{why}, and there is no usable key in {home}"
    advice = "make one first: `outlast keys create --actor WHO`; or listen on 127.0.0.1 without --require-key"

    def __init__(self, why: str, home: str) -> None:
        super().__init__(why=why, home=home)


class ForeignCommands(Refused):
    """Raised before commands run that somebody else stored, and that nobody here has agreed to. None was run."""

    code = "foreign_commands"
    says = "the commands of {anchor!r} are not run: {why}\n{commands}\n  digest {digest}"
    advice = "read them; to run exactly these, a person says so: {command}"

    def __init__(self, anchor: str, why: str, commands: str, digest: str, command: str) -> None:
        super().__init__(anchor=anchor, why=why, commands=commands, digest=digest, command=command)


class RepeatsEffects(Refused):
    """Raised when starting over would repeat effects that were done, and nobody has agreed to it."""

    code = "repeats_effects"
    says = "{how} on task {task!r} would repeat what was done: {told}"
    advice = (
        "say so if it may happen again: yes=True or effects=[…] beside it, `--yes` or `--effects NAME,NAME` on the "
        "command line"
    )

    def __init__(self, how: str, task: str, run: str, effects: list[dict[str, str]]) -> None:
        told = "; ".join(effect["says"] for effect in effects)
        super().__init__(how=how, task=task, run=run, effects=effects, told=told)


class HomeNotOurs(Refused):
    """Raised for a home that nobody named and that is not this user's: nothing of it was read."""

    code = "home_not_ours"
    says = "the home {path} is not used: {why}"
    advice = "if you know it, name it: --home {path}, or OUTLAST_HOME; else remove it, or work elsewhere"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


# -- invalid -----------------------------------------------------------------------------------------


class ValueRefused(Invalid):
    """Raised when a value cannot be stored so that it comes back equal."""

    code = "value_refused"
    says = "{path} cannot be stored: {why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


class StateTooLarge(Invalid):
    """Raised when run.state would grow past its limit."""

    code = "state_too_large"
    says = "{path} would make the run's state {size_bytes} bytes; the limit is {limit_bytes}"
    advice = "return large values from steps (they live in the blob store) and keep a reference here"

    def __init__(self, path: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(path=path, size_bytes=size_bytes, limit_bytes=limit_bytes)


class FlowInvalid(Invalid):
    """Raised when a function cannot be a flow."""

    code = "flow_invalid"
    says = "{flow} cannot be a flow: {why}"
    advice = "{remedy}"

    def __init__(
        self,
        flow: str,
        why: str,
        remedy: str = "define it at the top of a module, so that a later process can find it by name",
    ) -> None:
        super().__init__(flow=flow, why=why, remedy=remedy)


class StepInvalid(Invalid):
    """Raised when a function or its options cannot make a step."""

    code = "step_invalid"
    says = "{step} cannot be a step: {why}"

    def __init__(self, step: str, why: str) -> None:
        super().__init__(step=step, why=why)


class OptionInvalid(Invalid):
    """Raised by with_options for an option that it does not have, or a value that the option cannot have."""

    code = "option_invalid"
    says = "option {option!r}: {why}"
    advice = "with_options takes {known}"

    def __init__(self, option: str, why: str, known: str) -> None:
        super().__init__(path=option, option=option, why=why, known=known)


class NameInvalid(Invalid):
    """Raised when a tenant, scope, task, branch or resource name cannot be used."""

    code = "name_invalid"
    says = "{kind} {name!r} cannot be used: {why}"

    def __init__(self, kind: str, name: str, why: str) -> None:
        super().__init__(kind=kind, name=name[:100], why=why)


class ResourceInvalid(Invalid):
    """Raised when what is to provide a resource cannot."""

    code = "resource_invalid"
    says = "resource {key!r} cannot be provided so: {why}"

    def __init__(self, key: str, why: str) -> None:
        super().__init__(key=key, why=why)


class AnswerInvalid(Invalid):
    """Raised when an answer does not fit the interrupt; the interrupt stays open."""

    code = "answer_invalid"
    says = "this answer does not fit interrupt {interrupt}: {why}"
    advice = "it takes one of: {choices}"

    def __init__(self, interrupt: str, why: str, choices: str) -> None:
        super().__init__(interrupt=interrupt, why=why, choices=choices)


class InputsInvalid(Invalid):
    """Raised when a flow is started with arguments it does not take."""

    code = "inputs_invalid"
    says = "{flow} cannot be started so: {why}"
    advice = "its inputs are {signature}"

    def __init__(self, flow: str, why: str, signature: str) -> None:
        super().__init__(flow=flow, why=why, signature=signature)


class RecipeInvalid(Invalid):
    """Raised when a flow file has mistakes. `problems` are all of them, each with line, path, why, advice."""

    code = "recipe_invalid"
    says = "{file} cannot be run as it is:"
    advice = "mend what is named, then the same command again; see docs/flow-yaml.md"

    def __init__(self, file: str, problems: tuple[Any, ...]) -> None:
        super().__init__(file=file, problems=problems)

    @property
    def detail(self) -> str:
        return "\n  ".join([super().detail, *map(str, self.facts["problems"])])

    def __str__(self) -> str:
        return f"{self.detail}\n{self.what_next}"


class ArchiveInvalid(Invalid):
    """Raised by import when a file is no whole export of a run or a handoff; nothing was written."""

    code = "archive_invalid"
    says = "{path} cannot be imported: {member}: {why}"
    advice = "{remedy}"

    def __init__(
        self, path: str, member: str, why: str, remedy: str = "export the run again, or copy the file again"
    ) -> None:
        super().__init__(path=path, member=member, why=why, remedy=remedy)


class HandoffInvalid(Invalid):
    """Raised when a field of a handoff cannot be used: nothing was written."""

    code = "handoff_invalid"
    says = "{path}: {why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


class SettingsInvalid(Invalid):
    """Raised when a client's settings file cannot be changed without losing what is in it: nothing was written."""

    code = "settings_invalid"
    says = "{path} is not changed: {why}"
    advice = "mend the file, or add the lines of `outlast hook install --print` yourself"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class TrustInvalid(Invalid):
    """Raised when the user's own config says whom to trust in a way that cannot be read: nobody is trusted by it."""

    code = "trust_invalid"
    says = "{path} cannot be used: {why}"
    advice = "write it so: `trust: [ann, ben@https://example.org]`"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class BudgetTooSmall(Invalid):
    """Raised by recall when what must not be left out does not fit into the budget."""

    code = "budget_too_small"
    says = "{count} pinned or required items need {needed} tokens, and the budget is {budget}"
    advice = "ask again with budget={needed} (--budget {needed}), or unpin what is no longer needed"

    def __init__(self, budget: int, needed: int, count: int) -> None:
        super().__init__(budget=budget, needed=needed, count=count)


class SecretFound(Invalid):
    """Raised when a value looks like a secret: it is not stored."""

    code = "secret_found"
    says = "{path} holds what looks like {kind}"
    advice = "take it out; a handoff or record can be stored with redact=True (--redact) to have it masked"

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(path=path, kind=kind)


class SecretPatternInvalid(Invalid):
    """Raised when a rule of one's own for secrets cannot be used: nothing is opened with it."""

    code = "secret_pattern_invalid"
    says = "{path}: {why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


class HomeSettingsInvalid(Invalid):
    """Raised when the settings of a home cannot be read or name what is none: nothing is opened with them."""

    code = "home_settings_invalid"
    says = "{path}: {why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


class RequestMalformed(Invalid):
    """Raised by a server for a request that cannot be read, or that could be read in two ways."""

    code = "request_malformed"
    says = "the request cannot be read: {why}"
    advice = "{remedy}"

    def __init__(self, why: str, remedy: str = "send one JSON object in UTF-8") -> None:
        super().__init__(why=why, remedy=remedy)


class RequestInvalid(Invalid):
    """Raised by a server for a request whose fields are not those of the call; `path` names the field."""

    code = "request_invalid"
    says = "{path}: {why}"
    advice = "see /openapi.json for the fields of this call"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class BodyTooLarge(Invalid):
    """Raised by a server for a body over the limit. Nothing of it was used."""

    code = "body_too_large"
    says = "the body has more than {limit} bytes"
    advice = "send less; content belongs in artifacts"

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)


class RangeRefused(Invalid):
    """Raised by a server for a range that begins after the end of the content."""

    code = "range_refused"
    says = "the content has {size} bytes, and the range begins after them"
    advice = "ask for a range inside of it, or for all of it"

    def __init__(self, size: int) -> None:
        super().__init__(size=size)


class BodyTooSlow(Invalid):
    """Raised by a server for a body that did not arrive in time, or came more slowly than is waited for."""

    code = "body_too_slow"
    says = "of the body {least} bytes at least were to arrive within {seconds} s"
    advice = "send it again"

    def __init__(self, seconds: float, least: int = 1) -> None:
        super().__init__(seconds=seconds, least=least)


class HeadersTooSlow(Invalid):
    """Raised by a server for a request whose headers did not arrive in time."""

    code = "headers_too_slow"
    says = "the headers did not arrive within {seconds} s"
    advice = "send the request again, its headers at once"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds=seconds)


class MediaTypeRefused(Invalid):
    """Raised by a server for a body in another form than the call takes."""

    code = "media_type_refused"
    says = "{found} is not taken here"
    advice = "send {wanted}"

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(found=found, wanted=wanted)


# -- unavailable -------------------------------------------------------------------------------------


class StoreBusy(Unavailable):
    """Raised when other processes kept the store locked for longer than we wait."""

    code = "store_busy"
    says = "{path} stayed locked for {seconds} s"
    advice = "look for a process that holds it open in a transaction; nothing was lost"

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(path=path, seconds=seconds)


class DiskFull(Unavailable):
    """Raised when the disk has no room; what was acknowledged before is safe."""

    code = "disk_full"
    says = "no room left on the disk of {path}"
    advice = "free some space and run the same command again; everything acknowledged is kept"

    def __init__(self, path: str) -> None:
        super().__init__(path=path)


class StoreReadOnly(Unavailable):
    """Raised when the store cannot be written."""

    code = "store_read_only"
    says = "{path} cannot be written: {why}"
    advice = "check its owner, its permissions and the mount"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class HomeReadOnly(Unavailable):
    """Raised by whatever writes, on a home that can only be looked at."""

    code = "home_read_only"
    says = "{path} can be looked at, not written: {why}"
    advice = "check its owner, its permissions and the mount; or work on a copy: `outlast backup`, `outlast restore`"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class StoreLost(Unavailable):
    """Raised when a database is gone or empty where the home shows that there was one. Nothing is made in its place."""

    code = "store_lost"
    says = "the database {path} {how}, and it is not a new one: {evidence}"
    advice = (
        "bring it back, or `outlast restore BACKUP` into another folder; or begin anew: "
        "`outlast restore --anew --why WHY` keeps what is left aside"
    )

    def __init__(self, path: str, how: str, evidence: str) -> None:
        super().__init__(path=path, how=how, evidence=evidence)


class StoreFailed(Unavailable):
    """Raised when the disk or the database reported an error; the run stops where it is."""

    code = "store_failed"
    says = "the store {path} failed: {why}"
    advice = "run `outlast verify`, then the same command again"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class StoreNewer(Unavailable):
    """Raised when a newer version of Outlast wrote the store."""

    code = "store_newer"
    says = "{path} has schema {found}; this version knows {known}"
    advice = "upgrade outlast: pip install -U outlast"

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(path=path, found=found, known=known)


class StoreForeign(Unavailable):
    """Raised when the file is no Outlast store."""

    code = "store_foreign"
    says = "{path} is not an Outlast store: {why}"
    advice = "name another home, or restore the file from a copy"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class NetworkFilesystem(Unavailable):
    """Raised when the home lies on a network file system, whose locks cannot be trusted."""

    code = "network_filesystem"
    says = "{path} is on {filesystem}, whose locks cannot be trusted"
    advice = "put the home on a local disk (OUTLAST_HOME)"

    def __init__(self, path: str, filesystem: str) -> None:
        super().__init__(path=path, filesystem=filesystem)


class ExtraMissing(Unavailable):
    """Raised when a part is used whose optional packages are not installed."""

    code = "extra_missing"
    says = "{what} needs the extra {extra!r}"
    advice = "pip install 'outlast[{extra}]'"

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what=what, extra=extra)


class NoThread(Unavailable):
    """Raised when the system gives no thread for something. Nothing of it was done; a run was given back."""

    code = "no_thread"
    says = "{what} cannot begin: {why}"
    advice = "end something else, or raise the limit of processes (`ulimit -u`, or the container's); then try again"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what=what, why=why)


class ServerUnreachable(Unavailable):
    """Raised by a client when a server did not answer in time, also when asked again."""

    code = "server_unreachable"
    says = "{url} did not answer within {seconds:g} s ({tries} tries; {why})"
    advice = "see that it runs (`curl {url}/healthz`), then ask again; with the same operation_id nothing happens twice"

    def __init__(self, url: str, seconds: float, tries: int, why: str) -> None:
        super().__init__(url=url, seconds=seconds, tries=tries, why=why)


class ReplyInvalid(Unavailable):
    """Raised by a client for an answer that is none of an Outlast server of this version: its shape, kind or size."""

    code = "reply_invalid"
    says = "the server's answer cannot be used: {why}"
    advice = "see that it is an Outlast server of this version"

    def __init__(self, why: str) -> None:
        super().__init__(why=why)


class Internal(Unavailable):
    """Raised to a client when a server failed in a way that nobody foresaw; its log says more, by the request's id."""

    code = "internal"
    says = "the server failed (request {request})"
    advice = "try again; if it stays, look for that id in the server's log"

    def __init__(self, request: str) -> None:
        super().__init__(request=request)


class ServerFull(Unavailable):
    """Raised by a server that has as many connections as it can have, each with a request under way."""

    code = "server_full"
    says = "the server has {limit} connections, and every one is in use"
    advice = "try again in a moment"

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)


class TooManyRequests(Unavailable):
    """Raised by a server for a key that has as many requests under way as it may have."""

    code = "too_many_requests"
    says = "{limit} requests of the key {key} are under way"
    advice = "wait for one of them, then ask again"

    def __init__(self, key: str, limit: int) -> None:
        super().__init__(key=key, limit=limit)


class TooManyRuns(Unavailable):
    """Raised by a server when a key that has as many runs going on as it may have would start another."""

    code = "too_many_runs"
    says = "{limit} runs of the key {key} are going on"
    advice = "start it when one of them has ended; nothing was started"

    def __init__(self, key: str, limit: int) -> None:
        super().__init__(key=key, limit=limit)


class ServerBusy(Unavailable):
    """Raised by a server for a long look at the store while as many as it takes are waiting."""

    code = "server_busy"
    says = "{limit} long looks at the store are under way or waiting for their turn"
    advice = "ask again in a moment"

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)


class Quota(Unavailable):
    """Raised by a server when a key that has stored as much as it may would store more, or start a run."""

    code = "quota"
    says = "the key {key} has stored {used} bytes, and may store {limit}"
    advice = "remove what is not needed and let `outlast gc` run, or ask for a larger share"

    def __init__(self, key: str, used: int, limit: int) -> None:
        super().__init__(key=key, used=used, limit=limit)


# -- the user's own work -----------------------------------------------------------------------------


class StepFailed(Failed):
    """Raised in the flow, live and on replay, for a failure that cannot be rebuilt as its own type."""

    code = "step_failed"
    says = "step {step!r} failed: {type}: {message}"

    def __init__(self, step: str, type: str, message: str) -> None:
        super().__init__(step=step, type=type, message=message)


class StepTimedOut(Failed):
    """Raised in the flow when a step's last attempt ran out of time."""

    code = "step_timed_out"
    says = "step {step!r} took longer than {seconds} s"

    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(step=step, seconds=seconds)


class RunTimedOut(Failed):
    """Ends a run that is not done by the deadline of its flow."""

    code = "run_timed_out"
    says = "run {run} was not done by its deadline, {deadline} ({seconds:g} s after its start)"
    advice = "give its flow a later deadline and resume it, or give it up: `outlast abort {run} --why WHY`"

    def __init__(self, run: str, deadline: str, seconds: float) -> None:
        super().__init__(run=run, deadline=deadline, seconds=seconds)


class CommandNotStarted(Failed):
    """Raised when a command could not be started; nothing of it ran."""

    code = "command_not_started"
    says = "the command {command!r} was not started: {why}"
    advice = "nothing of it ran; mend that and run the same command again"

    def __init__(self, command: str, why: str) -> None:
        super().__init__(command=command, why=why)


class CommandFailed(Failed):
    """Raised in the flow when a command's last attempt did not exit with 0, or was not accepted."""

    code = "command_failed"
    says = "{step} exited with {exit}: {why}"
    advice = "see `outlast logs RUN {step}`; mend the cause, then resume"

    def __init__(self, step: str, exit: int, why: str) -> None:
        super().__init__(step=step, exit=exit, why=why)


class SaidWrong(Failed):
    """Raised when a command succeeded and wrote a result or an envelope that cannot be understood."""

    code = "said_wrong"
    says = "what {step} wrote to {file} cannot be taken: {why}"
    advice = "let the command write JSON there, or nothing"

    def __init__(self, step: str, file: str, why: str) -> None:
        super().__init__(step=step, file=file, why=why)


class ItemsUnreadable(Failed):
    """Raised when the file whose lines a `foreach` goes through cannot be read, or a line cannot be an item."""

    code = "items_unreadable"
    says = "{step} cannot take its items from {file}: {why}"
    advice = "mend the file, then resume: items that are done stay done"

    def __init__(self, step: str, file: str, why: str) -> None:
        super().__init__(step=step, file=file, why=why)


class LimitReached(Failed):
    """Raised when a repeat has used up its iterations and its condition still does not hold."""

    code = "limit_reached"
    says = "{step} is not satisfied after {iterations} iterations (until: {until})"
    advice = "mend what it waits for and resume: the condition is asked again; or raise `max`"

    def __init__(self, step: str, iterations: int, until: str) -> None:
        super().__init__(step=step, iterations=iterations, until=until)


class DeadlinePassed(Failed):
    """Raised by pause_for and wait_for when nobody answered in time and there is no default."""

    code = "deadline_passed"
    says = "nobody answered {wait} of run {run} in time"
    advice = "resume the run to ask again, catch it in the flow, or give the wait a default"

    def __init__(self, run: str, wait: str) -> None:
        super().__init__(run=run, wait=wait)


class WaitCancelled(Failed):
    """Raised by pause_for and wait_for when the wait was cancelled."""

    code = "wait_cancelled"
    says = "{wait} of run {run} was cancelled by {by}: {why}"
    advice = "resume the run to ask again, or catch it in the flow"

    def __init__(self, run: str, wait: str, by: str, why: str) -> None:
        super().__init__(run=run, wait=wait, by=by, why=why)


class RunFailed(Failed):
    """Raised by unwrap() for a run that failed."""

    code = "run_failed"
    says = "run {run} failed: {type}: {message}"
    advice = "run the same command again to go on at the failure"

    def __init__(self, run: str, type: str, message: str) -> None:
        super().__init__(run=run, type=type, message=message)


class RunWaiting(Failed):
    """Raised by unwrap() for a run that waits."""

    code = "run_waiting"
    says = "run {run} waits: {waits}"
    advice = "see `outlast show {run}`"

    def __init__(self, run: str, waits: str) -> None:
        super().__init__(run=run, waits=waits)


class RunAborted(Failed):
    """Raised by unwrap() for a run that somebody gave up."""

    code = "run_aborted"
    says = "run {run} was aborted: {why}"

    def __init__(self, run: str, why: str) -> None:
        super().__init__(run=run, why=why)


class RunInterrupted(Failed):
    """Raised by unwrap() for a run that was asked to stop."""

    code = "run_interrupted"
    says = "run {run} was interrupted"
    advice = "run the same command again to continue"

    def __init__(self, run: str) -> None:
        super().__init__(run=run)


class NotDone(Exception):
    """Raise it in an effect to say that nothing happened: the attempt may be repeated."""


# -- signals that end a flow's body ------------------------------------------------------------------


class Paused(BaseException):
    """Ends a plain flow's body at a wait. Raised again at the next call if something caught it."""


class Stopped(BaseException):
    """Ends a flow's body because the run was asked to stop."""


class Severed(BaseException):
    """Ends a flow's body because the store took the run away: lease lost, aborted, or the disk failed."""
