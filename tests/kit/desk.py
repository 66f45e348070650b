"""A desk to hand work over at: a repository, a home beside it, and whoever sits down next."""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast import Outlast
from outlast.clock import ManualClock
from outlast.handoffs import foreign
from outlast.handoffs.handoff import Handoff, Recovered

from .empty import put_empty_home

WHO = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
TASK = "task:export-repair"
GOOD: dict[str, Any] = {
    "anchor": TASK,
    "summary": "Pause after diagnosis",
    "handoff_text": "Resume in src/export.py and patch the serializer mismatch.",
    "target_files": ["src/export.py"],
    "next_action": "Patch the export serializer and rerun the relevant checks.",
    "acceptance_checks": ["test -f src/export.py"],
}


def git(folder: Path, *words: str) -> str:
    """Ask git in a folder, with nobody's configuration."""
    done = subprocess.run(["git", *WHO, *words], cwd=folder, env=os.environ | QUIET, capture_output=True, check=True)
    return os.fsdecode(done.stdout).strip()


@functools.cache
def _template() -> "tempfile.TemporaryDirectory[str]":
    """The repository that every desk begins with, made once."""
    made = tempfile.TemporaryDirectory(prefix="outlast-desk-")
    root = Path(made.name, "repo")
    (root / "src").mkdir(parents=True)
    (root / "src/export.py").write_text("def export():\n    return 1\n")
    (root / "src/other.py").write_text("OTHER = 1\n")
    (root / "uv.lock").write_text("locked\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        git(root, *words)
    return made


@dataclass
class Desk:
    """One repository and one home; `sit_down` opens the home as somebody else would."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    opened: list[Outlast] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.repo, self.home = self.folder / "repo", self.folder / "home"
        shutil.copytree(Path(_template().name, "repo"), self.repo, dirs_exist_ok=True)
        self.git("update-index", "-q", "--refresh")  # the copies are other files than the index knows
        put_empty_home(self.home)
        self.outlast = self.sit_down()

    def sit_down(self, actor: str = "local", **settings: Any) -> Outlast:
        """The home, opened by somebody."""
        outlast = Outlast(self.home, actor=actor, clock=self.clock, **settings)
        self.opened.append(outlast)
        return outlast

    def close(self) -> None:
        for outlast in self.opened:
            outlast.close()

    # -- the repository --------------------------------------------------------------------------

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.repo / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def commit(self, message: str) -> str:
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.repo, "rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        return git(self.repo, *words)

    # -- the work --------------------------------------------------------------------------------

    def store(self, outlast: Outlast | None = None, **fields: Any) -> Handoff:
        """A good handoff, but for what is named."""
        given = GOOD | {"repo_root": str(self.repo)} | fields
        return (outlast or self.outlast).handoff.store(**given)

    def recover(self, anchor: str | None = TASK, outlast: Outlast | None = None, **how: Any) -> Recovered:
        return (outlast or self.outlast).handoff.recover(anchor, **({"repo_root": str(self.repo)} | how))

    def settle(self, outcome: Any, outlast: Outlast | None = None, **how: Any) -> Any:
        return (outlast or self.outlast).handoff.settle(TASK, outcome, **({"repo_root": str(self.repo)} | how))


def digest_of(handoff: Handoff) -> str:
    """What somebody agrees to who wants the commands of a handoff to run."""
    return foreign.digest_of(handoff)


def codes(recovered: Recovered, weights: Sequence[str] = ("contests", "weakens", "notes")) -> set[str]:
    return {reason.code for reason in recovered.verdict.reasons if reason.weight in weights}


def found(recovered: Recovered) -> Mapping[str, str]:
    return {f"{reason.code}:{reason.subject}": reason.found for reason in recovered.verdict.reasons}
