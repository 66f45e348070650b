"""What Temporal keeps of a run: its ids, and when to look at it again.

The workflow has no business logic and no payloads. It lets an activity go on with the run until that ends or waits,
then waits for a nudge or a time. Histories of it are kept as test data: a change of the order of commands here needs
`workflow.patched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ApplicationError

WORKFLOW, ADVANCE, NUDGE = "OutlastRun", "outlast_advance", "nudge"
ROUNDS = 250  # of at most 14 events each, before it continues as new: Temporal warns at 10,240
LONGEST = timedelta(days=3650)  # an attempt may take as long as it says that it lives
FIRST_RETRY, LONGEST_RETRY = timedelta(milliseconds=200), timedelta(seconds=10)
ENDED, WAITS = "ended", "waits"
STATUS = SearchAttributeKey.for_keyword("OutlastStatus")
GOES_ON = ("failed", "moved")  # ends after which a nudge that came meanwhile counts


@dataclass
class RunRef:
    """A run, by its ids; and how the engine is set."""

    tenant: str
    run_id: str
    heartbeat_seconds: float = 5.0
    rounds: int = ROUNDS
    shows_status: bool = False  # by the search attribute, which the namespace has


@dataclass
class Standing:
    """How a run stands after an advance."""

    kind: str  # ENDED, WAITS
    status: str = ""
    seconds: float | None = None  # that it waits at most


@workflow.defn(name=WORKFLOW, sandboxed=False)
class RunWorkflow:
    """One run."""

    def __init__(self) -> None:
        self._is_nudged = False
        self._shown = ""

    @workflow.signal(name=NUDGE)
    def nudge(self) -> None:
        """Something happened to the run: look at it."""
        self._is_nudged = True

    @workflow.run
    async def run(self, of: RunRef) -> str:
        """Its status, once it has ended. One that failed fails the workflow too: it may be started again."""
        rounds = 0
        while True:
            self._is_nudged = False  # before the look: what comes from now on is looked at afterwards
            found = await self._advance(of)
            workflow.set_current_details(_details(found))
            self._show(of, found.status or "waiting")
            if found.kind == ENDED and not (self._is_nudged and found.status in GOES_ON):
                return _ended(of, found.status)
            if found.kind == WAITS:
                await self._wait(found.seconds)
            rounds += 1
            if rounds >= of.rounds:  # its successor begins with a look: a nudge of before is heard by that
                workflow.continue_as_new(of)

    async def _advance(self, of: RunRef) -> Standing:
        found: Standing = await workflow.execute_activity(
            ADVANCE,
            of,
            result_type=Standing,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=timedelta(seconds=of.heartbeat_seconds),
            retry_policy=RetryPolicy(initial_interval=FIRST_RETRY, maximum_interval=LONGEST_RETRY),
        )
        return found

    def _show(self, of: RunRef, status: str) -> None:
        """Its status, to search by, where it has changed and can be searched by."""
        if of.shows_status and status != self._shown:
            workflow.upsert_search_attributes([STATUS.value_set(status)])
            self._shown = status

    async def _wait(self, seconds: float | None) -> None:
        try:
            limit = None if seconds is None else timedelta(seconds=seconds)
            await workflow.wait_condition(lambda: self._is_nudged, timeout=limit)
        except TimeoutError:
            return


def _ended(of: RunRef, status: str) -> str:
    if status in ("failed", "unknown"):
        raise ApplicationError(f"run {of.run_id} is {status}", type=status, non_retryable=True)
    return status


def _details(found: Standing) -> str:
    if found.kind == ENDED:
        return found.status
    return "waits" if found.seconds is None else f"waits for at most {found.seconds:g} s"
