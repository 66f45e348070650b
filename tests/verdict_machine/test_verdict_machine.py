"""Handoffs that are stored, edited, checked, reported on, claimed, settled, cloned and renamed, in any order.

After each of these the verdict for somebody who stands somewhere is compared with what the rules of
docs/verdict-rules.md say (oracle.py): its word and every reason; and so is every refusal. The same machine goes through
three doors: Python, HTTP and real commands.
"""

import os
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from .doors import DOORS, Answer
from .oracle import Anchor, Contract, Reason, Rule, stands_in
from .rig import ABSENT, BRANCHES, FILES, HERE, OTHER, PLAIN, Rig
from .world import Place

IS_LONG = (settings.default or settings()).max_examples > 40  # with --crash-long
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(2**32)) if IS_LONG else 1
SIZES = {"python": (9, 25), "http": (3, 20), "commands": (1, 14)}  # so many examples of so many steps
LONG_SIZES = {"python": (500, 40), "http": (100, 30), "commands": (25, 20)}
STEPS: Counter[str] = Counter()  # by door
MET: Counter[str] = Counter()  # reasons, and what came of asking for something

PEOPLE = ("ann", "ben")
ANCHOR = "task:export-repair"
WHY = "the machine says so"
FLAG = Rule("test -e ../flag")
CHECKS = (
    Rule("src/a.py contains a two", "src/a.py", "a two"),
    Rule("test -e src/b.py && grep -q 'b two' src/b.py", "src/b.py", "b two"),
    FLAG,
)
KEEP = Rule("keep.txt contains keep one", "keep.txt", "keep one")
CHANGE = Rule("src/a.py contains a t", "src/a.py", "a t")
B = Rule("src/b.py", "src/b.py")  # a path alone
PROSE = "keep the names that others use"
WORDS = (
    "one",
    "one",
    "two",
    "two",
    "two",
    "three",
    "ends",
    "",
)  # what a file becomes; "ends": other line ends, "": it is deleted

people, flags = st.sampled_from(PEOPLE), st.booleans()
parts = st.sampled_from(("all", "all", "one", "code"))  # what is accepted of all that contests: one, or all of one code
folders = st.sampled_from((*[HERE] * 8, "clone", "clone", "shallow", "tree", OTHER, PLAIN))
homes = st.sampled_from((*[HERE] * 12, "clone", "shallow", "tree", OTHER, PLAIN))  # where something is stored
files, names = (
    st.sampled_from(("src/a.py", "src/b.py", *FILES, ABSENT)),
    st.sampled_from((*FILES, ABSENT, "src/moved.py")),
)
contracts = st.builds(
    Contract,
    targets=st.sampled_from([("src/a.py",), ("src/a.py", "src/b.py"), ("src/a.py", ABSENT), (ABSENT,)]),
    checks=st.sampled_from([(), *[(each,) for each in CHECKS], CHECKS[:2], CHECKS[1:], CHECKS[::2]]),
    keeps=st.sampled_from([(), (KEEP,), (B,)]),
    changes=st.sampled_from([(), (CHANGE,), (B,)]),
    removes=st.sampled_from([(), (), (), (B,)]),
    prose=st.sampled_from([(), (PROSE,)]),
    environment=st.sampled_from([(), ("lock.txt",)]),
    creates=st.sampled_from([(), (ABSENT,)]),
    stale=st.sampled_from([False, False, False, True]),
)


class Machine(RuleBasedStateMachine):
    """Folders, one anchor, and two who work."""

    door_name = ""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.door = DOORS[self.door_name](self.rig.above)
        self.model = Anchor(ANCHOR, is_served=self.door_name == "http")
        self.claims: dict[str, str] = {}  # the ids that people show
        self.ids: list[str] = []  # of the revisions
        self.looks = 0
        self.robbed: set[str] = set()  # those whose claim was taken: an object of Python remembers

    def teardown(self) -> None:
        self.door.close()
        self.rig.end()

    # -- storing ---------------------------------------------------------------------------------

    @initialize(
        who=people,
        at=st.sampled_from((*[HERE] * 6, PLAIN)),
        says=contracts.filter(lambda says: says.is_possible),
        baseline=flags,
    )
    def begin(self, who: str, at: str, says: Contract, baseline: bool) -> None:
        self._store(who, at, says, baseline=baseline, replaces=False)

    @rule(who=people, at=homes, says=contracts, baseline=flags, replaces=flags)
    def store(self, who: str, at: str, says: Contract, baseline: bool, replaces: bool) -> None:
        self._store(who, at, says, baseline=baseline, replaces=replaces)
        self._look(who, at)

    def _store(self, who: str, at: str, says: Contract, *, baseline: bool, replaces: bool) -> None:
        at = self._place(at)
        before = self.model.newest if self.ids else None
        number = before.rival_number or before.unread or before.number if before and replaces else 0
        given = self._fields(says) | ({"baseline": True} if baseline else {})
        given |= {"supersedes": self.ids[number - 1]} if number else {}
        answer = self.door.store(who, self.rig.folder(at), ANCHOR, self.claims.get(who, ""), given)
        if not says.is_possible:
            assert answer.error == "handoff_invalid", answer
            return
        if self._lost(who):
            self._refused(answer, "claim_lost")
            return
        assert not answer.error, answer
        says.weak = answer.weak
        self.model.store(who, self.rig.places[at], says, baseline=baseline, replaces=number)
        assert answer.revision == self.model.newest.number
        self.ids.append(answer.id)

    def _fields(self, says: Contract) -> dict[str, Any]:
        number = len(self.ids) + 1
        first = says.targets[0]
        return {
            "summary": f"Pause {number} after diagnosis of the exporter",
            "handoff_text": f"Resume in {first} and patch what part {number} of the diagnosis names.",
            "next_action": f"Patch the exporter in {first}, part {number}",
            "target_files": list(says.targets),
            "acceptance_checks": [self._form(rule) for rule in says.checks],
            "must_keep": [*map(self._form, says.keeps), *says.prose],
            "must_change": [*map(self._form, says.changes)],
            "must_remove": [*map(self._form, says.removes)],
            "environment": list(says.environment),
            "creates": list(says.creates),
        } | ({"expires": "2020-01-01"} if says.stale else {})

    def _form(self, rule: Rule) -> Any:
        """A rule as it is stored: a command, a path, or an object."""
        return rule.label if rule in (FLAG, CHECKS[1], B) else {"file": rule.file, "contains": rule.contains}

    # -- looking ---------------------------------------------------------------------------------

    @rule(who=people, at=folders, back=st.integers(0, 3))
    def recover(self, who: str, at: str, back: int) -> None:
        self._look(who, at, max(1, len(self.ids) - back))

    def _look(self, who: str, at: str, number: int = 0) -> None:
        """What he is told of the newest revision, or of another; every fourth time also of the one before."""
        self._recovered(who, at, number)
        self.looks += 1
        if self.looks % 4 == 0 and len(self.ids) > 1:
            self._recovered(who, at, len(self.ids) - 1)

    def _recovered(self, who: str, at: str, number: int) -> None:
        at = self._place(at)
        how = {"revision": number} if number else {}
        answer = self.door.recover(who, self.rig.folder(at), ANCHOR, self.claims.get(who, ""), how)
        if not self._over(who, answer):
            self._compare(answer, self.model.reasons(who, self.rig.places[at], number), number)
            self.model.read(who, number)

    @rule(who=people, at=folders)
    def list_contested(self, who: str, at: str) -> None:
        """(15)"""
        at = self._place(at)
        found = self.door.contested(who, self.rig.folder(at))
        open_ = not self.model.finished and not self.model.holder
        assert bool(found) == (open_ and bool(self.model.standing(who, self.rig.places[at]))), found
        MET[f"listed {len(found)}"] += 1

    @rule(who=people, at=folders, back=st.integers(0, 2))
    def show(self, who: str, at: str, back: int) -> None:
        """Look at a revision as it was stored."""
        number = max(1, len(self.ids) - back)
        answer = self.door.show(who, self.rig.folder(self._place(at)), ANCHOR, number)
        assert answer.revision == number, answer
        for each in PEOPLE if self.door_name == "commands" else (who,):  # by the name of who is logged in
            self.model.read(each, number)
        self.model.look_at(number)
        self._look(who, at)

    def _compare(self, answer: Answer, expected: set[Reason], number: int = 0) -> None:
        assert not answer.error, answer
        reasons = {(each.weight, each.code, each.subject) for each in expected}
        got = {each for each in answer.reasons if each[1] != "foreign_commands"}
        assert got == reasons, (sorted(got - reasons), "and not", sorted(reasons - got), answer.said)
        weights = {weight for weight, _, _ in reasons}
        word = "contested" if "contests" in weights else "candidate" if "weakens" in weights else "trusted"
        assert answer.word == word
        taken = self.model.accepted(expected, number)  # (13)
        assert answer.accepted == {(each.code, each.subject) for each in taken}, (answer.accepted, taken, answer.said)
        MET.update(reason.code for reason in expected)
        MET["told as accepted"] += bool(taken)
        MET["found otherwise than accepted"] += self.model.is_found_otherwise(expected, number)

    def _over(self, who: str, answer: Answer) -> bool:
        """Whether nothing is answered since the work is over, or a claim is shown that somebody else has taken."""
        if self.model.finished:
            assert answer.error == "finished", answer
            return True
        if self._lost(who):
            self._refused(answer, "claim_lost")
            return True
        return False

    def _lost(self, who: str) -> bool:
        """Whether he shows a claim that is not his any more; he is told once, and shows it no longer."""
        return who in self.claims and self.model.holder != who

    def _refused(self, answer: Answer, code: str) -> None:
        assert answer.error == code, answer
        self.claims = {who: claim for who, claim in self.claims.items() if self.model.holder == who}

    # -- checks ----------------------------------------------------------------------------------

    @rule(who=people, at=folders, edits=st.lists(st.tuples(files, st.sampled_from(WORDS)), max_size=2), up=flags)
    def check(self, who: str, at: str, edits: list[tuple[str, str]], up: bool) -> None:
        """Perhaps after something was done."""
        at = self._place(at)
        place = self.rig.places[at]
        for path, word in edits:
            self._edit(at, path, word)
        self._raise(up)
        answer = self.door.recover(who, self.rig.folder(at), ANCHOR, self.claims.get(who, ""), {"run_checks": True})
        if self._over(who, answer):
            return
        if not stands_in(self.model.newest, place):
            assert answer.error == "handoff_invalid", answer
            return
        self.model.run(who, place)
        self._compare(answer, self.model.reasons(who, place))
        self.model.read(who)
        self._look(who, at)

    def _raise(self, up: bool) -> None:
        self.rig.flag.touch() if up else self.rig.flag.unlink(missing_ok=True)
        self.model.flag = up

    # -- claims ----------------------------------------------------------------------------------

    @rule(who=people, at=folders, take=flags, accept=st.one_of(st.just(""), parts))
    def claim(self, who: str, at: str, take: bool, accept: str) -> None:
        self._claim(who, self._place(at), {"claim": True} | ({"take": True, "why": WHY} if take else {}), accept=accept)

    @rule(who=people, at=folders, accept=parts)
    def accept(self, who: str, at: str, accept: str) -> None:
        """What contests, and claim nothing."""
        self._claim(who, self._place(at), {}, accept=accept)

    @rule(who=people, accept=parts, words=st.permutations(("two", "three", "")))
    def accept_and_edit(self, who: str, accept: str, words: list[str]) -> None:
        """A file is not as it was, that is accepted, and then it is yet another."""
        at, says = self._place(self.model.newest.at.name), self.model.newest.says
        path = (*[rule.file for rule in says.keeps if not rule.contains], *says.targets)[0]
        self._edit(at, path, words[0])
        self._claim(who, at, {}, accept=accept)
        self._edit(at, path, words[1])
        self._claim(who, at, {"claim": True}, accept="")

    @rule(at=homes, says=contracts, accept=st.one_of(st.just(""), parts))
    def take_on(self, at: str, says: Contract, accept: str) -> None:
        """What somebody else stores while one holds the claim."""
        holder = self.model.holder
        if holder and not self.model.finished:
            (other,) = {*PEOPLE} - {holder}
            self._store(other, at, says, baseline=False, replaces=False)
            self._claim(holder, self._place(at), {"claim": True}, accept=accept)

    def _claim(self, who: str, at: str, how: dict[str, Any], *, accept: str) -> None:
        place = self.rig.places[at]
        against = self.model.standing(who, place, take=True)
        taken = set[Reason]()
        if accept and against and not self.model.finished and not self._lost(who):
            taken, named = _part(against, accept)
            how |= {"accept": named, "why": WHY}
        answer = self.door.recover(who, self.rig.folder(at), ANCHOR, self.claims.get(who, ""), how)
        if self._over(who, answer):
            return
        expected = self.model.reasons(who, place)
        self.model.accept(taken)
        self._compare(answer, expected)
        self.model.read(who)
        if "claim" in how:
            self._given(who, place, answer, take="take" in how)
        self._look(who, at)

    def _given(self, who: str, place: Place, answer: Answer, *, take: bool) -> None:
        against = self.model.standing(who, place, take=take)
        assert bool(answer.claim) == (not against), (answer, against)
        MET[f"claim {'refused' if against else 'given'}"] += 1
        if not against:
            self.robbed |= {self.model.holder} - {"", who}
            self.model.claim(who, place)
            self.claims[who] = answer.claim

    # -- settling --------------------------------------------------------------------------------

    @rule(who=people, at=folders, run=flags, acknowledge=flags, override=st.sampled_from([*[False] * 5, True]))
    def complete(self, who: str, at: str, run: bool, acknowledge: bool, override: bool) -> None:
        at = self._place(at)
        place = self.rig.places[at]
        how: dict[str, Any] = {"run_checks": run, "acknowledged": [PROSE] if acknowledge else []}
        how |= {"override": WHY} if override else {}
        strange = self.model.is_strange(who, place)
        lacking = strange or self.model.lacking(place, how["acknowledged"], run=run)
        came = self._settled(who, at, "completed", how, lacking and not override)
        MET[f"completing {came}"] += 1
        if run and (came == "settled" or (came == "not_settled" and not strange)):
            self._remembered(who, at)

    def _remembered(self, who: str, at: str) -> None:
        """(9) What was found while settling, also if that was refused."""
        if self.model.newest.says.checks and stands_in(self.model.newest, self.rig.places[at]):
            self.model.run(who, self.rig.places[at])
            self.model.read(who)
        self._look(who, at)

    @rule(who=people, at=folders, outcome=st.sampled_from(("failed", "released")), passed=flags, report=flags)
    def give_back(self, who: str, at: str, outcome: str, passed: bool, report: bool) -> None:
        at = self._place(at)
        rules = self.model.newest.says.checks if report else ()
        said = [{"check": self._form(each), "passed": passed} for each in rules[:1]]
        if self._settled(who, at, outcome, {"evidence": said}, False) == "settled":
            for each in rules[:1]:
                self.model.report(who, self.rig.places[at], each.label, passed)
            self._look(who, at)

    def _settled(self, who: str, at: str, outcome: str, how: dict[str, Any], lacking: bool) -> str:
        """(16) (17) What came of it: `settled`, or why not."""
        answer = self.door.settle(who, self.rig.folder(at), ANCHOR, self.claims.get(who, ""), outcome, how)
        if self._over(who, answer):
            return answer.error
        if self.model.holder not in ("", who):
            told = ("handoff_claimed", "claim_lost") if who in self.robbed else ("handoff_claimed",)
            assert answer.error in told, answer
            return "handoff_claimed"
        if lacking:
            assert answer.error == "not_settled", answer
            return answer.error
        assert answer.word == outcome, answer
        self.model.settle(self.rig.places[at], outcome)
        self.model.read(who)
        self.claims.pop(who, None)
        return "settled"

    # -- what happens to files -------------------------------------------------------------------

    @rule(who=people, at=folders, path=files, word=st.sampled_from(WORDS))
    def edit(self, who: str, at: str, path: str, word: str) -> None:
        at = self._place(at)
        self._edit(at, path, word)
        self._look(who, at)

    def _edit(self, at: str, path: str, word: str) -> None:
        stem = path.rpartition("/")[2].partition(".")[0]
        now = self.rig.places[at].files.get(path, "")
        content = now.replace("\r\n", "\n").replace("\n", "\r\n") if word == "ends" else f"{stem} {word}\n"
        self.rig.edit(at, path, content if word and content else None)

    @rule(who=people, at=folders, path=names, to=names)
    def rename(self, who: str, at: str, path: str, to: str) -> None:
        at = self._place(at)
        files = self.rig.places[at].files
        if path in files and to not in files:
            self.rig.rename(at, path, to)
            self._look(who, at)

    @rule(who=people, at=st.sampled_from((HERE, "clone", "shallow", "tree")))
    def commit(self, who: str, at: str) -> None:
        at = self._place(at)
        self.rig.commit(at)
        self._look(who, at)

    @rule(who=people, at=st.sampled_from((HERE, "clone")), branch=st.sampled_from(BRANCHES))
    def switch(self, who: str, at: str, branch: str) -> None:
        at = self._place(at)
        self.rig.switch(at, branch)
        self._look(who, at)

    @rule(who=people, name=st.sampled_from(("clone", "shallow", "tree")))
    def clone(self, who: str, name: str) -> None:
        if name not in self.rig.places:
            self.rig.worktree(name) if name == "tree" else self.rig.clone(name, shallow=name == "shallow")
            self._look(who, name)

    def _place(self, name: str) -> str:
        return name if name in self.rig.places else HERE

    def check_invariants(self, *given: Any) -> None:
        """What is called after every step."""
        super().check_invariants(*given)
        STEPS[self.door_name] += 1


def _part(against: set[Reason], which: str) -> tuple[set[Reason], list[str]]:
    """What is accepted of all that contests, and by which words."""
    first = min(against)
    taken = {each for each in against if which == "all" or each.code == first.code}
    if which == "code":
        return taken, [first.code]
    if which == "one":
        taken = {each for each in taken if each.subject == first.subject}
    return taken, sorted({f"{each.code}:{each.subject}" for each in taken})


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DOORS)
def test_every_answer_is_as_the_rules_say(name: str) -> None:
    machine = seed(SEED)(type("Machine", (Machine,), {"door_name": name}))
    examples, steps = (LONG_SIZES if IS_LONG else SIZES)[name]
    quiet = [HealthCheck.too_slow]
    how = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=quiet, deadline=None)
    run_state_machine_as_test(machine, settings=how)
    print(f"{name}: {STEPS[name]} steps, seed {SEED}; met: {dict(MET.most_common())}")
