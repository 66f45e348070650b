"""Histories of each version of the workflow are kept: later code must go on with what an earlier one began."""

import asyncio
import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from outlast.adapters.temporal.workflow import RunWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("v*.json"))


def replayed(text: str) -> None:
    asyncio.run(Replayer(workflows=[RunWorkflow]).replay_workflow(WorkflowHistory.from_json("kept", text)))


def test_there_are_histories_of_every_ending() -> None:
    kept = {path.stem for path in HISTORIES}
    assert kept >= {f"v1-{each}" for each in ("plain", "answered", "delayed", "aborted", "failed", "continued")}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.stem)
def test_a_kept_history_is_replayed_by_todays_workflow(history: Path) -> None:
    replayed(history.read_text())


def test_one_that_does_not_fit_is_noticed() -> None:
    told = json.loads(next(path for path in HISTORIES if path.stem == "v1-plain").read_text())
    (scheduled,) = [each for each in told["events"] if "activityTaskScheduledEventAttributes" in each]
    scheduled["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "another"
    with pytest.raises(NondeterminismError):
        replayed(json.dumps(told))
