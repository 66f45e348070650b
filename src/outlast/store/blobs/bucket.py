"""A bucket: objects put, read, listed and removed, with the client's errors in our words. Knows nothing of blobs.

Only the blocking half of the client is used: its other half can abort an interpreter that ends. What does not answer
is asked again by the client, with pauses that grow, for as long as the place is patient; what breaks off in the midst
of it is asked again here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, PreconditionError
from obstore.exceptions import UnauthenticatedError as NotKnown
from obstore.store import S3Store

from outlast.clock import Clock, SystemClock
from outlast.errors import BlobsRefused, BlobsUnreachable, OutlastError, StoreForked
from outlast.store.blobs.chosen import BucketPlace
from outlast.values.frozen import NamedTuple

T = TypeVar("T")
PART_BYTES = 8 << 20  # of an upload in parts, and of what is read at once
MOST_PARTS = 9000  # the limit of S3 is 10,000
AT_ONCE = 4  # parts
PAGE = 1000
_SAID = re.compile(r"<Code>([^<]{1,100})</Code>(?:\s*<Message>([^<]{0,300})</Message>)?")
_STATUS = re.compile(r"status code: (\d{3}[^:\n<]{0,40})")
_OURS = ("NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed", "InvalidBucketName", "InvalidAccessKeyId")


_users: dict[str, int] = {}  # the process whose threads the client has


class BucketObject(NamedTuple):
    """What a bucket says of an object."""

    path: str
    size: int
    at: float  # when it was written, by the server's clock, in seconds
    tag: str


class Missing(Exception):
    """Raised where no object is."""


class AlreadyThere(Exception):
    """Raised by a put that would only make, where an object is."""


class Patience:
    """Tries with pauses between them that grow: a server that restarts within this time is outlasted."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock, self._pause = clock, 0.05
        self._until = clock.boot() + int(seconds * 1_000_000)

    def lasts(self) -> bool:
        """Wait before the next try; False, at once, when there is no time for one."""
        if self._clock.boot() + int(self._pause * 1_000_000) > self._until:
            return False
        self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, 2.0)
        return True


class Bucket:
    """Objects below one prefix. Made when it is first needed: nothing is asked before."""

    def __init__(self, place: BucketPlace, below: str = "", clock: Clock | None = None) -> None:
        """Raises StoreForked in a child that was forked from a process with a bucket: it would wait for ever."""
        self.place, self._pid = place, _users.setdefault("pid", os.getpid())
        self._clock = clock or SystemClock()
        self.name = f"{place.name}/{below}" if below else place.name
        self._refuse_forked()
        self._store = S3Store(
            place.bucket,
            prefix="/".join(filter(None, (place.prefix, below))) or None,
            config=_config(place),
            client_options=_client(place),
            retry_config=_retries(place),
        )

    # -- asking ----------------------------------------------------------------------------------

    def put(self, path: str, content: bytes, *, create: bool = False, tag: str = "") -> None:
        """Write an object whole. Raises AlreadyThere where one is, with `create`, if the bucket enforces that.

        With `tag` only in place of the object that has it.
        """
        mode: Any = "create" if create else {"e_tag": tag} if tag else "overwrite"
        self._patiently(lambda: obstore.put(self._store, path, content, mode=mode, use_multipart=False))

    def put_file(self, path: str, file: Path, size: int, *, create: bool = False) -> None:
        """Write a file as an object, in parts where it is large, in constant memory; it is there whole or not."""
        if size <= PART_BYTES:
            self.put(path, file.read_bytes(), create=create)
            return
        parts: Any = {"use_multipart": True, "chunk_size": part_bytes(size), "max_concurrency": AT_ONCE}

        def send() -> None:
            with open(file, "rb") as opened:
                obstore.put(self._store, path, opened, **parts)

        self._patiently(send)

    def get(self, path: str) -> tuple[BucketObject, bytes | None]:
        """An object, and its content unless that is larger than a part. Raises Missing."""

        def read() -> tuple[BucketObject, bytes | None]:
            found = obstore.get(self._store, path)
            made = _object(found.meta)
            return made, _whole(bytes(found.bytes()), made.size) if made.size <= PART_BYTES else None

        return self._patiently(read)

    def get_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from one place up to another. Raises Missing."""
        return self._patiently(
            lambda: _whole(bytes(obstore.get_range(self._store, path, start=start, end=end)), end - start)
        )

    def head(self, path: str) -> BucketObject | None:
        """What is said of an object; None where there is none."""
        try:
            return self._patiently(lambda: _object(obstore.head(self._store, path)))
        except Missing:
            return None

    def listed(self, folder: str) -> list[BucketObject]:
        """Every object in a folder, and in those below it."""

        def read() -> list[BucketObject]:
            pages = obstore.list(self._store, prefix=folder or None, chunk_size=PAGE)
            return [_object(each) for page in pages for each in page]

        return self._patiently(read)

    def folders(self) -> list[str]:
        """The names of the topmost folders."""
        found = self._patiently(lambda: obstore.list_with_delimiter(self._store)["common_prefixes"])
        return sorted(name.rpartition("/")[2] for name in found)

    def remove(self, path: str) -> None:
        """Remove an object; that it is not there is no error."""
        with suppress(Missing):
            self._patiently(lambda: obstore.delete(self._store, path))

    # -- what can go wrong -----------------------------------------------------------------------

    def _patiently(self, ask: Callable[[], T]) -> T:
        """What is asked for; again if it broke off, for as long as the place is patient. Raises BlobsUnreachable.

        All that is asked may be done twice: an object is written as a whole, and always with the same content.
        """
        patience = self.patience()
        while True:
            try:
                with self._translated():
                    return ask()
            except BlobsUnreachable:
                if not patience.lasts():
                    raise

    def patience(self) -> Patience:
        """For something that is tried from now on."""
        return Patience(self.place.patience_seconds, self._clock)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        self._refuse_forked()
        try:
            yield
        except (AlreadyExistsError, PreconditionError) as error:
            raise AlreadyThere(str(error)[:300]) from error
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._translate(error) from error
            raise Missing(str(error)[:300]) from error
        except (BaseError, _BrokenOff, OSError) as error:
            raise self._translate(error) from error

    def _refuse_forked(self) -> None:
        if os.getpid() != self._pid:
            raise StoreForked(self.name)

    def _translate(self, error: Exception) -> OutlastError:
        """Our error for one of the client's."""
        text = str(error).partition("\n\nDebug source:")[0]
        said, status = _SAID.search(text), _STATUS.search(text)
        facts = [status[1].strip() if status else "", *(filter(None, said.groups()) if said else ())]
        whole = " ".join(text.split()).removeprefix("Generic S3 error: ")
        why = (": ".join(filter(None, facts)) or whole[-300:]).rstrip(". ")  # the reason is at its end
        is_refused = isinstance(error, PermissionDeniedError | NotKnown) or why.startswith(("401", "403"))
        if is_refused or any(code in text for code in _OURS):
            return BlobsRefused(self.name, why)
        if "169.254.169.254" in text or "InstanceCredential" in text:
            return BlobsRefused(self.name, "no credentials were found")
        return BlobsUnreachable(self.name, why)


class _BrokenOff(Exception):
    pass


def _whole(content: bytes, size: int) -> bytes:
    if len(content) != size:
        raise _BrokenOff(f"{len(content):,} of {size:,} bytes arrived")
    return content


def part_bytes(size: int) -> int:
    """How large the parts of an upload of this size are."""
    needed = -(-size // MOST_PARTS)
    return max(PART_BYTES, -(-needed // (1 << 20)) << 20)


def _object(said: Any) -> BucketObject:
    tag = (said.get("e_tag") or "").strip('"')
    return BucketObject(said["path"], said["size"], said["last_modified"].timestamp(), tag)


# -- how the client is set up ------------------------------------------------------------------------


def _endpoint(place: BucketPlace) -> str:
    return place.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _config(place: BucketPlace) -> Any:
    """What the environment does not say. Uploads carry their SHA-256, which the server compares."""
    region = place.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = _endpoint(place)
    more = {"aws_endpoint_url": endpoint.rstrip("/")} if endpoint else {}
    return {"aws_region": region, "aws_checksum_algorithm": "SHA256", **more}


def _client(place: BucketPlace) -> Any:
    one = timedelta(seconds=max(place.patience_seconds / 2, 1.0))
    times = {"timeout": one, "connect_timeout": min(one, timedelta(seconds=5))}
    return times | ({"allow_http": True} if _endpoint(place).startswith("http://") else {})


def _retries(place: BucketPlace) -> Any:
    pauses = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2}
    return {"max_retries": 20, "backoff": pauses, "retry_timeout": timedelta(seconds=place.patience_seconds)}
