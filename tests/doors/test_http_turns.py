"""Keys take turns: who asks for much waits behind himself."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path

import pytest

from outlast.doors.http.limits import Pool, Threads, Turns, Turnstile
from outlast.doors.http.state import ServerSettings

from .http_world import FLOWS, LOOKS, world
from .server import served


def on_loop(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(whole())


async def settled() -> None:
    """Everything that can go on now has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_one_of_each_key_is_let_in_however_many_of_one_wait() -> None:
    async def work() -> None:
        turns, order = Turns(1), list[str]()

        async def ask(key: str, name: str) -> None:
            await turns.take(key)
            order.append(name)

        await turns.take("mallory")
        asked = [asyncio.ensure_future(ask("mallory", f"mallory {number}")) for number in range(50)]
        asked += [asyncio.ensure_future(ask("ann", f"ann {number}")) for number in range(2)]
        await settled()
        assert order == []
        for _ in asked:
            turns.give()
            await settled()
        assert order[:5] == ["ann 0", "mallory 0", "ann 1", "mallory 1", "mallory 2"]
        assert len(order) == 52

    on_loop(work)


def test_who_asks_now_and_then_comes_before_those_who_never_cease_to() -> None:
    async def work() -> None:
        turns, order = Turns(1), list[str]()

        async def ask(key: str) -> None:
            await turns.take(key)
            order.append(key)

        await turns.take("ann")
        turns.give()
        asked = [asyncio.ensure_future(ask(key)) for key in ("a", "b", "c") for _ in range(3)]
        await settled()
        for _ in range(4):
            turns.give()
            await settled()
        asked.append(asyncio.ensure_future(ask("ann")))  # all others have had a turn since hers
        await settled()
        turns.give()
        await settled()
        assert order == ["a", "b", "c", "a", "b", "ann"]
        for each in asked:
            each.cancel()

    on_loop(work)


def test_a_long_look_is_one_read_less_and_never_all_of_them(tmp_path: Path) -> None:
    async def work() -> None:
        settings = ServerSettings(home=tmp_path, reading_threads=2, long_threads=1)
        threads, may_end, order = Threads(settings), threading.Event(), list[str]()

        def lasts() -> None:
            may_end.wait(30)

        look = asyncio.ensure_future(threads.looks(lasts, "mallory"))
        await settled()
        await threads.reading.do(lambda: order.append("beside the look"), "ann")
        read = asyncio.ensure_future(threads.reading.do(lasts, "mallory"))
        await settled()
        waits = asyncio.ensure_future(threads.reading.do(lambda: order.append("behind both"), "ann"))
        await settled()
        assert order == ["beside the look"]
        may_end.set()
        await asyncio.gather(look, read, waits)
        assert order == ["beside the look", "behind both"]
        threads.close()

    on_loop(work)


def test_a_turn_that_nobody_waits_for_any_more_goes_to_the_next() -> None:
    async def work() -> None:
        turns = Turns(1)
        await turns.take("a")
        gone, left = asyncio.ensure_future(turns.take("a")), asyncio.ensure_future(turns.take("b"))
        await settled()
        turns.give()  # it is the first one's turn, who leaves at the same moment
        gone.cancel()
        await settled()
        assert gone.cancelled()
        assert left.done()
        turns.give()
        await turns.take("c")  # and none was lost

    on_loop(work)


def test_who_waits_for_a_thread_hears_of_it_in_his_own_context_and_leaves_when_he_is_cancelled() -> None:
    async def work() -> None:
        pool, said, go_on = Pool(2, "test"), ContextVar[str]("said"), threading.Event()

        async def ask(name: str, does: Callable[[], object]) -> tuple[str, object]:
            said.set(name)
            found = await pool.do(does, "")
            return said.get(), found

        both = asyncio.gather(ask("ann", lambda: 1), ask("bob", lambda: 2))
        assert await both == [("ann", 1), ("bob", 2)]
        with pytest.raises(ZeroDivisionError):
            await ask("ann", lambda: 1 // 0)
        left = asyncio.ensure_future(ask("ann", go_on.wait))
        await settled()
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        go_on.set()
        assert await ask("bob", lambda: 3) == ("bob", 3)
        pool.close()

    on_loop(work)


def test_a_thread_is_taken_until_its_work_is_done_also_when_the_asker_has_left() -> None:
    async def work() -> None:
        pool, began, may_end = Pool(1, "test"), threading.Event(), threading.Event()

        def long() -> None:
            began.set()
            may_end.wait(30)

        left = asyncio.ensure_future(pool.do(long, "mallory"))
        await asyncio.to_thread(began.wait, 30)
        left.cancel()
        await settled()
        following = asyncio.ensure_future(pool.do(lambda: "done", "ann"))
        await settled()
        assert not following.done()
        may_end.set()
        assert await following == "done"
        pool.close()

    on_loop(work)


def test_a_read_of_another_key_is_next_although_a_hundred_of_one_key_wait(tmp_path: Path) -> None:
    async def work() -> None:
        threads, go, order = Threads(ServerSettings(home=tmp_path, reading_threads=1)), threading.Event(), list[str]()

        def first() -> None:
            go.wait(30)

        asked = [asyncio.ensure_future(threads.reading.do(first, "mallory"))]
        asked += [
            asyncio.ensure_future(threads.reading.do(lambda: order.append("mallory"), "mallory")) for _ in range(100)
        ]
        asked.append(asyncio.ensure_future(threads.reading.do(lambda: order.append("ann"), "ann")))
        await settled()
        go.set()
        await asyncio.gather(*asked)
        assert order.index("ann") <= 1
        threads.close()

    on_loop(work)


@pytest.mark.parametrize("shown", [b"Bearer made-up", None])
def test_made_up_keys_queue_together(shown: bytes | None) -> None:
    async def work() -> None:
        entry, order = Turnstile(), list[str]()
        entry.knows(b"Bearer ann")

        async def ask(name: str, header: bytes | None) -> None:
            line = b"" if header is None else b"Authorization: " + header + b"\r\n"
            await entry.turn_of(b"GET /v1/runs HTTP/1.1\r\n" + line + b"\r\n")
            order.append(name)

        asked = [asyncio.ensure_future(ask("other", shown and shown + b"%d" % n)) for n in range(100)]
        asked.append(asyncio.ensure_future(ask("ann", b"Bearer ann")))
        await asyncio.gather(*asked)
        assert order.index("ann") <= 2 * Turnstile.AT_ONCE

    on_loop(work)


def test_an_answer_leaves_in_one_piece_and_those_that_come_together_are_all_answered(tmp_path: Path) -> None:
    with served(tmp_path / "home") as server, socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        ask = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        for _ in range(20):
            line.sendall(ask)
            whole = line.recv(65536)
            assert whole.startswith(b"HTTP/1.1 200")
            assert whole.endswith(b'{"status":"alive"}')
        line.sendall(ask * 5)
        answers = b""
        while answers.count(b'{"status":"alive"}') < 5:
            answers += line.recv(65536)


def test_what_only_looks_never_waits_for_those_who_write(tmp_path: Path) -> None:
    """Every call that looks is answered while each thread that writes is taken, also one with a long body."""
    done = threading.Event()
    with served(tmp_path / "home", flows=FLOWS, writing_threads=1, starting_threads=1, keeping_threads=1) as server:
        ours = world(server, "one")
        try:
            threads = server.server.state.threads
            for pool in (threads.writing, threads.starting, threads.keeping):
                _take(pool, done)
            told = {call.name: ours.ask(call, ours.owner) for call in LOOKS}
            assert {name: reply.raw for name, reply in told.items() if reply.status != 200} == {}
            assert server.post("/v1/workspace/recall", {"goal": "x" * 40_000}, key=ours.owner).status == 200
        finally:
            done.set()


def _take(pool: Pool, done: threading.Event) -> None:
    """Keep the one thread of a pool at work until `done`."""
    begun = threading.Event()

    def work() -> None:
        begun.set()
        done.wait(60)

    pool.submit(work)
    assert begun.wait(30)
