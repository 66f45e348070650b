"""Which entries of a chain are not what was stored: each is judged by itself, and says nothing of the others.

An entry is believed if the chain ties it to the run's beginning or to its recorded end, and its payload is the one that
its header names. The first one after others that are gone has nothing before it to be compared with: it is believed
as far as nothing can happen twice by that (`UNTIED`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from outlast.ledger.journal import Break, Header, Row, decode_header, decode_payload, encode_header, link
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

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
        why = "its payload is missing" if row.payload is None else "its payload was changed"
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
        return header.kind != LOST and header.payload == (digest(row.payload) if row.payload is not None else "")
    except TypeError:
        return False


def read_header(raw: bytes) -> Header:
    """A header as far as it can be read: of one that no store wrote, that it is lost."""
    try:
        return decode_header(raw)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return decode_header(_LOST)


def read_facts(row: Row) -> dict[str, Any]:
    """The facts that an entry carries; none when they are not those that its header names."""
    facts = decode_payload(row.payload).facts if row.payload is not None and _has_its_payload(row) else None
    return facts if isinstance(facts, dict) else {}


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
    return [(seq, Break(f"entry {run_id}/{seq}", _with_more(why, more))) for seq, more, why in told]


def _with_more(why: str, more: int) -> str:
    return f"{why}, nor {more} after it" if more else why
