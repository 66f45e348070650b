"""A flow without Python: what a flow file says, as frozen values. Reading the file is runtime/recipes.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import join, normpath
from typing import Any

ON_PARTIAL = ("keep", "restore", "ask")
ON_LIMIT = ("fail", "pause", "continue")
INPUT_TYPES = ("string", "integer", "number", "boolean", "json")
REQUIRED: Any = object()  # stands for the default of an input that must be given


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the flow."""

    name: str
    type: str = "string"
    default: Any = REQUIRED
    help: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A step or effect: one shell command."""

    id: str
    line: int
    run: str
    agent: str = ""
    when: str = ""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int = 0
    accept: tuple[str, ...] = ()
    effect: bool = False
    confirm: str = ""
    not_done_exit: tuple[int, ...] = ()
    on_partial: str = "keep"
    resume_to: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait for a person: `pause_for: approval`."""

    id: str
    line: int
    type: str
    when: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    on_decline: str = ""  # empty: the run is aborted; `continue`; or the id of the step to go to
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Nodes that run side by side. The node is done when all are."""

    id: str
    line: int
    branches: tuple[Node, ...]
    when: str = ""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Nodes that run one after another, over and over, until a command succeeds."""

    id: str
    line: int
    steps: tuple[Node, ...]
    max: int
    until: str
    on_limit: str = "fail"
    when: str = ""


Node = Command | Pause | Parallel | Repeat


@dataclass(frozen=True, slots=True)
class Recipe:
    """A whole flow file."""

    name: str
    steps: tuple[Node, ...]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    cwd: str = ""

    def nodes(self) -> Iterator[Node]:
        """Every node, in the order of the file."""
        return _walk(self.steps)

    def written(self) -> tuple[str, ...]:
        """Every pattern that some step declares to write, from the flow's folder."""
        commands = (node for node in self.nodes() if isinstance(node, Command))
        return tuple(self.path_of(node, pattern) for node in commands for pattern in node.writes)

    def path_of(self, command: Command, path: str) -> str:
        """A path or pattern of a command's, from the flow's folder."""
        return normpath(join(self.cwd, command.cwd, path))


def _walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Parallel):
            yield from _walk(node.branches)
        elif isinstance(node, Repeat):
            yield from _walk(node.steps)
