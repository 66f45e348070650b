"""Answers as forms: fields made from a JSON Schema, and what was filled in as the value that the schema wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from outlast.errors import RequestInvalid

MOST_FIELDS = 40
PREFIX = "answer."


class Field(Struct, frozen=True):
    """One thing to fill in."""

    name: str
    label: str
    kind: str  # text, long, number, flag, choice, json
    required: bool = False
    help: str = ""
    choices: tuple[str, ...] = ()
    value: str = ""


def fields_of(schema: Mapping[str, Any] | None) -> list[Field]:
    """The fields of a schema's object, in its order; one for the whole answer where it is no plain object."""
    if not isinstance(schema, Mapping) or not _is_plain(schema):
        return [Field(PREFIX + "json", "Answer", "json", True, "any JSON value, as the schema wants it")]
    needed = schema.get("required", ())
    return [_field(name, of, name in needed) for name, of in schema["properties"].items()]


def _is_plain(schema: Mapping[str, Any]) -> bool:
    fields = schema.get("properties")
    return (
        isinstance(fields, Mapping)
        and 0 < len(fields) <= MOST_FIELDS
        and all(isinstance(each, Mapping) and isinstance(name, str) for name, each in fields.items())
        and not any(word in schema for word in ("oneOf", "anyOf", "allOf", "not", "$ref"))
    )


def _field(name: str, of: Mapping[str, Any], required: bool) -> Field:
    label = str(of.get("title") or name)
    help, value = str(of.get("description", "")), "" if "default" not in of else _text(of["default"])
    choices = of.get("enum")
    if isinstance(choices, list) and all(isinstance(each, str) for each in choices):
        return Field(PREFIX + name, label, "choice", required, help, tuple(choices), value)
    kinds = {"boolean": "flag", "integer": "number", "number": "number"}
    if of.get("type") == "string":
        kind = "long" if of.get("maxLength", 0) > 200 or of.get("format") == "textarea" else "text"
    else:
        kind = kinds.get(str(of.get("type")), "json")
    return Field(PREFIX + name, label, kind, required, help, (), value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def answer_in(form: Mapping[str, str], schema: Mapping[str, Any] | None) -> Any:
    """What was filled in. A field that was left empty and need not be there is left out. Raises RequestInvalid."""
    fields = fields_of(schema)
    if [each.name for each in fields] == [PREFIX + "json"]:
        return _json("answer", form.get(PREFIX + "json", ""))
    found = {each.name.removeprefix(PREFIX): _value(each, form.get(each.name, "")) for each in fields}
    return {name: value for name, value in found.items() if value is not _NOTHING}


_NOTHING: Any = object()


def _value(field: Field, text: str) -> Any:
    if field.kind == "flag":
        return bool(text)
    if text == "" and not (field.required and field.kind in ("text", "long")):
        return _NOTHING
    return text if field.kind in ("text", "long", "choice") else _json(field.label, text)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestInvalid(name, f"it is no JSON: {error}") from error
