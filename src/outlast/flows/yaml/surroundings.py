"""What the commands of a flow file find where it lies: their folders, and their shell.

They run in the file's folder and below it, or above it up to the top of its repository, and no further.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from posixpath import join, normpath

from outlast.files.repository import is_below, top_of
from outlast.flows.yaml.rules import MappingDraft
from outlast.flows.yaml.values import Problems, shown


def check_folders(flow: MappingDraft, nodes: Sequence[MappingDraft], file: Path | None, problems: Problems) -> None:
    """Note each `cwd` that leads out. `file` is the flow file, where it is known."""
    own = flow.get("cwd") or ""
    if own:
        _check(flow, own, own, file, problems)
    for each in (each for each in nodes if each.get("cwd")):
        _check(each, each.get("cwd"), join(own, each.get("cwd")), file, problems)


def check_shells(drafts: Sequence[MappingDraft], problems: Problems) -> None:
    """Note each shell that this machine has not."""
    for each in drafts:
        name = each.get("shell")
        if name and shutil.which(name) is None:
            each.note("shell", problems, f"there is no {name} here", "install it, or write the command for `sh`")


def _check(draft: MappingDraft, text: str, path: str, file: Path | None, problems: Problems) -> None:
    if why := leads_out(path, file):
        draft.note("cwd", problems, f"{shown(text)} leads out of {why}", "give a folder inside it")


def leads_out(path: str, file: Path | None) -> str:
    """What a path from a flow file's folder leads out of; empty if it does not. Links count where it goes up."""
    if ".." not in path.split("/"):
        return ""
    if file is None:
        return "the folder it starts in" if normpath(path).split("/")[0] == ".." else ""
    top = top_of(file.parent)
    bound = top or os.path.realpath(file.parent)
    if is_below(os.path.realpath(file.parent / path), bound):
        return ""
    return f"the repository {bound}" if top else f"the flow's folder, which is in no repository ({bound})"


def below_top(folder: Path) -> str:
    """A flow's folder as a path from the top of its repository; empty outside of one."""
    top = top_of(folder)
    return os.path.relpath(os.path.realpath(folder), top) if top else ""
