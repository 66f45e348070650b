"""Journals as a run may leave them, with a plain account of what happened to each call.

A story is written by a careful writer: an attempt begins only where the account allows it, ends at most once, and
a crash leaves whatever was begun without an outcome. The account knows nothing of `fold`; the tests compare them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import strategies as st

from outlast.ledger.journal import Header, JournalEntry, Payload, Row, entry, genesis, link
from outlast.runs.call import Call, Ledger, Past

START = genesis("run", "flow", "task", "inputs")
POISON = 3

STEP, TWIN, OTHER = Call("", "fetch", "in1", 0), Call("", "fetch", "in1", 1), Call("left/", "fetch", "in1", 0)
EFFECT, SECOND = Call("", "publish", "in1", 0), Call("", "publish", "in1", 1)
KINDS = {STEP: "step", TWIN: "step", OTHER: "step", EFFECT: "effect", SECOND: "effect"}
CALLS = list(KINDS)


def chain(entries: Iterable[JournalEntry], start: bytes = START) -> list[Row]:
    """Entries as a store would have kept them."""
    rows, before = [], start
    for seq, (header, payload, _) in enumerate(entries, 1):
        before = link(before, header)
        rows.append(Row(seq, header, before, payload))
    return rows


def attempt(
    call: Call, number: int, status: str, *, kind: str = "", delivered: bool = False, mark: str = ""
) -> JournalEntry:
    """One entry about one attempt."""
    ended = 0 if status == "started" else 2
    header = Header(
        kind or KINDS[call], call.step, call.scope, call.inputs, call.occurrence, number, status, delivered, mark,
        started_at=1, ended_at=ended, key="key" if KINDS[call] == "effect" else "", epoch=1,
    )  # fmt: skip
    result = msgspec.Raw(f'"{call.step} {number}"'.encode())
    return entry(header, Payload(result=result) if status == "succeeded" else None)


def known(ledger: Ledger) -> dict[str, Any]:
    """Everything that a ledger knows, as values that compare."""
    return {
        "calls": {call: told(past) for call, past in ledger.calls.items()},
        "effects": {place: [past.call for past in pasts] for place, pasts in ledger.effects.items()},
        **{name: getattr(ledger, name) for name in ("endings", "accepted", "codes", "places")},
    }


def told(past: Past) -> dict[str, Any]:
    """Everything that is known of one call."""
    return {name: getattr(past, name) for name in Past.__slots__}


def decision(call: Call, number: int, choice: str) -> JournalEntry:
    """Somebody decided: retry, again."""
    return attempt(call, number, choice, kind="decision", mark="decided")


def fact(name: str, facts: Any = None) -> JournalEntry:
    """An entry about the run itself."""
    return entry(Header("run", name, delivered=True, started_at=1, ended_at=1, epoch=1), Payload(facts=facts))


@dataclass
class Account:
    """What happened to one call, event by event."""

    call: Call
    events: list[tuple[int, str, bool, str]] = field(default_factory=list)  # attempt, status, delivered, mark
    running: bool = False  # an attempt is under way in the process that lives now
    first: int = 0
    alone: int = 0  # crashes since the last decision in which nothing else was under way
    shared: int = 0  # and those in which something was

    @property
    def kind(self) -> str:
        return KINDS[self.call]

    @property
    def attempts(self) -> int:
        return max((number for number, *_ in self.events), default=0)

    @property
    def since_decision(self) -> list[tuple[int, str, bool, str]]:
        last = max((place for place, event in enumerate(self.events) if event[3] == "decided"), default=-1)
        return self.events[last + 1 :]

    @property
    def final(self) -> bool:
        return bool(self.events) and self.events[-1][2]

    @property
    def in_doubt(self) -> bool:
        """An effect that was begun, of which neither an outcome nor a word that it did not happen is known."""
        if self.kind == "step" or self.final or not self.since_decision:
            return False
        return self.since_decision[-1][3] != "not_done"

    @property
    def expected(self) -> str:
        """What the next call must be, in words."""
        if self.final:
            return "Replay"
        if self.in_doubt:
            return "Doubtful"
        decided = bool(self.events) and not self.since_decision
        often = self.alone >= POISON or self.shared >= 10 * POISON
        return "Poisoned" if often and self.kind == "step" and not decided else "Fresh"


@dataclass
class Story:
    """A journal and the account of it."""

    accounts: dict[Call, Account] = field(default_factory=dict)
    entries: list[JournalEntry] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return chain(self.entries)

    def of(self, call: Call) -> Account:
        return self.accounts.setdefault(call, Account(call))

    def tell(self, call: Call, number: int, status: str, delivered: bool = False, mark: str = "") -> None:
        account = self.of(call)
        decided = mark == "decided" and status == "retry"
        written = decision(call, number, status) if decided else attempt(
            call, number, status, delivered=delivered, mark=mark
        )  # fmt: skip
        self.entries.append(written)
        account.events.append((number, status, delivered, mark))
        if decided:
            account.alone = account.shared = 0
        account.first = account.first or len(self.entries)

    def begin(self, call: Call) -> None:
        account = self.of(call)
        self.tell(call, account.attempts + 1, "started")
        account.running = True

    def end(self, call: Call, status: str, delivered: bool, mark: str) -> None:
        account = self.of(call)
        if account.kind == "step":
            mark = ""
        elif status != "succeeded":  # an effect's bad end is only final when it says that nothing happened
            delivered = delivered and mark == "not_done"
        self.tell(call, account.attempts, status, delivered or status == "succeeded", mark)
        account.running = False

    def crash(self) -> None:
        """The owner dies, and the next one writes down that it found the run so."""
        under_way = [account for account in self.accounts.values() if account.running]
        for account in under_way:
            account.running = False
            account.alone += len(under_way) == 1
            account.shared += len(under_way) > 1
        self.entries.append(fact("resumed", {"from": "crashed"}))

    def settle(self, call: Call, choice: str) -> None:
        account = self.of(call)
        if choice == "skip":
            self.tell(call, account.attempts, "skipped", True, "decided")
        elif choice == "not_done" and account.expected == "Doubtful":
            self.tell(call, account.attempts, "failed", False, "not_done")
        else:
            self.tell(call, account.attempts, "retry", False, "decided")


ENDS = ("succeeded", "failed", "timed_out", "cancelled", "interrupted")


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Any journal that a careful writer may leave: at each turn one of the things that may happen does."""
    story = Story()
    for _ in range(draw(st.integers(0, 24))):
        accounts = [story.of(call) for call in CALLS]
        may: list[tuple[str, Call | None]] = [("crash", None)]
        may += [("end", account.call) for account in accounts if account.running] * 2
        idle = [account for account in accounts if not account.running]
        may += [("begin", account.call) for account in idle if account.expected == "Fresh"]
        may += [("settle", account.call) for account in idle if account.expected in ("Doubtful", "Poisoned")]
        move, call = draw(st.sampled_from(may))
        if call is None:
            story.crash()
        elif move == "begin":
            story.begin(call)
        elif move == "end":
            story.end(call, draw(st.sampled_from(ENDS)), draw(st.booleans()), draw(st.sampled_from(["", "not_done"])))
        else:
            story.settle(call, draw(st.sampled_from(["retry", "skip", "not_done"])))
    story.crash()
    return story
