"""`outlast handoff recover`, `claim`, `renew` and `verify`: going on from what somebody handed over."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import anchor_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED
from outlast.doors.cli.handoff.checks import Results, checks_shown, results_of
from outlast.doors.cli.handoff.names import revision_of
from outlast.doors.cli.render import emit, emit_exactly, say_all

if TYPE_CHECKING:
    from outlast.handoffs.handoff import HandoffClaim
    from outlast.handoffs.recovered import Recovered

TOKENS = 1500

repo_option = click.option("--repo", "repo_root", metavar="DIR", help="Where the files are [here].")
actor_option = click.option("--actor", metavar="NAME", help="Who does this [local].")
claim_id_option = click.option("--claim-id", metavar="ID", help="Show a claim that was made elsewhere.")
operation_option = click.option("--operation-id", metavar="ID", help="The same one again does nothing twice.")
take_option = click.option("--take", is_flag=True, help="Take the claim from who holds it; needs --why.")
why_option = click.option("--why", default="", metavar="WHY", help="Why; it is on the record.")
agree_option = click.option(
    "--agree", metavar="DIGEST", help="Run commands that somebody else stored, if this is their digest."
)
accept_option = click.option(
    "--accept",
    multiple=True,
    metavar="CODE[:SUBJECT]",
    help="Take what contests upon you, as found; repeat; needs --why.",
)


@command("recover")
@anchor_argument("[ANCHOR]", required=False)
@click.option("--id", "handoff_id", metavar="ID", help="The handoff of this id, instead of ANCHOR.")
@click.option("--file", "file_path", metavar="FILE", help="The one about this file, instead of ANCHOR.")
@click.option("--symbol", metavar="NAME", help="Where in that file.")
@click.option("--branch", metavar="NAME", help="The newest of this git branch, instead of the one checked out.")
@repo_option
@click.option("--run-checks", is_flag=True, help="Run its checks, and record what came of them.")
@click.option("--claim", is_flag=True, help="Claim it too, if nothing contests.")
@take_option
@accept_option
@why_option
@claim_id_option
@agree_option
@click.option("--include-finished", is_flag=True, help="Also if its work was completed.")
@click.option("--explain", is_flag=True, help="The reasons as a table.")
@click.option("--prompt", is_flag=True, help="As a text for an agent.")
@click.option("--tokens", type=click.IntRange(1), metavar="N", help=f"Of how many tokens at most [{TOKENS}].")
@operation_option
@actor_option
def recover(door: Door, anchor: str | None, explain: bool, prompt: bool, tokens: int | None, **given: Any) -> int:
    """A handoff with its verdict here and now: the verdict and its reasons, where to begin, what to do.

    Without ANCHOR, --id or --file: the newest open one of this git branch. Exits 0 when it is trusted or a candidate,
    4 when it is contested or the claim that was asked for is not given.
    """
    _refuse_together(anchor, explain, prompt, tokens, given)
    with door.open() as outlast, checks_shown(door, outlast):
        if anchor is not None:
            anchor, given["revision"] = revision_of(outlast, anchor)
        got = outlast.handoff.recover(anchor, **_places(given))
        results = results_of(outlast, got)
    if prompt:
        _say_prompt(door, got, tokens or TOKENS)
    else:
        _say(door, got, results, explain=explain)
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


def _places(given: dict[str, Any]) -> dict[str, Any]:
    """What was given, with files and folders named so that it does not matter from where."""
    for name in ("file_path", "repo_root"):
        if given.get(name):
            given[name] = os.path.abspath(given[name])
    return given


def _say(door: Door, got: Recovered, results: Results, *, explain: bool) -> None:
    from outlast.doors.cli.handoff.views import say_recovered
    from outlast.handoffs.reading import in_order, ready

    if door.json:
        emit_exactly(in_order(ready(got, door.reach(whole=True))))
    else:
        say_recovered(door, got, results, explain=explain)


def _say_prompt(door: Door, got: Recovered, tokens: int) -> None:
    from outlast.handoffs.reading import in_order, prompt, ready

    text = prompt(got, tokens, door.reach(whole=True))
    if door.json:
        emit_exactly(in_order(ready(got, door.reach(whole=True))) | {"prompt": text})
    elif sys.stdout.isatty():
        say_all(text)
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def exit_code_of(got: Recovered) -> int:
    """Contested is refused, unless every reason was accepted or the claim was given all the same."""
    from outlast.ledger.verdict import unaccepted

    if got.resume == "attached":
        return 0
    return REFUSED if got.resume == "lost" or unaccepted(got.verdict, got.accepted) else 0


@command("verify")
@anchor_argument()
@repo_option
@agree_option
@click.option("--explain", is_flag=True, help="The reasons as a table.")
def verify(door: Door, anchor: str, repo_root: str | None, agree: str | None, explain: bool) -> int:
    """Run the checks and record what came of them; nothing is claimed.

    Commands that somebody else stored are shown and not run, until --agree names their digest; that is remembered.

    Exits 0 when all of them passed and nothing contests, else 4.
    """
    with door.open() as outlast, checks_shown(door, outlast):
        got = outlast.handoff.verify(anchor, agree=agree, **_places({"repo_root": repo_root}))
        results = results_of(outlast, got)
    _say(door, got, results, explain=explain)
    return exit_code_of(got) if all(each.passed for each in got.evidence) else REFUSED


@command("claim")
@anchor_argument()
@take_option
@accept_option
@why_option
@repo_option
@operation_option
@actor_option
def claim(door: Door, anchor: str, **given: Any) -> int:
    """The exclusive right to continue a handoff, for 15 minutes after its last use.

    It belongs to this terminal; elsewhere it is shown by OUTLAST_CLAIM or --claim-id.
    """
    with door.open() as outlast:
        return _claimed(door, outlast.handoff.claim(anchor, **_places(given)))


@command("renew")
@anchor_argument()
@claim_id_option
@actor_option
def renew(door: Door, anchor: str, claim_id: str | None, actor: str | None) -> int:
    """Begin the claim's time anew."""
    with door.open() as outlast:
        return _claimed(door, outlast.handoff.renew(anchor, claim_id=claim_id, actor=actor))


def _claimed(door: Door, claim: HandoffClaim) -> int:
    from outlast.doors.cli.handoff.views import say_claim
    from outlast.values.codec import jsonable

    if door.json:
        emit(jsonable(claim))
    else:
        say_claim(door, claim)
    return 0
