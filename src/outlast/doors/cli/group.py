"""The list of commands. A command's module is imported when it is called, and not for the list.

The help of every command, as wide as the terminal is: nothing in it is broken inside a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.render import width, wrapped
from outlast.values.text import closest

WIDEST = 98
LEFT = 30  # columns of the names in a list; a longer one has its text below it
NARROW = 60  # columns of a terminal in which every name has its text below it


class Formatter(click.HelpFormatter):
    """Click's own, with our line breaks."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, min(late.shutil.get_terminal_size().columns, WIDEST + 2) - 2, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        lead = "Usage: " if prefix is None else prefix
        self._lines(f"{lead}{prog} {args}".rstrip(), then=" " * len(lead))

    def write_text(self, text: str) -> None:
        """Paragraphs; those that begin with a backspace keep their lines."""
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write("\n")
            kept = paragraph.lstrip("\n").startswith("\b")
            lines = paragraph.strip("\b\n").split("\n") if kept else [" ".join(paragraph.split())]
            for line in lines:
                self._lines(line.replace("\b", ""))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = LEFT, col_spacing: int = 2) -> None:
        """A list of names and what they mean."""
        rows = list(rows)
        if self.width < NARROW:
            for name, text in rows:
                self._lines(name.rstrip(), then=" " * (self.current_indent + 4))
                self._lines(f"    {text}")
            return
        left = min(max((width(name) for name, _ in rows), default=0), col_max) + col_spacing
        for name, text in rows:
            beside = width(name) <= left - col_spacing
            if not beside:
                self._lines(name)
            front = name.ljust(left) if beside else " " * left
            self._lines(f"{front}{text}" if text else name, then=" " * (self.current_indent + left))

    def _lines(self, text: str, then: str | None = None) -> None:
        front = " " * self.current_indent
        for line in wrapped(text, self.width, front, then):
            self.write(f"{line}\n")


class Context(click.Context):
    """A context whose help is written so."""

    formatter_class = Formatter


Sections = dict[str, dict[str, tuple[str, str]]]  # name: where it is, one line for the list

SECTIONS: Sections = {
    "Run": {
        "demo": ("demo:demo", "The whole story on a throw-away home, in seconds."),
        "run": ("run:run", "Run a flow; the same command continues it."),
        "resume": ("run:resume", "Continue a run that was stopped, crashed or waits."),
        "pause": ("answer:pause", "Ask a running run to stop at its next step."),
        "tick": ("tick:tick", "Continue every run that is crashed, answered or due (for cron)."),
    },
    "Decide": {
        "retry": ("answer:retry", "Let the next resume try a step again."),
        "skip": ("answer:skip", "Let the next resume take a result instead of running a step."),
        "rewind": ("answer:rewind", "Let the next resume do a step and all after it again."),
        "fork": ("answer:fork", "Make another run from a chosen step of one."),
        "answer": ("answer:answer", "Answer a wait by its id."),
        "approve": ("answer:approve", "Say yes to what waits for approval."),
        "decline": ("answer:decline", "Say no to it."),
        "signal": ("answer:signal", "Send a signal that a run waits for, or will."),
        "abort": ("answer:abort", "Give a run up."),
    },
    "Look": {
        "runs": ("runs:runs", "List the newest runs."),
        "show": ("show:show", "One run: how it stands, its steps, its waits."),
        "outputs": ("outputs:outputs", "The files of finished steps as they are now; put them back."),
        "displaced": ("outputs:displaced", "What gave way when files were put back."),
        "receipts": ("show:receipts", "What each attempt of each step left on record."),
        "steps": ("outcomes:steps", "The steps of a flow, before anything of it runs."),
        "inbox": ("answer:inbox", "Every open wait of every run, and how to answer it."),
        "logs": ("logs:logs", "What the commands of a run printed, also while they print."),
        "events": ("logs:events", "Everything that happened in a run, also while it goes on."),
        "watch": ("logs:watch", "What happens in all runs, as it comes."),
        "acts": ("logs:acts", "Who did what, in runs and to all that is set up here."),
        "session": ("session:session", "Conversations: messages, a window of them, a memo."),
        "workspace": ("workspace:workspace", "Artifacts by ref, and checkpoints of tasks."),
    },
    "Hand over": {
        "handoff": ("handoff:handoff", "Store work for whoever continues it, and recover it."),
        "task": ("task:task", "Open, pause, resume and complete a task."),
    },
    "Connect": {
        "queue": ("queues:queue", "Queues: what waits in them; pause one."),
        "limit": ("queues:limit", "Limits that steps share over all runs, such as an API."),
        "workers": ("queues:workers", "Who is at work: what each runs, of which flows."),
        "schedule": ("queues:schedule", "Flows that workers run at certain times."),
        "work": ("queues:work", "Go on with every run that can, until stopped."),
        "serve": ("serve:serve", "The same calls over HTTP, for other machines and languages."),
        "console": ("serve:console", "Look at this home, and answer what waits, in a browser."),
        "notify": ("notify:notify", "Who is told when something waits, fails or has ended."),
        "keys": ("serve:keys", "API keys: who may ask a server for what."),
        "hook": ("hook:hook", "Let coding agents leave handoffs, and start from them."),
        "mcp": ("serve:mcp", "Serve the tools to a model over stdio; connect a client."),
    },
    "Care": {
        "verify": ("care:verify", "Check every record of a run or of the whole home."),
        "audit": ("logs:audit", "The six acceptance questions about a flow or a run, from facts."),
        "replay": ("logs:replay", "Run a run's body on its receipts only; names what differs."),
        "export": ("outputs:export", "A run as one file: a copy, or the run itself on its way."),
        "import": ("outputs:import_", "Bring in an exported run, or a folder of receipts as testimony."),
        "backup": ("care:backup", "The whole home as one file, taken while it is at work."),
        "move": ("care:move", "This home taken to a database, and back, with proof."),
        "restore": ("care:restore", "A home made of a backup; of a mirror; or begun anew."),
        "gc": ("care:gc", "Remove finished runs, and what nobody needs; a dry run first."),
        "doctor": ("care:doctor", "Versions, home and disk, and whether they are sound."),
        "completion": ("options:completion", "Let your shell complete commands, runs and steps."),
    },
}
PLACES = {name: place for section in SECTIONS.values() for name, (place, _) in section.items()}


class CommandGroup(click.Group):
    """A group that knows its commands by name and imports the one that is called."""

    context_class = Context

    def __init__(self, *args: Any, sections: Sections, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.sections = sections
        self.lines = {name: each for section in sections.values() for name, each in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            return None
        module, _, name = self.lines[cmd_name][0].partition(":")
        found: Any = getattr(import_module(f"outlast.doors.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.lines and args[0][:1] != "-" and not ctx.resilient_parsing:
            hint = self._meant(ctx, args[0])
            ctx.fail(f"there is no command {args[0]!r}" + (f"; {hint}" if hint else ""))
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, word: str) -> str:
        """The command that somebody may have meant: one of these, or one of that name in a group of them."""
        groups = {name: found for name in self.lines if isinstance(found := self.get_command(ctx, name), CommandGroup)}
        inner = [f"{name} {word}" for name, group in groups.items() if word in group.lines]
        named = " or ".join(f"`{ctx.command_path} {each}`" for each in inner or closest(word, self.lines))
        return f"did you mean {named}?" if named else ""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[late.shell_completion.CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        lines = [(name, line) for name, (_, line) in self.lines.items() if name.startswith(incomplete)]
        return [late.shell_completion.CompletionItem(name, help=line) for name, line in lines]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.lines))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, (_, line) in section.items()])


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"outlast {late.metadata.version('outlast')}")
        ctx.exit()


_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group(cls=CommandGroup, sections=SECTIONS, context_settings=_SETTINGS)
@click.option("--home", metavar="DIR", help="Where the records are kept [the .outlast/ of the repository].")
@click.option("--blobs", metavar="URL", help="Where a new home keeps its content: s3://… [beside the records].")
@click.option("--tenant", metavar="NAME", help="An isolated customer [default].")
@click.option("--scope", metavar="NAME", help="A namespace inside the tenant [default].")
@click.option("--actor", "acting", metavar="NAME", help="Who does this [OUTLAST_ACTOR, else your login name].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.pass_context
def cli(ctx: click.Context, /, **given: str | bool | None) -> None:
    """Agent work that outlasts its process: kill it anywhere, run the same
    command again, and finished steps are not repeated.

    New here? `outlast demo` shows it in seconds. Every command takes --json.
    Ids may be shortened as long as they are unique.

    \b
    Exit codes: 0 succeeded, 1 failed, 2 usage or choose one, 3 waiting,
    4 refused (contested, in doubt, conflict, declined), 5 not found,
    6 aborted, 130, 143 or 129 interrupted.
    """
    ctx.obj = given
