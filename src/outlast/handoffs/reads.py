"""Who has read which revision: one that was stored without its author having read the one before is a rival of it.

That somebody has read is remembered beside the anchor's journal, not in it: reading does not part two histories. It is
lost with the home, and then a rival is only named once more.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.errors import OutlastError
from outlast.handoffs import anchor as anchors
from outlast.handoffs.anchor import FoundHandoff
from outlast.handoffs.anchor_journal import Noted
from outlast.handoffs.handoff import Handoff, Unread
from outlast.store.contract import MARK, Reading, Writing
from outlast.values.codec import encode
from outlast.values.digest import identity

if TYPE_CHECKING:
    from outlast.handoffs.store import Storing
    from outlast.home.caller import Caller
    from outlast.home.home import Home

_KIND = "handoff_read"


def worker_of(caller: Caller) -> str:
    """The process that whoever acts sits in, in short: of a command its terminal. "" where that is not known."""
    process = caller.claimer or caller.home.process
    if not process.pid:
        return ""
    return identity(encode([process.boot_id, process.pid_namespace, process.pid, process.started]))[:16]


def is_author(handoff: Handoff, actor: str, worker: str) -> bool:
    """Whether it was stored by this actor, and for all that is known in this process."""
    return handoff.actor == actor and (not handoff.worker or not worker or handoff.worker == worker)


# -- having read -------------------------------------------------------------------------------------


def note_read(caller: Caller, handoff: Handoff, actor: str) -> None:
    """Who recovers somebody else's revision has read it. A home that cannot be written to forgets it."""
    worker = worker_of(caller)
    if handoff.revision and not is_author(handoff, actor, worker):
        _note(caller.home, _read_by(handoff.id, actor, worker))


def note_looked(caller: Caller, handoff: Handoff, actor: str) -> None:
    """Who is shown a revision has read it, and has looked at what is a rival of it, or it of another."""
    note_read(caller, handoff, actor)
    newest = caller.home.store.read(lambda look: _newest_of(look, handoff))
    if newest is not None and newest.unread is not None and handoff.id in (newest.id, newest.unread.id):
        _note(caller.home, _looked_at(newest.id))


def _newest_of(look: Reading, handoff: Handoff) -> Handoff | None:
    """The newest revision under the same anchor, if this one is that or may have a rival in it."""
    row = look.anchor_of(handoff.scope, handoff.anchor)
    if row is None or row.revision == handoff.revision:
        return handoff
    revision = look.handoff_at(row.key, row.revision)
    with suppress(OutlastError):  # what cannot be read says nothing of others
        return anchors.find(look, row, revision).handoff if revision else None
    return None


def accept(tx: Writing, handoff: Handoff, at: int) -> None:
    """Somebody took the rival upon himself: that is to have looked."""
    _add(tx, _looked_at(handoff.id), at)


def was_looked_at(look: Reading, handoff: Handoff) -> bool:
    """Whether somebody has looked at what this revision is a rival of."""
    return handoff.unread is None or look.operation(_looked_at(handoff.id)) is not None


def _note(home: Home, mark: str) -> None:
    if home.store.read(lambda look: look.operation(mark)) is None:
        with suppress(OutlastError):
            home.store.write(lambda tx: _add(tx, mark, home.clock.now()))


def _add(tx: Writing, mark: str, at: int) -> None:
    if tx.operation(mark) is None:
        tx.add_operation(mark, _KIND, "", "", at)


def _read_by(handoff_id: str, actor: str, worker: str) -> str:
    return f"{MARK}{_KIND}:{handoff_id}:{identity(encode([actor, worker]))[:16]}"


def _looked_at(handoff_id: str) -> str:
    return f"{MARK}{_KIND}:{handoff_id}:looked"


# -- a rival -----------------------------------------------------------------------------------------


def unread_by(caller: Caller, tx: Writing, before: FoundHandoff | None, new: Handoff, how: Storing) -> Unread | None:
    """The revision before, if who stores this one had not read it and they differ; or the one that it is a rival of."""
    if before is None or before.anchor.status == "finished" or new.claim or how.source:
        return None
    was = before.handoff
    knows = how.expected_revision == was.revision or new.supersedes == was.id
    if knows or was.source or _has_read(caller, tx, before, new):
        return _carried(tx, was, new)
    differs = _differing(was, new)
    return Unread(was.id, was.revision, was.actor, was.host, differs) if differs else _carried(tx, was, new)


def _carried(tx: Writing, was: Handoff, new: Handoff) -> Unread | None:
    """What the revision before is a rival of stays named until somebody looks, or says what supersedes it."""
    if was.unread is None or new.supersedes == was.unread.id or was_looked_at(tx, was):
        return None
    return was.unread


def _has_read(caller: Caller, look: Reading, before: FoundHandoff, new: Handoff) -> bool:
    """Whether its author has, under this name or under that of his process, which stores in any name."""
    if is_author(before.handoff, new.actor, new.worker):
        return True
    names = {new.actor, caller.actor}
    if any(isinstance(one.said, Noted) and one.said.by in names for one in before.since):
        return True  # he claimed, checked or settled it
    marks = {_read_by(before.handoff.id, name, worker) for name in names for worker in ("", new.worker)}
    return any(look.operation(mark) is not None for mark in marks)


def _differing(was: Handoff, new: Handoff) -> tuple[str, ...]:
    from outlast.handoffs.difference import field_diffs

    return tuple(each.field for each in field_diffs(was, new) if each.field not in ("score", "supersedes"))
