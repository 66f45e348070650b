"""gc and old versions of artifacts: what nothing needs goes when that is asked for, the rest is proven to stay."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast, Outcome, Run, current, flow, step
from holdfast.care.gc import artifacts as old_versions
from holdfast.care.gc.gc import Swept
from holdfast.care.gc.version_rule import Version, VersionRule, choose_versions
from holdfast.errors import ArtifactRemoved

from ..kit.place import KNOBS, Place


def saved(hold: Holdfast, name: str = "plan.md", count: int = 3) -> list[str]:
    return [hold.workspace.save(name, f"version {number} of {name}\n").ref for number in range(count)]


def gone(swept: Swept) -> list[str]:
    return [each.ref for each in swept.artifacts]


def swept(place: Place, **rule: Any) -> Swept:
    return place.hold.gc(artifacts=True, dry_run=False, **{"older_than": 0, **rule})


def test_old_versions_go_when_that_is_asked_for_and_the_newest_never(place: Place) -> None:
    first, second, third = saved(place.hold)
    foreseen = place.hold.gc(artifacts=True, older_than=0)
    assert gone(foreseen) == [first, second]
    assert gone(place.hold.gc(older_than=0, dry_run=False)) == []
    assert gone(place.hold.gc(artifacts=True, dry_run=False)) == []  # no rule, nothing goes
    assert gone(swept(place)) == [first, second]
    assert [each.ref for each in place.hold.workspace.versions("plan.md")] == [third]
    assert place.hold.verify().ok


def test_a_removed_version_says_so_and_its_number_is_never_given_again(place: Place) -> None:
    first, *_ = saved(place.hold)
    swept(place)
    with pytest.raises(ArtifactRemoved, match="was removed by local"):
        place.hold.workspace.get(first)
    with pytest.raises(ArtifactRemoved):
        place.hold.workspace.get("plan.md@1")
    assert place.hold.workspace.save("plan.md", "version 0 of plan.md\n").version == 4


def test_an_operation_id_of_a_removed_version_says_so(place: Place) -> None:
    place.hold.workspace.save("plan.md", "one", operation_id="a")
    place.hold.workspace.save("plan.md", "two")
    swept(place)
    with pytest.raises(ArtifactRemoved):
        place.hold.workspace.save("plan.md", "one", operation_id="a")


def test_as_many_as_are_to_be_kept_stay_and_so_do_the_young(place: Place) -> None:
    first, second, _ = saved(place.hold)
    told = swept(place, keep=2)
    assert gone(told) == [first]
    assert "1 old version of artifacts among the newest of their name: untouched" in told.proof
    told = swept(place, older_than=3600)
    assert gone(told) == []
    assert "1 old version of artifacts younger than that: untouched" in told.proof
    assert place.hold.workspace.get(second).read()


def test_only_the_scope_that_was_named_is_swept(place: Place) -> None:
    saved(place.hold)
    place.hold.workspace.save("x", "1", scope="other")
    place.hold.workspace.save("x", "2", scope="other")
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
    named = {name: saved(place.hold, f"{name} 'é\".md", 2)[0] for name in ("input", "state", "payload", "blob")}
    KNOBS.update(named)
    free = saved(place.hold, "free", 2)[0]
    outcome = place.hold.run(waits, named["input"], True)
    told = swept(place)
    assert gone(told) == [free]
    assert "4 old versions of artifacts that an unfinished run names: untouched" in told.proof
    place.hold.abort(outcome.run_id, why="done")
    assert sorted(gone(swept(place))) == sorted(named.values())


@flow
def saves_twice(run: Run) -> str:
    first = run.workspace.save("draft", "one")
    run.workspace.save("draft", "two")
    run.pause_for("approval")
    return first.text()


def test_a_run_that_goes_on_finds_what_it_saved(place: Place) -> None:
    outcome = place.hold.run(saves_twice)
    assert gone(swept(place)) == []
    place.hold.answer(outcome.interrupts[0].id, {"approved": True})
    assert place.hold.resume(outcome.run_id).unwrap() == "one"


def test_what_an_open_handoff_names_stays_until_it_is_settled(place: Place) -> None:
    first = saved(place.hold)[0]
    packet = {"draft": first}
    place.hold.handoff.store("task:x", "Half done", "Go on", execution_state_v1=packet, bind=False)
    told = swept(place)
    assert first not in gone(told)
    assert "1 old version of artifacts that an open handoff names: untouched" in told.proof
    place.hold.handoff.claim("task:x")
    place.hold.handoff.settle("task:x", "completed", override="enough")
    assert gone(swept(place)) == [first]


@pytest.mark.parametrize("by", ["record", "pinned", "link", "checkpoint"])
def test_what_a_record_a_link_or_a_checkpoint_names_stays(place: Place, by: str) -> None:
    first, second, third = saved(place.hold)
    match by:
        case "record" | "pinned":
            place.hold.workspace.record("decision", "This one", refs=[first], pinned=by == "pinned")
        case "link":
            place.hold.workspace.link(third, "derived_from", first)
        case _:
            place.hold.workspace.checkpoint("here", refs=[first], task="t")
    assert gone(swept(place)) == [second]
    assert place.hold.workspace.get(first).text() == "version 0 of plan.md\n"


def test_content_that_another_artifact_shares_stays(place: Place) -> None:
    place.hold.workspace.save("a", "shared")
    place.hold.workspace.save("a", "other")
    place.hold.workspace.save("b", "shared")
    assert gone(swept(place)) == ["artifact:default/a@1"]
    for file in Path(place.home, "default", "blobs").glob("??/*"):
        assert file.is_file()
    assert place.hold.workspace.get("b").text() == "shared"
    assert place.hold.verify().ok


@pytest.mark.parametrize("by", ["run", "handoff", "checkpoint", "record", "link", "signal", "answer", "skip"])
def test_what_is_named_after_it_was_chosen_stays(place: Place, by: str) -> None:
    first, second, third = saved(place.hold)
    KNOBS.update(state="", payload="")
    waiting = place.hold.run(waits, "x", False)
    place.hold.handoff.store("task:before", "Half done", "Go on", bind=False)
    place.hold.workspace.checkpoint("before", task="t")
    runtime = place.hold._runtime
    choice, said = old_versions.plan(runtime, VersionRule(keep=0))
    named_by(place.hold, by, first, third, waiting)
    removed, troubles = old_versions.remove(runtime, choice, said)
    assert [each.ref for each in removed] == [second]
    assert troubles == ["1 versions of artifacts are needed since, and stay"]


@step
def fails() -> list[str]:
    raise ValueError("no")


@flow
def ends_early(run: Run) -> list[str]:
    return fails()


def named_by(hold: Holdfast, by: str, ref: str, other: str, waiting: Outcome) -> None:
    match by:
        case "run":
            KNOBS.update(payload=ref)
            hold.run(waits, "y", False)
        case "handoff":
            hold.handoff.store("task:x", "Half done", f"Go on with {ref}", bind=False)
        case "checkpoint":
            hold.workspace.checkpoint("here", refs=[ref], task="t")
        case "record":
            hold.workspace.record("note", "This one", refs=[ref])
        case "link":
            hold.workspace.link(other, "derived_from", ref)
        case "signal":
            hold.signal("go", {"with": ref}, task="t")
        case "answer":
            hold.answer(waiting.interrupts[0].id, {"approved": False, "comment": f"take {ref}"})
        case _:
            hold.skip(hold.run(ends_early).run_id, "fails", result=[ref], why="seen")


def test_a_ref_in_json_that_is_kept_as_a_text_is_seen_too(place: Place) -> None:
    first, second, _ = saved(place.hold, 'naïve "q" \\ 😀')
    KNOBS.update(state=json.dumps(json.dumps({"deep": second})), payload="")
    place.hold.run(waits, json.dumps({"ref": first}), False)
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
    first, second, _ = saved(place.hold)
    saved(place.hold, "linked", 2)
    KNOBS.update(ref=first, sweep=lambda: swept(place))
    assert place.hold.run(sweeps_amid_a_step).unwrap() == [second]
    assert place.hold.workspace.get(first).read()
    assert place.hold.workspace.get("linked@1").read()


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
