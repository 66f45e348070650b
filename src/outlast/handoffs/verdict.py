"""How far a handoff may be trusted: one pure function of recorded facts, what was seen, who asks and when."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import dirname
from shlex import join, quote
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.clock import moment
from outlast.files.snapshot import ABSENT, Binding, Bound
from outlast.files.snapshot import Relation as Relation
from outlast.handoffs.evidence import content_of, counted
from outlast.handoffs.handoff import Evidence, Form, Handoff, Unread, absent_targets, key_of, label_of, must_key
from outlast.ledger.verdict import Reason, Verdict, judge
from outlast.values.codec import path_of

if TYPE_CHECKING:
    from outlast.handoffs.evidence import CountedCheck

JUST_NOW = "just now"  # stands for content of which nothing was looked at: only what was run just now ran on it
_ODD = re.compile(r"[^\w@%+=:,./ -]", re.ASCII)  # what a shell may take for something else, as `shlex` has it
CLEARED_BY_CHECKS = ("auto_composed", "self_reported", "weak", "stale")
_PLAIN = ("file", "exec")


class Observed(Struct, frozen=True):
    """What was seen when somebody looked: the files and the repository now, and what came of checks that were run."""

    binding: Binding
    relation: Relation = "none"
    musts: Mapping[str, str] = field(default_factory=dict)  # of file rules in must_keep, by key: "" or what is wrong
    checks: Mapping[str, Evidence] = field(default_factory=dict)  # by key; only those that were run
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of bound files that are gone: where now


class Holder(Struct, frozen=True):
    """Who holds the claim."""

    who: str  # actor and process, in words
    until: int
    mine: bool


class ClaimWork(Struct, frozen=True):
    """A claim since the revision was stored: what the files were when it began and, once it was settled, at its end."""

    by: str
    began: Mapping[str, Bound]
    ended: Mapping[str, Bound] | None = None


class HandoffFacts(Struct, frozen=True, kw_only=True):
    """The recorded facts about one revision."""

    handoff: Handoff
    newest: int  # the newest revision of the anchor
    newest_id: str = ""
    superseded_by: str = ""  # a handoff under another anchor that says so
    broken: str = ""  # why the record is not what was stored
    broken_record: str = ""
    blobs: Mapping[str, str] = field(default_factory=dict)  # of kept blobs that cannot be read: missing or corrupt
    holder: Holder | None = None
    work: tuple[ClaimWork, ...] = ()
    evidence: tuple[Evidence, ...] = ()  # recorded since the revision was stored, oldest first
    given: tuple[Reason, ...] = ()  # what the task's unfinished run gives
    composed: bool = False
    fallen: Mapping[str, str] = field(default_factory=dict)  # refs of its evidence that do not stand, and why
    foreign: Reason | None = None  # that its commands are somebody else's
    looked_at: bool = False  # somebody has looked at the revision that this one is a rival of
    elsewhere: Reason | None = None  # that whoever asks is not where its files are
    lost: tuple[tuple[str, str, str], ...] = ()  # code, ref and what was found, of evidence that is not what it was


def verdict_of(known: HandoffFacts, seen: Observed | None, at: int) -> Verdict:
    """The verdict on continuing from this revision now."""
    return judge(reasons_of(known, seen, at))


def reasons_of(known: HandoffFacts, seen: Observed | None, at: int) -> list[Reason]:
    """Every reason, for and against. A broken record is believed in nothing else that it says."""
    anchor = known.handoff.anchor
    if known.broken:
        advice = "restore the store from a copy; `outlast verify` names every broken record"
        return [Reason("integrity_broken", known.broken_record or anchor, "what was stored", known.broken, advice)]
    counts = counted_of(known, seen)
    found = [
        *known.given,
        *filter(None, (known.foreign, known.elsewhere)),
        *_record(known, at),
        *_evidence(known),
        *_contract(known, seen),
        *_files(known, seen),
        *_repository(known.handoff.binding, seen),
        *_checks(known, counts),
    ]
    cleared = CLEARED_BY_CHECKS if _all_passed(known.handoff, counts) else ()
    return [reason for reason in found if reason.code not in cleared]


# -- what to do about a reason -----------------------------------------------------------------------


def command(handoff: Handoff, verb: str, *words: str, anchor: str = "") -> str:
    """A command about a handoff, ready to be copied, also for an anchor that looks like an option."""
    name = anchor or handoff.anchor
    rest = [*words, *_in_scope(handoff)]
    named = [*rest, "--", name] if name.startswith("-") else [name, *rest]
    return f"outlast handoff {verb} {_quoted(named)}"


def with_options(handoff: Handoff, verb: str, *words: str) -> str:
    """A command in the handoff's scope, which names it by its options."""
    return f"outlast handoff {verb} {_quoted([*words, *_in_scope(handoff)])}"


def _quoted(words: list[str]) -> str:
    """The words as a shell reads them; mostly it reads them as they are, which is seen at one look."""
    plain = " ".join(words)
    if _ODD.search(plain) or plain.count(" ") != len(words) - 1 or "" in words:
        return join(words)
    return plain


def _in_scope(handoff: Handoff) -> tuple[str, ...]:
    return () if handoff.scope == "default" else ("--scope", handoff.scope)


def _again(handoff: Handoff, *words: str) -> str:
    """The command that stores all of it again, but for what the words say."""
    return command(handoff, "store", "--again", *words)


def _accept(handoff: Handoff, code: str, subject: str) -> str:
    """The command that takes one reason upon whoever gives it, and goes on."""
    return command(handoff, "recover", "--claim", "--accept", f"{code}:{subject}", "--why", "WHY")


# -- the record itself -------------------------------------------------------------------------------


def _record(known: HandoffFacts, at: int) -> Iterator[Reason]:
    handoff = known.handoff
    yield from _succession(known)
    if known.holder is not None and not known.holder.mine:
        until = f"{moment(known.holder.until):%Y-%m-%d %H:%M} UTC"
        advice = f"wait, or take it over: {command(handoff, 'claim', '--take', '--why', 'WHY')}"
        yield Reason("claimed", handoff.anchor, "free", f"{known.holder.who}, until {until}", advice)
    if handoff.lint.weak:
        advice = f"store it again with what is missing: {command(handoff, 'lint')}"
        codes = ", ".join(finding.code for finding in handoff.lint.findings)
        yield Reason("weak", handoff.anchor, "execution-ready", f"{handoff.lint.score} of 100: {codes}", advice)
    if at >= handoff.expires_us:
        day = f"{handoff.expires_at:%Y-%m-%d}"
        found = f"stored {handoff.stored_at:%Y-%m-%d}"
        advice = f"run its checks: {command(handoff, 'recover', *_running(known))}"
        yield Reason("stale", handoff.anchor, f"used before {day}", found, advice)
    if known.composed or (handoff.source == "hook" and "auto_composed" in handoff.tags):
        advice = f"read what the run left, or run the checks: {command(handoff, 'recover', *_running(known))}"
        yield Reason("auto_composed", handoff.anchor, "written by who stopped", "composed from the run", advice)
    if handoff.masked:
        advice = "ask whoever stored it for what was masked, if you need it"
        yield Reason("masked", handoff.anchor, "nothing masked", ", ".join(handoff.masked), advice)
    for blob, why in sorted(known.blobs.items()):
        code = "artifact_missing" if why == "missing" else "artifact_corrupt"
        advice = "restore the blob from a copy; `outlast verify` names every broken one"
        yield Reason(code, f"blob {blob[:12]}", blob, why, advice)


def _succession(known: HandoffFacts) -> Iterator[Reason]:
    handoff = known.handoff
    if handoff.revision < known.newest:
        advice = f"recover the newest one: {command(handoff, 'recover')}"
        yield Reason("superseded", f"revision {handoff.revision}", "the newest", f"revision {known.newest}", advice)
    elif known.superseded_by:
        advice = f"recover that one: {command(handoff, 'recover', anchor=known.superseded_by)}"
        yield Reason("superseded", handoff.anchor, "the newest", f"replaced by {known.superseded_by}", advice)
    yield from rivals_of(handoff, looked_at=known.looked_at)


def rivals_of(handoff: Handoff, *, looked_at: bool = False) -> Iterator[Reason]:
    """What this revision is a rival of: the work of who held the claim, a contract that its author had not read."""
    if rival := rival_of(handoff):
        yield rival
    if handoff.unread is not None and not looked_at:
        yield unread_rival(handoff, handoff.unread)


def unread_rival(handoff: Handoff, other: Unread) -> Reason:
    """That somebody else stored another contract before, which the author of this one had not read."""
    by = f"{other.by}@{other.host}" if other.host else other.by
    found = f"revision {other.revision} by {by} was not read by {handoff.actor}; differs: {', '.join(other.differs)}"
    look = f"{command(handoff, 'diff')} {other.revision} {handoff.revision}"
    accept = _accept(handoff, "rival", f"revision {handoff.revision}")
    expected = f"stored by one who had read revision {other.revision}"
    return Reason("rival", f"revision {handoff.revision}", expected, found, f"look: {look}; or accept it: {accept}")


def rival_of(handoff: Handoff) -> Reason | None:
    """That a revision was stored beside who held the claim, and nobody brought the two together since."""
    if not handoff.rival:
        return None
    subject, replaced = f"revision {handoff.revision}", handoff.rival_id or handoff.id
    found = f"stored by {handoff.actor} while {handoff.rival} held the claim"
    look = f"to compare: {command(handoff, 'diff')} {handoff.revision - 1} {handoff.revision}"
    if handoff.revision == 1:  # what is claimed is a run, which has no other
        look = f"to read it: {command(handoff, 'show')}"
    if handoff.rival_id:  # an earlier revision, which this one goes past in silence
        found = f"handoff {handoff.rival_id} was stored while {handoff.rival} held the claim"
        look = f"to read that one: {with_options(handoff, 'show', '--id', handoff.rival_id)}"
    store = f"to go on with this one, whoever holds the claim: {_again(handoff, '--supersedes', replaced)}"
    advice = f"{look}; {store}; or accept it: {_accept(handoff, 'rival', subject)}"
    return Reason("rival", subject, "stored by who holds the claim", found, advice)


def _evidence(known: HandoffFacts) -> Iterator[Reason]:
    """What became of the evidence that it rests on."""
    handoff, code = known.handoff, "evidence_contradicted"
    for ref, why in sorted(known.fallen.items()):
        see = f"outlast workspace why {quote(ref)}"
        yield Reason(code, ref, "stands", why, f"{see}; or accept it: {_accept(handoff, code, ref)}")
    for code, ref, found in known.lost:
        advice = f"restore it from a copy; or accept it: {_accept(handoff, code, ref)}"
        yield Reason(code, ref, "what was saved", found, advice)


# -- what the contract leaves open -------------------------------------------------------------------


def _contract(known: HandoffFacts, seen: Observed | None) -> Iterator[Reason]:
    """That nobody could tell whether the work is done; that a file it is about was not there, and is not to be made."""
    handoff = known.handoff
    if not known.composed and not handoff.acceptance_checks:
        advice = f"store all of it again with a check: {_again(handoff, '--check', 'COMMAND')}"
        yield Reason("no_checks", handoff.anchor, "a check that tells when it is done", "none", advice)
    now = seen.binding.files if seen else {}
    for path in absent_targets(handoff, handoff.binding):
        if now.get(path, ABSENT).mode == "absent":  # else it is new, which is said of the file
            root = handoff.binding.root if handoff.binding else ""
            paths = [f"{root}/{each}" if root else each for each in (*handoff.creates, path)]
            again = _again(handoff, *(word for each in paths for word in ("--creates", each)))
            advice = f"store all of it again under its right name, or as one to be made: {again}"
            yield Reason("target_absent", path, "a file that is there", "absent when it was stored", advice)


# -- files -------------------------------------------------------------------------------------------


def _files(known: HandoffFacts, seen: Observed | None) -> Iterator[Reason]:
    handoff, bound = known.handoff, known.handoff.binding
    if not known.composed and (bound is None or not bound.files):
        advice = f"store all of it again where the files are, naming them: {_again(handoff, '--file', 'FILE')}"
        yield Reason("unbound", handoff.anchor, "files that were looked at", "none", advice)
    if seen is None:
        if known.elsewhere is None and (not known.composed or handoff.must_keep):
            advice = f"recover it where the files are: {command(handoff, 'recover', '--repo', 'DIR')}"
            yield Reason("unobserved", handoff.anchor, "files that were looked at", "nobody looked", advice)
        return
    if bound is not None:
        for path in sorted({*bound.files, *(seen.binding.files if bound.folders else ())}):
            yield from _file(known, path, bound.files.get(path, ABSENT), seen)
        yield from _moved(handoff, bound, seen)
        yield from _environment(handoff, bound, seen)
    for form in handoff.must_keep:
        if wrong := seen.musts.get(must_key("must_keep", form)):
            yield must_violated(handoff, form, wrong)


def must_violated(handoff: Handoff, form: Form, wrong: str) -> Reason:
    """That what a revision says must be kept is not."""
    bound, label = handoff.binding, label_of(form)
    wrong += "; it was so when stored" if bound and must_key("must_keep", form) in bound.unkept else ""
    advice = f"mend it before going on; or accept it: {_accept(handoff, 'must_violated', label)}"
    return Reason("must_violated", label, "kept", wrong, advice)


def _file(known: HandoffFacts, path: str, bound: Bound, seen: Observed) -> Iterator[Reason]:
    now, places = seen.binding.files.get(path, ABSENT), seen.renamed.get(path, ())
    if bound.same(now):
        return
    handoff, worker = known.handoff, _worker(known.work, path, now)
    if worker:
        advice = f"see what was done so far: {command(handoff, 'diff')}"
        yield Reason("partial_work", path, bound.word, f"{now.word}, changed under the claim of {worker}", advice)
    elif now.mode == "absent":
        back = _back(handoff, seen.binding.root, path, places)
        advice = f"{back}; or accept it: {_accept(handoff, 'file_missing', path)}"
        found = f"absent; the same content is at {' or '.join(places)}" if places else "absent"
        yield Reason("file_missing", path, bound.word, found, advice)
    else:
        see, accept = f"see the change: {command(handoff, 'diff')}", _accept(handoff, "file_changed", path)
        only_edited = is_edited_between(known, path, bound, now)
        advice, weight = (see, "weakens") if only_edited else (f"{see}; or accept it: {accept}", "")
        yield Reason("file_changed", path, bound.word, now.word, advice, weight)


def _back(handoff: Handoff, root: str, path: str, places: tuple[str, ...]) -> str:
    """How a file gets back to its path. What is elsewhere is moved: to apply the handoff would make a second one."""
    if not places:
        return f"put it back: {command(handoff, 'apply')}"
    if len(places) > 1:
        return "see which of them it is"
    if any(path_of(each) != each for each in (root, path, *places)):
        return "move it back"  # no command can be printed for a name that is no text
    new, old = f"{root}/{places[0]}", f"{root}/{path}"
    return f"move it back: mkdir -p -- {quote(dirname(old))} && mv -- {quote(new)} {quote(old)}"


def _moved(handoff: Handoff, bound: Binding, seen: Observed) -> Iterator[Reason]:
    """What is still there, but elsewhere, with other line ends, or behind a link."""
    gone = [each for each in seen.renamed.items() if seen.binding.files.get(each[0], ABSENT).mode == "absent"]
    root = seen.binding.root
    found = {path: f"{root}/{at[0]}" for path, at in gone if len(at) == 1 and path_of(at[0]) == at[0]}
    for path, places in sorted(gone):
        words = _with_names(handoff, root, {path: "FILE"} | found)
        advice = f"go on there, and store it again with its new name: {_again(handoff, *words)}"
        yield Reason("renamed_to", path, path, " or ".join(places), advice)
    pairs = [(path, was, seen.binding.files.get(path, ABSENT)) for path, was in sorted(bound.files.items())]
    other = [(path, was, now) for path, was, now in pairs if (was.digest, was.leads) != (now.digest, now.leads)]
    same = [(path, was, now) for path, was, now in other if was.same(now)]
    mixed = [(path, was.size, now.size) for path, was, now in same if was.digest != now.digest]
    kinds = [(path, "CR LF" if new > old else "LF" if new < old else "mixed") for path, old, new in mixed]
    if ends := [f"{path} ({kind} now)" for path, kind in kinds]:
        names = ", ".join(ends[:5]) + (f" and {len(ends) - 5} more" if len(ends) > 5 else "")
        advice = "nothing to do unless they matter; what git makes of them: git ls-files --eol"
        yield Reason("line_ends_changed", "line ends", "as they were", names, advice)
    for path, was, now in same:
        if was.leads != now.leads:
            advice = f"look at what it leads to; store it again if it still holds: {_again(handoff)}"
            yield Reason("link_target_changed", path, was.leads, now.leads or "nothing", advice)


def _with_names(handoff: Handoff, root: str, names: Mapping[str, str]) -> list[str]:
    """The files that a handoff is about, those that have another name now by that one."""
    words = [word for path in handoff.target_files for word in ("--file", names.get(path) or f"{root}/{path}")]
    entry = names.get(handoff.file_path or "")
    return [*words, "--entry", entry] if entry else words


def is_edited_between(known: HandoffFacts, path: str, bound: Bound, now: Bound) -> bool:
    """Whether somebody edited a file after a hook had stored the handoff, and nobody has claimed it since.

    That is how people work with an agent. Once it is claimed, only what was so when the claim was made counts as that.
    """
    if known.handoff.source != "hook" or bound.mode not in (*_PLAIN, "absent") or now.mode not in _PLAIN:
        return False
    return not known.work or known.work[0].began.get(path, ABSENT).same(now)


def edited_in(verdict: Verdict) -> list[str]:
    """The files that were only edited since."""
    return [one.subject for one in verdict.reasons if one.code == "file_changed" and one.weight == "weakens"]


def _worker(work: Sequence[ClaimWork], path: str, now: Bound) -> str:
    """Under whose claim the file became what it is; "" when it changed under nobody's."""
    for one in reversed(work):
        began = one.began.get(path, ABSENT)
        ended = now if one.ended is None else one.ended.get(path, ABSENT)
        if not ended.same(now):
            return ""  # it changed after that claim was over
        if not began.same(ended):
            return one.by
    return ""


def _environment(handoff: Handoff, bound: Binding, seen: Observed) -> Iterator[Reason]:
    for path, was in sorted(bound.environment.items()):
        now = seen.binding.environment.get(path, ABSENT)
        if not was.same(now) or was.leads != now.leads:
            advice = f"store it again if it still holds; to see the change: {command(handoff, 'diff')}"
            expected, found = (was.word, now.word) if was.word != now.word else (was.leads, now.leads)
            yield Reason("environment_changed", path, expected or "nothing", found or "nothing", advice)


# -- the repository ----------------------------------------------------------------------------------


def _repository(bound: Binding | None, seen: Observed | None) -> Iterator[Reason]:
    if bound is None or seen is None or not bound.commit:
        return
    now = seen.binding
    if bound.branch and now.branch and bound.branch != now.branch:
        moved = bound.host == now.host and bound.root != now.root  # of two work trees one alone can have the branch
        there = f"go where it was stored: cd {quote(path_of(bound.root))}; or here: " if moved else ""
        advice = f"{there}git switch {quote(bound.branch)}"
        yield Reason("diverged", "branch", bound.branch, now.branch, advice)
    elif seen.relation in ("apart", "unknown", "none"):
        found = {"apart": now.commit[:12], "unknown": "git cannot tell"}.get(seen.relation, "no repository")
        advice = f"look at what became of it: git log {quote(bound.commit[:12])}..HEAD"
        yield Reason("diverged", "commit", f"{bound.commit[:12]} or after", found, advice)
    elif seen.relation == "ahead":
        advice = f"nothing to do; the new commits: git log --oneline {quote(bound.commit[:12])}..HEAD"
        yield Reason("head_moved", "commit", bound.commit[:12], now.commit[:12], advice)
    if bound.dirty != now.dirty:
        changed = sorted({*bound.dirty_files} ^ {*now.dirty_files}) or sorted(now.dirty_files)
        names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        yield Reason("other_files_changed", "other files", "as they were", names, "git status shows them")


# -- checks ------------------------------------------------------------------------------------------


def _checks(known: HandoffFacts, counts: Mapping[str, CountedCheck]) -> Iterator[Reason]:
    forms = {key_of(form): form for form in known.handoff.acceptance_checks}
    for key, form in forms.items():
        if key in counts:
            yield from _check(known, form, counts[key])
    if unrun := [label_of(form) for key, form in forms.items() if key not in counts or not counts[key].ran]:
        advice = command(known.handoff, "recover", *_running(known))
        yield Reason("checks_not_run", f"{len(unrun)} of {len(forms)}", "run", "; ".join(unrun), advice)


def counted_of(known: HandoffFacts, seen: Observed | None) -> dict[str, CountedCheck]:
    """What counts of each check, by key: of all that was recorded, and of what was run just now; nothing without."""
    if not (known.handoff.baseline or known.evidence or (seen and seen.checks)):
        return {}
    words: dict[str, list[Evidence]] = {key_of(form): [] for form in known.handoff.acceptance_checks}
    now = seen.checks.values() if seen else ()
    content = None if seen is None else JUST_NOW
    if seen is not None and (now or known.evidence):
        content = content_of(seen.binding) or JUST_NOW
    just_now = [each if each.content else replace(each, content=content or "") for each in now]
    for each in (*known.handoff.baseline, *known.evidence, *just_now):
        words.get(each.key, []).append(each)
    return {key: counted(each, content) for key, each in words.items()}


def _check(known: HandoffFacts, form: Form, counts: CountedCheck) -> Iterator[Reason]:
    handoff, label, word = known.handoff, label_of(form), counts.word
    if word is None:
        return
    again = f"run it: {command(handoff, 'recover', *_running(known))}"
    match counts.came:
        case "reported":
            yield Reason("self_reported", label, "run by Outlast", f"{_passed(word)}, says {word.who}", again)
        case "contradicted":
            code, find_out = "evidence_contradicted", "find out whether the report was wrong or the work changed since"
            advice = f"{find_out}; or accept it: {_accept(handoff, code, label)}"
            yield Reason(code, label, _said(counts.against), _found(word), advice)
        case "regressed":
            advice = f"mend what broke it since; or accept it: {_accept(handoff, 'check_regressed', label)}"
            yield Reason("check_regressed", label, _said(counts.against), _found(word), advice)
        case "failed_before":
            expected = f"{_said(counts.against)}; run since the files changed"
            yield Reason("failed_before", label, expected, _found(word), again)
        case "passed" if any(each.key == word.key and not each.passed for each in handoff.baseline):
            advice = f"the work may be done already; to see what changed: {command(handoff, 'diff')}"
            yield Reason("maybe_done", label, "failed when stored", "passes now", advice)


def _running(known: HandoffFacts) -> tuple[str, ...]:
    """The options by which checks are run; who is elsewhere has to say where."""
    return ("--run-checks",) if known.elsewhere is None else ("--run-checks", "--repo", "DIR")


def _said(evidence: Evidence | None) -> str:
    """What something else on record says, in words."""
    assert evidence is not None
    if evidence.runner == "runner" and evidence.when == "store":
        return f"{_passed(evidence)} when stored"
    return f"{_passed(evidence)}, says {evidence.who}"


def _found(evidence: Evidence) -> str:
    """What counts, in words that stay the same for as long as it does: an acceptance is bound to them."""
    return _passed(evidence) if evidence.runner == "runner" else f"{_passed(evidence)}, says {evidence.who}"


def _passed(evidence: Evidence) -> str:
    if evidence.passed:
        return "passed"
    return "failed" + (f" (exit {evidence.exit})" if evidence.exit is not None else "")


def _all_passed(handoff: Handoff, counts: Mapping[str, CountedCheck]) -> bool:
    """Whether every check there is was run on what is there now, and passed."""
    if any(finding.code == "empty_check" for finding in handoff.lint.findings):
        return False  # they pass whatever was done
    return bool(counts) and all(each.came == "passed" for each in counts.values())
