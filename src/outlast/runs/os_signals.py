"""SIGINT, SIGTERM and SIGHUP while a run executes: the first asks it to stop after its step, the second stops it.

A hangup is heard once, however often it comes: a terminal that is closed says so twice, and service managers send it
after TERM. Nothing is forwarded to commands. The handler takes no lock and fills no buffer: it sets flags, writes one
line, and raises KeyboardInterrupt in the user's code only, so that nothing of ours is left half done. What cannot be
done at the moment of the signal, a thread sees to a moment later.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from outlast import errors
from outlast.runs.call import label
from outlast.runs.stops import PERSON, SHUTDOWN, both, stopped_by
from outlast.values.ambient import CALLERS, begin
from outlast.values.late import asyncio
from outlast.values.text import visible

if TYPE_CHECKING:
    from queue import Empty, SimpleQueue
    from signal import getsignal as handler_of
    from signal import signal as set_handler

    from outlast.runs.live import Executor
else:
    from _queue import Empty, SimpleQueue  # `queue` has others too, with what they need

    # those of `signal` look for an enum each time, a third of a run's begin
    from _signal import getsignal as handler_of
    from _signal import signal as set_handler

T = TypeVar("T")
DEFAULTS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
WHAT_THEN = {
    PERSON: "stopped by you: it stays stopped until it is resumed",
    SHUTDOWN: "stopped by a shutdown: it goes on by itself, with the next tick or server",
}
AGAIN_SECONDS = 0.05  # how often the thread looks whether what was asked for has come about
HAMMERING_SECONDS = 1.0  # signals that come so soon after the second are the same wish
SHOWN_STEPS = 3

_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_ASYNCIO = f"{os.path.dirname(os.__file__)}{os.sep}asyncio{os.sep}"
_cancels: list[Callable[[], None]] = []  # cancels what the main thread's event loop does for us
_listening: list[OsSignals] = []
_asked: SimpleQueue[OsSignals] = SimpleQueue()  # who has heard a signal; a handler may put: it takes no lock
_watching: threading.Thread | None = None  # sees to what they cannot do
_starting = threading.Lock()
_masks: dict[int, set[int | signal.Signals]] = {}  # of threads that fork


class OsSignals:
    """Listens for as long as the block lasts, then puts the handlers back that were there.

    A library listens over Python's own handlers only; `own_process` listens to all that is not ignored.
    """

    def __init__(self, executor: Executor, *, own_process: bool = False) -> None:
        self.first = 0  # the first one that came
        self._by = ""  # whose wish it is: a person's, or a shutdown
        self._executor, self._own_process = executor, own_process
        self._handlers: dict[int, Any] = {}
        self._now_at = 0.0  # when the step under way was to end too
        self._reached = False  # the user's code was given an exception
        self._poked = False  # the next signal is our own thread's
        self._over = False
        self._news: SimpleQueue[None] = SimpleQueue()  # that it is over
        self._seen_to: SimpleQueue[None] = SimpleQueue()  # that what a signal asked for has come about

    def __enter__(self) -> OsSignals:
        heard = [number for number in DEFAULTS if self._may_hear(number)]
        if heard:
            _watch()
            _listening.append(self)
        for number in heard:
            self._handlers[number] = set_handler(number, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True  # from here on a signal is only noted
        self._news.put(None)
        if self.first:
            self._seen_to.get()
        self.put_back()
        if self in _listening:
            _listening.remove(self)

    def _may_hear(self, number: int) -> bool:
        found = handler_of(number)
        return found not in (signal.SIG_IGN, None) if self._own_process else found == DEFAULTS[number]

    def put_back(self) -> None:
        """Listen no more."""
        for number, handler in self._handlers.items():
            if handler_of(number) == self._heard:  # else the user's code has set another one meanwhile
                set_handler(number, handler)

    # -- in the handler --------------------------------------------------------------------------

    def _heard(self, number: int, frame: FrameType | None) -> None:
        poked, self._poked = self._poked, False
        self._by = both(self._by, stopped_by(self.first if poked else number))
        if not self.first:
            self._ask(number)
        elif not self._over and (poked or number != signal.SIGHUP):
            last = self._now_at and not poked and time.monotonic() - self._now_at > HAMMERING_SECONDS
            self._now_at = self._now_at or time.monotonic()
            self._insist(number, frame, again=bool(last))

    def _ask(self, number: int) -> None:
        self.first = number
        _asked.put(self)
        if not self._over:
            self._executor.live.stop(by=self._by)
            limit = self._executor.home.settings.grace_seconds
            told = f"finishing {under_way(self._executor)}, up to {limit:g} s; again to stop now"
            _tell(f"{told}\n{WHAT_THEN[self._by]}\n")

    def _insist(self, number: int, frame: FrameType | None, *, again: bool) -> None:
        """Commands are ended where they are waited for. A Python body ends by an exception, if one can be raised."""
        if not self._executor.live.stop(True, self._by):
            return
        place = place_of(frame)
        if place == "theirs" and (again or not self._reached):
            self._reached = True
            raise KeyboardInterrupt
        if place == "loop" and not self._reached:
            self._reached = True
            _cancels[-1]()
        elif again:  # nothing of this helped: end as if nobody listened
            self._act_as_usual(number, signal.SIG_DFL if self._own_process else self._handlers[number])

    def _act_as_usual(self, number: int, handler: Any) -> None:
        self.put_back()
        signal.signal(number, handler)
        os.kill(os.getpid(), number)

    # -- in the thread ---------------------------------------------------------------------------

    def see_to_it(self) -> None:
        """Runs that went live since are asked too; time runs out; an exception waits for a place to be raised."""
        try:
            self._insist_until_over()
        finally:
            self._seen_to.put(None)

    def _insist_until_over(self) -> None:
        until = time.monotonic() + self._executor.home.settings.grace_seconds
        while not self._is_over():
            now = bool(self._now_at) or time.monotonic() >= until
            self._executor.live.stop(now, self._by)
            if now and not self._reached:
                self._poke()

    def _is_over(self) -> bool:
        with suppress(Empty):
            self._news.get(timeout=AGAIN_SECONDS)
            return True
        return self._over

    def _poke(self) -> None:
        """As if it had come again, and where a blocked main thread feels it."""
        ident = threading.main_thread().ident
        if ident is not None and not self._poked and signal.getsignal(self.first) == self._heard:
            self._poked = True
            signal.pthread_kill(ident, self.first)


def _watch() -> None:
    """See to it that a thread of this process waits for signals: one, however many runs listen. Raises NoThread."""
    global _watching
    with _starting:
        if _watching is None:
            _watching = begin(threading.Thread(target=_see_to_all, name="outlast-signals", daemon=True), "signals")


def _see_to_all() -> None:
    while True:
        _asked.get().see_to_it()


class OverDefaults(OsSignals):
    """Listens while a library's run executes, over Python's own handlers only.

    Where there is no thread for that, `unheard` is called first. When the run has ended the signal still counts:
    KeyboardInterrupt, or SystemExit(143) for SIGTERM, 129 for SIGHUP.
    """

    def __init__(self, executor: Executor, unheard: Callable[[], None]) -> None:
        super().__init__(executor)
        self._unheard = unheard

    def __enter__(self) -> OsSignals:
        try:
            return super().__enter__()
        except errors.NoThread:
            self._unheard()
            raise

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self.first == signal.SIGINT:
            raise KeyboardInterrupt
        if self.first:
            raise SystemExit(128 + self.first)


def over_defaults(executor: Executor, unheard: Callable[[], None]) -> AbstractContextManager[object]:
    """Listens for as long as the block lasts in the main thread, which alone hears signals."""
    is_main = threading.current_thread() is threading.main_thread()
    return OverDefaults(executor, unheard) if is_main else nullcontext()


def run_on_loop(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` that can be stopped as its own Ctrl-C stops it: what it runs is cancelled, then KeyboardInterrupt.

    An exception raised amid the loop's own code could leave a task that is never woken again.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(work)
    asked = False

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            nonlocal asked
            asked = True
            loop.call_soon_threadsafe(task.cancel)

        _cancels.append(cancel)
        try:
            return await work
        finally:
            _cancels.remove(cancel)

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if asked:
            raise KeyboardInterrupt from None
        raise


def place_of(frame: FrameType | None) -> Literal["theirs", "loop", "ours"]:
    """Whose code is interrupted: the user's, an event loop's that works for us, or our own."""
    inner = frame
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_OURS):
            return "theirs" if code in CALLERS else "ours"
        if code.co_filename.startswith(_ASYNCIO) and _cancels:
            return "theirs" if code.co_name == "_run" and frame is not inner else "loop"
        frame = frame.f_back
    return "theirs"


def under_way(executor: Executor) -> str:
    """The steps under way, for the line that is written: whatever can be told without a lock."""
    found = [attempt.asked for execution in list(executor.live.executions.values()) for attempt in list(execution.open)]
    names = [label(asked.call, asked.item, asked.item) for asked in found]
    shown = ", ".join(names[:SHOWN_STEPS]) or "the current step"
    more = f" and {len(names) - SHOWN_STEPS} more" if len(names) > SHOWN_STEPS else ""
    return visible(shown) + more


def _tell(line: str) -> None:
    """Write to stderr, unless it would have to be waited for or nobody reads it."""
    start = "\n" if os.isatty(2) else ""  # below the line that moves, and what the terminal shows of a Ctrl-C
    ready = select.poll()
    ready.register(2, select.POLLOUT)
    with suppress(OSError):
        if ready.poll(0):
            os.write(2, (start + line).encode(errors="backslashreplace"))


# -- processes that the user's code forks ------------------------------------------------------------


def _before_fork() -> None:
    """A signal that comes while the child is made must find the handlers that were there before us."""
    if _listening:
        _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, DEFAULTS)


def _after_fork() -> None:
    mask = _masks.pop(threading.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    global _watching, _starting, _asked
    _watching, _starting, _asked = None, threading.Lock(), SimpleQueue()
    while _listening:
        _listening.pop().put_back()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
