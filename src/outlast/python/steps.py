"""The steps of a flow as its file or its code shows them, before anything of it has run; what a call of it would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from outlast.care.audit.python import seen_flow
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import FlowFileSpec, find_flow_file, signature
from outlast.flows.yaml.model import Command, Foreach, Node, Parallel, Pause, Repeat, SubFlow, Wait
from outlast.runs.begin import CONTINUE as CONTINUE
from outlast.runs.begin import GIVE as GIVE
from outlast.runs.begin import START as START
from outlast.runs.begin import DryRun as DryRun

if TYPE_CHECKING:
    from outlast.care.audit.flow import Unit


class FlowStep(Struct, frozen=True):
    """A step, a wait, or what holds further ones."""

    id: str
    kind: str  # step, effect, pause, wait, parallel, repeat, foreach, flow
    place: str  # where it is written
    inside: tuple[str, ...] = ()  # the ids around it, the outermost first
    does: str = ""  # the command, the file, what is waited for
    when: str = ""
    agent: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    confirmed: bool = False  # an effect that has a probe


class FlowSteps(Struct, frozen=True):
    """A flow, listed."""

    flow: str
    source: str
    inputs: str
    secrets: tuple[str, ...]
    steps: tuple[FlowStep, ...]
    complete: bool = True  # False for Python: the body decides what is called, and how often


def steps_of(spec: FlowSpec) -> FlowSteps:
    """What a flow consists of. Nothing is run. Raises FlowNotFound, RecipeInvalid for a flow file that it runs."""
    if isinstance(spec, FlowFileSpec):
        every = [spec, *spec.others()]
        secrets = dict.fromkeys(name for each in every for name in each.definition.secrets)
        return FlowSteps(spec.name, spec.source, signature(spec.definition), tuple(secrets), tuple(_of_file(spec)))
    seen = seen_flow(spec)
    waits = [FlowStep(name, "wait", "", does="waits") for name in seen.waits]
    shown = ", ".join(str(each) for each in spec.signature.parameters) or "none"
    return FlowSteps(spec.name, spec.source, shown, (), (*map(_of_code, seen.units), *waits), complete=False)


def _of_code(unit: Unit) -> FlowStep:
    return FlowStep(unit.name, unit.kind, unit.place, writes=unit.writes, confirmed=unit.confirmed)


def _of_file(spec: FlowFileSpec, inside: tuple[str, ...] = ()) -> Iterator[FlowStep]:
    yield from _listed(spec, spec.definition.steps, inside)


def _listed(spec: FlowFileSpec, nodes: tuple[Node, ...], inside: tuple[str, ...]) -> Iterator[FlowStep]:
    for node in nodes:
        yield _step(spec, node, inside)
        within = (*inside, node.id)
        if isinstance(node, Parallel):
            yield from _listed(spec, node.branches, within)
        elif isinstance(node, Repeat | Foreach):
            yield from _listed(spec, node.steps, within)
        elif isinstance(node, SubFlow):
            yield from _of_file(find_flow_file(node.flow, spec.file.parent), within)


def _step(spec: FlowFileSpec, node: Node, inside: tuple[str, ...]) -> FlowStep:
    place = f"{spec.file.name}, line {node.line}"
    told: dict[str, Any] = {"when": node.when}
    match node:
        case Command():
            kind, does = "effect" if node.effect else "step", node.run
            told |= {"agent": node.agent, "reads": node.reads, "writes": node.writes, "confirmed": bool(node.confirm)}
        case Pause():
            kind, does, told["agent"] = "pause", node.type, node.agent
        case Wait():
            kind, does, told["agent"] = "wait", node.signal, node.agent
        case Parallel():
            kind, does = "parallel", f"{len(node.branches)} side by side"
        case Repeat():
            kind, does = "repeat", f"until {node.until}"
        case Foreach():
            kind, does = "foreach", f"line of {node.lines}" if node.lines else f"{len(node.items)} items"
        case SubFlow():
            kind, does = "flow", node.flow
    return FlowStep(node.id, kind, place, inside, does.strip(), limits=_limits(node), **told)


def _limits(node: Node) -> dict[str, Any]:
    """What bounds it, where the file says so."""
    found: dict[str, Any] = {"when_timeout": node.when_timeout}
    if isinstance(node, Command):
        found |= {"timeout": node.timeout, "retries": node.retries, "crashes": node.crashes, "limit": node.limit}
        found |= {"on_exit": list(node.retry_exits), "confirm_timeout": node.confirm_timeout}
    elif isinstance(node, Pause | Wait):
        found |= {"deadline": node.deadline}
    elif isinstance(node, Repeat):
        found |= {"max": node.max, "until_timeout": node.until_timeout}
    elif isinstance(node, Parallel | Foreach):
        found |= {"limit": node.limit}
    return {name: value for name, value in found.items() if value}
