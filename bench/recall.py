"""Row 8: recall. How much of what a question needs comes back, without any model, and how long that takes."""

import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from statistics import median

from conversations import DATA, PACK_TOKENS, Ask, Conversation, bm25, conversations, quality, substring
from plan import Plan
from report import Goal, Row, table

from holdfast.domain.passages import Document
from holdfast.domain.query_words import query_of
from holdfast.store.recall_file import with_index
from holdfast.store.recall_index import Found, RecallIndex

OURS = "holdfast"
CHUNK = 1_000
ASKED = 100  # goals for one figure of time
VOCABULARY = 30_000
SYLLABLES = ["ba", "re", "to", "ki", "lo", "mu", "ne", "sa", "vi", "do", "pa", "ge"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def recall(plan: Plan) -> Row:
    """What is found in conversations, beside what substring and bm25 find; and the time at several sizes."""
    columns = ["one conversation at a time", "recall@5", "recall@10", "nDCG@10", f"all within {PACK_TOKENS:,} tokens"]
    row = Row(8, "Recall", columns)
    with tempfile.TemporaryDirectory(prefix="recall-", dir=plan.scratch) as folder:
        found = _quality(row, Path(folder))
        times = {size: _times(Path(folder), size) for size in plan.recalls}
    lines = [[f"{size:,}", *(f"{value:.1f} ms" for value in spent)] for size, spent in times.items()]
    row.notes.append(table(["records in the scope", "p50", "p95", "CPU p50"], lines))
    row.notes.append("Times are of one recall in process, the index opened for it, over made-up records of 30 words.")
    row.goals = [*_found_goals(found), *(_time_goal(size, spent[0]) for size, spent in times.items() if size == 20_000)]
    return row


def _quality(row: Row, folder: Path) -> list[float] | None:
    """A line for each way of finding; those of ours, None when the conversations are not there."""
    talks = conversations()
    if not talks:
        row.failed["quality"] = f"no conversations in {DATA}; see HOLDFAST_BENCH_DATA"
        return None
    ways: dict[str, Callable[[int, Conversation], Ask]] = {
        "substring, newest first": substring,
        "bm25, all words": bm25(talks, "unicode61", all_words=True),
        "bm25, porter, function words dropped": bm25(talks, "porter unicode61", all_words=False),
        OURS: lambda number, talk: _asking(folder / f"talk-{number}.db", talk),
    }
    figures = {name: quality(talks, asking) for name, asking in ways.items()}
    row.lines = [[name, *(f"{value:.3f}" for value in of)] for name, of in figures.items()]
    asked = sum(len(talk.questions) for talk in talks)
    row.notes.append(f"{asked} questions on {len(talks)} conversations (LoCoMo), each with the turns that answer it.")
    return figures[OURS]


def _asking(path: Path, talk: Conversation) -> Ask:
    documents = [
        Document("record", place, "observation", turn.text, turn.speaker, turn.session, turn.at)
        for place, turn in enumerate(talk.turns, 1)
    ]
    with_index(path, lambda index: index.add("record", documents, upto=len(documents)))
    return lambda goal: [match.key - 1 for match in with_index(path, _search(goal)).matches]


def _search(goal: str) -> Callable[[RecallIndex], Found]:
    return lambda index: index.search(query_of(goal))


def _times(folder: Path, size: int) -> tuple[float, float, float]:
    """p50, p95 and the CPU's p50, in milliseconds, over goals of six words that a record has."""
    chance, path = random.Random(7), folder / f"many-{size}.db"
    words = [_word(number) for number in range(VOCABULARY)]
    weights = list(accumulate(1 / (number + 2.7) for number in range(VOCABULARY)))
    texts = [chance.choices(words, cum_weights=weights, k=30) for _ in range(size)]
    for first in range(0, size, CHUNK):
        with_index(path, lambda index, at=first: _fill(index, texts, at))
    spent, cpu = [], []
    for _ in range(ASKED):
        goal = "What about " + " ".join(chance.sample(chance.choice(texts), 6))
        began, before = time.perf_counter(), time.process_time()
        with_index(path, _search(goal))
        spent.append((time.perf_counter() - began) * 1e3)
        cpu.append((time.process_time() - before) * 1e3)
    return median(spent), sorted(spent)[int(ASKED * 0.95)], median(cpu)


def _fill(index: RecallIndex, texts: list[list[str]], first: int) -> None:
    last = min(first + CHUNK, len(texts))
    documents = (
        Document("record", key, "note", " ".join(texts[key - 1]), f"actor {key % 7}", f"run {key // 40}", _at(key))
        for key in range(first + 1, last + 1)
    )
    index.add("record", documents, upto=last)


def _at(key: int) -> datetime:
    return START + timedelta(minutes=key)


def _word(number: int) -> str:
    """A word of its own for each number, which says nothing."""
    said, rest = "", number + 144
    while rest:
        said, rest = said + SYLLABLES[rest % 12], rest // 12
    return said


def _found_goals(found: list[float] | None) -> list[Goal]:
    recall_at_10, gain_at_10 = (found[1], found[2]) if found else (None, None)
    return [
        Goal("recall@10 without a model", 0.70, False, recall_at_10, _share),
        Goal("nDCG@10 without a model", 0.55, False, gain_at_10, _share),
    ]


def _time_goal(size: int, spent: float) -> Goal:
    return Goal(f"recall, p50, {size:,} records", 10.0, True, spent, lambda value: f"{value:.1f} ms")


def _share(value: float) -> str:
    return f"{value:.3f}"
