"""YAML as a tree of plain values that know their lines. Nothing is constructed, nothing is guessed.

Built from the parser's events, one after another: a file that is nested without end, or grows by aliases without end,
is refused before it costs anything. What the values mean is left to who asks.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field

from outlast.values.frozen import NamedTuple

SIZE_LIMIT, NODE_LIMIT, DEPTH_LIMIT = 1 << 20, 20_000, 40
_UNPRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_TAG = "tag:yaml.org,2002:"
_ADVICE = {  # by a part of what the parser says
    "mapping values": "put a text that contains `: ` in quotes, or after `|` on lines of its own",
    "expected ':'": "a `:` is missing, or a text needs quotes",
    "unexpected end of stream": "close the quote or bracket that was opened",
    "expected ',' or": "close the bracket, or put the text in quotes",
    "expected key": "keys of one mapping stand one below the other, at the same depth",
    "expected '-'": "items of one list stand one below the other, at the same depth",
    "cannot start any token": "put the text in quotes",
    "escape": "double a backslash in a double-quoted text, or use single quotes",
}


class FlowFileProblem(NamedTuple):
    """One mistake of a file. Line 0 is the file as a whole."""

    line: int
    path: str
    why: str
    advice: str

    def __str__(self) -> str:
        place = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.path) if part)
        return f"{place}: {self.why}; {self.advice}" if place else f"{self.why}; {self.advice}"


class UnreadableFlowFile(Exception):
    """Raised when there is no tree: the one problem that stands before all others."""

    def __init__(self, line: int, why: str, advice: str) -> None:
        super().__init__(why)
        self.problem = FlowFileProblem(line, "", why, advice)


class Tree(Struct, eq=False):
    """A node: a text, a list or a mapping (its keys and values in turn)."""

    line: int
    tag: str  # str, int, float, bool, null, seq, map, …, or a tag that is not YAML's own
    text: str = ""
    plain: bool = False
    nodes: list[Tree] = field(default_factory=list)
    shape: str = "text"  # text, list, mapping: how it is written, whatever its tag
    size: int = 1
    depth: int = 1


def read_tree(data: bytes) -> Tree:
    """The one document of a file. Raises Unreadable."""
    import yaml

    text = _decoded(data)
    try:
        return _built(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from error
    except yaml.YAMLError as error:
        raise UnreadableFlowFile(0, f"this is not YAML: {error}", "save it as plain UTF-8 text") from error


def _decoded(data: bytes) -> str:
    if len(data) > SIZE_LIMIT:
        raise UnreadableFlowFile(0, "the file is larger than 1 MiB", "move long commands into scripts of their own")
    if (at := data.find(0)) >= 0:
        why = "there is a NUL byte: this is no text file"
        raise UnreadableFlowFile(_line(data, at), why, "name a flow file in YAML")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, why = _line(data, error.start), f"byte {data[error.start]:#04x} is not UTF-8"
        raise UnreadableFlowFile(line, why, "save the file as UTF-8") from error
    if found := re.search(_UNPRINTABLE, text):
        line, why = text.count("\n", 0, found.start()) + 1, f"there is the control character {found[0]!r}"
        raise UnreadableFlowFile(line, why, 'write it as "\\x…" in double quotes')
    return text


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _syntax(error: Any, text: str) -> UnreadableFlowFile:
    """A parser's complaint in plain words, with the line it is about."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    if (tabbed := _tab_near(text, line)) is not None:
        return UnreadableFlowFile(tabbed, "a tab is used for indentation", "indent by spaces")
    begun = f", begun in line {error.context_mark.line + 1}" if error.context and error.context_mark else ""
    why = f"{error.problem or 'it cannot be parsed'}{f' ({error.context}{begun})' if error.context else ''}"
    advice = next((advice for part, advice in _ADVICE.items() if part in why), "look at this line and the one before")
    return UnreadableFlowFile(line, f"this is not YAML: {why}", advice)


def _tab_near(text: str, line: int) -> int | None:
    """The line at or just before a syntax error that is indented by a tab."""
    lines = text.split("\n")
    return next((at for at in (line, line - 1) if 0 < at <= len(lines) and re.match(r" *\t", lines[at - 1])), None)


# -- from events to a tree ---------------------------------------------------------------------------


class _Open:
    """The tree while it grows: what is still open, what aliases may name."""

    def __init__(self) -> None:
        from yaml.nodes import ScalarNode
        from yaml.resolver import Resolver

        self.scalar = ScalarNode
        self.resolve: Any = Resolver().resolve
        self.root: Tree | None = None
        self.open: list[Tree] = []
        self.anchors: dict[str, Tree] = {}
        self.written = 0

    def add(self, node: Tree) -> None:
        self.written += 1
        if self.written > NODE_LIMIT:
            raise _too_many(node.line)
        if self.open:
            self.open[-1].nodes.append(node)
        else:
            self.root = node

    def begin(self, node: Tree) -> None:
        self.add(node)
        self.open.append(node)
        if len(self.open) > DEPTH_LIMIT:
            raise _too_deep(node.line)

    def end(self) -> None:
        node = self.open.pop()
        node.size = 1 + sum(child.size for child in node.nodes)
        node.depth = 1 + max((child.depth for child in node.nodes), default=0)
        if node.size > NODE_LIMIT:
            raise _too_many(node.line)
        if node.depth + len(self.open) > DEPTH_LIMIT + 1:
            raise _too_deep(node.line)

    def alias(self, name: str, line: int) -> Tree:
        found = self.anchors.get(name)
        if found is None:
            why = f"nothing is marked &{name} before *{name}"
            raise UnreadableFlowFile(line, why, "put a text that starts with * in quotes")
        if any(found is node for node in self.open):
            raise UnreadableFlowFile(line, f"*{name} stands inside the very thing it names", "write out what is meant")
        return found


def _too_many(line: int) -> UnreadableFlowFile:
    why = f"this makes more than {NODE_LIMIT:,} values"
    return UnreadableFlowFile(line, why, "use fewer aliases, or split the flow")


def _too_deep(line: int) -> UnreadableFlowFile:
    return UnreadableFlowFile(line, f"this is nested deeper than {DEPTH_LIMIT} levels", "make the flow flatter")


def _built(events: Any) -> Tree:
    made = _Open()
    for event in events:
        kind, line = type(event).__name__, event.start_mark.line + 1
        if kind == "DocumentStartEvent" and made.root is not None:
            raise UnreadableFlowFile(line, "a second document begins here", "keep one flow in a file; remove the `---`")
        if kind == "AliasEvent":
            made.add(made.alias(event.anchor, line))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            made.end()
        elif kind in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent"):
            _taken(made, event, kind, line)
    if made.root is None or (made.root.tag == "null" and not made.root.text):
        raise UnreadableFlowFile(1, "the file is empty", "begin with `flow: NAME` and `steps:`")
    return made.root


def _taken(made: _Open, event: Any, kind: str, line: int) -> None:
    if kind == "ScalarEvent":
        tag = event.tag
        if tag in (None, "!"):
            tag = made.resolve(made.scalar, event.value, event.implicit)
        node = Tree(line, tag.removeprefix(_TAG), event.value, plain=event.tag is None and not event.style)
        made.add(node)
    else:
        shape, tag = ("list", "seq") if kind == "SequenceStartEvent" else ("mapping", "map")
        given = event.tag if event.tag not in (None, "!") else tag
        node = Tree(line, given.removeprefix(_TAG), shape=shape)
        made.begin(node)
    if event.anchor:
        made.anchors[event.anchor] = node
