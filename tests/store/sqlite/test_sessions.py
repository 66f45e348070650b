"""Sessions in the store: pages come by an index without sorting."""

import apsw
import pytest

from outlast.store.contract import MessageRow, SessionRow
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, outsider
from .test_schema import plan

NEW = SessionRow(0, "default", "s", "{}", "local", 0, bytes(32), 0, bytes(32), 1, 1)


def message(seq: int) -> MessageRow:
    return MessageRow(seq, "user", '"x"', bytes(32), "{}", "", "local", seq, bytes(32))


def test_a_number_is_given_once(store: SqliteStore) -> None:
    """Whatever a caller does, the file itself has no two messages of one number."""
    begin(store, "run1")
    session = store.write(lambda tx: tx.add_session(NEW))
    store.write(lambda tx: tx.add_messages(session, [message(1)]))
    with outsider(store.place) as connection, pytest.raises(apsw.ConstraintError):
        connection.execute(
            "INSERT INTO messages SELECT NULL, session, seq, role, content, digest, meta, run_id, actor, at, hash"
            " FROM messages"
        )


@pytest.mark.parametrize(
    "name",
    ["messages_after", "messages_before", "system_messages_after", "memos_after", "newest_sessions", "runs_of_session"],
)
def test_pages_come_in_order_without_sorting(name: str) -> None:
    assert not any("TEMP B-TREE" in line for line in plan(name))


def test_system_messages_have_an_index_of_their_own() -> None:
    assert any("system_messages" in line for line in plan("system_messages_after"))
