"""Of every short sequence of words the rules of evidence say what the code says: `came_of` beside `counted`."""

from itertools import product

import pytest

from outlast.handoffs.evidence import counted
from outlast.handoffs.handoff import Evidence as Word

from ..handoffs.test_counting import word
from .evidence import Content, Evidence, came_of

CONTENTS: dict[str | None, Content | None] = {"": None, None: None, "A": Content((), 1, ()), "B": Content((), 2, ())}
WORDS = [f"{kind}{sign}{content}" for kind, sign, content in product("rs", "+-", ["", "A", "B"])]
SAME = {"said and denied": "contradicted", "failed before": "failed_before"}


def by_the_rules(words: list[Word], content: str | None) -> tuple[str, bool | None]:
    said = [
        Evidence("make", each.passed, each.runner != "self", CONTENTS[each.content], each.when == "store")
        for each in words
    ]
    came, at = came_of(said, CONTENTS[content])
    return SAME.get(came, came), None if came == "unrun" else words[at].passed


@pytest.mark.parametrize("at_store", [(), (".r+A",), (".r-A",)])
@pytest.mark.parametrize("content", ["A", "B", None])
def test_every_short_sequence_of_words_counts_as_the_rules_say(at_store: tuple[str, ...], content: str | None) -> None:
    for length in range(4):
        for each in product(WORDS, repeat=length):
            words = [word(short) for short in (*at_store, *each)]
            counts = counted(words, content)
            got = counts.came, counts.word.passed if counts.word else None
            assert got == by_the_rules(words, content), ((*at_store, *each), content)
