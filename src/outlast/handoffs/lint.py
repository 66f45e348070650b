"""How fit a contract is for being continued from: the known mistakes, each with a better wording, and a score.

What a text says is found out by `wording.py`; here what is missing becomes findings. What they propose is made of the
contract's own words.

Words that say nothing to whoever continues, and checks that pass whatever was done. Pure.

A text is empty-handed when nothing is left of it without words such as `continue`, `the rest`, `TBD`: no name, no
file, no thing. One concrete word is enough: "Fix the parser" says what, "Fix it" does not.

Whether a task was only opened: nothing was recorded, nothing ran, and every file is as git has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from outlast.files.snapshot import Binding
from outlast.handoffs.contract import LONGEST_CHECK, command_passes_always, run_of
from outlast.handoffs.handoff import Contract, Finding, Form, Lint, absent_targets, key_of, must_key
from outlast.handoffs.musts import SINCE, PathRule, each_must, rule_of_must
from outlast.handoffs.wording import LISTS, commands_in, last_order, only_past, paths_in, sentences_of, word_set
from outlast.values.codec import encode
from outlast.values.text import one_line

_EMPTY = LISTS["empty"]
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_CONCRETE = re.compile(r"`[^`]+`|\w\(\)|\w\.\w|\w/\w|\w_\w|[a-z][A-Z]|\d")
_PROSE_CHECK = re.compile(
    r"(?:make sure|check (?:that|whether|if)|verify that|ensure|confirm that|tests? pass(?:es)?|it works"
    r"|tbd|todo|n/a|none|manual(?:ly)?)\b|\W*\Z",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Whether a text has not one word that says what to do it to. Mostly its first word does."""
    if len(text) > LONGEST_CHECK:
        return False
    for found in _WORD.finditer(text):
        if found[0].lower().replace("’", "'") not in _EMPTY:
            return False
    return not _CONCRETE.search(text) and not paths_in(text)


def proves_nothing(form: Form) -> bool:
    """Whether a check passes whatever was done, or is a sentence that no shell understands."""
    run = run_of(form)
    return command_passes_always(run) or bool(run and len(run) <= LONGEST_CHECK and _PROSE_CHECK.match(run))


PENALTIES = {
    "no_anchor": 40,
    "prose_only": 30,
    "no_next_action": 30,
    "no_files": 25,
    "empty_words": 30,
    "empty_check": 30,
    "no_checks": 20,
    "packet_disagrees": 20,
    "past_tense": 15,
    "must_violated": 20,
    "must_unmatched": 10,
    "target_absent": 10,
    "too_early": 10,
}
WEAK_SCORE = 75  # this or less is weak


def lint(contract: Contract, *, unchanged: bool = False, bound: Binding | None = None) -> Lint:
    """The score of a contract and everything found wrong. A code costs once, however often it was found.

    `unchanged`: nothing was done since the last revision, or since the task opened. `bound`: what its files were, if
    somebody looked.
    """
    found = (
        *_anchor(contract),
        *_tense(contract),
        *_gaps(contract),
        *_empty(contract),
        *_absent(contract, bound),
        *_musts(contract, bound),
        *_early(contract, unchanged),
        *_packets(contract),
    )
    score = max(0, 100 - sum(PENALTIES[code] for code in {finding.code for finding in found}))
    return Lint(score, found, score <= WEAK_SCORE)


# -- the findings ------------------------------------------------------------------------------------

_HASH = re.compile(r"(?<![0-9a-z])(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE)
# Each begins with a sign to look for, where it can: that is found at once, or known to be absent.
_UNSTABLE = (
    ("a uuid", re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)),
    ("a date", re.compile(r"(?<!\d)(?:19|20)\d\d([-_./]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?!\d)")),
    ("a timestamp", re.compile(r"1(?<!\d1)(?:\d{9}|\d{12}|\d{15})(?!\d)")),
    ("a timestamp", re.compile(r":(?<=\d\d:)\d\d:\d\d")),
    ("a timestamp", re.compile(r":(?<=[0-2]\d:)(?<!\d[0-2]\d:)[0-5]\d(?!\d)")),
    ("a commit hash", _HASH),
)
_NUMBER = re.compile(r"#?\d+")
_LINT_WORD = re.compile(r"[^\W_]+")
_DIGEST = re.compile(r"(?<=\w-)[0-9a-f]{12}$")
_CHECK_OF = {
    "npm test": ("ts", "tsx", "js", "jsx", "mjs", "vue", "svelte"),
    "cargo test": ("rs",),
    "go test ./...": ("go",),
    "bundle exec rspec": ("rb",),
    "mvn test": ("java", "kt"),
    "dotnet test": ("cs",),
    "make test": ("c", "cc", "cpp", "h", "hpp"),
}
_NO_NAME = LISTS["no name"]
_PACKET_KEYS = word_set("contract execution execution_packet execution_state handoff packet resume state task")


def _anchor(contract: Contract) -> Iterator[Finding]:
    if why := unstable(contract.anchor):
        better = f"task:{_slug(contract)}"
        yield Finding("no_anchor", "anchor", f"{why}: the next run cannot find it again by a name that stays", better)


def unstable(anchor: str) -> str:
    """Why an anchor is no stable name; "" when it is. A branch has the name that it has."""
    kind, _, name = anchor.strip().rpartition(":")
    if not name:
        return "there is no anchor"
    if kind == "branch":
        return ""
    if _NUMBER.fullmatch(anchor.strip()):
        return f"{anchor!r} is a bare number"
    if all(len(found[0]) < 2 or found[0] in _NO_NAME for found in _LINT_WORD.finditer(name.lower())):
        return f"{anchor!r} names no task"
    named = _DIGEST.sub("", anchor) if "-" in anchor[-14:-12] else anchor  # a task's own ends in a digest of its inputs
    for found, pattern in _UNSTABLE:
        if pattern.search(named):
            return f"{anchor!r} has {found} in it"
    return ""


def _slug(contract: Contract) -> str:
    """A name from the summary, or else from what is to be done, or where."""
    for text in (contract.summary, contract.next_action or "", *contract.target_files[:1], contract.handoff_text):
        if says_nothing(text):
            continue
        words = [word for word in _LINT_WORD.findall(text.lower()) if not re.search(r"\d{5}|\d[a-f]|[a-f]\d", word)]
        slug = "-".join(word[:30] for word in words[:6])
        if slug and not unstable(f"task:{slug}"):
            return slug
    return "NAME-OF-THE-WORK"


def _tense(contract: Contract) -> Iterator[Finding]:
    if only_past(contract.handoff_text):
        first = one_line(sentences_of(contract.handoff_text)[0], 160)
        says = "says what happened and not what to do next"
        yield Finding("past_tense", "handoff_text", says, f"Next: {_action(contract).rstrip('.')}. So far: {first}")
    if contract.next_action and only_past(contract.next_action):
        says = f"{one_line(contract.next_action, 80)!r} is done already: the next action is what comes after it"
        yield Finding("past_tense", "next_action", says, _action(contract))
        yield Finding("no_next_action", "next_action", "what is done is no next action", _action(contract))


def _action(contract: Contract) -> str:
    said = (str(value) for _, key, value in _said(contract) if key == "next_action")
    for text in (contract.next_action or "", last_order(contract.handoff_text), *said):
        if text.strip() and not only_past(text) and not says_nothing(text):
            return text
    return _template(contract)


def _template(contract: Contract) -> str:
    path, symbol = contract.entry
    path = path or next(iter(_mentioned(contract)), "") or "FILE"
    checks = (form for form in contract.acceptance_checks if isinstance(form, str) and not proves_nothing(form))
    check = next((f" until `{form}` passes" for form in checks), "")
    what = "WHAT IS TO BE DONE" if says_nothing(contract.summary) else one_line(contract.summary, 160)
    return f"Open {path}{f' at {symbol}' if symbol else ''} and continue{check}: {what}"


def _gaps(contract: Contract) -> Iterator[Finding]:
    """What is missing. A `file_path` is a file."""
    files = contract.target_files or contract.file_path
    action, checks = (contract.next_action or "").strip(), contract.acceptance_checks
    if not files:
        better = _json(_mentioned(contract) or ["PATH/OF/THE/FIRST/FILE/TO/OPEN"])
        yield Finding("no_files", "target_files", "no file is named: the next run does not know what to open", better)
    if not action:
        says = "no next action: the next run has to guess it"
        yield Finding("no_next_action", "next_action", says, _action(contract))
    if not checks:
        says = "no check: nobody can tell whether the resumed work succeeded"
        yield Finding("no_checks", "acceptance_checks", says, _json(_checks(contract)))
    if not (files or action or checks):
        says = "prose only, nothing to execute: a note is kept as a record in the workspace"
        better = f'workspace.record("note", {_json(one_line(contract.summary or contract.handoff_text, 160))})'
        yield Finding("prose_only", "handoff_text", says, better)


def _empty(contract: Contract) -> Iterator[Finding]:
    """Words that are there and say nothing; checks that pass whatever was done."""
    action, text = contract.next_action or "", contract.handoff_text
    if action.strip() and says_nothing(action):
        says = f"{one_line(action, 80)!r} does not say what to do, nor to what"
        yield Finding("empty_words", "next_action", says, _action(replace(contract, next_action=None)))
    if text.strip() and says_nothing(text) and (not action.strip() or says_nothing(action)):
        says = f"{one_line(text, 80)!r} says nothing to somebody who was not there"
        yield Finding("empty_words", "handoff_text", says, _template(contract))
    if contract.acceptance_checks and all(map(proves_nothing, contract.acceptance_checks)):
        better = _json(_checks(replace(contract, acceptance_checks=())))
        says = f"{_json(contract.acceptance_checks[0])} passes whatever was done, or cannot be run"
        yield Finding("empty_check", "acceptance_checks[0]", says, better)


def _absent(contract: Contract, bound: Binding | None) -> Iterator[Finding]:
    missing = absent_targets(contract, bound)
    for field, path in contract.targets if missing else ():
        if path.removesuffix("/") in missing:
            says = f"{one_line(path, 200)!r} is not there, and is not to be made"
            yield Finding("target_absent", field, says, f"its right name; or, to make it: creates={_json([path])}")


def _musts(contract: Contract, bound: Binding | None) -> Iterator[Finding]:
    """What of the musts can be told to be wrong when it is stored."""
    if bound is None or not contract.musts:
        return
    for name, place, form in each_must(contract):
        rule = rule_of_must(name, form, bound)
        wrong = bound.unkept.get(must_key(name, form), "") if name == "must_keep" else ""
        if wrong:
            says = f"it does not hold even now: the file {one_line(wrong, 200)}"
            better = "mend it first, or make it a must_change"
            if wrong.startswith(SINCE):
                better += "; to keep it as it is now, leave it out of one revision"
            yield Finding("must_violated", f"{name}[{place}]", says, better)
        elif isinstance(rule, PathRule) and not rule.of(bound.musts) and form not in contract.creates:
            says = f"{one_line(str(form), 200)!r} is no file that is there: nothing is looked at"
            yield Finding("must_unmatched", f"{name}[{place}]", says, "its right name, from the root; or a sentence")


def _mentioned(contract: Contract) -> list[str]:
    texts = (contract.handoff_text, contract.next_action or "", contract.summary)
    named = (value for _, key, value in _said(contract) if key in ("file_path", "target_files"))
    packets = (path for value in named for path in _files(value))
    return list(dict.fromkeys((*(path for text in texts for path in paths_in(text)), *packets)))


def _checks(contract: Contract) -> list[Any]:
    """Checks from the text, from a packet, or by the kind of the files."""
    texts = "\n".join((contract.handoff_text, contract.next_action or "", contract.summary))
    said = next((value for _, key, value in _said(contract) if key == "acceptance_checks" and value), None)
    files = [*contract.target_files, *([contract.file_path] if contract.file_path else ()), *_mentioned(contract)]
    by_kind = [check for check in map(_check_of, files) if check]
    tests = [check for check in by_kind if check != "pytest -q"]
    found = list(dict.fromkeys(commands_in(texts))) or said or list(dict.fromkeys(tests or by_kind))
    if not found and files:
        found = [{"file": files[0], "contains": "TEXT THAT THE FINISHED WORK HAS"}]
    unknown = f"COMMAND THAT PASSES WHEN DONE: {one_line(contract.summary, 80)}"
    return found if isinstance(found, list) and found else [unknown]


def _check_of(path: str) -> str:
    name, _, extension = path.rpartition("/")[2].rpartition(".")
    if extension in ("py", "pyi"):
        return f"pytest -q {path}" if name.startswith("test_") or name.endswith("_test") else "pytest -q"
    return next((check for check, extensions in _CHECK_OF.items() if extension in extensions), "")


def _early(contract: Contract, unchanged: bool) -> Iterator[Finding]:
    if unchanged:
        better = f"First do a part of it ({one_line(_action(contract), 160)}), then store what it showed"
        says = "nothing was done since the last revision, or since the task opened: it may not know where to resume"
        yield Finding("too_early", "handoff_text", says, better)


# -- what the packets say ----------------------------------------------------------------------------


def _packets(contract: Contract) -> Iterator[Finding]:
    for where, key, value in _said(contract):
        field, said = _field(contract, key)
        if said and not _agrees(contract, key, value):
            says = f"{where} says {_json(value)}, {field} says {_json(said)}"
            yield Finding("packet_disagrees", where, says, f"{where} = {_json(said)}, or change {field}")


def _said(contract: Contract) -> Iterator[tuple[str, str, Any]]:
    """What the packets say of the contract's own fields: where, which field, what. A null says nothing."""
    if contract.execution_state_v1 is None and contract.execution_packet_v1 is None:
        return
    for name, packet in (("execution_state_v1", contract.state), ("execution_packet_v1", contract.packet)):
        top = packet if isinstance(packet, dict) else {}
        inner = {f"{name}.{key}": top[key] for key in top if key.removesuffix("_v1") in _PACKET_KEYS}
        for where, values in {name: top, **inner}.items():
            for key in ("anchor", "next_action", "target_files", "file_path", "symbol", "acceptance_checks"):
                if isinstance(values, dict) and values.get(key) is not None:
                    yield f"{where}.{key}", key, values[key]


def _field(contract: Contract, key: str) -> tuple[str, Any]:
    """The field that a packet's value is compared with. Empty: the packet adds something and disagrees with nothing."""
    if key == "file_path" and not contract.file_path:
        return "target_files", list(contract.target_files)
    said = getattr(contract, key)
    return key, list(said) if isinstance(said, tuple) else said


def _agrees(contract: Contract, key: str, value: Any) -> bool:
    if key == "acceptance_checks":
        given = value if isinstance(value, list) else [value]
        return {key_of(form) for form in given} == {key_of(form) for form in contract.acceptance_checks}
    if key == "target_files":
        return set(_files(value)) == set(_files(list(contract.target_files)))
    if key == "file_path":
        own = [contract.file_path] if contract.file_path else [*contract.target_files]
        return set(_files(value)) <= set(_files(own))
    return isinstance(value, str) and value.strip() == str(getattr(contract, key)).strip()


def _files(value: Any) -> list[str]:
    given = value if isinstance(value, list) else [value]
    paths = (each.get("path", each.get("file")) if isinstance(each, dict) else each for each in given)
    return [str(path).removeprefix("./") for path in paths if path]


def _json(value: Any) -> str:
    return one_line(encode(value).decode(), 400)
