"""Secrets that are told by where they stand: logins, cookies, signed URLs, passphrases, values that look like a filler.

Each is found in one piece and in a stream that is cut anywhere, in colour too; what only stands for one is left alone.
"""

import base64

import pytest

from outlast.secrets.find import MASK, RULES, find, mask, masked
from outlast.secrets.stream import Masking

from ..kit.cost import growth

BASIC = base64.b64encode(b"ann:correct-horse").decode()
SIGNATURE = "3f786850e387550fdab836ed7e6dc881de23001b9f1c2d3e4a5b6c7d8e9f0a1b"
DRAWN = "q7R8s9T0u1V2w3X4"
PEM = f"-----BEGIN PRI{'VATE'} KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\\n-----END PRI{'VATE'} KEY-----\\n"

FOUND = {
    "curl -u ann:hunter2 https://x.example/": "curl -u ann:*** https://x.example/",
    "curl -s --user 'ann:hunter2' https://x.example/": "curl -s --user 'ann:***' https://x.example/",
    'curl --proxy-user "ann:hunter2" x': 'curl --proxy-user "ann:***" x',
    "curl -uann:hunter2 x": "curl -uann:*** x",
    "machine x.example login ann password hunter2": "machine x.example login ann password ***",
    "  password hunter2-x9": "  password ***",
    f'{{"auths": {{"r.example": {{"auth": "{BASIC}"}}}}}}': '{"auths": {"r.example": {"auth": "***"}}}',
    f'{{\\"auth\\": \\"{BASIC}\\"}}': '{\\"auth\\": \\"***\\"}',
    f"//r.example/:_auth={BASIC}": "//r.example/:_auth=***",
    f"Authorization: Basic {BASIC}": "Authorization: Basic ***",
    f"-H 'Proxy-Authorization: basic {BASIC}'": "-H 'Proxy-Authorization: basic ***'",
    f"Cookie: theme=dark; session={DRAWN}; n=1": "Cookie: theme=dark; session=***; n=1",
    f"Set-Cookie: sid={DRAWN}; Path=/; Max-Age=3600; HttpOnly": "Set-Cookie: sid=***; Path=/; Max-Age=3600; HttpOnly",
    f'"set-cookie": "sid={DRAWN}; Secure"': '"set-cookie": "sid=***; Secure"',
    f"curl --cookie 'sid={DRAWN}' -H 'Cookie: a={DRAWN}; b={DRAWN}'": None,
    f"https://s3.example/x?X-Amz-Date=1&X-Amz-Signature={SIGNATURE}": "https://s3.example/x?X-Amz-Date=1&X-Amz-Signature=***",
    f"https://g.example/x?X-Goog-Signature={SIGNATURE}&a=1": "https://g.example/x?X-Goog-Signature=***&a=1",
    f"https://c.example/x?Expires=1&Signature={DRAWN}~{DRAWN}__&Key-Pair-Id=K1": None,
    f"https://b.example/x?sv=2024&sig={DRAWN}{DRAWN}%2B8%3D&se=1": "https://b.example/x?sv=2024&sig=***&se=1",
    f"https://h.example/x?token={DRAWN}&page=2": "https://h.example/x?token=***&page=2",
    'password = "correct horse battery staple"': 'password = "***"',
    "passphrase: correct horse battery staple": "passphrase: ***",
    "password=correct-horse-battery-staple": "password=***",
    'password="my dog Rex1999x"': 'password="***"',
    "password=test-a8f3k2m9z1": "password=***",
    "password=example9f8a7s6d": "password=***",
    "PASSWORD=my-9f8a7s6d5g": "PASSWORD=***",
    f"token = no-{DRAWN}": "token = ***",
    "DB_PASSWORD=9f8a7s6d5g.abc": "DB_PASSWORD=***",
    "PGPASSWORD=hunter2 psql": "PGPASSWORD=*** psql",
    "mysqldump --password hunter22 x": "mysqldump --password *** x",
    "Server=db;User Id=sa;Password=hunter2;Timeout=5": "Server=db;User Id=sa;Password=***;Timeout=5",
    f'"private_key": "{PEM}"': '"private_key": "***"',
    "password=\x1b[32mhunter2\x1b[0m": "password=\x1b[32m***\x1b[0m",
    "\x1b[1mpassword\x1b[0m: hunter2": "\x1b[1mpassword\x1b[0m: ***",
    "\x1b[36mAPI_\x1b[1mKEY\x1b[0m=\x1b[33mabcd1234\x1b[31mefgh\x1b[0m ok": None,
    "error \x1b[31mgh" + "p_" + "a1B2c3D4e5\x1b[1mF6g7H8i9J0k1L2m3N4o5P6q7R8\x1b[0m.": "error \x1b[31m***\x1b[0m.",
}


@pytest.mark.parametrize(("text", "shown"), FOUND.items(), ids=[text[:40] for text in FOUND])
def test_it_is_found_and_only_it_is_masked(text: str, shown: str | None) -> None:
    clean = mask(f"a line\n{text}\nand another")
    if shown is not None:
        assert clean == f"a line\n{shown}\nand another"
    assert MASK in clean
    assert [each for each in (DRAWN, "hunter2", "1234") if each in clean] == []
    assert mask(clean) == clean


@pytest.mark.parametrize("size", [1, 3, 7, 20])
def test_a_stream_that_is_cut_anywhere_shows_none_of_them(size: int) -> None:
    whole = "".join(f"{text}\n" for text in FOUND).encode()
    stream = Masking(RULES)
    pieces = [stream.feed(whole[at : at + size]) + stream.pause() for at in range(0, len(whole), size)]
    shown = (b"".join(pieces) + stream.rest()).decode()
    assert shown == "".join(mask(f"{text}\n") for text in FOUND)


def test_a_login_of_docker_is_masked_as_a_value() -> None:
    assert masked({"auths": {"r.example": {"auth": BASIC, "email": "a@x.example"}}}, "v") == (
        {"auths": {"r.example": {"auth": MASK, "email": "a@x.example"}}},
        ["v.auths['r.example'].auth"],
    )


LEFT_ALONE = """
curl -u "$USER:$PASS" https://x.example/ ; curl -u user:password x ; curl -u <name>:<token> x
sort -u a:b:c ; date -u 12:30:45 ; docker run --user 1000:1000 image
machine x login y password <secret> ; the login page asks for your password again
password required ; password is not shown here
auth = "required" ; "auth": "basic" ; auth: kerberos5 ; Basic authentication ; basic arithmetic
Cookie: theme=dark; lang=en ; Set-Cookie: NAME=VALUE; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/
?sig=abc&signature=none ; def f(x, signature=inspect.signature(call)): ; &signature=<signature>
password = "please enter your new password" ; "password": "The password must have twelve characters"
password: the one that you were given by mail ; password="reset the forgotten user login"
password=test1234 ; password=example ; password=my_password_2 ; password=changeme123 ; password=settings.py
password=your-password-here ; token=test_token_1 ; secret=not_so_secret_1 ; password=no-reply@x.org
"""


@pytest.mark.parametrize("line", LEFT_ALONE.strip().split("\n"))
def test_what_only_stands_for_one_is_left_alone(line: str) -> None:
    assert [line[each.start : each.end] for each in find(line)] == []


PIECES = [
    *(
        "curl -u ",
        "curl -u a:",
        " -u a:b",
        "login a password ",
        "password ",
        "\npassword ",
        "Basic ",
        '"auth":"',
        "auth=",
    ),
    *(
        "Cookie: ",
        "Cookie: a=",
        "cookie:a=b;",
        "a=b; ",
        "?sig=",
        "&Signature=",
        "\x1b[1m",
        "\x1b[",
        "pass\x1b[m",
        "password=",
    ),
    *("password=a ", "password=word ", "Basic AAAA", "auth:auth:", "-u a:b curl"),
]


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_costs_more_than_its_size(piece: str) -> None:
    small, large, larger = (piece * (size // len(piece)) for size in (1 << 13, 1 << 15, 1 << 17))
    grown = growth(lambda: mask(small), lambda: mask(large))
    if grown > 8:  # a short text may be looked at on a shorter way: what grows so, grows so again
        grown = growth(lambda: mask(large), lambda: mask(larger))
    assert grown <= 8
