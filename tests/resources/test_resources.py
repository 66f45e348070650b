"""Resources: live objects that are opened when they are needed, looked after, closed at the end, and never saved."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import NOT_DONE, AsyncOutlast, AsyncRun, Outlast, Run, current, effect, flow, inject, resource, step
from outlast.errors import (
    Contested,
    NameInvalid,
    ResourceCycle,
    ResourceInvalid,
    ResourceMissing,
    ResourceNeedsLoop,
    ResourceTaken,
)

from ..kit.place import KNOBS, Place, ran, reach


class Client:
    """A live object that says what becomes of it."""

    def __init__(self, name: str) -> None:
        self.name, self.sick = name, False
        ran(f"open {name}")

    def close(self) -> None:
        ran(f"close {self.name}")

    def is_well(self) -> bool:
        return not self.sick


@resource("test.http")
def http() -> Iterator[Client]:
    client = Client("http")
    yield client
    client.close()


@resource("test.search", close=Client.close)
def search(*, http: Client = inject("test.http")) -> Client:
    return Client(f"search on {http.name}")


@resource("test.class", close=lambda made: made.close())
class Engine(Client):
    def __init__(self, http: Client = inject("test.http")) -> None:
        super().__init__(f"engine on {http.name}")


@resource("test.managed")
@contextmanager
def managed() -> Iterator[Client]:
    client = Client("managed")
    try:
        yield client
    finally:
        client.close()


@step
def ask(word: str, *, http: Client = inject("test.http")) -> str:
    return f"{word} by {http.name}"


@step
def find(word: str, *, search: Client = inject("test.search")) -> str:
    reach("finding")
    return f"{word} in {search.name}"


@flow
def uses_registered(run: Run) -> list[str]:
    return [ask("a"), find("b"), ask("c")]


@step(retries=3, backoff=0)
def use(word: str, *, client: Any = inject("client")) -> str:
    reach("using")
    if client.sick:
        raise ConnectionError(client.name)
    return f"{word} by {client.name}"


@flow
def uses(run: Run, word: str = "a") -> str:
    return use(word)


@flow
def uses_all_at_once(run: Run) -> list[str]:
    return run.map(use, ["a", "b", "c", "d"], concurrency=4)


# -- opening and closing -----------------------------------------------------------------------------


def test_registered_ones_are_opened_once_when_first_needed_and_closed_in_reverse(place: Place) -> None:
    assert place.run(uses_registered).unwrap() == ["a by http", "b in search on http", "c by http"]
    assert place.ran == ["open http", "open search on http"]
    place.close()
    assert place.ran[2:] == ["close search on http", "close http"]


def test_each_outlast_has_its_own(place: Place, other: Place) -> None:
    place.run(uses_registered)
    other.run(uses_registered)
    assert place.count("open http") == 2


@pytest.mark.parametrize("key", ["test.class", "test.managed"])
def test_a_class_and_a_context_manager_make_one_too(place: Place, key: str) -> None:
    with place.outlast.open("script") as run:
        name = run.resource(key).name
        assert run.resource(key).name == name
    place.close()
    assert place.ran[-2:] == [f"close {name}", "close http"] if key == "test.class" else [f"close {name}"]
    assert place.count(f"open {name}") == place.count(f"close {name}") == 1


def test_a_context_manager_of_contextlib_is_entered_and_any_other_object_is_left_alone(place: Place) -> None:
    lock = threading.Lock()  # a context manager of its own kind: entering it would lock it
    place.outlast.resource("made", factory=lambda: closing(Client("closed")))
    place.outlast.resource("lock", factory=lambda: lock)
    place.outlast.resource("value", closing(Client("kept")))
    with place.outlast.open("script") as run:
        assert run.resource("made").name == "closed"
        assert not run.resource("lock").locked()
        assert isinstance(run.resource("value"), closing)
    place.close()
    assert [line for line in place.ran if line.startswith("close")] == ["close closed"]


def test_an_object_is_closed_by_what_was_asked_for_and_by_nothing_else(place: Place) -> None:
    place.outlast.resource("client", Client("asked"), close=Client.close)
    place.run(uses)
    place.outlast.resource("client", Client("silent"))
    place.run(uses, "b")
    place.close()
    assert [line for line in place.ran if line.startswith("close")] == ["close asked"]


def test_an_object_that_nobody_needed_is_not_opened_and_not_closed(place: Place) -> None:
    place.outlast.resource("client", factory=lambda: Client("unused"), close=Client.close)
    place.close()
    assert place.ran == []


def test_steps_at_once_open_it_once(place: Place) -> None:
    asking = threading.Semaphore(0)

    def when_all_ask() -> Client:
        assert all(asking.acquire(timeout=20) for _ in range(4))
        return Client("shared")

    def need() -> None:
        asking.release()
        found.append(outlast._executor.live.resources.get("client"))

    outlast, found = place.outlast, list[Client]()
    outlast.resource("client", factory=when_all_ask)
    threads = [threading.Thread(target=need) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 4
    assert len(set(map(id, found))) == 1
    assert len(place.run(uses_all_at_once).unwrap()) == 4
    assert place.count("open shared") == 1


def test_a_factory_that_fails_fails_the_step_and_is_asked_again_by_its_retry(place: Place) -> None:
    answers: Iterator[Exception | Client] = iter([ConnectionError("no line"), Client("second")])

    def flaky() -> Client:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    place.outlast.resource("client", factory=flaky)
    assert place.run(uses).unwrap() == "a by second"
    assert place.statuses("use") == ["failed", "succeeded"]


def test_a_step_called_in_a_factory_is_the_plain_function(place: Place) -> None:
    place.outlast.resource("named", factory=lambda: use("x", client=Client("inner")))
    with place.outlast.open("script") as run:
        assert run.resource("named") == "x by inner"
    assert place.receipts() == []


def test_errors_while_closing_are_told_and_hide_nothing(place: Place) -> None:
    def bad(client: Client) -> None:
        raise OSError(f"{client.name} is stuck")

    outlast = place.outlast
    outlast.resource("first", Client("first"), close=Client.close)
    outlast.resource("bad", Client("bad"), close=bad)
    outlast.resource("client", Client("last"), close=bad)
    with outlast.open("script") as run:
        run.resource("first"), run.resource("bad"), run.resource("client")
    with pytest.warns(RuntimeWarning) as told:
        place.close()
    assert [str(one.message) for one in told] == [
        "resource 'client' could not be closed: OSError: last is stuck",
        "resource 'bad' could not be closed: OSError: bad is stuck",
    ]
    assert place.ran[-1] == "close first"


def test_who_listens_is_told_instead_of_warned(place: Place) -> None:
    lines: list[str] = []
    place.outlast.listen(None, lines.append)
    place.outlast.resource("client", Client("x"), close=lambda client: 1 / 0)
    place.run(uses)
    place.close()
    assert lines == ["resource 'client' could not be closed: ZeroDivisionError: division by zero"]


def test_what_was_replaced_is_closed_at_the_end(place: Place) -> None:
    outlast = place.outlast
    outlast.resource("client", factory=lambda: Client("old"), close=Client.close)
    assert place.run(uses).unwrap() == "a by old"
    outlast.resource("client", factory=lambda: Client("new"), close=Client.close)
    assert place.run(uses, "b").unwrap() == "b by new"
    place.close()
    assert place.ran == ["open old", "open new", "close new", "close old"]


# -- health ------------------------------------------------------------------------------------------


def sickly(place: Place) -> list[Client]:
    made: list[Client] = []

    def make() -> Client:
        made.append(Client(f"client {len(made) + 1}"))
        return made[-1]

    place.outlast.resource("client", factory=make, health=Client.is_well, close=Client.close)
    return made


def test_a_run_that_takes_up_an_unhealthy_one_gets_another(place: Place) -> None:
    made = sickly(place)
    place.run(uses)
    assert place.run(uses, "b").unwrap() == "b by client 1"
    made[0].sick = True
    assert place.run(uses, "c").unwrap() == "c by client 2"
    assert place.ran == ["open client 1", "close client 1", "open client 2"]


@step(retries=1, backoff=0)
def spoil(*, client: Any = inject("client")) -> str:
    if client.name == "client 1":
        client.sick = True
        raise ConnectionError("lost")
    return str(client.name)


@flow
def spoils(run: Run) -> str:
    return spoil()


def test_a_step_that_is_tried_again_gets_a_healthy_one(place: Place) -> None:
    sickly(place)
    assert place.run(spoils).unwrap() == "client 2"
    assert place.ran == ["open client 1", "close client 1", "open client 2"]


def test_a_health_check_that_raises_counts_as_unhealthy(place: Place) -> None:
    outlast = place.outlast
    outlast.resource("client", factory=lambda: Client("x"), health=lambda client: 1 / 0)
    place.run(uses)
    place.run(uses, "b")
    assert place.count("open x") == 2


def test_health_is_not_asked_of_one_that_was_opened_just_now_nor_within_a_run(place: Place) -> None:
    asked: list[str] = []

    def well(client: Client) -> bool:
        asked.append(client.name)
        return True

    place.outlast.resource("client", factory=lambda: Client("x"), health=well)
    place.run(uses_all_at_once)
    assert asked == []
    place.run(uses_all_at_once, task="second")
    assert asked == ["x"]


def test_what_rests_on_an_unhealthy_one_is_made_anew_with_it(place: Place) -> None:
    made: list[Client] = []

    def below() -> Client:
        made.append(Client(f"below {len(made) + 1}"))
        return made[-1]

    def above(below: Client = inject("below")) -> Iterator[Client]:
        client = Client(f"on {below.name}")
        yield client
        client.close()

    place.outlast.resource("below", factory=below, health=Client.is_well, close=Client.close)
    place.outlast.resource("client", factory=above)
    place.run(uses)
    made[0].sick = True
    assert place.run(uses, "b").unwrap() == "b by on below 2"
    assert place.ran[2:] == ["close on below 1", "close below 1", "open below 2", "open on below 2"]


# -- what is missing, wrong, or taken ----------------------------------------------------------------


@step
def needs_two(*, left: Any = inject("left"), right: Any = inject("right")) -> str:
    return f"{left} {right}"


@flow
def greedy(run: Run) -> str:
    return needs_two()


def test_a_missing_one_fails_the_step_and_says_how_to_provide_it(place: Place) -> None:
    outcome = place.run(uses)
    assert outcome.error is not None
    assert outcome.error["message"] == (
        "resource 'client' is needed and not provided; let a function make it, @resource('client') in the flow's "
        "module, or call outlast.resource('client', …)"
    )
    assert place.statuses() == ["failed"]  # it would be missing again: no retries


def test_a_resume_names_all_missing_ones_at_once_before_any_step(place: Place) -> None:
    outcome = place.run(greedy)
    with pytest.raises(Contested) as refused:
        place.outlast.resume(outcome.run_id)
    assert "left: nothing" in str(refused.value)
    assert "right: nothing" in str(refused.value)
    place.outlast.resource("left", "l")
    place.outlast.resource("right", "r")
    assert place.outlast.resume(outcome.run_id).unwrap() == "l r"


def test_what_a_factory_needs_and_nobody_provides_is_named_with_who_needs_it(place: Place) -> None:
    place.outlast.resource("client", factory=lambda wire=inject("wire"): wire)
    with (
        place.outlast.open("script") as run,
        pytest.raises(ResourceMissing, match="'wire' is needed by resource 'client'"),
    ):
        run.resource("client")
    outcome = place.run(uses)
    with pytest.raises(Contested, match=r"wire: nothing \(resource 'client' needs it\)"):
        place.outlast.resume(outcome.run_id)


def test_a_cycle_is_refused_with_its_chain(place: Place) -> None:
    outlast = place.outlast
    outlast.resource("a", factory=lambda b=inject("b"): b)
    outlast.resource("b", factory=lambda c=inject("c"): c)
    outlast.resource("c", factory=lambda b=inject("b"): b)
    with outlast.open("script") as run, pytest.raises(ResourceCycle, match="b -> c -> b"):
        run.resource("a")


def test_two_functions_for_one_key_are_refused_with_both_places() -> None:
    def first() -> None: ...

    def second() -> None: ...

    resource("test.taken")(first)
    resource("test.taken")(first)  # the same once more, as when its file is loaded again
    with pytest.raises(ResourceTaken) as refused:
        resource("test.taken")(second)
    said = str(refused.value)
    assert said.count(f"{Path(__file__).resolve()}:") == 2
    assert "first)" in said
    assert "second)" in said


def test_what_an_outlast_provides_itself_comes_before_what_is_registered(place: Place) -> None:
    place.outlast.resource("test.http", Client("own"))
    assert place.run(uses_registered).unwrap()[0] == "a by own"


@pytest.mark.parametrize("key", ["", "a\nb", None, lambda: 1])
def test_a_key_must_be_a_printable_text(place: Place, key: Any) -> None:
    with pytest.raises(NameInvalid, match="resource"):
        place.outlast.resource(key, 1)
    with pytest.raises(NameInvalid, match="resource"):
        resource(key)(lambda: 1)


@pytest.mark.parametrize("key", ["with spaces", "'quotes\"", "🦀", "../up", "k" * 10_000])
def test_any_printable_key_works(place: Place, key: str) -> None:
    place.outlast.resource(key, "found")
    with place.outlast.open("script") as run:
        assert run.resource(key) == "found"
    assert place.outlast.events(place.run_id)[1].body == {"resource": key}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "either the object itself or factory"),
        ({"value": 1, "factory": int}, "either the object itself or factory"),
        ({"factory": 5}, "cannot be called"),
        ({"factory": lambda url: url}, "wants 'url'"),
        ({"value": 1, "health": "yes"}, "health 'yes' cannot be called"),
        ({"value": 1, "close": True}, "close True cannot be called"),
    ],
)
def test_what_cannot_provide_one_is_refused(place: Place, given: dict[str, Any], why: str) -> None:
    with pytest.raises(ResourceInvalid, match=why):
        place.outlast.resource("key", **given)


def nothing_yielded() -> Iterator[int]:
    yield from ()


def two_yielded() -> Iterator[int]:
    yield 1
    yield 2


async def coroutine() -> int:
    return 1


def test_a_generator_must_yield_once(place: Place) -> None:
    place.outlast.resource("none", factory=nothing_yielded)
    place.outlast.resource("two", factory=two_yielded)
    place.outlast.resource("hidden", factory=lambda: coroutine())
    with place.outlast.open("script") as run:
        with pytest.raises(ResourceInvalid, match="yields nothing"):
            run.resource("none")
        with pytest.raises(ResourceInvalid, match="async def"):
            run.resource("hidden")
        assert run.resource("two") == 1
    with pytest.warns(RuntimeWarning, match="yields twice"):
        place.close()


def test_after_a_crash_another_process_opens_its_own(place: Place) -> None:
    place.crash(uses_registered, at="finding")
    assert place.run(uses_registered).unwrap()[1] == "b in search on http"
    assert place.ran == ["open http", "open search on http"] * 2


def test_a_plan_knows_what_the_flow_s_own_code_makes_without_loading_it(place: Place) -> None:
    script = place.script(
        "own.py",
        "import os, sys\n"
        "from outlast import Outlast, Run, flow, inject, resource, step\n"
        "@resource('own')\nclass Own:\n    word = 'own'\n"
        "@step\ndef use(*, own: Own = inject('own')) -> str:\n    return own.word\n"
        "@step\ndef die() -> None:\n    os.kill(os.getpid(), 9)\n"
        "@flow\ndef owner(run: Run) -> None:\n    use()\n    die()\n"
        "if __name__ == '__main__':\n    Outlast(sys.argv[1]).run(owner)\n",
    )
    subprocess.run([sys.executable, script, place.home], timeout=60)
    assert place.outlast.plan(place.run_id).verdict.word != "contested"
    assert place.outlast.plan(place.run_id).resources == ("own",)
    script.write_text(script.read_text().replace("@resource('own')", "@resource('other')"))
    reasons = place.outlast.plan(place.run_id).verdict.reasons
    assert [reason.subject for reason in reasons if reason.code == "resource_missing"] == ["own"]


# -- async flows -------------------------------------------------------------------------------------


@resource("test.wire")
async def wire(http: Client = inject("test.http")) -> AsyncIterator[Client]:
    await asyncio.sleep(0)
    client = Client(f"wire on {http.name}")
    yield client
    await asyncio.sleep(0)
    client.close()


@resource("test.line")
@asynccontextmanager
async def line(wire: Client = inject("test.wire")) -> AsyncIterator[Client]:
    client = Client(f"line on {wire.name}")
    yield client
    client.close()


@resource("test.spoken")
async def spoken() -> Client:
    return Client("spoken")


@resource("test.plain")
def plain_on_line(line: Client = inject("test.line")) -> Iterator[Client]:
    client = Client(f"plain on {line.name}")
    yield client
    client.close()


@step
async def call(word: str, *, line: Client = inject("test.line")) -> str:
    return f"{word} by {line.name}"


@step
def call_plainly(word: str, *, made: Client = inject("test.plain"), said: Client = inject("test.spoken")) -> str:
    return f"{word} by {made.name} and {said.name}"


@flow
async def calls(run: AsyncRun, word: str = "a") -> list[str]:
    both = await asyncio.gather(call(word), call(word + "2"), run.step(call_plainly, word))
    return [*both]


OPENED = ["open http", "open wire on http", "open line on wire on http"]
CLOSED = ["close line on wire on http", "close wire on http"]


def test_async_factories_are_opened_on_the_loop_once_and_closed_before_it_ends(place: Place) -> None:
    found = place.run(calls).unwrap()
    assert found[:2] == ["a by line on wire on http", "a2 by line on wire on http"]
    assert found[2] == "a by plain on line on wire on http and spoken"
    assert place.ran[:3] == OPENED
    assert place.ran[-3:] == ["close plain on line on wire on http", *CLOSED]
    assert place.run(calls, "b").unwrap()[0] == "b by line on wire on http"  # another run, another loop
    assert place.count("open http") == 1
    assert place.count("open wire on http") == 2
    place.close()
    assert place.ran[-1] == "close http"


def test_on_the_caller_s_loop_they_stay_open_until_the_outlast_closes(place: Place) -> None:
    async def twice() -> list[Any]:
        async with AsyncOutlast(place.home) as outlast:
            found = [(await outlast.run(calls, word)).unwrap()[0] for word in ("a", "b")]
            assert place.count("close wire on http") == 0
            return found

    assert asyncio.run(twice()) == ["a by line on wire on http", "b by line on wire on http"]
    assert place.count("open wire on http") == 1
    assert place.ran[-3:] == [*CLOSED, "close http"]


@step
async def call_alone(*, line: Client = inject("test.line")) -> str:
    return line.name


@flow
def plain_flow(run: Run) -> str:
    return asyncio.run(call_alone()) if KNOBS.get("loop") else call_plainly("a")


@pytest.mark.parametrize("loop", [True, False])
def test_in_a_plain_flow_an_async_one_is_refused(place: Place, loop: bool) -> None:
    KNOBS["loop"] = loop
    outcome = place.run(plain_flow)
    with pytest.raises(ResourceNeedsLoop, match="inject it into a step of an async flow"):
        outcome.unwrap()
    assert "open wire on http" not in place.ran


async def is_up(client: Client) -> bool:
    await asyncio.sleep(0)
    return client.is_well()


async def hang_up(client: Client) -> None:
    await asyncio.sleep(0)
    client.close()


@step
async def use_async(word: str, *, client: Client = inject("client")) -> str:
    return f"{word} by {client.name}"


@flow
async def uses_async(run: AsyncRun, word: str) -> str:
    return await use_async(word)


def test_health_and_close_may_be_async(place: Place) -> None:
    made: list[Client] = []

    async def make() -> Client:
        made.append(Client(f"client {len(made) + 1}"))
        return made[-1]

    async def thrice() -> list[str]:
        async with AsyncOutlast(place.home) as outlast:
            outlast.resource("client", factory=make, health=is_up, close=hang_up)
            first = [(await outlast.run(uses_async, word)).unwrap() for word in ("a", "b")]
            made[0].sick = True
            return [*first, (await outlast.run(uses_async, "c")).unwrap()]

    assert asyncio.run(thrice()) == ["a by client 1", "b by client 1", "c by client 2"]
    assert place.ran == ["open client 1", "close client 1", "open client 2", "close client 2"]


def test_one_whose_loop_is_over_is_told_when_the_outlast_closes(place: Place) -> None:
    async def only_run() -> AsyncOutlast:
        outlast = AsyncOutlast(place.home)
        await outlast.run(calls)
        return outlast

    outlast = asyncio.run(only_run())
    with pytest.warns(RuntimeWarning, match="could not be closed: its event loop is over") as told:
        asyncio.run(outlast.close())
    assert [str(one.message).split()[1] for one in told] == ["'test.plain'", "'test.line'", "'test.wire'"]
    assert place.ran[-1] == "close http"


async def was_sent(word: str, line: Client = inject("test.line")) -> Any:
    ran(f"probe by {line.name}")
    return NOT_DONE


@effect(confirm=was_sent)
async def send(word: str) -> str:
    if place_is_new():
        raise ConnectionError("gone")
    return word


def place_is_new() -> bool:
    first = "sent" not in KNOBS
    KNOBS["sent"] = True
    return first


@flow
async def sends(run: AsyncRun) -> str:
    try:
        return await send("a")
    except ConnectionError:
        return "told"


def test_a_probe_is_given_async_ones_too(place: Place) -> None:
    assert place.run(sends).unwrap() == "told"
    assert place.count("probe by line on wire on http") == 1


def test_a_closed_outlast_opens_nothing_more(tmp_path: Path) -> None:
    outlast = Outlast(tmp_path / ".outlast")
    outlast.close()
    KNOBS["log"] = str(tmp_path / "log")
    with pytest.raises(Exception, match="its Outlast is closed"):
        outlast._executor.live.resources.get("test.http")


# -- the user's code and everybody else --------------------------------------------------------------


@step
async def signs_in(*, door: str = inject("test.door")) -> str:
    return f"a token from {door}"


@flow
async def login(run: AsyncRun) -> str:
    return await signs_in()


@step
async def calls_in(*, account: str = inject("test.account")) -> str:
    return account


@flow
async def calling_in(run: AsyncRun) -> str:
    return await calls_in()


def test_an_async_factory_may_run_a_flow_whose_step_needs_another_one(place: Place) -> None:
    async def door() -> str:
        return "the door"

    async def main() -> str:
        async with AsyncOutlast(place.home) as outlast:

            async def account() -> str:
                return (await outlast.run(login)).unwrap()

            outlast.resource("test.door", factory=door)
            outlast.resource("test.account", factory=account)
            return (await asyncio.wait_for(outlast.run(calling_in), 30)).unwrap()

    place.close()
    assert asyncio.run(main()) == "a token from the door"


def test_a_factory_that_needs_itself_by_a_run_of_its_own_is_refused(place: Place) -> None:
    async def main() -> str:
        async with AsyncOutlast(place.home) as outlast:

            async def account() -> str:
                return (await outlast.run(calling_in, task="within")).unwrap()

            outlast.resource("test.account", factory=account)
            return (await asyncio.wait_for(outlast.run(calling_in), 30)).unwrap()

    place.close()
    with pytest.raises(Exception, match=r"test\.account -> test\.account"):
        asyncio.run(main())


@step
def opens_slowly(*, slow: str = inject("test.slow")) -> str:
    return slow


@flow
def waits_for_it(run: Run) -> str:
    return opens_slowly()


@step
async def at_once(*, quick: str = inject("test.quick")) -> str:
    return quick


@flow
async def quickly(run: AsyncRun) -> str:
    return await at_once()


def test_a_loop_goes_on_while_a_thread_opens_another_one(place: Place) -> None:
    begun, done = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        return "slow" if done.wait(30) else "the loop stood still"

    async def quick() -> str:
        return "quick"

    async def main() -> tuple[str, str]:
        async with AsyncOutlast(place.home) as outlast:
            outlast.resource("test.slow", factory=slow)
            outlast.resource("test.quick", factory=quick)
            in_thread = asyncio.ensure_future(outlast.run(waits_for_it))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            first = (await outlast.run(quickly)).unwrap()
            done.set()
            return first, (await in_thread).unwrap()

    place.close()
    assert asyncio.run(main()) == ("quick", "slow")


def test_two_are_opened_at_once_by_two_threads(place: Place) -> None:
    together = threading.Barrier(2, timeout=30)
    for key in ("test.left", "test.right"):
        place.outlast.resource(key, factory=lambda: together.wait() >= 0)
    assert place.run(opens_both).unwrap() == [True, True]


@step
def opens(key: str) -> bool:
    return bool(current().resource(key))


@flow
def opens_both(run: Run) -> list[bool]:
    return run.map(opens, ["test.left", "test.right"], concurrency=2)


def test_one_that_was_opened_on_what_was_closed_meanwhile_is_opened_again(place: Place) -> None:
    from outlast.resources.resources import Resources

    told: list[str] = []
    here = Resources(told.append)
    sick = {"below": False}
    made: list[str] = []

    def above(below: str = inject("below")) -> str:
        made.append(f"above on {below}")
        if len(made) == 1:
            sick["below"] = True
            threading.Thread(target=lambda: here.get("below", check=True)).start()
            assert closed.wait(30)
        return made[-1]

    closed = threading.Event()
    names = iter(["first", "second"])
    here.provide("below", factory=lambda: next(names), health=lambda _: not sick["below"], close=lambda _: closed.set())
    here.provide("above", factory=above)
    assert here.get("above") == "above on second"
    assert made == ["above on first", "above on second"]


@step
async def asks(*, base: sqlite3.Connection = inject("test.base")) -> int:
    return int(base.execute("SELECT 7").fetchone()[0])


@flow
async def asking(run: AsyncRun) -> int:
    return await asks()


def test_what_a_loop_opened_is_closed_by_its_thread(place: Place, recwarn: pytest.WarningsRecorder) -> None:
    made: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        made.append(sqlite3.connect(":memory:"))
        return made[-1]

    async def main() -> int:
        async with AsyncOutlast(place.home) as outlast:
            outlast.resource("test.base", factory=connect, close=sqlite3.Connection.close)
            return (await outlast.run(asking)).unwrap()

    place.close()
    assert asyncio.run(main()) == 7
    assert [str(one.message) for one in recwarn if "could not be closed" in str(one.message)] == []
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        made[0].execute("SELECT 1")
