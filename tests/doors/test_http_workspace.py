"""The workspace, tasks and sessions over HTTP: the same values as in Python, and content that streams."""

import base64
import hashlib
import http.client
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from .server import Reply, Served, served

NOISE = os.urandom(3_000_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", artifact_bytes=4_000_000) as found:
        yield found


def ok(reply: Reply) -> Any:
    assert reply.status == 200, reply.raw
    return reply.json


def put(server: Served, name: str, content: bytes, **said: str) -> Reply:
    query = urlencode({"name": name, **said})
    headers = {"content-type": "application/octet-stream"}
    return server.ask("PUT", f"/v1/workspace/artifacts?{query}", raw=content, headers=headers)


def content(server: Served, ref: str, **headers: str) -> Reply:
    return server.ask("GET", f"/v1/workspace/artifacts/content?ref={quote(ref)}", headers=headers)


def blob_of(server: Served, digest: str) -> Path:
    return server.home / "default" / "blobs" / digest[:2] / digest


# -- content -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["noise.bin", "a b/../c.md", 'é 😀 "q" \'.txt', "x" * 300])
def test_content_goes_up_and_comes_down_byte_for_byte(server: Served, name: str) -> None:
    saved = ok(put(server, name, NOISE, summary="Noise"))
    assert (saved["name"], saved["size"], saved["digest"]) == (name, len(NOISE), hashlib.sha256(NOISE).hexdigest())
    got = content(server, saved["ref"])
    assert got.raw == NOISE
    assert got.headers["etag"] == f'"{saved["digest"]}"'
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in got.headers["content-security-policy"]
    with server.opened() as outlast:
        assert outlast.workspace.get(saved["ref"]).source.actor == "local"


@pytest.mark.parametrize(
    ("asked", "part", "told"),
    [
        ("bytes=0-0", slice(0, 1), "bytes 0-0/3000000"),
        ("bytes=100-199", slice(100, 200), "bytes 100-199/3000000"),
        ("bytes=2999999-", slice(2999999, None), "bytes 2999999-2999999/3000000"),
        ("bytes=-5", slice(-5, None), "bytes 2999995-2999999/3000000"),
        ("bytes=2999990-9999999", slice(2999990, None), "bytes 2999990-2999999/3000000"),
    ],
)
def test_a_range_is_served_alone(server: Served, asked: str, part: slice, told: str) -> None:
    ref = ok(put(server, "ranged", NOISE))["ref"]
    got = content(server, ref, range=asked)
    assert (got.status, got.raw, got.headers["content-range"]) == (206, NOISE[part], told)


def test_a_range_after_the_end_is_refused_and_several_give_all(server: Served) -> None:
    ref = ok(put(server, "ranged", NOISE))["ref"]
    assert content(server, ref, range="bytes=3000000-").code == "range_refused"
    assert content(server, ref, range="bytes=0-1,5-6").raw == NOISE
    assert content(server, ref, range="bytes=0-1", **{"if-range": '"other"'}).raw == NOISE


def test_what_is_known_already_is_not_sent_again(server: Served) -> None:
    saved = ok(put(server, "known", b"known"))
    got = content(server, saved["ref"], **{"if-none-match": f'"{saved["digest"]}"'})
    assert (got.status, got.raw) == (304, b"")
    head = server.ask("HEAD", f"/v1/workspace/artifacts/content?ref={quote(saved['ref'])}")
    assert (head.status, head.raw, head.headers["content-length"]) == (200, b"", "5")


@pytest.mark.parametrize("headers", [{}, {"range": "bytes=0-9"}])
def test_damaged_content_is_never_sent_for_whole(server: Served, headers: dict[str, str]) -> None:
    noise = os.urandom(50_000)
    saved = ok(put(server, "spoilt", noise))
    blob = blob_of(server, saved["digest"])
    blob.chmod(0o600)
    blob.write_bytes(noise[:-1] + bytes([noise[-1] ^ 1]))
    assert content(server, saved["ref"], **headers).code == "integrity_broken"


def test_content_over_the_limit_is_refused_and_leaves_nothing(server: Served) -> None:
    assert put(server, "large", os.urandom(4_000_001)).code == "body_too_large"
    assert server.get("/v1/workspace/artifact?ref=large").code == "artifact_not_found"


def test_a_client_that_leaves_in_the_middle_leaves_nothing(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        head = f"PUT /v1/workspace/artifacts?name=half HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        line.sendall(head.encode() + b"Content-Length: 1000000\r\n\r\n" + b"x" * 70_000)
    assert server.get("/v1/workspace/artifact?ref=half").code == "artifact_not_found"
    ok(put(server, "after", b"still served"))


def test_a_body_that_comes_in_pieces_is_saved(server: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    pieces = iter([b"one ", b"two ", b"three"])
    connection.request("PUT", "/v1/workspace/artifacts?name=pieces", pieces, encode_chunked=True,
                       headers={"transfer-encoding": "chunked"})  # fmt: skip
    assert connection.getresponse().status == 200
    connection.close()
    assert content(server, "pieces").raw == b"one two three"


def test_an_idempotency_key_saves_once(server: Served) -> None:
    url, key = "/v1/workspace/artifacts?name=once", {"idempotency-key": "save-1"}
    first = server.ask("PUT", url, raw=b"a", headers=key)
    again = server.ask("PUT", url, raw=b"a", headers=key)
    assert (again.json["ref"], again.headers["idempotency-replayed"]) == (first.json["ref"], "true")
    assert server.ask("PUT", url, raw=b"b", headers=key).code == "operation_conflict"


def test_small_content_may_be_a_field(server: Served) -> None:
    text = ok(server.post("/v1/workspace/artifacts", {"name": "note.md", "content": "# Note", "tags": ["a"]}))
    assert (text["media_type"], text["tags"]) == ("text/markdown", ["a"])
    raw = {"name": "raw", "content_base64": base64.b64encode(b"\x00\xff").decode()}
    assert content(server, ok(server.post("/v1/workspace/artifacts", raw))["ref"]).raw == b"\x00\xff"
    for wrong in ({"name": "x"}, {"name": "x", "content": "a", "content_base64": "YQ=="}):
        assert server.post("/v1/workspace/artifacts", wrong).code == "request_invalid"
    assert server.post("/v1/workspace/artifacts", {"name": "x", "content_base64": "*"}).json["path"] == "content_base64"


def test_artifacts_are_listed_in_pages(server: Served) -> None:
    for number in range(5):
        ok(put(server, f"page/{number}", b"x%d" % number))
    found: list[str] = []
    cursor = ""
    while True:
        page = ok(server.get(f"/v1/workspace/artifacts?prefix=page/&limit=2&cursor={cursor}"))
        found += [one["name"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert found == [f"page/{number}" for number in (4, 3, 2, 1, 0)]
    versions = ok(server.get("/v1/workspace/artifacts/versions?name=page/1"))
    assert [one["version"] for one in versions["items"]] == [1]


# -- records, links, checkpoints, recall -------------------------------------------------------------


def record(server: Served, text: str, **more: Any) -> Any:
    return ok(server.post("/v1/workspace/records", {"kind": "observation", "text": text, **more}))


def test_records_and_links_are_made_and_explained(server: Served) -> None:
    ground = record(server, "Throughput fell by half.")
    decision = record(server, "We patch it.", kind="decision", scope="default")
    link = {"source": decision["ref"], "relation": "derived_from", "target": ground["ref"]}
    assert ok(server.post("/v1/workspace/links", link))["relation"] == "derived_from"
    against = record(server, "It did not fall.")
    ok(server.post("/v1/workspace/links", {**link, "source": against["ref"], "relation": "contradicts"}))
    why = ok(server.get(f"/v1/workspace/why?ref={decision['ref']}"))
    assert (why["standing"], why["children"][0]["of"]["standing"]) == ("contested", "contested")
    assert len(ok(server.get(f"/v1/workspace/links?ref={ground['ref']}"))["items"]) == 2
    listed = ok(server.get("/v1/workspace/records?kind=decision&limit=1"))
    assert listed["items"][0]["ref"] == decision["ref"]
    assert ok(server.get(f"/v1/workspace/records/{decision['id'][:8]}"))["text"] == "We patch it."


def test_a_secret_is_refused_by_its_path(server: Served) -> None:
    refused = server.post("/v1/workspace/records", {"kind": "note", "text": "token ghp_" + "a1B2" * 9})
    assert (refused.code, refused.json["path"]) == ("secret_found", "text")


def test_recall_answers_within_its_budget_and_is_ready_for_a_prompt(server: Served) -> None:
    pinned = record(server, "Never on Fridays.", scope="recall", pinned=True)
    record(server, "The exporter drops time zones.", scope="recall", source="x")
    asked = {"goal": "time zones of the exporter", "budget": 300, "scope": "recall"}
    pack = ok(server.post("/v1/workspace/recall", asked))
    assert pack["tokens"] <= 300
    assert pack["entries"][0]["ref"] == pinned["ref"]
    assert pack["prompt"].startswith("Recalled")
    small = server.post("/v1/workspace/recall", {**asked, "budget": 3})
    assert (small.code, small.json["facts"]["budget"]) == ("budget_too_small", 3)
    ok(server.post(f"/v1/workspace/records/{pinned['id']}/pin", {"pinned": False}))


def test_checkpoints_are_pinned_listed_and_compared(server: Served) -> None:
    saved = ok(put(server, "draft", b"draft"))
    body = {"name": "first", "task": "tides", "refs": [saved["ref"]]}
    first = ok(server.post("/v1/workspace/checkpoints", body))
    second = ok(server.post("/v1/workspace/checkpoints", {"name": "second", "task": "tides"}))
    page = ok(server.get("/v1/workspace/checkpoints?task=tides&limit=1"))
    assert [one["id"] for one in page["items"]] == [second["id"]]
    rest = ok(server.get(f"/v1/workspace/checkpoints?task=tides&limit=1&cursor={page['next']}"))
    assert [one["id"] for one in rest["items"]] == [first["id"]]
    diff = ok(server.get(f"/v1/workspace/checkpoints/diff?before={first['id']}&after={second['id']}"))
    assert (diff["refs_removed"], diff["same"]) == ([saved["ref"]], False)
    assert ok(server.get(f"/v1/workspace/checkpoints/{first['id']}")) == first


# -- tasks and sessions ------------------------------------------------------------------------------


def test_a_task_is_opened_paused_resumed_and_completed(server: Served) -> None:
    task = "/v1/tasks/" + quote("repair/export 1")
    assert ok(server.post(f"{task}/open", {"meta": {"by": "host"}}))["state"] == "active"
    handoff = {"summary": "Half done", "handoff_text": "Patch src/a.py", "next_action": "Patch it"}
    assert ok(server.post(f"{task}/pause", handoff))["handoff"]["summary"] == "Half done"
    resumed = ok(server.post(f"{task}/resume", {}))
    assert resumed["recovered"]["verdict"] == "candidate"
    assert server.post(f"{task}/resume", {}).code == "handoff_claimed"
    claim = {"claim_id": resumed["claim"]["id"]}
    ok(server.post(f"{task}/events", {"name": "seen", "body": {"n": 1}}))
    seen = ok(server.get(f"{task}/inspect?claim_id={claim['claim_id']}"))
    assert (seen["task"], seen["state"], seen["handoff"]["summary"]) == ("repair/export 1", "resumed", "Half done")
    done = ok(server.post(f"{task}/complete", {**claim, "run_checks": False, "override": "it is done"}))
    assert done["settlement"]["outcome"] == "completed"
    events = ok(server.get(f"{task}/events"))["items"]
    assert [event["kind"] for event in events] == ["opened", "paused", "resumed", "event", "completed"]
    assert ok(server.get(task))["state"] == "completed"


def test_tasks_and_sessions_are_listed_in_pages(server: Served) -> None:
    for number in range(3):
        ok(server.post(f"/v1/tasks/listed-{number}/open", {"scope": "lists"}))
        ok(server.post("/v1/sessions", {"session_id": f"s{number}", "scope": "lists"}))
    for noun, name in (("tasks", "task"), ("sessions", "id")):
        first = ok(server.get(f"/v1/{noun}?scope=lists&limit=2"))
        rest = ok(server.get(f"/v1/{noun}?scope=lists&limit=2&cursor={first['next']}"))
        found = [one[name] for one in first["items"] + rest["items"]]
        assert (len(set(found)), rest["next"]) == (3, None)


def test_a_session_takes_messages_a_memo_and_gives_a_window(server: Served) -> None:
    session = "/v1/sessions/talk"
    first = ok(server.post(f"{session}/messages", {"role": "user", "content": "Where is my order?"}))
    assert first["seq"] == 1
    many = {"messages": [{"role": "assistant", "content": {"order": 17}}, {"role": "user", "content": "Thanks"}]}
    assert [one["seq"] for one in ok(server.post(f"{session}/messages/many", many))["items"]] == [2, 3]
    page = ok(server.get(f"{session}/messages?limit=2"))
    rest = ok(server.get(f"{session}/messages?limit=2&cursor={page['next']}"))
    assert [one["seq"] for one in page["items"] + rest["items"]] == [1, 2, 3]
    assert [one["seq"] for one in ok(server.get(f"{session}/messages?last=1"))["items"]] == [3]
    assert ok(server.get(f"{session}/memo")) is None
    memo = server.ask("PUT", f"{session}/memo", {"text": "Asks for order 17.", "upto": 2})
    assert ok(memo)["version"] == 1
    window = ok(server.get(f"{session}/window?tokens=60"))
    assert (window["memo"]["text"], window["covered"]) == ("Asks for order 17.", 2)
    assert ok(server.get(session))["messages"] == 3
    assert server.get("/v1/sessions/none/messages").code == "session_not_found"
