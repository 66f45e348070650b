"""What must happen to a run, by the rules of docs/rules.md: a model that knows nothing of journals, homes or processes.

Each rule is named where it is kept: `(3)` is rule 3 of that page.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

DEATHS = 3
ROUNDS = 3  # the most rounds of a loop
FILE = "made.out"  # that one step adds lines to and another reads
UNKNOWN = "?"  # how FILE was, where no attempt has looked


@dataclass(frozen=True)
class Step:
    """A step of the flow, as its file has it."""

    id: str
    kind: str = "step"  # step, effect, probed
    reads: str = ""
    writes: str = ""  # on_partial of the step that writes FILE
    note: str = "0"  # a part of its code
    back: str = ""  # resume_to: the step to which the run goes back when this one was left unfinished
    is_alone: bool = False  # it reads FILE, and no step of the flow writes that

    @property
    def is_effect(self) -> bool:
        return self.kind != "step"


@dataclass(frozen=True)
class Group:
    """Steps that stand for more than themselves: a loop, a list of items, another flow."""

    id: str
    kind: str  # loop, each, sub
    steps: tuple[Step, ...]
    rounds: int = 2  # of a loop: the one after which it is over
    items: tuple[str, ...] = ("a", "b")
    file: str = ""  # of another flow: its name

    @property
    def is_effect(self) -> bool:
        return False


Node = Step | Group
UNTIL = Step("until")


class Call(NamedTuple):
    """A step with what it reads from outside of the flow (1), and in which round, or for which item (17)."""

    step: str
    read: str
    scope: str = ""

    @property
    def name(self) -> str:
        """What it is called in the diary."""
        _, bracket, place = self.scope.partition("[")
        return f"{self.step}@{place.rstrip(']')}" if bracket else self.step


@dataclass
class Past:
    """What has become of a call: done, skipped, failed, cut, doubt, aside, told (a person said: once more)."""

    kind: str  # that of its step; note: a group is over; spawn: a run of another flow
    state: str
    holds: bool = False  # the answer of a condition
    heard: bool = False  # it was the last that became of it
    happened: bool = False  # in the world outside
    reused: bool = False  # a person gave its result to another call
    deaths: int = 0
    before: str = UNKNOWN  # how FILE was before it; empty: there was none
    after: str = UNKNOWN  # how FILE was when its last attempt ended, if that was seen
    ended: int = 0  # when that was, among those that write FILE
    wish: str = ""  # what a person said is to become of FILE
    is_cut: bool = False  # its last attempt was
    is_damaged: bool = False  # the receipt of its last attempt is not what was stored
    undone: bool = False  # it was set aside, and not tried since
    touched: bool = False  # FILE was, by others, since it was cut

    @property
    def is_effect(self) -> bool:
        return self.kind in ("effect", "probed")

    @property
    def is_set_aside_after_its_word(self) -> bool:
        """A condition that will be asked again, and has said something."""
        return self.state == "aside" and self.heard

    @property
    def is_done(self) -> bool:
        return self.state in ("done", "skipped")


class Way(NamedTuple):
    """How a resume goes: the steps that run, the question it ends with, and how it ends."""

    ran: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]
    ended: str  # succeeded, failed, waiting, killed
    file: str = ""  # how FILE is then; empty: there is none


@dataclass
class Going:
    """A resume under way, in which what is called `at` ends as `how` says."""

    files: Mapping[str, str]
    at: str = ""
    how: str = ""
    is_supposed: bool = False  # nothing is run: what was never asked holds, what was never begun succeeds
    ran: list[str] = field(default_factory=list)
    visited: list[Call] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    has_noted: bool = False

    def of(self, name: str) -> str:
        return self.how if name == self.at else ""


@dataclass
class Model:
    """A run."""

    calls: dict[Call, Past] = field(default_factory=dict)
    order: list[Call] = field(default_factory=list)  # (8)
    status: str = "new"
    asks: tuple[Call, str] | None = None  # the open question
    was: Call | None = None  # whose result that question is about
    wrote: Call | None = None  # who ended last of those that write FILE
    damaged: bool = False  # a record was damaged on purpose, and nobody has accepted that
    went_back: dict[str, int] = field(default_factory=dict)  # how often the flow sent the run back, by step
    accepted: set[tuple[Call, str]] = field(default_factory=set)
    file: str = ""  # how FILE is, while a resume goes on; empty: there is none
    is_file: bool = True  # a flow file: it declares what it reads, and notes when a group is over
    children: dict[Call, "Model"] = field(default_factory=dict)  # runs of other flows
    id: str = ""  # of a child, when it is known

    # -- going on --------------------------------------------------------------------------------

    def forecast(self, flow: Iterable[Node], files: Mapping[str, str]) -> Way:
        """What a resume does when no step fails and nobody kills it (12)."""
        return deepcopy(self).go(flow, files, is_supposed=True)

    def go(
        self, flow: Iterable[Node], files: Mapping[str, str], at: str = "", how: str = "", *, is_supposed: bool = False
    ) -> Way:
        """A resume, in which the step `at` ends as `how` says."""
        flow, going = tuple(flow), Going(files, at, how, is_supposed)
        self.asks, self.file = None, files.get(FILE, "")
        self._send_back(flow)
        ended = self._through(flow, "", going) or "succeeded"
        visited = going.visited
        is_asked = any(why != "in_doubt" for _, why in going.asked)
        if going.ran or going.has_noted or is_asked or visited != [c for c in self.order if c in visited]:
            self.order = visited + [call for call in self.order if call not in visited]
        self.status = "crashed" if ended == "killed" else ended
        return Way(tuple(going.ran), tuple(going.asked), ended, self.file)

    def _through(self, nodes: Iterable[Node], scope: str, going: Going) -> str:
        """Go through nodes, in their order. Of what did not succeed, how it ended: failed, waiting, killed."""
        return next((ended for node in nodes if (ended := self._node(node, scope, going))), "")

    def _node(self, node: Node, scope: str, going: Going) -> str:
        if isinstance(node, Step):
            return self._step(node, call_of(node, going.files, scope), going)
        ended = {"loop": self._loop, "each": self._each, "sub": self._sub}[node.kind](node, going)
        return ended or self._note(Call(node.id, ""), going)

    def _step(self, step: Step, call: Call, going: Going) -> str:
        asked = self._asked(step, call)
        if asked:
            self.asks = (call, asked)
            going.visited += [call] if call in self.calls else []
            going.asked.append((call.name, asked))
            return "waiting"
        going.visited.append(call)
        if self._is_done(call):
            return ""
        going.ran.append(call.name)
        stopped = self._run(step, call, going.of(call.name))
        if stopped == "doubt" and step.kind == "effect":
            self.asks = (call, "in_doubt")
            going.asked.append((call.name, "in_doubt"))
            return "waiting"
        return stopped if stopped in ("failed", "killed") else ""

    # -- what stands for many --------------------------------------------------------------------

    def _note(self, call: Call, going: Going) -> str:
        """(17) That a group is over is noted, by flow files."""
        if self.is_file:
            going.visited.append(call)
            going.has_noted |= not self._is_done(call)
            self.calls.setdefault(call, Past("note", "done")).state = "done"
        return ""

    def _loop(self, loop: Group, going: Going) -> str:
        """(17) Rounds, until the condition holds. One in Python has as many as it is written to have."""
        if not self.is_file:
            rounds = (self._through(loop.steps, f"[{number}]", going) for number in range(1, loop.rounds + 1))
            return next((ended for ended in rounds if ended), "")
        for number in range(1, ROUNDS + 1):
            scope = f"{loop.id}[{number}]"
            ended = self._through(loop.steps, scope, going) or self._until(loop, number, scope, going)
            if ended:
                return "" if ended == "over" else ended
        return "failed"

    def _until(self, loop: Group, number: int, scope: str, going: Going) -> str:
        """(18) A condition is asked once; but again where its no has ended the run."""
        call = Call(UNTIL.id, "", scope)
        is_new, is_given = call not in self.calls, call in self.calls and self._is_done(call)
        is_as_before = is_given or (going.is_supposed and not is_new and self.calls[call].is_set_aside_after_its_word)
        ended = self._step(UNTIL, call, going)
        if is_new and going.is_supposed:
            going.ran.remove(call.name)  # a plan names no condition that was never asked
        if ended:
            return ended
        past = self.calls[call]
        past.holds = past.holds if is_as_before else going.is_supposed or number >= loop.rounds
        past.heard = True
        if not past.holds and number == ROUNDS:
            past.state = "told"
        return "over" if past.holds else ""

    def _each(self, each: Group, going: Going) -> str:
        """(19) An item that fails or waits keeps no other from being done. In Python a failure does, of one step."""
        if not self.is_file:
            return next((ended for step in each.steps if (ended := self._map(step, each.items, going))), "")
        ends = list[str]()
        for item in each.items:
            ends.append(self._through(each.steps, f"{each.id}[{item}]", going))
            if ends[-1] == "killed":
                break
        return worst(ends)

    def _map(self, step: Step, items: Iterable[str], going: Going) -> str:
        ends = list[str]()
        for item in items:
            ends.append(self._step(step, Call(step.id, "", f"[{item}]"), going))
            if ends[-1] in ("failed", "killed"):
                break
        return worst(ends)

    def _sub(self, sub: Group, going: Going) -> str:
        """(20) A run of its own, which goes on when this one does, until its result is given."""
        call = Call("run.spawn", sub.file, sub.id if self.is_file else "")
        if call not in self.calls and going.is_supposed:
            going.ran.append(sub.id)
            return ""
        going.visited.append(call)
        past = self.calls.setdefault(call, Past("spawn", "new"))
        if past.state == "done":
            return ""
        child = self.children.setdefault(call, Model(is_file=self.is_file))
        way = child.go(sub.steps, going.files, going.at, going.how, is_supposed=going.is_supposed)
        going.ran += way.ran
        going.asked += way.asked
        going.has_noted = True
        past.state = "done" if way.ended == "succeeded" else "failed" if way.ended == "failed" else "cut"
        return "" if past.state == "done" else way.ended

    def _send_back(self, flow: Iterable[Node]) -> None:
        """(15) A step that was left unfinished may say to which one the run goes back."""
        for step in (step for step in flow if isinstance(step, Step) and step.back):
            unfinished = [call for call in self.order if call.step == step.id and not self.calls[call].is_done]
            alike = [call for call in self.order if call.step == step.back]
            if unfinished and alike and self.went_back.get(step.id, 0) < DEATHS:
                self.went_back[step.id] = self.went_back.get(step.id, 0) + 1
                self.rewind(alike[0])

    @property
    def has_doubt(self) -> bool:
        return any(past.state == "doubt" for past in self.calls.values())

    def asked_for(self, flow: Iterable[Node], files: Mapping[str, str]) -> set[Call]:
        """The calls to which a resume comes."""
        other = deepcopy(self)
        other.order = []
        other.go(flow, files)
        return set(other.order)

    def _is_done(self, call: Call) -> bool:
        """(2) Also an effect in doubt of which its probe says that it happened (5)."""
        past = self.calls.get(call)
        if past is not None and past.state == "doubt" and past.kind == "probed" and past.happened:
            past.state = "done"
        return past is not None and past.is_done

    def _asked(self, step: Step, call: Call) -> str:
        """Why a person is asked before this call is run; nothing where nobody is."""
        past = self.calls.get(call)
        if past is None:
            alike = [c for c in self.calls if (c.step, c.scope) == (step.id, call.scope) and step.is_effect]
            self.was = next((c for c in alike if self._counts(self.calls[c])), None)
            return "inputs_changed" if self.was else ""  # (6)
        if past.state == "doubt" and step.kind == "effect":
            return "in_doubt"  # (5)
        if past.state == "cut" and past.deaths >= DEATHS:
            return "crash_loop"  # (4)
        return "partial" if step.writes and self._asks_about_file(step, past) else ""  # (16)

    # -- what a step finds in FILE ---------------------------------------------------------------

    def _asks_about_file(self, step: Step, past: Past) -> bool:
        """(16) Whether a person decides what becomes of what it left in FILE."""
        before, wish = self._before(past), past.wish or step.writes
        if not self._has_left(past, before):
            return False
        is_edited = self.file not in ("", before) and self._is_edited(past)
        return wish == "ask" or (wish == "restore" and is_edited)

    def _is_edited(self, past: Past) -> bool:
        if past.is_cut:
            return past.touched
        if past.undone:
            return self.file != self._known()
        return not past.is_damaged and self.file != past.after

    def _before(self, past: Past) -> str:
        """How FILE was before a step. Of one that was set aside: what another has made of it since is that one's."""
        last = self._last_writer()
        is_work = past.undone and last is not None and not last.undone and last.after == self.file
        return self.file if is_work and past.before != UNKNOWN else past.before

    def _has_left(self, past: Past, before: str) -> bool:
        if before == UNKNOWN or past.is_done:
            return False
        is_looked_at = past.is_cut or past.is_damaged or past.undone
        return (self.file if is_looked_at else past.after) != before

    def _last_writer(self) -> Past | None:
        """Whose end was seen last, of those that write FILE and did something to it."""
        seen = [past for past in self.calls.values() if past.after != UNKNOWN]
        return max(seen, key=lambda past: past.ended, default=None)

    def _known(self) -> str:
        last = self._last_writer()
        return last.after if last is not None else UNKNOWN

    def _write(self, step: Step, past: Past, how: str) -> None:
        """An attempt of a step that writes FILE."""
        before = self._before(past)
        if self._has_left(past, before) and (past.wish or step.writes) == "restore":
            self.file = before
        past.before = self.file if before == UNKNOWN else before
        past.wish, past.touched, past.is_damaged, past.undone = "", False, False, False
        self.file += f"half\nwhole {step.note}\n" if how in ("", "fail late", "kill late") else ""
        past.is_cut = how.startswith("kill")
        if not past.is_cut:
            past.after, past.ended = self.file, max((each.ended for each in self.calls.values()), default=0) + 1

    def _counts(self, past: Past) -> bool:
        return past.is_effect and (past.is_done or past.state == "doubt") and not past.reused

    def _run(self, step: Step, call: Call, how: str) -> str:
        """(3) One attempt. Of one that did not succeed how it ended: failed, killed, doubt."""
        past = self.calls.setdefault(call, Past(step.kind, "new"))
        past.kind, past.heard = step.kind, False
        past.happened |= step.is_effect and how in ("", "fail late", "kill late")
        if step.writes:
            self._write(step, past, how)
            self.wrote = call
        if how.startswith("kill"):
            past.state = "doubt" if step.is_effect else "cut"
            past.deaths += 1
        elif how == "refuse" or (how and not step.is_effect):
            past.state = "failed"
        elif how:
            past.state = self._unknown(step, past)
        else:
            past.state = "done"
        ended = {"cut": "killed", "done": "", "failed": "failed", "doubt": "doubt"}[past.state]
        return "killed" if how.startswith("kill") else ended

    def _unknown(self, step: Step, past: Past) -> str:
        """(5) An effect that failed without saying whether it happened."""
        if step.kind == "effect":
            return "doubt"
        return "done" if past.happened else "failed"

    def forget(self, call: Call, past: Past | None, *, deaths: int) -> None:
        """(4) A Python step that was cut off so early that nobody wrote down that it had begun."""
        if past is None:
            del self.calls[call]
            self.order.remove(call)
        else:
            self.calls[call] = past
            past.deaths = deaths

    # -- killed between two writes ---------------------------------------------------------------

    def whole_way(self, flow: Iterable[Node], files: Mapping[str, str]) -> tuple["Model", Way]:
        other = deepcopy(self)
        return other, other.go(flow, files)

    def ways(self, flow: Iterable[Node], files: Mapping[str, str]) -> list[tuple["Model", Way]]:
        """What a resume may leave that is killed anywhere: all of it, or up to before, in, or after a step's body.

        Or nothing at all, not even that the flow sent the run back.
        """
        whole, nothing = self.whole_way(flow, files), Way((), (), "killed", files.get(FILE, ""))
        return [
            whole,
            *(cut for step in whole[1].ran for cut in self._cuts(flow, files, step)),
            (deepcopy(self), nothing),
        ]

    def _cuts(self, flow: Iterable[Node], files: Mapping[str, str], at: str) -> list[tuple["Model", Way]]:
        found = []
        for how in ("unbegun", "kill", "kill late"):
            other = deepcopy(self)
            way = other.go(flow, files, at, "kill" if how == "unbegun" else how)
            call = next(call_of(step, files) for step in steps_of(flow) if step.id == at)
            if how == "unbegun":
                other._unbegin(call, deepcopy(self.calls.get(call)))
            found.append((other, way if how == "kill late" else way._replace(ran=way.ran[:-1])))
        return found

    def _unbegin(self, call: Call, was: Past | None) -> None:
        self.order = [each for each in self.order if each != call or was is not None]
        self.calls = {each: past for each, past in self.calls.items() if each != call}
        self.calls |= {call: was} if was is not None else {}

    def fits(self, before: "Model", left: Mapping[str, str], flow: Iterable[Node], files: Mapping[str, str]) -> bool:
        """Whether the new receipts, by step, are what became of each call since before."""
        words = {"done": "succeeded", "cut": "started", "doubt": "started"}
        for call in (call_of(step, files) for step in steps_of(flow)):
            past, was = self.calls.get(call), before.calls.get(call)
            if was is not None and was.state == "doubt":
                continue  # its probe may have been asked or not
            expected = words.get(past.state, "") if past is not None and past != was else ""
            if left.get(call.step, "") != expected:
                return False
        return True

    # -- what refuses it -------------------------------------------------------------------------

    def refused(self, flow: Iterable[Node], files: Mapping[str, str]) -> set[str]:
        """The reasons for which a resume is refused."""
        found = {"integrity_broken"} if self.damaged else set[str]()  # (11)
        finding = self._missing(files) if self.is_file else None
        steps = (step for step in flow if isinstance(step, Step) and step.reads == FILE)
        readers = [step for step in steps if not self._would_be_given(step, files)]
        return found | ({"output_missing"} if finding and readers and finding not in self.accepted else set())  # (10)

    def _would_be_given(self, step: Step, files: Mapping[str, str]) -> bool:
        past = self.calls.get(call_of(step, files))
        return past is not None and past.is_done

    def _missing(self, files: Mapping[str, str]) -> tuple[Call, str] | None:
        past = self.calls.get(self.wrote) if self.wrote else None
        gone = past is not None and past.state == "done" and past.after and FILE not in files
        return (self.wrote, past.after) if gone and self.wrote and past else None

    def accept(self, files: Mapping[str, str]) -> None:
        """Somebody takes all of that upon himself."""
        self.damaged = False
        finding = self._missing(files)
        self.accepted |= {finding} if finding else set()

    def damage(self, call: Call) -> None:
        """(11) The last receipt of a call is not what was stored: a step is done again, an effect is in doubt."""
        past = self.calls[call]
        past.state = "doubt" if past.is_effect else "told"
        past.after, past.is_damaged = UNKNOWN, True
        self.damaged = True

    # -- what people say -------------------------------------------------------------------------

    def can_skip(self, call: Call) -> bool:
        """(7) What has succeeded is final."""
        return self.calls[call].state != "done"

    def skip(self, call: Call) -> None:
        """(7) Somebody gives the result."""
        self.calls[call].state = "skipped"

    def retry(self, call: Call) -> None:
        """(7) Somebody says that it is to be tried once more."""
        past = self.calls[call]
        past.state, past.deaths = "told", 0

    def keep(self, call: Call, wish: str) -> None:
        """(16) Somebody says what becomes of FILE."""
        self.retry(call)
        self.calls[call].wish = wish

    def answer(self, choice: str) -> None:
        """(6) What becomes of an effect that was done before with other inputs."""
        assert self.asks is not None
        assert self.was is not None
        call, _ = self.asks
        self.calls[call] = Past("effect", "done" if choice == "reuse" else "told")
        if choice == "reuse":
            self.calls[self.was].reused = True
            self.calls[call].happened = self.calls[self.was].happened

    def meant(self, call: Call, name: str) -> Call:
        """(8) The name of a step means the call of it that stands first; of a group, the first inside of it."""
        if self.calls[call].kind == "note":
            within = (each for each in self.order if each.scope.partition("[")[0] == call.step)
            return next(within, call)
        alike = (each for each in self.order if (each.step, each.scope) == (call.step, call.scope))
        return next(alike, call) if name.rpartition("/")[2] == call.step else call

    def rewind(self, call: Call) -> None:
        """(8) Go back to a call."""
        at = self.order.index(call) if call in self.order else len(self.order)
        for each in self.order[at:]:
            self._set_aside(self.calls[each])
        for each in set(self.calls) - set(self.order):  # decided on or set aside, and not come to since
            self._set_aside(self.calls[each])
        self.order = self.order[:at]

    def _set_aside(self, past: Past) -> None:
        if past.kind in ("step", "note"):
            past.state, past.deaths, past.wish, past.undone = "aside", 0, "", True
        elif past.state == "failed":
            past.state = "told"

    def fork(self, call: Call, *, reuse: bool) -> "Model":
        """(9) Another run, which takes over what stands before a call."""
        other = deepcopy(self)
        at = self.order.index(call) if call in self.order else len(self.order)
        before = [each for each in self.order[:at] if self._is_over(self.calls[each])]
        kept = [c for c in self.calls if c not in self.order[:at] and reuse and self._is_effect_over(self.calls[c])]
        until = max((self.calls[each].ended for each in before), default=0)
        wrote = [c for c, p in self.calls.items() if c not in before and p.before != UNKNOWN and not p.is_cut]
        wrote = [each for each in wrote if not (self.calls[each].state == "aside" and self.calls[each].ended < until)]
        other.calls = {each: past for each, past in other.calls.items() if each in (*before, *kept, *wrote)}
        for each in wrote:
            self._set_aside(other.calls[each])
        other.children = {each: child for each, child in other.children.items() if each in other.calls}
        other.order, other.status, other.asks, other.went_back = before, "interrupted", None, {}
        other.wrote = self.wrote if self.wrote in before else None
        return other

    def _is_over(self, past: Past) -> bool:
        return past.is_done or past.state == "doubt"

    def _is_effect_over(self, past: Past) -> bool:
        return (past.is_effect or past.kind == "spawn") and self._is_over(past)


def call_of(step: Step, files: Mapping[str, str], scope: str = "") -> Call:
    """(1) What the flow itself writes is no input, nor is a file that is not there."""
    is_input = step.reads and (step.reads != FILE or step.is_alone)
    return Call(step.id, files.get(step.reads, "") if is_input else "", scope)


def marked(flow: Iterable[Node]) -> list[Node]:
    """A flow whose steps know whether one of them writes what they read."""
    flow = list(flow)
    alone = not any(step.writes for step in steps_of(flow))
    return [replace(node, is_alone=alone and node.reads == FILE) if isinstance(node, Step) else node for node in flow]


def worst(ends: Iterable[str]) -> str:
    """(19) How a list of items ends of which these ended so."""
    return next((end for end in ("killed", "failed", "waiting") if end in ends), "")


def names_of(nodes: Iterable[Node]) -> list[str]:
    """What may be run, as the diary calls it."""
    return [name for node in nodes for name in _names(node)]


def _names(node: Node) -> list[str]:
    if isinstance(node, Step):
        return [node.id]
    if node.kind == "sub":
        return names_of(node.steps)
    places = node.items if node.kind == "each" else tuple(map(str, range(1, ROUNDS + 1)))
    inside = [*(step.id for step in node.steps), *([UNTIL.id] if node.kind == "loop" else [])]
    return [f"{step}@{place}" for place in places for step in inside]


def steps_of(nodes: Iterable[Node]) -> list[Step]:
    """All steps, also those in groups."""
    return [step for node in nodes for step in ([node] if isinstance(node, Step) else node.steps)]
