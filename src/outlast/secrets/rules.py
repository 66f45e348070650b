"""What a secret looks like: named rules, each of which finds one kind in a text. Pure, and linear in the text.

Every pattern begins at a place where no earlier attempt can still be reading, or reads a bounded number of characters,
so that no text makes it slow. What only stands for a secret (`***`, `<token>`, `$VAR`, `changeme`, code) is none.

And keys and tokens that can be told by how they begin, or by a sign within: what each provider's look like. Pure data.

Every one is a word of at least `WORD` characters without a blank, and has one of its hints in it, written just so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from re import escape
from string import ascii_letters, digits

from msgspec import Struct
from msgspec.structs import replace

from outlast.secrets.placed import (
    BASIC_HINTS,
    COOKIE_HINTS,
    LOOKED_AT,
    SHORTEST,
    SIGNED_HINTS,
    is_passphrase,
    is_sent,
    is_url_password,
    look_for_basic,
    look_for_cookies,
    look_for_logins,
    look_for_signed,
    looks_real,
    places,
)
from outlast.values.frozen import NamedTuple
from outlast.values.text import lists_in

WORD = 20  # characters of the shortest of them


class Token(NamedTuple):
    """One kind: a pattern, and what every text has that it finds something in."""

    name: str
    kind: str  # as messages say it
    pattern: str
    hints: tuple[str, ...]
    offsets: tuple[int, ...] = (0,)  # how many characters of it come before the hint
    close_hints: tuple[str, ...] = ()  # the hints and what follows them, where ordinary text is full of them


# Where one begins: not within a word, unless what comes before is an escaped line end, a colour or a percent code. All
# of these have a sign in them that no token has, so that what is read from there was not read before.
_COLOURED = "|".join(rf"(?<=[\[;]{number}m)" for number in ("", r"\d", r"\d\d", r"\d\d\d"))
_ESCAPED = rf"(?<=\\[nrt])|{_COLOURED}|(?<=%[0-9A-F][0-9A-F])"
_A = rf"(?:(?<![A-Za-z0-9])|{_ESCAPED})"  # for those of letters and digits
_W = rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPED})"  # and those with `-` and `_`
BEGINS = (_A, _W)
_END = r"(?![A-Za-z0-9])"
_HEX = "0123456789abcdef"
_LETTERS = f"{ascii_letters}{digits}"
_PAT = tuple(f"path{sign}" if far else f"pat{sign}" for far in (0, 1) for sign in _LETTERS if far or sign != "h")

_JWT = r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
_OPENAI = r"sk-(?:(?:proj|svcacct|admin|None|or-v1|lf)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})"
_GITLAB = (
    *("glpat-", "gldt-", "glrt-", "glrtr-", "glft-", "glptt-", "glcbt-", "glagent-", "glsoat-", "glimt-", "gloas-"),
    *("glffct-", "GR1348941"),
)
_SLACK_URL = (
    r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9]{6,20}/[A-Za-z0-9]{6,20}/[A-Za-z0-9/]{16,})"
)
_AZURE = rf"(?:(?<![A-Za-z0-9+])|{_ESCAPED})[A-Za-z0-9+/]{{76}}\+A[A-Z][a-z][A-Za-z0-9+/]{{6}}=="
_ROUTED = r"(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?"  # what newer tokens of GitLab end with
_NUMBER = ("MT", "MD", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")  # how digits begin in base64

TOKENS: tuple[Token, ...] = (
    Token(
        "aws",
        "an AWS access key",
        rf"{_A}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
    ),
    Token("aws_bedrock", "an AWS key", rf"{_A}ABSK[A-Za-z0-9+/]{{100,}}={{0,2}}", ("ABSK",)),
    Token(
        "azure_client", "an Azure client secret", rf"{_W}[A-Za-z0-9_~.]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}", ("Q~",), (4,)
    ),
    Token("azure_storage", "an Azure key", _AZURE, ("+A",), (76,)),
    Token("azure_devops", "an Azure token", rf"{_A}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}", ("AZDO",), (76,)),
    Token("azure_signature", "an Azure signature", r"[?&]sig=([A-Za-z0-9%+/]{43,60}(?:%3[Dd]|=))", ("sig=",), (1,)),
    Token("github", "a GitHub token", rf"{_A}gh[oprsu]_[A-Za-z0-9]{{30,}}", ("gho_", "ghp_", "ghr_", "ghs_", "ghu_")),
    Token("github_app", "a GitHub token", rf"{_W}ghs_\d{{1,20}}_{_JWT}", ("ghs_",)),
    Token("github_pat", "a GitHub token", rf"{_W}github_pat_[A-Za-z0-9_]{{22,}}", ("github_pat_",)),
    Token("gitlab", "a GitLab token", rf"{_W}(?:{'|'.join(_GITLAB)})[A-Za-z0-9_-]{{20,}}{_ROUTED}", _GITLAB),
    Token(
        "slack",
        "a Slack token",
        rf"{_W}(?:xox[a-z](?:\.xox[a-z])?|xapp|xwfp)-[A-Za-z0-9%+/-]{{15,}}",
        ("xox", "xapp-", "xwfp-"),
    ),
    Token("slack_url", "a Slack webhook", _SLACK_URL, ("hooks.slack.com",)),
    Token("stripe", "a Stripe key", rf"{_A}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}", ("k_live_", "k_test_"), (1,)),
    Token("anthropic", "an Anthropic key", rf"{_W}sk-ant-[A-Za-z0-9_-]{{20,}}", ("sk-ant-",)),
    Token("openai", "an OpenAI key", rf"{_W}{_OPENAI}", ("sk-",)),
    Token("google", "a Google key", rf"{_W}AIza[A-Za-z0-9_-]{{30,}}", ("AIza",)),
    Token("google_refresh", "a Google token", r"(?<![A-Za-z0-9:])1//0[A-Za-z0-9_-]{40,}", ("1//0",)),
    Token("npm", "an npm token", rf"{_A}npm_[A-Za-z0-9]{{30,}}", ("npm_",)),
    Token("pypi", "a PyPI token", rf"{_W}pypi-Ag[A-Za-z0-9_-]{{30,}}", ("pypi-Ag",)),
    Token("sendgrid", "a SendGrid key", rf"{_W}SG\.[A-Za-z0-9_-]{{16,64}}\.[A-Za-z0-9_-]{{16,}}", ("SG.",)),
    Token("twilio", "a Twilio key", rf"{_A}SK[0-9a-f]{{32}}{_END}", ("SK",), (0,), tuple(f"SK{sign}" for sign in _HEX)),
    Token("outlast", "an Outlast key", rf"{_A}ol_[a-z0-9]{{12}}_[A-Za-z0-9_-]{{43}}", ("ol_",)),
    Token("hugging_face", "a Hugging Face token", rf"{_A}(?:hf|api_org)_[A-Za-z0-9]{{30,}}", ("hf_", "api_org_")),
    Token("digital_ocean", "a DigitalOcean token", rf"{_A}do[opr]_v1_[0-9a-f]{{32,}}", ("_v1_",), (3,)),
    Token("telegram", "a Telegram token", rf"{_A}\d{{8,10}}:AA[A-Za-z0-9_-]{{32,}}", (":AA",), (8, 9, 10)),
    Token(
        "discord",
        "a Discord token",
        rf"{_W}[MNO][A-Za-z0-9_-]{{22,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,}}",
        _NUMBER,
    ),
    Token("discord_url", "a Discord webhook", r"/api/webhooks/\d{10,25}/([A-Za-z0-9_-]{40,})", ("/api/webhooks/",)),
    Token(
        "mailchimp",
        "a Mailchimp key",
        rf"{_A}[0-9a-f]{{32}}-us\d{{1,2}}{_END}",
        ("-us",),
        (32,),
        tuple(f"-us{sign}" for sign in _HEX[:10]),
    ),
    Token(
        "terraform",
        "a Terraform token",
        rf"{_A}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_-]{{40,}}",
        (".atlasv1.",),
        (14,),
    ),
    Token("airtable", "an Airtable token", rf"{_A}pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}", ("pat",), (0,), _PAT),
    Token("jwt", "a JWT", rf"{_W}{_JWT}", ("eyJ",)),
)

# More of them, by what each begins with and what follows. They need no name of their own: "a provider's key".
_FILE = Path(__file__).with_name("tokens.txt")
MORE: dict[str, str] = dict(line.split() for line in lists_in(_FILE.read_text("utf-8"))["more"].splitlines())


def more_tokens() -> list[Token]:
    """Each of them as a kind."""
    made = []
    for begin, rest in MORE.items():
        end = _END if rest.endswith("}") and not rest.endswith(",}") else ""  # of so many characters, and no more
        made.append(Token(f"key:{begin}", "a provider's key", rf"{_W}{escape(begin)}{rest}{end}", (begin,)))
    return made


Span = tuple[int, int]
Look = Callable[[str], Iterable[Span]]


class SecretRule(Struct, frozen=True, eq=False):
    """One kind of secret. `look` gives where each begins and ends in a text."""

    name: str
    kind: str  # as messages say it: "a GitHub token"
    look: Look
    hints: tuple[str, ...] = ()  # a text without any of these holds none; (): ask `look`
    cased: bool = False  # the hints are in it just so; else in large or small letters
    in_word: bool = False  # it has no blank in it, at least `WORD` characters, and one of the hints
    pattern: str = ""  # of a token: it says how much follows a hint
    offsets: tuple[int, ...] = (0,)  # how many characters of a token come before the hint
    # Of much text, which may have a hint in every line: the same said more closely, as hints or as a pattern.
    close_hints: tuple[str, ...] = ()
    close_pattern: re.Pattern[bytes] | None = None  # its group 1 is the rule's one hint
    close_sign: bytes = b""  # what it finds has this sign
    many_lines: bool = False  # it may have more than two


def by_pattern(
    name: str, kind: str, pattern: str, *hints: str, real: Callable[[str], bool] | None = None
) -> SecretRule:
    """A rule that looks for a pattern; the secret is its group 1, else all of it."""
    compiled = re.compile(pattern)
    group, judge = min(compiled.groups, 1), real or _is_no_filler

    def look(text: str) -> Iterator[Span]:
        if not hints or any(hint in text for hint in hints):
            yield from (found.span(group) for found in compiled.finditer(text) if judge(found[group]))

    return SecretRule(name, kind, look, hints, cased=True)


def by_token(token: Token) -> SecretRule:
    """A rule that looks for a kind of token where its hints are, and nowhere else."""

    def look(text: str) -> Iterator[Span]:
        compiled = _compiled(token.pattern)
        group = min(compiled.groups, 1)
        at = 0  # where the last one ended: what begins within it is part of it
        for place in (place - offset for place in places(text, token.hints) for offset in token.offsets):
            found = compiled.match(text, place) if place >= at else None
            if found is None:
                continue
            at = found.end()
            if _is_no_filler(found[group]):
                yield found.span(group)

    made = SecretRule(token.name, token.kind, look, token.hints, cased=True, in_word=True)
    return replace(made, pattern=token.pattern, offsets=token.offsets, close_hints=token.close_hints)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # when it is first needed: most are never


def _is_no_filler(text: str) -> bool:
    """Not the end of `ghp_xxxxxxxxxxxxxxxx`."""
    return len(set(text[-16:])) > 1 or text[-1] not in "xX0*."


# -- named values: password=…, "client_secret": "…", --token … ---------------------------------------

_PASSWORD = r"pass(?:word|wd|phrase|code|(?<=[_-]pass))|pwd"
_OWNERS = "api|access|private|encryption|signing|auth|account|master|storage|shared"  # of a key
_OWNER = rf"(?:{_OWNERS})[_ -]?"
_OTHER = rf"{_PASSWORD}|secret(?:[_-]?access)?(?:[_-]?key)?|token|credentials?"
_NAMED = rf"(?:{_OTHER}|{_OWNER}key)"
_TYPE = r":[ \t]*[a-z_][\w.\[\]]{0,30}(?:[ \t]*\|[ \t]*none)?[ \t]*=(?!=)"  # password: str | None = "…"
_ASSIGNED = re.compile(rf"({_OTHER}|key)(?:\\?[\"'`])?\]?[ \t]*(?:{_TYPE}|=>|:=|[=:](?![=:]))[ \t]*")
_FLAG = re.compile(rf"({_OTHER}|key)[ \t]+(?!-)")
_FLAG_BEGIN = re.compile(r"--(?:[a-z0-9]{1,20}-){0,3}\Z")
_KEY_OWNER = re.compile(rf"{_OWNER}\Z")
_SECRET_NAME = re.compile(rf"{_NAMED}\Z")
_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_FOLLOWS_NAME = "\\\"'`] \t:="  # what a value is set apart by, or what comes before that
_HARMLESS = re.compile(r"(?:next|page|continuation|cancel|cancellation|pad|eos|bos|unk|sep|cls|stop|public)[_ -]?\Z")
_SPACED = re.compile(r"[ \t:]=[ \t]+\Z|=>")  # as code is written; shells and settings leave no blanks
_OPENING = re.compile(r"[bBrRuUfF]{0,2}(\\?[\"'`])")
_BODIES = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*'),
    "'": re.compile(r"(?:[^'\\\n]|\\.)*"),
    "`": re.compile(r"[^`\n]*"),
    "\\": re.compile(r"[^\"'`\\\n]*"),  # quoted inside of a text that is quoted itself
    "": re.compile(r"(?:[^\s\"'`<>()\[\]{},;&\\]|[,;&](?!\s|[\w.-]{1,40}[=:]|\Z))*"),
}


def name_kind(name: str) -> str:
    """What a value of this name is, if the name says that it is secret: `a password`, `a token`; else ""."""
    end = _lowered(name[-80:])
    found = _SECRET_NAME.search(end)
    return "" if not found or _HARMLESS.search(end, 0, found.start()) else _kind_of(found[0])


def has_secret_word(text: str) -> bool:
    """Whether one of the words is in it that every name of a secret ends with."""
    return any(map(_lowered(text).__contains__, _WORDS))


def is_password(kind: str) -> bool:
    return kind == "a password"


def _kind_of(word: str) -> str:
    kinds = {"pas": "a password", "pwd": "a password", "tok": "a token", "sec": "a secret", "cre": "a credential"}
    return kinds.get(word[:3], "a key")


def _close_names() -> tuple[str, ...]:
    """The words with what may come before and after them: `tokens`, `passed` and `"key"` are the names of no secret.

    Before and after may be a colour, which ends with `m` or `K`.
    """
    goes_on = {"pass": "wpc", "secret": "_-ak"}
    ends = dict.fromkeys("_ -mk" + "".join(owner[-1] for owner in _OWNERS.split("|")))
    words = ("pass", "pwd", "secret", "token", *(f"{end}key" for end in ends))
    return (
        "credential",
        *(f"{word}{sign}" for word in words for sign in goes_on.get(word, "") + _FOLLOWS_NAME + "\x1b"),
    )


def _look_for_named(text: str) -> Iterator[Span]:
    has_flags = "--" in text
    if not has_flags and ":" not in text and "=" not in text:  # nothing has a value
        return
    lowered, at = _lowered(text), 0
    for place in places(lowered, _WORDS):
        name = _name_at(lowered, place, has_flags) if place >= at else None
        span = _value_at(text, name) if name is not None else None
        if span is not None:
            yield span
            at = span[1]


def _name_at(lowered: str, place: int, has_flags: bool) -> re.Match[str] | None:
    """The name that has one of the words there, with what sets its value apart; None where it names no secret."""
    name, begin = _ASSIGNED.match(lowered, place), place
    if name is None:
        name = _FLAG.match(lowered, place) if has_flags else None
        if name is None:
            return None
    if name[1] == "key":
        owner = _KEY_OWNER.search(lowered, max(0, place - 11), place)
        if owner is None:
            return None
        begin = owner.start()
    if _HARMLESS.search(lowered, max(0, begin - 16), begin):
        return None
    is_flag = name.re is _FLAG
    return None if is_flag and not _FLAG_BEGIN.search(lowered, max(0, begin - 66), begin) else name


def _lowered(text: str) -> str:
    return text.replace("İ", "i").lower()  # the only character whose small form is longer: places must stay


def _value_at(text: str, name: re.Match[str]) -> Span | None:
    """Where the value behind a name is, if it looks real."""
    opening = _OPENING.match(text, name.end())
    start, mark = (opening.end(), opening[1][0]) if opening else (name.end(), "")
    if not mark and is_password(_kind_of(name[1])) and (phrase := _phrase_at(text, start)):
        return phrase
    seen = _BODIES[mark].match(text, start, start + LOOKED_AT)
    if seen is None or len(seen[0]) < SHORTEST:
        return None
    if not looks_real(seen[0], password=is_password(_kind_of(name[1])), quoted=bool(mark)):
        return None
    whole = _BODIES[mark].match(text, start)
    return (start, whole.end()) if whole and (mark or not _is_code(text, name, seen)) else None


def _phrase_at(text: str, start: int) -> Span | None:
    """Words to the end of the line that are a passphrase."""
    line = text[start : start + LOOKED_AT].partition("\n")[0].rstrip()
    return (start, start + len(line)) if is_passphrase(line.split()) else None


def _is_code(text: str, name: re.Match[str], seen: re.Match[str]) -> bool:
    """Whether a value without quotes is a call, an index, or an identifier in a line of code."""
    spaced = _SPACED.search(name[0]) is not None
    return text[seen.end() : seen.end() + 1] in ("(", "[", "{") or (spaced and seen[0].rstrip(";,").isidentifier())


def _look_for_pem(text: str) -> Iterator[Span]:
    yield from (found.span() for found in _PEM.finditer(text) if _PEM_BODY.search(found[1]))


_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s\\:,.]|-(?!----))*)"
    r"(?:-----END [A-Z0-9 ]{0,50}-----)?"
)
_PEM_HINTS = ("PRIVATE KEY", "PRIVATE\x1b", "mKEY", "KKEY")  # a colour may stand beside the blank
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=]{16}")

# -- the rules ---------------------------------------------------------------------------------------

_SENT = r"(?i:authorization)\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?i:bearer|basic|token)[ \t]+([\w.~+/=-]{8,})"
_NEAR_AT = re.compile(rb"(://)(?=[^\s/?#\"'<>@]{0,2048}@)")  # as many bytes as the characters below have at most
_IN_URL = r"://[^\s/?#:@\"'<>]{0,128}:([^\s/?#\"'<>]{1,256})@(?!sha\d)"

RULES: tuple[SecretRule, ...] = (
    SecretRule(
        *("private_key", "a private key", _look_for_pem, _PEM_HINTS[:1]),
        cased=True,
        close_hints=_PEM_HINTS,
        many_lines=True,
    ),
    *map(by_token, (*TOKENS, *more_tokens())),
    by_pattern("authorization", "an Authorization header", _SENT, "uthorization", "UTHORIZATION", real=is_sent),
    by_pattern("bearer", "a bearer token", r"\b[Bb]earer[ \t]+([\w.~+/=-]{20,})", "earer", real=is_sent),
    replace(
        by_pattern("url_password", "a password in a URL", _IN_URL, "://", real=is_url_password),
        close_pattern=_NEAR_AT,
        close_sign=b"@",
    ),
    SecretRule("basic", "a login in base64", look_for_basic, BASIC_HINTS, cased=True),
    SecretRule("login", "a login", look_for_logins, ("curl", "password"), cased=True),
    SecretRule("cookie", "a cookie", look_for_cookies, COOKIE_HINTS, cased=True),
    SecretRule("signed_url", "a signature", look_for_signed, SIGNED_HINTS, cased=True),
    SecretRule("named", "a password, token or key", _look_for_named, _WORDS, close_hints=_close_names()),
)
