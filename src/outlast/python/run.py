"""`Run` and `AsyncRun`: a run as its own body sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

from outlast import errors
from outlast.clock import moment
from outlast.errors import Refused
from outlast.flows.spec import seconds, spec_of
from outlast.ids import chance
from outlast.python import rooms
from outlast.python.decorators import Flow, Step, as_step
from outlast.runs.waits.interrupt import NO_DEFAULT
from outlast.values.ambient import CURRENT
from outlast.values.codec import decode
from outlast.values.late import late

if TYPE_CHECKING:
    from uuid import UUID

    from outlast.files.changes import LeftFiles
    from outlast.handoffs.handoff import Handoff
    from outlast.python.workspace import RunWorkspace
    from outlast.runs import child
    from outlast.runs import map as waiting
    from outlast.runs.attempt import Frame, StepCall
    from outlast.runs.child import Child
    from outlast.runs.execution import Execution
    from outlast.runs.map import Failed, Ok
    from outlast.runs.waits.ask import Deadline
    from outlast.store.contract import RunRow
    from outlast.workspace.checkpoint import Checkpoint
else:
    child = late("outlast.runs.child")
    waiting = late("outlast.runs.map")

NAME_LENGTH = 200
P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
Key = Callable[[I], str | int] | None
Later = Coroutine[Any, Any, T]
Probe = Callable[..., Any] | None
Each = Callable[[I], T]  # of a map
Stop = Literal["stop"]
Collect = Literal["collect"]
OnError = Literal["stop", "collect"]
Answer = type[T]  # what an answer comes back as


if TYPE_CHECKING:  # no one asks for them while a program runs

    class MapOptions(TypedDict, Generic[I], total=False):
        """What `run.map` takes besides."""

        key: Key[I]
        concurrency: int

    class PauseOptions(TypedDict, total=False):
        """What `run.pause_for` takes besides."""

        deadline: Deadline
        default: Any
        assignee: str


class _Run:
    """What plain and async runs share. None of it waits for user code."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @property
    def id(self) -> str:
        """The run's id."""
        return self._execution.id

    @property
    def task(self) -> str:
        """The task that this run is of, named by who started it or made of the flow and its inputs."""
        return self._row.task

    @property
    def trace_id(self) -> str:
        """What the caller traces the run by; empty when nothing was given."""
        return self._row.trace_id

    @property
    def session_id(self) -> str:
        """The session that it was started for; empty when there is none."""
        return self._row.session

    @property
    def meta(self) -> dict[str, Any]:
        """What was given with it as `meta`: a copy."""
        return dict(decode(self._row.meta))

    @property
    def tags(self) -> tuple[str, ...]:
        """What it was tagged with at its start."""
        home, key = self._execution.executor.home, self._row.key
        return tuple(home.store.read(lambda look: look.tags_of(key)))

    @property
    def tenant(self) -> str:
        """The tenant whose home it runs in."""
        return self._execution.executor.home.tenant

    @property
    def scope(self) -> str:
        """The scope that it was started in."""
        return self._row.scope

    @property
    def actor(self) -> str:
        """Who started it, however often it was resumed by others."""
        return self._row.actor

    @cached_property
    def _row(self) -> RunRow:
        return rooms.home.run_row(self._execution.executor.home, self._execution.id)

    @property
    def state(self) -> MutableMapping[str, Any]:
        """Small values by name, 64 KiB in all. Reads are copies; rebuilt by replay."""
        return self._execution.state

    @property
    def phase(self) -> str:
        """The business phase in one word."""
        return self._execution.phase

    @phase.setter
    def phase(self, word: str) -> None:
        if not isinstance(word, str) or len(word) > 100 or not word.isprintable():
            raise errors.NameInvalid("phase", str(word), "one printable word of at most 100 characters")
        frame = self._frame()
        if frame.attempt is not None:
            raise Refused(detail="the phase is set by the flow's body, not by a step")
        self._execution.phase = word
        self._execution.phase_changed = True
        self._execution.emit(frame, "phase", word, "fact")

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to stop: a long step may look and end early."""
        return self._execution.stopping

    @property
    def attempt(self) -> int:
        """Inside a step: which attempt this is. In the body: 0."""
        attempt = self._frame().attempt
        return attempt.number if attempt else 0

    @property
    def previous(self) -> LeftFiles | None:
        """Inside a step that declares `writes`: what its attempt before left unfinished, if there was one."""
        attempt = self._frame().attempt
        return attempt.previous if attempt else None

    def now(self) -> datetime:
        """The time, the same on replay."""
        execution = self._execution
        return moment(execution.value(self._frame(), "run.now", execution.clock.now))

    def random(self) -> float:
        """A number from 0 to 1, the same on replay."""
        return float(self._execution.value(self._frame(), "run.random", chance))

    def uuid(self) -> UUID:
        """A random UUID, the same on replay."""
        import uuid  # late: few flows ask for one

        return uuid.UUID(self._execution.value(self._frame(), "run.uuid", lambda: str(uuid.uuid4())))

    def emit(self, name: str, body: Any = None, *, kind: str = "progress") -> None:
        """Append an event to the run's journal: `progress` for people who watch, `fact` for the record."""
        if kind not in ("progress", "fact") or not isinstance(name, str) or not name:
            raise errors.NameInvalid("event", f"{kind} {name}", "kind is progress or fact, and it needs a name")
        if len(name) > NAME_LENGTH or not name.isprintable():
            why = f"its name is printable, of at most {NAME_LENGTH} characters"
            raise errors.NameInvalid("event", name[:NAME_LENGTH], why)
        self._execution.emit(self._frame(), name, body, kind)

    def envelope(self, *, done: str = "", next: str = "", artifacts: Iterable[str] = ()) -> None:
        """Inside a step: say what was done, what comes next and what there is, for whoever reads its receipt.

        `artifacts` are refs, files or other names; what the step saves is named by itself.
        """
        attempt = self._frame().attempt
        if attempt is None:
            raise Refused(detail="an envelope belongs to a step; call this inside one")
        named = [artifacts] if isinstance(artifacts, str) else [*artifacts]
        if wrong := [each for each in named if not isinstance(each, str)]:
            raise errors.ValueRefused("artifacts", f"{wrong[0]!r:.100} is no text", "name each by its ref or its path")
        attempt.done, attempt.next = done, next
        attempt.artifacts = tuple(dict.fromkeys((*named, *attempt.artifacts)))

    def handoff(self, summary: str, handoff_text: str, *, anchor: str | None = None, **fields: Any) -> Handoff:
        """Store a handoff of this run's task (`task:<task>` unless another anchor is named).

        It takes what `outlast.handoff.store` takes. In the body it is stored once: on replay it gives that revision.
        """
        return rooms.store.store_from_run(self._execution, self._frame(), summary, handoff_text, anchor, fields)

    @property
    def workspace(self) -> RunWorkspace:
        """Artifacts: save content and get it by its ref. It blocks, in an async flow too: save much in a plain step."""
        return rooms.workspace.RunWorkspace(self._execution, self._frame)

    def checkpoint(self, name: str, summary: str = "", refs: Iterable[str] = ()) -> Checkpoint:
        """Pin this boundary of the body: its state, these refs, its place in the journal; once, also on replay.

        Raises ArtifactNotFound when a ref names nothing.
        """
        from outlast.runs.outputs.workspace import pin_from_run

        return pin_from_run(self._execution, self._frame(), name, summary, refs)

    def resource(self, key: str) -> Any:
        """A live object that this process provided. Raises ResourceMissing."""
        return self._execution.resource(key)

    @contextmanager
    def branch(self, name: str) -> Iterator[None]:
        """A scope: calls inside are told apart from equal calls elsewhere."""
        if not name or not name.isprintable() or set(name) & set("/~[]"):
            raise errors.NameInvalid("branch", name, "it must be printable, without / ~ [ ]")
        token = CURRENT.set(self._frame().within(name))
        try:
            yield
        finally:
            CURRENT.reset(token)

    def bind(self, function: Callable[P, T]) -> Callable[P, T]:
        """A function that may run in another thread and still belongs to this place in the run."""
        lane = self._frame().lane()

        def bound(*args: P.args, **kwargs: P.kwargs) -> T:
            token = CURRENT.set(lane)
            try:
                return function(*args, **kwargs)
            finally:
                CURRENT.reset(token)

        return bound

    def spawn(self, flow: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Child[T]:
        """Start a child run. `child.result()` waits for it (in an async flow: `await child`)."""
        return child.spawn(self._frame(), spec_of(flow), args, kwargs)

    def _frame(self) -> Frame:
        frame: Frame | None = CURRENT.get()
        if frame is None or frame.execution is not self._execution:
            raise errors.StepOutsideRun("run", threading.current_thread().name)
        return frame

    def _asked(
        self, function: Any, items: Iterable[Any], key: Key[Any], concurrency: int, on_error: OnError
    ) -> list[StepCall]:
        """Every call of a map, identified in the order of the items before any of them runs. Raises NameInvalid."""
        if not isinstance(concurrency, int) or concurrency < 1:
            raise errors.NameInvalid("concurrency", str(concurrency), "it must be 1 or more")
        if on_error not in ("stop", "collect"):
            raise errors.NameInvalid("on_error", str(on_error), "it is stop or collect")
        kind = function.spec.kind if isinstance(function, Step) else "step"
        execution, spec = self._execution, as_step(function, kind, {})
        frame = self._frame()
        if frame.attempt is not None:
            raise Refused(detail="run.map belongs to the flow's body, not to a step")
        number = execution.numbered(frame, f"map {spec.name}", "").occurrence
        inner = frame.within(f"{spec.name}[{number}]")
        return waiting.ask_all(execution, inner, spec, items, key)


class Run(_Run):
    """A run as a plain flow sees it: everything blocks until it is durable."""

    @overload
    def step(self, function: Callable[..., Later[T]], /, *args: Any, id: str | None, **more: Any) -> T: ...
    @overload
    def step(self, function: Callable[..., T], /, *args: Any, id: str | None, **more: Any) -> T: ...
    @overload
    def step(self, function: Callable[P, Later[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def step(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def step(  # type: ignore[misc]  # no input of a step is called `id`
        self, function: Callable[..., Any], /, *args: Any, id: str | None = None, **kwargs: Any
    ) -> Any:
        """Call any function as a step. `id` names the call, whatever its inputs."""
        return self._call(as_step(function, "step", {}), args, kwargs, id)

    @overload
    def effect(self, function: Callable[..., Later[T]], /, *args: Any, id: str | None, **more: Any) -> T: ...
    @overload
    def effect(self, function: Callable[..., T], /, *args: Any, id: str | None, **more: Any) -> T: ...
    @overload
    def effect(self, function: Callable[..., Later[T]], /, *args: Any, confirm: Probe, **more: Any) -> T: ...
    @overload
    def effect(self, function: Callable[..., T], /, *args: Any, confirm: Probe, **more: Any) -> T: ...
    @overload
    def effect(self, function: Callable[P, Later[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def effect(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def effect(  # type: ignore[misc]  # no input of an effect is called `id` or `confirm`
        self, function: Callable[..., Any], /, *args: Any, id: str | None = None, confirm: Probe = None, **kwargs: Any
    ) -> Any:
        """Call any function as an effect."""
        options = {"confirm": confirm} if confirm else {}
        return self._call(as_step(function, "effect", options), args, kwargs, id)

    def _call(self, spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call_id: str | None) -> Any:
        frame = self._frame()
        if frame.attempt is not None:
            return Step(spec)(*args, **kwargs)
        return rooms.call_plain.call_plain(frame, spec, args, kwargs, call_id)

    @overload
    def map(
        self, function: Each[I, Later[T]], items: Iterable[I], *, on_error: Collect, **how: Unpack[MapOptions[I]]
    ) -> list[Ok[T] | Failed]: ...
    @overload
    def map(
        self, function: Each[I, Later[T]], items: Iterable[I], *, on_error: Stop = "stop", **how: Unpack[MapOptions[I]]
    ) -> list[T]: ...
    @overload
    def map(
        self, function: Each[I, T], items: Iterable[I], *, on_error: Collect, **how: Unpack[MapOptions[I]]
    ) -> list[Ok[T] | Failed]: ...
    @overload
    def map(
        self, function: Each[I, T], items: Iterable[I], *, on_error: Stop = "stop", **how: Unpack[MapOptions[I]]
    ) -> list[T]: ...
    def map(
        self,
        function: Callable[[I], Any],
        items: Iterable[I],
        *,
        key: Key[I] = None,
        concurrency: int = 8,
        on_error: OnError = "stop",
    ) -> list[Any]:
        """Call a step for every item, `concurrency` at a time in threads; results in the order of the items.

        `key` gives the text (or number) by which an item is known and shown, whatever else of it changes.
        `on_error="stop"`: after a failure no further call begins, and the first one (by item) is raised once the calls
        under way have ended. `on_error="collect"`: all items are tried, and the results are `Ok` or `Failed`.
        Raises MapKeyTaken for two items of one key.
        """
        asked, drive = self._asked(function, items, key, concurrency, on_error), rooms.call_plain.drive_plain
        return waiting.map_plain(self._execution, asked, concurrency, drive, collect=on_error == "collect")

    @overload
    def pause_for(
        self, type: str, payload: Mapping[str, Any] | None = None, *, schema: Answer[T], **how: Unpack[PauseOptions]
    ) -> T: ...
    @overload
    def pause_for(
        self, type: str, payload: Mapping[str, Any] | None = None, *, schema: Any = None, **how: Unpack[PauseOptions]
    ) -> Any: ...
    def pause_for(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        schema: Any = None,
        deadline: Deadline = None,
        default: Any = NO_DEFAULT,
        assignee: str = "",
    ) -> Any:
        """Ask a person, and end this process's part until there is an answer: then it is given, on every replay.

        `approval` takes `{"approved": bool, "comment": str}`; other words (decision, input, clarification, …) take what
        `schema` says: a JSON schema, or a type that the answer comes back as. Past the `deadline` the `default` counts.
        Raises DeadlinePassed without one, WaitCancelled.
        """
        asked = rooms.ask.question(type, payload, schema, deadline, default, assignee)
        return rooms.ask.ask_plain(self._frame(), asked)

    def wait_for(self, signal: str, *, deadline: Deadline = None, default: Any = NO_DEFAULT) -> Any:
        """The body of the next signal of that name to this run or its task; one that came before counts.

        Raises DeadlinePassed, WaitCancelled.
        """
        return rooms.ask.ask_plain(self._frame(), rooms.ask.signal(signal, deadline, default))

    def sleep(self, duration: float | str) -> None:
        """Wait, also over restarts. Short sleeps wait in place; long ones end this process's part."""
        waiting.sleep_plain(self._frame(), seconds(duration, "run.sleep"))


class AsyncRun(_Run):
    """A run as an async flow sees it: what may take time is awaited."""

    @overload
    def step(self, function: Callable[..., Later[T]], /, *args: Any, id: str | None, **more: Any) -> Later[T]: ...
    @overload
    def step(self, function: Callable[..., T], /, *args: Any, id: str | None, **more: Any) -> Later[T]: ...
    @overload
    def step(self, function: Callable[P, Later[T]], /, *args: P.args, **kwargs: P.kwargs) -> Later[T]: ...
    @overload
    def step(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Later[T]: ...
    def step(  # type: ignore[misc]  # no input of a step is called `id`
        self, function: Callable[..., Any], /, *args: Any, id: str | None = None, **kwargs: Any
    ) -> Later[Any]:
        """Call any function as a step; a plain one runs in a thread."""
        return self._call(as_step(function, "step", {}), args, kwargs, id)

    @overload
    def effect(self, function: Callable[..., Later[T]], /, *args: Any, id: str | None, **more: Any) -> Later[T]: ...
    @overload
    def effect(self, function: Callable[..., T], /, *args: Any, id: str | None, **more: Any) -> Later[T]: ...
    @overload
    def effect(self, function: Callable[..., Later[T]], /, *args: Any, confirm: Probe, **more: Any) -> Later[T]: ...
    @overload
    def effect(self, function: Callable[..., T], /, *args: Any, confirm: Probe, **more: Any) -> Later[T]: ...
    @overload
    def effect(self, function: Callable[P, Later[T]], /, *args: P.args, **kwargs: P.kwargs) -> Later[T]: ...
    @overload
    def effect(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Later[T]: ...
    def effect(  # type: ignore[misc]  # no input of an effect is called `id` or `confirm`
        self, function: Callable[..., Any], /, *args: Any, id: str | None = None, confirm: Probe = None, **kwargs: Any
    ) -> Later[Any]:
        """Call any function as an effect; a plain one runs in a thread."""
        options = {"confirm": confirm} if confirm else {}
        return self._call(as_step(function, "effect", options), args, kwargs, id)

    def _call(self, spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call_id: str | None) -> Later[Any]:
        frame = self._frame()
        if frame.attempt is not None:
            return _plain_call(spec, args, kwargs)
        return rooms.call_async.call_async(frame, spec, args, kwargs, call_id, depth=4)

    def _noted(self, what: str, waits: Callable[[], Later[T]]) -> Later[T]:
        """What is to be awaited, and begins only then: the run fails, naming the line, if it never is."""

        async def begun() -> T:
            return await waits()

        return self._execution.made.add(begun(), f"run.{what}", 3)

    @overload
    def map(
        self, function: Each[I, Later[T]], items: Iterable[I], *, on_error: Collect, **how: Unpack[MapOptions[I]]
    ) -> Later[list[Ok[T] | Failed]]: ...
    @overload
    def map(
        self, function: Each[I, Later[T]], items: Iterable[I], *, on_error: Stop = "stop", **how: Unpack[MapOptions[I]]
    ) -> Later[list[T]]: ...
    @overload
    def map(
        self, function: Each[I, T], items: Iterable[I], *, on_error: Collect, **how: Unpack[MapOptions[I]]
    ) -> Later[list[Ok[T] | Failed]]: ...
    @overload
    def map(
        self, function: Each[I, T], items: Iterable[I], *, on_error: Stop = "stop", **how: Unpack[MapOptions[I]]
    ) -> Later[list[T]]: ...
    def map(
        self,
        function: Callable[[I], Any],
        items: Iterable[I],
        *,
        key: Key[I] = None,
        concurrency: int = 8,
        on_error: OnError = "stop",
    ) -> Later[list[Any]]:
        """Call a step for every item, `concurrency` at a time; results in the order of the items. See Run.map."""

        def waits() -> Later[list[Any]]:
            asked, drive = self._asked(function, items, key, concurrency, on_error), rooms.call_async.drive_async
            return waiting.map_async(self._execution, asked, concurrency, drive, collect=on_error == "collect")

        return self._noted("map", waits)

    @overload
    def pause_for(
        self, type: str, payload: Mapping[str, Any] | None = None, *, schema: Answer[T], **how: Unpack[PauseOptions]
    ) -> Later[T]: ...
    @overload
    def pause_for(
        self, type: str, payload: Mapping[str, Any] | None = None, *, schema: Any = None, **how: Unpack[PauseOptions]
    ) -> Later[Any]: ...
    def pause_for(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        schema: Any = None,
        deadline: Deadline = None,
        default: Any = NO_DEFAULT,
        assignee: str = "",
    ) -> Later[Any]:
        """Ask a person; this branch waits for the answer, the others go on. See Run.pause_for."""
        asked = type, payload, schema, deadline, default, assignee
        return self._noted("pause_for", lambda: rooms.ask.ask_async(self._frame(), rooms.ask.question(*asked)))

    def wait_for(self, signal: str, *, deadline: Deadline = None, default: Any = NO_DEFAULT) -> Later[Any]:
        """The body of the next signal of that name; this branch waits for it. See Run.wait_for."""
        asked = signal, deadline, default
        return self._noted("wait_for", lambda: rooms.ask.ask_async(self._frame(), rooms.ask.signal(*asked)))

    def sleep(self, duration: float | str) -> Later[None]:
        """Wait, also over restarts; other branches go on meanwhile."""
        return self._noted("sleep", lambda: waiting.sleep_async(self._frame(), seconds(duration, "run.sleep")))


async def _plain_call(spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made: Any = Step(spec)(*args, **kwargs)
    return await made if spec.is_async else made


def current() -> Run | AsyncRun:
    """The run that the calling code belongs to, anywhere below its body. Raises StepOutsideRun."""
    frame = CURRENT.get()
    if frame is None:
        raise errors.StepOutsideRun("current", threading.current_thread().name)
    return Run(frame.execution) if frame.execution.branches is None else AsyncRun(frame.execution)
