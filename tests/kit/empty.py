"""An empty home, made once and copied: to make one takes longer than most tests that need it."""

import shutil
import tempfile
import threading
from functools import cache
from pathlib import Path

from outlast import Outlast

from . import by_url

_one_at_a_time = threading.Lock()  # a test may open its home in several threads at once


def put_empty_home(folder: Path) -> None:
    """Have an empty home there, as opening it would make one; where there is one, or homes are elsewhere, nothing."""
    with _one_at_a_time:
        if not folder.exists() and not by_url.IS_ON:
            shutil.copytree(Path(_made().name, "home"), folder)


@cache
def _made() -> "tempfile.TemporaryDirectory[str]":
    made = tempfile.TemporaryDirectory(prefix="outlast-empty-")
    Outlast(Path(made.name, "home")).close()
    return made
