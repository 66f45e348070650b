"""Which run is one of a flow: by its name, its module, its file; and where it is found after it was moved."""

import asyncio
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, flow, flow_file
from outlast.care.gc.runs import SweepRule, choose
from outlast.errors import FlowElsewhere, NameInvalid, NoFlows
from outlast.flows.loading import found_in, full_path, lasting
from outlast.flows.loading import load as load_source
from outlast.runs.same_flow import FlowFacts, compared, default_task, worktree_of
from outlast.runs.start import claim_run
from outlast.store.contract import Kin

from ..kit import ledgers
from ..kit.deploys import RECIPE, Deploys, deploys, named
from ..kit.place import Place
from ..kit.repositories import git, repository


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploys]:
    monkeypatch.setenv("WORLD", str(tmp_path / "world"))
    yield from deploys(tmp_path)


def loaded(releases: Deploys, release: str, name: str = "bill") -> Any:
    return load_source(f"{releases.folder / release}/flow.py:{name}")


@flow
def failing(run: Run, number: int = 2) -> int:
    raise ValueError(number)


@flow(name="a given name")
def given(run: Run) -> None:
    return None


# -- what a flow is known by -------------------------------------------------------------------------


def test_a_name_a_module_a_file_and_a_flow_file_are_told_apart(releases: Deploys) -> None:
    releases.release("r1")
    recipe = flow_file(releases.release("r1", RECIPE, "bill.yaml") / "bill.yaml")
    module = failing.spec.source.rpartition(":")[0]
    found = [each.spec.identity for each in (given, failing, loaded(releases, "r1"), recipe)]
    assert found == ["name:a given name", f"module:{module}:failing", "file:flow.py:bill", "flow:bill"]


@pytest.mark.parametrize(
    ("recorded", "asked", "answer"),
    [
        (("name:a", "r1/flow.py:f"), ("name:a", "r2/other.py:g"), "same"),
        (("name:a", "r1/flow.py:f"), ("name:b", "r2/flow.py:f"), "other"),
        (("name:a", "gone/flow.py:f"), ("name:b", "r2/flow.py:f"), "other"),
        (("flow:a", "r1/a.yaml:a"), ("flow:a", "r2/b.yaml:a"), "same"),
        (("flow:a", "gone/a.yaml:a"), ("name:a", "r2/flow.py:a"), "other"),
        (("module:m:f", "m:f"), ("module:m:f", "m:f"), "same"),
        (("module:m:f", "m:f"), ("module:n:f", "n:f"), "other"),
        (("module:m:f", "m:f"), ("file:flow.py:f", "r1/flow.py:f"), "other"),
        (("module:flow:f", "flow:f"), ("file:flow.py:f", "r1/flow.py:f"), "same"),
        (("module:r1.flow:f", "r1.flow:f"), ("file:flow.py:f", "r1/flow.py:f"), "same"),
        (("module:r2.flow:f", "r2.flow:f"), ("file:flow.py:f", "r1/flow.py:f"), "other"),
        (("module:flow:f", "flow:f"), ("file:flow.py:g", "r1/flow.py:g"), "other"),
        (("module:pack:f", "pack:f"), ("file:__init__.py:f", "pack/__init__.py:f"), "same"),
        (("name:a", "flow:f"), ("file:flow.py:f", "r1/flow.py:f"), "same"),
        (("name:a", "flow:f"), ("name:b", "r1/flow.py:f"), "other"),
        (("file:flow.py:f", "r1/flow.py:f"), ("module:r1.flow:f", "r1.flow:f"), "same"),
        (("file:flow.py:f", "link/flow.py:f"), ("module:link.flow:f", "link.flow:f"), "same"),
        (("file:flow.py:f", "r1/flow.py:f"), ("module:nowhere.flow:f", "nowhere.flow:f"), "other"),
        (("file:top.py:f", "r1/top.py:f"), ("module:top:f", "top:f"), "same"),
        (("file:top.py:f", "r2/top.py:f"), ("module:top:f", "top:f"), "other"),
        (("script:flow", "script:flow"), ("file:script.py:flow", "r1/script.py:flow"), "other"),
        (("file:flow.py:f", "r1/flow.py:f"), ("file:flow.py:f", "r1/flow.py:f"), "same"),
        (("file:flow.py:f", "r1/flow.py:f"), ("file:flow.py:f", "twin/flow.py:f"), "same"),
        (("file:flow.py:f", "r1/flow.py:f"), ("file:flow.py:f", "r2/flow.py:f"), "other_code"),
        (("file:flow.py:f", "r1/flow.py:f"), ("file:flow.py:g", "r2/flow.py:g"), "other"),
        (("file:flow.py:f", "r1/flow.py:f"), ("file:twin.py:f", "r1/twin.py:f"), "other"),
        (("file:flow.py:f", "gone/flow.py:f"), ("file:new.py:f", "r2/new.py:f"), "same"),
        (("file:flow.py:f", "r1/flow.py:f"), ("name:a", "twin/flow.py:f"), "same"),
        (("name:a", "r1/flow.py:f"), ("file:flow.py:f", "r2/flow.py:f"), "other_code"),
        (("file:flow.py:f", "link/flow.py:f"), ("file:flow.py:f", "r2/flow.py:f"), "same"),
        (("script:s", "script:s"), ("script:s", "script:s"), "same"),
    ],
)
def test_the_rule(tmp_path: Path, recorded: tuple[str, str], asked: tuple[str, str], answer: str) -> None:
    for folder, text in {"r1": "x = 1", "twin": "x  =  1  # again", "r2": "x = 2"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "flow.py").write_text(text)
    (tmp_path / "r1" / "twin.py").write_text("x = 1")
    for file, text in {"top.py": "x = 3", "r1/top.py": "x = 3  # equal", "r2/top.py": "x = 4"}.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "link").symlink_to("r2")
    before, now = FlowFacts(*recorded, ""), FlowFacts(*asked, "")
    assert compared(tmp_path, before, now) == answer
    tree = now._replace(worktree="/somewhere")
    assert compared(tmp_path, before, tree) == ("other_worktree" if answer == "same" else answer)
    assert compared(tmp_path, before._replace(worktree="/somewhere"), tree) == answer


def test_of_two_runs_that_could_be_meant_the_one_in_this_place_goes_on(releases: Deploys) -> None:
    releases.release("r1", file="old.py")
    releases.release("r1")
    for file in ("old.py", "flow.py"):
        assert releases("r1", "run", f"{file}:bill", "--task", "T").code == 1
    (releases.folder / "r1" / "old.py").unlink()
    releases.open()
    assert releases("r1", "run", "flow.py:bill", "--task", "T").code == 0
    with releases.opened() as outlast:
        assert {Path(run.flow).name: run.status for run in outlast.runs()} == {
            "old.py:bill": "failed",
            "flow.py:bill": "succeeded",
        }


def test_two_unfinished_runs_of_one_flow_in_a_task_cannot_be_written(releases: Deploys) -> None:
    releases.release("r1")
    releases("r1", "run", "flow.py:bill", "--task", "T")
    edit = (
        "INSERT INTO runs SELECT key + 1, 'other', scope, '/r2/flow.py:bill', task, inputs, inputs_digest, status, "
        "phase, result, error, parent, session, trace_id, meta, actor, created_at, updated_at, mark, seal, named, "
        "identity, "
        "'/r2/flow.py:bill', worktree FROM runs"
    )
    with pytest.raises(ledgers.ChangeRefused, match=r"(?i)unique constraint"):
        ledgers.change(releases.home, edit)


# -- python ------------------------------------------------------------------------------------------


def test_resume_with_a_flow_goes_on_with_it(releases: Deploys) -> None:
    releases.release("r1")
    releases.copy("r1", "r2")
    releases.change("r2")
    with releases.opened() as outlast:
        run_id = outlast.run(loaded(releases, "r1"), task="T").run_id
        with pytest.raises(FlowElsewhere) as refused:
            outlast.run(loaded(releases, "r2"), task="T")
        assert refused.value.run == run_id
        releases.open()
        assert outlast.resume(run_id, flow=loaded(releases, "r2")).result == "kelp"
        assert outlast.get(run_id).source == f"{releases.folder}/r2/flow.py:bill"
        assert outlast.get(run_id).flow == f"{releases.folder}/r1/flow.py:bill"
        (moved,) = [event for event in outlast.events(run_id) if event.name == "run.relocated"]
        assert moved.body["to"] == f"{releases.folder}/r2/flow.py:bill"
    assert releases.charged == ["kelp"]


def test_on_a_loop_too(releases: Deploys) -> None:
    releases.release("r1")
    releases.copy("r1", "r2")
    releases.change("r2")

    async def work() -> Any:
        outlast = AsyncOutlast(releases.home)
        run_id = (await outlast.run(loaded(releases, "r1"), task="T")).run_id
        releases.open()
        outcome = await outlast.resume(run_id, flow=loaded(releases, "r2"))
        await outlast.close()
        return outcome

    assert asyncio.run(work()).result == "kelp"
    assert releases.charged == ["kelp"]


def test_a_name_stands_only_for_a_flow_that_a_server_was_given(releases: Deploys) -> None:
    releases.release("r1")
    with releases.opened() as outlast:
        run_id = outlast.run(loaded(releases, "r1")).run_id
        with pytest.raises(NoFlows):
            outlast.resume(run_id, flow="bill")
        assert outlast.get(run_id).status == "failed"


def test_what_a_script_opened_goes_on_in_that_script(place: Place) -> None:
    with pytest.raises(ValueError, match="no"), place.outlast.open("nightly"):
        raise ValueError("no")
    with pytest.raises(NameInvalid, match="opened by a script"):
        place.outlast.resume(place.run_id, flow=given)
    assert place.outlast.get(place.run_id).status == "failed"


# -- a second run beside -----------------------------------------------------------------------------


def test_another_run_beside_an_unfinished_one_for_an_edited_default_is_a_warning(place: Place) -> None:
    first = place.run(failing, 1).run_id
    with pytest.warns(RuntimeWarning, match=f"outlast resume {first}"):
        second = place.run(failing)
    assert f"run {second.run_id} was started beside it" in second.notes[0]


def test_who_listens_is_told_instead(place: Place) -> None:
    outcomes = [place.run(failing, 1)]  # kept: one that nobody looks at warns when it is collected
    heard: list[str] = []
    place.outlast.listen(None, heard.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes.append(place.run(failing))
    assert len(heard) == 1
    assert [outcome.status for outcome in outcomes] == ["failed", "failed"]


def test_there_is_nothing_to_say_of_runs_that_are_over_named_or_under_way(place: Place) -> None:
    first = place.run(failing, 1)
    place.outlast.abort(first.run_id, why="over")
    place.run(failing, 5, task="named")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place.run(failing)
        place.run(failing)  # that one goes on
        place.run(failing, 4, task="another name")


def test_what_the_caller_gives_is_meant(place: Place) -> None:
    place.run(failing, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place.run(failing, 3).notes == ()


def test_a_run_that_somebody_is_running_is_not_named(place: Place) -> None:
    first = place.run(failing, 1).run_id
    claim_run(place.outlast._executor.caller, first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place.run(failing).notes == ()


# -- kept and proven ---------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["identity", "source", "worktree"])
@pytest.mark.parametrize("moved", [False, True], ids=["as it began", "in another place"])
def test_verify_names_a_run_whose_flow_was_edited(releases: Deploys, column: str, moved: bool) -> None:
    releases.release("r1")
    releases.copy("r1", "r2")
    with releases.opened() as outlast:
        run_id = outlast.run(loaded(releases, "r1"), task="T").run_id
        if moved:
            outlast.run(loaded(releases, "r2"), task="T")
        assert outlast.verify().ok
    ledgers.change(releases.home, f"UPDATE runs SET {column} = {column} || 'x'", rows=1)
    with releases.opened() as outlast:
        (problem,) = outlast.verify().problems
        assert (problem.record, column in problem.why) == (f"run {run_id}", True)  # its chain says so, not only a proof
    ledgers.change(releases.home, f"UPDATE runs SET {column} = substr({column}, 1, length({column}) - 1)", rows=1)


def test_of_a_flow_with_a_name_the_newest_are_kept_wherever_they_ran() -> None:
    def kin(key: int, folder: str, identity: str) -> Kin:
        row = (key, f"r{key}", "default", f"{folder}/flow.py:f", "t", "succeeded", "", key, "", None, 1)
        return Kin(*row, identity)

    runs = [
        kin(1, "r1", "name:a"),
        kin(2, "r2", "name:a"),
        kin(3, "r1", "file:flow.py:f"),
        kin(4, "r2", "file:flow.py:f"),
    ]
    assert [family.root.id for family in choose(runs, SweepRule(keep=1), 9).going] == ["r1"]


# -- work trees and paths ----------------------------------------------------------------------------


def test_only_a_linked_work_tree_is_one(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", a_txt="a")
    git(main, "worktree", "add", "-q", "../linked")
    inner = repository(tmp_path / "inner", b_txt="b")
    git(main, "submodule", "--quiet", "add", str(inner), "sub")
    (tmp_path / "linked" / "deep").mkdir()
    linked = os.path.realpath(tmp_path / "linked")
    places = ("main", "linked", "linked/deep", "main/sub", ".")
    assert [worktree_of(str(tmp_path / name)) for name in places] == ["", linked, linked, "", ""]


def test_a_git_file_that_leads_nowhere_is_no_work_tree(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /proc/self/cwd\n")
    assert worktree_of(str(tmp_path)) == ""


def test_the_default_task_names_the_work_tree() -> None:
    assert default_task("bill", "0123456789abcdef", "") == "bill-0123456789ab"
    one, two = (default_task("bill", "0123456789abcdef", folder) for folder in ("/a/wt", "/b/wt"))
    assert one.startswith("bill-0123456789ab@wt-")
    assert one != two
    assert default_task("bill", "0123456789abcdef", "/a/w\nt").isprintable()


def test_a_path_keeps_its_links_and_is_real_where_dots_follow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r1" / "deep").mkdir(parents=True)
    (tmp_path / "r1" / "flow.py").touch()
    (tmp_path / "current").symlink_to("r1/deep")
    top = os.path.realpath(tmp_path)
    assert full_path(tmp_path / "current" / "flow.py") == f"{tmp_path}/current/flow.py"
    assert full_path(tmp_path / "current" / ".." / "flow.py") == f"{top}/r1/flow.py"
    monkeypatch.chdir(tmp_path / "current")
    assert full_path("flow.py") == f"{top}/r1/deep/flow.py"  # no word of a link
    monkeypatch.setenv("PWD", str(tmp_path / "current"))
    assert full_path("flow.py") == f"{tmp_path}/current/flow.py"
    monkeypatch.setenv("PWD", str(tmp_path))  # of another folder: not believed
    assert full_path("flow.py") == f"{top}/r1/deep/flow.py"


def test_a_project_that_is_reached_by_a_link_records_the_same_path(tmp_path: Path) -> None:
    project = Path(os.path.realpath(tmp_path)) / "project"
    project.mkdir()
    (tmp_path / "link").symlink_to("project")
    assert lasting(f"{tmp_path}/link/flow.py:f", project) == "flow.py:f"
    assert lasting(f"{tmp_path}/other/flow.py:f", project) == f"{tmp_path}/other/flow.py:f"
    assert lasting("module:f", project) == "module:f"


def test_a_file_is_found_in_another_folder_where_it_lay_in_its_own(tmp_path: Path) -> None:
    for name in ("r2/flows/bill.py", "r2/bill.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    source = "/srv/r1/flows/bill.py:charge"
    assert found_in(source, None, tmp_path / "r2") == f"{tmp_path}/r2/flows/bill.py:charge"
    assert found_in("/srv/r1/bill.py:charge", None, tmp_path / "r2") == f"{tmp_path}/r2/bill.py:charge"
    assert found_in("/srv/r1/other.py:charge", None, tmp_path / "r2") == ""
    assert found_in("module:charge", None, tmp_path / "r2") == ""


def test_a_script_in_a_work_tree_has_its_own_run_too(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = repository(tmp_path / "repository", a_txt="a")
    git(main, "worktree", "add", "-q", "../linked")
    for folder in ("repository", "linked"):
        monkeypatch.chdir(tmp_path / folder)
        with pytest.raises(ValueError, match="no"), place.outlast.open("nightly"):
            raise ValueError("no")
    tasks = sorted(run.task for run in place.outlast.runs())
    assert tasks[0] == "nightly"
    assert tasks[1].startswith("nightly@linked-")


def test_a_process_whose_folder_was_removed_goes_on(releases: Deploys) -> None:
    releases.release("r1")
    releases.open()
    (releases.folder / "gone").mkdir()
    program = (
        f"import os, sys; os.chdir({str(releases.folder / 'gone')!r}); os.rmdir(os.getcwd())\n"
        f"sys.path.insert(0, {str(releases.folder / 'r1')!r})\n"
        f"import flow; from outlast import Outlast\n"
        f"print(Outlast({str(releases.home)!r}).run(flow.family).status)"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=releases.around)
    assert done.stdout.strip() == "succeeded", done.stderr
    assert releases.charged == ["kelp"]


def test_a_named_flow_in_a_home_of_the_project_is_recorded_from_there(releases: Deploys) -> None:
    folder = releases.release("r1", named())
    with Outlast(folder / ".outlast") as outlast:
        outcome = outlast.run(loaded(releases, "r1"))
        assert outlast.get(outcome.run_id).flow == "flow.py:bill"
