"""`outlast workspace save`, `get`, `list` and `versions`.

`outlast workspace checkpoint`, `checkpoints` (a list, or one of them) and `diff`.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import output_option, raw_option, refuse_if, saved
from outlast.doors.cli.render import (
    ago,
    as_json,
    at,
    brief,
    content_in,
    content_out,
    facts,
    is_raw,
    note,
    say,
    sized,
)
from outlast.doors.cli.screen import HarmlessStream

if TYPE_CHECKING:
    from outlast import Artifact, Checkpoint, Outlast, StateChange


@command("save", of="workspace_upload")
@click.argument("name", metavar="NAME")
@click.argument("file", metavar="FILE")
def save(call: Invocation, name: str, file: str, **given: Any) -> None:
    """Save FILE under NAME, durable when this returns. `-` reads standard input, however long.

    The same content as the newest version is that version, with its summary and tags as they are. In the command of a
    flow file's step it belongs to the step: it is seen with the step's receipt, and not if the attempt fails.
    """
    content: Any = content_in() if file == "-" else Path(file)
    with call.open(make=True) as outlast:
        of_step = _saved_in_step(outlast, name, content, {**given, "actor": call.actor})
        saved = of_step or outlast.workspace.save(name, content, **given)
    was = "was saved already" if saved.replayed else "saved"
    call.tell_line(saved, f"{saved.ref} {was} ({sized(saved.size)})", "green")
    kept = {"summary": saved.summary, "tags": saved.tags}
    asked = {"summary": given["summary"], "tags": tuple(sorted(set(given["tags"])))}
    for field in kept:
        if asked[field] and asked[field] != kept[field] and not call.json:
            note(f"note: its {field} stays as it was first saved")


def _saved_in_step(outlast: Outlast, name: str, content: Any, given: dict[str, Any]) -> Artifact | None:
    """What was saved by the command of a step; None when this is none, or of another home."""
    told = os.environ.get("OUTLAST_SAVES")
    if not told:
        return None
    here = outlast.workspace  # of a server it is another, and the step's home is not behind it
    return here._save_from_command(told, name, content, **given) if isinstance(here, late.workspace.Workspace) else None


@command("get", of="workspace_get")
@click.argument("ref", metavar="REF")
@output_option
@raw_option
def get(call: Invocation, ref: str, output: str | None) -> None:
    """Write the content of REF to standard output, once all of it was found to be what was saved.

    On a terminal nothing in it can steer that. With --json: what is known of it, without the content.
    """
    with call.open() as outlast:
        found = outlast.workspace.get(ref)
        if output is None and not call.json:
            _print(found)
            return
        beside: dict[str, Any] = {"output": str(saved(found, output))} if output is not None else {}
    line = f"{found.ref} written to {beside.get('output')} ({sized(found.size)})"
    call.tell_or_say(found, lambda: say(line, "green"), **beside)


def _print(found: Artifact) -> None:
    with found.open() as content:  # all of it first: not a byte is printed of what was changed
        deque(iter(lambda: content.read(1 << 20), b""), maxlen=0)
    out = content_out()
    with found.open() as content:
        pieces = iter(lambda: content.read(1 << 20), b"")
        for piece in pieces if is_raw() or not sys.stdout.isatty() else _harmless(pieces):
            out.write(piece)
    out.flush()


def _harmless(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What a terminal is shown."""
    live, decoder = HarmlessStream(), codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        yield live.feed(decoder.decode(piece)).encode()
    yield (live.feed(decoder.decode(b"", final=True)) + live.end()).encode()


@command("list", of="workspace_list", without=("cursor",))
def list_(call: Invocation, **asked: Any) -> int:
    """List the artifacts, those saved last first: of each name the newest version."""
    with call.open() as outlast:
        found = outlast.workspace.list(**asked)
    return _show(call, found, "no artifacts here; save one: outlast workspace save NAME FILE")


@command("versions", of="workspace_versions")
@click.argument("name", metavar="NAME")
def versions(call: Invocation, name: str, limit: int) -> int:
    """List every version of NAME, the newest first."""
    with call.open() as outlast:
        found = outlast.workspace.versions(name, limit=limit)
    return _show(call, found, "")


def _show(call: Invocation, found: list[Artifact], instead: str) -> int:
    return call.tell_list(found, ("REF", "SIZE", "TYPE", "FROM", "AGE", "SUMMARY"), _row, instead)


def _row(one: Artifact) -> tuple[object, ...]:
    source = " ".join(filter(None, (one.source.run_id, one.source.step))) or one.source.actor
    return one.ref, sized(one.size), one.media_type, source, ago(one.stored_at), brief(one.summary, 60)


@command("checkpoint", of="workspace_checkpoint")
@click.argument("name", metavar="NAME")
def checkpoint(call: Invocation, name: str, **given: Any) -> None:
    """Pin where TASK stands now, under NAME: the state and position of its newest run, and these refs."""
    with call.open() as outlast:
        pinned = outlast.workspace.checkpoint(name, **given)
    was = "was pinned already" if pinned.replayed else "pinned"
    call.tell_line(pinned, f"checkpoint {pinned.id} {was}: {_where(pinned)}", "green")
    if not pinned.run_id and not call.json:
        note(f"note: task {pinned.task} has no run yet, so there is no state and no position")


@command("checkpoints", of="workspace_checkpoints", without=("cursor",))
@click.argument("checkpoint_id", metavar="[ID]", required=False)
def checkpoints(call: Invocation, checkpoint_id: str | None, task: str | None, run: str | None, limit: int) -> int:
    """List checkpoints, the newest first. With ID: all that one has, also the state."""
    refuse_if(sum(given is not None for given in (checkpoint_id, task, run)) > 1, "name ID, --task or --run, not both")
    with call.open() as outlast:
        one = outlast.workspace.get_checkpoint(checkpoint_id) if checkpoint_id is not None else None
        found = [one] if one else outlast.workspace.checkpoints(task=task, run=run, limit=limit)
    if one:
        return call.tell_or_say(found, lambda: _say_checkpoint(one))
    instead = "no checkpoints here; pin one: outlast workspace checkpoint NAME --task TASK"
    return call.tell_list(found, ("ID", "TASK", "NAME", "AT", "REFS", "AGE", "SUMMARY"), _checkpoint_row, instead)


def _say_checkpoint(one: Checkpoint) -> None:
    known = [("id", one.id), ("name", one.name), ("task", one.task), ("scope", one.scope), ("by", one.actor)]
    facts(*known, ("at", at(one.at)), ("run", _at(one)), ("phase", one.phase), ("summary", one.summary))
    for ref in one.refs:
        say(f"ref {ref}")
    for key, value in one.state.items():
        say(f"state[{key!r}] = {as_json(value)}")


@command("diff", of="workspace_diff")
@click.argument("before", metavar="ID")
@click.argument("after", metavar="ID")
def diff(call: Invocation, before: str, after: str) -> None:
    """What is different at the second of two checkpoints: keys of the state, and refs."""
    with call.open() as outlast:
        found = outlast.workspace.diff(before, after)
    if call.json:
        call.tell(found)
        return
    say(f"from {_where(found.before)}")
    say(f"to   {_where(found.after)}")
    for change in found.state:
        say(_told(change))
    for sign, refs in (("-", found.refs_removed), ("+", found.refs_added)):
        for ref in refs:
            say(f"{sign} {ref}")
    if found.same:
        say("state and refs are the same")


def _told(change: StateChange) -> str:
    if change.kind == "added":
        return f"+ state[{change.key!r}] = {as_json(change.after)}"
    if change.kind == "removed":
        return f"- state[{change.key!r}] = {as_json(change.before)}"
    return f"  state[{change.key!r}]: {as_json(change.before)} -> {as_json(change.after)}"


def _where(one: Checkpoint) -> str:
    return f"{one.name} of task {one.task}" + (f", {_at(one)}" if one.run_id else "")


def _at(one: Checkpoint) -> str:
    return f"run {one.run_id} at {one.position}" if one.run_id else ""


def _checkpoint_row(one: Checkpoint) -> tuple[object, ...]:
    return one.id, brief(one.task, 40), one.name, _at(one), len(one.refs), ago(one.at), brief(one.summary, 60)
