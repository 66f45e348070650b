"""A flow file as a flow: found by its path, bound to its inputs, performed as a run's body."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from outlast.errors import FlowNotFound, InputsInvalid
from outlast.flows.loading import RECIPES, full_path, here
from outlast.flows.spec import FlowSpec, Signature
from outlast.flows.yaml.inputs import bind_inputs, demand_secrets
from outlast.flows.yaml.model import Recipe, SubFlow, code_of_recipe
from outlast.runs.attempt import CURRENT
from outlast.values.codec import encode
from outlast.values.digest import identity
from outlast.values.frozen import dataclass


@dataclass(frozen=True)
class RecipeSpec(FlowSpec):
    """A flow whose body is a file of commands."""

    recipe: Recipe | None = None
    file: Path = Path()

    @cached_property
    def code(self) -> str:
        """A digest of what its file says, however it is written there, and those of the flows that it runs."""
        assert self.recipe is not None
        own = code_of_recipe(self.recipe)
        others = sorted(code_of_recipe(each.recipe) for each in self.others() if each.recipe is not None)
        return identity(encode([own, *others])) if others else own

    @property
    def identity(self) -> str:
        """The name that its file gives it."""
        return f"flow:{self.name}"

    @property
    def folder(self) -> str:
        return str(self.file.parent)

    def others(self) -> list[RecipeSpec]:
        """The flow files that it runs, and those that they run, each once. Raises FlowNotFound, RecipeInvalid."""
        found: dict[Path, RecipeSpec] = {}
        todo = [self]
        while todo:
            spec = todo.pop()
            assert spec.recipe is not None
            for node in (node for node in spec.recipe.nodes() if isinstance(node, SubFlow)):
                other = find_recipe(node.flow, spec.file.parent)
                if other.file not in found:
                    found[other.file] = other
                    todo.append(other)
        return list(found.values())

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name. Raises InputsInvalid, and SecretMissing while nothing has begun."""
        assert self.recipe is not None
        if args:
            raise InputsInvalid(self.name, "its inputs are given by name", ", ".join(self.recipe.inputs) or "none")
        return self.bind_all(kwargs)

    def bind_all(self, given: Mapping[str, Any], *, words: bool = False) -> dict[str, Any]:
        """The same; `words` are texts of a command line."""
        assert self.recipe is not None
        inputs = bind_inputs(self.recipe, given, words=words)
        demand_secrets(self.recipe, os.environ)
        for other in self.others():
            assert other.recipe is not None
            demand_secrets(other.recipe, os.environ)
        return inputs

    def typed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self.bind((), inputs)


def find_recipe(source: str, *folders: Path) -> RecipeSpec:
    """The flow that a file holds now, looked for in these folders. Raises FlowNotFound, RecipeInvalid.

    The file is read and checked every time: nothing else decides what runs.
    """
    place = source if source.endswith(RECIPES) else source.rpartition(":")[0]
    paths = [full_path(folder / place) for folder in folders or (here(),)]
    path = next((path for path in paths if os.path.exists(path)), None)
    if path is None:
        raise FlowNotFound(source, "there is no such file")
    recipe = _read(Path(os.path.realpath(path)))
    if source != place and source != f"{place}:{recipe.name}":
        raise FlowNotFound(source, f"that file is the flow {recipe.name!r} now")
    return recipe_spec(recipe, path)


def _read(path: Path) -> Recipe:
    from outlast.flows.yaml.read import read_recipe  # late: the parser is loaded with the first file

    return read_recipe(path)


def recipe_spec(recipe: Recipe, path: str) -> RecipeSpec:
    def body(run: Any, **inputs: Any) -> dict[str, Any]:
        return _perform(spec, inputs)

    source, signature = f"{path}:{recipe.name}", Signature(body, skip=1)
    file = Path(os.path.realpath(path))
    spec = RecipeSpec(body, recipe.name, source, False, signature, True, recipe=recipe, file=file)
    return spec


def _perform(spec: RecipeSpec, inputs: dict[str, Any]) -> dict[str, Any]:
    from outlast.commands.flow import Performance
    from outlast.commands.step import Setting

    frame = CURRENT.get()
    assert frame is not None
    assert spec.recipe is not None
    execution = frame.execution
    secrets = demand_secrets(spec.recipe, os.environ)
    setting = Setting(execution.executor, spec.recipe, spec.file, inputs, secrets)
    performance = Performance(execution, spec.recipe, setting, spec.source)
    try:
        return performance.perform()
    finally:
        performance.mirror.catch_up()
        with suppress(OSError):  # it stays while something is in it
            (execution.executor.home.folder / "work" / execution.id).rmdir()
