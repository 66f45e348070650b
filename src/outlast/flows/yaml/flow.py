"""A flow file as a flow: found by its path and bound to its inputs. What runs it: `commands/flow.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from outlast.errors import FlowNotFound, InputsInvalid
from outlast.flows.loading import FLOW_FILES, full_path, here
from outlast.flows.spec import FlowSpec, Signature
from outlast.flows.yaml.inputs import bind_inputs, demand_secrets
from outlast.flows.yaml.model import FlowDefinition, SubFlow, code_of_definition
from outlast.values.codec import encode, identity


class FlowFileSpec(FlowSpec, frozen=True, dict=True, kw_only=True):
    """A flow whose body is a file of commands."""

    definition: FlowDefinition
    file: Path

    @cached_property
    def code(self) -> str:
        """A digest of what its file says, however it is written there, and those of the flows that it runs."""
        own = code_of_definition(self.definition)
        others = sorted(code_of_definition(each.definition) for each in self.others())
        return identity(encode([own, *others])) if others else own

    @property
    def identity(self) -> str:
        """The name that its file gives it."""
        return f"flow:{self.name}"

    @property
    def folder(self) -> str:
        return str(self.file.parent)

    def others(self) -> list[FlowFileSpec]:
        """The flow files that it runs, and those that they run, each once. Raises FlowNotFound, RecipeInvalid."""
        found: dict[Path, FlowFileSpec] = {}
        todo = [self]
        while todo:
            spec = todo.pop()
            for node in (node for node in spec.definition.nodes() if isinstance(node, SubFlow)):
                other = find_flow_file(node.flow, spec.file.parent)
                if other.file not in found:
                    found[other.file] = other
                    todo.append(other)
        return list(found.values())

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name. Raises InputsInvalid, and SecretMissing while nothing has begun."""
        if args:
            raise InputsInvalid(self.name, "its inputs are given by name", ", ".join(self.definition.inputs) or "none")
        return self.bind_all(kwargs)

    def bind_all(self, given: Mapping[str, Any], *, words: bool = False) -> dict[str, Any]:
        """The same; `words` are texts of a command line."""
        inputs = bind_inputs(self.definition, given, words=words)
        demand_secrets(self.definition, os.environ)
        for other in self.others():
            demand_secrets(other.definition, os.environ)
        return inputs

    def typed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self.bind((), inputs)


def find_flow_file(source: str, *folders: Path) -> FlowFileSpec:
    """The flow that a file holds now, looked for in these folders. Raises FlowNotFound, RecipeInvalid.

    The file is read and checked every time: nothing else decides what runs.
    """
    place = source if source.endswith(FLOW_FILES) else source.rpartition(":")[0]
    paths = [full_path(folder / place) for folder in folders or (here(),)]
    path = next((path for path in paths if os.path.exists(path)), None)
    if path is None:
        raise FlowNotFound(source, "there is no such file")
    definition = _read(Path(os.path.realpath(path)))
    if source != place and source != f"{place}:{definition.name}":
        raise FlowNotFound(source, f"that file is the flow {definition.name!r} now")
    return flow_file_spec(definition, path)


def _read(path: Path) -> FlowDefinition:
    from outlast.flows.yaml.read import read_flow_file  # late: the parser is loaded with the first file

    return read_flow_file(path)


def flow_file_spec(definition: FlowDefinition, path: str) -> FlowFileSpec:
    """A flow file as a flow. Its body is not here: whoever runs it performs its nodes (`commands/flow.py`)."""
    source, file = f"{path}:{definition.name}", Path(os.path.realpath(path))
    return FlowFileSpec(
        _body, definition.name, source, False, Signature(_body, skip=1), True, definition=definition, file=file
    )


def _body(run: Any, **inputs: Any) -> dict[str, Any]:
    """What the body of every flow file takes and gives."""
    raise AssertionError("a flow file is performed, not called")
