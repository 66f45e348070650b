"""`outlast acts`: who did what, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import limit_option
from outlast.doors.cli.render import at, say, table

if TYPE_CHECKING:
    from outlast import Act, Acts

COLUMNS = ("WHEN", "WHO", "WHAT", "ON", "WHY")


@command("acts", of="home_acts")
@limit_option(50)
def acts(call: Invocation, **asked: Any) -> int:
    """Who did what, the newest first: to runs, handoffs, schedules, queues, limits, keys and notification targets."""
    with call.open() as outlast:
        found = outlast.acts(scope=call.scope, **asked)
        while not found.items and found.next and not call.json:  # nothing among so many entries: those before them
            found = outlast.acts(scope=call.scope, **asked | {"cursor": found.next})
    if call.json:
        call.tell(found)
    elif found.items:
        table(COLUMNS, [_row(each) for each in found.items])
        _say_more(found)
    else:
        say("nobody did anything" if not any(asked.get(name) for name in ("by", "kind", "since")) else "no such acts")
    return 0


def _row(act: Act) -> tuple[str, ...]:
    name = f"{act.kind} {act.name}".strip()
    about = name if act.scope in ("", "default") else f"{name} in {act.scope}"
    return at(act.at), act.who or "-", act.what, about, act.said


def _say_more(found: Acts) -> None:
    if found.next:
        say(f"those before: the same with --cursor {found.next}", "dim")
