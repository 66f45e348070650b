"""Recall: what matters for a goal, within a budget, the same each time, whatever other scopes hold."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import AsyncOutlast, Outlast, Run, current, flow, step
from outlast.errors import BudgetTooSmall, ValueRefused
from outlast.store.sqlite.recall import with_index
from outlast.values.tokens import tokens_about as tokens_of
from outlast.workspace.recall import search as indexed
from outlast.workspace.recall.pack import ContextPack
from outlast.workspace.recall.words import Document

from ..kit.place import KNOBS, Place

FACTS = (
    "The exporter drops time zones when it writes CSV files.",
    "The importer reads rows and skips blank ones.",
    "Ana prefers small commits with a test each.",
    "The nightly job needs 40 minutes on two cores.",
    "Passwords of the staging server are rotated every month.",
    "The serializer is shared by the exporter and the mailer.",
)


def refs(pack: ContextPack) -> list[str]:
    return [entry.ref for entry in pack.entries]


def told(outlast: Outlast, scope: str | None = None) -> list[str]:
    return [
        outlast.workspace.record("observation", text, scope=scope, source=str(n)).ref for n, text in enumerate(FACTS)
    ]


def index_file(place: Place) -> Path:
    (found,) = (place.home / "default" / "recall").glob("*.db")
    return found


# -- what is chosen ----------------------------------------------------------------------------------


def test_what_the_goal_speaks_of_comes_first_and_says_why(place: Place) -> None:
    made = told(place.outlast)
    pack = place.outlast.workspace.recall("Which time zone does the export use?")
    assert refs(pack)[0] == made[0]
    assert any("export" in word or "zone" in word for word in pack.entries[0].why)
    assert made[3] not in refs(pack)
    assert pack.considered == len(FACTS)
    assert sum(each.count for each in pack.left_out) + len(pack.entries) == pack.considered


def test_the_same_question_gives_the_same_pack_and_other_scopes_have_no_say(place: Place) -> None:
    told(place.outlast)
    before = place.outlast.workspace.recall("exporter and importer", 300)
    for number in range(30):
        place.outlast.workspace.record("decision", f"exporter importer {number}", scope="elsewhere", pinned=number == 3)
    assert place.outlast.workspace.recall("exporter and importer", 300) == before
    with Outlast(place.home) as again:
        assert again.workspace.recall("exporter and importer", 300) == before


def test_a_pack_never_costs_more_than_its_budget_as_it_is_shown(place: Place) -> None:
    told(place.outlast)
    for budget in (1, 30, 60, 90, 150, 400):
        pack = place.outlast.workspace.recall("exporter importer serializer", budget)
        assert pack.tokens <= budget
        assert not pack.entries or tokens_of(pack.prompt()) == pack.tokens


def test_a_pinned_record_is_never_left_out_and_too_small_a_budget_says_the_need(place: Place) -> None:
    told(place.outlast)
    pinned = place.outlast.workspace.record("decision", "Nothing is published on Fridays.", pinned=True)
    pack = place.outlast.workspace.recall("exporter", 200)
    assert (pack.entries[0].ref, pack.entries[0].hard) == (pinned.ref, True)
    with pytest.raises(BudgetTooSmall) as refused:
        place.outlast.workspace.recall("exporter", 10)
    assert refs(place.outlast.workspace.recall("exporter", refused.value.needed)) == [pinned.ref]
    place.outlast.workspace.pin(pinned.ref, pinned=False)
    assert pinned.ref not in refs(place.outlast.workspace.recall("exporter", 200))


def test_very_many_pinned_records_leave_room_for_others_that_match(place: Place) -> None:
    for number in range(130):
        place.outlast.workspace.record("decision", f"The exporter has rule {number * number}.", pinned=True, source="a")
    other = place.outlast.workspace.record("observation", "It was seen that the exporter drops zones.", source="b")
    assert other.ref in refs(place.outlast.workspace.recall("exporter", 20_000))


def test_the_musts_of_the_task_are_there_when_it_is_named(place: Place) -> None:
    told(place.outlast)
    musts = {"must_keep": ["the public names"], "must_remove": ["the debug flag"]}
    place.outlast.handoff.store("task:export", "Half done", "Go on in export.py", bind=False, **musts)
    pack = place.outlast.workspace.recall("exporter", 400, task="export")
    said = {entry.excerpt for entry in pack.entries if entry.kind == "must"}
    assert said == {"must keep: the public names", "must remove: the debug flag"}
    assert not any(entry.kind == "must" for entry in place.outlast.workspace.recall("exporter", 400).entries)
    assert place.outlast.workspace.recall("exporter", 400, task="another").entries
    assert sum(each.count for each in pack.left_out) + len(pack.entries) == pack.considered == len(FACTS) + 2


def test_only_the_kinds_asked_for_are_recalled(place: Place) -> None:
    told(place.outlast)
    decision = place.outlast.workspace.record("decision", "The exporter stays as it is.")
    saved = place.outlast.workspace.save("exporter.md", "How the exporter works.\n")
    assert refs(place.outlast.workspace.recall("exporter", kinds=["decision"])) == [decision.ref]
    assert refs(place.outlast.workspace.recall("exporter", kinds=["artifact"])) == [saved.ref]


def test_what_is_contradicted_says_so_and_comes_after_what_stands(place: Place) -> None:
    wrong = place.outlast.workspace.record("observation", "The exporter keeps time zones.", source="a")
    right = place.outlast.workspace.record("observation", "The exporter does not keep time zones at all.", source="b")
    assert refs(place.outlast.workspace.recall("exporter keeps time zones"))[0] == wrong.ref
    place.outlast.workspace.link(right.ref, "contradicts", wrong.ref)
    pack = place.outlast.workspace.recall("exporter keeps time zones")
    assert refs(pack) == [right.ref, wrong.ref]
    assert pack.entries[1].standing == "contested"
    assert "contested" in pack.prompt()


def test_what_a_recent_decision_rests_on_is_recalled_although_no_word_matches(place: Place) -> None:
    told(place.outlast)
    ground = place.outlast.workspace.record("evidence", "Throughput fell by half on Tuesday.", source="x")
    decision = place.outlast.workspace.record("decision", "We patch the serializer first.", source="y")
    place.outlast.workspace.link(decision.ref, "derived_from", ground.ref)
    entry = next(one for one in place.outlast.workspace.recall("serializer").entries if one.ref == ground.ref)
    assert f"linked to decision {decision.ref}" in entry.why


def test_two_that_say_the_same_are_one_entry(place: Place) -> None:
    first = place.outlast.workspace.record("observation", FACTS[0], source="a")
    second = place.outlast.workspace.record("observation", FACTS[0].lower(), source="b")
    (entry,) = place.outlast.workspace.recall("exporter time zones").entries
    assert {entry.ref, *entry.folded} == {first.ref, second.ref}


def test_nothing_that_matches_gives_an_empty_pack_that_says_so(place: Place) -> None:
    made = told(place.outlast)
    pack = place.outlast.workspace.recall("qwertz")
    assert (pack.entries, pack.matched, pack.prompt()) == ((), False, "Nothing was recalled for this goal.")
    assert [(left.reason, left.count, set(left.refs)) for left in pack.left_out] == [("no_match", 6, set(made))]
    assert place.outlast.workspace.recall("", scope="nothing here").entries == ()


def test_where_nothing_matches_only_the_pins_are_there_and_the_prompt_says_so(place: Place) -> None:
    told(place.outlast)
    pinned = place.outlast.workspace.record("decision", "Nothing is published on Fridays.", pinned=True)
    ground = place.outlast.workspace.record("evidence", "Throughput fell by half.", source="x")
    place.outlast.workspace.link(pinned.ref, "derived_from", ground.ref)
    pack = place.outlast.workspace.recall("qwertz", 100)
    assert (refs(pack), pack.matched) == ([pinned.ref], False)
    assert pack.prompt().startswith("Nothing recorded matches this goal. What is pinned follows")
    assert "Recalled" not in pack.prompt()
    assert tokens_of(pack.prompt()) == pack.tokens <= 100


def test_a_kind_that_the_goal_names_counts(place: Place) -> None:
    place.outlast.workspace.record("observation", "The exporter drops the time zones.", source="a")
    decision = place.outlast.workspace.record("decision", "Time zones: the exporter writes UTC for now.", source="b")
    place.outlast.workspace.record("note", "The exporter and its time zones are Bo's.", source="c")
    entry = place.outlast.workspace.recall("what was decided about exporter time zones").entries[0]
    assert (entry.ref, "of the kind decision" in entry.why) == (decision.ref, True)
    assert refs(place.outlast.workspace.recall("all decisions")) == [decision.ref]
    assert refs(place.outlast.workspace.recall("all decisions", kinds=["note"])) == []


def test_what_is_left_out_is_named_by_ref(place: Place) -> None:
    made = told(place.outlast)
    twin = place.outlast.workspace.record("observation", FACTS[0].lower(), source="twin").ref
    pack = place.outlast.workspace.recall("exporter importer serializer", limit=1)
    named = {left.reason: left.refs for left in pack.left_out}
    assert {*refs(pack), *(ref for some in named.values() for ref in some)} == {*made, twin}
    assert all(left.count == len(left.refs) for left in pack.left_out)
    over = place.outlast.workspace.recall("exporter importer serializer", 50)
    (left,) = (left for left in over.left_out if left.reason == "over_budget")
    assert set(left.refs) <= {*made, twin}
    assert len(left.refs) == left.count > 0


# -- artifacts and checkpoints -----------------------------------------------------------------------


def test_a_long_text_is_found_by_a_sentence_in_it_and_cut_around_that(place: Place) -> None:
    filler = "".join(f"Line {number} speaks of other things altogether.\n" for number in range(400))
    saved = place.outlast.workspace.save("log.txt", filler + "The mailer lost its socket at noon.\n" + filler)
    (entry,) = place.outlast.workspace.recall("why did the mailer lose its socket", 400).entries
    assert entry.ref == saved.ref
    assert "The mailer lost its socket at noon." in entry.excerpt
    assert not entry.whole
    assert entry.tokens < 250


def test_of_an_artifact_the_newest_version_is_recalled(place: Place) -> None:
    place.outlast.workspace.save("plan.md", "Patch the serializer by hand.")
    assert place.outlast.workspace.recall("serializer").entries[0].ref == "artifact:default/plan.md@1"
    place.outlast.workspace.save("plan.md", "Patch the serializer with a script.")
    assert refs(place.outlast.workspace.recall("serializer")) == ["artifact:default/plan.md@2"]


def test_an_artifact_that_is_no_text_is_found_by_its_name_and_summary(place: Place) -> None:
    saved = place.outlast.workspace.save("shot.png", os.urandom(2000), summary="The login page on a phone")
    assert refs(place.outlast.workspace.recall("login page")) == [saved.ref]


def test_what_is_only_called_text_is_found_by_its_name_and_summary(place: Place) -> None:
    saved = place.outlast.workspace.save(
        "dump.txt", b"secretly \0\xff\x1b[2J" * 200, summary="Memory of the login page"
    )
    (entry,) = place.outlast.workspace.recall("login page").entries
    assert (entry.ref, entry.excerpt) == (saved.ref, "dump.txt\nMemory of the login page")
    assert not entry.whole
    assert entry.why[-1] == "content is no text"
    assert not [entry for entry in place.outlast.workspace.recall("secretly").entries if "matches" in entry.why[0]]


def test_an_artifact_whose_content_is_damaged_says_so(place: Place) -> None:
    saved = place.outlast.workspace.save("exporter.md", "How the exporter works.\n")
    (blob,) = Path(place.home, "default", "blobs").glob("??/*")
    blob.write_bytes(b"something else")
    (entry,) = place.outlast.workspace.recall("exporter").entries
    assert (entry.ref, entry.excerpt, entry.whole) == (saved.ref, "exporter.md", False)
    assert entry.why[-1] == "content is damaged"


def test_of_a_kind_that_was_asked_for_nothing_is_given_when_nothing_matches(place: Place) -> None:
    decision = place.outlast.workspace.record("decision", "The exporter stays as it is.")
    for number in range(45):
        place.outlast.workspace.record("observation", f"Seen {number} times.")
    assert refs(place.outlast.workspace.recall("zebra", kinds=["decision"])) == []
    assert refs(place.outlast.workspace.recall("decision", kinds=["decision"])) == [decision.ref]


def test_a_large_artifact_is_searched_by_its_passages_up_to_a_limit_and_says_so(place: Place) -> None:
    filler = "Nothing of note was seen on this line of the log at all.\n"
    at, size = (3 << 20) // len(filler), (5 << 20) // len(filler)
    lines = [filler] * size
    lines[at], lines[-1] = "The mailer lost its socket at noon.\n", "The zebra came after the end.\n"
    saved = place.outlast.workspace.save("log.txt", "".join(lines))
    (entry,) = place.outlast.workspace.recall("why did the mailer lose its socket", 300).entries
    assert (entry.ref, entry.whole) == (saved.ref, False)
    assert "The mailer lost its socket at noon." in entry.excerpt
    assert entry.why[-1] == "only the first 4 MiB of its content are searched"
    assert refs(place.outlast.workspace.recall("zebra")) == []


def test_the_smallest_budgets_are_never_exceeded(place: Place) -> None:
    told(place.outlast)
    for budget in range(1, 51):
        pack = place.outlast.workspace.recall("exporter", budget)
        assert pack.tokens <= budget
        assert not pack.entries or tokens_of(pack.prompt()) <= budget


def test_a_goal_of_words_that_say_nothing_is_answered(place: Place) -> None:
    told(place.outlast)
    assert place.outlast.workspace.recall("what is it and how").entries


def test_a_checkpoint_is_recalled(place: Place) -> None:
    pinned = place.outlast.workspace.checkpoint("sources_chosen", "Twelve sources were chosen.", task="report")
    assert refs(place.outlast.workspace.recall("which sources")) == [f"checkpoint:{pinned.id}"]


@step
def notes(fail: bool) -> str:
    made = current().workspace.record("observation", "The tide turned at noon.")
    KNOBS["seen"] = refs(current().workspace.recall("tide"))
    if fail:
        raise ValueError("no")
    return made.ref


@flow
def watch(run: Run, fail: bool) -> str:
    return notes(fail)


def test_what_a_step_records_is_recalled_with_its_receipt_and_not_before(place: Place) -> None:
    place.outlast.workspace.record("observation", "Low tide is at six.")
    outcome = place.outlast.run(watch, False)
    assert len(KNOBS["seen"]) == 1
    assert outcome.unwrap() in refs(place.outlast.workspace.recall("tide"))
    place.outlast.run(watch, True)
    assert len(place.outlast.workspace.recall("tide").entries) == 2


# -- questions of any kind ---------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.text(max_size=200) | st.sampled_from(['"', "a AND b", "NEAR(", "*", "col:x", "-x", "導出器", "😀", "\x00"]))
def test_a_goal_of_any_text_is_answered(place: Place, goal: str) -> None:
    if not place.outlast.workspace.records(limit=1):
        told(place.outlast)
    assert place.outlast.workspace.recall(goal, 200).tokens <= 200


def test_a_goal_of_ten_thousand_characters_is_answered(place: Place) -> None:
    made = told(place.outlast)
    goal = "exporter " + "lorem ipsum 'dolor\" " * 500
    assert refs(place.outlast.workspace.recall(goal[:10_000]))[0] in (made[0], made[5])


def test_text_without_spaces_between_words_is_found(place: Place) -> None:
    made = place.outlast.workspace.record("note", "导出器丢失了时区。", source="a")
    place.outlast.workspace.record("note", "天气很好。", source="b")
    assert refs(place.outlast.workspace.recall("时区"))[0] == made.ref


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"budget": 0}, "budget"),
        ({"kinds": ["thought"]}, "kinds[0]"),
        ({"kinds": 5}, "kinds"),
        ({"limit": -1}, "limit"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_place(place: Place, wrong: dict[str, object], path: str) -> None:
    with pytest.raises(ValueRefused) as refused:
        place.outlast.workspace.recall("x", **wrong)  # type: ignore[arg-type]
    assert refused.value.path == path


# -- a tokenizer and vectors of one's own ------------------------------------------------------------


def test_a_tokenizer_of_ones_own_is_obeyed(place: Place) -> None:
    told(place.outlast)
    pack = place.outlast.workspace.recall("exporter", 200, tokens_of=len)
    assert len(pack.prompt()) == pack.tokens <= 200


def by_letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float("commit" in text or "habits" in text), 0.1] for text in texts]


def test_vectors_of_ones_own_are_fused_with_the_words(place: Place) -> None:
    made = told(place.outlast)
    plain = refs(place.outlast.workspace.recall("the habits of Ana when she writes rows", 4000))
    fused = place.outlast.workspace.recall("the habits of Ana when she writes rows", 4000, embed=by_letters)
    assert refs(fused).index(made[2]) <= plain.index(made[2])
    assert "near in meaning" in fused.entries[0].why


@pytest.mark.parametrize("wrong", [[1.0], ["a"], [float("nan")], 1.0])
def test_vectors_that_do_not_fit_the_texts_are_refused(place: Place, wrong: object) -> None:
    told(place.outlast)
    count = 1 if wrong == [1.0] else 0
    with pytest.raises(ValueRefused, match="embed"):
        place.outlast.workspace.recall("exporter", embed=lambda texts: [wrong] * (count or len(texts)))  # type: ignore[list-item]


# -- the index is only derived -----------------------------------------------------------------------


@pytest.mark.parametrize("removed", [False, True])
def test_an_index_that_grew_with_the_versions_gives_what_a_new_one_gives(place: Place, removed: bool) -> None:
    told(place.outlast)
    for plan in ("Zebras and lions.", "Lions.", "Nothing of it.", "Nothing at all."):
        place.outlast.workspace.save("plan.md", plan)
        if removed:
            place.outlast.gc(artifacts=True, keep=0, dry_run=False)
        if plan != "Nothing of it.":  # one comes and goes between two looks
            grown = place.outlast.workspace.recall("exporter")
    index_file(place).unlink()
    assert place.outlast.workspace.recall("exporter") == grown
    assert grown.considered == len(FACTS) + 1


def test_an_old_version_that_got_into_the_index_is_taken_out_when_it_is_found(place: Place) -> None:
    told(place.outlast)
    for plan in ("Zebras and the exporter.", "Nothing of it."):
        place.outlast.workspace.save("plan.md", plan)
    before = place.outlast.workspace.recall("exporter and zebras")
    late = Document("artifact", 1, "artifact", "plan.md\nZebras and the exporter.")  # by one who looked long ago
    with_index(index_file(place), lambda index: indexed.add(index, "artifact", [late], 1))
    assert place.outlast.workspace.recall("exporter and zebras") == before


@pytest.mark.parametrize("harm", ["deleted", "torn", "foreign", "empty"])
def test_an_index_that_is_gone_or_broken_is_made_anew(place: Place, harm: str) -> None:
    told(place.outlast)
    before = place.outlast.workspace.recall("exporter importer")
    file = index_file(place)
    for beside in file.parent.glob(f"{file.name}-*"):
        beside.unlink()
    match harm:
        case "deleted":
            file.unlink()
        case "torn":
            os.truncate(file, file.stat().st_size // 2)
        case "foreign":
            file.write_bytes(b"not a database " * 1000)
        case _:
            file.write_bytes(b"")
    assert place.outlast.workspace.recall("exporter importer") == before


def test_a_folder_that_cannot_be_written_costs_time_and_nothing_else(place: Place) -> None:
    told(place.outlast)
    before = place.outlast.workspace.recall("exporter importer")
    folder = index_file(place).parent
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert place.outlast.workspace.recall("exporter importer") == before


def test_several_threads_and_processes_may_recall_at_once(place: Place) -> None:
    told(place.outlast)
    script = "import sys; from outlast import Outlast\nprint(Outlast(sys.argv[1]).workspace.recall('exporter').tokens)"
    command = [sys.executable, "-c", script, str(place.home)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(place.outlast.workspace.recall("exporter").tokens))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    printed = [int(other.communicate(timeout=60)[0]) for other in others]
    assert len({*found, *printed}) == 1
    assert len(found) == 4


async def _asked(home: Path) -> ContextPack:
    async with AsyncOutlast(home) as outlast:
        return await outlast.workspace.recall("exporter")


def test_the_same_is_awaited_on_a_loop(place: Place) -> None:
    import asyncio

    told(place.outlast)
    assert asyncio.run(_asked(place.home)) == place.outlast.workspace.recall("exporter")


def test_a_time_of_its_own_is_kept_with_a_record(place: Place) -> None:
    at = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    place.outlast.workspace.record("observation", "Caroline went to the support group.", at=at, actor="Caroline")
    entry = place.outlast.workspace.recall("support group").entries[0]
    assert (entry.at, entry.actor) == (at, "Caroline")
