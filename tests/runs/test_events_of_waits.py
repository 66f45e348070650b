"""Events that say what happened: questions from their first moment to their end, results, checkpoints, artifacts."""

import ast
import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import AsyncRun, Event, Run, current, effect, flow, step
from outlast.errors import NameInvalid, ValueRefused, WaitCancelled
from outlast.runs.journal import ENDS

from ..kit.place import KNOBS, Place, reach


def named(place: Place, *names: str, run_id: str = "") -> list[Event]:
    found = place.outlast.events(run_id or place.run_id)
    assert [event.seq for event in found] == [*range(1, len(found) + 1)]
    return [event for event in found if event.name in names]


def waits(place: Place) -> list[tuple[str, str]]:
    """What is told of each wait, in order: the name of the event, and which wait."""
    return [(event.name, event.interrupt) for event in place.outlast.events(place.run_id) if event.name in TOLD]


TOLD = ("interrupt.opened", "interrupt.answered", "interrupt.expired", "interrupt.cancelled")


def until(true: Callable[[], Any]) -> Any:
    limit = time.monotonic() + 30
    while not (found := true()):
        assert time.monotonic() < limit, "it never became true"
        time.sleep(0.005)
    return found


@step
async def hold_on() -> str:
    while not KNOBS["go"].is_set():
        await asyncio.sleep(0.005)
    return "held on"


@flow
async def two_branches(run: AsyncRun) -> str:
    answer, text = await asyncio.gather(run.pause_for("approval", {"text": "kelp"}, assignee="ann"), hold_on())
    return f"{text} {answer['approved']}"


@flow
def asks(run: Run) -> str:
    found = run.pause_for(
        "decision",
        {"question": "Where to?", "token": "ghp_" + "a1B2" * 9},
        schema={"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        deadline="1h",
        default={"to": "nowhere"},
        assignee="ann",
    )
    return str(found["to"])


@flow
def asks_without_default(run: Run) -> str:
    try:
        return str(run.pause_for("input", {"n": KNOBS.get("shows", 1)}, deadline="1h"))
    except Exception as error:
        return type(error).__name__


@flow
def waits_for_a_signal(run: Run) -> str:
    return str(run.wait_for("built"))


# -- questions ---------------------------------------------------------------------------------------


def test_a_question_is_told_with_all_that_an_answer_needs(place: Place) -> None:
    (wait,) = place.run(asks).interrupts
    (opened,) = named(place, "interrupt.opened")
    assert (opened.kind, opened.interrupt, opened.call) == ("fact", wait.id, wait.call)
    body = opened.body
    assert (body["id"], body["type"], body["step"]) == (wait.id, "decision", "decision")
    assert body["says"] == "decision: Where to?"
    assert (body["digest"], body["assignee"]) == (wait.digest, "ann")
    assert wait.due_at is not None
    assert body["deadline"] == wait.due_at.isoformat()
    assert body["schema"]["required"] == ["to"]
    assert (body["choices"], body["default"]) == ([], {"to": "nowhere"})
    assert body["payload"] == {"question": "Where to?", "token": "***"}
    assert opened.masked == 1


def test_an_approval_and_a_choice_say_what_their_answers_look_like(place: Place) -> None:
    place.run(approved)
    (opened,) = named(place, "interrupt.opened")
    assert set(opened.body["schema"]["properties"]) == {"approved", "comment"}
    place.run(paid)
    (opened,) = named(place, "interrupt.opened", run_id=place.outlast.runs()[0].id)
    assert (opened.body["type"], opened.body["choices"]) == ("in_doubt", ["retry", "skip", "abort"])


@flow
def approved(run: Run) -> bool:
    return bool(run.pause_for("approval")["approved"])


@effect
def pay() -> None:
    raise ConnectionError("no line")


@flow
def paid(run: Run) -> None:
    pay()


def test_it_is_told_the_moment_it_is_asked_while_other_branches_run(place: Place) -> None:
    KNOBS["go"] = threading.Event()
    started = place.outlast.start(two_branches)
    heard: list[Event] = []
    for event in place.outlast.follow_events(started.run_id):
        heard.append(event)
        if event.name == "interrupt.opened":
            assert place.outlast.get(started.run_id).status == "running"
            KNOBS["go"].set()
    assert [event.name for event in heard if event.name in (*TOLD, "run.waiting")] == [
        "interrupt.opened",
        "run.waiting",
    ]
    started.outcome(30)


def test_and_so_is_its_answer(place: Place) -> None:
    KNOBS["go"] = threading.Event()
    started = place.outlast.start(two_branches)
    (wait,) = until(lambda: place.outlast.interrupts(started.run_id))
    place.outlast.answer(wait.id, {"approved": True})
    told = lambda: named(place, "interrupt.answered", run_id=started.run_id)  # noqa: E731
    (answered,) = until(told)
    assert place.outlast.get(started.run_id).status == "running"
    assert (answered.interrupt, answered.body["answer"], answered.body["by"]) == (wait.id, {"approved": True}, "local")
    KNOBS["go"].set()
    started.outcome(30)
    assert place.outlast.resume(started.run_id).unwrap() == "held on True"
    assert len(told()) == 1
    assert place.outlast.verify().ok


def test_an_answer_in_the_last_moment_of_an_execution_is_told_once(place: Place) -> None:
    for number in range(5):
        KNOBS["go"] = threading.Event()
        started = place.outlast.start(two_branches, task=f"last-{number}")
        (wait,) = until(partial(place.outlast.interrupts, started.run_id))
        answering = threading.Thread(target=place.outlast.answer, args=(wait.id, {"approved": True}))
        KNOBS["go"].set()
        answering.start()
        started.outcome(30)
        answering.join()
        place.outlast.resume(started.run_id)
        names = [event.name for event in place.outlast.events(started.run_id)]
        assert (names.count("interrupt.opened"), names.count("interrupt.answered")) == (1, 1)
    assert place.outlast.verify().ok


@step
def sends() -> None:
    KNOBS["send"](current().id)


@flow
async def gives_up_listening(run: AsyncRun) -> str:
    listening = asyncio.create_task(run.wait_for("built"))
    await asyncio.sleep(0)
    await run.step(sends)
    listening.cancel()
    return "done"


def test_a_signal_that_nobody_waits_for_any_more_is_told_before_the_run_ends(place: Place) -> None:
    def send(run_id: str) -> None:
        place.outlast._executor.live.heartbeat.stop()  # no sign of life comes in between
        place.outlast.signal("built", 7, run_id=run_id)

    KNOBS["send"] = send
    assert place.run(gives_up_listening).unwrap() == "done"
    names = [event.name for event in place.outlast.events(place.run_id)]
    assert (names.count("interrupt.opened"), names.count("interrupt.answered")) == (1, 1)
    assert names[-1] == "run.succeeded"
    assert place.outlast.verify().ok


def test_an_answer_to_a_waiting_run_is_told_at_once(place: Place) -> None:
    (wait,) = place.run(asks).interrupts
    place.outlast.answer(wait.id, {"to": "the blog"})
    (answered,) = named(place, "interrupt.answered")
    assert (answered.body["answer"], answered.body["by"], answered.body["type"]) == (
        {"to": "the blog"},
        "local",
        "decision",
    )
    assert place.run(asks).unwrap() == "the blog"
    assert waits(place) == [("interrupt.opened", wait.id), ("interrupt.answered", wait.id)]
    assert place.outlast.verify().ok


def test_an_answer_after_a_death_is_told_by_whoever_goes_on(place: Place) -> None:
    place.crash(asks_and_dies, at="dies")
    (wait,) = place.outlast.interrupts()
    place.outlast.answer(wait.id, {"approved": True})
    assert place.outlast.resume(wait.run_id).unwrap() == "went on"
    names = [event.name for event in place.outlast.events(wait.run_id)]
    assert (names.count("interrupt.opened"), names.count("interrupt.answered")) == (1, 1)
    assert names.index("interrupt.answered") < names.index("run.succeeded")


@step
async def dies() -> None:
    while KNOBS.get("die") and not current()._execution.waits:
        await asyncio.sleep(0.01)
    reach("dies")


@flow
async def asks_and_dies(run: AsyncRun) -> str:
    await asyncio.gather(run.pause_for("approval"), dies())
    return "went on"


@pytest.mark.parametrize(("made", "result"), [(asks, "nowhere"), (asks_without_default, "DeadlinePassed")])
@pytest.mark.parametrize("by", ["resume", "answer"])
def test_a_deadline_that_passes_is_told(place: Place, made: Any, result: str, by: str) -> None:
    (wait,) = place.run(made).interrupts
    place.clock.advance(3601)
    if by == "answer":
        with pytest.raises(Exception, match="deadline"):
            place.outlast.answer(wait.id, {"to": "late"})
        assert waits(place)[-1] == ("interrupt.expired", wait.id)
    assert place.run(made).unwrap() == result
    assert waits(place) == [("interrupt.opened", wait.id), ("interrupt.expired", wait.id)]
    (expired,) = named(place, "interrupt.expired")
    assert expired.body.get("default") == ({"to": "nowhere"} if made is asks else None)
    assert place.outlast.verify().ok


def test_one_that_is_cancelled_says_by_whom_and_why(place: Place) -> None:
    (wait,) = place.run(cancellable).interrupts
    place.outlast.cancel(wait.id, "called off")
    (cancelled,) = named(place, "interrupt.cancelled")
    assert (cancelled.body["why"], cancelled.body["by"]) == ("called off", "local")
    assert place.run(cancellable).unwrap() == "off"
    assert [name for name, _ in waits(place)] == ["interrupt.opened", "interrupt.cancelled"]


@flow
def cancellable(run: Run) -> str:
    try:
        run.pause_for("approval")
    except WaitCancelled:
        return "off"
    return "on"


def test_one_that_is_asked_anew_is_cancelled_first(place: Place) -> None:
    place.run(asks_without_default)
    KNOBS["shows"] = 2
    place.clock.advance(1)
    place.outlast.resume(place.run_id)
    names = [name for name, _ in waits(place)]
    assert names == ["interrupt.opened", "interrupt.opened", "interrupt.cancelled"] or names == [
        "interrupt.opened",
        "interrupt.cancelled",
        "interrupt.opened",
    ]
    assert len(place.outlast.interrupts()) == 1
    assert place.outlast.verify().ok


def test_a_run_that_is_given_up_closes_what_it_asked(place: Place) -> None:
    (wait,) = place.run(asks).interrupts
    place.outlast.abort(place.run_id, why="no use")
    assert waits(place) == [("interrupt.opened", wait.id), ("interrupt.cancelled", wait.id)]
    assert place.outlast.events(place.run_id)[-1].name == "run.aborted"
    assert place.outlast.verify().ok


def test_an_answer_that_gives_the_run_up_is_told_as_one(place: Place) -> None:
    (wait,) = place.run(paid).interrupts
    place.outlast.answer(wait.id, {"choice": "abort", "why": "no"})
    (answered,) = named(place, "interrupt.answered")
    assert answered.body["answer"] == {"choice": "abort", "why": "no"}
    assert place.outlast.events(place.run_id)[-1].name == "run.aborted"


def test_a_rewind_closes_what_is_asked(place: Place) -> None:
    place.run(drafts_and_asks)
    place.outlast.rewind(place.run_id, "drafted", why="again")
    assert [name for name, _ in waits(place)] == ["interrupt.opened", "interrupt.cancelled"]
    place.outlast.resume(place.run_id)
    assert [name for name, _ in waits(place)] == ["interrupt.opened", "interrupt.cancelled", "interrupt.opened"]
    assert place.outlast.verify().ok


@step
def drafted() -> str:
    return "text"


@flow
def drafts_and_asks(run: Run) -> str:
    drafted()
    return str(run.pause_for("approval")["approved"])


@pytest.mark.parametrize("first", ["signal", "wait"])
def test_a_signal_answers_whether_it_came_before_or_after(place: Place, first: str) -> None:
    if first == "wait":
        place.run(waits_for_a_signal, task="T")
    place.outlast.signal("built", 7, task="T")
    assert place.run(waits_for_a_signal, task="T").unwrap() == "7"
    assert [name for name, _ in waits(place)] == ["interrupt.opened", "interrupt.answered"]
    (answered,) = named(place, "interrupt.answered")
    assert (answered.body["answer"], answered.body["type"]) == (7, "signal")


def test_retrying_an_effect_in_doubt_answers_its_question(place: Place) -> None:
    (wait,) = place.run(paid).interrupts
    place.outlast.skip(place.run_id, "pay", why="seen", result=None)
    assert waits(place)[-1] == ("interrupt.answered", wait.id)
    place.outlast.resume(place.run_id)
    assert len(waits(place)) == 2


def test_a_run_that_is_resumed_and_still_waits_tells_nothing_twice(place: Place) -> None:
    place.run(asks)
    for _ in range(3):
        place.outlast.resume(place.run_id)
    assert len(waits(place)) == 1


def test_a_large_answer_is_told_by_its_size(place: Place) -> None:
    (wait,) = place.run(anything).interrupts
    place.outlast.answer(wait.id, "x" * 40_000)
    (answered,) = named(place, "interrupt.answered")
    assert answered.body["answer_bytes"] == 40_002
    assert "answer" not in answered.body
    assert place.run(anything).unwrap() == 40_000


@flow
def anything(run: Run) -> int:
    return len(run.pause_for("input"))


# -- runs, children, checkpoints, artifacts ----------------------------------------------------------


@step
def save(fail: bool) -> str:
    ref = current().workspace.save(f"in-step-{fail}.md", "text", summary="from a step").ref
    if fail:
        raise ValueError("no luck")
    return ref


@flow
def child(run: Run) -> str:
    return "of the child"


@flow
def storied(run: Run) -> str:
    run.state["kept"] = {"n": 1}
    run.state["gone"] = True
    run.workspace.save("report.md", "# text", summary="All about kelp")
    save(False)
    try:
        save(True)
    except ValueError:
        del run.state["gone"]
    run.checkpoint("reviewed", "all is well")
    text = run.spawn(child).result()
    run.state["last"] = [1, 2]
    return text


def test_a_run_that_waits_names_what_it_waits_for(place: Place) -> None:
    outcome = place.run(asks)
    (waiting,) = named(place, "run.waiting")
    (wait,) = outcome.interrupts
    assert waiting.body == {"interrupts": [{"id": wait.id, "type": "decision", "step": "decision"}]}


def test_a_parent_that_waits_names_the_child_that_does(place: Place) -> None:
    outcome = place.run(parent_of_asking)
    (waiting,) = named(place, "run.waiting", run_id=outcome.run_id)
    (named_wait,) = waiting.body["interrupts"]
    assert (named_wait["type"], place.outlast.get(named_wait["child"]).status) == ("child", "waiting")
    assert named(place, *TOLD, run_id=outcome.run_id) == []


@flow
def parent_of_asking(run: Run) -> str:
    return run.spawn(asks).result()


def test_a_run_that_succeeded_carries_its_result_and_its_state_in_plain_form(place: Place) -> None:
    run_id = place.run(storied).run_id
    (ended,) = named(place, "run.succeeded", run_id=run_id)
    assert (ended.body["result"], ended.body["state"]) == ("of the child", {"last": [1, 2]})


def test_what_was_removed_from_the_state_is_named(place: Place) -> None:
    place.run(removes)
    (ended,) = named(place, "run.succeeded")
    assert (ended.body["state"], ended.body["removed"]) == ({"b": 2}, ["a"])
    assert ended.body["result"] is None


@flow
def removes(run: Run) -> None:
    run.state["a"] = 1
    run.state["b"] = 2
    del run.state["a"]


@flow
def much(run: Run) -> str:
    return "x" * 50_000


def test_a_large_result_is_told_by_where_it_is(place: Place) -> None:
    place.run(much)
    (ended,) = named(place, "run.succeeded")
    assert "result" not in ended.body
    assert place.outlast._executor.home.blobs.get(ended.body["result_blob"]) == b'"' + b"x" * 50_000 + b'"'


def test_a_checkpoint_is_told_with_its_name_and_summary_and_given_again_on_replay(place: Place) -> None:
    place.crash(pins, at="pinned")
    assert place.run(pins).unwrap() == "reviewed"
    (pinned,) = named(place, "checkpoint.recorded")
    assert (pinned.body["name"], pinned.body["summary"], pinned.body["refs"]) == ("reviewed", "all is well", [])


@flow
def pins(run: Run) -> str:
    pinned = run.checkpoint("reviewed", "all is well")
    drafted()
    reach("pinned")
    return pinned.name


def test_an_artifact_is_told_with_its_ref_and_summary_and_one_that_a_failed_attempt_made_is_not(place: Place) -> None:
    run_id = place.run(storied).run_id
    saved = named(place, "artifact.saved", run_id=run_id)
    assert [(event.body["ref"], event.body["summary"]) for event in saved] == [
        ("artifact:default/report.md@1", "All about kelp"),
        ("artifact:default/in-step-False.md@1", "from a step"),
    ]
    assert [event.attempt for event in saved] == [0, 1]
    (receipt,) = [each for each in place.outlast.receipts(run_id) if each.step == "save" and each.status == "succeeded"]
    assert saved[1].call == receipt.call


def test_children_are_marked_in_their_parents_stream(place: Place) -> None:
    run_id = place.run(storied).run_id
    (born,) = [run for run in place.outlast.runs() if run.parent == run_id]
    marked = [event for event in place.outlast.events(run_id) if event.child]
    assert [(event.name, event.child) for event in marked] == [("child.started", born.id), ("child.succeeded", born.id)]
    assert marked[0].body["task"] == born.task


# -- whose word --------------------------------------------------------------------------------------


@flow
def pretends(run: Run) -> None:
    run.emit("interrupt.opened", {"id": "x"}, kind="fact")


def test_what_the_work_emits_is_never_taken_for_ours(place: Place) -> None:
    place.run(pretends)
    (event,) = named(place, "interrupt.opened")
    assert (event.emitted, event.interrupt) == (True, "")
    place.run(asks)
    assert {event.emitted for event in place.outlast.events(place.outlast.runs()[0].id)} == {False}


# -- limits ------------------------------------------------------------------------------------------

LARGE = "x" * 70_000


@flow
def shows_too_much(run: Run) -> None:
    run.pause_for("approval", {"text": LARGE})


@flow
def asks_too_much(run: Run) -> None:
    run.pause_for("input", schema={"type": "string", "description": LARGE})


@flow
def emits_too_much(run: Run) -> None:
    run.emit("told", {"text": LARGE})


@step
def emits_in_a_step() -> None:
    current().emit("told", {"text": LARGE})


@flow
def emits_too_much_in_a_step(run: Run) -> None:
    emits_in_a_step()


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (shows_too_much, "payload"),
        (asks_too_much, "schema"),
        (emits_too_much, "emit('told')"),
        (emits_too_much_in_a_step, "emit('told')"),
    ],
)
def test_what_is_shown_or_emitted_has_a_limit(place: Place, made: Any, path: str) -> None:
    error = place.run(made).error
    assert error is not None
    assert (error["code"], error["args"]["path"]) == ("value_refused", path)
    assert "65,536" in error["message"]
    assert place.outlast.interrupts() == []
    assert named(place, "told") == []


def test_and_so_have_meta_an_answer_and_a_signal(place: Place) -> None:
    with pytest.raises(ValueRefused, match=r"meta .*65,536"):
        place.run(asks, meta={"text": LARGE})
    assert place.outlast.runs() == []
    (wait,) = place.run(anything).interrupts
    with pytest.raises(ValueRefused, match=r"answer .*1,048,576"):
        place.outlast.answer(wait.id, "x" * 1_100_000)
    with pytest.raises(ValueRefused, match=r"body .*1,048,576"):
        place.outlast.signal("built", "x" * 1_100_000, task="T")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb"])
def test_the_name_of_an_event_has_one_too(place: Place, name: str) -> None:
    KNOBS["name"] = name
    error = place.run(emits_named).error
    assert error is not None
    assert error["code"] == NameInvalid.code


@flow
def emits_named(run: Run) -> None:
    run.emit(KNOBS["name"])


# -- the table ---------------------------------------------------------------------------------------

ERROR = ("type", "message", "trace", "code", "args")
WAIT = ("id", "type", "step")

# The table of docs/events.md, as code. A name may end with `.*` (a word that the flow or a status gives). Of a body
# that is no object it says `value`.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "run.started": (
        *("flow", "task", "actor", "parent", "code", "origin"),
        *("queue", "priority", "not_before", "take_by", "deadline_at"),
    ),
    "run.again": ("of", "by", "effects"),
    "run.fresh": ("of", "by", "effects"),
    "run.forked": ("of", "step", "call", "to", "by", "why", "effects", "reuse_effects", "inputs", "state"),
    "run.resumed": ("from", "verdict", "reasons", "by", "code"),
    "run.accepted": ("fingerprint", "why", "actor", "code", "weight", "subject", "expected", "found", "advice"),
    "run.waiting": ("interrupts", "state", "removed", "code_changed"),
    "run.succeeded": ("result", "result_blob", "state", "removed", "unasked", "inputs_changed", "code_changed", "code"),
    "run.failed": ("error", "ended_by", "state", "removed", "code_changed"),
    "run.retrying": ("retry", "of", "due", "error", "ended_by"),
    "run.interrupted": ("by", "error", "state", "removed", "code_changed"),
    "run.aborted": ("why", "by"),
    "run.pausing": ("by",),
    "run.rewound": ("to", "by", "why", "from"),
    "run.reached": ("call",),
    "run.needs": ("resource", "made_by"),
    "run.claimed": ("by", "claim", "why", "silent_at"),
    "run.released": ("by", "missing", "note"),
    "run.taken": ("from", "by", "why"),
    "run.checked": ("by", "evidence"),
    "run.moved": ("by",),
    "run.mark": ("loops", "keep", "state", "removed", "last", "done", "outputs"),
    "run.left": ("call", "attempt", "left", "transcript"),
    "run.displaced": ("step", "files", "by"),
    "run.still_running": ("step", "pgid"),
    "run.testimony": ("folder", "by"),
    "step.*": ERROR,
    "effect.*": ERROR,
    "testimony.*": (),
    "interrupt.opened": (
        *WAIT,
        "says",
        "payload",
        "digest",
        "assignee",
        "deadline",
        "choices",
        "schema",
        "default",
    ),
    "interrupt.answered": (*WAIT, "by", "answer", "answer_bytes"),
    "interrupt.expired": (*WAIT, "default"),
    "interrupt.cancelled": (*WAIT, "by", "why"),
    "wait.*": ("by", "interrupt", "type", "answer", "why"),
    "decision.*": ("by", "interrupt", "why", "was"),
    "child.started": ("child", "flow", "task"),
    "child.succeeded": ("child", "status", "cancelled"),
    "child.failed": ("child", "status", "cancelled"),
    "child.cancelled": ("child", "status", "cancelled"),
    "checkpoint.recorded": ("id", "name", "summary", "refs"),
    "artifact.saved": ("ref", "name", "summary", "digest", "media_type", "size"),
    "sleep.*": ("due", "over"),
    "value.*": ("value",),
    "phase": ("value",),
}


def fields_of(name: str) -> tuple[str, ...] | None:
    """What the body of an event of ours may carry; None for a name that is not in the table."""
    found = EVENTS.get(name)
    if found is not None:
        return found
    return next((fields for like, fields in EVENTS.items() if like.endswith("*") and fnmatchcase(name, like)), None)


def fits(event: Event) -> bool:
    fields = fields_of(event.name)
    if fields is None:
        return False
    return set(event.body) <= set(fields) if isinstance(event.body, dict) and fields != ("value",) else True


def test_whatever_happens_is_in_the_table(place: Place) -> None:
    for made in (asks, approved, paid, storied, removes, much, cancellable, drafts_and_asks, parent_of_asking):
        place.run(made)
    for wait in place.outlast.interrupts():
        if wait.type == "approval":
            place.outlast.answer(wait.id, {"approved": True})
    for run in place.outlast.runs(status="waiting"):
        place.outlast.resume(run.id)
    events = [event for run in place.outlast.runs() for event in place.outlast.events(run.id)]
    assert [event for event in events if not event.emitted and not fits(event)] == []
    assert len({event.name for event in events}) > 14


def test_every_fact_about_a_run_that_the_code_writes_is_in_the_table() -> None:
    """By its name, where the code gives it as a word."""
    package = Path(outlast.__file__).parent
    written = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and (name := _fact_in(node)):
                written.add(f"run.{name}")
    assert len(written) > 10
    assert written - set(EVENTS) == set()
    assert {f"run.{status}" for status in ENDS} <= set(EVENTS)


def _fact_in(call: ast.Call) -> str:
    """The name of the fact that a call makes."""
    named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    words = [each.value for each in call.args[:2] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if named == "fact" and words[:1] == ["run"]:
        return words[1] if len(words) > 1 else ""
    return words[0] if named in ("run_fact", "_fact") and words else ""


def test_the_table_of_the_documentation_is_that_of_the_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    told = {
        name.strip(" `"): tuple(field.strip(" `") for field in fields.split(",") if field.strip(" `"))
        for row in rows
        if len(row) == 3
        for names, _, fields in [row]
        for name in names.split(",")
        if name.strip(" `") in EVENTS or "." in name
    }
    assert told == dict(EVENTS)
