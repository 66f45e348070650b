"""Receipts and handoffs that others wrote into a folder, taken in as what they are: testimony, unproven.

Nothing in such a folder can be checked, so it never becomes a receipt: the run that holds it is sealed, and each file
is an entry of a kind of its own, with the text as it was.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.care.travel.import_run import ArrivedRun, Imported, told
from outlast.errors import Invalid
from outlast.home.place import check_name
from outlast.ledger.journal import STATUSES, TESTIMONY, Header, JournalEntry, Payload, Row, entry, genesis, link
from outlast.runs.claim import run_fact
from outlast.store.contract import LeaseRow, RunRow, Writing
from outlast.values.codec import digest, encode, identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

KINDS = ("receipts", "handoffs")
MOST_BYTES = 1 << 20  # of a file
MOST_FILES = 10_000
MOST_BYTES_IN_ALL = 256 << 20
_NAME = re.compile(r"(?P<step>.+?)(?:~(?P<nth>[0-9]{1,9}))?(?:-(?P<agent>[^-]*?))?(?:\.(?P<earlier>[0-9]{1,9}))?\.json")


class FolderReceipt(NamedTuple):
    """One file: whose word it is about which step, and the text as it was."""

    kind: str
    step: str
    occurrence: int
    agent: str
    attempt: int
    file: str
    text: bytes
    status: str  # one of ours, or nothing
    said: str  # the status that it says, when it is none of ours

    @property
    def identity(self) -> tuple[str, str, int, str, int]:
        return self[:5]


class _Unusable(Exception):
    """Why a file is not taken."""


class _Source(Struct, frozen=True):
    """A folder with receipts or handoffs of one flow."""

    name: str  # the flow, or the run and the flow: what --flow takes
    flow: str
    folder: Path


def import_testimony(caller: Caller, folder: Path, flow: str | None = None) -> Imported:
    """Take in what others wrote about one flow. It is kept word by word, and marked unproven wherever it shows.

    Raises Invalid when there is nothing to take, or several flows and none was chosen. The same files again are
    answered with `replayed`.
    """
    source = _chosen(folder, flow)
    taken, ignored = _read(source)
    if not taken:
        why = "; ".join(f"{name}: {reason}" for name, reason in ignored[:3]) or "no file is there"
        raise Invalid(detail=f"{source.folder} has no receipt or handoff to take ({why}); see docs/moving-runs.md")
    arrived = _as_run(caller, source, taken)
    replayed = caller.home.store.write(lambda tx: _write(tx, arrived))
    blobs = len({name for _, name in arrived.refs})
    return replace(told(caller, [arrived], blobs, replayed), ignored=tuple(ignored))


def _write(tx: Writing, one: ArrivedRun) -> bool:
    if tx.run_by_id(one.run.id) is not None:  # its id is made of what the files say
        return True
    key = tx.add_arrived(one.run, one.lease.epoch, one.lease.head, one.lease.hash)
    tx.fill_arrived(key, one.rows, one.refs, [], [])
    return False


# -- finding the files -------------------------------------------------------------------------------


def _chosen(folder: Path, flow: str | None) -> _Source:
    found = {source.name: source for source in sources(folder)}
    if flow is not None and flow in found:
        return found[flow]
    if flow is None and len(found) == 1:
        return next(iter(found.values()))
    if not found:
        layout = "<flow>/receipts/<step>-<agent>.json"
        raise Invalid(detail=f"{folder} has no receipts: expected is {layout}; name the folder that holds the flows")
    known = ", ".join(sorted(found)[:20])
    wanted = f"no flow {flow!r}" if flow is not None else f"{len(found)} flows"
    raise Invalid(detail=f"{folder} has {wanted} (it has: {known}); choose one with flow=… (--flow)")


def sources(folder: Path) -> Iterator[_Source]:
    """Of what a folder speaks: the flow itself, a run's folder with its flows, or a folder of runs."""
    try:
        if _speaks(folder):
            yield _Source(folder.resolve().name, folder.resolve().name, folder)
            return
        for first in _folders(folder):
            if _speaks(first):
                yield _Source(first.name, first.name, first)
                continue
            for second in filter(_speaks, _folders(first)):
                yield _Source(f"{first.name}/{second.name}", second.name, second)
    except OSError as error:
        raise Invalid(detail=f"{folder} cannot be read: {error.strerror or error}; check its permissions") from error


def _speaks(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in KINDS)


def _folders(folder: Path) -> list[Path]:
    return sorted(Path(found.path) for found in os.scandir(folder) if found.is_dir(follow_symlinks=False))


def _read(source: _Source) -> tuple[list[FolderReceipt], list[tuple[str, str]]]:
    """Every file of the flow's folder: taken, or ignored for a reason."""
    taken: dict[tuple[str, str, int, str, int], FolderReceipt] = {}
    ignored: list[tuple[str, str]] = []
    size = 0
    for number, path in enumerate(_files(source.folder, ignored)):
        name = str(path.relative_to(source.folder))
        if number >= MOST_FILES or size > MOST_BYTES_IN_ALL:
            limits = f"{MOST_FILES:,} files and {MOST_BYTES_IN_ALL >> 20} MiB"
            raise Invalid(detail=f"{source.folder} has more than {limits}; import its parts from folders of their own")
        try:
            said = _said(source.folder, path, name)
            if said.identity in taken:
                raise _Unusable(f"{taken[said.identity].file} has the same step, agent and number")
        except _Unusable as error:
            ignored.append((_shown(name), str(error)))
            continue
        taken[said.identity] = said
        size += len(said.text)
    return _in_order(list(taken.values())), ignored


def _files(folder: Path, ignored: list[tuple[str, str]]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        ignored.append((_shown(str(error.filename)), error.strerror or str(error)))

    for at, folders, names in os.walk(folder, onerror=unreadable):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        yield from (Path(at, name) for name in sorted([*names, *links]))


def _shown(name: str) -> str:
    """A name as it can be printed and stored, whatever bytes it is made of."""
    return name.encode("utf-8", "backslashreplace").decode()


def _in_order(taken: list[FolderReceipt]) -> list[FolderReceipt]:
    """By file name; the attempt that has no number comes after those that have."""
    last: dict[tuple[str, str, int, str], int] = {}
    for said in taken:
        last[said.identity[:4]] = max(last.get(said.identity[:4], 0), said.attempt)
    numbered = [said if said.attempt else said._replace(attempt=last[said.identity[:4]] + 1) for said in taken]
    return sorted(numbered, key=lambda said: (said.kind != "receipts", *said.identity[1:]))


# -- reading one -------------------------------------------------------------------------------------


def _said(folder: Path, path: Path, name: str) -> FolderReceipt:
    parts = Path(name).parts
    if len(parts) != 2 or parts[0] not in KINDS:
        raise _Unusable("it is not in receipts/ or handoffs/")
    if not parts[1].isprintable():
        raise _Unusable("its name has characters that cannot be printed")
    match = _NAME.fullmatch(parts[1])
    if match is None:
        raise _Unusable("its name is not <step>-<agent>.json")
    text = _content(folder, path)
    status, said = _status(_parsed(text))
    nth, earlier = int(match["nth"] or 1), int(match["earlier"] or 0)
    about = (parts[0], match["step"], max(nth - 1, 0), match["agent"] or "")
    return FolderReceipt(*about, earlier, name, text, status, said)


def _content(folder: Path, path: Path) -> bytes:
    """The bytes of a plain file inside the folder, also through a link that stays there."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()):
            raise _Unusable("it is a link that leaves the folder")
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, RuntimeError) as error:
        raise _Unusable(getattr(error, "strerror", None) or str(error)) from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _Unusable("it is no plain file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _Unusable(f"it is larger than {MOST_BYTES >> 20} MiB")
    return content


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _Unusable(f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _Unusable("it is JSON, but no object")
    return found


def _status(found: dict[str, Any]) -> tuple[str, str]:
    given = found.get("status")
    if isinstance(given, str) and given in STATUSES:
        return given, ""
    return "", "" if given is None else str(given)[:200]


# -- as a run ----------------------------------------------------------------------------------------


def _as_run(caller: Caller, source: _Source, taken: list[FolderReceipt]) -> ArrivedRun:
    """A sealed run whose id is made of what was said: the same files are the same run."""
    flow, task = check_name("flow", f"{TESTIMONY}:{source.flow}"), check_name("task", f"{TESTIMONY}:{source.name}")
    content = encode([flow, task, [[said.file, digest(said.text)] for said in taken]])
    run_id, at, inputs = f"t{digest(content)[:11]}", caller.home.clock.now(), "{}"
    entries = [run_fact(TESTIMONY, {"folder": source.name, "by": caller.actor}, epoch=1, at=at)]
    entries += [_entry(caller.home, said, at) for said in taken]
    start = genesis(run_id, flow, task, identity(inputs.encode()))
    rows = _chained(start, entries)
    refs = [(row.seq, name) for row, made in zip(rows, entries, strict=True) for name in made.blobs]
    run = RunRow(
        0, run_id, caller.scope, flow, task, inputs, identity(inputs.encode()), "interrupted", "", None, None,
        "", "", "", "{}", caller.actor, at, at, 0, TESTIMONY, 0, flow, flow, "",
    )  # fmt: skip
    return ArrivedRun(run, LeaseRow(0, 1, len(rows), rows[-1].hash, None), rows, [], [], refs, [])


def _chained(start: bytes, entries: list[JournalEntry]) -> list[Row]:
    rows: list[Row] = []
    for seq, made in enumerate(entries, 1):
        start = link(start, made.header)
        rows.append(Row(seq, made.header, start, made.payload))
    return rows


def _entry(home: Home, said: FolderReceipt, at: int) -> JournalEntry:
    """An entry that cannot be taken for a receipt: its kind is testimony, its mark too, and it was never delivered."""
    header = Header(
        TESTIMONY,
        said.step,
        "" if said.kind == "receipts" else f"{said.kind}/",
        f"={said.agent}",
        said.occurrence,
        said.attempt,
        said.status,
        mark=TESTIMONY,
        agent=said.agent,
        started_at=at,
        ended_at=at,
        epoch=1,
    )
    facts = {"file": said.file} | ({"said": said.said} if said.said else {})
    if len(said.text) > home.settings.inline_bytes:
        return entry(header, Payload(blob=home.blobs.put(said.text), facts=facts))
    return entry(header, Payload(facts={**facts, "text": said.text.decode()}))
