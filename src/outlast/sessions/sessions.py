"""Sessions: append, read, fit into a window, sum up in a memo.

A message's number is given inside the transaction that writes it, so numbers have no holes and no doubles, whoever
writes at once. Nothing here is read by a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import MemoConflict, SessionExists, SessionNotFound, ValueRefused
from outlast.home import caller as operations
from outlast.home.caller import DoneBefore, Repeatable
from outlast.home.home import Home
from outlast.ledger.journal import link
from outlast.sessions.session import (
    Memo,
    Message,
    MessageDraft,
    Session,
    TokensOf,
    Window,
    digest_of,
    genesis_of_session,
    memo_header,
    message_header,
    window_of,
)
from outlast.store.contract import MemoRow, MessageRow, Reading, SessionRow, Writing, every_row
from outlast.values.codec import decode, encode, value_of
from outlast.values.tokens import counter

PAGE = 20


class SessionCall(Struct, frozen=True):
    """Which session is meant, and who asks."""

    scope: str
    session_id: str
    actor: str = ""


# -- writing -----------------------------------------------------------------------------------------


def open_(home: Home, asked: SessionCall, meta: str | None, operation_id: str | None) -> Session:
    """The session, made if there is none. Raises SessionExists when it was made with other meta, OperationConflict."""
    operation = Repeatable(operation_id, "session_open", [asked.scope, asked.session_id, meta])

    def work(tx: Writing) -> tuple[str | DoneBefore, str]:
        named = asked if asked.session_id else replace(asked, session_id=home.ids())
        row = _made(home, tx, named, meta or "{}")
        if meta is not None and decode(row.meta) != decode(meta):
            raise SessionExists(row.id, row.meta)
        return row.id, row.id

    done = operations.once(home, operation, work, DoneBefore)
    session_id = done.answer if isinstance(done, DoneBefore) else done
    found = get(home, replace(asked, session_id=session_id))
    return replace(found, replayed=True) if isinstance(done, DoneBefore) else found


def append(home: Home, asked: SessionCall, drafts: Sequence[MessageDraft], operation_id: str | None) -> list[Message]:
    """Append messages, all or none, durable when this returns. The first one makes the session."""
    prints = [[draft.role, digest_of(draft.content).hex(), draft.meta, draft.run_id] for draft in drafts]
    operation = Repeatable(operation_id, "session_append", [asked.scope, asked.session_id, asked.actor, prints])

    def work(tx: Writing) -> tuple[list[MessageRow] | DoneBefore, str]:
        session = _made(home, tx, asked)
        rows = list(_chained(session, drafts, asked.actor, home.clock.now()))
        tx.add_messages(session, rows)
        return rows, encode([rows[0].seq, len(rows)]).decode()

    done = operations.once(home, operation, work, DoneBefore)
    if not isinstance(done, DoneBefore):
        return [_message(asked, row) for row in done]
    first, count = decode(done.answer)
    return [replace(each, replayed=True) for each in messages(home, asked, first - 1, count)]


def set_memo(
    home: Home, asked: SessionCall, text: str, upto: int | None, expected: int | None, operation_id: str | None
) -> Memo:
    """The memo from now on (`text` is JSON). Raises SessionNotFound, MemoConflict, ValueRefused, OperationConflict."""
    asks = [asked.scope, asked.session_id, asked.actor, text, upto, expected]
    operation = Repeatable(operation_id, "session_memo", asks)

    def work(tx: Writing) -> tuple[MemoRow | DoneBefore, str]:
        session, before = _found(tx, asked)
        if expected is not None and expected != session.memos:
            raise MemoConflict(session.id, expected, session.memos)
        stands_for = _upto(session, before, text, upto)
        at = home.clock.now()
        version, digest = session.memos + 1, digest_of(text)
        hash_ = link(session.memo_hash, memo_header(version, stands_for, digest, asked.actor, at))
        row = MemoRow(version, stands_for, text, digest, asked.actor, at, hash_)
        tx.add_memo(session, row)
        return row, str(row.version)

    done = operations.once(home, operation, work, DoneBefore)
    if not isinstance(done, DoneBefore):
        return _memo(asked, done)
    version = int(done.answer)
    (row,) = home.store.read(lambda look: look.memos_after(_found(look, asked)[0].key, version - 1, 1))
    return replace(_memo(asked, row), replayed=True)


def _made(home: Home, tx: Writing, asked: SessionCall, meta: str = "{}") -> SessionRow:
    found = tx.session_of(asked.scope, asked.session_id)
    if found is not None:
        return found
    at = home.clock.now()
    who = asked.scope, asked.session_id, meta, asked.actor
    messages, memos = genesis_of_session(*who, at)
    return tx.add_session(SessionRow(0, *who, 0, messages, 0, memos, at, at))


def _chained(session: SessionRow, drafts: Sequence[MessageDraft], actor: str, at: int) -> Iterator[MessageRow]:
    before = session.hash
    for seq, (role, content, meta, run_id) in enumerate(drafts, session.head + 1):
        digest = digest_of(content)
        before = link(before, message_header(seq, role, digest, meta, run_id, actor, at))
        yield MessageRow(seq, role, content, digest, meta, run_id, actor, at, before)


def _upto(session: SessionRow, before: MemoRow | None, text: str, upto: int | None) -> int:
    """The messages that a memo stands for: those that are named, else as many as the one before it."""
    if text == '""':
        if upto:
            raise ValueRefused("upto", "an empty memo stands for nothing", "leave it out")
        return 0
    if upto is None:
        return before.upto if before else 0
    if upto > session.head:
        raise ValueRefused("upto", f"the newest message is {session.head}, not {upto}", "name one that is there")
    return upto


# -- looking -----------------------------------------------------------------------------------------


def get(home: Home, asked: SessionCall) -> Session:
    """A session with its memo and its runs. Raises SessionNotFound."""
    return home.store.read(lambda look: _session(look, *_found(look, asked)))


def listed(home: Home, scope: str, limit: int, before: str | None = None) -> list[Session]:
    """The sessions of a scope, those that were written to last first; after the one named `before`."""

    def look_at(look: Reading) -> list[Session]:
        place = _found(look, SessionCall(scope, before, ""))[0] if before is not None else None
        rows = look.newest_sessions(scope, limit, place)
        return [_session(look, row, _newest_memo(look, row)) for row in rows]

    return home.store.read(look_at)


def messages(home: Home, asked: SessionCall, after: int, limit: int) -> list[Message]:
    """Messages in order, from the one after `after` on. Raises SessionNotFound."""
    rows = home.store.read(lambda look: look.messages_after(_found(look, asked)[0].key, after, limit))
    return [_message(asked, row) for row in rows]


def last(home: Home, asked: SessionCall, count: int) -> list[Message]:
    """The newest messages, oldest first. Raises SessionNotFound."""

    def look_at(look: Reading) -> list[MessageRow]:
        session = _found(look, asked)[0]
        return look.messages_before(session.key, session.head + 1, count)

    return [_message(asked, row) for row in reversed(home.store.read(look_at))]


def memo(home: Home, asked: SessionCall) -> Memo | None:
    """The newest memo; None when none was ever set. Raises SessionNotFound."""
    row = home.store.read(lambda look: _found(look, asked)[1])
    return _memo(asked, row) if row else None


def window(home: Home, asked: SessionCall, limit: int, tokens_of: TokensOf | None) -> Window:
    """What of the session, as it is at one moment, fits in that many tokens. Raises SessionNotFound."""
    session, row = home.store.read(lambda look: _found(look, asked))
    memo = _memo(asked, row) if row else None
    system, newest = _system(home, asked, session), _newest(home, asked, session)
    return window_of(session.id, limit, session.head, memo, system, newest, counter(tokens_of))


def _system(home: Home, asked: SessionCall, session: SessionRow) -> Iterator[Message]:
    """The system messages, oldest first. What was appended meanwhile is not among them."""
    read, key = home.store.read, session.key
    rows = every_row(lambda seq: read(lambda look: look.system_messages_after(key, seq, PAGE)), lambda row: row.seq)
    return (_message(asked, row) for row in rows if row.seq <= session.head)


def _newest(home: Home, asked: SessionCall, session: SessionRow) -> Iterator[Message]:
    """All messages, newest first. Each page is a look of its own: no caller's code runs while the store is held."""
    read, key, first = home.store.read, session.key, session.head + 1
    rows = every_row(lambda seq: read(lambda look: look.messages_before(key, seq, PAGE)), lambda row: row.seq, first)
    return (_message(asked, row) for row in rows)


# -- rows as values ----------------------------------------------------------------------------------


def _found(look: Reading, asked: SessionCall) -> tuple[SessionRow, MemoRow | None]:
    row = look.session_of(asked.scope, asked.session_id)
    if row is None:
        raise SessionNotFound(asked.session_id, asked.scope)
    return row, _newest_memo(look, row)


def _newest_memo(look: Reading, session: SessionRow) -> MemoRow | None:
    return next(iter(look.memos_after(session.key, session.memos - 1, 1)), None) if session.memos else None


def _session(look: Reading, row: SessionRow, memo: MemoRow | None) -> Session:
    said = _memo(SessionCall(row.scope, row.id), memo) if memo else None
    return value_of(Session, row, messages=row.head, memo=said, runs=tuple(look.runs_of_session(row.scope, row.id)))


def _message(asked: SessionCall, row: MessageRow) -> Message:
    return value_of(Message, row, session_id=asked.session_id, digest=row.digest.hex())


def _memo(asked: SessionCall, row: MemoRow) -> Memo:
    return Memo(asked.session_id, decode(row.text), row.upto, row.version, row.actor, moment(row.at))
