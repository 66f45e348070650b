"""Runs: one with where it stands, its time and a chosen receipt; what each of its buttons would do; and the list.

What is made from a whole journal is kept until the journal has grown: a long run is read once, whoever looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from outlast import STATUSES
from outlast.adapters.temporal import settings as temporal_names
from outlast.doors.console.asked import LOOKED_AT, said_of, word
from outlast.doors.console.needs import once, result_in
from outlast.doors.console.preview import ROWS, error_shown, has_left, left_of, waterfall
from outlast.errors import OutlastError, RunFinished
from outlast.ids import random_id

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
    return temporal_names.page_of(temporal.ui, temporal.namespace, temporal_names.workflow_id(identity.tenant, found))


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
        return {"refused": said_of(error), "plan": None, "groups": []}
    return {"refused": "", "plan": plan, "groups": grouped(plan.steps, WORDS)}


def grouped(steps: Sequence[Any], words: dict[str, str]) -> list[tuple[str, list[Any]]]:
    """Steps by what happens to them."""
    groups = [(word, [step for step in steps if step.action == action]) for action, word in words.items()]
    return [(word, found) for word, found in groups if found]


def plan(asked: PageRequest) -> dict[str, Any]:
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
    receipts = asked.outlast("run_receipts", run_id=found.id)
    attempts = _of_journal(asked, found, "attempts", lambda: receipts._attempts(found.id))
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
    run_id = asked.path["run_id"]
    try:
        said = _done(asked, run_id, asked.form, asked.form.get("why", "").strip())
    except OutlastError as error:
        said = said_of(error)
    if said.startswith("/"):
        return said
    asked.visit.say(said)
    return f"/runs/{run_id}"


def _done(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    """What came of it, or the page to go to."""
    of_step = {"run_id": run_id, "step": form.get("step", ""), "why": why, **once(form)}
    match form.get("do", ""):
        case "resume":
            return _resumed(asked, run_id, form, why)
        case "pause":
            asked("run_pause", run_id=run_id)
            return "It was asked to stop at its next step."
        case "abort":
            asked("run_abort", run_id=run_id, why=why, **once(form))
            return "It was given up."
        case "fork":
            return _fork(asked, run_id, form, why)
        case "retry":
            asked("run_retry", effects=form.get("effects") == "yes" and asked.may("approve"), **of_step)
        case "skip":
            asked("run_skip", result=result_in(form.get("result", "")), **of_step)
        case "rewind":
            asked("run_rewind", **of_step)
        case _:
            return "There is no such action."
    return _then(asked, run_id)


def _resumed(asked: PageRequest, run_id: str, form: Any, why: str) -> str:
    given: dict[str, Any] = {"accept": asked.many.get("accept", [])} if asked.many.get("accept") else {}
    given |= {"partial": form["partial"]} if form.get("partial") in ("keep", "restore") else {}
    refused = asked.resume(run_id, why=why, **given)
    return f"It does not go on here: {refused}" if refused else "It goes on."


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


# -- what a button would do, before it is done: which steps run again, and what becomes of effects -------------


Told = list[tuple[str, list[str]]]
OF_A_STEP = ("retry", "skip", "rewind", "fork")
OF_A_FORK = WORDS | {"redo": "Done anew when the fork is resumed", "reuse": "Taken over, not done again"}


def choose(asked: PageRequest) -> dict[str, Any]:
    """What the page shows."""
    found, _ = the_run(asked)
    do = asked.query.get("do", "resume")
    do = do if do in ACTIONS else "resume"
    steps = list(dict.fromkeys(item.name for item in _calls(asked, found)))[-500:] if do in OF_A_STEP else []
    step = asked.query.get("step", "") or (steps[-1] if steps else "")
    allowed = do in dict(actions_of(asked, found))
    return {
        "run": found,
        "do": do,
        "title": ACTIONS[do],
        "step": step,
        "steps": steps,
        "left": left_of(asked, found.id) if do == "resume" and has_left(found) else [],
        "command": _command(do, found.id, step),
        "plan": _plan(asked, found, do, step) if allowed else None,
        "forks": _forked(asked, found, step) if allowed and do == "fork" and step else None,
        "told": _told(asked, found, do) if allowed else [],
        "allowed": allowed,
        "can_approve": asked.may("approve"),
        "operation": random_id(),
    }


def _calls(asked: PageRequest, found: RunRecord) -> list[Any]:
    return [item for item in items_of(asked, found) if item.kind in ("step", "effect")]


def _plan(asked: PageRequest, found: RunRecord, do: str, step: str) -> dict[str, Any] | None:
    """What a resume would do, with what is about to be decided of the step."""
    if do in ("retry", "skip") and step:
        return planned(lambda: asked.outlast("run_plan", run_id=found.id)._plan_with(found.id, do, step))
    if do in ("resume", "rewind"):
        return plan_of(asked, found, **({"from_step": step} if do == "rewind" and step else {}))
    return None


def _forked(asked: PageRequest, found: RunRecord, step: str) -> dict[str, Any]:
    """What the fork takes over and does anew, and the effects that happen again: in any case, or when they are let."""
    try:
        outlast = asked.outlast("run_plan", run_id=found.id)
        kept, other = (outlast._fork_view(found.id, step, reuse_effects=reuse) for reuse in (True, False))
    except OutlastError as error:
        return {"refused": said_of(error), "groups": [], "told": []}
    again = [effect.says for effect in other.effects if effect not in kept.effects]
    told = [
        ("Effects that happen again if you let them be done again", again),
        ("Effects that happen again in any case", [effect.says for effect in kept.effects]),
    ]
    return {"refused": "", "groups": grouped(kept.steps, OF_A_FORK), "told": _those(told)}


def _told(asked: PageRequest, found: RunRecord, do: str) -> Told:
    """Of what runs nothing again: what is done, under way and asked now, and what becomes of that."""
    if do not in ("abort", "pause"):
        return []
    going = [item.name for item in _calls(asked, found) if item.status == "running"]
    if do == "pause":
        return _those([("Under way, and ends first", going)])
    effects = asked.outlast("run_receipts", run_id=found.id)._effects_done(found.id)
    waits = asked("interrupt_list", run_id=found.id).items
    return _those(
        [
            ("Effects that were done and stay done", [effect.says for effect in effects if not effect.in_doubt]),
            ("Effects of which nobody knows whether they happened", [each.says for each in effects if each.in_doubt]),
            ("Under way: what comes of it is not recorded any more", going),
            ("Asked, and not to be answered any more", [wait.says for wait in waits]),
        ]
    )


def _those(groups: Told) -> Told:
    return [(said, found) for said, found in groups if found]


def _command(do: str, run_id: str, step: str) -> str:
    """The same as a command."""
    said = {
        "resume": ["--dry-run"],
        "retry": [word(step)],
        "skip": [word(step), "--result", "JSON", "--why", "WHY"],
        "rewind": [word(step)],
        "fork": ["--from", word(step)],
        "pause": [],
        "abort": ["--why", "WHY"],
    }[do]
    return " ".join(["outlast", do, run_id, *said])


# -- the list with its filters, and what is done to many at once ---------------------------------------------


FILTERS = ("status", "flow", "task", "tag", "session", "since", "until", "text", "scope")
SHOWN = 50
DIED = 200  # so many runs whose process died are counted


def runs(asked: PageRequest) -> dict[str, Any]:
    """A page of runs, with how many there are of each status."""
    wanted = {name: asked.query[name] for name in FILTERS if name in asked.query}
    wrong, page, cursor = "", None, asked.query.get("cursor")
    try:
        page = asked.some_runs(SHOWN, LOOKED_AT, cursor, **wanted)
    except OutlastError as error:
        wrong = said_of(error)
    return {
        "runs": page.runs if page else [],
        "next": asked.link(cursor=page.last) if page and page.last else "",
        "looked_at": page.looked_at if page and len(page.runs) < SHOWN else 0,
        "wanted": wanted,
        "filtered": {name: value for name, value in wanted.items() if name != "status"},
        "statuses": STATUSES,
        "counts": _counts(asked) if not cursor else {},
        "wrong": wrong,
        "command": " ".join(["outlast runs", *(f"--{name} {word(value)}" for name, value in wanted.items())]),
        "json": "/v1/runs" + (f"?{urlencode(wanted)}" if wanted else ""),
        "can": asked.may("write"),
    }


def _counts(asked: PageRequest) -> dict[str, int]:
    """How many runs there are of each status. Those whose process died are still written as running."""
    counts = dict((asked.maybe("home_facts") or {}).get("runs", {}))
    if counts.get("running"):
        died = len(asked.newest_runs(DIED, status="crashed"))
        counts |= {"running": max(counts["running"] - died, 0), "crashed": counts.get("crashed", 0) + died}
    return {status: count for status, count in counts.items() if count}


def many(asked: PageRequest) -> str:
    """Resume or abort the runs that were ticked; the page to go to."""
    done, refused = 0, list[str]()
    for run_id in asked.many.get("run", [])[:200]:
        why = _one(asked, run_id)
        done += not why
        refused += [f"{run_id}: {why}"] if why else []
    word = "asked to go on" if asked.form.get("do") == "resume" else "aborted"
    asked.visit.say(f"{done} {word}. " + " ".join(refused[:3]) + (f" … {len(refused)} refused" if refused[3:] else ""))
    return "/runs?" + asked.form.get("query", "")


def _one(asked: PageRequest, run_id: str) -> str:
    """Why it was not done; nothing when it was."""
    try:
        if asked.form.get("do") == "resume":
            return asked.resume(run_id)
        asked("run_abort", run_id=run_id, why=asked.form.get("why") or "given up in the console")
    except OutlastError as error:
        return error.detail
    return ""
