"""The options that name an engine, for commands that work with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.adapters.temporal import TemporalSettings

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


def worker_of(run: RunRecord) -> tuple[str, ...]:
    """The words of the command that starts a worker for a run."""
    engine = ("--engine", run.engine) if run.engine else ()
    return ("work", run.source or run.flow, *engine)


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
