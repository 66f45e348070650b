"""Links: how two things with refs bear on each other, by typed edges. The same link again is the same link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.errors import ValueRefused
from outlast.home.caller import Repeatable, once
from outlast.store.contract import Reading, Writing, every_row
from outlast.store.contract.workspace import NOTHING, LinkRow, WorkspaceKeys
from outlast.values.codec import value_of
from outlast.values.frozen import Compared, NamedTuple
from outlast.workspace import refs
from outlast.workspace.refs import ArtifactSource, check_text, new_row, proof_of, without_secrets

if TYPE_CHECKING:
    from outlast.home.home import Home

RELATIONS = ("supports", "contradicts", "derived_from", "supersedes", "produced_by")
NOTE_LENGTH = 10_000
PAGE = 500


class Link(Compared, frozen=True):
    """A link as it was made first: `source` relation `target`. The same one again is this one."""

    id: str
    scope: str
    source: str  # a ref
    relation: str  # supports, contradicts, derived_from, supersedes, produced_by
    target: str  # a ref
    note: str
    by: ArtifactSource
    stored_at: datetime
    masked: tuple[str, ...] = ()
    replayed: bool = False


class LinkDraft(NamedTuple):
    """A link that is to be made, checked. Its ends are as they were given."""

    scope: str
    source: str
    relation: str
    target: str
    note: str
    by: ArtifactSource
    masked: tuple[str, ...]


class AddedLink(NamedTuple):
    """The row of a link, and whether it is new."""

    row: LinkRow
    is_new: bool


class LinkFields(NamedTuple):
    """What a caller gives."""

    source: Any
    relation: Any
    target: Any
    note: Any = ""
    redact: bool = False


def draft(home: Home, scope: str, said: LinkFields, actor: str) -> LinkDraft:
    """What was given, checked before anything is written. Raises ValueRefused, SecretFound."""
    note = check_text("note", said.note, NOTE_LENGTH)
    plain, masked = without_secrets(home, {"note": note}, said.redact)
    if said.relation not in RELATIONS:
        why = f"{said.relation!r:.100} is no relation"
        raise ValueRefused("relation", why, f"give one of {', '.join(RELATIONS)}")
    return LinkDraft(scope, said.source, str(said.relation), said.target, plain["note"], ArtifactSource(actor), masked)


# -- linking -----------------------------------------------------------------------------------------


def link(home: Home, given: LinkDraft, operation_id: str | None) -> Link:
    """Make a link outside of a run, durable when this returns. Both ends must exist."""
    operation = Repeatable(operation_id, "link", list(given))

    def work(tx: Writing) -> tuple[Link, str]:
        added = add(home, tx, whole(tx, given))
        return link_of(added.row, replayed=not added.is_new), added.row.id

    return once(home, operation, work, lambda answer: get(home, answer, replayed=True))


def whole(look: Reading, given: LinkDraft, kept: WorkspaceKeys = NOTHING) -> LinkDraft:
    """With ends that exist, by their whole refs."""
    source = refs.whole(look, given.source, "source", given.scope, kept)
    target = refs.whole(look, given.target, "target", given.scope, kept)
    if source == target:
        raise ValueRefused("target", f"both ends are {source}", "link it with something else")
    return given._replace(source=source, target=target)


def add(home: Home, tx: Writing, given: LinkDraft, pending: int = 0, kept: WorkspaceKeys = NOTHING) -> AddedLink:
    before = tx.link_between(given.source, given.relation, given.target) or _own(tx, given, kept)
    if before is not None:
        return AddedLink(before, is_new=False)
    told = {"run_id": given.by.run_id, "stored_at": home.clock.now(), "pending": pending}
    row = new_row(LinkRow, given, id=home.ids(), **told)
    row = row._replace(proof=proof_of_row(row))
    return AddedLink(row._replace(key=tx.add_link(row)), is_new=True)


def _own(look: Reading, given: LinkDraft, kept: WorkspaceKeys) -> LinkRow | None:
    rows = (look.link_by_key(key) for key in kept.links)
    return next((row for row in rows if row and row[3:6] == given[1:4]), None)


def proof_of_row(row: LinkRow) -> bytes:
    """What proves that a row says what it said when it was added."""
    return proof_of("link", *row[1:11])


# -- looking -----------------------------------------------------------------------------------------


def get(home: Home, link_id: str, *, replayed: bool = False) -> Link:
    """A link by its whole id. One that a step made, and that somebody else had made by then, is the other's."""
    row = home.store.read(lambda look: look.link_by_id(link_id))
    assert row is not None  # no link that everybody sees is ever removed
    return link_of(row, replayed=replayed)


def of_ref(home: Home, ref: str, scope: str) -> list[Link]:
    """Every link from or to a ref, the oldest first. Raises NotFound, ValueRefused."""

    def look_at(look: Reading) -> list[LinkRow]:
        whole = refs.whole(look, ref, "ref", scope)
        return sorted({*out_of(look, whole, RELATIONS), *into(look, whole, RELATIONS)})

    return [link_of(row) for row in home.store.read(look_at)]


def out_of(look: Reading, ref: str, relations: tuple[str, ...]) -> Iterator[LinkRow]:
    """The links from a ref, page by page."""
    for relation in relations:
        yield from _pages(look.links_from, ref, relation)


def into(look: Reading, ref: str, relations: tuple[str, ...]) -> Iterator[LinkRow]:
    """The links to a ref."""
    for relation in relations:
        yield from _pages(look.links_to, ref, relation)


def _pages(page: Callable[[str, str, int, int], list[LinkRow]], ref: str, relation: str) -> Iterator[LinkRow]:
    return every_row(lambda after: page(ref, relation, after, PAGE), lambda row: row.key)


def link_of(row: LinkRow, *, replayed: bool = False) -> Link:
    return value_of(Link, row, replayed=replayed)
