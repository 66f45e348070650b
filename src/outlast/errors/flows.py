"""Errors of flows: what they are made of, what their steps do, the files they leave, the resources they need."""

from __future__ import annotations

from typing import Any

from outlast.errors import Conflict, Invalid, NotFound, Refused, WorkFailed, fact


class FlowNotFound(NotFound):
    """Raised when the flow's code cannot be found or loaded from where it was recorded."""

    flow: str
    why: str
    says = "cannot load flow {flow!r}: {why}"
    advice = (
        "name it as `flow.yaml`, `module:name` or `file.py:name`; a run whose file was moved goes on with "
        "`outlast resume RUN --flow PATH`"
    )


class StepNotFound(NotFound):
    """Raised when a run has no receipt of the step that was named."""

    run: str
    step: str
    known: str
    says = "run {run} has no step {step!r} (it has: {known})"
    advice = "see `outlast receipts {run}`"

    @classmethod
    def going_back(cls, run: str, step: str, known: str, stands_at: str) -> StepNotFound:
        """The same for who wants to go back to it: a run goes forward to a step only past those that come before."""
        error = cls(run, step, known)
        error.facts["stands_at"] = stands_at or "STEP"
        return error

    @property
    def what_next(self) -> str:
        if "stands_at" not in self.facts:
            return super().what_next
        skip = "`outlast skip {run} {stands_at} --result JSON --why WHY`".format(**self.facts)
        return f"a run goes back only to what it has reached; to go on past what comes before, skip it: {skip}"


class OutputNotFound(NotFound):
    """Raised when no finished step of a run left the file that was named."""

    run: str
    named: str
    known: str
    says = "run {run} has no file {named} that a finished step left (it has: {known})"
    advice = "see `outlast outputs {run}`"


class DisplacedNotFound(NotFound):
    """Raised when no file of that path gave way in a run."""

    run: str
    place: str
    known: str
    says = "nothing at {place} gave way in run {run} (what did: {known})"
    advice = "see `outlast displaced {run}`"


class StepAmbiguous(Conflict):
    """Raised when several calls of a run could be meant by the name of a step."""

    run: str
    step: str
    labels: str
    says = "run {run} has several calls of {step!r}: {labels}"
    advice = "name one of them by its label"


class StepNameTaken(Conflict):
    """Raised when two different functions are used as steps under one name in one run."""

    step: str
    first: str
    second: str
    says = "step name {step!r} is used by {first} and by {second}"
    advice = "give one of them another name: @step(name=…)"


class MapKeyTaken(Conflict):
    """Raised by run.map, before anything runs, when two items have the same key."""

    step: str
    key: str
    first: int
    second: int
    says = "map {step}: items {first} and {second} both have the key {key!r}"
    advice = "let key= give every item one of its own, or leave it out: equal items are told apart by their order"


class ResourceTaken(Conflict):
    """Raised when two different functions are registered for one resource."""

    key: str
    first: str
    second: str
    says = "resource {key!r} is registered twice: by {first} and by {second}"
    advice = "give one of them another key, or import the one from the other's module"


class RunsOnImport(Refused):
    """Raised when a module starts or continues a run while Outlast loads a flow from it."""

    source: str
    says = "the module of {source!r} starts or continues a run as soon as it is imported"
    advice = 'put that part under `if __name__ == "__main__":`, so that the flow can be found without running it'


class SecretMissing(Refused):
    """Raised before the first step when secrets of a flow file are not set."""

    flow: str
    names: str
    says = "flow {flow!r} needs secrets that are unset or empty: {names}"
    advice = "set them in the environment of the same command; they are not stored"


class StepOutsideRun(Refused):
    """Raised when a step is called in a thread that does not belong to its run."""

    step: str
    thread: str
    says = "step {step!r} was called in thread {thread!r}, which does not belong to a run"
    advice = (
        "hand work to threads by run.map(…) or run.bind(…), or call {step}.plain(…) to run it undurably; "
        "replay contract: a call must know its place in the run"
    )


class EffectInsideStep(Refused):
    """Raised when an effect is called inside a step, which may run again."""

    effect: str
    step: str
    says = "effect {effect!r} was called inside step {step!r}"
    advice = (
        "call it from the flow's body; replay contract: a step may run again until it has succeeded, "
        "so an effect inside it could happen twice"
    )


class StillRunning(Refused):
    """Raised when an earlier attempt of a step has not ended yet (a timed-out thread)."""

    step: str
    says = "an earlier attempt of step {step!r} is still running in this process"
    advice = "wait until it ends, or restart the process; then resume"


class OrphanAlive(Refused):
    """Raised when processes of an earlier attempt are still alive and cannot be ended."""

    step: str
    group: int
    says = "processes of an earlier attempt of {step} are still alive (process group {group}) and cannot be ended"
    advice = "end them (kill -KILL -- -{group}), then resume"


class ResourceMissing(Refused):
    """Raised when a step, or another resource, needs a live resource that nobody provided."""

    key: str
    needed_by: str = fact(default="")
    step: str = fact(default="")
    says = "resource {key!r} is needed and not provided"
    advice = "let a function make it, @resource({key!r}) in the flow's module, or call outlast.resource({key!r}, …)"

    @property
    def detail(self) -> str:
        by = f" by resource {self.facts['needed_by']!r}" if self.facts["needed_by"] else ""
        step = f", for {self.facts['step']}; nothing of it was run" if self.facts["step"] else ""
        return f"resource {self.facts['key']!r} is needed{by} and not provided{step}"


class ResourceCycle(Refused):
    """Raised when the factories of resources need each other."""

    chain: str
    says = "resources need each other: {chain}"
    advice = "let one of these factories do without the other"


class ResourceNeedsLoop(Refused):
    """Raised when a resource that async code opens is needed where no event loop of the flow's can open it."""

    key: str
    says = "resource {key!r} is opened by async code, and nothing can be awaited here"
    advice = "inject it into a step of an async flow, or provide it by a plain function"


class EditedSince(Refused):
    """Raised when files that would be put back were edited after the attempt ended; nobody's edits are displaced."""

    paths: str
    says = "edited after the attempt ended: {paths}"
    advice = "keep what is there (`--partial keep`), or move it away and restore again"


class NotRestorable(Refused):
    """Raised when files cannot be put back as they were before the attempt."""

    paths: str
    says = "cannot be put back: {paths}"
    advice = "keep what is there (`--partial keep`), or mend what is named by hand and restore again; nothing is lost"


class OutputNotKept(Refused):
    """Raised when the content of a finished step's files is not kept, so that they cannot be put back."""

    run: str
    step: str
    files: str
    says = "cannot be put back: {files}"
    advice = "do the step again: `outlast resume {run} --from {step!q}`; what else is kept: `outlast outputs {run}`"


class FlowInvalid(Invalid):
    """Raised when a function cannot be a flow."""

    flow: str
    why: str
    remedy: str = fact(default="define it at the top of a module, so that a later process can find it by name")
    says = "{flow} cannot be a flow: {why}"
    advice = "{remedy}"


class StepInvalid(Invalid):
    """Raised when a function or its options cannot make a step."""

    step: str
    why: str
    says = "{step} cannot be a step: {why}"


class InputsInvalid(Invalid):
    """Raised when a flow is started with arguments it does not take."""

    flow: str
    why: str
    signature: str
    says = "{flow} cannot be started so: {why}"
    advice = "its inputs are {signature}"


class RecipeInvalid(Invalid):
    """Raised when a flow file has mistakes. `problems` are all of them, each with line, path, why, advice."""

    file: str
    problems: tuple[Any, ...]
    says = "{file} cannot be run as it is:"
    advice = "mend what is named, then the same command again; see docs/flow-yaml.md"

    @property
    def detail(self) -> str:
        return "\n  ".join([super().detail, *map(str, self.facts["problems"])])

    def __str__(self) -> str:
        return f"{self.detail}\n{self.what_next}"


class ResourceInvalid(Invalid):
    """Raised when what is to provide a resource cannot."""

    key: str
    why: str
    says = "resource {key!r} cannot be provided so: {why}"


class StepFailed(WorkFailed):
    """Raised in the flow, live and on replay, for a failure that cannot be rebuilt as its own type."""

    step: str
    type: str
    message: str
    says = "step {step!r} failed: {type}: {message}"


class StepTimedOut(WorkFailed):
    """Raised in the flow when a step's last attempt ran out of time."""

    step: str
    seconds: float
    says = "step {step!r} took longer than {seconds} s"


class SaidWrong(WorkFailed):
    """Raised when a command succeeded and wrote a result or an envelope that cannot be understood."""

    step: str
    file: str
    why: str
    says = "what {step} wrote to {file} cannot be taken: {why}"
    advice = "let the command write JSON there, or nothing"


class ItemsUnreadable(WorkFailed):
    """Raised when the file whose lines a `foreach` goes through cannot be read, or a line cannot be an item."""

    step: str
    file: str
    why: str
    says = "{step} cannot take its items from {file}: {why}"
    advice = "mend the file, then resume: items that are done stay done"


class LimitReached(WorkFailed):
    """Raised when a repeat has used up its iterations and its condition still does not hold."""

    step: str
    iterations: int
    until: str
    says = "{step} is not satisfied after {iterations} iterations (until: {until})"
    advice = "mend what it waits for and resume: the condition is asked again; or raise `max`"
