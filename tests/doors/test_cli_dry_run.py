"""`steps` and `run --dry-run`: what would happen, told before it does, and nothing happens by telling it."""

from pathlib import Path
from typing import TYPE_CHECKING

from outlast.doors.cli.render import width

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli

FLOW = """\
flow: build
inputs: {ticket: string}
steps:
  - {id: plan, run: "echo plan >> diary", writes: [plan.md], timeout: 10m, retries: 2}
  - {id: maybe, run: "echo maybe >> diary", when: {run: test -d docs, timeout: 5s}}
  - id: each
    foreach:
      items: [a, b, c]
      limit: 2
      steps: [{id: convert, run: "echo $OUTLAST_ITEM >> diary"}]
  - {id: sub, flow: other.yaml}
  - {id: release, run: "echo release >> diary; test -e ok", effect: true, confirm: test -e released}
  - {id: last, run: echo last >> diary}
"""
OTHER = "flow: other\nsteps:\n  - {id: inner, run: echo inner >> diary}\n"


def write(cli: "Cli", text: str = FLOW) -> None:
    (cli.folder / "flow.yaml").write_text(text)
    (cli.folder / "other.yaml").write_text(OTHER.replace("\\\n", "\n"))


def fits(answer: "Answer") -> bool:
    return all(width(line) <= 80 for line in answer.out.splitlines())


def diary(cli: "Cli") -> list[str]:
    file = cli.folder / "diary"
    return file.read_text().split() if file.exists() else []


def test_the_steps_of_a_flow_file_are_listed_with_what_they_do_and_their_limits(cli: "Cli") -> None:
    write(cli)
    answer = cli("steps", "flow.yaml")
    assert answer.code == 0
    assert fits(answer)
    rows = {line.split()[0]: line for line in answer.out.splitlines() if line.strip()}
    assert "timeout 600s; retries 2" in rows["plan"]
    assert "if test -d docs" in rows["maybe"]
    assert "3 items" in rows["each"]
    assert "limit 2" in rows["each"]
    assert "confirmed" in rows["release"]
    assert "· convert" in answer.out
    assert "· inner" in answer.out
    assert not (cli.folder / ".outlast").exists()
    assert diary(cli) == []


def test_the_steps_of_a_flow_file_are_one_object_for_programs(cli: "Cli") -> None:
    write(cli)
    found = cli("steps", "flow.yaml", "--json").json
    assert found["flow"] == "build"
    assert found["inputs"] == "ticket: string"
    steps = {each["id"]: each for each in found["steps"]}
    assert list(steps) == ["plan", "maybe", "each", "convert", "sub", "inner", "release", "last"]
    assert steps["maybe"]["when"] == "test -d docs"
    assert steps["maybe"]["limits"] == {"when_timeout": 5.0}
    assert (steps["convert"]["inside"], steps["inner"]["inside"]) == (["each"], ["sub"])
    assert (steps["release"]["kind"], steps["release"]["confirmed"]) == ("effect", True)
    assert steps["plan"]["place"] == "flow.yaml, line 4"


def test_the_steps_of_a_python_flow_are_those_that_its_code_shows(cli: "Cli") -> None:
    found = cli("steps", "flows.py:report", "--json").json
    assert [(each["id"], each["kind"]) for each in found["steps"]] == [
        ("publish", "effect"), ("draft", "step"), ("find", "step"),
    ]  # fmt: skip
    assert found["complete"] is False
    assert "the body decides" in cli("steps", "flows.py:report").out


def test_a_flow_that_is_wrong_or_not_there_has_no_steps(cli: "Cli") -> None:
    write(cli, FLOW.replace("timeout:", "timout:"))
    answer = cli("steps", "flow.yaml")
    assert (answer.code, "did you mean `timeout`?" in answer.err) == (2, True)
    assert cli("steps", "nothing.yaml").code != 0


def test_a_dry_run_lists_what_a_new_run_would_do_and_makes_nothing(cli: "Cli") -> None:
    write(cli)
    answer = cli("run", "flow.yaml", "ticket=T 1", "--dry-run")
    assert answer.code == 0
    assert fits(answer)
    assert "a new run of build" in answer.out
    assert "convert" in answer.out
    assert "outlast run flow.yaml 'ticket=T 1'" in answer.out
    assert not (cli.folder / ".outlast").exists()
    assert diary(cli) == []


def test_a_dry_run_refuses_what_the_run_would(cli: "Cli") -> None:
    write(cli)
    answer = cli("run", "flow.yaml", "--dry-run")
    assert (answer.code, "ticket is missing" in answer.err) == (2, True)
    write(cli, FLOW.replace("steps:\n  - {id: plan", "secrets: [NO_SUCH_TOKEN]\nsteps:\n  - {id: plan", 1))
    assert "NO_SUCH_TOKEN" in cli("run", "flow.yaml", "ticket=T", "--dry-run").err


def test_a_dry_run_shows_the_run_that_would_be_continued_and_what_is_ahead(cli: "Cli") -> None:
    write(cli, FLOW.replace(", confirm: test -e released", "").replace("effect: true", "agent: x"))
    assert cli("run", "flow.yaml", "ticket=T").code != 0
    before = diary(cli)
    answer = cli("run", "flow.yaml", "ticket=T", "--dry-run")
    assert answer.code == 0
    run = next(each["id"] for each in cli("runs", "--json").json["runs"] if not each["parent"])
    assert f"resuming run {run} (failed) would:" in answer.out
    assert "steps without a receipt yet:" in answer.out
    found = cli("run", "flow.yaml", "ticket=T", "--dry-run", "--json").json
    assert (found["action"], found["run"]) == ("continue", run)
    assert [each["id"] for each in found["steps"]] == ["last"]
    assert {each["step"]: each["action"] for each in found["plan"]["steps"]}["release"] == "retry"
    other = cli("run", "flow.yaml", "ticket=other", "--dry-run", "--json").json
    assert (other["action"], other["run"]) == ("start", "")
    assert diary(cli) == before
    assert len(cli("runs", "--json").json["runs"]) == 2  # with the other flow


def test_a_dry_run_of_a_task_that_has_happened_says_that_nothing_would_run(cli: "Cli") -> None:
    write(cli)
    Path(cli.folder / "ok").touch()
    assert cli("run", "flow.yaml", "ticket=T", "--task", "once").code == 0
    found = cli("run", "flow.yaml", "ticket=T", "--task", "once", "--dry-run", "--json").json
    assert (found["action"], found["task"]) == ("give", "once")
    answer = cli("run", "flow.yaml", "ticket=T", "--task", "once", "--dry-run")
    assert "nothing would run" in answer.out
    conflict = cli("run", "flow.yaml", "ticket=U", "--task", "once", "--dry-run")
    assert "inputs_conflict" in conflict.err
    again = cli("run", "flow.yaml", "ticket=T", "--task", "once", "--again", "--dry-run")
    assert "repeats_effects" in again.err
    agreed = cli("run", "flow.yaml", "ticket=T", "--task", "once", "--again", "--yes", "--dry-run", "--json").json
    assert agreed["action"] == "start"
    assert agreed["instead_of"] == found["run"]
    assert diary(cli).count("release") == 1


def test_a_run_shows_its_items_and_the_runs_of_other_flows(cli: "Cli") -> None:
    write(cli, FLOW.replace(", confirm: test -e released", "").replace("[a, b, c]", "[a, b/c d]"))
    (cli.folder / "ok").touch()
    assert cli("run", "flow.yaml", "ticket=T").code == 0
    run = next(each["id"] for each in cli("runs", "--json").json["runs"] if not each["parent"])
    answer = cli("show", run)
    assert "each[a]/convert" in answer.out
    assert "each: 2 items" in answer.out
    assert "of other.yaml" in answer.out
    receipts = {each["label"]: each for each in cli("receipts", run, "--json").json["receipts"]}
    (odd,) = [each for label, each in receipts.items() if label.startswith("each[b_c_d#")]
    assert odd["facts"]["item"] == "b/c d"


def test_a_dry_run_at_a_server_is_refused_with_what_to_do_instead(cli: "Cli") -> None:
    write(cli)
    answer = cli("run", "flow.yaml", "ticket=T", "--dry-run", "--home", "http://127.0.0.1:1")
    assert "embedded_only" in answer.err
    assert "outlast --home http://127.0.0.1:1 resume RUN --dry-run" in answer.err
