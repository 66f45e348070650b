"""Workers and the server of Temporal that are killed: nothing is lost, no effect happens twice, nothing is stranded."""

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from outlast import Outlast

from ..kit import temporal
from . import flows
from .support import Home, Workers, result_of, until, workers

pytestmark = pytest.mark.crash


def is_proven(outlast: Outlast) -> bool:
    return bool(outlast.verify().ok)


def killed_at(home: Home, others: Workers, reached: str, file: str = "diary") -> None:
    """Kill the worker that has come there, and let another one begin."""
    until(lambda: any(line.startswith(reached) for line in flows.lines(file)), reached)
    others.end(others.living[0])
    for held in home.folder.glob("hold *"):
        held.unlink()
    others.begin()


def test_a_worker_killed_in_a_step_is_followed_by_another(home: Home, tmp_path: Path) -> None:
    (tmp_path / "hold a").touch()
    with workers(home) as others:
        others.begin()
        run_id = home.start(flows.plain)
        killed_at(home, others, "work a")
        home.stands(run_id, "succeeded")
        (workflow,) = home.closed(run_id)
    assert result_of(home.address, workflow) == "succeeded"
    assert flows.lines() == ["work a"] * 2
    assert is_proven(home.outlast)


def test_an_effect_in_which_a_worker_was_killed_is_asked_for_and_not_repeated(home: Home, tmp_path: Path) -> None:
    (tmp_path / "hold after e").touch()
    (tmp_path / "hold after b").touch()
    with workers(home) as others:
        others.begin()
        probed, blind = home.start(flows.sends, "e"), home.start(flows.sends_blindly, "b")
        until(lambda: len(flows.lines("sent")) == 2, "both effects")
        killed_at(home, others, "", "sent")
        home.stands(probed, "succeeded")
        assert [wait.type for wait in until(lambda: home.outlast.interrupts(blind), "a doubt")] == ["in_doubt"]
        (doubt,) = home.outlast.interrupts(blind)
        home.outlast.answer(doubt.id, {"choice": "skip", "result": "b", "why": "it was sent"})
        home.stands(blind, "succeeded")
    assert sorted(line.split()[0] for line in flows.lines("sent")) == ["b", "e"]
    assert is_proven(home.outlast)


def test_a_worker_killed_between_our_commit_and_its_answer_repeats_nothing(home: Home) -> None:
    with workers(home) as others:
        others.begin()
        run_id = home.start(flows.sends, "e")
        home.stands(run_id, "succeeded")  # committed: Temporal may not have been told
        others.end(others.living[0])
        others.begin()
        (workflow,) = home.closed(run_id)
    assert result_of(home.address, workflow) == "succeeded"
    assert len(flows.lines("sent")) == 1


def test_what_is_answered_while_nobody_works_and_temporal_is_away_goes_on(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = temporal.Server(tmp_path_factory.mktemp("temporal"))
    home.address = server.address
    try:
        with workers(home) as others:
            others.begin()
            first, second = home.start(flows.asks, "1"), home.start(flows.asks, "2")
            home.stands(first, "waiting")
            home.stands(second, "waiting")
            server.stop()  # its worker lives
            home.answer(first)
            server.start()
            home.stands(first, "succeeded")
            server.stop()
            others.end(others.living[0])  # both are gone
            home.answer(second)
            server.start()
            others.begin()
            home.stands(second, "succeeded")
            ends = [result_of(home.address, home.closed(each)[-1]) for each in (first, second)]
    finally:
        server.stop()
    assert ends == ["succeeded"] * 2
    assert Counter(flows.lines()) == Counter(f"work {when} {each}" for when in ("before", "after") for each in "12")


def test_rounds_of_kills(home: Home, crash_long: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Many runs, and at random while they are under way: a worker or the server is killed, or one is asked to stop."""
    rounds, count, runs, parts = (100, 4, 64, 3) if crash_long else (2, 2, 8, 1)
    luck = random.Random(22)
    server = temporal.Server(tmp_path_factory.mktemp("temporal")) if crash_long else temporal.server()
    home.address = server.address
    kills: Counter[str] = Counter()
    kinds = ("worker", "worker", "worker", "stopped", *(("server", "both") if crash_long else ()))
    try:
        with workers(home) as others:
            for _ in range(count):
                others.begin()
            mine = [home.start(flows.mixed, number, parts) for number in range(runs)]
            for number in range(rounds):
                what = luck.choice(kinds)
                kills[what] += 1
                under_way(home, luck)
                killed_once(server, others, what, luck)
                kills["begun again"] += others.replace_those_that_ended()
                wanted = runs * parts * number // (rounds + 1)
                until(lambda wanted=wanted: answer_some(home, luck) >= 0 and len(flows.lines("sent")) >= wanted, "work")
            until(lambda: answer_all(home) and all(home.get(each).finished for each in mine), "the end of all runs")
            ends = [result_of(home.address, home.closed(each)[-1]) for each in mine]
            stops = others.stop_seconds
    finally:
        if crash_long:
            server.stop()
    sent = [line.rpartition(" ")[0] for line in flows.lines("sent")]
    print(f"{count} workers, {runs} runs, {dict(kills)}, {len(flows.lines())} steps, {len(sent)} effects", end="; ")
    print(f"the slowest of {len(stops)} stops took {max(stops, default=0.0):.1f} s")
    assert sorted(sent) == sorted(f"mixed {number}.{part}" for number in range(runs) for part in range(parts))
    assert ends == [home.get(each).status for each in mine] == ["succeeded"] * runs
    assert is_proven(home.outlast)
    assert home.outlast.due() == []


def under_way(home: Home, luck: random.Random) -> None:
    """Let some runs go on; half of the time until something of them has happened."""
    before = happened()
    if answer_some(home, luck, 3) and luck.random() < 0.5:
        until(lambda: happened() > before, "something of what was answered")


def happened() -> int:
    return len(flows.lines()) + len(flows.lines("sent"))


def killed_once(server: temporal.Server, others: Workers, what: str, luck: random.Random) -> None:
    if what in ("server", "both"):
        server.stop()
    if what != "server":
        one = luck.choice(others.living)
        others.end(one, signal.SIGTERM if what == "stopped" else signal.SIGKILL)
        others.begin()
    if what in ("server", "both"):
        server.start()


def answer_some(home: Home, luck: random.Random, most: int = 1) -> int:
    """How many were answered."""
    waits = [one.interrupt for one in home.outlast.inbox() if one.interrupt.type == "approval"]
    chosen = luck.sample(waits, min(most, len(waits)))
    for wait in chosen:
        home.outlast.answer(wait.id, {"approved": True})
    return len(chosen)


def answer_all(home: Home) -> bool:
    for one in home.outlast.inbox():
        assert one.interrupt.type == "approval", one
        home.outlast.answer(one.interrupt.id, {"approved": True})
    return True
