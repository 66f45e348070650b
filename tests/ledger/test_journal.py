"""The chain: any change of a stored journal is found, and the record is named."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.errors import IntegrityBroken
from outlast.ledger.journal import (
    Break,
    Header,
    JournalEntry,
    Payload,
    Row,
    check,
    decode_header,
    decode_payload,
    encode_header,
    entry,
    genesis,
    link,
)
from outlast.values.codec import digest

from ..runs.stories import START, chain

names = st.text(max_size=6)
headers = st.builds(
    Header,
    st.sampled_from(["step", "effect", "value", "run"]),
    names,
    names,
    names,
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["started", "succeeded", ""]),
    st.booleans(),
)
payloads = st.none() | st.builds(Payload, facts=st.none() | st.text(max_size=5) | st.lists(st.integers(), max_size=3))
journals = st.lists(st.builds(entry, headers, payloads), min_size=1, max_size=8).map(chain)
byte = st.binary(min_size=1, max_size=1)


def verdict(rows: list[Row], intact: list[Row]) -> Break | None:
    """What a check of `rows` finds when the lease row tells of `intact`."""
    return check("r", START, rows, intact[-1].seq, intact[-1].hash)


def changed(raw: bytes, place: int, by: bytes) -> bytes:
    place %= len(raw)
    return raw[:place] + by + raw[place + 1 :]


@given(journals)
def test_an_untouched_journal_is_whole(rows: list[Row]) -> None:
    assert verdict(rows, rows) is None
    assert check("r", START, iter(rows), len(rows), rows[-1].hash) is None


def test_an_empty_journal_is_whole_when_nothing_was_recorded() -> None:
    assert check("r", START, [], 0, START) is None


@given(journals, st.data(), st.integers(0, 5_000), byte)
def test_a_changed_byte_of_a_header_is_named(rows: list[Row], data: st.DataObject, place: int, by: bytes) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    bad = rows.copy()
    bad[at] = replace(rows[at], header=changed(rows[at].header, place, by))
    assume(bad != rows)
    found = verdict(bad, rows)
    assert found
    assert found.record == f"entry r/{at + 1}"


@given(journals, st.data(), st.integers(0, 31), byte)
def test_a_changed_byte_of_a_hash_is_named(rows: list[Row], data: st.DataObject, place: int, by: bytes) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    bad = rows.copy()
    bad[at] = replace(rows[at], hash=changed(rows[at].hash, place, by))
    assume(bad != rows)
    found = verdict(bad, rows)
    assert found
    assert found.record == f"entry r/{at + 1}"


@given(journals, st.data(), st.none() | st.binary(max_size=70))
def test_a_changed_missing_or_added_payload_is_named(rows: list[Row], data: st.DataObject, other: bytes | None) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    bad = rows.copy()
    bad[at] = replace(rows[at], kept=other)
    assume(bad != rows)
    found = verdict(bad, rows)
    assert found
    assert found.record == f"entry r/{at + 1}"
    assert "payload" in found.why


@given(journals, st.data(), st.integers(-3, 12))
def test_a_changed_seq_is_found(rows: list[Row], data: st.DataObject, seq: int) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    assume(seq != rows[at].seq)
    bad = rows.copy()
    bad[at] = replace(rows[at], seq=seq)
    assert verdict(bad, rows)
    assert verdict(sorted(bad, key=lambda row: (row.seq, row.header)), rows)  # a store gives rows by seq
    found = verdict(bad, rows)
    assert found
    assert found.record == f"entry r/{at + 1}"


@given(journals, st.data())
def test_a_deleted_entry_is_named(rows: list[Row], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    found = verdict(rows[:at] + rows[at + 1 :], rows)
    assert found
    assert found.record == f"entry r/{at + 1}"


@given(journals, st.data())
def test_a_deleted_entry_is_found_when_the_rest_is_renumbered(rows: list[Row], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    left = [replace(row, seq=seq) for seq, row in enumerate(rows[:at] + rows[at + 1 :], 1)]
    found = verdict(left, rows)
    assert found
    assert found.record == f"entry r/{at + 1}"


@given(journals, st.data())
def test_two_swapped_entries_are_found_at_the_first(rows: list[Row], data: st.DataObject) -> None:
    one, other = sorted(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=2, max_size=2)))
    bad = rows.copy()
    bad[one] = replace(rows[other], seq=one + 1)
    bad[other] = replace(rows[one], seq=other + 1)
    assume([replace(row, seq=0) for row in bad] != [replace(row, seq=0) for row in rows])
    found = verdict(bad, rows)
    assert found
    assert found.record == f"entry r/{one + 1}"


@given(journals, journals, st.data())
def test_an_entry_of_another_run_does_not_fit(rows: list[Row], others: list[Row], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    foreign = chain(
        [JournalEntry(row.header, row.payload) for row in others], genesis("other", "flow", "task", "inputs")
    )
    bad = rows.copy()
    bad[at] = replace(data.draw(st.sampled_from(foreign)), seq=at + 1)
    found = verdict(bad, rows)
    assert found
    assert found.record == f"entry r/{at + 1}"


@given(journals)
def test_the_whole_journal_of_another_run_does_not_fit(rows: list[Row]) -> None:
    foreign = chain([JournalEntry(row.header, row.payload) for row in rows], genesis("other", "flow", "task", "inputs"))
    found = verdict(foreign, foreign)
    assert found
    assert found.record == "entry r/1"


@given(journals, headers)
def test_an_entry_that_was_added_is_named(rows: list[Row], header: Header) -> None:
    raw = encode_header(header)
    longer = [*rows, Row(len(rows) + 1, raw, link(rows[-1].hash, raw), None)]
    found = verdict(longer, rows)
    assert found
    assert found.record == f"entry r/{len(rows) + 1}"


@given(journals, headers)
def test_a_last_entry_forged_with_a_fitting_hash_is_found_by_the_recorded_head(rows: list[Row], header: Header) -> None:
    raw = encode_header(header)
    assume(raw != rows[-1].header)
    before = rows[-2].hash if len(rows) > 1 else START
    found = verdict([*rows[:-1], Row(len(rows), raw, link(before, raw), None)], rows)
    assert found
    assert found.record == f"entry r/{len(rows)}"


@pytest.mark.parametrize("part", range(4))
def test_a_chain_is_tied_to_run_flow_task_and_inputs(part: int) -> None:
    facts = ["run", "flow", "task", "inputs"]
    facts[part] = "other"
    assert genesis(*facts) != START


@given(headers, payloads)
def test_a_header_proves_its_payload_and_both_read_back(header: Header, payload: Payload | None) -> None:
    made = entry(header, payload)
    read = decode_header(made.header)
    assert msgspec.structs.replace(read, payload="") == header
    hash_ = link(START, made.header)
    assert check("run1", START, [Row(1, made.header, hash_, made.payload)], 1, hash_) is None
    if made.payload is None:
        assert read.payload == ""
        assert payload in (None, Payload())
    else:
        assert read.payload == digest(made.payload)
        assert decode_payload(made.payload) == payload


def test_an_entry_names_the_blob_it_refers_to() -> None:
    assert entry(Header("step", "a"), Payload(blob="abc")).blobs == ("abc",)
    assert entry(Header("step", "a"), Payload(facts=1)).blobs == ()


def test_headers_of_an_older_version_still_read() -> None:
    """Fields are positional and new ones go last, so a shorter header is an old one."""
    assert decode_header(b'["step","fetch","left/","in"]') == Header("step", "fetch", "left/", "in")
    assert [field.name for field in msgspec.structs.fields(Header)][-1] == "payload"


def test_a_break_is_an_error_with_its_record() -> None:
    error = Break("entry r/3", "it is missing").as_error()
    assert isinstance(error, IntegrityBroken)
    assert (error.record, error.why) == ("entry r/3", "it is missing")
