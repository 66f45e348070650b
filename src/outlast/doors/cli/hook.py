"""`outlast hook`: hooks for coding agents, set up and looked at.

Events never come here: `outlast.doors.hooks.fire` takes them before click is loaded.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import SUCCEEDED
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import counted, emit, note, say
from outlast.doors.hooks import install as installing
from outlast.doors.hooks import sessions, spool
from outlast.doors.hooks.spool import CLIENTS, Client, HookEvent
from outlast.errors import NotFound, SettingsInvalid
from outlast.python.work_tree import check_home, make_home, may_have_ledger, url_or, work_tree_of
from outlast.values.private import read_plain, write_file

if TYPE_CHECKING:
    from outlast.doors.hooks.install import Installed
    from outlast.python.work_tree import WorkTree


SHOWN = 20  # automatic revisions
LOG_LINES = 5

_client = click.option(
    "--client", required=True, type=click.Choice(CLIENTS), help="Which agent: claude (Claude Code), codex, cursor."
)
_user = click.option("--user", is_flag=True, help="In your own settings, for all projects that have a home.")


@command("install")
@_client
@_user
@click.option("--print", "only_print", is_flag=True, help="Only print the settings; nothing is written.")
def install(call: Invocation, client: Client, user: bool, only_print: bool) -> int:
    """Add our hooks to a coding agent's settings, keep what others configured
    there, and make the home. Doing it again changes nothing.

    By default in this project: .claude/settings.local.json, .codex/hooks.json,
    .cursor/hooks.json.
    """
    if call.home is not None:
        raise click.UsageError("hooks use the home of the main worktree; set OUTLAST_HOME for the agent instead")
    place = _here() if user or only_print else _our_place()
    found = installing.install(client, Path(place.top), user=user, write=not only_print)
    if not only_print and not user:
        _make_home(place.home)
    if call.json:
        return _emit(found, home=place.name)
    if only_print:
        return _say_settings(found)
    say(f"{'added to' if found.changed else 'already in'} {found.file}: {', '.join(found.events)}")
    say(f"handoffs are kept in {place.name}" if place.exists else _NO_HOME)
    if client == "codex":
        say("Codex asks you to review new hooks once: /hooks in a session.")
    return SUCCEEDED


_NO_HOME = "here is no home yet: run `outlast hook install --client CLIENT` in the projects where it is wanted"


def _say_settings(found: Installed) -> int:
    note(f"for {found.file}:")
    for line in json.dumps(found.settings, indent=2, ensure_ascii=False).splitlines():
        say(line)
    return SUCCEEDED


@command("uninstall")
@_client
@_user
def uninstall(call: Invocation, client: Client, user: bool) -> int:
    """Take our hooks out of a coding agent's settings. What others configured
    stays, and so does everything that was stored.
    """
    found = installing.uninstall(client, Path(_here().top), user=user)
    if call.json:
        return _emit(found)
    say(f"{'taken out of' if found.changed else 'nothing of ours is in'} {found.file}")
    return SUCCEEDED


def _emit(found: Installed, **more: Any) -> int:
    told = {"client": found.client, "file": str(found.file), "events": found.events, "changed": found.changed}
    emit({**told, "settings": found.settings, **more})
    return SUCCEEDED


@command("status")
def status(call: Invocation) -> int:
    """Which agents call Outlast here, the sessions that have not ended, the
    last automatic revisions of this branch, and what went wrong.
    """
    place = _our_place()
    told = {
        "home": place.name if place.exists else "",
        "clients": [_listed(client, place, user) for client in CLIENTS for user in (False, True)],
        "sessions": _sessions(place),
        "waiting": len(spool.waiting(place.home)),
        "anchor": _anchor(place),
        "revisions": _revisions(place),
        "log": _log(place.home),
    }
    return call.tell_or_say(told, lambda: _say_status(told))


def _say_status(told: dict[str, Any]) -> None:
    for each in told["clients"]:
        if each["events"] or each["error"]:
            say(f"{each['client']}: {each['error'] or ', '.join(each['events'])} in {each['file']}")
    if not any(each["events"] for each in told["clients"]):
        say("no agent calls Outlast here: outlast hook install --client claude|codex|cursor")
    say(f"home {told['home']}" if told["home"] else _NO_HOME)
    for each in told["sessions"]:
        say(f"open: {each['client']} {each['session']} on {each['anchor']}")
    if told["waiting"]:
        say(f"{counted(told['waiting'], 'event')} not stored yet: outlast hook drain")
    for each in told["revisions"]:
        say(f"{told['anchor']}@{each['revision']} {each['at']} {each['summary']}")
    for line in told["log"]:
        say(f"hooks.log: {line}")


def _listed(client: Client, place: WorkTree, user: bool) -> dict[str, Any]:
    file, error = installing.file_of(client, Path(place.top), user=user), ""
    events: tuple[str, ...] = ()
    try:
        events = installing.installed(client, Path(place.top), user=user).events
    except (SettingsInvalid, OSError) as broken:
        error = str(broken)
    return {"client": client, "file": str(file), "user": user, "events": events, "error": error}


def _sessions(place: WorkTree) -> list[dict[str, Any]]:
    return [
        {"client": each.event.client, "session": each.event.session, "anchor": each.anchor, "folder": each.top}
        for each in sessions.all_of(place.home)
    ]


def _anchor(place: WorkTree) -> str:
    return HookEvent("claude", "start", task=os.environ.get("OUTLAST_TASK", "")).anchor_on(place.branch)


def _revisions(place: WorkTree) -> list[dict[str, Any]]:
    """The last automatic revisions under the anchor of this place, the newest first."""
    if not may_have_ledger(place.home) or not _anchor(place):
        return []
    with late.outlast.Outlast(url_or(place.home)) as outlast:
        try:
            events = outlast.handoff.history(_anchor(place))
        except NotFound:
            return []
    ours = [each for each in events if each.kind == "stored" and each.body.get("source") == "hook"]
    return [
        {
            "revision": each.body["revision"],
            "at": f"{each.at:%Y-%m-%d %H:%M}",
            "summary": each.body["summary"],
            "next_action": each.body["next_action"],
        }
        for each in ours[: -SHOWN - 1 : -1]
    ]


def _log(home: str) -> list[str]:
    try:
        return read_plain(Path(home, spool.LOG)).decode("utf-8", "replace").splitlines()[-LOG_LINES:]
    except OSError:
        return []


@command("drain")
def drain(call: Invocation) -> int:
    """Store what hooks noted and nobody stored yet. This happens by itself;
    hooks.log says why it did not.
    """
    place = _our_place()
    before = len(spool.waiting(place.home))
    if before:
        with spool.alone(place.home, 30.0) as granted:
            if granted:
                late.leave.drain(place.home)
    left = len(spool.waiting(place.home))
    told = {"home": place.name, "drained": before - left, "waiting": left}
    return call.tell_line(told, f"{counted(before - left, 'event')} taken in, {left} left")


def _here() -> WorkTree:
    return work_tree_of(os.getcwd())


def _our_place() -> WorkTree:
    """The same, if its home is ours or becomes so now. Raises HomeNotOurs."""
    place = _here()
    check_home(place.home, note)
    return place


def _make_home(home: str) -> None:
    make_home(home)
    ignore = os.path.join(home, ".gitignore")
    if not os.path.exists(ignore):
        write_file(ignore, b"*\n")


# -- events: `outlast.doors.hooks.fire` takes them before click is loaded; here is only their help --------


def _event(name: str, says: str) -> click.Command:
    @click.option("--client", type=click.Choice(CLIENTS), default="claude", help="Which agent calls [claude].")
    @click.argument("given", metavar="[JSON]", required=False)
    def called(call: Invocation, client: Client, given: str | None) -> int:
        raise AssertionError("an event never comes here")

    called.__doc__ = f"{says} Its JSON comes on stdin. Exits 0, whatever happens."
    return command(name)(called)


start = _event("start", "A session starts: prints what was handed over, verdict first.")
stop = _event("stop", "A turn is over: stores a handoff if files or plan changed.")
compact = _event("compact", "The context is about to be compacted: stores a handoff.")
end = _event("end", "A session ends: stores a handoff.")


_EVENT = "What a client calls {}; it reads its JSON on stdin."
SECTIONS: Sections = {
    "Set up": {
        "install": ("hook:install", "Let a coding agent call Outlast."),
        "uninstall": ("hook:uninstall", "Take our hooks out of its settings, and nothing else."),
        "status": ("hook:status", "Who calls what, open sessions, and what went wrong."),
        "drain": ("hook:drain", "Store now what hooks noted and nobody stored yet."),
    },
    "Called by agents": {
        "start": ("hook:start", _EVENT.format("when a session starts")),
        "stop": ("hook:stop", _EVENT.format("after a turn")),
        "compact": ("hook:compact", _EVENT.format("before it compacts")),
        "end": ("hook:end", _EVENT.format("when a session ends")),
    },
}


@click.group("hook", cls=CommandGroup, sections=SECTIONS)
def hook() -> None:
    """A coding agent's session that ends, compacts or dies leaves a handoff,
    and the next one starts from it, verdict first.

    Stored under task:$OUTLAST_TASK, else branch:BRANCH, in the home of the
    main worktree. What a hook stored says so (source: hook). A hook never
    blocks or fails the agent; what went wrong is in hooks.log in the home.
    """
