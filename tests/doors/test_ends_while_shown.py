"""A run that ends between two looks of who shows it is shown as it ended."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, flow
from outlast.doors.mcp.runs import shown

KNOBS = {"fails": True}


@flow
def ends(run: Run) -> str:
    if KNOBS["fails"]:
        raise ValueError("not yet")
    return "done"


class Quicker(Outlast):
    """Somebody else ends the run just before it is asked what is left to do."""

    def plan(self, run_id: str, **more: Any) -> Any:
        KNOBS["fails"] = False
        Outlast.resume(self, run_id)
        return super().plan(run_id, **more)


@pytest.fixture
def outlast(tmp_path: Path) -> Any:
    KNOBS["fails"] = True
    with Quicker(tmp_path / "home") as opened:
        yield opened


def test_a_model_is_shown_its_end(outlast: Quicker) -> None:
    failed = outlast.run(ends)
    assert failed.status == "failed"
    answer = shown(outlast, failed.run_id, 5)
    assert 'Result: "done"' in answer.text
