"""A home is moved whole, to a database and back; killed anywhere, the move is repeated, and at no time both go on."""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, failpoints, flow, step
from outlast.care import move as moving
from outlast.care.move import move_home
from outlast.errors import HomeNotEmpty, IntegrityBroken, Invalid, OutlastError, StoreReadOnly
from outlast.home.keys import Keys
from outlast.home.place import FoundHome, tenants_of

from ..kit.postgres import server

_numbers = count(1)


@step
def find(topic: str) -> str:
    return f"a NUL \0, a one \1 and {topic}" * 3000  # larger than what is kept in an entry


@flow
def report(run: Run, topic: str) -> int:
    found = len(find(topic))
    run.workspace.save("found.txt", topic)
    run.wait_for("go")
    return found


@flow
def short(run: Run, topic: str) -> str:
    return str(len(find(topic)))


@pytest.fixture
def database(tmp_path: Path) -> FoundHome:
    url = server().new_database(f"move{os.getpid()}_{next(_numbers)}")
    return FoundHome(tmp_path / "beside", database=url)


@pytest.fixture
def folder(tmp_path: Path) -> FoundHome:
    """A home with something of everything, of two tenants."""
    found = FoundHome(tmp_path / ".outlast")
    for tenant in ("default", "Harbour-2"):
        with Outlast(found, tenant=tenant) as outlast:
            outlast.run(short, "kelp", task="monday").unwrap()
            outlast.run(report, "eel", task="tuesday")
            outlast.workspace.record("note", "kelp is an alga")
            outlast.set_limit("api", concurrency=2)
            outlast.handoff.store(anchor="task:x", summary="begun", handoff_text="go on", next_action="look")
    with closing(Keys(found)) as keys:
        keys.revoke(keys.create("ann").key.id)
        keys.create("bob", tenant="Harbour-2")
    (found.path / "settings.yaml").write_text("redeliver: 2h\n")
    return found


def told(home: FoundHome, tenant: str = "default") -> dict[str, Any]:
    """What a home says of itself, to be compared."""
    with Outlast(home, tenant=tenant) as outlast:
        runs = outlast.runs()
        return {
            "runs": [(run.id, run.status, run.task) for run in runs],
            "receipts": [[repr(each) for each in outlast.receipts(run.id)] for run in runs],
            "waits": [wait.id for wait in outlast.interrupts()],
            "acts": [(act.number, act.what, act.said) for act in outlast.acts().items],
            "artifact": outlast.workspace.get("found.txt").ref,
            "handoff": outlast.handoff.recover("task:x").handoff.summary,
            "verified": outlast.verify().ok,
        }


def test_a_home_goes_to_a_database_and_back_with_every_chain_byte_for_byte(
    folder: FoundHome, database: FoundHome, tmp_path: Path
) -> None:
    before = {tenant: told(folder, tenant) for tenant in tenants_of(folder)}
    there = move_home(folder, database)
    assert tenants_of(database) == ["Harbour-2", "default"]
    home = FoundHome(tmp_path / "back" / ".outlast")
    back = move_home(database, home)
    assert [(each.tenant, each.rows, each.chains) for each in back.tenants] == [
        (each.tenant, each.rows, each.chains) for each in there.tenants
    ]
    assert {tenant: told(home, tenant) for tenant in tenants_of(home)} == before
    assert back.keys == there.keys == 2
    assert (home.path / "settings.yaml").read_text() == "redeliver: 2h\n"
    with closing(Keys(home)) as keys:
        assert [(key.actor, key.revoked_at is not None) for key in keys.list()] == [("ann", True), ("bob", False)]


def test_what_is_counted_goes_on_there_and_a_waiting_run_is_answered(folder: FoundHome, database: FoundHome) -> None:
    move_home(folder, database)
    with Outlast(database) as outlast:
        (wait,) = outlast.interrupts()
        outlast.signal("go", run_id=wait.run_id)
        assert outlast.resume(wait.run_id).unwrap() > 1000
        again = outlast.workspace.record("note", "eels are fish")
        assert again.ref not in {each.ref for each in outlast.workspace.records()[1:]}
        assert outlast.run(short, "cod", task="wednesday").status == "succeeded"
        assert outlast.verify().ok


def test_the_old_home_can_be_read_and_nobody_writes_to_it_also_who_had_it_open(
    folder: FoundHome, database: FoundHome
) -> None:
    with Outlast(folder) as held:
        move_home(folder, database)
        assert [run.task for run in held.runs()] == ["tuesday", "monday"]
        with pytest.raises(OutlastError, match="moved to"):
            held.workspace.record("note", "lost")
    with Outlast(folder) as again, pytest.raises(StoreReadOnly, match="moved to"):
        again.run(short, "cod", task="wednesday")


def test_a_database_that_was_moved_away_takes_nothing_any_more(
    folder: FoundHome, database: FoundHome, tmp_path: Path
) -> None:
    move_home(folder, database)
    with Outlast(database) as held:
        move_home(database, FoundHome(tmp_path / "back"))
        with pytest.raises(StoreReadOnly, match="moved to"):
            held.workspace.record("note", "lost")
        with pytest.raises(StoreReadOnly, match="moved to"):
            held.run(short, "cod", task="wednesday")


def test_to_repeat_a_move_that_is_done_changes_nothing(folder: FoundHome, database: FoundHome) -> None:
    first = move_home(folder, database)
    with Outlast(database) as outlast:
        outlast.run(short, "cod", task="wednesday").unwrap()
    assert [each.chains for each in move_home(folder, database).tenants] == [each.chains for each in first.tenants]
    with Outlast(database) as outlast:
        assert len(outlast.runs()) == 3


def test_a_home_is_never_moved_over_another_nor_to_a_second_place(
    folder: FoundHome, database: FoundHome, tmp_path: Path
) -> None:
    with Outlast(database) as outlast:
        outlast.run(short, "cod", task="theirs").unwrap()
    with pytest.raises(HomeNotEmpty):
        move_home(folder, database)
    first, second = FoundHome(tmp_path / "first"), FoundHome(tmp_path / "second")
    move_home(folder, first)
    with pytest.raises(Invalid, match=f"was moved to {first.path}"):
        move_home(folder, second)


def test_a_damaged_home_is_not_moved(folder: FoundHome, database: FoundHome) -> None:
    blob = next(path for path in (folder.path / "default" / "blobs").glob("*/*") if path.is_file())
    blob.write_bytes(b"other")
    with pytest.raises(IntegrityBroken):
        move_home(folder, database)
    assert tenants_of(database) == []
    with Outlast(folder) as outlast:
        outlast.workspace.record("note", "it goes on here")


def test_what_was_written_between_two_tries_is_in_the_second(folder: FoundHome, database: FoundHome) -> None:
    killed(folder, database, at=("move.numbers", 2))
    with Outlast(folder) as outlast:
        outlast.run(short, "cod", task="wednesday").unwrap()
        outlast.signal("go", run_id=outlast.interrupts()[0].run_id)
    before = told(folder)
    move_home(folder, database)
    assert told(database) == before


# -- killed at every point ---------------------------------------------------------------------------------


def killed(source: FoundHome, to: FoundHome, *, at: tuple[str, int]) -> None:
    child = os.fork()
    if child == 0:
        failpoints.arm(failpoints.kill_at(*at))
        try:
            move_home(source, to)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), at


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows at a time: more places to be killed at."""
    monkeypatch.setattr(moving, "PAGE", 3)


LAST = ("move.sealed", "move.published")
# The last points, with how many tenants of the old home are sealed then, and how many of the new one are there.
ENDS = (("move.sealed", 1, 0), ("move.sealed", 2, 0), ("move.published", 2, 1), ("move.published", 2, 2))


@pytest.mark.crash
@pytest.mark.parametrize("way", ["there", "back"])
def test_killed_at_every_point_a_move_is_repeated_and_never_do_both_homes_go_on(
    folder: FoundHome, database: FoundHome, tmp_path: Path, few_rows: None, way: str, request: pytest.FixtureRequest
) -> None:
    """One move, killed at its first point, repeated and killed at the next, and so on to its end."""
    if way == "back":
        move_home(folder, database)
    source, to = (folder, database) if way == "there" else (database, FoundHome(tmp_path / "back"))
    before = {tenant: told(source, tenant) for tenant in ("default", "Harbour-2")}
    is_long = request.config.getoption("--crash-long")
    for nth in count(1, 1 if is_long else 43):
        if not killed_at(source, to, lambda point: point not in LAST, nth):
            break  # before anything was sealed: there were not so many points any more
        assert writes(source)
        assert tenants_of(to) == []
    for point, sealed, there in ENDS:
        assert killed_at(source, to, point.__eq__, sealed if point == "move.sealed" else there), point
        assert len([tenant for tenant in before if not writes(source, tenant)]) == sealed
        assert len(tenants_of(to)) == there
    move_home(source, to)
    assert {tenant: told(to, tenant) for tenant in before} == before


def killed_at(source: FoundHome, to: FoundHome, counts: Callable[[str], bool], nth: int) -> bool:
    """Whether a move was killed at the nth of the points that count; else it got to where it is sealed, and ended."""
    child = os.fork()
    if child == 0:
        numbers = count(1)

        def reach(point: str) -> None:
            if counts(point) and next(numbers) == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            if point in LAST and not any(map(counts, LAST)):
                os._exit(0)  # all is copied and proven

        failpoints.arm(reach)
        try:
            move_home(source, to)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


def writes(home: FoundHome, tenant: str = "default") -> bool:
    """Whether somebody could write there."""
    try:
        with Outlast(home, tenant=tenant) as outlast:
            outlast.workspace.record("note", "still here")
    except StoreReadOnly:
        return False
    return True
