"""The plan of a Python flow and the resume that follows it, made up: each runs in a process that has loaded nothing.

Which calls a body makes is known only when it runs. So where the plan says that the body was edited, a step with a
receipt may be run with other inputs; where it does not say so, what it says of each step is what happens.
"""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from outlast import Outlast, Plan
from outlast.errors import OutlastError

HEAD = """
import os, signal
from outlast import NOT_DONE, Happened, Run, effect, flow, inject, resource, step

HERE = os.path.dirname(os.path.abspath(__file__))

def at(file):
    return os.path.exists(os.path.join(HERE, file))

def say(what):
    with open(os.path.join(HERE, "diary"), "a") as diary:
        diary.write(what + "\\n")

def stop(how):
    if not at("go") and how == "fails":
        raise ValueError("not yet")
    if not at("go") and how == "crashes":
        os.kill(os.getpid(), signal.SIGKILL)
    if not at("go") and how == "interrupts":
        raise KeyboardInterrupt

def probe():
    return Happened(1) if at("happened") else NOT_DONE
"""
PROVIDED = '\n@resource("tool")\ndef tool():\n    return "a tool"\n'
MARKS = {"step": "@step", "effect": "@effect", "probed": "@effect(confirm=probe)"}
MADE_UP = settings(max_examples=max(12, (settings.default or settings()).max_examples // 3))


@dataclass(frozen=True)
class Story:
    """Kinds of steps, the one at which the flow stops and how, which ones need a resource, and what is changed."""

    kinds: tuple[str, ...]
    needy: frozenset[int]
    at: int
    how: str
    changes: tuple[tuple[str, int], ...]
    happened: bool

    def text(self) -> str:
        """The module, with the changes made."""
        names = [f"s{number}" for number in range(len(self.kinds))]
        args, notes = ["1"] * len(names), ["0"] * len(names)
        provided = PROVIDED
        for what, at in self.changes:
            match what:
                case "input":
                    args[at] = "2"
                case "code":
                    notes[at] = "1"
                case "rename":
                    names[at] = f"new{at}"
                case "no resource":
                    provided = ""
        steps = [self._step(number, name, notes[number]) for number, name in enumerate(names)]
        calls = "".join(f"    {name}({arg})\n" for name, arg in zip(names, args, strict=True))
        return f"{HEAD}{provided}{''.join(steps)}\n@flow\ndef made(run: Run) -> None:\n{calls}"

    def _step(self, number: int, name: str, note: str) -> str:
        tool = ', *, tool=inject("tool")' if number in self.needy else ""
        halt = f"    stop({self.how!r})\n" if number == self.at else ""
        body = f"    say({name!r})\n{halt}    return {note}\n"
        return f"\n{MARKS[self.kinds[number]]}\ndef {name}(what: int{tool}) -> int:\n{body}"


@st.composite
def stories(draw: st.DrawFn) -> Story:
    count = draw(st.integers(1, 4))
    places = st.integers(0, count - 1)
    kinds = draw(st.lists(st.sampled_from(("step", "step", *MARKS)), min_size=count, max_size=count))
    what = st.sampled_from(("input", "code", "rename", "no resource", "retry", "skip", "rewind", "no file", "no code"))
    return Story(
        tuple(kinds),
        frozenset(draw(st.sets(places, max_size=2))),
        draw(places),
        draw(st.sampled_from(("fails", "crashes", "interrupts"))),
        tuple(draw(st.lists(st.tuples(what, places), max_size=2))),
        draw(st.booleans()),
    )


class Stage:
    """A folder with one flow, over many processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "made.py"

    def open(self) -> Outlast:
        return Outlast(self.folder / ".outlast", store_options={"synchronous": "OFF"})

    def apart(self, work: Callable[[Outlast], Any]) -> Any:
        """What `work` gives in a process of its own; nothing when that dies."""
        said = self.folder / "said.json"
        said.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.chdir(self.folder)
                with self.open() as outlast:
                    said.write_text(json.dumps(work(outlast)))
            except BaseException as error:
                said.write_text(json.dumps({"error": repr(error)}))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return json.loads(said.read_text()) if said.exists() else None

    def lines(self) -> list[str]:
        diary = self.folder / "diary"
        return diary.read_text().splitlines() if diary.exists() else []


def started(outlast: Outlast) -> str:
    from outlast.flows.loading import load

    try:
        return str(outlast.run(load("made.py:made", Path.cwd())).run_id)
    except KeyboardInterrupt:
        return ""


def resumed(outlast: Outlast) -> dict[str, Any]:
    (run,) = outlast.runs()
    try:
        outcome = outlast.resume(run.id)
    except OutlastError as error:
        return {"refused": error.code}
    assert outcome.verdict is not None
    reasons = [reason.to_dict() for reason in outcome.verdict.reasons]
    waits = [wait.step for wait in outcome.interrupts]
    return {"refused": "", "status": outcome.status, "verdict": [outcome.verdict.word, reasons], "waits": waits}


def change(stage: Stage, outlast: Outlast, run_id: str, what: str, step: str) -> None:
    """What is not in the module's text: decisions, and a file that is gone or no Python."""
    try:
        match what:
            case "retry":
                outlast.retry(run_id, step)
            case "skip":
                outlast.skip(run_id, step, result=0, why="not needed")
            case "rewind":
                outlast.rewind(run_id, step, why="once more")
            case "no file":
                stage.file.unlink(missing_ok=True)
            case "no code":
                stage.file.write_text("def made(:\n")
    except OutlastError as error:
        event(f"refused: {what} {error.code}")


def compare(plan: Plan, came: dict[str, Any], ran: list[str]) -> None:
    """What was planned is what happened."""
    event(f"refused: {came['refused']}")
    assert (plan.refused.code if plan.refused else "") == came["refused"]
    if came["refused"]:
        assert ran == []
        return
    assert came["verdict"] == [plan.verdict.word, [reason.to_dict() for reason in plan.verdict.reasons]]
    is_edited = "made" in plan.code_changed
    asked = set(plan.of("decide"))
    if not is_edited:
        assert not {*plan.of("reuse"), *plan.of("raise_again"), *asked} & set(ran)
        assert asked <= set(came["waits"])
    if not is_edited and not asked:
        assert set(plan.of("retry")) <= set(ran)
        assert came["status"] == "succeeded"
    for step in plan.steps:
        event(f"planned: {step.action}{' (edited)' if is_edited else ''}")


@pytest.mark.timeout(900)  # with --crash-long
@settings(MADE_UP, suppress_health_check=[HealthCheck.too_slow])
@given(stories())
def test_what_a_plan_says_of_a_python_flow_is_what_the_resume_does(story: Story) -> None:
    stage = Stage(Path(tempfile.mkdtemp(prefix="plans-")))
    try:
        stage.file.write_text(Story(story.kinds, story.needy, story.at, story.how, (), False).text())
        stage.apart(started)
        stage.file.write_text(story.text())
        with stage.open() as outlast:
            (run,) = outlast.runs()
            if run.finished:
                return
            for what, at in story.changes:
                change(stage, outlast, run.id, what, f"s{at}")
            for name in ("go", *(["happened"] if story.happened else [])):
                (stage.folder / name).touch()
            before = (stage.lines(), outlast.events(run.id))
            plan = outlast.plan(run.id)
            assert (stage.lines(), outlast.events(run.id)) == before
        came = stage.apart(resumed)
        compare(plan, came, stage.lines()[len(before[0]) :])
    finally:
        shutil.rmtree(stage.folder)
