"""Handoffs over HTTP, as other languages use them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import Served, served

STORE = {
    "tenant_id": "default",
    "scope": "repair-flow",
    "anchor": "task:export-repair",
    "summary": "Pause after diagnosis",
    "handoff_text": "Resume in src/routes/export.ts and patch the serializer mismatch.",
    "target_files": ["src/routes/export.ts"],
    "next_action": "Patch the export serializer and rerun the relevant checks.",
    "acceptance_checks": ["npm run -s test:lite -- export"],
}
RECOVER = {"tenant_id": "default", "scope": "repair-flow", "anchor": "task:export-repair"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


def store(server: Served, anchor: str, **changes: Any) -> Any:
    reply = server.post("/v1/handoff/store", STORE | {"anchor": anchor} | changes)
    assert reply.status == 200, reply.raw
    return reply.json


def recover(server: Served, anchor: str, **more: Any) -> Any:
    reply = server.post("/v1/handoff/recover", RECOVER | {"anchor": anchor} | more)
    assert reply.status == 200, reply.raw
    return reply.json


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_two_calls_of_the_source_work_by_curl_as_they_are_printed(server: Served) -> None:
    def curl(verb: str, body: Any) -> Any:
        url = f"http://127.0.0.1:{server.port}/v1/handoff/{verb}"
        words = ["curl", "-sS", "--fail-with-body", url, "-H", "content-type: application/json", "-d", json.dumps(body)]
        return json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)

    stored, got = curl("store", STORE), curl("recover", RECOVER)
    assert {name: stored[name] for name in STORE if name != "tenant_id"} == {
        name: value for name, value in STORE.items() if name != "tenant_id"
    }
    assert got["id"] == stored["id"]
    assert (got["summary"], got["target_files"]) == (STORE["summary"], STORE["target_files"])
    assert got["next_action"] == STORE["next_action"]


def test_what_is_stored_is_recovered_with_a_verdict_in_reading_order(server: Served) -> None:
    stored, got = store(server, "task:read"), recover(server, "task:read")
    assert got["verdict"] == "candidate"
    assert {"unobserved", "unbound"} <= {reason["code"] for reason in got["reasons"]}
    assert got["id"] == stored["id"]
    assert list(got)[:5] == ["verdict", "reasons", "anchor", "entry", "next_action"]


def test_the_answer_is_what_the_command_line_prints(server: Served) -> None:
    from outlast.handoffs.sighting import NOBODY
    from outlast.operations.reading import in_order

    store(server, "task:same")
    with server.opened() as outlast:
        shown = in_order(outlast._acting(observer=NOBODY).handoff.recover("task:same", scope="repair-flow"))
    import msgspec

    assert json.loads(msgspec.json.encode(shown)) == recover(server, "task:same")


def test_packets_are_kept_byte_for_byte(server: Served) -> None:
    packet = b'{ "b":1.50,   "a": [1,  2]}'
    body = json.dumps(STORE | {"anchor": "task:packet"}).encode()[:-1] + b', "execution_packet_v1": ' + packet + b"}"
    stored = server.post("/v1/handoff/store", raw=body)
    assert packet in stored.raw
    assert packet in server.post("/v1/handoff/recover", RECOVER | {"anchor": "task:packet"}).raw
    as_text = store(server, "task:packet", execution_packet_v1='{"from": "text"}', execution_state_v1=None)
    assert (as_text["execution_packet_v1"], as_text["execution_state_v1"]) == ({"from": "text"}, None)


def test_a_server_opens_no_target_file(server: Served, tmp_path: Path) -> None:
    """A pipe that nobody writes to would hold up whoever opened it."""
    os.mkfifo(tmp_path / "pipe")
    for root in (str(tmp_path), "/nonexistent", "/etc"):
        stored = store(server, "task:files", target_files=["pipe", "passwd"], repo_root=root, environment=["pipe"])
        assert (stored["binding"], stored["repo_root"]) == (None, root)
        assert recover(server, "task:files", repo_root=root)["root"] == ""


def test_a_server_runs_no_check(server: Served, tmp_path: Path) -> None:
    store(server, "task:checks", acceptance_checks=[f"touch {tmp_path}/ran"])
    for verb, more in (("recover", {"run_checks": True}), ("store", STORE | {"baseline": True})):
        reply = server.post(f"/v1/handoff/{verb}", RECOVER | {"anchor": "task:checks"} | more)
        assert reply.code == "runs_on_host"
    settled = server.post(
        "/v1/handoff/settle", {"anchor": "task:checks", "scope": "repair-flow", "outcome": "completed"}
    )
    assert settled.code == "not_settled"
    assert not (tmp_path / "ran").exists()


def test_what_names_no_file_or_a_path_of_some_machine_is_refused(server: Served) -> None:
    for body in ({"symbol": "x"}, {"file_path": "/etc/passwd"}, {"anchor": "a", "handoff_id": "b"}):
        assert server.post("/v1/handoff/recover", body).code == "handoff_invalid"


def test_a_handoff_is_found_by_its_file(server: Served) -> None:
    stored = store(server, "task:by-file", target_files=["only/here.ts"])
    got = server.post("/v1/handoff/recover", {"scope": "repair-flow", "file_path": "only/here.ts"}).json
    assert got["id"] == stored["id"]


def test_the_same_operation_is_done_once(server: Served) -> None:
    again = STORE | {"anchor": "task:once"}
    first = server.post("/v1/handoff/store", again, headers={"idempotency-key": "op-1"})
    second = server.post("/v1/handoff/store", again | {"operation_id": "op-1"})
    assert (second.json["id"], second.json["revision"], second.json["replayed"]) == (first.json["id"], 1, True)
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    changed = server.post("/v1/handoff/store", again | {"summary": "other"}, headers={"idempotency-key": "op-1"})
    assert (changed.status, changed.code) == (409, "operation_conflict")
    both = server.post("/v1/handoff/store", again | {"operation_id": "op-2"}, headers={"idempotency-key": "op-1"})
    assert (both.status, both.json["path"]) == (422, "operation_id")


def test_a_claim_belongs_to_who_shows_its_id(server: Served) -> None:
    store(server, "task:claim")
    named = {"anchor": "task:claim", "scope": "repair-flow"}
    claim = server.post("/v1/handoff/claim", named).json
    assert server.post("/v1/handoff/claim", named).code == "handoff_claimed"
    shown = named | {"claim_id": claim["id"]}
    assert server.post("/v1/handoff/renew", shown).json["epoch"] == claim["epoch"]
    assert recover(server, "task:claim")["verdict"] == "contested"
    assert server.post("/v1/handoff/settle", named | {"outcome": "released"}).code == "handoff_claimed"
    released = server.post("/v1/handoff/settle", shown | {"outcome": "released", "missing": ["the spec"]}).json
    assert (released["outcome"], released["missing"]) == ("released", ["the spec"])
    events = server.get("/v1/handoff/history?anchor=task:claim&scope=repair-flow").json["items"]
    assert [event["kind"] for event in events] == ["stored", "claimed", "attached", "settled"]


def test_a_handoff_is_read_by_id_by_anchor_and_by_revision(server: Served) -> None:
    first, second = store(server, "task:two"), store(server, "task:two", summary="Again")
    query = "scope=repair-flow"
    assert server.get(f"/v1/handoffs/{first['id']}?{query}").json == first
    assert server.get(f"/v1/handoff?anchor=task:two&{query}").json == second
    assert server.get(f"/v1/handoff?anchor=task:two&revision=1&{query}").json["summary"] == first["summary"]
    assert server.get(f"/v1/handoffs/{first['id']}").code == "handoff_not_found"


def test_the_scope_of_a_request_can_be_a_header(server: Served) -> None:
    stored = server.post(
        "/v1/handoff/store", {k: v for k, v in STORE.items() if k != "scope"}, headers={"outlast-scope": "päge"}
    )
    assert stored.status == 422, "headers are text in UTF-8 or plain letters, and this client sends neither"
    plain = server.post(
        "/v1/handoff/store", {k: v for k, v in STORE.items() if k != "scope"}, headers={"outlast-scope": "mine"}
    )
    assert plain.json["scope"] == "mine"


def test_lint_stores_nothing(server: Served) -> None:
    found = server.post("/v1/handoff/lint", {"anchor": "task:lint", "summary": "Fixed it."}).json
    assert found["weak"]
    assert server.get("/v1/handoff?anchor=task:lint").code == "handoff_not_found"


@pytest.mark.parametrize("standing", ["", "&standing=open", "&standing=claimed"])
def test_pages_go_on_where_they_ended_also_when_one_is_stored_again_meanwhile(server: Served, standing: str) -> None:
    scope = f"pages{standing}".replace("&standing=", "-")
    for number in range(7):
        store(server, f"task:{number}", scope=scope)
        if "claimed" in standing:
            assert server.post("/v1/handoff/claim", {"anchor": f"task:{number}", "scope": scope}).status == 200
    path = f"/v1/handoffs?scope={scope}&limit=3{standing}"
    first = server.get(path).json
    store(server, first["items"][-1]["anchor"], scope=scope)
    rest = [page := server.get(f"{path}&cursor={first['next']}").json, server.get(f"{path}&cursor={page['next']}").json]
    seen = [item["anchor"] for each in (first, *rest) for item in each["items"]]
    assert seen == [f"task:{number}" for number in range(6, -1, -1)]
    assert rest[-1]["next"] is None


def test_anything_printable_can_be_an_anchor(server: Served) -> None:
    for anchor in ("a b", "task:日本 🎉", "../x", "a/b?c=d&e", "'\"", "x" * 500):
        assert recover(server, store(server, anchor)["anchor"])["anchor"] == anchor


def test_the_printed_calls_are_those_of_the_source() -> None:
    """The bodies above are those of the page that this door keeps the word of."""
    assert re.fullmatch(r"task:[a-z-]+", str(STORE["anchor"]))
    assert set(RECOVER) == {"tenant_id", "scope", "anchor"}


# -- without knowing its name --------------------------------------------------------------------------


def on_branch(name: str) -> dict[str, Any]:
    found = {"mode": "file", "digest": "1" * 64, "size": 1}
    return {"root": "/r", "host": "h", "files": {"src/routes/export.ts": found}, "commit": "1" * 40, "branch": name}


def test_it_is_found_by_branch_or_as_the_newest_that_is_not_finished(server: Served) -> None:
    def found(**asked: Any) -> Any:
        return server.post("/v1/handoff/recover", {"scope": "nameless"} | asked)

    nothing = found()
    assert (nothing.status, nothing.code) == (404, "handoff_not_found")
    store(server, "task:one", scope="nameless", binding=on_branch("main"))
    store(server, "task:two", scope="nameless", binding=on_branch("side"))
    store(server, "task:three", scope="nameless", binding=on_branch("main"))
    assert found().json["anchor"] == "task:three"
    assert found(branch="side").json["anchor"] == "task:two"
    claim = found(branch="main", claim=True).json["claim"]
    assert claim["anchor"] == "task:three"
    done = {"scope": "nameless", "anchor": "task:three", "outcome": "completed", "override": "it was dropped"}
    assert server.post("/v1/handoff/settle", done | {"claim_id": claim["id"]}).status == 200
    assert found(branch="main").json["anchor"] == "task:one"
    assert found().json["anchor"] == "task:two"
    lacking = found(branch="elsewhere")
    assert (lacking.status, "branch 'elsewhere'" in lacking.json["detail"]) == (404, True)
    assert "task:two" in lacking.json["detail"]  # what there is, wherever it is


def test_a_branch_beside_another_name_is_refused_with_the_field(server: Served) -> None:
    for other in ({"anchor": "task:one"}, {"handoff_id": "x"}, {"file_path": "a.py"}):
        refused = server.post("/v1/handoff/recover", other | {"branch": "main"})
        assert (refused.status, refused.code, refused.json["path"]) == (422, "handoff_invalid", "branch")
