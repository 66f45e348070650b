"""What the keys of a flow file do: conditions, loops, routes, acceptance, probes, words between commands."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import flow_file
from outlast.errors import AlreadyAnswered, DiskFull, FlowNotFound, RunHeld
from outlast.store.blobs.folder import FolderBlobs

from ..crash.command_folder import Folder
from ..kit.commands import lives


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


# -- conditions, loops, acceptance -------------------------------------------------------------------


def test_a_step_whose_condition_does_not_hold_is_skipped_and_its_receipt_says_why(folder: Folder) -> None:
    folder.flow("- {id: maybe, run: echo ran >> diary, when: test -f no}\n- {id: last, run: echo last >> diary}")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["last"]
    assert folder.statuses("maybe") == ["skipped"]
    assert folder.facts("maybe") == [{"why": "its condition does not hold: test -f no"}]
    assert [receipt.result for receipt in folder.receipts("when")] == [{"holds": False, "exit": 1}]


def test_a_condition_is_asked_once_and_its_answer_stands_on_resume(folder: Folder) -> None:
    folder.flow("- {id: maybe, run: echo ran >> diary, when: test -f yes}\n- {id: last, run: test -f mended}")
    assert folder.run().status == "failed"
    folder.write("yes", "")
    folder.write("mended", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == []


def test_a_condition_that_cannot_be_run_is_an_error_and_no_answer(folder: Folder) -> None:
    folder.flow("- {id: maybe, run: echo ran >> diary, when: no-such-command-here}")
    outcome = folder.run()
    assert outcome.status == "failed"
    assert "127" in str(outcome.error)
    assert folder.lines() == []


def test_a_whole_loop_or_parallel_can_be_skipped(folder: Folder) -> None:
    inner = "[{id: a, run: echo a >> diary}]"
    folder.flow(
        f"- {{id: loop, when: 'false', repeat: {{max: 2, until: 'true', steps: {inner}}}}}\n"
        f"- {{id: both, when: 'false', parallel: {inner.replace('id: a', 'id: b')}}}"
    )
    assert folder.run().status == "succeeded"
    assert folder.lines() == []
    assert folder.statuses("loop") == folder.statuses("both") == ["skipped"]


LOOP = "- id: fix\n  repeat:\n    max: 3\n    until: test -f enough\n    on_limit: {}\n    steps:\n"
ROUND = "      - {id: author, run: echo $OUTLAST_ITERATION >> diary}\n- {id: last, run: echo last >> diary}"


def test_a_loop_that_reaches_its_limit_fails_the_run(folder: Folder) -> None:
    outcome = folder.flow(LOOP.format("fail") + ROUND).run()
    assert outcome.status == "failed"
    assert outcome.error["type"].endswith("LimitReached")
    assert folder.lines() == ["1", "2", "3"]


def test_a_failed_loop_asks_its_condition_again_on_resume_and_repeats_no_iteration(folder: Folder) -> None:
    folder.flow(LOOP.format("fail") + ROUND).run()
    folder.write("enough", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["1", "2", "3", "last"]


def test_a_loop_may_go_on_at_its_limit_and_the_receipt_says_that_it_was_not_accepted(folder: Folder) -> None:
    assert folder.flow(LOOP.format("continue") + ROUND).run().status == "succeeded"
    assert folder.lines() == ["1", "2", "3", "last"]
    assert folder.facts("fix") == [{"iterations": 3, "accepted": False}]


@pytest.mark.parametrize(("choice", "diary"), [("more", "123456"), ("continue", "123")])
def test_a_loop_may_wait_at_its_limit_for_a_person(folder: Folder, choice: str, diary: str) -> None:
    outcome = folder.flow(LOOP.format("pause") + ROUND).run()
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    assert (wait.type, wait.step) == ("limit", "fix")
    folder.outlast.answer(wait.id, {"choice": choice})
    outcome = folder.resume()
    if choice == "more":  # three more were not enough either: it is asked again, and that is another wait
        assert outcome.status == "waiting"
        folder.outlast.answer(outcome.interrupts[0].id, {"choice": "continue"})
        outcome = folder.resume()
    assert outcome.status == "succeeded"
    assert folder.lines() == [*diary, "last"]


def test_a_loop_ends_when_its_condition_holds(folder: Folder) -> None:
    folder.flow("- {id: fix, repeat: {max: 9, until: test $OUTLAST_ITERATION = 2, steps: [{id: a, run: 'true'}]}}")
    assert folder.run().status == "succeeded"
    assert folder.facts("fix") == [{"iterations": 2, "accepted": True}]


def test_loops_inside_loops_number_their_own_iterations(folder: Folder) -> None:
    folder.flow(
        "- id: outer\n  repeat:\n    max: 9\n    until: test $OUTLAST_ITERATION = 2\n    steps:\n"
        "      - id: inner\n        repeat:\n          max: 9\n          until: test $OUTLAST_ITERATION = 2\n"
        "          steps: [{id: a, run: echo $OUTLAST_ITERATION >> diary}]\n"
        "      - {id: b, run: echo b$OUTLAST_ITERATION >> diary}"
    )
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["1", "2", "b1", "1", "2", "b2"]
    assert folder.outlast.verify().ok


def test_a_step_that_is_not_accepted_fails_and_the_next_attempt_passes(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo x >> diary, accept: ['true', 'test $(wc -l < diary) -ge 2'], retries: 1}")
    assert folder.run().status == "succeeded"
    first, second = folder.receipts("a")
    assert (first.status, second.status) == ("failed", "succeeded")
    assert first.error is not None
    assert "not accepted: test $(wc -l < diary) -ge 2" in first.error["message"]


def test_a_step_that_is_never_accepted_fails_the_run_and_is_tried_again_on_resume(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo x >> diary, accept: test -f good}\n- {id: b, run: echo b >> diary}")
    assert folder.run().status == "failed"
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["x", "x", "b"]


# -- effects -----------------------------------------------------------------------------------------


def effect(folder: Folder, run: str, *more: str) -> Folder:
    return folder.flow("\n".join(["- id: send", f"  run: {run}", "  effect: true", *(f"  {line}" for line in more)]))


def test_an_exit_that_says_not_done_may_be_tried_again(folder: Folder) -> None:
    run = '"echo x >> diary; test $OUTLAST_ATTEMPT = 2 || exit 75"'
    assert effect(folder, run, "not_done_exit: 75", "retries: 1").run().status == "succeeded"
    assert folder.statuses("send") == ["failed", "succeeded"]
    assert folder.lines() == ["x", "x"]


def test_any_other_exit_of_an_effect_leaves_it_in_doubt(folder: Folder) -> None:
    outcome = effect(folder, '"echo x >> diary; exit 1"', "not_done_exit: 75", "retries: 5").run()
    assert outcome.status == "waiting"
    assert outcome.interrupts[0].type == "in_doubt"
    assert folder.lines() == ["x"]


def test_a_probe_that_exits_0_says_that_it_happened_and_its_output_is_the_result(folder: Folder) -> None:
    run, confirm = (
        '"echo $OUTLAST_EFFECT_KEY >> diary; exit 1"',
        "confirm: 'grep -q $OUTLAST_EFFECT_KEY diary && echo 17'",
    )
    outcome = effect(folder, run, confirm).run()
    assert (outcome.status, outcome.result) == ("succeeded", {"send": 17})
    assert len(folder.lines()) == 1
    assert folder.receipts("send")[-1].mark == "confirmed"


def test_a_probe_that_exits_1_says_that_it_did_not_happen(folder: Folder) -> None:
    run = '"echo x >> diary; test $OUTLAST_ATTEMPT = 2"'
    assert effect(folder, run, "confirm: exit 1", "retries: 1").run().status == "succeeded"
    assert folder.lines() == ["x", "x"]


def test_a_probe_that_exits_otherwise_does_not_know_and_a_person_decides(folder: Folder) -> None:
    outcome = effect(folder, '"echo x >> diary; exit 1"', "confirm: exit 2", "retries: 1").run()
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    assert (wait.type, wait.payload["probe"]) == ("in_doubt", "UNKNOWN")
    folder.outlast.answer(wait.id, {"choice": "skip", "result": "sent by hand", "why": "looked"})
    outcome = folder.resume()
    assert (outcome.status, outcome.result) == ("succeeded", {"send": "sent by hand"})
    assert folder.lines() == ["x"]


def test_an_effect_has_one_key_for_all_its_attempts_and_its_probe_is_given_it(folder: Folder) -> None:
    run = '"echo $OUTLAST_EFFECT_KEY >> diary; test $OUTLAST_ATTEMPT = 2"'
    effect(folder, run, "confirm: 'echo $OUTLAST_EFFECT_KEY >> diary; exit 1'", "retries: 1").run()
    assert len(folder.lines()) == 3
    assert len(set(folder.lines())) == 1


# -- approval ----------------------------------------------------------------------------------------

PAUSE = "- {id: plan, run: echo plan >> diary}\n- {id: ok, pause_for: approval, payload: {file: plan.md}"
AFTER = "}\n- {id: last, run: cp $OUTLAST_ANSWER answer; echo last >> diary}"


def test_an_approval_lets_the_run_go_on_and_is_given_to_the_next_steps(folder: Folder) -> None:
    outcome = folder.flow(PAUSE + AFTER).run()
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    assert (wait.type, wait.step, wait.payload["file"]) == ("approval", "ok", "plan.md")
    assert folder.run().status == "waiting"
    folder.outlast.answer(wait.id, {"approved": True, "comment": "fine"})
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["plan", "last"]
    assert json.loads(folder.read("answer")) == {"approved": True, "comment": "fine"}


def test_a_decline_ends_the_run(folder: Folder) -> None:
    outcome = folder.flow(PAUSE + AFTER).run()
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": False, "comment": "too dear"})
    record = folder.outlast.get(outcome.run_id)
    assert record.status == "aborted"
    assert record.error is not None
    assert (record.error["type"], record.error["message"]) == ("declined", "too dear")
    assert folder.lines() == ["plan"]


def test_a_decline_may_be_taken_note_of(folder: Folder) -> None:
    outcome = folder.flow(f"{PAUSE}, on_decline: continue{AFTER}").run()
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": False, "comment": "too dear"})
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["plan", "last"]
    assert json.loads(folder.read("answer")) == {"approved": False, "comment": "too dear"}
    assert folder.facts("ok@declined") == [{"goes_to": "continue", "comment": "too dear"}]


def test_a_decline_may_lead_back_to_a_step_which_is_then_done_again(folder: Folder) -> None:
    outcome = folder.flow(f"{PAUSE}, on_decline: plan{AFTER}").run()
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": False, "comment": "again"})
    outcome = folder.run()
    assert outcome.status == "waiting"
    assert folder.lines() == ["plan", "plan"]
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["plan", "plan", "last"]


def test_a_decline_that_leads_back_before_a_loop_lets_the_loop_begin_anew(folder: Folder) -> None:
    folder.flow(
        "- {id: plan, run: echo plan >> diary}\n"
        "- {id: fix, repeat: {max: 3, until: test $OUTLAST_ITERATION = 3, steps: "
        "[{id: author, run: echo $OUTLAST_ITERATION >> diary}]}}\n"
        "- {id: ok, pause_for: approval, on_decline: plan}\n"
        "- {id: last, run: echo last >> diary}"
    )
    outcome = folder.run()
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": False})
    outcome = folder.run()
    assert folder.lines() == ["plan", "1", "2", "3"] * 2
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert folder.run().status == "succeeded"
    assert folder.lines() == [*["plan", "1", "2", "3"] * 2, "last"]
    assert folder.outlast.verify().ok


def test_an_approval_in_a_branch_lets_the_other_branches_end_first(folder: Folder) -> None:
    folder.flow(
        "- id: both\n  parallel:\n    - {id: ok, pause_for: approval}\n"
        "    - {id: work, run: sleep 0.2; echo w >> diary}\n"
        "- {id: last, run: echo last >> diary}"
    )
    outcome = folder.run()
    assert outcome.status == "waiting"
    assert folder.lines() == ["w"]
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["w", "last"]


# -- what commands are told, and say -----------------------------------------------------------------


def test_a_command_finds_everything_that_is_promised(folder: Folder) -> None:
    folder.flow(
        "- id: first\n  run: |\n    env -0 > env-first\n"
        '    printf \'{"done": "did it", "next": "go on", "artifacts": ["x"], "state": {"n": 1}}\''
        " > $OUTLAST_ENVELOPE\n    printf '[1, 2]' > $OUTLAST_RESULT\n"
        "- {id: ok, pause_for: approval}\n"
        "- {id: second, run: 'env -0 > env-$OUTLAST_ATTEMPT; cp $OUTLAST_HANDOFF handoff-$OUTLAST_ATTEMPT; "
        'cp "$OUTLAST_PREVIOUS" previous; test $OUTLAST_ATTEMPT = 2\', retries: 1, env: {OWN: mine}}',
        head="inputs: {ticket: string, count: integer, more: json}\nenv: {MODEL: large}\n",
    )
    given = {"ticket": 'T "1"\n$x', "count": 3, "more": {"a": [1]}}
    outcome = folder.run(**given)
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    outcome = folder.run(**given)
    assert outcome.status == "succeeded"
    assert outcome.result == {"first": [1, 2]}
    first, once, twice = (told(folder, name) for name in ("env-first", "env-1", "env-2"))
    assert first["OUTLAST_RUN"] == outcome.run_id
    assert (first["OUTLAST_STEP"], first["OUTLAST_ATTEMPT"], first["OUTLAST_ITERATION"]) == ("first", "1", "0")
    assert first["OUTLAST_INPUT_TICKET"] == given["ticket"]
    assert (first["OUTLAST_INPUT_COUNT"], json.loads(first["OUTLAST_INPUT_MORE"])) == ("3", {"a": [1]})
    assert not {"OUTLAST_HANDOFF", "OUTLAST_ANSWER", "OUTLAST_PREVIOUS"} & set(first)
    assert (once["MODEL"], once["OWN"]) == ("large", "mine")
    assert "OWN" not in first
    assert "OUTLAST_ANSWER" in once
    assert "OUTLAST_PREVIOUS" not in once
    assert once["OUTLAST_EFFECT_KEY"] == twice["OUTLAST_EFFECT_KEY"] != first["OUTLAST_EFFECT_KEY"]
    handed = json.loads(folder.read("handoff-1"))
    assert handed == {
        "run": outcome.run_id,
        "step": "first",
        "agent": "",
        "status": "succeeded",
        "done": "did it",
        "next": "go on",
        "artifacts": ["x"],
        "state": {"n": 1},
        "result": [1, 2],
    }
    assert json.loads(folder.read("handoff-2")) == handed
    previous = json.loads(folder.read("previous"))
    assert (previous["attempt"], previous["status"], previous["exit"]) == (1, "failed", 1)


def told(folder: Folder, name: str) -> dict[str, str]:
    pairs = folder.read(name).rstrip("\0").split("\0")
    return dict(pair.split("=", 1) for pair in pairs)


def test_a_handoff_is_the_same_when_the_step_before_was_done_by_an_earlier_process(folder: Folder) -> None:
    said = '{"done": "did it", "state": {"n": 1, "word": "é"}}'
    folder.flow(
        f"- id: first\n  run: |\n    echo '{said}' > $OUTLAST_ENVELOPE; echo 7 > $OUTLAST_RESULT\n"
        "- {id: second, run: 'cat $OUTLAST_HANDOFF >> handoffs; echo >> handoffs; test -f good'}"
    )
    assert folder.run().status == "failed"
    folder.close()
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    first, second = map(json.loads, folder.lines("handoffs"))
    assert first == second
    assert first["state"] == {"n": 1, "word": "é"}
    assert first["result"] == 7


@pytest.mark.parametrize("name", ["RESULT", "ENVELOPE"])
@pytest.mark.parametrize("said", ["{broken", "NaN", "[1, 2", "\\x00"])
def test_a_word_that_is_not_json_fails_the_step_and_says_so(folder: Folder, name: str, said: str) -> None:
    folder.write("said", said)
    folder.flow(f"- {{id: a, run: cp said $OUTLAST_{name}}}")
    outcome = folder.run()
    assert outcome.status == "failed"
    assert f"OUTLAST_{name}" in outcome.error["message"], outcome.error


def test_an_envelope_with_an_unknown_field_fails_the_step(folder: Folder) -> None:
    folder.write("said", '{"done": "x", "colour": "red"}')
    outcome = folder.flow("- {id: a, run: cp said $OUTLAST_ENVELOPE}").run()
    assert outcome.status == "failed"
    assert "colour" in outcome.error["message"]


def test_results_are_of_any_size_up_to_the_limit_and_refused_beyond(folder: Folder) -> None:
    folder.flow("- {id: a, run: cp said $OUTLAST_RESULT}")
    folder.write("said", json.dumps("x" * 200_000))
    assert folder.run().result == {"a": "x" * 200_000}
    folder.write("said", json.dumps("x" * 1_100_000))
    outcome = folder.run()
    assert outcome.status == "failed"
    assert "limit" in outcome.error["message"]


# -- files that are read -----------------------------------------------------------------------------

READS = "- {id: a, run: echo a >> diary, reads: in.txt}\n- {id: b, run: echo b >> diary; test -f good}"


def test_a_step_runs_again_when_a_file_that_it_reads_was_changed_and_that_is_noted(folder: Folder) -> None:
    folder.write("in.txt", "one")
    assert folder.flow(READS).run().status == "failed"
    folder.write("in.txt", "two")
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b", "a", "b"]
    assert "inputs_changed" in str([(event.name, event.body) for event in folder.outlast.events(folder.run_id)])


def test_a_step_does_not_run_again_because_of_files_that_nobody_changed(folder: Folder) -> None:
    folder.write("in.txt", "one")
    folder.flow(READS).run()
    folder.write("good", "")
    os.utime(folder.write("in.txt", "one"), (1, 1))
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b", "b"]


def test_files_that_the_flow_itself_writes_do_not_make_a_reader_run_again(folder: Folder) -> None:
    folder.write("in.txt", "one")
    folder.flow(
        "- {id: a, run: echo a >> diary, reads: '*.txt'}\n"
        "- {id: b, run: echo changed > in.txt; echo b >> diary, writes: in.txt}\n"
        "- {id: c, run: test -f good}"
    )
    assert folder.run().status == "failed"
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b"]


# -- resume_to ---------------------------------------------------------------------------------------


def test_a_step_found_unfinished_leads_back_to_the_step_it_names(folder: Folder) -> None:
    folder.flow(
        "- {id: a, run: echo a >> diary}\n- {id: b, run: echo b >> diary}\n- {id: c, run: echo c >> diary}\n"
        "- {id: d, run: echo d >> diary; test -f good, resume_to: b}\n- {id: e, run: echo e >> diary}"
    )
    assert folder.run().status == "failed"
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == [*"abcd", *"bcd", "e"]
    assert folder.outlast.verify().ok


def test_going_back_does_not_repeat_an_effect(folder: Folder) -> None:
    folder.flow(
        "- {id: b, run: echo b >> diary}\n- {id: pay, run: echo pay >> diary, effect: true}\n"
        "- {id: d, run: echo d >> diary; test -f good, resume_to: b}"
    )
    assert folder.run().status == "failed"
    folder.write("good", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["b", "pay", "d", "b", "d"]


# -- the file and its folder -------------------------------------------------------------------------

TWO = "- {id: a, run: echo a >> diary}\n- {id: b, run: echo b >> diary; test -f good}"


def test_a_changed_finished_step_is_shown_and_not_done_again(folder: Folder) -> None:
    folder.flow(TWO).run()
    folder.write("good", "")
    folder.flow(TWO.replace("echo a >> diary", "echo other >> diary"))
    reasons = folder.outlast.plan(folder.run_id).verdict.reasons
    assert [(reason.code, reason.subject) for reason in reasons if reason.code == "code_changed"] == [
        ("code_changed", "a")
    ]
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b", "b"]


def test_comments_and_the_order_of_keys_are_no_change(folder: Folder) -> None:
    folder.flow(TWO).run()
    folder.flow("# a comment\n- run: echo a >> diary\n  id: a\n- {id: b, run: echo b >> diary; test -f good}")
    assert not [r for r in folder.outlast.plan(folder.run_id).verdict.reasons if r.code == "code_changed"]


def test_an_edited_command_is_what_the_next_attempt_runs(folder: Folder) -> None:
    folder.flow(TWO).run()
    folder.flow(TWO.replace("test -f good", "echo mended >> diary"))
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b", "b", "mended"]


def test_a_run_whose_flow_file_is_gone_says_which(folder: Folder) -> None:
    folder.flow(TWO).run()
    (folder.path / "flow.yaml").unlink()
    with pytest.raises(FlowNotFound, match=r"flow\.yaml"):
        folder.resume()
    folder.flow(TWO.replace("test -f good", "true"))
    assert folder.resume().status == "succeeded"


def test_a_moved_folder_changes_nothing(folder: Folder, tmp_path: Path) -> None:
    folder.flow(TWO).run()
    folder.close()
    shutil.move(folder.path, tmp_path / "elsewhere")
    moved = Folder(tmp_path / "elsewhere")
    moved.write("good", "")
    outcome = moved.resume()
    assert outcome.status == "succeeded"
    assert moved.lines() == ["a", "b", "b"]
    moved.close()


def test_two_runs_of_one_task_at_once_the_second_is_told_who_holds_it(folder: Folder) -> None:
    folder.flow("- {id: a, run: 'touch began; while ! test -f go; do sleep 0.05; done'}")
    started = folder.outlast.start(flow_file(folder.path / "flow.yaml"))
    with pytest.raises(RunHeld) as caught:
        folder.run()
    assert "held by this process" in str(caught.value)
    folder.write("go", "")
    assert started.outcome(60).status == "succeeded"


# -- time and secrets --------------------------------------------------------------------------------


def test_a_timeout_ends_the_command_and_what_it_started_and_the_next_attempt_is_told(folder: Folder) -> None:
    folder.flow(
        "- id: slow\n  timeout: 0.5\n  retries: 1\n  writes: out\n  run: |\n"
        '    echo attempt $OUTLAST_ATTEMPT; cp "$OUTLAST_PREVIOUS" previous && exit 0\n'
        "    echo half > out; (sleep 300 & echo $! > grandchild; wait)"
    )
    assert folder.run().status == "succeeded"
    assert folder.statuses("slow") == ["timed_out", "succeeded"]
    assert not lives(folder.number("grandchild"))
    previous = json.loads(folder.read("previous"))
    assert (previous["status"], previous["judgement"]) == ("timed_out", "partial")
    assert [file["path"] for file in previous["files"]] == ["out"]
    assert "attempt 1" in previous["tail"]
    kept = [facts["transcript"]["text"] for facts in folder.facts("slow")]
    assert ["attempt 1\n" in kept[0], "attempt 2\n" in kept[1]] == [True, True]


def test_five_megabytes_of_output_are_kept_whole(folder: Folder) -> None:
    folder.flow("- {id: loud, run: head -c 5000000 /dev/zero | tr '\\0' x}")
    assert folder.run().status == "succeeded"
    (facts,) = folder.facts("loud")
    assert facts["transcript"]["size"] == 5_000_000
    assert folder.outlast._executor.home.blobs.get(facts["transcript"]["blob"]) == b"x" * 5_000_000


def test_a_secret_is_in_no_file_and_in_no_output(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "s3cr3t-of-the-test"
    monkeypatch.setenv("API_TOKEN", secret)
    folder.flow(
        "- id: leak\n  retries: 1\n  writes: out\n  run: |\n"
        "    echo token $API_TOKEN; echo $API_TOKEN > out; printf '\"%s\"' $API_TOKEN > $OUTLAST_RESULT\n"
        '    printf \'{"done": "%s"}\' $API_TOKEN > $OUTLAST_ENVELOPE; test $OUTLAST_ATTEMPT = 2\n'
        "- {id: fail, run: 'echo $API_TOKEN >&2; exit 3'}",
        head="secrets: [API_TOKEN]\n",
    )
    outcome = folder.run()
    assert outcome.status == "failed"
    assert secret not in str(outcome)
    assert secret not in "".join(capfd.readouterr())
    folder.close()
    assert [file for file, raw in folder.everything() if secret.encode() in raw] == []
    assert folder.facts("fail")[0]["masked"] == 1


def test_a_missing_secret_is_demanded_before_anything_runs(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_TOKEN", raising=False)
    folder.flow("- {id: a, run: echo a >> diary}", head="secrets: [API_TOKEN]\n")
    with pytest.raises(Exception, match="API_TOKEN"):
        folder.run()
    assert folder.lines() == []
    assert folder.outlast.runs() == []


# -- what is odd ---------------------------------------------------------------------------------------


def test_a_flow_that_was_read_before_its_file_changed_is_not_remembered_as_the_new_file(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo old >> diary; exit 3}")
    was = flow_file(folder.path / "flow.yaml")
    folder.flow("- {id: a, run: echo new >> diary}")
    assert folder.outlast.run(was).status == "failed"
    assert folder.resume().status == "succeeded"
    assert folder.lines() == ["old", "new"]


def test_a_probes_result_is_what_this_probe_printed_on_stdout(folder: Folder) -> None:
    folder.flow("- id: a\n  effect: true\n  run: exit 3\n  confirm: |\n    echo careful >&2\n    echo '{\"id\": 1}'")
    outcome = folder.run()
    assert (outcome.status, outcome.result) == ("succeeded", {"a": {"id": 1}})


def test_what_an_earlier_probe_left_is_no_part_of_the_next_ones_result(folder: Folder) -> None:
    folder.flow(
        "- id: a\n  effect: true\n  run: exit 3\n  confirm: 'test -f asked && echo 1 || { touch asked; exit 5; }'"
    )
    key = folder.outlast.receipts(folder.run().run_id)[0].key
    stale = folder.path / ".outlast/default/work" / folder.run_id / f"probe-{key}"
    stale.mkdir(parents=True)
    (stale / "transcript").write_text("half of what a killed probe said")
    assert folder.resume().result == {"a": 1}


def test_a_condition_that_a_signal_ended_decides_nothing(folder: Folder) -> None:
    folder.flow("- {id: a, run: echo a >> diary, when: kill -9 $$}")
    assert folder.run().status == "failed"
    assert folder.lines() == []


def test_a_result_that_is_a_link_or_a_pipe_is_refused(folder: Folder) -> None:
    folder.flow("- {id: a, run: ln -s /etc/passwd $OUTLAST_RESULT}\n- {id: b, run: mkfifo $OUTLAST_ENVELOPE}")
    outcome = folder.run()
    assert (outcome.status, "OUTLAST_RESULT" in outcome.error["message"]) == ("failed", True)
    folder.flow("- {id: a, run: 'true'}\n- {id: b, run: mkfifo $OUTLAST_ENVELOPE}")
    outcome = folder.run()
    assert (outcome.status, "OUTLAST_ENVELOPE" in outcome.error["message"]) == ("failed", True)


def test_a_pipe_among_the_declared_files_does_not_fail_the_step(folder: Folder) -> None:
    folder.flow("- {id: a, run: mkfifo out, writes: out}")
    assert folder.run().status == "succeeded"


def test_a_disk_that_has_no_room_for_a_transcript_ends_the_run_clearly(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.flow("- {id: a, run: head -c 9000 /dev/zero}")

    adopt, full = FolderBlobs.adopt, [True]

    def adopt_if_there_is_room(*given: Any) -> str:
        if full:
            raise DiskFull("the blobs")
        return adopt(*given)

    monkeypatch.setattr(FolderBlobs, "adopt", adopt_if_there_is_room)
    with pytest.raises(DiskFull):
        folder.run()
    full.clear()
    assert folder.resume().status == "succeeded"


def test_a_work_folder_that_vanishes_while_a_command_runs_fails_the_step_and_hangs_nothing(folder: Folder) -> None:
    folder.flow("- {id: a, run: 'test -f done || { touch done; rm -r .outlast/default/work; }; echo a >> diary'}")
    assert folder.run().status == "failed"
    assert folder.resume().status == "succeeded"
    assert folder.lines() == ["a", "a"]


def test_a_rewind_closes_the_questions_that_will_be_asked_again(folder: Folder) -> None:
    folder.flow("- {id: plan, run: echo plan >> diary}\n- {id: ok, pause_for: approval}")
    (old,) = folder.run().interrupts
    folder.outlast.rewind(folder.run_id, "plan")
    with pytest.raises(AlreadyAnswered):
        folder.outlast.answer(old.id, {"approved": True})
    (new,) = folder.resume().interrupts
    folder.outlast.answer(new.id, {"approved": True})
    assert folder.resume().status == "succeeded"
    assert folder.lines() == ["plan", "plan"]


def test_the_plan_names_finished_steps_that_the_file_has_no_more(folder: Folder) -> None:
    steps = "- {id: a, run: echo a >> diary}\n- {id: pay, effect: true, run: echo pay >> diary}\n- {id: c, run: exit 3}"
    assert folder.flow(steps).run().status == "failed"
    folder.flow(steps.replace("pay,", "pay2,"))
    plan = folder.outlast.plan(folder.run_id)
    (reason,) = [one for one in plan.verdict.reasons if one.code == "code_changed"]
    assert (reason.subject, reason.found, plan.verdict.word) == ("pay", "no step", "candidate")
