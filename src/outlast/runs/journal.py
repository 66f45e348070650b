"""Reading the journal of a run: every entry that can be read, and what is wrong with the others.

What the chain of a run proves of the rows beside it: how it began, how it stands, what it waits for and was told.

The journal is the truth. `verify` compares with it, and so does whoever takes in a run from elsewhere. The same
digests are made here for the entries that carry them.

What people call the calls of a run that is executed: the journal is read once, and then what is new in it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain as in_turn
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec

from outlast.errors import OutlastError
from outlast.ledger.journal import (
    CALLS,
    LOST,
    PAYLOAD,
    UNDAMAGED,
    Break,
    Flaws,
    Later,
    Row,
    breaks_of,
    check,
    decode_header,
    decode_payload,
    examine,
    facts_in,
    genesis,
    leave,
    legible,
    read_header,
)
from outlast.runs.call import Call, Naming, id_of, label, labels
from outlast.runs.run import FINISHED
from outlast.runs.step_inputs import REF_LENGTH
from outlast.store.contract import FinishedRow, InterruptRow, LeaseRow, NewRun, Reading, RunRow, Store
from outlast.values.codec import decode, digest, encode, identity
from outlast.values.frozen import NamedTuple

# What reading a record that no store wrote may end in.
UNREADABLE = (OutlastError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)

IN_HAND_BYTES = 8 << 20  # of what the entries of one run carry
SHORT_BYTES = 256  # what is not longer is not worth a second reading


class Journal(NamedTuple):
    """The entries of a run in order. Of a damaged one only what is safe to read is there, and what is wrong with it."""

    rows: list[Row]
    flaws: Flaws = UNDAMAGED
    breaks: tuple[Break, ...] = ()  # each damaged record by its name


def read(look: Reading, run: RunRow | FinishedRow, lease: LeaseRow | None = None) -> Journal:
    """All of a run's journal. One damaged entry does not hide the others."""
    memo, lease = look.memo, lease or look.lease_of(run.id)
    if memo is None:
        return _read(look, run, lease)
    place = (run.key, lease, run.inputs_digest)
    if place not in memo:
        memo[place] = _read(look, run, lease)
    found: Journal = memo[place]
    return found


def read_first(look: Reading, run: RunRow, most: int) -> Journal:
    """The first so many entries of a run's journal, all of which is looked at: of a damaged one, all of it."""
    lease = look.lease_of(run.id)
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    if lease is not None and check(run.id, start, look.each_entry(run.key), lease.head, lease.hash) is not None:
        return read(look, run, lease)
    return Journal(look.journal_of(run.key, 0, most))


def _read(look: Reading, run: RunRow | FinishedRow, lease: LeaseRow | None) -> Journal:
    rows: list[Row] = []
    every = in_hand(look, run.key, rows, of=f"{run.id}/")
    if lease is None:
        deque(every, maxlen=0)
        return Journal(rows)
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    if check(run.id, start, every, lease.head, lease.hash) is None:
        return Journal(rows)
    deque(every, maxlen=0)  # the rest of them
    flaws = examine(start, rows, lease.head, lease.hash)
    readable = legible(rows, flaws)
    return Journal(readable, flaws, tuple(_named(run.id, readable, flaws)))


def in_hand(look: Reading, chain: int, rows: list[Row], *, of: str = "") -> Iterator[Row]:
    """Every entry of a journal, as it is read; those that were looked at are put into `rows`.

    Once they carry more than a little, long results are left in the store: whoever needs one has it read then.
    """
    return in_turn.from_iterable(_pages_in_hand(look, chain, rows, of))


def _pages_in_hand(look: Reading, chain: int, rows: list[Row], of: str) -> Iterator[list[Row]]:
    later, room = look.later(chain), IN_HAND_BYTES
    if later is not None:
        later.of = of
    for page in look.entry_pages(chain, 0):
        yield page
        if room >= 0:
            room -= sum([len(row.kept) for row in page if type(row.kept) is bytes])
        rows += page if room >= 0 or later is None else [_left(row, later) for row in page]


def _left(row: Row, later: Later) -> Row:
    return leave(row, later) if type(row.kept) is bytes and len(row.kept) > SHORT_BYTES else row


def _named(run_id: str, rows: list[Row], flaws: Flaws) -> list[Break]:
    """The damaged records, with the step that each is of, as far as that is known."""
    known, names = {row.seq: row for row in rows}, labels(rows)
    told = []
    for seq, broken in breaks_of(run_id, flaws):
        of = _about(known[seq], names)
        says = of if flaws[seq].kind == PAYLOAD else f"it says that it is {of}"
        told.append(broken._replace(why=f"{broken.why} ({says})") if of else broken)
    return told


def _about(row: Row, names: dict[Call, str]) -> str:
    """What an entry is about, in words; empty when nobody knows."""
    header = decode_header(row.header)
    if header.kind in CALLS:
        label = names[Call(header.scope, header.name, header.inputs, header.occurrence)]
        word = "the start" if header.status == "started" else "the receipt"
        return f"{word} of {header.kind} {label}, attempt {header.attempt}"
    return "" if header.kind == LOST else f"{header.kind} {header.name}"


# What a row says since the run began, and when that was; the rest is in the chain's first hash. The last three also
# since it went on in another place.
BEGUN = ("scope", "parent", "session", "trace_id", "meta", "actor", "identity", "source", "worktree")
_begun = attrgetter(*BEGUN)
RELOCATED = "relocated"  # the entry with which it went on there
ENDS = ("waiting", "failed", "interrupted", "succeeded", "aborted")  # entries after which a run stands like that
ASKED = ("id", "type", "call", "step", "payload", "opened_at", "due_at", "form")  # what never changes of a wait


def row_digest(run: NewRun | RunRow) -> str:
    """What a run's row says from its first moment on, for its first entry and for those that say where it is now."""
    at = run.at if isinstance(run, NewRun) else run.created_at
    return identity(encode([*_begun(run), at]))


def tags_of(rows: Sequence[Row]) -> list[str]:
    """What a run was tagged with, by its first entry."""
    first = rows[0].payload if rows else None
    facts = decode_payload(first).facts if first and b'"tags":' in first else None
    return [str(tag) for tag in facts.get("tags", ())] if isinstance(facts, dict) else []


def wait_digest(wait: InterruptRow) -> str:
    """What a wait asks, for the entry with which its run comes to wait."""
    return identity(encode([getattr(wait, name) for name in ASKED]))[:32]


def standing_digest(run: RunRow, *beside: Iterable[Sequence[Any]]) -> str:
    """All that travels beside the chain (waits, requests, operations), for the entry with which a run leaves."""
    changing = [run.status, run.phase, run.result, run.error, run.updated_at, run.mark, run.named]
    return identity(encode([changing, *([list(row) for row in rows] for rows in beside)]))


# -- comparing ---------------------------------------------------------------------------------------


def differences(run: RunRow, rows: Sequence[Row], waits: Sequence[InterruptRow]) -> Iterator[Break]:
    """Where rows say something else than the chain, which is whole."""
    yield from differences_of_run(run, rows)
    yield from _of_waits(run, rows, {wait.id: wait for wait in waits})


def differences_of_run(run: RunRow, rows: Sequence[Row]) -> Iterator[Break]:
    """The same of the run's own row alone."""
    record = f"run {run.id}"
    began = facts_in(next((row for row in reversed(rows) if _name(row) == RELOCATED), rows[0])) if rows else {}
    if "row" in began and began["row"] != row_digest(run):
        yield Break(record, f"its {', '.join(BEGUN)} or created_at is not what it began with")
    if began.get("named") and not run.named:  # it would happen a second time
        yield Break(record, "a caller named its task, and its row does not say so any more")
    ended = next((row for row in reversed(rows) if _name(row) in (*ENDS, "started", "resumed")), None)
    name, facts = (_name(ended), facts_in(ended)) if ended is not None else ("", {})
    if run.status in ENDS and run.status != name:
        yield Break(record, f"its journal ends {name or 'nowhere'}, not {run.status}")
    elif run.status in FINISHED and rows[-1] is not ended:
        yield Break(record, f"its journal ends {_name(rows[-1]) or 'with a step'}, not {run.status}")
    elif run.status == "succeeded" and facts.get("result", "") != digest((run.result or "").encode()):
        yield Break(record, "its result was changed")
    elif run.status in ("failed", "aborted") and not _is_why(run, facts):
        yield Break(record, "its error was changed")


def _is_why(run: RunRow, facts: dict[str, Any]) -> bool:
    error = decode(run.error) if run.error else None
    name, known = ("error", error) if run.status == "failed" else ("why", (error or {}).get("message"))
    return bool(facts.get(name) == known)


def _of_waits(run: RunRow, rows: Sequence[Row], waits: dict[str, InterruptRow]) -> Iterator[Break]:
    last = next((row for row in reversed(rows) if _name(row) == "waiting"), None)
    asked = facts_in(last).get("waits", {}) if last is not None and run.status == "waiting" else {}
    for wait_id, proven in asked.items():
        wait = waits.get(wait_id)
        if wait is None or wait_digest(wait) != proven:
            yield Break(f"wait {wait_id}", "its row is missing" if wait is None else "what it asks was changed")
    for wait_id, answer, by in _answers(rows):
        wait = waits.get(wait_id)
        if wait is None:
            yield Break(f"wait {wait_id}", "its row is missing")
        elif wait.status != "used" and run.status not in FINISHED:
            yield Break(f"wait {wait_id}", f"its answer was used, and its row says {wait.status}")
        elif wait.status == "used" and not _is_told(wait, answer, by):
            yield Break(f"wait {wait_id}", "its answer, or who gave it, is not what was used")


def _is_told(wait: InterruptRow, answer: Any, by: str) -> bool:
    """Whether a wait was answered like that. One that was answered by its deadline may not say so in its row."""
    if wait.answered_by != by and wait.answered_by:
        return False
    if wait.answer is None:
        return True
    said = decode(wait.answer)
    choice = said.get("choice") if isinstance(said, dict) else None
    return bool(said == answer or (isinstance(answer, _Choice) and choice == answer.choice))


class _Choice(msgspec.Struct, frozen=True):
    """An answer that decided about a call: what was chosen."""

    choice: str


def _answers(rows: Sequence[Row]) -> Iterator[tuple[str, Any, str]]:
    """Every answer that the journal says was used: of which wait, what, and by whom."""
    for row in rows:
        if not row.says(b'"interrupt":'):
            continue
        header, payload = decode_header(row.header), decode_payload(row.payload or b"{}")
        facts = payload.facts if isinstance(payload.facts, dict) else {}
        if "interrupt" not in facts or header.mark not in ("decided", "reused", "") or header.kind == "emit":
            continue
        if header.kind == "wait":
            told = None if payload.result is msgspec.UNSET else decode(bytes(payload.result))
            yield str(facts["interrupt"]), told, str(facts.get("by", ""))
        elif header.mark in ("decided", "reused"):
            choice = {"skipped": "skip", "succeeded": "reuse"}.get(header.status, header.status)
            yield str(facts["interrupt"]), _Choice(choice), str(facts.get("by", ""))


def _name(row: Row) -> str:
    """Which fact about the run an entry is; empty when it is none."""
    return decode_header(row.header).name if row.header.startswith(b'["run",') else ""


# -- labels while it grows -------------------------------------------------------------------------


PAGE = 1000


class Labels:
    """The labels of a run's calls, as `call.labels` numbers them."""

    def __init__(self, store: Store, run_key: int) -> None:
        self._store, self._run_key = store, run_key
        self._lock = threading.Lock()
        self._seq = 0  # how far the journal was read
        self._named = Naming()
        self._by_ref: dict[str, tuple[str, str]] = {}  # the id and the label of each call
        self._found = 0  # how many calls that has
        self._told: dict[Call, tuple[int, str]] = {}  # of calls that have no entry yet

    def of(self, call: Call, item: int = 0) -> str:
        """What people call this call (of a map: of this item): as its receipts do, or will."""
        with self._lock:
            self._catch_up()
            known = self._named.names.get(call)
            if known is not None or call.step.startswith("run."):
                return known or call.path
            if call not in self._told:  # it has no entry yet: branches that come here at the same time differ too
                others = [number for each, (number, _) in self._told.items() if each.path == call.path]
                number = self._named.number(call.path, item, others)
                self._told[call] = number, label(call, item, number)
            return self._told[call][1]

    def among(self, rows: Sequence[Row]) -> Mapping[Call, str]:
        """The labels of all calls up to these rows, which are the next of the journal."""
        with self._lock:
            self._add((row.seq, row.header) for row in rows)
            return self._named.names

    def of_id(self, call_id: str) -> str:
        """The label of the call with this id (`id_of`); nothing when the journal does not know it."""
        ref = call_id[:REF_LENGTH]
        with self._lock:
            if ref not in self._by_ref:
                self._catch_up()
        return self.of_ref(ref)[1]

    def of_ref(self, ref: str) -> tuple[str, str]:
        """The id and the label of the call that inputs name by this, as far as the journal was read."""
        with self._lock:
            names = self._named.names
            if self._found < len(names):
                new = islice(names.items(), self._found, None)
                self._by_ref |= {(call := id_of(each))[:REF_LENGTH]: (call, name) for each, name in new}
                self._found = len(names)
            return self._by_ref.get(ref, (ref, ""))

    def _catch_up(self) -> None:
        """What is new: the headers alone, so many at a time that nobody is held up."""
        while new := self._store.read(lambda look: look.headers_of(self._run_key, self._seq, PAGE)):
            self._add(new)

    def _add(self, headers: Iterable[tuple[int, bytes]]) -> None:
        for self._seq, header in headers:
            self._named.add(read_header(header))
        if self._told:
            self._told = {call: told for call, told in self._told.items() if call not in self._named.names}
