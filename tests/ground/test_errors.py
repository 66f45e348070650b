"""Every error: one code, the facts, a message that says what to do, the same after a copy."""

import copy
import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from outlast import errors
from outlast.errors import OutlastError

FAMILIES = (errors.NotFound, errors.Conflict, errors.Refused, errors.Invalid, errors.Unavailable, errors.WorkFailed)
KINDS = [
    kind
    for kind in (getattr(errors, name) for name in dir(errors))
    if isinstance(kind, type) and issubclass(kind, OutlastError) and kind not in (OutlastError, *FAMILIES)
]
TREE = dict(re.findall(r"[├└]── (\w+)((?:[ │]+[\w, ]+,?\n)+)", errors.__doc__ or ""))


def sample(kind: type[OutlastError]) -> OutlastError:
    """An error of that kind with plausible facts, taken from its signature."""
    values: dict[str, Any] = {"str": "some {text}", "int": 3, "float": 1.5, "tuple[Any, ...]": ("some {text}", "more")}
    values["dict[str, Any] | None"] = {"id": "some {text}"}
    values["list[dict[str, str]]"] = [{"step": "some {text}", "says": "some {text}"}]
    values["bool"] = True
    wanted = inspect.signature(kind).parameters
    return kind(**{name: values[str(p.annotation)] for name, p in wanted.items()})


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


@pytest.mark.parametrize("room", sorted(path.stem for path in Path(errors.__file__).parent.glob("[!_]*.py")))
def test_every_kind_of_a_room_is_a_name_of_errors(room: str) -> None:
    kinds = [each for each in vars(import_module(f"outlast.errors.{room}")).values() if each in KINDS]
    assert kinds
    for kind in kinds:
        assert (getattr(errors, kind.__name__), kind.__module__) == (kind, "outlast.errors")


def test_a_room_is_loaded_when_one_of_its_errors_is_asked_for() -> None:
    code = """
import sys
from outlast.errors import NotFound, Stopped
print(*[name for name in sys.modules if name.startswith("outlast.errors.")])
from outlast.errors import RunNotFound
print(*[name for name in sys.modules if name.startswith("outlast.errors.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\noutlast.errors.runs\n"


def test_a_name_that_is_no_error_is_not_found_in_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'RunLost'"):
        _ = errors.RunLost


def test_an_error_takes_its_facts_in_order_or_by_name() -> None:
    error = errors.RunRemoved("r1", "failed", at="today", by="ann")
    assert error.facts == {"run": "r1", "status": "failed", "by": "ann", "at": "today"}
    assert error.args == ("r1", "failed", "ann", "today")
    assert errors.BodyTooSlow(2.0).facts == {"seconds": 2.0, "least": 1}
    assert errors.BodyTooSlow(2.0, least=7).least == 7


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), (("a",), {}), (("a", "b", "c"), {}), (("a", "b"), {"run": "a"}), (("a",), {"status": "b", "other": 1})],
)
def test_facts_that_an_error_does_not_have_are_refused(given: tuple[str, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="RunFinished takes run, status"):
        errors.RunFinished(*given, **named)
    with pytest.raises(TypeError, match="Refused takes facts by name"):
        errors.Refused("without a name")


def test_a_class_that_a_user_makes_from_an_error_stays_that_error() -> None:
    class Late(errors.RunNotFound):
        tries: int = 3

    error = Late("abc")
    assert (error.code, error.run, error.tries, Late.__module__) == ("run_not_found", "abc", 3, __name__)
    assert str(error) == str(errors.RunNotFound("abc"))


def test_a_class_made_from_an_error_may_keep_facts_of_its_own() -> None:
    class Several(errors.FlowNotFound):
        says = "{flow} is {count} flows"

        def __init__(self, flow: str, count: int) -> None:
            OutlastError.__init__(self, flow=flow, count=count)

    error = Several("a.py", 2)
    assert (error.detail, error.facts, error.code) == (
        "a.py is 2 flows",
        {"flow": "a.py", "count": 2},
        "flow_not_found",
    )
    with pytest.raises(TypeError, match="FlowNotFound takes flow, why"):
        errors.FlowNotFound("a.py", count=2)


def test_no_fact_hides_what_an_error_is() -> None:
    """A server may send facts of any name."""
    error = errors.rebuild(errors.RunNotFound, {"run": "abc", "says": "hello", "code": "x", "advice": "y"})
    assert (error.code, error.detail) == ("run_not_found", "no run 'abc' in this home")


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


LOADED = """\
import sys
from outlast import errors

assert errors.loaded("LeaseLost", "CommandFailed", "DiskFull") == ()
assert not [name for name in sys.modules if name.startswith("outlast.errors.")]
assert isinstance(errors.LeaseLost("run", 1), errors.loaded("DiskFull", "LeaseLost"))
assert errors.loaded("DiskFull", "LeaseLost") == (errors.LeaseLost,)
"""


def test_to_ask_whether_an_error_is_of_a_kind_loads_none() -> None:
    subprocess.run([sys.executable, "-c", LOADED], check=True)
