"""What handoffs leave in the store is checked whole, never swept away, and counted."""

import os
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.home.process import is_alive
from outlast.ledger.lease import is_over
from outlast.runs.claim import DAY_US

from .. import ready
from ..kit.anchored import anchor_row, beat, checked, claim, journal, lease_row, revise, settle, story
from ..kit.families import add_run, age_blobs, ids
from ..kit.place import Place
from ..ready import completed


def tamper(place: Place, *statements: str) -> None:
    """Change the store from a process of its own: one SQLite library per process and file."""
    place.close()
    program = f"import apsw; c = apsw.Connection({str(place.home / 'default' / 'outlast.db')!r})\n"
    program += "".join(f"list(c.execute({sql!r}))\n" for sql in statements)
    completed(("-c", program), check=True)


def problems(place: Place) -> list[tuple[str, str]]:
    return [(problem.record, problem.why) for problem in place.outlast.verify().problems]


def blob(place: Place, name: str) -> Path:
    return place.outlast._executor.home.blobs.path(name)


# -- verify ------------------------------------------------------------------------------------------


def test_every_revision_entry_and_blob_is_checked(place: Place) -> None:
    story(place.outlast)
    revise(place.outlast, "other", scope="team")
    found = place.outlast.verify()
    assert (found.ok, found.handoffs, found.entries, found.blobs, found.runs) == (True, 3, 5, 5, 0)


def test_a_check_of_one_run_leaves_handoffs_alone(place: Place) -> None:
    add_run(place.outlast, "r1")
    story(place.outlast)
    tamper(place, "UPDATE journal SET payload = NULL WHERE chain IN (SELECT key FROM anchors)")
    assert place.outlast.verify("r1").ok
    assert place.outlast.verify("r1").handoffs == 0
    assert not place.outlast.verify().ok


SECOND = "handoff task:x@2"
WHOLE = "handoff task:x"
STORED = "seq = 4"  # the entry of the second revision
EDITS = {
    "a payload was edited": (
        f"UPDATE journal SET payload = CAST(replace(payload, 'half', 'most') AS BLOB) WHERE {STORED}",
        SECOND,
        "payload was changed",
    ),
    "a payload is missing": (f"UPDATE journal SET payload = NULL WHERE {STORED}", SECOND, "payload is missing"),
    "a header was edited": (
        f"UPDATE journal SET header = CAST(replace(header, 'stored', 'noted') AS BLOB) WHERE {STORED}",
        SECOND,
        "header or its place",
    ),
    "the last entry is missing": (f"DELETE FROM journal WHERE {STORED}", SECOND, "the chain ends at 3"),
    "an entry between is missing": ("DELETE FROM journal WHERE seq = 2", "entry handoff task:x/2", "it is missing"),
    "the anchor has another name": ("UPDATE anchors SET anchor = 'task:y'", "handoff task:y@1", "header or its place"),
    "a revision is another one": ("UPDATE handoffs SET id = 'other' WHERE revision = 2", SECOND, "its row says other"),
    "a revision is elsewhere": ("UPDATE handoffs SET seq = 2 WHERE revision = 2", SECOND, "entry 2; its journal"),
    "it supersedes another one": ("UPDATE handoffs SET supersedes = 'z' WHERE revision = 2", SECOND, "its row says"),
    "a revision's row is missing": ("DELETE FROM handoffs WHERE revision = 1", f"{WHOLE}@1", "its row is missing"),
    "a revision has no entry": (
        "INSERT INTO handoffs (id, anchor, revision, seq) VALUES ('more', 1, 3, 5)",
        f"{WHOLE}@3",
        "its entry is missing",
    ),
    "another revision is the newest": (
        "UPDATE anchors SET revision = 1",
        WHOLE,
        "its row says revision 1, its journal 2",
    ),
    "its place in lists": ("UPDATE anchors SET newest = 1", WHOLE, "its row says newest 1, its journal 2"),
    "it counts as finished": ("UPDATE anchors SET status = 'finished'", WHOLE, "status 'finished', its journal 'open'"),
    "its outcome": ("UPDATE anchors SET outcome = 'failed'", WHOLE, "outcome 'failed', its journal 'completed'"),
    "its branch": ("UPDATE anchors SET branch = 'b'", WHOLE, "its row says branch 'b', its journal 'main'"),
    "its root": ("UPDATE anchors SET root = ''", WHOLE, "its row says root ''"),
    "its symbol": ("UPDATE anchors SET symbol = 's'", WHOLE, "its row says symbol 's'"),
    "its score": ("UPDATE anchors SET score = 100", WHOLE, "its row says score 100, its journal 90"),
    "its age": ("UPDATE anchors SET stored_at = 1", WHOLE, "its row says stored_at 1"),
    "its end": ("UPDATE anchors SET expires_at = 1", WHOLE, "its row says expires_at 1"),
    "it came from elsewhere": ("UPDATE anchors SET arrived = 9", WHOLE, "entry 9 came by import, and there is no such"),
    "its files": ("UPDATE handoff_files SET path = 'src/b.py'", WHOLE, "the files that it is found by"),
    "its files are missing": ("DELETE FROM handoff_files", WHOLE, "the files that it is found by"),
    "its lease is missing": ("DELETE FROM chains", WHOLE, "its lease row is missing"),
    "a handoff in place of another kind of entry": (
        "UPDATE journal SET chain = 7",
        "journal number 7",
        "the row of its run or handoff is missing",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_record_that_is_not_what_was_stored_is_named(place: Place, edit: str) -> None:
    sql, record, why = EDITS[edit]
    story(place.outlast)
    assert place.outlast.verify().ok
    tamper(place, sql)
    found = problems(place)
    assert [each for each in found if each[0] == record and why in each[1]], found


def test_what_is_left_of_an_anchor_whose_row_is_gone_is_found(place: Place) -> None:
    story(place.outlast)
    gone = anchor_row(place.outlast).id
    tamper(place, "DELETE FROM anchors")
    assert problems(place) == [
        ("journal number 1", "the row of its run or handoff is missing"),
        (f"handoff lease {gone}", "its anchor's row is missing"),
        ("handoffs of anchor number 1", "its row is missing"),
        ("anchor number 1", "its row is missing"),
    ]


def test_a_reference_that_is_missing_is_found_before_gc_takes_the_blob(place: Place) -> None:
    revise(place.outlast, content=b"a = 1\n")
    tamper(place, "DELETE FROM blob_refs")
    ((record, why),) = problems(place)
    assert (record, why.split(" blob ")[0]) == (WHOLE, "the reference that keeps")


@pytest.mark.parametrize("which", ["content", "patch", "baseline output", "check output"])
@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_blob_of_a_handoff_that_is_missing_or_changed_is_named_with_who_needs_it(
    place: Place, which: str, damage: str
) -> None:
    handoff = revise(place.outlast, content=b"a", patch=b"b", output=b"c")
    assert handoff.binding is not None
    later = checked(place.outlast, b"d")
    kept = handoff.binding.files["src/a.py"].kept
    names = {"content": kept, "patch": handoff.binding.patch, "baseline output": handoff.baseline[0].output}
    path = blob(place, names.get(which, later))
    path.write_bytes(b"?") if damage == "changed" else path.unlink()
    ((record, why),) = problems(place)
    assert record == f"blob {path.name[:12]}"
    assert (damage if damage == "missing" else "content was changed") in why
    assert "handoff task:x needs it" in why


def test_a_settled_anchor_is_finished_until_somebody_stores_again(place: Place) -> None:
    revise(place.outlast)
    settle(place.outlast, "completed")
    assert place.outlast.verify().ok
    assert anchor_row(place.outlast).status == "finished"
    tamper(place, "UPDATE anchors SET status = 'open'")
    assert problems(place) == [(WHOLE, "its row says status 'open', its journal 'finished'")]


def test_a_failed_or_released_anchor_stays_open(place: Place) -> None:
    for number, outcome in enumerate(("failed", "released")):
        revise(place.outlast, f"task:{number}")
        settle(place.outlast, outcome, f"task:{number}")
    assert place.outlast.verify().ok


def test_a_revision_of_another_anchor_does_not_fit(place: Place) -> None:
    """The chain is whole, but what it says is not about this anchor."""
    revise(place.outlast)
    revise(place.outlast, anchor="task:x", revision=5)
    revise(place.outlast, "task:z", id="twice")
    revise(place.outlast, "task:w", scope="default", summary="s")
    assert problems(place)[0][0] == SECOND
    assert "is revision 5" in problems(place)[0][1]


def test_an_anchor_of_another_scope_is_named_with_it(place: Place) -> None:
    revise(place.outlast, scope="team")
    tamper(place, "UPDATE anchors SET score = 1")
    assert problems(place)[0][0] == "handoff task:x in scope team"


# -- gc ----------------------------------------------------------------------------------------------


def everything(outlast: Outlast) -> list[object]:
    """All that the store has of handoffs."""
    look = outlast._executor.home.store.read
    rows = look(lambda reading: reading.anchors_after(0, 100))
    return [
        rows,
        [journal(outlast, row.anchor) for row in rows],
        [lease_row(outlast, row.anchor) for row in rows],
        [look(lambda reading, key=row.key: (reading.handoffs_of(key), reading.files_of_anchor(key))) for row in rows],
        [look(lambda reading, key=row.key: reading.blob_refs_upto(-key, 1 << 60)) for row in rows],
    ]


def test_gc_removes_old_runs_and_nothing_of_any_handoff(place: Place) -> None:
    outlast = place.outlast
    add_run(outlast, "r1", contents=[b"only the run's", b"a = 1\n"])  # the key 1, as the anchor's; and a shared blob
    story(outlast)
    story(outlast, "task:done")
    settle(outlast, "completed", "task:done")
    claim(outlast, "token")
    age_blobs(outlast)
    before = everything(outlast)
    place.clock.advance(1000 * 86_400)
    swept = outlast.gc(keep=0, dry_run=False)
    assert ([run.id for run in swept.runs], swept.blobs, swept.troubles) == (["r1"], 1, ())
    assert "2 handoffs, with their history and all blobs that it needs: untouched" in swept.proof
    age_blobs(outlast)
    assert outlast.gc(keep=0, dry_run=False).trash == 1
    assert everything(outlast) == before
    assert ids(outlast) == set()
    found = outlast.verify()
    assert (found.ok, found.handoffs, found.blobs) == (True, 4, 10)
    assert outlast._executor.home.store.read(lambda look: look.beat_of("token")) is not None


def test_a_dry_run_does_not_count_a_blob_that_a_handoff_needs_as_room(place: Place) -> None:
    add_run(place.outlast, "r1", contents=[b"s" * 100_000])
    revise(place.outlast, content=b"s" * 100_000, patch=b"only the handoff's")
    age_blobs(place.outlast)
    swept = place.outlast.gc(keep=0)
    assert (swept.blobs, swept.runs[0].size_bytes < 10_000) == (0, True)


def test_the_row_of_a_live_claim_is_not_forgotten_and_that_of_an_ended_one_is(place: Place) -> None:
    outlast = place.outlast
    revise(outlast)
    claim(outlast, "token")
    outlast._executor.home.store.write(lambda tx: tx.beat_claim(beat(outlast, "ended")))
    place.clock.advance(3 * 86_400)
    outlast._executor.home.store.write(lambda tx: tx.forget_silent_processes(place.clock.now() - DAY_US))
    assert outlast._executor.home.store.read(lambda look: look.beat_of("token")) is not None
    assert outlast._executor.home.store.read(lambda look: look.beat_of("ended")) is None


@pytest.mark.parametrize("lives", [True, False])
def test_a_claim_that_has_been_silent_for_long_does_not_hold_gc_or_vacuum_up(place: Place, lives: bool) -> None:
    outlast = place.outlast
    revise(outlast)
    process = {"pid": os.getpid(), "started": outlast._executor.home.process.started} if lives else {}
    claim(outlast, "token", **process)
    outlast._executor.home.blobs.put(b"nobody's")
    age_blobs(outlast)
    place.clock.advance(86_400)
    swept = outlast.gc(dry_run=False, vacuum=True)
    assert (swept.blobs, swept.vacuumed, swept.troubles) == (1, True, ())


def test_a_claim_on_a_run_does_not_hold_gc_up_either(place: Place) -> None:
    outlast = place.outlast
    outlast._executor.home.store.write(lambda tx: tx.beat_claim(beat(outlast, "token")))
    add_run(outlast, "r1", status="failed", holder="token")
    outlast._executor.home.blobs.put(b"nobody's")
    age_blobs(outlast)
    place.clock.advance(86_400)
    assert (outlast.gc(dry_run=False).blobs, ids(outlast)) == (1, {"r1"})


def test_a_claim_without_a_process_is_over_only_after_its_time(place: Place) -> None:
    home = place.outlast._executor.home
    told, me = beat(place.outlast, "token"), home.process
    assert is_alive(told.process, me) is None
    for seconds, over in ((899, False), (901, True)):
        later = told.boot_us + seconds * 1_000_000
        assert is_over(told, me, alive=False, boot_us=later, wall_us=later) is over


# -- counting ----------------------------------------------------------------------------------------


def test_claims_are_not_counted_as_processes(place: Place) -> None:
    outlast = place.outlast
    home = outlast._executor.home
    revise(outlast)
    claim(outlast, "token")
    home.store.write(lambda tx: (tx.beat_claim(beat(outlast, "other")), tx.beat(home.beat())))
    add_run(outlast, "r1", status="failed", holder="other")
    add_run(outlast, "r2", status="running", holder=home.process.id)
    assert home.store.read(lambda look: look.count_processes()) == 1


def test_the_facts_of_a_home_count_open_and_finished_handoffs(place: Place) -> None:
    assert place.outlast.facts()["handoffs"] == {"open": 0, "finished": 0}
    for name in ("a", "b", "c"):
        revise(place.outlast, name)
    settle(place.outlast, "completed", "c")
    assert place.outlast.facts()["handoffs"] == {"open": 2, "finished": 1}


def test_verify_and_doctor_tell_of_handoffs(place: Place) -> None:
    story(place.outlast)
    place.close()

    def said(*words: str) -> str:
        command = ("-m", "outlast", *words, "--home", str(place.home))
        done = ready.run(command, cwd=place.folder, env=ready.environment())
        done.check_returncode()
        return done.stdout.decode()

    assert "0 runs, 2 handoffs, 4 journal records, 5 blobs checked" in said("verify")
    assert "1 open, 0 finished" in said("doctor")
