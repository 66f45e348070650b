"""Searching the index of a scope, and keeping it near the ledger: what everybody came to see since is taken in first.

What was replaced is taken out, so an index that grew gives what one built anew from the same ledger gives. Records,
artifacts and checkpoints are documents; the same row is the same document, always. An artifact is found by its name and
summary, and by its content if that is text: by the passages of its first four mebibytes. Of each name only the newest
version is recalled.

Whoever records takes in what waits, before it is much: the first recall after any number of records has little to do.
What comes to be seen in a scope has numbers that grow over all scopes and processes: as long as fewer were given than
may wait, nothing needs to be looked at.

The index keeps and finds passages (`store/contract/workspace.py`); which words count, and what is looked at, is here;
what counts how much is `rank.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import IntegrityBroken, OutlastError, Unavailable
from outlast.store.contract import Reading
from outlast.store.contract.workspace import (
    FAMILIES,
    ArtifactRow,
    CheckpointRow,
    FoundPassage,
    IndexedDocument,
    IndexedPassage,
    RecallIndex,
    RecordRow,
)
from outlast.store.sqlite.recall import index_path, with_index
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace import artifact as artifacts
from outlast.workspace.recall.rank import BACK, ON, Match, PlacedPassage, Statistics, matches, names_actor, shared_words
from outlast.workspace.recall.words import (
    ALIKE,
    AROUND,
    FORMS,
    FUNCTION_WORDS,
    TIME_WORDS,
    Document,
    Query,
    Span,
    passages_of,
    stream_of,
    voice_of,
    words_of,
)
from outlast.workspace.refs import RECORD

if TYPE_CHECKING:
    from outlast.home.home import Home

READ_BYTES = 4 << 20  # of the content of an artifact that is searched, from its beginning
HELD = 1 << 20  # characters; of a longer text only what is near the match is held
MORE = "there is more of it"
NO_TEXT, DAMAGED = "content is no text", "content is damaged"
TOO_LONG = f"only the first {READ_BYTES >> 20} MiB of its content are searched"
KINDS = ("observation", "decision", "evidence", "note", "artifact", "checkpoint")
_TEXTS = ("application/json", "application/yaml", "application/toml", "application/xml", "application/jsonl")

Row = RecordRow | ArtifactRow | CheckpointRow


class Doc(NamedTuple):
    """A document with its ref, and what of it the document does not say."""

    ref: str
    document: Document
    lacks: str = ""
    skips: int = 0  # characters before what is held of its text


def ref_of(row: Row) -> str:
    """The ref of what a row is of."""
    match row:
        case RecordRow():
            return f"{RECORD}{row.id}"
        case ArtifactRow():
            return artifacts.ref_of(row)
        case CheckpointRow():
            return f"checkpoint:{row.id}"


def row_of(look: Reading, family: str, key: int) -> Row | None:
    """The row of a document; None if it is gone, not seen yet, or an artifact that has a newer version."""
    if family == "record":
        record = look.record_by_key(key)
        return record if record is not None and not record.pending else None
    if family == "checkpoint":
        return look.checkpoint_by_key(key)
    artifact = look.artifact_by_key(key)
    if artifact is None or artifact.pending:
        return None
    newest = look.artifact_versions(artifact.scope, artifact.name, 0, 1)
    return artifact if newest and newest[0].key == key else None


def version_before(look: Reading, key: int) -> int | None:
    """The key of the version of an artifact that one took the place of, also of what was removed since."""
    row = look.artifact_by_key(key) or look.removed_by_key(key)
    if row is None:
        return None
    seen = look.artifact_versions(row.scope, row.name, row.version, 1)
    removed = look.removed_before(row.scope, row.name, row.version)
    before = [(each.version, each.key) for each in (*seen, removed) if each is not None]
    return max(before)[1] if before else None


def size_of(row: Row) -> int:
    """About how many bytes its document has."""
    match row:
        case RecordRow():
            return len(row.text)
        case ArtifactRow():
            return min(row.size, READ_BYTES)
        case CheckpointRow():
            return len(row.summary)


def document_of(home: Home, row: Row, near: Span | None = None) -> Doc:
    """A row as recall sees it; of a very long text only what is around `near`, if that is given."""
    match row:
        case RecordRow():
            source = decode(row.source)
            stream = source.get("origin") or row.run_id or row.task
            made = Document("record", row.key, row.kind, row.text, source.get("actor", ""), stream, moment(row.at))
        case CheckpointRow():
            text = f"{row.name}: {row.summary}" if row.summary else row.name
            made = Document("checkpoint", row.key, "checkpoint", text, row.actor, row.task, moment(row.at))
        case ArtifactRow():
            found = _of_artifact(home, row)
            return found if near is None else _around(found, near)
    return Doc(ref_of(row), made)


def _of_artifact(home: Home, row: ArtifactRow) -> Doc:
    content, lacks = _content(home, row)
    said = "\n".join(filter(None, [row.name, row.summary, " ".join(decode(row.tags)), content]))
    actor = decode(row.source).get("actor", "")
    made = Document("artifact", row.key, "artifact", said, actor, "", moment(row.stored_at))
    return Doc(ref_of(row), made, lacks)


def _around(doc: Doc, near: Span) -> Doc:
    """The same, holding no more of a long text than an excerpt may come from: many may match."""
    text = doc.document.text
    if len(text) <= HELD:
        return doc
    first = max(near.start - 2 * AROUND, 0)
    held = doc.document._replace(text=text[first : near.end + 2 * AROUND])
    return doc._replace(document=held, skips=first, lacks=doc.lacks or MORE)


def _content(home: Home, row: ArtifactRow) -> tuple[str, str]:
    """The text of an artifact, and why it is not all of it. What only calls itself text has a zero byte in it."""
    kind = row.media_type.partition(";")[0]
    if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))):
        return "", NO_TEXT
    long = row.size > READ_BYTES
    try:
        content = artifacts.artifact_of(home, row).read(0, READ_BYTES if long else None)
    except (IntegrityBroken, Unavailable):
        return "", DAMAGED
    if b"\0" in content:
        return "", NO_TEXT
    text = content.decode("utf-8", "replace")
    return (text.rstrip("\ufffd"), TOO_LONG) if long else (text, "")  # a character may have been cut in two


TELLS = 5_000  # documents after which it is told how far the index is
CHUNK, CHUNK_BYTES = 500, 16 << 20  # documents taken into the index in one transaction, and about their size
WAITING = 500  # records and saves that wait at most for being taken in, but for those under way in other processes


def search(home: Home, scope: str, query: Query, kinds: Collection[str] | None, limit: int) -> SearchResult:
    """The documents of a scope that a goal asks for, of everything that everybody sees by now."""
    path = index_path(home.folder, scope)
    return with_index(path, lambda index: _search(home, index, scope, query, kinds, limit))


def _search(
    home: Home, index: RecallIndex, scope: str, query: Query, kinds: Collection[str] | None, limit: int
) -> SearchResult:
    take_in_all(home, index, scope)
    found = look_for(index, query, kinds, limit)
    if stale := home.store.read(lambda look: _stale(look, found)):  # left by two that took in at the same time
        index.remove("artifact", stale)
        found = look_for(index, query, kinds, limit)
    return found


def _stale(look: Reading, found: SearchResult) -> list[int]:
    keys = [match.key for match in found.matches if match.family == "artifact"]
    return [key for key in keys if row_of(look, "artifact", key) is None]


def take_in_all(home: Home, index: RecallIndex, scope: str) -> None:
    """Take in all that everybody came to see since. Where that is much, it tells how far it is."""
    taken = 0
    while chunk := _take_in(home, index, scope):
        taken += chunk
        if taken % TELLS == 0:
            home.tell(f"recall: the index of scope {scope!r} is made anew, {taken:,} taken in so far")
        refuse_stopped()


class _Chunk(NamedTuple):
    """Some of what everybody came to see, in that order."""

    upto: int  # the number of the last one; 0 when there was none
    size: int  # how many they are
    rows: list[Row]
    replaced: list[int]  # keys of artifacts that are not the newest of their name any more


def _take_in(home: Home, index: RecallIndex, scope: str) -> int:
    """Take in some of what everybody came to see since, and out what that replaces; how many they were.

    The mark of a family is a number in the order of that. Killed between two families, the next one begins at the
    smaller mark, and what is in the index already is skipped.
    """
    at = min(index.mark(family) for family in FAMILIES)
    chunk = home.store.read(lambda look: _chunk(look, scope, at))
    docs = [document_of(home, row).document for row in chunk.rows]
    if chunk.replaced:
        index.remove("artifact", chunk.replaced)
    for family in FAMILIES if chunk.upto else ():
        add(index, family, [one for one in docs if one.family == family], chunk.upto)
    return chunk.size


def _chunk(look: Reading, scope: str, at: int) -> _Chunk:
    upto, count, size, rows, replaced = 0, 0, 0, list[Row](), list[int]()
    for one in look.shown_of_scope(scope, at, CHUNK):
        upto, count = one.number, count + 1
        if one.noun == "artifact" and (before := version_before(look, one.row)) is not None:
            replaced.append(before)
        if one.noun in FAMILIES and (row := row_of(look, one.noun, one.row)) is not None:
            rows.append(row)
            size += size_of(row)
        if size >= CHUNK_BYTES:
            break
    return _Chunk(upto, count, rows, replaced)


def keep_up(home: Home, scope: str) -> None:
    """Take what waits into the index of a scope if that is much. What was recorded is durable, whatever this meets."""
    with suppress(OutlastError):
        given = home.store.read(lambda look: look.highest_shown())
        if given >= home.recall_due.get(scope, 0):
            home.recall_due[scope] = given + _room(home, scope)


def keep_up_all(home: Home) -> None:
    """The same for every scope that something was recorded in here."""
    for scope in list(home.recall_due):
        keep_up(home, scope)


def _room(home: Home, scope: str) -> int:
    """How many more may be recorded before this has to be looked at again."""
    path = index_path(home.folder, scope)
    if not path.exists() and (room := WAITING - _behind(home, scope, 0)) > 0:
        return room
    return with_index(path, lambda index: _kept_up(home, index, scope))


def _kept_up(home: Home, index: RecallIndex, scope: str) -> int:
    if not index.lasting:  # the folder cannot be written: a recall will do it in memory
        return WAITING
    if (room := WAITING - _behind(home, scope, min(index.mark(family) for family in FAMILIES))) > 0:
        return room
    take_in_all(home, index, scope)
    return WAITING


def _behind(home: Home, scope: str, mark: int) -> int:
    return len(home.store.read(lambda look: look.shown_of_scope(scope, mark, WAITING)))


# -- the index ---------------------------------------------------------------------------------------

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
    about = (document.family, document.key, document.kind, stream_of(document))
    return IndexedDocument(*about, voice, _name_words(voice), day, kept)


def _passages(index: RecallIndex, document: Document) -> Iterator[IndexedPassage]:
    for passage in passages_of(document):
        terms = [stem(index, word) for word in passage.words]
        yield IndexedPassage(passage.piece, passage.start, passage.end, terms, passage.asks)


def _name_words(name: str) -> list[str]:
    return [word for word in words_of(name) if word not in FUNCTION_WORDS and len(word) > 1]


# -- out ---------------------------------------------------------------------------------------------


def look_for(index: RecallIndex, query: Query, kinds: Collection[str] | None = None, limit: int = 150) -> SearchResult:
    """The documents that the goal asks for, of these kinds or of all; the same index gives the same answer."""
    with index.one_moment():
        return _looked_for(index, query, kinds, limit)


def _looked_for(index: RecallIndex, query: Query, kinds: Collection[str] | None, limit: int) -> SearchResult:
    passages, words, documents = index.tally()
    stems = {word: stem(index, word) for word in query.terms}
    related = _related(index, stems)
    counted = index.frequencies([*stems.values(), *related])
    frequency = {term: counted[term] for term in (*stems.values(), *related) if term in counted}
    named = _named(index, query, passages)
    lanes = _lanes(index, query, frequency, named, kinds, max(limit // 3, CLOSELY))
    rows = index.around({number for lane in lanes for number in lane}, BACK, ON)
    times = frozenset(stem(index, word) for word in TIME_WORDS) if query.asks_when else frozenset[str]()
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
