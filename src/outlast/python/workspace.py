"""The workspace in Python: `outlast.workspace`, its twin on an event loop, and `run.workspace` inside a run."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outlast.errors import HandoffNotFound, ValueRefused
from outlast.handoffs import find as handoffs
from outlast.handoffs.handoff import label_of
from outlast.home.home import run_row
from outlast.home.place import check_name
from outlast.python.awaited import OnLoop, awaited
from outlast.runs.outputs.saves import kept_by, save_from_command, save_from_run
from outlast.runs.outputs.workspace import link_from_run, pin, record_from_run
from outlast.sessions.session import number
from outlast.store.contract.blobs import Intake
from outlast.values.tokens import counter
from outlast.workspace import artifact as artifacts
from outlast.workspace import checkpoint as checkpoints
from outlast.workspace import link as links
from outlast.workspace import record as records
from outlast.workspace import why as evidence
from outlast.workspace.artifact import Artifact, ArtifactDraft
from outlast.workspace.checkpoint import Checkpoint, CheckpointDiff
from outlast.workspace.content import Given
from outlast.workspace.link import Link, LinkFields
from outlast.workspace.recall import recall as recalling
from outlast.workspace.record import Record, RecordFields, check_kind, drafts, record_many

if TYPE_CHECKING:
    from datetime import datetime

    from outlast.home.caller import Caller
    from outlast.runs.attempt import Frame
    from outlast.runs.execution import Execution
    from outlast.store.contract import RunRow
    from outlast.workspace.recall.pack import ContextPack
    from outlast.workspace.recall.recall import Embed
    from outlast.workspace.why import Why


class Workspace:
    """What outlives a run: artifacts by ref, named boundaries of tasks, records, and links between all of them."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

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
        who = self._who(actor)
        given = artifacts.draft(self._scope(scope), name, content, media_type, summary, tags, source, who)
        return artifacts.save(self._caller, given, content, operation_id)

    def _save_from_command(self, told: str, name: str, content: Given, **said: Any) -> Artifact | None:
        """Save content as a step's command does that was told this: seen with the step's receipt, or never.

        None when that step is of another home. Raises Refused, LeaseLost, NameInvalid, ValueRefused, OperationConflict.
        """

        def given(run: RunRow) -> ArtifactDraft:
            actor = run.actor if said["actor"] is None else check_name("actor", said["actor"])
            kind, summary, tags, source = said["media_type"], said["summary"], said["tags"], said["source"]
            return artifacts.draft(run.scope, name, content, kind, summary, tags, source, actor)

        return save_from_command(self._caller, told, given, content, said["operation_id"])

    def _receive(self, name: str = "content", **said: Any) -> Intake:
        """Content that arrives piece by piece, to be saved when all of it is there; close it in any case.

        What is said of it is checked before the first piece. Raises NameInvalid, ValueRefused.
        """
        told = {"media_type": None, "summary": "", "tags": (), "source": None} | said
        scope = self._scope(told.pop("scope", None))
        kind, summary, tags, source = told["media_type"], told["summary"], told["tags"], told["source"]
        artifacts.draft(scope, name, b"", kind, summary, tags, source, self._who(None))
        return self._caller.home.blobs.intake()

    def get(self, ref: str, *, scope: str | None = None) -> Artifact:
        """An artifact by its ref; by its name, then the newest version; or by `name@2`. Raises ArtifactNotFound."""
        return artifacts.get(self._caller.home, self._scope(scope), ref)

    def versions(self, name: str, *, limit: int = 1000, scope: str | None = None) -> list[Artifact]:
        """The versions of a name, the newest first. Raises ArtifactNotFound."""
        return artifacts.versions(self._caller.home, self._scope(scope), name, number("limit", limit))

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
        given = checkpoints.draft(self._scope(scope), task, name, summary, refs, self._who(actor))
        return pin(self._caller.home, given, operation_id)

    def get_checkpoint(self, ref: str) -> Checkpoint:
        """A checkpoint by its ref or id, or a unique prefix. Raises CheckpointNotFound, AmbiguousPrefix."""
        return checkpoints.get(self._caller.home, ref)

    def checkpoints(
        self,
        *,
        task: str | None = None,
        run: str | None = None,
        limit: int = 100,
        before: str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Checkpoint]:
        """The checkpoints of a task or a run, or of all tasks, the newest first; older than the id `before`."""
        if task is not None and run is not None:
            raise ValueRefused("run", "a task was named as well", "name one of them")
        count = number("limit", limit)
        if run is not None:
            return checkpoints.of_run(self._caller.home, run, count, before)
        if task is not None:
            return checkpoints.of_task(self._caller.home, self._scope(scope), check_name("task", task), count, before)
        return checkpoints.newest(self._caller.home, self._scope(scope), count, before)

    def diff(self, before: str, after: str) -> CheckpointDiff:
        """What changed between two checkpoints: keys of the state, and refs. Raises CheckpointNotFound."""
        return checkpoints.diff(checkpoints.get(self._caller.home, before), checkpoints.get(self._caller.home, after))

    def list(
        self,
        *,
        prefix: str = "",
        tag: str | None = None,
        run: str | None = None,
        limit: int = 50,
        before: str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Artifact]:
        """Artifacts, those saved last first: of each name the newest version; of a run, all versions that it saved.

        `before`, the ref of the last one, gives those that come after it.
        """
        count, named = number("limit", limit), self._scope(scope)
        return artifacts.listed(self._caller.home, named, prefix=prefix, tag=tag, run=run, limit=count, before=before)

    # -- records and links -----------------------------------------------------------------------

    def record(
        self,
        kind: str,
        text: str,
        refs: Iterable[str] = (),
        *,
        tags: Iterable[str] = (),
        pinned: bool = False,
        task: str | None = None,
        at: datetime | None = None,
        source: str | None = None,
        redact: bool = False,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Record:
        """Keep an `observation`, a `decision`, `evidence` or a `note` about what the refs name, durable on return.

        It never changes. `pinned`: recall never leaves it out. `at` is when it was so, if not now. A secret in it is
        refused by path, or masked with `redact`. Raises ValueRefused, SecretFound, OperationConflict, and NotFound when
        a ref names nothing.
        """
        said = records.RecordFields(kind, text, refs, tags, pinned, task, at, source, redact)
        given = records.draft(self._caller.home, self._scope(scope), said, self._who(actor))
        return records.record(self._caller.home, given, operation_id)

    def record_many(
        self,
        records: Sequence[Mapping[str, Any]],
        *,
        redact: bool = False,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> builtins.list[Record]:
        """Keep up to 1,000 records in one transaction, durable on return: all of them, or none.

        Each is `{"kind": …, "text": …}`, and may have `refs`, `tags`, `pinned`, `task`, `at` and `source`, as `record`
        takes them. Raises ValueRefused and SecretFound with the place (`records[3].text`), OperationConflict, and
        NotFound when a ref names nothing.
        """
        given = drafts(self._caller.home, self._scope(scope), records, self._who(actor), redact=redact)
        return record_many(self._caller.home, given, operation_id) if given else []

    def get_record(self, ref: str) -> Record:
        """A record by its ref or id, or a unique prefix. Raises RecordNotFound, AmbiguousPrefix."""
        return records.get(self._caller.home, ref)

    def records(
        self,
        *,
        kind: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        ref: str | None = None,
        pinned: bool | None = None,
        limit: int = 50,
        before: str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Record]:
        """Records, the newest first: of a kind, a task, with a tag, about a ref, pinned or not; older than `before`."""
        wanted = records.RecordQuery(check_kind(kind) if kind is not None else None, task, tag, ref, pinned)
        return records.listed(self._caller.home, self._scope(scope), wanted, number("limit", limit), before)

    def pin(
        self, ref: str, *, pinned: bool = True, operation_id: str | None = None, actor: str | None = None
    ) -> Record:
        """Pin a record, so that recall never leaves it out, or take the pin away. Raises RecordNotFound."""
        return records.pin(self._caller.home, ref, pinned, self._who(actor), operation_id)

    def link(
        self,
        source: str,
        relation: str,
        target: str,
        note: str = "",
        *,
        redact: bool = False,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Link:
        """Say that `source` `supports`, `contradicts`, is `derived_from`, `supersedes` or was `produced_by` `target`.

        Ends are refs of any kind, of this or another scope. The same link again is the first one (`replayed`), with its
        note as it was. Raises ValueRefused, SecretFound, OperationConflict, and NotFound for an end that does not
        exist.
        """
        said = links.LinkFields(source, relation, target, note, redact)
        given = links.draft(self._caller.home, self._scope(scope), said, self._who(actor))
        return links.link(self._caller.home, given, operation_id)

    def links(self, ref: str, *, scope: str | None = None) -> builtins.list[Link]:
        """Every link from or to a ref, the oldest first. Raises NotFound."""
        return links.of_ref(self._caller.home, ref, self._scope(scope))

    def why(self, ref: str, *, depth: int = 20, scope: str | None = None) -> Why:
        """What a ref rests on, what contradicts or supersedes any of that, and how each part of it stands.

        `print(why)` shows it as a tree. Nothing is cut without being counted. Raises NotFound, ValueRefused.
        """
        return evidence.why(self._caller.home, ref, self._scope(scope), depth)

    # -- recall ----------------------------------------------------------------------------------

    def recall(
        self,
        goal: str,
        budget: int = 2000,
        *,
        kinds: Iterable[str] | None = None,
        task: str | None = None,
        limit: int | None = None,
        tokens_of: Callable[[str], Any] | str | None = None,
        embed: Embed | None = None,
        scope: str | None = None,
    ) -> ContextPack:
        """What of the scope matters for a goal, within so many tokens: `print(pack.prompt())`.

        Pinned records, and the musts of `task`, are always there. `kinds` are some of `observation`, `decision`,
        `evidence`, `note`, `artifact`, `checkpoint`. `tokens_of` gives the tokens of a text or their number, as a
        function or `MODULE:FUNCTION`; without it OUTLAST_TOKENIZER does, else they are estimated. `embed` gives a
        vector for each text. Raises BudgetTooSmall, ValueRefused.
        """
        most = None if limit is None else number("limit", limit)
        asked = recalling.wanted(goal, self._scope(scope), number("budget", budget), kinds, task, most)
        musts = self._musts(asked.scope, asked.task) if asked.task is not None else []
        count = None if tokens_of is None else counter(tokens_of)
        return recalling.recall(self._caller.home, asked, musts, count, embed)

    def _musts(self, scope: str, task: str) -> builtins.list[recalling.Must]:
        """What the open handoff of a task asks for."""
        try:
            handoff = handoffs.get(self._caller.home, handoffs.HandoffQuery(scope, anchor=f"task:{task}"))
        except HandoffNotFound:
            return []
        said = [f"{name.replace('_', ' ')}: {label_of(form)}" for name, form in handoff.musts]
        return [recalling.Must(f"handoff:{handoff.id}", text, handoff.stored_at, handoff.actor) for text in said]

    def _who(self, actor: str | None) -> str:
        return self._caller.actor_named(actor)

    def _scope(self, scope: str | None) -> str:
        return self._caller.scope_named(scope)


class AsyncWorkspace(OnLoop[Workspace]):
    """The same on an event loop: everything is awaited."""

    save = awaited(Workspace.save)
    get = awaited(Workspace.get)
    versions = awaited(Workspace.versions)
    checkpoint = awaited(Workspace.checkpoint)
    get_checkpoint = awaited(Workspace.get_checkpoint)
    checkpoints = awaited(Workspace.checkpoints)
    diff = awaited(Workspace.diff)
    list = awaited(Workspace.list)
    record = awaited(Workspace.record)
    record_many = awaited(Workspace.record_many)
    get_record = awaited(Workspace.get_record)
    records = awaited(Workspace.records)
    pin = awaited(Workspace.pin)
    link = awaited(Workspace.link)
    links = awaited(Workspace.links)
    why = awaited(Workspace.why)
    recall = awaited(Workspace.recall)


class RunWorkspace:
    """The workspace as a run sees it: what it saves, records and links says which run and step it is from.

    In the body each such call has an identity: on replay it gives its first answer and writes nothing. In a step it
    belongs to the step: everybody sees it with the step's receipt, and nobody if the attempt fails.
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
        """Save content under a name, as `outlast.workspace.save` does. Raises NameInvalid, ValueRefused."""

        def given(run: RunRow) -> ArtifactDraft:
            return artifacts.draft(run.scope, name, content, media_type, summary, tags, source, run.actor)

        return save_from_run(self._execution, self._frame(), given, content)

    def get(self, ref: str) -> Artifact:
        """An artifact by its ref or its name; in a step also what that step saved. Raises ArtifactNotFound.

        By its name it is the newest version now, which on replay may be another one: a body keeps refs.
        """
        attempt = self._frame().attempt
        home = self._execution.executor.home
        scope = run_row(home, self._execution.id).scope
        return artifacts.get(home, scope, ref, kept_by(attempt).artifacts)

    def record(
        self,
        kind: str,
        text: str,
        refs: Iterable[str] = (),
        *,
        tags: Iterable[str] = (),
        pinned: bool = False,
        task: str | None = None,
        at: datetime | None = None,
        source: str | None = None,
        redact: bool = False,
    ) -> Record:
        """Keep a record as `outlast.workspace.record` does, of this run's task unless another is named.

        In the body it is known by its kind and its text: the same one again on replay is the first one.
        """
        said = RecordFields(kind, text, refs, tags, pinned, task, at, source, redact)
        return record_from_run(self._execution, self._frame(), said)

    def get_record(self, ref: str) -> Record:
        """A record by its ref; in a step also one that the step made. Raises RecordNotFound."""
        return records.get(self._execution.executor.home, ref, kept_by(self._frame().attempt))

    def link(self, source: str, relation: str, target: str, note: str = "", *, redact: bool = False) -> Link:
        """Link two refs as `outlast.workspace.link` does; in a step also what the step made."""
        return link_from_run(self._execution, self._frame(), LinkFields(source, relation, target, note, redact))

    def recall(
        self,
        goal: str,
        budget: int = 2000,
        *,
        kinds: Iterable[str] | None = None,
        task: str | None = None,
        limit: int | None = None,
        tokens_of: Callable[[str], Any] | str | None = None,
        embed: Embed | None = None,
    ) -> ContextPack:
        """What of the run's scope matters for a goal, as `outlast.workspace.recall` says.

        It is what matters now: on replay it may be other things. A body that must get the same again asks in a step.
        """
        caller = self._execution.executor.caller
        scope = run_row(caller.home, self._execution.id).scope
        return Workspace(caller).recall(
            goal, budget, kinds=kinds, task=task, limit=limit, tokens_of=tokens_of, embed=embed, scope=scope
        )
