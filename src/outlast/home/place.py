"""The home: a `.outlast` folder with one database and one blob folder per tenant."""

from __future__ import annotations

import os
import re
from pathlib import Path

from outlast.errors import EmbeddedOnly, HomeNotFound, NameInvalid, StoreReadOnly
from outlast.home.privacy import close_home
from outlast.values.private import make_folder, make_home, write_file

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FOLDER = ".outlast"
MADE = ".made"  # in a home: what was made in it


def find_home(given: str | Path | None = None, *, must_exist: bool = False) -> Path:
    """The home: the one given, else OUTLAST_HOME, else the nearest `.outlast` upward, else one here."""
    named = given or os.environ.get("OUTLAST_HOME")
    if str(named).startswith(("http://", "https://")):
        raise EmbeddedOnly("this", "it needs the folder of a home, and not a server: name one, --home DIR")
    if named:
        home = Path(named).expanduser().absolute()
    else:
        here = _here()
        near = (folder / FOLDER for folder in (here, *here.parents))
        home = next((folder for folder in near if folder.is_dir()), here / FOLDER)
    if must_exist and not home.is_dir():
        raise HomeNotFound(str(home))
    return home


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise HomeNotFound("the current folder, which does not exist any more") from error


def project_of(home: Path) -> Path | None:
    """The folder that recorded paths are relative to: where a `.outlast` lies. Any other home records full paths."""
    return home.parent.resolve() if home.name == FOLDER else None


def check_tenant(tenant: str) -> str:
    """A tenant's name. Raises NameInvalid for one that could leave the home."""
    if not isinstance(tenant, str) or not _SAFE.fullmatch(tenant):
        raise NameInvalid("tenant", str(tenant), "use 1 to 64 letters, digits, dot, dash, underscore")
    return tenant


def tenant_folder(home: Path, tenant: str) -> Path:
    """A tenant's own folder, made or not. Raises NameInvalid."""
    return home / check_tenant(tenant)


def marker_of(home: Path, tenant: str) -> Path:
    """The file that says that a tenant's database was made. No tenant can be called like its folder."""
    return home / MADE / tenant


def refuse_lost(home: Path, tenant: str) -> None:
    """Nothing, where no database is and none was. Raises StoreLost, StoreForeign for what is in the place of one."""
    from outlast.store.sqlite.presence import inspect

    inspect(tenant_folder(home, tenant) / "outlast.db", marker_of(home, tenant))


def make_folders(home: Path, folder: Path) -> None:
    """A tenant's own folder with what lies in it. Raises StoreReadOnly, unless there is a database to look at."""
    try:
        make_home(home)
        close_home(home)
        make_folder(folder)
        keep_out_of_git(home)
        make_folder(folder / "blobs")
    except OSError as error:
        if not (folder / "outlast.db").exists():
            raise StoreReadOnly(str(folder), error.strerror or str(error)) from error


def keep_out_of_git(home: Path) -> None:
    """Nothing of a home belongs in a repository."""
    ignore = home / ".gitignore"
    if not ignore.exists():
        write_file(ignore, b"*\n")


def check_name(kind: str, name: str) -> str:
    """A scope, task or actor name: any printable text up to 500 characters."""
    if not isinstance(name, str) or not name.strip():
        raise NameInvalid(kind, str(name), "it is empty")
    if len(name) > 500:
        raise NameInvalid(kind, name, f"it has {len(name)} characters; the limit is 500")
    if not name.isprintable():
        raise NameInvalid(kind, name, "it has characters that cannot be printed")
    return name
