"""Finding handoffs: by anchor, id, file or branch; listing them, and their history.

Storing is `store.py`, recovering and claiming `recover.py`, settling `settle.py`; what an anchor's entries say
is `anchor.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import HandoffAmbiguous, HandoffInvalid, HandoffNotFound, IntegrityBroken
from outlast.handoffs import anchor as anchors
from outlast.handoffs.anchor import Found
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.recovered import HandoffEvent, Listed, Near, Standing
from outlast.home.place import check_name
from outlast.store.contract import AnchorRow, HandoffRow, Reading
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Runtime

_NEAREST, _ALIKE = 3, 0.5  # so many names that have at least so much in common
_NAMES = 200  # so many anchors are compared with a name that nothing was stored under
_PAGE = 100  # rows are read so many at a time, as they are needed


class Asked(NamedTuple):
    """What somebody asks for: one of anchor, id, file, or nothing (then the branch decides)."""

    scope: str
    anchor: str | None = None
    handoff_id: str | None = None
    file_path: str | None = None
    symbol: str | None = None
    repo_root: str | None = None
    revision: int | None = None

    @property
    def words(self) -> str:
        if self.handoff_id is not None:
            return f"id {self.handoff_id!r}"
        if self.anchor is not None:
            return f"anchor {self.anchor!r} in scope {self.scope!r}"
        return f"file {self.file_path!r}" + (f", symbol {self.symbol!r}" if self.symbol else "")


class Place(NamedTuple):
    """A revision and its anchor, before anything of it is read."""

    anchor: AnchorRow
    revision: HandoffRow


def place_of(runtime: Runtime, asked: Asked) -> Place | None:
    """Where the handoff is that was asked for; None when an anchor has none.

    Raises HandoffNotFound, HandoffAmbiguous, HandoffInvalid.
    """
    if is_named(asked):
        return runtime.store.read(lambda look: named_place(look, asked))
    row = _of_file(runtime, asked) if asked.file_path is not None else _of_branch(runtime, asked)
    return runtime.store.read(lambda look: _newest(look, row))


def is_named(asked: Asked) -> bool:
    """Whether an id or an anchor says which one is meant."""
    return asked.handoff_id is not None or asked.anchor is not None


def named_place(look: Reading, asked: Asked) -> Place | None:
    """Where the handoff of an id or an anchor is; None when an anchor has none. Raises as `place_of`, NameInvalid."""
    if asked.handoff_id is not None:
        return _by_id(look, asked)
    assert asked.anchor is not None
    check_anchor(asked.anchor)
    return _by_anchor(look, asked)


def check_anchor(anchor: str) -> str:
    """Raises NameInvalid for an anchor that nothing can be stored under."""
    return check_name("anchor", anchor)


def _by_id(look: Reading, asked: Asked) -> Place:
    assert asked.handoff_id is not None
    rows = look.handoffs_by_prefix(asked.handoff_id) if asked.handoff_id else []
    rows = [row for row in rows if row.id == asked.handoff_id] or rows
    if len(rows) > 1:
        raise HandoffAmbiguous(asked.words, ", ".join(row.id for row in rows))
    anchor = look.anchor_by_key(rows[0].anchor) if rows else None
    if anchor is None:
        raise HandoffNotFound(asked.words)
    return Place(anchor, rows[0])


def _by_anchor(look: Reading, asked: Asked) -> Place | None:
    assert asked.anchor is not None
    anchor = look.anchor_of(asked.scope, asked.anchor)
    if anchor is None:
        return None
    wanted = anchor.revision if asked.revision is None else asked.revision
    revision = look.handoff_at(anchor.key, wanted) if 0 < wanted <= anchor.revision else None
    if revision is None:
        raise HandoffNotFound(f"revision {asked.revision} of {asked.words}", f"revision {anchor.revision}")
    return Place(anchor, revision)


def _newest(look: Reading, row: AnchorRow) -> Place:
    revision = look.handoff_at(row.key, row.revision)
    if revision is None:
        raise HandoffNotFound(f"anchor {row.anchor!r}")
    return Place(row, revision)


def not_found(runtime: Runtime, asked: Asked) -> HandoffNotFound:
    """The error for an anchor that nothing was stored under: it names the nearest ones."""
    assert asked.anchor is not None
    anchor = asked.anchor

    def look(reading: Reading) -> list[str]:
        newest = reading.newest_anchors(asked.scope, "open", _NAMES)
        return [*(row.anchor for row in newest), *reading.anchors_near(asked.scope, anchor, _NAMES // 4)]

    known = list(dict.fromkeys(runtime.store.read(look)))
    return HandoffNotFound(asked.words, ", ".join(_most_alike(anchor, known)))


def _most_alike(name: str, known: Iterable[str]) -> list[str]:
    """The names that have most in common with one: pairs of letters, so that long names cost no more than they say."""
    wanted = _pairs(name)
    shares = sorted(((_share(wanted, _pairs(each)), each) for each in known), reverse=True)
    return [each for share, each in shares[:_NEAREST] if share >= _ALIKE]


def _pairs(name: str) -> set[tuple[str, str]]:
    return set(pairwise(f" {name} "))


def _share(one: set[tuple[str, str]], other: set[tuple[str, str]]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))


# -- by file, by branch ------------------------------------------------------------------------------


def _of_file(runtime: Runtime, asked: Asked) -> AnchorRow:
    """The one open anchor whose newest revision is about this file. All of them are named when there are several."""
    from outlast.files.root import relative_to

    assert asked.file_path is not None
    root = runtime.eyes.root(runtime, asked.repo_root)
    path = relative_to(root, asked.file_path, "file_path")
    rows = runtime.store.read(lambda look: look.anchors_of_file(asked.scope, path, -1))
    here = [*_here(runtime, root, (row for row in rows if asked.symbol in (None, row.symbol)))]
    if not here:
        raise HandoffNotFound(asked.words)
    if len(here) > 1:
        raise HandoffAmbiguous(asked.words, ", ".join(row.anchor for row in here))
    return here[0]


def _of_branch(runtime: Runtime, asked: Asked) -> AnchorRow:
    """The newest open anchor of the branch that is checked out here."""
    from outlast.files.git import branch_of

    if asked.symbol is not None:
        raise HandoffInvalid("symbol", "it says where in a file, and no file is named", "give file_path too (--file)")
    root = runtime.eyes.root(runtime, asked.repo_root)
    branch = branch_of(root)
    rows = _paged(runtime, partial(_on_branch, asked.scope, branch)) if branch else ()
    row = next(_here(runtime, root, rows), None)
    if row is None:
        open_ones = runtime.store.read(lambda look: look.newest_anchors(asked.scope, "open", 10))
        where = f"branch {branch!r}" if branch else f"{root} (no branch is checked out there)"
        raise HandoffNotFound(where, ", ".join(row.anchor for row in open_ones))
    return row


def _on_branch(scope: str, branch: str, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    return look.anchors_of_branch(scope, branch, _PAGE, last.newest if last else 0)


def _here(runtime: Runtime, root: Path, rows: Iterable[AnchorRow]) -> Iterator[AnchorRow]:
    """The anchors whose files are those of this folder: stored here, or in a clone that has their commit."""
    from outlast.files.changes import text
    from outlast.files.git import has_commit

    if not runtime.eyes.looks:
        yield from rows  # nobody here can tell them apart
        return
    has = cache(partial(has_commit, root))
    for row in rows:
        if row.root in ("", text(str(root))) or ((commit := _commit_of(runtime, row)) and has(commit)):
            yield row


def _commit_of(runtime: Runtime, row: AnchorRow) -> str:
    """The commit that an anchor's newest revision is bound to. One that cannot be read is passed over, and told."""
    try:
        bound = read(runtime, row).handoff.binding
    except IntegrityBroken as broken:
        runtime.tell(f"handoff {row.anchor!r} is passed over: {broken}")
        return ""
    return bound.commit if bound else ""


def near(
    runtime: Runtime,
    scope: str,
    branch: str | None,
    file_path: str | None,
    symbol: str | None,
    *,
    limit: int,
    before: int = 0,
) -> list[Near]:
    """The open anchors of a branch, or about a file, the newest first: for one who has the files to choose from."""

    def look(reading: Reading) -> list[AnchorRow]:
        if branch is not None:
            return reading.anchors_of_branch(scope, branch, limit, before)
        rows = [row for row in reading.anchors_of_file(scope, file_path or "", -1) if symbol in (None, row.symbol)]
        newest = sorted(rows, key=lambda row: -row.newest)
        return [row for row in newest if not before or row.newest < before][:limit]

    def told(row: AnchorRow) -> Near:
        place = runtime.store.read(lambda reading: reading.handoff_at(row.key, row.revision))
        commit = _commit_of(runtime, row)
        return Near(row.anchor, place.id if place else "", row.symbol, row.root, commit, row.newest)

    return [told(row) for row in runtime.store.read(look)]


# -- pages -------------------------------------------------------------------------------------------

_Page = Callable[[AnchorRow | None, Reading], list[AnchorRow]]  # what comes after a row; at first after none


def _paged(runtime: Runtime, page: _Page, last: AnchorRow | None = None) -> Iterator[AnchorRow]:
    """All rows after the last one seen, read page by page as they are used."""
    while rows := runtime.store.read(partial(page, last)):
        yield from rows
        last = rows[-1]


# -- reading -----------------------------------------------------------------------------------------


def read(runtime: Runtime, row: AnchorRow) -> Found:
    """The newest revision of an anchor, and what happened since. Raises IntegrityBroken."""

    def look(reading: Reading) -> Found:
        revision = reading.handoff_at(row.key, row.revision)
        if revision is None:
            raise IntegrityBroken(f"handoff {row.anchor}", f"revision {row.revision} is missing")
        return anchors.find(reading, row, revision)

    return runtime.store.read(look)


def get(runtime: Runtime, asked: Asked) -> Handoff:
    """A revision exactly as it was stored. Raises HandoffNotFound, IntegrityBroken."""
    place = place_of(runtime, asked)
    if place is None:
        raise not_found(runtime, asked)
    found = runtime.store.read(lambda look: anchors.find(look, *place))
    if found.broken is not None:
        raise found.broken.as_error()
    return found.handoff


def history(runtime: Runtime, asked: Asked) -> list[HandoffEvent]:
    """Everything that happened under an anchor, oldest first."""
    place = place_of(runtime, asked)
    if place is None:
        raise not_found(runtime, asked)
    return runtime.store.read(lambda look: anchors.history(look, place.anchor))


# -- listing -----------------------------------------------------------------------------------------


def listed(
    runtime: Runtime, scope: str, standing: Standing | None, limit: int, looking: bool, before: str | None = None
) -> list[Listed]:
    """The newest handoffs that stand so; with `looking`, or for contested ones, each with its verdict here and now.

    `before` is the id of the last one of a list that this one continues. One that cannot be read is contested.
    Raises HandoffInvalid for a limit that is none, HandoffNotFound.
    """
    from itertools import islice

    if type(limit) is not int or limit < 1:
        raise HandoffInvalid("limit", "it is no whole number above 0", "say how many are wanted at most, such as 50")
    looking = looking or standing == "contested"
    found = (_one(runtime, row, looking) for row in _rows(runtime, scope, standing, _last(runtime, scope, before)))
    return [*islice((one for one in found if standing in (None, one.standing)), min(limit, sys.maxsize))]


def _last(runtime: Runtime, scope: str, handoff_id: str | None) -> AnchorRow | None:
    """Where a list ended: its last anchor as it was then, also if another revision was stored since."""
    if handoff_id is None:
        return None
    anchor, revision = runtime.store.read(lambda look: _by_id(look, Asked("", handoff_id=handoff_id)))
    if anchor.scope != scope:
        raise HandoffNotFound(f"id {handoff_id!r} in scope {scope!r}")
    if anchor.newest == revision.key:
        return anchor
    found = runtime.store.read(lambda look: anchors.find(look, anchor, revision))
    return anchor._replace(newest=revision.key, expires_at=found.handoff.expires_us)


def _rows(
    runtime: Runtime, scope: str, standing: Standing | None, last: AnchorRow | None = None
) -> Iterator[AnchorRow]:
    """The anchors that may stand so, after the last one seen, each read when it is needed."""
    from heapq import merge

    if standing == "expired":
        return _paged(runtime, partial(_expired, scope, runtime.clock.now()), last)
    if standing == "claimed":
        claimed = runtime.store.read(lambda look: look.claimed_anchors(scope, -1))
        return (row for row in claimed if last is None or row.newest < last.newest)
    statuses = {None: ("open", "finished"), "finished": ("finished",)}.get(standing, ("open",))
    pages = [_paged(runtime, partial(_of_status, scope, status), last) for status in statuses]
    return merge(*pages, key=lambda row: row.newest, reverse=True)


def _expired(scope: str, now: int, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    at, before = (last.expires_at, last.key) if last else (now, 0)
    return look.expired_anchors(scope, at, _PAGE, before)


def _of_status(scope: str, status: str, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    return look.newest_anchors(scope, status, _PAGE, last.newest if last else 0)


def _one(runtime: Runtime, row: AnchorRow, looking: bool) -> Listed:
    from outlast.handoffs.recover import judged

    try:
        found = read(runtime, row)
    except IntegrityBroken as broken:
        return _unreadable(runtime, row, broken)
    handoff = found.handoff
    holder = runtime.store.read(lambda look: anchors.holder_of(runtime, look, found))
    verdict = judged(runtime, found, None, ()).verdict if looking and row.status == "open" else None
    return Listed(
        anchor=row.anchor,
        scope=row.scope,
        standing=standing_of(
            row, claimed=holder is not None, contested=str(verdict) == "contested", at=runtime.clock.now()
        ),
        handoff_id=handoff.id,
        revision=row.revision,
        summary=handoff.summary,
        next_action=handoff.next_action,
        score=row.score,
        outcome=row.outcome,
        holder=holder.who if holder else "",
        branch=row.branch,
        actor=handoff.actor,
        stored_at=moment(row.stored_at),
        expires_at=moment(row.expires_at),
        verdict=verdict,
    )


def _unreadable(runtime: Runtime, row: AnchorRow, broken: IntegrityBroken) -> Listed:
    """What the anchor's row alone says, and that its record is broken."""
    from outlast.ledger.verdict import Reason, judge

    reason = Reason("integrity_broken", broken.record, "what was stored", broken.why, broken.advice)
    revision = runtime.store.read(lambda look: look.handoff_at(row.key, row.revision))
    return Listed(
        anchor=row.anchor,
        scope=row.scope,
        standing=standing_of(row, claimed=False, contested=True, at=runtime.clock.now()),
        handoff_id=revision.id if revision else "",
        revision=row.revision,
        summary="",
        next_action=None,
        score=row.score,
        outcome=row.outcome,
        holder="",
        branch=row.branch,
        actor="",
        stored_at=moment(row.stored_at),
        expires_at=moment(row.expires_at),
        verdict=judge([reason]),
    )


def standing_of(row: AnchorRow, *, claimed: bool, contested: bool, at: int) -> Standing:
    """In what list a handoff belongs: the first of these that is true."""
    if row.status == "finished":
        return "finished"
    if claimed:
        return "claimed"
    if contested:
        return "contested"
    return "expired" if row.expires_at <= at else "open"
