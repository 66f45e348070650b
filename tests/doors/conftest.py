"""The real command in processes of its own, in a folder with a flow to run."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from outlast import Outlast
from outlast.clock import ManualClock
from outlast.python.named_flows import find_flow

from ..ready import Started, environment, hear, run
from .terminal import Open, Terminal

FLOWS = """
import asyncio, os, time
from pathlib import Path
from outlast import KEY, AsyncRun, Run, effect, flow, step


def diary(line):
    with Path("diary.txt").open("a") as file:
        file.write(line + "\\n")


@step
def find(topic: str) -> list[str]:
    print("looking")
    diary("find")
    return [topic, topic.upper()]


@step
def draft(words: list[str]) -> str:
    diary("draft")
    if os.environ.get("DIE_IN_DRAFT"):
        os.kill(os.getpid(), 9)
    time.sleep(float(os.environ.get("SLOW", "0")))
    while "UNTIL" in os.environ and not Path(os.environ["UNTIL"]).exists():
        time.sleep(0.01)
    return " ".join(words)


@effect
def publish(text: str, *, key: str = KEY) -> str:
    diary("publish")
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    return f"published {text}"


@flow
def report(run: Run, topic: str) -> dict[str, str]:
    return {"link": publish(draft(find(topic)))}


@flow
def sleeper(run: Run) -> None:
    run.sleep("2h")


@flow
def moment(run: Run) -> str:
    run.sleep(0.5)
    return "rested"


@flow
def broken(run: Run) -> None:
    raise ValueError("no \\x1b[31mluck\\nat all")


@flow
def impatient(run: Run) -> None:
    raise SystemExit(9)


@effect
def send(what: str) -> str:
    diary(f"send {what}")
    if os.environ.get("BREAK"):
        raise RuntimeError("the line broke")
    return what


@flow
async def both(run: AsyncRun) -> None:
    await asyncio.gather(run.sleep("2h"), run.effect(send, "a"))


@flow
def two(run: Run) -> list[str]:
    return run.map(send, ["a", "b"], concurrency=1)


@step
def crash() -> str:
    diary("crash")
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    return "calm"


@flow
def crasher(run: Run) -> str:
    return crash()


@effect
def greet(word: str) -> str:
    diary(f"greet {word}")
    return word


@flow
def greeting(run: Run) -> str:
    said = greet(os.environ["WORD"])
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    if not os.environ.get("FINE"):
        raise ValueError("not yet")
    return said
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout; a second one, or anything else there, is an error."""
        return json.loads(self.out)


def _text(said: bytes) -> str:
    return said.decode().replace("\r\n", "\n")


class Cli:
    """`outlast` in a folder."""

    environment = staticmethod(environment)
    hear = staticmethod(hear)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *words: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Answer:
        """One command, to its end, forked from a process that has read the code already."""
        told = run(("-m", "outlast", *words), cwd=cwd or self.folder, env=environment(**env), stdin=stdin.encode())
        return Answer(told.returncode, *(_text(said) for said in (told.stdout, told.stderr)))

    def start(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.Popen[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        child = Started(("-m", "outlast", *words), cwd=cwd or self.folder, env=environment(**env), text=True, **pipes)
        self._started.append(child)
        return child

    def start_until(self, line: str, *words: str, **env: str) -> subprocess.Popen[str]:
        """A command that has come so far that the diary has this line."""
        child = self.start(*words, **env)
        until = time.monotonic() + 60
        while line not in self.diary and time.monotonic() < until and child.poll() is None:
            time.sleep(0.01)
        while not self._has_started() and time.monotonic() < until and child.poll() is None:
            time.sleep(0.01)
        return child

    def _has_started(self) -> bool:
        """Whether the start of a step that is under way is written."""
        with self.opened() as outlast:
            running = outlast.runs(status="running")
            return any(each.status == "started" for run in running for each in outlast.receipts(run.id))

    def stop(self, child: subprocess.Popen[str], *signals: signal.Signals) -> Answer:
        for number in signals:
            child.send_signal(number)
            time.sleep(0.3 if len(signals) > 1 else 0)
        out, err = child.communicate(timeout=60)
        return Answer(child.returncode, out, err)

    def wait_for_event(self, run_id: str, name: str) -> None:
        """Until the run's journal has an event of that name."""
        until = time.monotonic() + 60
        with self.opened() as outlast:
            while not any(event.name == name for event in outlast.events(run_id)):
                assert time.monotonic() < until, f"no {name}"
                time.sleep(0.02)

    def opened(self) -> Outlast:
        """Its home, opened in this process."""
        return Outlast(self.folder / ".outlast")

    def here(self, flow: str, *, ago: float = 0, env: Mapping[str, str] | None = None, **inputs: Any) -> str:
        """Run a flow in a forked process, which starts sooner than a command; the id of its run.

        With `ago` its clock stands still, that many seconds before now.
        """
        child = os.fork()
        if child == 0:
            self._live_here(flow, ago, env or {}, inputs)
        os.waitpid(child, 0)
        with self.opened() as outlast:
            return outlast.runs(limit=1)[0].id

    def _live_here(self, flow: str, ago: float, env: Mapping[str, str], inputs: Mapping[str, Any]) -> NoReturn:
        try:
            os.chdir(self.folder)
            os.environ.update(env)
            clock = ManualClock(datetime.now(UTC) - timedelta(seconds=ago)) if ago else None
            with Outlast(self.folder / ".outlast", clock=clock) as outlast:
                outlast.run(find_flow(flow, str(outlast.home)), **inputs)
        finally:
            os._exit(0)

    @property
    def diary(self) -> list[str]:
        file = self.folder / "diary.txt"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def run_id(self) -> str:
        """The newest run."""
        return str(self("runs", "--json").json["runs"][0]["id"])

    def close(self) -> None:
        for child in self._started:
            if child.poll() is None:
                child.kill()
                child.communicate()


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    (tmp_path / "flows.py").write_text(FLOWS)
    made = Cli(tmp_path)
    yield made
    made.close()


@pytest.fixture
def in_doubt(cli: Cli) -> Callable[[], str]:
    """A run that died between the intent of its effect and the outcome."""

    def make() -> str:
        return cli.here("flows.py:report", topic="ai", env={"DIE": "1"})

    return make


@pytest.fixture
def at_terminal(cli: Cli) -> Iterator[Open]:
    opened: list[Terminal] = []

    def make(*words: str, **env: str) -> Terminal:
        opened.append(Terminal(cli, *words, **env))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()
