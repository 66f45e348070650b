"""Finding handoffs: by anchor, id, file or branch; listing them, and their history.

Storing is `store.py`, recovering and claiming `recover.py`, settling `settle.py`; what an anchor's entries say
is `anchor.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import HandoffAmbiguous, HandoffInvalid, HandoffNotFound, IntegrityBroken
from outlast.files.changes import text
from outlast.files.git import branch_of, one_look
from outlast.handoffs import anchor as anchors
from outlast.handoffs.anchor import FoundHandoff
from outlast.handoffs.handoff import Binding, Handoff
from outlast.handoffs.observer import observer_of
from outlast.handoffs.recovered import HandoffEvent, Listed, Near, Standing
from outlast.handoffs.task_anchor import anchor_of
from outlast.home.place import check_name
from outlast.ledger.verdict import Reason, judge
from outlast.store.contract import AnchorRow, HandoffRow, Reading
from outlast.values.ambient import notice
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

_NEAREST, _ALIKE = 3, 0.5  # so many names that have at least so much in common
_NAMES = 200  # so many anchors are compared with a name that nothing was stored under
_PAGE = 100  # rows are read so many at a time, as they are needed


class HandoffQuery(NamedTuple):
    """What somebody asks for: one of anchor, id, file, or nothing (then the branch decides)."""

    scope: str
    anchor: str | None = None
    handoff_id: str | None = None
    file_path: str | None = None
    symbol: str | None = None
    repo_root: str | None = None
    revision: int | None = None
    branch: str | None = None  # that is meant instead of the one that is checked out

    @property
    def words(self) -> str:
        if self.handoff_id is not None:
            return f"id {self.handoff_id!r}"
        if self.anchor is not None:
            return f"anchor {self.anchor!r} in scope {self.scope!r}"
        return f"file {self.file_path!r}" + (f", symbol {self.symbol!r}" if self.symbol else "")


class RevisionPlace(NamedTuple):
    """A revision and its anchor, before anything of it is read."""

    anchor: AnchorRow
    revision: HandoffRow


def place_of(home: Home, asked: HandoffQuery) -> RevisionPlace | None:
    """Where the handoff of an id or an anchor is; None when an anchor has none. Raises HandoffNotFound, NameInvalid."""
    return home.store.read(lambda look: named_place(look, asked))


def named(caller: Caller, asked: HandoffQuery) -> HandoffQuery:
    """What is asked for by its anchor, or by its id: also where a file or the branch decides, or the id is a run's.

    Raises HandoffNotFound, HandoffAmbiguous, HandoffInvalid.
    """

    if asked.handoff_id is not None and asked.handoff_id.startswith("run:"):
        return asked._replace(anchor=_of_run(caller.home, asked), handoff_id=None)
    if is_named(asked):
        return asked
    anchor = _of_file(caller, asked) if asked.file_path is not None else _of_branch(caller, asked)
    return asked._replace(anchor=anchor, file_path=None, symbol=None)


def _of_run(home: Home, asked: HandoffQuery) -> str:
    """The anchor of a run that is not finished, if its task gives what that run left."""
    from outlast.handoffs import unfinished

    rows = unfinished.tasks_of(home, asked.scope)
    row = next((row for row in rows if row.id == unfinished.run_of(asked.handoff_id)), None)
    if row is None:
        raise HandoffNotFound(f"{asked.words} in scope {asked.scope!r}")
    return anchor_of(row.task)


def is_named(asked: HandoffQuery) -> bool:
    """Whether an id or an anchor says which one is meant."""
    return asked.handoff_id is not None or asked.anchor is not None


def named_place(look: Reading, asked: HandoffQuery) -> RevisionPlace | None:
    """Where the handoff of an id or an anchor is; None when an anchor has none. Raises as `place_of`, NameInvalid."""
    if asked.handoff_id is not None:
        return _by_id(look, asked)
    assert asked.anchor is not None
    check_anchor(asked.anchor)
    return _by_anchor(look, asked)


def check_anchor(anchor: str) -> str:
    """Raises NameInvalid for an anchor that nothing can be stored under."""
    return check_name("anchor", anchor)


def _by_id(look: Reading, asked: HandoffQuery) -> RevisionPlace:
    assert asked.handoff_id is not None
    rows = look.handoffs_by_prefix(asked.handoff_id) if asked.handoff_id else []
    rows = [row for row in rows if row.id == asked.handoff_id] or rows
    if len(rows) > 1:
        raise HandoffAmbiguous(asked.words, ", ".join(row.id for row in rows))
    anchor = look.anchor_by_key(rows[0].anchor) if rows else None
    if anchor is None:
        raise HandoffNotFound(asked.words)
    return RevisionPlace(anchor, rows[0])


def _by_anchor(look: Reading, asked: HandoffQuery) -> RevisionPlace | None:
    assert asked.anchor is not None
    anchor = look.anchor_of(asked.scope, asked.anchor)
    if anchor is None:
        return None
    wanted = anchor.revision if asked.revision is None else asked.revision
    revision = look.handoff_at(anchor.key, wanted) if 0 < wanted <= anchor.revision else None
    if revision is None:
        raise HandoffNotFound(f"revision {asked.revision} of {asked.words}", f"revision {anchor.revision}")
    return RevisionPlace(anchor, revision)


def not_found(home: Home, asked: HandoffQuery) -> HandoffNotFound:
    """The error for an anchor that nothing was stored under: it names the nearest ones."""
    from outlast.handoffs import unfinished

    assert asked.anchor is not None
    anchor = asked.anchor

    def look(reading: Reading) -> list[str]:
        newest = reading.newest_anchors(asked.scope, "open", _NAMES)
        runs = [anchor_of(row.task) for row in unfinished.of_scope(reading, asked.scope)[:_NAMES]]
        return [*(row.anchor for row in newest), *reading.anchors_near(asked.scope, anchor, _NAMES // 4), *runs]

    known = list(dict.fromkeys(home.store.read(look)))
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


def _of_file(caller: Caller, asked: HandoffQuery) -> str:
    """The one anchor whose newest revision, or whose unfinished run, is about this file. Several are all named."""
    from outlast.files.root import relative_to
    from outlast.handoffs import unfinished

    assert asked.file_path is not None
    root = observer_of(caller).root(caller, asked.repo_root)
    path = relative_to(root, asked.file_path, "file_path")
    rows = caller.home.store.read(lambda look: look.anchors_of_file(asked.scope, path))
    here = [row.anchor for row in _here(caller, root, (row for row in rows if asked.symbol in (None, row.symbol)))]
    if asked.symbol is None:
        runs = unfinished.about(caller, asked.scope, path, root if observer_of(caller).looks else None)
        here = list(dict.fromkeys([*here, *(anchor_of(row.task) for row in runs)]))
    if not here:
        raise HandoffNotFound(asked.words)
    if len(here) > 1:
        raise HandoffAmbiguous(asked.words, ", ".join(here))
    return here[0]


def _of_branch(caller: Caller, asked: HandoffQuery) -> str:
    """The newest open anchor of the branch that is checked out here, or the unfinished run that was heard of since."""
    from outlast.handoffs import unfinished

    if asked.symbol is not None:
        raise HandoffInvalid("symbol", "it says where in a file, and no file is named", "give file_path too (--file)")
    if not observer_of(caller).looks:
        return newest_of(caller, asked.scope, asked.branch)
    root = observer_of(caller).root(caller, asked.repo_root)
    branch = branch_of(root) if asked.branch is None else asked.branch
    rows = _paged(caller.home, partial(_on_branch, asked.scope, branch)) if branch else ()
    rows_of_runs = (
        unfinished.tasks_of(caller.home, asked.scope) if asked.branch is None else []
    )  # a run is of no branch
    runs = [row for row in rows_of_runs if unfinished.is_here(caller, root, row)]
    found = unfinished.meant(
        chain((unfinished.near_of(caller, row) for row in runs), map(_near, _here(caller, root, rows)))
    )
    if found is None:
        where = f"branch {branch!r}" if branch else f"{root} (no branch is checked out there)"
        raise HandoffNotFound(where, ", ".join(_open_ones(caller.home, asked.scope)))
    return found.anchor


def newest_of(caller: Caller, scope: str, branch: str | None = None) -> str:
    """The anchor that who has no files here means: the newest open one of a branch, or of all, or a run heard of since.

    Raises HandoffNotFound.
    """
    from outlast.handoffs import unfinished

    page = partial(_of_status, scope, "open") if branch is None else partial(_on_branch, scope, branch)
    rows_of_runs = unfinished.tasks_of(caller.home, scope) if branch is None else []  # a run is of no branch
    runs = (unfinished.near_of(caller, row) for row in rows_of_runs)
    found = unfinished.meant(chain(runs, map(_near, _paged(caller.home, page))))
    if found is None:
        where = f"scope {scope!r}" if branch is None else f"branch {branch!r} in scope {scope!r}"
        raise HandoffNotFound(where, ", ".join(_open_ones(caller.home, scope)))
    return found.anchor


def _open_ones(home: Home, scope: str, most: int = 10) -> list[str]:
    """The anchors that there are, wherever their work is: what unfinished runs left, then the newest open ones."""
    from outlast.handoffs import unfinished

    rows = home.store.read(lambda look: look.newest_anchors(scope, "open", most))
    runs = [anchor_of(row.task) for row in unfinished.tasks_of(home, scope)]
    return list(dict.fromkeys([*runs, *(row.anchor for row in rows)]))[:most]


def _near(row: AnchorRow, bound: Binding | None = None, handoff_id: str = "") -> Near:
    known = bound or Binding(root=row.root, host="")
    names = (known.commit, known.prefix, known.known_by)
    return Near(row.anchor, handoff_id, row.symbol, row.root, *names, row.newest, moment(row.stored_at))


def _on_branch(scope: str, branch: str, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    return look.anchors_of_branch(scope, branch, _PAGE, last.newest if last else 0)


def _here(caller: Caller, root: Path, rows: Iterable[AnchorRow]) -> Iterator[AnchorRow]:
    """The anchors whose files are those of this folder: stored here, or in another clone of its repository."""
    from outlast.files.root import Stand

    if not observer_of(caller).looks:
        yield from rows  # nobody here can tell them apart
        return
    stand = Stand(root)
    for row in rows:
        if row.root in ("", text(str(root))) or ((bound := _bound_to(caller.home, row)) and stand.place_of(bound)):
            yield row


def _bound_to(home: Home, row: AnchorRow) -> Binding | None:
    """What an anchor's newest revision is bound to. One that cannot be read is passed over, and told."""
    try:
        return read(home, row).handoff.binding
    except IntegrityBroken as broken:
        _pass_over(home, f"handoff {row.anchor!r}", broken)
        return None


def near(
    caller: Caller,
    scope: str,
    branch: str | None,
    file_path: str | None,
    symbol: str | None,
    *,
    limit: int,
    before: int = 0,
) -> list[Near]:
    """What may be meant on a branch, or by a file, for one who has the files to choose from: runs, then anchors."""
    from outlast.handoffs import unfinished

    def look(reading: Reading) -> list[AnchorRow]:
        last = unfinished.after_runs(before)
        if branch is not None:
            return reading.anchors_of_branch(scope, branch, limit, last)
        if file_path is None:
            return []
        rows = [row for row in reading.anchors_of_file(scope, file_path) if symbol in (None, row.symbol)]
        newest = sorted(rows, key=lambda row: -row.newest)
        return [row for row in newest if not last or row.newest < last][:limit]

    def told(row: AnchorRow) -> Near:
        place = caller.home.store.read(lambda reading: reading.handoff_at(row.key, row.revision))
        return _near(row, _bound_to(caller.home, row), place.id if place else "")

    runs = unfinished.near(caller, scope, file_path, before=before) if symbol is None else iter(())
    return [*islice(chain(runs, map(told, caller.home.store.read(look))), limit)]


# -- pages -------------------------------------------------------------------------------------------

_Page = Callable[[AnchorRow | None, Reading], list[AnchorRow]]  # what comes after a row; at first after none


def _paged(home: Home, page: _Page, last: AnchorRow | None = None) -> Iterator[AnchorRow]:
    """All rows after the last one seen, read page by page as they are used."""
    while rows := home.store.read(partial(page, last)):
        yield from rows
        last = rows[-1]


# -- reading -----------------------------------------------------------------------------------------


def read(home: Home, row: AnchorRow) -> FoundHandoff:
    """The newest revision of an anchor, and what happened since. Raises IntegrityBroken."""

    def look(reading: Reading) -> FoundHandoff:
        revision = reading.handoff_at(row.key, row.revision)
        if revision is None:
            raise IntegrityBroken(f"handoff {row.anchor}", f"revision {row.revision} is missing")
        return anchors.find(reading, row, revision)

    return home.store.read(look)


def get(home: Home, asked: HandoffQuery) -> Handoff:
    """A revision exactly as it was stored. Raises HandoffNotFound, IntegrityBroken."""
    place = place_of(home, asked)
    if place is None:
        raise not_found(home, asked)
    found = home.store.read(lambda look: anchors.find(look, *place))
    if found.broken is not None:
        raise found.broken.as_error()
    return found.handoff


def history(home: Home, asked: HandoffQuery) -> list[HandoffEvent]:
    """Everything that happened under an anchor, oldest first."""
    place = place_of(home, asked)
    if place is None:
        raise not_found(home, asked)
    return home.store.read(lambda look: anchors.history(look, place.anchor))


# -- listing -----------------------------------------------------------------------------------------


def listed(
    executor: Executor, scope: str, standing: Standing | None, limit: int, looking: bool, before: str | None = None
) -> list[Listed]:
    """The newest handoffs that stand so; with `looking`, or for contested ones, each with its verdict here and now.

    `before` is the id of the last one of a list that this one continues. One that cannot be read is contested.
    Raises HandoffInvalid for a limit that is none, HandoffNotFound.
    """
    if type(limit) is not int or limit < 1:
        raise HandoffInvalid("limit", "it is no whole number above 0", "say how many are wanted at most, such as 50")
    looking = looking or standing == "contested"
    found = chain(_runs(executor, scope, looking, before), _stored(executor, scope, standing, looking, before))
    wanted = islice((one for one in found if standing in (None, one.standing)), min(limit, sys.maxsize))
    if not looking:
        return [*wanted]
    with one_look():
        return [*wanted]


def _runs(executor: Executor, scope: str, looking: bool, before: str | None) -> Iterator[Listed]:
    """What unfinished runs left, those that began last first, unless somebody handed the task over since."""
    from outlast.handoffs import unfinished
    from outlast.handoffs.recover_run import listed_run
    from outlast.handoffs.subject import subject_of

    last = unfinished.run_of(before)
    if before is not None and last is None:
        return  # it goes on among those that were stored
    rows = unfinished.tasks_of(executor.home, scope)
    place = next((row.key for row in rows if row.id == last), 0) or _key_of_run(executor.home, last)
    for row in rows:
        if place and row.key >= place:
            continue
        try:
            composed = subject_of(executor, HandoffQuery(scope, anchor_of(row.task))).instead
            listed = listed_run(executor.caller, composed, looking=looking) if composed is not None else None
        except IntegrityBroken as broken:
            _pass_over(executor.home, f"run {row.id}", broken)
            continue
        if listed is not None:
            yield listed


def _key_of_run(home: Home, run_id: str | None) -> int:
    """The place of a run where a list ended. Raises RunNotFound."""
    from outlast.home.find import run_row

    return run_row(home, run_id).key if run_id is not None else 0


def _stored(
    executor: Executor, scope: str, standing: Standing | None, looking: bool, before: str | None
) -> Iterator[Listed]:
    """What was stored, but for the anchors of tasks whose run has gone on since."""
    from outlast.handoffs import unfinished

    last = _last(executor.home, scope, before) if unfinished.run_of(before) is None else None
    running = {anchor_of(row.task) for row in unfinished.tasks_of(executor.home, scope)}
    for row in _rows(executor.home, scope, standing, last):
        if row.anchor not in running or not _has_gone_on(executor, scope, row):
            yield _one(executor.caller, row, looking)


def _has_gone_on(executor: Executor, scope: str, row: AnchorRow) -> bool:
    """Whether the task's run has gone on since it was handed over. One that cannot be read is passed over, and told."""
    from outlast.handoffs.subject import subject_of

    try:
        return subject_of(executor, HandoffQuery(scope, row.anchor)).instead is not None
    except IntegrityBroken as broken:
        _pass_over(executor.home, f"the run of {row.anchor!r}", broken)
        return False


def _pass_over(home: Home, what: str, broken: IntegrityBroken) -> None:
    line = f"{what} is passed over: {broken}"
    notice(line)
    home.tell(line)


def _last(home: Home, scope: str, handoff_id: str | None) -> AnchorRow | None:
    """Where a list ended: its last anchor as it was then, also if another revision was stored since."""
    if handoff_id is None:
        return None
    anchor, revision = home.store.read(lambda look: _by_id(look, HandoffQuery("", handoff_id=handoff_id)))
    if anchor.scope != scope:
        raise HandoffNotFound(f"id {handoff_id!r} in scope {scope!r}")
    if anchor.newest == revision.key:
        return anchor
    found = home.store.read(lambda look: anchors.find(look, anchor, revision))
    return anchor._replace(newest=revision.key, expires_at=found.handoff.expires_us)


def _rows(home: Home, scope: str, standing: Standing | None, last: AnchorRow | None = None) -> Iterator[AnchorRow]:
    """The anchors that may stand so, after the last one seen, each read when it is needed."""
    from heapq import merge

    if standing == "expired":
        return _paged(home, partial(_expired, scope, home.clock.now()), last)
    if standing == "claimed":
        claimed = home.store.read(lambda look: look.claimed_anchors(scope))
        return (row for row in claimed if last is None or row.newest < last.newest)
    statuses = {None: ("open", "finished"), "finished": ("finished",)}.get(standing, ("open",))
    pages = [_paged(home, partial(_of_status, scope, status), last) for status in statuses]
    return merge(*pages, key=lambda row: row.newest, reverse=True)


def _expired(scope: str, now: int, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    at, before = (last.expires_at, last.key) if last else (now, 0)
    return look.expired_anchors(scope, at, _PAGE, before)


def _of_status(scope: str, status: str, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    return look.newest_anchors(scope, status, _PAGE, last.newest if last else 0)


def _one(caller: Caller, row: AnchorRow, looking: bool) -> Listed:
    from outlast.handoffs.recover import judged, standing_reasons

    try:
        found = read(caller.home, row)
    except IntegrityBroken as broken:
        return _unreadable(caller.home, row, broken)
    handoff = found.handoff
    holder = caller.home.store.read(lambda look: anchors.holder_of(caller, look, found))
    verdict = judged(caller, found, None, ()).verdict if looking and row.status == "open" else None
    contested = verdict is not None and bool(standing_reasons(verdict, anchors.accepted_since(found)))
    return Listed(
        anchor=row.anchor,
        scope=row.scope,
        standing=standing_of(row, claimed=holder is not None, contested=contested, at=caller.home.clock.now()),
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


def _unreadable(home: Home, row: AnchorRow, broken: IntegrityBroken) -> Listed:
    """What the anchor's row alone says, and that its record is broken."""
    reason = Reason("integrity_broken", broken.record, "what was stored", broken.why, broken.advice)
    revision = home.store.read(lambda look: look.handoff_at(row.key, row.revision))
    return Listed(
        anchor=row.anchor,
        scope=row.scope,
        standing=standing_of(row, claimed=False, contested=True, at=home.clock.now()),
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
