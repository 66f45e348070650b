"""`outlast hook`: hooks for coding agents, set up and looked at.

A client's settings file is written whole, by rename, and only if something changes. What others configured there stays
as it is.

Events never come here: `outlast.doors.hooks.fire` takes them before click is loaded.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import SUCCEEDED
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import counted, emit, note, say
from outlast.doors.hooks import spool
from outlast.doors.hooks.spool import CLIENTS, KINDS, NAMES, Client, HookEvent, Kind
from outlast.errors import NotFound, SettingsInvalid
from outlast.python.work_tree import check_home, make_home, may_have_ledger, url_or, work_tree_of
from outlast.values.private import read_plain, write_file

if TYPE_CHECKING:
    from outlast.python.work_tree import WorkTree


SHOWN = 20  # automatic revisions
LOG_LINES = 5
# From the project; or with `user` from the person's own folder.
FILES: dict[Client, tuple[str, str]] = {
    "claude": (".claude/settings.local.json", ".claude/settings.json"),
    "codex": (".codex/hooks.json", ".codex/hooks.json"),
    "cursor": (".cursor/hooks.json", ".cursor/hooks.json"),
}
SECONDS: dict[Kind, int] = {"start": 15, "stop": 5, "compact": 5, "end": 3}  # Codex gives an end 3 at most
_OURS = re.compile(r"\boutlast(?:\.cli)?['\"]? hook (?:start|stop|compact|end) --client \w+\s*$")

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
    found = add_hooks(client, Path(place.top), user=user, write=not only_print)
    if not only_print and not user:
        _make_home(place.home)
    if call.json:
        emit(_told(found), home=place.name)
        return SUCCEEDED
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
    found = take_out_hooks(client, Path(_here().top), user=user)
    return call.tell_line(_told(found), f"{'taken out of' if found.changed else 'nothing of ours is in'} {found.file}")


def _told(found: Installed) -> dict[str, Any]:
    return {**found._asdict(), "file": str(found.file)}


@command("status")
def status(call: Invocation) -> int:
    """Which agents call Outlast here, the sessions that have not ended, the
    last automatic revisions of this branch, and what went wrong.
    """
    place = _our_place()
    told = {
        "home": place.name if place.exists else "",
        "clients": [_listed(client, place, user) for client in CLIENTS for user in (False, True)],
        "sessions": [
            {"client": each.event.client, "session": each.event.session, "anchor": each.anchor, "folder": each.top}
            for each in spool.all_sessions(place.home)
        ],
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
    file, error = file_of(client, Path(place.top), user=user), ""
    events: tuple[str, ...] = ()
    try:
        events = hooks_of(client, Path(place.top), user=user).events
    except (SettingsInvalid, OSError) as broken:
        error = str(broken)
    return {"client": client, "file": str(file), "user": user, "events": events, "error": error}


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


# -- a client's settings file with our hooks in it ------------------------------------------------------


class Installed(NamedTuple):
    """A client's settings file, and which of our hooks are in it."""

    client: Client
    file: Path
    events: tuple[str, ...] = ()
    changed: bool = False
    settings: Mapping[str, Any] = {}


def add_hooks(client: Client, project: Path, *, user: bool = False, write: bool = True) -> Installed:
    """Put our hooks into the client's settings. Again it changes nothing. Raises SettingsInvalid, OSError."""
    return _changed(client, file_of(client, project, user=user), _added, write=write)


def take_out_hooks(client: Client, project: Path, *, user: bool = False) -> Installed:
    """Take out our hooks, and nothing else. Raises SettingsInvalid, OSError."""
    return _changed(client, file_of(client, project, user=user), lambda client, settings: _without(settings))


def hooks_of(client: Client, project: Path, *, user: bool = False) -> Installed:
    """Which of our hooks the client calls. Raises SettingsInvalid, OSError."""
    file = file_of(client, project, user=user)
    settings = _settings_in(file)
    return Installed(client, file, tuple(_ours_in(settings)), settings=settings)


def file_of(client: Client, project: Path, *, user: bool = False) -> Path:
    """Where the client looks for hooks. Codex has a folder of its own for a person's settings."""
    mine, theirs = FILES[client]
    if user and client == "codex" and os.environ.get("CODEX_HOME"):
        return Path(os.environ["CODEX_HOME"]) / "hooks.json"
    return Path.home() / theirs if user else project / mine


def command_for(client: Client, kind: Kind) -> str:
    """The command that a client is to call: this Outlast, wherever the client's PATH leads."""
    called = os.path.abspath(sys.argv[0])
    ours = [called] if os.path.basename(called) == "outlast" and os.access(called, os.X_OK) else None
    return shlex.join([*(ours or [sys.executable, "-P", "-m", "outlast"]), "hook", kind, "--client", client])


# -- the settings ------------------------------------------------------------------------------------


def _changed(client: Client, file: Path, change: Any, *, write: bool = True) -> Installed:
    before = _settings_in(file)
    after = change(client, json.loads(json.dumps(before)))
    changed = after != before
    if changed and write:
        _write_settings(file, after)
    return Installed(client, file, tuple(_ours_in(after)), changed and write, after)


def _added(client: Client, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with our hooks: each in its place if it was there, else after those of others."""
    names = {kind: name for name, kind in NAMES[client].items() if "-" not in name}
    if _ours_in(settings) == {names[kind]: [command_for(client, kind)] for kind in KINDS}:
        return settings
    settings = _without(settings)
    if client == "cursor":
        settings = {"version": 1, **settings}
    hooks = settings.setdefault("hooks", {})
    for kind in KINDS:
        hooks.setdefault(names[kind], []).append(_entry(client, kind))
    return settings


def _entry(client: Client, kind: Kind) -> dict[str, Any]:
    line = {"command": command_for(client, kind), "timeout": SECONDS[kind]}
    return line if client == "cursor" else {"hooks": [{"type": "command", **line}]}


def _without(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without our hooks, and without what would be empty then."""
    hooks = settings.get("hooks", {})
    for name, groups in [*hooks.items()]:
        kept = [left for group in groups if (left := _group_without(group))]
        if len(kept) == len(groups) and kept == groups:
            continue
        hooks[name] = kept
        if not kept:
            del hooks[name]
    if "hooks" in settings and not hooks:
        del settings["hooks"]
    return {} if set(settings) == {"version"} and "hooks" not in settings else settings


def _group_without(group: dict[str, Any]) -> dict[str, Any] | None:
    if _is_ours(group):
        return None
    inner = group.get("hooks")
    if not isinstance(inner, list) or not any(map(_is_ours, inner)):
        return group
    kept = [each for each in inner if not _is_ours(each)]
    return {**group, "hooks": kept} if kept else None


def _is_ours(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("command"), str) and bool(_OURS.search(entry["command"]))


def _ours_in(settings: dict[str, Any]) -> dict[str, list[str]]:
    """Our commands by the client's name of the event."""
    found: dict[str, list[str]] = {}
    for name, groups in settings.get("hooks", {}).items():
        lines = [each for group in groups for each in (group, *_list(group.get("hooks")))]
        if ours := [each["command"] for each in lines if _is_ours(each)]:
            found[name] = ours
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- the file ----------------------------------------------------------------------------------------


def _settings_in(file: Path) -> dict[str, Any]:
    """The settings; empty when there are none. Raises SettingsInvalid for what we could not keep as it is."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise SettingsInvalid(str(file), "it is not UTF-8") from error
    try:
        settings = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise SettingsInvalid(str(file), f"it is no JSON ({error})") from error
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(_is_groups(groups) for groups in hooks.values()):
        raise SettingsInvalid(str(file), "its hooks are not written as the client reads them")
    found: dict[str, Any] = settings
    return found


def _is_groups(groups: Any) -> bool:
    return isinstance(groups, list) and all(isinstance(group, dict) for group in groups)


def _write_settings(file: Path, settings: dict[str, Any]) -> None:
    """Whole, by rename; a link stays one. A file that would be empty is removed."""
    place = Path(os.path.realpath(file))
    if not settings:
        place.unlink(missing_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    beside.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if place.exists():
        os.chmod(beside, place.stat().st_mode & 0o777)
    os.replace(beside, place)


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
