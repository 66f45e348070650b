"""Who did what is on record with the change itself: of schedules, queues, limits, keys, targets, and removed runs."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast import Keys, Outlast, Run, errors, flow, step
from outlast.care import acts as care
from outlast.doors.cli.group import cli
from outlast.python.door import found_home, noting_key
from outlast.worker.targets import Targets

from ..kit.postgres import server

_databases = count()
SECRET = "T0KEN/hunter2"


@step
def note(text: str) -> str:
    return text


@flow
def noting(run: Run, text: str = "kelp") -> str:
    return note(text)


@flow
def failing(run: Run, path: str) -> str:
    return Path(path).read_text()


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "home")
    else:
        yield server().new_database(f"acts{next(_databases)}")


@pytest.fixture
def ann(home: str) -> Iterator[Outlast]:
    with Outlast(home, actor="ann") as outlast:
        yield outlast


def told(outlast: Outlast, **asked: Any) -> list[tuple[str, str, str, str, str]]:
    return [(act.who, act.what, act.kind, act.name, act.said) for act in outlast.acts(**asked).items]


def of_all(outlast: Outlast, limit: int, **asked: Any) -> list[str]:
    """The numbers of all of them, page by page."""
    found, cursor = list[str](), ""
    while True:
        page = outlast.acts(limit=limit, cursor=cursor, **asked)
        assert len(page.items) <= limit
        found += [act.number for act in page.items]
        if page.next is None:
            return found
        cursor = page.next


def test_a_schedule_says_who_changed_it_from_what_to_what(ann: Outlast) -> None:
    bob = ann._acting(actor="bob")
    ann.schedules.add("nightly", noting, cron="0 7 * * *")
    bob.schedules.add("nightly", noting, cron="0 8 * * *", inputs={"text": SECRET})
    bob.schedules.add("nightly", noting, cron="0 8 * * *", inputs={"text": SECRET})  # changes nothing
    bob.schedules.pause("nightly")
    ann.schedules.resume("nightly")
    ann.schedules.resume("nightly")  # nor does this
    run = ann.schedules.trigger("nightly", operation_id="once")
    assert ann.schedules.trigger("nightly", operation_id="once").id == run.id
    bob.schedules.remove("nightly")
    found = told(ann, kind="schedule")
    assert [each[:2] for each in found] == [
        ("bob", "removed"), ("ann", "triggered"), ("ann", "resumed"),
        ("bob", "paused"), ("bob", "changed"), ("ann", "added"),
    ]  # fmt: skip
    assert found[1][4] == f"run {run.id}"
    assert found[4][4].startswith("cron 0 7 * * * → 0 8 * * *; inputs sha256:")
    assert "inputs" not in found[5][4]
    assert SECRET not in str(found)
    assert {act.scope for act in ann.acts(kind="schedule").items} == {"default"}


def test_a_change_that_did_not_happen_is_on_no_record(ann: Outlast) -> None:
    for change in (
        lambda: ann.schedules.remove("none"),
        lambda: ann.pause_queue("none"),
        lambda: ann.remove_limit("none"),
        lambda: ann.set_limit("api", rate="never"),
    ):
        with pytest.raises(errors.OutlastError):
            change()
    assert told(ann) == []


def test_queues_and_limits_say_who_changed_them(ann: Outlast) -> None:
    bob = ann._acting(actor="bob")
    ann.with_options(queue="agents").start(noting)
    bob.pause_queue("agents")
    ann.pause_queue("agents")  # it is so already
    ann.resume_queue("agents")
    ann.move_queue("agents", to="temporal")
    bob.set_limit("api", concurrency=4, rate="30/m", operation_id="once")
    bob.set_limit("api", concurrency=4, rate="30/m", operation_id="once")
    ann.set_limit("api", concurrency=2)
    bob.remove_limit("api")
    assert told(ann, kind="limit") == [
        ("bob", "removed", "limit", "api", "concurrency was 2"),
        ("ann", "set", "limit", "api", "concurrency 4 → 2; rate was 30/m"),
        ("bob", "set", "limit", "api", "concurrency 4; rate 30/m"),
    ]
    assert told(ann, kind="queue") == [
        ("ann", "moved", "queue", "agents", "engine outlast → temporal"),
        ("ann", "resumed", "queue", "agents", ""),
        ("bob", "paused", "queue", "agents", ""),
    ]


def test_who_resumes_a_run_is_on_record_and_what_goes_on_by_itself_is_nobodys(ann: Outlast, tmp_path: Path) -> None:
    run = ann.run(failing, str(tmp_path / "later")).run_id
    assert ann._acting(actor="bob").resume(run).status == "failed"
    (tmp_path / "later").write_text("kelp")
    assert ann._wake(run).status == "succeeded"
    assert [each[:4] for each in told(ann, kind="run")] == [
        ("bob", "resumed", "run", run),
        ("ann", "started", "run", run),
    ]
    assert next(item.note for item in ann.timeline(run) if item.name == "resumed").endswith("by bob")


def test_who_removed_runs_is_on_record_when_they_are_gone(ann: Outlast) -> None:
    runs = [ann.run(noting, f"kelp {number}").run_id for number in range(3)]
    alone = ann._acting(scope="web").run(noting, "alone").run_id
    ann._acting(actor="bob").gc(keep=0, dry_run=False)
    found = ann.acts()
    assert ann.runs() == []
    assert {(act.who, act.what, act.kind, act.name, act.scope) for act in found.items} == {
        ("bob", "removed", "run", "", "default"),
        ("bob", "removed", "run", alone, "web"),
    }
    (several,) = [act for act in found.items if not act.name]
    assert sorted(several.changes["runs"][0]) == sorted(runs)


def test_all_of_it_is_one_order_whatever_it_was_done_to(ann: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
    ann.set_limit("first", concurrency=1)
    for number in range(4):
        ann.run(noting, f"kelp {number}")
        ann.handoff.store(f"task:{number}", "Stopped", "Open a.py.", bind=False)
        ann.set_limit("api", concurrency=number + 1)
        ann.set_limit("api", concurrency=number + 101)
    found = told(ann, limit=100)
    assert [each[2] for each in found] == [*["limit", "limit", "handoff", "run"] * 4, "limit"]
    everything = [act.number for act in ann.acts(limit=100).items]
    monkeypatch.setattr(care, "AT_A_TIME", 3)
    monkeypatch.setattr(care, "RECORDED", 2)
    for limit in (1, 2, 3, 7):
        assert of_all(ann, limit) == everything
        assert len(of_all(ann, limit, kind="limit")) == 9
        assert len(of_all(ann, limit, kind="run")) == 4


def test_they_are_found_by_who_by_kind_and_by_when(home: str) -> None:
    with Outlast(home, actor="ann") as ann:
        ann.run(noting)
        ann._acting(actor="bob").set_limit("api", concurrency=1)
        ann._acting(actor="bob", scope="web").run(noting)
        assert [each[0] for each in told(ann, by="bob")] == ["bob", "bob"]
        assert [each[2] for each in told(ann, by="bob", kind="run")] == ["run"]
        assert [act.scope for act in ann.acts(scope="web").items] == ["web"]
        assert len(told(ann, since="1h")) == 3
        assert told(ann, since=timedelta(0)) == []
        assert told(ann, by="carla") == []
        for wrong in ({"kind": "cake"}, {"since": "yesterday"}, {"limit": 0}, {"cursor": "x"}, {"cursor": "1.2.3"}):
            with pytest.raises(errors.ValueRefused):
                ann.acts(**wrong)  # type: ignore[arg-type]


def test_keys_are_on_record_and_their_text_is_not(home: str) -> None:
    with Outlast(home, actor="ann") as ann:
        found = found_home(ann)
        assert found is not None
        keys = Keys(found)
        made = keys.create("carla", roles=["read", "approve"], scopes=["web"], noting=noting_key(ann, "made"))
        bob = noting_key(ann._acting(actor="bob"), "revoked")
        revoked = keys.revoke(made.key.id, bob).revoked_at
        assert keys.revoke(made.key.id, bob).revoked_at == revoked  # a second time changes nothing
        keys.close()
        assert told(ann) == [
            ("bob", "revoked", "key", made.key.id, "actor was carla; roles was read, approve; scopes was web"),
            ("ann", "made", "key", made.key.id, "actor carla; roles read, approve; scopes web"),
        ]
        assert made.text not in str(ann.acts())
        assert ann.verify().ok


def test_a_key_is_ended_also_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "home")
    outlast = Outlast(tmp_path / "home")
    made = keys.create("carla", noting=noting_key(outlast, "made"))
    outlast.close()
    assert keys.revoke(made.key.id, noting_key(outlast, "revoked")).revoked_at is not None
    with pytest.raises(errors.OutlastError):
        keys.create("dora", noting=noting_key(outlast, "made"))
    assert [key.actor for key in keys.list()] == ["carla"]
    keys.close()


# -- two writes ----------------------------------------------------------------------------------------


def run_command(home: Path, *words: str, kill_at: str = "") -> int:
    environment = {"OUTLAST_FAILPOINT": kill_at, "PATH": "/usr/bin:/bin", "OUTLAST_ACTOR": "ann"}
    done = subprocess.run(
        [sys.executable, "-m", "outlast", *words, "--home", str(home)],
        env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode


@pytest.mark.crash
@pytest.mark.parametrize(("point", "happened"), [("act.begun", False), ("act.ended", True)])
def test_who_dies_between_a_key_or_a_target_and_its_record_leaves_it_as_begun(
    tmp_path: Path, point: str, happened: bool
) -> None:
    home = tmp_path / "home"
    assert run_command(home, "keys", "create", "--actor", "carla", kill_at=point) == -signal.SIGKILL
    add = ("notify", "add", "ops", "webhook", f"https://hooks.example/{SECRET}")
    assert run_command(home, *add, kill_at=point) == -signal.SIGKILL
    keys = Keys(home)
    with Outlast(home) as outlast:
        made, added = (outlast.acts(kind=kind).items[0] for kind in ("key", "target"))
        assert (made.who, made.what, made.done) == ("ann", "made", False)
        assert (added.who, added.what, added.done) == ("ann", "added", False)
        assert "nobody has put on record that it was done" in made.said
        assert SECRET not in str(outlast.acts())
        assert [key.id for key in keys.list()] == ([made.name] if happened else [])
        assert [target.name for target in Targets(home).all()] == (["ops"] if happened else [])
        assert outlast.verify().ok
    keys.close()
    assert run_command(home, *add) == 0
    with Outlast(home) as outlast:
        again = outlast.acts(kind="target").items[0]
        assert (again.what, again.done) == ("changed" if happened else "added", True)


# -- on the command line -------------------------------------------------------------------------------


def test_the_command_tells_them_and_says_when_there_are_none(tmp_path: Path) -> None:
    home = ["--home", str(tmp_path / "home")]

    def said(*words: str) -> str:
        result = CliRunner().invoke(cli, [*words, *home], env={"OUTLAST_ACTOR": "ann"})
        assert result.exit_code == 0, result.output
        return result.output

    said("limit", "set", "api", "--concurrency", "4")
    said("keys", "create", "--actor", "carla", "--role", "read")
    said("notify", "add", "ops", "webhook", f"https://hooks.example/{SECRET}")
    said("notify", "remove", "ops")
    shown = said("acts")
    assert [line.split()[3:5] for line in shown.splitlines()[1:]] == [
        ["ann", "removed"], ["ann", "added"], ["ann", "made"], ["ann", "set"],
    ]  # fmt: skip
    assert "to hooks.example" in shown
    assert SECRET not in shown
    assert "those before: the same with --cursor" in said("acts", "--limit", "2")
    assert "no such acts" in said("acts", "--by", "nobody")
    assert '"what":"set"' in said("acts", "--kind", "limit", "--json").replace(" ", "")
