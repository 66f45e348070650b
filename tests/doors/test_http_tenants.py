"""No key opens more than its own: every call of the table, asked with keys of others, of fewer roles, and with none."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.clock import ManualClock
from outlast.doors.http.app import CALLS
from outlast.home.keys import ROLES, Keys, allows
from outlast.operations.operation import Operation

from .http_world import ACTOR, FLOWS, LOOKS, MARK, WRITES, World, told_by, world
from .server import Reply, Served, served

TENANT, OTHER = "grapefruit", "bobs"
WITHOUT_WORDS = {"handoff_lint", "run_logs", "run_outputs", "run_due"}  # these count, or look at nothing
WITHOUT_WORDS |= {"home_facts", "home_verify", "queue_list", "worker_list"}  # nothing is queued, and nobody works there
OF_NOTHING = {  # what else tells of an empty tenant, and what it says then
    "workspace_recall": ("considered", 0),
    "handoff_lint": ("score", 0),
    "home_facts": ("runs", {}),
}
OPEN = ("/healthz", "/readyz", "/metrics", "/openapi.json")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=FLOWS, poll_seconds=0.02, loopback=False) as found:
        yield found


@pytest.fixture(scope="module")
def ours(server: Served) -> World:
    return world(server, TENANT)


def key(server: Served, *roles: str, tenant: str = TENANT, actor: str = "bob", expires: str | None = None) -> str:
    return server.keys().create(actor, tenant=tenant, roles=roles, expires=expires).text


def seen(ours: World) -> dict[str, Reply]:
    return {call.name: ours.ask(call, ours.owner) for call in LOOKS}


def is_empty(name: str, reply: Reply) -> bool:
    """Whether it tells of nothing: what is not found, an empty list, null, a count of 0."""
    if name in OF_NOTHING:
        field, value = OF_NOTHING[name]
        return bool(reply.json[field] == value)
    return reply.status == 404 or (reply.status == 200 and (reply.raw == b"null" or reply.json.get("items") == []))


def is_silent(reply: Reply) -> bool:
    """Whether neither the tenant nor anything in it is named."""
    return not any(word.encode() in told_by(reply) for word in (MARK, TENANT))


def test_the_owner_sees_his_own_by_every_call_that_looks(ours: World) -> None:
    """Otherwise the tests below would look for a word that nobody could have told."""
    answers = seen(ours)
    assert {name: reply.raw for name, reply in answers.items() if reply.status != 200} == {}
    assert {name for name, reply in answers.items() if MARK.encode() not in told_by(reply)} == WITHOUT_WORDS


def test_a_key_of_another_tenant_sees_and_changes_nothing(server: Served, ours: World) -> None:
    """Asked by the first one's ids and names."""
    bob, before = key(server, "admin", tenant=OTHER), seen(ours)
    empty = {call.name: ours.ask(call, bob) for call in LOOKS}
    assert {name: reply.raw for name, reply in empty.items() if not is_empty(name, reply)} == {}
    written = {call.name: ours.ask(call, bob) for call in WRITES}
    filled = {f"{call.name} again": ours.ask(call, bob) for call in LOOKS}
    for name, reply in (empty | written | filled).items():
        assert reply.status < 500, (name, reply.raw)
        assert is_silent(reply), name
    assert {call.name for call in WRITES if "_id}" in call.path and written[call.name].status < 300} <= MAKES
    assert_same(before, seen(ours))


HEADERS = {"tenant_id": "outlast-tenant", "actor": "outlast-actor"}


def naming(ours: World, call: Operation, key: str, name: str, value: str) -> list[Reply]:
    """What a call answers that says who asks: by the header, and by its own field in the body or the query."""
    by_header = ours.ask(call, key, headers={HEADERS[name]: value})
    if call.body is not None and name in call.body.__struct_fields__:
        return [by_header, ours.ask(call, key, **{name: value})]
    assert name in call.query.__struct_fields__, call.name
    return [by_header, ours.ask(call, key, query={name: value})]


def test_a_key_that_names_another_actor_is_refused_by_every_call(server: Served, ours: World) -> None:
    bob, before = key(server, "admin", tenant=OTHER), seen(ours)
    for call in CALLS:
        for reply in naming(ours, call, bob, "actor", ACTOR):
            assert (reply.status, reply.code) == (403, "forbidden"), call.name
            assert is_silent(reply), call.name
    assert_same(before, seen(ours))


def test_a_key_that_names_another_tenant_is_told_by_every_call_that_there_is_none(server: Served, ours: World) -> None:
    """In the same words as of a tenant that nobody has."""
    bob, before, nobodys = key(server, "admin", tenant=OTHER), seen(ours), "nobodys"
    for call in CALLS:
        told = naming(ours, call, bob, "tenant_id", TENANT)
        for reply, of_none in zip(told, naming(ours, call, bob, "tenant_id", nobodys), strict=True):
            assert (reply.status, reply.code) == (404, "tenant_not_found"), (call.name, reply.raw)
            assert reply.json == json.loads(of_none.raw.replace(nobodys.encode(), TENANT.encode())), call.name
            assert MARK.encode() not in told_by(reply), call.name
    assert not (server.home / nobodys).exists()
    assert_same(before, seen(ours))


MAKES = {"task_open", "task_record", "session_append", "session_append_many", "limit_set", "schedule_add"}  # his own


def assert_same(before: dict[str, Reply], after: dict[str, Reply]) -> None:
    assert {name: reply.raw for name, reply in after.items() if reply.raw != before[name].raw} == {}


def test_a_prefix_of_an_id_of_another_tenant_finds_nothing(server: Served, ours: World) -> None:
    bob = key(server, "admin", tenant="carols")
    for path in ("/v1/runs/{run_id}", "/v1/interrupts/{interrupt_id}", "/v1/handoffs/{handoff_id}"):
        name = path.partition("{")[2].rstrip("}")
        for length in (1, 4, len(ours.ids[name])):
            assert server.get(path.format(**{name: ours.ids[name][:length]}), key=bob).status == 404


# -- roles -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_a_key_does_what_its_role_allows_and_nothing_else(server: Served, role: Any) -> None:
    """In a tenant of its own, so that nothing is used up."""
    theirs = world(server, f"of-{role}")
    mine = key(server, role, tenant=theirs.tenant)
    for call in (*LOOKS, *WRITES):
        reply = theirs.ask(call, mine)
        needed = "read" if call in LOOKS else call.role_of(SimpleNamespace(**(theirs.body_of(call) or {})))
        assert (reply.status == 403) == (not allows((role,), needed)), (call.name, reply.raw)
        assert reply.status != 403 or reply.code == "forbidden"
        assert reply.status < 400 or call not in LOOKS, (call.name, reply.raw)


def test_who_may_not_write_changes_nothing(server: Served, ours: World) -> None:
    reader, before = key(server, "read"), seen(ours)
    for call in WRITES:
        assert ours.ask(call, reader).status == 403
    assert_same(before, seen(ours))


@pytest.mark.parametrize("change", [{"claim": True}, {"take": True}, {"accept": ["x"]}, {"run_checks": True}])
def test_what_makes_recovering_a_write_needs_the_role(server: Served, ours: World, change: dict[str, Any]) -> None:
    recover = next(call for call in CALLS if call.name == "handoff_recover")
    assert ours.ask(recover, key(server, "read"), **change).code == "forbidden"


def test_what_is_written_carries_the_keys_actor(server: Served) -> None:
    """Of an answer to a wait too."""
    theirs = world(server, "signed")
    cleo = key(server, "admin", tenant="signed", actor="cleo")
    named = {"actor": "cleo", "headers": {"outlast-tenant": "signed", "outlast-actor": "cleo"}}
    theirs.ask(next(call for call in LOOKS if call.name == "handoff_get"), cleo)  # who has not read it makes a rival
    signed = {call.name: theirs.ask(call, cleo, **named) for call in WRITES if call.name in SIGNED}
    assert {name: reply.status for name, reply in signed.items() if reply.status != 200} == {}
    for name, said in SIGNED.items():
        found: Any = signed[name].json
        for part in said.split("."):
            found = found[part]
        assert found == "cleo", name


SIGNED = {  # where an answer says who did it
    "handoff_store": "actor",
    "handoff_claim": "actor",
    "interrupt_answer": "answered_by",
    "signal_send": "actor",
    "workspace_save": "source.actor",
    "workspace_upload": "source.actor",
    "workspace_record": "source.actor",
    "workspace_link": "by.actor",
    "workspace_checkpoint": "actor",
    "task_open": "actor",
    "task_record": "actor",
    "session_append": "actor",
}


# -- no key, or one that is over ---------------------------------------------------------------------


def over(server: Served) -> dict[str, str | None]:
    """Keys that open nothing."""
    revoked = key(server, "admin")
    server.keys().revoke(revoked.split("_")[1])
    clock = ManualClock()
    expired = Keys(server.home, clock=clock).create("bob", tenant=TENANT, roles=["admin"], expires="1s").text
    return {"none": None, "revoked": revoked, "expired": expired, "cut": key(server, "admin")[:-1], "of nobody": "ol_x"}


def test_without_a_key_that_counts_every_call_is_refused(server: Served, ours: World) -> None:
    for kind, given in over(server).items():
        for call in CALLS:
            reply = ours.ask(call, given)
            assert (reply.status, reply.code) == (401, "unauthenticated"), (kind, call.name)
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert is_silent(reply)


def test_what_needs_no_key_tells_nothing_of_tenants(server: Served, ours: World) -> None:
    for path in OPEN:
        reply = server.get(path)
        assert reply.status == 200
        assert is_silent(reply), path
        assert ours.ids["run_id"].encode() not in told_by(reply)


# -- ids that are tricks -----------------------------------------------------------------------------

TRICKS = {
    "up": "..",
    "up and out": "../../other/outlast.db",
    "encoded twice": "%2e%2e%2f",
    "NUL": "a\0b",
    "long": "x" * 10_000,
    "emoji": "😀\u202e",
    "a line": "a\nb: c\r\n\r\n",
    "a statement": "' OR 1=1 --",
    "a pattern": "%",
    "nothing": " ",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_an_id_that_is_a_trick_finds_nothing(server: Served, ours: World, trick: str) -> None:
    bob = key(server, "admin", tenant="dans")
    for call in (call for call in CALLS if "{" in call.path and call.name not in MAKES):
        known = dict.fromkeys(ours.ids, TRICKS[trick])
        reply = asked(server, ours, call, known, bob)
        assert reply.status in (400, 404, 422, *NULL.get(call.name, ())), (call.name, reply.raw[:300])
        assert is_silent(reply)


NULL = {"session_memo": (200,)}  # null


def asked(server: Served, ours: World, call: Operation, known: dict[str, str], given: str) -> Reply:
    path = ours.path_of(call, known)
    if call.takes != "application/json":
        return server.ask(call.method, path, key=given, raw=b"x", headers={"content-type": call.takes})
    return server.ask(call.method, path, ours.body_of(call), key=given)
