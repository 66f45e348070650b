"""`audit`: the six acceptance questions, of a flow from its code or file, of a run from its records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.care.audit import flow as of_flow
from outlast.care.audit.model import Audit, answered
from outlast.errors import FlowNotFound
from outlast.flows.loading import here, is_recipe, load
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import RecipeSpec, find_recipe
from outlast.resources.resources import Resources

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def names_a_flow(target: str) -> bool:
    """Whether a text names a flow; else it is a run's id, or the beginning of one."""
    return ":" in target or is_recipe(target)


def audit(runtime: Runtime, target: Any) -> Audit:
    """The six questions of a flow (itself, or its name) or of a run (by its id). Raises FlowNotFound, RunNotFound."""
    spec = getattr(target, "spec", None)
    if isinstance(spec, FlowSpec):
        return audit_flow(spec, runtime.resources)
    if names_a_flow(str(target)):
        folders = [here(), *([runtime.project] if runtime.project else [])]
        return audit_flow(find_spec(str(target), *folders), runtime.resources)
    return audit_run(runtime, str(target))


def find_spec(source: str, *folders: Path) -> FlowSpec:
    """The flow that a name stands for. Raises FlowNotFound, RecipeInvalid, FlowInvalid."""
    if is_recipe(source):
        return find_recipe(source, *folders)
    spec = getattr(load(source, *folders), "spec", None)
    if not isinstance(spec, FlowSpec):
        raise FlowNotFound(source, "it is not a flow (decorate it with @flow)")
    return spec


def audit_flow(spec: FlowSpec, resources: Resources | None = None) -> Audit:
    """The six questions of a flow, from what its code or file shows. No step of it is run."""
    if isinstance(spec, RecipeSpec):
        from outlast.care.audit.commands import seen_files

        assert spec.recipe is not None
        seen = seen_files(spec.recipe, [each.recipe for each in spec.others() if each.recipe is not None])
    else:
        from outlast.care.audit.python import seen_flow

        seen = seen_flow(spec)
    keys = {key for unit in seen.units for key in unit.injected} | set(seen.needs)
    provided = keys - resources.missing(keys).keys() if resources is not None else set()
    return answered("flow", spec.name, of_flow.answers_of(seen, frozenset(provided)))


def audit_run(runtime: Runtime, run_id: str) -> Audit:
    """The six questions of a run, from its records."""
    from outlast.care.audit import run as audit_runs

    looked = audit_runs.look_at(runtime, run_id)
    return answered("run", looked.run.id, audit_runs.answers_of(runtime, looked))
