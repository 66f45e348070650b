"""The journal of a run: one append-only, chained sequence of entries.

A receipt is an entry about one attempt of a step or effect; other entries are values the body was given,
events it emitted, decisions people made and facts about the run itself. The header is hashed as it is
stored and carries the payload's digest, so a payload can be pruned and the chain still proves the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from outlast.errors import IntegrityBroken
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

STATUSES = ("started", "succeeded", "failed", "interrupted", "timed_out", "cancelled", "skipped")
CALLS = ("step", "effect")  # kinds whose entries are receipts
NOTES = ("interrupt", "artifact")  # kinds that tell who watches, and steer nothing
TESTIMONY = "testimony"  # kind and mark of what others wrote: shown beside receipts, never taken for one


class Header(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the chain proves about one entry. Fields are stored in this order.

    `check` finds the payload's digest at the end without decoding: it stays the last one.
    """

    kind: str  # step, effect, value, sleep, spawn, emit, wait, decision, run, interrupt, artifact, testimony
    name: str
    scope: str = ""
    inputs: str = ""  # digest of the inputs, or `=id` when the call was given an id
    occurrence: int = 0  # which of the equal calls
    attempt: int = 0
    status: str = ""
    delivered: bool = False  # the flow has been given this outcome: it is final
    mark: str = ""  # probed, not_done, confirmed, reused, decided; of an event: progress, fact
    agent: str = ""
    started_at: int = 0
    ended_at: int = 0
    key: str = ""  # of an effect: the same on every attempt of the call; of an event or a note: the call it is about
    code: str = ""  # digest of the step's code
    epoch: int = 0
    trace_id: str = ""
    seen: str = ""  # digest of the inputs when `inputs` is an id; before it, of a map's call, `12#`: its item
    payload: str = ""  # digest of the payload, if there is one

    @property
    def item(self) -> int:
        """Of a map's call: which item it is of, counted from 1; else 0."""
        number, sign, _ = self.seen.partition("#")
        return int(number) if sign else 0

    @property
    def seen_inputs(self) -> str:
        """The digest of the inputs, when `inputs` is an id."""
        return self.seen.rpartition("#")[2]


class Payload(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """What an entry carries. Absent fields take no room."""

    place: list[str] | None = None  # file and qualified name of the code, with its first receipt; stays first
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    blob: str = ""  # digest of the blob that holds the result
    error: dict[str, Any] | None = None
    wrote: dict[str, msgspec.Raw] | None = None  # state the step wrote: applied again on replay
    state: dict[str, msgspec.Raw] | None = None  # state the body wrote since the entry before
    done: str = ""
    next: str = ""
    artifacts: list[str] = []
    facts: Any = None
    masked: int = 0  # of an event: how many secrets were masked in what it says


class Entry(NamedTuple):
    """An entry before it has its place in the chain."""

    header: bytes
    payload: bytes | None
    blobs: tuple[str, ...] = ()


class Row(NamedTuple):
    """An entry as stored."""

    seq: int
    header: bytes
    hash: bytes
    payload: bytes | None


encode_header = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode
encode_payload = msgspec.json.Encoder().encode
decode_payload = msgspec.json.Decoder(Payload).decode


def entry(header: Header, payload: Payload | None = None) -> Entry:
    """An entry whose header proves its payload."""
    raw = encode_payload(payload) if payload is not None else b"{}"
    if payload is None or raw == b"{}":
        return Entry(encode_header(header), None)
    proven = msgspec.structs.replace(header, payload=digest(raw))
    return Entry(encode_header(proven), raw, (payload.blob,) if payload.blob else ())


def genesis(run_id: str, flow: str, task: str, inputs_digest: str) -> bytes:
    """The hash before the first entry: it ties a chain to its run, so entries of another run do not fit."""
    return sha256(f"outlast run\n{run_id}\n{flow}\n{task}\n{inputs_digest}".encode()).digest()


def genesis_of_anchor(anchor_id: str, scope: str, anchor: str) -> bytes:
    """The same for the journal of a handoff's anchor."""
    return sha256(f"outlast handoff\n{anchor_id}\n{scope}\n{anchor}".encode()).digest()


def print_of(header: bytes) -> str:
    """A header, in short: what a mark remembers of an older entry."""
    return sha256(header).hexdigest()[:32]


def link(before: bytes, header: bytes) -> bytes:
    """The hash of an entry that follows `before`."""
    return sha256(before + header).digest()


class Break(NamedTuple):
    """The first entry of a chain that is not what was stored, and why."""

    record: str
    why: str

    def as_error(self) -> IntegrityBroken:
        return IntegrityBroken(self.record, self.why)


def check(run_id: str, start: bytes, rows: Iterable[Row], head: int, head_hash: bytes, first: int = 1) -> Break | None:
    """Walk a chain from its first entry on: None when every one is what was stored, in its place, and none is missing.

    A later `first` walks only the end of it: `start` is then the hash of the entry before.
    """
    before, expected = start, first
    try:
        for seq, header, entry_hash, payload in rows:
            if seq != expected:
                return Break(f"entry {run_id}/{expected}", f"it is missing (the next one is {seq})")
            if link(before, header) != entry_hash:
                return Break(f"entry {run_id}/{seq}", "its header or its place in the chain was changed")
            if payload is not None:
                if header[-66:-2] != sha256(payload).hexdigest().encode():
                    return Break(f"entry {run_id}/{seq}", "its payload was changed")
            elif not header.endswith(b',""]'):  # the header names one
                return Break(f"entry {run_id}/{seq}", "its payload is missing")
            before, expected = entry_hash, seq + 1
    except (TypeError, AttributeError):  # a table that is no longer strict: something in it is no blob
        return Break(f"entry {run_id}/{expected}", "it is nothing that a store wrote")
    if (expected - 1, before) != (head, head_hash):
        first = head + 1 if expected - 1 > head else min(expected, head)  # one too many, or the first one missing
        return Break(f"entry {run_id}/{first}", f"the chain ends at {expected - 1}, recorded was {head}")
    return None
