"""Resources that have to be awaited: opened on an event loop, once for each, and closed before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast.errors import ResourceInvalid
from outlast.resources import provider as providers
from outlast.resources.provider import Opened, Provider
from outlast.values.ambient import calls_user_code

if TYPE_CHECKING:
    from outlast.resources.resources import Resources

End = Callable[[], Awaitable[Any]]


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
        if all(self._is_open(each) for each in live.rests_on):
            self.open[key] = live
            self.all.append(live)
            return live
        await self._close_one(live)
        return None

    def _is_open(self, live: Opened) -> bool:
        return self.open.get(live.provider.key) is live or self._resources.is_open(live)

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
