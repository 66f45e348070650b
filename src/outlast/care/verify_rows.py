"""Whether rows that are no entries of a chain are what was written last: the part of `verify` about their proofs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.errors import OutlastError
from outlast.ledger.journal import Break
from outlast.store.contract import PROVEN, Reading

if TYPE_CHECKING:
    from outlast.home.home import Runtime

PAGE = 500


def check_rows(runtime: Runtime) -> list[Break]:
    """Every row that is not what its proof says, table by table and page by page: no read holds the store up."""
    return [found for table in PROVEN for found in _of_table(runtime, table)]


def _of_table(runtime: Runtime, table: str) -> Iterator[Break]:
    after = 0

    def page(look: Reading) -> tuple[int, list[Break]]:
        return look.unproven(table, after, PAGE)

    while True:
        try:
            after, breaks = runtime.store.read(page)
        except OutlastError as error:
            yield Break(f"table {table}", f"it cannot be read: {error}")
            return
        yield from breaks
        if not after:
            return
