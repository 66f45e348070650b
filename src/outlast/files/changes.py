"""Partial work: which files a step declares to write, and what an attempt left in them. Frozen values and pure rules.

Looking at the files, keeping their content and putting them back is done by `files/partial.py`. What is declared is
patterns. A pattern is relative to a root and is read part by part, the way git and pathlib read theirs:

- `*` and `?` stay within one folder, `[abc]`, `[a-z]` and `[!abc]` are one character of a set, `**` as a whole part is
  any number of folders. A hidden file is a file like any other: `*` finds it.
- A pattern whose last part is plain (`out`, `src/pkg`) is that file or, if it names a folder, everything below it. So
  is any pattern that ends with `/`, and `.` is everything.
- Nothing leaves the root: absolute patterns and `..` are refused. `.git`, `.outlast` and names that begin with
  `.outlast-` (files on their way to their name) are never found, at any depth; to name them is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cache, lru_cache
from typing import Any, Literal

from msgspec import Struct, structs

from outlast import errors
from outlast.values.codec import path_of, readable, text
from outlast.values.frozen import Compared
from outlast.values.text import doubt_of

Mode = Literal["file", "exec", "link", "special", "folder"]  # a folder is listed only when it cannot be read
Judgement = Literal["none", "partial", "complete"]
ChangeKind = Literal["created", "changed", "removed"]

TAIL_CHARACTERS = 4_000
GIT_PATHS = 200

NOT_KEPT = {
    "too_large": "its content before was too large to keep",
    "over_budget": "keeping its content before would have been more than is kept for one attempt",
    "secret": "its content before has a secret in it and was not kept",
    "unreadable": "it could not be read before",
    "special": "it was no plain file before",
    "": "its content before was not kept",
}


class SeenFile(Compared, frozen=True):
    """One declared file as it was found. Links are never followed: a link's content is the text of its target."""

    _aside = ("stamp",)

    digest: str  # of the content; "" when it cannot be read
    size: int
    mode: Mode
    kept: str = ""  # the blob with the content
    why: str = ""  # why there is none: a key of NOT_KEPT
    bits: int = 0o644  # the permissions, 0 for a link
    stamp: str = ""  # of a plain file: equal later, its content is; "" when it cannot say

    @property
    def what(self) -> tuple[str, int, str, int]:
        """What makes two looks at a file equal; whether its content is kept does not."""
        return self.digest, self.size, self.mode, self.bits


class FileChange(Struct, frozen=True):
    """A declared file that is not as it was; digests, "" where there is no file or it cannot be read.

    A file of which only the permissions changed is `changed`, with equal digests.
    """

    path: str
    change: ChangeKind
    before: str
    after: str


def changes(before: Mapping[str, SeenFile], now: Mapping[str, SeenFile]) -> tuple[FileChange, ...]:
    """What was created, changed and removed, by path. Files that are as they were are not listed."""
    found: list[FileChange] = []
    for path in sorted({*before, *now}):
        old, new = before.get(path), now.get(path)
        if old is None or new is None or old.what != new.what:
            kind: ChangeKind = "created" if old is None else "removed" if new is None else "changed"
            found.append(FileChange(path, kind, old.digest if old else "", new.digest if new else ""))
    return tuple(found)


def judge(patterns: Sequence[str], before: Mapping[str, SeenFile], now: Mapping[str, SeenFile]) -> Judgement:
    """How much of the declared work is there.

    `none`: nothing declared was created, changed or removed. `complete`: every pattern has at least one file that is
    there and is new or changed. Else `partial`. It says that files are there, not that they are any good.
    """
    declared = Patterns.of(patterns)
    touched = [change for change in changes(before, now) if declared.matches(change.path)]
    if not touched:
        return "none"
    there = [change.path for change in touched if change.path in now and now[change.path].mode != "folder"]
    done = all(any(map(one(pattern).matches, there)) for pattern in patterns)
    return "complete" if done else "partial"


def blobs_of(seen: Mapping[str, SeenFile]) -> tuple[str, ...]:
    """The blobs that hold the content of these files, each once."""
    return tuple(sorted({each.kept for each in seen.values() if each.kept}))


def to_facts(seen: Mapping[str, SeenFile]) -> dict[str, dict[str, Any]]:
    """What was seen as plain JSON, for the journal. `kept` is true, or says why not."""
    found: dict[str, dict[str, Any]] = {}
    for path, each in seen.items():
        known = {"digest": each.digest, "size": each.size, "mode": each.mode, "bits": each.bits}
        found[text(path)] = known | {"kept": True if each.kept else each.why}  # a blob's name is its content's digest
    return found


def from_facts(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, SeenFile]:
    """What `to_facts` was made of."""
    return {path_of(plain): _seen(**fact) for plain, fact in facts.items()}


def _seen(digest: str, size: int, mode: Mode, bits: int, kept: bool | str) -> SeenFile:
    name, why = (digest, "") if kept is True else ("", str(kept))
    return SeenFile(digest, size, mode, kept=name, why=why, bits=bits)


# -- may it be put back? -----------------------------------------------------------------------------


def edited_since(undo: Iterable[FileChange], known_after: Mapping[str, str]) -> tuple[str, ...]:
    """The files that are no longer as the attempt left them, by the digests recorded when it ended.

    A file without a record was then as before the attempt. A file that is gone can be put back without loss.
    """
    there = (change for change in undo if change.change != "removed")
    return tuple(change.path for change in there if change.after != known_after.get(change.path, change.before))


def not_restorable(
    undo: Iterable[FileChange], before: Mapping[str, SeenFile], now: Mapping[str, SeenFile]
) -> tuple[tuple[str, str], ...]:
    """The changes that cannot be undone, and why: no content to put back, or none that could be saved first."""
    found = ((change.path, _hindrance(before.get(change.path), now.get(change.path))) for change in undo)
    return tuple((path, why) for path, why in found if why)


def _hindrance(before: SeenFile | None, now: SeenFile | None) -> str:
    if now and not now.digest:
        return "what is there now cannot be read, so it cannot be saved first"
    if before and not before.kept and not (now and only_permissions(before, now)):
        return NOT_KEPT.get(before.why, NOT_KEPT[""])
    return ""


def only_permissions(before: SeenFile, now: SeenFile) -> bool:
    """Whether the content is the same, so that nothing has to be written."""
    return before.digest == now.digest != "" and "link" not in (before.mode, now.mode)


# -- the record --------------------------------------------------------------------------------------


class LeftFiles(Struct, frozen=True):
    """What an attempt left behind, as the next attempt and people are shown it."""

    attempt: int
    status: str
    judgement: Judgement
    files: tuple[FileChange, ...] = ()
    tail: str = ""  # the last lines of the transcript
    git: tuple[str, ...] = ()  # paths that git finds changed, seen from the root
    git_more: int = 0  # and how many there are beyond those
    exit: int | None = None
    error: str = ""
    shared: str = ""  # the map, `foreach` or `parallel` of which another, done at once, declares them: they may be its

    @property
    def doubt(self) -> str:
        """That the files may be another's, to be said after them; nothing where they are surely of this attempt."""
        return doubt_of(self.shared) if self.files else ""

    @property
    def known_after(self) -> dict[str, str]:
        """The digests of what was left, for telling later edits apart."""
        return {change.path: change.after for change in self.files}

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON."""
        plain = structs.asdict(self)
        plain["files"] = [{**structs.asdict(each), "path": text(each.path)} for each in self.files]
        plain["git"] = [text(path) for path in self.git]
        return {name: value for name, value in plain.items() if value or name != "shared"}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LeftFiles:
        """The record again; what is missing has its default. Raises ValueRefused for a field we do not know."""
        given: dict[str, Any] = {"attempt": 0, "status": "", "judgement": "none"} | _known(cls, plain, "")
        given["files"] = tuple(_read_change(each, at) for at, each in enumerate(plain.get("files", ())))
        given["git"] = tuple(path_of(each) for each in plain.get("git", ()))
        return cls(**given)


def _read_change(plain: Mapping[str, Any], at: int) -> FileChange:
    given: dict[str, Any] = {"change": "changed", "before": "", "after": ""} | _known(
        FileChange, plain, f"files[{at}]."
    )
    return FileChange(path=path_of(given.pop("path", "")), **given)


def _known(kind: type[LeftFiles | FileChange], plain: Mapping[str, Any], at: str) -> dict[str, Any]:
    for name in plain:
        if name not in kind.__struct_fields__:
            raise errors.ValueRefused(
                f"{at}{name}", "no such field is known here", "read it with the version that wrote it"
            )
    return dict(plain)


def last_lines(transcript: str, limit: int = TAIL_CHARACTERS) -> str:
    """The end of a transcript, in whole lines where it has any, with a first line that says what was cut."""
    plain = readable(transcript)
    if len(plain) <= limit:
        return plain
    room = limit - len(_cut_note(len(plain)))
    start = len(plain) - room
    whole = plain.find("\n", start - 1, len(plain) - 1) + 1  # 0 when one long line fills the whole room
    start = whole or start
    return _cut_note(start) + plain[start:]


def _cut_note(characters: int) -> str:
    return f"[the {characters} characters before this are cut]\n"


# -- patterns ----------------------------------------------------------------------------------------

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
    raise errors.NameInvalid("pattern", text, why)


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
