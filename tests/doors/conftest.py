"""The real command in processes of its own, in a folder with a flow to run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FLOWS = """
import os, time
from pathlib import Path
from holdfast import KEY, Run, effect, flow, step


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
    time.sleep(float(os.environ.get("SLOW", "0")))
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
def broken(run: Run) -> None:
    raise ValueError("no \\x1b[31mluck\\nat all")


@flow
def impatient(run: Run) -> None:
    raise SystemExit(9)
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


class Cli:
    """`holdfast` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *words: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Answer:
        child = self.start(*words, cwd=cwd, **env)
        out, err = child.communicate(stdin, timeout=60)
        return Answer(child.returncode, out, err)

    def start(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        child = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *words],
            cwd=cwd or self.folder,
            env=kept | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(child)
        return child

    def start_until(self, line: str, *words: str, **env: str) -> subprocess.Popen[str]:
        """A command that has come so far that the diary has this line."""
        child = self.start(*words, **env)
        until = time.monotonic() + 60
        while line not in self.diary and time.monotonic() < until and child.poll() is None:
            time.sleep(0.01)
        time.sleep(0.15)  # past the moment when the start of the step is written
        return child

    def stop(self, child: subprocess.Popen[str], *signals: signal.Signals) -> Answer:
        for number in signals:
            child.send_signal(number)
            time.sleep(0.3 if len(signals) > 1 else 0)
        out, err = child.communicate(timeout=60)
        return Answer(child.returncode, out, err)

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
        assert cli("run", "flows.py:report", "topic=ai", DIE="1").code == -signal.SIGKILL
        return cli.run_id

    return make
