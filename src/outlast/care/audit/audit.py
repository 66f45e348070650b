"""`audit`: the six acceptance questions, of a flow from its code or file, of a run from its records.

Looking at a flow file for an audit: its commands as they are written. None of them is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.care.audit.flow import Audit, AuditedFlow, AuditFinding, Unit, answered, answers_of
from outlast.care.audit.python import seen_flow
from outlast.care.audit.signs import files_written, is_declared, secrets_used, signs_in
from outlast.errors import FlowNotFound
from outlast.flows.loading import here, is_flow_file, load, names_a_flow
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import FlowFileSpec, find_flow_file
from outlast.flows.yaml.model import Command, FlowDefinition, Node, Pause, Repeat, Wait
from outlast.resources.resources import Resources

if TYPE_CHECKING:
    from outlast.runs.live import Executor


MARK = "mark it: effect: true, with confirm: CMD"
DECLARE = "declare them: writes: […]"
_HIDES = re.compile(r"\|\|\s*(true|:)\s*$")


def seen_files(definition: FlowDefinition, others: Iterable[FlowDefinition]) -> AuditedFlow:
    """A flow file with the ones that it runs, whose steps are named after their flows."""
    seen = seen_definition(definition)
    for other in map(seen_definition, others):
        units = (replace(unit, name=f"{other.name}/{unit.name}") for unit in other.units)
        seen = replace(
            seen,
            units=(*seen.units, *units),
            secrets=tuple(dict.fromkeys((*seen.secrets, *other.secrets))),
            unsaid=(*seen.unsaid, *((f"{other.name}/{step}", name) for step, name in other.unsaid)),
            waits=(*seen.waits, *(f"{other.name}/{name}" for name in other.waits)),
        )
    return seen


def seen_definition(definition: FlowDefinition) -> AuditedFlow:
    """A flow file, looked at."""
    nodes = list(definition.nodes())
    commands = [node for node in nodes if isinstance(node, Command)]
    known = {*definition.secrets, *definition.env}
    return AuditedFlow(
        name=definition.name,
        units=(*(unit_of(node) for node in commands), *_conditions(nodes)),
        secrets=definition.secrets,
        unsaid=tuple((node.id, name) for node in commands for name in _secrets(node) if name not in known),
        waits=tuple(node.id for node in nodes if isinstance(node, Pause | Wait)),
        commands=True,
    )


def unit_of(node: Command) -> Unit:
    """A command, as it looks from outside. Its checks (`accept`) run with it."""
    texts = (node.run, *node.accept)
    restores = node.on_partial == "restore"
    signs = [sign for text in texts for sign in signs_in(text, node.writes, restores=restores)]
    named = [path for text in texts for path in files_written(text) if "$" not in path]  # else known when it runs
    written = [path for path in named if not is_declared(path, node.writes)]
    return Unit(
        name=node.id,
        kind="effect" if node.effect else "step",
        place=f"line {node.line}",
        signs=tuple(f"{sign} (line {node.line})" for sign in signs),
        undeclared=tuple(f"> {path} (line {node.line})" for path in written),
        writes=node.writes,
        keyed="OUTLAST_EFFECT_KEY" in node.run,
        confirmed=bool(node.confirm),
        unsafe=tuple(_unsafe(node)),
        hidden=tuple(f"{match[0].strip()} (line {node.line})" for match in [_HIDES.search(node.run)] if match),
        mark=MARK,
        declare=DECLARE,
    )


def _unsafe(node: Command) -> Iterator[AuditFinding]:
    """What makes the protection of an effect worthless."""
    for sign in signs_in(node.confirm) if node.confirm else ():
        advice = "a probe only looks: it may be asked often"
        yield AuditFinding("probe_acts", node.id, f"its confirm probe: {sign}", advice)
    if 1 in node.not_done_exit and node.effect:
        advice = "1 is what most commands exit with, whatever happened: take one that says `nothing was done`"
        yield AuditFinding("not_done_too_broad", node.id, "not_done_exit has 1", advice)


def _conditions(nodes: list[Node]) -> Iterator[Unit]:
    """Conditions are steps of their own: they run, and leave receipts."""
    for node in nodes:
        texts = [("when", node.when)] + ([("until", node.until)] if isinstance(node, Repeat) else [])
        for name, text in texts:
            signs = tuple(f"{sign} (line {node.line})" for sign in signs_in(text)) if text else ()
            if signs:
                mark = "a condition only looks: do it in an effect before"
                yield Unit(f"{node.id}/{name}", "step", f"line {node.line}", signs, mark=mark, declare=DECLARE)


def _secrets(node: Command) -> tuple[str, ...]:
    texts = (node.run, node.when, node.confirm, *node.accept)
    found = [name for text in texts for name in secrets_used(text) if name not in node.env]
    return tuple(dict.fromkeys(found))


def audit(executor: Executor, target: Any) -> Audit:
    """The six questions of a flow (itself, or its name) or of a run (by its id). Raises FlowNotFound, RunNotFound."""
    spec = getattr(target, "spec", None)
    if isinstance(spec, FlowSpec):
        return audit_flow(spec, executor.live.resources)
    if names_a_flow(str(target)):
        folders = [here(), *([executor.home.project] if executor.home.project else [])]
        return audit_flow(find_spec(str(target), *folders), executor.live.resources)
    from outlast.care.audit import run as audit_runs

    looked = audit_runs.look_at(executor, str(target))
    return answered("run", looked.run.id, audit_runs.answers_of(executor, looked))


def find_spec(source: str, *folders: Path) -> FlowSpec:
    """The flow that a name stands for. Raises FlowNotFound, RecipeInvalid, FlowInvalid."""
    if is_flow_file(source):
        return find_flow_file(source, *folders)
    spec = getattr(load(source, *folders), "spec", None)
    if not isinstance(spec, FlowSpec):
        raise FlowNotFound(source, "it is not a flow (decorate it with @flow)")
    return spec


def audit_flow(spec: FlowSpec, resources: Resources | None = None) -> Audit:
    """The six questions of a flow, from what its code or file shows. No step of it is run."""
    if isinstance(spec, FlowFileSpec):
        assert spec.definition is not None
        seen = seen_files(spec.definition, [each.definition for each in spec.others() if each.definition is not None])
    else:
        seen = seen_flow(spec)
    keys = {key for unit in seen.units for key in unit.injected} | set(seen.needs)
    provided = keys - resources.missing(keys).keys() if resources is not None else set()
    return answered("flow", spec.name, answers_of(seen, frozenset(provided)))
