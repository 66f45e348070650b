"""`outlast replay`: a run's body on its receipts only, and what it does otherwise than it is recorded."""

from __future__ import annotations

import os
import sys

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED, SUCCEEDED
from outlast.doors.cli.render import brief, counted, emit, say, table


@command("replay")
@run_argument()
def replay(door: Door, run_id: str) -> int:
    """Run a run's body on its receipts only; exit 4 when it does something else than is recorded.

    No step, effect, probe, sleep, child or command is executed and nothing is written. What the body does by itself,
    outside of its calls, it does again.
    """
    from outlast.values.codec import jsonable

    sys.path.insert(0, os.getcwd())  # where `run` found a module, `replay` from the same folder does too
    with door.open() as outlast:
        found = outlast.replay(run_id)
    if door.json:
        emit({"ok": found.ok, **jsonable(found)})
        return SUCCEEDED if found.ok else REFUSED
    given = f"{counted(found.replayed, 'outcome')} given again"
    say(f"run {found.run_id} ({found.status}): {given}; the body {_end(found.ended)}")
    for label in found.next:
        say(f"goes on with: {label}")
    if found.divergences:
        rows = [(one.code, one.subject, brief(one.expected), brief(one.found)) for one in found.divergences]
        table(("DIVERGES", "SUBJECT", "RECORDED", "NOW"), rows)
    if found.not_reached:
        say(f"{counted(found.not_reached, 'record')} after that place not reached")
    if found.ok:
        say("ok: nothing diverged", "green")
        return SUCCEEDED
    whole = door.command("replay", run_id, "--json")
    say(f"{counted(len(found.divergences), 'divergence')}; in full: {whole}", "red")
    return REFUSED


def _end(word: str) -> str:
    return {"waits": "waits for what is not recorded", "stuck": "did not end"}.get(word, word)
