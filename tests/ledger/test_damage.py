"""Which entries of a broken chain are damaged: those that were, and no others."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.ledger.journal import (
    ADRIFT,
    ENTRY,
    LOST,
    PAYLOAD,
    UNTIED,
    Flaw,
    Header,
    Payload,
    Row,
    breaks_of,
    check,
    entry,
    examine,
    genesis,
    legible,
    link,
    read_header,
)

RUN = "r1"
START = genesis(RUN, "flow", "task", "inputs")


def chain(length: int, run: str = "", start: bytes = START) -> list[Row]:
    """Entries as a store keeps them; every third carries nothing."""
    rows, before = [], start
    for seq in range(1, length + 1):
        payload = Payload(facts={"n": seq, "run": run}) if seq % 3 else None
        made = entry(Header("step", f"s{seq}", attempt=1, status="succeeded", delivered=True), payload)
        before = link(before, made.header)
        rows.append(Row(seq, made.header, before, made.payload))
    return rows


def flaws(rows: list[Row], whole: list[Row]) -> dict[int, str]:
    """What is wrong, by seq; a chain is examined only when its check finds something."""
    head, head_hash = whole[-1].seq, whole[-1].hash
    found = examine(START, rows, head, head_hash)
    assert bool(found) == (check(RUN, START, rows, head, head_hash) is not None)
    return {seq: flaw.kind for seq, flaw in found.items()}


def edited(rows: list[Row], seq: int, **changed: object) -> list[Row]:
    return [replace(row, **changed) if row.seq == seq else row for row in rows]


places = st.integers(1, 12).flatmap(lambda length: st.tuples(st.just(length), st.integers(1, length)))


@given(places)
def test_a_changed_payload_is_that_entrys_alone_and_its_header_is_believed(place: tuple[int, int]) -> None:
    length, seq = place
    rows = chain(length)
    assert flaws(edited(rows, seq, kept=b'{"facts":1}'), rows) == {seq: PAYLOAD}


@given(places, st.sampled_from(["header", "hash"]))
def test_a_changed_header_or_hash_is_that_entrys_alone(place: tuple[int, int], what: str) -> None:
    length, seq = place
    rows = chain(length)
    changed = {"header": rows[seq - 1].header.replace(b"succeeded", b"skipped")} if what == "header" else {}
    assert flaws(edited(rows, seq, **(changed or {"hash": bytes(32)})), rows) == {seq: ENTRY}


@given(places)
def test_a_missing_entry_leaves_the_next_one_without_proof_and_all_others_with_it(place: tuple[int, int]) -> None:
    length, seq = place
    rows = chain(length)
    left = [row for row in rows if row.seq != seq]
    after = {seq + 1: UNTIED} if seq < length else {}
    assert flaws(left, rows) == {seq: ENTRY} | after


@given(places)
def test_a_cut_off_end_is_one_gap(place: tuple[int, int]) -> None:
    length, seq = place
    rows = chain(length)
    assert flaws(rows[: seq - 1], rows) == {seq: ENTRY}


@given(places, places)
def test_what_two_damaged_entries_enclose_is_tied_to_nothing(one: tuple[int, int], other: tuple[int, int]) -> None:
    rows = chain(14)
    first, last = sorted((one[1], other[1] + 2))
    spoilt = edited(edited(rows, first, header=b"?"), last, header=b"?")
    found = flaws(spoilt, rows)
    assert found == dict.fromkeys(range(first, last + 1), ENTRY)


@given(places)
def test_entries_of_another_run_are_believed_in_nothing(place: tuple[int, int]) -> None:
    length, seq = place
    rows, others = chain(length), chain(length, "other", genesis("r2", "flow", "task", "inputs"))
    found = flaws(rows[: seq - 1] + others[seq - 1 :], rows)
    assert found == dict.fromkeys(range(seq, length + 1), ENTRY)


def test_entries_in_a_row_that_are_tied_to_nothing_are_named_once_and_counted() -> None:
    rows, others = chain(9), chain(9, "other", genesis("r2", "flow", "task", "inputs"))
    told = breaks_of(RUN, examine(START, rows[:3] + others[3:], 9, rows[-1].hash))
    assert [(seq, broken.record) for seq, broken in told] == [(4, "entry r1/4"), (5, "entry r1/5")]
    assert told[1][1].why == f"{ADRIFT}, nor 4 after it"


def test_an_unbelievable_number_of_missing_entries_is_told_at_once() -> None:
    rows = chain(3)
    assert [*examine(START, rows, 10**15, bytes(32))] == [4]


@given(st.lists(st.binary(max_size=40), max_size=6), st.binary(max_size=40))
def test_whatever_lies_in_the_table_can_be_looked_at(headers: list[bytes], payload: bytes) -> None:
    rows = [Row(seq, header, bytes(32), payload) for seq, header in enumerate(headers, 1)]
    found = examine(START, rows, 4, bytes(32))
    for row in legible(rows, found):
        assert read_header(row.header).kind == LOST or row.seq not in found


def test_what_a_damaged_entry_carries_is_not_read_and_a_gap_is_an_entry() -> None:
    rows = chain(4)
    found = {2: Flaw(PAYLOAD, "changed"), 3: Flaw(ENTRY, "gone")}
    readable = legible([row for row in rows if row.seq != 3], found)
    assert [(row.seq, row.payload is None) for row in readable] == [(1, False), (2, True), (3, True), (4, False)]
    assert [read_header(row.header).kind for row in readable] == ["step", "step", LOST, "step"]
