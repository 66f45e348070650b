"""The resources that one run has asked for: noted in its journal, so that a resume can say first what is missing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from outlast.flows.loading import lasting

if TYPE_CHECKING:
    from outlast.runs.journal_writer import Pen
    from outlast.runs.live import Executor


class Needs:
    """What an execution needs. One that is open already is looked after when this execution first asks for it."""

    def __init__(self, executor: Executor, pen: Pen, known: Iterable[str]) -> None:
        self._home, self._resources, self._pen = executor.home, executor.live.resources, pen
        self._known = set(known)
        self._met: set[str] = set()  # by this execution
        self._turns: dict[str, threading.Lock] = {}

    def get(self, key: str, *, again: bool = False) -> Any:
        """The live object. `again`: an attempt before failed, maybe because of it.

        Raises ResourceMissing, ResourceCycle, ResourceNeedsLoop.
        """
        self._note([key])
        if key in self._met:
            return self._resources.get(key, check=again)
        with self._turns.setdefault(
            key, threading.Lock()
        ):  # who asks meanwhile waits until it is known whether the object is of any use
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
                self._pen.note(self._pen.fact("run", "needs", self._facts(key)))

    def _facts(self, key: str) -> dict[str, Any]:
        """What to note: of a registered one also where its function is, to be found without loading it."""
        provider = self._resources.provider(key)
        if provider is None or not provider.is_registered:
            return {"resource": key}
        return {"resource": key, "made_by": [lasting(provider.file, self._home.project), provider.qualname]}
