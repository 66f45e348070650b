"""JSON text from outside: what is refused, and that looking costs no more than the text is long."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.cli.answer import document
from outlast.values.codec import NotStrict, check_strict, depth_of, doubled, is_deeper, read_strict

from ..kit.cost import growth
from ..kit.hostile_json import SHAPES

LETTERS = 1 << 15
MOST = 250


def why_not(raw: bytes, most: int = MOST) -> str:
    """Why a text is refused; empty when it is taken."""
    try:
        check_strict(raw, most)
    except NotStrict as error:
        return str(error)
    return ""


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a": [1, {"b": null}]}', ""),
        (b'{"a": 1, "a": 2}', "the key 'a' is there twice"),
        (rb'{"a": 1, "\u0061": 2}', "the key 'a' is there twice"),
        (b'[{"x": {"b": 1, "a": 1, "a": 2, "b": 2}}]', "the key 'b' is there twice"),
        (b'{"%s": 1, "%s": 2}' % (b"k" * 200, b"k" * 200), f"the key {'k' * 100!r} is there twice"),
        (b'{"a": {"a": [{"a": 1}]}}', ""),
        (b"[NaN]", "NaN is no number of JSON"),
        (b"[-Infinity]", "-Infinity is no number of JSON"),
        (b'"\xff"', "it is not UTF-8 (byte 1)"),
        (b"[" * 251 + b"]" * 251, "it is nested more than 250 deep"),
        (b"[" * 250 + b"]" * 250, ""),
        (b'["' + b"[" * 300 + b'"]', ""),
        (rb'["\\\"' + b"[" * 300 + b'"]', ""),
        (rb'["\\"' + b",[" * 250 + b"]" * 251, "it is nested more than 250 deep"),
    ],
)
def test_a_text_is_refused_for_what_is_wrong_with_it(raw: bytes, why: str) -> None:
    assert why_not(raw) == why
    assert read_or_why(raw, MOST) == (why or json.loads(raw))


def test_what_is_no_json_is_told_with_its_place() -> None:
    assert why_not(b'{"a": }') == "it is no JSON (Expecting value: line 1 column 7 (char 6))"
    assert why_not(b'"' + b"[" * 300) == "it is no JSON (Unterminated string starting at: line 1 column 1 (char 0))"


def test_of_several_names_that_are_there_twice_the_first_is_told() -> None:
    assert doubled(["c", "b", "a", "a", "b"]) == "b"
    assert doubled([]) is None


def test_a_bracket_in_a_text_opens_nothing() -> None:
    assert depth_of(rb'{"a\"[": "\\", "b": ["]]", [1]]}') == 3
    assert depth_of(b"1") == 0


# -- the same as read step by step -------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('[]{}"\\,:a\n\u00e9'),
    lambda inside: st.lists(inside, max_size=4) | st.lists(st.tuples(st.text('a"\\[', max_size=2), inside), max_size=4),
    max_leaves=20,
)


def written(value: Any, plain: bool) -> str:
    """A value as JSON; a list of pairs as an object, which may have a key twice."""
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        said = (f"{json.dumps(name, ensure_ascii=plain)}: {written(item, plain)}" for name, item in value)
        return "{" + ", ".join(said) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(each, plain) for each in value) + "]"
    return json.dumps(value, ensure_ascii=plain)


def deep(value: Any) -> int:
    """How deep a value is, by going into it."""
    inside = [item for _, item in value] if isinstance(value, tuple) else value
    return 1 + max(map(deep, inside), default=0) if isinstance(value, list | tuple) else 0


def naive(raw: bytes, most: int) -> bool:
    """Whether a text is taken, step by step and key against key."""
    doubles = []

    def single(pairs: list[tuple[str, Any]]) -> Any:
        doubles.extend(name for at, (name, _) in enumerate(pairs) if name in [other for other, _ in pairs[:at]])
        return tuple(pairs)

    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        value = json.loads(raw.decode(), object_pairs_hook=single, parse_constant=refuse)
    except ValueError:
        return False
    assert depth_of(raw) == deep(value)
    return not doubles and deep(value) <= most


@given(VALUES, st.booleans(), st.integers(0, 5))
def test_a_text_is_taken_when_it_is_shallow_and_no_key_is_there_twice(value: Any, plain: bool, most: int) -> None:
    raw = written(value, plain).encode()
    assert (why_not(raw, most) == "") == naive(raw, most)


@given(VALUES, st.booleans(), st.data())
def test_a_text_that_was_damaged_is_taken_only_if_it_still_is_one(value: Any, plain: bool, data: st.DataObject) -> None:
    raw = written(value, plain).encode()
    at, end = sorted(data.draw(st.tuples(st.integers(0, len(raw)), st.integers(0, len(raw)))))
    piece = data.draw(st.text('[]{}"\\,:a1\n', max_size=4)).encode() + data.draw(st.sampled_from([b"", b"\xff", b"\0"]))
    damaged = raw[:at] + piece + raw[end:]
    assert (why_not(damaged, 3) == "") == naive(damaged, 3)


def read_or_why(raw: bytes, most: int) -> Any:
    try:
        return read_strict(raw, most)
    except NotStrict as error:
        return str(error)


@given(VALUES, st.booleans(), st.integers(0, 5))
def test_a_text_that_is_read_gives_its_value_or_why_it_is_refused(value: Any, plain: bool, most: int) -> None:
    raw = written(value, plain).encode()
    assert read_or_why(raw, most) == (why_not(raw, most) or json.loads(raw))


@pytest.mark.parametrize("raw", [rb'["\ud800"]', b"[1e999]", b"\xef\xbb\xbf{}", b'"\xff"', b"[NaN]", b'{"a": }', b""])
def test_what_no_reader_agrees_on_is_never_read(raw: bytes) -> None:
    with pytest.raises(NotStrict):
        read_strict(raw, MOST)


@given(st.lists(st.sampled_from(list(rb'[]{}"\a')), max_size=60).map(bytes), st.integers(0, 4))
def test_that_it_is_deeper_is_what_its_depth_says(raw: bytes, most: int) -> None:
    assert is_deeper(raw, most) == (depth_of(raw) > most)


# -- what it costs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_text_costs_no_more_than_eight_times_as_much(shape: str) -> None:
    short, long = SHAPES[shape](LETTERS), SHAPES[shape](4 * LETTERS)
    assert growth(lambda: why_not(short), lambda: why_not(long)) < 8
    assert growth(lambda: read_or_why(short, MOST), lambda: read_or_why(long, MOST)) < 8


@pytest.mark.parametrize("shape", ["the last key twice", "every key twice", "one key again and again"])
def test_a_field_that_is_given_twice_on_the_command_line_is_found_as_fast(shape: str) -> None:
    def refused(raw: bytes) -> None:
        with pytest.raises(Exception, match="is given twice"):
            document("the body", raw.decode())

    short, long = SHAPES[shape](LETTERS), SHAPES[shape](4 * LETTERS)
    assert growth(lambda: refused(short), lambda: refused(long)) < 8
