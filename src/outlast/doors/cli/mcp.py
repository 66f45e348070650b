"""`outlast mcp`: the tools for a model over stdio; and `outlast mcp install`: what a client needs to be told."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import SHARED, Door, _door, command
from outlast.doors.cli.group import Commands, Sections
from outlast.doors.cli.render import emit, note, say, say_all
from outlast.errors import HomeNotFound

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.mcp.install import Configuration

SECTIONS: Sections = {"Connect": {"install": ("mcp:install", "Print what a client needs to be told.")}}
CLIENTS = ("claude", "cursor", "codex")
actor_option = click.option("--actor", metavar="NAME", help="Who the model acts as [local].")
approve_option = click.option(
    "--allow-approve", is_flag=True, help="The model may answer, skip, accept and the like in a person's place."
)

flows_option = click.option(
    "--flows", multiple=True, metavar="MODULE", help="A module, file.py or flow.yaml whose flows the model may start."
)


def _places(function: Callable[..., Any]) -> Callable[..., Any]:
    """The shared options but --json: on stdout there is the protocol only."""
    for option in reversed(SHARED[1:]):
        function = option(function)
    return function


@click.group("mcp", cls=Commands, sections=SECTIONS, invoke_without_command=True)
@_places
@actor_option
@flows_option
@approve_option
@click.pass_context
def mcp(ctx: click.Context, /, actor: str | None, flows: tuple[str, ...], allow_approve: bool, **given: Any) -> int:
    """Serve the tools, resources and the prompt to a model over stdin and
    stdout (MCP). A client starts this; `outlast mcp install` says how.

    Unless --allow-approve is given, the model does not answer, skip or accept
    in a person's place: the person at the client is asked, if it can ask.

    Logs go to stderr. It ends with its input (exit 0) or by a signal (130,
    143); a run that it was resuming is left interrupted, and can be resumed.
    """
    ctx.obj = {**(ctx.obj or {}), **{name: value for name, value in given.items() if value is not None}}
    if ctx.invoked_subcommand is not None:
        told = {"--actor": actor is not None, "--flows": bool(flows), "--allow-approve": allow_approve}
        if misplaced := [name for name, is_given in told.items() if is_given]:
            raise click.UsageError(f"{misplaced[0]} stands behind install")
        return 0
    if ctx.obj.get("as_json"):
        raise click.UsageError("--json: there is only the protocol on stdout; `outlast mcp install` takes it")
    return _serve(_door({**given, "as_json": False}), actor, flows, allow_approve)


def _serve(door: Door, actor: str | None, flows: tuple[str, ...], approves: bool) -> int:
    from outlast.doors.mcp import require

    require()
    opened = _starting(_opening(door, actor), flows, door.home)
    if sys.stdin.isatty():
        note("serving MCP on stdin and stdout, one JSON message a line; `outlast mcp install` connects a client to it")
    from outlast.doors.mcp.stdio import serve

    return serve(opened, approves=approves)


def _opening(door: Door, actor: str | None) -> Callable[[bool], Outlast]:
    """What opens the home, or makes one when told to; the names are checked already. Raises NameInvalid."""
    from outlast.home.place import check_name, check_tenant

    tenant = check_tenant("default" if door.tenant is None else door.tenant)
    scope = check_name("scope", "default" if door.scope is None else door.scope)
    name = check_name("actor", "local" if actor is None else actor)

    def opened(make: bool) -> Outlast:
        from outlast import Outlast
        from outlast.home.place import look_up

        if door.home and "://" in door.home:
            return Outlast(door.home, tenant=tenant, scope=scope, actor=name)
        home = look_up(door.home, adopt=False)  # a model says nothing for the user
        if not make and not (home.path / tenant / "outlast.db").is_file():
            raise HomeNotFound(str(home.path))
        made = Outlast(home, tenant=tenant, scope=scope, actor=name)
        made._executor.caller.door = "mcp"
        made._executor.caller.looks_here = False  # a model runs nothing of a folder that it happens to be in
        return made

    return opened


def _starting(
    opened: Callable[[bool], Outlast], places: tuple[str, ...], named: str | None
) -> Callable[[bool], Outlast]:
    """What opens the home for a model that may start these flows. Raises FlowNotFound, RecipeInvalid."""
    from pathlib import Path

    from outlast.home.place import near
    from outlast.python.project import Flows

    home = named or os.environ.get("OUTLAST_HOME")
    flows = Flows(places, Path(home).absolute() if home and "://" not in home else near()) if places else None

    def with_flows(make: bool) -> Outlast:
        outlast = opened(make)
        outlast._flows = flows
        outlast._serve(flows.all if flows is not None else ())
        return outlast

    return with_flows


# -- what a client needs to be told --------------------------------------------------------------------


@command("install")
@click.option("--client", required=True, type=click.Choice(CLIENTS), help="Which client.")
@click.option("--url", metavar="URL", help="Connect to the server there instead of starting one.")
@click.option("--print", "only_print", is_flag=True, help="Print it; nothing is ever written.")
@actor_option
@flows_option
@approve_option
def install(
    door: Door,
    client: str,
    url: str | None,
    only_print: bool,
    actor: str | None,
    flows: tuple[str, ...],
    allow_approve: bool,
) -> int:
    """Print what connects a client to Outlast: the command to run, or what to write into its file.

    Nothing is written. The home, tenant, scope and actor that are given here are part of what is printed. With --url
    the key is taken from OUTLAST_API_KEY when the client starts; it is never printed.
    """
    from outlast.doors.mcp.install import over_http, over_stdio
    from outlast.values.codec import jsonable

    if url is not None:
        _refuse_for_url(door, actor, url, flows, allow_approve)
    command = _command(door, actor, flows, allow_approve)
    found = over_stdio(client, command) if url is None else over_http(client, url)
    if door.json:
        emit(jsonable(found))
    else:
        _say(found)
    return 0


def _refuse_for_url(door: Door, actor: str | None, url: str, flows: tuple[str, ...], approves: bool) -> None:
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise click.UsageError(
            "--url: give one that begins with http:// or https://, such as http://127.0.0.1:8787/mcp"
        )
    given = {"--home": door.home, "--tenant": door.tenant, "--scope": door.scope, "--actor": actor}
    given["--flows"] = flows[0] if flows else None
    given["--allow-approve"] = "" if approves else None
    if told := [name for name, value in given.items() if value is not None]:
        raise click.UsageError(f"{told[0]} is of a server that the client starts; with --url the key says who acts")


def _command(door: Door, actor: str | None, flows: tuple[str, ...], approves: bool) -> list[str]:
    """The command that serves: by its name if the shell finds it, else by this interpreter."""
    begin = ["outlast"] if shutil.which("outlast") else [sys.executable, "-m", "outlast"]
    home = os.path.abspath(door.home) if door.home and "://" not in door.home else door.home
    given = {"--home": home, "--tenant": door.tenant, "--scope": door.scope, "--actor": actor}
    said = [(name, value) for name, value in given.items() if value is not None]
    said += [("--flows", os.path.abspath(each) if os.path.isfile(each) else each) for each in flows]
    words = [word for pair in said for word in pair]
    return [*begin, "mcp", *words, *(["--allow-approve"] if approves else [])]


def _say(found: Configuration) -> None:
    for line in found.commands:
        say("run:")
        say(f"  {line}")
    for each in found.files:
        say(f"{'or write' if found.commands else 'write'} into {each.path}:")
        say_all(each.content.rstrip("\n"), "  ")
    for text in found.notes:
        say(f"note: {text}")
