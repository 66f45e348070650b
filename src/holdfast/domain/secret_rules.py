"""What a secret looks like: named rules, each of which finds one kind in a text. Pure, and linear in the text.

Every pattern begins at a place where no earlier attempt can still be reading, or reads a bounded number of characters,
so that no text makes it slow. What only stands for a secret (`***`, `<token>`, `$VAR`, `changeme`, code) is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

Span = tuple[int, int]
Look = Callable[[str], Iterable[Span]]
SHORTEST = 6  # characters of a value that has only its name against it
LOOKED_AT = 200  # characters of a value that are judged; what was found real reaches to its end all the same


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One kind of secret. `look` gives where each begins and ends in a text."""

    name: str
    kind: str  # as messages say it: "a GitHub token"
    look: Look
    hints: tuple[str, ...] = ()  # a text without any of these holds none; (): ask `look`
    cased: bool = False  # the hints are in it just so; else in large or small letters


def by_pattern(name: str, kind: str, pattern: str, *hints: str, real: Callable[[str], bool] | None = None) -> Rule:
    """A rule that looks for a pattern; the secret is its group 1, else all of it."""
    compiled = re.compile(pattern)
    group, judge = min(compiled.groups, 1), real or _is_no_filler

    def look(text: str) -> Iterator[Span]:
        if not hints or any(hint in text for hint in hints):
            yield from (found.span(group) for found in compiled.finditer(text) if judge(found[group]))

    return Rule(name, kind, look, hints, cased=True)


def _is_no_filler(text: str) -> bool:
    """Not the end of `ghp_xxxxxxxxxxxxxxxx`."""
    return len(set(text[-16:])) > 1 or text[-1] not in "xX0*."


# -- values that look real ---------------------------------------------------------------------------

_PLACEHOLDER = re.compile(
    r"""[<\[({|>] | \$[A-Za-z_]\w*\Z | %\w*% | [!&*][a-z]+\Z   # <token>, $VAR, {{ value }}, code
    | (?:\.{1,2}|~)?/(?:[\w.@-]+/)*[\w.@-]*\Z | [\w.@/-]+\.[a-z]{1,5}\Z   # a path
    | (?:arn|sha\d+|md5|vault|file|env|ref)[:-]               # says where it is, or what its digest is
    | \d{4}-\d\d-\d\d | (.)\1*\Z                              # a date; one character over and over
    | (?:your|my|the|some|insert|replace|enter|put|set|change|need|not|no)[_ -]
    | (?:change_?me|placeholder|example|sample|dummy|fake|test|redacted|masked|hidden|removed|todo|none|null|xxx)""",
    re.IGNORECASE | re.VERBOSE,
)
_TEMPLATE = re.compile(r"\*\*|\.\.\.|…|••|\$[{(]|\{\{|\{[\w.]*\}|://|%\(|\(\?")  # filled in later, cut, a pattern
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|(?:password|passwd|pwd|secret|token|key)_?\d?", re.IGNORECASE
)
_NAMING = re.compile(r"(?:[A-Za-z]{2,}|\d{1,4}|v\d+)(?:[-_./:](?:[A-Za-z]{2,}|\d{1,4}|v\d+))+")
_SEPARATORS = re.compile(r"[-_./:\s]|[*?!,;:]+\Z")


def looks_real(value: str, *, password: bool = False, quoted: bool = True) -> bool:
    """Whether the value of something that is named like a secret looks like one."""
    core = _SEPARATORS.sub("", value)
    if len(value) < SHORTEST or (core.isalpha() and not _is_jumbled(core)) or stands_for_one(value):
        return False
    if not quoted and _CODE.fullmatch(value):
        return False
    if len(words := value.split()) > 1:  # prose, unless one of its words is no word
        return any(is_mixed(word) and not stands_for_one(word) for word in words)
    if password:
        return len(core) >= 4
    return (is_mixed(value) and not _NAMING.fullmatch(value)) or _is_jumbled(core)


def stands_for_one(value: str) -> bool:
    """Whether a value only shows where a secret belongs, or where one is."""
    return _PLACEHOLDER.match(value) is not None or _TEMPLATE.search(value) is not None


def is_mixed(text: str) -> bool:
    """Letters and digits in one, as words seldom have them."""
    digits = sum(map(str.isdigit, text))
    return len(text) >= 8 and digits >= 2 and sum(map(str.isalpha, text)) >= 2


def _is_jumbled(text: str) -> bool:
    """Large and small letters without the order that a name has."""
    changes = sum(one.isupper() != two.isupper() for one, two in pairwise(text))
    return len(text) >= 16 and changes * 3 >= len(text)


def _is_sent(text: str) -> bool:
    """What stands behind `Bearer`."""
    text = text[:LOOKED_AT]
    return not stands_for_one(text) and (is_mixed(text) or _is_jumbled(text))


def _is_url_password(text: str) -> bool:
    words = ("pass", "passwd", "password", "secret", "pwd", "pw", "token")
    return len(text) >= 3 and not stands_for_one(text) and text.lower() not in words


# -- named values: password=…, "client_secret": "…", --token … ---------------------------------------

_PASSWORD = r"pass(?:word|wd|phrase|code|(?<=[_-]pass))|pwd"
_NAMED = (
    rf"(?:{_PASSWORD}|secret(?:[_-]?access)?(?:[_-]?key)?|token|credentials?"
    r"|(?:api|access|private|encryption|signing|auth|account|master|storage|shared)[_ -]?key)"
)
_TYPE = r":[ \t]*[a-z_][\w.\[\]]{0,30}(?:[ \t]*\|[ \t]*none)?[ \t]*=(?!=)"  # password: str | None = "…"
_ASSIGNED = re.compile(rf"({_NAMED})(?:\\?[\"'`])?\]?(?:[ \t]*(?:{_TYPE}|=>|:=|[=:](?![=:])))[ \t]*")
_FLAG = re.compile(rf"--(?:[a-z0-9]{{1,20}}-){{0,3}}({_NAMED})[ \t]+(?!-)")
_SECRET_NAME = re.compile(rf"{_NAMED}\Z")
_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
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


def _look_for_named(text: str) -> Iterator[Span]:
    if has_secret_word(text):
        lowered = _lowered(text)
        yield from _named(text, lowered, _ASSIGNED)
        yield from _named(text, lowered, _FLAG)


def _lowered(text: str) -> str:
    return text.replace("İ", "i").lower()  # the only character whose small form is longer: places must stay


def _named(text: str, lowered: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    at = 0
    while name := pattern.search(lowered, at):
        at = name.end()
        span = _value_at(text, name)
        if span is not None and not _HARMLESS.search(lowered, max(0, name.start(1) - 16), name.start(1)):
            yield span
            at = span[1]


def _value_at(text: str, name: re.Match[str]) -> Span | None:
    """Where the value behind a name is, if it looks real."""
    opening = _OPENING.match(text, name.end())
    start, mark = (opening.end(), opening[1][0]) if opening else (name.end(), "")
    seen = _BODIES[mark].match(text, start, start + LOOKED_AT)
    if seen is None or len(seen[0]) < SHORTEST:
        return None
    if not looks_real(seen[0], password=is_password(_kind_of(name[1])), quoted=bool(mark)):
        return None
    whole = _BODIES[mark].match(text, start)
    return (start, whole.end()) if whole and (mark or not _is_code(text, name, seen)) else None


def _is_code(text: str, name: re.Match[str], seen: re.Match[str]) -> bool:
    """Whether a value without quotes is a call, an index, or an identifier in a line of code."""
    spaced = _SPACED.search(name[0]) is not None
    return text[seen.end() : seen.end() + 1] in ("(", "[", "{") or (spaced and seen[0].rstrip(";,").isidentifier())


def _look_for_pem(text: str) -> Iterator[Span]:
    if "PRIVATE KEY" in text:
        yield from (found.span() for found in _PEM.finditer(text) if _PEM_BODY.search(found[1]))


_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s\\:,.]|-(?!----))*)"
    r"(?:-----END [A-Z0-9 ]{0,50}-----)?"
)
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=]{16}")


# -- the rules ---------------------------------------------------------------------------------------

_A = r"(?<![A-Za-z0-9])"  # where bodies of letters and digits begin
_W = r"(?<![A-Za-z0-9_-])"  # and those with `-` and `_`
_AWS = rf"{_A}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Za-z0-9])"
_OPENAI = rf"{_W}sk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{{20,}}|[A-Za-z0-9]{{20,}})"
_SLACK_URL = r"hooks\.slack\.com/services/([A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,})"
_JWT = rf"{_W}eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}"
_SENT = r"(?i:authorization)\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?i:bearer|basic|token)[ \t]+([\w.~+/=-]{8,})"
_IN_URL = r"://[^\s/?#:@\"'<>]{0,128}:([^\s/?#\"'<>]{1,256})@(?!sha\d)"
_GITLAB = ("gldt-", "glrt-", "glft-", "glpat-", "glptt-", "glcbt-", "glagent-", "glsoat-")
_MORE = {  # by what each begins with
    "gsk_": r"gsk_[A-Za-z0-9]{40,}",
    "r8_": r"r8_[A-Za-z0-9]{30,}",
    "lin_api_": r"lin_api_[A-Za-z0-9]{32,}",
    "shp": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32,}",
    "AGE-SECRET-KEY-1": r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
    "hvs.": r"hvs\.[A-Za-z0-9_-]{24,}",
    "dckr_pat_": r"dckr_pat_[A-Za-z0-9_-]{20,}",
    "xai-": r"xai-[A-Za-z0-9]{40,}",
    "glsa_": r"glsa_[A-Za-z0-9_]{32,}",
    "nvapi-": r"nvapi-[A-Za-z0-9_-]{40,}",
    "whsec_": r"whsec_[A-Za-z0-9+/=]{24,}",
    "tskey-": r"tskey-[a-z]{3,8}-[A-Za-z0-9-]{20,}",
    "ATATT3": r"ATATT3[A-Za-z0-9_=-]{40,}",
    "GOCSPX-": r"GOCSPX-[A-Za-z0-9_-]{20,}",
    "ya29.": r"ya29\.[A-Za-z0-9_-]{20,}",
}

RULES: tuple[Rule, ...] = (
    Rule("private_key", "a private key", _look_for_pem, ("PRIVATE KEY",), cased=True),
    by_pattern("aws", "an AWS access key", _AWS, "AKIA", "ASIA", "ABIA", "ACCA"),
    by_pattern("github", "a GitHub token", rf"{_A}gh[oprsu]_[A-Za-z0-9]{{30,}}", *(f"gh{each}_" for each in "oprsu")),
    by_pattern("github_pat", "a GitHub token", rf"{_W}github_pat_[A-Za-z0-9_]{{22,}}", "github_pat_"),
    by_pattern("gitlab", "a GitLab token", rf"{_W}(?:{'|'.join(_GITLAB)})[A-Za-z0-9_-]{{20,}}", *_GITLAB),
    by_pattern("slack", "a Slack token", rf"{_W}(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{{10,}}", "xox", "xapp-"),
    by_pattern("slack_url", "a Slack webhook", _SLACK_URL, "hooks.slack.com"),
    by_pattern("stripe", "a Stripe key", rf"{_A}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}", "k_live_", "k_test_"),
    by_pattern("anthropic", "an Anthropic key", rf"{_W}sk-ant-[A-Za-z0-9_-]{{20,}}", "sk-ant-"),
    by_pattern("openai", "an OpenAI key", _OPENAI, "sk-"),
    by_pattern("google", "a Google key", rf"{_W}AIza[A-Za-z0-9_-]{{30,}}", "AIza"),
    by_pattern("npm", "an npm token", rf"{_A}npm_[A-Za-z0-9]{{30,}}", "npm_"),
    by_pattern("pypi", "a PyPI token", rf"{_W}pypi-Ag[A-Za-z0-9_-]{{30,}}", "pypi-Ag"),
    by_pattern("sendgrid", "a SendGrid key", rf"{_W}SG\.[A-Za-z0-9_-]{{16,64}}\.[A-Za-z0-9_-]{{16,}}", "SG."),
    by_pattern("twilio", "a Twilio key", rf"{_A}SK[0-9a-f]{{32}}(?![A-Za-z0-9])", "SK"),
    by_pattern("hugging_face", "a Hugging Face token", rf"{_A}hf_[A-Za-z0-9]{{30,}}", "hf_"),
    by_pattern("digital_ocean", "a DigitalOcean token", rf"{_A}do[opr]_v1_[0-9a-f]{{32,}}", "_v1_"),
    by_pattern("telegram", "a Telegram token", rf"{_A}\d{{8,10}}:AA[A-Za-z0-9_-]{{32,}}", ":AA"),
    by_pattern("provider", "a provider's key", rf"{_A}(?:{'|'.join(_MORE.values())})", *_MORE),
    by_pattern("jwt", "a JWT", _JWT, "eyJ"),
    by_pattern("authorization", "an Authorization header", _SENT, "uthorization", "UTHORIZATION", real=_is_sent),
    by_pattern("bearer", "a bearer token", r"\b[Bb]earer[ \t]+([\w.~+/=-]{20,})", "earer", real=_is_sent),
    by_pattern("url_password", "a password in a URL", _IN_URL, "://", real=_is_url_password),
    Rule("named", "a password, token or key", _look_for_named, _WORDS),
)
