"""A client's settings file with our hooks in it: added, taken out, looked at. What others configured stays as it is.

The file is written whole, by rename, and only if something changes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from outlast.doors.hooks.spool import KINDS, NAMES, Client, Kind
from outlast.errors import SettingsInvalid

# From the project; or with `user` from the person's own folder.
FILES: dict[Client, tuple[str, str]] = {
    "claude": (".claude/settings.local.json", ".claude/settings.json"),
    "codex": (".codex/hooks.json", ".codex/hooks.json"),
    "cursor": (".cursor/hooks.json", ".cursor/hooks.json"),
}
SECONDS: dict[Kind, int] = {"start": 15, "stop": 5, "compact": 5, "end": 3}  # Codex gives an end 3 at most
_OURS = re.compile(r"\boutlast(?:\.cli)?['\"]? hook (?:start|stop|compact|end) --client \w+\s*$")


class Installed(NamedTuple):
    """A client's settings file, and which of our hooks are in it."""

    client: Client
    file: Path
    events: tuple[str, ...] = ()
    changed: bool = False
    settings: Mapping[str, Any] = {}


def install(client: Client, project: Path, *, user: bool = False, write: bool = True) -> Installed:
    """Put our hooks into the client's settings. Again it changes nothing. Raises SettingsInvalid, OSError."""
    return _changed(client, file_of(client, project, user=user), _added, write=write)


def uninstall(client: Client, project: Path, *, user: bool = False) -> Installed:
    """Take out our hooks, and nothing else. Raises SettingsInvalid, OSError."""
    return _changed(client, file_of(client, project, user=user), lambda client, settings: _without(settings))


def installed(client: Client, project: Path, *, user: bool = False) -> Installed:
    """Which of our hooks the client calls. Raises SettingsInvalid, OSError."""
    file = file_of(client, project, user=user)
    settings = _read(file)
    return Installed(client, file, tuple(_events(settings)), settings=settings)


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
    before = _read(file)
    after = change(client, json.loads(json.dumps(before)))
    changed = after != before
    if changed and write:
        _write(file, after)
    return Installed(client, file, tuple(_events(after)), changed and write, after)


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


def _events(settings: dict[str, Any]) -> Iterator[str]:
    yield from _ours_in(settings)


# -- the file ----------------------------------------------------------------------------------------


def _read(file: Path) -> dict[str, Any]:
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


def _write(file: Path, settings: dict[str, Any]) -> None:
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
