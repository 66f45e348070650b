"""Screens of what is handed over and kept: handoffs, the workspace, tasks and conversations.

And of who runs it: queues and workers, schedules, the home itself, keys, and who did what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.console.asked import said_of, word
from outlast.doors.console.needs import once, result_in
from outlast.doors.console.preview import graph, preview
from outlast.doors.console.render import compact, difference, sized
from outlast.errors import Forbidden, OutlastError
from outlast.ids import random_id
from outlast.operations.runs import ACT_KINDS, ACTS_OF_ADMINS
from outlast.operations.shown import shown
from outlast.python.door import noting_key
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.doors.console.asked import PageRequest
    from outlast.python.handoffs import Handoffs

SHOWN = 50
FEW = 10  # of what unfinished runs left, beside what was handed over
SCHEDULES = 100  # on a page
ACTS = 100  # of people, on a page

ROLES_MEAN = (
    ("read", "looks"),
    ("write", "stores, starts and resumes"),
    ("approve", "answers what waits for a person, and gets past other gates"),
    ("admin", "may do all of it, and makes keys"),
)


def _cursor(asked: PageRequest) -> dict[str, Any]:
    return {"limit": SHOWN} | ({"cursor": asked.query["cursor"]} if "cursor" in asked.query else {})


def _listed(asked: PageRequest, name: str, **given: Any) -> dict[str, Any]:
    """A page of a list, and the link to the next one."""
    page = asked(name, **asked.in_scope, **_cursor(asked), **given)
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
    found = shows | _handed_over(asked, standing)
    if not standing and "cursor" not in asked.query:
        found["left"], found["tasks"] = _handoffs(asked)._left_by_runs(FEW)
    return found


def _handoffs(asked: PageRequest) -> Handoffs:
    return asked.outlast("handoff_list", **asked.in_scope).handoff


def _handed_over(asked: PageRequest, standing: Any) -> dict[str, Any]:
    found = _handoffs(asked)._stored(standing or None, SHOWN + 1, asked.query.get("cursor"))
    return {"items": found[:SHOWN], "next": asked.link(cursor=found[SHOWN - 1].handoff_id) if found[SHOWN:] else ""}


def _left_by_runs(asked: PageRequest) -> dict[str, Any]:
    lines, tasks = _handoffs(asked)._left_by_runs(SHOWN + 1, asked.query.get("cursor", ""))
    following = asked.link(cursor=lines[SHOWN - 1].run_id) if lines[SHOWN:] else ""
    return {"of_runs": True, "items": [], "left": lines[:SHOWN], "tasks": tasks, "next": following}


def handoff(asked: PageRequest) -> dict[str, Any]:
    """An anchor in reading order: what to do next, its files and checks, then all else."""
    anchor = asked.query.get("anchor", "")
    given, of_anchor = asked.query.get("revision", ""), {"anchor": anchor, **asked.in_scope}
    if given.isdigit() and len(given) < 9:
        found = asked("handoff_get_by_anchor", revision=int(given), **of_anchor)
        newest, recovered = asked("handoff_get_by_anchor", **of_anchor).revision, None
    else:
        # looked at and not read: no claim is used by that
        recovered = asked.maybe("handoff_recover", listing=True, include_finished=True, **of_anchor)
        found = recovered.handoff if recovered is not None else asked("handoff_get_by_anchor", **of_anchor)
        newest = found.revision
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


TOLD = (
    *("summary", "next_action", "handoff_text", "target_files", "creates", "acceptance_checks", "must_change"),
    *("must_remove", "must_keep", "rollback", "risk", "environment", "refs", "tags"),
)


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
    parts = told if isinstance(told, list | tuple) else [told]
    return "\n".join(each if isinstance(each, str) else compact(each) for each in parts)


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
    found = asked("workspace_why", ref=asked.query.get("ref", ""), depth=6, **asked.in_scope)
    record = asked.maybe("workspace_get_record", ref=found.ref) if found.ref.startswith("record:") else None
    return {"why": found, "graph": graph(found), "record": record}


def recall(asked: PageRequest) -> dict[str, Any]:
    """What would be packed for a goal, and why."""
    goal, budget = asked.query.get("goal", ""), asked.query.get("budget", "2000")
    pack, wrong = None, ""
    if goal:
        try:
            tokens = int(budget) if budget.isdigit() else 2000
            pack = asked("workspace_recall", goal=goal, budget=tokens, **asked.in_scope)
        except OutlastError as error:
            wrong = said_of(error)
    return {"goal": goal, "budget": budget, "pack": pack, "wrong": wrong}


def artifact(asked: PageRequest) -> dict[str, Any]:
    found = asked("workspace_get", ref=asked.query.get("ref", ""), **asked.in_scope)
    versions = asked.maybe("workspace_versions", name=found.name, limit=50, scope=found.scope)
    return {"artifact": found, "versions": versions.items if versions else [], "shown": preview(found)}


# -- tasks and conversations ---------------------------------------------------------------------------


def tasks(asked: PageRequest) -> dict[str, Any]:
    state = {"state": asked.query["state"]} if asked.query.get("state") else {}
    return _listed(asked, "task_list", **state) | {"state": state.get("state", "")}


def task(asked: PageRequest) -> dict[str, Any]:
    found = asked("task_inspect", task_id=asked.path["task_id"], history=50, **asked.in_scope)
    runs = asked.newest_runs(20, task=asked.path["task_id"], **asked.in_scope)
    return {"context": found, "task": asked("task_get", task_id=asked.path["task_id"], **asked.in_scope), "runs": runs}


def sessions(asked: PageRequest) -> dict[str, Any]:
    return _listed(asked, "session_list")


def session(asked: PageRequest) -> dict[str, Any]:
    session_id = asked.path["session_id"]
    page = asked("session_messages", session_id=session_id, **asked.in_scope, **_cursor(asked))
    return {
        "session_id": session_id,
        "messages": page.items,
        "next": asked.link(cursor=page.next) if page.next else "",
        "memo": asked.maybe("session_memo", session_id=session_id, **asked.in_scope),
        "runs": asked.newest_runs(20, session=session_id, **asked.in_scope),
    }


# -- queues, workers, limits -----------------------------------------------------------------------------


def queues(asked: PageRequest) -> dict[str, Any]:
    """What waits to be taken, and who takes it."""
    found = {name: asked.maybe(name) for name in ("queue_list", "worker_list", "limit_list")}
    rows = {name: page.items if page else [] for name, page in found.items()}
    known = {"queues": rows["queue_list"], "workers": rows["worker_list"], "limits": rows["limit_list"]}
    return known | {"can": asked.may("write")}


def pause_queue(asked: PageRequest) -> str:
    do = "queue_pause" if asked.form.get("do") == "pause" else "queue_resume"
    try:
        found = asked(do, queue=asked.form.get("queue", ""))
        asked.visit.say(f"{found.name} is paused." if found.paused else f"{found.name} lets runs out.")
    except OutlastError as error:
        asked.visit.say(said_of(error))
    return "/queues"


# -- schedules -------------------------------------------------------------------------------------------


def schedules(asked: PageRequest) -> dict[str, Any]:
    given, found = asked.query.get("from", ""), asked("schedule_list").items
    begins = int(given) if given.isdecimal() and len(given) < 9 else 0
    return {
        "schedules": found[begins : begins + SCHEDULES],
        "next": asked.link(**{"from": begins + SCHEDULES}) if found[begins + SCHEDULES :] else "",
        "flows": asked.exchange.state.flows.names,
        "can": asked.may("write"),
        "operation": random_id(),
    }


def change_schedule(asked: PageRequest) -> str:
    """Add, pause, resume, remove or trigger one; the page to go to."""
    form, do = asked.form, asked.form.get("do", "")
    of = {"name": form.get("name", ""), **once(form)} | ({"scope": form["scope"]} if form.get("scope") else {})
    try:
        if do == "add":
            made = asked("schedule_add", **of, **_schedule(form))
            asked.visit.say(f"{made.name} is on; next at {made.next_at:%Y-%m-%d %H:%M} UTC.")
        elif do == "trigger":
            run = asked("schedule_trigger", **of)
            asked.visit.say(f"A run of {of['name']} waits in its queue: a worker takes it.")
            return f"/runs/{run.id}"
        elif do in ("pause", "resume", "remove"):
            asked(f"schedule_{do}", **of)
            asked.visit.say(f"{of['name']} {DONE[do]}")
    except OutlastError as error:
        asked.visit.say(said_of(error))
    return "/schedules"


DONE = {"pause": "is paused.", "resume": "is on again.", "remove": "is forgotten; its runs stay."}


def _schedule(form: Any) -> dict[str, Any]:
    said = {name: form.get(name, "").strip() for name in ("flow", "cron", "timezone", "missed")}
    inputs = result_in(form["inputs"]) if form.get("inputs", "").strip() else None
    return {name: value for name, value in said.items() if value} | ({"inputs": inputs} if inputs else {})


# -- the home --------------------------------------------------------------------------------------------


def system(asked: PageRequest) -> dict[str, Any]:
    checked, wrong = None, ""
    if asked.query.get("verify") == "yes":
        try:
            checked = asked("home_verify")
        except OutlastError as error:
            wrong = said_of(error)
    facts, told = asked.maybe("home_facts"), jsonable(checked) or {}
    return {
        "facts": _grouped(jsonable(facts)) if facts else None,
        "checked": [(_words(name), _told(name, each)) for name, each in told.items() if name != "problems"],
        "problems": told.get("problems", [])[:200],
        "ok": checked is not None and checked.ok,
        "wrong": wrong,
    }


def _grouped(facts: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The facts as `doctor` has them: those of the home, then each group by its name."""
    plain = [(name, each) for name, each in facts.items() if not isinstance(each, dict)]
    groups = [
        ("Home", plain),
        *((_words(name).capitalize(), [*each.items()]) for name, each in facts.items() if isinstance(each, dict)),
    ]
    return [(title, [(_words(name), _told(name, each)) for name, each in pairs]) for title, pairs in groups if pairs]


def _words(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _told(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return sized(value) if name.endswith("_bytes") else f"{value:,}"
    if not value:
        return "–"
    return value if isinstance(value, str) else compact(value)


# -- keys ------------------------------------------------------------------------------------------------


def keys(asked: PageRequest) -> dict[str, Any]:
    found, key = asked("key_list").items, _own(asked)
    can = asked.may("admin") and not (key is not None and key.scopes)
    return {"keys": found, "made": None, "can": can, "roles": ROLES_MEAN, "own": key.id if key is not None else ""}


def change_keys(asked: PageRequest) -> str | dict[str, Any]:
    """Make a key, whose text is on the page that is answered and nowhere else, or end one."""
    # only an admin of the whole tenant: nobody makes a key that may more than his own
    key = _own(asked)
    if not asked.may("admin") or (key is not None and key.scopes):
        raise Forbidden("keys are made and ended by admins of the whole tenant", "ask one of them")
    try:
        if asked.form.get("do") == "create":
            return {"made": _make(asked)}
        if asked.form.get("do") == "revoke":
            asked.visit.say(f"The key of {_revoke(asked)} is over.")
    except OutlastError as error:
        asked.visit.say(said_of(error))
    return "/keys"


def _own(asked: PageRequest) -> Any:
    assert asked.exchange.identity is not None
    return asked.exchange.identity.key


def _make(asked: PageRequest) -> dict[str, Any]:
    form, identity = asked.form, asked.exchange.identity
    assert identity is not None
    scopes = [each.strip() for each in form.get("scopes", "").split(",") if each.strip()]
    roles, ends = asked.many.get("role", []) or ["read"], form.get("ends", "").strip() or None
    noting = noting_key(asked.outlast("key_list"), "made")
    made = asked.exchange.state.keys.create(
        form.get("actor", "").strip(), tenant=identity.tenant, roles=roles, expires=ends, scopes=scopes, noting=noting
    )
    return {"actor": made.key.actor, "roles": made.key.roles, "text": made.text}


def _revoke(asked: PageRequest) -> str:
    """Whose key it was. Raises Forbidden for a key of another tenant, in the words for one that there is not."""
    known = {key.id: key for key in asked("key_list").items}
    if asked.form.get("key", "") not in known:
        raise Forbidden("there is no such key", "look at the list again")
    noting = noting_key(asked.outlast("key_list"), "revoked")
    return str(asked.exchange.state.keys.revoke(asked.form["key"], noting).actor)


# -- who did what ----------------------------------------------------------------------------------------


def acts(asked: PageRequest) -> dict[str, Any]:
    """What people did, the newest first: a page, and the way further back."""
    wanted = {name: asked.query[name] for name in ("by", "kind", "since", "cursor") if name in asked.query}
    found = asked("home_acts", **wanted, **asked.in_scope, limit=ACTS)
    return {
        "acts": found.items,
        "looked_at": found.looked_at,
        "kinds": [kind for kind in ACT_KINDS if asked.may("admin") or kind not in ACTS_OF_ADMINS],
        "is_asked": any(asked.query.get(name) for name in ("by", "kind", "since", "scope")),
        "is_first": "cursor" not in wanted,
        "next": asked.link(cursor=found.next) if found.next else "",
        "command": " ".join(["outlast acts", *(f"--{name} {word(text)}" for name, text in asked.query.items())]),
        "json": f"/v1/acts{asked.link().removeprefix('/acts')}",
    }
