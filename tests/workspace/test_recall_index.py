"""The index for recall: it finds, it may be lost at any time, and it never costs more than the call it is lost in."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlast.store.contract.workspace import RecallIndex
from outlast.store.nouns.rows import statements_of
from outlast.store.sqlite import recall as recall_file
from outlast.store.sqlite.recall import FORMAT, index_path, with_index
from outlast.workspace.recall import search as indexed
from outlast.workspace.recall.search import SearchResult
from outlast.workspace.recall.words import MAX_TERMS, Document, query_of

WORKER = Path(__file__).with_name("recall_worker.py")
DAY = datetime(2026, 3, 5, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=80)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return index_path(tmp_path, "default")


def record(key: int, text: str, **fields: str) -> Document:
    return Document("record", key, fields.pop("kind", "note"), text, at=DAY + timedelta(minutes=key), **fields)


def artifact(key: int, text: str) -> Document:
    return Document("artifact", key, "artifact", text)


def put(path: Path, *documents: Document) -> None:
    for family in ("record", "artifact"):
        of_family = [document for document in documents if document.family == family]
        upto = max((document.key for document in of_family), default=0)
        with_index(path, lambda index, of=of_family, name=family, key=upto: indexed.add(index, name, of, upto=key))


def search(path: Path, goal: str, **options: Iterable[str]) -> SearchResult:
    return with_index(path, lambda index: indexed.look_for(index, query_of(goal), **options))  # type: ignore[arg-type]


def keys(path: Path, goal: str) -> list[int]:
    return [match.key for match in search(path, goal).matches]


# Finding


def test_what_was_taken_in_is_found_by_its_words_in_any_form(path: Path) -> None:
    put(path, record(1, "We exported the invoices"), record(2, "Lunch was late", source="other"))
    assert keys(path, "exporting an invoice") == [1]
    found = search(path, "exports of unicorns")
    assert (found.documents, found.unknown) == (2, ("unicorns",))
    assert found.matches[0].why == ('matches "exports"',)


def test_the_best_is_found_among_very_many(path: Path) -> None:
    others = [record(key, "We export the invoices", source=f"{key}") for key in range(1, 200)]
    put(path, *others, record(200, "We export by a serializer", source="200"))
    assert keys(path, "export serializer")[0] == 200


def test_each_family_kind_and_piece_is_told_apart(path: Path) -> None:
    text = "Nothing here.\n" * 200 + "The serializer is broken.\n" + "Nothing here.\n" * 200
    put(path, record(1, "serializer", kind="decision"), record(2, "serializer", source="b"), artifact(1, text))
    found = search(path, "serializer").matches
    assert {(match.family, match.key) for match in found} == {("record", 1), ("record", 2), ("artifact", 1)}
    piece = next(match for match in found if match.family == "artifact")
    assert "The serializer is broken." in text[piece.start : piece.end]
    assert [match.kind for match in search(path, "serializer", kinds=["decision"]).matches] == ["decision"]


def test_the_answer_after_a_question_is_found_in_its_source_only(path: Path) -> None:
    put(
        path,
        record(1, "Which colour shall the logo get?", source="monday"),
        record(2, "Which lunch is there today", source="other"),
        record(3, "Blue, I think", source="monday"),
    )
    assert keys(path, "colour of the logo") == [3, 1]


def test_records_without_a_source_are_neighbours_by_day(path: Path) -> None:
    later = record(3, "Blue, I think")._replace(at=DAY + timedelta(days=2))
    put(path, record(1, "Which colour shall the logo get?"), record(2, "Green, I think"), later)
    assert keys(path, "colour of the logo") == [2, 1]


def test_what_the_named_actor_said_comes_first(path: Path) -> None:
    put(
        path, *(record(key, "I like tea", actor=f"{'ana' if key % 2 else 'bob'}", source=f"{key}") for key in (1, 2, 3))
    )
    found = search(path, "Which tea does Bob like?").matches
    assert [match.key for match in found] == [2, 1, 3]
    assert found[0].why == ('matches "tea", "like"', "said by bob")


def test_an_actor_who_said_everything_takes_no_word_away(path: Path) -> None:
    put(path, record(1, "local", actor="local"), record(2, "cache", actor="local", source="b"))
    assert all("said by local" not in match.why for match in search(path, "local cache").matches)


def test_a_word_of_the_goal_is_never_taken_for_a_mark_of_ours(path: Path) -> None:
    lunches = [record(key, "lunch", actor="bob", source=f"{key}") for key in range(2, 90)]  # bob is our v2
    put(path, record(1, "release v2 " + "is out " * 50, actor="ana"), *lunches)
    assert keys(path, "v2") == [1]


@pytest.mark.parametrize(
    ("said", "goal"), [("We went home", "go"), ("The children sang", "which child sings"), ("He bought it", "buying")]
)
def test_irregular_forms_of_a_word_are_that_word(path: Path, said: str, goal: str) -> None:
    put(path, record(1, said), record(2, "Nothing of it", source="b"))
    assert keys(path, goal) == [1]


def test_a_word_for_much_the_same_is_found_after_the_word_itself(path: Path) -> None:
    put(path, record(1, "We repair it"), record(2, "We fix it", source="b"), record(3, "Nothing of it", source="c"))
    found = search(path, "fixes").matches
    assert [match.key for match in found] == [2, 1]
    assert [match.why for match in found] == [('matches "fixes"',), ('is like "fixes"',)]


def test_writing_without_spaces_is_found_within_a_sentence(path: Path) -> None:
    put(path, record(1, "明日東京都へ行きます"), record(2, "京都の東です", source="b"))
    assert keys(path, "東京") == [1]
    assert set(keys(path, "東")) == {1, 2}


@given(st.lists(ANY_TEXT, max_size=5), ANY_TEXT)
@example(["half \ud800 a character", "\x00"], "\ud800 \x00")
def test_any_text_can_be_taken_in_and_asked_for(texts: list[str], goal: str) -> None:
    def work(index: RecallIndex) -> tuple[int, SearchResult, SearchResult]:
        added = indexed.add(
            index, "record", (record(key, text, actor=text, source=text) for key, text in enumerate(texts, 1)), 9
        )
        return added, indexed.look_for(index, query_of(goal)), indexed.look_for(index, query_of(goal))

    added, first, second = with_index(Path("/dev/null/none"), work)
    assert added == len(texts)
    assert first == second


@pytest.mark.parametrize(
    "goal", ['a "b', "a OR b NOT (", "words : x", "NEAR(a b, 2)", "x*", "^x", "x" * 10_000, "a\x00b"]
)
def test_a_goal_is_words_and_never_an_expression(path: Path, goal: str) -> None:
    put(path, record(1, f"about {goal}"))
    assert keys(path, goal) == [1]


def test_a_goal_of_many_words_is_searched_by_the_first_ones(path: Path) -> None:
    put(path, record(1, f"word{MAX_TERMS - 1}"), record(2, f"word{MAX_TERMS}", source="b"))
    assert keys(path, " ".join(f"word{number}" for number in range(5_000))) == [1]


# The same however it was made


def some_documents() -> list[Document]:
    chance = random.Random(7)
    text = [" ".join(chance.choices(["alpha", "beta", "gamma", "delta", "eta", "iota?"], k=6)) for _ in range(60)]
    records = [record(key * 2, text[key], actor=f"a{key % 3}", source=f"s{key % 4}") for key in range(1, 40)]
    return [*records, *(artifact(key, text[key] + "\n" * 1300 + text[-key]) for key in range(1, 10))]


def test_an_index_that_grew_gives_what_one_built_at_once_gives(tmp_path: Path) -> None:
    at_once, grown, documents = tmp_path / "once.db", tmp_path / "grown.db", some_documents()
    put(at_once, *documents)
    put(grown, *documents[30:])
    put(grown, *reversed(documents[:30]))
    put(grown, record(21, "alpha beta", source="s1"), record(33, "beta", source="s2"), artifact(50, "alpha"))
    with_index(grown, lambda index: index.remove("record", [21, 33, 35]))
    with_index(grown, lambda index: index.remove("artifact", [50]))
    for goal in ("alpha beta", "What did a1 say of gamma?", "eta delta iota", "beta"):
        assert search(grown, goal) == search(at_once, goal)


def test_every_process_gives_the_same_scores(tmp_path: Path) -> None:
    goal = "entry 17 of the log: a3 b7 c9 d5 e17 f1 in run 2"
    said = [_ask(tmp_path / "index.db", goal, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert said[0] == said[1]
    assert said[0][0] is True


def test_what_was_removed_is_gone(path: Path) -> None:
    put(path, record(1, "serializer"), record(2, "serializer"))
    with_index(path, lambda index: index.remove("record", [1]))
    found = search(path, "serializer")
    assert [match.key for match in found.matches] == [2]
    assert found.documents == 1


# Taking in


def test_the_mark_says_what_was_looked_at_and_never_goes_back(path: Path) -> None:
    def work(index: RecallIndex) -> list[int]:
        seen = [index.mark("record"), indexed.add(index, "record", [record(1, "a"), record(2, "b")], upto=5)]
        return [
            *seen,
            index.mark("record"),
            indexed.add(index, "record", [record(1, "a")], upto=3),
            index.mark("record"),
        ]

    assert with_index(path, work) == [0, 2, 5, 0, 5]
    assert with_index(path, lambda index: index.mark("artifact")) == 0


def test_what_could_not_be_seen_yet_is_looked_at_again(path: Path) -> None:
    def work(index: RecallIndex) -> list[tuple[int, ...]]:
        indexed.add(index, "record", [record(1, "one"), record(3, "three")], upto=3, waiting=[2])
        seen = [index.waiting("record")]
        indexed.add(index, "record", [record(2, "two")], upto=3)
        return [*seen, index.waiting("record")]

    assert with_index(path, work) == [(2,), ()]
    assert keys(path, "two") == [2, 3, 1]  # it took its place between the other two


def test_several_at_once_take_in_everything_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.store.sqlite.recall.BUSY_MILLISECONDS", 100_000)  # each gets its turn, however late
    documents = [record(key, f"entry {key}", source=f"{key % 5}") for key in range(1, 61)]

    lasting = []

    def catch_up(index: RecallIndex) -> None:
        for first in range(0, 60, 6):
            indexed.add(index, "record", documents[first : first + 6], upto=first + 6)
        lasting.append(index.lasting)

    threads = [threading.Thread(target=with_index, args=(path, catch_up)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lasting == [True] * 4
    alone = path.with_name("alone.db")
    put(alone, *documents)
    assert search(path, "entry 17") == search(alone, "entry 17")
    assert search(path, "entry").documents == 60


def test_a_kill_while_taking_in_leaves_an_index_that_is_whole(path: Path) -> None:
    with subprocess.Popen([sys.executable, WORKER, path, "fill"], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        while int(worker.stdout.readline()) < 400:
            pass
        os.kill(worker.pid, signal.SIGKILL)
    found, mark = with_index(path, lambda index: (indexed.look_for(index, query_of("entry")), index.mark("record")))
    assert found.documents == mark >= 400
    with closing(apsw.Connection(str(path))) as connection:
        assert next(connection.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 1)"), None) is None
        assert next(connection.execute("PRAGMA integrity_check")) == ("ok",)


# Losing it


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database " * 500)


def _other_format(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("user_version", FORMAT + 1)


def _foreign(path: Path) -> None:
    path.unlink()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE other (x)")


def _torn(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [_garbage, _other_format, _foreign, _torn, Path.unlink])
def test_a_file_that_is_not_as_we_left_it_is_built_anew(path: Path, harm: Callable[[Path], None]) -> None:
    put(path, record(1, "serializer"))
    harm(path)

    def work(index: RecallIndex) -> tuple[bool, int, list[int]]:
        mark = index.mark("record")
        indexed.add(index, "record", [record(1, "serializer"), record(2, "unicorn")], upto=2)
        return index.lasting, mark, [match.key for match in indexed.look_for(index, query_of("serializer")).matches]

    lasting, mark, found = with_index(path, work)
    assert (lasting, mark, found[0]) == (True, 0, 1)
    assert search(path, "unicorn").documents == 2  # it stays
    with closing(apsw.Connection(str(path))) as connection:
        assert not connection.table_exists("main", "other")


def test_a_full_disk_costs_nothing_but_the_index(path: Path) -> None:
    with_index(path, lambda index: index.mark("record"))
    lasting, found = _ask(path, "topic3", "full")
    assert lasting is False
    assert len(found[0]) > 20
    assert search(path, "topic3").documents == 0  # nothing half-written


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_index(tmp_path: Path) -> None:
    (tmp_path / "recall").write_text("in the way")
    path = index_path(tmp_path, "default")
    assert with_index(path, lambda index: (index.lasting, indexed.add(index, "record", [record(1, "a")], upto=1))) == (
        False,
        1,
    )


def test_an_error_of_the_work_comes_out_and_nothing_of_it_stays(path: Path) -> None:
    def documents() -> Iterable[Document]:
        yield record(1, "serializer")
        raise LookupError("no such text")

    with pytest.raises(LookupError):
        with_index(path, lambda index: indexed.add(index, "record", documents(), upto=1))
    assert with_index(
        path, lambda index: (index.mark("record"), indexed.look_for(index, query_of("serializer")).documents)
    ) == (
        0,
        0,
    )


def test_scopes_have_files_of_their_own_whatever_they_are_called(tmp_path: Path) -> None:
    paths = {index_path(tmp_path, scope) for scope in ("a", "A", "../a", "a/b", "é" * 500, "\ud800")}
    assert len(paths) == 6
    assert {path.parent for path in paths} == {tmp_path / "recall"}


# Its statements


def test_every_statement_of_the_index_is_used_and_none_scans_a_table(path: Path) -> None:
    with_index(path, lambda index: index.mark("record"))
    code = "".join(file.read_text() for file in Path(recall_file.__file__).parent.glob("recall.py"))
    allowed = {"SCAN tally", "SCAN fresh", "SCAN (subquery-3)"}  # the one row, and the stream that is numbered
    with closing(apsw.Connection(str(path))) as connection:
        for name, statement in statements_of("recall").items():
            assert f'"{name}"' in code
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", defaultdict(int))
            scans = {row[3] for row in plan if row[3].startswith("SCAN") and "VIRTUAL TABLE" not in row[3]}
            assert scans <= allowed, name


def _ask(path: Path, goal: str, verb: str = "search", **environment: str) -> tuple[bool, list[list[object]]]:
    done = subprocess.run(
        [sys.executable, WORKER, path, verb, goal],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lasting, found = json.loads(done.stdout.splitlines()[-1])
    return lasting, found
