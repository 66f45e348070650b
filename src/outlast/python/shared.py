"""What `Outlast` and `AsyncOutlast` share: people's choices, looking, and care of the home.

None of it runs user code, and all of it takes only a moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from msgspec import Struct
from msgspec.structs import replace

from outlast import errors
from outlast.clock import Clock
from outlast.errors import Invalid
from outlast.flows.spec import FlowSpec, Signature, spec_of
from outlast.ids import Ids, random_id
from outlast.python import rooms
from outlast.resources import NOTHING
from outlast.runs.live import Executor, Live
from outlast.runs.run import ENGINES, UNFINISHED, Outcome, RunRecord, RunStatus
from outlast.runs.run import Options as Options
from outlast.runs.run import check_options as check_options
from outlast.runs.stops import PERSON, SHUTDOWN

if TYPE_CHECKING:
    from outlast.care.acts import Acts as Acts
    from outlast.care.audit.flow import Audit
    from outlast.care.backup import BackedUp
    from outlast.care.gc.gc import Swept
    from outlast.care.travel.export_run import Exported
    from outlast.care.travel.import_run import Imported
    from outlast.care.verify import Verification
    from outlast.commands.left_diff import LeftAttempt
    from outlast.commands.logs import CommandLog
    from outlast.home.caller import Caller, Observer
    from outlast.home.home import Home
    from outlast.home.place import FoundHome
    from outlast.home.settings import Settings as Settings
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.handoffs import Inbox
    from outlast.python.project import Flows
    from outlast.python.run import AsyncRun, Run
    from outlast.runs.begin import DryRun
    from outlast.runs.claim import RunClaim
    from outlast.runs.effect import DoneEffect as DoneEffect
    from outlast.runs.events import HomeEvents, TimelineItem
    from outlast.runs.execution import Execution
    from outlast.runs.find import Due, RunQuery, Time
    from outlast.runs.find import RunsSoFar as RunsSoFar
    from outlast.runs.fork import ForkView as ForkView
    from outlast.runs.look import Displaced
    from outlast.runs.os_signals import OsSignals
    from outlast.runs.outcomes import Awaited
    from outlast.runs.outputs.files import Output
    from outlast.runs.outputs.restore import RestoredOutputs
    from outlast.runs.plan import Plan as Plan
    from outlast.runs.queues.limit import Limit as Limit
    from outlast.runs.queues.queue import Queue as Queue
    from outlast.runs.queues.workers import WorkerRecord as WorkerRecord
    from outlast.runs.receipt import Attempts, Event, Receipt
    from outlast.runs.run import CallOptions
    from outlast.runs.waits.ask import Signal
    from outlast.runs.waits.interrupt import Interrupt
    from outlast.store.contract import NewRun, RunRow

T = TypeVar("T")
JsonMap = Mapping[str, Any]


def url_of(home: str | Path | FoundHome | None) -> str:
    """The URL that a home is behind, given or by OUTLAST_HOME; "" when it is a folder."""
    named = str(home) if home else os.environ.get("OUTLAST_HOME", "")
    return named if named.startswith(("http://", "https://")) else ""


class FlowCall(Struct, frozen=True):
    """A flow with what it is given, and how it is to be run."""

    flow: Flow[..., Any] | FlowFile
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: Options


@overload
def make_run(execution: Execution, is_async: Literal[False]) -> Run: ...
@overload
def make_run(execution: Execution, is_async: Literal[True]) -> AsyncRun: ...
@overload
def make_run(execution: Execution, is_async: bool) -> Run | AsyncRun: ...
def make_run(execution: Execution, is_async: bool) -> Run | AsyncRun:
    """What a flow's body is given of its run."""
    from outlast.python.run import AsyncRun, Run

    return AsyncRun(execution) if is_async else Run(execution)


class Shared:
    """What both surfaces share: everything that takes no user code and only a moment."""

    def __init__(
        self,
        home: str | Path | FoundHome | None = None,
        *,
        key: str | None = None,
        tenant: str = "default",
        scope: str = "default",
        actor: str | None = None,
        clock: Clock | None = None,
        ids: Ids = random_id,
        settings: Settings | None = None,
        store_options: Mapping[str, Any] | None = None,
        blobs: str | None = None,
    ) -> None:
        """`blobs`: the bucket that a new home keeps its content in, `s3://BUCKET/PREFIX`; it remembers it."""
        if url_of(home):
            raise errors.EmbeddedOnly(
                f"{type(self).__name__}, a class of your own,", "use Outlast or AsyncOutlast itself"
            )
        if key is not None:
            raise errors.NameInvalid("key", f"{key[:6]}…", "only a server asks for one: Outlast(URL, key=…)")
        where = rooms.place.check_name("scope", scope)
        who = rooms.caller.usual_actor() if actor is None else rooms.place.check_name("actor", actor)
        opened = rooms.home.open_home(
            home, tenant=tenant, clock=clock, ids=ids, settings=settings, store_options=store_options, blobs=blobs
        )
        live = Live(opened, facade=make_run, load_commands=rooms.load_commands, mirrors=rooms.mirrors.Mirrors(opened))
        self._executor = Executor(rooms.caller.Caller(opened, who, where), live)

    _bound: Mapping[str, Any] = {}  # by with_options
    _flows: Flows | None = None  # that others may start here by name

    @property
    def _home(self) -> Home:
        return self._executor.home

    @property
    def _caller(self) -> Caller:
        return self._executor.caller

    _url = ""  # of the server that a client asks

    def _show_claims(self, claims: Iterable[str]) -> None:
        self._caller.tokens.update(claims)

    def _row(self, run_id: str) -> RunRow:
        return rooms.home.run_row(self._home, run_id)

    @property
    def home(self) -> Path:
        """The folder everything is kept in."""
        return self._home.path

    def _acting(
        self,
        *,
        actor: str | None = None,
        scope: str | None = None,
        observer: Observer | None = None,
        key_id: str = "",
        scopes: Collection[str] = (),
    ) -> Self:
        """The same home for somebody else: in another name, with claims of its own. What is open is shared.

        `key_id`: of the API key that says who he is; `scopes`: those that it is bound to.
        """
        view = object.__new__(type(self))
        caller = self._caller.acting(actor=actor, scope=scope, observer=observer, key_id=key_id, scopes=scopes)
        view._executor = self._executor.acting_as(caller)
        return view

    # -- the person's choices --------------------------------------------------------------------

    def retry(
        self, run_id: str, step: str, *, why: str = "", effects: bool = True, operation_id: str | None = None
    ) -> RunRecord:
        """Let the next resume try this step (or effect in doubt) again. Without `effects` an effect is Forbidden."""
        return self._ask(run_id, "retry", step, {"why": why}, operation_id, effects=effects)

    def skip(
        self, run_id: str, step: str, *, result: Any = None, why: str, operation_id: str | None = None
    ) -> RunRecord:
        """Let the next resume take `result` as the step's outcome without running it."""
        rooms.place.check_text("why", why)
        if not why.strip():
            raise errors.NameInvalid("why", why, "say why the step is skipped; it is on the record")
        return self._ask(run_id, "skip", step, {"result": result, "why": why}, operation_id)

    def rewind(self, run_id: str, step: str, *, why: str = "", operation_id: str | None = None) -> RunRecord:
        """Let the next resume do this step and all after it again. Effects are kept: equal inputs reuse them."""
        return self._ask(run_id, "rewind", step, {"why": why}, operation_id)

    def fork(
        self,
        run_id: str,
        from_step: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        reuse_effects: bool = False,
        yes: bool = False,
        effects: Sequence[str] = (),
        why: str = "",
        operation_id: str | None = None,
    ) -> RunRecord:
        """A new run that takes over what this one did before the step, and does the rest anew when it is resumed.

        This run, which may have finished, stays as it is. `inputs` and `state` change what the new one has from there
        on. Effects that it would repeat are refused unless `yes`, or `effects` names them; `reuse_effects` keeps their
        results. Raises StepNotFound, StepAmbiguous, RepeatsEffects, InputsInvalid, RunSealed, IntegrityBroken.
        """
        named = Options(**check_options({"yes": yes, "effects": effects}))
        changes = rooms.fork.Changes(inputs or {}, state or {}, reuse_effects, named, why)
        return rooms.fork.fork(self._executor, self._row(run_id).id, from_step, changes, operation_id)

    def abort(self, run_id: str, *, why: str, operation_id: str | None = None) -> RunRecord:
        """Give a run up, now, whoever owns it. Its children with it."""
        rooms.place.check_text("why", why)
        return rooms.decisions.abort(self._caller, self._row(run_id).id, why, operation_id)

    def pause(self, run_id: str, *, operation_id: str | None = None) -> RunRecord:
        """Ask a running run to stop at its next step; it ends `interrupted`."""
        return rooms.decisions.pause(self._caller, self._row(run_id).id, operation_id)

    def answer(
        self,
        interrupt_id: str,
        answer: Any,
        *,
        shown: str | None = None,
        resume: bool = False,
        operation_id: str | None = None,
    ) -> Interrupt:
        """Answer a wait. It is durable before it takes effect, checked, and used once: one of many wins.

        `shown`, the interrupt's `digest`, binds the answer to what was shown. With `resume` its run goes on where the
        home is, if it can: here before this returns, at a server in its background. Raises AlreadyAnswered,
        AnswerInvalid.
        """
        answered = rooms.decisions.answer(self._caller, interrupt_id, answer, operation_id, shown)
        if resume:
            self._go_on(answered.run_id)
        return answered

    def _go_on(self, run_id: str) -> None:
        raise NotImplementedError

    def cancel(self, interrupt_id: str, why: str, *, operation_id: str | None = None) -> Interrupt:
        """End a wait of a flow without an answer: its `pause_for` raises WaitCancelled, with the reason."""
        return rooms.decisions.cancel(self._caller, interrupt_id, why, operation_id)

    def signal(
        self,
        name: str,
        body: Any = None,
        *,
        task: str | None = None,
        run_id: str | None = None,
        operation_id: str | None = None,
    ) -> Signal:
        """Send a named message to a task, or to one run. It is kept until a `wait_for` takes it, once."""
        return rooms.ask.send(self._caller, name, body, task=task, run_id=run_id, operation_id=operation_id)

    def _ask(
        self, run_id: str, kind: str, step: str, body: dict[str, Any], operation_id: str | None, *, effects: bool = True
    ) -> RunRecord:
        rooms.place.check_text("step", step)
        return rooms.decisions.ask(self._caller, self._row(run_id).id, kind, step, body, operation_id, effects=effects)

    # -- looking ---------------------------------------------------------------------------------

    def get(self, run_id: str, *, state: bool = True) -> RunRecord:
        """A run by its id or a unique prefix of it, with its `state`, also once it has finished.

        Without `state` the journal is not read: that takes a moment however long the run is. Raises RunNotFound,
        AmbiguousPrefix.
        """
        found = self._row(run_id)
        look = rooms.look.record_with_state if state else rooms.look.record_now
        return look(self._caller, found)

    def _outcome(self, run_id: str) -> Outcome[Any]:
        """How a run stands, without running anything."""
        return rooms.look.outcome_now(self._caller, self._row(run_id))

    def runs(
        self,
        *,
        status: RunStatus | None = None,
        flow: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        session: str | None = None,
        trace: str | None = None,
        actor: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        scope: str | None = None,
    ) -> list[RunRecord]:
        """The newest runs first, of those that are all that is asked for; of every scope, unless one is named.

        `flow` is its name, or the whole source that a run says. `since` and `until` are when the run began: a datetime,
        ISO text, or how long ago (`"90m"`, `"7d"`). `text` stands somewhere in its id, flow, task, phase, tags, inputs,
        meta or error, in whatever case. `cursor`, the id of the last one, gives the next page.
        Raises ValueRefused for a status, a time or a number that is none.
        """
        named = {"flow": flow, "task": task, "tag": tag, "session": session, "trace": trace, "actor": actor}
        named["scope"] = scope
        asked = self._run_query(status=status, since=since, until=until, text=text, **named)
        return rooms.find.find_runs(self._caller, asked, limit, cursor)

    def _run_query(self, **asked: Any) -> RunQuery:
        unasked = dict.fromkeys(("status", "since", "until", "text"))
        return rooms.find.run_query(self._home.clock.now(), **unasked | asked)

    def _some_runs(self, limit: int, most: int, cursor: str | None, **asked: Any) -> RunsSoFar:
        """The same among the next so many runs, for a page that is to be there at once."""
        return rooms.find.find_some(self._caller, self._run_query(**asked), limit, most, cursor)

    def resumable(self) -> list[RunRecord]:
        """The runs that nobody has finished and nobody holds here, the one touched last first.

        A child goes on with its parent, and is not among them; nor is a run that was sealed.
        """
        unfinished = [status for status in UNFINISHED if status != "running"]
        found = [run for status in unfinished for run in self.runs(status=status, limit=10_000)]
        own = [run for run in found if not (run.parent or run.seal)]
        return sorted(own, key=lambda run: run.updated_at, reverse=True)

    def flow_folder(self, run_id: str) -> Path:
        """The folder that the paths of a run's flow file start from; of Python code the project's."""
        return rooms.named_flows.folder_of_flow(self.get(run_id).source, self._project() or Path.cwd())

    def _project(self) -> Path | None:
        return self._executor.home.project

    def receipts(self, run_id: str) -> list[Receipt]:
        """One receipt per attempt, in the order in which they were written."""
        return rooms.look.run_receipts(self._home, run_id)

    def _attempts(self, run_id: str) -> Attempts:
        """The same one by one: each is made of what the store has when it is asked for."""
        return rooms.look.run_attempts(self._home, run_id)

    def _whole(self, run_id: str) -> tuple[RunRecord, Attempts]:
        """`get` and these, of one reading of its journal. Raises IntegrityBroken where they cannot be read."""
        return rooms.look.record_with_attempts(self._caller, self._row(run_id))

    def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """The run's journal from `after` on. The sequence never repeats or goes back."""
        row, number = self._row(run_id), rooms.session.number
        return rooms.events.read_run(self._home, row, number("after", after), number("limit", limit))

    def all_events(
        self,
        *,
        after: int | None = None,
        limit: int = 1000,
        scope: str | None = None,
        flow: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        name: str | None = None,
        inbox: bool = False,
    ) -> HomeEvents:
        """The events of all runs after a number, in the order in which they were written: those that are all of that.

        Of every scope, unless one is named. `name` may have `*` (`run.*`); `inbox`: what waits, was answered, or has
        failed. The answer's `upto` is the number to go on after: nothing comes in below it any more. Without `after`
        there is only that number: what happens from now on comes after it. Raises ValueRefused, NameInvalid.
        """
        asked = rooms.events.event_query(inbox, scope=scope, flow=flow, task=task, tag=tag, name=name)
        return rooms.events.read_home(self._home, asked, after, limit)

    def acts(
        self,
        *,
        by: str | None = None,
        kind: str | None = None,
        since: Time | None = None,
        limit: int = 50,
        cursor: str = "",
        scope: str | None = None,
    ) -> Acts:
        """Who did what, the newest first: to runs, handoffs, schedules, queues, limits, keys and notification targets.

        Of those that are all that is asked for, and of every scope unless one is named. `kind` is one of those words in
        the singular (`target`); `since` as of `runs`. A page is found among a few thousand entries, so it may have
        fewer acts than `limit`, or none: while its `next` is not None, that is the `cursor` of those before. Raises
        ValueRefused, NameInvalid.
        """
        return self._acts(limit, cursor, by=by, kind=kind, since=since, scope=scope)

    def _acts(self, limit: int, cursor: str, *, is_admin: bool = True, **asked: Any) -> Acts:
        """The same; who is no admin is told nothing of keys and targets."""
        wanted = rooms.acts.act_query(self._home.clock.now(), **asked, is_admin=is_admin)
        return rooms.acts.read(self._home, wanted, limit, cursor)

    def timeline(self, run_id: str) -> list[TimelineItem]:
        """Every attempt, wait, decision, child, phase and stop of a run in order, with when it began and ended."""
        return rooms.events.timeline(self._caller, run_id)

    def outputs(self, run_id: str) -> list[Output]:
        """The files that finished steps left (`writes`), and what is there now. Of several writers the last counts."""
        return rooms.files.outputs(self._caller, run_id)

    def restore_outputs(self, run_id: str, *, step: str | None = None, paths: Iterable[str] = ()) -> RestoredOutputs:
        """Put back from what was kept: files of finished steps that are missing, or `paths`, also if they were changed.

        What gives way is kept (`displaced`). Raises OutputNotFound, OutputNotKept, NotRestorable, RunHeld.
        """
        return rooms.restore.restore_outputs(self._caller, run_id, step, tuple(paths))

    def displaced(self, run_id: str, *, path: str | None = None, seq: int | None = None) -> list[Displaced]:
        """What gave way when files were put back, the oldest first, each with its content: all, or of a path or entry.

        Raises DisplacedNotFound for a path or an entry of which nothing did.
        """
        return rooms.look.displaced(self._home, run_id, path, seq)

    def logs(self, run_id: str, step: str | None = None, *, attempt: int | None = None) -> list[CommandLog]:
        """What the commands of a run printed, in order; with `step` only that one. Python steps leave none."""
        return rooms.logs.logs(self._caller, run_id, step, attempt)

    def follow_logs(
        self, run_id: str, step: str | None = None, *, attempt: int | None = None
    ) -> Iterator[tuple[CommandLog, bytes]]:
        """The same piece by piece, as it is printed, until the run ends or waits; an empty piece ends an attempt."""
        return rooms.logs.follow(self._caller, run_id, step, attempt)

    def mirror(self, run_id: str, *, write: bool = True) -> Path:
        """Write receipts and handoffs of a run as files, and give their folder. Raises OSError if the disk is full."""
        row = self._row(run_id)
        if write:
            return rooms.mirror.write_mirror(self._home, row.id)
        return rooms.mirror.folder_of(self._home, row.id, row.flow)

    def interrupts(self, run_id: str | None = None) -> list[Interrupt]:
        """Every open wait, or those of one run."""
        return rooms.look.open_interrupts(self._home, run_id)

    def interrupt(self, interrupt_id: str) -> Interrupt:
        """A wait by its id or a unique prefix of it, also one that is over. Raises InterruptNotFound."""
        return rooms.look.interrupt(self._home, interrupt_id)

    def inbox(self, *, assignee: str | None = None, type: str | None = None, scope: str | None = None) -> Inbox:
        """Every open wait of every run, with whose it is: questions for people first, each kind the oldest first.

        Of every scope, unless one is named.

        Its `contested` has the handoffs that something contests; they are looked at when that is read.
        """
        found = [one for one in rooms.look.inbox(self._home, assignee, type) if scope in (None, one.scope)]
        return rooms.handoffs.inbox_of(found, rooms.handoffs.Handoffs(self._executor), assignee, type)

    def due(self, *, all: bool = False) -> list[Due]:
        """The runs that can go on by themselves: crashed, stopped by a shutdown, or waiting for what is over.

        Resume each of them. Those that were left more than a week ago are only there with `all`.
        """
        return rooms.find.due(self._caller, all=all)

    def queues(self) -> list[Queue]:
        """Every queue that a run ever waited in: how many wait, since when, and how many go on."""
        return rooms.queue.queues(self._home)

    def pause_queue(self, queue: str, *, operation_id: str | None = None) -> Queue:
        """Let no run out of a queue any more; those that go on do so. Raises QueueNotFound."""
        return rooms.queue.pause(self._caller, queue, operation_id, paused=True)

    def resume_queue(self, queue: str, *, operation_id: str | None = None) -> Queue:
        """Let runs out of a queue again. Raises QueueNotFound."""
        return rooms.queue.pause(self._caller, queue, operation_id, paused=False)

    def move_queue(self, queue: str, *, to: str, adopt: bool = False, operation_id: str | None = None) -> Queue:
        """Let another engine (`outlast`: our own workers, or `temporal`) take the runs of a queue, all at once.

        What waits, is queued or was interrupted goes on under it, and nothing twice; what executes does so to its next
        wait. `adopt`: runs that are in no queue are put into this one. Raises QueueNotFound, ValueRefused.
        """
        if to not in ENGINES:
            raise errors.ValueRefused("to", f"{to!r:.100} is no engine", f"use one of {', '.join(ENGINES)}")
        return rooms.engine.move(self._caller, queue, to, operation_id, adopt=adopt)

    def workers(self) -> list[WorkerRecord]:
        """Every worker that is at work: what it runs, since when, of which flows. Those that died are not there."""
        return rooms.workers.workers(self._home)

    def limits(self) -> list[Limit]:
        """Every limit that steps share, with those that hold it and those that wait for it."""
        return rooms.limit.limits(self._home)

    def set_limit(
        self, limit: str, *, concurrency: int | None = None, rate: str = "", operation_id: str | None = None
    ) -> Limit:
        """How many steps that name this `limit` run at once, and how many begin in a while (`30/m`), over all runs.

        What is not given is not limited. One that is there has these numbers from the next step on. Raises NameInvalid.
        """
        return rooms.limit.set_limit(self._caller, limit, concurrency, rate, operation_id)

    def remove_limit(self, limit: str, *, operation_id: str | None = None) -> Limit:
        """Forget a limit: steps that name it are refused from then on. Raises LimitNotFound."""
        return rooms.limit.remove_limit(self._caller, limit, operation_id)

    def plan(
        self, run_id: str, *, from_step: str | None = None, accept: Iterable[str] = (), partial: str | None = None
    ) -> Plan:
        """What resuming would do, with the verdict and its reasons. Nothing is written.

        `from_step`: of a resume that first goes back to that step; `accept` and `partial` as for `resume`. Raises
        RunFinished, StepNotFound, StepAmbiguous.
        """
        row, supposed = self._row(run_id), rooms.caller.supposed(accept, partial)
        return rooms.outlook.plan(self._executor, row, from_step or "", supposed)

    def _plan_with(self, run_id: str, decision: str, step: str) -> Plan:
        """What resuming would do when it was decided to `retry`, `skip` or `rewind` this step. Nothing is written."""
        return rooms.outlook.plan(self._executor, self._row(run_id), step, decision=decision)

    def _fork_view(self, run_id: str, from_step: str, *, reuse_effects: bool) -> ForkView:
        """What a fork from there would take over and do anew. Nothing is written. Raises as `fork`."""
        changes = rooms.fork.Changes({}, {}, reuse_effects, Options(), "")
        return rooms.fork.view(self._executor, self._row(run_id).id, from_step, changes)

    def _effects_done(self, run_id: str) -> list[DoneEffect]:
        """The effects that a run and its children have done, or may have."""
        row = self._row(run_id)
        return self._home.store.read(lambda look: [found for _, found in rooms.effect.effects_of_run(look, row)])

    def _plan_of_rest(self, run_id: str) -> Plan:
        """The same without the calls whose outcome is only given again."""
        return rooms.outlook.plan(self._executor, self._row(run_id), reused=False)

    def _left(self, run_id: str) -> list[LeftAttempt]:
        """What unfinished attempts of a run left in their files, with differences; none of one that has finished."""
        from outlast.commands.left_diff import left_by_attempts

        return left_by_attempts(self._home, self._row(run_id))

    def _look_once(self) -> None:
        """For a program of one short look: what was read of a run is not read again."""
        self._home.store.remember()

    def check_writable(self) -> None:
        """Nothing, if the ledger can be read and written now. Raises Unavailable."""
        self._home.store.write(lambda tx: tx.beat_of(self._home.process.id))

    def facts(self) -> dict[str, Any]:
        """What this home stands on: versions, paths, settings, sizes, runs by status."""
        return rooms.look.home_facts(self._home)

    def export(self, run_id: str, path: str | Path, *, move: bool = False, force: bool = False) -> Exported:
        """A run and its children as one file: a copy to look at, or with `move` the run itself, which leaves here."""
        return rooms.export_run.export_run(self._caller, run_id, Path(path), move=move, force=force)

    def import_(self, path: str | Path, *, flow: str | None = None) -> Imported:
        """Bring in a file that `export` wrote; or a folder of receipts that others wrote, as testimony."""
        return rooms.import_run.import_any(self._caller, Path(path), flow)

    def backup(
        self, path: str | Path, *, mirror: bool = False, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> BackedUp:
        """The whole home as one new file, taken while it is at work: all tenants, keys, settings; the mirror if asked.

        It is there whole or not at all, and never replaces a file. `outlast.restore` makes a home of it.
        """
        home = self._home
        if home.database:
            raise Invalid(detail=rooms.place.IN_DATABASE)
        return rooms.backup.make_backup(
            home.path, Path(path), mirror=mirror, progress=progress, clock=home.clock, ids=home.ids
        )

    def audit(self, flow_or_run: Flow[..., Any] | FlowFile | str) -> Audit:
        """The six acceptance questions, answered from facts: of a flow (itself, or its name) or of a run (by its id).

        Nothing of it is run. Raises FlowNotFound, RunNotFound.
        """
        return rooms.audit.audit(self._executor, flow_or_run)

    def verify(self, run_id: str | None = None) -> Verification:
        """Check every record of a run, or of the whole store."""
        return rooms.verify.verify(self._caller, self._row(run_id).id if run_id else None)

    def gc(
        self,
        *,
        older_than: float | None = None,
        keep: int | None = None,
        max_bytes: int | None = None,
        scope: str | None = None,
        artifacts: bool = False,
        dry_run: bool = True,
        vacuum: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Swept:
        """Remove finished runs, and what nobody needs any more; a dry run only says what would go.

        Seconds since a run ended, how many of the newest to keep of each flow, a size to come down to: several narrow
        each other, and without any of them no run goes. With `artifacts` also old versions of artifacts that nothing
        needs. An unfinished run, a pinned record, an open handoff and what they need are never touched.
        """
        return rooms.gc.sweep(
            self._caller,
            older_than=older_than,
            keep=keep,
            max_bytes=max_bytes,
            scope=scope,
            artifacts=artifacts,
            dry_run=dry_run,
            vacuum=vacuum,
            progress=progress,
        )

    def resource(
        self,
        key: str,
        value: Any = NOTHING,
        *,
        factory: Callable[..., Any] | None = None,
        health: Callable[[Any], Any] | None = None,
        close: Callable[[Any], Any] | None = None,
    ) -> None:
        """Provide a live object for `inject(key)`: itself, or a factory called when it is first needed.

        `health` is asked of an open one when a run takes it up and when a step is tried again: if it says no or
        raises, the object is closed and made anew. `close` is called with it when this Outlast closes. It comes
        before what `@resource(key)` registered. Raises NameInvalid, ResourceInvalid.
        """
        self._executor.live.resources.provide(key, value, factory, health, close)

    def listen(self, output: Callable[[str, bytes], None] | None, notes: Callable[[str], None] | None) -> None:
        """Be shown what commands print (the step's name, some bytes), and notes for people, as they come."""
        self._executor.live.sink = output
        self._home.tell = notes or rooms.home.nobody

    def _maps(self, run_id: str) -> dict[str, tuple[int, int]]:
        """The maps of a run that is executed here, by the path of their calls: all items, and those done before."""
        found = self._executor.live.executions.get(run_id)
        return dict(found.maps) if found is not None else {}

    def _labels(self, run_id: str) -> Callable[[str], str]:
        """What people call the calls of a run, by their ids."""
        return rooms.journal.Labels(self._home.store, self._row(run_id).key).of_id

    def act_for_terminal(self, *claims: str) -> None:
        """For a program of one short call: claims are bound to whoever sits at this terminal, and outlive the program.

        What was claimed at the same terminal before is its own; and so is every claim whose id is shown here.
        """
        self._caller.claimer, self._caller.door = rooms.claimer.terminal_leader() or rooms.claimer.nobody(), "cli"
        self._caller.tokens.update(claims)

    def signals(self) -> OsSignals:
        """For a block in the main thread of a program of its own: SIGINT and SIGTERM let the step under way finish."""
        return rooms.os_signals.OsSignals(self._executor, own_process=True)

    def stop(self, *, now: bool = False, by: Literal["shutdown", "person"] = "shutdown") -> bool:
        """Ask every run of this process to stop at its next step, or `now`: then commands under way are ended too.

        What a shutdown stops, `tick` and the server go on with; what a person stops waits for somebody to resume it.
        True when a Python body is under way: that one ends only by an exception in its own thread.
        """
        if by not in (PERSON, SHUTDOWN):
            raise errors.NameInvalid("by", str(by), "use shutdown or person")
        return self._executor.live.stop(now, by)

    def probing(self) -> dict[str, tuple[str, float]]:
        """The runs of this process that only ask a probe whether an effect happened: its step, and for how long."""
        now, live = time.monotonic(), list(self._executor.live.executions.items())
        asked = {run_id: found for run_id, execution in live if (found := execution.only_asks()) is not None}
        return {run_id: (step, now - since) for run_id, (step, since) in asked.items()}

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """The same home, whose `run`, `start` and `open` are asked for with these options besides their own.

        They are named here because each keyword of `run` that is not an option of its own is an input of the flow.

        - `again=True`: a finished named task happens once more; `effects=[STEP, …]` or `yes=True` agrees to what is
          repeated by that.
        - `tags=["nightly"]`: words by which a new run is found.
        - `operation_id="…"`: the same id again gives what it began, whatever became of it.
        - `queue="agents"`: a new run waits in this queue until a worker takes it; `priority=5`: before those with less;
          `delay="10m"`: not before that time. See `docs/queues.md`.
        - `wait=True`, or seconds: while somebody else runs it, wait for its end instead of raising RunHeld.

        Raises OptionInvalid.
        """
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._bound = {**self._bound, **check_options(options)}
        return view

    # -- shared by run, start, open --------------------------------------------------------------

    def _asked(
        self, task: str | None, fresh: bool, session: str, trace_id: str, meta: JsonMap | None, *, returns: bool = False
    ) -> Options:
        return Options(task, fresh, session, trace_id, meta, returns=returns, **self._bound)

    def _receive_when(self, when: Literal["returned", "printed", "never"]) -> None:
        """When an outcome counts as received: once `run` or `resume` returned it, or by `_receive`, or not at all."""
        self._caller.received_when = when

    def _receive(self, outcome: Outcome[Any]) -> None:
        """An outcome was printed."""
        rooms.outcomes.receive(self._home, outcome)

    def _awaited(self, held: errors.RunHeld, spec: FlowSpec | None, options: Options) -> Awaited:
        """The run that somebody else runs, if the caller would wait for it. Raises RunHeld."""
        if options.wait is False:
            raise held
        self._home.tell(f"run {held.run_id} is held by {held.holder}; waiting for it")
        return rooms.outcomes.Awaited(self._caller, held.run_id, None if options.wait is True else options.wait, spec)

    def _begin(self, call: FlowCall, *, warns: bool = True) -> tuple[FlowSpec, RunClaim | Outcome[Any]]:
        spec, new = self._new(call)
        begun = rooms.begin.begin(self._executor, spec, new, call.options)
        self._warn(begun if warns else None)
        return spec, begun

    async def _begin_async(self, call: FlowCall) -> tuple[FlowSpec, RunClaim | Outcome[Any]]:
        """The same on an event loop, which goes on meanwhile."""
        spec, new = self._new(call)
        begun = await rooms.begin.begin_async(self._executor, spec, new, call.options)
        self._warn(begun)
        return spec, begun

    def _new(self, call: FlowCall) -> tuple[FlowSpec, NewRun]:
        spec = spec_of(call.flow)
        raw = rooms.start.pack_inputs(spec, spec.bind(call.args, call.kwargs))
        return spec, rooms.begin.new_run(self._executor.caller, spec, raw, call.options)

    def _warn(self, begun: RunClaim | Outcome[Any] | None) -> None:
        for line in () if begun is None or isinstance(begun, Outcome) else begun.notes:
            self._executor.home.warn(line)

    def _dry_run(self, flow: Flow[..., Any] | FlowFile, inputs: dict[str, Any], options: Options) -> DryRun:
        """What `run` would begin with these inputs and options. Nothing is run or written. Raises what it would."""
        spec, new = self._new(FlowCall(flow, (), inputs, options))
        return rooms.begin.dry_run(self._executor, spec, new, options)

    def _serve(self, flows: Iterable[Flow[..., Any] | FlowFile]) -> None:
        """From now on runs go on with these flows, if they are of one of them."""
        self._executor.live.flows = tuple(flow.spec for flow in flows)

    def _is_of_given(self, run: RunRecord) -> bool:
        """Whether a run is one of a flow that was given. Raises FlowElsewhere."""
        return rooms.same_flow.given(self._executor, run) is not None

    def _spec_of(self, flow: Flow[..., Any] | FlowFile | str | None) -> FlowSpec | None:
        """A flow that is named for a resume; by its name alone only one that was given. Raises NoFlows."""
        if not isinstance(flow, str):
            return spec_of(flow) if flow is not None else None
        found = next((spec for spec in self._executor.live.flows if spec.name == flow), None)
        if found is None:
            names = ", ".join(spec.name for spec in self._executor.live.flows)
            raise errors.NoFlows(flow, f"the flows {names}" if names else "no flows")
        return found

    def _open(self, name: str, options: Options) -> tuple[FlowSpec, RunClaim | Outcome[Any]]:
        def script(run: Any) -> None:
            """Stands for the script's own code."""

        spec = FlowSpec(script, name, f"script:{name}", False, Signature(script, skip=1))
        named, worktree = rooms.place.check_name("task", name), rooms.same_flow.known(self._home, spec).worktree
        task = rooms.same_flow.in_worktree(named, worktree)
        options = replace(options, queue=None)  # a script goes on where it is
        new = rooms.begin.new_run(self._caller, spec, b"{}", options, task=task)
        return spec, rooms.begin.begin(self._executor, spec, new, options)
