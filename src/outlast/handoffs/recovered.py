"""What callers are given about a handoff: recovered, listed, settled, remembered. Frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from outlast.handoffs.handoff import Ending, Evidence, Form, Handoff, HandoffClaim
from outlast.ledger.verdict import Reason, Verdict
from outlast.values.frozen import dataclass

Standing = Literal["open", "claimed", "contested", "finished", "expired"]
STANDINGS: tuple[Standing, ...] = ("open", "claimed", "contested", "finished", "expired")


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The unfinished run of a handoff's task, and the command that continues it."""

    run_id: str
    flow: str
    status: str
    command: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A handoff as it was stored, and how far it may be trusted here and now."""

    verdict: Verdict
    handoff: Handoff
    standing: Standing
    root: str = ""  # where its files were looked at; "" when nobody looked
    evidence: tuple[Evidence, ...] = ()  # of the checks that were run just now
    claim: HandoffClaim | None = None
    resume: Literal["", "attached", "lost"] = ""  # whether the one who asked for the claim got it
    accepted: tuple[str, ...] = ()  # fingerprints of reasons that somebody took upon himself
    outcome: str = ""  # how the anchor was last settled
    run: TaskRun | None = None
    notes: tuple[str, ...] = ()  # what was asked for and not done
    diff: str = ""  # how the files differ that were only edited since; of explicit handoffs `diff` tells

    @property
    def anchor(self) -> str:
        return self.handoff.anchor

    @property
    def summary(self) -> str:
        return self.handoff.summary

    @property
    def next_action(self) -> str | None:
        return self.handoff.next_action

    @property
    def target_files(self) -> tuple[str, ...]:
        return self.handoff.target_files

    @property
    def acceptance_checks(self) -> tuple[Form, ...]:
        return self.handoff.acceptance_checks

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return self.verdict.reasons

    @property
    def is_composed(self) -> bool:
        """Whether nobody stored it: it was composed from a run."""
        return self.run is not None and self.handoff.revision == 0

    def handoff_with(self, carry: Callable[[str], str]) -> Handoff:
        """The handoff; what was composed of it through `carry`, since the commands in that are ours."""
        handoff = self.handoff
        if not self.is_composed:
            return handoff
        action = carry(handoff.next_action or "")
        return replace(handoff, next_action=action, handoff_text=carry(handoff.handoff_text))

    def __repr__(self) -> str:
        """In reading order: the verdict and its reasons, then where to begin and what to do."""
        from outlast.handoffs.reading import headline

        return f"<Recovered {headline(self)}>"


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list of handoffs."""

    anchor: str
    scope: str
    standing: Standing
    handoff_id: str
    revision: int
    summary: str
    next_action: str | None
    score: int
    outcome: str
    holder: str
    branch: str
    actor: str
    stored_at: datetime
    expires_at: datetime
    verdict: Verdict | None = None  # only when somebody looked


@dataclass(frozen=True, slots=True)
class Near:
    """An open handoff that may be meant, and where it was stored: whoever has the files can tell."""

    anchor: str
    handoff_id: str
    symbol: str
    root: str
    commit: str
    prefix: str
    known_by: tuple[str, ...]
    place: int  # the newest ones have the highest, runs above all others
    at: datetime  # stored, or heard of last
    run: str = ""  # how the run stands that it is composed from; "" when it was stored


@dataclass(frozen=True, slots=True)
class Settlement:
    """How the work under an anchor was settled."""

    anchor: str
    handoff_id: str
    revision: int
    outcome: Ending
    by: str
    at: datetime
    score: int  # of the revision that was settled: beside the outcome it shows what a good handoff is worth
    evidence: tuple[Evidence, ...] = ()
    acknowledged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # what the handoff lacked, says who gave it back
    override: str = ""  # why it counts as completed all the same
    note: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """One entry of an anchor's history."""

    seq: int
    kind: str  # stored, claimed, attached, lost, accepted, checked, settled, released
    at: datetime
    by: str
    body: dict[str, Any]
    host: str = ""  # from which it was done
    door: str = ""  # and by which: python, cli, http, mcp, hook
