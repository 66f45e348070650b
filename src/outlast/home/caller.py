"""Who acts on a home: in whose name, in which scope, by which door, with which claims, and what they accept.

It is made for one program, or for one request that a server answers. What is open belongs to the home, and is shared;
what makes up a claimer is not: whoever wants to use a claim over HTTP shows its id each time.

Their writes may carry an operation_id: an exact repeat gets the first answer and writes nothing.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import msgspec

from outlast import errors
from outlast.home.claimer import nobody
from outlast.home.home import Home
from outlast.home.place import check_name
from outlast.ledger.lease import Process
from outlast.values.codec import encode, identity
from outlast.values.frozen import NamedTuple, Protocol

if TYPE_CHECKING:
    from outlast.store.contract import PlainStore, Reading, Writing

Door = Literal["python", "cli", "http", "mcp", "hook"]

ACTOR = "OUTLAST_ACTOR"  # who acts, where nothing else says it
LOCAL = "local"  # somebody at this machine, whose name nobody gave

_NOBODY = nobody()


def usual_actor() -> str:
    """Who acts where no name is given: OUTLAST_ACTOR, else the login name, else the user's number.

    Raises NameInvalid.
    """
    return check_name("actor", os.environ.get(ACTOR) or _login_name())


def _login_name() -> str:
    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = ""
    return name if name.strip() and name.isprintable() else f"uid-{number}"


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
    observer: Observer | None = None  # who looks at files for him; None: this process does
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

    @property
    def looks(self) -> bool:
        """Whether files can be looked at for him, to tell one place of work from another."""
        return self.observer is None or self.observer.looks

    def acting(
        self,
        *,
        actor: str | None,
        scope: str | None,
        observer: Observer | None = None,
        key_id: str = "",
        scopes: Collection[str] = (),
    ) -> Caller:
        """Somebody else on the same home, who can be looked up by nobody. Raises NameInvalid, Forbidden."""
        who, where, home = self.actor_named(actor), self.scope_named(scope), self.home
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

    def scope_named(self, scope: str | None, tenant: str | None = None) -> str:
        """The scope that is named, else his own. A tenant is only ever the one that the home was opened for.

        Raises NameInvalid, TenantNotFound.
        """
        if tenant not in (None, self.home.tenant):
            own = f"the home was opened for {self.home.tenant!r}"
            raise errors.TenantNotFound(str(tenant), f"{own}; open Outlast(tenant={tenant!r})")
        return self.scope if scope is None else check_name("scope", scope)

    def actor_named(self, actor: str | None) -> str:
        """The actor that is named, else himself. Raises NameInvalid."""
        return self.actor if actor is None else check_name("actor", actor)

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

        def work(tx: Writing) -> None:
            if not _was_sent(tx, digest):
                tx.add_operation(_sent(digest), "content_sent", "", "", self.home.clock.now())

        if self.scopes:
            self.home.store.write(work)


def _sent(digest: str) -> str:
    """The id under which the scopes of who sent content know that: none that a caller can give."""
    return f"content_sent\n{digest}"


def _was_sent(look: Reading, digest: str) -> bool:
    return look.operation(_sent(digest)) is not None


def _is_of_handoff(look: Reading, digest: str) -> bool:
    """Whether a handoff that can be seen refers to it: an anchor has the key of its chain."""
    return any(look.anchor_by_key(key) is not None for key in look.chains_of_blob(digest))


# -- what they accept --------------------------------------------------------------------------------


class Acceptance(NamedTuple):
    """What somebody says for a resume: contested reasons they accept (`code` or `code:subject`), and why."""

    codes: tuple[str, ...] = ()
    why: str = ""
    partial: str = ""  # keep, restore: what to do with partial work; empty: as the steps declare
    by: str = ""  # who resumes it; nobody where it goes on by itself, or because a question was answered

    def takes(self, code: str, subject: str) -> bool:
        return code in self.codes or f"{code}:{subject}" in self.codes


NOTHING_ACCEPTED = Acceptance()


def supposed(accept: Iterable[str], partial: str | None) -> Acceptance:
    """What a resume would take upon itself: for who only asks what it would do. Raises NameInvalid."""
    if partial not in (None, "keep", "restore"):
        raise errors.NameInvalid("partial", str(partial), "use keep or restore")
    return Acceptance((accept,) if isinstance(accept, str) else tuple(accept), "", partial or "")


# -- a write and its repeat --------------------------------------------------------------------------

T = TypeVar("T")


def check_id(operation_id: str | None) -> None:
    """Raises NameInvalid for what is no name of an operation: printable text of at most 500 characters."""
    if operation_id is not None:
        check_name("operation_id", operation_id)


class DoneBefore(NamedTuple):
    """What was remembered of a write that was done before. It is read when the transaction is over."""

    answer: str


class Repeated(Exception):
    """Raised inside a write that was done before, for a caller who gives the first answer his own way."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


class Repeatable:
    """One write by its id (None: it can be repeated freely), with a print of what was asked for."""

    def __init__(self, operation_id: str | None, kind: str, content: Any) -> None:
        self.id, self.kind = operation_id, kind
        self.print = identity(encode([kind, content])) if operation_id is not None else ""

    def answered(self, look: Reading) -> str | None:
        """The first answer, if it was done before. Raises OperationConflict when the id was used for another one."""
        before = look.operation(self.id) if self.id is not None else None
        if before is None:
            return None
        if before[:2] != (self.kind, self.print):
            raise errors.OperationConflict(str(self.id), before[0])
        return before[2]

    def note(self, tx: Writing, answer: str, at: int) -> None:
        """Remember the answer, in the transaction that did it."""
        if self.id is not None:
            tx.add_operation(self.id, self.kind, self.print, answer, at)


def once(
    home: Home,
    operation: Repeatable,
    work: Callable[[Writing], tuple[T, str | None]],
    again: Callable[[str], T],
    plain: PlainStore | None = None,
) -> T:
    """Do `work` in one transaction and give its value; it says what to remember, and `again` makes the value of that.

    With nothing to remember (None) the same may be asked for again.
    `again` looks after the commit: what it reads may have been written in that same one. `plain`: what it mostly comes
    to, of a write that may be repeated freely.
    """

    def guarded(tx: Writing) -> tuple[T | None, str | None]:
        before = operation.answered(tx)
        if before is not None:
            return None, before
        value, answer = work(tx)
        if answer is not None:
            operation.note(tx, answer, home.clock.now())
        return value, None

    value, before = home.store.write(guarded, plain)
    return again(before) if before is not None else cast(T, value)
