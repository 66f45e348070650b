"""Care for a home: are its records what was stored, and is what it stands on sound?"""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.door import Door, command
from holdfast.cli.exits import FAILED, SUCCEEDED, exit_code, told
from holdfast.cli.render import counted, emit, facts, note, say

if TYPE_CHECKING:
    from holdfast import Holdfast

SAFE_SQLITE = (3, 51, 3)  # the first without the WAL-reset bug that several processes on one file can hit
COUNTED = 1000


@command("verify")
@click.argument("run_id", metavar="[RUN]", required=False)
def verify(door: Door, run_id: str | None) -> int:
    """Check that every record is what was stored; names the broken one and exits 1."""
    from holdfast.domain.codec import jsonable

    with door.open() as hold:
        found = hold.verify(run_id)
    if door.json:
        emit({"ok": found.ok, **jsonable(found)})
        return SUCCEEDED if found.ok else FAILED
    parts = (counted(found.runs, "run"), counted(found.entries, "journal record"), counted(found.blobs, "blob"))
    checked = f"{', '.join(parts)} checked"
    if found.ok:
        say(f"ok: {checked}; all are as they were stored", "green")
        return SUCCEEDED
    for problem in found.problems:
        say(f"broken: {problem.record}: {problem.why}", "red")
    say(f"{checked}; restore the home from a copy, or start the tasks of broken runs anew with --fresh")
    return FAILED


@command("doctor")
def doctor(door: Door) -> int:
    """Versions, home and disk, and whether they are sound."""
    from holdfast.errors import HomeNotFound

    known = {"python": platform.python_version(), "holdfast": version("holdfast"), "apsw": version("apsw")}
    try:
        with door.open() as hold:
            known |= home_facts(hold)
    except HomeNotFound as error:
        return _without_home(door, known, error)
    problems = problems_of(known)
    if door.json:
        emit({"ok": not problems, **known, "problems": problems})
    else:
        _say_facts(known)
        for problem in problems:
            say(f"problem: {problem}", "red")
        if not problems:
            say("ok: nothing to mend", "green")
    return FAILED if problems else SUCCEEDED


def home_facts(hold: Holdfast) -> dict[str, Any]:
    """What the store says of itself, and how many runs of each status there are."""
    store = hold._runtime.store.facts()
    runs = hold.runs(limit=COUNTED)
    return {
        "sqlite": store["sqlite"],
        "home": str(hold.home),
        "database": store["path"],
        "size_bytes": store["size_bytes"],
        "filesystem": filesystem_of(hold.home),
        "schema": store["schema"],
        "journal_mode": store["journal_mode"],
        "synchronous": store["synchronous"],
        "runs": dict(Counter(run.status for run in runs)),
        "runs_counted": len(runs),
        "waits": len(hold.interrupts()),
    }


def problems_of(known: dict[str, Any]) -> list[str]:
    """What is not sound, and what to do about it."""
    problems = []
    if tuple(map(int, known["sqlite"].split("."))) < SAFE_SQLITE:
        wanted = ".".join(map(str, SAFE_SQLITE))
        problems.append(f"SQLite {known['sqlite']} can corrupt a shared WAL; {wanted} is needed: pip install -U apsw")
    if known["journal_mode"] != "wal":
        problems.append(f"journal mode is {known['journal_mode']}, not wal: is the folder writable?")
    if known["synchronous"] not in ("FULL", "EXTRA"):
        problems.append(f"synchronous is {known['synchronous']}: a power cut may lose acknowledged steps; use FULL")
    return problems


def filesystem_of(path: Path) -> str:
    """The type of the file system that holds a path; `unknown` where the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    mounts = [(line.split()[4], line.partition(" - ")[2].split()[0]) for line in lines]
    inside = [(len(mount), kind) for mount, kind in mounts if path.resolve().is_relative_to(mount)]
    return max(inside, key=lambda found: found[0], default=(0, "unknown"))[1]


def _say_facts(known: dict[str, Any]) -> None:
    counted = ", ".join(f"{number} {status}" for status, number in known["runs"].items()) or "none yet"
    newest = f" (of the newest {COUNTED:,})" if known["runs_counted"] == COUNTED else ""
    facts(
        [
            ("holdfast", known["holdfast"]),
            ("python", known["python"]),
            ("apsw", known["apsw"]),
            ("sqlite", f"{known['sqlite']} (3.51.3 or newer is needed)"),
            ("home", known["home"]),
            ("database", f"{known['database']}, {known['size_bytes'] / 1024:,.0f} KiB, schema {known['schema']}"),
            ("filesystem", known["filesystem"]),
            ("journal", f"{known['journal_mode']}, synchronous {known['synchronous']}"),
            ("runs", counted + newest),
            ("open waits", str(known["waits"])),
        ]
    )


def _without_home(door: Door, known: dict[str, Any], error: Any) -> int:
    if door.json:
        emit({"ok": False, **known, "error": error.to_dict()})
    else:
        facts(known.items())
        note(f"error: {told(error)} [{error.code}]")
    return exit_code(error)
