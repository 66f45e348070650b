"""`outlast handoff`: the list of its commands; and `recover`, `claim`, `renew`, `verify` and `settle`: going on from
what somebody handed over. `carry.py` and `store.py` have the others.

What a handoff is called on the command line: ANCHOR, ANCHOR@REVISION, or an id.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from outlast.clock import moment
from outlast.doors.cli import late
from outlast.doors.cli.entry import REFUSED, TERMINATED
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import CLAIM, Invocation, command
from outlast.doors.cli.options import absolute, agree_option, anchor_argument, objects, refuse_if, revision_of
from outlast.doors.cli.outcomes import say_verdict, say_word
from outlast.doors.cli.render import ago, at, brief, clean, counted, facts, fit, say, say_all, span
from outlast.doors.cli.screen import Screen
from outlast.values.text import carry, last_lines

if TYPE_CHECKING:
    from outlast import (
        Binding,
        Contract,
        Evidence,
        Handoff,
        HandoffClaim,
        Lint,
        Outlast,
        Recovered,
        Settlement,
        Verdict,
    )

TOKENS = 1500
SECTIONS: Sections = {
    "Hand over": {
        "store": ("store:store", "Store the next revision of a handoff."),
        "lint": ("store:lint", "What would make a handoff better; nothing is stored."),
    },
    "Continue": {
        "recover": ("handoff:recover", "A handoff with its verdict, here and now."),
        "claim": ("handoff:claim", "The exclusive right to continue it, for 15 minutes."),
        "renew": ("handoff:renew", "Begin the claim's time anew."),
        "verify": ("handoff:verify", "Run its checks, and record what came of them."),
        "settle": ("handoff:settle", "Say how the work ended, and give the claim back."),
    },
    "Look": {
        "list": ("carry:list_", "The newest handoffs."),
        "show": ("carry:show", "A revision exactly as it was stored."),
        "history": ("carry:history", "Everything that happened under an anchor."),
    },
    "Carry": {
        "diff": ("carry:diff", "What changed since it was stored, or between revisions."),
        "apply": ("carry:apply", "Bring its work into this clone: all of it, or nothing."),
        "export": ("carry:export", "A handoff with its history as one file."),
        "import": ("carry:import_", "Bring in such a file."),
    },
}


@click.group("handoff", cls=CommandGroup, sections=SECTIONS)
def handoff() -> None:
    """Hand work over to whoever continues it: another process, machine, agent
    or person. What is stored is a contract under an ANCHOR, a name of your
    choice; recovering it says with reasons how far it may be trusted.

    ANCHOR@3 names its third revision. Claims belong to the terminal that made
    them; elsewhere a claim is shown by --claim-id ID or OUTLAST_CLAIM=ID.
    """


@command("recover", of="handoff_recover", without=("revision",))
@anchor_argument(metavar="[ANCHOR]", required=False)
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
    refuse_if(len(several) > 1, f"{' and '.join(several)} each name a handoff; give one of them")
    refuse_if(tokens is not None and not prompt, "--tokens is of --prompt; give that too")
    refuse_if(prompt and explain, "--prompt and --explain are two ways to show it; give one of them")
    if given["agree"] is not None and not given["run_checks"]:
        raise click.UsageError("--agree is for checks that run; give --run-checks too")
    refuse_if(given["take"] and not given["claim"], "--take takes the claim; give --claim too")


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


# -- a handoff on the screen -------------------------------------------------------------------------


FOUND = 200  # characters of what was found, where --explain or --json has all
MUSTS = {"must_change": "must change", "must_remove": "must remove", "must_keep": "must keep", "rollback": "rollback"}
MARKS = {"contests": "✗", "weakens": "!", "notes": "·"}


def say_recovered(call: Invocation, got: Recovered, results: Results, *, explain: bool) -> None:
    """All that a worker needs to go on, and in which order to take it."""
    if explain:
        say_verdict(got.verdict, unsaid=(), accepted=got.accepted, call=call)
    else:
        say_reasons(call, got.verdict, got.accepted, shown_claim(got.claim))
    say_failed(call, got, results)
    if got.diff:
        say_all(got.diff, "  ")
    say()
    handoff = got.handoff_with(lambda text: call.pasted(text, shown_claim(got.claim)))
    say_entry(handoff, got, call)
    say_contract(handoff, got.evidence, results.recorded)
    say_record(handoff)
    for note in got.notes:
        say(note, "yellow")
    if got.claim:
        say()
        say_claim(call, got.claim)
    elif got.resume == "lost":
        say()
        held = any(reason.code == "claimed" for reason in got.verdict.contesting)
        way = "take it over (--take --why WHY)" if held else "accept it (--accept CODE[:SUBJECT] --why WHY)"
        say(f"the claim was not given: see to what contests, or {way}", "red")


def say_failed(call: Invocation, got: Recovered, results: Results) -> None:
    """How many of the checks that were run just now failed, and what those printed last."""
    failed = [each for each in got.evidence if not each.passed]
    if not failed:
        return
    say(f"{len(failed)} of {counted(len(got.evidence), 'check')} failed:", "red")
    checks = got.handoff.acceptance_checks
    for each in failed:
        say(f"  {each.label}: {outcome_of(each)}", "red")
        for line in results.printed.get(each.key, ()):
            say(f"    {line}")
        if each.output and got.handoff.revision and each.check in checks:
            words = ("--output", str(checks.index(each.check) + 1))
            say(f"    all it printed: {command_for(call, 'show', got.anchor, *words)}")


def say_reasons(call: Invocation, verdict: Verdict, accepted: Sequence[str] = (), claim: str = "") -> None:
    """The verdict in a word, then what bears on it with what to do about it; of what was accepted, that it was."""
    say_word(verdict, accepted)
    styles = {"contests": "red", "weakens": "yellow"}
    for reason in sorted(verdict.reasons, key=lambda each: [*MARKS].index(each.weight)):
        taken = reason.fingerprint in accepted
        mark, style = ("✓", "dim") if taken else (MARKS[reason.weight], styles.get(reason.weight, "dim"))
        found = fit(reason.found, FOUND) + (", accepted" if taken else "")
        say(f"  {mark} {reason.code} {reason.subject}: {found} (expected: {brief(reason.expected)})", style)
        if not taken:
            say(f"    {call.pasted(reason.advice, claim)}")


def say_entry(handoff: Handoff, got: Recovered | None = None, call: Invocation | None = None) -> None:
    """Where to begin and what to do; and what was found about it, if somebody looked."""
    file, symbol = handoff.entry
    name = f"{handoff.anchor}@{handoff.revision}" if handoff.revision else handoff.anchor
    pairs = [
        ("anchor", f"{name} ({got.standing})" if got else name),
        ("entry", f"{file}, {symbol}" if file and symbol else file or symbol),
        ("next", handoff.next_action),
        ("root", got.root if got else ""),
        ("outcome", got.outcome if got else ""),
    ]
    if got and got.run:
        way = "look at it" if got.run.status == "running" else "continue"
        told = call.pasted(got.run.command, shown_claim(got.claim)) if call else got.run.command
        pairs.append(("run", f"{got.run.run_id} ({got.run.status}); {way}: {told}"))
    facts(*pairs)


def say_contract(handoff: Contract, now: Sequence[Evidence] = (), recorded: Sequence[Evidence] = ()) -> None:
    """What is to be done: the words, the files and checks, the musts, the way back; then the packets."""
    stored = getattr(handoff, "baseline", ())
    say()
    say(handoff.summary, "bold")
    if handoff.handoff_text.strip() not in ("", handoff.summary, handoff.next_action):
        say_all(handoff.handoff_text, "  ")
    say()
    _say_list("files", handoff.target_files)
    _say_list("files to make", handoff.creates)
    labels = late.reading.labels_of(handoff, "acceptance_checks")
    _say_list("checks", [_checked(label, stored, recorded, now) for label in labels])
    for name, title in MUSTS.items():
        _say_list(title, late.reading.labels_of(handoff, name))
    _say_list("evidence", handoff.refs)
    facts(
        ("risk", handoff.risk),
        ("environment", ", ".join(handoff.environment)),
        ("tags", ", ".join(handoff.tags)),
        ("kind", handoff.handoff_kind if handoff.handoff_kind != "task_handoff" else ""),
        ("supersedes", handoff.supersedes),
    )
    for name in ("execution_state_v1", "execution_packet_v1"):
        raw = getattr(handoff, name)
        if raw is not None:
            say(f"{name}: {len(bytes(raw)):,} bytes; --json has it as it was stored")


def _say_list(title: str, lines: Sequence[str]) -> None:
    if lines:
        say(f"{title}:")
    for line in lines:
        say(f"  {line}")


def _checked(label: str, stored: Sequence[Evidence], recorded: Sequence[Evidence], now: Sequence[Evidence]) -> str:
    """A check, and what came of it: just now; or when it was stored, and the last time since."""
    came = [f"[{outcome_of(each)}]" for each in now if each.label == label][-1:]
    if not came:
        came = [f"[when stored: {outcome_of(each)}]" for each in stored if each.label == label][-1:]
        since = [each for each in recorded if each.label == label][-1:]
        came += [f"[{at(moment(each.at))}: {outcome_of(each)}]" for each in since]
    return "  ".join([label, *came])


def outcome_of(evidence: Evidence) -> str:
    """What came of a check, in words."""
    told = "passed" if evidence.passed else "failed"
    code = f", exit {evidence.exit}" if evidence.exit is not None and not evidence.passed else ""
    length = f" in {span(timedelta(seconds=evidence.seconds))}" if evidence.seconds else ""
    note = f": {evidence.note}" if evidence.note else ""
    return f"{told}{code}{length}{note}" + (f", says {evidence.who}" if evidence.runner != "runner" else "")


def say_record(handoff: Handoff) -> None:
    """Where and when it was stored, and what of the files was kept."""
    source = f", composed from a {handoff.source}" if handoff.source else ""
    say()
    facts(
        ("expires", at(handoff.expires_at) if handoff.revision else ""),
        ("stored", f"{at(handoff.stored_at)} ({ago(handoff.stored_at)}) by {handoff.actor}{source}"),
        ("id", handoff.id),
        ("score", f"{handoff.lint.score} of 100{', weak' if handoff.lint.weak else ''}"),
        ("bound to", bound_to(handoff.binding) if handoff.revision else ""),
        ("masked", ", ".join(handoff.masked)),
    )


def bound_to(binding: Binding | None) -> str:
    """What was looked at and kept of the files, in words."""
    if binding is None:
        return "nothing: nobody looked at files"
    kept = sum(bool(each.kept) for each in binding.files.values())
    gone = sum(each.mode == "absent" for each in binding.files.values())
    parts = [counted(len(binding.files), "file") + (f" ({gone} absent)" if gone else ""), f"{kept} kept"]
    parts += [f"{counted(len(binding.environment), 'file')} of the environment"] if binding.environment else []
    parts += [f"commit {binding.commit[:12]}"] if binding.commit else ["no commit"]
    parts += [f"branch {binding.branch}"] if binding.branch else []
    parts += ["the uncommitted patch"] if binding.patch else []
    parts += [f"no patch: {binding.patch_why}"] if binding.patch_why else []
    return ", ".join(parts)


def say_lint(lint: Lint) -> None:
    """The score, and every finding with a better wording."""
    say(f"score: {lint.score} of 100{', weak' if lint.weak else ''}", "yellow" if lint.weak else "green")
    say_findings(lint)


def say_findings(lint: Lint) -> None:
    """What would make it better, each with a better wording."""
    for finding in lint.findings:
        say(f"  {finding.code} ({finding.path}): {finding.says}")
        say(f"    better: {finding.better}")


def say_claim(call: Invocation, claim: HandoffClaim) -> None:
    """The claim, until when it holds, where it counts, and how to give it back."""
    say(f"claimed: {claim.id}, until {at(claim.expires_at)}; every use renews it", "green")
    say(f"in another terminal or a script show it: export {CLAIM}={claim.id}")
    shown = shown_claim(claim)
    if claim.run_id:
        say(f"continue: {carry(call.command('resume', claim.run_id), (), shown)}")
        say(f"to give it back: {command_for(call, 'settle', claim.anchor, 'released', *_shown(shown))}")
    else:
        say(f"when it is done: {command_for(call, 'settle', claim.anchor, 'completed', *_shown(shown))}")


def shown_claim(claim: HandoffClaim | None) -> str:
    """The id of a claim that has to be shown: where no terminal stands for who made it."""
    return claim.id if claim is not None and not sys.stdout.isatty() else ""


def _shown(claim: str) -> tuple[str, ...]:
    return ("--claim-id", claim) if claim else ()


class Results(NamedTuple):
    """What is shown of checks."""

    recorded: tuple[Evidence, ...]  # since the revision was stored, oldest first
    printed: dict[str, list[str]]  # by the key of a check that failed just now: its last lines


def results_of(outlast: Outlast, got: Recovered) -> Results:
    """What came of checks before, and what those that failed just now printed last."""
    printed = {each.key: last_lines(outlast.handoff.output(each)) for each in got.evidence if not each.passed}
    broken = any(reason.code == "integrity_broken" for reason in got.reasons)
    return Results(() if broken or not got.handoff.revision else outlast.handoff.evidence(got.handoff), printed)


@contextmanager
def checks_shown(call: Invocation, outlast: Outlast) -> Iterator[None]:
    """Show which check runs. SIGTERM ends it as Ctrl-C does."""
    screen = Screen(quiet=call.json)
    outlast.listen(None, lambda line: screen.status(clean(line)))
    heard = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if heard:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if heard:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        outlast.listen(None, None)
        screen.end()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)


def command_for(call: Invocation, verb: str, anchor: str, *words: str) -> str:
    """A handoff command to show, ready to be copied, also for an anchor that looks like an option."""
    return call.about(("handoff", verb), anchor, *words)
