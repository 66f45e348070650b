"""Why: the evidence of a ref as a tree, with how each part of it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from outlast.workspace.evidence import STANDS, Standing

DEPTH = 20
NODES = 1_000
REASONS = 20  # of one ref that the text shows
WORDS = {  # what a child is to its parent, as it is read on the parent's line
    ("derived_from", "out"): "derived from",
    ("produced_by", "out"): "produced by",
    ("supports", "in"): "supported by",
    ("contradicts", "in"): "contradicted by",
    ("supersedes", "in"): "superseded by",
    ("refers_to", "out"): "refers to",
}


@dataclass(frozen=True, slots=True)
class Branch:
    """What bears on a ref: by which relation, and whether the link goes out from it or comes in."""

    relation: str  # of links; refers_to: it names it
    direction: str  # out, in
    note: str
    of: Why


@dataclass(frozen=True, slots=True)
class Why:
    """A ref, what it is, how it stands, and what bears on it."""

    ref: str
    kind: str  # artifact, observation, decision, evidence, note, checkpoint, handoff, run
    says: str  # in a line
    standing: str  # stands, contested, superseded
    reasons: tuple[str, ...] = ()
    children: tuple[Branch, ...] = ()
    seen: bool = False  # it is shown elsewhere in the tree with what bears on it
    cut: int = 0  # so many of its children are not shown: the limit of depth or size was reached

    @property
    def stands(self) -> bool:
        return self.standing == STANDS

    @property
    def left_out(self) -> int:
        """How much is not shown in the whole tree."""
        return self.cut + sum(branch.of.left_out for branch in self.children)

    def __str__(self) -> str:
        return "\n".join(_lines(self, "", ""))


def reasons_of(standing: Standing) -> tuple[str, ...]:
    """What is told of how a ref stands."""
    return tuple(map(str, standing.causes))


def _lines(why: Why, label: str, indent: str) -> Iterator[str]:
    state = "" if why.stands else f" [{why.standing}]"
    says = f": {why.says}" if why.says else ""
    yield f"{indent}{label}{why.ref}{state} ({why.kind}){says}{' (see above)' if why.seen and why.cut == 0 else ''}"
    if not why.seen:
        yield from (f"{indent}  ! {reason}" for reason in why.reasons[:REASONS])
        if (more := len(why.reasons) - REASONS) > 0:
            yield f"{indent}  ! and {more:,} more reasons; --json has all of them"
    for branch in why.children:
        note = f" [{branch.note}]" if branch.note else ""
        yield from _lines(branch.of, f"{WORDS[branch.relation, branch.direction]}{note} ", indent + "  ")
    if why.cut:
        # of one that is too wide the same question would give the same answer
        verb = "links" if why.children else "why"
        yield f"{indent}  … {why.cut:,} more not shown; ask for them: outlast workspace {verb} {quote(why.ref)}"
