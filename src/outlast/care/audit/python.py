"""Looking at a Python flow for an audit: the syntax trees of its body and of what that calls. Nothing is called.

A flow is imported to be found, as it is to be run. Helpers are followed as long as they are plain functions of the same
folder; what is called through variables, methods or other packages is not seen.

Signs are what looks as if it could not be repeated without harm, writes files, or goes another way next time.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import shlex
import socket
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from outlast.care.audit.flow import AuditedFlow, AuditFinding, Unit
from outlast.care.audit.signs import LISTS, signs_in, table
from outlast.flows.loading import function_in
from outlast.flows.spec import FlowSpec, Signature, tree_of
from outlast.runs.step import StepSpec
from outlast.values.frozen import NamedTuple

_CALLS = {"step": "step", "effect": "effect", "map": "step"}
_LIVE = ("client", "session", "connection", "socket", "channel", "cursor", "engine", "pool", "browser", "driver")
_CLOSERS = ("close", "aclose", "quit", "disconnect", "dispose", "shutdown")
_TOO_BROAD = (BaseException, Exception, OSError, TimeoutError)


class Code(Struct, frozen=True):
    """A function and its syntax tree."""

    function: Callable[..., Any]
    node: Function
    names: Names
    file: str

    def found(self, name: str) -> Any:
        """What a name stands for in the function's module."""
        return getattr(self.function, "__globals__", {}).get(name)

    def resolved(self, node: ast.expr) -> Any:
        """What a name, or a name in a module (`steps.fetch`), stands for."""
        if isinstance(node, ast.Name):
            return self.found(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self.found(node.value.id)
            return getattr(module, node.attr, None) if isinstance(module, types.ModuleType) else None
        return None

    def place(self, line: int) -> str:
        return f"{Path(self.file).name}:{line}"


def code_of(function: Callable[..., Any]) -> Code | None:
    """The code of a function; None where there is no source."""
    function = inspect.unwrap(function)
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    tree = tree_of(file) if file else None
    node = function_in(tree, function.__qualname__) if tree is not None else None
    if tree is None or node is None:
        return None
    return Code(function, node, names_in(tree, node), file)


def seen_flow(spec: FlowSpec) -> AuditedFlow:
    """A Python flow, looked at."""
    looking = BodySearch()
    looking.body(spec.name, spec.function)
    return AuditedFlow(
        name=spec.name,
        units=tuple(looking.units.values()),
        body=tuple(looking.acts),
        unsteady=tuple(looking.changes),
        nameless=tuple(looking.nameless),
        unsummed=tuple(looking.unsummed),
        needs=tuple(dict.fromkeys(looking.needs)),
        waits=tuple(dict.fromkeys(looking.waits)),
        unseen=tuple(looking.unseen),
    )


class BodySearch(Struct):
    """What was seen so far, going through a body and what it calls."""

    units: dict[tuple[str, str, str], Unit] = field(default_factory=dict)
    acts: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    unsummed: list[tuple[str, str]] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    _met: set[int] = field(default_factory=set)

    def body(self, name: str, function: Callable[..., Any]) -> None:
        """A body, or a helper that a body calls."""
        if id(function) in self._met:
            return
        self._met.add(id(function))
        code = code_of(function)
        if code is None:
            self.unseen.append(f"{name}: there is no source")
            return
        self.acts += [_told(code, sign) for sign in unrepeatable(code.node, code.names)]
        self.changes += [(_told(code, sign), sign.instead) for sign in unsteady(code.node, code.names)]
        self.unsummed += [(name, _told(code, sign)) for sign in unsummed(code.node)]
        for call in calls_in(code.node):
            self._of_the_run(code, call)
        for found in _referred(code):
            self._met_in_body(code, found)

    def _met_in_body(self, code: Code, found: Any) -> None:
        spec = getattr(found, "spec", None)
        if isinstance(spec, StepSpec):
            self.unit(spec)
        elif isinstance(spec, FlowSpec):
            self.body(spec.name, spec.function)
        elif _is_helper(found, code.file) and id(found) not in {id(each) for each in _passed(code)}:
            self.body(found.__name__, found)

    def _of_the_run(self, code: Code, call: ast.Call) -> None:
        """`run.step(f, …)`, `run.effect(f, …)`, `run.map(f, …)`, and what else a body asks of its run."""
        if not isinstance(call.func, ast.Attribute) or not call.args:
            return
        method, first = call.func.attr, call.args[0]
        if method in _CALLS and isinstance(first, ast.Lambda):
            self.nameless.append(f"run.{method}(lambda …) ({code.place(call.lineno)})")
        elif method in _CALLS and isinstance(first, ast.Name | ast.Attribute):
            self._handed_over(code, method, first, call)
        elif isinstance(first, ast.Constant) and isinstance(first.value, str):
            named = {"resource": self.needs, "pause_for": self.waits, "wait_for": self.waits}.get(method)
            if named is not None:
                named.append(first.value)

    def _handed_over(self, code: Code, method: str, first: ast.expr, call: ast.Call) -> None:
        found = code.resolved(first)
        if isinstance(found, types.FunctionType):
            probe = next((each.value for each in call.keywords if each.arg == "confirm"), None)
            confirm = code.resolved(probe) if probe is not None else None
            self.unit(StepSpec(found, found.__name__, _CALLS[method], confirm=confirm))
        elif found is None and ast.unparse(call.func) == f"run.{method}":
            self.unseen.append(f"run.{method}({ast.unparse(first)}, …) ({code.place(call.lineno)}): it is not followed")

    def unit(self, spec: StepSpec) -> None:
        key = (spec.name, spec.kind, spec.code)
        if key not in self.units:
            self.units[key] = unit_of(spec)
            codes = list(_with_helpers(spec.function))
            self.unsummed += [(spec.name, _told(code, sign)) for code in codes for sign in unsummed(code.node)]
            if code_of(spec.function) is None:
                self.unseen.append(f"{spec.name}: there is no source")


# -- steps and effects -------------------------------------------------------------------------------


def unit_of(spec: StepSpec) -> Unit:
    """A step or effect, as it looks from outside, with the helpers that it calls."""
    codes = list(_with_helpers(spec.function))
    probes = list(_with_helpers(spec.confirm)) if spec.confirm is not None else []
    own = spec.signature.injected.values()
    of_probe = Signature(spec.confirm).injected.values() if spec.confirm is not None else ()
    written = [(code, sign) for code in codes for sign in file_writes(code.node, code.names)]
    return Unit(
        name=spec.name,
        kind=spec.kind,
        place=codes[0].place(codes[0].node.lineno) if codes else "no source",
        signs=tuple(_told(code, sign) for code in codes for sign in unrepeatable(code.node, code.names)),
        undeclared=tuple(_told(code, sign) for code, sign in written if not spec.writes),
        writes=spec.writes,
        keyed=bool(spec.signature.keyed),
        confirmed=spec.confirm is not None,
        unsafe=tuple(_unsafe(spec, codes, probes)),
        injected=tuple(dict.fromkeys([*own, *of_probe])),
        live=tuple(live for code in codes for live in _live_objects(code)),
        hidden=tuple(_told(code, sign) for code in codes for sign in swallowed(code.node)),
        code=spec.code,
    )


def _unsafe(spec: StepSpec, codes: list[Code], probes: list[Code]) -> Iterator[AuditFinding]:
    """What makes the protection of an effect worthless; an effect in a step has none."""
    for code in codes:
        specs = [getattr(found, "spec", None) for found in _referred(code)]
        inner = [each.name for each in specs if isinstance(each, StepSpec) and each.is_effect]
        for name in inner if not spec.is_effect else ():
            yield AuditFinding("effect_in_step", name, f"called in {spec.name}", "call it from the flow's body")
    if not spec.is_effect:
        return
    broad = [kind for kind in spec.not_done if kind in _TOO_BROAD]
    for kind in broad:
        advice = "name only what proves that nothing was done, such as ConnectionRefusedError"
        yield AuditFinding("not_done_too_broad", spec.name, f"not_done has {kind.__name__}", advice)
    for code in probes:
        for sign in unrepeatable(code.node, code.names):
            yield AuditFinding("probe_acts", spec.name, f"its confirm probe: {_told(code, sign)}", "a probe only looks")
    if spec.confirm is not None and not _tells_calls_apart(spec):
        advice = "let it take key, or those of the effect's inputs that tell one call from another"
        yield AuditFinding("probe_blind", spec.name, "its confirm probe takes nothing of the call", advice)


def _tells_calls_apart(spec: StepSpec) -> bool:
    """A probe that is given nothing can tell only if the effect has no inputs: then there is one such call."""
    assert spec.confirm is not None
    taken = {p.name for p in inspect.signature(spec.confirm).parameters.values()}
    own = {p.name for p in spec.signature.parameters if p.name not in spec.signature.injected}
    starred = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(spec.confirm).parameters.values())
    inputs = own - set(spec.signature.keyed)
    return starred or not inputs or bool(taken & {*own, "key"}) or bool(Signature(spec.confirm).keyed)


# -- what code refers to -----------------------------------------------------------------------------


def _with_helpers(function: Callable[..., Any]) -> Iterator[Code]:
    """The code of a function, and of the plain functions of the same folder that it calls."""
    met: set[int] = set()
    todo: list[Any] = [function]
    while todo:
        found = todo.pop(0)
        if id(found) in met:
            continue
        met.add(id(found))
        code = code_of(found)
        if code is not None:
            yield code
            todo += [each for each in _referred(code) if _is_helper(each, code.file)]


def _referred(code: Code) -> list[Any]:
    """What the global names of a function stand for, modules' attributes too, each once."""
    nodes = [node for part in code.node.body for node in ast.walk(part) if isinstance(node, ast.Name | ast.Attribute)]
    found = [one for node in nodes if isinstance(node.ctx, ast.Load) and (one := code.resolved(node)) is not None]
    return list({id(one): one for one in found}.values())


def _passed(code: Code) -> list[Any]:
    """Plain functions that a body only hands to its run: they are steps, not helpers."""
    calls = calls_in(code.node)
    methods = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in _CALLS]
    first = [call.args[0] for call in methods if call.args]
    probes = [each.value for call in calls for each in call.keywords if each.arg == "confirm"]
    return [code.resolved(node) for node in (*first, *probes)]


def _is_helper(found: Any, file: str) -> bool:
    """A plain function that lies beside the code which calls it."""
    if not isinstance(found, types.FunctionType) or found.__name__ == "<lambda>":
        return False
    return Path(found.__code__.co_filename).parent == Path(file).parent


def _live_objects(code: Code) -> list[str]:
    names = {node.id for part in code.node.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    return [f"{name}, a {type(code.found(name)).__name__}" for name in sorted(names) if is_live(code.found(name))]


def is_live(found: Any) -> bool:
    """Whether an object looks like something that lives only in its process: a client, a socket, an open file."""
    if found is None or isinstance(found, type | types.ModuleType | types.FunctionType) or hasattr(found, "spec"):
        return False
    if isinstance(found, io.IOBase | socket.socket):
        return True
    kind = type(found).__name__.lower()
    return kind.endswith(_LIVE) and any(callable(getattr(type(found), name, None)) for name in _CLOSERS)


def _told(code: Code, sign: Sign) -> str:
    return f"{sign.what} at {code.place(sign.line)}"


# -- signs in code -----------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef

_WEB = ("requests", "httpx", "aiohttp")
_ALWAYS = {"post", "patch"}  # methods that hardly anything else has
_OFTEN = {"put", "delete"}
_CLIENT = re.compile(r"(client|session|http|api|requests|httpx)", re.IGNORECASE)
_GIT = re.compile(r"(^|\.)(repo|repository|index|git|remote|origin)(\.|$|\()", re.IGNORECASE)
_SENDS = {*LISTS["sends"].split()}
_RUNS = {*LISTS["runs"].split()}
_WRITERS = {*LISTS["writers"].split()}
_MOVERS = {*LISTS["movers"].split()}
_CLOCKS = {name: " ".join(instead) for name, instead in table("instead").items()}
_CHANCE = {"random": "run.random()", "secrets": "run.uuid()"}
_MOST_CHARACTERS = 80
_SUMMARY = 3  # its place among the arguments of save(name, content, media_type, summary)


class Sign(NamedTuple):
    """Something that was seen in code."""

    line: int
    what: str
    instead: str = ""


class Names(NamedTuple):
    """What the names of a module stand for: `r` for `requests`, `post` for `requests.post`."""

    of: dict[str, str]

    def dotted(self, node: ast.expr) -> str:
        """The full name of what is called; empty when it has none."""
        match node:
            case ast.Name(id=name):
                return self.of.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                before = self.dotted(value)
                return f"{before}.{attr}" if before else ""
            case ast.Call(func=func):
                before = self.dotted(func)
                return f"{before}()" if before else ""
            case _:
                return ""


def names_in(*trees: ast.AST) -> Names:
    """The imported names of modules and functions."""
    found: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name if alias.asname else alias.name.partition(".")[0]
                    found[alias.asname or first] = first
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return Names(found)


def calls_in(function: Function) -> list[ast.Call]:
    """Every call in a function's body, in the order of the lines."""
    found = [node for part in function.body for node in ast.walk(part) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


# -- unrepeatable ------------------------------------------------------------------------------------


def unrepeatable(function: Function, names: Names) -> list[Sign]:
    """Calls that look as if they must not be made twice. One that carries an idempotency key may be."""
    found: list[Sign] = []
    for call in calls_in(function):
        said = [keyword.arg or "" for keyword in call.keywords]
        constants = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
        said += [value for value in constants if isinstance(value, str)]
        if not any(text.lower().replace("_", "-") == "idempotency-key" for text in said):
            found += [Sign(call.lineno, what) for what in _signs(call, names)]
    return found


def _signs(call: ast.Call, names: Names) -> Iterator[str]:
    dotted = names.dotted(call.func)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else dotted.rpartition(".")[2]
    before = dotted.rpartition(".")[0]
    shown = ast.unparse(call.func)[:_MOST_CHARACTERS]
    if dotted in _RUNS:
        yield from signs_in(_command(call))
    elif _posts(method, before) or method in _SENDS or dotted.startswith(("stripe.", "smtplib.")):
        yield f"{shown}(…)"
    elif method in ("commit", "push") and _GIT.search(before):
        yield f"{shown}(…) of git"
    elif _mode(call, names).startswith("a"):
        yield f"{shown}(…, 'a') appends to a file"


def _posts(method: str, before: str) -> bool:
    of_the_web = before.partition(".")[0] in _WEB
    if method in _ALWAYS:
        return bool(before) and (of_the_web or "mock" not in before)
    return method in _OFTEN and (of_the_web or bool(_CLIENT.search(before.rpartition(".")[2])))


def _command(call: ast.Call) -> str:
    """The command that a call runs, as far as it is written there."""
    if not call.args:
        return ""
    first = call.args[0]
    if isinstance(first, ast.List | ast.Tuple):
        return _joined(first.elts)
    text = _text(first)
    return text if len(call.args) == 1 or not text else _joined(call.args)


def _joined(parts: list[ast.expr]) -> str:
    return shlex.join(_text(part) or "…" for part in parts)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value) or "…" for value in values)
        case _:
            return ""


def _mode(call: ast.Call, names: Names) -> str:
    """The mode of a call that opens a file; empty for any other."""
    opens = names.dotted(call.func) in ("open", "io.open", "builtins.open")
    of_a_path = isinstance(call.func, ast.Attribute) and call.func.attr == "open" and not opens
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "mode"), None)
    place = 1 if opens else 0
    if given is None and (opens or of_a_path) and len(call.args) > place:
        given = call.args[place]
    mode = _text(given) if given is not None else ""
    return mode if re.fullmatch(r"[rwaxbt+]{1,4}", mode) else ""


# -- files, order, failures --------------------------------------------------------------------------


def file_writes(function: Function, names: Names) -> list[Sign]:
    """Calls that write files. A function that works with tempfile is taken at its word."""
    used = (names.dotted(node) for node in ast.walk(function) if isinstance(node, ast.Name | ast.Attribute))
    if any(name.startswith("tempfile") for name in used):
        return []
    found: list[Sign] = []
    for call in calls_in(function):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        writes = method in _WRITERS and bool(call.args or call.keywords)
        if writes or names.dotted(call.func) in _MOVERS or re.search("[wax+]", _mode(call, names)):
            found.append(Sign(call.lineno, f"{ast.unparse(call.func)[:_MOST_CHARACTERS]}(…)"))
    return found


def unsteady(function: Function, names: Names) -> list[Sign]:
    """What a body reads that may be another thing when it runs again, and what to use instead."""
    found: list[Sign] = []
    for call in calls_in(function):
        dotted = names.dotted(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        instead = _CLOCKS.get(dotted) or (_CHANCE.get(dotted.partition(".")[0]) if "." in dotted else None)
        if instead is None and (dotted == "open" or method in ("read_text", "read_bytes")):
            instead = "a step that reads it"
        if instead is not None:
            found.append(Sign(call.lineno, f"{ast.unparse(call.func)[:_MOST_CHARACTERS]}(…)", instead))
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and names.dotted(node.value) == "os.environ":
            found.append(Sign(node.lineno, "os.environ[…]", "an input, or a step"))
    return found


def swallowed(function: Function) -> list[Sign]:
    """Handlers that let any failure pass without a word."""
    found: list[Sign] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.ExceptHandler):
            continue
        broad = node.type is None or (
            isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
        )
        if broad and all(isinstance(each, ast.Pass | ast.Continue) for each in node.body):
            found.append(Sign(node.lineno, "except …: pass"))
    return found


def unsummed(function: Function) -> list[Sign]:
    """Artifacts that are saved without a word on what they are."""
    found: list[Sign] = []
    for call in calls_in(function):
        shown = ast.unparse(call.func)
        said = len(call.args) > _SUMMARY or any(keyword.arg in ("summary", None) for keyword in call.keywords)
        if shown.endswith("workspace.save") and not said:
            found.append(Sign(call.lineno, f"{shown[-_MOST_CHARACTERS:]}(…)"))
    return found
