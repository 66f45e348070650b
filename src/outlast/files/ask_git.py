"""Asking git: the one place from which it is started, with one environment.

The `git` program of the PATH is asked, and only asked: no lock is taken, nothing is fetched, and no program runs that a
repository's own settings name: no hook, file monitor, pager, external diff, text conversion or filter. Filters of the
user's own settings (Git LFS) do run: which file has one is for git to say, which program it is only for the user.

A repository is found and checked first (`repository.py`), then git is asked whether it is ours to use and which
settings it has, and everything after that with those very folders. What may not be used is not known, like what git
cannot tell.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, cached_property, partial
from pathlib import Path
from time import monotonic, time_ns

from outlast.files import repository, still_true
from outlast.files.repository import LeadsOut, Repository
from outlast.files.still_true import GitAnswer, RestsOn, Usable

GIT_SECONDS = 30.0
PAUSE_SECONDS = 60.0  # for which a repository that took too long is not asked again
ANSWER_BYTES = 64 << 20  # what git says beyond that is not believed to be an answer

_QUIET = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit", "protocol.allow=never"),
    *("core.pager=cat", "core.editor=false", "core.askPass=false", "core.sshCommand=false", "credential.helper="),
    *("core.alternateRefsCommand=false", "gpg.program=false", "submodule.recurse=false", "core.untrackedCache=false"),
    "diff.autoRefreshIndex=false",  # that would write the index, and lock it against the user meanwhile
)
_OPTIONS = tuple(word for setting in _QUIET for word in ("-c", setting))
_ASKING = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # a git that does not know the line above fetches what a partial clone lacks
    "GIT_LITERAL_PATHSPECS": "1",
}
# Of the caller's own settings these stay; GIT_DIR, GIT_INDEX_FILE and the like speak of another repository.
_STAYS = r"GIT_(CEILING_DIRECTORIES|DISCOVERY_.*|EXEC_PATH|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_.*|VALUE_.*))"
_READ = (b"HOME", b"XDG_CONFIG_HOME", b"PATH")  # and what begins with GIT_
_OWN = ("local", "worktree")  # settings of the repository, and of one of its work trees
_USERS = r"(?s)filter\..*|core\.(?:attributesfile|excludesfile)"  # only the user's own count


class GitLook:
    """What is known while one thing is looked at: a repository is checked once, and git is asked each thing once."""

    def __init__(self) -> None:
        self.reals: dict[str, Path] = {}
        self.tops: dict[Path, Path | None] = {}
        self.known: dict[str, Usable] = {}  # by top
        self.asked: dict[tuple[object, ...], Asked | GitAnswer | None] = {}


_look: ContextVar[GitLook | None] = ContextVar("look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """While one answer is looked for, each repository is checked once and git is asked each thing once."""
    if _look.get() is not None:
        yield
        return
    token = _look.set(look := GitLook())
    try:
        yield
    finally:
        _look.reset(token)
        for asked in look.asked.values():
            if isinstance(asked, Asked):
                asked.end()


def ask(
    folder: Path,
    *command: str,
    top: Path | None = None,
    alone: bool = False,
    seconds: float | None = None,
    limit_bytes: int = ANSWER_BYTES,
    settings: Mapping[str, str] | None = None,
    rests_on: RestsOn | None = None,
) -> GitAnswer | None:
    """What git says in a folder of a work tree, or `alone`, as if there were no repository around.

    None when it cannot be started, is killed or takes longer than it may, and when the repository may not be used.
    Where `rests_on` can say on which files an answer rests, it is asked at the top, and given again while it is true.
    """
    asked = _asked(folder, command, top, alone, seconds, limit_bytes, settings, rests_on)
    return asked.answer if isinstance(asked, Asked) else asked


def ask_ahead(
    folder: Path, *command: str, top: Path, seconds: float | None = None, rests_on: RestsOn | None = None
) -> None:
    """Let git begin with what will be asked in this look, while something else is done."""
    if _look.get() is not None:
        _asked(folder, command, top, False, seconds, ANSWER_BYTES, None, rests_on)


def _asked(
    folder: Path,
    command: tuple[str, ...],
    top: Path | None,
    alone: bool,
    seconds: float | None,
    limit_bytes: int,
    settings: Mapping[str, str] | None,
    rests_on: RestsOn | None,
) -> Asked | GitAnswer | None:
    look, question = _look.get(), (folder, command, top, alone, seconds, limit_bytes, repr(settings))
    if look is not None and question in look.asked:
        return look.asked[question]
    asked: Asked | GitAnswer | None = None
    with suppress(Unusable):
        found = None if alone else top or top_of(folder)
        usable = _known(str(found)) if found else None
        if usable is not None and rests_on is not None:
            asked = _asked_again(command, usable, rests_on)
        else:
            known = usable.environment if usable else _nowhere(folder)
            asked = _start(folder, command, {**known, **(settings or {})}, seconds, limit_bytes)
    if look is not None:
        look.asked[question] = asked
    return asked


def _asked_again(command: tuple[str, ...], usable: Usable, rests_on: RestsOn) -> Asked | GitAnswer | None:
    """The answer of before, while it is true; else git is asked at the top, and its answer remembered."""
    if (answer := still_true.again(command, usable)) is not None:
        return answer
    began_ns = time_ns()
    asked = _start(Path(usable.repository.top), command, usable.environment, None, ANSWER_BYTES)
    if asked is not None:
        asked.then = partial(still_true.remember, command, usable, rests_on, began_ns)
    return asked


def real(folder: str | Path) -> Path:
    """Where a folder is, all links on the way followed: once in a look."""
    look, name = _look.get(), str(folder)
    if look is None:
        return Path(os.path.realpath(name))
    if name not in look.reals:
        found = Path(os.path.realpath(name))
        look.reals[name] = look.reals[str(found)] = found
    return look.reals[name]


def top_of(folder: Path) -> Path | None:
    """The top of the work tree that a folder is in; None outside of git. Looks for `.git` upward, asks nobody."""
    look = _look.get()
    if look is not None and folder in look.tops:
        return look.tops[folder]
    found = repository.top_above(str(real(folder)))
    top = Path(found) if found is not None else None
    if look is not None:
        look.tops[folder] = top
    return top


def why_refused(folder: Path) -> str:
    """What of the repository around a folder leads out, so that git is not asked about it; "" when nothing does."""
    top = top_of(folder)
    try:
        if top is not None:
            _found(str(top))
    except Unusable as error:
        return str(error)
    return ""


def found() -> bool:
    """Whether there is a git to ask at all."""
    return _program() is not None


# -- the repository ----------------------------------------------------------------------------------


class Unusable(Exception):
    """A repository that may not be used, or of which git cannot tell what it would run."""


_settings: dict[tuple[object, ...], Usable] = {}  # by all that these rest on
_slow: dict[str, float] = {}  # when each of these may be asked again


def _nowhere(folder: Path) -> dict[str, str]:
    return {"GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.realpath(folder))}


def _known(top: str) -> Usable:
    """How git uses this very repository, and none of its programs. Raises Unusable."""
    if _slow.get(top, 0.0) > monotonic():
        raise Unusable("it took too long a moment ago")
    look = _look.get()
    if look is None:
        return _usable(top)
    if top not in look.known:
        look.known[top] = _usable(top)
    return look.known[top]


def _usable(top: str) -> Usable:
    """The same, once the repository was checked. Raises Unusable."""
    found = _found(top)
    program = _program() or ""
    files = (program, f"{found.common}/config", f"{found.own}/config.worktree", *_users_settings(_prefix(program)))
    marks = still_true.marks_of(files)
    read = [(name, value) for name, value in os.environb.items() if name[:4] == b"GIT_" or name in _READ]
    mark = (program, found, *read, *_owners(found), *marks)
    known = _settings.get(mark)
    if known is None:
        here = {"GIT_DIR": found.own, "GIT_COMMON_DIR": found.common, "GIT_WORK_TREE": top}
        told = _told(found, here)
        _check_includes(found, told)
        _agree(found)
        if any(key.startswith("include") for scope, key, _ in told if scope in _OWN):
            told = _told(found, here, "--includes")
            return Usable(found, here | _replaced(told), mark, None)  # the files above are not all that it rests on
        rules = _users_rules(told, _prefix(program))
        known = Usable(found, here | _replaced(told), mark, rules, still_true.newest_of(marks))
        if len(_settings) > 64:
            _settings.clear()
        _settings[mark] = known
    return known


def _owners(found: Repository) -> list[tuple[int, ...]]:
    """Whose its folders are, and which ones they are. Raises Unusable."""
    try:
        seen = [os.stat(folder) for folder in (found.top, found.own)]
    except OSError as error:
        raise Unusable(str(error)) from error
    return [(each.st_uid, each.st_dev, each.st_ino) for each in seen]


def _users_settings(prefix: str) -> tuple[str, ...]:
    """Where git looks for settings that are not the repository's."""
    own = os.environ.get("GIT_CONFIG_GLOBAL") or os.path.join(os.environ.get("HOME", "/"), ".gitconfig")
    system = os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"
    return (own, f"{_users_folder()}/config", system, f"{prefix}/etc/gitconfig")


def _users_rules(told: Told, prefix: str) -> tuple[str, ...] | None:
    """The user's files of what is ignored and of attributes; None where more than files counts."""
    if any(key.startswith(("include", "filter.", "extensions.")) for _, key, _ in told):
        return None
    values = {key: value for scope, key, value in told if scope not in _OWN}
    named = [os.path.expanduser(values.get(key, _without(key))) for key in ("core.excludesfile", "core.attributesfile")]
    if not all(map(os.path.isabs, named)):
        return None
    return (*named, "/etc/gitattributes", f"{prefix}/etc/gitattributes")


@cache
def _prefix(program: str) -> str:
    """Where a program is installed: a git that is not of the system has its own `etc` there."""
    return os.path.dirname(os.path.dirname(os.path.realpath(program)))


def _found(top: str) -> Repository:
    """The repository, checked. Raises Unusable."""
    try:
        found = repository.find(top)
        try:
            repository.check(found)
        except LeadsOut as error:
            if error.always or not is_safe(top):
                raise
    except LeadsOut as error:
        advice = "" if error.always else f"; if you trust it: git config --global --add safe.directory {top}"
        raise Unusable(f"{error}{advice}") from error
    except OSError as error:
        raise Unusable(str(error)) from error
    return found


def is_safe(top: str) -> bool:
    """Whether the user's own settings of git name a repository as safe, whatever it leads to."""
    command = ("config", "--null", "--show-scope", "--type=path", "--get-all", "safe.directory")
    answer = _ask(Path("/"), command, {"GIT_CEILING_DIRECTORIES": "/", "GIT_DIR": os.devnull})
    if answer is None or answer.exit or not answer.whole:
        return False
    named: list[str] = []
    fields = iter(answer.out.split(b"\0")[:-1])
    for scope, value in zip(fields, fields, strict=False):
        if scope.decode() not in _OWN:
            named = [*named, os.fsdecode(value)] if value else []  # an empty one forgets those before it
    return any(each == "*" or _is_under(each, top) for each in named)


def _is_under(named: str, top: str) -> bool:
    if named.endswith("/*"):
        return repository.is_below(top, os.path.realpath(named[:-2]))
    return os.path.realpath(named) == top


def _agree(found: Repository) -> None:
    """Git finds the same folders by itself, and they are no stranger's. Raises Unusable."""
    answer = _ask(Path(found.top), ("rev-parse", "--absolute-git-dir", "--git-common-dir"), _nowhere(Path(found.top)))
    said = os.fsdecode(answer.out) if answer and not answer.exit and answer.whole else ""
    common = said.removeprefix(f"{found.own}\n").removesuffix("\n")  # a folder's name may have any sign in it
    if not said.startswith(f"{found.own}\n") or os.path.realpath(os.path.join(found.top, common)) != found.common:
        _remember_slow(found.top, answer)
        raise Unusable("git does not use it: it is broken, or belongs to somebody else")


def _remember_slow(top: str, answer: GitAnswer | None) -> None:
    if answer is None:
        _slow[top] = monotonic() + PAUSE_SECONDS


# -- its settings ------------------------------------------------------------------------------------

Told = list[tuple[str, str, str]]  # scope, key, value


def _told(found: Repository, here: Mapping[str, str], *more: str) -> Told:
    """All settings that hold in the repository, as git reads them. Raises Unusable."""
    command = ("config", "--null", "--show-scope", *(more or ("--no-includes",)), "--list")
    answer = _ask(Path(found.top), command, here)
    if answer is None or answer.exit or not answer.whole:
        _remember_slow(found.top, answer)
        raise Unusable("git cannot tell which settings it has")
    fields = iter(os.fsdecode(answer.out).split("\0")[:-1])
    return [(scope, *setting.partition("\n")[::2]) for scope, setting in zip(fields, fields, strict=True)]


def _check_includes(found: Repository, told: Told) -> None:
    """What the repository's settings include lies in the repository, and includes nothing more. Raises Unusable."""
    for scope, key, value in told:
        if scope in _OWN and key.startswith("include"):
            base = found.common if scope == "local" else found.own
            try:
                path = repository.followed(os.path.join(base, os.path.expanduser(value)))
            except LeadsOut as error:
                raise Unusable(str(error)) from error
            if not (found.holds(path) and _is_plain(found, path)) and not is_safe(found.top):
                raise Unusable(f"its settings include {value!r}")


def _is_plain(found: Repository, path: str) -> bool:
    """Whether an included file includes nothing itself."""
    if not os.path.isfile(path):
        return not os.path.lexists(path)
    command = ("config", "--null", "--file", path, "--no-includes", "--name-only", "--list")
    answer = _ask(Path(found.top), command, _nowhere(Path(found.top)))
    return answer is not None and not answer.exit and not any(key.startswith("include") for key in answer.fields)


def _replaced(told: Told) -> dict[str, str]:
    """The user's own values, or none, in the place of the repository's: an environment that says so."""
    users = {key: value for scope, key, value in told if scope not in _OWN}
    own = sorted({key for scope, key, _ in told if scope in _OWN and re.fullmatch(_USERS, key)})
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    said: dict[str, str] = {}
    for number, key in enumerate(own, first):
        said[f"GIT_CONFIG_KEY_{number}"] = key
        said[f"GIT_CONFIG_VALUE_{number}"] = users.get(key, _without(key))
    return said | ({"GIT_CONFIG_COUNT": str(first + len(own))} if own else {})


def _without(key: str) -> str:
    """What holds where nobody sets it."""
    files = {"core.attributesfile": "attributes", "core.excludesfile": "ignore"}
    return os.path.join(_users_folder(), files[key]) if key in files else ""


def _users_folder() -> str:
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git")


# -- the process -------------------------------------------------------------------------------------


def _ask(folder: Path, command: Sequence[str], settings: Mapping[str, str]) -> GitAnswer | None:
    asked = _start(folder, command, settings, None, ANSWER_BYTES)
    return asked.answer if asked is not None else None


def _start(
    folder: Path, command: Sequence[str], settings: Mapping[str, str], seconds: float | None, limit_bytes: int
) -> Asked | None:
    """A git that is at work; None when there is none, or it cannot be started."""
    if not (program := _program()):
        return None
    stays = {name: value for name, value in os.environ.items() if name[:4] != "GIT_" or re.fullmatch(_STAYS, name)}
    try:
        process = subprocess.Popen(
            [program, "--no-pager", *_OPTIONS, *command],
            cwd=folder,
            env=stays | _ASKING | dict(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what git starts is ended with it
        )
    except (OSError, ValueError):  # no such folder, or a NUL in a path
        return None
    top = settings.get("GIT_WORK_TREE", "") if seconds is None else ""
    return Asked(process, GIT_SECONDS if seconds is None else seconds, limit_bytes, top)


def _program() -> str | None:
    """The git of the PATH. A PATH with `.` in it must not find one in the repository."""
    places = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = (os.path.join(place, "git") for place in places)
    return next((path for path in found if os.access(path, os.X_OK) and not os.path.isdir(path)), None)


class Asked:
    """A question that git is at work on. What it may take counts from when its answer is waited for."""

    then: Callable[[GitAnswer | None], None] | None = None  # what is done with its answer

    def __init__(self, process: subprocess.Popen[bytes], seconds: float, limit_bytes: int, top: str) -> None:
        self._process, self._seconds, self._limit_bytes, self._top = process, seconds, limit_bytes, top

    @cached_property
    def answer(self) -> GitAnswer | None:
        answer = self._answer(monotonic() + self._seconds)
        if self._top:
            _remember_slow(self._top, answer)
        if self.then is not None:
            self.then(answer)
        return answer

    def _answer(self, deadline: float) -> GitAnswer | None:
        try:
            out = self._read(deadline)
            if out is None:
                return GitAnswer(0, b"", whole=False)
            exit = _exit_of(self._process, deadline)
            return GitAnswer(exit, out) if exit >= 0 else None
        except (TimeoutError, subprocess.TimeoutExpired):
            return None
        finally:
            self.end()

    def _read(self, deadline: float) -> bytes | None:
        """All that it prints; None when that is more than so many bytes. Raises TimeoutError."""
        assert self._process.stdout is not None
        handle, size = self._process.stdout.fileno(), 0
        parts: list[bytes] = []
        while _is_ready(handle, deadline):
            part = os.read(handle, 1 << 16)
            if not part:
                return b"".join(parts)
            size += len(part)
            if size > self._limit_bytes:
                return None
            parts.append(part)
        raise TimeoutError

    def end(self) -> None:
        """End it, and all that it started, if it is still at work."""
        process = self._process
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _exit_of(process: subprocess.Popen[bytes], deadline: float) -> int:
    """How it ended. Waits for its end itself: `wait(timeout)` sleeps and looks. Raises TimeoutExpired."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # another system, or a sandbox that knows no such thing
        return process.wait(max(0.0, deadline - monotonic()))
    try:
        _is_ready(handle, deadline)
    finally:
        os.close(handle)
    return process.wait(0)


def _is_ready(handle: int, deadline: float) -> bool:
    ready = select.poll()
    ready.register(handle, select.POLLIN)
    return bool(ready.poll(max(0.0, deadline - monotonic()) * 1000))
