"""What each tool takes: the fields of its operation, described for a model. What is not listed is refused.

`null` for an argument that may be left out is the same as leaving it out: many clients send it so.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outlast.errors import Invalid
from outlast.operations.fields import Json
from outlast.operations.observed import SEEN
from outlast.operations.operation import WHOSE, Declared, Operation, choices_of, part_of, sentence_of
from outlast.values.text import closest

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
