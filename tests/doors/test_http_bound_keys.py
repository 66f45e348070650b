"""A key that is bound to scopes sees and changes nothing of others: for it they are not there."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.doors.http.app import CALLS
from outlast.errors import ArtifactNotFound, Forbidden, NameInvalid, RecordNotFound

from .http_world import FLOWS, LOOKS, MARK, WRITES, World, told_by, world
from .server import Reply, Served, served
from .test_http_mcp import ask, call

TENANT = "grapefruit"
OF_ALL = {"home_facts", "queue_list", "worker_list", "limit_list"}  # these count the whole tenant
MAKES = {"task_open", "task_record", "session_append", "session_append_many"}  # what is not there is made: in his own
SAYS_NOTHING = {"handoff_lint", "handoff_put_blob"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=FLOWS, poll_seconds=0.02, loopback=False) as found:
        yield found


@pytest.fixture(scope="module")
def ours(server: Served) -> World:
    return world(server, TENANT)


def key(server: Served, *scopes: str, tenant: str = TENANT) -> str:
    return server.keys().create("bob", tenant=tenant, roles=["admin"], scopes=scopes).text


def seen(ours: World, given: str | None = None) -> dict[str, Reply]:
    return {call.name: ours.ask(call, given or ours.owner) for call in LOOKS}


def is_empty(name: str, reply: Reply) -> bool:
    if name in SAYS_NOTHING or (name in OF_ALL and reply.code == "forbidden"):
        return True
    if name == "workspace_recall":
        return bool(reply.json["considered"] == 0)
    return reply.status == 404 or (reply.status == 200 and (reply.raw == b"null" or reply.json.get("items") == []))


def test_a_key_bound_to_another_scope_sees_and_changes_nothing_by_any_call(server: Served, ours: World) -> None:
    bob, before = key(server, "elsewhere"), seen(ours)
    empty = seen(ours, bob)
    assert {name: reply.raw for name, reply in empty.items() if not is_empty(name, reply)} == {}
    written = {call.name: ours.ask(call, bob) for call in WRITES}
    for name, reply in (empty | written | seen(ours, bob)).items():
        assert reply.status < 500, (name, reply.raw)
        assert MARK.encode() not in told_by(reply), name
    assert {call.name for call in WRITES if "_id}" in call.path and written[call.name].status < 300} <= MAKES
    after = seen(ours)
    changed = {name for name, reply in after.items() if reply.raw != before[name].raw}
    assert changed <= {
        "home_facts",
        "run_list",
        "run_due",
        "inbox_list",
        "home_events",
        "home_acts",
    }  # of the whole tenant: bob's own is there now
    assert all(MARK.encode() in told_by(after[name]) for name in changed & {"run_list"})


def test_naming_another_scope_is_forbidden_and_naming_ones_own_is_not(server: Served, ours: World) -> None:
    bob = key(server, "fresh", "default")
    assert ours.ask(_call("workspace_records"), bob).json["items"] == []  # in the first of his
    named = ours.ask(_call("workspace_records"), bob, headers={"outlast-scope": "default"})
    assert len(named.json["items"]) == 2
    alone = key(server, "elsewhere")
    for name in (
        "workspace_records",
        "workspace_list",
        "session_list",
        "task_list",
        "handoff_list",
        "workspace_recall",
        "run_list",
        "interrupt_list",
    ):
        refused = ours.ask(_call(name), alone, headers={"outlast-scope": "default"})
        assert (refused.status, refused.code) == (403, "forbidden"), name
    body = {"kind": "note", "text": "In there.", "scope": "default"}
    assert server.post("/v1/workspace/records", body, key=alone).code == "forbidden"
    many = {"records": [{"kind": "note", "text": "In there."}], "scope": "default"}
    assert server.post("/v1/workspace/records/many", many, key=alone).code == "forbidden"


def _call(name: str) -> Any:
    return next(call for call in CALLS if call.name == name)


def test_what_is_of_another_scope_is_missing_in_the_words_of_what_never_was(server: Served, ours: World) -> None:
    bob, refs = key(server, "elsewhere"), ours.ids
    lost = {"record": "record:zzzzzzzzzzzz", "checkpoint": "zzzzzzzzzzzz", "run_id": "zzzzzzzzzzzz"}
    for name, path in (
        ("record", "/v1/workspace/records/{}"),
        ("checkpoint", "/v1/workspace/checkpoints/{}"),
        ("run_id", "/v1/runs/{}"),
    ):
        theirs, nobodys = (server.get(path.format(ref), key=bob) for ref in (refs[name], lost[name]))
        assert (theirs.status, theirs.code) == (nobodys.status, nobodys.code)
        assert _words(theirs, refs[name]) == _words(nobodys, lost[name])
        assert server.get(path.format(refs[name][:-3]), key=bob).status == 404


def _words(reply: Reply, ref: str) -> str:
    """What it says, whatever was asked for and which request that was."""
    said = {name: value for name, value in reply.json.items() if name not in ("request_id", "instance")}
    return str(said).replace(ref, "REF").replace(ref.removeprefix("record:"), "REF")


@pytest.mark.parametrize("headers", [{}, {"range": "bytes=0-3"}, {"if-none-match": "*"}])
def test_content_of_another_scope_is_not_read_by_any_part_of_it(
    server: Served, ours: World, headers: dict[str, str]
) -> None:
    bob, ref = key(server, "elsewhere"), ours.ids["artifact"]
    path = f"/v1/workspace/artifacts/content?ref={ref}"
    assert server.ask("GET", path, key=bob, headers=headers).code == "artifact_not_found"
    assert server.ask("HEAD", path, key=bob, headers=headers).status == 404
    assert server.ask("GET", path, key=key(server), headers=headers).status in (200, 206)  # of the whole tenant


def test_links_and_reasons_show_nothing_of_another_scope(server: Served) -> None:
    owner = key(server, tenant="linked")
    bob = key(server, "his", tenant="linked")

    def record(scope: str, text: str, **more: Any) -> str:
        body = {"kind": "decision", "text": text, "scope": scope, **more}
        return str(server.post("/v1/workspace/records", body, key=owner).json["ref"])

    secret = record("hers", f"A {MARK} decided.")
    mine = record("his", "We patch it.")
    also = record("his", "It is slow.")
    for source in (secret, also):
        link = {"source": source, "relation": "supports", "target": mine}
        assert server.post("/v1/workspace/links", link | {"scope": "his"}, key=owner).status == 200
    links = server.get(f"/v1/workspace/links?ref={mine}", key=bob)
    assert [each["source"] for each in links.json["items"]] == [also]
    why = server.get(f"/v1/workspace/why?ref={mine}", key=bob)
    assert MARK.encode() not in told_by(why)
    assert secret.encode() not in told_by(why)
    assert MARK.encode() in told_by(server.get(f"/v1/workspace/why?ref={mine}", key=owner))
    for body in ({"refs": [secret]}, {"refs": [secret[:-2]]}):
        made = server.post("/v1/workspace/records", {"kind": "note", "text": "x", **body}, key=bob)
        assert made.code == "record_not_found"
    stolen = {"source": mine, "relation": "derived_from", "target": secret}
    assert server.post("/v1/workspace/links", stolen, key=bob).code == "record_not_found"
    assert server.post(f"/v1/workspace/records/{secret}/pin", {}, key=bob).code == "record_not_found"


def test_an_operation_id_of_another_scope_is_free_and_says_nothing_of_it(server: Served) -> None:
    hers, his = (key(server, scope, tenant="operations") for scope in ("hers", "his"))
    note = {"kind": "note", "text": f"The {MARK}.", "operation_id": "deploy-1"}
    start = {"flow": "doubling", "inputs": {"number": 2}, "operation_id": "nightly"}
    made = [server.post("/v1/workspace/records", note, key=one).json for one in (hers, his)]
    runs = [server.post("/v1/runs?wait=30", start, key=one).json for one in (hers, his)]
    assert [each["scope"] for each in made] == ["hers", "his"]
    assert [each["status"] for each in runs] == ["succeeded", "succeeded"]
    assert runs[0]["run_id"] != runs[1]["run_id"]
    again = server.post("/v1/workspace/records", note, key=his).json
    assert (again["replayed"], again["ref"]) == (True, made[1]["ref"])
    assert server.post("/v1/runs?wait=30", start, key=his).json["run_id"] == runs[1]["run_id"]
    assert server.post("/v1/workspace/records", note | {"text": "Other."}, key=his).code == "operation_conflict"


def test_content_of_another_scope_is_not_bound_by_who_only_knows_its_digest(server: Served) -> None:
    hers, his = (key(server, scope, tenant="contents") for scope in ("hers", "his"))
    content = f"PASSWORD={MARK}".encode()
    digest = hashlib.sha256(content).hexdigest()
    path, octets = f"/v1/handoff/blobs/{digest}", {"content-type": "application/octet-stream"}
    bound = {"mode": "file", "digest": digest, "kept": digest, "size": len(content)}
    body = {
        **{"anchor": "task:x", "summary": "Paused", "handoff_text": "Go on in x.py", "target_files": ["x.py"]},
        "binding": {"root": "/r", "host": "h", "files": {"x.py": bound}},
    }
    assert server.ask("PUT", path, raw=content, key=hers, headers=octets).status == 200
    theirs = server.post("/v1/handoff/store", body, key=his)
    assert (theirs.code, server.get(path, key=his).code) == ("handoff_invalid", "blob_not_found")
    assert server.post("/v1/handoff/store", body, key=hers).status == 200
    assert server.post("/v1/handoff/store", body, key=his).raw == theirs.raw
    assert server.ask("PUT", path, raw=content, key=his, headers=octets).status == 200  # who has it himself may
    assert server.post("/v1/handoff/store", body, key=his).status == 200
    assert server.get(path, key=his).raw == content


def test_a_run_of_a_bound_key_is_in_its_scope_and_goes_on(server: Served) -> None:
    bob = key(server, "his", tenant="running")
    made = server.post("/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": 2}}, key=bob)
    assert (made.json["status"], made.json["result"]) == ("succeeded", 4)
    assert server.get(f"/v1/runs/{made.json['run_id']}", key=bob).json["scope"] == "his"
    assert len(server.get("/v1/runs", key=bob).json["items"]) == 1
    assert server.get("/v1/runs", key=key(server, "hers", tenant="running")).json["items"] == []


def test_a_list_over_scopes_is_full_for_who_sees_a_few_of_it(server: Served) -> None:
    owner, bob = key(server, tenant="pages"), key(server, "his", tenant="pages")
    for number in range(6):
        scope = {"outlast-scope": "his" if number in (0, 5) else "hers"}
        started = server.ask(
            "POST", "/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": number}}, key=owner, headers=scope
        )
        assert started.status == 200
    first = server.get("/v1/runs?limit=1", key=bob).json
    then = server.get(f"/v1/runs?limit=1&cursor={first['next']}", key=bob).json
    assert [run["scope"] for run in (*first["items"], *then["items"])] == ["his", "his"]
    assert then["next"] is None


def test_a_client_with_a_bound_key_works_in_its_scope_by_itself(server: Served) -> None:
    url, bob, owner = (
        f"http://127.0.0.1:{server.port}",
        key(server, "his", tenant="clients"),
        key(server, tenant="clients"),
    )
    with (
        Outlast(url, key=bob, tenant="clients") as his,
        Outlast(url, key=owner, tenant="clients", scope="hers") as hers,
    ):
        made = hers.workspace.record("note", "Hers alone.")
        saved = hers.workspace.save("plan.md", "Hers alone.")
        with pytest.raises(RecordNotFound):
            his.workspace.get_record(made.ref)
        with pytest.raises(ArtifactNotFound):
            his.workspace.get(saved.ref)
        with pytest.raises(Forbidden):
            his.workspace.records(scope="hers")
        mine = his.workspace.record("note", "His own.")
        assert (mine.scope, hers.workspace.get_record(mine.ref).text) == ("his", "His own.")


def test_over_mcp_another_scope_is_not_there_either(server: Served) -> None:
    owner, bob = key(server, tenant="tools"), key(server, "his", tenant="tools")
    saved = call(server, "workspace_save", {"name": "plan.md", "content": f"The {MARK} plan."}, key=owner)
    ref, uri = saved["structuredContent"]["ref"], saved["structuredContent"]["uri"]
    given = {"anchor": "task:own", "summary": MARK, "handoff_text": "Go on"}
    call(server, "handoff_store", given, key=owner)
    assert call(server, "handoff_recover", {"anchor": "task:own"}, key=bob)["structuredContent"]["code"] == (
        "handoff_not_found"
    )
    assert call(server, "workspace_recall", {"goal": MARK}, key=bob)["structuredContent"]["considered"] == 0
    named = call(server, "workspace_recall", {"goal": MARK, "scope": "default"}, key=bob)
    assert named["structuredContent"]["code"] == "forbidden"
    pinned = {"name": "one", "task": "t", "refs": [ref]}
    assert call(server, "checkpoint_record", pinned, key=bob)["structuredContent"]["code"] == "artifact_not_found"
    assert MARK.encode() in ask(server, "resources/read", {"uri": uri}, key=owner).raw
    refused = ask(server, "resources/read", {"uri": uri}, key=bob)
    assert MARK.encode() not in refused.raw
    assert b"artifact_not_found" in refused.raw


def test_what_a_key_is_bound_to_is_shown_and_wrong_names_are_refused(server: Served) -> None:
    made = server.keys().create("bob", tenant="shown", scopes=["a", "b", "a"])
    assert made.key.scopes == ("a", "b")
    assert next(each for each in server.keys().list() if each.id == made.key.id).scopes == ("a", "b")
    with pytest.raises(NameInvalid):
        server.keys().create("bob", scopes=[""])
