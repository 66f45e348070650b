"""All questions to git: where a repository is, its commit and branch, what differs, which files it tracks.

The `git` program of the PATH is asked, and only asked: no lock is taken, nothing is fetched, and no program runs that a
repository's own settings name: no hook, pager, external diff, text conversion or filter. Filters of the user's own
settings (Git LFS) do run. Where git is missing, refuses (the repository belongs to somebody else), finds it broken or
takes too long, the answer is that it is not known; nothing raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from outlast.files.changes import readable
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    import subprocess

    from outlast.handoffs.verdict import Relation

GIT_SECONDS = 30.0
ANSWER_BYTES = 64 << 20  # what git says beyond that is not believed to be an answer
_ARGUMENT_BYTES = 100_000  # of paths in one command
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_QUIET = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit"),
    "diff.autoRefreshIndex=false",  # that would write the index, and lock it against the user meanwhile
)
_ASKING = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # a git that does not know the line above fetches what a partial clone lacks
    "GIT_LITERAL_PATHSPECS": "1",
}
# Of the caller's own settings these stay; GIT_DIR, GIT_INDEX_FILE and the like speak of another repository.
_STAYS = r"GIT_(CEILING_DIRECTORIES|DISCOVERY_.*|EXEC_PATH|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_.*|VALUE_.*))"

Kind = Literal["changed", "unmerged", "untracked"]


class Answer(NamedTuple):
    """What git said. Not `whole`: it was more than was asked for, and nothing of it is here."""

    exit: int
    out: bytes
    whole: bool = True

    @property
    def fields(self) -> list[str]:
        """What stands between the NULs."""
        return [os.fsdecode(field) for field in self.out.split(b"\0") if field]


class Changed(NamedTuple):
    """A path, from the top, that differs from the commit. An untracked folder is one path that ends with a slash."""

    path: str
    kind: Kind


class State(NamedTuple):
    """A work tree as git sees it."""

    top: Path
    commit: str  # "" before the first one
    branch: str  # "" when detached
    changed: tuple[Changed, ...] = ()


# -- questions ---------------------------------------------------------------------------------------


def top_of(folder: Path) -> Path | None:
    """The top of the work tree that a folder is in; None outside of git. Looks for `.git` upward, asks nobody."""
    here = os.path.realpath(folder)
    while not _is_top(here):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return Path(here)


def _is_top(folder: str) -> bool:
    """As git sees it: a `.git` that is a file, or a folder that holds a repository."""
    inner = os.path.join(folder, ".git")
    return os.path.isfile(inner) or (os.path.isdir(inner) and os.path.lexists(os.path.join(inner, "HEAD")))


def look(folder: Path) -> State | None:
    """Commit, branch and everything that differs, by one question; None outside of git or when git cannot tell.

    A submodule differs by its commit alone: to look for edits in it, git would start with its settings, whatever ours.
    """
    top = top_of(folder)
    options = ("--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames", "--no-ahead-behind")
    answer = _ask_at(top, "status", *options, "--ignored=no", "--ignore-submodules=dirty") if top else None
    if top is None or answer is None or answer.exit or not answer.whole:
        return None
    fields = answer.fields
    told = {word: rest for word, _, rest in (field[2:].partition(" ") for field in fields if field[:2] == "# ")}
    commit, branch = told.get("branch.oid", ""), told.get("branch.head", "")
    return State(
        top,
        commit if _COMMIT.fullmatch(commit) else "",
        "" if branch == "(detached)" else readable(branch),
        tuple(_changes(fields)),
    )


def _changes(fields: Sequence[str]) -> Iterator[Changed]:
    """Each line is of a kind by its first letter and has its path last, behind so many words."""
    kinds: dict[str, tuple[Kind, int]] = {"1": ("changed", 8), "u": ("unmerged", 10), "?": ("untracked", 1)}
    for field in fields:
        if field[0] in kinds:
            kind, words = kinds[field[0]]
            yield from (Changed(path, kind) for path in field.split(" ", words)[words:])


def branch_of(folder: Path) -> str:
    """The branch that is checked out, also before its first commit; "" when none is or git cannot tell."""
    top = top_of(folder)
    answer = _ask_at(top, "symbolic-ref", "--quiet", "HEAD") if top else None
    if answer is None or answer.exit:
        return ""
    name = os.fsdecode(answer.out).removesuffix("\n")
    return readable(name.removeprefix("refs/heads/")) if name.startswith("refs/heads/") else ""


def found() -> bool:
    """Whether there is a git to ask at all."""
    return _program() is not None


def files(folder: Path) -> list[str] | None:
    """The files below a folder, seen from it: tracked, also those of submodules, and new ones that are not ignored.

    What a sparse checkout leaves out is no file here. Of new files in a submodule only its own folders tell. None when
    git cannot tell.
    """
    known = _listed(folder, "-t", "--recurse-submodules")
    new = _listed(folder, "--others", "--exclude-standard") if known is not None else None
    if known is None or new is None:
        return None
    there = [line[2:] for line in known if not _is_left_out(folder, line)]
    return list(dict.fromkeys([*there, *new]))  # a file in conflict is there up to three times


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
    answer = _ask_at(top, "rev-parse", "--is-shallow-repository")
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


# -- asking ------------------------------------------------------------------------------------------


def _ask_at(top: Path, *command: str, folder: Path | None = None, limit_bytes: int = ANSWER_BYTES) -> Answer | None:
    """Ask about the work tree with this top, never about an outer one."""
    here = {"GIT_CEILING_DIRECTORIES": str(top.parent)}
    if command[0] == "diff":
        here["GIT_WORK_TREE"] = str(top)  # content of no other folder, whatever the repository's own settings say
    return ask(folder or top, *command, limit_bytes=limit_bytes, settings=here)


def ask(
    folder: Path,
    *command: str,
    seconds: float | None = None,
    limit_bytes: int = ANSWER_BYTES,
    settings: Mapping[str, str] | None = None,
) -> Answer | None:
    """What git says in a folder; None when it cannot be started, is killed or takes longer than it may."""
    try:
        filters = _without_filters(top_of(folder))
    except _Unknown:
        return None
    return _ask(folder, (*_QUIET, *filters), command, settings or {}, seconds, limit_bytes)


def _ask(
    folder: Path,
    quiet: Sequence[str],
    command: Sequence[str],
    settings: Mapping[str, str],
    seconds: float | None = None,
    limit_bytes: int = ANSWER_BYTES,
) -> Answer | None:
    import subprocess

    words = [word for setting in quiet for word in ("-c", setting)]
    environment = {name: value for name, value in os.environ.items() if not _is_elsewhere(name)}
    if not (program := _program()):
        return None
    try:
        process = subprocess.Popen(
            [program, "--no-pager", *words, *command],
            cwd=folder,
            env=environment | _ASKING | dict(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what git starts is ended with it
        )
    except (OSError, ValueError):  # no such folder, or a NUL in a path
        return None
    return _answer(process, GIT_SECONDS if seconds is None else seconds, limit_bytes)


def _is_elsewhere(name: str) -> bool:
    return name.startswith("GIT_") and not re.fullmatch(_STAYS, name)


def _program() -> str | None:
    """The git of the PATH. A PATH with `.` in it must not find one in the repository."""
    places = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = (os.path.join(place, "git") for place in places)
    return next((path for path in found if os.access(path, os.X_OK) and not os.path.isdir(path)), None)


def _answer(process: subprocess.Popen[bytes], seconds: float, limit_bytes: int) -> Answer | None:
    import subprocess
    from time import monotonic

    deadline = monotonic() + seconds
    try:
        out = _read(process, deadline, limit_bytes)
        if out is None:
            return Answer(0, b"", whole=False)
        exit = process.wait(max(0.0, deadline - monotonic()))
        return Answer(exit, out) if exit >= 0 else None
    except (TimeoutError, subprocess.TimeoutExpired):
        return None
    finally:
        _end(process)


def _read(process: subprocess.Popen[bytes], deadline: float, limit_bytes: int) -> bytes | None:
    """All that it prints; None when that is more than so many bytes. Raises TimeoutError."""
    from selectors import EVENT_READ, DefaultSelector
    from time import monotonic

    assert process.stdout is not None
    parts: list[bytes] = []
    size = 0
    with DefaultSelector() as ready:
        ready.register(process.stdout, EVENT_READ)
        while ready.select(max(0.0, deadline - monotonic())):
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return b"".join(parts)
            size += len(part)
            if size > limit_bytes:
                return None
            parts.append(part)
    raise TimeoutError


def _end(process: subprocess.Popen[bytes]) -> None:
    import signal

    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


# -- filters -----------------------------------------------------------------------------------------


class _Unknown(Exception):
    """Git cannot tell which filters a repository names, or cannot be kept from running them."""


_MAY_FILTER = re.compile(rb"filter|(include)", re.IGNORECASE)
_SETTINGS_BYTES = 1 << 20


def _without_filters(top: Path | None) -> tuple[str, ...]:
    """Settings under which git runs no filter that the repository's own settings name. Raises _Unknown.

    Git is asked for their names only where the text of those settings leaves room for any, and once for each text.
    """
    texts = tuple(map(_text, _settings_files(top))) if top else ()
    hints = [hint for text in texts if text is not None for hint in _MAY_FILTER.finditer(text)]
    if top is None or (None not in texts and not hints):
        return ()
    if None in texts or any(hint[1] for hint in hints):  # then the text is not all that counts
        return _users_filters.__wrapped__(top, texts)
    return _users_filters(top, texts)


def _settings_files(top: Path) -> tuple[Path, Path]:
    """Where the settings of a repository are, and those of this one of its work trees."""
    inner = top / ".git"
    if os.path.isfile(inner):
        inner = top / os.fsdecode((_text(inner) or b"").removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    common = inner / os.fsdecode((_text(inner / "commondir") or b"").rstrip(b"\r\n"))
    return common / "config", inner / "config.worktree"


def _text(file: Path) -> bytes | None:
    """What is in a file of the repository; None when that cannot be known without waiting."""
    import stat

    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"" if file.name != "config" else None
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as opened:
        found = os.fstat(handle)
        is_known = stat.S_ISREG(found.st_mode) and found.st_size <= _SETTINGS_BYTES
        return opened.read(_SETTINGS_BYTES) if is_known else None


@lru_cache(maxsize=64)
def _users_filters(top: Path, texts: tuple[bytes | None, ...]) -> tuple[str, ...]:
    """The settings that put the user's own, or nothing, in the place of a repository's filters. Raises _Unknown."""
    here = {"GIT_CEILING_DIRECTORIES": str(top.parent)}
    command = ("config", "--null", "--show-scope", "--get-regexp", r"^filter\.")
    answer = _ask(top, _QUIET, command, here)
    if answer is None or answer.exit not in (0, 1) or not answer.whole:
        raise _Unknown
    fields = iter(answer.fields)
    told = [(scope, *setting.partition("\n")[::2]) for scope, setting in zip(fields, fields, strict=True)]
    own = {key for scope, key, _ in told if scope in ("local", "worktree")}
    users = {key: value for scope, key, value in told if scope not in ("local", "worktree")}
    if any("=" in key for key in own):  # on the command line such a name would end there
        raise _Unknown
    return tuple(f"{key}={users.get(key, '')}" for key in sorted(own))
