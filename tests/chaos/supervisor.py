"""A supervisor that knows one thing: it repeats the command until it ends well. And everything that happens to it.

Between two starts the project may be deployed to a new folder and a person may answer, in a process that may be killed
as well. While the command runs, it is killed alone, killed with everything it started, told to end as a service manager
tells it, or the machine is rebooted; or it is killed just after its last command, around the moment of its success.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .world import World

HERE = Path(__file__).parent
DEADLINE_SECONDS = 60.0  # for one start of the command, which works for about one second
GIVE_UP = 60  # starts of one order that do not end well

# What may happen to a start of the command, and how often.
FATES = {
    "kill": 6,  # SIGKILL of the runtime; its guard ends the rest
    "kill_all": 4,  # SIGKILL of the runtime, its guard and its commands
    "kill_after_end": 4,  # SIGKILL of the runtime about when it succeeds
    "term": 1,  # SIGTERM to the runtime
    "term_all": 2,  # SIGTERM to everything, as a service manager does
    "reboot": 2,  # everything is gone, and the machine has another boot
    "quiet": 1,  # nothing
}
WITHOUT = set(os.environ.get("CHAOS_WITHOUT", "").split())  # fates, `deploy`, `repeat`: to look at the others alone
KILLS = ("kill", "kill_all", "kill_after_end", "kill_answer", "reboot")


@dataclass(slots=True)
class Figures:
    """What was done to it."""

    seed: int
    happened: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    deploys: int = 0
    answers: int = 0
    repeats: int = 0  # of a command that had ended well
    orders: int = 0

    @property
    def kills(self) -> int:
        return sum(self.happened[fate] for fate in KILLS)


@dataclass(slots=True)
class Supervisor:
    """One home, outside of the folders that the project is deployed to."""

    folder: Path
    world: World
    dice: random.Random
    figures: Figures
    boot: int = 0
    release: int = 0
    token: str = ""
    fates: list[str] = field(default_factory=list)  # those to come, the last one first

    def __post_init__(self) -> None:
        self.token = f"{os.getpid()}-{self.folder}"
        self.fates = self.dice.sample(list(FATES), len(FATES))
        first = self.folder / "r0"
        first.mkdir(parents=True)
        for name in ("flow.yaml", "command.py"):
            shutil.copy(HERE / name, first)

    # -- the machine -----------------------------------------------------------------------------

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / f"r{self.release}"

    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        return ours | {
            "CHAOS_BOOT": f"boot {self.boot}",
            "CHAOS_TOKEN": self.token,
            "OUTLAST_HOME": str(self.home),
            "PYTHON": f"{sys.executable} -S -E",
            "WORLD_PORT": str(self.world.port),
        }

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(HERE / "entry.py"), *words, "--json"],
            cwd=self.project,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
        """A command that nothing happens to."""
        process = self.start(*words)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode in codes, f"{words} exited with {process.returncode}: {out}{err}"
        return json.loads(out)

    def living(self) -> list[int]:
        """Every process that was started here and lives, by what it found in its environment."""
        mark, found = f"CHAOS_TOKEN={self.token}\0".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in place.joinpath("environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
        return found

    def signal_all(self, number: int) -> None:
        for pid in self.living():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    # -- what happens ----------------------------------------------------------------------------

    def happen(self, fate: str, process: "subprocess.Popen[str]") -> None:
        """Let a start of the command meet its fate: after some of its commands, and a moment."""
        commands, moment, early = self.dice.randint(0, 4), self.dice.uniform(0, 0.06), self.dice.uniform(0, 0.5)
        if fate == "quiet":
            return
        enough = self.world.contacts + commands
        self._await(process, lambda: self.world.is_last if fate == "kill_after_end" else self.world.contacts >= enough)
        try:
            process.wait(moment if commands or fate == "kill_after_end" else early)
        except subprocess.TimeoutExpired:
            self.figures.happened[fate] += 1
            self._strike(fate, process)

    def _strike(self, fate: str, process: "subprocess.Popen[str]") -> None:
        if fate in ("kill", "kill_after_end"):
            process.kill()
        elif fate == "term":
            process.terminate()
        elif fate == "term_all":
            self.signal_all(signal.SIGTERM)
        elif fate in ("kill_all", "reboot"):
            process.kill()
            while self.living():
                self.signal_all(signal.SIGKILL)
        self.boot += fate == "reboot"

    def _await(self, process: "subprocess.Popen[str]", is_so: Callable[[], bool]) -> None:
        """Until it is so, or the command has ended."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while process.poll() is None and not is_so() and time.monotonic() < deadline:
            time.sleep(0.002)

    def deploy(self) -> None:
        """The project goes to a new folder, as it is; the old one may go."""
        old = self.project
        self.release += 1
        shutil.copytree(old, self.project, ignore=shutil.ignore_patterns("*.new"))
        if self.dice.random() < 0.5:
            shutil.rmtree(old, ignore_errors=True)  # what was killed just now may still write to it
        self.figures.deploys += 1

    def _deploy_perhaps(self, chance: float) -> None:
        if self.dice.random() < chance and "deploy" not in WITHOUT:
            self.deploy()

    def answer(self) -> None:
        """A person, in another process, answers what is asked: yes to the plan, and again to what died too often."""
        said = self.ask("inbox", codes=(0, 5))  # 5: it was killed before it had made the home
        for wait in said.get("waits", ()):
            if wait["type"] == "approval":
                words = ("approve", wait["id"])
            else:
                assert "retry" in wait["choices"], f"nobody can answer this: {wait}"
                words = ("answer", wait["id"], '{"choice": "retry"}')
            if self.dice.random() < 0.25 and "kill_answer" not in WITHOUT:
                self._kill_soon(self.start(*words))  # it is asked for again, if it was not heard
            else:
                self.ask(*words, codes=(0, 3))  # 3: it went on with the run, which waits for something else
            self.figures.answers += 1

    def _kill_soon(self, process: "subprocess.Popen[str]") -> None:
        try:
            process.wait(self.dice.uniform(0.1, 0.6))
        except subprocess.TimeoutExpired:
            self.figures.happened["kill_answer"] += 1
            process.kill()
        process.communicate()

    # -- an order --------------------------------------------------------------------------------

    def repeat(self, order: str, kills: int) -> Any:
        """The same command until it ends well, with so many kills at most on the way. Gives what it said then."""
        most = self.figures.kills + kills
        for _ in range(GIVE_UP):
            self.world.is_last = False
            fate = self._fate() if self.figures.kills < most else "quiet"
            between = self.dice.random()
            process = self.start("run", "flow.yaml", f"order={order}", "--task", order)
            self.figures.starts += 1
            self.happen(fate, process)
            out, err = process.communicate(timeout=DEADLINE_SECONDS)
            if process.returncode == 0:
                return json.loads(out)
            self._note(process.returncode, out + err)
            self._deploy_perhaps(0.2)
            if process.returncode in (3, 4) or between > 0.8:
                self.answer()
        raise AssertionError(f"{order} did not end well: {out}{err}")

    def _fate(self) -> str:
        """The next one: each in turn at first, in some order, then as it comes."""
        if not self.fates:
            self.fates = self.dice.choices(list(FATES), list(FATES.values()), k=20)
        fate = self.fates.pop()
        return "quiet" if fate in WITHOUT else fate

    def _note(self, code: int, said: str) -> None:
        """An end that is no success must be one that a supervisor expects."""
        self.figures.happened[f"exit {code}"] += 1
        assert code in (-9, -15, 1, 3, 4, 130, 143), f"exit {code}: {said}"
        if code == 4:  # held by one that dies; or it died too often in one step, and a person is asked
            assert "run_held" in said or '"waiting"' in said, said
            time.sleep(0.2)  # a supervisor waits between two tries

    def order(self, kills: int) -> None:
        """One order, to its end and beyond: the command is repeated after it has ended well, and nothing is done."""
        self.figures.orders += 1
        name = f"order-{self.figures.orders}"
        first = self.repeat(name, kills)
        done = dict(self.world.did)
        for _ in range(self.dice.randint(1, 2) if "repeat" not in WITHOUT else 0):
            self._deploy_perhaps(0.5)
            again = self.repeat(name, 1)
            self.figures.repeats += 1
            assert (again["run_id"], again["result"]) == (first["run_id"], first["result"])
        assert dict(self.world.did) == done
        assert self.world.effects_of(name) == {"charge": [1], "deliver": [1]}, (name, self.world.posts)
