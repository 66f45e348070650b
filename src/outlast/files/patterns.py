"""Patterns: which files a step declares to write. Pure: names in, yes or no out.

A pattern is relative to a root and is read part by part, the way git and pathlib read theirs:

- `*` and `?` stay within one folder, `[abc]`, `[a-z]` and `[!abc]` are one character of a set, `**` as a whole part is
  any number of folders. A hidden file is a file like any other: `*` finds it.
- A pattern whose last part is plain (`out`, `src/pkg`) is that file or, if it names a folder, everything below it. So
  is any pattern that ends with `/`, and `.` is everything.
- Nothing leaves the root: absolute patterns and `..` are refused. `.git`, `.outlast` and names that begin with
  `.outlast-` (files on their way to their name) are never found, at any depth; to name them is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import cache, lru_cache

from msgspec import Struct

from outlast.errors import NameInvalid

Place = frozenset[tuple[int, int]]  # how far each glob has been read: (which glob, which of its parts is next)
FOLDERS = "**"


class Patterns(Struct, frozen=True):
    """Patterns ready to be walked along a path, one name at a time."""

    globs: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Patterns:
        """Raises NameInvalid for a pattern that cannot be used."""
        return cls(tuple(glob for text in texts for glob in _globs(text)))

    @property
    def start(self) -> Place:
        return self._opened((glob, 0) for glob in range(len(self.globs)))

    def step(self, place: Place, name: str) -> Place:
        """Where the patterns are after one more name; empty when nothing below it can match."""
        if never(name):
            return frozenset()
        return self._opened(
            (glob, at if part == FOLDERS else at + 1)
            for glob, at in place
            if at < len(self.globs[glob]) and _fits(part := self.globs[glob][at], name)
        )

    def accepts(self, place: Place) -> bool:
        """Whether a file here is meant."""
        return any(at == len(self.globs[glob]) for glob, at in place)

    def goes_on(self, place: Place) -> bool:
        """Whether a folder here may have files that are meant."""
        return any(at < len(self.globs[glob]) for glob, at in place)

    def names(self, place: Place) -> set[str] | None:
        """The only names that can come next, or None when the folder has to be read."""
        following = {self.globs[glob][at] for glob, at in place if at < len(self.globs[glob])}
        return None if any(map(_is_wild, following)) else following

    def matches(self, path: str) -> bool:
        place = self.start
        for name in path.split("/"):
            place = self.step(place, name)
        return self.accepts(place)

    def meets(self, other: Patterns) -> bool:
        """Whether there may be a file that both mean."""
        return any(_meet(mine, theirs, FOLDERS, _alike) for mine in self.globs for theirs in other.globs)

    def _opened(self, places: Iterable[tuple[int, int]]) -> Place:
        """The places, and behind each `**` the next one: it may stand for no folder at all."""
        found = set()
        for glob, at in places:
            found.add((glob, at))
            while at < len(self.globs[glob]) and self.globs[glob][at] == FOLDERS:
                at += 1
                found.add((glob, at))
        return frozenset(found)


@lru_cache(maxsize=1000)
def one(pattern: str) -> Patterns:
    """A single pattern. Raises NameInvalid when it cannot be used."""
    return Patterns.of([pattern])


def matches(pattern: str, path: str) -> bool:
    """Whether a file of this path, relative to the root, is meant by the pattern."""
    return one(pattern).matches(path)


def never(name: str) -> bool:
    """Whether it is the name of a file, or of a folder on the way, that none finds."""
    return name in (".git", ".outlast") or name.startswith(".outlast-")


def is_hidden(path: str) -> bool:
    """Whether a file is one of git's or Outlast's own, that no pattern finds."""
    return any(map(never, path.split("/")))


def _globs(text: str) -> list[tuple[str, ...]]:
    """The pattern as globs in which a `**` is never last, and a plain last part is both a file and a folder."""
    _check(text)
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if parts and parts[-1] == FOLDERS:
        return [(*parts, "*")]
    below = (*parts, FOLDERS, "*")
    if not parts or text.endswith(("/", "/.")):
        return [below]
    return [parts] if _is_wild(parts[-1]) else [parts, below]


def _check(text: str) -> None:
    parts = text.split("/")
    if not text:
        why = "it is empty; name a file, or `.` for everything"
    elif text.startswith("/"):
        why = "it is absolute; write it relative to the folder the step runs in"
    elif ".." in parts:
        why = "it leaves its folder by `..`; only files below the folder the step runs in can be declared"
    elif "\0" in text or not _can_be_a_name(text):
        why = "it has characters that no file name has"
    elif hidden := next(filter(never, parts), None):
        why = f"files of {hidden} are never declared; name others"
    else:
        return
    raise NameInvalid("pattern", text, why)


def _can_be_a_name(text: str) -> bool:
    try:
        return bool(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False


def _is_wild(part: str) -> bool:
    return any(sign in part for sign in "*?[")


def _fits(part: str, name: str) -> bool:
    return _regex(part).match(name) is not None if _is_wild(part) else part == name


@lru_cache(maxsize=1000)
def _regex(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))


# -- patterns beside each other ----------------------------------------------------------------------


def _meet(one: Sequence[str], two: Sequence[str], many: str, alike: Callable[[str, str], bool]) -> bool:
    """Whether something fits both of two rows in which `many` stands for any number of others."""

    @cache
    def meet(mine: int, theirs: int) -> bool:
        if mine == len(one) or theirs == len(two):
            return all(part == many for part in (*one[mine:], *two[theirs:]))
        if many in (one[mine], two[theirs]):
            return meet(mine + 1, theirs) or meet(mine, theirs + 1)
        return alike(one[mine], two[theirs]) and meet(mine + 1, theirs + 1)

    return meet(0, 0)


@lru_cache(maxsize=1000)
def _alike(one: str, two: str) -> bool:
    """Whether a name may fit both parts; a set of characters is taken for any."""
    return _meet(_signs(one), _signs(two), "*", lambda mine, theirs: "?" in (mine, theirs) or mine == theirs)


def _signs(part: str) -> list[str]:
    return ["?" if len(sign) > 1 else sign for sign in re.findall(_SIGN, part)]


_SIGN = r"(?s)\[!?\]?[^]]{0,300}\]|."  # a set, or one character; no name is longer
