"""What every command is given: where to look, how to answer, and the commands to name in its advice."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.errors import HomeNotFound

if TYPE_CHECKING:
    from holdfast import Holdfast


CLAIM = "HOLDFAST_CLAIM"  # the id of a claim that is shown by all commands


@dataclass(frozen=True)
class Door:
    """The options that all commands share."""

    home: str | None
    tenant: str | None
    scope: str | None
    json: bool

    def open(self, *, make: bool = False) -> Holdfast:
        """The home, opened. Raises HomeNotFound rather than making one, unless told to."""
        from holdfast import Holdfast
        from holdfast.runtime.home import find_home

        tenant = self.tenant or "default"
        if self.home and self.home.startswith(("http://", "https://")):
            return Holdfast(self.home, tenant=tenant, scope=self.scope or "default")
        home = find_home(self.home, must_exist=not make)
        if not make and not (home / tenant / "holdfast.db").is_file():
            raise HomeNotFound(str(home if self.tenant is None else home / tenant))
        hold = Holdfast(home, tenant=tenant, scope=self.scope or "default")
        hold.act_for_terminal(*filter(None, [os.environ.get(CLAIM)]))
        return hold

    def command(self, *words: str) -> str:
        """A command to show: ready to be copied, on the same home and tenant."""
        given = [("--home", self.home), ("--tenant", self.tenant), ("--scope", self.scope)]
        options = [word for name, value in given if value is not None for word in (name, value)]
        end = words.index("--") if "--" in words else len(words)  # what follows it is no option
        return shlex.join(["holdfast", *words[:end], *options, *words[end:]])


def command(name: str, **settings: Any) -> Callable[[Callable[..., int]], click.Command]:
    """Make a function a command: it gets the door and its own parameters, and gives the exit code."""

    def made(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def callback(**given: Any) -> int:
            return function(_door(given), **given)

        own = callback.__dict__.pop("__click_params__", [])
        for option in reversed(SHARED):
            callback = option(callback)
        callback.__dict__["__click_params__"].extend(own)  # click shows the last ones first
        made_of: Callable[[Callable[..., int]], click.Command] = click.command(name, **settings)
        return made_of(callback)

    return made


SHARED = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option("--home", metavar="DIR", help="Where the records are kept [the nearest .holdfast/ upward]."),
    click.option("--tenant", metavar="NAME", help="An isolated customer [default]."),
    click.option("--scope", metavar="NAME", help="A namespace inside the tenant [default]."),
)


def _door(given: dict[str, Any]) -> Door:
    """The shared options, given before or after the command's name."""
    before = click.get_current_context().obj or {}
    home, tenant, scope = (given.pop(name) or before.get(name) for name in ("home", "tenant", "scope"))
    if home and "://" not in home:
        os.environ["HOLDFAST_HOME"] = os.path.abspath(
            home
        )  # what the flow's own code and its processes find is the same home
    return Door(home, tenant, scope, given.pop("as_json"))
