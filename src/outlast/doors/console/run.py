"""One run: what it is, where it stands, what a resume would do, its time, and a chosen receipt.

What is made from a whole journal is kept until the journal has grown: a long run is read once, whoever looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.adapters.temporal import names
from outlast.doors.console.needs import once, result_in
from outlast.doors.console.preview import error_shown, has_left, left_of
from outlast.doors.console.waterfall import ROWS, waterfall
from outlast.errors import OutlastError, RunFinished

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.doors.console.asked import PageRequest
    from outlast.python.shared import Plan

T = TypeVar("T")
LONG = 2000  # entries: the plan of a longer run is looked up when somebody asks for it
LOG_BYTES = 64 << 10  # of a transcript that a page shows
ACTIONS = {
    "resume": "Resume",
    "retry": "Retry a step",
    "skip": "Skip a step",
    "rewind": "Rewind to a step",
    "fork": "Fork from a step",
    "pause": "Pause",
    "abort": "Abort",
}
NEEDS = {"skip": "approve", "rewind": "approve", "fork": "approve"}
WORDS = {
    "retry": "Run again",
    "redo": "Done anew",
    "decide": "Need a person first",
    "confirm": "Ask their probe whether they happened",
    "raise_again": "Fail again as recorded",
    "reuse": "Kept, their receipts are used",
    "later": "Come later",
    "leave": "Left as they are",
}


def _of_journal(asked: PageRequest, run: RunRecord, what: str, make: Callable[[], T]) -> T:
    return asked.kept((run.id, run.head, run.status, run.updated_at, what), make)


def items_of(asked: PageRequest, found: RunRecord) -> Sequence[Any]:
    """Its timeline."""
    items: Sequence[Any] = _of_journal(asked, found, "timeline", lambda: asked("run_timeline", run_id=found.id).items)
    return items


def the_run(asked: PageRequest) -> tuple[RunRecord, Sequence[dict[str, Any]]]:
    """The run that is looked at, and the runs below it that failed."""
    found = asked("run_get", run_id=asked.path["run_id"], state=False)
    return found.run, found.failed_below


def run(asked: PageRequest) -> dict[str, Any]:
    """What the page shows."""
    found, below = the_run(asked)
    items = items_of(asked, found)
    waits = asked("interrupt_list", run_id=found.id).items if not found.finished else []
    chosen = _chosen(asked, found, items)
    inline = not found.finished and found.head <= LONG
    return {
        "run": found,
        "below": below,
        "waits": waits,
        "fall": waterfall(items, _begins(asked, len(items))),
        "chosen": chosen,
        "plan": plan_of(asked, found) if inline else None,
        "plan_later": not found.finished and not inline,
        "actions": actions_of(asked, found),
        "state": _state(asked, found),
        "left": left_of(asked, found.id) if has_left(found) else [],
        "engine_page": _engine_page(asked, found),
    }


def _engine_page(asked: PageRequest, found: RunRecord) -> str:
    """Where its engine shows it, if it has another one than ours whose pages are known."""
    temporal, identity = asked.exchange.state.settings.temporal, asked.exchange.identity
    if not found.engine or temporal is None or not temporal.ui or identity is None:
        return ""
    return names.page_of(temporal.ui, temporal.namespace, names.workflow_id(identity.tenant, found))


def _begins(asked: PageRequest, total: int) -> int:
    given = asked.query.get("from", "")
    if given.isdigit() and len(given) < 10:
        return min(int(given), max(total - 1, 0))
    return max(total - ROWS, 0) if given == "end" else 0


def _state(asked: PageRequest, found: RunRecord) -> Any:
    """Its small values; of a long run only when they are asked for."""
    if found.head > LONG and "state" not in asked.query:
        return None
    return _of_journal(asked, found, "state", lambda: asked("run_get", run_id=found.id).run.state)


def actions_of(asked: PageRequest, found: RunRecord) -> list[tuple[str, str]]:
    """What may be done to it by who looks."""
    if found.seal:
        return []
    of_status = (
        ("pause", "abort") if found.status == "running" else ("resume", "retry", "skip", "rewind", "fork", "abort")
    )
    names = ("fork",) if found.finished else of_status
    return [(name, ACTIONS[name]) for name in names if asked.may(NEEDS.get(name, "write"))]  # type: ignore[arg-type]


# -- what a resume would do ------------------------------------------------------------------------------


def plan_of(asked: PageRequest, found: RunRecord, **given: Any) -> dict[str, Any] | None:
    """The plan in groups, or why there is none; None of a run that has finished."""
    return planned(lambda: asked("run_plan", run_id=found.id, **given).plan)


def planned(make: Callable[[], Plan]) -> dict[str, Any] | None:
    """The same of a plan that is made so."""
    try:
        plan = make()
    except RunFinished:
        return None
    except OutlastError as error:
        return {"refused": f"{error.detail} {error.what_next}", "plan": None, "groups": []}
    return {"refused": "", "plan": plan, "groups": grouped(plan.steps, WORDS)}


def grouped(steps: Sequence[Any], words: dict[str, str]) -> list[tuple[str, list[Any]]]:
    """Steps by what happens to them."""
    groups = [(word, [step for step in steps if step.action == action]) for action, word in words.items()]
    return [(word, found) for word, found in groups if found]


def plan_page(asked: PageRequest) -> dict[str, Any]:
    """The plan by itself, for a run that is too long to have it on its page."""
    found, _ = the_run(asked)
    return {"run": found, "plan": plan_of(asked, found)}


# -- a chosen receipt ------------------------------------------------------------------------------------


def _chosen(asked: PageRequest, found: RunRecord, items: Any) -> dict[str, Any] | None:
    """The receipt that was clicked on; without a click, that of what failed last."""
    given = asked.query.get("step", "")
    seq = int(given) if given.isdigit() and len(given) < 12 else 0
    if not seq and found.status == "failed":
        bad = [item for item in items if item.status in ("failed", "timed_out", "crashed")]
        bad = [item for item in bad if item.kind in ("step", "effect")] or bad
        seq = bad[-1].seq if bad else 0
    item = next((each for each in items if each.seq == seq), None) if seq else None
    if item is None:
        return None
    attempts = _of_journal(asked, found, "attempts", lambda: asked.attempts(found.id))
    heard = (each for each in attempts.heard if (each.label, each.attempt) == (item.name, item.attempt))
    receipt = next(map(attempts.receipt, heard), None)
    kept = receipt.error if receipt is not None else found.error if item.name == found.status == "failed" else None
    return {"item": item, "receipt": receipt, "log": _log(asked, found, receipt), "error": error_shown(kept)}


def _log(asked: PageRequest, found: RunRecord, receipt: Any) -> dict[str, Any] | None:
    """What the command of a receipt printed: its end, where it is long."""
    if receipt is None or not found.is_of_commands:
        return None
    logs = asked.maybe("run_logs", run_id=found.id, step=receipt.label, attempt=receipt.attempt)
    if logs is None or not logs.items:
        return None
    text = bytearray()
    try:
        for piece in logs.items[-1].pieces():
            text += piece
            del text[: max(len(text) - LOG_BYTES, 0)]
    except OutlastError as error:
        return {"text": f"{error.detail}", "size": 0}
    return {"text": bytes(text).decode(errors="replace"), "size": logs.items[-1].size_bytes}


# -- what may be done ------------------------------------------------------------------------------------


def act(asked: PageRequest) -> str:
    """Do it; the page to go to."""
    run_id, form = asked.path["run_id"], asked.form
    do, why = form.get("do", ""), form.get("why", "").strip()
    try:
        said = _DOES[do](asked, run_id, form, why) if do in _DOES else "There is no such action."
    except OutlastError as error:
        said = f"{error.detail} {error.what_next}".strip()
    if said.startswith("/"):
        return said
    asked.visit.say(said)
    return f"/runs/{run_id}"


def _resume(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    given: dict[str, Any] = {"accept": asked.many.get("accept", [])} if asked.many.get("accept") else {}
    given |= {"partial": form["partial"]} if form.get("partial") in ("keep", "restore") else {}
    refused = asked.resume(run_id, why=why, **given)
    return f"It does not go on here: {refused}" if refused else "It goes on."


def _pause(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    asked("run_pause", run_id=run_id)
    return "It was asked to stop at its next step."


def _abort(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    asked("run_abort", run_id=run_id, why=why, **once(form))
    return "It was given up."


def _retry(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    effects = form.get("effects") == "yes" and asked.may("approve")
    asked("run_retry", run_id=run_id, step=form.get("step", ""), why=why, effects=effects, **once(form))
    return _then(asked, run_id)


def _skip(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    given = {"step": form.get("step", ""), "why": why, "result": result_in(form.get("result", ""))}
    asked("run_skip", run_id=run_id, **given, **once(form))
    return _then(asked, run_id)


def _rewind(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    asked("run_rewind", run_id=run_id, step=form.get("step", ""), why=why, **once(form))
    return _then(asked, run_id)


def _fork(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    how = {"reuse_effects": form.get("effects") == "reuse", "yes": form.get("effects") == "yes", "why": why}
    made = asked("run_fork", run_id=run_id, from_step=form.get("step", ""), **how, **once(form))
    asked.visit.say("This is the fork; it begins when it is resumed.")
    return f"/runs/{made.id}"


def _then(asked: PageRequest, run_id: str) -> str:
    if asked.form.get("go") != "yes":
        return "Noted; the next resume does it."
    refused = asked.resume(run_id)
    return f"Noted. It does not go on here: {refused}" if refused else "Noted; it goes on."


_DOES: dict[str, Callable[[Any, str, Any, str], str]] = {
    "resume": _resume,
    "pause": _pause,
    "abort": _abort,
    "retry": _retry,
    "skip": _skip,
    "rewind": _rewind,
    "fork": _fork,
}
