"""Runs that are begun, failed, killed, skipped, rewound, accepted, forked, edited and touched, in any order.

After each of these everything is compared with what the rules of docs/rules.md say (oracle.py): the plan with what the
resume then does, the world outside, the receipts, and `verify`.
"""

from collections.abc import Callable, Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast import Plan, Receipt, failpoints
from outlast.errors import OutlastError

from .oracle import FILE, UNKNOWN, UNTIL, Call, Group, Model, Node, Past, Step, Way, call_of, names_of, steps_of
from .python_rig import PythonRig
from .rig import EACH, FIRST, LOOP, SUB, WHY, Rig, key_of, name_of

HOW = ("fail", "fail late", "refuse", "kill", "kill late")
AIMS = ("", "effect")  # at which steps
PARTIAL = ("keep", "restore", "ask")
BACK = ("", "", "look", "make")  # resume_to of the step `use`
KINDS = ("file", "file", "python")
GROUPS: tuple[tuple[Group, ...], ...] = ((), (LOOP,), (EACH,), (SUB,), (LOOP, EACH, SUB))
POINTS = tuple(point for point in failpoints.POINTS if not point.startswith("blob."))
ITEMS = (("a", "b"), ("b", "a"), ("a", "c", "b"), ("b",))
MOST_RUNS, MOST_STEPS = 3, 9
IS_LONG = (settings.default or settings()).max_examples > 40  # with --crash-long


@dataclass
class Known:
    """A run: what it must be, and what of it was seen."""

    id: str
    model: Model
    seen: dict[str, list[Receipt]] = field(default_factory=dict)  # by run: it, and its children
    damaged: int = 0
    is_out_of_order: bool = False  # it was killed between two writes: where its calls stand is not known for sure
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

    @initialize(
        at=st.integers(0, 39),
        how=st.sampled_from(HOW),
        aim=st.sampled_from(AIMS),
        writes=st.sampled_from(PARTIAL),
        back=st.sampled_from(BACK),
        kind=st.sampled_from(KINDS),
        groups=st.sampled_from(GROUPS),
        where=st.integers(0, 4),
    )
    def begin(
        self, at: int, how: str, aim: str, writes: str, back: str, kind: str, groups: tuple[Group, ...], where: int
    ) -> None:
        if kind == "python":
            self.rig.end()
            self.rig, back = PythonRig(), ""
        first = (replace(step, writes=writes) if step.writes else step for step in FIRST)
        steps = [replace(step, back=back) if step.id == "use" else step for step in first]
        self.rig.write([*steps[:where], *groups, *steps[where:]])
        known = Known("", Model(is_file=self.rig.sees_ahead))
        self._go(known, self._name(at, aim), how)
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
            self._go(known, self._name(at), how)

    # What is drawn must not depend on what happened: whether a process that was killed had said a word is chance, and
    # a precondition that asks for it makes the same choices another sequence.
    @rule(run=st.integers(0, 9), at=st.integers(0, 9), how=st.sampled_from(("", "", *HOW)))
    def resume_in_doubt(self, run: int, at: int, how: str) -> None:
        """One that has an effect in doubt: chance alone comes to it too seldom."""
        doubtful = self._doubtful()
        if not doubtful:
            return
        known = doubtful[run % len(doubtful)]
        event("resumed: in doubt")
        self._go(known, self._name(at), how)

    @precondition(lambda self: self._has_groups())
    @rule(run=st.integers(0, 9), at=st.integers(0, 9), how=st.sampled_from(("", "", *HOW)))
    def resume_child(self, run: int, at: int, how: str) -> None:
        """The run of another flow alone: this one hears of it when it is resumed."""
        known = self._unfinished(run)
        children = [each for each in known.model.children.items() if each[1].id] if known else []
        left = [(call.read, child) for call, child in children if child.status != "succeeded"]
        groups = {node.file: node for node in self.rig.flow if isinstance(node, Group)}
        if known is None or not left or left[0][0] not in groups:
            return
        (file, child), rig, files = left[0], self.rig, self.rig.files()
        flow, name = groups[file].steps, names_of(groups[file].steps)[at % len(groups[file].steps)]
        diary, world, were = len(rig.diary()), len(rig.world()), {child.id: deepcopy(child.calls)}
        self._compare(rig.plan(child.id), child, child.forecast(flow, files), flow)
        way = child.go(flow, files, name, how)
        ended = rig.go(child.id, name, how)
        self._unheard(known, way, were, files)
        self._learn(known, files)
        self._happened(known, way, ended, name, how, files.get(FILE, ""), diary, world)
        event("resumed: a child")

    @rule(run=st.integers(0, 9))
    def accept(self, run: int) -> None:
        """Take upon oneself what refuses it, if something does."""
        known = self._unfinished(run)
        refused = known.model.refused(self.rig.flow, self.rig.files()) if known else set[str]()
        if known is not None and refused:
            self._refused(known, refused)
            known.model.accept(self.rig.files())
            self._go(known, "", "", accept=sorted(refused))
            event(f"accepted: {sorted(refused)}")

    def _refused(self, known: Known, refused: set[str]) -> None:
        plan, before = self.rig.plan(known.id), self.rig.diary()
        assert plan.refused is not None, refused
        assert plan.refused.code == "contested", refused
        assert refused <= {reason.code for reason in plan.verdict.contesting}
        assert self.rig.go(known.id, "", "") == "contested"
        assert self.rig.diary() == before

    def _go(self, known: Known, at: str, how: str, accept: Collection[str] = ()) -> None:
        rig, model = self.rig, known.model
        files, diary, world = rig.files(), len(rig.diary()), len(rig.world())
        if known.id:
            self._compare(rig.plan(known.id, accept=accept), model, model.forecast(rig.flow, files))
        were = deepcopy({each.id: each.calls for each, _ in self._all_of(known)})
        way = model.go(rig.flow, files, at, how)
        ended = rig.go(known.id, at, how, accept)
        known.pending = False
        known.id = known.id or rig.newest()
        self._find_children(known)
        self._unheard(known, way, were, files)
        self._learn(known, files)
        self._happened(known, way, ended, at, how, files.get(FILE, ""), diary, world)

    @rule(run=st.integers(0, 9), point=st.sampled_from(POINTS), nth=st.integers(1, 12))
    def kill_at(self, run: int, point: str, nth: int) -> None:
        """Kill a resume between two writes: what is there then is what one of the ways up to there leaves."""
        known = self._unfinished(run)
        if known is None or known.pending or not self.rig.sees_ahead or self._has_groups():
            return
        if known.model.refused(self.rig.flow, self.rig.files()):
            return
        before, diary = known.model, len(self.rig.diary())
        files, old = self.rig.files(), {(r.call, r.attempt, r.status) for r in self.rig.receipts(known.id)}
        was_killed = self.rig.killed_at(known.id, f"{point}:{nth}")
        ran, now = tuple(self.rig.diary()[diary:]), self.rig.outlast.get(known.id).status
        self._learn(known, files)
        new = (r for r in self.rig.receipts(known.id) if (r.call, r.attempt, r.status) not in old)
        left = {receipt.step: receipt.status for receipt in new}
        ways = before.ways(self.rig.flow, files) if was_killed else [before.whole_way(self.rig.flow, files)]
        sent_back = self.rig.sent_back(known.id)
        ways = [(model, way) for model, way in ways if way.ran == ran and model.went_back == sent_back]
        fits = [model for model, _ in ways if model.fits(before, left, self.rig.flow, files)]
        assert fits, (point, nth, ran, left, [(way.ran, model.calls) for model, way in ways])
        known.model, known.is_out_of_order = fits[0], True
        known.model.status, known.model.asks = now, None if now == "crashed" else known.model.asks
        if self.rig.files().get(FILE, "") != files.get(FILE, ""):
            self._touched(each for each in self.runs if each is not known)
        event(f"killed at {point}: {was_killed}")

    def _unheard(self, known: Known, way: Way, were: dict[str, dict[Call, Past]], files: dict[str, str]) -> None:
        """Of a Python step that was killed at once there may be no word: then nobody knows of it."""
        if self.rig.sees_ahead or way.ended != "killed":
            return
        name, _, place = way.ran[-1].partition("@")
        step = next(step for step in steps_of(self.rig.flow) if step.id == name)
        call = call_of(step, files, f"[{place}]" if place else "")
        owner, run_id = next(each for each in self._all_of(known) if call in each[0].calls)
        begun = any((each.step, each.status) == (name, "started") for each in self.rig.plan(run_id).steps)
        if not begun:
            was = were.get(owner.id, {}).get(call)
            owner.forget(call, was, deaths=was.deaths if was else 0)

    def _learn(self, known: Known, files: dict[str, str]) -> None:
        assert {name: text for name, text in self.rig.files().items() if name != FILE} == {
            name: text for name, text in files.items() if name != FILE
        }
        for _, run_id in self._all_of(known):
            self.rig.learn(run_id)

    def _all_of(self, known: Known) -> list[tuple[Model, str]]:
        """A run and its children."""
        return [(known.model, known.id), *((child, child.id) for child in known.model.children.values() if child.id)]

    def _find_children(self, known: Known) -> None:
        for call, child in known.model.children.items():
            taken = {each.id for each in known.model.children.values()}
            child.id = child.id or self.rig.child(known.id, call.read, taken)

    def _has_groups(self) -> bool:
        return any(isinstance(node, Group) for node in self.rig.flow)

    def _name(self, at: int, aim: str = "") -> str:
        """A step by its number: of all, or of the effects alone."""
        effects = {step.id for step in steps_of(self.rig.flow) if step.is_effect}
        names = names_of(self.rig.flow)
        aimed = [name for name in names if aim != "effect" or name.partition("@")[0] in effects] or names
        return aimed[at % len(aimed)]

    def _doubtful(self) -> list[Known]:
        """Unfinished runs that have an effect in doubt, and that nothing refuses."""
        left = (known for known in self.runs if known.model.status != "succeeded")
        found = (known for known in left if any(model.has_doubt for model, _ in self._all_of(known)))
        return [known for known in found if not known.model.refused(self.rig.flow, self.rig.files())]

    def _compare(self, plan: Plan, model: Model, way: Way, flow: Iterable[Node] = ()) -> None:
        """(12) The plan names what runs, what is asked, and that nothing refuses it."""
        assert plan.refused is None, plan
        if not self.rig.sees_ahead:
            self._compare_receipts(plan, model, way, flow or self.rig.flow)
            return
        notes = {r.label for r in self.rig.receipts(plan.run_id) if r.mark == "flow"}
        runs = [name_of(label) for word in ("retry", "redo") for label in plan.of(word) if label not in notes]
        probed = [name_of(label) for label in plan.of("confirm")]
        probed += [name_of(label) for label in plan.ahead if label.rpartition("/")[2] in self._probed()]
        ahead = [name_of(label) for label in plan.ahead]
        runs += [name for name in dict.fromkeys([*probed, *ahead]) if name in way.ran or name not in probed]
        asked = {name_of(label) for label in plan.of("decide")}
        assert sorted(runs) == sorted(way.ran), ("plan", plan.steps, plan.ahead, way)
        inside = self._inside() if model.children else set[str]()
        assert asked == {name for name, _ in way.asked} - inside, (plan.steps, way)
        if way.ended == "succeeded":
            groups = {node.id for node in self.rig.flow if isinstance(node, Group)}
            assert not groups & set(plan.of("leave")), plan.steps

    def _probed(self) -> set[str]:
        return {step.id for step in steps_of(self.rig.flow) if step.kind == "probed"}

    def _inside(self) -> set[str]:
        """Steps of other flows: their runs ask."""
        subs = (node for node in self.rig.flow if isinstance(node, Group) and node.kind == "sub")
        return {step.id for sub in subs for step in sub.steps}

    def _compare_receipts(self, plan: Plan, model: Model, way: Way, flow: Iterable[Node]) -> None:
        """(12) The plan of a Python flow says of each receipt what it is good for, if the flow asks for that call."""
        labels = {r.label: self.rig.known[key_of(r)] for r in self.rig.receipts(plan.run_id)}
        for step in plan.steps:
            call = labels.get(step.label)  # none of what was decided, and no resume has heard
            if call is None or call not in model.asked_for(flow, self.rig.files()):
                continue
            match step.action:
                case "reuse":
                    assert call.name not in way.ran, (step, way)
                case "retry" | "redo":
                    assert call.name in way.ran or way.ended != "succeeded", (step, way)
                case "decide":
                    assert way.ended == "waiting", (step, way)

    def _happened(
        self, known: Known, way: Way, ended: str, at: str, how: str, before: str, diary: int, world: int
    ) -> None:
        rig = self.rig
        assert tuple(rig.diary()[diary:]) == way.ran, f"{ended} {rig.diary()[diary:]} {way} {rig.said}"
        assert rig.files().get(FILE, "") == way.file
        if way.file != before:
            self._touched(each for each in self.runs if each is not known)
        assert ended == ("crashed" if way.ended == "killed" else way.ended), f"{ended} {way} {rig.said}"
        effects = {step.id for step in steps_of(rig.flow) if step.is_effect}
        nothing = at if how in ("fail", "refuse", "kill") else ""
        expected = [name for name in way.ran if name.partition("@")[0] in effects and name != nothing]
        assert [line.split()[0] for line in rig.world()[world:]] == expected
        event(f"ended: {ended} {' '.join(why for _, why in way.asked)}")

    # -- what people say -------------------------------------------------------------------------

    @rule(run=st.integers(0, 9), at=st.integers(0, 9), what=st.sampled_from(("skip", "retry")))
    def decide(self, run: int, at: int, what: str) -> None:
        picked = self._pick_any(run, at)
        if picked is None:
            return
        known, model, call, receipt = picked
        if known.model.damaged or known.pending or receipt.mark == "flow" or call.step == UNTIL.id:
            return
        allowed = model.can_skip(call)
        if what == "retry" and receipt.kind == "effect" and allowed:
            self.rig.told[receipt.key] += 1
        refused = refusal(lambda: self._say(receipt.run_id, receipt.label, what))
        assert bool(refused) != allowed, (what, call, refused)
        if refused:
            event(f"refused: {what}")
            return
        getattr(model, what)(call)
        known.pending = True
        event(f"decided: {what} {about(call, model, known)}")

    def _say(self, run_id: str, label: str, what: str) -> object:
        outlast = self.rig.outlast
        return outlast.retry(run_id, label) if what == "retry" else outlast.skip(run_id, label, result=0, why=WHY)

    @rule(run=st.integers(0, 9), choice=st.sampled_from(("reuse", "again")))
    def answer(self, run: int, choice: str) -> None:
        known = self._unfinished(run)
        if known is None or known.model.asks is None or known.model.asks[1] != "inputs_changed":
            return
        assert known.model.was is not None
        if choice == "reuse" and not known.model.calls[known.model.was].is_done:
            return
        waits = [w for w in self.rig.outlast.interrupts(known.id) if w.status == "open" and w.type == "inputs_changed"]
        known.model.answer(choice)
        self.rig.outlast.answer(waits[-1].id, {"choice": choice, "why": WHY})
        known.model.asks = None

    @rule(run=st.integers(0, 9), choice=st.sampled_from(("keep", "restore")))
    def answer_about_files(self, run: int, choice: str) -> None:
        known = self._unfinished(run)
        if known is None or known.model.asks is None or known.model.asks[1] != "partial" or known.pending:
            return
        waits = [w for w in self.rig.outlast.interrupts(known.id) if w.status == "open" and w.type == "partial"]
        self.rig.outlast.answer(waits[-1].id, {"choice": choice, "why": WHY})
        known.model.keep(known.model.asks[0], choice)
        known.model.asks = None

    @rule(run=st.integers(0, 9), at=st.integers(0, 9))
    def rewind(self, run: int, at: int) -> None:
        picked = self._pick_any(run, at)
        if picked is None or picked[0].is_out_of_order:
            return
        known, model, call, receipt = picked
        self.rig.outlast.rewind(receipt.run_id, receipt.label, why=WHY)
        model.rewind(model.meant(call, receipt.label))
        known.pending = True
        event(f"rewound: {about(call, model, known)}")

    @precondition(lambda self: self.rig.sees_ahead and self._has_groups())
    @rule(run=st.integers(0, 9))
    def rewind_to_another_flow(self, run: int) -> None:
        """To one that is not over: it has no receipt, and is meant by its name."""
        known = self._unfinished(run)
        model = known.model if known else Model()
        begun = [call for call in model.order if model.calls[call].kind == "spawn"]
        left = [call for call in begun if Call(call.scope, "") not in model.calls]
        if known is None or not left or known.is_out_of_order or model.damaged:
            return
        self.rig.outlast.rewind(known.id, left[0].scope, why=WHY)
        model.rewind(left[0])
        known.pending = True
        event("rewound: to another flow")

    @rule(run=st.integers(0, 9), at=st.integers(0, 9))
    def from_(self, run: int, at: int) -> None:
        known, call, receipt = self._pick(run, at)
        if known is None or receipt is None or known.is_out_of_order:
            return
        if known.model.refused(self.rig.flow, self.rig.files()):
            return
        rig, model, files = self.rig, known.model, self.rig.files()
        diary, world = len(rig.diary()), len(rig.world())
        model.rewind(model.meant(call, receipt.label))
        if model.refused(rig.flow, files):
            rig.outlast.rewind(known.id, receipt.label, why=WHY)
            return
        self._compare(rig.plan(known.id, from_step=receipt.label), model, model.forecast(rig.flow, files))
        way = model.go(rig.flow, files)
        ended = rig.from_(known.id, receipt.label)
        known.pending = False
        self._find_children(known)
        self._learn(known, files)
        event(f"from: {about(call, model, known)}")
        self._happened(known, way, ended, "", "", files.get(FILE, ""), diary, world)

    @rule(run=st.integers(0, 9), at=st.integers(0, 9), reuse=st.booleans())
    def fork(self, run: int, at: int, reuse: bool) -> None:
        known, call, receipt = self._pick(run, at, finished=True)
        if known is None or receipt is None or known.pending or known.is_out_of_order or len(self.runs) >= MOST_RUNS:
            return
        is_left = any(child.status != "succeeded" for child in known.model.children.values())  # and not taken over
        agreed = {"reuse_effects": reuse, "yes": is_left or not reuse}
        refused = refusal(lambda: self.rig.outlast.fork(known.id, receipt.label, why=WHY, **agreed))
        assert bool(refused) == known.model.damaged, refused
        if refused:
            return
        known_ids = {each.id for each in self.runs}
        (made,) = [run.id for run in self.rig.outlast.runs() if not run.parent and run.id not in known_ids]
        self.runs.append(Known(made, known.model.fork(known.model.meant(call, receipt.label), reuse=reuse)))
        event(f"forked: {about(call, known.model, known)}")

    # -- what happens to files, flows and records ------------------------------------------------

    @rule(name=st.sampled_from(("look.in", "pay.in")), text=st.sampled_from(("one", "two", "three")))
    def touch(self, name: str, text: str) -> None:
        self.rig.touch(name, text)

    @rule(what=st.sampled_from(("remove", "edit")))
    def touch_what_was_made(self, what: str) -> None:
        if FILE in self.rig.files():
            self.rig.remove(FILE) if what == "remove" else self.rig.touch(FILE, "edited")
            self._touched(self.runs)

    @rule(at=st.integers(0, 9), to=st.integers(0, 9), what=st.sampled_from(("code", "rename", "move", "add", "remove")))
    def edit(self, at: int, to: int, what: str) -> None:
        self._write(self._edited(list(self.rig.flow), at, to, what))

    @precondition(lambda self: self._has_groups())
    @rule(
        group=st.integers(0, 9),
        at=st.integers(0, 9),
        to=st.integers(0, 9),
        what=st.sampled_from(("round", "code", "rename", "move", "add", "remove")),
    )
    def edit_inside(self, group: int, at: int, to: int, what: str) -> None:
        flow = list(self.rig.flow)
        groups = [place for place, node in enumerate(flow) if isinstance(node, Group)]
        place = groups[group % len(groups)]
        found = flow[place]
        assert isinstance(found, Group)
        if what == "round":
            flow[place] = replace(found, rounds=1 + to % 4, items=ITEMS[to % len(ITEMS)])
        else:
            steps = self._edited(list(found.steps), at, to, what)
            flow[place] = replace(found, steps=tuple(step for step in steps if isinstance(step, Step)))
        self._write(flow)

    def _edited(self, flow: list[Node], at: int, to: int, what: str) -> list[Node]:
        at, to = at % len(flow), to % len(flow)
        node = flow[at]
        match what:
            case "code" if isinstance(node, Step):
                flow[at] = replace(node, note=str(int(node.note) + 1))
            case "rename" if len(node.id) < 8 and (isinstance(node, Step) or node.kind == "sub"):
                old, new = node.id, f"{node.id}x"
                flow[at] = replace(node, id=new)
                flow = [replace(n, back=new) if isinstance(n, Step) and n.back == old else n for n in flow]
            case "move":
                flow.insert(to, flow.pop(at))
            case "add" if len(flow) < MOST_STEPS:
                taken = {step.id for step in steps_of(self.rig.flow)}
                flow.insert(to, Step(next(f"new{number}" for number in range(99) if f"new{number}" not in taken)))
            case "remove" if len(flow) > 1:
                flow.pop(at)
        return flow

    def _write(self, flow: list[Node]) -> None:
        earlier = [{before.id for before in flow[:place]} for place in range(len(flow))]
        kept = zip(flow, earlier, strict=True)
        self.rig.write(replace(s, back=s.back if s.back in e else "") if isinstance(s, Step) else s for s, e in kept)

    @rule(run=st.integers(0, 9), at=st.integers(0, 9))
    def damage(self, run: int, at: int) -> None:
        known, call, receipt = self._pick(run, at)
        if known is None or receipt is None or not receipt.delivered or receipt.broken or known.pending:
            return
        if not known.model.calls[call].is_done:
            return
        self.rig.damage(known.id, receipt)
        known.model.damage(call)
        known.damaged += 1

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def attempts_are_only_added(self) -> None:
        """(13)"""
        for known in self.runs:
            for _, run_id in self._all_of(known):
                self._only_added(known, run_id)

    def _only_added(self, known: Known, run_id: str) -> None:
        now = self.rig.receipts(run_id)
        whole = {(receipt.call, receipt.attempt): receipt for receipt in now if not receipt.broken}
        broken = {(receipt.call, receipt.attempt) for receipt in now if receipt.broken}
        assert len(whole) == len([receipt for receipt in now if not receipt.broken]), now
        assert bool(broken) <= bool(known.damaged), now
        for old in known.seen.get(run_id, ()):
            new = whole.get((old.call, old.attempt))
            is_there = new is not None and (new == old or is_settled_later(old, new))
            assert is_there or (old.call, old.attempt) in broken, (old, new)
        known.seen[run_id] = now

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

    def _touched(self, runs: Iterable[Known]) -> None:
        """FILE was, and not by these runs."""
        for known in runs:  # of one that was killed between two writes nobody knows when its command was over
            for past in known.model.calls.values():
                past.touched = past.before != UNKNOWN and not known.is_out_of_order

    def _unfinished(self, run: int) -> Known | None:
        left = [known for known in self.runs if known.model.status != "succeeded"]
        return left[run % len(left)] if left else None

    def _pick(self, run: int, at: int, *, finished: bool = False) -> tuple[Known | None, Call, Receipt | None]:
        """A run, one of its calls, and the newest receipt of that."""
        known = self.runs[run % len(self.runs)] if finished else self._unfinished(run)
        calls = list(known.model.calls) if known is not None else []
        if known is None or not calls:
            return None, Call("", ""), None
        call = calls[at % len(calls)]
        return known, call, self.rig.last(known.id, call)

    def _pick_any(self, run: int, at: int) -> tuple[Known, Model, Call, Receipt] | None:
        """The same of an unfinished run or one of its children that is not finished either: also whose call it is."""
        known = self._unfinished(run)
        owners = [each for each in self._all_of(known) if each[0].status != "succeeded"] if known else []
        found = [(model, run_id, call) for model, run_id in owners for call in model.calls]
        if known is None or not found:
            return None
        model, run_id, call = found[at % len(found)]
        receipt = self.rig.last(run_id, call)
        return (known, model, call, receipt) if receipt is not None else None


def about(call: Call, model: Model, known: Known) -> str:
    """What kind of call it is, for the statistics."""
    if model is not known.model:
        return "in another flow"
    place = "a round or item" if "[" in call.scope else "the flow"
    return "a group" if model.calls.get(call, UNSEEN).kind == "note" else f"a step of {place}"


UNSEEN = Past("step", "new")


def refusal(work: Callable[[], object]) -> str:
    """The error that it raises, if it does."""
    try:
        work()
    except OutlastError as error:
        return str(error)
    return ""


def is_settled_later(old: Receipt, new: Receipt) -> bool:
    """An attempt that had no outcome has one now. What a person gave is an attempt of its own (7)."""
    return not old.delivered and old.seq <= new.seq and new.status != "skipped"


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=300 if IS_LONG else 8,
    stateful_step_count=30 if IS_LONG else 12,
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
)
TestMachine = pytest.mark.timeout(3600)(TestMachine)
