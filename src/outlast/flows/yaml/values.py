"""The kinds of values a flow file holds: how each is read from the tree, and what an editor is told of it.

A reader gives the value, or BAD after it has noted what is wrong. Which key is of which kind is in keys.py.

The kinds of values that only waits of a flow file have: what is waited for, of whom, and what an answer is like.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from outlast.errors import StepInvalid
from outlast.flows.loading import FLOW_FILES
from outlast.flows.spec import seconds
from outlast.ledger.journal import RESERVED
from outlast.values.codec import doubled
from outlast.values.frozen import NamedTuple
from outlast.values.schema import refuse_schema
from outlast.values.text import nearest
from outlast.values.yaml_tree import FlowFileProblem, Tree

BAD: Any = object()  # stands for a value that could not be read; the reason is among the problems
LONGEST = (1 << 17) - 1  # bytes: Linux takes no longer single argument, and no longer NAME=value
NAME = r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}"
VARIABLE = r"(?!OUTLAST_)[A-Za-z_][A-Za-z0-9_]*"
_INTEGER = r"0|-?[1-9][0-9]{0,999}"
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_LIKE_A_NUMBER = r"[-+]?(\.[0-9]+|[0-9][0-9_]*+(?:\.[0-9_]*+)?)([eE][-+]?[0-9]+)?|0[xob][0-9a-fA-F_]+"
_SHAPES = {"list": "a list", "mapping": "a mapping"}
_TAGS = {
    "int": "a number", "float": "a number", "bool": "a truth value", "null": "empty", "timestamp": "a date",
    "str": "a text", "merge": "a merge key", "value": "a sign that YAML reads specially",
}  # fmt: skip


class Problems(list[FlowFileProblem]):
    """What is wrong with a file, as it is found."""

    def note(self, node: Tree, path: str, why: str, advice: str) -> Any:
        self.append(FlowFileProblem(node.line, path, why, advice))
        return BAD


Read = Callable[[Tree, str, Problems], Any]


class Kind(NamedTuple):
    """A kind of value: its reader, and its JSON Schema."""

    read: Read
    schema: dict[str, Any]


# -- what every reader uses --------------------------------------------------------------------------


def shown(text: str) -> str:
    """A text for a message: quoted, and cut with its length told when it is long."""
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}… ({len(text):,} characters)"


def wrong(node: Tree, path: str, problems: Problems, wanted: str) -> Any:
    """Note that a value is not of the kind that is wanted."""
    found = _SHAPES.get(node.shape) or _TAGS.get(node.tag)
    if found is None or (node.shape != "text" and node.tag not in ("seq", "map")):
        return problems.note(node, path, f"the tag {shown(node.tag)} is not read", "remove the tag")
    said = f"{shown(node.text)} is {found}" if node.text and node.shape == "text" else f"this is {found}"
    quote = node.shape == "text" and node.text and node.tag != "str" and wanted.startswith(("text", "a name"))
    advice = f'put it in quotes: "{node.text}"' if quote and len(node.text) <= 80 else f"give {wanted}"
    return problems.note(node, path, f"{said} where {wanted} is due", advice)


def pairs(node: Tree, path: str, problems: Problems) -> list[tuple[str, Tree, Tree]] | None:
    """Keys, the nodes of the keys, and the nodes of their values; each key once. None when it is no mapping."""
    if node.shape != "mapping" or node.tag != "map":
        wrong(node, path, problems, "a mapping (`key: value`)")
        return None
    found: dict[str, tuple[str, Tree, Tree]] = {}
    for key, value in zip(node.nodes[::2], node.nodes[1::2], strict=True):
        if not _is_key(key, path, problems):
            continue
        if key.text in found:
            first = found[key.text][1].line
            why = f"the key {shown(key.text)} is given twice, first in line {first}"
            problems.note(key, inside(path, key.text), why, "remove one of them")
        else:
            found[key.text] = key.text, key, value
    return list(found.values())


def _is_key(key: Tree, path: str, problems: Problems) -> bool:
    if key.tag == "merge" and key.plain:
        problems.note(key, path, "merge keys (`<<`) are not read", "write the keys out")
    elif key.shape != "text" or key.tag != "str":
        wrong(key, path, problems, "text as a key")
    elif "\0" in key.text:
        problems.note(key, path, "there is a NUL in a key", "remove it")
    else:
        return True
    return False


def inside(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = key if len(key) <= 100 else f"{key[:60]}…"
    return f"{path}.{name}" if path else name


def items(node: Tree, path: str, problems: Problems, read: Read) -> Any:
    """Each item of a list, read; BAD when one is."""
    if node.shape != "list" or node.tag != "seq":
        return wrong(node, path, problems, "a list")
    found = tuple(read(child, inside(path, at), problems) for at, child in enumerate(node.nodes))
    return BAD if any(each is BAD for each in found) else found


# -- texts -------------------------------------------------------------------------------------------


def read_text(node: Tree, path: str, problems: Problems) -> Any:
    if node.shape != "text" or node.tag != "str":
        return wrong(node, path, problems, "text")
    if "\0" in node.text:
        return problems.note(node, path, "there is a NUL in this text", "remove it")
    if not node.text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in node.text):
        return problems.note(node, path, "there is half of a character in this text", "write the whole character")
    return node.text


def _read_filled(node: Tree, path: str, problems: Problems) -> Any:
    text = read_text(node, path, problems)
    if text is not BAD and not text.strip():
        return problems.note(node, path, "this text is empty", "say what is meant, or remove the key")
    return text


def _read_command(node: Tree, path: str, problems: Problems) -> Any:
    text = _read_filled(node, path, problems)
    if text is not BAD and len(text.encode()) > LONGEST:
        return problems.note(node, path, f"a command may have {LONGEST:,} bytes", "move it into a script")
    return text


def _read_name(node: Tree, path: str, problems: Problems) -> Any:
    text = _read_filled(node, path, problems)
    if text is not BAD and not re.fullmatch(NAME, text):
        advice = "use letters, digits, `_`, `-` and `.`, a letter or digit first, at most 100 of them"
        return problems.note(node, path, f"{shown(text)} cannot be a name", advice)
    return text


def one_of(choices: tuple[str, ...]) -> Kind:
    """One of a few words."""

    def read(node: Tree, path: str, problems: Problems) -> Any:
        text = _read_filled(node, path, problems)
        if text is BAD or text in choices:
            return text
        return problems.note(node, path, f"{shown(text)} is not known here", nearest(text, choices, "give one of"))

    return Kind(read, {"enum": list(choices)})


def _read_path(node: Tree, path: str, problems: Problems) -> Any:
    """A path or pattern that stays in the folder it starts in. `**` may stand for no folder at all."""
    text = _read_filled(node, path, problems)
    if text is BAD:
        return BAD
    if text.startswith(("/", "~")):
        return problems.note(node, path, f"{shown(text)} is not in the flow's folder", "give a path from that folder")
    depth = 0
    for part in text.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".", "**") else 1
        if depth < 0:
            why = f"{shown(text)} leads out of the folder it starts in"
            return problems.note(node, path, why, "give a path inside it, or move the flow file up")
    return text


def _one_or_many(read: Read) -> Read:
    def taken(node: Tree, path: str, problems: Problems) -> Any:
        if node.shape == "list":
            return items(node, path, problems, read)
        found = read(node, path, problems)
        return BAD if found is BAD else (found,)

    return taken


# -- numbers and truth -------------------------------------------------------------------------------


def read_flag(node: Tree, path: str, problems: Problems) -> Any:
    if node.tag == "bool" and node.text.lower() in ("true", "false"):
        return node.text.lower() == "true"
    return problems.note(node, path, f"{shown(node.text)} is no truth value", "write true or false")


def count(least: int, most: int | None = None) -> Kind:
    """A whole number between two limits."""

    def read(node: Tree, path: str, problems: Problems) -> Any:
        if node.tag != "int" or not re.fullmatch(_INTEGER, node.text):
            return wrong(node, path, problems, "a whole number in plain digits")
        found = int(node.text)
        if found < least or (most is not None and found > most):
            advice = f"give {least} to {most:,}" if most is not None else f"give {least} or more"
            return problems.note(node, path, f"{shown(node.text)} is out of range", advice)
        return found

    limits = {"minimum": least} | ({} if most is None else {"maximum": most})
    return Kind(read, {"type": "integer", **limits})


def _read_duration(node: Tree, path: str, problems: Problems) -> Any:
    plain = node.tag in ("int", "float") and re.fullmatch(_NUMBER, node.text) and len(node.text) < 100
    if node.shape != "text" or not (plain or node.tag == "str"):
        return wrong(node, path, problems, "a duration such as 90s, 10m, 48h")
    try:
        found = seconds(float(node.text) if plain else node.text, path)
    except StepInvalid:
        advice = "use seconds, or text such as 90s, 10m, 48h"
        return problems.note(node, path, f"{shown(node.text)} is no duration", advice)
    return found if found > 0 else problems.note(node, path, "nothing can be done in no time", "give more than 0")


# -- mappings and free values ------------------------------------------------------------------------


def read_variable(node: Tree, name: str, path: str, problems: Problems) -> bool:
    """Whether this can be the name of an environment variable of the flow's own."""
    if re.fullmatch(VARIABLE, name) and len(name) <= 100:
        return True
    taken = name.startswith("OUTLAST_")
    why = "names that begin with OUTLAST_ are set by the runtime" if taken else f"{shown(name)} cannot be a variable"
    problems.note(node, path, why, "use letters, digits and `_`, no digit first, another prefix, at most 100 of them")
    return False


def _read_env(node: Tree, path: str, problems: Problems) -> Any:
    found: dict[str, str] = {}
    for name, key, value in pairs(node, path, problems) or ():
        at = inside(path, name)
        named = read_variable(key, name, at, problems)
        text = _read_setting(value, at, problems)
        if text is not BAD and len(text.encode()) + len(name) >= LONGEST:
            problems.note(value, at, f"a variable may have {LONGEST:,} bytes", "put the value into a file")
        elif named and text is not BAD:
            found[name] = text
    return found


def _read_setting(node: Tree, path: str, problems: Problems) -> Any:
    """A variable's value: text, or a number that can be read in one way only, as it is written."""
    if node.shape == "text" and node.tag in ("int", "float") and re.fullmatch(_NUMBER, node.text):
        return node.text
    return read_text(node, path, problems)


def _read_secrets(node: Tree, path: str, problems: Problems) -> Any:
    def named(each: Tree, at: str, noted: Problems) -> Any:
        text = _read_filled(each, at, noted)
        return text if text is BAD or read_variable(each, text, at, noted) else BAD

    found = items(node, path, problems, named)
    if found is not BAD and (twice := doubled(found)) is not None:
        return problems.note(node, path, f"{twice} is listed twice", "remove one of them")
    return found


def read_json(node: Tree, path: str, problems: Problems) -> Any:
    """Any value that JSON has, if it can be read in one way only."""
    if node.shape == "list":
        found = items(node, path, problems, read_json)
        return BAD if found is BAD else list(found)
    if node.shape == "mapping":
        return read_object(node, path, problems)
    if node.tag == "str" and not (node.plain and re.fullmatch(_LIKE_A_NUMBER, node.text)):
        return read_text(node, path, problems)
    if node.tag in ("bool", "null") and node.text.lower() in ("true", "false", "null", "~", ""):
        return {"true": True, "false": False}.get(node.text.lower())
    return _read_number(node, path, problems)


def read_object(node: Tree, path: str, problems: Problems) -> Any:
    found = {
        name: read_json(value, inside(path, name), problems) for name, _, value in pairs(node, path, problems) or ()
    }
    return BAD if any(value is BAD for value in found.values()) else found


def _read_number(node: Tree, path: str, problems: Problems) -> Any:
    if node.tag == "int" and re.fullmatch(_INTEGER, node.text):
        return int(node.text)
    if node.tag == "float" and re.fullmatch(_NUMBER, node.text) and math.isfinite(float(node.text)):
        return float(node.text)
    if node.tag not in _TAGS:
        return wrong(node, path, problems, "a JSON value")
    why = f"{shown(node.text)} can be read in more than one way"
    return problems.note(node, path, why, "put it in quotes, or write true, false, null or a plain decimal number")


# -- the kinds ---------------------------------------------------------------------------------------

_COMMAND: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_PATH: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": r"^(?![/~])"}
_SETTING: dict[str, Any] = {"type": ["string", "number"]}


def _listed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "propertyNames": {"pattern": f"^{VARIABLE}$"}, "additionalProperties": values}


def _read_folder(node: Tree, path: str, problems: Problems) -> Any:
    """A folder to run in. Whether it lies in the repository is seen where the file's own place is known."""
    text = _read_filled(node, path, problems)
    if text is not BAD and text.startswith(("/", "~")):
        return problems.note(node, path, f"{shown(text)} is not in the flow's folder", "give a path from that folder")
    return text


def _read_flow_file(node: Tree, path: str, problems: Problems) -> Any:
    text = _read_folder(node, path, problems)
    if text is not BAD and not text.endswith(FLOW_FILES):
        return problems.note(node, path, f"{shown(text)} is no flow file", f"name one that ends with {FLOW_FILES[0]}")
    return text


def _read_items(node: Tree, path: str, problems: Problems) -> Any:
    found = items(node, path, problems, read_json)
    if found is not BAD and not found:
        return problems.note(node, path, "there is nothing in this list", "add an item, or use `lines: FILE`")
    return found


_EXIT = count(1, 255)
TEXT = Kind(read_text, {"type": "string"})
NAMED = Kind(_read_name, {"type": "string", "pattern": f"^{NAME}$"})
COMMAND = Kind(_read_command, _COMMAND)
COMMANDS = Kind(_one_or_many(_read_command), _listed(_COMMAND))
PATH = Kind(_read_path, _PATH)
FOLDER = Kind(_read_folder, _PATH)
FLOW_FILE = Kind(_read_flow_file, _PATH | {"pattern": r"^(?![/~]).*\.ya?ml$"})
ITEMS = Kind(_read_items, {"type": "array", "minItems": 1})
PATTERNS = Kind(_one_or_many(_read_path), _listed(_PATH))
EXITS = Kind(_one_or_many(_EXIT.read), _listed(_EXIT.schema))
FLAG = Kind(read_flag, {"type": "boolean"})
DURATION = Kind(_read_duration, {"type": ["string", "number"], "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)?\s*$"})
ENV = Kind(_read_env, _named(_SETTING))
SECRETS = Kind(_read_secrets, {"type": "array", "uniqueItems": True, "items": {"pattern": f"^{VARIABLE}$"}})
OBJECT = Kind(read_object, {"type": "object"})
JSON = Kind(read_json, {})


NEARLY = 0.8  # how alike a word is to `approval` that was meant to be it
LONGEST_SIGNAL, LONGEST_ASSIGNEE = 200, 500


def _read_word(node: Tree, path: str, problems: Problems) -> Any:
    """What a person is asked for: `approval`, or a word of the flow's own that cannot be a misspelt `approval`."""
    text = read_text(node, path, problems)
    if text is BAD or text == "approval":
        return text
    if text in RESERVED:
        advice = "`wait_for: NAME` waits for a signal" if text == "signal" else "use another word"
        why = f"{shown(text)} is a wait of the runtime's own"
        return problems.note(node, path, why, f"{advice}; a person is asked for approval, decision, input, …")
    if not text.isidentifier() or not text.isascii() or len(text) > 100:
        advice = "use letters, digits and `_`, no digit first: approval, decision, input, clarification"
        return problems.note(node, path, f"{shown(text)} cannot be waited for", advice)
    return _not_misspelt(text, node, path, problems)


def _not_misspelt(text: str, node: Tree, path: str, problems: Problems) -> Any:
    from difflib import SequenceMatcher  # late: most files only know approvals

    if SequenceMatcher(None, text.lower(), "approval").ratio() < NEARLY:
        return text
    return problems.note(node, path, f"{shown(text)} is not known here", "did you mean `approval`?")


def _read_line(limit: int) -> Any:
    def read(node: Tree, path: str, problems: Problems) -> Any:
        text = read_text(node, path, problems)
        if text is BAD or (text.strip() and text.isprintable() and len(text) <= limit):
            return text
        advice = f"give printable text of at most {limit} characters, on one line"
        return problems.note(node, path, f"{shown(text)} cannot be a name", advice)

    return read


def _read_schema(node: Tree, path: str, problems: Problems) -> Any:
    found = read_object(node, path, problems)
    if found is BAD:
        return BAD
    try:
        refuse_schema(found, path)
    except ValueError as error:
        where, _, why = str(error).partition(": ")
        return problems.note(node, where, why, "docs/waits.md names the part of JSON Schema that is known")
    return found


def _text(limit: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": limit}


WORD = Kind(_read_word, {"type": "string", "pattern": rf"^(?!({'|'.join(RESERVED)})$)[A-Za-z_][A-Za-z0-9_]{{0,99}}$"})
SIGNAL = Kind(_read_line(LONGEST_SIGNAL), _text(LONGEST_SIGNAL))
ASSIGNEE = Kind(_read_line(LONGEST_ASSIGNEE), _text(LONGEST_ASSIGNEE))
SCHEMA = Kind(_read_schema, {"type": "object"})
