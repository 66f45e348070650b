"""The times of a schedule: lines of cron, in a time zone, by cronsim. Pure but for the zones of this machine.

At both changes of daylight saving it does what cron does: a time that does not exist fires at the moment of the
change, one that exists twice fires once; what fires every hour, or more often, goes on evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

from outlast.clock import micros, moment
from outlast.errors import ExtraMissing, ScheduleInvalid


def times_after(cron: str, timezone: str, after_us: int) -> Iterator[int]:
    """Every time of it after a moment, in microseconds. Raises ScheduleInvalid, ExtraMissing."""
    zone, library = _zone(cron, timezone), _library()
    begin = moment(after_us).astimezone(zone)
    try:
        found = library.CronSim(cron, begin)
    except library.CronSimError as error:
        raise ScheduleInvalid(cron, str(error)) from error
    # Asked in the hour that comes twice, the library begins with the first of the two: that is over.
    return (at for at in (micros(each.astimezone(UTC)) for each in found) if at > after_us)


def next_after(cron: str, timezone: str, after_us: int) -> int:
    """The next time of it. Raises ScheduleInvalid for one that never comes."""
    found = next(times_after(cron, timezone, after_us), None)
    if found is None:
        raise ScheduleInvalid(cron, "it never comes")
    return found


def times_between(cron: str, timezone: str, first_us: int, upto_us: int) -> list[int]:
    """Those from one moment, which is one of them, up to another."""
    later = takewhile(lambda each: each <= upto_us, times_after(cron, timezone, first_us))
    return [first_us, *later]


def _zone(cron: str, name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ScheduleInvalid(
            cron, f"{name!r:.100} is no time zone that is known here, such as Europe/Paris"
        ) from error


def _library() -> Any:
    try:
        import cronsim  # late: an extra, and only schedules need it
    except ImportError as error:
        raise ExtraMissing("a schedule", "schedule") from error
    return cronsim


def shown(at_us: int, timezone: str) -> str:
    """A firing by its time, as its task is named: two moments never have one name."""
    at = moment(at_us).astimezone(ZoneInfo(timezone))
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds" if at.second else "minutes")
