"""What is remembered of a recovery that carries an operation_id: the claim it gave, and what came of its checks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import msgspec

from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import Evidence, HandoffClaim
from outlast.home.once import Operation
from outlast.values.codec import encode, jsonable
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.handoffs.recover import Recovering

Resume = Literal["", "attached", "lost"]


def operation_of(asked: HandoffQuery, how: Recovering) -> Operation:
    """The write by its id and what is asked of it."""
    content = [list(asked), how.actor, how.claim, how.accept, how.take, how.why, how.run_checks, how.when]
    return Operation(how.operation_id, "handoff_recover", [*content, "task"] if how.task else content)


class Remembered(NamedTuple):
    """What a write gave."""

    claim: HandoffClaim | None
    resume: Resume
    evidence: tuple[Evidence, ...] = ()


def answer_of(claim: HandoffClaim | None, resume: Resume, ran: tuple[Evidence, ...]) -> str | None:
    """What is remembered of a write; a claim that was refused may be asked for again."""
    return None if resume == "lost" else encode(jsonable([claim, resume, ran])).decode()


def remembered(answer: str) -> Remembered:
    """What the first of equal writes gave."""
    before = msgspec.json.decode(answer, type=Remembered)
    return before._replace(claim=replace(before.claim, replayed=True)) if before.claim else before
