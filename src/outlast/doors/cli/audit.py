"""`outlast audit`: the six acceptance questions about a flow or a run, pass or fail, with the evidence."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from outlast.doors.cli.completion import offer_runs
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED, SUCCEEDED
from outlast.doors.cli.render import emit, say
from outlast.errors import FlowNotFound

if TYPE_CHECKING:
    from outlast.care.audit.model import Audit, Question


@command("audit")
@click.argument("target", metavar="FLOW|RUN", shell_complete=offer_runs)
def audit(door: Door, target: str) -> int:
    """Answer the six acceptance questions; exit 4 when one of them fails.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`, looked at as it is written; RUN is an id, or the beginning of
    one, looked at in its records. Nothing of it is run.
    """
    from outlast.values.codec import jsonable

    found = _audit(door, target)
    if door.json:
        emit({"passed": found.passed, **jsonable(found)})
    else:
        _say(found)
    return SUCCEEDED if found.passed else REFUSED


def _audit(door: Door, target: str) -> Audit:
    from outlast.care.audit.audit import audit_flow, names_a_flow

    if names_a_flow(target):  # a flow is audited where there is no home yet, too
        from outlast.doors.cli.inputs import find_flow

        return audit_flow(find_flow(target, door.home).spec)
    if target.endswith(".py") or "/" in target:  # no run is called so
        raise FlowNotFound(target, "it has no name after a colon")
    sys.path.insert(0, os.getcwd())  # where `run` found a module, this finds it too
    with door.open() as outlast:
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


def _say_question(question: Question) -> None:
    word, style = ("pass", "green") if question.passed else ("fail", "red")
    say(f"{question.number}. {question.question} {word}", style)
    for line in question.evidence:
        say(f"   {line}")
    for finding in question.findings:
        mark = "!" if finding.fails else "note:"
        say(f"   {mark} {finding.subject}: {finding.found}", "red" if finding.fails else "yellow")
        say(f"     {finding.advice} [{finding.code}]")
