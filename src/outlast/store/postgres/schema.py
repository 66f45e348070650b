"""The schema of a tenant: its name, made when it is missing, and brought to this version.

Migrations go up only, under a lock, each process one after another. A schema from a newer version is refused before
anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256

from psycopg import Error as DriverError
from psycopg.sql import SQL, Identifier

from outlast.errors import StoreForeign, StoreNewer
from outlast.store.nouns.rows import migrations, newest_version
from outlast.store.postgres.connection import Link, connect, named_statements, place_of, translate

Steps = Sequence[tuple[int, str]]

KEYS_SCHEMA = "outlast_keys"  # no tenant is called `keys`
_OF_TENANT = "Outlast, tenant "  # how the comment of a schema begins, with the tenant's name behind it
_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,40}")


def schema_of(tenant: str) -> str:
    """The name of a tenant's schema: its own name where that is a plain word, else a print of it."""
    if _PLAIN.fullmatch(tenant):
        return f"outlast_{tenant}"
    return f"outlast-{sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def moving_of(schema: str) -> str:
    """The name of a schema that is being made of another home, until it is whole."""
    return f"{schema} moving"


def lock_of(schema: str) -> int:
    """The number of the lock that everybody takes who commits in this schema."""
    return int.from_bytes(sha256(f"outlast {schema}".encode()).digest()[:8], signed=True)


def migrate(
    connection: Link,
    schema: str,
    place: str,
    steps: Steps | None = None,
    *,
    tenant: str = "",
    before: Callable[[], None] = lambda: None,
) -> None:
    """Make what is missing, all of it or nothing; nothing where `before` raises, which is called before a schema is
    made. Raises StoreNewer, StoreForeign."""
    newest = steps[-1][0] if steps else newest_version("postgres")
    found = _version(connection, schema, place, newest)
    if found == newest:
        return
    if found == 0:
        before()
    with connection.transaction():
        connection.execute(SQL("SELECT pg_advisory_xact_lock({})").format(lock_of(schema)))
        found = _version(connection, schema, place, newest)  # under the lock: another process may have been first
        connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
        if tenant:
            comment_on(connection, schema, tenant)
        for number, text in steps or migrations("postgres"):
            if number > found:
                connection.execute(text.encode())
        connection.execute(named_statements()["set_version_of_schema"], (newest,))


def comment_on(connection: Link, schema: str, tenant: str) -> None:
    """Say at the schema whose it is: from now on it is found among the tenants."""
    connection.execute(SQL("COMMENT ON SCHEMA {} IS {}").format(Identifier(schema), f"{_OF_TENANT}{tenant}"))


def tenants_of(url: str) -> list[str]:
    """Every tenant that has a schema in this database."""
    try:
        with connect(url, KEYS_SCHEMA) as connection:
            said = [str(said) for (said,) in connection.execute(named_statements()["comments_of_schemas"])]
    except DriverError as error:
        raise translate(error, place_of(url, "outlast_*")) from error
    return sorted(each.removeprefix(_OF_TENANT) for each in said if each.startswith(_OF_TENANT))


def _version(connection: Link, schema: str, place: str, known: int) -> int:
    """The version that is there; 0 for none."""
    tables = {table for table, _ in connection.execute(named_statements()["columns_of_schema"], (schema,))}
    if not tables:
        return 0
    if "schema_version" not in tables:
        raise StoreForeign(place, f"the schema {schema} is of another program")
    ((found,),) = connection.execute(named_statements()["version_of_schema"])
    if found > known:
        raise StoreNewer(place, found, known)
    return int(found)


# -- what is there, beside what should be ------------------------------------------------------------

_MADE = re.compile(r"^CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER) (\w+)(?: .* ON (\w+) FOR EACH)?", re.MULTILINE)
_SEAL = "moved"  # a trigger of a home that was moved away


def tables() -> list[str]:
    """The names of a ledger's tables."""
    return [name for kind, name, _ in sorted(_made()) if kind == "table"]


@cache
def _made() -> frozenset[tuple[str, str, str]]:
    """Every table, index and trigger: its kind and name, and the table that a trigger is on."""
    texts = "\n".join(text for _, text in migrations("postgres"))
    return frozenset((kind.lower(), name, on) for kind, name, on in _MADE.findall(texts))


def differences(connection: Link, schema: str, *, is_moving: bool = False) -> list[str]:
    """What was taken away from a ledger, and the triggers that were added to it, in words.

    While it is being made of another home its own triggers are switched off.
    """
    found = {tuple(row) for row in connection.execute(named_statements()["parts_of_schema"], (schema, schema))}
    lost = sorted(part for part in _made() - found if not is_moving or part[0] != "trigger")
    gone = [f"{kind} {name}{on and f' of {on}'} is missing" for kind, name, on in lost]
    more = {name for kind, name, on in found - _made() if kind == "trigger" and name != _SEAL}
    return gone + [f"trigger {name} is none of ours" for name in sorted(more)]
