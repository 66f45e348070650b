"""What git said, given again without asking while nothing that it rests on has changed.

It rests on files: the program, the settings, git's own files, and of the work tree every file that it tracks and every
folder that it reads. Nobody can set when a file was last changed in any way, so one that looks the same is the same,
unless it changed a moment before it was looked at: on what is so young no answer is kept.

Git alone says what a state is: here is only decided whether it has to be asked again. It has to where its settings
include others, name filters or extensions (then an answer rests on more than these files), where a repository is
inside another, and where the work tree is so large that looking at all of it takes as long as git does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from outlast.files.repository import Repository, line_of
from outlast.values.frozen import NamedTuple

MOST_FILES = 500  # that an answer may rest on
_QUESTIONS = 64  # of which the answers are kept
_PATIENCE = 64  # equal answers that are waited for, at most, before it is looked up what they rest on
_TICK_NS = 20_000_000  # two changes within it may leave a file with equal times
_RULES = (".gitignore", ".gitattributes")  # count by their content, tracked or not

Mark = tuple[int, ...]


class GitAnswer(NamedTuple):
    """What git said. Not `whole`: it was more than was asked for, and nothing of it is here."""

    exit: int
    out: bytes
    whole: bool = True

    @property
    def fields(self) -> list[str]:
        """What stands between the NULs."""
        return [os.fsdecode(field) for field in self.out.split(b"\0") if field]


class Usable(NamedTuple):
    """A repository that may be used: the environment in which git uses it, and all that its settings rest on."""

    repository: Repository
    environment: Mapping[str, str]
    mark: tuple[object, ...]
    files: tuple[str, ...] | None  # what else of the user's counts; None: answers rest on more than files
    changed_ns: int = 0  # when the newest of the settings was changed


RestsOn = Callable[[Usable, GitAnswer], "list[str] | None"]  # the files of one answer; None: they are not known


class _Heard(Struct):
    """An answer, how often it came in a row, and what it rests on if that was looked up."""

    out: bytes = b""
    equal: int = 0
    needed: int = 1  # more of them after each time that something had changed
    mark: tuple[object, ...] = ()
    files: tuple[str, ...] = ()
    marks: list[Mark] = []
    answer: GitAnswer | None = None


_heard: dict[tuple[str, ...], _Heard] = {}


def again(command: tuple[str, ...], usable: Usable) -> GitAnswer | None:
    """The answer of before, if all that it rests on is as it was."""
    heard = _heard.get((usable.repository.top, *command))
    if heard is None or heard.answer is None:
        return None
    if heard.mark == usable.mark and marks_of(heard.files) == heard.marks:
        return heard.answer
    heard.answer, heard.equal, heard.needed = None, 0, min(2 * heard.needed, _PATIENCE)
    return None


def remember(
    command: tuple[str, ...], usable: Usable, rests_on: RestsOn, began_ns: int, answer: GitAnswer | None
) -> None:
    """Keep what git said, if it has said so before and that rests on nothing that is new since it began."""
    question = (usable.repository.top, *command)
    if answer is None or answer.exit or not answer.whole or usable.files is None:
        _heard.pop(question, None)
        return
    if len(_heard) >= _QUESTIONS and question not in _heard:
        _heard.clear()
    heard = _heard.setdefault(question, _Heard())
    heard.equal, heard.out = (heard.equal + 1 if heard.out == answer.out else 0), answer.out
    if heard.equal >= heard.needed:
        _look_up(heard, usable, answer, rests_on, began_ns)


def _look_up(heard: _Heard, usable: Usable, answer: GitAnswer, rests_on: RestsOn, began_ns: int) -> None:
    files = rests_on(usable, answer)
    if files is None:
        heard.equal, heard.needed = 0, _PATIENCE
        return
    marks = marks_of(files)
    if max(newest_of(marks), usable.changed_ns) < began_ns - _TICK_NS:
        heard.mark, heard.files, heard.marks, heard.answer = usable.mark, tuple(files), marks, answer


def marks_of(paths: Iterable[str]) -> list[Mark]:
    """What changes with each file, or folder, and at last when it was changed; nothing for one that is not there."""
    marks: list[Mark] = []
    for path in paths:
        try:
            seen = os.lstat(path)
        except OSError:
            marks.append(())
            continue
        which = (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_uid, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        marks.append(_led_to(path, which) if stat.S_ISLNK(seen.st_mode) else which)
    return marks


def _led_to(path: str, link: Mark) -> Mark:
    """A link with what it leads to, and when either of them was changed."""
    try:
        there = os.stat(path)
    except OSError:
        return link
    return (*link, there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, max(link[-1], there.st_ctime_ns))


def newest_of(marks: list[Mark]) -> int:
    """When the last of them was changed."""
    return max((mark[-1] for mark in marks if mark), default=0)


def forget() -> None:
    """Ask git again, whatever it said before."""
    _heard.clear()


# -- what an answer rests on -------------------------------------------------------------------------


def rests_on_refs(usable: Usable) -> list[str] | None:
    """The files that say which commit is checked out."""
    _, own, common = usable.repository
    head = line_of(f"{own}/HEAD")
    files = [own, f"{own}/HEAD", f"{common}/packed-refs"]
    if not head.startswith("ref: "):
        return files if head else None
    ref = f"{common}/{head.removeprefix('ref: ')}"
    if line_of(ref).startswith("ref: ") or not head.startswith("ref: refs/heads/"):
        return None  # it leads on to another
    return [*files, os.path.dirname(ref), ref]


def rests_on_work_tree(usable: Usable, ignored: set[str], untracked: set[str]) -> list[str] | None:
    """All of the work tree but what git does not read: ignored files, folders with all in them, and new files.

    Of new files only their names count, which their folder tells.
    """
    _, own, common = usable.repository
    files = [f"{own}/index", f"{own}/info/sparse-checkout"]
    files += [f"{common}/info/{name}" for name in ("exclude", "attributes", "sparse-checkout")]
    folders = [("", False)]
    while folders and len(files) <= MOST_FILES:
        folder, is_new = folders.pop()
        files.append(f"{usable.repository.top}/{folder}")
        for entry in os.scandir(files[-1]):
            path = folder + entry.name
            if entry.name == ".git" and folder:
                return None
            if path in ignored or f"{path}/" in ignored or path == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append((f"{path}/", is_new or f"{path}/" in untracked))
            elif entry.name in _RULES or not (is_new or path in untracked):
                files.append(entry.path)
    return files if len(files) <= MOST_FILES else None
