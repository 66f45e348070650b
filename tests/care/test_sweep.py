"""gc: finished runs go by age, count and size; an unfinished one and what it needs never does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import Outlast, Run, flow, step
from outlast.care.gc import runs as removal
from outlast.care.gc.gc import Swept, sweep
from outlast.clock import ManualClock
from outlast.errors import GcRunning, Invalid, RunNotFound, RunRemoved
from outlast.runs.look import each_run
from outlast.runs.run import FINISHED
from outlast.store.contract import NewWait

from ..kit.families import HOUR, add_run, age_blobs, ids
from ..kit.place import Place


@step
def much(text: str) -> str:
    return text * 50_000


@flow
def child(run: Run, text: str) -> int:
    return len(much(text))


@flow
def parent(run: Run, text: str) -> int:
    return run.spawn(child, text).result() + 1


@flow
def waits(run: Run, text: str) -> None:
    run.spawn(child, text).result()
    run.sleep("2h")


def gc(place: Place, **rules: object) -> Swept:
    return place.outlast.gc(dry_run=False, **rules)  # type: ignore[arg-type]


def blobs(place: Place) -> int:
    """How many blobs are in their places."""
    shelves = (place.home / "default" / "blobs").glob("??/*")
    return sum(path.is_file() for path in shelves)


# -- rules -------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_go_and_touches_nothing(place: Place) -> None:
    place.run(parent, "a")
    age_blobs(place.outlast)
    before = ids(place.outlast)
    swept = place.outlast.gc(keep=0)
    assert ({run.id for run in swept.runs}, swept.blobs, swept.dry_run) == (before, 1, True)
    assert (ids(place.outlast), blobs(place)) == (before, 1)
    done = gc(place, keep=0)
    assert ({run.id for run in done.runs}, done.blobs, done.blob_bytes) == (before, swept.blobs, swept.blob_bytes)
    assert (ids(place.outlast), blobs(place)) == (set(), 0)
    assert place.outlast.verify().ok


def test_runs_go_by_age(place: Place) -> None:
    for hours in (5, 3, 1):
        add_run(place.outlast, f"r{hours}", ended_ago=hours)
    assert [run.id for run in gc(place, older_than=2 * 3600).runs] == ["r5", "r3"]
    assert gc(place, older_than=2 * 3600).kept == {"young": 1}


def test_runs_go_by_count_and_the_newest_of_each_flow_stay(place: Place) -> None:
    for number in range(4):
        add_run(place.outlast, f"a{number}", ended_ago=9 - number, flow="m:a")
    add_run(place.outlast, "b0", ended_ago=99, flow="m:b")
    assert [run.id for run in gc(place, keep=2).runs] == ["a0", "a1"]
    assert ids(place.outlast) == {"a2", "a3", "b0"}


def test_the_oldest_go_until_the_rest_fits(place: Place) -> None:
    shared = b"shared" * 10_000
    for number in range(6):
        add_run(place.outlast, f"r{number}", ended_ago=9 - number, contents=[bytes([65 + number]) * 200_000, shared])
    age_blobs(place.outlast)
    size = place.outlast.gc().size_before
    swept = gc(place, max_bytes=size - 500_000)
    assert [run.id for run in swept.runs] == ["r0", "r1", "r2"]
    assert swept.kept == {"fits": 3}
    assert swept.blob_bytes == 600_000  # what others share with them stays
    assert gc(place, max_bytes=size - 500_000).nothing


def test_a_size_that_cannot_be_reached_takes_every_finished_run_and_no_other(place: Place) -> None:
    add_run(place.outlast, "done", contents=[b"a" * 1000])
    add_run(place.outlast, "open", status="failed", contents=[b"b" * 1000])
    age_blobs(place.outlast)
    assert [run.id for run in gc(place, max_bytes=0).runs] == ["done"]
    assert (ids(place.outlast), blobs(place)) == ({"open"}, 1)


def test_rules_narrow_each_other(place: Place) -> None:
    for hours in (5, 3, 1):
        add_run(place.outlast, f"r{hours}", ended_ago=hours)
    assert [run.id for run in place.outlast.gc(older_than=7200, keep=2).runs] == ["r5"]
    assert place.outlast.gc(older_than=7200, keep=3).runs == ()
    assert place.outlast.gc(older_than=7200, keep=0, max_bytes=1 << 40).runs == ()


def test_without_a_rule_no_run_goes(place: Place) -> None:
    add_run(place.outlast, "r1", ended_ago=9999)
    assert gc(place).kept == {"no_rule": 1}
    assert ids(place.outlast) == {"r1"}


def test_only_the_scope_that_is_named_is_swept(place: Place) -> None:
    add_run(place.outlast, "r1")
    add_run(place.outlast, "r2", scope="other")
    assert [run.id for run in gc(place, keep=0, scope="other").runs] == ["r2"]


@pytest.mark.parametrize("rule", [{"older_than": -1}, {"keep": -1}, {"max_bytes": -1}, {"older_than": float("nan")}])
def test_a_rule_that_makes_no_sense_is_refused(place: Place, rule: dict[str, float]) -> None:
    with pytest.raises(Invalid, match=r"give 0 or more"):
        place.outlast.gc(**rule)  # type: ignore[arg-type]


# -- who stays ---------------------------------------------------------------------------------------


def test_a_waiting_run_keeps_its_finished_child_and_the_blobs_of_both(place: Place) -> None:
    place.run(waits, "a")
    place.run(parent, "b")
    age_blobs(place.outlast)
    place.clock.advance(1000 * 3600)
    swept = gc(place, keep=0, older_than=1)
    assert len(swept.runs) == 2
    assert swept.kept == {"unfinished": 1, "family": 1}
    assert swept.proof[0] == "1 unfinished run and 1 blob that they need: untouched"
    assert place.outlast.verify().ok
    assert place.run(waits, "a").status == "succeeded"


def test_a_run_goes_with_all_below_it_or_not_at_all(place: Place) -> None:
    add_run(place.outlast, "top")
    add_run(place.outlast, "middle", parent="top")
    add_run(place.outlast, "low", parent="middle", status="crashed")
    assert gc(place, keep=0).kept == {"unfinished": 1, "family": 2}
    assert ids(place.outlast) == {"top", "middle", "low"}


def test_copies_from_elsewhere_go_like_finished_runs_and_a_stub_stays(place: Place) -> None:
    add_run(place.outlast, "copy", status="failed", seal="copy")
    add_run(place.outlast, "told", status="crashed", seal="testimony")
    add_run(place.outlast, "left", status="failed", seal="moved")
    add_run(place.outlast, "back", status="succeeded", seal="moved")
    assert {run.id for run in gc(place, keep=0).runs} == {"copy", "told", "back"}
    assert ids(place.outlast) == {"left"}


def test_a_run_that_a_worker_still_holds_stays(place: Place) -> None:
    home = place.outlast._executor.home
    home.store.write(lambda tx: tx.beat(home.beat()))
    add_run(place.outlast, "held", holder=home.process.id)
    home.held.claimed.add("held")
    assert gc(place, keep=0).kept == {"held": 1}


def test_a_run_that_is_damaged_stays_for_people_to_see(place: Place) -> None:
    add_run(place.outlast, "r1")
    place.outlast._executor.home.store.write(lambda tx: tx.do("DELETE FROM chains"))  # type: ignore[attr-defined]
    assert gc(place, keep=0).kept == {"damaged": 1}


def test_a_child_that_arrives_after_the_decision_keeps_its_parent(place: Place) -> None:
    add_run(place.outlast, "r1")
    caller = place.outlast._executor.caller

    def arrive(planned: object) -> None:
        add_run(place.outlast, "r2", parent="r1", status="failed")

    (run,) = [run for run in caller.home.store.read(lambda look: look.kin_of_status("succeeded", 9, 0))]
    arrive(run)
    weights = {run.key: caller.home.store.read(lambda look: look.weight_of(run.key))}
    assert removal.remove_runs(caller, [run], weights, 10, lambda *_: None) == (set(), [])
    assert ids(place.outlast) == {"r1", "r2"}


statuses = st.sampled_from(["succeeded"] * 5 + ["aborted", "failed", "crashed", "waiting", "interrupted", "running"])
families = st.lists(
    st.tuples(st.integers(-1, 7), statuses, st.sampled_from(["", "", "moved", "copy"]), st.integers(0, 5)),
    min_size=1,
    max_size=8,
)


@given(
    families,
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 400_000),
    st.integers(1, 3),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_rules_no_unfinished_run_nor_a_blob_it_needs_is_touched(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[int, str, str, int]],
    hours: int | None,
    keep: int | None,
    size: int | None,
    batch: int,
) -> None:
    home = tmp_path_factory.mktemp("home") / ".outlast"
    options = {"synchronous": "OFF"}
    with Outlast(home, clock=ManualClock(), store_options=options) as outlast:
        for number, (under, status, seal, blob) in enumerate(made):
            above = f"r{under}" if 0 <= under < number else ""
            contents = [b'"%s"' % (str(blob).encode() * 40_000)]
            add_run(outlast, f"r{number}", parent=above, status=status, seal=seal, contents=contents, ended_ago=number)
        age_blobs(outlast)
        before = {run.id: (run, outlast.receipts(run.id)) for run in outlast.runs()}
        unfinished = {run for run, (row, _) in before.items() if row.status not in FINISHED and row.seal != "copy"}
        older = None if hours is None else hours * 3600.0
        rules = {"older_than": older, "keep": keep, "max_bytes": size}
        foreseen = sweep(outlast._executor.caller, **rules)  # type: ignore[arg-type]
        swept = sweep(outlast._executor.caller, dry_run=False, batch=batch, **rules)  # type: ignore[arg-type]
        left = {run.id: (run, outlast.receipts(run.id)) for run in outlast.runs()}
        assert [run.id for run in swept.runs] == [run.id for run in foreseen.runs]
        assert unfinished <= left.keys()
        assert all(left[run] == before[run] for run in left)
        assert before.keys() - left.keys() == {run.id for run in swept.runs}
        assert all(row.parent not in before or row.parent in left for row, _ in left.values())
        assert outlast.verify().ok
        assert outlast.gc(**rules).runs == () or size is not None  # type: ignore[arg-type]


# -- what is left ------------------------------------------------------------------------------------


def test_a_removed_run_is_known_by_its_id_and_said_to_be_removed(place: Place) -> None:
    add_run(place.outlast, "abcdef", status="aborted")
    gc(place, keep=0)
    with pytest.raises(RunRemoved, match=r"run abcdef \(aborted\) was removed by local on 2026-01-01 00:00 UTC"):
        place.outlast.get("abc")
    with pytest.raises(RunNotFound):
        place.outlast.get("xyz")


def test_the_task_of_a_removed_run_starts_anew(place: Place) -> None:
    first = place.run(parent, "a").run_id
    gc(place, keep=0)
    second = place.run(parent, "a")
    assert (second.status, second.run_id != first) == ("succeeded", True)
    assert place.outlast.verify().ok


def test_blobs_go_to_the_trash_first_and_a_later_gc_removes_them(place: Place) -> None:
    place.run(parent, "a")
    assert gc(place, keep=0).blobs == 0  # it is young
    age_blobs(place.outlast)
    assert (gc(place).blobs, gc(place).trash, blobs(place)) == (1, 0, 0)
    age_blobs(place.outlast)
    assert gc(place).trash == 1
    assert gc(place).nothing


def test_a_blob_that_is_needed_again_comes_back_from_the_trash(place: Place) -> None:
    content = b"x" * 1000
    name = place.outlast._executor.home.blobs.put(content)
    age_blobs(place.outlast)
    assert gc(place).blobs == 1
    add_run(place.outlast, "r1", contents=[content])
    place.outlast._executor.home.blobs.path(name).unlink()  # as if the saver had relied on the one that was thrown
    assert place.outlast.verify().ok
    age_blobs(place.outlast)
    swept = gc(place)
    assert (swept.restored, swept.trash, blobs(place)) == (1, 0, 1)
    assert place.outlast.verify().ok


def test_folders_of_a_run_go_with_it_and_those_of_others_stay(place: Place) -> None:
    add_run(place.outlast, "done")
    add_run(place.outlast, "open", status="failed")
    folders = {
        name: [place.home / "runs" / name, place.home / "default" / "work" / name] for name in ("done", "open", "lost")
    }
    for folder in (path for paths in folders.values() for path in paths):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "file").write_text("x")
    gc(place, keep=0)
    assert [path.exists() for path in folders["done"]] == [False, False]
    assert [path.exists() for path in folders["open"]] == [True, True]
    assert [path.exists() for path in folders["lost"]] == [True, False]  # a mirror of nobody may be somebody's


def test_the_mirror_of_another_tenant_lies_in_its_own_folder(tmp_path: Path) -> None:
    for tenant in ("default", "acme"):
        with Outlast(tmp_path, tenant=tenant, clock=ManualClock()) as outlast:
            add_run(outlast, "r1")
    theirs, ours = tmp_path / "acme" / "runs" / "r1", tmp_path / "runs" / "r1"
    theirs.mkdir(parents=True)
    ours.mkdir(parents=True)
    with Outlast(tmp_path, tenant="acme", clock=ManualClock()) as outlast:
        outlast.gc(keep=0, dry_run=False)
    assert (theirs.exists(), ours.exists()) == (False, True)


def test_a_link_in_place_of_a_folder_is_removed_and_what_it_leads_to_is_not(place: Place, tmp_path: Path) -> None:
    add_run(place.outlast, "r1")
    (tmp_path / "mine").mkdir()
    (place.home / "runs").mkdir()
    (place.home / "runs" / "r1").symlink_to(tmp_path / "mine")
    gc(place, keep=0)
    assert (list((place.home / "runs").iterdir()), (tmp_path / "mine").is_dir()) == ([], True)


@pytest.mark.parametrize("run_id", ["..", ".", "../../mine", "a/b"])
def test_an_id_that_leads_elsewhere_takes_no_folder_along(place: Place, run_id: str) -> None:
    add_run(place.outlast, run_id)
    (place.home / "runs").mkdir()
    assert [run.id for run in gc(place, keep=0).runs] == [run_id]
    assert (place.home / "runs").is_dir()
    assert (place.home / "default" / "outlast.db").is_file()


# -- how it goes -------------------------------------------------------------------------------------


def test_a_large_run_goes_in_many_short_transactions(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "SLICE_ROWS", 10)
    add_run(place.outlast, "large", entries=95)
    add_run(place.outlast, "small", entries=2)
    store = place.outlast._executor.home.store
    seen: list[int] = []
    write = store.write

    def counting(work: object) -> object:
        def counted(tx: object) -> object:
            before = tx.total_changes()  # type: ignore[attr-defined]
            found = work(tx)  # type: ignore[operator]
            seen.append(tx.total_changes() - before)  # type: ignore[attr-defined]
            return found

        return write(counted)

    monkeypatch.setattr(store, "write", counting)
    gc(place, keep=0)
    assert sum(seen) > 100
    assert max(seen) < 25
    assert place.outlast.verify().ok


def test_many_waits_go_in_slices_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "SLICE_ROWS", 10)
    held = add_run(place.outlast, "r1")

    def wait(tx: object) -> None:
        for number in range(35):
            tx.add_interrupt(f"i{number}", held.run_key, NewWait("timer", f'["{number}"]', "s", "{}", 1))  # type: ignore[attr-defined]

    place.outlast._executor.home.store.write(wait)
    assert [run.id for run in gc(place, keep=0).runs] == ["r1"]


def test_runs_share_transactions_in_batches(place: Place) -> None:
    for number in range(7):
        add_run(place.outlast, f"r{number}")
    told: list[tuple[int, int]] = []
    sweep(
        place.outlast._executor.caller,
        keep=0,
        dry_run=False,
        batch=3,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(3, 7), (6, 7), (7, 7)]


def test_free_pages_are_told_and_given_back_on_request(place: Place) -> None:
    add_run(place.outlast, "r1", entries=2000)
    swept = gc(place, keep=0)
    assert swept.free_bytes > 100_000
    done = gc(place, vacuum=True)
    assert (done.vacuumed, done.free_bytes) == (True, 0)
    assert done.size_after <= swept.size_after - swept.free_bytes


HOLDER = """
import sys
from outlast import Outlast
with Outlast(sys.argv[1]).open("script") as run:
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def busy(place: Place) -> "subprocess.Popen[str]":
    """Another process that executes a run."""
    place.close()
    command = [sys.executable, "-c", HOLDER, str(place.home)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    yield child  # type: ignore[misc]
    child.communicate("", timeout=30)


def test_nothing_is_vacuumed_while_a_run_is_executed(place: Place, busy: "subprocess.Popen[str]") -> None:
    swept = gc(place, vacuum=True)
    assert not swept.vacuumed
    assert "not vacuumed" in swept.troubles[0]


def test_no_blob_goes_while_an_owner_that_may_live_is_silent(place: Place, busy: "subprocess.Popen[str]") -> None:
    """Stopped for hours between storing a blob and its reference, it would go on and find nothing."""
    place.outlast._executor.home.blobs.put(b"x" * 1000)
    age_blobs(place.outlast)
    beats = place.outlast._executor.home.store
    beats.write(lambda tx: tx.do("UPDATE processes SET boot_us = boot_us - ?", (2 * HOUR,)))  # type: ignore[attr-defined]
    place.clock._boot = beats.read(lambda look: look.holders())[0].boot_us + 2 * HOUR
    swept = gc(place)
    assert (swept.blobs, blobs(place)) == (0, 1)
    assert "has been silent" in swept.troubles[0]
    beats.write(lambda tx: tx.do("UPDATE processes SET boot_us = ?", (place.clock.boot(),)))  # type: ignore[attr-defined]
    assert gc(place).blobs == 1


def elsewhere(place: Place, change: str, *values: object) -> None:
    """The holder is a process of another machine, of which only its signs of life are known."""
    sql = f"UPDATE processes SET boot_id = 'another', pid_namespace = '', machine_id = 'another', {change}"
    place.outlast._executor.home.store.write(lambda tx: tx.do(sql, values))  # type: ignore[attr-defined]


def test_nothing_is_vacuumed_while_a_process_of_another_machine_is_heard_of(
    place: Place, busy: "subprocess.Popen[str]"
) -> None:
    busy.send_signal(signal.SIGSTOP)  # its next sign of life would say where it is
    try:
        elsewhere(place, "wall_us = ?", place.clock.now())
        assert "not vacuumed" in gc(place, vacuum=True).troubles[0]
        elsewhere(place, "wall_us = ?", place.clock.now() - 2 * HOUR)
        assert gc(place, vacuum=True).vacuumed
    finally:
        busy.send_signal(signal.SIGCONT)


def test_no_blob_goes_while_an_owner_on_another_machine_is_silent(place: Place, busy: "subprocess.Popen[str]") -> None:
    place.outlast._executor.home.blobs.put(b"x" * 1000)
    age_blobs(place.outlast)
    busy.send_signal(signal.SIGSTOP)
    try:
        elsewhere(place, "wall_us = ?", place.clock.now() - 2 * HOUR)
        assert (gc(place).blobs, blobs(place)) == (0, 1)
        elsewhere(place, "wall_us = ?", place.clock.now())
        assert gc(place).blobs == 1
    finally:
        busy.send_signal(signal.SIGCONT)


def test_one_gc_at_a_time(place: Place) -> None:
    import fcntl

    add_run(place.outlast, "r1")
    with open(place.home / "default" / "gc.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GcRunning, match="wait until it has ended"):
            gc(place, keep=0)
        assert len(place.outlast.gc(keep=0).runs) == 1  # looking is always allowed
    assert len(gc(place, keep=0).runs) == 1


def test_a_folder_that_cannot_be_removed_is_named_and_the_rest_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run(place.outlast, "r1")
    folder = place.home / "runs" / "r1"
    folder.mkdir(parents=True)

    def refuse(path: str, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    swept = gc(place, keep=0)
    assert ids(place.outlast) == set()
    assert any(str(folder) in trouble and "Permission denied" in trouble for trouble in swept.troubles)


def test_runs_are_listed_and_verified_while_others_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        add_run(place.outlast, f"r{number}")
    home = place.outlast._executor.home
    rows = list(each_run(home))
    gc(place, keep=1)
    assert os.path.isdir(place.home)
    monkeypatch.setattr("outlast.care.verify.each_run", lambda *_: iter(rows))
    assert [run.id for run in place.outlast.runs()] == ["r2"]
    assert (place.outlast.verify().ok, place.outlast.verify().runs) == (True, 1)
