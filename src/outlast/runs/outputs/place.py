"""Where a step's command stands: it is told so, and says it again when it saves (`saves.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from outlast.runs.attempt import Attempt
    from outlast.runs.execution import Execution

SAVES = "OUTLAST_SAVES"
FILE = "saves"


class CommandPlace(msgspec.Struct, frozen=True):
    """Where a command stands: of which home, in which attempt of which step of which run."""

    home: str
    file: str
    run: str
    step: str
    attempt: int
    epoch: int


def told_place(execution: Execution, attempt: Attempt, folder: Path) -> str:
    """What a command is told."""
    call, home = attempt.asked.call, str(execution.executor.home.folder)
    step, epoch = f"{call.scope}{call.step}", execution.hold.epoch
    made = CommandPlace(home, str(folder / FILE), execution.id, step, attempt.number, epoch)
    return msgspec.json.encode(made).decode()
