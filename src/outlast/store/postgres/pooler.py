"""Refuses a pooler that lends connections by the transaction: what is set for a session would be somebody else's, and a
tenant's statements would find another one's tables."""

from __future__ import annotations

from psycopg.sql import SQL

from outlast.errors import Invalid
from outlast.ids import random_id
from outlast.store.postgres.connection import Link, connect

WHY = "a pooler before it lends connections by the transaction: connect directly, or set its pool_mode to session"
_SET = SQL("SET outlast.session = {}")
_ASK = "SELECT current_setting('outlast.session', true)"
TIMES = 3  # others may take the connection that was ours, and give it back, between two questions


def refuse_lent(connection: Link, backend_pid: int, url: str, schema: str, place: str) -> None:
    """Raises Invalid where a session is not ours alone. Asked only where somebody stands in between: who serves
    us is another than the one that we were told of."""
    if connection.info.backend_pid == backend_pid:
        return
    with connect(url, schema) as other:
        for _ in range(TIMES):
            if _is_shared(connection, other):
                for each in (connection, other):
                    each.execute("RESET ALL")
                raise Invalid(detail=f"{place}: {WHY}")


def _is_shared(connection: Link, other: Link) -> bool:
    """Whether one session sees what another has set, or no more what it has set itself."""
    word = random_id()
    connection.execute(_SET.format(word))
    with other.transaction():
        ((seen,),) = other.execute(_ASK)
        if seen == word:  # it may be the only one that there is: nothing is asked beside it
            return True
        ((kept,),) = connection.execute(_ASK)
    return bool(kept != word)
