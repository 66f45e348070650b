"""Records: what was observed, decided, found or noted is kept as it was said, once, and belongs to its run."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, current, effect, flow, step
from outlast.errors import (
    AmbiguousPrefix,
    ArtifactNotFound,
    CheckpointNotFound,
    HandoffNotFound,
    NameInvalid,
    OperationConflict,
    OutlastError,
    RecordNotFound,
    Refused,
    RunNotFound,
    SecretFound,
    ValueRefused,
)
from outlast.testing import case_from_run

from ..kit.place import KNOBS, Place, reach
from .test_artifacts import tamper

KEY = "AKIAIOSFODNN7EXAMPLQ"  # what an access key looks like
ODD = "Ünïcode 🌊, 'quotes' \"double\", \\back, ../up, a\nsecond line, a tab\t, \x00 and \x1b[31m red"


# -- outside of a run --------------------------------------------------------------------------------


def test_what_is_recorded_comes_back_with_all_that_was_said(place: Place) -> None:
    workspace = place.outlast.workspace
    artifact = workspace.save("a b.md", b"x")
    first = workspace.record("observation", ODD)
    made = workspace.record(
        "decision",
        "Ship it.",
        [first.ref[:11], artifact.ref, first.ref],
        tags=["b", "a", "b"],
        pinned=True,
        task="tides",
        at=datetime(2025, 1, 2, 5, tzinfo=timezone(timedelta(hours=2))),
        source="the meeting",
        actor="ann",
    )
    assert workspace.get_record(made.ref) == made
    assert made.ref == f"record:{made.id}"
    assert (made.refs, made.tags) == ((first.ref, artifact.ref), ("a", "b"))
    assert (made.kind, made.text, made.task, made.pinned, made.pinned_by) == (
        "decision",
        "Ship it.",
        "tides",
        True,
        "ann",
    )
    assert (made.source.actor, made.source.origin, made.source.run_id) == ("ann", "the meeting", "")
    assert (made.at, made.stored_at) == (datetime(2025, 1, 2, 3, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    assert (first.text, first.at, first.task, first.pinned_by) == (ODD, first.stored_at, "", "")
    assert place.outlast.verify().ok
    assert place.outlast.verify().records == 2


def test_a_record_is_found_by_its_ref_its_id_or_a_unique_prefix(place: Place) -> None:
    workspace = place.outlast.workspace
    made = workspace.record("note", "n")
    for asked in (made.ref, made.id, made.ref[:-2], made.id[:8]):
        assert workspace.get_record(asked) == made
    for asked in ("record:nothing", "", "record:", "run:x"):
        with pytest.raises((RecordNotFound, ValueRefused)):
            workspace.get_record(asked)
    place.outlast._executor.home.ids = iter(["same1", "same2"]).__next__
    workspace.record("note", "1"), workspace.record("note", "2")
    with pytest.raises(AmbiguousPrefix, match="same1, same2"):
        workspace.get_record("record:same")


@pytest.mark.parametrize(
    ("given", "error", "path"),
    [
        ({"kind": "rumour"}, ValueRefused, "kind"),
        ({"kind": None}, ValueRefused, "kind"),
        ({"text": ""}, ValueRefused, "text"),
        ({"text": " \n"}, ValueRefused, "text"),
        ({"text": 7}, ValueRefused, "text"),
        ({"text": "\ud800"}, ValueRefused, "text"),
        ({"text": "x" * ((1 << 20) + 1)}, ValueRefused, "text"),
        ({"text": "ü" * (1 << 19) + "x"}, ValueRefused, "text"),
        ({"refs": "record:x"}, ValueRefused, "refs"),
        ({"refs": [None]}, ValueRefused, "refs[0]"),
        ({"refs": ["nonsense"]}, ValueRefused, "refs[0]"),
        ({"refs": ["blob:x"]}, ValueRefused, "refs[0]"),
        ({"refs": [f"run:{n}" for n in range(101)]}, ValueRefused, "refs"),
        ({"tags": ["a\nb"]}, ValueRefused, "tags[0]"),
        ({"pinned": 1}, ValueRefused, "pinned"),
        ({"at": datetime(2025, 1, 1)}, ValueRefused, "at"),
        ({"at": "yesterday"}, ValueRefused, "at"),
        ({"task": "\x00"}, NameInvalid, None),
        ({"scope": ""}, NameInvalid, None),
        ({"refs": ["record:nothing"]}, RecordNotFound, None),
        ({"refs": ["artifact:default/x@1"]}, ArtifactNotFound, None),
        ({"refs": ["checkpoint:nothing"]}, CheckpointNotFound, None),
        ({"refs": ["handoff:nothing"]}, HandoffNotFound, None),
        ({"refs": ["run:nothing"]}, RunNotFound, None),
        ({"text": f"the key is {KEY}"}, SecretFound, "text"),
        ({"tags": ["fine", KEY]}, SecretFound, "tags[0]"),
        ({"source": f"see {KEY}"}, SecretFound, "source"),
        ({"refs": [f"artifact:default/{KEY}@1"]}, SecretFound, "refs[0]"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_path_and_leaves_nothing(
    place: Place, given: dict[str, Any], error: type[OutlastError], path: str | None
) -> None:
    with pytest.raises(error) as caught:
        place.outlast.workspace.record(**{"kind": "note", "text": "x"} | given)
    assert caught.value.facts.get("path") == path
    assert place.outlast.workspace.records() == []


def test_a_text_of_a_mebibyte_is_kept_whole(place: Place) -> None:
    text = "x" * (1 << 20)
    assert place.outlast.workspace.get_record(place.outlast.workspace.record("note", text).ref).text == text


def test_secrets_are_masked_when_asked_for_and_the_paths_are_told(place: Place) -> None:
    said = {"tags": [KEY], "source": f"from {KEY}"}
    made = place.outlast.workspace.record("note", f"the key is {KEY}", redact=True, **said)
    assert (made.text, made.tags, made.source.origin) == ("the key is ***", ("***",), "from ***")
    assert made.masked == ("text", "tags[0]", "source")
    assert KEY.encode() not in (place.home / "default" / "outlast.db").read_bytes()
    assert place.outlast.workspace.get_record(made.ref) == made


def test_an_exact_repeat_gives_the_first_record_and_another_one_is_a_conflict(place: Place) -> None:
    workspace = place.outlast.workspace
    first = workspace.record("note", "one", tags=["t"], operation_id="op")
    again = workspace.record("note", "one", tags=["t"], operation_id="op")
    assert (again, again.replayed, first.replayed) == (first, True, False)
    with pytest.raises(OperationConflict):
        workspace.record("note", "two", tags=["t"], operation_id="op")
    assert workspace.record("note", "one").ref != first.ref  # without an id it is said twice
    assert len(workspace.records()) == 2


def test_records_are_listed_by_what_they_are_the_newest_first(place: Place) -> None:
    workspace = place.outlast.workspace
    a = workspace.record("note", "a", tags=["x"], task="t")
    b = workspace.record("decision", "b", [a.ref], tags=["x", "y"], pinned=True)
    c = workspace.record("decision", "c", [a.ref], task="t")
    workspace.record("decision", "elsewhere", [a.ref], tags=["x"], pinned=True, task="t", scope="other")
    assert workspace.records() == [c, b, a]
    assert workspace.records(kind="decision") == [c, b]
    assert workspace.records(task="t") == [c, a]
    assert workspace.records(tag="x") == [b, a]
    assert workspace.records(pinned=True) == [b]
    assert workspace.records(pinned=False) == [c, a]
    assert workspace.records(ref=a.ref) == [c, b]
    assert workspace.records(kind="decision", tag="x", ref=a.ref) == [b]
    assert workspace.records(limit=1) == [c]
    assert workspace.records(before=c.ref, limit=1) == [b]
    assert workspace.records(before=a.ref) == []
    with pytest.raises(ValueRefused):
        workspace.records(kind="rumour")
    with pytest.raises(RecordNotFound):
        workspace.records(before="record:nothing")


def test_a_pin_is_set_and_taken_away_and_is_no_part_of_what_was_said(place: Place) -> None:
    workspace = place.outlast.workspace
    made = workspace.record("note", "n")
    pinned = workspace.pin(made.ref, actor="ann", operation_id="p")
    assert (pinned.pinned, pinned.pinned_by, pinned.replayed) == (True, "ann", False)
    assert workspace.pin(made.ref).replayed
    assert workspace.pin(made.ref, actor="ann", operation_id="p").pinned
    assert workspace.records(pinned=True) == [pinned]
    assert not workspace.pin(made.id, pinned=False).pinned
    assert workspace.records(pinned=True) == []
    assert place.outlast.verify().ok
    with pytest.raises(RecordNotFound):
        workspace.pin("record:nothing")
    with pytest.raises(ValueRefused):
        workspace.pin(made.ref, pinned="yes")


def test_the_same_on_an_event_loop(place: Place) -> None:
    async def work() -> None:
        async with AsyncOutlast(place.home) as outlast:
            a = await outlast.workspace.record("note", "a")
            b = await outlast.workspace.record("note", "b", [a.ref])
            made = await outlast.workspace.link(a.ref, "supports", b.ref)
            assert await outlast.workspace.records() == [b, a]
            assert await outlast.workspace.links(a.ref) == [made]
            assert (await outlast.workspace.why(b.ref)).stands
            assert (await outlast.workspace.pin(b.ref)).pinned
            assert (await outlast.workspace.get_record(b.ref)).pinned

    asyncio.run(work())


def test_checkpoints_take_refs_of_every_kind_and_keep_them_whole(place: Place) -> None:
    workspace = place.outlast.workspace
    made = workspace.record("note", "n")
    pinned = workspace.checkpoint("one", task="t", refs=[made.ref[:10]])
    second = workspace.checkpoint("two", task="t", refs=[f"checkpoint:{pinned.id[:6]}"])
    assert (pinned.refs, second.refs) == ((made.ref,), (f"checkpoint:{pinned.id}",))
    with pytest.raises(RecordNotFound):
        workspace.checkpoint("three", task="t", refs=["record:nothing"])


def test_a_task_shows_its_newest_records(place: Place) -> None:
    workspace = place.outlast.workspace
    made = workspace.record("decision", "d", task="t")
    workspace.record("decision", "another task's", task="u")
    workspace.checkpoint("here", task="t")
    session = place.outlast.tasks.open("t")
    assert session.inspect_task_context().records == (made,)


# -- in a run ----------------------------------------------------------------------------------------


@step
def looks(topic: str) -> str:
    workspace = current().workspace
    saved = workspace.save("seen.md", topic)
    made = workspace.record("observation", f"saw {topic}", [saved.ref], tags=["seen"])
    assert workspace.get_record(made.ref) == made
    second = workspace.record("note", "about it", [made.ref])
    workspace.link(made.ref, "derived_from", saved.ref)
    workspace.link(made.ref, "derived_from", saved.ref)
    workspace.link(second.ref, "derived_from", made.ref)
    reach("in the step")
    KNOBS["made"] = (made.ref, second.ref)
    return made.ref


@flow
def decides(run: Run, topic: str) -> list[str]:
    ref = looks(topic)
    made = run.workspace.record("decision", KNOBS.get("text", "go on"), [ref], pinned=True)
    linked = run.workspace.link(ref, "supports", made.ref, note="it was seen")
    reach("recorded")
    twice = [run.workspace.record("note", "twice").ref for _ in range(2)]
    return [ref, made.ref, linked.id, *twice]


def test_a_run_records_in_its_body_and_in_steps_and_says_where(place: Place) -> None:
    outcome = place.run(decides, "tides", task="t")
    ref, decision, _, *twice = outcome.unwrap()
    workspace = place.outlast.workspace
    seen = workspace.get_record(ref)
    assert (seen.source.run_id, seen.source.step, seen.source.attempt) == (outcome.run_id, "looks", 1)
    assert (seen.refs, seen.task) == (("artifact:default/seen.md@1",), "t")
    made = workspace.get_record(decision)
    assert (made.source.run_id, made.source.step, made.task, made.pinned) == (outcome.run_id, "", "t", True)
    assert len({*twice}) == 2
    assert len(workspace.links(ref)) == 3
    assert place.outlast.verify().ok
    assert place.outlast.facts()["records"] == 5


def test_on_replay_it_is_the_first_record_and_nothing_is_written(place: Place) -> None:
    place.crash(decides, "tides", task="t", at="recorded")
    before = place.outlast.workspace.records()
    kinds = sorted(one.kind for one in before)
    assert kinds == ["decision", "note", "observation"]
    _, decision, linked, *_ = place.run(decides, "tides", task="t").unwrap()
    assert decision in [one.ref for one in before]
    assert linked in [one.id for one in place.outlast.workspace.links(decision)]
    assert place.outlast.workspace.records(kind="decision") == [one for one in before if one.kind == "decision"]
    assert place.outlast.workspace.records(kind="observation") == [one for one in before if one.kind == "observation"]
    assert place.outlast.replay(place.run_id).ok


def test_another_text_is_another_record(place: Place) -> None:
    place.crash(decides, "tides", task="t", at="recorded")
    KNOBS["text"] = "something else"
    place.run(decides, "tides", task="t").unwrap()
    assert [one.text for one in place.outlast.workspace.records(kind="decision")] == ["something else", "go on"]


@step
def fails(topic: str) -> str:
    made = current().workspace.record("observation", topic)
    KNOBS["made"] = made.ref
    current().workspace.link(made.ref, "supports", KNOBS["other"])
    with pytest.raises(RecordNotFound):
        KNOBS["outlast"].workspace.get_record(made.ref)
    assert KNOBS["outlast"].workspace.records(kind="observation") == []
    assert KNOBS["outlast"].workspace.links(KNOBS["other"]) == []
    raise ValueError("no")


@flow
def fails_in_a_step(run: Run) -> str:
    try:
        return fails("x")
    except ValueError:
        return "caught"


def test_what_an_attempt_records_is_seen_with_its_receipt_and_gone_if_it_fails(place: Place) -> None:
    KNOBS["outlast"] = place.outlast
    KNOBS["other"] = place.outlast.workspace.record("note", "other").ref
    assert place.run(fails_in_a_step).unwrap() == "caught"
    with pytest.raises(RecordNotFound):
        place.outlast.workspace.get_record(KNOBS["made"])
    assert place.outlast.workspace.links(KNOBS["other"]) == []
    assert [one.kind for one in place.outlast.workspace.records()] == ["note"]
    assert place.outlast.verify().ok


def test_what_a_killed_step_recorded_nobody_sees_and_the_next_attempt_clears_it(place: Place) -> None:
    place.crash(decides, "tides", at="in the step")
    assert place.outlast.workspace.records() == []
    verified = place.outlast.verify()
    assert (verified.ok, verified.records, verified.links) == (True, 2, 2)  # they wait for a receipt that never comes
    place.run(decides, "tides").unwrap()
    assert (place.outlast.verify().records, place.outlast.verify().links) == (5, 3)


def test_gc_clears_what_a_killed_step_of_a_given_up_run_recorded(place: Place) -> None:
    place.crash(decides, "tides", at="in the step")
    place.outlast.abort(place.run_id, why="given up")
    place.outlast.gc(dry_run=False)
    assert (place.outlast.verify().records, place.outlast.verify().links) == (0, 0)
    assert place.outlast.verify().ok


@effect
def announces() -> str:
    return current().workspace.record("evidence", "announced").ref


@flow
def announces_once(run: Run) -> str:
    return announces()


def test_an_effect_records_with_its_receipt(place: Place) -> None:
    ref = place.run(announces_once).unwrap()
    assert place.outlast.workspace.get_record(ref).source.step == "announces"


@flow
def records_nonsense(run: Run) -> str:
    try:
        run.workspace.record("note", "x", ["record:nothing"])
    except RecordNotFound as error:
        return error.code
    return ""


def test_a_flow_can_catch_what_is_refused(place: Place) -> None:
    assert place.run(records_nonsense).unwrap() == "record_not_found"
    assert place.outlast.workspace.records() == []


def test_a_run_that_recorded_or_linked_does_not_move(place: Place) -> None:
    place.crash(decides, "tides", at="recorded")
    with pytest.raises(Refused, match="do not travel"):
        place.outlast.export(place.run_id, place.folder / "x.outlast", move=True)


@flow
def notes_only(run: Run) -> str:
    return run.workspace.record("note", "n").ref


@flow
def links_only(run: Run, a: str, b: str) -> str:
    return run.workspace.link(a, "supports", b).id


def test_records_and_links_alone_keep_a_run_at_home(place: Place) -> None:
    a, b = (place.outlast.workspace.record("note", text).ref for text in "ab")
    for what, outcome in (("records", place.run(notes_only)), ("links", place.run(links_only, a, b))):
        with pytest.raises(Refused, match=f"has {what}, which do not travel"):
            place.outlast.export(outcome.run_id, place.folder / "x.outlast", move=True)


def test_a_case_brings_what_its_run_recorded_and_linked(place: Place) -> None:
    outcome = place.run(decides, "tides")
    case = case_from_run(outcome.run_id, place.outlast)
    assert {row["kind"] for row in case.stored["records"]} == {"observation", "decision", "note"}
    assert len(case.stored["links"]) == 3
    case.check(decides)


# -- integrity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("UPDATE records SET text = 'forged'", "what it says of itself was changed"),
        ("UPDATE records SET kind = 'note'", "what it says of itself was changed"),
        ("DELETE FROM record_tags", "the index of its tags was changed"),
        ("DELETE FROM record_refs", "the index of its refs was changed"),
        ("UPDATE links SET target = source", "what it says of itself was changed"),
        ("DELETE FROM records WHERE kind = 'decision'", "its row is missing"),
        ("DELETE FROM links", "its row is missing"),
        ("DELETE FROM checkpoints", "its row is missing"),
        ("DELETE FROM artifacts; DELETE FROM artifact_blobs", "its row is missing"),
        ("DELETE FROM workspace_shown WHERE noun = 'record'", "its number among what everybody sees is missing"),
        (
            "DELETE FROM records WHERE key = 1; DELETE FROM workspace_shown WHERE noun = 'record' AND row = 1",
            "what was put there, and that it was, is missing",
        ),
        (
            "DELETE FROM links; DELETE FROM workspace_shown WHERE noun = 'link'",
            "what was put there, and that it was, is missing",
        ),
    ],
)
def test_a_changed_or_deleted_row_is_noticed_and_named(place: Place, sql: str, why: str) -> None:
    workspace = place.outlast.workspace
    saved = workspace.save("x", b"x")
    decision = workspace.record("decision", "d", [saved.ref], tags=["t"])
    workspace.checkpoint("here", task="t", refs=[saved.ref])
    other = workspace.record("evidence", "e", [saved.ref], tags=["t"])
    workspace.link(other.ref, "supports", decision.ref)
    assert place.outlast.verify().ok
    tamper(place, "PRAGMA foreign_keys = OFF; " + sql)  # type: ignore[arg-type]
    problems = place.outlast.verify().problems
    assert why in {problem.why for problem in problems}


def test_another_tenant_has_other_records(place: Place) -> None:
    made = place.outlast.workspace.record("note", "mine")
    with Outlast(place.home, tenant="other") as outlast:
        with pytest.raises(RecordNotFound):
            outlast.workspace.get_record(made.ref)
        with pytest.raises(RecordNotFound):
            outlast.workspace.record("note", "theirs", [made.ref])
        assert outlast.workspace.records() == []


@flow
def decides_and_pins(run: Run) -> str:
    draft = run.workspace.save("draft.md", "a draft")
    decided = run.workspace.record("decision", "Kelp it is", refs=[draft.ref])
    run.workspace.link(decided.ref, "supports", draft.ref)
    run.checkpoint("decided", refs=[draft.ref])
    return "done"


def test_gc_leaves_records_links_and_checkpoints_alone(place: Place) -> None:
    place.run(decides_and_pins)
    before = place.outlast.verify()
    place.clock.advance(1000 * 86_400)
    assert len(place.outlast.gc(keep=0, dry_run=False).runs) == 1
    after = place.outlast.verify()
    assert (after.records, after.links, after.checkpoints, after.artifacts) == (1, 1, 1, 1)
    assert (before.records, before.links, before.checkpoints, after.ok) == (1, 1, 1, True)
