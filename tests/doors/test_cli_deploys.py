"""A deploy to another folder continues the runs of the one before: one charge for each, and nothing stranded."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..kit import deploys as kit
from ..kit.deploys import RECIPE, Deploys, named
from ..kit.repositories import git, repository

BILL = ("run", "flow.py:bill", "--task", "T")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Deploys]:
    yield from kit.deploys(tmp_path)


# -- the same flow in another folder -----------------------------------------------------------------


def test_the_same_task_from_a_copy_of_the_folder_goes_on_and_charges_once(place: Deploys) -> None:
    place.release("r1")
    assert place("r1", *BILL).code == 1
    place.copy("r1", "r2")
    place.open()
    said = place("r2", *BILL)
    assert (said.code, place.charged, len(place.runs)) == (0, ["kelp"], 1)


def test_without_a_task_too(place: Deploys) -> None:
    place.release("r1")
    assert place("r1", "run", "flow.py:bill").code == 1
    place.copy("r1", "r2")
    place.open()
    assert (place("r2", "run", "flow.py:bill").code, place.charged) == (0, ["kelp"])


def test_with_the_old_folder_gone_changed_code_goes_on(place: Deploys) -> None:
    place.release("r1")
    assert place("r1", *BILL).code == 1
    place.copy("r1", "r2")
    place.change("r2")
    place.remove("r1")
    place.open()
    said = place("r2", *BILL)
    assert (said.code, place.charged, len(place.runs)) == (0, ["kelp"], 1)
    assert "changed since they were done, reused as they are: charge" in said.out


def test_comments_and_formatting_are_no_other_code(place: Deploys) -> None:
    place.release("r1")
    assert place("r1", *BILL).code == 1
    place.copy("r1", "r2")
    place.change("r2", change=("return gate(charge(who))", "# later\n    return gate(  charge( who ))"))
    place.open()
    assert (place("r2", *BILL).code, place.charged) == (0, ["kelp"])


def test_changed_code_beside_the_old_folder_is_refused_with_both_places(place: Deploys) -> None:
    place.release("r1")
    place("r1", *BILL)
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.change("r2")
    place.open()
    said = place("r2", *BILL, "--json")
    error = said.json["error"]
    assert (said.code, error["code"], place.charged, place.runs) == (4, "flow_elsewhere", ["kelp"], [run_id])
    assert f"{place.folder}/r1/flow.py:bill" in error["detail"]
    assert re.search(rf"outlast --home \S+ resume {run_id} --flow {place.folder}/r2/flow.py:bill", error["advice"])


def test_an_operation_id_does_not_say_that_other_code_is_the_same_flow(place: Deploys) -> None:
    place.release("r1")
    assert place("r1", *BILL, "--operation-id", "a").code == 1
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.change("r2")
    place.open()
    assert place("r2", *BILL, "--operation-id", "a", "--json").json["error"]["code"] == "flow_elsewhere"
    assert place("r1", *BILL, "--operation-id", "a").code == 0
    ended = place("r2", *BILL, "--operation-id", "a", "--json").json  # it has ended, and nothing goes on
    assert (ended["run_id"], ended["replayed"], place.charged) == (run_id, True, ["kelp"])


def test_of_a_run_that_has_finished_no_resume_is_advised(place: Deploys) -> None:
    place.release("r1")
    place.open()
    assert place("r1", *BILL).code == 0
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.change("r2")
    error = place("r2", *BILL, "--json").json["error"]
    assert (error["code"], place.charged) == ("flow_elsewhere", ["kelp"])
    assert " resume " not in error["advice"]
    assert place("r2", "show", run_id).code == 0


def test_resume_with_flow_goes_on_there_and_from_then_on_it_is_there(place: Deploys) -> None:
    place.release("r1")
    place("r1", *BILL)
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.change("r2")
    said = place("r2", "resume", run_id, "--flow", "flow.py")
    assert said.code == 1
    assert "r2/flow.py" in said.out
    assert "found at" in place("r2", "show", run_id).out
    assert place("r1", *BILL).code == 4  # now that one is elsewhere
    place.open()
    assert (place("r2", *BILL).code, place.charged, place.runs) == (0, ["kelp"], [run_id])


def test_a_flow_that_cannot_be_that_of_the_run_is_refused_and_changes_nothing(place: Deploys) -> None:
    place.release("r1")
    place.release("r1", RECIPE, "bill.yaml")
    place("r1", *BILL)
    (run_id,) = place.runs
    before = place("r1", "show", run_id, "--json").json
    missing = place("r1", "resume", run_id, "--flow", "nowhere.py", "--json")
    other = place("r1", "resume", run_id, "--flow", "bill.yaml", "--json")
    unknown = place("r1", "resume", run_id, "--flow", "flow.py:nobody", "--json")
    found = [(said.code, said.json["error"]["code"]) for said in (missing, other, unknown)]
    assert found == [(5, "flow_not_found"), (2, "name_invalid"), (5, "flow_not_found")]
    after = place("r1", "show", run_id, "--json").json
    assert {name for name in after if after[name] != before[name]} == {"epoch", "updated_at"}


@pytest.mark.parametrize(
    ("text", "file", "flow", "change"),
    [
        (named(), "flow.py", "flow.py:bill", kit.CHANGED),
        (kit.FLOW, "flow.py", "flow:bill", kit.CHANGED),  # a module
        (RECIPE, "bill.yaml", "bill.yaml", ('test -e "$WORLD/open"', 'test -e "$WORLD/open" && true')),
    ],
    ids=["name", "module", "flow file"],
)
def test_a_flow_with_a_name_of_its_own_goes_on_from_anywhere(
    place: Deploys, text: str, file: str, flow: str, change: tuple[str, str]
) -> None:
    place.release("r1", text, file)
    assert place("r1", "run", flow, "--task", "T").code == 1
    place.copy("r1", "r2")
    place.change("r2", file, change)
    (place.folder / "elsewhere").mkdir()
    place.open()
    if flow != "flow:bill":
        (place.folder / "r2" / file).rename(place.folder / "elsewhere" / f"other{Path(file).suffix}")
        flow = flow.replace(file, f"other{Path(file).suffix}")
    said = place("elsewhere" if flow != "flow:bill" else "r2", "run", flow, "--task", "T")
    assert (said.code, place.charged, len(place.runs)) == (0, ["kelp"], 1)


def test_flows_with_different_names_stay_two_though_their_functions_are_called_alike(place: Deploys) -> None:
    place.release("r1", named())
    place("r1", *BILL)
    place.release("r2", named().replace("acme bill", "other bill"))
    place.remove("r1")
    place.open()
    assert (place("r2", *BILL).code, place.charged, len(place.runs)) == (0, ["kelp", "kelp"], 2)


def test_a_flow_that_is_given_a_name_later_is_still_the_same(place: Deploys) -> None:
    place.release("r1")
    place("r1", *BILL)
    place.release("r1", named())  # the same file, which says its name now
    assert place("r1", *BILL).code == 1
    place.copy("r1", "r2")
    place.change("r2")
    place.open()
    assert (place("r2", *BILL).code, place.charged, len(place.runs)) == (0, ["kelp"], 1)


def test_a_child_goes_on_with_the_flow_that_its_parent_spawns_now(place: Deploys) -> None:
    place.release("r1", named())
    assert place("r1", "run", "flow.py:family", "--task", "T").code == 1
    place.copy("r1", "r2")
    place.change("r2", change=("return who", "return who.upper()"))
    place.open()
    assert (place("r2", "run", "flow.py:family", "--task", "T").code, place.charged) == (0, ["kelp"])
    with place.opened() as outlast:
        parent, child = sorted(outlast.runs(), key=lambda run: run.parent)
        assert (child.parent, child.result) == (parent.id, "KELP")


# -- paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [False, True], ids=["by its path", "from inside"])
def test_a_link_that_leads_to_the_next_release_is_one_place(place: Deploys, inside: bool) -> None:
    place.release("r1")
    place.copy("r1", "r2")
    place.change("r2")
    current = place.folder / "current"
    current.symlink_to("r1")
    words = ("current", *BILL) if inside else ("world", "run", f"{current}/flow.py:bill", "--task", "T")
    env = {"PWD": str(current)} if inside else {}  # as a shell says it
    assert place(*words, **env).code == 1
    with place.opened() as outlast:
        assert outlast.runs()[0].flow == f"{current}/flow.py:bill"
    current.unlink()
    current.symlink_to("r2")
    place.open()
    said = place(*words, **env)
    assert (said.code, place.charged, len(place.runs)) == (0, ["kelp"], 1)
    assert "reused as they are: charge" in said.out


def test_a_file_reached_by_two_links_is_one_flow(place: Deploys) -> None:
    place.release("r1")
    (place.folder / "a").symlink_to("r1")
    (place.folder / "b").symlink_to("r1")
    for link in ("a", "b"):
        assert place("world", "run", f"{place.folder}/{link}/flow.py:bill", "--task", "T").code == 1
    assert (place.charged, len(place.runs)) == (["kelp"], 1)


@pytest.mark.parametrize("name", ["with space", 'it\'s "quoted"', "caf\u00e9 \U0001f980", "-dash", "a:b.py"])
def test_folders_and_files_of_any_name(place: Deploys, name: str) -> None:
    place.release("r1", file=f"{name}/{name}.py")
    flow = f"./{name}/{name}.py:bill"
    assert place("r1", "run", flow, "--task", "T").code == 1
    place.copy("r1", "r2")
    place.change("r2", f"{name}/{name}.py")
    (run_id,) = place.runs
    refused = place("r2", "run", flow, "--task", "T", "--json").json["error"]
    assert refused["code"] == "flow_elsewhere"
    assert place("r2", "resume", run_id, "--flow", flow).code == 1
    place.remove("r1")
    place.remove("r2")
    place.release("r3", file=f"{name}/{name}.py")
    place.open()
    assert place("r3", "resume", run_id).code == 0
    assert place.charged == ["kelp"]


# -- commands that look for it by themselves ---------------------------------------------------------


def test_what_looks_for_a_flow_finds_it_in_the_new_folder(place: Deploys) -> None:
    place.release("r1", file="flows/bill.py")
    assert place("r1", "run", "flows/bill.py:bill").code == 1
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.change("r2", "flows/bill.py")
    place.remove("r1")
    plan = place("r2", "resume", run_id, "--dry-run", "--json").json
    assert plan["code_changed"] == ["charge"]
    replayed = place("r2", "replay", run_id, "--json")
    assert {one["code"] for one in replayed.json["divergences"]} == {"code_changed"}, replayed
    audited = place("r2", "audit", run_id, "--json").out
    assert "flow_not_found" not in audited
    assert "flow_not_found" in place("world", "audit", run_id, "--json").out
    assert place("world", "resume", run_id, "--json").json["error"]["code"] == "flow_not_found"
    assert "resume RUN --flow PATH" in place("world", "resume", run_id, "--json").json["error"]["advice"]
    place.open()
    assert (place("r2", "resume", run_id).code, place.charged) == (0, ["kelp"])


def test_tick_and_due_go_on_in_the_new_folder(place: Deploys) -> None:
    place.release("r1")
    assert place("r1", "run", "flow.py:asking").code == 3
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.remove("r1")
    with place.opened() as outlast:
        (wait,) = outlast.interrupts()
        outlast.answer(wait.id, {"approved": True})
        assert [one.run_id for one in outlast.due()] == [run_id]
    said = place("r2", "tick", "--json").json
    assert [(one["run_id"], one["status"]) for one in said["runs"]] == [(run_id, "succeeded")]
    assert place.charged == ["kelp"]


def test_a_file_of_the_same_name_that_is_another_flow_is_not_taken(place: Deploys) -> None:
    place.release("r1", named())
    place("r1", *BILL)
    (run_id,) = place.runs
    place.release("r2", named().replace("acme bill", "other bill"))
    place.remove("r1")
    error = place("r2", "resume", run_id, "--json").json["error"]
    assert error["code"] == "flow_not_found"
    assert "is another flow" in error["detail"]


def test_a_handoff_of_a_task_says_how_to_go_on_from_here(place: Deploys) -> None:
    place.release("r1")
    place("r1", *BILL)
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.remove("r1")
    here = place("r2", "task", "inspect", "T", "--json").out
    assert re.search(rf"outlast --home \S+ resume {run_id}\b", here)
    assert "--flow PATH" not in here
    elsewhere = place("world", "task", "inspect", "T", "--json").out
    assert re.search(rf"outlast --home \S+ resume {run_id} --flow PATH", elsewhere)


def test_a_run_that_was_moved_to_another_home_goes_on_where_its_flow_is_there(place: Deploys) -> None:
    place.release("r1")
    place("r1", *BILL)
    (run_id,) = place.runs
    place.copy("r1", "r2")
    place.change("r2")
    place.remove("r1")
    assert place("r2", "export", run_id, "run.outlast", "--move").code == 0
    other = {"OUTLAST_HOME": str(place.folder / "other")}
    assert place("r2", "import", "run.outlast", **other).code == 0
    came = place("r2", "show", run_id, "--json", **other).json
    assert (came["identity"], came["source"]) == ("file:flow.py:bill", f"{place.folder}/r1/flow.py:bill")
    place.open()
    assert place("r2", *BILL, **other).code == 0
    assert place.charged == ["kelp"]
    assert place("r2", "verify", **other).code == 0


# -- at once -----------------------------------------------------------------------------------------


def test_deploys_that_race_meet_in_one_run(place: Deploys) -> None:
    place.release("r1", named())
    place.copy("r1", "r2")
    place.change("r2")
    started = [place.start(f"r{1 + number % 2}", *BILL) for number in range(6)]
    for child in started:
        child.communicate(timeout=60)
    assert {child.returncode for child in started} <= {1, 4}  # failed at the gate; or somebody else has it
    assert (place.charged, len(place.runs)) == (["kelp"], 1)


# -- linked work trees -------------------------------------------------------------------------------


@pytest.fixture
def trees(place: Deploys) -> Deploys:
    """A repository with two linked work trees."""
    repository(place.folder / "main", flow_py=named())
    for name in ("one", "two"):
        git(place.folder / "main", "worktree", "add", "-q", f"../{name}")
    return place


def test_each_work_tree_has_its_own_run_where_nobody_named_the_task(trees: Deploys) -> None:
    for name in ("main", "one", "two", "one"):
        assert trees(name, "run", "flow.py:bill").code == 1
    with trees.opened() as outlast:
        runs = {Path(run.worktree).name: run.task for run in outlast.runs()}
    assert (trees.charged, sorted(runs)) == (["kelp"] * 3, ["", "one", "two"])
    assert "@one-" in runs["one"]
    assert "@" not in runs[""]


@pytest.mark.parametrize(("first", "then"), [("one", "two"), ("main", "one"), ("one", "main")])
def test_a_run_of_another_work_tree_goes_on_only_when_somebody_says_so(trees: Deploys, first: str, then: str) -> None:
    assert trees(first, *BILL, "--operation-id", "a").code == 1
    (run_id,) = trees.runs
    for same in ((), ("--operation-id", "a")):
        error = trees(then, *BILL, *same, "--json").json["error"]
        assert (error["code"], trees.charged) == ("flow_elsewhere", ["kelp"])
        assert "work tree" in error["detail"]
    if first != "main":
        git(trees.folder / "main", "worktree", "remove", "--force", f"../{first}")
        assert trees(then, "resume", run_id, "--json").json["error"]["code"] == "flow_elsewhere"
    trees.open()
    said = trees(then, "resume", run_id, "--flow", "flow.py")
    assert (said.code, trees.charged) == (0, ["kelp"])


# -- a second run beside an unfinished one -----------------------------------------------------------


def test_edited_defaults_start_a_second_run_and_say_so(place: Deploys) -> None:
    place.release("r1")
    place("r1", "run", "flow.py:bill")
    (first,) = place.runs
    place.change("r1", change=('who: str = "kelp"', 'who: str = "anemone"'))
    said = place("r1", "run", "flow.py:bill")
    assert place.charged == ["kelp", "anemone"]
    assert f"run {first} of this flow is failed, with other inputs" in said.err
    assert f"outlast resume {first}" in said.err
    again = place("r1", "run", "flow.py:bill")  # that one is continued, and there is nothing new to say
    assert "beside it" not in again.err


def test_in_json_it_is_a_note(place: Deploys) -> None:
    place.release("r1")
    place("r1", "run", "flow.py:bill", "who=moss")
    (first,) = place.runs
    (note,) = place("r1", "run", "flow.py:bill", "--json").json["notes"]
    assert f"outlast resume {first}" in note


def test_a_run_with_a_name_of_its_own_is_no_second_one(place: Deploys) -> None:
    place.release("r1")
    place("r1", *BILL)
    assert place("r1", "run", "flow.py:bill", "who=moss", "--json").json["notes"] == []
    assert place("r1", "run", "flow.py:bill", "who=fern", "--task", "F", "--json").json["notes"] == []
