"""What entries of journals say that somebody did, in words; the headers that cannot say it are told at a glance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from outlast.errors import OutlastError
from outlast.ledger.journal import CALLS, Header, decode_header
from outlast.values.ambient import notice
from outlast.values.codec import digest

if TYPE_CHECKING:
    from outlast.store.contract import Reading
    from outlast.store.contract.runs import HeaderRow

OF_RUN = {
    "started": "started",
    "again": "started again",
    "fresh": "started afresh",
    "forked": "forked",
    "resumed": "resumed",
    "accepted": "accepted",
    "aborted": "aborted",
    "pausing": "paused",
    "rewound": "rewound",
    "claimed": "claimed",
    "taken": "took over",
    "released": "released",
    "checked": "checked",
    "displaced": "put files back",
    "moved": "moved to another home",
}
OF_HANDOFF = {
    "stored": "stored",
    "claimed": "claimed",
    "lost": "was refused the claim",
    "accepted": "accepted",
    "checked": "checked",
    "settled": "settled",
    "released": "released",
}
OF_INTERRUPT = {"answered": "answered", "cancelled": "cancelled"}
BY_A_PERSON = ("decided", "reused")  # marks of a call whose outcome somebody gave


class _Facts(Struct, frozen=True):
    """What is read of an entry: whatever else it carries may be long."""

    by: Any = ""
    actor: Any = ""
    why: Any = ""
    note: Any = ""
    override: Any = ""
    summary: Any = ""
    outcome: Any = ""
    type: Any = ""
    code: Any = ""
    to: Any = ""
    revision: Any = 0
    answer: Any = None


class _Carried(Struct, frozen=True):
    facts: _Facts = _Facts()


_decode = msgspec.json.Decoder(_Carried).decode
UNREADABLE = _Facts(why="it cannot be read; see `outlast verify`")


class SaidAct(Struct, frozen=True):
    """What an entry says that somebody did."""

    at: int
    who: str
    what: str
    why: str


def said_in(look: Reading, row: HeaderRow, since: int) -> SaidAct | None:
    """What an entry says that somebody did then or later; None for any other, and for one that is damaged."""
    try:
        return _said_act(look, row, since)
    except (OutlastError, ValueError, TypeError, OverflowError):
        notice(f"an entry of {row.run_id or row.anchor} is damaged; see `outlast verify`")
        return None


_OF_CALLS = (b'["step"', b'["effect"')
_MARKS = tuple(b',"%s",' % mark.encode() for mark in BY_A_PERSON)
_NAMED = ((b"run", OF_RUN), (b"handoff", OF_HANDOFF), (b"interrupt", OF_INTERRUPT))
_BEGIN = tuple(b'["%s","%s"' % (kind, name.encode()) for kind, names in _NAMED for name in names)
MAY_BE = (*_BEGIN, b'["decision"', *_OF_CALLS)


def _said_act(look: Reading, row: HeaderRow, since: int) -> SaidAct | None:
    """None for an entry of a call that went its way, or that nobody closed."""
    if row.header.startswith(_OF_CALLS) and not any(mark in row.header for mark in _MARKS):
        return None
    header = decode_header(row.header)
    if header.kind in CALLS and header.mark not in BY_A_PERSON:
        return None
    at = header.ended_at or header.started_at
    if at < since:
        return None
    said = _said(header, look.payload_at(row.key))
    if said is not UNREADABLE and not _is_by_somebody(header, said):
        return None
    who = str(said.by or said.actor or "")
    return SaidAct(at, who, _WORDS[header.kind](header, said), str(_why(said) or ""))


def _is_by_somebody(header: Header, said: _Facts) -> bool:
    """A run that went on by itself says of nobody that he resumed it."""
    return bool(said.by or said.actor) or (header.kind in ("run", "handoff") and header.name != "resumed")


def _said(header: Header, payload: bytes | None) -> _Facts:
    if payload is None or header.payload != digest(payload):
        return UNREADABLE if header.payload else _Facts()
    try:
        return _decode(payload).facts
    except msgspec.MsgspecError:
        return UNREADABLE


# -- in words ------------------------------------------------------------------------------------------


def _why(said: _Facts) -> Any:
    comment = said.answer.get("comment") if isinstance(said.answer, dict) else ""
    return said.why or said.override or said.note or comment or said.summary


def _of_run(header: Header, said: _Facts) -> str:
    more = {"accepted": said.code, "rewound": f"to {said.to}" if isinstance(said.to, str) and said.to else ""}
    return f"{OF_RUN[header.name]} {more.get(header.name) or ''}".strip()


def _of_handoff(header: Header, said: _Facts) -> str:
    more = {"stored": f"revision {said.revision}", "settled": f"as {said.outcome}"}
    return f"{OF_HANDOFF[header.name]} {more.get(header.name, '')}".strip()


def _of_interrupt(header: Header, said: _Facts) -> str:
    if header.name == "answered" and said.type == "approval" and isinstance(said.answer, dict):
        return "approved" if said.answer.get("approved") else "declined"
    if header.name == "answered" and said.type == "signal":
        return "sent a signal"
    return f"{OF_INTERRUPT[header.name]} {said.type}".strip()


def _of_call(header: Header, said: _Facts) -> str:
    return f"{'skipped' if header.mark == 'decided' else 'reused'} {header.name}"


def _decision(header: Header, said: _Facts) -> str:
    return f"retried {header.name}" if header.status == "retry" else f"decided {header.status} for {header.name}"


_WORDS: dict[str, Callable[[Header, _Facts], str]] = {
    "run": _of_run,
    "handoff": _of_handoff,
    "interrupt": _of_interrupt,
    "decision": _decision,
    "step": _of_call,
    "effect": _of_call,
}
