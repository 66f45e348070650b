"""What an entry of a journal says: its header, which the chain proves, and its payload, which the header names.

Annotations are the types themselves here: each text among them would be evaluated before anything is decoded.
"""

from typing import Any

import msgspec


class Header(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the chain proves about one entry. Fields are stored in this order.

    `check` finds the payload's digest at the end without decoding: it stays the last one.
    """

    kind: str  # step, effect, value, sleep, spawn, emit, wait, decision, run, interrupt, artifact, testimony
    name: str
    scope: str = ""
    inputs: str = ""  # digest of the inputs, or `=id` when the call was given an id
    occurrence: int = 0  # which of the equal calls
    attempt: int = 0
    status: str = ""
    delivered: bool = False  # the flow has been given this outcome: it is final
    mark: str = ""  # probed, not_done, confirmed, reused, decided; of an event: progress, fact
    agent: str = ""
    started_at: int = 0
    ended_at: int = 0
    key: str = ""  # of an effect: the same on every attempt of the call; of an event or a note: the call it is about
    code: str = ""  # digest of the step's code
    epoch: int = 0
    trace_id: str = ""
    seen: str = ""  # digest of the inputs when `inputs` is an id; before it, of a map's call, `12#`: its item
    payload: str = ""  # digest of the payload, if there is one

    @property
    def item(self) -> int:
        """Of a map's call: which item it is of, counted from 1; else 0."""
        number, sign, _ = self.seen.partition("#")
        return int(number) if sign else 0

    @property
    def seen_inputs(self) -> str:
        """The digest of the inputs, when `inputs` is an id."""
        return self.seen.rpartition("#")[2]


class Payload(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """What an entry carries. Absent fields take no room."""

    place: list[str] | None = None  # file and qualified name of the code, with its first receipt; stays first
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    blob: str = ""  # digest of the blob that holds the result
    error: dict[str, Any] | None = None
    wrote: dict[str, msgspec.Raw] | None = None  # state the step wrote: applied again on replay
    state: dict[str, msgspec.Raw] | None = None  # state the body wrote since the entry before
    done: str = ""
    next: str = ""
    artifacts: list[str] = []
    facts: Any = None
    masked: int = 0  # of an event: how many secrets were masked in what it says
    inputs: dict[str, Any] | None = msgspec.field(default=None, name="in")  # of a receipt (`runs/step_inputs.py`)
