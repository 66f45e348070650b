"""The events of all runs of a home: every one once, in the order in which they were written, none missed."""

import threading
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow, step
from outlast.errors import EventAhead, NameInvalid, ValueRefused

from ..kit import ledgers


@step
def double(number: int) -> int:
    return number * 2


@flow
def doubling(run: Run, number: int) -> int:
    return double(number)


@flow
def asking(run: Run, question: str) -> bool:
    return bool(run.pause_for("approval", payload={"question": question})["approved"])


@flow
def breaking(run: Run) -> None:
    raise ValueError("no luck")


@pytest.fixture
def outlast(tmp_path: Path) -> Outlast:
    return Outlast(tmp_path / "home")


def of_run(outlast: Outlast, run_id: str) -> list[tuple[str, int]]:
    return [(run_id, event.seq) for event in outlast.events(run_id)]


def test_all_runs_are_told_in_the_order_of_their_entries(outlast: Outlast) -> None:
    first, second = (outlast.run(doubling, number).run_id for number in (1, 2))
    found = outlast.all_events(after=0)
    told = [(each.event.run_id, each.event.seq) for each in found.items]
    assert told == [*of_run(outlast, first), *of_run(outlast, second)]
    numbers = [each.number for each in found.items]
    assert numbers == sorted(set(numbers))
    assert (found.upto, found.more) == (numbers[-1], False)


def test_an_event_is_the_one_of_its_run(outlast: Outlast) -> None:
    run = outlast.run(doubling, 3).run_id
    assert [each.event for each in outlast.all_events(after=0).items] == outlast.events(run)


def test_pages_of_any_size_tell_the_same(outlast: Outlast) -> None:
    for number in range(3):
        outlast.run(doubling, number)
    whole = outlast.all_events(after=0).items
    for size in (1, 2, 5):
        found, page = list(whole[:0]), outlast.all_events(after=0, limit=size)
        while True:
            found += page.items
            if not page.more:
                break
            page = outlast.all_events(after=page.upto, limit=size)
        assert tuple(found) == whole


def test_without_a_number_it_begins_now(outlast: Outlast) -> None:
    outlast.run(doubling, 1)
    now = outlast.all_events()
    assert now.items == ()
    run = outlast.run(doubling, 2).run_id
    told = outlast.all_events(after=now.upto).items
    assert [(each.event.run_id, each.event.seq) for each in told] == of_run(outlast, run)


def test_what_is_asked_for_narrows_it_and_the_number_goes_on_all_the_same(outlast: Outlast) -> None:
    outlast.with_options(tags=["nightly"]).run(doubling, 1)
    outlast.run(asking, "well?", task="asked")
    assert outlast.run(breaking).status == "failed"
    outlast._acting(scope="other").run(doubling, 9)
    upto = outlast.all_events(after=0).upto

    def names(**asked: object) -> set[str]:
        page = outlast.all_events(after=0, **asked)  # type: ignore[arg-type]
        assert page.upto == upto
        return {each.event.name for each in page.items}

    assert names(flow="asking") == names(task="asked") == names(flow=outlast.runs(flow="asking")[0].flow)
    assert names(flow="asking") >= {"run.started", "interrupt.opened", "run.waiting"}
    assert names(tag="nightly") >= {"run.succeeded"}
    assert names(tag="nowhere") == set()
    assert names(name="run.fail*") == {"run.failed"}
    assert names(inbox=True) == {"interrupt.opened", "run.failed"}
    assert {each.scope for each in outlast.all_events(after=0, scope="other").items} == {"other"}


def test_what_is_no_number_or_name_is_refused(outlast: Outlast) -> None:
    for asked in ({"after": -1}, {"after": "x"}, {"after": 0, "limit": -1}, {"after": True}):
        with pytest.raises(ValueRefused):
            outlast.all_events(**asked)  # type: ignore[arg-type]
    with pytest.raises(NameInvalid):
        outlast.all_events(flow="")


def test_who_follows_is_told_everything_once_while_others_write(outlast: Outlast) -> None:
    told: list[tuple[str, int]] = []
    following = outlast.follow_all_events(name="run.succeeded")

    def follow() -> None:
        for _ in range(8):
            found = next(following)
            told.append((found.event.run_id, found.event.seq))

    reader = threading.Thread(target=follow)
    reader.start()
    writers = [threading.Thread(target=lambda n=n: outlast.run(doubling, n)) for n in range(8)]
    for writer in writers:
        writer.start()
    for thread in (*writers, reader):
        thread.join(60)
    assert len(told) == len(set(told)) == 8


def test_an_entry_that_cannot_be_read_keeps_no_other_from_being_told(outlast: Outlast) -> None:
    broken, sound = outlast.run(doubling, 1).run_id, outlast.run(doubling, 2).run_id
    change = f"UPDATE journal SET header = CAST('?' AS BLOB) WHERE chain = {outlast._row(broken).key} AND seq = 2"
    ledgers.change(outlast.home, change, rows=1)
    told = [(each.event.run_id, each.event.seq) for each in outlast.all_events(after=0).items]
    assert (broken, 2) not in told
    assert set(of_run(outlast, sound)) <= set(told)


def test_numbers_go_on_after_the_newest_run_was_removed(outlast: Outlast) -> None:
    for _ in range(2):  # also once a row stands in for what was removed
        outlast.run(doubling, 1).unwrap()
        seen = outlast.all_events(after=0).upto
        assert len(outlast.gc(older_than=0.0, dry_run=False).runs) == 1
        assert outlast.all_events(after=seen).upto == outlast.all_events().upto == seen
        following = outlast.follow_all_events(after=seen)
        run = outlast.run(doubling, 2).run_id
        assert [next(following).event.run_id for _ in outlast.events(run)] == [run] * len(outlast.events(run))
        assert outlast.verify().ok
        outlast.gc(older_than=0.0, dry_run=False)


def test_a_number_from_the_future_is_refused(outlast: Outlast) -> None:
    with pytest.raises(EventAhead, match="newest is 0"):
        outlast.all_events(after=1)
    outlast.run(doubling, 1).unwrap()
    newest = outlast.all_events().upto
    assert outlast.all_events(after=newest).items == ()
    for ask in (outlast.all_events, lambda after: next(outlast.follow_all_events(after=after))):
        with pytest.raises(EventAhead, match=f"event {newest + 1} was never given here"):
            ask(after=newest + 1)
