"""A session: a conversation of messages, and the memo that may stand for the older ones.

It is no task memory: nothing in a run depends on it. A message is never edited. Messages, and the versions of the memo,
form a chain each: a link covers a record's digest and everything else that it says.

What of a session fits in a number of tokens: the rule, and what a message costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from typing import Any

from outlast.errors import TokenizerInvalid
from outlast.ledger.journal import Break, link
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple, dataclass

ROLES = ("user", "assistant", "system", "tool")  # the usual ones; any other short text is a role too
SYSTEM = "system"
CONTENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """One message, exactly as it was appended."""

    session_id: str
    seq: int  # 1, 2, 3 … without holes
    role: str
    content: Any  # text, or any JSON value
    meta: dict[str, Any]
    run_id: str
    actor: str
    at: datetime
    digest: str  # SHA-256 of the content as JSON
    replayed: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        """The content as a model reads it: text as it is, anything else as JSON."""
        return self.content if isinstance(self.content, str) else encode(self.content).decode()


@dataclass(frozen=True, slots=True)
class Memo:
    """What stands for the messages up to `upto`. An empty text is no memo any more, and stands for nothing."""

    session_id: str
    text: str
    upto: int
    version: int  # counts from 1; set it on condition of this one
    actor: str
    at: datetime
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation, and the runs that were started for it."""

    id: str
    scope: str
    messages: int  # how many, and the seq of the newest
    memo: Memo | None
    runs: tuple[str, ...]  # their ids, the newest first
    meta: dict[str, Any]
    actor: str
    created_at: datetime
    updated_at: datetime
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class TooLarge:
    """A message that was left out because it alone does not fit, and how many tokens it needs."""

    seq: int
    need: int


@dataclass(frozen=True, slots=True)
class Window:
    """What of a session fits in a number of tokens. Nothing in it is cut."""

    session_id: str
    limit: int
    tokens: int  # used, never more than the limit
    memo: Memo | None  # when it fits
    messages: tuple[Message, ...]  # system messages, then the newest others; each oldest first
    covered: int  # messages that are not here because the memo stands for them
    left_out: int  # messages that neither are here nor are covered
    too_large: tuple[TooLarge, ...] = ()  # which were skipped for their size
    memo_need: int = 0  # the tokens that the memo needs, when it did not fit


# -- the chains --------------------------------------------------------------------------------------


class Proof(NamedTuple):
    """A record as the chain sees it: its number, what is hashed, the digest that it carries, and the stored hash."""

    number: int
    header: bytes
    digest: bytes
    content: str
    hash: bytes


def genesis_of_session(scope: str, session_id: str, meta: str, actor: str, at: int) -> tuple[bytes, bytes]:
    """The hashes before the first message and the first memo: they tie the chains to their session."""
    of = encode([scope, session_id, meta, actor, at])
    return sha256(b"outlast session\n" + of).digest(), sha256(b"outlast memos\n" + of).digest()


def digest_of(content: str) -> bytes:
    return sha256(content.encode()).digest()


def message_header(seq: int, role: str, digest: bytes, meta: str, run_id: str, actor: str, at: int) -> bytes:
    """What the chain proves about a message."""
    return encode([seq, role, meta, run_id, actor, at, digest.hex()])


def memo_header(version: int, upto: int, digest: bytes, actor: str, at: int) -> bytes:
    """What the chain proves about a memo."""
    return encode([version, upto, actor, at, digest.hex()])


def broken(name: str, start: bytes, proofs: Iterable[Proof], head: int, head_hash: bytes) -> Break | None:
    """The first record of a chain that is not what was stored; None when all are, in their places, none missing."""
    before, expected = start, 1
    for number, header, digest, content, stored in proofs:
        if number != expected:
            return Break(f"{name}/{expected}", f"it is missing (the next one is {number})")
        if link(before, header) != stored:
            return Break(f"{name}/{number}", "what it says of itself, or its place in the chain, was changed")
        if digest_of(content) != digest:
            return Break(f"{name}/{number}", "its content was changed")
        before, expected = stored, number + 1
    if (expected - 1, before) != (head, head_hash):
        first = head + 1 if expected - 1 > head else max(1, min(expected, head))
        return Break(f"{name}/{first}", f"the chain ends at {expected - 1}, recorded was {head}")
    return None


FRAME_TOKENS = 3  # what a model's format puts around a message
SKIPPED = 20  # messages too large to fit that are stepped over; what lies beyond is left out without a look

TokensOf = Callable[[str], int]


def window_of(
    session_id: str,
    limit: int,
    head: int,
    memo: Memo | None,
    system: Iterable[Message],
    newest: Iterable[Message],
    tokens_of: TokensOf,
) -> Window:
    """The memo, the system messages, then the newest others, each whole, as far as the tokens go.

    `system` comes oldest first, `newest` newest first; both are read only as far as needed. The newest messages are
    taken without a gap, but for those that are too large on their own. When the memo is there, the messages that it
    stands for are not.
    """
    filling = _Filling(limit, tokens_of)
    need = filling.need(SYSTEM, memo.text) if memo and memo.text else 0
    kept = memo if need and filling.take(need) else None
    first = filling.each(system)
    floor = kept.upto if kept else 0
    rest = filling.unbroken(message for message in _above(floor, newest) if message.role != SYSTEM)
    covered = floor - sum(message.seq <= floor for message in first)
    return Window(
        session_id=session_id,
        limit=limit,
        tokens=limit - filling.room,
        memo=kept,
        messages=(*first, *reversed(rest)),
        covered=covered,
        left_out=head - covered - len(first) - len(rest),
        too_large=tuple(sorted(filling.skipped)),
        memo_need=0 if kept else need,
    )


def _above(floor: int, newest: Iterable[Message]) -> Iterable[Message]:
    for message in newest:
        if message.seq <= floor:
            return
        yield message


class _Filling:
    """The room that is left, and what was stepped over."""

    def __init__(self, limit: int, tokens_of: TokensOf) -> None:
        self.room, self._tokens_of = limit, tokens_of
        self.skipped: list[TooLarge] = []

    def need(self, role: str, text: str) -> int:
        found = self._tokens_of(f"{role}\n{text}")
        if type(found) is not int or found < 0:
            raise TokenizerInvalid("tokens_of", f"it gave {found!r:.100}", "let it give the number of tokens of a text")
        return found + FRAME_TOKENS

    def take(self, need: int) -> bool:
        if need > self.room:
            return False
        self.room -= need
        return True

    def each(self, messages: Iterable[Message]) -> list[Message]:
        """Each of them that fits."""
        taken: list[Message] = []
        for message in messages:
            need = self.need(message.role, message.text)
            if self.take(need):
                taken.append(message)
            elif not self._skip(message, need, SKIPPED):
                break
        return taken

    def unbroken(self, messages: Iterable[Message]) -> list[Message]:
        """As many as fit one after the other, over those that would not fit even alone."""
        taken: list[Message] = []
        alone, limit = self.room, len(self.skipped) + SKIPPED
        for message in messages:
            need = self.need(message.role, message.text)
            if self.take(need):
                taken.append(message)
            elif need <= alone or not self._skip(message, need, limit):
                break
        return taken

    def _skip(self, message: Message, need: int, limit: int) -> bool:
        self.skipped.append(TooLarge(message.seq, need))
        return len(self.skipped) < limit
