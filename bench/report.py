"""What a row found, as text: tables of figures, and the goals with pass or miss."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on one figure; `measured` is None where this harness does not measure it."""

    work: str
    bound: float
    at_most: bool
    measured: float | None
    show: Callable[[float], str]

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        met = self.measured <= self.bound if self.at_most else self.measured >= self.bound
        return "pass" if met else "miss"

    def cells(self) -> list[str]:
        sign = "≤" if self.at_most else "≥"
        measured = "" if self.measured is None else self.show(self.measured)
        return [self.work, f"{sign} {self.show(self.bound)}", measured, self.verdict]


@dataclass(slots=True)
class Row:
    """One kind of work: a table with a line per subject, and the goals it decides."""

    number: int
    title: str
    columns: list[str]
    lines: list[list[str]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unit: str = ""  # of what is drawn
    bars: list[tuple[str, float]] = field(default_factory=list)  # what is drawn of it

    def text(self) -> str:
        parts = [f"## {self.number}. {self.title}", table(self.columns, self.lines), *self.notes]
        parts += [f"{name}: not measured ({why})." for name, why in self.failed.items()]
        return "\n\n".join(parts)


def table(columns: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [columns, rule, *lines])


def goals(rows: list[Row]) -> str:
    lines = [goal.cells() for row in rows for goal in row.goals]
    return table(["work", "goal", "measured", ""], lines)


def spread(middle: float, low: float, high: float) -> str:
    """A median and the middle half around it."""
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


def times(value: float) -> str:
    return f"{value:.2f}×"


def microseconds(value: float) -> str:
    return f"{value:,.1f} µs"


def milliseconds(value: float) -> str:
    return f"{value:,.0f} ms"


def megabytes(value: float) -> str:
    return f"{value:,.1f} MB"


def kilobytes(value: float) -> str:
    return f"{value:.2f} KB"


def count(value: float) -> str:
    return f"{value:,.0f}"
