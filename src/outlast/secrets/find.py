"""Secrets in what is to be kept: found, refused by path, or masked. Pure.

A masked secret reads `***`, and what is masked is found no more. What a secret looks like is in `rules.py`;
every function takes other rules, such as `(*RULES, by_pattern("ours", "one of our keys", "ours_[0-9]{20}"))`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

import msgspec
from ahocorasick_rs import BytesAhoCorasick, Implementation
from msgspec import Struct

from outlast.errors import SecretFound
from outlast.secrets.placed import LOOKED_AT, is_login, looks_real
from outlast.secrets.rules import RULES as RULES
from outlast.secrets.rules import WORD, has_secret_word, is_password, name_kind
from outlast.secrets.rules import SecretRule as SecretRule
from outlast.secrets.rules import by_pattern as by_pattern
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple

MASK = "***"
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")
_MANY = 1 << 14  # characters: words of a longer text are not taken apart
_FEW = 8  # hints that are looked for one after another
_SPACES = b' \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"'  # what sets words apart, of the signs of ASCII
_LETTERS = bytes(32 if each in _SPACES else 120 for each in range(256))  # of words: an x for each
_LONG = b"x" * WORD
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}:,]|[^\s\][{}:,"]+')
Place = str | tuple["Place", str | int]  # a path in parts: most are never shown, and showing takes time


class FoundSecret(NamedTuple):
    """Where a secret is in a text, and what kind it looks like."""

    start: int
    end: int
    kind: str


def find(text: str, rules: tuple[SecretRule, ...] = RULES) -> Iterator[FoundSecret]:
    """Every secret in a text, in order; those that overlap are one."""
    near = _near(text, rules)
    if not near:
        return
    spans = _spans(text, near)
    if "\x1b[" in text:  # a colour may stand within a name or a secret, and where a word begins
        plain = without_colours(text)
        spans += [(*plain.place(start, -end), kind) for start, end, kind in _spans(plain.text, near)]
    yield from _joined(sorted(spans))


def _spans(text: str, rules: tuple[SecretRule, ...]) -> list[tuple[int, int, str]]:
    """Where each secret begins, where it ends (below zero: the longest comes first), and its kind."""
    return [(start, -end, rule.kind) for rule in rules for start, end in rule.look(text)]


def _joined(spans: list[tuple[int, int, str]]) -> list[FoundSecret]:
    """Those that overlap are one."""
    found: list[FoundSecret] = []
    for start, negative, kind in spans:
        if found and start < found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, -negative))
        else:
            found.append(FoundSecret(start, -negative, kind))
    return found


def _near(text: str, rules: tuple[SecretRule, ...]) -> tuple[SecretRule, ...]:
    """The rules that may find something in the text: it has one of their hints. Most texts have none."""
    hints, reader = hints_of(rules)
    text = f"{text}\n{without_colours(text).text}" if "\x1b[" in text else text
    if reader is not None and len(text) <= _MANY:
        return tuple(reader.near(text))
    found = list(hints.in_text(text))  # of a long one the first of each hint is enough
    if hints.in_words and (long := _long_words(text)):
        found += [rule for hint, rule in hints.in_words if hint in long]
    return tuple(dict.fromkeys(found))


def _long_words(text: str) -> str:
    """The words of a text that are long enough for a token, a line each: most have none, which is seen at once."""
    if len(text) > _MANY:
        return text
    letters = text.encode("utf-8", "replace").translate(_LETTERS)
    at, words = letters.find(_LONG), []
    if at >= 0 and not text.isascii():
        return "\n".join([word for word in text.replace('"', " ").split() if len(word) >= WORD])
    while at >= 0:
        end = letters.find(b" ", at)
        words.append(text[at:end] if end >= 0 else text[at:])
        at = letters.find(_LONG, end) if end >= 0 else -1
    return "\n".join(words)


class RuleHints(NamedTuple):
    """Every hint with its rule: as it is written, in large or small letters, as it is written in a long word."""

    cased: list[tuple[str, SecretRule]]
    other: list[tuple[str, SecretRule]]
    in_words: list[tuple[str, SecretRule]]

    def in_text(self, text: str) -> Iterator[SecretRule]:
        """The rules, but for those of words, that have a hint in the text."""
        lowered = text.lower()
        yield from (rule for hint, rule in self.cased if hint in text)
        yield from (rule for hint, rule in self.other if hint in lowered)


@lru_cache(maxsize=64)
def hints_of(rules: tuple[SecretRule, ...]) -> tuple[RuleHints, HintReader | None]:
    """Both by one look at the rules, of which there are many."""
    hints = [(hint, rule) for rule in rules for hint in rule.hints or ("",)]
    in_words = [(hint, rule) for hint, rule in hints if rule.in_word]
    cased = [(hint, rule) for hint, rule in hints if rule.cased and not rule.in_word]
    found = RuleHints(cased, [(hint.lower(), rule) for hint, rule in hints if not rule.cased], in_words)
    return found, HintReader(found) if len(found.cased) + len(found.other) > _FEW else None


class HintReader:
    """Looks for all hints in one reading of a text, by an automaton that knows them in small letters.

    Another one knows those of words as they are written, and reads the long words alone.
    """

    def __init__(self, hints: RuleHints) -> None:
        every = [(hint, True, rule) for hint, rule in hints.cased]
        every += [(hint, False, rule) for hint, rule in hints.other]
        self._known = [each for each in every if _is_known(each[0])]
        cased, other, in_words = ([each for each in pairs if not _is_known(each[0])] for pairs in hints)
        self._rest = RuleHints(cased, other, in_words)
        self._of_words = [each for each in hints.in_words if _is_known(each[0])]
        self._automaton = _automaton([hint.lower() for hint, *_ in self._known])
        self._words = _automaton([hint for hint, _ in self._of_words])

    def near(self, text: str) -> dict[SecretRule, None]:
        """The rules that have a hint in the text, those of words included."""
        found: dict[SecretRule, None] = {}
        if any(self._rest):
            found |= dict.fromkeys(self._rest.in_text(text))
        lowered = text.lower().encode("utf-8", "replace")
        for number, *_ in self._automaton.find_matches_as_indexes(lowered, overlapping=True):
            hint, cased, rule = self._known[number]
            if not cased or hint in text:
                found[rule] = None
        if long := _long_words(text):
            met = self._words.find_matches_as_indexes(long.encode("utf-8", "replace"), overlapping=True)
            found |= {self._of_words[number][1]: None for number, *_ in met}
            found |= {rule: None for hint, rule in self._rest.in_words if hint in long}
        return found


def _is_known(hint: str) -> bool:
    """Whether an automaton knows a hint: it reads bytes."""
    return hint != "" and hint.isascii()


def _automaton(words: list[str]) -> BytesAhoCorasick:
    return BytesAhoCorasick([word.encode() for word in words], implementation=Implementation.DFA)


def mask(text: str, rules: tuple[SecretRule, ...] = RULES) -> str:
    """The text with `***` for every secret in it."""
    return _mask_at(text, find(text, rules))


def check(value: Any, path: str, rules: tuple[SecretRule, ...] = RULES) -> None:
    """Nothing, if no secret is in a JSON value. Raises SecretFound with the path of the first one."""
    near = _near_value(value, rules)
    if near is not None:

        def refuse(place: Place, kind: str, number: int) -> NoReturn:
            raise SecretFound(_shown(place, near), kind)

        _clean(value, path, "", _Looking(near, refuse))


def masked(value: Any, path: str, rules: tuple[SecretRule, ...] = RULES) -> tuple[Any, list[str]]:
    """The value with every secret masked, and the paths of the values that had one. Raw JSON is masked in its text."""
    near = _near_value(value, rules)
    if near is None:
        return value, []
    paths: dict[str, None] = {}
    clean = _clean(value, path, "", _Looking(near, lambda place, kind, _: paths.update({_shown(place, near): None})))
    return clean, list(paths)


def counted(value: Any, rules: tuple[SecretRule, ...] = RULES) -> tuple[Any, int]:
    """The value with every secret masked, and how many they were."""
    near = _near_value(value, rules)
    if near is None:
        return value, 0
    numbers: list[int] = []
    clean = _clean(value, "", "", _Looking(near, lambda place, kind, number: numbers.append(number)))
    return clean, sum(numbers)


def _mask_at(text: str, found: Iterator[FoundSecret]) -> str:
    parts, at = [], 0
    for each in found:
        parts += [text[at : each.start], MASK]
        at = each.end
    return "".join([*parts, text[at:]])


# -- colours -----------------------------------------------------------------------------------------


class Plain(NamedTuple):
    """A text without colours. `begins` has where each part of it begins, `shifts` how much was left out before."""

    text: str
    begins: list[int]
    shifts: list[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where something stands in the text with its colours, as its start and its end below zero."""
        return start + self._shift(start), -(end + self._shift(end - 1))

    def _shift(self, at: int) -> int:
        return self.shifts[bisect_right(self.begins, at) - 1]


def without_colours(text: str) -> Plain:
    """The text as a terminal shows it, but for what else steers one."""
    parts, begins, shifts, length, at = [], [0], [0], 0, 0
    for found in _COLOUR.finditer(text):
        parts.append(text[at : found.start()])
        length += found.start() - at
        at = found.end()
        begins.append(length)
        shifts.append(at - length)
    return Plain("".join([*parts, text[at:]]), begins, shifts)


# -- values ------------------------------------------------------------------------------------------


def _near_value(value: Any, rules: tuple[SecretRule, ...]) -> tuple[SecretRule, ...] | None:
    """The rules that may find something in one of a value's texts; None: nothing in it is secret, by rule or by name.

    All texts are looked at as one, which may show too much and never too little.
    """
    texts: list[str] = []
    names: list[str] = []
    if not _gather(value, texts, names):
        return rules
    near = _near("\n".join(texts), rules) if texts else ()
    return near if near or (names and has_secret_word("\n".join(names))) else None


def _gather(value: Any, texts: list[str], names: list[str]) -> bool:
    """Every text of a value, and what its values are called. False where that cannot be told without reading it."""
    known = True
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        names += (keys := [str(key) for key in value])
        texts += keys
        known = _gather([*value.values()], texts, names)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if type(item) is str:
                texts.append(item)
            elif not _gather(item, texts, names):
                known = False
    elif isinstance(value, msgspec.Raw):
        decode(raw := bytes(value))
        texts.append(text := raw.decode())
        names.append(text)
        known = "\\" not in text  # an escape may stand for any character
    return known


class _Looking(Struct, frozen=True):
    rules: tuple[SecretRule, ...]
    report: Callable[[Place, str, int], None]  # told where something was found, what kind it is, and how many


def _clean(value: Any, place: Place, name: str, looking: _Looking) -> Any:
    """The value without its secrets. `name` is what the value is called, where it is called anything."""
    match value:
        case str():
            return _clean_text(value, place, name, looking)
        case int() if not isinstance(value, bool):
            return _clean_number(value, place, name, looking)
        case list() | tuple():
            items = [_clean(item, (place, number), name, looking) for number, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        case dict():
            return _clean_object(value, place, looking)
        case msgspec.Raw():
            return msgspec.Raw(_clean_raw(bytes(value), place, looking))
        case _:
            return value


def _clean_text(text: str, place: Place, name: str, looking: _Looking) -> str:
    kind = name_kind(name) if name else ""
    if (kind and looks_real(text[:LOOKED_AT], password=is_password(kind))) or (name == "auth" and is_login(text)):
        looking.report(place, kind or "a login in base64", 1)
        return MASK
    found = list(find(text, looking.rules))
    if found:
        looking.report(place, found[0].kind, len(found))
    return _mask_at(text, iter(found))


def _clean_number(value: int, place: Place, name: str, looking: _Looking) -> int | str:
    """A number is secret only as a password: `pin`s and counts are too alike."""
    kind = name_kind(name) if name else ""
    if is_password(kind) and 100_000 <= value < 10**50:
        looking.report(place, kind, 1)
        return MASK
    return value


def _clean_object(value: dict[Any, Any], place: Place, looking: _Looking) -> dict[Any, Any]:
    clean: dict[Any, Any] = {}
    names = _Names(value)
    for key, item in value.items():
        inner = _clean(item, (place, str(key)), str(key), looking)
        kept = _clean_text(key, place, "", looking) if isinstance(key, str) else key
        clean[kept if kept == key else names.new(kept)] = inner
    return clean


class _Names:
    """Names for masked keys that take no other's place: `***`, `*** (2)`."""

    def __init__(self, taken: Iterable[Any] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def new(self, key: str) -> str:
        number = self._numbers.get(key, 1)
        while (name := key if number == 1 else f"{key} ({number})") in self._taken:
            number += 1
        self._numbers[key] = number + 1
        self._taken.add(name)
        return name


def _shown(place: Place, rules: tuple[SecretRule, ...]) -> str:
    """The path in one text: `state.env[0]['odd key']`. It never tells a secret."""
    parts: list[str] = []
    while isinstance(place, tuple):
        place, part = place
        parts.append(f"[{part}]" if isinstance(part, int) else _shown_key(part, rules))
    return "".join([place, *reversed(parts)]).removeprefix(".")


def _shown_key(key: str, rules: tuple[SecretRule, ...]) -> str:
    shown = mask(key, rules)
    if len(shown) > 100:
        return f"[{shown[:100]!r}…]"
    return f".{shown}" if shown.isidentifier() else f"[{shown!r}]"


# -- raw JSON ----------------------------------------------------------------------------------------


class _Level(Struct):
    """An object or a list that is being read."""

    place: Place
    name: str
    is_list: bool
    number: int = 0
    key: str | None = None

    @property
    def child(self) -> Place:
        return (self.place, self.number if self.is_list else self.key or "")


def _clean_raw(raw: bytes, place: Place, looking: _Looking) -> bytes:
    """JSON text with its secrets masked and every other byte as it was, keys that come twice included."""
    decode(raw)
    parts, at = [], 0
    names = _Names()
    for token, where, name in _tokens(raw, place):
        value = decode(token[0])
        clean = _clean(value, where, name or "", looking)
        if clean == value:
            continue
        if name is None:
            clean = names.new(clean)
        parts += [raw[at : token.start()], encode(clean)]
        at = token.end()
    return b"".join([*parts, raw[at:]])


def _tokens(raw: bytes, place: Place) -> Iterator[tuple[re.Match[bytes], Place, str | None]]:
    """Each text and number of a JSON text with its place and the name it is called by; None for a key itself."""
    top = _Level(place, "", is_list=False, key="")
    levels: list[_Level] = []
    for token in _TOKEN.finditer(raw):
        where, name = (top.child, top.name if top.is_list else top.key or "") if levels else (place, "")
        match token[0]:
            case b"{" | b"[":
                levels.append(top)
                top = _Level(where, name, is_list=token[0] == b"[")
            case b"}" | b"]":
                top = levels.pop()
            case b",":
                top.number, top.key = top.number + 1, None
            case b":":
                pass
            case _ if top.key is None and not top.is_list:
                yield token, top.place, None
                top.key = decode(token[0])
            case _:
                yield token, where, name


# -- files -------------------------------------------------------------------------------------------

_SECRET_FILES = re.compile(
    r"""\.env(?:rc|\..*)? | .+\.env | \.?secrets?\..* | .*\.(?:pem|key|p12|pfx|keystore|jks|kdbx|ppk|tfstate)
    | id_(?:rsa|dsa|ecdsa|ed25519).* | [._]netrc | \.npmrc | \.pypirc | \.pgpass | \.htpasswd | \.my\.cnf
    | \.git-credentials | (?:.*\.)?credentials(?:\.(?:json|ya?ml|toml|ini|csv|txt))?""",
    re.VERBOSE | re.DOTALL,
)
_SERVICE = re.compile(r"service[-_]account")
_PUBLIC = re.compile(r"\.(?:pub\Z|(?:example|sample|template|dist|tmpl)(?:\.|\Z))")
_PROGRAMS = "py|pyi|js|mjs|cjs|jsx|ts|tsx|go|rs|java|kt|rb|php|c|h|cc|cpp|cs|swift|md|rst"
_PROGRAM = re.compile(rf"secrets?(?:\.[a-z]+)*\.(?:{_PROGRAMS})")


def is_secret_file(path: str) -> bool:
    """Whether a file's name says that its content must never be kept. Programs (`find.py`) are no such files."""
    name = path.rstrip("/").rsplit("/", 1)[-1].lower()
    if _PUBLIC.search(name) or _PROGRAM.fullmatch(name):
        return False
    of_service = name.endswith(".json") and _SERVICE.search(name) is not None
    return of_service or _SECRET_FILES.fullmatch(name) is not None
