"""What the `settings.yaml` of a home says: with whom it is shared, and how long an unreceived outcome is kept."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlast.errors import HomeSettingsInvalid
from outlast.home.settings import Settings

SETTINGS = "settings.yaml"
_KNOWN = ("shared", "redeliver")
_BYTES = 1 << 16


def given_in(home: Path) -> dict[str, Any]:
    """What is set, checked. Raises HomeSettingsInvalid."""
    path = home / SETTINGS
    if not os.path.lexists(path):
        return {}
    given = _read(path)
    if unknown := [str(name) for name in given if name not in _KNOWN]:
        raise HomeSettingsInvalid(str(path), f"{unknown[0]!r} is no setting", f"it takes: {', '.join(_KNOWN)}")
    if given.get("shared", "no") not in ("no", "group", False, None):
        raise HomeSettingsInvalid(str(path), f"shared is {given['shared']!r}", "write `shared: group`, or leave it out")
    if "redeliver" in given and _seconds(given) is None:
        why = f"redeliver is {given['redeliver']!r:.100}"
        raise HomeSettingsInvalid(str(path), why, "write a duration, `redeliver: 1h`, or 0 for not at all")
    return given


def settings_in(home: Path) -> Settings:
    """The defaults, with what the home sets otherwise. Raises HomeSettingsInvalid."""
    seconds = _seconds(given_in(home))
    return Settings() if seconds is None else replace(Settings(), redeliver_seconds=seconds)


def _seconds(given: dict[str, Any]) -> float | None:
    """How long an outcome is kept; None when that is not said, or is no duration."""
    if "redeliver" not in given:
        return None
    from outlast.values.durations import duration

    return duration(given["redeliver"])


def _read(path: Path) -> dict[Any, Any]:
    import yaml  # late: most homes have no settings

    try:
        if not path.is_file() or path.stat().st_size > _BYTES:
            raise HomeSettingsInvalid(str(path), "this is no plain file of at most 64 KiB", "make it one, or remove it")
        given = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise HomeSettingsInvalid(str(path), f"it cannot be read ({error})", "mend it, or remove it") from error
    if given is not None and not isinstance(given, dict):
        raise HomeSettingsInvalid(str(path), "it is no mapping", "write `shared: group`, or remove it")
    return given or {}
