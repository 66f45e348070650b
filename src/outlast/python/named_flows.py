"""Flows by the names that people type, and the inputs that they type with them.

And the steps of a flow as its file or its code shows them, before anything of it has run.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from outlast.care.audit.python import seen_flow
from outlast.errors import FlowNotFound, InputsInvalid, OutlastError
from outlast.flows.loading import FLOW_FILES, found_in, here, is_flow_file, is_gone, load, load_module
from outlast.flows.loading import names_a_flow as names_a_flow
from outlast.flows.spec import FlowSpec, hints_of
from outlast.flows.yaml.flow import FlowFileSpec, find_flow_file, signature
from outlast.flows.yaml.model import Command, Foreach, Node, Parallel, Pause, Repeat, SubFlow, Wait
from outlast.home.place import look_up, project_of
from outlast.python.decorators import Flow, FlowFile, flow_file
from outlast.python.shared import url_of
from outlast.runs.begin import CONTINUE as CONTINUE
from outlast.runs.begin import GIVE as GIVE
from outlast.runs.begin import START as START
from outlast.runs.begin import DryRun as DryRun
from outlast.values.codec import decoder, encode
from outlast.values.text import meant

SUFFIXES = (".py", *FLOW_FILES)
Tell = Callable[[str], None] | None
Typed = Callable[[Any, Any], Any]  # a value and its annotation


def find_flow(
    name: str, home: str | None = None, tell: Callable[[str], None] | None = None
) -> Flow[..., Any] | FlowFile:
    """The flow that `flow.yaml`, `module:name` or `file.py:name` names, from here or from the project.

    A file or module that has one flow stands for it. `tell` is told of a home that is adopted. Raises FlowNotFound,
    SeveralFlows, RecipeInvalid.
    """
    folders = folders_of(home, tell)
    try:
        if is_flow_file(name):
            return flow_file(name, *folders)
        if ":" not in name:
            return _only(name, flows_in(name, *folders))
        found = load(name, *folders)
    except FlowNotFound as error:
        raise _meant(error, name, folders) from error
    if not isinstance(found, Flow):
        raise FlowNotFound(name, f"{name.rpartition(':')[2]} is not a flow (decorate it with @flow)")
    return found


class SeveralFlows(FlowNotFound):
    """Raised when a file or a module has more flows than one; it lists them."""

    code = "choose_one"
    says = "{flow} has {count} flows"
    advice = "name one of them: {names}"

    def __init__(self, flow: str, names: Sequence[str]) -> None:
        OutlastError.__init__(self, flow=flow, count=len(names), names=", ".join(f"{flow}:{name}" for name in names))


def folders_of(home: str | None, tell: Tell = None) -> list[Path]:
    """Where flows are looked for: here, then in the project."""
    project = None if url_of(home) else project_of(look_up(home, tell=tell).path)
    return [here(), *([project] if project else [])]


def flows_in(place: str, *folders: Path) -> dict[str, Flow[..., Any]]:
    """The flows that a file or a module defines, by their names there; those it only imports if it has no other."""
    module = load_module(place, *folders)
    found = {name: each for name, each in vars(module).items() if isinstance(each, Flow)}
    own = {name: each for name, each in found.items() if each.function.__module__ == module.__name__}
    return own or found


def _only(place: str, flows: Mapping[str, Flow[..., Any]]) -> Flow[..., Any]:
    if not flows:
        raise FlowNotFound(place, "it has no flow (decorate one with @flow)")
    if len(flows) > 1:
        raise SeveralFlows(place, list(flows))
    return next(iter(flows.values()))


def _meant(error: FlowNotFound, name: str, folders: Sequence[Path]) -> FlowNotFound:
    """The same error; where something of nearly that name is there, it says so."""
    place, _, wanted = name.rpartition(":") if ":" in name else (name, "", "")
    hint = ""
    if not isinstance(error, SeveralFlows):
        with suppress(OutlastError):
            hint = meant(wanted, flows_in(place, *folders)) if wanted and not is_flow_file(name) else ""
        hint = hint or meant(Path(place).name, _files_beside(place, folders))
    return FlowNotFound(error.facts["flow"], f"{error.facts['why']}; {hint}") if hint else error


def _files_beside(place: str, folders: Sequence[Path]) -> list[str]:
    """What lies where a file of flows was looked for, and could be one."""
    if not place.endswith((".py", *FLOW_FILES)) or any((folder / place).exists() for folder in folders):
        return []
    around = [(folder / place).parent for folder in folders]
    return [each.name for folder in around if folder.is_dir() for each in folder.iterdir() if each.suffix in SUFFIXES]


def folder_of_flow(source: str, project: Path) -> Path:
    """The folder that the paths of a flow file start from, as it is now; of Python code the project's."""
    if not is_flow_file(source):
        return project
    if is_gone(source, project):
        source = found_in(source, project, here()) or source
    try:
        spec = flow_file(source, project).spec
    except OutlastError:  # the file was changed since and has a mistake now; the place is the same
        return (project / source.rpartition(":")[0]).parent
    return spec.file.parent / (spec.definition.cwd if spec.definition is not None else "")


def inputs_of(flow: Flow[..., Any] | FlowFile, words: Sequence[str]) -> dict[str, Any]:
    """The flow's inputs as its annotations type them. Raises InputsInvalid with the flow's signature."""
    spec = flow.spec
    if len(words) == 1 and (words[0] == "-" or words[0].startswith(("{", "@"))):
        given: Mapping[str, Any] = _document(spec, words[0])
        typed: Typed = _from_json
    else:
        given, typed = _pairs(spec, words), _from_text
    if isinstance(flow, FlowFile):
        return flow.inputs(given, words=typed is _from_text)
    _refuse_unknown(spec, given)
    hints = hints_of(spec.function)
    inputs = {name: _typed(spec, name, value, hints, typed) for name, value in given.items()}
    spec.bind((), inputs)
    return inputs


def inputs_line(flow: Flow[..., Any]) -> str:
    """What a flow is given, as words of a command: `topic=… [count=…]`."""
    given = _parameters(flow.spec).values()
    return " ".join(f"{p.name}=…" if p.default is Parameter.empty else f"[{p.name}=…]" for p in given)


def refusal(spec: FlowSpec, why: str) -> InputsInvalid:
    definition = getattr(spec, "definition", None)
    names = list(definition.inputs) if definition is not None else [str(p) for p in _parameters(spec).values()]
    return InputsInvalid(spec.name, why, ", ".join(names) or "none")


def _parameters(spec: FlowSpec) -> dict[str, Parameter]:
    silent = {*spec.signature.injected, *spec.signature.keyed}
    return {p.name: p for p in spec.signature.parameters if p.name not in silent}


def _document(spec: FlowSpec, word: str) -> dict[str, Any]:
    """Inputs as one JSON object: given as it is, in a file, or on standard input."""
    try:
        raw = sys.stdin.buffer.read() if word == "-" else Path(word[1:]).read_bytes() if word[0] == "@" else word
        given = json.loads(raw)
    except OSError as error:
        raise refusal(spec, f"cannot read {word[1:]}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise refusal(spec, f"its inputs are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise refusal(spec, f"its inputs must be one JSON object, not {type(given).__name__}")
    return given


def _pairs(spec: FlowSpec, words: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise refusal(spec, f"{word!r} is not name=value (nor a JSON object, @file or -)")
        if name in given:
            raise refusal(spec, f"{name} is given twice")
        given[name] = value
    return given


def _refuse_unknown(spec: FlowSpec, given: Mapping[str, Any]) -> None:
    known = _parameters(spec)
    if any(p.kind is Parameter.VAR_KEYWORD for p in known.values()):
        return
    unknown = [name for name in given if name not in known]
    if unknown:
        raise refusal(spec, f"it has no input {unknown[0]!r}")


def _typed(spec: FlowSpec, name: str, value: Any, hints: Mapping[str, Any], typed: Typed) -> Any:
    try:
        return typed(value, hints.get(name, Any))
    except (TypeError, ValueError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        kind = getattr(hints[name], "__name__", str(hints[name]))
        raise refusal(spec, f"{name}={value} is no {kind}{why}") from error


def _from_json(value: Any, hint: Any) -> Any:
    return decoder(hint)(encode(value))


def _from_text(text: str, hint: Any) -> Any:
    """Text where text is wanted, else JSON; a word that is no JSON stands for itself (a date, a path, a choice)."""
    if hint is str or (_takes_text(hint) and text != "null"):
        return text
    try:
        return decoder(hint)(text.encode())
    except (TypeError, ValueError) as error:
        try:
            return decoder(hint)(encode(text))
        except (TypeError, ValueError):
            raise error from None


def _takes_text(hint: Any) -> bool:
    """Whether this is `str | None` or another union with text in it."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType) and str in typing.get_args(hint)


# -- the steps of a flow -----------------------------------------------------------------------------


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
        shown, steps = signature(spec.definition), tuple(_listed(spec, spec.definition.steps))
        return FlowSteps(spec.name, spec.source, shown, tuple(secrets), steps)
    seen = seen_flow(spec)
    waits = [FlowStep(name, "wait", "", does="waits") for name in seen.waits]
    shown = ", ".join(str(each) for each in spec.signature.parameters) or "none"
    units = (FlowStep(u.name, u.kind, u.place, writes=u.writes, confirmed=u.confirmed) for u in seen.units)
    return FlowSteps(spec.name, spec.source, shown, (), (*units, *waits), complete=False)


def _listed(spec: FlowFileSpec, nodes: tuple[Node, ...], inside: tuple[str, ...] = ()) -> Iterator[FlowStep]:
    for node in nodes:
        yield _step(spec, node, inside)
        within = (*inside, node.id)
        if isinstance(node, Parallel):
            yield from _listed(spec, node.branches, within)
        elif isinstance(node, Repeat | Foreach):
            yield from _listed(spec, node.steps, within)
        elif isinstance(node, SubFlow):
            inner = find_flow_file(node.flow, spec.file.parent)
            yield from _listed(inner, inner.definition.steps, within)


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
