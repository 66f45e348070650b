"""Finding handoffs: by anchor, id, file or branch; their history; and what a call is about.

That is an explicit handoff or, when the task's unfinished run has gone on since, what that gives (`compose.py`).
Storing is `store.py`, recovering and claiming `recover.py`, settling `settle.py`; what an anchor's entries say is
`anchor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import Finished, HandoffAmbiguous, HandoffInvalid, HandoffNotFound, IntegrityBroken
from outlast.files.git import Stand, branch_of, relative_to
from outlast.files.snapshot import Binding
from outlast.handoffs import anchor as anchors
from outlast.handoffs import task_state as unfinished
from outlast.handoffs.anchor import FoundHandoff
from outlast.handoffs.claim import holder_of
from outlast.handoffs.handoff import Handoff, HandoffEvent, Near, Standing, anchor_of, task_of
from outlast.handoffs.observer import observer_of
from outlast.handoffs.task_state import Completion, completion
from outlast.home.claimer import asker
from outlast.home.place import check_name
from outlast.store.contract import AnchorRow, HandoffRow, Reading
from outlast.values.ambient import notice
from outlast.values.codec import text
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

_NEAREST, _ALIKE = 3, 0.5  # so many names that have at least so much in common
_NAMES = 200  # so many anchors are compared with a name that nothing was stored under
PAGE = 100  # rows are read so many at a time, as they are needed


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
        rows = unfinished.tasks_of(caller.home, asked.scope)
        row = next((row for row in rows if row.id == unfinished.run_of(asked.handoff_id)), None)
        if row is None:
            raise HandoffNotFound(f"{asked.words} in scope {asked.scope!r}")
        return asked._replace(anchor=anchor_of(row.task), handoff_id=None)
    if asked.handoff_id is not None or asked.anchor is not None:
        return asked
    anchor = _of_file(caller, asked) if asked.file_path is not None else _of_branch(caller, asked)
    return asked._replace(anchor=anchor, file_path=None, symbol=None)


def named_place(look: Reading, asked: HandoffQuery) -> RevisionPlace | None:
    """Where the handoff of an id or an anchor is; None when an anchor has none. Raises as `place_of`, NameInvalid."""
    if asked.handoff_id is not None:
        return by_id(look, asked)
    anchor = look.anchor_of(asked.scope, check_name("anchor", asked.anchor or ""))
    if anchor is None:
        return None
    wanted = anchor.revision if asked.revision is None else asked.revision
    revision = look.handoff_at(anchor.key, wanted) if 0 < wanted <= anchor.revision else None
    if revision is None:
        raise HandoffNotFound(f"revision {asked.revision} of {asked.words}", f"revision {anchor.revision}")
    return RevisionPlace(anchor, revision)


def by_id(look: Reading, asked: HandoffQuery) -> RevisionPlace:
    assert asked.handoff_id is not None
    rows = look.handoffs_by_prefix(asked.handoff_id) if asked.handoff_id else []
    rows = [row for row in rows if row.id == asked.handoff_id] or rows
    if len(rows) > 1:
        raise HandoffAmbiguous(asked.words, ", ".join(row.id for row in rows))
    anchor = look.anchor_by_key(rows[0].anchor) if rows else None
    if anchor is None:
        raise HandoffNotFound(asked.words)
    return RevisionPlace(anchor, rows[0])


def not_found(home: Home, asked: HandoffQuery) -> HandoffNotFound:
    """The error for an anchor that nothing was stored under: it names the nearest ones."""
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
    assert asked.file_path is not None
    root = observer_of(caller).root(caller, asked.repo_root)
    path = relative_to(root, asked.file_path, "file_path")
    rows = caller.home.store.read(lambda look: look.anchors_of_file(asked.scope, path))
    here = [row.anchor for row in _here(caller, root, (row for row in rows if asked.symbol in (None, row.symbol)))]
    if asked.symbol is None:
        runs = unfinished.about(caller, asked.scope, path, root if caller.looks else None)
        here = list(dict.fromkeys([*here, *(anchor_of(row.task) for row in runs)]))
    if not here:
        raise HandoffNotFound(asked.words)
    if len(here) > 1:
        raise HandoffAmbiguous(asked.words, ", ".join(here))
    return here[0]


def _of_branch(caller: Caller, asked: HandoffQuery) -> str:
    """The newest open anchor of the branch that is checked out here, or the unfinished run that was heard of since."""
    if asked.symbol is not None:
        raise HandoffInvalid("symbol", "it says where in a file, and no file is named", "give file_path too (--file)")
    if not caller.looks:
        return newest_of(caller, asked.scope, asked.branch)
    root = observer_of(caller).root(caller, asked.repo_root)
    branch = branch_of(root) if asked.branch is None else asked.branch
    rows = paged(caller.home, partial(_on_branch, asked.scope, branch)) if branch else ()
    of_runs = unfinished.tasks_of(caller.home, asked.scope) if asked.branch is None else []  # a run is of no branch
    runs = [row for row in of_runs if unfinished.is_here(caller, root, row)]
    near_runs = (unfinished.near_of(caller, row) for row in runs)
    found = unfinished.meant(chain(near_runs, map(_near, _here(caller, root, rows))))
    if found is None:
        where = f"branch {branch!r}" if branch else f"{root} (no branch is checked out there)"
        raise HandoffNotFound(where, ", ".join(_open_ones(caller.home, asked.scope)))
    return found.anchor


def newest_of(caller: Caller, scope: str, branch: str | None = None) -> str:
    """The anchor that who has no files here means: the newest open one of a branch, or of all, or a run heard of since.

    Raises HandoffNotFound.
    """
    page = partial(of_status, scope, "open") if branch is None else partial(_on_branch, scope, branch)
    rows_of_runs = unfinished.tasks_of(caller.home, scope) if branch is None else []  # a run is of no branch
    runs = (unfinished.near_of(caller, row) for row in rows_of_runs)
    found = unfinished.meant(chain(runs, map(_near, paged(caller.home, page))))
    if found is None:
        where = f"scope {scope!r}" if branch is None else f"branch {branch!r} in scope {scope!r}"
        raise HandoffNotFound(where, ", ".join(_open_ones(caller.home, scope)))
    return found.anchor


def _open_ones(home: Home, scope: str, most: int = 10) -> list[str]:
    """The anchors that there are, wherever their work is: what unfinished runs left, then the newest open ones."""
    rows = home.store.read(lambda look: look.newest_anchors(scope, "open", most))
    runs = [anchor_of(row.task) for row in unfinished.tasks_of(home, scope)]
    return list(dict.fromkeys([*runs, *(row.anchor for row in rows)]))[:most]


def _near(row: AnchorRow, bound: Binding | None = None, handoff_id: str = "") -> Near:
    known = bound or Binding(root=row.root, host="")
    names = (known.commit, known.prefix, known.known_by)
    return Near(row.anchor, handoff_id, row.symbol, row.root, *names, row.newest, moment(row.stored_at))


def _on_branch(scope: str, branch: str, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    return look.anchors_of_branch(scope, branch, PAGE, last.newest if last else 0)


def _here(caller: Caller, root: Path, rows: Iterable[AnchorRow]) -> Iterator[AnchorRow]:
    """The anchors whose files are those of this folder: stored here, or in another clone of its repository."""
    if not caller.looks:
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
        pass_over(home, f"handoff {row.anchor!r}", broken)
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


def paged(home: Home, page: _Page, last: AnchorRow | None = None) -> Iterator[AnchorRow]:
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


def pass_over(home: Home, what: str, broken: IntegrityBroken) -> None:
    line = f"{what} is passed over: {broken}"
    notice(line)
    home.tell(line)


def of_status(scope: str, status: str, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    return look.newest_anchors(scope, status, PAGE, last.newest if last else 0)


def standing_of(row: AnchorRow, *, claimed: bool, contested: bool, at: int) -> Standing:
    """In what list a handoff belongs: the first of these that is true."""
    if row.status == "finished":
        return "finished"
    if claimed:
        return "claimed"
    if contested:
        return "contested"
    return "expired" if row.expires_at <= at else "open"


# -- what a call is about ----------------------------------------------------------------------------


class Subject(NamedTuple):
    """What was asked for: an explicit handoff, or what is composed from a run (then `found` is None)."""

    found: FoundHandoff | None
    composed: Composed | None
    explicit: FoundHandoff | None  # also when the run has gone on since

    @property
    def instead(self) -> Composed | None:
        """What is composed from a run, where that takes the place of what was stored."""
        return self.composed if self.found is None else None

    @property
    def handoff(self) -> Handoff:
        about = self.found or self.composed
        assert about is not None
        return about.handoff


def subject_of(executor: Executor, asked: HandoffQuery) -> Subject:
    """The explicit handoff, unless the task's unfinished run has gone on since: then what is composed from that."""
    asked = named(executor.caller, asked)
    found, task, done = executor.home.store.read(lambda look: _explicit(look, asked))
    composed = _composed(executor, asked, task, found, done) if task is not None else None
    if found is None and composed is None:
        raise _over(asked, done) if done is not None else not_found(executor.home, asked)
    if composed is None or found is None:
        return Subject(found, composed, found)
    explicit_is_newer = found.anchor.status == "open" and found.handoff.stored_us >= composed.handoff.stored_us
    is_base = explicit_is_newer or found.broken is not None  # a broken record lends nothing
    if not is_base and found.anchor.status == "open":
        composed = replace(composed, beside=found)
    return Subject(found if is_base else None, composed, found)


def has_gone_on(executor: Executor, asked: HandoffQuery) -> bool:
    """Whether what is composed from the task's run takes the place of what was stored: as `subject_of`, but cheaper.

    Composed it is only where the run's row and its last entries do not tell.
    """
    asked = named(executor.caller, asked)
    found, task, done = executor.home.store.read(lambda look: _explicit(look, asked))
    if task is None or (found is not None and found.broken is not None):
        return False
    after = done.at if done else 0
    runs = executor.home.store.read(lambda look: unfinished.unfinished_of(look, asked.scope, task, after))
    if not runs or found is None:
        return bool(runs)
    run = runs[-1]
    if found.anchor.status != "open" or found.handoff.stored_us < run.updated_at:
        return True
    if executor.home.store.read(lambda look: unfinished.is_surely_before(look, run, found.handoff.stored_us)):
        return False
    return subject_of(executor, asked).instead is not None


def _explicit(look: Reading, asked: HandoffQuery) -> tuple[FoundHandoff | None, str | None, Completion | None]:
    """What was stored, the task it is of if that has a run which is not finished, and how its work was completed."""
    place = named_place(look, asked)
    if place is not None and place.anchor.scope != asked.scope:
        raise HandoffNotFound(f"{asked.words} in scope {asked.scope!r}")
    found = anchors.find(look, *place) if place else None
    anchor = found.anchor.anchor if found else asked.anchor
    task = task_of(anchor) if anchor is not None else None
    if task is None or asked.revision is not None or asked.handoff_id is not None:
        return found, None, None
    done = _completion(look, asked.scope, task, found)
    return found, task if look.unfinished_of_task(asked.scope, task) else None, done


def _completion(look: Reading, scope: str, task: str, found: FoundHandoff | None) -> Completion | None:
    """How the work of a task was completed, by settling its handoff or without one; None when something is open."""
    row = look.task_of(scope, task)
    if (found is not None and found.anchor.status == "open") or (row is not None and row.state != "completed"):
        return None
    return _settled(found) if found is not None else completion(look, scope, task)


def _settled(found: FoundHandoff) -> Completion:
    done = next((one for one in reversed(found.since) if one.name == "settled"), None)
    return Completion(str(done.facts.get("by", "")), done.at) if done else Completion("", found.handoff.stored_us)


def _over(asked: HandoffQuery, done: Completion) -> Finished:
    """The error for a task that was completed without a handoff."""
    then = "open it again: outlast.tasks.open(TASK, reopen=True) (`outlast task open TASK --reopen`)"
    assert asked.anchor is not None
    return Finished(asked.anchor, done.by, f"{moment(done.at):%Y-%m-%d %H:%M} UTC", then)


def claimed_subject(executor: Executor, asked: HandoffQuery, claim_id: str | None, actor: str) -> Subject:
    """What a claim is about: as recovering chooses, but the explicit handoff while the claim is one on that."""
    subject = subject_of(executor, asked)
    explicit = subject.explicit
    if subject.found is not None or explicit is None or explicit.anchor.status == "finished":
        return subject
    if claim_id is not None:
        return subject._replace(found=explicit) if explicit.lease.holder == claim_id else subject
    asks = asker(executor.caller, actor)
    holder = executor.home.store.read(lambda look: holder_of(executor.caller, look, explicit, asks))
    return subject._replace(found=explicit) if holder is not None and holder.mine else subject


def _composed(
    executor: Executor, asked: HandoffQuery, task: str, found: FoundHandoff | None, done: Completion | None
) -> Composed | None:
    """What the unfinished run of the task gives; None when it has none that could go on here."""
    from outlast.handoffs.compose import compose  # most are of no unfinished run: its flow is not loaded for them

    return compose(executor, asked.scope, task, found.handoff if found else None, done.at if done else 0)


def finished(found: FoundHandoff) -> Finished:
    """The error for an anchor whose work was completed."""
    done = _settled(found)
    return Finished(found.anchor.anchor, done.by or "somebody", f"{moment(done.at):%Y-%m-%d %H:%M} UTC")
