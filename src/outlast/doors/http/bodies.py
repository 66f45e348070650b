"""Reading what is sent: within limits, in time, as the one JSON object that a call takes, or refused by name."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import suppress
from functools import cache, partial
from types import coroutine
from typing import Annotated, Any, NoReturn, TypeVar, cast, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from outlast.errors import BodyTooLarge, BodyTooSlow, MediaTypeRefused, OutlastError, RequestInvalid, RequestMalformed
from outlast.operations.operation import choices_of
from outlast.values import codec

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
JSON = "application/json"
LET_BY = 16 << 20  # so much of content that is too large is let go by
DRAINED = 8  # times the limit: so much of a body that is too large is let go by
MAX_DEPTH = 250  # a packet may be nested 200 deep, and lies in a body
_AT = re.compile(r"^(?P<why>.*?)(?: - at `(?P<at>\$[^`]*)`)?$", re.DOTALL)
_CAPITAL = re.compile(r"[A-Z]")
_FIELD = re.compile(r"(?:unknown|missing required) field `([^`]*)`")


class Gone(Exception):
    """The client left before it had sent everything: there is nobody to answer."""


async def read(receive: Receive, length: int | None, limit: int, seconds: float) -> bytes:
    """The whole body. Raises BodyTooLarge, BodyTooSlow, Gone."""
    over = length is not None and length > limit
    try:
        return await within(seconds, _refuse_rest(receive, limit, 0) if over else _all(receive, limit))
    except TimeoutError:
        raise BodyTooSlow(seconds) from None


@coroutine
def within(seconds: float, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """What the work gives. Raises TimeoutError when that takes longer.

    Mostly it has nothing to wait for: what a small request sends is there with its head, and what it is answered fits.
    The clock is set only when it begins to wait, since setting it takes longer than all the rest.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    return (yield from _timed(seconds, _rest(work, waits_for)).__await__())


async def _timed(seconds: float, rest: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await rest


@coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """What a coroutine that has begun to wait gives in the end."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:
            go_on = partial(work.throw, error)
        else:
            go_on = partial(work.send, sent)
        try:
            waits_for = go_on()
        except StopIteration as done:
            return cast(T, done.value)


class Pace:
    """How fast content is to come: in every while so much of it at least. Only waiting for the client counts."""

    def __init__(self, seconds: float, rate: int) -> None:
        self._seconds, self._least = seconds, max(int(seconds * rate), 1)
        self._waited, self._came = 0.0, 0

    async def next(self, receive: Receive) -> tuple[bytes, bool]:
        """The next piece, and whether more come. Raises BodyTooSlow, Gone."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds - self._waited):
                message = await receive()
        except TimeoutError:
            raise BodyTooSlow(self._seconds, self._least) from None
        if message["type"] != "http.request":
            raise Gone
        piece, more = message.get("body", b""), bool(message.get("more_body"))
        self._waited, self._came = self._waited + time.monotonic() - began, self._came + len(piece)
        if self._came >= self._least:  # a while is over when enough has come; then the next one begins
            self._waited, self._came = 0.0, 0
        return piece, more


async def _refuse_rest(receive: Receive, limit: int, read: int) -> NoReturn:
    """Let a body that is too large go by, up to a point. Raises BodyTooLarge."""
    await _let_by(receive, limit * DRAINED - read)
    raise BodyTooLarge(limit)


async def refuse_content(receive: Receive, limit: int, seconds: float, *, more: bool = True) -> NoReturn:
    """The same for content that is streamed: so much of it and no longer is let go by. Raises BodyTooLarge."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await _let_by(receive, LET_BY if more else -1)
    raise BodyTooLarge(limit)


async def _let_by(receive: Receive, most: int) -> None:
    """Read on for a while: who still sends hears no answer."""
    more = True
    while more and most >= 0:
        message = await receive()
        most -= len(message.get("body", b""))
        more = bool(message.get("more_body"))


async def _all(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = bool(message.get("more_body"))
        if size > limit:
            await _refuse_rest(receive, limit, size if more else limit * DRAINED + 1)
        if not more:
            return b"".join(parts)


def check_type(found: str | None, encoding: str | None, wanted: str = JSON, *, is_empty: bool = False) -> None:
    """Raises MediaTypeRefused. JSON must say that it is: what does not is what any web page may send."""
    if encoding not in (None, "", "identity"):
        raise MediaTypeRefused(f"the content encoding {encoding[:100]!r}", "the body as it is")
    if wanted != JSON or (found is None and is_empty):
        return
    if found is None:
        raise MediaTypeRefused("a body without a Content-Type", JSON)
    if found == JSON:
        return
    kind, *options = (part.strip() for part in found.lower().split(";"))
    if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MediaTypeRefused(f"the media type {kind[:100]!r}", JSON)
    charset = next((word.partition("=")[2].strip('" ') for word in options if word.startswith("charset")), "utf-8")
    if charset not in ("utf-8", "utf8"):
        raise MediaTypeRefused(f"the charset {charset[:100]!r}", f"{JSON} in UTF-8")


# -- JSON --------------------------------------------------------------------------------------------


def decode(raw: bytes, kind: Any) -> Any:
    """What the call takes. Raises RequestMalformed for what is no JSON, RequestInvalid for what is not its fields."""
    said = read_json(raw or b"{}")
    if isinstance(said, dict):
        said = _with_packets(_in_our_spelling(said, kind), raw, kind)
    return _convert(said, kind, strict=True)


def _in_our_spelling(said: dict[str, Any], kind: Any) -> dict[str, Any]:
    """The same object, fields that are spelt as TypeScript does (`handoffText`) by our names."""
    fields = _fields(kind)
    if fields.issuperset(said):
        return said
    meant = {name: _ours(name) for name in said.keys() - fields}
    if any(name in said or name not in fields for name in meant.values()):
        return said
    return {meant.get(name, name): value for name, value in said.items()}


@cache
def _fields(kind: type[Any]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


def _ours(name: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)


def _with_packets(said: dict[str, Any], raw: bytes, kind: Any) -> dict[str, Any]:
    """The same with packets as the bytes that were sent: they are kept so."""
    names = [name for name in _packets(kind) if name in said]
    if not names:
        return said
    sent = {_ours(name): value for name, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()}
    return said | {name: sent[name] for name in names}


@cache
def _packets(kind: type[Any]) -> tuple[str, ...]:
    found = [(each.name, get_args(each.type)) for each in msgspec.structs.fields(kind)]
    return tuple(name for name, parts in found if any(msgspec.Raw in get_args(part) for part in parts))


def read_json(raw: bytes) -> Any:
    """What is said. Raises RequestMalformed for what is no JSON, says two things, or is nested too deeply."""
    try:
        return codec.read_strict(raw, MAX_DEPTH)
    except codec.NotStrict as error:
        raise RequestMalformed(str(error)) from error


def invalid(error: msgspec.ValidationError, kind: type[Any]) -> OutlastError:
    """Our error for a field that is not as the call takes it, with its path."""
    found = _AT.match(str(error))
    assert found is not None
    why, at = found["why"], (found["at"] or "$").removeprefix("$").lstrip(".")
    if field := _FIELD.search(why):
        at = f"{at}.{field[1]}" if at else field[1]
    choices = choices_of(kind, at) if "enum" in why else ()
    told = f"; use one of {', '.join(choices)}" if choices else ""
    return RequestInvalid(at or "body", why[:1].lower() + why[1:] + told)


# -- the query ---------------------------------------------------------------------------------------


def query_of(raw: bytes, kind: Any) -> Any:
    """The query's fields. Raises RequestInvalid, RequestMalformed."""
    if not raw:
        return _nothing_asked(kind)
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except (UnicodeError, ValueError) as error:
        raise RequestMalformed("the query is not percent-encoded UTF-8") from error
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in _lists(kind):
            given.setdefault(name, []).append(value)
            continue
        if name in given:
            raise RequestInvalid(name, "it is given twice")
        given[name] = value
    return _convert(given, kind)


@cache
def _nothing_asked(kind: type[Any]) -> Any:
    """What a query without any field asks: frozen, so that one does for all."""
    return _convert({}, kind)


@cache
def _lists(kind: type[Any]) -> frozenset[str]:
    """The fields that may be given more than once."""
    return frozenset(each.name for each in msgspec.structs.fields(kind) if _is_list(each.type))


def _is_list(kind: Any) -> bool:
    return _is_list(get_args(kind)[0]) if get_origin(kind) is Annotated else get_origin(kind) is tuple


def _convert(given: Any, kind: type[Any], *, strict: bool = False) -> Any:
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise invalid(error, kind) from error
