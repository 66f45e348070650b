"""The files that musts are about: looked at when a handoff is stored, and again when somebody wants to know."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from posixpath import normpath

from outlast.errors import HandoffInvalid
from outlast.files.changes import text
from outlast.files.patterns import one
from outlast.files.rules import broken_rule
from outlast.files.snapshot import sight
from outlast.handoffs.binding import FOLDER_FILES, members_of
from outlast.handoffs.forms import rule_of
from outlast.handoffs.handoff import Binding, Bound, Contract, Form, Handoff, must_key
from outlast.handoffs.musts import PathRule, broken_path, pattern_of, rule_of_must


def bound_musts(contract: Contract, root: Path) -> dict[str, Bound]:
    """The files that the musts of a contract mean, as they are. Raises HandoffInvalid for too many."""
    for name in ("must_change", "must_remove", "must_keep"):
        for place, form in enumerate(getattr(contract, name)):
            if len(_files_of(root, form)) > FOLDER_FILES:
                why = f"{form!r:.200} stands for more than {FOLDER_FILES:,} files"
                raise HandoffInvalid(f"{name}[{place}]", why, "name the files or smaller folders that matter")
    return seen_musts(contract, root)


def seen_musts(contract: Contract, root: Path) -> dict[str, Bound]:
    """The files that the musts of a contract mean, as they are."""
    root = Path(os.path.realpath(root))
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
        root = Path(os.path.realpath(root))
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
    parts = normpath(pattern).split("/")
    plain = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:plain]) or "."
