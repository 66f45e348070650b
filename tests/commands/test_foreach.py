"""`foreach` and limits: each item has receipts of its own, keeps no other back, and is known again on resume."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import flow_file
from outlast.errors import AnswerInvalid

from ..crash.command_folder import KILLED, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def each(folder: Folder, what: str, run: str = 'printf "%s\\n" "$OUTLAST_ITEM" >> diary', more: str = "") -> Folder:
    return folder.flow(
        f"- id: each\n  foreach:\n    {what}\n    steps:\n    - id: do\n      run: |-\n        {run}\n{more}"
    )


def labels(folder: Folder) -> list[str]:
    return [one.label for one in folder.receipts("do")]


def test_the_steps_run_once_for_each_item_of_a_list_in_its_order(folder: Folder) -> None:
    assert each(folder, 'items: [a, two words, "", 3, {b: [1]}]').run().status == "succeeded"
    assert folder.lines() == ["a", "two words", "", "3", '{"b": [1]}']
    assert folder.facts("each") == [{"items": 5}]


def test_the_lines_of_a_file_are_items_and_empty_ones_are_not(folder: Folder) -> None:
    (folder.path / "list.txt").write_bytes("a\r\n\n  b c  \n   \n'ü' 😀\n".encode())
    assert each(folder, "lines: list.txt").run().status == "succeeded"
    assert folder.lines() == ["a", "  b c  ", "'ü' 😀"]


def test_an_item_has_a_receipt_of_its_own_and_a_label_that_names_it(folder: Folder) -> None:
    long = "x" * 10_000
    given = ["a.txt", "src/a.txt", "src_a.txt", "../x", "a b", long, "a.txt"]
    assert each(folder, f"items: {json.dumps(given)}").run().status == "succeeded"
    found = labels(folder)
    assert found[0] == "each[a.txt]/do"
    assert found[2] == "each[src_a.txt]/do"
    assert found[6] == "each[a.txt#2]/do"
    assert found[1].startswith("each[src_a.txt#")
    assert len(set(found)) == 7
    assert all(len(label) < 80 and label.count("/") == 1 for label in found)
    assert folder.lines() == given


def test_one_bad_item_keeps_no_other_from_being_done_and_a_resume_does_that_one_alone(folder: Folder) -> None:
    run = "echo $OUTLAST_ITEM >> diary; test $OUTLAST_ITEM != b -a $OUTLAST_ITEM != c -o -f mended"
    each(folder, "items: [a, b, c, d]", run)
    outcome = folder.run()
    assert outcome.status == "failed"
    assert "2 items of each failed" in str(outcome.error)
    assert folder.lines() == ["a", "b", "c", "d"]
    plan = folder.outlast.plan(folder.run_id)
    assert plan.of("retry") == ("each[b]/do", "each[c]/do")
    assert plan.of("reuse") == ("each[a]/do", "each[d]/do")
    folder.write("mended", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b", "c", "d", "b", "c"]


def test_an_item_can_be_skipped_by_its_label(folder: Folder) -> None:
    run = "echo $OUTLAST_ITEM >> diary; test $OUTLAST_ITEM != b/b -o -f mended"
    each(folder, "items: [a, b/b, c]", run)
    assert folder.run().status == "failed"
    (label,) = folder.outlast.plan(folder.run_id).of("retry")
    folder.outlast.skip(folder.run_id, label, why="not needed")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b/b", "c"]


def test_a_changed_list_replays_the_items_that_are_equal(folder: Folder) -> None:
    run = "echo $OUTLAST_ITEM >> diary; test $OUTLAST_ITEM != bad"
    assert each(folder, "items: [a, b, bad]", run).run().status == "failed"
    assert each(folder, "items: [new, b, a]", run).run().status == "succeeded"
    assert folder.lines() == ["a", "b", "bad", "new"]


def test_changed_lines_replay_the_items_that_are_equal(folder: Folder) -> None:
    run = "echo $OUTLAST_ITEM >> diary; test $OUTLAST_ITEM != bad"
    folder.write("list", "a\nbad\nb\n")
    assert each(folder, "lines: list", run).run().status == "failed"
    folder.write("list", "new\nb\na\n")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "bad", "b", "new"]


def test_lines_of_a_file_that_is_gone_are_what_they_were(folder: Folder) -> None:
    folder.write("list", "a\nb\n")
    each(folder, "lines: list", more="- {id: last, run: rm -f list; test -f ok}")
    assert folder.run().status == "failed"
    folder.write("ok", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["a", "b"]
    assert folder.outlast.replay(folder.run_id).divergences == ()


def test_lines_that_the_flow_itself_writes_stay_as_they_were_read(folder: Folder) -> None:
    folder.flow(
        "- {id: make, run: seq 2 > list, writes: list}\n"
        "- {id: each, foreach: {lines: list, steps: [{id: do, run: echo $OUTLAST_ITEM >> diary}]}}\n"
        "- {id: more, run: seq 9 > list; test -f ok, writes: list}"
    )
    assert folder.run().status == "failed"
    folder.write("ok", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"a\n\xff\n", "line 2 is not UTF-8"), (b"a\n\nb\0\n", "line 3 holds a NUL"),
     (b"x" * 140_000, "line 1 has 140,000 bytes"), (b"1\n" * 100_001, "100,001 lines")],
)  # fmt: skip
def test_a_file_that_gives_no_items_fails_the_run_and_says_why(folder: Folder, content: bytes | None, why: str) -> None:
    if content is not None:
        (folder.path / "list").write_bytes(content)
    outcome = each(folder, "lines: list").run()
    assert (outcome.status, outcome.error["type"]) == ("failed", "outlast.errors:ItemsUnreadable")
    assert why in str(outcome.error)
    folder.write("list", "fine\n")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["fine"]


TOGETHER = (
    "mkdir lock.$$; ls -d lock.* | wc -l >> seen; "
    "for i in $(seq 200); do test $(ls -d lock.* | wc -l) -ge {least} && break; sleep 0.02; done; "
    "ls -d lock.* | wc -l >> seen; rmdir lock.$$"
)


def at_once(folder: Folder) -> int:
    return max(map(int, folder.lines("seen")))


def test_no_more_items_than_the_limit_are_worked_on_at_once(folder: Folder) -> None:
    script = folder.write("work.sh", TOGETHER.format(least=3) + "\n")
    assert each(folder, "items: [a, b, c, d, e, f, g, h]\n    limit: 3", f"sh {script}").run().status == "succeeded"
    assert at_once(folder) == 3


def test_without_a_limit_one_item_comes_after_the_other(folder: Folder) -> None:
    script = folder.write("work.sh", TOGETHER.format(least=1) + "\n")
    assert each(folder, "items: [a, b, c]", f"sh {script}").run().status == "succeeded"
    assert at_once(folder) == 1


def test_no_more_branches_than_the_limit_run_at_once(folder: Folder) -> None:
    script = folder.write("work.sh", TOGETHER.format(least=2) + "\n")
    steps = "".join(f"    - {{id: b{at}, run: sh {script}}}\n" for at in range(5))
    folder.flow(f"- id: all\n  parallel:\n    limit: 2\n    steps:\n{steps}")
    assert folder.run().status == "succeeded"
    assert at_once(folder) == 2
    assert len(folder.receipts()) == 5


def test_an_item_that_waits_keeps_no_other_back_and_goes_on_when_it_is_answered(folder: Folder) -> None:
    folder.flow(
        "- id: each\n  foreach:\n    items: [a, b]\n    steps:\n"
        "    - {id: ask, pause_for: decision, when: test $OUTLAST_ITEM = a}\n"
        "    - {id: do, run: 'echo $OUTLAST_ITEM $(cat $OUTLAST_ANSWER) >> diary'}"
    )
    outcome = folder.run()
    assert outcome.status == "waiting"
    assert folder.lines() == ["b"]
    (wait,) = outcome.interrupts
    assert "each[a]" in wait.step
    folder.outlast.answer(wait.id, 7)
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["b", "a 7"]


def test_a_probe_and_the_conditions_of_an_item_know_it(folder: Folder) -> None:
    folder.flow(
        "- id: each\n  foreach:\n    items: [a, b]\n    steps:\n"
        '    - {id: e, effect: true, run: exit 9, confirm: \'echo "\\"$OUTLAST_ITEM\\""\'}\n'
        "    - id: r\n      repeat:\n        max: 1\n        until: test $OUTLAST_ITEM\n"
        "        steps: [{id: do, run: echo $OUTLAST_ITEM >> diary}]"
    )
    assert folder.run().status == "succeeded"
    assert [one.result for one in folder.receipts("e") if one.delivered] == ["a", "b"]
    assert folder.lines() == ["a", "b"]


def test_a_loop_in_an_item_and_an_item_in_a_loop_keep_apart(folder: Folder) -> None:
    folder.flow(
        "- id: out\n  repeat:\n    max: 2\n    until: test $OUTLAST_ITERATION = 2\n    steps:\n"
        "    - id: each\n      foreach:\n        items: ['1', '2']\n        steps:\n"
        "        - {id: do, run: 'echo $OUTLAST_ITERATION.$OUTLAST_ITEM >> diary; test -f ok -o $OUTLAST_ITEM = 1'}"
    )
    assert folder.run().status == "failed"
    folder.write("ok", "")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["1.1", "1.2", "1.2", "2.1", "2.2"]


def test_the_results_of_the_items_are_the_result_of_the_foreach_in_their_order(folder: Folder) -> None:
    folder.flow(
        "- id: each\n  foreach:\n    items: [3, 1, 2]\n    limit: 3\n    steps:\n"
        "    - {id: wait, run: 'sleep 0.0$OUTLAST_ITEM'}\n"
        "    - {id: do, run: test $OUTLAST_ITEM = 1 || echo $OUTLAST_ITEM > $OUTLAST_RESULT}\n"
        "- {id: last, run: 'cp $OUTLAST_HANDOFF given; test -f ok'}"
    )
    assert folder.run().status == "failed"
    handed = json.loads(folder.read("given"))
    assert (handed["step"], handed["result"]) == ("each", [3, None, 2])
    folder.write("ok", "")
    assert folder.run().result == {"each": [3, None, 2]}
    assert json.loads(folder.read("given")) == handed
    assert folder.receipts("each")[0].result == [3, None, 2]


def test_outside_of_a_foreach_no_command_has_an_item(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_ITEM", "of somebody else")
    folder.flow("- {id: a, run: 'echo ${OUTLAST_ITEM-none} >> diary'}")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["none"]


def test_items_have_files_of_their_own_in_the_mirror(folder: Folder) -> None:
    assert each(folder, "items: [a, b/c]", "echo $OUTLAST_ITEM > $OUTLAST_RESULT.x").run().status == "succeeded"
    names = sorted(path.name for path in (folder.path / ".outlast").glob("runs/*/build/receipts/do*"))
    assert names[0] == "do~a-main.json"
    assert len(names) == 2


def test_items_in_items_have_files_of_their_own_in_the_mirror_too(folder: Folder) -> None:
    inner = "{id: in, foreach: {items: [c, b.c], steps: [{id: do, run: 'true'}]}}"
    folder.flow(f"- {{id: out, foreach: {{items: [a.b, a], steps: [{inner}]}}}}")
    assert folder.run().status == "succeeded"
    names = {path.name for path in (folder.path / ".outlast").glob("runs/*/build/receipts/do*")}
    assert len(names) == 4


@pytest.mark.crash
def test_a_foreach_that_is_killed_repeats_only_the_items_that_were_under_way(folder: Folder) -> None:
    die = "touch second; kill -9 $RUNTIME; sleep 60"
    run = f"echo $OUTLAST_ITEM >> diary; test $OUTLAST_ITEM != c -o -f second || {{ {die}; }}"
    each(folder, "items: [a, b, c, d]", run)
    assert folder.cli("run", "flow.yaml").code == KILLED
    assert folder.cli("run", "flow.yaml").code == 0
    assert folder.lines() == ["a", "b", "c", "c", "d"]


def test_many_items_cost_little_more_each_on_resume(folder: Folder) -> None:
    folder.write("list", "".join(f"item {at}\n" for at in range(60)))
    each(folder, "lines: list\n    limit: 4", ": $OUTLAST_ITEM", "- {id: last, run: test -f ok}")
    assert folder.run().status == "failed"
    folder.write("ok", "")
    outcome = folder.outlast.run(flow_file(folder.path / "flow.yaml"))
    assert outcome.status == "succeeded"
    assert len(folder.receipts("do")) == 60


def test_the_plan_knows_whether_the_lines_are_still_those_that_were_read(folder: Folder) -> None:
    folder.write("list.txt", "a\nb\n")
    each(folder, "lines: list.txt", "test $OUTLAST_ITEM = a")
    assert folder.run().status == "failed"
    plan = folder.outlast.plan(folder.run_id)
    assert {step.label: step.action for step in plan.steps} == {
        "each@lines": "reuse", "each[a]/do": "reuse", "each[b]/do": "retry",
    }  # fmt: skip
    folder.write("list.txt", "a\nc\n")
    plan = folder.outlast.plan(folder.run_id)
    assert {step.label: step.action for step in plan.steps} == {
        "each@lines": "redo", "each[a]/do": "reuse", "each[b]/do": "leave",
    }  # fmt: skip
    (folder.path / "list.txt").unlink()
    assert "each@lines" in folder.outlast.plan(folder.run_id).of("reuse")


def test_the_plan_goes_no_further_in_an_item_than_to_what_a_person_decides(folder: Folder) -> None:
    folder.flow(
        "- id: each\n  foreach:\n    items: [a, b]\n    steps:\n"
        "    - {id: one, run: echo 1 > $OUTLAST_ITEM.txt; test $OUTLAST_ITEM = b, writes: '*.txt', on_partial: ask}\n"
        "    - {id: two, run: echo $OUTLAST_ITEM >> diary}"
    )
    assert folder.run().status == "failed"
    plan = folder.outlast.plan(folder.run_id)
    assert list(plan.of("decide")) == ["each[a]/one"]
    assert "each[a]/two" not in plan.ahead
    assert folder.resume().status == "waiting"
    assert folder.lines() == ["b"]


def test_going_back_to_a_foreach_does_its_items_again_also_when_it_is_not_over(folder: Folder) -> None:
    folder.write("list.txt", "a\nb\n")
    run = "echo $OUTLAST_ITEM >> diary; test $OUTLAST_ITEM = a -o -f ok"
    each(folder, "lines: list.txt", run, "- {id: end, run: 'false'}")
    assert folder.run().status == "failed"
    folder.outlast.rewind(folder.run_id, "each")
    assert folder.resume().status == "failed"
    folder.write("ok", "")
    assert folder.resume().status == "failed"
    assert folder.lines() == ["a", "b", "a", "b", "b"]
    for _ in range(2):
        folder.outlast.rewind(folder.run_id, "each")
        assert folder.resume().status == "failed"
    assert folder.lines() == ["a", "b", "a", "b", "b", "a", "b", "a", "b"]
    assert [one.attempt for one in folder.receipts("each")] == [1, 2, 3]


def test_going_back_to_a_repeat_does_its_rounds_again(folder: Folder) -> None:
    folder.flow(
        "- {id: a, run: echo a >> diary}\n"
        "- id: fix\n  repeat: {max: 3, until: test $OUTLAST_ITERATION = 2, steps: [{id: r, run: echo r >> diary}]}\n"
        "- {id: end, run: 'false', resume_to: fix}"
    )
    assert folder.run().status == "failed"
    assert folder.resume().status == "failed"
    folder.outlast.rewind(folder.run_id, "fix")
    assert folder.resume().status == "failed"
    assert folder.lines() == ["a", "r", "r", "r", "r", "r", "r"]


def test_a_fork_from_a_foreach_does_its_items_anew(folder: Folder) -> None:
    each(folder, "items: [a, b]", "echo $OUTLAST_ITEM >> diary")
    assert folder.run().status == "succeeded"
    fork = folder.outlast.fork(folder.run_id, "each")
    assert folder.outlast.resume(fork.id).status == "succeeded"
    assert folder.lines() == ["a", "b", "a", "b"]


# -- items that are done at once and declare the same files --------------------------------------------

# `b` fails while the file of `a` is written: it begins before that and ends after it.
BESIDE = (
    "case $OUTLAST_ITEM in "
    "a) until test -e b.began; do sleep 0.01; done; echo a >> a.txt; touch a.done;; "
    "b) touch b.began; until test -e a.done; do sleep 0.01; done; echo b >> b.txt; test -e ok;; esac"
)


def beside(folder: Folder, more: str = "") -> Folder:
    script = folder.write("work.sh", BESIDE + "\n")
    return folder.flow(
        "- id: each\n  foreach:\n    items: [a, b]\n    limit: 2\n    steps:\n"
        f"    - {{id: do, run: sh {script}, writes: '*.txt'{more}}}"
    )


def test_an_item_that_is_done_again_never_takes_away_what_another_wrote_meanwhile(folder: Folder) -> None:
    assert beside(folder, ", on_partial: restore").run().status == "failed"
    (step,) = folder.outlast.plan(folder.run_id).of("decide")
    assert step == "each[b]/do"
    folder.write("ok", "")
    outcome = folder.run()
    assert outcome.status == "waiting"
    assert "nobody knows whose" in str(outcome.interrupts[0].payload["why"])
    assert (folder.lines("a.txt"), folder.lines("b.txt")) == (["a"], ["b"])
    folder.outlast.answer(outcome.interrupts[0].id, {"choice": "keep"})
    assert folder.run().status == "succeeded"
    assert (folder.lines("a.txt"), folder.lines("b.txt")) == (["a"], ["b", "b"])


@pytest.mark.parametrize("wish", ["restore", "ask"])
def test_putting_back_what_items_share_is_not_offered(folder: Folder, wish: str) -> None:
    assert beside(folder, f", on_partial: {wish}").run().status == "failed"
    (step,) = [each for each in folder.outlast.plan(folder.run_id).steps if each.action == "decide"]
    assert step.partial == ("keep",)
    (wait,) = folder.run().interrupts
    assert wait.choices == ("keep", "skip", "abort")
    with pytest.raises(AnswerInvalid, match="keep, skip, abort"):
        folder.outlast.answer(wait.id, {"choice": "restore"})
    assert folder.outlast.answer(wait.id, {"choice": "keep"}).status == "answered"


def test_that_left_files_may_be_another_items_is_said_in_the_receipt_and_in_the_plan(folder: Folder) -> None:
    assert beside(folder).run().status == "failed"
    assert folder.receipts("do")[-1].facts["left"]["shared"] == "each"
    (reason,) = [each for each in folder.outlast.plan(folder.run_id).verdict.reasons if each.code == "partial_work"]
    assert "another part of each" in reason.found
    assert "--partial restore" not in reason.advice
    folder.write("ok", "")
    assert folder.run().status == "succeeded"


def test_files_of_items_that_were_done_at_once_are_of_the_foreach_and_of_no_item(folder: Folder) -> None:
    folder.write("ok", "")
    assert beside(folder).run().status == "succeeded"
    (folder.path / "a.txt").unlink()
    outputs = {one.path: one for one in folder.outlast.outputs(folder.run_id)}
    assert {one.step for one in outputs.values()} == {"each"}
    assert outputs["a.txt"].found == "missing"
    done = folder.outlast.restore_outputs(folder.run_id, step="each")
    assert [one.path for one in done.restored] == ["a.txt"]
    assert folder.lines("a.txt") == ["a"]


def test_files_of_items_that_come_one_after_the_other_are_each_items_own(folder: Folder) -> None:
    folder.flow(
        "- id: each\n  foreach:\n    items: [a, b]\n    steps:\n"
        "    - {id: do, run: 'echo x >> $OUTLAST_ITEM.txt; test $OUTLAST_ITEM = a -o -e ok', writes: '*.txt',"
        " on_partial: restore}"
    )
    assert folder.run().status == "failed"
    folder.write("ok", "")
    assert folder.run().status == "succeeded"
    assert (folder.lines("a.txt"), folder.lines("b.txt")) == (["x"], ["x"])
    assert {one.path: one.step for one in folder.outlast.outputs(folder.run_id)} == {
        "a.txt": "each[a]/do", "b.txt": "each[b]/do",
    }  # fmt: skip


# -- branches that are done at once and declare the same files -----------------------------------------


# `two` fails while the file of `one` is written: it begins before that and ends after it.
ONE = "until test -e two.began; do sleep 0.01; done; echo 1 >> one.txt; touch one.done"
TWO = "touch two.began; until test -e one.done; do sleep 0.01; done; echo 2 >> two.txt; test -e ok"


def branches(folder: Folder, one: str, two: str, more: str = "") -> Folder:
    return folder.flow(
        "- id: both\n  parallel:\n"
        f"    - {{id: one, run: '{ONE}', writes: '{one}'{more}}}\n"
        f"    - {{id: two, run: '{TWO}', writes: '{two}'{more}}}"
    )


@pytest.mark.parametrize(("one", "two"), [("*.txt", "*.txt"), (".", "two*"), ("[o]*.t?t", "**/*.txt")])
def test_a_branch_that_is_done_again_never_takes_away_what_another_wrote_meanwhile(
    folder: Folder, one: str, two: str
) -> None:
    assert branches(folder, one, two, ", on_partial: restore").run().status == "failed"
    assert folder.outlast.plan(folder.run_id).of("decide") == ("two",)
    assert folder.receipts("two")[-1].facts["left"]["shared"] == "both"
    folder.write("ok", "")
    outcome = folder.run()
    assert outcome.status == "waiting"
    assert "nobody knows whose" in str(outcome.interrupts[0].payload["why"])
    assert (folder.lines("one.txt"), folder.lines("two.txt")) == (["1"], ["2"])
    folder.outlast.answer(outcome.interrupts[0].id, {"choice": "keep"})
    assert folder.run().status == "succeeded"
    assert (folder.lines("one.txt"), folder.lines("two.txt")) == (["1"], ["2", "2"])


def test_files_of_branches_that_were_done_at_once_are_of_the_parallel_and_of_no_branch(folder: Folder) -> None:
    folder.write("ok", "")
    assert branches(folder, "*.txt", "*.txt").run().status == "succeeded"
    assert {one.path: one.step for one in folder.outlast.outputs(folder.run_id)} == {
        "one.txt": "both", "two.txt": "both",
    }  # fmt: skip


@pytest.mark.parametrize(("one", "two"), [("one*", "two*"), ("one.txt", "*wo.txt"), ("sub/one.txt", "two.txt")])
def test_files_of_branches_that_declare_others_are_each_branchs_own(folder: Folder, one: str, two: str) -> None:
    assert branches(folder, one, two, ", on_partial: restore").run().status == "failed"
    assert "shared" not in folder.receipts("two")[-1].facts["left"]
    folder.write("ok", "")
    assert folder.run().status == "succeeded"
    assert (folder.lines("one.txt"), folder.lines("two.txt")) == (["1"], ["2"])


def test_files_of_branches_of_which_one_comes_after_the_other_are_each_branchs_own(folder: Folder) -> None:
    folder.flow(
        "- id: both\n  parallel:\n    limit: 1\n    steps:\n"
        "    - {id: one, run: 'echo 1 >> one.txt', writes: '*.txt'}\n"
        "    - {id: two, run: 'echo 2 >> two.txt', writes: '*.txt'}"
    )
    assert folder.run().status == "succeeded"
    assert {one.path: one.step for one in folder.outlast.outputs(folder.run_id)} == {
        "one.txt": "one", "two.txt": "two",
    }  # fmt: skip
