"""Handoffs that nobody writes by hand: the next revision of what a session left, and what the next one begins from.

Nothing runs here. A coding agent waits for a recover: that loads only what judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from outlast.errors import Finished, HandoffNotFound
from outlast.handoffs.handoff import MAX_FILES as MAX_FILES
from outlast.handoffs.verdict import command
from outlast.ledger.verdict import Reason, judge
from outlast.python.work_tree import BUSY_SECONDS, opened

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Handoff, Recovered
    from outlast.runs.live import Executor

COMPOSED = "auto_composed"  # the tag, and the reason, of a handoff that the session did not leave itself


class Withheld(Exception):
    """Nothing is to be stored, and why."""


class NewestRevision(NamedTuple):
    """The newest revision under an anchor, and how it stands."""

    handoff: Handoff
    is_broken: bool
    is_finished: bool
    settled_at: int  # microseconds: when something last happened to it
    holder: str  # who else holds the claim; "" when nobody does


class AutomaticHandoffs:
    """A home, opened for what hooks do."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def now(self) -> int:
        """Microseconds, by the home's clock."""
        return self._executor.home.clock.now()

    def newest(self, anchor: str) -> NewestRevision | None:
        """The newest revision under an anchor; None when nothing was stored there."""
        return self._executor.home.store.read(lambda look: self._newest(look, anchor))

    def _newest(self, look: Any, anchor: str) -> NewestRevision | None:
        row = look.anchor_of(self._executor.caller.scope, anchor)
        revision = look.handoff_at(row.key, row.revision) if row else None
        if not row or not revision:
            return None
        from outlast.handoffs.anchor import find
        from outlast.handoffs.claim import holder_of

        found = find(look, row, revision)
        settled_at = max((one.at for one in found.since), default=found.handoff.stored_us)
        is_broken, is_finished = found.broken is not None, row.status == "finished"
        holder = holder_of(self._executor.caller, look, found)
        who = holder.who if holder is not None and not holder.mine else ""
        return NewestRevision(found.handoff, is_broken, is_finished, settled_at, who)

    def store(self, fields: Mapping[str, Any], actor: str, expected_revision: int) -> Handoff:
        """The next revision, unless somebody holds the claim by then.

        Raises Withheld, RevisionConflict, HandoffInvalid.
        """
        from outlast.handoffs.store import Storing, store

        anchor = str(fields["anchor"])

        def refuse_claimed(look: Any) -> None:
            newest = self._newest(look, anchor)
            if newest is not None and newest.holder:
                raise Withheld(f"{newest.holder} holds the claim on {anchor}")

        how = Storing(
            scope=self._executor.caller.scope,
            actor=actor,
            redact=True,
            expected_revision=expected_revision,
            source="hook",
            guard=refuse_claimed,
        )
        return store(self._executor, dict(fields), how)

    def has_changed(self, handoff: Handoff, root: str) -> bool:
        """Whether files that a handoff is bound to, or whether there are any uncommitted ones, changed since."""
        from outlast.handoffs.observer import observe

        assert handoff.binding is not None
        now = observe(handoff, Path(root)).binding
        if now.dirty != handoff.binding.dirty:
            return True
        return any(not was.same(now.files[path]) for path, was in handoff.binding.files.items() if path in now.files)

    def recover(self, anchor: str, actor: str, top: str, *, or_branch: bool) -> Recovered | None:
        """The handoff under the anchor with its verdict here and now; else the newest that is bound to this branch.

        None when there is none, or its work was completed. Nothing is claimed.
        """
        from outlast.handoffs.claim import Recovering
        from outlast.handoffs.find import HandoffQuery
        from outlast.handoffs.recover import recover

        caller = self._executor.caller
        caller.stands = top
        wanted = [HandoffQuery(caller.scope, anchor=anchor), *([HandoffQuery(caller.scope)] if or_branch else [])]
        for asked in wanted:
            try:
                return _judged(recover(self._executor, asked, Recovering(actor=actor)))
            except HandoffNotFound:
                continue
            except Finished:
                return None
        return None


def _judged(recovered: Recovered) -> Recovered:
    """The same, weakened when the session did not leave the handoff itself."""
    handoff = recovered.handoff
    if handoff.source != "hook" or COMPOSED not in handoff.tags:
        return recovered
    advice = f"compare it with the files: {command(handoff, 'diff')}; or run checks: {command(handoff, 'verify')}"
    reason = Reason(COMPOSED, handoff.anchor, "left by the session", "composed from what it left", advice)
    known = {each.code for each in recovered.reasons}
    return recovered if COMPOSED in known else replace(recovered, verdict=judge([*recovered.reasons, reason]))


@contextmanager
def automatic_handoffs(home: str, actor: str, *, busy_seconds: float = BUSY_SECONDS) -> Iterator[AutomaticHandoffs]:
    """The home, opened for one short use in the name of a coding agent. Raises OutlastError."""
    with opened(home, actor, busy_seconds=busy_seconds) as executor:
        yield AutomaticHandoffs(executor)
