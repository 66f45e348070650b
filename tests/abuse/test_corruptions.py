"""Damage to every table and column: `verify` names it or it changes nothing, and no command falls over it."""

import io
import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from outlast.doors.cli.entry import _run

from .corruptions import Corruption, corruptions
from .damaged_home import build
from .figures import figures

SEED = 20
IN_CI = 4
DAMAGE = """
import hashlib, json, sqlite3, sys

def content(home):
    found = hashlib.sha256()
    home.text_factory = bytes
    for name, sql in sorted(home.execute("SELECT name, coalesce(sql, '') FROM sqlite_schema").fetchall()):
        found.update(name + sql)
        if sql.startswith(b"CREATE TABLE"):
            for row in home.execute(f"SELECT * FROM {name.decode()}"):
                found.update(repr(row).encode())
    return found.digest()

for path, script in json.load(sys.stdin):
    home = sqlite3.connect(path)
    before = content(home)
    try:
        home.executescript(script)
        print("same" if content(home) == before else "done")
    except sqlite3.Error as error:
        print("refused", error)
    home.close()
"""

# What may be changed unseen, and why it is harmless: each is proven by the answers, which are the same.
HARMLESS = {
    "journal.key": "a number of the table: entries are found, and proven, by their chain and seq",
    "messages.key": "a number of the table: messages are found, and proven, by their session and seq",
    "memos.key": "a number of the table: memos are found, and proven, by their session and version",
    "task_events.key": "a number of the table: events are found, and proven, by their task and seq",
    "journal: a row twice": "it takes the place of its double: only the number of the table is another",
    "messages: a row twice": "it takes the place of its double: only the number of the table is another",
    "memos: a row twice": "it takes the place of its double: only the number of the table is another",
}
# Not proven, as each process and each use of a claim writes them: when somebody was last heard of. Set back, a claim
# looks over and may be taken; who takes it has the next epoch, and the one before can write nothing more.
SIGNS_OF_LIFE = {f"{table}.{name}" for table in ("processes", "claims") for name in ("boot_us", "wall_us")}


class Seen(NamedTuple):
    """What became of one damaged home."""

    named: bool
    crashed: list[str]
    answers: dict[str, str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with something in every table."""
    folder = tmp_path_factory.mktemp("whole")
    build(folder)
    return folder


def commands(folder: Path) -> list[list[str]]:
    """The commands that look, with the ids of what is there. Those that write come last."""
    ids = json.loads((folder / "ids.json").read_text())
    runs: dict[str, str] = ids["runs"]
    looks = [
        ["verify"],
        ["runs", "--limit", "50"],
        ["inbox"],
        ["handoff", "list"],
        ["task", "list"],
        ["session", "list"],
    ]
    looks += [["workspace", "list"], ["workspace", "records"], ["workspace", "checkpoints"], ["gc", "--dry-run"]]
    looks += [
        [verb, runs[task]] for task in ("done", "asked", "answered", "failing", "loop") for verb in ("show", "receipts")
    ]
    looks += [["handoff", "recover", "task:one"], ["task", "inspect", "chore"], ["workspace", "recall", "it works"]]
    looks += [["session", "show", "talk"], ["doctor"], ["tick", "--dry-run"], ["resume", runs["retried"], "--dry-run"]]
    return looks + [["resume", runs[task]] for task in ("asked", "answered", "loop", "doubtful")]


def told(home: Path, words: list[str]) -> tuple[int, str]:
    """A command in this process: its exit code, and what it printed."""
    raw = io.BytesIO()
    both = io.TextIOWrapper(raw, "utf-8", errors="backslashreplace")
    with redirect_stdout(both), redirect_stderr(both):
        code = _run([*words, "--home", str(home / ".outlast")], as_json="--json" in words)
        both.flush()
    return code, raw.getvalue().decode()


def look(home: Path) -> Seen:
    """Ask every command. What it raises is no answer."""
    answers, crashed, named = {}, [], False
    before = os.getcwd()
    os.chdir(home)
    try:
        for words in commands(home):
            for how in ([], ["--json"]) if words[0] != "resume" else ([],):
                try:
                    code, said = told(home, [*words, *how])
                    named = named or (words == ["verify"] and code == 1 and '"problems":[{' in said)
                    answers[" ".join([*words, *how])] = said.replace(str(home), "HOME")
                except Exception:
                    crashed.append(f"{' '.join([*words, *how])}: {traceback.format_exc(limit=-4)}")
    finally:
        os.chdir(before)
    return Seen(named, crashed, answers)


def damaged(home: Path, folder: Path, wanted: list[Corruption]) -> Iterator[tuple[str, Path]]:
    """A copy of the home for each corruption that the database itself does not refuse."""
    copies = [folder / str(number) for number in range(len(wanted))]
    for copy in copies:
        shutil.copytree(home, copy)
    work = [
        (str(copy / ".outlast/default/outlast.db"), script) for copy, (_, script) in zip(copies, wanted, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE], input=json.dumps(work), capture_output=True, text=True, check=True, timeout=600
    )
    for (name, _), copy, said in zip(wanted, copies, done.stdout.splitlines(), strict=True):
        if said == "done":
            yield name, copy


def is_harmless(name: str) -> bool:
    return name in HARMLESS or name.rpartition(" ")[0] in HARMLESS


def test_every_corruption_is_named_or_harmless_and_no_command_falls_over_it(
    home: Path, tmp_path: Path, crash_long: bool
) -> None:
    every = corruptions(SEED)
    wanted = every if crash_long else every[:IN_CI]
    whole = look(shutil.copytree(home, tmp_path / "whole"))
    assert not whole.crashed
    assert not whole.named, whole.answers["verify --json"]
    counts = {"corruptions": 0, "named": 0, "harmless": 0, "signs_of_life": 0, "refused": 0}
    wrong = []
    for name, copy in damaged(home, tmp_path, wanted):
        seen = look(copy)
        counts["corruptions"] += 1
        counts["named"] += seen.named
        wrong += [f"{name}: {each}" for each in seen.crashed]
        if not seen.named and name.rpartition(" ")[0] in SIGNS_OF_LIFE:
            counts["signs_of_life"] += 1
        elif not seen.named:
            counts["harmless"] += 1
            if not is_harmless(name):
                wrong.append(f"{name}: verify does not name it")
            changed = [each for each in LOOKS if whole.answers.get(each) != seen.answers.get(each)]
            wrong += [f"{name}: {each} answers something else" for each in changed]
        shutil.rmtree(copy)
    counts["refused"] = len(wanted) - counts["corruptions"]
    figures("corruptions", seed=SEED, **counts)
    assert not wrong, "\n".join(wrong)


LOOKS = [
    f"{look} --json"
    for look in ("verify", "runs --limit 50", "inbox", "handoff list", "task list", "session list", "workspace list")
]
