"""What the tests of workers are given."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.flows.loading import load

from .support import Spoken

MODULE = """
from outlast import Run, flow

@flow
def spoken(run: Run, what: str = "a") -> str:
    return run.pause_for("word")["word"]
"""


@pytest.fixture
def spoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spoken]:
    """A flow by its module, as a script imports it, and the same by its file, as a worker is given it."""
    (tmp_path / "spoken_words.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)  # the work tree of a module is the one that its process stands in
    yield load("spoken_words:spoken"), load(f"{tmp_path}/spoken_words.py:spoken")
    sys.modules.pop("spoken_words")
