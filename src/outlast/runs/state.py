"""The run's state: small values by name, kept as JSON so that reads are copies and sizes are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from outlast.errors import NameInvalid, Refused, StateTooLarge
from outlast.runs.attempt import CURRENT, Attempt
from outlast.values.codec import decode, pack_json

_GONE = b""


class State(MutableMapping[str, Any]):
    """`run.state`. In a step, writes belong to the attempt and take effect when it succeeds."""

    def __init__(self, limit_bytes: int) -> None:
        self._values: dict[str, bytes] = {}
        self._dirty: dict[str, bytes] = {}
        self._limit = limit_bytes

    def __getitem__(self, name: str) -> Any:
        raw = self._overlay().get(name, self._values.get(name, _GONE))
        if raw == _GONE:
            raise KeyError(name)
        return decode(raw)

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise NameInvalid("state key", repr(name), "it must be text")
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
        self._dirty |= {name: merged[name] for name in several}

    def take_dirty(self) -> dict[str, bytes] | None:
        """What the body wrote since the last receipt."""
        if not self._dirty:
            return None
        dirty, self._dirty = self._dirty, {}
        return dirty

    def _overlay(self) -> dict[str, bytes]:
        attempt = _attempt()
        return (attempt.wrote or {}) if attempt else {}

    def _write(self, name: str, raw: bytes) -> None:
        attempt = _attempt()
        self._check_size({**self._values, **self._overlay(), name: raw}, f"state[{name!r}]")
        if attempt is None:
            self.apply({name: raw})
            self._dirty[name] = raw
        elif attempt.closed:
            raise Refused(detail=f"an attempt that is over cannot write state[{name!r}]")
        else:
            attempt.wrote = {**(attempt.wrote or {}), name: raw}

    def _check_size(self, values: Mapping[str, bytes], path: str) -> None:
        size = sum(len(key.encode()) + len(value) for key, value in values.items())
        if size > self._limit:
            raise StateTooLarge(path, size, self._limit)


def _attempt() -> Attempt | None:
    frame = CURRENT.get()
    return frame.attempt if frame else None
