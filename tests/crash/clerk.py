"""Clerks: processes that work on handoffs as they are told, line by line, and say what came of it.

They are forked, so a test opens the home itself only when it has no clerk to start any more.
"""

import json
import os
import select
import signal
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from outlast import Outlast, OutlastError
from outlast.clock import SystemClock
from outlast.home.claimer import nobody
from outlast.values.codec import jsonable

PATIENCE_SECONDS = 60.0


class Later(SystemClock):
    """The machine's clocks, some seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self.ahead = int(seconds * 1_000_000)

    def now(self) -> int:
        return super().now() + self.ahead

    def boot(self) -> int:
        return super().boot() + self.ahead


class Answer(NamedTuple):
    """What a call gave, or the code and the facts of the error."""

    value: Any
    code: str = ""

    @property
    def ok(self) -> bool:
        return not self.code


class Clerk:
    """A process with a home open. `claimer=False`: no process stands behind its claims."""

    def __init__(self, home: Path, actor: str = "local", *, ahead: float = 0, claimer: bool = True) -> None:
        reading, answering = os.pipe()
        hearing, asking = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _work(home, actor, ahead, claimer, hearing, answering)
        os.close(answering)
        os.close(hearing)
        self.actor, self._reading, self._asking, self._text = actor, reading, asking, b""
        self._alive = True
        assert self.hear().value == "open"

    def ask(self, *words: Any, **how: Any) -> Answer:
        """Its answer when told to call that method of `outlast.handoff`; of `outlast` if the name has a dot first."""
        self.tell(*words, **how)
        return self.hear()

    def tell(self, *words: Any, **how: Any) -> None:
        os.write(self._asking, json.dumps([words, how]).encode() + b"\n")

    def hear(self) -> Answer:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{self.actor} did not answer in time"
            part = os.read(self._reading, 1 << 20)
            assert part, f"{self.actor} ended without an answer"
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        answer = Answer(*json.loads(line))
        assert answer.code != "error", answer.value
        return answer

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self._alive:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._alive = False
            os.close(self._reading)
            os.close(self._asking)


def _work(home: Path, actor: str, ahead: float, claimer: bool, hearing: int, answering: int) -> NoReturn:
    def say(value: Any, code: str = "") -> None:
        os.write(answering, json.dumps([value, code]).encode() + b"\n")

    try:
        with Outlast(home, actor=actor, clock=Later(ahead)) as outlast, os.fdopen(hearing) as lines:
            if not claimer:
                outlast._executor.caller.claimer = nobody()
            say("open")
            for line in lines:
                say(*_answered(outlast, *json.loads(line)))
    except BaseException:
        say(traceback.format_exc(), "error")
    finally:
        os._exit(0)


def _answered(outlast: Outlast, words: list[Any], how: dict[str, Any]) -> tuple[Any, str]:
    name, *args = words
    if name == ".run":  # a flow, by module:name
        module, _, flow = args[0].partition(":")
        args[0] = getattr(import_module(module), flow)
    if name == "resume_task":  # of the task named first, in the folder named next
        return _resumed(outlast, *args)
    call = getattr(outlast, name[1:]) if name.startswith(".") else getattr(outlast.handoff, name)
    try:
        given = call(*args, **how)
    except OutlastError as error:
        return error.to_dict() | {name: str(value) for name, value in error.facts.items()}, error.code
    if hasattr(given, "verdict") and hasattr(given, "handoff"):  # Recovered: what it comes to
        codes = [reason.code for reason in given.verdict.reasons]
        told = {"verdict": given.verdict.word, "codes": codes, "resume": given.resume, "standing": given.standing}
        return told | {"claim": jsonable(given.claim), "next_action": given.next_action, "run": jsonable(given.run)}, ""
    if hasattr(given, "unwrap"):  # Outcome
        return {"status": given.status, "result": given.result}, ""
    if hasattr(given, "binding"):  # Handoff: what is asked about
        return {"id": given.id, "revision": given.revision, "rival": given.rival, "claim": given.claim}, ""
    return jsonable(given), ""


def _resumed(outlast: Outlast, task: str, folder: str) -> tuple[Any, str]:
    try:
        return jsonable(outlast.tasks.session(task, repo_root=folder).resume_task().claim), ""
    except OutlastError as error:
        return {name: str(value) for name, value in error.facts.items()}, error.code
