"""Records, links and the order of what everybody sees, on one SQLite connection: named statements in, rows out."""

from __future__ import annotations

import json
from collections.abc import Sequence

from outlast.store.contract.artifacts import CheckpointRow
from outlast.store.contract.records import CountedRecords, Kept, LinkRow, RecordRow, Shown
from outlast.store.sqlite.artifacts import ArtifactReader, ArtifactWriter

_LAST = "\U0010ffff"
_NEWEST = 1 << 62


class RecordReader(ArtifactReader):
    """Lookups."""

    def record_by_key(self, key: int) -> RecordRow | None:
        return self._row(RecordRow, "record_by_key", key)

    def records_by_prefix(self, prefix: str) -> list[RecordRow]:
        return self._rows(RecordRow, "records_by_prefix", prefix, prefix + _LAST)

    def records_of_scope(self, scope: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_scope", scope, before or _NEWEST, limit)

    def records_of_kind(self, scope: str, kind: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_kind", scope, kind, before or _NEWEST, limit)

    def records_of_task(self, scope: str, task: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_task", scope, task, before or _NEWEST, limit)

    def records_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_tag", scope, tag, before or _NEWEST, limit)

    def pinned_records(self, scope: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "pinned_records", scope, before or _NEWEST, limit)

    def records_of_ref(self, ref: str, before: int, limit: int) -> list[RecordRow]:
        """Those that are about it."""
        return self._rows(RecordRow, "records_of_ref", ref, before or _NEWEST, limit)

    def records_of_run(self, run_id: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_run", run_id, before or _NEWEST, limit)

    def records_after(self, key: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_after_key", key, limit)

    def tags_of_record(self, key: int, scope: str) -> list[str]:
        return [row[0] for row in self._all("tags_of_record", key, scope)]

    def refs_of_record(self, key: int) -> list[str]:
        return [row[0] for row in self._all("refs_of_record", key)]

    def count_records(self) -> CountedRecords:
        return CountedRecords(*self._one("count_records"))

    def link_by_key(self, key: int) -> LinkRow | None:
        return self._row(LinkRow, "link_by_key", key)

    def link_by_id(self, link_id: str) -> LinkRow | None:
        return self._row(LinkRow, "link_by_id", link_id)

    def link_between(self, source: str, relation: str, target: str) -> LinkRow | None:
        """The one that everybody sees."""
        return self._row(LinkRow, "link_between", source, relation, target)

    def links_from(self, source: str, relation: str, after: int, limit: int) -> list[LinkRow]:
        """The oldest first."""
        return self._rows(LinkRow, "links_from", source, relation, after, limit)

    def links_to(self, target: str, relation: str, after: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_to", target, relation, after, limit)

    def linked_among(self, refs: Sequence[str]) -> set[str]:
        """Those of the refs that any link begins or ends at."""
        return {ref for (ref,) in self._all("linked_among", json.dumps(list(refs)))}

    def refs_under_way(self) -> set[str]:
        """What records and links name that steps under way have made."""
        return {ref for (ref,) in self._all("refs_under_way")}

    def links_of_run(self, run_id: str, before: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_of_run", run_id, before or _NEWEST, limit)

    def links_after(self, key: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_after_key", key, limit)

    def checkpoint_by_key(self, key: int) -> CheckpointRow | None:
        return self._row(CheckpointRow, "checkpoint_by_key", key)

    def pending_of(self, run_id: str, epoch: int) -> Kept:
        """What a run's attempts made before that epoch, and nobody has seen."""
        records = tuple(row[0] for row in self._all("pending_records", run_id, epoch))
        links = tuple(row[0] for row in self._all("pending_links", run_id, epoch))
        return Kept(tuple(self.pending_artifacts(run_id, epoch)), records, links)

    def abandoned(self) -> Kept:
        """What attempts made that will never end."""
        records = tuple(row[0] for row in self._all("abandoned_records"))
        links = tuple(row[0] for row in self._all("abandoned_links"))
        return Kept(tuple(key for key, _ in self.abandoned_artifacts()), records, links)

    def shown_of_scope(self, scope: str, after: int, limit: int) -> list[Shown]:
        """What everybody came to see in a scope after that number, in that order."""
        return self._rows(Shown, "shown_of_scope", scope, after, limit)

    def shown_after(self, number: int, limit: int) -> list[Shown]:
        """The same of every scope."""
        return self._rows(Shown, "shown_after_number", number, limit)

    def is_shown(self, noun: str, key: int) -> bool:
        return self._one("shown_row", noun, key) is not None

    def highest_shown(self) -> int:
        """The number that was given last, also if its row is gone."""
        row = self._one("highest_shown")
        return int(row[0]) if row else 0


class RecordWriter(ArtifactWriter, RecordReader):
    """Writes inside a transaction."""

    def add_record(self, row: RecordRow, tags: Sequence[str], refs: Sequence[str]) -> int:
        """A record with what it is found by. Gives its key; the one in the row does not count."""
        key = int(self._one("add_record", *row[1:])[0])
        for tag in tags:
            self._one("add_record_tag", row.scope, tag, key)
        for ref in refs:
            self._one("add_record_ref", ref, key)
        if not row.pending:
            self._one("add_shown", "record", row.scope, key)
        return key

    def pin_record(self, key: int, pinned: bool, by: str) -> None:
        self._one("pin_record", int(pinned), by, key)

    def add_link(self, row: LinkRow) -> int:
        """A link, which nobody made before. Gives its key; the one in the row does not count."""
        key = int(self._one("add_link", *row[1:])[0])
        if not row.pending:
            self._one("add_shown", "link", row.scope, key)
        return key

    def show(self, kept: Kept) -> None:
        """Let everybody see what an attempt made. A link that somebody else made meanwhile is that one."""
        self.show_artifacts(kept.artifacts)
        for key in kept.records:
            if shown := self._one("show_record", key):
                self._one("add_shown", "record", shown[0], key)
        for key in kept.links:
            self._show_link(key)

    def _show_link(self, key: int) -> None:
        row = self.link_by_key(key)
        if row is None or self.link_between(row.source, row.relation, row.target):
            self._one("drop_link", key)
        elif shown := self._one("show_link", key):
            self._one("add_shown", "link", shown[0], key)

    def drop(self, kept: Kept) -> None:
        """Forget what an attempt made and nobody has seen."""
        self.drop_artifacts(kept.artifacts)
        for key in kept.records:
            self._one("drop_record_tags", key)
            self._one("drop_record_refs", key)
            self._one("drop_record", key)
        for key in kept.links:
            self._one("drop_link", key)
