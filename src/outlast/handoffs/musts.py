"""What a must asks for: a rule about files that anybody can look at, or prose that somebody has to acknowledge.

A text without a blank is a rule if it has a `/` or a sign of a pattern in it, or names a file that was there when the
handoff was stored; every other text is prose. What a must means is pure; its files are looked at below.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import file_digest
from io import FileIO
from itertools import takewhile
from pathlib import Path
from posixpath import normpath
from typing import Literal, get_args

from msgspec import Struct

from outlast.errors import HandoffInvalid, NameInvalid
from outlast.files.ask_git import real
from outlast.files.changes import Patterns, one
from outlast.files.git import FOLDER_FILES, members_of
from outlast.files.snapshot import ABSENT, Binding, Bound, sight, stat_of
from outlast.handoffs.handoff import Contract, FileRule, Form, Handoff, must_key, rule_of
from outlast.values.codec import readable, text

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
    if not every and len(contract.acceptance_checks) < 2:
        return
    _refuse_rules(contract, every)
    kept = [(place, form) for name, place, form in every if name == "must_keep"]
    for place, form in kept:
        for field, other, verb in _moved(contract):
            if _excludes(form, other, verb):
                why = f"{_name(form)} is to be kept, and {field} has {_name(other)} {verb}"
                advice = f"leave one of them out; both can never hold ({field})"
                raise HandoffInvalid(f"must_keep[{place}]", why, advice)
    _refuse_made_and_removed(contract)


def each_must(contract: Contract) -> list[tuple[str, int, Form]]:
    """Every must with the name of its field and its place there."""
    if not (contract.must_change or contract.must_remove or contract.must_keep):
        return []  # mostly
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
    seen: list[tuple[str, FileRule]] = []
    checks = [("acceptance_checks", at, form) for at, form in enumerate(contract.acceptance_checks)]
    for name, place, form in musts + checks:
        rule = rule_of(form)
        if rule is None:
            continue
        for other, before in [each for each in seen if each[1].file == rule.file]:
            rules = {rule.rule, before.rule}
            if ("absent" in rules and len(rules) == 2) or (rules == {"sha256"} and rule.value != before.value):
                why = f"{_name(form)}, and {other} has the file {before.rule} {before.value}".rstrip()
                raise HandoffInvalid(f"{name}[{place}]", why, f"leave one of them out; both can never hold ({other})")
        seen.append((f"{name}[{place}]", rule))


def _name(form: Form) -> str:
    rule = rule_of(form)
    return f"{rule.file!r:.200} {rule.rule}" if rule else f"{form!r:.200}"


# -- the files that musts are about ------------------------------------------------------------------


def bound_musts(contract: Contract, root: Path) -> dict[str, Bound]:
    """The files that the musts of a contract mean, as they are. Raises HandoffInvalid for too many."""
    for name, place, form in each_must(contract):
        if len(_files_of(root, form)) > FOLDER_FILES:
            why = f"{form!r:.200} stands for more than {FOLDER_FILES:,} files"
            raise HandoffInvalid(f"{name}[{place}]", why, "name the files or smaller folders that matter")
    return seen_musts(contract, root)


def seen_musts(contract: Contract, root: Path) -> dict[str, Bound]:
    """The files that the musts of a contract mean, as they are below a real root."""
    return {path: bound for _, form in contract.musts for path, bound in _files_of(root, form).items()}


def _files_of(root: Path, form: Form) -> dict[str, Bound]:
    rule = rule_of(form)
    if rule is None:
        return _files(root, pattern_of(form))
    bound = sight(root, path := rule.file.rstrip("/")).bound
    return {text(path): bound} if bound.mode != "absent" else {}


def broken_must(name: str, form: Form, bound: Binding | None, root: Path) -> str:
    """What is wrong with a must that is a rule; "" when it holds, and for prose."""
    rule = rule_of_must(name, form, bound)
    if isinstance(rule, PathRule):
        root = real(root)
        return broken_path(rule, bound.musts if bound else {}, _files(root, rule.pattern))
    return broken_rule(root, rule) if rule is not None else ""


def broken_musts(handoff: Handoff, root: Path) -> dict[str, str]:
    """What is wrong with each must to keep that is a rule, by key; "" where it holds."""
    bound = handoff.binding
    rules = {must_key("must_keep", form): form for form in handoff.must_keep}
    rules = {key: form for key, form in rules.items() if rule_of_must("must_keep", form, bound)}
    return {key: broken_must("must_keep", form, bound, root) for key, form in rules.items()}


def unkept_at_store(contract: Contract, bound: Binding, root: Path) -> dict[str, str]:
    """The musts to keep that do not even hold when the handoff is stored, by key."""
    wrong = {
        must_key("must_keep", form): broken_must("must_keep", form, bound, root)
        for form in contract.must_keep
        if not isinstance(form, str)
    }
    return {key: each for key, each in wrong.items() if each}


def _files(root: Path, pattern: str) -> dict[str, Bound]:
    """The files that a path or pattern means now: of a folder what git tracks or would add, outside of git all."""
    if not pattern:
        return {}
    base = _base(pattern)
    itself = sight(root, base, -1).bound
    if itself.why != "folder":
        there = itself.mode != "absent" and one(pattern).matches(base)
        return {text(base): sight(root, base).bound} if there else {}
    names: list[str] = []
    with suppress(OSError):  # what cannot be read has no files that anybody could look at
        names = [name for name in members_of(root, base, in_git=False) if one(pattern).matches(name)]
    looked = {text(name): sight(root, name).bound for name in names[: FOLDER_FILES + 1]}
    found = {name: each for name, each in looked.items() if each.mode != "absent" and each.why != "folder"}
    return found or ({text(base): itself} if normpath(pattern) == base else {})


def _base(pattern: str) -> str:
    """The folder or file that a pattern begins with, up to its first sign."""
    plain = takewhile(lambda part: not _is_wild(part), normpath(pattern).split("/"))
    return "/".join(plain) or "."


# -- rules about a file: only looks, and never writes -------------------------------------------------

_CHUNK_BYTES = 65_536
_QUOTED = 200  # characters of a text that was not found
_SPECIAL = "is neither a plain file nor a folder"


def broken_rule(root: Path, rule: FileRule) -> str:
    """What is wrong with the file, in words; "" when the rule holds.

    Links are followed as long as they stay inside the root. Nothing but plain files is ever opened.
    """
    try:
        if not root.is_dir():
            return readable(f"cannot be read: {root} is no folder")
        return _broken(os.path.realpath(root), os.path.join(root, rule.file), rule)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except ValueError as error:  # no file can have such a name
        return f"cannot be read: {error}"


def inside(root: str, path: str) -> bool:
    """Whether a real path is the real root, or below it."""
    return os.path.commonpath((root, path)) == root


def _broken(root: str, path: str, rule: FileRule) -> str:
    real = os.path.realpath(path)
    if not inside(root, real):
        return "leaves the root"
    named, found = stat_of(path.rstrip("/")), stat_of(real)
    if rule.rule == "absent":
        return "" if named is None and found is None else "is there"
    if found is None or stat.S_ISLNK(found.st_mode):
        return "is missing" if named is None else "is a link that leads nowhere"
    if stat.S_ISDIR(found.st_mode):
        return "" if rule.rule == "exists" else "is a folder"
    if not stat.S_ISREG(found.st_mode):
        return _SPECIAL
    if path.endswith("/"):
        return "is no folder"
    return "" if rule.rule == "exists" else _wrong_content(real, rule)


def _wrong_content(path: str, rule: FileRule) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be another by now
    with open(handle, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return _SPECIAL
        if rule.rule == "contains":
            return "" if _contains(file, rule.value.encode("utf-8", "surrogatepass")) else _lacks(rule.value)
        digest = file_digest(file, "sha256").hexdigest()
        return "" if digest == rule.value.lower() else f"has digest {digest}"


def _contains(file: FileIO, wanted: bytes) -> bool:
    """Whether the text is there, in constant memory: of what was read only what may begin it is kept."""
    kept = b""
    while chunk := file.read(max(_CHUNK_BYTES, len(wanted))):
        kept += chunk
        if wanted in kept:
            return True
        kept = kept[len(kept) - len(wanted) + 1 :] if len(wanted) > 1 else b""
    return not wanted


def _lacks(wanted: str) -> str:
    shown = repr(wanted)
    return f"does not contain {shown if len(shown) <= _QUOTED else f'{shown[:_QUOTED]}… ({len(wanted)} characters)'}"
