"""The tables of a ledger in a schema of PostgreSQL, to be taken elsewhere or made of another's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from psycopg.sql import SQL, Composed, Identifier, Literal

from outlast.errors import HomeNotEmpty
from outlast.store.contract import Row, Table
from outlast.store.nouns.rows import statements_of
from outlast.store.postgres.connection import Link, connect, numbered, place_of
from outlast.store.postgres.schema import comment_on, lock_of, migrate, moving_of, schema_of
from outlast.store.sqlite.tables import in_order

OWN = {"schema_version", "counters"}  # of this database alone
SHOWN = "workspace_shown"  # whose numbers are counted in a table
_SQL = {name: numbered(text) for name, text in statements_of("moving").items()}


class SchemaTables:
    """See contract.Tables. Who writes meanwhile waits, and is refused after a while."""

    def __init__(self, url: str, tenant: str) -> None:
        self._tenant, self._schema = tenant, schema_of(tenant)
        self.place = place_of(url, self._schema)
        self._connection = self._connected(url, self._schema)
        self._begin()

    def _connected(self, url: str, schema: str) -> Link:
        connection = connect(url, schema)
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        return connection

    def _begin(self) -> None:
        self._connection.execute("BEGIN")
        self._connection.execute(SQL("SELECT pg_advisory_xact_lock({})").format(lock_of(schema_of(self._tenant))))

    def _ask(self, name: str, *values: object) -> list[Any]:
        return self._connection.execute(_SQL[name], values).fetchall()

    def tables(self) -> list[Table]:
        columns, keys = self._by_table("columns_of_server"), self._by_table("keys_of_server")
        found = [Table(name, tuple(columns[name]), tuple(keys[name])) for name in columns if name not in OWN]
        refers = self._by_table("references_of_server")
        return in_order(found, {each.name: {*refers[each.name]} for each in found})

    def _by_table(self, name: str) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        for table, other in self._ask(name, self._schema):
            found[str(table)].append(str(other))
        return found

    def rows(self, table: Table, after: Row, limit: int) -> list[Row]:
        cursor = self._connection.cursor(binary=True)
        found: list[Row] = cursor.execute(_selected(table, after), (*after, limit)).fetchall()
        return found

    def last_numbers(self) -> dict[str, int]:
        found = {}
        for table, column in self._ask("identities_of_server", self._schema):
            ask = SQL("SELECT last_value, is_called FROM {}").format(self._sequence(table, column))
            ((last, is_called),) = self._connection.execute(ask)
            found[str(table)] = int(last) if is_called else 0
        shown = self._ask("number_shown", SHOWN)
        return found | {SHOWN: int(shown[0][0]) if shown else 0}

    def _sequence(self, table: str, column: str) -> Identifier:
        return Identifier(self._schema, f"{table}_{column}_seq")

    def sealed(self) -> str:
        found = [str(text) for (text,) in self._ask("seals_of_server", self._schema)]
        said = found[0].partition("'it was moved to ")[2] if found else ""
        return said.removesuffix("'; END").replace("''", "'")

    def seal(self, to: str) -> None:
        said = Literal(f"it was moved to {to}")
        body = SQL("BEGIN RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = {}; END").format(said)
        text = body.as_string(self._connection)
        make = "CREATE FUNCTION moved_away() RETURNS trigger LANGUAGE plpgsql AS {}"
        self._connection.execute(SQL(make).format(Literal(text)))
        for table in self.tables():
            self._connection.execute(
                SQL(
                    "CREATE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE ON {} FOR EACH STATEMENT"
                    " EXECUTE FUNCTION moved_away()"
                ).format(Identifier(table.name))
            )
        self._connection.execute("COMMIT")
        self._begin()

    def close(self) -> None:
        self._connection.close()


class NewSchema(SchemaTables):
    """See contract.NewTables: a schema beside its name."""

    def __init__(self, url: str, tenant: str) -> None:
        self._named, self._tenant, self._schema = schema_of(tenant), tenant, moving_of(schema_of(tenant))
        self.place = place_of(url, self._schema)
        self._connection = self._connected(url, self._schema)
        if self._ask("schemas_named", self._named):
            raise HomeNotEmpty(place_of(url, self._named))
        migrate(self._connection, self._schema, self.place, tenant="")
        for table in self.tables():
            self._connection.execute(SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(Identifier(table.name)))

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        values = SQL(", ").join(SQL(f"${number}") for number in range(1, len(table.columns) + 1))
        columns = SQL(", ").join(map(Identifier, table.columns))
        insert = SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})")
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(insert.format(Identifier(table.name), columns, values), rows)

    def clear(self, tables: Sequence[Table], first: Table, after: Row) -> None:
        with self._connection.transaction():
            for table in reversed(tables):
                beyond = SQL(" WHERE {}").format(_beyond(table)) if table == first and after else SQL("")
                gone = SQL("DELETE FROM {}{}").format(Identifier(table.name), beyond)
                self._connection.execute(gone, after if table == first else ())

    def set_last_numbers(self, numbers: dict[str, int]) -> None:
        with self._connection.transaction():
            for table, column in self._ask("identities_of_server", self._schema):
                highest = SQL("SELECT coalesce(max({}), 0) FROM {}").format(Identifier(column), Identifier(table))
                ((last,),) = self._connection.execute(highest)
                last = max(int(last), numbers.get(str(table), 0))
                sequence = self._sequence(table, column).as_string(self._connection)
                self._ask("go_on_counting", sequence, max(last, 1), int(last > 0))
            self._connection.execute("DELETE FROM counters")
            if numbers.get(SHOWN):
                self._connection.execute("INSERT INTO counters VALUES ($1, $2)", (SHOWN, numbers[SHOWN]))

    def publish(self) -> None:
        with self._connection.transaction():
            for table in self.tables():
                self._connection.execute(SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(Identifier(table.name)))
            comment_on(self._connection, self._schema, self._tenant)
            rename = SQL("ALTER SCHEMA {} RENAME TO {}").format(Identifier(self._schema), Identifier(self._named))
            self._connection.execute(rename)


def _beyond(table: Table) -> Composed:
    marks = SQL(", ").join(SQL(f"${number}") for number in range(1, len(table.key) + 1))
    return SQL("({}) > ({})").format(SQL(", ").join(map(Identifier, table.key)), marks)


def _selected(table: Table, after: Row) -> Composed:
    beyond = SQL(" WHERE {}").format(_beyond(table)) if after else SQL("")
    ask = "SELECT {} FROM {}{} ORDER BY {} LIMIT {}"
    columns, key = SQL(", ").join(map(Identifier, table.columns)), SQL(", ").join(map(Identifier, table.key))
    return SQL(ask).format(columns, Identifier(table.name), beyond, key, SQL(f"${len(after) + 1}"))
