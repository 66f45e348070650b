"""The other screens: handoffs, the workspace, tasks, conversations, queues, the home itself, keys, and who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.console.graph import graph
from outlast.errors import OutlastError
from outlast.operations.table import OPERATIONS
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.doors.console.asked import PageRequest

SHOWN = 50
PREVIEW_BYTES = 64 << 10
LOOKED_BACK = 3000  # entries that the page of who did what looks at
BY_PEOPLE: tuple[str, ...] = (
    "decision.",
    "interrupt.answered",
    "interrupt.cancelled",
    "run.aborted",
    "run.accepted",
    "run.taken",
)
BY_PEOPLE += ("run.rewound", "run.forked", "run.started", "run.again", "run.fresh", "run.pausing", "run.claimed")


def _scope(asked: PageRequest) -> dict[str, Any]:
    return {"scope": asked.scope} if asked.scope else {}


def _cursor(asked: PageRequest) -> dict[str, Any]:
    return {"limit": SHOWN} | ({"cursor": asked.query["cursor"]} if "cursor" in asked.query else {})


def _listed(asked: PageRequest, name: str, **given: Any) -> dict[str, Any]:
    """A page of a list, and the link to the next one."""
    page = asked(name, **_scope(asked), **_cursor(asked), **given)
    return {"items": page.items, "next": asked.link(cursor=page.next) if page.next else ""}


# -- handoffs ------------------------------------------------------------------------------------------


def handoffs(asked: PageRequest) -> dict[str, Any]:
    standing = {"standing": asked.query["standing"]} if asked.query.get("standing") else {}
    look = asked.query.get("look") == "yes"
    return _listed(asked, "handoff_list", look=look, **standing) | {
        "looked": look,
        "standing": standing.get("standing", ""),
    }


def handoff(asked: PageRequest) -> dict[str, Any]:
    """An anchor in reading order: what to do next, its files and checks, then all else."""
    anchor = asked.query.get("anchor", "")
    given = asked.query.get("revision", "")
    revision = {"revision": int(given)} if given.isdigit() and len(given) < 9 else {}
    found = asked("handoff_get_by_anchor", anchor=anchor, **revision, **_scope(asked))
    newest = asked("handoff_get_by_anchor", anchor=anchor, **_scope(asked)) if revision else found
    before = asked.maybe("handoff_get_by_anchor", anchor=anchor, revision=found.revision - 1, **_scope(asked))
    return {
        "anchor": anchor,
        "handoff": found,
        "newest": newest.revision,
        "recovered": _verdict(asked, found, anchor) if found.revision == newest.revision else None,
        "changes": _changes(before, found) if before is not None else [],
        "history": list(reversed(asked("handoff_history", anchor=anchor, **_scope(asked)).items))[:100],
        "packet": jsonable(found),
    }


def _verdict(asked: PageRequest, found: Any, anchor: str) -> Any:
    """How it stands here and now, looked at and not read: no claim is used by that."""
    try:
        return asked("handoff_recover", anchor=anchor, listing=True, include_finished=True, **_scope(asked))
    except OutlastError as error:
        return {"refused": f"{error.detail} {error.what_next}"}


TOLD: tuple[str, ...] = (
    "summary",
    "next_action",
    "handoff_text",
    "target_files",
    "creates",
    "acceptance_checks",
    "must_change",
)
TOLD += ("must_remove", "must_keep", "rollback", "risk", "environment", "refs", "tags")


def _changes(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """The fields in which two revisions differ."""
    pairs = ((name, jsonable(getattr(before, name)), jsonable(getattr(after, name))) for name in TOLD)
    return [(name, old, new) for name, old, new in pairs if old != new]


# -- the workspace -------------------------------------------------------------------------------------


def workspace(asked: PageRequest) -> dict[str, Any]:
    kind = asked.query.get("kind", "records")
    kind = kind if kind in ("records", "artifacts", "checkpoints") else "records"
    name = {"records": "workspace_records", "artifacts": "workspace_list", "checkpoints": "workspace_checkpoints"}[kind]
    task = {"task": asked.query["task"]} if asked.query.get("task") and kind != "artifacts" else {}
    return _listed(asked, name, **task) | {"kind": kind}


def why(asked: PageRequest) -> dict[str, Any]:
    found = asked("workspace_why", ref=asked.query.get("ref", ""), depth=6, **_scope(asked))
    record = asked.maybe("workspace_get_record", ref=found.ref) if found.ref.startswith("record:") else None
    return {"why": found, "graph": graph(found), "record": record}


def recall(asked: PageRequest) -> dict[str, Any]:
    """What would be packed for a goal, and why."""
    goal, budget = asked.query.get("goal", ""), asked.query.get("budget", "2000")
    pack, wrong = None, ""
    if goal:
        try:
            pack = asked(
                "workspace_recall", goal=goal, budget=int(budget) if budget.isdigit() else 2000, **_scope(asked)
            )
        except OutlastError as error:
            wrong = f"{error.detail} {error.what_next}"
    return {"goal": goal, "budget": budget, "pack": pack, "wrong": wrong}


def artifact(asked: PageRequest) -> dict[str, Any]:
    found = asked("workspace_get", ref=asked.query.get("ref", ""), **_scope(asked))
    versions = asked.maybe("workspace_versions", name=found.name, limit=50, scope=found.scope)
    return {"artifact": found, "versions": versions.items if versions else [], "preview": _preview(found)}


def _preview(found: Any) -> str | None:
    """The beginning of what is text; None of all else."""
    if not found.media_type.startswith("text/") and found.media_type not in ("application/json", "application/yaml"):
        return None
    text = bytearray()
    try:
        for piece in found.pieces():
            text += piece
            if len(text) > PREVIEW_BYTES:
                break
    except (OutlastError, AttributeError):
        return None
    return bytes(text[:PREVIEW_BYTES]).decode(errors="replace")


# -- tasks and conversations ---------------------------------------------------------------------------


def tasks(asked: PageRequest) -> dict[str, Any]:
    state = {"state": asked.query["state"]} if asked.query.get("state") else {}
    return _listed(asked, "task_list", **state) | {"state": state.get("state", "")}


def task(asked: PageRequest) -> dict[str, Any]:
    found = asked("task_inspect", task_id=asked.path["task_id"], history=50, **_scope(asked))
    runs = asked("run_list", task=asked.path["task_id"], limit=20, **_scope(asked)).items
    return {"context": found, "task": asked("task_get", task_id=asked.path["task_id"], **_scope(asked)), "runs": runs}


def sessions(asked: PageRequest) -> dict[str, Any]:
    return _listed(asked, "session_list")


def session(asked: PageRequest) -> dict[str, Any]:
    session_id = asked.path["session_id"]
    page = asked("session_messages", session_id=session_id, **_scope(asked), **_cursor(asked))
    return {
        "session_id": session_id,
        "messages": page.items,
        "next": asked.link(cursor=page.next) if page.next else "",
        "memo": asked.maybe("session_memo", session_id=session_id, **_scope(asked)),
        "runs": asked("run_list", session=session_id, limit=20, **_scope(asked)).items,
    }


# -- queues, schedules, workers --------------------------------------------------------------------------


def queues(asked: PageRequest) -> dict[str, Any]:
    """Queues, and what else of that there is an operation for."""

    def rows(name: str) -> Any:
        found = asked.maybe(name) if name in OPERATIONS else None
        return (
            None
            if found is None
            else [jsonable(each) for each in found.items]
            if name == "worker_list"
            else found.items
        )

    found = asked.maybe("queue_list")
    return {
        "queues": found.items if found else [],
        "schedules": rows("schedule_list"),
        "workers": rows("worker_list"),
        "can": asked.may("write"),
    }


def pause_queue(asked: PageRequest) -> str:
    do = "queue_pause" if asked.form.get("do") == "pause" else "queue_resume"
    try:
        found = asked(do, queue=asked.form.get("queue", ""))
        asked.visit.say(f"{found.name} is paused." if found.paused else f"{found.name} lets runs out.")
    except OutlastError as error:
        asked.visit.say(f"{error.detail} {error.what_next}")
    return "/queues"


# -- the home --------------------------------------------------------------------------------------------


def system(asked: PageRequest) -> dict[str, Any]:
    checked, wrong = None, ""
    if asked.query.get("verify") == "yes":
        try:
            checked = asked("home_verify")
        except OutlastError as error:
            wrong = f"{error.detail} {error.what_next}"
    facts = asked.maybe("home_facts")
    return {
        "facts": jsonable(facts) if facts else None,
        "checked": jsonable(checked),
        "ok": checked is not None and checked.ok,
        "wrong": wrong,
    }


def keys(asked: PageRequest) -> dict[str, Any]:
    return {"keys": asked("key_list").items}


def audit(asked: PageRequest) -> dict[str, Any]:
    """What people did lately, the newest first."""
    upto = asked("home_events").upto
    begins = max(upto - LOOKED_BACK, 0)
    page = asked("home_events", after=begins, limit=1000, **_scope(asked))
    found = [*page.items]
    while page.more:
        page = asked("home_events", after=page.upto, limit=1000, **_scope(asked))
        found += page.items
    done = [each for each in found if each.event.name.startswith(BY_PEOPLE)]
    return {"done": [(each, _who(each.event.body)) for each in reversed(done)][:200], "begins": begins}


def _who(body: Any) -> tuple[str, str]:
    said = body if isinstance(body, dict) else {}
    return str(said.get("by") or said.get("actor") or ""), str(said.get("why") or "")
