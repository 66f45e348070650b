"""Rules of one's own for secrets: those of the settings, and those in `secrets.yaml` of the home, for every process.

They are read and checked once, when a home is opened: a rule that cannot be used is an error there, never left out. A
pattern is checked before it is used, so that no text makes it slow.

A pattern costs, for each place of a text, at most as many tries as it has ways to match there. What repeats without
end may stand only at its end, where it cannot fail any more; everything before it is bounded, in `MOST_WAYS` ways.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from outlast.errors import SecretPatternInvalid
from outlast.secrets.rules import RULES, SecretRule, by_pattern
from outlast.values.codec import doubled
from outlast.values.private import read_plain
from outlast.values.yaml_tree import Tree, UnreadableFlowFile, read_tree

MOST_WAYS = 1000  # in which a pattern may match at one place
SHORTEST_FOUND = 4  # characters: what finds less would mask half of any text
LONGEST_PATTERN = 1000
MOST_RULES = 100
KIND_LENGTH = 80

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_MASK = "***"
_parser: Any = import_module("re._parser")
_NO_END = int(_parser.MAXREPEAT)
_REPEATS = (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT)


def all_own(given: Mapping[str, Any], path: Path) -> tuple[SecretRule, ...]:
    """Those given, and those of the file. Raises SecretPatternInvalid with the place of the first mistake."""
    found = (*own_rules(given, "Settings.secret_patterns"), *(_in_file(path) if os.path.lexists(path) else ()))
    if name := doubled(rule.name for rule in found):
        raise SecretPatternInvalid(f"{path}: {name}", "the settings have a rule of this name too", "rename one")
    return found


def own_rules(given: Mapping[str, Any], where: str) -> tuple[SecretRule, ...]:
    """Rules by name, each a pattern or `{"pattern": …, "kind": …}`. Raises SecretPatternInvalid with the place."""
    if not isinstance(given, Mapping):
        raise SecretPatternInvalid(where, "it is no mapping of names to patterns", "write `NAME: PATTERN`")
    if len(given) > MOST_RULES:
        raise SecretPatternInvalid(where, f"it has {len(given)} rules; the limit is {MOST_RULES}", "join some with `|`")
    return tuple(own_rule(name, rule, f"{where}: {str(name)[:100]}") for name, rule in given.items())


def own_rule(name: Any, given: Any, where: str) -> SecretRule:
    """One rule: what it finds is always a secret, whatever it looks like. Raises SecretPatternInvalid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SecretPatternInvalid(where, "this is no name for a rule", "use 1 to 100 letters, digits, `_`, `-`, `.`")
    if name in {rule.name for rule in RULES}:
        raise SecretPatternInvalid(where, "a rule of this name is built in", "take another name")
    rule = {"pattern": given} if isinstance(given, str) else given
    if not isinstance(rule, Mapping) or set(rule) - {"pattern", "kind"} or "pattern" not in rule:
        why = "it has a `pattern` and, if you like, a `kind`, and nothing else"
        raise SecretPatternInvalid(where, why, "write both")
    pattern, kind = rule["pattern"], rule.get("kind", f"a secret ({name})")
    if not isinstance(kind, str) or not kind.isprintable() or not 0 < len(kind.strip()) <= KIND_LENGTH:
        why = f"its kind is no printable text of 1 to {KIND_LENGTH} characters"
        raise SecretPatternInvalid(where, why, "say what it is: `kind: one of our keys`")
    check_pattern(pattern, where)
    return by_pattern(name, kind.strip(), pattern, *_hints(pattern), real=lambda found: found != _MASK)


def check_pattern(pattern: Any, where: str) -> None:
    """Raises SecretPatternInvalid for one that is no pattern, finds too little, or could take for ever."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= LONGEST_PATTERN:
        why = f"its pattern is no text of 1 to {LONGEST_PATTERN:,} characters"
        raise SecretPatternInvalid(where, why, "give a regular expression, as Python's `re` reads them")
    try:
        parsed = _parser.parse(pattern)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        why = f"{pattern!r:.200} is no regular expression: {error}"
        raise SecretPatternInvalid(where, why, "mend it; `\\` before a sign takes it as it is") from error
    least = _least(parsed, pattern, where)
    if not SHORTEST_FOUND <= least <= LONGEST_PATTERN:
        limits = f"a secret has {SHORTEST_FOUND} to {LONGEST_PATTERN:,}"
        why = f"{pattern!r:.200} finds what has {least} characters; {limits}"
        raise SecretPatternInvalid(where, why, "say what it looks like: `ours_[0-9]{20}`")
    _refuse_slow(parsed, pattern, where)


def _least(parsed: Any, pattern: str, where: str) -> int:
    """The fewest characters of what is masked: of group 1, if there is one. It must be there whenever it matches."""
    if parsed.state.groups == 1:
        return int(parsed.getwidth()[0])
    group = _group(parsed)
    if group is None:
        why = f"group 1 of {pattern!r:.200}, which is what is masked, may be left out when it matches"
        raise SecretPatternInvalid(where, why, "write (?:…) for groups that only hold together")
    return int(group.getwidth()[0])


def _group(parsed: Any) -> Any:
    """The part that is group 1, if it is always there."""
    for sign, inner in parsed:
        if sign is _parser.SUBPATTERN:
            found = inner[3] if inner[0] == 1 else _group(inner[3])
            if found is not None:
                return found
    return None


def _parts(sign: Any, inner: Any) -> list[Any]:
    """The patterns that one element of a pattern is made of."""
    if sign is _parser.BRANCH:
        return list(inner[1])
    if sign is _parser.GROUPREF_EXISTS:
        return [part for part in inner[1:] if part is not None]
    if sign is _parser.ATOMIC_GROUP:
        return [inner]
    if sign is _parser.SUBPATTERN:
        return [inner[3]]
    if sign in (_parser.ASSERT, _parser.ASSERT_NOT):
        return [inner[1]]
    return [inner[2]] if sign in _REPEATS else []


# -- how long it can take ----------------------------------------------------------------------------


def _refuse_slow(parsed: Any, pattern: str, where: str) -> None:
    try:
        ways = _ways(parsed, is_last=True)
    except _NoEnd as error:
        why = f"{pattern!r:.200} could take for ever: what repeats without end is followed or repeated"
        remedy = "give it an end, `{1,100}` instead of `+`; only the last of a pattern may have none"
        raise SecretPatternInvalid(where, why, remedy) from error
    if ways > MOST_WAYS:
        why = f"{pattern!r:.200} could take for ever: it has more than {MOST_WAYS:,} ways to match at one place"
        raise SecretPatternInvalid(where, why, "write narrower repeats and fewer choices, or two rules")


class _NoEnd(Exception):
    """Something repeats without end where it is not the last."""


def _ways(parsed: Any, *, is_last: bool) -> int:
    """In how many ways a pattern can match at one place, `MOST_WAYS` + 1 at most. Raises _NoEnd."""
    found, items = 1, list(parsed)
    for number, (sign, inner) in enumerate(items, 1):
        found = min(found * _ways_of(sign, inner, is_last=is_last and number == len(items)), MOST_WAYS + 1)
    return found


def _ways_of(sign: Any, inner: Any, *, is_last: bool) -> int:
    if sign in _REPEATS:
        return _ways_to_repeat(sign, *inner, is_last=is_last)
    if sign in (_parser.ASSERT, _parser.ASSERT_NOT):
        is_last = False
    parts = [_ways(part, is_last=is_last) for part in _parts(sign, inner)]
    return sum(parts) if parts and sign is not _parser.ATOMIC_GROUP else 1


def _ways_to_repeat(sign: Any, least: int, most: int, part: Any, *, is_last: bool) -> int:
    each = _ways(part, is_last=False)
    if most == _NO_END or most > MOST_WAYS:
        if not is_last or each > 1:
            raise _NoEnd
        return 1
    if sign is _parser.POSSESSIVE_REPEAT and each == 1:
        return 1
    return int(min(each ** min(int(most), 64) * (int(most) - int(least) + 1), MOST_WAYS + 1))


def _hints(pattern: str) -> tuple[str, ...]:
    """What every text has that it finds something in: the letters it begins with."""
    parsed = _parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return ()
    begin = ""
    for sign, inner in parsed:
        if sign is not _parser.LITERAL:
            break
        begin += chr(inner)
    return (begin,) if len(begin) > 1 else ()


# -- the file ----------------------------------------------------------------------------------------


def _in_file(path: Path) -> tuple[SecretRule, ...]:
    pairs = _pairs(path)
    if len(pairs) > MOST_RULES:
        raise SecretPatternInvalid(str(path), f"it has {len(pairs)} rules; the limit is {MOST_RULES}", "join some")
    return tuple(own_rule(key.text, _rule(value, path), _place(path, key)) for key, value in pairs)


def _pairs(path: Path) -> list[tuple[Tree, Tree]]:
    """The names of the file with what stands behind each. One that cannot be read is refused: it may name secrets."""
    try:
        if not path.is_file():
            raise SecretPatternInvalid(str(path), "this is no plain file", "make it one, or remove it")
        data = read_plain(path.resolve())
    except OSError as error:
        why = f"it cannot be read ({error.strerror or error})"
        raise SecretPatternInvalid(str(path), why, "give this user the right to read it, or remove it") from error
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
