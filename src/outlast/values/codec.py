"""Values in and out of JSON, so that what comes back equals what went in, or is refused by path.

Owns the encoders, the typed decoders and the search for the offending value. No pickle, no repr, no
silent change: a tuple that would come back as a list, a NaN that would come back as null and a live
object are refused with the path of the value and what to do instead.

And digests of bytes, one hash everywhere: SHA-256, in hex; identities use its first 128 bits.

And paths, which need not be UTF-8, as JSON can carry them.

And what a row of the store says, as the value that callers get: one rule for what each column means.

And JSON text from outside, looked at before it is read: how deep it is nested, and whether it says one thing only. Each
look is one pass whose cost grows with the length of the text, whatever the text is: nothing here tries again from
where it was before. What a text means, and which fields it may have, is for whoever takes it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from functools import cache, partial
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast, get_origin

import msgspec

from outlast import errors
from outlast.clock import moment
from outlast.values.late import late

if TYPE_CHECKING:
    import dataclasses
    import hashlib
    from urllib import parse

    hash_of_few = hashlib.sha256
else:
    dataclasses = late("dataclasses")
    hashlib = late("hashlib")
    parse = late("urllib.parse")
    try:
        from _sha2 import sha256 as hash_of_few  # as `random` has it; before Python 3.12 it stands in another place
    except ImportError:
        try:
            from _sha256 import sha256 as hash_of_few
        except ImportError:  # a Python that was built without it
            from hashlib import sha256 as hash_of_few


ANNOTATE = "annotate the return type, or return JSON values (dict with text keys, list, str, int, float, bool, None)"
INJECT = "pass live objects by inject(…); steps take and return values"

FEW_BYTES, SCANT_BYTES = 512, 128
_empty: hashlib._Hash | None = None  # of OpenSSL, once that was needed


def sha256(data: bytes) -> hashlib._Hash:
    """A hash of these bytes; of few by Python itself, of many by OpenSSL, begun as the copy of an empty one.

    To make one anew has that library look its algorithm up, which after a sync takes longer than all hashes of a step.
    And loading it takes longer than all that a process hashes which only goes on with a run; once it is there, only
    what is less than a block or two is quicker without it.
    """
    if len(data) <= (FEW_BYTES if _empty is None else SCANT_BYTES):
        return hash_of_few(data)
    made = (_empty or _load()).copy()
    made.update(data)
    return made


def _load() -> hashlib._Hash:
    global _empty
    _empty = hashlib.sha256()
    return _empty


def digest(data: bytes) -> str:
    """The whole SHA-256, for content that must be proven."""
    return sha256(data).hexdigest()


def identity(data: bytes) -> str:
    """The first half, for telling inputs and code apart."""
    return sha256(data).hexdigest()[:32]


def _to_json(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(type(value).__name__)


def _from_json(kind: Any, value: Any) -> Any:
    if kind is object:
        return value
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(str(kind))


_plain = msgspec.json.Encoder(enc_hook=_to_json)
_sorted = msgspec.json.Encoder(enc_hook=_to_json, order="deterministic")
_any = msgspec.json.Decoder()
_to_json_values = _any.decode  # one object, so that it can be recognised
_SCALARS = frozenset({str, int, float, bool, type(None)})
_UNCHANGED: frozenset[type] = frozenset({str, int, bool, type(None)})  # a float may be NaN, which has no JSON form
Decode = Callable[[bytes], Any]


def decoder(annotation: Any) -> Decode:
    """The decoder for an annotation; one that JSON cannot honour decodes to plain JSON values."""
    if annotation is None or annotation is type(None):
        return _to_json_values
    try:
        return msgspec.json.Decoder(annotation, dec_hook=_from_json).decode
    except TypeError:
        return _to_json_values


def unchanged(annotation: Any) -> frozenset[type]:
    """The types whose values surely come back as themselves by that decoder: to look is not needed."""
    if annotation in (None, type(None), Any, object):
        return _UNCHANGED
    return _UNCHANGED & {annotation} if isinstance(annotation, type) else frozenset()


def encode(value: Any) -> bytes:
    """Encode one of our own values (already known to be plain)."""
    return _plain.encode(value)


def decode(raw: bytes | str) -> Any:
    """Decode to plain JSON values."""
    return _any.decode(raw)


def pack(value: Any, back: Decode, path: str, same: Collection[type] = ()) -> tuple[bytes, Any]:
    """Encode `value` and give it as it will come back: the same object live and on replay.

    Of the types in `same` that is known (`unchanged`). Raises ValueRefused when it would not come back equal.
    """
    try:
        raw = _plain.encode(value)
        if type(value) in same:
            return raw, value
        copy = back(raw)
    except (TypeError, ValueError, NotImplementedError, OverflowError, RecursionError) as error:
        raise _refusal(value, path, error) from error
    if copy != value:
        _refuse_difference(value, copy, path)
    if back is _to_json_values and type(value) not in _SCALARS and not _is_plain(value):
        _refuse_subtype(value, path)
    return raw, copy


def digest_inputs(arguments: dict[str, Any], path: str) -> str:
    """The identity of a call's inputs. Raises ValueRefused for what cannot be told apart by value."""
    try:
        raw = _sorted.encode(arguments)
    except (TypeError, ValueError, NotImplementedError, OverflowError, RecursionError) as error:
        raise _refusal(arguments, path, error, INJECT, _sorted) from error
    if raw.find(b"null") >= 0:  # NaN and infinity encode as null, and would be taken for None
        for where, item in _walk(arguments, path):
            _refuse_nan(where, item)
    if len(raw) <= FEW_BYTES:  # `identity`, without two calls more in every step
        return hash_of_few(raw).hexdigest()[:32]
    return identity(raw)


def pack_json(value: Any, path: str) -> bytes:
    """Encode a plain JSON value. Raises ValueRefused for anything else."""
    return pack(value, _to_json_values, path)[0]


SMALL_BYTES = 64 * 1024  # of what is shown, emitted or noted beside the work
SENT_BYTES = 1024 * 1024  # of what people and other programs send in: an answer, a signal


def pack_small(value: Any, path: str, limit: int = SMALL_BYTES) -> bytes:
    """The same for what is to be small. Raises ValueRefused for what has more bytes than that."""
    raw = pack_json(value, path)
    refuse_large(len(raw), path, limit)
    return raw


def refuse_large(size: int, path: str, limit: int = SMALL_BYTES) -> None:
    """Raises ValueRefused for more bytes than that."""
    if size > limit:
        why = f"it has {size:,} bytes as JSON, and the limit is {limit:,}"
        raise errors.ValueRefused(path, why, "save it as an artifact (run.workspace.save) and give its ref")


def _is_plain(value: Any) -> bool:
    """Whether every part is exactly of a JSON type: an IntEnum equals its int, and would come back as one."""
    todo = [value]
    while todo:
        item = todo.pop()
        if type(item) is dict:
            todo.extend(item.values())
        elif type(item) is list:
            todo.extend(item)
        elif type(item) not in _SCALARS:
            return False
    return True


# -- finding the offending value (only reached when something is wrong) ------------------------------


def _refuse_subtype(value: Any, path: str) -> None:
    for where, item in _walk(value, path):
        if type(item) not in _SCALARS and type(item) not in (dict, list):
            kind = next(base.__name__ for base in type(item).__mro__ if base in (*_SCALARS, dict, list, object))
            raise errors.ValueRefused(where, f"{type(item).__qualname__} would come back as {kind}", ANNOTATE)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    todo = [(path, value)]  # no recursion: a value may be nested as deep as the encoder can go
    while todo:
        where, item = todo.pop()
        yield where, item
        todo += [(where + step, child) for step, child in _children(item)][::-1]


def _encodes(value: Any, encoder: msgspec.json.Encoder) -> bool:
    try:
        encoder.encode(value)
    except Exception:
        return False
    return True


def _refuse_nan(path: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise errors.ValueRefused(path, f"{value} has no JSON form", "use None or a text for it")


def _refuse_keys(path: str, value: Any) -> None:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise errors.ValueRefused(path, f"its key {key!r} is no text", "use text keys, or a list of pairs")


def _innermost(value: Any, path: str, encoder: msgspec.json.Encoder) -> tuple[str, Any]:
    children = _children(value)
    while (inner := next((c for c in children if not _encodes(c[1], encoder)), None)) is not None:
        path, value = path + inner[0], inner[1]
        children = _children(value)
    return path, value


def _refusal(
    value: Any, path: str, error: Exception, remedy: str = ANNOTATE, encoder: msgspec.json.Encoder = _plain
) -> errors.ValueRefused:
    if isinstance(error, RecursionError):
        return errors.ValueRefused(path, "it is nested too deeply or contains itself", "flatten it")
    where, item = _innermost(value, path, encoder)
    if isinstance(error, msgspec.ValidationError):  # it is not what the annotation says; NaN became null
        for place, part in _walk(value, path):
            _refuse_nan(place, part)
    else:
        _refuse_keys(where, item)
    if isinstance(error, NotImplementedError):
        what = f"a live object of type {type(item).__qualname__}" if item is not value else ""
        return errors.ValueRefused(where, what or f"a live object of type {type(value).__qualname__}", INJECT)
    return errors.ValueRefused(where, str(error), remedy)


def _refuse_difference(value: Any, copy: Any, path: str) -> None:
    found = _difference(value, copy, path)
    if found is not None:
        where, item, back = found
        _refuse_nan(where, item)
        _refuse_keys(where, item)
        why = f"{type(item).__qualname__} would come back as {type(back).__qualname__}"
        raise errors.ValueRefused(where, why, ANNOTATE)


def _difference(value: Any, copy: Any, path: str) -> tuple[str, Any, Any] | None:
    """The first place where the copy is another thing; None if it only lacks an `__eq__`."""
    if value == copy:
        return None
    if type(value) is not type(copy):
        return path, value, copy
    mine, theirs = list(_children(value)), list(_children(copy))
    if [step for step, _ in mine] != [step for step, _ in theirs]:
        return path, value, copy
    for (step, item), (_, back) in zip(mine, theirs, strict=True):
        found = _difference(item, back, path + step)
        if found is not None:
            return found
    if not mine and (encode(value) != encode(copy) or _tells_itself_apart(value)):
        return path, value, copy
    return None


def _tells_itself_apart(value: Any) -> bool:
    """Whether its own `__eq__` found the difference: a field that is not encoded, such as an excluded one."""
    own: bool = type(value).__eq__ is not object.__eq__  # type: ignore[comparison-overlap]
    return own and bool(value == value)  # a Decimal NaN is not even itself


def jsonable(value: Any) -> Any:
    """A value of ours as plain JSON data, for the doors."""
    return cast(Any, msgspec.to_builtins(value, enc_hook=_to_json))


def readable(words: str) -> str:
    """The words, with what JSON cannot carry written out."""
    return words.encode("utf-8", "backslashreplace").decode("utf-8")


def text(path: str) -> str:
    """A path as JSON can carry it: itself, or if it is not UTF-8, `bytes:` and its bytes, percent-encoded."""
    raw = path.encode("utf-8", "surrogateescape")
    plain = raw.decode("utf-8", "replace") == path and not path.startswith("bytes:")
    return path if plain else f"bytes:{parse.quote_from_bytes(raw)}"


def path_of(plain: str) -> str:
    """The path that `text` was made of."""
    if not plain.startswith("bytes:"):
        return plain
    return parse.unquote_to_bytes(plain.removeprefix("bytes:")).decode("utf-8", "surrogateescape")


def doubled(names: Iterable[str]) -> str | None:
    """The first of the names that is there twice."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


S = TypeVar("S", bound=msgspec.Struct)


def value_of(kind: type[S], row: Any, **given: Any) -> S:
    """A value with what its row says of each field: a moment as one, JSON read. `given`: what is said otherwise."""
    said = {name: read(getattr(row, name)) for name, read in _readers(kind, row._fields) if name not in given}
    return kind(**said, **given)


Read = Callable[[Any], Any]


@cache
def _readers(kind: type[msgspec.Struct], columns: tuple[str, ...]) -> list[tuple[str, Read]]:
    """How each field that a row has a column for is read from it."""
    said = kind.__annotations__
    names = [name for name in kind.__struct_fields__ if name in columns]
    return [(name, _PLAINLY.get(said.get(name)) or partial(_read, kind, name)) for name in names]


def _read(kind: type[msgspec.Struct], name: str, value: Any) -> Any:
    return _by_types(kind)[name](value)


@cache
def _by_types(kind: type[msgspec.Struct]) -> dict[str, Read]:
    return {each.name: _reader(each.type) for each in msgspec.structs.fields(kind)}


def _reader(kind: Any) -> Read:
    if kind in (datetime, datetime | None):
        return moment
    if kind is bool:
        return bool
    if kind in (str, int) or get_origin(kind) is Literal:
        return _as_it_is
    return lambda text: msgspec.convert(decode(text), kind)


def _as_it_is(value: Any) -> Any:
    return value


# By what an annotation says: to find out what it is takes longer than all else that is read with it.
_PLAINLY: dict[Any, Read] = {
    **dict.fromkeys(("str", "int"), _as_it_is),
    **dict.fromkeys(("datetime", "datetime | None"), moment),
    "bool": bool,
    "dict[str, Any]": _reader(dict[str, Any]),
}


# -- JSON text from outside --------------------------------------------------------------------------

_STEPS = tuple({"[": 1, "{": 1, "]": -1, "}": -1}.get(chr(byte), 0) for byte in range(256))
_OTHERS = bytes(byte for byte in range(256) if not _STEPS[byte])


_NESTED = frozenset({dict, list})


class NotStrict(ValueError):
    """A text that is no JSON, or that two readers could take for two things; says why."""


def read_strict(raw: bytes, most: int) -> Any:
    """The value of a text, which is parsed once. Raises NotStrict as `check_strict`, and for what is no text or number.

    A key that is there twice is one member less in the value than there are colons between texts.
    """
    if is_deeper(raw, most):
        raise NotStrict(f"it is nested more than {most} deep")
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        check_strict(raw, most)  # it knows the place
        raise NotStrict(f"it is no JSON ({error})") from error
    if _members(value) != _between_texts(raw).count(b":"):
        check_strict(raw, most)
    return value


def _members(value: Any) -> int:
    """How many members all objects in a value have together."""
    count, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            count += len(each)
            left += [inner for inner in each.values() if type(inner) in _NESTED]
        elif isinstance(each, list):
            left += [inner for inner in each if type(inner) in _NESTED]
    return count


def check_strict(raw: bytes, most: int) -> None:
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
    if b"\\" in raw:
        raw = raw.replace(rb"\\", b"").replace(rb"\"", b"")  # in this order: what is left of \\" is a quote
    return b"".join(raw.split(b'"')[::2])
