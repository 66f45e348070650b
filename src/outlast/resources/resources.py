"""Live objects by key: never saved, provided again after a restore.

One of each key for an Outlast, opened when it is first needed, looked after when a run takes it up or a step is tried
again, closed in reverse order at the end. What has to be awaited lives on its event loop: opened there, once for each
loop, and closed before it ends.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from outlast import errors
from outlast.errors import ResourceInvalid
from outlast.resources import NOTHING
from outlast.resources import provider as providers
from outlast.resources.provider import Ask, Opened, Provider
from outlast.values.ambient import calls_user_code
from outlast.values.late import asyncio  # a plain run has no loop


class Resources:
    """What this Outlast provides, and what of it is open. `warn` is told what could not be closed."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn = warn
        self._own: dict[str, Provider] = {}
        self._open: dict[str, Opened] = {}
        self._all: list[Opened] = []  # to be closed, in the order in which they were opened
        self._loops: dict[asyncio.AbstractEventLoop, LoopResources] = {}
        self._turns: dict[str, threading.RLock] = {}  # each held while that one is opened or looked after
        self._lock = threading.Lock()  # of what is kept here; none of the user's code runs under it
        self._closed = False

    # -- providing -------------------------------------------------------------------------------

    def provide(
        self,
        key: str,
        value: Any = NOTHING,
        factory: Callable[..., Any] | None = None,
        health: Ask | None = None,
        close: Ask | None = None,
    ) -> None:
        """Provide it here: it comes before what is registered under this key, and from now on before an earlier one.

        That one, if it is open, is closed at the end: a step may be using it. Raises NameInvalid, ResourceInvalid.
        """
        if (value is NOTHING) == (factory is None):
            raise ResourceInvalid(str(key), "give either the object itself or factory=…, a function that makes it")
        if factory is not None:
            made = providers.made_by(key, factory, health, close)
        else:
            made = providers.holding(key, value, health, close)
        with self._lock:
            self._own[key] = made
            for live in self._resting_on(self._open.get(key)):
                del self._open[live.provider.key]

    def provider(self, key: str) -> Provider | None:
        return self._own.get(key) or providers.registered(key)

    def missing(self, keys: Iterable[str]) -> dict[str, str]:
        """The keys that nobody provides, of these and of all that their factories need, and which one needs each."""
        found: dict[str, str] = {}
        seen: set[str] = set()
        left = [(key, "") for key in keys]
        while left:
            key, needed_by = left.pop()
            if key in seen:
                continue
            seen.add(key)
            provider = self.provider(key)
            if provider is None:
                found[key] = needed_by
            else:
                left += [(each, key) for each in provider.needs.values()]
        return found

    def needs_loop(self, key: str) -> bool:
        """Whether it, or something that it needs, is opened by async code. Raises ResourceMissing, ResourceCycle."""
        return any(provider.is_async for provider in self._all_of(key))

    def _all_of(self, key: str, chain: tuple[str, ...] = ()) -> list[Provider]:
        """Its provider and those of all that it needs."""
        if key in chain:
            raise errors.ResourceCycle(" -> ".join([*chain[chain.index(key) :], key]))
        provider = self.provider(key)
        if provider is None:
            raise errors.ResourceMissing(key, chain[-1] if chain else "")
        below = [each for need in provider.needs.values() for each in self._all_of(need, (*chain, key))]
        return [provider, *below]

    # -- opening ---------------------------------------------------------------------------------

    def get(self, key: str, *, check: bool = False) -> Any:
        """The object, opened if it is not; with `check` an open one is asked whether it is healthy.

        Raises ResourceMissing, ResourceCycle, ResourceNeedsLoop.
        """
        live = self._open.get(key)
        if live is not None and not check:
            return live.value
        if self.needs_loop(key):
            return self._on_this_loop(key).value
        return self.ready(key, check).value

    def ready(self, key: str, check: bool) -> Opened:
        """The same as it is kept here, with those that it rests on."""
        providers.refuse_cycle(key)
        with self._turns.setdefault(key, threading.RLock()):
            while True:
                live = self._usable(key, check)
                if live is not None:
                    return live

    def _usable(self, key: str, check: bool) -> Opened | None:
        """One that is of use. None: what it rests on was closed while it was opened; it has to be opened again."""
        self.refuse_closed(key)
        provider = self.provider(key)
        assert provider is not None
        needs = {name: self.ready(each, check) for name, each in provider.needs.items()}
        live = self._open.get(key)
        if live is not None and (not check or self._is_fine(live)):
            return live
        live = providers.opened(provider, needs)
        if self._kept(live):
            return live
        self.close_one(live)
        return None

    def _kept(self, live: Opened) -> bool:
        """Keep it until the end, unless it would rest on what is closed."""
        with self._lock:
            if self._closed or not all(self.is_open(each) for each in live.rests_on):
                return False
            self._open[live.provider.key] = live
            self._all.append(live)
            return True

    def is_open(self, live: Opened) -> bool:
        return self._open.get(live.provider.key) is live

    def refuse_closed(self, key: str) -> None:
        if self._closed:
            raise errors.Refused(detail=f"resource {key!r} is asked for and its Outlast is closed; open another one")

    def _is_fine(self, live: Opened) -> bool:
        """Whether it is healthy. If not, it is closed, and first what rests on it."""
        if providers.is_healthy(live):
            return True
        with self._lock:
            useless = [each for each in self._resting_on(live) if each in self._all]
            for each in useless:
                self._open.pop(each.provider.key)
                self._all.remove(each)
        for each in useless:
            self.close_one(each)
        return False

    def _resting_on(self, live: Opened | None) -> list[Opened]:
        """It and what was made with it, the newest first."""
        if live is None or not self.is_open(live):
            return []
        found = [live]
        for each in self._open.values():
            if any(below in found for below in each.rests_on):
                found.append(each)
        return found[::-1]

    def _on_this_loop(self, key: str) -> Opened:
        """One that was opened on the loop that runs here. Raises ResourceNeedsLoop."""
        try:
            side = self._loops.get(asyncio.get_running_loop())
        except RuntimeError:
            side = None
        live = side.open.get(key) if side is not None else None
        if live is None:
            raise errors.ResourceNeedsLoop(key)
        return live

    def on_loop(self) -> LoopResources:
        """What is open on the running loop."""
        return self._loops.setdefault(asyncio.get_running_loop(), LoopResources(self))

    # -- closing ---------------------------------------------------------------------------------

    def close_one(self, live: Opened) -> None:
        why = providers.closed(live)
        if why:
            self.warn(why)

    async def close_loop(self) -> None:
        """Close what was opened on the running loop: it cannot outlive it."""
        side = self._loops.pop(asyncio.get_running_loop(), None)
        if side is not None:
            await side.close()

    def close(self) -> None:
        """Close everything, in reverse order; what cannot be closed is told, and hides nothing."""
        with self._lock:
            self._closed = True
            opened, self._all = self._all, []
            sides = list(self._loops.values())
            self._open.clear()
            self._loops.clear()
        why = "its event loop is over, or another one; close the AsyncOutlast on the loop that it was used on"
        for live in [live for side in sides for live in reversed(side.all) if live.end]:
            self.warn(providers.trouble(live, why))
        for live in reversed(opened):
            self.close_one(live)


# -- on an event loop --------------------------------------------------------------------------------


class LoopResources:
    """What is open on one loop. Plain resources are everybody's and stay where they are."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._turns: dict[str, asyncio.Lock] = {}  # who opens or looks after one waits for nobody else's
        self.open: dict[str, Opened] = {}
        self.all: list[Opened] = []

    async def prepare(self, key: str, check: bool) -> None:
        """Open it if it has to be awaited and is not open; with `check` an open one is asked whether it is healthy.

        Raises ResourceMissing, ResourceCycle.
        """
        if self._resources.needs_loop(key) and (check or key not in self.open):
            await self._ready(key, check)

    async def _ready(self, key: str, check: bool) -> Opened:
        if not self._resources.needs_loop(key):
            return self._resources.ready(key, check)
        providers.refuse_cycle(key)
        async with self._turns.setdefault(key, asyncio.Lock()):
            while True:
                live = await self._open(key, check)
                if live is not None:
                    return live

    async def _open(self, key: str, check: bool) -> Opened | None:
        """One that is of use. None: what it rests on was closed while it was opened; it has to be opened again."""
        self._resources.refuse_closed(key)
        provider = self._resources.provider(key)
        assert provider is not None
        needs = {name: await self._ready(each, check) for name, each in provider.needs.items()}
        live = self.open.get(key)
        if live is not None:
            same = live.provider is provider and live.rests_on == tuple(needs.values())
            if same and (not check or await _is_healthy(live)):
                return live
            await self._discard(live)
        live = await _opened(provider, needs)
        if all(self.open.get(each.provider.key) is each or self._resources.is_open(each) for each in live.rests_on):
            self.open[key] = live
            self.all.append(live)
            return live
        await self._close_one(live)
        return None

    async def _discard(self, live: Opened) -> None:
        """Close one that is of no use any more, and first what rests on it."""
        for each in [one for one in self.open.values() if live in one.rests_on]:
            await self._discard(each)
        if live in self.all:
            del self.open[live.provider.key]
            self.all.remove(live)
            await self._close_one(live)

    async def _close_one(self, live: Opened) -> None:
        try:
            given = live.end() if live.end is not None else None
            if inspect.isawaitable(given):
                await given
        except Exception as error:
            self._resources.warn(providers.trouble(live, f"{type(error).__name__}: {error}"))

    async def close(self) -> None:
        while self.all:
            await self._close_one(self.all.pop())
        self.open.clear()


@calls_user_code
async def _is_healthy(live: Opened) -> bool:
    try:
        given = providers.ask_health(live)
        return bool(await given if inspect.isawaitable(given) else given)
    except Exception:
        return False


@calls_user_code
async def _opened(provider: Provider, needs: Mapping[str, Opened]) -> Opened:
    """Open it on this loop."""
    with providers.opening(provider.key):
        made = provider.factory(**{name: each.value for name, each in needs.items()})
        value, end = (made, None) if provider.is_value else await _entered(provider.key, made)
    return Opened(provider, value, providers.ending(provider, value, end), tuple(needs.values()))


@calls_user_code
async def _entered(key: str, made: Any) -> tuple[Any, Callable[[], Any] | None]:
    if inspect.iscoroutine(made):
        made = await made
    if inspect.isasyncgen(made):
        return await _first(key, made), partial(_rest, key, made)
    if contextlib.AbstractAsyncContextManager in type(made).__mro__:
        return await made.__aenter__(), partial(made.__aexit__, None, None, None)
    return providers.entered(key, made)


@calls_user_code
async def _first(key: str, made: AsyncGenerator[Any, Any]) -> Any:
    async for value in made:
        return value
    raise ResourceInvalid(key, "its factory yields nothing; let it yield the object once")


async def _rest(key: str, made: AsyncGenerator[Any, Any]) -> None:
    async for _ in made:
        await made.aclose()
        raise ResourceInvalid(key, "its factory yields twice; let it yield the object once, and close it after that")
