"""`outlast show` begins with what failed."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import outlast

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

FLOW = """
import os
from outlast import Run, flow, step

@step(retries=1, backoff=0)
def take(number: int) -> int:
    if number == 3:
        raise ValueError("three is no good")
    return number

@flow
def counted(run: Run) -> list[int]:
    done = [take(number) for number in range(3)]
    return [*done, *run.map(take, range(3, 90), concurrency=1)]
"""
COMMANDS = "flow: build\nsteps:\n- {id: first, run: 'true'}\n- {id: second, run: 'echo no; exit 3'}\n"

ITEMS = """\
flow: build
steps:
  - id: each
    foreach: {items: [a, b], steps: [{id: work, run: 'echo no $OUTLAST_ITEM; exit 3'}]}
"""


@pytest.fixture
def failed(cli: "Cli") -> str:
    (cli.folder / "failing.py").write_text(FLOW)
    assert cli("run", "failing.py").code == 1
    return cli("show", cli.run_id).out


def test_the_error_is_the_first_thing_then_where_it_came_from_then_the_steps(cli: "Cli", failed: str) -> None:
    lines = failed.splitlines()
    assert lines[0] == f"run {cli.run_id} failed"
    assert lines[1] == "error: ValueError: three is no good"
    assert lines[2] == "  Traceback (most recent call last):"
    places = [failed.index(word) for word in ("in counted", "in take", "failed, attempt 2", "started  ", "STEP ")]
    assert places == sorted(places)


def test_a_trace_has_no_line_of_ours(failed: str) -> None:
    assert str(Path(outlast.__file__).parent) not in failed
    assert " calls inside outlast]" in failed


def test_a_command_that_failed_is_named_with_the_command_that_shows_what_it_printed(cli: "Cli") -> None:
    (cli.folder / "build.yaml").write_text(COMMANDS)
    assert cli("run", "build.yaml").code == 1
    shown = cli("show", cli.run_id).out
    head = shown[: shown.index("task  ")]
    assert "step second failed" in head
    assert f"  its output: outlast logs {cli.run_id} second" in head


def test_what_a_failed_run_says_of_items_can_be_typed_as_it_stands(cli: "Cli") -> None:
    (cli.folder / "build.yaml").write_text(ITEMS)
    said = cli("run", "build.yaml").out
    assert "  each[a]/work exited with 3: no a\n  each[b]/work exited with 3: no b\n" in said
    typed = [shlex.split(line.partition("outlast ")[2]) for line in said.splitlines() if "its output: " in line]
    assert [cli(*words).out for words in typed] == ["no a\n", "no b\n"]


def test_a_run_that_went_well_begins_with_its_facts(cli: "Cli") -> None:
    assert cli("run", "flows.py:report", "topic=ai").code == 0
    assert cli("show", cli.run_id).out.startswith(f"run      {cli.run_id}\nstatus   succeeded\n")


BELOW = """
from outlast import Run, flow, step

@step
def pack(what: str) -> str:
    raise ValueError(f"no room for {what}")

@flow
def packing(run: Run, what: str) -> str:
    return pack(what)

@flow
def shipping(run: Run) -> str:
    return run.spawn(packing, "a piano").result()
"""


def test_a_child_run_that_failed_is_named_with_its_step_for_people_and_for_programs(cli: "Cli") -> None:
    (cli.folder / "shipping.py").write_text(BELOW)
    assert cli("run", "shipping.py:shipping").code == 1
    with cli.opened() as opened:
        child, run = sorted(opened.runs(), key=lambda run: not run.parent)
    said = f"that was in step pack of run {child.id} of shipping.py:packing, which it began: outlast show {child.id}"
    assert said in " ".join(cli("show", run.id).out.split())
    (below,) = cli("show", run.id, "--json").json["failed_below"]
    assert (below["run_id"], below["flow"], below["step"]) == (child.id, "shipping.py:packing", "pack")
    assert below["error"]["message"] == "no room for a piano"
    assert cli("show", child.id, "--json").json["failed_below"] == []


TRIES = """
from pathlib import Path
from outlast import Run, flow

class Busy(Exception): ...

@flow(retries=2, backoff=0.01, jitter=0)
def busy(run: Run) -> str:
    Path("tries").open("a").write(".")
    if len(Path("tries").read_text()) < 3:
        raise Busy("not yet")
    return "done"
"""


def test_a_flow_that_is_tried_again_by_itself_says_so(cli: "Cli") -> None:
    (cli.folder / "tries.py").write_text(TRIES)
    answer = cli("run", "tries.py:busy")
    said = [line.strip().rpartition(" in ")[0] for line in answer.err.splitlines() if " of 2 in " in line]
    told = "the flow failed: Busy: not yet; try {} of 2"
    assert (answer.code, said) == (0, [told.format(1), told.format(2)])
    with cli.opened() as home:
        run = home.runs()[0].id
        traces = [event.body["error"]["trace"] for event in home.events(run) if event.name == "run.retrying"]
    assert [trace.splitlines()[-1] for trace in traces] == ["Busy: not yet"] * 2  # by its own name
