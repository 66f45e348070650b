"""What a must asks for: a rule about files that anybody can look at, or prose that somebody has to acknowledge. Pure.

A text without a blank is a rule if it has a `/` or a sign of a pattern in it, or names a file that was there when the
handoff was stored; every other text is prose. What the files are is looked at by `binding.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from msgspec import Struct

from outlast.errors import HandoffInvalid, NameInvalid
from outlast.files.patterns import Patterns, one
from outlast.files.rules import FileRule
from outlast.files.snapshot import ABSENT, Binding, Bound
from outlast.handoffs.handoff import Contract, Form, rule_of

MustName = Literal["must_change", "must_remove", "must_keep"]
MUST_NAMES: tuple[str, ...] = get_args(MustName)
WANTS: dict[str, str] = {"must_keep": "unchanged", "must_change": "changed", "must_remove": "absent"}
SAYS = {
    "unchanged": "as it was when stored",
    "changed": "other than it was when stored",
    "absent": "gone",
    "prose": "prose, nobody looks",
    "rule": "a rule about a file",
}
SINCE = "is not as it was for an earlier revision"  # that said it too: so begins what is wrong from before
_SIGNS = "*?["
_SHOWN = 5  # files that are named


class PathRule(Struct, frozen=True):
    """What must have become of the files that a path or pattern means."""

    pattern: str
    wants: str  # unchanged or changed since it was stored; or absent

    @property
    def meant(self) -> Patterns:
        return one(self.pattern if _is_wild(self.pattern) else self.pattern.removesuffix("/"))

    def of(self, files: Mapping[str, Bound]) -> dict[str, Bound]:
        """Those of the files that are meant and there."""
        return {path: each for path, each in files.items() if each.mode != "absent" and self.meant.matches(path)}


def pattern_of(form: Form) -> str:
    """The path or pattern that a must may be; "" for what can only be prose or is a rule of its own."""
    if not isinstance(form, str) or "://" in form or any(each.isspace() for each in form):
        return ""
    try:
        one(form)
    except NameInvalid:
        return ""
    return form


def is_pattern(text: str) -> bool:
    """Whether a text is a path or pattern by its look alone."""
    return any(sign in text for sign in ("/", *_SIGNS))


def rule_of_must(name: str, form: Form, bound: Binding | None) -> FileRule | PathRule | None:
    """The rule that a must is; None for prose, and for what must be compared with files that nobody looked at."""
    if not isinstance(form, str):
        return rule_of(form)
    if not (pattern := pattern_of(form)) or name not in WANTS:
        return None
    rule = PathRule(pattern, WANTS[name])
    if not is_pattern(pattern) and not (bound and rule.of(bound.musts)):
        return None
    return rule if bound is not None or rule.wants == "absent" else None


def meaning_of(name: str, form: Form, bound: Binding | None) -> str:
    """What a must is taken for: `unchanged`, `changed`, `absent`, `rule` or `prose`."""
    rule = rule_of_must(name, form, bound)
    return rule.wants if isinstance(rule, PathRule) else "rule" if rule else "prose"


def prose_in(contract: Contract, bound: Binding | None) -> list[str]:
    """The musts that only words can answer."""
    return [str(form) for name, form in contract.musts if rule_of_must(name, form, bound) is None]


def broken_path(rule: PathRule, was: Mapping[str, Bound], now: Mapping[str, Bound]) -> str:
    """What is wrong with the files of a rule, in words; "" when it holds."""
    then, found = rule.of(was), rule.of(now)
    if rule.wants == "absent":
        return f"is there: {_some(sorted(found))}" if found else ""
    changed = [*_changes(then, found)]
    if rule.wants == "unchanged":
        return f"is not as it was: {_some(changed)}" if changed else ""
    return "" if changed else "is as it was when the handoff was stored"


def _changes(then: Mapping[str, Bound], now: Mapping[str, Bound]) -> Iterator[str]:
    for path in sorted({*then, *now}):
        was, is_ = then.get(path, ABSENT), now.get(path, ABSENT)
        if not was.same(is_):
            yield f"{path} is {is_.word}, was {was.word}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# -- what cannot be kept at once ---------------------------------------------------------------------


def refuse_contradictions(contract: Contract) -> None:
    """Raises HandoffInvalid for two musts that exclude each other."""
    every = each_must(contract)
    _refuse_rules(contract, every)
    kept = [(place, form) for name, place, form in every if name == "must_keep"]
    for place, form in kept:
        for field, other, verb in _moved(contract):
            if _excludes(form, other, verb):
                why = f"{_name(form)} is to be kept, and {field} has {_name(other)} {verb}"
                raise HandoffInvalid(
                    f"must_keep[{place}]", why, f"leave one of them out; both can never hold ({field})"
                )
    _refuse_made_and_removed(contract)


def each_must(contract: Contract) -> list[tuple[str, int, Form]]:
    """Every must with the name of its field and its place there."""
    return [(name, place, form) for name in MUST_NAMES for place, form in enumerate(getattr(contract, name))]


def _moved(contract: Contract) -> Iterator[tuple[str, Form, str]]:
    """What is to become other than it is."""
    for name, place, form in each_must(contract):
        if name != "must_keep":
            yield f"{name}[{place}]", form, "changed" if name == "must_change" else "removed"
    for place, path in enumerate(contract.creates):
        yield f"creates[{place}]", path, "made"


def _excludes(kept: Form, other: Form, verb: str) -> bool:
    if kept == other and isinstance(kept, str):
        return True
    inside, outer = _file_of(other, verb), _file_of(kept, "kept")
    if not inside or not outer:
        return False
    if not _is_wild(inside) and one(outer).matches(inside.removesuffix("/")):
        return True
    return verb == "removed" and not _is_wild(outer) and one(inside).matches(outer.removesuffix("/"))


def _file_of(form: Form, verb: str) -> str:
    """The path or pattern that a must is about; of a rule about a file only where it says the same as a path would."""
    if isinstance(form, str):
        return pattern_of(form)
    rule = rule_of(form)
    return rule.file if rule and rule.rule == {"removed": "absent", "kept": "exists"}.get(verb) else ""


def _is_wild(pattern: str) -> bool:
    return any(sign in pattern for sign in _SIGNS)


def _refuse_made_and_removed(contract: Contract) -> None:
    for place, path in enumerate(contract.creates):
        for number, form in enumerate(contract.must_remove):
            pattern = _file_of(form, "removed")
            if pattern and one(pattern).matches(path.removesuffix("/")):
                why = f"{path!r:.200} is to be made, and must_remove[{number}] has {_name(form)} removed"
                raise HandoffInvalid(f"creates[{place}]", why, "leave one of them out; both can never hold")


def _refuse_rules(contract: Contract, musts: list[tuple[str, int, Form]]) -> None:
    """Rules about one file that exclude each other: all of them, and the checks, must hold in the end."""
    seen: dict[str, tuple[str, FileRule]] = {}
    checks = [("acceptance_checks", at, form) for at, form in enumerate(contract.acceptance_checks)]
    for name, place, form in musts + checks:
        rule = rule_of(form)
        if rule is None:
            continue
        for other, before in [pair for key, pair in seen.items() if key.partition("\0")[0] == rule.file]:
            if _contradict(rule, before):
                why = f"{_name(form)}, and {other} has the file {before.rule} {before.value}".rstrip()
                raise HandoffInvalid(f"{name}[{place}]", why, f"leave one of them out; both can never hold ({other})")
        seen[f"{rule.file}\0{name}{place}"] = (f"{name}[{place}]", rule)


def _contradict(one_rule: FileRule, other: FileRule) -> bool:
    rules = {one_rule.rule, other.rule}
    return ("absent" in rules and len(rules) == 2) or (rules == {"sha256"} and one_rule.value != other.value)


def _name(form: Form) -> str:
    rule = rule_of(form)
    return f"{rule.file!r:.200} {rule.rule}" if rule else f"{form!r:.200}"
