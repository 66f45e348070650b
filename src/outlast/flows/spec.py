"""What the decorators describe of flows, and the values injected into steps. Steps themselves: `runs/step.py`.

How often and when something that failed is tried again by itself: a step, an effect, a whole run. Through which queue a
flow's runs go, how many of them at once, and at which times. Pure.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import msgspec
from msgspec import Struct

from outlast import errors
from outlast.flows.loading import digest_function, is_file, module_alias, parse
from outlast.values.codec import Decode, decoder, encode
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast.flows.yaml.flow import FlowFileSpec

BACKOFF_SECONDS = 0.5
MAX_DELAY_SECONDS = 60.0
JITTER = 0.5
_DOUBLINGS = 64  # more would be no number that a clock knows

Errors = type[BaseException] | Iterable[type[BaseException]]


class Retry(Struct, frozen=True):
    """Further attempts after a failure, and the waits before them."""

    retries: int = 0
    backoff: float = BACKOFF_SECONDS  # before the first of them; doubles
    max_delay: float = MAX_DELAY_SECONDS  # no wait is longer
    jitter: float = JITTER  # up to this part of a wait is left out, by chance
    retry_on: tuple[type[BaseException], ...] = ()  # none: whatever it was

    def takes(self, error: BaseException) -> bool:
        """Whether a failure of this type is worth another attempt. A step's timeout counts as a TimeoutError."""
        if not self.retry_on or isinstance(error, self.retry_on):
            return True
        return isinstance(error, errors.StepTimedOut) and any(issubclass(TimeoutError, kind) for kind in self.retry_on)

    def delay(self, failures: int, luck: float) -> float:
        """Seconds before the next attempt after so many failures; `luck`, from 0 to 1, decides about the jitter."""
        full = self.backoff * 2.0 ** min(failures - 1, _DOUBLINGS)
        return (1.0 - luck * self.jitter) * min(full, self.max_delay)

    def wrong(self) -> str:
        """What of it cannot be; empty when all of it can."""
        given: tuple[Any, ...] = (self.retries, self.jitter, *self.retry_on)  # whatever the caller wrote
        retries, jitter, *kinds = given
        if type(retries) is not int or retries < 0:
            return f"retries must be 0 or more, not {retries!r}"
        if type(jitter) not in (int, float) or not 0 <= jitter <= 1:
            return f"jitter must be from 0 to 1, not {jitter!r}"
        wrong = [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, BaseException))]
        return f"retry_on takes types of exceptions, not {wrong[0]!r}" if wrong else ""


NO_RETRY = Retry()


_RATE = r"([1-9][0-9]{0,8})\s*/\s*([smhd])\w*"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LANE = "\x1f"  # between a flow and a value in the name of a lane: it cannot be printed, and names can


class FlowLimits(Struct, frozen=True):
    """What `@flow` says about queues and times."""

    queue: str = ""  # in which its runs wait; empty: `start` begins them at once
    concurrency: int = 0  # at once, over all workers; 0: however many
    per: str = ""  # an input or a tag: the limits hold for each value of it
    rate: str = ""  # how many may begin, such as 30/m
    schedule: str = ""  # a line of cron: workers that have the flow run it at these times
    timezone: str = "UTC"
    queue_timeout: float | str = 0  # a run ends that waits in its queue for longer; 0: it waits for ever

    def wrong(self) -> str:
        """What of it cannot be; empty when all of it can."""
        given: Any = self.concurrency
        if type(given) is not int or given < 0:
            return f"concurrency must be a whole number from 1 on, not {given!r}"
        if self.rate and rate_of(self.rate) is None:
            return f"rate must be a number a second, minute, hour or day, such as 30/m, not {self.rate!r}"
        if duration(self.queue_timeout) is None:
            return f"queue_timeout must be seconds, or text such as 90s, 10m, 48h, not {self.queue_timeout!r}"
        return ""

    def lane(self, identity: str, inputs: Mapping[str, Any], tags: Sequence[str]) -> str:
        """What limits hold for together: the flow, and the value of `per` where that is said."""
        return identity + LANE + (self._value(inputs, tags) if self.per else "")

    def _value(self, inputs: Mapping[str, Any], tags: Sequence[str]) -> str:
        if self.per in inputs:
            value = inputs[self.per]
            return value if isinstance(value, str) else encode(value).decode()
        found = (tag.removeprefix(self.per)[1:] for tag in tags if tag.startswith((f"{self.per}:", f"{self.per}=")))
        return next(found, "")


NO_LIMITS = FlowLimits()


def rate_of(text: str) -> tuple[int, int] | None:
    """How many in how many microseconds; None when that is none."""
    found = re.fullmatch(_RATE, text.strip()) if isinstance(text, str) else None
    return (int(found[1]), _UNITS[found[2]] * 1_000_000) if found else None


def types_of(given: Any) -> tuple[Any, ...]:
    """What retry_on names: one type, or several."""
    return (given,) if isinstance(given, type) or not isinstance(given, Iterable) else tuple(given)


RESERVED = ("task", "fresh", "session", "trace_id", "meta")


class Inject:
    """A parameter's default that stands for a live resource."""

    def __init__(self, key: str) -> None:
        self.key = key


class EffectKey(str):
    """A parameter's default that stands for the effect's key."""

    __slots__ = ()


KEY: str = EffectKey("KEY")


def seconds(value: float | str, what: str) -> float:
    """A duration: seconds, or text such as `90s`, `10m`, `48h`."""
    found = duration(value)
    if found is None:
        raise errors.StepInvalid(what, f"{value!r} is no duration (use seconds, or text such as 90s, 10m, 48h)")
    return found


class Signature(Struct, frozen=True, dict=True):
    """A function's parameters, prepared so that binding a call costs little."""

    function: Callable[..., Any]
    skip: int = 0  # leading parameters that the runtime fills (a flow's run)
    ignore: tuple[str, ...] = ()

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())[self.skip :]

    @cached_property
    def injected(self) -> dict[str, str]:
        found = {p.name: p.default for p in self.parameters if isinstance(p.default, Inject)}
        return {name: default.key for name, default in found.items()}

    @cached_property
    def keyed(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters if isinstance(p.default, EffectKey))

    @cached_property
    def is_filled(self) -> bool:
        """Whether the runtime fills some of them."""
        return bool(self.injected or self.keyed)

    @cached_property
    def _simple(self) -> tuple[tuple[str, ...], dict[str, Any], frozenset[str], bool] | None:
        """Positional names, defaults, all names, whether those are the same; None with starred parameters."""
        kinds = {p.kind for p in self.parameters}
        if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
            return None
        own = [p for p in self.parameters if not isinstance(p.default, Inject | EffectKey)]
        positional = tuple(p.name for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        defaults = {p.name: p.default for p in own if p.default is not p.empty}
        names = frozenset(p.name for p in own)
        return positional, defaults, names, names == set(positional) and not self.ignore

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of which a call that gives as many values in order, and no other, gives all inputs; None: of none."""
        simple = self._simple
        return simple[0] if simple is not None and simple[3] else None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a call by name: defaults filled in; resources, key and ignored ones left out.

        Raises TypeError as the function itself would.
        """
        simple = self._simple
        if simple is None:
            return self._bind_slowly(args, kwargs)
        positional, defaults, names, _ = simple
        inputs = dict(zip(positional, args, strict=False))
        if kwargs:
            if not inputs.keys().isdisjoint(kwargs):
                return self._bind_slowly(args, kwargs)
            inputs.update(kwargs)
        if defaults:
            inputs = defaults | inputs
        if len(args) > len(positional) or inputs.keys() != names:
            return self._bind_slowly(args, kwargs)
        for name in self.ignore:
            inputs.pop(name, None)
        return inputs

    def _bind_slowly(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = inspect.Signature(self.parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        silent = {*self.ignore, *self.injected, *self.keyed}
        return {name: value for name, value in bound.arguments.items() if name not in silent}


def is_method(function: Callable[..., Any]) -> bool:
    """Whether this is a function of a class that wants an object first. (Bound to one, it does not any more.)"""
    _, _, owner = getattr(function, "__qualname__", "").rpartition(".")[0].rpartition(".")
    if owner in ("", "<locals>"):
        return False  # whatever it takes, which is not quickly found out
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


class FlowSpec(Struct, frozen=True, dict=True):
    """A flow: the function, and the name by which any process finds it again."""

    is_of_commands: ClassVar[bool] = False  # its body is a file
    function: Callable[..., Any]
    name: str  # short, for people and task names
    source: str  # module:name, or name after the full path of its file; names.lasting makes it the recorded one
    is_async: bool
    signature: Signature
    named: bool = False  # somebody gave it its name: it is the same flow wherever its file lies
    deadline: float | None = None  # seconds after its run's start, by which it is to be done
    retry: Retry = NO_RETRY
    limits: FlowLimits = NO_LIMITS

    @cached_property
    def decode(self) -> Decode:
        return decoder(returned(self.function))

    @cached_property
    def code(self) -> str:
        """A digest of its body's code; empty when there is no source."""
        return code_of(self.function)

    @cached_property
    def needs(self) -> dict[str, str]:
        """The live resources that every new run of it needs, by its source, each with the step that does."""
        from outlast.flows.needs import surely_needed

        code = getattr(inspect.unwrap(self.function), "__code__", None)
        name = self.function.__qualname__
        if code is None or "." in name or self.source.startswith("script:"):
            return {}
        return surely_needed(Path(code.co_filename), name)

    @property
    def identity(self) -> str:
        """What makes it the same flow in every place: its name, its module, or else the name of its file."""
        if self.source.startswith("script:"):
            return self.source
        if self.named:
            return f"name:{self.name}"
        return f"file:{os.path.basename(self.source)}" if is_file(self.source) else f"module:{self.source}"

    @cached_property
    def folder(self) -> str:
        """Where its code lies; empty when that is nowhere."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return os.path.dirname(os.path.realpath(code.co_filename)) if code and is_file(self.source) else ""

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The flow's inputs by name. Raises InputsInvalid."""
        try:
            return self.signature.bind(args, kwargs)
        except TypeError as error:
            shown = ", ".join(str(p) for p in self.signature.parameters) or "none"
            raise errors.InputsInvalid(self.name, str(error), shown) from error

    def typed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Stored inputs as the types that the flow's annotations name."""
        hints = hints_of(self.function)
        try:
            return {
                name: decoder(hints[name])(encode(value)) if name in hints else value for name, value in inputs.items()
            }
        except msgspec.ValidationError as error:
            shown = ", ".join(str(p) for p in self.signature.parameters) or "none"
            why = f"the inputs it was started with do not fit any more: {error}"
            raise errors.InputsInvalid(self.name, why, shown) from error


def is_of_file(spec: FlowSpec | None) -> TypeGuard[FlowFileSpec]:
    """Whether it is a flow of a file, of which nothing is loaded for any other."""
    return spec is not None and spec.is_of_commands


def flow_spec(
    function: Callable[..., Any],
    name: str | None,
    deadline: float | None = None,
    retry: Retry = NO_RETRY,
    limits: FlowLimits = NO_LIMITS,
) -> FlowSpec:
    """Describe a flow. Raises FlowInvalid for what a later process could not find."""
    qualname = getattr(function, "__qualname__", "")
    if not isinstance(function, types.FunctionType):
        raise errors.FlowInvalid(repr(function), "it is not a function")
    if "<locals>" in qualname or "<lambda>" in qualname:
        raise errors.FlowInvalid(qualname, "it is a local function or a lambda")
    signature = Signature(function, skip=1)
    if not list(inspect.signature(function).parameters):
        raise errors.FlowInvalid(
            qualname, "it has no parameters", f"let the run come first: def {qualname}(run: Run, …)"
        )
    if is_method(function):
        raise errors.FlowInvalid(qualname, "it is a method")
    if first := _no_run(function):
        why = f"its first parameter, {first}, is where the run comes ({place_of(function)})"
        raise errors.FlowInvalid(qualname, why, f"let the run come first: def {qualname}(run: Run, {first}, …)")
    taken = [p.name for p in signature.parameters if p.name in RESERVED]
    if taken:
        why = f"its input {taken[0]!r} has the name of an option of outlast.run"
        raise errors.FlowInvalid(qualname, why, f"give that input another name than {', '.join(RESERVED)}")
    source = f"{module_alias(function.__module__)}:{qualname}"
    is_async = inspect.iscoroutinefunction(function)
    return FlowSpec(
        function, name or function.__name__, source, is_async, signature, bool(name), deadline, retry, limits
    )


_VALUES = ("str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "Path", "date", "datetime")


def _no_run(function: Callable[..., Any]) -> str:
    """The first parameter of a function, if it is annotated as a value that no run is; else empty."""
    first = next(iter(inspect.signature(function).parameters.values()))
    kind = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    word = kind if kind.isidentifier() else re.split(r"\W", kind, maxsplit=1)[0]
    return str(first) if word in _VALUES else ""


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "somewhere"


def spec_of(flow: Any) -> FlowSpec:
    """What is known of a flow that was given to be run. Raises FlowInvalid for what is none."""
    spec = getattr(flow, "spec", None)
    if isinstance(spec, FlowSpec):
        return spec
    name, function = getattr(flow, "__qualname__", repr(flow)), getattr(flow, "plain", flow)
    if spec is not None:
        why = f"it is a step ({place_of(function)})"
        raise errors.FlowInvalid(
            name, why, f"call it in a flow: @flow above def NAME(run: Run, …), which calls {name}(…)"
        )
    if not callable(flow):
        raise errors.FlowInvalid(
            f"{flow!r:.100}", "it is no function", "give the flow itself: a function with @flow above it"
        )
    raise errors.FlowInvalid(
        name, f"it is a plain function ({place_of(function)})", f"write @flow above def {name}(run: Run, …)"
    )


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved annotations; none where they cannot be resolved."""
    try:
        return _hints(function)
    except Exception:
        return {}


@lru_cache(maxsize=256)  # of those that could be resolved: each start of a run asks
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(inspect.unwrap(function))


def returned(function: Callable[..., Any]) -> Any:
    return hints_of(function).get("return")


def code_of(function: Callable[..., Any]) -> str:
    """The digest of a function's code; empty when there is no source."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    tree = tree_of(code.co_filename) if code else None
    return (digest_function(tree, function.__qualname__) or "") if tree else ""


def tree_of(file: str) -> ast.Module | None:
    """A file as it is when the code is first asked for, near its import."""
    source = source_of(file)
    return parse(source) if source is not None else None


@lru_cache(maxsize=256)  # its bytes: its tree is fifty times as large
def source_of(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None
