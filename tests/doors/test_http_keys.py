"""Who is let in: keys, roles, tenants, and places that requests come from."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.clock import ManualClock
from outlast.doors.cli.group import cli
from outlast.doors.http.identity import Doorkeeper, is_loopback, listen, refuse_open_door
from outlast.errors import AddressTaken, KeyNotFound, KeysNeeded, NameInvalid, Unauthenticated
from outlast.home.keys import ROLES, Keys, allows

from .server import Served, served
from .test_http_handoffs import STORE

RECOVER = {"scope": "repair-flow", "anchor": "task:export-repair"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", keyed=True) as found:
        yield found


@pytest.fixture
def keyless(tmp_path: Path) -> Iterator[Served]:
    """A server of a home that has no key."""
    with served(tmp_path / "keyless") as found:
        yield found


def key(server: Served, *roles: str, actor: str = "ann", tenant: str = "default", expires: str | None = None) -> str:
    return server.keys().create(actor, tenant=tenant, roles=roles, expires=expires).text


def test_a_key_acts_for_its_actor_and_tenant_and_naming_others_is_refused(server: Served) -> None:
    ann, said = key(server, "write", tenant="acme"), STORE | {"tenant_id": "acme"}
    stored = server.post("/v1/handoff/store", said | {"actor": "ann"}, key=ann, headers={"outlast-actor": "ann"})
    assert stored.json["actor"] == "ann"
    actor, tenant = (403, "forbidden"), (404, "tenant_not_found")
    for change, headers, told in (
        ({"actor": "somebody-else"}, {}, actor),
        ({"tenant_id": "default"}, {}, tenant),
        ({}, {"outlast-actor": "x"}, actor),
        ({"tenant_id": None}, {"outlast-tenant": "default"}, tenant),
    ):
        refused = server.post("/v1/handoff/store", said | change | {"anchor": "task:y"}, key=ann, headers=headers)
        assert (refused.status, refused.code) == told, (change, headers)
    with server.opened(tenant="acme") as acme:
        assert [(each.anchor, each.actor) for each in acme.handoff.list(scope="repair-flow")] == [
            ("task:export-repair", "ann")
        ]


def test_a_foreign_tenants_record_is_not_found(server: Served) -> None:
    said = STORE | {"anchor": "task:mine", "tenant_id": "one"}
    mine = server.post("/v1/handoff/store", said, key=key(server, "write", tenant="one"))
    other = key(server, "admin", tenant="two")
    assert server.get(f"/v1/handoffs/{mine.json['id']}?scope=repair-flow", key=other).code == "handoff_not_found"
    assert server.get("/v1/handoffs?scope=repair-flow", key=other).json["items"] == []
    assert server.post("/v1/handoff/recover", RECOVER | {"anchor": "task:mine"}, key=other).status == 404


def test_a_reader_may_recover_and_not_store_or_claim(server: Served) -> None:
    server.post("/v1/handoff/store", STORE)
    reader = key(server, "read")
    assert server.post("/v1/handoff/recover", RECOVER, key=reader).status == 200
    for path, body in (
        ("store", STORE),
        ("recover", RECOVER | {"claim": True}),
        ("recover", RECOVER | {"claim_id": "x"}),
        ("claim", RECOVER),
    ):
        assert server.post(f"/v1/handoff/{path}", body, key=reader).code == "forbidden"


def test_roles_allow_what_they_say() -> None:
    assert [role for role in ROLES if allows(("read",), role)] == ["read"]
    assert [role for role in ROLES if allows(("write",), role)] == ["read", "write"]
    assert [role for role in ROLES if allows(("approve",), role)] == ["read", "approve"]
    assert [role for role in ROLES if allows(("admin",), role)] == list(ROLES)
    assert not allows((), "read")


@pytest.mark.parametrize(
    "given", ["Bearer ol_nothing", "Bearer ", "Basic YTpi", "ol_aaaaaaaaaaaa_bbb", "Bearer ol_aaaaaaaaaaaa_" + "b" * 43]
)
def test_a_key_that_is_given_is_checked_also_on_loopback(server: Served, given: str) -> None:
    reply = server.get("/v1/runs", headers={"authorization": given})
    assert (reply.status, reply.code) == (401, "unauthenticated")
    assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_secret_of_another_length_or_case_does_not_open(server: Served) -> None:
    good = key(server, "read")
    assert server.get("/v1/runs", key=good).status == 200
    for bad in (good[:-1], good + "a", good.swapcase(), good[:-1] + ("a" if good[-1] != "a" else "b")):
        assert server.get("/v1/runs", key=bad).status == 401


def test_a_revoked_key_is_refused_from_the_next_request_on(server: Served) -> None:
    good = key(server, "read")
    assert server.get("/v1/runs", key=good).status == 200
    server.keys().revoke(good.split("_")[1])
    reply = server.get("/v1/runs", key=good)
    assert (reply.status, "revoked" in reply.json["detail"]) == (401, True)


def test_an_expired_key_is_refused(tmp_path: Path) -> None:
    clock = ManualClock()
    keys = Keys(tmp_path, clock=clock)
    made = keys.create("ann", expires="1h")
    assert keys.check(made.text).actor == "ann"
    clock.advance(3600)
    with pytest.raises(Unauthenticated, match="expired"):
        keys.check(made.text)
    assert not keys.is_any_usable()


def test_the_secret_is_nowhere_in_the_home(server: Served) -> None:
    made = key(server, "read")
    server.get("/v1/runs", key=made)
    secret = made.split("_", 2)[2].encode()
    files = [file for file in server.home.rglob("*") if file.is_file()]
    assert server.home / "keys.db" in files
    assert not any(secret in file.read_bytes() for file in files)
    assert secret not in b"".join(server.lines)
    assert (server.home / "keys.db").stat().st_mode & 0o777 == 0o600
    assert (server.home / ".gitignore").read_text() == "*\n"


def test_that_a_key_was_used_is_noted_once_a_minute(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 11, 16, 6, 0, tzinfo=UTC))
    keys = Keys(tmp_path, clock=clock)
    text = keys.create("ann").text
    keys.used(keys.check(text))
    clock.advance(59)
    keys.used(keys.check(text))
    assert keys.list()[0].last_used_at == datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
    clock.advance(1)
    keys.used(keys.check(text))
    assert keys.list()[0].last_used_at == datetime(2026, 11, 16, 6, 1, tzinfo=UTC)


def test_mistakes_with_keys_are_named(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    for wrong in ({"roles": ["owner"]}, {"roles": []}, {"expires": "soon"}, {"tenant": "../x"}, {"actor": ""}):
        with pytest.raises(NameInvalid):
            keys.create(**({"actor": "ann"} | wrong))  # type: ignore[arg-type]
    assert keys.list() == []
    with pytest.raises(KeyNotFound):
        keys.revoke("nothing")


# Places


def test_beyond_this_machine_every_request_needs_a_key(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    door = Doorkeeper(keys, loopback=False, tenant="default")
    with pytest.raises(Unauthenticated):
        door.who(None)
    assert door.who(f"Bearer {keys.create('ann').text}").actor == "ann"


@pytest.mark.parametrize("tenant", ["default", "another"])
def test_once_a_home_has_a_key_everybody_needs_one(keyless: Served, tenant: str) -> None:
    """Of whatever tenant; also when it was revoked: what was closed does not open again by itself."""
    assert keyless.get("/v1/runs").status == 200
    made = keyless.keys().create("ann", tenant=tenant, roles=["read"])
    for _ in range(2):
        for path, body in (("/v1/runs", None), ("/v1/handoff/store", STORE), ("/mcp", {})):
            reply = keyless.ask("GET" if body is None else "POST", path, body)
            assert (reply.status, reply.code) == (401, "unauthenticated")
            assert "outlast keys create" in reply.json["advice"]
        keyless.keys().revoke(made.key.id)
    assert keyless.get("/healthz").status == 200


def test_a_server_may_ask_for_keys_before_there_are_any(tmp_path: Path) -> None:
    with served(tmp_path / "home", require_key=True) as server:
        assert server.get("/v1/runs").code == "unauthenticated"
        assert server.get("/v1/runs", key=key(server, "read")).status == 200


FORWARDED = ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-anything", "X-Real-IP", "Via"]


@pytest.mark.parametrize("header", FORWARDED)
def test_what_came_through_a_proxy_needs_a_key(keyless: Served, header: str) -> None:
    """Whoever sends it: behind a proxy everybody seems to be on this machine."""
    for path, body in (("/v1/runs", None), ("/v1/handoff/store", STORE), ("/mcp", {})):
        reply = keyless.ask("GET" if body is None else "POST", path, body, headers={header: "for=203.0.113.7"})
        assert (reply.status, reply.code) == (401, "unauthenticated")
        assert header.lower() in reply.json["detail"]
    assert keyless.get("/v1/handoffs?scope=repair-flow").json["items"] == []
    good = key(keyless, "read")
    assert keyless.get("/v1/runs", key=good, headers={header: "for=203.0.113.7"}).status == 200


def test_a_server_that_others_can_reach_refuses_to_start_without_a_usable_key(tmp_path: Path) -> None:
    refuse_open_door(tmp_path, "127.0.0.1")
    with pytest.raises(KeysNeeded):
        refuse_open_door(tmp_path, "0.0.0.0")
    with pytest.raises(KeysNeeded, match="--require-key"):
        refuse_open_door(tmp_path, "127.0.0.1", require_key=True)
    made = Keys(tmp_path).create("ann")
    refuse_open_door(tmp_path, "0.0.0.0")
    Keys(tmp_path).revoke(made.key.id)
    with pytest.raises(KeysNeeded):
        refuse_open_door(tmp_path, "0.0.0.0")


def test_only_loopback_is_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "[::1]", "localhost", "127.8.8.8")] == [True] * 5
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.1", "box.example")] == [False] * 4


def test_a_taken_port_is_said() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(AddressTaken, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])


# Without a key, on this machine


def test_without_a_key_who_acts_is_recorded_as_unproven(keyless: Served) -> None:
    """No key's actor is ever called so: what somebody said of himself is no one's word later."""
    named = keyless.post("/v1/handoff/store", STORE | {"actor": "bob"})
    assert named.json["actor"] == "bob (unproven)"
    said = keyless.post("/v1/signals", {"name": "go", "task": "t"}, headers={"outlast-actor": "bob (unproven)"})
    assert said.json["actor"] == "bob (unproven)"
    assert keyless.post("/v1/signals", {"name": "go", "task": "t"}).json["actor"] == "local"
    assert keyless.get("/v1/runs", headers={"outlast-actor": "a\tb"}).code == "name_invalid"
    with pytest.raises(NameInvalid):
        keyless.keys().create("bob (unproven)")


def test_without_a_key_a_tenant_can_be_named_only_if_it_exists(keyless: Served) -> None:
    server = keyless
    with server.opened(tenant="there"):
        pass
    stored = server.post("/v1/handoff/store", STORE | {"tenant_id": "there", "actor": "bob"})
    assert (stored.status, stored.json["actor"]) == (200, "bob (unproven)")
    assert server.post("/v1/handoff/store", STORE | {"tenant_id": "nowhere"}).code == "tenant_not_found"
    assert server.get("/v1/runs", headers={"outlast-tenant": "../.."}).code == "name_invalid"
    assert not (server.home / "nowhere").exists()


def test_the_command_refuses_an_open_door_and_says_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["serve", "--host", "0.0.0.0", "--port", "0", "--home", str(tmp_path / "h")])
    assert isinstance(result.exception, KeysNeeded)
    assert "outlast keys create" in str(result.exception)
    assert not (tmp_path / "h").exists()
