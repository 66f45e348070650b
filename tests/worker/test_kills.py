"""Workers and a server that are killed at random: limits hold, firings and effects happen once, nothing is left."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from outlast import Outlast
from outlast.clock import micros
from outlast.errors import OutlastError
from outlast.python.named_flows import find_flow
from outlast.runs.queues.queue import Queue
from outlast.runs.queues.schedule import shown, times_between

from . import killed_flows
from .killed_flows import asked, heard, late, limited, timed
from .killed_worker import FileClock
from .support import until

FLOWS = Path(killed_flows.__file__)
HERE = Path(__file__).parent
PARIS = "Europe/Paris"


class Processes:
    """Processes that are killed and come again."""

    def __init__(self, folder: Path, seed: int, words: Callable[[], list[str]]) -> None:
        self.folder, self.luck, self._words = folder, random.Random(seed), words
        self.living: list[subprocess.Popen[str]] = []
        self.kills: Counter[str] = Counter()

    def begin(self, count: int = 1) -> None:
        environment = os.environ | {"KILLED_FOLDER": str(self.folder)}
        for _ in range(count):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            command = [sys.executable, *self._words()]
            self.living.append(
                subprocess.Popen(command, text=True, cwd=self.folder, env=environment, **pipes)  # type: ignore[call-overload]
            )

    def kill_one(self, *, again: bool = True) -> None:
        """Kill one of them, or ask it to stop; another one comes in its place at once, or later."""
        one = self.luck.choice(self.living)
        number = self.luck.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        one.send_signal(number)
        self.kills[number.name] += 1
        self.living.remove(one)
        if again:
            self.begin()
        self._reap(one)

    def _reap(self, one: subprocess.Popen[str]) -> None:
        with suppress(subprocess.TimeoutExpired):
            one.wait(60)
        one.kill()
        for pipe in (one.stdin, one.stdout):
            assert pipe is not None
            pipe.close()

    def close(self) -> None:
        for one in self.living:
            one.kill()
            self._reap(one)
        self.living.clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(killed_flows, "HERE", tmp_path)
    return tmp_path


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def workers(folder: Path, seed: int, clock: Path | None = None) -> Processes:
    words = [str(HERE / "killed_worker.py"), str(folder / "home"), str(FLOWS), *([str(clock)] if clock else [])]
    return Processes(folder, seed, lambda: words)


@pytest.fixture
def ended() -> Iterator[list[Processes]]:
    begun: list[Processes] = []
    yield begun
    for each in begun:
        each.close()


# -- limits --------------------------------------------------------------------------------------------


def test_limits_hold_under_workers_that_are_killed(folder: Path, ended: list[Processes], crash_long: bool) -> None:
    count, kills, runs = (8, 100, 600) if crash_long else (3, 3, 24)
    with Outlast(folder / "home", store_options={"synchronous": "OFF"}) as outlast:
        outlast.set_limit("api", concurrency=2)
        for number in range(runs):
            outlast.start(limited, number, number % 3)
        processes = workers(folder, 7, None)
        ended.append(processes)
        processes.begin(count)
        for at in range(1, kills + 1):
            wanted = at * runs * 2 // (kills + 2)
            until(lambda wanted=wanted: len(lines(folder / "diary")) >= wanted, f"{wanted} calls")
            processes.kill_one()
        until(lambda: is_empty(outlast.queues()[0]), "the end")
        found = Counter(run.status for run in outlast.runs(limit=runs + 1))
        print(f"{count} workers, {dict(processes.kills)}, {found}, {len(lines(folder / 'diary'))} calls")
        assert (lines(folder / "exceeded"), found) == ([], Counter(succeeded=runs))
        assert outlast.limits()[0].held == outlast.limits()[0].waiting == ()
        assert len(set(lines(folder / "diary"))) == 2 * runs


def is_empty(queue: Queue) -> bool:
    return queue.ready == queue.delayed == queue.running == queue.idle == 0


# -- schedules -----------------------------------------------------------------------------------------


def test_each_firing_happens_once_with_workers_that_are_killed_over_both_changes_of_time(
    folder: Path, ended: list[Processes], crash_long: bool
) -> None:
    clock = folder / "clock"
    clock.write_bytes(bytes(8))
    made, hours = FileClock(clock), (1, 2, 3) if crash_long else (6, 9, 12)
    processes = workers(folder, 5, clock)
    ended.append(processes)
    expected: set[str] = set()
    for first, last in (("2026-03-28T12:05", "2026-03-30T12:05"), ("2026-10-24T12:05", "2026-10-26T12:05")):
        made.set(at(first))
        with Outlast(folder / "home", clock=made, store_options={"synchronous": "OFF"}) as outlast:
            expected |= scheduled(outlast, at(last))
            let_fire(outlast, made, processes, at(last), hours)
            tasks = Counter(run.task for run in outlast.runs(limit=1000))
            processes.close()
            for name in ("night", "often"):  # half a year lies between: no time of it was missed
                outlast.schedules.remove(name)
    print(f"{len(tasks)} firings, {dict(processes.kills)}")
    assert (set(tasks), set(tasks.values())) == (expected, {1})
    nights = Counter(task.partition("T")[0] for task in expected if task.startswith("night"))
    assert set(nights.values()) == {1}  # a time that does not exist, and one that exists twice, fire once that day


def scheduled(outlast: Outlast, upto: int) -> set[str]:
    """Two schedules, and the tasks that they are to come to."""
    expected: set[str] = set()
    for name, cron in (("night", "30 2 * * *"), ("often", "*/30 * * * *")):  # by name, so the last one is the newest
        outlast.schedules.add(name, find_flow(f"{FLOWS}:fired", None), cron, timezone=PARIS, missed="all")
        begun = outlast.schedules.list()[-1].next_at
        assert begun is not None
        expected |= {f"{name}@{shown(one, PARIS)}" for one in times_between(cron, PARIS, micros(begun), upto)}
    return expected


def let_fire(outlast: Outlast, made: FileClock, processes: Processes, upto: int, hours: tuple[int, ...]) -> None:
    """Three workers, now and then fewer or none, while the time goes on in leaps."""
    luck = processes.luck
    processes.begin(3 - len(processes.living))
    while made.now() < upto:
        made.set(min(made.now() + luck.choice(hours) * 1_800_000_000, upto))
        if luck.random() < 0.3:
            processes.kill_one(again=False)
        until(lambda: not due(outlast) or not processes.living, "firing")
        if luck.random() < 0.5:
            processes.begin(3 - len(processes.living))
    processes.begin(3 - len(processes.living))
    until(lambda: not due(outlast), "firing")
    until(lambda: all(run.finished for run in outlast.runs(limit=1000)), "the end of all runs")


def at(text: str) -> int:
    return micros(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(PARIS)))


def due(outlast: Outlast) -> bool:
    now = outlast._home.clock.now()
    return bool(outlast._home.store.read(lambda look: look.due_schedules(now)))


# -- a server ------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_and_started_again_leaves_nothing_and_does_nothing_twice(
    folder: Path, ended: list[Processes], crash_long: bool
) -> None:
    restarts, each = (30, 4) if crash_long else (2, 2)
    port = free_port()
    words = ["-m", "outlast", "--home", str(folder / "home"), "serve", "--flows", str(FLOWS), "--port", str(port)]
    processes = Processes(folder, 11, lambda: words)
    ended.append(processes)
    luck, number, expected = random.Random(11), 0, set[str]()
    with Outlast(folder / "home", store_options={"synchronous": "OFF"}) as outlast:
        outlast.queues()
        processes.begin()
        for _ in range(restarts):
            for _ in range(each):
                number += 1
                for flow in (asked, heard, timed, late):
                    outlast.start(flow, number)
                expected |= {f"asked {number} True", f"heard {number} 3", f"timed {number} 0"}
                outlast.signal(f"news {number}", {"n": 3}, task=None, run_id=_run_of(outlast, "heard", number))
            before = len(lines(folder / "sent"))
            wanted = before + luck.randrange(1, 2 * each)
            until(lambda wanted=wanted: _answered(outlast, port, luck) or len(lines(folder / "sent")) >= wanted, "work")
            processes.kill_one()
        until(lambda: _answered(outlast, port, luck) or _all_over(outlast), "the end of all runs")
        sent = [line.rpartition(" ")[0] for line in lines(folder / "sent")]
        found = Counter((run.flow.rpartition(":")[2], run.status) for run in outlast.runs(limit=1000))
        print(f"{restarts} restarts, {dict(processes.kills)}, {dict(found)}")
        assert (sorted(sent), len(sent)) == (sorted(expected), len(expected))
        ends = {"asked": "succeeded", "heard": "succeeded", "timed": "succeeded", "late": "failed"}
        assert found == Counter({(name, status): number for name, status in ends.items()})


def _run_of(outlast: Outlast, flow: str, number: int) -> str:
    return next(run.id for run in outlast.runs(limit=50) if run.flow.endswith(flow) and run.inputs["number"] == number)


def _answered(outlast: Outlast, port: int, luck: random.Random) -> bool:
    """Answer what is asked, over HTTP or here; the same word twice is one."""
    time.sleep(0.05)  # the server is to have the machine
    waits = [wait for wait in outlast.interrupts() if wait.type == "approval"]
    for wait in waits:
        said = {"operation_id": f"answer {wait.id}"}
        with suppress(OutlastError):
            if luck.random() < 0.5:
                with Outlast(f"http://127.0.0.1:{port}", store_options={"deadline_seconds": 1.0}) as client:
                    client.answer(wait.id, {"approved": True}, **said)  # type: ignore[arg-type]
                continue
        with suppress(OutlastError):
            outlast.answer(wait.id, {"approved": True}, **said)  # type: ignore[arg-type]
    return False


def _all_over(outlast: Outlast) -> bool:
    return all(run.status in ("succeeded", "failed") for run in outlast.runs(limit=1000))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
