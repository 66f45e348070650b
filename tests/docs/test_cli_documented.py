"""docs/cli.md has every command with each of its options, and every exit code."""

import re
from pathlib import Path

import click
import pytest

from outlast.doors.cli import entry, handoff, queues, serve, session, workspace
from outlast.doors.cli.group import PLACES, CommandGroup, cli

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
TEXT = PAGE.partition("\n## Not yet\n")[0]


GROUPS = {
    "handoff": handoff.SECTIONS,
    "keys": serve.SECTIONS,
    "limit": queues.LIMITS,
    "queue": queues.QUEUES,
    "schedule": queues.SCHEDULES,
    "session": session.SECTIONS,
    "workspace": workspace.SECTIONS,
}
NAMES = [*PLACES, *(f"{name} {each}" for name in GROUPS for section in GROUPS[name].values() for each in section)]


def command(name: str) -> click.Command:
    found: click.Command | None = cli
    for word in name.split():
        assert isinstance(found, CommandGroup)
        found = found.get_command(click.Context(found), word)
    assert found is not None
    return found


def options(name: str) -> list[str]:
    given = [option for option in command(name).params if isinstance(option, click.Option)]
    return [max(option.opts, key=len) for option in given]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_documented(name: str) -> None:
    assert re.search(rf"`outlast {name}\b", TEXT)


@pytest.mark.parametrize("name", NAMES)
def test_the_options_of_a_command_are_documented(name: str) -> None:
    assert [option for option in options(name) if not re.search(rf"{option}\b", TEXT)] == []


def test_no_other_command_is_documented() -> None:
    shown = set(
        re.findall(r"`(?:\$ )?outlast ((?:handoff|keys|limit|queue|schedule|session|workspace) [a-z]+|[a-z]+)\b", TEXT)
    )
    assert shown <= set(NAMES)


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(entry).items() if name.isupper() and isinstance(value, int)}
    table = TEXT.partition("## Exit codes")[2].partition("\n## ")[0]
    shown = {int(code) for row in re.findall(r"^\| ([0-9, ]+) \|", table, re.MULTILINE) for code in row.split(", ")}
    assert shown == codes
