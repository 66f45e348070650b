"""Replay: the body on its receipts only. Nothing is run, nothing is written, and every divergence is named."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from outlast import NOT_DONE, AsyncOutlast, AsyncRun, Run, effect, flow, inject, step
from outlast.errors import FlowNotFound, IntegrityBroken, RunNotFound, SyncInLoop
from outlast.runs.replay.replay import Divergence, RunReplay, lane_of, replay_run

from ..crash.command_folder import Folder
from ..kit.place import KNOBS, Place, ran, reach


@step
def fetch(text: str) -> str:
    ran(f"fetch {text}")
    reach(f"fetching {text}")
    return text.upper()


@step
def count(text: str) -> int:
    from outlast import current

    ran(f"count {text}")
    current().state["counted"] = len(text)
    return len(text)


@step
def fail(text: str) -> str:
    ran(f"fail {text}")
    raise ValueError(f"no {text}")


def was_sent(text: str) -> Any:
    ran("probe")
    return NOT_DONE


@effect(confirm=was_sent)
def send(text: str) -> str:
    ran(f"send {text}")
    reach("sending")
    return f"sent {text}"


@flow
def child(run: Run, text: str) -> str:
    return fetch(text)


@flow
def whole(run: Run, text: str) -> str:
    """Everything that a body may do, steered by KNOBS to do otherwise."""
    run.phase = KNOBS.get("phase", "begun")
    run.state["text"] = KNOBS.get("state", text)
    run.now(), run.random(), run.uuid()
    run.emit("hello", KNOBS.get("event", 1))
    found = fetch(KNOBS.get("input", text))
    if KNOBS.get("more"):
        fetch("more")
    if not KNOBS.get("less"):
        count(found)
    try:
        fail(text)
    except ValueError as error:
        found += str(error)
    found += "".join(run.map(fetch, ["x", "y", "z"]))
    run.sleep(0.01)
    found += run.spawn(child, "kid").result()
    reach("before sending")
    found = send(found)
    reach("sent")
    if KNOBS.get("raise_in_body"):
        raise KeyError("body")
    return found + KNOBS.get("end", "")


def codes(found: RunReplay) -> list[tuple[str, str]]:
    return [(one.code, one.subject) for one in found.divergences]


def everything(place: Place) -> dict[str, str]:
    """Every file of the home, as it is."""
    files = [file for file in place.home.rglob("*") if file.is_file() and not file.name.endswith("-shm")]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# -- of a finished run -------------------------------------------------------------------------------


def test_a_finished_run_replays_without_running_or_writing_anything(place: Place) -> None:
    assert place.run(whole, "a").status == "succeeded"
    did, kept = place.ran, everything(place)
    run_id = next(run.id for run in place.outlast.runs() if run.flow.endswith(":whole"))
    found = place.outlast.replay(run_id[:8])
    assert (found.divergences, found.ended, found.ok, found.next) == ((), "returned", True, ())
    assert (found.run_id, found.status) == (run_id, "succeeded")
    assert found.replayed == 7
    assert (place.ran, everything(place)) == (did, kept)


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        ("input", "b", ("inputs_changed", "fetch")),
        ("more", True, ("no_receipt", "fetch")),
        ("less", True, ("unasked", "count")),
        ("end", "!", ("end_differs", "whole")),
        ("raise_in_body", True, ("end_differs", "whole")),
        ("state", "other", ("state_differs", "text")),
        ("phase", "other", ("phase_differs", "phase")),
        ("event", 2, ("no_receipt", "hello")),
    ],
)
def test_what_the_body_does_otherwise_is_named(place: Place, knob: str, value: Any, expected: tuple[str, str]) -> None:
    outcome = place.run(whole, "a")
    did, kept = place.ran, everything(place)
    KNOBS[knob] = value
    found = place.outlast.replay(outcome.run_id)
    assert expected in codes(found)
    assert not found.ok
    assert (place.ran, everything(place)) == (did, kept)


def test_where_the_body_took_another_way_what_comes_after_is_counted_and_not_accused(place: Place) -> None:
    outcome = place.run(whole, "a")
    KNOBS["input"] = "b"
    found = place.outlast.replay(outcome.run_id)
    assert codes(found) == [("inputs_changed", "fetch")]
    assert found.ended == "waits"
    assert found.not_reached > 5


def test_a_receipt_never_asked_for_is_named_with_what_the_state_lacks(place: Place) -> None:
    outcome = place.run(whole, "a")
    KNOBS["less"] = True
    found = place.outlast.replay(outcome.run_id)
    assert Divergence("unasked", "count", "step succeeded", "not asked for") in found.divergences
    assert ("state_differs", "counted") in codes(found)


FLOW = """
from outlast import Run, flow, step

@step
def double(number: int) -> int:
    return number * {times}

@flow
def numbers(run: Run) -> int:
    return double(2) + {plus}
"""


def test_changed_code_of_a_step_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from outlast.flows import spec as specs
    from outlast.python.named_flows import find_flow

    monkeypatch.chdir(place.folder)
    place.script("changing_numbers.py", FLOW.format(times=2, plus=0))
    outcome = place.run(find_flow("changing_numbers.py:numbers", str(place.home)))
    place.script("changing_numbers.py", FLOW.format(times=3, plus=0))
    for name in [name for name, module in sys.modules.items() if name.startswith("outlast_file_")]:
        monkeypatch.delitem(sys.modules, name)
    specs.source_of.cache_clear()
    assert codes(place.outlast.replay(outcome.run_id)) == [("code_changed", "double")]


def test_what_the_run_itself_left_unasked_is_no_divergence(place: Place) -> None:
    place.crash(whole, "a", at="before sending")
    KNOBS.clear()
    KNOBS["log"] = str(place.log)
    KNOBS["input"] = "b"
    outcome = place.run(whole, "a")
    assert "fetch" in outcome.unasked
    assert place.outlast.replay(outcome.run_id).divergences == ()


# -- of a failed or unfinished run -------------------------------------------------------------------


@flow
def failing(run: Run) -> str:
    run.state["seen"] = fetch("a")
    return fail("luck") if KNOBS.get("mended") is None else "mended"


def test_a_failed_run_fails_again_by_the_failure_on_record(place: Place) -> None:
    outcome = place.run(failing)
    assert outcome.status == "failed"
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.ended, found.replayed) == ((), "raised", 2)
    assert place.count("fail luck") == 1


def test_a_failed_run_whose_body_ends_otherwise_diverges(place: Place) -> None:
    outcome = place.run(failing)
    KNOBS["mended"] = True
    found, left = place.outlast.replay(outcome.run_id).divergences
    assert found == Divergence("end_differs", "failing", "raised ValueError: no luck", 'returned "mended"')
    assert left == Divergence("unasked", "fail", "step failed", "not asked for")


@pytest.mark.parametrize(("point", "goes_on"), [("fetching y", "fetch[0]/fetch"), ("sending", "send"), ("sent", "")])
def test_a_crashed_run_replays_up_to_where_it_goes_on(place: Place, point: str, goes_on: str) -> None:
    place.crash(whole, "a", at=point)
    KNOBS.pop("die", None)
    (run,) = [run for run in place.outlast.runs() if run.flow.endswith(":whole")]
    did, kept = place.ran, everything(place)
    found = place.outlast.replay(run.id)
    assert found.divergences == ()
    assert (goes_on in found.next) if goes_on else found.next == ()
    assert (place.ran, everything(place)) == (did, kept)


def test_a_crashed_run_whose_body_took_another_way_diverges(place: Place) -> None:
    place.crash(whole, "a", at="before sending")
    KNOBS.pop("die", None)
    KNOBS["more"] = True
    (run,) = [run for run in place.outlast.runs() if run.flow.endswith(":whole")]
    found = place.outlast.replay(run.id)
    assert codes(found) == [("no_receipt", "fetch")]
    assert found.next == ()


@flow
def resting(run: Run) -> str:
    fetch("a")
    run.sleep("2h")
    return send("b") if KNOBS.get("other") is None else "rested"


def test_a_waiting_run_waits_where_it_did_and_does_not_sleep(place: Place) -> None:
    outcome = place.run(resting)
    assert outcome.status == "waiting"
    before = place.clock.now()
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.next, found.ended) == ((), ("run.sleep",), "waits")
    assert place.clock.now() == before


@flow
def restless(run: Run) -> str:
    fetch("a")
    if not KNOBS.get("awake"):
        run.sleep("2h")
    return "rested"


def test_a_waiting_run_whose_body_waits_no_more_diverges(place: Place) -> None:
    outcome = place.run(restless)
    KNOBS["awake"] = True
    found, left = place.outlast.replay(outcome.run_id).divergences
    assert found == Divergence("end_differs", "restless", "waits at run.sleep", 'returned "rested"')
    assert (left.code, left.subject) == ("unasked", "run.sleep")


@effect
def unsure(text: str) -> str:
    ran(f"unsure {text}")
    raise RuntimeError("lost")


@flow
def doubtful(run: Run) -> str:
    return fetch("a") + unsure("b")


def test_an_effect_in_doubt_is_neither_run_nor_probed(place: Place) -> None:
    outcome = place.run(doubtful)
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.next) == ((), ("unsure",))
    assert place.count("unsure b") == 1


@flow
def parent(run: Run) -> str:
    kid = run.spawn(resting)
    return kid.result()


def test_a_child_that_has_not_ended_is_not_run(place: Place) -> None:
    outcome = place.run(parent)
    assert outcome.status == "waiting"
    did = place.ran
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.next) == ((), ("run.spawn",))
    assert place.ran == did


@flow
def spawning(run: Run) -> str:
    found = run.spawn(child, "kid").result()
    if KNOBS.get("twins"):
        run.spawn(child, "twin").result()
    return found


def test_a_child_that_died_with_its_parent_is_not_run(place: Place) -> None:
    place.crash(spawning, at="fetching kid")
    KNOBS.pop("die", None)
    (run,) = [run for run in place.outlast.runs() if run.flow.endswith(":spawning")]
    kept = everything(place)
    found = place.outlast.replay(run.id)
    assert (found.divergences, found.next) == ((), ("run.spawn",))
    assert (place.count("fetch kid"), everything(place)) == (1, kept)


def test_a_child_that_was_never_spawned_is_not_spawned(place: Place) -> None:
    outcome = place.run(spawning)
    KNOBS["twins"] = True
    kept = everything(place)
    assert codes(place.outlast.replay(outcome.run_id)) == [("no_receipt", "run.spawn")]
    assert (len(place.outlast.runs()), everything(place)) == (2, kept)


@flow
def late(run: Run) -> str:
    run.state["at"] = "first"
    fetch("a")
    run.state["at"] = "then"
    run.emit("on the way")
    run.now()
    reach("later")
    run.sleep(0.01)
    return send("b")


def test_what_a_body_did_after_its_last_receipt_is_no_divergence_and_is_not_written(place: Place) -> None:
    place.crash(late, at="later")
    KNOBS.pop("die", None)
    kept = everything(place)
    found = place.outlast.replay(place.run_id)
    assert (found.divergences, found.next) == ((), ("run.sleep",))
    assert everything(place) == kept


@step
def picky(text: str) -> str:
    ran(f"picky {text}")
    if text == "a":
        raise ValueError(text)
    return text


@flow
def mapping(run: Run) -> str:
    try:
        run.map(picky, ["a", "b", "c"], concurrency=1)
    except ValueError:
        return "caught"
    return "none"


def test_of_a_map_that_failed_the_calls_that_were_never_begun_stay_so(place: Place) -> None:
    outcome = place.run(mapping)
    assert place.ran == ["picky a"]
    assert place.outlast.replay(outcome.run_id).divergences == ()
    assert place.ran == ["picky a"]


@flow
def asking(run: Run) -> str:
    found = fetch("a")
    handoff = run.handoff("half done", "go on with b", next_action="do b")
    answer = run.pause_for("approval", {"found": found, "handoff": handoff.revision, "extra": KNOBS.get("extra", 0)})
    return send("b") if answer["approved"] else "declined"


def test_a_question_is_not_asked_again_and_its_answer_is_given(place: Place) -> None:
    outcome = place.run(asking)
    (wait,) = outcome.interrupts
    kept = everything(place)
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.next, everything(place)) == ((), ("approval",), kept)
    place.outlast.answer(wait.id, {"approved": True})
    assert place.outlast.resume(outcome.run_id).unwrap() == "sent b"
    kept = everything(place)
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.ended, everything(place)) == ((), "returned", kept)


def test_another_question_than_the_one_on_record_diverges(place: Place) -> None:
    outcome = place.run(asking)
    KNOBS["extra"] = 1
    kept = everything(place)
    found = place.outlast.replay(outcome.run_id)
    assert codes(found) == [("end_differs", "asking")]
    assert (len(place.outlast.interrupts()), everything(place)) == (1, kept)


def test_a_run_that_was_rewound_replays_as_it_was_done_the_second_time(place: Place) -> None:
    outcome = place.run(asking)
    place.outlast.rewind(outcome.run_id, "fetch", why="again")
    assert place.outlast.resume(outcome.run_id).status == "waiting"
    assert place.outlast.replay(outcome.run_id).divergences == ()
    assert place.count("fetch a") == 2


# -- async -------------------------------------------------------------------------------------------


@step
async def look(text: str) -> str:
    ran(f"look {text}")
    await asyncio.sleep(0)
    reach(f"looking {text}")
    return text


@step
async def hang() -> str:
    ran("hang")
    await asyncio.sleep(60)
    return "never"


@flow
async def branching(run: AsyncRun) -> list[Any]:
    async def two(text: str) -> str:
        first = await look(text)
        return first + await run.step(fetch, KNOBS.get("second", text))

    found: list[Any] = list(await asyncio.gather(two("a"), two("b")))
    try:
        async with asyncio.timeout(0.05):
            await hang()
    except TimeoutError:
        found.append("late")
    found.append(await run.map(look, ["x", "y"]))
    await run.sleep(0.01)
    return found


def test_an_async_run_replays_with_its_cancelled_call(place: Place) -> None:
    outcome = place.run(branching)
    did, kept = place.ran, everything(place)
    found = place.outlast.replay(outcome.run_id)
    assert (found.divergences, found.ended) == ((), "returned")
    assert (place.ran, everything(place)) == (did, kept)


def test_an_async_body_that_asks_for_something_else_diverges(place: Place) -> None:
    outcome = place.run(branching)
    KNOBS["second"] = "other"
    found = place.outlast.replay(outcome.run_id)
    assert {one.code for one in found.divergences} == {"inputs_changed"}
    assert len(found.divergences) == 2


@flow
async def impatient(run: AsyncRun) -> str:
    try:
        async with asyncio.timeout(KNOBS.get("patience", 0.05)):
            return await hang()
    except TimeoutError:
        return "late"


def test_a_call_that_the_flow_does_not_cancel_any_more_is_found_stuck(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = place.run(impatient)
    assert outcome.unwrap() == "late"
    assert place.outlast.replay(outcome.run_id).ok
    KNOBS["patience"] = None
    monkeypatch.setattr("outlast.runs.replay.replay.SECONDS", 0.2)
    found = place.outlast.replay(outcome.run_id)
    assert (found.ended, codes(found)) == ("stuck", [("stuck", "impatient")])


def test_each_branch_of_a_crashed_async_run_goes_as_far_as_its_receipts(place: Place) -> None:
    place.crash(branching, at="fetching b")
    KNOBS.pop("die", None)
    found = place.outlast.replay(place.run_id)
    assert found.divergences == ()
    assert found.next


def test_on_a_loop_a_replay_is_awaited(place: Place) -> None:
    run_id, plain = place.run(branching).run_id, place.run(failing).run_id
    place.close()

    async def on_a_loop() -> list[bool]:
        async with AsyncOutlast(place.home) as outlast:
            with pytest.raises(SyncInLoop):
                replay_run(outlast._executor, run_id)
            return [(await outlast.replay(run_id)).ok, (await outlast.replay(plain)).ok]

    assert asyncio.run(on_a_loop()) == [True, True]


# -- flow files --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


STEPS = """\
- {id: one, run: 'echo one >> diary; echo "1" > "$OUTLAST_RESULT"'}
- {id: maybe, run: echo maybe >> diary, when: test -f no}
- id: fix
  repeat: {max: 3, until: 'test -f round || { touch round; false; }', steps: [{id: author, run: echo author >> diary}]}
- id: both
  parallel: [{id: left, run: echo left >> diary}, {id: right, run: echo right >> diary}]
- {id: last, run: 'test -f mended && echo last >> diary', effect: true, not_done_exit: [1]}
"""


def test_a_flow_file_replays_and_no_command_runs(folder: Folder) -> None:
    folder.write("mended", "")
    folder.flow(STEPS)
    outcome = folder.run()
    assert outcome.status == "succeeded"
    before = folder.lines()
    found = folder.outlast.replay(outcome.run_id)
    assert (found.divergences, found.ended) == ((), "returned")
    assert folder.lines() == before


def test_an_unfinished_flow_file_replays_to_its_failure(folder: Folder) -> None:
    folder.flow(STEPS)
    outcome = folder.run()
    assert outcome.status == "failed"
    before = folder.lines()
    found = folder.outlast.replay(outcome.run_id)
    assert (found.divergences, found.ended) == ((), "raised")
    assert folder.lines() == before


def test_a_long_loop_is_gone_through_whole_though_a_resume_would_spare_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.commands.loops.EVERY", 4)
    until = "test $(grep -c author diary) -ge 8"
    loop = f"- id: fix\n  repeat: {{max: 9, until: '{until}', steps: [{{id: author, run: echo author >> diary}}]}}\n"
    folder.flow(loop + "- {id: last, run: test -f mended}")
    outcome = folder.run()
    assert outcome.status == "failed"
    assert any(event.name == "run.mark" for event in folder.outlast.events(outcome.run_id))
    found = folder.outlast.replay(outcome.run_id)
    assert (found.divergences, found.replayed) == ((), 18)
    assert folder.lines().count("author") == 8


def test_a_flow_file_with_another_step_diverges(folder: Folder) -> None:
    folder.write("mended", "")
    folder.flow(STEPS)
    outcome = folder.run()
    folder.flow(STEPS.replace("{id: one,", "{id: uno,"))
    assert codes(folder.outlast.replay(outcome.run_id))[0] == ("no_receipt", "uno")


def test_a_flow_file_without_a_step_leaves_its_receipt_unasked(folder: Folder) -> None:
    folder.write("mended", "")
    folder.flow(STEPS)
    outcome = folder.run()
    folder.flow(STEPS.partition("\n")[2])
    found = codes(folder.outlast.replay(outcome.run_id))
    assert found == [("end_differs", "build"), ("unasked", "one")]


# -- what cannot be replayed -------------------------------------------------------------------------


def test_a_run_that_is_not_there_is_not_found(place: Place) -> None:
    place.run(failing)
    with pytest.raises(RunNotFound):
        place.outlast.replay("nope")


def test_a_script_has_no_body_to_replay(place: Place) -> None:
    with place.outlast.open("nightly") as run:
        run.step(fetch, "a")
    with pytest.raises(FlowNotFound, match="run that script again"):
        place.outlast.replay(place.run_id)


def test_on_changed_records_nothing_is_replayed(place: Place) -> None:
    from .test_integrity import tamper

    run_id = place.run(failing).run_id
    tamper(place, "UPDATE journal SET payload = CAST('{}' AS BLOB) WHERE seq = 2")
    with pytest.raises(IntegrityBroken):
        place.outlast.replay(run_id)


@pytest.mark.parametrize(
    ("scope", "lane"), [("", ""), ("a/", ""), ("~look:1/", "~look:1/"), ("~look:1/b/", "~look:1/"), ("m[0]/", "")]
)
def test_a_lane_is_what_runs_beside_others(scope: str, lane: str) -> None:
    assert lane_of(scope) == lane


# -- live objects ------------------------------------------------------------------------------------


@step
def queries(text: str, *, db: Any = inject("replay.db")) -> str:
    return f"{db['name']} {text}"


@flow
def hands_it_on(run: Run) -> str:
    db = run.resource("replay.db")
    return queries("a", db=db) + queries("b")


@flow
def uses_it_itself(run: Run) -> str:
    try:
        return KNOBS["use"](run.resource("replay.db")) + fetch("a")
    except Exception:
        return "it is hidden"


def test_a_replay_opens_no_resource_and_needs_none(place: Place) -> None:
    opened = []
    place.outlast.resource("replay.db", factory=lambda: opened.append(1) or {"name": "db"})
    run_id = place.run(hands_it_on).run_id
    assert place.outlast.replay(run_id).ok
    assert len(opened) == 1
    place.reopen()
    found = place.outlast.replay(run_id)
    assert (found.ok, found.ended, found.replayed) == (True, "returned", 2)


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda db: db.get("name"), "replay.db.get"),
        (lambda db: db["name"], "replay.db['name']"),
        (lambda db: "".join(list(db)[:0]), "replay.db in a loop"),
        (lambda db: str(len(db)), "replay.db with len"),
    ],
)
def test_a_body_that_uses_a_live_object_itself_is_told_so(place: Place, use: Any, told: str) -> None:
    place.outlast.resource("replay.db", {"name": "db"})
    KNOBS["use"] = use
    run_id = place.run(uses_it_itself).run_id
    found = place.outlast.replay(run_id)
    assert found.divergences == (Divergence("resource_used", "replay.db", "used in steps only", told),)
