"""`outlast completion`, and what the shell is offered for RUN, STEP and ANCHOR.

What is offered is read from the home of the command line under way. Trouble with it is no matter for someone who
presses a key: then nothing is offered, and nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import Door, command

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from outlast import Outlast

OFFERED = 50
VARIABLE = "_OUTLAST_COMPLETE"
INSTALL = {
    "bash": "echo 'eval \"$(outlast completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(outlast completion zsh)\"' >> ~/.zshrc",
    "fish": "outlast completion fish > ~/.config/fish/completions/outlast.fish",
}
Offer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


@command("completion")
@click.argument("shell", type=click.Choice([*INSTALL]))
def completion(door: Door, shell: str) -> int:
    """Print what makes a shell complete commands, options, run ids, steps and anchors.

    \b
      bash   eval "$(outlast completion bash)"        in ~/.bashrc
      zsh    eval "$(outlast completion zsh)"         in ~/.zshrc, after compinit
      fish   outlast completion fish > ~/.config/fish/completions/outlast.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from outlast.doors.cli.group import cli
    from outlast.doors.cli.render import emit

    made = get_completion_class(shell)
    assert made is not None
    script = ShellComplete.source(made(cli, {}, "outlast", VARIABLE))  # bash's own asks for its version, and prints
    install = INSTALL[shell]
    if door.json:
        emit({"shell": shell, "install": install, "script": script})
    else:
        click.echo(f"# To install it, once: {install}\n{script}")
    return 0


# -- what is offered -----------------------------------------------------------------------------------


def _quietly(offer: Callable[[Outlast, click.Context], Iterable[tuple[str, str]]]) -> Offer:
    """Make an offer of words and their help, read from a home. It cannot fail, and prints nothing."""

    def offered(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            with _silence():
                outlast = _door_of(context).open(
                    adopt=False
                )  # never closed: that would write, and wait for whoever writes
                found = [(word, text) for word, text in offer(outlast, context) if word.startswith(begun)]
        except Exception:
            return []
        return [CompletionItem(word, help=text) for word, text in found if word.isprintable()]

    return offered


def _door_of(context: click.Context) -> Door:
    """The shared options, given before or after the command's name."""
    before = context.find_root().params
    home, tenant, scope = (context.params.get(name) or before.get(name) for name in ("home", "tenant", "scope"))
    return Door(home, tenant, scope, False)


@contextmanager
def _silence() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _runs(outlast: Outlast, _: click.Context) -> Iterable[tuple[str, str]]:
    return [(run.id, f"{run.status}, {run.task}") for run in outlast.runs(limit=OFFERED)]


def _steps(outlast: Outlast, context: click.Context) -> Iterable[tuple[str, str]]:
    receipts = outlast.receipts(str(context.params.get("run_id") or ""))
    return {receipt.label: (receipt.label, receipt.status) for receipt in receipts}.values()


def _anchors(outlast: Outlast, _: click.Context) -> Iterable[tuple[str, str]]:
    found = outlast.handoff.list(limit=OFFERED)
    return [(each.anchor, f"{each.standing}, {each.next_action or each.summary}") for each in found]


def _tasks(outlast: Outlast, _: click.Context) -> Iterable[tuple[str, str]]:
    return [(each.task, each.state) for each in outlast.tasks.list(limit=OFFERED)]


offer_runs, offer_steps, offer_anchors = _quietly(_runs), _quietly(_steps), _quietly(_anchors)
offer_tasks = _quietly(_tasks)


def run_argument(metavar: str = "RUN", **settings: Any) -> Callable[[Any], Any]:
    """RUN as every command takes it: an id, or the beginning of one."""
    return click.argument("run_id", metavar=metavar, shell_complete=offer_runs, **settings)


def step_argument(metavar: str = "STEP", **settings: Any) -> Callable[[Any], Any]:
    """STEP as every command takes it: a label of the RUN before it."""
    return click.argument("step", metavar=metavar, shell_complete=offer_steps, **settings)


def task_argument() -> Callable[[Any], Any]:
    """TASK as every task command takes it: its id, whole."""
    return click.argument("task_id", metavar="TASK", shell_complete=offer_tasks)


def anchor_argument(metavar: str = "ANCHOR", **settings: Any) -> Callable[[Any], Any]:
    """ANCHOR as every handoff command takes it: the name that a handoff was stored under, whole."""
    return click.argument("anchor", metavar=metavar, shell_complete=offer_anchors, **settings)
