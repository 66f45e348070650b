"""The line to a server: one request and its answer, asked again where that is safe, within a deadline.

Everything is safe to ask again: reading is, and every write carries an operation_id, the caller's or one made once for
the call. Asked again is when nobody answered or a server is not up yet; what a server refuses, it refuses. No answer
leads to another address: a redirect is refused like any other answer that is none of ours, and the key stays here.

Errors of a server, made again here: the same class, code, facts and text as where they were raised.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from outlast import errors
from outlast.home.caller import LOCAL
from outlast.ids import chance, random_id
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import encode
from outlast.values.text import visible

try:
    import httpx2
except ImportError as missing:
    raise errors.ExtraMissing("a home behind a URL", "client") from missing

_SHOWN = 300  # characters of an answer that is not ours
_FAMILIES = {404: errors.NotFound, 409: errors.Conflict, 401: errors.Refused, 403: errors.Refused, 405: errors.Refused}


class ServerProblem(msgspec.Struct):
    """What a server answers when something went wrong."""

    code: str
    detail: str = ""
    advice: str = ""
    path: str | None = None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


def problem_in(raw: bytes) -> ServerProblem | None:
    """The problem that an answer tells of; None when it is not one of ours."""
    try:
        return msgspec.json.decode(raw, type=ServerProblem)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def error_of(status: int, raw: bytes, url: str) -> errors.OutlastError:
    """The error that a server answered with."""
    problem = problem_in(raw)
    family = _FAMILIES.get(status, errors.Unavailable if status >= 500 else errors.Invalid)
    if problem is None:
        shown = raw[:_SHOWN].decode("utf-8", "replace").strip()
        said = f"{url} answered {status}" + (f": {shown}" if shown else "")
        return family(detail=f"{said}; see that it is an Outlast server of this version")
    return _made_again(problem, _kinds().get(problem.code, family))


@cache
def _kinds() -> dict[str, type[errors.OutlastError]]:
    """Every error of ours by its code."""
    found = [getattr(errors, name) for name in dir(errors)]
    return {kind.code: kind for kind in found if isinstance(kind, type) and issubclass(kind, errors.OutlastError)}


def _made_again(problem: ServerProblem, kind: type[errors.OutlastError]) -> errors.OutlastError:
    error = errors.rebuild(kind, problem.facts)
    if error.code == problem.code and _says(error) == (problem.detail, problem.advice):
        return error
    said = {"code": problem.code, "says": _literal(problem.detail), "advice": _literal(problem.advice)}
    error.__dict__.update(said)  # of another version: its own words, in the class that is nearest
    return error


def _says(error: errors.OutlastError) -> tuple[str, str] | None:
    try:
        return error.detail, error.what_next
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return None


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


_LINE_ERRORS = (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError)
NOT_UP = (429, 502, 503, 504)
OF_A_PROXY = (502, 504)  # which found nobody behind it
LASTING = {
    *("store_read_only", "home_read_only", "store_lost", "store_newer", "store_foreign"),
    *("network_filesystem", "extra_missing", "settings_invalid"),
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHOWN_CLAIMS = 50
CONNECT_SECONDS = 5.0
SLOWEST = 16 << 10  # bytes in a second: an answer that comes slower than that only drips
MOST_BYTES = 256 << 20


class ClientPatience(Struct, frozen=True):
    """How long a client waits. Given as `store_options`; tests shorten it."""

    deadline_seconds: float = 30.0  # for a call and all its tries
    absent_seconds: float = 2.5  # for them while nobody ever was there: a server that is down is said at once
    retry_seconds: float = 0.1  # before the second try; then twice that, and so on
    longest_retry_seconds: float = 2.0
    poll_seconds: float = 20.0  # of one look at a run that goes on
    most_bytes: int = MOST_BYTES  # of one answer: a larger one is not read


class Who(Struct, frozen=True):
    """In whose name a client asks, unless its key says otherwise."""

    tenant: str = "default"
    scope: str = "default"
    actor: str = LOCAL


class Reply(Struct, frozen=True):
    """A good answer."""

    status: int
    headers: Mapping[str, str]
    raw: bytes


class Line:
    """A server, reached. Threads may share it."""

    def __init__(self, url: str, key: str | None, who: Who, patience: ClientPatience) -> None:
        self.url, self.who, self.patience = _checked(url), who, patience
        self.claims: dict[str, None] = {}  # that this client holds, the newest last
        self._headers = _headers((os.environ.get("OUTLAST_API_KEY") or None) if key is None else key, who)
        self._heard = False  # of the server, in whatever words
        self._http = httpx2.Client(**_settings(self.url))

    def operation_id(self) -> str:
        """An id that makes one write harmless to repeat: no two calls of any client have the same."""
        return random_id() + random_id()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: Callable[[], Iterator[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0.0,
        failed: Callable[[int], None] = lambda tries: None,
    ) -> Reply:
        """The answer. `wait`: how long the server may take on purpose. `failed` is told of each try without one.

        Raises the server's own error, ServerUnreachable.
        """
        said = None if body is None else encode(body)
        given = {**self._headers, **self._shown(), **(headers or {})}
        given |= {"content-type": "application/json"} if said is not None else {}
        url = self._place(path, query)

        def once(seconds: float) -> Reply:
            sent = content() if content is not None else said
            timeout = _timeout(seconds, wait, self._connecting)
            with self._http.stream(method, url, content=sent, headers=_bytes(given), timeout=timeout) as answer:
                raw = _read(answer, self.patience.most_bytes, time.monotonic() + seconds)
                return self._taken(answer.status_code, answer.headers, raw)

        return self._tried(once, failed, wait)

    def _taken(self, status: int, headers: Any, raw: bytes) -> Reply:
        self._heard = self._heard or status not in OF_A_PROXY
        if status >= 300:
            raise _Refused(status, error_of(status, raw, self.url), _may_pass(status, raw))
        # records that the server met and that are not what was stored: a home of this process would warn too
        damaged = headers.get("outlast-damaged", "")
        for line in damaged.split(",") if damaged else ():
            warnings.warn(visible(unquote(line)), RuntimeWarning, stacklevel=1)
        return Reply(status, headers, raw)

    def _tried(self, once: Callable[[float], Reply], failed: Callable[[int], None], wait: float) -> Reply:
        began, tries = time.monotonic() + wait, 0  # what the server takes on purpose does not count
        while True:
            refuse_stopped()
            tries += 1
            left = min(began - time.monotonic(), 0.0) + self.patience.deadline_seconds
            try:
                return once(max(left, 0.05))
            except _Refused as refused:
                if not refused.passes:
                    raise refused.error from None
                trouble: errors.OutlastError | None = refused.error
                why = f"it answered {refused.status}"
            except _LINE_ERRORS as error:
                self._heard = self._heard or not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                trouble, why = None, f"{type(error).__name__}: {error}"
            failed(tries)
            time.sleep(self.pause(began, tries, trouble, why))

    def pause(self, began: float, tries: int, trouble: errors.OutlastError | None, why: str) -> float:
        """How long to wait before the next try. Raises what there is to say when there is no time for one."""
        patience = self.patience
        pause: float = min(patience.retry_seconds * 2 ** min(tries - 1, 16), patience.longest_retry_seconds)
        pause *= 0.5 + chance() / 2  # so that many clients do not come back at the same moment
        if time.monotonic() + pause > began + self._deadline:
            raise trouble or errors.ServerUnreachable(self.url, self._deadline, tries, why)
        return pause

    @property
    def _connecting(self) -> float:
        return CONNECT_SECONDS if self._heard else min(CONNECT_SECONDS, self.patience.absent_seconds)

    @property
    def _deadline(self) -> float:
        """How long a call is tried: one that was there before may be starting anew, and is waited for."""
        patience = self.patience
        return patience.deadline_seconds if self._heard else min(patience.deadline_seconds, patience.absent_seconds)

    @contextmanager
    def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx2.Response]:
        """An answer to be read piece by piece; asked for once. Raises the server's own error, Broken."""
        given = _bytes({**self._headers, **self._shown(), **(headers or {})})
        seconds = self.patience.deadline_seconds
        try:
            with self._http.stream(
                "GET", self._place(path, query), headers=given, timeout=_timeout(seconds, 0.0, self._connecting)
            ) as answer:
                if answer.status_code >= 300:
                    self._refuse(answer.status_code, _read(answer, _PROBLEM_BYTES, time.monotonic() + seconds))
                _refuse_packed(answer)
                self._heard = True
                yield answer
        except _LINE_ERRORS as error:
            raise Broken(f"{type(error).__name__}: {error}") from error

    def _refuse(self, status: int, raw: bytes) -> None:
        error = error_of(status, raw, self.url)
        raise Broken(str(error), error) if _may_pass(status, raw) else error

    def again(self, broken: Broken, began: float, tries: int) -> None:
        """Wait before a stream is taken up again. Raises ServerUnreachable when nothing came for too long."""
        refuse_stopped()
        time.sleep(self.pause(began, tries, broken.error, broken.why))

    # -- on an event loop ------------------------------------------------------------------------

    def on_loop(self) -> httpx2.AsyncClient:
        """The same line for an event loop."""
        return httpx2.AsyncClient(**_settings(self.url))

    @asynccontextmanager
    async def stream_async(
        self, http: httpx2.AsyncClient, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        """As `stream`, awaited."""
        given, seconds = _bytes({**self._headers, **headers}), self.patience.deadline_seconds
        try:
            async with http.stream(
                "GET", self._place(path, query), headers=given, timeout=_timeout(seconds, 0.0, self._connecting)
            ) as answer:
                if answer.status_code >= 300:
                    self._refuse(answer.status_code, await _read_async(answer, _PROBLEM_BYTES))
                _refuse_packed(answer)
                self._heard = True
                yield answer
        except _LINE_ERRORS as error:
            raise Broken(f"{type(error).__name__}: {error}") from error

    def _place(self, path: str, query: Mapping[str, Any] | None) -> str:
        said = {name: _words(value) for name, value in (query or {}).items() if value is not None}
        return f"{self.url}{path}" + (f"?{urlencode(said, doseq=True)}" if said else "")

    # -- claims ----------------------------------------------------------------------------------

    def take(self, claim_id: str) -> None:
        """Hold a claim that the server gave. Raises ReplyInvalid for what no header can carry."""
        if not claim_id.isascii() or not claim_id.isprintable() or not claim_id or " " in claim_id:
            raise errors.ReplyInvalid(f"{claim_id!r:.100} is no id of a claim")
        self.hold(claim_id)

    def hold(self, claim_id: str) -> None:
        """Show this claim with each request from now on."""
        self.claims.pop(claim_id, None)
        self.claims[claim_id] = None

    def _shown(self) -> dict[str, str]:
        newest = list(self.claims)[-SHOWN_CLAIMS:]
        return {"outlast-claims": " ".join(newest)} if newest else {}

    def close(self) -> None:
        self._http.close()


class Broken(Exception):
    """A stream broke off, or could not be begun now: it can be taken up again."""

    def __init__(self, why: str, error: errors.OutlastError | None = None) -> None:
        super().__init__(why)
        self.why, self.error = why, error


class _Refused(Exception):
    def __init__(self, status: int, error: errors.OutlastError, passes: bool) -> None:
        super().__init__(status)
        self.status, self.error, self.passes = status, error, passes


def _may_pass(status: int, raw: bytes) -> bool:
    """Whether asking again may help: a server that starts, stops or is too busy."""
    if status not in NOT_UP:
        return False
    problem = problem_in(raw)
    return problem is None or problem.code not in LASTING


def _timeout(seconds: float, wait: float, connecting: float) -> httpx2.Timeout:
    """How long a try may take; that somebody is there at all shows sooner."""
    return httpx2.Timeout(seconds + wait, connect=min(seconds, connecting))


# -- what is read ------------------------------------------------------------------------------------

_PROBLEM_BYTES = 1 << 20  # of what a stream is refused with


def _read(answer: httpx2.Response, most_bytes: int, until: float) -> bytes:
    """All of an answer. Raises ReplyInvalid for one that is too large, ReadTimeout for one that drips."""
    _refuse_packed(answer)
    parts = _Parts(most_bytes, until)
    for piece in answer.iter_raw():
        parts.add(piece)
    return b"".join(parts.found)


async def _read_async(answer: httpx2.Response, most_bytes: int) -> bytes:
    _refuse_packed(answer)
    parts = _Parts(most_bytes, float("inf"))
    async for piece in answer.aiter_raw():
        parts.add(piece)
    return b"".join(parts.found)


class _Parts:
    """What came of an answer. Whatever comes gives it a little more time."""

    def __init__(self, most_bytes: int, until: float) -> None:
        self.found: list[bytes] = []
        self._size, self._most_bytes, self._until = 0, most_bytes, until

    def add(self, piece: bytes) -> None:
        self.found.append(piece)
        self._size += len(piece)
        if self._size > self._most_bytes:
            raise errors.ReplyInvalid(f"it has more than {self._most_bytes:,} bytes")
        if time.monotonic() > self._until + self._size / SLOWEST:
            raise httpx2.ReadTimeout("the answer only drips")


def _refuse_packed(answer: httpx2.Response) -> None:
    """Raises ReplyInvalid: nobody asked for it, and what is small packed may be endless unpacked."""
    if (packed := answer.headers.get("content-encoding", "identity")) != "identity":
        raise errors.ReplyInvalid(f"it is packed ({packed[:40]!r})")


# -- what is sent ------------------------------------------------------------------------------------


def in_path(value: str) -> str:
    """A value as one part of a path, whatever is in it."""
    quoted = quote(value, safe="")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted


def _words(value: Any) -> list[str]:
    """A value of a query, or several of the same name."""
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]


def _bytes(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in headers.items()}


def _headers(key: str | None, who: Who) -> dict[str, str]:
    said = {"outlast-tenant": (who.tenant, "default"), "outlast-scope": (who.scope, "default")}
    said["outlast-actor"] = (who.actor, LOCAL)
    found = {name: value for name, (value, usual) in said.items() if value != usual}
    if key:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise errors.NameInvalid("key", f"{key[:6]}…", "it is no key; give one as `outlast keys create` showed it")
        found["authorization"] = f"Bearer {key}"
    return found


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise errors.NameInvalid("home", url, f"it is no URL ({error})") from error
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise errors.NameInvalid(
            "home", url, "give the server's address, such as http://127.0.0.1:8787, and the key as key=…"
        )
    return url.rstrip("/")


_PLAIN = {"user-agent": "outlast", "accept-encoding": "identity"}


def _settings(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    here, verify = parts.hostname in LOOPBACK, parts.scheme == "https"  # reading certificates takes its time
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=50, keepalive_expiry=30.0)
    return {"limits": limits, "trust_env": not here, "verify": verify, "headers": _PLAIN}
