"""What a session's transcript tells of the work: the agent's plan, the files it edited, what it was asked for last.

Pure functions over lines, and one that reads the end of a file. Nothing is guessed: a plan is what the agent's own plan
tool was given (`TodoWrite`, `TaskCreate`, `update_plan`), and without one there is none.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

TAIL_BYTES = 16 << 20
LINE_BYTES = 4 << 20  # a longer line is no call of a plan tool
MOST_FILES = 1000

Status = Literal["pending", "in_progress", "completed", "cancelled"]


class TranscriptStep(NamedTuple):
    """One step of a plan."""

    text: str
    status: Status = "pending"

    @property
    def open(self) -> bool:
        return self.status in ("pending", "in_progress")


class TranscriptFacts(NamedTuple):
    """What a transcript tells. Times are microseconds, 0 where the client notes none."""

    plan: tuple[TranscriptStep, ...] = ()
    files: tuple[str, ...] = ()  # as the agent named them, the last one edited first
    goal: str = ""
    plan_at: int = 0
    edited_at: int = 0
    found: bool = False  # there was something to read
    cut: bool = False  # and only its end was read

    @property
    def next_action(self) -> str | None:
        """The step under way, else the first that is open."""
        under_way = [step.text for step in self.plan if step.status == "in_progress"]
        return next(iter((*under_way, *(step.text for step in self.plan if step.open))), None)

    @property
    def done(self) -> int:
        return sum(step.status == "completed" for step in self.plan)


def read(path: str) -> TranscriptFacts:
    """What the end of a transcript tells; nothing when it is not there. Raises OSError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return TranscriptFacts()
    seen = os.fstat(handle)
    if not stat.S_ISREG(seen.st_mode):
        os.close(handle)
        return TranscriptFacts()
    size = seen.st_size
    with os.fdopen(handle, "rb") as file:
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).split(b"\n")
    cut = size > TAIL_BYTES
    return told_in(lines[1:] if cut else lines)._replace(found=size > 0, cut=cut)


def told_in(lines: Iterable[bytes]) -> TranscriptFacts:
    """What the lines of a transcript tell, of whatever client they are."""
    reader = _TranscriptReader()
    for line in lines:
        if len(line) <= LINE_BYTES and any(word in line for word in _WORDS):
            reader.take(_parsed(line))
    return reader.told


# Lines without any of these say nothing about plans, edits or wishes; most of a transcript is such lines.
_WORDS = (
    *(b'"tool_use"', b'"user"', b'"tool_result"', b"update_plan", b"apply_patch"),
    *(b"patch_apply_end", b"user_message"),
)


def _parsed(line: bytes) -> dict[str, Any]:
    """A line as an object; an empty one for what is none. The last line may be half written."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


_EDITS = {
    *("edit", "multiedit", "write", "notebookedit", "strreplace", "search_replace", "edit_file"),
    *("delete", "delete_file"),
}
_PATHS = ("file_path", "path", "notebook_path", "target_file", "target_notebook")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$", re.MULTILINE)
_STATUSES: dict[Any, Status] = {
    **{word: "pending" for word in ("pending", "not_started", "todo", "open")},
    **{word: "in_progress" for word in ("in_progress", "running", "active")},
    **{word: "completed" for word in ("completed", "complete", "done")},
    **{word: "cancelled" for word in ("cancelled", "canceled", "deleted", "skipped")},
}
_NOT_SAID = ("<", "Caveat:", "[Request interrupted", "This session is being continued", "# AGENTS.md")
_QUERY = "<user_query>", "</user_query>"  # around what a person asked


class _TranscriptReader:
    """Takes in one line after the other."""

    def __init__(self) -> None:
        self.steps: dict[str, TranscriptStep] = {}  # by the client's id of the step, or its place
        self.waiting: dict[str, str] = {}  # calls that make a step, and its text: the answer has its id
        self.edits: dict[str, None] = {}  # the last one edited last
        self.calls: dict[str, list[str]] = {}  # calls that edit, and their files
        self.goal = ""
        self.plan_at = self.edited_at = 0

    @property
    def told(self) -> TranscriptFacts:
        files = tuple(self.edits)[::-1][:MOST_FILES]
        return TranscriptFacts(tuple(self.steps.values()), files, self.goal, self.plan_at, self.edited_at)

    def take(self, said: dict[str, Any]) -> None:
        payload = said.get("payload")
        at = _micros(said.get("timestamp"))
        if isinstance(payload, dict):
            self._rollout(payload, at)
        elif isinstance(said.get("message"), dict):
            self._message(said, said["message"], at)

    # -- Codex -----------------------------------------------------------------------------------

    def _rollout(self, payload: dict[str, Any], at: int) -> None:
        match payload:
            case {"type": "function_call", "name": "update_plan", "arguments": str(arguments)}:
                self._whole_plan(_parsed(arguments.encode("utf-8", "replace")).get("plan"), at)
            case {"type": "function_call", "arguments": str(text)}:
                self._patch(str(_parsed(text.encode("utf-8", "replace"))), at)
            case {"type": "custom_tool_call", "input": str(text)}:
                self._patch(text, at)
            case {"type": "patch_apply_end", "success": True, "changes": dict(changes)}:
                self._edited("", [path for path in changes if isinstance(path, str)], at)
            case {"type": "user_message", "message": str(text)}:
                self._wish(text)
            case _:
                return

    def _patch(self, text: str, at: int) -> None:
        if "*** Begin Patch" in text:
            named = map(str.rstrip, _PATCHED.findall(text.replace("\\n", "\n")))
            self._edited("", [path for path in named if path], at)

    # -- Claude Code, Cursor ---------------------------------------------------------------------

    def _message(self, said: dict[str, Any], message: dict[str, Any], at: int) -> None:
        aside = said.get("isSidechain") is True  # of a helper of the agent: its edits count, its plan does not
        content = message.get("content")
        role = said.get("type") if said.get("type") in ("user", "assistant") else said.get("role")
        blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
        for block in blocks:
            self._block(block, said, at, aside)
        if role == "user" and not aside and not any(said.get(mark) for mark in ("isMeta", "isCompactSummary")):
            texts = (
                [content] if isinstance(content, str) else [b.get("text") for b in blocks if b.get("type") == "text"]
            )
            self._wish("\n".join(text for text in texts if isinstance(text, str)))

    def _block(self, block: dict[str, Any], said: dict[str, Any], at: int, aside: bool) -> None:
        match block:
            case {"type": "tool_use", "name": str(name), "input": dict(given)}:
                call = str(block.get("id", ""))
                if name.lower() in _EDITS:
                    self._edited(call, [given[key] for key in _PATHS if isinstance(given.get(key), str)], at)
                elif not aside:
                    if name in ("TodoWrite", "todo_write"):
                        self._whole_plan(given.get("todos"), at, merge=given.get("merge") is True)
                    elif name == "TaskCreate" and isinstance(given.get("subject"), str):
                        self.waiting[call] = given["subject"]
                    elif name == "TaskUpdate":
                        self._updated(str(given.get("taskId", "")), given, at)
            case {"type": "tool_result", "tool_use_id": str(call)}:
                self._result(call, block, said, at)
            case _:
                return

    def _updated(self, id_: str, given: dict[str, Any], at: int) -> None:
        if id_ not in self.steps:
            return
        step, subject = self.steps[id_], given.get("subject")
        text = subject if isinstance(subject, str) else step.text
        self.steps[id_] = TranscriptStep(text, _STATUSES.get(given.get("status"), step.status))
        self.plan_at = at

    def _result(self, call: str, block: dict[str, Any], said: dict[str, Any], at: int) -> None:
        """What became of a call: a step got its id; an edit that failed was none."""
        if call in self.waiting:
            text = self.waiting.pop(call)
            if block.get("is_error") is not True:
                self.steps[_id_in(said, block) or f"call {call}"] = TranscriptStep(text)
                self.plan_at = at
        if block.get("is_error") is True:
            for path in self.calls.get(call, ()):
                self.edits.pop(path, None)

    # -- all -------------------------------------------------------------------------------------

    def _whole_plan(self, items: Any, at: int, *, merge: bool = False) -> None:
        if not isinstance(items, list):
            return
        found = {str(each.get("id", place)): each for place, each in enumerate(items) if isinstance(each, dict)}
        steps = {id_: step for id_, each in found.items() if (step := _step(each, self.steps.get(id_)))}
        self.steps = {**self.steps, **steps} if merge else steps
        self.plan_at = at

    def _edited(self, call: str, paths: list[str], at: int) -> None:
        for path in paths:
            self.edits.pop(path, None)
            self.edits[path] = None
        if paths:
            self.edited_at = at
            self.calls[call] = paths

    def _wish(self, text: str) -> None:
        # what the person asked last, where the client puts that into a frame
        begins, ends = _QUERY
        asked, at = text, 0
        while (begin := text.find(begins, at)) >= 0 and (end := text.find(ends, begin)) >= 0:
            asked, at = text[begin + len(begins) : end], end + len(ends)
        text = asked.strip()
        if text and not text.startswith(_NOT_SAID):
            self.goal = text


def _step(item: dict[str, Any], before: TranscriptStep | None) -> TranscriptStep | None:
    text = next((item[key] for key in ("content", "step", "text", "subject") if isinstance(item.get(key), str)), "")
    text = text.strip() or (before.text if before else "")
    if not text:
        return None
    return TranscriptStep(text, _STATUSES.get(item.get("status"), before.status if before else "pending"))


def _id_in(said: dict[str, Any], block: dict[str, Any]) -> str:
    """The id that a new step was given: in the answer's own field, else in its words."""
    answered = said.get("toolUseResult")
    task = answered.get("task") if isinstance(answered, dict) else None
    if isinstance(task, dict) and isinstance(task.get("id"), str | int):
        return str(task["id"])
    words = "".join(_texts(block.get("content")))
    found = re.search(r"#(\w+)", words)
    return found[1] if found else ""


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for each in content if isinstance(content, list) else ():
        if isinstance(each, dict) and isinstance(each.get("text"), str):
            yield each["text"]


def _micros(text: Any) -> int:
    if not isinstance(text, str):
        return 0
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return 0
