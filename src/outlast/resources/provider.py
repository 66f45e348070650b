"""How resources are provided: a value or a factory under a key, and opening, looking after and closing one.

`@resource("key")` registers a factory for the whole process; each Outlast asks here for what nobody gave it. The
functions below call the user's code for a plain flow; their async half is in resources.py.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from outlast import errors
from outlast.flows.spec import Inject, Signature
from outlast.values.ambient import CURRENT, calls_user_code

Ask = Callable[[Any], Any]


class Provider(Struct, frozen=True, eq=False, dict=True):
    """What provides a resource. A value is handed out as it is; a factory makes it, and may say how it ends."""

    key: str
    factory: Callable[..., Any]
    health: Ask | None = None
    close: Ask | None = None
    is_value: bool = False
    is_registered: bool = False
    file: str = ""  # of a registered factory: where it is defined
    qualname: str = ""
    line: int = 0

    @cached_property
    def needs(self) -> dict[str, str]:
        """The resources that its factory is given, by parameter."""
        if self.is_value:
            return {}
        found = [each for each in _parameters(self.factory) if isinstance(each.default, Inject)]
        return {each.name: each.default.key for each in found}

    @cached_property
    def is_async(self) -> bool:
        """Whether some of it has to be awaited."""
        made = inspect.unwrap(self.factory)
        opens = inspect.iscoroutinefunction(made) or inspect.isasyncgenfunction(made)
        return opens or any(inspect.iscoroutinefunction(each) for each in (self.health, self.close))

    @property
    def place(self) -> str:
        """Where to look for it."""
        return f"{self.file}:{self.line} ({self.qualname})"


class Opened(Struct, frozen=True, eq=False):
    """A live object, how it is closed, and those it was made with."""

    provider: Provider
    value: Any
    end: Callable[[], Any] | None
    rests_on: tuple[Opened, ...] = ()


# -- registering -------------------------------------------------------------------------------------

_registered: dict[str, Provider] = {}
_lock = threading.Lock()


def register(key: str, factory: Callable[..., Any], health: Ask | None, close: Ask | None) -> None:
    """Provide a resource for every Outlast of this process. Raises ResourceTaken, ResourceInvalid.

    The same function once more (its file was loaded again, or by another name) takes its own place.
    """
    made = made_by(key, factory, health, close)
    with _lock:
        known = _registered.get(key)
        if known is not None and (known.file, known.qualname) != (made.file, made.qualname):
            raise errors.ResourceTaken(key, known.place, made.place)
        _registered[key] = replace(made, is_registered=True)


def registered(key: str) -> Provider | None:
    return _registered.get(key)


def made_by(key: str, factory: Any, health: Ask | None, close: Ask | None) -> Provider:
    """A provider by a factory, checked. Raises NameInvalid, ResourceInvalid."""
    _check(key, health, close)
    if not callable(factory):
        raise errors.ResourceInvalid(key, f"its factory {factory!r} cannot be called")
    for parameter in _parameters(factory):
        is_starred = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_starred:
            raise errors.ResourceInvalid(key, f"its factory wants {parameter.name!r}, which nobody gives it")
    code = getattr(inspect.unwrap(factory), "__code__", None)
    file, line = (os.path.realpath(code.co_filename), code.co_firstlineno) if code else _place_of_class(factory)
    name = getattr(factory, "__qualname__", "")
    return Provider(key, factory, health, close, file=file, qualname=name, line=line)


def holding(key: str, value: Any, health: Ask | None, close: Ask | None) -> Provider:
    """A provider of this very object. Raises NameInvalid, ResourceInvalid."""
    _check(key, health, close)
    return Provider(key, lambda: value, health, close, is_value=True)


def _check(key: Any, health: Any, close: Any) -> None:
    if not isinstance(key, str) or not key or not key.isprintable():
        raise errors.NameInvalid("resource", repr(key), 'give it a key, a printable text: @resource("search")')
    for name, given in (("health", health), ("close", close)):
        if given is not None and not callable(given):
            raise errors.ResourceInvalid(
                key, f"its {name} {given!r} cannot be called; give a function that takes the object"
            )


def _parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return Signature(factory).parameters
    except (TypeError, ValueError):  # of some built-in types nothing can be known
        return []


def _place_of_class(factory: Any) -> tuple[str, int]:
    try:
        return os.path.realpath(inspect.getsourcefile(factory) or ""), inspect.getsourcelines(factory)[1]
    except (OSError, TypeError):
        return str(getattr(factory, "__module__", "")), 0


# -- the user's code, called -------------------------------------------------------------------------


_OPENING: ContextVar[tuple[str, ...]] = ContextVar("outlast_opening", default=())


def refuse_cycle(key: str) -> None:
    """Raises ResourceCycle when the code that opens this one asks for it, maybe by a run: it would wait for itself."""
    chain = _OPENING.get()
    if key in chain:
        raise errors.ResourceCycle(" -> ".join([*chain[chain.index(key) :], key]))


@contextlib.contextmanager
def opening(key: str) -> Generator[None, None, None]:
    """Around a factory's code. No run is around it: a step called there is the plain function."""
    run, chain = CURRENT.set(None), _OPENING.set((*_OPENING.get(), key))
    try:
        yield
    finally:
        _OPENING.reset(chain)
        CURRENT.reset(run)


@calls_user_code
def opened(provider: Provider, needs: Mapping[str, Opened]) -> Opened:
    """Open it."""
    with opening(provider.key):
        made = provider.factory(**{name: each.value for name, each in needs.items()})
        value, end = (made, None) if provider.is_value else entered(provider.key, made)
    return Opened(provider, value, ending(provider, value, end), tuple(needs.values()))


@calls_user_code
def entered(key: str, made: Any) -> tuple[Any, Callable[[], Any] | None]:
    """What comes of a factory's answer: a generator's first value, what a context manager of contextlib's gives."""
    if inspect.isgenerator(made):
        return _first(key, made), partial(_rest, key, made)
    if contextlib.AbstractContextManager in type(made).__mro__:
        return made.__enter__(), partial(made.__exit__, None, None, None)
    if inspect.iscoroutine(made) or inspect.isasyncgen(made):
        made.close() if inspect.iscoroutine(made) else None
        raise errors.ResourceInvalid(key, "its factory gives something to await; declare it with `async def`")
    return made, None


@calls_user_code
def _first(key: str, made: Generator[Any, Any, Any]) -> Any:
    for value in made:
        return value
    raise errors.ResourceInvalid(key, "its factory yields nothing; let it yield the object once")


def _rest(key: str, made: Generator[Any, Any, Any]) -> None:
    for _ in made:
        made.close()
        raise errors.ResourceInvalid(
            key, "its factory yields twice; let it yield the object once, and close it after that"
        )


def ending(provider: Provider, value: Any, end: Callable[[], Any] | None) -> Callable[[], Any] | None:
    """Everything there is to do when it is closed: what was asked for, then what the factory itself does."""
    return end if provider.close is None else partial(_both, partial(provider.close, value), end)


def _both(first: Callable[[], Any], second: Callable[[], Any] | None) -> Any:
    try:
        given = first()
    except BaseException:
        if second is not None:
            second()
        raise
    if inspect.isawaitable(given):
        return _both_on_loop(given, second)
    return second() if second is not None else None


async def _both_on_loop(first: Any, second: Callable[[], Any] | None) -> None:
    try:
        await first
    finally:
        given = second() if second is not None else None
        if inspect.isawaitable(given):
            await given


@calls_user_code
def ask_health(live: Opened) -> Any:
    """What its health check says; one that raises says no. Something to await when it is async."""
    health = live.provider.health
    try:
        return True if health is None else health(live.value)
    except Exception:
        return False


def is_healthy(live: Opened) -> bool:
    """The same where nothing can be awaited. Raises ResourceInvalid for a check that has to be."""
    said = ask_health(live)
    if inspect.iscoroutine(said):
        said.close()
        raise errors.ResourceInvalid(live.provider.key, "its health has to be awaited; declare it with `async def`")
    return bool(said)


def closed(live: Opened) -> str:
    """Close it; why it could not be, in words, or nothing."""
    try:
        given = live.end() if live.end is not None else None
        if inspect.iscoroutine(given):
            given.close()
            return trouble(live, "its close has to be awaited; declare it with `async def`")
    except Exception as error:
        return trouble(live, f"{type(error).__name__}: {error}")
    return ""


def trouble(live: Opened, why: str) -> str:
    return f"resource {live.provider.key!r} could not be closed: {why}"
