"""Which runs may be removed: families as a whole, never with an unfinished run, only by every rule given."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.care.gc.runs import SweepRule, choose, families
from outlast.runs.run import FINISHED, STATUSES
from outlast.store.contract import Kin

SECOND = 1_000_000


def kin(key: int, **changed: object) -> Kin:
    run = Kin(key, f"r{key}", "default", "m:flow", "t", "succeeded", "", key * SECOND, "", None, 1)
    return run._replace(**changed)  # type: ignore[arg-type]


@st.composite
def stores(draw: st.DrawFn) -> list[Kin]:
    """Runs with any parents: in the store, gone, or even in a circle."""
    count = draw(st.integers(0, 14))
    parents = st.sampled_from(["", "gone", *(f"r{key}" for key in range(1, count + 1))])
    return [
        kin(
            key,
            status=draw(st.sampled_from(["succeeded"] * 4 + list(STATUSES))),
            seal=draw(st.sampled_from(["", "", "", "moved", "copy", "testimony"])),
            parent=draw(parents),
            flow=draw(st.sampled_from("ab")),
            ended_at=draw(st.integers(0, 100)) * SECOND,
        )
        for key in range(1, count + 1)
    ]


rules = st.builds(
    SweepRule,
    st.none() | st.integers(0, 100).map(lambda n: n * SECOND),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 5),
)


@given(stores())
def test_every_run_is_in_one_family_with_its_parent(runs: list[Kin]) -> None:
    found = families(runs)
    assert sorted(run.key for family in found for run in family.members) == [run.key for run in runs]
    home = {run.id: number for number, family in enumerate(found) for run in family.members}
    assert all(home[run.id] == home[run.parent] for run in runs if run.parent in home)
    assert len(found) == len(runs) - _joins(runs)


def _joins(runs: list[Kin]) -> int:
    """How many times a run and its parent were strangers before."""
    group = {run.id: {run.id} for run in runs}
    joined = 0
    for run in runs:
        if run.parent in group and group[run.parent] is not group[run.id]:
            joined += 1
            merged = group[run.parent] | group[run.id]
            group |= dict.fromkeys(merged, merged)
    return joined


@given(stores(), rules, st.integers(0, 120))
def test_an_unfinished_run_and_its_family_stay_whatever_the_rules(runs: list[Kin], rule: SweepRule, now: int) -> None:
    choice = choose(runs, rule, now * SECOND)
    going = {run.id for family in choice.going for run in family.members}
    unfinished = {run.id for run in runs if run.status not in FINISHED and run.seal in ("", "moved")}
    assert not going & unfinished
    assert all(run.parent not in unfinished for run in runs if run.id in going)
    assert all(run.parent not in going or run.id in going for run in runs)  # no child is left behind
    assert len(going) + sum(choice.kept.values()) == len(runs)
    assert bool(choice.kept["unfinished"]) == bool(unfinished)
    if not rule.given:
        assert not going


@given(stores(), rules, st.integers(0, 120))
def test_another_rule_only_ever_keeps_more(runs: list[Kin], rule: SweepRule, now: int) -> None:
    both = {family.root.id for family in choose(runs, rule, now * SECOND).going}
    for alone in (SweepRule(rule.older_than_us), SweepRule(keep=rule.keep)):
        if alone.given:
            assert both <= {family.root.id for family in choose(runs, alone, now * SECOND).going}


@given(stores(), st.integers(0, 3))
def test_the_newest_of_each_flow_stay(runs: list[Kin], keep: int) -> None:
    free = {family.root.id: family for family in choose(runs, SweepRule(keep=0), 0).going}
    going = {family.root.id for family in choose(runs, SweepRule(keep=keep), 0).going}
    for flow in "ab":
        of_flow = sorted(
            (family for family in free.values() if family.root.flow == flow), key=lambda f: (f.ended_at, f.root.key)
        )
        assert {family.root.id for family in of_flow[: max(0, len(of_flow) - keep)]} == {
            run for run in going if free[run].root.flow == flow
        }


def test_age_counts_from_the_last_end_in_a_family() -> None:
    runs = [kin(1, ended_at=0), kin(2, parent="r1", ended_at=90 * SECOND)]
    assert choose(runs, SweepRule(50 * SECOND), 100 * SECOND).kept == {"young": 2}
    (family,) = choose(runs, SweepRule(10 * SECOND), 100 * SECOND).going
    assert [run.id for run in family.members] == ["r2", "r1"]  # the root last


def test_the_count_is_by_scope_and_flow() -> None:
    runs = [kin(1), kin(2), kin(3, scope="other"), kin(4, flow="m:other")]
    choice = choose(runs, SweepRule(keep=1), 0)
    assert [family.root.id for family in choice.going] == ["r1"]
    assert choice.kept == {"newest": 3}


def test_a_scope_leaves_all_others_alone() -> None:
    runs = [kin(1), kin(2, scope="other"), kin(3, scope="other", parent="r1"), kin(4, scope="other")]
    choice = choose(runs, SweepRule(keep=0, scope="other"), 0)
    assert [family.root.id for family in choice.going] == ["r2", "r4"]
    assert choice.kept == {"scope": 2}


def test_what_is_held_or_damaged_stays() -> None:
    runs = [kin(1), kin(2, parent="r1"), kin(3, head=None), kin(4)]
    choice = choose(runs, SweepRule(keep=0), 0, frozenset({"r2"}))
    assert [family.root.id for family in choice.going] == ["r4"]
    assert choice.kept == {"held": 2, "damaged": 1}
