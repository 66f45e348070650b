"""`outlast logs`: what the commands of a run printed, as it was printed, also while they print.

`outlast events`: the journal of a run, a line for each event, also while it grows. `outlast watch`: those of all runs.
`outlast acts`: who did what, the newest first.

`outlast audit`: the six acceptance questions about a flow or a run, pass or fail, with the evidence.
`outlast replay`: a run's body on its receipts only, and what it does otherwise than it is recorded.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import REFUSED, SUCCEEDED, exit_code, told
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import follow_option, limit_option, offer_runs, raw_option, run_argument, step_argument
from outlast.doors.cli.render import COMPACT, as_json, at, brief, clean, counted, emit, fit, is_raw, note, say, table
from outlast.doors.cli.screen import HarmlessStream
from outlast.errors import FlowNotFound, IntegrityBroken, OutlastError, StepNotFound

if TYPE_CHECKING:
    from outlast import Act, Audit, CommandLog, Event, HomeEvent, Outlast


PAGE = 1000
LONGEST = 240  # of a line that goes into a pipe
INDENT = " " * 7  # of the lines after the first of an event


@command("events", of="run_events", without=("limit", "cursor"))
@run_argument()
@follow_option
def events(call: Invocation, run_id: str, follow: bool, after: int) -> int:
    """Everything that happened in a run, the oldest first; --json has it in full.

    A line is the event's number, its time (UTC), its name, its step and what it carries, shortened to fit.
    """
    with call.open() as outlast:
        run = outlast.get(run_id)
        if follow:
            _follow(call, outlast, run.id, after)
        elif call.json:
            return _emit_all(run.id, _read(outlast, run.id, after))
        elif not _say_all(_read(outlast, run.id, after)):
            say(f"no event of run {run.id} after {after}; its last is {run.head}")
    return 0


@command("watch", of="home_events", without=("limit",))
@click.option("--once", is_flag=True, help="End after what there is now.")
def watch(call: Invocation, once: bool, after: int | None, **wanted: Any) -> None:
    """What happens in all runs, as it comes, from now on or after a number; --json has a line for each event.

    A line is the number among all events, then the run and its event. Ctrl-C ends it.
    """
    asked = {name: value for name, value in wanted.items() if value is not None} | {"scope": call.scope}
    with call.open() as outlast, suppress(KeyboardInterrupt):
        for found in _now(outlast, after, asked) if once else outlast.follow_all_events(after=after, **asked):
            line = f"{found.number:>7}  {found.event.run_id}  {_line(found.event).lstrip()}"
            call.tell(found) if call.json else say(fit(line, LONGEST), then=INDENT)
            sys.stdout.flush()


def _now(outlast: Outlast, after: int | None, asked: dict[str, Any]) -> Iterator[HomeEvent]:
    """What there is now, page by page; without a number from the beginning."""
    more, after = True, after or 0
    while more:
        page = outlast.all_events(after=after, **asked)
        yield from page.items
        more, after = page.more, page.upto


def _read(outlast: Outlast, run_id: str, after: int) -> Iterator[Event]:
    """The events there are now, read page by page."""
    while page := outlast.events(run_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].seq


def _say_all(found: Iterator[Event]) -> int:
    count = 0
    for count, event in enumerate(found, 1):  # noqa: B007
        say(_line(event), then=INDENT)
    return count


def _emit_all(run_id: str, found: Iterator[Event]) -> int:
    """One object, written as it is read: a long run need not fit in memory. What ends it early is its `error`."""
    write, end, code = sys.stdout.write, "]}\n", SUCCEEDED
    write(f'{{"run_id":{json.dumps(run_id)},"events":[')
    try:
        for separator, event in zip(chain([""], repeat(",")), found, strict=False):
            write(separator + json.dumps(late.shown.shown(event), separators=COMPACT))
    except OutlastError as error:
        end, code = f'],"error":{json.dumps(error.to_dict(), separators=COMPACT)}}}\n', exit_code(error)
    write(end)
    return code


def _follow(call: Invocation, outlast: Outlast, run_id: str, after: int) -> None:
    """Print events as they come, until a run that nobody runs any more has no further ones."""
    for event in outlast.follow_events(run_id, after=after):
        call.tell(event) if call.json else say(_line(event), then=INDENT)
        sys.stdout.flush()
    if not call.json:
        note(f"run {run_id} is {outlast.get(run_id).status}; see `{call.command('show', run_id)}`")


def _line(event: Event) -> str:
    step = f"{event.step} (attempt {event.attempt})" if event.attempt > 1 else event.step
    masked = f"({event.masked} masked)" if event.masked else ""
    carries = "  ".join(part for part in (clean(step), masked, clean(_body(event.body))) if part)
    line = f"{event.seq:>5}  {event.at:%Y-%m-%d %H:%M:%S}  {clean(event.name):<16}  {carries}".rstrip()
    return fit(line, LONGEST)


def _body(body: Any) -> str:
    """An error in words, anything else as JSON."""
    if not body:
        return ""
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, dict) and "type" in error and "message" in error:
        return f"{str(error['type']).rpartition(':')[2]}: {error['message']}"
    return as_json(body)


STATUSES = {"crashed": "did not end"}


@command("logs", of="run_logs")
@run_argument()
@step_argument(metavar="[STEP]", required=False)
@follow_option
@raw_option
def logs(call: Invocation, run_id: str, step: str | None, follow: bool, attempt: int | None) -> int:
    """What the commands of a run printed, in order; with STEP, only that one.

    Secrets are masked. Of a command that runs, or did not end, it is what there is. Several transcripts have a
    line in front of each that says whose it is.
    """
    with call.open() as outlast:
        run = outlast.get(run_id)
        if not run.is_of_commands:
            return _none(call, run.id)
        if follow:
            return _follow_logs(call, outlast, run.id, step, attempt)
        found = _logs_of(outlast, run.id, step, attempt)
        return _emit(run.id, found) if call.json else _show(call, run.id, found)


def _logs_of(outlast: Outlast, run_id: str, step: str | None, attempt: int | None) -> list[CommandLog]:
    """The transcripts of a run's step; or of a run that it started, if that has it."""
    try:
        return outlast.logs(run_id, step, attempt=attempt)
    except StepNotFound:
        for child in [run for run in outlast.runs(limit=10_000) if run.parent == run_id]:  # the newest first
            with suppress(StepNotFound):
                return _logs_of(outlast, child.id, step, attempt)
        raise


def _none(call: Invocation, run_id: str) -> int:
    """Only commands have transcripts."""
    if call.json:
        call.tell([], run_id=run_id)
    else:
        say(f"run {run_id} is a run of Python code: its steps leave no transcripts")
        say(f"what they left: {call.command('receipts', run_id)}")
        say(f"what happened:  {call.command('events', run_id)}")
    return SUCCEEDED


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


# -- for people --------------------------------------------------------------------------------------


class _Paper:
    """Where transcripts go: as they are into a pipe or with --raw; on a terminal nothing in them can steer it."""

    def __init__(self, *, headed: bool) -> None:
        self._headed, self._plain = headed, is_raw() or not sys.stdout.isatty()
        self._whose = ""
        self._decode = _decoder()
        self._live = HarmlessStream()
        self._ended = True  # the last line has its end

    def write(self, log: CommandLog, data: bytes) -> None:
        whose = f"{log.step} (attempt {log.attempt}) {_standing(log)}"
        if self._headed and whose != self._whose:
            self.end()
            sys.stdout.write(f"==> {clean(whose)} <==\n")
        self._whose = whose
        if self._plain:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.write(self._live.feed(self._decode.decode(data)))
        if data:
            self._ended = data.endswith(b"\n")

    def end(self) -> None:
        """Whatever comes next begins on a line of its own, in no colour of theirs."""
        if not self._plain:
            sys.stdout.write(self._live.end())
        if not self._ended:
            sys.stdout.write("\n")
        self._ended = True
        sys.stdout.flush()


def _standing(log: CommandLog) -> str:
    if log.exit is None:
        return STATUSES.get(log.status, log.status)
    status = "does not hold" if log.status == "succeeded" and log.exit else log.status  # only a condition may say no
    return f"{status}, exit {log.exit}"


def _show(call: Invocation, run_id: str, found: list[CommandLog]) -> int:
    if not found:
        say(f"nothing has been printed yet; see `{call.command('show', run_id)}`")
    paper, code = _Paper(headed=len(found) > 1), SUCCEEDED
    for log in found:
        paper.write(log, b"")
        try:
            for piece in log.pieces():
                paper.write(log, piece)
        except IntegrityBroken as error:
            paper.end()
            note(f"error: the transcript of {log.step} (attempt {log.attempt}): {told(error)} [{error.code}]")
            code = exit_code(error)
        if log.masked:
            paper.end()
            note(f"{counted(log.masked, 'secret')} masked in the transcript of {log.step} (attempt {log.attempt})")
        if log.incomplete:
            paper.end()
            note(f"the transcript of {log.step} (attempt {log.attempt}) is incomplete: {log.incomplete}")
    if len(found) > 1 or sys.stdout.isatty():
        paper.end()
    return code


def _follow_logs(call: Invocation, outlast: Outlast, run_id: str, step: str | None, attempt: int | None) -> int:
    """Print what is there and what comes, until nobody runs the run any more."""
    paper = _Paper(headed=step is None)
    # transcripts come in turns, and a letter may be cut in two
    decoders: defaultdict[tuple[str, int], codecs.IncrementalDecoder] = defaultdict(_decoder)
    for log, piece in outlast.follow_logs(run_id, step, attempt=attempt):
        if call.json:
            call.tell(log, text=decoders[log.step, log.attempt].decode(piece, final=not piece))
        else:
            paper.write(log, piece)
        sys.stdout.flush()
    if not call.json:
        paper.end()
        note(f"run {run_id} is {outlast.get(run_id).status}; see `{call.command('show', run_id)}`")
    return SUCCEEDED


# -- for programs ------------------------------------------------------------------------------------


def _emit(run_id: str, found: Iterable[CommandLog]) -> int:
    """One object, written as it is read: it need not fit in memory. A transcript that is damaged has an `error`."""
    write, code = sys.stdout.write, SUCCEEDED
    write(f'{{"run_id":{json.dumps(run_id)},"logs":[')
    for number, log in enumerate(found):
        write(("," if number else "") + json.dumps(late.shown.shown(log), separators=COMPACT)[:-1] + ',"text":"')
        end = '"}'
        try:
            for text in _texts(log):
                write(json.dumps(text)[1:-1])
        except OutlastError as error:
            end, code = f'","error":{json.dumps(error.to_dict(), separators=COMPACT)}}}', exit_code(error)
        write(end)
    write("]}\n")
    return code


def _texts(log: CommandLog) -> Iterator[str]:
    decode = _decoder().decode
    for piece in log.pieces():
        yield decode(piece)
    yield decode(b"", True)


# -- who did what ------------------------------------------------------------------------------------

COLUMNS = ("WHEN", "WHO", "WHAT", "ON", "WHY")


@command("acts", of="home_acts")
@limit_option(50)
def acts(call: Invocation, **asked: Any) -> None:
    """Who did what, the newest first: to runs, handoffs, schedules, queues, limits, keys and notification targets."""
    with call.open() as outlast:
        found = outlast.acts(scope=call.scope, **asked)
        while not found.items and found.next and not call.json:  # nothing among so many entries: those before them
            found = outlast.acts(scope=call.scope, **asked | {"cursor": found.next})
    if call.json:
        call.tell(found)
    elif found.items:
        table(COLUMNS, [_act_row(each) for each in found.items])
        if found.next:
            say(f"those before: the same with --cursor {found.next}", "dim")
    else:
        say("nobody did anything" if not any(asked.get(name) for name in ("by", "kind", "since")) else "no such acts")


def _act_row(act: Act) -> tuple[str, ...]:
    name = f"{act.kind} {act.name}".strip()
    about = name if act.scope in ("", "default") else f"{name} in {act.scope}"
    return at(act.at), act.who or "-", act.what, about, act.said


# -- whether it was sound ----------------------------------------------------------------------------


@command("audit")
@click.argument("target", metavar="FLOW|RUN", shell_complete=offer_runs)
def audit(call: Invocation, target: str) -> int:
    """Answer the six acceptance questions; exit 4 when one of them fails.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`, looked at as it is written; RUN is an id, or the beginning of
    one, looked at in its records. Nothing of it is run.
    """
    found = _audit(call, target)
    return call.tell_or_say(found, lambda: _say_audit(found), code=SUCCEEDED if found.passed else REFUSED)


def _audit(call: Invocation, target: str) -> Audit:
    if late.named_flows.names_a_flow(target):  # a flow is audited where there is no home yet, too
        return late.named_flows.find_flow(target, call.home, note).audit()
    if target.endswith(".py") or "/" in target:  # no run is called so
        raise FlowNotFound(target, "it has no name after a colon")
    sys.path.insert(0, os.getcwd())  # where `run` found a module, this finds it too
    with call.open() as outlast:
        return outlast.audit(target)


def _say_audit(found: Audit) -> None:
    for question in found.questions:
        word, style = ("pass", "green") if question.passed else ("fail", "red")
        say(f"{question.number}. {question.question} {word}", style)
        for line in question.evidence:
            say(f"   {line}")
        for finding in question.findings:
            mark = "!" if finding.fails else "note:"
            say(f"   {mark} {finding.subject}: {finding.found}", "red" if finding.fails else "yellow")
            say(f"     {finding.advice} [{finding.code}]")
    failed = ", ".join(map(str, found.failed))
    came, style = ("all six pass", "green") if found.passed else (f"fails {failed}", "red")
    say()
    say(f"{found.kind} {found.subject}: {came}", style)


@command("replay")
@run_argument()
def replay(call: Invocation, run_id: str) -> int:
    """Run a run's body on its receipts only; exit 4 when it does something else than is recorded.

    No step, effect, probe, sleep, child or command is executed and nothing is written. What the body does by itself,
    outside of its calls, it does again.
    """
    sys.path.insert(0, os.getcwd())  # where `run` found a module, `replay` from the same folder does too
    with call.open() as outlast:
        found = outlast.replay(run_id)
    if call.json:
        emit(found, ok=found.ok)
        return SUCCEEDED if found.ok else REFUSED
    given = f"{counted(found.replayed, 'outcome')} given again"
    say(f"run {found.run_id} ({found.status}): {given}; the body {_end(found.ended)}")
    for label in found.next:
        say(f"goes on with: {label}")
    if found.divergences:
        rows = [(one.code, one.subject, brief(one.expected), brief(one.found)) for one in found.divergences]
        table(("DIVERGES", "SUBJECT", "RECORDED", "NOW"), rows)
    if found.not_reached:
        say(f"{counted(found.not_reached, 'record')} after that place not reached")
    if found.ok:
        say("ok: nothing diverged", "green")
        return SUCCEEDED
    whole = call.command("replay", run_id, "--json")
    say(f"{counted(len(found.divergences), 'divergence')}; in full: {whole}", "red")
    return REFUSED


def _end(word: str) -> str:
    return {"waits": "waits for what is not recorded", "stuck": "did not end"}.get(word, word)
