"""Runs: the list with its filters, and what is done to many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from outlast import STATUSES
from outlast.doors.console.asked import LOOKED_AT, word
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.doors.console.asked import PageRequest

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
        wrong = f"{error.detail} {error.what_next}"
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
