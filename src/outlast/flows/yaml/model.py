"""A flow without Python: what a flow file says, as frozen values. Reading the file is flows/yaml/read.py.

Annotations are the types themselves here: each text among them would be evaluated before anything kept is decoded.
"""

from collections.abc import Iterator, Mapping
from posixpath import join, normpath
from typing import Any

import msgspec
from msgspec import Struct, field

from outlast.values.codec import hash_of_few, identity

ON_PARTIAL = ("keep", "restore", "ask")
ON_LIMIT = ("fail", "pause", "continue")
SHELLS = ("sh", "bash")
MOST_ROUNDS = MOST_ITEMS = 100_000
BACKOFF_SECONDS = 0.5  # before the first retry, where the file says nothing
INPUT_TYPES = ("string", "integer", "number", "boolean", "json")
REQUIRED: Any = msgspec.UNSET  # stands for the default of an input that must be given


class Input(Struct, frozen=True):
    """An input of the flow."""

    name: str
    type: str = "string"
    default: Any = REQUIRED
    help: str = ""


class PlacedNode(Struct, frozen=True, tag=True, tag_field="node"):
    """A node by its name, and where it stands in the file."""

    id: str
    line: int


class ConditionalNode(PlacedNode, frozen=True, kw_only=True):
    """One that may be left out: all of them."""

    when: str = ""
    when_timeout: float | None = None


class Command(ConditionalNode, frozen=True):
    """A step or effect: one shell command."""

    run: str
    agent: str = ""
    shell: str = ""  # empty: the flow's
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int = 0
    backoff: float = BACKOFF_SECONDS
    retry_exits: tuple[int, ...] = ()  # the exits that are tried again; none: every failure
    crashes: int | None = None
    limit: str = ""
    accept: tuple[str, ...] = ()
    effect: bool = False
    confirm: str = ""
    confirm_timeout: float | None = None
    not_done_exit: tuple[int, ...] = ()
    on_partial: str = "keep"
    resume_to: str = ""
    pty: bool = False


class Pause(ConditionalNode, frozen=True):
    """A wait for a person: `pause_for: approval`, or another word."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    on_decline: str = ""  # empty: the run is aborted; `continue`; or the id of the step to go to
    agent: str = ""
    schema: Mapping[str, Any] | None = None  # what an answer must look like; an approval has its own
    deadline: float | None = None
    default: Any = msgspec.UNSET  # what counts as the answer once the deadline has passed
    assignee: str = ""


class Wait(ConditionalNode, frozen=True):
    """A wait for a signal: `wait_for: NAME`."""

    signal: str
    deadline: float | None = None
    default: Any = msgspec.UNSET
    agent: str = ""


class Parallel(ConditionalNode, frozen=True):
    """Nodes that run side by side. The node is done when all are."""

    branches: "tuple[Node, ...]"
    limit: int = 0  # how many at once; 0: all


class Repeat(ConditionalNode, frozen=True):
    """Nodes that run one after another, over and over, until a command succeeds."""

    steps: "tuple[Node, ...]"
    max: int
    until: str
    until_timeout: float | None = None
    on_limit: str = "fail"


class Foreach(ConditionalNode, frozen=True):
    """Nodes that run once for each item: of a list, or of a file's lines."""

    steps: "tuple[Node, ...]"
    items: tuple[Any, ...] = ()
    lines: str = ""  # the file, in place of a list
    limit: int = 1  # how many items at once


class SubFlow(ConditionalNode, frozen=True):
    """Another flow file, run as a run of its own."""

    flow: str  # its path, from this file's folder
    inputs: Mapping[str, Any] = field(default_factory=dict)


Node = Command | Pause | Wait | Parallel | Repeat | Foreach | SubFlow


class FlowDefinition(Struct, frozen=True):
    """A whole flow file."""

    name: str
    steps: tuple[Node, ...]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    cwd: str = ""
    shell: str = "sh"

    def nodes(self) -> Iterator[Node]:
        """Every node, in the order of the file."""
        return walk(self.steps)

    @property
    def goes_up(self) -> bool:
        """Whether some command runs above the flow's folder."""
        folders = (each.cwd for each in self.nodes() if isinstance(each, Command))
        return any(".." in folder.split("/") for folder in (self.cwd, *folders))

    def written(self) -> tuple[str, ...]:
        """Every pattern that some step declares to write, from the flow's folder."""
        commands = (node for node in self.nodes() if isinstance(node, Command))
        return tuple(self.path_of(node, pattern) for node in commands for pattern in node.writes)

    def path_of(self, command: Command, path: str) -> str:
        """A path or pattern of a command's, from the flow's folder."""
        return normpath(join(self.cwd, command.cwd, path))


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """These nodes, and all inside of them."""
    for node in nodes:
        yield node
        if isinstance(node, Parallel):
            yield from walk(node.branches)
        elif isinstance(node, Repeat | Foreach):
            yield from walk(node.steps)


def code_of_definition(definition: FlowDefinition) -> str:
    """A digest of what a flow file says, wherever in it that stands."""
    plain = msgspec.to_builtins(definition)
    for node in plain["steps"]:
        _forget_line(node)
    return hash_of_few(msgspec.json.encode(plain, order="sorted")).hexdigest()[:32]


def _forget_line(node: dict[str, Any]) -> None:
    del node["line"]
    for inner in (*node.get("steps", ()), *node.get("branches", ())):
        _forget_line(inner)


def code_of_step(definition: FlowDefinition, id: str) -> str | None:
    """A digest of what makes the step's work; None when `id` names no command.

    How it is written in the file, its agent, timeout, retries, routes and declared files are not part of it.
    """
    found = next((node for node in definition.nodes() if node.id == id), None)
    if not isinstance(found, Command):
        return None
    work = {
        "run": found.run.strip(),
        "shell": found.shell or definition.shell,
        "cwd": normpath(join(definition.cwd, found.cwd) or "."),
        "env": {**definition.env, **found.env},
        "accept": [command.strip() for command in found.accept],
        "confirm": found.confirm.strip(),
        "not_done_exit": sorted(set(found.not_done_exit)),
    }
    return identity(msgspec.json.encode(work, order="sorted"))
