"""Faults of the disk under a ledger in PostgreSQL: its server raises them, where entries are written or committed."""

from pathlib import Path
from typing import Any

import apsw
import psycopg

from ..kit import by_url
from .power import Fault

CODES = {apsw.SQLITE_FULL: "53100", apsw.SQLITE_READONLY: "25006"}  # disk_full, read_only_sql_transaction
OTHER = "58030"  # io_error
# A sequence counts, because nothing that fails is kept in a table. What is deferred is raised by COMMIT.
MAKE = """
CREATE TABLE of_sqlite.fault (code text, times bigint);
CREATE SEQUENCE of_sqlite.struck;
CREATE FUNCTION of_sqlite.strike() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE fault of_sqlite.fault;
BEGIN
  SELECT * INTO fault FROM of_sqlite.fault;
  IF nextval('of_sqlite.struck') <= fault.times THEN
    RAISE EXCEPTION 'a fault of the disk' USING ERRCODE = fault.code;
  END IF;
  RETURN NEW;
END $$;
"""
WHEN = {
    "write": "CREATE TRIGGER fault BEFORE INSERT ON outlast_default.journal",
    "sync": "CREATE CONSTRAINT TRIGGER fault AFTER INSERT ON outlast_default.journal DEFERRABLE INITIALLY DEFERRED",
}


class FaultTables:
    """What a FaultVFS is to a file: faults that are armed strike whoever writes."""

    def __init__(self, home: Path) -> None:
        url = by_url.homes_by_url().url_for(home)
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._connection.execute(MAKE.encode())
        self._armed: Fault | None = None

    def arm(self, fault: Fault) -> Fault:
        assert not fault.reached, "whoever is told of a failure by PostgreSQL has nothing written"
        times = (1 << 62) if fault.count is None else fault.count
        self._connection.execute("INSERT INTO of_sqlite.fault VALUES (%s, %s)", (CODES.get(fault.code, OTHER), times))
        self._connection.execute(f"{WHEN[fault.kind]} FOR EACH ROW EXECUTE FUNCTION of_sqlite.strike()".encode())
        self._armed = fault
        return fault

    def disarm(self) -> None:
        """As if there had been none: a trigger is none of a ledger's, and `verify` names it."""
        row = self._connection.execute("SELECT is_called::int FROM of_sqlite.struck").fetchone()
        if self._armed is not None and row is not None:
            self._armed.fired += row[0]
        self._armed = None
        self._connection.execute("DELETE FROM of_sqlite.fault")
        self._connection.execute("DROP TRIGGER IF EXISTS fault ON outlast_default.journal")

    def unregister(self) -> None:
        self._connection.close()
