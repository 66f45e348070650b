"""What is written in one go leaves in one call of the system.

Each such call lets the interpreter go, and while runs are at work one of their threads takes it: a loop that asks the
system four times for an answer waits four times. So the head of an answer leaves together with its body, and where a
connection comes from and leads to is asked once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

HELD_BYTES = 16 << 10  # so much waits for what follows it, until the next round of the loop at most


class OneWrite:
    """A transport that holds what is written until the answer ends; the rest is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self.is_closing, self.abort = transport.is_closing, transport.abort
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def write(self, data: bytes) -> None:
        """Write it, soon."""
        if not self._held and data:
            self._loop.call_soon(self.flush)
        self._held += data
        if len(self._held) >= HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held, now."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def get_extra_info(self, name: str) -> Any:
        """What is known of the connection. Not its socket, which would be asked for both addresses again."""
        found = None if name == "socket" else self._transport.get_extra_info(name)
        return found[:2] if name in ("peername", "sockname") and isinstance(found, tuple) else found
