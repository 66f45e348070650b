"""`outlast audit`: the six acceptance questions about a flow or a run, pass or fail, with the evidence.

`outlast steps`: what a flow consists of, before anything of it runs.

`outlast replay`: a run's body on its receipts only, and what it does otherwise than it is recorded.

`outlast acts`: who did what, the newest first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import REFUSED, SUCCEEDED
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import limit_option, offer_runs, run_argument
from outlast.doors.cli.render import at, brief, counted, emit, note, say, table, turned_away
from outlast.errors import FlowNotFound

if TYPE_CHECKING:
    from outlast import Act, Acts, Audit, AuditQuestion
    from outlast.python.named_flows import FlowStep, FlowSteps


@command("audit")
@click.argument("target", metavar="FLOW|RUN", shell_complete=offer_runs)
def audit(call: Invocation, target: str) -> int:
    """Answer the six acceptance questions; exit 4 when one of them fails.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`, looked at as it is written; RUN is an id, or the beginning of
    one, looked at in its records. Nothing of it is run.
    """
    found = _audit(call, target)
    return call.tell_or_say(found, lambda: _say(found), code=SUCCEEDED if found.passed else REFUSED)


def _audit(call: Invocation, target: str) -> Audit:
    if late.named_flows.names_a_flow(target):  # a flow is audited where there is no home yet, too
        return late.named_flows.find_flow(target, call.home, note).audit()
    if target.endswith(".py") or "/" in target:  # no run is called so
        raise FlowNotFound(target, "it has no name after a colon")
    sys.path.insert(0, os.getcwd())  # where `run` found a module, this finds it too
    with call.open() as outlast:
        return outlast.audit(target)


def _say(found: Audit) -> None:
    for question in found.questions:
        _say_question(question)
    failed = ", ".join(map(str, found.failed))
    say()
    if found.passed:
        say(f"{found.kind} {found.subject}: all six pass", "green")
    else:
        say(f"{found.kind} {found.subject}: fails {failed}", "red")


def _say_question(question: AuditQuestion) -> None:
    word, style = ("pass", "green") if question.passed else ("fail", "red")
    say(f"{question.number}. {question.question} {word}", style)
    for line in question.evidence:
        say(f"   {line}")
    for finding in question.findings:
        mark = "!" if finding.fails else "note:"
        say(f"   {mark} {finding.subject}: {finding.found}", "red" if finding.fails else "yellow")
        say(f"     {finding.advice} [{finding.code}]")


DOES, BOUNDS = 30, 28  # columns


@command("steps")
@click.argument("flow", metavar="FLOW")
def steps(call: Invocation, flow: str) -> None:
    """List the steps of a flow, with what they do, when, and within which limits.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`. A flow file is checked whole, with the flow files that it
    runs; of Python the steps are those that its code shows. Nothing of it is run.
    """
    with turned_away(call.json):
        found = late.named_flows.find_flow(flow, call.home, note).steps()
    if call.json:
        emit(found)
        return
    say(f"flow {found.flow}, inputs: {found.inputs}")
    say_steps(found.steps)
    say_rest(found)


def say_steps(found: Iterable[FlowStep]) -> None:
    """A row for each; what is inside another stands further to the right."""
    rows = [(f"{'· ' * len(each.inside)}{each.id}", each.kind, brief(each.does, DOES), _bounds(each)) for each in found]
    if rows:
        table(("STEP", "KIND", "DOES", "WITHIN"), rows)


def say_rest(found: FlowSteps) -> None:
    """What is no step, and is needed or not known."""
    if found.secrets:
        say(f"needs these variables: {', '.join(found.secrets)}")
    if not found.complete:
        say("these are the steps that its code shows; the body decides which of them are called, and how often")


def _bounds(each: FlowStep) -> str:
    """When it is done, and what bounds it."""
    told = [f"if {each.when}"] if each.when else []
    told += [f"{name} {_shown(value)}" for name, value in each.limits.items()]
    told += ["confirmed"] if each.confirmed else []
    return brief("; ".join(told), BOUNDS)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}s"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


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
        table(COLUMNS, [_row(each) for each in found.items])
        _say_more(found)
    else:
        say("nobody did anything" if not any(asked.get(name) for name in ("by", "kind", "since")) else "no such acts")


def _row(act: Act) -> tuple[str, ...]:
    name = f"{act.kind} {act.name}".strip()
    about = name if act.scope in ("", "default") else f"{name} in {act.scope}"
    return at(act.at), act.who or "-", act.what, about, act.said


def _say_more(found: Acts) -> None:
    if found.next:
        say(f"those before: the same with --cursor {found.next}", "dim")
