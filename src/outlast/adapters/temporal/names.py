"""What a run is called in Temporal, and what of it is shown there: names and ids, no content."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from outlast.runs.queues.engine import EngineRun
    from outlast.runs.run import RunRecord

LONGEST = 200  # of a task's name: Temporal takes ids of 1,000 bytes
PREFIX = "outlast"


def workflow_id(tenant: str, run: EngineRun | RunRecord) -> str:
    """One for each run: `outlast/TENANT/SCOPE/TASK/RUN`. Equal starts are equal in it."""
    return "/".join([prefix_of(tenant), _part(run.scope), _part(run.task), run.id])


def prefix_of(tenant: str) -> str:
    """How the ids of a tenant's workflows begin."""
    return f"{PREFIX}/{_part(tenant)}"


def task_queue_of(queue: str, mark: str) -> str:
    """The task queue of a queue. `mark` is the ledger's: others may share the namespace, and name a queue the same."""
    return f"{queue}@{mark}"


def run_of(workflow: str) -> str:
    """The id of the run that a workflow is of."""
    return workflow.rpartition("/")[2]


def page_of(ui: str, namespace: str, workflow: str) -> str:
    """Where Temporal's own pages show a workflow."""
    return f"{ui.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow, safe='')}"


def _part(name: str) -> str:
    return quote(name, safe=" .,:;@=+-_~()[]")[:LONGEST]


def flow_name(run: EngineRun) -> str:
    """The name of its flow, without where that lies."""
    return run.flow.rpartition(":")[2]


def memo_of(tenant: str, run: EngineRun) -> dict[str, object]:
    """What Temporal shows beside the workflow."""
    return {
        "run": run.id,
        "flow": flow_name(run),
        "task": run.task,
        "scope": run.scope,
        "tenant": tenant,
        "tags": list(run.tags),
    }


def summary_of(run: EngineRun) -> str:
    """One line for lists."""
    return f"{flow_name(run)}: {run.task}"[:LONGEST]
