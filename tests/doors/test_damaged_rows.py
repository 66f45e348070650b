"""One bad row, at every door: the list says which, and nobody acts on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from outlast import Outlast
from outlast.errors import IntegrityBroken
from outlast.home.keys import Keys

from ..kit import ledgers
from .conftest import Cli
from .server import served

HANDOFF: dict[str, Any] = {"summary": "s", "handoff_text": "t", "next_action": "n"}
NOT_TEXT = "CAST(x'ff' AS TEXT)"
DAMAGE = {  # what is damaged, by which list it is met, and what it is called
    "anchor": (f"UPDATE anchors SET branch = {NOT_TEXT} WHERE anchor = 'bad'", "/v1/handoffs", "handoff bad"),
    "session": ("UPDATE sessions SET meta = '{' WHERE id = 'bad'", "/v1/sessions", "session bad"),
    "task": ("UPDATE tasks SET meta = '{' WHERE task = 'bad'", "/v1/tasks", "task bad"),
    "record": ("UPDATE records SET tags = '{' WHERE key = 1", "/v1/workspace/records", "record:"),
}
ACTS: dict[str, Callable[[Outlast], object]] = {
    "anchor": lambda outlast: outlast.handoff.claim("bad"),
    "anchor stored": lambda outlast: outlast.handoff.store(anchor="bad", **HANDOFF),
    "session": lambda outlast: outlast.sessions.append("bad", "user", "more"),
    "task": lambda outlast: outlast.tasks.open("bad").record_event("tried"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Outlast(tmp_path / "home") as outlast:
        for name in ("bad", "good"):
            outlast.handoff.store(anchor=name, **HANDOFF)
            outlast.sessions.append(name, "user", "hello")
            outlast.tasks.open(name).record_event("began")
            outlast.workspace.record("note", f"a {name} note")
    return tmp_path / "home"


def damage(home: Path, what: str) -> None:
    ledgers.change(home, DAMAGE[what][0], rows=1)


@pytest.mark.parametrize("what", DAMAGE)
def test_a_list_over_http_names_the_damaged_one_and_shows_the_others(home: Path, what: str) -> None:
    _, path, name = DAMAGE[what]
    with served(home) as server:
        sound = server.get(path)
        assert "damaged" not in sound.json
        assert "outlast-damaged" not in sound.headers
        damage(home, what)
        for _ in range(2):  # the second one who asks is told, too
            listed = server.get(path)
            assert listed.status == 200
            assert len(listed.json["items"]) == len(sound.json["items"])
            (line,) = listed.json["damaged"]
            assert line.startswith(name)
            assert "outlast verify" in line
            assert unquote(listed.headers["outlast-damaged"]) == line


def test_a_client_is_warned_as_a_home_of_its_own_would_warn(home: Path) -> None:
    damage(home, "session")
    warned = pytest.warns(RuntimeWarning, match="session bad is damaged")
    with served(home) as server, Outlast(f"http://127.0.0.1:{server.port}") as outlast, warned:
        assert len(outlast.sessions.list()) == 2


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.filterwarnings("ignore:.*is damaged:RuntimeWarning")
def test_nobody_acts_on_a_damaged_row(home: Path, act: str) -> None:
    damage(home, act.partition(" ")[0])
    with Outlast(home) as outlast:
        with pytest.raises(IntegrityBroken):
            ACTS[act](outlast)
        outlast.sessions.append("good", "user", "more")
        outlast.handoff.claim("good")
        outlast.tasks.open("good").record_event("went on")


@pytest.mark.filterwarnings("ignore:.*is damaged:RuntimeWarning")
def test_a_model_is_told_of_a_damaged_record_beside_the_answer(home: Path) -> None:
    damage(home, "record")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "workspace_recall", "arguments": {"goal": "note"}}
    said = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    with served(home) as server:
        answer = server.post("/mcp", call, headers=said)
        assert answer.status == 200, answer.raw
        (data,) = [line[6:] for line in answer.raw.splitlines() if line.startswith(b"data: ")]
        texts = [each["text"] for each in json.loads(data)["result"]["content"]]
        assert any("is damaged" in text and "outlast verify" in text for text in texts), texts


KEYS = {
    "roles": "UPDATE keys SET roles = '[\"admin\"]'",
    "broken roles": "UPDATE keys SET roles = '{'",
    "tenant": "UPDATE keys SET tenant = 'other'",
    "actor": "UPDATE keys SET actor = 'root'",
    "expiry": "UPDATE keys SET expires_at = 0",
    "end": "UPDATE keys SET revoked_at = 0",
    "last use": "UPDATE keys SET last_used_at = 9223372036854775807",
}


@pytest.mark.parametrize("what", KEYS)
def test_a_key_whose_record_was_changed_opens_nothing_and_is_named(tmp_path: Path, what: str, cli: Cli) -> None:
    home = tmp_path / "home"
    keys = Keys(home)
    made, sound = keys.create("ann", roles=["read"], expires="90d"), keys.create("bob")
    keys.revoke(made.key.id) if what == "end" else None
    keys.close()
    ledgers.change_keys(home, f"{KEYS[what]} WHERE id = {made.key.id!r}")
    with served(home) as server:
        assert server.get("/v1/runs", key=made.text).code == "unauthenticated"
        assert server.get("/v1/runs", key=sound.text).status == 200
    with Outlast(home) as outlast:
        (problem,) = outlast.verify().problems
        assert problem.record == f"key {made.key.id}"
    listed = cli("keys", "list", "--json", "--home", str(home))
    assert [key["id"] for key in listed.json["keys"]] == [sound.key.id]
    assert listed.json["damaged"] == [made.key.id]
    revoked = cli("keys", "revoke", made.key.id, "--home", str(home))
    assert "[integrity_broken]" in revoked.err
    assert cli("keys", "list", "--json", "--home", str(home)).json["damaged"] == [made.key.id]


@pytest.mark.parametrize("how", ["DELETE FROM keys", "DROP TABLE keys"])
def test_a_home_whose_keys_are_gone_lets_nobody_in_and_says_so(tmp_path: Path, how: str) -> None:
    home = tmp_path / "home"
    keys = Keys(home)
    keys.create("ann")
    keys.close()
    ledgers.change_keys(home, how)
    with served(home) as server:
        assert server.get("/v1/runs").code == "unauthenticated"
    with Outlast(home) as outlast:
        assert [problem.record for problem in outlast.verify().problems] == ["keys.db"]


def test_what_is_counted_for_a_quota_is_proven(tmp_path: Path) -> None:
    with served(tmp_path / "home", keyed=True) as server:
        said = server.ask("PUT", "/v1/workspace/artifacts?name=a", raw=b"content")
        assert said.status == 200
        ledgers.change(server.home, "UPDATE stored_by SET size = 0", rows=1)
        found = server.get("/v1/verify").json["problems"]
        assert [each["record"].partition(" blob ")[0] for each in found] == ["what is counted for"]
