"""What RESULTS.md says: all of it from one run, or some rows of one run put in the place of what stood there."""

import re

from report import Row, goals, table

_HEAD = "# Benchmark results"
GOALS, HOW = "## Goals", "## How it was measured"


def whole(rows: list[Row], introduction: str, facts: list[str]) -> str:
    """What a reader wants to know first: ours beside the others. The goals are for who builds it, and come last."""
    drawn = [f"![{row.title}](../docs/images/bench-{row.number}.svg)" for row in rows if row.bars]
    parts = [_HEAD, *drawn, *(row.text() for row in rows), GOALS, goals(rows)]
    return "\n\n".join([*parts, HOW, introduction, "\n".join(facts)]) + "\n"


def with_rows(before: str, rows: list[Row], facts: list[str]) -> str:
    """The same text with these rows, their goals, and when they were measured; all else as it stood."""
    head, *sections = re.split(r"\n\n(?=## )", before.rstrip("\n"))
    numbered = {_number(section): section for section in sections if _number(section)}
    numbered |= {row.number: row.text() for row in rows}
    others = [each for each in sections if not _number(each) and not each.startswith((GOALS, HOW))]
    kept = [numbered[number] for number in sorted(numbered)]
    how = _without(_section(sections, HOW), [row.number for row in rows])
    told = "; ".join(each.removeprefix("- ") for each in facts)
    lines = [how, *(f"- row {row.number}: {told}" for row in rows)]
    return "\n\n".join([head, *kept, *others, _with_goals(_section(sections, GOALS), rows), "\n".join(lines)]) + "\n"


def _without(how: str, numbers: list[int]) -> str:
    """What was said of older measurements of these rows is left out."""
    old = tuple(f"- row {number}:" for number in numbers)
    return "\n".join(line for line in how.splitlines() if not line.startswith(old))


def _number(section: str) -> int:
    found = re.match(r"## (\d+)\. ", section)
    return int(found[1]) if found else 0


def _section(sections: list[str], title: str) -> str:
    return next((each for each in sections if each.startswith(title)), title)


def _with_goals(section: str, rows: list[Row]) -> str:
    new = [goal.cells() for row in rows for goal in row.goals]
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines()[4:]]
    works = {cells[0] for cells in new}
    return f"{GOALS}\n\n" + table(["work", "goal", "measured", ""], [*(x for x in lines if x[0] not in works), *new])
