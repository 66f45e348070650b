"""The example of the page: one flow by three engines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..kit import temporal

EXAMPLE = Path(__file__).parents[2] / "examples" / "temporal" / "report.py"


@pytest.mark.parametrize("engine", ["here", "workers", "temporal"])
def test_the_same_flow_runs_by_every_engine(engine: str, tmp_path: Path) -> None:
    environment = os.environ | {"OUTLAST_HOME": str(tmp_path / "home")}
    words = [sys.executable, str(EXAMPLE), engine, temporal.server().address]
    for _ in (1, 2) if engine == "temporal" else (1,):
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout) == (0, f"published: All about kelp, {engine}.\n"), done.stderr
