"""The journal of a run: one append-only, chained sequence of entries.

A receipt is an entry about one attempt of a step or effect; other entries are values the body was given,
events it emitted, decisions people made and facts about the run itself. The header is hashed as it is
stored and carries the payload's digest, so a payload can be pruned and the chain still proves the rest.

Which entries of a chain are not what was stored: each is judged by itself, and says nothing of the others.

An entry is believed if the chain ties it to the run's beginning or to its recorded end, and its payload is the one that
its header names. The first one after others that are gone has nothing before it to be compared with: it is believed
as far as nothing can happen twice by that (`UNTIED`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from outlast import errors
from outlast.ledger.entry import Header as Header
from outlast.ledger.entry import Payload as Payload
from outlast.values.codec import digest, sha256
from outlast.values.frozen import NamedTuple, Protocol

STATUSES = ("started", "succeeded", "failed", "interrupted", "timed_out", "cancelled", "skipped")
CALLS = ("step", "effect")  # kinds whose entries are receipts
NOTES = ("interrupt", "artifact")  # kinds that tell who watches, and steer nothing
# Types of interrupts that no flow may call its own questions: answers to the first decide about a call of the run, of
# the next no person is asked.
OF_A_CALL = ("in_doubt", "crash_loop", "inputs_changed", "partial")
BY_THEMSELVES = ("timer", "child", "signal")
RESERVED = (*OF_A_CALL, *BY_THEMSELVES, "limit")
TESTIMONY = "testimony"  # kind and mark of what others wrote: shown beside receipts, never taken for one


class JournalEntry(NamedTuple):
    """An entry before it has its place in the chain."""

    header: bytes
    payload: bytes | None
    blobs: tuple[str, ...] = ()


made_entry: Callable[[tuple[bytes, bytes | None, tuple[str, ...]]], JournalEntry] = partial(tuple.__new__, JournalEntry)


class Later(Protocol):
    """Where the payloads of a long journal are read when somebody asks for one: as they are stored now."""

    of: str  # whose journal it is, in the names of its entries

    def stored(self, seq: int) -> bytes | None: ...


class Row(msgspec.Struct, frozen=True, gc=False):
    """An entry as stored. A long payload that was looked at may have been left where it is (`leave`)."""

    seq: int
    header: bytes
    hash: bytes
    kept: bytes | Later | None  # the payload, or where it was left

    @property
    def payload(self) -> bytes | None:
        """What it carries. Raises IntegrityBroken when it was left, and is not any more what it was then."""
        kept = self.kept
        if kept is None or type(kept) is bytes:
            return kept
        found = self.stored
        if found is None or self.header[-66:-2] != sha256(found).hexdigest().encode():
            record = f"entry {kept.of}{self.seq}"  # type: ignore[union-attr]
            raise errors.IntegrityBroken(record, "its payload was changed or removed while it was looked at")
        return found

    @property
    def stored(self) -> bytes | None:
        """The same, whatever its header says of it."""
        kept = self.kept
        return kept if kept is None or type(kept) is bytes else kept.stored(self.seq)  # type: ignore[union-attr]

    @property
    def told(self) -> bytes | None:
        """What it carries beside a result that was left: then nothing."""
        return self.kept if type(self.kept) is bytes else None

    def says(self, mark: bytes) -> bool:
        """Whether what it carries has this in it; what was left has nothing that anyone looks for (`leave`)."""
        told = self.told
        return told is not None and told.find(mark) >= 0  # `in` is three times as slow for bytes


encode_header = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode
encode_payload = msgspec.json.Encoder().encode
decode_payload = msgspec.json.Decoder(Payload).decode


def entry(header: Header, payload: Payload | None = None) -> JournalEntry:
    """An entry whose header proves its payload."""
    raw = encode_payload(payload) if payload is not None else b"{}"
    if payload is None or raw == b"{}":
        return JournalEntry(encode_header(header), None)
    proven = msgspec.structs.replace(header, payload=digest(raw))
    return JournalEntry(encode_header(proven), raw, (payload.blob,) if payload.blob else ())


def genesis(run_id: str, flow: str, task: str, inputs_digest: str) -> bytes:
    """The hash before the first entry: it ties a chain to its run, so entries of another run do not fit."""
    return sha256(f"outlast run\n{run_id}\n{flow}\n{task}\n{inputs_digest}".encode()).digest()


def genesis_of_anchor(anchor_id: str, scope: str, anchor: str) -> bytes:
    """The same for the journal of a handoff's anchor."""
    return sha256(f"outlast handoff\n{anchor_id}\n{scope}\n{anchor}".encode()).digest()


def chain_of(anchor: str) -> str:
    """What an anchor's journal is called where one of its entries is named: `entry handoff task:x/4`."""
    return f"handoff {anchor}"


_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def facts_of(payload: bytes | None) -> msgspec.Raw:
    """What an entry carries, as the bytes it was written in. Raises MsgspecError, KeyError."""
    return _decode_raw(payload or b"{}")["facts"]


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

    def as_error(self) -> errors.IntegrityBroken:
        return errors.IntegrityBroken(self.record, self.why)


def check(run_id: str, start: bytes, rows: Iterable[Row], head: int, head_hash: bytes, first: int = 1) -> Break | None:
    """Walk a chain from its first entry on: None when every one is what was stored, in its place, and none is missing.

    A later `first` walks only the end of it: `start` is then the hash of the entry before.
    """
    before, expected = start, first
    try:
        for row in rows:
            header, entry_hash, payload = row.header, row.hash, row.kept
            if row.seq != expected:
                return Break(f"entry {run_id}/{expected}", f"it is missing (the next one is {row.seq})")
            if sha256(before + header).digest() != entry_hash:  # `link`, written out
                return Break(f"entry {run_id}/{expected}", "its header or its place in the chain was changed")
            if payload is not None:
                if header[-66:-2] != sha256(payload).hexdigest().encode():  # type: ignore[arg-type]
                    return Break(f"entry {run_id}/{expected}", "its payload was changed")
            elif not header.endswith(b',""]'):  # the header names one
                return Break(f"entry {run_id}/{expected}", "its payload is missing")
            before, expected = entry_hash, expected + 1
    except (TypeError, AttributeError):  # a table that is no longer strict: something in it is no blob
        return Break(f"entry {run_id}/{expected}", "it is nothing that a store wrote")
    if (expected - 1, before) != (head, head_hash):
        first = head + 1 if expected - 1 > head else min(expected, head)  # one too many, or the first one missing
        return Break(f"entry {run_id}/{first}", f"the chain ends at {expected - 1}, recorded was {head}")
    return None


PAYLOAD, ENTRY, UNTIED = "payload", "entry", "untied"  # what is wrong: what it carries, all of it, what came before
LOST = "lost"  # kind of an entry of which nobody knows any more what it was about
_LOST = encode_header(Header(LOST, "entry"))

NO_PLACE = "its header or its place in the chain was changed"
ADRIFT = "nothing ties it to the beginning or the end of its chain"
BEYOND = "it lies after the recorded end of its chain"
OTHER_END = "it is not the one that was recorded as the last"


class Flaw(NamedTuple):
    """What is wrong with one entry."""

    kind: str
    why: str = ""


Flaws = Mapping[int, Flaw]  # by seq
UNDAMAGED: Flaws = {}
SOUND = Flaw("")


def examine(start: bytes, rows: Sequence[Row], head: int, head_hash: bytes) -> dict[int, Flaw]:
    """What is wrong with the entries of a chain that is broken. Of several missing ones in a row the first is named."""
    own = [row for row in rows if row.seq <= head]
    flaws = {row.seq: Flaw(ENTRY, BEYOND) for row in rows[len(own) :]}
    joined = [_is_joined(start, own, place) for place in range(len(own))]
    prefix = _first(joined, False)
    tied_to_end = bool(own) and (own[-1].seq, own[-1].hash) == (head, head_hash)
    suffix = len(own) - 1 - _first(joined[::-1], False) if tied_to_end else len(own)
    for place, row in enumerate(own):
        flaw = _flaw(row, place, prefix, suffix, is_after_gap=_is_after_gap(own, place))
        if flaw is not None:
            flaws[row.seq] = flaw
    flaws.update(_missing(own, head))
    if prefix == len(own) and not tied_to_end and own and own[-1].seq == head:
        flaws[head] = Flaw(ENTRY, OTHER_END)
    return dict(sorted(flaws.items()))


def _flaw(row: Row, place: int, prefix: int, suffix: int, *, is_after_gap: bool) -> Flaw | None:
    """What is wrong with an entry. `prefix`: so many are tied to the beginning; `suffix`: from there on, to the end."""
    if place >= prefix and place < suffix:
        return Flaw(ENTRY, NO_PLACE if place == prefix and not is_after_gap else ADRIFT)
    is_first_of_end = place == suffix >= prefix
    if is_first_of_end and place == prefix and not is_after_gap:  # what is before it is sound
        return Flaw(ENTRY, NO_PLACE)
    if not _has_its_payload(row):
        why = "its payload is missing" if row.stored is None else "its payload was changed"
        return Flaw(ENTRY if is_first_of_end else PAYLOAD, why)
    return Flaw(UNTIED) if is_first_of_end else None


def _is_joined(start: bytes, rows: Sequence[Row], place: int) -> bool:
    """Whether an entry follows the one before it. That one's hash may have been changed alone: then it is made anew."""
    if _is_after_gap(rows, place):
        return False
    row, before = rows[place], rows[place - 1].hash if place else start
    try:
        if link(before, row.header) == row.hash:
            return True
        if not place or _is_after_gap(rows, place - 1):
            return False
        made = link(rows[place - 2].hash if place > 1 else start, rows[place - 1].header)
        return link(made, row.header) == row.hash
    except (TypeError, AttributeError):  # a table that is no longer strict: something in it is no blob
        return False


def _is_after_gap(rows: Sequence[Row], place: int) -> bool:
    return rows[place].seq != (rows[place - 1].seq + 1 if place else 1)


def _missing(rows: Sequence[Row], head: int) -> Iterator[tuple[int, Flaw]]:
    expected = 1
    for row in rows:
        if row.seq != expected:
            yield expected, Flaw(ENTRY, _gone(expected, row.seq - 1))
        expected = row.seq + 1
    if expected <= head:
        yield expected, Flaw(ENTRY, _gone(expected, head))


def _gone(first: int, last: int) -> str:
    """The same words for a gap that was the end of a chain, and for the gap that it is once the run has gone on."""
    return "it is missing" if first == last else f"it is missing, and all up to entry {last}"


def _first(found: Sequence[bool], wanted: bool) -> int:
    return next((place for place, each in enumerate(found) if each is wanted), len(found))


def _has_its_payload(row: Row) -> bool:
    header = read_header(row.header)
    try:
        found = row.stored
        return header.kind != LOST and header.payload == (digest(found) if found is not None else "")
    except TypeError:
        return False


def leave(row: Row, later: Later) -> Row:
    """The same row, its payload left where it is, if that is a result with its inputs and nothing else.

    What the work reported is left too, but for its phase. Whatever steers a resume, or is looked for among entries,
    stays in hand.
    """
    payload = row.payload
    is_event = row.header.startswith(b'["emit"') and not row.header.startswith(b'["emit","phase"')
    if payload is None or not _is_plain(payload, is_event):
        return row
    return Row(row.seq, row.header, row.hash, later)


def _is_plain(raw: bytes, is_event: bool) -> bool:
    try:
        said = decode_payload(raw)
    except msgspec.DecodeError:
        return False
    told = said.place or said.blob or said.error or said.wrote or said.state or said.artifacts or said.done or said.next
    return not told and (is_event or (said.facts is None and said.result is not msgspec.UNSET))


def read_header(raw: bytes) -> Header:
    """A header as far as it can be read: of one that no store wrote, that it is lost."""
    try:
        return decode_header(raw)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return decode_header(_LOST)


def read_facts(row: Row) -> dict[str, Any]:
    """The facts that an entry carries; none when they are not those that its header names."""
    return facts_in(row) if row.payload is not None and _has_its_payload(row) else {}


def facts_in(row: Row) -> dict[str, Any]:
    """The facts that an entry of a chain carries which was checked; none where it has none."""
    facts = decode_payload(row.payload).facts if row.payload else None
    return facts if isinstance(facts, dict) else {}


RESULT, _NO_RESULT = b'{"result":', b'{"in":{'  # how payloads begin that say nothing of where the code is
_INPUTS = b',"in":{'  # they come last


def result_in(payload: bytes | None) -> bytes:
    """The result, where a payload has nothing else but the inputs; else what is no JSON.

    Whatever else comes after a result, or has such words in it, leaves a comma behind it or cuts it short.
    """
    if payload is not None and payload.startswith(RESULT):
        return payload[len(RESULT) : payload.rfind(_INPUTS)]
    return b"null" if payload is None or payload.startswith(_NO_RESULT) else b""


def legible(rows: Iterable[Row], flaws: Flaws) -> list[Row]:
    """The entries as they can be read without harm: what a damaged one carries is left out, and a gap is an entry."""
    found = {row.seq: _legible(row, flaws[row.seq]) if row.seq in flaws else row for row in rows}
    gaps = {seq: Row(seq, _LOST, b"", None) for seq in flaws if seq not in found}
    return [row for _, row in sorted((found | gaps).items())]


def _legible(row: Row, flaw: Flaw) -> Row:
    if flaw.kind == UNTIED:
        return row
    lost = read_header(row.header).kind == LOST
    return Row(row.seq, _LOST if lost else row.header, row.hash, None)


def breaks_of(run_id: str, flaws: Flaws) -> list[tuple[int, Break]]:
    """Each damaged record by its name, with the seq of its entry. Of equal ones in a row the first, and how many."""
    told: list[tuple[int, int, str]] = []  # first seq, how many more, why
    for seq, flaw in flaws.items():
        if flaw.kind == UNTIED:
            continue
        if told and told[-1][2] == flaw.why == ADRIFT and seq == sum(told[-1][:2]) + 1:
            told[-1] = (told[-1][0], told[-1][1] + 1, flaw.why)
        else:
            told.append((seq, 0, flaw.why))
    each = ((seq, f"{why}, nor {more} after it" if more else why) for seq, more, why in told)
    return [(seq, Break(f"entry {run_id}/{seq}", why)) for seq, why in each]
