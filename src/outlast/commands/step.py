"""Steps that are shell commands: how one is made ready, run, and its word understood.

Order: the work folder with what the command may read -> the command, held -> the guard knows its group -> the start
is written, with the group -> go -> its output, masked, into the transcript -> exit -> what it says of its result and
envelope -> the receipt. The runtime dying before `go` means that nothing of the command ever ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.commands import environment as words
from outlast.commands.environment import accepting, question_shell, work_shell
from outlast.commands.leftovers import NOTE_CHARACTERS, TAIL, DeclaredFiles, work_folder
from outlast.commands.loops import shown_item
from outlast.commands.process import HeldCommand, Straggler, hold
from outlast.commands.transcript import Transcript, blobs_in, kept, mask, tail
from outlast.errors import NotDone, Stopped
from outlast.files.changes import TAIL_CHARACTERS
from outlast.flows.spec import MAX_DELAY_SECONDS, Signature
from outlast.flows.yaml.model import Command, FlowDefinition, code_of_step
from outlast.runs.attempt import Attempt, Ended, Raised, Returned
from outlast.runs.call import Call
from outlast.runs.step import StepSpec
from outlast.runs.stops import LISTEN_SECONDS, is_signal_exit, listen
from outlast.values.frozen import NamedTuple
from outlast.values.late import late, shlex
from outlast.values.private import make_folder
from outlast.values.text import ended_line

if TYPE_CHECKING:
    import shutil

    from outlast.runs import effect as effects
    from outlast.runs.execution import Execution
    from outlast.runs.live import Executor
    from outlast.runs.outputs import saves
    from outlast.secrets import find as secret_finder
else:
    effects = late("outlast.runs.effect")
    shutil = late("shutil")
    saves = late("outlast.runs.outputs.saves")
    secret_finder = late("outlast.secrets.find")

CANNOT_RUN = 126  # from here on the shell says that it cannot start a command, or that a signal ended it
PROBE_SECONDS = 300.0
STRAGGLERS = 20  # of those that are named
STRAGGLER_CHARACTERS = 200

NO_ITEM: Any = object()  # stands for the item of a command that is in no `foreach`


class Setting(NamedTuple):
    """What every command of a run shares."""

    executor: Executor
    definition: FlowDefinition
    file: Path
    inputs: Mapping[str, Any]
    secrets: Mapping[str, str]
    item: Any = NO_ITEM  # of the innermost `foreach`

    @property
    def folder(self) -> Path:
        return self.file.parent

    def folder_of(self, command: Command) -> Path:
        return self.folder / self.definition.cwd / command.cwd

    @property
    def has_item(self) -> bool:
        return self.item is not NO_ITEM

    def shell_of(self, command: Command) -> str:
        return command.shell or self.definition.shell

    def forget(self, run_id: str, call: Call) -> None:
        """Remove the work folders of a call that has its outcome."""
        last = work_folder(self.executor.home, run_id, call, 0)
        for folder in last.parent.glob(f"{last.name[:-1]}*"):
            _remove(folder)


class CommandSpec(StepSpec, frozen=True, kw_only=True):
    """A step whose code is a command."""

    work: CommandWork

    @property
    def command(self) -> str:
        return self.work.command.run

    @property
    def code(self) -> str:
        return self.work.code

    @property
    def place(self) -> tuple[str, str]:
        return str(self.work.setting.file), self.work.id

    @property
    def signature(self) -> Signature:
        return _SIGNATURE

    def tries_again(self, error: BaseException, facts: Mapping[str, Any] | None) -> bool:
        """By its exit, where the file names those that are worth it: a time limit that passed is no exit."""
        exits = self.work.command.retry_exits
        if not exits or isinstance(error, errors.loaded("StepTimedOut")):
            return not exits
        return (error.exit if isinstance(error, errors.loaded("CommandFailed")) else (facts or {}).get("exit")) in exits

    def says_not_done(self, error: BaseException) -> bool:
        return isinstance(error, (NotDone, *errors.loaded("CommandNotStarted")))


def command_spec(command: Command, setting: Setting) -> CommandSpec:
    """A command of the flow as a step or effect."""
    work = CommandWork(setting, command, command.id, code_of_step(setting.definition, command.id) or "")
    return CommandSpec(
        _stands_for_a_command,
        command.id,
        "effect" if command.effect else "step",
        retries=command.retries,
        backoff=command.backoff,
        max_delay=max(MAX_DELAY_SECONDS, command.backoff),  # never less than the file asks for
        crashes=command.crashes,
        limit=command.limit,
        agent=command.agent,
        writes=command.writes,
        on_partial=command.on_partial,
        confirm=work.confirm if command.confirm else None,
        work=work,
    )


def condition_spec(place: str, command: str, setting: Setting, timeout: float | None, shell: str) -> CommandSpec:
    """A condition (`<id>/when`, `<id>/until`) as a step: exit 0 says that it holds, any other that it does not."""
    owner, _, name = place.rpartition("/")
    node = Command(id=owner, line=0, run=command, timeout=timeout, shell=shell)
    return CommandSpec(_stands_for_a_command, name, work=CommandWork(setting, node, place, "", is_condition=True))


def remark_spec(name: str, setting: Setting) -> CommandSpec:
    """What the flow notes of itself."""
    node = Command(id=name, line=0, run="")
    return CommandSpec(_stands_for_a_command, name, work=CommandWork(setting, node, name, ""))


def _stands_for_a_command(reads: dict[str, str]) -> Any:
    """A command's inputs: the digests of the files it reads."""


_SIGNATURE = Signature(_stands_for_a_command)  # of all commands: it takes a while to find out


class CommandWork(DeclaredFiles):
    """How the attempts of one command are made."""

    folder: Path

    def __init__(self, setting: Setting, command: Command, id: str, code: str, *, is_condition: bool = False) -> None:
        self.setting, self.command, self.id, self.code, self.is_condition = setting, command, id, code, is_condition
        self.folder = setting.folder_of(command)
        self.secrets = tuple(setting.secrets.values())

    @property
    def script(self) -> tuple[str, tuple[str, ...]]:
        """What is run, and the shell that it is given to."""
        command, shell = self.command, self.setting.shell_of(self.command)
        if self.is_condition:
            return command.run, question_shell(shell)
        if command.accept:
            return accepting(shell, command.run, command.accept), question_shell("sh")
        return command.run, work_shell(shell, command.run)

    def ready(self, execution: Execution, attempt: Attempt) -> CommandAttempt:
        """Hold the command; its group is known to the guard and goes into the start. Raises CommandNotStarted."""
        folder = work_folder(execution.executor.home, execution.id, attempt.asked.call, attempt.number)
        if folder.exists():
            _remove(folder)
        make_folder(folder)
        env = words.environment(self, execution, attempt, folder)
        made = CommandAttempt(self, execution, attempt, folder, env)
        attempt.facts = {**(attempt.facts or {}), **made.item, "group": made.held.group.to_facts()}
        return made

    def told(self, attempt: Attempt) -> tuple[str, int | None]:
        ran = attempt.ready
        return (ran.tail(), ran.exit) if isinstance(ran, CommandAttempt) else ("", None)

    def confirm(self, key: str) -> effects.Happened | effects.ProbeAnswer:
        """Ask the effect's probe: exit 0 happened (stdout is the result), 1 not done, anything else unknown."""
        run_id = key.rpartition("-")[0]
        folder = self.setting.executor.home.folder / "work" / run_id / f"probe-{key}"
        _remove(folder)
        make_folder(folder)
        try:
            env = words.inherited(self) | {"OUTLAST_RUN": run_id, "OUTLAST_EFFECT_KEY": key, "OUTLAST_STEP": self.id}
            aside = f"exec 2> {shlex.quote(str(folder / 'errors'))}\n"  # what it prints there is no part of the result
            code = _run_to_end(self, aside + self.command.confirm, env, folder)
            _refuse_stopped(self.setting.executor, code)
            said = words.read_whole(folder / TAIL)
        finally:
            _remove(folder)
        if code == 0 and said is not None:
            return effects.Happened(words.value_of(said.decode("utf-8", "replace").strip()))
        return effects.NOT_DONE if code == 1 else effects.UNKNOWN


def _refuse_stopped(executor: Executor, code: int | None) -> None:
    """Raises Stopped for a probe that was ended along with us: it said nothing, and is asked again."""
    if code is None or not is_signal_exit(code):
        return

    def stopping() -> bool:
        return any(execution.stopping for execution in list(executor.live.executions.values()))

    listen(stopping, LISTEN_SECONDS)
    if stopping():
        raise Stopped


def _run_to_end(work: CommandWork, command: str, env: Mapping[str, str], folder: Path) -> int | None:
    executor = work.setting.executor
    transcript = Transcript(folder / TAIL, work.secrets)
    try:
        shell = question_shell(work.setting.shell_of(work.command))
        held = hold(command, cwd=work.folder, env=env, output=transcript.writer, shell=shell)
    except BaseException:
        transcript.close()
        raise
    try:
        executor.live.guard.watch(held.group.pgid, folder)
        transcript.begin()
        held.go()
        patience = executor.home.settings.patience_seconds
        stop = lambda: any(execution.stopping_now for execution in list(executor.live.executions.values()))  # noqa: E731
        ended = held.wait(work.command.confirm_timeout or PROBE_SECONDS, stop, patience=patience)
        if ended.how == "stopped":  # it said nothing: it is asked again
            raise Stopped
        return ended.exit
    finally:
        held.drop()
        executor.live.guard.release(held.group.pgid)
        transcript.join()


class CommandAttempt:
    """One attempt of a command, held and then run."""

    def __init__(
        self, work: CommandWork, execution: Execution, attempt: Attempt, folder: Path, env: Mapping[str, str]
    ) -> None:
        self.work, self.execution, self.attempt, self.folder = work, execution, attempt, folder
        self.exit: int | None = None
        label = attempt.asked.call.path
        sink = execution.executor.live.sink
        shown = (lambda out: sink(label, out)) if sink else None
        secrets, on_terminal = execution.executor.home.secrets, work.command.pty
        rules = lambda: secrets.rules  # noqa: E731
        self._transcript = Transcript(folder / TAIL, work.secrets, shown, rules, on_terminal=on_terminal)
        self.held = self._hold(env)

    def _hold(self, env: Mapping[str, str]) -> HeldCommand:
        try:
            script, shell = self.work.script
            output, terminal = self._transcript.writer, self._transcript.terminal
            env = {"TERM": "xterm", **env} if terminal else env
            held = hold(script, cwd=self.work.folder, env=env, output=output, shell=shell, terminal=terminal)
        except BaseException:
            self._transcript.close()
            raise
        try:
            self.execution.executor.live.guard.watch(held.group.pgid, self.folder)
        except BaseException:
            held.drop()
            self._transcript.close()
            raise
        return held

    @property
    def item(self) -> dict[str, str]:
        """The item of the `foreach` around it, for the record."""
        lane = self.attempt.asked.lane
        return {"item": shown_item(lane.setting.item)} if lane is not None and lane.setting.has_item else {}

    def run(self) -> Ended:
        """Let it run, to its end or ours. What it said is in the attempt's facts."""
        execution, command = self.execution, self.work.command
        self._transcript.begin()
        self.held.go()
        patience, stop = execution.settings.patience_seconds, lambda: execution.must_end(self.attempt)
        ended = self.held.wait(command.timeout, stop, patience=patience)
        self._transcript.join()
        execution.executor.live.guard.release(self.held.group.pgid)
        self.exit = ended.exit
        saves.take(execution, self.attempt, self.folder)
        self._note(self._named(ended.stragglers), ended.left)
        if ended.how == "timed_out":
            return Raised(errors.StepTimedOut(self.attempt.asked.call.path, command.timeout or 0.0), "timed_out")
        if ended.how == "stopped":
            execution.stopping = True
            return Raised(Stopped(), "interrupted")
        return self._said(ended.exit)

    def _said(self, code: int | None) -> Ended:
        """What the exit code means."""
        command = self.work.command
        if self.work.is_condition and code is not None and code < CANNOT_RUN:
            return Returned({"holds": code == 0, "exit": code})
        if code == 0:
            return words.spoken(self)
        if command.effect and code in command.not_done_exit:
            return Raised(NotDone(f"exit {code} says that nothing happened"))
        refused = words.refused(self.folder)
        why = f"not accepted: {refused}" if refused else _last_line(self.tail())
        return Raised(errors.CommandFailed(self.attempt.asked.call.path, -1 if code is None else code, why))

    def _named(self, stragglers: tuple[Straggler, ...]) -> list[dict[str, Any]]:
        """What it left in the background and was ended, told to who watches; without secrets, and not too much."""
        if not stragglers:
            return []
        known = [
            {"pid": each.pid, "command": self._masked(each.command)[:STRAGGLER_CHARACTERS]}
            for each in stragglers[:STRAGGLERS]
        ]
        label = self.attempt.asked.call.path
        self.execution.executor.home.tell(f"{label}: {ended_line(known, len(stragglers))}")
        return known

    def _masked(self, text: str) -> str:
        return secret_finder.mask(mask(text, self.work.secrets), self.execution.executor.home.secrets.rules)

    def _note(self, stragglers: list[dict[str, Any]], left: int) -> None:
        transcript = self._transcript
        facts: dict[str, Any] = {**self.item, "exit": self.exit, "transcript": self._kept()}
        for name, value in (
            ("masked", transcript.masked),
            ("stragglers", stragglers),
            ("could_not_be_ended", left),
            ("transcript_incomplete", transcript.failure or ("left open" if transcript.left_open else "")),
        ):
            if value:
                facts[name] = value
        self.attempt.facts = {**(self.attempt.facts or {}), **facts}

    def _kept(self) -> dict[str, Any]:
        """The transcript, as the receipt has it."""
        transcript, blobs = self._transcript, self.execution.executor.home.blobs
        found = kept(transcript.path, transcript.size, blobs, transcript.digest)
        self.attempt.blobs += blobs_in(found)
        return found

    def tail(self) -> str:
        return tail(self._transcript.path, TAIL_CHARACTERS - NOTE_CHARACTERS)

    def drop(self) -> None:
        """Let go of it: one that never ran never will."""
        self.held.drop()
        self.execution.executor.live.guard.release(self.held.group.pgid)
        self._transcript.close()


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it printed nothing"
