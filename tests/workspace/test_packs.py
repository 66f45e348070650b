"""Context packs and excerpts: what is selected, what it costs, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.errors import BudgetTooSmall, TokenizerInvalid
from outlast.values.tokens import tokens_about as tokens_of
from outlast.workspace.recall.pack import NOTHING, ContextPack, Ranked, fill
from outlast.workspace.recall.words import CUT, Span, alike, excerpt, pieces

AT = datetime(2026, 3, 4, tzinfo=UTC)
WORDS = "the serializer drops the time zone when it exports a report and nobody sees it before the import fails"


def ranked(ref: str, text: str, **more: object) -> Ranked:
    given: dict[str, object] = {"kind": "observation", "at": AT, "score": 1.0, **more}
    return Ranked(f"record:{ref}", text=text, **given)  # type: ignore[arg-type]


def filled(budget: int, some: Iterable[Ranked], considered: int | None = None, **more: object) -> ContextPack:
    several = list(some)
    count = len(several) if considered is None else considered
    return fill("goal", "default", budget, several, count, tokens_of, **more)  # type: ignore[arg-type]


# -- packs -------------------------------------------------------------------------------------------

documents = st.lists(
    st.tuples(st.text(min_size=1, max_size=400), st.booleans()).map(
        lambda each: (each[0] if each[0].strip() else "x", each[1])
    ),
    max_size=12,
)


@given(documents, st.integers(20, 600))
def test_a_pack_as_it_is_shown_is_never_over_its_budget(texts: list[tuple[str, bool]], budget: int) -> None:
    pack = filled(budget, [ranked(str(number), text) for number, (text, _) in enumerate(texts)])
    assert tokens_of(pack.prompt()) <= budget or pack.prompt() == NOTHING
    assert pack.tokens == (tokens_of(pack.prompt()) if pack.entries else 0)


@given(documents, st.integers(20, 600))
def test_every_document_is_in_the_pack_folded_or_counted_with_a_reason(
    texts: list[tuple[str, bool]], budget: int
) -> None:
    pack = filled(budget, [ranked(str(number), text) for number, (text, _) in enumerate(texts)], len(texts) + 5)
    left = {each.reason: each.count for each in pack.left_out}
    assert sum(left.values()) + len(pack.entries) == len(texts) + 5
    assert left["no_match"] == 5
    assert left.get("duplicate", 0) == sum(len(entry.folded) for entry in pack.entries)


def test_the_best_come_first_and_the_rest_is_over_budget() -> None:
    some = [ranked(str(number), f"{number} {WORDS} {number}" * 2 + str(number) * 30) for number in range(9)]
    pack = filled(300, some)
    assert [entry.ref for entry in pack.entries] == [one.ref for one in some[: len(pack.entries)]]
    assert [(each.reason, each.count) for each in pack.left_out] == [("over_budget", 9 - len(pack.entries))]


def test_what_must_be_there_is_there_whole_before_the_better_ranked() -> None:
    hard = ranked("must", " ".join([WORDS] * 4), hard=True)
    pack = filled(260, [ranked("best", WORDS), hard])
    assert pack.entries[0].ref == "record:must"
    assert pack.entries[0].excerpt == hard.text
    assert pack.entries[0].whole


def test_a_budget_that_is_too_small_for_what_must_be_there_says_the_exact_need() -> None:
    hard = [ranked("a", WORDS, hard=True), ranked("b", WORDS[::-1], hard=True)]
    with pytest.raises(BudgetTooSmall) as told:
        filled(50, hard)
    needed = told.value.needed
    assert filled(needed, hard).tokens == needed
    with pytest.raises(BudgetTooSmall):
        filled(needed - 1, hard)


def test_one_that_says_nearly_the_same_is_folded_into_the_one_before_it() -> None:
    pack = filled(900, [ranked("a", WORDS), ranked("b", WORDS.upper() + "!"), ranked("c", "something else entirely")])
    assert [entry.ref for entry in pack.entries] == ["record:a", "record:c"]
    assert pack.entries[0].folded == ("record:b",)


def test_a_limit_of_entries_is_kept_and_the_others_are_counted() -> None:
    pack = filled(
        900, [ranked(str(number), f"{number} is a number of its own, {number}") for number in range(5)], limit=2
    )
    assert len(pack.entries) == 2
    assert [(each.reason, each.count) for each in pack.left_out] == [("low_rank", 3)]


def test_a_prompt_tells_who_when_and_what_is_contested_and_where_the_rest_is() -> None:
    long = " ".join(f"Sentence {number} says {WORDS}." for number in range(60))
    some = [ranked("a", WORDS, kind="decision", actor="Ana", standing="contested"), ranked("b", long)]
    first, second = filled(800, some).prompt().splitlines()[1:]
    assert first == f"[1] decision, Ana, 2026-03-04, contested: {WORDS}"
    assert second.endswith(f"{CUT} (all of it: record:b)")


def test_a_tokenizer_that_counts_the_whole_as_more_than_its_parts_is_still_obeyed() -> None:
    def odd(text: str) -> int:
        return len(text) ** 2 // 400

    some = [ranked(str(number), f"{number} {WORDS[number * 7 :]}") for number in range(6)]
    pack = fill("goal", "default", 200, some, 6, odd)
    assert pack.entries
    assert odd(pack.prompt()) <= 200


def test_what_was_folded_into_one_that_is_given_up_is_over_budget_too() -> None:
    texts = ["first of all, the sea is calm today", WORDS, WORDS]

    def odd(text: str) -> int:  # a second entry costs more in the whole than alone
        return 90 if "[2]" in text and "[1]" in text else 10

    pack = fill("goal", "default", 80, [ranked(str(n), text) for n, text in enumerate(texts)], 3, odd)
    assert [entry.ref for entry in pack.entries] == ["record:0"]
    assert {each.reason: each.count for each in pack.left_out} == {"over_budget": 2}


def test_long_texts_that_only_begin_alike_are_two_entries() -> None:
    head = " ".join(f"line{number}" for number in range(4000))
    parts = [" ".join(f"{letter}{number}" for number in range(8000)) for letter in "ab"]
    pack = filled(2000, [ranked("a", f"{head} {parts[0]}"), ranked("b", f"{head} {parts[1]}")])
    assert [entry.folded for entry in pack.entries] == [(), ()]


@pytest.mark.parametrize("wrong", [-1, 1.5, None, "3"])
def test_a_tokenizer_that_gives_no_number_is_refused(wrong: object) -> None:
    with pytest.raises(TokenizerInvalid, match="tokens_of"):
        fill("goal", "default", 200, [ranked("a", WORDS)], 1, lambda text: wrong)  # type: ignore[arg-type,return-value]


def test_an_empty_pack_says_so() -> None:
    assert filled(100, []).prompt() == NOTHING


# -- excerpts ----------------------------------------------------------------------------------------

LONG = (
    "First line here.\nThe importer reads rows. It skips blank ones! Does it?  Yes.\n\n"
    "The exporter writes them back. All of it is checked again"
)


@given(st.text(max_size=2000))
def test_the_pieces_of_a_text_are_in_order_and_miss_only_blanks(text: str) -> None:
    spans = pieces(text)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    inside = "".join(text[span.start : span.end] for span in spans)
    assert "".join(inside.split()) == "".join(text.split())


def test_a_text_is_cut_between_sentences_and_lines() -> None:
    assert [LONG[span.start : span.end] for span in pieces(LONG)] == [
        "First line here.",
        "The importer reads rows.",
        "It skips blank ones!",
        "Does it?",
        "Yes.",
        "The exporter writes them back.",
        "All of it is checked again",
    ]


def test_an_excerpt_begins_where_the_words_are_and_marks_both_cuts() -> None:
    cut = excerpt(LONG, ["export"], 11, tokens_of)
    assert cut.text == f"{CUT} The exporter writes them back. {CUT}"
    assert not cut.whole


def test_an_excerpt_of_a_text_that_fits_is_all_of_it() -> None:
    assert excerpt(f"  {LONG} ", [], 200, tokens_of) == (LONG, True)


def test_an_excerpt_stays_near_the_passage_that_matched() -> None:
    text = "Rows are here. " + "Nothing of note. " * 30 + "Rows are there."
    near = Span(text.rindex("Rows"), len(text))
    assert excerpt(text, ["rows"], 7, tokens_of, near).text == f"{CUT} Rows are there."


def test_one_endless_line_is_cut_between_words() -> None:
    cut = excerpt("word " * 3000, ["word"], 160, tokens_of)
    assert cut.text.removesuffix(f" {CUT}").split() == ["word"] * len(cut.text.removesuffix(f" {CUT}").split())
    assert 0 < tokens_of(cut.text) <= 160


@pytest.mark.parametrize(
    ("unit", "word"), [("丢失了时区", "时区"), ("7361 ", "7361"), ('{"a":[1,2,3]},', "a"), ("😀", "😀")]
)
def test_what_takes_many_tokens_and_has_no_bounds_is_shown_in_part(unit: str, word: str) -> None:
    text = "x. " * 2000 + unit * 400
    cut = excerpt(text, [word], 60, tokens_of, near=Span(7000, 7200))
    assert unit in cut.text
    assert cut.text.startswith(CUT)
    assert 30 < tokens_of(cut.text) <= 60


def test_an_excerpt_of_a_long_text_begins_and_ends_at_bounds() -> None:
    text = " ".join(f"Sentence {number} has seven words in all." for number in range(20_000))
    at = text.index("Sentence 9000 ")
    cut = excerpt(text, ["9000"], 160, tokens_of, near=Span(at - 500, at + 500))
    kept = cut.text.strip(f"{CUT} ")
    assert kept.startswith("Sentence ")
    assert kept.endswith("in all.")
    assert "Sentence 9000 " in kept


@given(st.text(max_size=1500), st.lists(st.text(max_size=10), max_size=4), st.integers(1, 200))
def test_an_excerpt_never_takes_more_room_than_it_has(text: str, words: list[str], room: int) -> None:
    cut = excerpt(text, words, room, tokens_of)
    assert tokens_of(cut.text) <= room
    assert cut.text.removeprefix(f"{CUT} ").removesuffix(f" {CUT}") in text


def test_forms_of_a_word_are_alike_and_other_words_are_not() -> None:
    assert alike("repair", "repairs")
    assert alike("serialize", "serializer")
    assert not alike("report", "repair")
    assert not alike("cat", "cats")  # too short to tell from `car` and `care`


def test_what_is_ranked_the_same_gives_the_same_pack() -> None:
    some = [ranked(str(number), f"{number} {WORDS}") for number in range(8)]
    assert filled(200, some) == filled(200, [replace(one) for one in some])
