"""Every kind of secret is found wherever it stands, and masked whole; nothing else is touched.

Secrets are put together here from their beginning and random characters, so that no scanner takes this file for a leak.
"""

import base64
import json
import string
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outlast.secrets.find import MASK, RULES, find, mask, masked

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
LETTERS = UPPER + LOWER + DIGITS
SAFE = LETTERS + "-_"
HEX = "0123456789abcdef"


Made = Callable[[Random], str]


def made(*parts: str | tuple[str, int]) -> Made:
    """A secret of fixed texts and of so many characters of a set; it does not end like a word in a sentence."""

    def make(chance: Random) -> str:
        drawn = (part if isinstance(part, str) else "".join(chance.choices(part[0], k=part[1])) for part in parts)
        text = "".join(drawn)
        return text if isinstance(parts[-1], str) or text[-1] not in "-_" else make(chance)

    return make


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


JWT = coded('{"alg":"HS256","typ":"JWT"}'), coded('{"sub":"1234567890"}')
KINDS: dict[str, Made] = {
    "aws": made("AK", "IA", (UPPER + "234567", 16)),
    "aws session": made("AS", "IA", (UPPER + "234567", 16)),
    "aws bedrock": made("ABSK", (LETTERS, 110)),
    "google": made("AI", "za", (SAFE, 35)),
    "google oauth": made("ya", "29.", (SAFE, 60)),
    "google client": made("GOC", "SPX-", (SAFE, 28)),
    "azure client": made((LETTERS, 3), "8", "Q~", (LETTERS, 34)),
    "azure storage": made((LETTERS + "+/", 76), "+A", "St", (LETTERS, 5), "A=="),
    "azure devops": made((LETTERS, 76), "AZ", "DO", (LETTERS, 4)),
    "azure signature": made("sv=2024-01-01&sig=", (LETTERS, 43), "%3D"),
    **{f"github gh{each}": made(f"gh{each}", "_", (LETTERS, 36)) for each in "pousr"},
    "github fine": made("github", "_pat_", (LETTERS, 22), "_", (LETTERS, 59)),
    "github app": made("gh", "s_", "12345", "_", JWT[0], ".", JWT[1], ".", (SAFE, 40)),
    **{
        f"gitlab {each}": made(each, (SAFE, 20))
        for each in ("glpat-", "gldt-", "glrt-", "glft-", "glptt-", "glcbt-", "glagent-", "gloas-", "glimt-", "glffct-")
    },
    "gitlab routed": made("glp", "at-", (SAFE, 26), "a.01.", (LOWER + DIGITS, 9)),
    "slack bot": made("xo", "xb-", (DIGITS, 12), "-", (LETTERS, 24)),
    "slack user": made("xo", "xp-", (DIGITS, 12), "-", (DIGITS, 12), "-", (HEX, 32)),
    "slack app": made("xa", "pp-1-", (UPPER, 11), "-", (DIGITS, 13), "-", (HEX, 64)),
    "slack refresh": made("xo", "xe-1-", (LETTERS, 60)),
    "stripe": made("sk", "_live_", (LETTERS, 24)),
    "stripe restricted": made("rk", "_test_", (LETTERS, 24)),
    "stripe hook": made("wh", "sec_", (LETTERS, 32)),
    "openai": made("sk", "-", (LETTERS, 48)),
    "openai project": made("sk", "-proj-", (SAFE, 100)),
    "openrouter": made("sk", "-or-v1-", (HEX, 64)),
    "anthropic": made("sk", "-ant-", "api03-", (SAFE, 90), "AA"),
    "hugging face": made("h", "f_", (LETTERS, 34)),
    "outlast": made("o", "l_", (LOWER + DIGITS, 12), "_", (SAFE, 43)),
    "npm": made("np", "m_", (LETTERS, 36)),
    "pypi": made("py", "pi-", "AgEIcHlwaS5vcmc", (SAFE, 60)),
    "sendgrid": made("S", "G.", (SAFE, 22), ".", (SAFE, 43)),
    "twilio": made("S", "K", (HEX, 32)),
    "telegram": made((DIGITS[1:], 9), ":A", "A", (SAFE, 33)),
    "discord": made("MT", (LETTERS, 24), ".G", (LETTERS, 5), ".", (SAFE, 38)),
    "shopify": made("sh", "pat_", (HEX, 32)),
    "databricks": made("da", "pi", (HEX, 32)),
    "digital ocean": made("do", "p_v1_", (HEX, 64)),
    "cloudflare": made("cf", "ut_", (LETTERS, 40)),
    "cloudflare origin": made("v1", ".0-", (HEX, 24), "-", (HEX, 146)),
    "supabase": made("sb", "p_", (HEX, 40)),
    "supabase secret": made("sb", "_secret_", (SAFE, 30)),
    "vault": made("hv", "s.", (SAFE, 90)),
    "vault batch": made("hv", "b.", (SAFE, 120)),
    "linear": made("lin", "_api_", (LETTERS, 40)),
    "notion": made("nt", "n_", (LETTERS, 46)),
    "notion old": made("sec", "ret_", (LETTERS, 43)),
    "mailgun": made("ke", "y-", (HEX, 32)),
    "mailchimp": made((HEX, 32), "-u", "s12"),
    "age": made("AGE-SEC", "RET-KEY-1", (UPPER + DIGITS, 58)),
    "groq": made("gs", "k_", (LETTERS, 52)),
    "replicate": made("r8", "_", (LETTERS, 37)),
    "docker": made("dckr", "_pat_", (SAFE, 27)),
    "grafana": made("gl", "sa_", (LETTERS, 32), "_", (HEX, 8)),
    "sentry": made("sn", "tryu_", (HEX, 64)),
    "new relic": made("NR", "AK-", (UPPER + DIGITS, 27)),
    "postman": made("PM", "AK-", (HEX, 24), "-", (HEX, 34)),
    "pulumi": made("pu", "l-", (HEX, 40)),
    "perplexity": made("pp", "lx-", (LETTERS, 48)),
    "langsmith": made("ls", "v2_pt_", (HEX, 32), "_", (HEX, 10)),
    "pinecone": made("pc", "sk_", (LETTERS, 6), "_", (LETTERS, 60)),
    "figma": made("fi", "gd_", (SAFE, 40)),
    "airtable": made("pa", "t", (LETTERS, 14), ".", (HEX, 64)),
    "brevo": made("xkey", "sib-", (HEX, 64), "-", (LETTERS, 16)),
    "planetscale": made("pscale", "_tkn_", (SAFE, 43)),
    "terraform": made((LETTERS, 14), ".at", "lasv1.", (SAFE, 67)),
    "doppler": made("dp", ".pt.", (LETTERS, 43)),
    "atlassian": made("AT", "ATT3", (SAFE, 180), "=", (UPPER + DIGITS, 8)),
    "tailscale": made("ts", "key-auth-", (LETTERS, 12), "-", (LETTERS, 32)),
    "jwt": made(JWT[0], ".", JWT[1], ".", (SAFE, 43)),
    "private key": made(
        "-----BEGIN RSA PRI",
        "VATE KEY-----\n",
        (LETTERS + "+/", 64),
        "\n",
        (LETTERS, 40),
        "=\n-----END RSA PRI",
        "VATE KEY-----",
    ),
}
PARTLY = {"azure signature": "sv=2024-01-01&sig=***"}  # only the value is secret

AROUND = [
    "{}",
    "the key is {} and it works",
    "({})",
    "see `{}`, then go on.",
    '{{"a": 1, "value": "{}", "b": [2]}}',
    "value: {}\nother: 2",
    "VALUE='{}'\nexport OTHER=1",
    "run --with {} --dry-run",
    "run --with={} | tee out.log",
    "https://example.org/v1/{}?page=2",
    "https://example.org/v1?x={}&page=2",
    "<a>{}</a>",
    "a,{},b",
    "x={};",
    "| {} | 2 |",
    "\x1b[31m{}\x1b[0m",
    "\\n{}",
]
WORDS = ["and", "the ledger", "é", "😀", "reads 12 files", "\n", " ", "-", "§ 3.1", "naïve", "İ", "(ok)", "", "is 50%"]
SURROUNDINGS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


@given(st.integers(), SURROUNDINGS, SURROUNDINGS)
def test_a_secret_of_every_kind_is_masked_whole_and_nothing_else_is(seed: int, before: str, after: str) -> None:
    chance, wrong = Random(seed), []
    for kind, make in KINDS.items():
        secret, around = make(chance), chance.choice(AROUND)
        clean = mask(f"{before} {around.format(secret)} {after}")
        if clean != f"{before} {around.format(PARTLY.get(kind, MASK))} {after}" or mask(clean) != clean:
            wrong.append((kind, around.format(secret), clean))
    assert wrong == []


@pytest.mark.parametrize("around", AROUND)
def test_a_secret_of_every_kind_is_found_in_every_place(around: str) -> None:
    found = {kind: mask(around.format(make(Random(7)))) for kind, make in KINDS.items()}
    assert found == {kind: around.format(PARTLY.get(kind, MASK)) for kind in KINDS}


VALUES = st.one_of(
    st.text(HEX, min_size=32, max_size=64),
    st.text(LETTERS, min_size=20, max_size=60),
    st.uuids().map(str),
    st.binary(min_size=30, max_size=30).map(lambda raw: base64.b64encode(raw).decode()),
).filter(lambda text: sum(map(str.isdigit, text)) > 2 and sum(map(str.isalpha, text)) > 4 and text[0] in LETTERS)
NAMES = st.sampled_from(
    [
        "password",
        "DB_PASSWORD",
        "client_secret",
        "API_KEY",
        "apiKey",
        "access-token",
        "auth_token",
        "SECRET_KEY",
        "passwd",
        "aws_secret_access_key",
        "private_key",
        "MY_APP_TOKEN",
        "dbPassword",
        "x-api-key",
        "encryptionKey",
        "credential",
    ]
)
NAMED = [
    "{}={}",
    "export {}='{}'",
    '"{}": "{}"',
    "{}: {}",
    '{} = "{}"',
    "{{'{}': '{}'}}",
    "--{}={} --force",
    "https://example.org/x?{}={}&page=2",
    '{{\\"{}\\": \\"{}\\"}}',
    "set {}:={}",
    '{}: str = "{}"',
    "['{}'] => '{}'",
]


@given(NAMES, VALUES, st.sampled_from(NAMED), SURROUNDINGS, SURROUNDINGS)
def test_a_value_that_is_named_like_a_secret_is_masked_whole(
    name: str, value: str, around: str, a: str, z: str
) -> None:
    assume(not value.lower().startswith(("test", "no", "xxx", "env", "ref", "md5", "set", "put", "fake", "null")))
    text = f"{a} {around.format(name, value)} {z}"
    assert mask(text) == f"{a} {around.format(name, MASK)} {z}"
    path = f"v.{name}" if name.isidentifier() else f"v['{name}']"
    assert masked({name: value, "n": [value[:3]]}, "v") == ({name: MASK, "n": [value[:3]]}, [path])


@given(
    VALUES, st.sampled_from(["Authorization: Bearer {}", '"authorization": "Basic {}"', "-H 'Authorization: token {}'"])
)
def test_what_is_sent_to_prove_who_one_is_is_masked_whole(value: str, around: str) -> None:
    assert mask(f"curl {around.format(value)} # x") == f"curl {around.format(MASK)} # x"


@given(st.text(LETTERS + "!$%^*+-_.,;=~", min_size=6, max_size=30), st.sampled_from(["postgres", "https", "amqp+ssl"]))
def test_the_password_of_a_url_is_masked_whole(password: str, scheme: str) -> None:
    assume(not any(sign in password for sign in ("**", "...", "$", "%")) and len(set(password)) > 4)
    assume(any(map(str.isdigit, password)) and password[0] in LETTERS and "." not in password)
    assume(
        not password.lower().startswith(("test", "no", "xxx", "env", "ref", "md5", "set", "put", "my", "the", "sha"))
    )
    text = "see {}://ann:{}@db.example.org:5432/x?a=1, then go on"
    assert mask(text.format(scheme, password)) == text.format(scheme, MASK)


@given(st.integers())
def test_many_secrets_in_one_value_are_all_masked(seed: int) -> None:
    chance = Random(seed)
    drawn = [make(chance) for make in chance.sample([*KINDS.values()], 5)]
    value: dict[str, Any] = {"note": " ; ".join(drawn), "list": drawn, "deep": [{"x": {"y": drawn[0]}}]}
    clean, _ = masked(value, "v")
    left = json.dumps(clean)
    assert all(secret[-20:] not in left for secret in drawn)
    assert masked(clean, "v") == (clean, [])


def test_every_rule_has_hints_or_looks_itself() -> None:
    assert [rule.name for rule in RULES if not rule.hints] == []


# -- time --------------------------------------------------------------------------------------------

PIECES = [
    "ghp_",
    "eyJ",
    "5meyJaaaaaaaa",
    "\x1b[5meyJaaaaaaaa",
    "-ghs_1_eyJaaaaaaaa",
    "%3DeyJaaaaaaaa",
    "AKIA",
    "MT",
    "aZ0",
    "-us",
    "Q~",
    "sig=",
    ".atlasv1.",
    "pat",
    "+ASt",
    "AZDO",
    "SG.",
    "sk.eyJaaaaaaaaa",
    "token = ",
    "api key",
    "pass",
    "--a-api-key ",
]


def seconds(text: str) -> float:
    began = time.process_time()
    assert sum(1 for _ in find(text)) >= 0
    return time.process_time() - began


@pytest.mark.parametrize("glue", ["", " ", ".", "-", "_"])
def test_what_takes_time_grows_with_the_text_and_not_with_its_square(glue: str) -> None:
    texts = {piece: (piece + glue) * ((1 << 15) // len(piece + glue)) for piece in PIECES}
    slow = [piece for piece, text in texts.items() if seconds(text) > 0.4]  # a quiet machine takes some milliseconds
    assert [piece for piece in slow if min(seconds(texts[piece]) for _ in range(3)) > 0.4] == []
