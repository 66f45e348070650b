"""Acting for somebody else: the same runtime in the name of another actor, scope and claimer.

A server acts for whoever sends a request. What it opened is shared: store, blobs, live runs, heart and guard. What
makes up a claimer is not: whoever wants to use a claim over HTTP shows its id each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.handoffs.observer import HERE, Eyes
from outlast.home.claimer import nobody
from outlast.home.home import Runtime
from outlast.home.place import check_name

if TYPE_CHECKING:
    from outlast.commands.guard import Guard

_NOBODY = nobody()


class Acting(Runtime):
    """A runtime as somebody else sees it. It is made for one request, and never closed."""

    def __init__(
        self, base: Runtime, *, actor: str | None, scope: str | None, eyes: Eyes = HERE, key_id: str = ""
    ) -> None:
        self.__dict__.update(base.__dict__)
        self._of = base
        self.actor = base.actor if actor is None else check_name("actor", actor)
        self.scope = base.scope if scope is None else check_name("scope", scope)
        self.eyes, self.key_id = eyes, key_id or base.key_id
        self.tokens = set(base.tokens) if isinstance(base, Acting) else set()
        self.claimer = _NOBODY

    @property
    def guard(self) -> Guard:
        return self._of.guard

    def close(self, *, wait: bool = True) -> None:
        """Nothing is closed: the files belong to the runtime that this acts for."""
