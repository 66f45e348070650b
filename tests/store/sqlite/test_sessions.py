"""Sessions in the store: older files are brought up to them, and pages come by an index without sorting."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from outlast.store.contract import MessageRow, NewSession
from outlast.store.sqlite.migrate import APPLICATION_ID
from outlast.store.sqlite.open import SqliteStore
from outlast.store.statements import migrations

from ..support import begin, outsider
from .test_schema import plan

Open = Callable[..., SqliteStore]
NEW = NewSession("default", "s", "{}", "local", bytes(32), bytes(32), 1)


def message(seq: int) -> MessageRow:
    return MessageRow(seq, "user", '"x"', bytes(32), "{}", "", "local", seq, bytes(32))


def test_a_file_from_before_sessions_is_brought_up_with_everything_in_it(path: Path, open_store: Open) -> None:
    with outsider(path) as connection:
        for _ in connection.execute("".join(text for number, text in migrations("sqlite") if number < 4)):
            pass
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", 3)
        connection.execute(
            "INSERT INTO runs (id, scope, flow, task, inputs, inputs_digest, status, session, actor, created_at,"
            " updated_at) VALUES ('r1', 'default', 'm:f', 't', '{}', 'd', 'succeeded', 's', 'local', 1, 1)"
        )
    store = open_store()
    session = store.write(lambda tx: tx.add_session(NEW))
    store.write(lambda tx: tx.add_messages(session, [message(1), message(2)]))
    assert store.read(lambda look: look.runs_of_session("default", "s")) == ["r1"]
    found = store.read(lambda look: look.session_of("default", "s"))
    assert found is not None
    assert (found.head, found.updated_at) == (2, 2)


def test_a_number_is_given_once(store: SqliteStore) -> None:
    """Whatever a caller does, the file itself has no two messages of one number."""
    begin(store, "run1")
    session = store.write(lambda tx: tx.add_session(NEW))
    store.write(lambda tx: tx.add_messages(session, [message(1)]))
    with outsider(store.path) as connection, pytest.raises(apsw.ConstraintError):
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
