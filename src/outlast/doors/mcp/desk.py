"""What a tool works with: the home as the caller may see it, and what belongs to one connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from outlast.python.homes import GATES

if TYPE_CHECKING:
    from outlast.doors.mcp.arguments import Arguments
    from outlast.handoffs.recovered import Recovered
    from outlast.python.outlast import Outlast
    from outlast.python.project import Project
    from outlast.python.tasks import TaskSession

FORMS = {"acceptance_checks", "must_change", "must_remove", "must_keep", "rollback"}  # may name files
Sessions = dict[tuple[str, str], "TaskSession"]


class ToolAnswer(NamedTuple):
    """What a tool gives: text for a model, the verdict first; the same as data; and where all of it can be read."""

    text: str
    value: dict[str, Any]
    whole: str = ""


@dataclass(frozen=True)
class Desk:
    """One caller's place. `sessions` is kept where all calls are of one worker, as over stdio."""

    outlast: Outlast
    sessions: Sessions | None = None
    project: Project | None = None  # whose files a path means; None: no path means any
    approves: bool = True  # whether who calls may decide in a person's place
    by_person: bool = False  # a person was asked, and this is what they decided

    @property
    def is_remote(self) -> bool:
        """Whether the home is a server's: there the key says who acts."""
        return hasattr(self.outlast, "_line")

    @property
    def reach(self) -> tuple[str, ...]:
        """The options by which a command finds this home; none where the caller may be on another machine."""
        if self.is_remote:
            return ("--home", str(self.outlast._line.url))  # type: ignore[attr-defined]
        if self.sessions is None:
            return ()
        tenant = self.outlast._executor.home.tenant
        return ("--home", str(self.outlast.home), *(() if tenant == "default" else ("--tenant", tenant)))

    def show_claim(self, claim_id: str) -> None:
        """Show a claim for what this call does."""
        if self.is_remote:
            self.outlast._line.take(claim_id)  # type: ignore[attr-defined]
        else:
            self.outlast._executor.caller.tokens.add(claim_id)

    def deciding(self) -> Outlast:
        """The home in the name of who decides: a person who was asked is not the model that called."""
        if not self.by_person or self.is_remote:
            return self.outlast
        return self.outlast._acting(actor=f"user of {self.outlast._executor.caller.actor}")

    def given(self, asked: Arguments, *without: str) -> dict[str, Any]:
        """The arguments of a call, what it names in files checked: all of the project. Raises HandoffInvalid."""
        said = asked.given(*without)
        if self.project is not None:
            if "repo_root" in said:
                said["repo_root"] = self.project.folder(said["repo_root"])
            for field in FORMS & {*said}:
                self.project.check_forms(field, said[field], said.get("repo_root", ""))
        return said

    def session(self, task: str, opened: bool = False, **who: Any) -> TaskSession:
        """The caller's session at a task: over stdio the one it had before, with what it claimed."""
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


@dataclass(frozen=True)
class Tool:
    """One tool: what a model is told of it, what it takes, does and gives."""

    name: str
    title: str
    role: str  # of a key that may call it: read, write, approve
    description: str
    takes: type[Arguments]
    does: Callable[[Desk, Any], ToolAnswer]
    gives: dict[str, Any] = field(repr=False)  # the JSON schema of the result
    reads: bool = False  # it changes nothing
    repeats: bool = False  # the same call again changes nothing more
    writes: tuple[str, ...] = ()  # arguments without which it only reads
    gates: tuple[str, ...] = GATES  # arguments that get past a gate
    runs: Literal["", "checks", "flows"] = ""  # commands of a handoff, where the files are; or code of a flow

    def runs_code(self, *, files: bool) -> bool:
        """Whether a call may change anything anywhere: it can run commands or flows. `files`: those are here."""
        return self.runs == "flows" or (self.runs == "checks" and files)

    def role_for(self, given: Arguments) -> str:
        """The role that this call needs."""
        if any(given.given().get(name) for name in self.gates):
            return "approve"
        only_reads = self.writes and not any(given.given().get(name) for name in self.writes)
        return "read" if only_reads else self.role


def uri_of(got: Recovered) -> str:
    """Where all of what was recovered can be read."""
    from outlast.doors.mcp.values import handoff_uri, run_uri

    if got.handoff.revision == 0 and got.run is not None:
        return run_uri(got.run.run_id)
    return handoff_uri(got.handoff.scope, got.handoff.anchor)
