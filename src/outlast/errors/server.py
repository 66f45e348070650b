"""Errors of a server, and of a client that asks it."""

from __future__ import annotations

from outlast.errors import Conflict, Invalid, NotFound, Refused, Unavailable, fact


class TenantNotFound(NotFound):
    """Raised for a tenant that is not the caller's own, or that a server's home does not have: which, is not said."""

    tenant: str
    remedy: str = fact(default="leave the tenant out; `outlast keys create --tenant NAME --actor WHO` lets somebody in")
    says = "no tenant {tenant!r} here"
    advice = "{remedy}"


class KeyNotFound(NotFound):
    """Raised when no API key has this id."""

    key: str
    home: str
    says = "no key {key!r} in {home}"
    advice = "see `outlast keys list`"


class RouteNotFound(NotFound):
    """Raised by a server for a path that it does not have."""

    route: str
    says = "there is nothing at {route!r}"
    advice = "see /openapi.json for what there is"


class AddressTaken(Conflict):
    """Raised when a server cannot listen where it is told to, because another program does."""

    address: str
    why: str
    says = "cannot listen on {address}: {why}"
    advice = "end the program that listens there, or name another one: `outlast serve --port PORT` (0: a free one)"


class Unauthenticated(Refused):
    """Raised by a server when a request has no key, or one that is unknown, expired or revoked."""

    why: str
    says = "{why}"
    advice = "send a key as `Authorization: Bearer ol_…`; `outlast keys create --actor WHO` makes one on the server"


class Forbidden(Refused):
    """Raised by a server when the key lacks the role, or the request comes from a place that is not let in."""

    why: str
    remedy: str
    says = "{why}"
    advice = "{remedy}"


class MethodRefused(Refused):
    """Raised by a server for a path that it has, by another method."""

    method: str
    route: str
    allowed: str
    says = "{method} cannot be used for {route}"
    advice = "use {allowed}"


class NoFlows(Refused):
    """Raised by a server that is asked to run a flow it was not given."""

    flow: str
    given: str
    says = "this server may not run {flow!r}: it was started with {given}"
    advice = "start it with the flow's module or file: `outlast serve --flows MODULE`, `outlast mcp --flows MODULE`"


class ReplyRefused(Refused):
    """Raised by a client whose server's answer asks for more than the call did; nothing of that was done."""

    why: str
    remedy: str
    says = "the server's answer asks for more than the call did: {why}"
    advice = "nothing of it was done; {remedy}"


class KeysNeeded(Refused):
    """Raised when a server is to let in only who has a key, and nobody has one."""

    why: str
    home: str
    says = "{why}, and there is no usable key in {home}"
    advice = "make one first: `outlast keys create --actor WHO`; or listen on 127.0.0.1 without --require-key"


class RequestMalformed(Invalid):
    """Raised by a server for a request that cannot be read, or that could be read in two ways."""

    why: str
    remedy: str = fact(default="send one JSON object in UTF-8")
    says = "the request cannot be read: {why}"
    advice = "{remedy}"


class RequestInvalid(Invalid):
    """Raised by a server for a request whose fields are not those of the call; `path` names the field."""

    path: str
    why: str
    says = "{path}: {why}"
    advice = "see /openapi.json for the fields of this call"


class BodyTooLarge(Invalid):
    """Raised by a server for a body over the limit. Nothing of it was used."""

    limit: int
    says = "the body has more than {limit} bytes"
    advice = "send less; content belongs in artifacts"


class RangeRefused(Invalid):
    """Raised by a server for a range that begins after the end of the content."""

    size: int
    says = "the content has {size} bytes, and the range begins after them"
    advice = "ask for a range inside of it, or for all of it"


class BodyTooSlow(Invalid):
    """Raised by a server for a body that did not arrive in time, or came more slowly than is waited for."""

    seconds: float
    least: int = fact(default=1)
    says = "of the body {least} bytes at least were to arrive within {seconds} s"
    advice = "send it again"


class HeadersTooSlow(Invalid):
    """Raised by a server for a request whose headers did not arrive in time."""

    seconds: float
    says = "the headers did not arrive within {seconds} s"
    advice = "send the request again, its headers at once"


class MediaTypeRefused(Invalid):
    """Raised by a server for a body in another form than the call takes."""

    found: str
    wanted: str
    says = "{found} is not taken here"
    advice = "send {wanted}"


class ServerUnreachable(Unavailable):
    """Raised by a client when a server did not answer in time, also when asked again."""

    url: str
    seconds: float
    tries: int
    why: str
    says = "{url} did not answer within {seconds:g} s ({tries} tries; {why})"
    advice = "see that it runs (`curl {url}/healthz`), then ask again; with the same operation_id nothing happens twice"


class ReplyInvalid(Unavailable):
    """Raised by a client for an answer that is none of an Outlast server of this version: its shape, kind or size."""

    why: str
    says = "the server's answer cannot be used: {why}"
    advice = "see that it is an Outlast server of this version"


class Internal(Unavailable):
    """Raised to a client when a server failed in a way that nobody foresaw; its log says more, by the request's id."""

    request: str
    says = "the server failed (request {request})"
    advice = "try again; if it stays, look for that id in the server's log"


class ServerFull(Unavailable):
    """Raised by a server that has as many connections as it can have, each with a request under way."""

    limit: int
    says = "the server has {limit} connections, and every one is in use"
    advice = "try again in a moment"


class TooManyRequests(Unavailable):
    """Raised by a server for a key that has as many requests under way as it may have."""

    key: str
    limit: int
    says = "{limit} requests of the key {key} are under way"
    advice = "wait for one of them, then ask again"


class TooManyRuns(Unavailable):
    """Raised by a server when a key that has as many runs going on as it may have would start another."""

    key: str
    limit: int
    says = "{limit} runs of the key {key} are going on"
    advice = "start it when one of them has ended; nothing was started"


class ServerBusy(Unavailable):
    """Raised by a server for a long look at the store while as many as it takes are waiting."""

    limit: int
    says = "{limit} long looks at the store are under way or waiting for their turn"
    advice = "ask again in a moment"


class Quota(Unavailable):
    """Raised by a server when a key that has stored as much as it may would store more, or start a run."""

    key: str
    used: int
    limit: int
    says = "the key {key} has stored {used} bytes, and may store {limit}"
    advice = "remove what is not needed and let `outlast gc` run, or ask for a larger share"
