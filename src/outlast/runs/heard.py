"""What was last heard of each attempt of a run, in that order; a receipt is made of it when somebody asks (receipt.py).

Nearly every entry of a long run is the receipt of one more step that succeeded at once, and hardly any of them is
looked at: of these only the row is kept, with the number that each step has among its like (`Once`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

from outlast.ledger.journal import SOUND, UNDAMAGED, Flaws, Header, Row, decode_header, decode_payload, encode_header
from outlast.runs.call import LABELLED, Call, Naming, Past, call_of, known_scope, label
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple


class Heard(Struct, frozen=True, gc=False):
    """What was last heard of one attempt."""

    call: Call
    label: str
    row: Row
    attempt: int
    status: str
    started_at: int
    before: Row | None = None  # its first outcome, when it was settled later

    @property
    def whole(self) -> Heard:
        return self

    @property
    def header(self) -> Header:
        return decode_header(self.row.header)

    @property
    def seq(self) -> int:
        return self.row.seq

    @property
    def step(self) -> str:
        return self.call.step


class Once(Struct, frozen=True, gc=False):
    """The same of a step that succeeded at once and was not heard of again: the rest is read when it is asked for."""

    row: Row
    number: int  # among the calls of its path
    started_at: int
    attempt: ClassVar[int] = 1
    status: ClassVar[str] = "succeeded"
    before: ClassVar[None] = None

    @property
    def whole(self) -> Heard:
        call = self.call
        return Heard(call, label(call, 0, self.number), self.row, self.attempt, self.status, self.started_at)

    @property
    def header(self) -> Header:
        return decode_header(self.row.header)

    @property
    def call(self) -> Call:
        return call_of(self.header)

    @property
    def label(self) -> str:
        return label(self.call, 0, self.number)

    @property
    def seq(self) -> int:
        return self.row.seq

    @property
    def step(self) -> str:
        return self.call.step


AnyHeard = Heard | Once
Place = tuple[Call | int, int]  # the first entry of a step, or which call of another kind; and the attempt


def attempts_of(rows: Iterable[Row], flaws: Flaws = UNDAMAGED, names: Mapping[Call, str] | None = None) -> list[Heard]:
    """The last entry about each attempt, in that order. A damaged one is not hidden by what was written after it.

    `names` of the calls, if not all rows are here; else they get them here.
    """
    naming = Naming()
    latest: dict[Place, Heard] = {}
    began: dict[Call, int] = {}  # where a step first appears; after a rewind it begins anew, with attempt 1
    for row in rows:
        header = decode_header(row.header)
        if header.kind in LABELLED:
            call, seq = call_of(header), row.seq
            place: Place = (began.setdefault(call, seq) if header.kind == "step" else call, header.attempt)
            if flaws and flaws.get(seq, SOUND).why:
                place = (-seq, header.attempt)
            before = _before(known) if (known := latest.pop(place, None)) is not None else None
            name = naming.of(call, header) if names is None else names[call]
            latest[place] = Heard(call, name, row, header.attempt, header.status, header.started_at, before)
        elif header.kind == "run" and header.name == "rewound" and row.payload:
            to = int(decode_payload(row.payload).facts["to"])
            began = {call: seq for call, seq in began.items() if seq < to}
    return list(latest.values())


def _before(known: AnyHeard) -> Row | None:
    """The first outcome of an attempt that is heard of again."""
    return None if known.status == "started" else known.before or known.row


# How the headers of such receipts go on after the call: attempt, status, delivered, no mark, no agent. A quote within
# a text is written `\"`, so that this is part of no text.
_DONE = b',1,"succeeded",true,"","",'
_LABELLED = tuple(b'["%b",' % kind.encode() for kind in LABELLED)
_REWOUND = b'["run","rewound"'
DIGEST = 32  # letters and digits, of inputs that have no id
_STEP = b'["step",'
_DIGITS = 16  # of a moment, in microseconds, for the next 250 years


class Quick(NamedTuple):
    """All attempts of a run, and whether no step has more than one."""

    heard: list[AnyHeard]
    once_each: bool


def heard_quickly(rows: Iterable[Row]) -> Quick | None:
    """What `attempts_of` finds, where nearly all are steps that succeeded at once; None where it takes more care."""
    latest: dict[bytes | tuple[bytes, int, bool], AnyHeard] = {}
    numbers: dict[bytes, int] = {}  # of calls as they are written
    paths: dict[bytes, str] = {}  # of steps and scopes as they are written
    naming = Naming()
    for row in rows:
        raw = row.header
        end = raw.find(_DONE)
        begins = _step_and_scope(raw[:end]) if end > 0 and raw.find(b"#", end) < 0 else b""
        if begins:
            written, begun = raw[len(_STEP) : end], raw[end + len(_DONE) : end + len(_DONE) + _DIGITS]
            path = paths.get(begins) or paths.setdefault(begins, _path(begins))
            known = latest.pop(written, None)
            if not begun.isdigit() or (known is not None and known.status != "started"):
                return None
            number = numbers.get(written) or numbers.setdefault(written, naming.take(path))
            latest[written] = Once(row, number, int(begun))
        elif raw.startswith(_REWOUND):
            return None  # what it begins anew has a second first attempt
        elif raw.startswith(_LABELLED):
            _hear(row, latest, numbers, naming)
    return Quick(list(latest.values()), len(latest) == len(numbers))


def _hear(
    row: Row, latest: dict[bytes | tuple[bytes, int, bool], AnyHeard], numbers: dict[bytes, int], naming: Naming
) -> None:
    """An entry that is no such receipt."""
    header = decode_header(row.header)
    call, is_step = call_of(header), header.kind == "step"
    written = _written(*call)
    place = written if is_step and header.attempt == 1 else (written, header.attempt, is_step)
    known = latest.pop(place, None)
    number = numbers.get(written) or numbers.setdefault(written, naming.take(call.path, header.item))
    before = _before(known) if known is not None else None
    name = label(call, header.item, number)
    latest[place] = Heard(call, name, row, header.attempt, header.status, header.started_at, before)


def _step_and_scope(call: bytes) -> bytes:
    """How the header of a step's entry begins, up to its inputs; nothing of other kinds, and of inputs by an id."""
    inputs = call.rfind(b'",') - DIGEST  # where they begin
    is_digest = call[inputs : inputs + DIGEST].isalnum() and call[inputs - 3 : inputs] == b'","'
    return call[: inputs - 2] if is_digest and call.startswith(_STEP) else b""


def _path(written: bytes) -> str:
    _, step, scope = decode(written + b"]")
    return known_scope(scope) + str(step)


def labels_of(rows: Iterable[Row], wanted: Iterable[Call]) -> dict[Call, str]:
    """What people call these calls: what `labels` says of them, without the names of all others."""
    asked = {_written(*call): call for call in wanted}
    known: set[bytes] = set()
    paths: dict[bytes, str] = {}
    naming, names, item = Naming(), {}, 0
    near, near_path = b"\0", ""  # how the one before began: mostly the next one is of the same step
    passed = 0  # calls of that step since, whose labels nobody wants
    for row in rows:
        raw = row.header
        end = raw.find(_DONE)
        is_plain = end > 0 and raw.find(b"#", end) < 0
        if is_plain and raw.startswith(near) and (written := raw[len(_STEP) : end]) not in asked:
            passed += written not in known
            known.add(written)
            continue
        if passed:
            naming.pass_over(near_path, passed)
            passed = 0
        if is_plain and (begins := _step_and_scope(raw[:end])):
            path = near_path = paths.get(begins) or paths.setdefault(begins, _path(begins))
            near = begins + b',"'
            written, item = raw[len(_STEP) : end], 0
        elif raw.startswith(_LABELLED):
            header = decode_header(raw)
            written, item = _written(header.scope, header.name, header.inputs, header.occurrence), header.item
            path = call_of(header).path
        else:
            continue
        if written not in known:
            known.add(written)
            number = naming.take(path, item)
            if written in asked:
                names[asked[written]] = label(asked[written], item, number, path)
    return names


class LabelsOf:
    """The labels of some calls of a journal, which is looked through only if there are any."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self._known: dict[Call, str] = {}

    def __call__(self, pasts: Iterable[Past]) -> Mapping[Call, str]:
        new = [past.call for past in pasts if past.call not in self._known]
        if new:
            self._known |= labels_of(self._rows, new)
        return self._known


def _written(scope: str, step: str, inputs: str, occurrence: int) -> bytes:
    """A call as it stands in headers."""
    return encode_header((step, scope, inputs, occurrence))[1:-1]
