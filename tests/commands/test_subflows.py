"""`flow:` in a flow file: another file as a run of its own, checked before anything runs, once like any step."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import flow_file
from outlast.errors import RecipeInvalid, SecretMissing

from ..crash.command_folder import KILLED, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def other(folder: Folder, steps: str, head: str = "", name: str = "other") -> None:
    lines = "".join(f"  {line}\n" for line in steps.splitlines())
    folder.write(f"{name}.yaml", f"flow: {name}\n{head}steps:\n{lines}")


def run(folder: Folder, **inputs: Any) -> Any:
    return folder.outlast.run(flow_file(folder.path / "flow.yaml"), **inputs)


def statuses(folder: Folder) -> dict[str, str]:
    return {run.flow.rpartition(":")[2]: run.status for run in folder.outlast.runs()}


def problems(folder: Folder) -> list[str]:
    with pytest.raises(RecipeInvalid) as caught:
        flow_file(folder.path / "flow.yaml")
    return [str(each) for each in caught.value.problems]


def test_another_flow_is_a_run_of_its_own_and_its_result_is_the_steps(folder: Folder) -> None:
    other(folder, "- {id: do, run: 'echo $OUTLAST_INPUT_TICKET.$OUTLAST_INPUT_N >> diary; echo 7 > $OUTLAST_RESULT'}",
          "inputs: {ticket: string, n: {type: integer, default: 1}}\n")  # fmt: skip
    folder.flow(
        "- {id: sub, flow: other.yaml, inputs: {ticket: $OUTLAST_INPUT_TICKET, n: 5}}\n"
        "- {id: last, run: cat $OUTLAST_HANDOFF > given}",
        "inputs: {ticket: string}\n",
    )
    outcome = run(folder, ticket="T 1")
    assert (outcome.status, outcome.result) == ("succeeded", {"sub": {"do": 7}})
    assert folder.lines() == ["T 1.5"]
    assert statuses(folder) == {"build": "succeeded", "other": "succeeded"}
    assert '"step":"sub"' in folder.read("given").replace(" ", "")
    assert '"result":{"do":7}' in folder.read("given").replace(" ", "")


def test_a_failure_in_another_flow_fails_this_one_and_a_resume_goes_on_in_it(folder: Folder) -> None:
    other(folder, "- {id: one, run: echo one >> diary}\n- {id: two, run: echo two >> diary; test -f ok}")
    folder.flow("- {id: a, run: echo a >> diary}\n- {id: sub, flow: other.yaml}\n- {id: b, run: echo b >> diary}")
    assert run(folder).status == "failed"
    assert statuses(folder) == {"build": "failed", "other": "failed"}
    folder.write("ok", "")
    assert run(folder).status == "succeeded"
    assert folder.lines() == ["a", "one", "two", "two", "b"]
    assert statuses(folder) == {"build": "succeeded", "other": "succeeded"}


def test_another_flow_that_waits_lets_this_one_wait_and_both_go_on_when_it_is_answered(folder: Folder) -> None:
    other(folder, "- {id: ask, pause_for: approval}\n- {id: do, run: echo do >> diary}")
    folder.flow("- {id: sub, flow: other.yaml}\n- {id: last, run: echo last >> diary}")
    assert run(folder).status == "waiting"
    (wait,) = [each for each in folder.outlast.interrupts() if each.type == "approval"]
    folder.outlast.answer(wait.id, {"approved": True})
    assert run(folder).status == "succeeded"
    assert folder.lines() == ["do", "last"]


def test_a_branch_whose_flow_waits_keeps_no_other_back(folder: Folder) -> None:
    other(folder, "- {id: ask, pause_for: approval}\n- {id: do, run: echo do >> diary}")
    folder.flow(
        "- id: both\n  parallel:\n  - {id: sub, flow: other.yaml}\n"
        "  - {id: r, repeat: {max: 3, until: test $OUTLAST_ITERATION = 3, steps: [{id: a, run: echo a >> diary}]}}"
    )
    assert run(folder).status == "waiting"
    assert folder.lines() == ["a", "a", "a"]
    (wait,) = [each for each in folder.outlast.interrupts() if each.type == "approval"]
    folder.outlast.answer(wait.id, {"approved": True})
    assert run(folder).status == "succeeded"
    assert folder.lines() == ["a", "a", "a", "do"]


def test_each_item_of_a_foreach_can_be_a_flow(folder: Folder) -> None:
    work = "echo $OUTLAST_INPUT_FILE ${OUTLAST_ITEM-none} >> diary; test -f ok -o $OUTLAST_INPUT_FILE != b"
    other(folder, f"- {{id: do, run: '{work}'}}", "inputs: {file: string}\n")
    folder.flow(
        "- {id: each, foreach: {items: [a, b, c], steps: [{id: sub, flow: other.yaml, inputs: {file: $OUTLAST_ITEM}}]}}"
    )
    assert run(folder).status == "failed"
    folder.write("ok", "")
    assert run(folder).status == "succeeded"
    assert folder.lines() == ["a none", "b none", "c none", "b none"]


def test_another_flow_in_another_folder_runs_there_with_its_own_surroundings(folder: Folder) -> None:
    (folder.path / "lib").mkdir()
    other(folder, "- {id: do, run: 'pwd >> $TOP/diary; echo $NAME >> $TOP/diary'}",
          f"env: {{TOP: {folder.path}, NAME: inner}}\n", name="lib/it")  # fmt: skip
    (folder.path / "lib" / "it.yaml").write_text(folder.read("lib/it.yaml").replace("flow: lib/it", "flow: it"))
    folder.flow("- {id: sub, flow: lib/it.yaml}", "env: {NAME: outer}\n")
    assert run(folder).status == "succeeded"
    assert folder.lines() == [str(folder.path / "lib"), "inner"]


def test_the_secrets_of_another_flow_are_demanded_before_anything_runs(folder: Folder) -> None:
    other(folder, "- {id: do, run: 'true'}", "secrets: [OTHER_TOKEN_OF_TESTS]\n")
    folder.flow("- {id: a, run: echo a >> diary}\n- {id: sub, flow: other.yaml}")
    with pytest.raises(SecretMissing, match="OTHER_TOKEN_OF_TESTS"):
        run(folder)
    assert folder.lines() == []
    assert folder.outlast.runs() == []


def test_a_flow_that_leads_back_to_itself_is_refused_with_its_line(folder: Folder) -> None:
    folder.flow("- {id: a, run: x}\n- id: again\n  flow: flow.yaml")
    why = "this flow would run itself without end: flow.yaml -> flow.yaml"
    assert problems(folder) == [f"line 5, steps[1].flow: {why}; remove one of these steps"]
    other(folder, "- {id: sub, flow: third.yaml}")
    other(folder, "- {id: sub, flow: flow.yaml}", name="third")
    folder.flow("- id: again\n  flow: other.yaml")
    (said,) = problems(folder)
    assert said.startswith("line 4, steps[0].flow: other.yaml has a mistake: line 3, steps[0].flow: third.yaml has")
    assert "flow.yaml -> other.yaml -> third.yaml -> flow.yaml" in said


def test_a_file_that_is_missing_is_refused_with_its_line_and_the_one_that_was_meant(folder: Folder) -> None:
    other(folder, "- {id: do, run: x}", name="release")
    folder.flow(
        "- id: sub\n  flow: relaese.yaml\n"
        "- {id: b, flow: no/such.yaml}\n- {id: c, flow: /etc/x.yaml}\n- {id: d, flow: x.py}"
    )
    said = problems(folder)
    assert said[0] == "line 4, steps[0].flow: there is no file 'relaese.yaml'; did you mean `release.yaml`?"
    assert "line 5, steps[1].flow: there is no file 'no/such.yaml'" in said[1]
    assert "line 6, steps[2].flow: '/etc/x.yaml' is not in the flow's folder" in said[2]
    assert "line 7, steps[3].flow: 'x.py' is no flow file" in said[3]


def test_every_mistake_of_another_file_is_named_where_it_is_run(folder: Folder) -> None:
    other(folder, "- {id: do, rnu: x}\n- {id: do, run: x, timout: 1}")
    folder.flow("- {id: sub, flow: other.yaml}\n- {id: x, run: x, timout: 1}")
    said = problems(folder)
    assert "line 3, steps[0].flow: other.yaml has a mistake: line 3, steps[0].rnu" in "\n".join(said)
    assert "line 3, steps[0].flow: other.yaml has a mistake: line 4, steps[1].timout" in "\n".join(said)
    assert said[-1].startswith("line 4, steps[1].timout")


@pytest.mark.parametrize(
    ("given", "why"),
    [("{}", "needs the input 'ticket' (string)"),
     ("{ticket: a, tikcet: b}", "has no input 'tikcet'; did you mean `ticket`?"),
     ("{ticket: 5}", "ticket is 5, not a text"),
     ("{ticket: a, n: many}", 'n is "many", not a whole number'),
     ("{ticket: $OUTLAST_ITEM}", "in a `foreach` only"),
     ("{ticket: $OUTLAST_INPUT_OTHRE}", "no input for $OUTLAST_INPUT_OTHRE; did you mean `$OUTLAST_INPUT_OTHER`?"),
     ("{ticket: a, n: $OUTLAST_INPUT_OTHER}", "n is a whole number there, and other is a text here")],
)  # fmt: skip
def test_inputs_that_do_not_fit_another_flow_are_refused_with_their_line(folder: Folder, given: str, why: str) -> None:
    other(folder, "- {id: do, run: x}", "inputs: {ticket: string, n: {type: integer, default: 1}}\n")
    folder.flow(f"- id: sub\n  flow: other.yaml\n  inputs: {given}", "inputs: {other: string}\n")
    said = "\n".join(problems(folder))
    assert why in said
    assert "line 5, steps[0].flow" in said or "line 6, steps[0].inputs." in said


def test_many_flows_that_share_others_are_read_quickly(folder: Folder) -> None:
    for at in range(12):
        steps = (
            "".join(f"- {{id: s{n}, flow: f{at + 1}-{n}.yaml}}\n" for n in range(3)) if at < 11 else "- {id: a, run: x}"
        )
        for n in range(3):
            folder.write(f"f{at}-{n}.yaml", f"flow: f\nsteps:\n{steps}")
    folder.flow("- {id: sub, flow: f0-0.yaml}")
    assert flow_file(folder.path / "flow.yaml").spec.name == "build"


def test_a_finished_run_with_another_flow_is_replayed_on_its_receipts(folder: Folder) -> None:
    other(folder, "- {id: do, run: echo do >> diary}")
    folder.flow("- {id: sub, flow: other.yaml}\n- {id: last, run: echo last >> diary}")
    outcome = run(folder)
    replay = folder.outlast.replay(outcome.run_id)
    assert replay.divergences == ()
    assert folder.lines() == ["do", "last"]


def test_a_change_in_another_flow_is_a_change_of_the_flow_that_runs_it(folder: Folder) -> None:
    other(folder, "- {id: do, run: echo do >> diary}")
    folder.flow("- {id: sub, flow: other.yaml}")
    before = flow_file(folder.path / "flow.yaml").spec.code
    other(folder, "# a comment\n- {id: do, run: echo do >> diary}")
    assert flow_file(folder.path / "flow.yaml").spec.code == before
    other(folder, "- {id: do, run: echo other >> diary}")
    assert flow_file(folder.path / "flow.yaml").spec.code != before


@pytest.mark.crash
def test_a_kill_in_another_flow_repeats_only_the_step_that_was_under_way(folder: Folder) -> None:
    other(
        folder,
        "- {id: one, run: echo one >> diary}\n"
        "- {id: two, run: 'echo two >> diary; test -f second || { touch second; kill -9 $RUNTIME; sleep 60; }'}",
    )
    folder.flow("- {id: sub, flow: other.yaml}\n- {id: last, run: echo last >> diary}")
    assert folder.cli("run", "flow.yaml").code == KILLED
    assert folder.cli("run", "flow.yaml").code == 0
    assert folder.lines() == ["one", "two", "two", "last"]
