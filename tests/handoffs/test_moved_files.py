"""Targets that are elsewhere now, with other line ends, or links to something else: told of the right file."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import HandoffInvalid
from outlast.handoffs.handoff import Recovered
from outlast.handoffs.sighting import Sighting, check_sighting
from outlast.ledger.verdict import Reason
from outlast.operations.reading import in_order
from outlast.values.codec import text

from ..kit.desk import TASK, Desk, codes

ODD = ("a b.py", 'it\'s "quoted".py', "😀.py", "-rf", "two\nlines")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def reason_of(recovered: Recovered, code: str) -> Reason:
    (found,) = (reason for reason in recovered.reasons if reason.code == code)
    return found


def moved(desk: Desk, old: str, new: str) -> None:
    target = desk.repo / new
    target.parent.mkdir(parents=True, exist_ok=True)
    (desk.repo / old).rename(target)


# -- renamed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["untracked", "in an untracked folder", "staged", "committed"])
def test_a_renamed_target_is_recognised_by_its_content_and_offered(desk: Desk, how: str) -> None:
    new = "lib/deep/renamed.py" if how == "in an untracked folder" else "src/renamed.py"
    desk.store()
    moved(desk, "src/export.py", new)
    if how == "staged":
        desk.git("add", "-A")
    if how == "committed":
        desk.commit("moved")
    got = desk.recover()
    offered = reason_of(got, "renamed_to")
    assert (offered.weight, offered.subject, offered.found) == ("notes", "src/export.py", new)
    missing = reason_of(got, "file_missing")
    assert str(got.verdict) == "contested"
    assert new in missing.found
    assert "apply" not in missing.advice  # that would put a second copy beside it


def test_the_command_that_moves_it_back_works_when_pasted(desk: Desk) -> None:
    desk.write("src/export.py", "mine\n")
    for name in ODD:
        desk.store(target_files=["src/export.py"])
        moved(desk, "src/export.py", name)
        missing = reason_of(desk.recover(), "file_missing")
        assert missing.advice.startswith("move it back: ")
        command = missing.advice.removeprefix("move it back: ").partition("; or accept it: ")[0]
        subprocess.run(command, shell=True, cwd=desk.folder, check=True)  # wherever one stands
        assert str(desk.recover().verdict) == "trusted"


def test_a_name_that_is_no_text_is_told_without_a_command(desk: Desk) -> None:
    name = os.fsdecode(b"moved-\xff.py")
    desk.store()
    moved(desk, "src/export.py", name)
    got = desk.recover()
    assert reason_of(got, "renamed_to").found == text(name)
    assert "mv" not in reason_of(got, "file_missing").advice
    json.dumps(in_order(got), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "renamed",
    [{"src/other.py": ("x",)}, {"src/export.py": ()}, {"src/export.py": ("../x",)}, {"src/export.py": ("x",) * 6}],
)
def test_what_a_request_says_of_renamed_files_is_checked(desk: Desk, renamed: Any) -> None:
    stored = desk.store()
    assert stored.binding
    seen = Sighting(handoff_id=stored.id, root="/r", binding=stored.binding, renamed=renamed)
    with pytest.raises(HandoffInvalid, match="renamed"):
        check_sighting(seen, stored)


def test_content_that_was_there_before_is_no_new_place(desk: Desk) -> None:
    desk.write("src/copy.py", "def export():\n    return 1\n")
    desk.write("src/empty.py", "")
    desk.commit("a copy")
    desk.write("src/untracked.py", "def export():\n    return 1\n")
    desk.write("src/gone.py", "")
    desk.store(target_files=["src/export.py", "src/gone.py"])
    (desk.repo / "src/export.py").unlink()
    (desk.repo / "src/gone.py").unlink()
    desk.write("src/another_empty.py", "")
    got = desk.recover()
    assert "renamed_to" not in codes(got)
    assert "handoff apply" in next(each.advice for each in got.reasons if each.code == "file_missing")


def test_of_several_the_one_with_its_name_is_offered_else_all_are_named(desk: Desk) -> None:
    desk.store()
    moved(desk, "src/export.py", "src/one.py")
    desk.write("src/two.py", "def export():\n    return 1\n")
    got = desk.recover()
    assert reason_of(got, "renamed_to").found == "src/one.py or src/two.py"
    assert "mv" not in reason_of(got, "file_missing").advice
    desk.write("lib/export.py", "def export():\n    return 1\n")
    assert reason_of(desk.recover(), "renamed_to").found == "lib/export.py"


def test_outside_of_git_and_below_a_folder_it_is_recognised_too(desk: Desk) -> None:
    plain = desk.folder / "plain"
    plain.mkdir()
    (plain / "notes.md").write_text("a plan\n")
    desk.store(target_files=["notes.md"], repo_root=str(plain))
    (plain / "notes.md").rename(plain / "plan.md")
    assert reason_of(desk.recover(repo_root=str(plain)), "renamed_to").found == "plan.md"
    desk.store(target_files=["src/"], anchor="task:folder")
    moved(desk, "src/other.py", "src/moved.py")
    assert reason_of(desk.recover("task:folder"), "renamed_to").found == "src/moved.py"


def test_the_difference_and_applying_tell_of_it(desk: Desk) -> None:
    desk.store()
    moved(desk, "src/export.py", "src/renamed.py")
    here = str(desk.repo)
    assert any("'src/renamed.py'" in note for note in desk.outlast.handoff.diff(TASK, repo_root=here).notes)
    notes = desk.outlast.handoff.apply(TASK, repo_root=here, dry_run=True).notes
    assert any("'src/renamed.py'" in note and "'src/export.py'" in note for note in notes)


# -- line ends, and what a link leads to -------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("one\ntwo\n", "one\r\ntwo\r\n", "CR LF"),
        ("one\r\ntwo\r\n", "one\ntwo\n", "LF"),
        ("one\r\ntwo\n", "one\ntwo\r\n", "mixed"),
    ],
)
def test_other_line_ends_are_a_note_that_says_which(desk: Desk, before: str, after: str, said: str) -> None:
    desk.write("src/export.py", before)
    desk.store()
    desk.write("src/export.py", after)
    got = desk.recover()
    assert str(got.verdict) == "trusted"
    note = reason_of(got, "line_ends_changed")
    assert note.found == f"src/export.py ({said} now)"
    desk.write("src/export.py", before)
    assert "line_ends_changed" not in codes(desk.recover())


def linked(desk: Desk, **fields: Any) -> None:
    desk.write("versions/v1.py", "one\n")
    (desk.repo / "current.py").symlink_to("versions/v1.py")
    desk.store(**{"target_files": ["current.py"]} | fields)


def test_what_a_link_leads_to_changed_and_the_link_did_not(desk: Desk) -> None:
    linked(desk)
    assert str(desk.recover().verdict) == "trusted"
    desk.write("versions/v1.py", "edited\n")
    got = desk.recover()
    assert str(got.verdict) == "candidate"
    changed = reason_of(got, "link_target_changed")
    assert changed.subject == "current.py"
    assert "versions/v1.py" in changed.found
    assert changed.expected != changed.found
    desk.write("versions/v1.py", "one\r\n")
    assert "link_target_changed" not in codes(desk.recover())
    (desk.repo / "versions/v1.py").unlink()
    assert "absent" in reason_of(desk.recover(), "link_target_changed").found


def test_a_link_that_leads_elsewhere_is_a_changed_file_and_told_once(desk: Desk) -> None:
    linked(desk)
    desk.write("versions/v2.py", "two\n")
    (desk.repo / "current.py").unlink()
    (desk.repo / "current.py").symlink_to("versions/v2.py")
    got = desk.recover()
    assert reason_of(got, "file_changed").subject == "current.py"
    assert "link_target_changed" not in codes(got)


def test_a_link_of_the_environment_counts_by_what_it_leads_to(desk: Desk) -> None:
    linked(desk, target_files=["src/export.py"], environment=["current.py"])
    desk.write("versions/v1.py", "edited\n")
    assert reason_of(desk.recover(), "environment_changed").subject == "current.py"


def test_a_link_to_a_folder_and_one_that_leads_nowhere_are_no_news(desk: Desk) -> None:
    (desk.repo / "folder").symlink_to("src")
    (desk.repo / "nowhere").symlink_to("missing")
    (desk.repo / "loop").symlink_to("loop")
    desk.store(target_files=["src/export.py", "nowhere", "loop"], environment=[])
    desk.write("src/other.py", "edited\n")
    assert str(desk.recover().verdict) == "trusted"
    desk.write("missing", "here now\n")
    assert reason_of(desk.recover(), "link_target_changed").subject == "nowhere"
