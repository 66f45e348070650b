"""`outlast session`: conversations. The list of its commands, and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import parsed, session_argument, text_of
from outlast.doors.cli.render import ago, as_json, at, brief, counted, facts, say, say_all

if TYPE_CHECKING:
    from outlast import Memo, Message, Session, Window


@command("list", of="session_list", without=("cursor",))
def list_(call: Invocation, limit: int) -> int:
    """List the sessions, those that were written to last first."""
    with call.open() as outlast:
        found = outlast.sessions.list(limit)
    instead = "no sessions yet; append a message: outlast session append SESSION TEXT"
    return call.tell_list(found, ("SESSION", "MESSAGES", "MEMO", "RUNS", "AGE"), _row, instead)


def _row(one: Session) -> tuple[object, ...]:
    memo = f"up to {one.memo.upto}" if one.memo and one.memo.text else ""
    return brief(one.id, 60), one.messages, memo, len(one.runs), ago(one.updated_at)


@command("show", of="session_messages", without=("limit", "cursor"))
@session_argument
@click.option("--last", metavar="N", default=20, show_default=True, type=click.IntRange(0), help="How many messages.")
@click.option("--after", metavar="SEQ", type=click.IntRange(0), help="Instead, the first N after this one.")
def show(call: Invocation, session_id: str, last: int, after: int | None) -> None:
    """One session: its memo, the runs that were started for it, its newest messages."""
    with call.open() as outlast:
        found = outlast.sessions.get(session_id)
        if after is None:
            messages = outlast.sessions.last(session_id, last)
        else:
            messages = outlast.sessions.messages(session_id, after=after, limit=last)
    if call.json:
        call.tell(messages, session=found)
        return
    _say_session(found)
    say_messages(messages)
    if len(messages) < found.messages:
        say(f"[{len(messages)} of {counted(found.messages, 'message')} shown; --last N and --after SEQ show others]")


def _say_session(found: Session) -> None:
    facts(
        ("session", found.id),
        ("scope", found.scope if found.scope != "default" else ""),
        ("messages", found.messages),
        ("made", f"{at(found.created_at)} by {found.actor}"),
        ("written to", at(found.updated_at)),
        ("meta", as_json(found.meta) if found.meta else ""),
        ("runs", ", ".join(found.runs)),
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


@command("window", of="session_window")
@session_argument
def window(call: Invocation, session_id: str, tokens: int) -> None:
    """What of a session fits in N tokens, by an estimate that errs high: the memo, the system messages, and the newest
    others, each whole. Says what was left out.
    """
    with call.open() as outlast:
        found = outlast.sessions.window(session_id, tokens)
    if call.json:
        call.tell(found)
        return
    say_memo(found.memo)
    say_messages(found.messages)
    say(f"[{_summary(found)}]")


def _summary(found: Window) -> str:
    parts = [f"{found.tokens} of {found.limit} tokens", f"{counted(len(found.messages), 'message')} shown"]
    parts += [f"{found.covered} covered by the memo"] if found.covered else []
    parts += [f"the memo left out: it needs {found.memo_need} tokens"] if found.memo_need else []
    parts += [f"{found.left_out} left out"] if found.left_out else []
    parts += [f"#{each.seq} does not fit: it needs {each.need}" for each in found.too_large]
    return ", ".join(parts)


@command("append", of="session_append", without=("content",))
@session_argument
@click.argument("text", metavar="TEXT")
@click.option(
    "--role", metavar="ROLE", default="user", show_default=True, help="Whose: user, assistant, system, tool, …"
)
@click.option("--as-json", "as_value", is_flag=True, help="TEXT is a JSON value, and kept as one.")
def append(
    call: Invocation, session_id: str, text: str, role: str, as_value: bool, meta: str | None, **given: Any
) -> int:
    """Append a message to SESSION, durable when this returns. `-` reads TEXT from standard input, whole."""
    whole = text_of(text, "TEXT", files=False)
    content = parsed(whole, "TEXT is not JSON") if as_value else whole
    beside = parsed(meta, "--meta is not JSON") if meta is not None else None
    with call.open(make=True) as outlast:
        if given["run_id"]:
            given["run_id"] = outlast.get(given["run_id"]).id
        message = outlast.sessions.append(session_id, role, content, meta=beside, **given)
    what = "was appended already" if message.replayed else "appended"
    return call.tell_line(message, f"message {message.session_id}/{message.seq} {what}", "green")


@command("memo", of="session_set_memo", as_given=True)
@session_argument
@click.argument("text", metavar="[TEXT]", required=False)
def memo(call: Invocation, session_id: str, text: str | None, **given: Any) -> None:
    """Show the memo of SESSION; with TEXT, set it. `-` reads TEXT from standard input; an empty TEXT takes it away."""
    if text is None and any(value is not None for value in given.values()):
        raise click.UsageError("TEXT is missing: what the memo says")
    with call.open() as outlast:
        found = outlast.sessions.memo(session_id) if text is None else None
        if text is not None:
            found = outlast.sessions.set_memo(session_id, text_of(text, "TEXT", files=False), **given)
    if call.json:
        call.tell({"memo": found})
    elif text is not None and found is not None:
        say(f"memo of {session_id} {'was set already' if found.replayed else 'set'}: version {found.version}", "green")
    elif found is None or not found.text:
        say(f"session {session_id} has no memo" + (f" (taken away at {at(found.at)})" if found else ""))
    else:
        say_memo(found)


SECTIONS: Sections = {
    "Look": {
        "list": ("session:list_", "The sessions, those written to last first."),
        "show": ("session:show", "A session: its memo, its runs, its newest messages."),
        "window": ("session:window", "What of it fits in a number of tokens."),
    },
    "Write": {"append": ("session:append", "Append a message."), "memo": ("session:memo", "Show the memo, or set it.")},
}


@click.group("session", cls=CommandGroup, sections=SECTIONS)
def session() -> None:
    """Conversations: messages in order, a window of them that fits a model,
    and a memo that may stand for the older ones. SESSION is an id of your
    choice, whole. The first message makes a session.

    A session is not a task's memory: no run depends on it. What is in it is
    kept as plain text.
    """
