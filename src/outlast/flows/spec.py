"""What the decorators describe: steps, effects, flows, and the values injected into them.

How often and when something that failed is tried again by itself: a step, an effect, a whole run. Pure.
"""

from __future__ import annotations

import ast
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from outlast.errors import FlowInvalid, InputsInvalid, StepInvalid, StepTimedOut
from outlast.flows.code import digest_function, parse
from outlast.flows.loading import is_file, module_alias
from outlast.values.codec import Decode, decoder, encode
from outlast.values.frozen import dataclass
from outlast.values.text import duration

BACKOFF_SECONDS = 0.5
MAX_DELAY_SECONDS = 60.0
JITTER = 0.5
_DOUBLINGS = 64  # more would be no number that a clock knows

Errors = type[BaseException] | Iterable[type[BaseException]]


@dataclass(frozen=True, slots=True)
class Retry:
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
        return isinstance(error, StepTimedOut) and any(issubclass(TimeoutError, kind) for kind in self.retry_on)

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
        raise StepInvalid(what, f"{value!r} is no duration (use seconds, or text such as 90s, 10m, 48h)")
    return found


@dataclass(frozen=True)
class Signature:
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

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a call by name: defaults filled in; resources, key and ignored ones left out.

        Raises TypeError as the function itself would.
        """
        simple = self._simple
        if simple is None:
            return self._bind_slowly(args, kwargs)
        positional, defaults, names, exact = simple
        if exact and not kwargs and len(args) == len(positional):
            return dict(zip(positional, args, strict=True))
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


@dataclass(frozen=True)
class StepSpec:
    """A step or effect: the function and how it is to be attempted."""

    function: Callable[..., Any]
    name: str
    kind: str = "step"
    retries: int = 0
    crashes: int | None = None  # deaths of its process before a person is asked; None: as the settings say
    backoff: float = BACKOFF_SECONDS
    max_delay: float = MAX_DELAY_SECONDS
    jitter: float = JITTER
    retry_on: tuple[type[BaseException], ...] = ()
    timeout: float | None = None
    agent: str = ""
    writes: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    confirm: Callable[..., Any] | None = None
    not_done: tuple[type[BaseException], ...] = ()
    on_partial: str = "keep"
    work: Any = None  # a command's own way of being made ready and run; None for a Python function
    is_async: bool = False
    is_effect: bool = False
    prepares: bool = False  # something is to be done before its start is written
    signature: Signature = field(init=False)
    retry: Retry = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", Signature(self.function, ignore=self.ignore))
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
        object.__setattr__(self, "is_effect", self.kind == "effect")
        object.__setattr__(self, "prepares", bool(self.writes) or self.work is not None)
        again = Retry(self.retries, self.backoff, self.max_delay, self.jitter, self.retry_on)
        object.__setattr__(self, "retry", again)
        _check_step(self)

    @cached_property
    def decode(self) -> Decode:
        return decoder(returned(self.function))

    @cached_property
    def code(self) -> str:
        return code_of(self.function)

    @cached_property
    def place(self) -> tuple[str, str]:
        """File (its full path) and qualified name, to find the code again."""
        function = inspect.unwrap(self.function)
        file = getattr(getattr(function, "__code__", None), "co_filename", "")
        real, named = os.path.realpath(file) if file else "", module_alias(function.__module__)
        by_link = os.path.isabs(named) and os.path.realpath(named) == real  # what `current` leads to may change
        return (named if by_link else real, getattr(function, "__qualname__", self.name))

    def tries_again(self, error: BaseException, facts: Mapping[str, Any] | None) -> bool:
        """Whether a failure of this kind is worth another attempt; `facts` are what is known of this one."""
        return self.retry.takes(error)

    def says_not_done(self, error: BaseException) -> bool:
        return isinstance(error, self.not_done)


def _check_step(spec: StepSpec) -> None:
    if not callable(spec.function):
        raise StepInvalid(repr(spec.function), "it cannot be called")
    if not spec.name or spec.name == "<lambda>":
        raise StepInvalid("a lambda", "it has no name to be known by; define a function, or give name=…")
    if spec.name.startswith("run.") or "/" in spec.name or "~" in spec.name or not spec.name.isprintable():
        raise StepInvalid(spec.name, "a name may not contain / or ~, begin with `run.`, or be unprintable")
    if wrong := spec.retry.wrong():
        raise StepInvalid(spec.name, wrong)
    if spec.crashes is not None and (spec.is_effect or type(spec.crashes) is not int or spec.crashes < 1):
        raise StepInvalid(spec.name, _wrong_crashes(spec))
    if _is_method(spec.function):
        raise StepInvalid(spec.name, "a method cannot be a step: use a function and inject the object")
    unknown = [name for name in spec.ignore if name not in {p.name for p in spec.signature.parameters}]
    if unknown:
        raise StepInvalid(spec.name, f"ignore names {unknown[0]!r}, which is no parameter")


def _wrong_crashes(spec: StepSpec) -> str:
    if spec.is_effect:
        return "crashes= is for steps: an effect in which its process died is in doubt, and asked about at once"
    return f"crashes must be 1 or more, not {spec.crashes!r}"


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether this is a function of a class that wants an object first. (Bound to one, it does not any more.)"""
    _, _, owner = getattr(function, "__qualname__", "").rpartition(".")[0].rpartition(".")
    first = next(iter(inspect.signature(function).parameters), "")
    return owner not in ("", "<locals>") and first in ("self", "cls")


@dataclass(frozen=True)
class FlowSpec:
    """A flow: the function, and the name by which any process finds it again."""

    function: Callable[..., Any]
    name: str  # short, for people and task names
    source: str  # module:name, or name after the full path of its file; names.lasting makes it the recorded one
    is_async: bool
    signature: Signature
    named: bool = False  # somebody gave it its name: it is the same flow wherever its file lies
    deadline: float | None = None  # seconds after its run's start, by which it is to be done
    retry: Retry = NO_RETRY

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

    @property
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
            raise InputsInvalid(self.name, str(error), shown) from error

    def typed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Stored inputs as the types that the flow's annotations name."""
        import msgspec

        hints = hints_of(self.function)
        try:
            return {
                name: decoder(hints[name])(encode(value)) if name in hints else value for name, value in inputs.items()
            }
        except msgspec.ValidationError as error:
            shown = ", ".join(str(p) for p in self.signature.parameters) or "none"
            why = f"the inputs it was started with do not fit any more: {error}"
            raise InputsInvalid(self.name, why, shown) from error


def flow_spec(
    function: Callable[..., Any], name: str | None, deadline: float | None = None, retry: Retry = NO_RETRY
) -> FlowSpec:
    """Describe a flow. Raises FlowInvalid for what a later process could not find."""
    qualname = getattr(function, "__qualname__", "")
    if not isinstance(function, types.FunctionType):
        raise FlowInvalid(repr(function), "it is not a function")
    if "<locals>" in qualname or "<lambda>" in qualname:
        raise FlowInvalid(qualname, "it is a local function or a lambda")
    signature = Signature(function, skip=1)
    if not list(inspect.signature(function).parameters):
        raise FlowInvalid(qualname, "it has no parameters", f"let the run come first: def {qualname}(run: Run, …)")
    if _is_method(function):
        raise FlowInvalid(qualname, "it is a method")
    taken = [p.name for p in signature.parameters if p.name in RESERVED]
    if taken:
        why = f"its input {taken[0]!r} has the name of an option of outlast.run"
        raise FlowInvalid(qualname, why, f"give that input another name than {', '.join(RESERVED)}")
    source = f"{module_alias(function.__module__)}:{qualname}"
    is_async = inspect.iscoroutinefunction(function)
    return FlowSpec(function, name or function.__name__, source, is_async, signature, bool(name), deadline, retry)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved annotations; none where they cannot be resolved."""
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except Exception:
        return {}


def returned(function: Callable[..., Any]) -> Any:
    return hints_of(function).get("return")


def code_of(function: Callable[..., Any]) -> str:
    """The digest of a function's code; empty when there is no source."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    tree = tree_of(code.co_filename) if code else None
    return (digest_function(tree, function.__qualname__) or "") if tree else ""


@lru_cache(maxsize=256)
def tree_of(file: str) -> ast.Module | None:
    """A file as it is when the code is first asked for, near its import."""
    try:
        return parse(Path(file).read_bytes())
    except OSError:
        return None
