"""Runs of a server, as a client starts, follows and decides about them."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, flow, flow_file, step
from outlast.errors import (
    InputsInvalid,
    NoFlows,
    RepeatsEffects,
    RunFailed,
    RunFinished,
    RunHeld,
    StepNotFound,
    ValueRefused,
)

from . import http_flows
from .client_story import Plain
from .server import Served, served
from .test_http_runs import FLOWS, until

SHELL = """
flow: shell
steps:
  - {id: say, run: "printf 'one\\ntwo\\n'"}
  - {id: more, run: "seq 1 20000"}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "shell.yaml"
    path.write_text(SHELL)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, recipe: Path) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=(FLOWS, str(recipe)), poll_seconds=0.02) as found:
        yield found


def url(server: Served) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def outlast(server: Served) -> Iterator[Outlast]:
    with Outlast(url(server), store_options={"retry_seconds": 0.01, "poll_seconds": 5.0}) as found:
        yield found


@flow
def unserved(run: Run) -> None:
    """No server was given this one."""


@flow(name="doubling")
def typed(run: Run, number: int) -> float:
    """The same name with another type: what comes back is what this one's annotation says."""
    return 0.0


def test_a_flow_runs_at_the_server_and_its_result_comes_back(outlast: Outlast) -> None:
    outcome = outlast.run(http_flows.doubling, 21)
    assert (outcome.status, outcome.result, outcome.unwrap()) == ("succeeded", 42, 42)
    assert isinstance(outlast.run(typed, 21).unwrap(), float)
    assert outlast.get(outcome.run_id[:8]).id == outcome.run_id


def test_it_is_the_same_outcome_as_embedded(outlast: Outlast, tmp_path: Path) -> None:
    plain = []
    with Outlast(tmp_path / "home") as embedded:
        for each in (embedded, outlast):
            asked = each.run(http_flows.asking, "may I?")
            assert each.run(http_flows.asking, "may I?").run_id == asked.run_id
            answered = each.answer(asked.interrupts[0].id, {"approved": True}, operation_id="yes")
            told = [asked, answered, each.resume(asked.run_id), each.runs(status="succeeded", limit=1)[0].result]
            plain.append(Plain()(told))
    assert plain[0] == plain[1]


def test_everything_that_is_known_of_a_run_is_the_same(outlast: Outlast, server: Served, recipe: Path) -> None:
    doubled = outlast.run(http_flows.doubling, 4).run_id
    asked = outlast.run(http_flows.noting, "read me").run_id
    shell = outlast.run(flow_file(recipe)).run_id
    with server.opened() as there:
        for run in (doubled, asked, shell):
            for name in ("get", "receipts", "events", "timeline", "interrupts", "audit"):
                assert getattr(outlast, name)(run) == getattr(there, name)(run), name
            assert [log.pieces and b"".join(log.pieces()) for log in outlast.logs(run)] == [
                b"".join(log.pieces()) for log in there.logs(run)
            ]
        assert outlast.plan(asked) == there.plan(asked)
        assert outlast.logs(shell) == there.logs(shell)
        assert [each.size_bytes for each in outlast.logs(shell, "say")] == [8]
        assert outlast.handoff.step(doubled, "double") == there.handoff.step(doubled, "double")
        for name in ("runs", "inbox", "due", "interrupts", "verify"):
            assert getattr(outlast, name)() == getattr(there, name)(), name
        every = outlast.events(shell)
        assert outlast.events(shell, after=2, limit=3) == every[2:5] == there.events(shell, after=2, limit=3)
        first = outlast.runs(limit=1)
        assert outlast.runs(limit=2, cursor=first[0].id) == there.runs(limit=2, cursor=first[0].id)
        for each in (outlast, there):
            with pytest.raises(ValueRefused, match="no such status"):
                each.runs(status="no such status")  # type: ignore[arg-type]


def test_what_cannot_be_run_there_is_refused(outlast: Outlast) -> None:
    with pytest.raises(NoFlows):
        outlast.run(unserved)
    with pytest.raises(InputsInvalid):
        outlast.run(http_flows.doubling)
    with pytest.raises(ValueRefused):
        outlast.run(http_flows.doubling, object())  # type: ignore[arg-type]
    done = outlast.run(http_flows.doubling, 8)
    with pytest.raises(RunFinished):
        outlast.resume(done.run_id)


def test_a_failure_is_told_as_a_failed_run(outlast: Outlast, tmp_path: Path) -> None:
    failed = outlast.run(http_flows.telling, str(tmp_path))  # which is no file
    assert (failed.status, failed.error and failed.error["type"]) == ("failed", "builtins:IsADirectoryError")
    with pytest.raises(RunFailed, match="IsADirectoryError"):
        failed.unwrap()


def test_a_run_is_started_followed_and_waited_for(outlast: Outlast, tmp_path: Path) -> None:
    started = outlast.start(http_flows.telling, str(tmp_path / "go"), events=5)
    with pytest.raises(TimeoutError):
        started.outcome(0)
    seen = []
    for event in outlast.follow_events(started.run_id):
        seen.append(event)
        if event.name == "told" and event.body == {"number": 4}:
            (tmp_path / "go").write_text("gone")
    assert started.outcome(60).unwrap() == "gone"
    assert seen == outlast.events(started.run_id)
    assert list(outlast.follow_events(started.run_id, after=seen[2].seq)) == seen[3:]


def test_the_twin_awaits_the_same(server: Served, tmp_path: Path) -> None:
    async def story() -> Any:
        async with AsyncOutlast(url(server)) as outlast:
            started = await outlast.start(http_flows.telling, str(tmp_path / "go"))
            names = []
            async for event in outlast.follow_events(started.run_id):
                names.append(event.name)
                (tmp_path / "go").write_text("awaited")
            outcome = await started
            asked = await outlast.run(http_flows.asking, "awaited?")
            await outlast.answer(asked.interrupts[0].id, {"approved": True})
            return outcome.unwrap(), names.count("told"), (await outlast.resume(asked.run_id)).unwrap()

    assert asyncio.run(story()) == ("awaited", 3, True)


def test_who_cancels_the_waiting_cancels_no_run(server: Served, tmp_path: Path) -> None:
    async def story() -> str:
        async with AsyncOutlast(url(server), store_options={"poll_seconds": 0.1}) as outlast:
            waiting = asyncio.ensure_future(outlast.run(http_flows.patient, str(tmp_path / "never")))
            runs = outlast.blocking.runs
            there = lambda: [each for each in runs(status="running") if each.flow.endswith("patient")]  # noqa: E731
            await asyncio.to_thread(until, there)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return there()[0].id

    run_id = asyncio.run(story())
    with Outlast(url(server)) as outlast:
        outlast.pause(run_id)
        until(lambda: outlast.get(run_id).status == "interrupted")


def test_ctrl_c_says_that_the_run_goes_on(outlast: Outlast, tmp_path: Path) -> None:
    def interrupt() -> None:
        until(
            lambda: [each for each in outlast.runs(status="running") if each.inputs.get("path") == str(tmp_path / "go")]
        )
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt) as stopped:
            outlast.run(http_flows.telling, str(tmp_path / "go"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert "goes on at the server" in "".join(stopped.value.__notes__)
    (run,) = [each for each in outlast.runs(status="running") if each.inputs.get("path") == str(tmp_path / "go")]
    (tmp_path / "go").write_text("went on")
    until(lambda: outlast.get(run.id).status == "succeeded")


# a line that breaks


class Cuts:
    """Between a client and a server: cuts the line after so many bytes of an answer, again and again.

    Or swallows the first answers; or puts other bytes in the place of some.
    """

    def __init__(
        self, server: Served, most: int = 1 << 30, *, swallow: int = 0, swap: tuple[bytes, bytes] = (b"", b"")
    ) -> None:
        self._swap = swap
        self._port, self._most, self._swallow, self.lines = server.port, most, swallow, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            self.lines += 1
            threading.Thread(target=self._pass_on, args=(taken, self.lines <= self._swallow), daemon=True).start()

    def _pass_on(self, taken: socket.socket, swallows: bool) -> None:
        with suppress(OSError), taken, socket.create_connection(("127.0.0.1", self._port)) as line:
            threading.Thread(target=self._forward, args=(taken, line), daemon=True).start()
            left = self._most
            while left > 0 and (piece := line.recv(min(left, 1 << 16))):
                left -= len(piece)
                if swallows:
                    break
                taken.sendall(piece.replace(*self._swap) if self._swap[0] else piece)
            for each in (taken, line):
                each.shutdown(socket.SHUT_RDWR)

    def _forward(self, taken: socket.socket, line: socket.socket) -> None:
        try:
            while piece := taken.recv(1 << 16):
                line.sendall(piece)
        except OSError:
            pass

    def close(self) -> None:
        self._listening.close()


def test_a_stream_that_breaks_is_taken_up_with_no_event_lost_or_doubled(server: Served, tmp_path: Path) -> None:
    (tmp_path / "go").write_text("on")
    with Outlast(url(server)) as outlast:
        run = outlast.run(http_flows.telling, str(tmp_path / "go"), events=60).run_id
        every = outlast.events(run)
    cuts = Cuts(server, 4000)
    with Outlast(cuts.url, store_options={"retry_seconds": 0.001}) as outlast:
        assert list(outlast.follow_events(run)) == every
    cuts.close()
    assert cuts.lines > 2


def test_a_resume_whose_answer_was_lost_is_not_taken_for_refused(server: Served) -> None:
    with Outlast(url(server)) as outlast:
        asked = outlast.run(http_flows.asking, "lost?")
        outlast.answer(asked.interrupts[0].id, {"approved": True})
    cuts = Cuts(server, 1 << 20, swallow=1)
    with Outlast(cuts.url, store_options={"retry_seconds": 0.01}) as outlast:
        outcome = outlast.resume(asked.run_id)
    cuts.close()
    assert (outcome.status, outcome.result) == ("succeeded", True)


def test_a_start_whose_answer_was_lost_starts_one_run(server: Served) -> None:
    cuts = Cuts(server, 1 << 20, swallow=1)
    with Outlast(cuts.url, store_options={"retry_seconds": 0.01}) as outlast:
        outcome = outlast.run(http_flows.doubling, 77)
        assert outcome.unwrap() == 154
        assert [each.id for each in outlast.runs() if each.inputs == {"number": 77}] == [outcome.run_id]
    cuts.close()


def test_awaited_a_stream_is_taken_up_too_and_ends_at_once_when_cancelled(server: Served, tmp_path: Path) -> None:
    (tmp_path / "go").write_text("on")
    cuts = Cuts(server, 4000)

    async def story() -> tuple[list[Any], str]:
        async with AsyncOutlast(cuts.url, store_options={"retry_seconds": 0.001}) as outlast:
            run = (await outlast.run(http_flows.telling, str(tmp_path / "go"), events=40)).run_id
            seen = [event async for event in outlast.follow_events(run)]
            going = await outlast.start(http_flows.telling, str(tmp_path / "never"))
            coming = outlast.follow_events(going.run_id)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    _ = [event async for event in coming]
            (tmp_path / "never").write_text("now")
            await going
            return seen, run

    seen, run = asyncio.run(story())
    cuts.close()
    with Outlast(url(server)) as outlast:
        assert seen == outlast.events(run)


def test_a_run_that_was_claimed_is_resumed_by_its_claimer_only(outlast: Outlast, server: Served) -> None:
    asked = outlast.run(http_flows.asking, "whose?", task="claimed")
    claim = outlast.handoff.recover("task:claimed", claim=True).claim
    assert claim is not None
    assert claim.run_id == asked.run_id
    outlast.answer(asked.interrupts[0].id, {"approved": True})
    with Outlast(url(server)) as other, pytest.raises(RunHeld):
        other.resume(asked.run_id)
    assert outlast.resume(asked.run_id).unwrap() is True


def test_an_answer_goes_on_at_the_server_when_that_is_asked_for(server: Served) -> None:
    with Outlast(url(server)) as outlast:
        first = outlast.run(http_flows.asking, "go on at the server?")
        outlast.answer(first.interrupts[0].id, {"approved": True}, resume=True)
        until(lambda: outlast.get(first.run_id).status == "succeeded")
        assert outlast.get(first.run_id).result is True
        second = outlast.run(http_flows.asking, "or not?")
        outlast.answer(second.interrupts[0].id, {"approved": True})
        assert outlast.get(second.run_id).status == "waiting"


def test_a_client_forks_a_run_of_a_server(outlast: Outlast, server: Served) -> None:
    done = outlast.run(http_flows.doubling, 21)
    fork = outlast.fork(done.run_id, "double", inputs={"number": 4}, operation_id="fork-1")
    assert (fork.origin, fork.origin_step, fork.inputs) == (done.run_id, "double", {"number": 4})
    assert outlast.fork(done.run_id, "double", inputs={"number": 4}, operation_id="fork-1").id == fork.id
    assert outlast.resume(fork.id).unwrap() == 8
    with pytest.raises(StepNotFound, match="outlast skip"):
        outlast.fork(done.run_id, "nothing")
    with pytest.raises(InputsInvalid):
        outlast.fork(done.run_id, "double", inputs={"number": "many"})


def test_a_client_is_told_which_effects_a_fork_would_repeat(outlast: Outlast) -> None:
    doubtful = outlast.run(http_flows.charging, 3)
    with pytest.raises(RepeatsEffects, match="charge") as refused:
        outlast.fork(doubtful.run_id, "charge")
    assert [each["step"] for each in refused.value.effects] == ["charge"]


def test_other_inputs_of_a_flow_that_is_not_served_are_refused(outlast: Outlast, server: Served) -> None:
    with Outlast(server.home) as here:
        run = here.run(apart, 1).run_id
    with pytest.raises(NoFlows):
        outlast.fork(run, "apart_step", inputs={"number": 2})
    assert outlast.fork(run, "apart_step").origin == run


@step
def apart_step(number: int) -> int:
    return number


@flow
def apart(run: Run, number: int) -> int:
    return apart_step(number)
