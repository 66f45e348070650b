"""Whose the declared files are now, for a step that is done again because the run went back.

Such a step may find what its last attempt left and what later steps made of it: all of that was set aside, and can be
put back. It may also find what a step has written since the run went back: that is nobody's leftover. A file that is
like neither was edited by somebody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.files.changes import Seen, path_of
from outlast.ledger.journal import Row, decode_header
from outlast.runs import journal
from outlast.runs.call import Call
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.runs.execution import Execution
    from outlast.store.contract import Reading


class Wrote(NamedTuple):
    """The last that is known of a file: its digest, and whether the work that left it so was set aside."""

    digest: str
    aside: bool


class Writers:
    """Who wrote each declared file last."""

    def __init__(self, execution: Execution, facts_of: Callable[[bytes], Mapping[str, Any]]) -> None:
        self._execution, self._facts_of = execution, facts_of
        self._last: dict[Path, Wrote] = {}
        self._folders: dict[Call, Path] = {}
        for row in execution.runtime.store.read(self._rows):  # by the runtime: the execution of a plan has no store
            self._read(row)

    def _rows(self, look: Reading) -> list[Row]:
        run = look.run_by_id(self._execution.id)
        assert run is not None
        return journal.read(look, run).rows

    def _read(self, row: Row) -> None:
        raw = row.payload
        if raw is None or not any(word in raw for word in (b'"declared":', b'"files":', b'"left":')):
            return
        header, facts = decode_header(row.header), self._facts_of(raw)
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        if "declared" in facts:
            self._folders[call] = self._root / facts["declared"]["folder"]
        if call in self._folders:
            past = self._execution.ledger.calls.get(call)
            self._note(self._folders[call], _digests(facts), aside=past is not None and past.aside)

    @property
    def _root(self) -> Path:
        return self._execution.runtime.project or Path.cwd()

    def _note(self, root: Path, digests: Mapping[str, str], *, aside: bool) -> None:
        self._last |= {root / path_of(path): Wrote(digest, aside) for path, digest in digests.items()}

    def wrote(self, root: Path, facts: Mapping[str, Any]) -> None:
        """An attempt has ended: what it left is as of now."""
        self._note(root, _digests(facts), aside=False)

    def known_after(self, root: Path, paths: Iterable[str]) -> dict[str, str]:
        """How the files were last left, as far as that is known."""
        return {path: self._last[root / path].digest for path in paths if root / path in self._last}

    def before(self, root: Path, before: Mapping[str, Seen], now: Mapping[str, Seen]) -> dict[str, Seen]:
        """How the files were before the work that was set aside; those that are others' work now are as they are."""
        theirs = {path for path, seen in now.items() if self._is_work(root / path, seen)}
        kept = {path: seen for path, seen in before.items() if path not in theirs}
        return kept | {path: now[path] for path in theirs}

    def _is_work(self, path: Path, now: Seen) -> bool:
        last = self._last.get(path)
        return last is not None and not last.aside and last.digest == now.digest


def _digests(facts: Mapping[str, Any]) -> dict[str, str]:
    """What an outcome says of its files: all of them if it succeeded, those that it changed if it did not."""
    left = facts.get("left", {}).get("files", ())
    return {each["path"]: each["after"] for each in left} | dict(facts.get("files", {}))
