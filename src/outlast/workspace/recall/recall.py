"""Recall: what of a scope matters for a goal, within a number of tokens.

What the index finds (search.py) is read from the ledger itself. The order comes from the words and from what
else is known (rank.py); what fits is decided by pack.py. The same ledger and the same question give
the same pack: no clock and no chance has a say, and no other scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.clock import moment
from outlast.errors import ValueRefused
from outlast.home.place import check_name
from outlast.store.contract import Reading, below, every_row
from outlast.store.contract.workspace import RecordRow
from outlast.values.tokens import TokensOf
from outlast.workspace import why as evidence
from outlast.workspace.link import RELATIONS, into, out_of
from outlast.workspace.recall.pack import ContextPack, Ranked, fill
from outlast.workspace.recall.rank import DocumentSignals, Match, ranked
from outlast.workspace.recall.rank import ScoredDocument as Placed
from outlast.workspace.recall.search import KINDS, Doc, Row, SearchResult, document_of, ref_of, row_of, search
from outlast.workspace.recall.words import Query, Span, query_of
from outlast.workspace.record import Record, record_of
from outlast.workspace.refs import RECORD

if TYPE_CHECKING:
    from outlast.home.home import Home

FOUND, FEWEST = 120, 40  # documents that are read and ranked, at most and at least
ENTRY = 24  # tokens of a short entry: no more are looked for than could fit
NEWEST = 40  # documents to which being recent is worth something
ROOTS = 10  # newest decisions, beside pinned records, from which links are followed
FOLLOWED = 60  # refs whose links are looked at
DISTANCE = 2
PAGE = 200
MUST = "must"  # the kind of an entry that the task's handoff asks for

Named = tuple[str, int]
Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class RecallQuery(NamedTuple):
    """What is to be recalled, checked."""

    goal: str
    scope: str
    budget: int
    kinds: tuple[str, ...] | None = None
    task: str | None = None
    limit: int | None = None


class Must(NamedTuple):
    """What the open handoff of a task asks for: it is recalled whatever the goal."""

    ref: str
    text: str
    at: datetime
    actor: str


def wanted(goal: Any, scope: str, budget: int, kinds: Any, task: str | None, limit: int | None) -> RecallQuery:
    """Raises ValueRefused for what cannot be asked so."""
    if not isinstance(goal, str):
        raise ValueRefused("goal", f"{type(goal).__qualname__} is no text", "say in words what is to be done")
    if budget < 1:
        raise ValueRefused("budget", f"{budget} is no budget", "give the number of tokens, 1 or more")
    if kinds is not None and not isinstance(kinds, Iterable):
        raise ValueRefused("kinds", f"{type(kinds).__qualname__} is no list", 'give a list: kinds=["decision"]')
    chosen = None if kinds is None else tuple(dict.fromkeys((kinds,) if isinstance(kinds, str) else kinds))
    for place, kind in enumerate(chosen or ()):
        if kind not in KINDS:
            raise ValueRefused(f"kinds[{place}]", f"{kind!r:.100} is none", f"use some of {', '.join(KINDS)}")
    return RecallQuery(goal, scope, budget, chosen, check_name("task", task) if task is not None else None, limit)


def recall(
    home: Home,
    asked: RecallQuery,
    musts: Sequence[Must] = (),
    tokens_of: TokensOf | None = None,
    embed: Embed | None = None,
) -> ContextPack:
    """What matters for the goal, never over the budget; the musts always. Raises BudgetTooSmall, ValueRefused."""
    query, hard = query_of(asked.goal), [*_asked_for(asked, musts), *_pinned(home, asked)]
    # what is there anyway must crowd nothing out; the index looks at a third as many passages, each with its neighbours
    limit = min(max(asked.budget // ENTRY, FEWEST), FOUND) + 3 * len(hard)
    found = search(home, asked.scope, query, asked.kinds, limit)
    if not found.matches:
        found = found._replace(matches=_of_named_kinds(home, asked, query))
    seen, docs, signals = _known(home, asked, found, anything=embed is not None)
    own = {one.ref for one in hard}
    rest = {name: doc for name, doc in docs.items() if doc.ref not in own}
    order = ranked(found.matches, signals, _nearest(asked.goal, rest, embed) if embed else None)
    chosen = [
        _ranked(rest[one.family, one.key], one, signals[one.family, one.key].standing, query)
        for one in order
        if (one.family, one.key) in rest
    ]
    considered = max(found.documents + len(musts), len(hard) + len(chosen))  # the index does not know the musts
    known = {*own, *(one.ref for one in chosen)}
    others = [ref for ref in seen.newest if ref not in known]
    return fill(asked.goal, asked.scope, asked.budget, [*hard, *chosen], considered, tokens_of, asked.limit, others)


def _of_named_kinds(home: Home, asked: RecallQuery, query: Query) -> list[Match]:
    """Where no word matches: what is of a kind that the goal names, the newest first."""
    kinds = tuple(kind for kind in query.kinds if asked.kinds is None or kind in asked.kinds)
    rows = home.store.read(lambda look: _newest(look, asked._replace(kinds=kinds))) if kinds else {}
    return [
        Match(*name, 0, 0, 0, kind, 1.0, (f"of the kind {kind}",))
        for name, row in rows.items()
        for kind in (row.kind if isinstance(row, RecordRow) else name[0],)
    ]


# -- what is known beyond the words ------------------------------------------------------------------


class _LedgerView(NamedTuple):
    """What the ledger says at one moment of what may be recalled."""

    rows: dict[Named, Row]
    newest: list[str]  # refs of the newest ones
    recent: dict[Named, int]  # how many are newer
    near: dict[str, tuple[str, int]]  # by ref: the decision that it is linked to, and how far


def _known(
    home: Home, asked: RecallQuery, found: SearchResult, *, anything: bool
) -> tuple[_LedgerView, dict[Named, Doc], dict[Named, DocumentSignals]]:
    """Every document that may be recalled, and what is known of it."""
    seen = home.store.read(lambda look: _seen(look, asked, found, anything))
    spans = {(match.family, match.key): Span(match.start, match.end) for match in found.matches}
    docs = {name: document_of(home, row, spans.get(name)) for name, row in seen.rows.items()}
    states = home.store.read(lambda look: standings(look, [doc.ref for doc in docs.values()]))
    signals = {name: _signals(doc, states, seen, name) for name, doc in docs.items()}
    return seen, docs, signals


def _seen(look: Reading, asked: RecallQuery, found: SearchResult, anything: bool) -> _LedgerView:
    """What matches, and what decisions rest on beside it; nothing where nothing does, unless vectors are to choose."""
    newest = _newest(look, asked)
    near = _linked(look, asked.scope) if found.matches else {}
    names = [(match.family, match.key) for match in found.matches] or (list(newest) if anything else [])
    rows = {name: row for name in names if (row := row_of(look, *name)) is not None}
    for ref, (_, distance) in near.items():
        rows |= dict(_record(look, ref, asked)) if distance == 1 else {}
    refs = [ref_of(row) for row in newest.values()]
    return _LedgerView(rows, refs, {name: place for place, name in enumerate(newest)}, near)


def _signals(doc: Doc, states: Mapping[str, str], seen: _LedgerView, name: Named) -> DocumentSignals:
    linked, distance = seen.near.get(doc.ref, ("", 0))
    standing = states.get(doc.ref, "stands")
    return DocumentSignals(doc.document.kind, False, standing, seen.recent.get(name), linked, distance)


def standings(look: Reading, refs: Sequence[str]) -> dict[str, str]:
    """How each of the refs stands that any link is about; the others stand."""
    return {ref: found.state for ref, found in evidence.standings(look, look.linked_among(refs)).items()}


def _newest(look: Reading, asked: RecallQuery) -> dict[Named, Row]:
    """The newest records of the kinds asked for, and after them the newest artifacts and checkpoints."""
    found: dict[Named, Row] = {("record", row.key): row for row in _newest_records(look, asked)}
    if asked.kinds is None or "artifact" in asked.kinds:
        found |= {("artifact", row.key): row for row in look.artifacts_of_scope(asked.scope, 0, ROOTS)}
    if asked.kinds is not None and "checkpoint" in asked.kinds:
        found |= {("checkpoint", row.key): row for row in look.checkpoints_of_scope(asked.scope, 0, ROOTS)}
    return found


def _newest_records(look: Reading, asked: RecallQuery) -> list[RecordRow]:
    if asked.kinds is None:
        return look.records_of_scope(asked.scope, 0, NEWEST)
    rows = [row for kind in asked.kinds for row in look.records_of_kind(asked.scope, kind, 0, NEWEST)]
    return sorted(rows, key=lambda row: -row.key)[:NEWEST]


def _record(look: Reading, ref: str, asked: RecallQuery) -> Iterator[tuple[Named, Row]]:
    """The record that a ref names, if it may be recalled here."""
    found = look.records_by_prefix(ref.removeprefix(RECORD)) if ref.startswith(RECORD) else []
    for row in found:
        if row.scope == asked.scope and not row.pending and (asked.kinds is None or row.kind in asked.kinds):
            yield ("record", row.key), row


def _linked(look: Reading, scope: str) -> dict[str, tuple[str, int]]:
    """Refs near a pinned or recent decision: that one, and how many links away it is."""
    roots = [*look.pinned_records(scope, 0, ROOTS), *look.records_of_kind(scope, "decision", 0, ROOTS)]
    known = look.linked_among([f"{RECORD}{row.id}" for row in roots])
    edge = {ref: ref for ref in sorted(known)}
    near: dict[str, tuple[str, int]] = {ref: (ref, 0) for ref in edge}
    for distance in range(1, DISTANCE + 1):
        further = {
            other: root
            for ref, root in islice(edge.items(), FOLLOWED)
            for other in _beside(look, ref)
            if other not in near
        }
        near |= {ref: (root, distance) for ref, root in further.items()}
        edge = further
    return {ref: found for ref, found in near.items() if found[1]}


def _beside(look: Reading, ref: str) -> Iterator[str]:
    both = islice(chain(out_of(look, ref, RELATIONS), into(look, ref, RELATIONS)), FOLLOWED)
    return (row.target if row.source == ref else row.source for row in both)


def _nearest(goal: str, docs: Mapping[Named, Doc], embed: Embed) -> dict[Named, int]:
    """The order of the documents by how near their vectors are to the goal's. Raises ValueRefused."""
    names = sorted(docs)
    vectors = _vectors(embed([goal, *(docs[name].document.text for name in names)]))
    if len(vectors) != len(names) + 1 or len({len(vector) for vector in vectors}) > 1:
        why = f"it gave {len(vectors)} vectors for {len(names) + 1} texts, or of several lengths"
        raise ValueRefused("embed", why, "let it give one vector for each text, all of one length")
    near = {name: _cosine(vectors[0], vector) for name, vector in zip(names, vectors[1:], strict=True)}
    return {name: rank for rank, name in enumerate(sorted(names, key=lambda name: (-near[name], name)))}


def _vectors(given: Sequence[Sequence[float]]) -> list[list[float]]:
    try:
        vectors = [[float(x) for x in vector] for vector in given]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueRefused("embed", f"it gave no vectors: {error}", "let it give a list of numbers each") from error
    if not all(isfinite(x) for vector in vectors for x in vector):
        raise ValueRefused("embed", "it gave a number that is not finite", "let it give finite numbers")
    return vectors


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    norm = sum(x * x for x in a) * sum(x * x for x in b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm**0.5 if norm else 0.0


# -- the pack ----------------------------------------------------------------------------------------


def _ranked(doc: Doc, one: Placed, standing: str, query: Query) -> Ranked:
    document, near = doc.document, one.match
    return Ranked(
        ref=doc.ref,
        kind=document.kind,
        text=document.text,
        at=document.at or moment(0),
        score=round(one.score, 6),
        actor=document.actor,
        standing=standing,
        why=(*one.why, doc.lacks) if doc.lacks else one.why,
        words=query.terms,
        near=Span(near.start - doc.skips, near.end - doc.skips) if near else None,
        part=bool(doc.lacks),
    )


def _asked_for(asked: RecallQuery, musts: Sequence[Must]) -> Iterator[Ranked]:
    why = (f"must of task {asked.task}",)
    return (Ranked(one.ref, MUST, one.text, one.at, 1.0, one.actor, why=why, hard=True) for one in musts)


def _pinned(home: Home, asked: RecallQuery) -> list[Ranked]:
    """The pinned records of the scope, the oldest first."""

    def look_at(look: Reading) -> tuple[list[RecordRow], dict[str, str]]:
        pinned = every_row(lambda before: look.pinned_records(asked.scope, before, PAGE), lambda row: below(row.key))
        rows = [*pinned]
        return rows, standings(look, [f"{RECORD}{row.id}" for row in rows])

    rows, states = home.store.read(look_at)
    return [_of_pin(record_of(row), states) for row in reversed(rows)]


def _of_pin(record: Record, states: Mapping[str, str]) -> Ranked:
    return Ranked(
        ref=record.ref,
        kind=record.kind,
        text=record.text,
        at=record.at,
        score=1.0,
        actor=record.source.actor,
        standing=states.get(record.ref, "stands"),
        why=("pinned",),
        hard=True,
    )
