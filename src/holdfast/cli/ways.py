"""The ways on from where a run stands, as commands to copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.cli.door import Door
from holdfast.cli.render import as_json, at, facts, say
from holdfast.domain.interrupt import Interrupt, is_for_people

Way = tuple[str, str]
WORK = {"none": "nothing in its files", "partial": "partial work", "complete": "all its files"}


def ways(door: Door, wait: Interrupt, *, resume: bool = False) -> list[Way]:
    """What a person can do about a wait: in words, and as a command; with `resume`, one that goes on at once."""
    run, then = wait.run_id, ("--resume",) * resume

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
        case "timer":
            when = at(wait.due_at) if wait.due_at else "that"
            return [(f"after {when}", door.command("resume", run))]
        case "child":
            return [("look at it", door.command("show", str(wait.payload.get("child", ""))))]
        case _:
            return [("answer it", door.command("answer", wait.id, "JSON")), _give_up(door, run)]


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


def say_shown(wait: Interrupt) -> None:
    """What a person is to look at before deciding."""
    for line in shown(wait):
        say(f"  {line}", prose=True)


def shown(wait: Interrupt) -> list[str]:
    """What a wait says besides its question: inputs, what it shows, files that were left, a condition."""
    lines = [f"its inputs: {wait.inputs if len(wait.inputs) <= 60 else f'{wait.inputs[:59]}…'}"] if wait.inputs else []
    if wait.type == "approval":
        lines += [f"{name}: {value if isinstance(value, str) else as_json(value)}" for name, value in told(wait)]
    if wait.type == "limit":
        lines.append(f"until: {wait.payload.get('until', '')}")
    if wait.type == "partial" and isinstance(wait.payload.get("left"), dict):
        lines.append(left_line(wait.payload["left"]))
    return lines


def told(wait: Interrupt) -> list[tuple[str, Any]]:
    """What a flow shows whom it asks for approval; not what it tells us."""
    return [(name, value) for name, value in wait.payload.items() if name != "on_decline"]


def left_line(left: dict[str, Any], most: int = 3) -> str:
    """What an unfinished attempt left, in a line."""
    files = [f"{each.get('path')} {each.get('change')}" for each in left.get("files", ())]
    more = f" and {len(files) - most:,} more" if len(files) > most else ""
    names = f": {', '.join(files[:most])}{more}" if files else ""
    return f"attempt {left.get('attempt')} {left.get('status')}, left {WORK.get(str(left.get('judgement')))}{names}"


def say_waits(door: Door, run_id: str, waits: tuple[Interrupt, ...]) -> None:
    """Every wait with its ways on, then how to continue."""
    for wait in waits:
        say(f"waits: {wait.says}", "yellow", prose=True)
        say_shown(wait)
        say_ways(ways(door, wait))
    if any(is_for_people(wait.type) for wait in waits):
        say(f"then continue: {door.command('resume', run_id)}")
