"""`outlast outputs` and `displaced`: the files of finished steps, and what gave way when files were put back.

`outlast export` and `outlast import`: runs that leave a home or come into one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.entry import FAILED, SUCCEEDED
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import file_argument, output_option, refuse_if, run_argument, saved
from outlast.doors.cli.render import ago, content_out, counted, note, say, table
from outlast.errors import StoreReadOnly

if TYPE_CHECKING:
    from outlast import Displaced, Exported, Imported, Output, RestoredOutputs


SHOWN = 200
FOUND = {"same": "as it was left"}


@command("outputs", of="run_outputs_restore")
@run_argument()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--restore", is_flag=True, help="Put back from what was kept: what is missing, and PATHs also if changed."
)
def outputs(call: Invocation, run_id: str, paths: tuple[str, ...], step: str | None, restore: bool) -> int:
    """The files that finished steps left, and what is there now.

    --restore puts missing files back. A file that was changed is put back only if it is named; what gives way is
    kept: `outlast displaced RUN`.
    """
    refuse_if(paths and not restore, "PATH goes with --restore")
    with call.open() as outlast:
        run = outlast.get(run_id)
        if restore:
            done = outlast.restore_outputs(run.id, step=step, paths=paths)
            code = FAILED if done.not_kept else SUCCEEDED  # something that is missing was not kept
            return call.tell_or_say(done, lambda: _say_restored(call, done), code=code)
        found = [one for one in outlast.outputs(run.id) if step in (None, one.step)]
    return call.tell_or_say({"outputs": found}, lambda: _say(call, run.id, found), run_id=run.id)


def _say(call: Invocation, run_id: str, found: Sequence[Output]) -> None:
    if not found:
        say(f"no finished step of run {run_id} declares files (writes); see `outlast receipts {run_id}`")
        return
    other = [one for one in found if one.found != "same"]
    shown = [*other, *(one for one in found if one.found == "same")][:SHOWN]
    table(("FILE", "STEP", "NOW", "KEPT"), [(one.path, one.step, standing(one), _kept(one)) for one in shown])
    if len(found) > SHOWN:
        say(f"… and {len(found) - SHOWN:,} more (--json has all)")
    if any(one.kept for one in other):
        say(f"put back what is missing: {call.command('outputs', run_id, '--restore')}")


def standing(one: Output) -> str:
    """What is there now, in a few words."""
    return FOUND.get(one.found) or (one.found if one.now == "nothing" else f"{one.found}: {one.now}")


def _kept(one: Output) -> str:
    return "" if one.found == "same" else "yes" if one.kept else f"no: {one.why}"


def _say_restored(call: Invocation, done: RestoredOutputs) -> None:
    for one in done.restored:
        say(f"put back: {one.path} (of {one.step})", "green")
    for one in done.not_kept:
        say(f"not kept: {one.path} (of {one.step}): {one.why}", "yellow")
    if not done.restored and not done.not_kept:
        say("nothing is missing; a file that was changed is put back when it is named")
    if done.displaced:
        say(f"what gave way is kept: {call.command('displaced', done.run_id)}")


@command("displaced", of="run_displaced")
@run_argument()
@click.argument("path", metavar="[PATH]", required=False)
@output_option
def displaced(call: Invocation, run_id: str, path: str | None, seq: int | None, output: str | None) -> None:
    """What gave way when files were put back; with PATH its content, on standard output or in FILE."""
    refuse_if(path is None and (seq is not None or output is not None), "--seq and --output go with PATH")
    with call.open() as outlast:
        run = outlast.get(run_id)
        found = outlast.displaced(run.id, path=path, seq=seq)
        if path is None:
            call.tell_or_say(found, lambda: _say_displaced(call, run.id, found), run_id=run.id)
        else:
            _fetch(call, found[-1], output)


def _say_displaced(call: Invocation, run_id: str, found: Sequence[Displaced]) -> None:
    if not found:
        say(f"nothing gave way in run {run_id}")
        return
    table(("SEQ", "STEP", "FILE", "WHEN", "DIGEST"), [(o.seq, o.step, o.path, ago(o.at), o.digest[:12]) for o in found])
    say(f"one of them: {call.command('displaced', run_id, 'FILE', '-o', 'COPY')}")


def _fetch(call: Invocation, one: Displaced, output: str | None) -> None:
    if output is None and not call.json:
        content = one.content()  # all of it first: not a byte is printed of what was changed
        if sys.stdout.isatty():
            say(content.decode("utf-8", "replace").rstrip("\n"))
            return
        out = content_out()
        out.write(content)
        out.flush()
        return
    beside: dict[str, Any] = {"output": str(saved(one, output))} if output is not None else {}
    line = f"{one.path} as it was before it gave way: written to {beside.get('output')}"
    call.tell_or_say(one, lambda: say(line, "green"), **beside)


def say_displaced(call: Invocation, run_id: str, found: Sequence[Displaced]) -> None:
    """In a line, for who looks at a run."""
    if found:
        say(f"{counted(len(found), 'file')} gave way when files were put back: {call.command('displaced', run_id)}")


SHOWN_RUNS = 20


@command("export")
@run_argument()
@file_argument
@click.option("--move", is_flag=True, help="Take the run away: it cannot go on here any more.")
@click.option("--force", is_flag=True, help="Replace FILE, whatever it is.")
@click.option("--mirror", is_flag=True, help="Write its receipts and handoffs as files in the home instead.")
def export(call: Invocation, run_id: str, file: str, move: bool, force: bool, mirror: bool) -> int:
    """Write a run and its children into one file.

    A copy can be looked at elsewhere. With --move the file is the run itself: import it once, where it is to go on.
    FILE may be a folder [here]; the name is then made of the flow and the run.
    """
    if mirror:
        return _mirror(call, run_id, alone=file == "." and not (move or force))
    with call.open() as outlast:
        done = outlast.export(run_id, file, move=move, force=force)
    return call.tell_or_say(done, lambda: _say_exported(call, done))


def _mirror(call: Invocation, run_id: str, *, alone: bool) -> int:
    refuse_if(not alone, "--mirror writes into the home; it takes no FILE, --move or --force")
    with call.open() as outlast:
        run = outlast.get(run_id)
        try:
            folder = outlast.mirror(run.id)
        except OSError as error:
            raise StoreReadOnly(str(error.filename or outlast.mirror(run.id, write=False)), str(error)) from error
    line = f"run {run.id}: its receipts and handoffs are in {folder}"
    return call.tell_line({"run_id": run.id, "mirror": str(folder)}, line, "green")


def _say_exported(call: Invocation, done: Exported) -> None:
    family = f" with {len(done.children)} of its children" if done.children else ""
    say(f"run {done.run_id}{family} {'moved' if done.moved else 'copied'} to {done.path}", "green")
    parts = (counted(done.entries, "journal record"), counted(done.blobs, "blob"), f"{done.bytes:,} bytes")
    say(f"{', '.join(parts)}; sha256 {done.digest}")
    if done.moved:
        say("it cannot go on here any more; import the file once, in the home where it is to go on")
        say(f"there, or here to bring it back: {call.command('import', done.path)}")


@command("import")
@click.argument("path", metavar="PATH")
@click.option("--flow", metavar="FLOW", help="Which flow of a folder that has several.")
def import_(call: Invocation, path: str, flow: str | None) -> int:
    """Bring in a run from a file that export wrote, or receipts that others wrote into a folder.

    A moved run goes on here; a copy is read-only. What a folder says is kept as testimony: it proves nothing.
    """
    with call.open(make=True) as outlast:
        done = outlast.import_(path, flow=flow)
    return call.tell_or_say(done, lambda: _say_imported(call, done))


def _say_imported(call: Invocation, done: Imported) -> None:
    what = {"": "", "copy": " as a read-only copy", "testimony": " as testimony: nothing of it is proven"}[done.seal]
    was = "was here already" if done.replayed else "imported"
    say(f"run {done.run_id} ({done.status}) {was}{what}", "green")
    say(f"{counted(done.entries, 'journal record')}, {counted(done.blobs, 'blob')}")
    for name, why in done.ignored[:SHOWN_RUNS]:
        note(f"not taken: {name}: {why}")
    if len(done.ignored) > SHOWN_RUNS:
        note(f"and {len(done.ignored) - SHOWN_RUNS:,} more that were not taken; --json names all of them")
    resumable = not done.seal and done.status not in ("succeeded", "aborted")
    say(f"continue: {call.command('resume', done.run_id)}" if resumable else f"see {call.command('show', done.run_id)}")
