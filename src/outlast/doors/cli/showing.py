"""The file that a flow asks a person to look at: its first lines, and how long it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.doors.cli.render import clean, counted

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast

LINES = 20
COLUMNS = 200
BYTES = 64 * 1024  # of a file, which may be one endless line


def file_lines(outlast: Outlast, wait: Interrupt) -> list[str]:
    """What to show of the file that a wait names; or why it cannot be shown. Nothing when it names none."""
    name = wait.payload.get("file")
    if not isinstance(name, str) or not name:
        return []
    try:
        path = _place(outlast, wait) / name
        return _first_lines(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return [f"{clean(name)} cannot be shown: {why}"]


def _place(outlast: Outlast, wait: Interrupt) -> Path:
    """The folder that a flow file's paths start from."""
    from outlast.errors import EmbeddedOnly, OutlastError
    from outlast.flows.loading import found_in, here, is_gone, is_recipe
    from outlast.flows.yaml.flow import find_recipe
    from outlast.home.place import project_of

    try:
        project = project_of(outlast.home) or Path.cwd()
    except EmbeddedOnly:  # of a server: its files may be here as well
        project = Path.cwd()
    flow = outlast.get(wait.run_id).source
    if not is_recipe(flow):
        return project
    if is_gone(flow, project):
        flow = found_in(flow, project, here()) or flow
    try:
        spec = find_recipe(flow, project)
    except OutlastError:  # the file was changed since and has a mistake now; the place is the same
        return (project / flow.rpartition(":")[0]).parent
    return spec.file.parent / (spec.recipe.cwd if spec.recipe is not None else "")


def _first_lines(path: Path) -> list[str]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return [f"{clean(path.name)} cannot be shown: it is no plain file"]
        text = file.read(BYTES).decode("utf-8", "replace")
    lines = text.splitlines()
    shown = [_fitting(line) for line in lines[:LINES]]
    if len(lines) <= LINES and found.st_size <= BYTES and not any(line.endswith("…") for line in shown):
        return shown or [f"{clean(path.name)} is empty"]
    long = counted(len(lines), "line") if found.st_size <= BYTES else f"more than {len(lines):,} lines"
    return [*shown, f"[{long}, {found.st_size:,} bytes in all: {clean(path)}]"]


def _fitting(line: str) -> str:
    plain = clean(line.replace("\t", "    "))
    return plain if len(plain) <= COLUMNS else f"{plain[:COLUMNS]}…"
