"""Errors as a model is told them: `code: detail; advice`, and the same four fields as data."""

from __future__ import annotations

from typing import Any, NamedTuple

from outlast.errors import (
    AlreadyAnswered,
    AmbiguousPrefix,
    ArtifactNotFound,
    ClaimLost,
    Contested,
    Finished,
    HandoffAmbiguous,
    HandoffClaimed,
    HandoffContested,
    HandoffNotFound,
    HandoffWeak,
    HomeNotFound,
    InterruptNotFound,
    NotSettled,
    OutlastError,
    RevisionConflict,
    RunFinished,
    RunHeld,
    RunNotFound,
    SecretFound,
    TaskNotFound,
)
from outlast.values.text import shorten

LONGEST = 4_000  # characters of one field of an error

# Where an error's own advice speaks of commands or of Python, this says the same for who calls tools.
ADVICE: dict[type[OutlastError], str] = {
    AlreadyAnswered: "look at run_show for {run}; if it has not gone on since, call run_resume",
    AmbiguousPrefix: "give more of the id",
    ArtifactNotFound: "list the resources to see what there is, or call workspace_recall with a goal",
    ClaimLost: "stop changing anything: somebody else continues it. Recover it again to see how it stands",
    Contested: "call run_show to see what contests it; mend that, or ask the user and then call again with "
    "accept=[CODE or CODE:SUBJECT] and why",
    Finished: "its work is done. include_finished=true reads it all the same; storing under the anchor opens it again",
    HandoffAmbiguous: "call again with the anchor of one of them",
    HandoffClaimed: "wait for it, or give its claim_id if it is yours. Only if the user says so: take=true with why",
    HandoffContested: "mend what is named, or ask the user and then call again with accept=[CODE:SUBJECT] and why",
    HandoffNotFound: "check anchor and scope; if nothing was handed over yet, begin the work and store one later",
    HomeNotFound: "nothing was recorded for this project yet: begin the work. handoff_store, task_pause, "
    "workspace_save, workspace_record and checkpoint_record make a home",
    HandoffWeak: "say what is missing, or store it with strict=false",
    InterruptNotFound: "call interrupt_list for those that are open",
    NotSettled: "mend what is named; name musts in prose word for word in acknowledged; or, if the user says that "
    "it counts all the same, give override with the reason. To give it back undone: outcome=released",
    RevisionConflict: "recover it, take what is new into account, and store again with expected_revision={found}",
    RunFinished: "there is nothing to resume; call run_show for its result",
    RunHeld: "somebody runs or claimed it: look at it with run_show, and do not resume it meanwhile",
    RunNotFound: "call run_list for the runs there are",
    SecretFound: "take it out, or call again with redact=true to have it masked",
    TaskNotFound: "check the id and the scope; task_pause opens a task that is new",
}


class ToolProblem(NamedTuple):
    """What went wrong, and what to do about it."""

    code: str
    detail: str
    advice: str
    path: str | None

    @property
    def text(self) -> str:
        return f"{self.code}: {self.detail}; {self.advice}" if self.advice else f"{self.code}: {self.detail}"

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def problem_of(error: OutlastError) -> ToolProblem:
    """An error of ours, in the words of the tools."""
    told = ADVICE.get(type(error))
    advice = told.format_map(error.facts) if told else error.what_next
    path = error.facts.get("path")
    shown = None if path is None else shorten(str(path), LONGEST)
    return ToolProblem(error.code, shorten(error.detail, LONGEST), shorten(advice, LONGEST), shown)


def unforeseen(error: BaseException) -> ToolProblem:
    """What nobody foresaw. The log has all of it; a model is told its kind only."""
    detail = f"the call failed in a way that nobody foresaw ({type(error).__name__})"
    return ToolProblem("internal", detail, "try it again; if it stays, tell the user to look at the server's log", None)
