"""The ways on from where a run stands, as commands to copy."""

from __future__ import annotations

from holdfast.cli.door import Door
from holdfast.cli.render import at, facts, say
from holdfast.domain.interrupt import Interrupt

Way = tuple[str, str]


def ways(door: Door, wait: Interrupt) -> list[Way]:
    """What a person can do about a wait: in words, and as a command."""
    run, step = wait.run_id, wait.step
    give_up = ("give the run up", door.command("abort", run, "--why", "WHY"))
    match wait.type:
        case "in_doubt":
            return [
                ("it did not happen: do it", door.command("retry", run, step)),
                ("it happened: go on", door.command("skip", run, step, "--result", "JSON", "--why", "WHY")),
                give_up,
            ]
        case "crash_loop":
            return [
                ("try it once more", door.command("retry", run, step)),
                ("do without it", door.command("skip", run, step, "--result", "JSON", "--why", "WHY")),
                give_up,
            ]
        case "inputs_changed":
            return [
                ("keep what was done", door.command("answer", wait.id, '{"choice":"reuse"}')),
                ("do it with the new inputs", door.command("answer", wait.id, '{"choice":"again"}')),
                give_up,
            ]
        case "timer":
            when = at(wait.due_at) if wait.due_at else "that"
            return [(f"after {when}", door.command("resume", run))]
        case "child":
            return [("look at it", door.command("show", str(wait.payload.get("child", ""))))]
        case _:
            return [("answer it", door.command("answer", wait.id, "JSON")), give_up]


def say_waits(door: Door, run_id: str, waits: tuple[Interrupt, ...]) -> None:
    """Every wait with its ways on, then how to continue."""
    for wait in waits:
        say(f"waits: {wait.says}", "yellow")
        facts((f"  {words}:", command) for words, command in ways(door, wait))
    if any(wait.choices for wait in waits):
        say(f"then continue: {door.command('resume', run_id)}")
