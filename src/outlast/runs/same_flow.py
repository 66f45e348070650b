"""Which run is one of a flow, and where the flow of a run is now: the only place that decides it.

A flow that was given a name, and one of a module, is the same wherever its code lies. One that is known only by the
name of its file is the same in another place if its file is gone from the old one, or if the code is equal in both.
Else a person has to say so, and for a run of another work tree of git's always. A file and the module that it is are
one flow, whichever of them was named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from outlast import errors
from outlast.files import repository
from outlast.flows.loading import (
    file_of_module,
    found_in,
    here,
    is_equal_code,
    is_file,
    is_flow_file,
    is_gone,
    lasting,
    load,
    loaded_module,
    path_of,
    where_we_are,
    why_missing,
)
from outlast.flows.spec import FlowSpec
from outlast.runs.run import FINISHED
from outlast.store.contract import FinishedRow, NewRun, Reading, RunRow
from outlast.values.codec import decode, identity
from outlast.values.frozen import NamedTuple, Protocol
from outlast.values.late import late, shlex

if TYPE_CHECKING:
    from outlast.flows.yaml import flow as flow_files
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor
else:
    flow_files = late("outlast.flows.yaml.flow")

Answer = Literal["same", "other", "other_code", "other_worktree"]
WHY = {
    "other_code": "has other code, and only the name of the file says that it is the same flow",
    "other_worktree": "lies in another work tree",
}


class Located(Protocol):
    """A flow that was asked for, or that a run recorded: what it is known by, and where it is found."""

    @property
    def identity(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def worktree(self) -> str: ...


class RecordedFlow(Located, Protocol):
    """The same of a run."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def status(self) -> str: ...


R = TypeVar("R", bound=RecordedFlow)


class FlowFacts(NamedTuple):
    """What a run records of a flow."""

    identity: str
    source: str
    worktree: str


def known(home: Home, spec: FlowSpec) -> FlowFacts:
    """A flow as a run of this home records it."""
    return FlowFacts(spec.identity, lasting(spec.source, home.project), worktree_of(spec.folder or where_we_are()))


@lru_cache(maxsize=256)
def worktree_of(folder: str) -> str:
    """The top of the linked work tree that a folder is in; empty in the main one, and outside of git."""
    top = repository.top_of(folder)
    try:
        found = repository.find(top) if top is not None else None
    except (repository.LeadsOut, OSError):
        return ""
    linked = found is not None and found.own != found.common
    return found.top if found is not None and linked else ""


def default_task(name: str, inputs_digest: str, worktree: str) -> str:
    """The task of a run that nobody named: by its flow and inputs, and by its work tree if that is a linked one."""
    return in_worktree(f"{name}-{inputs_digest[:12]}", worktree)


def in_worktree(task: str, worktree: str) -> str:
    """The task that a linked work tree has in place of this one."""
    if not worktree:
        return task
    name = "".join(sign if sign.isprintable() else "_" for sign in os.path.basename(worktree))
    return f"{task}@{name[:80]}-{identity(os.fsencode(worktree))[:6]}"


# -- whether it is the same --------------------------------------------------------------------------


def unfinished_run(home: Home, look: Reading, run: NewRun) -> RunRow | None:
    """The task's unfinished run of this flow, if there is one. Raises FlowElsewhere."""
    return of_flow(home.project, look.unfinished_of_task(run.scope, run.task), run)


def finished_runs(home: Home, look: Reading, run: NewRun) -> list[FinishedRow]:
    """The finished runs of this flow in a named task, the newest first; those that were removed too.

    Raises FlowElsewhere.
    """
    rows = look.finished_of_task(run.scope, run.task)
    of_flow(home.project, rows, run)
    return [row for row in rows if is_same(home, row, run)]


def is_same(home: Home, recorded: Located, asked: Located) -> bool:
    """Whether the flow that a run recorded is, beyond doubt, the one that is asked for."""
    return compared(home.project, recorded, asked) == "same"


def of_flow(project: Path | None, runs: Iterable[R], asked: Located) -> R | None:
    """Of these runs the nearest one of the asked flow. Raises FlowElsewhere where only a person can say it."""
    nearest = sorted(runs, key=lambda run: _distance(project, run, asked))
    answers = [(run, compared(project, run, asked)) for run in nearest]
    for run, answer in answers:
        if answer == "same":
            return run
    for run, answer in answers:
        if answer != "other":
            raise elsewhere(project, run, asked, answer)
    return None


def _distance(project: Path | None, recorded: Located, asked: Located) -> int:
    """In one place; else known by the same; else perhaps the same, moved."""
    if is_same_place(project, recorded.source, asked.source):
        return 0
    return 1 if recorded.identity == asked.identity else 2


def compared(project: Path | None, recorded: Located, asked: Located) -> Answer:
    """Whether the flow that a run recorded is the one that is asked for."""
    answer = _compared(project, recorded, asked)
    return "other_worktree" if answer == "same" and recorded.worktree != asked.worktree else answer


def _compared(project: Path | None, recorded: Located, asked: Located) -> Answer:
    if is_same_place(project, recorded.source, asked.source):
        return "same"
    if not (_by_file(recorded) or _by_file(asked)):
        return "same" if recorded.identity == asked.identity else "other"
    if not _is_named_alike(recorded.source, asked.source):
        return "other"
    if is_gone(recorded.source, project):  # it was moved, which changes nothing
        return "same"
    if is_file(recorded.source) != is_file(asked.source):
        return "same" if is_module_and_file(project, recorded.source, asked.source) else "other"
    if os.path.basename(recorded.source) != os.path.basename(asked.source):
        return "other"
    return "same" if is_equal_code(path_of(recorded.source, project), path_of(asked.source, project)) else "other_code"


def _by_file(flow: Located) -> bool:
    """Whether a flow is known by nothing but the name of its file."""
    return flow.identity.startswith("file:")


def _is_named_alike(one: str, other: str) -> bool:
    return one.rpartition(":")[2] == other.rpartition(":")[2] and is_flow_file(one) == is_flow_file(other)


def is_same_place(project: Path | None, one: str, other: str) -> bool:
    """Whether two sources name one thing: as they are written, or by links that lead to one file."""
    if one == other:
        return True
    if not (is_file(one) and is_file(other) and _is_named_alike(one, other)):
        return False
    return _is_one(path_of(one, project), path_of(other, project))


def is_same_source(project: Path | None, recorded: str, asked: str) -> bool:
    """Whether two sources name one flow, where nothing else is known of either: as a schedule has it."""
    return is_same_place(project, recorded, asked) or is_module_and_file(project, recorded, asked)


def is_module_and_file(project: Path | None, recorded: str, asked: str) -> bool:
    """Whether of two sources one names a module, and the other the file that it is.

    A recorded module is the same wherever its file lies. A recorded file lies where it does: the module that is asked
    for has to be that very file, or one with equal code.
    """
    module, file = (recorded, asked) if is_file(asked) else (asked, recorded)
    if is_file(module) or not is_file(file) or not _is_named_alike(module, file) or module.startswith("script:"):
        return False
    name, path = module.rpartition(":")[0], path_of(file, project)
    if not _is_called(name, path):
        return False
    found = None if file == asked else file_of_module(name, project or here())
    return file == asked or (found is not None and (_is_one(str(found), path) or is_equal_code(str(found), path)))


def _is_called(module: str, path: str) -> bool:
    """Whether a file is the one that a module of this name has, from some folder on."""
    parts = module.split(".")
    whole = Path(path).with_suffix("").parts
    return any(ends[-len(parts) :] == tuple(parts) for ends in (whole, whole[:-1] if whole[-1] == "__init__" else ()))


def _is_one(file: str, other: str) -> bool:
    return os.path.realpath(file) == os.path.realpath(other)


def stays(project: Path | None, run: Located, now: FlowFacts) -> FlowFacts:
    """A flow that a run goes on with, by the words that the run has for it where they still name the same."""
    if is_same_place(project, run.source, now.source):
        return now._replace(source=run.source)
    if _by_file(now) and is_module_and_file(project, run.source, now.source):  # the module is known in more places
        return now._replace(source=run.source, identity=run.identity)
    return now


def elsewhere(project: Path | None, run: RecordedFlow, asked: Located, answer: Answer) -> errors.FlowElsewhere:
    """That only a person can say whether a run goes on with this flow."""
    before, now = (full_source(project, flow.source) for flow in (run, asked))
    why = WHY[answer]
    if answer == "other_worktree":
        why += f" ({asked.worktree or 'the main one'}, not {run.worktree or 'the main one'})"
    return errors.FlowElsewhere(
        run.id, run.task, before, now, why, shlex.quote(now), is_finished=run.status in FINISHED
    )


def full_source(project: Path | None, source: str) -> str:
    """A source with the full path of its file."""
    path = path_of(source, project)
    return f"{path}:{source.rpartition(':')[2]}" if path else source


# -- where it is now ---------------------------------------------------------------------------------


def whereabouts(caller: Caller, source: str) -> str:
    """The source by which a flow is found now: as recorded, or from this folder when its file is gone. Else nothing."""
    if not is_gone(source, caller.home.project):
        return source
    return found_in(source, caller.home.project, here()) if caller.looks_here else ""


def file_now(caller: Caller, run: RunRow, file: str) -> Path:
    """Where a file with code of a run is now: if its flow was moved, that was moved with it."""
    source = whereabouts(caller, run.source) or run.source
    before, now = path_of(run.flow, caller.home.project), path_of(source, caller.home.project)
    if is_flow_file(source):
        return Path(now)
    path = (caller.home.project or Path()) / file
    if not before or not now or before == now:
        return path
    moved = Path(os.path.dirname(now), os.path.relpath(path, os.path.dirname(before)))
    return moved if moved.is_file() else path


def is_found(executor: Executor, run: RecordedFlow) -> bool:
    """Whether a resume finds the flow of a run now, from here."""
    with suppress(errors.FlowElsewhere):
        return bool(whereabouts(executor.caller, run.source) or given(executor, run))
    return False


def given(executor: Executor, run: RecordedFlow) -> FlowSpec | None:
    """The flow that a run is one of, among those that the caller gave. Raises FlowElsewhere."""
    project = executor.home.project
    asked = [(spec, known(executor.home, spec)) for spec in executor.live.flows]
    asked.sort(key=lambda each: _distance(project, run, each[1]))
    found = [(spec, flow, compared(project, run, flow)) for spec, flow in asked]
    same = next((spec for spec, _, answer in found if answer == "same"), None)
    doubtful = next(((flow, answer) for _, flow, answer in found if answer != "other"), None)
    if same is None and doubtful is not None:
        raise elsewhere(project, run, *doubtful)
    return same


def refuse_other_worktree(home: Home, run: RecordedFlow, source: str) -> None:
    """Raises FlowElsewhere for a flow that was found in a run's stead, in another work tree: whatever it is."""
    file = path_of(source, home.project)
    worktree = worktree_of(os.path.dirname(os.path.realpath(file))) if file else run.worktree
    now = FlowFacts(run.identity, source, worktree)
    if source != run.source and now.worktree != run.worktree:
        raise elsewhere(home.project, run, now, "other_worktree")


def refuse_other(home: Home, run: RecordedFlow, spec: FlowSpec) -> None:
    """Raises FlowElsewhere, or FlowNotFound, for a flow that was found in a run's stead and is not its own."""
    now = known(home, spec)
    answer = compared(home.project, run, now)
    if answer == "other":
        where = full_source(home.project, now.source)
        raise errors.FlowNotFound(run.source, f"there is no such file, and {where} is another flow")
    if answer != "same":
        raise elsewhere(home.project, run, now, answer)


# -- the flow of a run -------------------------------------------------------------------------------


def flow_of_run(executor: Executor, run: RecordedFlow) -> FlowSpec:
    """The flow of a run: one that the caller gave, else where it went on last, else in this folder if it is gone there.

    Raises FlowNotFound, FlowElsewhere.
    """
    if (own := given(executor, run)) is not None:
        return own
    source = whereabouts(executor.caller, run.source)
    found = _loaded(executor.home, source or run.source)
    if source not in ("", run.source):
        refuse_other(executor.home, run, found)
    return found


def flow_if_known(executor: Executor, run: RecordedFlow) -> FlowSpec | None:
    """The same for who only looks: none of the flow's code is run. None: its source has it, and it is not loaded here.

    Raises FlowNotFound, FlowElsewhere, RecipeInvalid.
    """
    source = whereabouts(executor.caller, run.source) or run.source
    if source.startswith("script:") or is_flow_file(source) or given(executor, run) is not None:
        return flow_of_run(executor, run)
    (place, _, name), folder = source.rpartition(":"), executor.home.project or here()
    if loaded_module(place, folder) is not None:
        return flow_of_run(executor, run)
    if why := why_missing(place, name, folder):
        raise errors.FlowNotFound(source, why)
    refuse_other_worktree(executor.home, run, source)
    return None


def _loaded(home: Home, source: str) -> FlowSpec:
    """A flow by its source. Raises FlowNotFound."""
    if source.startswith("script:"):
        raise errors.FlowNotFound(source, "it was opened by a script; run that script again to continue")
    folder = home.project or here()
    if is_flow_file(source):
        return flow_files.find_flow_file(source, folder)
    spec = getattr(load(source, folder), "spec", None)
    if not isinstance(spec, FlowSpec):
        raise errors.FlowNotFound(source, "it is not a flow (decorate it with @flow)")
    return spec


def refuse_unfit(run: RunRow, spec: FlowSpec) -> dict[str, Any]:
    """The run's inputs, for the flow that it is to go on with. Raises NameInvalid, InputsInvalid, SecretMissing."""
    if run.flow.startswith("script:") != spec.source.startswith("script:"):
        raise errors.NameInvalid("flow", spec.source, f"run {run.id} was opened by a script; run that script again")
    if is_flow_file(run.flow) != is_flow_file(spec.source):
        kind = "a flow file" if is_flow_file(run.flow) else "a Python flow"
        raise errors.NameInvalid("flow", spec.source, f"run {run.id} is one of {kind}: give {kind}")
    return spec.typed(decode(run.inputs))
