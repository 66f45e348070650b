"""Torn, foreign and edited records are found, named, and not resumed on."""

import pytest

from outlast import Run, flow, step
from outlast.errors import Contested, OutlastError

from ..kit import ledgers
from ..kit.place import KNOBS, Place, reach


@step
def work(text: str) -> str:
    return text.upper()


@step
def much() -> str:
    return "x" * 50_000


@flow
def works(run: Run, text: str = "a") -> str:
    run.emit("began")
    found = work(text)
    much()
    reach("worked")
    return found


def tamper(place: Place, sql: str) -> None:
    place.close()
    ledgers.change(place.home, sql)


@pytest.fixture
def crashed(place: Place) -> Place:
    place.crash(works, at="worked")
    assert place.outlast.verify().ok
    return place


WORK = """WHERE CAST(header AS TEXT) LIKE '%"work"%'"""
EDITS = {
    "a payload was edited": f"UPDATE journal SET payload = CAST(replace(payload, 'A', 'B') AS BLOB) {WORK}",
    "a payload is missing": f"UPDATE journal SET payload = NULL {WORK}",
    "a header was edited": f"UPDATE journal SET header = CAST(replace(header, 'succeeded', 'skipped') AS BLOB) {WORK}",
    "a hash was edited": f"UPDATE journal SET hash = zeroblob(32) {WORK}",
    "an entry is missing": f"DELETE FROM journal {WORK}",
    "the last entry is missing": "DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_journal_is_named_by_its_record_and_not_resumed(crashed: Place, edit: str) -> None:
    events = crashed.outlast.events(crashed.run_id)
    last = "last" in edit
    seq = events[-1].seq if last else next(e.seq for e in events if e.step == "work" and e.name == "step.succeeded")
    tamper(crashed, EDITS[edit])
    (problem,) = crashed.outlast.verify().problems
    assert problem.run_id == crashed.run_id
    assert problem.record in (f"entry {crashed.run_id}/{seq}", f"entry {crashed.run_id}/{seq - last}")
    with pytest.raises(Contested, match="integrity_broken"):
        crashed.run(works)
    assert crashed.outlast.get(crashed.run_id).status == "crashed"
    assert [r.code for r in crashed.outlast.plan(crashed.run_id).verdict.reasons] == ["integrity_broken"]


def test_entries_of_another_run_do_not_fit(crashed: Place) -> None:
    KNOBS.pop("die", None)
    crashed.run(works, "b")
    tamper(
        crashed,
        "UPDATE journal SET (header, hash, payload) = (SELECT o.header, o.hash, o.payload FROM journal o"
        " WHERE o.chain = 2 AND o.seq = journal.seq) WHERE chain = 1 AND seq > 1",
    )
    assert not crashed.outlast.verify().ok
    with pytest.raises(Contested):
        crashed.run(works)


@pytest.mark.parametrize("edit", ['inputs = \'{"text":"z"}\'', "flow = 'other:flow'", "task = 'other'"])
def test_an_edited_run_is_found(crashed: Place, edit: str) -> None:
    tamper(crashed, f"UPDATE runs SET {edit}")
    assert not crashed.outlast.verify().ok


def test_edited_inputs_are_not_resumed_on(crashed: Place) -> None:
    tamper(crashed, 'UPDATE runs SET inputs = \'{"text":"z"}\'')
    with pytest.raises(OutlastError):
        crashed.outlast.resume(crashed.run_id)


def test_a_finished_run_that_was_edited_is_found(place: Place) -> None:
    place.run(works)
    tamper(place, 'UPDATE runs SET result = \'{"value":"Z"}\'')
    assert not place.outlast.verify().ok


def blob(place: Place) -> str:
    (path,) = [path for path in (place.home / "default" / "blobs").rglob("*") if path.is_file()]
    return str(path)


def test_a_corrupt_blob_contests(crashed: Place) -> None:
    from pathlib import Path

    path = Path(blob(crashed))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"y")
    assert not crashed.outlast.verify().ok
    with pytest.raises(Contested, match="artifact_corrupt"):
        crashed.run(works)


def test_a_missing_blob_contests(crashed: Place) -> None:
    from pathlib import Path

    Path(blob(crashed)).unlink()
    assert not crashed.outlast.verify().ok
    with pytest.raises(Contested, match="artifact_missing"):
        crashed.run(works)


@pytest.mark.parametrize("left", ["chains", "journal"])
def test_a_run_whose_row_is_gone_is_missed(crashed: Place, left: str) -> None:
    missed = crashed.run_id
    other = "chains" if left == "journal" else "journal"
    tamper(crashed, "DELETE FROM runs")
    found = crashed.outlast.verify()
    assert [(problem.run_id, problem.record) for problem in found.problems] == [
        (missed, f"run {missed}"),
        ("", "journal number 1"),
        ("", "run number 1"),
    ]
    tamper(crashed, f"DELETE FROM {other}")
    assert not crashed.outlast.verify().ok


def test_a_missing_blob_is_found_by_what_the_entry_says(crashed: Place) -> None:
    from pathlib import Path

    tamper(crashed, "DELETE FROM blob_refs")
    assert crashed.outlast.verify().blobs == 1
    Path(blob(crashed)).unlink()
    *_, problem = crashed.outlast.verify().problems
    assert (problem.run_id, problem.record.split()[0]) == (crashed.run_id, "blob")


def test_a_fresh_run_leaves_the_broken_one_behind(crashed: Place) -> None:
    tamper(crashed, EDITS["a payload was edited"])
    assert crashed.run(works, fresh=True).result == "A"


def test_verify_names_only_the_run_that_was_asked_for(crashed: Place) -> None:
    KNOBS.pop("die", None)
    broken = crashed.run_id
    other = crashed.run(works, "b").run_id
    tamper(crashed, "UPDATE journal SET payload = NULL WHERE chain = 1 AND payload IS NOT NULL")
    assert crashed.outlast.verify(other).ok
    assert not crashed.outlast.verify(broken).ok


def test_a_torn_file_is_refused_with_its_name(crashed: Place) -> None:
    crashed.close()
    path = crashed.home / "default" / "outlast.db"
    path.write_bytes(b"this is no database, however long it may be" * 200)
    with pytest.raises(OutlastError) as caught:
        _ = crashed.outlast
    assert caught.value.code in ("store_foreign", "store_failed")
    assert str(path) in str(caught.value)
