"""The workspace in Python: `hold.workspace`, its twin on an event loop, and `run.workspace` inside a run."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.domain import checkpoint as boundaries
from holdfast.domain.artifact import Artifact
from holdfast.domain.checkpoint import Checkpoint, CheckpointDiff
from holdfast.errors import ValueRefused
from holdfast.runtime import artifacts, checkpoints
from holdfast.runtime.artifact_content import Given
from holdfast.runtime.artifacts import Draft
from holdfast.runtime.home import check_name
from holdfast.runtime.session_drafts import number
from holdfast.sdk.awaited import awaited

if TYPE_CHECKING:
    from holdfast.runtime import Runtime
    from holdfast.runtime.context import Frame
    from holdfast.runtime.execution import Execution
    from holdfast.store.contract import RunRow


class Workspace:
    """Content that outlives a run: artifacts by ref, and named boundaries of tasks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def save(
        self,
        name: str,
        content: Given,
        media_type: str | None = None,
        summary: str = "",
        source: str | None = None,
        tags: Iterable[str] = (),
        *,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Artifact:
        """Save content under a name, durable when this returns: a new version, or the newest one if that has the same.

        `content` is bytes, text, a pathlib.Path, a file opened in binary mode or an iterator of bytes; it is streamed,
        shared with equal content and packed where that helps. The same content again is the same version: its summary,
        tags and source stay as they are. Raises NameInvalid, ValueRefused, OperationConflict, DiskFull.
        """
        who = self._runtime.actor if actor is None else check_name("actor", actor)
        given = artifacts.draft(self._scope(scope), name, content, media_type, summary, tags, source, who)
        return artifacts.save(self._runtime, given, content, operation_id)

    def get(self, ref: str, *, scope: str | None = None) -> Artifact:
        """An artifact by its ref; by its name, then the newest version; or by `name@2`. Raises ArtifactNotFound."""
        return artifacts.get(self._runtime, self._scope(scope), ref)

    def versions(self, name: str, *, limit: int = 1000, scope: str | None = None) -> list[Artifact]:
        """The versions of a name, the newest first. Raises ArtifactNotFound."""
        return artifacts.versions(self._runtime, self._scope(scope), name, number("limit", limit))

    def checkpoint(
        self,
        name: str,
        summary: str = "",
        refs: Iterable[str] = (),
        *,
        task: str,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Checkpoint:
        """Pin a boundary of a task: these refs, and the state and position of its newest run, if it has one.

        Raises ArtifactNotFound when a ref names nothing, NameInvalid, ValueRefused, OperationConflict.
        """
        who = self._runtime.actor if actor is None else check_name("actor", actor)
        given = checkpoints.asked(self._scope(scope), task, name, summary, refs, who)
        return checkpoints.pin(self._runtime, given, operation_id)

    def checkpoints(
        self, *, task: str | None = None, run: str | None = None, limit: int = 100, scope: str | None = None
    ) -> builtins.list[Checkpoint]:
        """The checkpoints of a task or a run, or of all tasks, the newest first."""
        if task is not None and run is not None:
            raise ValueRefused("run", "a task was named as well", "name one of them")
        count = number("limit", limit)
        if run is not None:
            return checkpoints.of_run(self._runtime, run, count)
        if task is not None:
            return checkpoints.of_task(self._runtime, self._scope(scope), check_name("task", task), count)
        return checkpoints.newest(self._runtime, self._scope(scope), count)

    def diff(self, before: str, after: str) -> CheckpointDiff:
        """What changed between two checkpoints: keys of the state, and refs. Raises CheckpointNotFound."""
        return boundaries.diff(checkpoints.get(self._runtime, before), checkpoints.get(self._runtime, after))

    def list(
        self,
        *,
        prefix: str = "",
        tag: str | None = None,
        run: str | None = None,
        limit: int = 50,
        scope: str | None = None,
    ) -> builtins.list[Artifact]:
        """Artifacts, those saved last first: of each name the newest version; of a run, all versions that it saved."""
        count = number("limit", limit)
        return artifacts.listed(self._runtime, self._scope(scope), prefix=prefix, tag=tag, run=run, limit=count)

    def _scope(self, scope: str | None) -> str:
        return self._runtime.scope if scope is None else check_name("scope", scope)


class AsyncWorkspace:
    """The same on an event loop: everything is awaited."""

    def __init__(self, runtime: Runtime) -> None:
        self.blocking = Workspace(runtime)

    save = awaited(Workspace.save)
    get = awaited(Workspace.get)
    versions = awaited(Workspace.versions)
    checkpoint = awaited(Workspace.checkpoint)
    checkpoints = awaited(Workspace.checkpoints)
    diff = awaited(Workspace.diff)
    list = awaited(Workspace.list)


class RunWorkspace:
    """The workspace as a run sees it: what it saves says which run and step it is from.

    In the body a save has an identity: on replay it gives its first answer and writes nothing. In a step it belongs to
    the step: everybody sees it with the step's receipt, and nobody if the attempt fails.
    """

    def __init__(self, execution: Execution, frame: Callable[[], Frame]) -> None:
        self._execution, self._frame = execution, frame

    def save(
        self,
        name: str,
        content: Given,
        media_type: str | None = None,
        summary: str = "",
        source: str | None = None,
        tags: Iterable[str] = (),
    ) -> Artifact:
        """Save content under a name, as `hold.workspace.save` does. Raises NameInvalid, ValueRefused."""
        from holdfast.runtime.run_artifacts import save_from_run

        def given(run: RunRow) -> Draft:
            return artifacts.draft(run.scope, name, content, media_type, summary, tags, source, run.actor)

        return save_from_run(self._execution, self._frame(), given, content)

    def get(self, ref: str) -> Artifact:
        """An artifact by its ref or its name; in a step also what that step saved. Raises ArtifactNotFound.

        By its name it is the newest version now, which on replay may be another one: a body keeps refs.
        """
        attempt = self._frame().attempt
        runtime = self._execution.runtime
        scope = runtime.row(self._execution.id).scope
        return artifacts.get(runtime, scope, ref, attempt.saves if attempt is not None else ())
