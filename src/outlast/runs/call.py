"""The identity of a call, what the journal knows of it, and what a call does on resume.

A call is known by its scope, its step's name, the digest of its inputs and which of the equal calls it
is: never by file, line or order across branches. All of this is pure; hypothesis tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.ledger.journal import (
    CALLS,
    LOST,
    NOTES,
    PAYLOAD,
    TESTIMONY,
    UNDAMAGED,
    UNTIED,
    Flaws,
    Header,
    Row,
    decode_header,
    decode_payload,
)
from outlast.runs.rewind import NOT_REACHED, leave_behind, set_aside
from outlast.values.codec import encode, identity
from outlast.values.frozen import NamedTuple

GOOD = ("succeeded", "skipped")
PROBED = "probed"  # the mark of an effect without an outcome: its probe can be asked
DAMAGED = "damaged"  # how an attempt ended whose receipt is not what was stored


class Call(NamedTuple):
    """Which call this is, in any run of the body."""

    scope: str
    step: str
    inputs: str
    occurrence: int

    @property
    def path(self) -> str:
        """Where people find it: its scope, without what only tells branches apart, and its step."""
        return known_scope(self.scope) + self.step


made_call: Callable[[tuple[str, str, str, int]], Call] = partial(tuple.__new__, Call)  # a third of what `Call()` takes


def call_of(header: Header) -> Call:
    """The call that an entry is about."""
    return made_call((header.scope, header.name, header.inputs, header.occurrence))


def header_of(kind: str, call: Call, **said: Any) -> Header:
    """The header of an entry about a call."""
    return Header(kind, call.step, call.scope, call.inputs, call.occurrence, **said)


def known_scope(scope: str) -> str:
    """The parts of a scope that somebody named: `draft/` of `~draft:f3353d29/draft/`."""
    return "".join(f"{part}/" for part in scope.split("/")[:-1] if part[:1] != "~") if "~" in scope else scope


def id_of(call: Call) -> str:
    """A call in a word: the same in its receipts, events and waits, on every attempt and in every process."""
    return identity(encode(call))[:16]


class Past(Struct, eq=False, gc=False):
    """What the journal knows of one call."""

    call: Call
    kind: str
    first: int  # its place: seq of the entry at which the body last came to it
    seq: int  # seq of its last entry
    header: Header | None  # of that, where it was looked at: of a plain receipt it is read when somebody asks
    entry: Row | None  # none of what is damaged, or was never written
    attempts: int = 0
    failures: int = 0  # attempts that count against the retries
    crashes: int = 0  # deaths of its process in which it was alone under way
    shared: int = 0  # deaths of its process that it shared with other steps
    open: bool = False  # started, and nothing since
    decided: str = ""  # a person said: retry, again
    asked: bool = False  # this run of the body has asked for it
    reused: bool = False  # a person gave its result to another call
    went_back: bool = False  # the run went back over this step, which was not tried since
    begun: bytes | None = None  # payload of its last start: how files were, which processes ran it

    @property
    def last(self) -> Header:
        """The header of its last entry."""
        if self.header is not None:
            return self.header
        assert self.entry is not None
        return decode_header(self.entry.header)

    @property
    def is_plain(self) -> bool:
        """Its only entry is the receipt of a step that succeeded, and nothing came of it since."""
        return self.header is None

    @property
    def payload(self) -> bytes | None:
        """What its last entry carries."""
        return None if self.entry is None else self.entry.payload

    @property
    def told(self) -> bytes | None:
        """The same, unless that is a plain result which was left in the store."""
        return None if self.entry is None else self.entry.told

    def is_of(self, code: str) -> bool:
        """Whether its last entry is of this code, or of none."""
        if self.header is None and self.entry is not None and self.entry.header.find(_quoted(code)) >= 0:
            return True
        return self.last.code in ("", code)

    @property
    def status(self) -> str:
        """How its last attempt ended."""
        return "succeeded" if self.header is None else self.header.status

    @property
    def finished(self) -> bool:
        """It has an outcome that the flow can be given."""
        return (self.header is None or self.header.delivered) and not self.open and not self.decided

    @property
    def aside(self) -> bool:
        """The run went back to it, or to before it, and the body has not come to it since."""
        return self.first == NOT_REACHED

    @property
    def undone(self) -> bool:
        """It was set aside, or had succeeded before, and has not been done again since."""
        return self.aside or self.went_back or (self.status in GOOD and not self.finished)

    @property
    def given(self) -> bool:
        """A child run whose outcome the body was given, and the run did not end by it: that is final."""
        return self.status in ("succeeded", "failed") and not self.decided

    @property
    def in_doubt(self) -> bool:
        """An effect whose intent is on disk and whose outcome nobody knows."""
        if self.kind != "effect" or not self.attempts or self.decided or self.last.delivered:
            return False
        return self.open or self.last.mark != "not_done"

    @property
    def ended_badly(self) -> bool:
        """Its failure was handed to the flow."""
        return self.status in ("failed", "timed_out") and self.last.delivered


@lru_cache(maxsize=256)
def _quoted(code: str) -> bytes:
    """A digest of code as it stands in headers."""
    return b'"%b"' % code.encode()


class Ledger(Struct, eq=False):
    """A run's journal, folded: every call, and the facts that steer a resume."""

    calls: dict[Call, Past] = field(default_factory=dict)
    effects: dict[str, list[Past]] = field(default_factory=dict)  # by name
    endings: list[tuple[str, int]] = field(default_factory=list)  # (running, failed, …; seq)
    accepted: list[dict[str, str]] = field(default_factory=list)
    checked: list[dict[str, Any]] = field(default_factory=list)  # what came of checks of its handoff
    needs: set[str] = field(default_factory=set)  # keys of the resources that its steps asked for
    makers: dict[str, list[str]] = field(default_factory=dict)  # of those, file and name of a registered function
    codes: dict[str, str] = field(default_factory=dict)  # code digest of finished steps -> step name
    places: dict[str, list[str]] = field(default_factory=dict)  # code digest -> file and qualified name
    mark: dict[str, Any] | None = None  # how far loops are over, and what still matters of them
    retried: int = 0  # how often the run was tried again by itself, since it last failed for good
    went_back: dict[str, int] = field(default_factory=dict)  # how often an unfinished step sent the run back
    closed: set[str] = field(default_factory=set)  # waits of which the journal says how they were closed
    answers: dict[Call, Past] = field(default_factory=dict)  # told before a rewind: for the same question
    forked: dict[str, Any] | None = None  # of a fork: from which call on it goes its own way, and with what state
    in_flight: dict[Call, Past] = field(default_factory=dict)  # begun by the last owner, and not ended
    body: str = ""  # code digest of the flow's body, as it last began to run
    damaged: bool = False  # entries of it are not what was stored
    lost: bool = False  # of those, some may have been about any call

    def unfinished(self) -> list[Past]:
        """The calls that have no outcome which the flow can be given."""
        odd = [past for past in self.calls.values() if past.header is not None or past.decided or past.open]
        return [past for past in odd if not past.finished]

    def left_over(self, call: Call) -> Past | None:
        """The oldest effect of that name, done or in doubt, that this body has not asked for and may mean.

        In the same scope any one may be meant; in an outer or inner scope only one with equal inputs (code that was
        moved into a task, or out of one). Effects of sibling branches are their own.
        """
        for past in self.effects.get(call.step, ()):
            done = past.finished and past.status in GOOD
            if past.asked or past.reused or past.call == call or not (done or past.in_doubt):
                continue
            theirs, ours = past.call.scope, call.scope
            moved = past.call.inputs == call.inputs and (theirs.startswith(ours) or ours.startswith(theirs))
            if theirs == ours or moved:
                return past
        return None


def copy_of(ledger: Ledger) -> Ledger:
    """The same ledger for who only looks: what is asked of it there leaves no trace in this one."""
    made = {id(past): copy(past) for past in (*ledger.calls.values(), *ledger.answers.values())}
    made |= {id(past): copy(past) for each in ledger.effects.values() for past in each if id(past) not in made}
    copied = copy(ledger)
    copied.calls = {call: made[id(past)] for call, past in ledger.calls.items()}
    copied.effects = {name: [made[id(past)] for past in each] for name, each in ledger.effects.items()}
    copied.answers = {call: made[id(past)] for call, past in ledger.answers.items()}
    copied.went_back, copied.in_flight = dict(ledger.went_back), {}
    return copied


def equal_elsewhere(ledger: Ledger, call: Call, *, is_command: bool) -> Past | None:
    """An effect of that name and those inputs, done or in doubt, that this body has not asked for: in any scope.

    A command has its name alone in its file: in another round or item of the same group it is another one.
    """
    for past in ledger.effects.get(call.step, ()):
        if past.asked or past.call.inputs != call.inputs or not (past.finished or past.in_doubt):
            continue
        if not is_command or past.call.scope == call.scope or _group(past.call.scope) != _group(call.scope):
            return past
    return None


def _group(scope: str) -> list[str]:
    """A scope without its rounds and items."""
    return [part.partition("[")[0] for part in scope.split("/")]


# -- what a call does on resume ----------------------------------------------------------------------


class Fresh(Struct, frozen=True):
    """Run it: attempt number `attempt`, after `failures` failed ones."""

    attempt: int
    failures: int = 0


class Replay(Struct, frozen=True):
    """Give the recorded outcome again."""

    past: Past


class Doubtful(Struct, frozen=True):
    """An effect that may have happened: ask its probe, then a person."""

    past: Past


class Changed(Struct, frozen=True):
    """An effect was done (or begun) under this name with other inputs: a person decides."""

    past: Past


class Poisoned(Struct, frozen=True):
    """The process died in this step too often: a person decides."""

    past: Past


FIRST = Fresh(1)
NextCall = Fresh | Replay | Doubtful | Changed | Poisoned
SHARED_TIMES = 10  # as many deaths as a step must be alone in may be shared before somebody is asked


def next_call(call: Call, kind: str, ledger: Ledger, poison: int) -> NextCall:
    """What a call does: replay its receipt, run, or wait for someone who knows.

    An outcome that was delivered is final. Everything else is tried again, except an effect that may have
    happened and a step in which its process died `poison` times. Where entries are gone, any effect may have.
    """
    past = ledger.calls.get(call)
    if past is None:
        other = ledger.left_over(call) if kind == "effect" else None
        return Changed(other) if other else FIRST if kind != "effect" or not ledger.lost else Doubtful(_unheard(call))
    if past.finished:
        return Replay(past)
    if past.in_doubt or (kind == "effect" and past.last.status == DAMAGED and not past.decided):
        return Doubtful(past)
    if is_poisoned(past, poison):
        return Poisoned(past)
    return Fresh(past.attempts + 1, past.failures)


def _unheard(call: Call) -> Past:
    """An effect that no entry is about, in a journal that has lost some."""
    last = header_of("effect", call, attempt=1, status=DAMAGED)
    return Past(call, "effect", 0, 0, last, None, attempts=1)


def is_poisoned(past: Past, poison: int) -> bool:
    """Whether the process died too often in this step: alone, or far more often with others."""
    often = past.crashes >= poison or past.shared >= SHARED_TIMES * poison
    return often and past.kind == "step" and past.decided != "retry"


# -- folding -----------------------------------------------------------------------------------------


def fold(rows: Iterable[Row], flaws: Flaws = UNDAMAGED, ledger: Ledger | None = None) -> Ledger:
    """Read a journal in order into what a resume needs to know. What is damaged of it speaks for nothing.

    Given the ledger of the entries before these, it learns what these say.
    """
    ledger = ledger or Ledger(damaged=bool(flaws))
    calls, codes, plain = ledger.calls, ledger.codes, _PlainHeaders()
    for row in rows:
        call = plain.call_in(row.header)
        if call is not None and not flaws and call not in calls:  # nearly every entry of a long run: no more to learn
            calls[call] = Past(call, "step", row.seq, row.seq, None, row, 1)
            continue
        seq, header = row.seq, decode_header(row.header)
        if flaws and seq in flaws and not _is_believed(header, flaws[seq].kind):
            _fold_damaged(ledger, header, seq, is_known=flaws[seq].kind == PAYLOAD)
            continue
        if header.kind == "run":
            _fold_fact(ledger, header, seq, row.payload)
            continue
        if header.kind == "emit" and header.key:
            continue  # said in a step, whose key it bears: no call of the body
        if header.kind in NOTES:
            if header.name != "opened" and header.kind == "interrupt" and row.payload:
                ledger.closed.add(str(decode_payload(row.payload).facts["id"]))
            continue
        call = call_of(header)
        past = calls.get(call)
        if past is None:
            if _is_plain(header) and header.code in codes:
                calls[call] = Past(call, "step", seq, seq, None, row, header.attempt)
                plain.learn(row.header, header)
                continue
            past = calls[call] = Past(call, header.kind, seq, seq, header, row)
            if header.kind == "effect":
                ledger.effects.setdefault(call.step, []).append(past)
        if header.kind == "decision":
            past.decided, past.crashes, past.shared, past.failures, past.open = header.status, 0, 0, 0, False
            ledger.in_flight.pop(past.call, None)
        else:
            _fold_attempt(ledger, past, header, row)
    return ledger


# How the header of a plain receipt goes on after its inputs, of the first call with these and its first attempt. A
# quote within a text is written `\"`, so that this is part of no text. After it come two moments, no key, and the code.
_ONCE = b'",0,1,"succeeded",true,"","",'
_DIGEST = 32  # letters and digits of inputs that have no id, and of code
_CODE = len(_ONCE) + len('1794979661213807,1794979661213854,"","')  # as moments are for the next 250 years


class _PlainHeaders:
    """Headers of plain receipts that are known by how those before them looked, without decoding them."""

    def __init__(self) -> None:
        self._begun: dict[bytes, tuple[str, str]] = {}  # how they begin, up to the inputs: scope and step
        self._codes: set[bytes] = set()

    def learn(self, raw: bytes, header: Header) -> None:
        """This is one; others of its step and code are known by it."""
        end = raw.find(_ONCE)
        if end > 0 and raw[end - _DIGEST : end] == header.inputs.encode():
            self._begun[raw[: end - _DIGEST]] = header.scope, header.name
            self._codes.add(header.code.encode())

    def call_in(self, raw: bytes) -> Call | None:
        """The call of a plain receipt, where that is known."""
        end = raw.find(_ONCE)
        begun = self._begun.get(raw[: end - _DIGEST]) if end > 0 else None
        if begun is None or raw[end + _CODE : end + _CODE + _DIGEST] not in self._codes:
            return None
        inputs = raw[end - _DIGEST : end]
        return made_call((*begun, inputs.decode(), 0)) if inputs.isalnum() else None


def _is_plain(header: Header) -> bool:
    return header.kind == "step" and header.status == "succeeded" and header.delivered and not header.mark


def _fold_attempt(ledger: Ledger, past: Past, header: Header, row: Row) -> None:
    payload = row.told
    if past.kind == "decision":  # the call was decided on before it had an entry of its own
        past.kind = header.kind
        if header.kind == "effect":
            ledger.effects.setdefault(past.call.step, []).append(past)
    past.open = header.status == "started"
    if past.open:
        past.begun = payload
        ledger.in_flight[past.call] = past
    elif ledger.in_flight:
        ledger.in_flight.pop(past.call, None)
    past.header, past.entry, past.seq, past.decided, past.went_back = header, row, row.seq, "", False
    past.first = min(past.first, row.seq)
    past.attempts = max(past.attempts, header.attempt)
    if header.status in ("failed", "timed_out"):
        past.failures += bool(header.payload) or header.mark != "not_done"  # a crash that a probe cleared is no failure
    elif header.code and header.delivered:
        ledger.codes[header.code] = header.name
    if header.mark == "reused" and payload is not None:
        was = ledger.calls.get(Call(*decode_payload(payload).facts["was"]))
        if was is not None and was is not past:
            was.reused = True
    if payload is not None and payload.startswith(b'{"place":'):
        ledger.places[header.code] = decode_payload(payload).place or []


def _is_believed(header: Header, flaw: str) -> bool:
    """Whether a flawed entry counts: without what it carries, or where nothing can happen twice by it."""
    if flaw == UNTIED:
        return header.kind not in ("effect", "decision") or (header.delivered and header.status in GOOD)
    return flaw == PAYLOAD and (header.kind in ("run", "emit", *NOTES) or header.status == "started")


def _fold_damaged(ledger: Ledger, header: Header, seq: int, *, is_known: bool) -> None:
    """A damaged entry: a step is done again, an effect is in doubt; a value, a wait or a decision is made anew.

    `is_known`: its header is sound, so it is about the call that it names and no other.
    """
    call = call_of(header)
    if not is_known and (seq > 1 or header.kind == LOST):  # one that is there as the first says that the run began
        _lose(ledger)
    past = ledger.calls.get(call)
    if header.kind == "spawn" and past is None:  # there is a child: it is looked for, not begun once more
        ledger.calls[call] = Past(call, "spawn", seq, seq, replace(header, status=DAMAGED, delivered=False), None)
    if header.kind not in CALLS or (past is not None and past.finished and not is_known):
        return
    if past is None or past.kind == "decision":
        past = ledger.calls[call] = Past(call, header.kind, seq if past is None else past.first, seq, header, None)
        if header.kind == "effect":
            ledger.effects.setdefault(call.step, []).append(past)
    past.attempts, past.seq = max(past.attempts, header.attempt, 1), seq
    ledger.in_flight.pop(call, None)
    spoil(past, header)


def spoil(past: Past, last: Header | None = None) -> None:
    """The receipt of a call is not what was stored: a step is done again, an effect is in doubt."""
    probed = PROBED if PROBED in (past.last.mark, last.mark if last else "") else ""
    past.header = replace(last or past.last, status=DAMAGED, delivered=False, mark=probed)
    past.entry, past.open, past.decided = None, False, ""


def _lose(ledger: Ledger) -> None:
    """Entries are gone: an effect that was to be tried again may have been, and what was decided may be done."""
    ledger.lost = True
    for call, past in list(ledger.calls.items()):
        if past.kind == "decision":
            del ledger.calls[call]
        elif past.kind == "effect" and not past.finished and not past.in_doubt:
            spoil(past)


def count_death(ledger: Ledger, death: str) -> None:
    """The owner is gone: of the steps that were under way one that was alone has died with it, several have shared it.

    `death` says why it is no step's doing alone (`heartbeat.py`); an owner that was only taken over did not die.
    """
    several = bool(death) or len(ledger.in_flight) > 1
    for past in ledger.in_flight.values():
        past.crashes += not several
        past.shared += several and death != "taken"
    ledger.in_flight.clear()


def _fold_fact(ledger: Ledger, header: Header, seq: int, payload: bytes | None) -> None:
    facts = decode_payload(payload).facts if payload else None
    if header.name in ("started", "resumed") and facts:
        ledger.body = str(facts.get("code", ledger.body))
    if header.name in ("failed", "retrying") and facts:
        ledger.retried = ledger.retried + 1 if header.name == "retrying" else 0
        for ended in facts.get("ended_by", ()):
            past = ledger.calls.get(Call(*ended))
            if past and not (past.kind == "effect" and past.last.status == DAMAGED):  # nobody knows how that ended
                past.decided, past.failures = "retry", 0
    elif header.name == "rewound" and facts:
        set_aside(ledger, int(facts["to"]))
        if "from" in facts:
            ledger.went_back[facts["from"]] = ledger.went_back.get(facts["from"], 0) + 1
    elif header.name == "forked" and facts:
        ledger.forked = facts
        set_aside(ledger, int(facts["to"]))
    elif header.name == "reached" and facts and "after" in facts:
        leave_behind(ledger, facts["after"], facts["over"])
    elif header.name == "reached" and facts:
        past = ledger.calls.get(Call(*facts["call"]))
        if past is not None:
            past.first = seq
    elif header.name == "resumed" and facts and facts.get("from") == "crashed":
        count_death(ledger, str(facts.get("death", "")))
    elif header.name == "mark":
        ledger.mark = facts
    elif header.name == "accepted" and facts:
        ledger.accepted.append(facts)
    elif header.name == "checked" and facts:
        ledger.checked.append(facts)
    elif header.name == "needs" and facts:
        ledger.needs.add(str(facts["resource"]))
        if "made_by" in facts:
            ledger.makers[str(facts["resource"])] = facts["made_by"]
    ledger.endings.append((header.name, seq))


# -- names for people --------------------------------------------------------------------------------


def labels(rows: Iterable[Row], known: Mapping[Call, Past] | None = None) -> dict[Call, str]:
    """What people call a call: its path, and `~2` and so on for later calls.

    The number of a map's call is that of its item; of an item with a key it is the key. By the calls that are `known`,
    where there are any: of a long run there is no room for each of them twice.
    """
    named, own = Naming(), known or {}
    for row in rows:
        header = decode_header(row.header)
        if header.kind in LABELLED:
            call = call_of(header)
            named.of(past.call if (past := own.get(call)) is not None else call, header)
    return named.names


LABELLED = (*CALLS, TESTIMONY)


class Naming:
    """Labels as they are given out, entry by entry. No two calls of a run have the same."""

    def __init__(self) -> None:
        self.names: dict[Call, str] = {}
        self._free: dict[str, int] = {}  # by scope and name: the number below which all are taken
        self._taken: dict[str, set[int]] = {}  # numbers above that

    def add(self, header: Header) -> None:
        """The first entry about a call gives it its label."""
        if header.kind in LABELLED:
            self.of(call_of(header), header)

    def of(self, call: Call, header: Header) -> str:
        """The label of a call that this entry is about."""
        known = self.names.get(call)
        if known is not None:
            return known
        path, item = call.path, header.item if header.seen else 0
        made = self.names[call] = label(call, item, self.take(path, item), path)
        return made

    def take(self, path: str, item: int = 0) -> int:
        """The number that the next new call of a path has; nobody else gets it."""
        if not item and path not in self._taken:
            number = self._free.get(path, 1)
            self._free[path] = number + 1
            return number
        number = self.number(path, item)
        if number == self._free.get(path, 1):
            self._free[path] = number + 1
        else:
            self._taken.setdefault(path, set()).add(number)
        return number

    def pass_over(self, path: str, calls: int) -> None:
        """So many new calls of a path have their numbers, and nobody asks which."""
        if path not in self._taken:
            self._free[path] = self._free.get(path, 1) + calls
            return
        for _ in range(calls):
            self.take(path)

    def number(self, path: str, item: int, told: Collection[int] = ()) -> int:
        """That of its item; else, or when another call of the path has that or was told of, the next one."""
        number, taken = self._free.get(path, 1), self._taken.get(path, ())
        if item >= number and item not in taken and item not in told:
            return item
        while number in taken:
            number += 1
        self._free[path] = number
        while number in taken or number in told:
            number += 1
        return number


def label(call: Call, item: int, number: int, path: str = "") -> str:
    """What the call with this number in its path is called."""
    path = path or call.path
    if item and call.inputs[:1] == "=":
        return f"{path}~{call.inputs[1:]}"
    return f"{path}~{number}" if number > 1 else path
