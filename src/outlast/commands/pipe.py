"""What a command prints, read as it comes: one thread reads the pipe, or the terminal, so that the command never waits.

What becomes of it is for others: `transcript.py` keeps all that a step prints, and a check's in short.

A terminal for a command that wants one (`pty: true`): nobody sits at it, what is printed on it is the transcript.

Its lines end as the command writes them, what it reads is at an end, and it is as wide as ours. Closing our side hangs
up on whoever is left, as a closed terminal does.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.values.ambient import begin
from outlast.values.late import late

if TYPE_CHECKING:
    import struct
    import termios
else:
    struct, termios = late("struct"), late("termios")  # hardly any command wants a terminal

_END_OF_INPUT = b"\x04" * 16  # for one who asks again
_COLUMNS, _LINES = 80, 24


class Terminal:
    """A pseudo-terminal: `ours` is read, `theirs` is the command's, which opens it by its `path` and so owns it."""

    def __init__(self) -> None:
        self.ours, self.theirs = os.openpty()
        self.path = os.ttyname(self.theirs)
        self._size = (0, 0)
        modes = termios.tcgetattr(self.theirs)
        modes[1] &= ~termios.ONLCR
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.theirs, termios.TCSANOW, modes)
        self.follow()
        os.write(self.ours, _END_OF_INPUT)

    def follow(self) -> None:
        """Be as wide and high as our own terminal is now; whoever runs on it is told by the kernel."""
        size = _our_size()
        if size != self._size:
            self._size = size
            with suppress(OSError):  # it is closed: nobody is left to be told
                fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))


def _our_size() -> tuple[int, int]:
    for stream in (1, 2, 0):
        with suppress(OSError):
            columns, lines = os.get_terminal_size(stream)
            if columns > 0 and lines > 0:
                return columns, lines
    given = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    columns, lines = (int(each) if each.isdecimal() and 0 < int(each) < 1 << 15 else 0 for each in given)
    return columns or _COLUMNS, lines or _LINES


# Large, since what is done with it costs by the piece too; but no larger than memory that is used again and again:
# what is more than 128 KiB the system gives anew each time, and clears it.
CHUNK_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20  # as much as a pipe can hold: read it out, then give up on whoever goes on writing
_LOOK_MS = 100
_SET_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


class Pipe:
    """Hand `writer` to the command, then `begin()`; when the command is over, `finish()`.

    `keep` is given what is read, `idle` is called when nothing comes for a moment, `ended` when nothing more will.
    """

    def __init__(
        self,
        keep: Callable[[bytes], None],
        idle: Callable[[], None] | None = None,
        ended: Callable[[], None] | None = None,
        *,
        terminal: Terminal | None = None,
    ) -> None:
        self.left_open = False  # something outside the command's group still had the pipe when we stopped reading
        self._keep, self._idle, self._ended = keep, idle, ended
        self.terminal = terminal
        self.reader, self.writer = (terminal.ours, terminal.theirs) if terminal else _wide_pipe()
        self._thread: threading.Thread | None = None
        self._stop = False

    def begin(self, name: str, what: str) -> None:
        """Read from now on. Only the command has the writing end then; a terminal it opens itself. Raises NoThread."""
        thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread = begin(thread, what)
        if self.terminal is None:
            self._close_writer()

    def finish(self, timeout: float) -> None:
        """Read to the end. What something outside the group holds open is given up after `timeout` seconds."""
        self._close_writer()
        if self._thread is not None:
            self._thread.join(timeout)
        self.close()

    def close(self) -> None:
        """Stop reading and give the ends back, also when it never began."""
        self._close_writer()
        self._stop = True
        if self._thread is not None:
            self._thread.join()
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1

    def _close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self) -> None:
        self.left_open = not self._reaches_end()
        if self._ended is not None:
            self._ended()

    def _reaches_end(self) -> bool:
        """Pass on what comes. Whether it came to its end: nobody can print any more."""
        waiting, after_stop = select.poll(), 0
        waiting.register(self.reader, select.POLLIN)
        while after_stop < _PIPE_BYTES:
            stopping = self._stop
            if self.terminal is not None:
                self.terminal.follow()
            if waiting.poll(0 if stopping else _LOOK_MS):
                chunk = _read_some(self.reader)
                if not chunk:
                    return True
                after_stop += len(chunk) * stopping
                self._keep(chunk)
            elif stopping:
                return False
            elif self._idle is not None:
                self._idle()
        return False


def _wide_pipe() -> tuple[int, int]:
    ends = os.pipe()
    if _SET_SIZE is not None:
        with suppress(OSError):  # others may have used up what the system allows
            fcntl.fcntl(ends[1], _SET_SIZE, _PIPE_BYTES)
    return ends


def _read_some(reader: int) -> bytes:
    try:
        return os.read(reader, CHUNK_BYTES)
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal that everybody has closed
            return b""
        raise
