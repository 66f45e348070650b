"""How far a handoff may be trusted: one pure function of recorded facts, what was seen, who asks and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from shlex import join, quote
from typing import Literal

from outlast.clock import moment
from outlast.handoffs.handoff import ABSENT, Binding, Bound, Evidence, Form, Handoff, key_of
from outlast.ledger.verdict import Reason, Verdict, judge
from outlast.values.frozen import dataclass

Relation = Literal["none", "same", "ahead", "apart", "unknown"]  # of the commit now to the bound one
CLEARED_BY_CHECKS = ("auto_composed", "self_reported", "weak", "stale")


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen when somebody looked: the files and the repository now, and what came of checks that were run."""

    binding: Binding
    relation: Relation = "none"
    musts: Mapping[str, str] = field(default_factory=dict)  # of file rules in must_keep, by key: "" or what is wrong
    checks: Mapping[str, Evidence] = field(default_factory=dict)  # by key; only those that were run


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the claim."""

    who: str  # actor and process, in words
    until: int
    mine: bool


@dataclass(frozen=True, slots=True)
class Work:
    """A claim since the revision was stored: what the files were when it began and, once it was settled, at its end."""

    by: str
    began: Mapping[str, Bound]
    ended: Mapping[str, Bound] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The recorded facts about one revision."""

    handoff: Handoff
    newest: int  # the newest revision of the anchor
    newest_id: str = ""
    superseded_by: str = ""  # a handoff under another anchor that says so
    broken: str = ""  # why the record is not what was stored
    broken_record: str = ""
    blobs: Mapping[str, str] = field(default_factory=dict)  # of kept blobs that cannot be read: missing or corrupt
    holder: Holder | None = None
    work: tuple[Work, ...] = ()
    evidence: tuple[Evidence, ...] = ()  # recorded since the revision was stored, oldest first
    given: tuple[Reason, ...] = ()  # what the task's unfinished run gives
    composed: bool = False
    fallen: Mapping[str, str] = field(default_factory=dict)  # refs of its evidence that do not stand, and why
    foreign: Reason | None = None  # that its commands are somebody else's
    lost: tuple[tuple[str, str, str], ...] = ()  # code, ref and what was found, of evidence that is not what it was


def verdict_of(known: Known, seen: Observed | None, at: int) -> Verdict:
    """The verdict on continuing from this revision now."""
    return judge(reasons_of(known, seen, at))


def reasons_of(known: Known, seen: Observed | None, at: int) -> list[Reason]:
    """Every reason, for and against. A broken record is believed in nothing else that it says."""
    anchor = known.handoff.anchor
    if known.broken:
        advice = "restore the store from a copy; `outlast verify` names every broken record"
        return [Reason("integrity_broken", known.broken_record or anchor, "what was stored", known.broken, advice)]
    found = [
        *known.given,
        *((known.foreign,) if known.foreign else ()),
        *_record(known, at),
        *_evidence(known),
        *_files(known, seen),
        *_repository(known.handoff.binding, seen),
        *_checks(known, seen),
    ]
    cleared = CLEARED_BY_CHECKS if _all_passed(known.handoff, seen) else ()
    return [reason for reason in found if reason.code not in cleared]


# -- what to do about a reason -----------------------------------------------------------------------


def command(handoff: Handoff, verb: str, *words: str, anchor: str = "") -> str:
    """A command about a handoff, ready to be copied, also for an anchor that looks like an option."""
    name = anchor or handoff.anchor
    rest = [*words, *(() if handoff.scope == "default" else ("--scope", handoff.scope))]
    named = [*rest, "--", name] if name.startswith("-") else [name, *rest]
    return f"outlast handoff {verb} {join(named)}"


def _accept(handoff: Handoff, code: str, subject: str, *words: str) -> str:
    """The command that takes one reason upon whoever gives it, and goes on."""
    return command(handoff, "recover", "--claim", *words, "--accept", f"{code}:{subject}", "--why", "WHY")


# -- the record itself -------------------------------------------------------------------------------


def _record(known: Known, at: int) -> Iterator[Reason]:
    handoff = known.handoff
    yield from _succession(known)
    if known.holder is not None and not known.holder.mine:
        until = f"{moment(known.holder.until):%Y-%m-%d %H:%M} UTC"
        advice = f"wait, or take it over: {command(handoff, 'claim', '--take', '--why', 'WHY')}"
        yield Reason("claimed", handoff.anchor, "free", f"{known.holder.who}, until {until}", advice)
    if handoff.lint.weak:
        advice = f"store it again with what is missing: {command(handoff, 'lint')}"
        yield Reason("weak", handoff.anchor, "execution-ready", _weaknesses(handoff), advice)
    if at >= handoff.expires_us:
        day = f"{handoff.expires_at:%Y-%m-%d}"
        found = f"stored {handoff.stored_at:%Y-%m-%d}"
        advice = f"run its checks: {command(handoff, 'recover', '--run-checks')}"
        yield Reason("stale", handoff.anchor, f"used before {day}", found, advice)
    if known.composed or (handoff.source == "hook" and "auto_composed" in handoff.tags):
        advice = f"read what the run left, or run the checks: {command(handoff, 'recover', '--run-checks')}"
        yield Reason("auto_composed", handoff.anchor, "written by who stopped", "composed from the run", advice)
    if handoff.masked:
        advice = "ask whoever stored it for what was masked, if you need it"
        yield Reason("masked", handoff.anchor, "nothing masked", ", ".join(handoff.masked), advice)
    for blob, why in sorted(known.blobs.items()):
        code = "artifact_missing" if why == "missing" else "artifact_corrupt"
        advice = "restore the blob from a copy; `outlast verify` names every broken one"
        yield Reason(code, f"blob {blob[:12]}", blob, why, advice)


def _succession(known: Known) -> Iterator[Reason]:
    handoff = known.handoff
    if handoff.revision < known.newest:
        advice = f"recover the newest one: {command(handoff, 'recover')}"
        yield Reason("superseded", f"revision {handoff.revision}", "the newest", f"revision {known.newest}", advice)
    elif known.superseded_by:
        advice = f"recover that one: {command(handoff, 'recover', anchor=known.superseded_by)}"
        yield Reason("superseded", handoff.anchor, "the newest", f"replaced by {known.superseded_by}", advice)
    if rival := rival_of(handoff):
        yield rival


def rival_of(handoff: Handoff) -> Reason | None:
    """That a revision was stored beside who held the claim, and nobody brought the two together since."""
    if not handoff.rival:
        return None
    found = f"stored by {handoff.actor} while {handoff.rival} held the claim"
    if handoff.rival_id:  # an earlier revision, which this one goes past in silence
        found = f"handoff {handoff.rival_id} was stored while {handoff.rival} held the claim"
    replaced = handoff.rival_id or handoff.id
    advice = f"store what counts with --supersedes {replaced}; to compare: {command(handoff, 'diff')}"
    return Reason("rival", f"revision {handoff.revision}", "stored by who holds the claim", found, advice)


def _evidence(known: Known) -> Iterator[Reason]:
    """What became of the evidence that it rests on."""
    handoff, code = known.handoff, "evidence_contradicted"
    for ref, why in sorted(known.fallen.items()):
        see = f"outlast workspace why {quote(ref)}"
        yield Reason(code, ref, "stands", why, f"{see}; or accept it: {_accept(handoff, code, ref)}")
    for code, ref, found in known.lost:
        advice = f"restore it from a copy; or accept it: {_accept(handoff, code, ref)}"
        yield Reason(code, ref, "what was saved", found, advice)


def _weaknesses(handoff: Handoff) -> str:
    codes = ", ".join(finding.code for finding in handoff.lint.findings)
    return f"{handoff.lint.score} of 100: {codes}"


# -- files -------------------------------------------------------------------------------------------


def _files(known: Known, seen: Observed | None) -> Iterator[Reason]:
    handoff, bound = known.handoff, known.handoff.binding
    if not known.composed and (bound is None or not bound.files):
        advice = (
            f"store all of it again where the files are, naming them: {command(handoff, 'store', '--file', 'FILE')}"
        )
        yield Reason("unbound", handoff.anchor, "files that were looked at", "none", advice)
    if seen is None:
        if not known.composed or handoff.must_keep:
            advice = f"recover it where the files are: {command(handoff, 'recover', '--repo', 'DIR')}"
            yield Reason("unobserved", handoff.anchor, "files that were looked at", "nobody looked", advice)
        return
    if bound is not None:
        for path in sorted({*bound.files, *(seen.binding.files if bound.folders else ())}):
            yield from _file(known, path, bound.files.get(path, ABSENT), seen.binding.files.get(path, ABSENT))
        yield from _environment(handoff, bound, seen)
    for form in handoff.must_keep:
        if wrong := seen.musts.get(key_of(form)):
            label = label_of(form)
            advice = f"mend it before going on; or accept it: {_accept(handoff, 'must_violated', label)}"
            yield Reason("must_violated", label, "kept", wrong, advice)


def _file(known: Known, path: str, bound: Bound, now: Bound) -> Iterator[Reason]:
    if bound.same(now):
        return
    handoff, worker = known.handoff, _worker(known.work, path, now)
    if worker:
        advice = f"see what was done so far: {command(handoff, 'diff')}"
        yield Reason("partial_work", path, bound.word, f"{now.word}, changed under the claim of {worker}", advice)
    elif now.mode == "absent":
        advice = f"put it back: {command(handoff, 'apply')}; or accept it: {_accept(handoff, 'file_missing', path)}"
        yield Reason("file_missing", path, bound.word, "absent", advice)
    else:
        advice = f"see the change: {command(handoff, 'diff')}; or accept it: {_accept(handoff, 'file_changed', path)}"
        yield Reason("file_changed", path, bound.word, now.word, advice)


def _worker(work: Sequence[Work], path: str, now: Bound) -> str:
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
        if not was.same(now):
            advice = f"store it again if it still holds; to see the change: {command(handoff, 'diff')}"
            yield Reason("environment_changed", path, was.word, now.word, advice)


# -- the repository ----------------------------------------------------------------------------------


def _repository(bound: Binding | None, seen: Observed | None) -> Iterator[Reason]:
    if bound is None or seen is None or not bound.commit:
        return
    now = seen.binding
    if bound.branch and now.branch and bound.branch != now.branch:
        advice = f"git switch {quote(bound.branch)}"
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


def _checks(known: Known, seen: Observed | None) -> Iterator[Reason]:
    now = seen.checks if seen else {}
    forms = {key_of(form): form for form in known.handoff.acceptance_checks}
    said = {each.key: each for each in (*known.handoff.baseline, *known.evidence) if each.key in forms}
    baseline = {each.key: each for each in known.handoff.baseline}
    for key, form in forms.items():
        yield from _check(known.handoff, label_of(form), baseline.get(key), said.get(key), now.get(key))
    if unrun := [label_of(form) for key, form in forms.items() if key not in now]:
        advice = command(known.handoff, "recover", "--run-checks")
        yield Reason("checks_not_run", f"{len(unrun)} of {len(forms)}", "run", "; ".join(unrun), advice)


def _check(
    handoff: Handoff, label: str, base: Evidence | None, said: Evidence | None, now: Evidence | None
) -> Iterator[Reason]:
    """`base`: when it was stored; `said`: the last word on it since; `now`: what was run just now."""
    if now is None:
        if said is not None and said.runner == "self":
            found = f"{_passed(said)}, says {said.by}"
            advice = f"run it: {command(handoff, 'recover', '--run-checks')}"
            yield Reason("self_reported", label, "run by Outlast", found, advice)
        return
    if said is not None and said.runner == "self" and said.passed and not now.passed:
        accept = _accept(handoff, "evidence_contradicted", label, "--run-checks")
        advice = f"find out whether the report was wrong or the work changed since; or accept it: {accept}"
        yield Reason("evidence_contradicted", label, f"passed, says {said.by}", _passed(now), advice)
    elif base is not None and base.runner == "runner" and base.passed and not now.passed:
        accept = _accept(handoff, "check_regressed", label, "--run-checks")
        advice = f"mend what broke it since; or accept it: {accept}"
        yield Reason("check_regressed", label, "passed when stored", _passed(now), advice)
    elif base is not None and not base.passed and now.passed:
        advice = f"the work may be done already; to see what changed: {command(handoff, 'diff')}"
        yield Reason("maybe_done", label, "failed when stored", "passes now", advice)


def _passed(evidence: Evidence) -> str:
    if evidence.passed:
        return "passed"
    return "failed" + (f" (exit {evidence.exit})" if evidence.exit is not None else "")


def _all_passed(handoff: Handoff, seen: Observed | None) -> bool:
    """Whether every check there is was run by the runner just now, and passed."""
    now = seen.checks if seen else {}
    keys = [key_of(form) for form in handoff.acceptance_checks] if now else []
    return bool(keys) and all(key in now and now[key].passed and now[key].runner == "runner" for key in keys)


def label_of(form: Form) -> str:
    """A check, must or rollback in words."""
    if isinstance(form, str):
        return form
    if "run" in form:
        return f"{form['run']} (in {form['cwd']})" if form.get("cwd") else str(form["run"])
    rule = next((name for name in ("exists", "absent", "contains", "sha256") if name in form), "exists")
    return f"{form.get('file')} {rule} {form[rule]}" if rule in ("contains", "sha256") else f"{form.get('file')} {rule}"
