"""One home, asked the same by five doors: Python, the client, HTTP, MCP and the command line.

Each door has a scope of its own, in which the same happened before: what one asks is asked of all, and what they answer
is the same but for ids, times and whose it is. A request is the fields of an operation, by name. A value `$name` stands
for what is called so in the scope of the door: `$run` is another run for each.
"""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click
import msgspec

from outlast import Outlast
from outlast.doors.cli import main
from outlast.doors.cli.group import cli
from outlast.doors.mcp.client import McpClient
from outlast.doors.mcp.server import make_server
from outlast.errors import Invalid, OutlastError
from outlast.operations.fields import Json
from outlast.operations.operation import PARAMETER, Operation
from outlast.operations.options import options_of
from outlast.operations.shown import shown
from outlast.operations.table import OPERATIONS
from outlast.values.codec import encode

from .http_world import FLOWS
from .mcp_place import Caller, connected
from .server import Served, served

INVALID = "invalid"  # what every door says of a request that is no request; how, is a matter of its language
REFUSED_BY_READING = {"request_invalid", "request_malformed", "invalid", "usage", "not_found"}
# Of what is answered: ids, times, whose it is, and what to do next in the words of the door.
OWN = {
    "id", "ref", "scope", "actor", "door", "worker", "host", "key_id", "handoff_id", "run_id", "interrupt_id",
    "seq", "opened_at", "started_at", "ended_at", "at", "stored_at", "expires_at", "updated_at", "settled_at",
    "claimed_at", "created_at", "claim_id", "claimed_by", "by", "digest", "operation_id", "holder", "answered_by",
    "answered_at", "sent_at", "last_at", "uri", "next", "cursor", "command", "root", "repo_root", "project",
    "notes", "advice", "prompt",
}  # fmt: skip
_IDS = re.compile(r"(?<![a-z0-9])(?:[a-z0-9]{12}|[0-9a-f]{16})(?![a-z0-9])")


@dataclass(frozen=True)
class Asked:
    """An operation as it is asked by the doors that are not made from it alone."""

    words: tuple[str, ...] = ()  # of its command
    arguments: tuple[str, ...] = ()  # fields that are arguments there, in their order
    tool: str = ""
    items: str = ""  # what a list is called by command and tool
    calls: Callable[[Outlast, Json], Any] | None = None  # what Python says, where that is not one method
    texts: tuple[str, ...] = ()  # of its arguments what is text as it is typed, though any JSON can be sent
    flags: tuple[str, ...] = ()  # fields whose value is a flag of its own: `--open`
    spelt: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)  # how an argument is typed
    by_tool: Callable[[Json], bool] = lambda said: True  # whether the tool means the same by it
    by_command: Callable[[Json], bool] = lambda said: True
    in_query: Mapping[str, Any] = field(default_factory=dict)  # what HTTP says besides
    beside: Mapping[str, Any] = field(default_factory=dict)  # what is said besides, where its default is another


@dataclass
class Door:
    """One way to ask, in its scope; what is called how there."""

    name: str
    ask: Callable[[str, Json], Any]
    own: Outlast  # its scope, embedded
    known: dict[str, str] = field(default_factory=dict)


def asked_of(asked: Asked, outlast: Outlast, name: str, said: Json) -> Any:
    """What Python answers, as JSON; of an error its code."""
    operation = OPERATIONS[name]
    if asked.calls and not is_call(operation, said):
        return INVALID
    try:
        found = asked.calls(outlast, said) if asked.calls else operation.perform(outlast, said)
    except OutlastError as error:
        return error.code
    except TypeError:  # what Python itself says of a call
        return INVALID
    return json.loads(encode(shown(found)))


def is_call(operation: Operation, said: Json) -> bool:
    """Whether it has the fields that are needed, and no other: what Python checks before it calls."""
    fields = {each.name: each for each in msgspec.structs.fields(operation.request)}
    return said.keys() <= fields.keys() and all(each in said or not fields[each].required for each in fields)


def is_well_formed(operation: Operation, said: Json) -> bool:
    """Whether every field is one of the operation's, and of its type."""
    kinds = _kinds(operation)
    return is_call(operation, said) and all(fits(kinds[name], value) for name, value in said.items())


def is_list(operation: Operation) -> bool:
    return operation.listed or operation.pages is not None


def agreed(told: Mapping[str, Any], *, well_formed: bool) -> bool:
    """Whether all doors say the same: one code, or what Python answers, to which a door may add.

    What is not well formed all of them refuse, by whichever code.
    """
    if not well_formed:
        return all(isinstance(each, str) for each in told.values())
    first = told["python"]
    if any(isinstance(each, str) for each in told.values()):
        return all(isinstance(each, str) for each in told.values()) and _one_code(set(told.values()))
    return all(_has(each, first) for each in told.values())


def _one_code(codes: set[str]) -> bool:
    """Whether it is one code; who reads words or JSON says of a wrong type what the library says of a wrong value."""
    return len(codes) == 1 or all(each in REFUSED_BY_READING or _is_invalid(each) for each in codes)


def _is_invalid(code: str) -> bool:
    return any(issubclass(kind, Invalid) for kind in every_error() if kind.code == code)


def every_error(kind: type[OutlastError] = OutlastError) -> Iterator[type[OutlastError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from every_error(each)


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(name in found and _has(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_has, found, wanted))
    return bool(found == wanted)


def plain(value: Any, known: Mapping[str, str]) -> Any:
    """An answer without what is a door's own; what is known by a name, by that name."""
    if isinstance(value, dict):
        return {name: plain(each, known) for name, each in value.items() if name not in OWN}
    if isinstance(value, list):
        return [plain(each, known) for each in value if not _is_unobserved(each)]
    return _IDS.sub("…", value.replace(f":{known['scope']}/", ":…/")) if isinstance(value, str) else value


def _is_unobserved(reason: Any) -> bool:
    """Whether it is what only a bare request is told, which says nothing of files."""
    return reason == "unobserved" or (isinstance(reason, dict) and reason.get("code") == "unobserved")


class Doors:
    """All of them, on one home."""

    def __init__(self, server: Served, call: Caller, table: Mapping[str, Asked]) -> None:
        self.server, self.call, self.table = server, call, table
        self.client = Outlast(f"http://127.0.0.1:{server.port}", scope="client")
        asks: dict[str, Callable[[str, Json], Any]] = {
            "python": lambda name, said: asked_of(table[name], self.all[0].own, name, said),
            "client": lambda name, said: asked_of(table[name], self.client, name, said),
            "http": self._http,
            "mcp": self._mcp,
            "cli": self._command,
        }
        self.all = [Door(name, ask, server.opened(scope=name), {"scope": name}) for name, ask in asks.items()]

    def told(self, name: str, said: Json) -> dict[str, Any]:
        """What each door that can be asked so answers. Where one cannot, the same happens in its scope all the same."""
        found = {}
        for door in self.all:
            meant = {field: _meant(value, door.known) for field, value in said.items()}
            if self._can(door.name, name, said):
                got = door.ask(name, meant)
                found[door.name] = got if isinstance(got, str) else plain(got, door.known)
            elif OPERATIONS[name].writes and is_well_formed(OPERATIONS[name], said):
                asked_of(self.table[name], door.own, name, meant)
        return found

    def _can(self, door: str, name: str, said: Json) -> bool:
        operation, asked = OPERATIONS[name], self.table[name]
        if door == "client" and has_no_path(operation, said):
            return False
        if door in ("python", "client"):  # a wrong type is for a type checker there
            return not is_call(operation, said) or is_well_formed(operation, said)
        if door == "mcp":
            return bool(asked.tool) and asked.by_tool(said) and said.get("limit") in (None, *range(201))
        if door == "cli":
            return bool(asked.words) and asked.by_command(said) and can_be_typed(operation, asked, said)
        return can_be_sent(operation, said)

    def _http(self, name: str, said: Json) -> Any:
        operation, asked = OPERATIONS[name], self.table[name]
        in_path = PARAMETER.findall(operation.path)
        in_query = [each for each in said if operation.body is None or each in operation.query.__struct_fields__]
        path = PARAMETER.sub(lambda found: quote(str(said.get(found[1], "")), safe=""), operation.path)
        given = {each: _in_query(said[each]) for each in in_query if each not in in_path}
        query = urlencode(given | asked.in_query, doseq=True)
        body = {each: said[each] for each in said if each not in (*in_query, *in_path)} | asked.beside
        reply = self.server.ask(
            operation.method,
            f"{path}?{query}" if query else path,
            body if operation.body else None,
            headers={"outlast-scope": "http"},
        )
        if reply.status not in (200, 202):
            return reply.code
        return reply.json["items"] if is_list(operation) else reply.json

    def _mcp(self, name: str, said: Json) -> Any:
        asked = self.table[name]
        result = self.call(asked.tool, **said, **asked.beside)
        found: Any = result.structured_content
        if result.is_error:
            return found["code"]
        return found[asked.items] if asked.items else found

    def _command(self, name: str, said: Json) -> Any:
        asked = self.table[name]
        options = {each["name"]: each for each in options_of(OPERATIONS[name])}
        for each in asked.texts:
            options[each] = options[each] | {"kind": "text"}
        flags = [f"--{said[each]}" for each in asked.flags if each in said]
        rest = [each for each in said if each not in (*asked.arguments, *asked.flags, "scope")]
        typed = [*flags, *(word for each in rest for word in _typed(options, each, said[each]))]
        last = [
            asked.spelt[each](said[each]) if each in asked.spelt else _argument(options, each, said[each])
            for each in asked.arguments
            if each in said
        ]
        where = ["--json", "--home", str(self.server.home), "--scope", "cli"]
        found = self.run([*asked.words, *where, *typed, "--", *last])
        if "error" in found and isinstance(found["error"], dict) and "advice" in found["error"]:
            return found["error"]["code"]
        return found[asked.items] if asked.items else found

    @staticmethod
    def run(words: list[str]) -> Any:
        """A command in this process; the one object that it prints."""
        out, ends = io.TextIOWrapper(io.BytesIO(), "utf-8"), contextlib.suppress(SystemExit)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), ends:
            main(words)
        out.seek(0)
        return json.loads(out.read())

    def close(self) -> None:
        self.client.close()
        for door in self.all:
            door.own.close()


def _meant(value: Any, known: Mapping[str, str]) -> Any:
    """The value, names of what is known by what they stand for in a scope."""
    if isinstance(value, list):
        return [_meant(each, known) for each in value]
    return known.get(value[1:], value) if isinstance(value, str) and value[:1] == "$" else value


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _argument(options: Mapping[str, Json], name: str, value: Any) -> str:
    return json.dumps(value) if options.get(name, {}).get("kind") == "json" else _word(value)


def _typed(options: Mapping[str, Json], name: str, value: Any) -> Iterator[str]:
    """A field as it is typed; one that the command does not know, all the same."""
    option = options.get(name, {"flags": [f"--{name}"], "kind": "text"})
    flag = option["flags"][-1]
    if option["kind"] == "flag":
        if value != option.get("default"):
            yield flag
        return
    for each in value if isinstance(value, list) else [] if value is None else [value]:
        yield f"{flag}={_argument(options, name, each)}"


def _kinds(operation: Operation) -> dict[str, Any]:
    return {each.name: each.type for each in msgspec.structs.fields(operation.request)}


def fits(kind: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def has_no_path(operation: Operation, said: Json) -> bool:
    """Whether a part of its path is empty: that is another path."""
    return any(said.get(each, "") == "" for each in PARAMETER.findall(operation.path))


def can_be_sent(operation: Operation, said: Json) -> bool:
    """Whether a request can be said over HTTP: in a path and a query all is text, and a path has all of its parts."""
    in_text = [*PARAMETER.findall(operation.path)]
    in_text += [each for each in said if operation.body is None or each in operation.query.__struct_fields__]
    kinds = _kinds(operation)
    if has_no_path(operation, said):
        return False
    return all(isinstance(said[each], str) or (each in kinds and fits(kinds[each], said[each])) for each in in_text)


def can_be_typed(operation: Operation, asked: Asked, said: Json) -> bool:
    """Whether the command has words for it: an option for each field, and no value that is another thing when typed."""
    given = [each in said for each in asked.arguments]
    if given != sorted(given, reverse=True):
        return False
    kinds, options = _kinds(operation), {each["name"]: each for each in options_of(operation)}
    taken = {each.name for each in command_of(asked.words).params}
    return all(_has_words(kinds, options, asked, taken, name, value) for name, value in said.items())


def _has_words(
    kinds: Json, options: Mapping[str, Json], asked: Asked, taken: set[str | None], name: str, value: Any
) -> bool:
    texts = value if isinstance(value, list) else [value]
    if any("\0" in each or each[:1] in ("@", "-", "{") for each in texts if isinstance(each, str)):
        return False  # a file, standard input, or JSON for who types it
    if name not in kinds or name == "scope":
        return True
    if name not in taken and name not in asked.arguments:
        return False
    if value == [] and "default" not in options.get(name, {}):
        return False  # nothing is typed, and that is all of them
    if options.get(name, {}).get("kind") == "flag":
        return value is True or (value is False and options[name].get("default") is not None)
    return isinstance(value, str) or (name not in asked.texts and fits(kinds[name], value))


def command_of(words: tuple[str, ...]) -> click.Command:
    """The command with these words."""
    found: click.Command = cli
    for word in words:
        assert isinstance(found, click.Group)
        inside = found.get_command(click.Context(found), word)
        assert inside is not None, words
        found = inside
    return found


@contextmanager
def every_door(home: Path, table: Mapping[str, Asked]) -> Iterator[Doors]:
    with served(home, flows=FLOWS) as server, server.opened(scope="mcp") as model:
        model._flows = server.server.state.flows
        in_memory = make_server(lambda *_: McpClient(model), lambda _: "open", files=False)
        with connected(in_memory) as call:
            found = Doors(server, call, table)
            try:
                yield found
            finally:
                found.close()
