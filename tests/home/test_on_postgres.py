"""A slice of the suites of runs, crashes and workers with every home in PostgreSQL; `make test-postgres` is all.

Each group is a pytest of its own, with the server of this process of tests.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ..kit import by_url
from ..kit.postgres import server

ROOT = Path(__file__).parents[2]
ONE_IN = 3  # tests of these, in every run of the tests; all of them with --crash-long
SLICE = {
    "runs": ("home/test_by_url.py", "runs/test_effects.py", "runs/test_takeover.py"),
    "crash": ("crash/test_fencing.py",),
    "worker": ("worker/test_worker.py",),
}


@cache
def homes() -> str:
    """Where the homes are made: copies of an empty one."""
    return by_url.with_template(server())


@pytest.mark.skipif(by_url.IS_ON, reason="all of them are on PostgreSQL already")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("group", SLICE)
def test_the_same_tests_pass_with_their_homes_in_postgresql(group: str, crash_long: bool) -> None:
    files = [str(ROOT / "tests" / file) for file in SLICE[group]]
    worker = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}{group}"
    share = {} if crash_long else {by_url.SHARE: str(ONE_IN)}
    environment = os.environ | {by_url.SERVER: homes(), "PYTEST_XDIST_WORKER": worker} | share
    words = ["--quiet", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *files], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
