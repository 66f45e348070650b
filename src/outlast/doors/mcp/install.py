"""What a client needs to be told of this server: commands to run, or what to write into its files. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from msgspec import Struct

CLIENTS = ("claude", "cursor", "codex")
KEY = "OUTLAST_API_KEY"
NAME = "outlast"


class Snippet(Struct, frozen=True):
    """What stands in a file."""

    path: str
    content: str


class Configuration(Struct, frozen=True):
    """How to connect a client: the commands that do it, or the same as files; and what else to know."""

    client: str
    transport: str  # stdio, http
    commands: tuple[str, ...]
    files: tuple[Snippet, ...]
    notes: tuple[str, ...]


def over_stdio(client: str, command: Sequence[str]) -> Configuration:
    """The client starts the server itself, by this command."""
    words, notes = shlex.join(command), _notes(client, command)
    entry = {"command": command[0], "args": list(command[1:])}
    match client:
        case "claude":
            add = f"claude mcp add {NAME} -- {words}"
            return Configuration(client, "stdio", (add,), (Snippet(".mcp.json", _servers(entry)),), notes)
        case "cursor":
            return Configuration(client, "stdio", (), (Snippet(".cursor/mcp.json", _servers(entry)),), notes)
        case _:
            table = f"[mcp_servers.{NAME}]\ncommand = {_toml(command[0])}\nargs = {_toml_list(command[1:])}\n"
            add = f"codex mcp add {NAME} -- {words}"
            return Configuration(client, "stdio", (add,), (Snippet("~/.codex/config.toml", table),), notes)


def over_http(client: str, url: str) -> Configuration:
    """The client connects to a server that runs; its key comes from the environment."""
    match client:
        case "claude":
            header = f'--header "Authorization: Bearer ${KEY}"'
            add = f"claude mcp add --transport http {NAME} {shlex.quote(url)} {header}"
            entry = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer ${{{KEY}}}"}}
            return Configuration(client, "http", (add,), (Snippet(".mcp.json", _servers(entry)),), (KEYS,))
        case "cursor":
            cursor = {"url": url, "headers": {"Authorization": f"Bearer ${{env:{KEY}}}"}}
            return Configuration(client, "http", (), (Snippet(".cursor/mcp.json", _servers(cursor)),), (KEYS,))
        case _:
            table = f"[mcp_servers.{NAME}]\nurl = {_toml(url)}\nbearer_token_env_var = {_toml(KEY)}\n"
            add = f"codex mcp add {NAME} --url {shlex.quote(url)} --bearer-token-env-var {KEY}"
            return Configuration(client, "http", (add,), (Snippet("~/.codex/config.toml", table),), (KEYS,))


SHARED = "the file is the project's and may be committed: it names no path of this machine"
FOLDER = "a client may start it in another folder; then name the home: --home DIR"
KEYS = f"the key comes from the environment ({KEY}); a server on loopback needs none: leave it out then"


def _notes(client: str, command: Sequence[str]) -> tuple[str, ...]:
    placed = "--home" in command
    portable = [SHARED] if client != "codex" and command[0] == NAME and not placed else []
    return (*portable, *([] if placed else [FOLDER]))


def _servers(entry: object) -> str:
    return json.dumps({"mcpServers": {NAME: entry}}, indent=2, ensure_ascii=False) + "\n"


def _toml(text: str) -> str:
    """A TOML string: JSON escapes what TOML escapes, and DEL besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_list(words: Sequence[str]) -> str:
    return f"[{', '.join(map(_toml, words))}]"
