"""What an answer must look like: a small part of JSON Schema, checked by path.

A schema is written by whoever asks and read in another process that has none of their types. What it says beyond this
part is refused when the question is asked, not ignored when it is answered.

Texts of a given format in an answer: moments, ids, numbers kept as text. Each is read as its type will read it.

The schema of a type that an answer is to come back as, with what the type asks for and a bare schema leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from outlast.errors import ValueRefused
from outlast.values.codec import encode

FORMATS = {
    "date-time": "a moment with its time zone, such as 2026-01-31T09:30:00Z",
    "date": "a date, such as 2026-01-31",
    "time": "a time of day, such as 09:30:00",
    "duration": "a duration, such as PT90S or P2D",
    "uuid": "a UUID",
    "decimal": "a decimal number as text, such as 9.90",
    "email": "an e-mail address",
    "uri": "a URI, such as https://example.org/page",
}
_PATTERNS = {"email": r"[^@\s]+@[^@\s]+", "uri": r"[A-Za-z][A-Za-z0-9+.-]*:\S+"}


def is_of_format(name: str, text: str) -> bool:
    """Whether a text is what its format says."""
    if name in _PATTERNS:
        return re.fullmatch(_PATTERNS[name], text) is not None
    try:
        msgspec.convert(text, _types()[name])
    except msgspec.ValidationError:
        return False
    return True


@cache
def _types() -> dict[str, Any]:
    from datetime import date, datetime, time, timedelta  # late: most answers have no format
    from decimal import Decimal
    from uuid import UUID

    aware = Annotated[datetime, msgspec.Meta(tz=True)]
    return {"date-time": aware, "date": date, "time": time, "duration": timedelta, "uuid": UUID, "decimal": Decimal}


APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}},
    "required": ["approved"],
    "additionalProperties": False,
}
KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
SILENT = ("title", "description", "examples", "default", "$schema", "$defs", "$comment")
_LIMITS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value: value, lambda value, limit: value >= limit, "is less than {limit}"),
    "maximum": (lambda value: value, lambda value, limit: value <= limit, "is more than {limit}"),
    "minLength": (len, lambda value, limit: value >= limit, "is shorter than {limit} characters"),
    "maxLength": (len, lambda value, limit: value <= limit, "is longer than {limit} characters"),
    "minItems": (len, lambda value, limit: value >= limit, "has fewer than {limit} items"),
    "maxItems": (len, lambda value, limit: value <= limit, "has more than {limit} items"),
}
_ABOUT: dict[str, Any] = {"minimum": (int, float), "maximum": (int, float), "minLength": str, "maxLength": str}
_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "properties": (lambda given: isinstance(given, dict), "an object of schemas"),
    "$defs": (lambda given: isinstance(given, dict), "an object of schemas"),
    "required": (
        lambda given: isinstance(given, list) and all(isinstance(name, str) for name in given),
        "a list of names",
    ),
    "additionalProperties": (lambda given: isinstance(given, bool | dict), "true, false or a schema"),
    "enum": (lambda given: isinstance(given, list) and bool(given), "a list of values"),
    "anyOf": (lambda given: isinstance(given, list) and bool(given), "a list of schemas"),
    "type": (
        lambda given: isinstance(given, str) or (isinstance(given, list) and bool(given)),
        "a type, or a list of types",
    ),
    "$ref": (lambda given: isinstance(given, str), "#/$defs/NAME"),
    "format": (lambda given: isinstance(given, str) and given in FORMATS, f"one of {', '.join(FORMATS)}"),
    **dict.fromkeys(
        _LIMITS, (lambda given: isinstance(given, int | float) and not isinstance(given, bool), "a number")
    ),
}
_KNOWN = (
    *(*SILENT, *_LIMITS, "type", "properties", "required", "additionalProperties", "items", "enum", "const"),
    *("pattern", "anyOf", "$ref", "format", "propertyNames"),
)


def refuse_schema(schema: Any, path: str = "schema") -> None:
    """Raises ValueError, naming the place, for what this part of JSON Schema does not know."""
    for where, wrong in _mistakes(schema, path, schema):
        raise ValueError(f"{where}: {wrong}")


def _mistakes(schema: Any, path: str, root: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        yield path, "a schema is an object"
        return
    yield from ((f"{path}.{name}", "it is not known here") for name in schema if name not in _KNOWN)
    for name, (fits, wanted) in _SHAPES.items():
        if name in schema and not fits(schema[name]):
            yield f"{path}.{name}", f"it must be {wanted}"
            return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in KINDS:
            yield f"{path}.type", f"{kind!r} is none of {', '.join(KINDS)}"
    if "$ref" in schema and _resolved(schema, root) is None:
        yield f"{path}.$ref", f"{schema['$ref']!r} leads nowhere; use #/$defs/NAME"
    elif "$ref" in schema and _goes_round(schema, root):
        yield f"{path}.$ref", f"{schema['$ref']!r} leads back to itself"
    if "pattern" in schema:
        yield from _bad_pattern(schema["pattern"], f"{path}.pattern")
    for where, inner in _inner(schema, path):
        yield from _mistakes(inner, where, root)


def _goes_round(
    schema: Mapping[str, Any], root: Any, above: tuple[int, ...] = (), done: set[int] | None = None
) -> bool:
    """Whether a value would be checked for ever: by schemas that only stand for each other."""
    done = set() if done is None else done
    if id(schema) in above:
        return True
    if id(schema) in done:
        return False
    choices = schema.get("anyOf", ())
    standing = [*(choices if isinstance(choices, list) else ()), _resolved(schema, root) if "$ref" in schema else None]
    inner = [each for each in standing if isinstance(each, dict)]
    found = any(_goes_round(each, root, (*above, id(schema)), done) for each in inner)
    done.add(id(schema))
    return found


def _bad_pattern(pattern: Any, path: str) -> Iterator[tuple[str, str]]:
    from outlast.values.regular import slow_part  # late: few schemas have a pattern

    if not isinstance(pattern, str):
        yield path, "it is no pattern: a text"
        return
    try:
        re.compile(pattern)
        slow = slow_part(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        yield path, f"it is no pattern: {error}"
        return
    if slow:
        remedy = "begin it with ^, and give repeats an end: {1,100} instead of +"
        yield path, f"some answer could make it take for ever ({slow}); {remedy}"


def _inner(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name in ("properties", "$defs"):
        named = schema.get(name, {})
        if isinstance(named, dict):
            yield from ((f"{path}.{name}.{key}", inner) for key, inner in named.items())
    for name in ("items", "propertyNames"):
        if name in schema:
            yield f"{path}.{name}", schema[name]
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}.additionalProperties", schema["additionalProperties"]
    yield from ((f"{path}.anyOf[{at}]", inner) for at, inner in enumerate(schema.get("anyOf", ())))


def wrong_with(schema: Mapping[str, Any], value: Any, path: str = "answer") -> str:
    """What is wrong with an answer, with its path; "" when it fits."""
    return next(_wrong(schema, value, path, schema), "")


def _wrong(schema: Mapping[str, Any], value: Any, path: str, root: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield from _wrong(_resolved(schema, root) or {}, value, path, root)
    if "anyOf" in schema:
        inside = [list(_wrong(inner, value, path, root)) for inner in schema["anyOf"]]
        if all(inside):
            yield min(inside, key=len)[0]
            return
    if "type" in schema and not _is_of(schema["type"], value):
        yield f"{path} is {_kind(value)}, not {_wanted(schema['type'])}"
        return
    yield from _wrong_value(schema, value, path)
    if isinstance(value, dict):
        yield from _wrong_fields(schema, value, path, root)
    elif isinstance(value, list) and "items" in schema:
        for at, item in enumerate(value):
            yield from _wrong(schema["items"], item, f"{path}[{at}]", root)


def _wrong_value(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{path} is none of {', '.join(encode(one).decode() for one in schema['enum'])}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{path} is not {encode(schema['const']).decode()}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path} does not match {schema['pattern']}"
    if "format" in schema and isinstance(value, str) and not is_of_format(schema["format"], value):
        yield f"{path} is not {FORMATS[schema['format']]}"
    for name, (measure, fits, says) in _LIMITS.items():
        about = _ABOUT.get(name, list)
        applies = name in schema and isinstance(value, about) and not isinstance(value, bool)
        if applies and not fits(measure(value), schema[name]):
            yield f"{path} {says.format(limit=schema[name])}"


def _wrong_fields(
    schema: Mapping[str, Any], value: dict[str, Any], path: str, root: Mapping[str, Any]
) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        yield from _wrong(schema.get("propertyNames", {}), name, f"the name of {path}.{name}", root)
        if name in known:
            yield from _wrong(known[name], item, f"{path}.{name}", root)
        elif rest is False:
            yield f"{path}.{name} is not asked for"
        elif isinstance(rest, dict):
            yield from _wrong(rest, item, f"{path}.{name}", root)


def resolved(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any]:
    """The schema that one stands for by `$ref`; itself when it has none."""
    while "$ref" in schema:
        schema = _resolved(schema, root) or {}
    return schema


def _resolved(schema: Mapping[str, Any], root: Any) -> dict[str, Any] | None:
    name = str(schema["$ref"]).removeprefix("#/$defs/")
    found = root.get("$defs", {}).get(name) if isinstance(root, dict) else None
    return found if isinstance(found, dict) else None


def _is_of(kinds: Any, value: Any) -> bool:
    wanted = kinds if isinstance(kinds, list) else [kinds]
    if isinstance(value, bool):
        return "boolean" in wanted
    return any(isinstance(value, KINDS[kind]) for kind in wanted)


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _kind(value: Any) -> str:
    return next(kind for kind in ("boolean", *KINDS) if isinstance(value, KINDS[kind]))


def _wanted(kinds: Any) -> str:
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


_SEQUENCES = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType)
_KEYS: dict[type, dict[str, Any]] = {
    inspect.IntType: {"pattern": r"^(0|-?[1-9][0-9]{0,17})$"},
    inspect.UUIDType: {"format": "uuid"},
    inspect.DateType: {"format": "date"},
    inspect.DecimalType: {"format": "decimal"},
}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type. Raises ValueRefused for a type that no schema of ours can stand for."""
    if hasattr(kind, "model_json_schema"):
        made: dict[str, Any] = kind.model_json_schema()
        return made
    try:
        made = msgspec.json.schema(kind)
    except TypeError as error:
        remedy = "give a JSON schema, or a dataclass, msgspec or pydantic type"
        raise ValueRefused("schema", str(error), remedy) from error
    _complete(inspect.type_info(kind), made, made, set())
    return made


def _complete(info: Any, schema: dict[str, Any], root: dict[str, Any], seen: set[int]) -> None:
    """Say in the schema what the type knows and JSON Schema was not told."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if id(schema) in seen:
        return
    seen.add(id(schema))
    if isinstance(info, inspect.DateTimeType | inspect.TimeType):
        schema["format"] = _moment(info)
    elif isinstance(info, inspect.DictType):
        schema |= _names(info.key_type)
    for inner, part in _parts(info, schema):
        _complete(inner, part, root, seen)


def _moment(info: inspect.DateTimeType | inspect.TimeType) -> str:
    is_time = isinstance(info, inspect.TimeType)
    if info.tz is not None and info.tz is is_time:
        wanted = "a time without a time zone" if is_time else "a moment with a time zone"
        raise ValueRefused("schema", f"only {wanted} can be asked for", "leave tz away in its type")
    return "time" if is_time else "date-time"


def _names(key: Any) -> dict[str, Any]:
    """What the names in an object must look like, for keys that are read from them."""
    while isinstance(key, inspect.Metadata):
        key = key.type
    if isinstance(key, inspect.StrType | inspect.AnyType):
        return {}
    if type(key) not in _KEYS:
        raise ValueRefused("schema", "keys of this type cannot be asked for", "use text, int, UUID, date or Decimal")
    return {"propertyNames": dict(_KEYS[type(key)])}


def _parts(info: Any, schema: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """The types inside a type, each with its part of the schema."""
    if isinstance(info, _SEQUENCES):
        found = [(info.item_type, schema.get("items"))]
    elif isinstance(info, inspect.DictType):
        found = [(info.value_type, schema.get("additionalProperties"))]
    elif isinstance(info, _OBJECTS):
        found = [(field.type, schema.get("properties", {}).get(field.encode_name)) for field in info.fields]
    elif isinstance(info, inspect.UnionType):
        found = list(zip(sorted(info.types, key=_place_in_union), schema.get("anyOf", ()), strict=False))
    else:
        found = []
    return [(inner, part) for inner, part in found if isinstance(part, dict)]


def _place_in_union(info: Any) -> int:
    """A schema of several types names the plain ones first, then a struct, then null."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.NoneType):
        return 2
    return int(isinstance(info, inspect.StructType) and not info.array_like)
