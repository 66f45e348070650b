"""Flows that travel from home to home, and everything that can be asked about their runs."""

from typing import Any

from outlast import Plan, Run, effect, flow, step
from outlast.care.travel.import_run import Imported
from outlast.home.home import run_row
from outlast.store.contract import RunRow

from .place import KNOBS, Place, ran, reach


@step
def fetch(number: int) -> str:
    ran(f"fetch {number}")
    return f"{number} äöü \u2028 " * 10_000  # too large for the journal: a blob


@effect
def send(number: int) -> int:
    ran(f"send {number}")
    return number


@step
def gate(number: int) -> int:
    ran("gate")
    reach("gate")
    return number


@flow
def job(run: Run, number: int) -> int:
    run.state["seen"] = len(fetch(number))
    run.emit("told", {"number": number})
    return gate(send(number))


@flow
def doubtful(run: Run) -> int:
    return stumble()


@effect
def stumble() -> int:
    ran("stumble")
    raise RuntimeError("half way")


@flow
def sleeper(run: Run) -> str:
    fetch(1)
    run.sleep("2h")
    return "awake"


@flow
def below(run: Run, number: int) -> int:
    return gate(send(number))


@flow
def above(run: Run) -> int:
    return run.spawn(below, 7).result() + 1


@flow
def curious(run: Run) -> int:
    fetch(1)
    KNOBS["inside"](run)
    return send(2)


def stopped(place: Place, made: Any = job, *args: Any) -> str:
    """A run that fails at its gate, after a step with a blob and an effect."""
    KNOBS["raise"] = ("gate", RuntimeError("closed"))
    found = place.run(made, *(args or ((5,) if made is job else ())))
    assert found.status == "failed"
    KNOBS.pop("raise")
    return found.run_id


def travelled(place: Place, other: Place, run_id: str, *, move: bool) -> Imported:
    done = place.outlast.export(run_id, place.folder, move=move)
    return other.outlast.import_(done.path)


def journal(place: Place, run_id: str) -> list[Any]:
    home = place.outlast._executor.home
    row = run_row(home, run_id)
    return home.store.read(lambda look: look.journal_of(row.key))


def row(place: Place, run_id: str) -> RunRow:
    return run_row(place.outlast._executor.home, run_id)


def all_of(place: Place, run_id: str) -> list[Any]:
    """Everything that can be asked about a run, but for whether it can go on here: that is not the same elsewhere."""
    outlast, home = place.outlast, place.outlast._executor.home
    key = row(place, run_id).key
    waits = home.store.read(lambda look: look.interrupts_of(key))
    shown = [wait._replace(key=0, run=0) for wait in waits]
    plan = [] if outlast.get(run_id).finished else [_plan(outlast.plan(run_id))]
    return [journal(place, run_id), outlast.receipts(run_id), outlast.events(run_id), shown, *plan]


def _plan(plan: Plan) -> list[Any]:
    reasons = [reason for reason in plan.verdict.reasons if reason.code != "imported"]
    return [plan.steps, plan.state, plan.waits, plan.resources, reasons]
