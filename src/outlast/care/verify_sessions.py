"""Whether sessions are what was stored: the part of `verify` that is about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.ledger.journal import Break
from outlast.sessions.session import Proof, broken, genesis_of_session, memo_header, message_header
from outlast.store.contract import MemoRow, MessageRow, Reading, SessionRow
from outlast.store.contract.damaged import damage_of
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Runtime

PAGE = 100


class Checked(NamedTuple):
    """What a look at all sessions found."""

    sessions: int
    breaks: list[Break]


def check_sessions(runtime: Runtime) -> Checked:
    """Walk both chains of every session, one session after the other: no read holds the store up for long."""
    breaks, count, after = runtime.store.read(_without_session), 0, 0

    def following(look: Reading) -> list[tuple[int, list[Break]]]:
        return [(session.key, _breaks(look, session)) for session in look.sessions_after(after, 1)]

    while found := runtime.store.read(following):
        ((after, wrong),) = found
        breaks, count = breaks + wrong, count + 1
    return Checked(count, breaks)


def _without_session(look: Reading) -> list[Break]:
    """What is left of sessions whose own rows are gone. No session is ever removed."""
    gone = [f"messages of session number {key}" for key in look.messages_without_session()]
    gone += [f"memos of session number {key}" for key in look.memos_without_session()]
    return [Break(record, "the session's row is missing") for record in gone]


def _breaks(look: Reading, session: SessionRow) -> list[Break]:
    if why := damage_of(session):
        return [Break(f"session {session.id}", why)]
    whose = session.id if session.scope == "default" else f"{session.id} in scope {session.scope}"
    starts = genesis_of_session(session.scope, session.id, session.meta, session.actor, session.created_at)
    found = (
        broken(f"message {whose}", starts[0], _messages(look, session), session.head, session.hash),
        broken(f"memo {whose}", starts[1], _memos(look, session), session.memos, session.memo_hash),
    )
    return [each for each in found if each is not None]


def _messages(look: Reading, session: SessionRow) -> Iterator[Proof]:
    after = 0
    while page := look.messages_after(session.key, after, PAGE):
        yield from map(_of_message, page)
        after = page[-1].seq


def _memos(look: Reading, session: SessionRow) -> Iterator[Proof]:
    after = 0
    while page := look.memos_after(session.key, after, PAGE):
        yield from map(_of_memo, page)
        after = page[-1].version


def _of_message(row: MessageRow) -> Proof:
    if damage_of(row):
        return Proof(row.seq, b"", row.digest, row.content, row.hash)
    header = message_header(row.seq, row.role, row.digest, row.meta, row.run_id, row.actor, row.at)
    return Proof(row.seq, header, row.digest, row.content, row.hash)


def _of_memo(row: MemoRow) -> Proof:
    if damage_of(row):
        return Proof(row.version, b"", row.digest, row.text, row.hash)
    header = memo_header(row.version, row.upto, row.digest, row.actor, row.at)
    return Proof(row.version, header, row.digest, row.text, row.hash)
