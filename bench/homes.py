"""Homes in which a run was killed after so many steps: what rows 3 and 4 look at."""

import os
import shutil
import subprocess
from pathlib import Path

import apsw
from measure import NotMeasured, Target, begin


class Homes:
    """Made once per subject and length, copied for every use."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch / "homes"
        self.made: dict[tuple[str, str, str, int], Path | NotMeasured] = {}

    def copy(self, target: Target, steps: int) -> Path:
        copied = self.scratch / "copy"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(self._made(target, steps), copied)
        for file in copied.rglob("*.db*"):  # who goes on in a home that was left a while ago does not wait for a copy
            with file.open("rb") as written:
                os.fsync(written.fileno())
        return copied

    def size(self, target: Target, steps: int) -> int:
        """Bytes of every file, after the WAL went into the database."""
        home = self.copy(target, steps)
        for database in home.rglob("*.db"):
            connection = apsw.Connection(str(database))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.close()
        return sum(file.stat().st_size for file in home.rglob("*") if file.is_file())

    def _made(self, target: Target, steps: int) -> Path:
        key = (target.module, target.variant, target.source, steps)
        if key not in self.made:
            self.made[key] = self._make(target, self.scratch / f"{len(self.made)}", steps)
        made = self.made[key]
        if isinstance(made, NotMeasured):
            raise made
        return made

    def _make(self, target: Target, home: Path, steps: int) -> Path | NotMeasured:
        home.parent.mkdir(parents=True, exist_ok=True)
        try:
            begin(target, home, steps)
        except (NotMeasured, subprocess.TimeoutExpired) as error:
            return NotMeasured(str(error))
        return home
