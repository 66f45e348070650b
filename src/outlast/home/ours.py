"""Whose home is it: one that was named is ours by that word; one that was found must show it.

Found upward from where somebody works, a home may be a stranger's: part of a clone, a link, another user's. It is ours
if it belongs to us, is no link, git does not track it, and this user made it or has used it before, at that very place;
the user's own folder remembers that (`user.py`). One that is not known yet is adopted by a command, never by a hook.
What was stored in an adopted home before is not ours by that (`handoffs/foreign.py`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable

from outlast.home import user
from outlast.values.private import open_file

ID = ".id"
_ID = re.compile(rb"[0-9a-f]{32}")
_LEFT_BY_MAKING = {ID, ".gitignore"}


def wrong_with(home: str) -> str:
    """Why a folder cannot be a home of ours, as far as that shows at a glance; "" when nothing speaks against it."""
    try:
        found = os.lstat(home)
    except OSError:
        return ""  # there is none yet
    if stat.S_ISLNK(found.st_mode):
        return "it is a link"
    if found.st_uid not in user.own_uids():
        return f"it belongs to another user ({_name_of(found.st_uid)})"
    return ""


def known_as(home: str) -> str:
    """How this user knows the home that is at this place: `made`, `adopted`, or "" when it does not."""
    marked = id_of(home)
    if not marked:
        return ""
    known = user.lines(user.HOMES)
    return next((how for how in ("made", "adopted") if _line(how, marked, home) in known), "")


def why_not(home: str) -> str:
    """Why a hook uses nothing of a home that it found; "" when it is ours. Nothing is adopted."""
    if wrong := wrong_with(home):
        return wrong
    if known_as(home):
        return _overwritten(home)
    return "this user has not used it before (`outlast runs` there makes it known)"


def check_found(home: str, tell: Callable[[str], None] | None) -> bool:
    """Whether a home that was found was not made here, though it is ours now. Raises HomeNotOurs.

    One that is not known yet is adopted, and whoever listens is told so; if nobody does, it is refused.
    """
    from outlast.errors import HomeNotOurs

    if wrong := wrong_with(home):
        raise HomeNotOurs(home, wrong)
    if not os.path.isdir(home):
        return False
    is_known = bool(known_as(home))
    wrong = why_not(home) if is_known or tell is None else _tracked(home)
    if wrong:
        raise HomeNotOurs(home, wrong)
    return known_as(home) == "adopted" if is_known or tell is None else _adopt(home, tell)


def _adopt(home: str, tell: Callable[[str], None]) -> bool:
    """Whether it holds anything that somebody else may have recorded."""
    if _is_new(home):
        remember(home, "made")
        return False
    if known_as(home) == "made":  # by another process, just now
        return False
    why = remember(home, "adopted")
    kept = f"that cannot be remembered: {why}" if why else "that is remembered"
    tell(f"the home {home} was not made here, and is used from now on; {kept}")
    return True


def remember(home: str, how: str) -> str:
    """Note in the user's own folder that a home is ours, and how; "" or why that cannot be kept."""
    try:
        marked = id_of(home) or _mark(home)
    except OSError as error:
        return f"its id cannot be written ({error.strerror})"
    return user.add(user.HOMES, _line(how, marked, home))


def id_of(home: str) -> bytes:
    """What a home is known by; empty when it has no id."""
    try:
        handle = os.open(os.path.join(home, ID), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        found = os.read(handle, 64).strip() if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        found = b""
    finally:
        os.close(handle)
    return found if _ID.fullmatch(found) else b""


def _mark(home: str) -> bytes:
    """Give a home its id; of several who do so at the same time the first one wins. Raises OSError."""
    marked = os.urandom(16).hex().encode()
    beside = os.path.join(home, f"{ID}.{marked[:8].decode()}")
    handle = open_file(beside, os.O_WRONLY | os.O_EXCL)
    try:
        os.write(handle, marked + b"\n")
    finally:
        os.close(handle)
    try:
        os.link(beside, os.path.join(home, ID))
    except FileExistsError:
        marked = id_of(home)
    finally:
        os.unlink(beside)
    if not marked:
        raise OSError(0, "what is there is no id")
    return marked


def _line(how: str, marked: bytes, home: str) -> bytes:
    place = os.path.join(os.path.realpath(os.path.dirname(home)), os.path.basename(home))
    return b" ".join((how.encode(), marked, os.fsencode(place).replace(b"%", b"%25").replace(b"\n", b"%0A")))


def _is_new(home: str) -> bool:
    """Whether nothing is in it that anybody could have recorded."""
    try:
        return set(os.listdir(home)) <= _LEFT_BY_MAKING
    except OSError:
        return False


def _tracked(home: str) -> str:
    """Why git speaks against a home; "" when it is outside of git, or git does not know it."""
    from outlast.files import git

    if os.path.lexists(os.path.join(home, ".git")):
        return "it is a repository of its own"
    tracks = git.tracks(home)
    if tracks is None:
        return "it is in a git repository, and git cannot say whether it came with that"
    return "git tracks it: it came with the repository" if tracks else ""


def _overwritten(home: str) -> str:
    """Why a home that is known is not ours any more; "" when it is.

    A pull puts tracked files over those of a home without a word, since git ignores what is in it.
    """
    from outlast.files import repository

    return _tracked(home) if repository.may_track(home) else ""


def _name_of(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"uid {uid}"
