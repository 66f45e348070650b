"""The mirror: receipts and handoffs of a run as files, for people and agents who read files.

Each file is written whole, by rename. The database is the truth; the mirror is never read back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from outlast.errors import OutlastError
from outlast.flows.loading import is_flow_file, lasting
from outlast.home.home import Home, run_row
from outlast.ledger.journal import CALLS, UNDAMAGED, Flaws, Row, decode_header
from outlast.runs import journal
from outlast.runs.call import GOOD
from outlast.runs.journal import Labels
from outlast.runs.receipt import Attempts, Receipt
from outlast.values.codec import encode, identity, jsonable
from outlast.values.private import make_folder, write_file

_NAME_BYTES = 110  # of a step and of an agent: both, a number and a suffix are one name of a file
PIECE = 100  # receipts that are made at once
CONDITIONS = ("when", "until")  # they decide and hand nothing over

Name = Callable[[Receipt], str]


def folder_of(home: Home, run_id: str, flow: str) -> Path:
    """Where a run's mirror lies; of the default tenant next to its folder, of another one inside."""
    base = home.path if home.tenant == "default" else home.folder
    return base / "runs" / run_id / safe(flow_name(flow))


def flow_name(source: str) -> str:
    """A flow's short name: what stands after the colon."""
    return source.rpartition(":")[2] or source


def safe(name: str) -> str:
    """A name as one part of a path: no separator, no dot in front, not too long. Two names never become one."""
    plain = quote(name, safe=" !#$&'()+,;=@[]{}~^`", errors="surrogatepass")
    plain = f"%2E{plain[1:]}" if plain.startswith(".") else plain
    if len(plain) <= _NAME_BYTES:
        return plain or "%"
    digest = identity(name.encode("utf-8", "surrogatepass"))[:16]
    return f"{plain[: _NAME_BYTES - 18]}%-{digest}"  # no quoted name has a % before a dash


class Mirror:
    """The live mirror of one run: of commands, or `counted`, of Python code, whose calls are known by their order."""

    def __init__(self, home: Home, run_id: str, run_key: int, flow: str, since: int, *, counted: bool = False) -> None:
        self._home, self._run_id, self._key = home, run_id, run_key
        self._flow = lasting(flow, home.project)
        self.since, self._whole = since, since == 0  # seq of the last entry that it has
        self._labels = Labels(home.store, run_key) if counted else None
        self._folder = self._new_folder(folder_of(home, run_id, flow))
        self._lock = threading.Lock()
        self._given_up = False

    def catch_up(self, most: int | None = None) -> bool:
        """Write what the journal has that the mirror has not, `most` entries of it; whether there may be more.

        A full disk or a damaged entry does not stop the run.
        """
        with self._lock:
            if self._given_up:
                return False
            try:
                return self._catch_up(most) == most
            except (OSError, OutlastError, msgspec.MsgspecError) as error:
                self._given_up = True
                why = error.strerror if isinstance(error, OSError) else error
                later = f"`outlast export {self._run_id} --mirror` writes it later"
                self._home.tell(f"the mirror {self._folder.path} cannot be written: {why}; {later}")
                return False

    def _catch_up(self, most: int | None) -> int:
        rows, flaws = self._read(self.since, most)
        if not rows:
            return 0
        found = len(rows)
        if any(map(_goes_back, rows)) and not self._whole:  # then what came before matters for the names
            self._whole = True
            rows, flaws = self._read(0)  # each attempt before keeps a file of its own
            self._folder = self._new_folder(self._folder.path)
        self.since = rows[-1].seq
        attempts = Attempts(self._run_id, self._flow, rows, self._home.blobs.get, flaws=flaws, labels=self._labels)
        self._folder.write([*attempts])
        self._folder.forget_finished()
        return found

    def _new_folder(self, path: Path) -> _Folder:
        return _Folder(path, _Counted() if self._labels is not None else iterated)

    def _read(self, since: int, most: int | None = None) -> tuple[list[Row], Flaws]:
        """What is new; where it is read from its beginning, what is damaged is told too."""
        if since:
            return self._home.store.read(lambda look: look.journal_of(self._key, since, most)), UNDAMAGED
        run = run_row(self._home, self._run_id)
        if most is None:
            whole = self._home.store.read(lambda look: journal.read(look, run))
        else:
            whole = self._home.store.read(lambda look: journal.read_first(look, run, most))
        return whole.rows, whole.flaws


def _goes_back(row: Row) -> bool:
    """Whether a step may have receipts already: of an attempt before, after a rewind, or in a flow that went back."""
    header = decode_header(row.header)
    tried = header.kind in CALLS and header.attempt > 1
    return tried or header.occurrence > 0 or (header.kind, header.name) == ("run", "rewound")


def write_mirror(home: Home, run_id: str) -> Path:
    """Write the whole mirror of a run, and give its folder. Raises OSError when the disk does not take it."""
    row = run_row(home, run_id)
    kept = home.store.read(lambda look: journal.read(look, row))
    folder = folder_of(home, row.id, row.flow)
    make_folder(folder)
    files = _Folder(folder, iterated if is_flow_file(row.flow) else _Counted())
    attempts = Attempts(row.id, row.flow, kept.rows, home.blobs.get, flaws=kept.flaws)
    if any(map(_goes_back, kept.rows)):
        files.write(attempts)  # what is heard of a call again steps aside: all of them are needed
        return folder
    receipts = iter(attempts)
    while piece := list(islice(receipts, PIECE)):
        files.write(piece)
        files.forget_finished()
    return folder


def iterated(receipt: Receipt) -> str:
    """A command's name: `~<n>` says which iteration or item around it. A condition's begins with its owner's.

    `~<n>~<m>` says that it is one of the mth time that a loop was gone through, since a way led back.
    """
    parts = receipt.scope.split("/")[:-1]
    loops = [part.rpartition("[") for part in parts if part.endswith("]")]
    numbers = [number[:-1] for _, _, number in loops]
    again = [name.rpartition("~")[2] for name, _, _ in loops if "~" in name]
    between = "." if all(number.isdigit() for number in numbers) else "/"  # an item may have a dot in its name
    place = "" if set(numbers) <= {"1"} and not again else "~" + between.join(numbers)
    place += "".join(f"~{count}" for count in again)
    inner = [part for part in parts if not part.endswith("]")]  # of `when`: the step that it is about
    if receipt.step in CONDITIONS and loops and not inner:
        inner = [loops[-1][0].partition("~")[0]]  # of `until`: the loop
    return "@".join([*inner, receipt.step]) + place + (f"~{receipt.occurrence + 1}" if receipt.occurrence else "")


class _Counted:
    """Names for a Python flow's calls: `~<n>` for the nth one of a step, in the order of the run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, receipt: Receipt) -> str:
        if receipt.label not in self._names:
            count = self._counts[receipt.step] = self._counts.get(receipt.step, 0) + 1
            self._names[receipt.label] = receipt.step + (f"~{count}" if count > 1 else "")
        return self._names[receipt.label]


class _Folder:
    """Writes receipts: the newest attempt of a call under its plain name, the ones before with a number."""

    def __init__(self, path: Path, name: Name) -> None:
        self.path, self._name = path, name
        self._owners: dict[str, tuple[str, str]] = {}  # which step and agent are called so
        self._latest: dict[str, tuple[Receipt, int]] = {}  # by plain name: the newest attempt, and its number
        self._made: set[Path] = set()

    def write(self, receipts: Iterable[Receipt]) -> None:
        """Write these, which are newer than all before. One that has only begun is written when it is superseded."""
        touched: dict[str, None] = {}
        for receipt in receipts:
            # when two pairs of step and agent read the same, the first one has the plain name
            step, agent = receipt.step, receipt.agent or "main"
            ending = safe(agent).replace("~", "%7E")
            place = f"{safe(self._name(receipt))}-{ending}"
            first = self._owners.setdefault(f"{safe(step)}-{ending}", (step, agent))
            place = place if first == (step, agent) else f"{place}%-{len(agent)}"
            self._latest[place] = receipt, self._number(place, receipt)
            touched[place] = None
        for place, newest in [(place, self._latest[place][0]) for place in touched]:
            if newest.status != "started":
                self._put("receipts", f"{place}.json", jsonable(newest))
                if _is_final(newest) and newest.step not in CONDITIONS:
                    self._put("handoffs", f"{place}.json", _handoff(newest))

    def _number(self, place: str, receipt: Receipt) -> int:
        """The number of an attempt: its own, or the next one when attempts begin anew. The one before steps aside."""
        before, number = self._latest.get(place, (None, 0))
        if before is None:
            return receipt.attempt
        if before.status == "started" and _which(before) == _which(receipt):
            return number  # this is how it ended
        self._put("receipts", f"{place}.{number}.json", jsonable(before))
        return max(receipt.attempt, number + 1)

    def forget_finished(self) -> None:
        """Calls that have their outcome are not heard of again: a long loop must not grow in memory."""
        self._latest = {place: kept for place, kept in self._latest.items() if not _is_final(kept[0])}

    def _put(self, kind: str, name: str, value: Any) -> None:
        folder = self.path / kind
        if folder not in self._made:
            make_folder(folder)
            self._made.add(folder)
        # whoever reads finds the old one or the new one, also after a kill in between
        path = folder / name
        temporary = path.with_name(f".{os.getpid()}.{threading.get_ident()}")
        try:
            write_file(temporary, encode(value) + b"\n")
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise


def _which(receipt: Receipt) -> tuple[object, ...]:
    """What makes two entries speak of one attempt."""
    return receipt.scope, receipt.occurrence, receipt.input_digest, receipt.attempt, receipt.started_at


def _is_final(receipt: Receipt) -> bool:
    return receipt.delivered and receipt.status in GOOD


def _handoff(receipt: Receipt) -> dict[str, Any]:
    return {
        "run_id": receipt.run_id,
        "flow": receipt.flow,
        "step": receipt.label,
        "agent": receipt.agent or "main",
        "status": receipt.status,
        **jsonable(receipt.envelope),
        "result": jsonable(receipt.result),
    }
