"""Errors of what is kept beside runs: handoffs, artifacts, checkpoints, records, sessions, tasks."""

from __future__ import annotations

from typing import Any

from outlast.errors import Conflict, Invalid, NotFound, Refused, fact
from outlast.errors.runs import AGAIN


class HandoffNotFound(NotFound):
    """Raised when nothing was stored under the anchor, id, file or branch that was asked for."""

    asked: str
    nearest: str
    says = "no handoff for {asked}{nearest}"
    advice = "see `outlast handoff list`"

    def __init__(self, asked: str, nearest: str = "") -> None:
        super().__init__(asked=asked, nearest=f"; nearest: {nearest}" if nearest else "")


class HandoffAmbiguous(Conflict):
    """Raised when a file, branch or id prefix means more than one handoff: all of them are named."""

    asked: str
    anchors: str
    says = "{asked} means more than one handoff: {anchors}"
    advice = "recover one of them by its anchor: `outlast handoff recover ANCHOR`"


class HandoffExists(Conflict):
    """Raised when a bundle is imported under an anchor that has another history here."""

    anchor: str
    why: str
    says = "{anchor!r} has a history of its own here: {why}"
    advice = "import the file into another home (--home DIR) to read it, and store what counts from it under {anchor!r}"


class Finished(Conflict):
    """Raised when a handoff is recovered, claimed or settled after it was completed; and for a named task."""

    anchor: str
    by: str
    at: str
    then: str
    says = "the work under {anchor!r} was completed by {by} on {at}"
    advice = "{then}"

    def __init__(self, anchor: str, by: str, at: str, then: str = "") -> None:
        read = "read it with include_finished=True (--include-finished); storing under the anchor opens it again"
        super().__init__(anchor=anchor, by=by, at=at, then=then or read)

    @classmethod
    def task(cls, task: str, run: str, at: str, call: str = "") -> Finished:
        """Of a named task: its run succeeded; a call that has no receipt there is not made."""
        before = f"{call} has no receipt there and is not done; " if call else ""
        then = f"to have it happen once more: {AGAIN}, `--again` on the command line"
        return cls(task, f"run {run}", at, before + then)


class HandoffClaimed(Conflict):
    """Raised when somebody else holds the claim on a handoff."""

    anchor: str
    holder: str
    until: str
    says = "{anchor!r} is claimed by {holder} until {until}"
    advice = (
        "wait for it, show it if it is yours (claim_id=ID, --claim-id ID), or take it over: take=True, why=… (--take)"
    )


class ClaimLost(Conflict):
    """Raised when a claim that was shown is over: somebody else took it, or it was settled."""

    claim: str
    anchor: str
    why: str
    says = "claim {claim} on {anchor!r} is over: {why}"
    advice = "recover the handoff again to see how it stands; what you changed in files is not undone"


class RevisionConflict(Conflict):
    """Raised when a handoff is stored on condition of a revision that is not the newest."""

    anchor: str
    expected: int
    found: int
    says = "{anchor!r} is at revision {found}, not {expected}; nothing was stored"
    advice = "recover it, take what is new into account, and store again with expected_revision={found}"


class HandoffContested(Refused):
    """Raised when a claim is contested by facts that nobody has accepted."""

    anchor: str
    reasons: str
    says = "{anchor!r} is contested: {reasons}"
    advice = "mend what is named, or accept it as found: accept=[CODE or CODE:SUBJECT], why=… (--accept, --why)"


class HandoffWeak(Refused):
    """Raised when a weak handoff is stored with strict=True."""

    score: int
    findings: str
    says = "the handoff is weak ({score} of 100): {findings}"
    advice = "say what is missing, or store it without strict; `outlast handoff lint` has better wordings"


class NotSettled(Refused):
    """Raised when work is called completed while a check fails, was not run, or a must is unacknowledged."""

    anchor: str
    missing: str
    says = "{anchor!r} cannot be completed: {missing}"
    advice = (
        "mend it, acknowledge the musts (acknowledged=[…]), or override with a reason: override=WHY (--override WHY)"
    )


class NotApplicable(Refused):
    """Raised when the work of a handoff cannot be brought into this clone: nothing was touched."""

    anchor: str
    why: str
    says = "the work of {anchor!r} cannot be brought here: {why}"
    advice = "see `outlast handoff diff {anchor!q}`; commit or stash what is in the way, then apply again"


class OtherPlace(Refused):
    """Raised instead of writing where nobody said: this is not known to be the repository of the handoff."""

    anchor: str
    place: str
    here: str
    says = "{here} is not known to be {place}, which {anchor!r} is about; nothing was written"
    advice = "go there, or name the folder that is meant: repo_root=DIR (--repo DIR)"


class RunsOnHost(Refused):
    """Raised by a server that is asked to look at files or run checks: only a host does."""

    what: str
    remedy: str
    says = "a server does not {what}"
    advice = "{remedy}"


class LookFirst(Refused):
    """Raised by a server to a client that can look at files: what it needs to know of them before it can go on.

    `what` is `files` or `checks` of `handoff`, or for one that is being stored `binding` or `checks`.
    """

    what: str
    anchor: str
    handoff: dict[str, Any] | None = fact(default=None)
    says = "the {what} of {anchor!r} were not looked at as they are now"
    advice = "look, and send the same again with what was found (`observed`, `binding`, `ran`)"


class ForeignCommands(Refused):
    """Raised before commands run that somebody else stored, and that nobody here has agreed to. None was run."""

    anchor: str
    why: str
    commands: str
    digest: str
    command: str
    says = "the commands of {anchor!r} are not run: {why}\n{commands}\n  digest {digest}"
    advice = "read them; to run exactly these, a person says so: {command}"


class HandoffInvalid(Invalid):
    """Raised when a field of a handoff cannot be used: nothing was written."""

    path: str
    why: str
    remedy: str
    says = "{path}: {why}"
    advice = "{remedy}"


class ArtifactNotFound(NotFound):
    """Raised when no artifact has this ref or name, or nobody may see it yet."""

    ref: str
    scope: str
    says = "no artifact {ref!r} in scope {scope!r}"
    advice = "see `outlast workspace list`; a ref is `artifact:SCOPE/NAME@VERSION`"


class ArtifactRemoved(NotFound):
    """Raised when the version of an artifact that was named has been removed by `gc`."""

    ref: str
    by: str
    at: str
    says = "{ref} was removed by {by} on {at}"
    advice = "newer versions of it are there: `outlast workspace versions NAME`"


class CheckpointNotFound(NotFound):
    """Raised when no checkpoint has this id or id prefix."""

    checkpoint: str
    says = "no checkpoint {checkpoint!r}"
    advice = "see `outlast workspace checkpoints`"


class RecordNotFound(NotFound):
    """Raised when no record has this ref, id or id prefix, or nobody may see it yet."""

    record: str
    says = "no record {record!r}"
    advice = "see `outlast workspace records`; a ref is `record:ID`"


class SessionNotFound(NotFound):
    """Raised when a scope has no session of this id."""

    session: str
    scope: str
    says = "no session {session!r} in scope {scope!r}"
    advice = "see `outlast session list`; the first message, or `outlast.sessions.open`, makes one"


class TaskNotFound(NotFound):
    """Raised when nothing is known of a task: nobody opened it, and it has neither runs nor a handoff."""

    task: str
    scope: str
    says = "no task {task!r} in scope {scope!r}"
    advice = "open it: outlast.tasks.open(…), `outlast task open TASK`; `outlast task list` has those that were"


class SessionExists(Conflict):
    """Raised when a session is opened with other meta than it was made with."""

    session: str
    meta: str
    says = "session {session!r} was made with other meta: {meta}"
    advice = "open it without meta, or choose another id"


class MemoConflict(Conflict):
    """Raised when a memo is set on condition of a version that is not the newest."""

    session: str
    expected: int
    found: int
    says = "the memo of session {session!r} is at version {found}, not {expected}; nothing was written"
    advice = "read it, take what is new into account, and set it again with expected={found}"


class TaskExists(Conflict):
    """Raised when a task is opened with other meta than it was opened with first."""

    task: str
    meta: str
    says = "task {task!r} was opened with other meta: {meta}"
    advice = "open it without meta, or choose another id; what changes is recorded as an event"


class TaskRefused(Refused):
    """Raised when a task is in no state for what is asked."""

    task: str
    action: str
    why: str
    remedy: str
    says = "cannot {action} task {task!r}: {why}"
    advice = "{remedy}"


class BudgetTooSmall(Invalid):
    """Raised by recall when what must not be left out does not fit into the budget."""

    budget: int
    needed: int
    count: int
    says = "{count} pinned or required items need {needed} tokens, and the budget is {budget}"
    advice = "ask again with budget={needed} (--budget {needed}), or unpin what is no longer needed"
