"""Signs that a command cannot be repeated without harm, and where it writes: what looking at its text can tell.

A shell command taken apart, well enough to see what it starts and where it writes. Nothing is expanded or run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from outlast.errors import OutlastError
from outlast.files.changes import matches
from outlast.values.frozen import NamedTuple
from outlast.values.text import lists_in

_OPERATORS = ("&>>", "&&", "||", ">>", ">&", "&>", ">|", "<<<", "<<", ";", "|", "&", "(", ")", "<", ">", "\n")
_ENDS = ("&&", "||", ";", "|", "&", "(", ")", "\n")
_APPENDS = (">>", "&>>")
_WRITES = (">", ">|", "&>", *_APPENDS)
_KEYWORDS = ("then", "do", "else", "elif", "if", "while", "until", "!", "{")
LISTS = lists_in(Path(__file__).with_name("signs.txt").read_text("utf-8"))


def table(name: str) -> dict[str, list[str]]:
    """The lines of a list: what each is of, and the words about it."""
    lines = (line.split() for line in LISTS[name].splitlines())
    return {first: rest for first, *rest in lines}


_PREFIXES = table("prefixes")  # commands that only run another one, and those of their options that take the next word
_OWN_WORDS = {"timeout": 1}  # that come before the other command
_SHELLS = ("sh", "bash", "zsh", "dash")
_SSH = tuple(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw")
_PYTHON = re.compile(r"(python|pypy)[0-9.]*$")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Redirect(NamedTuple):
    """Output that goes into a file."""

    target: str
    appends: bool


class Simple(NamedTuple):
    """One command with its words, quotes taken off."""

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()

    @property
    def name(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""


class _Word(NamedTuple):
    text: str
    is_operator: bool = False


def commands_in(text: str, depth: int = 3) -> list[Simple]:
    """Every simple command of a text, also those in `$(…)`, backticks and `sh -c "…"`."""
    words, inner = _words(_without_documents(text))
    found = _simple(words)
    if depth:
        inner += [_handed_over(each) for each in found]
        for more in inner:
            found += commands_in(more, depth - 1)
    return found


def _handed_over(each: Simple) -> str:
    """The text that a shell is given to run, here (`sh -c TEXT`) or elsewhere (`ssh HOST TEXT`)."""
    words = each.words
    if each.name == "ssh":
        return " ".join(words[past_options(words, 1, _SSH) + 1 :])
    flags = [at for at, word in enumerate(words) if word.startswith("-") and word[1:].isalpha() and "c" in word]
    after = past_options(words, flags[0], frozenset()) if flags and each.name in _SHELLS else len(words)
    return words[after] if after < len(words) else ""


def past_options(words: Sequence[str], at: int, valued: Collection[str]) -> int:
    """Where the options that begin here end. Those of `valued` take the next word, `-n` also at the end of `-an`."""
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1 + _takes_next(word, valued)
        if word == "--":
            break
    return min(at, len(words))


def short_options(words: Sequence[str], valued: str) -> dict[str, str]:
    """Every short option by its letter, those in `-sSfX` one by one; with its value if it is one of `valued`."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if not word.startswith("-") or word.startswith("--"):
            continue
        for place, letter in enumerate(word[1:], start=2):
            found[letter] = ""
            if letter in valued:
                found[letter] = word[place:] or (words[at + 1] if at + 1 < len(words) else "")
                break
    return found


def _takes_next(word: str, valued: Collection[str]) -> bool:
    if word.startswith("--"):
        return word in valued
    first = next((at for at, letter in enumerate(word[1:], start=1) if f"-{letter}" in valued), 0)
    return first > 0 and first == len(word) - 1


def _without_documents(text: str) -> str:
    """The text without its here-documents: what is in them is no command."""
    lines, until = [], ""
    for line in text.replace("\\\n", " ").splitlines():
        if until:
            until = "" if line.strip() == until else until
            continue
        lines.append(line)
        begun = re.search(r"<<-?\s*(['\"]?)(\w+)\1", line)
        until = begun[2] if begun and "<<<" not in line else ""
    return "\n".join(lines)


def _words(text: str) -> tuple[list[_Word], list[str]]:
    """The words and operators of a text, and the texts of its command substitutions."""
    words: list[_Word] = []
    inner: list[str] = []
    word, at = "", 0
    begun = False  # a word is under way, maybe an empty one in quotes
    while at < len(text):
        one = text[at]
        operator = next((each for each in _OPERATORS if text.startswith(each, at)), "")
        if one == "\\" and at + 1 < len(text):
            word, begun, at = word + text[at + 1], True, at + 2
        elif text.startswith("$(", at) or one == "`":
            said, after = _substituted(text, at)
            inner.append(said)
            word, begun, at = word + text[at:after], True, after
        elif one in "'\"":
            said, after, more = _quoted(text, at)
            inner += more
            word, begun, at = word + said, True, after
        elif one == "#" and not begun:
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif operator or one.isspace():
            if begun and not (operator in _WRITES and word.isdigit()):
                words.append(_Word(word))
            if operator:
                words.append(_Word(operator, is_operator=True))
            word, begun, at = "", False, at + max(1, len(operator))
        else:
            word, begun, at = word + one, True, at + 1
    return ([*words, _Word(word)] if begun else words), inner


def _quoted(text: str, at: int) -> tuple[str, int, list[str]]:
    """What is in the quotes that begin here, where they end, and the substitutions in them."""
    quote, said, inner = text[at], "", []
    at += 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and at + 1 < len(text):
            said, at = said + text[at + 1], at + 2
        elif quote == '"' and (text.startswith("$(", at) or text[at] == "`"):
            more, after = _substituted(text, at)
            inner.append(more)
            said, at = said + text[at:after], after
        else:
            said, at = said + text[at], at + 1
    return said, at + 1, inner


def _substituted(text: str, at: int) -> tuple[str, int]:
    """The command in the `$(…)` or backticks that begin here, and where they end."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        return (text[at + 1 : end], end + 1) if end > 0 else (text[at + 1 :], len(text))
    depth, end = 0, at + 1
    while end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
        if not depth:
            return text[at + 2 : end - 1], end
    return text[at + 2 :], len(text)


def _simple(words: list[_Word]) -> list[Simple]:
    found: list[Simple] = []
    current: list[str] = []
    redirects: list[Redirect] = []
    into: str = ""
    for word, is_operator in [*words, _Word(";", is_operator=True)]:
        if not is_operator and into:
            if into in _WRITES:
                redirects.append(Redirect(word, into in _APPENDS))
            into = ""
        elif not is_operator:
            current.append(word)
        elif word in _ENDS:
            if current or redirects:
                found.append(Simple(_bare(current), tuple(redirects)))
            current, redirects, into = [], [], ""
        else:
            into = word
    return found


def _bare(words: list[str]) -> tuple[str, ...]:
    """The words from the command itself on: without assignments, and what only runs another command."""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        if name in _PREFIXES:
            at = past_options(words, at + 1, _PREFIXES[name]) + _OWN_WORDS.get(name, 0)
        elif name in _KEYWORDS or _ASSIGNMENT.match(words[at]):
            at += 1
        elif _PYTHON.match(name) and (module := _module_in(words, at)):
            at = module
        else:
            break
    return tuple(words[at:])


def _module_in(words: list[str], at: int) -> int:
    """Where `python -m` names a module, which is a command then; 0 if it does not."""
    for place in range(at + 1, len(words) - 1):
        if words[place] == "-m":
            return place + 1
        if not words[place].startswith("-"):
            break
    return 0


_VERBS = {"POST", "PUT", "DELETE", "PATCH"}
_CURL_DATA = ("--data", "--form", "--upload-file", "--json")
_CURL_VALUED = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
_VALUED = table("valued")  # options before those words that take the next word
_WORDS = table("words")  # a command, and the words after it that change something elsewhere
_ALONE = {"mail", "mailx", "sendmail", "mutt", "msmtp"}
_GITHUB_FIELDS = ("-f", "-F", "--field", "--raw-field", "--input")
_GITHUB = {"create", "merge", "comment", "delete", "edit", "close", "upload"}
_AWS = re.compile(r"(put|delete|send|create|update|publish|invoke|run|start|terminate)(-|$)")
_AWS_S3 = {"cp", "mv", "rm", "sync"}
_DATABASES = {"psql", "mysql", "mariadb", "sqlite3"}
_CHANGES = re.compile(r"\b(insert|update|delete|drop|alter|truncate|replace)\b", re.IGNORECASE)
_HARMLESS = re.compile(r"/dev/|/tmp/|\$\{?TMPDIR|\$\{?OUTLAST_|&?[0-9-]$|\$\(mktemp")
_KEYED = re.compile(r"idempotency[-_ ]?key", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{?([A-Z][A-Z0-9_]*+)\b")
_SECRET = re.compile(r".(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL)")


def signs_in(command: str, writes: Iterable[str] = (), *, restores: bool = False) -> tuple[str, ...]:
    """What in a command looks unrepeatable, each in a few words.

    `writes` are files that it declares; `restores` says that they are put back before it runs again.
    """
    declared = tuple(writes)
    found = [sign for each in commands_in(command) for sign in _signs(each, declared, restores)]
    return tuple(dict.fromkeys(found))


def files_written(command: str) -> tuple[str, ...]:
    """The files that a command's output is sent into, as far as its text names them; scratch files left out."""
    found = [redirect.target for each in commands_in(command) for redirect in (*each.redirects, *_teed(each))]
    return tuple(dict.fromkeys(target for target in found if target and not _HARMLESS.match(target)))


def secrets_used(command: str) -> tuple[str, ...]:
    """Variables whose names say that they are secrets."""
    named = [name for name in _VARIABLE.findall(command) if _SECRET.search(name)]
    found = [name for name in named if not name.startswith("OUTLAST_") or name == "OUTLAST_API_KEY"]
    return tuple(dict.fromkeys(found))


def is_declared(path: str, writes: Iterable[str]) -> bool:
    """Whether a path fits one of the declared patterns, or lies in a folder that one of them names."""
    plain = path.removeprefix("./").rstrip("/")
    for pattern in writes:
        try:
            if matches(pattern, plain) or matches(pattern, f"{plain}/x") or plain == pattern.rstrip("/*"):
                return True
        except OutlastError:
            continue
    return False


def _signs(each: Simple, writes: tuple[str, ...], restores: bool) -> Iterator[str]:
    for redirect in (*each.redirects, *_teed(each)):
        put_back = restores and is_declared(redirect.target, writes)
        if redirect.appends and not put_back and not _HARMLESS.match(redirect.target):
            yield f"appends to {redirect.target} (>>)"
    rule = _RULES.get(each.name)
    found = rule(each, writes) if rule is not None else _by_words(each)
    if found:
        yield found


def _teed(each: Simple) -> tuple[Redirect, ...]:
    if each.name != "tee":
        return ()
    appends = any(word in ("-a", "--append") for word in each.words)
    return tuple(Redirect(word, appends) for word in each.words[1:] if not word.startswith("-"))


def _by_words(each: Simple) -> str:
    if each.name in _ALONE:
        return f"sends mail ({each.name})"
    verbs = _WORDS.get(each.name, ())
    said = next(iter(_plain(each)), "")
    return f"{each.name} {said}" if said in verbs else ""


def _plain(each: Simple) -> list[str]:
    found, at = [], 1
    while (at := past_options(each.words, at, _VALUED.get(each.name, ()))) < len(each.words):
        found.append(each.words[at])
        at += 1
    return found


def _git(each: Simple, _: tuple[str, ...]) -> str:
    said = next(iter(_plain(each)), "")
    after = each.words[each.words.index(said) + 1 :] if said else ()
    listing = said == "tag" and (not after or after[0] in ("-l", "--list"))
    return f"git {said}" if said in _WORDS["git"] and not listing else ""


def _curl(each: Simple, _: tuple[str, ...]) -> str:
    words = each.words
    if _KEYED.search(" ".join(words)):
        return ""
    short = short_options(words, _CURL_VALUED)
    said = (short.get("X") or _value(words, ("--request",))).upper()
    data = short.keys() & set("dFT") or any(word.startswith(_CURL_DATA) for word in words)
    if not said and data and "G" not in short and "--get" not in words:
        said = "POST"
    return f"curl -X {said}" if said in _VERBS else ""


def _value(words: tuple[str, ...], names: tuple[str, ...]) -> str:
    """The value of an option: `-X POST`, `-XPOST`, `--request=POST`."""
    for at, word in enumerate(words):
        for name in names:
            if word == name:
                return words[at + 1] if at + 1 < len(words) else ""
            if word.startswith(name) and (len(name) == 2 or word[len(name)] == "="):
                return word[len(name) :].lstrip("=")
    return ""


def _wget(each: Simple, _: tuple[str, ...]) -> str:
    said = _value(each.words, ("--method",)).upper()
    posts = any(word.startswith("--post") for word in each.words)
    return f"wget {said or '--post'}" if posts or said in _VERBS else ""


def _httpie(each: Simple, _: tuple[str, ...]) -> str:
    said = next((word for word in each.words[1:] if word in _VERBS), "")
    return f"{each.name} {said}" if said else ""


def _aws(each: Simple, _: tuple[str, ...]) -> str:
    plain = _plain(each)
    if len(plain) < 2:
        return ""
    changes = plain[1] in _AWS_S3 if plain[0] == "s3" else bool(_AWS.match(plain[1]))
    return f"aws {plain[0]} {plain[1]}" if changes else ""


def _github(each: Simple, _: tuple[str, ...]) -> str:
    plain = _plain(each)
    if plain[:1] == ["api"]:
        # a request by hand: one with fields is a POST, of GraphQL only a mutation changes anything
        said = _value(each.words, ("-X", "--method")).upper()
        fields = any(word.startswith(_GITHUB_FIELDS) for word in each.words)
        if "graphql" in plain:
            said = "POST" if any("mutation" in word for word in each.words) else ""
        elif not said and fields:
            said = "POST"
        return f"{each.name} api -X {said}" if said in _VERBS else ""
    return f"{each.name} {plain[0]} {plain[1]}" if len(plain) > 1 and plain[1] in _GITHUB else ""


def _database(each: Simple, _: tuple[str, ...]) -> str:
    said = next((word for word in each.words[1:] if _CHANGES.search(word)), "")
    return f"{each.name} changes a database" if said else ""


def _remove(each: Simple, writes: tuple[str, ...]) -> str:
    flags = "".join(word for word in each.words[1:] if word.startswith("-"))
    targets = [word for word in each.words[1:] if not word.startswith("-")]
    if not re.search("[rR]", flags):
        return ""
    away = [each for each in targets if not _HARMLESS.match(each) and not is_declared(each, writes)]
    return f"rm -r {away[0]}, which it does not declare to write" if away else ""


_RULES: dict[str, Callable[[Simple, tuple[str, ...]], str]] = {
    "git": _git,
    "curl": _curl,
    "wget": _wget,
    "http": _httpie,
    "https": _httpie,
    "aws": _aws,
    "gh": _github,
    "glab": _github,
    "rm": _remove,
    **dict.fromkeys(_DATABASES, _database),
}
