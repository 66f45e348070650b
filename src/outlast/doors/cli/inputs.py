"""From words on the command line to a flow and its typed inputs."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Any

import msgspec

from outlast.doors.cli.render import note
from outlast.errors import FlowNotFound, InputsInvalid
from outlast.flows.loading import here, is_recipe, load
from outlast.flows.spec import FlowSpec, hints_of
from outlast.home.place import find_home, project_of
from outlast.python.decorators import Flow, FlowFile, flow_file
from outlast.python.shared import url_of
from outlast.values.codec import decoder, encode

Typed = Callable[[Any, Any], Any]  # a value and its annotation


def find_flow(name: str, home: str | None = None) -> Flow[..., Any] | FlowFile:
    """The flow that `flow.yaml`, `module:name` or `file.py:name` names, from here or from the project.

    Raises FlowNotFound, RecipeInvalid.
    """
    project = None if url_of(home) else project_of(find_home(home, tell=note))
    folders = [here(), *([project] if project else [])]
    if is_recipe(name):
        return flow_file(name, *folders)
    found = load(name, *folders)
    if not isinstance(found, Flow):
        raise FlowNotFound(name, f"{name.rpartition(':')[2]} is not a flow (decorate it with @flow)")
    return found


def inputs_of(flow: Flow[..., Any] | FlowFile, words: Sequence[str]) -> dict[str, Any]:
    """The flow's inputs as its annotations type them. Raises InputsInvalid with the flow's signature."""
    spec = flow.spec
    if len(words) == 1 and (words[0] == "-" or words[0].startswith(("{", "@"))):
        given: Mapping[str, Any] = _document(spec, words[0])
        typed: Typed = _from_json
    else:
        given, typed = _pairs(spec, words), _from_text
    if isinstance(flow, FlowFile):
        return flow.inputs(given, words=typed is _from_text)
    _refuse_unknown(spec, given)
    hints = hints_of(spec.function)
    inputs = {name: _typed(spec, name, value, hints, typed) for name, value in given.items()}
    spec.bind((), inputs)
    return inputs


def refusal(spec: FlowSpec, why: str) -> InputsInvalid:
    recipe = getattr(spec, "recipe", None)
    names = list(recipe.inputs) if recipe is not None else [str(p) for p in _parameters(spec).values()]
    return InputsInvalid(spec.name, why, ", ".join(names) or "none")


def _parameters(spec: FlowSpec) -> dict[str, Parameter]:
    silent = {*spec.signature.injected, *spec.signature.keyed}
    return {p.name: p for p in spec.signature.parameters if p.name not in silent}


def _document(spec: FlowSpec, word: str) -> dict[str, Any]:
    """Inputs as one JSON object: given as it is, in a file, or on standard input."""
    try:
        raw = sys.stdin.buffer.read() if word == "-" else Path(word[1:]).read_bytes() if word[0] == "@" else word
        given = json.loads(raw)
    except OSError as error:
        raise refusal(spec, f"cannot read {word[1:]}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise refusal(spec, f"its inputs are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise refusal(spec, f"its inputs must be one JSON object, not {type(given).__name__}")
    return given


def _pairs(spec: FlowSpec, words: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise refusal(spec, f"{word!r} is not name=value (nor a JSON object, @file or -)")
        if name in given:
            raise refusal(spec, f"{name} is given twice")
        given[name] = value
    return given


def _refuse_unknown(spec: FlowSpec, given: Mapping[str, Any]) -> None:
    known = _parameters(spec)
    if any(p.kind is Parameter.VAR_KEYWORD for p in known.values()):
        return
    unknown = [name for name in given if name not in known]
    if unknown:
        raise refusal(spec, f"it has no input {unknown[0]!r}")


def _typed(spec: FlowSpec, name: str, value: Any, hints: Mapping[str, Any], typed: Typed) -> Any:
    try:
        return typed(value, hints.get(name, Any))
    except (TypeError, ValueError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        kind = getattr(hints[name], "__name__", str(hints[name]))
        raise refusal(spec, f"{name}={value} is no {kind}{why}") from error


def _from_json(value: Any, hint: Any) -> Any:
    return decoder(hint)(encode(value))


def _from_text(text: str, hint: Any) -> Any:
    """Text where text is wanted, else JSON; a word that is no JSON stands for itself (a date, a path, a choice)."""
    if hint is str or (_takes_text(hint) and text != "null"):
        return text
    try:
        return decoder(hint)(text.encode())
    except (TypeError, ValueError) as error:
        try:
            return decoder(hint)(encode(text))
        except (TypeError, ValueError):
            raise error from None


def _takes_text(hint: Any) -> bool:
    """Whether this is `str | None` or another union with text in it."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType) and str in typing.get_args(hint)
