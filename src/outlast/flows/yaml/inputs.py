"""What a flow file is started with: its inputs, checked against their types, and its secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from outlast.errors import InputsInvalid, SecretMissing
from outlast.flows.yaml.model import REQUIRED, Input, Recipe

ARTICLES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "json": "a JSON value",
}
_PYTHON: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,999}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,999})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_LONGEST = (1 << 17) - 1  # bytes of NAME=value: Linux takes no longer variable


def bind_inputs(recipe: Recipe, given: Mapping[str, Any], *, words: bool = False) -> dict[str, Any]:
    """The flow's inputs, all of them, defaults filled in. Raises InputsInvalid that names everything wrong.

    Text is taken for a whole number, a number or a truth value only when it can be read in one way. With `words` (from
    a command line) text for a `json` input is JSON; without, it is the text itself.
    """
    faults = [f"it has no input {name!r}" for name in given if name not in recipe.inputs]
    bound: dict[str, Any] = {}
    for name, wanted in recipe.inputs.items():
        value = given.get(name, wanted.default)
        if value is REQUIRED:
            faults.append(f"{name} is missing")
            continue
        bound[name] = _typed(value, wanted.type, words) if name in given else value
        fault = misfit(wanted.type, bound[name]) or unfit_for_a_variable(f"OUTLAST_INPUT_{name}", bound[name])
        faults += [f"{name} {fault}"] if fault else []
    if faults:
        raise InputsInvalid(recipe.name, "; ".join(faults), signature(recipe))
    return bound


def signature(recipe: Recipe) -> str:
    """The inputs as a person reads them: `ticket: string, limit: integer = 5`."""
    return ", ".join(_shown(each) for each in recipe.inputs.values()) or "none"


def _shown(wanted: Input) -> str:
    default = "" if wanted.default is REQUIRED else f" = {json.dumps(wanted.default, ensure_ascii=False)}"
    return f"{wanted.name}: {wanted.type}{default}"


def _typed(value: Any, kind: str, words: bool) -> Any:
    """A text as the type that is wanted, where it says that plainly; else the value as it is."""
    if not isinstance(value, str):
        return value
    if kind == "integer" and _INTEGER.fullmatch(value):
        return int(value)
    if kind == "number" and _NUMBER.fullmatch(value):
        return int(value) if _INTEGER.fullmatch(value) else float(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    return _parsed(value) if kind == "json" and words else value


def bound_to(wanted: Input, value: Any) -> Any:
    """A value for an input, as `bind_inputs` takes it."""
    return _typed(value, wanted.type, words=False)


def _parsed(word: str) -> Any:
    try:
        return json.loads(word, parse_constant=lambda name: math.nan)
    except (ValueError, RecursionError):
        return _NoJson(word)


class _NoJson(str):
    """A word that is no JSON; misfit says so."""

    __slots__ = ()


def misfit(kind: str, value: Any) -> str:
    """Why a value is not of an input's type; empty when it is."""
    if kind == "json":
        return _no_json(value)
    if not isinstance(value, _PYTHON[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return f"is {_seen(value)}, not {ARTICLES[kind]}"
    return "is no finite number" if isinstance(value, float) and not math.isfinite(value) else ""


def _no_json(value: Any) -> str:
    if isinstance(value, _NoJson):
        return f"is no JSON: {_seen(str(value))} (a text needs its quotes: '\"text\"')"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    return ""


def _seen(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float | None) else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"


def unfit_for_a_variable(variable: str, value: Any) -> str:
    """Why a value cannot reach a command as this variable; empty when it can."""
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "holds half of a character, which no command can be given"
    if "\0" in text:
        return "holds a NUL, which no command can be given"
    size, limit = len(text.encode()), _LONGEST - len(variable) - 1
    return "" if size <= limit else f"has {size:,} bytes; a command can be given {limit:,}: put it in a file"


def demand_secrets(recipe: Recipe, environ: Mapping[str, str]) -> dict[str, str]:
    """The flow's secrets with their values. Raises SecretMissing that names all that are unset or empty."""
    missing = [name for name in recipe.secrets if not environ.get(name)]
    if missing:
        raise SecretMissing(recipe.name, ", ".join(missing))
    return {name: environ[name] for name in recipe.secrets}
