"""`outlast keys`: who may ask a server for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.group import Commands, Sections
from outlast.doors.cli.render import at, emit, note, say, table

if TYPE_CHECKING:
    from outlast.home.key import ApiKey
    from outlast.home.keys import Keys

SECTIONS: Sections = {
    "Keys": {
        "create": ("keys:create", "A new key; its text is shown once."),
        "list": ("keys:list_", "Every key, without its secret."),
        "revoke": ("keys:revoke", "End a key, at once and for good."),
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
@click.option("--expires", metavar="TIME", help="How long it is good for, such as 12h or 90d [for ever].")
def create(door: Door, actor: str, roles: tuple[str, ...], expires: str | None) -> int:
    """Make a key for one tenant (--tenant) and actor. Only now its text is shown: keep it safe.

    read looks; write stores, starts and resumes; approve answers what waits for a person, and gets past other gates;
    admin may do all of it.
    """
    opened = _keys(door)
    made = opened.create(actor, tenant=door.tenant or "default", roles=roles or ("read", "write"), expires=expires)
    opened.close()
    if door.json:
        emit(_shown(made.key) | {"key": made.text})
    else:
        say(made.text)
        note(f"key {made.key.id} for {made.key.actor} ({', '.join(made.key.roles)}); it is not shown again")
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
        table(("KEY", "TENANT", "ACTOR", "ROLES", "MADE", "LAST USED", "UNTIL"), [_row(key) for key in found])
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
    return key.id, key.tenant, key.actor, ", ".join(key.roles), at(key.created_at), used, until
