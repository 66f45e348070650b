"""What a text costs to store, lint, mask and hand on grows with its length, whatever is in it."""

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import HandoffNotFound
from outlast.handoffs.wording import commands_in, last_order, only_past, paths_in, sentences_of
from outlast.operations.reading import prompt

from ..kit.cost import cpu, growth

PIECES = (
    "a",
    "fixed it. ",
    "a/b.py ",
    "- [ ] do it\n",
    "`a ",
    "```\n",
    " ",
    "\n",
    "next: ",
    "1.",
    "no more ",
    "so a ",
    "will now ",
)
SMALL = 8_000


def grows(reading: Callable[[str], Any], piece: str) -> float:
    """How much more CPU four times the text takes."""
    small, large = ((piece * (size // len(piece) + 1))[:size] for size in (SMALL, 4 * SMALL))
    return growth(lambda: reading(small), lambda: reading(large))


@pytest.mark.parametrize("piece", PIECES)
def test_reading_a_text_for_its_tense_paths_and_commands(piece: str) -> None:
    readings = (only_past, sentences_of, paths_in, commands_in, last_order)
    assert [reading.__name__ for reading in readings if grows(reading, piece) > 8] == []


@pytest.mark.parametrize("piece", ["fixed it. ", "a/b.py ", "```\n", "password=hunter2-x9 "])
def test_storing_it_masked_and_recovering_it_as_a_prompt(tmp_path: Path, piece: str) -> None:
    names = count()
    with Outlast(tmp_path / ".outlast") as outlast:

        def carried(text: str) -> None:
            anchor = f"task:carry-{next(names)}-on"
            outlast.handoff.store(anchor, summary="half done", handoff_text=text, next_action="go on", redact=True)
            prompt(outlast.handoff.recover(anchor), 2000)

        assert grows(carried, piece) <= 8


def test_asking_for_a_name_that_is_like_many_others(tmp_path: Path) -> None:
    def cost(length: int) -> float:
        draw = random.Random(length)
        names = ["".join(draw.choices("abc", k=length)) for _ in range(60)]
        with Outlast(tmp_path / str(length)) as outlast:
            for name in names:
                outlast.handoff.store(name, summary="half done", handoff_text="x", next_action="go on")
            return min(cpu(lambda name=name: _missing(outlast, name[::-1])) for name in names[:5])  # type: ignore[misc]

    assert cost(192) / max(cost(48), 0.000_5) < 8


def _missing(outlast: Outlast, name: str) -> None:
    with pytest.raises(HandoffNotFound):
        outlast.handoff.recover(name)
