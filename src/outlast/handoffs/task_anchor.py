"""The anchor of a task: what its handoffs are stored under."""

from __future__ import annotations

PREFIX = "task:"


def anchor_of(task: str) -> str:
    """What a task's handoffs are stored under."""
    return PREFIX + task


def task_of(anchor: str) -> str | None:
    """The task whose anchor this is; None when it is no task's."""
    return anchor.removeprefix(PREFIX) if anchor.startswith(PREFIX) and anchor != PREFIX else None
