"""A repository in which a coding agent works, and the hooks that it calls: in this process, and as real commands."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast import Outlast
from outlast.doors.hooks import leave as leaving
from outlast.doors.hooks import spool
from outlast.doors.hooks import start as starting
from outlast.doors.hooks.leave import LeftRevision
from outlast.doors.hooks.spool import Client, HookEvent, Kind, parse
from outlast.handoffs.handoff import Handoff
from outlast.python.work_tree import WorkTree, make_home, work_tree_of

from ..ready import completed

if TYPE_CHECKING:
    from tests.doors.conftest import Answer

FIXTURES = Path(__file__).parent / "hook_fixtures"
GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
VERSIONS: dict[Client, str] = {"claude": "2.1.261", "codex": "0.135.0", "cursor": "3.7.21"}
EVENTS: dict[Kind, str] = {"start": "session-start", "stop": "stop", "compact": "pre-compact", "end": "session-end"}
TRANSCRIPTS: dict[Client, str] = {"claude": "transcript-todos", "codex": "rollout", "cursor": "transcript"}


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, env=os.environ | PLAIN, check=True, capture_output=True)


def fixture(name: str, cwd: Path, transcript: Path | str = "") -> bytes:
    """A fixture with the paths of the test in it."""
    text = (FIXTURES / name).read_text("utf-8")
    return text.replace("{cwd}", str(cwd)).replace("{transcript}", str(transcript)).encode()


def until(true: Callable[[], Any], seconds: float = 60) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


class Work:
    """A repository with a home, and one session of a client in it."""

    def __init__(self, folder: Path, client: Client = "claude") -> None:
        self.folder, self.client = folder / "repo", client
        self.transcript = folder / "transcript.jsonl"
        self.session = ""
        self.agent: subprocess.Popen[bytes] | None = None
        (self.folder / "lib").mkdir(parents=True)
        (self.folder / "app.py").write_text("limit = 1\n")
        (self.folder / "lib" / "tool.py").write_text("tool = 1\n")
        git(self.folder, "init", "-q", ".")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-q", "-m", "first")
        self.home = self.folder / ".outlast"
        make_home(str(self.home))
        (self.home / ".gitignore").write_text("*\n")

    # -- the session -----------------------------------------------------------------------------

    def plan(self, name: str = "") -> None:
        """The agent works: its transcript has a plan, and `app.py` is edited."""
        given = name or f"{self.client}-{VERSIONS[self.client]}-{TRANSCRIPTS[self.client]}.jsonl"
        self.transcript.write_bytes(fixture(given, self.folder))
        self.edit("limit = 2\n")

    def todos(self, *steps: tuple[str, str]) -> None:
        """The agent's plan is this now."""
        items = [{"content": text, "status": status} for text, status in steps]
        block = {"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": items}}
        self.say({"type": "assistant", "message": {"role": "assistant", "content": [block]}})

    def say(self, line: dict[str, Any]) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1)) + ".000Z"
        with self.transcript.open("a") as file:
            file.write(json.dumps({"timestamp": stamp, **line}) + "\n")

    def edit(self, text: str, name: str = "app.py") -> None:
        (self.folder / name).write_text(text)

    # -- hooks in this process -------------------------------------------------------------------

    def event(self, kind: Kind, cwd: Path | None = None, **fields: Any) -> HookEvent:
        """The event that the client tells of, with its agent's process."""
        name = f"{self.client}-{VERSIONS[self.client]}-{EVENTS[kind]}.json"
        event = parse(self.client, kind, fixture(name, cwd or self.folder, self.transcript))
        assert event is not None
        more = {"session": self.session} if self.session else {}
        return event._replace(at=time.time_ns() // 1000, agent=self.who(), **more)._replace(**fields)

    def who(self) -> tuple[str, ...]:
        """The agent's process: a real one, so that it can be killed; else this one."""
        pid = self.agent.pid if self.agent else os.getpid()
        seen = spool._stat(pid)
        assert seen is not None
        return (*spool._where(), str(pid), str(seen[2]))

    def leave(self, kind: Kind, cwd: Path | None = None, *, died: bool = False, **fields: Any) -> LeftRevision:
        """What the process that stores does with an event."""
        with leaving.automatic_handoffs(str(self.home), self.client) as runtime:
            return leaving.leave(runtime, str(self.home), self.event(kind, cwd, **fields), died=died)

    def start(self, cwd: Path | None = None, **fields: Any) -> str:
        """What a session that starts is told, looked up; the session is remembered."""
        event = self.event("start", cwd, **fields)
        place = work_tree_of(event.cwd)
        anchor = event.anchor_on(place.branch)
        text = starting.begin(event, place, anchor)
        spool.write_session(place.home, spool.session_again(place.home, event, anchor, place.top))
        return text

    def newest(self, anchor: str = "branch:main") -> Handoff:
        with self.opened() as outlast:
            return outlast.handoff.get(anchor=anchor)

    def opened(self) -> Outlast:
        return Outlast(self.home)

    @property
    def place(self) -> WorkTree:
        return work_tree_of(str(self.folder))

    @property
    def log(self) -> str:
        file = self.home / "hooks.log"
        return file.read_text() if file.exists() else ""

    # -- hooks as commands -----------------------------------------------------------------------

    def fire(
        self, kind: Kind, given: bytes | None = None, *, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """The real command, as a client calls it, forked from a process that has read the code already."""
        from tests.doors.conftest import environment

        name = f"{self.client}-{VERSIONS[self.client]}-{EVENTS[kind]}.json"
        stdin = fixture(name, self.folder, self.transcript) if given is None else given
        return completed(
            ("-P", "-m", "outlast", "hook", kind, "--client", self.client),
            input=stdin,
            capture_output=True,
            cwd=cwd or self.folder,
            env=environment(**PLAIN, **env),
            timeout=60,
        )

    def settled(self) -> None:
        """Until the process that stores has taken everything in."""
        home = str(self.home)

        def idle() -> bool:
            with spool.alone(home, 0) as granted:
                return granted and not spool.waiting(home)

        until(idle)


def forked(work: Work, kind: str, given: bytes, **env: str) -> tuple[int, bytes, bytes]:
    """A hook in a forked process, which starts sooner than a command: its exit code, stdout and stderr."""
    done = command(work.folder, kind, "--client", work.client, stdin=given, **env)
    return done.code, done.out.encode(), done.err.encode()


def command(folder: Path, *words: str, stdin: bytes = b"", **env: str) -> "Answer":
    """`outlast hook …` in a forked process."""
    from tests.doors.conftest import Cli
    from tests.doors.repository import Repository

    here = object.__new__(Repository)  # only its way to run commands
    here.cli, here.folder = Cli(folder), folder
    return here.forked("hook", *words, stdin=stdin, **env)


def context(client: Client, printed: bytes) -> str:
    """What the client adds to a session that starts."""
    said = json.loads(printed)
    if client == "cursor":
        return str(said["additional_context"])
    assert said["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    return str(said["hookSpecificOutput"]["additionalContext"])
