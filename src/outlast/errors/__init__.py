"""Every error Outlast raises, and the signals it sends through user code.

    OutlastError
    ├── NotFound      run_not_found, run_removed, step_not_found, interrupt_not_found, flow_not_found, home_not_found,
    │                 queue_not_found, limit_not_found, schedule_not_found,
    │                 handoff_not_found, session_not_found, task_not_found, artifact_not_found, artifact_removed,
    │                 checkpoint_not_found, tenant_not_found, key_not_found, route_not_found, record_not_found,
    │                 blob_not_found, output_not_found, displaced_not_found
    ├── Conflict      run_held, gc_running, run_finished, inputs_conflict, flow_elsewhere, lease_lost,
    │                 operation_conflict, task_aborted, task_declined,
    │                 already_answered, ambiguous_prefix, step_ambiguous, step_name_taken, map_key_taken,
    │                 run_sealed, run_exists, handoff_ambiguous, handoff_exists, finished, handoff_claimed, claim_lost,
    │                 resource_taken, revision_conflict, session_exists, memo_conflict, task_exists, address_taken,
    │                 home_not_empty, nothing_lost, blobs_elsewhere, blobs_taken, engine_conflict, event_ahead
    ├── Refused       contested, integrity_broken, step_outside_run, never_awaited, effect_inside_step, still_running,
    │                 runs_on_import,
    │                 orphan_alive, resource_missing, resource_cycle, resource_needs_loop, store_forked, sync_in_loop,
    │                 edited_since, not_restorable, output_not_kept, secret_missing, handoff_contested, handoff_weak,
    │                 not_settled, not_applicable, other_place, task_refused,
    │                 unauthenticated, forbidden, method_refused, no_flows, runs_on_host, look_first, embedded_only,
    │                 reply_refused, keys_needed, foreign_commands, home_not_ours, repeats_effects,
    │                 engine_refused
    ├── Invalid       value_refused, state_too_large, flow_invalid, step_invalid, name_invalid, resource_invalid,
    │                 answer_invalid, inputs_invalid, archive_invalid, recipe_invalid, handoff_invalid, secret_found,
    │                 secret_pattern_invalid, home_settings_invalid, schedule_invalid,
    │                 budget_too_small, settings_invalid,
    │                 request_malformed, request_invalid, body_too_large, range_refused, body_too_slow,
    │                 headers_too_slow, media_type_refused, trust_invalid, option_invalid, tokenizer_invalid
    ├── Unavailable   store_busy, disk_full, store_read_only, home_read_only, store_failed, store_newer,
    │                 store_foreign, store_lost, network_filesystem, extra_missing,
    │                 server_unreachable, reply_invalid, internal,
    │                 server_full, too_many_requests, too_many_runs, server_busy, quota,
    │                 no_thread, blobs_unreachable, blobs_refused, engine_unreachable
    └── WorkFailed    step_failed, step_timed_out, run_timed_out, command_not_started, command_failed, said_wrong,
                      limit_reached, items_unreadable, deadline_passed, wait_cancelled, run_failed, run_waiting,
                      run_aborted, run_interrupted

An error keeps the facts, not the text, so it survives copying between processes. `code` is stable: the
same in Python, on the command line, over HTTP and MCP. `Paused`, `Stopped` and `Severed` are no errors:
they end a flow's body, and are `BaseException`s so that a user's `except Exception` cannot eat them.

Here are the base, the families and the signals. The kinds stand in a file per room, and one of these is loaded when a
name of it is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, dataclass_transform

if TYPE_CHECKING:
    from outlast.errors.flows import *
    from outlast.errors.handoffs import *
    from outlast.errors.runs import *
    from outlast.errors.server import *
    from outlast.errors.store import *


def filled(template: str, facts: Mapping[str, Any]) -> str:
    """A text with the facts in it; a fact that is a word of a command is written `{name!q}`."""
    words = {f"{name} word": _word(str(value)) for name, value in facts.items() if f"{{{name}!q}}" in template}
    return template.replace("!q}", " word}").format_map({**facts, **words})


def _word(value: str) -> str:
    """One word of a command, also where it has blanks or looks like an option."""
    from shlex import quote

    return f"-- {quote(value)}" if value.startswith("-") else quote(value)


class _Optional:
    """A field that need not be given. On an error it is the fact, like every field."""

    def __init__(self, default: Any) -> None:
        self.default = default

    def __set_name__(self, kind: type[OutlastError], name: str) -> None:
        self.name = name

    def __get__(self, error: OutlastError | None, kind: type[OutlastError]) -> Any:
        return self if error is None else error.__getattr__(self.name)


def fact(*, default: Any) -> Any:
    """What a field of a kind is when it is not given."""
    return _Optional(default)


_SHORT_CODES = {"OutlastError": "error", "WorkFailed": "failed"}


class _Code:
    """The name of a kind in small letters; of a class that somebody made from it, the same."""

    def __get__(self, error: OutlastError | None, kind: type[OutlastError]) -> str:
        name = _ours(kind).__name__
        if name in _SHORT_CODES:
            return _SHORT_CODES[name]
        return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


class _Signature:
    """What a kind takes, as `help` and `inspect` show it; None where its constructor shows it itself."""

    def __get__(self, error: OutlastError | None, kind: type[OutlastError]) -> Any:
        from inspect import Parameter, Signature

        ours = _ours(kind)
        if not ours.__annotations__ or kind.__init__ is not OutlastError.__init__:
            return None
        none, plain = Parameter.empty, Parameter.POSITIONAL_OR_KEYWORD
        default = {name: vars(ours)[name].default if name in vars(ours) else none for name in ours.__annotations__}
        fields = ours.__annotations__.items()
        return Signature([Parameter(name, plain, annotation=each, default=default[name]) for name, each in fields])


@dataclass_transform(eq_default=False, field_specifiers=(fact,))
class OutlastError(Exception):
    """Base of everything Outlast raises. `str()` says what happened and what to do next.

    A kind declares its facts as annotated fields: its constructor takes them in that order or by name, and they are
    attributes of the error. `says` and `advice` are formatted with them. Its code is its name in small letters.
    """

    code = cast("str", _Code())
    __signature__ = _Signature()
    says = "{detail}"
    advice = ""

    def __init_subclass__(cls, init: bool = True) -> None:
        """`init=False` tells type checkers of a family, which is given any facts by name."""
        if cls.__module__.startswith(__name__):
            cls.__module__ = __name__  # recorded and pickled by the name under which it is imported

    def __init__(self, *given: Any, **named: Any) -> None:
        facts = _bound(type(self), given, named)
        super().__init__(*facts.values())
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.facts)

    @property
    def detail(self) -> str:
        """What happened, with the facts of this error."""
        return self.says.format(**self.facts)

    @property
    def what_next(self) -> str:
        """What to do about it: the next command or call."""
        return filled(self.advice, self.facts)

    def __str__(self) -> str:
        return f"{self.detail}; {self.what_next}" if self.advice else self.detail

    def to_dict(self) -> dict[str, Any]:
        """The error as every door shows it: code, detail, advice, path of the offending value."""
        return {"code": self.code, "detail": self.detail, "advice": self.what_next, "path": self.facts.get("path")}


def rebuild(kind: type[OutlastError], facts: dict[str, Any]) -> OutlastError:
    """The error again that had these facts, whatever its constructor takes."""
    error = kind.__new__(kind)
    error.args, error.facts = tuple(facts.values()), dict(facts)
    return error


def _ours(kind: type[OutlastError]) -> type[OutlastError]:
    """The kind itself, or that from which somebody made a class of their own."""
    return next(each for each in kind.__mro__ if each.__module__ == __name__)


def _bound(kind: type[OutlastError], given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The facts in the order of the fields; TypeError when they are not those that the kind has.

    A family takes any by name, and so does a constructor of one's own: it knows what it gives.
    """
    fields, own = _ours(kind).__annotations__, vars(_ours(kind))
    if not given and (not fields or kind.__init__ is not OutlastError.__init__):
        return named
    first = dict(zip(fields, given, strict=False))
    known = {name: own[name].default for name in fields if name in own} | first | named
    if len(given) > len(fields) or first.keys() & named or known.keys() != fields.keys():
        raise TypeError(f"{kind.__name__} takes {', '.join(fields) or 'facts by name'}: not {given} and {named}")
    return {name: known[name] for name in fields}


class NotFound(OutlastError, init=False):
    """What was asked for does not exist (or is not visible from here)."""


class Conflict(OutlastError, init=False):
    """Someone or something else got there first."""


class Refused(OutlastError, init=False):
    """The work may not go on as things stand."""


class Invalid(OutlastError, init=False):
    """What was given cannot be used; nothing was written."""


class Unavailable(OutlastError, init=False):
    """The store cannot serve this now; nothing acknowledged is lost."""


class WorkFailed(OutlastError, init=False):
    """The user's own work failed, or has not ended well yet."""


class NotDone(Exception):
    """Raise it in an effect to say that nothing happened: the attempt may be repeated."""


# -- signals that end a flow's body ------------------------------------------------------------------


class Paused(BaseException):
    """Ends a plain flow's body at a wait. Raised again at the next call if something caught it."""


class Stopped(BaseException):
    """Ends a flow's body because the run was asked to stop."""


class Severed(BaseException):
    """Ends a flow's body because the store took the run away: lease lost, aborted, or the disk failed."""


# -- the kinds, by room ------------------------------------------------------------------------------

_PLACES = {
    "store": """
        BlobNotFound HomeNotFound GcRunning HomeNotEmpty NothingLost OperationConflict AmbiguousPrefix IntegrityBroken
        StoreForked SyncInLoop EmbeddedOnly HomeNotOurs ValueRefused ArchiveInvalid NameInvalid SettingsInvalid
        TrustInvalid SecretFound SecretPatternInvalid HomeSettingsInvalid StoreBusy DiskFull StoreReadOnly
        HomeReadOnly StoreLost StoreFailed StoreNewer StoreForeign NetworkFilesystem ExtraMissing NoThread
        TokenizerInvalid BlobsElsewhere BlobsTaken BlobsUnreachable BlobsRefused
    """,
    "flows": """
        FlowNotFound StepNotFound OutputNotFound DisplacedNotFound StepAmbiguous StepNameTaken MapKeyTaken
        ResourceTaken RunsOnImport SecretMissing StepOutsideRun EffectInsideStep StillRunning OrphanAlive
        ResourceMissing ResourceCycle ResourceNeedsLoop EditedSince NotRestorable OutputNotKept FlowInvalid
        StepInvalid InputsInvalid RecipeInvalid ResourceInvalid StepFailed StepTimedOut SaidWrong ItemsUnreadable
        LimitReached
    """,
    "runs": """
        EngineConflict EngineRefused EngineUnreachable QueueNotFound LimitNotFound ScheduleNotFound ScheduleInvalid
        RunNotFound RunRemoved InterruptNotFound RunHeld RunFinished InputsConflict TaskAborted TaskDeclined
        FlowElsewhere LeaseLost AlreadyAnswered RunSealed RunExists Contested NeverAwaited RepeatsEffects
        StateTooLarge OptionInvalid AnswerInvalid RunTimedOut DeadlinePassed WaitCancelled RunFailed RunWaiting
        RunAborted RunInterrupted CommandNotStarted CommandFailed EventAhead
    """,
    "handoffs": """
        HandoffNotFound HandoffAmbiguous HandoffExists Finished HandoffClaimed ClaimLost RevisionConflict
        HandoffContested HandoffWeak NotSettled NotApplicable OtherPlace RunsOnHost LookFirst ForeignCommands
        HandoffInvalid
        ArtifactNotFound ArtifactRemoved CheckpointNotFound RecordNotFound SessionNotFound TaskNotFound SessionExists
        MemoConflict TaskExists TaskRefused BudgetTooSmall
    """,
    "server": """
        TenantNotFound KeyNotFound RouteNotFound AddressTaken Unauthenticated Forbidden MethodRefused NoFlows
        ReplyRefused KeysNeeded RequestMalformed RequestInvalid BodyTooLarge RangeRefused BodyTooSlow HeadersTooSlow
        MediaTypeRefused ServerUnreachable ReplyInvalid Internal ServerFull TooManyRequests TooManyRuns ServerBusy
        Quota
    """,
}
_ROOM_OF = {name: room for room, names in _PLACES.items() for name in names.split()}


def _load(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    return found


def loaded(*names: str) -> tuple[type[OutlastError], ...]:
    """Those of these kinds that are loaded: an error is of no other one.

    Who only asks what an error is, loads nothing: it may be that no file can be opened any more.
    """
    rooms = [(sys.modules.get(f"{__name__}.{_ROOM_OF[name]}"), name) for name in names]
    return tuple(kind for room, name in rooms if (kind := getattr(room, name, None)) is not None)


if not TYPE_CHECKING:  # a checker sees the imports above, and misses a name that is not among them
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF})
