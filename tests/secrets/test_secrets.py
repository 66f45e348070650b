"""Secrets: found in what is to be kept, refused by path or masked; ordinary prose and code are left alone."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import SecretFound
from outlast.secrets.find import MASK, RULES, FoundSecret, by_pattern, check, find, is_secret_file, mask, masked

MIX = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"  # 40 characters, put together with each prefix below so that no
HEX = "0123456789abcdef" * 4  # scanner takes this file for a leak
PEM = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n{1}\n-----END {0}PRIVATE KEY-----"

PROVIDERS = {
    "aws": "AK" + "IA" + "Q2W3E4R5T6Y7U8I9",
    "aws_session": "AS" + "IA" + "Q2W3E4R5T6Y7U8I9",
    "github": "gh" + "p_" + MIX[:36],
    "github_app": "gh" + "s_" + MIX[:36],
    "github_oauth": "gh" + "o_" + MIX[:36],
    "github_user": "gh" + "u_" + MIX[:36],
    "github_pat": "github" + "_pat_" + MIX[:22] + "_" + MIX,
    "gitlab": "gl" + "pat-" + MIX[:20],
    "slack": "xo" + "xb-" + "123456789012-" + MIX[:24],
    "stripe": "sk" + "_live_" + MIX[:24],
    "stripe_restricted": "rk" + "_live_" + MIX[:24],
    "openai": "sk" + "-" + MIX + MIX[:8],
    "openai_project": "sk" + "-proj-" + MIX + "_-" + MIX,
    "anthropic": "sk" + "-ant-" + "api03-" + MIX + "-_" + MIX,
    "google": "AI" + "za" + MIX[:35],
    "npm": "np" + "m_" + MIX[:36],
    "pypi": "py" + "pi-" + "AgEIcHlwaS5vcmc" + MIX,
    "sendgrid": "S" + "G." + MIX[:22] + "." + MIX + "abc",
    "twilio": "S" + "K" + HEX[:32],
    "hugging_face": "h" + "f_" + MIX[:34],
    "digital_ocean": "do" + "p_v1_" + HEX,
    "telegram": "12345678" + ":AA" + MIX[:33],
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiIxMjM0In0." + MIX,
    "vault": "hv" + "s." + MIX,
    "pem": PEM.format("RSA ", MIX),
    "pem_plain": PEM.format("", MIX),
    "pem_openssh": PEM.format("OPENSSH ", MIX),
}


@pytest.mark.parametrize("secret", PROVIDERS.values(), ids=PROVIDERS)
def test_the_key_of_a_provider_is_found_wherever_it_stands(secret: str) -> None:
    for around in ("{}", "use {} here", "KEY='{}'", '{{"k": "{}"}}', "({})", "a\n{}\nb", "é{}"):
        text = around.format(secret)
        assert len(list(find(text))) == 1, around
        assert mask(text) == around.format(MASK)


NAMED = {
    "password=hunter2": "password=***",
    "PASSWORD: hunter2": "PASSWORD: ***",
    "passwd: 12345678": "passwd: ***",
    "export DB_PASSWORD='p4ssw0rd'": "export DB_PASSWORD='***'",
    "db_pass = 'p4ssw0rd'": "db_pass = '***'",
    'password: str | None = "hunter2!x"': 'password: str | None = "***"',
    '"client_secret": "Zx81kQ0pLm22"': '"client_secret": "***"',
    '{\\"password\\": \\"hunter2x\\"}': '{\\"password\\": \\"***\\"}',
    "export API_KEY=abcd1234efgh": "export API_KEY=***",
    "apiKey: 'abcd1234efgh',": "apiKey: '***',",
    'os.environ["API_KEY"] = "abcd1234efgh"': 'os.environ["API_KEY"] = "***"',
    "aws_secret_access_key = /abC9+dEfGhIjKlMnOpQrStUvWxYz0123456789AB": "aws_secret_access_key = ***",
    "AccountKey=abcdEFGH1234+/==;Server=x": "AccountKey=***;Server=x",
    "https://x.com/?access_token=abc123def456&x=1": "https://x.com/?access_token=***&x=1",
    "token=3f786850e387550fdab836ed7e6dc881de23001b": "token=***",
    'secret = "550e8400-e29b-41d4-a716-446655440000"': 'secret = "***"',
    "mysql --password hunter22 -u root": "mysql --password *** -u root",
    "deploy --api-key=abcd1234efgh --dry-run": "deploy --api-key=*** --dry-run",
    'token = "AbCdEfGhIjKlMnOpQrSt"': 'token = "***"',
    "postgres://bob:s3cr3t@db/x": "postgres://bob:***@db/x",
    "redis://:p@ss@host:6379": "redis://:***@host:6379",
    "Authorization: Bearer abc123def456": "Authorization: Bearer ***",
    "curl -H 'authorization: Basic dXNlcjpwYXNzMTIz'": "curl -H 'authorization: Basic ***'",
    "sent as Bearer abcdefghij0123456789": "sent as Bearer ***",
    "İ password=hunter2": "İ password=***",
}


@pytest.mark.parametrize(("text", "clean"), NAMED.items())
def test_a_named_secret_is_masked_and_the_rest_stays(text: str, clean: str) -> None:
    assert mask(text) == clean


@pytest.mark.parametrize("text", [*PROVIDERS.values(), *NAMED])
def test_what_was_masked_is_found_no_more(text: str) -> None:
    assert list(find(mask(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        "the password is checked in login()",
        "Password: must be at least 8 characters",
        "the secret: 2-factor auth",
        "pass: 12 of 34",
        "tokens: 1500, max_tokens=4096",
        "token = tokens[0]",
        "token = get_token(request)",
        "const token = await getToken2()",
        "if token := headers.get('x1'):",
        "token => token.value1",
        "self.token = token2",
        "token = oauth2.token",
        "password = user1_password",
        'password = os.environ["DB_PASSWORD"]',
        "password = getpass1()",
        "f(password=password, api_key=api_key)",
        "def f(password: str, token: str | None = None) -> str:",
        'assert token == "abc123def456"',
        "secret = hashlib.sha256(x).hexdigest()",
        "secret: settings.SECRET_KEY_2",
        'SECRET_KEY = env("SECRET_KEY")',
        "password_hash=abc123def",
        'next_page_token = "abc123def456"',
        "password=***",
        "password: <token>",
        "API_KEY=$API_KEY",
        "API_KEY=${API_KEY:-abc123}",
        'API_KEY="$(pass show key1)"',
        "password: {{ vault_password1 }}",
        'password="{password1}"',
        "password: xxxxxxxx",
        "password=changeme",
        "password=None",
        "password=",
        'password=""',
        "password: ...",
        "token: abc123...",
        'api_key="your-api-key-123"',
        'token = "test-token-123"',
        "secret: db-creds-2024",
        'token: "v1.2.3-beta"',
        "credential: 2024-01-01T00:00:00Z",
        "token: https://example.com/oauth2/token",
        "private_key: keys/id_rsa2.pem",
        "PWD=/home/me/project1",
        '"password": "Passwort"',
        '"password": "Password is required"',
        "key='abc123def456'",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "Bearer token-based-authentication-scheme",
        "https://user:password@host",
        "https://user:$PASS@host",
        "https://user:${PASS}@host",
        "http://localhost:8080/a@b",
        "git@github.com:a/b.git",
        "docker://alpine:3.18@sha256:abc",
        "-----BEGIN PRIVATE KEY----- is what it looks for",
        "-----BEGIN PUBLIC KEY-----\n" + MIX,
        "sk-circle-fade-dot-animation-delay-long",
        "ghp_" + "x" * 36,
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:" + HEX,
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    ],
)
def test_ordinary_prose_and_code_raise_no_alarm(text: str) -> None:
    assert list(find(text)) == []


def test_what_is_found_says_where_and_what() -> None:
    text = f"first {PROVIDERS['github']}, then password=hunter2"
    one, two = find(text)
    assert one == FoundSecret(6, 46, "a GitHub token")
    assert text[two.start : two.end] == "hunter2"
    assert two.kind == "a password, token or key"


def test_secrets_that_overlap_are_one() -> None:
    text = f"token={PROVIDERS['github']} https://x:{PROVIDERS['github']}@github.com"
    assert [(found.start, found.end) for found in find(text)] == [(6, 46), (57, 97)]


def test_secrets_that_overlap_in_part_are_masked_from_the_first_begin_to_the_last_end() -> None:
    rules = (by_pattern("one", "one", "abc1"), by_pattern("two", "two", "c1234"))
    assert list(find("x abc1234 y", rules)) == [FoundSecret(2, 9, "one")]


def test_a_private_key_without_its_end_is_masked_to_where_it_stops() -> None:
    assert mask(f"-----BEGIN PRIVATE KEY-----\n{MIX}\n{MIX}") == MASK
    assert mask(PEM.format("EC ", MIX).replace("\n", "\\n")) == MASK


def test_a_long_value_is_masked_to_its_end() -> None:
    assert mask(f'password = "{MIX * 50}" # x') == 'password = "***" # x'


def test_callers_add_rules_of_their_own() -> None:
    rules = (*RULES, by_pattern("ours", "one of our keys", r"ours_\d{6}"))
    assert mask("x ours_123456 password=hunter2", rules) == "x *** password=***"
    assert mask("x ours_123456") == "x ours_123456"
    with pytest.raises(SecretFound, match="one of our keys"):
        check({"a": ["ours_123456"]}, "state", rules)


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@given(st.text(max_size=60), st.sampled_from([*PROVIDERS.values(), *NAMED]), st.text(max_size=60))
def test_masking_leaves_nothing_to_find(before: str, secret: str, after: str) -> None:
    clean = mask(f"{before} {secret} {after}")
    assert list(find(clean)) == []
    assert mask(clean) == clean


# -- time --------------------------------------------------------------------------------------------

HOSTILE = [
    *(
        "a",
        "=",
        ":",
        "-",
        '"',
        "\\",
        "😀",
        "\n",
        "password=",
        "password ",
        'password="',
        "password='\\",
        "password: a.a ",
    ),
    *(
        "password=a,",
        "password=a1&b=1",
        "password=abcdef1 ",
        "--password ",
        "--a-a-a-",
        "secret",
        "api_ api- ",
        "token ",
    ),
    *("eyJ", "-eyJaaaaaaaa", "éeyJaaaaaaaa", "eyJaaaaaaaa.", "://a", "://a:b", "a:", "-----BEGIN PRIVATE KEY-----"),
    *(
        "Bearer ",
        "Authorization: ",
        "sk-",
        "gl",
        "glpat-",
        "SK",
        "SG.aaaaaaaaaaaaaaaa.",
        "12345678:AA",
        "xox",
        "_v1_",
        "İ",
    ),
]
STARTS = [
    "password",
    "password: ",
    "password: a ",
    "Bearer",
    "Authorization:",
    "-----BEGIN PRIVATE KEY-----",
    "://",
    "eyJ",
]
WORST = ["password=a,", 'password="', "password=abcdef1 "]


@pytest.mark.parametrize("piece", WORST)
def test_a_long_hostile_text_is_read_within_a_second(piece: str) -> None:
    assert fastest(piece * ((1 << 18) // len(piece))) < 1.5  # a quiet machine takes 0.1 seconds; squared, minutes


def test_no_text_takes_long_that_repeats_a_beginning() -> None:
    slow = [piece for piece in HOSTILE if fastest(piece * ((1 << 16) // len(piece))) >= 1.0]
    assert slow == []


def test_no_text_takes_long_that_never_ends_what_it_began() -> None:
    texts = {
        start + rest: start + rest * ((1 << 16) // len(rest))
        for start in STARTS
        for rest in (" ", "-", "a", "a:", "a.")
    }
    assert [begun for begun, text in texts.items() if fastest(text) >= 1.0] == []


def fastest(text: str) -> float:
    """Seconds of this process's own time, so that a busy machine counts little; tried again only where it matters."""
    took = float("inf")
    for _ in range(3):
        began = time.process_time()
        assert sum(1 for _ in find(text)) >= 0
        took = min(took, time.process_time() - began)
        if took < 1.0:
            break
    return took


# -- values ------------------------------------------------------------------------------------------

TOKEN = PROVIDERS["github"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (TOKEN, "state"),
        ([1, "a", TOKEN], "state[2]"),
        (("a", TOKEN), "state[1]"),
        ({"a": {"b c": [None, {"d": TOKEN}]}}, "state.a['b c'][1].d"),
        ({"client_secret": "Zx81kQ0pLm22"}, "state.client_secret"),
        ({"DB_PASSWORD": "hunter2"}, "state.DB_PASSWORD"),
        ({"passwords": 1, "password": ["hunter2"]}, "state.password[0]"),
        ({"password": 12345678}, "state.password"),
        ({"a": {TOKEN: 1}}, "state.a"),
        ({TOKEN: {"b": TOKEN}}, "state['***'].b"),
    ],
)
def test_a_secret_is_refused_by_its_path_in_a_value_and_in_its_json(value: Any, path: str) -> None:
    for given_as in (value, msgspec.Raw(json.dumps(value, indent=1).encode())):
        with pytest.raises(SecretFound) as refused:
            check(given_as, "state")
        assert refused.value.path in (path, "state" if path.startswith("state['***']") else path)
        assert TOKEN not in str(refused.value)
        _, paths = masked(given_as, "state")
        assert path in paths


def test_values_without_secrets_pass_and_are_not_changed() -> None:
    value = {
        "password": "",
        "token": None,
        "secret": True,
        "password_count": 123456,
        "a": [1, 2.5, "tokens: 3"],
        "": {},
    }
    assert check(value, "state") is None
    assert masked(value, "state") == (value, [])
    raw = b'{ "password" : "",\n "token":null, "n":1.50, "a":[ ], "b":[{"c":{}},2] , "d":"\\u0061"}'
    clean, paths = masked(msgspec.Raw(raw), "state")
    assert (bytes(clean), paths) == (raw, [])


def test_a_masked_value_keeps_its_shape() -> None:
    value = {"env": [f"A={TOKEN}", "B=1"], "password": "hunter2", "pin": ("x", TOKEN)}
    clean, paths = masked(value, "state")
    assert clean == {"env": ["A=***", "B=1"], "password": "***", "pin": ("x", "***")}
    assert paths == ["state.env[0]", "state.password", "state.pin[1]"]
    assert value["password"] == "hunter2"
    assert masked(clean, "state") == (clean, [])


def test_raw_json_is_masked_in_its_text_and_every_other_byte_stays() -> None:
    raw = f'{{ "n" : 1.50,\n "a":["{TOKEN}", 1e5], "password" : 123456789, "\\u0061":"\\u00e9 {TOKEN}" }}'.encode()
    clean, paths = masked(msgspec.Raw(raw), "state")
    assert bytes(clean) == '{ "n" : 1.50,\n "a":["***", 1e5], "password" : "***", "\\u0061":"é ***" }'.encode()
    assert paths == ["state.a[0]", "state.password", "state.a"]


def test_a_secret_hidden_by_escapes_or_by_a_second_key_is_found() -> None:
    escaped = "".join(f"\\u{ord(each):04x}" for each in TOKEN)
    for raw in (f'{{"a":"{escaped}"}}', f'{{"a":"{TOKEN}","a":1}}'):
        with pytest.raises(SecretFound, match=r"state\.a holds"):
            check(msgspec.Raw(raw.encode()), "state")


def test_masked_keys_do_not_take_each_others_place() -> None:
    other = "gh" + "o_" + MIX[:36]
    clean, paths = masked({TOKEN: 1, other: 2, "***": 3}, "state")
    assert clean == {"*** (2)": 1, "*** (3)": 2, "***": 3}
    assert paths == ["state"]
    raw, _ = masked(msgspec.Raw(json.dumps({TOKEN: 1, other: 2}).encode()), "state")
    assert json.loads(bytes(raw)) == {"***": 1, "*** (2)": 2}


plain = st.text(st.sampled_from('abé😀"\\\n*'), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain | st.just(TOKEN),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain | st.just("password"), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_a_value_and_its_raw_json_are_masked_alike(value: Any) -> None:
    clean, paths = masked(value, "v")
    raw, raw_paths = masked(msgspec.Raw(json.dumps(value).encode()), "v")
    assert json.loads(bytes(raw)) == clean
    assert raw_paths == paths
    assert TOKEN not in json.dumps(clean)
    check(clean, "v")


# -- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            "a/.env",
            ".env.local",
            ".env.production",
            "prod.env",
            ".envrc",
            "a b/server.pem",
            "tls.key",
            "x.PEM",
        ),
        *("id_rsa", "id_rsa.old", ".ssh/id_ed25519", ".netrc", ".npmrc", ".pypirc", ".aws/credentials", "store.p12"),
        *(
            "cert.pfx",
            "app.keystore",
            "secrets.yaml",
            "secrets.prod.json",
            "secret.toml",
            "credentials.json",
            ".pgpass",
        ),
    ],
)
def test_a_file_of_secrets_is_known_by_its_name(path: str) -> None:
    assert is_secret_file(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env.example",
            ".env.sample",
            ".env.template",
            "id_rsa.pub",
            "id_ed25519.pub",
            "secrets.example.yaml",
            "env",
        ),
        *(
            "env.py",
            "environment.yml",
            "src/secrets.py",
            "secrets.test.ts",
            "keys.py",
            "monkey",
            "credentials.py",
            "a.env/b",
        ),
        *("docs/secrets.md", "package.json", "", "secrets/readme.txt", "key.go"),
    ],
)
def test_other_files_are_no_files_of_secrets(path: str) -> None:
    assert not is_secret_file(path)
