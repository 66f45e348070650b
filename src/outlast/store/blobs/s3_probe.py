"""What a bucket does and does not do, found out by asking it: for `doctor`. Leaves nothing behind."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from outlast.errors import OutlastError
from outlast.store.blobs.bucket import AlreadyThere, Bucket
from outlast.store.blobs.s3 import S3Blobs

ENFORCED, IGNORED = "enforced", "ignored"


def probe(blobs: S3Blobs) -> dict[str, str]:
    """By name: `reachable` and `writable` are "yes" or why not; what is asked for on condition is enforced or ignored.

    Whose place it is is told too: `owner` is "this home", "another home", or "nobody yet".
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
