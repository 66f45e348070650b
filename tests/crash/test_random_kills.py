"""kill -9 at random moments, with 1, 8 and 64 runs at work at once: what was acknowledged is never lost or redone.

CI kills a dozen times; `--crash-long` more than two hundred times, and leaves the figures in build/.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import crashes

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1200)]

WORKER = Path(__file__).with_name("worker.py")
FIGURES = Path(__file__).parents[2] / "build" / "crash-figures"
STEPS = {1: 300, 8: 60, 64: 15}  # of each run: a second or two of work in all
KILL_WITHIN_SECONDS = {1: 0.3, 8: 0.3, 64: 0.4}
SHORT, LONG = 2, 36  # kills for each of the six modes


@dataclass(slots=True)
class Figures:
    """What was tried, and what went wrong."""

    mode: str
    at_once: int
    kills: int = 0
    before_ready: int = 0  # of the kills, those that hit a process while it was opening the home
    repeated: int = 0  # calls that were made again after all had ended
    runs: int = 0
    steps: int = 0
    effects: int = 0
    asked: int = 0  # times a step was killed so often that a person was asked
    lost: int = 0
    recomputed: int = 0
    effects_twice: int = 0
    seconds: float = 0.0
    wrongs: list[str] = field(default_factory=list)


def start(home: Path, log: Path, mode: str, runs: int, how: str = "repeat") -> "subprocess.Popen[str]":
    command = [sys.executable, str(WORKER), str(home), str(log), mode, str(runs), str(STEPS[runs]), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lived_through(worker: "subprocess.Popen[str]", dice: random.Random, figures: Figures) -> bool:
    """Kill the worker at a random moment: sometimes as it starts, mostly as it works. True if it got done first."""
    assert worker.stdout is not None
    starting = dice.random() < 0.1
    if not starting:
        assert worker.stdout.readline() == "ready\n"
    try:
        worker.wait(dice.uniform(0.0, KILL_WITHIN_SECONDS[figures.at_once]))
    except subprocess.TimeoutExpired:
        worker.kill()
        figures.kills += 1
        figures.before_ready += starting
    said = worker.stdout.read()
    assert worker.wait() in (0, -9)
    return said.endswith("done\n")


def campaign(folder: Path, dice: random.Random, figures: Figures, kills: int) -> None:
    """One home: kill its worker until all runs are done or there were kills enough; then let it end.

    Who comes after a kill repeats the calls, as a supervisor does, or resumes the runs. After the end every call is
    repeated twice more, and killed once: that does nothing.
    """
    home, log = folder / "home", folder / "log"
    done = False
    while not done and figures.kills < kills:
        how = dice.choice(["repeat", "resume"])
        done = lived_through(start(home, log, figures.mode, figures.at_once, how), dice, figures)
    while not done:
        done = let_end(start(home, log, figures.mode, figures.at_once))
    lived_through(start(home, log, figures.mode, figures.at_once), dice, figures)
    assert let_end(start(home, log, figures.mode, figures.at_once))
    figures.repeated += figures.at_once
    judge(home, log.read_text().splitlines(), figures)


def let_end(worker: "subprocess.Popen[str]") -> bool:
    said, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0
    return said.endswith("done\n")


def judge(home: Path, lines: list[str], figures: Figures) -> None:
    """Compare what the log saw happen with what the ledger says."""
    acknowledged: dict[str, str] = {}
    effects: Counter[str] = Counter()
    for line in lines:
        word, place, *token = line.split()
        if word == "ack":
            figures.recomputed += acknowledged.setdefault(place, token[0]) != token[0]
        elif word == "ran":
            figures.recomputed += place in acknowledged
        elif word == "effect":
            effects[token[0]] += 1
        else:
            figures.asked += 1
    with Outlast(home) as outlast:
        runs = outlast.runs(limit=1000)
        kept = {
            f"{run.inputs['lane']}/{number}": receipt.result
            for run in runs
            for number, receipt in enumerate(r for r in outlast.receipts(run.id) if r.delivered)
        }
        figures.wrongs += list(crashes.wrongs(outlast))
        figures.wrongs += [f"{run.id} is {run.status}" for run in runs if run.status != "succeeded"]
    figures.runs += len(runs)
    figures.steps += len(kept)
    figures.effects += len(effects)
    figures.lost += sum(kept.get(place) != token for place, token in acknowledged.items())
    figures.effects_twice += sum(times > 1 for times in effects.values())
    assert len(runs) == figures.at_once
    assert len(kept) == len(acknowledged) == figures.at_once * STEPS[figures.at_once]


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
@pytest.mark.parametrize("at_once", [1, 8, 64])
def test_nothing_acknowledged_is_lost_or_done_again_by_kill_9(
    mode: str, at_once: int, tmp_path: Path, crash_long: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, began = Figures(mode, at_once), time.monotonic()
    dice = random.Random(f"{mode} {at_once}")
    kills = LONG if crash_long else SHORT
    while figures.kills < kills:
        folder = tmp_path / str(figures.runs)
        folder.mkdir()
        campaign(folder, dice, figures, kills)
    figures.seconds = round(time.monotonic() - began, 1)
    if crash_long:
        report(figures, capsys)
    assert (figures.lost, figures.recomputed, figures.effects_twice, figures.wrongs) == (0, 0, 0, [])


def report(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{figures.mode}-{figures.at_once}.json").write_text(json.dumps(asdict(figures)) + "\n")
    with capsys.disabled():
        print(f"\n{figures}")
