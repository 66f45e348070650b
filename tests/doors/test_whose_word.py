"""On every door: what is remembered of checks, whose word it is, who did what from where, and rivals."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Outlast
from outlast.python.handoffs import JUDGED

from .repository import Repository
from .server import Served, served

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

ANCHOR = "fix limit"
BOUND = {"root": "/work", "host": "there", "files": {"a.py": {"mode": "file", "digest": "1" * 64, "size": 1}}}
STORED = {
    "anchor": "word",
    "summary": "Stopped at the limit",
    "handoff_text": "Resume in a.py and set the limit.",
    "target_files": ["a.py"],
    "next_action": "Set the limit to 2 in a.py.",
    "acceptance_checks": ["make test"],
    "binding": BOUND,
}


@pytest.fixture
def repo(cli: "Cli") -> Repository:
    return Repository(cli)


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "keyed", keyed=True) as found:
        yield found


def codes(told: Any) -> list[str]:
    return [reason["code"] for reason in told["reasons"] if reason["weight"] == "contests"]


# -- it remembers ------------------------------------------------------------------------------------


def test_a_regression_is_remembered_by_recover_claim_list_and_inbox(repo: Repository) -> None:
    flag = repo.folder.parent / "flag"
    flag.touch()
    words = ("-m", "Stopped", "--next", "Set limit to 2 in app.py.", "--file", "app.py", "--check", f"test -f '{flag}'")
    assert repo("store", ANCHOR, *words, "--baseline").code == 0
    assert repo.forked("inbox", "--json").json["contested"] == []
    flag.unlink()
    assert repo("verify", ANCHOR).code == 4
    plain = repo("recover", ANCHOR)
    assert (plain.code, "verdict: contested" in plain.out, "checks_not_run" in plain.out) == (4, True, False)
    assert repo("claim", ANCHOR).code == 4
    listed = repo("list", "--contested", "--json").json["handoffs"]
    assert [one["anchor"] for one in listed] == [ANCHOR]
    (waiting,) = repo.forked("inbox", "--json").json["contested"]
    assert (waiting["anchor"], codes(waiting)) == (ANCHOR, ["check_regressed"])
    said = repo.forked("inbox").out
    assert f"handoff {ANCHOR} is contested: check_regressed" in said
    assert "no run waits" not in said


def test_the_inbox_of_python_http_and_client_has_what_is_contested(keyed: Served, tmp_path: Path) -> None:
    ann, ben = (keyed.keys().create(name, roles=["write"]).text for name in ("ann", "ben"))
    keyed.post("/v1/handoff/store", STORED, key=ann)
    assert keyed.get("/v1/inbox", key=ann).json["contested"] == []
    keyed.post("/v1/handoff/store", STORED | {"risk": "high"}, key=ben)
    told = keyed.get("/v1/inbox", key=ann).json
    (one,) = told["contested"]
    assert (told["items"], one["anchor"], one["scope"], codes(one["verdict"])) == ([], "word", "default", ["rival"])
    assert "contested" not in keyed.get("/v1/inbox?assignee=ann", key=ann).json
    with Outlast(f"http://127.0.0.1:{keyed.port}", key=ann) as remote:
        found = remote.inbox()
        assert ([*found], [each.anchor for each in found.contested]) == ([], ["word"])
        assert [*remote.inbox(type="approval").contested] == []
    with Outlast(tmp_path / "near") as outlast:
        for who, risk in (("ann", "low"), ("ben", "high")):
            near = {name: value for name, value in STORED.items() if name != "binding"}
            outlast.handoff.store(**near | {"risk": risk, "actor": who, "repo_root": str(tmp_path)})  # type: ignore[arg-type]
        (mine,) = outlast.inbox().contested
        assert mine.verdict is not None
        assert [reason.code for reason in mine.verdict.contesting] == ["rival"]


def test_what_a_server_judges_for_the_inbox_does_not_grow_and_nothing_is_hidden_from_who_asks_here(
    tmp_path: Path,
) -> None:
    with Outlast(tmp_path / "home", store_options={"synchronous": "OFF"}) as outlast:
        for number in range(JUDGED + 5):
            for who, risk in (("ann", "low"), ("ben", "high")):
                outlast.handoff.store(f"a{number}", "Stopped", "Open it.", risk=risk, actor=who, bind=False)
        found = outlast.inbox()
        assert [one.anchor for one in found.newest_contested] == [f"a{number}" for number in range(29, 4, -1)]
        assert len(found.contested) == len(outlast.handoff.list("contested")) == JUDGED + 5


# -- who said it -------------------------------------------------------------------------------------


def sight(server: Served, key: str, **ran: Any) -> dict[str, Any]:
    stored = server.post("/v1/handoff/store", STORED, key=key).json
    told = {"check": "make test", "passed": True, "host": "elsewhere"} | ran
    return {"handoff_id": stored["id"], "root": "/work", "binding": BOUND, "ran": [told]}


def test_what_curl_says_it_ran_is_a_clients_word_and_a_bare_passed_is_only_reported(keyed: Served) -> None:
    key = keyed.keys().create("builder", roles=["write"]).text
    for ran, runner, code in (({"exit": 0, "seconds": 1.5}, "client", []), ({}, "self", ["self_reported"])):
        seen = sight(keyed, key, **ran)
        told = keyed.post("/v1/handoff/verify", {"anchor": "word", "observed": [seen]}, key=key).json
        (evidence,) = told["evidence"]
        assert (evidence["by"], evidence["where"], evidence["runner"]) == ("builder", "elsewhere", runner)
        assert [each["code"] for each in told["reasons"] if each["weight"] == "weakens"] == code
        looked = {key: value for key, value in seen.items() if key != "ran"}
        again = keyed.post("/v1/handoff/recover", {"anchor": "word", "observed": [looked]}, key=key).json
        assert [each["code"] for each in again["reasons"] if each["weight"] == "weakens"] == code


def test_a_clients_failure_names_the_client(keyed: Served) -> None:
    key = keyed.keys().create("builder", roles=["write"]).text
    seen = sight(keyed, key, exit=0)
    failed = seen | {"ran": [seen["ran"][0] | {"passed": False, "exit": 2}]}
    for one in (seen, failed):
        told = keyed.post("/v1/handoff/verify", {"anchor": "word", "observed": [one]}, key=key).json
    (reason,) = [each for each in told["reasons"] if each["weight"] == "contests"]
    assert (reason["code"], reason["found"]) == ("check_regressed", "failed (exit 2), says client builder@elsewhere")


@pytest.mark.parametrize(("setting", "status"), [("", 200), ("evidence: runner\n", 409)])
def test_a_clients_run_completes_unless_the_home_wants_a_runners(tmp_path: Path, setting: str, status: int) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home/settings.yaml").write_text(setting)
    with served(tmp_path / "home", keyed=True) as server:
        key = server.keys().create("builder", roles=["write"]).text
        seen = sight(server, key, exit=0)
        done = {"anchor": "word", "outcome": "completed", "observed": [seen]}
        answer = server.post("/v1/handoff/settle", done, key=key)
        assert answer.status == status, answer.json
        if setting:
            assert (answer.code, "was not run by a runner" in answer.json["detail"]) == ("not_settled", True)


def test_a_setting_of_evidence_that_is_none_is_refused(repo: Repository) -> None:
    repo.store()
    (repo.folder / ".outlast/settings.yaml").write_text("evidence: hearsay\n")
    answer = repo("recover", ANCHOR)
    assert answer.code != 0
    assert "evidence is 'hearsay'" in answer.err


def test_each_line_of_history_names_the_door_it_came_in_by(keyed: Served, repo: Repository) -> None:
    key = keyed.keys().create("builder", roles=["write"]).text
    server_lines = keyed.post("/v1/handoff/verify", {"anchor": "word", "observed": [sight(keyed, key)]}, key=key)
    assert server_lines.status == 200
    told = keyed.get("/v1/handoff/history?anchor=word", key=key).json["items"]
    assert [(one["by"], one["host"], one["door"]) for one in told] == [("builder", "127.0.0.1", "http")] * 2
    repo.store()
    with Outlast(repo.folder / ".outlast") as outlast:
        (line,) = outlast.handoff.history(ANCHOR)
        assert (line.by, line.host, line.door) == ("local", outlast._executor.home.process.host, "cli")
    assert f"local@{line.host} (cli)" in repo("history", ANCHOR).out


# -- rivals ------------------------------------------------------------------------------------------


def test_two_commands_of_two_workers_name_each_other_until_somebody_looks(repo: Repository) -> None:
    repo.store(ANCHOR, "--actor", "ann")
    repo.store(ANCHOR, "--actor", "ben", "--risk", "high")
    for _ in range(2):
        told = repo("recover", ANCHOR, "--json")
        assert (told.code, codes(told.json)) == (4, ["rival"])
    (reason,) = [each for each in told.json["reasons"] if each["code"] == "rival"]
    assert "revision 1 by ann@" in reason["found"]
    assert reason["found"].endswith("was not read by ben; differs: risk")
    assert "rival" in repo("recover", ANCHOR).out
    assert "rival" in repo("recover", ANCHOR, "--prompt").out
    looks = reason["advice"].partition("look: outlast ")[2].partition(";")[0]
    assert looks.startswith(f"--home {repo.folder}/.outlast handoff diff ")
    assert looks.endswith(f" '{ANCHOR}' 1 2")
    assert repo("diff", ANCHOR, "1", "2").code == 0
    assert repo("recover", ANCHOR).code == 0


def test_a_script_that_stores_twice_is_no_rival_of_itself(repo: Repository) -> None:
    repo.store()
    repo.store(ANCHOR, "--risk", "high")
    assert repo("recover", ANCHOR).code == 0


def test_two_keys_of_a_server_are_two_workers(keyed: Served) -> None:
    ann, ben = (keyed.keys().create(name, roles=["write"]).text for name in ("ann", "ben"))
    keyed.post("/v1/handoff/store", STORED, key=ann)
    second = keyed.post("/v1/handoff/store", STORED | {"risk": "high"}, key=ben).json
    assert (second["unread"]["by"], second["unread"]["differs"]) == ("ann", ["risk"])
    for key in (ann, ben):
        assert codes(keyed.post("/v1/handoff/recover", {"anchor": "word"}, key=key).json) == ["rival"]
    assert keyed.get(f"/v1/handoffs/{second['id']}", key=ann).status == 200
    assert codes(keyed.post("/v1/handoff/recover", {"anchor": "word"}, key=ben).json) == []


def test_who_recovers_over_http_before_he_stores_is_no_rival(keyed: Served) -> None:
    ann, ben = (keyed.keys().create(name, roles=["write"]).text for name in ("ann", "ben"))
    keyed.post("/v1/handoff/store", STORED, key=ann)
    keyed.post("/v1/handoff/recover", {"anchor": "word"}, key=ben)
    assert keyed.post("/v1/handoff/store", STORED | {"risk": "high"}, key=ben).json["unread"] is None
