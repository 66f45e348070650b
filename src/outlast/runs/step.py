"""A step or effect as it is declared: its function, how it is to be attempted, and the work that is around its body."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast import errors
from outlast.flows.loading import module_alias
from outlast.flows.spec import (
    BACKOFF_SECONDS,
    JITTER,
    MAX_DELAY_SECONDS,
    Retry,
    Signature,
    code_of,
    is_method,
    returned,
)
from outlast.values.codec import Decode, decoder, unchanged
from outlast.values.frozen import Protocol

if TYPE_CHECKING:
    from outlast.runs.attempt import Ask, Attempt, Ended, Raised
    from outlast.runs.execution import Execution


class Work(Protocol):
    """What is done around a step's body: for the files that it declares, or because it is a command."""

    def prepare(self, execution: Execution, attempt: Attempt) -> Raised | Ask | None:
        """Make ready what must be on disk with the start: how files are, which processes will run.

        Gives why the attempt cannot begin, or what a person has to be asked first.
        """

    def observe(self, execution: Execution, attempt: Attempt, ended: Ended) -> Ended:
        """The same end, once what the attempt did to the declared files is noted."""


class ReadyWork(Protocol):
    """An attempt made ready that is no call of a function: it is run, or let go of."""

    def run(self) -> Ended: ...

    def drop(self) -> None: ...


class StepShape:
    """What every call of a step asks of it, as plain attributes: a property that is kept costs a look at its class."""

    __slots__ = ("code", "decode", "is_bare", "is_effect", "is_filled", "is_ordinary", "names", "same")

    def __init__(self, spec: StepSpec) -> None:
        self.names = spec.signature.names
        self.is_filled = spec.signature.is_filled
        self.is_effect = spec.is_effect
        # Its body, if it is a function, is called in place.
        self.is_bare = not spec.is_async and spec.timeout is None
        # Nothing is made ready for an attempt of it, and it shares no limit (`call_flat.py`).
        self.is_ordinary = not spec.is_effect and spec.work is None and not spec.limit and not spec.record_inputs
        self.decode, self.same, self.code = spec.decode, spec.same, spec.code


class StepSpec(Struct, frozen=True, dict=True):
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
    work: Work | None = None  # what is to be done before its start is written, and after its end
    limit: str = ""  # that all attempts of it share with other steps, over all runs
    record_inputs: bool | None = None  # whether receipts keep its inputs whole, or not at all; None: up to 2 KiB each

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise errors.StepInvalid(repr(self.function), "it cannot be called")
        if not self.name or self.name == "<lambda>":
            raise errors.StepInvalid("a lambda", "it has no name to be known by; define a function, or give name=…")
        if self.name.startswith("run.") or "/" in self.name or "~" in self.name or not self.name.isprintable():
            raise errors.StepInvalid(self.name, "a name may not contain / or ~, begin with `run.`, or be unprintable")
        if wrong := self.retry.wrong():
            raise errors.StepInvalid(self.name, wrong)
        if self.crashes is not None and (self.is_effect or type(self.crashes) is not int or self.crashes < 1):
            raise errors.StepInvalid(self.name, _wrong_crashes(self))
        if self.record_inputs not in (None, True, False):
            raise errors.StepInvalid(self.name, f"record_inputs is True or False, not {self.record_inputs!r}")
        if not isinstance(self.limit, str):
            raise errors.StepInvalid(self.name, f"limit is the name of one, not {self.limit!r}")
        if is_method(self.function):
            raise errors.StepInvalid(self.name, "a method cannot be a step: use a function and inject the object")
        unknown = [name for name in self.ignore if name not in {p.name for p in self.signature.parameters}]
        if unknown:
            raise errors.StepInvalid(self.name, f"ignore names {unknown[0]!r}, which is no parameter")

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.function, ignore=self.ignore)

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def is_effect(self) -> bool:
        return self.kind == "effect"

    @cached_property
    def shape(self) -> StepShape:
        return StepShape(self)

    @cached_property
    def retry(self) -> Retry:
        return Retry(self.retries, self.backoff, self.max_delay, self.jitter, self.retry_on)

    @cached_property
    def decode(self) -> Decode:
        return decoder(returned(self.function))

    @cached_property
    def same(self) -> frozenset[type]:
        """The types of results that come back as they are."""
        return unchanged(returned(self.function))

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

    @property
    def command(self) -> str:
        """What it runs, if it is a command; empty for a Python function."""
        return ""

    def tries_again(self, error: BaseException, facts: Mapping[str, Any] | None) -> bool:
        """Whether a failure of this kind is worth another attempt; `facts` are what is known of this one."""
        return self.retry.takes(error)

    def says_not_done(self, error: BaseException) -> bool:
        return isinstance(error, self.not_done)


def _wrong_crashes(spec: StepSpec) -> str:
    if spec.is_effect:
        return "crashes= is for steps: an effect in which its process died is in doubt, and asked about at once"
    return f"crashes must be 1 or more, not {spec.crashes!r}"
