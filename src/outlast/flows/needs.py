"""The live resources that a flow will need, and those that its modules provide: read from the source alone.

Only what its body comes to on every way counts: a call under a condition, or after one that may leave the body, is not
known to come. Plain functions are followed, also into other modules of the flow's own folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from outlast.flows.loading import parse, said_by_source, scope_of
from outlast.values.frozen import NamedTuple

_CALLERS = ("step", "effect", "spawn")  # of a run: they call what they are given
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def needs_of(file: Path, name: str) -> set[str]:
    """The keys that the flow of that name in that file needs. Nothing where the source does not say it."""
    return set(said_by_source(("needs", file, name), lambda: _needs_of(file, name)))


def _needs_of(file: Path, name: str) -> set[str]:
    sources = _Sources(file.parent)
    module = sources.module(file)
    return set(sources.needs(module, name)) if module else set()


def surely_needed(file: Path, name: str) -> dict[str, str]:
    """The keys that a new run of that flow will surely need, each with the step that does.

    As `needs_of`, but for what a run may do without: in a loop or a map, which may have no items; where the body looks
    after failures; what a call is given. What the flow's modules provide anywhere, also in a step, is left out.
    """
    sources = _Sources(file.parent, only_sure=True)
    module = sources.module(file)
    if module is None:
        return {}
    for _ in sources.needs(module, name):
        pass
    return {key: step for key, step in sources.by_step.items() if not sources.is_made(key)}


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


class _Import(NamedTuple):
    """A name that a module imports: from which module, looked for in which folder."""

    folder: Path
    module: str
    name: str  # in there; empty when it is the module itself


class _Module(NamedTuple):
    """A module, by what it defines and imports."""

    functions: dict[str, _Function]
    classes: dict[str, ast.ClassDef]
    made_of: dict[str, str]  # `fetch = step(_fetch)`: which function a name stands for
    imported: dict[str, list[_Import]]  # what a name may stand for: most of them are not of the flow's own folder


class _Sources:
    """The modules of one folder, each read when it is first met."""

    def __init__(self, folder: Path, *, only_sure: bool = False) -> None:
        self._folder, self._only_sure = folder, only_sure
        self._known: dict[Path, _Module | None] = {}
        self._made: set[str] = set()  # keys that some call provides
        self._met: set[tuple[int, str]] = set()
        self.by_step: dict[str, str] = {}  # key: the step that needs it

    def module(self, file: Path) -> _Module | None:
        if file not in self._known:
            try:
                source = file.read_bytes()
            except OSError:
                source = b""
            tree = parse(source)
            self._known[file] = self._read(tree, file) if tree else None
            if tree and self._only_sure and b"resource" in source:  # else no call of that name is in there
                self._made |= set(_made_in(tree))
        return self._known[file]

    def is_made(self, key: str) -> bool:
        """Whether the flow's modules say anywhere that they provide it."""
        left = [module for module in self._known.values() if module is not None]
        for module in left:
            self.provided(module)  # which reads all that they import
        return key in self._made

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
                    for name, meant in self._imported(node, file):
                        found.imported.setdefault(name, []).append(meant)
                case _:
                    pass
        return found

    def _imported(self, node: ast.Import | ast.ImportFrom, file: Path) -> Iterator[tuple[str, _Import]]:
        for each in node.names:
            if isinstance(node, ast.Import):
                yield each.asname or each.name, _Import(self._folder, each.name, "")
            else:
                folder = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else self._folder
                yield each.asname or each.name, _Import(folder, node.module or "", each.name)

    def _meant(self, module: _Module, name: str) -> tuple[Path, str] | None:
        """The file of the flow's own that an imported name is from, and its name in there."""
        for each in reversed(module.imported.get(name, ())):
            place = each.folder.joinpath(*each.module.split("."))
            files = (place.with_suffix(".py"), place / "__init__.py")
            if (own := next((file for file in files if file.is_file()), None)) is not None:
                return own, each.name
        return None

    # -- needing ---------------------------------------------------------------------------------

    def needs(self, module: _Module, name: str, call: ast.Call | None = None) -> Iterator[str]:
        """What a function needs: what is injected into it; of one that is no step, what its body comes to.

        `call`: what it is called with needs no injecting.
        """
        node = module.functions.get(module.made_of.get(name, name))
        if node is not None:
            for key in _injected(node, call if self._only_sure else None):
                self.by_step.setdefault(key, node.name)
                yield key
            if (id(module), name) in self._met:
                return
            self._met.add((id(module), name))
            if name not in module.made_of and not _is_step(node):
                yield from self._of_body(module, node)
        elif (meant := self._meant(module, name)) is not None:
            file, there = meant
            found = self.module(file) if there else None
            yield from self.needs(found, there, call) if found else ()

    def _of_body(self, module: _Module, node: _Function) -> Iterator[str]:
        for call in _calls(node, self._only_sure):
            match call.func:
                case ast.Attribute(attr="resource") if (key := _key_of(call)) is not None:
                    self.by_step.setdefault(key, node.name)
                    yield key
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if meant := self._meant(module, owner):
                    found = self.module(meant[0])
                    yield from self.needs(found, name, call) if found else ()
            # what it calls: by its name, or given to something that does
            does = not self._only_sure or (isinstance(call.func, ast.Attribute) and call.func.attr in _CALLERS)
            for each in (call.func, *(call.args if does else ())):
                if isinstance(each, ast.Name):
                    yield from self.needs(module, each.id, call)

    # -- providing -------------------------------------------------------------------------------

    def provided(self, module: _Module) -> dict[str, frozenset[str]]:
        """What `@resource("key")` provides in this module and in those of the folder that it imports."""
        found: dict[str, frozenset[str]] = {}
        left, seen = [module], list[_Module]()
        while left:
            one = left.pop()
            seen.append(one)
            found.update(_provided(one))
            meant = [self._meant(one, name) for name in one.imported]
            others = [self.module(each[0]) for each in meant if each is not None]
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


def _injected(node: _Function, call: ast.Call | None = None) -> Iterator[str]:
    """The keys of `inject("key")` among a function's defaults, but for what a call gives by itself, or may give."""
    places = [*node.args.posonlyargs, *node.args.args]
    with_default = places[len(places) - len(node.args.defaults) :]
    defaults = [*zip(with_default, node.args.defaults, strict=True)]
    defaults += [(place, each) for place, each in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if each]
    for place, default in defaults:
        is_given = call is not None and _gives(call, place, places)
        if isinstance(default, ast.Call) and _name_of(default.func) == "inject" and not is_given:
            key = _key_of(default)
            yield from (key,) if key is not None else ()


def _gives(call: ast.Call, place: ast.arg, places: list[ast.arg]) -> bool:
    """Whether a call has an argument for this parameter, or some that may be for it."""
    named = any(each.arg in (None, place.arg) for each in call.keywords)
    if named or any(isinstance(each, ast.Starred) for each in call.args):
        return True
    return place in places and places.index(place) < len(call.args)


def _made_in(tree: ast.Module) -> Iterator[str]:
    """The keys of every call anywhere in a module by which something is provided: `resource("key", …)`."""
    marks = {id(mark) for node in ast.walk(tree) for mark in getattr(node, "decorator_list", ())}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name_of(node.func) != "resource":
            continue
        key, provides = _key_of(node), id(node) in marks or len(node.args) > 1 or bool(node.keywords)
        if key is not None and provides:
            yield key


def _is_step(node: _Function) -> bool:
    names = {_name_of(mark.func if isinstance(mark, ast.Call) else mark) for mark in node.decorator_list}
    return bool(names & {"step", "effect"})


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _key_of(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


# -- what a body comes to ----------------------------------------------------------------------------


def _calls(node: _Function, only_sure: bool) -> list[ast.Call]:
    found: list[ast.expr] = []
    _come_to(node.body, found, only_sure)
    return [each for expr in found for each in _now(expr, only_sure) if isinstance(each, ast.Call)]


def _come_to(body: Iterable[ast.stmt], found: list[ast.expr], only_sure: bool) -> bool:
    """Gather the expressions that are surely come to. Whether what follows the body surely is.

    `only_sure`: also if a loop has no items, and if somebody sees to a failure.
    """
    for node in body:
        match node:
            case ast.If(test=first) | ast.Match(subject=first):
                found.append(first)
                if _has(node, ast.Return, ast.Break, ast.Continue):
                    return False
            case ast.While(test=first) | ast.For(iter=first) | ast.AsyncFor(iter=first):
                found.append(first)
                if not isinstance(node, ast.While) and not only_sure:
                    _come_to(node.body, found, only_sure)
                if _has(node, ast.Return):
                    return False
            case ast.With() | ast.AsyncWith():
                found += [item.context_expr for item in node.items]
                if only_sure and not all(map(_only_opens, node.items)):
                    if _has(node, ast.Return, ast.Break, ast.Continue):
                        return False
                elif not _come_to(node.body, found, only_sure):
                    return False
            case ast.Try() if only_sure and node.handlers:
                if not _come_to(node.finalbody, found, only_sure) or _has(node, ast.Return, ast.Break, ast.Continue):
                    return False
            case ast.Try():
                if not _come_to([*node.body, *node.orelse, *node.finalbody], found, only_sure):
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


def _only_opens(item: ast.withitem) -> bool:
    """Whether a context ends no failure: `suppress` does, and what is not known may."""
    call = item.context_expr
    return isinstance(call, ast.Call) and _name_of(call.func) in ("open", "phase", "timeout", "scope")


def _now(node: ast.AST, only_sure: bool) -> Iterator[ast.AST]:
    """The parts of an expression that are looked at whenever it is."""
    is_loop = isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
    if isinstance(node, ast.Lambda) or (only_sure and is_loop):
        return
    yield node
    match node:
        case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):
            yield from _now(first, only_sure)
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _now(part, only_sure)
