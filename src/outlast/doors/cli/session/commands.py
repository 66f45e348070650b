"""Looking at sessions: the list, one of them, a window.

`outlast session append` and `memo`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import offer_runs
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import (
    ago,
    as_json,
    at,
    brief,
    content_in,
    counted,
    emit_exactly,
    facts,
    say,
    say_all,
    table,
)

if TYPE_CHECKING:
    from outlast.sessions.session import Memo, Message, Session, Window


@command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
def list_(door: Door, limit: int) -> int:
    """List the sessions, those that were written to last first."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.sessions.list(limit)
    if door.json:
        emit_exactly({"sessions": jsonable(found)})
    elif found:
        table(("SESSION", "MESSAGES", "MEMO", "RUNS", "AGE"), [_row(one) for one in found])
    else:
        say("no sessions yet; append a message: outlast session append SESSION TEXT")
    return 0


def _row(one: Session) -> tuple[object, ...]:
    memo = f"up to {one.memo.upto}" if one.memo and one.memo.text else ""
    return brief(one.id, 60), one.messages, memo, len(one.runs), ago(one.updated_at)


@command("show")
@click.argument("session_id", metavar="SESSION")
@click.option("--last", metavar="N", default=20, show_default=True, type=click.IntRange(0), help="How many messages.")
@click.option("--after", metavar="SEQ", type=click.IntRange(0), help="Instead, the first N after this one.")
def show(door: Door, session_id: str, last: int, after: int | None) -> int:
    """One session: its memo, the runs that were started for it, its newest messages."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.sessions.get(session_id)
        if after is None:
            messages = outlast.sessions.last(session_id, last)
        else:
            messages = outlast.sessions.messages(session_id, after=after, limit=last)
    if door.json:
        emit_exactly({"session": jsonable(found), "messages": jsonable(messages)})
        return 0
    _say_session(found)
    say_messages(messages)
    if len(messages) < found.messages:
        say(f"[{len(messages)} of {counted(found.messages, 'message')} shown; --last N and --after SEQ show others]")
    return 0


def _say_session(found: Session) -> None:
    facts(
        [
            ("session", found.id),
            ("scope", found.scope if found.scope != "default" else ""),
            ("messages", found.messages),
            ("made", f"{at(found.created_at)} by {found.actor}"),
            ("written to", at(found.updated_at)),
            ("meta", as_json(found.meta) if found.meta else ""),
            ("runs", ", ".join(found.runs)),
        ]
    )
    say_memo(found.memo)


def say_memo(memo: Memo | None) -> None:
    """The memo in full, if there is one."""
    if memo is None or not memo.text:
        return
    say(f"memo (version {memo.version}, for the messages up to {memo.upto}, by {memo.actor}):")
    say_all(memo.text, "  ")


def say_messages(messages: list[Message] | tuple[Message, ...]) -> None:
    """Each message in full, under a line that says whose it is."""
    for message in messages:
        of = f", run {message.run_id}" if message.run_id else ""
        say(f"#{message.seq} {message.role} ({at(message.at)}{of}):", "bold")
        say_all(message.text, "  ")


@command("window")
@click.argument("session_id", metavar="SESSION")
@click.option("--tokens", metavar="N", required=True, type=click.IntRange(0), help="How many tokens at most.")
def window(door: Door, session_id: str, tokens: int) -> int:
    """What of a session fits in N tokens, by an estimate that errs high: the memo, the system messages, and the newest
    others, each whole. Says what was left out.
    """
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.sessions.window(session_id, tokens)
    if door.json:
        emit_exactly(jsonable(found))
        return 0
    say_memo(found.memo)
    say_messages(found.messages)
    say(f"[{_summary(found)}]")
    return 0


def _summary(found: Window) -> str:
    parts = [f"{found.tokens} of {found.limit} tokens", f"{counted(len(found.messages), 'message')} shown"]
    parts += [f"{found.covered} covered by the memo"] if found.covered else []
    parts += [f"the memo left out: it needs {found.memo_need} tokens"] if found.memo_need else []
    parts += [f"{found.left_out} left out"] if found.left_out else []
    parts += [f"#{each.seq} does not fit: it needs {each.need}" for each in found.too_large]
    return ", ".join(parts)


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
