"""No text makes a regular expression of ours slow: each is looked at part by part, and tried on texts made against it.

Every pattern of the package is found by its syntax tree (`re.search(…)`, `re.compile(…)`, what `by_pattern` is given)
and in the modules themselves (patterns that are put together). The parts are judged by `slow_part`, which judges the
patterns of users too. Then texts are made from each pattern's own parts, so that it begins to fit again and again and
never does, and the CPU they cost is compared at n and 4n.
"""

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import outlast
from outlast.secrets.rules import RULES, TOKENS, more_tokens
from outlast.secrets.stream import _ByPattern, sieve_of
from outlast.values.regular import slow_part

from ..kit.cost import cpu, growth

PACKAGE = Path(outlast.__file__).parent
CALLS = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
IS_CALLED = re.compile(rf"\.\s*(?:{'|'.join(CALLS)})\b").search
ANYWHERE = {"search", "sub", "subn", "split", "findall", "finditer"}
_parser: Any = import_module("re._parser")

# Made while the program runs. Each is a list of plain words, or checked before it is used.
MADE_LATER = {
    "commands/transcript.py b'|'.join(map(re.escape, self._secrets))": "plain words",
    "commands/transcript.py '|'.join(map(re.escape, found))": "plain words",
    "doors/http/calls.py _pattern(path)": "plain words with one group between two of them, for paths of ours",
    "files/changes.py translate(part)": "fnmatch makes atomic groups; it is matched with one file name",
    "values/schema.py pattern": "of a user's schema: refused when it could take long (`slow_part`)",
    "values/schema.py schema['pattern']": "the same",
    "secrets/own.py pattern": "of a user's rule: refused when it could take long",
    "secrets/stream.py b'(%s[%s])(?=[!-~]{16})' % (first, seconds)": "two letters and 16 signs: found below",
    "secrets/stream.py b'%%[0-9A-F][0-9A-F](%s)(?=[!-~]{16})' % ways": "the same",
    "secrets/stream.py pattern.encode()": "the tokens of `rules.py`, matched where one may begin",
    "secrets/rules.py pattern": "the tokens, and what `by_pattern` is given: each is found below",
}

# Those that `slow_part` names and that are quick all the same: why.
BOUNDED = {
    "handoffs/wording.py _FENCED": "what has no end reaches to the end of the text: once begun it always fits",
    "handoffs/wording.py sentences_of": "the same",
    "handoffs/wording.py _NOTHING_MORE": "it begins with a word that is none of those it repeats",
    "secrets/find.py _TOKEN": "the text is JSON, which is checked before: every text in it has an end",
    "secrets/placed.py _NAMING": "it is matched with 200 characters at most",
    "secrets/stream.py _OPEN_KEY": "five dashes end the body, and nothing else may follow it",
    "workspace/recall/words.py _CUTS": "a run with two line ends fits, and one with less is not begun in twice",
    "workspace/recall/words.py _PARTS": "it gives one letter back at most: what is before it is a capital",
}


class Found(NamedTuple):
    """A pattern, where it stands, and how it is used."""

    place: str
    pattern: str | bytes
    flags: int
    uses: frozenset[str]


# -- finding them ------------------------------------------------------------------------------------


def modules() -> Iterator[tuple[str, Any, list[ast.AST]]]:
    """Every module, with the nodes of its syntax tree where one of `CALLS` stands in it."""
    for each in pkgutil.walk_packages(outlast.__path__, "outlast."):
        if each.name.endswith("__main__") or each.ispkg:
            continue
        module = importlib.import_module(each.name)
        path = Path(str(module.__file__))
        text = path.read_text("utf-8")
        yield str(path.relative_to(PACKAGE)), module, list(ast.walk(ast.parse(text))) if IS_CALLED(text) else []


@functools.cache
def found() -> tuple[Found, ...]:
    """Every pattern of the package."""
    all_, read = {}, list(modules())
    shared: dict[str, set[str]] = {}  # how patterns are used by those who import them
    own = [uses_in(nodes) for _, _, nodes in read]
    for name, how in (each for uses in own for each in uses.items()):
        shared.setdefault(name, set()).update(how if not name.startswith("_") else ())
    for (path, module, nodes), inside in zip(read, own, strict=True):
        uses = {name: how | shared.get(name, set()) for name, how in (shared | inside).items()}
        for one in (*written(path, module, nodes), *kept(path, module, uses)):
            known = all_.get((one.pattern, one.flags), one)
            all_[one.pattern, one.flags] = known._replace(uses=known.uses | one.uses)
    for token in (*TOKENS, *more_tokens()):
        all_[token.pattern, 0] = Found(f"secrets {token.name}", token.pattern, 0, SEARCHED)
    for rule in RULES:
        for cell in rule.look.__closure__ or ():
            if isinstance(cell.cell_contents, re.Pattern):
                one = cell.cell_contents
                all_[one.pattern, one.flags] = Found(f"secrets {rule.name}", one.pattern, one.flags, SEARCHED)
    others = [each for reader in sieve_of(tuple(RULES)).readers() for each in reader.others]
    for sieved in (each.pattern for each in others if isinstance(each, _ByPattern)):
        place = f"secrets sieve {sieved.pattern.decode()}"
        all_[sieved.pattern, sieved.flags] = Found(place, sieved.pattern, sieved.flags, SEARCHED)
    return tuple(sorted(all_.values(), key=lambda one: one.place))


SEARCHED = frozenset({"finditer"})


def uses_in(nodes: list[ast.AST]) -> dict[str, set[str]]:
    """By the name of a pattern: how it is used in the module."""
    uses: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in CALLS:
            for name in (each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)):
                uses.setdefault(name, set()).add(node.attr)
    return uses


def written(path: str, module: Any, nodes: list[ast.AST]) -> Iterator[Found]:
    """What `re` is given in a module, but for `compile`: what is compiled is kept."""
    defined = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    functions = {line: each.name for each in defined for line in range(each.lineno, (each.end_lineno or 0) + 1)}
    for node in nodes:
        if not (isinstance(node, ast.Call) and is_re(node.func)):
            continue
        assert isinstance(node.func, ast.Attribute)
        given = node.args[0]
        given = given.value if isinstance(given, ast.Subscript) else given  # of a table: all of it
        try:
            pattern = value_of(given, module)
            flags = sum(int(value_of(each.value, module)) for each in node.keywords if each.arg == "flags")
        except NameError:
            how = f"{path} {ast.unparse(node.args[0])}"
            assert how in MADE_LATER, f"{how}: made at run time; say why no text makes it slow"
            continue
        for each in pattern.values() if isinstance(pattern, dict) else [pattern]:
            if node.func.attr != "compile":
                yield Found(f"{path} {functions.get(node.lineno, '')}", each, flags, frozenset({node.func.attr}))


def value_of(node: ast.expr, module: Any) -> Any:
    return eval(compile(ast.Expression(node), "flags", "eval"), dict(vars(module)))


def is_re(func: ast.expr) -> bool:
    return (
        isinstance(func, ast.Attribute)
        and func.attr in CALLS
        and isinstance(func.value, ast.Name)
        and func.value.id == "re"
    )


def kept(path: str, module: Any, uses: dict[str, set[str]]) -> Iterator[Found]:
    """Compiled patterns that a module has, also in its tuples and mappings."""
    for name, value in vars(module).items():
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else [value]
        for one in inside:
            if isinstance(one, re.Pattern):
                how = frozenset(uses.get(name, ())) or frozenset({"search", "fullmatch"})
                yield Found(f"{path} {name}", one.pattern, one.flags, how)


def test_every_pattern_is_found() -> None:
    places = " ".join(one.place for one in found())
    assert len(found()) > 200
    for known in (
        "secrets sieve",
        "_BOUNDS",
        "_CODE",
        "_PEM",
        "secrets url_password",
        "_ESCAPED",
        "hugging_face",
        "_WHOLE_MONTH",
    ):
        assert known in places


# -- looking at them ---------------------------------------------------------------------------------


def test_no_pattern_has_parts_that_some_text_makes_slow() -> None:
    slow = {one.place: f"{why}: {one.pattern!r}" for one in found() if (why := looked_at(one))}
    assert {place: why for place, why in slow.items() if place not in BOUNDED} == {}
    assert set(BOUNDED) <= set(slow), "these are no longer needed"


def looked_at(one: Found) -> str:
    return slow_part(
        one.pattern, one.flags, search=bool(one.uses & ANYWHERE), whole="fullmatch" in one.uses
    ) or slow_part(one.pattern, one.flags, search=bool(one.uses & ANYWHERE))


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"a+b", r"\s*=", r"://[^\s]+@", r"(?:a|a)*b", r"<q>(.*?)</q>", r"\\+u[0-9]{4}", r"x.*y.*z"],
)
def test_a_pattern_that_some_text_makes_slow_is_named(pattern: str) -> None:
    assert slow_part(pattern)
    assert slowest(Found("", pattern, 0, SEARCHED)) > MOST


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d+(?:\.\d+)?",
        r"(?<!\w)\w+@",
        r"\b\w+@",
        r'"(?:[^"\\]|\\.)*',
        r"^a+$",
        r"[a-z]{1,100}@",
        r"#(\w+)",
        r"a[^a]*b",
    ],
)
def test_a_pattern_that_no_text_makes_slow_is_not(pattern: str) -> None:
    assert not slow_part(pattern)
    assert slowest(Found("", pattern, 0, SEARCHED)) <= MOST


# -- trying them -------------------------------------------------------------------------------------


MOST = 8  # times the CPU for four times the text
PARTS = 4  # of the patterns, a test each
SMALL = 500  # characters, and four times as many
BRIEF = 0.000_25  # seconds of CPU for each thousand characters: what costs no more at the larger size is not slow
TAILS = ("", "\0", "!", "\n", " x", '"', "@", "é", ".")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_text_made_against_a_pattern_is_slow(part: int) -> None:
    """In parts, so that nothing is looked for while tests are collected."""
    growths = {one.place: slowest(one) for one in found()[part::PARTS]}
    assert {place: times for place, times in growths.items() if times > MOST} == {}


def slowest(one: Found) -> float:
    """How much more CPU a text of 4n costs than one of n: the worst of the texts made against a pattern."""
    worst = 0.0
    for trial in trials(one):
        for text in texts_against(one):
            worst = max(worst, grows(trial, text))
            if worst > MOST:
                return worst
    return worst


def trials(one: Found) -> list[Callable[[Any], Any]]:
    rule = next((rule for rule in RULES if one.place == f"secrets {rule.name}"), None)
    if rule is not None:
        return [lambda text: list(rule.look(text))]
    compiled = re.compile(one.pattern, one.flags)
    ways: dict[str, Callable[[Any], Any]] = {"match": compiled.match, "fullmatch": compiled.fullmatch}
    ways["finditer"] = lambda text: [None for _ in compiled.finditer(text)]
    return [ways[name] for name in {name if name in ways else "finditer" for name in one.uses}]


def grows(trial: Callable[[Any], Any], text: Callable[[int], Any]) -> float:
    if (soon := cpu(lambda: trial(text(24)))) > 0.1:
        return soon * 1000  # for ever, or nearly
    small, large, larger = (text(times * SMALL) for times in (1, 4, 16))
    if cpu(lambda: trial(large)) < BRIEF * 4 * SMALL / 1000:
        return 1
    ratio = growth(lambda: trial(small), lambda: trial(large), brief=0)
    if ratio < 6:
        return ratio
    return min(ratio, growth(lambda: trial(large), lambda: trial(larger), brief=0))  # what grows so, grows so again


def texts_against(one: Found) -> Iterator[Callable[[int], Any]]:
    """Texts of any size that begin to fit again and again: every repeat, after what stands before it."""
    seen = set()
    for before, again in pieces(list(_parser.parse(one.pattern, one.flags))):
        for begin, unit in ((before, again), ("", before + again), (before + again, again), ("", again)):
            for tail in TAILS if unit and (begin, unit) not in seen else ():
                yield functools.partial(made, begin, unit, tail, isinstance(one.pattern, bytes))
            seen.add((begin, unit))


def made(begin: str, unit: str, tail: str, in_bytes: bool, size: int) -> Any:
    text = begin + unit * (size // len(unit) + 1) + tail
    return text.encode("latin-1", "replace") if in_bytes else text


def pieces(items: list[Any], before: str = "") -> Iterator[tuple[str, str]]:
    """A text that leads to each repeat of a pattern, and one that it takes; at last one that all of it takes."""
    for sign, inner in items:
        for part in inner_of(sign, inner):
            yield from pieces(part, before)
        if sign in (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT):
            yield from ((before, taken(list(inner[2]), which)) for which in (0, 1, -1))
        before += taken([(sign, inner)], 0)
    yield "", before


def inner_of(sign: Any, inner: Any) -> list[list[Any]]:
    if sign is _parser.BRANCH:
        return [list(each) for each in inner[1]]
    if sign is _parser.SUBPATTERN:
        return [list(inner[3])]
    if sign is _parser.ATOMIC_GROUP:
        return [list(inner)]
    if sign in (_parser.ASSERT, _parser.ASSERT_NOT):
        return [list(inner[1])]
    return [list(inner[2])] if sign in (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT) else []


def taken(items: list[Any], which: int) -> str:
    """A text that a part takes: of several characters or choices that one."""
    return "".join(taken_by(sign, inner, which) for sign, inner in items)


def taken_by(sign: Any, inner: Any, which: int) -> str:
    if sign is _parser.LITERAL:
        return chr(inner)
    if sign is _parser.ANY:
        return "ax "[which]
    if sign is _parser.NOT_LITERAL:
        return next(each for each in ("axb", "byc")[which] if ord(each) != inner)
    if sign is _parser.IN:
        return one_of(inner, which)
    if sign is _parser.BRANCH:
        return taken(list(inner[1][which % len(inner[1])]), which)
    if sign in (_parser.ASSERT, _parser.ASSERT_NOT, _parser.AT, _parser.GROUPREF):
        return ""
    if sign in (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT):
        return taken(list(inner[2]), which) * max(1 if which else 0, inner[0])
    return "".join(taken(part, which) for part in inner_of(sign, inner))


def one_of(inner: Any, which: int) -> str:
    compiled = re.compile(shown(inner))
    fitting = [each for each in "a1 b-_/.:\"'\n\\Z=+,(*%@{é漢" if compiled.match(each)]
    fitting = fitting or [
        chr(code) for code in (*range(0x250), 0x301, 0x3040, 0x4E00, 0x3002, 0x900) if compiled.match(chr(code))
    ]
    return fitting[which % len(fitting)] if fitting else ""


def shown(inner: Any) -> str:
    """A set of characters as a pattern again."""
    marks = {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w", "NOT_WORD": r"\W"}
    parts = []
    for sign, value in inner:
        if sign is _parser.NEGATE:
            parts.append("^")
        elif sign is _parser.LITERAL:
            parts.append(f"\\U{value:08x}")
        elif sign is _parser.RANGE:
            parts.append(f"\\U{value[0]:08x}-\\U{value[1]:08x}")
        else:
            parts.append(marks[str(value).rpartition("CATEGORY_")[2]])
    return f"[{''.join(parts)}]"
