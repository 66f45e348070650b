"""Row 8: recall. How much of what a question needs comes back, without any model, and how long that takes."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from statistics import median

import postgres
import tokens
from conversations import DATA, PACK_TOKENS, Ask, Conversation, bm25, conversations, quality, substring
from plan import Plan
from report import Goal, Row, table

from outlast import Outlast
from outlast.home.place import FoundHome
from outlast.workspace import record as records

OURS, ON_POSTGRES = "outlast", "outlast, its home in PostgreSQL"
CHUNK = 1_000
BUDGET = 4_000  # tokens: more than is looked at
FIRST = 100_000  # records before the first recall
ASKED = 100  # goals for one figure of time
VOCABULARY = 30_000
SYLLABLES = ["ba", "re", "to", "ki", "lo", "mu", "ne", "sa", "vi", "do", "pa", "ge"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def recall(plan: Plan) -> Row:
    """What is found in conversations, beside what substring and bm25 find; and the time at several sizes."""
    columns = ["one conversation at a time", "recall@5", "recall@10", "nDCG@10", f"all within {PACK_TOKENS:,} tokens"]
    row = Row(8, "Recall", columns)
    with (
        tempfile.TemporaryDirectory(prefix="recall-", dir=plan.scratch) as folder,
        postgres.a_server() as server,
    ):
        found = _quality(row, Path(folder), server)
        times = {size: _times(Path(folder), size) for size in plan.recalls}
        first = _first(Path(folder), max(size for size in (*plan.recalls, FIRST) if size <= FIRST))
    lines = [[f"{size:,}", *(f"{value:.1f} ms" for value in spent)] for size, spent in times.items()]
    row.notes.append(table(["records in the scope", "p50", "p95", "CPU p50"], lines))
    row.notes.append(
        "Times are of `outlast.workspace.recall` with its budget of 2,000 tokens, over made-up records of 30 words."
    )
    row.notes.append(
        f"The first recall of a process after {first[0]:,} records, by `record_many`: {first[1] * 1e3:.0f} ms."
    )
    if lines := tokens.measured():
        row.notes.append(table(["text", "tokens (cl100k_base)", "our estimate", "characters / 4"], lines))
    row.goals += [Goal("first recall after 100,000 records", 1.0, True, first[1], lambda value: f"{value:.2f} s")]
    row.goals += [
        *_found_goals(found),
        *(_time_goal(size, spent[0]) for size, spent in times.items() if size == 20_000),
    ]
    return row


def _quality(row: Row, folder: Path, server: postgres.Server) -> list[float] | None:
    """A line for each way of finding; those of ours, None when the conversations are not there."""

    def there(number: int) -> FoundHome:
        return FoundHome(folder / f"there-{number}", database=server.new_database(f"talk_{number}"))

    talks = conversations()
    if not talks:
        row.failed["quality"] = f"no conversations in {DATA}; see OUTLAST_BENCH_DATA"
        return None
    ways: dict[str, Callable[[int, Conversation], Ask]] = {
        "substring, newest first": substring,
        "bm25, all words": bm25(talks, "unicode61", all_words=True),
        "bm25, porter, function words dropped": bm25(talks, "porter unicode61", all_words=False),
        OURS: lambda number, talk: _asking(folder / f"talk-{number}", talk),
        ON_POSTGRES: lambda number, talk: _asking(there(number), talk),
    }
    figures = {name: quality(talks, asking) for name, asking in ways.items()}
    row.lines = [[name, *(f"{value:.3f}" for value in of)] for name, of in figures.items()]
    asked = sum(len(talk.questions) for talk in talks)
    row.notes.append(f"{asked} questions on {len(talks)} conversations (LoCoMo), each with the turns that answer it.")
    row.goals.append(_difference_goal(figures[OURS], figures[ON_POSTGRES]))
    return figures[OURS]


def _asking(home: Path | FoundHome, talk: Conversation) -> Ask:
    """Records as a user would keep them, recalled as a user would."""
    outlast = Outlast(home)
    said = [
        records.RecordFields("observation", turn.text, at=turn.at, source=turn.session, redact=True)
        for turn in talk.turns
    ]
    places = {ref: place for place, ref in enumerate(_keep(outlast, said, [turn.speaker for turn in talk.turns]))}
    return lambda goal: [places[entry.ref] for entry in outlast.workspace.recall(goal, BUDGET).entries]


def _keep(outlast: Outlast, said: Sequence[records.RecordFields], actors: Sequence[str]) -> Iterator[str]:
    """Many records at once: one transaction for each thousand."""
    home = outlast._executor.home
    drafts = [records.draft(home, "default", one, actor) for one, actor in zip(said, actors, strict=True)]
    for first in range(0, len(drafts), CHUNK):
        some = drafts[first : first + CHUNK]
        rows = home.store.write(lambda tx, some=some: [records.add(home, tx, one) for one in some])
        yield from (f"record:{row.id}" for row in rows)


def _times(folder: Path, size: int) -> tuple[float, float, float]:
    """p50, p95 and the CPU's p50, in milliseconds, over goals of six words that a record has."""
    chance, outlast = random.Random(7), Outlast(folder / f"many-{size}")
    words = [_word(number) for number in range(VOCABULARY)]
    weights = list(accumulate(1 / (number + 2.7) for number in range(VOCABULARY)))
    texts = [chance.choices(words, cum_weights=weights, k=30) for _ in range(size)]
    said = [
        records.RecordFields("note", " ".join(text), at=_at(key), source=f"run {key // 40}")
        for key, text in enumerate(texts)
    ]
    for _ in _keep(outlast, said, [f"actor {key % 7}" for key in range(size)]):
        pass
    outlast.workspace.recall("anything", BUDGET)  # the index is made
    spent, cpu = [], []
    for _ in range(ASKED):
        goal = "What about " + " ".join(chance.sample(chance.choice(texts), 6))
        began, before = time.perf_counter(), time.process_time()
        outlast.workspace.recall(goal)
        spent.append((time.perf_counter() - began) * 1e3)
        cpu.append((time.process_time() - before) * 1e3)
    outlast.close()
    return median(spent), sorted(spent)[int(ASKED * 0.95)], median(cpu)


def _first(folder: Path, size: int) -> tuple[int, float]:
    """How many were recorded, and the seconds that the first recall of another opening takes then."""
    chance, home = random.Random(7), folder / f"first-{size}"
    words = [_word(number) for number in range(VOCABULARY)]
    with Outlast(home) as outlast:
        for first in range(0, size, CHUNK):
            texts = (" ".join(chance.choices(words, k=30)) for _ in range(CHUNK))
            said = [{"kind": "note", "text": text, "source": f"run {first // 40}"} for text in texts]
            outlast.workspace.record_many(said)
    with Outlast(home) as outlast:
        began = time.perf_counter()
        outlast.workspace.recall(f"What about {words[7]} and {words[700]}?")
        return size, time.perf_counter() - began


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
        Goal("recall@10 without a model", 0.79, False, recall_at_10, _share),
        Goal("nDCG@10 without a model", 0.66, False, gain_at_10, _share),
    ]


def _difference_goal(of_file: Sequence[float], of_server: Sequence[float]) -> Goal:
    """By how much a figure of a home in PostgreSQL is below that of one in a file, at most."""
    lower = max(one - other for one, other in zip(of_file, of_server, strict=True))
    return Goal("quality of recall on PostgreSQL, below SQLite's", 0.02, True, lower, _share)


def _time_goal(size: int, spent: float) -> Goal:
    return Goal(f"recall, p50, {size:,} records", 10.0, True, spent, lambda value: f"{value:.1f} ms")


def _share(value: float) -> str:
    return f"{value:.3f}"
