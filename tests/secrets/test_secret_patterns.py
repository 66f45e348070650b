"""Rules of one's own: what can be used is used as it is, and what could go wrong is refused with its place."""

import time

import pytest

from outlast.errors import SecretFound, SecretPatternInvalid
from outlast.secrets.find import RULES, check, counted, mask, masked
from outlast.secrets.own import own_rule, own_rules


@pytest.mark.parametrize(
    ("pattern", "text", "clean"),
    [
        ("ours_[0-9]{20}", "x ours_12345678901234567890 y", "x *** y"),
        ("ours_[0-9a-f]{8,}", "ours_0123456789abcdef.", "***."),
        ("ours_0{8}", "ours_00000000", "***"),  # whatever it looks like
        (r"account: ([0-9]{6,10})", "account: 12345678, 2", "account: ***, 2"),
        (r"(?i)employee[ -]id[ -][a-z]{4}", "his Employee-ID abcd", "his ***"),
        (r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", "at 10.20.30.40:80", "at ***:80"),
        (r"\bAB(?:12|34){2}\b", "AB1234 AB123", "*** AB123"),
        ("a{5,}|b{5,}", "aaaaaa bbbbb", "*** ***"),
    ],
)
def test_a_pattern_finds_what_it_says(pattern: str, text: str, clean: str) -> None:
    rules = (*RULES, own_rule("ours", pattern, "here"))
    assert mask(text, rules) == clean
    assert mask(clean, rules) == clean
    assert mask(text) == text


def test_what_a_rule_of_ones_own_finds_is_told_by_its_kind_and_counted() -> None:
    rules = (*RULES, *own_rules({"ours": {"pattern": "ours_[0-9]{4}", "kind": "one of our keys"}}, "here"))
    with pytest.raises(SecretFound) as refused:
        check({"a": {"ours_1234": ["ours_1234 and ours_5678"]}}, "state", rules)
    assert str(refused.value).startswith("state.a['***'][0] holds what looks like one of our keys; take it out")
    assert masked({"ours_1234": 1, "b": "ours_1234"}, "", rules) == ({"***": 1, "b": "***"}, ["", "b"])
    assert counted({"a": ["ours_1234 and ours_5678"], "password": "hunter2x"}, rules)[1] == 3


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("[a-z", "is no regular expression: unterminated character set"),
        ("", "is no text of 1 to 1,000 characters"),
        ("x" * 1001, "is no text of 1 to 1,000 characters"),
        (7, "it has a `pattern`"),
        ({"kind": "a key"}, "it has a `pattern`"),
        ({"pattern": "abcd", "flags": "i"}, "it has a `pattern`"),
        ({"pattern": "abcd", "kind": " "}, "its kind is no printable text"),
        ({"pattern": "abcd", "kind": "a\nb"}, "its kind is no printable text"),
        ("abc", "finds what has 3 characters"),
        ("[a-z]*", "finds what has 0 characters"),
        ("id=([0-9]{2})", "finds what has 2 characters"),
        ("(abcd)?efgh", "may be left out"),
        ("(?:(abcd)|efgh)", "may be left out"),
        ("abcd{2000}", "a secret has 4 to 1,000"),
    ],
)
def test_a_rule_that_says_too_little_is_refused_with_its_place(rule: object, why: str) -> None:
    with pytest.raises(SecretPatternInvalid) as refused:
        own_rules({"ours": rule}, "Settings.secret_patterns")
    assert str(refused.value).startswith("Settings.secret_patterns: ours: ")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:a+)+bcd!",
        "(?:a|a)*bcd!",
        "(?:a|ab){30}xyz",
        r"\s*\s*abcd",
        "(?:[a-z]+,)+abcd",
        "[a-z]+@[a-z]{4}",
        "abcd.*!",
        "abcd(?=.*!)",
        r"ours_\w{20,}\b",
        "(?:a{1,30}){1,30}bcd",
        "[a-z]{0,100}[a-z]{0,100}abcd",
        "(?>a+)bcde",
        "ours_a++!",
    ],
)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(SecretPatternInvalid, match="could take for ever"):
        own_rule("ours", pattern, "here")


@pytest.mark.parametrize("pattern", ["ours_[a-z]{4,}", "a{1,200}bcd", "(?:[0-9]{1,3}-){3}abcd", "(?:aa|ab){4}cd"])
def test_no_text_makes_a_pattern_slow_that_is_taken(pattern: str) -> None:
    rules = (own_rule("ours", pattern, "here"),)
    for piece in ("ours_", "a", "1-", "aa", "ab"):
        began = time.process_time()
        assert mask(piece * (20_000 // len(piece)), rules)
        assert time.process_time() - began < 2.0  # squared it would be minutes


def test_names_are_checked_and_those_built_in_are_taken() -> None:
    for name in ("", "a b", "../x", "x" * 101, 7, "github", "named"):
        with pytest.raises(SecretPatternInvalid, match="name"):
            own_rules({name: "abcd"}, "here")  # type: ignore[dict-item]
    with pytest.raises(SecretPatternInvalid, match="the limit is 100"):
        own_rules({f"n{number}": "abcd" for number in range(101)}, "here")
    with pytest.raises(SecretPatternInvalid, match="no mapping"):
        own_rules(["abcd"], "here")  # type: ignore[arg-type]
