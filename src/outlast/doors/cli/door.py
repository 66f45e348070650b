"""What every command is given: where to look, how to answer, and the commands to name in its advice.

As process 1 of a container: be its init, and let a child be the command.

The kernel keeps signals from process 1 that it does not handle, and leaves it every orphan to bury.
"""

from __future__ import annotations

import functools
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.exits import MAKE_A_HOME
from outlast.doors.cli.group import Context
from outlast.doors.cli.render import RAW, note
from outlast.errors import HomeNotFound, OutlastError
from outlast.values.frozen import dataclass
from outlast.values.text import carry, looks_at_files, named

if TYPE_CHECKING:
    from outlast import Outlast, Verdict
    from outlast.home.place import FoundHome


HEARD = {
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}


def stay_in_front() -> None:
    """Return in the process that is to be the command: this one, or if this is process 1, a child of it.

    Process 1 passes signals on, buries the dead, and exits with the child's code: then the kernel ends what is left.
    """
    if os.getpid() != 1:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return
    while (code := _bury(child)) is None:
        heard = signal.sigwaitinfo(HEARD)
        if heard.si_signo != signal.SIGCHLD and heard.si_code <= 0:  # else it is a terminal's, and the child has it too
            os.kill(child, heard.si_signo)
    os._exit(code)


def _bury(child: int) -> int | None:
    """Reap whoever is dead; the exit code of the child if that is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended


ASKED: list[Door] = []  # of the command under way: what went wrong is told with commands on the same home
CLAIM = "OUTLAST_CLAIM"  # the id of a claim that is shown by all commands


class NoHomeThere(HomeNotFound):
    """Raised when there is nothing to read where a command looks; says what is there instead."""

    says = "{why}"
    advice = "{next}"

    def __init__(self, path: Path, why: str, next: str = MAKE_A_HOME) -> None:
        OutlastError.__init__(self, path=str(path), why=why, next=next)


@dataclass(frozen=True)
class Door:
    """The options that all commands share."""

    home: str | None
    tenant: str | None
    scope: str | None
    json: bool
    repo: str = ""  # where the files are, if --repo said so
    # the home, wherever a flow goes then
    _opened: list[FoundHome] = field(default_factory=list, compare=False, repr=False)

    def open(self, *, make: bool = False, adopt: bool = True) -> Outlast:
        """The home, opened. Raises HomeNotFound rather than making one, unless told to; NameInvalid, HomeNotOurs."""
        from outlast import Outlast
        from outlast.home.place import check_tenant, look_up, refuse_lost
        from outlast.python.shared import url_of

        tenant = check_tenant("default" if self.tenant is None else self.tenant)
        scope = "default" if self.scope is None else self.scope
        if url := url_of(self.home):
            there = Outlast(url, tenant=tenant, scope=scope)
            there.act_for_terminal(*filter(None, [os.environ.get(CLAIM)]))
            return there
        home = self._opened[0] if self._opened else look_up(self.home, tell=note, adopt=adopt)
        if not make and not (home.path / tenant / "outlast.db").is_file():
            refuse_lost(home.path, tenant)
            raise self._missing(home.path, tenant)
        outlast = Outlast(home, tenant=tenant, scope=scope)
        self._opened.append(home)
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
        found = str(self._opened[0].path) if whole and self._opened else None
        home = self.home or os.environ.get("OUTLAST_HOME") or found
        home = home if home is None or "://" in home else os.path.abspath(home)
        given = [("--home", home), ("--tenant", self.tenant), ("--scope", self.scope)]
        return tuple(word for name, value in given if value is not None for word in (name, value))

    def pasted(self, text: str, claim: str = "") -> str:
        """A text, every command in it ready to be copied."""
        return carry(text, self.reach(), claim, self.repo)

    def advised(self, verdict: Verdict | None) -> dict[str, Any] | None:
        """A verdict as data, every command that it advises ready to be copied, also by who is elsewhere."""
        from outlast.python.shown import verdict_json

        if verdict is None:
            return None
        reach = self.reach(whole=True)
        repo = self.repo or os.getcwd()
        reasons = tuple(replace(each, advice=carry(each.advice, reach, repo=repo)) for each in verdict.reasons)
        return verdict_json(replace(verdict, reasons=reasons))

    def command(self, *words: str) -> str:
        """A command to show: ready to be copied, on the same home, tenant and files."""
        repo = ("--repo", self.repo) if self.repo and looks_at_files(words) else ()
        options = (*repo, *self.reach())
        end = words.index("--") if "--" in words else len(words)  # what follows it is no option
        return shlex.join(["outlast", *words[:end], *options, *words[end:]])

    def about(self, verb: Sequence[str], name: str, *words: str) -> str:
        """A command about what is called so, ready to be copied, also if that looks like an option."""
        return self.command(*named(verb, name, words))


class DoorCommand(click.Command):
    """A command whose help is written as ours is."""

    context_class = Context


def command(name: str, **settings: Any) -> Callable[[Callable[..., int]], click.Command]:
    """Make a function a command: it gets the door and its own parameters, and gives the exit code."""

    def made(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def callback(**given: Any) -> int:
            return function(_door(given), **given)

        own = callback.__dict__.pop("__click_params__", [])
        for option in reversed(SHARED):
            callback = option(callback)
        callback.__dict__["__click_params__"].extend(own)  # click shows the last ones first
        made_of: Callable[[Callable[..., int]], click.Command] = click.command(name, cls=DoorCommand, **settings)
        return made_of(callback)

    return made


raw_option = click.option(
    "--raw",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, given: context.meta.update({RAW: given}),
    help="Show what commands print as it is: it may steer the terminal.",
)

SHARED = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option("--home", metavar="DIR", help="Where the records are kept [the .outlast/ of the repository]."),
    click.option("--tenant", metavar="NAME", help="An isolated customer [default]."),
    click.option("--scope", metavar="NAME", help="A namespace inside the tenant [default]."),
)


def _door(given: dict[str, Any]) -> Door:
    """The shared options, given before or after the command's name."""
    before = click.get_current_context().obj or {}
    after = {name: given.pop(name) for name in ("home", "tenant", "scope")}
    home, tenant, scope = (before.get(name) if value is None else value for name, value in after.items())
    if home == "":
        raise click.UsageError("--home is empty; name a folder")
    if home and "://" not in home:
        # what the flow's own code and its processes find is the same home
        os.environ["OUTLAST_HOME"] = os.path.abspath(home)
    as_json = given.pop("as_json") or before.get("as_json", False)
    repo = given.get("repo_root")
    ASKED[:] = [Door(home, tenant, scope, as_json, os.path.abspath(repo) if repo else "")]
    return ASKED[0]
