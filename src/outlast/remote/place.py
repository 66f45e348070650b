"""What of a home a client has: who looks at files and runs checks, and a folder for content on its way. No ledger.

What a client looks at for a server. No answer opens a folder, or has a secrets file read out.

The looking itself is that of an embedded home (`handoffs/observer.py`); what may be asked is `observe.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from outlast.clock import Clock, SystemClock
from outlast.errors import BlobNotFound, EmbeddedOnly, IntegrityBroken, NotFound
from outlast.handoffs.musts import PathRule, rule_of_must
from outlast.handoffs.observer import LocalObserver
from outlast.home.caller import Caller
from outlast.home.home import Home
from outlast.home.place import check_name, check_tenant
from outlast.home.process import this_process
from outlast.home.settings import Settings
from outlast.ids import Ids, random_id
from outlast.python.rooms import load_commands
from outlast.runs.live import Executor, Live
from outlast.secrets import SecretRules, read_own
from outlast.secrets.find import is_secret_file
from outlast.store.blobs.folder import FolderBlobs
from outlast.store.contract import Store
from outlast.values.codec import digest
from outlast.values.private import make_folder, write_file

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Form, Handoff
    from outlast.remote.line import Line, Who


_SECRET = "is a secrets file, and is not read for a server"
_CONTENT = ("contains", "sha256")  # rules that tell of content, guess by guess


class ClientObserver(LocalObserver):
    """Looks where the caller is and where he says, and nowhere else. Whoever is in `/` is nowhere."""

    knows_runs = False

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        if given is not None:
            return super().place(caller, handoff, given)
        here = self.root(caller, None)
        if here == Path("/") or (_is_of_run(handoff) and not _ran_in(here, handoff)):
            return None
        return super().place(caller, handoff, given)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        return _SECRET if _tells(handoff, must, root) else super().broken(home, handoff, must, root)


def _is_of_run(handoff: Handoff) -> bool:
    """Whether it was composed from a run: nobody looked at its files, and they are where that ran."""
    return handoff.source == "run" and handoff.binding is None


def _ran_in(here: Path, handoff: Handoff) -> bool:
    return handoff.repo_root is not None and os.path.realpath(handoff.repo_root) == os.path.realpath(here)


def _tells(handoff: Handoff, must: tuple[str, Form], root: Path) -> bool:
    """Whether the answer to a must would tell of what is in a secrets file."""
    rule, bound = rule_of_must(*must, handoff.binding), handoff.binding
    if isinstance(rule, PathRule):
        files = (rule.pattern, *rule.of(bound.musts)) if bound and rule.wants != "absent" else ()
        return any(_is_secret(root, path) for path in files)
    return rule is not None and rule.rule in _CONTENT and _is_secret(root, rule.file)


def _is_secret(root: Path, path: str) -> bool:
    """By its own name, or by that of what it leads to."""
    try:
        return is_secret_file(path) or is_secret_file(os.path.realpath(root / path))
    except (OSError, ValueError):  # no file can have such a name
        return False


_SENDERS = 8
_DIGEST = re.compile(r"[0-9a-f]{64}")


def open_client(
    line: Line, who: Who, clock: Clock | None = None, ids: Ids = random_id, settings: Settings | None = None
) -> Executor:
    """Looks at the client's own files with the same code as where a home is. Whatever needs a ledger is refused."""
    tenant, scope, actor = check_tenant(who.tenant), check_name("scope", who.scope), check_name("actor", who.actor)
    chosen, folder = settings or Settings(), Path(tempfile.gettempdir(), f"outlast-client-{random_id()}")
    home = Home(
        path=folder,  # made when there is content, for this user alone
        tenant=tenant,
        folder=folder,
        project=None,
        store=cast(Store, NoStore()),
        blobs=RemoteBlobs(folder / "blobs", line),
        clock=clock or SystemClock(),
        ids=ids,
        settings=chosen,
        process=this_process(ids),
        secrets=SecretRules(read_own(Path("/nonexistent"), chosen.secret_patterns)),
    )
    return Executor(Caller(home, actor, scope, ClientObserver()), Live(home, load_commands=load_commands))


def close_client(client: Executor) -> None:
    """End what checks left, and remove what was on its way."""
    if client.live.is_closed_now():
        client.live.close()
        shutil.rmtree(client.home.folder, ignore_errors=True)


def send_blobs(home: Home, names: Iterable[str]) -> None:
    """Let the server have content that was put here."""
    assert isinstance(home.blobs, RemoteBlobs)
    home.blobs.send(names)


class NoStore:
    """Stands for the ledger, which is the server's."""

    def __getattr__(self, name: str) -> Any:
        raise EmbeddedOnly("this", "do it where the home is, or by the call of the same name that a server has")


class RemoteBlobs(FolderBlobs):
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
