"""The command line against a server: `--home http://…`, or OUTLAST_HOME."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from outlast import Outlast
from outlast.doors.cli import main
from outlast.doors.cli.group import cli
from outlast.doors.cli.run import resumed_or_awaited
from outlast.errors import RunHeld

from . import http_flows
from .client_story import make_repository
from .server import Served, served

FLOWS = str(Path(http_flows.__file__))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", keyed=True, flows=(FLOWS,), poll_seconds=0.02) as found:
        yield found


@pytest.fixture
def repo(tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_repository(tmp_path / "repo")
    monkeypatch.chdir(found)
    monkeypatch.setenv("OUTLAST_HOME", f"http://127.0.0.1:{server.port}")
    for name in ("OUTLAST_API_KEY", "OUTLAST_EFFECT_KEY", "OUTLAST_CLAIM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OUTLAST_API_KEY", server.key or "")
    return found


def ask(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def told(*words: str) -> dict[str, object]:
    done = ask(*words, "--json")
    assert done.exit_code in (0, 3), done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


def code_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The code of the error that a command ends with."""
    with pytest.raises(SystemExit):
        main([*words, "--json"])
    return str(json.loads(capsys.readouterr().out)["error"]["code"])


def test_a_handoff_goes_all_its_way(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ("--check", "grep -q 'limit = 2' app.py", "--next", "Set it to 2.", "--file", "app.py")
    assert ask("handoff", "store", "cli", "-m", "Stopped at it", "--text", "Resume in app.py", *check).exit_code == 0
    assert told("handoff", "recover", "cli")["verdict"] == "trusted"
    claim = told("handoff", "claim", "cli")
    monkeypatch.setenv("OUTLAST_CLAIM", str(claim["id"]))
    (repo / "app.py").write_text("limit = 2\n")
    assert ask("handoff", "settle", "cli", "completed").exit_code == 0
    assert "finished" in ask("handoff", "list").output


def test_runs_are_started_looked_at_and_answered(repo: Path) -> None:
    done = told("run", f"{FLOWS}:doubling", "number=4")
    assert (done["status"], done["result"]) == ("succeeded", 8)
    assert ask("show", str(done["run_id"])).exit_code == 0
    waiting = told("run", f"{FLOWS}:asking", "question=may I?")
    assert ask("inbox").output.count("may I?") == 1
    assert ask("approve", str(waiting["interrupts"][0]["id"])).exit_code == 0  # type: ignore[index]
    assert told("resume", str(waiting["run_id"]))["result"] is True


def test_tasks_sessions_and_the_workspace_are_there(repo: Path) -> None:
    assert ask("task", "open", "by cli").exit_code == 0
    assert told("task", "inspect", "by cli")["state"] == "active"
    assert ask("session", "append", "talk", "hello").exit_code == 0
    assert ask("workspace", "save", "notes.md", "notes.md").exit_code == 0
    assert ask("workspace", "get", "notes.md").output == "# notes\n"
    assert ask("verify").exit_code == 0


def test_the_url_may_be_an_option_and_what_needs_a_folder_says_so(
    repo: Path, server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OUTLAST_HOME")
    url = f"http://127.0.0.1:{server.port}"
    assert ask("runs", "--home", url).exit_code == 0
    assert list(repo.glob("http*")) == []
    for words in (("gc",), ("keys", "list"), ("serve",)):
        assert code_of(capsys, *words, "--home", url) == "embedded_only"


def test_the_key_comes_from_its_own_variable_and_never_from_an_effects(
    repo: Path, server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTLAST_API_KEY", server.keys().create("reader", roles=["read"]).text)
    assert code_of(capsys, "task", "open", "not mine") == "forbidden"
    monkeypatch.setenv("OUTLAST_EFFECT_KEY", server.keys().create("writer", roles=["write"]).text)
    assert code_of(capsys, "task", "open", "not mine") == "forbidden"
    monkeypatch.setenv("OUTLAST_API_KEY", "")
    assert code_of(capsys, "task", "open", "nobody's") == "unauthenticated"
    monkeypatch.setenv("OUTLAST_API_KEY", server.keys().create("writer", roles=["write"]).text)
    assert ask("task", "open", "mine").exit_code == 0
    monkeypatch.setenv("OUTLAST_API_KEY", "publish-3f2a")
    assert code_of(capsys, "task", "open", "nobody's") == "unauthenticated"


def test_what_a_server_went_on_with_by_itself_is_waited_for(repo: Path, server: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Outlast(f"http://127.0.0.1:{server.port}", key=server.key) as outlast, ThreadPoolExecutor(1) as beside:
        run = server.post("/v1/runs", {"flow": "telling", "inputs": {"path": str(gate)}}, key=server.key).json
        with pytest.raises(RunHeld):
            outlast.resume(run["run_id"])
        going = beside.submit(resumed_or_awaited, outlast, run["run_id"])
        gate.write_text("open")
        assert going.result(30).unwrap() == "open"
        assert resumed_or_awaited(outlast, run["run_id"]).unwrap() == "open"  # it was done before


def test_an_answer_with_resume_ends_well_whoever_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_API_KEY", raising=False)
    with served(tmp_path / "home", flows=(FLOWS,), works=True, poll_seconds=0.02) as server:
        monkeypatch.setenv("OUTLAST_HOME", f"http://127.0.0.1:{server.port}")
        for number in range(5):
            asked = {"flow": "asking", "inputs": {"question": f"Publish {number}?"}}
            wait = server.post("/v1/runs?wait=30", asked).json["interrupts"][0]["id"]
            assert told("approve", wait, "--resume")["status"] == "succeeded"
