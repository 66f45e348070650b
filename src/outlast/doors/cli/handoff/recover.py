"""`outlast handoff recover`, `claim`, `renew`, `verify` and `settle`: going on from what somebody handed over.

What a handoff is called on the command line: ANCHOR, ANCHOR@REVISION, or an id.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.exits import REFUSED
from outlast.doors.cli.handoff.views import (
    Results,
    checks_shown,
    command_for,
    outcome_of,
    results_of,
    say_claim,
    say_recovered,
)
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import (
    absolute,
    agree_option,
    anchor_argument,
    objects,
    revision_of,
)
from outlast.doors.cli.render import say, say_all

if TYPE_CHECKING:
    from outlast import HandoffClaim, Recovered, Settlement


TOKENS = 1500


@command("recover", of="handoff_recover", without=("revision",))
@anchor_argument("[ANCHOR]", required=False)
@agree_option
@click.option("--explain", is_flag=True, help="The reasons as a table.")
@click.option("--prompt", is_flag=True, help="As a text for an agent.")
@click.option("--tokens", type=click.IntRange(1), metavar="N", help=f"Of how many tokens at most [{TOKENS}].")
def recover(call: Invocation, anchor: str | None, explain: bool, prompt: bool, tokens: int | None, **given: Any) -> int:
    """A handoff with its verdict here and now: the verdict and its reasons, where to begin, what to do.

    Without ANCHOR, --id or --file: the newest open one of this git branch. Exits 0 when it is trusted or a candidate,
    4 when it is contested or the claim that was asked for is not given.
    """
    _refuse_together(anchor, explain, prompt, tokens, given)
    with call.open() as outlast, checks_shown(call, outlast):
        if anchor is not None:
            anchor, given["revision"] = revision_of(outlast, anchor)
        got = outlast.handoff.recover(anchor, **absolute(given, "file_path", "repo_root"))
        results = results_of(outlast, got)
    if prompt:
        _say_prompt(call, got, tokens or TOKENS)
    else:
        _say(call, got, results, explain=explain)
    return exit_code_of(got)


def _refuse_together(
    anchor: str | None, explain: bool, prompt: bool, tokens: int | None, given: dict[str, Any]
) -> None:
    named = {"ANCHOR": anchor, "--id": given["handoff_id"], "--file": given["file_path"], "--branch": given["branch"]}
    several = [name for name, value in named.items() if value is not None]
    if len(several) > 1:
        raise click.UsageError(f"{' and '.join(several)} each name a handoff; give one of them")
    if tokens is not None and not prompt:
        raise click.UsageError("--tokens is of --prompt; give that too")
    if prompt and explain:
        raise click.UsageError("--prompt and --explain are two ways to show it; give one of them")
    if given["agree"] is not None and not given["run_checks"]:
        raise click.UsageError("--agree is for checks that run; give --run-checks too")
    if given["take"] and not given["claim"]:
        raise click.UsageError("--take takes the claim; give --claim too")


def _say(call: Invocation, got: Recovered, results: Results, *, explain: bool) -> None:
    if call.json:
        call.tell(call.ready(got))
    else:
        say_recovered(call, got, results, explain=explain)


def _say_prompt(call: Invocation, got: Recovered, tokens: int) -> None:
    text = late.reading.prompt(got, tokens, call.reach(whole=True))
    if call.json:
        call.tell(call.ready(got), prompt=text)
    elif sys.stdout.isatty():
        say_all(text)
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def exit_code_of(got: Recovered) -> int:
    """Contested is refused, unless every reason was accepted or the claim was given all the same."""
    if got.resume == "attached":
        return 0
    return REFUSED if got.resume == "lost" or got.verdict.unaccepted(got.accepted) else 0


@command("verify", of="handoff_verify")
@anchor_argument()
@agree_option
@click.option("--explain", is_flag=True, help="The reasons as a table.")
def verify(call: Invocation, anchor: str, explain: bool, **given: Any) -> int:
    """Run the checks and record what came of them; nothing is claimed.

    Commands that somebody else stored are shown and not run, until --agree names their digest; that is remembered.

    Exits 0 when all of them passed and nothing contests, else 4.
    """
    with call.open() as outlast, checks_shown(call, outlast):
        got = outlast.handoff.verify(anchor, **absolute(given))
        results = results_of(outlast, got)
    _say(call, got, results, explain=explain)
    return exit_code_of(got) if all(each.passed for each in got.evidence) else REFUSED


@command("claim", of="handoff_claim")
@anchor_argument()
def claim(call: Invocation, anchor: str, **given: Any) -> int:
    """The exclusive right to continue a handoff, for 15 minutes after its last use.

    It belongs to this terminal; elsewhere it is shown by OUTLAST_CLAIM or --claim-id.
    """
    with call.open() as outlast:
        return _claimed(call, outlast.handoff.claim(anchor, **absolute(given, "file_path", "repo_root")))


@command("renew", of="handoff_renew")
@anchor_argument()
def renew(call: Invocation, anchor: str, **given: Any) -> int:
    """Begin the claim's time anew."""
    with call.open() as outlast:
        return _claimed(call, outlast.handoff.renew(anchor, **given))


def _claimed(call: Invocation, claim: HandoffClaim) -> int:
    return call.tell_or_say(claim, lambda: say_claim(call, claim))


ENDINGS = ("completed", "failed", "released")
STYLES = {"completed": "green", "failed": "red", "released": "yellow"}


@command("settle", of="handoff_settle")
@anchor_argument()
@click.argument("outcome", type=click.Choice(ENDINGS))
@agree_option
def settle(call: Invocation, anchor: str, evidence: tuple[str, ...], **given: Any) -> int:
    """Say how the work ended, and give the claim back.

    completed runs the checks, and is refused while one fails, a file is not as a must says, or a must in prose is not
    acknowledged. failed and released leave the handoff open. --evidence: '{"check": "make test", "passed": true}'.
    """
    said = objects(evidence, "--evidence")
    with call.open() as outlast, checks_shown(call, outlast):
        done = outlast.handoff.settle(anchor, evidence=said, **absolute(given))
    return call.tell_or_say(done, lambda: _say_settled(call, done))


def _say_settled(call: Invocation, done: Settlement) -> None:
    was = "was settled already as" if done.replayed else "settled as"
    say(f"{done.anchor}@{done.revision} {was} {done.outcome} by {done.by}", STYLES[done.outcome])
    for each in done.evidence:
        say(f"  {each.label}: {outcome_of(each)}")
    if done.override:
        say(f"overridden: {done.override}", "yellow")
    for text in done.missing:
        say(f"it lacked: {text}")
    say(f"its score was {done.score} of 100")
    if done.outcome == "completed":
        say(f"storing under it opens it again; its story: {command_for(call, 'history', done.anchor)}")
    else:
        say(f"it is open: {command_for(call, 'recover', done.anchor)}")
