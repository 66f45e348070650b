"""The home: a `.outlast` folder with one database and one blob folder per tenant.

What a restored home knows of itself: which backup it was made from. What happened after that backup is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from outlast import errors
from outlast.errors import Invalid
from outlast.files.repository import nearest
from outlast.home.settings import close_home
from outlast.store import inspect, tenants_in
from outlast.values import private
from outlast.values.codec import identity
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.private import make_folder, open_file, read_plain, write_file

if TYPE_CHECKING:
    from outlast.home import ours
else:
    ours = late("outlast.home.ours")

FILE = "restored.json"


class Restoration(msgspec.Struct, frozen=True):
    """Where a home came from."""

    backup: str  # the backup's id
    home: str  # the home that it was taken of
    made_at: int  # microseconds: nothing later is known here
    restored_at: int


def restoration_of(home: Path) -> Restoration | None:
    """Of which backup a home was made; None for one that was not. A note that cannot be read counts as none."""
    try:
        return msgspec.json.decode(read_plain(home / FILE, 1 << 16), type=Restoration)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None


def write_restoration(home: Path, what: Restoration) -> None:
    """Note it in a home that is being made."""
    handle = open_file(home / FILE, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with open(handle, "wb") as file:
        file.write(msgspec.json.encode(what) + b"\n")


_SIGNS = str.maketrans("", "", "._-")  # of a tenant's name, beside letters and digits
_NAME_LENGTH = 64
FOLDER = ".outlast"
IN_DATABASE = (
    "this works on the folder of a home, and its ledger is in PostgreSQL: copy that with pg_dump or a backup of the"
    " server, and the folder of its content after it; or take the home into a folder, `outlast move --to DIR`"
)
DATABASES = ("postgresql://", "postgres://")  # how the name of a home begins whose ledger is in one
MADE = ".made"  # in a home: what was made in it
OWN = ("runs", "keys", "hooks", "settings", "config", "secrets", "flows", "blobs", "work", "cache", "backups")
_OF_FILES = (
    *(".db", ".db-wal", ".db-shm", ".db-journal", ".yml", ".yaml"),
    *(".json", ".toml", ".log", ".lock", ".tmp", ".part", ".bak"),
)


class FoundHome(NamedTuple):
    """A home, and whether it was found rather than named and is not known to have been made here."""

    path: Path
    adopted: bool = False
    database: str = ""  # its URL, where that is not a file in the folder
    blobs: str = ""  # the URL of a bucket for its content, where one was named

    @property
    def name(self) -> str:
        """By which another command finds it: its folder, or its URL without a password."""
        return without_password(self.database) if self.database else str(self.path)


def find_home(given: str | Path | None = None, *, must_exist: bool = False) -> Path:
    """The home: the one given, else OUTLAST_HOME, else that of the repository or folder that we are in (`near`).

    One that nobody named and that is not known yet is adopted.
    Raises HomeNotOurs for one that nobody named and that is not ours, HomeNotFound.
    """
    found = look_up(given)
    home = found.path
    if found.database:
        raise Invalid(detail=IN_DATABASE)
    if must_exist and not home.is_dir():
        raise errors.HomeNotFound(str(home))
    return home


def look_up(
    given: str | Path | FoundHome | None = None, *, tell: Callable[[str], None] | None = None, adopt: bool = True
) -> FoundHome:
    """The same, with how it became ours. Without `adopt` one that is not known yet is refused too."""
    if isinstance(given, FoundHome):
        return given
    named = given or os.environ.get("OUTLAST_HOME")
    if str(named).startswith(("http://", "https://")):
        raise errors.EmbeddedOnly("this", "it needs the folder of a home, and not a server: name one, --home DIR")
    if str(named).startswith(DATABASES):
        return FoundHome(folder_beside(str(named)), database=str(named))
    if named:
        return FoundHome(Path(named).expanduser().absolute())
    home = near()
    return FoundHome(home, ours.check_found(str(home), (tell or _warn) if adopt else None))


def without_password(url: str) -> str:
    """A URL as it may be shown and written down: who connects finds the password in PGPASSWORD or ~/.pgpass."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=f"{parts.username}@{parts.netloc.rpartition('@')[2]}").geturl()


def tenants_of(home: FoundHome) -> list[str]:
    """Every tenant that a home has a ledger of."""
    if home.database:
        names = tenants_in(home.database)
    else:
        names = [path.parent.name for path in home.path.glob("*/outlast.db")]
    return sorted(name for name in names if _is_tenant(name))


def _is_tenant(name: str) -> bool:
    try:
        check_tenant(name)
    except errors.NameInvalid:  # a folder that is none of a tenant
        return False
    return True


def has_tenant(home: FoundHome, tenant: str) -> bool:
    """Whether a tenant has a ledger there."""
    if home.database:
        return tenant in tenants_in(home.database)
    return (tenant_folder(home.path, tenant) / "outlast.db").is_file()


def folder_beside(url: str) -> Path:
    """The folder on this machine of a home whose ledger is in a database: OUTLAST_FOLDER, else one of its own.

    Content, work folders and the index of recall are there. A password is no part of where that is.
    """
    if given := os.environ.get("OUTLAST_FOLDER"):
        return Path(given).expanduser().absolute()
    parts = urlsplit(url)
    named = parts._replace(netloc=f"{parts.username or ''}@{parts.hostname or ''}:{parts.port or ''}").geturl()
    share = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(share).expanduser() / "outlast" / identity(named.encode())


def near() -> Path:
    """The home of where we are, there or not: one for all work trees of a repository, made at the top of the main one.

    It is the nearest `.outlast` upward that is not above the repository; outside of git the nearest, else one here.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise errors.HomeNotFound("the current folder, which does not exist any more") from error
    return Path(nearest(here, FOLDER))


def _warn(line: str) -> None:
    import warnings

    warnings.warn(line, RuntimeWarning, stacklevel=2)


def project_of(home: Path) -> Path | None:
    """The folder that recorded paths are relative to: where a `.outlast` lies. Any other home records full paths."""
    return home.parent.resolve() if home.name == FOLDER else None


def check_tenant(tenant: str) -> str:
    """A tenant's name. Raises NameInvalid for one that could leave the home, or be one of its own files."""
    if not isinstance(tenant, str) or not _is_safe(tenant):
        raise errors.NameInvalid("tenant", str(tenant), "use 1 to 64 letters, digits, dot, dash, underscore")
    if tenant.lower() in OWN or tenant.lower().endswith(_OF_FILES):
        raise errors.NameInvalid("tenant", tenant, "a home keeps files of its own under such names; choose another")
    return tenant


def _is_safe(name: str) -> bool:
    """Whether it is the name of a folder in every system, and leads nowhere else."""
    return name[:1].isalnum() and name.translate(_SIGNS).isalnum() and name.isascii() and len(name) <= _NAME_LENGTH


def tenant_folder(home: Path, tenant: str) -> Path:
    """A tenant's own folder, made or not. Raises NameInvalid."""
    return home / check_tenant(tenant)


def marker_of(home: Path, tenant: str) -> Path:
    """The file that says that a tenant's database was made. No tenant can be called like its folder."""
    return home / MADE / tenant


def refuse_lost(home: Path, tenant: str) -> None:
    """Nothing, where no database is and none was. Raises StoreLost, StoreForeign for what is in the place of one."""
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
            raise errors.StoreReadOnly(str(folder), error.strerror or str(error)) from error


def make_home(home: Path) -> None:
    """The folder of a home. That it was made here is remembered if it can be found again without its name."""
    if private.make_home(home) and home.name == FOLDER:
        ours.remember(str(home), "made")


def keep_out_of_git(home: Path) -> None:
    """Nothing of a home belongs in a repository."""
    ignore = home / ".gitignore"
    if not ignore.exists():
        write_file(ignore, b"*\n")


def check_text(field: str, value: object) -> None:
    """Raises ValueRefused for what is no text."""
    if not isinstance(value, str):
        raise errors.ValueRefused(field, f"{value!r:.100} is no text", "give it as text")


def check_name(kind: str, name: str) -> str:
    """A scope, task or actor name: any printable text up to 500 characters."""
    if not isinstance(name, str) or not name.strip():
        raise errors.NameInvalid(kind, str(name), "it is empty")
    if len(name) > 500:
        raise errors.NameInvalid(kind, name, f"it has {len(name)} characters; the limit is 500")
    if not name.isprintable():
        raise errors.NameInvalid(kind, name, "it has characters that cannot be printed")
    return name
