"""Waiting in a body: sleeps that survive restarts, and maps that wait for all of their calls.

Of a map: by which key each item is known, and what became of one when failures are collected.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

from msgspec import Struct

from outlast.clock import moment
from outlast.errors import MapKeyTaken, NameInvalid, Paused, Refused, Stopped, ValueRefused
from outlast.ledger.journal import decode_payload
from outlast.runs.attempt import CURRENT, Frame, StepCall
from outlast.runs.call import FIRST, Call, Changed, Doubtful, Fresh, Poisoned, Replay, known_scope
from outlast.runs.execution import Execution
from outlast.runs.step import StepSpec
from outlast.values.ambient import begin
from outlast.values.frozen import NamedTuple
from outlast.values.late import asyncio

T = TypeVar("T")
KEY_LENGTH = 200
_LOOK_SECONDS = 0.2  # a signal that another thread took does not wake the one that waits


class Rest(NamedTuple):
    """What is left of a sleep."""

    call: Call
    due: int
    seconds: float


def sleep_plain(frame: Frame, duration: float) -> None:
    """Sleep in a plain body: in place if it is short, else by ending the body and leaving a timer."""
    execution = frame.execution
    rest = _rest(frame, duration)
    if rest is None:
        return
    if rest.seconds > execution.settings.sleep_in_place_seconds:
        _save_timer(execution, rest)
        execution.paused = True
        raise Paused
    left = rest.seconds
    while left > 0:
        execution.clock.sleep(min(left, _LOOK_SECONDS))
        execution.gate()
        left -= _LOOK_SECONDS
    _over(execution, rest)


async def sleep_async(frame: Frame, duration: float) -> None:
    """The same in an async body: a long sleep parks its branch."""
    execution = frame.execution
    rest = _rest(frame, duration)
    if rest is None:
        return
    with execution.branches.call() if execution.branches is not None else nullcontext():
        if rest.seconds > execution.settings.sleep_in_place_seconds and execution.branches is not None:
            _save_timer(execution, rest)
            await execution.branches.park()
        left = rest.seconds
        while left > 0:
            await execution.clock.sleep_async(min(left, _LOOK_SECONDS))
            execution.gate()
            left -= _LOOK_SECONDS
    _over(execution, rest)


def _rest(frame: Frame, duration: float) -> Rest | None:
    """What is left of this sleep, its end being on disk; None when the flow has slept it already."""
    execution = frame.execution
    if frame.attempt is not None:
        raise Refused(detail="run.sleep belongs to the flow's body; in a step, wait as you like")
    execution.gate()
    call = execution.numbered(frame, "run.sleep", "")
    past = execution.ledger.calls.get(call)
    if past is not None and past.payload:
        past.asked = True
        execution.come_to(past)
        facts = decode_payload(past.payload).facts
        if facts.get("over"):
            return None
        due = int(facts["due"])
    else:
        execution.come_to_new()
        due = execution.clock.now() + int(duration * 1_000_000)
        writer = execution.writer
        writer.commit(writer.fact("sleep", "run.sleep", {"due": due}, call))
    return Rest(call, due, (due - execution.clock.now()) / 1_000_000)


def _over(execution: Execution, rest: Rest) -> None:
    """The flow has slept: that is final, whatever the clock says later."""
    writer = execution.writer
    writer.tell(writer.fact("sleep", "run.sleep", {"due": rest.due, "over": True}, rest.call))


def _save_timer(execution: Execution, rest: Rest) -> None:
    due = moment(rest.due).isoformat(timespec="seconds")
    execution.open_wait(rest.call, "timer", {"due": due}, rest.due)


# -- maps --------------------------------------------------------------------------------------------


class Ok(Struct, Generic[T], frozen=True):
    """An item of a map whose call returned, or was skipped with a result."""

    value: T
    item: int = 0  # which one, counted from 1
    key: str = ""  # what `key=` gave for it

    def unwrap(self) -> T:
        """The value."""
        return self.value


class Failed(Struct, frozen=True):
    """An item of a map whose call failed for good. The error is the same on replay."""

    error: Exception
    item: int = 0  # which one, counted from 1
    key: str = ""  # what `key=` gave for it

    def unwrap(self) -> NoReturn:
        """Raises the error. If that ends the run, a resume tries this item again."""
        raise self.error


Item: TypeAlias = "Ok[T] | Failed"


def unwrap_all(results: Iterable[Ok[T] | Failed]) -> list[T]:
    """The values of a map whose items are all well, in order.

    Raises ExceptionGroup with the errors of all that failed. If that ends the run, a resume tries all of those again,
    and nothing else.
    """
    found = list(results)
    failed = [one.error for one in found if isinstance(one, Failed)]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(found)} items failed", failed)
    return [one.value for one in found if isinstance(one, Ok)]


def keys_of(step: str, items: Sequence[Any], key: Callable[[Any], Any]) -> list[str]:
    """The key of each item. Raises MapKeyTaken for two items of one key, NameInvalid for what cannot be one."""
    seen: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        made = _checked(step, number, key(item))
        if made in seen:
            raise MapKeyTaken(step, made, seen[made], number)
        seen[made] = number
    return list(seen)


def _checked(step: str, number: int, made: Any) -> str:
    kind = f"key of item {number} of map {step}:"
    if isinstance(made, bool) or not isinstance(made, str | int):
        raise NameInvalid(kind, repr(made), "a key is a text or a whole number")
    text = str(made)
    if not text or len(text) > KEY_LENGTH or not text.isprintable():
        raise NameInvalid(kind, text, f"a key is printable, of 1 to {KEY_LENGTH} characters")
    return text


def ask_all(
    execution: Execution, frame: Frame, spec: StepSpec, items: Iterable[Any], key: Callable[[Any], Any] | None = None
) -> list[StepCall]:
    """The calls of a map. With a `key` an item is known by that, whatever its inputs. Raises MapKeyTaken."""
    items = list(items)
    keys: Sequence[str | None] = [None] * len(items) if key is None else keys_of(spec.name, items, key)
    given = zip(items, keys, range(1, len(items) + 1), strict=True)
    with execution.side_by_side():
        asked = [_ask_item(execution, frame, spec, *each) for each in given]
    for one in asked:
        if isinstance(one.next, Changed):
            execution.ask_again(one)
        elif execution.on_receipts_only and isinstance(one.next, Poisoned) and one.call not in execution.ledger.calls:
            one.next = FIRST  # it was never begun, and stays so when another one failed
    if asked:
        known = sum(isinstance(one.next, Replay) for one in asked)
        execution.maps[asked[0].call.path] = (len(asked), known)
    return asked


def _ask_item(execution: Execution, frame: Frame, spec: StepSpec, given: Any, key: str | None, number: int) -> StepCall:
    try:
        asked = execution.ask(frame, spec, (given,), {}, key)
    except ValueRefused as error:  # which of the many it is
        facts = error.facts
        raise ValueRefused(f"item {number}: {facts['path']}", facts["why"], facts["remedy"]) from error
    asked.in_map, asked.item = True, number
    return asked


class Calls:
    """The calls of one map, and how each of them ended.

    On both paths, live and on replay, what is known already comes first and what the calls wrote to the state is
    applied in the order of the items once all of them have ended: which of them is the quickest changes nothing.
    """

    def __init__(self, execution: Execution, asked: list[StepCall], *, collect: bool = False) -> None:
        self.execution, self.asked, self._collect = execution, asked, collect
        if collect:
            execution.endings.make_room(len(asked))
        self.values: list[Any] = [None] * len(asked)
        self.errors: dict[int, BaseException] = {}
        self.over = False  # the run is to end: nothing more is begun
        self._failed = False  # now: only what is in doubt is still looked after
        self._failed_before = False  # before this execution: nothing is begun that was not begun then
        self.todo: list[int] = []
        for place, one in enumerate(asked):
            one.held = True
            if isinstance(one.next, Replay) and one.next.past.last.status != "cancelled":
                self._replay(place, one, one.next)
            else:
                self.todo.append(place)

    def _replay(self, place: int, one: StepCall, known: Replay) -> None:
        try:
            self.values[place] = self.execution.recorded(one, known.past)
        except Exception as error:
            self.errors[place] = error
            self._failed_before = self._failed_before or not self._is_kept(error)

    def may_begin(self, place: int) -> bool:
        found = self.asked[place].next
        if self.over or isinstance(found, Doubtful):
            return not self.over
        known = not isinstance(found, Fresh) or found.attempt > 1
        return not self._failed and (known or not self._failed_before)

    def ended(self, place: int, error: BaseException) -> None:
        """A call gave no value: a failure is the map's, a wait lets the others go on, any other signal ends it."""
        self.errors[place] = error
        if self._is_kept(error):
            error.__traceback__ = None  # what its frames hold may be large; the receipt has the text of it
        elif isinstance(error, Exception):
            self._failed = True
        elif not isinstance(error, Paused):
            self.over = True

    def _is_kept(self, error: BaseException) -> bool:
        """Whether this is an item's own failure, and failures are collected."""
        return self._collect and isinstance(error, Exception) and self.execution.endings.knows(error)

    def apply_writes(self) -> None:
        wrote = [one.wrote for one in self.asked if one.wrote]
        if wrote:
            self.execution.state.merge(wrote)

    def trouble(self) -> BaseException | None:
        """What the map raises: what ends the run, then the first failure by item, then a wait (saved already)."""
        ended = [self.errors[place] for place in sorted(self.errors) if not self._is_kept(self.errors[place])]
        found = min(ended, key=_rank, default=None)
        if found is not None:
            self.execution.endings.together(found, ended)
        return found

    def results(self) -> list[Any]:
        """What the map gives, in the order of the items."""
        return [self._result(place, one) for place, one in enumerate(self.asked)] if self._collect else self.values

    def _result(self, place: int, one: StepCall) -> Item[Any]:
        key = one.call.inputs[1:] if one.call.inputs[:1] == "=" else ""
        error = self.errors.get(place)
        if isinstance(error, Exception):
            return Failed(error, one.item, key)
        return Ok(self.values[place], one.item, key)


def _rank(error: BaseException) -> int:
    return 3 if isinstance(error, Paused) else 2 if isinstance(error, Stopped) else int(isinstance(error, Exception))


def map_plain(
    execution: Execution, asked: list[StepCall], concurrency: int, drive: Callable[..., Any], *, collect: bool = False
) -> list[Any]:
    """Drive calls in threads. A wait in one lets the others end first; then the body ends."""
    _share(asked, concurrency)
    calls = Calls(execution, asked, collect=collect)
    try:
        if calls.todo:
            Crew(calls, drive).work_all(min(concurrency, len(calls.todo)))
    finally:
        calls.apply_writes()
    trouble = calls.trouble()
    if trouble is not None:
        execution.paused = execution.paused or isinstance(trouble, Paused)
        raise trouble
    return calls.results()


def _share(asked: list[StepCall], concurrency: int) -> None:
    """Items that are done at once declare the same files: who of them wrote which, nobody knows."""
    if concurrency > 1 and len(asked) > 1 and asked[0].spec.writes:
        for one in asked:
            one.shared = known_scope(one.call.scope).rstrip("/")


class Crew:
    """Threads that share out the calls of a map."""

    def __init__(self, calls: Calls, drive: Callable[..., Any]) -> None:
        self._calls, self._drive = calls, drive
        self._left = iter(calls.todo)
        self._lock = threading.Lock()
        self._busy = 0  # calls under way
        self._none_left = False
        self._news: SimpleQueue[None] = SimpleQueue()

    def work_all(self, count: int) -> None:
        """Return when no call is under way and none is left to begin.

        Ctrl-C meanwhile is raised once the calls under way have ended: no thread works for a run that is over. They
        are not joined, since an interrupted join takes a thread that runs for one that has ended.
        """
        if count == 1:
            self._work()
            return
        frame = CURRENT.get()

        def body() -> None:
            CURRENT.set(frame)
            self._work()

        started = 0
        outside: BaseException | None = None
        while True:
            try:
                while started < count:
                    started += 1
                    begin(threading.Thread(target=body, name=f"outlast-map-{started}", daemon=True), "a worker of map")
                while not self._is_done():
                    with suppress(Empty):
                        self._news.get(timeout=_LOOK_SECONDS)
                break
            except BaseException as error:  # Ctrl-C, or there is no thread to be had
                self._calls.over, started = True, count
                self._calls.execution.stopping |= isinstance(error, KeyboardInterrupt)
                outside = outside or error
        if outside is not None:
            raise outside

    def _is_done(self) -> bool:
        with self._lock:
            return not self._busy and (self._none_left or self._calls.over)

    def _next(self) -> int | None:
        with self._lock:
            for place in self._left:
                if self._calls.may_begin(place):
                    self._busy += 1
                    return place
            self._none_left = True
            return None

    def _work(self) -> None:
        calls = self._calls
        while (place := self._next()) is not None:
            try:
                calls.values[place] = self._drive(calls.execution, calls.asked[place], park=False)
            except BaseException as error:
                calls.ended(place, error)
            with self._lock:
                self._busy -= 1
            self._news.put(None)
        self._news.put(None)


async def map_async(
    execution: Execution,
    asked: list[StepCall],
    concurrency: int,
    drive: Callable[..., Awaitable[Any]],
    *,
    collect: bool = False,
) -> list[Any]:
    """Drive calls in `concurrency` tasks, however many calls there are. One that waits makes room for the next."""
    _share(asked, concurrency)
    calls = Calls(execution, asked, collect=collect)
    left = iter(calls.todo)

    async def work() -> None:
        for place in left:
            if not calls.may_begin(place):
                continue
            try:
                calls.values[place] = await drive(execution, asked[place], park=False)
            except BaseException as error:
                calls.ended(place, error)
                if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                    raise

    try:
        if calls.todo:
            workers = min(concurrency, len(calls.todo))
            await asyncio.gather(*(work() for _ in range(workers)), return_exceptions=True)
    finally:
        calls.apply_writes()
    trouble = calls.trouble()
    if isinstance(trouble, Paused):
        await _park(execution)
    if trouble is not None:
        raise trouble
    return calls.results()


async def _park(execution: Execution) -> None:
    """Each call of a map has ended or waits: so does its branch, and the run when all of them do."""
    if execution.branches is None:  # on a loop of the user's own, inside a plain body
        execution.paused = True
        raise Paused
    with execution.branches.call():
        await execution.branches.park()
