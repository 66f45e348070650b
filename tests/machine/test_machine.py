"""Runs that are begun, failed, killed, skipped, rewound, accepted, forked, edited and touched, in any order.

After each of these everything is compared with what the rules of docs/rules.md say (oracle.py): the plan with what the
resume then does, the world outside, the receipts, and `verify`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast import Plan, Receipt
from outlast.errors import OutlastError

from .oracle import FILE, Call, Model, Step, Way
from .rig import FIRST, WHY, Rig

HOW = ("fail", "fail late", "refuse", "kill", "kill late")
MOST_RUNS, MOST_STEPS = 3, 8
IS_LONG = (settings.default or settings()).max_examples > 40  # with --crash-long


@dataclass
class Known:
    """A run: what it must be, and what of it was seen."""

    id: str
    model: Model
    seen: list[Receipt] = field(default_factory=list)
    damaged: int = 0
    pending: bool = False  # somebody has decided something, and no resume has heard it yet


class Machine(RuleBasedStateMachine):
    """One home, one flow that is edited, and its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.runs: list[Known] = []

    def teardown(self) -> None:
        self.rig.end()

    # -- run, fail, kill -------------------------------------------------------------------------

    @initialize(at=st.integers(0, 4), how=st.sampled_from(HOW), writes=st.just("keep"))
    def begin(self, at: int, how: str, writes: str) -> None:
        self.rig.write(replace(step, writes=writes) if step.writes else step for step in FIRST)
        known = Known("", Model())
        self._go(known, FIRST[at].id, how)
        known.id = known.id or self.rig.newest()
        self.runs.append(known)

    @rule(run=st.integers(0, 9), at=st.integers(0, 9), how=st.sampled_from(("", "", *HOW)))
    def resume(self, run: int, at: int, how: str) -> None:
        known = self._unfinished(run)
        if known is None:
            return
        refused = known.model.refused(self.rig.flow, self.rig.files())
        if refused:
            self._refused(known, refused)
        else:
            self._go(known, self.rig.flow[at % len(self.rig.flow)].id, how)

    @rule(run=st.integers(0, 9))
    def accept(self, run: int) -> None:
        """Take upon oneself what refuses it, if something does."""
        known = self._unfinished(run)
        refused = known.model.refused(self.rig.flow, self.rig.files()) if known else set[str]()
        if known is not None and refused:
            self._refused(known, refused)
            known.model.accept(self.rig.files())
            self._go(known, "", "", accept=refused)
            event(f"accepted: {sorted(refused)}")

    def _refused(self, known: Known, refused: set[str]) -> None:
        plan, before = self.rig.plan(known.id), (self.rig.diary(), self.rig.receipts(known.id))
        assert plan.refused is not None, refused
        assert plan.refused.code == "contested", refused
        assert refused <= {reason.code for reason in plan.verdict.contesting}
        assert self.rig.go(known.id, "", "") == "contested"
        assert (self.rig.diary(), self.rig.receipts(known.id)) == before

    def _go(self, known: Known, at: str, how: str, accept: Collection[str] = ()) -> None:
        rig, model = self.rig, known.model
        files, diary, world = rig.files(), len(rig.diary()), len(rig.world())
        if known.id and not accept:
            self._compare(rig.plan(known.id), model, model.forecast(rig.flow, files))
        way = model.go(rig.flow, files, at, how)
        ended = rig.go(known.id, at, how, accept)
        known.pending = False
        known.id = known.id or rig.newest()
        self._learn(known, files)
        self._happened(way, ended, at, how, diary, world)

    def _learn(self, known: Known, files: dict[str, str]) -> None:
        assert {name: text for name, text in self.rig.files().items() if name != FILE} == {
            name: text for name, text in files.items() if name != FILE
        }
        self.rig.learn(known.id)

    def _compare(self, plan: Plan, model: Model, way: Way) -> None:
        """(12) The plan names what runs, what is asked, and that nothing refuses it."""
        assert plan.refused is None, plan
        steps = {step.label: step.step for step in plan.steps}
        runs = [steps[label] for word in ("retry", "redo") for label in plan.of(word)]
        probed = [steps[label] for label in plan.of("confirm")]
        runs += [step for step in probed if step in way.ran]
        asked = {steps[label] for label in plan.of("decide")}
        assert sorted([*runs, *plan.ahead]) == sorted(way.ran), ("plan", plan.steps, plan.ahead, way)
        assert asked == ({way.asked[0]} if way.asked else set()), (plan.steps, way)

    def _happened(self, way: Way, ended: str, at: str, how: str, diary: int, world: int) -> None:
        rig = self.rig
        assert tuple(rig.diary()[diary:]) == way.ran, (rig.diary()[diary:], way)
        assert ended == ("crashed" if way.ended == "killed" else way.ended), (ended, way)
        effects = {step.id for step in rig.flow if step.is_effect}
        nothing = at if how in ("fail", "refuse", "kill") else ""
        expected = [step for step in way.ran if step in effects and step != nothing]
        assert [line.split()[0] for line in rig.world()[world:]] == expected
        event(f"ended: {ended} {way.asked[1] if way.asked else ''}")

    # -- what people say -------------------------------------------------------------------------

    @rule(run=st.integers(0, 9), at=st.integers(0, 9), what=st.sampled_from(("skip", "retry")))
    def decide(self, run: int, at: int, what: str) -> None:
        known, call, receipt = self._pick(run, at)
        if known is None or receipt is None or known.model.damaged or known.pending:
            return
        allowed = known.model.can_skip(call)
        if what == "retry" and receipt.kind == "effect" and allowed:
            self.rig.told[receipt.key] += 1
        refused = refusal(lambda: self._say(known.id, receipt.label, what))
        assert bool(refused) != allowed, (what, call, refused)
        if refused:
            event(f"refused: {what}")
            return
        getattr(known.model, what)(call)
        known.pending = True

    def _say(self, run_id: str, label: str, what: str) -> object:
        outlast = self.rig.outlast
        return outlast.retry(run_id, label) if what == "retry" else outlast.skip(run_id, label, result=0, why=WHY)

    @rule(run=st.integers(0, 9), choice=st.sampled_from(("reuse", "again")))
    def answer(self, run: int, choice: str) -> None:
        known = self._unfinished(run)
        if known is None or known.model.asks is None or known.model.asks[1] != "inputs_changed":
            return
        waits = [w for w in self.rig.outlast.interrupts(known.id) if w.status == "open" and w.type == "inputs_changed"]
        known.model.answer(choice)
        self.rig.outlast.answer(waits[-1].id, {"choice": choice, "why": WHY})
        known.model.asks = None

    @rule(run=st.integers(0, 9), at=st.integers(0, 9))
    def rewind(self, run: int, at: int) -> None:
        known, call, receipt = self._pick(run, at)
        if known is not None and receipt is not None:
            self.rig.outlast.rewind(known.id, receipt.label, why=WHY)
            known.model.rewind(known.model.meant(call, receipt.label))
            known.pending = True

    @rule(run=st.integers(0, 9), at=st.integers(0, 9))
    def from_(self, run: int, at: int) -> None:
        known, call, receipt = self._pick(run, at)
        if known is None or receipt is None or known.model.refused(self.rig.flow, self.rig.files()):
            return
        rig, model, files = self.rig, known.model, self.rig.files()
        diary, world = len(rig.diary()), len(rig.world())
        model.rewind(model.meant(call, receipt.label))
        if model.refused(rig.flow, files):
            rig.outlast.rewind(known.id, receipt.label, why=WHY)
            return
        way = model.go(rig.flow, files)
        ended = rig.from_(known.id, receipt.label)
        known.pending = False
        self._learn(known, files)
        self._happened(way, ended, "", "", diary, world)

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(run=st.integers(0, 9), at=st.integers(0, 9), reuse=st.booleans())
    def fork(self, run: int, at: int, reuse: bool) -> None:
        known, call, receipt = self._pick(run, at, finished=True)
        if known is None or receipt is None or known.pending:
            return
        agreed = {"reuse_effects": reuse, "yes": not reuse}
        refused = refusal(lambda: self.rig.outlast.fork(known.id, receipt.label, why=WHY, **agreed))
        assert not refused or known.model.ever_damaged, refused
        if refused:
            return
        (made,) = [run.id for run in self.rig.outlast.runs() if run.id not in {each.id for each in self.runs}]
        self.runs.append(Known(made, known.model.fork(known.model.meant(call, receipt.label), reuse=reuse)))

    # -- what happens to files, flows and records ------------------------------------------------

    @rule(name=st.sampled_from(("look.in", "pay.in")), text=st.sampled_from(("one", "two", "three")))
    def touch(self, name: str, text: str) -> None:
        self.rig.touch(name, text)

    @rule(what=st.sampled_from(("remove", "edit")))
    def touch_what_was_made(self, what: str) -> None:
        if FILE in self.rig.files():
            self.rig.remove(FILE) if what == "remove" else self.rig.touch(FILE, "edited")

    @rule(at=st.integers(0, 9), to=st.integers(0, 9), what=st.sampled_from(("code", "rename", "move", "add", "remove")))
    def edit(self, at: int, to: int, what: str) -> None:
        flow = list(self.rig.flow)
        at, to = at % len(flow), to % len(flow)
        match what:
            case "code":
                flow[at] = replace(flow[at], note=str(int(flow[at].note) + 1))
            case "rename" if len(flow[at].id) < 8:
                flow[at] = replace(flow[at], id=f"{flow[at].id}x")
            case "move":
                flow.insert(to, flow.pop(at))
            case "add" if len(flow) < MOST_STEPS:
                taken = {step.id for step in flow}
                new = next(f"new{number}" for number in range(MOST_STEPS) if f"new{number}" not in taken)
                flow.insert(to, Step(new))
            case "remove" if len(flow) > 2:
                flow.pop(at)
        self.rig.write(flow)

    @rule(run=st.integers(0, 9), at=st.integers(0, 9))
    def damage(self, run: int, at: int) -> None:
        known, call, receipt = self._pick(run, at)
        if known is None or receipt is None or not receipt.delivered or known.damaged:
            return
        if known.model.calls[call].state != "done":
            return
        self.rig.damage(known.id, receipt)
        known.model.damage(call)
        known.damaged += 1

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def attempts_are_only_added(self) -> None:
        """(13)"""
        for known in self.runs:
            now = self.rig.receipts(known.id)
            whole = {(receipt.call, receipt.attempt): receipt for receipt in now if not receipt.broken}
            broken = {(receipt.call, receipt.attempt) for receipt in now if receipt.broken}
            assert len(whole) == len([receipt for receipt in now if not receipt.broken]), now
            assert bool(broken) <= bool(known.damaged), now
            for old in known.seen:
                new = whole.get((old.call, old.attempt))
                is_there = new is not None and (new == old or is_settled_later(old, new))
                assert is_there or (old.call, old.attempt) in broken, (old, new)
            known.seen = now

    @invariant()
    def effects_happen_once(self) -> None:
        """(5) By key, but for those that somebody let happen once more."""
        counts: dict[str, int] = {}
        for line in self.rig.world():
            counts[line.split()[1]] = counts.get(line.split()[1], 0) + 1
        assert all(count <= 1 + self.rig.told[key] for key, count in counts.items()), counts

    @invariant()
    def verify_names_what_was_damaged(self) -> None:
        """(14)"""
        problems = self.rig.outlast.verify().problems
        assert len(problems) == sum(known.damaged for known in self.runs), problems

    # -- which one -------------------------------------------------------------------------------

    def _unfinished(self, run: int) -> Known | None:
        left = [known for known in self.runs if known.model.status != "succeeded"]
        return left[run % len(left)] if left else None

    def _pick(self, run: int, at: int, *, finished: bool = False) -> tuple[Known | None, Call, Receipt | None]:
        """A run, one of its calls, and the newest receipt of that."""
        known = self.runs[run % len(self.runs)] if finished else self._unfinished(run)
        if known is None or not known.model.calls:
            return None, Call("", ""), None
        calls = list(known.model.calls)
        call = calls[at % len(calls)]
        return known, call, self.rig.last(known.id, call)


def refusal(work: Callable[[], object]) -> str:
    """The error that it raises, if it does."""
    try:
        work()
    except OutlastError as error:
        return str(error)
    return ""


def is_settled_later(old: Receipt, new: Receipt) -> bool:
    """An attempt that had no outcome has one now."""
    return not old.delivered and old.seq <= new.seq


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=300 if IS_LONG else 15,
    stateful_step_count=30 if IS_LONG else 12,
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
)
TestMachine = pytest.mark.timeout(3600)(TestMachine)
