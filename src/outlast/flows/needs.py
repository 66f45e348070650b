"""The live resources that a flow will need, and those that its modules provide: read from the source alone.

Only what its body comes to on every way counts: a call under a condition, or after one that may leave the body, is not
known to come. Plain functions are followed, also into other modules of the flow's own folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from outlast.flows.code import parse, scope_of
from outlast.values.frozen import NamedTuple

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def needs_of(file: Path, name: str) -> set[str]:
    """The keys that the flow of that name in that file needs. Nothing where the source does not say it."""
    sources = _Sources(file.parent)
    module = sources.module(file)
    return set(sources.needs(module, name)) if module else set()


def provided_by(file: Path) -> dict[str, frozenset[str]]:
    """The keys that `@resource` provides in a file and in what it imports of its own folder, with what each needs."""
    sources = _Sources(file.parent)
    module = sources.module(file)
    return sources.provided(module) if module else {}


def registers(file: Path, key: str) -> bool:
    """Whether a file says `resource("key")` anywhere: as a decorator, or called with a function."""
    try:
        tree = parse(file.read_bytes())
    except OSError:
        return False
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    return any(ast.unparse(call.func) in ("resource", "outlast.resource") and _key_of(call) == key for call in calls)


class _Module(NamedTuple):
    """A module, by what it defines and imports."""

    functions: dict[str, _Function]
    classes: dict[str, ast.ClassDef]
    made_of: dict[str, str]  # `fetch = step(_fetch)`: which function a name stands for
    imported: dict[str, tuple[Path, str]]  # file, and the name in there; empty when it is the module itself


class _Sources:
    """The modules of one folder, each read when it is first met."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, _Module | None] = {}
        self._met: set[tuple[int, str]] = set()

    def module(self, file: Path) -> _Module | None:
        if file not in self._known:
            try:
                tree = parse(file.read_bytes())
            except OSError:
                tree = None
            self._known[file] = self._read(tree, file) if tree else None
        return self._known[file]

    def _read(self, tree: ast.Module, file: Path) -> _Module:
        found = _Module({}, {}, {}, {})
        for node in scope_of(tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.functions[node.name] = node
                case ast.ClassDef():
                    found.classes[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=made), *_])):
                    found.made_of[name] = made
                case ast.Import() | ast.ImportFrom():
                    found.imported.update(self._imported(node, file))
                case _:
                    pass
        return found

    def _imported(self, node: ast.Import | ast.ImportFrom, file: Path) -> Iterator[tuple[str, tuple[Path, str]]]:
        for each in node.names:
            if isinstance(node, ast.Import):
                if (own := self._own(each.name, self._folder)) is not None:
                    yield each.asname or each.name, (own, "")
            else:
                folder = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else self._folder
                if (own := self._own(node.module or "", folder)) is not None:
                    yield each.asname or each.name, (own, each.name)

    def _own(self, name: str, folder: Path) -> Path | None:
        place = folder.joinpath(*name.split("."))
        return next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)

    # -- needing ---------------------------------------------------------------------------------

    def needs(self, module: _Module, name: str) -> Iterator[str]:
        """What a function needs: what is injected into it; of one that is no step, what its body comes to."""
        if (id(module), name) in self._met:
            return
        self._met.add((id(module), name))
        node = module.functions.get(module.made_of.get(name, name))
        if node is not None:
            yield from _injected(node)
            if name not in module.made_of and not _is_step(node):
                yield from self._of_body(module, node)
        elif name in module.imported:
            file, there = module.imported[name]
            found = self.module(file) if there else None
            yield from self.needs(found, there) if found else ()

    def _of_body(self, module: _Module, node: _Function) -> Iterator[str]:
        for call in _calls(node):
            match call.func:
                case ast.Attribute(attr="resource") if (key := _key_of(call)) is not None:
                    yield key
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in module.imported:
                    found = self.module(module.imported[owner][0])
                    yield from self.needs(found, name) if found else ()
            for each in (call.func, *call.args):
                if isinstance(each, ast.Name):
                    yield from self.needs(module, each.id)

    # -- providing -------------------------------------------------------------------------------

    def provided(self, module: _Module) -> dict[str, frozenset[str]]:
        """What `@resource("key")` provides in this module and in those of the folder that it imports."""
        found: dict[str, frozenset[str]] = {}
        left, seen = [module], list[_Module]()
        while left:
            one = left.pop()
            seen.append(one)
            found.update(_provided(one))
            others = (self.module(file) for file, _ in one.imported.values())
            left += [each for each in others if each is not None and not any(each is known for known in (*seen, *left))]
        return found


def _provided(module: _Module) -> Iterator[tuple[str, frozenset[str]]]:
    for node in (*module.functions.values(), *module.classes.values()):
        marks = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
        keys = [_key_of(mark) for mark in marks if _name_of(mark.func) == "resource"]
        made = node.body if isinstance(node, ast.ClassDef) else [node]
        makers = [each for each in made if isinstance(each, _Function) and (each is node or each.name == "__init__")]
        needs = frozenset(key for maker in makers for key in _injected(maker))
        yield from ((key, needs) for key in keys if key is not None)


def _injected(node: _Function) -> Iterator[str]:
    """The keys of `inject("key")` among a function's defaults."""
    calls = [each for each in (*node.args.defaults, *node.args.kw_defaults) if isinstance(each, ast.Call)]
    keys = (_key_of(call) for call in calls if _name_of(call.func) == "inject")
    yield from (key for key in keys if key is not None)


def _is_step(node: _Function) -> bool:
    names = {_name_of(mark.func if isinstance(mark, ast.Call) else mark) for mark in node.decorator_list}
    return bool(names & {"step", "effect"})


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _key_of(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


# -- what a body comes to ----------------------------------------------------------------------------


def _calls(node: _Function) -> list[ast.Call]:
    found: list[ast.expr] = []
    _come_to(node.body, found)
    return [each for expr in found for each in _now(expr) if isinstance(each, ast.Call)]


def _come_to(body: Iterable[ast.stmt], found: list[ast.expr]) -> bool:
    """Gather the expressions that are surely come to. Whether what follows the body surely is."""
    for node in body:
        match node:
            case ast.If(test=first) | ast.Match(subject=first):
                found.append(first)
                if _has(node, ast.Return, ast.Break, ast.Continue):
                    return False
            case ast.While(test=first) | ast.For(iter=first) | ast.AsyncFor(iter=first):
                found.append(first)
                if not isinstance(node, ast.While):
                    _come_to(node.body, found)
                if _has(node, ast.Return):
                    return False
            case ast.With() | ast.AsyncWith():
                found += [item.context_expr for item in node.items]
                if not _come_to(node.body, found):
                    return False
            case ast.Try():
                if not _come_to([*node.body, *node.orelse, *node.finalbody], found):
                    return False
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                found += [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
                if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
                    return False
    return True


def _has(node: ast.stmt, *kinds: type[ast.stmt]) -> bool:
    return any(isinstance(each, kinds) for each in ast.walk(node))


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that are looked at whenever it is."""
    if isinstance(node, ast.Lambda):
        return
    yield node
    match node:
        case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):
            yield from _now(first)
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _now(part)
