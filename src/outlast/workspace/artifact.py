"""Artifacts: content with a ref, and what is known about it.

A ref is `artifact:<scope>/<name>@<version>`. The last `@` splits off the version; the first `/` ends the scope, in
which `/` and `%` are written `%2F` and `%25`. A name is only a name, never a path, and never ends as a version does: so
`name@2` means one thing only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

from outlast.errors import NameInvalid, Refused, ValueRefused
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple, dataclass

PREFIX = "artifact:"
NAME_LENGTH = 500
SUMMARY_LENGTH = 10_000
TAGS, TAG_LENGTH = 100, 200
_VERSION = "[1-9][0-9]{0,17}"
_REF = re.compile(f"artifact:([^/]+)/(.+)@({_VERSION})", re.DOTALL)
_VERSIONED = re.compile(r"@[0-9]+\Z")


class ArtifactPlace(NamedTuple):
    """Where an artifact is: its scope, its name and its version."""

    scope: str
    name: str
    version: int

    @property
    def ref(self) -> str:
        scope = self.scope.replace("%", "%25").replace("/", "%2F")
        return f"{PREFIX}{scope}/{self.name}@{self.version}"


def parse_ref(ref: str) -> ArtifactPlace | None:
    """What a ref names; None when it is no ref of an artifact."""
    found = _REF.fullmatch(ref)
    if found is None:
        return None
    return ArtifactPlace(found[1].replace("%2F", "/").replace("%25", "%"), found[2], int(found[3]))


def version_of(scope: str, asked: str) -> ArtifactPlace | None:
    """What `name@2` means; None when it ends in no version."""
    name, _, version = asked.rpartition("@")
    return ArtifactPlace(scope, name, int(version)) if name and re.fullmatch(_VERSION, version) else None


class ArtifactContent(Protocol):
    """Where an artifact's content is read from."""

    def pieces(self) -> Iterator[bytes]: ...
    def between(self, start: int, end: int) -> Iterator[bytes]: ...
    def open(self) -> BufferedReader: ...


@dataclass(frozen=True, slots=True)
class ArtifactSource:
    """Who saved an artifact, and where: outside of any run, in the body of one, or in a step."""

    actor: str
    run_id: str = ""
    step: str = ""
    attempt: int = 0
    origin: str = ""  # where the content came from, in the saver's words


@dataclass(frozen=True)
class Artifact:
    """Saved content: what is known of it, and the way to it. It is checked whenever it is read."""

    ref: str
    scope: str
    name: str
    version: int
    size: int
    digest: str  # SHA-256 of the content
    media_type: str
    summary: str
    tags: tuple[str, ...]
    source: ArtifactSource
    stored_at: datetime
    replayed: bool = field(default=False, compare=False)  # nothing was written: it was there

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The content, or a part of it: from one byte up to another, as a slice would have it.

        Of large content only the chunks that have a part of it are read. Raises IntegrityBroken when they are not what
        was saved, ValueRefused.
        """
        if start == 0 and end is None:
            return b"".join(self._reach().pieces())
        return b"".join(self.between(start, end))

    def between(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The same piece by piece, every byte proven before it is given."""
        last = self.size if end is None else min(end, self.size)
        if start < 0 or last < 0:
            raise ValueRefused("start", f"{start} to {end} is no part of it", "count bytes from its beginning")
        return self._reach().between(start, last)

    def text(self, encoding: str = "utf-8") -> str:
        """The content as text. Raises ValueRefused when it is none, IntegrityBroken."""
        try:
            return self.read().decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise ValueRefused(
                self.ref, f"it is no {encoding} text: {error}", "use read(), or its own encoding"
            ) from error

    def open(self) -> BufferedReader:
        """The content as a stream, for what need not fit in memory. IntegrityBroken comes at its end at the latest."""
        return self._reach().open()

    def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Write the content to a file: all of it, checked and durable, or nothing. A file that is there gives way."""
        return write_whole(Path(path), self._reach().pieces())

    def opened(self, content: ArtifactContent) -> Artifact:
        """The same, with the way to its content."""
        object.__setattr__(self, "_content", content)
        return self

    def _reach(self) -> ArtifactContent:
        content: ArtifactContent | None = self.__dict__.get("_content")
        if content is None:
            raise Refused(
                detail=f"this is a copy of {self.ref} without its content; get it by its ref from the workspace"
            )
        return content


def write_whole(path: Path, pieces: Iterator[bytes]) -> Path:
    """Write a file by renaming: whoever looks finds all of it, or what was there before."""
    if path.is_dir():
        raise ValueRefused(str(path), "it is a folder", "name a file in it")
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


# -- what is given -----------------------------------------------------------------------------------


def check_artifact_name(name: Any) -> str:
    """A name: any printable text up to 500 characters, without blanks at its ends."""
    if not isinstance(name, str) or not name:
        raise NameInvalid("artifact", str(name), "it is no text, or empty")
    if len(name) > NAME_LENGTH:
        raise NameInvalid("artifact", name, f"it has {len(name)} characters; the limit is {NAME_LENGTH}")
    if not name.isprintable():
        raise NameInvalid("artifact", name, "it has characters that cannot be printed")
    if name != name.strip():
        raise NameInvalid("artifact", name, "it begins or ends with a blank")
    if name.startswith(PREFIX):
        raise NameInvalid("artifact", name, f"only refs begin with {PREFIX!r}")
    if _VERSIONED.search(name):
        raise NameInvalid("artifact", name, "@ and a number at its end name a version; choose another ending")
    return name


def check_text(path: str, text: Any, limit: int) -> str:
    """A text that can be stored as it is."""
    if not isinstance(text, str):
        raise ValueRefused(path, f"{type(text).__qualname__} is no text", "give text")
    if len(text) > limit:
        why = f"it has {len(text):,} characters; the limit is {limit:,}"
        raise ValueRefused(path, why, "make it shorter, or save the long form as an artifact")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueRefused(
            path, f"it cannot be stored as UTF-8: {error.reason}", "give text without surrogates"
        ) from error
    return text


def check_tags(tags: Any) -> tuple[str, ...]:
    """Tags: short printable texts, each once, in order."""
    if isinstance(tags, str) or not hasattr(tags, "__iter__"):
        raise ValueRefused("tags", f"{type(tags).__qualname__} is no list of texts", 'give a list: tags=["draft"]')
    found = tuple(tags)
    for place, tag in enumerate(found):
        if not isinstance(tag, str) or not tag.strip() or len(tag) > TAG_LENGTH or not tag.isprintable():
            remedy = f"give printable text of 1 to {TAG_LENGTH} characters"
            raise ValueRefused(f"tags[{place}]", f"{tag!r:.100} is no tag", remedy)
    if len(found) > TAGS:
        raise ValueRefused("tags", f"they are {len(found)}; the limit is {TAGS}", "give fewer")
    return tuple(sorted(set(found)))


def proof_of(*facts: Any) -> bytes:
    """What proves a row: a hash of everything that it says."""
    return sha256(b"outlast workspace\n" + encode(list(facts))).digest()
