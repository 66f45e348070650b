"""`outlast serve`: the same calls over HTTP. `outlast keys`: who may ask a server for what.

`outlast mcp`: the tools for a model over stdio; and `outlast mcp install`: what a client needs to be told.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import INTERRUPTED
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import SHARED, Invocation, command, invocation_of
from outlast.doors.cli.queues import OPTIONS, OUTLAST, engine_options, settings_of
from outlast.doors.cli.render import at, emit, note, say, say_all, table
from outlast.doors.mcp import require
from outlast.errors import ExtraMissing, NameInvalid, OutlastError

if TYPE_CHECKING:
    from outlast import ApiKey, Keys, Outlast
    from outlast.python.project import FoundHome


SECTIONS: Sections = {
    "Keys": {
        "create": ("serve:create", "A new key; its text is shown once."),
        "list": ("serve:list_", "Every key, without its secret."),
        "revoke": ("serve:revoke", "End a key, at once and for good."),
    },
}


@click.group("keys", cls=CommandGroup, sections=SECTIONS)
def keys() -> None:
    """API keys of this home: who may ask a server (`outlast serve`) for what."""


@command("create")
@click.option("--actor", required=True, metavar="WHO", help="In whose name the key acts.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["read", "write", "approve", "admin"]),
    help="What it may do; repeat it for more [read and write].",
)
@click.option("--only", "scopes", multiple=True, metavar="SCOPE", help="Bind it to a scope; repeat it for more [all].")
@click.option("--expires", metavar="TIME", help="How long it is good for, such as 12h or 90d [for ever].")
def create(call: Invocation, actor: str, roles: tuple[str, ...], scopes: tuple[str, ...], expires: str | None) -> None:
    """Make a key for one tenant (--tenant) and actor. Only now its text is shown: keep it safe.

    read looks; write stores, starts and resumes; approve answers what waits for a person, and gets past other gates;
    admin may do all of it. A key that is bound to scopes (--only) sees and changes nothing of others; it is in the
    first of them unless a request names another. Other keys read the whole tenant.
    """
    tenant, may = call.tenant or "default", roles or ("read", "write")
    with _keys(call) as keys, call.open(make=True) as outlast:
        noting = late.door.noting_key(outlast, "made")
        made = keys.create(actor, tenant=tenant, roles=may, expires=expires, scopes=scopes, noting=noting)
    if call.json:
        emit(made.key, key=made.text)
    else:
        say(made.text)
        bound = f", only in {', '.join(scopes)}" if scopes else ""
        note(f"key {made.key.id} for {made.key.actor} ({', '.join(made.key.roles)}{bound}); it is not shown again")


@command("list")
def list_(call: Invocation) -> None:
    """Every key of the home, also those that are over; secrets are kept nowhere."""
    with _keys(call) as keys:
        found, damaged = [key for key in keys.list() if call.tenant in (None, key.tenant)], keys.damaged()
    for key_id in damaged:
        note(f"key {key_id} is damaged, and nobody can use it; see `outlast verify`")
    if call.json:
        emit({"keys": found, "damaged": damaged})
    elif found:
        table(
            ("KEY", "TENANT", "ACTOR", "ROLES", "ONLY IN", "MADE", "LAST USED", "UNTIL"), [_row(key) for key in found]
        )
    else:
        say("no keys; make one: outlast keys create --actor WHO")


@command("revoke")
@click.argument("key_id", metavar="KEY")
def revoke(call: Invocation, key_id: str) -> int:
    """End a key by its id: a server refuses it from its next request on."""
    with _keys(call) as keys:
        done = _revoked(call, keys, key_id)
    return call.tell_line(done, f"key {done.id} of {done.actor} is revoked")


def _revoked(call: Invocation, keys: Keys, key_id: str) -> ApiKey:
    """A key that was ended, on the record of its tenant; also where that cannot be opened."""
    found = next((key for key in keys.list() if key.id == key_id), None)
    if found is None:
        return keys.revoke(key_id)
    try:
        opened = call.open(make=True, tenant=found.tenant)
    except OutlastError as error:
        note(f"it is on no record: {error}")
        return keys.revoke(key_id)
    with opened as outlast:
        return keys.revoke(key_id, late.door.noting_key(outlast, "revoked"))


def _keys(call: Invocation) -> closing[Keys]:
    return closing(late.outlast.Keys(late.project.look_up(call.home, tell=note)))


def _row(key: ApiKey) -> tuple[str, ...]:
    used = at(key.last_used_at) if key.last_used_at else "never"
    until = f"revoked {at(key.revoked_at)}" if key.revoked_at else at(key.expires_at) if key.expires_at else "for ever"
    only = ", ".join(key.scopes)
    return key.id, key.tenant, key.actor, ", ".join(key.roles), only, at(key.created_at), used, until


PORT = 8787
LIMITS = {"requests": "key_requests", "runs": "key_runs", "bytes": "key_bytes"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@command("serve")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen [127.0.0.1: this machine only].")
@click.option("--port", default=PORT, type=click.IntRange(0, 65535), help=f"On which port; 0: a free one [{PORT}].")
@click.option("--flows", multiple=True, metavar="MODULE", help="A module, file.py or flow.yaml whose flows may be run.")
@click.option("--no-work", is_flag=True, help="Leave runs that can go on by themselves to others.")
@click.option(
    "--concurrency", "work_runs", default=8, type=click.IntRange(1, 1024), help="How many of those go on at once [8]."
)
@engine_options
@click.option(OPTIONS["ui"][0], "ui", **OPTIONS["ui"][1])
@click.option("--require-key", is_flag=True, help="Let nobody in without a key, also on this machine.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help="Of one key: requests=32, runs=64, bytes=10G.")
@click.option("--public-url", default="", metavar="URL", help="Its own origin, as others see it through a proxy.")
@click.option(
    "--allow-host", "allow_hosts", multiple=True, metavar="HOST", help="Another name in the Host of requests."
)
@click.option(
    "--allow-origin", "allow_origins", multiple=True, metavar="ORIGIN", help="Whose web pages may call it (CORS)."
)
def serve(call: Invocation, host: str, port: int, limits: tuple[str, ...], **given: Any) -> int:
    """Serve this home over HTTP until stopped by Ctrl-C or SIGTERM.

    On this machine no key is needed while the home has none; any other address needs keys (`outlast keys create`). The
    log goes to standard error, a JSON object a line. Asked to stop, open streams are ended and runs under way are
    interrupted. It goes on by itself, and at once, with runs of its flows that are crashed, answered, due, or were
    stopped by a shutdown, as `outlast work` does. With --engine temporal it runs nothing: it starts and answers, and
    tells Temporal, whose workers go on (`outlast work --engine temporal`).
    """
    _require_server("outlast serve")
    return _serve(call, host, port, given, limits_of(limits))


def _require_server(what: str) -> None:
    """Raises ExtraMissing."""
    for module in ("starlette", "uvicorn", "prometheus_client", "jinja2"):
        if find_spec(module) is None:
            raise ExtraMissing(what, "server")


@command("console")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="On which port [a free one].")
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
def console(call: Invocation, port: int, no_browser: bool) -> int:
    """Look at this home, and answer what waits, in a browser. It ends with Ctrl-C.

    Only this machine can reach it, and while the home has no keys it asks for none. A run whose wait is answered there
    goes on there, as by `outlast approve`. `outlast serve` has the same pages for others.
    """
    _require_server("outlast console")
    home, tenant = _home(call), call.tenant or "default"
    opened = late.identity.listen("127.0.0.1", port)
    address = late.identity.address_of(opened)
    settings = late.state.ServerSettings(home=home, tenant=tenant, works=False, looks_here=True, log=lambda line: None)

    def ready() -> None:
        _say_ready(call, address, home)
        if not no_browser:
            late.webbrowser.open(address)

    ended_by = late.serve.Server(settings, opened, ready, late.screens.pages).serve_all()
    return INTERRUPTED if ended_by == signal.SIGINT else 0


def _home(call: Invocation) -> FoundHome:
    """The home that is served, every tenant of it with the bucket that was named, if one was."""
    found = late.project.look_up(call.home, tell=note)
    return found._replace(blobs=call.blobs or "")


def _serve(call: Invocation, host: str, port: int, given: dict[str, Any], limits: dict[str, Any]) -> int:
    temporal = settings_of(given)
    works, engine = not given.pop("no_work"), given.pop("engine")
    given["works"] = works and engine == OUTLAST
    home, tenant = _home(call), call.tenant or "default"
    if temporal is not None:
        late.temporal.check_place(home.database, temporal)
    late.identity.refuse_open_door(home, host, require_key=given["require_key"])
    if call.blobs or os.environ.get("OUTLAST_BLOBS"):  # a bucket that cannot be had is told now, not by every request
        late.door.open_for("cli", home, tenant=tenant, make=True, blobs=call.blobs).close()
    opened = late.identity.listen(host, port)
    address = late.identity.address_of(opened)

    given |= {"home": home, "tenant": tenant, "loopback": late.identity.is_loopback(host), "temporal": temporal}
    settings = late.state.ServerSettings(**given, **limits)
    ended_by = late.serve.Server(
        settings, opened, lambda: _say_ready(call, address, home), late.screens.pages
    ).serve_all()
    return INTERRUPTED if ended_by == signal.SIGINT else 0


def limits_of(given: tuple[str, ...]) -> dict[str, Any]:
    """What one key may take, by the settings of the server. Raises NameInvalid."""
    found = {}
    for each in given:
        name, _, count = each.partition("=")
        number = count[:-1] if count[-1:] in UNITS else count
        if name not in LIMITS or not (number.isascii() and number.isdigit() and len(number) < 16):
            raise NameInvalid(
                "limit", each, f"use {', '.join(f'{name}=N' for name in LIMITS)}; of bytes also 10G, 500M"
            )
        found[LIMITS[name]] = int(number) * UNITS.get(count[-1:], 1)
    return found


def _say_ready(call: Invocation, address: str, home: FoundHome) -> None:
    told = {"address": address, "home": home.name}
    call.tell_line(told, f"serving {home.name} at {address}; stop with Ctrl-C")
    sys.stdout.flush()


MCP_SECTIONS: Sections = {"Connect": {"install": ("serve:install", "Print what a client needs to be told.")}}
CLIENTS = {"claude": ".mcp.json", "cursor": ".cursor/mcp.json", "codex": "~/.codex/config.toml"}  # each with its file
KEY, NAME = "OUTLAST_API_KEY", "outlast"
SHAREABLE = "the file is the project's and may be committed: it names no path of this machine"
FOLDER = "a client may start it in another folder; then name the home: --home DIR"
KEYS = f"the key comes from the environment ({KEY}); a server on loopback needs none: leave it out then"
actor_option = click.option("--actor", metavar="NAME", help="Who the model acts as [local].")
approve_option = click.option(
    "--allow-approve", is_flag=True, help="The model may answer, skip, accept and the like in a person's place."
)

flows_option = click.option(
    "--flows", multiple=True, metavar="MODULE", help="A module, file.py or flow.yaml whose flows the model may start."
)


def _places(function: Callable[..., Any]) -> Callable[..., Any]:
    """The shared options but --json: on stdout there is the protocol only."""
    for option in reversed(SHARED[1:-1]):
        function = option(function)
    return function


@click.group("mcp", cls=CommandGroup, sections=MCP_SECTIONS, invoke_without_command=True)
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
    call = invocation_of({**given, "as_json": False})
    require()
    opened = _opening(call, actor, flows)
    if sys.stdin.isatty():
        note("serving MCP on stdin and stdout, one JSON message a line; `outlast mcp install` connects a client to it")
    return late.stdio.serve(opened, approves=allow_approve)


def _opening(call: Invocation, actor: str | None, places: tuple[str, ...]) -> Callable[[bool], Outlast]:
    """What opens the home, or makes one when told to, for a model that may start these flows.

    All that is said is checked already. Raises NameInvalid, FlowNotFound, RecipeInvalid.
    """
    names = late.door.checked_names(call.tenant, call.scope, actor or late.door.LOCAL)  # a model is not its user
    flows = late.project.flows_of(places, call.home)

    def opened(make: bool) -> Outlast:
        outlast = late.door.open_for(
            "mcp", call.home, **names, make=make, adopt=False, blobs=call.blobs
        )  # a model says nothing for the user
        late.door.look_nowhere(outlast)  # a model runs nothing of a folder that it happens to be in
        outlast._flows = flows
        outlast._serve(flows.all if flows is not None else ())
        return outlast

    return opened


# -- what a client needs to be told ------------------------------------------------------------------


@command("install")
@click.option("--client", required=True, type=click.Choice([*CLIENTS]), help="Which client.")
@click.option("--url", metavar="URL", help="Connect to the server there instead of starting one.")
@click.option("--print", "only_print", is_flag=True, help="Print it; nothing is ever written.")
@actor_option
@flows_option
@approve_option
def install(call: Invocation, client: str, url: str | None, only_print: bool, **acting: Any) -> int:
    """Print what connects a client to Outlast: the command to run, or what to write into its file.

    Nothing is written. The home, tenant, scope and actor that are given here are part of what is printed. With --url
    the key is taken from OUTLAST_API_KEY when the client starts; it is never printed.
    """
    if url is not None:
        _refuse_for_url(call, url, **acting)
    found = over_stdio(client, _command(call, **acting)) if url is None else over_http(client, url)
    return call.tell_or_say(found._asdict(), lambda: _say_configuration(found))


def _refuse_for_url(call: Invocation, url: str, actor: str | None, flows: Sequence[str], allow_approve: bool) -> None:
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise click.UsageError(
            "--url: give one that begins with http:// or https://, such as http://127.0.0.1:8787/mcp"
        )
    given = {"--home": call.home, "--tenant": call.tenant, "--scope": call.scope, "--actor": actor}
    given["--flows"] = flows[0] if flows else None
    given["--allow-approve"] = "" if allow_approve else None
    if told := [name for name, value in given.items() if value is not None]:
        raise click.UsageError(f"{told[0]} is of a server that the client starts; with --url the key says who acts")


def _command(call: Invocation, actor: str | None, flows: Sequence[str], allow_approve: bool) -> list[str]:
    """The command that serves: by its name if the shell finds it, else by this interpreter."""
    begin = ["outlast"] if shutil.which("outlast") else [sys.executable, "-m", "outlast"]
    home = os.path.abspath(call.home) if call.home and "://" not in call.home else call.home
    given = {"--home": home, "--tenant": call.tenant, "--scope": call.scope, "--actor": actor}
    said = [(name, value) for name, value in given.items() if value is not None]
    said += [("--flows", os.path.abspath(each) if os.path.isfile(each) else each) for each in flows]
    words = [word for pair in said for word in pair]
    return [*begin, "mcp", *words, *(["--allow-approve"] if allow_approve else [])]


class Configuration(NamedTuple):
    """How to connect a client: the commands that do it, or the same as files; and what else to know."""

    client: str
    transport: str  # stdio, http
    commands: tuple[str, ...]
    files: tuple[dict[str, str], ...]  # each with its path and its content
    notes: tuple[str, ...]


def over_stdio(client: str, command: Sequence[str]) -> Configuration:
    """The client starts the server itself, by this command."""
    words = shlex.join(command)
    adds = {"claude": f"claude mcp add {NAME} -- {words}", "codex": f"codex mcp add {NAME} -- {words}"}
    told = {"command": command[0], "args": list(command[1:])}
    placed = "--home" in command
    shareable = [SHAREABLE] if client != "codex" and command[0] == NAME and not placed else []
    return _configured(client, "stdio", adds, told, (*shareable, *([] if placed else [FOLDER])))


def over_http(client: str, url: str) -> Configuration:
    """The client connects to a server that runs; its key comes from the environment."""
    header = f'--header "Authorization: Bearer ${KEY}"'
    adds = {
        "claude": f"claude mcp add --transport http {NAME} {shlex.quote(url)} {header}",
        "codex": f"codex mcp add {NAME} --url {shlex.quote(url)} --bearer-token-env-var {KEY}",
    }
    told: dict[str, dict[str, Any]] = {
        "claude": {"type": "http", "url": url, "headers": {"Authorization": f"Bearer ${{{KEY}}}"}},
        "cursor": {"url": url, "headers": {"Authorization": f"Bearer ${{env:{KEY}}}"}},
        "codex": {"url": url, "bearer_token_env_var": KEY},
    }
    return _configured(client, "http", adds, told[client], (KEYS,))


def _configured(
    client: str, transport: str, adds: dict[str, str], told: dict[str, Any], notes: tuple[str, ...]
) -> Configuration:
    """What is told, by the command that a client has for it, and as it stands in its file."""
    servers = json.dumps({"mcpServers": {NAME: told}}, indent=2, ensure_ascii=False)
    content = _toml(told) if client == "codex" else f"{servers}\n"
    commands = (adds[client],) if client in adds else ()
    return Configuration(client, transport, commands, ({"path": CLIENTS[client], "content": content},), notes)


def _toml(told: dict[str, Any]) -> str:
    """A table of TOML: JSON escapes what TOML escapes in texts, and DEL besides."""
    values = {name: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for name, value in told.items()}
    return "\n".join([f"[mcp_servers.{NAME}]", *(f"{name} = {value}" for name, value in values.items()), ""])


def _say_configuration(found: Configuration) -> None:
    for line in found.commands:
        say("run:")
        say(f"  {line}")
    for each in found.files:
        say(f"{'or write' if found.commands else 'write'} into {each['path']}:")
        say_all(each["content"].rstrip("\n"), "  ")
    for text in found.notes:
        say(f"note: {text}")
