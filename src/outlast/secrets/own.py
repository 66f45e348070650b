"""Rules of one's own for secrets: those of the settings, and those in `secrets.yaml` of the home, for every process.

They are read and checked once, when a home is opened: a rule that cannot be used is an error there, never left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.errors import SecretPatternInvalid
from outlast.values.codec import doubled
from outlast.values.plain import read_plain

if TYPE_CHECKING:
    from outlast.secrets.rules import SecretRule
    from outlast.values.yaml_tree import Tree

FILE = "secrets.yaml"


class SecretRules:
    """What secrets look like in a home: the rules built in, those of its settings and those of its own file."""

    def __init__(self, own: tuple[SecretRule, ...]) -> None:
        self.own = own
        self._rules: tuple[SecretRule, ...] | None = None

    @property
    def rules(self) -> tuple[SecretRule, ...]:
        """All of them."""
        if self._rules is None:
            from outlast.secrets.rules import RULES  # late: most commands look for no secret

            self._rules = (*RULES, *self.own)
        return self._rules


def read_own(home: Path, given: Mapping[str, Any]) -> tuple[SecretRule, ...]:
    """The rules of one's own: those `given`, and those of the file; most homes have none.

    Raises SecretPatternInvalid with the place of the first mistake.
    """
    path = home / FILE
    if not given and not os.path.lexists(path):
        return ()
    from outlast.secrets.own_patterns import own_rules

    found = (*own_rules(given, "Settings.secret_patterns"), *(_in_file(path) if os.path.lexists(path) else ()))
    if name := doubled(rule.name for rule in found):
        raise SecretPatternInvalid(f"{path}: {name}", "the settings have a rule of this name too", "rename one")
    return found


def _in_file(path: Path) -> tuple[SecretRule, ...]:
    from outlast.secrets.own_patterns import MOST_RULES, own_rule

    pairs = _pairs(path)
    if len(pairs) > MOST_RULES:
        raise SecretPatternInvalid(str(path), f"it has {len(pairs)} rules; the limit is {MOST_RULES}", "join some")
    return tuple(own_rule(key.text, _rule(value, path), _place(path, key)) for key, value in pairs)


def _pairs(path: Path) -> list[tuple[Tree, Tree]]:
    """The names of the file with what stands behind each."""
    from outlast.values.yaml_tree import UnreadableFlowFile, read_tree

    data = _content(path)
    lines = (line.strip() for line in data.splitlines())
    if not any(line and not line.startswith(b"#") for line in lines):
        return []
    try:
        tree = read_tree(data)
    except UnreadableFlowFile as error:
        why, line = error.problem.why, error.problem.line
        raise SecretPatternInvalid(f"{path}, line {line}" if line else str(path), why, error.problem.advice) from error
    return _checked_pairs(tree, path)


def _checked_pairs(tree: Tree, path: Path) -> list[tuple[Tree, Tree]]:
    """A mapping's keys and values. Raises SecretPatternInvalid for what is none, and for a key that comes twice."""
    if tree.shape != "mapping":
        raise SecretPatternInvalid(_place(path, tree), "this is no mapping", "write `NAME: 'PATTERN'`, a rule a line")
    pairs = [*zip(tree.nodes[::2], tree.nodes[1::2], strict=True)]
    seen: set[str] = set()
    for key, _ in pairs:
        if key.text in seen:
            raise SecretPatternInvalid(_place(path, key), "it stands there twice", "keep one of them")
        seen.add(key.text)
    return pairs


def _rule(value: Tree, path: Path) -> Any:
    if value.shape == "mapping":
        return {key.text: _rule(inner, path) for key, inner in _checked_pairs(value, path)}
    if value.shape != "text" or (value.plain and value.tag == "null"):
        raise SecretPatternInvalid(_place(path, value), "this is no text", "put the pattern in single quotes")
    return value.text


def _place(path: Path, node: Tree) -> str:
    return f"{path}, line {node.line}" + (f", {node.text[:100]}" if node.shape == "text" and node.text else "")


def _content(path: Path) -> bytes:
    """A plain file, whole. Raises SecretPatternInvalid for one that cannot be read: nothing would be looked for."""
    try:
        if not path.is_file():
            raise SecretPatternInvalid(str(path), "this is no plain file", "make it one, or remove it")
        return read_plain(path.resolve())
    except OSError as error:
        why = f"it cannot be read ({error.strerror or error})"
        raise SecretPatternInvalid(str(path), why, "give this user the right to read it, or remove it") from error
