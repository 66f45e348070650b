"""A contract from what a caller gave: every field checked, nothing changed, nothing cut.

This is where input from outside is narrowed. What cannot be used is refused with HandoffInvalid: the path of the
value, what is wrong with it, and what to do. Only text is judged here; whether a file is there, is a link or a device
is for the host to see. The forms of checks and musts are in `forms.py`, secrets in `secrets/find.py`, quality in
`lint.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, NoReturn

import msgspec

from outlast.clock import micros, moment
from outlast.errors import HandoffInvalid, ValueRefused
from outlast.handoffs.forms import (
    CommandCheck,
    FileRule,
    command_of,
    kind_of,
    read_check,
    read_must,
    read_path,
    read_text,
    read_words,
    refuse,
    rule_of,
)
from outlast.handoffs.handoff import MAX_BYTES, MAX_CHECKS, MAX_FILES, MAX_REFS, STALE_SECONDS, Contract
from outlast.values.codec import ANNOTATE, INJECT, decode, encode, pack_json
from outlast.values.json_text import depth_of, is_deeper
from outlast.values.text import duration, nearest

__all__ = ["CommandCheck", "FileRule", "command_of", "contract_of", "draft_of", "expiry", "rule_of"]

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
    values = {}
    for name, value in given.items():
        if name not in _READERS:
            refuse(name[:100], "is no field of a handoff", nearest(name, _READERS, "the fields are"))
        values[name] = value if value is _LEFT_OUT.get(name, MISSING) else _READERS[name](value, name)
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
    if contract.musts or contract.acceptance_checks:
        from outlast.handoffs.musts import refuse_contradictions

        refuse_contradictions(contract)


def _refuse_oversize(contract: Contract) -> None:
    """The limit holds for the whole, so it is the whole that is measured, as it will be written."""
    size = len(encode(contract))
    if size <= MAX_BYTES:
        return
    sizes = {field.name: len(encode(getattr(contract, field.name))) for field in fields(contract)}
    largest = max(sizes, key=lambda name: sizes[name])
    why = f"the handoff has {size:,} bytes and at most {MAX_BYTES:,} fit; this field alone has {sizes[largest]:,}"
    refuse(largest, why, "put long content into a file or an artifact and name it")


# -- text --------------------------------------------------------------------------------------------


def _optional(read: Reader) -> Reader:
    return lambda value, path: None if value is None else read(value, path)


def _read_line(value: Any, path: str, longest: int) -> str:
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


def _read_anchor(value: Any, path: str) -> str:
    return _read_line(value, path, LONGEST_ANCHOR)


def _read_tag(value: Any, path: str) -> str:
    return _read_line(value, path, LONGEST_TAG)


def _read_ref(value: Any, path: str) -> str:
    return _read_line(value, path, LONGEST_REF)


# -- lists -------------------------------------------------------------------------------------------


def _list_of(read: Reader, most: int) -> Reader:
    def read_all(value: Any, path: str) -> tuple[Any, ...]:
        if isinstance(value, str):
            refuse(path, "is one text where a list is expected", f"put it into a list: {path}=[…]")
        if not isinstance(value, list | tuple):
            refuse(path, f"is {kind_of(value)} where a list is expected", "give a list, or leave it out")
        if len(value) > most:
            refuse(path, f"has {len(value):,} entries and at most {most} are taken", "split the work, or name a folder")
        return tuple(read(item, f"{path}[{place}]") for place, item in enumerate(value))

    return read_all


_paths = _list_of(read_path, MAX_FILES)


def _read_paths(value: Any, path: str) -> tuple[str, ...]:
    found: tuple[str, ...] = _paths(value, path)
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
        if _is_naive(text):
            refuse(path, f"{text!r} has no offset", f"write {text + 'Z'!r} for UTC, or add the offset")
        moment(expiry(text, 0))
    except OverflowError:
        refuse(path, f"{text!r} is beyond the calendar", _WHEN)
    except ValueError:
        refuse(path, f"{text[:100]!r} is no time", _WHEN)
    return text


def _is_naive(text: str) -> bool:
    return duration(text) is None and not _is_date(text) and datetime.fromisoformat(text).tzinfo is None


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
            pass
    return refuse(path, f"is {kind_of(value)}, not a time", _WHEN)


def _seconds_text(microseconds: int, path: str) -> str:
    if microseconds <= 0:
        refuse(path, "is no time to come", _WHEN)
    whole, rest = divmod(microseconds, 1_000_000)
    return f"{whole}s" if not rest else f"{whole}.{rest:06}s"


_LEFT_OUT = {each.name: each.default for each in fields(Contract) if each.default is not MISSING}
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
    "refs": _list_of(_read_ref, MAX_REFS),
    "creates": _read_paths,
}
