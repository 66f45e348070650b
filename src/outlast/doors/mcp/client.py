"""What a tool works with: the home as the caller may see it, and what belongs to one connection."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import UNSET, Struct

from outlast.doors.mcp.values import handoff_uri, run_uri, takes_of
from outlast.errors import Forbidden, TenantNotFound
from outlast.operations.operation import Declared, Operation, fields_of
from outlast.operations.table import OPERATIONS
from outlast.python.door import home_name, show_claims, whose

if TYPE_CHECKING:
    from outlast.operations.answers import Recovered
    from outlast.python.outlast import Outlast
    from outlast.python.project import Project
    from outlast.python.tasks import TaskSession

FORMS = {"acceptance_checks", "must_change", "must_remove", "must_keep", "rollback"}  # may name files
Sessions = dict[tuple[str, str], "TaskSession"]


class ToolAnswer(NamedTuple):
    """What a tool gives: text for a model, the verdict first; its answer; and where all of it can be read."""

    text: str
    value: Any
    whole: str = ""


class McpClient(Struct, frozen=True):
    """Who calls tools, and what he may do. `sessions` is kept where all calls are of one worker, as over stdio."""

    outlast: Outlast
    sessions: Sessions | None = None
    project: Project | None = None  # whose files a path means; None: no path means any
    approves: bool = True  # whether who calls may decide in a person's place
    by_person: bool = False  # a person was asked, and this is what they decided

    @property
    def is_remote(self) -> bool:
        """Whether the home is a server's: there the key says who acts."""
        return bool(self.outlast._url)

    @property
    def reach(self) -> tuple[str, ...]:
        """The options by which a command finds this home; none where the caller may be on another machine."""
        if self.is_remote:
            return ("--home", self.outlast._url)
        if self.sessions is None:
            return ()
        tenant = whose(self.outlast).tenant
        return ("--home", home_name(self.outlast), *(() if tenant == "default" else ("--tenant", tenant)))

    def show_claim(self, claim_id: str) -> None:
        """Show a claim for what this call does."""
        show_claims(self.outlast, [claim_id])

    def deciding(self) -> Outlast:
        """The home in the name of who decides: a person who was asked is not the model that called."""
        if not self.by_person or self.is_remote:
            return self.outlast
        return self.outlast._acting(actor=f"user of {whose(self.outlast).actor}")

    def check_whose(self, asked: Any) -> None:
        """Tenant and actor may be named, and are only ever the caller's own. Raises TenantNotFound, Forbidden."""
        tenant, _, actor = whose(self.outlast)
        if asked.tenant_id not in (None, tenant):
            raise TenantNotFound(asked.tenant_id)
        if asked.actor not in (None, actor):
            raise Forbidden(f"you act as {actor}, and the call names another actor", "leave the actor out")

    def given(self, asked: Any, *without: str) -> dict[str, Any]:
        """The arguments of a call, what it names in files checked: all of the project. Raises HandoffInvalid."""
        said = {name: value for name, value in fields_of(asked).items() if value is not UNSET}
        for name in ("tenant_id", "actor", *(("scope",) if asked.scope is None else ()), *without):
            said.pop(name, None)
        if self.project is not None:
            if said.get("repo_root") is not None:
                said["repo_root"] = self.project.folder(said["repo_root"])
            for field in FORMS & {*said}:
                self.project.check_forms(field, said[field], said.get("repo_root") or "")
        return said

    def perform(self, tool: Tool, asked: Any, *without: str) -> Any:
        """The one call of the public object that the tool's operation names, in the scope that is named."""
        given, outlast = self.given(asked, *without, *tool.of_door), self.deciding() if tool.gated else self.outlast
        if "scope" in given and not self._takes_scope(tool.operation):
            outlast = self.in_scope(given.pop("scope"))
        return tool.operation.perform(outlast, given)

    def in_scope(self, scope: str | None) -> Outlast:
        """The home in another scope. Raises Forbidden at a server, whose connection has one."""
        if scope in (None, whose(self.outlast).scope):
            return self.outlast
        if self.is_remote or "_start" in vars(self.outlast):
            raise Forbidden("a connection to a server has one scope for this", "say it by the header Outlast-Scope")
        return self.outlast._acting(scope=scope)

    def _takes_scope(self, operation: Operation) -> bool:
        return "scope" in inspect.signature(attrgetter(operation.calls)(self.outlast)).parameters

    def session(self, task: str, opened: bool = False, **who: Any) -> TaskSession:
        """The caller's session at a task: over stdio the one it had before, with what it claimed."""
        who = {name: value for name, value in who.items() if value is not None}
        key = (str(who.get("scope") or ""), task)
        kept = self.sessions.get(key) if self.sessions is not None else None
        if kept is not None and not {"claim_id", "repo_root"} & set(who):
            return kept
        if kept is not None and kept.claim_id is not None:
            who.setdefault("claim_id", kept.claim_id)
        made = self.outlast.tasks.open(task, **who) if opened else self.outlast.tasks.session(task, **who)
        if self.sessions is not None:
            self.sessions[key] = made
        return made


class Tool(Struct, frozen=True):
    """One tool: the operation that it is, what a model is told of it, and how its answer is told."""

    name: str
    title: str
    description: str
    operation: Operation
    takes: type[Any]
    does: Callable[[McpClient, Tool, Any], ToolAnswer]
    of_door: tuple[str, ...] = ()  # arguments that the operation does not have
    repeats: bool = False  # the same call again changes nothing more
    runs: Literal["", "checks", "flows"] = ""  # commands of a handoff, where the files are; or code of a flow

    @property
    def reads(self) -> bool:
        return self.operation.role == "read"

    @property
    def gated(self) -> bool:
        """Whether only a person may do it, or who may decide in a person's place."""
        return self.operation.role == "approve"

    def runs_code(self, *, files: bool) -> bool:
        """Whether a call may change anything anywhere: it can run commands or flows. `files`: those are here."""
        return self.runs == "flows" or (self.runs == "checks" and files)


def made_from(
    operation: str,
    title: str,
    description: str,
    does: Callable[[McpClient, Tool, Any], ToolAnswer],
    *,
    name: str = "",
    more: type[Declared] | None = None,
    without: tuple[str, ...] = (),
    **how: Any,
) -> Tool:
    """The tool of an operation, by the same name unless it has another; `more` are arguments of its own."""
    found = OPERATIONS[operation]
    own = more.__struct_fields__ if more is not None else ()
    return Tool(name or operation, title, description, found, takes_of(found, more, without), does, own, **how)


def uri_of(got: Recovered) -> str:
    """Where all of what was recovered can be read."""
    if got.handoff.revision == 0 and got.run is not None:
        return run_uri(got.run.run_id)
    return handoff_uri(got.handoff.scope, got.handoff.anchor)
