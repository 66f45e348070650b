"""Every event by its name, and what its body carries: the table of docs/events.md, as code.

A name may end with `.*` (a word that the flow or a status gives). Of a body that is no object the table says `value`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

ERROR = ("type", "message", "trace", "code", "args")
WAIT = ("id", "type", "step")

EVENTS: Mapping[str, tuple[str, ...]] = {
    "run.started": ("flow", "task", "actor", "parent", "code", "origin"),
    "run.again": ("of", "by", "effects"),
    "run.fresh": ("of", "by", "effects"),
    "run.forked": ("of", "step", "call", "to", "by", "why", "effects", "reuse_effects", "inputs", "state"),
    "run.resumed": ("from", "verdict", "reasons", "code"),
    "run.accepted": ("fingerprint", "why", "actor", "code", "weight", "subject", "expected", "found", "advice"),
    "run.waiting": ("interrupts", "state", "removed", "code_changed"),
    "run.succeeded": ("result", "result_blob", "state", "removed", "unasked", "inputs_changed", "code_changed", "code"),
    "run.failed": ("error", "ended_by", "state", "removed", "code_changed"),
    "run.retrying": ("retry", "of", "due", "error", "ended_by"),
    "run.interrupted": ("by", "error", "state", "removed", "code_changed"),
    "run.aborted": ("why", "by"),
    "run.pausing": (),
    "run.rewound": ("to", "by", "why", "from"),
    "run.reached": ("call",),
    "run.needs": ("resource", "made_by"),
    "run.claimed": ("by", "claim", "why", "silent_at"),
    "run.released": ("by", "missing", "note"),
    "run.taken": ("from", "by", "why"),
    "run.checked": ("by", "evidence"),
    "run.moved": ("by",),
    "run.mark": ("loops", "keep", "state", "removed", "last", "done", "outputs"),
    "run.left": ("call", "attempt", "left", "transcript"),
    "run.displaced": ("step", "files", "by"),
    "run.still_running": ("step", "pgid"),
    "run.testimony": ("folder", "by"),
    "step.*": ERROR,
    "effect.*": ERROR,
    "testimony.*": (),
    "interrupt.opened": (
        *WAIT,
        "says",
        "payload",
        "digest",
        "assignee",
        "deadline",
        "choices",
        "schema",
        "default",
    ),
    "interrupt.answered": (*WAIT, "by", "answer", "answer_bytes"),
    "interrupt.expired": (*WAIT, "default"),
    "interrupt.cancelled": (*WAIT, "by", "why"),
    "wait.*": ("by", "interrupt", "type", "answer", "why"),
    "decision.*": ("by", "interrupt", "why", "was"),
    "child.started": ("child", "flow", "task"),
    "child.succeeded": ("child", "status", "cancelled"),
    "child.failed": ("child", "status", "cancelled"),
    "child.cancelled": ("child", "status", "cancelled"),
    "checkpoint.recorded": ("id", "name", "summary", "refs"),
    "artifact.saved": ("ref", "name", "summary", "digest", "media_type", "size"),
    "sleep.*": ("due", "over"),
    "value.*": ("value",),
    "phase": ("value",),
}


def fields_of(name: str) -> tuple[str, ...] | None:
    """What the body of an event of ours may carry; None for a name that is not in the table."""
    found = EVENTS.get(name)
    if found is not None:
        return found
    return next((fields for like, fields in EVENTS.items() if like.endswith("*") and fnmatchcase(name, like)), None)
