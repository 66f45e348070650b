"""What a command is told, through its environment and files, and what it says through the files it writes.

Which shell a command of a flow file is given to, and when that stops at the first line that fails.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from outlast import errors
from outlast.commands.loops import text_of
from outlast.commands.transcript import mask
from outlast.errors import OutlastError
from outlast.ledger.journal import Payload, decode_payload
from outlast.runs.attempt import Attempt, Ended, Raised, Returned, StepCall
from outlast.runs.call import Replay
from outlast.runs.outputs.place import SAVES, told_place
from outlast.values.codec import encode, pack_json
from outlast.values.late import shlex
from outlast.values.private import write_file

if TYPE_CHECKING:
    from outlast.commands.step import CommandAttempt, CommandWork
    from outlast.runs.execution import Execution


SAID_BYTES = 1024 * 1024  # of a result or an envelope
ENVELOPE_KEYS = ("done", "next", "artifacts", "state")


def inherited(work: CommandWork) -> dict[str, str]:
    """What every command finds: our own environment, the flow's and the step's, the inputs."""
    setting = work.setting
    env = {**os.environ, **setting.definition.env, **work.command.env}
    env["OUTLAST_HOME"] = setting.executor.home.database or str(setting.executor.home.path)
    if setting.executor.home.database:
        env["OUTLAST_FOLDER"] = str(setting.executor.home.path)
    env.pop("OUTLAST_ITEM", None)
    if setting.has_item:  # of an effect that has a probe; any other is shared by all items
        env["OUTLAST_ITEM"] = text_of(setting.item)
    for name, value in setting.inputs.items():
        env[f"OUTLAST_INPUT_{name.upper().replace('-', '_')}"] = value if isinstance(value, str) else json.dumps(value)
    return env


def environment(work: CommandWork, execution: Execution, attempt: Attempt, folder: Path) -> dict[str, str]:
    """The environment of one attempt, with the files it names."""
    asked = attempt.asked
    lane = asked.lane
    env = inherited(work) | {
        "OUTLAST_RUN": execution.id,
        "OUTLAST_STEP": work.id,
        "OUTLAST_ATTEMPT": str(attempt.number),
        "OUTLAST_ITERATION": str(lane.iteration if lane is not None else 0),
        "OUTLAST_EFFECT_KEY": attempt.key or execution.key_of(asked.call),
        "OUTLAST_RESULT": str(folder / "result.json"),
        "OUTLAST_ENVELOPE": str(folder / "envelope.json"),
        "OUTLAST_REFUSED": str(folder / "refused"),
        SAVES: told_place(execution, attempt, folder),
    }
    if lane is not None and lane.setting.has_item:
        env["OUTLAST_ITEM"] = text_of(lane.setting.item)
    before = lane.before if lane is not None else None
    answer = Raw(encode(lane.answer.value)) if lane is not None and lane.answer is not None else None
    told = {
        "OUTLAST_HANDOFF": envelope_of(execution, before) if before is not None else None,
        "OUTLAST_ANSWER": answer,
        "OUTLAST_PREVIOUS": attempt.previous.to_dict() if attempt.previous is not None else None,
    }
    for name, value in told.items():
        env.pop(name, None)
        if value is not None:
            file = folder / f"{name.removeprefix('OUTLAST_').lower()}.json"
            write_file(file, encode(value))
            env[name] = str(file)
    return env


def envelope_of(execution: Execution, asked: StepCall) -> dict[str, Any]:
    """What a step handed over: as it said it now, or as its receipt has it."""
    if asked.envelope is None:
        past = asked.next.past if isinstance(asked.next, Replay) else None
        payload = decode_payload(past.payload) if past is not None and past.payload else Payload()
        state = {name: json.loads(bytes(raw))[:1] for name, raw in (payload.wrote or {}).items()}
        asked.envelope = _envelope(
            asked,
            past.last.status if past is not None else "succeeded",
            {"done": payload.done, "next": payload.next, "artifacts": list(payload.artifacts)},
            {name: kept[0] for name, kept in state.items() if kept},
            execution.result_of(payload, asked.spec),
        )
    return {"run": execution.id, **asked.envelope}


def _envelope(
    asked: StepCall, status: str, said: Mapping[str, Any], state: Mapping[str, Any], result: Any
) -> dict[str, Any]:
    step = f"{asked.call.scope}{asked.spec.name}"
    return {"step": step, "agent": asked.spec.agent, "status": status, **said, "state": dict(state), "result": result}


def hand_over(asked: StepCall, result: Any) -> None:
    """What a step that is no command hands over: the result of another flow."""
    said = {"done": "", "next": "", "artifacts": []}
    asked.envelope = _envelope(asked, "succeeded", said, {}, result)


# -- what it says ------------------------------------------------------------------------------------


def spoken(ran: CommandAttempt) -> Ended:
    """The result and envelope of a command that exited 0. One that cannot be understood fails the step."""
    step, attempt = ran.attempt.asked.spec.name, ran.attempt
    try:
        result = _read(ran.folder / "result.json", "OUTLAST_RESULT", step, ran.work.secrets)
        envelope = _read(ran.folder / "envelope.json", "OUTLAST_ENVELOPE", step, ran.work.secrets)
        _take(attempt, {} if envelope is None else envelope, step)
    except OutlastError as error:
        return Raised(error)
    said = {"done": attempt.done, "next": attempt.next, "artifacts": list(attempt.artifacts)}
    state = envelope.get("state", {}) if envelope else {}
    attempt.asked.envelope = _envelope(attempt.asked, "succeeded", said, state, result)
    return Returned(result)


def _read(path: Path, what: str, step: str, secrets: tuple[str, ...]) -> Any:
    try:
        raw = read_whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.SaidWrong(step, what, str(error)) from error
    if raw is None:
        raise errors.SaidWrong(step, what, f"it is no plain file within the limit of {SAID_BYTES} bytes")
    if not raw.strip():
        return None
    try:
        return json.loads(mask(raw, secrets), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise errors.SaidWrong(step, what, f"it is not JSON: {error}") from error


def read_whole(path: Path) -> bytes | None:
    """A plain file of bounded size; None for one that is larger, or a link, a pipe, a device. Raises OSError."""
    try:
        at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    with open(at, "rb") as file:
        raw = file.read(SAID_BYTES + 1) if stat.S_ISREG(os.fstat(at).st_mode) else None
    return raw if raw is not None and len(raw) <= SAID_BYTES else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _take(attempt: Attempt, envelope: Any, step: str) -> None:
    what = "OUTLAST_ENVELOPE"
    if not isinstance(envelope, dict) or set(envelope) - set(ENVELOPE_KEYS):
        is_object = isinstance(envelope, dict)
        unknown = sorted(set(envelope) - set(ENVELOPE_KEYS)) if is_object else [type(envelope).__name__]
        raise errors.SaidWrong(
            step, what, f"it is an object of {', '.join(ENVELOPE_KEYS)}, not of {', '.join(unknown)}"
        )
    done, coming = envelope.get("done", ""), envelope.get("next", "")
    artifacts, state = envelope.get("artifacts", []), envelope.get("state", {})
    if not isinstance(done, str) or not isinstance(coming, str):
        raise errors.SaidWrong(step, what, "done and next are texts")
    if not isinstance(artifacts, list) or not all(isinstance(one, str) for one in artifacts):
        raise errors.SaidWrong(step, what, "artifacts is a list of texts")
    if not isinstance(state, dict):
        raise errors.SaidWrong(step, what, "state is an object")
    attempt.done, attempt.next = done, coming
    attempt.artifacts = tuple(dict.fromkeys((*artifacts, *attempt.artifacts)))  # and what it saved
    if state:
        attempt.wrote = {name: pack_json(value, f"{what}.state.{name}") for name, value in state.items()}


def value_of(said: str) -> Any:
    """What a probe printed: JSON if it is, else the text."""
    try:
        return json.loads(said, parse_constant=_no_constant) if said else None
    except (ValueError, RecursionError):
        return said


def refused(folder: Path) -> str:
    """The acceptance check that did not pass; empty when none was refused."""
    try:
        raw = read_whole(folder / "refused")
    except OSError:
        return ""
    return raw.decode(errors="replace")[:300] if raw else ""


# -- the shell -------------------------------------------------------------------------------------


_LOOSE = {"sh": ("/bin/sh",), "bash": ("bash",)}
_STRICT = {"sh": ("/bin/sh", "-e"), "bash": ("bash", "-eo", "pipefail")}
_REFUSED = 'echo "not accepted (exit $?): $text" >&2; printf %s "$text" > "$OUTLAST_REFUSED"; exit 1'


def work_shell(shell: str, command: str) -> tuple[str, ...]:
    """The shell for work: one that fails with the first line that does. A single line of `sh` is as it is written."""
    return _STRICT[shell] if shell != "sh" or "\n" in command.strip() else _LOOSE[shell]


def question_shell(shell: str) -> tuple[str, ...]:
    """The shell for a question (`when`, `until`, `confirm`): its exit is the answer, so no line fails it early."""
    return _LOOSE[shell]


def accepting(shell: str, run: str, checks: tuple[str, ...]) -> str:
    """A script for plain `sh`: the work, then each check in its turn; the first that fails is named."""
    parts = [_given(shell, run, "exit $?"), *(_given(shell, check, _REFUSED) for check in checks)]
    return "\n".join(parts)


def _given(shell: str, command: str, otherwise: str) -> str:
    words = shlex.join(work_shell(shell, command))
    return f'text={shlex.quote(command)}\n{words} -c -- "$text" || {{ {otherwise}; }}'
