"""The flows that others may start here by name: those of the modules and files that were given, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.errors import FlowInvalid, FlowNotFound, InputsInvalid, NoFlows
from outlast.flows.loading import here, is_recipe, lasting, load_module
from outlast.home.place import project_of
from outlast.python.decorators import Flow, FlowFile, flow_file

if TYPE_CHECKING:
    from outlast.python.shared import Shared
    from outlast.runs.run import RunRecord

Served = Flow[..., Any] | FlowFile


class Flows:
    """Flows by their names, and by the sources that runs record."""

    def __init__(self, places: tuple[str, ...], home: Path) -> None:
        self._places = places
        self._project = project_of(home)
        self._by_name: dict[str, Served] = {}
        self._sources: dict[str, Served] = {}
        for place in places:
            for flow in self._of(place):
                self._add(flow)

    def _of(self, place: str) -> Iterator[Served]:
        """Every flow of a module, a `file.py` or a `flow.yaml`. Raises FlowNotFound, RecipeInvalid."""
        folders = [here(), *([self._project] if self._project else [])]
        if is_recipe(place):
            yield flow_file(place, *folders)
            return
        found = [each for each in vars(load_module(place, *folders)).values() if isinstance(each, Flow)]
        if not found:
            raise FlowNotFound(place, "it has no flows (decorate functions with @flow)")
        yield from {id(each): each for each in found}.values()

    def _add(self, flow: Served) -> None:
        source, before = lasting(flow.spec.source, self._project), self._by_name.get(flow.spec.name)
        if before is not None and lasting(before.spec.source, self._project) != source:
            why = f"{before.spec.source} and {flow.spec.source} have the same name"
            raise FlowInvalid(flow.spec.name, f"{why}; rename one: @flow(name=…)")
        self._by_name[flow.spec.name] = self._sources[source] = flow

    def named(self, name: str) -> Served:
        """A flow by its name, or by its source. Raises NoFlows."""
        found = self._by_name.get(name) or self._sources.get(name)
        if found is None:
            raise NoFlows(name, self._given())
        return found

    def refuse_unserved(self, outlast: Shared, run: RunRecord, name: str | None = None) -> None:
        """Raises NoFlows for a run whose flow this server was not given, FlowElsewhere where somebody must name it."""
        if name is not None:
            self.named(name)
        elif not outlast._is_of_given(run):
            raise NoFlows(run.source, self._given())

    @property
    def all(self) -> list[Served]:
        return list(self._sources.values())

    @property
    def names(self) -> list[str]:
        return sorted(self._by_name)

    def _given(self) -> str:
        return f"the flows {', '.join(self.names)}" if self._by_name else "no flows"


def inputs_of(flow: Served, given: dict[str, Any]) -> dict[str, Any]:
    """The inputs as the flow's annotations type them. Raises InputsInvalid."""
    if isinstance(flow, FlowFile):
        return flow.inputs(given)
    flow.spec.bind((), given)
    try:
        return flow.spec.typed(given)
    except InputsInvalid as error:
        raise InputsInvalid(flow.spec.name, str(error.__cause__), str(error.signature)) from error
