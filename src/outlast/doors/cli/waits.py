"""Waits on the screen: what they ask, what an answer is made of, and the ways on as commands to copy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outlast.doors.cli import late
from outlast.doors.cli.invocation import Invocation
from outlast.doors.cli.render import ALL, SOME, as_json, at, clean, document, facts, fit, has_lines, note, say, span
from outlast.errors import EmbeddedOnly, OutlastError
from outlast.values.text import doubt_of

if TYPE_CHECKING:
    from outlast import Interrupt, Outcome, Outlast, PlanStep, RunRecord


Way = tuple[str, str]
WIDEST = 300  # columns of what is said of an answer; --json has all of it
INPUTS, INPUTS_OF_ONE = 60, 800  # columns of what a call was given: in a list, and for whoever decides now
Schema = Mapping[str, Any]
WORDS = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no",
    "object": "JSON object", "array": "JSON list", "null": "null",
}  # fmt: skip
TEXT, LONG = "TEXT", 60  # an example of a text, and from which length on there is none
MANY = 20  # items of an example
DEEPEST = 20
LEFT = 3  # files of an unfinished attempt that are named
LIMITS = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
_OF_FILES = (("keep files", "keep"), ("put back", "restore"))
WORK = {"none": "nothing in its files", "partial": "partial work", "complete": "all its files"}


def asks(wait: Interrupt) -> str:
    """The wait in one line: in the flow's own words."""
    if wait.is_built_in:
        return wait.says
    own = wait.step.partition("~")[0] == wait.type
    asked = wait.payload.get("question") or wait.payload.get("message")
    if isinstance(asked, str) and asked:
        return f"{wait.type if own else wait.step}: {asked}"
    return f"waits for your {wait.type}" if own else wait.says


def with_children(outlast: Outlast, waits: Iterable[Interrupt]) -> list[Interrupt]:
    """The open waits of a run; after each that is for a child run, those of the child."""
    found = []
    for wait in waits:
        found.append(wait)
        if wait.type == "child":
            found += with_children(outlast, outlast.interrupts(str(wait.payload.get("child", ""))))
    return found


def ways(call: Invocation, wait: Interrupt, *, resume: bool = False, top: str = "") -> list[Way]:
    """What a person can do about a wait: in words, and as a command; with `resume`, one that goes on at once.

    `top` is the run to go on with, where the wait is one of its child.
    """
    run, then = wait.run_id, ("--resume",) * resume
    if wait.is_overdue:
        return [("go on", call.command("resume", top or run))]

    def choose(choice: str) -> str:
        return call.command("answer", wait.id, f'{{"choice":"{choice}"}}', *then)

    match wait.type:
        case "in_doubt":
            return step_ways(call, run, wait.step, "not done, do it", "done, go on", then)
        case "crash_loop":
            return step_ways(call, run, wait.step, "once more", "without it", then)
        case "inputs_changed":
            keep = [("keep what is done", choose("reuse"))] if "reuse" in wait.choices else []
            return [*keep, ("do it anew", choose("again")), _give_up(call, run)]
        case "partial":
            skip = call.command("skip", run, wait.step, "--result", "JSON", "--why", "WHY", *then)
            again = [(words, choose(choice)) for words, choice in _OF_FILES if choice in wait.choices]
            return [*again, ("without it", skip), _give_up(call, run)]
        case "limit":
            return [("more rounds", choose("more")), ("go on as it is", choose("continue")), _give_up(call, run)]
        case "approval":
            yes = call.command("approve", wait.id, *then)
            return [("approve", yes), ("decline", call.command("decline", wait.id, "-m", "WHY", *then))]
        case "timer" if wait.step == "run.deadline":
            return []
        case "timer":
            when = at(wait.due_at) if wait.due_at else "that"
            return [(f"after {when}", call.command("resume", run))]
        case "child":
            return [("look at it", call.command("show", str(wait.payload.get("child", ""))))]
        case "signal":
            return [("send it", _send(call, wait, then)), _give_up(call, run)]
        case _:
            give = as_json(example_of(wait.schema)) if wait.schema is not None else "JSON"
            cancel = [("cancel it", call.command("answer", wait.id, "--cancel", "WHY", *then))] * wait.by_flow
            return [("answer it", call.command("answer", wait.id, give, *then)), *cancel, _give_up(call, run)]


def _send(call: Invocation, wait: Interrupt, then: tuple[str, ...]) -> str:
    """The command that sends the signal that is waited for."""
    name = str(wait.payload.get("name", ""))
    to = ("--run", wait.run_id, *then)
    return call.command("signal", *((*to, "--", name, "JSON") if name[:1] == "-" else (name, "JSON", *to)))


def step_ways(call: Invocation, run: str, step: str, again: str, without: str, then: tuple[str, ...] = ()) -> list[Way]:
    """The three ways on from a step that may be done already."""
    return [
        (again, call.command("retry", run, step, *then)),
        (without, call.command("skip", run, step, "--result", "JSON", "--why", "WHY", *then)),
        _give_up(call, run),
    ]


def files_ways(call: Invocation, run: str, step: PlanStep) -> list[Way]:
    """The ways on from a step that left files, and whose next attempt a person decides about."""
    said = [(words, choice) for words, choice in _OF_FILES if choice in step.partial]
    about = [(words, call.command("resume", run, "--partial", choice)) for words, choice in said]
    return [*about, *step_ways(call, run, step.label, "", "without it")[1:]]


def _give_up(call: Invocation, run: str) -> Way:
    return "give up", call.command("abort", run, "--why", "WHY")


def say_ways(found: Iterable[Way]) -> None:
    facts(*((f"  {words}:", command) for words, command in found))


def say_shown(call: Invocation, wait: Interrupt) -> None:
    """What a person is to look at before deciding, as much as has room in a list."""
    for line in shown(wait, SOME, call.command("answer", wait.id)):
        say(f"  {line}")


def shown(wait: Interrupt, most: int = ALL, command: str = "") -> list[str]:
    """What a wait says besides its question: inputs, what it shows, files that were left, a condition."""
    lines = _inputs(wait, most, command)
    if not wait.is_built_in:
        lines += [line for name, value in told(wait) for line in document(name, value, most, command)]
    if wait.schema is not None:
        lines.append(fit(f"takes: {fields_line(wait.schema)}", WIDEST))
        if has_placeholder(example_of(wait.schema)) and not wait.is_overdue:
            lines.append("fill in what stands in <…>")
    if wait.type == "limit":
        lines.append(f"until: {wait.payload.get('until', '')}")
    if wait.type == "partial" and isinstance(wait.payload.get("left"), dict):
        lines.append(left_line(wait.payload["left"]))
    return lines


def _inputs(wait: Interrupt, most: int, command: str) -> list[str]:
    given = wait.payload.get("inputs", "")
    if has_lines(given):
        return document("its inputs", given, most, command)
    widest = INPUTS if most < ALL else INPUTS_OF_ONE
    return [f"its inputs: {fit(wait.inputs, widest)}"] if wait.inputs else []


def told(wait: Interrupt) -> list[tuple[str, Any]]:
    """What a flow shows whom it asks; not what it tells us, nor the question itself."""
    said = {"on_decline"} if wait.type == "approval" else set()
    said |= {name for name in ("question", "message") if wait.says == f"{wait.step}: {wait.payload.get(name)}"}
    return [(name, value) for name, value in wait.payload.items() if name not in said]


def until_when(wait: Interrupt) -> list[str]:
    """Who is asked, and until when; what counts after that."""
    found = [f"for {clean(wait.assignee)}"] if wait.assignee else []
    if wait.due_at is not None and wait.type != "timer":
        left = wait.due_at - datetime.now(UTC)
        counts = f"{fit(as_json(wait.default), 60)} counts" if wait.has_default else ""
        if wait.is_overdue:
            found.append(f"its deadline has passed; {counts or 'it has no answer'}")
        else:
            found.append(f"due in {span(left)}" + (f", then {counts}" if counts else ""))
    return found


def say_waits(call: Invocation, run_id: str, waits: tuple[Interrupt, ...]) -> None:
    """Every wait, also of the children that are waited for, with its ways on; then how to continue."""
    with call.open() as outlast:
        found, top = with_children(outlast, waits), top_of(outlast, outlast.get(run_id))
    for wait in found:
        say(whose(wait, run_id), "yellow")
        if told_when := until_when(wait):
            say(f"  {'; '.join(told_when)}")
        say_shown(call, wait)
        say_ways(ways(call, wait, top=top.id))
    if any((wait.is_for_people or wait.type == "signal") and not wait.is_overdue for wait in found):
        goes_on = call.worker_for(top) if top.engine else call.command("resume", top.id)
        say(f"then {f'{top.engine} goes on' if top.engine else 'continue'}: {goes_on}")


def whose(wait: Interrupt, run_id: str) -> str:
    """A wait in one line, that says of which run it is when it is not of this one."""
    line = asks(wait) if asks(wait).startswith("waits for ") else f"waits: {asks(wait)}"
    return line if wait.run_id == run_id else f"child run {wait.run_id} {line}"


def hints(field: Schema, root: Schema, *, needed: bool) -> str:
    """What may be given, in words."""
    schema = late.schema.resolved(field, root)
    if "enum" in schema:
        told = [f"one of {', '.join(map(_shown, schema['enum']))}"]
    else:
        told = [" or ".join(WORDS[kind] for kind in kinds_of(schema, root)) or "JSON, or text"]
        told += limits(schema, root)
    if "default" in schema:
        told.append(f"Enter for {_shown(schema['default'])}")
    elif not needed:
        told.append("optional")
    return ", ".join(told)


def limits(schema: Schema, root: Schema) -> list[str]:
    """What a value must keep to besides its type, in words."""
    found = []
    for low, high, unit in LIMITS:
        match schema.get(low), schema.get(high):
            case None, None:
                continue
            case least, None:
                found.append(f"at least {least}{unit}")
            case None, most:
                found.append(f"at most {most}{unit}")
            case least, most:
                found.append(f"{least} to {most}{unit}")
    if "pattern" in schema:
        found.append(f"matches {schema['pattern']}")
    inner = [each for each in schema.get("anyOf", ()) if "$ref" not in each]  # others have no end, perhaps
    return found + [line for each in inner for line in limits(each, root)]


def kinds_of(schema: Schema, root: Schema) -> list[str]:
    """The types that a value may have; none when any will do."""
    if "anyOf" in schema:
        return [kind for each in schema["anyOf"] for kind in kinds_of(late.schema.resolved(each, root), root)]
    kinds = schema.get("type", [])
    return list(kinds) if isinstance(kinds, list) else [kinds]


def fields_line(schema: Schema) -> str:
    """What an answer is made of, in a line."""
    whole = late.schema.resolved(schema, schema)
    fields, needed = whole.get("properties"), whole.get("required", ())
    if not fields:
        return hints(schema, schema, needed=True)
    return "; ".join(f"{name} ({hints(each, schema, needed=name in needed)})" for name, each in fields.items())


def example_of(schema: Schema, root: Schema | None = None, depth: int = 0) -> Any:
    """A value that fits, to be changed; what nobody can guess is a placeholder: `<matches PATTERN>`."""
    root = root or schema
    whole = late.schema.resolved(schema, root)
    for name in ("default", "const"):
        if name in whole:
            return whole[name]
    if "enum" in whole:
        return whole["enum"][0]
    if depth > DEEPEST:
        return None
    if "anyOf" in whole:
        return example_of(whole["anyOf"][0], root, depth + 1)
    match next(iter(kinds_of(whole, root)), "string"):
        case "object":
            fields = whole.get("properties", {})
            needed = [name for name in whole.get("required", ()) if name in fields]
            return {name: example_of(fields[name], root, depth + 1) for name in needed}
        case "array":
            return [example_of(whole.get("items", {}), root, depth + 1)] * min(
                math.ceil(whole.get("minItems", 0)), MANY
            )
        case "integer" | "number" as kind:
            return _number(whole, whole_one=kind == "integer")
        case "string":
            return _text(whole)
        case kind:
            return {"boolean": True}.get(kind)


def _number(schema: Schema, *, whole_one: bool) -> float:
    """The number next to nought that fits."""
    low, high = schema.get("minimum", 0), schema.get("maximum", 0)
    found = low if low > 0 else high if high < 0 else 0
    if not whole_one:
        return float(found) if isinstance(found, float) else found
    return math.ceil(found) if found > 0 else math.floor(found)


def _text(schema: Schema) -> str:
    """A text that is long enough and not too long; a placeholder where only a person can find one."""
    least, most = math.ceil(schema.get("minLength", 0)), math.floor(schema.get("maxLength", len(TEXT)))
    if "pattern" in schema:
        return f"<matches {schema['pattern']}>"
    if least > LONG:
        return f"<at least {least} characters>"
    return (TEXT * LONG)[: max(least, min(most, len(TEXT)))]


def has_placeholder(value: Any) -> bool:
    """Whether an example must be filled in before it is an answer."""
    if isinstance(value, dict | list):
        return any(map(has_placeholder, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and value.startswith(("<matches ", "<at least ")) and value.endswith(">")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def top_of(outlast: Outlast, run: RunRecord) -> RunRecord:
    """The run itself, or the one above that it goes on with."""
    while run.parent:
        run = outlast.get(run.parent)
    return run


def died_in(step: PlanStep) -> str:
    """A step that was under way when its process died, in a line."""
    return f"step {step.label} did not end: its process died in attempt {step.attempts}"


def left_line(left: dict[str, Any]) -> str:
    """What an unfinished attempt left, in a line."""
    files = [f"{each.get('path')} {each.get('change')}" for each in left.get("files", ())]
    more = f" and {len(files) - LEFT:,} more" if len(files) > LEFT else ""
    names = f": {', '.join(files[:LEFT])}{more}{doubt_of(str(left.get('shared', '')))}" if files else ""
    return f"attempt {left.get('attempt')} {left.get('status')}, left {WORK.get(str(left.get('judgement')))}{names}"


def mirror(outlast: Outlast, run_id: str) -> None:
    """A run of Python code has its mirror when it stops; one of commands has had it all the time."""
    try:
        if not outlast.get(run_id, state=False).is_of_commands:
            outlast.mirror(run_id)
    except EmbeddedOnly:
        return  # of a server it is where the server is
    except (OSError, OutlastError) as error:
        note(f"the mirror of run {run_id} could not be written: {error}; later: outlast export {run_id} --mirror")


def interrupted(outlast: Outlast, run_id: str) -> Outcome[Any]:
    """How a run stands that was ended from outside."""
    found = outlast.get(run_id, state=False) if run_id else None
    error = late.outlast.RunError.of(found.error) if found else None
    return late.outlast.Outcome(run_id, found.status if found else "interrupted", error=error)
