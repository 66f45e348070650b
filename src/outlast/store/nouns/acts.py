"""What people did that no journal has, on one connection."""

from __future__ import annotations

from outlast.store.contract.acts import ActRow, NewAct
from outlast.store.nouns.rows import Rows, WrittenRows


class ActReader(Rows):
    """Lookups."""

    def acts_before(self, entry: int, number: int, first: int, limit: int) -> list[ActRow]:
        """The newest before one, of those that were done when `first` was the newest entry or later."""
        return self._rows(ActRow, "acts_before", entry, number, first, limit)


class ActWriter(WrittenRows, ActReader):
    """Writes inside a transaction."""

    def add_act(self, act: NewAct) -> int:
        """Its number."""
        (entry,) = self._one("newest_entry")
        return int(self._one("add_act", entry, *act)[0])

    def finish_act(self, number: int) -> None:
        """It was done."""
        self._one("finish_act", number)
