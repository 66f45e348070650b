"""Hooks with a home in PostgreSQL, which is named by its URL: they act on every machine, as they do beside a file."""

import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from outlast import Outlast
from outlast.store.postgres.schema import lock_of

from ..kit.postgres import server
from ..ready import completed
from .hook_work import git

HANDOFF = {"summary": "half done", "handoff_text": "Go on.", "next_action": "go on"}
AWAY = "postgresql://127.0.0.1:1/nowhere"
_numbers = count(1)


@pytest.fixture
def url() -> str:
    """A database of its own."""
    return server().new_database(f"hooks{os.getpid()}_{next(_numbers)}")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", str(tmp_path / "repo"))
    return tmp_path / "repo"


def around(url: str, folder: Path) -> dict[str, str]:
    """What a process on a machine finds: where the home is, and a folder beside it that is not there yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    return kept | {"OUTLAST_HOME": url, "OUTLAST_FOLDER": str(folder)}


def fire(repo: Path, url: str, folder: Path, kind: str, **said: Any) -> str:
    """What a session of Claude Code is told."""
    names = {"start": "SessionStart", "stop": "Stop", "end": "SessionEnd"}
    event = {"session_id": "s1", "cwd": str(repo), "hook_event_name": names[kind], **said}
    words = [sys.executable, "-P", "-m", "outlast", "hook", kind, "--client", "claude"]
    given = json.dumps(event).encode()
    done = subprocess.run(words, input=given, env=around(url, folder), cwd=repo, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def status(repo: Path, url: str, folder: Path) -> dict[str, Any]:
    words = ("-m", "outlast", "hook", "status", "--json")
    done = completed(words, env=around(url, folder), cwd=repo, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def stored(url: str, **more: Any) -> None:
    with Outlast(url) as outlast:
        outlast.handoff.store(anchor="branch:main", **{**HANDOFF, **more})


def test_the_first_session_on_a_machine_that_never_used_the_home_is_told_what_was_handed_over(
    url: str, repo: Path, tmp_path: Path
) -> None:
    stored(url)
    assert "half done" in fire(repo, url, tmp_path / "machine", "start", source="startup")


def test_what_a_session_leaves_on_one_machine_is_told_on_another_and_listed_by_status(
    url: str, repo: Path, tmp_path: Path
) -> None:
    (repo / "app.py").write_text("limit = 2\n")
    fire(repo, url, tmp_path / "one", "end")
    deadline = time.monotonic() + 60
    while not (found := status(repo, url, tmp_path / "one"))["revisions"] or found["waiting"]:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert (found["home"], found["log"]) == (url, [])
    assert [each["revision"] for each in status(repo, url, tmp_path / "other")["revisions"]] == [1]
    assert "app.py" in fire(repo, url, tmp_path / "other", "start", source="startup")


def test_a_folder_of_a_home_in_the_repository_is_not_what_the_agent_is_sent_to(
    url: str, repo: Path, tmp_path: Path
) -> None:
    (repo / ".outlast").mkdir()
    stored(url)
    told = fire(repo, url, tmp_path / "machine", "start", source="startup")
    assert "half done" in told
    assert "OUTLAST_HOME" not in told
    assert str(tmp_path / "machine") not in told


def test_a_password_is_in_nothing_that_status_says(url: str, repo: Path, tmp_path: Path) -> None:
    secret = url.replace("postgresql:///", "postgresql://outlast:hunter2@/")
    assert "hunter2" not in json.dumps(status(repo, secret, tmp_path / "machine"))


def test_a_database_that_is_away_holds_nobody_up_and_the_log_says_so(repo: Path, tmp_path: Path) -> None:
    assert fire(repo, AWAY, tmp_path / "machine", "start", source="startup") == ""
    assert "start: store_failed" in (tmp_path / "machine" / "hooks.log").read_text()


def test_whoever_is_in_the_midst_of_writing_holds_no_session_up(url: str, repo: Path, tmp_path: Path) -> None:
    stored(url)
    with psycopg.connect(url) as held:
        held.execute("SELECT pg_advisory_xact_lock(%s)", (lock_of("outlast_default"),))
        fire(repo, url, tmp_path / "machine", "stop")  # what it leaves waits to be stored, also while one starts
        assert "half done" in fire(repo, url, tmp_path / "machine", "start", source="startup")
