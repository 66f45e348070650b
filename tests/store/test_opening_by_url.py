"""A store is opened by its URL, and comes with the blobs that belong to it; no room knows more of a backend."""

import re
from pathlib import Path

import pytest

import outlast.store
from outlast.errors import Invalid
from outlast.store import open as open_store
from outlast.store import url_of

PACKAGE = Path(outlast.store.__file__).parents[1]
SHARED = sorted((PACKAGE / "store" / "sql" / "shared").glob("*.sql"))

# What SQLite alone understands: its words, numbered parameters, the larger of two, a sign that keeps an index out.
OWN_WORDS = re.compile(
    r"\bINSERT OR\b|\bINDEXED BY\b|\bCROSS JOIN\b|\bsqlite_\w+|\bjson_\w+|\browid\b|\bGLOB\b|\bifnull\b"
    r"|\bREPLACE INTO\b|LIMIT -|\?\d|\bmax\([^()]*,|[=<>(, ]\+\w",
    re.IGNORECASE,
)


def test_a_store_and_its_blobs_are_opened_by_one_url(tmp_path: Path) -> None:
    store, blobs = open_store(url_of(tmp_path / "a store? #1 %41.db"))
    try:
        name = blobs.put(b"content")
        assert store.read(lambda look: look.count_runs()) == {}
    finally:
        store.close()
    again, same = open_store(url_of(tmp_path / "a store? #1 %41.db"))
    again.close()
    assert same.get(name) == b"content"
    assert (tmp_path / "a store? #1 %41.db").is_file()


@pytest.mark.parametrize("url", ["", "outlast.db", "mysql://localhost/x", "/tmp/outlast.db"])
def test_a_url_of_no_backend_is_refused_and_nothing_is_made(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="sqlite:PATH"):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


def test_no_room_names_the_class_of_a_backend() -> None:
    named = re.compile(r"\b(SqliteStore|KeyFile|FolderTrash|FolderIntake)\b")
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "store" not in path.parents]
    assert [str(path) for path in outside if named.search(path.read_text())] == []


def test_no_room_imports_a_database_but_recall_the_index_that_is_derived() -> None:
    imported = re.compile(r"^\s*from outlast\.store\.sqlite|^\s*import apsw", re.MULTILINE)
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "store" not in path.parents]
    found = [path.relative_to(PACKAGE) for path in outside if imported.search(path.read_text())]
    assert found == [Path("workspace/recall/search.py")]


def test_no_room_asks_blobs_for_a_file() -> None:
    asked = re.compile(r"(?<!store\.)\bblobs\.(path|folder|move_in)\b")
    outside = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "store" not in path.parents]
    assert [str(path) for path in outside if asked.search(path.read_text())] == []


@pytest.mark.parametrize("file", SHARED, ids=lambda file: file.stem)
def test_shared_statements_have_no_word_of_one_database(file: Path) -> None:
    statements = re.sub(r"--.*", "", file.read_text())
    assert OWN_WORDS.findall(statements) == []


@pytest.mark.parametrize(
    "said",
    ["INSERT OR IGNORE INTO a", "FROM json_each(?)", "LIMIT -1", "WHERE a = ?2", "max(a, b)", "WHERE +a.b > 1"],
)
def test_such_words_are_noticed(said: str) -> None:
    assert OWN_WORDS.search(said)
