"""How many tokens a text is about, and whom one lets count them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import TokenizerInvalid
from outlast.values.tokens import VARIABLE, counter, tokens_about

COUNTED = [  # by cl100k_base, of which bench/recall.py tells more
    ("The quick brown fox jumps over the lazy dog and then runs back to the forest again. " * 20, 361),
    ("Hey Mel! Good to see you! How have you been?", 13),
    ("The exporter drops time zones when it writes CSV files, and nobody has noticed before March.", 18),
    ("def total(prices: list[float]) -> float:\n    return sum(price for price in prices if price > 0)\n", 25),
    ('{"kind": "decision", "text": "We patch the serializer first.", "pinned": true}', 22),
    ("2026-11-17T09:12:33.123Z INFO worker-3 finished step 111 in 41.1 ms", 29),
    ("Nous avons déjà écrit les fichiers à l'école.", 12),
    ("Мы исправим это завтра утром.", 14),
    ("导出器丢失了时区。", 10),
]


@pytest.mark.parametrize(("text", "real"), COUNTED, ids=[text[:12] for text, _ in COUNTED])
def test_the_estimate_is_near_a_real_tokenizer(text: str, real: int) -> None:
    assert 0.85 * real <= tokens_about(text) <= 1.4 * real


@given(st.lists(st.text(max_size=80)))
def test_the_estimate_adds_up_over_lines(lines: list[str]) -> None:
    lines = [line.replace("\n", " ") for line in lines]
    assert tokens_about("\n".join(lines)) == sum(map(tokens_about, lines)) + max(0, len(lines) - 1)


def test_a_counter_may_give_the_number_or_the_tokens() -> None:
    assert counter(len)("four") == 4
    assert counter(str.split)("four of them here") == 4
    assert counter(None) is tokens_about


def test_a_counter_may_be_named_by_module_and_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counter("builtins:str.split")("three of them") == 3
    monkeypatch.setenv(VARIABLE, "builtins:len")
    assert counter(None)("four") == 4


@pytest.mark.parametrize("wrong", ["len", ":len", "builtins:", "builtins:nothing", "no_such_module:len", 5])
def test_what_names_no_counter_is_refused(wrong: object) -> None:
    with pytest.raises(TokenizerInvalid) as refused:
        counter(wrong)
    assert refused.value.path == "tokens_of"


def test_a_wrong_name_in_the_environment_is_said_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "builtins:nothing")
    with pytest.raises(TokenizerInvalid) as refused:
        counter(None)
    assert refused.value.path == VARIABLE


@pytest.mark.parametrize("wrong", [-1, 1.5, "four", None, True])
def test_what_is_no_number_of_tokens_is_refused(wrong: object) -> None:
    with pytest.raises(TokenizerInvalid, match="tokens_of"):
        counter(lambda text: wrong)("text")
