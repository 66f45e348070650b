"""A home whose ledger is in PostgreSQL: the same runs and handoffs, shared by every process that names it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from outlast import Outlast, Settings
from outlast.clock import SharedClock
from outlast.errors import Unauthenticated
from outlast.flows.loading import load_module
from outlast.home.keys import Keys
from outlast.home.place import FoundHome, folder_beside, tenants_of
from outlast.worker.notify import Notifier
from outlast.worker.place import WorkPlace
from outlast.worker.targets import Target

from ..kit.postgres import server
from ..ready import completed

FLOWS = """
import os, signal
from outlast import Outlast, Run, effect, flow, step

def ran(what):
    with open(os.environ["LOG"], "a") as log:
        log.write(what + "\\n")

@step
def fetch(topic: str) -> str:
    ran("fetch")
    return topic * 3

@effect
def publish(text: str) -> str:
    ran("publish")
    if os.environ.get("DIE") == "publish":
        os.kill(os.getpid(), signal.SIGKILL)
    return "published " + text

@step
def tell(said: str) -> str:
    ran("tell")
    if os.environ.get("DIE") == "tell":
        os.kill(os.getpid(), signal.SIGKILL)
    return said

@flow
def report(run: Run, topic: str) -> str:
    text = fetch(topic)
    return tell(publish(text))

if __name__ == "__main__":
    with Outlast() as outlast:
        print(outlast.run(report, "kelp", task="monday").unwrap())
"""
_numbers = count(1)


@pytest.fixture
def url() -> str:
    """A database of its own."""
    return server().new_database(f"home{os.getpid()}_{next(_numbers)}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTLAST_FOLDER", str(tmp_path / "beside"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def outlast(url: str, folder: Path) -> Iterator[Outlast]:
    with Outlast(url) as opened:
        yield opened


def started(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "OUTLAST_HOME": url, **environment}
    return completed(("flows.py",), env=known, capture_output=True, text=True)


def ran(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def test_a_killed_run_goes_on_in_another_process_and_repeats_nothing_that_was_given(url: str, folder: Path) -> None:
    assert started(url, DIE="tell").returncode == -signal.SIGKILL
    assert ran(folder) == ["fetch", "publish", "tell"]
    again = started(url)
    assert again.stdout == "published kelpkelpkelp\n", again.stderr
    assert ran(folder) == ["fetch", "publish", "tell", "tell"]
    assert started(url).stdout == "published kelpkelpkelp\n"  # a named task happens once
    assert len(ran(folder)) == 4


def test_an_effect_in_whose_midst_its_process_died_is_not_done_again(url: str, folder: Path) -> None:
    assert started(url, DIE="publish").returncode == -signal.SIGKILL
    assert started(url).returncode != 0
    assert ran(folder).count("publish") == 1
    with Outlast(url) as outlast:
        (wait,) = outlast.interrupts()
        assert wait.type == "in_doubt"


def test_everything_verifies_and_the_ledger_is_nowhere_in_the_folder(url: str, folder: Path) -> None:
    started(url)
    with Outlast(url) as outlast:
        assert outlast.verify().ok
    assert list(folder.rglob("*.db")) == []


def test_a_handoff_is_stored_by_one_process_and_recovered_by_another(url: str, folder: Path) -> None:
    (folder / "export.py").write_text("def export(): return 1\n")
    with Outlast(url) as outlast:
        outlast.handoff.store(
            anchor="task:export",
            summary="Pause after diagnosis",
            handoff_text="Resume in export.py.",
            target_files=["export.py"],
            next_action="Patch the serializer.",
            acceptance_checks=["grep -q patched export.py"],
        )
    with Outlast(url, actor="second-agent") as another:
        found = another.handoff.recover("task:export", claim=True)
        assert str(found.verdict) == "trusted"
        (folder / "export.py").write_text("def export(): return 'patched'\n")
        another.handoff.settle("task:export", "completed")
        assert another.verify().ok


def test_commands_find_the_home_by_its_url(url: str, folder: Path) -> None:
    started(url)
    command = ("-m", "outlast", "--home", url, "runs", "--json")
    said = completed(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    assert "report" in said.stdout


def test_the_time_is_the_servers(outlast: Outlast) -> None:
    home = outlast._executor.home
    assert isinstance(home.clock, SharedClock)
    assert home.store.ahead is not None
    assert abs(home.store.ahead()) < 60_000_000


def test_the_folder_beside_it_does_not_depend_on_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_FOLDER", raising=False)
    first, second = (folder_beside(f"postgresql://me:{word}@host:5432/db") for word in ("one", "two"))
    assert first == second != folder_beside("postgresql://me:one@host:5432/other")


def command(url: str, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """What a command said, of the home in the database."""
    line = ("-m", "outlast", *words, "--home", url)
    return completed(line, capture_output=True, text=True, timeout=60, input=given)


def told(url: str, *words: str) -> Any:
    said = command(url, *words, "--json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_every_looking_command_works_on_it(url: str, folder: Path) -> None:
    started(url)
    (run,) = told(url, "runs")["runs"]
    for words in (("show", run["id"]), ("receipts", run["id"]), ("verify",), ("gc",), ("events", run["id"])):
        assert command(url, *words, "--json").returncode == 0, words
    found = json.loads(command(url, "doctor", "--quick", "--json").stdout)
    assert found["tenants"] == ["default"]
    assert [each.split()[0] for each in found["problems"]] == ["fsync", "full_page_writes"]  # of the server of tests


def test_a_run_leaves_on_a_file_and_comes_into_a_folder(url: str, folder: Path) -> None:
    started(url)
    (run,) = told(url, "runs")["runs"]
    told(url, "export", run["id"], str(folder / "run.outlast"))
    into = str(folder / "other")
    assert told(into, "import", str(folder / "run.outlast"))
    assert [each["id"] for each in told(into, "runs")["runs"]] == [run["id"]]


def test_recall_finds_the_same_in_the_same_order_as_in_a_file(url: str, folder: Path) -> None:
    words = ("tides", "kelp", "a ship", "the harbour", "eels", "an export", "time zones", "the moon")
    texts = [f"{one} and {other} on day {number}" for number, one in enumerate(words) for other in words]
    found = []
    for home in (url, folder / "file"):
        with Outlast(home) as outlast:
            outlast.workspace.record_many([{"kind": "note", "text": text, "source": text[:9]} for text in texts])
            packs = [outlast.workspace.recall(f"what about {word} and the moon?", 400) for word in words]
            found.append([[(entry.excerpt, entry.why) for entry in pack.entries] for pack in packs])
    assert found[0] == found[1]
    assert all(found[0])


def test_keys_are_in_the_database_for_every_machine_that_serves_it(url: str, folder: Path) -> None:
    assert told(url, "keys", "list")["keys"] == []
    made = told(url, "keys", "create", "--actor", "ann", "--role", "read")
    with closing(Keys(FoundHome(folder / "another-machine", database=url))) as keys:
        assert keys.check(made["key"]).actor == "ann"
        keys.used(keys.check(made["key"]))
        told(url, "keys", "revoke", made["id"])
        with pytest.raises(Unauthenticated, match="revoked"):
            keys.check(made["key"])
        assert keys.is_any()
        assert [key.last_used_at is not None for key in keys.list()] == [True]
    assert not (folder / "beside" / "keys.db").exists()


def test_a_key_that_was_changed_behind_our_back_lets_nobody_in_and_verify_names_it(url: str, folder: Path) -> None:
    made = told(url, "keys", "create", "--actor", "ann", "--role", "read")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE outlast_keys.keys SET roles = '[\"admin\"]'")
    with closing(Keys(FoundHome(folder, database=url))) as keys, pytest.raises(Unauthenticated, match="not what was"):
        keys.check(made["key"])
    with Outlast(url) as outlast:
        assert [problem.record for problem in outlast.verify().problems] == [f"key {made['id']}"]


def test_a_table_of_keys_that_is_gone_opens_the_door_to_nobody(url: str, folder: Path) -> None:
    told(url, "keys", "create", "--actor", "ann", "--role", "read")
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE outlast_keys.keys")
    with closing(Keys(FoundHome(folder, database=url))) as keys:
        assert (keys.is_any(), keys.are_gone(), keys.list()) == (True, True, [])
    with Outlast(url) as outlast:
        assert [problem.record for problem in outlast.verify().problems] == ["keys.db"]


def test_a_server_serves_it_to_every_tenant_by_key_and_works_on_its_flows(url: str, folder: Path) -> None:
    flows = load_module("flows.py", folder)
    key = told(url, "keys", "create", "--actor", "ann", "--role", "admin")["key"]
    other = told(url, "keys", "create", "--actor", "bob", "--tenant", "Harbour-2")["key"]
    line = [sys.executable, "-m", "outlast", "serve", "--home", url, "--port", "0", "--flows", "flows.py", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        try:
            assert serving.stdout is not None
            ready = json.loads(serving.stdout.readline())
            assert ready["home"] == url
            with (
                Outlast(ready["address"], key=key) as ann,
                Outlast(ready["address"], key=other, tenant="Harbour-2") as bob,
            ):
                assert ann.run(flows.report, "kelp").unwrap() == "published kelpkelpkelp"
                assert bob.runs() == []
        finally:
            serving.terminate()
    with Outlast(url) as outlast:
        assert [run.status for run in outlast.runs()] == ["succeeded"]
    assert tenants_of(FoundHome(folder, database=url)) == ["Harbour-2", "default"]


def test_what_works_on_a_folder_only_says_what_to_do_instead(url: str, folder: Path) -> None:
    said = command(url, "backup", "kept.outlast")
    assert said.returncode != 0
    assert "pg_dump" in said.stderr
    assert "move --to DIR`" in said.stderr


def test_a_command_of_a_flow_finds_the_same_home(url: str, folder: Path) -> None:
    (folder / "flow.yaml").write_text(
        f"flow: told\nsteps:\n  - id: look\n    run: {sys.executable} -m outlast runs --json > seen.json\n"
    )
    said = command(url, "run", "flow.yaml")
    assert said.returncode == 0, said.stderr
    assert [run["flow"] for run in json.loads((folder / "seen.json").read_text())["runs"]] == [
        f"{folder}/flow.yaml:told"
    ]


def test_a_password_is_in_no_command_that_is_shown(url: str, folder: Path) -> None:
    with_password = url.replace("postgresql:///", "postgresql://outlast:hidden@/", 1).replace("&user=outlast", "")
    started(with_password, DIE="publish")
    said = command(with_password, "runs")
    shown = command(with_password, "show", told(with_password, "runs")["runs"][0]["id"])
    assert "hidden" not in said.stdout + said.stderr + shown.stdout + shown.stderr


def test_of_two_machines_that_work_on_it_one_tells_and_the_other_knows(url: str, folder: Path) -> None:
    told = folder / "told.jsonl"
    target = Target("log", "command", f"cat >> {told}; echo >> {told}", on=("finished",))
    flow = load_module("flows.py", folder).report
    with Outlast(url) as outlast, Outlast(url) as another:
        tellers = [
            Notifier(each, folder / f"machine{number}", "default") for number, each in enumerate((outlast, another))
        ]
        for each in tellers:
            each.begin(each.targets.add(target))
        runs = [outlast.run(flow, "kelp", task=f"{number}").run_id for number in range(3)]
        assert [each.send_all() for each in tellers] == [3, 0]
        runs.append(outlast.run(flow, "kelp", task="last").run_id)
        assert [each.send_all() for each in reversed(tellers)] == [1, 0]
    assert [json.loads(line)["run_id"] for line in told.read_text().splitlines()] == runs


def test_workers_of_one_database_look_for_the_dead_by_turns(url: str, folder: Path) -> None:
    """However many there are, all of them together look about twice a second: each of forty after ten seconds."""
    settings = Settings(lease_seconds=300.0)
    with Outlast(FoundHome(folder / "beside", database=url), settings=settings) as outlast:
        others = [WorkPlace(outlast, lambda: None, only_given=False) for _ in range(40)]
        outlast.with_options(queue="later").start(load_module("flows.py", folder).report, "kelp")  # it may be taken
        for other in others:
            other.enlist(1)
            other.unhook()
        assert list(others[-1].due()) == []
        assert 1.0 < others[-1].seconds_left() < 31.0
        for other in others:
            other.leave()
