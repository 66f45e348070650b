"""`make test-postgres` means it: in this process and in those that it starts, homes are in PostgreSQL."""

import subprocess
import sys
from pathlib import Path

from outlast import Outlast

from ..kit import by_url


def test_the_homes_of_these_tests_are_in_postgresql_where_that_was_asked_for(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        assert ("postgresql" in outlast.facts()) == by_url.IS_ON
    ask = "import sys, outlast; print(*outlast.Outlast(sys.argv[1]).facts())"
    said = subprocess.run([sys.executable, "-c", ask, tmp_path / "home"], capture_output=True, text=True, check=True)
    assert ("postgresql" in said.stdout.split()) == by_url.IS_ON
