"""Signs in Python code that it cannot be repeated without harm, writes files, or goes another way next time.

All of it is looking at syntax trees: what is called through variables, or in other packages, is not seen.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

from outlast.care.audit.signs import LISTS, signs_in, table
from outlast.values.frozen import NamedTuple

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
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
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
        if not _is_keyed(call):
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


def _is_keyed(call: ast.Call) -> bool:
    """Whether the call hands an idempotency key over."""
    said = [keyword.arg or "" for keyword in call.keywords]
    said += [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return any(text.lower().replace("_", "-") == "idempotency-key" for text in said)


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
    if any(value.startswith("tempfile") for value in _used(function, names)):
        return []
    found: list[Sign] = []
    for call in calls_in(function):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        writes = method in _WRITERS and bool(call.args or call.keywords)
        if writes or names.dotted(call.func) in _MOVERS or re.search("[wax+]", _mode(call, names)):
            found.append(Sign(call.lineno, f"{ast.unparse(call.func)[:_MOST_CHARACTERS]}(…)"))
    return found


def _used(function: Function, names: Names) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name | ast.Attribute):
            yield names.dotted(node)


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
