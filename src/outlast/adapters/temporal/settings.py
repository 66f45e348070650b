"""Where Temporal is, and which homes may be worked on by it. Nothing of its library is loaded here."""

from __future__ import annotations

import ipaddress

from msgspec import Struct

from outlast.errors import EngineRefused, ValueRefused

ADDRESS = "localhost:7233"


class TemporalSettings(Struct, frozen=True, kw_only=True):
    """Defaults fit a server of this machine."""

    address: str = ADDRESS
    namespace: str = "default"
    task_queues: tuple[str, ...] = ()  # that are worked on; none: those of the home's queues that Temporal has
    tls: bool = False
    tls_ca: str = ""  # files
    tls_cert: str = ""
    tls_key: str = ""
    tls_server_name: str = ""
    codec: str = ""  # MODULE:NAME of a payload codec
    console: str = ""  # the address of our own pages, for a link there
    ui: str = ""  # the address of Temporal's pages, for a link in ours
    heartbeat_seconds: float = 5.0  # silence after which Temporal gives an attempt to another worker


def check_place(database: str, settings: TemporalSettings) -> None:
    """Raises EngineRefused for a ledger that is a file of this machine, where Temporal may be everybody's; ValueRefused
    for an address of pages that is none."""
    for name, url in (("console_url", settings.console), ("temporal_ui", settings.ui)):
        if url and not url.startswith(("http://", "https://")):
            raise ValueRefused(name, f"{url!r:.100} is no address of pages", "give it as http://… or https://…")
    if not database and not is_loopback(settings.address):
        raise EngineRefused(
            f"this home is a SQLite file of this machine, and Temporal at {settings.address} gives runs to workers on "
            "any machine",
            "move it to a database that all of them reach: `outlast move --to postgresql://…`",
        )


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches that address."""
    host = address.rpartition(":")[0].strip("[]") or address
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
