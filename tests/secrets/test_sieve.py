"""Of much text only the lines with a hint are read; what is found is the same as if all of it were."""

import random
import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.secrets import rules as secret_rules
from outlast.secrets import stream
from outlast.secrets.find import RULES, SecretRule, by_pattern
from outlast.secrets.rules import TOKENS, Token, by_token, more_tokens
from outlast.secrets.stream import sieve_of, spans_in

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


def sieved(data: bytes, rules: tuple[SecretRule, ...] = RULES) -> list[tuple[int, int]]:
    """What is found by what is soon made, and by what reads faster once much was printed."""
    sieve, ways = sieve_of(rules), []
    for read in (-(1 << 40), 1 << 40):
        sieve._read_bytes = read
        ways.append([*spans_in(data, rules)])
    assert ways[0] == ways[1]
    return ways[1]


@pytest.mark.parametrize("secret", SECRETS)
def test_what_is_found_in_much_text_is_what_is_found_in_little(secret: str) -> None:
    data = text_of([f"see {secret} there", f"\x1b[1m{secret[:3]}\x1b[0m{secret[3:]}"], len(secret))
    assert len(data) > stream.SIEVED_BYTES
    assert sieved(data) == whole(data) != []


@given(
    st.lists(st.sampled_from([*SECRETS, "auth:", "dXNlcjpodW50ZXIyeDk=", "password", "= hunter2-x9"])), st.integers(0)
)
def test_secrets_in_any_number_and_order_are_all_found(secrets: list[str], seed: int) -> None:
    data = text_of(secrets, seed)
    assert sieved(data) == whole(data)


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
            assert len(sieved(much)) >= len(much) // len(data), data
            met += len(found)
        if met >= 5:
            break
    assert met >= 5 or token.name == "discord"  # whose hints are what digits look like in base64


def test_rules_without_hints_look_at_everything_and_overlaps_are_one() -> None:
    sevens = SecretRule("any", "sevens", lambda text: [found.span() for found in re.finditer("77+", text)])
    word = by_pattern("ours", "ours", "ünser_[0-9]{4}", "ünser_")
    data = text_of(["ünser_7777 ghp_" + "a1B2c3D4e5" * 4], 3)
    rules = (*RULES, sevens, word)
    assert sieved(data, rules) == whole(data, rules)


def test_a_name_in_large_letters_and_one_with_a_kelvin_sign_count() -> None:
    for line in ("PASSWORD=hunter2-x9", "Api\u212aey: hunter2-x9-hunter2", "api_\u212aEY=hunter2-x9-hunter2"):
        data = text_of([line], 1)
        assert sieved(data) == whole(data)


@given(st.sampled_from(["password", "PASSWD", "client_secret", "token", "credentials", "api_key"]), st.integers(0))
def test_a_name_in_any_large_and_small_letters_counts(name: str, seed: int) -> None:
    dice = random.Random(seed)
    spelt = "".join(dice.choice([each.upper(), each.lower()]) for each in name)
    data = text_of([f"{spelt}=hunter2-x9-hunter2"], seed)
    assert sieved(data) == whole(data) != []


@given(st.integers(0))
def test_every_name_of_a_value_counts_however_it_is_written(seed: int) -> None:
    dice = random.Random(seed)
    name = drawn(import_module("re._parser").parse(secret_rules._NAMED), dice)
    between = dice.choice(["=", ": ", " = ", '": "', "'] = '", "`:`", '\\": \\"', " => ", " := ", "\t=", ": str = '"])
    line = dice.choice([f"x_{name}{between}hunter2-x9-hunter2", f"run --{name} hunter2-x9-hunter2 now"])
    shown = "".join(dice.choice([each.upper(), each]) for each in line) if dice.random() < 0.5 else line
    coloured = f"{shown[:9]}\x1b[1m{shown[9:]}" if dice.random() < 0.3 else shown
    data = text_of([coloured], seed)
    assert sieved(data) == whole(data)


COLOURS = [
    "\x1b[32m",
    "\x1b[0m",
    "\x1b[m",
    "\x1b[1;31m",
    "\x1b[0;32m",
    "\x1b[38:5:196m",
    "\x1b[K",
    "\x1b[2K",
    "\x1b[01m",
]
NEAR_BLANKS = [
    *NAMED,
    "api key: hunter2-x9-hunter2",
    "PRIVATE KEY",
    "--token hunter2-x9-hunter2",
    "client secret = hunter2-x9",
]


@given(st.sampled_from([*SECRETS, *NEAR_BLANKS]), st.lists(st.sampled_from(COLOURS), max_size=4), st.integers(0))
def test_a_secret_counts_wherever_colours_stand_in_its_line(secret: str, colours: list[str], seed: int) -> None:
    dice, line = random.Random(seed), f"see {secret} there"
    for colour in colours:
        at = dice.choice(
            [place for place in range(len(line)) if dice.random() < 0.5 or " " in line[max(0, place - 1) : place + 1]]
            or [0]
        )
        line = line[:at] + colour + line[at:]
    data = "\n".join([line, *(f"\x1b[32mINFO\x1b[0m item {number}" for number in range(400))]).encode()
    assert sieved(data) == whole(data)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_token_counts_after_every_colour(colour: str) -> None:
    data = text_of([f"see {colour}ghp_{'a1B2c3D4e5' * 4} there"], 7)
    assert sieved(data) == whole(data) != []


@pytest.mark.parametrize("begin", ["--\x1b[1m---BEGIN RSA", "-----BEGIN\x1b[m RSA", "-----\x1b[1mBEGIN\x1b[0m RSA"])
def test_a_private_key_counts_whole_where_colours_stand_in_its_first_line(begin: str) -> None:
    key = "\n".join(["khYEB6jhEvjpAl2zuruJDDE3EopelfbYMu8XdIkoces"] * 8)
    data = text_of([f"{begin} PRIVATE KEY-----\n{key}\n-----END RSA PRIVATE KEY-----"], 5)
    assert sieved(data) == whole(data) != []


@pytest.mark.parametrize("before", ["", "see ", "=", "\u00fc", "\\n", "%2F", "\x1b[1m", "\x1b[2K", "_", "x", "AND"])
def test_a_token_of_two_letters_counts_where_a_word_begins(before: str) -> None:
    line = f"{before}MTA4NjE1NzY1Mzg0OTIzODQ5.GhIjKl.{'a1B2c3D4e5' * 3} there\n"
    data = (line + "plain words\n" * 900).encode()
    assert sieved(data) == whole(data)
    assert bool(sieved(data)) == (before not in ("_", "x", "AND"))


@given(st.text("ab:@/ é\u00a0😀#", max_size=40), st.integers(0, 300))
def test_every_password_in_a_url_counts(rest: str, more: int) -> None:
    data = text_of([f"see https://user:s3cr3t{'é' * more}{rest}@host/x and http://h:80/a@b", f"ftp://{rest}"], more)
    assert sieved(data) == whole(data)


@pytest.mark.parametrize(
    "line", ["12 tokens, passed", '{"key": "item-5", "prompt_tokens": 7}', "see https://example.org/a"]
)
def test_ordinary_words_make_no_line_suspect(line: str) -> None:
    for reader in sieve_of(RULES).readers():
        assert reader.read(f"{line}\n".encode() * 300).places == []
