"""Waits over deaths: each process of a story is killed between every two writes, and the story still ends the same.

A story is what several processes do one after the other: run until a wait, answer it, go on. Each of them is killed
at every point it reaches; then the same is done again, as its user would, and the rest of the story after it.
"""

import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, failpoints, flow_file
from outlast.clock import SystemClock
from outlast.errors import AlreadyAnswered, OutlastError, RunFinished
from outlast.testing.crashes import ChildEnd, Tell, in_child

from ..kit.ledgers import copy_folder, move_folder, remove_folder
from . import wait_flows
from .flows import shown

pytestmark = pytest.mark.crash

SAMPLE = 3  # points of each story, unless all are asked for
PATIENCE_SECONDS = 60.0
HOUR = 3600
Act = Callable[[Outlast, str], object]


class Later(SystemClock):
    """The machine's clocks, so many seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self._ahead = int(seconds * 1_000_000)

    def now(self) -> int:
        return super().now() + self._ahead


@dataclass(frozen=True)
class Part:
    """What one process of a story does, and by how much later."""

    act: Act
    later: float = 0


@dataclass(frozen=True)
class Story:
    """Its parts; what the run comes to; how many effects there are in the world then."""

    parts: tuple[Part, ...]
    result: Any
    effects: int = 1
    status: str = "succeeded"


# -- what processes do -------------------------------------------------------------------------------


def run(name: str) -> Act:
    """Start the run or go on with it; the same call after its end would start another."""

    def act(outlast: Outlast, world: str) -> None:
        if not any(run.finished for run in outlast.runs() if not run.parent):
            outlast.run(getattr(wait_flows, name), world, task="t")

    return act


def run_file(outlast: Outlast, world: str) -> None:
    file = Path(world).with_name("flow.yaml")
    file.write_text("flow: f\nsteps:\n  - {id: ok, pause_for: approval, deadline: 1h, default: {approved: false}}\n")
    outlast.run(flow_file(file), task="t")


def resume(outlast: Outlast, world: str) -> None:
    """Go on with the run, unless that is done."""
    top = next(run for run in outlast.runs() if not run.parent)
    with suppress(RunFinished):
        outlast.resume(top.id)


def answer(given: Any, **payload: Any) -> Act:
    """Answer the open question with that payload; one that was answered before is not answered again."""

    def act(outlast: Outlast, world: str) -> None:
        for wait in outlast.interrupts():
            if wait.type not in ("child", "signal", "timer") and payload.items() <= wait.payload.items():
                with suppress(AlreadyAnswered):
                    outlast.answer(wait.id, given, shown=wait.digest)

    return act


def cancel(outlast: Outlast, world: str) -> None:
    for wait in outlast.interrupts():
        outlast.cancel(wait.id, "not needed")


def signal(body: Any) -> Act:
    return lambda outlast, world: outlast.signal("news", body, task="t", operation_id=f"news {body}")


YES = {"approved": True}
STORIES = {
    "answered": Story((Part(run("approved")), Part(answer(YES)), Part(resume)), ["charged 3", YES]),
    "default": Story((Part(run("hurried")), Part(resume, 2 * HOUR)), ["charged 1", {"pick": "a"}]),
    "late answer": Story(
        (Part(run("hurried")), Part(answer({"pick": "b"}), 2 * HOUR), Part(resume)), ["charged 1", {"pick": "a"}]
    ),
    "deadline": Story((Part(run("patient")), Part(resume, 2 * HOUR)), ["charged 1", "deadline_passed"]),
    "cancelled": Story((Part(run("patient")), Part(cancel), Part(resume)), ["charged 1", "wait_cancelled"]),
    "signal after": Story(
        (Part(run("listening")), Part(signal("a")), Part(resume), Part(resume, 2 * HOUR)),
        ["charged 1", "a", "no more"],
    ),
    "signals before": Story((Part(signal("a")), Part(signal("b")), Part(run("listening"))), ["charged 1", "a", "b"]),
    "timer": Story((Part(run("sleeping")), Part(resume, 3 * HOUR)), "charged 1"),
    "child": Story((Part(run("outer")), Part(answer("x")), Part(resume)), ["outer", ["charged 1", "x"]]),
    "three branches": Story(
        (
            Part(run("three")),
            Part(answer("a", number=1)),
            Part(answer("b", number=2)),
            Part(resume),
            Part(answer("c", number=3)),
            Part(resume),
        ),
        [["charged 1", "a"], ["charged 2", "b"], ["charged 3", "c"]],
        effects=3,
    ),
    "declined by a deadline": Story((Part(run_file), Part(resume, 2 * HOUR)), None, effects=0, status="aborted"),
}


# -- telling a story ---------------------------------------------------------------------------------


@dataclass
class Telling:
    """A story, told over and over in folders of its own."""

    folder: Path
    story: Story
    points: list[tuple[int, str]] = field(default_factory=list)  # number of the part, `name:n`

    def undisturbed(self) -> None:
        """Once without a death: every point that its processes reach, and the state before each of them."""
        place = self.folder / "undisturbed"
        place.mkdir()
        for number, part in enumerate(self.story.parts):
            copy_folder(place, self.folder / f"before {number}")
            log = self.folder / f"points {number}"
            log.touch()
            self._live(place, part, failpoints.log_to(str(log)))
            seen: Counter[str] = Counter()
            for name in log.read_text().split():
                seen[name] += 1
                self.points.append((number, f"{name}:{seen[name]}"))
        self._judge(place, "undisturbed")

    def killed_at(self, number: int, point: str) -> bool:
        """Part `number` dies at that point, is done again, and the story goes on. False where threads raced past it."""
        place = self.folder / "killed"
        remove_folder(place)
        copy_folder(self.folder / f"before {number}", place)
        name, _, nth = point.partition(":")
        ended = self._live(place, self.story.parts[number], failpoints.kill_at(name, int(nth)))
        for part in self.story.parts[number:]:
            self._live(place, part, None)
        self._judge(place, f"part {number} killed at {point}")
        return ended.killed

    def _live(self, place: Path, part: Part, hook: Callable[[str], None] | None) -> ChildEnd:
        """One process's part. The folder has the same path in every telling: it is an input of the flow."""
        stage = self.folder / "stage"
        move_folder(place, stage)
        try:
            ended = in_child(lambda tell: self._act(stage, part, hook, tell), PATIENCE_SECONDS)
        finally:
            move_folder(stage, place)
        assert not ended.told("error"), "\n".join(ended.told("error"))
        return ended

    @staticmethod
    def _act(stage: Path, part: Part, hook: Callable[[str], None] | None, tell: Tell) -> None:
        failpoints.arm(hook)
        home = stage / ".outlast"
        with Outlast(home, clock=Later(part.later), store_options={"synchronous": "OFF"}) as outlast:
            part.act(outlast, str(stage / "world"))

    def _judge(self, place: Path, where: str) -> None:
        """The run ended as it should, each effect happened once, nobody waits, and every record is sound."""
        with Outlast(place / ".outlast") as outlast:
            (top,) = (run for run in outlast.runs() if not run.parent)
            lines = shown(str(place / "world"))
            assert (top.status, top.result) == (self.story.status, self.story.result), where
            assert len(lines) == len(set(lines)) == self.story.effects, where
            assert outlast.interrupts() == [], where
            assert all(run.finished for run in outlast.runs()), where
            assert outlast.verify().ok, where


@pytest.mark.parametrize("name", STORIES)
def test_a_story_with_a_death_anywhere_ends_as_without_one(name: str, tmp_path: Path, crash_long: bool) -> None:
    telling = Telling(tmp_path, STORIES[name])
    telling.undisturbed()
    points = telling.points
    assert len(points) > len(telling.story.parts)
    chosen = points if crash_long else random.Random(name).sample(points, min(SAMPLE, len(points)))
    kills = sum(telling.killed_at(number, point) for number, point in chosen)
    assert kills >= len(chosen) // 2 > 0


# -- many at once ------------------------------------------------------------------------------------

PROCESSES = 32


def _race(home: str, run_id: str, wait: str, number: int, start: Any, said: Any) -> None:
    """Answer when all are ready, then try to go on with the run."""
    failpoints.arm(None)
    with Outlast(home) as outlast:
        start.wait(PATIENCE_SECONDS)
        try:
            outlast.answer(wait, {"approved": True, "comment": str(number)})
            won = "won"
        except AlreadyAnswered:
            won = "conflict"
        try:
            went = outlast.resume(run_id).status
        except OutlastError as error:
            went = error.code
        said.put((number, won, went))


def test_of_32_processes_that_answer_one_wins_and_the_run_goes_on_once(tmp_path: Path) -> None:
    home, world = tmp_path / ".outlast", tmp_path / "world"
    with Outlast(home) as outlast:
        outcome = outlast.run(wait_flows.approved, str(world))
        (wait,) = outcome.interrupts
    context = multiprocessing.get_context("fork")
    start, said = context.Barrier(PROCESSES), context.Queue()
    given = (str(home), outcome.run_id, wait.id)
    racers = [context.Process(target=_race, args=(*given, number, start, said)) for number in range(PROCESSES)]
    for racer in racers:
        racer.start()
    heard = [said.get(timeout=PATIENCE_SECONDS) for _ in racers]
    for racer in racers:
        racer.join(PATIENCE_SECONDS)
    assert Counter(won for _, won, _ in heard) == {"won": 1, "conflict": PROCESSES - 1}
    assert Counter(went for _, _, went in heard)["succeeded"] == 1
    assert {went for _, _, went in heard} <= {"succeeded", "run_held", "run_finished"}
    (winner,) = [number for number, won, _ in heard if won == "won"]
    with Outlast(home) as outlast:
        assert outlast.get(outcome.run_id).result == ["charged 3", {"approved": True, "comment": str(winner)}]
    assert len(shown(str(world))) == 1
