"""Going back to a step, again and again: that step and all after it are done again, and nothing before it is.

The oracle is the sentence above. A body is a list of names, which the test may put into another order between two
runs; each run ends with a failure, so that the run can be taken up once more.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast import NotDone, Run, current, effect, flow, step
from outlast.errors import StepNotFound
from outlast.runs import decisions  # noqa: F401  imported late, pytest would parse it while a run parses: see flows/loading.py

from ..kit.place import KNOBS, Place, ran


def _step(name: str) -> Any:
    @step(name=name)
    def work() -> str:
        ran(name)
        if KNOBS.get("fails") == name:
            raise RuntimeError(f"{name} fails")
        return name

    return work


def _effect(name: str) -> Any:
    @effect(name=name)
    def work() -> str:
        ran(name)
        return name

    return work


NAMES = ["a", "b", "X", "c", "v", "Y", "d"]  # X and Y are effects, v is a value that the body draws
WORK = {name: (_effect if name.isupper() else _step)(name) for name in NAMES if name != "v"}


@flow
def listed(run: Run) -> None:
    for name in KNOBS["order"][: KNOBS["stop"]]:
        if name == "v":
            ran(f"v {run.random()}")
        else:
            WORK[name]()
    raise RuntimeError("stop here")


class Body:
    """The run of one list of names, and what it did last."""

    def __init__(self, place: Place) -> None:
        self.place, self.order, self.stop, self.value = place, list(NAMES), len(NAMES), ""

    def run(self, stop: int | None = None) -> list[str]:
        """What ran, in order; a value is there when it was drawn anew."""
        self.stop = len(self.order) if stop is None else stop
        KNOBS.update(order=self.order, stop=self.stop)
        before = len(self.place.ran)
        assert self.place.run(listed).status == "failed"
        return [told for line in self.place.ran[before:] if (told := self._told(line))]

    def _told(self, line: str) -> str:
        name, _, value = line.partition(" ")
        anew, self.value = value != self.value, value or self.value
        return name if anew or not value else ""

    def go_back(self, name: str, stop: int | None = None) -> tuple[list[str], list[str]]:
        """What ran after going back to a step, and what had to."""
        self.place.outlast.rewind(self.place.run_id, name)
        again = self.order[self.order.index(name) : stop]
        return self.run(stop), [each for each in again if not each.isupper()]


@pytest.fixture
def body(place: Place) -> Body:
    body = Body(place)
    assert body.run() == NAMES
    return body


# -- the rule ----------------------------------------------------------------------------------------

BACK = st.tuples(st.just("back"), st.integers(0, 6), st.integers(1, 7))
ORDER = st.tuples(st.just("order"), st.permutations(NAMES), st.just(7))


@settings(max_examples=(settings.default or settings()).max_examples * 3 // 8)
@given(st.lists(BACK | BACK | ORDER, min_size=1, max_size=6))
def test_going_back_does_that_step_and_all_after_it_again_and_nothing_else(moves: list[tuple[str, Any, int]]) -> None:
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        KNOBS["log"] = str(place.log)
        body = Body(place)
        body.run()
        for move, what, stop in moves:
            if move == "order":
                body.run()  # the whole of it, in the old order
                body.order = what
                assert body.run() == []
                continue
            reached = [name for name in body.order[: body.stop] if name != "v"]
            if reached:
                did, had_to = body.go_back(reached[what % len(reached)], stop)
                assert did == had_to
        assert all(place.count(name) <= 1 for name in ("X", "Y"))
        assert place.outlast.verify().ok
        place.close()


# -- the same, one by one ----------------------------------------------------------------------------


def test_going_back_a_second_time_goes_no_further_than_asked(body: Body) -> None:
    body.go_back("b")
    did, had_to = body.go_back("d")
    assert did == had_to == ["d"]


def test_going_back_to_an_effect_that_was_kept_does_only_what_comes_after_it(body: Body) -> None:
    body.go_back("a")
    did, had_to = body.go_back("Y")
    assert did == had_to == ["d"]


def test_going_back_follows_the_order_in_which_the_flow_has_its_steps_now(body: Body) -> None:
    body.order = ["a", "d", "c", "X", "v", "Y", "b"]
    assert body.run() == []
    did, had_to = body.go_back("c")
    assert did == had_to == ["c", "v", "b"]


def test_a_step_that_is_new_and_comes_early_is_not_done_again_with_a_later_one(place: Place) -> None:
    body = Body(place)
    body.order = ["b", "c", "d"]
    body.run()
    body.order = ["a", "b", "c", "d"]
    assert body.run() == ["a"]
    did, had_to = body.go_back("c")
    assert did == had_to == ["c", "d"]


def test_going_back_to_what_was_set_aside_and_not_reached_since_sets_nothing_more_aside(body: Body) -> None:
    body.go_back("b", stop=2)
    body.place.outlast.rewind(body.place.run_id, "d")
    assert body.run() == ["c", "v", "d"]


def test_a_resume_in_the_same_order_notes_no_places(body: Body) -> None:
    body.run()
    assert body.place.events("run.reached") == []


# -- attempts ----------------------------------------------------------------------------------------


def test_attempts_are_counted_on_when_the_run_goes_back(body: Body) -> None:
    body.go_back("c")
    body.go_back("b")
    assert [(receipt.attempt, receipt.status) for receipt in body.place.receipts("c")] == [
        (1, "succeeded"),
        (2, "succeeded"),
        (3, "succeeded"),
    ]


@effect
def declined(name: str) -> str:
    ran(name)
    if not KNOBS.get("up"):
        raise NotDone("it is down")
    return "sent"


@flow
def tolerant(run: Run) -> str:
    WORK["a"]()
    try:
        got = str(declined("send"))
    except NotDone:
        got = "not sent"
    if not KNOBS.get("up"):
        raise RuntimeError("stop here")
    return got


def test_an_effect_that_did_not_happen_is_tried_again_when_the_run_goes_back(place: Place) -> None:
    place.run(tolerant)
    KNOBS["up"] = True
    place.outlast.rewind(place.run_id, "a")
    assert place.run(tolerant).unwrap() == "sent"
    assert [(receipt.attempt, receipt.status) for receipt in place.receipts("declined")] == [
        (1, "failed"),
        (2, "succeeded"),
    ]


# -- files -------------------------------------------------------------------------------------------


@step(writes="notes.txt", on_partial="restore")
def takes_notes() -> str:
    before = current().previous
    with Path("notes.txt").open("a") as notes:
        notes.write(f"attempt {current().attempt}\n")
    return f"{before.status} {[each.path for each in before.files]}" if before else "first"


@flow
def notes(run: Run) -> str:
    said = takes_notes()
    if said == "first":
        raise RuntimeError("stop here")
    return str(said)


def test_a_python_step_that_is_done_again_is_told_what_it_made_and_finds_its_files_as_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    place.run(notes)
    place.outlast.rewind(place.run_id, "takes_notes")
    assert place.run(notes).unwrap() == "succeeded ['notes.txt']"
    assert (place.folder / "notes.txt").read_text() == "attempt 2\n"


# -- names -------------------------------------------------------------------------------------------


@step
def fetch(what: str) -> str:
    ran(f"fetch {what}")
    return what


@step
def use(what: str) -> str:
    ran(f"use {what}")
    return what


@flow
def fetches(run: Run) -> str:
    use(fetch(KNOBS["what"]))
    WORK["a"]()
    raise RuntimeError("stop here")


def test_a_name_means_the_call_that_the_body_makes_now(place: Place) -> None:
    KNOBS["what"] = "old"
    place.run(fetches)
    KNOBS["what"] = "new"
    place.outlast.rewind(place.run_id, "fetch")
    place.run(fetches)
    place.outlast.rewind(place.run_id, "use")
    place.run(fetches)
    place.outlast.rewind(place.run_id, "fetch")
    place.run(fetches)
    assert place.ran == [
        *("fetch old", "use old", "a"),
        *("fetch new", "use new", "a"),
        *("use new", "a"),
        *("fetch new", "use new", "a"),
    ]


def test_going_back_to_a_step_that_was_not_reached_says_that_skip_is_the_way(place: Place) -> None:
    body = Body(place)
    KNOBS["fails"] = "b"
    body.run()
    with pytest.raises(StepNotFound, match=rf"`outlast skip {place.run_id} b --result JSON --why WHY`") as refused:
        place.outlast.rewind(place.run_id, "d")
    assert refused.value.to_dict()["code"] == "step_not_found"
