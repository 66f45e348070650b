"""A failure that nobody looks at warns, as a coroutine does that is never awaited; whatever was looked at does not."""

import asyncio
import copy
import dataclasses
import gc
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outcome, Run, flow

from ..kit.place import KNOBS, Place

SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"


@flow
def broken(run: Run) -> None:
    raise ValueError(f"no luck {KNOBS.get('said', '')}")


@flow
def fine(run: Run) -> int:
    return 1


@flow
def asking(run: Run) -> None:
    run.sleep("2h")


def warned(work: Callable[[], object]) -> list[str]:
    gc.collect()  # what other tests left
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
        gc.collect()
    ours = [each for each in caught if "nobody looked" in str(each.message)]
    assert all(each.category is RuntimeWarning and each.filename == __file__ for each in ours)
    return [str(each.message) for each in ours]


def test_a_failed_outcome_that_is_dropped_warns_where_it_was_dropped(place: Place) -> None:
    outlast = place.outlast

    def drop() -> None:
        outlast.run(broken)

    (said,) = warned(drop)
    assert place.run_id in said
    assert "ValueError: no luck" in said
    assert warned(lambda: outlast.resume(place.run_id)) != []


def test_an_async_caller_is_warned_too(place: Place) -> None:
    place.close()

    async def drop() -> None:
        async with AsyncOutlast(place.home) as outlast:
            await outlast.run(broken)

    assert len(warned(lambda: asyncio.run(drop()))) == 1


def raised(outcome: Outcome[Any]) -> None:
    with pytest.raises(ValueError, match="no luck"):
        outcome.unwrap()


LOOKS: dict[str, Callable[[Outcome[Any]], object]] = {
    "status": lambda outcome: outcome.status,
    "result": lambda outcome: outcome.result,
    "error": lambda outcome: outcome.error,
    "exception": lambda outcome: outcome.exception,
    "unwrap": raised,
    "repr": repr,
    "eq": lambda outcome: outcome == outcome,
    "replace": lambda outcome: dataclasses.replace(outcome, notes=("x",)),
    "copy": copy.copy,
    "asdict": lambda outcome: dataclasses.asdict(dataclasses.replace(outcome, exception=None)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_one_that_was_looked_at_does_not(place: Place, look: Callable[[Outcome[Any]], object]) -> None:
    assert warned(lambda: look(place.run(broken))) == []


def test_its_id_alone_is_no_look(place: Place) -> None:
    assert len(warned(lambda: place.run(broken).run_id)) == 1


@pytest.mark.parametrize("body", [fine, asking], ids=["succeeded", "waiting"])
def test_one_that_did_not_fail_does_not(place: Place, body: Any) -> None:
    assert warned(lambda: place.run(body)) == []


def test_what_it_tells_is_what_it_was(place: Place) -> None:
    outcome = place.run(broken)
    assert dataclasses.replace(outcome) == outcome
    assert (outcome.status, outcome.result, (outcome.error or {})["message"]) == ("failed", None, "no luck ")
    assert isinstance(outcome.exception, ValueError)
    assert not hasattr(outcome, "nothing")


def test_the_warning_holds_no_secret(place: Place) -> None:
    KNOBS["said"] = SECRET
    (said,) = warned(lambda: place.run(broken) and None)
    assert SECRET not in said


PROGRAM = """
from outlast import Outlast, Run, flow

@flow
def broken(run: Run) -> None:
    raise ValueError("no luck")

with Outlast("home") as outlast:
    kept = outlast.run(broken)
    {line}
"""


@pytest.mark.parametrize(("line", "said"), [("kept = None", True), ("pass", False)], ids=["dropped", "kept to the end"])
def test_a_program_is_told_unless_it_is_ending(tmp_path: Path, line: str, said: bool) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(line=line))
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ("RuntimeWarning: run " in done.stderr) == said


def test_the_command_line_never_warns(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.partition("\nwith")[0])
    command = [sys.executable, "-W", "always", "-m", "outlast", "run", "program.py:broken"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "nobody looked" in done.stderr) == (1, False)
