"""`outlast serve` and `outlast keys`: a real process, real signals."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast.doors.cli import serve as command
from outlast.doors.cli.group import cli
from outlast.errors import ExtraMissing
from outlast.home.keys import Keys

FLOWS = Path(__file__).with_name("http_flows.py")


class Started:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.home = folder / "home"
        given = [
            sys.executable,
            "-m",
            "outlast",
            "serve",
            "--json",
            "--port",
            "0",
            "--home",
            str(self.home),
            *words,
        ]
        self.process = subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)

    @cached_property
    def ready(self) -> dict[str, str]:
        """What it says once it serves."""
        assert self.process.stdout is not None
        found: dict[str, str] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, path: str, body: Any = None) -> Any:
        from urllib.request import Request, urlopen

        data = None if body is None else json.dumps(body).encode()
        asked = Request(self.ready["address"] + path, data, {"content-type": "application/json"})
        with urlopen(asked, timeout=60) as reply:
            return json.load(reply)

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Started]:
    """One for each test: those of a module may be spread over processes, and each would start them all."""
    started = Started(tmp_path, "--flows", str(FLOWS))
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.communicate()


def test_a_server_asked_to_end_leaves_its_run_interrupted_and_says_so_on_streams(
    server: Started, tmp_path: Path
) -> None:
    from http.client import HTTPConnection

    from outlast import Outlast

    run = server.ask("/v1/runs", {"flow": "patient", "inputs": {"path": str(tmp_path / "never")}})["run_id"]
    connection = HTTPConnection("127.0.0.1", int(server.ready["address"].rpartition(":")[2]), timeout=60)
    connection.request("GET", f"/v1/runs/{run}/events", headers={"accept": "text/event-stream"})
    stream = connection.getresponse()
    stream.readline()
    code, log = server.end(signal.SIGTERM)
    assert code == 0, log
    assert stream.read().rpartition(b"event: end\n")[2].startswith(b'data: {"why":"shutdown"')
    with Outlast(server.home) as outlast:
        assert outlast.get(run).status == "interrupted"
    assert all(json.loads(line)["level"] == "info" for line in log.splitlines())


def test_ctrl_c_ends_it_with_the_code_of_an_interruption(server: Started) -> None:
    assert server.ask("/readyz") == {"status": "ready"}
    code, log = server.end(signal.SIGINT)
    assert code == 130, log
    assert "Traceback" not in log


def test_without_its_packages_it_says_which_extra_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = CliRunner().invoke(cli, ["serve", "--home", str(tmp_path)])
    assert isinstance(result.exception, ExtraMissing)
    assert "pip install 'outlast[server]'" in str(result.exception)


def test_other_commands_load_no_web_framework() -> None:
    web = "('fastapi', 'starlette', 'uvicorn', 'prometheus_client')"
    asked = f"""import sys, outlast.doors.cli.serve, outlast.doors.http.identity
print([name for name in {web} if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def keys(home: Path, *words: str) -> Any:
    result = CliRunner().invoke(cli, ["keys", *words, "--json", "--home", str(home)], standalone_mode=False)
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = keys(tmp_path, "create", "--actor", "ann", "--role", "approve", "--tenant", "acme", "--expires", "90d")
    assert (made["actor"], made["tenant"], made["roles"], made["revoked_at"]) == ("ann", "acme", ["approve"], None)
    assert Keys(tmp_path).check(made["key"]).id == made["id"]
    listed = keys(tmp_path, "list")["keys"]
    assert [key["id"] for key in listed] == [made["id"]]
    assert made["key"].split("_", 2)[2] not in json.dumps(listed)
    assert keys(tmp_path, "revoke", made["id"])["revoked_at"]
    assert keys(tmp_path, "list", "--tenant", "other")["keys"] == []


def test_a_key_is_shown_once_to_people_too(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(cli, ["keys", "create", "--actor", "bob", "--home", str(tmp_path)], standalone_mode=False)
    text = made.stdout.strip()
    assert Keys(tmp_path).check(text).roles == ("read", "write")
    shown = run.invoke(cli, ["keys", "list", "--home", str(tmp_path)], standalone_mode=False).stdout
    assert text.split("_")[1] in shown
    assert text.split("_", 2)[2] not in shown
    empty = run.invoke(cli, ["keys", "list", "--home", str(tmp_path / "none")], standalone_mode=False).stdout
    assert "outlast keys create" in empty
    assert not (tmp_path / "none").exists()
