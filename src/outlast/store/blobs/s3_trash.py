"""The trash of blobs in a bucket: objects beside the content say that it is condemned. Nothing is moved.

A bucket renames nothing, and removes whatever has a key, also what was written under it a moment ago. So:

1. The sweep finds that no reference names the blob and that it was written a grace period ago or more.
2. It writes `0.trash` beside the content `0`. From here on a saver does not rely on `0`, and writes under another key.
3. It looks again: a reference, or content that is young after all, takes `0.trash` away.
4. A second grace period begins with `0.trash`. Who had looked before step 2 has it to commit his reference.
5. A later sweep looks for references once more. If there is one, `0.trash` goes; or `0`, where the content is under
   another key too. If there is none, it writes `0.gone`, looks whether all is as it was, and removes `0`, then
   `0.trash`. `0.gone` stays for a day: no saver writes under a key that somebody may still be about to remove.

Killed after 2, step 5 finds what step 3 would have found. Killed in 5, the next sweep goes on. Ages are differences of
the server's own times: what is written in 2 and 5 says what time it is there.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

from outlast import failpoints
from outlast.errors import BlobsTaken, OutlastError
from outlast.store.blobs.bucket import BucketObject
from outlast.store.blobs.folder import GRACE_SECONDS, FolderBlobs, FolderTrash
from outlast.store.blobs.s3 import GONE, OWNER, TRASH, Held, S3Blobs, _path, held_of
from outlast.store.contract.blobs import BlobFile, IsNeeded, Shelf

GONE_SECONDS = 24 * 3600.0
STALE_SECONDS = 30.0  # after which what was read before a removal is read again
_HEX = frozenset("0123456789abcdef")


class S3Trash:
    """Condemns blobs of one tenant, and removes them. See contract.blobs.Trash."""

    def __init__(self, blobs: S3Blobs, grace_seconds: float = GRACE_SECONDS) -> None:
        self.blobs, self.grace_seconds = blobs, grace_seconds
        self._bucket = blobs.bucket
        self._spool = FolderTrash(FolderBlobs(blobs.folder))
        self._is_checked = False

    # -- looking -----------------------------------------------------------------------------------

    def shelves(self) -> Iterator[Shelf]:
        """By the first two digits of their names; last what was left on its way here, on this machine."""
        for first in self._bucket.folders():
            if len(first) == 2 and {*first} <= _HEX:
                held = self._held(first)
                yield Shelf(first, self._usable(held), self._condemned(held), list(_old_marks(held)))
        yield Shelf("", [], [], [left for shelf in self._spool.shelves() for left in shelf.half_written])

    def _usable(self, found: dict[str, Held]) -> list[BlobFile]:
        there = [(name, held.usable) for name, held in found.items() if held.usable]
        return [BlobFile(name, _size(usable), all(map(self._is_old, usable.values()))) for name, usable in there]

    def _condemned(self, found: dict[str, Held]) -> list[BlobFile]:
        condemned = []
        for name, held in found.items():
            there = {key: each for key, each in held.content.items() if held.is_condemned(key)}
            marks = [held.trash[key] for key in there if key in held.trash]
            if there:
                condemned.append(BlobFile(name, _size(there), all(map(self._is_old, marks))))
        return condemned

    def clear(self, name: str) -> str:
        """Remove what was left; says why it could not be, else nothing."""
        if not name.endswith((TRASH, GONE)):
            return self._spool.clear(name)
        try:
            self._refuse_others()
            self._bucket.remove(name)
        except OutlastError as error:
            return f"{name} could not be removed: {error}"
        return ""

    def _held(self, shelf: str) -> dict[str, Held]:
        found = defaultdict[str, list[BucketObject]](list)
        for each in self._bucket.listed(shelf):
            found[each.path.split("/")[1]].append(each)
        return {name: held_of(objects) for name, objects in sorted(found.items())}

    def _is_old(self, each: BucketObject) -> bool:
        """By this machine's clock: enough to choose by. What is removed is compared by the server's."""
        return each.at < time.time() - self.grace_seconds

    # -- condemning --------------------------------------------------------------------------------

    def throw(self, name: str, is_needed: IsNeeded) -> bool:
        """Condemn a blob. False when somebody turned out to need it, or it is young: then it is not."""
        self._refuse_others()
        keys = self.blobs._look(name).usable
        for key in keys:
            self._bucket.put(_path(name, key) + TRASH, b"")
        failpoints.reached("sweep.trashed")
        held = self.blobs._look(name)
        young = any(not self._is_past(held.content.get(key), held.trash.get(key)) for key in keys)
        if not keys or young or is_needed(name):
            self._take_back(name, held, keys)
            return False
        failpoints.reached("sweep.dated")
        return True

    def _is_past(self, begun: BucketObject | None, now: BucketObject | None) -> bool:
        """Whether a grace period lies between two objects."""
        return begun is not None and now is not None and now.at - begun.at > self.grace_seconds

    def _take_back(self, name: str, held: Held, keys: dict[str, BucketObject]) -> None:
        """Let what was condemned be relied on again; `gone` goes first, for either keeps savers away."""
        for key in keys:
            if key in held.gone:
                self._bucket.remove(_path(name, key) + GONE)
            self._bucket.remove(_path(name, key) + TRASH)
        failpoints.reached("sweep.restored")

    # -- removing ----------------------------------------------------------------------------------

    def remove(self, blob: BlobFile, is_needed: IsNeeded) -> bool:
        """Remove a condemned blob for good. False when it is needed, and usable, or was condemned lately."""
        self._refuse_others()
        started = time.monotonic()
        held, needed = self.blobs._look(blob.name), is_needed(blob.name)
        condemned = {key: each for key, each in held.content.items() if held.is_condemned(key)}
        if needed and not held.usable:
            self._take_back(blob.name, held, condemned)
            return False
        if not blob.old:
            return False
        gone = [self._removed(blob.name, key, held, started) for key in condemned]
        is_gone = bool(gone) and all(gone) and not needed
        if is_gone:
            failpoints.reached("sweep.emptied")
        return is_gone

    def _removed(self, name: str, key: str, before: Held, started: float) -> bool:
        """Remove the content under one key, if it has been condemned for its time."""
        path = _path(name, key)
        if key not in before.trash:  # somebody wrote it where content had just gone, and relies on another
            self._bucket.put(path + TRASH, b"")
            return False
        self._bucket.put(path + GONE, b"")
        held = self.blobs._look(name)
        is_late = time.monotonic() - started > STALE_SECONDS  # what was read of references may be so no more
        if is_late or not self._is_past(held.trash.get(key), held.gone.get(key)):
            if key not in before.gone:
                self._bucket.remove(path + GONE)
            return False
        failpoints.reached("sweep.doomed")
        self._bucket.remove(path)
        failpoints.reached("sweep.emptied")
        self._bucket.remove(path + TRASH)
        return True

    def refusal(self) -> str:
        """Why nothing may be removed here: it is the place of another home, or of the one this was restored from."""
        try:
            self._refuse_others()
        except BlobsTaken:
            owner = f"{self.blobs.place}/{OWNER}"
            return f"it is the place of another home, or of the one that this was restored from; {owner} says of which"
        return ""

    def _refuse_others(self) -> None:
        """Raises BlobsTaken unless the place is this home's, and not that of the home it was restored from."""
        if not self._is_checked:
            self.blobs.claim()
            if self.blobs.claimed_by() != self.blobs.owner:
                raise BlobsTaken(self.blobs.place)
            self._is_checked = True


def _old_marks(found: dict[str, Held]) -> Iterator[str]:
    """The marks of content that went a day ago or more."""
    for held in found.values():
        for key, mark in held.gone.items():
            if key not in held.content and mark.at < time.time() - GONE_SECONDS:
                yield from (each.path for each in (held.trash.get(key), mark) if each)


def _size(there: dict[str, BucketObject]) -> int:
    return sum(each.size for each in there.values())
