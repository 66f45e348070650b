"""A home as a door opens it: found by where the door stands, and never made unasked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypedDict

from outlast.errors import EmbeddedOnly, HomeNotFound
from outlast.home.place import FoundHome as FoundHome
from outlast.home.place import check_name, check_tenant, look_up, refuse_lost
from outlast.python.outlast import Outlast
from outlast.python.shared import url_of

Tell = Callable[[str], None]


class Names(TypedDict):
    """By which a home is opened."""

    tenant: str
    scope: str
    actor: str


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
) -> Outlast:
    """The home that is named, else OUTLAST_HOME, else the one of where we stand; opened in the name of a door.

    Raises HomeNotFound rather than making one, unless told to; StoreLost where a database was; NameInvalid. One that
    nobody named and that is not ours is refused (HomeNotOurs), and without `adopt` also one that is not known yet.
    """
    names = checked_names(tenant, scope, actor)
    if url := url_of(str(home) if isinstance(home, str | Path) else None):
        return Outlast(url, **names)
    found = look_up(home, tell=tell, adopt=adopt)
    if not make and not (found.path / names["tenant"] / "outlast.db").is_file():
        refuse_lost(found.path, names["tenant"])
        raise HomeNotFound(str(found.path))
    outlast = Outlast(found, **names)
    outlast._executor.caller.door = door
    return outlast


def checked_names(tenant: str | None, scope: str | None, actor: str | None) -> Names:
    """The names by which a home is opened, those that are not given as they are by default. Raises NameInvalid."""
    return {
        "tenant": check_tenant("default" if tenant is None else tenant),
        "scope": check_name("scope", "default" if scope is None else scope),
        "actor": check_name("actor", "local" if actor is None else actor),
    }


def found_home(outlast: Outlast) -> FoundHome | None:
    """The home of one that is open, to be opened again from wherever we stand then; None of a server's."""
    with suppress(EmbeddedOnly):
        return FoundHome(outlast.home, outlast._executor.home.adopted)
    return None
