"""Killed after its success and before it returned: the same call again is given the outcome, and is paid once."""

import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from outlast import Outlast, Run, effect, failpoints, flow, step

from ..kit.ledgers import remove_folder
from .test_artifact_kills import in_process, opened, points_of

pytestmark = pytest.mark.crash


class Till(ThreadingHTTPServer):
    """Counts what it is asked to charge."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Charging)
        self.charged = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Charging(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Till)
        self.server.charged += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def till() -> Iterator[Till]:
    with Till() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@effect
def charge(url: str) -> str:
    urllib.request.urlopen(url, b"5", timeout=30).close()
    return "charged"


@step
def bill(word: str) -> str:
    return f"{word} 5"


@flow
def pays(run: Run, url: str) -> str:
    return bill(charge(url))


def test_killed_anywhere_between_success_and_return_it_is_paid_once(tmp_path: Path, till: Till) -> None:
    """Every point between the two commits that the disk is waited for and the return, and the call repeated once."""

    def call(outlast: Outlast) -> str:
        return str(outlast.run(pays, till.url).result)

    points = points_of(tmp_path / "undisturbed", call)
    success = points.index(("run.ended", 1))
    ended = next(at for at in range(success, len(points)) if points[at][0] == "commit.done")
    received = next(at for at in range(ended + 1, len(points)) if points[at][0] == "commit.done")
    between = points[ended:received]
    assert [name for name, _ in between] == ["commit.done", "run.returns", "commit.begin", "commit.applied"]
    for point, nth in between:
        till.charged = 0
        trial = tmp_path / "trial"
        trial.mkdir()
        assert in_process(trial, call, failpoints.kill_at(point, nth)).killed, point
        with opened(trial) as outlast:
            with pytest.warns(RuntimeWarning, match="nobody received it"):
                again = outlast.run(pays, till.url)
            assert (again.result, again.redelivered, till.charged) == ("charged 5", True, 1)
            assert (outlast.run(pays, till.url).redelivered, till.charged) == (False, 2)
            assert outlast.verify().ok
        remove_folder(trial)


def test_once_it_was_received_the_same_call_pays_again(tmp_path: Path, till: Till) -> None:
    """What was returned is received: an unnamed call after it is a new one, also if its process was killed then."""

    def call(outlast: Outlast) -> str:
        outlast.run(pays, till.url)
        failpoints.arm(failpoints.kill_at("commit.begin", 1))
        return str(outlast.run(pays, till.url).result)

    assert in_process(tmp_path, call, None).killed
    with opened(tmp_path) as outlast:
        assert (outlast.run(pays, till.url).redelivered, till.charged) == (False, 2)


@pytest.mark.parametrize("point", ["commit.done", "run.returns"])
def test_an_operation_is_noted_with_the_run_that_it_joins(tmp_path: Path, till: Till, point: str) -> None:
    """A call that continues a run is killed right after it was noted, and at its return: its id gives that run."""

    def left(outlast: Outlast) -> None:
        outlast.run(asks)

    def joins(outlast: Outlast) -> None:
        outlast.with_options(operation_id="a").run(asks)

    assert not in_process(tmp_path, left, None).killed
    assert in_process(tmp_path, joins, failpoints.kill_at(point, 1)).killed
    with opened(tmp_path) as outlast:
        (run,) = outlast.runs()
        outlast.answer(outlast.interrupts(run.id)[0].id, {"approved": True})
        assert outlast.resume(run.id).status == "succeeded"
        again = outlast.with_options(operation_id="a").run(asks)
        assert (again.run_id, again.replayed, len(outlast.runs())) == (run.id, True, 1)


@flow
def asks(run: Run) -> bool:
    return bool(run.pause_for("approval")["approved"])
