"""Records and links killed between any two writes: there whole, with their receipt, or not at all, and never twice."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, current, failpoints, flow, step
from outlast.errors import LeaseLost
from outlast.testing import crash_everywhere

from ..kit.ledgers import remove_folder
from .test_artifact_kills import in_process, opened, points_of, take_over

pytestmark = pytest.mark.crash


def records(outlast: Outlast) -> list[str]:
    first = outlast.workspace.record("observation", "seen", tags=["t"], operation_id="first")
    second = outlast.workspace.record("decision", "so be it", [first.ref], pinned=True, operation_id="second")
    made = outlast.workspace.link(first.ref, "supports", second.ref, operation_id="link")
    return [first.ref, second.ref, made.id]


def texts(outlast: Outlast) -> tuple[str, ...]:
    assert outlast.verify().ok, outlast.verify().problems
    return tuple(sorted(one.text for one in outlast.workspace.records()))


def test_a_record_or_link_killed_anywhere_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    points = points_of(tmp_path / "undisturbed", records)
    seen = set()
    for point, nth in points:
        trial = tmp_path / "trial"
        trial.mkdir()
        assert in_process(trial, records, failpoints.kill_at(point, nth)).killed, f"{point}:{nth}"
        with opened(trial) as outlast:
            seen.add((texts(outlast), outlast.verify().links))
            first, second, _ = records(outlast)
            assert texts(outlast) == ("seen", "so be it")
            assert [link.target for link in outlast.workspace.links(first)] == [second]
        remove_folder(trial)
    both = ("seen", "so be it")
    assert seen == {((), 0), (("seen",), 0), (both, 0), (both, 1)}


@step
def looks(topic: str) -> str:
    workspace = current().workspace
    saved = workspace.save("seen.md", topic)
    made = workspace.record("observation", topic, [saved.ref], tags=["t"])
    workspace.link(made.ref, "derived_from", saved.ref)
    return made.ref


@flow
def decides(run: Run, topic: str) -> list[Any]:
    ref = looks(topic)
    made = run.workspace.record("decision", "go on", [ref])
    linked = run.workspace.link(ref, "supports", made.ref)
    seen = run.workspace.get_record(ref)
    return [seen.text, seen.source.step, list(seen.refs), made.kind, linked.relation]


def test_a_run_killed_anywhere_records_each_thing_once(tmp_path: Path, crash_long: bool) -> None:
    report = crash_everywhere(decides, "tides", home=tmp_path, task="t", limit=None if crash_long else 4)
    assert report.result == ["tides", "looks", ["artifact:default/seen.md@1"], "decision", "supports"]
    assert len(report.points) > 20
    assert report.kills >= (4 if not crash_long else 20)


def test_what_a_killed_run_left_is_seen_only_with_its_receipt_and_made_once_in_the_end(
    tmp_path: Path, crash_long: bool
) -> None:
    def work(outlast: Outlast) -> None:
        outlast.run(decides, "tides", task="t").unwrap()

    points = points_of(tmp_path / "undisturbed", work)[:: 1 if crash_long else 6]
    kills = 0
    for point, nth in points:
        trial = tmp_path / "trial"
        trial.mkdir()
        kills += in_process(trial, work, failpoints.kill_at(point, nth)).killed  # how many commits there are may differ
        with opened(trial) as outlast:
            receipts = [receipt for run in outlast.runs() for receipt in outlast.receipts(run.id)]
            assert ("tides" in texts(outlast)) == any(receipt.delivered for receipt in receipts)
            work(outlast)
            assert texts(outlast) == ("go on", "tides")
            assert (outlast.verify().records, outlast.verify().links) == (2, 2)
            assert len(outlast.runs()) == 1
        remove_folder(trial)
    assert kills > len(points) // 2


@flow
def overtaken(run: Run) -> str:
    take_over(run)
    return run.workspace.record("note", "the old owner's").ref


@step
def records_too_late() -> str:
    take_over(current())
    return current().workspace.record("note", "the old owner's").ref


@flow
def overtaken_in_a_step(run: Run) -> str:
    return records_too_late()


@pytest.mark.parametrize("work", [overtaken, overtaken_in_a_step], ids=["body", "step"])
def test_an_owner_who_lost_the_run_records_nothing(tmp_path: Path, work: Any) -> None:
    with opened(tmp_path) as outlast:
        with pytest.raises(LeaseLost):
            outlast.run(work)
        assert texts(outlast) == ()
        assert outlast.verify().records == 0
