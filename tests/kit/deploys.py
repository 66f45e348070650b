"""Releases of a program in folders of their own, a home outside of all of them, and a world that counts."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast import Outlast

from ..ready import Started, environment, run

FLOW = """
import os, time
from pathlib import Path
from outlast import Run, effect, flow, step

WORLD = Path(os.environ["WORLD"])


@effect
def charge(who: str) -> str:
    with (WORLD / "charged").open("a") as file:
        file.write(who + "\\n")
    return who


@step
def gate(who: str) -> str:
    if not (WORLD / "open").exists():
        raise RuntimeError("closed")
    return who


@flow
def bill(run: Run, who: str = "kelp") -> str:
    return gate(charge(who))


@step
def linger(who: str) -> str:
    until = time.monotonic() + 60
    while not (WORLD / "open").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return who


@flow
def asking(run: Run, who: str = "kelp") -> str:
    if who == "slow":
        linger(who)
    charge(who)
    answer = run.pause_for("approval", payload={"who": who})
    return "yes" if answer["approved"] else "no"


@flow
def family(run: Run, who: str = "kelp") -> str:
    return gate(run.spawn(bill, who).result())


@flow
def resting(run: Run, who: str = "kelp") -> str:
    charge(who)
    run.sleep(0.5)
    run.sleep("2h")
    return who
"""
RECIPE = """
flow: bill
steps:
  - id: charge
    effect: true
    run: echo kelp >> "$WORLD/charged"
  - id: gate
    run: test -e "$WORLD/open"
"""
CHANGED = ("return who", "return str(who)")


def named(text: str = FLOW) -> str:
    """The same flows, each with a name of its own."""
    for name in ("bill", "asking", "family", "resting"):
        text = text.replace(f"@flow\ndef {name}(", f'@flow(name="acme {name}")\ndef {name}(')
    return text


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Deploys:
    """`outlast` in the folders of releases."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.world, self.home = folder, folder / "world", folder / "state" / "home"
        self.world.mkdir()
        self.home.parent.mkdir()

    @property
    def around(self) -> dict[str, str]:
        return environment(WORLD=str(self.world), OUTLAST_HOME=str(self.home))

    def release(self, name: str, text: str = FLOW, file: str = "flow.py") -> Path:
        place = self.folder / name / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return self.folder / name

    def copy(self, old: str, new: str) -> Path:
        shutil.copytree(self.folder / old, self.folder / new, symlinks=True)
        return self.folder / new

    def change(self, release: str, file: str = "flow.py", change: tuple[str, str] = CHANGED) -> None:
        path = self.folder / release / file
        before = path.read_text()
        path.write_text(before.replace(*change))
        assert path.read_text() != before

    def remove(self, release: str) -> None:
        shutil.rmtree(self.folder / release)

    def __call__(self, release: str, *words: str, **env: str) -> Said:
        """One command in the folder of a release."""
        told = run(("-m", "outlast", *words), cwd=self.folder / release, env=self.around | env)
        return Said(told.returncode, told.stdout.decode(), told.stderr.decode())

    def start(self, release: str, *words: str) -> "subprocess.Popen[str]":
        where = {"cwd": self.folder / release, "env": self.around}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return Started(("-m", "outlast", *words), text=True, **where, **pipes)

    def open(self) -> None:
        """From now on the gate lets runs pass."""
        (self.world / "open").touch()

    @property
    def charged(self) -> list[str]:
        file = self.world / "charged"
        return file.read_text().splitlines() if file.exists() else []

    def opened(self) -> Outlast:
        return Outlast(self.home)

    @property
    def runs(self) -> list[str]:
        with self.opened() as outlast:
            return [each.id for each in outlast.runs()]


def deploys(folder: Path) -> Iterator[Deploys]:
    """Made in an empty folder; every home of it is whole in the end."""
    made = Deploys(folder)
    yield made
    if made.home.exists():
        with made.opened() as outlast:
            assert outlast.verify().ok
