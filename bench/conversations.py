"""Conversations with questions about them, for measuring recall: where they are, what was said, how well it was found.

They are not part of the project: see `../shared/data/README.md` beside the repository, or OUTLAST_BENCH_DATA.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

import apsw

from outlast.values.tokens import tokens_about as tokens_of
from outlast.workspace.recall.words import FUNCTION_WORDS

DATA = Path(os.environ.get("OUTLAST_BENCH_DATA") or Path(__file__).parents[2] / "shared" / "data")
PACK_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said."""

    id: str
    session: str
    at: datetime
    speaker: str
    text: str

    @property
    def tokens(self) -> int:
        return tokens_of(f"{self.speaker}: {self.text}")


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    turns: list[Turn]
    questions: list[Question]


Ask = Callable[[str], Sequence[int]]  # a question -> places of turns, best first


def conversations() -> list[Conversation]:
    """All of them; none where the data is not there."""
    folder = DATA / "locomo"
    if not folder.is_dir():
        return []
    found: dict[str, Conversation] = {}
    for line in _lines(folder / "records.jsonl"):
        turn = Turn(line["id"], str(line["session"]), _moment(line["at"]), line["speaker"], line["text"])
        found.setdefault(line["conversation"], Conversation([], [])).turns.append(turn)
    for line in _lines(folder / "questions.jsonl"):
        found[line["conversation"]].questions.append(Question(line["question"], frozenset(line["evidence"])))
    return list(found.values())


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open() as lines:
        yield from map(json.loads, lines)


def _moment(said: str) -> datetime:
    return datetime.strptime(said.upper(), "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC)


def quality(found: list[Conversation], asking: Callable[[int, Conversation], Ask]) -> list[float]:
    """recall@5, recall@10, nDCG@10, and how often all of the evidence is in a pack; means over the questions."""
    scores = []
    for number, conversation in enumerate(found):
        ask = asking(number, conversation)
        scores += [_scores(conversation, question, ask(question.text)) for question in conversation.questions]
    return [mean(column) for column in zip(*scores, strict=True)]


def _scores(conversation: Conversation, question: Question, places: Sequence[int]) -> tuple[float, ...]:
    turns = [conversation.turns[place] for place in places]
    hits = [turn.id in question.evidence for turn in turns[:10]]
    best = sum(_gain(rank) for rank in range(min(10, len(question.evidence))))
    recalls = [sum(hits[:cut]) / len(question.evidence) for cut in (5, 10)]
    return *recalls, sum(_gain(rank) for rank, hit in enumerate(hits) if hit) / best, _in_pack(turns, question)


def _gain(rank: int) -> float:
    return 1 / math.log2(rank + 2)


def _in_pack(turns: Sequence[Turn], question: Question) -> float:
    """1 when all of the evidence is among what fits, taken best first."""
    left, taken = PACK_TOKENS, set()
    for turn in turns:
        if turn.tokens <= left:
            left -= turn.tokens
            taken.add(turn.id)
    return float(question.evidence <= taken)


# What others do


def substring(number: int, conversation: Conversation) -> Ask:
    """Any telling word of the question anywhere in the text, the newest first."""
    texts = [turn.text.lower() for turn in conversation.turns]

    def ask(question: str) -> list[int]:
        words = [word for word in re.findall(r"\w+", question.lower()) if word not in FUNCTION_WORDS]
        return [place for place in reversed(range(len(texts))) if any(word in texts[place] for word in words)]

    return ask


def bm25(found: list[Conversation], tokenizer: str, *, all_words: bool) -> Callable[[int, Conversation], Ask]:
    """FTS5's own ranking over speaker and text, in one index of everything, as it comes."""
    index = apsw.Connection(":memory:")
    index.execute(f"CREATE VIRTUAL TABLE turns USING fts5(speaker, said, of UNINDEXED, tokenize='{tokenizer}')")
    bounds = [0]
    for number, conversation in enumerate(found):
        rows = [(turn.speaker, turn.text, number) for turn in conversation.turns]
        index.executemany("INSERT INTO turns VALUES (?, ?, ?)", rows)
        bounds.append(bounds[-1] + len(rows))

    def asking(number: int, conversation: Conversation) -> Ask:
        def ask(question: str) -> list[int]:
            words = re.findall(r"\w+", question.lower())
            told = words if all_words else [word for word in words if word not in FUNCTION_WORDS] or words
            match = " OR ".join(f'"{word}"' for word in told)
            rows = index.execute(
                "SELECT rowid FROM turns WHERE turns MATCH ? AND of = ? ORDER BY rank", (match, number)
            )
            return [row - 1 - bounds[number] for (row,) in rows]

        return ask

    return asking
