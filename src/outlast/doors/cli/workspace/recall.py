"""`outlast workspace recall`: what matters for a goal, within a number of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from outlast.doors.cli.completion import offer_tasks
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.render import brief, counted, emit_exactly, say, say_all, table

if TYPE_CHECKING:
    from outlast.workspace.recall.pack import ContextPack, LeftOut

_KINDS = click.Choice(["observation", "decision", "evidence", "note", "artifact", "checkpoint"])
SHOWN = 5  # refs of what was left out
_REASONS = {  # of what is left out, in words
    "no_match": "do not match",
    "over_budget": "did not fit",
    "duplicate": "say what is there already",
    "low_rank": "came after the last one asked for",
}


@command("recall")
@click.argument("goal", metavar="GOAL")
@click.option("--budget", default=2000, show_default=True, type=click.IntRange(1), help="Tokens to fill.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, type=_KINDS, help="Only of this kind; may be repeated.")
@click.option("--task", metavar="TASK", shell_complete=offer_tasks, help="Also the musts of this task.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="No more than so many.")
@click.option("--tokenizer", metavar="MODULE:FUNCTION", help="Count tokens by it [OUTLAST_TOKENIZER, else estimated].")
@click.option("--explain", is_flag=True, help="Why each was chosen, as a table.")
@click.option("--prompt", is_flag=True, help="As a text for a model, and nothing else.")
def recall(
    door: Door,
    goal: str,
    budget: int,
    kinds: tuple[str, ...],
    task: str | None,
    limit: int | None,
    tokenizer: str | None,
    explain: bool,
    prompt: bool,
) -> int:
    """Recall what matters for GOAL: records, artifacts and checkpoints of the scope, the best first.

    `-` reads the goal from standard input, @FILE from a file. Pinned records are always there.
    """
    from outlast.doors.cli.workspace.records import said

    if explain and prompt:
        raise click.UsageError("--explain and --prompt do not go together")
    words = said(goal, "GOAL")
    with door.open() as outlast:
        pack = outlast.workspace.recall(words, budget, kinds=kinds or None, task=task, limit=limit, tokens_of=tokenizer)
    if door.json:
        from outlast.values.codec import jsonable

        emit_exactly({**jsonable(pack), "prompt": pack.prompt()})
    elif prompt:
        say_all(pack.prompt())
    elif explain:
        _explain(pack)
    else:
        _say(door, pack)
    return 0


def _say(door: Door, pack: ContextPack) -> None:
    for entry in pack.entries:
        marks = [entry.kind, entry.actor, f"{entry.at:%Y-%m-%d}", "" if entry.standing == "stands" else entry.standing]
        say(f"{entry.ref}  {', '.join(filter(None, marks))}")
        say_all(entry.excerpt, "    ")
    _summary(pack)
    if pack.entries:
        again = door.command("workspace", "recall", "--explain", "--", pack.goal)
        say(f"why each: {again}" if len(again) <= 300 else "why each: the same with --explain")


def _explain(pack: ContextPack) -> None:
    rows = [
        (f"{entry.score:.3f}", entry.tokens, entry.ref, "; ".join(entry.why), brief(entry.excerpt, 40))
        for entry in pack.entries
    ]
    if rows:
        table(("SCORE", "TOKENS", "REF", "WHY", "EXCERPT"), rows)
    _summary(pack)


def _summary(pack: ContextPack) -> None:
    if not pack.matched:
        say("nothing recorded matches this goal" if pack.considered else "nothing is recorded in this scope yet")
    if pack.entries:
        say(f"{counted(len(pack.entries), 'item')}, {pack.tokens:,} of {pack.budget:,} tokens")
    for left in pack.left_out:
        say(f"left out: {left.count:,} that {_REASONS.get(left.reason, left.reason)}{_named(left)}")


def _named(left: LeftOut) -> str:
    """The first of them; of what does not match none, since that may be anything."""
    if left.reason == "no_match":
        return ""
    more = f" and {left.count - SHOWN:,} more" if left.count > SHOWN else ""
    return f": {', '.join(left.refs[:SHOWN])}{more}"
