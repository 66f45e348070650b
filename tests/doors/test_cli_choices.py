"""Decisions that go on at once, going back to a step, and steps by their names."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

InDoubt = Callable[[], str]
OUTCOME = {"run_id", "status", "result", "interrupts", "error", "verdict", "replayed_steps", "unasked", "replayed"}
OUTCOME |= {"notes", "redelivered", "holder", "stopped_by"}


def test_retry_with_resume_goes_on_at_once(cli: "Cli", in_doubt: InDoubt) -> None:
    answer = cli("retry", in_doubt(), "publish", "--resume", "--json")
    assert (answer.code, set(answer.json)) == (0, OUTCOME)
    assert answer.json["result"] == {"link": "published ai AI"}


def test_skip_with_resume_goes_on_at_once(cli: "Cli", in_doubt: InDoubt) -> None:
    answer = cli("skip", in_doubt(), "publish", "--result", '"sent"', "--why", "I saw it", "--resume")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, 'result: {"link": "sent"}')


@pytest.mark.parametrize(("choice", "code"), [("retry", 0), ("abort", 0)])
def test_answer_with_resume_goes_on_if_there_is_anything_left_to_do(cli: "Cli", choice: str, code: int) -> None:
    run = cli.here("flows.py:two", env={"BREAK": "1"})
    with cli.opened() as outlast:
        first, second = outlast.interrupts(run)
        outlast.answer(first.id, {"choice": "retry"})
    answer = cli("answer", second.id, f'{{"choice": "{choice}"}}', "--resume", "--json")
    assert answer.code == code
    assert answer.json["status"] == ("succeeded" if choice == "retry" else "aborted")


def test_resume_from_a_step_does_it_and_all_after_it_again(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai", env={"DIE_IN_DRAFT": "1"})
    assert cli("resume", run, "--from", "find").code == 0
    assert cli.diary == ["find", "draft", "find", "draft", "publish"]
    with cli.opened() as outlast:
        (rewound,) = [event for event in outlast.events(run) if event.name == "run.rewound"]
    assert rewound.body["why"] == "resume --from find"


def test_resume_from_an_unknown_step_names_the_known_ones_and_does_nothing(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    answer = cli("resume", run, "--from", "dance")
    assert (answer.code, "find, draft, publish" in answer.err) == (5, True)
    assert cli("resume", run, "--from", "dance", "--dry-run").code == 5
    assert cli.diary == ["find", "draft", "publish"]


def test_the_plan_of_going_back_to_a_step_is_what_happens_then(cli: "Cli", in_doubt: InDoubt) -> None:
    run = in_doubt()
    with cli.opened() as outlast:
        before = outlast.events(run)
    planned = cli("resume", run, "--from", "draft", "--dry-run", "--json").json
    assert {step["label"]: step["action"] for step in planned["steps"]} == {
        "find": "reuse",
        "draft": "retry",
        "publish": "decide",
    }
    assert "--from draft" in cli("resume", run, "--from", "draft", "--dry-run").out
    with cli.opened() as outlast:
        assert outlast.events(run) == before
    cli("resume", run, "--from", "draft")
    assert cli.diary == ["find", "draft", "publish", "draft"]


@pytest.mark.parametrize("words", [("rewind", "sub"), ("resume", "--from", "sub")], ids=" ".join)
def test_who_goes_back_to_another_flow_that_is_over_is_told_that_it_is_kept(cli: "Cli", words: tuple[str, ...]) -> None:
    (cli.folder / "other.yaml").write_text("flow: other\nsteps:\n  - {id: inner, run: echo inner >> inner.txt}\n")
    steps = "  - {id: sub, flow: other.yaml}\n  - {id: last, run: exit 1}\n"
    (cli.folder / "flow.yaml").write_text(f"flow: top\nsteps:\n{steps}")
    cli("run", "flow.yaml")
    with cli.opened() as outlast:
        (run,) = [run.id for run in outlast.runs() if not run.parent]
    answer = cli(words[0], run, *words[1:])
    assert "sub: the run of another flow is kept as it is" in answer.err
    assert "last: " not in answer.err.partition("sub succeeded")[0]
    assert (cli.folder / "inner.txt").read_text() == "inner\n"


def test_who_will_be_asked_about_files_is_not_told_of_an_effect_in_doubt(cli: "Cli") -> None:
    step = "{id: make, run: 'echo half > made; test -e fine', writes: made, on_partial: ask}"
    (cli.folder / "flow.yaml").write_text(f"flow: top\nsteps:\n  - {step}\n")
    run = cli.here("flow.yaml")
    for said in (cli("resume", run, "--dry-run").out, cli("show", run).out):
        assert "in doubt" not in said
        assert f"outlast resume {run} --partial restore" in said
    (cli.folder / "fine").touch()
    assert cli("resume", run, "--partial", "restore").code == 0


def test_a_step_that_could_be_several_calls_is_a_choice(cli: "Cli") -> None:
    run = cli.here("flows.py:two", env={"BREAK": "1"})
    answer = cli("retry", run, "send", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "step_ambiguous")
    with cli.opened() as outlast:
        labels = [wait.step for wait in outlast.interrupts(run)]
    assert all(label in answer.json["error"]["detail"] for label in labels)
    assert cli("retry", run, labels[0]).code == 0
    assert cli("retry", run, "send").code == 2  # the first one is decided on, and still undone


ASKING = """\
flow: asking
steps:
  - id: both
    parallel:
      - {id: ok, pause_for: approval}
      - {id: work, run: cat go}
  - {id: last, run: echo last >> diary.txt}
"""


def test_what_others_answer_while_a_branch_is_at_work_is_gone_on_with_by_who_runs_it(cli: "Cli") -> None:
    (cli.folder / "asking.yaml").write_text(ASKING)
    os.mkfifo(cli.folder / "go")
    child = cli.start("run", "asking.yaml")
    with open(cli.folder / "go", "w"), cli.opened() as outlast:  # opened once the branch reads it
        (run,) = outlast.runs()
        cli.wait_for_event(run.id, "interrupt.opened")
        said = cli("approve", outlast.interrupts(run.id)[0].id).out
        assert "it goes on there" in said
        assert "outlast resume" not in said
    told = cli.stop(child)
    assert (told.code, cli.diary) == (0, ["last"]), told.out
