"""Signs that a command cannot be repeated without harm, and where it writes: what looking at its text can tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from outlast.care.audit.shell_words import Redirect, Simple, commands_in, plain_words, short_options
from outlast.errors import OutlastError
from outlast.files.patterns import matches

_VERBS = {"POST", "PUT", "DELETE", "PATCH"}
_CURL_DATA = ("--data", "--form", "--upload-file", "--json")
_CURL_VALUED = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
_KUBE = (
    *("-n", "--namespace", "--context", "--kube-context", "--cluster", "--kubeconfig"),
    *("-s", "--server", "--user", "--token", "--as"),
)
_DOCKER = ("-H", "--host", "-c", "--context", "-l", "--log-level", "--config")
_FOLDERS = (
    *("-C", "--prefix", "--dir", "--cwd", "--directory", "--project", "--manifest-path"),
    *("-w", "--workspace", "-F", "--filter"),
)
_VALUED = {  # options before those words that take the next word
    "git": ("-C", "-c", "--git-dir", "--work-tree"),
    **dict.fromkeys(("kubectl", "helm"), _KUBE),
    **dict.fromkeys(("docker", "podman"), _DOCKER),
    **dict.fromkeys(("npm", "pnpm", "yarn", "poetry", "uv", "cargo"), _FOLDERS),
    "pulumi": ("-C", "--cwd", "-s", "--stack"),
    "aws": ("--profile", "--region", "--endpoint-url", "--output", "--query"),
    **dict.fromkeys(("gh", "glab"), ("-R", "--repo", "--hostname", "-X", "--method", "-H", "--header")),
}
_WORDS = {  # a command, and the words after it that change something elsewhere
    "git": {"commit", "push", "tag", "am", "cherry-pick", "revert"},
    "npm": {"publish"},
    "pnpm": {"publish"},
    "yarn": {"publish"},
    "poetry": {"publish"},
    "uv": {"publish"},
    "cargo": {"publish"},
    "gem": {"push"},
    "twine": {"upload"},
    "pip": {"upload"},
    "docker": {"push"},
    "podman": {"push"},
    "kubectl": {"apply", "delete", "create", "patch", "replace", "scale"},
    "helm": {"install", "upgrade", "uninstall", "rollback"},
    "terraform": {"apply", "destroy"},
    "tofu": {"apply", "destroy"},
    "pulumi": {"up", "destroy"},
}
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
    verbs = _WORDS.get(each.name, set())
    said = next(iter(_plain(each)), "")
    return f"{each.name} {said}" if said in verbs else ""


def _plain(each: Simple) -> list[str]:
    return plain_words(each.words, _VALUED.get(each.name, ()))


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
        return _github_api(each, plain)
    return f"{each.name} {plain[0]} {plain[1]}" if len(plain) > 1 and plain[1] in _GITHUB else ""


def _github_api(each: Simple, plain: list[str]) -> str:
    """A request by hand. One with fields is a POST; of GraphQL only a mutation changes anything."""
    said = _value(each.words, ("-X", "--method")).upper()
    fields = any(word.startswith(_GITHUB_FIELDS) for word in each.words)
    if "graphql" in plain:
        said = "POST" if any("mutation" in word for word in each.words) else ""
    elif not said and fields:
        said = "POST"
    return f"{each.name} api -X {said}" if said in _VERBS else ""


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
