"""`outlast handoff` as it is used: stored, recovered, claimed by one, settled by what is shown. Real processes."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .repository import CHECK, GOOD, Repository, Shell

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

Open = Callable[..., Shell]


@pytest.fixture
def repo(cli: "Cli") -> Repository:
    return Repository(cli)


@pytest.fixture
def at_terminal(repo: Repository) -> Iterator[Open]:
    opened: list[Shell] = []

    def make(**env: str) -> Shell:
        opened.append(Shell(repo, **env))
        return opened[-1]

    yield make
    for shell in opened:
        shell.close()


# -- the day ---------------------------------------------------------------------------------------------


def test_a_day_in_the_life_of_a_handoff(cli: "Cli", repo: Repository) -> None:
    stored = cli("handoff", "store", "fix limit", *GOOD, "--must-keep", "the public names")
    assert (stored.code, stored.err) == (0, "")
    assert "fix limit@1 stored" in stored.out
    assert "score: 100 of 100" in stored.out
    assert "1 file, 1 kept" in stored.out
    assert "recover it: outlast handoff recover 'fix limit'" in stored.out

    recovered = cli("handoff", "recover", "fix limit")
    assert (recovered.code, recovered.out.splitlines()[0]) == (0, "verdict: trusted")

    claim = cli("handoff", "claim", "fix limit", "--actor", "ann", "--json").json["id"]
    second = cli("handoff", "claim", "fix limit")
    assert second.code == 4
    assert "claimed by ann" in second.err
    assert claim not in second.err
    lost = cli("handoff", "recover", "fix limit", "--claim", "--json")
    assert (lost.code, lost.json["verdict"], lost.json["resume"]) == (4, "contested", "lost")

    repo.write("limit = 3\n")
    settle = ("handoff", "settle", "fix limit", "completed", "--ack", "the public names")
    refused = cli(*settle, OUTLAST_CLAIM=claim)
    assert refused.code == 4
    assert "not_settled" in refused.err
    assert f'check "{CHECK}" fails' in refused.err
    assert "--override WHY" in refused.err

    repo.write("limit = 2\n")
    settled = cli(*settle, OUTLAST_CLAIM=claim)
    assert settled.code == 0, settled
    assert "fix limit@1 settled as completed" in settled.out
    assert f"{CHECK}: passed" in settled.out
    over = cli("handoff", "recover", "fix limit")
    assert (over.code, "[finished]" in over.err, "--include-finished" in over.err) == (4, True, True)

    again = cli("handoff", "store", "fix limit", *GOOD)
    assert "fix limit@2 stored, opened again" in again.out
    assert cli("handoff", "recover", "fix limit").code == 0


def test_a_claim_belongs_to_its_terminal_and_ends_with_it(repo: Repository, at_terminal: Open) -> None:
    repo.store()
    ann, bob = at_terminal(), at_terminal()
    code, said = ann("claim 'fix limit' --actor ann")
    assert code == 0
    assert "outlast handoff settle 'fix limit' completed" in said
    code, said = bob("claim 'fix limit' --actor bob")
    assert code == 4
    assert "claimed by ann (pid " in said
    repo.write("limit = 5\n")
    code, said = ann("recover 'fix limit'")
    assert code == 0
    assert "partial_work app.py" in said
    ann.close()
    code, said = bob("claim 'fix limit' --actor bob")
    assert code == 0, said  # at once: who held it is gone
    assert repo("list", "--json").json["handoffs"][0]["holder"].startswith("bob (pid ")


def test_a_claim_is_shown_elsewhere_by_its_id(repo: Repository, at_terminal: Open) -> None:
    repo.store()
    claim = repo.claimed()
    shell = at_terminal()
    assert shell("renew 'fix limit'")[0] == 4
    code, said = shell(f"renew 'fix limit' --claim-id {claim}")
    assert code == 0
    assert f"export OUTLAST_CLAIM={claim}" in said
    assert at_terminal(OUTLAST_CLAIM=claim)("settle 'fix limit' released --missing 'a sample request'")[0] == 0
    late = repo("renew", "fix limit", "--claim-id", claim)
    assert (late.code, "[claim_lost]" in late.err) == (4, True)


def test_a_terminal_that_lost_its_claim_is_told_who_took_it_and_why(repo: Repository, at_terminal: Open) -> None:
    repo.store()
    ann, bob, eve = at_terminal(), at_terminal(), at_terminal()
    assert "nobody holds a claim on it now" in ann("renew 'fix limit'")[1]
    ann("claim 'fix limit' --actor ann")
    assert bob("claim 'fix limit' --take --why 'ann is on leave' --actor bob")[0] == 0
    for words in ("renew 'fix limit'", "settle 'fix limit' completed"):
        code, said = ann(words)
        flat = " ".join(said.split())
        assert (code, "bob took it over on" in flat, "ann is on leave" in flat) == (4, True, True), said
        assert "claimed by bob" in " ".join(eve(words)[1].split())


def test_a_claim_is_taken_over_with_a_reason(repo: Repository) -> None:
    repo.store()
    repo.claimed("fix limit", "--actor", "ann")
    assert repo("claim", "fix limit", "--take").code == 2  # without one
    taken = repo("claim", "fix limit", "--take", "--why", "ann is on leave", "--actor", "bob")
    assert taken.code == 0, taken
    story = repo("history", "fix limit").out
    assert "ann is on leave" in story
    assert "taken_from: ann" in story


def test_a_run_that_was_claimed_as_a_handoff_is_resumed_by_who_shows_the_claim(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai", env={"DIE_IN_DRAFT": "1"})
    with cli.opened() as outlast:
        task = outlast.get(run).task
    repo = Repository(cli)
    got = repo("recover", f"task:{task}", "--claim", "--json")
    assert (got.code, got.json["claim"]["run_id"]) == (0, run)
    refused = repo.forked("resume", run)
    assert (refused.code, "OUTLAST_CLAIM=ID" in refused.err) == (4, True)
    assert repo.forked("resume", run, OUTLAST_CLAIM=got.json["claim"]["id"]).code == 0


# -- what contests ---------------------------------------------------------------------------------------


def test_what_contests_is_refused_until_it_is_accepted(repo: Repository) -> None:
    repo.store()
    repo.write("limit = 7\n")
    seen = repo("recover", "fix limit")
    assert seen.code == 4
    assert seen.out.startswith("verdict: contested\n  ✗ file_changed app.py: ")
    assert repo("claim", "fix limit").code == 4
    table = repo("recover", "fix limit", "--explain").out.splitlines()
    assert table[1].split() == ["REASON", "WEIGHT", "SUBJECT", "EXPECTED", "FOUND"]
    assert table[2].split()[:3] == ["file_changed", "contests", "app.py"]
    words = ("recover", "fix limit", "--claim", "--accept", "file_changed:app.py")
    assert repo(*words).code == 2  # says nobody why
    given = repo(*words, "--why", "it is mine")
    assert given.code == 0
    assert "\nclaimed: " in given.out
    assert "it is mine" in repo("history", "fix limit").out
    wrong = repo("recover", "fix limit", "--accept", "rival", "--why", "x")
    assert (wrong.code, "file_changed:app.py" in wrong.err) == (2, True)


def test_verify_runs_the_checks_and_exits_by_what_came_of_them(repo: Repository) -> None:
    repo.store()
    failed = repo("verify", "fix limit")
    assert (failed.code, f"{CHECK}  [failed, exit 1" in failed.out) == (4, True)
    assert "checks_not_run" not in failed.out
    repo.store("fix limit", "--check", "true")
    repo.write("limit = 2\n")
    repo.store("fix limit")
    assert repo("verify", "fix limit").code == 0
    assert [event["kind"] for event in repo("history", "fix limit", "--json").json["history"]].count("checked") == 2


def test_what_a_failed_check_printed_can_be_read(repo: Repository) -> None:
    check = "seq 30; printf 'a\\033[31mred\\n'; exit 3"
    repo.store("fix limit", "--check", check)
    assert "was not run here yet" in repo("show", "fix limit", "--output", "2").err
    failed = repo("verify", "fix limit")
    assert "2 of 2 checks failed:" in failed.out
    assert "    … (11 lines before)\n    12\n" in failed.out
    assert "    a\\u001b[31mred\n" in failed.out
    assert "outlast handoff show 'fix limit' --output 2" in failed.out
    shown = repo("show", "fix limit", "--output", "2")
    assert (shown.out.startswith("1\n2\n"), shown.code) == (True, 0)
    assert repo("show", "fix limit", "--output", "2", "--json").json["printed"].startswith("1\n2\n")
    assert repo("show", "fix limit", "--output", "3").code == 2
    assert repo("verify", "fix limit", "--json").json["checks_failed"] == [CHECK, check]
    refused = repo("settle", "fix limit", "completed")
    assert "not_settled" in refused.err
    assert "12\n" in refused.err.partition("not_settled")[2]


def test_what_came_of_a_check_says_when_that_was(repo: Repository) -> None:
    repo.store("fix limit", "--baseline")
    assert f"{CHECK}  [when stored: failed, exit 1" in repo("recover", "fix limit").out
    repo.write("limit = 2\n")
    assert repo("verify", "fix limit").code == 4  # the file changed
    told = repo("recover", "fix limit").out
    assert re.search(re.escape(CHECK) + r"  \[when stored: failed, .*\]  \[20\d\d-.*: passed", told)


def test_a_completed_settlement_can_be_overridden_and_given_evidence(repo: Repository) -> None:
    repo.store()
    said = json.dumps({"check": CHECK, "passed": False, "note": "seen by eye"})
    refused = repo("settle", "fix limit", "completed", "--no-checks", "--evidence", said)
    assert (refused.code, "was not run by a runner" in refused.err) == (4, True)
    done = repo("settle", "fix limit", "completed", "--no-checks", "--override", "the limit is set elsewhere", "--json")
    assert (done.code, done.json["outcome"], done.json["override"]) == (0, "completed", "the limit is set elsewhere")
    assert repo("settle", "fix limit", "finished").code == 2
    assert repo("settle", "fix limit", "completed", "--evidence", "{").code == 2


# -- long checks -----------------------------------------------------------------------------------------


def test_on_a_terminal_the_check_under_way_is_shown(repo: Repository, at_terminal: Open) -> None:
    repo.store("fix limit", "--check", "true")
    code, said = at_terminal()("verify 'fix limit'")
    assert code == 4
    assert f"check 1 of 2: {CHECK}" in said
    assert "check 2 of 2: true" in said
    assert "check 1 of 2" not in repo("verify", "fix limit").err  # in a pipe nothing moves


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_a_signal_ends_the_check_under_way_with_all_it_started(
    cli: "Cli", repo: Repository, number: signal.Signals, code: int
) -> None:
    repo.store("fix limit", "--check", "echo $$ > pid; exec sleep 600")
    child = cli.start("handoff", "verify", "fix limit")
    file = repo.folder / "pid"
    _wait(lambda: child.poll() is not None or (file.exists() and file.read_text().endswith("\n")))
    assert child.poll() is None
    pid = int(file.read_text())
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (code, ""), err
    _wait(lambda: not _is_alive(pid))
    with cli.opened() as outlast:
        assert [event.kind for event in outlast.handoff.history("fix limit")] == ["stored"]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nobody_who_reads_is_no_error(cli: "Cli", repo: Repository) -> None:
    repo.store()
    reading, writing = os.pipe()
    os.close(reading)
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.chdir(repo.folder)
        os.execve(_python(), [_python(), "-m", "outlast", "handoff", "show", "fix limit", "--json"], _env(cli))
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 141


def _python() -> str:
    import sys

    return sys.executable


def _env(cli: "Cli") -> dict[str, str]:
    return cli.environment()
