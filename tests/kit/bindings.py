"""Handoffs bound to files, for tests: contracts, what the store gives back, and what is seen after a change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast.files.snapshot import Binding
from outlast.handoffs.binding import bind
from outlast.handoffs.handoff import Contract, Handoff, Lint, decode_handoff, encode_handoff
from outlast.handoffs.observer import observe
from outlast.handoffs.verdict import Observed
from outlast.home.home import Home

Change = Callable[[], object]


def contract(*targets: str, **fields: Any) -> Contract:
    return Contract(anchor="a", summary="s", handoff_text="t", target_files=targets, **fields)


def stored(given: Contract, bound: Binding | None) -> Handoff:
    """A handoff that went through the store: encoded and read again."""
    fields = {name: getattr(given, name) for name in Contract.__struct_fields__}
    fixed: dict[str, Any] = {"id": "h", "scope": "default", "revision": 1, "actor": "me"}
    made = Handoff(**fields, **fixed, stored_us=1, expires_us=2, lint=Lint(100), binding=bound)
    return decode_handoff(encode_handoff(made))


def bound_and_seen(home: Home, root: Path, given: Contract, change: Change) -> tuple[Binding, Observed]:
    """What was bound, and what is observed after a change."""
    bound = bind(home, given, root)
    change()
    return bound, observe(stored(given, bound), root)
