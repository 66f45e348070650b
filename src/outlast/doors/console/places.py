"""Screens of what is handed over and kept: handoffs, the workspace, tasks and conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.console.pictures import graph
from outlast.doors.console.preview import preview
from outlast.doors.console.render import compact, difference
from outlast.errors import OutlastError
from outlast.operations.shown import shown
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.doors.console.asked import PageRequest

SHOWN = 50
FEW = 10  # of what unfinished runs left, beside what was handed over


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
    """What people and agents handed over, then what unfinished runs left. Judged only where that is asked for."""
    standing, look = asked.query.get("standing", ""), asked.query.get("look") == "yes"
    shows = {"standing": standing, "looked": look or standing == "contested", "of_runs": False, "left": [], "tasks": 0}
    if look or standing == "contested":
        given = {"standing": standing} if standing else {}
        return shows | _listed(asked, "handoff_list", look=look, **given)
    if asked.query.get("of") == "runs":
        return shows | _left_by_runs(asked)
    is_first = not standing and "cursor" not in asked.query
    return shows | _handed_over(asked, standing) | (_few_left(asked) if is_first else {})


def _handed_over(asked: PageRequest, standing: Any) -> dict[str, Any]:
    found = asked.handoffs(**_scope(asked))._stored(standing or None, SHOWN + 1, asked.query.get("cursor"))
    return {"items": found[:SHOWN], "next": asked.link(cursor=found[SHOWN - 1].handoff_id) if found[SHOWN:] else ""}


def _few_left(asked: PageRequest) -> dict[str, Any]:
    left, tasks = asked.handoffs(**_scope(asked))._left_by_runs(FEW)
    return {"left": left, "tasks": tasks}


def _left_by_runs(asked: PageRequest) -> dict[str, Any]:
    lines, tasks = asked.handoffs(**_scope(asked))._left_by_runs(SHOWN + 1, asked.query.get("cursor", ""))
    following = asked.link(cursor=lines[SHOWN - 1].run_id) if lines[SHOWN:] else ""
    return {"of_runs": True, "items": [], "left": lines[:SHOWN], "tasks": tasks, "next": following}


def handoff(asked: PageRequest) -> dict[str, Any]:
    """An anchor in reading order: what to do next, its files and checks, then all else."""
    anchor = asked.query.get("anchor", "")
    given = asked.query.get("revision", "")
    if given.isdigit() and len(given) < 9:
        found = asked("handoff_get_by_anchor", anchor=anchor, revision=int(given), **_scope(asked))
        newest, recovered = asked("handoff_get_by_anchor", anchor=anchor, **_scope(asked)).revision, None
    else:
        recovered = _verdict(asked, anchor)
        found = recovered.handoff if recovered is not None else _stored(asked, anchor)
        newest = found.revision
    of_anchor = {"anchor": anchor, **_scope(asked)}
    earlier = found.revision - 1
    before = asked.maybe("handoff_get_by_anchor", revision=earlier, **of_anchor) if earlier > 0 else None
    history = asked.maybe("handoff_history", **of_anchor)
    run_id = found.id.partition(":")[2] if found.id.startswith("run:") else ""
    return ({"json": f"/v1/runs/{run_id}/handoff"} if run_id else {}) | {
        "anchor": anchor,
        "handoff": found,
        "newest": newest,
        "run_id": run_id,
        "recovered": recovered,
        "changes": _changes(before, found) if before is not None else [],
        "history": [(event, _says(event.body)) for event in reversed(history.items if history else ())][:100],
        "packet": shown(found),
    }


def _stored(asked: PageRequest, anchor: str) -> Any:
    return asked("handoff_get_by_anchor", anchor=anchor, **_scope(asked))


def _verdict(asked: PageRequest, anchor: str) -> Any:
    """How it stands here and now, looked at and not read: no claim is used by that. None where nobody can tell."""
    return asked.maybe("handoff_recover", anchor=anchor, listing=True, include_finished=True, **_scope(asked))


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


def _changes(before: Any, after: Any) -> list[tuple[str, str]]:
    """The fields in which two revisions differ, each with its difference."""
    pairs = ((name, _lines(getattr(before, name)), _lines(getattr(after, name))) for name in TOLD)
    return [(name, difference(old, new)) for name, old, new in pairs if old != new]


def _lines(value: Any) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    told = jsonable(value)
    if not told:
        return ""
    return (
        "\n".join(each if isinstance(each, str) else compact(each) for each in told)
        if isinstance(told, list | tuple)
        else compact(told)
    )


HISTORY = ("revision", "summary", "outcome", "why", "reason", "codes", "by", "to")


def _says(body: Any) -> str:
    """What is worth reading of what happened to a handoff."""
    said = jsonable(body) if isinstance(body, dict) else {}
    known = [(name, said[name]) for name in HISTORY if said.get(name)]
    return ", ".join(f"{name} {value if isinstance(value, str | int) else compact(value)}" for name, value in known)


# -- the workspace -------------------------------------------------------------------------------------


def workspace(asked: PageRequest) -> dict[str, Any]:
    kind = asked.query.get("kind", "records")
    kind = kind if kind in ("records", "artifacts", "checkpoints") else "records"
    name = {"records": "workspace_records", "artifacts": "workspace_list", "checkpoints": "workspace_checkpoints"}[kind]
    task = {"task": asked.query["task"]} if asked.query.get("task") and kind != "artifacts" else {}
    says = {"command": f"outlast workspace {'list' if kind == 'artifacts' else kind}", "json": f"/v1/workspace/{kind}"}
    return _listed(asked, name, **task) | {"kind": kind} | says


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
    return {"artifact": found, "versions": versions.items if versions else [], "shown": preview(found)}


# -- tasks and conversations ---------------------------------------------------------------------------


def tasks(asked: PageRequest) -> dict[str, Any]:
    state = {"state": asked.query["state"]} if asked.query.get("state") else {}
    return _listed(asked, "task_list", **state) | {"state": state.get("state", "")}


def task(asked: PageRequest) -> dict[str, Any]:
    found = asked("task_inspect", task_id=asked.path["task_id"], history=50, **_scope(asked))
    runs = asked.newest_runs(20, task=asked.path["task_id"], **_scope(asked))
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
        "runs": asked.newest_runs(20, session=session_id, **_scope(asked)),
    }
