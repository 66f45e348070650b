"""How a named statement is run on a connection: what every noun of the store is read and written by."""

from __future__ import annotations

from typing import Any

import apsw


class Rows:
    """Named statements on one connection."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.sql = sql

    def _one(self, name: str, *values: Any) -> Any:
        return next(iter(self.execute(self.sql[name], values)), None)

    def _all(self, name: str, *values: Any) -> list[Any]:
        return list(self.execute(self.sql[name], values))
