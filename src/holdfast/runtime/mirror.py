"""The mirror: receipts and handoffs of a run as files, for people and agents who read files.

Each file is written whole, by rename. The database is the truth; the mirror is never read back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.domain.call import GOOD
from holdfast.domain.codec import decode, encode, jsonable
from holdfast.domain.receipt import Receipt, receipts_of
from holdfast.runtime.names import is_recipe

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

_NAME_BYTES = 120
CONDITIONS = ("when", "until")  # they decide and hand nothing over


def folder_of(runtime: Runtime, run_id: str, flow: str) -> Path:
    """Where a run's mirror lies; of the default tenant next to its folder, of another one inside."""
    base = runtime.home if runtime.tenant == "default" else runtime.folder
    return base / "runs" / run_id / safe(flow_name(flow))


def flow_name(source: str) -> str:
    """A flow's short name: what stands after the colon."""
    return source.rpartition(":")[2] or source


def safe(name: str) -> str:
    """A name as one part of a path: no separator, no dot in front, not too long for a file system."""
    plain = quote(name, safe=" !#$&'()+,;=@[]{}~^`")
    plain = f"%2E{plain[1:]}" if plain.startswith(".") else plain
    if len(plain) <= _NAME_BYTES:
        return plain or "%00"
    from holdfast.domain.digest import identity

    return f"{plain[: _NAME_BYTES - 17]}-{identity(name.encode())[:16]}"


class Mirror:
    """The live mirror of one run of commands."""

    def __init__(self, runtime: Runtime, run_id: str, run_key: int, flow: str, since: int) -> None:
        self._runtime, self._run_id, self._key, self._flow = runtime, run_id, run_key, flow
        self._folder = folder_of(runtime, run_id, flow)
        self._since = since
        self._lock = threading.Lock()

    def catch_up(self) -> None:
        """Write what the journal has that the mirror has not. A full or read-only disk does not stop the run."""
        with self._lock:
            rows = self._runtime.store.read(lambda look: look.journal_of(self._key, self._since))
            if not rows:
                return
            self._since = rows[-1].seq
            found = receipts_of(self._run_id, self._flow, rows, self._runtime.blobs.get)
            try:
                write(self._folder, ((iterated(receipt), receipt) for receipt in found))
            except OSError as error:
                self._runtime.tell(f"the mirror {self._folder} cannot be written: {error.strerror}")


def write_mirror(runtime: Runtime, run_id: str) -> Path:
    """Write the whole mirror of a run, and give its folder."""
    row = runtime.row(run_id)
    rows = runtime.store.read(lambda look: look.journal_of(row.key))
    found = receipts_of(row.id, row.flow, rows, runtime.blobs.get)
    folder = folder_of(runtime, row.id, row.flow)
    name = iterated if is_recipe(row.flow) else _Counted()
    write(folder, ((name(receipt), receipt) for receipt in found))
    return folder


def iterated(receipt: Receipt) -> str:
    """A command's name: `~<n>` says which iteration of the loops around it."""
    numbers = [part.rpartition("[")[2][:-1] for part in receipt.scope.split("/") if part.endswith("]")]
    place = "" if set(numbers) <= {"1"} else "~" + ".".join(numbers)
    inner = [part for part in receipt.scope.split("/") if part and not part.endswith("]")]
    return ".".join([*inner, receipt.step]) + place + (f"~{receipt.occurrence + 1}" if receipt.occurrence else "")


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


def write(folder: Path, named: Iterable[tuple[str, Receipt]]) -> None:
    """Write receipts, the newest attempt of each call under the plain name, and the handoffs of finished ones."""
    latest: dict[str, Receipt] = {}
    for name, receipt in named:
        if receipt.status == "started":
            continue
        place = f"{safe(name)}-{safe(receipt.agent or 'main')}"
        before = latest.get(place)
        if before is not None and before.attempt != receipt.attempt:
            _write(folder / "receipts" / f"{place}.{before.attempt}.json", jsonable(before))
        elif before is None:
            _set_aside(folder / "receipts", place, receipt.attempt)
        latest[place] = receipt
    for place, receipt in latest.items():
        _write(folder / "receipts" / f"{place}.json", jsonable(receipt))
        if receipt.delivered and receipt.status in GOOD and receipt.step not in CONDITIONS:
            _write(folder / "handoffs" / f"{place}.json", _handoff(receipt))


def _set_aside(folder: Path, place: str, attempt: int) -> None:
    """Keep the file of an earlier attempt, which an earlier process or moment wrote."""
    try:
        before = int(decode((folder / f"{place}.json").read_bytes())["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if before != attempt:
        os.replace(folder / f"{place}.json", folder / f"{place}.{before}.json")


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


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_bytes(encode(value) + b"\n")
    os.replace(temporary, path)
