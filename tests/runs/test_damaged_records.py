"""Accepting a damaged record concerns that record: what is intact stays, and no effect happens twice unknowingly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Happened, Outlast, Run, effect, flow, step
from outlast.errors import Contested, IntegrityBroken, RepeatsEffects
from outlast.runs.effect import NOT_DONE

from ..kit.ledgers import change as tamper
from ..kit.ledgers import copy_folder, remove_folder
from ..kit.place import KNOBS, Place, ran, reach

ACCEPT: dict[str, Any] = {"accept": ["integrity_broken"], "why": "a byte fell off the disk"}
ONCE = ("first", "pay", "charge", "second", "third")


@step
def first(text: str) -> str:
    ran("first")
    return text.upper()


@effect
def pay(sum_: int) -> str:
    ran("pay")
    return f"paid {sum_}"


def look_up(sum_: int) -> Any:
    log = Path(KNOBS["log"])
    return Happened(f"charged {sum_}") if "charge" in log.read_text().splitlines() else NOT_DONE


@effect(confirm=look_up)
def charge(sum_: int) -> str:
    ran("charge")
    return f"charged {sum_}"


@step
def second() -> str:
    ran("second")
    return "x" * 40_000


@step
def third(run: Run | None = None) -> int:
    ran("third")
    return 3


@flow
def child(run: Run) -> str:
    return pay(2)


@flow
def shop(run: Run, text: str = "a") -> list[Any]:
    run.state["text"] = text
    begun = first(text)
    paid = pay(1)
    when = run.now().isoformat()
    charged = charge(1)
    long = second()
    number = third()
    reach("worked")
    return [begun, paid, charged, len(long), number, bool(when)]


@flow
def parent(run: Run) -> str:
    first("a")
    found = run.spawn(child).result()
    reach("worked")
    return found


RESULT = ["A", "paid 1", "charged 1", 40_000, 3, True]


def entry_of(name: str, status: str = "succeeded") -> str:
    return f"""WHERE chain = 1 AND CAST(header AS TEXT) LIKE '%"{name}"%"{status}%'"""


def edited(name: str, status: str = "succeeded") -> str:
    """What the entry carries, changed: its header is as it was stored."""
    return f'UPDATE journal SET payload = CAST(\'{{"result":"forged"}}\' AS BLOB) {entry_of(name, status)}'


@pytest.fixture
def crashed(place: Place) -> Place:
    place.crash(shop, at="worked")
    KNOBS.pop("die", None)
    assert place.outlast.verify().ok
    assert [place.count(name) for name in ONCE] == [1, 1, 1, 1, 1]
    place.close()
    return place


def counts(place: Place) -> dict[str, int]:
    return {name: place.count(name) for name in ONCE if place.count(name) != 1}


# -- one record --------------------------------------------------------------------------------------


def test_an_accepted_damaged_receipt_of_a_step_is_run_again_and_nothing_else_is(crashed: Place) -> None:
    tamper(crashed.home, edited("first"))
    outcome = crashed.outlast.resume(crashed.run_id, **ACCEPT)
    assert (outcome.status, outcome.result) == ("succeeded", RESULT)
    assert counts(crashed) == {"first": 2}


def test_without_being_accepted_nothing_is_done_and_nothing_is_written(crashed: Place) -> None:
    tamper(crashed.home, edited("first"))
    head = crashed.outlast.get(crashed.run_id).head
    with pytest.raises(Contested, match=r"integrity_broken .*the receipt of step first, attempt 1"):
        crashed.outlast.resume(crashed.run_id)
    assert counts(crashed) == {}
    assert crashed.outlast.get(crashed.run_id).head == head


def test_an_accepted_damaged_effect_is_in_doubt_and_its_probe_is_asked(crashed: Place) -> None:
    tamper(crashed.home, edited("charge"))
    plan = crashed.outlast.plan(crashed.run_id)
    assert {each.label: each.action for each in plan.steps}["charge"] == "confirm"
    outcome = crashed.outlast.resume(crashed.run_id, **ACCEPT)
    assert (outcome.status, outcome.result, counts(crashed)) == ("succeeded", RESULT, {})


def test_an_accepted_damaged_effect_without_a_probe_waits_for_a_person(crashed: Place) -> None:
    tamper(crashed.home, edited("pay"))
    run_id = crashed.run_id
    assert crashed.outlast.plan(run_id).of("decide") == ("pay",)
    outcome = crashed.outlast.resume(run_id, **ACCEPT)
    assert (outcome.status, [wait.type for wait in outcome.interrupts]) == ("waiting", ["in_doubt"])
    assert "its record is damaged" in outcome.interrupts[0].says
    assert counts(crashed) == {}
    crashed.outlast.skip(run_id, "pay", result="paid 1", why="the bank says so")
    assert crashed.outlast.resume(run_id).result == RESULT  # what was accepted once is not asked about again
    assert counts(crashed) == {}


def test_an_accepted_damaged_effect_is_done_again_if_a_person_says_so(crashed: Place) -> None:
    tamper(crashed.home, edited("pay"))
    crashed.outlast.resume(crashed.run_id, **ACCEPT)
    crashed.outlast.retry(crashed.run_id, "pay", why="the bank knows nothing")
    assert crashed.outlast.resume(crashed.run_id).result == RESULT
    assert counts(crashed) == {"pay": 2}


def test_the_task_can_be_started_anew_as_the_advice_says(crashed: Place) -> None:
    tamper(crashed.home, edited("second"))
    (reason,) = crashed.outlast.plan(crashed.run_id).verdict.contesting
    assert reason.advice.endswith("or start the task anew with fresh=True (`--fresh`)")
    with pytest.raises(RepeatsEffects, match=r"pay .*charge"):  # what is intact is not repeated unasked
        crashed.run(shop, fresh=True)
    outcome = crashed.outlast.with_options(yes=True).run(shop, fresh=True)
    assert (outcome.result, counts(crashed)) == (RESULT, dict.fromkeys(ONCE, 2))
    assert sorted(run.status for run in crashed.outlast.runs()) == ["aborted", "succeeded"]
    (broken,) = {problem.run_id for problem in crashed.outlast.verify().problems}  # and it stays named
    assert broken != outcome.run_id


def test_only_the_record_that_is_named_is_accepted(crashed: Place) -> None:
    tamper(crashed.home, edited("first"), edited("third"))
    run_id = crashed.run_id
    reasons = crashed.outlast.plan(run_id).verdict.contesting
    assert [reason.code for reason in reasons] == ["integrity_broken"] * 2
    with pytest.raises(Contested):
        crashed.outlast.resume(run_id, accept=[f"integrity_broken:{reasons[0].subject}"], why="this one")
    named = [f"integrity_broken:{reason.subject}" for reason in reasons]
    assert crashed.outlast.resume(run_id, accept=named, why="both").result == RESULT
    assert counts(crashed) == {"first": 2, "third": 2}


def test_the_damaged_receipt_stays_visible_and_verify_goes_on_naming_it(crashed: Place) -> None:
    tamper(crashed.home, edited("first"))
    (before,) = crashed.outlast.verify().problems
    crashed.outlast.resume(crashed.run_id, **ACCEPT)
    old, new = crashed.receipts("first")
    assert (old.attempt, old.status, old.result) == (1, "succeeded", None)
    assert old.broken.startswith("its payload was changed")
    assert (new.attempt, new.status, new.result, new.broken) == (2, "succeeded", "A", "")
    assert crashed.reopen().verify().problems == (before,)
    (accepted,) = crashed.events("run.accepted")
    assert (accepted.body["subject"], accepted.body["why"]) == (before.record, ACCEPT["why"])


def test_a_finished_named_task_with_accepted_damage_gives_its_outcome_again(place: Place) -> None:
    place.crash(shop, at="worked", task="T")
    KNOBS.pop("die", None)
    tamper(place.home, edited("third"))
    place.outlast.resume(place.run_id, **ACCEPT)
    again = place.run(shop, task="T")
    assert (again.result, again.replayed, counts(place)) == (RESULT, True, {"third": 2})
    place.close()
    tamper(place.home, edited("second"))
    with pytest.raises(IntegrityBroken):
        place.run(shop, task="T")


def test_a_child_whose_record_is_damaged_is_found_again_and_not_begun_once_more(place: Place) -> None:
    for damage in ("UPDATE journal SET payload = NULL", "DELETE FROM journal"):
        remove_folder(place.home)
        place.log.unlink(missing_ok=True)
        place.crash(parent, at="worked")
        KNOBS.pop("die", None)
        run_id = next(run.id for run in place.outlast.runs() if not run.parent)
        place.close()
        tamper(place.home, f"""{damage} WHERE CAST(header AS TEXT) LIKE '["spawn"%'""")
        assert place.outlast.resume(run_id, **ACCEPT).result == "paid 2"
        assert (place.count("pay"), len(place.outlast.runs())) == (1, 2)
        place.close()


# -- what is gone may have been about anything --------------------------------------------------------


def test_where_an_entry_is_gone_an_effect_of_which_nothing_is_left_is_asked_about(crashed: Place) -> None:
    tamper(crashed.home, f"DELETE FROM journal {entry_of('pay', '')}")
    run_id = crashed.run_id
    outcome = crashed.outlast.resume(run_id, **ACCEPT)
    assert (outcome.status, [wait.step for wait in outcome.interrupts]) == ("waiting", ["pay"])
    crashed.outlast.skip(run_id, "pay", result="paid 1", why="the bank says so")
    assert crashed.outlast.resume(run_id).result == RESULT
    assert counts(crashed) == {}


def test_entries_of_another_run_count_for_nothing(crashed: Place) -> None:
    crashed.run(shop, "b")
    other = next(run.id for run in crashed.outlast.runs() if run.inputs["text"] == "b")
    run_id = next(run.id for run in crashed.outlast.runs() if run.id != other)
    crashed.close()
    put = "SELECT o.header, o.hash, o.payload FROM journal o WHERE o.chain = 2 AND o.seq = journal.seq"
    tamper(crashed.home, f"UPDATE journal SET (header, hash, payload) = ({put}) WHERE chain = 1 AND seq > 1")
    outcome = crashed.outlast.resume(run_id, **ACCEPT)
    assert (outcome.status, [wait.step for wait in outcome.interrupts]) == ("waiting", ["pay"])
    assert (crashed.count("first"), crashed.count("pay")) == (3, 2)  # the step once more, the effect not


ENDS = {
    "one more entry": "INSERT INTO journal (chain, seq, header, hash, payload)"
    " SELECT chain, seq + 1, header, hash, payload FROM journal ORDER BY seq DESC LIMIT 1",
    "another hash at the end": "UPDATE chains SET hash = zeroblob(32)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_journal_with_another_end_than_was_recorded_cannot_be_gone_on_with(crashed: Place, end: str) -> None:
    tamper(crashed.home, ENDS[end])
    assert crashed.outlast.verify(crashed.run_id).problems
    for _ in range(2):
        with pytest.raises(IntegrityBroken):
            crashed.outlast.resume(crashed.run_id, **ACCEPT)
    assert counts(crashed) == {}


def test_an_answer_that_nobody_gave_is_not_taken_with_a_damaged_record(crashed: Place) -> None:
    tamper(crashed.home, edited("pay"))
    crashed.outlast.resume(crashed.run_id, **ACCEPT)
    crashed.close()
    tamper(crashed.home, """UPDATE interrupts SET status = 'answered', answer = '{"choice":"retry"}'""")
    with pytest.raises(IntegrityBroken, match="wait"):
        crashed.outlast.resume(crashed.run_id, **ACCEPT)
    assert counts(crashed) == {}


# -- every entry, every damage ------------------------------------------------------------------------

HERE = "chain = 1 AND seq = {seq}"


def header(made: str) -> str:
    return f"UPDATE journal SET header = CAST({made} AS BLOB) WHERE {HERE}"


DAMAGE: dict[str, tuple[str, ...]] = {
    "payload edited": (f"""UPDATE journal SET payload = CAST('{{{{"result":"forged"}}}}' AS BLOB) WHERE {HERE}""",),
    "payload gone": (f"UPDATE journal SET payload = NULL WHERE {HERE}",),
    "payload unreadable": (f"UPDATE journal SET payload = CAST('{{{{' AS BLOB) WHERE {HERE}",),
    "status edited": (header("""replace(replace(header, '"succeeded"', '"failed"'), '"started"', '"succeeded"')"""),),
    "kind edited": (header("""replace(replace(header, '["effect"', '["step"'), '["run"', '["emit"')"""),),
    "said not to be done": (header("""replace(header, 'true,""', 'false,"not_done"')"""),),
    "header unreadable": (header("'???'"),),
    "hash edited": (f"UPDATE journal SET hash = zeroblob(32) WHERE {HERE}",),
    "deleted": (f"DELETE FROM journal WHERE {HERE}",),
    "deleted with all after it": ("DELETE FROM journal WHERE chain = 1 AND seq >= {seq}",),
    "swapped with the next": (
        f"UPDATE journal SET seq = 1000 WHERE {HERE} AND seq < {{head}}",
        "UPDATE journal SET seq = {seq} WHERE chain = 1 AND seq = {seq} + 1",
        "UPDATE journal SET seq = {seq} + 1 WHERE chain = 1 AND seq = 1000",
    ),
    "written over by the next": (
        "UPDATE journal SET (header, hash, payload) = (SELECT o.header, o.hash, o.payload FROM journal o"
        f" WHERE o.chain = 1 AND o.seq = {{seq}} + 1) WHERE {HERE} AND seq < {{head}}",
    ),
}


def spoilt(place: Place, damage: str) -> Iterator[tuple[int, Path]]:
    """A copy of the home for each entry, in which that entry is damaged."""
    head = place.outlast.get(place.run_id).head
    place.close()
    homes = {seq: place.folder / f"home-{seq}" for seq in range(1, head + 1)}
    for seq, home in homes.items():
        copy_folder(place.home, home)
        tamper(home, *(sql.format(seq=seq, head=head) for sql in DAMAGE[damage]))
        yield seq, home


def gone_on(outlast: Outlast, run_id: str) -> tuple[str, Any]:
    """How the run ends when everything is accepted, and a person says of each effect in doubt that it was done."""
    outcome = outlast.resume(run_id, **ACCEPT)
    while outcome.status == "waiting":
        (wait,) = outcome.interrupts
        assert wait.type == "in_doubt"
        outlast.answer(wait.id, {"choice": "skip", "result": f"{'paid' if wait.name == 'pay' else 'charged'} 1"})
        outcome = outlast.resume(run_id)
    return outcome.status, outcome.result


@pytest.mark.parametrize("damage", DAMAGE)
def test_whichever_entry_is_damaged_no_effect_happens_twice_and_steps_that_are_intact_stay(
    crashed: Place, damage: str
) -> None:
    run_id, once = crashed.run_id, crashed.log.read_text()
    for seq, home in spoilt(crashed, damage):
        crashed.log.write_text(once)
        with Outlast(home, clock=crashed.clock) as outlast:
            problems = outlast.verify(run_id).problems
            if not problems:  # this damage leaves this entry as it was
                continue
            assert gone_on(outlast, run_id) == ("succeeded", RESULT), (damage, seq)
            named = {problem.record for problem in outlast.verify(run_id).problems}
            assert {problem.record for problem in problems} <= named, (damage, seq)
        assert (crashed.count("pay"), crashed.count("charge")) == (1, 1), (damage, seq)
        again = sum(crashed.count(name) - 1 for name in ("first", "second", "third"))
        most = {"deleted with all after it": 3, "swapped with the next": 2}.get(damage, 1)
        assert again <= most, (damage, seq, crashed.ran)


# -- results that live in blobs -----------------------------------------------------------------------


@effect
def print_book() -> str:
    ran("print")
    return "y" * 40_000


@flow
def press(run: Run) -> int:
    first("a")
    length = len(second()) + len(print_book())
    reach("worked")
    return length


def blob_of(home: Path, step: str) -> Path:
    with Outlast(home) as outlast:
        (run,) = outlast.runs()
        (name,) = [each.blob for each in outlast.receipts(run.id) if each.step == step]
    (path,) = (home / "default" / "blobs").rglob(name)
    return path


def spoil_blob(path: Path, how: str) -> bytes:
    kept = path.read_bytes()
    path.chmod(0o600)
    path.unlink() if how == "missing" else path.write_bytes(kept[:-1] + b"?")
    return kept


@pytest.mark.parametrize("how", ["missing", "corrupt"])
def test_a_step_whose_result_is_gone_is_named_and_run_again_once_that_is_accepted(place: Place, how: str) -> None:
    place.crash(press, at="worked")
    KNOBS.pop("die", None)
    place.close()
    spoil_blob(blob_of(place.home, "second"), how)
    run_id, code = place.run_id, f"artifact_{how}"
    (reason,) = place.outlast.plan(run_id).verdict.contesting
    assert (reason.code, reason.subject) == (code, "second")
    with pytest.raises(Contested, match=rf"{code} \(second: "):
        place.outlast.resume(run_id)
    outcome = place.outlast.resume(run_id, accept=[f"{code}:second"], why="the disk was full")
    assert (outcome.status, outcome.result) == ("succeeded", 80_000)
    assert [place.count(name) for name in ("first", "second", "print")] == [1, 2, 1]
    assert [receipt.attempt for receipt in place.receipts("second")] == [1, 2]
    assert [receipt.broken for receipt in place.receipts("print_book")] == [""]


def test_an_effect_whose_result_is_gone_is_in_doubt_once_that_is_accepted(place: Place) -> None:
    place.crash(press, at="worked")
    KNOBS.pop("die", None)
    place.close()
    path = blob_of(place.home, "print_book")
    kept = spoil_blob(path, "missing")
    run_id = place.run_id
    assert {each.label: each.action for each in place.outlast.plan(run_id).steps}["print_book"] == "decide"
    outcome = place.outlast.resume(run_id, accept=["artifact_missing"], why="it is lost")
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert place.count("print") == 1
    path.write_bytes(kept)  # a copy was found after all
    assert place.outlast.resume(run_id).result == 80_000
    assert place.count("print") == 1


def test_going_back_to_a_step_whose_result_is_gone_is_a_way_on_without_accepting_anything(place: Place) -> None:
    place.crash(press, at="worked")
    KNOBS.pop("die", None)
    place.close()
    spoil_blob(blob_of(place.home, "second"), "missing")
    place.outlast.rewind(place.run_id, "second", why="its result is gone")
    assert place.outlast.resume(place.run_id).result == 80_000
    assert [place.count(name) for name in ("first", "second", "print")] == [1, 2, 1]


# -- an effect that had surely not happened, by a record that is damaged now -------------------------


@effect(not_done=(ConnectionRefusedError,))
def reserve(sum_: int) -> str:
    ran("reserve")
    reach("in reserve")
    return f"reserved {sum_}"


@flow
def booking(run: Run) -> str:
    return reserve(1)


@pytest.fixture
def refused(place: Place) -> Place:
    KNOBS["raise"] = ("in reserve", ConnectionRefusedError("nobody listens"))
    assert place.run(booking).status == "failed"
    KNOBS.pop("raise")
    place.close()
    return place


def test_an_intact_record_that_it_was_not_done_lets_the_effect_be_tried_again(refused: Place) -> None:
    assert refused.outlast.resume(refused.run_id).result == "reserved 1"
    assert refused.count("reserve") == 2


def test_a_damaged_record_that_it_was_not_done_leaves_the_effect_in_doubt(refused: Place) -> None:
    tamper(refused.home, edited("reserve", "failed"))
    assert refused.outlast.plan(refused.run_id, accept=ACCEPT["accept"]).of("decide") == ("reserve",)
    outcome = refused.outlast.resume(refused.run_id, **ACCEPT)
    assert (outcome.status, [wait.type for wait in outcome.interrupts]) == ("waiting", ["in_doubt"])
    assert refused.count("reserve") == 1
    refused.outlast.retry(refused.run_id, "reserve")
    assert refused.outlast.resume(refused.run_id).result == "reserved 1"
    assert refused.count("reserve") == 2
