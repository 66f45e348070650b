"""The kinds of values that only waits of a flow file have: what is waited for, of whom, and what an answer is like."""

from __future__ import annotations

from typing import Any

from outlast.flows.yaml.tree import Tree
from outlast.flows.yaml.values import BAD, Kind, Problems, read_object, read_text, shown
from outlast.runs.waits.interrupt import RESERVED
from outlast.runs.waits.schema import refuse_schema

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
