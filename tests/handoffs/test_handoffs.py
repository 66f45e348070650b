"""Handoffs: stored whole, recovered by what one knows, claimed by one, settled by what is shown."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast import AsyncOutlast, Outlast
from outlast.errors import (
    ClaimLost,
    Conflict,
    Finished,
    HandoffAmbiguous,
    HandoffClaimed,
    HandoffContested,
    HandoffInvalid,
    HandoffNotFound,
    HandoffWeak,
    IntegrityBroken,
    NameInvalid,
    NotSettled,
    OperationConflict,
    RevisionConflict,
    SecretFound,
    StoreFailed,
    TenantNotFound,
)
from outlast.handoffs.handoff import encode_handoff

from ..kit.desk import GOOD, TASK, Desk, codes
from ..ready import completed

EVERYTHING: dict[str, Any] = {
    "must_change": ["the serializer", {"file": "src/export.py", "contains": "patched"}],
    "must_remove": ["the old path"],
    "must_keep": [{"file": "src/other.py", "exists": True}],
    "rollback": ["git checkout src/export.py"],
    "execution_state_v1": {"phase": "repair", "numbers": [1, 2.5]},
    "execution_packet_v1": {"next": "patch"},
    "handoff_kind": "repair_handoff",
    "file_path": "src/export.py",
    "symbol": "export",
    "risk": "low",
    "tags": ["serializer", "🙂"],
    "environment": ["uv.lock"],
    "expires": "7d",
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


# -- the two calls of the source ---------------------------------------------------------------------


def test_the_two_calls_of_the_source_work_word_for_word(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("src/routes/export.ts", "export {}\n")
    monkeypatch.chdir(desk.repo)
    desk.outlast.handoff.store(
        tenant_id="default",
        scope="repair-flow",
        anchor="task:export-repair",
        summary="Pause after diagnosis",
        handoff_text="Resume in src/routes/export.ts and patch the serializer mismatch.",
        target_files=["src/routes/export.ts"],
        next_action="Patch the export serializer and rerun the relevant checks.",
        acceptance_checks=["npm run -s test:lite -- export"],
    )
    recovered = desk.outlast.handoff.recover(tenant_id="default", scope="repair-flow", anchor="task:export-repair")
    assert recovered.summary == "Pause after diagnosis"
    assert recovered.target_files == ("src/routes/export.ts",)
    assert recovered.next_action == "Patch the export serializer and rerun the relevant checks."
    assert (str(recovered.verdict), codes(recovered)) == ("trusted", {"checks_not_run"})
    assert recovered.handoff.lint.score == 100


def test_another_tenant_is_not_reached_from_here(desk: Desk) -> None:
    with pytest.raises(TenantNotFound, match="acme"):
        desk.recover(tenant_id="acme")
    desk.store()
    with Outlast(desk.home, tenant="acme") as acme, pytest.raises(HandoffNotFound):
        acme.handoff.recover(TASK)


# -- storing -----------------------------------------------------------------------------------------


def test_every_field_comes_back_after_a_restart(desk: Desk) -> None:
    stored = desk.store(**EVERYTHING)
    desk.outlast.close()
    back = desk.sit_down().handoff.get(stored.id)
    assert back == stored
    assert encode_handoff(back) == encode_handoff(stored)
    assert (back.symbol, back.tags, back.must_keep) == ("export", ("serializer", "🙂"), tuple(EVERYTHING["must_keep"]))


def test_packets_are_carried_byte_for_byte(desk: Desk) -> None:
    packet = b'{ "b":1.50 ,"a": 123456789012345678901234567890, "u":"\\u00e9", "e": 1E5 }'
    stored = desk.store(execution_packet_v1=packet, execution_state_v1=packet.decode())
    desk.outlast.close()
    back = desk.sit_down().handoff.get(stored.id)
    assert isinstance(back.execution_packet_v1, msgspec.Raw)
    assert bytes(back.execution_packet_v1) == bytes(back.execution_state_v1 or b"") == packet
    assert back.packet["b"] == 1.5


def test_a_taken_anchor_gets_its_next_revision_and_the_old_one_stays(desk: Desk) -> None:
    first, second = desk.store(), desk.store(summary="Further on")
    assert (first.revision, second.revision) == (1, 2)
    assert desk.outlast.handoff.get(first.id) == first
    assert desk.recover().summary == "Further on"
    assert desk.recover(revision=1).handoff == first


def test_an_expected_revision_makes_storing_conditional(desk: Desk) -> None:
    desk.store(expected_revision=0)
    with pytest.raises(RevisionConflict, match="at revision 1, not 0"):
        desk.store(expected_revision=0)
    assert desk.store(expected_revision=1).revision == 2


def test_of_two_stores_with_one_expected_revision_one_wins(desk: Desk) -> None:
    desk.store()
    people = [desk.sit_down(f"agent-{number}") for number in range(8)]

    def store(outlast: Outlast) -> int | str:
        try:
            return desk.store(outlast, expected_revision=1).revision
        except Conflict as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(store, people))
    assert sorted(map(str, outcomes)) == ["2", *["revision_conflict"] * 7]


def test_an_exact_repeat_gives_the_first_revision_and_runs_no_check_again(desk: Desk) -> None:
    count = desk.folder / "count"
    checks = [f"echo x >> '{count}'"]
    first = desk.store(operation_id="op-1", acceptance_checks=checks, baseline=True)
    desk.write("src/export.py", "edited since\n")
    again = desk.store(operation_id="op-1", acceptance_checks=checks, baseline=True)
    assert again == first
    assert (first.replayed, again.replayed) == (False, True)
    assert count.read_text() == "x\n"
    with pytest.raises(OperationConflict):
        desk.store(operation_id="op-1", summary="another")
    assert desk.recover().handoff.revision == 1


def test_storing_under_a_finished_anchor_opens_it_again(desk: Desk) -> None:
    desk.store()
    desk.settle("completed")
    with pytest.raises(Finished, match="completed by local"):
        desk.recover()
    again = desk.store(summary="One thing more")
    assert (again.revision, again.reopened) == (2, True)
    assert desk.recover().standing == "open"


def test_strict_refuses_a_weak_one_and_stores_nothing(desk: Desk) -> None:
    with pytest.raises(HandoffWeak, match="no_next_action"):
        desk.store(strict=True, next_action=None, target_files=[], handoff_text="Fixed the parser.")
    with pytest.raises(HandoffNotFound):
        desk.recover()


def test_the_same_again_is_too_early(desk: Desk) -> None:
    assert desk.store().lint.findings == ()
    assert [finding.code for finding in desk.store().lint.findings] == ["too_early"]
    desk.write("src/export.py", "further\n")
    assert desk.store().lint.findings == ()


def test_a_secret_is_refused_by_path_and_nothing_is_written(desk: Desk) -> None:
    secret = "ghp_" + "a1B2" * 9
    with pytest.raises(SecretFound) as caught:
        desk.store(execution_packet_v1={"env": [{"token": secret}]})
    assert "execution_packet_v1" in caught.value.path
    with pytest.raises(HandoffNotFound):
        desk.recover()
    masked = desk.store(execution_packet_v1={"env": [{"token": secret}]}, redact=True)
    assert secret.encode() not in encode_handoff(masked)
    assert len(masked.masked) == 1


BAD: list[tuple[str, Any, str]] = [
    ("anchor", "", "anchor"),
    ("anchor", "   ", "anchor"),
    ("anchor", "a" * 501, "anchor"),
    ("anchor", "a\nb", "anchor"),
    ("summary", "", "summary"),
    ("summary", 7, "summary"),
    ("handoff_text", "a\0b", "handoff_text"),
    ("target_files", "src/export.py", "target_files"),
    ("target_files", ["../outside"], "target_files[0]"),
    ("target_files", ["src/../../outside"], "target_files[0]"),
    ("target_files", ["/etc/passwd"], "target_files[0]"),
    ("target_files", ["a\0b"], "target_files[0]"),
    ("target_files", [f"f{number}" for number in range(201)], "target_files"),
    ("acceptance_checks", ["true"] * 1 + [3], "acceptance_checks[1]"),
    ("acceptance_checks", [f"true {number}" for number in range(201)], "acceptance_checks"),
    ("acceptance_checks", [{"run": "true", "wat": 1}], "acceptance_checks[0]"),
    ("must_keep", [{"run": "true"}], "must_keep[0]"),
    ("execution_packet_v1", "{not json", "execution_packet_v1"),
    ("execution_packet_v1", [1], "execution_packet_v1"),
    ("handoff_text", "x" * (1 << 20), "handoff_text"),
    ("environment", ["../up"], "environment[0]"),
    ("expires", "soon", "expires"),
    ("repo_root", "/nowhere at all", "repo_root"),
]


@pytest.mark.parametrize(
    ("field", "value", "path"), BAD, ids=[f"{field}-{number}" for number, (field, *_) in enumerate(BAD)]
)
def test_bad_input_is_refused_by_name_and_nothing_is_written(desk: Desk, field: str, value: Any, path: str) -> None:
    with pytest.raises((HandoffInvalid, NameInvalid)) as caught:
        desk.store(**{field: value})
    told = caught.value.to_dict()
    assert path in f"{told['path']} {told['detail']}"
    assert told["advice"]
    assert told["detail"]
    assert desk.outlast.handoff.list() == []
    assert list((desk.home / "default" / "blobs").rglob("*")) == []


def test_what_is_no_plain_file_is_refused_by_name(desk: Desk) -> None:
    os.mkfifo(desk.repo / "pipe")
    (desk.repo / "out").symlink_to("/etc")
    (desk.repo / "passwd").symlink_to("/etc/passwd")
    for name in ("pipe", "out/hostname", "passwd", ".git/config"):
        with pytest.raises(HandoffInvalid) as caught:
            desk.store(target_files=["src/export.py", name])
        assert caught.value.path == "target_files[1]"
    assert desk.outlast.handoff.list() == []


def test_an_unknown_field_is_refused_by_name(desk: Desk) -> None:
    with pytest.raises(TypeError, match="next_step"):
        desk.store(next_step="x")
    with pytest.raises(HandoffInvalid, match="next_step"):
        desk.outlast.handoff.lint(summary="x", next_step="y")


# -- recovering --------------------------------------------------------------------------------------


def test_an_unknown_anchor_names_the_nearest(desk: Desk) -> None:
    desk.store()
    desk.store(anchor="task:other")
    with pytest.raises(HandoffNotFound, match=r"nearest: task:export-repair"):
        desk.recover("task:export-repiar")


def test_a_handoff_is_found_by_its_file_and_all_are_named_when_several_are(desk: Desk) -> None:
    desk.store(symbol="export")
    assert desk.recover(None, file_path="src/export.py").anchor == TASK
    desk.store(anchor="task:second", symbol="import_")
    with pytest.raises(HandoffAmbiguous, match=r"task:second, task:export-repair"):
        desk.recover(None, file_path="src/export.py")
    assert desk.recover(None, file_path="src/export.py", symbol="import_").anchor == "task:second"
    with pytest.raises(HandoffNotFound):
        desk.recover(None, file_path="src/other.py")


def test_without_any_anchor_the_newest_of_this_branch_is_recovered(desk: Desk) -> None:
    desk.store()
    desk.store(anchor="task:newer")
    desk.git("switch", "-q", "-c", "side")
    desk.store(anchor="task:of-side")
    assert desk.recover(None).anchor == "task:of-side"
    desk.git("switch", "-q", "main")
    assert desk.recover(None).anchor == "task:newer"
    desk.git("switch", "-q", "-c", "empty")
    with pytest.raises(HandoffNotFound, match=r"branch 'empty'; nearest: task:of-side, task:newer, task:export-repair"):
        desk.recover(None)


def test_a_handoff_is_found_by_a_unique_prefix_of_its_id(desk: Desk) -> None:
    stored = desk.store()
    assert desk.recover(None, handoff_id=stored.id[:6]).handoff == stored
    with pytest.raises(HandoffNotFound):
        desk.recover(None, handoff_id="nothing")
    with pytest.raises(HandoffNotFound):
        desk.recover(None, handoff_id="")


def test_recovering_writes_nothing_unless_it_is_asked_to(desk: Desk) -> None:
    desk.store()
    before = len(desk.outlast.handoff.history(TASK))
    desk.recover()
    assert len(desk.outlast.handoff.history(TASK)) == before


# -- claims ------------------------------------------------------------------------------------------


def test_a_claim_is_exclusive_and_names_its_holder(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    claim = ann.handoff.claim(TASK, repo_root=str(desk.repo))
    with pytest.raises(HandoffClaimed, match="ann"):
        ben.handoff.claim(TASK, repo_root=str(desk.repo))
    with pytest.raises(HandoffClaimed, match="ann"):
        desk.settle("completed", ben)
    assert ann.handoff.claim(TASK, repo_root=str(desk.repo)).id == claim.id
    assert desk.recover(outlast=ben, claim=True).resume == "lost"


def test_a_claim_is_renewed_by_use_and_lost_to_who_takes_it(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    claim = ann.handoff.claim(TASK, repo_root=str(desk.repo))
    for _ in range(3):
        desk.clock.advance(14 * 60)
        desk.recover(outlast=ann)
    with pytest.raises(HandoffClaimed):
        ben.handoff.claim(TASK, repo_root=str(desk.repo))
    with pytest.raises(HandoffInvalid, match="needs a reason"):
        ben.handoff.claim(TASK, take=True, repo_root=str(desk.repo))
    taken = ben.handoff.claim(TASK, take=True, why="ann is on leave", repo_root=str(desk.repo))
    assert taken.epoch > claim.epoch
    for use in (
        lambda: ann.handoff.renew(TASK, claim_id=claim.id),
        lambda: desk.settle("completed", ann, claim_id=claim.id),
        lambda: desk.store(ann, claim_id=claim.id),
        lambda: desk.recover(outlast=ann, claim_id=claim.id),
    ):
        with pytest.raises(ClaimLost, match=r"ben took it over on .*: ann is on leave"):
            use()
    for use in (lambda: ann.handoff.renew(TASK), lambda: desk.settle("completed", ann)):  # and shows no id
        with pytest.raises(ClaimLost, match=r"ben took it over on .*: ann is on leave"):
            use()
    with pytest.raises(HandoffClaimed, match="ben"):
        desk.sit_down("eve").handoff.renew(TASK)
    events = desk.outlast.handoff.history(TASK)
    assert [event.body["why"] for event in events if event.kind == "claimed" and event.body.get("taken_from")] == [
        "ann is on leave"
    ]


def test_who_renews_what_nobody_claimed_is_told_so(desk: Desk) -> None:
    desk.store()
    with pytest.raises(HandoffInvalid, match=f"nobody holds a claim on it now.*outlast handoff claim {TASK}"):
        desk.outlast.handoff.renew(TASK)
    assert desk.outlast.handoff.history(TASK)[-1].kind == "stored"


def test_who_shows_the_claim_is_the_claimer_in_any_process(desk: Desk) -> None:
    desk.store()
    claim = desk.sit_down("ann").handoff.claim(TASK, repo_root=str(desk.repo))
    elsewhere = desk.sit_down("ann")
    assert elsewhere.handoff.renew(TASK, claim_id=claim.id).id == claim.id
    assert desk.settle("completed", elsewhere, claim_id=claim.id).outcome == "completed"


def test_the_claim_of_a_dead_process_is_taken_at_once(desk: Desk) -> None:
    desk.store()
    code = (
        "import os, signal, sys; from outlast import Outlast\n"
        "outlast = Outlast(sys.argv[1], actor='dead')\n"
        f"outlast.handoff.claim({TASK!r}, repo_root=sys.argv[2])\n"
        "print('claimed', flush=True); sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", code, str(desk.home), str(desk.repo)]
    ben = Outlast(desk.home, actor="ben")  # by the machine's own clock, as the other process is
    desk.opened.append(ben)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        with pytest.raises(HandoffClaimed, match=rf"dead \(pid {process.pid} on "):
            ben.handoff.claim(TASK, repo_root=str(desk.repo))
        process.kill()
        process.wait()
        assert ben.handoff.claim(TASK, repo_root=str(desk.repo)).actor == "ben"


def test_what_contests_is_accepted_as_found_and_only_so(desk: Desk) -> None:
    desk.store()
    desk.write("src/export.py", "edited\n")
    with pytest.raises(HandoffContested, match="file_changed"):
        desk.outlast.handoff.claim(TASK, repo_root=str(desk.repo))
    with pytest.raises(HandoffInvalid, match="needs a reason"):
        desk.recover(claim=True, accept=["file_changed"])
    with pytest.raises(HandoffInvalid, match="no contesting reason"):
        desk.recover(claim=True, accept=["rival"], why="x")
    got = desk.recover(claim=True, accept=["file_changed:src/export.py"], why="the edit is mine")
    assert (got.resume, str(got.verdict)) == ("attached", "contested")
    desk.settle("released")
    assert desk.recover(claim=True).resume == "attached"  # as found then, and so accepted
    desk.settle("released")
    desk.write("src/export.py", "edited again\n")
    assert desk.recover(claim=True).resume == "lost"
    accepted = [event for event in desk.outlast.handoff.history(TASK) if event.kind == "accepted"]
    assert [(event.by, event.body["why"]) for event in accepted] == [("local", "the edit is mine")]


def test_whether_the_resume_worked_is_on_record_apart_from_the_task(desk: Desk) -> None:
    desk.store()
    desk.recover(claim=True, run_checks=True)
    desk.settle("failed", note="the serializer is not ours")
    desk.write("src/export.py", "edited\n")
    desk.recover(claim=True, run_checks=True)
    kinds = [event.kind for event in desk.outlast.handoff.history(TASK)]
    assert kinds == ["stored", "checked", "claimed", "attached", "settled", "checked", "lost"]


# -- settling ----------------------------------------------------------------------------------------


def test_completed_is_refused_until_it_is_shown(desk: Desk) -> None:
    desk.store(
        acceptance_checks=["test -f done"],
        must_change=[{"file": "src/export.py", "contains": "patched"}],
        must_keep=["the public names"],
    )
    with pytest.raises(NotSettled) as caught:
        desk.settle("completed")
    for word in ("'test -f done' fails", "does not contain 'patched'", "'the public names' is not acknowledged"):
        assert word in str(caught.value)
    desk.write("done", "")
    desk.write("src/export.py", "patched\n")
    with pytest.raises(NotSettled, match="not acknowledged"):
        desk.settle("completed")
    settled = desk.settle("completed", acknowledged=["the public names"])
    assert (settled.outcome, settled.override, settled.evidence[-1].runner) == ("completed", "", "runner")


def test_a_report_does_not_complete_and_an_override_says_why(desk: Desk) -> None:
    desk.store(acceptance_checks=["false"])
    said = [{"check": "false", "passed": True}]
    with pytest.raises(NotSettled, match="not run by a runner"):
        desk.settle("completed", evidence=said, run_checks=False)
    settled = desk.settle("completed", evidence=said, run_checks=False, override="checked by hand on the device")
    assert settled.override == "checked by hand on the device"
    assert [each.runner for each in settled.evidence] == ["self"]
    with pytest.raises(Finished):
        desk.settle("completed")


def test_released_says_what_the_handoff_lacked_and_frees_it(desk: Desk) -> None:
    desk.store()
    ann, ben = desk.sit_down("ann"), desk.sit_down("ben")
    desk.recover(outlast=ann, claim=True)
    settled = desk.settle("released", ann, missing=["which serializer"], note="not enough to go on")
    assert settled.missing == ("which serializer",)
    assert desk.recover(outlast=ben, claim=True).resume == "attached"
    assert desk.recover(outlast=ben).outcome == "released"
    assert settled.score == 100


def test_settling_twice_with_one_operation_gives_the_first_answer(desk: Desk) -> None:
    desk.store()
    first = desk.settle("completed", operation_id="op-9")
    again = desk.settle("completed", operation_id="op-9")
    assert (first.replayed, again.replayed, again.at) == (False, True, first.at)
    with pytest.raises(OperationConflict):
        desk.settle("failed", operation_id="op-9")


def test_an_unknown_ending_is_refused(desk: Desk) -> None:
    desk.store()
    with pytest.raises(HandoffInvalid, match="completed, failed, released"):
        desk.settle("done")


# -- listing, history --------------------------------------------------------------------------------


def test_handoffs_are_listed_by_how_they_stand(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("open", "claimed", "contested", "finished", "expired"):
        files = ["src/other.py"] if name == "contested" else ["src/export.py"]
        desk.store(anchor=f"task:{name}", target_files=files, expires="1h" if name == "expired" else None)
    desk.recover("task:claimed", claim=True)
    desk.outlast.handoff.settle("task:finished", "completed", repo_root=str(desk.repo))
    desk.clock.advance(3600)
    desk.recover("task:claimed")
    desk.write("src/other.py", "edited\n")
    monkeypatch.chdir(desk.repo)
    listed = desk.outlast.handoff.list
    for name in ("open", "claimed", "contested", "finished", "expired"):
        wanted: Any = name
        names = {each.anchor for each in listed(wanted)}
        assert f"task:{name}" in names
        assert names <= {f"task:{name}", "task:contested"}
    assert [each.standing for each in listed(look=True)] == ["expired", "finished", "contested", "claimed", "open"]
    assert len(listed(limit=2)) == 2
    with pytest.raises(HandoffInvalid):
        listed("lost")  # type: ignore[arg-type]


def test_the_score_stands_beside_the_outcome(desk: Desk) -> None:
    desk.store(acceptance_checks=[])
    desk.settle("completed", evidence=[{"check": "read it twice", "passed": True}])
    (one,) = desk.outlast.handoff.list("finished")
    assert (one.score, one.outcome) == (80, "completed")


# -- tampering ---------------------------------------------------------------------------------------


def tamper(desk: Desk, sql: str) -> None:
    """Change the database from another process, with another SQLite."""
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()"
    completed(("-c", code, str(desk.home / "default" / "outlast.db"), sql), check=True)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE journal SET payload = CAST(replace(payload, 'patch', 'punch') AS BLOB)"
        " WHERE chain IN (SELECT key FROM anchors) AND seq = 1",
        "UPDATE journal SET header = CAST(replace(header, 'stored', 'scored') AS BLOB)"
        " WHERE chain IN (SELECT key FROM anchors) AND seq = 1",
        "UPDATE chains SET hash = zeroblob(32) WHERE subject LIKE 'handoff:%'",
        "DELETE FROM journal WHERE chain IN (SELECT key FROM anchors) AND seq = 2",
        "UPDATE handoffs SET revision = 7; ",
    ],
)
def test_a_tampered_record_is_contested_and_cannot_be_claimed(desk: Desk, sql: str) -> None:
    desk.store()
    desk.recover(run_checks=True)
    desk.outlast.close()
    tamper(desk, sql)
    outlast = desk.sit_down()
    if "revision = 7" in sql:
        with pytest.raises(HandoffNotFound):
            desk.recover(outlast=outlast)
        return
    got = desk.recover(outlast=outlast, claim=True)
    assert (str(got.verdict), codes(got), got.resume) == ("contested", {"integrity_broken"}, "lost")
    assert not outlast.verify().ok


def test_a_record_that_cannot_be_read_at_all_is_an_error_by_name(desk: Desk) -> None:
    desk.store()
    desk.outlast.close()
    tamper(desk, "UPDATE journal SET payload = CAST('{}' AS BLOB) WHERE chain IN (SELECT key FROM anchors)")
    with pytest.raises(IntegrityBroken, match=TASK):
        desk.recover(outlast=desk.sit_down())


@pytest.mark.parametrize(("damage", "code"), [("flip", "artifact_corrupt"), ("remove", "artifact_missing")])
def test_kept_content_that_is_damaged_is_contested(desk: Desk, damage: str, code: str) -> None:
    desk.write("src/export.py", "x = 1\n" * 20_000)  # too large to be committed with the handoff
    stored = desk.store()
    assert stored.binding is not None
    kept = stored.binding.files["src/export.py"].kept
    blob = desk.home / "default" / "blobs" / kept[:2] / kept
    if damage == "flip":
        blob.write_bytes(bytes([blob.read_bytes()[0] ^ 1]) + blob.read_bytes()[1:])
    else:
        blob.unlink()
    got = desk.recover()
    assert (str(got.verdict), codes(got)) == ("contested", {code, "checks_not_run"})
    assert [problem.record for problem in desk.outlast.verify().problems] == [f"blob {kept[:12]}"]


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("UPDATE contents SET content = CAST('other' AS BLOB)", "artifact_corrupt"),
        ("DELETE FROM contents", "artifact_missing"),
    ],
)
def test_small_content_that_is_damaged_is_contested_too(desk: Desk, damage: str, code: str) -> None:
    stored = desk.store()
    assert stored.binding is not None
    kept = stored.binding.files["src/export.py"].kept
    desk.outlast.close()
    tamper(desk, damage)
    outlast = desk.sit_down()
    got = desk.recover(outlast=outlast)
    assert (str(got.verdict), codes(got)) == ("contested", {code, "checks_not_run"})
    assert [problem.record for problem in outlast.verify().problems] == [f"blob {kept[:12]}"]


# -- on an event loop --------------------------------------------------------------------------------


def test_the_same_is_awaited_on_an_event_loop(desk: Desk) -> None:
    async def work() -> tuple[int, str, str]:
        async with AsyncOutlast(desk.home) as outlast:
            stored = await outlast.handoff.store(**GOOD | {"repo_root": str(desk.repo)})
            recovered = await outlast.handoff.recover(TASK, repo_root=str(desk.repo), claim=True, run_checks=True)
            settled = await outlast.handoff.settle(TASK, "completed", repo_root=str(desk.repo))
            return stored.revision, recovered.resume, settled.outcome

    assert asyncio.run(work()) == (1, "attached", "completed")


def test_what_is_stored_in_a_home_that_was_deleted_is_not_called_stored(desk: Desk) -> None:
    desk.store()
    shutil.rmtree(desk.home)
    with pytest.raises(StoreFailed, match="removed or replaced"):
        desk.store(bind=False)


def test_a_file_is_judged_by_its_content_and_not_by_its_times(desk: Desk) -> None:
    desk.store()
    file = desk.repo / "src/export.py"
    was = file.stat()
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns + 3_600_000_000_000))
    assert "file_changed" not in codes(desk.recover())
    file.write_text(file.read_text().replace("return 1", "return 2"))
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert "file_changed" in codes(desk.recover())
