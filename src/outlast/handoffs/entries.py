"""The entries of an anchor's journal: what each kind of them says.

Whatever reads one reads it by these, so an entry that is not of this shape is found where it comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from outlast.clock import moment
from outlast.handoffs.handoff import Bound, Ending, Evidence, Handoff, decode_handoff

Files = dict[str, Bound]


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What every entry about a revision says."""

    by: str


class Claimed(Noted, frozen=True, kw_only=True):
    """Somebody took the claim."""

    claim: str  # in short, not the word itself
    handoff: str = ""
    revision: int = 0
    taken_from: str = ""
    why: str = ""
    files: Files | None = None  # as they were then; None: they were not there


class Attached(Noted, frozen=True, kw_only=True):
    """On what verdict the claim was given."""

    claim: str
    verdict: str
    reasons: tuple[str, ...]  # codes


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """A reason that contested."""

    code: str
    subject: str
    expected: str
    found: str
    advice: str
    weight: str


class Lost(Noted, frozen=True, kw_only=True):
    """A claim was asked for and not given."""

    reasons: tuple[Against, ...]


class Taken(Against, frozen=True, kw_only=True):
    """A reason that somebody took upon himself, as it was found."""

    fingerprint: str


class Accepted(Noted, frozen=True, kw_only=True):
    """Somebody took reasons upon himself."""

    why: str
    reasons: tuple[Taken, ...]


class Checked(Noted, frozen=True, kw_only=True):
    """Checks were run."""

    evidence: tuple[Evidence, ...]
    files: Files | None = None  # as they were then


class Settled(Noted, frozen=True, kw_only=True):
    """How the work ended. The claim is over."""

    outcome: Ending
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]
    override: str
    note: str
    acknowledged: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    handoff_id: str = ""
    revision: int = 0
    score: int = 0
    claim: str = ""
    files: Files | None = None


class Released(Noted, frozen=True, kw_only=True):
    """The claim was given back, and nothing was settled."""

    claim: str


Said = Handoff | Noted
KINDS: dict[str, type[Noted]] = {
    "claimed": Claimed,
    "attached": Attached,
    "lost": Lost,
    "accepted": Accepted,
    "checked": Checked,
    "settled": Settled,
    "released": Released,
}
UNREADABLE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_decode_payload = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@cache
def _decoder(kind: type[Noted]) -> Callable[[msgspec.Raw], Noted]:
    return msgspec.json.Decoder(kind).decode


def facts_of(payload: bytes | None) -> msgspec.Raw:
    """What an entry carries, as the bytes it was written in. Raises one of UNREADABLE."""
    return _decode_payload(payload or b"{}")["facts"]


def said_in(name: str, facts: msgspec.Raw) -> Said:
    """What an entry of this kind says: of a `stored` one the revision. Raises one of UNREADABLE."""
    if name != "stored" and name not in KINDS:
        raise ValueError(f"{name!r} is no kind of entry that a handoff has")
    said = decode_handoff(facts) if name == "stored" else _decoder(KINDS[name])(facts)
    for each in evidence_in(said):
        moment(each.at)  # what cannot be shown was never written
    return said


def evidence_in(said: Said) -> tuple[Evidence, ...]:
    """What came of checks, as the entry tells it."""
    if isinstance(said, Handoff):
        return said.baseline
    return said.evidence if isinstance(said, Checked | Settled) else ()
