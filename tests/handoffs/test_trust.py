"""The verdict on a handoff as a pure rule: what can only make it worse, what clears it, and what never matters."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.files.snapshot import ABSENT, Binding, Bound
from outlast.handoffs.handoff import Evidence, Finding, Handoff, Lint, key_of, label_of
from outlast.handoffs.verdict import (
    CLEARED_BY_CHECKS,
    ClaimWork,
    HandoffFacts,
    Holder,
    Observed,
    reasons_of,
    verdict_of,
)
from outlast.ledger.verdict import WEIGHTS, Reason, Verdict, judge

NOW = 1_800_000_000_000_000
DAY = 86_400_000_000
RANK = {"trusted": 0, "candidate": 1, "contested": 2}
PATHS = ("a.py", "b.py", "src/c.py")
CHECKS = ("make test", {"run": "pytest", "cwd": "src"}, {"file": "a.py", "exists": True})
MUSTS = ({"file": "a.py", "contains": "x"}, "the public names")


def handoff(**changed: Any) -> Handoff:
    fields: dict[str, Any] = {
        "anchor": "task:x",
        "summary": "s",
        "handoff_text": "t",
        "id": "h1",
        "scope": "default",
        "revision": 1,
        "actor": "ann",
        "stored_us": NOW - DAY,
        "expires_us": NOW + 29 * DAY,
        "lint": Lint(100),
        "binding": bind(),
        "acceptance_checks": CHECKS[2:],
    }
    return Handoff(**fields | changed)


def bind(files: dict[str, Bound] | None = None, **changed: Any) -> Binding:
    given = {"a.py": plain("1")} if files is None else files
    return Binding(root="/repo", host="here", files=given, **changed)


def plain(content: str, mode: Any = "file") -> Bound:
    return Bound(mode, content * 64, content * 40, 1)


def evidence(check: Any = CHECKS[0], **changed: Any) -> Evidence:
    fields: dict[str, Any] = {"passed": True, "at": NOW, "by": "ann", "where": "here", "runner": "runner"}
    return Evidence(check=check, **fields | {"when": "recover"} | changed)


def codes(known: HandoffFacts, seen: Observed | None, at: int = NOW) -> set[str]:
    return {reason.code for reason in reasons_of(known, seen, at)}


def passed(*checks: Any, **changed: Any) -> dict[str, Evidence]:
    return {key_of(check): evidence(check, **changed) for check in checks}


UNREAD = Bound("file", why="unreadable")


# -- whatever was recorded and seen ------------------------------------------------------------------

bounds = st.sampled_from([ABSENT, plain("1"), plain("2"), plain("1", "exec"), UNREAD])
files = st.dictionaries(st.sampled_from(PATHS), bounds, max_size=3)
evidences = st.builds(
    evidence,
    st.sampled_from(CHECKS),
    passed=st.booleans(),
    runner=st.sampled_from(["runner", "client", "self"]),
    content=st.sampled_from(["", "c1", "c2"]),
    by=st.sampled_from(["ann", "ben"]),
    exit=st.sampled_from([None, 0, 1]),
)
DIRTY = st.sampled_from([("", ()), ("d1", ("z.py",)), ("d2", tuple("opqrstuv"))])


def looked_at(found: dict[str, Bound], dirty: tuple[str, tuple[str, ...]], **changed: Any) -> Binding:
    return bind(found, dirty=dirty[0], dirty_files=dirty[1], **changed)


def sight(binding: Binding, relation: Any, musts: dict[str, str], checks: list[Evidence]) -> Observed:
    """Only a commit has a relation to another."""
    commit = "" if relation == "none" else "e" * 40
    return Observed(replace(binding, commit=commit), relation, musts, {each.key: each for each in checks})


bindings = st.builds(
    looked_at,
    files,
    DIRTY,
    folders=st.sampled_from([(), ("src/",)]),
    environment=files,
    commit=st.sampled_from(["", "c" * 40]),
    branch=st.sampled_from(["", "main", "side"]),
)
handoffs = st.builds(
    handoff,
    binding=st.none() | bindings,
    acceptance_checks=st.lists(st.sampled_from(CHECKS), max_size=3, unique_by=key_of).map(tuple),
    must_keep=st.lists(st.sampled_from(MUSTS), max_size=2, unique_by=key_of).map(tuple),
    baseline=st.lists(evidences, max_size=3, unique_by=lambda each: each.key).map(tuple),
    lint=st.sampled_from([Lint(100), Lint(40, (Finding("no_files", "target_files", "none", "name them"),), True)]),
    expires_us=st.sampled_from([NOW, NOW + DAY]),
    masked=st.sampled_from([(), ("summary",)]),
    rival=st.sampled_from(["", "ben"]),
    claim=st.sampled_from(["", "print"]),
    revision=st.sampled_from([1, 2]),
)
knowns = st.builds(
    HandoffFacts,
    handoff=handoffs,
    newest=st.just(2),
    superseded_by=st.sampled_from(["", "task:y"]),
    blobs=st.dictionaries(st.sampled_from(["b" * 64, "e" * 64]), st.sampled_from(["missing", "it was changed"])),
    holder=st.none() | st.builds(Holder, st.just("ben"), st.just(NOW), st.booleans()),
    work=st.lists(st.builds(ClaimWork, st.sampled_from(["ann", "ben"]), files, st.none() | files), max_size=2).map(
        tuple
    ),
    evidence=st.lists(evidences, max_size=3).map(tuple),
    composed=st.booleans(),
)
looks = st.builds(
    sight,
    bindings,
    st.sampled_from(["none", "same", "ahead", "apart", "unknown"]),
    st.dictionaries(st.sampled_from([key_of(must) for must in MUSTS]), st.sampled_from(["", "does not contain 'x'"])),
    st.lists(evidences, max_size=3),
)
sights = st.none() | looks
some_checks = st.lists(st.sampled_from(CHECKS), min_size=1, max_size=3, unique_by=key_of).map(tuple)


@settings(max_examples=400)
@given(knowns, sights)
def test_every_reason_is_known_says_what_was_found_and_what_to_do(known: HandoffFacts, seen: Observed | None) -> None:
    for reason in reasons_of(known, seen, NOW):
        assert reason.code in WEIGHTS
        assert all((reason.subject, reason.expected, reason.found, reason.advice))


@given(knowns, sights)
def test_the_same_facts_give_the_same_verdict(known: HandoffFacts, seen: Observed | None) -> None:
    assert verdict_of(known, seen, NOW) == verdict_of(replace(known), seen, NOW)


@given(knowns, sights, st.randoms(use_true_random=False))
def test_the_order_of_files_evidence_and_reasons_never_matters(
    known: HandoffFacts, seen: Observed | None, random: Any
) -> None:
    verdict = verdict_of(known, seen, NOW)
    mixed = verdict_of(_mixed_known(known, random), _mixed_seen(seen, random), NOW)
    assert {(one.code, one.subject, one.found) for one in mixed.reasons if one.code != "checks_not_run"} == {
        (one.code, one.subject, one.found) for one in verdict.reasons if one.code != "checks_not_run"
    }
    assert mixed.word == verdict.word  # checks that were not run are told in the order they were given in
    reasons = [*verdict.reasons, *verdict.reasons]
    random.shuffle(reasons)
    assert judge(reasons) == verdict


def _mixed(found: dict[str, Any], random: Any) -> dict[str, Any]:
    return dict(random.sample([*found.items()], len(found)))


def _mixed_binding(binding: Binding, random: Any) -> Binding:
    dirty = tuple(random.sample(binding.dirty_files, len(binding.dirty_files)))
    mixed = {name: _mixed(getattr(binding, name), random) for name in ("files", "environment")}
    return replace(binding, dirty_files=dirty, **mixed)


def _mixed_known(known: HandoffFacts, random: Any) -> HandoffFacts:
    """The order of claims and of what was said of one check is what happened, and stays."""
    was = known.handoff
    checks = tuple(random.sample(was.acceptance_checks, len(was.acceptance_checks)))
    baseline = tuple(random.sample(was.baseline, len(was.baseline)))
    binding = _mixed_binding(was.binding, random) if was.binding else None
    mixed = replace(was, acceptance_checks=checks, baseline=baseline, binding=binding)
    said = tuple(sorted(known.evidence, key=lambda each: each.key))  # stable: each check's own order is kept
    return replace(known, handoff=mixed, evidence=said, blobs=_mixed(dict(known.blobs), random))


def _mixed_seen(seen: Observed | None, random: Any) -> Observed | None:
    if seen is None:
        return None
    checks = _mixed(dict(seen.checks), random)
    return replace(seen, binding=_mixed_binding(seen.binding, random), checks=checks)


# -- what can only make it worse ---------------------------------------------------------------------

WORSE: dict[str, Any] = {
    "a rival": lambda known: replace(known, handoff=replace(known.handoff, rival="eve")),
    "another's claim": lambda known: replace(known, holder=Holder("eve", NOW, mine=False)),
    "a lost blob": lambda known: replace(known, blobs={**known.blobs, "f" * 64: "missing"}),
    "a spoilt blob": lambda known: replace(known, blobs={**known.blobs, "f" * 64: "it was changed"}),
    "a reason of the run": lambda known: replace(
        known, given=(*known.given, Reason("effect_in_doubt", "send", "an outcome", "none", "decide"))
    ),
    "a broken record": lambda known: replace(known, broken="its payload was changed"),
}


@pytest.mark.parametrize("fact", WORSE)
@given(known=knowns, seen=sights)
def test_a_contesting_fact_never_improves_the_verdict(fact: str, known: HandoffFacts, seen: Observed | None) -> None:
    before, after = verdict_of(known, seen, NOW), verdict_of(WORSE[fact](known), seen, NOW)
    assert after.word == "contested"
    assert RANK[after.word] >= RANK[before.word]


@given(knowns, looks, bindings, st.sampled_from(PATHS), st.sampled_from([plain("9"), plain("9", "link"), UNREAD]))
def test_a_file_that_changed_never_improves_the_verdict(
    known: HandoffFacts, seen: Observed, bound: Binding, path: str, changed: Bound
) -> None:
    """Under nobody's claim: what changed under one is progress, which only weakens."""
    bound = replace(bound, files=bound.files | {path: plain("1")})
    known = replace(known, work=(), handoff=replace(known.handoff, binding=bound))
    same = seen.binding.files | {path: plain("1")}
    before = verdict_of(known, replace(seen, binding=replace(seen.binding, files=same)), NOW)
    now = replace(seen.binding, files=same | {path: changed})
    after = verdict_of(known, replace(seen, binding=now), NOW)
    assert after.word == "contested"
    assert {*before.reasons} < {*after.reasons}


@given(knowns, sights)
def test_a_broken_record_is_believed_in_nothing_else(known: HandoffFacts, seen: Observed | None) -> None:
    broken = replace(known, broken="its payload was changed", broken_record="entry handoff task:x/1")
    (reason,) = reasons_of(broken, seen, NOW)
    assert (reason.code, reason.subject, reason.found) == (
        "integrity_broken",
        "entry handoff task:x/1",
        "its payload was changed",
    )


# -- checks that the runner passed -------------------------------------------------------------------


@given(knowns, looks, some_checks)
def test_checks_that_the_runner_passed_clear_what_they_may_and_nothing_else(
    known: HandoffFacts, seen: Observed, checks: tuple[Any, ...]
) -> None:
    was = replace(known.handoff, acceptance_checks=checks, baseline=())  # what failed then and passes now is news
    known = replace(known, handoff=was)
    before = codes(known, replace(seen, checks={}))
    after = codes(known, replace(seen, checks=passed(*checks)))
    told = {"check_regressed", "evidence_contradicted", "failed_before"}  # what is known of the checks, until they run
    assert before - after == before & {*CLEARED_BY_CHECKS, "checks_not_run", *told}
    assert after - before == set()


@given(knowns, looks, some_checks, st.sampled_from(["self", "failed", "missing"]))
def test_checks_that_were_not_passed_by_the_runner_clear_nothing(
    known: HandoffFacts, seen: Observed, checks: tuple[Any, ...], how: str
) -> None:
    weak = replace(known.handoff, acceptance_checks=checks, lint=Lint(10, (), True), expires_us=NOW)
    known = replace(known, composed=True, handoff=weak)
    ran = passed(*checks)
    key = key_of(checks[0])
    if how == "missing":
        del ran[key]
    else:
        changed = {"passed": False} if how == "failed" else {"runner": "self"}
        ran[key] = evidence(checks[0], **changed)
    assert {"auto_composed", "weak", "stale"} <= codes(known, replace(seen, checks=ran))


def test_what_clears_is_as_specified() -> None:
    assert CLEARED_BY_CHECKS == ("auto_composed", "self_reported", "weak", "stale")


# -- acceptance --------------------------------------------------------------------------------------

REASON = Reason("file_changed", "a.py", "file 111", "file 222", "look")


def test_an_acceptance_holds_for_the_reason_as_found() -> None:
    accepted = [REASON.fingerprint]
    reworded = replace(REASON, expected="as stored", advice="another wording")
    assert judge([REASON]).unaccepted(accepted) == ()
    assert judge([reworded]).unaccepted(accepted) == ()


@pytest.mark.parametrize("other", [{"code": "file_missing"}, {"subject": "b.py"}, {"found": "file 333"}])
def test_another_code_subject_or_finding_is_not_accepted_with_it(other: dict[str, str]) -> None:
    changed = replace(REASON, **other)
    assert judge([REASON, changed]).unaccepted([REASON.fingerprint]) == (changed,)


@given(knowns, sights)
def test_accepting_all_that_contests_leaves_nothing_and_keeps_the_verdict(
    known: HandoffFacts, seen: Observed | None
) -> None:
    verdict = verdict_of(known, seen, NOW)
    assert verdict.unaccepted([one.fingerprint for one in verdict.reasons]) == ()
    assert {one.code for one in verdict.unaccepted([])} == {one.code for one in verdict.contesting}
    assert Verdict(verdict.word, verdict.reasons) == verdict


# -- what is hard to reach in real life --------------------------------------------------------------

HALF = {"a.py": plain("1"), "b.py": ABSENT}
GIT = bind(commit="c" * 40, branch="main")


def at_commit(relation: Any, **changed: Any) -> Observed:
    return Observed(replace(GIT, **changed), relation)


TABLE: dict[str, tuple[HandoffFacts, Observed | None, str, set[str]]] = {
    "nothing changed": (HandoffFacts(handoff=handoff(), newest=1), Observed(bind()), "trusted", {"checks_not_run"}),
    "a handoff without checks": (
        HandoffFacts(handoff=handoff(acceptance_checks=()), newest=1),
        Observed(bind()),
        "candidate",
        {"no_checks"},
    ),
    "a target that was not there, and is not": (
        HandoffFacts(handoff=handoff(target_files=("a.py", "b.py"), binding=bind(HALF)), newest=1),
        Observed(bind(HALF)),
        "candidate",
        {"target_absent", "checks_not_run"},
    ),
    "a file to be made that was not there, and is not": (
        HandoffFacts(handoff=handoff(target_files=("a.py",), creates=("b.py",), binding=bind(HALF)), newest=1),
        Observed(bind(HALF)),
        "trusted",
        {"checks_not_run"},
    ),
    "composed from a run": (
        HandoffFacts(handoff=handoff(binding=None, source="run"), newest=1, composed=True),
        Observed(bind({})),
        "candidate",
        {"checks_not_run", "auto_composed"},
    ),
    "composed, and nobody looked": (
        HandoffFacts(handoff=handoff(binding=None), newest=1, composed=True),
        None,
        "candidate",
        {"checks_not_run", "auto_composed"},
    ),
    "composed with a must, and nobody looked": (
        HandoffFacts(handoff=handoff(binding=None, must_keep=MUSTS), newest=1, composed=True),
        None,
        "candidate",
        {"checks_not_run", "auto_composed", "unobserved"},
    ),
    "git cannot tell": (
        HandoffFacts(handoff=handoff(binding=GIT), newest=1),
        at_commit("unknown", commit="e" * 40),
        "candidate",
        {"checks_not_run", "diverged"},
    ),
    "the repository is gone": (
        HandoffFacts(handoff=handoff(binding=GIT), newest=1),
        at_commit("none", commit="", branch=""),
        "candidate",
        {"checks_not_run", "diverged"},
    ),
    "detached at the bound commit": (
        HandoffFacts(handoff=handoff(binding=GIT), newest=1),
        at_commit("same", branch=""),
        "trusted",
        {"checks_not_run"},
    ),
    "stored while detached": (
        HandoffFacts(handoff=handoff(binding=replace(GIT, branch="")), newest=1),
        at_commit("ahead", commit="e" * 40),
        "trusted",
        {"checks_not_run", "head_moved"},
    ),
    "stored outside of git": (
        HandoffFacts(handoff=handoff(), newest=1),
        at_commit("unknown", dirty="d1", dirty_files=("z",)),
        "trusted",
        {"checks_not_run"},
    ),
    "a file that could be read then and cannot now": (
        HandoffFacts(handoff=handoff(), newest=1),
        Observed(bind({"a.py": UNREAD})),
        "contested",
        {"checks_not_run", "file_changed"},
    ),
    "a file that could not be read then and can now": (
        HandoffFacts(handoff=handoff(binding=bind({"a.py": UNREAD})), newest=1),
        Observed(bind()),
        "contested",
        {"checks_not_run", "file_changed"},
    ),
    "the other one's claim that is ours": (
        HandoffFacts(handoff=handoff(), newest=1, holder=Holder("ann", NOW, mine=True)),
        Observed(bind()),
        "trusted",
        {"checks_not_run"},
    ),
    "an old revision of a superseded anchor is told once": (
        HandoffFacts(handoff=handoff(), newest=2, superseded_by="task:y"),
        Observed(bind()),
        "candidate",
        {"checks_not_run", "superseded"},
    ),
    "a check failed at store, reported since, and passes now": (
        HandoffFacts(
            handoff=handoff(acceptance_checks=CHECKS[:1], baseline=(evidence(passed=False, when="store"),)),
            newest=1,
            evidence=(evidence(runner="self"),),
        ),
        Observed(bind(), checks=passed(CHECKS[0])),
        "candidate",
        {"maybe_done"},
    ),
    "a report that the runner contradicts": (
        HandoffFacts(handoff=handoff(acceptance_checks=CHECKS[:1]), newest=1, evidence=(evidence(runner="self"),)),
        Observed(bind(), checks=passed(CHECKS[0], passed=False, exit=2)),
        "contested",
        {"evidence_contradicted"},
    ),
    "a report that the runner confirmed later": (
        HandoffFacts(
            handoff=handoff(acceptance_checks=CHECKS[:1]), newest=1, evidence=(evidence(runner="self"), evidence())
        ),
        Observed(bind()),
        "trusted",
        {"checks_not_run"},
    ),
    "evidence about a check that is no longer there": (
        HandoffFacts(handoff=handoff(baseline=(evidence(runner="self", when="store"),)), newest=1),
        Observed(bind()),
        "trusted",
        {"checks_not_run"},
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_rare_cases(case: str) -> None:
    known, seen, word, expected = TABLE[case]
    assert (verdict_of(known, seen, NOW).word, codes(known, seen)) == (word, expected)


@pytest.mark.parametrize(("at", "stale"), [(NOW - 1, False), (NOW, True), (NOW + DAY, True)])
def test_it_is_stale_from_the_moment_it_expires(at: int, stale: bool) -> None:
    known = HandoffFacts(handoff=handoff(expires_us=NOW), newest=1)
    assert ("stale" in codes(known, Observed(bind()), at)) == stale


def work(*changes: ClaimWork) -> HandoffFacts:
    return HandoffFacts(handoff=handoff(), newest=1, work=changes)


ONE, TWO, THREE = ({"a.py": plain(content)} for content in "123")
WORK: dict[str, tuple[HandoffFacts, str, set[str]]] = {
    "changed under a claim that holds": (work(ClaimWork("ben", ONE)), "2", {"partial_work"}),
    "changed under a claim that was settled": (work(ClaimWork("ben", ONE, TWO)), "2", {"partial_work"}),
    "changed after it was settled": (work(ClaimWork("ben", ONE, TWO)), "3", {"file_changed"}),
    "changed before the claim": (work(ClaimWork("ben", TWO)), "2", {"file_changed"}),
    "changed under the first of two claims": (
        work(ClaimWork("ben", ONE, TWO), ClaimWork("eve", TWO)),
        "2",
        {"partial_work"},
    ),
    "changed between two claims": (work(ClaimWork("ben", ONE, ONE), ClaimWork("eve", TWO)), "2", {"file_changed"}),
    "changed between, and again under the second": (
        work(ClaimWork("ben", ONE, ONE), ClaimWork("eve", TWO)),
        "3",
        {"partial_work"},
    ),
    "changed under both, and then as the first one left it": (
        work(ClaimWork("ben", ONE, TWO), ClaimWork("eve", TWO, THREE)),
        "2",
        {"file_changed"},
    ),
    "changed under a claim and put back": (work(ClaimWork("ben", ONE, TWO)), "1", set()),
}


@pytest.mark.parametrize("case", WORK)
def test_what_changed_under_a_claim_is_progress_and_what_changed_under_none_is_not(case: str) -> None:
    known, content, expected = WORK[case]
    assert codes(known, Observed(bind({"a.py": plain(content)}))) == expected | {"checks_not_run"}


def test_the_worker_is_named() -> None:
    reason, unrun = reasons_of(work(ClaimWork("ben", ONE, TWO), ClaimWork("eve", TWO)), Observed(bind(TWO)), NOW)
    assert unrun.code == "checks_not_run"
    assert reason.found.endswith("changed under the claim of ben")


@pytest.mark.parametrize(
    ("form", "label"),
    [
        ("make test", "make test"),
        ({"run": "pytest", "cwd": "src"}, "pytest (in src)"),
        ({"run": "pytest"}, "pytest"),
        ({"file": "a", "contains": "x"}, "a contains x"),
        ({"file": "a", "absent": True}, "a absent"),
        ({"file": "a"}, "a exists"),
    ],
)
def test_a_check_is_told_in_words(form: Any, label: str) -> None:
    assert label_of(form) == label
