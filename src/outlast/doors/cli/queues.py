"""`outlast queue`, `limit`, `workers` and `schedule`: what waits to be worked on, who works, and what runs when.

`outlast work`: go on with what can go on by itself, until stopped. Nothing waits for cron then. And the options that
name an engine, for commands that work with one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import INTERRUPTED, SUCCEEDED
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import STYLES, ago, at, counted, note, say, turned_away
from outlast.doors.cli.tick import REASONS
from outlast.doors.cli.waits import mirror

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast import Outlast
    from outlast.adapters.temporal import TemporalSettings
    from outlast.python.project import Flows
    from outlast.python.queues import Schedule
    from outlast.python.shared import Limit, Queue, WorkerRecord
    from outlast.worker.worker import WorkNote


# -- queues ------------------------------------------------------------------------------------------

QUEUES: Sections = {
    "Queues": {
        "list": ("queues:queue_list", "Every queue: how many runs wait, since when, how many go on."),
        "pause": ("queues:queue_pause", "Let no run out of a queue any more."),
        "resume": ("queues:queue_resume", "Let runs out of it again."),
        "move": ("queues:queue_move", "Let another engine take its runs."),
    },
}


@click.group("queue", cls=CommandGroup, sections=QUEUES)
def queue() -> None:
    """Queues, in which runs wait until a worker takes them (`outlast work`)."""


@command("list", of="queue_list")
def queue_list(call: Invocation) -> int:
    """Every queue that a run ever waited in: how many wait, since when, and how many go on."""
    with call.open() as outlast:
        found = outlast.queues()
    columns = ("QUEUE", "ENGINE", "READY", "SINCE", "DELAYED", "RUNNING", "IDLE", "PAUSED")
    instead = "no queues; a run waits in one by `outlast run FLOW --queue NAME`"
    return call.tell_list(found, columns, _queue_row, instead)


@command("pause", of="queue_pause")
@click.argument("queue", metavar="QUEUE")
def queue_pause(call: Invocation, queue: str, **given: Any) -> int:
    """Let no run out of a queue any more. Those that go on do so."""
    with call.open() as outlast:
        found = outlast.pause_queue(queue, **given)
    return call.tell_line(found, f"queue {queue} is paused; again: {call.command('queue', 'resume', found.name)}")


@command("resume", of="queue_resume")
@click.argument("queue", metavar="QUEUE")
def queue_resume(call: Invocation, queue: str, **given: Any) -> int:
    """Let runs out of a queue again."""
    with call.open() as outlast:
        found = outlast.resume_queue(queue, **given)
    back = call.command("queue", "pause", found.name)
    return call.tell_line(found, f"runs are taken out of queue {queue}; no more: {back}")


@command("move", of="queue_move")
@click.argument("queue", metavar="QUEUE")
def queue_move(call: Invocation, queue: str, to: str, **given: Any) -> int:
    """Let another engine take the runs of a queue: Outlast's own workers, or Temporal.

    What waits, is queued or was interrupted goes on under it, and nothing twice; what executes does so to its next
    wait.
    """
    with call.open() as outlast:
        found = outlast.move_queue(queue, to=to, **given)
    work = call.command("work") if to == "outlast" else call.command("work", "--engine", to)
    return call.tell_line(found, f"runs of queue {queue} are taken by {to} from now on; workers: {work}")


def _queue_row(each: Queue) -> tuple[str, ...]:
    since = at(each.oldest_at) if each.oldest_at else ""
    paused = f"by {each.paused_by}, {at(each.paused_at)}" if each.paused_at else ""
    counts = map(str, (each.delayed, each.running, each.idle))
    return each.name, each.engine or "outlast", str(each.ready), since, *counts, paused


# -- limits ------------------------------------------------------------------------------------------

LIMITS: Sections = {
    "Limits": {
        "set": ("queues:limit_set", "How many steps that name a limit run at once, and how many begin in a while."),
        "list": ("queues:limit_list", "Every limit, with the steps that hold it and those that wait."),
        "remove": ("queues:limit_remove", "Forget one: steps that name it are refused from then on."),
    },
}


@click.group("limit", cls=CommandGroup, sections=LIMITS)
def limit() -> None:
    """Limits that steps share over all runs, such as what an API allows (`@step(limit="openai")`)."""


@command("set", of="limit_set")
@click.argument("limit", metavar="LIMIT")
def limit_set(call: Invocation, limit: str, **given: Any) -> int:
    """Say how many steps that name LIMIT run at once, and how many begin in a while.

    It holds over all runs and workers, from the next step on. What is not given is not limited.
    """
    with call.open(make=True) as outlast:
        found = outlast.set_limit(limit, **given)
        most = f"at most {counted(found.concurrency, 'step')} at once" if found.concurrency else "however many at once"
        rate = found.rate or "at any rate"
        return call.tell_line(found, f"limit {found.name}: {most}, {rate}; see: {call.command('limit', 'list')}")


@command("list", of="limit_list")
def limit_list(call: Invocation) -> int:
    """Every limit: its numbers, how many steps hold it, and how many wait for it."""
    with call.open() as outlast:
        found = outlast.limits()
    instead = "no limits; set one: outlast limit set NAME --concurrency N --rate 30/m"
    return call.tell_list(found, ("LIMIT", "AT ONCE", "RATE", "HELD", "WAITING", "SET"), _limit_row, instead)


@command("remove", of="limit_remove")
@click.argument("limit", metavar="LIMIT")
def limit_remove(call: Invocation, limit: str, **given: Any) -> int:
    """Forget a limit. Steps that name it are refused from then on; those under way go on."""
    with call.open() as outlast:
        return call.tell_line(outlast.remove_limit(limit, **given), f"limit {limit} is removed")


def _limit_row(each: Limit) -> tuple[str, ...]:
    first = f" (run {each.held[0].run_id}, {ago(each.held[0].since)})" if each.held else ""
    made = f"by {each.set_by}, {at(each.set_at)}"
    return each.name, str(each.concurrency or ""), each.rate, f"{len(each.held)}{first}", str(len(each.waiting)), made


@command("workers", of="worker_list")
def workers(call: Invocation) -> int:
    """The workers that are at work: what each runs, since when, of which flows and code."""
    with call.open() as outlast:
        found = outlast.workers()
    columns = ("WORKER", "PROCESS", "SINCE", "QUEUES", "RUNS", "FLOWS")
    return call.tell_list(found, columns, _row_of_worker, "no workers; start one: outlast work FLOWS")


def _row_of_worker(each: WorkerRecord) -> tuple[str, ...]:
    named = [f"{flow.name} ({flow.code[:8]})" if flow.code else flow.name for flow in each.flows or ()]
    flows = ", ".join(named) if each.flows is not None else "every flow that is found"
    runs = f"{len(each.runs)} of {each.concurrency}" + (f": {', '.join(each.runs)}" if each.runs else "")
    return each.id, each.process, ago(each.since), ", ".join(each.queues) or "all", runs, flows


# -- schedules ---------------------------------------------------------------------------------------

SCHEDULES: Sections = {
    "Schedules": {
        "add": ("queues:schedule_add", "Run a flow at certain times; the same name changes it."),
        "list": ("queues:schedule_list", "Every schedule, and when it fires next."),
        "pause": ("queues:schedule_pause", "Let one fire no more."),
        "resume": ("queues:schedule_resume", "Let it fire again."),
        "remove": ("queues:schedule_remove", "Forget one; its runs stay."),
        "trigger": ("queues:schedule_trigger", "Put a run of one into its queue now."),
    },
}


@click.group("schedule", cls=CommandGroup, sections=SCHEDULES)
def schedule() -> None:
    """Flows that workers run at certain times (`outlast work`)."""


@command("add", of="schedule_add")
@click.argument("name", metavar="NAME")
@click.argument("flow", metavar="FLOW")
@click.argument("inputs", nargs=-1, metavar="[INPUTS]...")
@click.option("--cron", required=True, metavar="TIMES", help='A line of cron, such as "0 7 * * MON-FRI".')
@click.option("--timezone", default="UTC", metavar="ZONE", help="Whose clock it means, such as Europe/Paris [UTC].")
@click.option("--missed", default="once", type=click.Choice(["once", "all", "skip"]), help="Of missed times [once].")
@click.option("--queue", default="", metavar="QUEUE", help="In which its runs wait [the flow's, else schedules].")
def schedule_add(call: Invocation, name: str, flow: str, inputs: tuple[str, ...], **given: Any) -> int:
    """Run a flow at certain times; a schedule of the same NAME is changed.

    FLOW and its inputs are given as to `outlast run`. A worker that has the flow puts a run into its queue at each of
    these times, once, however many workers there are.
    """
    found = late.named_flows.find_flow(flow, call.home, note)
    typed = late.named_flows.inputs_of(found, inputs)
    with call.open(make=True) as outlast:
        return _say_schedule(call, outlast.schedules.add(name, found, inputs=typed, **given))


@command("list", of="schedule_list")
def schedule_list(call: Invocation) -> None:
    """Every schedule, and when it fires next."""
    with call.open() as outlast:
        found = outlast.schedules.list()
    columns = ("SCHEDULE", "FLOW", "TIMES", "ZONE", "MISSED", "QUEUE", "NEXT")
    instead = "no schedules; make one: outlast schedule add NAME FLOW --cron TIMES"
    call.tell_list(found, columns, _schedule_row, instead)
    _say_unserved(call, found)


@command("pause", of="schedule_pause")
@click.argument("name", metavar="NAME")
def schedule_pause(call: Invocation, name: str, **given: str | None) -> int:
    """Let a schedule fire no more."""
    with call.open() as outlast:
        return _say_schedule(call, outlast.schedules.pause(name, **given))


@command("resume", of="schedule_resume")
@click.argument("name", metavar="NAME")
def schedule_resume(call: Invocation, name: str, **given: str | None) -> int:
    """Let a schedule fire again, from its next time on."""
    with call.open() as outlast:
        return _say_schedule(call, outlast.schedules.resume(name, **given))


@command("remove", of="schedule_remove")
@click.argument("name", metavar="NAME")
def schedule_remove(call: Invocation, name: str, **given: str | None) -> int:
    """Forget a schedule. Runs that it began stay."""
    with call.open() as outlast:
        return call.tell_line(outlast.schedules.remove(name, **given), f"schedule {name} is removed")


@command("trigger", of="schedule_trigger")
@click.argument("name", metavar="NAME")
def schedule_trigger(call: Invocation, name: str, **given: str | None) -> int:
    """Put a run of a schedule into its queue now, besides those of its times."""
    with call.open() as outlast:
        run = outlast.schedules.trigger(name, **given)
    return call.tell_line(run, f"run {run.id} is {run.status}; see: {call.command('show', run.id)}")


def _say_schedule(call: Invocation, found: Schedule) -> int:
    fires = f"{found.name} fires {at(found.next_at)}" if found.next_at else f"schedule {found.name} is paused"
    call.tell_line(found, fires)
    _say_unserved(call, [found])
    return 0


def _say_unserved(call: Invocation, found: Sequence[Schedule]) -> None:
    """To people: that some do not fire, because nobody works on their flows."""
    flows = list(dict.fromkeys(each.flow for each in found if each.held_up == "no_worker"))
    if flows and not call.json:
        say(f"no worker has {', '.join(flows)} (no_worker); start one: {call.command('work', *flows)}", "yellow")


def _schedule_row(each: Schedule) -> tuple[str, ...]:
    next_at = at(each.next_at) if each.next_at else "paused"
    next_at += f" ({each.held_up})" if each.held_up else ""
    return each.name, each.flow, each.cron, each.timezone, each.missed, each.queue, next_at


LOOK_SECONDS = 0.2
OUTLAST, TEMPORAL = ENGINES = ("outlast", "temporal")
# What only Temporal is told: by the name of its setting, the option and what it is.
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "address": ("--address", {"metavar": "HOST:PORT", "help": "Of Temporal [localhost:7233]."}),
    "namespace": ("--namespace", {"metavar": "NAME", "help": "Of Temporal [default]."}),
    "task_queues": ("--task-queue", {"multiple": True, "metavar": "NAME", "help": "Of Temporal: as --queue."}),
    "tls": ("--tls", {"is_flag": True, "help": "Reach Temporal by TLS."}),
    "tls_ca": ("--tls-ca", {"metavar": "FILE", "help": "Whom to believe that it is Temporal, in PEM."}),
    "tls_cert": ("--tls-cert", {"metavar": "FILE", "help": "Our certificate, in PEM."}),
    "tls_key": ("--tls-key", {"metavar": "FILE", "help": "Its key, in PEM."}),
    "tls_server_name": ("--tls-server-name", {"metavar": "NAME", "help": "As what Temporal shows itself."}),
    "console": ("--console-url", {"metavar": "URL", "help": "Our own console, for a link in Temporal's pages."}),
    "ui": ("--temporal-ui", {"metavar": "URL", "help": "Temporal's own pages, for a link to each run there."}),
    "codec": ("--codec", {"metavar": "MODULE:NAME", "help": "A payload codec that Temporal's clients share."}),
}
ENGINE = click.option(
    "--engine", type=click.Choice(ENGINES), default=OUTLAST, help="Who gives out the runs of queues [outlast]."
)


def engine_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--engine`, and all that only Temporal is told."""
    for name, (option, settings) in reversed(OPTIONS.items()):
        if name != "ui":  # which is of a server
            function = click.option(option, name, **settings)(function)
    return ENGINE(function)


def settings_of(given: dict[str, Any], queues: tuple[str, ...] = ()) -> TemporalSettings | None:
    """How Temporal is reached; None where it is not the engine. What was given is used up. Raises ExtraMissing."""
    engine = given["engine"]
    named = {name: value for name in OPTIONS if (value := given.pop(name, None))}
    if engine == OUTLAST:
        if named:
            raise click.UsageError(f"{OPTIONS[next(iter(named))][0]} is for --engine temporal")
        return None
    named["task_queues"] = (*named.get("task_queues", ()), *queues)
    return late.temporal.TemporalSettings(**named)


@command("work")
@click.argument("places", nargs=-1, metavar="[FLOWS]...")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Take runs out of this queue only; repeat it.")
@engine_options
@click.option("--concurrency", default=8, type=click.IntRange(1, 1024), help="How many runs go on at once [8].")
@click.option(
    "--drain", default="30s", metavar="TIME", help="How long steps may take to end, once asked to stop [30s]."
)
@click.option("--quiet", is_flag=True, help="Say nothing of what is well.")
def work(call: Invocation, places: tuple[str, ...], concurrency: int, drain: str, quiet: bool, **given: Any) -> int:
    """Go on with every run that can, until stopped by Ctrl-C or SIGTERM.

    FLOWS are modules, files (flows.py) or flow files (flow.yaml) whose runs it goes on with; without any, those whose
    flow is found where it lies. Crashed runs, answered ones, those whose time has come and those that a shutdown
    stopped go on at once. Asked to stop, it takes no more; its runs end their steps, and go on where somebody works.
    """
    temporal = settings_of(given, given["queues"])
    flows = late.project.flows_of(places, call.home)
    with open(os.dup(1), "w", encoding="utf-8") as out, call.open(make=True) as outlast, turned_away(call.json):
        sys.path.insert(0, os.getcwd())
        lines = Lines(call, outlast, out, quiet)
        served = flows.all if flows is not None else []
        how: dict[str, Any] = {"concurrency": concurrency, "tell": lines.tell}
        worker: Any
        if temporal is None:
            worker = late.queues.make_worker(outlast, served, drain=drain, queues=given["queues"], **how)
        else:
            how |= {"drain_seconds": late.queues.seconds_of("drain", drain), "notifies": True}
            worker = late.temporal.TemporalWorker(outlast, served, temporal, **how)
        with outlast.signals() as signals, worker:
            lines.say_ready(flows)
            over = threading.Event()
            while not signals.first:
                over.wait(LOOK_SECONDS)
    return INTERRUPTED if signals.first == signal.SIGINT else SUCCEEDED


class Lines:
    """What it says: lines for people, or an object a line, beside which what flows print goes to stderr."""

    def __init__(self, call: Invocation, outlast: Outlast, out: TextIO, quiet: bool) -> None:
        self._call, self._outlast, self._out, self._quiet = call, outlast, out, quiet

    def say_ready(self, flows: Flows | None) -> None:
        """That it works, on what."""
        names = flows.names if flows is not None else []
        if self._call.json:
            self._emit({"kind": "ready", "home": late.door.home_name(self._outlast), "flows": names})
        elif not self._quiet:
            what = ", ".join(names) or "every flow that is found"
            say(f"working on {late.door.home_name(self._outlast)}, for {what}; stop with Ctrl-C")
            sys.stdout.flush()

    def tell(self, note: WorkNote) -> None:
        """What became of a run; one of Python code has its mirror when it stops."""
        if note.kind == "ended":
            mirror(self._outlast, note.run_id)
        if self._call.json:
            self._emit(late.shown.shown(note))
            return
        if note.kind == "refused":
            say(f"run {note.run_id} is left alone for now: {note.error}" if note.run_id else note.error, "red")
        elif not self._quiet:
            now = "it goes on" if note.kind == "took" else f"now {note.status}"
            say(f"run {note.run_id} {REASONS.get(note.reason, note.reason)}; {now}", STYLES.get(note.status, ""))
        sys.stdout.flush()

    def _emit(self, told: dict[str, Any]) -> None:
        self._out.write(json.dumps(told) + "\n")
        self._out.flush()
