"""`outlast gc`: a dry run first, the exact command that does it, and what was left alone."""

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from outlast import Outlast, Run, flow, step
from outlast.doors.cli.care import bytes_of, seconds_of
from outlast.doors.cli.render import sized

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


@step
def much(n: int) -> str:
    return f"{n}" * 40_000


@flow
def works(run: Run, n: int) -> str:
    return much(n)


@flow
def fails(run: Run) -> str:
    raise ValueError(much(9)[:3])


@pytest.fixture
def used(cli: "Cli") -> "Cli":
    """A home with three finished runs and an unfinished one."""
    with Outlast(cli.folder / ".outlast", store_options={"synchronous": "OFF"}) as outlast:
        for number in range(3):
            outlast.run(works, number)
        outlast.run(fails)
    for path in (cli.folder / ".outlast" / "default" / "blobs").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    return cli


def runs(cli: "Cli") -> list[str]:
    return [run["status"] for run in cli("runs", "--json").json["runs"]]


def test_without_yes_it_says_what_would_go_and_the_command_that_does_it(used: "Cli") -> None:
    answer = used("gc", "--keep", "1")
    assert answer.code == 0, answer.err
    assert "2 finished runs would be removed" in answer.out
    assert "2 blobs (78.1 KiB) would be moved to the trash" in answer.out
    assert "1 unfinished run and 1 blob that they need: untouched" in answer.out
    assert "1 run among the newest of their flow: kept" in answer.out
    line = next(line for line in answer.out.splitlines() if "to do it:" in line)
    assert line.partition("to do it: ")[2] == "outlast gc --keep 1 --yes"
    assert len(runs(used)) == 4
    done = used(*line.partition("to do it: outlast ")[2].split())
    assert (done.code, runs(used)) == (0, ["failed", "succeeded"])
    assert "2 finished runs removed" in done.out
    assert "untouched" in done.out
    assert "to do it" not in done.out


def test_the_command_to_copy_has_the_rules_and_the_home_as_they_were_given(used: "Cli") -> None:
    words = ("gc", "--older-than", "0s", "--max-size", "1.5K", "--vacuum", "--tenant", "default")
    line = next(line for line in used(*words).out.splitlines() if "to do it:" in line)
    wanted = "outlast gc --older-than 0s --max-size 1.5K --vacuum --yes --tenant default"
    assert line.partition("to do it: ")[2] == wanted


def test_nothing_to_remove_is_said(used: "Cli") -> None:
    assert used("gc", "--older-than", "30d").out.startswith("nothing to remove\n")
    plain = used("gc", "--yes")
    assert plain.out.startswith("nothing to remove\n")
    assert "to remove finished runs give a rule, such as: outlast gc --older-than 30d" in plain.out
    assert "old versions of artifacts go by --older-than or --keep" in used("gc", "--artifacts").out


def test_json_has_everything(used: "Cli") -> None:
    foreseen = used("gc", "--keep", "0", "--json").json
    assert (foreseen["dry_run"], len(foreseen["runs"]), foreseen["kept"]) == (True, 3, {"unfinished": 1})
    assert {"id", "flow", "task", "status", "ended_at", "size_bytes"} == set(foreseen["runs"][0])
    done = used("gc", "--keep", "0", "--yes", "--json").json
    assert (done["dry_run"], done["blobs"], done["nothing"], done["troubles"]) == (False, 3, False, [])
    assert used("gc", "--json").json["nothing"]


def test_a_removed_run_says_so(used: "Cli") -> None:
    run = used("runs", "--status", "succeeded", "--json").json["runs"][0]["id"]
    used("gc", "--keep", "0", "--yes")
    shown = used("show", run)
    assert shown.code == 5
    assert f"run {run} (succeeded) was removed by local on " in shown.err
    assert "[run_removed]" in shown.err
    assert used("receipts", run, "--json").json["error"]["code"] == "run_removed"


def test_only_the_scope_that_is_given_is_swept(used: "Cli") -> None:
    assert used("gc", "--keep", "0", "--scope", "other", "--json").json["kept"] == {"unfinished": 1, "scope": 3}


def test_a_run_that_is_executed_now_keeps_the_file_from_being_vacuumed(used: "Cli") -> None:
    child = used.start_until("draft", "run", "flows.py:report", "topic=ai", SLOW="30")
    answer = used("gc", "--vacuum", "--yes")
    assert answer.code == 1
    assert "not vacuumed: runs are being executed" in answer.err
    child.kill()
    child.communicate()
    assert used("gc", "--vacuum", "--yes").code == 0


def test_a_terminal_sees_progress(used: "Cli") -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "outlast", "gc", "--keep", "0", "--yes"]
    subprocess.run(words, stderr=theirs, stdout=subprocess.DEVNULL, cwd=used.folder, check=True)
    os.close(theirs)
    assert "3 of 3 runs removed" in os.read(ours, 65536).decode()
    os.close(ours)


def test_without_a_home_it_says_so_and_makes_none(cli: "Cli") -> None:
    assert cli("gc", "--json").json["error"]["code"] == "home_not_found"
    assert not (cli.folder / ".outlast").exists()


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y", "9" * 400 + "d", "1d; rm", "\x00", "½d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no age; use 45s, 90m, 12h, 30d or 8w"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["", "big", "-1G", "1X", "1G1", "9" * 30 + "T", "🦀"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no size; use 500K, 200M, 2G or 1T"):
        bytes_of(text)


@pytest.mark.parametrize("words", [("--older-than", "soon"), ("--max-size", "-1"), ("--keep", "-1")])
def test_a_rule_that_cannot_be_read_is_a_usage_error(used: "Cli", words: tuple[str, str]) -> None:
    answer = used("gc", *words, "--yes")
    assert (answer.code, words[0] in answer.err, len(runs(used))) == (2, True, 4)


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("90m", 5400), ("12h", 43200), ("30d", 2592000), ("1.5w", 907200)]
)
def test_ages(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("1k", 1024), ("2G", 2 << 30), ("1.5MiB", 1572864), ("1TB", 1 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert sized(size) == text
