"""A contract from what a caller gave: every field checked, nothing changed, nothing cut.

This is where input from outside is narrowed. What cannot be used is refused with HandoffInvalid: the path of the
value, what is wrong with it, and what to do. Only text is judged here; whether a file is there, is a link or a device
is for the host to see. A check or must is kept exactly as it was given: `command_of` and `rule_of` say what it asks
for. Secrets are `secrets/find.py`, quality is `lint.py`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, NoReturn

import msgspec

from outlast.clock import micros, moment
from outlast.errors import HandoffInvalid, ValueRefused
from outlast.files.changes import never
from outlast.handoffs.handoff import (
    MAX_BYTES,
    MAX_CHECKS,
    MAX_FILES,
    MAX_REFS,
    RULES,
    STALE_SECONDS,
    Contract,
    Form,
    Rule,
    command_of,
)
from outlast.handoffs.musts import each_must, is_pattern, refuse_contradictions
from outlast.values.codec import ANNOTATE, INJECT, decode, depth_of, encode, is_deeper, pack_json
from outlast.values.text import duration, nearest

REQUIRED = ("anchor", "summary", "handoff_text")
LONGEST_ANCHOR = 500
MAX_TAGS = 100
LONGEST_TAG = 200
LONGEST_REF = 3000  # a scope, each of its characters written as three, a name and a version
MAX_DEPTH = 200  # of a packet: what can be read again from wherever it is asked for
_DAY = 86_400_000_000
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)", re.DOTALL)
_JSON = "use JSON values (objects with text keys, lists, text, numbers, true, false, null), or give JSON text"
_WHEN = 'give a duration such as "36h" or "7d", a date, or a date and time with its offset'
_BARE_NUMBER = re.compile(r"\s*[\d.]+\s*")

Reader = Callable[[Any, str], Any]


def contract_of(**given: Any) -> Contract:
    """The contract that the fields make, each kept as it was given.

    Raises HandoffInvalid for the first field that cannot be used.
    """
    values = _values(given)
    for name in REQUIRED:
        if name not in given:
            refuse(name, "is missing", "every handoff has an anchor, a summary and a handoff_text")
    contract = Contract(**values)
    _refuse_contradictions(contract)
    _refuse_oversize(contract)
    return contract


def draft_of(**given: Any) -> Contract:
    """The same for a handoff that is still being written: anchor, summary and handoff_text may be empty or left out."""
    begun = {name: value for name, value in given.items() if name not in REQUIRED or value != ""}
    contract = Contract(**dict.fromkeys(REQUIRED, "") | _values(begun))
    _refuse_oversize(contract)
    return contract


def _values(given: dict[str, Any]) -> dict[str, Any]:
    """The fields as they are kept. What is left out is left out here too: most are."""
    left_out, values = _LEFT_OUT.get, dict[str, Any]()
    for name, value in given.items():
        if value is left_out(name, _NEVER):
            continue
        if (read := _READERS.get(name)) is None:
            refuse(name[:100], "is no field of a handoff", nearest(name, _READERS, "the fields are"))
        values[name] = read(value, name)
    return values


def expiry(expires: str | None, at: int) -> int:
    """When a handoff that was stored at `at` becomes stale, in microseconds. A date lasts until its end, in UTC."""
    if expires is None:
        return at + STALE_SECONDS * 1_000_000
    if (seconds := duration(expires)) is not None:
        return at + round(seconds * 1_000_000)
    if _is_date(expires):
        return micros(datetime.fromisoformat(expires).replace(tzinfo=UTC)) + _DAY
    return micros(datetime.fromisoformat(expires))


def _refuse_contradictions(contract: Contract) -> None:
    if not contract.handoff_text.strip() and contract.next_action is None:
        refuse("handoff_text", "is blank, and there is no next_action", "say where to re-enter, or give a next_action")
    if contract.supersedes == contract.anchor:
        refuse("supersedes", "is the handoff's own anchor", "leave it out: storing again makes the next revision")
    for name, place, form in each_must(contract):
        if isinstance(form, str):
            _refuse_odd_path(form, f"{name}[{place}]")
    refuse_contradictions(contract)


def _refuse_oversize(contract: Contract) -> None:
    """The limit holds for the whole, so it is the whole that is measured, as it will be written."""
    size = len(encode(contract))
    if size <= MAX_BYTES:
        return
    sizes = {name: len(encode(getattr(contract, name))) for name in contract.__struct_fields__}
    largest = max(sizes, key=lambda name: sizes[name])
    why = f"the handoff has {size:,} bytes and at most {MAX_BYTES:,} fit; this field alone has {sizes[largest]:,}"
    refuse(largest, why, "put long content into a file or an artifact and name it")


# -- text --------------------------------------------------------------------------------------------


def _optional(read: Reader) -> Reader:
    return lambda value, path: None if value is None else read(value, path)


def _read_line(value: Any, path: str, *, longest: int) -> str:
    """One printable line. Blanks around it are refused, not stripped: what is asked for is what was stored."""
    text = read_words(value, path)
    if len(text) > longest:
        refuse(path, f"has {len(text):,} characters", f"give at most {longest}")
    if text != text.strip():
        refuse(path, "has blanks around it", f"write {text.strip()!r}")
    if not text.isprintable():
        odd = next(place for place, each in enumerate(text) if not each.isprintable())
        refuse(path, f"has {text[odd]!r} at character {odd}", "use printable characters, in one line")
    return text


# -- lists -------------------------------------------------------------------------------------------


def _list_of(read: Reader, most: int) -> Reader:
    def read_all(value: Any, path: str) -> tuple[Any, ...]:
        if isinstance(value, str):
            refuse(path, "is one text where a list is expected", f"put it into a list: {path}=[…]")
        if not isinstance(value, (list, tuple)):
            refuse(path, f"is {kind_of(value)} where a list is expected", "give a list, or leave it out")
        if len(value) > most:
            refuse(path, f"has {len(value):,} entries and at most {most} are taken", "split the work, or name a folder")
        return tuple([read(item, f"{path}[{place}]") for place, item in enumerate(value)])

    return read_all


def _read_paths(value: Any, path: str) -> tuple[str, ...]:
    found: tuple[str, ...] = _list_of(read_path, MAX_FILES)(value, path)
    seen: dict[str, int] = {}
    for place, text in enumerate(found):
        first = seen.setdefault(text.removesuffix("/"), place)
        if first != place:
            refuse(f"{path}[{place}]", f"is the same file as {path}[{first}]", "name it once")
    return found


# -- packets -----------------------------------------------------------------------------------------


def _read_packet(value: Any, path: str) -> msgspec.Raw:
    """One JSON object. What came as JSON text is kept byte for byte, from its `{` to its `}`."""
    raw = _packet_bytes(value, path).strip(b" \t\r\n")
    if not isinstance(_decoded(raw, path), dict):
        refuse(path, f"is {kind_of(decode(raw))}, not one JSON object", 'wrap it: {"value": …}')
    if is_deeper(raw, MAX_DEPTH):
        refuse(path, f"is nested {depth_of(raw)} deep and at most {MAX_DEPTH} can be read", "flatten it")
    return msgspec.Raw(raw)


def _packet_bytes(value: Any, path: str) -> bytes:
    if isinstance(value, str):
        return read_text(value, path).encode()
    if isinstance(value, bytes | msgspec.Raw):
        return bytes(value)
    if not isinstance(value, dict):
        refuse(path, f"is {kind_of(value)}, not one JSON object", "give a dict, or one JSON object as text or bytes")
    try:
        return pack_json(value, path)
    except ValueRefused as error:
        remedy = _JSON if error.remedy in (ANNOTATE, INJECT) else error.remedy
        raise HandoffInvalid(error.path, error.why, remedy) from error


def _decoded(raw: bytes, path: str) -> Any:
    try:
        return decode(raw)
    except UnicodeDecodeError:
        refuse(path, f"is no UTF-8 at {_place(raw, _first_odd_byte(raw))}", "encode the JSON text as UTF-8")
    except RecursionError:
        refuse(path, "is nested too deeply", f"flatten it: at most {MAX_DEPTH} levels can be read")
    except msgspec.ValidationError:
        refuse(path, "has a number that no reader can hold", "write the number as text")
    except msgspec.DecodeError as error:
        _refuse_malformed(raw, path, error)


def _first_odd_byte(raw: bytes) -> int:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _refuse_malformed(raw: bytes, path: str, error: msgspec.DecodeError) -> NoReturn:
    said = re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", str(error))
    if said:
        refuse(path, f"is no JSON: {said[1]} at {_place(raw, int(said[2]))}", "give one JSON object")
    half = next((found for found in _SURROGATES.finditer(raw) if found[1]), None)
    if half:
        refuse(path, f"has half a surrogate pair at {_place(raw, half.start())}", "give text that UTF-8 can encode")
    refuse(path, f"is no JSON: it ends too early, at {_place(raw, len(raw))}", "give one whole JSON object")


def _place(raw: bytes, at: int) -> str:
    lines = raw[:at].split(b"\n")
    return f"line {len(lines)}, byte {len(lines[-1]) + 1}"


# -- expires -----------------------------------------------------------------------------------------


def _read_expires(value: Any, path: str) -> str:
    """The text of a duration, a date or a moment. What Python has values for is kept as their text."""
    text = read_words(_as_text(value, path), path)
    if text != text.strip() or _BARE_NUMBER.fullmatch(text):
        refuse(path, f"{text[:100]!r} has no unit" if text == text.strip() else "has blanks around it", _WHEN)
    if duration(text) == 0:
        refuse(path, "is over at once", _WHEN)
    try:
        if duration(text) is None and not _is_date(text) and datetime.fromisoformat(text).tzinfo is None:
            refuse(path, f"{text!r} has no offset", f"write {text + 'Z'!r} for UTC, or add the offset")
        moment(expiry(text, 0))
    except OverflowError:
        refuse(path, f"{text!r} is beyond the calendar", _WHEN)
    except ValueError:
        refuse(path, f"{text[:100]!r} is no time", _WHEN)
    return text


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None


def _as_text(value: Any, path: str) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case timedelta():
            return _seconds_text(value // timedelta(microseconds=1), path)
        case int() | float() if not isinstance(value, bool):
            return _seconds_text(round((duration(value) or 0) * 1_000_000), path)
        case str():
            return value
        case _:
            return refuse(path, f"is {kind_of(value)}, not a time", _WHEN)


def _seconds_text(microseconds: int, path: str) -> str:
    if microseconds <= 0:
        refuse(path, "is no time to come", _WHEN)
    whole, rest = divmod(microseconds, 1_000_000)
    return f"{whole}s" if not rest else f"{whole}.{rest:06}s"


# -- checks, musts, paths and texts ------------------------------------------------------------------

LONGEST_PATH = 4096  # bytes, as the operating system counts
LONGEST_NAME = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLAIN_PATH = re.compile(r"(?:\w[\w.-]{0,99}/){0,20}\w[\w.-]{0,99}/?", re.ASCII)  # nothing can be wrong with it
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_COMMAND_KEYS = ("run", "cwd", "timeout", "exit")
_A_CHECK = 'give a shell command, {"run": "…"} or {"file": "…", "exists": true}'
_A_MUST = 'give a sentence, or {"file": "…", "exists": true}'
_A_FILE_RULE = 'give one of "exists": true, "absent": true, "sha256": "…", "contains": "…"'


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
    if _PLAIN_PATH.fullmatch(text):
        return text
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
    is_short = isinstance(value, bool | float) or (type(value) is int and value.bit_length() < 64)
    return repr(value) if is_short else kind_of(value)


def read_check(value: Any, path: str) -> Form:
    """An acceptance check: a shell command, a command as an object, or a file rule."""
    if not isinstance(value, dict):
        return _read_prose(value, path, _A_CHECK)
    if "run" in value and "file" in value:
        refuse(path, "is a command and a file rule at once", "make two checks of it")
    if "run" not in value and "file" not in value:
        _refuse_unknown(value, path, (*_COMMAND_KEYS, "file", *RULES))
        refuse(path, "has neither `run` nor `file`", _A_CHECK)
    return _read_command(value, path) if "run" in value else _read_rule(value, path)


def read_must(value: Any, path: str) -> Form:
    """A must or a rollback: prose, or a file rule."""
    if not isinstance(value, dict):
        return _read_prose(value, path, _A_MUST)
    if "run" in value:
        refuse(f"{path}.run", "only acceptance_checks are run", "put the command into acceptance_checks")
    if "file" not in value:
        _refuse_unknown(value, path, ("file", *RULES))
        refuse(path, "has no `file`", _A_MUST)
    return _read_rule(value, path)


def _read_prose(value: Any, path: str, remedy: str) -> str:
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
    read: dict[str, Reader] = {"run": read_words, "cwd": read_path, "timeout": _read_timeout, "exit": _read_exit}
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


# -- a check that shows nothing ----------------------------------------------------------------------

# Of commands with one blank between two words, and at most so long.
LONGEST_CHECK = 400
_PASSES_ALWAYS = re.compile(
    r"true|:|/bin/true|exit(?: 0)?|(?:echo|printf)\b[^|&;<>]*|test (?:1|true|-n \S+)|\[ 1 \]|sleep \S+"
    r"|pwd|date|ls|git (?:status|log|diff|branch)|cd(?: \S+)?|(?:sh|bash) -c [\"']?(?:true|exit 0|:)[\"']?"
)
_IN_ANY_CASE = re.compile(r"(?:\|\||;) ?(?:true|:|exit 0|(?:echo|printf)\b[^|&;<>]*)\Z")  # whatever came before it
_PARTS = re.compile(r" ?(?:&&|;) ?")


def passes_always(form: Form) -> bool:
    """Whether a check passes whatever was done."""
    return command_passes_always(run_of(form))


def command_passes_always(run: str) -> bool:
    """The same of its command; not of a rule about a file, which has none."""
    has_parts = ";" in run or "|" in run or "&" in run
    end = _IN_ANY_CASE.search(run[-LONGEST_CHECK:]) if has_parts else None
    if end and not any(end[0].count(quote) % 2 for quote in "\"'"):  # else it is inside of quotes
        return True
    parts = _PARTS.split(run) if has_parts else [run]
    return 0 < len(run) <= LONGEST_CHECK and all(map(_PASSES_ALWAYS.fullmatch, parts))


def run_of(form: Form) -> str:
    """The command of a check with one blank between two words; "" for a rule about a file."""
    command = command_of(form)
    return " ".join(command.run.split()) if command is not None else ""


_DEFAULTS = zip(reversed(Contract.__struct_fields__), reversed(Contract.__struct_defaults__), strict=False)
_LEFT_OUT = {name: default for name, default in _DEFAULTS if default is not msgspec.NODEFAULT}
_NEVER = object()  # given for no field
_read_anchor, _read_tag = partial(_read_line, longest=LONGEST_ANCHOR), partial(_read_line, longest=LONGEST_TAG)
_checks, _musts = _list_of(read_check, MAX_CHECKS), _list_of(read_must, MAX_CHECKS)
_READERS: dict[str, Reader] = {
    "anchor": _read_anchor,
    "summary": read_words,
    "handoff_text": read_text,
    "target_files": _read_paths,
    "next_action": _optional(read_words),
    "acceptance_checks": _checks,
    "must_change": _musts,
    "must_remove": _musts,
    "must_keep": _musts,
    "rollback": _musts,
    "execution_state_v1": _optional(_read_packet),
    "execution_packet_v1": _optional(_read_packet),
    "handoff_kind": _read_tag,
    "repo_root": _optional(read_words),
    "file_path": _optional(read_path),
    "symbol": _optional(read_words),
    "risk": _optional(read_words),
    "tags": _list_of(_read_tag, MAX_TAGS),
    "environment": _read_paths,
    "expires": _optional(_read_expires),
    "supersedes": _optional(_read_anchor),
    "refs": _list_of(partial(_read_line, longest=LONGEST_REF), MAX_REFS),
    "creates": _read_paths,
}


def _refuse_odd_path(text: str, path: str) -> None:
    """A path is refused as every path is; a sentence, an address and a single word are left to be prose."""
    if "://" in text or any(each.isspace() for each in text) or not is_pattern(text):
        return
    try:
        read_path(text, path)
    except HandoffInvalid as error:
        raise HandoffInvalid(error.path, error.why, f"{error.remedy}; or say it in a sentence") from error
