"""`outlast workspace save` in the command of a step belongs to the step: seen with its receipt, or by nobody."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.errors import ArtifactNotFound

from ..crash.command_folder import Folder

SAVE = f"{sys.executable} -m outlast workspace save"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def test_what_a_command_saves_is_of_its_run_step_and_attempt_and_on_its_receipt(folder: Folder) -> None:
    steps = "  - {id: write, run: 'echo text > a.md; " + SAVE + " notes a.md --summary mine --json > said'}"
    folder.flow(
        f"- id: loop\n  repeat:\n    max: 1\n    until: 'true'\n    steps:\n    {steps}\n"
        "- {id: read, run: 'cat $OUTLAST_HANDOFF > handoff'}"
    )
    assert folder.run().status == "succeeded"
    with Outlast(folder.path / ".outlast") as outlast:
        saved = outlast.workspace.get("notes")
        run = outlast.runs(limit=1)[0].id
        assert (saved.source.run_id, saved.source.step, saved.source.attempt) == (run, "loop[1]/write", 1)
        assert (saved.read(), saved.summary) == (b"text\n", "mine")
        assert [each.ref for each in outlast.workspace.list(run=run)] == [saved.ref]
        events = [event for event in outlast.events(run) if event.name == "artifact.saved"]
        assert [event.body["ref"] for event in events] == [saved.ref]
    receipt = folder.receipts("write")[-1]
    assert receipt.artifacts == receipt.envelope.artifacts == (saved.ref,)
    assert json.loads((folder.path / "said").read_text())["ref"] == saved.ref
    assert json.loads((folder.path / "handoff").read_text())["artifacts"] == [saved.ref]


def test_what_a_failed_attempt_saved_is_seen_by_nobody_and_the_next_ones_is(folder: Folder) -> None:
    run = f"echo $OUTLAST_ATTEMPT > a.md; {SAVE} notes a.md; {SAVE} notes a.md; test $OUTLAST_ATTEMPT = 2"
    folder.flow(f"- {{id: write, retries: 1, run: '{run}'}}")
    assert folder.run().status == "succeeded"
    with Outlast(folder.path / ".outlast") as outlast:
        assert [each.read() for each in outlast.workspace.versions("notes")] == [b"2\n"]
    failed, done = folder.receipts("write")
    assert (failed.status, done.status) == ("failed", "succeeded")
    assert len(done.artifacts) == 1


def test_it_is_not_seen_while_the_step_goes_on_though_the_ref_is_told(folder: Folder) -> None:
    get = f"{sys.executable} -m outlast workspace get notes"
    folder.flow(f"- {{id: write, run: 'echo x > a; {SAVE} notes a; {get} > seen 2> missing || true'}}")
    assert folder.run().status == "succeeded"
    assert (folder.path / "seen").read_bytes() == b""
    assert "artifact_not_found" in (folder.path / "missing").read_text()


def test_refs_that_the_envelope_names_and_what_was_saved_stand_together(folder: Folder) -> None:
    said = """printf \\'{"artifacts": ["report.txt"]}\\' > $OUTLAST_ENVELOPE"""
    folder.flow(f"- id: write\n  run: |\n    echo x > a\n    {SAVE} notes a\n    {said}\n".replace("\\'", "'"))
    assert folder.run().status == "succeeded"
    artifacts = folder.receipts("write")[-1].envelope.artifacts
    assert artifacts[0] == "report.txt"
    assert artifacts[1].startswith("artifact:")


def test_a_save_after_its_attempt_is_over_is_refused(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.flow("- {id: write, run: 'printenv OUTLAST_SAVES > told'}")
    assert folder.run().status == "succeeded"
    told = (folder.path / "told").read_text().strip()
    (folder.path / "a").write_text("late")
    code = os.system(f"cd '{folder.path}' && OUTLAST_SAVES='{told}' {SAVE} notes a 2> late.txt")
    assert os.waitstatus_to_exitcode(code) == 4
    assert "over" in (folder.path / "late.txt").read_text()
    with Outlast(folder.path / ".outlast") as outlast, pytest.raises(ArtifactNotFound):
        outlast.workspace.get("notes")


def test_a_save_into_another_home_is_no_part_of_the_step(folder: Folder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    folder.flow(f"- {{id: write, run: 'echo x > a; {SAVE} notes a --home {other}; false'}}")
    assert folder.run().status == "failed"
    with Outlast(other) as there:
        assert there.workspace.get("notes").source.run_id == ""


def refs(folder: Folder, name: str = "said") -> list[str]:
    return [json.loads(line)["ref"] for line in folder.lines(name)]


def test_an_operation_id_in_a_step_gives_the_first_artifact_again(folder: Folder) -> None:
    once = f"{SAVE} notes a.md --operation-id first --json >> said"
    folder.flow(
        f"- {{id: write, run: 'echo 1 > a.md; {once}; echo 2 > a.md; {SAVE} notes a.md; echo 1 > a.md; {once}'}}\n"
        f"- {{id: later, run: 'echo 1 > a.md; {once}'}}"
    )
    assert folder.run().status == "succeeded"
    first = refs(folder)[0]
    assert refs(folder) == [first] * 3
    with Outlast(folder.path / ".outlast") as outlast:
        assert [each.read() for each in outlast.workspace.versions("notes")] == [b"2\n", b"1\n"]
        assert outlast.workspace.get(first).read() == b"1\n"
    assert folder.receipts("later")[-1].artifacts == (first,)


def test_other_content_under_an_operation_id_is_a_conflict_in_the_same_step_and_in_another(folder: Folder) -> None:
    save = f"{SAVE} notes a.md --operation-id first"
    folder.flow(
        f"- {{id: write, run: 'echo 1 > a.md; {save}; echo 2 > a.md; {save} 2> why || echo $? >> exits'}}\n"
        f"- {{id: later, run: 'echo 3 > a.md; {save} 2>> why || echo $? >> exits'}}"
    )
    assert folder.run().status == "succeeded"
    assert folder.lines("exits") == ["4", "4"]
    assert folder.read("why").count("'first'") == 2
    with Outlast(folder.path / ".outlast") as outlast:
        assert [each.read() for each in outlast.workspace.versions("notes")] == [b"1\n"]


def test_a_retried_step_saves_anew_under_the_operation_id_of_the_attempt_that_failed(folder: Folder) -> None:
    save = f"{SAVE} notes a.md --operation-id mine --json >> said"
    folder.flow(
        f"- {{id: write, retries: 1, run: 'echo $OUTLAST_ATTEMPT > a.md; {save}; test $OUTLAST_ATTEMPT = 2'}}\n"
        f"- {{id: later, run: 'echo 2 > a.md; {save}'}}"
    )
    assert folder.run().status == "succeeded"
    _, done, later = refs(folder)
    assert done == later
    with Outlast(folder.path / ".outlast") as outlast:
        assert [each.read() for each in outlast.workspace.versions("notes")] == [b"2\n"]
        assert outlast.workspace.get(done).source.attempt == 2


def test_what_a_step_saved_by_an_operation_id_is_known_outside_of_it_too(folder: Folder) -> None:
    save = f"{SAVE} notes a.md --operation-id mine --actor me"
    folder.flow(f"- {{id: write, run: 'echo 1 > a.md; {save}'}}")
    assert folder.run().status == "succeeded"
    (folder.path / "a.md").write_text("other")
    assert os.waitstatus_to_exitcode(os.system(f"cd '{folder.path}' && {save} 2> why")) == 4
    (folder.path / "a.md").write_text("1\n")
    assert os.waitstatus_to_exitcode(os.system(f"cd '{folder.path}' && {save} > again")) == 0
    assert "was saved already" in folder.read("again")
