"""Compiled code for the processes that tests start, in a folder of its own, so that none lies among a test's files.

What was compiled when a package was installed is used from there: else every process of the tests would compile the
standard library and all dependencies again.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite as rewriting

LEFT_OUT = {"site-packages", "test", "idlelib", "lib2to3", "ensurepip"}  # of the standard library


def use(folder: Path) -> None:
    """Have the processes that are started from now on keep compiled code there."""
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for cache in _installed():
        there = Path(f"{folder}{cache.parent}")
        there.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(cache):
            if name.endswith(f".{sys.implementation.cache_tag}.pyc"):
                (there / name).symlink_to(cache / name)


def rewrite(config: pytest.Config, number: int, count: int) -> None:
    """Compile every `count`th of the tests that are asked for, as pytest does when it imports them."""
    asked = (Path(config.invocation_params.dir, each.partition("::")[0]) for each in config.args)
    files = sorted(file for path in asked for file in ([path] if path.is_file() else path.rglob("test_*.py")))
    for file in files[number::count]:
        folder = rewriting.get_cache_dir(file)
        folder.mkdir(parents=True, exist_ok=True)
        digest, code = rewriting._rewrite_test(file, config)
        state = config.stash[rewriting.assertstate_key]
        rewriting._write_pyc(state, code, digest, folder / (file.stem + rewriting.PYC_TAIL))


def _installed() -> Iterator[Path]:
    """The folders with compiled code of the standard library and of what is installed."""
    library = sysconfig.get_path("stdlib")
    for root in {library, *(path for path in sys.path if path.endswith("site-packages"))}:
        for folder, folders, _ in os.walk(root):
            if "__pycache__" in folders:
                yield Path(folder, "__pycache__")
            folders[:] = [
                name for name in folders if name != "__pycache__" and not (folder == library and name in LEFT_OUT)
            ]
