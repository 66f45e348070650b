"""What of a runtime a client has: eyes, hands for checks, and a folder for content on its way. No ledger."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.clock import Clock, SystemClock
from outlast.errors import BlobNotFound, EmbeddedOnly, IntegrityBroken, NotFound
from outlast.home.home import Runtime, nobody
from outlast.home.place import check_name, check_tenant
from outlast.home.process import this_process
from outlast.home.settings import Settings
from outlast.ids import Ids
from outlast.remote.observer import OwnEyes
from outlast.secrets.own import read_own
from outlast.store.blobs.folder import Blobs
from outlast.values.digest import digest
from outlast.values.private import make_folder, write_file

if TYPE_CHECKING:
    from outlast.remote.line import Line, Who

_SENDERS = 8
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Ashore(Runtime):
    """Looks at the client's own files with the same code as an embedded runtime. Whatever needs a ledger is refused."""

    def __init__(self, line: Line, who: Who, clock: Clock | None, ids: Ids, settings: Settings | None) -> None:
        self.line, self.ids = line, ids
        self.tenant, self.scope = check_tenant(who.tenant), check_name("scope", who.scope)
        self.actor = check_name("actor", who.actor)
        self.clock, self.settings = clock or SystemClock(), settings or Settings()
        self.process, self.eyes, self.project = this_process(ids), OwnEyes(), None
        self.tokens, self.claimer, self.live = set(), None, {}
        self.sink, self.tell = None, nobody
        self._lock, self._guard = threading.Lock(), None
        self._folder: Path | None = None
        self.own_secrets = read_own(Path("/nonexistent"), self.settings)

    @property
    def folder(self) -> Path:  # type: ignore[override]
        """A folder of this client's own, until it is closed."""
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="outlast-client-"))
            return self._folder

    @property
    def home(self) -> Path:  # type: ignore[override]
        return self.folder

    @property
    def blobs(self) -> Blobs:  # type: ignore[override]
        return RemoteBlobs(self.folder / "blobs", self.line)

    @property
    def store(self) -> Any:  # type: ignore[override]
        raise EmbeddedOnly("this", "do it where the home is, or by the call of the same name that a server has")

    def send_blobs(self, names: Iterable[str]) -> None:
        """Let the server have content that was put here."""
        RemoteBlobs(self.folder / "blobs", self.line).send(names)

    def close(self, *, wait: bool = True) -> None:
        if self._guard is not None:
            self._guard.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class RemoteBlobs(Blobs):
    """Content on its way to the server, and from there: what is not here is fetched, and checked."""

    def __init__(self, folder: Path, line: Line) -> None:
        super().__init__(folder)
        self._line = line

    def put(self, content: bytes) -> str:
        name = digest(content)
        path = self.path(name)
        if not path.exists():
            make_folder(path.parent)
            temporary = path.with_name(f".{name}.{threading.get_ident()}")
            write_file(temporary, content)  # not synced: what counts is kept by the server
            temporary.replace(path)
        return name

    def has(self, name: str) -> bool:
        with contextlib.suppress(IntegrityBroken):
            return self._fetch(name)
        return False

    def get(self, name: str) -> bytes:
        self._fetch(name)
        return super().get(name)

    def pieces(self, name: str) -> Iterator[bytes]:
        self._fetch(name)
        return super().pieces(name)

    def _fetch(self, name: str) -> bool:
        """Raises IntegrityBroken, as where the content is; also for what is no digest: the name may be an answer's."""
        if not _DIGEST.fullmatch(name):
            raise IntegrityBroken(f"blob {name[:12]}", "it is no digest")
        if super().has(name):
            return True
        try:
            content = self._line.ask("GET", f"/v1/handoff/blobs/{name}").raw
        except BlobNotFound:
            raise IntegrityBroken(f"blob {name[:12]}", "it is missing") from None
        if digest(content) != name:
            raise IntegrityBroken(f"blob {name[:12]}", "its content was changed")
        self.put(content)
        return True

    def send(self, names: Iterable[str]) -> None:
        """Let the server have these, each once."""
        with ThreadPoolExecutor(_SENDERS) as senders:
            for done in [senders.submit(self._send, name) for name in set(names)]:
                done.result()

    def _send(self, name: str) -> None:
        try:
            self._line.ask("HEAD", f"/v1/handoff/blobs/{name}")
        except NotFound:
            content = super().get(name)
            self._line.ask("PUT", f"/v1/handoff/blobs/{name}", content=lambda: iter((content,)))
