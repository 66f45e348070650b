"""Hears what other processes write, on a connection of its own: who waits is told at once, and need not ask.

Every piece of work says so when it commits (NOTIFY); appends do not, which change nothing that anybody waits for. Where
notifications do not arrive, as behind a pooler that lends connections by the transaction, that is noticed: a word of
our own is not heard, and who waits goes on asking.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from select import select

from psycopg import Error as DriverError
from psycopg.sql import SQL, Identifier

from outlast.ids import random_id
from outlast.store.postgres.connection import Link, connect

PROBE_SECONDS = 30.0  # between two words of our own, and how long one is waited for
LOOK_SECONDS = 0.5  # between two looks at whether it is to end
AGAIN_SECONDS = 1.0  # before a lost connection is made anew


def channel_of(schema: str) -> str:
    """The channel of a tenant."""
    return f"{schema} written"


class Listener:
    """One thread that listens until it is closed. `hears` is whether what is said arrives."""

    def __init__(self, url: str, schema: str, tell: Callable[[], None]) -> None:
        self._url, self._schema, self._tell = url, schema, tell
        self._ending, self.hears = threading.Event(), False
        self._thread = threading.Thread(target=self._live, name="outlast-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._ending.set()
        self._thread.join(2)

    def _live(self) -> None:
        while not self._ending.is_set():
            with suppress(DriverError, OSError), connect(self._url, self._schema) as connection:
                self._listen(connection)
            self.hears = False
            self._ending.wait(AGAIN_SECONDS)

    def _listen(self, connection: Link) -> None:
        channel = channel_of(self._schema)
        connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
        while not self._ending.is_set():
            word = random_id()
            with connect(self._url, self._schema) as other:  # what a session says to itself proves nothing
                other.execute("SELECT pg_notify($1, $2)", (channel, word))
            self.hears = self._heard(connection, word)

    def _heard(self, connection: Link, word: str) -> bool:
        """Tell of all that is heard until the next probe is due; whether our own word was among it."""
        found, until = False, time.monotonic() + PROBE_SECONDS
        while time.monotonic() < until and not self._ending.is_set():
            for note in connection.notifies(timeout=0):
                found = found or note.payload == word
                self.hears = self.hears or found
                self._tell()
            select([connection.fileno()], [], [], LOOK_SECONDS)  # the driver's own wait wakes ten times a second
        return found
