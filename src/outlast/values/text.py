"""Texts for people and their terminals: made visible and short, durations, commands to paste, what somebody may have
meant. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outlast.values.late import late

if TYPE_CHECKING:
    import json
    import shlex
    import unicodedata
else:
    json = late("json")
    shlex = late("shlex")
    unicodedata = late("unicodedata")

FOREVER = 1e11  # seconds: 3,000 years, still a time that a calendar can name
_DURATION = r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?"
_UNITS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_COMPARED = 100  # characters of a word that is not known
# The first words of our commands; a text that only speaks of what may outlast something has none of them.
COMMANDS = (
    *("demo", "run", "resume", "pause", "tick", "work", "workers", "queue", "limit", "schedule", "notify", "watch"),
    *("retry", "skip", "rewind", "fork", "answer", "approve", "decline", "signal", "abort"),
    *("runs", "show", "outputs", "displaced", "receipts", "steps", "inbox", "logs", "events", "acts", "console"),
    *("session", "workspace", "handoff", "task", "serve", "keys", "hook", "mcp", "verify", "audit", "replay", "export"),
    *("import", "move", "backup", "restore", "gc", "doctor", "completion"),
)
_VERBS = ("recover", "claim", "verify", "store", "settle", "renew")
_WHERE_FILES_ARE = (
    *(("handoff", verb) for verb in ("recover", "claim", "verify", "settle", "diff", "apply", "store")),
    *(("task", verb) for verb in ("resume", "complete", "inspect", "pause")),
)
_UNDER_A_CLAIM = ("resume ", "task ", *(f"handoff {verb} " for verb in _VERBS))
_COMMAND = rf"""(?<![\w./'"=-])outlast\ (?=(?:{"|".join(COMMANDS)})\b)   # where one begins
    ((?:'[^']*'|"[^"]*"|[^'"`;)\n])*)                              # and its arguments, in quotes or not"""


def visible(text: object, keep: str = "") -> str:
    """The text with control and direction characters as visible escapes, but for those to keep; else one line."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in shown)


def written_out(text: str) -> str:
    """The text with what cannot be seen, or moves what can be seen, as JSON writes it; other spaces stay."""
    return text if text.isprintable() else "".join(map(_seen, text))


def _seen(char: str) -> str:
    if char.isprintable() or char in "\t\u200d" or unicodedata.category(char) == "Zs":
        return char
    return json.dumps(char)[1:-1]


def last_lines(printed: bytes, most: int = 20, width: int = 500) -> list[str]:
    """The last lines of what was printed, what cannot be seen written out; what is left out is said."""
    lines = printed.decode("utf-8", "replace").splitlines()
    left = [f"… ({len(lines) - most} lines before)"] if len(lines) > most else []
    return [*left, *(written_out(line if len(line) <= width else f"{line[:width]}…") for line in lines[-most:])]


def one_line(text: str, most: int) -> str:
    """The text on one line, shortened to that many characters."""
    return shorten(" ".join(text.split()), most)


def shorten(text: str, most: int) -> str:
    """The text; of a longer one its first characters, and how many more there are."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}… ({left:,} more characters)"


def counted(number: int, what: str) -> str:
    """So many of something: 1 run, 2 runs."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def closest(word: str, known: Iterable[str]) -> list[str]:
    """The known word that somebody may have meant; none when none is close."""
    from difflib import get_close_matches  # late: nobody needs it who makes no mistake

    return get_close_matches(word[:_COMPARED], list(known), 1)


def meant(word: str, known: Iterable[str]) -> str:
    """`did you mean …?`; empty when no known word is close."""
    close = closest(word, known)
    return f"did you mean `{close[0]}`?" if close else ""


def nearest(word: str, known: Iterable[str], what: str) -> str:
    """The advice for a word that is not known: the one that was meant, else all there are."""
    names = list(known)
    return meant(word, names) or f"{what}: {', '.join(names)}"


def duration(value: Any) -> float | None:
    """The seconds that a number or a text stands for; None when it is no duration."""
    found = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(min(value, FOREVER))
    elif isinstance(value, str) and (match := re.fullmatch(_DURATION, value.strip())):
        found = float(match[1]) * _UNITS[match[2]]
    return found if 0 <= found < FOREVER else None  # NaN is neither


def ended_line(stragglers: Sequence[Mapping[str, object]], number: int = 0) -> str:
    """What was left in the background and is ended, in a line."""
    known = ", ".join(f"{each.get('pid')} ({each.get('command')})" for each in stragglers)
    more = f" and {number - len(stragglers)} more" if number > len(stragglers) else ""
    return f"ended what it left in the background: {known}{more}"


def doubt_of(shared: str) -> str:
    """To be said after files that were left, if parts of `shared` that are done at once declare the same."""
    return f" (of this or another part of {shared}: they are done at once and declare the same)" if shared else ""


# -- commands in texts, made ready to be pasted elsewhere: in another folder, with another environment ----------------


def carry(text: str, options: Sequence[str], claim: str = "", repo: str = "") -> str:
    """The text, each command in it with these options.

    `claim` is shown by those that go on under it, `repo` is given to those that look at files.
    """
    if not (options or claim or repo) or "outlast " not in text:
        return text
    return re.sub(_COMMAND, lambda found: _carried(found[1], options, claim, repo), text, flags=re.VERBOSE)


def looks_at_files(words: Sequence[str]) -> bool:
    """Whether a command of these words looks at files, where `--repo` says."""
    return tuple(words[:2]) in _WHERE_FILES_ARE


def named(verb: Sequence[str], name: str, words: Sequence[str] = ()) -> list[str]:
    """The words of a command about what is called so; a name that looks like an option stands after all options."""
    if not name.startswith("-"):
        return [*verb, name, *words]
    options = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return [*verb, *words[options:], "--", name, *words[:options]]


def _goes_on(rest: str) -> bool:
    return rest.startswith(_UNDER_A_CLAIM) and "--claim-id " not in rest


def _carried(rest: str, options: Sequence[str], claim: str, repo: str) -> str:
    if repo and looks_at_files(rest.split(" ", 2)) and "--repo " not in rest:
        verb = " ".join(rest.split(" ", 2)[:2])
        rest = f"{verb} --repo {shlex.quote(repo)}{rest.removeprefix(verb)}"
    pairs = zip(options[::2], options[1::2], strict=True)
    told = shlex.join([word for pair in pairs if f"{pair[0]} " not in rest for word in pair])
    shown = f"OUTLAST_CLAIM={shlex.quote(claim)} " if claim and _goes_on(rest) else ""
    return f"{shown}outlast {told} {rest}" if told else f"{shown}outlast {rest}"


def lists_in(text: str) -> dict[str, str]:
    """The lists of a text, each under its name in brackets; lines that begin with `#` say what they are."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        name = line[1:-1] if line.startswith("[") else name
        found[name] = found.get(name, "") + ("" if line.startswith("[") else f"{line}\n")
    return found
