"""`outlast serve`: the same calls over HTTP.

`outlast keys`: who may ask a server for what.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import INTERRUPTED
from outlast.doors.cli.group import Commands, Sections
from outlast.doors.cli.render import at, emit, note, say, table
from outlast.errors import ExtraMissing, NameInvalid

if TYPE_CHECKING:
    from pathlib import Path

    from outlast.doors.http.state import ServerSettings
    from outlast.home.keys import ApiKey, Keys


SECTIONS: Sections = {
    "Keys": {
        "create": ("serve:create", "A new key; its text is shown once."),
        "list": ("serve:list_", "Every key, without its secret."),
        "revoke": ("serve:revoke", "End a key, at once and for good."),
    },
}


@click.group("keys", cls=Commands, sections=SECTIONS)
def keys() -> None:
    """API keys of this home: who may ask a server (`outlast serve`) for what."""


@command("create")
@click.option("--actor", required=True, metavar="WHO", help="In whose name the key acts.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["read", "write", "approve", "admin"]),
    help="What it may do; repeat it for more [read and write].",
)
@click.option("--only", "scopes", multiple=True, metavar="SCOPE", help="Bind it to a scope; repeat it for more [all].")
@click.option("--expires", metavar="TIME", help="How long it is good for, such as 12h or 90d [for ever].")
def create(door: Door, actor: str, roles: tuple[str, ...], scopes: tuple[str, ...], expires: str | None) -> int:
    """Make a key for one tenant (--tenant) and actor. Only now its text is shown: keep it safe.

    read looks; write stores, starts and resumes; approve answers what waits for a person, and gets past other gates;
    admin may do all of it. A key that is bound to scopes (--only) sees and changes nothing of others; it is in the
    first of them unless a request names another. Other keys read the whole tenant.
    """
    opened = _keys(door)
    tenant, may = door.tenant or "default", roles or ("read", "write")
    made = opened.create(actor, tenant=tenant, roles=may, expires=expires, scopes=scopes)
    opened.close()
    if door.json:
        emit(_shown(made.key) | {"key": made.text})
    else:
        say(made.text)
        bound = f", only in {', '.join(scopes)}" if scopes else ""
        note(f"key {made.key.id} for {made.key.actor} ({', '.join(made.key.roles)}{bound}); it is not shown again")
    return 0


@command("list")
def list_(door: Door) -> int:
    """Every key of the home, also those that are over; secrets are kept nowhere."""
    opened = _keys(door)
    found, damaged = [key for key in opened.list() if door.tenant in (None, key.tenant)], opened.damaged()
    opened.close()
    for key_id in damaged:
        note(f"key {key_id} is damaged, and nobody can use it; see `outlast verify`")
    if door.json:
        emit({"keys": [_shown(key) for key in found], "damaged": list(damaged)})
    elif found:
        table(
            ("KEY", "TENANT", "ACTOR", "ROLES", "ONLY IN", "MADE", "LAST USED", "UNTIL"), [_row(key) for key in found]
        )
    else:
        say("no keys; make one: outlast keys create --actor WHO")
    return 0


@command("revoke")
@click.argument("key_id", metavar="KEY")
def revoke(door: Door, key_id: str) -> int:
    """End a key by its id: a server refuses it from its next request on."""
    opened = _keys(door)
    done = opened.revoke(key_id)
    opened.close()
    if door.json:
        emit(_shown(done))
    else:
        say(f"key {done.id} of {done.actor} is revoked")
    return 0


def _keys(door: Door) -> Keys:
    from outlast.home.keys import Keys
    from outlast.home.place import find_home

    return Keys(find_home(door.home, tell=note))


def _shown(key: ApiKey) -> dict[str, Any]:
    from outlast.values.codec import jsonable

    shown: dict[str, Any] = jsonable(key)
    return shown


def _row(key: ApiKey) -> tuple[str, ...]:
    used = at(key.last_used_at) if key.last_used_at else "never"
    until = f"revoked {at(key.revoked_at)}" if key.revoked_at else at(key.expires_at) if key.expires_at else "for ever"
    only = ", ".join(key.scopes)
    return key.id, key.tenant, key.actor, ", ".join(key.roles), only, at(key.created_at), used, until


PORT = 8787
LIMITS = {"requests": "key_requests", "runs": "key_runs", "bytes": "key_bytes"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@command("serve")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen [127.0.0.1: this machine only].")
@click.option("--port", default=PORT, type=click.IntRange(0, 65535), help=f"On which port; 0: a free one [{PORT}].")
@click.option("--flows", multiple=True, metavar="MODULE", help="A module, file.py or flow.yaml whose flows may be run.")
@click.option(
    "--wake",
    default=30.0,
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="How often to go on with runs that can by themselves; 0: never [30].",
)
@click.option("--require-key", is_flag=True, help="Let nobody in without a key, also on this machine.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help="Of one key: requests=32, runs=64, bytes=10G.")
@click.option("--public-url", default="", metavar="URL", help="Its own origin, as others see it through a proxy.")
@click.option("--allow-host", "hosts", multiple=True, metavar="HOST", help="Another name in the Host of requests.")
@click.option("--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="Whose web pages may call it (CORS).")
def serve(door: Door, host: str, port: int, limits: tuple[str, ...], **given: Any) -> int:
    """Serve this home over HTTP until stopped by Ctrl-C or SIGTERM.

    On this machine no key is needed while the home has none; any other address needs keys (`outlast keys create`). The
    log goes to standard error, a JSON object a line. Asked to stop, open streams are ended and runs under way are
    interrupted. When it starts, and then every so often, it goes on with runs of its flows that are crashed, answered,
    due, or were stopped by a shutdown.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        if find_spec(module) is None:
            raise ExtraMissing("outlast serve", "server")
    return _serve(door, host, port, given, limits_of(limits))


def _serve(door: Door, host: str, port: int, given: dict[str, Any], limits: dict[str, Any]) -> int:
    import signal

    from outlast.doors.http.listening import address_of, listen, refuse_open_door
    from outlast.home.place import check_tenant, find_home

    home, tenant = find_home(door.home, tell=note), check_tenant(door.tenant or "default")
    refuse_open_door(home, host, require_key=given["require_key"])
    opened = listen(host, port)
    address = address_of(opened)

    from outlast.doors.http.serve import Server  # late: what cannot be served is refused at once

    settings = replace(_settings(home, tenant, host, given), **limits)
    ended_by = Server(settings, opened, lambda: _say_ready(door, address, home)).serve_all()
    return INTERRUPTED if ended_by == signal.SIGINT else 0


def _settings(home: Path, tenant: str, host: str, given: dict[str, Any]) -> ServerSettings:
    """How the server is set up. Raises NameInvalid for a name or an origin that is none."""
    from outlast.doors.http.listening import is_loopback
    from outlast.doors.http.state import ServerSettings

    return ServerSettings(
        home=home,
        tenant=tenant,
        loopback=is_loopback(host),
        require_key=given["require_key"],
        flows=given["flows"],
        wake_seconds=given["wake"],
        public_url=given["public_url"],
        allow_hosts=given["hosts"],
        allow_origins=given["origins"],
    )


def limits_of(given: tuple[str, ...]) -> dict[str, Any]:
    """What one key may take, by the settings of the server. Raises NameInvalid."""
    found = {}
    for each in given:
        name, _, count = each.partition("=")
        number = count[:-1] if count[-1:] in UNITS else count
        if name not in LIMITS or not (number.isascii() and number.isdigit() and len(number) < 16):
            raise NameInvalid(
                "limit", each, f"use {', '.join(f'{name}=N' for name in LIMITS)}; of bytes also 10G, 500M"
            )
        found[LIMITS[name]] = int(number) * UNITS.get(count[-1:], 1)
    return found


def _say_ready(door: Door, address: str, home: Path) -> None:
    import sys

    if door.json:
        emit({"address": address, "home": str(home)})
    else:
        say(f"serving {home} at {address}; stop with Ctrl-C")
    sys.stdout.flush()
