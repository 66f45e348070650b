"""Documents into the index of recall, and out of it what a goal asks for: which words count, what is looked at.

The index keeps and finds passages (`store/contract/workspace.py`); what counts how much is `rank.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from outlast.store.contract.workspace import FoundPassage, IndexedDocument, IndexedPassage, RecallIndex
from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.rank import BACK, ON, Match, PlacedPassage, Statistics, matches, names_actor, shared_words
from outlast.workspace.recall.words import (
    ALIKE,
    FORMS,
    FUNCTION_WORDS,
    TIME_WORDS,
    Document,
    Query,
    passages_of,
    stream_of,
    voice_of,
    words_of,
)

CLOSELY = 50  # passages found by their words that are looked at closely at least, each with its neighbours
BEST = 10  # matches whose words are looked at for more of what the goal may mean
COMMON = 0.1  # a word that more passages have than this share tells nothing of them
ENTRIES = 2_000  # entries of the index that are read for that: the rarest words come first, the first one always whole
EVERYBODY = 0.9  # an actor who said more than this much of the scope is named by no goal: it would say nothing
KEPT_STEMS = 100_000
MAX_DAYS = 4  # dates of a goal that are looked up on their own

_YEAR = re.compile(r"\b[12]\d{3}\b")
_groups: dict[str, list[list[str]]] = {}
_stems: dict[str, str] = {}  # of this process: the same words come again and again


class SearchResult(NamedTuple):
    """What a search gives: the best passage of each document, best first."""

    matches: list[Match]
    considered: int  # documents looked at closely
    documents: int  # documents in the index
    unknown: tuple[str, ...]  # words of the goal that no document has


# -- in ----------------------------------------------------------------------------------------------


def add(index: RecallIndex, family: str, documents: Iterable[Document], upto: int, waiting: Iterable[int] = ()) -> int:
    """Take documents in and set the mark of their family; how many of them were new. See `RecallIndex.add`."""
    return index.add(family, (_indexed(index, document) for document in documents), upto, waiting)


def _indexed(index: RecallIndex, document: Document) -> IndexedDocument:
    voice, day = voice_of(document), document.at.toordinal() if document.at else None
    kept = _passages(index, document)  # made when it is taken in: nothing is cut that is there already
    return IndexedDocument(
        document.family, document.key, document.kind, stream_of(document), voice, _name_words(voice), day, kept
    )


def _passages(index: RecallIndex, document: Document) -> Iterator[IndexedPassage]:
    for passage in passages_of(document):
        terms = [stem(index, word) for word in passage.words]
        yield IndexedPassage(passage.piece, passage.start, passage.end, terms, passage.asks)


def _name_words(name: str) -> list[str]:
    """The words by which an actor may be named."""
    return [word for word in words_of(name) if word not in FUNCTION_WORDS and len(word) > 1]


# -- out ---------------------------------------------------------------------------------------------


def search(index: RecallIndex, query: Query, kinds: Collection[str] | None = None, limit: int = 150) -> SearchResult:
    """The documents that the goal asks for, of these kinds or of all; the same index gives the same answer."""
    with index.one_moment():
        return _search(index, query, kinds, limit)


def _search(index: RecallIndex, query: Query, kinds: Collection[str] | None, limit: int) -> SearchResult:
    passages, words, documents = index.tally()
    stems = {word: stem(index, word) for word in query.terms}
    related = _related(index, stems)
    counted = index.frequencies([*stems.values(), *related])
    frequency = {term: counted[term] for term in (*stems.values(), *related) if term in counted}
    named = _named(index, query, passages)
    lanes = _lanes(index, query, frequency, named, kinds, max(limit // 3, CLOSELY))
    rows = index.around({number for lane in lanes for number in lane}, BACK, ON)
    times = _time_stems(index) if query.asks_when else frozenset[str]()
    placed = [_placed(row, frequency, times) for row in rows]
    statistics = Statistics(passages, words / passages if passages else 0.0, frequency)
    found = matches(query, stems, named, placed, statistics, kinds, limit, related)
    if more := _more(index, found, rows, frequency, passages):
        again = [_placed(row, (*frequency, *more), times) for row in rows]
        found = matches(query, stems, named, again, statistics, kinds, limit, related, more)
    unknown = tuple(word for word, term in stems.items() if term not in frequency)
    return SearchResult(found, len({(passage.family, passage.key) for passage in placed}), documents, unknown)


def _named(index: RecallIndex, query: Query, passages: int) -> dict[int, str]:
    """The actors that the goal names, unless nearly all is theirs."""
    return {
        voice: name
        for voice, name, said in index.voices(query.words)
        if said <= EVERYBODY * passages and names_actor(query, _name_words(name))
    }


def _lanes(
    index: RecallIndex,
    query: Query,
    frequency: dict[str, int],
    voices: Collection[int],
    kinds: Collection[str] | None,
    limit: int,
) -> Iterator[list[int]]:
    """The passages with the best words; those of whom and of when the goal names have a lane of their own."""
    if not frequency:
        return
    some = _rarest(frequency)
    yield index.best(some, limit, kinds=kinds)
    if voices:
        yield index.best(some, limit // 2, kinds=kinds, voices=voices)
    if query.kinds and kinds is None:
        yield index.best(some, limit // 2, kinds=query.kinds)
    for first, last in query.days[:MAX_DAYS]:
        yield index.best(some, limit // 2, days=(first - 1, last + 7))


def _more(
    index: RecallIndex, found: Sequence[Match], rows: Iterable[FoundPassage], known: Collection[str], passages: int
) -> dict[str, float]:
    """Telling words that the best matches share, and what each counts: what they speak of may be meant."""
    scores = {(match.family, match.key, match.piece): match.score for match in found[:BEST]}
    best = sorted(row for row in rows if (row.family, row.key, row.piece) in scores)  # in an order that every index has
    said = [(scores[row.family, row.key, row.piece], set(row.terms.split())) for row in best]
    terms = {term for _, words in said for term in words if term not in known and len(term) > 2}
    counted = index.frequencies(sorted(terms))
    telling = {term: count for term, count in counted.items() if 2 <= count <= COMMON * passages}
    return shared_words(said, telling, passages)


def _placed(row: FoundPassage, terms: Collection[str], times: frozenset[str]) -> PlacedPassage:
    words = row.terms.split()
    there = frozenset(words)
    counts = {term: words.count(term) for term in terms if term in there}  # in the goal's order: sums come out equal
    timed = bool(times) and (not times.isdisjoint(there) or bool(_YEAR.search(row.terms)))
    return PlacedPassage(*row[1:-1], timed, counts)


def _rarest(frequency: dict[str, int]) -> list[str]:
    """The rarest terms, as many as ENTRIES allows, and always one."""
    chosen: list[str] = []
    read = 0
    for term, count in sorted(frequency.items(), key=lambda one: (one[1], one[0])):
        read += count
        if chosen and read > ENTRIES:
            break
        chosen.append(term)
    return chosen


# -- words -------------------------------------------------------------------------------------------


def stem(index: RecallIndex, word: str) -> str:
    """The word without its English ending; also of forms that have none."""
    known = _stems.get(word)
    if known is None:
        if len(_stems) >= KEPT_STEMS:
            _stems.clear()
        known = _stems[word] = index.stem(FORMS.get(word, word)) if word.isascii() else word
    return known


def _related(index: RecallIndex, stems: Mapping[str, str]) -> dict[str, str]:
    """Terms for much the same as one of the goal's, each with that one; in an order that is always the same."""
    found: dict[str, str] = {}
    for own in stems.values():
        for group in _alike(index).get(own, ()):
            found |= {term: own for term in group if term not in found and term not in stems.values()}
    return found


def _alike(index: RecallIndex) -> dict[str, list[list[str]]]:
    """The terms of each group of words for much the same, by each of them."""
    if not _groups:
        made = [sorted({stem(index, word) for word in words}) for words in ALIKE]
        terms = {term for group in made for term in group}
        _groups.update({term: [group for group in made if term in group] for term in terms})
    return _groups


def _time_stems(index: RecallIndex) -> frozenset[str]:
    return frozenset(stem(index, word) for word in TIME_WORDS)
