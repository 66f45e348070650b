"""A home on a read-only mount, or another user's: everything can be looked at, nothing changes, writing is refused."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.trees import tree

from outlast import Outlast
from outlast.errors import HomeReadOnly
from outlast.testing.crashes import in_child

from ..ready import environment

if TYPE_CHECKING:
    from .conftest import Cli

# Runs in a mount namespace of its own: the home is mounted read-only there, and each command is told about.
INSIDE = """
import json, subprocess, sys
home, mounted, commands = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
for words in (["mount", "--bind", home, mounted], ["mount", "-o", "remount,ro,bind", mounted]):
    subprocess.run(words, check=True)
for words in commands:
    ran = subprocess.run(
        [sys.executable, "-m", "outlast", *words, "--json", "--home", mounted],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )
    print(json.dumps([ran.returncode, ran.stdout, ran.stderr]))
"""

can_mount = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
mounting = pytest.mark.skipif(not can_mount, reason="mount namespaces need root")


def mounted(home: Path, commands: list[list[str]], cwd: Path) -> list[tuple[int, Any]]:
    """What each command answers where the home is mounted read-only."""
    place = cwd / "mounted"
    place.mkdir(exist_ok=True)
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", INSIDE, str(home), str(place), json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        check=True,
    )
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    return [(code, json.loads(out) if out.startswith("{") else (out, err)) for code, out, err in told]


@pytest.fixture
def made(cli: "Cli") -> tuple["Cli", str]:
    """A finished run, one in doubt, a handoff, and everything else that can be looked at."""
    cli.here("flows.py:report", topic="kelp")
    cli.here("flows.py:report", topic="ai", env={"DIE": "1"})
    with cli.opened() as outlast:
        run = outlast.runs(limit=1)[0].id
        outlast.workspace.save("plan", b"p" * 50_000)
        outlast.workspace.save("small", b"small")
        outlast.handoff.store("work", "a summary", "how to go on", next_action="go on")
        outlast.sessions.append("chat", "user", "hello")
        outlast.tasks.open("job")
    return cli, run


def looks(run: str) -> list[list[str]]:
    return [
        ["runs"],
        ["show", run],
        ["receipts", run],
        ["logs", run],
        ["events", run],
        ["inbox"],
        ["verify"],
        ["handoff", "list"],
        ["handoff", "show", "work"],
        ["handoff", "recover", "work"],
        ["resume", run, "--dry-run"],
        ["doctor"],
        ["audit", run],
        ["gc"],
        ["session", "list"],
        ["session", "show", "chat"],
        ["task", "list"],
        ["task", "inspect", "job"],
        ["workspace", "list"],
        ["workspace", "get", "plan"],
        ["workspace", "recall", "small"],
    ]


def without_times(answer: Any) -> Any:
    """The same answer at another second and place."""
    if isinstance(answer, dict):
        gone = {"home", "database", "blobs", "filesystem", "read_only", "ago", "age", "seconds", "took"}
        return {name: without_times(value) for name, value in answer.items() if name not in gone}
    if isinstance(answer, str):
        return re.sub(r" --(?:home|repo) \S+", "", answer)  # commands carry them, to be pasted anywhere
    return [without_times(each) for each in answer] if isinstance(answer, list) else answer


@mounting
def test_a_home_on_a_read_only_mount_answers_as_any_other(made: tuple["Cli", str]) -> None:
    cli, run = made
    home = cli.folder / ".outlast"
    usual = [cli(*words, "--json", "--home", str(home)) for words in looks(run)]
    before = tree(home)
    for words, told, (code, found) in zip(looks(run), usual, mounted(home, looks(run), cli.folder), strict=True):
        assert code == told.code, (words, found, told)
        if told.out.startswith("{"):
            assert without_times(found) == without_times(told.json), words
        else:
            assert found[0] == told.out, words
    assert tree(home) == before


@mounting
@pytest.mark.parametrize("index", ["with", "without"])
def test_what_only_the_log_has_is_seen_on_a_read_only_mount(made: tuple["Cli", str], index: str) -> None:
    """A copy of an open home: the last commits are in its log. Without the log's index SQLite alone could not look."""
    cli, _ = made
    copy = cli.folder / "copy"
    with cli.opened() as outlast:
        outlast.workspace.save("late", b"late")
        shutil.copytree(cli.folder / ".outlast", copy)
    if index == "without":
        (copy / "default" / "outlast.db-shm").unlink()
    before = tree(copy)
    (_, names), (verified, _) = mounted(copy, [["workspace", "list"], ["verify"]], cli.folder)
    assert "late" in json.dumps(names)
    assert verified == 0
    assert tree(copy) == before


@mounting
def test_whoever_writes_beside_it_is_seen_at_once(made: tuple["Cli", str]) -> None:
    cli, _ = made
    with cli.opened() as outlast:
        for name in ("one", "two"):
            outlast.workspace.save(name, b"x")
            ((_, found),) = mounted(cli.folder / ".outlast", [["workspace", "list"]], cli.folder)
            assert name in json.dumps(found)


@mounting
def test_what_writes_is_refused_by_name(made: tuple["Cli", str]) -> None:
    cli, run = made
    commands = [
        ["run", "flows.py:report", "topic=new"],
        ["resume", run],
        ["abort", run, "--why", "w"],
        ["retry", run, "publish"],
        ["gc", "--yes"],
        ["handoff", "store", "other", "-m", "s", "--text", "t"],
        ["handoff", "claim", "work"],
        ["session", "append", "chat", "more"],
        ["task", "open", "another"],
        ["workspace", "save", "plan", "flows.py"],
        ["signal", "s", "1", "--task", "t"],
    ]
    before = tree(cli.folder / ".outlast")
    for words, (code, found) in zip(commands, mounted(cli.folder / ".outlast", commands, cli.folder), strict=True):
        assert (code, found["error"]["code"]) == (1, "home_read_only"), (words, found)
        assert re.search(r"`outlast --home \S+ backup`", found["error"]["advice"])
    assert tree(cli.folder / ".outlast") == before


@mounting
def test_a_home_that_cannot_be_written_can_be_backed_up(made: tuple["Cli", str]) -> None:
    cli, _ = made
    ((code, found),) = mounted(cli.folder / ".outlast", [["backup", "b.zip"]], cli.folder)
    assert (code, found["tenants"]) == (0, ["default"])
    assert cli("restore", "b.zip", "--home", "restored").code == 0
    assert cli("verify", "--home", "restored").code == 0
    assert cli("runs", "--home", "restored", "--json").json["runs"] == cli("runs", "--json").json["runs"]


@mounting
def test_doctor_says_that_a_home_cannot_be_written_and_calls_it_sound(made: tuple["Cli", str]) -> None:
    ((code, found),) = mounted(made[0].folder / ".outlast", [["doctor"]], made[0].folder)
    assert (code, found["ok"], found["read_only"]) == (0, True, "its file system is read-only")


# -- another user's home ------------------------------------------------------------------------------


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def open_to_all(home: Path) -> None:
    for path in [home, *home.rglob("*")]:
        os.chmod(path, 0o555 if path.is_dir() else 0o444)


def as_nobody(work: Any) -> dict[str, Any]:
    """What `work` tells in a process that permissions bind. What it may need is loaded before."""
    import pkgutil
    from importlib import import_module

    import outlast

    for module in pkgutil.walk_packages(outlast.__path__, "outlast."):
        if ".doors" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)

    def bound(tell: Any) -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        work(tell)

    ended = in_child(bound, 60)
    assert not ended.told("error"), ended.told("error")
    return dict(ended.said)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_can_look_at_a_home_that_it_may_read(public: Path) -> None:
    home = public / "home"
    with Outlast(home) as outlast:
        outlast.workspace.save("plan", b"p" * 50_000)
    open_to_all(home)
    before = tree(home)

    def look(tell: Any) -> None:
        with Outlast(home) as outlast:
            tell("names", [each.name for each in outlast.workspace.list()])
            tell("sound", outlast.verify().ok)
            try:
                outlast.workspace.save("plan", b"other")
            except HomeReadOnly as error:
                tell("refused", error.code)

    assert as_nobody(look) == {"names": ["plan"], "sound": True, "refused": "home_read_only"}
    assert tree(home) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_who_looks_sees_what_the_owner_writes_meanwhile(public: Path) -> None:
    """Nothing tells SQLite that the file changes: it was opened as one that does not, and is looked at again."""
    home = public / "home"
    with Outlast(home) as outlast:
        outlast.workspace.save("first", b"1")
    open_to_all(home)
    reading, writing = os.pipe()
    answer, told = os.pipe()

    def look(tell: Any) -> None:
        with Outlast(home) as outlast:
            tell("before", [each.name for each in outlast.workspace.list()])
            os.write(told, b"x")
            os.read(reading, 1)
            tell("after", sorted(each.name for each in outlast.workspace.list()))

    import threading

    def write() -> None:
        os.read(answer, 1)
        subprocess.run([sys.executable, "-c", WRITE, str(home)], check=True, env=environment())
        open_to_all(home)  # whoever opens a home of theirs closes it to others
        os.write(writing, b"x")

    owner = threading.Thread(target=write)
    owner.start()
    found = as_nobody(look)
    owner.join()
    assert found == {"before": ["first"], "after": ["first", "second"]}


WRITE = """
import os, sys
from pathlib import Path
from outlast import Outlast
os.umask(0o022)
with Outlast(sys.argv[1]) as outlast:
    outlast.workspace.save("second", b"2")
for path in Path(sys.argv[1]).rglob("*"):
    os.chmod(path, 0o555 if path.is_dir() else 0o444)
"""
