"""A connection to PostgreSQL, how a named statement is run on it, and its errors in our words.

A text of PostgreSQL has no NUL, and ours may: NUL and the character after it are written as two characters each, so
that texts keep their order. Numbers are always of eight bytes, so that a statement is prepared once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

from psycopg import Connection, Cursor, OperationalError, RawCursor, errors
from psycopg import Error as DriverError
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format
from psycopg.sql import SQL, Identifier
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper

from outlast.errors import DiskFull, Invalid, OutlastError, StoreBusy, StoreFailed, StoreReadOnly
from outlast.ids import random_id
from outlast.store.nouns.rows import Rows, WrittenRows, statements

logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # what it says is ours to say
R = TypeVar("R", bound=tuple[Any, ...])
Link = Connection[tuple[Any, ...]]

BUSY_SECONDS = 60
STOPPED_SECONDS = 15  # so long a process that was stopped within a transaction keeps others from writing
_NOTICING = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_COMING = ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections")
_ODD = re.compile("[\0\1]")
_KEPT = re.compile("\1([\1\2])")


class TextDumper(Dumper):
    oid = 0  # the statement says what it is compared with

    def dump(self, obj: str) -> Buffer:
        return as_text(obj)


class BinaryTextDumper(TextDumper):
    """Of texts in a list, whose kind has to be said."""

    format = Format.BINARY
    oid = 25


class TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        text = bytes(data).decode()
        return _KEPT.sub(lambda found: "\0" if found[1] == "\1" else "\1", text) if "\1" in text else text


class BinaryTextLoader(TextLoader):
    format = Format.BINARY


def as_text(text: str) -> bytes:
    """A text as the server has it."""
    if "\0" in text or "\1" in text:
        text = _ODD.sub(lambda found: "\1\1" if found[0] == "\0" else "\1\2", text)
    return text.encode()


@cache
def named_statements() -> dict[str, str]:
    """Every statement with numbered parameters, as the server takes them."""
    return {name: numbered(text) for name, text in statements("postgres").items()}


def numbered(text: str) -> str:
    """A statement with numbered parameters."""
    parts = re.sub(r"--.*", "", text).strip().split("?")
    return parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], 1))


def connect(url: str, schema: str) -> Link:
    """A connection of which every statement is a transaction of its own, unless one is begun."""
    connection: Link = Connection.connect(
        noticing(url), autocommit=True, cursor_factory=RawCursor, client_encoding="utf8"
    )
    set_up(connection, schema)
    return connection


def noticing(url: str) -> str:
    """The same place, where a machine that vanished without a word is given up within half a minute, unless the URL
    says otherwise: by the kernel's own times that is after a quarter of an hour, or after two hours."""
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: said for name, said in _NOTICING.items() if name not in given})


def set_up(connection: Link, schema: str) -> None:
    adapters = connection.adapters
    adapters.register_dumper(str, BinaryTextDumper)
    adapters.register_dumper(str, TextDumper)  # the last one is taken where a value stands alone
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(bytes, BytesBinaryDumper)
    adapters.register_dumper(list, ListBinaryDumper)
    for loader in (TextLoader, BinaryTextLoader):
        adapters.register_loader("text", loader)
    connection.execute(
        SQL(
            "SET search_path TO {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {};"
            "SET bytea_output = 'hex'; SET standard_conforming_strings = on"
        ).format(Identifier(schema), BUSY_SECONDS * 1000, STOPPED_SECONDS * 1000)
    )


class PostgresRows(Rows):
    """Lookups."""

    def __init__(self, connection: Link, sql: dict[str, str]) -> None:
        super().__init__(sql)
        self.connection = connection
        self._cursor = connection.cursor(binary=True)
        self.execute = self._cursor.execute

    def _one(self, name: str, *values: Any) -> Any:
        cursor = self._cursor.execute(self.sql[name], values)
        return cursor.fetchone() if cursor.description else None

    def _all(self, name: str, *values: Any) -> list[Any]:
        return self._cursor.execute(self.sql[name], values).fetchall()

    def _all_at_once(self, kind: type[R], name: str, *values: Any) -> list[Any]:
        return self._all(name, *values)

    def _listed(self, values: Sequence[str]) -> list[str]:
        return list(values)


class PostgresWrites(PostgresRows, WrittenRows):
    """The same inside a transaction, with what writing needs.

    A statement that answers nothing is not waited for: it is put off, and goes with the next one that does, in one way
    to the server and back. What is wrong with it is raised then.
    """

    def __init__(self, connection: Link, sql: dict[str, str]) -> None:
        super().__init__(connection, sql)
        self._silent = _silent_names()
        self._put_off: list[tuple[str, Sequence[Any]]] = []
        self.execute = self.do = self._execute

    def _one(self, name: str, *values: Any) -> Any:
        if name in self._silent:
            return self.put_off(self.sql[name], values)
        cursor = self._execute(self.sql[name], values)
        return cursor.fetchone() if cursor.description else None

    def _all(self, name: str, *values: Any) -> list[Any]:
        return self._execute(self.sql[name], values).fetchall()

    def do_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self.send_put_off()
        self._cursor.executemany(sql, list(rows))

    def changes(self) -> int:
        self.send_put_off()
        return self._cursor.rowcount

    def put_off(self, text: str, values: Sequence[Any] = ()) -> None:
        self._put_off.append((text, values))

    def forget_put_off(self) -> None:
        """What they were part of is undone."""
        self._put_off.clear()

    def send_put_off(self) -> None:
        """Send what was put off, and wait for it."""
        if self._put_off:
            self._execute(*self._put_off.pop())

    def _execute(self, text: str, values: Sequence[Any] = (), prepare: bool | None = None) -> Cursor[tuple[Any, ...]]:
        if not self._put_off:
            return self._cursor.execute(text, values, prepare=prepare)
        before, self._put_off = self._put_off, []
        with self.connection.pipeline():
            for each in before:
                self._cursor.execute(*each)
            return self._cursor.execute(text, values, prepare=prepare)


@cache
def _silent_names() -> frozenset[str]:
    """Statements that answer nothing but how many rows they changed, which is asked for by itself."""
    changes = ("INSERT ", "UPDATE ", "DELETE ")
    found = named_statements().items()
    return frozenset(name for name, text in found if text.startswith(changes) and "RETURNING" not in text)


def translate(error: DriverError, place: str, busy_seconds: float = BUSY_SECONDS) -> OutlastError:
    """Our error for a driver's: the only place where they meet."""
    match error:
        case errors.LockNotAvailable() | errors.QueryCanceled():
            return StoreBusy(place, busy_seconds)
        case errors.DiskFull() | errors.OutOfMemory():
            return DiskFull(place)
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return StoreReadOnly(place, _said(error))
        case errors.CheckViolation():
            return StoreFailed(place, f"CHECK constraint: {_said(error)}")
        case errors.UniqueViolation():
            return StoreFailed(place, f"UNIQUE constraint: {_said(error)}")
        case _:
            return StoreFailed(place, f"{type(error).__name__}: {_said(error)}")


def is_away(error: OperationalError) -> bool:
    """Whether a connection was not made because there is no server now, and not because it refused us."""
    said = str(error)
    return "FATAL:" not in said or any(word in said for word in _COMING)


def place_of(url: str, schema: str) -> str:
    """Where it is, for people: without a password."""
    given = conninfo_to_dict(url)
    where = ":".join(str(given[part]) for part in ("host", "port") if given.get(part))
    return f"postgresql://{where}/{given.get('dbname', '')} ({schema})"


def _said(error: DriverError) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())


# -- a pooler that lends connections by the transaction ----------------------------------------------


WHY = "a pooler before it lends connections by the transaction: connect directly, or set its pool_mode to session"
_SET = SQL("SET outlast.session = {}")
_ASK = "SELECT current_setting('outlast.session', true)"
TIMES = 3  # others may take the connection that was ours, and give it back, between two questions


def refuse_lent(connection: Link, backend_pid: int, url: str, schema: str, place: str) -> None:
    """Raises Invalid where a session is not ours alone: what is set for it would be somebody else's, and a tenant's
    statements would find another one's tables.

    Asked only where somebody stands in between: who serves us is another than the one that we were told of.
    """
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
