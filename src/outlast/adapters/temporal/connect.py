"""Reaching Temporal, by TLS and with a codec where those are given."""

from __future__ import annotations

import dataclasses
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from temporalio import converter
from temporalio.client import Client
from temporalio.converter import PayloadCodec
from temporalio.service import TLSConfig

from outlast.adapters.temporal.settings import TemporalSettings
from outlast.errors import EngineUnreachable, ValueRefused

KEY = "TEMPORAL_API_KEY"  # of the environment: a command line is seen by others
CODEC = "give MODULE:NAME of a temporalio.converter.PayloadCodec"


async def connect(settings: TemporalSettings) -> Client:
    """Raises EngineUnreachable, ValueRefused."""
    more: dict[str, Any] = {"tls": _tls(settings), "api_key": os.environ.get(KEY) or None}
    if settings.codec:
        more["data_converter"] = dataclasses.replace(converter.default(), payload_codec=_codec(settings.codec))
    try:
        return await Client.connect(settings.address, namespace=settings.namespace, **more)
    except (RuntimeError, ValueError) as error:
        raise EngineUnreachable(settings.address, str(error)) from error


def _tls(settings: TemporalSettings) -> bool | TLSConfig:
    given = {
        "server_root_ca_cert": _file("tls_ca", settings.tls_ca),
        "client_cert": _file("tls_cert", settings.tls_cert),
        "client_private_key": _file("tls_key", settings.tls_key),
        "domain": settings.tls_server_name or None,
    }
    if any(given.values()):
        return TLSConfig(**given)  # type: ignore[arg-type]
    return settings.tls


def _file(name: str, path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ValueRefused(name, f"{path} cannot be read ({error.strerror})", "name a file in PEM") from error


def _codec(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueRefused("codec", f"{name!r:.100} is not there ({error})", CODEC) from error
    made = found() if isinstance(found, type) else found
    if not isinstance(made, PayloadCodec):
        raise ValueRefused("codec", f"{name!r:.100} is a {type(made).__name__}", CODEC)
    return made
