"""The run's state: small values by name, kept as JSON so that reads are copies and sizes are known.

And the resources that one run has asked for: noted in its journal, so that a resume can say first what is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.errors import Refused
from outlast.flows.loading import lasting
from outlast.runs.attempt import CURRENT, Attempt
from outlast.values.codec import decode, pack_json

if TYPE_CHECKING:
    from outlast.resources.resources import Resources
    from outlast.runs.journal_writer import JournalWriter
    from outlast.runs.live import Executor

_GONE = b""


class State(MutableMapping[str, Any]):
    """`run.state`. In a step, writes belong to the attempt and take effect when it succeeds."""

    def __init__(self, limit_bytes: int) -> None:
        self._values: dict[str, bytes] = {}
        self.dirty: dict[str, bytes] = {}  # what the body wrote since the last receipt
        self._limit = limit_bytes

    def __getitem__(self, name: str) -> Any:
        raw = self._overlay().get(name, self._values.get(name, _GONE))
        if raw == _GONE:
            raise KeyError(name)
        return decode(raw)

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise errors.NameInvalid("state key", repr(name), "it must be text")
        self._write(name, pack_json(value, f"state[{name!r}]"))

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._write(name, _GONE)

    def __iter__(self) -> Iterator[str]:
        merged = self._values | self._overlay()
        return iter([name for name, raw in merged.items() if raw != _GONE])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(known == name for known in self)

    def __repr__(self) -> str:
        return f"State({dict(self)!r})"

    # -- for the runtime -------------------------------------------------------------------------

    def apply(self, wrote: Mapping[str, bytes]) -> None:
        """Take what a step wrote: live when it succeeds, on replay from its receipt."""
        for name, raw in wrote.items():
            if raw == _GONE:
                self._values.pop(name, None)
            else:
                self._values[name] = raw

    def merge(self, all_wrote: Iterable[Mapping[str, bytes]]) -> None:
        """Take what the calls of a map wrote, in their order. Raises StateTooLarge, and takes nothing.

        The journal has them in the order in which they ended; where that matters, the body says how it came out.
        """
        merged: dict[str, bytes] = {}
        several: set[str] = set()
        for wrote in all_wrote:
            several |= merged.keys() & wrote.keys()
            merged |= wrote
        self._check_size({**self._values, **merged}, f"state[{next(iter(merged), '')!r}]")
        self.apply(merged)
        self.dirty |= {name: merged[name] for name in several}

    def take_dirty(self) -> dict[str, bytes] | None:
        """The same, once: for the receipt that says it."""
        if not self.dirty:
            return None
        dirty, self.dirty = self.dirty, {}
        return dirty

    def _overlay(self) -> dict[str, bytes]:
        attempt = _attempt()
        return (attempt.wrote or {}) if attempt else {}

    def _write(self, name: str, raw: bytes) -> None:
        attempt = _attempt()
        self._check_size({**self._values, **self._overlay(), name: raw}, f"state[{name!r}]")
        if attempt is None:
            self.apply({name: raw})
            self.dirty[name] = raw
        elif attempt.closed:
            raise Refused(detail=f"an attempt that is over cannot write state[{name!r}]")
        else:
            attempt.wrote = {**(attempt.wrote or {}), name: raw}

    def _check_size(self, values: Mapping[str, bytes], path: str) -> None:
        size = sum(len(key.encode()) + len(value) for key, value in values.items())
        if size > self._limit:
            raise errors.StateTooLarge(path, size, self._limit)


def _attempt() -> Attempt | None:
    frame = CURRENT.get()
    return frame.attempt if frame else None


class Needs:
    """What an execution needs. One that is open already is looked after when this execution first asks for it."""

    def __init__(self, executor: Executor, writer: JournalWriter, known: Iterable[str]) -> None:
        self._home, self._live, self._writer = executor.home, executor.live, writer
        self._known = set(known)
        self._met: set[str] = set()  # by this execution
        self._turns: dict[str, threading.Lock] = {}

    @property
    def _resources(self) -> Resources:
        return self._live.resources  # most executions ask for none

    def get(self, key: str, *, again: bool = False) -> Any:
        """The live object. `again`: an attempt before failed, maybe because of it.

        Raises ResourceMissing, ResourceCycle, ResourceNeedsLoop.
        """
        self._note([key])
        if key in self._met:
            return self._resources.get(key, check=again)
        turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # who asks meanwhile waits until it is known whether the object is of any use
            found = self._resources.get(key, check=again or key not in self._met)
            self._met.add(key)
            return found

    def get_all(self, wanted: Mapping[str, str], *, again: bool) -> dict[str, Any]:
        """The same for the parameters of a step."""
        self._note(wanted.values())
        return {name: self.get(key, again=again) for name, key in wanted.items()}

    async def open_on_loop(self, keys: Iterable[str], *, again: bool = False) -> None:
        """Open those of them that have to be awaited: `get` finds them afterwards."""
        keys = list(keys)
        self._note(keys)
        for key in keys:
            if self._resources.needs_loop(key):
                await self._resources.on_loop().prepare(key, again or key not in self._met)
                self._met.add(key)

    def _note(self, keys: Iterable[str]) -> None:
        """All of them before the first is asked for: if it is missing, so may be the others."""
        for key in keys:
            if key not in self._known:
                self._known.add(key)
                self._writer.note(self._writer.fact("run", "needs", self._facts(key)))

    def _facts(self, key: str) -> dict[str, Any]:
        """What to note: of a registered one also where its function is, to be found without loading it."""
        provider = self._resources.provider(key)
        if provider is None or not provider.is_registered:
            return {"resource": key}
        return {"resource": key, "made_by": [lasting(provider.file, self._home.project), provider.qualname]}
