"""Screens of who runs it: queues and workers, schedules, the home itself, keys, and who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.console.asked import word
from outlast.doors.console.needs import once, result_in
from outlast.doors.console.render import compact, sized
from outlast.errors import Forbidden, OutlastError
from outlast.ids import random_id
from outlast.operations.runs import ACT_KINDS, ACTS_OF_ADMINS
from outlast.python.door import noting_key
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.doors.console.asked import PageRequest

SHOWN = 100  # schedules on a page
ACTS = 100  # of people, on a page

ROLES_MEAN = (
    ("read", "looks"),
    ("write", "stores, starts and resumes"),
    ("approve", "answers what waits for a person, and gets past other gates"),
    ("admin", "may do all of it, and makes keys"),
)


def _scope(asked: PageRequest) -> dict[str, Any]:
    return {"scope": asked.scope} if asked.scope else {}


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
        asked.visit.say(f"{error.detail} {error.what_next}")
    return "/queues"


# -- schedules -------------------------------------------------------------------------------------------


def schedules(asked: PageRequest) -> dict[str, Any]:
    given, found = asked.query.get("from", ""), asked("schedule_list").items
    begins = int(given) if given.isdecimal() and len(given) < 9 else 0
    return {
        "schedules": found[begins : begins + SHOWN],
        "next": asked.link(**{"from": begins + SHOWN}) if found[begins + SHOWN :] else "",
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
        asked.visit.say(f"{error.detail} {error.what_next}".strip())
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
            wrong = f"{error.detail} {error.what_next}"
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
    _refuse_others(asked)
    try:
        if asked.form.get("do") == "create":
            return {"made": _make(asked)}
        if asked.form.get("do") == "revoke":
            asked.visit.say(f"The key of {_revoke(asked)} is over.")
    except OutlastError as error:
        asked.visit.say(f"{error.detail} {error.what_next}".strip())
    return "/keys"


def _refuse_others(asked: PageRequest) -> None:
    """Raises Forbidden for who is no admin of the whole tenant: nobody makes a key that may more than his own."""
    key = _own(asked)
    if not asked.may("admin") or (key is not None and key.scopes):
        raise Forbidden("keys are made and ended by admins of the whole tenant", "ask one of them")


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
    found = asked("home_acts", **wanted, **_scope(asked), limit=ACTS)
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
