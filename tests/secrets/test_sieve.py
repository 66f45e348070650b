"""Of much text only the lines with a hint are read; what is found is the same as if all of it were."""

import random
import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.secrets import stream
from outlast.secrets.find import RULES, SecretRule, by_pattern
from outlast.secrets.rules import by_token
from outlast.secrets.stream import spans_in
from outlast.secrets.tokens import TOKENS, Token, more_tokens

from .test_secret_kinds import KINDS

NAMED = [
    "password = 'hunter2-x1'",
    "DSN=postgres://a:s3cr3t@db/x",
    "Authorization: Bearer abc123def456",
    "curl -u me:s3cr3t-x9 x",
]
SECRETS = [*(make(random.Random(name)) for name, make in KINDS.items()), *NAMED]

PLAIN = [
    "2026-11-16T21:04:39.000123Z INFO worker-3 wrote /var/lib/app/file_77.json in 0.3 s",
    "\x1b[32mPASSED\x1b[0m tests/test_keys.py::test_token_path 12 tokens",
    "naïve 😀 текст, 3c7b2a90-11d2-4e6f-8a3b-0f1e2d3c4b5a",
    "path=/api/webhooks/ https://example.org/a?b=c user:pass key value sk-learn gh_pages",
    "",
]


def text_of(lines: list[str], seed: int) -> bytes:
    """So much text that it is sieved, with these lines in it."""
    dice = random.Random(seed)
    chosen = [dice.choice(PLAIN) for _ in range(400)]
    for line in lines:
        chosen.insert(dice.randrange(len(chosen)), line)
    return "\n".join(chosen).encode()


def whole(data: bytes, rules: tuple[SecretRule, ...] = RULES) -> list[tuple[int, int]]:
    return stream._spans_of(data, rules)


@pytest.mark.parametrize("secret", SECRETS)
def test_what_is_found_in_much_text_is_what_is_found_in_little(secret: str) -> None:
    data = text_of([f"see {secret} there", f"\x1b[1m{secret[:3]}\x1b[0m{secret[3:]}"], len(secret))
    assert len(data) > stream.SIEVED_BYTES
    assert [*spans_in(data)] == whole(data) != []


@given(
    st.lists(st.sampled_from([*SECRETS, "auth:", "dXNlcjpodW50ZXIyeDk=", "password", "= hunter2-x9"])), st.integers(0)
)
def test_secrets_in_any_number_and_order_are_all_found(secrets: list[str], seed: int) -> None:
    data = text_of(secrets, seed)
    assert [*spans_in(data)] == whole(data)


def drawn(parsed: Any, dice: random.Random) -> str:
    """A text that a pattern finds, by chance."""
    parts = []
    for sign, inner in parsed:
        match str(sign):
            case "LITERAL":
                parts.append(chr(inner))
            case "IN":
                parts.append(dice.choice([each for each in map(chr, range(33, 127)) if _is_in(each, inner)]))
            case "MAX_REPEAT":
                most = min(int(inner[1]), inner[0] + 12)
                parts += [drawn(inner[2], dice) for _ in range(dice.randint(inner[0], most))]
            case "SUBPATTERN":
                parts.append(drawn(inner[3], dice))
            case "BRANCH":
                parts.append(drawn(dice.choice(inner[1]), dice))
    return "".join(parts)


def _is_in(char: str, ways: Any) -> bool:
    codes = {"RANGE": lambda way: way[0] <= ord(char) <= way[1], "LITERAL": lambda way: ord(char) == way}
    return any(codes.get(str(sign), lambda _: char.isdigit())(inner) for sign, inner in ways)


@pytest.mark.parametrize("token", [*TOKENS, *more_tokens()], ids=lambda token: token.name)
def test_no_token_slips_through(token: Token) -> None:
    dice, parsed, met = random.Random(token.name), import_module("re._parser").parse(token.pattern), 0
    for _ in range(400):
        data = f"see {drawn(parsed, dice)} there\n".encode()
        if found := [*by_token(token).look(data.decode())]:
            much = data * (stream.SIEVED_BYTES // len(data) + 1)
            assert len([*spans_in(much)]) >= len(much) // len(data), data
            met += len(found)
        if met >= 5:
            break
    assert met >= 5 or token.name == "discord"  # whose hints are what digits look like in base64


def test_rules_without_hints_look_at_everything_and_overlaps_are_one() -> None:
    sevens = SecretRule("any", "sevens", lambda text: [found.span() for found in re.finditer("77+", text)])
    word = by_pattern("ours", "ours", "ünser_[0-9]{4}", "ünser_")
    data = text_of(["ünser_7777 ghp_" + "a1B2c3D4e5" * 4], 3)
    rules = (*RULES, sevens, word)
    assert [*spans_in(data, rules)] == whole(data, rules)


def test_a_name_in_large_letters_and_one_with_a_kelvin_sign_count() -> None:
    for line in ("PASSWORD=hunter2-x9", "Api\u212aey: hunter2-x9-hunter2", "api_\u212aEY=hunter2-x9-hunter2"):
        data = text_of([line], 1)
        assert [*spans_in(data)] == whole(data)


@given(st.sampled_from(["password", "PASSWD", "client_secret", "token", "credentials", "api_key"]), st.integers(0))
def test_a_name_in_any_large_and_small_letters_counts(name: str, seed: int) -> None:
    dice = random.Random(seed)
    spelt = "".join(dice.choice([each.upper(), each.lower()]) for each in name)
    data = text_of([f"{spelt}=hunter2-x9-hunter2"], seed)
    assert [*spans_in(data)] == whole(data) != []
