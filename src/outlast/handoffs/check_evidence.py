"""What became of the evidence that a handoff rests on, for its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.handoffs.verdict import Known

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def weighed(runtime: Runtime, known: Known) -> Known:
    """The recorded facts with what became of what the handoff refers to and rests on. Most rest on nothing."""
    linked = bool(known.handoff.refs) or bool(runtime.store.read(lambda look: look.links_after(0, 1)))
    if known.broken or not linked:
        return known
    from outlast.workspace.standing import against_handoff

    return against_handoff(runtime, known)
