"""The measuring side: children that are asked in turn, round by round, and the medians of it.

A figure is the median over rounds; a ratio is the median of the ratios within each round, so that
whatever slows the machine for a while slows both halves of it.
"""

import compileall
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from threading import Timer
from types import TracebackType
from typing import IO, Self

HERE = Path(__file__).parent
PATIENCE_SECONDS = 300
PATHS = os.pathsep.join([str(HERE), str(HERE.parent / "src")])


class NotMeasured(Exception):
    """A child that could not be started or did not answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A subject of a module (see `child.py`) under the name the tables give it."""

    name: str
    module: str
    variant: str
    python: str = sys.executable
    slow: bool = False
    source: str = ""  # where another version of our code is imported from

    def command(self, home: Path, *verb: str) -> list[str]:
        child = str(HERE / "child.py")
        return [self.python, "-P", child, self.module, self.variant, str(home), *verb]

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        own = {"PYTHONPATH": os.pathsep.join([str(HERE), self.source])} if self.source else {}
        return environment({**own, **(more or {})})


@dataclass(frozen=True, slots=True)
class Sample:
    wall: float
    cpu: float


Ask = Callable[[], Sample]
Request = Mapping[str, str | int]  # a verb of `child.py` and its arguments


class Worker:
    """A child that stays up and does what it is asked."""

    def __init__(self, target: Target, home: Path) -> None:
        self.errors = home.with_suffix(".stderr").open("w+")
        self.process = subprocess.Popen(
            target.command(home, "serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=target.environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()
        self.errors.close()

    def ask(self, request: Request) -> Sample:
        assert self.process.stdin
        assert self.process.stdout
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise NotMeasured(last_line(self.errors)) from None
        with patience(self.process):
            answer = self.process.stdout.readline()
        if not answer:
            self.process.wait()
            raise NotMeasured(last_line(self.errors))
        return Sample(**json.loads(answer))


class Rounds:
    """The samples of every subject, by round, and why some have none.

    The disk may be twice as slow a second later. Where `base` is named, it is asked again right
    before each other subject, which is then compared with that.
    """

    def __init__(self, base: str | None = None) -> None:
        self.base = base
        self.samples: dict[str, dict[int, Sample]] = {}
        self.beside: dict[str, dict[int, Sample]] = {}
        self.failed: dict[str, str] = {}

    def take(self, asks: Mapping[str, Ask], rounds: int, slow: Collection[str] = ()) -> None:
        """Ask all in turn, beginning with another each round; the slow in every third round."""
        names = list(asks)
        for number in range(rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                if name not in self.failed and (name not in slow or number % 3 == 0):
                    if self.base is not None:
                        self.beside.setdefault(name, {})[number] = asks[self.base]()
                    self._sample(name, number, asks[name])

    def forget(self) -> None:
        """Drop what was taken to warm up."""
        self.samples, self.beside = {}, {}

    def median(self, name: str, of: Callable[[Sample], float]) -> float:
        return median(of(sample) for sample in self.samples[name].values())

    def spread(self, name: str, of: Callable[[Sample], float]) -> tuple[float, float]:
        """The middle half of what the rounds found."""
        found = sorted(of(sample) for sample in self.samples[name].values())
        quarter = len(found) // 4
        return found[quarter], found[-1 - quarter]

    def compare(self, name: str, other: str, by: Callable[[Sample, Sample], float]) -> float:
        """The median, over the rounds both were in, of what `by` makes of the pair."""
        ours = self.samples[name]
        theirs = self.beside[name] if other == self.base else self.samples[other]
        return median(by(ours[number], theirs[number]) for number in ours.keys() & theirs.keys())

    def ratio(self, name: str, other: str) -> float:
        return self.compare(name, other, lambda a, b: a.wall / b.wall)

    def _sample(self, name: str, number: int, ask: Ask) -> None:
        try:
            self.samples.setdefault(name, {})[number] = ask()
        except NotMeasured as error:
            self.failed[name] = str(error)
            self.samples.pop(name, None)


def ask_in_rounds(
    taken: Rounds, targets: list[Target], homes: Path, rounds: int, warm: Request, request: Request
) -> None:
    """Ask every target the same, interleaved, once `warm` has taken it past the first checkpoint.

    Until then a commit makes the WAL longer and syncs the file's size too, which is the slower case.
    """
    with ExitStack() as stack:
        workers = {
            target.name: stack.enter_context(Worker(target, homes / f"{request['verb']}-{number}"))
            for number, target in enumerate(targets)
        }
        taken.take({name: partial(worker.ask, warm) for name, worker in workers.items()}, 1)
        taken.forget()
        asks = {name: partial(worker.ask, request) for name, worker in workers.items()}
        taken.take(asks, rounds, [target.name for target in targets if target.slow])


def begin(target: Target, home: Path, steps: int) -> None:
    """Leave in `home` a run that was killed in the step after `steps`."""
    stop = {"BENCH_STOP_AT": str(steps), "BENCH_DIE": "1"}
    command = target.command(home, "begin", str(steps))
    done = subprocess.run(
        command, capture_output=True, text=True, env=target.environment(stop), timeout=PATIENCE_SECONDS
    )
    if done.returncode not in (9, -9):
        raise NotMeasured(last_of(done.stderr.splitlines()))


def go_on(target: Target, home: Path, steps: int) -> Sample:
    """From starting a process to the first line of the step that `begin` was killed in."""
    command = target.command(home, "go_on", str(steps))
    return until_output(command, target.environment({"BENCH_STOP_AT": str(steps)}))[0]


def until_output(command: list[str], more: dict[str, str] | None = None) -> tuple[Sample, str]:
    """From starting a process to its first line of output, and that line."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(more)
    ) as process:
        assert process.stdout
        assert process.stderr
        with patience(process):
            line = process.stdout.readline()
            wall = time.perf_counter() - began
            errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if not line or process.returncode != 0:
        raise NotMeasured(last_of(errors.splitlines()))
    return Sample(wall, usage.ru_utime + usage.ru_stime), line


@contextmanager
def patience(process: "subprocess.Popen[str]") -> Iterator[None]:
    """End a process that hangs; its silence is then an answer too."""
    timer = Timer(PATIENCE_SECONDS, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """That of a child: it may read, and write, compiled code whatever this process was told."""
    return {**os.environ, "PYTHONPATH": PATHS, "PYTHONDONTWRITEBYTECODE": "", **(more or {})}


def compile_all() -> None:
    """Compile our code now, so that no child spends its first seconds on it."""
    for path in PATHS.split(os.pathsep):
        compileall.compile_dir(path, quiet=2)


def last_line(errors: IO[str]) -> str:
    errors.seek(0)
    return last_of(errors.read().splitlines())


def last_of(lines: Iterable[str]) -> str:
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].replace(str(HERE.parent), ".")[:160] if said else "the process ended without a word"
