"""Every key of a flow file, in one table: the validator, the JSON Schema and the docs all follow it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from outlast.flows.yaml import values as kinds
from outlast.flows.yaml.model import INPUT_TYPES, MOST_ROUNDS, ON_LIMIT, ON_PARTIAL, SHELLS
from outlast.flows.yaml.values import Kind
from outlast.values.frozen import NamedTuple

STEP, EFFECT, PAUSE, WAIT, PARALLEL, REPEAT = "step", "effect", "pause_for", "wait_for", "parallel", "repeat"
FOREACH, SUBFLOW = "foreach", "flow"
COMMANDS, WAITS, LISTS = (STEP, EFFECT), (PAUSE, WAIT), (PARALLEL, REPEAT, FOREACH)
EVERY = (*COMMANDS, *WAITS, *LISTS, SUBFLOW)
CENTRE = {"run": COMMANDS, **{place: (place,) for place in (*WAITS, *LISTS, SUBFLOW)}}  # what makes a node
MOST_AT_ONCE = 1000


class FlowFileKey(NamedTuple):
    """A key: the kind of its value, what it is for, and where it belongs."""

    kind: Kind | str  # a text names a part that holds further keys: inputs, nodes, or one of PARTS
    help: str
    required: bool = False
    on: tuple[str, ...] = ()


FLOW: Mapping[str, FlowFileKey] = {
    "flow": FlowFileKey(kinds.NAMED, "The flow's name.", required=True),
    "inputs": FlowFileKey("inputs", "The flow's inputs, by name: a type, or a mapping of type, default and help."),
    "env": FlowFileKey(kinds.ENV, "Environment variables of every command."),
    "secrets": FlowFileKey(
        kinds.SECRETS, "Variables that must be set before the first step. Masked, never stored or digested."
    ),
    "cwd": FlowFileKey(
        kinds.FOLDER, "The folder that commands run in, from the flow file's folder; in the same repository."
    ),
    "shell": FlowFileKey(
        kinds.one_of(SHELLS), "The shell of every command: `sh`, or `bash`, where a pipe fails with any part of it."
    ),
    "steps": FlowFileKey("nodes", "What is done, one after another.", required=True),
}

INPUT: Mapping[str, FlowFileKey] = {
    "type": FlowFileKey(kinds.one_of(INPUT_TYPES), "The input's type; `string` when it is left out."),
    "default": FlowFileKey(kinds.JSON, "The value when none is given. Without it the input must be given."),
    "help": FlowFileKey(kinds.TEXT, "What the input is, for people."),
}

NODE: Mapping[str, FlowFileKey] = {
    "id": FlowFileKey(kinds.NAMED, "The node's name, unique in the whole file.", required=True, on=EVERY),
    "run": FlowFileKey(kinds.COMMAND, "A shell command.", required=True, on=COMMANDS),
    "pause_for": FlowFileKey(
        kinds.WORD, "Wait for a person: `approval` for a yes or no, any other word for an answer.", True, on=(PAUSE,)
    ),
    "wait_for": FlowFileKey(kinds.SIGNAL, "Wait for a signal of this name.", required=True, on=(WAIT,)),
    "parallel": FlowFileKey(
        "parallel",
        "Nodes that run side by side; done when all are. A list of them, or a mapping of steps and limit.",
        required=True,
        on=(PARALLEL,),
    ),
    "repeat": FlowFileKey(
        "repeat", "Nodes that run over and over until a command succeeds.", required=True, on=(REPEAT,)
    ),
    "foreach": FlowFileKey("foreach", "Nodes that run once for each item of a list.", required=True, on=(FOREACH,)),
    "flow": FlowFileKey(
        kinds.FLOW_FILE, "Another flow file, from this one's folder: a run of its own.", required=True, on=(SUBFLOW,)
    ),
    "inputs": FlowFileKey(
        kinds.OBJECT,
        "The inputs of that flow: values, or `$OUTLAST_INPUT_NAME` and `$OUTLAST_ITEM` for the ones here.",
        on=(SUBFLOW,),
    ),
    "when": FlowFileKey("condition", "A command: the node is skipped unless it exits with 0.", on=EVERY),
    "agent": FlowFileKey(kinds.NAMED, "Who does it; on the receipts.", on=(*COMMANDS, *WAITS)),
    "shell": FlowFileKey(
        kinds.one_of(SHELLS), "The shell of this step's commands, in place of the flow's.", on=COMMANDS
    ),
    "cwd": FlowFileKey(kinds.FOLDER, "The folder to run in, from the flow's folder and its `cwd`.", on=COMMANDS),
    "env": FlowFileKey(kinds.ENV, "Environment variables, on top of the flow's.", on=COMMANDS),
    "reads": FlowFileKey(
        kinds.PATTERNS, "Files whose content is an input: a change makes the step run again.", on=COMMANDS
    ),
    "writes": FlowFileKey(kinds.PATTERNS, "Files that the command makes or changes.", on=COMMANDS),
    "timeout": FlowFileKey(kinds.DURATION, "How long an attempt may take: seconds, or 90s, 10m, 48h.", on=COMMANDS),
    "retries": FlowFileKey(kinds.count(0, 1000), "How often to try again after a failure.", on=COMMANDS),
    "retry": FlowFileKey("retry", "How to try again after a failure, in place of `retries`.", on=COMMANDS),
    "crashes": FlowFileKey(
        kinds.count(1, 1000), "In how many deaths of its process it may be alone before a person is asked.", on=(STEP,)
    ),
    "limit": FlowFileKey(
        kinds.NAMED, "The limit that its attempts share with other steps, over all runs: `outlast limit`.", on=COMMANDS
    ),
    "accept": FlowFileKey(kinds.COMMANDS, "Commands that must succeed, or the step has failed.", on=(STEP,)),
    "on_partial": FlowFileKey(
        kinds.one_of(ON_PARTIAL), "What becomes of the files that an unfinished attempt changed.", on=(STEP,)
    ),
    "resume_to": FlowFileKey(
        kinds.NAMED, "The earlier step to go back to when this one is found unfinished on resume.", on=COMMANDS
    ),
    "pty": FlowFileKey(kinds.FLAG, "true: the command runs on a terminal of its own.", on=COMMANDS),
    "effect": FlowFileKey(kinds.FLAG, "true: never repeated unknowingly.", on=COMMANDS),
    "confirm": FlowFileKey("condition", "Tells whether it happened: exit 0 yes, 1 no, else unknown.", on=(EFFECT,)),
    "not_done_exit": FlowFileKey(
        kinds.EXITS, "Exit codes by which the command says that nothing happened.", on=(EFFECT,)
    ),
    "payload": FlowFileKey(kinds.OBJECT, "What the person is shown.", on=(PAUSE,)),
    "on_decline": FlowFileKey(
        kinds.NAMED, "A step to go to, or `continue`, when the person declines; else the run ends.", on=(PAUSE,)
    ),
    "schema": FlowFileKey(kinds.SCHEMA, "What an answer must look like: a part of JSON Schema.", on=(PAUSE,)),
    "assignee": FlowFileKey(kinds.ASSIGNEE, "Who is asked.", on=(PAUSE,)),
    "deadline": FlowFileKey(kinds.DURATION, "How long to wait for an answer: seconds, or 90s, 10m, 48h.", on=WAITS),
    "default": FlowFileKey(kinds.JSON, "What counts as the answer once the deadline has passed.", on=WAITS),
}

ROUNDS: Mapping[str, FlowFileKey] = {
    "max": FlowFileKey(kinds.count(1, MOST_ROUNDS), "The most rounds there may be.", required=True),
    "until": FlowFileKey("condition", "A command, run after each round: exit 0 ends the repeat.", required=True),
    "on_limit": FlowFileKey(kinds.one_of(ON_LIMIT), "What to do when the last round has not led there."),
    "steps": FlowFileKey("nodes", "The nodes of a round, one after another.", required=True),
}

ITEMS: Mapping[str, FlowFileKey] = {
    "items": FlowFileKey(kinds.ITEMS, "The items: texts, or other values, which a command is given as JSON."),
    "lines": FlowFileKey(kinds.PATH, "In place of `items`: a file, each line of which is an item; empty ones are not."),
    "limit": FlowFileKey(kinds.count(1, MOST_AT_ONCE), "How many items are worked on at once; 1."),
    "steps": FlowFileKey("nodes", "The nodes for an item, one after another.", required=True),
}

BRANCHES: Mapping[str, FlowFileKey] = {
    "limit": FlowFileKey(kinds.count(1, MOST_AT_ONCE), "How many run at once; all, when it is left out."),
    "steps": FlowFileKey("nodes", "The nodes that run side by side.", required=True),
}

RETRY: Mapping[str, FlowFileKey] = {
    "max": FlowFileKey(kinds.count(1, 1000), "How often to try again.", required=True),
    "backoff": FlowFileKey(
        kinds.DURATION, "How long to wait before the first retry; each further wait is twice as long."
    ),
    "on_exit": FlowFileKey(kinds.EXITS, "The exit codes that are tried again; any other failure is final."),
}

CONDITION: Mapping[str, FlowFileKey] = {
    "run": FlowFileKey(kinds.COMMAND, "The command.", required=True),
    "timeout": FlowFileKey(kinds.DURATION, "How long it may take: seconds, or 90s, 10m, 48h."),
}

PARTS = {"repeat": ROUNDS, "foreach": ITEMS, "parallel": BRANCHES, "retry": RETRY, "condition": CONDITION}

MISPLACED = {  # why a key does not go with a step or an effect, and what does
    "confirm": ("only an effect has `confirm`", "add `effect: true`, or check a plain step by `accept`"),
    "not_done_exit": ("only an effect has `not_done_exit`", "add `effect: true`, or remove the key"),
    "crashes": ("an effect has no `crashes`: it is asked about after the first", "remove the key; see `confirm`"),
    "accept": ("an effect has no `accept`: it cannot be done again", "use `confirm`, or a step after it that checks"),
    "on_partial": ("an effect has no `on_partial`: what it did cannot be put back", "remove the key; see `confirm`"),
}


@cache
def keys_of(place: str) -> Mapping[str, FlowFileKey]:
    """The keys that a node of this kind takes; of no clear kind: all of them, and only `id` is a must."""
    if not place:
        return {name: key._replace(required=name == "id") for name, key in NODE.items()}
    return {name: key for name, key in NODE.items() if place in key.on}


# -- the JSON Schema ---------------------------------------------------------------------------------

_TITLES = {
    STEP: "A step: a command that may run again until it has succeeded",
    EFFECT: "An effect: a command that is never repeated unknowingly",
    PAUSE: "A wait for a person",
    WAIT: "A wait for a signal",
    PARALLEL: "Nodes side by side",
    REPEAT: "Nodes over and over",
    FOREACH: "Nodes for each item",
    SUBFLOW: "Another flow file",
}


_PART_TITLES = {
    "repeat": "What is repeated",
    "foreach": "What is done for each item",
    "parallel": "What is done side by side",
    "retry": "How to try again",
    "condition": "A command with a time limit",
}


def schema() -> dict[str, Any]:
    """The JSON Schema of a flow file, made from the table above. flow.schema.json is this, as text."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Outlast flow",
        "description": "A flow without Python: steps are shell commands. See docs/flow-yaml.md.",
        **_mapping(FLOW),
        "$defs": {
            "input": {"title": "An input", "anyOf": [_value(INPUT["type"]), _mapping(INPUT)]},
            **{name: {"title": title, **_mapping(PARTS[name])} for name, title in _PART_TITLES.items()},
            "nodes": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}},
            "node": {"oneOf": [{"$ref": f"#/$defs/{place}_node"} for place in EVERY]},
            **{f"{place}_node": _node(place) for place in EVERY},
        },
    }


def _mapping(keys: Mapping[str, FlowFileKey]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.help, **_value(key)} for name, key in keys.items()},
    }
    required = [name for name, key in keys.items() if key.required]
    return found | ({"required": required} if required else {})


def _node(place: str) -> dict[str, Any]:
    found = {"title": _TITLES[place], **_mapping(keys_of(place))}
    if place in COMMANDS:
        found["properties"]["effect"] |= {"const": place == EFFECT}
    if place == EFFECT:
        found["required"] = [*found["required"], "effect"]
    return found


def _value(key: FlowFileKey) -> dict[str, Any]:
    if isinstance(key.kind, Kind):
        return dict(key.kind.schema)
    names = {"type": "object", "propertyNames": {"pattern": f"^{kinds.VARIABLE}$"}}
    parts: dict[str, dict[str, Any]] = {
        "nodes": {"$ref": "#/$defs/nodes"},
        "parallel": {"anyOf": [{"$ref": "#/$defs/nodes"}, {"$ref": "#/$defs/parallel"}]},
        "condition": {"anyOf": [dict(kinds.COMMAND.schema), {"$ref": "#/$defs/condition"}]},
        "inputs": {**names, "additionalProperties": {"$ref": "#/$defs/input"}},
    }
    return parts.get(key.kind) or {"$ref": f"#/$defs/{key.kind}"}
