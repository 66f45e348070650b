"""Care for a home: are its records what was stored, and is what it stands on sound?"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import FAILED, SUCCEEDED, exit_code, told
from outlast.doors.cli.render import counted, emit, facts, note, say
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast import Outlast, Output

FILES = 20  # that are spelled out
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
        _say_files(found.files, found.outputs)
        return SUCCEEDED
    for problem in found.problems:
        say(f"broken: {problem.record}: {problem.why}", "red")
    say(f"{checked}; restore the home from a copy, or start the tasks of broken runs anew with --fresh")
    return FAILED


def _say_files(files: int, other: Sequence[Output]) -> None:
    """How the files of a run's finished steps are now: no record is broken by what becomes of them."""
    from outlast.doors.cli.outputs import standing

    if files:
        say(f"{counted(files, 'file')} of finished steps looked at; {files - len(other):,} as they were left")
    for one in other[:FILES]:
        say(f"{one.path} of {one.step}: {standing(one)}", "yellow")
    if len(other) > FILES:
        say(f"… and {len(other) - FILES:,} more (--json has all)")


@command("doctor")
@click.option("--quick", is_flag=True, help="Leave out what `verify` checks, and say so.")
def doctor(door: Door, quick: bool) -> int:
    """Versions, home and disk, and whether they are sound: also every record of every tenant, as `verify` checks it."""
    from outlast.errors import HomeNotFound

    known = {"python": platform.python_version(), "outlast": version("outlast"), "apsw": version("apsw")}
    try:
        with door.open() as outlast:
            known |= home_facts(outlast)
            around = _around(outlast)
    except HomeNotFound as error:
        return _without_home(door, known, error)
    known |= {"verified": not quick} | about_home(door, known)
    problems = [*problems_of(known), *around]
    for tenant in [] if quick else known["tenants"]:
        problems += broken_in(door, tenant)
    if door.json:
        emit({"ok": not problems, **known, "problems": problems})
    else:
        _say_facts(known)
        _say_soundness(door, known, problems)
    return FAILED if problems else SUCCEEDED


def about_home(door: Door, known: dict[str, Any]) -> dict[str, Any]:
    """What concerns the home as a whole: its tenants, the backup it was made of, what was set aside in it."""
    from outlast.python import backups
    from outlast.python.shared import url_of
    from outlast.values.codec import jsonable

    if url_of(door.home):
        return {"tenants": [known["tenant"]], "restored": None, "set_aside": []}
    home = known["home"]
    came = backups.restoration_of(home)
    restored = came and {name: getattr(came, name) for name in came.__struct_fields__}
    return {
        "tenants": backups.tenants_of(home),
        "restored": jsonable(restored),
        "set_aside": backups.set_aside(home),
    }


def broken_in(door: Door, tenant: str) -> list[str]:
    """What `verify` finds in a tenant, or why it cannot look."""
    from dataclasses import replace

    try:
        with replace(door, tenant=tenant).open() as outlast:
            found = outlast.verify()
    except OutlastError as error:
        return [f"tenant {tenant}: {told(error)} [{error.code}]"]
    return [f"tenant {tenant}: {problem.record}: {problem.why}" for problem in found.problems]


def _say_soundness(door: Door, known: dict[str, Any], problems: list[str]) -> None:
    if came := known["restored"]:
        say(f"restored from backup {came['backup']} of {came['home']}: what happened there later is not known here;")
        say("let only one of the two homes go on: an effect that ran after the backup would run again")
    for each in known["set_aside"]:
        say(f"set aside: {each['folder']}: {each.get('why', '')}")
    for problem in problems:
        say(f"problem: {problem}", "red")
    if not known["verified"]:
        say(f"the records were not checked: {door.command('verify')}")
    elif not problems:
        say("ok: nothing to mend", "green")


def home_facts(outlast: Outlast) -> dict[str, Any]:
    """What the home says of itself, and how many waits are open."""
    known = outlast.facts()
    known["database"] = known.pop("path")
    return {**known, "waits": len(outlast.interrupts())}


def _around(outlast: Outlast) -> list[str]:
    """What is not sound around the home; a server's is looked at where it is."""
    from outlast.errors import EmbeddedOnly
    from outlast.python.surroundings import problems_around

    try:
        return problems_around(outlast.home)
    except EmbeddedOnly:
        return []


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
            *([("read-only", known["read_only"])] if known.get("read_only") else []),
            ("tenants", ", ".join(known["tenants"])),
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
