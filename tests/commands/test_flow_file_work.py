"""How a flow file's commands fail, are tried again and are timed: lines, shells, retries, time limits, folders."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import flow_file
from outlast.commands.process import HeldCommand
from outlast.errors import RecipeInvalid

from ..crash.command_folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


# -- lines and shells --------------------------------------------------------------------------------


def test_a_failing_line_fails_the_step_and_nothing_after_it_runs(folder: Folder) -> None:
    folder.flow("- id: a\n  run: |\n    echo one >> diary\n    false\n    echo two >> diary")
    outcome = folder.run()
    assert (outcome.status, outcome.error["type"]) == ("failed", "outlast.errors:CommandFailed")
    assert folder.lines() == ["one"]


def test_a_line_that_may_fail_says_so_and_a_single_line_is_as_it_is_written(folder: Folder) -> None:
    folder.flow(
        "- id: a\n  run: |\n    false || true\n    if false; then :; fi\n    echo two >> diary\n"
        "- {id: b, run: false; echo b >> diary}"
    )
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["two", "b"]


def test_a_failing_line_of_a_check_is_a_refusal(folder: Folder) -> None:
    folder.flow('- id: a\n  run: echo a >> diary\n  accept: "false\\ntrue"')
    assert folder.run().status == "failed"
    assert "not accepted" in str(folder.receipts("a")[0].error)


def test_a_failing_line_of_a_step_with_checks_fails_it_before_they_are_asked(folder: Folder) -> None:
    folder.flow("- id: a\n  run: |\n    false\n    echo two >> diary\n  accept: echo checked >> diary")
    assert folder.run().status == "failed"
    assert folder.lines() == []


def test_a_failing_line_of_a_condition_or_a_probe_decides_nothing(folder: Folder) -> None:
    folder.flow(
        '- {id: a, run: echo a >> diary, when: "false\\ntrue"}\n'
        '- {id: r, repeat: {max: 1, until: "false\\ntrue", steps: [{id: b, run: "true"}]}}\n'
        '- {id: e, run: exit 9, effect: true, confirm: "false\\necho 7"}'
    )
    assert folder.run().result == {"e": 7}
    assert folder.lines() == ["a"]


def test_bash_fails_with_any_part_of_a_pipe_and_sh_with_the_last(folder: Folder) -> None:
    folder.flow("- {id: a, run: false | true}")
    assert folder.run().status == "succeeded"
    folder.flow("- {id: a, run: false | true, shell: bash}\n- {id: b, run: echo b >> diary}", name="other")
    assert folder.outlast.run(flow_file(folder.path / "flow.yaml")).status == "failed"
    assert folder.lines() == []


def test_a_shell_for_the_whole_flow_is_that_of_its_commands_checks_and_questions(folder: Folder) -> None:
    known = "[[ $OUTLAST_STEP == * ]]"
    folder.flow(
        f'- {{id: a, run: "{known}; echo ${{BASH_VERSION:+bash}} >> diary", when: "{known}", accept: "{known}"}}\n'
        f'- {{id: r, repeat: {{max: 1, until: "{known}", steps: [{{id: b, run: "true"}}]}}}}\n'
        f'- {{id: e, run: exit 9, effect: true, confirm: "{known} && echo 7"}}\n'
        "- {id: s, run: 'echo ${BASH_VERSION:+bash}. >> diary', shell: sh}",
        "shell: bash\n",
    )
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["bash", "."]


def test_bash_that_is_not_there_is_said_before_anything_runs(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.flow("- {id: a, run: echo a >> diary}\n- {id: b, run: 'true', shell: bash}")
    monkeypatch.setenv("PATH", str(folder.path))
    with pytest.raises(RecipeInvalid, match=r"line 4, steps\[1\]\.shell: there is no bash here"):
        folder.run()
    assert folder.lines() == []
    assert folder.outlast.runs() == []


def test_another_shell_is_other_code(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo a >> diary}\n- {id: b, run: test -f mended}")
    assert folder.run().status == "failed"
    folder.flow("- {id: a, run: echo a >> diary, shell: bash}\n- {id: b, run: test -f mended}")
    assert folder.outlast.plan(folder.run_id).code_changed == ("a",)


# -- time limits of questions ------------------------------------------------------------------------


def test_a_condition_that_takes_too_long_fails_and_decides_nothing(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo a >> diary, when: {run: test -f quick || sleep 60, timeout: 50ms}}")
    outcome = folder.run()
    assert (outcome.status, outcome.error["type"]) == ("failed", "outlast.errors:StepTimedOut")
    folder.write("quick", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a"]


def test_an_until_that_takes_too_long_fails_and_is_asked_again_on_resume(folder: Folder) -> None:
    until = "{run: test -f quick || sleep 60, timeout: 50ms}"
    folder.flow(f"- {{id: r, repeat: {{max: 2, until: {until}, steps: [{{id: a, run: echo a >> diary}}]}}}}")
    assert folder.run().error["type"] == "outlast.errors:StepTimedOut"
    folder.write("quick", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a"]


def test_a_probe_that_takes_too_long_knows_nothing_and_a_person_is_asked(folder: Folder) -> None:
    folder.flow("- {id: e, run: exit 9, effect: true, confirm: {run: sleep 60, timeout: 50ms}}")
    outcome = folder.run()
    assert outcome.status == "waiting"
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]


# -- trying again ------------------------------------------------------------------------------------

TRY = "echo x >> diary; exit $(test $(wc -l < diary) -lt 3 && echo 75 || echo {})"


def test_a_step_is_tried_again_as_often_as_retry_says(folder: Folder) -> None:
    folder.flow(f'- {{id: a, run: "{TRY.format(0)}", retry: {{max: 2, backoff: 1ms}}}}')
    assert folder.run().status == "succeeded"
    assert folder.statuses("a") == ["failed", "failed", "succeeded"]


def test_only_the_exits_that_are_named_are_tried_again(folder: Folder) -> None:
    folder.flow(f'- {{id: a, run: "{TRY.format(9)}", retry: {{max: 10, backoff: 1ms, on_exit: [75, 76]}}}}')
    outcome = folder.run()
    assert outcome.status == "failed"
    assert "exited with 9" in str(outcome.error)
    assert folder.lines() == ["x"] * 3


def test_a_time_limit_that_passed_is_no_exit_to_try_again_on(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo x >> diary; sleep 60, timeout: 50ms, retry: {max: 3, backoff: 1ms, on_exit: 75}}")
    assert folder.run().status == "failed"
    assert folder.lines() == ["x"]


def test_an_effect_that_says_that_nothing_happened_is_tried_again_on_that_exit_only(folder: Folder) -> None:
    keys = "effect: true, not_done_exit: [75, 76]"
    folder.flow(f"- {{id: a, run: echo x >> diary; exit 75, {keys}, retry: {{max: 1, backoff: 1ms, on_exit: 75}}}}")
    assert folder.run().status == "failed"
    folder.flow(
        f"- {{id: b, run: echo y >> diary; exit 76, {keys}, retry: {{max: 1, backoff: 1ms, on_exit: 75}}}}",
        name="other",
    )
    assert folder.outlast.run(flow_file(folder.path / "flow.yaml")).status == "failed"
    assert folder.lines() == ["x", "x", "y"]


def test_an_effect_whose_command_was_ended_before_it_began_is_tried_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, asked = HeldCommand.go, []

    def ended_first(held: HeldCommand) -> None:
        asked.append(held.group.pgid)
        if len(asked) == 1:
            held.drop()
        go(held)

    monkeypatch.setattr(HeldCommand, "go", ended_first)
    folder.flow("- {id: e, run: echo e >> diary, effect: true, retry: {max: 1, backoff: 1ms}}")
    assert folder.run().status == "succeeded"
    assert len(asked) == 2
    assert folder.lines() == ["e"]


def test_the_wait_before_a_retry_is_what_the_file_says_and_doubles() -> None:
    from outlast.commands.step import command_spec
    from outlast.flows.yaml.model import Command

    spec = command_spec(Command(id="a", line=1, run="x", backoff=600.0), _setting())
    assert [spec.retry.delay(failures, luck) for failures in (1, 2, 9) for luck in (0.0, 1.0)] == [600.0, 300.0] * 3
    spec = command_spec(Command(id="a", line=1, run="x", backoff=10.0), _setting())
    assert [spec.retry.delay(failures, luck=0.0) for failures in (1, 2, 9)] == [10.0, 20.0, 60.0]


def _setting() -> "object":
    from outlast.commands.step import Setting
    from outlast.flows.yaml.model import FlowDefinition

    return Setting(None, FlowDefinition("f", ()), Path("/f.yaml"), {}, {})  # type: ignore[arg-type]


# -- folders -----------------------------------------------------------------------------------------


def repository(folder: Folder) -> Path:
    subprocess.run(["git", "init", "-q", folder.path], check=True)
    below = folder.path / "tools" / "flows"
    below.mkdir(parents=True)
    return below


def test_a_command_may_run_anywhere_up_to_the_top_of_the_repository(folder: Folder) -> None:
    below = repository(folder)
    (below / "flow.yaml").write_text(
        "flow: up\ncwd: ..\nsteps:\n  - {id: a, run: pwd >> $TOP/diary, cwd: ..}\n  - {id: b, run: pwd >> $TOP/diary}\n"
        f"env: {{TOP: {folder.path}}}\n"
    )
    assert folder.outlast.run(flow_file(below / "flow.yaml")).status == "succeeded"
    assert folder.lines() == [str(folder.path), str(folder.path / "tools")]


def test_no_folder_leads_out_of_the_repository(folder: Folder) -> None:
    below = repository(folder)
    (folder.path / "away").symlink_to(folder.path.parent)
    for cwd in ("../../..", "../../../x", "../../away/..", "/tmp", "~"):
        (below / "flow.yaml").write_text(f"flow: up\nsteps:\n  - id: a\n    run: pwd\n    cwd: {cwd!r}\n")
        with pytest.raises(RecipeInvalid, match=r"line 5, steps\[0\]\.cwd: .*(leads out of the repository|not in)"):
            flow_file(below / "flow.yaml")


def test_outside_of_a_repository_no_folder_leads_out_of_the_flows_own(folder: Folder) -> None:
    if (
        shutil.which("git")
        and subprocess.run(["git", "-C", folder.path, "rev-parse"], capture_output=True).returncode == 0
    ):
        pytest.skip("this folder is in a repository")
    folder.flow("- {id: a, run: pwd, cwd: ..}")
    with pytest.raises(RecipeInvalid, match="in no repository"):
        folder.run()


def test_what_a_step_above_writes_is_the_flows_own_work_to_a_step_below(folder: Folder) -> None:
    below = repository(folder)
    (below / "flow.yaml").write_text(
        "flow: up\nsteps:\n"
        "  - {id: read, run: cat note >> ../../diary, reads: note}\n"
        "  - {id: write, run: echo two > tools/flows/note, cwd: ../.., writes: tools/flows/note}\n"
        "  - {id: last, run: test -f ok}\n"
    )
    (below / "note").write_text("one\n")
    assert folder.outlast.run(flow_file(below / "flow.yaml")).status == "failed"
    (below / "ok").write_text("")
    assert folder.resume().status == "succeeded"
    assert folder.lines() == ["one"]
