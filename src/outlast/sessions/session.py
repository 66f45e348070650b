"""A session: a conversation of messages, and the memo that may stand for the older ones.

It is no task memory: nothing in a run depends on it. A message is never edited. Messages, and the versions of the memo,
form a chain each: a link covers a record's digest and everything else that it says. What is given to a session is
checked and made JSON here (`read_message`, `read_meta`) before anything is written; what does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import takewhile
from typing import Any

from msgspec import Struct

from outlast.errors import NameInvalid, TokenizerInvalid, ValueRefused
from outlast.home.place import check_name
from outlast.ledger.journal import Break, link
from outlast.values.codec import encode, pack_json
from outlast.values.frozen import Compared, NamedTuple

ROLES = ("user", "assistant", "system", "tool")  # the usual ones; any other short text is a role too
SYSTEM = "system"
CONTENT_BYTES = 1 << 20


class Message(Compared, frozen=True):
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
    replayed: bool = False

    @property
    def text(self) -> str:
        """The content as a model reads it: text as it is, anything else as JSON."""
        return self.content if isinstance(self.content, str) else encode(self.content).decode()


class Memo(Compared, frozen=True):
    """What stands for the messages up to `upto`. An empty text is no memo any more, and stands for nothing."""

    session_id: str
    text: str
    upto: int
    version: int  # counts from 1; set it on condition of this one
    actor: str
    at: datetime
    replayed: bool = False


class Session(Compared, frozen=True):
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
    replayed: bool = False


class TooLarge(Struct, frozen=True, order=True):
    """A message that was left out because it alone does not fit, and how many tokens it needs."""

    seq: int
    need: int


class Window(Struct, frozen=True):
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
    above = takewhile(lambda message: message.seq > floor, newest)
    others = (message for message in above if message.role != SYSTEM)
    rest = filling.each(others, unbroken=True)
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

    def each(self, messages: Iterable[Message], *, unbroken: bool = False) -> list[Message]:
        """Each of them that fits; or as many as fit one after the other, over those that would not fit even alone."""
        taken: list[Message] = []
        alone, limit = self.room, len(self.skipped) + SKIPPED
        for message in messages:
            need = self.need(message.role, message.text)
            if self.take(need):
                taken.append(message)
            elif (unbroken and need <= alone) or not self._skip(message, need, limit):
                break
        return taken

    def _skip(self, message: Message, need: int, limit: int) -> bool:
        self.skipped.append(TooLarge(message.seq, need))
        return len(self.skipped) < limit


# -- what is given, checked --------------------------------------------------------------------------


ROLE_LENGTH = 64
META_BYTES = 1 << 16
AT_ONCE = 1_000
AT_ONCE_BYTES = 8 << 20
_FIELDS = ("role", "content", "meta", "run_id")
_JSON = "give text, or JSON values (dict with text keys, list, str, int, float, bool, None)"
_ELSEWHERE = "keep it in a file, and a reference to it here"


class MessageDraft(NamedTuple):
    """A message before it has its number; content and meta are JSON."""

    role: str
    content: str
    meta: str
    run_id: str


def read_message(role: str, content: Any, meta: Mapping[str, Any] | None, run_id: str, path: str = "") -> MessageDraft:
    """A message that can be stored as it is. Raises NameInvalid, ValueRefused."""
    raw = _json(content, f"{path}content", CONTENT_BYTES, _ELSEWHERE)
    name = check_name(f"{path}role", role)
    if len(name) > ROLE_LENGTH:
        why = f"it has {len(name)} characters; the limit is {ROLE_LENGTH}. The usual ones are {', '.join(ROLES)}"
        raise NameInvalid(f"{path}role", name, why)
    return MessageDraft(name, raw, read_meta(meta, f"{path}meta"), _run_id(run_id, path))


def read_messages(given: Sequence[Mapping[str, Any]]) -> list[MessageDraft]:
    """Messages to append at once. Raises NameInvalid, ValueRefused."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ValueRefused("messages", f"{type(given).__qualname__} is no list", "give a list of messages")
    if len(given) > AT_ONCE:
        raise ValueRefused("messages", f"they are {len(given):,}; the limit is {AT_ONCE:,}", "append them in parts")
    found = [_read_one(each, f"messages[{place}]") for place, each in enumerate(given)]
    size = sum(len(each.content.encode()) for each in found)
    if size > AT_ONCE_BYTES:
        why = f"together they are {size:,} bytes of JSON; the limit is {AT_ONCE_BYTES:,}"
        raise ValueRefused("messages", why, "append them in parts")
    return found


def _read_one(given: Mapping[str, Any], path: str) -> MessageDraft:
    form = '{"role": …, "content": …}, and if you like "meta" and "run_id"'
    if not isinstance(given, Mapping):
        raise ValueRefused(path, f"{type(given).__qualname__} is no message", f"give {form}")
    for name in given:
        if name not in _FIELDS:
            raise ValueRefused(f"{path}[{name!r}]", "a message has no such field", f"give {form}; put it into meta")
    for name in _FIELDS[:2]:
        if name not in given:
            raise ValueRefused(f"{path}[{name!r}]", "it is missing", f"give {form}")
    return read_message(given["role"], given["content"], given.get("meta"), given.get("run_id", ""), f"{path}.")


def read_meta(given: Mapping[str, Any] | None, path: str = "meta") -> str:
    """Meta as JSON: an object of at most 64 KiB."""
    if not isinstance(given, Mapping | None):
        raise ValueRefused(path, f"{type(given).__qualname__} is no object", "give a dict with text keys")
    return _json(dict(given or {}), path, META_BYTES, _ELSEWHERE)


def read_memo(text: str) -> str:
    """A memo's text as JSON."""
    if not isinstance(text, str):
        raise ValueRefused("text", f"{type(text).__qualname__} is no text", "give the memo as text")
    return _json(text, "text", CONTENT_BYTES, "make it shorter")


def number(name: str, value: int) -> int:
    """A count, a seq or a version: from 0 on."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueRefused(name, f"{value!r:.100} is no such number", "give a whole number from 0 on")
    return value


def _json(value: Any, path: str, limit: int, remedy: str) -> str:
    try:
        raw = pack_json(value, path)
    except ValueRefused as error:
        raise ValueRefused(error.path, error.why, _JSON) from error
    if len(raw) > limit:
        raise ValueRefused(path, f"it is {len(raw):,} bytes of JSON; the limit is {limit:,}", remedy)
    return raw.decode()


def _run_id(run_id: str, path: str) -> str:
    return check_name(f"{path}run_id", run_id) if run_id != "" else ""
