"""Looking at sessions: the list, one of them, a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import ago, as_json, at, brief, counted, emit_exactly, facts, say, say_all, table

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
