"""The server's log: one JSON object a line, without queries, bodies, headers or keys; what looks secret is masked."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

Write = Callable[[bytes], None]


def to_stderr(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


class Log:
    """Writes lines."""

    def __init__(self, write: Write | None = None) -> None:
        self._write = write or to_stderr

    def line(self, level: str, **fields: Any) -> None:
        """One line. Fields without a value are left out."""
        told = {"ts": datetime.now(UTC), "level": level, **{name: each for name, each in fields.items() if each}}
        try:
            self._write(msgspec.json.encode(told) + b"\n")
        except OSError:
            return  # a log that cannot be written must not end a request that was answered

    def failed(self, error: BaseException, **fields: Any) -> None:
        """An error that nobody foresaw, with where it came from."""
        from outlast.secrets.find import mask

        where = "".join(traceback.format_exception(error, limit=-12))
        self.line("error", **fields, error=mask(f"{type(error).__name__}: {error}"), trace=mask(where))


class Handler(logging.Handler):
    """Takes what uvicorn and others say by Python's logging."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        from outlast.secrets.find import mask

        said = mask(record.getMessage())
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failed(record.exc_info[1], logger=record.name, message=said)
        else:
            self._log.line(record.levelname.lower(), logger=record.name, message=said)
