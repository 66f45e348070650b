"""docs/errors.md has every error code, under its family, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import errors
from outlast.errors import OutlastError

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
FAMILIES = {
    "Not found": errors.NotFound,
    "Conflict": errors.Conflict,
    "Refused": errors.Refused,
    "Invalid": errors.Invalid,
    "Unavailable": errors.Unavailable,
    "Failed": errors.WorkFailed,
}


EVERY = [getattr(errors, name) for name in dir(errors)]  # a kind is loaded when it is asked for


def below(kind: type[OutlastError]) -> Iterator[type[OutlastError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from below(child)


def codes_of(kind: type[OutlastError]) -> set[str]:
    return {each.code for each in below(kind)}


def documented(section: str) -> set[str]:
    """The codes in the first column of a section's table."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))


@pytest.mark.parametrize("section", FAMILIES)
def test_each_family_lists_its_codes(section: str) -> None:
    assert documented(section) == codes_of(FAMILIES[section])


def test_the_families_have_codes_of_their_own() -> None:
    assert documented("The families") == {kind.code for kind in FAMILIES.values()}


def test_no_error_is_outside_of_the_families() -> None:
    assert set(OutlastError.__subclasses__()) == set(FAMILIES.values())


def test_each_code_has_one_class() -> None:
    classes = [*below(OutlastError)]
    assert {*FAMILIES.values(), errors.RunNotFound} < {*classes}
    assert len({kind.code for kind in classes}) == len(classes)


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    rows = re.findall(r"^\| `[a-z_]+` \|.*$", PAGE, re.MULTILINE)
    empty = [row for row in rows if len([cell for cell in row.strip("| ").split(" | ") if cell.strip()]) != 3]
    assert empty == []
