"""The workspace of a server: the surface of `outlast.workspace`; content is streamed, and checked on both ends.

Fitting a server's pack to a tokenizer that only its client has: ask for more or less until it fits.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.errors import BudgetTooSmall, EmbeddedOnly, IntegrityBroken, ValueRefused
from outlast.operations.table import OPERATIONS
from outlast.python.workspace import Workspace
from outlast.remote.calls import Given, answer_of, ask, from_operations, like, value_of
from outlast.remote.line import Broken
from outlast.sessions.session import number
from outlast.values.tokens import TokensOf, counter
from outlast.workspace import checkpoint, link
from outlast.workspace import record as records
from outlast.workspace.artifact import Artifact, draft
from outlast.workspace.content import pieces_of, stream_of
from outlast.workspace.recall import recall as recalling
from outlast.workspace.recall.pack import ContextPack, line_of

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


UPLOAD, CONTENT, RECALL = (OPERATIONS[f"workspace_{name}"] for name in ("upload", "content", "recall"))
PIECE = 1 << 20
IN_MEMORY = 1 << 20  # larger content waits on the disk while it is sent
OF_RECORD = ("kind", "text", "refs", "tags", "pinned", "task", "at", "source", "redact")
OF_LINK = ("source", "relation", "target", "note", "redact")


@from_operations("workspace", Workspace)
class RemoteWorkspace(Workspace):
    """Artifacts, records, links, checkpoints and recall of a server."""

    def __init__(self, line: Line, caller: Caller) -> None:
        self._line, self._caller = line, caller

    # -- artifacts -------------------------------------------------------------------------------

    @like(Workspace.save)
    def save(self, given: Given) -> Artifact:
        content, who = given.pop("content"), self._who(given.pop("actor"))
        kind, summary, tags, source = (given[name] for name in ("media_type", "summary", "tags", "source"))
        told = draft(self._scope(given["scope"]), given["name"], content, kind, summary, tags, source, who)
        asked = given | {"media_type": told.media_type, "tags": told.tags}
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
            digest, size = _spooled(file, pieces_of(content))
            return self._uploaded(file, asked, digest, size)

    def _uploaded(self, file: IO[bytes], given: Given, digest: str, size: int) -> Artifact:
        def pieces() -> Iterator[bytes]:
            file.seek(0)
            return iter(lambda: file.read(PIECE), b"")

        headers = {"content-type": "application/octet-stream", "content-length": str(size)}
        saved = value_of(ask(self._line, UPLOAD, given, content=pieces, headers=headers).raw, Artifact)
        if saved.digest != digest:
            raise IntegrityBroken(saved.ref, "the server has other content than was sent")
        return self._reached(saved)

    @like(Workspace.get)
    def get(self, given: Given) -> Artifact:
        return self._reached(answer_of(self._line, OPERATIONS["workspace_get"], given))

    @like(Workspace.versions)
    def versions(self, given: Given) -> list[Artifact]:
        number("limit", given["limit"])
        return [self._reached(each) for each in answer_of(self._line, OPERATIONS["workspace_versions"], given)]

    @like(Workspace.list)
    def list(self, given: Given) -> Any:
        number("limit", given["limit"])
        return [self._reached(each) for each in answer_of(self._line, OPERATIONS["workspace_list"], given)]

    def _reached(self, artifact: Artifact) -> Artifact:
        return artifact.opened(RemoteContent(self._line, artifact))

    # -- what embedded is refused before anything is looked for ----------------------------------

    def _check_record(self, given: Given) -> None:
        given |= {name: _listed(given[name]) for name in ("refs", "tags")}
        said = records.RecordFields(**{name: given[name] for name in OF_RECORD})
        records.draft(self._caller.home, self._scope(given["scope"]), said, self._who(given["actor"]))

    @like(Workspace.record_many)
    def record_many(self, given: Given) -> Any:
        scope, who = self._scope(given["scope"]), self._who(given["actor"])
        if not records.drafts(self._caller.home, scope, given["records"], who, redact=given["redact"]):
            return []
        given["records"] = [dict(each) for each in given["records"]]
        return answer_of(self._line, OPERATIONS["workspace_record_many"], given)

    def _check_records(self, given: Given) -> None:
        number("limit", given["limit"])

    def _check_link(self, given: Given) -> None:
        said = link.LinkFields(*(given[name] for name in OF_LINK))
        link.draft(self._caller.home, self._scope(given["scope"]), said, self._who(given["actor"]))

    def _check_checkpoint(self, given: Given) -> None:
        given["refs"] = _listed(given["refs"])
        scope, who = self._scope(given["scope"]), self._who(given["actor"])
        checkpoint.draft(scope, given["task"], given["name"], given["summary"], given["refs"], who)

    def _check_checkpoints(self, given: Given) -> None:
        if given["task"] is not None and given["run"] is not None:
            raise ValueRefused("run", "a task was named as well", "name one of them")
        number("limit", given["limit"])

    # -- recall ----------------------------------------------------------------------------------

    @like(Workspace.recall)
    def recall(self, given: Given) -> ContextPack:
        if given.pop("embed") is not None:
            raise EmbeddedOnly("recall with embed", "leave it out: the server ranks by itself")
        tokens_of = given.pop("tokens_of")
        count = None if tokens_of is None else counter(tokens_of)
        kinds = given["kinds"]
        given["kinds"] = (kinds,) if isinstance(kinds, str) else _listed(kinds)
        budget, most = number("budget", given["budget"]), given["limit"]
        most = None if most is None else number("limit", most)
        recalling.wanted(given["goal"], self._scope(given["scope"]), budget, given["kinds"], given["task"], most)

        def asked(tokens: int) -> ContextPack:
            found: ContextPack = answer_of(self._line, RECALL, given | {"budget": tokens})
            return found

        return asked(budget) if count is None else fitted(asked, budget, count)


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
        found = sha256()
        for piece in self._read(0, None):
            found.update(piece)
            yield piece
        if found.hexdigest() != self._artifact.digest:
            raise IntegrityBroken(self._artifact.ref, "its content was changed")

    def between(self, start: int, end: int) -> Iterator[bytes]:
        """A part of it. The server proves what it sends; here only its length can be checked."""
        at = start
        for piece in self._read(start, end) if start < end else ():
            at += len(piece)
            yield piece
        if at < end:
            raise IntegrityBroken(self._artifact.ref, "its content is shorter than was said")

    def _read(self, at: int, end: int | None) -> Iterator[bytes]:
        """What comes from there on, up to an end that is named or to its own. Raises IntegrityBroken for more."""
        last = self._artifact.size if end is None else end  # what has no end is not read to its end
        began, tries = time.monotonic(), 0
        while at < last or (not last and not tries):
            try:
                for piece in self._from(at, end):
                    at += len(piece)
                    if at > last:
                        raise IntegrityBroken(self._artifact.ref, "its content is longer than was said")
                    began, tries = time.monotonic(), 0
                    yield piece
                return
            except Broken as broken:
                tries += 1
                self._line.again(broken, began, tries)

    def _from(self, start: int, end: int | None = None) -> Iterator[bytes]:
        part = bool(start) or end is not None
        last = "" if end is None else end - 1
        headers = {"range": f"bytes={start}-{last}", "if-range": f'"{self._artifact.digest}"'} if part else {}
        named = {"ref": self._artifact.ref}
        with self._line.stream(CONTENT.path, query=named, headers=headers) as answer:
            if part and answer.status_code != 206:
                raise IntegrityBroken(self._artifact.ref, "its content was changed")
            yield from answer.iter_raw()  # as it comes: what came before a break counts

    def open(self) -> io.BufferedReader:
        return stream_of(self.pieces())
