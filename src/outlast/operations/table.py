"""All operations by name: loading this loads every noun."""

from __future__ import annotations

from outlast.operations import handoffs as handoffs
from outlast.operations import queues as queues
from outlast.operations import runs as runs
from outlast.operations import tasks as tasks
from outlast.operations import workspace as workspace
from outlast.operations.operation import DECLARED, Operation

# By noun, and within one in the order in which they are declared, whichever noun this process loaded first.
OPERATIONS: dict[str, Operation] = dict(sorted(DECLARED.items(), key=lambda each: each[1].request.__module__))
