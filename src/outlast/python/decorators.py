"""The decorators: @flow, @step, @effect, and what stands for injected values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from outlast import errors
from outlast.errors import NotDone
from outlast.flows.spec import (
    BACKOFF_SECONDS,
    JITTER,
    MAX_DELAY_SECONDS,
    NO_LIMITS,
    NO_RETRY,
    Errors,
    FlowLimits,
    FlowSpec,
    Inject,
    Retry,
    flow_spec,
    seconds,
    types_of,
)
from outlast.flows.spec import place_of as written_at
from outlast.python import rooms
from outlast.runs.step import StepSpec, Work
from outlast.values.ambient import CURRENT
from outlast.values.text import duration, nearest

if TYPE_CHECKING:
    from outlast.care.audit.flow import Audit
    from outlast.flows.yaml.flow import FlowFileSpec
    from outlast.python.named_flows import FlowSteps

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def inject(key: str) -> Any:
    """A parameter's default that stands for a live resource, made by `@resource(key)` or `outlast.resource(key, …)`."""
    return Inject(key)


def resource(
    key: str, *, health: Callable[[Any], Any] | None = None, close: Callable[[Any], Any] | None = None
) -> Callable[[F], F]:
    """Let a function make the live object that `inject(key)` stands for, in every Outlast of this process.

    The function is called when the object is first needed, once for each Outlast. It may be a generator (what comes
    after `yield` closes the object), made by `@contextmanager`, a class, or for async flows `async def`; other
    resources are given to it by `inject`. For `health` and `close` see `outlast.resource`. Raises ResourceTaken when
    another function has the key.
    """

    def registered(factory: F) -> F:
        rooms.provider.register(key, factory, health, close)
        return factory

    return registered


class Step(Generic[P, T]):
    """A step or effect. Called in a run's body it is durable; elsewhere it is the plain function."""

    def __init__(self, spec: StepSpec) -> None:
        functools.update_wrapper(self, spec.function)
        self.spec = spec
        self.plain = cast(Callable[P, T], spec.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        frame = CURRENT.get()
        if frame is None or frame.attempt is not None:  # hardly ever: not in a run's body, or in a step of it
            rooms.call_plain.refuse_misplaced(self.spec)
            given: T = self.spec.function(*args, **rooms.call_plain.outside_arguments(self.spec, kwargs))
            return given
        made: T = self._call(frame, self.spec, args, kwargs)
        return made

    @functools.cached_property
    def _call(self) -> Callable[..., Any]:
        return rooms.call_async.call_async if self.spec.is_async else rooms.call_plain.call_plain

    def __repr__(self) -> str:
        return f"<{self.spec.kind} {self.spec.name}>"


@overload
def step(function: Callable[P, T], /) -> Step[P, T]: ...


@overload
def step(
    *,
    name: str | None = None,
    retries: int = 0,
    retry_on: Errors = (),
    backoff: float | str = 0.5,
    max_delay: float | str = 60.0,
    jitter: float = 0.5,
    timeout: float | str | None = None,
    agent: str = "",
    writes: Iterable[str] = (),
    on_partial: str = "keep",
    ignore: Iterable[str] = (),
    crashes: int | None = None,
    limit: str = "",
    record_inputs: bool | None = None,
) -> Callable[[Callable[P, T]], Step[P, T]]: ...


def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a step: a unit of work that may run again until it has succeeded.

    `retries` further attempts after a failure, of these types only if `retry_on` names some. `backoff` seconds before
    the first of them, doubling up to `max_delay`, less a part of up to `jitter` (0 to 1) by chance. `timeout` per
    attempt, `ignore` parameters that are no part of the call's identity. A step in which its
    process died `crashes` times (3), alone under way, is not tried again before a person says so. `writes` declares
    files (patterns, from the project's folder): what an unfinished attempt left in them is shown to the next one as
    `current().previous`, and `on_partial` says what becomes of it: `keep`, `restore`, or `ask` a person. Receipts keep
    inputs, masked: up to 2 KiB each, all of them with `record_inputs=True`, none with `record_inputs=False`. A `limit`
    is shared with every step that names it, over all runs: how many at once, and how many in a while.
    """
    return _decorated(function, "step", options)


@overload
def effect(function: Callable[P, T], /) -> Step[P, T]: ...


@overload
def effect(
    *,
    name: str | None = None,
    confirm: Callable[..., Any] | None = None,
    not_done: Iterable[type[BaseException]] = (),
    retries: int = 0,
    retry_on: Errors = (),
    backoff: float | str = 0.5,
    max_delay: float | str = 60.0,
    jitter: float = 0.5,
    timeout: float | str | None = None,
    agent: str = "",
    ignore: Iterable[str] = (),
    limit: str = "",
    record_inputs: bool | None = None,
) -> Callable[[Callable[P, T]], Step[P, T]]: ...


def effect(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function an effect: a unit of work that must never be repeated unknowingly.

    Its intent is on disk before it runs. If it ends without an outcome it is in doubt: `confirm` is asked
    (`Happened(value)`, `NOT_DONE`, `UNKNOWN`), then a person. It says that nothing happened by raising `NotDone`
    or one of the `not_done` types; only then do `retries` count, with the options of a step.
    """
    return _decorated(function, "effect", options)


def _decorated(function: Callable[..., Any] | None, kind: str, options: dict[str, Any]) -> Any:
    if function is not None:
        return Step(make_spec(function, kind, options))
    return lambda decorated: Step(make_spec(decorated, kind, options))


def make_spec(function: Callable[..., Any], kind: str, options: dict[str, Any]) -> StepSpec:
    """Describe a step. Raises StepInvalid."""
    function = function.spec.function if isinstance(function, Step) else function
    given = dict(options)
    name = given.pop("name", None) or getattr(function, "__name__", "")
    _refuse_unknown(function, name, kind, given)
    timeout, writes = given.pop("timeout", None), _all_of(given.pop("writes", ()))
    return StepSpec(
        function,
        name,
        kind,
        timeout=None if timeout is None else seconds(timeout, name),
        backoff=seconds(given.pop("backoff", BACKOFF_SECONDS), name),
        max_delay=seconds(given.pop("max_delay", MAX_DELAY_SECONDS), name),
        retry_on=types_of(given.pop("retry_on", ())),
        writes=writes,
        work=_declared_files() if writes else None,
        ignore=_all_of(given.pop("ignore", ())),
        not_done=(NotDone, *given.pop("not_done", ())),
        **given,
    )


def _declared_files() -> Work:
    """The work around a step that declares files; loaded with the first of those."""
    from outlast.commands.leftovers import DeclaredFiles

    return DeclaredFiles()


_OPTIONS = (
    *("name", "retries", "retry_on", "backoff", "max_delay", "jitter", "timeout", "agent", "writes", "on_partial"),
    *("ignore", "crashes", "limit", "record_inputs", "confirm", "not_done"),
)


def _refuse_unknown(function: Callable[..., Any], name: str, kind: str, given: Mapping[str, Any]) -> None:
    """Raises StepInvalid for an option that a step or an effect does not have."""
    for option in given:
        if option not in _OPTIONS:
            told = f"there is no option {option!r} of @{kind} ({written_at(function)})"
            raise errors.StepInvalid(name, f"{told}; {nearest(option, _OPTIONS, 'the options are')}")


def _all_of(names: str | Iterable[str]) -> tuple[str, ...]:
    """One name is one, and not its letters."""
    return (names,) if isinstance(names, str) else tuple(names)


def as_step(function: Any, kind: str, options: dict[str, Any]) -> StepSpec:
    """A spec for `run.step(f, …)`: f's own when it is a step already."""
    if isinstance(function, Step) and not options and function.spec.kind == kind:
        return function.spec
    return make_spec(function, kind, options)


class Flow(Generic[P, T]):
    """A flow. Run it by `outlast.run(flow, …)`; called inside another flow's body it is the plain function."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None,
        deadline: float | None = None,
        retry: Retry = NO_RETRY,
        limits: FlowLimits = NO_LIMITS,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._options = (name, deadline, retry, limits)

    @functools.cached_property
    def spec(self) -> FlowSpec:
        """What the runtime knows of it. Raises FlowInvalid for what a later process could not find."""
        return flow_spec(self.function, *self._options)

    def steps(self) -> FlowSteps:
        """The steps that its code shows. Nothing is run."""
        return rooms.named_flows.steps_of(self.spec)

    def audit(self) -> Audit:
        """The six acceptance questions, answered from its code. Nothing is run."""
        return rooms.audit.audit_flow(self.spec)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<flow {self.function.__qualname__}>"


class MakesFlow(Protocol):
    """What `@flow(name=…)` decorates with."""

    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], /) -> Flow[P, T]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], T], /) -> Flow[P, T]: ...


@overload
def flow(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], /) -> Flow[P, T]: ...


@overload
def flow(function: Callable[Concatenate[Any, P], T], /) -> Flow[P, T]: ...


@overload
def flow(
    *,
    name: str | None = None,
    deadline: float | str | None = None,
    retries: int = 0,
    retry_on: Errors = (),
    backoff: float | str = 0.5,
    max_delay: float | str = 60.0,
    jitter: float = 0.5,
    queue: str = "",
    concurrency: int = 0,
    per: str = "",
    rate: str = "",
    schedule: str = "",
    timezone: str = "UTC",
    queue_timeout: float | str = 0,
) -> MakesFlow: ...


def flow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    deadline: float | str | None = None,
    retries: int = 0,
    retry_on: Errors = (),
    backoff: float | str = BACKOFF_SECONDS,
    max_delay: float | str = MAX_DELAY_SECONDS,
    jitter: float = JITTER,
    queue: str = "",
    concurrency: int = 0,
    per: str = "",
    rate: str = "",
    schedule: str = "",
    timezone: str = "UTC",
    queue_timeout: float | str = 0,
) -> Any:
    """Make a function a flow: a recipe whose body runs again from the top on resume.

    Its first parameter is the run (`Run`, or `AsyncRun` for `async def`); the others are its inputs.

    `deadline`: by when, after its start, a run is to be done, over all stops and resumes; then it fails with
    `run_timed_out`. `retries`: how often a run that failed goes on at the failure by itself; `retry_on`, `backoff`,
    `max_delay` and `jitter` as for a step.

    `queue`: `start` puts its runs into this queue, out of which workers take them. Of those at most `concurrency` go on
    at once, and at most `rate` ("30/m") begin, over all workers; with `per`, an input or a tag, for each value of it.
    One that nobody took within `queue_timeout` ends.

    `schedule`: a line of cron ("0 7 * * *"), in a `timezone`: workers that are given the flow run it at these times.
    """
    within = None if deadline is None else _time(deadline, "deadline")
    waits = _time(backoff, "backoff"), _time(max_delay, "max_delay")
    retry = Retry(retries, *waits, jitter, types_of(retry_on))
    if wrong := retry.wrong():
        raise errors.FlowInvalid("what is decorated", wrong, "see docs/retries.md")
    limits = FlowLimits(queue, concurrency, per, rate, schedule, timezone, queue_timeout)
    if wrong := limits.wrong():
        raise errors.FlowInvalid("what is decorated", wrong, "see docs/queues.md")
    if function is not None:
        return Flow(function, name, within, retry, limits)
    return lambda decorated: Flow(decorated, name, within, retry, limits)


def _time(value: Any, option: str) -> float:
    found = duration(value)
    if found is None or (option == "deadline" and not found):
        why = f"{option}: {value!r} is no duration"
        raise errors.FlowInvalid("what is decorated", why, "use seconds, or text such as 90s, 10m, 48h")
    return found


class FlowFile:
    """A flow that a file of commands describes. Run it by `outlast.run(flow_file(path), name=value, …)`."""

    def __init__(self, spec: FlowFileSpec) -> None:
        self.spec = spec

    def inputs(self, given: Mapping[str, Any], *, words: bool = False) -> dict[str, Any]:
        """The inputs checked and typed; `words` are texts of a command line. Raises InputsInvalid."""
        return self.spec.bind_all(given, words=words)

    def steps(self) -> FlowSteps:
        """Its steps, with those of the flow files that it runs. Nothing is run."""
        return rooms.named_flows.steps_of(self.spec)

    def audit(self) -> Audit:
        """The six acceptance questions, answered from the file. Nothing is run."""
        return rooms.audit.audit_flow(self.spec)

    def __repr__(self) -> str:
        return f"<flow {self.spec.name}>"


def flow_file(path: str | Path, *folders: Path) -> FlowFile:
    """The flow of a `flow.yaml`, read and checked whole. Raises RecipeInvalid, naming every mistake with its line."""
    return FlowFile(rooms.flow.find_flow_file(str(path), *folders))
