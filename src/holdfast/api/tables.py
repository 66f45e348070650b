"""The whole table: every call, noun by noun. A new noun adds its module here."""

from __future__ import annotations

from holdfast.api import (
    blob_calls,
    care_calls,
    handoff_calls,
    record_calls,
    run_calls,
    session_calls,
    task_calls,
    wait_calls,
    workspace_calls,
)
from holdfast.api.calls import Call

CALLS: tuple[Call, ...] = (
    *handoff_calls.CALLS,
    *blob_calls.CALLS,
    *run_calls.CALLS,
    *wait_calls.CALLS,
    *care_calls.CALLS,
    *workspace_calls.CALLS,
    *record_calls.CALLS,
    *task_calls.CALLS,
    *session_calls.CALLS,
)
