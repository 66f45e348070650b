"""Tasks and sessions of a server: the surfaces of `outlast.tasks`, its files looked at here, and `outlast.sessions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from outlast.errors import EmbeddedOnly, HandoffInvalid, ReplyInvalid, ValueRefused
from outlast.handoffs.contract import contract_of
from outlast.handoffs.handoff import HandoffClaim
from outlast.handoffs.task_state import STATES
from outlast.home.place import check_name
from outlast.operations.table import OPERATIONS
from outlast.python.sessions import Sessions
from outlast.python.tasks import Tasks, TaskSession
from outlast.remote.calls import (
    Given,
    answer_of,
    ask,
    checked_json,
    from_operations,
    handoff_of,
    like,
    reading,
    recovered_of,
    value_of,
)
from outlast.remote.handoffs import agreed, contract_json
from outlast.remote.observe import ObservedCall, ObserveQuery, When
from outlast.sessions.session import Message, number, read_memo, read_message, read_messages, read_meta
from outlast.tasks.bridge import OURS, STORING, Of
from outlast.tasks.task import TaskCompleted, TaskContext, TaskEvent, TaskPaused, TaskResumed
from outlast.values.codec import decode
from outlast.workspace.checkpoint import Checkpoint
from outlast.workspace.record import Record

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.remote.line import Line
    from outlast.runs.live import Executor


class _With(msgspec.Struct):
    handoff: msgspec.Raw = msgspec.Raw(b"null")
    recovered: msgspec.Raw = msgspec.Raw(b"null")
    claim: HandoffClaim | None = None
    task: str = ""
    command: str = ""
    stopping: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RemoteTaskSession(TaskSession):
    """One worker at one task of a server. Its claim is shown with each call."""

    _executor: Executor

    def __init__(self, line: Line, executor: Executor, of: Of) -> None:
        self._line, self._executor, self._of, self._run_claim = line, executor, of, ""

    def _whose(self) -> Given:
        of = self._of
        return {"task_id": of.task, "scope": of.scope, "actor": of.actor, "claim_id": self.claim_id}

    def _looking(self, when: When, *, checks: bool = False, agree: str | None = None) -> ObservedCall:
        wanted = ObserveQuery(self._of.asked, checks, agree)
        return ObservedCall(self._line, self._executor, when, self.actor, wanted, claims=self.claim_id or "")

    def _hold(self, claim_id: str) -> None:
        self._line.take(claim_id)

    @like(TaskSession.inspect_task_context)
    def inspect_task_context(self, given: Given) -> TaskContext:
        number("history", given["history"])
        body = given | self._whose() | {"repo_root": self._of.repo_root}
        looking = self._looking("recover")
        found = _context(looking.about_handoffs(OPERATIONS["task_inspect_seen"], body).raw)
        return found if found.handoff is None else replace(found, handoff=looking.seen(found.handoff))

    @like(TaskSession.pause_task)
    def pause_task(self, given: Given) -> TaskPaused:
        for name in OURS:
            if name in given:
                why = "a task is paused under its own name, by who opened it"
                raise HandoffInvalid(name, why, "leave it out, or say it when the task is opened")
        if given.get("expected_revision") is not None:
            number("expected_revision", given["expected_revision"])
        options = {name: given.pop(name) for name in (*STORING, "stop_run", "operation_id") if name in given}
        bind = options.pop("bind", True)
        contract = contract_of(**{"anchor": self._of.anchor, "repo_root": self._of.repo_root, **given})
        said = contract_json(contract)
        del said["anchor"]
        looking = self._looking("store")
        raw = looking.storing(OPERATIONS["task_pause"], said | options | self._whose(), contract, bind=bind).raw
        got = value_of(raw, _With)
        handoff = handoff_of(got.handoff)
        ObserveQuery(self._of.asked).refuse_other(handoff)
        self._claimed(None)
        return TaskPaused(got.task, handoff, got.stopping, got.notes)

    @like(TaskSession.resume_task)
    def resume_task(self, given: Given) -> TaskResumed:
        accept = given["accept"]
        given["accept"] = (accept,) if isinstance(accept, str) else tuple(accept)
        agree = agreed(given, runs=bool(given["run_checks"]))
        body = given | self._whose() | {"repo_root": self._of.repo_root}
        looking = self._looking("recover", checks=bool(given["run_checks"]), agree=agree)
        got = value_of(looking.about_handoffs(OPERATIONS["task_resume"], body).raw, _With)
        recovered = looking.seen(recovered_of(got.recovered))
        if got.claim is None:
            raise ReplyInvalid("a task that is resumed without a claim")
        self._claimed(got.claim)
        return TaskResumed(got.task, recovered, got.claim, got.command)

    @like(TaskSession.complete_task)
    def complete_task(self, given: Given) -> TaskCompleted:
        for name in ("acknowledged", "missing"):
            given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
        given["evidence"] = tuple(given["evidence"])
        agree = agreed(given, runs=bool(given["run_checks"]))
        body = given | self._whose() | {"repo_root": self._of.repo_root}
        looking = self._looking("settle", checks=bool(given["run_checks"]), agree=agree)
        done = value_of(looking.settling(OPERATIONS["task_complete"], body), TaskCompleted)
        self._claimed(None)
        return done

    @like(TaskSession.record_event)
    def record_event(self, given: Given) -> TaskEvent:
        check_name("name", given["name"])
        checked_json(given, "body")
        of = self._of
        said = given | {"task_id": of.task, "scope": of.scope, "actor": of.actor}
        found: TaskEvent = answer_of(self._line, OPERATIONS["task_record"], said)
        return found

    @like(TaskSession.events)
    def events(self, given: Given) -> list[TaskEvent]:
        asked = {name: number(name, given[name]) for name in ("after", "limit")}
        of = {"task_id": self._of.task, "scope": self._of.scope}
        found: list[TaskEvent] = answer_of(self._line, OPERATIONS["task_events"], of | asked)
        return found


@reading()
def _context(raw: bytes) -> TaskContext:
    said = decode(raw)
    found = msgspec.convert(said | {"handoff": None}, TaskContext)
    handoff = None if said["handoff"] is None else recovered_of(msgspec.json.decode(raw, type=_With).handoff)
    checkpoints = msgspec.convert(said["checkpoints"], tuple[Checkpoint, ...])
    records = msgspec.convert(said["records"], tuple[Record, ...])
    return replace(found, handoff=handoff, checkpoints=checkpoints, records=records)


@from_operations("tasks", Tasks)
class RemoteTasks(Tasks):
    """Tasks of a server: open one, and pause, resume and complete it in its session."""

    _executor: Executor

    def __init__(self, line: Line, executor: Executor) -> None:
        self._line, self._executor = line, executor

    @like(Tasks.open)
    def open(self, given: Given) -> TaskSession:
        names = ("task_id", "tenant_id", "scope", "actor", "repo_root", "claim_id")
        of = self._of(**{name: given[name] for name in names})
        if given["meta"] is not None:
            read_meta(given["meta"])
        if given["session"] != "":
            check_name("session", given["session"])
        ask(self._line, OPERATIONS["task_open"], given)
        return RemoteTaskSession(self._line, self._executor, of)

    @like(Tasks.session)
    def session(self, given: Given) -> TaskSession:
        of = self._of(**given)
        self.get(of.task, scope=of.scope)
        return RemoteTaskSession(self._line, self._executor, of)

    def _check_get(self, given: Given) -> None:
        self._of(given["task_id"], None, given["scope"])

    def _check_list(self, given: Given) -> None:
        if given["state"] is not None and given["state"] not in STATES:
            raise ValueRefused("state", f"{given['state']!r:.100} is none", f"use one of {', '.join(STATES)}")
        number("limit", given["limit"])


# -- sessions ----------------------------------------------------------------------------------------


@from_operations("sessions", Sessions)
class RemoteSessions(Sessions):
    """Conversations of a server."""

    def __init__(self, line: Line, caller: Caller) -> None:
        self._line, self._caller = line, caller

    def _check_open(self, given: Given) -> None:
        if given["session_id"] is not None:
            self._check_get(given)
        if given["meta"] is not None:
            read_meta(given["meta"])

    def _check_append(self, given: Given) -> None:
        read_message(given["role"], given["content"], given["meta"], given["run_id"])
        self._check_get(given)

    @like(Sessions.append_many)
    def append_many(self, given: Given) -> list[Message]:
        self._check_get(given)
        if not read_messages(given["messages"]):
            return []
        found: list[Message] = answer_of(self._line, OPERATIONS["session_append_many"], given)
        return found

    def _check_set_memo(self, given: Given) -> None:
        self._check_get(given)
        read_memo(given["text"])
        for name in ("upto", "expected"):
            if given[name] is not None:
                number(name, given[name])

    # -- looking ---------------------------------------------------------------------------------

    def _check_get(self, given: Given) -> None:
        self._asked(given["session_id"], given["scope"], given.get("actor"))

    def _check_messages(self, given: Given) -> None:
        self._check_get(given)
        number("after", given["after"])
        if not number("limit", given["limit"]):
            self.get(given["session_id"], scope=given["scope"])

    @like(Sessions.last)
    def last(self, given: Given) -> list[Message]:
        self._check_get(given)
        wanted = number("n", given["n"])
        session = self.get(given["session_id"], scope=given["scope"])
        return self.messages(session.id, after=max(session.messages - wanted, 0), limit=wanted, scope=given["scope"])

    _check_memo = _check_get

    def _check_window(self, given: Given) -> None:
        if given.pop("tokens_of") is not None:
            raise EmbeddedOnly("window with tokens_of", "leave it out: the server counts by itself")
        self._check_get(given)
        number("tokens", given["tokens"])

    def _check_list(self, given: Given) -> None:
        number("limit", given["limit"])
