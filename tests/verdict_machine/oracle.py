"""What a verdict must be, by the rules of docs/verdict-rules.md: a model that knows no journal, digest, lease or door.

Each rule is named where it is kept: `(3)` is rule 3 of that page.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .evidence import RAN, REASONS, Content, Evidence, came_of
from .world import Place, text_of

CONTESTS = (
    "file_changed",
    "file_missing",
    "must_violated",
    "check_regressed",
    "evidence_contradicted",
    "rival",
    "claimed",
)
NOTES = ("head_moved", "other_files_changed", "checks_not_run", "renamed_to", "line_ends_changed")


class Reason(NamedTuple):
    code: str
    subject: str
    found: str = ""  # what an acceptance is bound to, beside these two

    @property
    def weight(self) -> str:
        return "contests" if self.code in CONTESTS else "notes" if self.code in NOTES else "weakens"


class Rule(NamedTuple):
    """That a file contains a text. Without a file: that the flag is up, which lies outside of every place.

    A must without a text is a path alone: the file is as it was stored, is not, or is gone, by the field that it is in.
    """

    label: str
    file: str = ""
    contains: str = ""


@dataclass
class Work:
    """(4) A claim, with the targets as they were when it was given and, once it was over, at its end."""

    began: dict[str, str]
    ended: dict[str, str] | None = None


@dataclass
class Contract:
    """What is stored."""

    targets: tuple[str, ...]
    checks: tuple[Rule, ...] = ()
    keeps: tuple[Rule, ...] = ()  # must_keep
    changes: tuple[Rule, ...] = ()  # must_change
    removes: tuple[Rule, ...] = ()  # must_remove
    prose: tuple[str, ...] = ()  # musts
    environment: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()
    stale: bool = False
    weak: bool = False  # as lint said

    @property
    def is_possible(self) -> bool:
        """(8) Whether no file is both to be kept and to become something else."""
        kept = {rule.file for rule in self.keeps if not rule.contains}
        other = {rule.file for rule in (*self.changes, *self.removes) if not rule.contains} | {*self.creates}
        return not kept & other

    @property
    def musts(self) -> tuple[Rule, ...]:
        return (*self.keeps, *self.changes, *self.removes)


@dataclass
class Revision:
    """A contract as it was stored, and what was found out about it since."""

    number: int
    by: str
    says: Contract
    at: Place  # as it was then
    kept: dict[str, str] = field(default_factory=dict)  # (5) what a file must be, by the path alone in must_keep
    evidence: list[Evidence] = field(default_factory=list)  # oldest first, from the store on
    accepted: set[Reason] = field(default_factory=set)
    work: list[Work] = field(default_factory=list)
    rival: str = ""  # (11) who held the claim when this, or `rival_number`, was stored beside him
    rival_number: int = 0
    taken_on: bool = False  # who holds the claim was given it for this revision, or stored it
    readers: set[str] = field(default_factory=set)  # (12)
    unread: int = 0  # (12) the revision that who stored this one, or an earlier one, had not read
    looked: bool = False  # somebody has looked at the two since

    @property
    def bound(self) -> dict[str, str]:
        return self.targets(self.at)

    @property
    def about(self) -> set[str]:
        """The files that it is bound to."""
        return {*self.says.targets, *self.says.creates}

    def is_kept(self, rule: Rule, place: Place) -> bool:
        """(5)"""
        now = text_of(place.files.get(rule.file))
        return rule.contains in now if rule.contains else now == self.kept[rule.file]

    def is_done(self, place: Place) -> bool:
        """(16) Whether every rule of a must holds: what must change does, and what must go is gone."""
        files, was = place.files, self.at.files
        texts = [rule for rule in (*self.says.changes, *self.says.removes) if rule.contains]
        changes = [rule.file for rule in self.says.changes if not rule.contains]
        removes = [rule.file for rule in self.says.removes if not rule.contains]
        return (
            all(self.is_kept(rule, place) for rule in (*self.says.keeps, *texts))
            and all(text_of(files.get(path)) != text_of(was.get(path)) for path in changes)
            and not any(text_of(files.get(path)) for path in removes)
        )

    def targets(self, place: Place) -> dict[str, str]:
        return {path: text_of(place.files.get(path)) for path in sorted(self.about)}

    def of(self, rule: Rule) -> list[Evidence]:
        return [each for each in self.evidence if each.check == rule.label]

    def content(self, place: Place) -> Content | None:
        """(9) None where nobody can look."""
        if not stands_in(self, place):
            return None
        says = self.says
        named = {*self.about, *says.environment, *(rule.file for rule in says.musts)}
        files = tuple((path, text_of(place.files.get(path))) for path in sorted(named))
        others = place.others(self.about)
        return Content(files, place.head.number if place.head else None, tuple(sorted(others.items())))


@dataclass
class Anchor:
    """A name, its revisions, and who holds the claim."""

    name: str
    revisions: list[Revision] = field(default_factory=list)
    holder: str = ""
    finished: bool = False
    flag: bool = False  # whether the flag is up
    is_served: bool = False  # checks are run by who asks, and what came of them is his word

    @property
    def newest(self) -> Revision:
        return self.revisions[-1]

    # -- the verdict -----------------------------------------------------------------------------

    def reasons(self, who: str, place: Place, number: int = 0) -> set[Reason]:
        """(1) All that is told to one who asks for a revision where he stands."""
        revision = self.revisions[number - 1] if number else self.newest
        content = revision.content(place)
        found = {*self._record(revision, who), *self._checks(revision, content)}
        if content is None:
            found |= {Reason("other_place", self.name)}  # (2)
            place = Place("", "", {})
        else:
            found |= {*_files(revision, place), *_repository(revision, place)}
        found |= {*_absent(revision, place)}
        cleared = ("weak", "stale", "self_reported") if self._all_pass(revision, content) else ()
        return {reason for reason in found if reason.code not in cleared}  # (9)

    def _record(self, revision: Revision, who: str) -> Iterator[Reason]:
        says = revision.says
        if revision is not self.newest:
            yield Reason("superseded", f"revision {revision.number}")  # (1)
        if self.holder and self.holder != who:
            yield Reason("claimed", self.name)  # (10)
        if revision.rival:
            yield Reason("rival", f"revision {revision.number}", f"{revision.rival} {revision.rival_number}")  # (11)
        if revision.unread and not revision.looked:
            yield Reason("rival", f"revision {revision.number}", f"revision {revision.unread}")  # (12)
        yield from (Reason("weak", self.name) for _ in [0] if says.weak)  # (8)
        yield from (Reason("stale", self.name) for _ in [0] if says.stale)
        yield from (Reason("no_checks", self.name) for _ in [0] if not says.checks)

    # -- checks ----------------------------------------------------------------------------------

    def passes(self, rule: Rule, place: Place) -> bool:
        return rule.contains in text_of(place.files.get(rule.file)) if rule.file else self.flag

    def _checks(self, revision: Revision, content: Content | None) -> Iterator[Reason]:
        says, unrun = revision.says, 0
        for rule in says.checks:
            words = revision.of(rule)
            came, at = came_of(words, content)
            unrun += came not in RAN
            code = REASONS.get(came, "")
            if came == "passed" and any(each.at_store and not each.passed for each in words):
                code = "maybe_done"  # (E9)
            if code:
                yield Reason(code, rule.label, words[at].word)
        if unrun:
            yield Reason("checks_not_run", f"{unrun} of {len(says.checks)}")

    def _all_pass(self, revision: Revision, content: Content | None) -> bool:
        came = [came_of(revision.of(rule), content)[0] for rule in revision.says.checks]
        return bool(came) and all(each == "passed" for each in came)

    # -- what is done ----------------------------------------------------------------------------

    def store(self, who: str, place: Place, says: Contract, *, baseline: bool = False, replaces: int = 0) -> None:
        """The next revision, bound to what is there."""
        before = self.revisions[-1] if self.revisions and not self.finished else None
        revision = Revision(len(self.revisions) + 1, who, says, place.as_it_is(), readers={who})
        revision.kept = _kept(says, place, before)
        if self.holder and self.holder != who:
            revision.rival = self.holder
        elif before is not None and before.rival and replaces != (before.rival_number or before.number):
            revision.rival, revision.rival_number = before.rival, before.rival_number or before.number
        elif before is not None and self.holder != who:
            revision.unread = _unread(who, before, replaces)
        if self.holder == who:
            revision.work, revision.taken_on = [Work(revision.bound)], True
        self.revisions.append(revision)
        self.finished = False
        if baseline:
            self.run(who, place, at_store=True)

    def read(self, who: str, number: int = 0) -> None:
        """(12) He is told of a revision, or does something to it."""
        (self.revisions[number - 1] if number else self.newest).readers.add(who)

    def look_at(self, number: int) -> None:
        """(12) Somebody is shown a revision: he has looked at what it is a rival of, or what is one of it."""
        newest = self.newest
        newest.looked |= newest.unread > 0 and number in (newest.number, newest.unread)

    def run(self, who: str, place: Place, *, at_store: bool = False) -> None:
        """(9) The checks of the newest revision are run here."""
        revision = self.newest
        for rule in revision.says.checks:
            found = Evidence(rule.label, self.passes(rule, place), True, revision.content(place), at_store)
            revision.evidence.append(found._replace(by=who if self.is_served else ""))

    def report(self, who: str, place: Place, label: str, passed: bool) -> None:
        self.newest.evidence.append(Evidence(label, passed, False, self.newest.content(place), by=who))

    def standing(self, who: str, place: Place, *, take: bool = False) -> set[Reason]:
        """(13) (14) What refuses a claim: what contests, and was not accepted as it is found."""
        against = {reason for reason in self.reasons(who, place) if reason.weight == "contests"}
        against -= self.newest.accepted
        return {reason for reason in against if not (take and reason.code == "claimed")}

    def accepted(self, told: set[Reason], number: int = 0) -> set[Reason]:
        """(13) What is in nobody's way any more, of all that is told of a revision."""
        revision = self.revisions[number - 1] if number else self.newest
        return {each for each in told & revision.accepted if each.weight == "contests"}

    def is_found_otherwise(self, told: set[Reason], number: int = 0) -> bool:
        """(13) Whether something is told that was accepted as it was found, and is found otherwise."""
        revision = self.revisions[number - 1] if number else self.newest
        names = {(each.code, each.subject) for each in revision.accepted}
        return any((each.code, each.subject) in names for each in told - revision.accepted)

    def accept(self, accepted: set[Reason]) -> None:
        """(13) What contests, as it was told: some of it, or all."""
        self.newest.accepted |= accepted
        self.newest.looked |= any(each.code == "rival" for each in accepted)

    def claim(self, who: str, place: Place) -> None:
        """(4)"""
        if not self.newest.taken_on or self.holder != who:
            self.newest.work += [Work(self.newest.targets(place))] if stands_in(self.newest, place) else []
        self.holder, self.newest.taken_on = who, True

    def is_strange(self, who: str, place: Place) -> bool:
        """(16) Whether the newest revision is not the work that was claimed: nothing of it is even looked at then."""
        rivals = {each for each in self.reasons(who, place) if each.code == "rival"}
        return bool(rivals - self.newest.accepted) or (self.holder == who and not self.newest.taken_on)

    def lacking(self, place: Place, acknowledged: Collection[str], *, run: bool) -> bool:
        """(16) Whether something keeps the work from counting as completed."""
        revision, says = self.newest, self.newest.says
        if not stands_in(revision, place) or not {*says.creates} <= {*place.files}:
            return True
        if not (says.checks or says.changes or says.removes or says.creates):
            return True
        if not revision.is_done(place) or not {*says.prose} <= {*acknowledged}:
            return True
        if run:
            return not all(self.passes(rule, place) for rule in says.checks)
        return bool(says.checks) and not self._all_pass(revision, revision.content(place))

    def settle(self, place: Place, outcome: str) -> None:
        """(17) The claim is over; completed, the work is too."""
        revision = self.newest
        if revision.work and revision.work[-1].ended is None:
            last = revision.work[-1]
            last.ended = revision.targets(place) if stands_in(revision, place) else last.began
        self.holder, self.finished = "", outcome == "completed"


# -- where somebody stands -------------------------------------------------------------------------------


def stands_in(revision: Revision, place: Place) -> bool:
    """(2) In the handoff's repository: the bound commit is there, or it has the same beginning, or the same remote."""
    if revision.at.head is None:
        return place.name == revision.at.name
    return place.work == revision.at.work


def _kept(says: Contract, place: Place, before: Revision | None) -> dict[str, str]:
    """(5) What each path alone in must_keep has to be: as the revision before has it already, or as it is now."""
    now = {rule.file: text_of(place.files.get(rule.file)) for rule in says.keeps if not rule.contains}
    if before is None or not stands_in(before, place):
        return now
    anew = {path for path, text in now.items() if Reason("must_violated", path, text) in before.accepted}
    return {path: text if path in anew else before.kept.get(path, text) for path, text in now.items()}


def _unread(who: str, before: Revision, replaces: int) -> int:
    """(12)"""
    if who not in before.readers and replaces != before.number:
        return before.number
    return before.unread if not before.looked and replaces != before.unread else 0


def _absent(revision: Revision, place: Place) -> Iterator[Reason]:
    """(8)"""
    for path in {*revision.says.targets} - {*revision.says.creates}:
        if not revision.bound[path] and path not in place.files:
            yield Reason("target_absent", path)


def _files(revision: Revision, place: Place) -> Iterator[Reason]:
    """(3) (4) (5) (6)"""
    says, now = revision.says, revision.targets(place)
    for path, bound in revision.bound.items():
        if now[path] != bound:
            yield from _changed(revision, path, place)
    if any(
        now[path] == bound and place.files.get(path) != revision.at.files.get(path)
        for path, bound in revision.bound.items()
    ):
        yield Reason("line_ends_changed", "line ends")
    for rule in says.keeps:
        if not revision.is_kept(rule, place):
            now = text_of(place.files.get(rule.file))
            yield Reason("must_violated", rule.label, now if not rule.contains else "there" if now else "missing")
    for path in says.environment:
        if text_of(place.files.get(path)) != text_of(revision.at.files.get(path)):
            yield Reason("environment_changed", path)


def _changed(revision: Revision, path: str, place: Place) -> Iterator[Reason]:
    now = revision.targets(place)[path]
    places = " ".join(_new_places(revision, path, place)) if not now else ""
    if places:
        yield Reason("renamed_to", path)
    if _is_work(revision, path, now):
        yield Reason("partial_work", path)
    else:
        yield Reason("file_changed", path, now) if now else Reason("file_missing", path, places)


def _is_work(revision: Revision, path: str, now: str) -> bool:
    """(4) It changed under a claim, and is as that left it."""
    for work in reversed(revision.work):
        ended = now if work.ended is None else work.ended[path]
        if ended != now or work.began[path] != ended:
            return ended == now
    return False


def _new_places(revision: Revision, path: str, place: Place) -> list[str]:
    """(3) Where the very content of a file is that is gone, and was not when it was stored, as far as git knows."""
    was = revision.at
    then = was.head.files if was.head and was.head.number in place.known else {}
    old = {*was.others(revision.about)} | {each for each, text in place.files.items() if then.get(each) == text}
    old |= {each for each, bound in revision.bound.items() if bound}
    return sorted(each for each, text in place.files.items() if text == was.files[path] and each not in old)


def _repository(revision: Revision, place: Place) -> Iterator[Reason]:
    """(7)"""
    was = revision.at
    if was.head is None or place.head is None:
        return
    if was.branch != place.branch:
        yield Reason("diverged", "branch")
    elif was.head.number not in place.line:
        yield Reason("diverged", "commit")
    elif was.head.number != place.head.number:
        yield Reason("head_moved", "commit")
    if was.others(revision.about) != place.others(revision.about):
        yield Reason("other_files_changed", "other files")
