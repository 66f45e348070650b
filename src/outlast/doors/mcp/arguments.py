"""What each tool takes, described for a model. What is not listed is refused; what is left out has the SDK's default.

`null` for an argument that may be left out is the same as leaving it out: many clients send it so.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outlast.errors import Invalid
from outlast.values.text import closest

Form = str | dict[str, Any]
A = TypeVar("A", bound="Arguments")
NULLABLE = ("answer", "result")  # null is a value there


class ArgumentsInvalid(Invalid):
    """Raised when the arguments of a tool are not what it takes; nothing was done."""

    says = "{why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of them all."""

    def given(self, *without: str) -> dict[str, Any]:
        """The arguments that were given, by name, without those named."""
        every = {name: getattr(self, name) for name in self.__struct_fields__ if name not in without}
        return {name: value for name, value in every.items() if value is not UNSET}


def arguments_of(tool: str, kind: type[A], raw: dict[str, Any]) -> A:
    """The arguments, checked. Raises ArgumentsInvalid by the path of the first that is wrong."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    unknown = [name for name in raw if name not in fields]
    if unknown:
        near = closest(unknown[0], fields)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentsInvalid(
            unknown[0],
            f"{tool} takes no argument {', '.join(f'{name!r:.100}' for name in unknown[:5])}",
            f"{hint}it takes: {', '.join(fields)}",
        )
    said = {name: value for name, value in raw.items() if value is not None or name in NULLABLE}
    missing = [name for name, field in fields.items() if field.required and name not in said]
    if missing:
        raise ArgumentsInvalid(missing[0], f"{tool} needs {' and '.join(missing)}", "call it again with these")
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$.")
        path = path.rstrip("`") or tool
        raise ArgumentsInvalid(path, f"{path}: {why}", f"see the input schema of {tool}") from error


def schema_of(kind: type[Arguments], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON schema of what a tool takes, without the names that do not hold here."""
    _, found = msgspec.json.schema_components([kind])
    schema = {name: each for name, each in found[kind.__name__].items() if name not in ("title", "description")}
    shown = {name: _typed(each) for name, each in schema["properties"].items() if name not in without}
    first = {name: shown[name] for name in schema["required"]}
    return schema | {"properties": first | shown}


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """Some clients need the type beside the values to choose from, which are texts."""
    return {"type": "string", **schema} if "enum" in schema else schema


# -- what several tools take ---------------------------------------------------------------------------

Scope = Annotated[str, Meta(description="The namespace, such as a project. Leave out for the default one.")]
OperationId = Annotated[
    str, Meta(description="A name for this call. The same name and content again gives the first answer.")
]
ClaimId = Annotated[
    str, Meta(description="The `claim.id` you were given when you claimed it. Over stdio it may be left out.")
]
RepoRoot = Annotated[
    str, Meta(description="Absolute path of the folder that the files are in. Leave out for this project.")
]
Accept = Annotated[
    list[str],
    Meta(description="Contesting reasons to take upon you, each CODE or CODE:SUBJECT as shown. Needs `why`."),
]
Why = Annotated[str, Meta(description="Why you accept or take it; it goes on the record.")]
Take = Annotated[bool, Meta(description="Take the claim over from whoever holds it. Needs `why`. Default false.")]
RunChecks = Annotated[
    bool, Meta(description="Also run its acceptance checks here, and record what came of them. Default false.")
]
Tokens = Annotated[
    int, Meta(ge=1, le=1_000_000, description="How long the contract in the text may be, in tokens. Default 1500.")
]
Evidence = Annotated[
    list[dict[str, Any]],
    Meta(description='What you saw come of checks: [{"check": "pytest -q", "passed": true}]. Kept, not believed.'),
]
Acknowledged = Annotated[
    list[str], Meta(description="Every must in prose that you kept, word for word as the handoff says it.")
]
Missing = Annotated[list[str], Meta(description="What the handoff lacked, for whoever writes the next one.")]
Override = Annotated[
    str, Meta(description="Why it counts as completed although a check or must says otherwise. Goes on the record.")
]
Note = Annotated[str, Meta(description="What else there is to say.")]
RunId = Annotated[str, Meta(description="The run's id, or a beginning of it that no other run has.")]
TaskId = Annotated[str, Meta(description="The task's id, whole, such as `export-repair`.")]


class Contract(Arguments, kw_only=True):
    """What a handoff says: the fields of `handoff_store` and `task_pause`."""

    summary: Annotated[str, Meta(description="Where the work stands, in one sentence.")]
    handoff_text: Annotated[
        str, Meta(description="What to do from here, as instructions: what to open, what to change, what to watch.")
    ]
    target_files: (
        Annotated[
            list[str],
            Meta(description="Files or folders it is about, from repo_root, the first to open first. They are bound."),
        ]
        | UnsetType
    ) = UNSET
    creates: (
        Annotated[list[str], Meta(description="Files that are not there yet: to make them is the work.")] | UnsetType
    ) = UNSET
    next_action: (
        Annotated[str, Meta(description="The one thing to do next, as an order: `Patch the serializer`.")] | UnsetType
    ) = UNSET
    acceptance_checks: (
        Annotated[
            list[Form],
            Meta(
                description="How to tell that it is done: shell commands that exit 0, or "
                '{"run", "cwd", "timeout", "exit"}, or {"file", "exists"|"absent": true}, {"file", "contains"}, '
                '{"file", "sha256"}.'
            ),
        ]
        | UnsetType
    ) = UNSET
    must_change: (
        Annotated[list[Form], Meta(description="What must be changed: a path or glob, a file form, or prose.")]
        | UnsetType
    ) = UNSET
    must_remove: (
        Annotated[list[Form], Meta(description="What must be gone: a path or glob, a file form, or prose.")] | UnsetType
    ) = UNSET
    must_keep: (
        Annotated[list[Form], Meta(description="What must stay as it is: a path or glob, a file form, or prose.")]
        | UnsetType
    ) = UNSET
    rollback: Annotated[list[Form], Meta(description="How to go back if it goes wrong.")] | UnsetType = UNSET
    refs: (
        Annotated[
            list[str],
            Meta(description="What it rests on: artifact:…, record:…. Contradicted later, it contests the handoff."),
        ]
        | UnsetType
    ) = UNSET
    execution_state_v1: (
        Annotated[dict[str, Any], Meta(description="State for a machine, any JSON object; read last.")] | UnsetType
    ) = UNSET
    execution_packet_v1: (
        Annotated[dict[str, Any], Meta(description="A packet for a machine, any JSON object; read last.")] | UnsetType
    ) = UNSET
    handoff_kind: Annotated[str, Meta(description="Default task_handoff.")] | UnsetType = UNSET
    repo_root: RepoRoot | UnsetType = UNSET
    file_path: (
        Annotated[str, Meta(description="The file to begin in, when it is not the first target.")] | UnsetType
    ) = UNSET
    symbol: Annotated[str, Meta(description="Where in that file: a function or class.")] | UnsetType = UNSET
    risk: Annotated[str, Meta(description="What could go wrong.")] | UnsetType = UNSET
    tags: Annotated[list[str], Meta(description="Short labels.")] | UnsetType = UNSET
    environment: (
        Annotated[list[str], Meta(description="Files such as lock files; a change of one weakens the verdict.")]
        | UnsetType
    ) = UNSET
    expires: (
        Annotated[str, Meta(description="When it is stale: `36h`, `7d`, or a date. Default 30 days.")] | UnsetType
    ) = UNSET
    supersedes: Annotated[str, Meta(description="The id of a handoff that this one replaces.")] | UnsetType = UNSET
    expected_revision: (
        Annotated[
            int, Meta(ge=0, description="Store only if this revision is the newest; 0: only if there is none yet.")
        ]
        | UnsetType
    ) = UNSET
    baseline: (
        Annotated[bool, Meta(description="Run the checks now and record what came of them. Default false.")] | UnsetType
    ) = UNSET
    strict: Annotated[bool, Meta(description="Refuse a weak handoff. Default false.")] | UnsetType = UNSET
    redact: Annotated[bool, Meta(description="Mask secrets instead of refusing them. Default false.")] | UnsetType = (
        UNSET
    )
    bind: (
        Annotated[bool, Meta(description="False: look at no file. The verdict is weaker then. Default true.")]
        | UnsetType
    ) = UNSET
    claim_id: ClaimId | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


# -- handoffs ------------------------------------------------------------------------------------------


class HandoffStore(Contract, kw_only=True):
    anchor: Annotated[
        str, Meta(description="The stable name it is recovered by, such as `task:export-repair` or `branch:main`.")
    ]


class HandoffRecover(Arguments, kw_only=True):
    anchor: (
        Annotated[
            str,
            Meta(
                description="Its name. Without anchor, handoff_id, file_path: the newest open one of this git branch."
            ),
        ]
        | UnsetType
    ) = UNSET
    handoff_id: Annotated[str, Meta(description="Its id, instead of the anchor.")] | UnsetType = UNSET
    file_path: Annotated[str, Meta(description="A file it is about, instead of the anchor.")] | UnsetType = UNSET
    symbol: Annotated[str, Meta(description="Where in that file.")] | UnsetType = UNSET
    revision: (
        Annotated[int, Meta(ge=1, description="An older revision under the anchor. Default: the newest.")] | UnsetType
    ) = UNSET
    repo_root: RepoRoot | UnsetType = UNSET
    run_checks: RunChecks | UnsetType = UNSET
    claim: (
        Annotated[
            bool,
            Meta(description="Claim it for you, if nothing contests. Do so before you change anything. Default false."),
        ]
        | UnsetType
    ) = UNSET
    include_finished: (
        Annotated[bool, Meta(description="Also if its work was completed. Default false.")] | UnsetType
    ) = UNSET
    accept: Accept | UnsetType = UNSET
    why: Why | UnsetType = UNSET
    take: Take | UnsetType = UNSET
    tokens: Tokens | UnsetType = UNSET
    claim_id: ClaimId | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class HandoffSettle(Arguments, kw_only=True):
    anchor: Annotated[str, Meta(description="The handoff's name.")]
    outcome: Annotated[
        Literal["completed", "failed", "released"],
        Meta(description="completed: done, checks pass. failed: tried, did not work. released: given back undone."),
    ]
    evidence: Evidence | UnsetType = UNSET
    acknowledged: Acknowledged | UnsetType = UNSET
    missing: Missing | UnsetType = UNSET
    override: Override | UnsetType = UNSET
    note: Note | UnsetType = UNSET
    run_checks: (
        Annotated[bool, Meta(description="False: run no checks, those on record must do. Default true.")] | UnsetType
    ) = UNSET
    claim_id: ClaimId | UnsetType = UNSET
    repo_root: RepoRoot | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


# -- runs and waits ------------------------------------------------------------------------------------

Status = Literal["running", "waiting", "failed", "interrupted", "crashed", "succeeded", "aborted"]


WaitSeconds = Annotated[
    float,
    Meta(ge=0, le=600, description="How long to wait for it to end or wait. It goes on after that. Default 45."),
]
StepName = Annotated[str, Meta(description="The step, as run_show names it in `label`.")]


class RunList(Arguments, kw_only=True):
    status: Annotated[Status, Meta(description="Only runs that stand so.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="How many at most, the newest first. Default 20.")] = 20


class RunShow(Arguments, kw_only=True):
    run_id: RunId
    receipts: Annotated[
        int, Meta(ge=0, le=200, description="How many receipts at most, the newest ones. Default 20.")
    ] = 20
    before: (
        Annotated[int, Meta(ge=1, description="Only receipts with a lower `seq`: for those that were left out.")]
        | UnsetType
    ) = UNSET


class RunStart(Arguments, kw_only=True):
    flow: Annotated[str, Meta(description="The flow's name, one of those that this server was given.")]
    inputs: Annotated[dict[str, Any], Meta(description="Its inputs by name.")] | UnsetType = UNSET
    task: Annotated[str, Meta(description="What is worked on. A task that is named happens once.")] | UnsetType = UNSET
    again: (
        Annotated[bool, Meta(description="Let a named task that has happened happen once more. A person decides that.")]
        | UnsetType
    ) = UNSET
    effects: (
        Annotated[tuple[str, ...], Meta(description="With again: the effects that may be repeated, by their steps.")]
        | UnsetType
    ) = UNSET
    operation_id: OperationId | UnsetType = UNSET
    wait_seconds: WaitSeconds = 45.0


class RunResume(Arguments, kw_only=True):
    run_id: RunId
    claim_id: ClaimId | UnsetType = UNSET
    accept: Accept | UnsetType = UNSET
    why: Why | UnsetType = UNSET
    partial: (
        Annotated[
            Literal["keep", "restore"],
            Meta(description="What becomes of files that an unfinished attempt left: keep them, or put them back."),
        ]
        | UnsetType
    ) = UNSET
    flow: (
        Annotated[
            str,
            Meta(description="The name of a flow that the server was given, to go on with; only after flow_elsewhere."),
        ]
        | UnsetType
    ) = UNSET
    wait_seconds: WaitSeconds = 45.0


class InterruptList(Arguments, kw_only=True):
    assignee: Annotated[str, Meta(description="Only those that ask this person.")] | UnsetType = UNSET
    type: Annotated[str, Meta(description="Only this kind, such as `approval`.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="How many at most. Default 20.")] = 20


class InterruptAnswer(Arguments, kw_only=True):
    interrupt_id: Annotated[str, Meta(description="The wait's id, or a beginning of it that no other has.")]
    answer: Annotated[
        Any,
        Meta(description='As interrupt_list shows it: {"approved": true}, {"choice": "retry"}, or what `schema` says.'),
    ]
    shown: (
        Annotated[str, Meta(description="The wait's `digest`: the answer counts only for what was shown then.")]
        | UnsetType
    ) = UNSET
    resume: Annotated[bool, Meta(description="Whether the run goes on at once, where it can. Default true.")] = True
    wait_seconds: WaitSeconds = 45.0
    operation_id: OperationId | UnsetType = UNSET


class RunRetry(Arguments, kw_only=True):
    run_id: RunId
    step: StepName
    why: Annotated[str, Meta(description="Why it may work now; it goes on the record.")] | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET


class RunSkip(Arguments, kw_only=True):
    run_id: RunId
    step: StepName
    why: Annotated[str, Meta(description="Why it is not run; it goes on the record.")]
    result: Annotated[Any, Meta(description="What counts as its result. Default null.")] = None
    operation_id: OperationId | UnsetType = UNSET


class RunRewind(Arguments, kw_only=True):
    run_id: RunId
    step: StepName
    why: Annotated[str, Meta(description="Why it is done again; it goes on the record.")] | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET


class RunFork(Arguments, kw_only=True):
    run_id: RunId
    from_step: Annotated[str, Meta(description="The step from which on it goes its own way, as run_show names it.")]
    inputs: Annotated[dict[str, Any], Meta(description="Inputs that are other ones in it.")] | UnsetType = UNSET
    state: Annotated[dict[str, Any], Meta(description="Values of its state at that step.")] | UnsetType = UNSET
    reuse_effects: (
        Annotated[bool, Meta(description="Keep the results of effects at that step and after it. Default false.")]
        | UnsetType
    ) = UNSET
    effects: (
        Annotated[tuple[str, ...], Meta(description="The effects that may be repeated, by their steps.")] | UnsetType
    ) = UNSET
    why: Annotated[str, Meta(description="What it is for; it goes on the record.")] | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET


# -- workspace -----------------------------------------------------------------------------------------


class WorkspaceSave(Arguments, kw_only=True):
    name: Annotated[str, Meta(description="A name such as `report.md`. Saving again makes the next version.")]
    content: Annotated[str, Meta(description="The content as text.")] | UnsetType = UNSET
    content_base64: Annotated[str, Meta(description="The content in base64, when it is no text.")] | UnsetType = UNSET
    path: (
        Annotated[
            str, Meta(description="A file to take the content from, for what is large. Relative to this project.")
        ]
        | UnsetType
    ) = UNSET
    media_type: Annotated[str, Meta(description="Such as text/markdown. Default: by the name.")] | UnsetType = UNSET
    summary: Annotated[str, Meta(description="What it is, in one sentence.")] | UnsetType = UNSET
    source: Annotated[str, Meta(description="Where the content came from.")] | UnsetType = UNSET
    tags: Annotated[list[str], Meta(description="Short labels.")] | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class WorkspaceRecall(Arguments, kw_only=True):
    goal: Annotated[str, Meta(description="What you are about to do, in a sentence: what is recalled serves that.")]
    budget: Annotated[int, Meta(ge=1, le=1_000_000, description="How many tokens at most. Default 2000.")] = 2000
    kinds: (
        Annotated[
            list[str],
            Meta(description="Only these: observation, decision, evidence, note, artifact, checkpoint."),
        ]
        | UnsetType
    ) = UNSET
    task: (
        Annotated[str, Meta(description="A task: the musts of its open handoff are always among what is recalled.")]
        | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(ge=1, description="How many entries at most.")] | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class CheckpointRecord(Arguments, kw_only=True):
    name: Annotated[str, Meta(description="What this boundary is, such as `reviewed`.")]
    task: TaskId
    summary: Annotated[str, Meta(description="What is true now.")] | UnsetType = UNSET
    refs: (
        Annotated[list[str], Meta(description="Refs that belong to it, such as artifact:default/report.md@1.")]
        | UnsetType
    ) = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


# -- tasks ---------------------------------------------------------------------------------------------


class TaskPause(Contract, kw_only=True):
    task: TaskId
    stop_run: (
        Annotated[bool, Meta(description="Also ask a running run of the task to stop. Default false.")] | UnsetType
    ) = UNSET


class TaskResume(Arguments, kw_only=True):
    task: TaskId
    run_checks: RunChecks | UnsetType = UNSET
    accept: Accept | UnsetType = UNSET
    why: Why | UnsetType = UNSET
    take: Take | UnsetType = UNSET
    tokens: Tokens | UnsetType = UNSET
    claim_id: ClaimId | UnsetType = UNSET
    repo_root: RepoRoot | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class TaskComplete(Arguments, kw_only=True):
    task: TaskId
    evidence: Evidence | UnsetType = UNSET
    acknowledged: Acknowledged | UnsetType = UNSET
    missing: Missing | UnsetType = UNSET
    override: Override | UnsetType = UNSET
    note: Note | UnsetType = UNSET
    run_checks: (
        Annotated[bool, Meta(description="False: run no checks, those on record must do. Default true.")] | UnsetType
    ) = UNSET
    claim_id: ClaimId | UnsetType = UNSET
    repo_root: RepoRoot | UnsetType = UNSET
    operation_id: OperationId | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET
