"""Whether the tables, indexes and triggers of a file are those of this version, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from outlast.store.statements import migrations

_PARTS = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name"


def differences(connection: apsw.Connection) -> Iterator[str]:
    """What was added, taken away or changed, in words."""
    found, wanted = _parts(connection), _parts(_new())
    for part in sorted(found.keys() | wanted.keys()):
        kind, name = part
        if part not in found:
            yield f"{kind} {name} is missing"
        elif part not in wanted:
            yield f"{kind} {name} is none of ours"
        elif found[part] != wanted[part]:
            yield f"{kind} {name} was changed"


def _parts(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    return {(str(kind), str(name)): str(sql) for kind, name, sql in connection.execute(_PARTS)}


def _new() -> apsw.Connection:
    """An empty store of this version, in memory."""
    made = apsw.Connection(":memory:")
    for _, text in migrations("sqlite"):
        for _ in made.execute(text):
            pass
    return made
