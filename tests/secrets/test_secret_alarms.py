"""Ordinary prose and code raise next to no alarm: looked at one by one, in our own sources and in Python's."""

import sysconfig
from collections.abc import Iterable
from pathlib import Path

import outlast
from outlast.secrets.find import find

SOURCES = Path(outlast.__file__).parent
ROOT = SOURCES.parent.parent
STDLIB = Path(sysconfig.get_path("stdlib"))
EVERY = 12  # file of Python's own is read: a second's work
LINES_PER_ALARM = 10_000
EXAMPLES = ("secrets.md:", "server.md:")  # pages that show a made-up secret on purpose


def alarms(paths: Iterable[Path]) -> tuple[int, list[str]]:
    """How many lines there are, and each alarm with its line."""
    lines, found = 0, []
    for path in paths:
        text = path.read_text("utf-8", "replace")
        lines += text.count("\n")
        for each in find(text):
            found.append(f"{path.name}:{text.count(chr(10), 0, each.start) + 1} {text[each.start : each.end]!r:.60}")
    return lines, found


def test_our_own_sources_and_pages_raise_no_alarm() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*")]
    code = [path for path in SOURCES.rglob("*") if path.suffix in (".py", ".sql", ".json", ".yaml", ".html", ".css")]
    lines, found = alarms(path for path in (*pages, *code) if path.is_file() and "__pycache__" not in path.parts)
    assert lines > 20_000
    assert [each for each in found if not each.startswith(EXAMPLES)] == []


def test_pythons_own_sources_raise_less_than_one_alarm_in_ten_thousand_lines() -> None:
    """Of all of them nine do, in 860,000 lines: made-up passwords, lines of netrc and session cookies."""
    own = [*STDLIB.glob("*.py"), *STDLIB.glob("[a-z]*/*.py")]
    lines, found = alarms(sorted(own)[::EVERY])
    assert lines > 10_000
    assert len(found) <= lines / LINES_PER_ALARM, found


PROSE = """
The keyboard shortcut for the token list is Ctrl+K; the secret of the recipe: 2 eggs, 250 g flour. Password rules: at
least 12 characters, one digit. Key takeaways: tokens=1500 in, 340 out. Passed: 12 of 14 tests. Pass 3: all green.
See https://docs.example.org/guide:8080/auth#bearer-tokens and git@github.com:acme/tool.git, commit 9fceb02d0ae598e95d.
The public key is ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0n4S4kq0pFh5d3vVd0n1mCqJYtV9cC9n2e2hYkqZ3d ann@host.
task-oriented, risk-averse, disk-bound, desk-based: none of these is a key. The hash is
sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a.
"""

CODE = """
def login(user: str, password: str, *, token: str | None = None, api_key: str = DEFAULT_KEY) -> Session:
    key = cache_key(user); keys = {"primary_key": "id", "foreign_key": "user_id", "sort_key": "created_at_2"}
    secret = secrets.token_urlsafe(32); token = jwt.encode(payload, SECRET_KEY, algorithm="HS256")
    if password != self.password_for(user) or token == "": raise Denied("password: wrong")
    return Session(token=token or new_token(user), api_key=os.environ["API_KEY"], key=lambda row: row.key2)
export default { auth: { token: process.env.TOKEN, secretKey: config.get('secret-key-v2') }, key: 'v1.2-beta' }
curl -H "Authorization: Bearer $TOKEN" "https://$USER:$PASS@example.org/v1?token=$TOKEN" --password "$PASSWORD"
  - name: TOKEN
    valueFrom: { secretKeyRef: { name: app-secrets-2, key: api-token } }
  password: ${DB_PASSWORD:?set it}   # see secrets/README.md
UPDATE accounts SET password_hash = ?, token_expires_at = ? WHERE api_key_id = 42;
"""


def test_a_page_and_a_program_about_secrets_raise_no_alarm() -> None:
    assert [text[each.start : each.end] for text in (PROSE, CODE) for each in find(text)] == []
