"""Every command that a prompt tells the next agent to run is one that there is."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from msgspec.structs import replace
from tests.handoffs.test_reading import HANDOFF, RECOVERED, TRUSTED

from outlast import Outlast, Run, flow, step
from outlast.doors.cli.group import cli as group
from outlast.handoffs.handoff import Recovered
from outlast.operations.reading import prompt
from outlast.testing.crashes import in_child

from .repository import Repository

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

ELSE = " (else failed, or released)"


def commands_of(text: str) -> list[list[str]]:
    """The words of the command that each line ends with, as a shell would read them."""
    told = [line.removesuffix(ELSE) for line in text.splitlines() if "outlast " in line]
    return [shlex.split(line[line.index("outlast ") :])[1:] for line in told]


def parsed(words: list[str]) -> Iterator[dict[str, Any]]:
    """What the real command line makes of the words, group by group. Raises click.UsageError."""
    command: click.Command = group
    context: click.Context | None = None
    while True:
        context = command.make_context(command.name or "outlast", list(words), parent=context)
        if not isinstance(command, click.Group):
            yield context.params
            return
        _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found


def composed(recovered: Recovered) -> Recovered:
    return replace(recovered, handoff=replace(HANDOFF, revision=0, id="run:run1", source="run"))


@pytest.mark.parametrize(
    "recovered",
    [RECOVERED, TRUSTED, composed(RECOVERED), replace(composed(RECOVERED), claim=None)],
    ids=["claimed", "free", "composed and claimed", "composed"],
)
@pytest.mark.parametrize("anchor", ["task:export-repair", 'it\'s "odd" 🙂', "-x", "--json"])
def test_every_command_of_a_prompt_is_understood_by_the_real_command_line(recovered: Recovered, anchor: str) -> None:
    handoff = replace(recovered.handoff, anchor=anchor)
    finish = prompt(replace(recovered, handoff=handoff), 5000).partition("## How to finish")[2]
    found = commands_of(finish)
    assert len(found) >= 2
    for words in found:
        (params,) = parsed(words)
        assert "anchor" not in params or params["anchor"] == anchor, words
        if recovered.claim is not None and "settle" in words:
            assert params["claim_id"] == recovered.claim.id


@step
def dies() -> int:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    return 1


@flow
def ends_early(run: Run) -> int:
    return dies()


def test_the_look_that_a_prompt_offers_shows_something(cli: "Cli") -> None:
    repo = Repository(cli)
    home = Path(repo.folder, ".outlast")

    def run(tell: Any) -> None:
        with Outlast(home) as outlast:
            outlast.run(ends_early, task="report")

    in_child(run, 60)
    repo.store("fix limit")
    for anchor in ("task:report", "fix limit"):
        told = repo("recover", anchor, "--prompt")
        assert told.code == 0, told
        look = commands_of(told.out.splitlines()[-1])[0]
        assert repo.forked(*look).code == 0, look
