"""What goes in and out of a tool. In: the fields of its operation, as a model is told them; others are refused.

`null` for an argument that may be left out is the same as leaving it out: many clients send it so.

Out: values as plain JSON data, with the fields that every door gives them, so short that they fit into a model's
context. What is left out is said, by path, with where to read all of it.

The URIs of resources: `handoff://{scope}/{anchor}`, `artifact://{ref}`, `run://{run_id}`. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from outlast.errors import Invalid
from outlast.operations.fields import Json
from outlast.operations.observed import SEEN
from outlast.operations.operation import WHOSE, Declared, Operation, choices_of, part_of, sentence_of
from outlast.operations.shown import shown
from outlast.values.text import closest, shorten

if TYPE_CHECKING:
    from outlast import Outcome


HANDOFF, ARTIFACT, RUN = "handoff://{scope}/{anchor}", "artifact://{ref}", "run://{run_id}"


def handoff_uri(scope: str, anchor: str) -> str:
    return f"handoff://{quote(scope, safe='')}/{quote(anchor, safe='')}"


def artifact_uri(ref: str) -> str:
    return f"artifact://{quote(ref, safe='')}"


def run_uri(run_id: str) -> str:
    return f"run://{quote(run_id, safe='')}"


def parsed(uri: str) -> tuple[str, tuple[str, ...]] | None:
    """The kind of a resource and its names; None when it is none of ours."""
    kind, _, rest = uri.partition("://")
    match kind.lower():
        case "handoff" if "/" in rest:
            scope, _, anchor = rest.partition("/")
            return ("handoff", (unquote(scope), unquote(anchor))) if scope and anchor else None
        case "artifact" if rest:
            return "artifact", (unquote(rest),)
        case "run" if rest:
            return "run", (unquote(rest),)
    return None


LARGEST = 60_000  # bytes of JSON in one result; clients cut or refuse what is much larger
_STEPS = ((8_000, 200), (2_000, 50), (500, 20), (100, 5), (20, 1))  # characters of a text, items of a list or object
_NAMED = 20  # what was left out is named so often, and counted after that


class Cut(Struct):
    """One pass over a value with the same limits everywhere."""

    characters: int
    items: int
    found: list[str] = msgspec.field(default_factory=list)

    def of(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list):
            return self._list(value, path)
        return self._object(value, path) if isinstance(value, dict) else value

    def _text(self, text: str, path: str) -> str:
        if (left := len(text) - self.characters) > 0:
            self.found.append(f"{path}: {left:,} of {len(text):,} characters")
        return shorten(text, self.characters)

    def _list(self, items: list[Any], path: str) -> list[Any]:
        if (left := len(items) - self.items) > 0:
            self.found.append(f"{path}: the last {left:,} of {len(items):,} items")
        return [self.of(each, f"{path}[{place}]") for place, each in enumerate(items[: self.items])]

    def _object(self, fields: dict[str, Any], path: str) -> dict[str, Any]:
        kept = fields if path == "" else dict(list(fields.items())[: self.items])
        if len(kept) < len(fields):
            self.found.append(f"{path}: the last {len(fields) - len(kept):,} of {len(fields):,} fields")
        return {name: self.of(each, f"{path}.{name}" if path else name) for name, each in kept.items()}


def bounded(value: dict[str, Any], whole: str) -> dict[str, Any]:
    """The value if it is small enough; else cut, with `cut`: what is left out, and where all of it is."""
    if _size(value) <= LARGEST:
        return value
    for characters, items in _STEPS:
        cut = Cut(characters, max(items, 1))
        kept = cut.of(value, "")
        if _size(kept) <= LARGEST:
            return _told(kept, cut.found, whole)
    bare = {name: _emptied(each) for name, each in kept.items()}
    gone = [f"{name}: all of it" for name, each in kept.items() if each != bare[name]]
    return _told(bare, gone, whole)


def _emptied(value: Any) -> Any:
    """Nothing of a list or an object, whose parts may go on for ever."""
    return type(value)() if isinstance(value, list | dict) else value


def _told(kept: dict[str, Any], found: list[str], whole: str) -> dict[str, Any]:
    more = [f"and {len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
    return kept | {"cut": {"left_out": [*found[:_NAMED], *more], "whole": whole}}


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """JSON that is kept as bytes inside of a value becomes data like the rest."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return found


def told(value: Any) -> dict[str, Any]:
    """An answer as every door shows it: of one value, or of several by their names."""
    found: dict[str, Any] = {name: shown(each) for name, each in value.items()} if type(value) is dict else shown(value)
    return plain(found)


def outcome_told(outcome: Outcome[Any], *, goes_on: bool = False) -> dict[str, Any]:
    """How a run stands, and whether it goes on meanwhile."""
    return told(outcome) | {"goes_on": goes_on}


# -- in: what each tool takes ------------------------------------------------------------------------

NULLABLE = ("answer", "result", "body", "content")  # null is a value there
NEVER = (*SEEN, "cursor", "listing", "wait", "yes", "fresh", "follow")  # of other doors, or a person's to say
OF_ALL = (*WHOSE, "operation_id")  # which the instructions tell of once
SAME = (("task_id", "task"), ("session_id", "session"))  # two words for one thing, where a tool has one of them
Packet = Annotated[Json, Meta(description="One JSON object for a machine; read last.")] | UnsetType


class ArgumentsInvalid(Invalid):
    """Raised when the arguments of a tool are not what it takes; nothing was done."""

    says = "{why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


def takes_of(operation: Operation, more: type[Declared] | None, without: tuple[str, ...]) -> type[Any]:
    """The arguments of a tool that is made from an operation: its fields, and more of the door's own."""
    names = [name for name in operation.request.__struct_fields__ if name not in (*NEVER, *without)]
    other = {name: (Packet, UNSET) for name in names if name.startswith("execution_")}
    return part_of(operation.request, f"{operation.request.__name__}Arguments", names, other, more)


def arguments_of(tool: str, kind: type[Any], raw: dict[str, Any]) -> Any:
    """The arguments, checked. Raises ArgumentsInvalid by the path of the first that is wrong."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    said = _in_its_words(raw, fields)
    unknown = [name for name in said if name not in fields]
    if unknown:
        near = closest(unknown[0], fields)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentsInvalid(
            unknown[0],
            f"{tool} takes no argument {', '.join(f'{name!r:.100}' for name in unknown[:5])}",
            f"{hint}it takes: {', '.join(fields)}",
        )
    said = {name: value for name, value in said.items() if value is not None or name in NULLABLE}
    missing = [name for name, field in fields.items() if field.required and name not in said]
    if missing:
        raise ArgumentsInvalid(missing[0], f"{tool} needs {' and '.join(missing)}", "call it again with these")
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$.")
        path = path.rstrip("`") or tool
        choices = choices_of(kind, path) if "enum" in why else ()
        remedy = f"use one of {', '.join(choices)}" if choices else f"see the input schema of {tool}"
        raise ArgumentsInvalid(path, f"{path}: {why}", remedy) from error


def _in_its_words(raw: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The same, with each thing by the word that the tool has for it."""
    said = dict(raw)
    for one, other in (*SAME, *((other, one) for one, other in SAME)):
        if one in fields and other in said and other not in fields and one not in said:
            said[one] = said.pop(other)
    return said


# -- the schema --------------------------------------------------------------------------------------


def schema_of(kind: type[Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON schema of what a tool takes, without the names that do not hold here: short, since models read it."""
    _, found = msgspec.json.schema_components([kind])
    schema = found[kind.__name__]
    names = [name for name in (*schema["required"], *schema["properties"]) if name not in without]
    shown = {name: _short(kind, name, schema["properties"][name]) for name in names}
    return {"type": "object", "properties": shown, "required": schema["required"], "additionalProperties": False}


def told_once(schemas: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same, each field described by the first tool that has it: a model reads all of them, and pays for each."""
    said: set[tuple[str, str]] = set()
    for schema in schemas.values():
        for name, field in schema["properties"].items():
            told = (name, field.get("description", ""))
            if told in said:
                del field["description"]
            elif told[1]:
                said.add(told)
    return schemas


def _short(kind: type[Any], name: str, field: dict[str, Any]) -> dict[str, Any]:
    """A field without what goes without saying: null, defaults that are nothing, and of four what all tools take."""
    either = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
    told = either[0] if len(either) == 1 else {key: value for key, value in field.items() if key != "anyOf"}
    told = told if len(either) < 2 else told | {"anyOf": either}
    kept = {key: value for key, value in told.items() if key not in ("description", "default")}
    if field.get("default") not in (None, "", [], (), {}, False):
        kept["default"] = field["default"]
    if "enum" in kept:
        kept = {"type": "string", **kept}  # some clients need the type beside the values to choose from
    return kept if name in OF_ALL else kept | {"description": sentence_of(kind, name)}
