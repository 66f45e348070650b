"""A handoff on the screen, in the order in which it is to be read: the verdict first, a packet last."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.doors.cli.door import CLAIM, Door
from outlast.doors.cli.handoff.names import command_for
from outlast.doors.cli.plans import say_word
from outlast.doors.cli.render import ago, at, brief, counted, facts, fit, say, say_all, span
from outlast.handoffs.handoff import key_of
from outlast.handoffs.verdict import label_of, must_label
from outlast.values.text import carry

if TYPE_CHECKING:
    from outlast.doors.cli.handoff.checks import Results
    from outlast.handoffs.handoff import Binding, Contract, Evidence, Form, Handoff, HandoffClaim, Lint
    from outlast.handoffs.recovered import Recovered
    from outlast.ledger.verdict import Verdict

FOUND = 200  # characters of what was found, where --explain or --json has all
MUSTS = {"must_change": "must change", "must_remove": "must remove", "must_keep": "must keep", "rollback": "rollback"}
MARKS = {"contests": "✗", "weakens": "!", "notes": "·"}


def say_recovered(door: Door, got: Recovered, results: Results, *, explain: bool) -> None:
    """All that a worker needs to go on, and in which order to take it."""
    if explain:
        from outlast.doors.cli.plans import say_verdict

        say_verdict(got.verdict, unsaid=(), accepted=got.accepted, door=door)
    else:
        say_reasons(door, got.verdict, got.accepted, shown_claim(got.claim))
    say_failed(door, got, results)
    if got.diff:
        say_all(got.diff, "  ")
    say()
    handoff = got.handoff_with(lambda text: door.pasted(text, shown_claim(got.claim)))
    say_entry(handoff, got, door)
    say_contract(handoff, got.evidence, results.recorded)
    say_record(handoff)
    for note in got.notes:
        say(note, "yellow")
    if got.claim:
        say()
        say_claim(door, got.claim)
    elif got.resume == "lost":
        say()
        held = any(reason.code == "claimed" for reason in got.verdict.contesting)
        way = "take it over (--take --why WHY)" if held else "accept it (--accept CODE[:SUBJECT] --why WHY)"
        say(f"the claim was not given: see to what contests, or {way}", "red")


def say_failed(door: Door, got: Recovered, results: Results) -> None:
    """How many of the checks that were run just now failed, and what those printed last."""
    failed = [each for each in got.evidence if not each.passed]
    if not failed:
        return
    say(f"{len(failed)} of {counted(len(got.evidence), 'check')} failed:", "red")
    keys = [key_of(form) for form in got.handoff.acceptance_checks]
    for each in failed:
        say(f"  {label_of(each.check)}: {outcome_of(each)}", "red")
        for line in results.printed.get(each.key, ()):
            say(f"    {line}")
        if each.output and got.handoff.revision and each.key in keys:
            words = ("--output", str(keys.index(each.key) + 1))
            say(f"    all it printed: {command_for(door, 'show', got.anchor, *words)}")


def say_reasons(door: Door, verdict: Verdict, accepted: Sequence[str] = (), claim: str = "") -> None:
    """The verdict in a word, then what bears on it with what to do about it; of what was accepted, that it was."""
    say_word(verdict, accepted)
    styles = {"contests": "red", "weakens": "yellow"}
    for reason in sorted(verdict.reasons, key=lambda each: [*MARKS].index(each.weight)):
        taken = reason.fingerprint in accepted
        mark, style = ("✓", "dim") if taken else (MARKS[reason.weight], styles.get(reason.weight, "dim"))
        found = fit(reason.found, FOUND) + (", accepted" if taken else "")
        say(f"  {mark} {reason.code} {reason.subject}: {found} (expected: {brief(reason.expected)})", style)
        if not taken:
            say(f"    {door.pasted(reason.advice, claim)}")


def say_entry(handoff: Handoff, got: Recovered | None = None, door: Door | None = None) -> None:
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
        told = door.pasted(got.run.command, shown_claim(got.claim)) if door else got.run.command
        pairs.append(("run", f"{got.run.run_id} ({got.run.status}); {way}: {told}"))
    facts(pairs)


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
    _say_list("checks", [_checked(form, stored, recorded, now) for form in handoff.acceptance_checks])
    for name, title in MUSTS.items():
        _say_list(title, [must_label(handoff, name, form) for form in getattr(handoff, name)])
    _say_list("evidence", handoff.refs)
    facts(
        [
            ("risk", handoff.risk),
            ("environment", ", ".join(handoff.environment)),
            ("tags", ", ".join(handoff.tags)),
            ("kind", handoff.handoff_kind if handoff.handoff_kind != "task_handoff" else ""),
            ("supersedes", handoff.supersedes),
        ]
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


def _checked(form: Form, stored: Sequence[Evidence], recorded: Sequence[Evidence], now: Sequence[Evidence]) -> str:
    """A check, and what came of it: just now; or when it was stored, and the last time since."""
    came = [f"[{outcome_of(each)}]" for each in now if each.check == form][-1:]
    if not came:
        came = [f"[when stored: {outcome_of(each)}]" for each in stored if each.check == form][-1:]
        since = [each for each in recorded if each.check == form][-1:]
        came += [f"[{at(moment(each.at))}: {outcome_of(each)}]" for each in since]
    return "  ".join([label_of(form), *came])


def outcome_of(evidence: Evidence) -> str:
    """What came of a check, in words."""
    told = "passed" if evidence.passed else "failed"
    code = f", exit {evidence.exit}" if evidence.exit is not None and not evidence.passed else ""
    length = f" in {span(timedelta(seconds=evidence.seconds))}" if evidence.seconds else ""
    note = f": {evidence.note}" if evidence.note else ""
    return f"{told}{code}{length}{note}" + (f", says {evidence.who}" if evidence.runner != "runner" else "")


def say_record(handoff: Handoff) -> None:
    """Where and when it was stored, and what of the files was kept."""
    say()
    facts(
        [
            ("expires", at(handoff.expires_at) if handoff.revision else ""),
            ("stored", f"{at(handoff.stored_at)} ({ago(handoff.stored_at)}) by {handoff.actor}{_source(handoff)}"),
            ("id", handoff.id),
            ("score", f"{handoff.lint.score} of 100{', weak' if handoff.lint.weak else ''}"),
            ("bound to", bound_to(handoff.binding) if handoff.revision else ""),
            ("masked", ", ".join(handoff.masked)),
        ]
    )


def _source(handoff: Handoff) -> str:
    return f", composed from a {handoff.source}" if handoff.source else ""


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


def say_claim(door: Door, claim: HandoffClaim) -> None:
    """The claim, until when it holds, where it counts, and how to give it back."""
    say(f"claimed: {claim.id}, until {at(claim.expires_at)}; every use renews it", "green")
    say(f"in another terminal or a script show it: export {CLAIM}={claim.id}")
    shown = shown_claim(claim)
    if claim.run_id:
        say(f"continue: {carry(door.command('resume', claim.run_id), (), shown)}")
        say(f"to give it back: {command_for(door, 'settle', claim.anchor, 'released', *_shown(shown))}")
    else:
        say(f"when it is done: {command_for(door, 'settle', claim.anchor, 'completed', *_shown(shown))}")


def shown_claim(claim: HandoffClaim | None) -> str:
    """The id of a claim that has to be shown: where no terminal stands for who made it."""
    return claim.id if claim is not None and not sys.stdout.isatty() else ""


def _shown(claim: str) -> tuple[str, ...]:
    return ("--claim-id", claim) if claim else ()
