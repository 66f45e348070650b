"""`hooks.log` in the home: what a hook could not do, a line each. It stays small, and says nothing of the session."""

from __future__ import annotations

import os
import time

from outlast.values.plain import open_plain
from outlast.values.private import open_file, write_file

LOG = "hooks.log"
MOST_BYTES = 64 << 10


def note(home: str, words: str) -> None:
    """Add a line. Where that cannot be done there is nobody to tell."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f"{at} {' '.join(words.split())[:500]}\n".encode("utf-8", "backslashreplace")
    path = os.path.join(home, LOG)
    try:
        _make_room(path)
        handle = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)
    except OSError:
        return


def _make_room(path: str) -> None:
    """Keep the newer half of a log that is full."""
    if not os.path.isfile(path) or os.path.getsize(path) < MOST_BYTES:
        return
    with open_plain(path) as file:
        file.seek(-MOST_BYTES // 2, os.SEEK_END)
        kept = file.read().partition(b"\n")[2]
    beside = f"{path}.{os.getpid()}"
    write_file(beside, kept)
    os.replace(beside, path)


def words_of(error: BaseException) -> str:
    """An error as the log has it. What others' errors quote is left out: it may be a line of the session."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return f"{code}: {getattr(error, 'detail', '')}"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error.errno}"
    own = type(error).__module__.startswith("outlast.")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}: {error}" if own else f"{type(error).__name__}{where}"
