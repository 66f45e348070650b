"""Repositories of git for tests, that depend on nobody's settings."""

import os
import shutil
import subprocess
from pathlib import Path

GIT = shutil.which("git") or "git"
SETTINGS = (
    *("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "init.defaultBranch=main"),
    *("-c", "commit.gpgsign=false", "-c", "protocol.file.allow=always", "-c", "core.autocrlf=false"),
)
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *command: str, **options: str) -> str:
    """What git says, without the last line end."""
    words = [GIT, *SETTINGS, *command]
    environment = {**os.environ, **ALONE, **options}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=True, timeout=60)
    return os.fsdecode(done.stdout).removesuffix("\n")


def write(root: Path, path: str, content: str | bytes = "x\n", bits: int = 0o644) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(bits)
    return file


def commit(root: Path, message: str = "x") -> str:
    """Commit everything that is there, and give the commit."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


def repository(root: Path, **files: str) -> Path:
    """A repository with one commit of these files; `__` in a name is a slash, `_` a dot."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "--quiet")
    for name, content in files.items():
        write(root, name.replace("__", "/").replace("_", "."), content)
    commit(root)
    return root


def program(folder: Path, name: str, script: str) -> Path:
    return write(folder, name, f"#!/bin/sh\n{script}\n", 0o755)
