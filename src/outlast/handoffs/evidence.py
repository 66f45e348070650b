"""Evidence: what came of checks, as it is reported and as it counts.

`counted` says which of it counts: one pure function of what was said of a check, in order, and of the content now. A
run lapses when the content that it ran on is another; the rule in words is in docs/evidence.md. What to think of what
counts is `verdict.py`; checks are run by `checks.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from outlast.errors import HandoffInvalid, IntegrityBroken
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.handoff import MAX_CHECKS, Contract, Evidence, Form, Runner, command_of, key_of, rule_of
from outlast.values.codec import digest, encode, readable
from outlast.values.late import late
from outlast.values.text import nearest

if TYPE_CHECKING:
    from outlast.handoffs import contract as contracts
    from outlast.home.caller import Caller
else:
    contracts = late("outlast.handoffs.contract")  # whoever only recovers reads no contract

Came = Literal["unrun", "reported", "passed", "failed", "regressed", "contradicted", "failed_before"]
When = Literal["store", "recover", "verify", "settle"]
LONGEST = 4096  # characters of a path
NOTE = 10_000  # characters
_SHOWN = 200  # characters of a check in a line about it
DIGEST = re.compile(r"[0-9a-f]{64}")


class Ran(Struct, frozen=True, kw_only=True):
    """What came of one check that was run where the files are."""

    check: Form
    passed: bool
    exit: int | None = None
    seconds: float = 0.0
    output: str = ""  # the blob that holds what it printed
    note: str = ""
    host: str = ""  # where it was run


class CountedCheck(Struct, frozen=True):
    """What came of one check, as far as it counts now."""

    came: Came
    word: Evidence | None = None  # what counts; of `failed_before` and `reported` the last that is known
    against: Evidence | None = None  # what it is not in line with: a pass before, or somebody's word

    @property
    def ran(self) -> bool:
        """Whether it was run on the content as it is now."""
        return self.word is not None and self.word.runner != "self" and self.came != "failed_before"


def content_of(found: Binding) -> str:
    """A digest of what a check may depend on: targets, files of musts, environment, commit and other changed files.

    "" where nothing was looked at: then it is not known what it ran on.
    """
    if not (found.files or found.musts or found.environment or found.commit):
        return ""
    files = [_words(each) for each in (found.files, found.musts, found.environment)]
    return digest(encode([*files, found.commit, found.dirty]))


def with_content(evidence: Sequence[Evidence], found: Binding | None) -> list[Evidence]:
    """The same, with the content that it is about."""
    content = content_of(found) if found is not None and evidence else ""
    return [replace(each, content=content) for each in evidence]


def content_during(before: Binding, after: Binding) -> str:
    """What checks ran on, that was looked at before and after; "" when it changed meanwhile.

    They may write files of their own: what only git sees besides counts as they left it.
    """
    return content_of(after) if content_of(replace(before, dirty=after.dirty)) == content_of(after) else ""


def _words(files: Mapping[str, Bound]) -> list[list[str]]:
    """Files by what makes two of them the same, and what links lead to: line ends do not count."""
    unreadable = ("", "unreadable")
    return [
        [path, each.mode, each.blob or each.digest, unreadable[each.why == "unreadable"], each.leads]
        for path, each in sorted(files.items())
    ]


def counted(words: Sequence[Evidence], content: str | None) -> CountedCheck:
    """What counts of what was said of one check, oldest first; `content` is None where nobody looked.

    A run (by a runner, or by a client, whose word weighs less) counts on the content that it ran on, until it is run
    again there. What came of it at store is what later runs are held against, and no run since.
    """
    runs = [each for each in words if each.when != "store" and each.runner != "self"]
    if content is None:
        return _unseen(words, runs)
    run = _run(runs, content)
    if run is not None:
        return _passed(words, run) if run.passed else _failed(words, run)
    if runs and not runs[-1].passed:  # on other content
        was = _failed(words, runs[-1])
        if was.came != "failed":
            return CountedCheck("failed_before", runs[-1], was.against)
    return _said(words, content)


def _unseen(words: Sequence[Evidence], runs: Sequence[Evidence]) -> CountedCheck:
    """What counts where nobody looked: the worst of what may be there, and no pass.

    That is what the last run ran on, and what anything that was said since is about.
    """
    said = _after(words, runs[-1]) if runs else words
    known = [*(each.content for each in runs[-1:]), *(each.content for each in reversed(said) if each.content)]
    found = [counted(words, each) for each in dict.fromkeys(known)] or [_said(words, None)]
    return max((_said(words, None) if each.came == "passed" else each for each in found), key=_weight)


def _weight(counts: CountedCheck) -> int:
    """How much it speaks against going on."""
    return {"regressed": 2, "contradicted": 2, "reported": 1, "failed_before": 1}.get(counts.came, 0)


def _run(runs: Sequence[Evidence], content: str | None) -> Evidence | None:
    """The run that counts. Where it is not known what the last one ran on, a failure that nobody ran again does."""
    if runs and not runs[-1].passed and not runs[-1].content:
        return runs[-1]
    here = [each for each in runs if content and each.content == content]
    return _newest(here, "runner") or _newest(here, "client")


def _newest(runs: Sequence[Evidence], runner: str) -> Evidence | None:
    return next((each for each in reversed(runs) if each.runner == runner), None)


def _passed(words: Sequence[Evidence], run: Evidence) -> CountedCheck:
    """It passes, unless somebody has said since that it fails."""
    later = _after(words, run)
    against = next((each for each in reversed(later) if not each.passed and _alike(each, run.content)), None)
    return CountedCheck("contradicted" if against else "passed", run, against)


def _failed(words: Sequence[Evidence], run: Evidence) -> CountedCheck:
    """It fails: against somebody's word that it passes, against a run that passed, or as it ever did."""
    before = [each for each in words[: _place(words, run)] if each.runner != "self" and each.passed]
    unproven = _after(words, before[-1]) if before else words
    said = [each for each in unproven if each.runner == "self" and each.passed]
    said += [each for each in _after(words, run) if each.passed and each.content and each.content == run.content]
    if said:
        return CountedCheck("contradicted", run, said[-1])
    return CountedCheck("regressed", run, before[-1]) if before else CountedCheck("failed", run)


def _said(words: Sequence[Evidence], content: str | None) -> CountedCheck:
    """What is only said, since the last run; two who disagree about the same content contradict each other."""
    runs = [each for each in words if each.runner != "self"]
    claims = _after(words, runs[-1]) if runs else words
    if not claims:
        return CountedCheck("unrun")
    last = ([each for each in claims if content is None or _alike(each, content)] or claims)[-1]
    others = [each for each in claims if each.passed != last.passed and not (each.when == "store" and last.passed)]
    same = content is None or _alike(last, content)
    against = next((each for each in reversed(others) if same and _alike(each, last.content)), None)
    return CountedCheck("contradicted" if against else "reported", last, against)


def _alike(word: Evidence, content: str) -> bool:
    """Whether a word may be about this content: that of one of them is not known, or they are equal."""
    return not word.content or not content or word.content == content


def _after(words: Sequence[Evidence], one: Evidence) -> Sequence[Evidence]:
    return words[_place(words, one) + 1 :]


def _place(words: Sequence[Evidence], one: Evidence) -> int:
    return next(place for place in range(len(words) - 1, -1, -1) if words[place] is one)


# -- what others say came of checks ------------------------------------------------------------------


_BEYOND = 1 << 53  # what JSON can carry everywhere is below


def reported(
    given: Any, contract: Contract, *, when: When, by: str, at: int, where: str, path: str = "evidence"
) -> list[Evidence]:
    """Evidence as callers report it: `{"check", "passed"}` and, if they like, `exit`, `seconds` and `note`.

    Raises HandoffInvalid with the path of what cannot be used.
    """
    if not isinstance(given, list | tuple):
        why = f"is no list but {contracts.kind_of(given)}"
        raise HandoffInvalid(path, why, 'give a list of {"check": …, "passed": true}')
    if len(given) > MAX_CHECKS:
        remedy = "report each check once, with its last result"
        raise HandoffInvalid(path, f"has {len(given)} items; the limit is {MAX_CHECKS}", remedy)
    found = []
    for place, item in enumerate(given):
        fields = _fields(item, contract, f"{path}[{place}]", settles=when == "settle")
        found.append(Evidence(**fields, at=at, by=by, where=where, runner="self", when=when))
    return found


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "passed": ("true or false", lambda value: type(value) is bool),
    "exit": ("a whole number", lambda value: type(value) is int and abs(value) < _BEYOND),
    "seconds": ("a number of seconds, 0 or more", lambda value: type(value) in (int, float) and 0 <= value < _BEYOND),
    "note": ("a text that UTF-8 can carry", lambda value: type(value) is str and readable(value) == value),
}
_KEYS = ("check", *_KINDS)


def _fields(item: Any, contract: Contract, path: str, *, settles: bool) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise HandoffInvalid(path, f"is no object but {contracts.kind_of(item)}", 'give {"check": …, "passed": true}')
    for key in item:
        if key not in _KEYS:
            name = str(key) if isinstance(key, str) else _shown(key)
            known = nearest(name, _KEYS, "the keys here are")
            raise HandoffInvalid(f"{path}.{on_one_line(name)}", "is not known here", known)
    for key in ("check", "passed"):
        if key not in item:
            raise HandoffInvalid(f"{path}.{key}", "is missing", "say which check it was and whether it passed")
    fields = {key: item[key] for key in _KINDS if item.get(key) is not None or key == "passed"}
    _refuse_unfit(fields, path)
    form = _check_of_contract(item["check"], contract, f"{path}.check", settles)
    _refuse_contradiction(form, fields, path)
    return {"check": form, **fields}


def _refuse_unfit(fields: Mapping[str, Any], path: str) -> None:
    for key, value in fields.items():
        wanted, fits = _KINDS[key]
        if not fits(value):
            raise HandoffInvalid(f"{path}.{key}", f"is {_shown(value)}", f"give {wanted}")


def _check_of_contract(given: Any, contract: Contract, path: str, settles: bool) -> Form:
    """The contract's own form of the check that was given. When one without any is settled, what was looked at."""
    forms = contract.acceptance_checks
    for form in forms:
        if form == given:
            return form
    if settles and shows_nothing(contract):
        return contracts.read_check(given, path)
    if not forms:
        remedy = "leave it out, or store the handoff again with acceptance_checks"
        raise HandoffInvalid(path, "is no check of the handoff, which has none", remedy)
    wanted = _shown(given)
    from difflib import SequenceMatcher  # late: nobody needs it who makes no mistake

    close = max(map(_shown, forms), key=lambda known: SequenceMatcher(None, wanted, known).ratio())
    remedy = f"give one of its acceptance_checks; the nearest is {close}"
    raise HandoffInvalid(path, f"is no check of the handoff: {wanted}", remedy)


def shows_nothing(contract: Contract) -> bool:
    """Whether no check of it can tell that the work is done: it has none, or they pass whatever was done."""
    return all(map(contracts.passes_always, contract.acceptance_checks))


def _refuse_contradiction(form: Form, fields: Mapping[str, Any], path: str) -> None:
    command = command_of(form)
    code = fields.get("exit")
    if fields["passed"] and command is not None and code not in (None, command.exit):
        why = f"is true, though its exit is {code} and the check wants {command.exit}"
        raise HandoffInvalid(f"{path}.passed", why, "report what really came of it")


def _shown(value: Any) -> str:
    try:
        return on_one_line(repr(value))
    except (ValueError, RecursionError):  # a number with thousands of digits; a list that contains itself often enough
        return contracts.kind_of(value)


def evidence_of(
    caller: Caller, ran: Sequence[Ran], about: Contract, *, when: When, by: str, where: str
) -> list[Evidence]:
    """What came of each check, as who ran it says: each of them, in order. Raises HandoffInvalid, SecretFound."""
    by_key = {key_of(each.check): each for each in ran}
    wanted = [key_of(form) for form in about.acceptance_checks]
    if len(by_key) != len(ran) or {*by_key} != {*wanted}:
        why = f"they are not the {len(wanted)} checks of the handoff, each once"
        raise HandoffInvalid("ran", why, "send what came of each of its acceptance_checks")
    return [_evidence_of_one(caller, by_key[key], when, by, where) for key in wanted]


def _evidence_of_one(caller: Caller, ran: Ran, when: When, by: str, where: str) -> Evidence:
    caller.home.secrets.check(ran.note, "ran.note")
    said = {name: getattr(ran, name) for name in ("passed", "exit", "seconds", "note")}
    _refuse_unfit({key: value for key, value in said.items() if value is not None}, "ran")
    _refuse_contradiction(ran.check, said, "ran")
    for name, words, most in (("note", ran.note, NOTE), ("host", ran.host, LONGEST)):
        if len(words) > most:
            raise HandoffInvalid(f"ran.{name}", f"it has more than {most:,} characters", "send a shorter one")
    if not ran.host.isprintable():
        raise HandoffInvalid("ran.host", "it has characters that cannot be printed", "send the name of the host")
    if ran.output and not (DIGEST.fullmatch(ran.output) and _is_here(caller, ran.output)):
        remedy = f"send it first: PUT /v1/handoff/blobs/{ran.output[:64]}"
        raise HandoffInvalid("ran.output", f"the content {ran.output[:12]}… is not here", remedy)
    # what a run has: its exit code, or that it had none, which passes only a rule about a file
    is_shown = ran.exit is not None or rule_of(ran.check) is not None or bool(ran.note and not ran.passed)
    runner: Runner = "client" if is_shown else "self"
    told, at = asdict(ran), caller.home.clock.now()
    return Evidence(where=told.pop("host") or where, **told, at=at, by=by, runner=runner, when=when)


def _is_here(caller: Caller, name: str) -> bool:
    try:
        return caller.has_content(name) and caller.home.blobs.renew(name)
    except IntegrityBroken:
        return False


def on_one_line(text: str) -> str:
    """A text as one line that can be shown, however long or strange it is."""
    shown = "".join(each if each.isprintable() else " " for each in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown}… ({len(text)} characters)"
