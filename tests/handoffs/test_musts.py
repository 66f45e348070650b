"""Musts: paths and patterns are rules that are looked at, prose stays prose and says so."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import HandoffInvalid, NotSettled
from outlast.handoffs.contract import contract_of
from outlast.handoffs.musts import meaning_of
from outlast.operations.reading import prompt

from ..kit.desk import TASK, Desk, codes, found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


def meanings(desk: Desk, *forms: Any, **options: Any) -> list[str]:
    stored = desk.store(must_keep=forms, **options)
    return [meaning_of("must_keep", form, stored.binding) for form in forms]


# -- what is a rule ----------------------------------------------------------------------------------


def test_a_must_without_a_blank_that_is_there_or_looks_like_a_path_is_a_rule(desk: Desk) -> None:
    assert meanings(desk, "uv.lock", "src", "src/export.py", "src/", "src/*.py", "*.lock") == ["unchanged"] * 6


@pytest.mark.parametrize(
    "text",
    ["the public names", "API", "uv.lok", "export.py", "https://example.org/api/v1", "keep src/export.py as it is"],
)
def test_every_other_text_is_prose(desk: Desk, text: str) -> None:
    assert meanings(desk, text) == ["prose"]


def test_a_must_that_looks_like_a_path_and_is_none_is_refused_with_its_place(desk: Desk) -> None:
    for text in ("/v1/users", "../other/x.py", ".git/config", "src//export.py", "src/../uv.lock"):
        with pytest.raises(HandoffInvalid, match=r"must_keep\[1\]") as refused:
            desk.store(must_keep=["the public names", text])
        assert "or say it in a sentence" in str(refused.value)


def test_nothing_can_be_compared_with_files_that_nobody_looked_at(desk: Desk) -> None:
    assert meanings(desk, "src/export.py", "uv.lock", bind=False) == ["prose", "prose"]


def test_what_a_must_is_taken_for_is_said_to_people_and_to_the_next_agent(desk: Desk) -> None:
    desk.store(must_keep=["uv.lock", "the public names"], must_remove=["src/other.py"], must_change=["src/export.py"])
    said = prompt(desk.recover())
    assert "- must_keep (as it was when stored): uv.lock" in said
    assert "- must_keep (prose, nobody looks): the public names" in said
    assert "- must_remove (gone): src/other.py" in said
    assert "- must_change (other than it was when stored): src/export.py" in said
    assert "Acknowledge every must that is prose" in said
    words = [sys.executable, "-m", "outlast", "handoff", "show", TASK, "--home", str(desk.home)]
    shown = subprocess.run(words, cwd=desk.repo, capture_output=True, text=True, check=True).stdout
    assert "the public names  [prose, nobody looks]" in shown
    assert "uv.lock  [as it was when stored]" in shown


# -- must_keep ---------------------------------------------------------------------------------------


def changed(desk: Desk) -> None:
    desk.write("src/other.py", "OTHER = 2\n")


def removed(desk: Desk) -> None:
    (desk.repo / "src/other.py").unlink()


def made_executable(desk: Desk) -> None:
    (desk.repo / "src/other.py").chmod(0o755)


@pytest.mark.parametrize("must", ["src/other.py", "src/*.py", "src", "src/", "**/other.py", "src/[o]ther.py"])
@pytest.mark.parametrize("do", [changed, removed, made_executable])
def test_what_must_be_kept_is_as_it_was_when_stored(desk: Desk, must: str, do: Any) -> None:
    desk.store(must_keep=[must])
    assert "must_violated" not in codes(desk.recover())
    do(desk)
    recovered = desk.recover()
    assert str(recovered.verdict) == "contested"
    assert "src/other.py is" in found(recovered)[f"must_violated:{must}"]
    with pytest.raises(NotSettled, match="is not as it was"):
        desk.settle("completed")


@pytest.mark.parametrize("must", ["src/*.py", "src", "**"])
def test_a_new_file_in_what_must_be_kept_is_a_change(desk: Desk, must: str) -> None:
    desk.store(must_keep=[must])
    desk.write("src/more.py", "x\n")
    assert "must_violated" in codes(desk.recover())


def test_line_ends_do_not_count(desk: Desk) -> None:
    desk.store(must_keep=["src/other.py"])
    desk.write("src/other.py", b"OTHER = 1\r\n")
    assert "must_violated" not in codes(desk.recover())


def test_what_was_accepted_is_that_one_change_and_no_later_one(desk: Desk) -> None:
    desk.store(must_keep=["src/other.py"])
    changed(desk)
    assert desk.recover(claim=True, accept=["must_violated:src/other.py"], why="it is mine").claim is not None
    assert str(desk.recover().verdict) == "contested"  # accepted, and still said
    desk.write("src/other.py", "OTHER = 3\n")
    got = desk.recover()
    (reason,) = [one for one in got.reasons if one.code == "must_violated"]
    assert reason.fingerprint not in got.accepted


# -- must_change, must_remove ------------------------------------------------------------------------


@pytest.mark.parametrize("must", ["src/other.py", "src/o*.py", "src"])
def test_what_must_change_is_done_when_it_differs(desk: Desk, must: str) -> None:
    desk.store(must_change=[must], acceptance_checks=[])
    with pytest.raises(NotSettled, match="is as it was when the handoff was stored"):
        desk.settle("completed")
    changed(desk)
    assert desk.settle("completed").outcome == "completed"


@pytest.mark.parametrize("must", ["src/other.py", "src/o*.py", "lib/"])
def test_what_must_be_removed_is_done_when_it_is_gone(desk: Desk, must: str) -> None:
    desk.write("lib/a.py", "x\n")
    desk.store(must_remove=[must], acceptance_checks=[])
    with pytest.raises(NotSettled, match="is there: "):
        desk.settle("completed")
    removed(desk)
    (desk.repo / "lib/a.py").unlink()
    (desk.repo / "lib").rmdir()
    assert desk.settle("completed").outcome == "completed"


def test_an_empty_or_ignored_folder_that_must_go_is_seen(desk: Desk) -> None:
    desk.write(".gitignore", "dist/\n")
    desk.write("dist/a.js", "x\n")
    desk.store(must_remove=["dist/"])
    with pytest.raises(NotSettled, match="is there: dist"):
        desk.settle("completed")


def test_prose_is_acknowledged_word_for_word_and_rules_are_not(desk: Desk) -> None:
    desk.store(must_keep=["the public names", "uv.lock"])
    with pytest.raises(NotSettled, match="'the public names' is not acknowledged"):
        desk.settle("completed", acknowledged=["uv.lock"])
    assert desk.settle("completed", acknowledged=["the public names"]).outcome == "completed"


# -- the next revision -------------------------------------------------------------------------------

KEEP: list[Any] = ["src/other.py"]


@pytest.mark.parametrize("must", ["src/other.py", "src/*.py", "src/"])
@pytest.mark.parametrize("do", [changed, removed, made_executable])
def test_what_must_be_kept_counts_from_the_revision_that_first_said_so(desk: Desk, must: str, do: Any) -> None:
    desk.store(must_keep=[must])
    do(desk)
    again = desk.store(summary="Further on", must_keep=[must, "uv.lock"])
    (finding,) = again.lint.findings
    assert (finding.code, finding.path) == ("must_violated", "must_keep[0]")
    assert "an earlier revision" in finding.says
    desk.store(summary="Further still", must_keep=[must])
    recovered = desk.recover()
    assert str(recovered.verdict) == "contested"
    assert found(recovered)[f"must_violated:{must}"].endswith("it was so when stored")
    with pytest.raises(NotSettled, match="is not as it was"):
        desk.settle("completed")
    desk.git("checkout", "--", "src/other.py")
    assert "must_violated" not in codes(desk.recover())
    assert desk.settle("completed").outcome == "completed"


def test_a_file_that_must_be_kept_and_is_gone_stays_a_rule_in_the_next_revision(desk: Desk) -> None:
    desk.store(must_keep=["uv.lock"])
    (desk.repo / "uv.lock").unlink()
    stored = desk.store(summary="Further on", must_keep=["uv.lock"])
    assert meaning_of("must_keep", "uv.lock", stored.binding) == "unchanged"
    assert "must_violated" in codes(desk.recover())


def test_a_new_file_in_what_must_be_kept_stays_new_in_the_next_revision(desk: Desk) -> None:
    desk.store(must_keep=["src/"])
    desk.write("src/more.py", "x\n")
    desk.store(summary="Further on", must_keep=["src/"])
    assert "src/more.py is" in found(desk.recover())["must_violated:src/"]
    (desk.repo / "src/more.py").unlink()
    assert "must_violated" not in codes(desk.recover())


def left_out_once(desk: Desk) -> None:
    desk.store(summary="Without it")


def completed(desk: Desk) -> None:
    desk.settle("completed", override="other.py may change")


@pytest.mark.parametrize("anew", [left_out_once, completed])
def test_what_must_be_kept_begins_anew_once_it_was_let_go(desk: Desk, anew: Any) -> None:
    desk.store(must_keep=KEEP)
    changed(desk)
    anew(desk)
    assert desk.store(summary="Further on", must_keep=KEEP).lint.findings == ()
    assert "must_violated" not in codes(desk.recover())


@pytest.mark.parametrize("must", ["src/other.py", "src/*.py", "src/"])
@pytest.mark.parametrize("do", [changed, removed, made_executable])
def test_what_was_accepted_is_what_must_be_kept_from_the_next_revision_on(desk: Desk, must: str, do: Any) -> None:
    desk.store(must_keep=[must])
    do(desk)
    desk.store(summary="Further on", must_keep=[must])  # violated since before it was stored
    desk.recover(accept=[f"must_violated:{must}"], why="it is mine")
    with pytest.raises(NotSettled, match="is not as it was"):  # of this revision it stays violated
        desk.settle("completed")
    stored = desk.store(summary="Further still", must_keep=[must])
    assert "must_violated" not in [each.code for each in stored.lint.findings]
    assert "must_violated" not in codes(desk.recover())
    desk.write("src/other.py", "OTHER = 3\n")
    desk.store(summary="Still further", must_keep=[must])
    assert "must_violated" in codes(desk.recover())


def test_what_changed_once_more_after_it_was_accepted_does_not_begin_anew(desk: Desk) -> None:
    ben = desk.sit_down("ben")
    desk.store(must_keep=KEEP)
    changed(desk)
    desk.recover(accept=["must_violated:src/other.py"], why="it is mine")
    desk.write("src/other.py", "OTHER = 3\n")
    desk.store(ben, summary="Further on", must_keep=KEEP)
    assert "must_violated" in codes(desk.recover())
    desk.git("checkout", "--", "src/other.py")
    assert "must_violated" not in codes(desk.recover())


def test_what_must_be_kept_begins_anew_in_another_repository(desk: Desk) -> None:
    desk.store(must_keep=KEEP)
    other = desk.folder / "other" / "src"
    other.mkdir(parents=True)
    for name in ("export.py", "other.py"):
        (other / name).write_text("another\n")
    stored = desk.store(summary="Elsewhere", must_keep=KEEP, repo_root=str(other.parent))
    assert "must_violated" not in [each.code for each in stored.lint.findings]


def test_what_passed_at_store_is_of_the_files_as_they_are_though_a_must_counts_from_before(desk: Desk) -> None:
    desk.store(must_keep=KEEP)
    changed(desk)
    stored = desk.store(summary="Further on", must_keep=KEEP, baseline=True)
    (ran,) = desk.recover(run_checks=True).evidence
    assert [each.content for each in stored.baseline] == [ran.content]


# -- when it is stored -------------------------------------------------------------------------------


def test_a_must_that_is_violated_already_is_said_when_it_is_stored(desk: Desk) -> None:
    stored = desk.store(must_keep=["uv.lock", {"file": "src/export.py", "contains": "async def"}])
    (finding,) = stored.lint.findings
    assert (finding.code, finding.path) == ("must_violated", "must_keep[1]")
    assert found(desk.recover())["must_violated:src/export.py contains async def"].endswith("it was so when stored")


def test_a_must_that_means_no_file_is_said_when_it_is_stored(desk: Desk) -> None:
    stored = desk.store(must_keep=["src/exprot.py"], must_remove=["lib/*.js"], must_change=["src/export.py"])
    assert [(each.code, each.path) for each in stored.lint.findings] == [
        ("must_unmatched", "must_remove[0]"),
        ("must_unmatched", "must_keep[0]"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"must_keep": ["src/export.py"], "must_change": ["src/export.py"]},
        {"must_keep": ["src/export.py"], "must_remove": ["src/export.py"]},
        {"must_keep": ["src"], "must_change": ["src/export.py"]},
        {"must_keep": ["src/*.py"], "must_remove": ["src/export.py"]},
        {"must_keep": ["src/export.py"], "must_remove": ["src/"]},
        {"must_keep": ["src/"], "creates": ["src/new.py"]},
        {"must_keep": ["src/export.py"], "must_remove": [{"file": "src/export.py", "absent": True}]},
        {"must_keep": ["the public names"], "must_change": ["the public names"]},
        {"must_keep": [{"file": "a", "exists": True}], "must_remove": [{"file": "a", "absent": True}]},
        {"must_keep": [{"file": "a", "contains": "x"}], "acceptance_checks": [{"file": "a", "absent": True}]},
        {"must_keep": [{"file": "a", "sha256": "0" * 64}], "must_change": [{"file": "a", "sha256": "1" * 64}]},
        {"must_remove": ["src/*.tmp"], "creates": ["src/a.tmp"]},
        {"acceptance_checks": [{"file": "a", "exists": True}, {"file": "a", "absent": True}]},
    ],
)
def test_musts_that_exclude_each_other_are_refused_with_both_places(desk: Desk, fields: dict[str, Any]) -> None:
    with pytest.raises(HandoffInvalid, match="can never hold") as refused:
        desk.store(**fields)
    assert any(name in str(refused.value) for name in fields)
    assert [*desk.outlast.handoff.list()] == []  # nothing was stored


@pytest.mark.parametrize(
    "fields",
    [
        {"must_keep": ["src/other.py"], "must_change": ["src/"]},
        {"must_keep": ["src/other.py"], "must_change": ["src/export.py"], "must_remove": ["uv.lock"]},
        {"must_change": ["src/export.py"], "must_remove": ["src/export.py"]},
        {"must_keep": [{"file": "a", "contains": "x"}, {"file": "a", "contains": "y"}]},
        {"must_keep": ["the public names"], "must_remove": ["the private names"]},
        {"must_keep": ["docs/"], "creates": ["src/new.py"]},
    ],
)
def test_musts_that_can_be_kept_together_are_taken(fields: dict[str, Any]) -> None:
    assert contract_of(anchor=TASK, summary="s", handoff_text="t", **fields)
