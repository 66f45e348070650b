"""A run that nobody said goodbye for is found without its name, embedded and over HTTP alike."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Outlast, Run, flow, step
from outlast.errors import HandoffAmbiguous, HandoffNotFound
from outlast.testing.crashes import in_child

from .client_story import git, make_repository
from .repository import Repository
from .server import served

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


@step(writes=["notes.md"])
def note() -> str:
    Path("notes.md").write_text("all of it")
    return "noted"


@step(writes=["draft.md"])
def dies() -> int:
    import signal

    Path("draft.md").write_text("half of it")
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


@flow
def drafts(run: Run) -> int:
    note()
    return dies()


@flow
def spawns(run: Run) -> Any:
    return run.spawn(drafts).result()


@flow
def fails(run: Run) -> None:
    raise ValueError("no paper left")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_repository(tmp_path / "repo")
    monkeypatch.chdir(found)
    return found


Opened = Callable[[], AbstractContextManager[Outlast]]


@pytest.fixture(params=["embedded", "client"])
def opened(repo: Path, request: pytest.FixtureRequest) -> Opened:
    """The home through a door. It is not open while others die in it: they are forked."""
    Outlast(repo / ".outlast").close()

    @contextmanager
    def through() -> Iterator[Outlast]:
        if request.param == "embedded":
            with Outlast(repo / ".outlast") as found:
                yield found
            return
        with served(repo / ".outlast") as server, Outlast(f"http://127.0.0.1:{server.port}") as found:
            yield found

    return through


def killed(repo: Path, work: Any, *tasks: str, scope: str = "default") -> None:
    """Runs of processes that are dead by now, or that failed."""

    def run(tell: Any, task: str) -> None:
        with Outlast(repo / ".outlast", scope=scope) as outlast:
            outlast.run(work, task=task)

    for task in tasks:
        in_child(partial(run, task=task), 60)


@contextmanager
def here(repo: Path) -> Iterator[Outlast]:
    with Outlast(repo / ".outlast") as found:
        yield found


def store(outlast: Outlast, anchor: str, **more: Any) -> None:
    outlast.handoff.store(anchor, "Stopped at the limit", "Set the limit in app.py.", next_action="Set it.", **more)


def test_it_is_in_every_list_and_recovered_without_an_anchor_and_by_its_files(opened: Opened, repo: Path) -> None:
    killed(repo, drafts, "report")
    with opened() as outlast:
        (listed,) = outlast.handoff.list()
        assert (listed.anchor, listed.standing, listed.revision) == ("task:report", "open", 0)
        assert str(listed.next_action).startswith("continue with step dies, attempt 2: outlast resume ")
        assert [one.anchor for one in outlast.handoff.list("open", look=True)] == ["task:report"]
        assert outlast.handoff.list("finished") == []
        (task,) = outlast.tasks.list()
        assert (task.task, task.state, task.opened_at) == ("report", "active", None)
        assert task.run is not None
        assert (task.run.status, task.run.run_id) == ("crashed", listed.handoff_id.removeprefix("run:"))
        assert outlast.tasks.list("paused") == []
        for named in ({}, {"file_path": "draft.md"}, {"file_path": "notes.md"}, {"handoff_id": listed.handoff_id}):
            found = outlast.handoff.recover(**named)
            assert found.run is not None
            assert (found.anchor, found.run.status) == ("task:report", "crashed")
        with pytest.raises(HandoffNotFound):
            outlast.handoff.recover(file_path="app.py")


def test_lists_go_on_after_any_of_their_items(opened: Opened, repo: Path) -> None:
    killed(repo, fails, "failed 0", "failed 1")
    with opened() as outlast:
        for number in range(2):
            store(outlast, f"part {number}")
            outlast.tasks.open(f"opened {number}")
        whole = [one.anchor for one in outlast.handoff.list()]
        assert whole == ["task:failed 1", "task:failed 0", "part 1", "part 0"]
        found: list[str] = []
        last: str | None = None
        while page := outlast.handoff.list(limit=1, before=last):
            found, last = [*found, page[0].anchor], page[0].handoff_id
        assert found == whole
        tasks: list[str] = []
        while one := outlast.tasks.list(limit=1, before=tasks[-1] if tasks else None):
            tasks.append(one[0].task)
        assert tasks == ["failed 1", "failed 0", "opened 1", "opened 0"]


def test_of_a_run_and_a_handoff_the_newer_one_is_meant(opened: Opened, repo: Path) -> None:
    with here(repo) as outlast:
        store(outlast, "part", target_files=["app.py"])
    killed(repo, drafts, "report")
    with opened() as outlast:
        assert outlast.handoff.recover().anchor == "task:report"
        store(outlast, "other part", target_files=["app.py"])
        assert outlast.handoff.recover().anchor == "other part"
        store(outlast, "task:report", target_files=["draft.md"])
        assert [(one.anchor, one.revision) for one in outlast.handoff.list()][:1] == [("task:report", 1)]
        assert outlast.handoff.recover(file_path="draft.md").handoff.revision == 1
        store(outlast, "part", target_files=["draft.md"])
        with pytest.raises(HandoffAmbiguous) as told:
            outlast.handoff.recover(file_path="draft.md")
        assert {"part", "task:report"} <= {*told.value.detail.replace(",", "").split()}


def test_a_child_is_found_by_its_parent_and_another_scope_has_nothing(repo: Path) -> None:
    killed(repo, spawns, "parent", scope="team")
    with here(repo) as outlast:
        assert [one.anchor for one in outlast.handoff.list(scope="team")] == ["task:parent"]
        assert outlast.handoff.list() == []
        assert [one.task for one in outlast.tasks.list(scope="team")] == ["parent"]


def test_a_completed_task_is_in_no_list_of_what_is_open(opened: Opened, repo: Path) -> None:
    killed(repo, drafts, "report")
    with opened() as outlast:
        outlast.tasks.open("report").complete_task(override="done by hand")
        assert outlast.handoff.list() == []
        (task,) = outlast.tasks.list()
        assert (task.state, task.run) == ("completed", None)
        with pytest.raises(HandoffNotFound):
            outlast.handoff.recover()


def test_a_branch_that_is_named_means_no_run_which_is_of_none(opened: Opened, repo: Path) -> None:
    killed(repo, drafts, "report")
    with opened() as outlast:
        assert outlast.handoff.recover().anchor.startswith("task:report")
        with pytest.raises(HandoffNotFound):
            outlast.handoff.recover(branch="nowhere")


def test_a_run_of_another_work_tree_is_not_meant_here(repo: Path, tmp_path: Path, monkeypatch: Any) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    Outlast(repo / ".outlast").close()
    monkeypatch.chdir(tmp_path / "tree")
    killed(repo, drafts, "report")
    with here(repo) as outlast:
        assert outlast.handoff.recover().anchor.startswith("task:report")
        monkeypatch.chdir(repo)
        with pytest.raises(HandoffNotFound, match="task:report"):
            outlast.handoff.recover()


FLOW = "flow: nightly\nsteps:\n  - id: two\n    run: test -f go\n    accept: test -f go\n"


@pytest.mark.parametrize("where", ["above", "beside", "another repository", "clone", "subfolder"])
def test_its_checks_run_in_its_repository_and_nowhere_else(
    cli: "Cli", tmp_path_factory: pytest.TempPathFactory, where: str
) -> None:
    repo = Repository(cli)
    repo.write(FLOW, "nightly.yaml")
    assert repo.forked("run", "nightly.yaml").code == 1
    inside = {"above": repo.folder.parent, "subfolder": repo.folder / "lib", "another repository": repo.folder / "sub"}
    place = inside.get(where) or tmp_path_factory.mktemp("beside") / where
    if where == "clone":
        repo.git("clone", "-q", str(repo.folder), str(place))
    elif where == "another repository":
        make_repository(place)
    place.mkdir(exist_ok=True)
    (place / "go").touch()  # with it the check would pass: it was never made where the run works
    home = ("--home", str(repo.folder / ".outlast"))
    looked = repo.forked("handoff", "recover", "--json", "task:nightly-44136fa355b3", *home, cwd=place)
    checked = repo.forked("handoff", "recover", "task:nightly-44136fa355b3", "--run-checks", *home, cwd=place)
    codes = {each["code"] for each in json.loads(looked.out)["reasons"]}
    is_there = where in ("clone", "subfolder")
    assert ("other_place" in codes, checked.code == 0) == (not is_there, is_there), (looked, checked)
    assert is_there or "--repo DIR" in checked.err
