"""The whole table: every call, noun by noun. A new noun adds its module here."""

from __future__ import annotations

from outlast.doors.http import (
    blobs as blob_calls,
)
from outlast.doors.http import (
    care as care_calls,
)
from outlast.doors.http import (
    handoffs as handoff_calls,
)
from outlast.doors.http import (
    outputs as output_calls,
)
from outlast.doors.http import (
    records as record_calls,
)
from outlast.doors.http import (
    runs as run_calls,
)
from outlast.doors.http import (
    sessions as session_calls,
)
from outlast.doors.http import (
    tasks as task_calls,
)
from outlast.doors.http import (
    waits as wait_calls,
)
from outlast.doors.http import (
    workspace as workspace_calls,
)
from outlast.doors.http.calls import Call

CALLS: tuple[Call, ...] = (
    *handoff_calls.CALLS,
    *blob_calls.CALLS,
    *run_calls.CALLS,
    *output_calls.CALLS,
    *wait_calls.CALLS,
    *care_calls.CALLS,
    *workspace_calls.CALLS,
    *record_calls.CALLS,
    *task_calls.CALLS,
    *session_calls.CALLS,
)
