"""Flow files: read whole and checked before anything runs. Every mistake is named at once, with its line.

The layers below: values/yaml_tree.py (lines and texts), values.py (kinds of values), keys.py (the table of keys
and the JSON Schema made from it), rules.py (what the parts mean to each other). What lies around the file is looked at
here: files and folders that it names, and the flows of other files that its steps run, read in their turn.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from posixpath import join, normpath
from typing import TYPE_CHECKING, Any

from outlast.errors import FlowNotFound, RecipeInvalid
from outlast.files.repository import is_below, top_of
from outlast.flows.loading import FLOW_FILES
from outlast.flows.yaml.flow import ARTICLES, REFERENCE, bind_inputs, bound_to, demand_secrets, keep, misfit
from outlast.flows.yaml.keys import CENTRE, FLOW, FOREACH, PARALLEL, PAUSE, REPEAT, SUBFLOW, WAIT, schema
from outlast.flows.yaml.model import (
    REQUIRED,
    Command,
    FlowDefinition,
    Foreach,
    Input,
    Node,
    Parallel,
    Pause,
    Repeat,
    SubFlow,
    Wait,
    code_of_step,
)
from outlast.flows.yaml.rules import MappingDraft, check, read_fields
from outlast.flows.yaml.values import Problems, inside, shown
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.text import nearest
from outlast.values.yaml_tree import SIZE_LIMIT, FlowFileProblem, Tree, UnreadableFlowFile, read_tree

if TYPE_CHECKING:
    import shutil
else:
    shutil = late("shutil")  # it is dear, and most commands need no shell of their own

__all__ = ["bind_inputs", "code_of_step", "demand_secrets", "parse_flow_file", "read_flow_file", "schema"]

_CONDITIONS = ("when", "until", "confirm")
_RETRY = {"max": "retries", "backoff": "backoff", "on_exit": "retry_exits"}


def _definition(draft: MappingDraft) -> FlowDefinition:
    given = draft.values
    others = {name: given[name] for name in given if name not in ("flow", "steps")}
    return FlowDefinition(given["flow"], _nodes(given["steps"]), **others)


def _node(draft: MappingDraft) -> Node:
    given, line = _plain(draft), draft.node.line
    own = {name: value for name, value in given.items() if name in ("run", "flow") or name not in CENTRE}
    if draft.place == PAUSE:
        return Pause(line=line, type=given["pause_for"], **own)
    if draft.place == WAIT:
        return Wait(line=line, signal=given["wait_for"], **own)
    if draft.place == PARALLEL:
        return Parallel(line=line, **own, **_branches(given["parallel"]))
    if draft.place in (REPEAT, FOREACH):
        inner: dict[str, Any] = _plain(given[draft.place])
        kind = Repeat if draft.place == REPEAT else Foreach
        return kind(line=line, **own, **(inner | {"steps": _nodes(inner["steps"])}))
    return SubFlow(line=line, **own) if draft.place == SUBFLOW else Command(line=line, **own)


def _plain(draft: MappingDraft) -> dict[str, Any]:
    """The values of a mapping as the fields they are: a condition with its time limit, how to try again."""
    found: dict[str, Any] = {}
    for name, value in draft.values.items():
        if name == "retry":
            told = value.values
            found |= {field: told[key] for key, field in _RETRY.items() if key in told}
        elif name in _CONDITIONS and isinstance(value, MappingDraft):
            found |= {name: value.values["run"], f"{name}_timeout": value.values.get("timeout")}
        else:
            found[name] = value
    return found


def _branches(given: MappingDraft | tuple[MappingDraft, ...]) -> dict[str, Any]:
    if isinstance(given, MappingDraft):
        return {"branches": _nodes(given.values["steps"]), "limit": given.values.get("limit", 0)}
    return {"branches": _nodes(given)}


def _nodes(drafts: tuple[MappingDraft, ...]) -> tuple[Node, ...]:
    return tuple(_node(draft) for draft in drafts)


# -- `flow:`: which file is meant, and its inputs -----------------------------------------------------

_WIDER = {("integer", "number")}  # a value of the first is one of the second too


class Way(NamedTuple):
    """How one flow file led to another."""

    above: tuple[str, ...]  # the files whose flows run this one, by their real paths
    known: dict[str, FlowDefinition]  # those that were read on the way, and are as they should be

    def to(self, file: Path) -> Way:
        """The same, one file further. The first one remembers for all the others."""
        return Way((*self.above, os.path.realpath(file)), self.known if self.above else {})


FIRST = Way((), {})
ReadFlow = Callable[[Path, Way], FlowDefinition]


def check_subflows(
    flow: MappingDraft, steps: Sequence[MappingDraft], file: Path | None, way: Way, read: ReadFlow, problems: Problems
) -> None:
    """Note what is wrong with every `flow:` node. `way` is how other files led to this one."""
    own: Mapping[str, Input] = flow.get("inputs") or {}
    way = way.to(file) if file is not None else way
    for draft, in_foreach in _placed(steps, in_foreach=False):
        _check_references(draft, own, in_foreach, problems)
        if file is not None and draft.get("flow"):
            found = _read(draft, file, way, read, problems)
            if found is not None:
                _check_inputs(draft, found, own, problems)


def _placed(drafts: Sequence[MappingDraft], *, in_foreach: bool) -> Iterator[tuple[MappingDraft, bool]]:
    for draft in drafts:
        if draft.place == SUBFLOW:
            yield draft, in_foreach
        for inner in draft.lists():
            yield from _placed(inner, in_foreach=in_foreach or draft.place == FOREACH)


# -- the file ----------------------------------------------------------------------------------------


def _read(draft: MappingDraft, file: Path, way: Way, read: ReadFlow, problems: Problems) -> FlowDefinition | None:
    name = draft.get("flow")
    path = os.path.realpath(file.parent / name)
    if out := leads_out(name, file):
        draft.note("flow", problems, f"{shown(name)} leads out of {out}", "name a flow file inside it")
    elif path in way.above:
        round = " -> ".join(os.path.basename(each) for each in (*way.above[way.above.index(path) :], path))
        draft.note("flow", problems, f"this flow would run itself without end: {round}", "remove one of these steps")
    else:
        return _read_file(draft, Path(path), way, read, problems)
    return None


def _read_file(draft: MappingDraft, path: Path, way: Way, read: ReadFlow, problems: Problems) -> FlowDefinition | None:
    name = draft.get("flow")
    try:
        if str(path) not in way.known:
            way.known[str(path)] = read(path, way)
        return way.known[str(path)]
    except FlowNotFound:
        draft.note("flow", problems, f"there is no file {shown(name)}", _other_file(name, path))
    except RecipeInvalid as error:
        for each in error.facts["problems"]:
            place = ", ".join(part for part in (f"line {each.line}" if each.line else "", each.path) if part)
            draft.note("flow", problems, f"{name} has a mistake: {place}: {each.why}", each.advice)
    return None


def _other_file(name: str, path: Path) -> str:
    folder = os.path.dirname(name)
    try:
        there = sorted(each for each in os.listdir(path.parent) if each.endswith(FLOW_FILES))
    except OSError:
        return "name a flow file by its path from this file's folder"
    return nearest(name, [os.path.join(folder, each) for each in there], "the flow files there are")


# -- its inputs --------------------------------------------------------------------------------------


def _check_references(draft: MappingDraft, own: Mapping[str, Input], in_foreach: bool, problems: Problems) -> None:
    known = {name.upper(): name for name in own}
    for name, node in _written(draft):
        found = re.fullmatch(REFERENCE, node.text) if node.shape == "text" else None
        if found is None:
            continue
        path = inside(inside(draft.path, "inputs"), name)
        if found[2] is None and not in_foreach:
            problems.note(node, path, "$OUTLAST_ITEM is there in a `foreach` only", "put this step into one")
        elif found[2] is not None and found[2] not in known:
            names = [f"$OUTLAST_INPUT_{each}" for each in known]
            advice = nearest(node.text, names, "this flow has") if names else "declare it under `inputs` of this flow"
            problems.note(node, path, f"this flow has no input for {node.text}", advice)


def _written(draft: MappingDraft) -> list[tuple[str, Tree]]:
    """The inputs that a node gives, each with the place of its value."""
    tree = draft.nodes.get("inputs")
    if tree is None or tree.shape != "mapping":
        return []
    return [(key.text, value) for key, value in zip(tree.nodes[::2], tree.nodes[1::2], strict=True)]


def _check_inputs(
    draft: MappingDraft, definition: FlowDefinition, own: Mapping[str, Input], problems: Problems
) -> None:
    """Whether the inputs of the other flow are given, and of its types."""
    given, name = draft.get("inputs") or {}, draft.get("flow")
    for each, node in _written(draft):
        path = inside(inside(draft.path, "inputs"), each)
        if each not in definition.inputs:
            advice = (
                nearest(each, definition.inputs, "its inputs are") if definition.inputs else "remove it: it has none"
            )
            problems.note(node, path, f"{name} has no input {shown(each)}", advice)
        elif each in given and (fault := _fault(definition.inputs[each], given[each], own)):
            problems.note(node, path, fault, f"give {ARTICLES[definition.inputs[each].type]}")
    for wanted in definition.inputs.values():
        if wanted.default is REQUIRED and wanted.name not in given:
            advice = f"add `inputs: {{{wanted.name}: …}}`"
            draft.note("flow", problems, f"{name} needs the input {wanted.name!r} ({wanted.type})", advice)


def _fault(wanted: Input, value: Any, own: Mapping[str, Input]) -> str:
    found = re.fullmatch(REFERENCE, value) if isinstance(value, str) else None
    if found is None:
        fault = misfit(wanted.type, bound_to(wanted, value))
        return f"{wanted.name} {fault}" if fault else ""
    source = next((each for each in own.values() if each.name.upper() == found[2]), None)
    if source is None or wanted.type in (source.type, "json") or (source.type, wanted.type) in _WIDER:
        return ""
    return f"{wanted.name} is {ARTICLES[wanted.type]} there, and {source.name} is {ARTICLES[source.type]} here"


# -- the folders and shells that commands find -----------------------------------------------------


def check_folders(flow: MappingDraft, nodes: Sequence[MappingDraft], file: Path | None, problems: Problems) -> None:
    """Note each `cwd` that leads out. `file` is the flow file, where it is known."""
    own = flow.get("cwd") or ""
    if own:
        _check(flow, own, own, file, problems)
    for each in (each for each in nodes if each.get("cwd")):
        _check(each, each.get("cwd"), join(own, each.get("cwd")), file, problems)


def check_shells(drafts: Sequence[MappingDraft], problems: Problems) -> None:
    """Note each shell that this machine has not."""
    for each in drafts:
        name = each.get("shell")
        if name and shutil.which(name) is None:
            each.note("shell", problems, f"there is no {name} here", "install it, or write the command for `sh`")


def _check(draft: MappingDraft, text: str, path: str, file: Path | None, problems: Problems) -> None:
    if why := leads_out(path, file):
        draft.note("cwd", problems, f"{shown(text)} leads out of {why}", "give a folder inside it")


def leads_out(path: str, file: Path | None) -> str:
    """What a path from a flow file's folder leads out of; empty if it does not. Links count where it goes up."""
    if ".." not in path.split("/"):
        return ""
    if file is None:
        return "the folder it starts in" if normpath(path).split("/")[0] == ".." else ""
    top = top_of(file.parent)
    bound = top or os.path.realpath(file.parent)
    if is_below(os.path.realpath(file.parent / path), bound):
        return ""
    return f"the repository {bound}" if top else f"the flow's folder, which is in no repository ({bound})"


# -- reading -------------------------------------------------------------------------------------------


class _Drafted(NamedTuple):
    """What a text says: a draft, the mistakes that the text alone shows, and the flow when there are none."""

    draft: MappingDraft
    problems: tuple[FlowFileProblem, ...]
    definition: FlowDefinition | None


def read_flow_file(path: Path, way: Way = FIRST) -> FlowDefinition:
    """The flow that a file describes. Raises FlowNotFound when there is none, RecipeInvalid with every mistake.

    `way` is how other files led to it.
    """
    return parse_flow_file(content_of(path), str(path), path, way)


def content_of(path: Path) -> bytes:
    """A flow file as it is. Raises FlowNotFound, RecipeInvalid."""
    try:
        return _content(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FlowNotFound(str(path), "there is no such file") from error
    except ValueError as error:  # a NUL in the path
        raise FlowNotFound(str(path), str(error)) from error
    except OSError as error:
        problem = UnreadableFlowFile(
            0, f"it cannot be read: {error.strerror}", "look at its name, owner and permissions"
        ).problem
        raise RecipeInvalid(str(path), (problem,)) from error
    except UnreadableFlowFile as found:
        raise RecipeInvalid(str(path), (found.problem,)) from found


def _content(path: Path) -> bytes:
    """At most one byte more than a flow file may have. A pipe or device is never waited for."""
    at = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(at).st_mode
        if stat.S_ISREG(mode):
            with open(at, "rb", closefd=False) as file:
                return file.read(SIZE_LIMIT + 1)
    finally:
        os.close(at)
    raise UnreadableFlowFile(0, f"it is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}", "name a flow file")


def parse_flow_file(text: bytes, file: str, path: Path | None = None, way: Way = FIRST) -> FlowDefinition:
    """The flow that a text describes; `file` is for messages. Raises RecipeInvalid with every mistake.

    With its `path`, what lies around it counts too: folders that lead out, other flow files that it runs.
    """
    try:
        drafted = _drafted(text)
    except UnreadableFlowFile as error:
        raise RecipeInvalid(file, (error.problem,)) from error
    problems = {*drafted.problems, *_around(drafted.draft, path, way)}
    if problems or drafted.definition is None:
        raise RecipeInvalid(file, tuple(sorted(problems)))
    if path is not None:
        _keep(text)
    return drafted.definition


@lru_cache(maxsize=16)
def _keep(text: bytes) -> None:
    """Keep what a text says for the next process; once in this one."""
    drafted = _drafted(text)
    if drafted.definition is not None and _is_alone(drafted.draft):
        keep(text, drafted.definition)


def _is_alone(flow: MappingDraft) -> bool:
    """Whether what lies around a file changes nothing about it: it names no shell, no folder above it and no flow."""
    nodes = [flow, *(each for step in flow.get("steps") or () for each in step.all())]
    leads_up = any(".." in (each.get("cwd") or "").split("/") for each in nodes)
    return not leads_up and not any(each.get("shell") or each.place == SUBFLOW for each in nodes)


@lru_cache(maxsize=16)
def _drafted(text: bytes) -> _Drafted:
    """The same bytes are parsed once in a process: a resume asks for each step of them."""
    problems = Problems()
    draft = read_fields(read_tree(text), "", FLOW, problems)
    check(draft, problems)
    return _Drafted(draft, tuple(problems), None if problems else _definition(draft))


def _around(flow: MappingDraft, path: Path | None, way: Way) -> Problems:
    """What is wrong with a file where it lies: looked at each time, since that changes without it."""
    problems = Problems()
    steps: tuple[MappingDraft, ...] = flow.get("steps") or ()
    nodes = [each for step in steps for each in step.all()]
    check_folders(flow, nodes, path, problems)
    if path is not None:
        check_shells((flow, *nodes), problems)
    check_subflows(flow, steps, path, way, read_flow_file, problems)
    return problems
