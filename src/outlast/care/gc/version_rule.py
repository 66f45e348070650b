"""Which old versions of artifacts may go: the rule, and why each of the others stays. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from outlast.values.frozen import NamedTuple

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
