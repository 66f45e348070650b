"""Named statements, read from the .sql files: `-- name: claim_run` starts one, the dialect's own wins."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"


def statements(dialect: str) -> dict[str, str]:
    """Every statement by its name."""
    return _read(_FOLDER / "shared") | _read(_FOLDER / dialect)


def key_statements(dialect: str = "sqlite") -> dict[str, str]:
    """Those of API keys, which are no tenant's."""
    return _read(_FOLDER / "keys") | (_read(_FOLDER / f"{dialect}_keys") if dialect != "sqlite" else {})


def moving_statements() -> dict[str, str]:
    """Those that ask about tables as such, of whichever database."""
    return _read(_FOLDER / "moving")


def recall_statements() -> dict[str, str]:
    """Those of the index for recall, which is in files of its own."""
    return _read(_FOLDER / "recall")


def schema(dialect: str) -> str:
    """The whole model on one page."""
    return (_FOLDER / dialect / "schema.sql").read_text()


@cache  # asked by whoever looks at a file
def newest_version(dialect: str) -> int:
    """The number of the schema that this program knows."""
    return max((_number(file) for file in _later(dialect)), default=1)


@cache  # with the statements: a process may open many homes
def migrations(dialect: str) -> list[tuple[int, str]]:
    """Numbered, up-only migrations, in order. The first is the whole schema of version 1, without its comments."""
    first = re.sub(r"(?<! ) *--.*", "", schema(dialect))
    return [(1, first), *((_number(file), file.read_text()) for file in _later(dialect))]


def _later(dialect: str) -> list[Path]:
    return sorted((_FOLDER / dialect / "migrations").glob("[0-9]*.sql"), key=_number)


def _number(file: Path) -> int:
    return int(file.name.split("_")[0])


@cache
def _read(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.sql")):
        if file.name != "schema.sql":
            found |= _split(file.read_text())
    return found


def _split(text: str) -> dict[str, str]:
    parts = text.split("-- name: ")[1:]
    named = (part.partition("\n") for part in parts)
    return {name.strip(): body.strip() for name, _, body in named}
