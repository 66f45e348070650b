"""Values in and out of JSON: back as they went in, or refused by path."""

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import io
import json
import math
import pathlib
import threading
import types
import uuid
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import moment
from outlast.errors import ValueRefused
from outlast.values import codec
from outlast.values.codec import decode, decoder, digest_inputs, encode, jsonable, pack, pack_json, value_of

plain = decoder(None)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
json_values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=20
)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Source:
    url: str
    score: float = 0.0
    tags: tuple[str, ...] = ()


@dataclasses.dataclass(eq=False)
class Incomparable:
    url: str


class Record(msgspec.Struct):
    name: str
    size: int


class Model(pydantic.BaseModel):
    name: str
    when: datetime.datetime


class Partial(TypedDict):
    name: str


odd_leaves = st.one_of(
    leaves,
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.fractions(),
    st.decimals(),
    st.datetimes(timezones=st.none() | st.just(datetime.UTC)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from(
        [
            Colour.RED,
            Level.LOW,
            Name("n"),
            Point(1, 2),
            Source("u"),
            Incomparable("u"),
            Record("a", 1),
            object(),
            object,
        ]
    ),
    st.sampled_from([len, lambda: None, math, range(3), Ellipsis, NotImplemented, pathlib.Path("a"), io.StringIO("a")]),
    st.sampled_from([bytearray(b"a"), memoryview(b"a"), iter([]), msgspec.UNSET, msgspec.Raw(b"1"), threading.Lock()]),
)
odd_keys = st.one_of(
    text, st.integers(), st.floats(), st.booleans(), st.none(), st.binary(max_size=2), st.just(Level.LOW), st.uuids()
)
hashables = st.one_of(st.integers(), text, st.booleans(), st.floats())
odd_values = st.recursive(
    odd_leaves | st.sets(hashables, max_size=3) | st.frozensets(hashables, max_size=3),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(odd_keys, inner, max_size=3),
        st.builds(collections.deque, st.lists(inner, max_size=2)),
        st.builds(collections.OrderedDict, st.dictionaries(text, inner, max_size=2)),
        st.builds(types.SimpleNamespace, a=inner),
    ),
    max_leaves=8,
)


def pack_or_refuse(value: Any) -> tuple[bytes, Any] | ValueRefused:
    try:
        return pack(value, plain, "result")
    except ValueRefused as refusal:
        return refusal


def refused(value: Any, back: Any = plain) -> ValueRefused:
    with pytest.raises(ValueRefused) as caught:
        pack(value, back, "result")
    return caught.value


# -- plain JSON values -------------------------------------------------------------------------------


@given(json_values)
def test_a_json_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    raw, copy = pack(value, plain, "result")
    assert copy == value
    assert repr(copy) == repr(value)  # also True against 1, 1 against 1.0, -0.0 against 0.0
    assert decode(raw) == decode(raw.decode()) == copy == json.loads(raw)
    assert pack_json(value, "result") == encode(value) == raw


@given(json_values)
def test_the_copy_shares_nothing_with_the_original(value: Any) -> None:
    _, copy = pack([value], plain, "result")
    if isinstance(value, list | dict):
        assert copy[0] is not value
        copy[0].clear()
        assert pack(value, plain, "result")[1] == value


@given(odd_values)
def test_any_value_is_given_back_equal_or_refused(value: Any) -> None:
    """Nothing else: no other exception, no repr, no copy that differs."""
    packed = pack_or_refuse(value)
    if isinstance(packed, ValueRefused):
        assert packed.path.startswith("result")
        assert packed.why
        assert packed.what_next
    else:
        assert packed[1] == value
        assert type(packed[1]) is type(value) or isinstance(value, enum.Enum | dict)


# -- what is refused, and where ----------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_where_they_stand(value: float) -> None:
    assert refused(value).path == "result"
    assert refused({"a": [1.0, {"b": value}]}).path == "result['a'][1]['b']"
    assert "no JSON form" in refused([value]).why


@pytest.mark.parametrize("value", [(1, 2), {1}, frozenset([1]), b"raw", bytearray(b"raw"), decimal.Decimal(1)])
def test_what_would_come_back_as_another_type_is_refused_where_it_stands(value: Any) -> None:
    found = refused({"a": [0, value]})
    assert found.path == "result['a'][1]"
    assert "would come back as" in found.why
    assert "annotate" in found.what_next


@pytest.mark.parametrize(
    "value", [datetime.datetime.now(), datetime.date.today(), uuid.uuid4(), Colour.RED, Source("u"), Record("a", 1)]
)
def test_typed_values_need_an_annotation(value: Any) -> None:
    assert refused([value]).path == "result[0]"


@pytest.mark.parametrize("value", [{1: "a"}, {1: "a", "1": "b"}, {None: 1}, {True: 1}, {1.5: 1}, {b"k": 1}])
def test_keys_that_are_not_text_are_refused(value: dict[Any, Any]) -> None:
    found = refused({"deep": [value]})
    assert found.path == "result['deep'][0]"
    assert "is no text" in found.why


@pytest.mark.parametrize("value", [object(), len, lambda: 1, math, io.StringIO(), 1j, range(3), Name("n"), object])
def test_live_objects_are_refused_by_type_and_place(value: Any) -> None:
    found = refused({"a": {"b": [value]}})
    assert found.path == "result['a']['b'][0]"
    assert type(value).__qualname__ in found.why
    assert "inject" in found.what_next


def test_an_open_file_is_refused(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "file", "w") as file:
        assert "TextIOWrapper" in refused([file]).why


def test_text_that_is_no_unicode_is_refused() -> None:
    assert refused(["ok", "\ud800"]).path == "result[1]"


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "contains itself" in refused({"a": loop}).why


@pytest.mark.parametrize("depth", [100, 600, *range(900, 1_000, 9), 2_000, 200_000])
def test_deep_nesting_is_stored_or_refused_whatever_lies_at_the_bottom(depth: int) -> None:
    for bottom in (None, (1,), math.nan, object()):
        value = bottom
        for _ in range(depth):
            value = [value]
        for attempt in (lambda v=value: pack(v, plain, "result"), lambda v=value: digest_inputs({"v": v}, "inputs")):
            refusals: list[ValueRefused] = []
            try:
                attempt()
            except ValueRefused as error:
                refusals.append(error)
            assert bottom in (None, (1,)) or refusals[0].path.startswith(("result", "inputs"))


def test_fields_are_named_in_the_path() -> None:
    assert refused([Incomparable(math.nan)], decoder(list[Incomparable])).path.startswith("result")  # type: ignore[arg-type]
    assert refused({"s": Source(object())}).path == "result['s'].url"  # type: ignore[arg-type]
    assert refused({"r": Record(object(), 1)}).path == "result['r'].name"  # type: ignore[arg-type]


# -- typed values ------------------------------------------------------------------------------------

TYPED: list[tuple[Any, Any]] = [
    (Source, Source("u", 1.5, ("a", "b"))),
    (list[Source], [Source("u"), Source("v")]),
    (Record, Record("a", 1)),
    (dict[str, Record], {"a": Record("a", 1)}),
    (Model, Model(name="m", when=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))),
    (list[Model], [Model(name="m", when=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))]),
    (datetime.datetime, datetime.datetime(2026, 1, 1, 2, 3, 4, 567, tzinfo=datetime.UTC)),
    (datetime.datetime, datetime.datetime(2026, 1, 1, 2, 3, 4)),
    (datetime.date, datetime.date(2026, 1, 1)),
    (datetime.time, datetime.time(1, 2, 3)),
    (datetime.timedelta, datetime.timedelta(days=1, microseconds=5)),
    (decimal.Decimal, decimal.Decimal("1.10")),
    (pathlib.Path, pathlib.Path("/a/b")),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("a")),
    (list[pathlib.Path], [pathlib.Path("a"), pathlib.Path("b")]),
    (bytes, b"\x00\xff"),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (uuid.UUID, uuid.UUID(int=5)),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (set[int], {1, 2}),
    (frozenset[str], frozenset(["a"])),
    (dict[int, str], {1: "a"}),
    (int | None, None),
    (list[int] | dict[str, int], {"a": 1}),
    (Incomparable, Incomparable("u")),
]


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=[str(annotation) for annotation, _ in TYPED])
def test_an_annotated_result_comes_back_as_its_type(annotation: Any, value: Any) -> None:
    _, copy = pack(value, decoder(annotation), "result")
    assert type(copy) is type(value)
    assert copy == value or (copy.url == value.url and not isinstance(copy, Source))


@given(st.data())
def test_generated_typed_values_round_trip(data: st.DataObject) -> None:
    kind = data.draw(
        st.sampled_from(
            [int, str, float, bool, bytes, datetime.date, datetime.timedelta, decimal.Decimal, uuid.UUID, Record]
        )
    )
    strategies = {
        str: text,
        float: st.floats(allow_nan=False, allow_infinity=False),
        decimal.Decimal: st.decimals(allow_nan=False, allow_infinity=False),
        Record: st.builds(Record, text, st.integers(-(2**63), 2**63 - 1)),
    }
    value = data.draw(st.lists(strategies.get(kind, st.from_type(kind)), max_size=4))
    _, copy = pack(value, decoder(list[kind]), "result")  # type: ignore[valid-type]
    assert copy == value
    assert [type(item) for item in copy] == [type(item) for item in value]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "1"),
        (int, True),
        (int, 1.5),
        (str, None),
        (float, math.nan),
        (list[float], [1.0, math.nan]),
        (Partial, {"name": "a", "more": 1}),  # a field that would be dropped
        (Source, {"url": "u"}),
        (list[int], (1, 2)),
        (tuple[int, ...], [1, 2]),
        (set[int], [1, 1]),
        (Colour, "red"),
        (decimal.Decimal, "1.0"),
        (dict[str, int], {1: 1}),
    ],
)
def test_a_result_that_is_not_what_the_annotation_says_is_refused(annotation: Any, value: Any) -> None:
    assert refused(value, decoder(annotation)).path.startswith("result")


@pytest.mark.parametrize("value", [[1.0, math.nan], [1.0, math.inf]])
def test_nan_is_named_by_place_under_an_annotation_too(value: Any) -> None:
    found = refused(value, decoder(list[float]))
    assert found.path == "result[1]"
    assert "no JSON form" in found.why


def test_a_subclass_with_more_fields_is_refused_and_not_cut() -> None:
    @dataclasses.dataclass
    class Longer(Source):
        more: int = 1

    assert refused(Longer("u"), decoder(Source)).path == "result"


def test_an_annotation_that_json_cannot_honour_takes_plain_values_only() -> None:
    back = decoder(threading.Lock)
    assert pack({"a": 1}, back, "result")[1] == {"a": 1}
    assert "lock" in refused(threading.Lock(), back).why


# -- the digest of inputs ----------------------------------------------------------------------------


@given(st.dictionaries(text, json_values, max_size=5), st.randoms())
def test_equal_inputs_in_any_order_of_keys_have_one_digest(inputs: dict[str, Any], dice: Any) -> None:
    assert digest_inputs(shuffled(inputs, dice), "inputs") == digest_inputs(inputs, "inputs")


@given(st.dictionaries(text, json_values, max_size=3), st.dictionaries(text, json_values, max_size=3))
def test_other_inputs_have_another_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = encode_sorted(one) == encode_sorted(other)
    assert (digest_inputs(one, "inputs") == digest_inputs(other, "inputs")) == same


@given(st.dictionaries(text, odd_values, max_size=3))
def test_any_inputs_have_a_digest_or_are_refused(inputs: dict[str, Any]) -> None:
    with contextlib.suppress(ValueRefused):
        assert digest_inputs(inputs, "inputs") == digest_inputs(inputs, "inputs")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_in_inputs_is_not_taken_for_none(value: float) -> None:
    with pytest.raises(ValueRefused) as caught:
        digest_inputs({"a": {"b": [None, value]}}, "fetch")
    assert caught.value.path == "fetch['a']['b'][1]"


def test_a_live_input_is_named_and_sent_to_inject() -> None:
    with pytest.raises(ValueRefused, match="inject") as caught:
        digest_inputs({"a": {"client": object()}}, "fetch")
    assert caught.value.path == "fetch['a']['client']"


def test_an_input_with_keys_that_are_not_text_is_named() -> None:
    with pytest.raises(ValueRefused) as caught:
        digest_inputs({"a": 1, "b": [{1: "x"}]}, "fetch")
    assert caught.value.path == "fetch['b'][0]"


def test_our_own_values_become_plain_data_for_the_doors() -> None:
    shown = jsonable([Source("u"), pathlib.Path("a"), Record("r", 2)])
    assert shown == [{"url": "u", "score": 0.0, "tags": ()}, "a", {"name": "r", "size": 2}]
    assert json.loads(json.dumps(shown)) == [{"url": "u", "score": 0.0, "tags": []}, "a", {"name": "r", "size": 2}]
    with pytest.raises((NotImplementedError, TypeError)):
        jsonable(fractions.Fraction(1, 2))


class Shown(msgspec.Struct):
    """What is read of a row, with annotations that are the types themselves."""

    name: str
    size: int
    is_new: bool
    at: datetime.datetime
    then: datetime.datetime | None
    meta: dict[str, Any]
    tags: tuple[str, ...]
    colour: Literal["red", "blue"]


class ShownRow(NamedTuple):
    name: str
    size: int
    is_new: int
    at: int
    then: int
    meta: str
    tags: str
    colour: str


def test_a_value_is_read_of_its_row_whether_its_annotations_are_types_or_texts() -> None:
    row = ShownRow("a", 1, 1, 2, 3, '{"b":1}', '["c"]', "red")
    values = ("a", 1, True, moment(2), moment(3), {"b": 1}, ("c",), "red")
    assert repr(msgspec.structs.astuple(value_of(Shown, row))) == repr(values)
    texts = {"name": "str", "size": "int", "is_new": "bool", "at": "datetime", "then": "datetime | None"}
    told = msgspec.defstruct("Told", [*Shown.__annotations__.items()][:6])
    told.__annotations__ = texts | {"meta": "dict[str, Any]"}
    assert repr(msgspec.structs.astuple(value_of(told, row))) == repr(values[:6])


def shuffled(value: Any, dice: Any) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, dice)) for key, item in value.items()]
        dice.shuffle(items)
        return dict(items)
    return [shuffled(item, dice) for item in value] if isinstance(value, list) else value


def encode_sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("size", [0, 1, 128, 129, 512, 513, 100_000])
def test_a_hash_is_the_same_whoever_makes_it(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"x" * size
    monkeypatch.setattr(codec, "_empty", None)  # as before OpenSSL was needed
    before = codec.sha256(text).hexdigest()
    codec.sha256(b"x" * 1000)
    assert before == codec.sha256(text).hexdigest() == hashlib.sha256(text).hexdigest()
    begun = codec.sha256(text)
    begun.update(b"and more")
    assert begun.hexdigest() == hashlib.sha256(text + b"and more").hexdigest()
