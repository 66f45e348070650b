"""What is given to a session, checked and made JSON before anything is written; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.errors import NameInvalid, ValueRefused
from outlast.home.place import check_name
from outlast.sessions.session import CONTENT_BYTES, ROLES
from outlast.values.codec import pack_json
from outlast.values.frozen import NamedTuple

ROLE_LENGTH = 64
META_BYTES = 1 << 16
AT_ONCE = 1_000
AT_ONCE_BYTES = 8 << 20
_FIELDS = ("role", "content", "meta", "run_id")
_JSON = "give text, or JSON values (dict with text keys, list, str, int, float, bool, None)"
_ELSEWHERE = "keep it in a file, and a reference to it here"


class MessageDraft(NamedTuple):
    """A message before it has its number; content and meta are JSON."""

    role: str
    content: str
    meta: str
    run_id: str


def draft(role: str, content: Any, meta: Mapping[str, Any] | None, run_id: str, path: str = "") -> MessageDraft:
    """A message that can be stored as it is. Raises NameInvalid, ValueRefused."""
    raw = _json(content, f"{path}content", CONTENT_BYTES, _ELSEWHERE)
    return MessageDraft(_role(role, path), raw, meta_of(meta, f"{path}meta"), _run_id(run_id, path))


def drafts(given: Sequence[Mapping[str, Any]]) -> list[MessageDraft]:
    """Messages to append at once. Raises NameInvalid, ValueRefused."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ValueRefused("messages", f"{type(given).__qualname__} is no list", "give a list of messages")
    if len(given) > AT_ONCE:
        raise ValueRefused("messages", f"they are {len(given):,}; the limit is {AT_ONCE:,}", "append them in parts")
    found = [_draft(each, f"messages[{place}]") for place, each in enumerate(given)]
    size = sum(len(each.content.encode()) for each in found)
    if size > AT_ONCE_BYTES:
        why = f"together they are {size:,} bytes of JSON; the limit is {AT_ONCE_BYTES:,}"
        raise ValueRefused("messages", why, "append them in parts")
    return found


def _draft(given: Mapping[str, Any], path: str) -> MessageDraft:
    form = '{"role": …, "content": …}, and if you like "meta" and "run_id"'
    if not isinstance(given, Mapping):
        raise ValueRefused(path, f"{type(given).__qualname__} is no message", f"give {form}")
    for name in given:
        if name not in _FIELDS:
            raise ValueRefused(f"{path}[{name!r}]", "a message has no such field", f"give {form}; put it into meta")
    for name in _FIELDS[:2]:
        if name not in given:
            raise ValueRefused(f"{path}[{name!r}]", "it is missing", f"give {form}")
    return draft(given["role"], given["content"], given.get("meta"), given.get("run_id", ""), f"{path}.")


def meta_of(given: Mapping[str, Any] | None, path: str = "meta") -> str:
    """Meta as JSON: an object of at most 64 KiB."""
    if not isinstance(given, Mapping | None):
        raise ValueRefused(path, f"{type(given).__qualname__} is no object", "give a dict with text keys")
    return _json(dict(given or {}), path, META_BYTES, _ELSEWHERE)


def memo_of(text: str) -> str:
    """A memo's text as JSON."""
    if not isinstance(text, str):
        raise ValueRefused("text", f"{type(text).__qualname__} is no text", "give the memo as text")
    return _json(text, "text", CONTENT_BYTES, "make it shorter")


def number(name: str, value: int) -> int:
    """A count, a seq or a version: from 0 on."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueRefused(name, f"{value!r:.100} is no such number", "give a whole number from 0 on")
    return value


def _json(value: Any, path: str, limit: int, remedy: str) -> str:
    try:
        raw = pack_json(value, path)
    except ValueRefused as error:
        raise ValueRefused(error.path, error.why, _JSON) from error
    if len(raw) > limit:
        raise ValueRefused(path, f"it is {len(raw):,} bytes of JSON; the limit is {limit:,}", remedy)
    return raw.decode()


def _role(role: str, path: str) -> str:
    name = check_name(f"{path}role", role)
    if len(name) > ROLE_LENGTH:
        why = f"it has {len(name)} characters; the limit is {ROLE_LENGTH}. The usual ones are {', '.join(ROLES)}"
        raise NameInvalid(f"{path}role", name, why)
    return name


def _run_id(run_id: str, path: str) -> str:
    return check_name(f"{path}run_id", run_id) if run_id != "" else ""
