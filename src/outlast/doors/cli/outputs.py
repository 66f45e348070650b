"""`outlast outputs` and `displaced`: the files of finished steps, and what gave way when files were put back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from outlast.doors.cli.completion import run_argument
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import FAILED, SUCCEEDED
from outlast.doors.cli.render import ago, content_out, counted, emit, say, table

if TYPE_CHECKING:
    from outlast import Displaced, Output, RestoredOutputs

SHOWN = 200
FOUND = {"same": "as it was left"}


@command("outputs")
@run_argument()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--step", metavar="STEP", help="Only files of this step, by its label.")
@click.option(
    "--restore", is_flag=True, help="Put back from what was kept: what is missing, and PATHs also if changed."
)
def outputs(door: Door, run_id: str, paths: tuple[str, ...], step: str | None, restore: bool) -> int:
    """The files that finished steps left, and what is there now.

    --restore puts missing files back. A file that was changed is put back only if it is named; what gives way is
    kept: `outlast displaced RUN`.
    """
    if paths and not restore:
        raise click.UsageError("PATH goes with --restore")
    with door.open() as outlast:
        run = outlast.get(run_id)
        if restore:
            return _say_restored(door, outlast.restore_outputs(run.id, step=step, paths=paths))
        found = [one for one in outlast.outputs(run.id) if step in (None, one.step)]
    return _emit(run.id, found) if door.json else _say(door, run.id, found)


def _emit(run_id: str, found: Sequence[Output]) -> int:
    from outlast.values.codec import jsonable

    emit({"run_id": run_id, "outputs": jsonable(list(found))})
    return SUCCEEDED


def _say(door: Door, run_id: str, found: Sequence[Output]) -> int:
    if not found:
        say(f"no finished step of run {run_id} declares files (writes); see `outlast receipts {run_id}`")
        return SUCCEEDED
    other = [one for one in found if one.found != "same"]
    shown = [*other, *(one for one in found if one.found == "same")][:SHOWN]
    table(("FILE", "STEP", "NOW", "KEPT"), [(one.path, one.step, standing(one), _kept(one)) for one in shown])
    if len(found) > SHOWN:
        say(f"… and {len(found) - SHOWN:,} more (--json has all)")
    if any(one.kept for one in other):
        say(f"put back what is missing: {door.command('outputs', run_id, '--restore')}")
    return SUCCEEDED


def standing(one: Output) -> str:
    """What is there now, in a few words."""
    return FOUND.get(one.found) or (one.found if one.now == "nothing" else f"{one.found}: {one.now}")


def _kept(one: Output) -> str:
    return "" if one.found == "same" else "yes" if one.kept else f"no: {one.why}"


def _say_restored(door: Door, done: RestoredOutputs) -> int:
    """What was put back. Exit 1 when something that is missing was not kept."""
    from outlast.values.codec import jsonable

    code = FAILED if done.not_kept else SUCCEEDED
    if door.json:
        emit(jsonable(done))
        return code
    for one in done.restored:
        say(f"put back: {one.path} (of {one.step})", "green")
    for one in done.not_kept:
        say(f"not kept: {one.path} (of {one.step}): {one.why}", "yellow")
    if not done.restored and not done.not_kept:
        say("nothing is missing; a file that was changed is put back when it is named")
    if done.displaced:
        say(f"what gave way is kept: {door.command('displaced', done.run_id)}")
    return code


@command("displaced")
@run_argument()
@click.argument("path", metavar="[PATH]", required=False)
@click.option("--seq", type=click.IntRange(min=1), metavar="N", help="Of this entry [the newest].")
@click.option("-o", "--output", metavar="FILE", help="Write it there instead, whole or not at all.")
def displaced(door: Door, run_id: str, path: str | None, seq: int | None, output: str | None) -> int:
    """What gave way when files were put back; with PATH its content, on standard output or in FILE."""
    if path is None and (seq is not None or output is not None):
        raise click.UsageError("--seq and --output go with PATH")
    with door.open() as outlast:
        run = outlast.get(run_id)
        found = outlast.displaced(run.id, path=path, seq=seq)
        if path is None:
            _say_displaced(door, run.id, found)
        else:
            _fetch(door, found[-1], output)
    return SUCCEEDED


def _say_displaced(door: Door, run_id: str, found: Sequence[Displaced]) -> None:
    if door.json:
        from outlast.python.shown import displaced_json

        emit({"run_id": run_id, "displaced": [displaced_json(one) for one in found]})
        return
    if not found:
        say(f"nothing gave way in run {run_id}")
        return
    table(("SEQ", "STEP", "FILE", "WHEN", "DIGEST"), [(o.seq, o.step, o.path, ago(o.at), o.digest[:12]) for o in found])
    say(f"one of them: {door.command('displaced', run_id, 'FILE', '-o', 'COPY')}")


def _fetch(door: Door, one: Displaced, output: str | None) -> None:
    if output is None and not door.json:
        content = one.content()  # all of it first: not a byte is printed of what was changed
        if sys.stdout.isatty():
            say(content.decode("utf-8", "replace").rstrip("\n"))
            return
        out = content_out()
        out.write(content)
        out.flush()
        return
    written = _written(one, output) if output is not None else None
    if door.json:
        from outlast.python.shown import displaced_json

        emit(displaced_json(one) | ({"output": written} if written else {}))
    else:
        say(f"{one.path} as it was before it gave way: written to {written}", "green")


def _written(one: Displaced, output: str) -> str:
    try:
        return str(one.save_to(output))
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror or error}") from error


def say_displaced(door: Door, run_id: str, found: Sequence[Displaced]) -> None:
    """In a line, for who looks at a run."""
    if found:
        say(f"{counted(len(found), 'file')} gave way when files were put back: {door.command('displaced', run_id)}")
