"""What a goal asks for, which passages answer it, and what else moves a document up or down."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.workspace.recall.rank import (
    DocumentSignals,
    Match,
    PlacedPassage,
    Statistics,
    matches,
    names_actor,
    ranked,
)
from outlast.workspace.recall.words import (
    MAX_GOAL,
    MAX_TERMS,
    PASSAGE_CHARACTERS,
    Document,
    cut,
    passages_of,
    query_of,
    stream_of,
    voice_of,
    words_of,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)  # also half characters and control characters
DAY = date(2026, 3, 5).toordinal()


def placed(
    key: int, text: str, *, stream: int = 1, voice: int = 0, day: int | None = None, kind: str = "note"
) -> PlacedPassage:
    words = words_of(text)
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    asks, timed = text.endswith("?"), "yesterday" in words
    return PlacedPassage(
        "record", key, 0, 0, len(text), "note", stream, key, voice, day, len(words), asks, timed, counts
    )


def found(goal: str, *passages: PlacedPassage, named: dict[int, str] | None = None) -> list[Match]:
    query = query_of(goal)
    frequency = {term: sum(term in passage.counts for passage in passages) for term in query.terms}
    kept = {term: count for term, count in frequency.items() if count}
    wanted = [passage._replace(counts=_of(passage, kept)) for passage in passages]
    statistics = Statistics(100, 5.0, kept)
    return matches(query, {term: term for term in query.terms}, named or {}, wanted, statistics)


def _of(passage: PlacedPassage, terms: dict[str, int]) -> dict[str, int]:
    return {term: passage.counts[term] for term in terms if term in passage.counts}


def keys(matches: list[Match]) -> list[int]:
    return [match.key for match in matches]


# Words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The export_serializer's bug", ["the", "export", "serializer", "s", "bug"]),
        ("exportSerializer HTTPServer", ["exportserializer", "export", "serializer", "httpserver", "http", "server"]),
        ("Café straße", ["cafe", "strasse"]),
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("fix東京now", ["fix", "東", "京", "東京", "now"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\x00\ud800🙂 -- \"' *", []),
        ("", []),
    ],
)
def test_a_text_becomes_folded_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(ANY_TEXT)
def test_any_text_has_words_that_are_letters_and_digits_only(text: str) -> None:
    words = words_of(text)
    assert not any(character in word for word in words for character in ' "*():^-+\x00')
    assert words_of(text) == words


# Goals


def test_a_goal_is_searched_by_its_telling_words() -> None:
    assert query_of("When did Ana fix the export?").terms == ("ana", "fix", "export")
    assert query_of("What was it?").terms == ("what", "was", "it")
    assert query_of("東京都").terms == ("東京", "京都")
    assert query_of("猫").terms == ("猫",)
    assert query_of("🙂 ?!").terms == ()


def test_a_long_goal_says_what_was_left_out() -> None:
    query = query_of(" ".join(f"word{number}" for number in range(MAX_TERMS + 9)))
    assert (len(query.terms), query.left_out, query.cut) == (MAX_TERMS, 9, 0)
    assert query_of("x" * (MAX_GOAL + 5)).cut == 5


@given(ANY_TEXT)
def test_any_goal_can_be_read(goal: str) -> None:
    query = query_of(goal * 3)
    assert query == query_of(goal * 3)
    assert set(query.terms) <= query.words


@pytest.mark.parametrize(
    "said",
    ["5 March 2026", "5th of March, 2026", "March 5, 2026", "march 5th 2026", "2026-03-05"],
)
def test_a_day_is_read_in_the_ways_it_is_written(said: str) -> None:
    assert query_of(f"what happened on {said}?").days == ((DAY, DAY),)


def test_a_month_is_all_of_its_days_and_a_day_that_is_none_is_passed_over() -> None:
    assert query_of("in December 2025").days == ((date(2025, 12, 1).toordinal(), date(2025, 12, 31).toordinal()),)
    assert query_of("in 2026-03").days == ((DAY - 4, DAY + 26),)
    assert query_of("on 31 March 2026, on 32 March 2026").days == ((DAY + 26, DAY + 26),)
    assert query_of("on 9999-99-99, in December 9999, on 99 March 26").days == ()


def test_an_actor_is_named_by_a_capital_or_by_the_whole_name() -> None:
    assert names_actor(query_of("Ana's view"), ["ana", "silva"])
    assert names_actor(query_of("what ana silva said"), ["ana", "silva"])
    assert not names_actor(query_of("fix the code"), ["claude", "code"])
    assert not names_actor(query_of("what Bob said"), ["ana"])


# Passages


@given(st.text(st.sampled_from("ab .\n!"), max_size=9000), st.integers(2, 1200))
def test_a_text_is_cut_without_losing_a_character(text: str, size: int) -> None:
    pieces = cut(text, size)
    assert "".join(text[start:end] for start, end in pieces) == text
    assert all(end - start <= size for start, end in pieces)


def test_a_long_text_is_cut_where_a_line_or_a_sentence_ends() -> None:
    lines = "One line of the log.\n" * 100
    assert all(lines[:end].endswith("\n") for _, end in cut(lines))
    sentences = "This is a sentence. " * 100
    assert all(sentences[:end].endswith(". ") for _, end in cut(sentences))
    assert cut("x" * (PASSAGE_CHARACTERS + 1))[0] == (0, PASSAGE_CHARACTERS)


def test_a_passage_knows_whether_it_asks() -> None:
    texts = ("Is it done?", "完了？", "Is it? Yes, it has been done for a day now.")
    asks = [passage.asks for text in texts for passage in passages_of(Document("record", 1, "note", text))]
    assert asks == [True, True, False]


@pytest.mark.parametrize(
    ("text", "voice"),
    [
        ("Ana: I saw it", "Ana"),
        ("[8 May 2026] Ana Silva: I saw it", "Ana Silva"),
        ("I saw it there and then: twice", "local"),
        ("https://example.org: no", "local"),
    ],
)
def test_whoever_speaks_in_a_text_said_it_else_its_actor(text: str, voice: str) -> None:
    assert voice_of(Document("record", 1, "note", text, actor="local")) == voice


def test_neighbours_share_a_source_and_a_text_only_its_own_pieces() -> None:
    record = Document("record", 1, "note", "x", source="run 7")
    assert stream_of(record) == stream_of(record._replace(key=2)) != stream_of(record._replace(source="run 8"))
    artifact = record._replace(family="artifact")
    assert stream_of(artifact) != stream_of(artifact._replace(key=2))


# Matches


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = [placed(number, "export", stream=number) for number in range(10, 30)]
    order = found("export serializer", *common, placed(99, "serializer", stream=99))
    assert keys(order)[0] == 99
    assert order[0].why == ('matches "serializer"',)
    assert order[0].score == 1.0


def test_what_follows_a_match_counts_and_most_after_a_question() -> None:
    asked = [placed(1, "which colour has the logo?"), placed(2, "blue I think"), placed(3, "fine"), placed(4, "so")]
    order = found("colour logo", *asked)
    assert keys(order) == [2, 1, 3]
    assert order[0].why == ("next to a match",)
    told = [asked[0]._replace(asks=False), *asked[1:]]
    assert keys(found("colour logo", *told)) == [1, 2, 3]
    apart = [passage._replace(stream=passage.key) for passage in asked]
    assert keys(found("colour logo", *apart)) == [1]


def test_who_is_named_comes_first_and_the_name_is_no_proof_by_itself() -> None:
    both = [placed(1, "I like tea", stream=1, voice=1), placed(2, "I like tea", stream=2, voice=2)]
    order = found("Which tea does Bob like?", *both, named={2: "Bob"})
    assert keys(order) == [2, 1]
    assert order[0].why == ('matches "tea", "like"', "said by Bob")


def test_the_day_that_is_named_comes_first() -> None:
    days = [placed(number, "lunch", stream=number, day=DAY + number * 10) for number in range(-2, 3)]
    order = found("lunch on 5 March 2026", *days)
    assert keys(order) == [0, -1, 1, -2, 2]
    assert order[0].why == ('matches "lunch"', "of 5 March 2026")


def test_a_time_counts_where_the_goal_asks_for_one() -> None:
    both = [placed(1, "the release went out well", stream=1), placed(2, "the release was yesterday evening", stream=2)]
    assert keys(found("When was the release?", *both)) == [2, 1]
    assert keys(found("How was the release?", *both)) == [1, 2]


def test_of_a_document_only_its_best_passage_is_given() -> None:
    pieces = [placed(1, "export", stream=1), placed(1, "export serializer", stream=1)._replace(piece=1, place=9)]
    assert [(match.key, match.piece) for match in found("export serializer", *pieces)] == [(1, 1)]


@given(st.permutations([placed(number, "export", stream=number) for number in range(6)]))
def test_equal_matches_are_in_the_order_of_their_keys(passages: list[PlacedPassage]) -> None:
    assert keys(found("export", *passages)) == list(range(6))


def test_nothing_in_common_is_no_match() -> None:
    assert found("export", placed(1, "lunch")) == []
    assert found("🙂", placed(1, "lunch")) == []


# Fusing


def match(key: int, score: float, kind: str = "note") -> Match:
    return Match("record", key, 0, 0, 9, kind, score, (f'matches "{key}"',))


def test_what_is_contested_or_superseded_is_pushed_down_and_still_there() -> None:
    three = [match(1, 1.0), match(2, 0.9), match(3, 0.8)]
    order = ranked(
        three,
        {("record", 1): DocumentSignals(standing="superseded"), ("record", 2): DocumentSignals(standing="contested")},
    )
    assert [one.key for one in order] == [3, 2, 1]
    assert [one.why[-1] for one in order] == ['matches "3"', "contested", "superseded"]


def test_what_matches_comes_before_what_is_only_recent_or_linked() -> None:
    signals = {("record", 9): DocumentSignals("decision", pinned=True, newer=0, linked="record:a", distance=1)}
    order = ranked([match(1, 0.05)], signals)
    assert [one.key for one in order] == [1, 9]
    assert order[1].why == ("decision", "pinned", "linked to decision record:a", "recent")
    assert order[1].match is None


def test_of_equals_the_newer_the_linked_and_the_decided_come_first() -> None:
    same = [match(1, 0.5), match(2, 0.5), match(3, 0.5), match(4, 0.5, "decision")]
    signals = {("record", 2): DocumentSignals(newer=30), ("record", 3): DocumentSignals(linked="record:x", distance=2)}
    assert [one.key for one in ranked(same, signals)] == [4, 3, 2, 1]


def test_embeddings_are_fused_by_rank_and_find_what_words_do_not() -> None:
    words = [match(1, 1.0), match(2, 0.2)]
    order = ranked(words, {}, {("record", 2): 0, ("record", 7): 1})
    assert [one.key for one in order] == [2, 1, 7]
    assert order[2].why == ("near in meaning",)


@given(st.permutations([match(key, 0.5) for key in range(5)]), st.permutations(range(5)))
def test_one_order_however_the_documents_come(found: list[Match], known: list[int]) -> None:
    signals = {("record", key): DocumentSignals(newer=7) for key in known}
    assert [one.key for one in ranked(found, signals)] == list(range(5))
