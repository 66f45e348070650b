"""What an activity does: go on with one run on the ledger until it ends, waits, or cannot go on here.

The ledger decides. An activity may come twice, late, or while another one lives: only who claims the run executes it,
and only under its epoch anything is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.runs.claim import RunClaim
from outlast.runs.queues.engine import Busy, Standing, stand, take
from outlast.runs.run import TEMPORAL
from outlast.runs.start import go_on
from outlast.worker.place import told_of
from outlast.worker.worker import WorkNote

if TYPE_CHECKING:
    from outlast.worker.place import WorkPlace

REFUSED_SECONDS = 5.0
REASONS = {"interrupted": "asked", "failed": "asked"}  # where the run itself says none
Tell = Callable[[WorkNote], None]


class Advancer:
    """Goes on with runs of one home, for whoever asks, until it is stopped."""

    def __init__(self, place: WorkPlace, tell: Tell) -> None:
        self.place, self._tell = place, tell
        self.is_ending = False
        self.under_way: set[str] = set()

    def advance(self, run_id: str) -> Standing:
        """Go on with a run as far as it goes. How it stands then."""
        while True:
            if self.is_ending:
                return Busy("this worker stops", 0.1)
            taken = take(self.place.executor.caller, run_id, TEMPORAL, self.place.serves)
            if not isinstance(taken, RunClaim):
                return taken
            self.under_way.add(run_id)
            try:
                self._go_on(taken)
            except Exception as error:  # it was given back: whoever comes next may fare better
                self._say("refused", run_id, error=told_of(error))
                return self._stand(run_id)
            finally:
                self.under_way.discard(run_id)

    def _go_on(self, taken: RunClaim) -> None:
        reason = taken.reason or REASONS.get(taken.found, taken.found)
        self._say("took", taken.run.id, reason=reason)
        outcome = go_on(self.place.executor, taken)
        self._say("ended", taken.run.id, reason=reason, status=outcome.status)

    def _stand(self, run_id: str) -> Standing:
        found = stand(self.place.executor.caller, run_id, TEMPORAL, self.place.serves)
        return found if found is not None else Busy("it was refused", REFUSED_SECONDS)

    def _say(self, kind: str, run_id: str, **more: str) -> None:
        self._tell(WorkNote(kind, self.place.executor.home.tenant, run_id, **more))
