"""What must happen to a run, by the rules of docs/rules.md: a model that knows nothing of journals, homes or processes.

Each rule is named where it is kept: `(3)` is rule 3 of that page.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

DEATHS = 3
FILE = "made.out"  # that one step writes and another reads


@dataclass(frozen=True)
class Step:
    """A step of the flow, as its file has it."""

    id: str
    kind: str = "step"  # step, effect, probed
    reads: str = ""
    writes: str = ""  # on_partial of the step that writes FILE
    note: str = "0"  # a part of its code

    @property
    def is_effect(self) -> bool:
        return self.kind != "step"


class Call(NamedTuple):
    """A step with what it reads from outside of the flow (1)."""

    step: str
    read: str


@dataclass
class Past:
    """What has become of a call: done, failed, cut, doubt, aside, told (a person said: once more)."""

    kind: str
    state: str
    happened: bool = False  # in the world outside
    reused: bool = False  # a person gave its result to another call
    deaths: int = 0
    left: str = ""  # what it left in FILE


class Way(NamedTuple):
    """How a resume goes: the steps that run, the question it ends with, and how it ends."""

    ran: tuple[str, ...]
    asked: tuple[str, str] | None
    ended: str  # succeeded, failed, waiting, killed


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
    ever_damaged: bool = False
    accepted: set[tuple[Call, str]] = field(default_factory=set)

    # -- going on --------------------------------------------------------------------------------

    def forecast(self, flow: Iterable[Step], files: Mapping[str, str]) -> Way:
        """What a resume does when no step fails and nobody kills it (12)."""
        return deepcopy(self).go(flow, files)

    def go(self, flow: Iterable[Step], files: Mapping[str, str], at: str = "", how: str = "") -> Way:
        """A resume, in which the step `at` ends as `how` says."""
        ran: list[str] = []
        visited: list[Call] = []
        self.asks = None
        end = Way((), None, "succeeded")
        for step in flow:
            call = call_of(step, files)
            asked = self._asked(step, call)
            if not asked and self._is_done(call):
                visited.append(call)
                continue
            if asked:
                self.asks = (call, asked)
                visited += [call] if call in self.calls else []
                end = Way((), (step.id, asked), "waiting")
                break
            visited.append(call)
            ran.append(step.id)
            stopped = self._run(step, call, how if at == step.id else "")
            if stopped == "doubt" and step.kind == "effect":
                self.asks = (call, "in_doubt")
                end = Way((), (step.id, "in_doubt"), "waiting")
                break
            if stopped in ("failed", "killed"):
                end = Way((), None, stopped)
                break
        if ran or (end.asked and end.asked[1] != "in_doubt") or visited != [c for c in self.order if c in visited]:
            self.order = visited + [call for call in self.order if call not in visited]
        self.status = "crashed" if end.ended == "killed" else end.ended
        return end._replace(ran=tuple(ran))

    def _is_done(self, call: Call) -> bool:
        """(2) Also an effect in doubt of which its probe says that it happened (5)."""
        past = self.calls.get(call)
        if past is not None and past.state == "doubt" and past.kind == "probed" and past.happened:
            past.state = "done"
        return past is not None and past.state == "done"

    def _asked(self, step: Step, call: Call) -> str:
        """Why a person is asked before this call is run; nothing where nobody is."""
        past = self.calls.get(call)
        if past is None:
            alike = [c for c, p in self.calls.items() if c.step == step.id and step.is_effect]
            self.was = next((c for c in alike if self._counts(self.calls[c])), None)
            return "inputs_changed" if self.was else ""  # (6)
        if past.state == "doubt" and step.kind == "effect":
            return "in_doubt"  # (5)
        return "crash_loop" if past.state == "cut" and past.deaths >= DEATHS else ""  # (4)

    def _counts(self, past: Past) -> bool:
        return past.kind != "step" and past.state in ("done", "doubt") and not past.reused

    def _run(self, step: Step, call: Call, how: str) -> str:
        """(3) One attempt. Of one that did not succeed how it ended: failed, killed, doubt."""
        past = self.calls.setdefault(call, Past(step.kind, "new"))
        past.kind = step.kind
        past.happened |= step.is_effect and how in ("", "fail late", "kill late")
        if how.startswith("kill"):
            past.state = "doubt" if step.is_effect else "cut"
            past.deaths += 1
        elif how == "refuse" or (how and not step.is_effect):
            past.state = "failed"
        elif how:
            past.state = self._unknown(step, past)
        else:
            past.state = "done"
        if step.writes:
            self.wrote = call
            past.left = f"whole {step.note}" if past.state == "done" else ""
        ended = {"cut": "killed", "done": "", "failed": "failed", "doubt": "doubt"}[past.state]
        return "killed" if how.startswith("kill") else ended

    def _unknown(self, step: Step, past: Past) -> str:
        """(5) An effect that failed without saying whether it happened."""
        if step.kind == "effect":
            return "doubt"
        return "done" if past.happened else "failed"

    # -- what refuses it -------------------------------------------------------------------------

    def refused(self, flow: Iterable[Step], files: Mapping[str, str]) -> set[str]:
        """The reasons for which a resume is refused."""
        found = {"integrity_broken"} if self.damaged else set[str]()  # (11)
        finding = self._missing(files)
        readers = [step for step in flow if step.reads == FILE and not self._would_be_given(step, files)]
        return found | ({"output_missing"} if finding and readers and finding not in self.accepted else set())  # (10)

    def _would_be_given(self, step: Step, files: Mapping[str, str]) -> bool:
        past = self.calls.get(call_of(step, files))
        return past is not None and past.state == "done"

    def _missing(self, files: Mapping[str, str]) -> tuple[Call, str] | None:
        past = self.calls.get(self.wrote) if self.wrote else None
        gone = past is not None and past.state == "done" and past.left and FILE not in files
        return (self.wrote, past.left) if gone and self.wrote and past else None

    def accept(self, files: Mapping[str, str]) -> None:
        """Somebody takes all of that upon himself."""
        self.damaged = False
        finding = self._missing(files)
        self.accepted |= {finding} if finding else set()

    def damage(self, call: Call) -> None:
        """(11) The last receipt of a call is not what was stored: a step is done again, an effect is in doubt."""
        past = self.calls[call]
        past.state = "aside" if past.kind == "step" else "doubt"
        self.damaged = self.ever_damaged = True

    # -- what people say -------------------------------------------------------------------------

    def can_skip(self, call: Call) -> bool:
        """(7) What has succeeded is final."""
        return self.calls[call].state != "done"

    def skip(self, call: Call) -> None:
        """(7) Somebody gives the result."""
        past = self.calls[call]
        past.state, past.left = "done", ""

    def retry(self, call: Call) -> None:
        """(7) Somebody says that it is to be tried once more."""
        past = self.calls[call]
        past.state, past.deaths = "told", 0

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
        """(8) The name of a step means the call of it that stands first."""
        return next((each for each in self.order if each.step == call.step), call) if name == call.step else call

    def rewind(self, call: Call) -> None:
        """(8) Go back to a call."""
        at = self.order.index(call) if call in self.order else len(self.order)
        for each in self.order[at:]:
            self._set_aside(self.calls[each])
        for each in set(self.calls) - set(self.order):  # decided on or set aside, and not come to since
            self._set_aside(self.calls[each])
        self.order = self.order[:at]

    def _set_aside(self, past: Past) -> None:
        if past.kind == "step":
            past.state, past.deaths = "aside", 0
        elif past.state == "failed":
            past.state = "told"

    def fork(self, call: Call, *, reuse: bool) -> "Model":
        """(9) Another run, which takes over what stands before a call."""
        other = deepcopy(self)
        at = self.order.index(call) if call in self.order else len(self.order)
        before = [each for each in self.order[:at] if self._is_over(self.calls[each])]
        kept = [c for c in self.calls if c not in self.order[:at] and reuse and self._is_effect_over(self.calls[c])]
        other.calls = {each: past for each, past in other.calls.items() if each in before or each in kept}
        other.order, other.status, other.asks = before, "interrupted", None
        other.wrote = self.wrote if self.wrote in before else None
        return other

    def _is_over(self, past: Past) -> bool:
        return past.state in ("done", "doubt")

    def _is_effect_over(self, past: Past) -> bool:
        return past.kind != "step" and self._is_over(past)


def call_of(step: Step, files: Mapping[str, str]) -> Call:
    """(1) What the flow itself writes is no input."""
    return Call(step.id, files.get(step.reads, "-") if step.reads and step.reads != FILE else "")
