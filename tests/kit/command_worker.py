"""A runtime that tests kill: it starts commands as asked, says what it did, and waits to be killed.

`command_worker.py FOLDER SETTINGS`, settings as JSON: `commands`; `guard` (watch them, seconds of patience); `go`,
`wait`; `fork` (a forked child that lives on); `deaf` (it survives SIGINT); `patience` (of the wait); or `flood`.
Each line it says is JSON.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from outlast.commands.guard import Guard
from outlast.commands.process import HeldCommand, hold
from outlast.commands.transcript import Transcript


def say(*words: Any) -> None:
    os.write(1, (json.dumps(words) + "\n").encode())


def main(folder: Path, settings: dict[str, Any]) -> None:
    if settings.get("deaf"):
        signal.signal(signal.SIGINT, lambda *_: say("deaf"))
    guard = Guard(settings["guard"]) if "guard" in settings else None
    environment = os.environ | {"OUTLAST_RUN": str(folder)}
    helds = [hold(command, cwd=folder, env=environment, output=None) for command in settings["commands"]]
    for held in helds:
        if guard:
            guard.watch(held.group.pgid, folder / str(held.group.pgid))
    if settings.get("fork"):
        fork()
    for held in helds * bool(settings.get("go", True)):
        held.go()
    say("started", [held.group.to_facts() for held in helds], guard.pid if guard else None)
    for held in helds * bool(settings.get("wait", True)):
        say("ended", *wait(held, settings))
    sys.stdin.read()
    if guard and settings.get("goodbye"):
        guard.close()


def wait(held: HeldCommand, settings: dict[str, Any]) -> tuple[Any, ...]:
    return held.wait(patience=settings.get("patience", 5.0))


def fork() -> None:
    if (pid := os.fork()) == 0:
        os.close(1)
        time.sleep(600)
    say("forked", pid)


def flood(folder: Path, size: int) -> None:
    """Print that much into a transcript that nobody looks at in time; say how much memory that took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    never = threading.Event()
    transcript = Transcript(folder / "out", ["not in there"], lambda _: never.wait() and None)
    command = f"head -c {size} /dev/zero | tr '\\0' x"
    held = hold(command, cwd=folder, env=os.environ, output=transcript.writer)
    transcript.begin()
    held.go()
    say("ended", *held.wait())
    ended = transcript.join(0.1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    say("flooded", ended, transcript.size, transcript.unshown, grown)


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    if "flood" in asked:
        flood(Path(sys.argv[1]), asked["flood"])
    else:
        main(Path(sys.argv[1]), asked)
