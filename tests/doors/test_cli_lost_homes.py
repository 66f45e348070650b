"""A home whose database was lost or replaced: every command says so, and makes and changes nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from tests.kit.trees import tree

if TYPE_CHECKING:
    from .conftest import Cli

BIG = "x" * 50_000

LOOKING = [
    ("runs",),
    ("show", "x"),
    ("receipts", "x"),
    ("logs", "x"),
    ("events", "x"),
    ("inbox",),
    ("verify",),
    ("doctor",),
    ("resume",),
    ("resume", "x", "--dry-run"),
    ("handoff", "list"),
    ("handoff", "recover", "a"),
    ("session", "list"),
    ("task", "list"),
    ("workspace", "list"),
    ("workspace", "recall", "plans"),
    ("gc",),
    ("backup", "elsewhere.zip"),
]
WRITING = [
    ("run", "flows.py:report", "topic=ai"),
    ("tick",),
    ("abort", "x", "--why", "w"),
    ("approve", "x"),
    ("signal", "s", "1", "--task", "t"),
    ("gc", "--yes"),
    ("handoff", "store", "a", "-m", "s", "--text", "t"),
    ("task", "open", "t"),
    ("session", "append", "s", "--role", "user", "hi"),
    ("workspace", "save", "plan", "-"),
    ("import", "runs"),
]


@pytest.fixture
def home(cli: "Cli") -> Path:
    """A home with a run, a blob, a handoff and a mirror, closed properly."""
    cli.here("flows.py:report", topic="ai")
    with cli.opened() as outlast:
        outlast.workspace.save("plan", BIG.encode())
        outlast.mirror(outlast.runs(limit=1)[0].id)
    return cli.folder / ".outlast"


def emptied(database: Path) -> None:
    database.write_bytes(b"")


def cut_in_the_header(database: Path) -> None:
    os.truncate(database, 60)


def cut(database: Path) -> None:
    os.truncate(database, 3 * 4096)


def random_bytes(database: Path) -> None:
    database.write_bytes(bytes(range(7, 207)) * 41)


def a_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


def a_pipe(database: Path) -> None:
    database.unlink()
    os.mkfifo(database)


def a_link_to_nowhere(database: Path) -> None:
    database.unlink()
    database.symlink_to("nowhere")


def another_program_s(database: Path) -> None:
    database.unlink()
    connection = apsw.Connection(str(database))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def without_tables(database: Path) -> None:
    database.unlink()
    connection = apsw.Connection(str(database))
    connection.pragma("journal_mode", "WAL")
    connection.close()


def newer(database: Path) -> None:
    connection = apsw.Connection(str(database))
    connection.pragma("user_version", 999)
    connection.close()


def gone(database: Path) -> None:
    database.unlink()


def gone_with_its_folder(database: Path) -> None:
    shutil.rmtree(database.parent)


LOST = {
    gone: "store_lost",
    gone_with_its_folder: "store_lost",
    emptied: "store_lost",
    without_tables: "store_lost",
    cut_in_the_header: "store_foreign",
    cut: "store_foreign",
    random_bytes: "store_foreign",
    a_folder: "store_foreign",
    a_pipe: "store_foreign",
    a_link_to_nowhere: "store_foreign",
    another_program_s: "store_foreign",
    newer: "store_newer",
}


def refused(cli: "Cli", home: Path, words: tuple[str, ...], code: str) -> None:
    before = tree(cli.folder)
    told = cli(*words, "--json", stdin="content")
    assert (told.code, told.json["error"]["code"]) == (1, code), (words, told)
    assert str(home / "default" / "outlast.db") in told.json["error"]["detail"]
    assert told.json["error"]["advice"]
    assert tree(cli.folder) == before, words


@pytest.mark.parametrize("words", LOOKING + WRITING, ids=" ".join)
def test_a_deleted_database_is_refused_by_every_command(cli: "Cli", home: Path, words: tuple[str, ...]) -> None:
    gone(home / "default" / "outlast.db")
    refused(cli, home, words, "store_lost")


@pytest.mark.parametrize("damage", LOST, ids=lambda damage: damage.__name__)
def test_no_damage_is_taken_for_a_new_home(cli: "Cli", home: Path, damage: Callable[[Path], None]) -> None:
    damage(home / "default" / "outlast.db")
    for words in (("runs",), ("verify",), ("doctor",), ("run", "flows.py:report", "topic=ai"), ("tick",)):
        refused(cli, home, words, LOST[damage])


@pytest.mark.parametrize("evidence", ["marker", "blobs", "mirror"])
def test_each_trace_of_a_database_speaks_for_it(cli: "Cli", home: Path, evidence: str) -> None:
    gone(home / "default" / "outlast.db")
    for name, path in {"marker": home / ".made", "blobs": home / "default" / "blobs", "mirror": home / "runs"}.items():
        if name != evidence:
            shutil.rmtree(path)
    refused(cli, home, ("runs",), "store_lost")
    refused(cli, home, ("run", "flows.py:report", "topic=ai"), "store_lost")


def test_a_log_without_its_database_speaks_for_it(cli: "Cli") -> None:
    (cli.folder / ".outlast" / "default").mkdir(parents=True)
    assert cli("runs").code == 5  # it is ours from here on
    (cli.folder / ".outlast" / "default" / "outlast.db-wal").write_bytes(b"x" * 100)
    refused(cli, cli.folder / ".outlast", ("runs",), "store_lost")


def test_an_empty_folder_is_still_a_new_home(cli: "Cli") -> None:
    (cli.folder / ".outlast" / "default" / "blobs").mkdir(parents=True)
    assert cli("run", "flows.py:report", "topic=ai").code == 0


def crashed_copy(cli: "Cli", home: Path, *endings: str) -> Path:
    """A copy of a home that was taken while it was open, of the database with only these endings."""
    copy = cli.folder / "copy"
    with cli.opened() as outlast:
        outlast.workspace.save("late", b"late" * 20_000)
        shutil.copytree(home, copy)
    for ending in {"-wal", "-shm"} - set(endings):
        (copy / "default" / f"outlast.db{ending}").unlink()
    return copy


def test_a_copy_that_left_the_log_behind_is_damage_where_the_log_s_index_came_along(cli: "Cli", home: Path) -> None:
    copy = crashed_copy(cli, home, "-shm")
    before = tree(copy)
    told = cli("runs", "--json", "--home", str(copy))
    assert told.json["error"]["code"] == "store_lost"
    assert "outlast.db-wal" in told.json["error"]["detail"]
    assert tree(copy) == before


def test_a_copy_with_its_log_has_everything(cli: "Cli", home: Path) -> None:
    copy = crashed_copy(cli, home, "-wal")
    assert cli("workspace", "list", "--home", str(copy)).out.count("late")
    assert cli("verify", "--home", str(copy)).code == 0


def test_a_new_database_that_left_its_log_behind_is_damage(cli: "Cli") -> None:
    """All of a young database is in its log: without that the file has no table."""
    home = cli.folder / ".outlast"
    with cli.opened() as outlast:
        outlast.workspace.save("late", b"late" * 20_000)
        shutil.copytree(home, cli.folder / "copy")
    for ending in ("-wal", "-shm"):
        (cli.folder / "copy" / "default" / f"outlast.db{ending}").unlink()
    told = cli("runs", "--json", "--home", str(cli.folder / "copy"))
    assert told.json["error"]["code"] == "store_lost"


def test_a_log_of_another_database_is_never_called_sound(cli: "Cli", home: Path) -> None:
    """SQLite takes any log that is whole in itself; what came of it is found by verify and by doctor."""
    other = cli.folder / "other"
    os.mkdir(other)
    shutil.copy(cli.folder / "flows.py", other)
    from outlast import Outlast

    with Outlast(other / ".outlast") as outlast:
        for number in range(30):
            outlast.workspace.save(f"name {number}", str(number).encode() * 3000)
        log = (other / ".outlast" / "default" / "outlast.db-wal").read_bytes()
    assert log
    (home / "default" / "outlast.db-wal").write_bytes(log)
    for command in ("verify", "doctor"):
        assert cli(command, "--json", "--home", str(home)).code != 0


def test_beginning_anew_is_a_command_with_a_reason_and_loses_nothing(cli: "Cli", home: Path) -> None:
    gone(home / "default" / "outlast.db")
    assert cli("restore", "--anew").code == 2
    told = cli("restore", "--anew", "--why", "the disk ate it", "--json").json
    aside = Path(told["folder"])
    assert sorted(path.name for path in aside.iterdir()) == ["default", "runs", "why.json"]
    assert any((aside / "default" / "blobs").rglob("?" * 64))
    assert cli("run", "flows.py:report", "topic=ai").code == 0
    said = cli("doctor").out
    assert "the disk ate it" in said
    assert "ok: nothing to mend" in said


def test_a_sound_database_is_not_given_up(cli: "Cli", home: Path) -> None:
    before = tree(home)
    told = cli("restore", "--anew", "--why", "w", "--json")
    assert (told.code, told.json["error"]["code"]) == (4, "nothing_lost")
    assert tree(home) == before


def test_lost_keys_are_not_the_same_as_none(cli: "Cli", home: Path) -> None:
    """Without this, a server on loopback would ask nobody for a key any more."""
    assert cli("keys", "create", "--actor", "ann").code == 0
    (home / "keys.db").unlink()
    assert cli("keys", "list", "--json").json["error"]["code"] == "store_lost"
    assert cli("restore", "--anew", "--why", "new keys").code == 0
    assert cli("keys", "list").code == 0
    assert cli("runs", "--json").json["runs"], "the tenant is as it was"
