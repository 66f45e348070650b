"""Looking for a server: what it asks to be looked at is looked at here, and sent with the same request again.

The server says what it needs to know; the call says what it may ask for (`ObserveQuery`). Checks run only if the caller
asked for checks, and only those of the handoff that he asked for; anything more is refused with ReplyRefused, and not
done. And their commands run only if this user stored them from here, agreed to them, or trusts that actor of that
server: who stored them is the server's word, which alone is not enough.

What of a home a client has for that: who looks at files and runs checks, and a folder for content on its way; no
ledger. No answer opens a folder, or has a secrets file read out. The looking itself is that of an embedded home
(`handoffs/observer.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast import errors
from outlast.clock import Clock, SystemClock
from outlast.handoffs import foreign
from outlast.handoffs.contract import read_check, read_must
from outlast.handoffs.difference import edits
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import MAX_CHECKS, Contract, Evidence, Form, Handoff, Recovered, must_key
from outlast.handoffs.musts import PathRule, rule_of_must
from outlast.handoffs.observer import LocalObserver, observer_of
from outlast.handoffs.settle import note_printed
from outlast.handoffs.sighting import refuse_odd
from outlast.handoffs.verdict import edited_in
from outlast.home.caller import Caller
from outlast.home.home import Home
from outlast.home.place import check_name, check_tenant
from outlast.home.process import this_process
from outlast.home.settings import Settings
from outlast.ids import Ids, random_id
from outlast.ledger.verdict import Verdict, judge
from outlast.operations.table import OPERATIONS
from outlast.python.rooms import load_commands
from outlast.remote.calls import Given, ask, reading
from outlast.runs.live import Executor, Live
from outlast.secrets import SecretRules, read_own
from outlast.secrets.find import is_secret_file
from outlast.store.blobs.folder import FolderBlobs
from outlast.store.contract import Store
from outlast.values.codec import digest
from outlast.values.private import make_folder, write_file

if TYPE_CHECKING:
    from outlast.operations.operation import Operation
    from outlast.remote.line import Line, Reply, Who

LOOKS = 12  # while a handoff changes as fast as it is looked at, somebody else is at work
When = Literal["store", "recover", "verify", "settle"]


class ObserveQuery(Struct, frozen=True):
    """What the caller asked for himself: which handoff, where its files are, and whether its checks may run."""

    asked: HandoffQuery
    checks: bool = False
    agree: str | None = None  # the digest of the commands that may run, whoever stored them

    def refuse_other(self, handoff: Handoff) -> None:
        """Raises ReplyRefused for a handoff that was not asked for."""
        asked, found = self.asked, f"{handoff.anchor!r} (revision {handoff.revision} in scope {handoff.scope!r})"
        is_it = (
            handoff.scope == asked.scope
            and asked.anchor in (None, handoff.anchor)
            and asked.revision in (None, handoff.revision)
            and handoff.id.startswith(asked.handoff_id or "")
        )
        if not is_it:
            raise errors.ReplyRefused(
                f"it is about {found:.300}, and {asked.words:.300} was asked for", "see whose server it is"
            )

    def refuse_checks(self, what: str) -> None:
        """Raises ReplyRefused for checks that the caller did not ask for."""
        if not self.checks:
            raise errors.ReplyRefused(
                f"checks of {what:.300} are to be run", "to run them, say so: run_checks=True (--run-checks)"
            )


class ObservedCall:
    """One call about files: sent until the server knows what it needs to know."""

    def __init__(
        self, line: Line, executor: Executor, when: When, by: str, wanted: ObserveQuery, claims: str | None = None
    ) -> None:
        self._line, self._executor, self._there = line, executor, ("--home", line.url)
        self._shown = {} if claims is None else {"outlast-claims": claims}  # only these, and not all of the client's
        self._when, self._by, self._wanted = when, by, wanted
        self._found: dict[str, Given] = {}  # by the handoff
        self._checks: tuple[Form, ...] | None = None  # those that ran
        self.ran: list[Evidence] = []

    def about_handoffs(self, operation: Operation, given: Given) -> Reply:
        """Send it with what is found of each handoff that the server asks about."""
        body = self._named(given) | {"looks": True}
        for _ in range(LOOKS):
            try:
                return ask(self._line, operation, body | {"observed": list(self._found.values())}, headers=self._shown)
            except errors.LookFirst as first:
                self._look(first)
                asked = first
        raise asked

    def settling(self, operation: Operation, given: Given) -> bytes:
        """The same for an end. Raises NotSettled, whose checks printed here what the caller may read."""
        try:
            return self.about_handoffs(operation, given).raw
        except errors.NotSettled as error:
            note_printed(self._executor.home, error, self.ran)
            raise

    def storing(self, operation: Operation, given: Given, contract: Contract, *, bind: bool) -> Reply:
        """Send a handoff, bound to its files as they are here."""
        runs = given.get("baseline") is True
        may = {"binding": bind, "checks": runs}
        body = self._named(given) | {"looks": bind or runs, "bind": bind}
        while True:
            try:
                reply = ask(self._line, operation, body, headers=self._shown)
                foreign.stored_here(contract)
                return reply
            except errors.LookFirst as first:
                what = str(first.facts.get("what"))
                if not may.pop(what, False):
                    why = f"the {what:.100} of {contract.anchor!r} were not to be looked at, or have been sent"
                    raise errors.ReplyRefused(why, "see whose server it is") from first
                body |= self._bound(contract, what)

    def seen(self, got: Recovered) -> Recovered:
        """What was asked for, as it was answered. Raises ReplyRefused for another, or if it is trusted unseen."""
        self._wanted.refuse_other(got.handoff)
        # whose its commands are, as it is seen from here
        reasons = [each for each in got.reasons if each.code != "foreign_commands"]
        note = foreign.note_of(got.handoff, self._stranger(got.handoff), *self._there)
        ordered = judge([*reasons, *filter(None, [note])]).reasons
        got = replace(got, verdict=Verdict(got.verdict.word, ordered))  # a note changes no word
        root = self._found.get(got.handoff.id, {}).get("root")
        if got.verdict.word == "trusted" and not root:
            raise errors.ReplyRefused(
                f"{got.anchor!r:.300} is to be trusted, and nobody looked at its files", "look yourself"
            )
        return replace(got, diff=self._edits(got))

    def _edits(self, got: Recovered) -> str:
        """What was edited here since, where that only weakens: the server sees no file."""
        found, paths = self._found.get(got.handoff.id, {}), edited_in(got.verdict)
        if not paths or not found.get("root") or found["binding"] is None:
            return ""
        return edits(self._executor.home, got.handoff, found["root"], found["binding"], paths)

    def _stranger(self, handoff: Handoff) -> str:
        """Why the commands of a handoff may not run here unasked; "" when they may."""
        if not foreign.has_commands(handoff):
            return ""
        why = f"they come from {self._line.url}, which says that {handoff.actor!r:.200} stored them"
        return foreign.stands_against(handoff, foreign.Stranger(why, f"{handoff.actor}@{self._line.url}"))

    def _named(self, given: Given) -> Given:
        """The same in every try: one write."""
        named = dict(given)
        if "operation_id" in named and named["operation_id"] is None:
            named["operation_id"] = self._line.operation_id()
        return named

    def _bound(self, contract: Contract, what: str) -> Given:
        root = observer_of(self._executor.caller).root(self._executor.caller, contract.repo_root)
        if what == "checks":
            return {"ran": self._run(contract, root, foreign.own(contract))}
        binding = observer_of(self._executor.caller).bind(self._executor.caller, contract, root)
        assert binding is not None
        send_blobs(self._executor.home, binding.blobs)
        return {"binding": binding}

    def _look(self, first: errors.LookFirst) -> None:
        handoff, what = _told_handoff(first), first.facts.get("what")
        self._wanted.refuse_other(handoff)
        if what == "checks":
            self._wanted.refuse_checks(repr(handoff.anchor))
            # checks run once in a call; again only for a revision that came meanwhile, if it has the same ones
            ran = self._found.get(handoff.id, {}).get("ran") is not None
            if ran or self._checks not in (None, handoff.acceptance_checks):
                why = f"checks of {handoff.anchor!r:.300} have run, and others, or the same, are to be run again"
                raise errors.ReplyRefused(why, "if a revision came meanwhile, read it and ask again")
            self._checks = handoff.acceptance_checks
        before = self._found.get(handoff.id, {}).get("ran")
        self._found[handoff.id] = self._sighting(handoff, with_checks=what == "checks")
        if before is not None:
            self._found[handoff.id]["ran"] = before

    def _sighting(self, handoff: Handoff, *, with_checks: bool) -> Given:
        observer, caller = observer_of(self._executor.caller), self._executor.caller
        root = observer.place(caller, handoff, self._wanted.asked.repo_root)
        if root is None:
            return {"handoff_id": handoff.id, "here": observer.elsewhere(caller, handoff)}
        ran = self._run(handoff, root, self._leave(handoff)) if with_checks else None
        seen = observer.observe(caller.home, handoff, root)  # after the checks: they may write files
        musts = {
            must_key(name, form): observer.broken(caller.home, handoff, (name, form), root)
            for name, form in handoff.musts
            if rule_of_must(name, form, handoff.binding) is not None
        }
        said = {"handoff_id": handoff.id, "root": str(root), "binding": seen.binding, "relation": seen.relation}
        return said | {"musts": musts, "ran": ran, "renamed": seen.renamed}

    def _leave(self, handoff: Handoff) -> foreign.Leave:
        """Raises ForeignCommands."""
        return foreign.given(handoff, self._stranger(handoff), self._wanted.agree, *self._there)

    def _run(self, about: Contract, root: Path, leave: foreign.Leave) -> list[Given]:
        between = self._renewal(about) if self._line.claims else None
        executor, observer = self._executor, observer_of(self._executor.caller)
        self.ran = observer.run_checks(
            executor, about, root, leave=leave, when=self._when, by=self._by, between=between
        )
        send_blobs(executor.home, [each.output for each in self.ran if each.output])
        return [_told(each) for each in self.ran]

    def _renewal(self, about: Contract) -> Callable[[], None]:
        """What keeps a claim alive while checks take long."""
        named = {"anchor": about.anchor, "scope": about.scope if isinstance(about, Handoff) else None}

        def use() -> None:
            with suppress(errors.OutlastError):
                ask(self._line, OPERATIONS["handoff_renew"], named, headers=self._shown)

        return use


def _told_handoff(first: errors.LookFirst) -> Handoff:
    """The handoff that is to be looked at. Raises ReplyInvalid for what no store holds."""
    with reading():
        handoff = msgspec.convert(first.facts["handoff"], Handoff)
    try:
        # what storing refuses cannot have been stored
        if max(len(handoff.acceptance_checks), len(handoff.musts) // 3) > MAX_CHECKS:
            raise errors.HandoffInvalid("acceptance_checks", f"has more than {MAX_CHECKS}", "name fewer")
        for form in handoff.acceptance_checks:
            read_check(form, "acceptance_checks")
        for name, form in handoff.musts:
            read_must(form, name)
        if handoff.binding is not None:
            refuse_odd(handoff.binding, "binding")
    except errors.HandoffInvalid as error:
        raise errors.ReplyInvalid(f"{error.detail:.300}") from error
    return handoff


def _told(ran: Evidence) -> dict[str, Any]:
    names = ("check", "passed", "exit", "seconds", "output", "note")
    return {name: getattr(ran, name) for name in names} | {"host": ran.where}


# -- what of a home a client has ---------------------------------------------------------------------

_SECRET = "is a secrets file, and is not read for a server"
_CONTENT = ("contains", "sha256")  # rules that tell of content, guess by guess


class ClientObserver(LocalObserver):
    """Looks where the caller is and where he says, and nowhere else. Whoever is in `/` is nowhere."""

    knows_runs = False

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        if given is not None:
            return super().place(caller, handoff, given)
        here = self.root(caller, None)
        # of one composed from a run nobody looked at its files, and they are where that ran
        if here == Path("/") or (handoff.source == "run" and handoff.binding is None and not _ran_in(here, handoff)):
            return None
        return super().place(caller, handoff, given)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        return _SECRET if _tells(handoff, must, root) else super().broken(home, handoff, must, root)


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
        raise errors.EmbeddedOnly("this", "do it where the home is, or by the call of the same name that a server has")


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
        with contextlib.suppress(errors.IntegrityBroken):
            return self._fetch(name)
        return False

    def get(self, name: str) -> bytes:
        self._fetch(name)
        return super().get(name)

    def pieces(self, name: str) -> Iterator[bytes]:
        self._fetch(name)
        return super().pieces(name)

    def check(self, name: str) -> None:
        self._fetch(name)
        super().check(name)

    def _fetch(self, name: str) -> bool:
        """Raises IntegrityBroken, as where the content is; also for what is no digest: the name may be an answer's."""
        if not _DIGEST.fullmatch(name):
            raise errors.IntegrityBroken(f"blob {name[:12]}", "it is no digest")
        if super().has(name):
            return True
        try:
            content = self._line.ask("GET", f"/v1/handoff/blobs/{name}").raw
        except errors.BlobNotFound:
            raise errors.IntegrityBroken(f"blob {name[:12]}", "it is missing") from None
        if digest(content) != name:
            raise errors.IntegrityBroken(f"blob {name[:12]}", "its content was changed")
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
        except errors.NotFound:
            content = super().get(name)
            self._line.ask("PUT", f"/v1/handoff/blobs/{name}", content=lambda: iter((content,)))
