"""Requests that are plain, and their answers: nearly all of them are.

The head of a plain request came at once, says how long its body is, which is little, and asks for nothing that is to be
known before that has come: one pattern reads it. Its answer says how long it is, and is written whole. h11 never hears
of either. It reads and frames whatever is not plain: what comes in a row or in chunks, expects or upgrades, is answered
in pieces, without a body, or before all of it has come.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

from outlast.doors.http.exchange import Headers, Message

MOST_BYTES, MOST_DIGITS = 64 << 10, 9  # of a plain request, and of the length of its body
_NAME, _VALUE = rb"[0-9A-Za-z-]++", rb"[!-~]++(?:[ \t]++[!-~]++)*+"
_HEAD = re.compile(
    rb"(GET|POST|PUT|DELETE) (/[!-~]*+) HTTP/1\.1\r\n((?:%b:[ \t]*+%b\r\n)++)\r\n" % (_NAME, _VALUE),
)
_NOT_PLAIN = frozenset((b"transfer-encoding", b"expect", b"upgrade"))
_WITHOUT_BODY = (204, 304)
_BEGINNINGS = {status: b"HTTP/1.1 %d %b\r\n" % (status, phrase) for status, phrase in STATUS_PHRASES.items()}


class PlainRequest(Struct, frozen=True):
    """A request as h11 would read it, with what has come of its body."""

    raw: bytes
    method: str
    target: bytes
    headers: Headers  # their names in lower case
    body: bytes
    missing: int  # bytes of its body


def plain_in(raw: bytes) -> PlainRequest | None:
    """The request that begins so, if nothing came after it; None where h11 is to say what it is."""
    found = _HEAD.match(raw)
    if found is None:
        return None
    lines = [line.partition(b":") for line in found[3][:-2].split(b"\r\n")]
    headers = [(name.lower(), value.lstrip(b" \t")) for name, _, value in lines]
    said, end = dict(headers), found.end()
    if len(said) < len(headers) or b"host" not in said or not _NOT_PLAIN.isdisjoint(said):
        return None
    if said.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    length = said.get(b"content-length", b"0")
    whole = end + int(length) if length.isdigit() and len(length) <= MOST_DIGITS else 0
    if not len(raw) <= whole <= MOST_BYTES:
        return None
    return PlainRequest(raw, found[1].decode(), found[2], headers, raw[end:], whole - len(raw))


class PlainCycle(RequestResponseCycle):
    """A plain request under way. Where its answer is not plain, h11 is told of the request before it frames that."""

    def __init__(self, request: PlainRequest, tell_h11: Callable[[bytes], None], **options: Any) -> None:
        super().__init__(**options)
        self._raw, self._tell_h11, self._missing = request.raw, tell_h11, request.missing
        self.body, self.more_body = bytearray(request.body), request.missing > 0
        if self.body or not self.more_body:
            self.message_event.set()
        self.is_plain = True  # h11 does not know of it
        self._begun: Message | None = None  # how the answer begins, until its body is there

    def take(self, data: bytes) -> bytes:
        """Take what has come of the body; what comes after it is given back."""
        if not self._missing:
            return data
        part, rest = data[: self._missing], data[self._missing :]
        self._raw += part
        self.body += part
        self._missing -= len(part)
        self.more_body = self._missing > 0
        self.message_event.set()
        return rest

    async def send(self, message: Any) -> None:
        """The answer, if it is plain; a head waits for its body."""
        if not self.is_plain or self.disconnected:
            await super().send(message)
        elif self._begun is None and not self._missing and _is_plain(message):
            self._begun, self.response_started = message, True
        elif self._begun is not None and _is_all(self._begun, message):
            if self.flow.write_paused:
                await self.flow.drain()
            if not self.disconnected:
                self._answer(self._begun, message.get("body", b""))
        else:
            await self._send_by_h11(message)

    def answer_at_once(self, begun: Message, body: bytes) -> bool:
        """The whole answer, whose head says how long its body is; False, and nothing done, where it is to be sent."""
        waits = self.disconnected or self._missing or self.response_started or self.flow.write_paused
        if waits or not self.is_plain or not _is_plain(begun):
            return False
        self.response_started = True
        self._answer(begun, body)
        return True

    def _answer(self, begun: Message, body: bytes) -> None:
        lines = [b"%b: %b\r\n" % pair for pair in (*self.default_headers, *begun["headers"])]
        self.transport.write(b"".join([_BEGINNINGS[begun["status"]], *lines, b"\r\n", body]))
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    async def _send_by_h11(self, message: Message) -> None:
        begun, self._begun, self.is_plain, self.response_started = self._begun, None, False, False
        self._tell_h11(self._raw)
        if begun is not None:
            await super().send(cast(Any, begun))
        await super().send(cast(Any, message))


def _is_plain(begun: Message) -> bool:
    """Whether an answer that begins so is framed by nothing but its length."""
    if begun["type"] != "http.response.start" or begun["status"] in _WITHOUT_BODY:
        return False
    names = {name for name, _ in begun["headers"]}
    return b"content-length" in names and names.isdisjoint((b"connection", b"transfer-encoding"))


def _is_all(begun: Message, message: Message) -> bool:
    """Whether this is the body of an answer that begins so, and all of it."""
    if message["type"] != "http.response.body" or message.get("more_body"):
        return False
    return (b"content-length", b"%d" % len(message.get("body", b""))) in begun["headers"]
