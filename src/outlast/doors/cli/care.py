"""Care for a home: are its records what was stored, and is what it stands on sound?"""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import FAILED, SUCCEEDED, exit_code, told
from outlast.doors.cli.render import counted, emit, facts, note, say

if TYPE_CHECKING:
    from outlast import Outlast

SAFE_SQLITE = (3, 51, 3)  # the first without the WAL-reset bug that several processes on one file can hit


@command("verify")
@run_argument("[RUN]", required=False)
def verify(door: Door, run_id: str | None) -> int:
    """Check that every record is what was stored; names the broken one and exits 1."""
    from outlast.values.codec import jsonable

    with door.open() as outlast:
        found = outlast.verify(run_id)
    if door.json:
        emit({"ok": found.ok, **jsonable(found)})
        return SUCCEEDED if found.ok else FAILED
    parts = [counted(found.runs, "run"), counted(found.entries, "journal record"), counted(found.blobs, "blob")]
    if found.handoffs:
        parts.insert(1, counted(found.handoffs, "handoff"))
    if found.sessions:
        parts.insert(-1, counted(found.sessions, "session"))
    if found.tasks:
        parts.insert(-1, counted(found.tasks, "task"))
    if found.artifacts:
        parts.insert(-1, counted(found.artifacts, "artifact"))
    if found.checkpoints:
        parts.insert(-1, counted(found.checkpoints, "checkpoint"))
    if found.records:
        parts.insert(-1, counted(found.records, "record"))
    if found.links:
        parts.insert(-1, counted(found.links, "link"))
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
    from outlast.errors import HomeNotFound

    known = {"python": platform.python_version(), "outlast": version("outlast"), "apsw": version("apsw")}
    try:
        with door.open() as outlast:
            known |= home_facts(outlast)
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


def home_facts(outlast: Outlast) -> dict[str, Any]:
    """What the home says of itself, and how many waits are open."""
    known = outlast.facts()
    known["database"] = known.pop("path")
    return {**known, "waits": len(outlast.interrupts())}


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


def _say_facts(known: dict[str, Any]) -> None:
    counted = ", ".join(f"{number} {status}" for status, number in known["runs"].items()) or "none yet"
    facts(
        [
            ("outlast", known["outlast"]),
            ("python", known["python"]),
            ("apsw", known["apsw"]),
            ("sqlite", f"{known['sqlite']} (3.51.3 or newer is needed)"),
            ("home", known["home"]),
            ("database", f"{known['database']}, {known['size_bytes'] / 1024:,.0f} KiB, schema {known['schema']}"),
            ("filesystem", known["filesystem"]),
            ("journal", f"{known['journal_mode']}, synchronous {known['synchronous']}"),
            ("runs", counted),
            ("handoffs", f"{known['handoffs']['open']} open, {known['handoffs']['finished']} finished"),
            ("workspace", _workspace(known)),
            ("open waits", str(known["waits"])),
        ]
    )


def _workspace(known: dict[str, Any]) -> str:
    saved = f"{known['artifacts']['saved']} artifacts, {known['checkpoints']} checkpoints"
    return f"{saved}, {known['records']} records, {known['links']} links"


def _without_home(door: Door, known: dict[str, Any], error: Any) -> int:
    if door.json:
        emit({"ok": False, **known, "error": error.to_dict()})
    else:
        facts(known.items())
        note(f"error: {told(error)} [{error.code}]")
    return exit_code(error)
