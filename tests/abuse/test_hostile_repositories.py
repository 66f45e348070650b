"""Hostile repositories: whatever looks at one runs nothing of it, reads nothing outside and ends in time."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.abuse.figures import figures
from tests.abuse.hostile_repositories import BELIEVED, HOSTILE, PLAIN, REFUSED, SECRET, World
from tests.doors.conftest import environment

LIMIT_SECONDS = 60.0  # for everything that is done in one; a git that waits is given two seconds at a time here

LOOKS = """
import json, sys
from pathlib import Path
from outlast import Outlast
from outlast.errors import OutlastError
from outlast.files import ask_git, git
from outlast.doors.hooks.spool import HookEvent
from outlast.doors.hooks.leave import look
from outlast.python.work_tree import work_tree_of

ask_git.GIT_SECONDS = 2.0
contract = dict(summary="Stopped", handoff_text="Go on in app.py.", target_files=["app.py"], next_action="Patch it")

def tried(work):
    try:
        return str(work())
    except OutlastError as error:
        return f"{error.code}: {error}"

with Outlast(sys.argv[1]) as outlast:
    said = {
        "recover": tried(lambda: outlast.handoff.recover("task:before").verdict),
        "diff": tried(lambda: outlast.handoff.diff(outlast.handoff.get("task:before"))),
        "store": tried(lambda: outlast.handoff.store("task:now", **contract)),
        "again": tried(lambda: outlast.handoff.recover("task:now").verdict),
        "apply": tried(lambda: outlast.handoff.apply(outlast.handoff.get("task:now"), dry_run=True)),
    }
event = HookEvent("claude", "end", "s", cwd=str(Path.cwd()))
said["hook"] = str(look(work_tree_of(str(Path.cwd())), event))
said["state"] = git.look(Path.cwd()) is not None
said["files"] = str(git.files(Path.cwd()))
print(json.dumps(said))
"""


def done_in(world: World, words: list[str], given: bytes = b"") -> bytes:
    """What a real process says of the repository, in time."""
    env = environment(**PLAIN, **world.env)
    folder = world.root / world.start
    done = subprocess.run(words, input=given, cwd=folder, env=env, capture_output=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def handed_over(world: World) -> Path:
    """The repository's home, in which work was handed over while all was well."""
    script = LOOKS.partition("with Outlast")[0] + "Outlast(sys.argv[1]).handoff.store('task:before', **contract)"
    home = world.root / ".outlast"
    done_in(world, [sys.executable, "-P", "-c", script, str(home)])
    return home


def looked(world: World, home: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(done_in(world, [sys.executable, "-P", "-c", LOOKS, str(home)]))
    start = {"session_id": "s", "cwd": str(world.root / world.start), "hook_event_name": "SessionStart"}
    hook = [sys.executable, "-P", "-m", "outlast", "hook", "start", "--client", "claude"]
    said["start"] = done_in(world, hook, json.dumps(start).encode()).decode()
    return said


SHORT = 8  # of them beside the first of each kind; with --crash-long all


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "hostile_name" in metafunc.fixturenames:
        names = [*HOSTILE]
        first = ["filter_in_its_settings", "settings_that_another_process_reads_differently", "head_that_is_a_pipe"]
        some = sorted({*first, *random.Random(12).sample(names, SHORT)})
        metafunc.parametrize("hostile_name", names if metafunc.config.getoption("--crash-long") else some)


def test_it_runs_nothing_reads_nothing_outside_and_ends(tmp_path: Path, hostile_name: str) -> None:
    name = hostile_name
    believed, make = HOSTILE[name]
    if "another_user" in name and os.geteuid() != 0:
        pytest.skip("only root can give a repository away")
    world = World(tmp_path)
    home = handed_over(world)
    make(world)
    began = time.monotonic()
    said = looked(world, home)
    seconds = time.monotonic() - began
    assert not world.ran.exists()
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    if not name.startswith("submodule"):  # that one is its own, and said to be so
        assert SECRET not in str(said)
        assert SECRET.encode() not in kept
    assert "root:x:0" not in str(said)
    if believed != "either":
        assert said["state"] == (believed == BELIEVED)
    figures("hostile repository", name=name, git="asked" if said["state"] else "not asked", seconds=f"{seconds:.1f}")


def test_there_are_more_than_twenty() -> None:
    assert len(HOSTILE) >= 20
    assert {each for each, _ in HOSTILE.values()} >= {BELIEVED, REFUSED}


@pytest.mark.parametrize("name", ["git_folder_that_is_a_link_out", "object_store_outside"])
def test_what_leads_out_is_used_where_the_users_own_git_calls_it_safe(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    home = handed_over(world)
    HOSTILE[name][1](world)
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[safe]\n\tdirectory = {world.root}\n")
    world.env = {}
    script = LOOKS.partition("with Outlast")[0] + "print(git.look(Path.cwd()) is not None)"
    env = environment(GIT_CONFIG_GLOBAL=str(settings), GIT_CONFIG_SYSTEM=os.devnull)
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(home)], cwd=world.root, env=env, capture_output=True, timeout=60
    )
    assert done.stdout.decode().strip() == "True", done.stderr.decode()


def test_what_leads_into_the_system_is_never_used(tmp_path: Path) -> None:
    world = World(tmp_path)
    home = handed_over(world)
    HOSTILE["settings_that_another_process_reads_differently"][1](world)
    settings = tmp_path / "gitconfig"
    settings.write_text("[safe]\n\tdirectory = *\n")
    script = LOOKS.partition("with Outlast")[0] + "print(git.look(Path.cwd()) is not None)"
    env = environment(GIT_CONFIG_GLOBAL=str(settings), GIT_CONFIG_SYSTEM=os.devnull)
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(home)], cwd=world.root, env=env, capture_output=True, timeout=60
    )
    assert done.stdout.decode().strip() == "False", done.stderr.decode()
    assert not world.ran.exists()
