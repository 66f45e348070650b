"""Care for a home: are its records what was stored, and is what it stands on sound?

Making room: what would go, the command that removes it, and what was left alone.

`outlast backup` and `outlast restore`: a whole home in one file, and back.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from outlast.clock import moment
from outlast.doors.cli import late
from outlast.doors.cli.entry import FAILED, SUCCEEDED, exit_code, told
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import file_argument, refuse_if, run_argument
from outlast.doors.cli.outputs import standing
from outlast.doors.cli.render import ago, brief, counted, emit, facts, note, say, sized, table
from outlast.errors import EmbeddedOnly, HomeNotFound, OutlastError

if TYPE_CHECKING:
    from outlast import Outlast, Output, Swept
    from outlast.python.backups import BackedUp, Rebuilt, RestoredHome, SetAside


SHOWN = 20
MOST = 1e9  # of any unit: more than there can be
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def seconds_of(text: str) -> float:
    """`45s`, `90m`, `12h`, `30d`, `8w` in seconds."""
    found = _AGE.fullmatch(text.strip())
    if not found or float(found[1]) > MOST:
        raise click.BadParameter(f"{brief(text)!r} is no age; use 45s, 90m, 12h, 30d or 8w", param_hint="--older-than")
    return float(found[1]) * _UNITS[found[2]]


def bytes_of(text: str) -> int:
    """`500K`, `200M`, `1.5GiB`, `1T` in bytes."""
    found = _SIZE.fullmatch(text.strip())
    if not found or float(found[1]) > MOST:
        raise click.BadParameter(f"{brief(text)!r} is no size; use 500K, 200M, 2G or 1T", param_hint="--max-size")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].upper()])


@command("gc")
@click.option("--older-than", metavar="AGE", help="Runs that ended so long ago: 12h, 30d.")
@click.option("--keep", metavar="N", type=click.IntRange(0), help="All but the newest N of each flow.")
@click.option("--max-size", metavar="SIZE", help="The oldest, until the rest is smaller: 500M, 2G.")
@click.option("--artifacts", is_flag=True, help="Old versions of artifacts too, by age and count.")
@click.option("--yes", is_flag=True, help="Do it; without this, only say what would go.")
@click.option("--vacuum", is_flag=True, help="Shrink the database file too, if no run is being executed.")
def gc(call: Invocation, older_than: str | None, max_size: str | None, yes: bool, **asked: Any) -> int:
    """Remove finished runs and blobs that nobody needs; says what would go unless --yes is given.

    A run goes only if every rule given lets it go, and never while it, or a run it belongs to, is unfinished.
    Without a rule, only blobs and files that nobody needs go.
    """
    seconds = seconds_of(older_than) if older_than is not None else None
    size = bytes_of(max_size) if max_size is not None else None
    with call.open() as outlast:
        limits: dict[str, Any] = {"older_than": seconds, "max_bytes": size, "scope": call.scope}
        swept = outlast.gc(**limits, **asked, dry_run=not yes, progress=_gc_progress)
    if call.json:
        emit(swept)
    else:
        given = {"--older-than": older_than, "--keep": asked["keep"], "--max-size": max_size}
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        words += [f"--{name}" for name in ("artifacts", "vacuum") if asked[name]]
        _say_swept(call, swept, words)
    return FAILED if swept.troubles else SUCCEEDED


def _draw(text: str, *, is_over: bool = False) -> None:
    """How far something is, in one line of a terminal that is drawn anew."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}" + "\n" * is_over)
        sys.stderr.flush()


def _gc_progress(done: int, total: int) -> None:
    _draw(f"{done:,} of {counted(total, 'run')} removed", is_over=done == total)


def _say_swept(call: Invocation, swept: Swept, given: list[str]) -> None:
    would = "would be " if swept.dry_run else ""
    if swept.runs:
        _say_runs(swept, would)
    for line in _lines(swept, would):
        say(line)
    if swept.nothing:
        say("nothing to remove")
    for line in swept.proof:
        say(line, "green")
    for trouble in swept.troubles:
        note(f"problem: {trouble}")
    _say_room(swept)
    # the exact command that does what was foreseen, or how to name what may go
    if swept.dry_run and not swept.nothing:
        say(f"nothing was removed yet; to do it: {call.command('gc', *given, '--yes')}")
    if "--artifacts" in given and not {"--older-than", "--keep"} & set(given):
        say("old versions of artifacts go by --older-than or --keep; without one of these, none does")
    if swept.kept.get("no_rule"):
        say(f"to remove finished runs give a rule, such as: {call.command('gc', '--older-than', '30d')}")


def _say_runs(swept: Swept, would: str) -> None:
    total = sum(run.size_bytes for run in swept.runs)
    say(f"{counted(len(swept.runs), 'finished run')} {would}removed, about {sized(total)}:")
    rows = [
        (run.id, run.status, ago(run.ended_at), sized(run.size_bytes), brief(run.task), run.flow)
        for run in swept.runs[:SHOWN]
    ]
    table(("RUN", "STATUS", "ENDED", "SIZE", "TASK", "FLOW"), rows)
    if len(swept.runs) > SHOWN:
        say(f"… and {len(swept.runs) - SHOWN:,} more; --json lists all of them")


def _lines(swept: Swept, would: str) -> list[str]:
    """Everything else that goes, a line each."""
    old, size = len(swept.artifacts), sum(each.size_bytes for each in swept.artifacts)
    found = [
        (old, f"{counted(old, 'old version')} of artifacts ({sized(size)}) {would}removed"),
        (swept.blobs, f"{counted(swept.blobs, 'blob')} ({sized(swept.blob_bytes)}) {would}moved to the trash"),
        (swept.trash, f"{counted(swept.trash, 'blob')} ({sized(swept.trash_bytes)}) {would}gone from the trash"),
        (swept.restored, f"{counted(swept.restored, 'blob')} back from the trash: needed again"),
        (swept.files, f"{counted(swept.files, 'leftover file or folder')} {would}removed"),
        (swept.unswept, f"{counted(swept.unswept, 'removal')} of an earlier gc {would}finished"),
    ]
    return [line for number, line in found if number]


def _say_room(swept: Swept) -> None:
    if swept.dry_run:
        say(f"the home takes {sized(swept.size_before)}")
        return
    say(f"the home took {sized(swept.size_before)} and takes {sized(swept.size_after)}")
    if swept.blobs:
        say("blobs stay in the trash for an hour; the next gc after that gives their room back")
    if swept.free_bytes:
        say(f"{sized(swept.free_bytes)} of the database are free for new records; --vacuum gives them to the disk")


@command("backup")
@file_argument
@click.option("--mirror", is_flag=True, help="The mirror too: receipts and handoffs as files.")
def backup(call: Invocation, file: str, mirror: bool) -> int:
    """Write the whole home into one new file, while it is at work: all tenants, their blobs, keys and settings.

    FILE may be a folder [here]; the name is then made of the home. A file that is there is never replaced.
    """
    done = late.backups.backup(call.home, file, mirror=mirror, progress=_backup_progress)
    return call.tell_or_say(done, lambda: _say_backup(call, done), code=FAILED if done.damaged else SUCCEEDED)


def _say_backup(call: Invocation, done: BackedUp) -> None:
    say(f"backup {done.id} of {done.home} is {done.path}", "green")
    say(f"{counted(len(done.tenants), 'tenant')}, {counted(done.files, 'file')}, {done.bytes:,} bytes")
    say(f"sha256 {done.digest}")
    _note_all("left out", done.left_out)
    _note_all("broken already, and in the backup as it is", done.damaged)
    say(f"restore it: outlast restore {done.path} --home DIR")


@command("move")
@click.option("--to", required=True, metavar="DIR|URL", help="Where it goes: a folder, or postgresql://…")
def move(call: Invocation, to: str) -> None:
    """Take this home elsewhere: from a folder to a database (postgresql://…), and back. Killed anywhere, repeat it.

    Runs, handoffs, workspace, content, keys and settings are copied beside their new name, compared and verified;
    then this home is sealed (it can be read, and nobody can write to it), and only then the new one is there.
    """
    refuse_if(call.blobs, "content in a bucket stays where it is when a home is moved: leave --blobs out")
    done = late.backups.move(call.home, to, progress=_move_progress)
    if call.json:
        emit(done)
        return
    for each in done.tenants:
        rows = sum(each.rows.values())
        say(f"tenant {each.tenant}: {counted(rows, 'row')}, {counted(each.blobs, 'blob')}; chains {each.chains[:16]}…")
    say(f"{done.source} is {done.to} now; both verify, and every row is the same", "green")
    say(f"{done.source} can still be read; remove it when you need it no more")


def _move_progress(what: str, done: int) -> None:
    _draw(f"{what}: {done:,}\x1b[K")


@command("restore")
@click.argument("backup", metavar="[BACKUP]", required=False)
@click.option("--from-mirror", metavar="DIR", help="Of the files of a mirror: sealed runs that prove nothing.")
@click.option("--anew", is_flag=True, help="Set what is left of a lost database aside, and begin anew.")
@click.option("--why", metavar="WHY", default="", help="With --anew: why; it is on the record.")
def restore(call: Invocation, backup: str | None, from_mirror: str | None, anew: bool, why: str) -> None:
    """Make a home of a backup, exactly as it was, where nothing is yet; all of it or none.

    What happened after the backup is not known there. Let only one of the two homes go on.
    """
    if sum((backup is not None, from_mirror is not None, anew)) != 1:
        raise click.UsageError("name one: BACKUP, --from-mirror DIR, or --anew --why WHY")
    refuse_if(anew and not why.strip(), "--anew needs --why: say why the database is given up; it is on the record")
    tenant = call.tenant or "default"
    if anew:
        gone = late.backups.begin_anew(call.home, tenant, why)
        emit(gone) if call.json else _say_anew(gone)
    elif from_mirror is not None:
        built = late.backups.restore_from_mirror(from_mirror, call.home, tenant=tenant)
        emit(built) if call.json else _say_rebuilt(built)
    else:
        done = late.backups.restore(str(backup), call.home, progress=_backup_progress)
        emit(done) if call.json else _say_restored(call, done)


def _say_restored(call: Invocation, done: RestoredHome) -> None:
    say(
        f"{done.home} is as {done.was} was at {moment(done.made_at):%Y-%m-%d %H:%M:%S} UTC (backup {done.backup})",
        "green",
    )
    say(f"{counted(len(done.tenants), 'tenant')}, {counted(done.files, 'file')}, {done.bytes:,} bytes, all proven")
    _note_all("broken when the backup was taken", done.damaged)
    say("what happened after the backup is not known here; let only one of the two homes go on")
    say(f"look at it: outlast doctor --home {done.home}")


def _say_rebuilt(built: Rebuilt) -> None:
    say(f"{built.home} has {counted(len(built.runs), 'run')} of {built.mirror}, as testimony", "green")
    say("they are sealed: nothing of them is proven, and whether an effect in them happened is in doubt")
    _note_all("not taken", built.ignored)


def _say_anew(gone: SetAside) -> None:
    say(f"what was left is in {gone.folder}; the next command begins anew", "green")
    say(f"it was: {gone.lost}")


def _note_all(what: str, found: tuple[tuple[str, str], ...]) -> None:
    for name, why in found[:SHOWN]:
        note(f"{what}: {name}: {why}")
    if len(found) > SHOWN:
        note(f"and {len(found) - SHOWN:,} more; --json names all of them")


def _backup_progress(done: int, total: int) -> None:
    _draw(f"{done >> 20:,} of {total >> 20:,} MiB", is_over=done >= total)


FILES = 20  # that are spelled out
SAFE_SQLITE = (3, 51, 3)  # the first without the WAL-reset bug that several processes on one file can hit


@command("verify", of="home_verify")
@run_argument(metavar="[RUN]", required=False)
def verify(call: Invocation, run_id: str | None) -> int:
    """Check that every record is what was stored; names the broken one and exits 1."""
    with call.open() as outlast:
        found = outlast.verify(run_id)
    if call.json:
        call.tell(found)
        return SUCCEEDED if found.ok else FAILED
    nouns = ("session", "task", "artifact", "checkpoint", "record", "link")  # told of where there are some
    others = [counted(number, noun) for noun in nouns if (number := getattr(found, f"{noun}s"))]
    handoffs = [counted(found.handoffs, "handoff")] if found.handoffs else []
    parts = (counted(found.runs, "run"), *handoffs, counted(found.entries, "journal record"), *others)
    checked = f"{', '.join(parts)}, {counted(found.blobs, 'blob')} checked"
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
    if files:
        say(f"{counted(files, 'file')} of finished steps looked at; {files - len(other):,} as they were left")
    for one in other[:FILES]:
        say(f"{one.path} of {one.step}: {standing(one)}", "yellow")
    if len(other) > FILES:
        say(f"… and {len(other) - FILES:,} more (--json has all)")


@command("doctor")
@click.option("--quick", is_flag=True, help="Leave out what `verify` checks, and say so.")
def doctor(call: Invocation, quick: bool) -> int:
    """Versions, home and disk, and whether they are sound: also every record of every tenant, as `verify` checks it."""
    known = {"python": platform.python_version(), "outlast": version("outlast"), "apsw": version("apsw")}
    try:
        with call.open() as outlast:
            known |= home_facts(outlast)
            bucket, around = _beside(outlast)
            known |= bucket
    except HomeNotFound as error:
        return _without_home(call, known, error)
    known |= {"verified": not quick} | about_home(call, known)
    problems = [*problems_of(known), *around]
    for tenant in [] if quick else known["tenants"]:
        problems += broken_in(call, tenant)
    if call.json:
        emit({"ok": not problems, **known, "problems": problems})
    else:
        _say_facts(known)
        _say_soundness(call, known, problems)
    return FAILED if problems else SUCCEEDED


def about_home(call: Invocation, known: dict[str, Any]) -> dict[str, Any]:
    """What concerns the home as a whole: its tenants, the backup it was made of, what was set aside in it."""
    if late.shared.url_of(call.home):
        return {"tenants": [known["tenant"]], "restored": None, "set_aside": []}
    home = known["home"]
    came = late.backups.restoration_of(home)
    restored = came and late.structs.asdict(came)
    found = late.project.look_up(call.home, tell=note)
    return {
        "tenants": late.project.tenants_of(found) if found.database else late.backups.tenants_of(home),
        "restored": restored,
        "set_aside": late.backups.set_aside(home),
    }


def broken_in(call: Invocation, tenant: str) -> list[str]:
    """What `verify` finds in a tenant, or why it cannot look."""
    try:
        with replace(call, tenant=tenant).open() as outlast:
            found = outlast.verify()
    except OutlastError as error:
        return [f"tenant {tenant}: {told(error)} [{error.code}]"]
    return [f"tenant {tenant}: {problem.record}: {problem.why}" for problem in found.problems]


def _say_soundness(call: Invocation, known: dict[str, Any], problems: list[str]) -> None:
    if came := known["restored"]:
        say(f"restored from backup {came['backup']} of {came['home']}: what happened there later is not known here;")
        say("let only one of the two homes go on: an effect that ran after the backup would run again")
    for each in known["set_aside"]:
        say(f"set aside: {each['folder']}: {each.get('why', '')}")
    for problem in problems:
        say(f"problem: {problem}", "red")
    if not known["verified"]:
        say(f"the records were not checked: {call.command('verify')}")
    elif not problems:
        say("ok: nothing to mend", "green")


def home_facts(outlast: Outlast) -> dict[str, Any]:
    """What the home says of itself, and how many waits are open."""
    known = outlast.facts()
    known["database"] = known.pop("path")
    return {**known, "waits": len(outlast.interrupts())}


def _beside(outlast: Outlast) -> tuple[dict[str, Any], list[str]]:
    """Where content is kept, with what the bucket does that it is in, and what is not sound around the home.

    A server's is looked at where it is.
    """
    try:
        around = late.backups.problems_around(outlast.home)
        return {"blobs": late.backups.blobs_of(outlast)}, around
    except EmbeddedOnly:
        return {}, []


def problems_of(known: dict[str, Any]) -> list[str]:
    """What is not sound, and what to do about it."""
    problems = _problems_of_bucket(known.get("blobs", {}))
    if "postgresql" in known:
        # where it commits without waiting for its disk, our connection says otherwise
        says = "a power cut at the server may lose acknowledged steps, or all of it; switch it on"
        off = [name for name in ("fsync", "full_page_writes") if known[name] == "off"]
        return [f"{name} is off at the server: {says}" for name in off] + problems
    if tuple(map(int, known["sqlite"].split("."))) < SAFE_SQLITE:
        wanted = ".".join(map(str, SAFE_SQLITE))
        problems.append(f"SQLite {known['sqlite']} can corrupt a shared WAL; {wanted} is needed: pip install -U apsw")
    if known["journal_mode"] != "wal":
        problems.append(f"journal mode is {known['journal_mode']}, not wal: is the folder writable?")
    if known["synchronous"] not in ("FULL", "EXTRA"):
        problems.append(f"synchronous is {known['synchronous']}: a power cut may lose acknowledged steps; use FULL")
    return problems


def _problems_of_bucket(bucket: dict[str, str]) -> list[str]:
    """What keeps a bucket from being used. Conditions that it ignores are no problem: nothing depends on them."""
    found = [f"content: {bucket[name]}" for name in ("reachable", "writable") if bucket.get(name, "yes") != "yes"]
    if bucket.get("owner") == "another home":
        found.append(f"content: {bucket['place']} is the place of another home: nothing is written or removed there")
    if bucket.get("listing") == "behind":
        found.append("content: the bucket does not list what was just written; such a one loses content in a gc")
    return found


def _stands_on(known: dict[str, Any]) -> list[tuple[str, str]]:
    """The database, and what is under it."""
    database = ("database", f"{known['database']}, {known['size_bytes'] / 1024:,.0f} KiB, schema {known['schema']}")
    if "postgresql" in known:
        synced = f"fsync {known['fsync']}, full_page_writes {known['full_page_writes']}"
        return [("postgresql", known["postgresql"]), database, ("durability", synced)]
    return [
        ("sqlite", f"{known['sqlite']} (3.51.3 or newer is needed)"),
        database,
        ("filesystem", known["filesystem"]),
        ("journal", f"{known['journal_mode']}, synchronous {known['synchronous']}"),
    ]


def _say_facts(known: dict[str, Any]) -> None:
    counted = ", ".join(f"{number} {status}" for status, number in known["runs"].items()) or "none yet"
    saved = f"{known['artifacts']['saved']} artifacts, {known['checkpoints']} checkpoints"
    facts(
        ("outlast", known["outlast"]),
        ("python", known["python"]),
        ("apsw", known["apsw"]),
        ("home", known["home"]),
        *_stands_on(known),
        *([("read-only", known["read_only"])] if known.get("read_only") else []),
        *_content(known.get("blobs", {})),
        ("tenants", ", ".join(known["tenants"])),
        ("runs", counted),
        ("handoffs", f"{known['handoffs']['open']} open, {known['handoffs']['finished']} finished"),
        ("workspace", f"{saved}, {known['records']} records, {known['links']} links"),
        ("open waits", str(known["waits"])),
    )


def _content(bucket: dict[str, str]) -> list[tuple[str, str]]:
    """Where content is; of a bucket also what it does with writes on condition."""
    place = bucket.get("place", "") + (f", of {bucket['owner']}" if "owner" in bucket else "")
    if "create_only" not in bucket:
        return [("content", place)]
    conditions = f"create-only {bucket['create_only']}, if-match {bucket['if_match']}; listing {bucket['listing']}"
    return [("content", place), ("conditions", conditions)]


def _without_home(call: Invocation, known: dict[str, Any], error: Any) -> int:
    if call.json:
        emit({"ok": False, **known, "error": error.to_dict()})
    else:
        facts(*known.items())
        note(f"error: {told(error)} [{error.code}]")
    return exit_code(error)
