"""What commands share of their words: arguments, options, what a shell offers for them, values as text, @FILE or -.

What is offered is read from the home of the command line under way. Trouble with it is no matter for someone who
presses a key: then nothing is offered, and nothing is printed. `outlast completion` says how to have it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from outlast import errors
from outlast.doors.cli import late
from outlast.doors.cli.group import cli
from outlast.doors.cli.invocation import Invocation, command, option_of
from outlast.doors.cli.render import RAW, content_in, fit
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from outlast import Artifact, Displaced, Outlast

F = TypeVar("F", bound=Callable[..., Any])
Offer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
OFFERED = 50
VARIABLE = "_OUTLAST_COMPLETE"
INSTALL = {
    "bash": "echo 'eval \"$(outlast completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(outlast completion zsh)\"' >> ~/.zshrc",
    "fish": "outlast completion fish > ~/.config/fish/completions/outlast.fish",
}


@command("completion")
@click.argument("shell", type=click.Choice([*INSTALL]))
def completion(call: Invocation, shell: str) -> int:
    """Print what makes a shell complete commands, options, run ids, steps and anchors.

    \b
      bash   eval "$(outlast completion bash)"        in ~/.bashrc
      zsh    eval "$(outlast completion zsh)"         in ~/.zshrc, after compinit
      fish   outlast completion fish > ~/.config/fish/completions/outlast.fish
    """
    made = late.shell_completion.get_completion_class(shell)
    assert made is not None
    # bash's own asks for its version, and prints
    script = late.shell_completion.ShellComplete.source(made(cli, {}, "outlast", VARIABLE))
    install = INSTALL[shell]
    told = {"shell": shell, "install": install, "script": script}
    return call.tell_or_say(told, lambda: click.echo(f"# To install it, once: {install}\n{script}"))


# -- what is offered -----------------------------------------------------------------------------------


def _quietly(offer: Callable[[Outlast, click.Context], Iterable[tuple[str, str]]]) -> Offer:
    """Make an offer of words and their help, read from a home. It cannot fail, and prints nothing."""

    def offered(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        try:
            with _silence():
                # never closed: that would write, and wait for whoever writes
                outlast = _invocation_of(context).open(adopt=False)
                found = [(word, text) for word, text in offer(outlast, context) if word.startswith(begun)]
        except Exception:
            return []
        item = late.shell_completion.CompletionItem
        return [item(word, help=text) for word, text in found if word.isprintable()]

    return offered


def _invocation_of(context: click.Context) -> Invocation:
    """The shared options, given before or after the command's name."""
    before = context.find_root().params
    home, tenant, scope = (context.params.get(name) or before.get(name) for name in ("home", "tenant", "scope"))
    return Invocation(home, tenant, scope, False)


@contextmanager
def _silence() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@_quietly
def offer_runs(outlast: Outlast, _: click.Context) -> Iterable[tuple[str, str]]:
    return [(run.id, f"{run.status}, {run.task}") for run in outlast.runs(limit=OFFERED)]


@_quietly
def offer_steps(outlast: Outlast, context: click.Context) -> Iterable[tuple[str, str]]:
    attempts = outlast._attempts(str(context.params.get("run_id") or ""))
    return {each.label: (each.label, each.status) for each in attempts.heard}.values()


@_quietly
def offer_anchors(outlast: Outlast, _: click.Context) -> Iterable[tuple[str, str]]:
    found = outlast.handoff.list(limit=OFFERED)
    return [(each.anchor, f"{each.standing}, {each.next_action or each.summary}") for each in found]


@_quietly
def offer_tasks(outlast: Outlast, _: click.Context) -> Iterable[tuple[str, str]]:
    return [(each.task, each.state) for each in outlast.tasks.list(limit=OFFERED)]


# -- arguments -----------------------------------------------------------------------------------------


# As every command takes them. RUN: an id, or the beginning of one; STEP: a label of the RUN before it; ANCHOR: the name
# that a handoff was stored under, whole.
run_argument = partial(click.argument, "run_id", metavar="RUN", shell_complete=offer_runs)
step_argument = partial(click.argument, "step", metavar="STEP", shell_complete=offer_steps)
anchor_argument = partial(click.argument, "anchor", metavar="ANCHOR", shell_complete=offer_anchors)
task_argument = click.argument("task_id", metavar="TASK", shell_complete=offer_tasks)  # its id, whole
session_argument = click.argument("session_id", metavar="SESSION")
wait_argument = click.argument("interrupt_id", metavar="ID")
file_argument = click.argument("file", metavar="[FILE]", default=".")


def refuse_if(is_wrong: object, why: str) -> None:
    """Raise UsageError where the words that were given do not go together."""
    if is_wrong:
        raise click.UsageError(why)


def revision_of(outlast: Outlast, word: str) -> tuple[str, int | None]:
    """The anchor and the revision that a word names. An anchor that is itself called so comes first."""
    named = re.fullmatch(r"(.+)@([0-9]{1,9})", word, re.DOTALL)
    if named is None:
        return word, None
    try:
        outlast.handoff._get(anchor=word)  # whether there is one: nobody has looked at it
    except errors.HandoffNotFound:
        return named[1], int(named[2])
    except OutlastError:  # it is there, and whoever asks for it is told what is wrong
        pass
    return word, None


# -- options -------------------------------------------------------------------------------------------


def limit_option(default: int = 50) -> Callable[[F], F]:
    """How many of a list."""
    return click.option(
        "--limit", default=default, show_default=True, type=click.IntRange(1, 10_000), help="How many at most."
    )


effects_option = click.option("--effects", default="", metavar="NAME,…", help="The effects that may happen again.")
resume_option = click.option("--resume", is_flag=True, help="Go on with the run at once.")
follow_option = click.option(
    "-f", "--follow", is_flag=True, help="Go on until the run ends or waits; with --json an object a line."
)
repo_option = option_of("handoff_recover", "repo_root")
agree_option = click.option(
    "--agree", metavar="DIGEST", help="Run commands that somebody else stored, if this is their digest."
)
output_option = click.option("-o", "--output", metavar="FILE", help="Write it there instead, whole or not at all.")
raw_option = click.option(
    "--raw",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, given: context.meta.update({RAW: given}),
    help="Show what commands print as it is: it may steer the terminal.",
)


def absolute(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """What was given, with files and folders named so that it does not matter from where."""
    for name in names or ("repo_root",):
        if given.get(name):
            given[name] = os.path.abspath(given[name])
    return given


def saved(found: Artifact | Displaced, output: str) -> Path:
    """Where the content was written, whole. Raises UsageError where it cannot be."""
    try:
        return found.save_to(output)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror or error}") from error


# -- values --------------------------------------------------------------------------------------------


def content(word: str, name: str, *, stdin: bool = False, files: bool = True, most: int = -1) -> bytes:
    """What a word says: itself, what is in @FILE, or if `stdin`, what `-` reads; of that no more than `most` bytes."""
    if stdin and word == "-":
        return content_in().read(most)
    if not files or not word.startswith("@"):
        return word.encode("utf-8", "surrogateescape")
    try:
        with open(word[1:], "rb") as file:
            return file.read(most)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{name}: cannot read {word[1:]!r}: {why}") from error


def text_of(word: str, name: str, *, files: bool = True, longest: int = -1, instead: str = "") -> str:
    """The same as text, also from standard input. One with more than `longest` bytes is refused, with what to do."""
    raw = content(word, name, stdin=True, files=files, most=longest + 1 if longest >= 0 else -1)
    refuse_if(len(raw) > longest >= 0, f"{name}: it has more than {longest:,} bytes; {instead}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: it is no UTF-8: {error.reason} at byte {error.start}") from error


def parsed(text: str | bytes, wrong: str) -> Any:
    """A JSON value. Raises UsageError for what is none, which begins with what is `wrong`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{wrong}: {error}") from error


def strictly(text: str | bytes) -> Any:
    """A JSON value. Raises ValueError for what is none, also where Python would be more lenient."""
    try:
        return late.codec.decode(text)
    except (late.msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error


def objects(words: tuple[str, ...], option: str) -> list[Any]:
    """JSON objects, one by one or in lists."""
    found: list[Any] = []
    for word in words:
        try:
            value = strictly(content(word, option))
        except ValueError as error:
            raise click.UsageError(f"{option}: it is no JSON: {error}") from error
        found += value if isinstance(value, list) else [value]
    return found


def document(what: str, word: str) -> Any:
    """JSON as it is given, from @FILE or from standard input (-). What reading would lose or change is refused."""
    try:
        raw = content_in().read() if word == "-" else Path(word[1:]).read_bytes() if word[:1] == "@" else word
        return json.loads(raw, object_pairs_hook=_once, parse_constant=_no_number)
    except OSError as error:
        raise click.UsageError(f"cannot read {word[1:]}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        is_text = word.isprintable() and '"' not in word and word[:1] not in "@-"
        hint = f"; for text write '\"{word}\"'" if is_text else ""
        raise click.UsageError(f"{what} {fit(repr(word), 80)} is not JSON ({error}){hint}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the field {late.codec.doubled(name for name, _ in pairs)!r} is given twice")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def names_in(words: str) -> tuple[str, ...]:
    """The names in `one,two`."""
    return tuple(name.strip() for name in words.split(",") if name.strip())


def pairs_of(what: str, words: Iterable[str]) -> dict[str, str]:
    """Words `name=value`."""
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        refuse_if(not sign or not name, f"{what}: {word!r} is not name=value")
        refuse_if(name in found, f"{what}: {name} is given twice")
        found[name] = value
    return found
