"""Flow files: read whole and checked before anything runs. Every mistake is named at once, with its line.

The layers below: values/yaml_tree.py (lines and texts), values.py (kinds of values), keys.py (the table of keys
and the JSON Schema made from it), rules.py (what the parts mean to each other), surroundings.py and subflow.py (what
lies around the file).
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Any

from outlast.errors import FlowNotFound, RecipeInvalid
from outlast.flows.yaml.flow import bind_inputs, demand_secrets
from outlast.flows.yaml.keys import CENTRE, FLOW, FOREACH, PARALLEL, PAUSE, REPEAT, SUBFLOW, WAIT, schema
from outlast.flows.yaml.model import (
    Command,
    FlowDefinition,
    Foreach,
    Node,
    Parallel,
    Pause,
    Repeat,
    SubFlow,
    Wait,
    code_of_step,
)
from outlast.flows.yaml.rules import MappingDraft, check, read_fields
from outlast.flows.yaml.subflow import FIRST, Way, check_folders, check_shells, check_subflows
from outlast.flows.yaml.values import Problems
from outlast.values.frozen import NamedTuple
from outlast.values.yaml_tree import SIZE_LIMIT, FlowFileProblem, UnreadableFlowFile, read_tree

__all__ = ["bind_inputs", "code_of_step", "demand_secrets", "parse_flow_file", "read_flow_file", "schema"]


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
    return drafted.definition


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


# -- from drafts to values ---------------------------------------------------------------------------

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
