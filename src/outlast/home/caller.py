"""Who acts on a home: in whose name, in which scope, by which door, with which claims.

It is made for one program, or for one request that a server answers. What is open belongs to the home, and is shared;
what makes up a claimer is not: whoever wants to use a claim over HTTP shows its id each time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from outlast.home.claimer import nobody
from outlast.home.home import Home
from outlast.home.place import check_name
from outlast.ledger.lease import Process

if TYPE_CHECKING:
    from outlast.store.contract import Reading, Writing

Door = Literal["python", "cli", "http", "mcp", "hook"]

_NOBODY = nobody()


class Observer(Protocol):
    """Who looks at files for a caller. What else it is asked is the business of `handoffs/observer.py`."""

    @property
    def looks(self) -> bool:
        """Whether files can be looked at, to tell one place of work from another."""


class Caller(msgspec.Struct, eq=False):
    """Who acts, on which home."""

    home: Home
    actor: str
    scope: str
    observer: Observer  # of a server none: the files are where its clients are
    tokens: set[str] = msgspec.field(default_factory=set)  # of the claims that he may use
    claimer: Process | None = None  # in whose name he claims: that one's claims are his own too
    scopes: frozenset[str] = frozenset()  # those that he sees; none: all
    key_id: str = ""  # of the API key in whose name a server acts: what it stores counts among that key's
    door: Door = "python"  # by which he came in; history says so
    came_from: str = ""  # his host, where that is not this one
    received_when: Literal["returned", "printed", "never"] = "returned"  # when he has an outcome
    stands: str = ""  # where he is, if not where this process is
    looks_here: bool = True  # for a flow whose file is gone: in the folder that this process stands in

    @property
    def whence(self) -> dict[str, str]:
        """From which host and by which door he came, for the record."""
        return {"host": self.came_from or self.home.process.host, "door": self.door}

    def acting(
        self,
        *,
        actor: str | None,
        scope: str | None,
        observer: Observer,
        key_id: str = "",
        scopes: Collection[str] = (),
    ) -> Caller:
        """Somebody else on the same home, who can be looked up by nobody. Raises NameInvalid, Forbidden."""
        who = self.actor if actor is None else check_name("actor", actor)
        where = self.scope if scope is None else check_name("scope", scope)
        home = self.home
        if scopes:
            from outlast.store.bound import refuse_other

            refuse_other(where, scopes)
            home = home.bound_to(scopes)
        return msgspec.structs.replace(
            self,
            home=home,
            actor=who,
            scope=where,
            observer=observer,
            tokens=set(self.tokens) if self.is_acting else set(),
            claimer=_NOBODY,
            scopes=frozenset(scopes) or self.scopes,
            key_id=key_id or self.key_id,
        )

    @property
    def is_acting(self) -> bool:
        """Whether somebody else acts here than who opened the home."""
        return self.claimer is _NOBODY

    def with_tokens(self, tokens: Collection[str]) -> Caller:
        """The same, who may use these claims only."""
        return msgspec.structs.replace(self, tokens={*tokens})

    def has_content(self, digest: str) -> bool:
        """Whether there is content of this digest; for who is bound to scopes, of a handoff of them or sent by them.

        Content has no scope by itself.
        """
        return self.home.blobs.has(digest) and (
            not self.scopes
            or self.home.store.read(lambda look: _was_sent(look, digest) or _is_of_handoff(look, digest))
        )

    def note_sent(self, digest: str) -> None:
        """He has sent content of this digest: from now on it is there for him."""
        if self.scopes:
            self.home.store.write(lambda tx: _note_sent(tx, digest, self.home.clock.now()))


def _sent(digest: str) -> str:
    """The id under which the scopes of who sent content know that: none that a caller can give."""
    return f"content_sent\n{digest}"


def _was_sent(look: Reading, digest: str) -> bool:
    return look.operation(_sent(digest)) is not None


def _note_sent(tx: Writing, digest: str, at: int) -> None:
    if not _was_sent(tx, digest):
        tx.add_operation(_sent(digest), "content_sent", "", "", at)


def _is_of_handoff(look: Reading, digest: str) -> bool:
    """Whether a handoff that can be seen refers to it: an anchor has the key of its chain."""
    return any(look.anchor_by_key(key) is not None for key in look.chains_of_blob(digest))
