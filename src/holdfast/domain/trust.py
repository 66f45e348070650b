"""How far a handoff may be trusted: one pure function of recorded facts, what was seen, who asks and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Literal

from holdfast.clock import moment
from holdfast.domain.handoff import ABSENT, Binding, Bound, Evidence, Form, Handoff, key_of
from holdfast.domain.verdict import Reason, Verdict, judge

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


def verdict_of(known: Known, seen: Observed | None, at: int) -> Verdict:
    """The verdict on continuing from this revision now."""
    return judge(reasons_of(known, seen, at))


def reasons_of(known: Known, seen: Observed | None, at: int) -> list[Reason]:
    """Every reason, for and against. A broken record is believed in nothing else that it says."""
    anchor = known.handoff.anchor
    if known.broken:
        advice = "restore the store from a copy; `holdfast verify` names every broken record"
        return [Reason("integrity_broken", known.broken_record or anchor, "what was stored", known.broken, advice)]
    found = [
        *known.given,
        *_record(known, at),
        *_files(known, seen),
        *_repository(known.handoff.binding, seen),
        *_checks(known, seen),
    ]
    cleared = CLEARED_BY_CHECKS if _all_passed(known.handoff, seen) else ()
    return [reason for reason in found if reason.code not in cleared]


# -- the record itself -------------------------------------------------------------------------------


def _record(known: Known, at: int) -> Iterator[Reason]:
    handoff, name = known.handoff, quote(known.handoff.anchor)
    yield from _succession(known, name)
    if known.holder is not None and not known.holder.mine:
        until = f"{moment(known.holder.until):%Y-%m-%d %H:%M} UTC"
        advice = f"wait, or take it over: holdfast handoff claim {name} --take --why WHY"
        yield Reason("claimed", handoff.anchor, "free", f"{known.holder.who}, until {until}", advice)
    if handoff.lint.weak:
        advice = f"store it again with what is missing: holdfast handoff lint {name}"
        yield Reason("weak", handoff.anchor, "execution-ready", _weaknesses(handoff), advice)
    if at >= handoff.expires_us:
        day = f"{handoff.expires_at:%Y-%m-%d}"
        found = f"stored {handoff.stored_at:%Y-%m-%d}"
        advice = f"run its checks: holdfast handoff recover {name} --run-checks"
        yield Reason("stale", handoff.anchor, f"used before {day}", found, advice)
    if known.composed:
        advice = f"read what the run left, or run the checks: holdfast handoff recover {name} --run-checks"
        yield Reason("auto_composed", handoff.anchor, "written by who stopped", "composed from the run", advice)
    if handoff.masked:
        advice = "ask whoever stored it for what was masked, if you need it"
        yield Reason("masked", handoff.anchor, "nothing masked", ", ".join(handoff.masked), advice)
    for blob, why in sorted(known.blobs.items()):
        code = "artifact_missing" if why == "missing" else "artifact_corrupt"
        advice = "restore the blob from a copy; `holdfast verify` names every broken one"
        yield Reason(code, f"blob {blob[:12]}", blob, why, advice)


def _succession(known: Known, name: str) -> Iterator[Reason]:
    handoff = known.handoff
    if handoff.revision < known.newest:
        advice = f"recover the newest one: holdfast handoff recover {name}"
        yield Reason("superseded", f"revision {handoff.revision}", "the newest", f"revision {known.newest}", advice)
    elif known.superseded_by:
        advice = f"recover that one: holdfast handoff recover {quote(known.superseded_by)}"
        yield Reason("superseded", handoff.anchor, "the newest", f"replaced by {known.superseded_by}", advice)
    if handoff.rival:
        found = f"stored by {handoff.actor} while {handoff.rival} held the claim"
        advice = f"compare (holdfast handoff diff {name}), then store what counts with --supersedes {handoff.id}"
        yield Reason("rival", f"revision {handoff.revision}", "stored by who holds the claim", found, advice)


def _weaknesses(handoff: Handoff) -> str:
    codes = ", ".join(finding.code for finding in handoff.lint.findings)
    return f"{handoff.lint.score} of 100: {codes}"


# -- files -------------------------------------------------------------------------------------------


def _files(known: Known, seen: Observed | None) -> Iterator[Reason]:
    handoff, bound = known.handoff, known.handoff.binding
    name = quote(handoff.anchor)
    if not known.composed and (bound is None or not bound.files):
        advice = "store it again where the files are, naming them: holdfast handoff store … --file FILE"
        yield Reason("unbound", handoff.anchor, "files that were looked at", "none", advice)
    if seen is None:
        if not known.composed or handoff.must_keep:
            advice = f"recover it where the files are: holdfast handoff recover {name} (or --repo DIR)"
            yield Reason("unobserved", handoff.anchor, "files that were looked at", "nobody looked", advice)
        return
    if bound is not None:
        for path in sorted({*bound.files, *(seen.binding.files if bound.folders else ())}):
            yield from _file(known, path, bound.files.get(path, ABSENT), seen.binding.files.get(path, ABSENT))
        yield from _environment(bound, seen)
    for form in handoff.must_keep:
        if wrong := seen.musts.get(key_of(form)):
            advice = "mend it before going on, or accept it with a reason: --accept must_violated --why WHY"
            yield Reason("must_violated", label_of(form), "kept", wrong, advice)


def _file(known: Known, path: str, bound: Bound, now: Bound) -> Iterator[Reason]:
    if bound.same(now):
        return
    name = quote(known.handoff.anchor)
    worker = _worker(known.work, path, now)
    if worker:
        advice = f"see what was done so far: holdfast handoff diff {name}"
        yield Reason("partial_work", path, bound.word, f"{now.word}, changed under the claim of {worker}", advice)
    elif now.mode == "absent":
        advice = f"put it back: holdfast handoff apply {name}; or accept: --accept file_missing --why WHY"
        yield Reason("file_missing", path, bound.word, "absent", advice)
    else:
        advice = f"see the change: holdfast handoff diff {name}; or accept: --accept file_changed --why WHY"
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


def _environment(bound: Binding, seen: Observed) -> Iterator[Reason]:
    for path, was in sorted(bound.environment.items()):
        now = seen.binding.environment.get(path, ABSENT)
        if not was.same(now):
            advice = "look at what changed in it, then run the checks"
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
        advice = f"look at what became of it: git log {bound.commit[:12]}..HEAD"
        yield Reason("diverged", "commit", f"{bound.commit[:12]} or after", found, advice)
    elif seen.relation == "ahead":
        advice = f"nothing to do; the new commits: git log --oneline {bound.commit[:12]}..HEAD"
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
        yield from _check(label_of(form), baseline.get(key), said.get(key), now.get(key))
    if unrun := [label_of(form) for key, form in forms.items() if key not in now]:
        name = quote(known.handoff.anchor)
        advice = f"holdfast handoff recover {name} --run-checks"
        yield Reason("checks_not_run", f"{len(unrun)} of {len(forms)}", "run", "; ".join(unrun), advice)


def _check(label: str, base: Evidence | None, said: Evidence | None, now: Evidence | None) -> Iterator[Reason]:
    """`base`: when it was stored; `said`: the last word on it since; `now`: what was run just now."""
    if now is None:
        if said is not None and said.runner == "self":
            found = f"{_passed(said)}, says {said.by}"
            yield Reason("self_reported", label, "run by Holdfast", found, "run it: --run-checks")
        return
    if said is not None and said.runner == "self" and said.passed and not now.passed:
        advice = "the report was wrong or the work changed since: find out which before going on"
        yield Reason("evidence_contradicted", label, f"passed, says {said.by}", _passed(now), advice)
    elif base is not None and base.runner == "runner" and base.passed and not now.passed:
        advice = "something broke it since: mend that first, or accept it: --accept check_regressed --why WHY"
        yield Reason("check_regressed", label, "passed when stored", _passed(now), advice)
    elif base is not None and not base.passed and now.passed:
        advice = "the work may be done already: look before doing it again"
        yield Reason("maybe_done", label, "failed when stored", "passes now", advice)


def _passed(evidence: Evidence) -> str:
    if evidence.passed:
        return "passed"
    return "failed" + (f" (exit {evidence.exit})" if evidence.exit is not None else "")


def _all_passed(handoff: Handoff, seen: Observed | None) -> bool:
    """Whether every check there is was run by the runner just now, and passed."""
    keys = [key_of(form) for form in handoff.acceptance_checks]
    now = seen.checks if seen else {}
    return bool(keys) and all(key in now and now[key].passed and now[key].runner == "runner" for key in keys)


def label_of(form: Form) -> str:
    """A check, must or rollback in words."""
    if isinstance(form, str):
        return form
    if "run" in form:
        return f"{form['run']} (in {form['cwd']})" if form.get("cwd") else str(form["run"])
    rule = next((name for name in ("exists", "absent", "contains", "sha256") if name in form), "exists")
    return f"{form.get('file')} {rule} {form[rule]}" if rule in ("contains", "sha256") else f"{form.get('file')} {rule}"
