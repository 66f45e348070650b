"""`outlast resume --take --why`, and `resume` where everything is held."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


def test_a_run_that_somebody_holds_is_taken_with_a_reason_and_its_owner_can_write_nothing(cli: "Cli") -> None:
    owner = cli.start_until("draft", "run", "flows.py:report", "topic=ai", UNTIL="go")
    run_id = cli.run_id
    held = cli("resume", run_id)
    assert (held.code, f"outlast resume {run_id} --take --why WHY" in held.err) == (4, True)
    taken = cli("resume", run_id, "--take", "--why", "it hangs")
    assert (taken.code, "succeeded" in taken.out) == (0, True), taken
    (cli.folder / "go").touch()
    told = cli.stop(owner)
    assert (told.code != 0, cli.diary.count("publish")) == (True, 1)
    with cli.opened() as outlast:
        (event,) = [event for event in outlast.events(run_id) if event.name == "run.taken"]
        assert (event.body["why"], "pid" in event.body["from"]) == ("it hangs", True)


@pytest.mark.parametrize("words", [("--take",), ("--take", "--why", " "), ("--take", "--why", "x", "--dry-run")])
def test_to_take_needs_a_run_and_a_reason(cli: "Cli", words: tuple[str, ...]) -> None:
    run_id = cli.here("flows.py:crasher", env={"DIE": "1"})
    assert cli("resume", run_id, *words).code == 2
    assert cli("resume", "--take", "--why", "x").code == 2
    assert cli("resume", run_id).code == 0


def test_where_nothing_can_be_resumed_the_held_run_is_named_with_its_holder(cli: "Cli") -> None:
    owner = cli.start_until("draft", "run", "flows.py:report", "topic=ai", UNTIL="go")
    run_id = cli.run_id
    answer = cli("resume")
    assert answer.code == 2
    assert f"pid {owner.pid} on " in answer.err
    assert f"has run {run_id} since " in answer.err
    assert f"outlast resume {run_id} --take --why WHY" in answer.err
    told = cli("resume", "--json").json
    assert (told["error"]["code"], [run["id"] for run in told["runs"]]) == ("choose_one", [run_id])
    assert f"pid {owner.pid} on " in told["error"]["advice"]
    (cli.folder / "go").touch()
    assert cli.stop(owner).code == 0
    assert "no run of this home can be resumed" in cli("resume").err
