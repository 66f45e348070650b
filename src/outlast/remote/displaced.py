"""Files that gave way at a server: what is known of them, and the way to their content."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import IntegrityBroken
from outlast.remote.line import in_path
from outlast.remote.values import reading
from outlast.runs.displaced import Displaced
from outlast.values.digest import digest

if TYPE_CHECKING:
    from outlast.remote.line import Line


class _DisplacedJson(msgspec.Struct):
    run_id: str
    seq: int
    step: str
    path: str
    digest: str
    at: datetime


@reading()
def displaced_of(line: Line, raw: bytes) -> Displaced:
    """What is known of a file that gave way; its content is asked for when it is read."""
    said = msgspec.json.decode(raw, type=_DisplacedJson)
    return Displaced(**msgspec.structs.asdict(said), read=lambda: _content(line, said))


def _content(line: Line, said: _DisplacedJson) -> Iterator[bytes]:
    """Raises IntegrityBroken when it is not what its digest says."""
    path = f"/v1/runs/{in_path(said.run_id)}/displaced/content"
    content = line.ask("GET", path, query={"path": said.path, "seq": said.seq}).raw
    if digest(content) != said.digest:
        raise IntegrityBroken(f"{said.path} that gave way", "its content was changed")
    yield content
