"""The proof itself must be able to fail: flows that break a promise are found out, and told why."""

import random
from pathlib import Path

import pytest

from outlast import NOT_DONE, AsyncOutlast, Happened, Run, current, effect, flow, inject, step
from outlast.testing import Point, crash_everywhere
from outlast.testing.cases import ScriptedOutlast

from . import flows

pytestmark = pytest.mark.crash


@step
def roll() -> float:
    return random.random()


@flow
def gambles(run: Run) -> float:
    return roll()


def test_another_result_than_undisturbed_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"gambles, killed at commit\.begin:1: it gave 0\.\d+, undisturbed 0\."):
        crash_everywhere(gambles, home=tmp_path)


def test_an_effect_that_nobody_can_settle_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"effect post was killed .* give it a probe, @effect\(confirm=…\)"):
        crash_everywhere(flows.unprobed, str(tmp_path / "world"), home=tmp_path)


def lies(world: str, key: str) -> object:
    return NOT_DONE


@effect(confirm=lies)
def trusts_a_liar(world: str) -> None:
    flows.show(world, "done")


@flow
def trusting(run: Run, world: str) -> None:
    trusts_a_liar(world)


def test_a_probe_that_lies_is_found_out_by_looking_at_the_world(tmp_path: Path) -> None:
    world = tmp_path / "world"

    def check(result: object) -> None:
        assert flows.shown(str(world)) == ["done"]

    with pytest.raises(AssertionError, match="done"):
        crash_everywhere(trusting, str(world), check=check, reset=lambda: world.write_text(""), home=tmp_path)


@effect
def changes_its_mind(number: int) -> int:
    return number


@flow
def unsteady(run: Run, world: str) -> None:
    flows.show(world, "body")
    changes_its_mind(len(flows.shown(world)))


def test_a_body_that_is_not_the_same_each_time_is_found_out(tmp_path: Path) -> None:
    world = tmp_path / "world"
    with pytest.raises(AssertionError, match=r"changes_its_mind~2 was done before .* not the same each time"):
        crash_everywhere(unsteady, str(world), reset=lambda: world.write_text(""), home=tmp_path)


def test_a_flow_that_fails_undisturbed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ValueError: not 1"):
        crash_everywhere(fails, home=tmp_path)


@flow
def fails(run: Run) -> None:
    flows.refuses(1)


@step
def ask(*, oracle: dict[str, int] = inject("oracle")) -> int:
    return oracle["answer"]


@flow
def asks(run: Run) -> int:
    return ask()


def test_the_report_says_what_was_tried(tmp_path: Path) -> None:
    report = crash_everywhere(asks, home=tmp_path, resources={"oracle": lambda: {"answer": 42}}, limit=4)
    assert report.result == 42
    assert report.points[0] == Point("commit.begin", 1)
    assert len(report.points) > report.kills == report.resumes == 4
    assert list(tmp_path.iterdir()) == []


# -- the fixture -------------------------------------------------------------------------------------


def test_the_fixture_lets_time_pass(outlast: ScriptedOutlast) -> None:
    assert outlast.run(flows.sleeps).status == "waiting"
    outlast.clock.advance(3599)
    assert outlast.run(flows.sleeps).status == "waiting"
    outlast.clock.advance(3601)
    assert outlast.run(flows.sleeps).unwrap() == 4


@effect
def half_done(name: str) -> str:
    if current().attempt == 1:
        raise OSError("the line went dead")
    return f"{name} at last"


@flow
def asks_twice(run: Run) -> list[str]:
    return [half_done("left"), half_done("right")]


def test_the_fixture_answers_waits_from_a_script(outlast: ScriptedOutlast) -> None:
    outlast.script({"half_done": [Happened("found it"), NOT_DONE]})
    assert outlast.run(asks_twice).unwrap() == ["found it", "right at last"]


def test_a_wait_that_is_not_in_the_script_stays_open(outlast: ScriptedOutlast) -> None:
    outlast.script({"another": "retry"})
    outcome = outlast.run(asks_twice)
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]


async def look(home: Path) -> int:
    async with AsyncOutlast(home) as outlast:
        return len(await outlast.runs())


def test_the_fixture_s_home_is_a_home_like_any_other(outlast: ScriptedOutlast) -> None:
    import asyncio

    outlast.run(flows.plain, 1)
    assert asyncio.run(look(outlast.home)) == 1
    assert outlast.verify().ok
