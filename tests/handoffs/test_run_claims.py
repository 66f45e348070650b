"""Claiming what was composed from a run is taking the run's lease: who may go on then, and who may not."""

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
import pytest

from outlast import Outlast, Run, effect, flow, inject, step
from outlast.errors import Contested, Invalid, RunFinished, RunHeld, RunNotFound, RunSealed
from outlast.handoffs.claim import Claiming, give_back, take_run
from outlast.handoffs.compose import compose
from outlast.home import claimer as tokens
from outlast.home.caller import Caller
from outlast.home.claimer import nobody
from outlast.home.home import Home
from outlast.ledger.lease import Beat
from outlast.python.shared import FlowCall
from outlast.runs.run import Options
from outlast.runs.start import claim_run

from ..crash.command_folder import Folder
from ..kit.place import Place, ran, reach

TOKEN = "word-of-the-claim"
DAY = 86_400


@step
def first() -> int:
    ran("first")
    reach("first")
    return 1


@step
def second() -> int:
    ran("second")
    reach("second")
    return 2


@effect
def send() -> str:
    reach("sending")
    return "sent"


@flow
def works(run: Run) -> list[object]:
    return [first(), second()]


@flow
def sends(run: Run) -> str:
    return send()


@step
def search(*, engine: Any = inject("engine")) -> str:
    return str(engine)


@flow
def searches(run: Run) -> str:
    found = search()
    first()
    return found


def taken_for(caller: Caller, run_id: str, beat: Beat, take: str = "") -> int:
    """Take the run's lease for whoever shows the token of the beat."""
    claiming = Claiming("ann", take)
    epoch = caller.home.store.write(lambda tx: take_run(caller, tx, run_id, beat, claiming))
    caller.tokens.add(beat.process.id)
    return epoch


def claim(caller: Caller, run_id: str, token: str = TOKEN, take: str = "") -> int:
    return taken_for(caller, run_id, tokens.beat_of(caller, token), take)


def by_nobody(caller: Caller, run_id: str, token: str = TOKEN) -> int:
    """A claim that no process stands behind."""
    process = msgspec.structs.replace(nobody(), id=token)
    beat = Beat(process, caller.home.clock.boot(), caller.home.clock.now(), caller.home.settings.claim_seconds)
    return taken_for(caller, run_id, beat)


def release(home: Home, run_id: str, token: str) -> bool:
    return home.store.write(lambda tx: give_back(home, tx, run_id, token, {"by": "x"}))


def forget(caller: Caller) -> None:
    """As in another process, which has not been shown the token."""
    caller.tokens.clear()


class Claimer(NamedTuple):
    """A process that has claimed the run, and lives until it is killed."""

    pid: int

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def crashed(place: Place) -> str:
    place.crash(works, at="second", task="report")
    return place.run_id


@pytest.fixture
def claimer(place: Place, crashed: str) -> Iterator[Claimer]:
    place.close()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _claim_and_stay(place, crashed, writing)
    os.close(writing)
    assert os.read(reading, 100) == b"claimed"
    os.close(reading)
    found = Claimer(pid)
    yield found
    try:
        found.kill()
    except (ProcessLookupError, ChildProcessError):
        return  # the test has


def _claim_and_stay(place: Place, run_id: str, writing: int) -> NoReturn:
    try:
        claim(place.outlast._executor.caller, run_id)
        os.write(writing, b"claimed")
        while True:
            signal.pause()
    except BaseException as error:
        os.write(writing, repr(error).encode())
    finally:
        os._exit(1)


# -- who may go on -----------------------------------------------------------------------------------


def test_who_claimed_a_run_resumes_it(place: Place, crashed: str) -> None:
    claim(place.outlast._executor.caller, crashed)
    assert place.outlast.resume(crashed).result == [1, 2]
    assert place.count("first") == 1
    assert place.outlast.verify().ok


def test_the_same_call_in_the_claiming_runtime_goes_on_too(place: Place, crashed: str) -> None:
    claim(place.outlast._executor.caller, crashed)
    assert place.run(works, task="report").run_id == crashed


def test_another_process_is_refused_and_told_who_claimed_it(place: Place, crashed: str, claimer: Claimer) -> None:
    with pytest.raises(RunHeld, match=rf"claim word-o of ann \(pid {claimer.pid} on "):
        place.outlast.resume(crashed)
    with pytest.raises(RunHeld):
        place.run(works, task="report")
    with pytest.raises(RunHeld):
        claim(place.outlast._executor.caller, crashed, "another")
    assert place.outlast.due() == []
    assert place.count("second") == 1
    found = compose(place.outlast._executor, "default", "report")
    assert found is not None
    assert "claimed" in [reason.code for reason in found.reasons]


def test_a_claim_is_free_at_once_when_its_process_was_killed(place: Place, crashed: str, claimer: Claimer) -> None:
    claimer.kill()
    assert [one.run_id for one in place.outlast.due()] == [crashed]
    assert place.outlast.resume(crashed).status == "succeeded"


def test_whoever_shows_the_token_goes_on_from_any_process(place: Place, crashed: str, claimer: Claimer) -> None:
    place.outlast._executor.caller.tokens.add(TOKEN)
    assert place.outlast.resume(crashed).status == "succeeded"


def test_who_acts_for_the_same_claimer_goes_on_without_the_token(place: Place, crashed: str, claimer: Claimer) -> None:
    caller = place.outlast._executor.caller
    beat = caller.home.store.read(lambda look: look.beat_of(TOKEN))
    assert beat is not None
    caller.claimer = msgspec.structs.replace(beat.process, id="")
    assert place.outlast.resume(crashed).status == "succeeded"


def test_a_run_that_executes_is_not_ours_because_its_process_is(place: Place) -> None:
    with Outlast(place.home, clock=place.clock) as other:
        held = other._begin(FlowCall(works, (), {}, Options()))[1]
        assert not hasattr(held, "interrupts")
        place.outlast._executor.caller.claimer = other._executor.home.process  # this very process
        with pytest.raises(RunHeld):
            place.outlast.resume(place.run_id)
        with pytest.raises(RunHeld):
            claim(place.outlast._executor.caller, place.run_id, take="I am in a hurry")


def test_a_claim_that_nobody_stands_behind_lasts_for_its_time(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    by_nobody(caller, crashed)
    forget(caller)
    place.clock.advance(caller.home.settings.claim_seconds - 1)
    with pytest.raises(RunHeld, match=r"claim word-o of ann \(on "):
        place.outlast.resume(crashed)
    place.clock.advance(2)
    assert place.outlast.resume(crashed).status == "succeeded"


def test_a_claim_is_taken_over_with_a_reason_that_is_on_the_record(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    by_nobody(caller, crashed)
    forget(caller)
    assert claim(caller, crashed, "another", take="ann is on leave") == 3
    assert [event.body["why"] for event in place.events("run.claimed")[1:]] == ["ann is on leave"]
    caller.tokens = {TOKEN}
    with pytest.raises(RunHeld):
        place.outlast.resume(crashed)


def test_claiming_again_with_the_same_token_renews_the_claim(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    epoch = by_nobody(caller, crashed)
    place.clock.advance(800)
    assert by_nobody(caller, crashed) == epoch
    forget(caller)
    place.clock.advance(800)
    with pytest.raises(RunHeld):
        place.outlast.resume(crashed)
    assert len(place.events("run.claimed")) == 1


def test_a_claim_that_is_given_back_leaves_the_run_as_it_was(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    by_nobody(caller, crashed)
    assert release(caller.home, crashed, "another") is False
    assert release(caller.home, crashed, TOKEN) is True
    assert release(caller.home, crashed, TOKEN) is False
    assert place.outlast.get(crashed).status == "crashed"
    assert place.outlast.resume(crashed).status == "succeeded"


def test_a_run_that_cannot_go_on_yet_stays_claimed(place: Place) -> None:
    def start(outlast: Outlast) -> None:
        outlast.resource("engine", "steam")
        outlast.run(searches)

    place.killed(start, at="first")
    caller, run_id = place.outlast._executor.caller, place.run_id
    by_nobody(caller, run_id)
    with pytest.raises(Contested):
        place.outlast.resume(run_id)
    forget(caller)
    with pytest.raises(RunHeld, match="claim word-o"):
        place.outlast.resume(run_id)
    caller.tokens.add(TOKEN)
    place.outlast.resource("engine", "steam")
    assert place.outlast.resume(run_id).result == "steam"
    assert place.outlast.verify().ok


def test_a_waiting_run_is_claimed_as_it_is_and_can_still_be_answered(place: Place) -> None:
    place.crash(sends, at="sending", task="report")
    (wait,) = place.run(sends, task="report").interrupts
    caller = place.outlast._executor.caller
    by_nobody(caller, place.run_id)
    forget(caller)
    assert place.outlast.get(place.run_id).status == "waiting"
    place.outlast.answer(wait.id, {"choice": "retry", "why": "nothing came"})
    with pytest.raises(RunHeld):
        place.outlast.resume(place.run_id)
    caller.tokens.add(TOKEN)
    assert place.outlast.resume(place.run_id).result == "sent"


def test_a_claimed_run_cannot_be_asked_to_stop_since_nobody_executes_it(place: Place, crashed: str) -> None:
    by_nobody(place.outlast._executor.caller, crashed)
    forget(place.outlast._executor.caller)
    with pytest.raises(Invalid, match="is crashed; only a running one can be asked to stop"):
        place.outlast.pause(crashed)


# -- what cannot be claimed --------------------------------------------------------------------------


def test_finished_moved_and_missing_runs_cannot_be_claimed(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    place.outlast.export(crashed, place.folder / "run.hold", move=True)
    with pytest.raises(RunSealed):
        claim(caller, crashed)
    done = place.run(works, task="another")
    with pytest.raises(RunFinished):
        claim(caller, done.run_id)
    with pytest.raises(RunNotFound):
        claim(caller, "missing")
    assert caller.tokens == set()
    assert caller.home.store.read(lambda look: look.beat_of(TOKEN)) is None


# -- what it looks like, and what must not harm it ---------------------------------------------------


def test_a_claimed_run_is_shown_as_crashed_and_held(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    before = place.outlast.get(crashed)
    by_nobody(caller, crashed)
    forget(caller)
    record = place.outlast.get(crashed)
    assert (record.status, before.status, record.updated_at) == ("crashed", "crashed", before.updated_at)
    assert record.holder.startswith("claim word-o of ann")
    assert TOKEN not in record.holder
    assert [run.id for run in place.outlast.runs(status="crashed")] == [crashed]
    assert place.outlast.runs(status="running") == []
    assert place.outlast.verify().ok


def test_a_claim_does_not_make_the_run_look_newer(place: Place, crashed: str) -> None:
    executor = place.outlast._executor
    before = compose(executor, "default", "report")
    place.clock.advance(60)
    claim(executor.caller, crashed)
    after = compose(executor, "default", "report")
    assert before is not None
    assert after is not None
    assert (after.handoff, after.run) == (before.handoff, before.run)


def test_the_command_line_shows_who_claimed_a_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work").flow("- {id: a, run: exit 3}")
    try:
        assert folder.run().status == "failed"
        run_id = folder.run_id
        by_nobody(folder.outlast._executor.caller, run_id)
        said = folder.cli("show", run_id)
        assert "claim word-o of ann" in said.out
        assert "failed" in said.out
        assert folder.cli("runs", "--json").json["runs"][0]["status"] == "failed"
        assert folder.cli("resume", run_id).code == 4
    finally:
        folder.end()


def test_a_claim_outlives_other_work_and_gc_in_the_same_home(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    by_nobody(caller, crashed)
    forget(caller)
    place.clock.advance(600)
    place.run(works, task="another")  # signs in, beats, and forgets who is silent
    place.reopen()
    place.outlast.gc(older_than=0, dry_run=False)
    with pytest.raises(RunHeld, match="claim word-o"):
        place.outlast.resume(crashed)


def test_an_old_claim_neither_keeps_gc_from_its_work_nor_is_forgotten(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    claim(caller, crashed)  # by this process, which lives on
    place.clock.advance(3 * DAY)
    place.run(works, task="another")
    swept = place.outlast.gc(older_than=0, dry_run=False, vacuum=True)
    assert swept.vacuumed
    assert swept.troubles == ()
    assert caller.home.store.read(lambda look: look.beat_of(TOKEN)) is not None
    assert place.outlast.resume(crashed).status == "succeeded"


def test_when_the_owner_died_is_remembered_over_claims(place: Place, crashed: str) -> None:
    caller = place.outlast._executor.caller
    died_by = place.clock.now() + 6_000_000  # the next beat was due after 5 s
    for token in ("one", "two"):
        place.clock.advance(1_000)
        by_nobody(caller, crashed, token)
    place.clock.advance(1_000)
    taken = claim_run(caller, crashed)
    assert (taken.found, taken.silent_at) == ("crashed", died_by)
