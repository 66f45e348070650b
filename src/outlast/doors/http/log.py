"""The server's log: one JSON object a line, without queries, bodies, headers or keys; what looks secret is masked.

However much happens, the log stays readable: of lines of one kind so many are written within a while, and then one that
says how many more there were. A line has a length, and a connection that broke has no traceback.

And what `/metrics` tells: requests by method, route and status, how long they took, and streams that are open. Labels
are bounded: a route is its template, and no id, tenant or name is ever one.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, field
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total

from outlast.operations.answers import mask

Write = Callable[[bytes], None]
WINDOW_SECONDS = 10.0
OF_A_KIND = 300  # lines within a window
WITH_A_TRACE = 5
IN_ALL = {"info": 3000}  # by level; of the others
OTHERS_IN_ALL = 500
ALIKE = ("logger", "kind", "route", "status")  # lines of one kind have the same of these
KINDS = 500  # that are told apart within a window; all further ones count as one
TEXT_LENGTH, TRACE_LENGTH = 1000, 6000
OF_RUNS = ("run", "task", "flow", "step", "attempt")  # what our own records carry as fields


def to_stderr(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


class _Kind(Struct):
    """What was written of one kind within the window, and what was not."""

    level: str
    fields: dict[str, Any]
    written: int = 0
    left_out: int = 0


class _Window(Struct):
    """A while of the log."""

    began: float
    written: Counter[str] = field(default_factory=Counter)  # by level
    kinds: dict[Hashable, _Kind] = field(default_factory=dict)


class RequestLog:
    """Writes lines, so many and no more. It may be used by several threads."""

    def __init__(self, write: Write | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write or to_stderr, clock
        self._lock = threading.Lock()
        self._window = _Window(clock())

    def line(self, level: str, **fields: Any) -> None:
        """One line, unless there were too many like it. Fields without a value are left out."""
        self._told(level, OF_A_KIND, fields)

    def failed(self, error: BaseException, **fields: Any) -> None:
        """An error that nobody foresaw, with where it came from."""
        if isinstance(error, OSError):  # of a connection, or for want of files: where it came from is the loop
            self.line("error", **fields, error=mask(f"{type(error).__name__}: {error}"))
            return
        where = "".join(traceback.format_exception(error, limit=-12))[-TRACE_LENGTH:]
        said = mask(f"{type(error).__name__}: {error}"[:TEXT_LENGTH])
        self._told("error", WITH_A_TRACE, {**fields, "error": said, "trace": mask(where)})

    def flush(self, *, ends: bool = False) -> None:
        """Say what was left out of the window that is over, or is to be."""
        with self._lock:
            if ends or self._clock() - self._window.began >= WINDOW_SECONDS:
                self._close_window()

    def _told(self, level: str, most: int, fields: dict[str, Any]) -> None:
        with self._lock:
            if self._clock() - self._window.began >= WINDOW_SECONDS:
                self._close_window()
            kind = self._kind_of(level, fields)
            if kind.written >= most or self._window.written[level] >= IN_ALL.get(level, OTHERS_IN_ALL):
                kind.left_out += 1
                return
            kind.written += 1
            self._window.written[level] += 1
            self._put(level, fields)

    def _kind_of(self, level: str, fields: dict[str, Any]) -> _Kind:
        key: Hashable = (level, *map(fields.get, ALIKE), "trace" in fields)
        kinds = self._window.kinds
        if (known := kinds.get(key)) is not None:
            return known
        alike = {name: fields[name] for name in ALIKE if name in fields}
        if len(kinds) >= KINDS:
            key, alike = "others", {}
        return kinds.setdefault(key, _Kind(level, alike))

    def _close_window(self) -> None:
        before, self._window = self._window, _Window(self._clock())
        seconds = max(round(self._window.began - before.began), 1)
        for kind in before.kinds.values():
            if kind.left_out:
                said = f"… and {kind.left_out:,} more like it in the last {seconds} s"
                self._put(kind.level, {**kind.fields, "message": said, "left_out": kind.left_out})

    def _put(self, level: str, fields: dict[str, Any]) -> None:
        told = {name: each for name, each in fields.items() if each and name != "kind"}
        at = datetime.now(UTC)
        line = _line({"ts": at, "level": level, **told})
        if len(line) > TEXT_LENGTH:  # else no text in it is
            line = _line({"ts": at, "level": level, **{name: _short(name, each) for name, each in told.items()}})
        try:
            self._write(line)
        except OSError:
            return  # a log that cannot be written must not end a request that was answered


def _line(told: dict[str, Any]) -> bytes:
    return msgspec.json.encode(told) + b"\n"


def _short(name: str, said: Any) -> Any:
    most = TRACE_LENGTH if name == "trace" else TEXT_LENGTH
    return f"{said[:most]} …" if type(said) is str and len(said) > most else said


class Handler(logging.Handler):
    """Takes what uvicorn and others say by Python's logging."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        said, kind = mask(record.getMessage()[:TEXT_LENGTH]), str(record.msg)[:60]
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failed(record.exc_info[1], logger=record.name, kind=kind, message=said)
        else:
            fields = {name: getattr(record, name, "") for name in OF_RUNS}
            self._log.line(record.levelname.lower(), logger=record.name, kind=kind, message=said, **fields)


# -- numbers -----------------------------------------------------------------------------------------

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTED_TOGETHER = 100  # requests: one alone, between two others, takes several times as long to count


class Metrics:
    """The numbers of one server. Everything happens in its loop."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        make: dict[str, Any] = {"registry": self._registry}
        self._requests = Total("outlast_http_requests", "Requests.", ("method", "route", "status"), **make)
        self._seconds = Histogram(
            "outlast_http_request_seconds", "How long requests took.", ("method", "route"), buckets=BUCKETS, **make
        )
        self.under_way = Gauge("outlast_http_requests_under_way", "Requests that are being answered.", **make)
        self.streams = Gauge("outlast_http_streams", "Event streams that are open.", **make)
        self._answered: list[tuple[str, str, int, float]] = []  # and not counted yet

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._answered.append((method, route, status, seconds))
        if len(self._answered) >= COUNTED_TOGETHER:
            self._count()

    def _count(self) -> None:
        answered, self._answered = self._answered, []
        for (method, route, status), number in Counter(each[:3] for each in answered).items():
            self._requests.labels(method, route, str(status)).inc(number)
        kinds = {each[:2]: self._seconds.labels(*each[:2]) for each in answered}
        for method, route, _, seconds in answered:
            kinds[method, route].observe(seconds)

    def text(self) -> bytes:
        self._count()
        return generate_latest(self._registry)
