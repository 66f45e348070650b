"""A step in which its process dies again and again is asked about; one that only shared the deaths is not."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .stopping import Work, wait_until

ASKED = 4  # the exit code while a person is to decide
KILLS = 4  # one more than a step is let die alone


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    made.close()


def attempts(work: Work) -> Counter[str]:
    """How many attempts of each step are on disk, of all runs."""
    with work.opened() as outlast:
        return Counter(receipt.step for run in outlast.runs() for receipt in outlast.receipts(run.id))


def kill(work: Work, process: subprocess.Popen[bytes], *steps: str, number: int = 1) -> None:
    """Kill it once these steps are under way, and known to be: their attempt `number` is on disk."""
    wait_until(lambda: {*steps} <= {*work.diary}, f"{steps}")
    wait_until(lambda: all(attempts(work)[step] >= number for step in steps), f"attempt {number} of {steps} on disk")
    process.kill()
    process.wait()
    (work.folder / "diary").unlink(missing_ok=True)


def asked(work: Work) -> list[tuple[str, str]]:
    with work.opened() as outlast:
        return [(wait.type, wait.step) for wait in outlast.interrupts() if wait.type == "crash_loop"]


def test_a_step_that_was_alone_in_three_deaths_is_asked_about(work: Work) -> None:
    for number in range(1, 4):
        kill(work, work.command("run", "two.yaml"), "one", number=number)
    assert work.code(work.command("run", "two.yaml")) == ASKED
    assert asked(work) == [("crash_loop", "one")]
    assert "the process died 3 times in step one" in work.out


def test_branches_that_shared_the_deaths_are_not(work: Work) -> None:
    for number in range(1, KILLS + 1):
        kill(work, work.command("run", "beside.yaml"), "left", "right", number=number)
    process = work.command("run", "beside.yaml")
    work.go()
    assert (work.code(process), asked(work), work.stands()[0]) == (0, [], "succeeded")


def test_runs_of_one_process_that_shared_the_deaths_are_not(work: Work) -> None:
    for number in range(1, KILLS + 1):
        process = work.script("several", "two.yaml")
        wait_until(lambda: work.diary.count("one") == 2, "both")
        kill(work, process, "one", number=2 * number)
    process = work.script("several", "two.yaml")
    work.go()
    assert (work.code(process), work.out.split(), asked(work)) == (0, ["succeeded", "succeeded"], [])


def test_the_step_of_a_child_is_alone_though_its_parent_dies_with_it(work: Work) -> None:
    for number in range(1, 4):
        kill(work, work.command("run", "flows.py:above"), "one", number=number)
    assert work.code(work.command("run", "flows.py:above")) == 3  # the parent waits for its child
    assert asked(work) == [("crash_loop", "one")]


@pytest.mark.parametrize(("kind", "step"), [("fragile.yaml", "one"), ("flows.py:fragile_flow", "fragile")])
def test_the_limit_is_the_steps_own(work: Work, kind: str, step: str) -> None:
    kill(work, work.command("run", kind), step)
    with work.opened() as outlast:
        assert outlast.plan(outlast.runs()[0].id).of("decide") == (step,)  # who only looks knows it too
    assert work.code(work.command("run", kind)) == ASKED
    assert asked(work) == [("crash_loop", step)]
