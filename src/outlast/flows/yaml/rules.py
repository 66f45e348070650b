"""From the tree to drafts of nodes, and the rules that no single value shows: ids, kinds, routes, secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from outlast.flows.yaml import keys
from outlast.flows.yaml.flow import ARTICLES, misfit, unfit_for_a_variable
from outlast.flows.yaml.keys import CENTRE, EFFECT, MISPLACED, STEP, FlowFileKey
from outlast.flows.yaml.model import REQUIRED, Input
from outlast.flows.yaml.values import (
    BAD,
    COMMAND,
    Kind,
    Problems,
    inside,
    pairs,
    read_flag,
    read_variable,
    shown,
    wrong,
)
from outlast.values.schema import APPROVAL, wrong_with
from outlast.values.text import closest, nearest
from outlast.values.yaml_tree import Tree

RESERVED = ("when", "until", "continue")  # receipts of conditions have the first two; the third is no step to go to


class MappingDraft(Struct, eq=False):
    """A mapping with its values read, and the nodes of the values, for problems found later."""

    node: Tree
    path: str
    place: str = ""  # one of keys.EVERY; empty: the file, or a node of no clear kind
    values: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, Tree] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """A value that was read well, else None."""
        found = self.values.get(name)
        return None if found is BAD else found

    @property
    def id(self) -> str:
        return self.get("id") or ""

    def note(self, name: str, problems: Problems, why: str, advice: str) -> None:
        problems.note(self.nodes[name], inside(self.path, name), why, advice)

    def lists(self) -> Iterator[tuple[MappingDraft, ...]]:
        """The lists of nodes directly inside."""
        for found in map(self.get, keys.LISTS):
            nodes = found.get("steps") if isinstance(found, MappingDraft) else found
            if nodes:
                yield nodes

    def all(self) -> Iterator[MappingDraft]:
        yield self
        for each in (each for nodes in self.lists() for each in nodes):
            yield from each.all()


# -- reading -----------------------------------------------------------------------------------------


def read_fields(
    node: Tree, path: str, known: Mapping[str, FlowFileKey], problems: Problems, place: str = ""
) -> MappingDraft:
    """A mapping by its table of keys: the unknown, the missing and the wrong are noted."""
    draft = MappingDraft(node, path, place)
    found = pairs(node, path, problems)
    for name, key, value in found or ():
        if name in known:
            draft.nodes[name] = value
            draft.values[name] = _read(known[name], value, inside(path, name), problems)
        else:
            problems.note(key, inside(path, name), *_not_here(name, known, place))
    missing = [name for name, key in known.items() if key.required and name not in draft.nodes]
    for name in missing if found is not None else ():
        help = known[name].help
        problems.note(node, path, f"`{name}` is missing", f"add `{name}: …` ({help[0].lower()}{help[1:-1]})")
    return draft


def _not_here(name: str, known: Mapping[str, FlowFileKey], place: str) -> tuple[str, str]:
    """Why a key is refused, and what to do."""
    if place in (STEP, EFFECT) and name in MISPLACED:
        return MISPLACED[name]
    if place and name in keys.NODE:
        return f"`{name}` does not belong to a {place}", f"the keys here are: {', '.join(known)}"
    return f"the key {shown(name)} is not known here", nearest(name, known, "the keys here are")


def _read(key: FlowFileKey, node: Tree, path: str, problems: Problems) -> Any:
    if isinstance(key.kind, Kind):
        return key.kind.read(node, path, problems)
    if key.kind == "inputs":
        return _read_inputs(node, path, problems)
    if key.kind == "nodes" or (key.kind == "parallel" and node.shape != "mapping"):
        return _read_nodes(node, path, problems)
    if key.kind == "condition" and node.shape != "mapping":
        return COMMAND.read(node, path, problems)
    return read_fields(node, path, keys.PARTS[key.kind], problems)


def _read_nodes(node: Tree, path: str, problems: Problems) -> Any:
    if node.shape != "list" or node.tag != "seq":
        return wrong(node, path, problems, "a list of nodes (`- id: …`)")
    if not node.nodes:
        return problems.note(node, path, "there is nothing in this list", "add a node: `- {id: NAME, run: COMMAND}`")
    return tuple(_read_node(each, inside(path, at), problems) for at, each in enumerate(node.nodes))


def _read_node(node: Tree, path: str, problems: Problems) -> MappingDraft:
    place = _place_of(node, path, problems)
    return read_fields(node, path, keys.keys_of(place), problems, place)


def _place_of(node: Tree, path: str, problems: Problems) -> str:
    """Which kind of node this is; empty, and noted, when that is not clear."""
    written = {key.text: value for key, value in zip(node.nodes[::2], node.nodes[1::2], strict=False)}
    if node.shape != "mapping":
        return ""
    centres = [name for name in CENTRE if name in written]
    if len(centres) == 1:
        is_effect = "effect" in written and read_flag(written["effect"], "", Problems()) is True
        return EFFECT if is_effect and centres == ["run"] else CENTRE[centres[0]][0]
    if centres:
        why = f"a node is one of {', '.join(CENTRE)}; this one is {' and '.join(centres)}"
        problems.note(node, path, why, "make them nodes of their own, each with an id")
    elif not any(closest(name, CENTRE) for name in written if name not in keys.NODE):
        problems.note(node, path, f"a node is one of {', '.join(CENTRE)}; this one is none", "add `run: COMMAND`")
    return ""


def _read_inputs(node: Tree, path: str, problems: Problems) -> Any:
    found: dict[str, Input] = {}
    first: dict[str, str] = {}
    for name, key, value in pairs(node, path, problems) or ():
        at = inside(path, name)
        if not read_variable(key, name, at, problems):
            continue
        if name.upper() in first:
            why = f"{first[name.upper()]} and {name} are both OUTLAST_INPUT_{name.upper()} to a command"
            problems.note(key, at, why, "give one of them another name")
        first.setdefault(name.upper(), name)
        found[name] = _read_input(name, value, at, problems)
    return found


def _read_input(name: str, node: Tree, path: str, problems: Problems) -> Input:
    """An input: its type alone, or a mapping."""
    if node.shape != "mapping":
        kind = _read(keys.INPUT["type"], node, path, problems)
        return Input(name) if kind is BAD else Input(name, kind)
    draft = read_fields(node, path, keys.INPUT, problems)
    kind = draft.get("type") or "string"
    default = draft.values.get("default", REQUIRED)
    is_known = default is not BAD and default is not REQUIRED and draft.values.get("type") is not BAD
    if is_known and (fault := misfit(kind, default)):
        draft.note("default", problems, f"the default {fault}", f"give {ARTICLES[kind]}, or another type")
    return Input(name, kind, default, draft.get("help") or "")


# -- rules -------------------------------------------------------------------------------------------


def check(flow: MappingDraft, problems: Problems) -> None:
    """Note whatever breaks a rule between the parts of a file."""
    steps: tuple[MappingDraft, ...] = flow.get("steps") or ()
    everything = [each for step in steps for each in step.all()]
    _check_ids(everything, problems)
    _check_secrets(flow, everything, problems)
    known = {each.id for each in everything if each.id}
    _check_routes(steps, known, problems, in_order=True)
    for each in everything:
        if "retry" in each.nodes and "retries" in each.nodes:
            why = f"`retries` in line {each.nodes['retries'].line} says how often to try again, and so does this"
            each.note("retry", problems, why, "keep one of them: `retry: {max: …}` or `retries: …`")
        if isinstance(each.get("foreach"), MappingDraft):
            _check_items(each.get("foreach"), problems)
    for pause in (each for each in everything if each.place in keys.WAITS):
        _check_wait(pause, problems)
        if pause.get("on_decline") and pause.get("pause_for") in ("approval", None):
            _check_decline(pause, [step.id for step in steps], known, pause in steps, problems)


def _check_ids(nodes: list[MappingDraft], problems: Problems) -> None:
    first: dict[str, int] = {}
    for each in (each for each in nodes if each.id):
        if each.id in RESERVED or each.id.startswith("run."):
            each.note("id", problems, f"the name {each.id!r} is kept for the runtime", "choose another id")
        elif each.id in first:
            why = f"the id {each.id!r} is taken in line {first[each.id]}"
            each.note("id", problems, why, "give each node of the file an id of its own")
        first.setdefault(each.id, each.nodes["id"].line)


def _check_secrets(flow: MappingDraft, nodes: list[MappingDraft], problems: Problems) -> None:
    secrets = flow.get("secrets") or ()
    for each in (flow, *nodes):
        for name in sorted(set(secrets) & set(each.get("env") or ())):
            why = f"{name} is a secret, and its value stands in the file"
            each.note("env", problems, why, f"remove it here, and set {name} where the flow is started")


def _check_routes(nodes: tuple[MappingDraft, ...], known: set[str], problems: Problems, *, in_order: bool) -> None:
    """Each `resume_to` of a list, and of the lists inside."""
    places = {each.id: at for at, each in enumerate(nodes) if each.id}
    for at, each in enumerate(nodes):
        if (target := each.get("resume_to")) is not None:
            why = _route_fault(each.id, target, at, places, known, in_order=in_order)
            if why:
                before = [name for name in places if in_order and places[name] < at]
                advice = f"it may be one of: {', '.join(before)}" if before else "remove it: no step comes before"
                each.note("resume_to", problems, why, advice)
        for inner in each.lists():
            _check_routes(inner, known, problems, in_order=each.place not in (keys.PARALLEL, keys.FOREACH))


def _route_fault(own: str, target: str, at: int, places: Mapping[str, int], known: set[str], *, in_order: bool) -> str:
    if target == own:
        return f"{target!r} is the step itself: that would go round for ever"
    if target not in known:
        return f"there is no step {target!r}"
    if target not in places or not in_order:
        return (
            f"{target!r} is not in the same list of steps: a run goes neither into nor out of a repeat, a parallel or "
            "a foreach, nor back in one branch or item alone"
        )
    return f"{target!r} comes later: a run only goes back" if places[target] >= at else ""


def _check_items(foreach: MappingDraft, problems: Problems) -> None:
    """A list or a file, and items that a command can be given."""
    both = [name for name in ("items", "lines") if name in foreach.nodes]
    if len(both) == 2:
        foreach.note("lines", problems, "it is either `items` or `lines`, and both are given", "remove one of them")
    elif not both:
        problems.note(foreach.node, foreach.path, "`items` is missing", "add `items: […]`, or `lines: FILE`")
    for at, item in enumerate(foreach.get("items") or ()):
        if fault := unfit_for_a_variable("OUTLAST_ITEM", item):
            tree = foreach.nodes["items"].nodes[at]
            problems.note(tree, inside(inside(foreach.path, "items"), at), f"this item {fault}", "shorten it")


def _check_wait(wait: MappingDraft, problems: Problems) -> None:
    """What the keys of a wait mean to each other."""
    kind = wait.get("pause_for")
    if kind == "approval" and "schema" in wait.nodes:
        why = "an approval has a schema of its own: approved (true or false), comment (text)"
        wait.note("schema", problems, why, "remove it, or use another word: `pause_for: decision`")
    if kind == "approval" and "on_decline" in (wait.get("payload") or {}):
        wait.note("payload", problems, "`on_decline` in a payload is kept for the runtime", "give it another name")
    if kind not in ("approval", None) and "on_decline" in wait.nodes:
        wait.note("on_decline", problems, "only an approval is declined", "remove the key; the answer is handed on")
    if "default" in wait.nodes and "deadline" not in wait.nodes:
        wait.note("default", problems, "it counts once a deadline has passed, and there is none", "add `deadline: 48h`")
    default, schema = wait.values.get("default", BAD), APPROVAL if kind == "approval" else wait.get("schema")
    if default is not BAD and schema is not None and (fault := wrong_with(schema, default, "default")):
        wait.note("default", problems, fault, "a default must be an answer that fits")


def _check_decline(pause: MappingDraft, top: list[str], known: set[str], on_top: bool, problems: Problems) -> None:
    target = pause.get("on_decline")
    if target == "continue":
        return
    others = [name for name in top if name and name != pause.id]
    if not on_top:
        why = "inside a repeat, parallel or foreach, a decline ends the run or goes on"
        pause.note("on_decline", problems, why, "write `continue`, or remove the key")
    elif target not in known:
        advice = nearest(target, ["continue", *others], "one of")
        pause.note("on_decline", problems, f"there is no step {target!r}", advice)
    elif target not in others:
        why = f"{target!r} is {'the wait itself' if target == pause.id else 'inside a repeat or parallel or foreach'}"
        pause.note("on_decline", problems, why, f"it may be one of: {', '.join(['continue', *others])}")
