"""Asking a person for an answer as a schema says it: field by field, each checked at once.

Questions go to stderr and answers come from stdin.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from outlast.doors.cli.render import as_json, clean, note, paragraph, terminal_columns, wrapped
from outlast.runs.waits.schema import APPROVAL as APPROVAL
from outlast.runs.waits.schema import resolved, wrong_with

Schema = Mapping[str, Any]
WORDS = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no",
    "object": "JSON object", "array": "JSON list", "null": "null",
}  # fmt: skip
TEXT, LONG = "TEXT", 60  # an example of a text, and from which length on there is none
MANY = 20  # items of an example
DEEPEST = 20
YES_AND_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class TypedValue(NamedTuple):
    """What was typed, as the value it stands for."""

    value: Any


class QuestionLeft(Exception):
    """Raised at the end of the input: the person leaves the question open."""


def read_line(prompt: str) -> str | None:
    """What is typed after the prompt; None at the end of the input."""
    sys.stdout.flush()
    plain = clean(prompt)
    sys.stderr.write("\n".join(wrapped(plain, terminal_columns())) + plain[len(plain.rstrip()) :])
    sys.stderr.flush()
    typed = sys.stdin.buffer.readline()
    if not typed:
        note("")
        return None
    return typed.decode("utf-8", "backslashreplace").strip()


def ask_answer(schema: Schema | None) -> TypedValue | None:
    """An answer that fits the schema; None when the person leaves the question open."""
    try:
        while True:
            found = _fill(schema or {})
            wrong = wrong_with(schema or {}, found.value)
            if not wrong:
                return found
            note(f"  {wrong}; once more")
    except QuestionLeft:
        return None


def read_answer(text: str, schema: Schema | None) -> TypedValue | None:
    """What was typed, as the answer that it stands for; None when it is none, which is said.

    Where one field is all that an answer has, or needs, its value is enough.
    """
    found, wrong = _answer(text, schema or {})
    if wrong:
        note(f"  {wrong}")
    return None if wrong else TypedValue(found)


def is_answer(text: str, schema: Schema | None) -> bool:
    """Whether a word is one of those that the schema lists: then it is never taken for a command of ours."""
    listed = resolved(schema, schema).get("enum", ()) if schema else ()
    return bool(text) and text in listed


def _answer(text: str, schema: Schema) -> tuple[Any, str]:
    found, wrong = value_of(text, "answer", schema, schema)
    field = _one_field(schema) if wrong else ""
    if not field:
        return found, wrong
    value, wrong = value_of(text, field, resolved(schema, schema)["properties"][field], schema)
    return ({field: value}, wrong_with(schema, {field: value})) if not wrong else (None, wrong)


def _one_field(schema: Schema) -> str:
    """The only field that an answer must have; empty when there is no such one."""
    whole = resolved(schema, schema)
    fields, needed = whole.get("properties", {}), [*whole.get("required", ())]
    names = needed or [*fields]
    return names[0] if len(names) == 1 and names[0] in fields else ""


def _fill(schema: Schema) -> TypedValue:
    whole = resolved(schema, schema)
    fields = whole.get("properties")
    if not fields or "object" not in kinds_of(whole, schema):
        found = _ask("answer", schema, schema, needed=True)
        return found if found is not None else TypedValue(None)
    needed = whole.get("required", ())
    asked = ((name, _ask(name, each, schema, needed=name in needed)) for name, each in fields.items())
    return TypedValue({name: found.value for name, found in asked if found is not None})


def _ask(name: str, field: Schema, root: Schema, *, needed: bool) -> TypedValue | None:
    """One value, asked for until it fits; None when it was left out."""
    schema = resolved(field, root)
    said = field.get("description") or schema.get("description")
    if isinstance(said, str) and said:
        paragraph(said, "  ", "  ")
    while True:
        text = read_line(f"  {name} ({hints(field, root, needed=needed)}): ")
        if text is None:
            raise QuestionLeft
        if not text and "default" in schema:
            return TypedValue(schema["default"])
        if not text and not needed:
            return None
        if not text:
            note(f"  {name} is needed; Ctrl-D leaves the question open")
            continue
        found, wrong = value_of(text, name, field, root)
        if not wrong:
            return TypedValue(found)
        note(f"  {wrong}")


def hints(field: Schema, root: Schema, *, needed: bool) -> str:
    """What may be given, in words."""
    schema = resolved(field, root)
    if "enum" in schema:
        told = [f"one of {', '.join(map(_shown, schema['enum']))}"]
    else:
        told = [" or ".join(WORDS[kind] for kind in kinds_of(schema, root)) or "JSON, or text"]
        told += limits(schema, root)
    if "default" in schema:
        told.append(f"Enter for {_shown(schema['default'])}")
    elif not needed:
        told.append("optional")
    return ", ".join(told)


LIMITS = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))


def limits(schema: Schema, root: Schema) -> list[str]:
    """What a value must keep to besides its type, in words."""
    found = []
    for low, high, unit in LIMITS:
        match schema.get(low), schema.get(high):
            case None, None:
                continue
            case least, None:
                found.append(f"at least {least}{unit}")
            case None, most:
                found.append(f"at most {most}{unit}")
            case least, most:
                found.append(f"{least} to {most}{unit}")
    if "pattern" in schema:
        found.append(f"matches {schema['pattern']}")
    inner = [each for each in schema.get("anyOf", ()) if "$ref" not in each]  # others have no end, perhaps
    return found + [line for each in inner for line in limits(each, root)]


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
    with suppress(ValueError, RecursionError):
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


def example_of(schema: Schema, root: Schema | None = None, depth: int = 0) -> Any:
    """A value that fits, to be changed; what nobody can guess is a placeholder: `<matches PATTERN>`."""
    root = root or schema
    whole = resolved(schema, root)
    for name in ("default", "const"):
        if name in whole:
            return whole[name]
    if "enum" in whole:
        return whole["enum"][0]
    if depth > DEEPEST:
        return None
    if "anyOf" in whole:
        return example_of(whole["anyOf"][0], root, depth + 1)
    match next(iter(kinds_of(whole, root)), "string"):
        case "object":
            fields = whole.get("properties", {})
            needed = [name for name in whole.get("required", ()) if name in fields]
            return {name: example_of(fields[name], root, depth + 1) for name in needed}
        case "array":
            return [example_of(whole.get("items", {}), root, depth + 1)] * min(
                math.ceil(whole.get("minItems", 0)), MANY
            )
        case "integer" | "number" as kind:
            return _number(whole, whole_one=kind == "integer")
        case "string":
            return _text(whole)
        case kind:
            return {"boolean": True}.get(kind)


def _number(schema: Schema, *, whole_one: bool) -> float:
    """The number next to nought that fits."""
    low, high = schema.get("minimum", 0), schema.get("maximum", 0)
    found = low if low > 0 else high if high < 0 else 0
    if not whole_one:
        return float(found) if isinstance(found, float) else found
    return math.ceil(found) if found > 0 else math.floor(found)


def _text(schema: Schema) -> str:
    """A text that is long enough and not too long; a placeholder where only a person can find one."""
    least, most = math.ceil(schema.get("minLength", 0)), math.floor(schema.get("maxLength", len(TEXT)))
    if "pattern" in schema:
        return f"<matches {schema['pattern']}>"
    if least > LONG:
        return f"<at least {least} characters>"
    return (TEXT * LONG)[: max(least, min(most, len(TEXT)))]


def has_placeholder(value: Any) -> bool:
    """Whether an example must be filled in before it is an answer."""
    if isinstance(value, dict | list):
        return any(map(has_placeholder, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and value.startswith(("<matches ", "<at least ")) and value.endswith(">")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)
