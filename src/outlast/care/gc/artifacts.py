"""Removing old versions of artifacts that nobody needs, when `gc` is asked to.

The newest version of a name never goes. Nor does one that a record, a link or a checkpoint names, nor one whose ref
stands anywhere in an unfinished run or in the newest revision of an open handoff (blobs.py). Each goes in a
transaction that looks once more: what was written meanwhile is seen there. A stone stays in its place.

Which old versions of artifacts may go: the rule, and why each of the others stays. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.care.gc.blobs import Mentions
from outlast.clock import moment
from outlast.store.contract import Reading, Writing
from outlast.store.contract.workspace import ArtifactRow
from outlast.values.frozen import NamedTuple
from outlast.workspace.artifact import ref_of

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home


# Why a version that is not the newest of its name stays, in words for people.
STAYS = {
    "run": "that an unfinished run names",
    "handoff": "that an open handoff names",
    "checkpoint": "that a checkpoint names",
    "record": "that a record names",
    "link": "that a link begins or ends at",
    "newest": "among the newest of their name",
    "young": "younger than that",
}


class Version(NamedTuple):
    """A version that is not the newest of its name."""

    key: int
    ref: str
    size: int
    stored_at: int
    newer: int  # versions of its name that are newer
    needed: str = ""  # what needs it


class VersionRule(NamedTuple):
    """Which may go: those stored before a moment, all but so many of each name. Without both, none."""

    before: int | None = None
    keep: int | None = None
    scope: str | None = None

    @property
    def given(self) -> bool:
        return self.before is not None or self.keep is not None


class VersionChoice(NamedTuple):
    going: tuple[Version, ...]
    kept: Counter[str]  # by reason


def choose_versions(versions: Iterable[Version], rule: VersionRule) -> VersionChoice:
    """Those that go, the oldest first, and how many stay for which reason. What is needed never goes."""
    going, kept = [], Counter[str]()
    for version in versions:
        reason = version.needed or _by_rule(version, rule)
        if reason:
            kept[reason] += 1
        else:
            going.append(version)
    return VersionChoice(tuple(sorted(going, key=lambda each: each.key)), kept)


def _by_rule(version: Version, rule: VersionRule) -> str:
    if rule.keep is not None and version.newer < rule.keep:
        return "newest"
    if rule.before is not None and version.stored_at > rule.before:
        return "young"
    return ""


PAGE = 200
BATCH = 50  # versions removed in one transaction


class SweptVersion(Struct, frozen=True):
    """A version that goes, and how large its content is."""

    ref: str
    size_bytes: int
    stored_at: datetime


def plan(home: Home, rule: VersionRule) -> tuple[VersionChoice, Mentions]:
    """What would go, and why the rest stays."""
    said = Mentions()
    if not rule.given:
        return choose_versions((), rule), said
    home.store.read(lambda look: said.read_on(home, look))
    return choose_versions(_versions(home, said, rule), rule), said


def remove(caller: Caller, choice: VersionChoice, said: Mentions) -> tuple[list[SweptVersion], list[str]]:
    """Remove what was chosen, unless something needs it since; what went, and what could not."""
    gone: list[SweptVersion] = []
    left = iter(choice.going)
    while batch := list(islice(left, BATCH)):
        buried = caller.home.store.write(partial(_bury, caller, batch=batch, said=said))
        gone += [_swept(each) for each in buried]
    stayed = len(choice.going) - len(gone)
    return gone, [f"{stayed} versions of artifacts are needed since, and stay"] if stayed else []


def foreseen(choice: VersionChoice) -> list[SweptVersion]:
    """What goes, before it is gone."""
    return [_swept(each) for each in choice.going]


def proof(choice: VersionChoice) -> Iterator[str]:
    """What is left alone, and why."""
    for reason, words in STAYS.items():
        if count := choice.kept[reason]:
            yield f"{count:,} old version{'' if count == 1 else 's'} of artifacts {words}: untouched"


def _swept(version: Version) -> SweptVersion:
    return SweptVersion(version.ref, version.size, moment(version.stored_at))


def _bury(caller: Caller, tx: Writing, *, batch: Iterable[Version], said: Mentions) -> list[Version]:
    """In one transaction: look again at what was written since, and put a stone in the place of the rest."""
    said.read_on(caller.home, tx)
    gone = []
    for version in batch:
        row = tx.artifact_by_key(version.key)
        if row is not None and not _needed(tx, row, said):
            tx.remove_artifact(row.key, caller.home.clock.now(), caller.actor)
            gone.append(version)
    return gone


def _versions(home: Home, said: Mentions, rule: VersionRule) -> Iterator[Version]:
    """Every version that is not the newest of its name."""
    after = 0

    def page(look: Reading) -> list[tuple[ArtifactRow, int, str]]:
        rows = look.older_versions(after, PAGE)
        return [(row, _newer(look, row, rule.keep or 0), _needed(look, row, said)) for row in rows]

    while found := home.store.read(page):
        for row, newer, needed in found:
            if rule.scope is None or row.scope == rule.scope:
                yield Version(row.key, ref_of(row), row.size, row.stored_at, newer, needed)
        after = found[-1][0].key


def _newer(look: Reading, row: ArtifactRow, keep: int) -> int:
    """How many versions of the name are newer; no more are counted than matter."""
    newest = look.artifact_versions(row.scope, row.name, 0, keep) if keep else []
    return next((place for place, other in enumerate(newest) if other.key == row.key), max(keep, 1))


def _needed(look: Reading, row: ArtifactRow, said: Mentions) -> str:
    """What needs a version, if anything."""
    ref = ref_of(row)
    if by := said.by(ref):
        return by
    if look.records_of_ref(ref, 0, 1):
        return "record"
    return "link" if look.linked_among([ref]) else ""
