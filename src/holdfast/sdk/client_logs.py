"""Transcripts of a server's runs, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import ServerUnreachable
from holdfast.runtime.logs import Log
from holdfast.sdk.client_line import Broken, in_path

if TYPE_CHECKING:
    from holdfast.sdk.client_line import Line


class _LogJson(msgspec.Struct):
    step: str
    attempt: int
    status: str
    exit: int | None
    started_at: datetime
    ended_at: datetime | None
    size_bytes: int | None
    incomplete: str
    masked: int | None


def log_of(line: Line, run_id: str, raw: bytes) -> Log:
    """What is known of a transcript, and the way to it."""
    said = msgspec.json.decode(raw, type=_LogJson)
    return Log(**msgspec.structs.asdict(said), read=lambda: _pieces(line, run_id, said.step, said.attempt))


def _pieces(line: Line, run_id: str, step: str, attempt: int) -> Iterator[bytes]:
    path, query = f"/v1/runs/{in_path(run_id)}/logs/content", {"step": step, "attempt": attempt}
    try:
        with line.stream(path, query=query) as answer:
            yield from answer.iter_raw()
    except Broken as broken:
        raise broken.error or ServerUnreachable(line.url, line.patience.deadline_seconds, 1, broken.why) from broken
