"""Files to be made, musts by path and handoffs without checks mean the same on every door."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import StdioServerParameters

from outlast import Outlast
from outlast.errors import HandoffInvalid, NotSettled

from ..ready import by_name
from .client_story import make_repository
from .conftest import environment
from .mcp_place import connected
from .repository import GOOD, Repository
from .server import Served, served

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

FIELDS: dict[str, Any] = {
    "summary": "Stopped at the limit",
    "handoff_text": "Resume in app.py and set the limit.",
    "target_files": ["app.py"],
    "next_action": "Set the limit to 2 in app.py.",
    "acceptance_checks": ["grep -q 'limit = 2' app.py"],
}
CONTRADICTION = {"must_keep": ["app.py"], "must_change": ["app.py"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_repository(tmp_path / "repo")
    monkeypatch.chdir(found)
    return found


def verdict(got: Any) -> tuple[str, set[str]]:
    return str(got.verdict), {reason.code for reason in got.reasons if reason.weight != "notes"}


def told(outlast: Outlast, repo: Path) -> list[Any]:
    """What an agent lives through, in words."""
    hands, said = outlast.handoff, []
    hands.store("task:limit", **FIELDS, creates=["new.py"], must_keep=["notes.md", "the names"], must_change=["app.*"])
    said.append(verdict(hands.recover("task:limit")))
    (repo / "notes.md").write_text("# other\n")
    got = hands.recover("task:limit")
    said.append((verdict(got), [each.found for each in got.reasons if each.code == "must_violated"]))
    (repo / "notes.md").write_text("# notes\n")
    hands.claim("task:limit")
    (repo / "app.py").write_text("# limit = 2\n")
    with pytest.raises(NotSettled) as refused:
        hands.settle("task:limit", "completed", acknowledged=["the names"])
    said.append(str(refused.value))
    (repo / "new.py").write_text("x\n")
    said.append(hands.settle("task:limit", "completed", acknowledged=["the names"]).outcome)
    typo = hands.store("task:typo", **FIELDS | {"target_files": ["ap.py"], "must_keep": ["src/ap.py"]})
    said.append([(each.code, each.path) for each in typo.lint.findings])
    said.append(verdict(hands.recover("task:typo")))
    hands.store("task:bare", **FIELDS | {"acceptance_checks": []})
    said.append(verdict(hands.recover("task:bare")))
    with pytest.raises(NotSettled):
        hands.settle("task:bare", "completed")
    said.append(hands.settle("task:bare", "completed", evidence=[{"check": "read it", "passed": True}]).outcome)
    with pytest.raises(HandoffInvalid, match="can never hold"):
        hands.store("task:no", **FIELDS, **CONTRADICTION)
    return said


def test_a_client_of_a_server_is_told_what_an_embedded_home_is(server: Served, repo: Path, tmp_path: Path) -> None:
    with Outlast(f"http://127.0.0.1:{server.port}") as remote:
        far = told(remote, repo)
    other = make_repository(tmp_path / "other")
    with pytest.MonkeyPatch.context() as moved, Outlast(tmp_path / "home") as near:
        moved.chdir(other)
        assert told(near, other) == far
    assert far[0] == ("trusted", set())
    assert far[1][0] == ("contested", {"must_violated"})
    assert "creates 'new.py': it is missing" in far[2]
    assert [code for code, _ in far[4]] == ["target_absent", "must_unmatched"]
    assert far[5:7] == [("candidate", {"target_absent"}), ("candidate", {"no_checks"})]


def test_a_server_that_nobody_looks_for_compares_nothing_and_says_prose(server: Served) -> None:
    given = FIELDS | {"anchor": "task:unseen", "creates": ["new.py"], "must_keep": ["notes.md"]}
    stored = server.post("/v1/handoff/store", given)
    assert (stored.status, stored.json["creates"], stored.json["lint"]["findings"]) == (200, ["new.py"], [])
    done = server.post("/v1/handoff/settle", {"anchor": "task:unseen", "outcome": "completed"})
    assert done.json["code"] == "not_settled"
    assert "must_keep 'notes.md' is not acknowledged" in done.json["detail"]
    refused = server.post("/v1/handoff/store", FIELDS | {"anchor": "task:no"} | CONTRADICTION)
    assert (refused.status, refused.json["code"]) == (422, "handoff_invalid")


def test_a_server_takes_no_files_that_no_must_is_about(server: Served) -> None:
    bound = {"root": "/r", "host": "h", "files": {"app.py": {"mode": "absent"}}}
    for odd in ({"musts": {"other.py": {"mode": "absent"}}}, {"unkept": {"0" * 16: "is missing"}}):
        body = FIELDS | {"anchor": "task:odd", "binding": bound | odd, "must_keep": ["src/a.py"]}
        assert server.post("/v1/handoff/store", body).json["code"] == "handoff_invalid"


def test_the_command_line_takes_files_to_be_made_from_where_it_is_typed(cli: "Cli") -> None:
    repo = Repository(cli)
    repo.store()  # the home is made at the top
    words = (*GOOD[:-4], "--file", "../app.py", *GOOD[-2:], "--creates", "new one.py", "--must-keep", "app.py")
    stored = repo("store", "task:made", *words, cwd=repo.folder / "lib")
    assert (stored.code, stored.err) == (0, "")
    shown = repo("show", "task:made")
    assert "files to make:\n  lib/new one.py" in shown.out
    assert "app.py  [as it was when stored]" in shown.out
    recovered = repo("recover", "task:made", "--json")
    assert recovered.json["verdict"] == "trusted"
    refused = repo("store", "task:no", *GOOD, "--must-keep", "app.py", "--must-remove", "app.py")
    assert refused.code == 2
    assert "[handoff_invalid]" in refused.err


def test_the_command_line_takes_paths_of_musts_from_where_it_is_typed(cli: "Cli") -> None:
    repo = Repository(cli)
    repo.store()
    words = (*GOOD[:-4], "--file", "../app.py", *GOOD[-2:], "--must-keep", "../app.py", "--must-keep", "keep its names")
    assert repo("store", "task:kept", *words, "--must-change", "./*.py", cwd=repo.folder / "lib").err == ""
    stored = repo("show", "task:kept", "--json").json
    assert (stored["must_keep"], stored["must_change"]) == (["app.py", "keep its names"], ["lib/*.py"])
    outside = repo("store", "task:no", *words, "--must-remove", "../../x", cwd=repo.folder / "lib")
    assert (outside.code, "[handoff_invalid]" in outside.err) == (2, True)


MUSTS = {
    "must_keep": ["app.py", "the names", {"file": "app.py", "exists": True}],
    "must_change": ["lib/*"],
    "must_remove": ["old.py", "tmp/"],
}
TAKEN_FOR = [
    ("must_change", "lib/*", "changed"),
    ("must_remove", "old.py", "prose"),
    ("must_remove", "tmp/", "absent"),
    ("must_keep", "app.py", "unchanged"),
    ("must_keep", "the names", "prose"),
    ("must_keep", {"file": "app.py", "exists": True}, "rule"),
]


def taken_for(told: dict[str, Any]) -> list[Any]:
    return [(one["field"], one["must"], one["taken_for"]) for one in told["musts"]]


def test_what_each_must_is_taken_for_is_in_the_data_of_every_door(server: Served, repo: Path, cli: "Cli") -> None:
    with Outlast(f"http://127.0.0.1:{server.port}") as remote:
        remote.handoff.store("task:musts", **FIELDS, **MUSTS)
    assert taken_for(server.get("/v1/handoff?anchor=task:musts").json) == TAKEN_FOR
    assert taken_for(server.post("/v1/handoff/recover", {"anchor": "task:musts"}).json) == TAKEN_FOR
    home = ("--home", f"http://127.0.0.1:{server.port}", "--json")
    for verb in ("show", "recover"):
        assert taken_for(cli("handoff", verb, "task:musts", *home, cwd=repo).json) == TAKEN_FOR


def test_a_model_names_files_to_be_made(repo: Path) -> None:
    words = ["-m", "outlast", "mcp"]
    parameters = StdioServerParameters(**by_name(*words), cwd=str(repo), env=environment())
    with connected(parameters) as call:
        stored = call.value("handoff_store", anchor="task:made", **FIELDS, creates=["new.py"])
        assert stored["creates"] == ["new.py"]
        kept = call.value("handoff_store", anchor="task:musts", **FIELDS, must_keep=["app.py", "the names"])
        assert [one["taken_for"] for one in kept["musts"]] == ["unchanged", "prose"]
        assert call.value("handoff_recover", anchor="task:made")["verdict"] == "trusted"
        assert call.problem("handoff_store", anchor="task:no", **FIELDS, **CONTRADICTION)["code"] == "handoff_invalid"
