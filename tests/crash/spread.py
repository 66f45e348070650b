"""How many crash points are enough where not all are tried: as few as take in every kind of point."""

from collections.abc import Sequence

from holdfast.testing import Point


def few(points: Sequence[Point], at_least: int) -> int:
    """The smallest `limit` for `crash_everywhere`, from `at_least` on, whose points have every name that is reached."""
    names = {point.name for point in points}
    return next((n for n in range(at_least, len(points)) if _names(points, n) == names), len(points))


def _names(points: Sequence[Point], limit: int) -> set[str]:
    return {points[number * len(points) // limit].name for number in range(limit)}
