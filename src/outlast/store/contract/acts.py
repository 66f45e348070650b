"""What people did that no journal has: changes of schedules, queues, limits, keys and targets, and removed runs."""

from __future__ import annotations

from outlast.values.frozen import NamedTuple, Protocol


class NewAct(NamedTuple):
    at: int
    actor: str
    host: str
    door: str
    scope: str  # empty: of the whole tenant
    noun: str  # run, schedule, queue, limit, key, target
    name: str
    verb: str  # in the past: added, paused, removed
    changes: str  # JSON: what was changed, from what to what
    done: int = 1  # 0: it is about to be done outside of the ledger


class ActRow(NamedTuple):
    number: int
    entry: int  # the newest entry of any journal when it was done: what people did is told in one order
    at: int
    actor: str
    host: str
    door: str
    scope: str
    noun: str
    name: str
    verb: str
    changes: str
    done: int


class ActReading(Protocol):
    """Lookups, each by an index."""

    def acts_before(self, entry: int, number: int, first: int, limit: int) -> list[ActRow]: ...


class ActWriting(ActReading, Protocol):
    """Writes inside a transaction."""

    def add_act(self, act: NewAct) -> int: ...
    def finish_act(self, number: int) -> None: ...
