"""Transcripts of a server's runs, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from outlast.commands.logs import Log
from outlast.errors import IntegrityBroken, ServerUnreachable
from outlast.remote.line import Broken, in_path
from outlast.remote.values import reading

if TYPE_CHECKING:
    from outlast.remote.line import Line


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


@reading()
def log_of(line: Line, run_id: str, raw: bytes) -> Log:
    """What is known of a transcript, and the way to it."""
    said = msgspec.json.decode(raw, type=_LogJson)
    return Log(**msgspec.structs.asdict(said), read=lambda: _pieces(line, run_id, said))


def _pieces(line: Line, run_id: str, said: _LogJson) -> Iterator[bytes]:
    path, query = f"/v1/runs/{in_path(run_id)}/logs/content", {"step": said.step, "attempt": said.attempt}
    read_bytes = 0
    try:
        with line.stream(path, query=query) as answer:
            for piece in answer.iter_raw():
                read_bytes += len(piece)
                if said.size_bytes is not None and read_bytes > said.size_bytes:
                    raise IntegrityBroken(f"the transcript of {said.step}", "it is longer than was said")
                yield piece
    except Broken as broken:
        raise broken.error or ServerUnreachable(line.url, line.patience.deadline_seconds, 1, broken.why) from broken
