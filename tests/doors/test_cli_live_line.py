"""The moving line of a run at a real pseudo-terminal: how far a map is; out of the way of who prints or types."""

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Outlast, Run, RunRecord, flow, step
from outlast.doors.cli.progress import ProgressWatch

from .terminal import Open

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


@step
def no_good() -> None:
    raise ValueError("no good")


@flow
def fails(run: Run) -> None:
    no_good()


CLEAR = "\r\x1b[2K"
FLOW = """
import getpass, pdb, sys, time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
try:
    from sitecustomize import getpass as read_unseen  # taken before anything of ours was there
except ImportError:
    from getpass import getpass as read_unseen
from pathlib import Path
from outlast import Run, AsyncRun, flow, step

@step
def fetch(number: int) -> int:
    while number >= 250 and not Path("go").exists():
        time.sleep(0.01)
    if number == 7:
        raise ValueError("seven is no good")
    return number

@flow
def many(run: Run) -> int:
    return len(run.map(fetch, [n for n in range(500) if n != 7], concurrency=2))

@flow
async def many_async(run: AsyncRun) -> int:
    return len(await run.map(fetch, [n for n in range(500) if n != 7], concurrency=2))

@flow
def bad(run: Run) -> None:
    run.map(fetch, [5, 6, 7], concurrency=1)

@step(timeout="1h")
def wait_a_while() -> None:
    while sys.stderr.isatty() and not Path("go").exists():
        time.sleep(0.01)

@flow
def beside(run: Run) -> int:
    pool = ThreadPoolExecutor(1)
    other = pool.submit(copy_context().run, wait_a_while)
    time.sleep(0.3)
    try:
        return unseen(True)
    finally:
        other.result()

@flow
def collected(run: Run) -> int:
    found = run.map(fetch, [5, 6, 7], key=lambda n: f"no {n}", on_error="collect")
    wait_a_while()
    return len(found)

@step
def stop_here() -> int:
    found = 41
    breakpoint()
    return found

@step
def set_trace() -> int:
    found = 41
    pdb.set_trace()
    return found

@step(timeout="1h")
def in_thread() -> int:
    found = 41
    breakpoint()
    return found

@step
def ask() -> int:
    return int(input("a number? "))

@step
def unseen(by_name: bool) -> int:
    read = read_unseen if by_name else getpass.getpass
    return len(read("the word? "))

@flow
def by_module(run: Run) -> int:
    time.sleep(0.3)
    return unseen(False)

@flow
def by_name(run: Run) -> int:
    time.sleep(0.3)
    return unseen(True)

@step
def say() -> int:
    sys.stdout.write("half a line, ")
    sys.stdout.flush()
    while not Path("go").exists():
        time.sleep(0.01)
    print("and the other half", flush=True)
    print("beside", file=sys.stderr)
    return 42

@flow
def debugged(run: Run) -> int:
    time.sleep(0.3)
    return stop_here()

@flow
def traced(run: Run) -> int:
    time.sleep(0.3)
    return set_trace()

@flow
def threaded(run: Run) -> int:
    time.sleep(0.3)
    return in_thread()

@flow
def asked(run: Run) -> int:
    time.sleep(0.3)
    return ask()

@flow
def said(run: Run) -> int:
    time.sleep(0.3)
    return say()
"""


@pytest.fixture
def watched(cli: "Cli") -> "Cli":
    (cli.folder / "live.py").write_text(FLOW)
    return cli


def screen_of(seen: str) -> list[str]:
    """What is left on a screen when all is over: lines that were wiped are gone."""
    return [line.rpartition(CLEAR)[2].replace("\r", "") for line in seen.split("\n")]


@pytest.mark.parametrize("flow", ["many", "many_async"])
def test_how_far_a_map_is_is_a_bar_with_numbers(watched: "Cli", at_terminal: Open, flow: str) -> None:
    screen = at_terminal("run", f"live.py:{flow}", PYTHONIOENCODING="utf-8")
    screen.type("", after="fetch █████████░░░░░░░░░░░ 249/499")
    (watched.folder / "go").touch()
    assert screen.end() == 0
    left = screen_of(screen.seen)
    assert [line for line in left if re.match(r"  fetch 499/499 in ", line)]
    assert not [line for line in left if "fetch[0]" in line]  # no line for each item
    assert len(left) < 15


def test_an_item_that_fails_has_its_line_and_is_counted(watched: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "live.py:bad")
    assert screen.end() == 1
    failed = re.compile(r"fetch~3 failed( in [\d.]+ m?s)?: ValueError: seven is no good")
    assert any(failed.search(line) for line in screen_of(screen.seen))


class SlowLists(Outlast):
    """A home whose list of runs comes only when it is let go."""

    asked, let_go = threading.Event(), threading.Event()

    def runs(self, **asked: Any) -> list[RunRecord]:
        self.asked.set()
        assert self.let_go.wait(60)
        return super().runs(**asked)


def test_a_run_that_ended_while_it_was_looked_for_has_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SlowLists(tmp_path / "home") as outlast:
        watch = ProgressWatch(outlast)
        with watch:
            assert SlowLists.asked.wait(60)
            watch.run_id = outlast.run(fails, task="one").run_id
            SlowLists.let_go.set()
    assert "no_good failed" in capsys.readouterr().err


def test_where_nothing_moves_each_item_has_its_line(watched: "Cli") -> None:
    answer = watched("run", "live.py:bad")
    told = [line.split()[0] for line in answer.err.splitlines() if "succeeded" in line or "failed" in line]
    assert told == ["fetch[0]/fetch", "fetch[0]/fetch~2", "fetch[0]/fetch~3"], answer.err
    assert "█" not in answer.err


def test_where_nothing_moves_an_item_with_a_key_is_told_by_its_key(watched: "Cli") -> None:
    answer = watched("run", "live.py:collected")
    assert "fetch[0]/fetch~no 5 succeeded" in answer.err
    assert "fetch[0]/fetch~no 7 failed" in answer.err


def test_a_map_with_items_that_failed_has_its_last_line_and_no_bar_after_it(watched: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "live.py:collected", PYTHONIOENCODING="utf-8")
    screen.type("", after="· wait_a_while")
    (watched.folder / "go").touch()
    assert screen.end() == 0
    assert [line for line in screen_of(screen.seen) if re.match(r"  fetch 2/3, 1 failed in ", line)]
    assert "░" not in screen.seen.partition("· wait_a_while")[2]


@pytest.mark.parametrize("flow", ["debugged", "traced", "threaded"])
def test_a_debugger_has_the_terminal_to_itself(watched: "Cli", at_terminal: Open, flow: str) -> None:
    screen = at_terminal("run", f"live.py:{flow}")
    screen.type("", after="(Pdb) ")
    screen.watch(seconds=1)  # many looks of the watcher
    screen.type("p found + 1\n", after="")
    at = len(screen.seen)
    screen.type("c\n", after="(Pdb) ")
    assert screen.end() == 0
    assert "42" in screen_of(screen.seen[at:])
    talk = screen.seen[screen.seen.index("(Pdb) ") : screen.seen.index("p found + 1")]
    assert talk == "(Pdb) "  # nothing came while somebody thought about what to type
    assert "result: 41" in screen.seen


def test_a_step_that_reads_a_line_is_not_written_over(watched: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "live.py:asked")
    screen.type("4", after="a number? ")
    screen.watch(seconds=1)  # many looks of the watcher
    screen.type("2\n", after="4")
    assert screen.end() == 0
    assert "a number? 42\r\n" in screen.seen
    assert "result: 42" in screen.seen


@pytest.mark.parametrize("flow", ["by_module", "by_name"])
def test_a_word_that_is_typed_unseen_is_asked_for_on_a_line_of_its_own(
    watched: "Cli", at_terminal: Open, flow: str
) -> None:
    (watched.folder / "sitecustomize.py").write_text("from getpass import getpass\n")
    screen = at_terminal("run", f"live.py:{flow}", PYTHONPATH=str(watched.folder))
    screen.type("", after="· between steps")  # the moving line is there
    screen.type("open-", after="the word? ")
    screen.watch(seconds=1)  # many looks of the watcher
    screen.type("sesame\n", after="")
    assert screen.end() == 0
    assert "the word? \r\n" in screen.seen  # nothing came while somebody typed
    assert screen.seen.partition("the word? ")[0].endswith(CLEAR)
    assert "open-" not in screen.seen
    assert "result: 11" in screen.seen


def test_what_happens_while_somebody_types_unseen_is_said_afterwards(watched: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "live.py:beside")
    screen.type("", after="the word? ")
    (watched.folder / "go").touch()
    screen.watch(seconds=1)
    screen.type("sesame\n", after="")
    assert screen.end() == 0
    assert "the word? \r\n" in screen.seen
    assert [line for line in screen_of(screen.seen) if line.startswith("  wait_a_while succeeded")]


def test_what_a_step_prints_is_whole_and_stays(watched: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "live.py:said")
    screen.type("", after="half a line, ")
    (watched.folder / "go").touch()
    assert screen.end() == 0
    left = screen_of(screen.seen)
    assert any(line.startswith("half a line, ") for line in left)
    assert "beside" in left
    assert "half a line, and the other half" in "".join(left)
