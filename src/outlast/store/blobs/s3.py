"""Blobs in a bucket, named by their digest, verified when they are written and when they are read.

An object is uploaded, then looked at: its size and checksum are those of the content, and nobody has condemned it.
Only then is it referred to. What is there already is relied on after the same look. A crash leaves at most an object
that nobody refers to, which `gc` finds.

The objects of a blob lie in one folder, `ab/abcdef…/`. `0` is its content. `0.trash` beside it says that a sweep has
condemned it: from then on nobody relies on it, and whoever needs the content writes it anew, under a key that nobody
has used. So what a sweep is about to remove is never what somebody has just begun to rely on, and nothing of this asks
a bucket for more than that what was written is seen by the next who looks.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import file_digest, md5
from io import BufferedReader, BytesIO, RawIOBase
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from outlast import failpoints
from outlast.errors import BlobsTaken, BlobsUnreachable, IntegrityBroken, OutlastError
from outlast.store.blobs.bucket import PART_BYTES, AlreadyThere, Bucket, BucketObject, Missing, part_bytes
from outlast.store.blobs.content import FolderIntake, temporary
from outlast.store.blobs.folder import checked
from outlast.store.contract.blobs import Stored, nothing_inside
from outlast.store.disk import PIECE_BYTES, translating
from outlast.values.codec import digest
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.private import open_file, open_plain

if TYPE_CHECKING:
    from outlast.clock import Clock
    from outlast.store.blobs import s3_trash
    from outlast.store.blobs.chosen import BucketPlace
    from outlast.store.contract.blobs import Inside, Intake, Trash
else:
    s3_trash = late("outlast.store.blobs.s3_trash")


FIRST = "0"  # the key of a blob's content that readers ask for first
TRASH, GONE = ".trash", ".gone"
OWNER = "owner"
TRIES = 4  # at least, however little patience there is
SMALL_BYTES = 1 << 20  # what is larger is looked for before it is sent
_NAME = re.compile(r"[0-9a-f]{64}")


class Held(NamedTuple):
    """The objects of one blob."""

    content: dict[str, BucketObject]  # by key
    trash: dict[str, BucketObject]  # that condemn the content of a key
    gone: dict[str, BucketObject]  # that say of a key that its content is about to go, or went

    def is_condemned(self, key: str) -> bool:
        return key in self.trash or key in self.gone

    @property
    def usable(self) -> dict[str, BucketObject]:
        """What may be relied on."""
        return {key: each for key, each in self.content.items() if not self.is_condemned(key)}


def held_of(objects: Iterable[BucketObject]) -> Held:
    """What these objects of one blob are."""
    held = Held({}, {}, {})
    for each in objects:
        name = each.path.rpartition("/")[2]
        key, dot, kind = name.partition(".")
        {"": held.content, TRASH: held.trash, GONE: held.gone}.get(dot + kind, {})[key] = each
    return held


class Sent(NamedTuple):
    """Content on its way into a bucket."""

    size: int
    tag: Callable[[], str]  # what the bucket is expected to say of it
    put: Callable[[Bucket, str, bool], None]


class S3Blobs:
    """A tenant's content in a bucket. See contract.blobs.Blobs.

    `folder` is on this machine: what arrives piece by piece is collected there.
    """

    def __init__(
        self,
        place: BucketPlace,
        tenant: str,
        folder: Path,
        owner: str,
        inside: Inside = nothing_inside,
        clock: Clock | None = None,
    ) -> None:
        """`owner` is the id of the home; after a slash, that of the backup that it was restored from."""
        self.folder, self.owner, self._inside = folder, owner, inside
        self.bucket = Bucket(place, tenant, clock)
        self._is_ours = False

    @property
    def place(self) -> str:
        return self.bucket.name

    # -- whose place it is -----------------------------------------------------------------------

    def claim(self) -> None:
        """Make sure that the place is this home's. Raises BlobsTaken."""
        if self._is_ours:
            return
        found = self.claimed_by()
        if not found:
            with suppress(AlreadyThere):
                self.bucket.put(OWNER, self.owner.encode(), create=True)
            found = self.claimed_by()
        if found.partition("/")[0] != self.owner.partition("/")[0]:
            raise BlobsTaken(self.place)
        self._is_ours = True

    def claimed_by(self) -> str:
        """The id of the home that the place belongs to; nothing where it is free."""
        try:
            return (self.bucket.get(OWNER)[1] or b"").decode("utf-8", "replace")
        except Missing:
            return ""

    # -- in ----------------------------------------------------------------------------------------

    def put(self, content: bytes) -> str:
        name, size = digest(content), len(content)
        send = Sent(size, cache(lambda: _md5(content)), lambda bucket, path, how: bucket.put(path, content, create=how))
        self._place(name, send)
        return name

    def adopt(self, path: Path, known: str = "") -> str:
        with open_plain(path) as file:
            name = known or file_digest(file, "sha256").hexdigest()
        self.move_in(path, name)
        return name

    def move_in(self, file: Path, name: str) -> None:
        """Store a file whose content has that digest; durable when this returns. The file stays."""
        size, tag = file.stat().st_size, cache(lambda: _tag_of(file, size))
        self._place(name, Sent(size, tag, lambda bucket, path, how: bucket.put_file(path, file, size, create=how)))

    def keep(self, name: str, pieces: Iterable[bytes]) -> None:
        if any(self._is_whole(each, name) for each in self._look(name).usable.values()):
            return
        with temporary(self) as path:
            with translating(path.parent), open(path, "wb", opener=open_file) as file:
                file.writelines(checked(name, pieces))
            self.move_in(path, name)

    def intake(self) -> Intake:
        return S3Intake(self)

    def renew(self, name: str) -> bool:
        """Whether it is there, whole, and not condemned; what only the ledger has gets a place here."""
        held = self._look(name)
        if any(self._is_whole(each, name) for each in held.usable.values()):
            return True
        content = self._inside(name)
        return content is not None and self.put(content) == name

    def _place(self, name: str, sent: Sent) -> None:
        """Upload, unless it is there; what is there in the end is verified, and nobody has condemned it."""
        self.claim()
        failpoints.reached("blob.written")
        held = self._look(name) if sent.size > SMALL_BYTES else None
        if held is None or not self._relied_on(held, name, sent):
            self._send(name, sent, held)
        failpoints.reached("blob.synced")

    def _send(self, name: str, sent: Sent, held: Held | None) -> None:
        """Upload until it is there: a server that is killed may lose what it took, and be back in a while."""
        key, create = self._next_key(held, FIRST)
        patience = self.bucket.patience()
        for tried in count(1):
            with suppress(AlreadyThere):  # somebody wrote the same content: it is looked at like our own
                sent.put(self.bucket, _path(name, key), create)
            failpoints.reached("blob.named")
            held = self._look(name)
            if self._relied_on(held, name, sent):
                return
            if not patience.lasts() and tried >= TRIES:
                break
            key, create = self._next_key(held, key)
        raise BlobsUnreachable(self.place, f"what arrives there as blob {name[:12]} is not what was sent")

    def _next_key(self, held: Held | None, key: str) -> tuple[str, bool]:
        """Where to write: over what is not what it should be, and never where a sweep may still remove something."""
        if held is None:
            return key, True
        if held.is_condemned(key):
            return secrets.token_hex(8), True
        return key, key not in held.content

    def _relied_on(self, held: Held, name: str, sent: Sent) -> bool:
        """Whether some object is this content and may be relied on: by its checksum, else by reading it."""
        there = [each for each in held.usable.values() if each.size == sent.size]
        if not there:
            return False
        tag = sent.tag()
        return any(each.tag == tag for each in there) or any(self._is_whole(each, name) for each in there)

    def _look(self, name: str) -> Held:
        return held_of(self.bucket.listed(f"{name[:2]}/{name}"))

    # -- out ---------------------------------------------------------------------------------------

    def get(self, name: str) -> bytes:
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        content = self._inside(name)
        if content is None:
            found, content = self._found(name)
            if content is None:
                yield from checked(name, self._ranges(name, found))
                return
        if digest(content) != name:
            raise IntegrityBroken(f"blob {name[:12]}", "its content was changed")
        yield content

    def check(self, name: str) -> None:
        deque(self.pieces(name), maxlen=0)

    def _found(self, name: str) -> tuple[BucketObject, bytes | None]:
        """The object that has the content. Raises IntegrityBroken when there is none."""
        keys, seen = [FIRST], set[str]()
        while keys:
            for key in keys:
                try:
                    return self.bucket.get(_path(name, key))
                except Missing:
                    seen.add(key)
            keys = [key for key in self._look(name).content if key not in seen]
        raise IntegrityBroken(f"blob {name[:12]}", "it is missing")

    def _ranges(self, name: str, found: BucketObject) -> Iterator[bytes]:
        """A large object, part by part: each is one request, and is asked for again alone."""
        if not found.size:
            return
        with ThreadPoolExecutor(1) as ahead:  # the next is on its way while this one is used

            def read(start: int) -> Any:
                return ahead.submit(self._range, name, found, start, min(start + PART_BYTES, found.size))

            coming = read(0)
            for start in range(0, found.size, PART_BYTES):
                part = coming.result()
                if start + PART_BYTES < found.size:
                    coming = read(start + PART_BYTES)
                yield part

    def _range(self, name: str, found: BucketObject, start: int, end: int) -> bytes:
        try:
            return self.bucket.get_range(found.path, start, end)
        except Missing:  # it may be under another key too
            again = self._found(name)[0]
            if again.size != found.size:
                raise IntegrityBroken(f"blob {name[:12]}", "its content was changed") from None
            return self.bucket.get_range(again.path, start, end)

    def opened(self, name: str) -> BinaryIO:
        content = self._inside(name)
        if content is None:
            found, content = self._found(name)
            if content is None:
                return cast(BinaryIO, BufferedReader(_RangedFile(self, name, found), PART_BYTES // 2))
        return BytesIO(content)

    def has(self, name: str) -> bool:
        if self._inside(name) is not None or self.bucket.head(_path(name, FIRST)) is not None:
            return True
        return bool(self._look(name).content)

    def size_of(self, name: str) -> int:
        there = self._look(name).usable
        return next((each.size for each in there.values()), len(self._inside(name) or b""))

    def _is_whole(self, found: BucketObject, name: str) -> bool:
        try:
            deque(checked(name, self._ranges(name, found)), maxlen=0)
        except IntegrityBroken:
            return False
        return True

    # -- care --------------------------------------------------------------------------------------

    def trash(self) -> Trash:
        return s3_trash.S3Trash(self)

    def probe(self) -> dict[str, str]:
        return probe(self)


class _RangedFile(RawIOBase):
    """A large object as a file to read in, at any place."""

    def __init__(self, blobs: S3Blobs, name: str, found: BucketObject) -> None:
        self._blobs, self._name, self._found, self._at = blobs, name, found, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._found.size}[whence]
        self._at = max(begin + place, 0)
        return self._at

    def readinto(self, room: Any) -> int:
        end = min(self._at + len(room), self._found.size)
        if end <= self._at:
            return 0
        content = self._blobs._range(self._name, self._found, self._at, end)
        room[: len(content)] = content
        self._at = end
        return len(content)


def _path(name: str, key: str) -> str:
    """Raises IntegrityBroken for what is no digest: nothing else is ever part of a path."""
    if not _NAME.fullmatch(name):
        raise IntegrityBroken(f"blob {name[:12]}", "it is no digest")
    return f"{name[:2]}/{name}/{key}"


def _md5(content: bytes) -> str:
    return md5(content, usedforsecurity=False).hexdigest()


def _tag_of(file: Path, size: int) -> str:
    """What a bucket says of a file: the MD5 of it, or of those of its parts, if it was uploaded in parts."""
    with translating(file.parent), open(file, "rb") as opened:
        if size <= PART_BYTES:
            return _md5(opened.read())
        length = part_bytes(size)
        parts = [_part(opened, length) for _ in range(0, size, length)]
    return f"{md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def _part(file: BinaryIO, length: int) -> bytes:
    found = md5(usedforsecurity=False)
    while length > 0 and (piece := file.read(min(length, PIECE_BYTES))):
        found.update(piece)
        length -= len(piece)
    return found.digest()


# -- Content on its way into a bucket: collected on this machine, in constant memory, then uploaded ---


class S3Intake(FolderIntake):
    """The same as in a folder, but for what is there already: the bucket is asked for its checksum when it is stored.

    To read it back, as a folder does, would cost more than to send it.
    """

    def _there(self, known: Stored | None) -> Stored | None:
        return None


# -- what a bucket does and does not do ------------------------------------------------------------


ENFORCED, IGNORED = "enforced", "ignored"


def probe(blobs: S3Blobs) -> dict[str, str]:
    """By name: `reachable` and `writable` are "yes" or why not; what is asked for on condition is enforced or ignored.

    Whose place it is is told too: `owner` is "this home", "another home", or "nobody yet". It is found out by asking,
    for `doctor`, and nothing is left behind.
    """
    bucket, name = blobs.bucket, f"probe-{secrets.token_hex(8)}/0"
    found = {"reachable": _tried(blobs.claimed_by)}
    if found["reachable"] != "yes":
        return found
    found |= {"owner": _owner(blobs), "writable": _tried(lambda: bucket.put(name, b"one"))}
    if found["writable"] != "yes":
        return found
    try:
        return found | _conditions(bucket, name)
    finally:
        found["writable"] = _tried(lambda: bucket.remove(name))


def _conditions(bucket: Bucket, name: str) -> dict[str, str]:
    listed = [each.path for each in bucket.listed(name.partition("/")[0])]
    return {
        "listing": "current" if name in listed else "behind",
        "create_only": _enforced(lambda: bucket.put(name, b"two", create=True)),
        "if_match": _enforced(lambda: bucket.put(name, b"three", tag='"00000000000000000000000000000000"')),
    }


def _enforced(put: Callable[[], None]) -> str:
    try:
        put()
    except AlreadyThere:
        return ENFORCED
    except OutlastError as error:
        return f"not known ({error})"
    return IGNORED


def _tried(call: Callable[[], object]) -> str:
    try:
        call()
    except OutlastError as error:
        return str(error)
    return "yes"


def _owner(blobs: S3Blobs) -> str:
    found = blobs.claimed_by()
    if not found:
        return "nobody yet"
    return "this home" if found.partition("/")[0] == blobs.owner.partition("/")[0] else "another home"
