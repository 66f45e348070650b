"""The whole table: every call, noun by noun. A new noun adds its module here."""

from __future__ import annotations

from holdfast.api import handoff_calls, run_calls, wait_calls
from holdfast.api.calls import Call

CALLS: tuple[Call, ...] = (*handoff_calls.CALLS, *run_calls.CALLS, *wait_calls.CALLS)
