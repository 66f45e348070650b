"""Our tuples with named fields are those of `typing` in all that a value is asked."""

import copy
import pickle
import typing
from typing import Any

import msgspec
import pytest

from outlast.values.frozen import NamedTuple


class Ours(NamedTuple):
    name: str
    size: int = 3
    tags: tuple[str, ...] = ()

    @property
    def twice(self) -> int:
        return self.size * 2


class Theirs(typing.NamedTuple):
    name: str
    size: int = 3
    tags: tuple[str, ...] = ()

    @property
    def twice(self) -> int:
        return self.size * 2


class Narrower(Ours):
    """A class made from one."""


def outcome(ask: Any, kind: Any) -> Any:
    try:
        return str(ask(kind)).replace(kind.__name__, "Kind")
    except (TypeError, ValueError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize(
    "ask",
    [
        lambda kind: kind("a"),
        lambda kind: kind("a", tags=("x",)),
        lambda kind: kind(name="a", size=1).twice,
        lambda kind: kind(),
        lambda kind: kind("a", nothing=1),
        lambda kind: kind("a", 1, (), 4),
        lambda kind: kind._make(["a", 1, ()]),
        lambda kind: kind._make(["a"]),
        lambda kind: kind("a")._replace(size=5),
        lambda kind: kind("a")._replace(other=5),
        lambda kind: kind("a")._asdict(),
        lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__),
        lambda kind: kind("a") == ("a", 3, ()) and hash(kind("a")) == hash(("a", 3, ())),
        lambda kind: setattr(kind("a"), "name", "b"),
        lambda kind: setattr(kind("a"), "other", "b"),
        lambda kind: pickle.loads(pickle.dumps(kind("a"))) == kind("a"),
        lambda kind: type(copy.deepcopy(kind("a"))) is kind,
        lambda kind: msgspec.json.decode(b'["a", 4]', type=kind),
        lambda kind: msgspec.json.encode(kind("a")),
        lambda kind: typing.get_type_hints(kind),
    ],
)
def test_a_tuple_with_names_does_what_that_of_typing_does(ask: Any) -> None:
    assert outcome(ask, Ours) == outcome(ask, Theirs)


def test_a_class_made_from_one_keeps_its_kind_from_the_first_value_on() -> None:
    assert [type(Narrower("a")), type(Ours("a")), type(Narrower("a", 2)._replace(size=4))] == [Narrower, Ours, Narrower]
