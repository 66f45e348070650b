"""What all tests share: compiled code for the processes they start, files in memory, and how much hypothesis tries."""

import gc
import os
import signal
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .kit import by_url, compiled

if by_url.IS_ON:
    by_url.begin()  # before anything is imported that opens a home
    from .kit.by_url import homes_of_a_module, pytest_collection_modifyitems  # noqa: F401

from .kit.fixtures import other, place  # noqa: F401
from .kit.memory import MEMORY, has_room

gc.disable()  # until all tests are found: what is read until then stays
for number, usual in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) == signal.SIG_IGN:  # as for what runs in the background: tests send these, and mean it
        signal.signal(number, usual)

os.environ["OUTLAST_ACTOR"] = "local"  # whoever runs the tests, on whatever machine

if "PYTEST_XDIST_WORKER" not in os.environ:  # its workers inherit all of it
    if not {"TMPDIR", "PYTEST_DEBUG_TEMPROOT"} & os.environ.keys() and has_room():
        os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(MEMORY)
    COMPILED = tempfile.TemporaryDirectory(prefix="outlast-compiled-")
    compiled.use(Path(COMPILED.name))
    CONFIG = tempfile.TemporaryDirectory(prefix="outlast-config-")
    os.environ["XDG_CONFIG_HOME"] = CONFIG.name


USERS, _FOLDERS = os.environ["XDG_CONFIG_HOME"], count()


@pytest.fixture(autouse=True)
def own_folder() -> Path:
    """The user's own folder, where he keeps what he agreed to: each test is a user of its own."""
    above = Path(USERS, os.environ.get("PYTEST_XDIST_WORKER", "main"), str(next(_FOLDERS)))
    os.environ["XDG_CONFIG_HOME"] = str(above)
    os.environ["XDG_CACHE_HOME"] = str(above / "cache")
    os.environ.pop("OUTLAST_BLOBS", None)
    os.environ.pop("OUTLAST_HOME", None)  # a command that ran in this process, of the test before, may have set it
    return above / "outlast"


def pytest_configure(config: pytest.Config) -> None:
    """No deadline, since the machine that runs the tests is shared, and the same examples each time: what fails was
    changed. With `--crash-long` five times as many, and others each time."""
    is_long = bool(config.getoption("--crash-long"))
    settings.register_profile(
        "outlast",
        deadline=None,
        max_examples=200 if is_long else 40,
        derandomize=not is_long,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("outlast")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Workers compile the tests that are asked for by turns, and read what the others compiled."""
    if worker := getattr(session.config, "workerinput", None):
        compiled.rewrite(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def pytest_collection_finish() -> None:
    """Tests, and what they import, are no garbage: they are not looked through again, nor copied into forks by that."""
    gc.freeze()
    gc.enable()
