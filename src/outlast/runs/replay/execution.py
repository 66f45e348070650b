"""A run's body on its receipts alone: an execution that runs nothing and writes nowhere.

Every call that the ledger knows the outcome of gets it, as on a resume. Any other call ends its branch, as a wait does,
and is remembered: it is where an unfinished run goes on, or where the body does not do what it did.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, cast

from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import Paused
from outlast.ledger.journal import Header, JournalEntry, decode_payload
from outlast.runs import call_plain as calls
from outlast.runs.attempt import Attempt, Frame, StepCall
from outlast.runs.call import Call, Ledger, Past, Poisoned, Replay
from outlast.runs.execution import Execution, event_bytes
from outlast.runs.journal_writer import Entries, JournalWriter
from outlast.runs.live import Executor
from outlast.runs.rewind import REWOUND
from outlast.runs.step import StepSpec
from outlast.store.contract import Hold, Store, Writing
from outlast.values.codec import digest_inputs

MADE_UP = ("run.now", "run.random", "run.uuid")  # harmless to make: what is not recorded of them was never used
OWN = ("decision", "testimony", "run")  # kinds of entries that no body asks for
_NOWHERE = Entries(None, None, 0)


class Lacking(Struct, frozen=True):
    """A call that the body asked for and that has no outcome on record."""

    call: Call
    kind: str
    inputs: str = ""  # digest
    recorded: str = ""  # digest that is recorded for the same id

    @property
    def label(self) -> str:
        return self.call.path


class SilentWriter(JournalWriter):
    """Writes nothing: what it is told goes nowhere."""

    def note(self, made: JournalEntry) -> None:
        """Nothing rides with any commit."""

    def tell(self, made: JournalEntry) -> None:
        """Nothing waits until it is safe."""

    def queue(self, *entries: JournalEntry) -> Entries:
        return _NOWHERE

    def queue_work(self, work: Callable[[Writing], Any], *entries: JournalEntry) -> Entries:
        return _NOWHERE

    def write(self, entries: Entries) -> Any:
        return None

    def write_soon(self, entries: Entries) -> Awaitable[None] | None:
        return None


class _Shut:
    """Stands where the store was."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a replay does not touch the store ({name})")


class StandIn:
    """Stands where a live object was. To be handed on to steps, which are not run; used by the body, it ends that."""

    def __init__(self, key: str, used: Callable[[str], NoReturn]) -> None:
        object.__setattr__(self, "_StandIn__key", key)
        object.__setattr__(self, "_StandIn__used", used)

    def __repr__(self) -> str:
        return f"<stands in for resource {self.__key!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # asked by Python, to see what kind of object it is
            raise AttributeError(name)
        self.__used(f".{name}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        self.__used(f".{name} = …")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.__used("(…)")

    def __getitem__(self, name: Any) -> NoReturn:
        self.__used(f"[{name!r:.50}]")

    def __setitem__(self, name: Any, value: Any) -> NoReturn:
        self.__used(f"[{name!r:.50}] = …")

    def __contains__(self, name: Any) -> NoReturn:
        self.__used(" in a comparison")

    def __len__(self) -> NoReturn:
        self.__used(" with len")

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> NoReturn:
        self.__used(" in a loop")

    def __await__(self) -> NoReturn:
        self.__used(" with await")

    def __enter__(self) -> NoReturn:
        self.__used(" with with")

    def __exit__(self, *_: object) -> None:
        """It was never entered."""

    async def __aenter__(self) -> NoReturn:
        self.__used(" with async with")

    async def __aexit__(self, *_: object) -> None:
        """It was never entered."""


class Replaying(Execution):
    """An execution on receipts only."""

    on_receipts_only = True

    def __init__(self, executor: Executor, hold: Hold, ledger: Ledger, trace_id: str, *, is_over: bool) -> None:
        super().__init__(executor, hold, ledger, trace_id, resumed=False)
        self.writer = SilentWriter(executor.home.store, executor.home.clock, hold, trace_id, executor.home.project)
        self.store = cast("Store", _Shut())
        self.settings = replace(executor.home.settings, sleep_in_place_seconds=-math.inf)  # every sleep is a wait
        self.is_over = is_over  # the run succeeded: every call of its body is on record
        self.lacking: dict[Call, Lacking] = {}
        self.was_cut = False  # the body was ended at a call: what comes after it was not reached
        self.effects: list[Past] = []  # in the order in which the body asked for them
        self.after_last: dict[str, Any] = {}  # the state when the last outcome was given
        self.uses: dict[str, str] = {}  # live objects that the body uses by itself, and how
        self._unknown: dict[Call, StepCall] = {}

    # -- calls -----------------------------------------------------------------------------------

    def ask(
        self, frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any], call_id: str | None
    ) -> StepCall:
        """The call, if its outcome is known; else one that only a person could let run, and here nobody does."""
        asked = super().ask(frame, spec, args, kwargs, call_id)
        if not isinstance(asked.next, Replay):
            self._unknown[asked.call] = asked
            nothing = Header(spec.kind, spec.name)
            asked.next, asked.elsewhere = Poisoned(Past(asked.call, spec.kind, 0, 0, nothing, None)), None
        return asked

    def recorded(self, asked: StepCall, past: Past) -> Any:
        if past.kind == "effect":
            self.effects.append(past)
        try:
            return super().recorded(asked, past)
        finally:
            self.after_last = dict(self.state)

    def attempt(self, asked: StepCall, number: int, failures: int) -> Attempt:
        """There are no attempts here: the call has no receipt."""
        self.gate()
        self._lack(asked.call, asked.spec.kind)
        if not asked.in_map:
            self._cut()
        raise Paused

    def _lack(self, call: Call, kind: str) -> None:
        asked, past = self._unknown.get(call), self.ledger.calls.get(call)
        inputs = (asked.digest or call.inputs) if asked is not None else ""
        by_id = asked is not None and past is not None and past.finished and bool(asked.digest)
        recorded = past.last.seen_inputs if by_id and past is not None else ""
        self.lacking.setdefault(call, Lacking(call, asked.spec.kind if asked else kind, inputs, recorded))

    def _cut(self) -> None:
        self.was_cut = self.paused = True

    # -- the body's own calls --------------------------------------------------------------------

    def value_of_call(self, frame: Frame, name: str, make: Callable[[Call | None], Any]) -> Any:
        self.gate()
        call = self.numbered(frame, name, "")
        past = self.ledger.calls.get(call)
        if past is not None:
            past.asked = True
            return decode_payload(past.payload).facts if past.payload else None
        if name not in MADE_UP or self.is_over:
            self.end_at(call, "value")
        return make(call)

    def emit(self, frame: Frame, name: str, body: Any, kind: str) -> None:
        seen = digest_inputs({"body": body}, f"emit({name!r})")
        event_bytes(body, f"emit({name!r})")  # what was refused then is refused now
        self.gate()
        call = self.numbered(frame, name, f"!{seen}")
        if call not in self.ledger.calls:
            self._lack(call, "emit")

    def open_wait(self, call: Call, kind: str, *_: Any, **__: Any) -> tuple[str, str, str] | None:
        """The call waits for what is not recorded. Nobody is asked."""
        self.waits[call] = kind
        self._lack(call, kind)
        self.was_cut = self.was_cut or self.branches is None
        return None

    def end_at(self, call: Call, kind: str) -> NoReturn:
        """End the body at a call that cannot be answered."""
        self._lack(call, kind)
        self._cut()
        raise Paused

    def resource(self, key: str) -> Any:
        """Nothing is opened here, and nobody has to provide it."""

        def used(how: str) -> NoReturn:
            self.uses.setdefault(key, f"{key}{how}")
            self._cut()
            raise Paused

        return StandIn(key, used)

    def write_phase(self) -> None:
        """Nobody looks at a replay."""

    def never_asked(self) -> list[Past]:
        """What is recorded of this body's calls, of any kind, and it never asked for."""
        known = [past for past in self.ledger.calls.values() if past.kind not in OWN and not past.reused]
        return [past for past in known if past.decided != REWOUND and not self.has_made(past.call)]


@contextmanager
def counted() -> Iterator[None]:
    """A run's body is at work in this process: a step in a thread without its context is refused, as it would be."""
    calls.enter_process()
    try:
        yield
    finally:
        calls.leave_process()
