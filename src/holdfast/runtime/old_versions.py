"""Removing old versions of artifacts that nobody needs, when `gc` is asked to.

The newest version of a name never goes. Nor does one that a record, a link or a checkpoint names, nor one whose ref
stands anywhere in an unfinished run (its journal, results, inputs, waits) or in the newest revision of an open handoff.
Each goes in a transaction that looks once more: what was written meanwhile is seen there. A stone stays in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import moment
from holdfast.domain.artifact import PREFIX
from holdfast.domain.codec import decode
from holdfast.domain.journal import Row
from holdfast.domain.old_versions import STAYS, Version, VersionChoice, VersionRule, choose_versions
from holdfast.domain.run import FINISHED, STATUSES
from holdfast.errors import HoldfastError
from holdfast.runtime.artifacts import ref_of
from holdfast.store.artifact_contract import ArtifactRow
from holdfast.store.contract import Reading, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

PAGE = 200
READ_BYTES = 64 << 20  # of a blob; an unfinished run with a larger one keeps every version
BATCH = 50  # versions removed in one transaction
_MARK = PREFIX.removesuffix(":").encode()


@dataclass(frozen=True, slots=True)
class SweptVersion:
    """A version that goes, and how large its content is."""

    ref: str
    size_bytes: int
    stored_at: datetime


@dataclass(slots=True)
class Mentions:
    """Texts in which refs of artifacts stand, and how far the journals of unfinished runs were read for them."""

    runs: list[str] = field(default_factory=list)
    handoffs: list[str] = field(default_factory=list)
    checkpoints: set[str] = field(default_factory=set)
    read: dict[int, int] = field(default_factory=dict)  # by run: the last entry that was read
    blobs: set[str] = field(default_factory=set)  # that were read
    unread: bool = False  # one was too large to be read: it may name any of them


def plan(runtime: Runtime, rule: VersionRule) -> tuple[VersionChoice, Mentions]:
    """What would go, and why the rest stays."""
    if not rule.given:
        return VersionChoice((), choose_versions((), rule).kept), Mentions()
    said = runtime.store.read(lambda look: _mentions(runtime, look))
    return choose_versions(_versions(runtime, said, rule), rule), said


def remove(runtime: Runtime, choice: VersionChoice, said: Mentions) -> tuple[list[SweptVersion], list[str]]:
    """Remove what was chosen, unless something needs it since; what went, and what could not."""
    gone: list[SweptVersion] = []
    left = iter(choice.going)
    while batch := list(islice(left, BATCH)):
        buried = runtime.store.write(partial(_bury, runtime, batch=batch, said=said))
        gone += [_swept(each) for each in buried]
    stayed = len(choice.going) - len(gone)
    return gone, [f"{stayed} versions of artifacts are needed since, and stay"] if stayed else []


def foreseen(choice: VersionChoice) -> list[SweptVersion]:
    return [_swept(each) for each in choice.going]


def proof(choice: VersionChoice) -> Iterator[str]:
    """What is left alone, and why."""
    for reason, words in STAYS.items():
        if count := choice.kept[reason]:
            yield f"{count:,} old version{'' if count == 1 else 's'} of artifacts {words}: untouched"


def _swept(version: Version) -> SweptVersion:
    return SweptVersion(version.ref, version.size, moment(version.stored_at))


def _bury(runtime: Runtime, tx: Writing, *, batch: Iterable[Version], said: Mentions) -> list[Version]:
    """In one transaction: look again at what was written since, and put a stone in the place of the rest."""
    _read_runs(runtime, tx, said)
    gone = []
    for version in batch:
        row = tx.artifact_by_key(version.key)
        if row is not None and not _needed(tx, row, said):
            tx.remove_artifact(row.key, runtime.clock.now(), runtime.actor)
            gone.append(version)
    return gone


# -- what is needed ----------------------------------------------------------------------------------


def _versions(runtime: Runtime, said: Mentions, rule: VersionRule) -> Iterator[Version]:
    after = 0

    def page(look: Reading) -> list[tuple[ArtifactRow, int, str]]:
        rows = look.older_versions(after, PAGE)
        return [(row, _newer(look, row, rule.keep or 0), _needed(look, row, said)) for row in rows]

    while found := runtime.store.read(page):
        for row, newer, needed in found:
            if rule.scope is None or row.scope == rule.scope:
                yield Version(row.key, ref_of(row), row.size, row.stored_at, newer, needed)
        after = found[-1][0].key


def _newer(look: Reading, row: ArtifactRow, keep: int) -> int:
    """How many versions of the name are newer; no more are counted than matter."""
    newest = look.artifact_versions(row.scope, row.name, 0, keep) if keep else []
    return next((place for place, other in enumerate(newest) if other.key == row.key), max(keep, 1))


def _needed(look: Reading, row: ArtifactRow, said: Mentions) -> str:
    """What needs a version."""
    ref = ref_of(row)
    if said.unread or any(ref in text for text in said.runs):
        return "run"
    if any(ref in text for text in said.handoffs):
        return "handoff"
    if ref in said.checkpoints:
        return "checkpoint"
    if look.records_of_ref(ref, 0, 1):
        return "record"
    return "link" if look.linked_among([ref]) else ""


def _mentions(runtime: Runtime, look: Reading) -> Mentions:
    said = Mentions()
    _read_runs(runtime, look, said)
    said.handoffs += _of_handoffs(look)
    after = 0
    while page := look.checkpoints_after(after, PAGE):
        said.checkpoints |= {ref for row in page for ref in decode(row.refs)}
        after = page[-1].key
    return said


def _read_runs(runtime: Runtime, look: Reading, said: Mentions) -> None:
    """Every text of unfinished runs in which a ref may stand, from where it was read before."""
    for status in (each for each in STATUSES if each not in FINISHED):
        before = 0
        while page := look.kin_of_status(status, PAGE, before):
            for kin in page:
                _read_run(runtime, look, kin.key, kin.id, said)
            before = page[-1].key


def _read_run(runtime: Runtime, look: Reading, key: int, run_id: str, said: Mentions) -> None:
    upto = said.read.get(key, 0)
    rows = look.journal_of(key, upto)
    run = look.run_by_id(run_id) if key not in said.read else None
    said.runs += _texts(run.inputs.encode()) if run else []
    said.runs += [text for row in rows for text in _of_row(row)]
    said.runs += [text for wait in look.waits_of(key) for text in _texts(wait.payload.encode())]
    for name in look.blobs_of(key) if rows else ():
        _read_blob(runtime, name, said)
    said.read[key] = rows[-1].seq if rows else upto


def _of_row(row: Row) -> list[str]:
    return [*_texts(row.header), *_texts(row.payload or b"")]


def _read_blob(runtime: Runtime, name: str, said: Mentions) -> None:
    if name in said.blobs:
        return
    said.blobs.add(name)
    with suppress(HoldfastError, OSError):  # missing or damaged: `verify` names it, and nobody can read a ref from it
        if runtime.blobs.path(name).stat().st_size > READ_BYTES:
            said.unread = True
        else:
            said.runs += _texts(runtime.blobs.get(name))


def _of_handoffs(look: Reading) -> Iterator[str]:
    """What the newest revisions of open handoffs say."""
    after = 0
    while page := look.anchors_after(after, PAGE):
        for anchor in page:
            newest = look.handoff_at(anchor.key, anchor.revision) if anchor.status == "open" else None
            rows = look.entries_of(-anchor.key, [newest.seq]) if newest else []
            yield from (text for row in rows for text in _of_row(row))
        after = page[-1].key


def _texts(raw: bytes) -> list[str]:
    """The texts in some JSON that a ref may stand in; of what is no JSON, all of it."""
    if _MARK not in raw:
        return []
    try:
        return [text for text in _strings(decode(raw)) if PREFIX in text]
    except (msgspec.DecodeError, ValueError):
        return [raw.decode("utf-8", "replace")]


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            for name, item in value.items():
                yield from _strings(name)
                yield from _strings(item)
        case _:
            return
