"""Flows of commands, killed: what a dead runtime leaves is found, named, ended or waited for; nothing is done twice."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.commands import leftovers
from outlast.commands import loops as marks
from outlast.errors import Contested
from outlast.files import partial
from outlast.home.home import run_row
from outlast.ledger.journal import decode_header, facts_in

from ..kit import ledgers
from ..kit.commands import lives, wait_until
from .command_folder import KILLED, Child, Folder, Said

pytestmark = pytest.mark.crash

DIE = "{ kill -9 $RUNTIME; sleep 300; }"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def once(command: str, name: str = "died") -> str:
    """The command where it is run the first time, nothing later."""
    return f"test -f {name} || {{ touch {name}; {command}; }}"


def killed(said: Said) -> Said:
    assert said.code == KILLED, (said.out, said.err)
    return said


def well(said: Said, code: int = 0) -> Said:
    assert said.code == code, (said.code, said.out, said.err)
    return said


def is_sound(folder: Folder) -> bool:
    return bool(well(folder.cli("verify", "--json")).json["ok"])


# -- partial work ------------------------------------------------------------------------------------

# Until what it printed has been read: what is still in the pipe when the runtime dies, dies with it.
HEARD = "while ! grep -qs attempt .outlast/default/work/*/*/transcript; do sleep 0.01; done"
# It writes one of two files, and dies; the next attempt writes what it finds, and both.
WRITER = """\
- id: write
  writes: [one, two]
  on_partial: {on_partial}
  run: |
    echo $$ > pid; cat one > found; cp "$OUTLAST_PREVIOUS" previous 2> /dev/null || true; echo attempt $OUTLAST_ATTEMPT
    echo half > one
    test -f died || {{ touch died; {heard}; kill -9 $RUNTIME; sleep 300; }}
    echo whole > one; echo whole > two
- {{id: last, run: echo last >> diary}}
"""


def write_and_die(folder: Folder, on_partial: str) -> Folder:
    folder.write("one", "before\n")
    killed(folder.flow(WRITER.format(on_partial=on_partial, heard=HEARD)).cli("run", "flow.yaml"))
    assert folder.read("one") == "half\n"
    return folder


def is_over(folder: Folder) -> bool:
    both = folder.read("one") == folder.read("two") == "whole\n"
    return both and folder.lines() == ["last"] and is_sound(folder)


def test_after_a_kill_the_command_is_gone_and_what_it_left_is_kept_and_shown_to_the_next(folder: Folder) -> None:
    write_and_die(folder, "keep")
    wait_until(lambda: not lives(folder.number("pid")), "the end of the command")
    well(folder.cli("resume"))
    assert folder.read("found") == "half\n"
    previous = json.loads(folder.read("previous"))
    assert (previous["attempt"], previous["status"], previous["judgement"]) == (1, "crashed", "partial")
    assert [(file["path"], file["change"]) for file in previous["files"]] == [("one", "changed")]
    assert previous["tail"] == "attempt 1\n"
    assert is_over(folder)


def test_what_a_killed_attempt_left_and_printed_stays_on_the_record_when_the_next_one_succeeded(folder: Folder) -> None:
    write_and_die(folder, "keep")
    well(folder.cli("resume"))
    (event,) = folder.events("run.left")
    assert (event.body["attempt"], event.body["left"]["judgement"]) == (1, "partial")
    first, second = folder.outlast.logs(folder.run_id, "write")
    assert (first.status, b"".join(first.pieces())) == ("crashed", b"attempt 1\n")
    assert (second.status, b"".join(second.pieces())) == ("succeeded", b"attempt 2\n")
    followed = [(log.attempt, piece) for log, piece in folder.outlast.follow_logs(folder.run_id, "write") if piece]
    assert followed == [(1, b"attempt 1\n"), (2, b"attempt 2\n")]
    assert is_over(folder)


PRINTER = """\
- id: say
  run: "test -f died || {{ touch died; printf '{word} attempt'; {heard}; kill -9 $RUNTIME; sleep 300; }}"
"""


@pytest.mark.parametrize(
    ("word", "printed", "files"),
    [("one", b"one attempt", 0), ("\\\\377", b"\xff attempt", 1), ("%05000d", b"0" * 5000 + b" attempt", 1)],
    ids=["short text", "no text", "long"],
)
def test_what_a_killed_attempt_printed_is_kept_byte_for_byte_and_short_text_without_a_file_to_sync(
    folder: Folder, word: str, printed: bytes, files: int
) -> None:
    killed(folder.flow(PRINTER.format(word=word, heard=HEARD)).cli("run", "flow.yaml"))
    well(folder.cli("resume"))
    first, _ = folder.outlast.logs(folder.run_id, "say")
    assert (first.status, b"".join(first.pieces())) == ("crashed", printed)
    assert len([*folder.path.glob(".outlast/default/blobs/*/*")]) == files
    assert is_sound(folder)


def test_of_what_a_killed_attempt_left_git_is_asked_once_for_the_record(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(folder.flow(PRINTER.format(word="one", heard=HEARD)).cli("run", "flow.yaml"))
    asked, changed = list[Path](), partial.changed_by_git

    def ask(root: Path) -> tuple[str, ...]:
        asked.append(root)
        return (*changed(root), "seen.by.git")

    monkeypatch.setattr(partial, "changed_by_git", ask)
    folder.outlast.resume(folder.run_id).unwrap()
    assert len(asked) == 1
    row = run_row(folder.outlast._home, folder.run_id)
    entries = folder.outlast._home.store.read(lambda look: look.journal_of(row.key))
    (left,) = (facts_in(each) for each in entries if b'"run","left"' in each.header)
    assert "seen.by.git" in left["left"]["git"]


def test_what_an_older_version_kept_of_a_killed_attempt_is_still_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(folder.flow(PRINTER.format(word="one", heard=HEARD)).cli("run", "flow.yaml"))
    monkeypatch.setattr(leftovers, "kept", lambda path, size, blobs, *, exact: blobs.adopt(path))
    monkeypatch.setattr(leftovers, "blobs_in", lambda name: (name,))
    folder.outlast.resume(folder.run_id).unwrap()
    first, _ = folder.outlast.logs(folder.run_id, "say")
    assert (first.status, b"".join(first.pieces())) == ("crashed", b"one attempt")
    assert is_sound(folder)


@pytest.mark.parametrize("how", ["declared", "said"])
def test_after_a_kill_files_are_put_back_and_what_gave_way_is_kept(folder: Folder, how: str) -> None:
    write_and_die(folder, "restore" if how == "declared" else "keep")
    well(folder.cli("resume", *(() if how == "declared" else ("--partial", "restore"))))
    assert folder.read("found") == "before\n"
    assert is_over(folder)
    (event,) = folder.events("run.displaced")
    assert list(event.body["files"]) == ["one"]
    assert folder.outlast._executor.home.blobs.get(event.body["files"]["one"]) == b"half\n"


@pytest.mark.parametrize(("choice", "found"), [("keep", "half\n"), ("restore", "before\n")])
def test_after_a_kill_a_person_is_asked_what_becomes_of_the_files(folder: Folder, choice: str, found: str) -> None:
    write_and_die(folder, "ask")
    (wait,) = well(folder.cli("resume", "--json"), 4).json["interrupts"]
    assert wait["type"] == "partial"
    assert wait["payload"]["left"]["tail"] == "attempt 1\n"
    assert folder.read("one") == "half\n"
    well(folder.cli("answer", wait["id"], json.dumps({"choice": choice})))
    well(folder.cli("resume"))
    assert folder.read("found") == found
    assert json.loads(folder.read("previous"))["tail"] == "attempt 1\n"
    assert is_over(folder)


@pytest.mark.parametrize("on_partial", ["restore", "ask"])
def test_files_that_somebody_edited_after_the_crash_are_not_touched(folder: Folder, on_partial: str) -> None:
    write_and_die(folder, on_partial)
    wait_until(lambda: not lives(folder.number("pid")), "the end of the command")
    wait_until(lambda: any(folder.path.glob(".outlast/default/work/*/*/ended")), "the guard's word")
    if on_partial == "ask":
        (wait,) = well(folder.cli("resume", "--json"), 4).json["interrupts"]
        well(folder.cli("answer", wait["id"], '{"choice": "restore"}'))
    edited(folder, "one", "mended by hand\n")
    (wait,) = well(folder.cli("resume", "--json"), 4).json["interrupts"]
    assert wait["type"] == "partial"
    assert "one" in wait["payload"]["why"]
    assert folder.read("one") == "mended by hand\n"
    assert folder.events("run.displaced") == []
    well(folder.cli("answer", wait["id"], '{"choice": "keep"}'))
    well(folder.cli("resume"))
    assert folder.read("found") == "mended by hand\n"
    assert is_over(folder)


def edited(folder: Folder, name: str, text: str) -> None:
    """Write a file, surely later than what was last noted: file times are coarse."""
    mark = next(folder.path.glob(".outlast/default/work/*/*/ended")).stat().st_mtime_ns

    def is_later() -> bool:
        return folder.write(name, text).stat().st_mtime_ns > mark

    wait_until(is_later, "a later moment")


def test_what_a_crash_left_is_still_told_after_an_attempt_that_could_not_begin(folder: Folder) -> None:
    sub = folder.path / "sub"
    sub.mkdir()
    run = f'cp "$OUTLAST_PREVIOUS" ../previous; echo half > out; {once(DIE, "../died")}'
    folder.flow(f"- id: a\n  cwd: sub\n  writes: out\n  run: {json.dumps(run)}")
    killed(folder.cli("run", "flow.yaml"))
    sub.rename(folder.path / "away")
    assert "does not exist" in well(folder.cli("resume"), 1).out
    (folder.path / "away").rename(sub)
    well(folder.cli("resume"))
    previous = json.loads(folder.read("previous"))
    assert (previous["attempt"], previous["status"]) == (1, "crashed")


@pytest.mark.parametrize(("left", "judgement"), [("true", "none"), ("echo x > one; echo x > two", "partial")])
def test_what_a_crash_left_is_judged(folder: Folder, left: str, judgement: str) -> None:
    folder.flow(f"- {{id: a, writes: [one, two], run: 'cp \"$OUTLAST_PREVIOUS\" previous; {left}; {once(DIE)}'}}")
    killed(folder.cli("run", "flow.yaml"))
    well(folder.cli("resume"))
    assert json.loads(folder.read("previous"))["judgement"] == judgement


def test_all_files_and_a_result_that_a_crash_left_are_judged_complete(folder: Folder) -> None:
    folder.flow(
        '- {id: a, writes: one, run: \'cp "$OUTLAST_PREVIOUS" previous; echo x$OUTLAST_ATTEMPT > one; '
        f"echo 1 > $OUTLAST_RESULT; {once(DIE)}'}}"
    )
    killed(folder.cli("run", "flow.yaml"))
    well(folder.cli("resume"))
    assert json.loads(folder.read("previous"))["judgement"] == "complete"


# -- loops and branches ------------------------------------------------------------------------------

LOOP = """\
- id: fix
  repeat:
    max: 9
    until: echo until-$OUTLAST_ITERATION >> diary; test $OUTLAST_ITERATION = 4
    steps:
      - {id: author, run: echo author-$OUTLAST_ITERATION >> diary}
      - {id: critic, run: 'echo critic-$OUTLAST_ITERATION >> diary; test $OUTLAST_ITERATION != "$AT" || DIE'}
- {id: last, run: echo last >> diary}
"""


def test_a_loop_killed_in_every_iteration_repeats_only_the_step_that_was_killed(folder: Folder) -> None:
    folder.flow(LOOP.replace("DIE", DIE))
    for at in "1234":
        killed(folder.cli("run", "flow.yaml", AT=at))
    well(folder.cli("run", "flow.yaml"))
    rounds = [f"{what}-{at}" for at in "1234" for what in ("author", "critic", "critic", "until")]
    assert folder.lines() == [*rounds, "last"]
    assert Counter(receipt.label for receipt in folder.receipts() if receipt.delivered) == Counter(
        [f"fix[{at}]/{what}" for at in "1234" for what in ("author", "critic", "until")] + ["fix", "last"]
    )
    assert is_sound(folder)


BRANCHES = """\
- id: all
  parallel:
    - {id: a, run: 'BODY'}
    - {id: b, run: 'BODY'}
    - {id: c, run: 'BODY'}
- {id: last, run: echo last >> diary}
"""
BODY = 'echo $OUTLAST_STEP >> diary; test $OUTLAST_STEP != "$AT" || {{ {wait} {die}; }}; echo 1 > $OUTLAST_RESULT'


def test_a_parallel_killed_again_and_again_repeats_only_the_branch_that_was_killed(folder: Folder) -> None:
    folder.flow(BRANCHES.replace("BODY", BODY.format(wait="./until-the-others-are-done;", die=DIE)))
    others = "while ! ls .outlast/runs/*/build/receipts/b-main.json .outlast/runs/*/build/receipts/c-main.json"
    folder.write("until-the-others-are-done", f"#!/bin/sh\n{others}; do sleep 0.02; done\n").chmod(0o755)
    for _ in range(2):
        killed(folder.cli("run", "flow.yaml", AT="a"))
    outcome = well(folder.cli("run", "flow.yaml", "--json")).json
    assert outcome["result"] == {"a": 1, "b": 1, "c": 1}
    assert Counter(folder.lines()) == {"a": 3, "b": 1, "c": 1, "last": 1}
    assert is_sound(folder)


@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_a_parallel_killed_in_one_branch_ends_as_an_undisturbed_one(folder: Folder, at: str) -> None:
    folder.flow(BRANCHES.replace("BODY", BODY.format(wait="", die=DIE)))
    killed(folder.cli("run", "flow.yaml", AT=at))
    outcome = well(folder.cli("run", "flow.yaml", "--json")).json
    assert outcome["result"] == {"a": 1, "b": 1, "c": 1}
    delivered = Counter(receipt.label for receipt in folder.receipts() if receipt.delivered)
    assert delivered == {"a": 1, "b": 1, "c": 1, "last": 1}
    assert is_sound(folder)


# -- every write point -------------------------------------------------------------------------------

EVERYTHING = """\
- {id: plan, run: echo plan >> diary; echo plan > plan.md, writes: plan.md, accept: test -s plan.md}
- {id: maybe, run: echo maybe >> diary, when: test -f plan.md}
- {id: never, run: echo never >> diary, when: test -f nothing}
- id: fix
  repeat:
    max: 3
    until: test $OUTLAST_ITERATION = 2
    steps: [{id: author, run: echo author-$OUTLAST_ITERATION >> diary}]
- id: both
  parallel:
    - {id: left, run: echo left >> diary; echo 1 > $OUTLAST_RESULT}
    - {id: right, run: echo right >> diary; echo 2 > $OUTLAST_RESULT}
- id: each
  foreach:
    items: [one, a b]
    limit: 2
    steps: [{id: do, run: 'printf "item-%s\\n" "$OUTLAST_ITEM" | tr " " _ >> diary'}]
- {id: probed, effect: true, run: echo $OUTLAST_EFFECT_KEY >> world,
   confirm: touch world; grep -q $OUTLAST_EFFECT_KEY world}
- {id: unprobed, effect: true, run: echo $OUTLAST_EFFECT_KEY >> world}
- {id: last, run: echo last >> diary; echo 3 > $OUTLAST_RESULT}
"""
STEPS = ["plan", "maybe", "author-1", "author-2", "left", "right", "item-one", "item-a_b", "last"]
SHORT, PARTS = 2, 4  # how many points each part kills at; with --crash-long at all of them


@pytest.mark.parametrize("part", range(PARTS))
def test_a_flow_of_every_kind_of_node_killed_at_any_write_point_ends_as_if_nothing_had_happened(
    tmp_path: Path, part: int, crash_long: bool
) -> None:
    points = points_of(new(tmp_path / "whole"), str(tmp_path / "log"))[part::PARTS]
    chosen = points if crash_long else random.Random(part).sample(points, SHORT)
    codes = []
    for at, point in enumerate(chosen):
        folder = new(tmp_path / str(at))
        codes.append(folder.cli("run", "flow.yaml", failpoint=point).code)
        end_well(folder, point)
        folder.close()
    assert set(codes) <= {0, KILLED}
    assert codes.count(KILLED) >= len(codes) * 0.8


def new(path: Path) -> Folder:
    folder = Folder(path).flow(EVERYTHING)
    folder.write("plan.md", "the old plan")
    return folder


def points_of(folder: Folder, log: str) -> list[str]:
    well(folder.cli("run", "flow.yaml", log=log))
    seen: Counter[str] = Counter()
    points = []
    for name in Path(log).read_text().split():
        seen[name] += 1
        points.append(f"{name}:{seen[name]}")
    folder.close()
    return points


def end_well(folder: Folder, point: str) -> None:
    """Resume to the end, deciding like somebody who looks at the world; then check every promise."""
    while not any(run.finished for run in folder.outlast.runs()):
        said = folder.cli("run", "flow.yaml", "--json")
        if said.code != 4:
            assert well(said).json["result"] == {"left": 1, "right": 2, "last": 3}, point
            continue
        (wait,) = said.json["interrupts"]
        assert (wait["type"], wait["step"]) == ("in_doubt", "unprobed"), point
        done = len(folder.lines("world")) == 2
        answer = {"choice": "skip", "result": None, "why": "it is there"} if done else {"choice": "retry"}
        well(folder.cli("answer", wait["id"], json.dumps(answer)))
    world = folder.lines("world")
    assert len(world) == len(set(world)) == 2, point
    begun = Counter(folder.lines())
    assert set(begun) == set(STEPS), (point, begun)
    assert begun.total() <= len(STEPS) + 2, (point, begun)  # only what was under way: at most the two branches
    delivered = Counter(receipt.label for receipt in folder.receipts() if receipt.delivered)
    assert set(delivered.values()) == {1}, (point, delivered)
    assert folder.outlast.get(folder.run_id).status == "succeeded", point
    assert folder.outlast.verify().ok, point


# -- processes that live on --------------------------------------------------------------------------


def orphaned(folder: Folder, kind: str) -> Child:
    """A run whose runtime and guard were killed while its command lives on."""
    effect = "effect: true, confirm: 'echo probed >> diary; grep -qs done world'" if kind == "effect" else "retries: 0"
    wait = "while test -f flow.yaml && ! test -f go; do sleep 0.05; done"
    work = f"echo $$ > pid; echo began >> diary; {wait}; echo done >> world"
    folder.flow(f"- {{id: work, {effect}, run: '{work}'}}\n- {{id: last, run: echo last >> diary}}")
    child = folder.start("run", "flow.yaml")
    folder.number("pid")
    os.kill(child.guard(), 9)
    child.kill()
    assert lives(folder.number("pid"))
    return child


def test_a_step_that_lives_on_is_named_by_a_dry_run_and_ended_before_it_is_done_again(folder: Folder) -> None:
    orphaned(folder, "step")
    pid = folder.number("pid")
    plan = well(folder.cli("resume", "--dry-run", "--json")).json
    assert "still_running" in [reason["code"] for reason in plan["verdict"]["reasons"]]
    assert lives(pid)
    (folder.path / "pid").unlink()
    child = folder.start("run", "flow.yaml")
    assert folder.number("pid") != pid
    assert not lives(pid)
    folder.write("go", "")
    well(child.wait())
    assert folder.lines("world") == ["done"]
    assert folder.lines() == ["began", "began", "last"]


def test_an_effect_that_lives_on_is_waited_for_and_then_its_probe_is_asked(folder: Folder) -> None:
    orphaned(folder, "effect")
    pid = folder.number("pid")
    plan = well(folder.cli("resume", "--dry-run", "--json")).json
    assert "still_running" in [reason["code"] for reason in plan["verdict"]["reasons"]]
    child = folder.start("run", "flow.yaml")
    wait_until(lambda: "waiting for work" in child.err, "the note that it waits")
    assert lives(pid)
    assert folder.lines() == ["began"]
    folder.write("go", "")
    well(child.wait())
    assert folder.lines("world") == ["done"]
    assert folder.lines() == ["began", "probed", "last"]
    assert is_sound(folder)


# -- marks -------------------------------------------------------------------------------------------

LONG = """\
- {{id: first, run: echo first >> diary; echo 1 > $OUTLAST_RESULT}}
- id: fix
  repeat:
    max: 500
    until: test $OUTLAST_ITERATION = {count}
    steps: [{{id: a, run: 'echo $OUTLAST_ITERATION >> diary; test $OUTLAST_ITERATION != "$AT" || {die}'}}]
- {{id: last, run: echo last >> diary; cp $OUTLAST_HANDOFF handoff}}
"""


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks come often."""
    monkeypatch.setattr(marks, "EVERY", 16)


def long_loop(folder: Folder, count: int = 30, at: int = 25) -> Folder:
    killed(folder.flow(LONG.format(count=count, die=DIE)).cli("run", "flow.yaml", AT=str(at)))
    assert folder.lines() == ["first", *map(str, range(1, at + 1))]
    return folder


def test_a_long_loop_resumes_from_its_mark_without_reading_what_is_over(folder: Folder, often: None) -> None:
    long_loop(folder)
    row = run_row(folder.outlast._executor.home, folder.run_id)
    entries = len(folder.outlast.events(row.id))
    assert row.mark > entries - 40
    outcome = folder.run()
    assert (outcome.status, outcome.result) == ("succeeded", {"first": 1})
    assert outcome.replayed_steps == 1 + 2 * 24  # what the mark spares it is counted too
    assert folder.lines() == ["first", *map(str, range(1, 26)), *map(str, range(25, 31)), "last"]
    assert json.loads(folder.read("handoff"))["step"] == "fix[30]/a"
    assert folder.facts("fix") == [{"iterations": 30, "accepted": True}]
    assert folder.outlast.verify().ok


def test_marks_of_a_loop_whose_steps_leave_no_files_name_no_entry_for_them(folder: Folder, often: None) -> None:
    home = long_loop(folder).outlast._executor.home
    key = run_row(home, folder.run_id).key
    rows = home.store.read(lambda look: look.journal_of(key, 0))
    made = [facts_in(row)["outputs"] for row in rows if decode_header(row.header).name == "mark"]
    assert len(made) > 2
    assert made == [{}] * len(made)


def set_mark(folder: Folder, mark: str) -> None:
    """Change the number that is kept with the run."""
    folder.end()
    ledgers.change(folder.path / ".outlast", f"UPDATE runs SET mark = {mark}", rows=1)


@pytest.mark.parametrize("mark", ["2", "7", "mark - 1", "mark + 1", "4611686018427387904", "-3"])
def test_a_number_that_is_no_mark_repeats_nothing_and_is_named(folder: Folder, often: None, mark: str) -> None:
    long_loop(folder)
    set_mark(folder, mark)
    assert f"run {folder.run_id}" in {problem.record for problem in folder.outlast.verify().problems}
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["first", *map(str, range(1, 26)), *map(str, range(25, 31)), "last"]


def test_a_mark_from_before_a_rewind_is_none_any_more(folder: Folder, often: None) -> None:
    row = run_row(long_loop(folder).outlast._executor.home, folder.run_id)
    folder.outlast.rewind(folder.run_id, "fix[3]/a")
    killed(folder.cli("run", "flow.yaml", AT="3"))
    set_mark(folder, str(row.mark))
    assert not folder.outlast.verify().ok
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["first", *map(str, range(1, 26)), "3", *map(str, range(3, 31)), "last"]


def test_a_damaged_entry_that_a_mark_names_is_done_again_and_no_later_mark_vouches_for_it(
    folder: Folder, often: None
) -> None:
    long_loop(folder)
    folder.end()
    edit = """UPDATE journal SET header = CAST(replace(header, 'succeeded', 'skipped') AS BLOB)
        WHERE CAST(header AS TEXT) LIKE '["step","first"%"succeeded"%'"""
    ledgers.change(folder.path / ".outlast", edit)
    accept = ("--accept", "integrity_broken", "--why", "a byte fell off")
    killed(folder.cli("resume", folder.run_id, *accept, AT="28"))
    assert run_row(folder.outlast._executor.home, folder.run_id).mark < len(folder.outlast.events(folder.run_id)) - 16
    assert folder.run().status == "succeeded"  # it is accepted already
    rest = [*map(str, range(25, 29)), *map(str, range(28, 31))]
    assert folder.lines() == ["first", *map(str, range(1, 26)), "first", *rest, "last"]
    assert len(folder.outlast.verify().problems) == 1


HANDING = """\
- id: fix
  repeat:
    max: 9
    until: test $OUTLAST_ITERATION = 5
    steps:
      - id: a
        run: |
          test "$OUTLAST_ITERATION" != "$AT" || {die}
          cp "$OUTLAST_HANDOFF" handoff-$OUTLAST_ITERATION || :
      - {{id: b, effect: true, run: 'echo $OUTLAST_ITERATION >> diary; echo $OUTLAST_ITERATION > $OUTLAST_RESULT'}}
"""


def test_the_first_step_after_a_mark_is_handed_what_the_last_one_before_it_left(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "EVERY", 1)  # after every iteration
    killed(folder.flow(HANDING.format(die=DIE)).cli("run", "flow.yaml", AT="4"))
    assert folder.run().status == "succeeded"
    handed = [json.loads(folder.read(f"handoff-{number}")) for number in (2, 3, 4, 5)]
    assert [(each["step"], each["result"]) for each in handed] == [(f"fix[{n}]/b", n) for n in (1, 2, 3, 4)]
    assert folder.lines() == ["1", "2", "3", "4", "5"]
    assert folder.outlast.verify().ok


def test_a_rewind_to_before_the_mark_still_works(folder: Folder, often: None) -> None:
    long_loop(folder)
    folder.outlast.rewind(folder.run_id, "fix[3]/a")
    assert folder.run().status == "succeeded"
    assert folder.lines() == ["first", *map(str, range(1, 26)), *map(str, range(3, 31)), "last"]
    assert folder.outlast.verify().ok


def test_a_decline_that_leads_back_before_a_marked_loop_survives_a_kill(folder: Folder, often: None) -> None:
    steps = LONG.format(count=20, die=DIE).splitlines()
    steps.insert(-1, "- {id: ok, pause_for: approval, on_decline: first}")
    outcome = folder.flow("\n".join(steps)).run()
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": False})
    killed(folder.cli("run", "flow.yaml", AT="5"))
    outcome = folder.run()
    rounds = ["first", *map(str, range(1, 21))]
    assert folder.lines() == [*rounds, *rounds[:6], *rounds[5:]]
    folder.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert folder.run().status == "succeeded"
    assert folder.lines()[-1] == "last"
    assert folder.outlast.verify().ok


def test_a_rewind_after_a_way_back_over_a_marked_loop_repeats_nothing_before_it(folder: Folder, often: None) -> None:
    steps = LONG.format(count=12, die=DIE).splitlines()
    steps.insert(-1, "- {id: ok, pause_for: approval, on_decline: first}")
    outcome = folder.flow("\n".join([*steps, "- {id: end, run: test -f good}"])).run()
    for approved in (False, True):
        folder.outlast.answer(outcome.interrupts[0].id, {"approved": approved})
        outcome = folder.run()
    assert outcome.status == "failed"
    before = folder.lines()
    mirror = [file.name for file in folder.path.glob(".outlast/runs/*/build/receipts/a*")]
    assert len(mirror) == 24
    assert {"a-main.json", "a~2-main.json", "a~1~2-main.json", "a~2~2-main.json"} <= set(mirror)
    folder.write("good", "")
    folder.outlast.rewind(folder.run_id, "last")
    assert folder.run().status == "succeeded"
    assert folder.lines() == [*before, "last"]


def tampered(folder: Folder, label: str) -> int:
    """Change the receipt of a step on disk."""
    (receipt,) = (one for one in folder.receipts() if one.label == label)
    folder.close()
    change = f"UPDATE journal SET payload = CAST(payload || ' ' AS BLOB) WHERE seq = {receipt.seq}"
    ledgers.change(folder.path / ".outlast", change, rows=1)
    return receipt.seq


def test_a_changed_entry_that_the_mark_keeps_is_found_by_the_resume(folder: Folder, often: None) -> None:
    long_loop(folder)
    tampered(folder, "first")
    with pytest.raises(Contested, match="integrity_broken"):
        folder.run()


def test_a_changed_entry_of_an_iteration_that_is_over_is_found_by_verify(folder: Folder, often: None) -> None:
    long_loop(folder)
    seq = tampered(folder, "fix[2]/a")
    found: Any = folder.outlast.verify()
    assert not found.ok
    assert str(seq) in str(found)
