"""What a client calls: `outlast hook start|stop|compact|end --client NAME`, with its JSON on stdin.

Whatever goes wrong, it exits 0 and prints nothing that could hurt the client; a line in `hooks.log` says what. Only a
start looks anything up; the other events are noted, and a process of its own stores them.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from outlast.doors.hooks import spool
from outlast.doors.hooks.spool import CLIENTS, KINDS, Client, HookEvent, Kind, NotAnEvent, answer, note, words_of
from outlast.python.work_tree import WorkTree, make_folder_of, may_have_ledger, why_unused, work_tree_of

STDIN_SECONDS = 2.0  # a client that does not close stdin is not waited for
STDIN_BYTES = 16 << 20
UNUSED = """\
Outlast: the home of this project (.outlast) is not used, and nothing of it is shown: {why}. \
If it is the user's own, OUTLAST_HOME names it."""
START_SECONDS = 8.0  # a start that takes longer tells nothing


class Called(NamedTuple):
    """What the command line says."""

    kind: Kind
    client: Client = "claude"
    given: str = ""  # JSON as the last word: so Codex calls its `notify` program


def called(words: Sequence[str]) -> Called | None:
    """The event that a command line `hook KIND --client NAME` names; None for every other command line."""
    if len(words) < 2 or words[0] != "hook" or words[1] not in KINDS or "--help" in words or "-h" in words:
        return None
    client: Client = "claude"
    given = words[-1] if words[-1][:1] == "{" else ""
    for place, word in enumerate(words):
        named = word.partition("=")[2] if word.startswith("--client=") else words[place + 1 : place + 2]
        for name in CLIENTS:
            if word.startswith("--client") and name in (named, *named):
                client = name
    return Called(next(kind for kind in KINDS if kind == words[1]), client, given)


def fire(call: Called) -> NoReturn:
    """Do what a hook does, and exit 0."""
    said = b""
    gc.disable()  # the process is over in a moment; looking for garbage while modules load takes longer than that saves
    try:
        # where a stream is closed, no file of ours may be opened in its place
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
        said = _fired(call)
    except BaseException as error:  # also a signal or a SystemExit: the agent must not see it
        _tell(f"{call.client} {call.kind}: {words_of(error)}")
    _leave(said or answer(call.client, call.kind))


def _leave(said: bytes) -> NoReturn:
    try:
        os.write(1, said)
    except OSError:  # nobody reads it
        pass
    finally:
        os._exit(0)


def _fired(call: Called) -> bytes:
    """What is to be printed."""
    event = spool.parse(call.client, call.kind, call.given.encode() or _stdin())
    if event is None:
        return b""
    cwd = event.cwd or os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
    task = os.environ.get("OUTLAST_TASK", "")
    event = event._replace(cwd=cwd, task=task, at=time.time_ns() // 1000, agent=spool.agent())
    place = work_tree_of(cwd)
    if not place.exists:
        return b""
    if why := why_unused(place.home):
        return answer(event.client, "start", UNUSED.format(why=why)) if event.kind == "start" else b""
    try:
        make_folder_of(place)
        if event.kind == "start":
            return _start(event, place)
        spool.add(place.home, event)
        spool.start_storing(place.home)
    except Exception as error:
        note(place.home, f"{event.name} {event.kind}: {words_of(error)}")
    return b""


def _start(event: HookEvent, place: WorkTree) -> bytes:
    """Remember the session and tell it what was handed over."""
    anchor = event.anchor_on(place.branch) or event.anchor_on(place.asked().branch)
    if not anchor:
        note(place.home, f"{event.name} start: no branch is checked out; set OUTLAST_TASK to name the work")
        return b""
    text = _looked_up(event, place, anchor) if _may_tell(place.home) else ""
    try:
        if event.session:
            spool.write_session(place.home, spool.session_again(place.home, event, anchor, place.top))
    except OSError as error:
        note(place.home, f"{event.name} start: its end will not be missed: {words_of(error)}")
    return answer(event.client, "start", text)


def _may_tell(home: str) -> bool:
    """Whether anything was ever stored, or waits to be: else there is nothing to load and to look at."""
    return may_have_ledger(home) or bool(spool.waiting(home)) or any(spool.all_sessions(home))


def _looked_up(event: HookEvent, place: WorkTree, anchor: str) -> str:
    """What was handed over, with its verdict now: the ledger and the files are looked at, every time."""
    from threading import Timer

    late = Timer(START_SECONDS, _give_up, (event, place.home))
    late.daemon = True
    late.start()
    from outlast.doors.hooks.start import begin

    text = begin(event, place, anchor)
    late.cancel()
    return text


def _give_up(event: HookEvent, home: str) -> None:
    note(home, f"{event.name} start: it took longer than {START_SECONDS:.0f} s")
    _leave(answer(event.client, "start"))


def _stdin() -> bytes:
    """What the client says, until it closes stdin, has said a whole object, or too much time has passed."""
    from select import select

    deadline = time.monotonic() + STDIN_SECONDS
    said = b""
    while len(said) <= STDIN_BYTES and (left := deadline - time.monotonic()) > 0:
        try:
            if not select([0], [], [], left)[0]:
                break
            more = os.read(0, 1 << 16)
        except (OSError, ValueError):  # it is closed
            break
        said += more
        if not more or (not select([0], [], [], 0)[0] and _is_whole(said)):  # while more comes it is not read again
            return said
    if len(said) > STDIN_BYTES:
        raise NotAnEvent(f"more than {STDIN_BYTES} bytes came on stdin")
    return said


def _is_whole(said: bytes) -> bool:
    """Whether it is one JSON object already: some clients leave stdin open."""
    if not said.rstrip().endswith(b"}"):
        return False
    import json

    try:
        return isinstance(json.loads(said), dict)
    except (ValueError, RecursionError):
        return False


def _tell(words: str) -> None:
    """Note something that went wrong before the home was known: in the home that is here, if there is one."""
    try:
        place = work_tree_of(os.getcwd())
        if place.exists and not why_unused(place.home):
            note(place.home, words)
    except OSError:
        return
