"""What the docs and the description say to type is typed, word for word, at a real server."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.doors.http.openapi import described

from .server import Served, served

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
FLOW = """
from outlast import Run, flow

@flow
def daily_report(run: Run, topic: str) -> str:
    return f"all about {topic}"
"""
AT_OUR_PORT = re.compile(r"^\$ (curl [^\n]*localhost:8787.*?)(?=^\$ |^```)", re.MULTILINE | re.DOTALL)
STAND_IN = """#!{python}
import sys, urllib.request
_, _, url, _, header, _, body = sys.argv  # -s URL -H HEADER -d BODY
to = "http://" + url.replace("localhost:8787", "127.0.0.1:{port}")
print(urllib.request.urlopen(urllib.request.Request(to, body.encode(), dict([header.split(": ")]))).read().decode())
"""
NAMES_A_RUN = "/v1/runs/4kq9/"  # which is nobody's


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    flows = tmp_path / "reports.py"
    flows.write_text(FLOW)
    with served(tmp_path / "home", flows=(str(flows),)) as found:
        yield found


def typed(server: Served, script: str, folder: Path) -> str:
    """What a shell prints. `localhost:8787` is wherever the server is, by the settings of curl; the text stays."""
    settings = folder / "curl"
    settings.mkdir(exist_ok=True)
    (settings / ".curlrc").write_text(f'connect-to = "localhost:8787:127.0.0.1:{server.port}"\nfail-with-body\n')
    if shutil.which("curl") is None:  # what it is told is the same
        (settings / "curl").write_text(STAND_IN.format(python=sys.executable, port=server.port))
        (settings / "curl").chmod(0o755)
    named = {
        "PATH": f"{settings}{os.pathsep}{os.environ['PATH']}",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "CURL_HOME": str(settings),
        "HOME": str(settings),
    }
    words = ["sh", "-eu", "-c", script]
    done = subprocess.run(words, cwd=folder, env=os.environ | named, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src" / "routes").mkdir(parents=True)
    (folder / "src" / "routes" / "export.ts").write_text("export {}\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def samples() -> dict[str, str]:
    """By operation, what the description says to type."""
    every = [each for path in described()["paths"].values() for each in path.values()]
    return {each["operationId"]: each["x-codeSamples"][0]["source"] for each in every if "x-codeSamples" in each}


def codes(told: str) -> set[str]:
    found: dict[str, Any] = json.loads(told)
    return {each["code"] for each in found["reasons"]}


def test_the_examples_for_curl_run_as_they_are_written(server: Served, repository: Path) -> None:
    store, recover = samples()["handoff_store"], samples()["handoff_recover"]
    assert f"```sh\n{store}```" in PAGE
    assert f"```sh\n{recover}```" in PAGE
    assert {"unobserved", "unbound"} & codes(typed(server, store + recover, repository)) == set()
    edited = "echo '// edited' >> src/routes/export.ts\n"
    told = codes(typed(server, store + edited + recover, repository))
    assert {"file_changed", "other_files_changed"} <= told, told
    later = codes(typed(server, store + recover.replace('"relation": "same"', '"relation": "apart"'), repository))
    assert "diverged" in later


def test_every_request_of_the_page_is_one_that_the_server_takes(server: Served, tmp_path: Path) -> None:
    found = [each for each in AT_OUR_PORT.findall(PAGE) if NAMES_A_RUN not in each]
    assert len(found) == 3
    told = [json.loads(typed(server, each, tmp_path)) for each in found]
    assert told[0]["anchor"] == told[1]["anchor"] == "task:export-repair"
    assert (told[2]["status"], told[2]["result"]) == ("succeeded", "all about ai")
