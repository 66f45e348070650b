"""Who is let in: keys, roles, tenants, and places that requests come from."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.clock import ManualClock
from outlast.doors.cli.group import cli
from outlast.doors.http.identity import Doorkeeper
from outlast.doors.http.listening import is_loopback, listen, refuse_open_door
from outlast.errors import AddressTaken, Forbidden, KeyNotFound, KeysNeeded, NameInvalid, Unauthenticated
from outlast.home.key import ROLES, allows
from outlast.home.keys import Keys

from .server import Served, served
from .test_http_handoffs import STORE

RECOVER = {"scope": "repair-flow", "anchor": "task:export-repair"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


def key(server: Served, *roles: str, actor: str = "ann", tenant: str = "default", expires: str | None = None) -> str:
    return server.keys().create(actor, tenant=tenant, roles=roles, expires=expires).text


def test_a_key_acts_for_its_actor_and_tenant_whatever_the_body_says(server: Served) -> None:
    ann = key(server, "write", tenant="acme")
    said = STORE | {"tenant_id": "default", "actor": "somebody-else"}
    stored = server.post(
        "/v1/handoff/store", said, key=ann, headers={"outlast-tenant": "default", "outlast-actor": "x"}
    )
    assert stored.json["actor"] == "ann"
    with server.opened(tenant="acme") as acme:
        assert acme.handoff.get(stored.json["id"], scope="repair-flow").actor == "ann"


def test_a_foreign_tenants_record_is_not_found(server: Served) -> None:
    mine = server.post("/v1/handoff/store", STORE | {"anchor": "task:mine"}, key=key(server, "write", tenant="one"))
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


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.example"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "file://"},
        {"origin": "http://127.0.0.1.evil.example"},
    ],
)
def test_pages_of_other_places_are_not_let_in(server: Served, headers: dict[str, str]) -> None:
    reply = server.get("/v1/runs", headers=headers)
    assert (reply.status, reply.code) == (403, "forbidden")


@pytest.mark.parametrize("headers", [{"host": "localhost:9"}, {"host": "[::1]:9"}, {"origin": "http://localhost:3000"}])
def test_this_machine_is_let_in_by_each_of_its_names(server: Served, headers: dict[str, str]) -> None:
    assert server.get("/v1/runs", headers=headers).status == 200


def test_another_name_can_be_allowed(tmp_path: Path) -> None:
    door = Doorkeeper(Keys(tmp_path), loopback=True, tenant="default", hosts=("box.example",))
    door.check_place("box.example:80", "https://BOX.example")
    with pytest.raises(Forbidden):
        door.check_place("other.example", None)


def test_beyond_this_machine_every_request_needs_a_key_and_pages_only_their_own_place(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    door = Doorkeeper(keys, loopback=False, tenant="default")
    with pytest.raises(Unauthenticated):
        door.who(None)
    assert door.who(f"Bearer {keys.create('ann').text}").actor == "ann"
    door.check_place("box.example", "https://box.example")
    with pytest.raises(Forbidden):
        door.check_place("box.example", "https://evil.example")


def test_a_server_that_others_can_reach_refuses_to_start_without_a_usable_key(tmp_path: Path) -> None:
    refuse_open_door(tmp_path, "127.0.0.1")
    with pytest.raises(KeysNeeded):
        refuse_open_door(tmp_path, "0.0.0.0")
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


def test_without_a_key_a_tenant_can_be_named_only_if_it_exists(server: Served) -> None:
    with server.opened(tenant="there"):
        pass
    stored = server.post("/v1/handoff/store", STORE | {"tenant_id": "there", "actor": "bob"})
    assert (stored.status, stored.json["actor"]) == (200, "bob")
    assert server.post("/v1/handoff/store", STORE | {"tenant_id": "nowhere"}).code == "tenant_not_found"
    assert server.get("/v1/runs", headers={"outlast-tenant": "../.."}).code == "name_invalid"
    assert not (server.home / "nowhere").exists()


def test_the_command_refuses_an_open_door_and_says_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["serve", "--host", "0.0.0.0", "--port", "0", "--home", str(tmp_path / "h")])
    assert isinstance(result.exception, KeysNeeded)
    assert "outlast keys create" in str(result.exception)
    assert not (tmp_path / "h").exists()
