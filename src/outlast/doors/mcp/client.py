"""What a tool works with: the home as the caller may see it, what belongs to one connection, and what goes in and out.

In: the fields of its operation, as a model is told them; others are refused. `null` for an argument that may be left
out is the same as leaving it out: many clients send it so.

Out: values as plain JSON data, with the fields that every door gives them, so short that they fit into a model's
context. What is left out is said, by path, with where to read all of it.

The URIs of resources: `handoff://{scope}/{anchor}`, `artifact://{ref}`, `run://{run_id}`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from outlast.errors import Forbidden, Invalid, TenantNotFound
from outlast.operations.fields import Json
from outlast.operations.observed import SEEN
from outlast.operations.operation import WHOSE, Declared, Operation, choices_of, fields_of, part_of, sentence_of
from outlast.operations.shown import shown
from outlast.operations.table import OPERATIONS
from outlast.python.door import home_name, whose
from outlast.values.text import closest, shorten

if TYPE_CHECKING:
    from outlast import Outcome
    from outlast.operations.answers import Recovered
    from outlast.python.outlast import Outlast
    from outlast.python.project import Project
    from outlast.python.tasks import TaskSession

FORMS = {"acceptance_checks", "must_change", "must_remove", "must_keep", "rollback"}  # may name files
Sessions = dict[tuple[str, str], "TaskSession"]


class ToolAnswer(NamedTuple):
    """What a tool gives: text for a model, the verdict first; its answer; and where all of it can be read."""

    text: str
    value: Any
    whole: str = ""


class McpClient(Struct, frozen=True):
    """Who calls tools, and what he may do. `sessions` is kept where all calls are of one worker, as over stdio."""

    outlast: Outlast
    sessions: Sessions | None = None
    project: Project | None = None  # whose files a path means; None: no path means any
    approves: bool = True  # whether who calls may decide in a person's place
    by_person: bool = False  # a person was asked, and this is what they decided

    @property
    def is_remote(self) -> bool:
        """Whether the home is a server's: there the key says who acts."""
        return bool(self.outlast._url)

    @property
    def reach(self) -> tuple[str, ...]:
        """The options by which a command finds this home; none where the caller may be on another machine."""
        if self.is_remote:
            return ("--home", self.outlast._url)
        if self.sessions is None:
            return ()
        tenant = whose(self.outlast).tenant
        return ("--home", home_name(self.outlast), *(() if tenant == "default" else ("--tenant", tenant)))

    def deciding(self) -> Outlast:
        """The home in the name of who decides: a person who was asked is not the model that called."""
        if not self.by_person or self.is_remote:
            return self.outlast
        return self.outlast._acting(actor=f"user of {whose(self.outlast).actor}")

    def check_whose(self, asked: Any) -> None:
        """Tenant and actor may be named, and are only ever the caller's own. Raises TenantNotFound, Forbidden."""
        tenant, _, actor = whose(self.outlast)
        if asked.tenant_id not in (None, tenant):
            raise TenantNotFound(asked.tenant_id)
        if asked.actor not in (None, actor):
            raise Forbidden(f"you act as {actor}, and the call names another actor", "leave the actor out")

    def given(self, asked: Any, *without: str) -> dict[str, Any]:
        """The arguments of a call, what it names in files checked: all of the project. Raises HandoffInvalid."""
        said = {name: value for name, value in fields_of(asked).items() if value is not UNSET}
        for name in ("tenant_id", "actor", *(("scope",) if asked.scope is None else ()), *without):
            said.pop(name, None)
        if self.project is not None:
            if said.get("repo_root") is not None:
                said["repo_root"] = self.project.folder(said["repo_root"])
            for field in FORMS & {*said}:
                self.project.check_forms(field, said[field], said.get("repo_root") or "")
        return said

    def perform(self, tool: Tool, asked: Any, *without: str) -> Any:
        """The one call of the public object that the tool's operation names, in the scope that is named."""
        given, outlast = self.given(asked, *without, *tool.of_door), self.deciding() if tool.gated else self.outlast
        if "scope" in given and not self._takes_scope(tool.operation):
            outlast = self.in_scope(given.pop("scope"))
        return tool.operation.perform(outlast, given)

    def in_scope(self, scope: str | None) -> Outlast:
        """The home in another scope. Raises Forbidden at a server, whose connection has one."""
        if scope in (None, whose(self.outlast).scope):
            return self.outlast
        if self.is_remote or "_start" in vars(self.outlast):
            raise Forbidden("a connection to a server has one scope for this", "say it by the header Outlast-Scope")
        return self.outlast._acting(scope=scope)

    def _takes_scope(self, operation: Operation) -> bool:
        return "scope" in inspect.signature(attrgetter(operation.calls)(self.outlast)).parameters

    def session(self, task: str, opened: bool = False, **who: Any) -> TaskSession:
        """The caller's session at a task: over stdio the one it had before, with what it claimed."""
        who = {name: value for name, value in who.items() if value is not None}
        key = (str(who.get("scope") or ""), task)
        kept = self.sessions.get(key) if self.sessions is not None else None
        if kept is not None and not {"claim_id", "repo_root"} & set(who):
            return kept
        if kept is not None and kept.claim_id is not None:
            who.setdefault("claim_id", kept.claim_id)
        made = self.outlast.tasks.open(task, **who) if opened else self.outlast.tasks.session(task, **who)
        if self.sessions is not None:
            self.sessions[key] = made
        return made


class Tool(Struct, frozen=True):
    """One tool: the operation that it is, what a model is told of it, and how its answer is told."""

    name: str
    title: str
    description: str
    operation: Operation
    takes: type[Any]
    does: Callable[[McpClient, Tool, Any], ToolAnswer]
    of_door: tuple[str, ...] = ()  # arguments that the operation does not have
    repeats: bool = False  # the same call again changes nothing more
    runs: Literal["", "checks", "flows"] = ""  # commands of a handoff, where the files are; or code of a flow

    @property
    def gated(self) -> bool:
        """Whether only a person may do it, or who may decide in a person's place."""
        return self.operation.role == "approve"

    def runs_code(self, *, files: bool) -> bool:
        """Whether a call may change anything anywhere: it can run commands or flows. `files`: those are here."""
        return self.runs == "flows" or (self.runs == "checks" and files)


def made_from(
    operation: str,
    title: str,
    description: str,
    does: Callable[[McpClient, Tool, Any], ToolAnswer],
    *,
    name: str = "",
    more: type[Declared] | None = None,
    without: tuple[str, ...] = (),
    **how: Any,
) -> Tool:
    """The tool of an operation, by the same name unless it has another; `more` are arguments of its own."""
    found = OPERATIONS[operation]
    own = more.__struct_fields__ if more is not None else ()
    return Tool(name or operation, title, description, found, takes_of(found, more, without), does, own, **how)


def uri_of(got: Recovered) -> str:
    """Where all of what was recovered can be read."""
    if got.handoff.revision == 0 and got.run is not None:
        return run_uri(got.run.run_id)
    return handoff_uri(got.handoff.scope, got.handoff.anchor)


# -- what goes in and out of a tool ------------------------------------------------------------------

HANDOFF, ARTIFACT, RUN = "handoff://{scope}/{anchor}", "artifact://{ref}", "run://{run_id}"


def handoff_uri(scope: str, anchor: str) -> str:
    return f"handoff://{quote(scope, safe='')}/{quote(anchor, safe='')}"


def artifact_uri(ref: str) -> str:
    return f"artifact://{quote(ref, safe='')}"


def run_uri(run_id: str) -> str:
    return f"run://{quote(run_id, safe='')}"


def parsed(uri: str) -> tuple[str, tuple[str, ...]] | None:
    """The kind of a resource and its names; None when it is none of ours."""
    kind, _, rest = uri.partition("://")
    match kind.lower():
        case "handoff" if "/" in rest:
            scope, _, anchor = rest.partition("/")
            return ("handoff", (unquote(scope), unquote(anchor))) if scope and anchor else None
        case "artifact" if rest:
            return "artifact", (unquote(rest),)
        case "run" if rest:
            return "run", (unquote(rest),)
    return None


LARGEST = 60_000  # bytes of JSON in one result; clients cut or refuse what is much larger
_STEPS = ((8_000, 200), (2_000, 50), (500, 20), (100, 5), (20, 1))  # characters of a text, items of a list or object
_NAMED = 20  # what was left out is named so often, and counted after that


class Cut(Struct):
    """One pass over a value with the same limits everywhere."""

    characters: int
    items: int
    found: list[str] = msgspec.field(default_factory=list)

    def of(self, value: Any, path: str) -> Any:
        match value:
            case str():
                if (left := len(value) - self.characters) > 0:
                    self.found.append(f"{path}: {left:,} of {len(value):,} characters")
                return shorten(value, self.characters)
            case list():
                if (left := len(value) - self.items) > 0:
                    self.found.append(f"{path}: the last {left:,} of {len(value):,} items")
                return [self.of(each, f"{path}[{place}]") for place, each in enumerate(value[: self.items])]
            case dict():
                kept = value if path == "" else dict(list(value.items())[: self.items])
                if (left := len(value) - len(kept)) > 0:
                    self.found.append(f"{path}: the last {left:,} of {len(value):,} fields")
                return {name: self.of(each, f"{path}.{name}" if path else name) for name, each in kept.items()}
            case _:
                return value


def bounded(value: dict[str, Any], whole: str) -> dict[str, Any]:
    """The value if it is small enough; else cut, with `cut`: what is left out, and where all of it is."""
    if _size(value) <= LARGEST:
        return value
    for characters, items in _STEPS:
        cut = Cut(characters, max(items, 1))
        kept = cut.of(value, "")
        if _size(kept) <= LARGEST:
            return _told(kept, cut.found, whole)
    # nothing of a list or an object: its parts may go on for ever
    bare = {name: (type(each)() if isinstance(each, list | dict) else each) for name, each in kept.items()}
    gone = [f"{name}: all of it" for name, each in kept.items() if each != bare[name]]
    return _told(bare, gone, whole)


def _told(kept: dict[str, Any], found: list[str], whole: str) -> dict[str, Any]:
    more = [f"and {len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
    return kept | {"cut": {"left_out": [*found[:_NAMED], *more], "whole": whole}}


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def told(value: Any) -> dict[str, Any]:
    """An answer as every door shows it: of one value, or of several by their names."""
    found = {name: shown(each) for name, each in value.items()} if type(value) is dict else shown(value)
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))  # what is kept as bytes is data, too
    return plain


def outcome_told(outcome: Outcome[Any], *, goes_on: bool = False) -> dict[str, Any]:
    """How a run stands, and whether it goes on meanwhile."""
    return told(outcome) | {"goes_on": goes_on}


# -- in: what each tool takes ------------------------------------------------------------------------

NULLABLE = ("answer", "result", "body", "content")  # null is a value there
NEVER = (*SEEN, "cursor", "listing", "wait", "yes", "fresh", "follow")  # of other doors, or a person's to say
OF_ALL = (*WHOSE, "operation_id")  # which the instructions tell of once
SAME = (("task_id", "task"), ("session_id", "session"))  # two words for one thing, where a tool has one of them
Packet = Annotated[Json, Meta(description="One JSON object for a machine; read last.")] | UnsetType


class ArgumentsInvalid(Invalid):
    """Raised when the arguments of a tool are not what it takes; nothing was done."""

    says = "{why}"
    advice = "{remedy}"

    def __init__(self, path: str, why: str, remedy: str) -> None:
        super().__init__(path=path, why=why, remedy=remedy)


def takes_of(operation: Operation, more: type[Declared] | None, without: tuple[str, ...]) -> type[Any]:
    """The arguments of a tool that is made from an operation: its fields, and more of the door's own."""
    names = [name for name in operation.request.__struct_fields__ if name not in (*NEVER, *without)]
    other = {name: (Packet, UNSET) for name in names if name.startswith("execution_")}
    return part_of(operation.request, f"{operation.request.__name__}Arguments", names, other, more)


def arguments_of(tool: str, kind: type[Any], raw: dict[str, Any]) -> Any:
    """The arguments, checked. Raises ArgumentsInvalid by the path of the first that is wrong."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    said = _in_its_words(raw, fields)
    unknown = [name for name in said if name not in fields]
    if unknown:
        near = closest(unknown[0], fields)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentsInvalid(
            unknown[0],
            f"{tool} takes no argument {', '.join(f'{name!r:.100}' for name in unknown[:5])}",
            f"{hint}it takes: {', '.join(fields)}",
        )
    said = {name: value for name, value in said.items() if value is not None or name in NULLABLE}
    missing = [name for name, field in fields.items() if field.required and name not in said]
    if missing:
        raise ArgumentsInvalid(missing[0], f"{tool} needs {' and '.join(missing)}", "call it again with these")
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$.")
        path = path.rstrip("`") or tool
        choices = choices_of(kind, path) if "enum" in why else ()
        remedy = f"use one of {', '.join(choices)}" if choices else f"see the input schema of {tool}"
        raise ArgumentsInvalid(path, f"{path}: {why}", remedy) from error


def _in_its_words(raw: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The same, with each thing by the word that the tool has for it."""
    said = dict(raw)
    for one, other in (*SAME, *((other, one) for one, other in SAME)):
        if one in fields and other in said and other not in fields and one not in said:
            said[one] = said.pop(other)
    return said


# -- the schema --------------------------------------------------------------------------------------


def schema_of(kind: type[Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON schema of what a tool takes, without the names that do not hold here: short, since models read it."""
    _, found = msgspec.json.schema_components([kind])
    schema = found[kind.__name__]
    names = [name for name in (*schema["required"], *schema["properties"]) if name not in without]
    shown = {name: _short(kind, name, schema["properties"][name]) for name in names}
    return {"type": "object", "properties": shown, "required": schema["required"], "additionalProperties": False}


def told_once(schemas: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same, each field described by the first tool that has it: a model reads all of them, and pays for each."""
    said: set[tuple[str, str]] = set()
    for schema in schemas.values():
        for name, field in schema["properties"].items():
            told = (name, field.get("description", ""))
            if told in said:
                del field["description"]
            elif told[1]:
                said.add(told)
    return schemas


def _short(kind: type[Any], name: str, field: dict[str, Any]) -> dict[str, Any]:
    """A field without what goes without saying: null, defaults that are nothing, and of four what all tools take."""
    either = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
    told = either[0] if len(either) == 1 else {key: value for key, value in field.items() if key != "anyOf"}
    told = told if len(either) < 2 else told | {"anyOf": either}
    kept = {key: value for key, value in told.items() if key not in ("description", "default")}
    if field.get("default") not in (None, "", [], (), {}, False):
        kept["default"] = field["default"]
    if "enum" in kept:
        kept = {"type": "string", **kept}  # some clients need the type beside the values to choose from
    return kept if name in OF_ALL else kept | {"description": sentence_of(kind, name)}
