"""Temporal as the engine: it dispatches, routes, times and shows; the ledger decides and keeps.

A run is one workflow, which holds ids and nothing else. `workflow.py` is what Temporal keeps, `relay.py` what
tells Temporal of runs that can go on, `worker.py` all of it in a process, with what an activity does on the ledger.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from outlast.errors import ExtraMissing

if TYPE_CHECKING:
    from outlast.adapters.temporal.settings import TemporalSettings as TemporalSettings
    from outlast.adapters.temporal.settings import check_place as check_place
    from outlast.adapters.temporal.worker import TemporalWorker as TemporalWorker

_PLACES = {"TemporalSettings": "settings", "TemporalWorker": "worker", "check_place": "settings"}


def require() -> None:
    """Raises ExtraMissing."""
    if find_spec("temporalio") is None:
        raise ExtraMissing("Temporal as the engine", "temporal")


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require()
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
