"""What a server answers, as the values that the embedded surface gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

import msgspec

from outlast.clock import micros
from outlast.errors import ReplyInvalid
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.recovered import Recovered
from outlast.ledger.verdict import Verdict
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.codec import Decode, decode

T = TypeVar("T")
_HANDOFF = {each.name for each in fields(Handoff)}
_RECOVERED = {each.name for each in fields(Recovered)}
_PACKETS = ("execution_state_v1", "execution_packet_v1")
_SHOWN = 300  # characters of what is wrong


class _Packets(msgspec.Struct):
    execution_state_v1: msgspec.Raw = msgspec.Raw(b"null")
    execution_packet_v1: msgspec.Raw = msgspec.Raw(b"null")


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


class _OutcomeJson(msgspec.Struct):
    run_id: str | None
    status: str
    result: msgspec.Raw
    interrupts: tuple[Interrupt, ...] = ()
    error: dict[str, Any] | None = None
    verdict: Verdict | None = None
    replayed_steps: int = 0
    unasked: tuple[str, ...] = ()
    replayed: bool = False
    notes: tuple[str, ...] = ()
    redelivered: bool = False
    holder: str = ""
    stopped_by: str = ""


@contextmanager
def reading() -> Iterator[None]:
    """Turn whatever comes of reading an answer into ReplyInvalid: it is of the wrong shape, or nested without end."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ReplyInvalid(f"{type(error).__name__}: {error}"[:_SHOWN]) from error


@reading()
def value_of(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    """One of our values."""
    return msgspec.json.decode(raw, type=kind)


@reading()
def page_of(raw: bytes) -> tuple[list[bytes], str | None]:
    """The items of a page as they came, and where the next one begins."""
    page = msgspec.json.decode(raw, type=_Page)
    return [bytes(each) for each in page.items], page.next


# -- handoffs ----------------------------------------------------------------------------------------


@reading()
def handoff_of(raw: bytes | msgspec.Raw) -> Handoff:
    """One revision; packets are the bytes they came in. The claim that it was stored under is not told."""
    return _handoff(decode(bytes(raw)), raw)


def _handoff(said: dict[str, Any], raw: bytes | msgspec.Raw) -> Handoff:
    given = {name: value for name, value in said.items() if name in _HANDOFF and name not in (*_PACKETS, "claim")}
    given["stored_us"], given["expires_us"] = _micros(said["stored_at"]), _micros(said["expires_at"])
    given["baseline"] = _evidence(said["baseline"])
    packets = msgspec.json.decode(raw, type=_Packets)
    found = {name: packet for name in _PACKETS if bytes(packet := getattr(packets, name)) != b"null"}
    return replace(msgspec.convert(given, Handoff), **found)


@reading()
def recovered_of(raw: bytes | msgspec.Raw) -> Recovered:
    """A handoff with its verdict."""
    said = decode(bytes(raw))
    given = {name: value for name, value in said.items() if name in _RECOVERED}
    given["evidence"] = _evidence(said["evidence"])
    kinds = get_type_hints(Recovered)
    typed = {name: msgspec.convert(value, kinds[name]) for name, value in given.items() if name != "verdict"}
    verdict = msgspec.convert({"word": said["verdict"], "reasons": said["reasons"]}, Verdict)
    return Recovered(verdict=verdict, handoff=_handoff(said, raw), **typed)


def _evidence(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each | {"at": _micros(each["at"])} for each in said]


def _micros(text: str) -> int:
    return micros(datetime.fromisoformat(text))


# -- runs --------------------------------------------------------------------------------------------


@reading()
def outcome_of(raw: bytes, back: Decode | None = None) -> Outcome[Any]:
    """How a run stands; its result as the flow's annotation types it."""
    said = msgspec.json.decode(raw, type=_OutcomeJson)
    known = said.status == "succeeded" and "result_pruned" not in said.notes
    result = _result(bytes(said.result), back or decode, said.notes) if known else None
    return Outcome(
        said.run_id or "",
        said.status,
        result,
        said.interrupts,
        said.error,
        said.verdict,
        said.replayed_steps,
        said.unasked,
        replayed=said.replayed,
        notes=said.notes,
        redelivered=said.redelivered,
        holder=said.holder,
        stopped_by=said.stopped_by,
    )


def _result(raw: bytes, back: Decode, notes: tuple[str, ...]) -> Any:
    """The result as the flow's annotation types it; plain when its code was another one then, and so was its type."""
    try:
        return back(raw)
    except msgspec.ValidationError:
        if "code_changed" not in notes:
            raise
        return decode(raw)
