"""The ways on from where a run stands, as commands to copy."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.door import Door
from outlast.doors.cli.fields import example_of, fields_line, has_placeholder
from outlast.doors.cli.render import ALL, SOME, as_json, at, clean, document, facts, fit, has_lines, say, span
from outlast.doors.cli.steps import left_line
from outlast.runs.waits.interrupt import QUESTIONS, RESERVED, Interrupt, is_for_people, is_told

if TYPE_CHECKING:
    from outlast import Outlast

Way = tuple[str, str]
WIDEST = 300  # columns of what is said of an answer; --json has all of it
INPUTS, INPUTS_OF_ONE = 60, 800  # columns of what a call was given: in a list, and for whoever decides now


def asks(wait: Interrupt) -> str:
    """The wait in one line: in the flow's own words."""
    if wait.type in QUESTIONS:
        return wait.says
    own = wait.step.partition("~")[0] == wait.type
    asked = wait.payload.get("question") or wait.payload.get("message")
    if isinstance(asked, str) and asked:
        return f"{wait.type if own else wait.step}: {asked}"
    return f"waits for your {wait.type}" if own else wait.says


def is_overdue(wait: Interrupt) -> bool:
    """Whether the deadline has passed: nobody can answer any more."""
    return wait.due_at is not None and is_told(wait.type) and wait.due_at <= datetime.now(UTC)


def with_children(outlast: Outlast, waits: Iterable[Interrupt]) -> list[Interrupt]:
    """The open waits of a run; after each that is for a child run, those of the child."""
    found = []
    for wait in waits:
        found.append(wait)
        if wait.type == "child":
            found += with_children(outlast, outlast.interrupts(str(wait.payload.get("child", ""))))
    return found


def ways(door: Door, wait: Interrupt, *, resume: bool = False, top: str = "") -> list[Way]:
    """What a person can do about a wait: in words, and as a command; with `resume`, one that goes on at once.

    `top` is the run to go on with, where the wait is one of its child.
    """
    run, then = wait.run_id, ("--resume",) * resume
    if is_overdue(wait):
        return [("go on", door.command("resume", top or run))]

    def choose(choice: str) -> str:
        return door.command("answer", wait.id, f'{{"choice":"{choice}"}}', *then)

    match wait.type:
        case "in_doubt":
            return step_ways(door, run, wait.step, "not done, do it", "done, go on", then)
        case "crash_loop":
            return step_ways(door, run, wait.step, "once more", "without it", then)
        case "inputs_changed":
            keep = [("keep what is done", choose("reuse"))] if "reuse" in wait.choices else []
            return [*keep, ("do it anew", choose("again")), _give_up(door, run)]
        case "partial":
            skip = door.command("skip", run, wait.step, "--result", "JSON", "--why", "WHY", *then)
            again = [("keep files", choose("keep")), ("put back", choose("restore"))]
            return [*again, ("without it", skip), _give_up(door, run)]
        case "limit":
            return [("more rounds", choose("more")), ("go on as it is", choose("continue")), _give_up(door, run)]
        case "approval":
            yes = door.command("approve", wait.id, *then)
            return [("approve", yes), ("decline", door.command("decline", wait.id, "-m", "WHY", *then))]
        case "timer" if wait.step == "run.deadline":
            return []
        case "timer":
            when = at(wait.due_at) if wait.due_at else "that"
            return [(f"after {when}", door.command("resume", run))]
        case "child":
            return [("look at it", door.command("show", str(wait.payload.get("child", ""))))]
        case "signal":
            return [("send it", _send(door, wait, then)), _give_up(door, run)]
        case _:
            give = as_json(example_of(wait.schema)) if wait.schema is not None else "JSON"
            cancel = [("cancel it", door.command("answer", wait.id, "--cancel", "WHY", *then))] * wait.by_flow
            return [("answer it", door.command("answer", wait.id, give, *then)), *cancel, _give_up(door, run)]


def _send(door: Door, wait: Interrupt, then: tuple[str, ...]) -> str:
    """The command that sends the signal that is waited for."""
    name = str(wait.payload.get("name", ""))
    to = ("--run", wait.run_id, *then)
    return (
        door.command("signal", *to, "--", name, "JSON")
        if name[:1] == "-"
        else door.command("signal", name, "JSON", *to)
    )


def step_ways(door: Door, run: str, step: str, again: str, without: str, then: tuple[str, ...] = ()) -> list[Way]:
    """The three ways on from a step that may be done already."""
    return [
        (again, door.command("retry", run, step, *then)),
        (without, door.command("skip", run, step, "--result", "JSON", "--why", "WHY", *then)),
        _give_up(door, run),
    ]


def _give_up(door: Door, run: str) -> Way:
    return "give up", door.command("abort", run, "--why", "WHY")


def say_ways(found: Iterable[Way]) -> None:
    facts((f"  {words}:", command) for words, command in found)


def say_shown(door: Door, wait: Interrupt) -> None:
    """What a person is to look at before deciding, as much as has room in a list."""
    for line in shown(wait, SOME, door.command("answer", wait.id)):
        say(f"  {line}")


def shown(wait: Interrupt, most: int = ALL, command: str = "") -> list[str]:
    """What a wait says besides its question: inputs, what it shows, files that were left, a condition."""
    lines = _inputs(wait, most, command)
    if wait.type not in RESERVED:
        lines += [line for name, value in told(wait) for line in document(name, value, most, command)]
    if wait.schema is not None:
        lines.append(fit(f"takes: {fields_line(wait.schema)}", WIDEST))
        if has_placeholder(example_of(wait.schema)) and not is_overdue(wait):
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
        if is_overdue(wait):
            found.append(f"its deadline has passed; {counts or 'it has no answer'}")
        else:
            found.append(f"due in {span(left)}" + (f", then {counts}" if counts else ""))
    return found


def say_waits(door: Door, run_id: str, waits: tuple[Interrupt, ...]) -> None:
    """Every wait, also of the children that are waited for, with its ways on; then how to continue."""
    from outlast.doors.cli.choices import top_of

    with door.open() as outlast:
        found, top = with_children(outlast, waits), top_of(outlast, outlast.get(run_id)).id
    for wait in found:
        say(whose(wait, run_id), "yellow")
        if told_when := until_when(wait):
            say(f"  {'; '.join(told_when)}")
        say_shown(door, wait)
        say_ways(ways(door, wait, top=top))
    if any((is_for_people(wait.type) or wait.type == "signal") and not is_overdue(wait) for wait in found):
        say(f"then continue: {door.command('resume', top)}")


def whose(wait: Interrupt, run_id: str) -> str:
    """A wait in one line, that says of which run it is when it is not of this one."""
    line = asks(wait) if asks(wait).startswith("waits for ") else f"waits: {asks(wait)}"
    return line if wait.run_id == run_id else f"child run {wait.run_id} {line}"
