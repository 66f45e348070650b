"""Commands of others at every door: another key's, a server's, a file's; and what a model may do about them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from outlast import Outlast
from outlast.errors import ForeignCommands
from outlast.handoffs.foreign import digest_of

from ..kit.anchored import journal
from ..ready import by_name, completed
from .client_story import make_repository
from .hostile import Answer, asks, handoff, hostile
from .mcp_place import connected
from .server import Served, served

ANCHOR = "task:x"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home") as found:
        yield found


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_repository(tmp_path / "repo")
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


def url(server: Served) -> str:
    return f"http://127.0.0.1:{server.port}"


def client(server: Served, actor: str) -> Outlast:
    return Outlast(url(server), key=server.keys().create(actor, roles=("read", "write")).text, actor=actor)


def store(outlast: Outlast, marker: Path, **more: Any) -> Any:
    given: dict[str, Any] = {"target_files": ["app.py"], "next_action": "Set the limit to 2 in app.py."}
    given |= {"acceptance_checks": [f"touch {marker}"]}
    return outlast.handoff.store(ANCHOR, "Stopped at the limit", "Resume in app.py and set the limit.", **given | more)


def codes(got: Any) -> set[str]:
    return {reason.code for reason in got.reasons}


def trust(own_folder: Path, *names: str) -> None:
    own_folder.mkdir(parents=True, exist_ok=True)
    (own_folder / "config.yaml").write_text(f"trust: [{', '.join(names)}]\n")


def another_user(monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> Path:
    found = own_folder.parent / "another"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(found))
    return found / "outlast"


# -- another key's, where the home is --------------------------------------------------------------------


def test_what_another_keys_actor_stored_is_not_run_by_who_has_the_home(
    server: Served, repo: Path, marker: Path, own_folder: Path
) -> None:
    with client(server, "ann") as ann:
        stored = store(ann, marker)
    (own_folder / "stored").unlink()  # she is somebody else, and only for this test on the same machine
    with server.opened() as here:
        got = here.handoff.recover(ANCHOR)
        assert "foreign_commands" in codes(got)
        for call in (here.handoff.verify, lambda anchor: here.handoff.settle(anchor, "completed")):
            with pytest.raises(ForeignCommands, match=f"stored by 'ann', over HTTP by key {stored.key_id}"):
                call(ANCHOR)
        assert not marker.exists()
        assert here.verify().ok
        here.handoff.verify(ANCHOR, agree=digest_of(stored))
        assert marker.exists()


def test_whose_key_stored_it_is_on_the_chain_and_nothing_that_was_sent(
    server: Served, repo: Path, marker: Path
) -> None:
    with client(server, "ann") as ann:
        stored = store(ann, marker)
    assert stored.key_id == next(key.id for key in server.keys().list())
    with server.opened() as here:
        assert stored.key_id.encode() in (journal(here)[0].payload or b"")
        assert here.verify().ok
    body = {"anchor": "a", "summary": "s", "handoff_text": "t", "key_id": ""}
    key = server.keys().create("ben", roles=("write",)).text
    assert server.post("/v1/handoff/store", body, key=key).code == "request_invalid"


def test_an_actor_whom_the_user_trusts_and_one_of_his_own_name_are_his(
    server: Served, repo: Path, marker: Path, own_folder: Path
) -> None:
    with client(server, "ann") as ann:
        store(ann, marker)
    (own_folder / "stored").unlink()
    with server.opened(actor="ann") as here:
        assert "foreign_commands" not in codes(here.handoff.verify(ANCHOR))
    with server.opened() as here:
        with pytest.raises(ForeignCommands):
            here.handoff.verify(ANCHOR)
        trust(own_folder, "ann")
        assert "foreign_commands" not in codes(here.handoff.verify(ANCHOR))
        trust(own_folder, f"ann@{url(server)}")  # as a server says it, and not as this home proves it
        with pytest.raises(ForeignCommands):
            here.handoff.verify(ANCHOR)


def test_on_a_server_no_keys_actor_is_at_home(server: Served, repo: Path, marker: Path, own_folder: Path) -> None:
    """What a flow of the server does, it does for the actor of a key, and with the server's own files."""
    with client(server, "ann") as ann:
        store(ann, marker)
    (own_folder / "stored").unlink()
    with server.opened() as here, pytest.raises(ForeignCommands):
        here._acting(actor="ann", key_id="abcdefghjkmn").handoff.verify(ANCHOR)
    assert not marker.exists()


def test_somebody_on_this_machine_without_a_key_is_a_local_actor(server: Served, repo: Path, marker: Path) -> None:
    with Outlast(url(server), actor="ann") as ann:
        assert store(ann, marker).key_id == ""
    with server.opened() as here:
        assert "foreign_commands" not in codes(here.handoff.recover(ANCHOR))


# -- a server's, where the client is ---------------------------------------------------------------------


def test_what_this_user_stored_from_here_is_his_when_it_comes_back(server: Served, repo: Path, marker: Path) -> None:
    with client(server, "ann") as ann:
        store(ann, marker)
        assert "foreign_commands" not in codes(ann.handoff.recover(ANCHOR))
        assert ann.handoff.verify(ANCHOR).evidence[0].passed
    assert marker.exists()


def test_what_somebody_else_stored_is_noted_and_not_run(
    server: Served, repo: Path, marker: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client(server, "ann") as ann:
        stored = store(ann, marker)
    another_user(monkeypatch, own_folder)
    with client(server, "ben") as ben:
        assert "foreign_commands" in codes(ben.handoff.recover(ANCHOR, claim=True))
        session = ben.tasks.session("x", claim_id=ben.handoff.renew(ANCHOR).id)
        for call in (
            lambda: ben.handoff.verify(ANCHOR),
            lambda: ben.handoff.recover(ANCHOR, run_checks=True),
            lambda: ben.handoff.settle(ANCHOR, "completed"),
            lambda: session.complete_task(),
        ):
            with pytest.raises(ForeignCommands) as refused:
                call()
            assert f"touch {marker}" in str(refused.value)
            assert f"--agree {digest_of(stored)} --home {url(server)}" in str(refused.value)
        assert not marker.exists()
        assert ben.handoff.settle(ANCHOR, "completed", agree=digest_of(stored)).outcome == "completed"
    assert marker.exists()


def test_a_servers_word_about_who_stored_it_is_not_enough(repo: Path, marker: Path, own_folder: Path) -> None:
    """It says that the caller himself did, or somebody whom he trusts in his own home."""
    trust(own_folder, "ann", "local")
    for actor in ("local", "ann", "me"):
        about = handoff(acceptance_checks=(f"touch {marker}",), actor=actor)
        with hostile() as there, Outlast(there.url, actor="me") as outlast:
            there.answers = lambda heard, about=about: asks("checks", about) if "/handoff/" in heard.path else Answer()  # type: ignore[misc]
            with pytest.raises(ForeignCommands, match="which says that"):
                outlast.handoff.recover(ANCHOR, run_checks=True)
    assert not marker.exists()


def test_an_actor_of_a_server_is_trusted_by_both_names(
    server: Served, repo: Path, marker: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client(server, "ann") as ann:
        store(ann, marker)
    mine = another_user(monkeypatch, own_folder)
    with client(server, "ben") as ben:
        trust(mine, "ann", "ann@http://127.0.0.1:1", f"ben@{url(server)}")
        with pytest.raises(ForeignCommands):
            ben.handoff.verify(ANCHOR)
        trust(mine, f"ann@{url(server)}")
        assert ben.handoff.verify(ANCHOR).evidence[0].passed


def test_an_agreement_is_never_sent(
    server: Served, repo: Path, marker: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = handoff(acceptance_checks=(f"touch {marker}",))
    with hostile() as there, Outlast(there.url) as outlast:
        there.answers = lambda heard: asks("checks", about)
        with pytest.raises(Exception, match="again"):
            outlast.handoff.verify(ANCHOR, agree=digest_of(about))
        assert all(digest_of(about).encode() not in heard.raw for heard in there.heard)
    body = {"anchor": ANCHOR, "agree": digest_of(about)}
    assert server.post("/v1/handoff/verify", body).code == "request_invalid"


# -- the command line ------------------------------------------------------------------------------------


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return completed(("-m", "outlast", *words), cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def brought(repo: Path, tmp_path: Path, marker: Path) -> str:
    """A stranger's file was imported into this project; the digest of its commands."""
    with Outlast(tmp_path / "theirs") as theirs:
        stored = store(theirs, marker, repo_root=str(repo))
        theirs.handoff.export(ANCHOR, tmp_path / "it.handoff")
    assert run(repo, "handoff", "import", str(tmp_path / "it.handoff")).returncode == 0
    return digest_of(stored)


def test_a_strangers_file_is_refused_with_the_command_that_agrees(repo: Path, marker: Path, brought: str) -> None:
    looked = run(repo, "handoff", "recover", ANCHOR)
    assert (looked.returncode, "foreign_commands" in looked.stdout) == (0, True)
    for words in (
        ["handoff", "recover", ANCHOR, "--run-checks"],
        ["handoff", "verify", ANCHOR],
        ["handoff", "settle", ANCHOR, "completed"],
        ["task", "resume", "x", "--run-checks"],
        ["task", "complete", "x"],
    ):
        done = run(repo, *words)
        assert (done.returncode, "[foreign_commands]" in done.stderr, f"touch {marker}" in done.stderr) == (
            4,
            True,
            True,
        )
        assert f"outlast handoff verify {ANCHOR} --agree {brought}" in done.stderr
    assert not marker.exists()
    assert run(repo, "handoff", "verify", ANCHOR, "--agree", "0" * 64).returncode == 4
    assert not marker.exists()
    assert run(repo, "handoff", "verify", ANCHOR, "--agree", brought).returncode == 0
    assert marker.exists()
    assert run(repo, "handoff", "settle", ANCHOR, "completed").returncode == 0


def test_agreeing_to_what_is_not_run_is_a_usage_error(repo: Path, brought: str) -> None:
    assert run(repo, "handoff", "recover", ANCHOR, "--agree", brought).returncode == 2


# -- a model ---------------------------------------------------------------------------------------------

RUNNING = {"handoff_recover", "handoff_settle", "handoff_store", "task_pause", "task_resume", "task_complete"}
FLOWS = {"run_start", "run_resume", "interrupt_answer"}
READING = {
    *("run_list", "run_show", "run_events", "interrupt_list", "session_window"),
    *("workspace_get", "workspace_recall", "workspace_why"),
}


def test_a_model_cannot_agree_and_is_told_what_a_person_can_do(repo: Path, marker: Path, brought: str) -> None:
    words = ["-m", "outlast", "mcp", "--actor", "model"]
    there = StdioServerParameters(**by_name(*words), cwd=repo, env=dict(os.environ))
    with connected(there) as call:
        assert "foreign_commands" in {each["code"] for each in call.value("handoff_recover", anchor=ANCHOR)["reasons"]}
        for tool, given in (
            ("handoff_recover", {"anchor": ANCHOR, "run_checks": True}),
            ("handoff_settle", {"anchor": ANCHOR, "outcome": "completed"}),
            ("task_resume", {"task": "x", "run_checks": True}),
            ("task_complete", {"task": "x"}),
        ):
            problem = call.problem(tool, **given)
            assert problem["code"] == "foreign_commands"
            assert f"touch {marker}" in problem["detail"]
            assert f"--agree {brought}" in problem["advice"]
            assert call.problem(tool, **given, agree=brought)["path"] == "agree"
        tools = call.does(call.client.list_tools).tools
        assert [each.name for each in tools if "agree" in each.input_schema["properties"]] == []
    assert not marker.exists()


def hints(tools: Any, name: str) -> set[str]:
    return {each.name for each in tools if getattr(each.annotations, name)}


def test_the_hints_of_every_tool_are_true_where_the_files_are(repo: Path) -> None:
    there = StdioServerParameters(**by_name("-m", "outlast", "mcp", "--allow-approve"), cwd=repo, env=dict(os.environ))
    with connected(there) as call:
        tools = call.does(call.client.list_tools).tools
    assert hints(tools, "destructive_hint") == hints(tools, "open_world_hint") == RUNNING | FLOWS
    assert hints(tools, "read_only_hint") == READING
    assert hints(tools, "idempotent_hint") == READING | {"workspace_save", "workspace_link"}


def test_and_on_a_server_which_runs_flows_and_no_commands(server: Served) -> None:
    with connected(f"{url(server)}/mcp") as call:
        tools = call.does(call.client.list_tools).tools
    assert hints(tools, "destructive_hint") == hints(tools, "open_world_hint") == FLOWS
    assert hints(tools, "read_only_hint") == READING
