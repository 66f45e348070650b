"""Keys and tokens that can be told by how they begin, or by a sign within: what each provider's look like. Pure data.

Every one is a word of at least `WORD` characters without a blank, and has one of its hints in it, written just so.
"""

from __future__ import annotations

from outlast.values.frozen import NamedTuple

WORD = 20  # characters of the shortest of them


class Token(NamedTuple):
    """One kind: a pattern, and what every text has that it finds something in."""

    name: str
    kind: str  # as messages say it
    pattern: str
    hints: tuple[str, ...]
    offsets: tuple[int, ...] = (0,)  # how many characters of it come before the hint


# Where one begins: not within a word, unless what comes before is an escaped line end, a colour or a percent code. All
# of these have a sign in them that no token has, so that what is read from there was not read before.
_COLOURED = "|".join(rf"(?<=[\[;]{digits}m)" for digits in ("", r"\d", r"\d\d", r"\d\d\d"))
_ESCAPED = rf"(?<=\\[nrt])|{_COLOURED}|(?<=%[0-9A-F][0-9A-F])"
_A = rf"(?:(?<![A-Za-z0-9])|{_ESCAPED})"  # for those of letters and digits
_W = rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPED})"  # and those with `-` and `_`
_END = r"(?![A-Za-z0-9])"

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
    Token("twilio", "a Twilio key", rf"{_A}SK[0-9a-f]{{32}}{_END}", ("SK",)),
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
    Token("mailchimp", "a Mailchimp key", rf"{_A}[0-9a-f]{{32}}-us\d{{1,2}}{_END}", ("-us",), (32,)),
    Token(
        "terraform",
        "a Terraform token",
        rf"{_A}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_-]{{40,}}",
        (".atlasv1.",),
        (14,),
    ),
    Token("airtable", "an Airtable token", rf"{_A}pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}", ("pat",)),
    Token("jwt", "a JWT", rf"{_W}{_JWT}", ("eyJ",)),
)

# More of them, by what each begins with and what follows. They need no name of their own: "a provider's key".
MORE: dict[str, str] = {
    "AGE-SECRET-KEY-": r"(?:PQ-)?1[0-9A-Z]{50,}",
    "ATATT3": r"[A-Za-z0-9_=-]{40,}",
    "ATCTT3": r"[A-Za-z0-9_=-]{40,}",
    "ATBB": r"[A-Za-z0-9]{32,}",
    "CCIPAT_": r"[A-Za-z0-9_]{40,}",
    "CFPAT-": r"[A-Za-z0-9_-]{40,}",
    "GOCSPX-": r"[A-Za-z0-9_-]{20,}",
    "HRKU-": r"[A-Za-z0-9_-]{30,}",
    "NRAK-": r"[A-Z0-9]{20,}",
    "PMAK-": r"[0-9a-f]{24}-[0-9a-f]{34}",
    "bkua_": r"[0-9a-f]{40}",
    "cfat_": r"[A-Za-z0-9]{40,}",
    "cfk_": r"[A-Za-z0-9]{40,}",
    "cfut_": r"[A-Za-z0-9]{40,}",
    "dapi": r"[0-9a-f]{32}(?:-\d)?",
    "dckr_oat_": r"[A-Za-z0-9_-]{20,}",
    "dckr_pat_": r"[A-Za-z0-9_-]{20,}",
    "dp.pt.": r"[A-Za-z0-9]{40,}",
    "dp.st.": r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}",
    "dt0c01.": r"[A-Z0-9]{24}\.[A-Z0-9]{64}",
    "e2b_": r"[0-9a-f]{40}",
    "figd_": r"[A-Za-z0-9_-]{40,}",
    "glc_": r"eyJ[A-Za-z0-9+/=]{40,}",
    "glsa_": r"[A-Za-z0-9_]{32,}",
    "gsk_": r"[A-Za-z0-9]{40,}",
    "hvb.": r"[A-Za-z0-9_-]{24,}",
    "hvr.": r"[A-Za-z0-9_-]{24,}",
    "hvs.": r"[A-Za-z0-9_-]{24,}",
    "key-": r"[0-9a-f]{32}",
    "lin_api_": r"[A-Za-z0-9]{32,}",
    "lin_oauth_": r"[0-9a-f]{32,}",
    "lsv2_": r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
    "napi_": r"[a-z0-9]{40,}",
    "nfp_": r"[A-Za-z0-9]{36,}",
    "ntn_": r"[A-Za-z0-9]{40,}",
    "nvapi-": r"[A-Za-z0-9_-]{40,}",
    "ops_eyJ": r"[A-Za-z0-9_-]{40,}",
    "pcsk_": r"[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,}",
    "pplx-": r"[A-Za-z0-9]{40,}",
    "pscale_": r"(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}",
    "pul-": r"[0-9a-f]{40}",
    "pylf_v1_": r"[a-z]{2}_[A-Za-z0-9]{40,}",
    "r8_": r"[A-Za-z0-9]{30,}",
    "rnd_": r"[A-Za-z0-9]{28,}",
    "rubygems_": r"[0-9a-f]{48}",
    "sb_secret_": r"[A-Za-z0-9_-]{20,}",
    "sbp_": r"[0-9a-f]{40}",
    "secret_": r"[A-Za-z0-9]{43}",
    "sgp_": r"[A-Za-z0-9_]{40,}",
    "shp": r"(?:at|ca|pa|ss)_[0-9a-fA-F]{32,}",
    "sk.eyJ": r"[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}",
    "sk_": r"[0-9a-f]{48}",
    "sntrys_": r"[A-Za-z0-9+/=_-]{40,}",
    "sntryu_": r"[0-9a-f]{60,}",
    "sq0atp-": r"[A-Za-z0-9_-]{22,}",
    "sq0csp-": r"[A-Za-z0-9_-]{40,}",
    "squ_": r"[0-9a-f]{40}",
    "tskey-": r"[a-z]{3,8}-[A-Za-z0-9-]{20,}",
    "tvly-": r"[A-Za-z0-9-]{30,}",
    "v1.0-": r"[0-9a-f]{24}-[0-9a-f]{146}",
    "vercel_blob_rw_": r"[A-Za-z0-9_]{30,}",
    "whsec_": r"[A-Za-z0-9+/=]{24,}",
    "xai-": r"[A-Za-z0-9]{40,}",
    "xkeysib-": r"[0-9a-f]{64}-[A-Za-z0-9]{16}",
    "ya29.": r"[A-Za-z0-9_-]{20,}",
}


def more_tokens() -> list[Token]:
    """Each of them as a kind."""
    from re import escape

    made = []
    for begin, rest in MORE.items():
        end = _END if rest.endswith("}") and not rest.endswith(",}") else ""  # of so many characters, and no more
        made.append(Token(f"key:{begin}", "a provider's key", rf"{_W}{escape(begin)}{rest}{end}", (begin,)))
    return made
