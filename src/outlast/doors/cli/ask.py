"""Asking a person at a terminal: which run, what to do where only a person can choose, and an answer field by field.

Questions go to stderr and answers come from stdin. In a script nobody is asked: there the commands are printed.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from outlast.doors.cli import late
from outlast.doors.cli.render import as_json, clean, counted, note, paragraph, table, terminal_columns, wrapped
from outlast.doors.cli.runs import RUN_HEADS, run_row
from outlast.doors.cli.waits import Schema, asks, died_in, hints, kinds_of, shown, until_when, with_children
from outlast.errors import AlreadyAnswered, RepeatsEffects

if TYPE_CHECKING:
    from outlast import Interrupt, Outcome, Outlast, RunRecord
    from outlast.doors.cli.invocation import Invocation


T = TypeVar("T")
LINES = 20
COLUMNS = 200
BYTES = 64 * 1024  # of a file, which may be one endless line
# what may be chosen: its key, its words
KEYS = {
    "retry": ("r", "[r]etry"),
    "skip": ("s", "[s]kip with a result"),
    "reuse": ("k", "[k]eep what was done"),
    "again": ("d", "[d]o it again"),
    "keep": ("k", "[k]eep the files"),
    "restore": ("p", "[p]ut them back"),
    "more": ("m", "[m]ore rounds"),
    "continue": ("c", "[c]ontinue without"),
    "abort": ("a", "[a]bort"),
}
LEAVE = "[l]eave it"
TOLD = f"the answer, or [e]nter it field by field, [c]ancel the question, {LEAVE}"
YES = ("y", "yes", "approve", "approved", "ok", "true")
NO = ("n", "no", "decline", "declined", "false")
APPROVAL_CHOICES = f"[y]es, approve, [n]o, decline, {LEAVE}"
YES_AND_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def file_lines(outlast: Outlast, wait: Interrupt) -> list[str]:
    """What to show of the file that a wait names; or why it cannot be shown. Nothing when it names none."""
    name = wait.payload.get("file")
    if not isinstance(name, str) or not name:
        return []
    try:
        return _first_lines(outlast.flow_folder(wait.run_id) / name)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return [f"{clean(name)} cannot be shown: {why}"]


def _first_lines(path: Path) -> list[str]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return [f"{clean(path.name)} cannot be shown: it is no plain file"]
        text = file.read(BYTES).decode("utf-8", "replace")
    lines = text.splitlines()
    shown = [_fitting(line) for line in lines[:LINES]]
    if len(lines) <= LINES and found.st_size <= BYTES and not any(line.endswith("…") for line in shown):
        return shown or [f"{clean(path.name)} is empty"]
    long = counted(len(lines), "line") if found.st_size <= BYTES else f"more than {len(lines):,} lines"
    return [*shown, f"[{long}, {found.st_size:,} bytes in all: {clean(path)}]"]


def _fitting(line: str) -> str:
    plain = clean(line.replace("\t", "    "))
    return plain if len(plain) <= COLUMNS else f"{plain[:COLUMNS]}…"


def can_ask(call: Invocation) -> bool:
    """Whether a person sits there."""
    return not call.json and sys.stdin.isatty() and sys.stderr.isatty()


def pick(found: Sequence[RunRecord]) -> str:
    """The id of the run that a person picks from a numbered list; empty when they pick none."""
    table(("", *RUN_HEADS), [(number, *run_row(run)) for number, run in enumerate(found, 1)], beside=True)
    while word := _line("which one? its number, or Enter to leave: "):
        if word.isdecimal() and 1 <= int(word) <= len(found):
            return found[int(word) - 1].id
        note(f"{word} is none of 1 to {len(found)}")
    return ""


def repeating(call: Invocation, work: Callable[[Sequence[str], bool], T], effects: Sequence[str], yes: bool) -> T:
    """What `work` comes to with these effects agreed to, and at a terminal with others, for as long as there are some.

    What a removed run did has no name: then all of it is agreed to.
    """
    while True:
        try:
            return work(effects, yes)
        except RepeatsEffects as error:
            if not can_ask(call) or not _may_repeat(error):
                raise
            names = [effect["step"] for effect in error.effects]
            effects, yes = [*effects, *names], not all(names)


def _may_repeat(error: RepeatsEffects) -> bool:
    """Whether a person says that effects which were done may happen again; each of them is shown."""
    note("")
    how = f"a fork of task {error.task!r}" if error.how == "fork" else f"--{error.how} on task {error.task!r}"
    paragraph(f"{how} would repeat what was done:", "? ", "  ")
    for effect in error.effects:
        paragraph(str(effect["says"]), "  - ", "    ")
    return _line("  may it happen again? [y]es, [n]o: ").lower() in ("y", "yes")


def decide(outlast: Outlast, outcome: Outcome[Any], left: set[str]) -> bool:
    """Ask about each question of a run and its children, but those `left` before. True if one was answered."""
    if outcome.status != "waiting":
        return False
    answered = False
    for wait in with_children(outlast, outcome.interrupts):
        if wait.is_for_people and wait.id not in left and not wait.is_overdue:
            try:
                said = ask_about(outlast, wait)
            except AlreadyAnswered as error:
                note(f"somebody was quicker: {error.detail}")
            else:
                if said is None:
                    left.add(wait.id)
                    continue
            answered = True
            if outlast.get(wait.run_id).finished:
                break  # with the run its other questions are gone
    return answered


def decide_crashed(outlast: Outlast, run_id: str) -> bool:
    """Ask what becomes of each step that was under way when its process died. False if one of them is left as it is."""
    plan = outlast.plan(run_id)
    left = {reason.subject: reason.found for reason in plan.verdict.reasons if reason.code == "partial_work"}
    for step in plan.steps:
        if not step.choices:
            continue
        note("")
        paragraph(died_in(step), "? ", "  ")
        paragraph(left.get(step.label, ""), "  ", "    ")
        said = _chosen(step.choices)
        if said is None:
            return False
        _take(outlast, run_id, step.label, said)
        if said["choice"] == "abort":
            break
    return True


def _take(outlast: Outlast, run_id: str, step: str, said: Mapping[str, Any]) -> None:
    match said["choice"]:
        case "retry":
            outlast.retry(run_id, step)
        case "skip":
            outlast.skip(run_id, step, result=said["result"], why=said["why"])
        case _:
            outlast.abort(run_id, why=said["why"])


def ask_about(outlast: Outlast, wait: Interrupt) -> Interrupt | None:
    """Show a question and settle it as the person says; None when they leave it open. Raises AlreadyAnswered.

    The answer is bound to what was shown.
    """
    if wait.type == "approval":
        answer = _ask_approval(outlast, wait)
    elif wait.choices:
        _show(wait)
        answer = _chosen(wait.choices)
    else:
        return _ask_told(outlast, wait)
    return None if answer is None else outlast.answer(wait.id, answer, shown=wait.digest)


def _ask_told(outlast: Outlast, wait: Interrupt) -> Interrupt | None:
    """What the flow asks for: the answer itself, or field by field; or the end of the question, with a reason."""
    _show(wait)
    while (word := _line(f"  {TOLD}: ")) not in ("", "l", "leave") or is_answer(word, wait.schema):
        command = "" if is_answer(word, wait.schema) else word
        if command in ("c", "cancel"):
            if why := _line("  why? it is on the record: "):
                return outlast.cancel(wait.id, why)
            note("  it needs a reason")
            continue
        given = ask_answer(wait.schema) if command in ("e", "enter") else read_answer(word, wait.schema)
        if given is not None:
            note(f"  answer: {as_json(given.value)}")
            return outlast.answer(wait.id, given.value, shown=wait.digest)
    return None


def _show(wait: Interrupt) -> None:
    note("")
    paragraph(asks(wait), "? ", "  ")
    for line in (*until_when(wait), *shown(wait)):
        paragraph(line, "  ")


def _chosen(choices: Sequence[str]) -> dict[str, Any] | None:
    """One of these, with what belongs to it; None when they leave it."""
    keys = {KEYS[choice][0]: choice for choice in choices}
    words = ", ".join([*(KEYS[choice][1] for choice in choices), LEAVE])
    while (word := _line(f"  {words}: ").lower()) not in ("", "l", "leave"):
        choice = keys.get(word) or (word if word in choices else "")
        answer = _complete(choice) if choice else None
        if answer is not None:
            return answer
        if not choice:
            note(f"  {word} is none of {', '.join([*keys, 'l'])}")
    return None


def _ask_approval(outlast: Outlast, wait: Interrupt) -> dict[str, Any] | None:
    """Yes or no, with a comment; None when they leave the question open."""
    _show(wait)
    for line in file_lines(outlast, wait):
        note(f"  | {line}")
    while (word := _line(f"  {APPROVAL_CHOICES}: ")).lower() not in ("", "l", "leave"):
        answer = _approval(word)
        if answer is not None:
            return answer
    return None


def _approval(said: str) -> dict[str, Any] | None:
    """Yes or no as somebody says it: in a word, with what they add to it, or as JSON. None when it is neither."""
    first, _, rest = said.partition(" ")
    word, comment = first.lower().rstrip(",.;:!"), rest.strip()
    if word in YES:
        comment = comment or (_line("  a comment, or Enter: ") if not rest else "")
        return {"approved": True} | ({"comment": comment} if comment else {})
    if word in NO:
        if why := comment or _line("  why? it is on the record: "):
            return {"approved": False, "comment": why}
        note("  it needs a reason")
        return None
    if said[:1] != "{":
        note(f"  {said} is none of y, n, l")
        return None
    given = read_answer(said, late.schema.APPROVAL)
    return given.value if given is not None else None


def _complete(choice: str) -> dict[str, Any] | None:
    """A choice with what belongs to it; None when that was not given."""
    answer: dict[str, Any] = {"choice": choice}
    if choice == "skip":
        text = _line("  its result, as JSON: ")
        try:
            answer["result"] = json.loads(text)
        except (ValueError, RecursionError):
            hint = f'; for text write "{text}"' if text and '"' not in text else ""
            note(f"  that is not JSON{hint}")
            return None
    if choice in ("skip", "abort"):
        why = _line("  why? it is on the record: ")
        if not why:
            note("  it needs a reason")
            return None
        answer["why"] = why
    return answer


def _line(prompt: str) -> str:
    """What is typed after the prompt; nothing at the end of the input."""
    return read_line(prompt) or ""


class TypedValue(NamedTuple):
    """What was typed, as the value it stands for."""

    value: Any


class QuestionLeft(Exception):
    """Raised at the end of the input: the person leaves the question open."""


def read_line(prompt: str) -> str | None:
    """What is typed after the prompt; None at the end of the input."""
    sys.stdout.flush()
    plain = clean(prompt)
    sys.stderr.write("\n".join(wrapped(plain, terminal_columns())) + plain[len(plain.rstrip()) :])
    sys.stderr.flush()
    typed = sys.stdin.buffer.readline()
    if not typed:
        note("")
        return None
    return typed.decode("utf-8", "backslashreplace").strip()


def ask_answer(schema: Schema | None) -> TypedValue | None:
    """An answer that fits the schema; None when the person leaves the question open."""
    try:
        while True:
            found = _fill(schema or {})
            wrong = late.schema.wrong_with(schema or {}, found.value)
            if not wrong:
                return found
            note(f"  {wrong}; once more")
    except QuestionLeft:
        return None


def read_answer(text: str, schema: Schema | None) -> TypedValue | None:
    """What was typed, as the answer that it stands for; None when it is none, which is said.

    Where one field is all that an answer has, or needs, its value is enough.
    """
    found, wrong = _answer(text, schema or {})
    if wrong:
        note(f"  {wrong}")
    return None if wrong else TypedValue(found)


def is_answer(text: str, schema: Schema | None) -> bool:
    """Whether a word is one of those that the schema lists: then it is never taken for a command of ours."""
    listed = late.schema.resolved(schema, schema).get("enum", ()) if schema else ()
    return bool(text) and text in listed


def _answer(text: str, schema: Schema) -> tuple[Any, str]:
    found, wrong = value_of(text, "answer", schema, schema)
    field = _one_field(schema) if wrong else ""
    if not field:
        return found, wrong
    value, wrong = value_of(text, field, late.schema.resolved(schema, schema)["properties"][field], schema)
    return ({field: value}, late.schema.wrong_with(schema, {field: value})) if not wrong else (None, wrong)


def _one_field(schema: Schema) -> str:
    """The only field that an answer must have; empty when there is no such one."""
    whole = late.schema.resolved(schema, schema)
    fields, needed = whole.get("properties", {}), [*whole.get("required", ())]
    names = needed or [*fields]
    return names[0] if len(names) == 1 and names[0] in fields else ""


def _fill(schema: Schema) -> TypedValue:
    whole = late.schema.resolved(schema, schema)
    fields = whole.get("properties")
    if not fields or "object" not in kinds_of(whole, schema):
        found = _ask("answer", schema, schema, needed=True)
        return found if found is not None else TypedValue(None)
    needed = whole.get("required", ())
    asked = ((name, _ask(name, each, schema, needed=name in needed)) for name, each in fields.items())
    return TypedValue({name: found.value for name, found in asked if found is not None})


def _ask(name: str, field: Schema, root: Schema, *, needed: bool) -> TypedValue | None:
    """One value, asked for until it fits; None when it was left out."""
    schema = late.schema.resolved(field, root)
    said = field.get("description") or schema.get("description")
    if isinstance(said, str) and said:
        paragraph(said, "  ", "  ")
    while True:
        text = read_line(f"  {name} ({hints(field, root, needed=needed)}): ")
        if text is None:
            raise QuestionLeft
        if not text and "default" in schema:
            return TypedValue(schema["default"])
        if not text and not needed:
            return None
        if not text:
            note(f"  {name} is needed; Ctrl-D leaves the question open")
            continue
        found, wrong = value_of(text, name, field, root)
        if not wrong:
            return TypedValue(found)
        note(f"  {wrong}")


def value_of(text: str, name: str, field: Schema, root: Schema) -> tuple[Any, str]:
    """The first of the values that a text can stand for which fits; else what is wrong with it."""
    schema = {**field, "$defs": root.get("$defs", {})}
    first = ""
    for value in _readings(text, kinds_of(late.schema.resolved(field, root), root)):
        wrong = late.schema.wrong_with(schema, value, name)
        if not wrong:
            return value, ""
        first = first or wrong
    return None, first


def _readings(text: str, kinds: list[str]) -> Iterator[Any]:
    if kinds == ["string"]:
        yield "" if text == '""' else text
        return
    if "boolean" in kinds and text.lower() in YES_AND_NO:
        yield YES_AND_NO[text.lower()]
    with suppress(ValueError, RecursionError):
        yield json.loads(text)
    yield text
