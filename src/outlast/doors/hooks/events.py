"""What a client says on stdin when it calls a hook, as one value; and what it may be answered.

The three clients say nearly the same things under different names. Only the fields that are needed are taken: what
the agent or the person said in the session stays in the transcript.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

Client = Literal["claude", "codex", "cursor"]
Kind = Literal["start", "stop", "compact", "end"]
CLIENTS: tuple[Client, ...] = ("claude", "codex", "cursor")
KINDS: tuple[Kind, ...] = ("start", "stop", "compact", "end")
CLIENT_NAMES: dict[Client, str] = {"claude": "Claude Code", "codex": "Codex", "cursor": "Cursor"}
LONGEST = 4096  # of a text that is taken over: ids, paths and single words

# The clients' own names of the events that are used. Any other event is none of ours.
_CLAUDE: dict[str, Kind] = {"SessionStart": "start", "Stop": "stop", "PreCompact": "compact", "SessionEnd": "end"}
NAMES: dict[Client, dict[str, Kind]] = {
    "claude": _CLAUDE,
    "codex": _CLAUDE | {"agent-turn-complete": "stop"},  # what the older `notify` program is given
    "cursor": {"sessionStart": "start", "stop": "stop", "preCompact": "compact", "sessionEnd": "end"},
}


class HookEvent(NamedTuple):
    """Something that happened to a session."""

    client: Client
    kind: Kind
    session: str = ""
    cwd: str = ""
    transcript: str = ""
    why: str = ""  # the start's source, the compaction's trigger, the end's reason
    task: str = ""  # of OUTLAST_TASK
    at: int = 0  # microseconds
    agent: tuple[str, ...] = ()  # the agent's process, as `sessions.py` writes it

    @property
    def name(self) -> str:
        """The session, in short."""
        return f"{self.client} {self.session[:13]}".strip()

    def anchor_on(self, branch: str) -> str:
        """The name under which the work is handed over: the task's, else the branch's; "" when there is neither."""
        if self.task:
            return f"task:{self.task}"
        return f"branch:{branch}" if branch else ""


class NotAnEvent(ValueError):
    """What came on stdin is nothing that a client says."""


def parse(client: Client, kind: Kind, raw: bytes) -> HookEvent | None:
    """The event that a client tells of; None for one that is none of ours. Raises NotAnEvent.

    The event's own name wins over the word of the command line: a line in a settings file may be in the wrong place.
    """
    said = _object(raw)
    named = said.get("hook_event_name", said.get("type"))
    if named is not None:
        known = NAMES[client].get(named) if isinstance(named, str) else None
        if known is None:
            return None
        kind = known
    return HookEvent(
        client,
        kind,
        session=_text(said, "session_id", "conversation_id", "thread-id"),
        cwd=_text(said, "cwd") or _first(said.get("workspace_roots")),
        transcript=_text(said, "transcript_path"),
        why=_text(said, "source", "trigger", "reason", "status"),
    )


def _object(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise NotAnEvent(f"what came on stdin is no JSON ({len(raw)} bytes)") from error
    if not isinstance(said, dict):
        raise NotAnEvent(f"what came on stdin is a {type(said).__name__}, and no object")
    return said


def _text(said: dict[str, Any], *names: str) -> str:
    """The first of these fields that is a usable text."""
    return next((said[name] for name in names if _usable(said.get(name))), "")


def _usable(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and "\0" not in value and _encodes(value)


def _encodes(value: str) -> bool:
    try:
        return bool(value.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def _first(values: Any) -> str:
    found = values if isinstance(values, list) else []
    return next((each for each in found if _usable(each)), "")


def answer(client: Client, kind: Kind, text: str = "") -> bytes:
    """What the client is to read on stdout: context for a session that starts, else nothing that means anything."""
    if client == "cursor":
        return _line({"additional_context": text} if kind == "start" and text else {})
    if kind != "start" or not text:
        return b""
    return _line({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


# -- as the spool keeps it ---------------------------------------------------------------------------


def pack(event: HookEvent) -> bytes:
    return json.dumps(event._asdict()).encode()


def unpack(raw: bytes) -> HookEvent:
    """Raises NotAnEvent for what no hook wrote."""
    said = _object(raw)
    try:
        event = HookEvent(**{**said, "agent": tuple(said.get("agent", ()))})
    except TypeError as error:
        raise NotAnEvent("it has other fields than an event") from error
    if event.client not in CLIENTS or event.kind not in KINDS or not isinstance(event.at, int):
        raise NotAnEvent("it is of no client or kind")
    return event
