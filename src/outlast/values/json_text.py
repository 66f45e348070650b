"""JSON text from outside, looked at before it is read: how deep it is nested, and whether it says one thing only.

Each look is one pass whose cost grows with the length of the text, whatever the text is: nothing here tries again from
where it was before. What a text means, and which fields it may have, is for whoever takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NoReturn

import msgspec

from outlast.values.codec import doubled

_STEPS = tuple({"[": 1, "{": 1, "]": -1, "}": -1}.get(chr(byte), 0) for byte in range(256))
_OTHERS = bytes(byte for byte in range(256) if not _STEPS[byte])


class NotStrict(ValueError):
    """A text that is no JSON, or that two readers could take for two things; says why."""


def read(raw: bytes, most: int) -> Any:
    """The value of a text, which is parsed once. Raises NotStrict as `check` does, and for what is no text or number.

    A key that is there twice is one member less in the value than there are colons between texts.
    """
    if is_deeper(raw, most):
        raise NotStrict(f"it is nested more than {most} deep")
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        check(raw, most)  # it knows the place
        raise NotStrict(f"it is no JSON ({error})") from error
    if _members(value) != _between_texts(raw).count(b":"):
        check(raw, most)
    return value


def _members(value: Any) -> int:
    """How many members all objects in a value have together."""
    count, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            count += len(each)
            left += each.values()
        elif isinstance(each, list):
            left += each
    return count


def check(raw: bytes, most: int) -> None:
    """Raises NotStrict for what is no JSON in UTF-8, is nested more than `most` deep, or has a key twice."""
    import json  # late: whoever only measures a packet needs none of it

    if is_deeper(raw, most):
        raise NotStrict(f"it is nested more than {most} deep")
    try:
        json.loads(raw.decode(), object_pairs_hook=_single, parse_constant=_no_number)
    except NotStrict:
        raise
    except UnicodeDecodeError as error:
        raise NotStrict(f"it is not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise NotStrict(f"it is no JSON ({error})") from error


def _single(pairs: list[tuple[str, Any]]) -> None:
    """A key that is there twice says two things: neither is chosen."""
    if len(dict(pairs)) < len(pairs):
        name = doubled(name for name, _ in pairs)
        assert name is not None
        raise NotStrict(f"the key {name[:100]!r} is there twice")


def _no_number(word: str) -> NoReturn:
    raise NotStrict(f"{word} is no number of JSON")


# -- depth -------------------------------------------------------------------------------------------


def depth_of(raw: bytes) -> int:
    """How deep lists and objects lie in each other. Of what is no JSON: no less than a reader gets to see."""
    return max(_depths(raw), default=0)


def is_deeper(raw: bytes, most: int) -> bool:
    """Whether `depth_of` is more than `most`; known at once where there are no more brackets than that."""
    if raw.count(b"{") + raw.count(b"[") <= most:
        return False
    return any(map(most.__lt__, _depths(raw)))


def _depths(raw: bytes) -> Iterator[int]:
    """The depth after each bracket that is in no text. A text that is not closed goes on to the end."""
    return accumulate(map(_STEPS.__getitem__, _between_texts(raw).translate(None, _OTHERS)))


def _between_texts(raw: bytes) -> bytes:
    plain = raw.replace(rb"\\", b"").replace(rb"\"", b"")  # in this order: what is left of \\" is a quote
    return b"".join(plain.split(b'"')[::2])
