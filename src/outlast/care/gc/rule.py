"""Which runs may be removed: pure rules over families.

A run and all the runs it spawned are a family, which goes as a whole or stays as a whole. A family with an
unfinished run in it stays, whatever the rules say. Several rules narrow each other: a family goes only if every
one of them lets it go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from msgspec import Struct

from outlast.runs.run import FINISHED
from outlast.store.contract import Kin
from outlast.store.contract.runs import damage_of

COPIES = ("copy", "testimony")  # nobody may continue these here, whatever their status says

# Why a run stays, in the order in which a report tells it.
REASONS = {
    "unfinished": "unfinished",
    "family": "in the family of an unfinished run",
    "held": "held by a worker, or in the family of one that is",
    "damaged": "damaged: see `outlast verify`",
    "scope": "in other scopes",
    "newest": "among the newest of their flow",
    "young": "not old enough",
    "fits": "within the size",
    "no_rule": "finished, and no rule was given",
}


class SweepRule(Struct, frozen=True):
    """What is asked for; None asks for nothing."""

    older_than_us: int | None = None
    keep: int | None = None
    max_bytes: int | None = None
    scope: str | None = None

    @property
    def given(self) -> bool:
        return not (self.older_than_us is None and self.keep is None and self.max_bytes is None)


class Family(Struct, frozen=True):
    """A run without a parent here, and everything below it; the root last."""

    members: tuple[Kin, ...]

    @property
    def root(self) -> Kin:
        return self.members[-1]

    @property
    def ended_at(self) -> int:
        return max(member.ended_at for member in self.members)


class Choice(Struct, frozen=True):
    """Families that go, the oldest first; how many runs stay, by reason; and those of families that are unfinished."""

    going: tuple[Family, ...]
    kept: Counter[str]
    unfinished: tuple[Kin, ...] = ()


def is_over(run: Kin) -> bool:
    """Whether nobody may ever continue it here."""
    return run.status in FINISHED or run.seal in COPIES


def families(runs: Iterable[Kin]) -> list[Family]:
    """Runs grouped with their parents and children. A parent that is not here any more has no say."""
    by_id = {run.id: run for run in runs}
    top = _tops(by_id)
    grouped: dict[str, list[Kin]] = {}
    for run in by_id.values():
        grouped.setdefault(top[run.id], []).append(run)
    return [Family(tuple(sorted(members, key=lambda run: _place(run, by_id)))) for members in grouped.values()]


def _place(run: Kin, by_id: dict[str, Kin]) -> tuple[bool, int]:
    """The root last, the newest first: what is removed half-way leaves a root that the rules still speak about."""
    return run.parent not in by_id, -run.key


def _tops(by_id: dict[str, Kin]) -> dict[str, str]:
    """The topmost ancestor of each run; of a circle, which only a damaged store has, any one of it."""
    top: dict[str, str] = {}
    for run_id in by_id:
        path: dict[str, None] = {}
        at = run_id
        while at not in top and at not in path and by_id[at].parent in by_id:
            path[at] = None
            at = by_id[at].parent
        found = top.get(at, at)
        top.update(dict.fromkeys((*path, at), found))
    return top


def choose(runs: Iterable[Kin], rule: SweepRule, now: int, held: frozenset[str] = frozenset()) -> Choice:
    """Which families go by age and count. `held` are ids of runs that a live worker holds."""
    kept: Counter[str] = Counter()
    free: list[Family] = []
    needed: list[Kin] = []
    for family in families(runs):
        reason = _standing(family, rule, held)
        if reason == "family":
            needed += family.members
            unfinished = sum(not is_over(member) for member in family.members)
            kept += Counter({"unfinished": unfinished, "family": len(family.members) - unfinished})
        elif reason:
            kept[reason] += len(family.members)
        else:
            free.append(family)
    going = []
    for family, reason in _by_rules(free, rule, now):
        if reason:
            kept[reason] += len(family.members)
        else:
            going.append(family)
    going.sort(key=lambda family: (family.ended_at, family.root.key))
    return Choice(tuple(going), kept, tuple(needed))


def _standing(family: Family, rule: SweepRule, held: frozenset[str]) -> str:
    """Why a family stays whatever the rules; empty when they decide."""
    if not all(is_over(member) for member in family.members):
        return "family"
    if any(member.id in held for member in family.members):
        return "held"
    if any(member.head is None or damage_of(member) for member in family.members):
        return "damaged"
    if rule.scope is not None and any(member.scope != rule.scope for member in family.members):
        return "scope"
    return "" if rule.given else "no_rule"


def _by_rules(free: list[Family], rule: SweepRule, now: int) -> Iterable[tuple[Family, str]]:
    """Each family with why it stays; count is by scope and flow, the newest first."""
    cutoff = now - (rule.older_than_us or 0)
    free = sorted(free, key=lambda family: (*_flow_of(family), -family.ended_at, -family.root.key))
    for _, of_flow in groupby(free, key=_flow_of):
        for place, family in enumerate(of_flow):
            if rule.keep is not None and place < rule.keep:
                yield family, "newest"
            elif rule.older_than_us is not None and family.ended_at > cutoff:
                yield family, "young"
            else:
                yield family, ""


def _flow_of(family: Family) -> tuple[str, str]:
    """Its scope and flow. Of files with the same name nobody knows that they are one flow: each place has its own."""
    root = family.root
    return root.scope, root.flow if root.identity.startswith("file:") else root.identity or root.flow
