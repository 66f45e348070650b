"""What every command is given: where to look, how to answer, and the commands to name in its advice.

Most of its options are made from operations: `options.json` says what each field of a request is on the command line.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import ASKED, MAKE_A_HOME
from outlast.doors.cli.group import Context
from outlast.doors.cli.render import emit, emit_exactly, note, say, table
from outlast.errors import HomeNotFound, OutlastError
from outlast.values.late import shlex
from outlast.values.text import carry, looks_at_files, named

if TYPE_CHECKING:
    from outlast import Listed, Outlast, RunRecord
    from outlast.python.door import FoundHome


F = TypeVar("F", bound=Callable[..., Any])
OFFERS = {"run_id": "runs", "run": "runs", "step": "steps", "from_step": "steps", "task": "tasks"}


@cache
def _table() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("options.json").read_bytes())
    return found


def options_of(operation: str, without: Collection[str] = (), *, as_given: bool = False) -> list[click.Option]:
    """The options of an operation, but for those of its fields that a command takes in another way, or not at all.

    `as_given`: none of them is needed, and what is not given is None.
    """
    found = [each for each in _table()[operation]["options"] if each["name"] not in without]
    return [option_made(_bare(each) if as_given else each) for each in found]


def _bare(said: dict[str, Any]) -> dict[str, Any]:
    """The same, which need not be given and has no default; a flag is one that is there or not."""
    ends = ("required", *(("default",) if said["kind"] != "flag" else ()))
    return {name: value for name, value in said.items() if name not in ends}


def option_of(operation: str, field: str) -> Callable[[F], F]:
    """One option of an operation, for a command that takes some."""
    (made,) = (each for each in options_of(operation) if each.name == field)

    def decorated(function: F) -> F:
        function.__dict__.setdefault("__click_params__", []).append(made)
        return function

    return decorated


def option_made(said: dict[str, Any]) -> click.Option:
    """An option as its field declares it."""
    repeat = " Repeatable." if said["kind"] == "many" else ""
    settings: dict[str, Any] = {"help": f"{said['help']}{repeat}", "required": said.get("required", False)}
    if "default" in said:
        settings["default"] = said["default"]
    return click.Option([*said["flags"], said["name"]], **settings | dict(_settings(said)))


def _settings(said: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    kind, default = said["kind"], said.get("default")
    if kind == "flag":
        yield from (("flag_value", False), ("type", bool)) if default is True else (("is_flag", True),)
        yield "default", default
        return
    yield "metavar", said.get("metavar")
    yield "multiple", kind == "many"
    if said["name"] in OFFERS:
        yield "shell_complete", _offer(OFFERS[said["name"]])
    if "choices" in said:
        yield "type", click.Choice(said["choices"])
    elif kind in ("number", "seconds"):
        yield "show_default", default is not None
        yield "type", click.FloatRange(0) if kind == "seconds" else click.IntRange(0)
    elif kind == "time":
        yield "type", Time()


def _offer(what: str) -> Any:
    """What a shell offers for it: found out when it is asked for."""

    def offered(context: click.Context, parameter: click.Parameter, begun: str) -> Any:
        from outlast.doors.cli import options

        return getattr(options, f"offer_{what}")(context, parameter, begun)

    return offered


class Time(click.ParamType[datetime]):
    """A time with its offset, such as 2026-11-17T09:00+01:00."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time; one without an offset is refused: nobody knows whose it is."""
        try:
            found = datetime.fromisoformat(value)
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)
        if found.tzinfo is None:
            self.fail(f"{value!r} has no offset; write {value}Z or {value}+01:00", param, ctx)
        return found


T = TypeVar("T")
CLAIM = "OUTLAST_CLAIM"  # the id of a claim that is shown by all commands
EXACT = ("handoff", "session", "task", "workspace")  # nouns whose JSON is part of what others gave, byte for byte
SHARED = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option("--home", metavar="DIR|URL", help="Where the records are kept [the .outlast/ of the repository]."),
    click.option("--blobs", metavar="URL", help="Where a new home keeps its content: s3://… [beside the records]."),
    click.option("--tenant", metavar="NAME", help="An isolated customer [default]."),
    click.option("--scope", metavar="NAME", help="A namespace inside the tenant [default]."),
    click.option("--actor", "acting", metavar="NAME", help="Who does this [OUTLAST_ACTOR, else your login name]."),
)


class NoHomeThere(HomeNotFound):
    """Raised when there is nothing to read where a command looks; says what is there instead."""

    says = "{why}"
    advice = "{next}"

    def __init__(self, path: Path, why: str, next: str = MAKE_A_HOME) -> None:
        OutlastError.__init__(self, path=str(path), why=why, next=next)


@dataclass(frozen=True)
class Invocation:
    """The options that all commands share."""

    home: str | None
    tenant: str | None
    scope: str | None
    json: bool
    repo: str = ""  # where the files are, if --repo said so
    actor: str | None = None
    of: str = ""  # the operation that the command is
    blobs: str | None = None  # the bucket for the content of a new home
    # the home, wherever a flow goes then
    _opened: list[FoundHome] = field(default_factory=list, compare=False, repr=False)

    def open(self, *, make: bool = False, adopt: bool = True, tenant: str | None = None) -> Outlast:
        """The home, opened for the tenant that the command names, else for this one.

        Raises HomeNotFound rather than making one, unless told to; NameInvalid, HomeNotOurs.
        """
        home = self._opened[0] if self._opened else self.home
        who = {"tenant": tenant if self.tenant is None else self.tenant, "scope": self.scope, "actor": self.actor}
        try:
            outlast = late.door.open_for("cli", home, **who, make=make, tell=note, adopt=adopt, blobs=self.blobs)
        except HomeNotFound as error:
            raise self._missing(Path(str(error.path)), self.tenant or "default") from error
        if found := late.door.found_home(outlast):
            self._opened.append(found)
            outlast.listen(None, note)
        outlast.act_for_terminal(*filter(None, [os.environ.get(CLAIM)]))
        return outlast

    def _missing(self, home: Path, tenant: str) -> HomeNotFound:
        """What there is where a home with this tenant was looked for."""
        if not home.is_dir():
            named = self.home or os.environ.get("OUTLAST_HOME")
            gone = f"{home} is no folder" if home.exists() else f"the folder {home} does not exist"
            return NoHomeThere(home, gone if named else f"no .outlast folder here or above ({home})")
        others = sorted(file.parent.name for file in home.glob("*/outlast.db"))
        if not others:
            return NoHomeThere(home, f"{home} is no home: nothing was recorded in it")
        return NoHomeThere(
            home, f"the home {home} has no tenant {tenant!r}; it has {', '.join(others)}", "name one: --tenant NAME"
        )

    def reach(self, *, whole: bool = False) -> tuple[str, ...]:
        """The options by which a command finds the same home elsewhere. `whole`: also one that is found from here."""
        found = self._opened[0].name if whole and self._opened else None
        home = self.home or os.environ.get("OUTLAST_HOME") or found
        home = home if home is None or "://" in home else os.path.abspath(home)
        home = late.door.without_password(home) if home and "@" in home and "://" in home else home
        given = [("--home", home), ("--tenant", self.tenant), ("--scope", self.scope)]
        return tuple(word for name, value in given if value is not None for word in (name, value))

    def pasted(self, text: str, claim: str = "") -> str:
        """A text, every command in it ready to be copied."""
        return carry(text, self.reach(), claim, self.repo)

    def tell(self, answer: Any, **beside: Any) -> None:
        """The answer to the command's operation as JSON, as every door shows it, and what is told beside it.

        A list is called as the operation says. What may be beside it: `BESIDE` in operations/options.py.
        """
        told = {_table()[self.of]["items"]: answer} if isinstance(answer, list | tuple | Iterator) else answer
        (emit_exactly if self.of.partition("_")[0] in EXACT else emit)(told, **beside)

    def tell_list(
        self, found: Sequence[T], columns: Sequence[str], row: Callable[[T], tuple[object, ...]], instead: str
    ) -> int:
        """A list, as JSON or as a table; `instead` is said of an empty one. Gives the exit code."""
        if self.json:
            self.tell(found)
        elif found:
            table(columns, [row(each) for each in found])
        else:
            say(instead)
        return 0

    def tell_line(self, answer: Any, line: str, style: str = "") -> int:
        """The answer, as JSON or in this line. Gives the exit code."""
        return self.tell_or_say(answer, lambda: say(line, style))

    def tell_or_say(self, answer: Any, say_it: Callable[[], object], *, code: int = 0, **beside: Any) -> int:
        """The answer as JSON, with what is told beside it, or said to people. Gives the exit code."""
        if self.json:
            self.tell(answer, **beside)
        else:
            say_it()
        return code

    def ready(self, found: Any) -> Any:
        """What was recovered, or of a task: every command in it ready to be copied, also by who is elsewhere."""
        is_task = type(found).__name__ != "Recovered"
        return (late.reading.ready_task if is_task else late.reading.ready)(found, self.reach(whole=True))

    def advised(self, one: Listed) -> Listed:
        """A line of the list of handoffs, the same done to what its verdict advises."""
        if one.verdict is None:
            return one
        reach, repo, replace = self.reach(whole=True), self.repo or os.getcwd(), late.structs.replace
        reasons = [replace(each, advice=carry(each.advice, reach, repo=repo)) for each in one.verdict.reasons]
        return replace(one, verdict=replace(one.verdict, reasons=tuple(reasons)))

    def command(self, *words: str) -> str:
        """A command to show: ready to be copied, on the same home, tenant and files."""
        repo = ("--repo", self.repo) if self.repo and looks_at_files(words) else ()
        options = (*repo, *self.reach())
        end = words.index("--") if "--" in words else len(words)  # what follows it is no option
        return shlex.join(["outlast", *words[:end], *options, *words[end:]])

    def worker_for(self, run: RunRecord) -> str:
        """The command that starts a worker for a run."""
        engine = ("--engine", run.engine) if run.engine else ()
        return self.command("work", run.source or run.flow, *engine)

    def within(self, scope: str) -> Invocation:
        """The same in the scope that something was found in, for commands to show."""
        return self if scope == "default" else replace(self, scope=scope)

    def about(self, verb: Sequence[str], name: str, *words: str) -> str:
        """A command about what is called so, ready to be copied, also if that looks like an option."""
        return self.command(*named(verb, name, words))


class WrappedCommand(click.Command):
    """A command whose help is written as ours is."""

    context_class = Context
    of = ""  # the operation whose fields are its options


def command(
    name: str, *, of: str = "", without: Collection[str] = (), as_given: bool = False, **settings: Any
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a function a command: it gets the call and its own parameters, and gives the exit code if that is not 0.

    `of`: an operation, whose fields are its options, but for those that it takes as parameters of its own, and
    `without` some. `as_given`: none of them is needed, and what is not given is None.
    """

    def made(function: Callable[..., int | None]) -> click.Command:
        @functools.wraps(function)
        def callback(**given: Any) -> int | None:
            return function(invocation_of(given), **given)

        own = callback.__dict__.pop("__click_params__", [])
        known = (*without, *(each.name for each in own))
        fields = options_of(of, known, as_given=as_given) if of else []
        own = [*own, *reversed(fields)]
        names_who = any("--actor" in each.opts for each in own)  # somebody else than who gives the command
        for option in reversed(SHARED[:-1] if names_who else SHARED):
            callback = option(callback)
        callback.__dict__["__click_params__"].extend(own)  # click shows the last ones first
        found: WrappedCommand = click.command(name, cls=WrappedCommand, **settings)(callback)
        found.of = of
        return found

    return made


def invocation_of(given: dict[str, Any]) -> Invocation:
    """The shared options, given before or after the command's name."""
    before = click.get_current_context().obj or {}
    after = {name: given.pop(name, None) for name in ("home", "tenant", "scope", "acting", "blobs")}
    home, tenant, scope, actor, blobs = (before.get(name) if value is None else value for name, value in after.items())
    if home == "":
        raise click.UsageError("--home is empty; name a folder")
    if home and not home.startswith(("http://", "https://")):
        # what the flow's own code and its processes find is the same home
        os.environ["OUTLAST_HOME"] = home if "://" in home else os.path.abspath(home)
    as_json = given.pop("as_json") or before.get("as_json", False)
    repo = given.get("repo_root")
    of = getattr(click.get_current_context().command, "of", "")
    ASKED[:] = [Invocation(home, tenant, scope, as_json, os.path.abspath(repo) if repo else "", actor, of, blobs)]
    return ASKED[0]
