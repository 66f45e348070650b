"""Checks, musts and rollbacks: the forms they may have, and what each means. Pure.

A form is kept exactly as it was given. `read_check` and `read_must` refuse what cannot be used, by path; `command_of`
and `rule_of` say what a form that was read asks for. Running commands and looking at files is left to the host.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any, Literal, NoReturn, get_args

from outlast.errors import HandoffInvalid
from outlast.files.patterns import never
from outlast.handoffs.handoff import Form
from outlast.values.frozen import dataclass
from outlast.values.text import duration, nearest

Rule = Literal["exists", "absent", "sha256", "contains"]
RULES: tuple[Rule, ...] = get_args(Rule)
LONGEST_PATH = 4096  # bytes, as the operating system counts
LONGEST_NAME = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_COMMAND_KEYS = ("run", "cwd", "timeout", "exit")
_A_CHECK = 'give a shell command, {"run": "…"} or {"file": "…", "exists": true}'
_A_MUST = 'give a sentence, or {"file": "…", "exists": true}'
_A_FILE_RULE = 'give one of "exists": true, "absent": true, "sha256": "…", "contains": "…"'


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """A check that the host runs. It passes when the command ends with `exit`."""

    run: str
    cwd: str = ""  # from the root; "" is the root
    timeout_seconds: float | None = None
    exit: int = 0


@dataclass(frozen=True, slots=True)
class FileRule:
    """What must hold of one file."""

    file: str
    rule: Rule
    value: str = ""  # the digest in small letters, or the text it contains


def command_of(form: Form) -> CommandCheck | None:
    """The command that an acceptance check asks for; None for a file rule."""
    if isinstance(form, str):
        return CommandCheck(form)
    if "run" not in form:
        return None
    timeout = duration(form["timeout"]) if "timeout" in form else None
    return CommandCheck(form["run"], form.get("cwd", ""), timeout, form.get("exit", 0))


def rule_of(form: Form) -> FileRule | None:
    """The file rule of a check, must or rollback; None for prose and commands."""
    if isinstance(form, str) or "file" not in form:
        return None
    rule = next(each for each in RULES if each in form)
    value = form[rule] if rule in ("sha256", "contains") else ""
    return FileRule(form["file"], rule, value.lower() if rule == "sha256" else value)


# -- what every field is read with -------------------------------------------------------------------


def refuse(path: str, why: str, remedy: str) -> NoReturn:
    raise HandoffInvalid(path, why, remedy)


_KINDS = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "text"}
_KINDS |= {dict: "an object", list: "a list", tuple: "a list"}


def kind_of(value: Any) -> str:
    """The type of a value in the words of JSON, as messages say it."""
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def read_text(value: Any, path: str) -> str:
    """Text that can be kept: of the plain type, without NUL, and with a UTF-8 form."""
    if type(value) is not str:
        refuse(path, f"is {kind_of(value)}, not text", "give plain text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        refuse(path, f"has half a surrogate pair at character {error.start}", "give text that UTF-8 can encode")
    if (at := value.find("\0")) >= 0:
        refuse(path, f"has a NUL at character {at}", "take it out")
    return str(value)


def read_words(value: Any, path: str) -> str:
    """Text that is not blank."""
    if not read_text(value, path).strip():
        refuse(path, "is blank", "say something, or leave it out")
    return str(value)


def read_path(value: Any, path: str) -> str:
    """A path below the root, in its one canonical spelling; a folder may end with a slash."""
    text = read_words(value, path)
    _refuse_odd_characters(text, path)
    if text.startswith(("/", "~/")) or _DRIVE.match(text):
        refuse(path, f"{_shown(text)} is absolute", "name it relative to repo_root")
    canonical = posixpath.normpath(text)
    if canonical.split("/")[0] == "..":
        refuse(path, f"{_shown(text)} leaves the root", "name a file inside repo_root")
    if any(never(part.lower()) for part in canonical.split("/")):
        refuse(path, f"{_shown(text)} is in a folder that git or Outlast owns", "name a file of the work")
    if text not in (canonical, f"{canonical}/") or text == "./":
        refuse(path, f"{_shown(text)} is not the one spelling of its file", f"write {_shown(canonical)}")
    return text


def _refuse_odd_characters(text: str, path: str) -> None:
    if found := _CONTROL.search(text):
        refuse(path, f"has the control character {found[0]!r} at character {found.start()}", "rename the file")
    if len(text.encode()) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in text.split("/")):
        limits = f"{LONGEST_NAME} bytes a name and {LONGEST_PATH:,} in all"
        refuse(path, f"is longer than a path can be ({len(text.encode()):,} bytes)", f"the limits are {limits}")


def _shown(value: Any) -> str:
    """A value as messages show it: short, whatever it is."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 200 else f"{value[:200]!r}…"
    return repr(value) if isinstance(value, bool | float) or _is_small(value) else kind_of(value)


def _is_small(value: Any) -> bool:
    return type(value) is int and value.bit_length() < 64


# -- the forms ---------------------------------------------------------------------------------------


def read_check(value: Any, path: str) -> Form:
    """An acceptance check: a shell command, a command as an object, or a file rule."""
    if not isinstance(value, dict):
        return _prose(value, path, _A_CHECK)
    if "run" in value and "file" in value:
        refuse(path, "is a command and a file rule at once", "make two checks of it")
    if "run" not in value and "file" not in value:
        _refuse_unknown(value, path, (*_COMMAND_KEYS, "file", *RULES))
        refuse(path, "has neither `run` nor `file`", _A_CHECK)
    return _read_command(value, path) if "run" in value else _read_rule(value, path)


def read_must(value: Any, path: str) -> Form:
    """A must or a rollback: prose, or a file rule."""
    if not isinstance(value, dict):
        return _prose(value, path, _A_MUST)
    if "run" in value:
        refuse(f"{path}.run", "only acceptance_checks are run", "put the command into acceptance_checks")
    if "file" not in value:
        _refuse_unknown(value, path, ("file", *RULES))
        refuse(path, "has no `file`", _A_MUST)
    return _read_rule(value, path)


def _prose(value: Any, path: str, remedy: str) -> str:
    if not isinstance(value, str):
        refuse(path, f"is {kind_of(value)}", remedy)
    if not value.strip():
        refuse(path, "is blank", remedy)
    return read_text(value, path)


def _refuse_unknown(form: dict[Any, Any], path: str, known: tuple[str, ...]) -> None:
    for key in form:
        if type(key) is not str:
            refuse(path, f"its key {key!r} is no text", "use text keys")
        if key not in known:
            where = f"{path}.{key}" if key.isidentifier() and len(key) <= 100 else f"{path}[{_shown(key)}]"
            refuse(where, "is not known here", nearest(key, known, "the keys here are"))


def _read_command(form: dict[Any, Any], path: str) -> Form:
    _refuse_unknown(form, path, _COMMAND_KEYS)
    read: dict[str, Callable[[Any, str], Any]] = {
        "run": read_words,
        "cwd": read_path,
        "timeout": _read_timeout,
        "exit": _read_exit,
    }
    return {key: read[key](value, f"{path}.{key}") for key, value in form.items()}


def _read_timeout(value: Any, path: str) -> float | str:
    kept: float | str = read_text(value, path) if isinstance(value, str) else value
    if type(value) not in (int, float, str) or not duration(value):
        refuse(path, f"{_shown(value)} is no time to wait", "give seconds above 0, or text such as 90s, 10m, 2h")
    return kept


def _read_exit(value: Any, path: str) -> int:
    if type(value) is not int or not 0 <= value <= 255:
        refuse(path, f"{_shown(value)} is no exit code", "give a whole number from 0 to 255")
    return int(value)


def _read_rule(form: dict[Any, Any], path: str) -> Form:
    _refuse_unknown(form, path, ("file", *RULES))
    read_path(form["file"], f"{path}.file")
    given = [rule for rule in RULES if rule in form]
    if len(given) != 1:
        why = f"has {' and '.join(f'`{rule}`' for rule in given)}" if given else "does not say what must hold"
        refuse(path, why, _A_FILE_RULE)
    _refuse_value(given[0], form[given[0]], f"{path}.{given[0]}")
    return dict(form)


def _refuse_value(rule: Rule, value: Any, path: str) -> None:
    if rule in ("exists", "absent"):
        other = "absent" if rule == "exists" else "exists"
        if value is not True:
            remedy = f'write "{other}": true' if value is False else f'write "{rule}": true'
            refuse(path, f"{_shown(value)} is not true", remedy)
    elif not read_text(value, path):
        refuse(path, "is empty", "give the text that the file must contain" if rule == "contains" else "give 64 digits")
    elif rule == "sha256" and not _SHA256.fullmatch(value):
        refuse(path, f"{_shown(value)} is no SHA-256", "give the 64 hexadecimal digits that `sha256sum` prints")
