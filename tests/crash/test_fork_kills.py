"""A fork killed between any two writes: it is there whole or not at all, and the same call can be made again."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, failpoints
from outlast.testing.crashes import ChildEnd, in_child

from ..kit.ledgers import copy_folder, remove_folder
from ..kit.place import KNOBS
from ..runs.test_fork import heavy

pytestmark = pytest.mark.crash


def opened(folder: Path) -> Outlast:
    return Outlast(folder / ".outlast", store_options={"synchronous": "OFF"})


def forked(folder: Path, run_id: str, hook: Callable[[str], None]) -> ChildEnd:
    def work(tell: Callable[[str, object], None]) -> None:
        with opened(folder) as outlast:
            failpoints.arm(hook)
            outlast.fork(run_id, "last", state={"a": 1}, operation_id="op")
            failpoints.arm(None)

    ended = in_child(work, 60)
    assert not ended.told("error"), ended.told("error")[0]
    return ended


def test_a_fork_killed_anywhere_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    made, log = tmp_path / "made", tmp_path / "points"
    KNOBS["log"] = str(tmp_path / "ran.log")
    made.mkdir()
    with opened(made) as outlast:
        done = outlast.run(heavy)
    copy_folder(made, tmp_path / "undisturbed")
    assert not forked(tmp_path / "undisturbed", done.run_id, failpoints.log_to(str(log))).killed
    seen: Counter[str] = Counter()
    found = set()
    for point in log.read_text().split():
        seen[point] += 1
        trial = tmp_path / "trial"
        copy_folder(made, trial)
        assert forked(trial, done.run_id, failpoints.kill_at(point, seen[point])).killed
        with opened(trial) as outlast:
            assert outlast.verify().ok
            there = len(outlast.runs()) - 1
            found.add(there)
            fork = outlast.fork(done.run_id, "last", state={"a": 1}, operation_id="op")
            assert (fork.replayed, len(outlast.runs())) == (bool(there), 2)
            assert outlast.resume(fork.id).unwrap() == done.result
            assert outlast.verify().ok
        remove_folder(trial)
    assert found == {0, 1}
