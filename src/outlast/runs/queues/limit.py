"""Limits that steps of all runs share: how many at once, and how many may begin in a window, as an API allows.

A step that has to wait for its turn holds its run, and its run's place in a queue. A slot is a row of the process that
holds it, and is free when that process is dead by the rule for leases. One transaction compares and takes, so a limit
holds over all processes. In one process those that want a slot stand in a line, and only the first of them looks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from msgspec import Struct

from outlast.clock import moment
from outlast.errors import LimitNotFound, NameInvalid
from outlast.flows.spec import LANE, rate_of
from outlast.home import act
from outlast.home.caller import Caller, Repeatable, once
from outlast.home.home import Home
from outlast.home.place import check_name
from outlast.runs.holder import is_dead
from outlast.store.contract import LimitRow, Reading, SlotRow, Writing
from outlast.values.ambient import begin

LOOK_SECONDS = 0.05  # between two looks of who is first in line
SWEEP_SECONDS = 0.5  # and after which it looks although nobody has written: a holder may have died
HELD, WAITING = "held", "waiting"
WHOLE = "give a whole number from 1 on, or none for however many; a queue that is paused lets nothing through"


class SlotUse(Struct, frozen=True):
    """A step that holds a slot of a limit, or waits for one."""

    run_id: str
    step: str
    state: str
    since: datetime


class Limit(Struct, frozen=True):
    """A limit as it stands."""

    name: str
    concurrency: int  # steps at once; 0: however many
    rate: str  # that may begin, such as 30/m; empty: however many
    set_by: str
    set_at: datetime
    held: tuple[SlotUse, ...] = ()
    waiting: tuple[SlotUse, ...] = ()


# -- setting, looking --------------------------------------------------------------------------------


def set_limit(caller: Caller, name: str, concurrency: int | None, rate: str, operation_id: str | None) -> Limit:
    """Make a limit, or give one of this name other numbers: from the next step on. Raises NameInvalid."""
    check_name("limit", name)
    if concurrency is not None and (type(concurrency) is not int or not 0 < concurrency < 1 << 31):
        raise NameInvalid("concurrency", str(concurrency)[:100], WHOLE)
    count, window = (rate_of(rate) or (0, 0)) if rate else (0, 0)
    if rate and not count:
        raise NameInvalid("rate", str(rate)[:100], "give a number a second, minute, hour or day, such as 30/m")
    row = LimitRow(name, concurrency or 0, count, window, caller.actor, caller.home.clock.now())

    def work(tx: Writing) -> tuple[Limit, str]:
        before = tx.limit_of(name)
        tx.put_limit(row)
        if _numbers(before) != _numbers(row):
            act.note(caller, tx, "limit", name, "set", _numbers(before), _numbers(row))
        return _shown(caller.home, tx, row), name

    said = Repeatable(operation_id, "limit_set", [name, concurrency, rate])
    return once(caller.home, said, work, lambda _: caller.home.store.read(lambda look: _named(caller.home, look, name)))


def remove_limit(caller: Caller, name: str, operation_id: str | None = None) -> Limit:
    """Forget a limit: steps that name it are refused from then on. Raises LimitNotFound."""
    home = caller.home

    def work(tx: Writing) -> tuple[Limit, str]:
        found, before = _named(home, tx, name), tx.limit_of(name)
        tx.remove_limit(name)
        act.note(caller, tx, "limit", name, "removed", _numbers(before))
        return found, name

    gone = Limit(name, 0, "", caller.actor, moment(home.clock.now()))
    return once(home, Repeatable(operation_id, "limit_remove", [name]), work, lambda _: gone)


def _numbers(row: LimitRow | None) -> dict[str, int | str | None]:
    """What the record of a change says of it."""
    return {} if row is None else {"concurrency": row.most or None, "rate": rate_text(row) or None}


def limits(home: Home) -> list[Limit]:
    """Every limit by its name, with the steps that hold it and those that wait."""
    return home.store.read(lambda look: [_shown(home, look, row) for row in look.limits()])


def _named(home: Home, look: Reading, name: str) -> Limit:
    row = look.limit_of(name)
    if row is None:
        raise LimitNotFound(name)
    return _shown(home, look, row)


def _shown(home: Home, look: Reading, row: LimitRow) -> Limit:
    held, waiting = (_uses(home, look, row.name, state) for state in (HELD, WAITING))
    return Limit(row.name, row.most, rate_text(row), row.set_by, moment(row.set_at), held, waiting)


def rate_text(row: LimitRow) -> str:
    """How many may begin in what time; empty: however many."""
    units = {1: "s", 60: "m", 3600: "h", 86_400: "d"}
    return f"{row.rate}/{units[row.window_us // 1_000_000]}" if row.rate else ""


def _uses(home: Home, look: Reading, name: str, state: str) -> tuple[SlotUse, ...]:
    rows = look.slots_of_limit(name, state)
    return tuple(SlotUse(row.run_id, row.step, state, moment(row.since)) for row in _living(home, look, rows))


def _living(home: Home, look: Reading, rows: list[SlotRow]) -> list[SlotRow]:
    dead = {holder: is_dead(home, look, holder) for holder in {row.holder for row in rows}}
    return [row for row in rows if not dead[row.holder]]


# -- taking ------------------------------------------------------------------------------------------


class SlotLines:
    """Where steps of this process wait for slots: those of one limit in the order in which they came."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._lock = threading.Lock()
        self._lines: dict[str, deque[Wanted]] = {}

    @contextmanager
    def wanted(self, name: str, run_id: str, step: str) -> Iterator[Wanted]:
        """A place in the line of a limit, until the slot was taken or nobody wants it any more."""
        place = Wanted(self, name, run_id, step)
        with self._lock:
            self._lines.setdefault(name, deque()).append(place)
        try:
            yield place
        finally:
            with self._lock:
                self._lines[name].remove(place)
            place.give_up()

    def is_first(self, place: Wanted) -> bool:
        return self._lines[place.name][0] is place

    def let_go(self, number: int, busy: threading.Thread | None) -> None:
        """A step has ended: its slot is free, once no body of it works any more."""

        def work() -> None:
            if busy is not None:
                busy.join()
            self.home.store.write_soon(lambda tx: tx.drop_slot(number))

        if busy is not None and busy.is_alive():
            begin(threading.Thread(target=work, name="outlast-slot", daemon=True), "a slot that is held")
        else:
            work()


class Wanted:
    """One step that wants a slot."""

    def __init__(self, lines: SlotLines, name: str, run_id: str, step: str) -> None:
        self.name, self._lines, self._run_id, self._step = name, lines, run_id, step
        self._row = 0  # that says that it waits
        self._version, self._look_at = -1, 0.0
        self.number = 0  # of the slot that it has

    def take(self) -> float:
        """0.0 once it has a slot; else after how many seconds to ask again. Raises LimitNotFound."""
        if not self._lines.is_first(self) or not self._has_news():
            return LOOK_SECONDS
        home = self._lines.home
        now = home.clock.now()
        free_at = home.store.read(lambda look: _free_at(home, look, self.name, now))
        if free_at <= now:
            self.number = home.store.write(self._take)
            if self.number:
                return 0.0
        elif not self._row:
            self._row = home.store.write(lambda tx: tx.add_slot(self._slot(WAITING)))
        self._look_at = time.monotonic() + min(SWEEP_SECONDS, max(free_at - now, 0) / 1_000_000)
        return LOOK_SECONDS

    def _has_news(self) -> bool:
        """Whether somebody has written since the last look, or it is time for another."""
        before, self._version = self._version, self._lines.home.store.version()
        return before != self._version or time.monotonic() >= self._look_at

    def _take(self, tx: Writing) -> int:
        """Take a slot if one is free still: its number, or 0."""
        home = self._lines.home
        now = home.clock.now()
        if _free_at(home, tx, self.name, now) > now:
            return 0
        row = tx.limit_of(self.name)
        assert row is not None
        rows = [*tx.slots_of_limit(self.name, HELD), *tx.slots_of_limit(self.name, WAITING)]
        for dead in [row for row in rows if row not in _living(home, tx, rows)]:
            tx.drop_slot(dead.number)
        if row.rate:
            tx.add_begun(lane_of(self.name), now, now - row.window_us)
        if self._row and tx.hold_slot(self._row, now):
            return self._row
        return tx.add_slot(self._slot(HELD))

    def _slot(self, state: str) -> SlotRow:
        home = self._lines.home
        return SlotRow(0, self.name, home.process.id, self._run_id, self._step, state, home.clock.now())

    def give_up(self) -> None:
        """Nobody waits here any more."""
        if self._row and not self.number:
            row, store = self._row, self._lines.home.store
            store.write_soon(lambda tx: tx.drop_slot(row))


def lane_of(name: str) -> str:
    """Where the beginnings under a limit are counted: no flow is called so."""
    return f"limit:{name}{LANE}"


def _free_at(home: Home, look: Reading, name: str, now: int) -> int:
    """Until when there is surely no slot, in microseconds; now or before: there is one. Raises LimitNotFound."""
    row = look.limit_of(name)
    if row is None:
        raise LimitNotFound(name)
    may_be_full = row.most and look.count_slots(name) >= row.most
    if may_be_full and len(_living(home, look, look.slots_of_limit(row.name, HELD))) >= row.most:
        return now + int(SWEEP_SECONDS * 1_000_000)
    last = look.begun_before(lane_of(name), row.rate) if row.rate else None
    return last + row.window_us if last is not None else now
