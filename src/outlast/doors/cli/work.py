"""`outlast work`: go on with what can go on by itself, until stopped. Nothing waits for cron then.

And the options that name an engine, for commands that work with one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

import click

from outlast.doors.cli import late
from outlast.doors.cli.exits import INTERRUPTED, SUCCEEDED
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import STYLES, say, turned_away
from outlast.doors.cli.tick import REASONS
from outlast.doors.cli.waits import mirror

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast import Outlast
    from outlast.adapters.temporal import TemporalSettings
    from outlast.python.project import Flows
    from outlast.python.worker import Worker
    from outlast.worker.worker import WorkNote

LOOK_SECONDS = 0.2
OUTLAST, TEMPORAL = ENGINES = ("outlast", "temporal")
OPTIONS = (
    click.option(
        "--engine", type=click.Choice(ENGINES), default=OUTLAST, help="Who gives out the runs of queues [outlast]."
    ),
    click.option("--address", metavar="HOST:PORT", help="Of Temporal [localhost:7233]."),
    click.option("--namespace", metavar="NAME", help="Of Temporal [default]."),
    click.option("--task-queue", "task_queues", multiple=True, metavar="NAME", help="Of Temporal: as --queue."),
    click.option("--tls", is_flag=True, help="Reach Temporal by TLS."),
    click.option("--tls-ca", metavar="FILE", help="Whom to believe that it is Temporal, in PEM."),
    click.option("--tls-cert", metavar="FILE", help="Our certificate, in PEM."),
    click.option("--tls-key", metavar="FILE", help="Its key, in PEM."),
    click.option("--tls-server-name", metavar="NAME", help="As what Temporal shows itself."),
    click.option("--console-url", "console", metavar="URL", help="Our own console, for a link in Temporal's pages."),
    click.option("--codec", metavar="MODULE:NAME", help="A payload codec that Temporal's clients share."),
)
OF_TEMPORAL = (
    "address",
    "namespace",
    "task_queues",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_server_name",
    "console",
    "ui",
    "codec",
)
OPTION_OF = {"task_queues": "task-queue", "console": "console-url", "ui": "temporal-ui"}


def engine_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--engine`, and all that only Temporal is told."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def settings_of(given: dict[str, Any], queues: tuple[str, ...] = ()) -> TemporalSettings | None:
    """How Temporal is reached; None where it is not the engine. What was given is used up. Raises ExtraMissing."""
    engine = given["engine"]
    named = {name: value for name in OF_TEMPORAL if (value := given.pop(name, None))}
    if engine == OUTLAST:
        if named:
            option = OPTION_OF.get(name := next(iter(named)), name).replace("_", "-")
            raise click.UsageError(f"--{option} is for --engine temporal")
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
        worker = _worker(outlast, served, temporal, concurrency, drain, lines.tell, given["queues"])
        with outlast.signals() as signals, worker:
            lines.say_ready(flows)
            over = threading.Event()
            while not signals.first:
                over.wait(LOOK_SECONDS)
    return INTERRUPTED if signals.first == signal.SIGINT else SUCCEEDED


def _worker(
    outlast: Outlast,
    served: list[Any],
    temporal: TemporalSettings | None,
    concurrency: int,
    drain: str,
    tell: Callable[[WorkNote], None],
    queues: tuple[str, ...],
) -> Worker:
    if temporal is None:
        return late.worker.make_worker(outlast, served, concurrency, drain, tell=tell, queues=queues)
    seconds = late.worker.seconds_of("drain", drain)
    found: Worker = late.temporal.TemporalWorker(
        outlast, served, temporal, concurrency=concurrency, drain_seconds=seconds, notifies=True, tell=tell
    )
    return found


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
