"""Handoffs of a server, their files where the client is: the server has none of them."""

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import (
    ClaimLost,
    Finished,
    HandoffAmbiguous,
    HandoffClaimed,
    HandoffInvalid,
    HandoffNotFound,
    IntegrityBroken,
    NotSettled,
)

from .client_story import Plain, git, make_repository
from .server import Served, served

FLOWS = str(Path(__file__).with_name("http_flows.py"))
CHECK = "grep -q 'limit = 2' app.py"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", flows=(FLOWS,)) as found:
        yield found


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Served]:
    """One that has keys, and lets nobody in without."""
    with served(tmp_path / "keyed", keyed=True) as found:
        yield found


@pytest.fixture
def outlast(server: Served) -> Iterator[Outlast]:
    with Outlast(f"http://127.0.0.1:{server.port}") as found:
        yield found


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_repository(tmp_path / "repo")
    monkeypatch.chdir(found)
    return found


def store(outlast: Outlast, anchor: str, **more: Any) -> Any:
    given: dict[str, Any] = {
        "target_files": ["app.py"],
        "next_action": "Set the limit to 2 in app.py.",
        "acceptance_checks": [CHECK],
    }
    return outlast.handoff.store(anchor, "Stopped at the limit", "Resume in app.py and set the limit.", **given | more)


def codes(got: Any) -> set[str]:
    return {reason.code for reason in got.reasons}


# the same story


def story(outlast: Outlast, repo: Path) -> list[Any]:
    """Everything that can happen to a handoff, told by what the calls give."""
    told: list[Any] = []
    (repo / "app.py").write_text("limit = 1\n# under way\n")
    must = {"file": "app.py", "contains": "limit"}
    told.append(
        store(outlast, "task:s", must_keep=[must, "keep the tests"], execution_state_v1='{"a":  1.50}', baseline=True)
    )
    told.append(outlast.handoff.recover("task:s"))
    told.append(outlast.handoff.recover())
    told.append(outlast.handoff.recover(file_path="app.py", run_checks=True))
    (repo / "app.py").write_text("nothing\n")
    told.append(outlast.handoff.recover("task:s"))
    told.append(outlast.handoff.recover("task:s", claim=True))
    told.append(outlast.handoff.list("contested"))
    told.append(outlast.handoff.list(look=True))
    told.append(outlast.handoff.diff("task:s"))
    git(repo, "checkout", "-q", ".")
    told.append(outlast.handoff.apply("task:s"))
    told.append((repo / "app.py").read_text())
    told.append(outlast.handoff.claim("task:s", operation_id="claim-1"))
    told.append(outlast.handoff.claim("task:s", operation_id="claim-1").replayed)
    (repo / "app.py").write_text("limit = 3\n")
    told.append(outlast.handoff.verify("task:s"))
    with pytest.raises(NotSettled) as refused:
        outlast.handoff.settle("task:s", "completed")
    told.append(str(refused.value))
    told.append(getattr(refused.value, "__notes__", []))
    (repo / "app.py").write_text("limit = 2\n")
    told.append(outlast.handoff.renew("task:s"))
    told.append(outlast.handoff.settle("task:s", "completed", acknowledged=["keep the tests"], operation_id="settle-1"))
    told.append(outlast.handoff.settle("task:s", "completed", acknowledged=["keep the tests"], operation_id="settle-1"))
    with pytest.raises(Finished) as finished:
        outlast.handoff.recover("task:s")
    told.append(str(finished.value))
    told.append(outlast.handoff.recover("task:s", include_finished=True))
    told.append(store(outlast, "task:s", bind=False))
    told.append(outlast.handoff.get(anchor="task:s", revision=1))
    told.append(outlast.handoff.diff("task:s", revisions=(1, 2)))
    told.append([each.kind for each in outlast.handoff.history("task:s")])
    told.append(outlast.handoff.output(told[3].evidence[0]))
    told.append(outlast.handoff.list())
    return told


def test_the_same_story_gives_the_same_values(server: Served, tmp_path: Path, repo: Path) -> None:
    with Outlast(tmp_path / "embedded" / "home", scope="story") as embedded:
        there = Plain()(story(embedded, repo))
    git(repo, "checkout", "-q", ".")
    with Outlast(f"http://127.0.0.1:{server.port}", scope="story") as remote:
        here = Plain()(story(remote, repo))
    for place, (wanted, found) in enumerate(zip(there, here, strict=True)):
        assert found == wanted, place


def task_story(outlast: Outlast, repo: Path) -> list[Any]:
    told: list[Any] = []
    (repo / "app.py").write_text("limit = 1\n")
    ann, ben = (outlast.tasks.open("fix limit", actor=who) for who in ("ann", "ben"))
    fields = {"target_files": ["app.py"], "next_action": "Set it to 2.", "acceptance_checks": [CHECK]}
    told.append(ann.pause_task("Stopped at the limit", "Resume in app.py", **fields))
    told.append(ann.inspect_task_context())
    told.append(ann.resume_task())
    with pytest.raises(HandoffClaimed) as held:
        ben.resume_task()
    told.append(type(held.value))
    told.append([each for each in ben.inspect_task_context().allowed_actions if each.name == "complete"])
    with pytest.raises(NotSettled) as refused:
        ann.complete_task()
    told.append(str(refused.value))
    (repo / "app.py").write_text("limit = 2\n")
    told.append(ann.record_event("tried", {"times": 2}))
    told.append(ann.complete_task(operation_id="done-1"))
    told.append(outlast.tasks.get("fix limit"))
    told.append(ann.events())
    told.append(outlast.tasks.list("completed"))
    told.append(ann.inspect_task_context())
    return told


def test_a_task_goes_through_the_same_states(server: Served, tmp_path: Path, repo: Path) -> None:
    with Outlast(tmp_path / "embedded" / "home", scope="tasks") as embedded:
        there = Plain()(task_story(embedded, repo))
    with Outlast(f"http://127.0.0.1:{server.port}", scope="tasks") as remote:
        here = Plain()(task_story(remote, repo))
    for place, (wanted, found) in enumerate(zip(there, here, strict=True)):
        assert found == wanted, place


# files where the client is


def test_a_changed_file_contests_though_the_server_has_no_such_file(
    outlast: Outlast, repo: Path, server: Served
) -> None:
    stored = store(outlast, "changed")
    assert stored.binding.files["app.py"].kept
    assert str(outlast.handoff.recover("changed").verdict) == "trusted"
    (repo / "app.py").write_text("limit = 9\n")
    got = outlast.handoff.recover("changed")
    assert (str(got.verdict), codes(got) & {"file_changed"}) == ("contested", {"file_changed"})
    assert outlast.handoff.recover("changed", claim=True).resume == "lost"
    (repo / "app.py").unlink()
    assert "file_missing" in codes(outlast.handoff.recover("changed"))
    with server.opened() as there:
        seen = there.handoff.recover("changed", repo_root=str(repo.parent))
    assert "file_missing" in codes(seen)


def test_another_clone_applies_the_work(
    outlast: Outlast, repo: Path, tmp_path: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "app.py").write_text("limit = 2\n")
    (repo / "notes.md").write_text("# more\n")
    store(outlast, "carry")
    git(tmp_path, "clone", "-q", str(repo), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    with Outlast(f"http://127.0.0.1:{server.port}") as other:
        assert other.handoff.apply("carry", dry_run=True).done is False
        assert other.handoff.apply("carry").done
        assert str(other.handoff.recover("carry").verdict) == "trusted"
    assert (tmp_path / "clone" / "app.py").read_text() == "limit = 2\n"
    assert (tmp_path / "clone" / "notes.md").read_text() == "# more\n"


def test_elsewhere_nobody_can_look(
    outlast: Outlast, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(outlast, "elsewhere")
    (tmp_path / "unrelated").mkdir()
    monkeypatch.chdir(tmp_path / "unrelated")
    (repo / ".git").rename(repo / "gone")
    assert "other_place" in codes(outlast.handoff.recover("elsewhere"))
    with pytest.raises(HandoffInvalid, match="not here"):
        outlast.handoff.recover("elsewhere", run_checks=True)
    with pytest.raises(NotSettled, match="not here"):
        outlast.handoff.settle("elsewhere", "completed")


def test_a_revision_that_came_meanwhile_is_looked_at_before_it_is_claimed(
    outlast: Outlast, repo: Path, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the claim somebody stores another revision, of a file that is not as it says."""
    from outlast.remote.observe import ObservedCall

    store(outlast, "moves")
    (repo / "notes.md").write_text("# then\n")
    before, stored = ObservedCall._sighting, []

    def meanwhile(self: ObservedCall, handoff: Any, *, with_checks: bool) -> Any:
        seen = before(self, handoff, with_checks=with_checks)
        if not stored:
            with server.opened() as there:
                stored.append(store(there, "moves", target_files=["notes.md"], repo_root=str(repo)))
            (repo / "notes.md").write_text("# now\n")
        return seen

    monkeypatch.setattr(ObservedCall, "_sighting", meanwhile)
    got = outlast.handoff.recover("moves", claim=True)
    assert (got.handoff.revision, got.resume, got.claim) == (2, "lost", None)
    assert "file_changed" in codes(got)


def test_a_claim_is_this_clients_own(outlast: Outlast, repo: Path, server: Served) -> None:
    store(outlast, "mine")
    claim = outlast.handoff.claim("mine")
    with Outlast(f"http://127.0.0.1:{server.port}") as other:
        with pytest.raises(HandoffClaimed):
            other.handoff.claim("mine")
        assert "claimed" in codes(other.handoff.recover("mine"))
        assert other.handoff.renew("mine", claim_id=claim.id).id == claim.id
    (repo / "app.py").write_text("limit = 2\n")
    assert store(outlast, "mine").rival == ""
    assert "partial_work" not in codes(outlast.handoff.recover("mine", claim=True))
    assert outlast.handoff.settle("mine", "released", missing=["time"]).outcome == "released"
    with pytest.raises(ClaimLost):
        outlast.handoff.renew("mine", claim_id=claim.id)


def test_of_many_clients_one_gets_the_claim(outlast: Outlast, repo: Path, server: Served) -> None:
    store(outlast, "many")
    got: list[str] = []

    def take() -> None:
        with Outlast(f"http://127.0.0.1:{server.port}") as mine:
            got.append(mine.handoff.recover("many", claim=True).resume)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(got) == ["attached", *["lost"] * 5]


def test_by_file_and_branch_only_what_is_here_is_meant(
    outlast: Outlast, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = {"scope": "near"}
    store(outlast, "one", **scope)
    other = make_repository(tmp_path / "other")
    (other / "new.txt").write_text("x")
    git(other, "add", ".")
    git(other, "commit", "-q", "--amend", "-m", "other")  # else both begin with the same commit
    monkeypatch.chdir(other)
    store(outlast, "two", repo_root=str(other), **scope)
    assert outlast.handoff.recover(**scope).anchor == "two"
    monkeypatch.chdir(repo)
    assert outlast.handoff.recover(**scope).anchor == "one"
    assert outlast.handoff.recover(file_path=str(repo / "app.py"), **scope).anchor == "one"
    store(outlast, "three", **scope)
    with pytest.raises(HandoffAmbiguous, match="one"):
        outlast.handoff.recover(file_path="app.py", **scope)
    git(repo, "checkout", "-q", "-b", "elsewhere")
    with pytest.raises(HandoffNotFound, match="three"):
        outlast.handoff.recover(**scope)


def test_secrets_of_the_servers_own_kind_are_not_kept(tmp_path: Path, repo: Path) -> None:
    home = tmp_path / "guarded"
    home.mkdir()
    (home / "secrets.yaml").write_text("badge:\n  pattern: 'BADGE-[0-9]{6}'\n")
    (repo / "app.py").write_text("who = 'BADGE-123456'\n")
    with served(home) as server, Outlast(f"http://127.0.0.1:{server.port}") as outlast:
        bound = store(outlast, "guarded").binding
    assert (bound.files["app.py"].kept, bound.files["app.py"].why) == ("", "secret")
    assert (bound.patch, bound.patch_why) == ("", "secret")


# what a request may say of files

BOUND = {"root": "/work", "host": "h", "files": {"a.py": {"mode": "absent"}}}
WRONG_BINDINGS = [
    BOUND | {"files": {}},
    BOUND | {"files": {"a.py": {"mode": "absent"}, "b.py": {"mode": "absent"}}},
    BOUND | {"files": {"a.py": {"mode": "absent"}, "../b": {"mode": "absent"}}},
    BOUND | {"files": {"a.py": {"mode": "absent"}}, "environment": {"x": {"mode": "absent"}}},
    BOUND | {"files": {"a.py": {"mode": "file", "digest": "zz"}}},
    BOUND | {"files": {"a.py": {"mode": "file", "digest": "a" * 64, "kept": "b" * 64}}},
    BOUND | {"files": {"a.py": {"mode": "file", "digest": "a" * 64, "kept": "a" * 64}}},
    BOUND | {"folders": ["other"]},
    BOUND | {"commit": "not hex"},
    BOUND | {"patch": "a" * 64},
    BOUND | {"root": "x" * 5000},
]


@pytest.mark.parametrize("binding", WRONG_BINDINGS, ids=range(len(WRONG_BINDINGS)))
def test_a_binding_is_only_of_the_handoffs_files_and_of_content_that_is_there(server: Served, binding: Any) -> None:
    body = {"anchor": "b", "summary": "s", "handoff_text": "t", "target_files": ["a.py"], "binding": binding}
    reply = server.post("/v1/handoff/store", body)
    assert (reply.status, reply.code) == (422, "handoff_invalid"), reply.raw
    assert server.get("/v1/handoff?anchor=b").status == 404


def test_fields_that_nobody_knows_are_refused(server: Served) -> None:
    body = {"anchor": "b", "summary": "s", "handoff_text": "t", "binding": BOUND | {"colour": "red"}}
    assert server.post("/v1/handoff/store", body).json["path"] == "binding.colour"


def test_what_was_seen_of_another_revision_counts_for_nothing(server: Served) -> None:
    fields = {"anchor": "seen", "summary": "s", "handoff_text": "t", "target_files": ["a.py"], "binding": BOUND}
    first = server.post("/v1/handoff/store", fields).json
    seen = {"handoff_id": first["id"], "root": "/work", "binding": BOUND}
    got = server.post("/v1/handoff/recover", {"anchor": "seen", "observed": [seen]}).json
    assert (got["root"], [each["code"] for each in got["reasons"] if each["code"] == "unobserved"]) == ("/work", [])
    server.post("/v1/handoff/store", fields | {"summary": "again"})
    got = server.post("/v1/handoff/recover", {"anchor": "seen", "observed": [seen]}).json
    assert (got["root"], "unobserved" in [each["code"] for each in got["reasons"]]) == ("", True)
    asked = server.post("/v1/handoff/recover", {"anchor": "seen", "observed": [seen], "looks": True})
    assert (asked.status, asked.code, asked.json["facts"]["handoff"]["revision"]) == (409, "look_first", 2)


WRONG_SIGHTS: list[dict[str, Any]] = [
    {"binding": None},
    {"binding": BOUND | {"files": {}}},
    {"binding": BOUND | {"files": BOUND["files"] | {"b.py": {"mode": "absent"}}}},  # type: ignore[operator]
    {"root": "x" * 5000},
    {"ran": []},
    {"ran": [{"check": "other", "passed": True}]},
    {"ran": [{"check": "true", "passed": True}, {"check": "true", "passed": True}]},
    {"ran": [{"check": "true", "passed": True, "output": "a" * 64}]},
    {"ran": [{"check": "true", "passed": True, "exit": 1}]},
    {"ran": [{"check": "true", "passed": True, "exit": 10**20}]},
    {"ran": [{"check": "true", "passed": True, "seconds": -1}]},
    {"ran": [{"check": "true", "passed": True, "host": "two\nlines"}]},
]


@pytest.mark.parametrize("wrong", WRONG_SIGHTS, ids=range(len(WRONG_SIGHTS)))
def test_what_was_seen_is_of_all_its_files_and_checks_and_no_others(server: Served, wrong: dict[str, Any]) -> None:
    fields = {"anchor": "sight", "summary": "s", "handoff_text": "t", "target_files": ["a.py"], "binding": BOUND}
    stored = server.post("/v1/handoff/store", fields | {"acceptance_checks": ["true"]}).json
    seen = {"handoff_id": stored["id"], "root": "/work", "binding": BOUND, "ran": [{"check": "true", "passed": True}]}
    ask = {"anchor": "sight", "run_checks": True}
    assert server.post("/v1/handoff/recover", ask | {"observed": [seen]}).status == 200
    assert server.post("/v1/handoff/recover", ask | {"observed": [seen | wrong]}).code == "handoff_invalid"


def test_evidence_says_whose_key_it_was_and_where_it_ran(keyed: Served) -> None:
    server = keyed
    key = server.keys().create("builder", roles=["write"]).text
    fields = {"anchor": "who", "summary": "s", "handoff_text": "t", "target_files": ["a.py"], "binding": BOUND}
    stored = server.post("/v1/handoff/store", fields | {"acceptance_checks": ["true"]}, key=key).json
    ran = [{"check": "true", "passed": True, "host": "elsewhere", "exit": 0}]
    seen = {"handoff_id": stored["id"], "root": "/work", "binding": BOUND, "ran": ran}
    ask = {"anchor": "who", "actor": "builder", "observed": [seen]}
    (evidence,) = server.post("/v1/handoff/verify", ask, key=key).json["evidence"]
    assert (evidence["by"], evidence["where"], evidence["runner"]) == ("builder", "elsewhere", "client")


def test_what_is_only_reported_was_said_where_the_request_came_from(server: Served) -> None:
    report = [{"check": "true", "passed": True}]
    fields = {"anchor": "said", "summary": "s", "handoff_text": "t", "acceptance_checks": ["true"], "baseline": report}
    (stored,) = server.post("/v1/handoff/store", fields).json["baseline"]
    ask = {"anchor": "said", "outcome": "failed", "evidence": report}
    (settled,) = server.post("/v1/handoff/settle", ask).json["evidence"]
    assert [(each["where"], each["runner"]) for each in (stored, settled)] == [("127.0.0.1", "self")] * 2


def test_content_goes_up_and_down_by_its_digest(keyed: Served) -> None:
    server = keyed
    content = b"some content" * 1000
    digest = hashlib.sha256(content).hexdigest()
    path = f"/v1/handoff/blobs/{digest}"
    assert server.get(path).code == "blob_not_found"
    wrong = server.ask("PUT", path, raw=content + b"!", headers={"content-type": "application/octet-stream"})
    assert wrong.code == "integrity_broken"
    for _ in range(2):
        sent = server.ask("PUT", path, raw=content, headers={"content-type": "application/octet-stream"})
        assert (sent.status, sent.json) == (200, {"digest": digest})
    assert server.get(path).raw == content
    assert server.ask("HEAD", path).status == 200
    assert server.ask("PUT", "/v1/handoff/blobs/..%2Fx", raw=b"").status in (404, 422)
    readonly = server.keys().create("reader", roles=["read"]).text
    assert server.ask("PUT", path, raw=content, key=readonly).code == "forbidden"
    other = server.keys().create("other", tenant="elsewhere", roles=["admin"]).text
    assert server.get(path, key=other).code == "blob_not_found"


def test_content_that_was_damaged_on_the_server_is_told(outlast: Outlast, repo: Path, server: Served) -> None:
    (repo / "app.py").write_text("limit = 7\n")
    name = store(outlast, "damaged").binding.files["app.py"].kept
    (repo / "app.py").write_text("limit = 8\n")
    path = server.home / "default" / "blobs" / name[:2] / name
    path.write_bytes(b"other")
    assert "artifact_corrupt" in codes(outlast.handoff.recover("damaged"))
    with Outlast(f"http://127.0.0.1:{server.port}") as other, pytest.raises(IntegrityBroken):
        other.handoff.output(type("E", (), {"output": name})())  # type: ignore[arg-type]
    assert json.loads(server.get(f"/v1/handoff/blobs/{name}").raw)["code"] == "integrity_broken"


def test_a_renamed_file_and_what_a_link_leads_to_are_seen_where_the_client_is(outlast: Outlast, repo: Path) -> None:
    (repo / "link.py").symlink_to("app.py")
    store(outlast, "task:moved", target_files=["app.py", "link.py"])
    (repo / "app.py").rename(repo / "moved.py")
    got = outlast.handoff.recover("task:moved")
    assert {"file_missing", "renamed_to", "link_target_changed"} <= codes(got)
    assert [reason.found for reason in got.reasons if reason.code == "renamed_to"] == ["moved.py"]


def test_what_was_edited_since_a_hook_stored_it_is_shown_by_the_client(repo: Path, tmp_path: Path) -> None:
    from outlast.handoffs.store import Storing
    from outlast.handoffs.store import store as store_as

    fields = {"anchor": "branch:main", "summary": "s", "handoff_text": "t", "target_files": ["app.py"]}
    with Outlast(tmp_path / "home") as here:
        store_as(here._executor, fields, Storing(scope="default", actor="claude", source="hook"))
    (repo / "app.py").write_text("limit = 'by hand'\n")
    with served(tmp_path / "home") as server, Outlast(f"http://127.0.0.1:{server.port}") as outlast:
        got = outlast.handoff.recover("branch:main")
    assert "file_changed" in codes(got)
    assert str(got.verdict) == "candidate"
    assert "+limit = 'by hand'" in got.diff


# what a run of the server left


@pytest.fixture
def stopped(outlast: Outlast, repo: Path) -> str:
    """The task of a run that waits on the server, and of a handoff before it."""
    from . import http_flows

    task = f"wait-in-{repo.parent.name}"
    store(outlast, f"task:{task}", must_keep=[{"file": "app.py", "contains": "limit"}])
    assert outlast.start(http_flows.asking, "go on?", task=task).outcome(30).status == "waiting"
    return f"task:{task}"


def test_a_client_tells_nothing_of_files_that_are_where_the_run_of_a_server_is(
    outlast: Outlast, stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    got = outlast.handoff.recover(stopped)
    assert got.is_composed
    assert {"other_place", "auto_composed"} <= codes(got)
    assert not codes(got) & {"must_violated", "file_changed", "file_missing", "unobserved"}
    assert got.root == ""
    (reason,) = [each for each in got.reasons if each.code == "other_place"]
    assert "where its run works" in reason.expected
    assert "--repo DIR" in reason.advice
    with pytest.raises(HandoffInvalid, match="repo_root"):
        outlast.handoff.recover(stopped, run_checks=True)


def test_a_client_that_names_where_the_files_of_a_run_are_looks_there(
    outlast: Outlast, stopped: str, repo: Path
) -> None:
    assert "other_place" not in codes(outlast.handoff.recover(stopped, repo_root=str(repo)))
    (repo / "app.py").write_text("nothing\n")
    assert "must_violated" in codes(outlast.handoff.recover(stopped, repo_root=str(repo)))
