"""What the tests of the client share: a repository to work in, and values without ids, times and places."""

import os
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from outlast.home.keys import UNPROVEN

GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
_ID = re.compile(r"(?<![0-9a-z])[abcdefghjkmnpqrstvwxyz0-9]{12}(?![0-9a-z])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|\+00:00)?")
_PLACE = re.compile(r"\(pid \d+ on ")
_DROPPED = ("at", "stored_us", "expires_us", "seconds", "claim", "hash", "holder", "started_at", "ended_at", "key")
_DROPPED += ("door", "worker")  # of who stored it: over HTTP there is another


def git(folder: Path, *words: str) -> str:
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        [*GIT, *words], cwd=folder, env=os.environ | plain, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("limit = 1\n")
    (folder / "notes.md").write_text("# notes\n")
    git(folder, "init", "-q", ".")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


class Plain:
    """Values as plain data in which ids are numbered as they first appear."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        names = getattr(value, "__struct_fields__", ()) or getattr(value, "__dataclass_fields__", ())
        if names and not isinstance(value, type):
            return {"of": type(value).__name__} | self({name: getattr(value, name) for name in names})
        if isinstance(value, dict):
            value = (
                value | {"runner": "runner"} if value.get("runner") == "client" else value
            )  # who ran it has the files
            return {self(name): self(each) for name, each in value.items() if name not in _DROPPED}
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        if isinstance(value, datetime):
            return "<time>"
        if isinstance(value, msgspec.Raw):
            return bytes(value).decode()
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = os.uname().nodename if text == "127.0.0.1" else text  # where a request comes from
        text = _PLACE.sub("(on ", _TIME.sub("<time>", text)).replace(UNPROVEN, "")  # a server knows only keys
        return _ID.sub(lambda found: self._ids.setdefault(found[0], f"<id {len(self._ids)}>"), text)
