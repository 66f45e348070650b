"""What must hold of a home whose runs were killed and resumed, found out from its journals.

Written against the promises, not with the code that keeps them: it reads the entries one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from outlast.home.home import run_row
from outlast.ledger.journal import CALLS, Header, decode_header
from outlast.runs.call import Call
from outlast.runs.run import RunRecord

if TYPE_CHECKING:
    from outlast.python.outlast import Outlast

_ALL = 1_000_000


class CallRecord(Struct):
    """One call as its journal tells it."""

    name: str
    kind: str = ""
    delivered: bool = False
    attempts: int = 0
    settled: int = 0  # NOT_DONE answers and decisions: each permits one more attempt
    wrongs: list[str] = field(default_factory=list)

    def hear(self, header: Header, seq: int) -> None:
        """Take the next entry in, and note what it breaks."""
        if header.kind == "decision":
            self.settled, self.delivered = self.settled + 1, False
            return
        self.kind = header.kind
        if self.delivered:
            self.wrongs.append(f"{self.name}: entry {seq} ({header.status}) follows a delivered outcome")
        if header.attempt > self.attempts:
            self.attempts += 1
            self.settled += header.mark in ("decided", "reused")  # somebody said what counts: its body did not run
            if self.kind == "effect" and self.attempts > self.settled + 1:
                self.wrongs.append(f"{self.name}: attempt {header.attempt} without NOT_DONE or a decision")
        self.settled += header.mark == "not_done"
        self.delivered = header.delivered


def every_run(outlast: Outlast) -> list[RunRecord]:
    return outlast.runs(limit=_ALL)


def entries(outlast: Outlast, run: RunRecord) -> Iterator[tuple[int, str, Header, Call]]:
    """The entries of a run that concern its calls: seq, hash, header, call."""
    home = outlast._executor.home
    key = run_row(home, run.id).key
    for row in home.store.read(lambda look: look.journal_of(key)):
        header = decode_header(row.header)
        if header.kind in (*CALLS, "decision"):
            call = Call(header.scope, header.name, header.inputs, header.occurrence)
            yield row.seq, row.hash.hex(), header, call


def delivered(outlast: Outlast) -> list[list[Any]]:
    """Every outcome that a flow was given, as plain lists: run, call, seq, hash."""
    return [
        [run.id, list(call), seq, found]
        for run in every_run(outlast)
        for seq, found, header, call in entries(outlast, run)
        if header.delivered
    ]


def calls_of(outlast: Outlast, run: RunRecord) -> dict[Call, CallRecord]:
    """Every step and effect of a run, as its journal tells it."""
    found: dict[Call, CallRecord] = {}
    for seq, _, header, call in entries(outlast, run):
        found.setdefault(call, CallRecord(f"{header.scope}{header.name}")).hear(header, seq)
    return found


def wrongs(outlast: Outlast, bodies: Iterable[tuple[str, Call]] = ()) -> Iterator[str]:
    """Every broken promise. `bodies` has the run and call of each body that was really begun."""
    for problem in outlast.verify().problems:
        yield f"verify: {problem.record}: {problem.why}"
    begun = Counter(bodies)
    for run in every_run(outlast):
        for call, told in calls_of(outlast, run).items():
            yield from told.wrongs
            times = begun[run.id, call]
            if told.kind == "effect" and times > told.settled + 1:
                yield f"{told.name}: its body ran {times} times after {told.settled} answers of NOT_DONE or decisions"
            if run.finished and not told.delivered:
                yield f"{told.name}: it has no outcome, and its run is {run.status}"
