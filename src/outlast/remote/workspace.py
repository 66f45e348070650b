"""The workspace of a server: the surface of `outlast.workspace`; content is streamed, and checked on both ends.

Fitting a server's pack to a tokenizer that only its client has: ask for more or less until it fits.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

from outlast.errors import BudgetTooSmall, EmbeddedOnly, IntegrityBroken, ValueRefused
from outlast.python.workspace import Workspace
from outlast.remote.calls import Given, all_items, cursor_at, items, like, page_of, read, value_of, write
from outlast.remote.line import Broken
from outlast.sessions.drafts import number
from outlast.values.tokenizer import TokensOf, counter
from outlast.workspace import checkpoint
from outlast.workspace.artifact import Artifact
from outlast.workspace.artifacts import draft
from outlast.workspace.checkpoint import Checkpoint, CheckpointDiff
from outlast.workspace.content import pieces_of, stream_of
from outlast.workspace.link import Link
from outlast.workspace.recall.pack import ContextPack, line_of
from outlast.workspace.record import Record
from outlast.workspace.why import Why

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.remote.line import Line


TRIES = 5
NEAR = 0.95  # of the budget: no more is asked for


def fitted(ask: Callable[[int], ContextPack], budget: int, tokens_of: TokensOf) -> ContextPack:
    """The fullest pack found that is within the budget as `tokens_of` counts it. Raises BudgetTooSmall."""
    asked, best, least = budget, None, 0
    for _ in range(TRIES):
        pack, asked = _asked(ask, asked)
        count = tokens_of(pack.prompt()) if pack.entries else 0
        if count <= budget:
            best = pack if best is None or len(pack.entries) >= len(best.entries) else best
        if count <= budget and (count >= NEAR * budget or not _is_short(pack)):
            break
        least, following = count, max(int(asked * budget / max(count, 1) * 0.98), 1)
        if following == asked:
            break
        asked = following
    if best is None:
        raise BudgetTooSmall(budget, least, sum(entry.hard for entry in pack.entries))
    return _counted(best, budget, tokens_of)


def _asked(ask: Callable[[int], ContextPack], asked: int) -> tuple[ContextPack, int]:
    """The pack; when what must be there does not fit as the server counts, that alone."""
    try:
        return ask(asked), asked
    except BudgetTooSmall as error:
        return ask(error.needed), error.needed


def _is_short(pack: ContextPack) -> bool:
    return any(left.reason == "over_budget" for left in pack.left_out) or any(not one.whole for one in pack.entries)


def _counted(pack: ContextPack, budget: int, tokens_of: TokensOf) -> ContextPack:
    entries = tuple(
        replace(entry, tokens=tokens_of("\n" + line_of(number, entry))) for number, entry in enumerate(pack.entries, 1)
    )
    spent = tokens_of(pack.prompt()) if entries else 0
    return replace(pack, budget=budget, tokens=spent, entries=entries)


SPACE = "/v1/workspace"
PIECE = 1 << 20
IN_MEMORY = 1 << 20  # larger content waits on the disk while it is sent


class RemoteWorkspace(Workspace):
    """Artifacts, records, links, checkpoints and recall of a server."""

    def __init__(self, line: Line, caller: Caller) -> None:
        self._line, self._caller = line, caller

    # -- artifacts -------------------------------------------------------------------------------

    @like(Workspace.save)
    def save(self, given: Given) -> Artifact:
        content, who = given.pop("content"), self._who(given.pop("actor"))
        told = draft(
            self._scope(given["scope"]),
            given["name"],
            content,
            given["media_type"],
            given["summary"],
            given["tags"],
            given["source"],
            who,
        )
        query = given | {"media_type": told.media_type, "tags": told.tags}
        query["operation_id"] = query["operation_id"] or self._line.operation_id()
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
            digest, size = _spooled(file, pieces_of(content))
            return self._uploaded(file, query, digest, size)

    def _uploaded(self, file: IO[bytes], query: Given, digest: str, size: int) -> Artifact:
        def pieces() -> Iterator[bytes]:
            file.seek(0)
            return iter(lambda: file.read(PIECE), b"")

        headers = {"content-type": "application/octet-stream", "content-length": str(size)}
        reply = self._line.ask("PUT", f"{SPACE}/artifacts", query=query, content=pieces, headers=headers)
        saved = value_of(reply.raw, Artifact)
        if saved.digest != digest:
            raise IntegrityBroken(saved.ref, "the server has other content than was sent")
        return self._reached(saved)

    @like(Workspace.get)
    def get(self, given: Given) -> Artifact:
        return self._reached(read(self._line, f"{SPACE}/artifact", given, Artifact))

    @like(Workspace.versions)
    def versions(self, given: Given) -> list[Artifact]:
        number("limit", given["limit"])
        found = all_items(self._line, f"{SPACE}/artifacts/versions", given)
        return [self._reached(value_of(each, Artifact)) for each in found]

    @like(Workspace.list)
    def list(self, given: Given) -> Any:
        found = self._items(f"{SPACE}/artifacts", given)
        return [self._reached(value_of(each, Artifact)) for each in found]

    def _reached(self, artifact: Artifact) -> Artifact:
        return artifact.opened(RemoteContent(self._line, artifact))

    def _items(self, path: str, given: Given) -> Iterator[bytes]:
        limit, before = number("limit", given.pop("limit")), given.pop("before", None)
        return items(self._line, path, given, limit, cursor_at(before) if before is not None else "")

    # -- records and links -----------------------------------------------------------------------

    @like(Workspace.record)
    def record(self, given: Given) -> Record:
        from outlast.workspace import records

        names = ("kind", "text", "refs", "tags", "pinned", "task", "at", "source", "redact")
        given |= {name: _listed(given[name]) for name in ("refs", "tags")}
        said = records.RecordFields(**{name: given[name] for name in names})
        records.draft(self._caller.home, self._scope(given["scope"]), said, self._who(given["actor"]))
        return value_of(write(self._line, f"{SPACE}/records", given).raw, Record)

    @like(Workspace.record_many)
    def record_many(self, given: Given) -> Any:
        from outlast.workspace import records as record_many

        scope, who = self._scope(given["scope"]), self._who(given["actor"])
        if not record_many.drafts(self._caller.home, scope, given["records"], who, redact=given["redact"]):
            return []
        given["records"] = [dict(each) for each in given["records"]]
        reply = write(self._line, f"{SPACE}/records/many", given)
        return [value_of(each, Record) for each in page_of(reply.raw)[0]]

    @like(Workspace.get_record)
    def get_record(self, given: Given) -> Record:
        return read(self._line, f"{SPACE}/records/{{ref}}", given, Record)

    @like(Workspace.records)
    def records(self, given: Given) -> Any:
        return [value_of(each, Record) for each in self._items(f"{SPACE}/records", given)]

    @like(Workspace.pin)
    def pin(self, given: Given) -> Record:
        return value_of(write(self._line, f"{SPACE}/records/{{ref}}/pin", given).raw, Record)

    @like(Workspace.link)
    def link(self, given: Given) -> Link:
        from outlast.workspace import link

        said = link.LinkFields(*(given[name] for name in ("source", "relation", "target", "note", "redact")))
        link.draft(self._caller.home, self._scope(given["scope"]), said, self._who(given["actor"]))
        return value_of(write(self._line, f"{SPACE}/links", given).raw, Link)

    @like(Workspace.links)
    def links(self, given: Given) -> Any:
        return [value_of(each, Link) for each in all_items(self._line, f"{SPACE}/links", given)]

    @like(Workspace.why)
    def why(self, given: Given) -> Why:
        return read(self._line, f"{SPACE}/why", given, Why)

    # -- checkpoints and recall ------------------------------------------------------------------

    @like(Workspace.checkpoint)
    def checkpoint(self, given: Given) -> Checkpoint:
        given["refs"] = _listed(given["refs"])
        scope, who = self._scope(given["scope"]), self._who(given["actor"])
        checkpoint.asked(scope, given["task"], given["name"], given["summary"], given["refs"], who)
        return value_of(write(self._line, f"{SPACE}/checkpoints", given).raw, Checkpoint)

    @like(Workspace.get_checkpoint)
    def get_checkpoint(self, given: Given) -> Checkpoint:
        return read(self._line, f"{SPACE}/checkpoints/{{ref}}", given, Checkpoint)

    @like(Workspace.checkpoints)
    def checkpoints(self, given: Given) -> Any:
        if given["task"] is not None and given["run"] is not None:
            raise ValueRefused("run", "a task was named as well", "name one of them")
        return [value_of(each, Checkpoint) for each in self._items(f"{SPACE}/checkpoints", given)]

    @like(Workspace.diff)
    def diff(self, given: Given) -> CheckpointDiff:
        return read(self._line, f"{SPACE}/checkpoints/diff", given, CheckpointDiff)

    @like(Workspace.recall)
    def recall(self, given: Given) -> ContextPack:
        if given.pop("embed") is not None:
            raise EmbeddedOnly("recall with embed", "leave it out: the server ranks by itself")

        from outlast.workspace.recall import recall as recalling

        tokens_of = given.pop("tokens_of")
        count = None if tokens_of is None else counter(tokens_of)

        kinds = given["kinds"]
        given["kinds"] = (kinds,) if isinstance(kinds, str) else _listed(kinds)
        budget, most = number("budget", given["budget"]), given["limit"]
        most = None if most is None else number("limit", most)
        recalling.wanted(given["goal"], self._scope(given["scope"]), budget, given["kinds"], given["task"], most)

        def ask(tokens: int) -> ContextPack:
            return value_of(write(self._line, f"{SPACE}/recall", given | {"budget": tokens}).raw, ContextPack)

        return ask(budget) if count is None else fitted(ask, budget, count)


def _listed(given: Any) -> Any:
    """What can be gone through once, as what can be twice; a text stays a mistake."""
    return tuple(given) if hasattr(given, "__iter__") and not isinstance(given, str) else given


def _spooled(file: IO[bytes], pieces: Iterator[bytes]) -> tuple[str, int]:
    """The digest and the size of content that is kept until it was sent."""
    found, size = sha256(), 0
    for piece in pieces:
        found.update(piece)
        file.write(piece)
        size += len(piece)
    return found.hexdigest(), size


class RemoteContent:
    """The way to an artifact's content: taken up again where it broke off, and checked at its end."""

    def __init__(self, line: Line, artifact: Artifact) -> None:
        self._line, self._artifact = line, artifact

    def pieces(self) -> Iterator[bytes]:
        artifact, found, read_bytes = self._artifact, sha256(), 0
        began, tries = time.monotonic(), 0
        while read_bytes < artifact.size or (not artifact.size and not tries):
            try:
                for piece in self._from(read_bytes):
                    found.update(piece)
                    read_bytes += len(piece)
                    self._refuse_longer(read_bytes)
                    began, tries = time.monotonic(), 0
                    yield piece
                break
            except Broken as broken:
                tries += 1
                self._line.again(broken, began, tries)
        if found.hexdigest() != artifact.digest:
            raise IntegrityBroken(artifact.ref, "its content was changed")

    def between(self, start: int, end: int) -> Iterator[bytes]:
        """A part of it. The server proves what it sends; here only its length can be checked."""
        if start >= end:
            return
        at, began, tries = start, time.monotonic(), 0
        while at < end:
            try:
                for piece in self._from(at, end):
                    at += len(piece)
                    self._refuse_longer(at, end)
                    began, tries = time.monotonic(), 0
                    yield piece
                if at < end:
                    raise IntegrityBroken(self._artifact.ref, "its content is shorter than was said")
            except Broken as broken:
                tries += 1
                self._line.again(broken, began, tries)

    def _refuse_longer(self, read_bytes: int, end: int | None = None) -> None:
        """Raises IntegrityBroken: what has no end is not read to its end."""
        if read_bytes > (self._artifact.size if end is None else end):
            raise IntegrityBroken(self._artifact.ref, "its content is longer than was said")

    def _from(self, start: int, end: int | None = None) -> Iterator[bytes]:
        part = bool(start) or end is not None
        last = "" if end is None else end - 1
        headers = {"range": f"bytes={start}-{last}", "if-range": f'"{self._artifact.digest}"'} if part else {}
        named = {"ref": self._artifact.ref}
        with self._line.stream(f"{SPACE}/artifacts/content", query=named, headers=headers) as answer:
            if part and answer.status_code != 206:
                raise IntegrityBroken(self._artifact.ref, "its content was changed")
            yield from answer.iter_raw()  # as it comes: what came before a break counts

    def open(self) -> io.BufferedReader:
        return stream_of(self.pieces())
