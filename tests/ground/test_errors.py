"""Every error: one code, the facts, a message that says what to do, the same after a copy."""

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from outlast import errors
from outlast.errors import OutlastError

FAMILIES = (errors.NotFound, errors.Conflict, errors.Refused, errors.Invalid, errors.Unavailable, errors.Failed)
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, OutlastError) and kind not in (OutlastError, *FAMILIES)
]
TREE = dict(re.findall(r"[├└]── (\w+)((?:[ │]+[\w, ]+,?\n)+)", errors.__doc__ or ""))


def sample(kind: type[OutlastError]) -> OutlastError:
    """An error of that kind with plausible facts, taken from its signature."""
    values: dict[str, Any] = {"str": "some {text}", "int": 3, "float": 1.5, "tuple[Any, ...]": ("some {text}", "more")}
    values["dict[str, Any] | None"] = {"id": "some {text}"}
    values["list[dict[str, str]]"] = [{"step": "some {text}", "says": "some {text}"}]
    values["bool"] = True
    wanted = inspect.signature(kind.__init__).parameters
    return kind(**{name: values[str(p.annotation)] for name, p in wanted.items() if name != "self"})


def test_there_are_errors_to_look_at() -> None:
    assert len(KINDS) > 30


def test_codes_are_unique_and_named_after_their_class() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    for kind in KINDS:
        assert kind.code == re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


def test_the_families_have_codes_of_their_own() -> None:
    """They are raised as they are where no kind fits; a door still needs a stable code."""
    codes = [family.code for family in FAMILIES]
    assert codes == ["not_found", "conflict", "refused", "invalid", "unavailable", "failed"]
    assert OutlastError.code == "error"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda kind: kind.__name__)
def test_the_tree_at_the_top_of_the_module_lists_exactly_the_errors_there_are(family: type[OutlastError]) -> None:
    listed = re.findall(r"\w+", TREE[family.__name__])
    assert sorted(listed) == sorted(kind.code for kind in KINDS if kind.__bases__ == (family,))


def test_every_error_belongs_to_one_family() -> None:
    assert all(sum(issubclass(kind, family) for family in FAMILIES) == 1 for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_formats_and_shows_itself_to_every_door(kind: type[OutlastError]) -> None:
    error = sample(kind)
    assert kind.__doc__
    assert error.detail
    assert str(error).startswith(error.detail)
    assert error.what_next in str(error)
    shown = error.to_dict()
    assert list(shown)[:4] == ["code", "detail", "advice", "path"]
    assert set(list(shown)[4:]) <= {*error.facts, "run_id"}  # what a program goes on with
    assert shown["code"] == kind.code
    assert shown["path"] == error.facts.get("path")


@pytest.mark.parametrize("kind", [*KINDS, *FAMILIES], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_copying(kind: type[OutlastError], again: Any) -> None:
    error = sample(kind) if kind in KINDS else kind(detail="as it is")
    twin = again(error)
    assert type(twin) is kind
    assert (twin.facts, twin.args, str(twin)) == (error.facts, error.args, str(error))
    assert all(getattr(twin, name) == value for name, value in error.facts.items())


def test_facts_are_attributes_and_others_are_not() -> None:
    error = errors.RunNotFound("abc")
    assert error.run == "abc"
    with pytest.raises(AttributeError, match="missing"):
        _ = error.missing


def test_signals_cannot_be_eaten_by_except_exception() -> None:
    for signal in (errors.Paused, errors.Stopped, errors.Severed):
        assert issubclass(signal, BaseException)
        assert not issubclass(signal, Exception)
    assert issubclass(errors.NotDone, Exception)
    assert not issubclass(errors.NotDone, OutlastError)
