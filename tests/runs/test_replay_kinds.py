"""Replay tells the truth of every kind of run: none that does what it did diverges, and a changed body does.

Every step of these flows emits, which is the documented way to report progress: that is no call of the body.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast.errors import Finished, FlowNotFound
from outlast.runs.replay.replay import RunReplay
from outlast.testing import case_from_run

from ..crash.command_folder import Folder
from ..kit.place import KNOBS, Place
from . import replayed_flows as flows


class Kind(NamedTuple):
    """A run of some kind, and what its changed body must be found to do."""

    name: str
    make: Callable[[Place], str]  # gives the id of the run
    status: str
    codes: set[str]  # among others that follow from it


def ran(flow: Any) -> Callable[[Place], str]:
    return lambda place: place.run(flow).run_id


def answered(flow: Any, answer: Any) -> Callable[[Place], str]:
    def make(place: Place) -> str:
        outcome = place.run(flow)
        place.outlast.answer(outcome.interrupts[0].id, answer)
        return place.outlast.resume(outcome.run_id).run_id

    return make


def crashed(flow: Any, at: str) -> Callable[[Place], str]:
    def make(place: Place) -> str:
        place.crash(flow, at=at)
        KNOBS.pop("die", None)
        return place.outlast.runs()[-1].id

    return make


def then(make: Callable[[Place], str], after: Callable[[Place, str], Any]) -> Callable[[Place], str]:
    def both(place: Place) -> str:
        run_id = make(place)
        after(place, run_id)
        return run_id

    return both


def stopped(flow: Any) -> Callable[[Place], str]:
    def make(place: Place) -> str:
        KNOBS["stop"] = place.outlast.stop
        return place.run(flow).run_id

    return make


def go_on(place: Place, run_id: str) -> None:
    place.outlast.resume(run_id)


def give_up(place: Place, run_id: str) -> None:
    place.outlast.abort(run_id, why="no more")


def skip(place: Place, run_id: str) -> None:
    place.outlast.skip(run_id, "unsure", result="by hand", why="I saw it")
    place.outlast.resume(run_id)


def send_news(place: Place, run_id: str) -> None:
    place.outlast.signal("news", {"n": 1}, run_id=run_id)
    place.outlast.resume(run_id)


def wake(place: Place, run_id: str) -> None:
    place.clock.advance(3 * 3600)
    place.outlast.resume(run_id)


def rewind(place: Place, run_id: str) -> None:
    place.outlast.rewind(run_id, "fetch", why="again")
    place.outlast.resume(run_id)


OTHER, GONE = {"inputs_changed"}, {"no_receipt"}
KINDS = [
    Kind("emit in body and steps", ran(flows.says), "succeeded", GONE),
    Kind("an event that was refused", ran(flows.says_too_much), "failed", {"end_differs"}),
    Kind("map", ran(flows.maps), "succeeded", OTHER),
    Kind("branch", ran(flows.branches), "succeeded", GONE),
    Kind("child", ran(flows.spawns), "succeeded", GONE),
    Kind("state", ran(flows.states), "succeeded", {"state_differs"}),
    Kind("phase", ran(flows.phases), "succeeded", GONE | {"phase_differs"}),
    Kind("saves in steps and body", ran(flows.stores), "succeeded", OTHER),
    Kind("checkpoint", ran(flows.pins), "succeeded", GONE),
    Kind("handoff", ran(flows.hands_over), "succeeded", {"end_differs", "unasked"}),
    Kind("short sleep", ran(flows.rests), "succeeded", GONE),
    Kind("now, random, uuid", ran(flows.told), "succeeded", GONE),
    Kind("caught failure", ran(flows.catches), "succeeded", {"end_differs", "unasked"}),
    Kind("failed", ran(flows.fails), "failed", GONE),
    Kind("interrupted", stopped(flows.stops), "interrupted", OTHER),
    Kind("interrupted, went on", then(stopped(flows.stops), go_on), "succeeded", OTHER),
    Kind("crashed in a step", crashed(flows.dies, "fetching deadly"), "crashed", OTHER),
    Kind("crashed in an effect", crashed(flows.dies, "sending"), "crashed", OTHER),
    Kind("crashed, went on", then(crashed(flows.dies, "sending"), go_on), "succeeded", OTHER),
    Kind("waiting for a person", ran(flows.asks), "waiting", {"end_differs"}),
    Kind("answered", answered(flows.asks, {"approved": True}), "succeeded", GONE),
    Kind("waiting for a signal", ran(flows.listens), "waiting", {"end_differs"}),
    Kind("signalled", then(ran(flows.listens), send_news), "succeeded", GONE),
    Kind("long sleep", ran(flows.sleeps_long), "waiting", {"end_differs"}),
    Kind("long sleep, woken", then(ran(flows.sleeps_long), wake), "succeeded", {"unasked"}),
    Kind("waiting in doubt", ran(flows.doubts), "waiting", OTHER | {"end_differs"}),
    Kind("skipped", then(ran(flows.doubts), skip), "succeeded", OTHER),
    Kind("aborted", then(ran(flows.doubts), give_up), "aborted", OTHER),
    Kind("rewound", then(ran(flows.asks), rewind), "waiting", {"end_differs"}),
    Kind("waiting for a child", ran(flows.waits_for_a_child), "waiting", GONE),
    Kind("async", ran(flows.gathers), "succeeded", OTHER),
    Kind("async, crashed", crashed(flows.gathers, "fetching a"), "crashed", OTHER),
    Kind("async, waiting beside work", ran(flows.asks_beside), "waiting", {"end_differs"}),
    Kind("async, answered", answered(flows.asks_beside, {"approved": True}), "succeeded", GONE),
    Kind("async, child", ran(flows.async_child), "succeeded", OTHER),
]


def told(found: RunReplay) -> list[tuple[str, str, str]]:
    return [(one.code, one.subject, one.found) for one in found.divergences]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_run_of_any_kind_does_what_it_did_and_a_changed_body_does_not(place: Place, kind: Kind) -> None:
    run_id = kind.make(place)
    assert place.outlast.get(run_id).status == kind.status
    case = case_from_run(run_id, place.outlast)
    assert told(place.outlast.replay(run_id)) == []
    assert case.divergences() == ()
    KNOBS["other"] = True
    assert {one.code for one in place.outlast.replay(run_id).divergences} >= kind.codes
    assert {one.code for one in case.divergences()} >= kind.codes


# -- flow files --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


STEPS = """\
- {id: one, run: 'echo one >> diary; echo "1" > "$OUTLAST_RESULT"', retries: 1}
- {id: maybe, run: echo maybe >> diary, when: test -f no}
- {id: indeed, run: echo indeed >> diary, when: test -f flow.yaml}
- id: fix
  repeat: {max: 3, until: 'test $(grep -c author diary) -ge 2', steps: [{id: author, run: echo author >> diary}]}
- id: both
  parallel:
    - {id: left, run: echo left >> diary}
    - {id: right, run: echo right >> diary}
    - {id: say, pause_for: approval, deadline: 1h}
- {id: nap, run: test ! -f broken}
- {id: last, run: 'test ! -f deadly || kill -9 $RUNTIME $$; echo last >> diary', effect: true, confirm: exit 1}
"""


def begun(folder: Folder) -> str:
    outcome = folder.run()
    assert outcome.status == "waiting", outcome
    return outcome.run_id


def approved(folder: Folder) -> str:
    run_id = begun(folder)
    (wait,) = folder.outlast.interrupts()
    folder.outlast.answer(wait.id, {"approved": True})
    folder.resume()
    return run_id


def broken(folder: Folder) -> str:
    folder.write("broken", "")
    return approved(folder)


def declined(folder: Folder) -> str:
    run_id = begun(folder)
    (wait,) = folder.outlast.interrupts()
    folder.outlast.answer(wait.id, {"approved": False})
    return run_id


def killed(folder: Folder) -> str:
    run_id = begun(folder)
    folder.outlast.answer(folder.outlast.interrupts()[0].id, {"approved": True})
    folder.write("deadly", "")
    assert folder.cli("resume", run_id).code == -9
    return run_id


def mended(folder: Folder) -> str:
    run_id = killed(folder)
    (folder.path / "deadly").unlink()
    assert folder.cli("resume", run_id).code == 0
    return run_id


FILES = [(begun, "waiting"), (approved, "succeeded"), (broken, "failed"), (declined, "aborted")]


@pytest.mark.parametrize(
    ("make", "status"),
    [*FILES, (killed, "crashed"), (mended, "succeeded")],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_flow_file_does_what_it_did_and_a_changed_one_does_not(
    folder: Folder, make: Callable[[Folder], str], status: str
) -> None:
    folder.flow(STEPS)
    run_id = make(folder)
    before, case = folder.lines(), case_from_run(run_id, folder.outlast)
    assert folder.outlast.get(run_id).status == status
    assert told(folder.outlast.replay(run_id)) == []
    assert case.divergences(folder=folder.path) == ()
    folder.flow(STEPS.replace("id: indeed", "id: other"))
    assert "no_receipt" in {one.code for one in folder.outlast.replay(run_id).divergences}
    assert "no_receipt" in {one.code for one in case.divergences(folder=folder.path)}
    assert folder.lines() == before


# -- what has no body --------------------------------------------------------------------------------


def test_a_script_is_replayed_by_itself_and_by_nobody_else(place: Place) -> None:
    with place.outlast.open("nightly") as run:
        run.step(flows.fetch, "a")
    with pytest.raises(FlowNotFound, match="to run that script again starts a new run"):
        place.outlast.replay(place.run_id)
    with pytest.raises(FlowNotFound, match="to run that script again starts a new run"):
        case_from_run(place.run_id, place.outlast)
    with place.outlast.open("nightly", task="monday") as run:
        run.step(flows.fetch, "a")
    with pytest.raises(FlowNotFound, match="run that script again to have it done on its receipts"):
        place.outlast.replay(run.id)


def test_a_script_of_a_named_task_runs_on_its_receipts_and_a_changed_one_is_refused(place: Place) -> None:
    def script() -> str:
        with place.outlast.open("nightly", task="monday") as run:
            run.emit("progress", 1)
            run.phase = "reading"
            return str(run.step(flows.fetch, "b" if flows.other() else "a"))

    assert [script(), script()] == ["A", "A"]
    assert place.count("fetch a") == 1
    KNOBS["other"] = True
    with pytest.raises(Finished):
        script()
    assert place.ran == ["fetch a"]


def test_what_a_step_says_is_not_taken_for_the_phase(place: Place) -> None:
    run_id = place.run(flows.phases).run_id
    items = place.outlast.timeline(run_id)
    assert [item.name for item in items if item.kind == "phase"] == ["reading", "writing"]
