"""Schedules: a flow is run at its times, each firing once, whoever watches and whatever was missed."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from outlast import Outlast, Run, flow
from outlast.clock import micros, moment
from outlast.errors import InputsInvalid, ScheduleInvalid, ScheduleNotFound
from outlast.runs.queues import schedule
from outlast.runs.queues.schedule import shown, times_after
from outlast.store.contract import ScheduleRow

from ..kit.place import Place
from .support import Spoken, until, work

HOUR = 3600


@flow
def report(run: Run, what: str = "daily") -> str:
    return work(what)


@flow(schedule="30 * * * *", timezone="Europe/Paris")
def hourly(run: Run) -> str:
    return work("hourly")


def fired(place: Place) -> list[str]:
    """The tasks of all firings so far, the first one first."""
    return [run.task for run in reversed(place.outlast.runs(limit=1000))]


def due(outlast: Outlast) -> list[ScheduleRow]:
    """Those whose time has come."""
    home = outlast._executor.home
    return home.store.read(lambda look: look.due_schedules(home.clock.now()))


def fire(place: Place, *others: Outlast) -> None:
    """What a worker does at each look; `others` are workers that look at the same moment."""
    for outlast in (place.outlast, *others):
        for row in due(outlast):
            schedule.fire_due(outlast._executor, row, report.spec)


def local(text: str, zone: str = "Europe/Paris") -> int:
    return micros(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def at(place: Place, text: str, zone: str = "Europe/Paris") -> None:
    """Let it be this time, there."""
    place.clock.advance((local(text, zone) - place.clock.now()) / 1_000_000)


@contextmanager
def opened(place: Place) -> Iterator[Outlast]:
    """The same home, opened once more: another worker to all the others."""
    with Outlast(place.home, clock=place.clock, store_options={"synchronous": "OFF"}) as outlast:
        yield outlast


# -- firing --------------------------------------------------------------------------------------------


def test_a_firing_is_a_task_of_its_name_and_time(place: Place) -> None:
    at(place, "2026-06-01T06:59")
    made = place.outlast.schedules.add("morning", report, "0 7 * * *", timezone="Europe/Paris", inputs={"what": "kelp"})
    assert made.next_at == datetime(2026, 6, 1, 5, 0, tzinfo=UTC)
    fire(place)
    assert fired(place) == []
    at(place, "2026-06-01T07:00")
    fire(place)
    (run,) = place.outlast.runs()
    assert (run.task, run.status, run.inputs, run.tags) == (
        *("morning@2026-06-01T07:00+02:00", "queued", {"what": "kelp"}),
        ("schedule:morning",),
    )
    assert place.outlast.schedules.list()[0].next_at == datetime(2026, 6, 2, 5, 0, tzinfo=UTC)


def test_it_happens_once_however_many_watch(place: Place) -> None:
    place.outlast.schedules.add("hourly", report, "0 * * * *")
    place.clock.advance(HOUR)
    with opened(place) as second, opened(place) as third:
        rows = [(each, due(each)) for each in (place.outlast, second, third)]
        for each, found in rows:
            for row in found:
                schedule.fire_due(each._executor, row, report.spec)
        fire(place, second, third)
    assert len(fired(place)) == 1


def test_it_happens_once_if_a_worker_dies_before_it_noted_the_next_time(place: Place) -> None:
    place.outlast.schedules.add("hourly", report, "0 * * * *")
    place.clock.advance(HOUR)
    (row,) = due(place.outlast)
    first = schedule.fire(place.outlast._executor, row, report.spec, row.next_at)  # and then it died
    fire(place)
    assert (len(fired(place)), place.outlast.runs()[0].id) == (1, first)


def test_a_worker_fires_and_takes_what_its_flows_declare(place: Place) -> None:
    with place.outlast.worker(hourly):
        assert [(one.name, one.timezone) for one in place.outlast.schedules.list()] == [("hourly", "Europe/Paris")]
        place.clock.advance(HOUR)
        until(lambda: [run.status for run in place.outlast.runs()] == ["succeeded"])
    assert place.ran == ["work hourly"]


# -- what was missed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "count"), [("once", 1), ("all", 5), ("skip", 0)])
def test_what_was_missed_is_run_once_all_or_skipped(place: Place, missed: str, count: int) -> None:
    place.outlast.schedules.add("hourly", report, "0 * * * *", missed=missed)
    first = place.outlast.schedules.list()[0].next_at
    assert first is not None
    place.clock.advance((micros(first) - place.clock.now()) / 1_000_000 + 4 * HOUR + 600)
    fire(place)
    fire(place)
    assert len(fired(place)) == count
    place.clock.advance(HOUR - 600)
    fire(place)
    assert len(fired(place)) == count + 1


# -- daylight saving -----------------------------------------------------------------------------------


def times(cron: str, begin: str, number: int) -> list[str]:
    found = times_after(cron, "Europe/Paris", local(begin))
    return [
        moment(next(found)).astimezone(ZoneInfo("Europe/Paris")).isoformat(timespec="minutes") for _ in range(number)
    ]


def test_a_time_that_does_not_exist_in_spring_fires_once_that_day() -> None:
    assert times("30 2 * * *", "2026-03-28T00:00", 3) == [
        *("2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"),
    ]


def test_a_time_that_exists_twice_in_autumn_fires_once_that_day() -> None:
    assert times("30 2 * * *", "2026-10-24T00:00", 3) == [
        *("2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
    ]


def test_what_fires_every_hour_fires_every_hour_of_both_days() -> None:
    for day in ("2026-03-29", "2026-10-25"):
        found = times_after("0 * * * *", "Europe/Paris", local(f"{day}T00:30"))
        hours = [next(found) for _ in range(6)]
        assert {later - before for before, later in pairwise(hours)} == {HOUR * 1_000_000}


def test_both_hours_of_autumn_have_names_of_their_own() -> None:
    first = local("2026-10-25T02:00")
    assert shown(first, "Europe/Paris") != shown(first + HOUR * 1_000_000, "Europe/Paris")


# -- changing, looking ---------------------------------------------------------------------------------


def test_a_paused_one_does_not_fire_and_begins_with_its_next_time(place: Place) -> None:
    place.outlast.schedules.add("hourly", report, "0 * * * *", missed="all")
    assert place.outlast.schedules.pause("hourly").next_at is None
    place.clock.advance(5 * HOUR)
    fire(place)
    assert place.outlast.schedules.resume("hourly").next_at is not None
    fire(place)
    assert fired(place) == []
    place.clock.advance(HOUR)
    fire(place)
    assert len(fired(place)) == 1


def test_the_same_name_changes_it_and_the_same_words_change_nothing(place: Place) -> None:
    first = place.outlast.schedules.add("s", report, "0 7 * * *")
    place.clock.advance(60)
    assert place.outlast.schedules.add("s", report, "0 7 * * *") == first
    assert place.outlast.schedules.add("s", report, "0 8 * * *").cron == "0 8 * * *"
    assert len(place.outlast.schedules.list()) == 1


def test_one_can_be_triggered_and_removed_and_its_runs_stay(place: Place) -> None:
    place.outlast.schedules.add("s", report, "0 7 * * *")
    run_id = place.outlast.schedules.trigger("s").id
    place.outlast.schedules.remove("s")
    assert (place.outlast.schedules.list(), place.outlast.get(run_id).status) == ([], "queued")
    assert place.outlast.verify().ok


def test_what_cannot_be_is_refused(place: Place) -> None:
    schedules = place.outlast.schedules
    for cron, more in (("61 * * * *", {}), ("0 7", {}), ("0 0 30 2 *", {}), ("0 7 * * *", {"timezone": "Mars/Here"})):
        with pytest.raises(ScheduleInvalid):
            schedules.add("s", report, cron, **more)
    with pytest.raises(ScheduleInvalid):
        schedules.add("s", report, "0 7 * * *", missed="never")
    with pytest.raises(InputsInvalid):
        schedules.add("s", report, "0 7 * * *", inputs={"other": 1})
    for refused in (schedules.pause, schedules.resume, schedules.remove, schedules.trigger):
        with pytest.raises(ScheduleNotFound):
            refused("nowhere")


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/10 2 * * *", "0 * * * *", "*/30 * * * *", "15 2 * * SUN"])
def test_the_next_time_is_always_later_also_in_the_hour_that_comes_twice(cron: str) -> None:
    for zone, begin in (("Europe/Paris", "2026-10-25T00:00"), ("Europe/Paris", "2026-03-29T00:00")):
        for minutes in range(0, 300, 7):
            now = local(begin, zone) + minutes * 60_000_000
            assert next(times_after(cron, zone, now)) > now


def test_firings_of_one_minute_are_tasks_of_their_own(place: Place) -> None:
    place.outlast.schedules.add("s", report, "*/20 * * * * *", missed="all")
    place.clock.advance(60)
    fire(place)
    assert len(fired(place)) == 3


def test_a_trigger_is_repeated_by_its_operation_id_alone(place: Place) -> None:
    place.outlast.schedules.add("s", report, "0 7 * * *")
    first = place.outlast.schedules.trigger("s", operation_id="once")
    place.clock.advance(1)
    assert place.outlast.schedules.trigger("s", operation_id="once").id == first.id
    assert (place.outlast.schedules.trigger("s").id != first.id, first.schedule) == (True, "s")


# -- whose flow it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [(0, 1), (1, 0)], ids=["by its file", "by its module"])
def test_a_schedule_of_a_module_is_fired_by_who_has_its_file_and_the_other_way_round(
    place: Place, spoken: Spoken, way: tuple[int, int]
) -> None:
    made, given = spoken[way[0]], spoken[way[1]]
    first = place.outlast.schedules.add("s", made, "0 * * * *")
    assert place.outlast.schedules.add("s", given, "0 * * * *") == first  # the same flow: nothing changes
    with place.outlast.worker(given), opened(place) as other, other.worker(made):
        assert place.outlast.schedules.list()[0].held_up == ""
        place.clock.advance(HOUR)
        until(lambda: [run.status for run in place.outlast.runs()] == ["waiting"])
        place.clock.advance(HOUR)
        until(lambda: [run.status for run in place.outlast.runs()] == ["waiting", "waiting"])
    assert len({*fired(place)}) == 2


def test_a_schedule_whose_flow_no_worker_has_says_so(place: Place) -> None:
    assert place.outlast.schedules.add("s", report, "0 7 * * *").held_up == "no_worker"
    with place.outlast.worker(hourly):
        found = {one.name: one.held_up for one in place.outlast.schedules.list()}
        assert found == {"hourly": "", "s": "no_worker"}
    with place.outlast.worker(report):
        assert place.outlast.schedules.list()[1].held_up == ""
    with place.outlast.worker():  # it looks for every flow where it lies
        assert place.outlast.schedules.list()[1].held_up == ""
    assert place.outlast.schedules.pause("s").held_up == ""
