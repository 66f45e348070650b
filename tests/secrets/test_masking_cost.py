"""What masking costs grows with what is masked, however many secrets are in it and wherever they stand."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from outlast.secrets.find import RULES, find, mask, masked
from outlast.secrets.stream import Masking

from ..kit.cost import cpu, growth


def keys(number: int) -> dict[str, str]:
    return {f"password=hunter{each}x9": "1" for each in range(number)}


MADE: dict[str, Callable[[int], Any]] = {
    "keys": keys,
    "keys of JSON": lambda number: msgspec.Raw(json.dumps(keys(number)).encode()),
    "values": lambda number: {f"password{each}": "hunter2-x9" for each in range(number)},
    "one text": lambda number: "password=hunter2-x9\n" * number,
    "tokens in one word": lambda number: ("sntrys" + "_a1b2c3d4+") * 4 * number,
    "coloured": lambda number: "\x1b[1mpassword\x1b[0m=\x1b[31mhunter2-x9\x1b[0m\n" * number,
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_four_times_as_much_costs_four_times_as_much(make: Callable[[int], Any]) -> None:
    small, large = make(500), make(2000)
    assert growth(lambda: masked(small, "v"), lambda: masked(large, "v")) <= 8


def test_masked_keys_keep_names_of_their_own() -> None:
    value = {"password=hunter2-x9": 1, "password=hunter3-x9": 2, "password=*** (2)": 3}
    assert masked(value, "v")[0] == {"password=***": 1, "password=*** (3)": 2, "password=*** (2)": 3}


def test_a_text_that_is_masked_is_not_masked_again() -> None:
    text = mask(MADE["coloured"](3))
    assert mask(text) == text


LOG = "2026-11-16T21:04:39.000123Z INFO worker-3 wrote /var/lib/app/file_77.json in 0.3 s, path=/api status=ok\n"


def test_much_plain_output_costs_a_fraction_of_reading_it_by_every_rule() -> None:
    data = (LOG * 20_000).encode()

    stream = Masking(RULES)
    stream.feed(data)  # the sieve is made once
    quick = min(cpu(lambda: stream.feed(data)) for _ in range(5))
    assert quick * 3 < min(cpu(lambda: [*find(data.decode(), RULES)]) for _ in range(2))
