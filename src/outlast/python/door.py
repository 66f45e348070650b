"""A home as a door opens it: found by where the door stands, and never made unasked.

And what a door may know of one that is open, and tell it: who acts, by which door he came, what he has stored and sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from outlast.errors import EmbeddedOnly, HomeNotFound
from outlast.home.caller import LOCAL as LOCAL
from outlast.home.caller import Door
from outlast.home.place import FoundHome as FoundHome
from outlast.home.place import check_name, check_tenant, look_up, refuse_lost
from outlast.home.place import without_password as without_password
from outlast.python import rooms
from outlast.python.outlast import Outlast
from outlast.python.shared import Shared, url_of
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.home.keys import ApiKey

Tell = Callable[[str], None]


class HomeNames(TypedDict):
    """By which a home is opened."""

    tenant: str
    scope: str
    actor: str | None


def open_for(
    door: Literal["cli", "mcp"],
    home: str | Path | FoundHome | None,
    *,
    tenant: str | None = None,
    scope: str | None = None,
    actor: str | None = None,
    make: bool = False,
    tell: Tell | None = None,
    adopt: bool = True,
    blobs: str | None = None,
) -> Outlast:
    """The home that is named, else OUTLAST_HOME, else the one of where we stand; opened in the name of a door.

    Raises HomeNotFound rather than making one, unless told to; StoreLost where a database was; NameInvalid. One that
    nobody named and that is not ours is refused (HomeNotOurs), and without `adopt` also one that is not known yet.
    """
    names = checked_names(tenant, scope, actor)
    if url := url_of(str(home) if isinstance(home, str | Path) else None):
        return Outlast(url, **names, blobs=blobs)
    found = look_up(home, tell=tell, adopt=adopt)
    if not make and not found.database and not (found.path / names["tenant"] / "outlast.db").is_file():
        refuse_lost(found.path, names["tenant"])
        raise HomeNotFound(str(found.path))
    outlast = Outlast(found, **names, blobs=blobs)
    came_by(outlast, door)
    return outlast


def checked_names(tenant: str | None, scope: str | None, actor: str | None) -> HomeNames:
    """The names by which a home is opened, those that are not given as they are by default. Raises NameInvalid."""
    return {
        "tenant": check_tenant("default" if tenant is None else tenant),
        "scope": check_name("scope", "default" if scope is None else scope),
        "actor": None if actor is None else check_name("actor", actor),
    }


def found_home(outlast: Outlast) -> FoundHome | None:
    """The home of one that is open, to be opened again from wherever we stand then; None of a server's."""
    with suppress(EmbeddedOnly):
        return FoundHome(outlast.home, outlast._executor.home.adopted, outlast._executor.home.database)
    return None


def home_name(outlast: Outlast) -> str:
    """By which another command finds the home of one that is open: its folder, or the URL of its database."""
    found = found_home(outlast)
    return found.name if found else str(outlast.home)


# -- who acts ----------------------------------------------------------------------------------------


class Whose(NamedTuple):
    """In whose name one that is open acts, and where."""

    tenant: str
    scope: str
    actor: str


def whose(outlast: Shared) -> Whose:
    """Who acts there."""
    caller = outlast._caller
    return Whose(caller.home.tenant, caller.scope, caller.actor)


def came_by(outlast: Shared, door: Door, came_from: str = "") -> None:
    """By which door who acts came in, and from which host, where that is not this one: for the record."""
    caller = outlast._caller
    caller.door, caller.came_from = door, came_from or caller.came_from


def show_claims(outlast: Shared, claims: Iterable[str]) -> None:
    """Claims that who acts may use."""
    outlast._show_claims(claims)


def look_nowhere(outlast: Shared) -> None:
    """For a flow whose file is gone, the folder that this process happens to stand in is not looked at."""
    outlast._caller.looks_here = False


# -- what is done outside of the ledger, on record there ---------------------------------------------


def noting_key(outlast: Shared, verb: Literal["made", "revoked"]) -> Callable[[ApiKey], AbstractContextManager[None]]:
    """For `Keys`: that a key is made, or ended, by who acts there. One is ended also where nothing can be recorded."""

    def noting(key: ApiKey) -> AbstractContextManager[None]:
        said = {"actor": key.actor, "roles": key.roles, "scopes": key.scopes or None, "expires_at": key.expires_at}
        told = jsonable(said)
        before, after = ({}, told) if verb == "made" else (told, {})
        return rooms.act.noting(outlast._caller, "key", key.id, verb, before, after, even_unrecorded=verb == "revoked")

    return noting


def noting_target(
    outlast: Shared, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> AbstractContextManager[None]:
    """For a target of notifications: that it is added, changed or removed by who acts there."""
    verb = "removed" if after is None else "added" if before is None else "changed"
    return rooms.act.noting(outlast._caller, "target", name, verb, before, after)


# -- what runs ---------------------------------------------------------------------------------------


def is_executing(outlast: Shared, run_id: str = "") -> bool:
    """Whether a run, or this one, is executed by this process."""
    executions = outlast._executor.live.executions
    return run_id in executions if run_id else bool(executions)


def seconds_to_stop(outlast: Shared, *, now: bool = False) -> float:
    """How long runs may take to stop after their steps, or at once."""
    settings = outlast._home.settings
    return settings.patience_seconds + 1 + (0 if now else settings.grace_seconds)


def end_overdue(outlast: Shared, scope: str | None, *, dry_run: bool = False) -> list[str]:
    """End the queued runs that nobody took in time: their ids. Those of a server are ended there."""
    if not isinstance(outlast, Outlast) or found_home(outlast) is None:
        return []
    return (rooms.queue.overdue if dry_run else rooms.queue.expire)(outlast._caller, scope)


def leave_runs(outlast: Shared) -> None:
    """Close it without waiting for runs that do not stop."""
    outlast._executor.close(wait=False)


# -- what is stored for an API key, and content by its digest ----------------------------------------


def stored_bytes_of(outlast: Shared, key_id: str) -> int:
    """How much an API key has stored."""
    return outlast._home.store.read(lambda look: look.stored_bytes_of(key_id))


def add_stored(outlast: Shared, key_id: str, size: int) -> None:
    """It has stored so much more in requests."""
    outlast._home.store.write(lambda tx: tx.add_stored(f"json:{key_id}", key_id, size))


def note_stored(outlast: Shared, key_id: str, blob: str, size: int) -> None:
    """It has stored a blob: who was first pays for it."""
    outlast._home.store.write(lambda tx: tx.note_stored(blob, key_id, size))


def note_sent(outlast: Shared, digest: str) -> None:
    """Who acts has sent content of this digest: from now on it is there for him."""
    outlast._caller.note_sent(digest)


def has_content(outlast: Shared, digest: str) -> bool:
    """Whether there is content of this digest for who acts."""
    return outlast._caller.has_content(digest)


def whole_content(outlast: Shared, digest: str) -> Iterator[bytes]:
    """The content, once it is known to be whole. Raises IntegrityBroken."""
    outlast._home.blobs.check(digest)
    return outlast._home.blobs.pieces(digest)
