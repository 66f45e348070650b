"""What goes wrong is said by Python's logging: with fields, without secrets, and only to who listens."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import AsyncRun, Run, effect, flow, step

from ..kit.place import KNOBS, Place, reach

SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"


@step(retries=2, backoff=1)
def flaky() -> str:
    KNOBS["left"] = KNOBS.get("left", 0) - 1
    if KNOBS["left"] >= 0:
        raise ConnectionError(f"no line, {KNOBS.get('said', '')}")
    return "there"


@step(retries=2, backoff=1)
async def flaky_async() -> str:
    return flaky.plain()


@effect
def send() -> str:
    reach("sent")
    raise RuntimeError("the line broke")


@step
def deadly() -> str:
    reach("dead")
    return "alive"


@flow(name="reports")
def plain(run: Run) -> str:
    return flaky()


@flow(name="reports_async")
async def of_async(run: AsyncRun) -> str:
    return await flaky_async()


@flow
def sending(run: Run) -> str:
    return send()


@flow
def dying(run: Run) -> str:
    return deadly()


class Listener(logging.Handler):
    """A program's own handler."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def said() -> Iterator[list[logging.LogRecord]]:
    listener = Listener()
    logging.getLogger("outlast.runs").addHandler(listener)
    yield listener.records
    logging.getLogger("outlast.runs").removeHandler(listener)


def fields(record: logging.LogRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in ("levelname", "task", "flow", "step", "attempt"))


@pytest.mark.parametrize("body", [plain, of_async])
def test_a_run_that_failed_is_an_error_and_each_retry_before_a_warning(
    place: Place, said: list[logging.LogRecord], body: object
) -> None:
    KNOBS["left"] = 3
    outcome = place.run(body, task="nightly")
    step_name = "flaky" if body is plain else "flaky_async"
    assert [fields(record)[:1] + fields(record)[3:] for record in said] == [
        ("WARNING", step_name, 1), ("WARNING", step_name, 2), ("ERROR", "", 0),
    ]  # fmt: skip
    assert {record.__dict__["run"] for record in said} == {outcome.run_id}
    assert {record.__dict__["task"] for record in said} == {"nightly"}
    assert {record.__dict__["flow"] for record in said} == {place.outlast.get(outcome.run_id).flow}
    assert all(record.name.startswith("outlast") for record in said)
    assert "ConnectionError: no line" in said[-1].getMessage()
    assert "in flaky" in logging.Formatter().format(said[-1])


def test_a_run_in_which_nothing_goes_wrong_says_nothing(place: Place, said: list[logging.LogRecord]) -> None:
    assert place.run(plain).status == "succeeded"
    assert said == []


def test_nothing_that_is_said_holds_a_secret(place: Place, said: list[logging.LogRecord]) -> None:
    KNOBS["left"], KNOBS["said"] = 3, f"token {SECRET}"
    assert place.run(plain, task=f"of {SECRET}").status == "failed"
    whole = [logging.Formatter().format(record) + str(vars(record)) for record in said]
    assert [SECRET in text for text in whole] == [False] * 3
    assert all("***" in text for text in whole)


def test_an_effect_in_doubt_is_a_warning(place: Place, said: list[logging.LogRecord]) -> None:
    assert place.run(sending, task="mail").status == "waiting"
    (record,) = said
    assert (record.levelname, record.__dict__["step"], record.__dict__["attempt"]) == ("WARNING", "send", 1)
    assert "in doubt" in record.getMessage()


def test_a_takeover_is_a_warning_and_so_is_a_crash_loop(place: Place, said: list[logging.LogRecord]) -> None:
    for _ in range(3):
        place.crash(dying, task="night", at="dead")
    assert place.run(dying, task="night").status == "waiting"
    taken, loop = said
    assert (taken.levelname, taken.__dict__["task"]) == ("WARNING", "night")
    assert "taken over" in taken.getMessage()
    assert (loop.levelname, loop.__dict__["step"]) == ("WARNING", "deadly")
    assert "died in step deadly" in loop.getMessage()


PROGRAM = """
import logging, sys
from outlast import Outlast, Run, flow

@flow
def broken(run: Run) -> None:
    raise ValueError("no luck")

if "listen" in sys.argv:
    logging.basicConfig(format="%(levelname)s %(name)s %(run)s %(task)s: %(message)s")
with Outlast("home") as outlast:
    print(outlast.run(broken, task="t").status)
assert logging.getLogger("outlast").handlers == []
assert [type(each).__name__ for each in logging.getLogger("outlast.runs").handlers] == ["NullHandler"]
"""


def test_without_a_handler_of_the_program_nothing_is_printed_and_with_one_it_is(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "program.py", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    quiet = run()
    assert (quiet.stdout, quiet.stderr) == ("failed\n", "")
    heard = run("listen")
    assert heard.stderr.startswith("ERROR outlast.runs ")
    assert "ValueError: no luck" in heard.stderr


def test_importing_outlast_and_a_run_that_goes_well_load_no_logging(tmp_path: Path) -> None:
    program = """
import sys, outlast
before = "logging" in sys.modules
from outlast import Outlast, Run, flow
@flow
def fine(run: Run) -> None: ...
with Outlast("home") as home:
    home.run(fine).unwrap()
print(before, "logging" in sys.modules)
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert done.split() == ["False", "False"]
