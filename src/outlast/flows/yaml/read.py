"""Flow files: read whole and checked before anything runs. Every mistake is named at once, with its line.

The layers below: tree.py (lines and texts), values.py (kinds of values), keys.py (the table of keys
and the JSON Schema made from it), rules.py (what the parts mean to each other).
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Any

from outlast.errors import FlowNotFound, RecipeInvalid
from outlast.flows.yaml.inputs import bind_inputs, demand_secrets
from outlast.flows.yaml.keys import CENTRE, FLOW, PARALLEL, PAUSE, REPEAT, WAIT, schema
from outlast.flows.yaml.model import Command, Node, Parallel, Pause, Recipe, Repeat, Wait, code_of_step
from outlast.flows.yaml.rules import Draft, check, read_fields
from outlast.flows.yaml.tree import SIZE_LIMIT, Unreadable, read_tree
from outlast.flows.yaml.values import Problems

__all__ = ["bind_inputs", "code_of_step", "demand_secrets", "parse_recipe", "read_recipe", "schema"]


def read_recipe(path: Path) -> Recipe:
    """The flow that a file describes. Raises FlowNotFound when there is none, RecipeInvalid with every mistake."""
    return _parsed(content_of(path), str(path))


def content_of(path: Path) -> bytes:
    """A flow file as it is. Raises FlowNotFound, RecipeInvalid."""
    try:
        return _content(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FlowNotFound(str(path), "there is no such file") from error
    except ValueError as error:  # a NUL in the path
        raise FlowNotFound(str(path), str(error)) from error
    except OSError as error:
        problem = Unreadable(
            0, f"it cannot be read: {error.strerror}", "look at its name, owner and permissions"
        ).problem
        raise RecipeInvalid(str(path), (problem,)) from error
    except Unreadable as found:
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
    raise Unreadable(0, f"it is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}", "name a flow file")


@lru_cache(maxsize=8)
def _parsed(text: bytes, file: str) -> Recipe:
    """The same bytes are parsed once in a process: a resume asks for each step of them."""
    return parse_recipe(text, file)


def parse_recipe(text: bytes, file: str) -> Recipe:
    """The flow that a text describes; `file` is only for messages. Raises RecipeInvalid with every mistake."""
    problems = Problems()
    try:
        draft = read_fields(read_tree(text), "", FLOW, problems)
    except Unreadable as error:
        raise RecipeInvalid(file, (error.problem,)) from error
    check(draft, problems)
    if problems:
        raise RecipeInvalid(file, tuple(sorted(set(problems))))
    given = draft.values
    steps = tuple(_node(each) for each in given["steps"])
    return Recipe(given["flow"], steps, **{name: given[name] for name in given if name not in ("flow", "steps")})


# -- from drafts to values ---------------------------------------------------------------------------


def _node(draft: Draft) -> Node:
    own = {name: value for name, value in draft.values.items() if name == "run" or name not in CENTRE}
    if draft.place == PAUSE:
        return Pause(line=draft.node.line, type=draft.values["pause_for"], **own)
    if draft.place == WAIT:
        return Wait(line=draft.node.line, signal=draft.values["wait_for"], **own)
    if draft.place == PARALLEL:
        return Parallel(line=draft.node.line, branches=_nodes(draft.values["parallel"]), **own)
    if draft.place == REPEAT:
        rounds: dict[str, Any] = draft.values["repeat"].values
        return Repeat(line=draft.node.line, **own, **(rounds | {"steps": _nodes(rounds["steps"])}))
    return Command(line=draft.node.line, **own)


def _nodes(drafts: tuple[Draft, ...]) -> tuple[Node, ...]:
    return tuple(_node(draft) for draft in drafts)
