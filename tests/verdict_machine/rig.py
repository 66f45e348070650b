"""What the machine works on: real repositories in real folders, made from one that is copied."""

import functools
import os
import shutil
import tempfile
from pathlib import Path

from ..kit.repositories import git
from .world import Commit, Place

HERE, OTHER, PLAIN = "here", "other", "plain"
REMOTE = "https://example.org/work.git"
FILES = {f"src/{name}.py": f"{name} one\n" for name in ("a", "b")} | {
    f"{name}.txt": f"{name} one\n" for name in ("keep", "lock", "note")
}
ABSENT = "src/new.py"
BRANCHES = ("main", "side")


@functools.cache
def _template() -> "tempfile.TemporaryDirectory[str]":
    """The repositories that every rig begins with, made once."""
    made = tempfile.TemporaryDirectory(prefix="verdicts-")
    for name in (HERE, OTHER):
        root = Path(made.name, name)
        root.mkdir()
        git(root, "init", "--quiet", "--template=")
        for path, text in FILES.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(text)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", f"the first of {name}")
    git(Path(made.name, HERE), "remote", "add", "origin", REMOTE)
    return made


class Rig:
    """Folders, each of them beside its plain picture: what is done is done to both."""

    def __init__(self) -> None:
        self.above = Path(os.path.realpath(tempfile.mkdtemp(prefix="verdicts-")))
        shutil.copytree(_template().name, self.above, dirs_exist_ok=True)
        self.places: dict[str, Place] = {}
        self._commits = 0
        for name in (HERE, OTHER):
            self.places[name] = self._begun(name)
        (self.above / PLAIN / "src").mkdir(parents=True)
        self.places[PLAIN] = Place(PLAIN, "", {})
        for path, text in FILES.items():
            self.edit(PLAIN, path, text)

    def _begun(self, name: str) -> Place:
        first = Commit(self._number(), dict(FILES))
        return Place(name, name, dict(FILES), first, "main", {"main": first}, {first.number})

    def _number(self) -> int:
        self._commits += 1
        return self._commits

    def end(self) -> None:
        shutil.rmtree(self.above)

    def folder(self, name: str) -> Path:
        return self.above / name

    @property
    def flag(self) -> Path:
        """Something outside of every place, that one check looks at."""
        return self.above / "flag"

    # -- what happens to files -------------------------------------------------------------------

    def edit(self, name: str, path: str, content: str | None) -> None:
        file = self.folder(name) / path
        file.unlink(missing_ok=True) if content is None else file.write_bytes(content.encode())
        self.places[name].edit(path, content)

    def rename(self, name: str, path: str, to: str) -> None:
        (self.folder(name) / path).rename(self.folder(name) / to)
        self.places[name].rename(path, to)

    def commit(self, name: str) -> None:
        git(self.folder(name), "add", "--all")
        number = self._number()
        git(self.folder(name), "commit", "--quiet", "--allow-empty", "-m", f"commit {number}")
        self.places[name].commit(number)

    def switch(self, name: str, branch: str) -> None:
        place = self.places[name]
        if place.others(set()):
            self.commit(name)
        create = () if branch in place.branches else ("--create",)
        git(self.folder(name), "switch", "--quiet", *create, branch)
        place.switch(branch)

    # -- other places ----------------------------------------------------------------------------

    def clone(self, name: str, *, shallow: bool = False) -> None:
        """Another folder with what is committed here; of a shallow one only the remote says of what it is."""
        depth, source = (("--depth", "1"), f"file://{self.folder(HERE)}") if shallow else ((), str(self.folder(HERE)))
        git(self.above, "clone", "--quiet", "--template=", *depth, source, name)
        git(self.folder(name), "remote", "set-url", "origin", REMOTE)
        self.places[name] = self.places[HERE].clone(name, shallow=shallow)

    def worktree(self, name: str) -> None:
        git(self.folder(HERE), "worktree", "add", "--quiet", "-b", name, str(self.folder(name)))
        self.places[name] = self.places[HERE].worktree(name, name)
