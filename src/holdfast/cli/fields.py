"""Asking a person for an answer as a schema says it: field by field, each checked at once.

Questions go to stderr and answers come from stdin.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.cli.render import as_json, clean, note, paragraph
from holdfast.domain.answers import resolved, wrong_with

Schema = Mapping[str, Any]
WORDS = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no",
    "object": "JSON object", "array": "JSON list", "null": "null",
}  # fmt: skip
YES_AND_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class Given(NamedTuple):
    """What was typed, as the value it stands for."""

    value: Any


class Left(Exception):
    """Raised at the end of the input: the person leaves the question open."""


def read_line(prompt: str) -> str | None:
    """What is typed after the prompt; None at the end of the input."""
    sys.stdout.flush()
    sys.stderr.write(clean(prompt))
    sys.stderr.flush()
    typed = sys.stdin.buffer.readline()
    if not typed:
        note("")
        return None
    return typed.decode("utf-8", "backslashreplace").strip()


def ask_answer(schema: Schema | None) -> Given | None:
    """An answer that fits the schema; None when the person leaves the question open."""
    try:
        while True:
            found = _fill(schema or {})
            wrong = wrong_with(schema or {}, found.value)
            if not wrong:
                return found
            note(f"  {wrong}; once more")
    except Left:
        return None


def _fill(schema: Schema) -> Given:
    whole = resolved(schema, schema)
    fields = whole.get("properties")
    if not fields or "object" not in kinds_of(whole, schema):
        found = _ask("answer", schema, schema, needed=True)
        return found if found is not None else Given(None)
    needed = whole.get("required", ())
    asked = ((name, _ask(name, each, schema, needed=name in needed)) for name, each in fields.items())
    return Given({name: found.value for name, found in asked if found is not None})


def _ask(name: str, field: Schema, root: Schema, *, needed: bool) -> Given | None:
    """One value, asked for until it fits; None when it was left out."""
    schema = resolved(field, root)
    said = field.get("description") or schema.get("description")
    if isinstance(said, str) and said:
        paragraph(said, "  ", "  ")
    while True:
        text = read_line(f"  {name} ({hints(field, root, needed=needed)}): ")
        if text is None:
            raise Left
        if not text and "default" in schema:
            return Given(schema["default"])
        if not text and not needed:
            return None
        if not text:
            note(f"  {name} is needed; Ctrl-D leaves the question open")
            continue
        found, wrong = value_of(text, name, field, root)
        if not wrong:
            return Given(found)
        note(f"  {wrong}")


def hints(field: Schema, root: Schema, *, needed: bool) -> str:
    """What may be given, in words."""
    schema = resolved(field, root)
    if "enum" in schema:
        told = [f"one of {', '.join(map(_shown, schema['enum']))}"]
    else:
        told = [" or ".join(WORDS[kind] for kind in kinds_of(schema, root)) or "JSON, or text"]
    if "default" in schema:
        told.append(f"Enter for {_shown(schema['default'])}")
    elif not needed:
        told.append("optional")
    return ", ".join(told)


def value_of(text: str, name: str, field: Schema, root: Schema) -> tuple[Any, str]:
    """The first of the values that a text can stand for which fits; else what is wrong with it."""
    schema = {**field, "$defs": root.get("$defs", {})}
    first = ""
    for value in _readings(text, kinds_of(resolved(field, root), root)):
        wrong = wrong_with(schema, value, name)
        if not wrong:
            return value, ""
        first = first or wrong
    return None, first


def _readings(text: str, kinds: list[str]) -> Iterator[Any]:
    if kinds == ["string"]:
        yield "" if text == '""' else text
        return
    if "boolean" in kinds and text.lower() in YES_AND_NO:
        yield YES_AND_NO[text.lower()]
    with suppress(ValueError):
        yield json.loads(text)
    yield text


def kinds_of(schema: Schema, root: Schema) -> list[str]:
    """The types that a value may have; none when any will do."""
    if "anyOf" in schema:
        return [kind for each in schema["anyOf"] for kind in kinds_of(resolved(each, root), root)]
    kinds = schema.get("type", [])
    return list(kinds) if isinstance(kinds, list) else [kinds]


def fields_line(schema: Schema) -> str:
    """What an answer is made of, in a line."""
    whole = resolved(schema, schema)
    fields, needed = whole.get("properties"), whole.get("required", ())
    if not fields:
        return hints(schema, schema, needed=True)
    return "; ".join(f"{name} ({hints(each, schema, needed=name in needed)})" for name, each in fields.items())


def example_of(schema: Schema, root: Schema | None = None) -> Any:
    """A value of the right shape, to be filled in."""
    root = root or schema
    whole = resolved(schema, root)
    for name in ("default", "const"):
        if name in whole:
            return whole[name]
    if "enum" in whole:
        return whole["enum"][0]
    kind = next(iter(kinds_of(whole, root)), "string")
    if kind == "object":
        fields = whole.get("properties", {})
        return {name: example_of(fields[name], root) for name in whole.get("required", ()) if name in fields}
    return {"array": [], "integer": 0, "number": 0, "boolean": True, "null": None}.get(kind, "TEXT")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)
