"""Which blobs a home keeps its content in: those that its ledger remembers, a bucket or else the folder beside it.

A bucket is chosen once, by whoever first opens the ledger with one, while it refers to no content elsewhere. The choice
is a row of the ledger: it is proven like every row, and moves with it.

Where a bucket is, people say so: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&patience=60s`. No credentials are in it:
they are asked of the environment, by the names that other tools know, and kept nowhere.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from msgspec import Struct

from outlast import errors
from outlast.errors import Invalid, OutlastError
from outlast.store.blobs.folder import FolderBlobs
from outlast.store.contract.blobs import BlobsWanted, nothing_inside
from outlast.store.contract.runs import MARK
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.text import duration

if TYPE_CHECKING:
    import secrets

    from outlast.store.blobs.s3 import S3Blobs
    from outlast.store.contract import Reading, Store, Writing
    from outlast.store.contract.blobs import Blobs
else:
    secrets = late("secrets")  # for a bucket alone


SCHEME = "s3://"
PATIENCE_SECONDS = 60.0
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_PREFIX = r"[A-Za-z0-9!_.*'()-]+(?:/[A-Za-z0-9!_.*'()-]+)*"
_OPTIONS = ("endpoint", "region", "patience")


class BucketPlace(NamedTuple):
    """A prefix in a bucket."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""  # else AWS_ENDPOINT_URL, else Amazon's
    region: str = ""  # else AWS_REGION
    patience_seconds: float = PATIENCE_SECONDS  # how long one that does not answer is asked again

    @property
    def name(self) -> str:
        """Without how it is reached."""
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def url(self) -> str:
        """As it is remembered."""
        how = urlencode({name: said for name in ("endpoint", "region") if (said := getattr(self, name))}, safe=":/")
        return f"{self.name}?{how}" if how else self.name

    def is_same(self, other: BucketPlace) -> bool:
        """Whether both are one place, as far as both say where their bucket is."""
        at = {each.endpoint.rstrip("/") for each in (self, other) if each.endpoint}
        return self.name == other.name and len(at) <= 1


def place_of(url: str) -> BucketPlace:
    """What a URL of a bucket says. Raises Invalid."""
    if not isinstance(url, str) or not url.startswith(SCHEME):
        raise _refused(f"{url!r:.200} is no URL of a bucket")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise _refused("credentials are never part of it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")
    bucket, prefix = parts.netloc, parts.path.strip("/")
    if not re.fullmatch(_BUCKET, bucket):
        raise _refused(f"{bucket!r:.100} is no name of a bucket")
    if prefix and (not re.fullmatch(_PREFIX, prefix) or {".", ".."} & {*prefix.split("/")}):
        raise _refused(f"{prefix!r:.100} is no prefix: letters, digits and !_.*'()- between slashes")
    return BucketPlace(bucket, prefix, **_options(parts.query))


def _options(query: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := [name for name in found if name not in _OPTIONS]:
        raise _refused(f"{unknown[0]!r:.100} is no option of it; it takes {', '.join(_OPTIONS)}")
    if "endpoint" in found and not _is_endpoint(found["endpoint"]):
        raise _refused(f"the endpoint {found['endpoint']!r:.100} is no http:// or https:// URL without credentials")
    if "patience" in found:
        seconds = duration(found.pop("patience"))
        if not seconds:
            raise _refused("patience is no duration, such as 60s")
        found["patience_seconds"] = seconds
    return found


def _is_endpoint(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and not parts.query


def _refused(why: str) -> Invalid:
    how = "name the place for content so: s3://BUCKET/PREFIX, with ?endpoint=URL for a server of your own"
    return Invalid(detail=f"{why}; {how}")


# -- which one a ledger remembers --------------------------------------------------------------------


_ID, _KIND = f"{MARK}blobs", "blobs"
FIRST, LAST = "0", "g"  # between which all digests are


class ChosenBucket(Struct, frozen=True):
    """What a ledger remembers of the bucket that has its content."""

    url: str
    owner: str  # the id by which the place in the bucket is the ledger's


def chosen_in(look: Reading) -> ChosenBucket | None:
    """The bucket that a ledger remembers; None: its content is in the folder."""
    row = look.operation(_ID)
    try:
        return msgspec.json.decode(row[2], type=ChosenBucket) if row else None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise errors.IntegrityBroken("the place of a home's content", "it cannot be read") from error


class LateBlobs:
    """The blobs of a ledger, made when they are first used. See contract.blobs.Blobs."""

    def __init__(self, store: Store, folder: Path, tenant: str, wanted: BlobsWanted) -> None:
        self._store, self._folder, self._tenant, self._wanted = store, folder, tenant, wanted
        self._remembered: Callable[[], ChosenBucket | None] = lambda: store.read_also(chosen_in)

    def remember(self) -> None:
        """Look now which they are, for who uses them when the ledger is closed. What is damaged is told by that use."""
        with suppress(OutlastError):
            remembered = self._store.read_also(chosen_in)
            self._remembered = lambda: remembered

    def __getattr__(self, name: str) -> Any:
        said = self.__dict__
        found = getattr(said.get("_real") or said.setdefault("_real", self._chosen()), name)
        if callable(found):
            said[name] = found  # what they do is looked up once
        return found

    def _chosen(self) -> Blobs:
        remembered = self._remembered()
        if remembered is None and not _is_used(self._folder):
            remembered = choose(self._store, self._folder, self._tenant, self._wanted.beside())
        if remembered is None:
            return FolderBlobs(self._folder, self._store.content)
        return self._in_bucket(remembered)

    def _in_bucket(self, bucket: ChosenBucket) -> Blobs:
        place, given = place_of(bucket.url), place_of(self._wanted.url) if self._wanted.url else None
        if given is not None:
            place = place._replace(
                endpoint=place.endpoint or given.endpoint,
                region=given.region or place.region,
                patience_seconds=given.patience_seconds,
            )
        owner = "/".join(filter(None, (bucket.owner, self._wanted.restored())))
        return cast("Blobs", opened(place, self._tenant, self._folder, owner, self._store.content))


def opened(place: BucketPlace, tenant: str, folder: Path, owner: str, inside: Any) -> S3Blobs:
    """Blobs in a bucket; nothing is asked of it yet. Raises ExtraMissing."""
    try:
        from outlast.store.blobs.s3 import S3Blobs
    except ModuleNotFoundError as error:
        raise errors.ExtraMissing("content in a bucket", "s3") from error
    return S3Blobs(place, tenant, folder, owner, inside)


def blobs_for(
    store: Store, folder: Path, tenant: str, wanted: BlobsWanted | None = None, *, look_now: bool = True
) -> Blobs:
    """The blobs of a ledger. A bucket that is asked for is the ledger's from now on.

    Unless we `look_now`, the ledger is asked when they are first used: where that takes a connection of its own.
    Raises BlobsElsewhere for a ledger whose content is elsewhere, BlobsTaken, BlobsUnreachable, BlobsRefused.
    """
    wanted = wanted or BlobsWanted()
    if wanted.url:
        choose(store, folder, tenant, wanted.url)
    blobs = LateBlobs(store, folder, tenant, wanted)
    if look_now:
        blobs.remember()
    return cast("Blobs", blobs)


def refuse_unusable(url: str, tenant: str, folder: Path) -> None:
    """Nothing, if a ledger that is about to be made can have this place; else nothing is made.

    Raises Invalid, ExtraMissing, BlobsTaken, BlobsUnreachable, BlobsRefused.
    """
    if url:
        blobs = opened(place_of(url), tenant, folder, "", nothing_inside)
        if blobs.claimed_by():
            raise errors.BlobsTaken(blobs.place)
        trial = f"probe-{secrets.token_hex(8)}/0"
        blobs.bucket.put(trial, b"")
        blobs.bucket.remove(trial)


def choose(store: Store, folder: Path, tenant: str, url: str) -> ChosenBucket | None:
    """Remember a bucket, unless it is remembered already. Nothing is chosen by an empty URL.

    The place is claimed after it is remembered: killed in between, the next who writes there claims it.
    """
    if not url:
        return None
    place = place_of(url)
    remembered = store.read(chosen_in)
    if remembered is None:
        new = ChosenBucket(place.url, secrets.token_hex(16))
        blobs = opened(place, tenant, folder, new.owner, store.content)
        if blobs.claimed_by():
            raise errors.BlobsTaken(blobs.place)
        remembered = store.write(lambda tx: _remember(tx, store.place, folder, new))
        if remembered == new:
            blobs.claim()
    there = place_of(remembered.url)
    if not there.is_same(place):
        raise errors.BlobsElsewhere(store.place, there.url, place.url)
    return remembered


def _remember(tx: Writing, home: str, folder: Path, new: ChosenBucket) -> ChosenBucket:
    before = chosen_in(tx)
    if before is not None:
        return before
    if any(tx.content_of(name) is None for name in tx.blobs_between(FIRST, LAST)):
        raise errors.BlobsElsewhere(home, str(folder), new.url)
    tx.add_operation(_ID, _KIND, "", msgspec.json.encode(new).decode(), int(time.time() * 1_000_000))
    return new


def _is_used(folder: Path) -> bool:
    """Whether content is in a folder already."""
    try:
        return any(len(path.name) == 2 for path in folder.iterdir())
    except OSError:
        return False
