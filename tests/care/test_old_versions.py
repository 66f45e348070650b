"""gc and old versions of artifacts: what nothing needs goes when that is asked for, the rest is proven to stay."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import Outcome, Outlast, Run, current, flow, step
from outlast.care.gc import blobs as old_versions
from outlast.care.gc.blobs import Version, VersionRule, choose_versions
from outlast.care.gc.gc import Swept
from outlast.errors import ArtifactRemoved

from ..kit.place import KNOBS, Place


def saved(outlast: Outlast, name: str = "plan.md", count: int = 3) -> list[str]:
    return [outlast.workspace.save(name, f"version {number} of {name}\n").ref for number in range(count)]


def gone(swept: Swept) -> list[str]:
    return [each.ref for each in swept.artifacts]


def swept(place: Place, **rule: Any) -> Swept:
    return place.outlast.gc(artifacts=True, dry_run=False, **{"older_than": 0, **rule})


def test_old_versions_go_when_that_is_asked_for_and_the_newest_never(place: Place) -> None:
    first, second, third = saved(place.outlast)
    foreseen = place.outlast.gc(artifacts=True, older_than=0)
    assert gone(foreseen) == [first, second]
    assert gone(place.outlast.gc(older_than=0, dry_run=False)) == []
    assert gone(place.outlast.gc(artifacts=True, dry_run=False)) == []  # no rule, nothing goes
    assert gone(swept(place)) == [first, second]
    assert [each.ref for each in place.outlast.workspace.versions("plan.md")] == [third]
    assert place.outlast.verify().ok


def test_a_removed_version_says_so_and_its_number_is_never_given_again(place: Place) -> None:
    first, *_ = saved(place.outlast)
    swept(place)
    with pytest.raises(ArtifactRemoved, match="was removed by local"):
        place.outlast.workspace.get(first)
    with pytest.raises(ArtifactRemoved):
        place.outlast.workspace.get("plan.md@1")
    assert place.outlast.workspace.save("plan.md", "version 0 of plan.md\n").version == 4


def test_an_operation_id_of_a_removed_version_says_so(place: Place) -> None:
    place.outlast.workspace.save("plan.md", "one", operation_id="a")
    place.outlast.workspace.save("plan.md", "two")
    swept(place)
    with pytest.raises(ArtifactRemoved):
        place.outlast.workspace.save("plan.md", "one", operation_id="a")


def test_as_many_as_are_to_be_kept_stay_and_so_do_the_young(place: Place) -> None:
    first, second, _ = saved(place.outlast)
    told = swept(place, keep=2)
    assert gone(told) == [first]
    assert "1 old version of artifacts among the newest of their name: untouched" in told.proof
    told = swept(place, older_than=3600)
    assert gone(told) == []
    assert "1 old version of artifacts younger than that: untouched" in told.proof
    assert place.outlast.workspace.get(second).read()


def test_only_the_scope_that_was_named_is_swept(place: Place) -> None:
    saved(place.outlast)
    place.outlast.workspace.save("x", "1", scope="other")
    place.outlast.workspace.save("x", "2", scope="other")
    assert gone(swept(place, scope="other")) == ["artifact:other/x@1"]


@step
def looks(ref: str) -> dict[str, list[str]]:
    return {"seen": [ref]}


@flow
def waits(run: Run, ref: str, big: bool) -> str:
    looks(ref)
    run.state["kept"] = {"deep": [KNOBS["state"]]}
    if big:
        large()
    run.pause_for("approval", payload={"look at": KNOBS["payload"]})
    return ref


@step
def large() -> list[str]:
    return ["x" * 50_000, KNOBS["blob"]]


def test_whatever_an_unfinished_run_names_stays_until_it_is_over(place: Place) -> None:
    named = {name: saved(place.outlast, f"{name} 'é\".md", 2)[0] for name in ("input", "state", "payload", "blob")}
    KNOBS.update(named)
    free = saved(place.outlast, "free", 2)[0]
    outcome = place.outlast.run(waits, named["input"], True)
    told = swept(place)
    assert gone(told) == [free]
    assert "4 old versions of artifacts that an unfinished run names: untouched" in told.proof
    place.outlast.abort(outcome.run_id, why="done")
    assert sorted(gone(swept(place))) == sorted(named.values())


@flow
def saves_twice(run: Run) -> str:
    first = run.workspace.save("draft", "one")
    run.workspace.save("draft", "two")
    run.pause_for("approval")
    return first.text()


def test_a_run_that_goes_on_finds_what_it_saved(place: Place) -> None:
    outcome = place.outlast.run(saves_twice)
    assert gone(swept(place)) == []
    place.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert place.outlast.resume(outcome.run_id).unwrap() == "one"


def test_what_an_open_handoff_names_stays_until_it_is_settled(place: Place) -> None:
    first = saved(place.outlast)[0]
    packet = {"draft": first}
    place.outlast.handoff.store("task:x", "Half done", "Go on", execution_state_v1=packet, bind=False)
    told = swept(place)
    assert first not in gone(told)
    assert "1 old version of artifacts that an open handoff names: untouched" in told.proof
    place.outlast.handoff.claim("task:x")
    place.outlast.handoff.settle("task:x", "completed", override="enough")
    assert gone(swept(place)) == [first]


@pytest.mark.parametrize("by", ["record", "pinned", "link", "checkpoint"])
def test_what_a_record_a_link_or_a_checkpoint_names_stays(place: Place, by: str) -> None:
    first, second, third = saved(place.outlast)
    match by:
        case "record" | "pinned":
            place.outlast.workspace.record("decision", "This one", refs=[first], pinned=by == "pinned")
        case "link":
            place.outlast.workspace.link(third, "derived_from", first)
        case _:
            place.outlast.workspace.checkpoint("here", refs=[first], task="t")
    assert gone(swept(place)) == [second]
    assert place.outlast.workspace.get(first).text() == "version 0 of plan.md\n"


def test_content_that_another_artifact_shares_stays(place: Place) -> None:
    place.outlast.workspace.save("a", "shared")
    place.outlast.workspace.save("a", "other")
    place.outlast.workspace.save("b", "shared")
    assert gone(swept(place)) == ["artifact:default/a@1"]
    for file in Path(place.home, "default", "blobs").glob("??/*"):
        assert file.is_file()
    assert place.outlast.workspace.get("b").text() == "shared"
    assert place.outlast.verify().ok


@pytest.mark.parametrize("by", ["run", "handoff", "checkpoint", "record", "link", "signal", "answer", "skip"])
def test_what_is_named_after_it_was_chosen_stays(place: Place, by: str) -> None:
    first, second, third = saved(place.outlast)
    KNOBS.update(state="", payload="")
    waiting = place.outlast.run(waits, "x", False)
    place.outlast.handoff.store("task:before", "Half done", "Go on", bind=False)
    place.outlast.workspace.checkpoint("before", task="t")
    caller = place.outlast._executor.caller
    choice, said = old_versions.plan(caller.home, VersionRule(keep=0))
    named_by(place.outlast, by, first, third, waiting)
    removed, troubles = old_versions.remove(caller, choice, said)
    assert [each.ref for each in removed] == [second]
    assert troubles == ["1 versions of artifacts are needed since, and stay"]


@step
def fails() -> list[str]:
    raise ValueError("no")


@flow
def ends_early(run: Run) -> list[str]:
    return fails()


def named_by(outlast: Outlast, by: str, ref: str, other: str, waiting: Outcome) -> None:
    match by:
        case "run":
            KNOBS.update(payload=ref)
            outlast.run(waits, "y", False)
        case "handoff":
            outlast.handoff.store("task:x", "Half done", f"Go on with {ref}", bind=False)
        case "checkpoint":
            outlast.workspace.checkpoint("here", refs=[ref], task="t")
        case "record":
            outlast.workspace.record("note", "This one", refs=[ref])
        case "link":
            outlast.workspace.link(other, "derived_from", ref)
        case "signal":
            outlast.signal("go", {"with": ref}, task="t")
        case "answer":
            outlast.answer(waiting.interrupts[0].id, {"approved": False, "comment": f"take {ref}"})
        case _:
            outlast.skip(outlast.run(ends_early).run_id, "fails", result=[ref], why="seen")


def test_a_ref_in_json_that_is_kept_as_a_text_is_seen_too(place: Place) -> None:
    first, second, _ = saved(place.outlast, 'naïve "q" \\ 😀')
    KNOBS.update(state=json.dumps(json.dumps({"deep": second})), payload="")
    place.outlast.run(waits, json.dumps({"ref": first}), False)
    assert gone(swept(place)) == []


@step
def records_it(ref: str) -> list[str]:
    run = current()
    run.workspace.record("note", "This one", refs=[ref])
    run.workspace.link(ref, "supports", "artifact:default/linked@1")
    return gone(KNOBS["sweep"]())


@flow
def sweeps_amid_a_step(run: Run) -> list[str]:
    return records_it(KNOBS["ref"])


def test_what_a_step_under_way_has_recorded_or_linked_stays(place: Place) -> None:
    first, second, _ = saved(place.outlast)
    saved(place.outlast, "linked", 2)
    KNOBS.update(ref=first, sweep=lambda: swept(place))
    assert place.outlast.run(sweeps_amid_a_step).unwrap() == [second]
    assert place.outlast.workspace.get(first).read()
    assert place.outlast.workspace.get("linked@1").read()


versions = st.builds(
    Version,
    key=st.integers(1, 50),
    ref=st.just("r"),
    size=st.just(1),
    stored_at=st.integers(0, 10),
    newer=st.integers(1, 5),
    needed=st.sampled_from(["", "", "run", "link"]),
)


@given(st.lists(versions, max_size=8), st.none() | st.integers(0, 10), st.none() | st.integers(0, 5))
def test_every_version_goes_or_stays_for_a_reason_and_none_that_is_needed_goes(
    some: list[Version], before: int | None, keep: int | None
) -> None:
    choice = choose_versions(some, VersionRule(before, keep))
    assert len(choice.going) + choice.kept.total() == len(some)
    assert not any(each.needed for each in choice.going)
    assert all(before is None or each.stored_at <= before for each in choice.going)
    assert all(keep is None or each.newer >= keep for each in choice.going)
