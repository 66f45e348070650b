"""The ways on from where a run stands, as commands to copy."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.cli.door import Door
from holdfast.cli.render import at, facts, say
from holdfast.domain.interrupt import Interrupt

Way = tuple[str, str]


def ways(door: Door, wait: Interrupt) -> list[Way]:
    """What a person can do about a wait: in words, and as a command."""
    run = wait.run_id
    match wait.type:
        case "in_doubt":
            return step_ways(door, run, wait.step, "not done, do it", "done, go on")
        case "crash_loop":
            return step_ways(door, run, wait.step, "once more", "without it")
        case "inputs_changed":
            keep = [("keep what is done", door.command("answer", wait.id, '{"choice":"reuse"}'))]
            again = ("do it anew", door.command("answer", wait.id, '{"choice":"again"}'))
            return [*(keep if "reuse" in wait.choices else []), again, _give_up(door, run)]
        case "timer":
            when = at(wait.due_at) if wait.due_at else "that"
            return [(f"after {when}", door.command("resume", run))]
        case "child":
            return [("look at it", door.command("show", str(wait.payload.get("child", ""))))]
        case _:
            return [("answer it", door.command("answer", wait.id, "JSON")), _give_up(door, run)]


def step_ways(door: Door, run: str, step: str, again: str, without: str) -> list[Way]:
    """The three ways on from a step that may be done already."""
    return [
        (again, door.command("retry", run, step)),
        (without, door.command("skip", run, step, "--result", "JSON", "--why", "WHY")),
        _give_up(door, run),
    ]


def _give_up(door: Door, run: str) -> Way:
    return "give up", door.command("abort", run, "--why", "WHY")


def say_ways(found: Iterable[Way]) -> None:
    facts((f"  {words}:", command) for words, command in found)


def say_waits(door: Door, run_id: str, waits: tuple[Interrupt, ...]) -> None:
    """Every wait with its ways on, then how to continue."""
    for wait in waits:
        say(f"waits: {wait.says}", "yellow", prose=True)
        if wait.inputs:
            shown = wait.inputs if len(wait.inputs) <= 60 else f"{wait.inputs[:59]}…"
            say(f"  its inputs: {shown}")
        say_ways(ways(door, wait))
    if any(wait.choices for wait in waits):
        say(f"then continue: {door.command('resume', run_id)}")
