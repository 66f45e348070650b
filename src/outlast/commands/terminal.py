"""A terminal for a command that wants one (`pty: true`): nobody sits at it, what is printed on it is the transcript.

Its lines end as the command writes them, what it reads is at an end, and it is as wide as ours. Closing our side hangs
up on whoever is left, as a closed terminal does.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from contextlib import suppress

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
