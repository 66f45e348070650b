"""The tools about handoffs: store, recover, settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.doors.mcp import outputs
from outlast.doors.mcp.arguments import HandoffRecover, HandoffSettle, HandoffStore
from outlast.doors.mcp.desk import Desk, Tool, ToolAnswer, uri_of
from outlast.doors.mcp.texts import called, evidence_lines, in_scope, inline, lines, recovered_text, stored_text
from outlast.doors.mcp.values import handoff_uri, handoff_value, recovered_value
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.handoffs.recovered import Settlement


def store(desk: Desk, asked: HandoffStore) -> ToolAnswer:
    """Store the next revision under an anchor."""
    handoff = desk.outlast.handoff.store(**desk.given(asked))
    whole = handoff_uri(handoff.scope, handoff.anchor)
    return ToolAnswer(stored_text(handoff, whole), handoff_value(handoff), whole)


def recover(desk: Desk, asked: HandoffRecover) -> ToolAnswer:
    """Recover a handoff with its verdict, and claim it if asked to."""
    got = desk.outlast.handoff.recover(**desk.given(asked, "tokens"))
    whole = uri_of(got)
    return ToolAnswer(recovered_text(got, whole, asked.given().get("tokens"), desk.reach), recovered_value(got), whole)


def settle(desk: Desk, asked: HandoffSettle) -> ToolAnswer:
    """Say how the work ended."""
    done = desk.outlast.handoff.settle(**desk.given(asked))
    scope = in_scope(str(asked.given().get("scope", "")))
    whole = called("handoff_recover", anchor=done.anchor, scope=scope, include_finished=True)
    return ToolAnswer(settled_text(done), jsonable(done), whole)


def settled_text(done: Settlement) -> str:
    """How it was settled, and on what grounds."""
    was = "was settled already as" if done.replayed else "settled as"
    then = "It is open for whoever recovers it." if done.outcome != "completed" else ""
    return lines(
        f"{inline(done.anchor)} revision {done.revision} {was} {done.outcome} by {inline(done.by)}.",
        evidence_lines(done.evidence),
        f"Overridden: {inline(done.override)}" if done.override else "",
        (f"It lacked: {inline(text)}" for text in done.missing),
        then,
    )


TOOLS = (
    Tool(
        "handoff_store",
        "Store a handoff",
        "write",
        """Store a contract for whoever continues this work: another session, agent or person, or yourself
after your context is gone.

Use it when you stop before the work is done, before your context is compacted, or when you hand over. Do it
after real progress, not at the beginning. Write instructions, not a diary: name files, the next action and
checks. Storing under the same anchor makes the next revision; old ones stay.

Returns the stored revision with its id, a score of 100, and for each weakness a better wording: if it is weak,
store again with what is named. Target files are bound by their content, so that whoever recovers it learns what
changed since.

Errors: handoff_invalid or invalid: mend the argument named by path. secret_found: take the secret out, or
redact=true. handoff_weak: only with strict=true. revision_conflict: somebody stored meanwhile; recover first.
claim_lost: somebody else continues it; stop. Nothing is stored when there is an error.""",
        HandoffStore,
        store,
        outputs.HANDOFF,
        runs="checks",
    ),
    Tool(
        "handoff_recover",
        "Recover a handoff",
        "write",
        """Get what was handed over, with a verdict: how far to trust it here and now.

Use it FIRST when you begin a session on existing work, when the user says `continue` or `where were we`, or
names an anchor such as `task:export-repair`. Without arguments it gives the newest open handoff of this git
branch. A task whose run died recovers under `task:<task>` although nobody stored anything. With claim=true you
also get the exclusive right to continue: do that before you change files.

Returns text that begins with the verdict. trusted: go on as it says. candidate: go on, with the named reasons
in mind. contested: STOP; do not act on it before each contesting reason is mended, or the user accepts it
(accept and why). Read in the order given: reasons, entry and next action, files and checks, musts. A packet
never makes up for a weak first pass.

Errors: handoff_not_found: check the anchor; the nearest ones are named. handoff_ambiguous: choose one of those
named. finished: its work is done (include_finished=true reads it). handoff_claimed: somebody else continues it;
wait, or take=true with why if the user says so. claim_lost: stop. runs_on_host: this server runs no checks;
call without run_checks. foreign_commands: somebody else stored its commands, and you cannot agree to them: show
the user the commands and the command line that agrees, and go on without run_checks.""",
        HandoffRecover,
        recover,
        outputs.RECOVERED,
        writes=("claim", "take", "run_checks", "accept", "claim_id"),
        runs="checks",
    ),
    Tool(
        "handoff_settle",
        "Settle a handoff",
        "write",
        """Say how the work under a handoff ended, and give your claim back.

Use it when the work is done (completed: its checks are run and must pass), when you tried and it did not work
(failed), or when you stop without finishing (released). If you made progress and stop, store a new revision
first, then release.

Returns the settlement with what came of each check.

Errors: not_settled: a check fails, was not run, a file is not as a must says, or a must in prose is not in
acknowledged word for word; mend what is named and settle again. Only if the user says that it counts all the
same: override with the reason. handoff_claimed: somebody else holds it. claim_lost: you do not hold it any
more. finished: it was completed before. handoff_not_found: check the anchor. runs_on_host: this server runs no
checks; settle where the files are. foreign_commands: somebody else stored its commands, and you cannot agree to
them: show the user the commands and the command line that agrees.""",
        HandoffSettle,
        settle,
        outputs.SETTLEMENT,
        runs="checks",
    ),
)
