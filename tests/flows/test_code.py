"""The digest of a function's code: what changes it and what does not."""

import ast
import textwrap

import pytest

from outlast.flows.loading import digest_function, parse

ORIGINAL = """
def work(a, b=1, *rest, key=None, **more):
    total = a + b * 2
    for item in rest:
        if item > 3 and key is not None:
            total += item
    return {"total": total, **more}
"""


def digest(text: str, name: str = "work") -> str | None:
    return digest_function(ast.parse(textwrap.dedent(text)), name)


SAME = {
    "comments": ORIGINAL.replace("    for", "    # why\n    for"),
    "blank lines": ORIGINAL.replace("\n    for", "\n\n\n    for"),
    "parentheses": ORIGINAL.replace("a + b * 2", "(a + (b * 2))"),
    "indentation": ORIGINAL.replace("    ", "  "),
    "line breaks": ORIGINAL.replace("a + b * 2", "(\n        a\n        + b * 2\n    )"),
    "quotes": ORIGINAL.replace('"total"', "'total'"),
    "trailing comma": ORIGINAL.replace("**more}", "**more,}"),
    "a docstring": ORIGINAL.replace("    total = a", '    """What it does."""\n    total = a'),
    "annotations": ORIGINAL.replace("(a, b=1", "(a: int, b: float = 1").replace("):", ") -> dict:"),
    "an annotated variable": ORIGINAL.replace("    total = a", "    total: float = a"),
    "a decorator": "@step(retries=3)\n" + ORIGINAL.lstrip(),
    "a u prefix": ORIGINAL.replace('"total"', 'u"total"'),
    "number spelling": ORIGINAL.replace("* 2", "* 0x2"),
    "another place": "import os\n\nX = 1\n\n" + ORIGINAL + "\ndef later(): return work(1)\n",
    "under if": "if True:\n" + textwrap.indent(ORIGINAL, "    "),
    "under try": "try:\n" + textwrap.indent(ORIGINAL, "    ") + "\nexcept ImportError:\n    pass\n",
}

OTHER = {
    "a constant": ORIGINAL.replace("b * 2", "b * 3"),
    "a type of constant": ORIGINAL.replace("b * 2", "b * 2.0"),
    "an operator": ORIGINAL.replace("a + b", "a - b"),
    "a comparison": ORIGINAL.replace("item > 3", "item >= 3"),
    "a name": ORIGINAL.replace("total", "sum"),
    "a default": ORIGINAL.replace("b=1", "b=2"),
    "a keyword default": ORIGINAL.replace("key=None", "key=False"),
    "no default": ORIGINAL.replace("b=1, *rest, key=None", "b, *rest, key=None"),
    "a parameter kind": ORIGINAL.replace("(a, b=1,", "(a, /, b=1,"),
    "a statement": ORIGINAL.replace("    return", "    print(total)\n    return"),
    "an order": ORIGINAL.replace("a + b * 2", "b * 2 + a"),
    "a precedence": ORIGINAL.replace("a + b * 2", "(a + b) * 2"),
    "a block": ORIGINAL.replace("            total += item", "            pass\n        total += item"),
    "and/or": ORIGINAL.replace(" and ", " or "),
    "is/is not": ORIGINAL.replace("is not None", "is None"),
    "a key": ORIGINAL.replace('"total"', '"sum"'),
    "colour": ORIGINAL.replace("def work", "async def work"),
    "bytes": ORIGINAL.replace('"total"', 'b"total"'),
    "yield": ORIGINAL.replace("return {", "yield {"),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_what_does_no_other_work_changes_nothing(text: str) -> None:
    assert text != ORIGINAL
    assert digest(text) == digest(ORIGINAL) is not None


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_what_does_other_work_changes_the_digest(text: str) -> None:
    assert text != ORIGINAL
    assert digest(text) not in (digest(ORIGINAL), None)


def test_every_other_version_has_a_digest_of_its_own() -> None:
    assert len({digest(text) for text in OTHER.values()}) == len(OTHER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return None", "return"),
        ("return [None]", "return []"),
        ("return {None: 1}", "return {**1}"),
        ("return f'{x}'", "return f'{x!r}'"),
        ("return f'{x}'", "return f'{x:>3}'"),
        ("return ''", "return None"),
        ("return 0", "return False"),
        ("return 1", "return True"),
        ("return -0.0", "return 0.0"),
        ("return (1, 2)", "return [1, 2]"),
        ("global x", "nonlocal x"),
        ("return x[1:]", "return x[:1]"),
        ("return a(b, c)", "return a(b)(c)"),
        ("return a(*b)", "return a(b)"),
        ("if a:\n  b\nelse:\n  c", "if a:\n  b\n  c"),
        ("del x", "x"),
        ("return ...", "return None"),
        ("return lambda: 1", "return lambda: 2"),
        ("return [x for x in y]", "return {x for x in y}"),
        ("from a import b", "from a import b as c"),
        ("from . import b", "from .. import b"),
        ("return '\\n'", "return 'n'"),
        ("return 'a' 'b'", "return 'a', 'b'"),
    ],
)
def test_these_are_told_apart(one: str, other: str) -> None:
    def function(body: str) -> str:
        return "def work():\n" + textwrap.indent(body, "    ")

    assert digest(function(one)) != digest(function(other))


def test_a_docstring_of_a_nested_function_or_class_changes_nothing() -> None:
    plain = "def work():\n    def inner():\n        return 1\n    class C:\n        x = 1\n    return inner"
    spoken = plain.replace("        return", '        """Doc."""\n        return').replace(
        "        x", "        'Doc.'\n        x"
    )
    assert digest(plain) == digest(spoken)


NESTED = """
class Outer:
    class Inner:
        async def work(self):
            return 1

    def work(self):
        return 2

def work():
    return 3

def make():
    def work():
        return 4
    if work:
        def other():
            return 5
    return work
"""


def test_methods_nested_functions_and_coroutines_are_found_by_qualified_name() -> None:
    found = [
        digest(NESTED, name)
        for name in ("Outer.Inner.work", "Outer.work", "work", "make.<locals>.work", "make.<locals>.other")
    ]
    assert None not in found
    assert len(set(found)) == 5


@pytest.mark.parametrize(
    "name", ["missing", "Outer", "Outer.missing", "work.<locals>.work", "make.work.deeper", "<lambda>"]
)
def test_what_is_not_there_has_no_digest(name: str) -> None:
    assert digest(NESTED, name) is None


def test_the_last_definition_wins_as_it_does_at_import() -> None:
    both = "def work():\n    return 1\n\ndef work():\n    return 2\n"
    assert digest(both) == digest("def work():\n    return 2\n")
    assert digest("def work():\n    return 1\nclass work:\n    pass\n") is None


def test_the_name_of_a_function_is_part_of_its_code() -> None:
    assert digest("def work():\n    return 1") != digest("def other():\n    return 1", "other")


GOLDEN = """
async def work(a: int, /, b=1.5, *rest, key=None, **more) -> dict:
    \'\'\'Everything that a step is likely to use.\'\'\'
    global count
    total: float = a + b ** -2 if (n := len(rest)) else 0x10
    names = [f"{x!r:>{n}} of {n}" for x in rest if x is not None and not x]
    async with open(key) as file, lock:
        async for line in file:
            total += await parse(line, *rest, key=key, **more)
    try:
        match names:
            case [first, *_] if first != "a":
                return {**more, "first": first, None: b"\\x00", 1j: ...}
            case {"x": 1 | 2} | str():
                raise ValueError("n\u00f6") from None
    except (OSError, *ERRORS) as error:
        del names[1:], error
    else:
        return sorted(rest, key=lambda item: (-item, item[0]), reverse=True)
    finally:
        while total < 1e3:
            yield total
    @cached
    def inner(x: "int" = 1) -> None:
        nonlocal total
        from . import other as another
        assert x, "why"
"""


def test_the_digest_is_the_same_on_every_version_of_python() -> None:
    """Golden: ledgers outlive interpreters. A change here makes every finished step look changed."""
    assert digest(ORIGINAL) == "b85a02eb18d0a33107ccb4ac15e1708e"
    assert digest(GOLDEN) == "edb0808dc078c32394f196d2931e10cb"


def test_a_parse_that_another_threads_parse_broke_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11: "AST constructor recursion depth mismatch", when two threads parse at once."""
    clashes = iter([SystemError("depth mismatch"), SystemError("depth mismatch")])
    real = ast.parse

    def clashing(source: bytes) -> ast.Module:
        for clash in clashes:
            raise clash
        return real(source)

    monkeypatch.setattr(ast, "parse", clashing)
    tree = parse(ORIGINAL.encode() + b"# not parsed before")
    assert list(clashes) == []
    assert tree is not None
    assert digest_function(tree, "work") is not None
    assert parse(b"def broken(:") is None


def test_a_module_is_parsed_once_until_it_is_changed() -> None:
    first = parse(ORIGINAL.encode())
    assert parse(ORIGINAL.encode()) is first
    assert parse(ORIGINAL.encode() + b"more = 1\n") is not first
