"""A call that the flow cancelled is an outcome; a call that was cancelled because the run ended is not."""

import asyncio
import threading

import pytest

from outlast import AsyncOutlast, AsyncRun, Run, effect, flow, step

from ..kit.place import KNOBS, Place, happen, ran, reach, until


@step
async def stall(name: str = "it") -> str:
    """Never ends by itself, unless the test says otherwise."""
    ran(f"stall {name}")
    happen(f"stalling {name}")
    if not KNOBS.get("smooth"):
        await until("never")
    return f"{name} went through"


@step
async def note(text: str) -> str:
    ran(f"note {text}")
    return text


@step
async def fail(text: str = "no luck") -> str:
    ran("fail")
    await until("stalling it")
    if not KNOBS.get("smooth"):
        raise ValueError(text)
    return "no failure this time"


@effect
async def send(text: str) -> str:
    ran(f"send {text}")
    happen("sending")
    if not KNOBS.get("smooth"):
        await until("never")
    return f"sent {text}"


@effect
def send_plainly(text: str) -> str:
    ran(f"send {text}")
    if not KNOBS.get("smooth"):
        raise RuntimeError("the line went dead")
    return f"sent {text}"


# -- outcomes ----------------------------------------------------------------------------------------


@flow
async def by_wait_for(run: AsyncRun) -> str:
    try:
        found = await asyncio.wait_for(stall(), 0.05)
    except TimeoutError:
        found = await note("too slow")
    reach("after")
    return found


@flow
async def by_timeout(run: AsyncRun) -> str:
    found = "never set"
    try:
        async with asyncio.timeout(0.05):
            found = await stall()
    except TimeoutError:
        found = await note("too slow")
    reach("after")
    return found


@flow
async def by_task_cancel(run: AsyncRun) -> str:
    task = asyncio.create_task(stall())
    await until("stalling it") if not KNOBS.get("again") else await asyncio.sleep(0)
    task.cancel()
    try:
        found = await task
    except asyncio.CancelledError:
        found = await note("too slow")
    reach("after")
    return found


@flow
async def by_a_sibling(run: AsyncRun) -> str:
    found = "never set"
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(stall())
            group.create_task(fail())
    except* ValueError as errors:
        found = str(errors.exceptions[0])
    await note("too slow")
    reach("after")
    return found if found != "no luck" else "too slow"


@pytest.mark.parametrize("body", [by_wait_for, by_timeout, by_task_cancel, by_a_sibling], ids=lambda f: f.__name__)
def test_a_step_that_the_flow_cancelled_is_cancelled_again_on_replay(place: Place, body: object) -> None:
    place.crash(body, at="after")
    assert place.statuses("stall") == ["cancelled"]
    KNOBS.update(smooth=True, again=True)
    outcome = place.run(body)
    assert outcome.result == "too slow"
    assert (place.count("stall it"), place.count("note too slow")) == (1, 1)


def test_a_cancelled_step_leaves_a_delivered_receipt(place: Place) -> None:
    place.run(by_wait_for)
    (receipt,) = place.receipts("stall")
    assert (receipt.status, receipt.delivered, receipt.error) == ("cancelled", True, None)


@flow
async def cancels_itself(run: AsyncRun) -> str:
    try:
        return await own_cancel()
    except asyncio.CancelledError:
        return "cancelled"
    except Exception as error:
        reach("caught")
        return type(error).__name__


@step
async def own_cancel() -> str:
    ran("own cancel")
    raise asyncio.CancelledError("from inside")


def test_a_step_that_raises_a_cancellation_of_its_own_has_failed_and_does_not_hang(place: Place) -> None:
    place.crash(cancels_itself, at="caught")
    assert place.run(cancels_itself).result == "StepFailed"
    assert place.count("own cancel") == 1


@flow
def plain_with_own_cancel(run: Run) -> str:
    try:
        return run.step(own_cancel)
    except Exception as error:
        reach("caught")
        return type(error).__name__


def test_the_same_in_a_plain_flow(place: Place) -> None:
    place.crash(plain_with_own_cancel, at="caught")
    assert place.run(plain_with_own_cancel).result == "StepFailed"
    assert place.count("own cancel") == 1


# -- a run that ended, and took calls with it --------------------------------------------------------


@flow
async def gathers_a_failure(run: AsyncRun) -> list[str]:
    return list(await asyncio.gather(stall(), fail()))


@flow
async def groups_a_failure(run: AsyncRun) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stall()), group.create_task(fail())]
    return [task.result() for task in tasks]


@flow
async def group_body_fails(run: AsyncRun) -> list[str]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(stall())
        await note("started")
        if not KNOBS.get("smooth"):
            await until("stalling it")
            raise ValueError("the body itself")
    return [task.result()]


@pytest.mark.parametrize("body", [gathers_a_failure, groups_a_failure], ids=lambda f: f.__name__)
def test_a_failure_that_ended_the_run_takes_no_sibling_with_it(place: Place, body: object) -> None:
    assert place.run(body).status == "failed"
    KNOBS["smooth"] = True
    outcome = place.run(body)
    assert outcome.result == ["it went through", "no failure this time"]
    assert (place.count("stall it"), place.count("fail")) == (2, 2)


def test_a_body_that_failed_beside_its_tasks_goes_on_with_all_of_them(place: Place) -> None:
    assert place.run(group_body_fails).status == "failed"
    KNOBS["smooth"] = True
    assert place.run(group_body_fails).result == ["it went through"]
    assert place.count("note started") == 1


@flow
async def waits_beside_a_step(run: AsyncRun) -> list[str]:
    async def ask() -> str:
        await note("before")
        if not KNOBS.get("smooth"):
            await until("stalling it")
        return send_plainly("x")  # a plain call on the loop: its wait ends the body

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask()), group.create_task(stall())]
    return [task.result() for task in tasks]


def test_a_wait_that_ends_the_body_takes_no_sibling_with_it(place: Place) -> None:
    outcome = place.run(waits_beside_a_step)
    assert outcome.status == "waiting"
    KNOBS["smooth"] = True
    place.outlast.retry(outcome.run_id, outcome.interrupts[0].step)
    assert place.run(waits_beside_a_step).result == ["sent x", "it went through"]


@flow
async def leaves_a_task_behind(run: AsyncRun) -> str:
    task = asyncio.create_task(stall())
    await until("stalling it")
    return f"done {task.done()}"


def test_a_step_left_running_by_a_body_that_returned_is_cancelled(place: Place) -> None:
    assert place.run(leaves_a_task_behind).result == "done False"
    assert place.statuses() == ["cancelled"]


def test_cancelling_the_run_from_outside_interrupts_its_steps(place: Place) -> None:
    async def work() -> None:
        async with AsyncOutlast(place.home) as outlast:
            task = asyncio.create_task(outlast.run(by_outsider))
            await until("stalling it")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert place.statuses("stall") == ["interrupted"]
    KNOBS["smooth"] = True
    assert place.run(by_outsider).result == "it went through"


def test_a_run_that_is_cancelled_as_it_begins_says_so_in_its_journal(place: Place) -> None:
    """Its start is on disk: a row that says something else than the journal would be a broken record."""

    async def work() -> None:
        async with AsyncOutlast(place.home) as outlast:
            gate = threading.Event()
            other = threading.Thread(target=outlast.blocking._home.store.write, args=(lambda tx: gate.wait(30),))
            other.start()
            task = asyncio.create_task(outlast.run(by_failure, task="t"))
            for _ in range(5):
                await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.05, gate.set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert [event.name for event in place.outlast.events(place.run_id)] == ["run.started", "run.interrupted"]
    assert place.outlast.verify().ok
    KNOBS["smooth"] = True
    assert place.run(by_failure, task="t").result == "no failure this time"


@flow
async def by_failure(run: AsyncRun) -> str:
    happen("stalling it")
    return await fail()


@flow
async def by_outsider(run: AsyncRun) -> str:
    return await stall()


# -- effects -----------------------------------------------------------------------------------------


@flow
async def sends_in_time(run: AsyncRun) -> str:
    try:
        found = await asyncio.wait_for(send("x"), 0.05)
    except TimeoutError:
        found = await note("no answer")
    return found


def test_an_effect_that_the_flow_cancelled_is_in_doubt_and_the_body_gets_no_further(place: Place) -> None:
    outcome = place.run(sends_in_time)
    assert outcome.status == "waiting"
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert place.count("note no answer") == 0


def test_a_cancelled_effect_that_was_skipped_gives_the_flow_its_result(place: Place) -> None:
    outcome = place.run(sends_in_time)
    place.outlast.skip(outcome.run_id, "send", result="sent by hand", why="I saw it")
    assert place.run(sends_in_time).result == "sent by hand"
    assert place.count("send x") == 1


@flow
async def sends_in_a_group(run: AsyncRun) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(send("x"))
            await until("sending")
            raise KeyError("the flow changed its mind")
    except* KeyError:
        pass
    return await note("went on")


def test_an_effect_cancelled_by_its_group_is_in_doubt(place: Place) -> None:
    outcome = place.run(sends_in_a_group)
    assert (outcome.status, place.count("note went on")) == ("waiting", 0)
    assert place.run(sends_in_a_group).status == "waiting"
    assert place.count("send x") == 1
