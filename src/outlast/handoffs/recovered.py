"""What callers are given about a handoff: recovered, listed, settled, remembered. Frozen values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.handoffs.handoff import Ending, Evidence, Form, Handoff, HandoffClaim
from outlast.ledger.verdict import Reason, Verdict
from outlast.values.text import written_out

Standing = Literal["open", "claimed", "contested", "finished", "expired"]
STANDINGS: tuple[Standing, ...] = ("open", "claimed", "contested", "finished", "expired")


class TaskRun(Struct, frozen=True):
    """The unfinished run of a handoff's task, and the command that continues it."""

    run_id: str
    flow: str
    status: str
    command: str


class Recovered(Struct, frozen=True):
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
    def handoff_text(self) -> str:
        return self.handoff.handoff_text

    @property
    def musts(self) -> dict[str, tuple[Form, ...]]:
        """What must be changed, removed and kept, by the name of the field."""
        stored = self.handoff
        return {"must_change": stored.must_change, "must_remove": stored.must_remove, "must_keep": stored.must_keep}

    @property
    def rollback(self) -> tuple[Form, ...]:
        return self.handoff.rollback

    @property
    def execution_state(self) -> Any:
        """What was given as `execution_state_v1`, as a plain value; None when nothing was."""
        return self.handoff.state

    @property
    def execution_packet(self) -> Any:
        """What was given as `execution_packet_v1`, as a plain value; None when nothing was."""
        return self.handoff.packet

    @property
    def risk(self) -> str | None:
        return self.handoff.risk

    @property
    def tags(self) -> tuple[str, ...]:
        return self.handoff.tags

    @property
    def refs(self) -> tuple[str, ...]:
        """The evidence in the workspace that it rests on."""
        return self.handoff.refs

    @property
    def revision(self) -> int:
        return self.handoff.revision

    @property
    def actor(self) -> str:
        """Who stored it."""
        return self.handoff.actor

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
    def headline(self) -> str:
        """One line: the verdict, what speaks against it, where to begin and what to do. Long text is shortened."""
        codes = dict.fromkeys(reason.code for reason in self.reasons if reason.weight != "notes")
        verdict = f"{self.verdict.word} ({', '.join(codes)})" if codes else self.verdict.word
        entry = "#".join(filter(None, self.handoff.entry))
        parts = (f"{self.anchor}@{self.handoff.revision}", entry, self.next_action or "no next action")
        return " · ".join([verdict, *(_on_one_line(part) for part in parts if part)])

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
        return f"<Recovered {self.headline}>"


def _on_one_line(text: str, length: int = 80) -> str:
    line = written_out(" ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


class Listed(Struct, frozen=True):
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


class Near(Struct, frozen=True):
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


class Settlement(Struct, frozen=True):
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


class HandoffEvent(Struct, frozen=True):
    """One entry of an anchor's history."""

    seq: int
    kind: str  # stored, claimed, attached, lost, accepted, checked, settled, released
    at: datetime
    by: str
    body: dict[str, Any]
    host: str = ""  # from which it was done
    door: str = ""  # and by which: python, cli, http, mcp, hook

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What came of checks, by this event."""
        return tuple(msgspec.convert(each, Evidence) for each in self.body.get("evidence", ()))
