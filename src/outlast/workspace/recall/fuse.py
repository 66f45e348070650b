"""Fusing: the words' ranking, and what else speaks for or against a document, become one order.

Pure. What matches comes before what does not; the rest shifts neighbours in the order, it does not overturn it. What is
contested or superseded is pushed down, never hidden: whoever reads it must see that it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.rank import Match

RECENT, FADES = 0.05, 20.0  # the newest document's gain, and after how many newer ones half of it is left
PINNED = 0.25
LINKED = 0.15  # directly linked to a pinned or recent decision; half of it for each further link
KINDS = {"decision": 0.1, "evidence": 0.05}
STANDING = {"stands": 1.0, "contested": 0.6, "superseded": 0.4}
UNMATCHED = 0.01  # what a document starts from that no word speaks for
RECIPROCAL = 60.0  # the constant of reciprocal rank fusion
SAID_RECENT = 10  # documents that are called recent

Named = tuple[str, int]  # a document: its family and key


class Signals(NamedTuple):
    """What is known of a document beyond its text."""

    kind: str = ""
    pinned: bool = False
    standing: str = "stands"
    newer: int | None = None  # documents of the scope that are newer: 0 is the newest
    linked: str = ""  # the nearest pinned or recent decision that it is linked to
    distance: int = 0  # links to it, 1 is directly, 0 is none


class Ranked(NamedTuple):
    """A document's place in the order: the score, what it is made of, and the passage that matched, if one did."""

    family: str
    key: int
    kind: str
    score: float
    why: tuple[str, ...]
    match: Match | None


_NOTHING = Signals()


def ranked(
    matches: Iterable[Match],
    signals: Mapping[Named, Signals],
    embedding_ranks: Mapping[Named, int] | None = None,
) -> list[Ranked]:
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


def _ranked(name: Named, match: Match | None, base: float, known: Signals, nearest: int | None) -> Ranked:
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
    return Ranked(*name, kind, score, tuple(why), match)
