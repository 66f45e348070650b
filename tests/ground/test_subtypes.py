"""Values whose type would be lost without a word are refused, unless an annotation names the type."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from outlast.errors import ValueRefused
from outlast.values.codec import decoder, pack


class Level(IntEnum):
    HIGH = 3


class Colour(StrEnum):
    RED = "red"


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Level.HIGH, "f()"),
        (Colour.RED, "f()"),
        (Name("ann"), "f()"),
        ({"levels": [1, Level.HIGH]}, "f()['levels'][1]"),
        ([{"a": Colour.RED}], "f()[0]['a']"),
        (OrderedDict(a=1), "f()"),
        ({"count": Counter("aab")}, "f()['count']"),
        (defaultdict(list, a=[1]), "f()"),
    ],
)
def test_an_equal_value_of_another_type_is_refused_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(ValueRefused) as refused:
        pack(value, decoder(None), "f()")
    assert refused.value.path == path


def test_an_annotation_brings_the_type_back() -> None:
    _, copy = pack([Level.HIGH], decoder(list[Level]), "f()")
    assert copy == [Level.HIGH]
    assert type(copy[0]) is Level


def test_plain_values_of_any_depth_pass() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "c", "d": []}]}
    assert pack(value, decoder(None), "f()")[1] == value
