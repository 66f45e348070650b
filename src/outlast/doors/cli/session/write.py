"""`outlast session append` and `memo`."""

from __future__ import annotations

import json
from typing import Any

import click

from outlast.doors.cli.completion import offer_runs
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import at, content_in, emit_exactly, say
from outlast.doors.cli.session.look import say_memo


@command("append")
@click.argument("session_id", metavar="SESSION")
@click.argument("text", metavar="TEXT")
@click.option(
    "--role", metavar="ROLE", default="user", show_default=True, help="Whose: user, assistant, system, tool, …"
)
@click.option("--as-json", "parsed", is_flag=True, help="TEXT is a JSON value, and kept as one.")
@click.option("--meta", metavar="JSON", help="An object to keep beside it.")
@click.option(
    "--run", "run_id", metavar="RUN", default="", shell_complete=offer_runs, help="The run that it came from."
)
@click.option("--operation-id", metavar="ID", help="The same one again appends nothing twice.")
@click.option("--actor", metavar="NAME", help="Who appends it [local].")
def append(door: Door, session_id: str, text: str, role: str, parsed: bool, meta: str | None, **given: Any) -> int:
    """Append a message to SESSION, durable when this returns. `-` reads TEXT from standard input, whole."""
    from outlast.values.codec import jsonable

    whole = _whole(text)
    content = _value("TEXT", whole) if parsed else whole
    beside = _value("--meta", meta) if meta is not None else None
    with door.open(make=True) as outlast:
        if given["run_id"]:
            given["run_id"] = outlast.get(given["run_id"]).id
        message = outlast.sessions.append(session_id, role, content, meta=beside, **given)
    if door.json:
        emit_exactly(jsonable(message))
    else:
        what = "was appended already" if message.replayed else "appended"
        say(f"message {message.session_id}/{message.seq} {what}", "green")
    return 0


@command("memo")
@click.argument("session_id", metavar="SESSION")
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--upto", metavar="SEQ", type=click.IntRange(0), help="It stands for the messages up to this one.")
@click.option("--expect", "expected", metavar="N", type=click.IntRange(0), help="Only if version N is the newest.")
@click.option("--operation-id", metavar="ID", help="The same one again sets nothing twice.")
@click.option("--actor", metavar="NAME", help="Who sets it [local].")
def memo(door: Door, session_id: str, text: str | None, **given: Any) -> int:
    """Show the memo of SESSION; with TEXT, set it. `-` reads TEXT from standard input; an empty TEXT takes it away."""
    from outlast.values.codec import jsonable

    if text is None and any(value is not None for value in given.values()):
        raise click.UsageError("TEXT is missing: what the memo says")
    with door.open() as outlast:
        found = outlast.sessions.memo(session_id) if text is None else None
        if text is not None:
            found = outlast.sessions.set_memo(session_id, _whole(text), **given)
    if door.json:
        emit_exactly({"memo": jsonable(found)})
    elif text is not None and found is not None:
        say(f"memo of {session_id} {'was set already' if found.replayed else 'set'}: version {found.version}", "green")
    elif found is None or not found.text:
        say(f"session {session_id} has no memo" + (f" (taken away at {at(found.at)})" if found else ""))
    else:
        say_memo(found)
    return 0


def _whole(text: str) -> str:
    """The text, or what stands on standard input."""
    if text != "-":
        return text
    try:
        return content_in().read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8: {error}") from error


def _value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name} is not JSON: {error}") from error
