"""A git repository with a file to work on, and `outlast handoff` in it: in processes of its own, and at terminals."""

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from outlast.doors.cli import main

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli

GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
CHECK = "grep -q 'limit = 2' app.py"
GOOD = (
    *("-m", "Requests over the limit are answered, and must be refused."),
    *("--next", "Set limit to 2 in app.py, then run the check."),
    *("--file", "app.py", "--check", CHECK),
)
for name in (  # what forked commands need not import any more
    *(f"doors.cli.{name}" for name in ("carry", "handoff", "store", "outcomes")),
    *("secrets.find", "care.travel.handoff"),
    "operations.reading",
    *(f"handoffs.{name}" for name in ("binding", "carry", "checks", "compose", "lint", "settle", "store")),
):
    import_module(f"outlast.{name}")
_DONE = re.compile(r"\[exit (\d+)\]\r?\n")


class Repository:
    """The folder of a `Cli`, under git."""

    def __init__(self, cli: "Cli") -> None:
        self.cli, self.folder = cli, cli.folder
        (self.folder / "app.py").write_text("limit = 1\n")
        (self.folder / "lib").mkdir()
        (self.folder / "lib" / "tool.py").write_text("tool = 1\n")
        self.git("init", "-q", ".")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")

    def git(self, *words: str) -> None:
        plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run([*GIT, *words], cwd=self.folder, env=os.environ | plain, check=True, capture_output=True)

    def write(self, text: str, name: str = "app.py") -> None:
        (self.folder / name).write_text(text)

    def store(self, anchor: str = "fix limit", *words: str) -> Any:
        """A good handoff, stored; its fields."""
        answer = self("store", anchor, *GOOD, *words, "--json")
        assert answer.code == 0, answer
        return answer.json

    def claimed(self, anchor: str = "fix limit", *words: str) -> str:
        """The id of a claim that is made now."""
        answer = self("claim", anchor, *words, "--json")
        assert answer.code == 0, answer
        return str(answer.json["id"])

    def __call__(self, *words: str, stdin: bytes = b"", cwd: Path | None = None, **env: str) -> "Answer":
        """`outlast handoff …` in a forked process without a terminal, which starts sooner than a command."""
        return self.forked("handoff", *words, stdin=stdin, cwd=cwd, **env)

    def forked(self, *words: str, stdin: bytes = b"", cwd: Path | None = None, **env: str) -> "Answer":
        from tests.doors.conftest import Answer

        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            child = os.fork()
            if child == 0:
                os.chdir(cwd or self.folder)
                _become(words, (given, out, err), self.cli.environment(**env))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            return Answer(code, out.read().decode(), err.read().decode())


def _become(words: Sequence[str], files: Sequence[BinaryIO], env: dict[str, str]) -> NoReturn:
    code: object = 99
    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(env)
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        try:
            main(words)
        except SystemExit as done:
            code = done.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code if isinstance(code, int) else 98)


class Shell:
    """Someone at a terminal: a shell that leads its session, in which commands are run one after another."""

    def __init__(self, repository: Repository, **env: str) -> None:
        self.seen = ""
        self._ours, theirs = pty.openpty()
        self._child = subprocess.Popen(
            ["sh", "-c", 'stty -echo; while read -r line; do eval "$line"; echo "[exit $?]"; done'],
            cwd=repository.folder,
            env=repository.cli.environment(COLUMNS="100", TERM="dumb", **env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)

    def __call__(self, words: str) -> tuple[int, str]:
        """What `outlast handoff WORDS` answers here: its exit code, and what is on the screen then."""
        self.type(f"{sys.executable} -m outlast handoff {words}\n")
        begin = len(self.seen)
        deadline = time.monotonic() + 60
        while not (done := _DONE.search(self.seen, begin)):
            assert time.monotonic() < deadline, self.seen
            assert self._read(), f"the terminal is gone: {self.seen!r}"
        return int(done[1]), self.seen[begin : done.start()].replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 1)[0]:
            return True
        try:
            more = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += more.decode()
        return bool(more)

    def close(self) -> None:
        """The person goes: the terminal is closed, and the shell with it."""
        if self._ours >= 0:
            self._child.kill()
            self._child.wait()
            os.close(self._ours)
            self._ours = -1


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
