"""Partial work: what an attempt left in the files it declared to write, and putting them back without losing anything.

The files are looked at by `snapshot.py` before an attempt and after it; the rules are in `changes.py`. Nothing here
writes the journal. The order of putting back is what makes it safe: everything is checked, then the content of each
file that will give way is saved as a blob, then the caller records those blobs, and only then are files touched, each
whole or not at all. A crash in between leaves some files as before and the rest as the attempt left them; running it
again does the rest, since a file that is back is no change.

And the files that a finished step left: as they were then, and what is there now. One is told by its stamp: one that is
the same, and was written and touched at the same moments, has the same content. Only where the stamp says nothing is
the content read, up to a size.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from posixpath import relpath
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from outlast import errors, failpoints
from outlast.files.changes import (
    GIT_PATHS,
    FileChange,
    LeftFiles,
    SeenFile,
    changes,
    edited_since,
    from_facts,
    is_hidden,
    judge,
    last_lines,
    never,
    not_restorable,
    only_permissions,
    to_facts,
)
from outlast.files.repository import top_of
from outlast.files.snapshot import GONE, holds_secret, look, look_at, stamp_of
from outlast.store.contract.blobs import Blobs
from outlast.values.codec import digest, identity, readable, text
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.files import ask_git, place
else:
    ask_git, place = late("outlast.files.ask_git"), late("outlast.files.place")  # only of files that changed

GIT_SECONDS = 5.0
SAVE_BYTES = 64 << 20  # a larger file is not displaced: saving it takes its size in memory
_NAMED = 20  # that many paths are spelled out in an error

Saved = Mapping[str, str]


def judged(
    root: Path,
    patterns: Sequence[str],
    before: Mapping[str, SeenFile],
    *,
    attempt: int,
    status: str,
    tail: str = "",
    exit: int | None = None,
    error: str = "",
    asks_git: bool = True,
) -> LeftFiles:
    """What an attempt left, as it is now. `tail` may be the whole transcript: its last lines are taken.

    Git is asked for who records it or shows it to somebody, and takes longer than all else: not for who only decides.
    """
    now = look(root, patterns)
    git = changed_by_git(root) if asks_git else ()
    return LeftFiles(
        attempt=attempt,
        status=status,
        judgement=judge(patterns, before, now),
        files=changes(before, now),
        tail=last_lines(tail),
        git=git[:GIT_PATHS],
        git_more=max(0, len(git) - GIT_PATHS),
        exit=exit,
        error=readable(error),
    )


def changed_by_git(root: Path) -> tuple[str, ...]:
    """The paths of the work tree that git finds changed or untracked, seen from the root.

    They say where to look and decide nothing: without git, outside of a work tree, or when git takes longer than
    five seconds, there are none.
    """
    if top_of(root) is None:
        return ()
    status = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    prefix = _git(root, "rev-parse", "--show-prefix") if status else ""
    paths = (field[3:].rstrip("/") for field in status.split("\0") if field)  # after two letters and a blank
    seen_from_root = (relpath(path, prefix.removesuffix("\n") or ".") for path in paths)
    return tuple(sorted(path for path in set(seen_from_root) if not is_hidden(path)))


def _git(root: Path, *command: str) -> str:
    answer = ask_git.ask(root, *command, seconds=GIT_SECONDS)
    return os.fsdecode(answer.out) if answer and not answer.exit else ""


# -- putting back ------------------------------------------------------------------------------------


class RestoredFiles(Struct, frozen=True):
    """What was put back."""

    restored: tuple[FileChange, ...]  # the changes that were undone
    saved: dict[str, str]  # path of each file that gave way, and the blob with its content
    not_kept: tuple[str, ...]  # files whose content before is not kept; they had not changed


class _Restore(NamedTuple):
    """What is to be put back: the files as they were, as they are, and what is undone."""

    root: Path
    before: Mapping[str, SeenFile]
    now: Mapping[str, SeenFile]
    undo: tuple[FileChange, ...]


def restore(
    root: Path,
    patterns: Sequence[str],
    before: Mapping[str, SeenFile],
    blobs: Blobs,
    *,
    known_after: Mapping[str, str] | None = None,
    ended_at_us: int | None = None,
    secrets: Collection[str] = (),
    record: Callable[[Saved], None] | None = None,
) -> RestoredFiles:
    """Put the declared files back as they were `before`, and give what gave way, saved as blobs.

    `known_after` has the digests of the files when the attempt ended ("" for none); without it, `ended_at_us` is when
    the attempt was surely over, and a file written later counts as edited. `record` is called with what was saved, when
    that is durable and before any file is touched. Only files are put back: folders that are empty afterwards stay.

    Raises EditedSince or NotRestorable, naming the files, before anything is touched; DiskFull. After an error in the
    middle nothing is lost and the same call does the rest.
    """
    plan = refuse_restore(root, patterns, before, blobs, known_after=known_after, ended_at_us=ended_at_us)
    return _restored(plan, blobs, secrets, record)


def put_back(
    root: Path,
    wanted: Mapping[str, SeenFile],
    blobs: Blobs,
    *,
    secrets: Collection[str] = (),
    record: Callable[[Saved], None] | None = None,
) -> RestoredFiles:
    """Put just these files back, whatever is there now: it gives way, saved as `restore` saves it.

    Raises NotRestorable, EditedSince for what is written at this moment, DiskFull.
    """
    looks = ((path, look_at(f"{root}/{path}", 0)) for path in wanted if _is_reached(root, path))
    now = {path: found.seen for path, found in looks if found and found.seen.mode != "folder"}
    plan = _Restore(root, wanted, now, changes(wanted, now))
    _refuse_impossible(plan, blobs)
    return _restored(plan, blobs, secrets, record)


def _is_reached(root: Path, path: str) -> bool:
    """Whether every folder above a file is one: what a link leads to is none of ours."""
    return all(place.is_folder(f"{root}/{above}") for above in Path(path).parents[:-1])


def _restored(
    plan: _Restore, blobs: Blobs, secrets: Collection[str], record: Callable[[Saved], None] | None
) -> RestoredFiles:
    root, before, now, undo = plan
    saved = _save(plan, blobs, secrets)
    if record:
        record(saved)
    failpoints.reached("restore.saved")
    # a created file may be where a folder has to be again, or inside of what was a file
    for change in sorted(undo, key=lambda change: change.change != "created"):
        with _named(root, change.path):
            _put_back(root, change.path, before.get(change.path), now.get(change.path), blobs)
        failpoints.reached("restore.written")
    return RestoredFiles(undo, saved, tuple(sorted(path for path, seen in before.items() if not seen.kept)))


# -- refusing, before anything is touched ------------------------------------------------------------


def refuse_restore(
    root: Path,
    patterns: Sequence[str],
    before: Mapping[str, SeenFile],
    blobs: Blobs,
    *,
    known_after: Mapping[str, str] | None = None,
    ended_at_us: int | None = None,
) -> _Restore:
    """The files as they are, and what would be undone. Raises EditedSince or NotRestorable; touches nothing."""
    now = look(root, patterns)
    plan = _Restore(root, before, now, changes(before, now))
    _refuse_edited(plan, known_after, ended_at_us)
    _refuse_impossible(plan, blobs)
    return plan


def _refuse_edited(plan: _Restore, known_after: Mapping[str, str] | None, ended_at_us: int | None) -> None:
    edited: Sequence[str] = ()
    if known_after is not None:
        edited = edited_since(plan.undo, known_after)
    elif ended_at_us is not None:
        there = [change.path for change in plan.undo if change.change != "removed"]  # the gone come back without loss
        edited = [path for path in there if _written_after(plan.root, path, ended_at_us)]
    if edited:
        raise errors.EditedSince(_listed([repr(path) for path in edited]))


def _written_after(root: Path, path: str, at_us: int) -> bool:
    try:
        return os.lstat(root / path).st_mtime_ns // 1000 > at_us
    except (FileNotFoundError, NotADirectoryError):
        return False


def _refuse_impossible(plan: _Restore, blobs: Blobs) -> None:
    root, before, now, undo = plan
    found = dict(not_restorable(undo, before, now))
    created = {change.path for change in undo if change.change == "created"}
    for path in (change.path for change in undo):
        if path in now and now[path].size > SAVE_BYTES:
            found.setdefault(path, f"what is there now is larger than {SAVE_BYTES >> 20} MiB, too large to save first")
        if path in before and (blocked := _blocked(root, path, created)):
            found.setdefault(path, blocked)
    if found:
        raise _not_restorable(found)
    for path in (change.path for change in undo):
        if path in before and before[path].kept:
            blobs.get(before[path].kept)  # raises IntegrityBroken while there is still nothing half done


def _not_restorable(found: Mapping[str, str]) -> errors.NotRestorable:
    return errors.NotRestorable(_listed([f"{path!r} ({why})" for path, why in sorted(found.items())]))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _blocked(root: Path, path: str, created: Collection[str]) -> str:
    """Why a file cannot be written at its path: something is in its place, or in that of a folder above it."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        if above in created:  # it is removed first, and what a link there leads to is none of ours
            return ""
        if os.path.lexists(root / above) and not place.is_folder(f"{root}/{above}"):
            return f"{above!r} was a folder and is none now"
    if place.is_folder(f"{root}/{path}") and not all(inner in created for inner in files_below(root, path)):
        return "it is a folder now, with files in it that were not declared"
    return ""


def files_below(root: Path, path: str) -> Iterator[str]:
    """Every file and link below a folder, from the root."""
    for folder, folders, files in os.walk(root / path):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in (*files, *links))


# -- saving what gives way ---------------------------------------------------------------------------


def _save(plan: _Restore, blobs: Blobs, secrets: Collection[str]) -> dict[str, str]:
    """The blobs with the content of every file that gives way, durable."""
    root, before, now, undo = plan
    there = [change.path for change in undo if change.path in now]
    giving_way = [path for path in there if not (path in before and only_permissions(before[path], now[path]))]
    for path in giving_way:
        if holds_secret(_content(root, path, now[path]), secrets):
            raise _not_restorable({path: "what is there now has a secret in it, which is never stored"})
    return {path: blobs.put(_content(root, path, now[path])) for path in giving_way}


def _content(root: Path, path: str, expected: SeenFile) -> bytes:
    found = look_at(f"{root}/{path}", SAVE_BYTES)
    if not found or found.seen.what != expected.what or found.content is None:
        raise errors.EditedSince(repr(path))
    return found.content


# -- touching files ----------------------------------------------------------------------------------


@contextmanager
def _named(root: Path, path: str) -> Iterator[None]:
    """What the file system refuses, said of the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.DiskFull(str(root)) from error
        raise _not_restorable({path: error.strerror or str(error)}) from error


def _put_back(root: Path, path: str, before: SeenFile | None, now: SeenFile | None, blobs: Blobs) -> None:
    if now is None and place.is_folder(f"{root}/{path}"):  # empty folders may make room for a file
        place.remove_empty(root, path)
    found = look_at(f"{root}/{path}", 0)
    if (found.seen.what if found else None) != (now.what if now else None):
        raise errors.EditedSince(repr(path))
    *above, name = path.split("/")
    with place.folder_at(root, above, make=True) as folder:
        if before is None:
            os.unlink(name, dir_fd=folder)
        elif now and only_permissions(before, now):
            _set_bits(folder, name, before.bits)
        else:
            _write(folder, name, before, blobs.get(before.kept))
        os.fsync(folder)


def _set_bits(folder: int, name: str, bits: int) -> None:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        os.fchmod(handle, bits)
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(folder: int, name: str, before: SeenFile, content: bytes) -> None:
    """The file, whole, under its name. The name on the way is the same each time: a second try clears up the first."""
    on_the_way = f".outlast-{identity(os.fsencode(name))}"
    with suppress(FileNotFoundError):
        os.unlink(on_the_way, dir_fd=folder)
    if before.mode == "link":
        os.symlink(os.fsdecode(content), on_the_way, dir_fd=folder)
    else:
        place.write_new(folder, on_the_way, content, before.bits)
    failpoints.reached("restore.staged")
    os.replace(on_the_way, name, src_dir_fd=folder, dst_dir_fd=folder)


# -- what a finished step left -----------------------------------------------------------------------

HASH_BYTES = 64 << 20  # of a larger file only the size is compared, unless somebody will read it

Found = Literal["same", "changed", "missing"]
SAME: tuple[Found, str] = ("same", "")
NOTHING: tuple[Found, str] = ("missing", "nothing")


def digests_of(seen: Mapping[str, SeenFile]) -> dict[str, str]:
    """The files with their digests: what a receipt says of them."""
    return {text(path): each.digest for path, each in seen.items()}


def details_of(seen: Mapping[str, SeenFile]) -> dict[str, dict[str, Any]]:
    """All else that is known of them."""
    found = to_facts(seen)
    for fact, each in zip(found.values(), seen.values(), strict=True):
        del fact["digest"]
        fact |= {"stamp": each.stamp} if each.stamp else {}
    return found


def seen_in(files: Mapping[str, str], details: Mapping[str, Mapping[str, Any]]) -> dict[str, SeenFile]:
    """What both were made of. Raises ValueError, TypeError or LookupError for what no receipt says."""
    found: dict[str, SeenFile] = {}
    for name, known in details.items():
        plain = {key: value for key, value in known.items() if key != "stamp"}
        ((path, seen),) = from_facts({name: {"digest": files[name], **plain}}).items()
        if is_inside(path):
            found[path] = replace(seen, stamp=str(known.get("stamp", "")))
    return found


def is_inside(path: str) -> bool:
    """Whether a path from a record names a file below its folder, of those that can be declared."""
    parts = path.split("/")
    return bool(path) and "\0" not in path and not any(part in ("", ".", "..") or never(part) for part in parts)


# -- what is there of it now -------------------------------------------------------------------------


class Looker(NamedTuple):
    """Looks at files below one folder. What it learns of folders it learns once."""

    root: Path
    folders: dict[str, str]  # by path, what is wrong with each; "" for a folder

    def compare(self, path: str, was: SeenFile, *, whole: bool = False) -> tuple[Found, str]:
        """How a file is to what it was, and what is there if it is not the same. `whole`: whatever its size."""
        wrong = self._above(path.rpartition("/")[0])
        if wrong:
            return "missing", wrong
        try:
            return _compare(f"{self.root}/{path}", was, whole)
        except OSError as error:
            return NOTHING if error.errno in GONE else ("changed", f"it cannot be read ({error.strerror})")

    def _above(self, folder: str) -> str:
        """What is wrong with a folder below the root; links are not followed."""
        if not folder:
            return ""
        if folder not in self.folders:
            self.folders[folder] = self._above(folder.rpartition("/")[0]) or _no_folder(f"{self.root}/{folder}")
        return self.folders[folder]


def looker(root: Path) -> Looker:
    return Looker(root, {})


def _no_folder(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        return "nothing" if error.errno in GONE else f"its folder cannot be read ({error.strerror})"
    return "" if stat.S_ISDIR(mode) else "its folder is a link now" if stat.S_ISLNK(mode) else "its folder is gone"


def _compare(path: str, was: SeenFile, whole: bool) -> tuple[Found, str]:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return _compare_link(path, was)
    if stat.S_ISDIR(found.st_mode):
        return "missing", "a folder is there"
    if not stat.S_ISREG(found.st_mode):
        return SAME if was.mode == "special" else ("missing", "a pipe, a socket or a device is there")
    if was.mode in ("link", "special", "folder"):
        return "changed", "a plain file is there"
    if not was.digest:  # nobody could read it then
        return SAME
    if found.st_size != was.size:
        return "changed", f"{found.st_size:,} bytes, not {was.size:,}"
    if stamp_of(found) == was.stamp or (found.st_size > HASH_BYTES and not whole):
        return SAME
    return _compare_content(path, was)


def _compare_link(path: str, was: SeenFile) -> tuple[Found, str]:
    if was.mode == "link" and digest(os.fsencode(os.readlink(path))) == was.digest:
        return SAME
    if not os.path.exists(path):
        return "missing", "a link to nothing is there"
    return "changed", "another link is there" if was.mode == "link" else "a link is there"


def _compare_content(path: str, was: SeenFile) -> tuple[Found, str]:
    look = look_at(path, 0)
    if look is None:
        return NOTHING
    if not look.seen.digest:
        return "changed", "it cannot be read"
    return SAME if look.seen.digest == was.digest else ("changed", f"other content, {look.seen.size:,} bytes")
