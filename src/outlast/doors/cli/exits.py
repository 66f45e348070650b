"""Exit codes: one table for errors, one for how a run stands. And advice in the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlast.errors import (
    AlreadyAnswered,
    AmbiguousPrefix,
    CommandFailed,
    Conflict,
    Contested,
    HandoffAmbiguous,
    HandoffClaimed,
    HandoffContested,
    HandoffWeak,
    HomeNotFound,
    InputsConflict,
    InterruptNotFound,
    Invalid,
    NotFound,
    NotSettled,
    OutlastError,
    Refused,
    RepeatsEffects,
    RevisionConflict,
    RunAborted,
    RunHeld,
    RunInterrupted,
    RunWaiting,
    SecretFound,
    StepAmbiguous,
    TaskAborted,
    TaskDeclined,
    Unavailable,
    WorkFailed,
    filled,
)

if TYPE_CHECKING:
    from outlast import Outcome
    from outlast.doors.cli.invocation import Invocation


SUCCEEDED, FAILED, USAGE, WAITING, REFUSED, MISSING, ABORTED = range(7)
INTERRUPTED, BROKEN_PIPE, TERMINATED, HUNG_UP = 130, 141, 143, 129
# The most special class that fits wins.
OF_ERRORS: dict[type[OutlastError], int] = {
    AmbiguousPrefix: USAGE,  # choose one
    StepAmbiguous: USAGE,
    HandoffAmbiguous: USAGE,
    RunWaiting: WAITING,
    RunAborted: ABORTED,
    TaskAborted: ABORTED,
    RunInterrupted: INTERRUPTED,
    NotFound: MISSING,
    Conflict: REFUSED,
    Refused: REFUSED,
    Invalid: USAGE,
    Unavailable: FAILED,
    WorkFailed: FAILED,
}
OF_STATUS = {
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "waiting": WAITING,
    "queued": WAITING,
    "aborted": ABORTED,
    "interrupted": INTERRUPTED,
}
DECISIONS = ("in_doubt", "inputs_changed", "crash_loop", "partial")  # about work that may be done already
MAKE_A_HOME = (
    "these make one: `outlast run`, `import`, `session append`, `workspace save`, `workspace record`, `task open`, "
    "`task pause`, `handoff store`, `handoff import`, `schedule add`, `limit set`, `notify add`, `keys create`, "
    "`work`, `serve`; or name the home with --home or OUTLAST_HOME"
)
# Where an error's own advice speaks of Python, this says the same for the command line.
ADVICE: dict[type[OutlastError], str] = {
    AlreadyAnswered: "see `outlast show {run}`; if it has not gone on since: `outlast resume {run}`",
    Contested: "see `outlast resume {run} --dry-run`; mend what is named, or take it upon you: "
    "`outlast resume {run} --accept CODE[:SUBJECT] --why WHY`",
    InputsConflict: "use the same inputs, another --task, or {flag}",
    TaskAborted: "to have it happen after all: the same command with --again",
    TaskDeclined: "to ask again: the same command with --again",
    RepeatsEffects: "say so if it may happen again: --yes, or --effects NAME,NAME",
    InterruptNotFound: "`outlast inbox` lists the open ones",
    HomeNotFound: MAKE_A_HOME,
    RunHeld: "wait for it: `outlast run … --wait`; or stop that worker (a dead one is taken over at once); if it is a "
    "claim of yours, show it: OUTLAST_CLAIM=ID; or take it over: `outlast resume {run} --take --why WHY`",
    HandoffClaimed: "wait for it; if the claim is yours, show it: --claim-id ID or OUTLAST_CLAIM=ID; "
    "or take it over: `outlast handoff claim --take --why WHY {anchor!q}`",
    HandoffContested: "mend what is named, or take it upon you: the same command with --accept CODE[:SUBJECT] "
    "--why WHY",
    HandoffWeak: "say what is missing, or store it without --strict",
    NotSettled: "mend it, acknowledge musts in prose word for word (--ack TEXT), or say why it counts all the same: "
    "--override WHY",
    RevisionConflict: "recover it, take what is new into account, and store again with --expect {found}",
    SecretFound: "take it out; of a handoff or record it can be masked: --redact",
}
ASKED: list[Invocation] = []  # of the command under way: what went wrong is told with commands on the same home


def exit_code(error: OutlastError) -> int:
    """The exit code of an error: that of its class, or of its family."""
    return next((OF_ERRORS[kind] for kind in type(error).__mro__ if kind in OF_ERRORS), FAILED)


def exit_code_of(outcome: Outcome[Any]) -> int:
    """The exit code of a run as it stands now."""
    if outcome.status == "waiting" and outcome.interrupts:
        undecided = all(wait.type in DECISIONS for wait in outcome.interrupts)
        return REFUSED if undecided else WAITING
    if is_declined(outcome.status, outcome.error):
        return REFUSED
    return OF_STATUS.get(outcome.status, FAILED)


def is_declined(status: str, error: Mapping[str, Any] | None) -> bool:
    """Whether a person said no, and that ended the run."""
    return status == "aborted" and (error or {}).get("type") == "declined"


def trouble(error: Mapping[str, Any]) -> str:
    """What is recorded of a failure; of a command's without the advice, which a screen gives better."""
    if not failed_command(error):
        return str(error.get("message", ""))
    return CommandFailed.says.format_map(error["args"])


def failed_command(error: Mapping[str, Any]) -> list[str]:
    """The step whose command failed; nothing when it is another failure."""
    args = error.get("args")
    ours = error.get("type") == f"{CommandFailed.__module__}:{CommandFailed.__name__}"
    return [str(args["step"])] if ours and isinstance(args, dict) and {"step", "exit", "why"} <= set(args) else []


def told(error: OutlastError) -> str:
    """What happened and what to do next, for someone at a command line."""
    advice = advice_of(error)
    return f"{error.detail}; {advice}" if advice else str(error)


def advice_of(error: OutlastError) -> str:
    """What to do next in the words of the command line; "" where the error's own advice is as good."""
    if (advice := ADVICE.get(type(error))) is None:
        return ""
    keep = "; or keep what was done: --reuse-effects" if error.facts.get("how") == "fork" else ""
    return filled(advice, error.facts) + keep
