"""What handoffs leave in the store is checked whole, never swept away, and counted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.home.process import is_alive
from holdfast.ledger.lease import is_over
from holdfast.runs.claim import DAY_US

from .. import ready
from ..kit.anchored import anchor_row, beat, checked, claim, journal, lease_row, revise, settle, story
from ..kit.families import add_run, age_blobs, ids
from ..kit.place import Place


def tamper(place: Place, *statements: str) -> None:
    """Change the store from a process of its own: one SQLite library per process and file."""
    place.close()
    program = f"import apsw; c = apsw.Connection({str(place.home / 'default' / 'holdfast.db')!r})\n"
    program += "".join(f"list(c.execute({sql!r}))\n" for sql in statements)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def problems(place: Place) -> list[tuple[str, str]]:
    return [(problem.record, problem.why) for problem in place.hold.verify().problems]


def blob(place: Place, name: str) -> Path:
    return place.hold._runtime.blobs.path(name)


# -- verify ------------------------------------------------------------------------------------------


def test_every_revision_entry_and_blob_is_checked(place: Place) -> None:
    story(place.hold)
    revise(place.hold, "other", scope="team")
    found = place.hold.verify()
    assert (found.ok, found.handoffs, found.entries, found.blobs, found.runs) == (True, 3, 5, 5, 0)


def test_a_check_of_one_run_leaves_handoffs_alone(place: Place) -> None:
    add_run(place.hold, "r1")
    story(place.hold)
    tamper(place, "UPDATE journal SET payload = NULL WHERE run < 0")
    assert place.hold.verify("r1").ok
    assert place.hold.verify("r1").handoffs == 0
    assert not place.hold.verify().ok


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
    "its lease is missing": ("DELETE FROM leases", WHOLE, "its lease row is missing"),
    "a handoff in place of another kind of entry": (
        "UPDATE journal SET run = 1",
        "journal of run number 1",
        "the run's row is missing",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_record_that_is_not_what_was_stored_is_named(place: Place, edit: str) -> None:
    sql, record, why = EDITS[edit]
    story(place.hold)
    assert place.hold.verify().ok
    tamper(place, sql)
    found = problems(place)
    assert [each for each in found if each[0] == record and why in each[1]], found


def test_what_is_left_of_an_anchor_whose_row_is_gone_is_found(place: Place) -> None:
    story(place.hold)
    gone = anchor_row(place.hold).id
    tamper(place, "DELETE FROM anchors")
    assert problems(place) == [
        (f"handoff lease {gone}", "its anchor's row is missing"),
        ("journal of anchor number 1", "its row is missing"),
        ("handoffs of anchor number 1", "its row is missing"),
    ]


def test_a_reference_that_is_missing_is_found_before_gc_takes_the_blob(place: Place) -> None:
    revise(place.hold, content=b"a = 1\n")
    tamper(place, "DELETE FROM blob_refs")
    ((record, why),) = problems(place)
    assert (record, why.split(" blob ")[0]) == (WHOLE, "nothing keeps")


@pytest.mark.parametrize("which", ["content", "patch", "baseline output", "check output"])
@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_blob_of_a_handoff_that_is_missing_or_changed_is_named_with_who_needs_it(
    place: Place, which: str, damage: str
) -> None:
    handoff = revise(place.hold, content=b"a", patch=b"b", output=b"c")
    assert handoff.binding is not None
    later = checked(place.hold, b"d")
    kept = handoff.binding.files["src/a.py"].kept
    names = {"content": kept, "patch": handoff.binding.patch, "baseline output": handoff.baseline[0].output}
    path = blob(place, names.get(which, later))
    path.write_bytes(b"?") if damage == "changed" else path.unlink()
    ((record, why),) = problems(place)
    assert record == f"blob {path.name[:12]}"
    assert (damage if damage == "missing" else "content was changed") in why
    assert "handoff task:x needs it" in why


def test_a_settled_anchor_is_finished_until_somebody_stores_again(place: Place) -> None:
    revise(place.hold)
    settle(place.hold, "completed")
    assert place.hold.verify().ok
    assert anchor_row(place.hold).status == "finished"
    tamper(place, "UPDATE anchors SET status = 'open'")
    assert problems(place) == [(WHOLE, "its row says status 'open', its journal 'finished'")]


def test_a_failed_or_released_anchor_stays_open(place: Place) -> None:
    for number, outcome in enumerate(("failed", "released")):
        revise(place.hold, f"task:{number}")
        settle(place.hold, outcome, f"task:{number}")
    assert place.hold.verify().ok


def test_a_revision_of_another_anchor_does_not_fit(place: Place) -> None:
    """The chain is whole, but what it says is not about this anchor."""
    revise(place.hold)
    revise(place.hold, anchor="task:x", revision=5)
    revise(place.hold, "task:z", id="twice")
    revise(place.hold, "task:w", scope="default", summary="s")
    assert problems(place)[0][0] == SECOND
    assert "is revision 5" in problems(place)[0][1]


def test_an_anchor_of_another_scope_is_named_with_it(place: Place) -> None:
    revise(place.hold, scope="team")
    tamper(place, "UPDATE anchors SET score = 1")
    assert problems(place)[0][0] == "handoff task:x in scope team"


# -- gc ----------------------------------------------------------------------------------------------


def everything(hold: Holdfast) -> list[object]:
    """All that the store has of handoffs."""
    look = hold._runtime.store.read
    rows = look(lambda reading: reading.anchors_after(0, 100))
    return [
        rows,
        [journal(hold, row.anchor) for row in rows],
        [lease_row(hold, row.anchor) for row in rows],
        [look(lambda reading, key=row.key: (reading.handoffs_of(key), reading.files_of_anchor(key))) for row in rows],
        [look(lambda reading, key=row.key: reading.blob_refs_upto(-key, 1 << 60)) for row in rows],
    ]


def test_gc_removes_old_runs_and_nothing_of_any_handoff(place: Place) -> None:
    hold = place.hold
    add_run(hold, "r1", contents=[b"only the run's", b"a = 1\n"])  # the key 1, as the anchor's; and a shared blob
    story(hold)
    story(hold, "task:done")
    settle(hold, "completed", "task:done")
    claim(hold, "token")
    age_blobs(hold)
    before = everything(hold)
    place.clock.advance(1000 * 86_400)
    swept = hold.gc(keep=0, dry_run=False)
    assert ([run.id for run in swept.runs], swept.blobs, swept.troubles) == (["r1"], 1, ())
    assert "2 handoffs, with their history and all blobs that it needs: untouched" in swept.proof
    age_blobs(hold)
    assert hold.gc(keep=0, dry_run=False).trash == 1
    assert everything(hold) == before
    assert ids(hold) == set()
    found = hold.verify()
    assert (found.ok, found.handoffs, found.blobs) == (True, 4, 10)
    assert hold._runtime.store.read(lambda look: look.beat_of("token")) is not None


def test_a_dry_run_does_not_count_a_blob_that_a_handoff_needs_as_room(place: Place) -> None:
    add_run(place.hold, "r1", contents=[b"s" * 100_000])
    revise(place.hold, content=b"s" * 100_000, patch=b"only the handoff's")
    age_blobs(place.hold)
    swept = place.hold.gc(keep=0)
    assert (swept.blobs, swept.runs[0].size_bytes < 10_000) == (0, True)


def test_the_row_of_a_live_claim_is_not_forgotten_and_that_of_an_ended_one_is(place: Place) -> None:
    hold = place.hold
    revise(hold)
    claim(hold, "token")
    hold._runtime.store.write(lambda tx: tx.beat(beat(hold, "ended")))
    place.clock.advance(3 * 86_400)
    hold._runtime.store.write(lambda tx: tx.forget_silent_processes(place.clock.now() - DAY_US))
    assert hold._runtime.store.read(lambda look: look.beat_of("token")) is not None
    assert hold._runtime.store.read(lambda look: look.beat_of("ended")) is None


@pytest.mark.parametrize("lives", [True, False])
def test_a_claim_that_has_been_silent_for_long_does_not_hold_gc_or_vacuum_up(place: Place, lives: bool) -> None:
    hold = place.hold
    revise(hold)
    process = {"pid": os.getpid(), "started": hold._runtime.process.started} if lives else {}
    claim(hold, "token", **process)
    hold._runtime.blobs.put(b"nobody's")
    age_blobs(hold)
    place.clock.advance(86_400)
    swept = hold.gc(dry_run=False, vacuum=True)
    assert (swept.blobs, swept.vacuumed, swept.troubles) == (1, True, ())


def test_a_claim_on_a_run_does_not_hold_gc_up_either(place: Place) -> None:
    hold = place.hold
    hold._runtime.store.write(lambda tx: tx.beat(beat(hold, "token")))
    add_run(hold, "r1", status="failed", holder="token")
    hold._runtime.blobs.put(b"nobody's")
    age_blobs(hold)
    place.clock.advance(86_400)
    assert (hold.gc(dry_run=False).blobs, ids(hold)) == (1, {"r1"})


def test_a_claim_without_a_process_is_over_only_after_its_time(place: Place) -> None:
    runtime = place.hold._runtime
    told, me = beat(place.hold, "token"), runtime.process
    assert is_alive(told.process, me) is None
    for seconds, over in ((899, False), (901, True)):
        later = told.boot_us + seconds * 1_000_000
        assert is_over(told, me, alive=False, boot_us=later, wall_us=later) is over


# -- counting ----------------------------------------------------------------------------------------


def test_claims_are_not_counted_as_processes(place: Place) -> None:
    hold = place.hold
    runtime = hold._runtime
    revise(hold)
    claim(hold, "token")
    runtime.store.write(lambda tx: (tx.beat(beat(hold, "other")), tx.beat(runtime.beat())))
    add_run(hold, "r1", status="failed", holder="other")
    add_run(hold, "r2", status="running", holder=runtime.process.id)
    assert runtime.store.read(lambda look: look.count_processes()) == 1


def test_the_facts_of_a_home_count_open_and_finished_handoffs(place: Place) -> None:
    assert place.hold.facts()["handoffs"] == {"open": 0, "finished": 0}
    for name in ("a", "b", "c"):
        revise(place.hold, name)
    settle(place.hold, "completed", "c")
    assert place.hold.facts()["handoffs"] == {"open": 2, "finished": 1}


def test_verify_and_doctor_tell_of_handoffs(place: Place) -> None:
    story(place.hold)
    place.close()

    def said(*words: str) -> str:
        command = ("-m", "holdfast", *words, "--home", str(place.home))
        done = ready.run(command, cwd=place.folder, env=ready.environment())
        done.check_returncode()
        return done.stdout.decode()

    assert "0 runs, 2 handoffs, 4 journal records, 5 blobs checked" in said("verify")
    assert "1 open, 0 finished" in said("doctor")
