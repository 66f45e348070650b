"""The flow files of the examples and pages are flow files, and those that are said to run do, also after a kill -9.

A fence `yaml run` on a page is a flow that runs to its end, without inputs, in an empty folder.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from outlast.flows.yaml.model import Command, Parallel, Pause, Repeat
from outlast.flows.yaml.read import read_flow_file

from .. import ready
from .test_snippets import PAGES, ROOT, environment, fences, named

EXAMPLE = ROOT / "examples" / "coding_agent"
NEEDED = {"git"}  # tools that a page's flow may need, and that may be missing here


def flows_on(page: Path, *info: str) -> list[tuple[int, str]]:
    """The flow files on a page whose fences say all of this, with their lines."""
    found = fences(page.read_text("utf-8"))
    return [
        (fence.line, fence.text)
        for fence in found
        if fence.language == "yaml" and fence.text.startswith("flow:") and set(info) <= set(fence.info)
    ]


RUNNING = [(page, line, text) for page in PAGES for line, text in flows_on(page, "run")]


def outlast(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = ready.run(("-m", "outlast", *words), cwd=folder, env=environment() | env)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def told(folder: Path, *words: str) -> Any:
    done = outlast(folder, *words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


# The pages


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_flow_on_a_page_is_one(page: Path, tmp_path: Path) -> None:
    for line, text in flows_on(page):
        file = tmp_path / f"line-{line}.yaml"
        file.write_text(text, "utf-8")
        assert read_flow_file(file).steps


@pytest.mark.parametrize(("page", "line", "text"), RUNNING, ids=[f"{named(page)}:{line}" for page, line, _ in RUNNING])
def test_a_flow_that_is_said_to_run_does(page: Path, line: int, text: str, tmp_path: Path) -> None:
    missing = [tool for tool in NEEDED if f"{tool} " in text and not shutil.which(tool)]
    if missing:
        pytest.skip(f"needs {missing[0]}")
    (tmp_path / "flow.yaml").write_text(text, "utf-8")
    done = outlast(tmp_path, "run", "flow.yaml", API_TOKEN="a-secret-for-nobody")
    assert done.returncode == 0, f"{named(page)}:{line}\n{done.stdout}{done.stderr}"


def test_pages_have_flows_that_run() -> None:
    assert {page.name for page, _, _ in RUNNING} >= {"README.md", "cookbook.md"}


# The example


def test_the_example_has_every_kind_of_node() -> None:
    kinds = {type(node) for node in read_flow_file(EXAMPLE / "flow.yaml").nodes()}
    assert kinds == {Command, Parallel, Pause, Repeat}


def test_the_cookbook_shows_the_example_as_it_is() -> None:
    _, shown = flows_on(ROOT / "docs" / "cookbook.md")[0]
    assert yaml.safe_load(shown) == yaml.safe_load((EXAMPLE / "flow.yaml").read_text("utf-8"))


def test_the_coding_agent_is_killed_resumed_and_releases_once(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder)
    waiting = outlast(folder, "run", "flow.yaml", "ticket=T-18", "--json")
    assert waiting.returncode == 3, waiting.stdout + waiting.stderr
    first = json.loads(waiting.stdout)
    planned = (folder / "plan.md").stat().st_mtime_ns
    told(folder, "answer", first["interrupts"][0]["id"], '{"approved": true}')

    _killed_in_the_middle_of_the_author(folder)
    plan = told(folder, "resume", "--dry-run")
    assert (plan["status"], plan["verdict"]["word"]) == ("crashed", "candidate")
    assert {step["label"]: step["action"] for step in plan["steps"]} == {"plan": "reuse", "fix[1]/author": "retry"}

    done = outlast(folder, "resume", "--json", RELEASE_ANSWER="lost")
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(done.stdout)
    assert last["run_id"] == first["run_id"]
    assert last["result"]["release"] == {"version": "1.0"}
    assert len((folder / "released.txt").read_text().splitlines()) == 1
    assert (folder / "plan.md").stat().st_mtime_ns == planned
    assert told(folder, "verify")["ok"]
    mirror = folder / ".outlast" / "runs" / first["run_id"] / "build"
    author = json.loads((mirror / "receipts" / "author-author.json").read_text())
    assert (author["attempt"], author["result"]) == (2, {"found": "partial work"})
    assert json.loads((mirror / "handoffs" / "plan-planner.json").read_text())["next"] == "approve it"


def _killed_in_the_middle_of_the_author(folder: Path) -> None:
    """Resume with a slow author, and kill -9 the runtime when half of the author's file is there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "outlast", "resume"],
        cwd=folder,
        env=environment() | {"AGENT_SECONDS": "600"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((folder / "src" / "greet.sh").exists, "the author has begun")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    ended = folder / ".outlast" / "default" / "work"
    until(lambda: any(ended.rglob("ended")), "the guard has ended the author")
