"""The first, cheap look for secrets shows too much and never too little."""

import msgspec
import pytest

from outlast.errors import SecretFound
from outlast.secrets.find import RULES, SecretRule, by_pattern, check, masked

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"tags": ("plain", TOKEN)}, "tags[1]"),
        ({"state": {"password": "hunter2-and-9-more"}}, "state.password"),
        ({"state": {"password": 12345678}}, "state.password"),
        ({"state": {"Password": ["hunter2-and-9-more"]}}, "state.Password[0]"),
        ({"packet": msgspec.Raw(b'{"a": {"pass\\u0077ord": "hunter2-and-9-more"}}')}, "packet.a.password"),
        ({"packet": msgspec.Raw(b'{"a":"gh\\u0070_' + TOKEN[4:].encode() + b'"}')}, "packet.a"),
        ({"packet": msgspec.Raw(b'{"token"\n:\n"hunter2-and-9-more"}')}, "packet.token"),
    ],
)
def test_a_secret_is_found_wherever_it_is_in_a_value(value, path):
    with pytest.raises(SecretFound) as refused:
        check(value, "")
    assert str(refused.value).startswith(path)
    assert masked(value, "")[1] == [path]


def test_a_name_is_judged_also_when_no_rule_is_near():
    ours = (by_pattern("ours", "one of ours", "ours_[0-9]{4}", "ours_"),)
    with pytest.raises(SecretFound):
        check({"password": "hunter2-and-9-more"}, "", ours)
    assert masked({"a": "ours_1234", "b": TOKEN}, "", ours) == ({"a": "***", "b": TOKEN}, ["a"])


def test_a_rule_without_hints_looks_at_every_text():
    anywhere = SecretRule("any", "a digit", lambda text: [(at, at + 1) for at, each in enumerate(text) if each == "7"])
    assert masked(["a7", "b"], "list", (*RULES, anywhere)) == (["a***", "b"], ["list[0]"])


def test_hints_of_a_rule_of_ones_own_count_in_large_and_small_letters():
    shouted = SecretRule("shouted", "a word", lambda text: [(0, len(text))] if "SESAME" in text else [], ("sesame",))
    assert masked("OPEN SESAME", "word", (shouted,)) == ("***", ["word"])


def test_a_value_without_any_hint_is_given_back_as_it_is():
    value = {"a": ["task:export", 7, None], "packet": msgspec.Raw(b'{"b": 1}')}
    assert masked(value, "") == (value, [])
    assert check(value, "") is None
