"""The schema of a type that an answer is to come back as, with what the type asks for and a bare schema leaves out."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from outlast.errors import ValueRefused

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
        raise ValueRefused(
            "schema", str(error), "give a JSON schema, or a dataclass, msgspec or pydantic type"
        ) from error
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
