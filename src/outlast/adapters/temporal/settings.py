"""Where Temporal is, which homes may be worked on by it, and what a run is called there.

Nothing of its library is loaded here.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

from outlast.errors import EngineRefused, ValueRefused

if TYPE_CHECKING:
    from outlast.runs.queues.engine import EngineRun
    from outlast.runs.run import RunRecord

ADDRESS = "localhost:7233"


class TemporalSettings(Struct, frozen=True, kw_only=True):
    """Defaults fit a server of this machine."""

    address: str = ADDRESS
    namespace: str = "default"
    task_queues: tuple[str, ...] = ()  # that are worked on; none: those of the home's queues that Temporal has
    tls: bool = False
    tls_ca: str = ""  # files
    tls_cert: str = ""
    tls_key: str = ""
    tls_server_name: str = ""
    codec: str = ""  # MODULE:NAME of a payload codec
    console: str = ""  # the address of our own pages, for a link there
    ui: str = ""  # the address of Temporal's pages, for a link in ours
    heartbeat_seconds: float = 5.0  # silence after which Temporal gives an attempt to another worker


def check_place(database: str, settings: TemporalSettings) -> None:
    """Raises EngineRefused for a ledger that is a file of this machine, where Temporal may be everybody's; ValueRefused
    for an address of pages that is none."""
    for name, url in (("console_url", settings.console), ("temporal_ui", settings.ui)):
        if url and not url.startswith(("http://", "https://")):
            raise ValueRefused(name, f"{url!r:.100} is no address of pages", "give it as http://… or https://…")
    if not database and not is_loopback(settings.address):
        raise EngineRefused(
            f"this home is a SQLite file of this machine, and Temporal at {settings.address} gives runs to workers on "
            "any machine",
            "move it to a database that all of them reach: `outlast move --to postgresql://…`",
        )


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches that address."""
    host = address.rpartition(":")[0].strip("[]") or address
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- what a run is called there, and what of it is shown: names and ids, no content --------------------


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
