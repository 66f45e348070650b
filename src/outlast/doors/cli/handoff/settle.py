"""`outlast handoff settle`: how the work ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import anchor_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.handoff.checks import checks_shown
from outlast.doors.cli.handoff.names import command_for
from outlast.doors.cli.handoff.recover import actor_option, agree_option, claim_id_option, operation_option, repo_option
from outlast.doors.cli.handoff.store import objects
from outlast.doors.cli.render import emit, say

if TYPE_CHECKING:
    from outlast.handoffs.recovered import Settlement

ENDINGS = ("completed", "failed", "released")
STYLES = {"completed": "green", "failed": "red", "released": "yellow"}


@command("settle")
@anchor_argument()
@click.argument("outcome", type=click.Choice(ENDINGS))
@click.option("--ack", "acknowledged", multiple=True, metavar="TEXT", help="A must in prose, word for word; repeat.")
@click.option("--missing", multiple=True, metavar="TEXT", help="What the handoff lacked; repeat.")
@click.option("--evidence", multiple=True, metavar="JSON", help="What came of a check, or @FILE; repeat.")
@click.option("--override", default="", metavar="WHY", help="Why it counts as completed all the same.")
@click.option("-m", "--note", default="", metavar="TEXT", help="What else there is to say.")
@click.option("--no-checks", is_flag=True, help="Run no checks; those on record must do.")
@agree_option
@repo_option
@claim_id_option
@operation_option
@actor_option
def settle(door: Door, anchor: str, evidence: tuple[str, ...], no_checks: bool, **given: Any) -> int:
    """Say how the work ended, and give the claim back.

    completed runs the checks, and is refused while one fails, a file is not as a must says, or a must in prose is not
    acknowledged. failed and released leave the handoff open. --evidence: '{"check": "make test", "passed": true}'.
    """
    from outlast.values.codec import jsonable

    if given["repo_root"] is not None:
        given["repo_root"] = os.path.abspath(given["repo_root"])
    said = objects(evidence, "--evidence")
    with door.open() as outlast, checks_shown(door, outlast):
        done = outlast.handoff.settle(anchor, evidence=said, run_checks=not no_checks, **given)
    if door.json:
        emit(jsonable(done))
    else:
        _say_settled(door, done)
    return 0


def _say_settled(door: Door, done: Settlement) -> None:
    from outlast.doors.cli.handoff.views import outcome_of
    from outlast.handoffs.verdict import label_of

    was = "was settled already as" if done.replayed else "settled as"
    say(f"{done.anchor}@{done.revision} {was} {done.outcome} by {done.by}", STYLES[done.outcome])
    for each in done.evidence:
        say(f"  {label_of(each.check)}: {outcome_of(each)}")
    if done.override:
        say(f"overridden: {done.override}", "yellow")
    for text in done.missing:
        say(f"it lacked: {text}")
    say(f"its score was {done.score} of 100")
    if done.outcome == "completed":
        say(f"storing under it opens it again; its story: {command_for(door, 'history', done.anchor)}")
    else:
        say(f"it is open: {command_for(door, 'recover', done.anchor)}")
