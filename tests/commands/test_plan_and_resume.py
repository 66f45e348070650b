"""The plan and the resume are one: whatever a flow is, however it stopped and whatever was changed since.

A flow is made up, stops at one of its steps, something is changed, the plan is asked for, and the run is resumed. What
the plan said of each step is what then happened: which ran, which did not, who is asked about what, with which verdict
and reasons; or the code with which the resume was refused. And a plan changes nothing.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from outlast import Outcome, Plan
from outlast.errors import OutlastError

from ..crash.command_folder import Folder
from ..kit.commands import wait_until

QUICK = settings(
    max_examples=(settings.default or settings()).max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SAY = "echo $OUTLAST_STEP >> diary"
STOPS = {"fails": "exit 1", "crashes": "kill -9 $RUNTIME; sleep 9", "interrupts": "kill -INT $RUNTIME"}


@dataclass(frozen=True)
class Step:
    """A step of a made-up flow."""

    id: str
    kind: str = "step"  # step, effect, probed
    reads: bool = False
    writes: str = ""  # keep, restore, ask
    resume_to: str = ""
    note: str = ""  # changes its code

    def text(self, stop: str = "") -> str:
        half = f"echo half >> {self.id}.out; " if self.writes else ""
        halt = f"test -e go || {{ {stop}; }}; " if stop else ""
        keys = [f"id: {self.id}", f"run: '{SAY}; {half}{halt}true {self.note}'"]
        keys += ["effect: true"] if self.kind != "step" else []
        keys += ["confirm: test -e happened"] if self.kind == "probed" else []
        keys += [f"reads: {self.id}.in"] if self.reads else []
        keys += [f"writes: {self.id}.out", f"on_partial: {self.writes}"] if self.writes else []
        keys += [f"resume_to: {self.resume_to}"] if self.resume_to else []
        return f"- {{{', '.join(keys)}}}"


@dataclass(frozen=True)
class Story:
    """A flow, at which of its steps it stops and how, and what is changed before the resume."""

    steps: tuple[Step, ...]
    at: int
    how: str
    changes: tuple[tuple[str, int], ...]

    def text(self, steps: tuple[Step, ...]) -> str:
        stops = self.steps[self.at].id
        return "\n".join(step.text(STOPS[self.how] if step.id == stops else "") for step in steps)


CHANGES = ("input", "output", "rename", "edit", "remove", "add", "swap", "retry", "skip", "rewind")
REFUSING = ("no file", "no flow")


@st.composite
def stories(draw: st.DrawFn) -> Story:
    count = draw(st.integers(2, 4))
    steps = []
    for number in range(count):
        kind = draw(st.sampled_from(("step", "step", "step", "effect", "probed")))
        writes = draw(st.sampled_from(("", "keep", "restore", "ask"))) if kind == "step" else ""
        back = draw(st.sampled_from(("", *(f"s{each}" for each in range(number))))) if kind == "step" else ""
        steps.append(Step(f"s{number}", kind, draw(st.sampled_from((True, False, True))), writes, back))
    places = st.integers(0, count - 1)
    change = st.tuples(st.sampled_from((*CHANGES, *CHANGES, *CHANGES, *REFUSING)), places)
    changes = draw(st.lists(change, min_size=1, max_size=2))
    return Story(tuple(steps), count - 1 - draw(places), draw(st.sampled_from(("fails", *STOPS))), tuple(changes))


class Stage:
    """A story as it is played."""

    def __init__(self, folder: Folder, story: Story) -> None:
        self.folder, self.story, self.steps = folder, story, story.steps
        self.gone = False

    def stop(self) -> None:
        """Run the flow until it stops."""
        for step in self.steps:
            self.folder.write(f"{step.id}.in", "one")
        self.write_flow()
        if self.story.how == "fails":
            self.folder.run()
            return
        self.folder.cli("run", "flow.yaml")
        if self.story.how == "crashes":
            work = self.folder.path / ".outlast" / "default" / "work"
            wait_until(lambda: any(work.glob("*/*/ended")), "the guard's word that what a crash left has ended")

    def write_flow(self) -> None:
        if not self.gone:
            self.folder.flow(self.story.text(self.steps))

    def change(self, what: str, at: int) -> None:
        folder, step = self.folder, self.steps[min(at, len(self.steps) - 1)]
        rest = tuple(each for each in self.steps if each is not step)
        match what:
            case "input":
                folder.write(f"{step.id}.in", "two")
            case "output":
                folder.write(f"{step.id}.out", "mine\n")
            case "rename":
                new = f"{step.id}new"
                self.steps = tuple(replace(each, id=new) if each is step else each for each in self.steps)
                self.steps = tuple(replace(e, resume_to=new) if e.resume_to == step.id else e for e in self.steps)
                folder.write(f"{new}.in", "one")
            case "edit":
                self.steps = tuple(replace(each, note="edited") if each is step else each for each in self.steps)
            case "remove" if rest:
                self.steps = tuple(replace(e, resume_to="") if e.resume_to == step.id else e for e in rest)
            case "add":
                self.steps = (*self.steps, Step(f"added{len(self.steps)}"))
            case "swap":
                self.steps = tuple(replace(each, resume_to="") for each in reversed(self.steps))
            case "no file":
                (folder.path / "flow.yaml").unlink(missing_ok=True)
                self.gone = True
            case "no flow":
                folder.write("flow.yaml", "steps: nothing")
                self.gone = True
            case _:
                self.decide(what, step)
        self.write_flow()

    def decide(self, what: str, step: Step) -> None:
        """What a person may say at any time; what is refused changes nothing."""
        outlast, run_id = self.folder.outlast, self.folder.run_id
        try:
            match what:
                case "retry":
                    outlast.retry(run_id, step.id)
                case "skip":
                    outlast.skip(run_id, step.id, result=None, why="not needed")
                case "rewind":
                    outlast.rewind(run_id, step.id, why="once more")
        except OutlastError as error:
            event(f"refused: {what} {error.code}")

    # -- comparing -------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan. It changes nothing: neither in the home nor beside it."""
        before = self.everything()
        plan = self.folder.outlast.plan(self.folder.run_id)
        assert self.folder.outlast.plan(self.folder.run_id) == plan
        assert self.everything() == before
        return plan

    def everything(self) -> dict[str, bytes]:
        """Every file; of the store what its records say, since reading it makes files of its own."""
        self.folder.outlast  # noqa: B018  # opening it may write
        found = {str(file): file.read_bytes() for file in self.folder.path.rglob("*") if file.is_file()}
        records = {"records": repr(self.records()).encode()}
        return {name: held for name, held in found.items() if not re.search(r"outlast\.db|\.shm|\.wal", name)} | records

    def records(self) -> list[Any]:
        outlast, run_id = self.folder.outlast, self.folder.run_id
        return [outlast.get(run_id), outlast.events(run_id), outlast.receipts(run_id), outlast.interrupts(run_id)]

    def resume(self) -> Outcome[Any] | str:
        """How it ended; of one that was refused the code."""
        self.folder.write("go", "")
        try:
            return self.folder.resume()
        except OutlastError as error:
            return error.code


@contextmanager
def staged(story: Story) -> Iterator[Stage]:
    place = Path(tempfile.mkdtemp(prefix="plans-"))
    folder = Folder(place / "work")
    try:
        yield Stage(folder, story)
    finally:
        folder.end()
        shutil.rmtree(place)


def compare(stage: Stage, plan: Plan, outcome: Outcome[Any] | str, ran: list[str]) -> None:
    """What was planned is what happened."""
    if plan.refused is not None or isinstance(outcome, str):
        event(f"refused: {outcome}")
        assert (plan.refused.code if plan.refused else "", ran) == (outcome, [])
        return
    assert outcome.verdict == plan.verdict
    by_step = {step.label: step for step in plan.steps}
    probed = [] if (stage.folder.path / "happened").exists() else [by_step[label].step for label in plan.of("confirm")]
    runs = [by_step[label].step for label in (*plan.of("retry"), *plan.of("redo"))]
    assert sorted(ran) == sorted([*runs, *probed, *plan.ahead])
    asked = {by_step[label].step for label in plan.of("decide")}
    later = {by_step[label].step for label in plan.of("later")}  # it may have been asked about before
    assert asked <= {wait.step.partition("~")[0] for wait in outcome.interrupts} <= asked | later
    assert outcome.status == ("waiting" if asked else "succeeded")
    for action in {step.action for step in plan.steps}:
        event(f"planned: {action}")


@pytest.mark.timeout(900)  # with --crash-long
@QUICK
@given(stories(), st.booleans())
def test_what_a_plan_says_of_a_flow_file_is_what_the_resume_does(story: Story, happened: bool) -> None:
    with staged(story) as stage:
        stage.stop()
        folder = stage.folder
        if folder.outlast.get(folder.run_id).finished:
            return  # the signal came with its last step
        for change in story.changes:
            stage.change(*change)
        if happened:
            folder.write("happened", "")
        plan, before = stage.plan(), len(folder.lines())
        outcome = stage.resume()
        compare(stage, plan, outcome, folder.lines()[before:])
