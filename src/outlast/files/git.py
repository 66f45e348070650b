"""All questions to git: where a repository is, its commit and branch, what differs, which files it tracks.

How git is asked, and what is kept from it, is `ask_git.py`. Where git is missing, refuses (the repository belongs to
somebody else), finds it broken or takes too long, and where the repository leads out of itself, the answer is that it
is not known; nothing raises. And roots: the folder that the paths of a handoff are relative to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from posixpath import normpath, relpath
from typing import TYPE_CHECKING, Literal

from outlast.errors import HandoffInvalid
from outlast.files.ask_git import ANSWER_BYTES, ask, ask_ahead, found, real
from outlast.files.ask_git import top_of as top_of
from outlast.files.changes import is_hidden, never
from outlast.files.repository import spelled
from outlast.files.snapshot import Binding, can_be_a_path
from outlast.files.still_true import GitAnswer, Usable, rests_on_refs, rests_on_work_tree
from outlast.values.codec import path_of, readable, text
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.files.snapshot import Relation

_ARGUMENT_BYTES = 100_000  # of paths in one command
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
HISTORY_SECONDS = 5.0  # that git may take to find the first commit
COMMITS = 1_000  # of which it is remembered with what they began
MARKS = 50  # first commits and remotes that are kept, of each
FOLDER_FILES = 5_000  # that a folder may stand for
_SUBMODULE = "160000"  # the mode of one in the index

Kind = Literal["changed", "unmerged", "untracked"]


class GitChange(NamedTuple):
    """A path, from the top, that differs from the commit. An untracked folder is one path that ends with a slash."""

    path: str
    kind: Kind


class GitState(NamedTuple):
    """A work tree as git sees it."""

    top: Path
    commit: str  # "" before the first one
    branch: str  # "" when detached
    changed: tuple[GitChange, ...] = ()


_STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames", "--no-ahead-behind"),
    *("--ignored=no", "--ignore-submodules=dirty"),
)
_SHALLOW = ("rev-parse", "--is-shallow-repository")
_FIRST_COMMITS = ("rev-list", "--max-parents=0", "HEAD")
_REMOTES = ("remote", "-v")


# -- questions ---------------------------------------------------------------------------------------


def look_ahead(folder: Path, *, known_by: bool = False) -> None:
    """Let git begin with `look`, and with `known_by`, while files are looked at."""
    if (top := top_of(folder)) is None:
        return
    ask_ahead(top, *_STATUS, top=top, rests_on=_status_rests_on)
    if known_by:
        ask_ahead(top, *_REMOTES, top=top, rests_on=_remotes_rest_on)


def look(folder: Path) -> GitState | None:
    """Commit, branch and everything that differs, by one question; None outside of git or when git cannot tell.

    A submodule differs by its commit alone: to look for edits in it, git would start with its settings, whatever ours.
    """
    top = top_of(folder)
    answer = ask(top, *_STATUS, top=top, rests_on=_status_rests_on) if top else None
    return _state_of(top, answer) if top and answer and not answer.exit and answer.whole else None


@lru_cache(maxsize=2)  # the same answer is looked at more than once
def _state_of(top: Path, answer: GitAnswer) -> GitState:
    fields = answer.fields
    told = {word: rest for word, _, rest in (field[2:].partition(" ") for field in fields if field[:2] == "# ")}
    commit, branch = told.get("branch.oid", ""), told.get("branch.head", "")
    return GitState(
        top,
        commit if _COMMIT.fullmatch(commit) else "",
        "" if branch == "(detached)" else readable(branch),
        tuple(_changes(fields)),
    )


def _changes(fields: Sequence[str]) -> Iterator[GitChange]:
    """Each line is of a kind by its first letter and has its path last, behind so many words."""
    kinds: dict[str, tuple[Kind, int]] = {"1": ("changed", 8), "u": ("unmerged", 10), "?": ("untracked", 1)}
    for field in fields:
        if field[0] in kinds:
            kind, words = kinds[field[0]]
            yield from (GitChange(path, kind) for path in field.split(" ", words)[words:])


def _status_rests_on(usable: Usable, answer: GitAnswer) -> list[str] | None:
    """All files that what is told of a work tree rests on; None when git cannot tell which it does not read."""
    top, refs = Path(usable.repository.top), rests_on_refs(usable)
    more = ask(top, *_STATUS[:-2], "--ignored=matching", _STATUS[-1], top=top)
    if refs is None or more is None or more.exit or not more.whole:
        return None
    ignored = {field[2:] for field in more.fields if field[:2] == "! "}
    untracked = {each.path for each in _changes(answer.fields) if each.kind == "untracked"}
    try:
        tree = rests_on_work_tree(usable, ignored, untracked)
    except OSError:
        return None
    return [*refs, *(usable.files or ()), *tree] if tree is not None else None


def branch_of(folder: Path) -> str:
    """The branch that is checked out, also before its first commit; "" when none is or git cannot tell."""
    top = top_of(folder)
    answer = _ask_at(top, "symbolic-ref", "--quiet", "HEAD") if top else None
    if answer is None or answer.exit:
        return ""
    name = os.fsdecode(answer.out).removesuffix("\n")
    return readable(name.removeprefix("refs/heads/")) if name.startswith("refs/heads/") else ""


def files(folder: Path) -> list[str] | None:
    """The files below a folder, seen from it: tracked, also those of submodules, and new ones that are not ignored.

    What a sparse checkout leaves out is no file here. Of new files in a submodule only its own folders tell. None when
    git cannot tell.
    """
    known = _tracked(folder)
    new = _listed(folder, "--others", "--exclude-standard") if known is not None else None
    if known is None or new is None:
        return None
    return list(dict.fromkeys([*known, *new]))  # a file in conflict is there up to three times


def new_files(folder: Path) -> list[str]:
    """The files below a folder that git does not know and would add, seen from it; none when git cannot tell."""
    return _listed(folder, "--others", "--exclude-standard") or []


def members_of(root: Path, folder: str, *, in_git: bool) -> list[str]:
    """The files that a folder stands for, from the root: what git tracks or would add, outside of git all.

    Raises OSError. Where git cannot tell, all of them too, unless it is known to be `in_git`: then there are none.
    """
    names = files(root / folder)
    if names is None:
        return [] if in_git else list(walked(root, folder))
    return [normpath(f"{folder}/{name}") for name in names if not is_hidden(name)]


def walked(root: Path, folder: str) -> Iterator[str]:
    """All plain files and links below a folder, one more at most than a folder may have."""
    left, waiting = FOLDER_FILES + 1, [folder]
    while waiting:
        here = waiting.pop()
        with os.scandir(root / here) as entries:
            for entry in entries:
                path = normpath(f"{here}/{entry.name}")
                if never(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    yield path
                    left -= 1
                    if not left:
                        return


def _tracked(folder: Path) -> list[str] | None:
    """The tracked files that are there. Each submodule is asked as a repository of its own, with all that is kept."""
    lines = _listed(folder, "-t", "--stage")
    if lines is None:
        return None
    there: list[str] = []
    for facts, _, path in (line.partition("\t") for line in lines):
        if facts.split()[1] == _SUBMODULE:
            there += [f"{path}/{inner}" for inner in _of_submodule(folder / path)]
        elif not _is_left_out(folder, f"{facts[:2]}{path}"):
            there.append(path)
    return there


def _of_submodule(folder: Path) -> list[str]:
    return (_tracked(folder) or []) if top_of(folder) == Path(os.path.realpath(folder)) else []


def tracks(path: str) -> bool | None:
    """Whether the repository that a path is in tracks it or something in it; None when git cannot tell."""
    above = Path(os.path.dirname(path))
    if top_of(above) is None:
        return False
    known = _listed(above, "--", os.path.basename(path))
    return None if known is None else bool(known)


def left_out(root: Path, path: str) -> bool:
    """Whether a path from the root has tracked files, and a sparse checkout leaves them all out."""
    lines = _listed(root, "-t", "--", path)
    return bool(lines) and all(_is_left_out(root, line) for line in lines or ())


def _is_left_out(folder: Path, line: str) -> bool:
    """Marked in the index as not to be checked out (`S`), and not there."""
    return line[:2] == "S " and not os.path.lexists(folder / line[2:])


def _listed(folder: Path, *options: str) -> list[str] | None:
    top = top_of(folder)
    answer = _ask_at(top, "ls-files", "-z", *options, folder=folder) if top else None
    return None if answer is None or answer.exit or not answer.whole else answer.fields


def has_commit(folder: Path, commit: str) -> bool | None:
    """Whether the repository of a folder has a commit; None when git cannot tell."""
    top = top_of(folder)
    if top is None or not _COMMIT.fullmatch(commit):
        return False
    answer = _ask_at(top, "cat-file", "-e", commit)
    return {0: True, 1: False}.get(answer.exit) if answer else None


def commit_of(folder: Path) -> str:
    """The commit that is checked out in a folder which is the top of a repository; "" when git cannot tell."""
    top = top_of(folder)
    answer = _ask_at(top, "rev-parse", "--verify", "HEAD") if top == Path(os.path.realpath(folder)) else None
    return answer.out.decode().strip() if answer and not answer.exit else ""


def known_by(folder: Path, commit: str = "") -> tuple[str, ...]:
    """What the repository of a folder is known by in every clone: first commits, and remotes in one spelling.

    `commit`: the one that is checked out, where that is known. Those that it began with are asked for once.
    """
    top = top_of(folder)
    return (*_first_commits(top, commit), *_remotes(top)) if top else ()


_firsts: dict[str, list[str]] = {}  # by commit: the first ones, which never change


def _first_commits(top: Path, commit: str) -> list[str]:
    """Those that have no parent; none where history was cut off, or is so long that git takes its time."""
    if commit in _firsts:
        return _firsts[commit]
    ask_ahead(top, *_FIRST_COMMITS, top=top, seconds=HISTORY_SECONDS)
    if _is_shallow(top):
        return []
    answer = ask(top, *_FIRST_COMMITS, top=top, seconds=HISTORY_SECONDS)
    if answer is None or answer.exit:
        return []
    found = sorted(answer.out.decode().split())[:MARKS]
    if commit and len(_firsts) < COMMITS:
        _firsts[commit] = found
    return found


def _remotes(top: Path) -> list[str]:
    answer = ask(top, *_REMOTES, top=top, rests_on=_remotes_rest_on)
    lines = os.fsdecode(answer.out).splitlines() if answer and not answer.exit else []
    urls = (line.partition("\t")[2].rpartition(" (fetch)")[0] for line in lines)
    return sorted({text(name) for url in urls if url and (name := spelled(url, str(top)))})[:MARKS]


def _remotes_rest_on(usable: Usable, _: GitAnswer) -> list[str] | None:
    """Its settings, unless some stand where they stood long ago, a file each."""
    old = [f"{usable.repository.common}/{name}" for name in ("remotes", "branches")]
    return None if any(os.path.isdir(each) and os.listdir(each) for each in old) else old


def is_commit(name: str) -> bool:
    """Whether it is a commit's whole id. What a handoff says may be anything: git would take it for an option."""
    return _COMMIT.fullmatch(name) is not None


def relation(folder: Path, bound: str, now: str) -> Relation:
    """How the commit now stands to the bound one: the same, `ahead` of it, `apart`, or nobody knows."""
    if not (_COMMIT.fullmatch(bound) and (not now or _COMMIT.fullmatch(now))):
        return "unknown"
    if bound == now:
        return "same"
    top = top_of(folder)
    answer = _ask_at(top, "merge-base", "--is-ancestor", bound, now) if top and now else None
    if top and answer and answer.exit == 0:
        return "ahead"
    if top and (not now or (answer and answer.exit == 1)):
        return "unknown" if _is_shallow(top) else "apart"
    return "unknown"


def parting(folder: Path, one: str, other: str) -> str:
    """The commit at which the histories of two parted; "" when there is none, or git cannot tell."""
    top = top_of(folder)
    if top is None or not (_COMMIT.fullmatch(one) and _COMMIT.fullmatch(other)):
        return ""
    answer = _ask_at(top, "merge-base", one, other)
    return answer.out.decode().strip() if answer and not answer.exit else ""


def _is_shallow(top: Path) -> bool:
    """Whether history was cut off, so that an ancestor may not be seen as one."""
    answer = _ask_at(top, *_SHALLOW)
    return answer is None or answer.out.strip() != b"false"


def patch(folder: Path, paths: Sequence[str], limit_bytes: int) -> tuple[bytes, str]:
    """What `git apply` needs to make the commit's files, of these paths from the top, what they are now.

    With it "", or why there is none: `too_large`, `no_git`, `unknown`.
    """
    top = top_of(folder)
    parts: list[bytes] = []
    for some in _in_portions(paths):
        room = limit_bytes - sum(len(part) for part in parts)
        answer = _ask_at(top, "diff", *_PLAIN, "HEAD", "--", *some, limit_bytes=room) if top else None
        if answer is None or (answer.whole and answer.exit):
            return b"", why_unknown()
        if not answer.whole:
            return b"", "too_large"
        parts.append(answer.out)
    return b"".join(parts), ""


def why_unknown() -> Literal["no_git", "unknown"]:
    """Why git told nothing."""
    return "unknown" if found() else "no_git"


_PLAIN = (
    *("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty", "-O/dev/null"),
)


def _in_portions(paths: Sequence[str]) -> Iterator[list[str]]:
    """The paths, as many at a time as fit into a command."""
    some: list[str] = []
    size = 0
    for path in paths:
        size += len(os.fsencode(path)) + 1
        if some and size > _ARGUMENT_BYTES:
            yield some
            some, size = [], len(os.fsencode(path)) + 1
        some.append(path)
    if some:
        yield some


def _ask_at(top: Path, *command: str, folder: Path | None = None, limit_bytes: int = ANSWER_BYTES) -> GitAnswer | None:
    """Ask about the work tree with this top, never about an outer one."""
    return ask(folder or top, *command, top=top, limit_bytes=limit_bytes)


# -- roots -------------------------------------------------------------------------------------------


def root_from(given: str | None, stands: str = "", project: Path | None = None) -> Path:
    """The folder that paths are relative to: the one given, else the project's, else the top of the repository.

    We are where we `stand`: without it, in the current folder.

    The project (where `.outlast` lies) counts only when we are in it and it is no larger than the repository.
    Raises HandoffInvalid when there is no such folder.
    """
    if given is not None:
        return _given(given)
    here = _here(stands)
    top = top_of(here)
    if project and here.is_relative_to(project) and (top is None or project.is_relative_to(top)):
        return project
    return top or here


def _given(given: str) -> Path:
    remedy = "give the folder that the files are in, or leave it out to use the repository you are in"
    if not can_be_a_path(given):
        raise HandoffInvalid("repo_root", f"{given!r} cannot be a folder's name", remedy)
    if not os.path.isdir(given):
        why = "is a file" if os.path.lexists(given) else "does not exist"
        raise HandoffInvalid("repo_root", f"{given!r} {why}", remedy)
    return real(given)


def _here(stands: str) -> Path:
    try:
        return real(stands or os.getcwd())
    except FileNotFoundError as error:
        remedy = "go to a folder that exists, or give repo_root (--repo DIR)"
        raise HandoffInvalid("repo_root", "the current folder does not exist any more", remedy) from error


def relative_to(root: Path, given: str, field: str) -> str:
    """A path as bindings name it: from the root, in its one spelling. Raises HandoffInvalid when it is not inside."""
    if not can_be_a_path(given):
        raise HandoffInvalid(field, f"{given!r} cannot be a file's name", "name a file inside repo_root")
    if ".." in given.split("/"):
        raise HandoffInvalid(field, f"{given!r} has `..` in it", f"name it from {root}, without `..`")
    if not given.startswith("/"):
        return normpath(given)
    above, _, name = given.rstrip("/").rpartition("/")
    path = relpath(os.path.join(os.path.realpath(above or "/"), name), root)
    if path.split("/")[0] == "..":
        remedy = "name a file inside it, or give another repo_root"
        raise HandoffInvalid(field, f"{given!r} is not inside {root}", remedy)
    return path


class Stand:
    """A folder that somebody is in, and its repository, of which git is asked each thing once."""

    def __init__(self, here: Path) -> None:
        self._here, self._top = here, top_of(here)
        self._state, self._has = cache(partial(look, here)), cache(partial(has_commit, here))
        self._known_by = cache(partial(known_by, here))

    def place_of(self, bound: Binding) -> Path | None:
        """The bound root in the repository here; None when that is not known to be the same one.

        It is the same if it has the bound commit, an equal first commit or an equal remote; where git tells nothing of
        it, if it is the same folder.
        """
        top = self._top
        if top is None:
            there = Path(path_of(bound.root))
            return there if self._here.is_relative_to(there) and there != there.parent else None
        has = self._has_commit(bound.commit) if bound.commit else None
        if has or self._is_marked(top, bound):
            return _inside(top, bound.prefix)
        if bound.commit and (has is False or bound.host != os.uname().nodename):
            return None  # elsewhere the same path is another folder
        return _inside(top, bound.prefix) if text(str(top)) == _top_of(bound) else None

    def _has_commit(self, commit: str) -> bool | None:
        """Most often it is the one that is checked out, which whoever looks at files asks for anyway."""
        state = self._state()
        return True if state is not None and state.commit == commit else self._has(commit)

    def _is_marked(self, top: Path, bound: Binding) -> bool:
        """Whether both are known by the same, or one was cloned from where the other is."""
        found, here, there = self._known_by(), text(str(top)), _top_of(bound)
        is_clone = here != there and (there in found or here in bound.known_by)
        return is_clone or not {*found}.isdisjoint(bound.known_by)


def _top_of(bound: Binding) -> str:
    return bound.root.removesuffix(f"/{bound.prefix}") if bound.prefix else bound.root


def _inside(top: Path, prefix: str) -> Path | None:
    """The folder of a repository; None for one that is not inside, or git's: it is only somebody's word."""
    if prefix and not can_be_a_path(path_of(prefix)):
        return None
    root = real(top / path_of(prefix)) if prefix else top
    is_ours = root.is_relative_to(top) and not any(map(never, root.relative_to(top).parts))
    return root if is_ours else None
