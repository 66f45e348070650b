"""Where a bucket is, as people name it: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&patience=60s`.

No credentials are in it: they are asked of the environment, by the names that other tools know, and kept nowhere.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from outlast.errors import Invalid
from outlast.values.frozen import NamedTuple
from outlast.values.text import duration

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
