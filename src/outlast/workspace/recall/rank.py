"""Ranking: from the passages that share words with a goal to the documents it asks for, each with why. Pure.

A passage counts by the words it shares with the goal, rare words more than common ones (BM25). What stands next to a
match counts too, since an answer seldom repeats the question: after a question most of all. Who is named, the day that
is named and a time where the goal asks for one raise what they fit. The weights were chosen on conversations and
checked on those left out; the optimum is flat, so they are round numbers. `bench/recall.py` measures what they find.

What else speaks for or against a document then shifts neighbours in that order, it does not overturn it. What is
contested or superseded is pushed down, never hidden: whoever reads it must see that it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date

from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.words import Query, words_of

SATURATION, LENGTH = 1.2, 0.2  # BM25's k1 and b
BEFORE = {1: 0.6, 2: 0.4}  # how much of a match passes on to the first and the second passage after it
AFTER = 0.1  # and to the one before it
ANSWERS = 1.75  # times as much when the passage just before asks
REPEATED = 0.15  # of what a word's other places nearby would give, beyond the best one
STREAM = 0.3  # for a word that the rest of the stream has
SHARED, SHARED_WORDS = 0.1, 10  # what words count that the best matches share, and how many of them are looked at
RELATED = 0.3  # what a word counts that says much the same as one of the goal
NAME = 0.25  # what a word counts as a word when it names an actor
VOICE = 1.75  # what the named actor said
SAME_DAY, DAYS = 3.0, 7.0  # of the day that is named, fading over so many days
KIND = 1.5  # of a kind that the goal names
TIMED = 1.5  # speaks of a time where the goal asks for one
BACK, ON = 1, 2  # so many passages before and after a match gain from it


class PlacedPassage(NamedTuple):
    """A passage as the index gives it: where it is, and those of the goal's words that it has."""

    family: str
    key: int
    piece: int
    start: int
    end: int
    kind: str
    stream: int
    place: int  # in its stream, without gaps
    voice: int  # who said it
    day: int | None
    length: int
    asks: bool
    timed: bool
    counts: Mapping[str, int]  # how often it has each term


class Statistics(NamedTuple):
    """What is known of all passages of the scope."""

    passages: int
    mean_length: float
    frequency: Mapping[str, int]  # passages that have the term


class Match(NamedTuple):
    """A passage that matched, or that stands next to one that did."""

    family: str
    key: int
    piece: int
    start: int
    end: int
    kind: str
    score: float  # 1.0 is the best of its search
    why: tuple[str, ...]


def matches(
    query: Query,
    stems: Mapping[str, str],
    named: Mapping[int, str],
    placed: Sequence[PlacedPassage],
    statistics: Statistics,
    kinds: Collection[str] | None = None,
    limit: int | None = None,
    related: Mapping[str, str] | None = None,
    more: Mapping[str, float] | None = None,
) -> list[Match]:
    """The best passage of each document of these kinds, best first; what gives nothing to the goal is left out.

    `stems` says by which term each word of the goal is searched; `named` are the voices that the goal names; `related`
    are terms for much the same as one of the goal's. `more` are words that the best matches share (`shared_words`), and
    change the order of what matches without them.
    """
    near, weights = related or {}, _weights(query, stems, named, statistics)
    own = weights | _near(near, weights, statistics)
    top = max(own.values(), default=0.0)
    scored = _Scored(own | {term: top * share for term, share in (more or {}).items()}, placed, statistics, set(own))
    wanted = (passage for passage in placed if kinds is None or passage.kind in kinds)
    found = ((scored.score(passage) * _fits(query, named, passage), passage) for passage in wanted)
    best = _best_of_each(one for one in found if one[0] > 0)
    top = best[0][0] if best else 1.0
    said = {stems[word]: word for word in reversed(query.terms)}  # of two words with one stem the first is shown
    return [Match(*one[:6], score / top, _why(query, said, near, named, one)) for score, one in best[:limit]]


def names_actor(query: Query, actor_words: Sequence[str]) -> bool:
    """Whether the goal names an actor: all words of the name, or one of them written as a name."""
    known = [word for word in actor_words if word in query.words]
    return bool(known) and (len(known) == len(actor_words) or any(word in query.capitals for word in known))


def _weights(
    query: Query, stems: Mapping[str, str], named: Mapping[int, str], statistics: Statistics
) -> dict[str, float]:
    """What each term counts: more the fewer passages have it, less when it only says who."""
    who = {word for actor in named.values() for word in words_of(actor)}
    weights: dict[str, float] = {}
    for word in query.terms:
        term, count = stems[word], statistics.frequency.get(stems[word], 0)
        if count:
            rarity = math.log(1 + (statistics.passages - count + 0.5) / (count + 0.5))
            weights[term] = rarity * (NAME if word in who else 1.0)
    return weights


def _near(related: Mapping[str, str], weights: Mapping[str, float], statistics: Statistics) -> dict[str, float]:
    """What terms count that say much the same: a part of what the goal's own would, and of what they are worth."""
    unknown = math.log(1 + statistics.passages / 2)  # what a word would count that no passage has
    found: dict[str, float] = {}
    for term, own in related.items():
        if count := statistics.frequency.get(term, 0):
            rarity = math.log(1 + (statistics.passages - count + 0.5) / (count + 0.5))
            found[term] = RELATED * min(weights.get(own, unknown), rarity)
    return found


def shared_words(
    said: Iterable[tuple[float, Collection[str]]], telling: Mapping[str, int], passages: int
) -> dict[str, float]:
    """The words that the best matches share most, each with its share of what the goal's best word counts.

    `said` are their scores and words, `telling` those that may be chosen, with the passages that have each.
    """
    totals: dict[str, float] = {}
    for score, words in said:
        for term in words:
            if term in telling:
                rarity = math.log(1 + (passages - telling[term] + 0.5) / (telling[term] + 0.5))
                totals[term] = totals.get(term, 0.0) + score * rarity
    best = sorted(totals.items(), key=lambda one: (-one[1], one[0]))[:SHARED_WORDS]
    return {term: SHARED * total / best[0][1] for term, total in best}


class _Scored:
    """The words' shares of each passage, its neighbours' and its stream's."""

    def __init__(
        self, weights: Mapping[str, float], placed: Sequence[PlacedPassage], statistics: Statistics, own: set[str]
    ) -> None:
        self._weights, self._mean, self._asked = weights, statistics.mean_length or 1.0, own
        matched = {(passage.stream, passage.place): passage for passage in placed if passage.counts}
        self._own = {at: self._shares(passage) for at, passage in matched.items()}
        self._asking = {at for at, passage in matched.items() if passage.asks}
        self._streams = self._best_in_streams()

    def score(self, passage: PlacedPassage) -> float:
        """What a passage's words, those around it and those of its stream come to; 0 when nothing near matches."""
        best: dict[str, float] = {}
        total = 0.0
        for shares, part in self._around(passage.stream, passage.place):
            for term, share in shares.items():
                value = share * part
                total += value
                if value > best.get(term, 0.0):
                    best[term] = value
        if self._asked.isdisjoint(best):
            return 0.0
        near = sum(best.values())
        return near + REPEATED * (total - near) + STREAM * self._streams[passage.stream] if best else 0.0

    def _around(self, stream: int, place: int) -> Iterator[tuple[Mapping[str, float], float]]:
        """The matches here and near, each with how much of it counts here."""
        own = self._own
        if (stream, place) in own:
            yield own[stream, place], 1.0
        for back, part in BEFORE.items():
            before = (stream, place - back)
            if before in own:
                yield own[before], part * (ANSWERS if back == 1 and before in self._asking else 1.0)
        if (stream, place + 1) in own:
            yield own[stream, place + 1], AFTER

    def _shares(self, passage: PlacedPassage) -> dict[str, float]:
        room = SATURATION * (1 - LENGTH + LENGTH * passage.length / self._mean)
        counts = passage.counts.items()
        return {term: self._weights[term] * count * (SATURATION + 1) / (count + room) for term, count in counts}

    def _best_in_streams(self) -> dict[int, float]:
        best: dict[int, dict[str, float]] = {}
        for (stream, _), shares in self._own.items():
            known = best.setdefault(stream, {})
            for term, share in shares.items():
                known[term] = max(known.get(term, 0.0), share)
        return {stream: sum(shares.values()) for stream, shares in best.items()}


def _fits(query: Query, named: Mapping[int, str], passage: PlacedPassage) -> float:
    """How well a passage fits what the goal asks beside its words: a factor."""
    factor = VOICE if passage.voice in named else 1.0
    if query.days and passage.day is not None:
        factor *= 1 + SAME_DAY * math.exp(-_days_off(query, passage.day) / DAYS)
    if passage.kind in query.kinds:
        factor *= KIND
    return factor * (TIMED if query.asks_when and passage.timed else 1.0)


def _days_off(query: Query, day: int) -> int:
    return min(max(first - day, day - last, 0) for first, last in query.days)


def _best_of_each(found: Iterable[tuple[float, PlacedPassage]]) -> list[tuple[float, PlacedPassage]]:
    best: dict[tuple[str, int], tuple[float, PlacedPassage]] = {}
    for score, passage in found:
        kept = best.get((passage.family, passage.key))
        if kept is None or (-score, passage.piece) < (-kept[0], kept[1].piece):
            best[passage.family, passage.key] = (score, passage)
    return sorted(best.values(), key=lambda one: (-one[0], one[1].family, one[1].key))


def _why(
    query: Query, said: Mapping[str, str], near: Mapping[str, str], named: Mapping[int, str], passage: PlacedPassage
) -> tuple[str, ...]:
    has = [f'"{word}"' for term, word in said.items() if term in passage.counts]
    like = dict.fromkeys(f'"{said[own]}"' for term, own in near.items() if term in passage.counts)
    near_it = f"is like {', '.join(like)}" if like else "next to a match"
    why = [f"matches {', '.join(reversed(has))}" if has else near_it]
    if passage.voice in named:
        why.append(f"said by {named[passage.voice]}")
    if query.days and passage.day is not None and _days_off(query, passage.day) == 0:
        day = date.fromordinal(passage.day)
        why.append(f"of {day.day} {day:%B %Y}")
    if passage.kind in query.kinds:
        why.append(f"of the kind {passage.kind}")
    return (*why, "speaks of a time") if query.asks_when and passage.timed else tuple(why)


RECENT, FADES = 0.05, 20.0  # the newest document's gain, and after how many newer ones half of it is left
PINNED = 0.25
LINKED = 0.15  # directly linked to a pinned or recent decision; half of it for each further link
KINDS = {"decision": 0.1, "evidence": 0.05}
STANDING = {"stands": 1.0, "contested": 0.6, "superseded": 0.4}
UNMATCHED = 0.01  # what a document starts from that no word speaks for
RECIPROCAL = 60.0  # the constant of reciprocal rank fusion
SAID_RECENT = 10  # documents that are called recent

Named = tuple[str, int]  # a document: its family and key


class DocumentSignals(NamedTuple):
    """What is known of a document beyond its text."""

    kind: str = ""
    pinned: bool = False
    standing: str = "stands"
    newer: int | None = None  # documents of the scope that are newer: 0 is the newest
    linked: str = ""  # the nearest pinned or recent decision that it is linked to
    distance: int = 0  # links to it, 1 is directly, 0 is none


class ScoredDocument(NamedTuple):
    """A document's place in the order: the score, what it is made of, and the passage that matched, if one did."""

    family: str
    key: int
    kind: str
    score: float
    why: tuple[str, ...]
    match: Match | None


_NOTHING = DocumentSignals()


def ranked(
    matches: Iterable[Match],
    signals: Mapping[Named, DocumentSignals],
    embedding_ranks: Mapping[Named, int] | None = None,
) -> list[ScoredDocument]:
    """Every document that matched, has signals, or was found by embeddings, best first; ties by family and key."""
    found = {(match.family, match.key): match for match in matches}
    nearest = embedding_ranks or {}
    base = _fused(found, nearest) if nearest else {name: match.score for name, match in found.items()}
    names = {**found, **dict.fromkeys(signals), **dict.fromkeys(nearest)}
    order = [
        _ranked(name, found.get(name), base.get(name, UNMATCHED), signals.get(name, _NOTHING), nearest.get(name))
        for name in names
    ]
    return sorted(order, key=lambda one: (-one.score, one.family, one.key))


def _fused(found: Mapping[Named, Match], nearest: Mapping[Named, int]) -> dict[Named, float]:
    """Reciprocal rank fusion of the words' order and that of the embeddings; 1.0 is first in both."""
    order = sorted(found, key=lambda name: (-found[name].score, name))
    base = dict.fromkeys((*order, *nearest), 0.0)
    for ranks in ({name: rank for rank, name in enumerate(order)}, nearest):
        for name, rank in ranks.items():
            base[name] += RECIPROCAL / (RECIPROCAL + rank) / 2
    return base


def _ranked(
    name: Named, match: Match | None, base: float, known: DocumentSignals, nearest: int | None
) -> ScoredDocument:
    kind = match.kind if match else known.kind
    gains = [
        (KINDS.get(kind, 0.0), kind),
        (PINNED if known.pinned else 0.0, "pinned"),
        (LINKED / 2 ** (known.distance - 1) if known.distance else 0.0, f"linked to decision {known.linked}"),
        (0.0 if known.newer is None else RECENT * 0.5 ** (known.newer / FADES), ""),
    ]
    why = [*(match.why if match else ()), *(said for gain, said in gains if gain and said)]
    why += ["recent"] if known.newer is not None and known.newer < SAID_RECENT else []
    why += [] if nearest is None else ["near in meaning"]
    why += [] if known.standing == "stands" else [known.standing]
    score = base * (1 + sum(gain for gain, _ in gains)) * STANDING.get(known.standing, 1.0)
    return ScoredDocument(*name, kind, score, tuple(why), match)
