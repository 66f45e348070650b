"""The host bridge in Python: `outlast.tasks`, blocking, and its twin on an event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.errors import NameInvalid, ValueRefused
from outlast.handoffs.handoff import TASK as PREFIX
from outlast.handoffs.settle import Settling
from outlast.handoffs.task_state import STATES, State
from outlast.home.place import check_name
from outlast.python.awaited import OnLoop, awaited
from outlast.sessions.session import number, read_meta
from outlast.tasks import bridge as tasks
from outlast.tasks.bridge import Of, complete
from outlast.tasks.inspect import inspect
from outlast.tasks.task import Task, TaskCompleted, TaskContext, TaskEvent, TaskPaused, TaskResumed

if TYPE_CHECKING:
    from outlast.handoffs.handoff import HandoffClaim
    from outlast.runs.live import Executor

LONGEST = 500 - len(PREFIX)


class TaskSession:
    """One worker at one task. What it claimed by resuming is its own; another session is another worker."""

    def __init__(self, executor: Executor, of: Of) -> None:
        self._outlast, self._of, self._run_claim = executor.caller, of, ""
        caller = executor.caller
        shown = caller.tokens if caller.claimer is not None else ()  # at a terminal all that is shown there counts
        self._executor = executor.acting_as(caller.with_tokens({*shown, *filter(None, [of.claim_id])}))
        if of.claim_id is not None and tasks.claims_run(executor.home, of):
            self._of, self._run_claim = replace(of, claim_id=None), of.claim_id

    @property
    def task_id(self) -> str:
        return self._of.task

    @property
    def scope(self) -> str:
        return self._of.scope

    @property
    def actor(self) -> str:
        return self._of.actor

    @property
    def claim_id(self) -> str | None:
        """The claim that this session holds: show it to go on in another process."""
        return self._of.claim_id or self._run_claim or None

    def __repr__(self) -> str:
        return f"<TaskSession {self.task_id!r} of {self.actor}>"

    def inspect_task_context(self, *, history: int = 20) -> TaskContext:
        """How the task stands here and now: its handoff with a verdict, runs, waits, and what may be done with it."""
        return inspect(self._executor, self._of, number("history", history))

    def pause_task(
        self,
        /,
        summary: str,
        handoff_text: str,
        *,
        stop_run: bool = False,
        operation_id: str | None = None,
        **fields: Any,
    ) -> TaskPaused:
        """Store what whoever resumes the task needs (all fields of a handoff), and give the claim back.

        `stop_run` also asks a running run of the task to stop at its next step; else the result only notes it.
        Raises HandoffClaimed, ClaimLost, TaskRefused, HandoffInvalid, SecretFound, RevisionConflict.
        """
        given = {"summary": summary, "handoff_text": handoff_text, **fields}
        if fields.get("expected_revision") is not None:
            number("expected_revision", fields["expected_revision"])
        paused = tasks.pause(self._executor, self._of, given, stop_run=stop_run, operation_id=operation_id)
        self._claimed(None)
        return paused

    def resume_task(
        self,
        run_checks: bool = False,
        accept: Sequence[str] = (),
        why: str = "",
        take: bool = False,
        *,
        agree: str | None = None,
        operation_id: str | None = None,
    ) -> TaskResumed:
        """Claim the task and recover what was handed over, with its verdict. Of many workers one gets it.

        `agree` is the digest of commands of somebody else that may run.
        Raises HandoffClaimed (it says who has it), HandoffContested, ClaimLost, TaskRefused, HandoffInvalid,
        ForeignCommands.
        """
        words = (accept,) if isinstance(accept, str) else tuple(accept)
        got = tasks.resume(
            self._executor,
            self._of,
            run_checks=run_checks,
            agree=agree,
            accept=words,
            why=why,
            take=take,
            operation_id=operation_id,
        )
        self._claimed(got.claim)
        return got

    def complete_task(
        self,
        evidence: Sequence[Mapping[str, Any]] = (),
        acknowledged: Sequence[str] = (),
        *,
        missing: Sequence[str] = (),
        override: str = "",
        note: str = "",
        run_checks: bool = True,
        agree: str | None = None,
        operation_id: str | None = None,
    ) -> TaskCompleted:
        """Settle the task as completed: its checks are run, and must pass; its runs must be over.

        `agree` is the digest of commands of somebody else that may run.
        Raises NotSettled (unless `override` says why it counts all the same), HandoffClaimed, ClaimLost, TaskRefused,
        ForeignCommands.
        """
        how = Settling(
            outcome="completed",
            actor=self.actor,
            evidence=tuple(evidence),
            acknowledged=(acknowledged,) if isinstance(acknowledged, str) else tuple(acknowledged),
            missing=(missing,) if isinstance(missing, str) else tuple(missing),
            override=override,
            note=note,
            run_checks=run_checks,
            agree=agree,
            claim_id=self._of.claim_id,
            operation_id=operation_id,
            task=True,
        )
        done = complete(self._executor, self._of, how)
        self._claimed(None)
        return done

    def record_event(self, name: str, body: Any = None, *, operation_id: str | None = None) -> TaskEvent:
        """Append an event to the task: durable, in order, never edited. Secrets in it are masked, and counted."""
        return tasks.record(self._executor.home, self._of, check_name("name", name), body, operation_id)

    def events(self, *, after: int = 0, limit: int = 1000) -> list[TaskEvent]:
        """What happened to the task, in order, from the event after `after` on."""
        return tasks.events(self._executor.home, self._of, number("after", after), number("limit", limit))

    def _claimed(self, claim: HandoffClaim | None) -> None:
        """What is claimed from now on. A claim on a run is no claim on a handoff: the run itself knows it."""
        of_run = claim is not None and claim.run_id != ""
        self._run_claim = claim.id if claim is not None and of_run else ""
        self._of = replace(self._of, claim_id=claim.id if claim is not None and not of_run else None)
        if claim is not None:
            self._hold(claim.id)

    def _hold(self, claim_id: str) -> None:
        self._outlast.tokens.add(claim_id)  # `outlast.resume` continues the run that was claimed


class Tasks:
    """Tasks of a host: open one, and pause, resume and complete it in its session."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def open(
        self,
        task_id: str,
        *,
        session: str = "",
        meta: Mapping[str, Any] | None = None,
        reopen: bool = False,
        repo_root: str | None = None,
        claim_id: str | None = None,
        operation_id: str | None = None,
        tenant_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> TaskSession:
        """A session at a task, which is opened if it was not, durable when this returns.

        A completed task stays so unless `reopen` is said. `claim_id` shows a claim that was made elsewhere,
        `repo_root` says where the files are. Raises TaskExists when it was opened with other meta, NameInvalid.
        """
        of = self._of(task_id, tenant_id, scope, actor, repo_root, claim_id)
        raw = None if meta is None else read_meta(meta)
        named = check_name("session", session) if session != "" else ""
        tasks.open_(self._executor.home, of, session=named, meta=raw, reopen=reopen, operation_id=operation_id)
        return TaskSession(self._executor, of)

    def open_task_session(self, task_id: str, **how: Any) -> TaskSession:
        """The same as `open`."""
        return self.open(task_id, **how)

    def session(
        self,
        task_id: str,
        *,
        repo_root: str | None = None,
        claim_id: str | None = None,
        tenant_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> TaskSession:
        """A session at a task that is known already; nothing is written. Raises TaskNotFound."""
        of = self._of(task_id, tenant_id, scope, actor, repo_root, claim_id)
        tasks.get(self._executor.home, of)
        return TaskSession(self._executor, of)

    def get(self, task_id: str, *, scope: str | None = None) -> Task:
        """A task and its state. Raises TaskNotFound."""
        return tasks.get(self._executor.home, self._of(task_id, None, scope))

    def list(
        self, state: State | None = None, *, limit: int = 50, before: str | None = None, scope: str | None = None
    ) -> Sequence[Task]:
        """Tasks that nobody opened and whose run is unfinished, then those that somebody opened; after `before`.

        Those come first whose run began last, or that something happened to last.
        """
        if state is not None and state not in STATES:
            raise ValueRefused("state", f"{state!r:.100} is none", f"use one of {', '.join(STATES)}")
        named = self._executor.caller.scope_named(scope)
        return tasks.listed(self._executor, named, state, number("limit", limit), before)

    # -- narrowing what was given ----------------------------------------------------------------

    def _of(
        self,
        task_id: str,
        tenant_id: str | None,
        scope: str | None,
        actor: str | None = None,
        repo_root: str | None = None,
        claim_id: str | None = None,
    ) -> Of:
        caller = self._executor.caller
        where = caller.scope_named(scope, tenant_id)
        if isinstance(task_id, str) and len(task_id) > LONGEST:
            raise NameInvalid("task", task_id, f"it has {len(task_id)} characters; the limit is {LONGEST}")
        task = check_name("task", task_id)
        return Of(where, task, caller.actor_named(actor), repo_root, claim_id)


# -- on an event loop --------------------------------------------------------------------------------


class AsyncTaskSession(OnLoop[TaskSession]):
    """The same on an event loop: what asks the store is awaited."""

    @property
    def task_id(self) -> str:
        return self.blocking.task_id

    @property
    def claim_id(self) -> str | None:
        return self.blocking.claim_id

    inspect_task_context = awaited(TaskSession.inspect_task_context)
    pause_task = awaited(TaskSession.pause_task)
    resume_task = awaited(TaskSession.resume_task)
    complete_task = awaited(TaskSession.complete_task)
    record_event = awaited(TaskSession.record_event)
    events = awaited(TaskSession.events)


class AsyncTasks(OnLoop[Tasks]):
    """The same on an event loop: everything is awaited."""

    async def open(self, task_id: str, **how: Any) -> AsyncTaskSession:
        """A session at a task, opened as `Tasks.open` does."""
        return AsyncTaskSession(await _open(self, task_id, **how))

    async def open_task_session(self, task_id: str, **how: Any) -> AsyncTaskSession:
        """The same as `open`."""
        return await self.open(task_id, **how)

    async def session(self, task_id: str, **how: Any) -> AsyncTaskSession:
        """A session at a task that is known already. Raises TaskNotFound."""
        return AsyncTaskSession(await _session(self, task_id, **how))

    get = awaited(Tasks.get)
    list = awaited(Tasks.list)


_open, _session = awaited(Tasks.open), awaited(Tasks.session)
