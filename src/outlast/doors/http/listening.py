"""Where a server listens, and whether it may: a socket, and keys for who comes from elsewhere."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

from outlast.errors import AddressTaken, KeysNeeded
from outlast.home.keys import Keys

BACKLOG = 512


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: on a free one. Raises AddressTaken."""
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio sets TCP_NODELAY by it
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        opened.close()
        why = getattr(error, "strerror", None) or str(error)
        raise AddressTaken(f"{host}:{port}", why.lower()) from error
    opened.setblocking(False)
    return opened


def address_of(opened: socket.socket) -> str:
    """Where a listening socket can be reached, as a URL."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def refuse_open_door(home: Path, host: str, *, require_key: bool = False) -> None:
    """Raises KeysNeeded for a server that needs keys, as one that others can reach does, while nobody has one."""
    why = f"{host} can be reached from other machines" if not is_loopback(host) else "--require-key was given"
    keys = Keys(home)
    try:
        if (require_key or not is_loopback(host)) and not keys.is_any_usable():
            raise KeysNeeded(why, str(home))
    finally:
        keys.close()
