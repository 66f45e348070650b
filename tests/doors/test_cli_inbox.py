"""`outlast inbox`, `approve` and `decline`: every wait of every run, and answering those for approval."""

from typing import TYPE_CHECKING

from outlast.doors.cli.answer import SHOWN
from outlast.doors.cli.render import width

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

APPROVAL = """\
flow: build
steps:
  - {id: plan, run: "echo '# plan' > plan.md; seq 1 40 >> plan.md", writes: [plan.md]}
  - {id: approve, pause_for: approval, payload: {file: plan.md, risk: low}%s}
  - {id: ship, run: "cat $OUTLAST_ANSWER > answer.json"}
"""


def waiting(cli: "Cli", more: str = "") -> tuple[str, str]:
    """A run that waits for approval, and the id of its wait."""
    (cli.folder / "flow.yaml").write_text(APPROVAL % more)
    run = cli.here("flow.yaml")
    with cli.opened() as outlast:
        return run, outlast.interrupts(run)[0].id


def test_an_empty_inbox_says_so(cli: "Cli") -> None:
    cli.here("flows.py:report", topic="ai")
    answer = cli("inbox")
    assert (answer.code, answer.out) == (0, "no run waits for anything; `outlast runs` lists them all\n")
    assert cli("inbox", "--json").json == {"waits": [], "answered": [], "contested": []}


def test_no_number_of_newer_handoffs_hides_a_contested_one(cli: "Cli") -> None:
    (cli.folder / "a.txt").write_text("one")
    with cli.opened() as outlast:
        fields = {"summary": "s", "handoff_text": "t"}
        root = str(cli.folder)
        outlast.handoff.store(anchor="task:old", target_files=["a.txt"], repo_root=root, **fields)  # type: ignore[arg-type]
        for number in range(SHOWN):
            outlast.handoff.store(anchor=f"task:{number}", bind=False, **fields)  # type: ignore[arg-type]
    (cli.folder / "a.txt").write_text("two")
    assert [one["anchor"] for one in cli("inbox", "--json").json["contested"]] == ["task:old"]


def test_every_wait_is_listed_with_the_commands_that_answer_it(cli: "Cli") -> None:
    sleeper = cli.here("flows.py:sleeper")
    doubtful = cli.here("flows.py:two", env={"BREAK": "1"})
    run, wait = waiting(cli)
    answer = cli("inbox")
    lines = answer.out.splitlines()
    assert lines[0] == "3 questions for you; 1 wait for a time or another run"
    assert f"  approve:  outlast approve {wait} --resume" in lines
    assert f"  decline:  outlast decline {wait} -m WHY --resume" in lines
    assert any(line.startswith(f"  run {run}, build-") for line in lines)
    assert "  file: plan.md" in lines
    assert answer.out.index(doubtful) < answer.out.index(run) < answer.out.index(sleeper)
    assert max(width(line) for line in lines if "send[" not in line) <= 80


def test_json_has_the_waits_and_whose_they_are(cli: "Cli") -> None:
    run, wait = waiting(cli)
    (found,) = cli("inbox", "--json").json["waits"]
    assert (found["id"], found["run_id"], found["type"], found["step"]) == (wait, run, "approval", "approve")
    assert (found["flow"], found["says"]) == ("flow.yaml:build", "approve waits for approval")
    assert found["payload"]["risk"] == "low"
    assert cli("inbox", "--json", "--scope", "other").json == {"waits": [], "answered": [], "contested": []}


def test_an_approval_goes_on_with_its_comment(cli: "Cli") -> None:
    run, wait = waiting(cli)
    answer = cli("approve", wait[:8], "-m", "well done", "--resume")
    assert (answer.code, f"run {run} succeeded" in answer.out) == (0, True)
    assert "well done" in (cli.folder / "answer.json").read_text()
    again = cli("approve", wait)
    assert (again.code, "[already_answered]" in again.err) == (4, True)


def test_an_approval_says_how_to_go_on(cli: "Cli") -> None:
    run, wait = waiting(cli)
    answer = cli("approve", wait)
    assert (answer.code, answer.out) == (0, f"run {run}: approve is approved\ncontinue: outlast resume {run}\n")


def test_a_declined_run_has_ended_and_says_so_everywhere(cli: "Cli") -> None:
    run, wait = waiting(cli)
    answer = cli("decline", wait, "-m", "not like this")
    assert (answer.code, answer.out) == (0, f"run {run}: approve is declined; the run has ended\n")
    assert "declined by local: not like this" in cli("show", run).out
    resumed = cli("resume", run)
    assert (resumed.code, resumed.out) == (4, f"run {run} aborted\ndeclined by local: not like this\n")
    found = cli("resume", run, "--json")
    assert (found.code, found.json["status"], found.json["error"]["type"]) == (4, "aborted", "declined")
    assert cli("inbox", "--json").json == {"waits": [], "answered": [], "contested": []}


def test_declining_with_resume_exits_4_when_the_run_has_ended(cli: "Cli") -> None:
    _, wait = waiting(cli)
    assert cli("decline", wait, "-m", "no", "--resume").code == 4


def test_a_decline_that_the_flow_handles_goes_on(cli: "Cli") -> None:
    _, wait = waiting(cli, ", on_decline: continue")
    assert cli("decline", wait, "-m", "no", "--resume").code == 0
    assert "no" in (cli.folder / "answer.json").read_text()


def test_a_decline_needs_a_reason(cli: "Cli") -> None:
    _, wait = waiting(cli)
    assert cli("decline", wait).code == 2
    assert cli("decline", wait, "-m", "  ").code == 2
    assert len(cli("inbox", "--json").json["waits"]) == 1


def test_a_wait_that_is_not_there_names_the_inbox(cli: "Cli") -> None:
    waiting(cli)
    answer = cli("approve", "zz")
    assert (answer.code, "`outlast inbox`" in answer.err) == (5, True)


def test_what_asks_for_something_else_cannot_be_approved(cli: "Cli") -> None:
    cli.here("flows.py:two", env={"BREAK": "1"})
    wait = cli("inbox", "--json").json["waits"][0]["id"]
    answer = cli("approve", wait)
    assert (answer.code, "retry, skip, abort" in answer.err) == (2, True)


def test_a_run_of_an_engine_is_left_to_it(cli: "Cli") -> None:
    run, wait = waiting(cli)
    with cli.opened() as outlast:
        outlast.move_queue("there", to="temporal", adopt=True)
    goes_on = "temporal goes on with it, where a worker of it is: outlast work flow.yaml:build --engine temporal"
    approved = cli("approve", wait, "--resume")
    assert (approved.code, approved.out.splitlines()) == (0, [f"run {run}: approve is approved", goes_on])
    assert cli("inbox").out == "no run waits for anything; `outlast runs` lists them all\n"
    assert not (cli.folder / "answer.json").exists()
    with cli.opened() as outlast:
        assert outlast.get(run).status == "waiting"
