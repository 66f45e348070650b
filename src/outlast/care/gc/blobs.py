"""What nobody needs any more beside runs: unreferenced blobs, the trash, files of writers and commands that ended.

Where refs of artifacts stand: in unfinished runs, open handoffs and checkpoints, and in steps under way.

A run is read as texts (its inputs, journal, results, waits, the signals that may come to it): a ref may stand anywhere
in a value, also inside a sentence or in JSON that is kept as a text. Rather too much is found than too little.

Old versions of artifacts that nobody needs go when `gc` is asked to. The newest version of a name never goes. Nor does
one that a record, a link or a checkpoint names, nor one whose ref stands anywhere in an unfinished run or in the newest
revision of an open handoff. Each goes in a transaction that looks once more: what was written meanwhile is seen there.
A stone stays in its place.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from outlast import failpoints
from outlast.care.gc.runs import COPIES, remove_folder, tenant_folder
from outlast.clock import moment
from outlast.errors import OutlastError
from outlast.home.process import is_alive
from outlast.ledger.journal import Row
from outlast.ledger.lease import Beat, is_over, silent_us, was_rebooted
from outlast.runs.run import FINISHED, STATUSES
from outlast.store.contract import HandoffRow, Reading, Writing, below, every_row
from outlast.store.contract.blobs import BlobFile, Trash
from outlast.store.contract.workspace import ArtifactRow
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace.artifact import ref_of
from outlast.workspace.refs import PREFIX

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

PAGE = 200
READ_BYTES = 64 << 20  # of a blob; an unfinished run with a larger one may name anything
_MARK = PREFIX.removesuffix(":").encode()
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_LONGEST = 2048  # characters of a ref, and more
_KEPT_BYTES = 256 << 20  # of what follows where a ref may begin; an unfinished run with more may name anything


class Beginnings:
    """Texts in which refs may stand, kept so that one is looked up without reading them all again.

    Kept is what follows each place where a ref begins: a ref stands there if one of them begins with it.
    """

    def __init__(self) -> None:
        self.too_many = False  # they are not kept any more
        self._found: set[str] = set()
        self._sorted: list[str] = []
        self._size = 0

    def update(self, texts: Iterable[str]) -> None:
        for text in texts:
            at = text.find(PREFIX)
            while at >= 0 and not self.too_many:
                beginning = text[at : at + _LONGEST]
                if beginning not in self._found:
                    self._found.add(beginning)
                    self._size += len(beginning)
                    self.too_many = self._size > _KEPT_BYTES
                at = text.find(PREFIX, at + 1)

    def __contains__(self, ref: str) -> bool:
        if len(self._sorted) != len(self._found):
            self._sorted = sorted(self._found)
        at = bisect_left(self._sorted, ref)
        return at < len(self._sorted) and self._sorted[at].startswith(ref)


class Mentions(Struct):
    """What was found, and how far it was read: reading on adds what was written since."""

    runs: Beginnings = field(default_factory=lambda: Beginnings())
    handoffs: Beginnings = field(default_factory=lambda: Beginnings())
    checkpoints: set[str] = field(default_factory=set)  # refs
    under_way: frozenset[str] = frozenset()  # refs that records and links of steps under way name
    unread: bool = False  # a blob was too large to be read: it may name any of them
    _journals: dict[int, int] = field(default_factory=dict)  # by run: the last entry that was read
    _blobs: set[str] = field(default_factory=set)  # that were read
    _handoff: int = 0  # the last ones that were read
    _checkpoint: int = 0

    def by(self, ref: str) -> str:
        """Who names a ref: `run`, `handoff`, `checkpoint`, or nobody."""
        plain = _plain(ref)
        if self.unread or self.runs.too_many or ref in self.under_way or plain in self.runs:
            return "run"
        if self.handoffs.too_many or plain in self.handoffs:
            return "handoff"
        return "checkpoint" if ref in self.checkpoints else ""

    def read_on(self, home: Home, look: Reading) -> Mentions:
        """Everything that names refs, from where it was read before."""
        for status in (each for each in STATUSES if each not in FINISHED):
            self._read_runs(home, look, status)
        # a signal that nobody has taken: a run may, or one that is still to come
        self.runs.update(text for body in look.untaken_bodies() for text in _texts(body.encode()))
        while handoffs := look.handoffs_after(self._handoff, PAGE):
            self.handoffs.update(text for handoff in handoffs for text in _of_open(look, handoff))
            self._handoff = handoffs[-1].key
        while checkpoints := look.checkpoints_after(self._checkpoint, PAGE):
            self.checkpoints.update(ref for row in checkpoints for ref in decode(row.refs))
            self._checkpoint = checkpoints[-1].key
        self.under_way = frozenset(look.refs_under_way())
        return self

    def _read_runs(self, home: Home, look: Reading, status: str) -> None:
        for kin in every_row(lambda before: look.kin_of_status(status, PAGE, before), lambda kin: below(kin.key)):
            upto = self._journals.get(kin.key, 0)
            rows = look.journal_of(kin.key, upto)
            run = look.run_by_id(kin.id) if kin.key not in self._journals else None
            self.runs.update(_texts(run.inputs.encode()) if run else ())
            self.runs.update(_of_rows(rows))
            said = [text for wait in look.waits_of(kin.key) for text in (wait.payload, wait.answer or "")]
            said += [body for _, body, _, _ in look.requests_of(kin.key)]
            self.runs.update(text for each in said for text in _texts(each.encode()))
            for name in look.blobs_of(kin.key) if rows else ():
                self._read_blob(home, name)
            self._journals[kin.key] = rows[-1].seq if rows else upto

    def _read_blob(self, home: Home, name: str) -> None:
        if name in self._blobs:
            return
        self._blobs.add(name)
        with suppress(OutlastError):  # missing or damaged: `verify` names it, and nobody reads a ref from it
            if home.blobs.size_of(name) > READ_BYTES:
                self.unread = True
            else:
                self.runs.update(_texts(home.blobs.get(name)))


def _of_open(look: Reading, handoff: HandoffRow) -> Iterator[str]:
    """What a revision says, if it is the newest one of an open handoff."""
    anchor = look.anchor_by_key(handoff.anchor)
    if anchor is not None and anchor.status == "open" and anchor.revision == handoff.revision:
        yield from _of_rows(look.entries_of(anchor.key, [handoff.seq]))


def _of_rows(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        yield from _texts(row.header)
        yield from _texts(row.payload or b"")


def _texts(raw: bytes) -> list[str]:
    """The texts in some JSON that a ref may stand in; of what is no JSON, all of it."""
    if _MARK not in raw:
        return []
    try:
        found = list(_strings(decode(raw)))
    except (msgspec.DecodeError, ValueError):
        found = [raw.decode("utf-8", "replace")]
    return [_plain(text) for text in found if PREFIX in text]


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


def _plain(text: str) -> str:
    r"""A text without escapes, however often it was written as JSON inside of JSON: `\"` is `"`, `\u00e9` is `é`."""
    if "\\" not in text:
        return text
    found = _ESCAPED.sub(lambda each: chr(int(each[1], 16)), text).replace("\\", "")
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Unneeded(Struct, frozen=True):
    """What may go, and how much the blobs take up in all."""

    blobs: tuple[BlobFile, ...]  # to the trash
    trash: tuple[BlobFile, ...]  # in it now; the old ones go for good
    half_written: tuple[str, ...]  # by writers who died
    folders: tuple[Path, ...]  # work folders of runs that are over
    blob_bytes: int  # of all blobs in their places


class Cleared(Struct, frozen=True):
    """What went."""

    blobs: tuple[BlobFile, ...] = ()
    trash: tuple[BlobFile, ...] = ()
    restored: int = 0
    files: int = 0
    troubles: tuple[str, ...] = ()


def find_unneeded(home: Home, freed: Iterable[str] = ()) -> Unneeded:
    """Look for it. `freed` are blobs that will have no reference once the runs that go have gone."""
    freed = {*freed, *home.store.read(_abandoned)}
    found, trash, left, total = list[BlobFile](), list[BlobFile](), list[str](), 0
    for shelf in home.blobs.trash().shelves():
        needed = home.store.read(partial(_referred, first=shelf.first)) - freed if shelf.blobs else set()
        found += [file for file in shelf.blobs if file.old and file.name not in needed]
        total += sum(file.size_bytes for file in shelf.blobs)
        trash += shelf.trash
        left += shelf.half_written
    return Unneeded(tuple(found), tuple(trash), tuple(left), _work_folders(home), total)


def drop_abandoned(home: Home) -> None:
    """Forget what killed attempts put into the workspace: nobody has seen it, and its content is free then."""

    def work(tx: Writing) -> None:
        tx.drop(tx.abandoned())

    if any(home.store.read(lambda look: look.abandoned())):
        home.store.write(work)


def _abandoned(look: Reading) -> set[str]:
    """The blobs that only such ones need."""
    found = look.abandoned_artifacts()
    keys = {key for key, _ in found}
    return {name for _, name in found if not look.chains_of_blob(name) and set(look.artifacts_of_blob(name)) <= keys}


def _referred(look: Reading, first: str) -> set[str]:
    return look.blobs_between(first, first + "~")


def _work_folders(home: Home) -> tuple[Path, ...]:
    """Work folders of runs that are finished or gone. A run is in the store before its folder is made."""
    try:
        with os.scandir(tenant_folder(home) / "work") as found:
            names = sorted(entry.name for entry in found)
    except FileNotFoundError:
        return ()
    over = home.store.read(lambda look: [name for name in names if _is_over(look, name)])
    return tuple(tenant_folder(home) / "work" / name for name in over)


def _is_over(look: Reading, run_id: str) -> bool:
    row = look.run_by_id(run_id)
    return row is None or row.status in FINISHED or row.seal in COPIES


def clear(home: Home, unneeded: Unneeded) -> Cleared:
    """Empty the trash of what has been there for its time, and fill it with what nobody needs now."""
    trash = home.blobs.trash()

    def is_needed(name: str) -> bool:
        return bool(home.store.read(lambda look: look.chains_of_blob(name) or look.artifacts_of_blob(name)))

    troubles = [_cleared(remove_folder(path)) for path in unneeded.folders]
    if refusal := _refusal(home, trash):
        troubles.append(f"no blob was removed: {refusal}")
        return Cleared(files=troubles.count(""), troubles=tuple(filter(None, troubles)))
    troubles += [_cleared(trash.clear(name)) for name in unneeded.half_written]
    emptied = [blob for blob in unneeded.trash if trash.remove(blob, is_needed)]
    if emptied:
        home.store.write(lambda tx: tx.forget_stored([blob.name for blob in emptied]))
    restored = sum(is_needed(blob.name) for blob in unneeded.trash)
    thrown = [blob for blob in unneeded.blobs if trash.throw(blob.name, is_needed)]
    return Cleared(tuple(thrown), tuple(emptied), restored, troubles.count(""), tuple(filter(None, troubles)))


def _refusal(home: Home, trash: Trash) -> str:
    """Why no blob may be removed now; nothing when some may."""
    if silent := silent_owner(home, trash.grace_seconds):
        return f"{silent} holds a run and has been silent; it may yet go on"
    return trash.refusal()


def _cleared(trouble: str) -> str:
    failpoints.reached("sweep.cleared")
    return trouble


def silent_owner(home: Home, seconds: float) -> str:
    """An owner of a run that may live and has not been heard of for so long; empty when there is none.

    Between storing a blob and committing its reference a process may be stopped for hours. It sends no sign of life
    meanwhile, and what it relies on must not go.
    """
    clock, me = home.clock, home.process
    for beat in home.store.read(lambda look: look.holders()):
        silent = silent_us(beat, me, boot_us=clock.boot(), wall_us=clock.now())
        if silent <= seconds * 1_000_000 or was_rebooted(beat.process, me):
            continue
        if is_alive(beat.process, me) is not False:  # of one on another machine only its silence is known from here
            return str(beat.process)
    return ""


def is_at_work(home: Home, beat: Beat) -> bool:
    """Whether a process lives, or was heard of within its lease where that cannot be seen from here."""
    alive, clock = is_alive(beat.process, home.process), home.clock
    over = is_over(beat, home.process, alive=alive, boot_us=clock.boot(), wall_us=clock.now())
    return alive is True or (alive is None and not over)


# -- old versions of artifacts -------------------------------------------------------------------------


# Why a version that is not the newest of its name stays, in words for people.
STAYS = {
    "run": "that an unfinished run names",
    "handoff": "that an open handoff names",
    "checkpoint": "that a checkpoint names",
    "record": "that a record names",
    "link": "that a link begins or ends at",
    "newest": "among the newest of their name",
    "young": "younger than that",
}


class Version(NamedTuple):
    """A version that is not the newest of its name."""

    key: int
    ref: str
    size: int
    stored_at: int
    newer: int  # versions of its name that are newer
    needed: str = ""  # what needs it


class VersionRule(NamedTuple):
    """Which may go: those stored before a moment, all but so many of each name. Without both, none."""

    before: int | None = None
    keep: int | None = None
    scope: str | None = None

    @property
    def given(self) -> bool:
        return self.before is not None or self.keep is not None


class VersionChoice(NamedTuple):
    going: tuple[Version, ...]
    kept: Counter[str]  # by reason


def choose_versions(versions: Iterable[Version], rule: VersionRule) -> VersionChoice:
    """Those that go, the oldest first, and how many stay for which reason. What is needed never goes."""
    going, kept = [], Counter[str]()
    for version in versions:
        reason = version.needed or _by_rule(version, rule)
        if reason:
            kept[reason] += 1
        else:
            going.append(version)
    return VersionChoice(tuple(sorted(going, key=lambda each: each.key)), kept)


def _by_rule(version: Version, rule: VersionRule) -> str:
    if rule.keep is not None and version.newer < rule.keep:
        return "newest"
    if rule.before is not None and version.stored_at > rule.before:
        return "young"
    return ""


BATCH = 50  # versions removed in one transaction


class SweptVersion(Struct, frozen=True):
    """A version that goes, and how large its content is."""

    ref: str
    size_bytes: int
    stored_at: datetime


def plan(home: Home, rule: VersionRule) -> tuple[VersionChoice, Mentions]:
    """What would go, and why the rest stays."""
    said = Mentions()
    if not rule.given:
        return choose_versions((), rule), said
    home.store.read(lambda look: said.read_on(home, look))
    return choose_versions(_versions(home, said, rule), rule), said


def remove(caller: Caller, choice: VersionChoice, said: Mentions) -> tuple[list[SweptVersion], list[str]]:
    """Remove what was chosen, unless something needs it since; what went, and what could not."""
    gone: list[SweptVersion] = []
    left = iter(choice.going)
    while batch := list(islice(left, BATCH)):
        buried = caller.home.store.write(partial(_bury, caller, batch=batch, said=said))
        gone += [swept(each) for each in buried]
    stayed = len(choice.going) - len(gone)
    return gone, [f"{stayed} versions of artifacts are needed since, and stay"] if stayed else []


def proof(choice: VersionChoice) -> Iterator[str]:
    """What is left alone, and why."""
    for reason, words in STAYS.items():
        if count := choice.kept[reason]:
            yield f"{count:,} old version{'' if count == 1 else 's'} of artifacts {words}: untouched"


def swept(version: Version) -> SweptVersion:
    """A version that goes, as it is told."""
    return SweptVersion(version.ref, version.size, moment(version.stored_at))


def _bury(caller: Caller, tx: Writing, *, batch: Iterable[Version], said: Mentions) -> list[Version]:
    """In one transaction: look again at what was written since, and put a stone in the place of the rest."""
    said.read_on(caller.home, tx)
    gone = []
    for version in batch:
        row = tx.artifact_by_key(version.key)
        if row is not None and not _needed(tx, row, said):
            tx.remove_artifact(row.key, caller.home.clock.now(), caller.actor)
            gone.append(version)
    return gone


def _versions(home: Home, said: Mentions, rule: VersionRule) -> Iterator[Version]:
    """Every version that is not the newest of its name."""
    after = 0

    def page(look: Reading) -> list[tuple[ArtifactRow, int, str]]:
        rows = look.older_versions(after, PAGE)
        return [(row, _newer(look, row, rule.keep or 0), _needed(look, row, said)) for row in rows]

    while found := home.store.read(page):
        for row, newer, needed in found:
            if rule.scope is None or row.scope == rule.scope:
                yield Version(row.key, ref_of(row), row.size, row.stored_at, newer, needed)
        after = found[-1][0].key


def _newer(look: Reading, row: ArtifactRow, keep: int) -> int:
    """How many versions of the name are newer; no more are counted than matter."""
    newest = look.artifact_versions(row.scope, row.name, 0, keep) if keep else []
    return next((place for place, other in enumerate(newest) if other.key == row.key), max(keep, 1))


def _needed(look: Reading, row: ArtifactRow, said: Mentions) -> str:
    ref = ref_of(row)
    if by := said.by(ref):
        return by
    if look.records_of_ref(ref, 0, 1):
        return "record"
    return "link" if look.linked_among([ref]) else ""
