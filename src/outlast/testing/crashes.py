"""`crash_everywhere`: a flow is killed at every write point and goes on, and the promises are checked each time.

Every trial has a home of its own and real processes, forked and killed by SIGKILL. The parent opens a home only
after the last fork that uses it: SQLite's files do not survive a fork.

Forked processes that may be killed, and what they said before they ended.

What must hold of a home afterwards is found out from its journals, entry by entry: written against the promises, not
with the code that keeps them.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from outlast import failpoints
from outlast.clock import SystemClock, micros
from outlast.commands import room as _commands  # noqa: F401  loaded once here, not anew by every process that is forked
from outlast.home.home import run_row
from outlast.ledger.journal import CALLS, Header, decode_header
from outlast.python.decorators import Flow
from outlast.python.outlast import Outlast
from outlast.runs.attempt import Attempt
from outlast.runs.call import Call
from outlast.runs.effect import NOT_DONE, Happened, ProbeAnswer
from outlast.runs.execution import Execution
from outlast.runs.receipt import Receipt
from outlast.runs.run import Outcome, RunRecord
from outlast.runs.waits.interrupt import Interrupt, is_told
from outlast.values.codec import decode, encode

Tell = Callable[[str, Any], None]


class ChildEnd(Struct, frozen=True):
    """How a child ended: by SIGKILL, or not; and everything it told."""

    killed: bool
    said: list[tuple[str, Any]]

    def told(self, name: str) -> list[Any]:
        """What it told under that name, in order; under `error`, the traceback of what it raised."""
        return [what for said, what in self.said if said == name]


def in_child(work: Callable[[Tell], None], seconds: float) -> ChildEnd:
    """Run `work(tell)` in a forked process and wait for its end. Raises TimeoutError, having killed it.

    The child leaves by `os._exit`: nothing of the parent's (exit handlers, buffers, fixtures) runs twice.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: the child starts none of them
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    try:
        said = _heard(reading, pid, seconds)
    finally:
        os.close(reading)
        _, status = os.waitpid(pid, 0)
    return ChildEnd(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, said)


def _work(work: Callable[[Tell], None], writing: int) -> None:
    def tell(name: str, what: Any) -> None:
        os.write(writing, json.dumps([name, what]).encode() + b"\n")

    try:
        work(tell)
    except BaseException:
        tell("error", traceback.format_exc())
    finally:
        os._exit(0)


def _heard(reading: int, pid: int, seconds: float) -> list[tuple[str, Any]]:
    """Everything said until the child's end closes the pipe."""
    text, deadline = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            raise TimeoutError(f"a process did not end within {seconds:g} s")
        part = os.read(reading, 1 << 16)
        if not part:
            return [tuple(json.loads(line)) for line in text.splitlines()]
        text += part


T = TypeVar("T")
Settle = Callable[[Receipt], Happened | ProbeAnswer]
_MOST_RESUMES = 20
TASK = "crash-everywhere"


class Point(Struct, frozen=True):
    """The nth time that a write point is reached."""

    name: str
    nth: int

    def __str__(self) -> str:
        return f"{self.name}:{self.nth}"


class Crashes(Struct, frozen=True):
    """What was tried: every one of these kills was followed by resumes to the same result."""

    points: tuple[Point, ...]
    missed: tuple[Point, ...]  # not reached again: where threads race, one run may write less than another
    kills: int
    resumes: int
    result: Any


def crash_everywhere(
    flow: Flow[..., T],
    *args: Any,
    check: Callable[[Any], object] | None = None,
    settle: Settle | None = None,
    answers: Mapping[str, Any] | None = None,
    reset: Callable[[], object] | None = None,
    resources: Mapping[str, Callable[[], Any]] | None = None,
    home: str | Path | None = None,
    limit: int | None = None,
    twice: bool = False,
    seconds: float = 30.0,
    **kwargs: Any,
) -> Crashes:
    """Kill a flow at every write point it reaches, go on, and assert what Outlast promises.

    The next process repeats the call, as a supervisor does, or resumes the run, in turns; and when it has ended the
    call is repeated once more. Asserted is: the same result as undisturbed, every delivered outcome kept and not
    computed again, every effect run once unless `NOT_DONE` or a decision let it run again, the last call given that
    result without doing anything, and a clean `verify`. Raises AssertionError naming the point; the home of that trial
    is kept. The task is named `crash-everywhere` unless `task` is given.

    An effect in doubt is settled by its `confirm` probe. For one without, `settle(receipt)` says what became of
    it: `Happened(result)` or `NOT_DONE`. `answers` has what people say to `pause_for`, and the bodies of the signals
    that are waited for, by the name of the wait; the same one each time. Sleeps take no time. `reset` puts the outside
    world back before each trial, `check(result)` looks at it afterwards; `resources` are factories, called in every
    process. `limit` tries so many points, spread evenly; `twice` kills the first resume as well. Trials take place
    below `home`.
    """
    base = Path(tempfile.mkdtemp(prefix="outlast-crashes-", dir=home))
    given, settled = {"task": TASK} | kwargs, settle or _no_settle
    subject = CrashSubject(flow, args, given, settled, resources or {}, seconds, answers or {})
    trying = Trying(base, subject, check or _nothing, reset or _nothing)
    points = trying.undisturbed()
    for number, point in enumerate(_spread(points, limit)):
        trying.killed_at(point, number, twice)
    shutil.rmtree(base)
    return Crashes(tuple(points), tuple(trying.missed), trying.kills, trying.resumes, trying.result)


def _nothing(*_: Any) -> None:
    """The default of what need not be done."""


def _no_settle(receipt: Receipt) -> Happened | ProbeAnswer:
    raise AssertionError(
        f"effect {receipt.label} was killed between its intent and its outcome, and nobody knows whether it happened: "
        f"give it a probe, @effect(confirm=…), or answer for it by crash_everywhere(…, settle=…)"
    )


def _spread(points: list[Point], limit: int | None) -> list[Point]:
    if limit is None or len(points) <= limit:
        return points
    return [points[number * len(points) // limit] for number in range(limit)]


# -- in the children ---------------------------------------------------------------------------------


class Hurried(SystemClock):
    """The machine's clocks, except that waiting takes no time: the wall clock jumps ahead instead."""

    def __init__(self) -> None:
        self.ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.ahead += int(seconds * 1_000_000)

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)
        await asyncio.sleep(0)


class CrashSubject(Struct, frozen=True):
    """What is tried: a flow with its inputs, and how a process of it goes on."""

    flow: Flow[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    settle: Settle
    resources: Mapping[str, Callable[[], Any]]
    seconds: float
    answers: Mapping[str, Any] = field(default_factory=dict)

    def work(self, home: Path, hook: Callable[[str], None] | None, tell: Tell, *, by_id: bool = False) -> None:
        """One process's part: say what was there, go on, settle what is in doubt for the next one.

        It repeats the call, also when the run has ended; `by_id`: it resumes the run, if there is one to resume.
        """
        clock = Hurried()
        failpoints.arm(hook)
        with Outlast(home, clock=clock) as outlast:
            for key, factory in self.resources.items():
                outlast.resource(key, factory=factory)
            tell("delivered", delivered(outlast))
            _tell_bodies(tell)
            clock.ahead = max((_ahead(wait, clock) for wait in outlast.interrupts()), default=0)
            outcome = self._go_on(outlast, by_id)
            for wait in outlast.interrupts():
                self._answer(outlast, wait)
            if outcome.status != "waiting":
                outcome.unwrap()
            tell("finished", all(run.finished for run in every_run(outlast)))

    def _go_on(self, outlast: Outlast, by_id: bool) -> Outcome[Any]:
        left = [run.id for run in every_run(outlast) if by_id and not run.parent and not run.finished]
        return outlast.resume(left[0]) if left else self.call(outlast)

    def call(self, outlast: Outlast) -> Outcome[Any]:
        """The call, as whoever made it first makes it again."""
        return outlast.run(self.flow, *self.args, **self.kwargs)

    def _answer(self, outlast: Outlast, wait: Interrupt) -> None:
        if wait.type == "inputs_changed":
            raise AssertionError(f"{wait.says}: the flow's body is not the same each time it runs")
        if is_told(wait.type) and wait.name in self.answers:
            self._give(outlast, wait)
        if wait.type not in ("in_doubt", "crash_loop"):
            return
        receipt = [r for r in outlast.receipts(wait.run_id) if r.label == wait.step][-1]
        match self.settle(receipt) if wait.type == "in_doubt" else NOT_DONE:
            case Happened(value=value):
                outlast.answer(wait.id, {"choice": "skip", "result": value, "why": "it happened"})
            case answer if answer is NOT_DONE:
                outlast.answer(wait.id, {"choice": "retry", "why": "it did not happen"})
            case answer:
                raise AssertionError(f"settle({receipt.label}) must give Happened(result) or NOT_DONE, not {answer!r}")

    def _give(self, outlast: Outlast, wait: Interrupt) -> None:
        """What somebody says: to one who was told before, once more, as a message that is delivered twice."""
        said, operation = self.answers[wait.name], f"answer {wait.id}"
        if wait.type == "signal":
            outlast.signal(wait.payload["name"], said, run_id=wait.run_id, operation_id=operation)
        else:
            outlast.answer(wait.id, said, operation_id=operation)


def _ahead(wait: Interrupt, clock: SystemClock) -> int:
    return micros(wait.due_at) - clock.now() if wait.due_at else 0


def _tell_bodies(tell: Tell) -> None:
    """Tell of every body that this process really begins, whatever the journal says of it."""
    arguments = Execution.arguments

    def told(execution: Execution, attempt: Attempt) -> Mapping[str, Any]:
        given = arguments(execution, attempt)
        tell("body", [execution.id, list(attempt.asked.call)])
        return given

    Execution.arguments = told  # type: ignore[method-assign, assignment]


def _kill_after(count: int) -> Callable[[str], None]:
    left = count

    def hook(reached: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


# -- in the parent -----------------------------------------------------------------------------------


class Trying(Struct):
    """The trials of one flow, and what they came to."""

    base: Path
    subject: CrashSubject
    check: Callable[[Any], object]
    reset: Callable[[], object]
    result: Any = None
    kills: int = 0
    resumes: int = 0
    missed: list[Point] = field(default_factory=list)

    def undisturbed(self) -> list[Point]:
        """Run it once and write down every point reached, and the result that all other trials must have."""
        trial = Trial(self.base / "undisturbed", self.subject, "undisturbed")
        log = self.base / "points"
        self.reset()
        trial.go_on(failpoints.log_to(str(log)))
        trial.finish()
        self.result = trial.judged()
        self.check(self.result)
        seen: Counter[str] = Counter()
        points = []
        for name in log.read_text().split():
            seen[name] += 1
            points.append(Point(name, seen[name]))
        return points

    def killed_at(self, point: Point, number: int, twice: bool) -> None:
        """One trial: kill, resume until it is finished, judge."""
        trial = Trial(self.base / f"{number:04d}", self.subject, f"killed at {point}", number)
        self.reset()
        if not trial.go_on(failpoints.kill_at(point.name, point.nth)).killed:
            self.missed.append(point)
        if twice:
            trial.go_on(_kill_after(number % 7 + 1))
        trial.finish()
        result = trial.judged()
        trial.expect(encode(result) == encode(self.result), f"it gave {result!r}, undisturbed {self.result!r}")
        self.check(result)
        self.kills, self.resumes = self.kills + trial.kills, self.resumes + len(trial.parts) - 1
        shutil.rmtree(trial.home)


class Trial(Struct):
    """One home, and the processes that worked on it one after the other."""

    home: Path
    subject: CrashSubject
    where: str
    number: int = 0
    parts: list[ChildEnd] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(part.killed for part in self.parts)

    def expect(self, holds: bool, else_: str) -> None:
        if not holds:
            raise AssertionError(f"{self.subject.flow.spec.name}, {self.where}: {else_} (kept in {self.home})")

    def go_on(self, hook: Callable[[str], None] | None = None) -> ChildEnd:
        """Let one process work until it ends or is killed. None of it may compute what was delivered before."""
        by_id = (self.number + len(self.parts)) % 2 == 1
        try:
            part = in_child(lambda tell: self.subject.work(self.home, hook, tell, by_id=by_id), self.subject.seconds)
        except TimeoutError as error:
            raise AssertionError(f"{self.where}: {error} (kept in {self.home})") from None
        self.parts.append(part)
        self.expect(not part.told("error"), "\n".join(part.told("error")))
        kept = [(run_id, call) for run_id, call, _, _ in _first(part.told("delivered"))]
        again = [call for run_id, call in part.told("body") if (run_id, call) in kept]
        self.expect(not again, f"delivered outcomes were computed again: {again}")
        return part

    def finish(self) -> None:
        """Resume until every run of the home is finished."""
        for _ in range(_MOST_RESUMES):
            if self.parts[-1].told("finished") == [True] and not self.parts[-1].killed:
                return
            self.go_on()
        self.expect(False, f"not finished after {_MOST_RESUMES} resumes")

    def judged(self) -> Any:
        """The result, once every promise has been found kept."""
        bodies = [(run_id, Call(*call)) for part in self.parts for run_id, call in part.told("body")]
        with Outlast(self.home) as outlast:
            broken = list(wrongs(outlast, bodies))
            self.expect(not broken, "; ".join(broken))
            there = [tuple(decode(encode(one)) for one in each) for each in delivered(outlast)]
            lost = [one for part in self.parts for one in _first(part.told("delivered")) if tuple(one) not in there]
            self.expect(not lost, f"delivered outcomes are gone or changed: {lost}")
            again = self.subject.call(outlast)
            tops = [run for run in every_run(outlast) if not run.parent]
            self.expect(len(tops) == 1, f"there are {len(tops)} runs where one was asked for")
            self.expect(again.replayed, "the same call after its end was not given how it ended")
            return tops[0].result


def _first(told: list[Any]) -> list[Any]:
    return list(told[0]) if told else []


# -- what must hold afterwards -----------------------------------------------------------------------

_ALL = 1_000_000


class CallRecord(Struct):
    """One call as its journal tells it."""

    name: str
    kind: str = ""
    delivered: bool = False
    attempts: int = 0
    settled: int = 0  # NOT_DONE answers and decisions: each permits one more attempt
    wrongs: list[str] = field(default_factory=list)

    def hear(self, header: Header, seq: int) -> None:
        """Take the next entry in, and note what it breaks."""
        if header.kind == "decision":
            self.settled, self.delivered = self.settled + 1, False
            return
        self.kind = header.kind
        if self.delivered:
            self.wrongs.append(f"{self.name}: entry {seq} ({header.status}) follows a delivered outcome")
        if header.attempt > self.attempts:
            self.attempts += 1
            self.settled += header.mark in ("decided", "reused")  # somebody said what counts: its body did not run
            if self.kind == "effect" and self.attempts > self.settled + 1:
                self.wrongs.append(f"{self.name}: attempt {header.attempt} without NOT_DONE or a decision")
        self.settled += header.mark == "not_done"
        self.delivered = header.delivered


def every_run(outlast: Outlast) -> list[RunRecord]:
    return outlast.runs(limit=_ALL)


def entries(outlast: Outlast, run: RunRecord) -> Iterator[tuple[int, str, Header, Call]]:
    """The entries of a run that concern its calls: seq, hash, header, call."""
    home = outlast._executor.home
    key = run_row(home, run.id).key
    for row in home.store.read(lambda look: look.journal_of(key)):
        header = decode_header(row.header)
        if header.kind in (*CALLS, "decision"):
            call = Call(header.scope, header.name, header.inputs, header.occurrence)
            yield row.seq, row.hash.hex(), header, call


def delivered(outlast: Outlast) -> list[list[Any]]:
    """Every outcome that a flow was given, as plain lists: run, call, seq, hash."""
    return [
        [run.id, list(call), seq, found]
        for run in every_run(outlast)
        for seq, found, header, call in entries(outlast, run)
        if header.delivered
    ]


def calls_of(outlast: Outlast, run: RunRecord) -> dict[Call, CallRecord]:
    """Every step and effect of a run, as its journal tells it."""
    found: dict[Call, CallRecord] = {}
    for seq, _, header, call in entries(outlast, run):
        found.setdefault(call, CallRecord(f"{header.scope}{header.name}")).hear(header, seq)
    return found


def wrongs(outlast: Outlast, bodies: Iterable[tuple[str, Call]] = ()) -> Iterator[str]:
    """Every broken promise. `bodies` has the run and call of each body that was really begun."""
    for problem in outlast.verify().problems:
        yield f"verify: {problem.record}: {problem.why}"
    begun = Counter(bodies)
    for run in every_run(outlast):
        for call, told in calls_of(outlast, run).items():
            yield from told.wrongs
            times = begun[run.id, call]
            if told.kind == "effect" and times > told.settled + 1:
                yield f"{told.name}: its body ran {times} times after {told.settled} answers of NOT_DONE or decisions"
            if run.finished and not told.delivered:
                yield f"{told.name}: it has no outcome, and its run is {run.status}"
