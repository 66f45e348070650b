"""Needs you: everything that waits for a person, the oldest first; and one such thing with its form."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from msgspec import Struct

from outlast.doors.console.asked import said_of
from outlast.doors.console.preview import left_of, shown_values
from outlast.errors import OutlastError, RequestInvalid
from outlast.ids import random_id

if TYPE_CHECKING:
    from outlast import Interrupt, Listed, RunRecord
    from outlast.doors.console.asked import PageRequest
    from outlast.python.handoffs import Inbox

SHOWN = 50
JUDGED_SECONDS = 5
FAILED = ("failed", "crashed")


class Need(Struct, frozen=True):
    """One thing that waits for a person."""

    kind: str  # approval, in_doubt, …, contested, failed, crashed
    says: str
    since: datetime
    link: str
    run: str = ""
    flow: str = ""
    task: str = ""
    due: datetime | None = None
    wait: Interrupt | None = None
    assignee: str = ""


def needs(asked: PageRequest) -> dict[str, Any]:
    """What the page shows."""
    kind = asked.query.get("kind", "")
    found = sorted(_all(asked), key=lambda need: need.since)
    beyond = [status for status in FAILED if sum(need.kind == status for need in found) >= SHOWN]
    chosen = [need for need in found if kind in ("", need.kind)]
    return {
        "needs": chosen[:SHOWN],
        "total": len(found),
        "more": max(len(chosen) - SHOWN, 0),
        "counts": dict(sorted(Counter(need.kind for need in found).items())),
        "kind": kind,
        "beyond": beyond,  # of these there may be more than were looked for
        "looked": len(found) <= SHOWN or kind == "contested",
        "running": asked.newest_runs(5, status="running", **asked.in_scope),
        "recent": asked.newest_runs(8, **asked.in_scope),
        "operation": random_id(),
    }


def _all(asked: PageRequest) -> list[Need]:
    inbox = asked.outlast("interrupt_inbox", **asked.in_scope).inbox(scope=asked.scope)
    found = [_of_wait(item) for item in inbox if item.interrupt.is_for_people]
    if len(inbox) <= SHOWN or asked.query.get("kind") == "contested":  # each unfinished run is judged for it
        found += [_of_handoff(one) for one in _contested(asked, inbox)]
    for status in FAILED:
        runs = asked.newest_runs(SHOWN, status=status, **asked.in_scope)
        found += [_of_run(run) for run in runs if not run.parent and not run.seal]
    return found


def _contested(asked: PageRequest, inbox: Inbox) -> list[Listed]:
    """As they were judged some seconds ago at most: a page that follows runs asks again and again."""
    return asked.kept(("contested", asked.scope, monotonic() // JUDGED_SECONDS), lambda: inbox.newest_contested)


def _of_wait(item: Any) -> Need:
    wait = item.interrupt
    says, of_run = question_of(wait) or wait.says, (wait.run_id, item.flow, item.task)
    return Need(wait.type, says, wait.opened_at, f"/inbox/{wait.id}", *of_run, wait.due_at, wait, wait.assignee)


def question_of(wait: Interrupt) -> str:
    """What a flow asks, in its own words; nothing when it said none."""
    asked = wait.payload.get("question") or wait.payload.get("message")
    return asked if isinstance(asked, str) and not wait.is_built_in else ""


def _of_handoff(one: Listed) -> Need:
    return Need("contested", f"{one.anchor}: {one.summary}", one.stored_at, handoff_link(one.anchor, one.scope))


def handoff_link(anchor: str, scope: str) -> str:
    return f"/handoff?{urlencode({'anchor': anchor, 'scope': scope})}"


def _of_run(run: RunRecord) -> Need:
    error = run.error or {}
    said = str(error.get("message") or "the process that ran it died")
    return Need(run.status, said, run.updated_at, f"/runs/{run.id}", run.id, run.flow, run.task)


# -- one of them ---------------------------------------------------------------------------------------


def item(asked: PageRequest) -> dict[str, Any]:
    """A wait with what was shown, what it rests on, and the form of its answer."""
    wait = asked("interrupt_get", interrupt_id=asked.path["interrupt_id"])
    found = asked.maybe("run_get", run_id=wait.run_id, state=False)
    run = found.run if found else None
    refs = [each for each in wait.payload.get("refs", ()) if isinstance(each, str)]
    left = left_of(asked, wait.run_id, wait.step) if wait.type == "partial" and wait.status == "open" else []
    told = {"question", "message", "refs"} | ({"left"} if left else set())
    return {
        "wait": wait,
        "run": run,
        "left": left,
        "changed": asked.query.get("changed") == "yes" and wait.status == "open",
        "void": _void(asked, wait, run),
        "choices_mean": {
            choice: MEANS.get(wait.type, {}).get(choice) or MEANS[""].get(choice, "") for choice in wait.choices
        },
        "shown": shown_values(asked, {name: value for name, value in wait.payload.items() if name not in told}),
        "question": question_of(wait),
        "fields": fields_of(wait.schema) if not wait.choices and wait.type != "approval" else [],
        "refs": [(ref, asked.maybe("workspace_why", ref=ref, depth=1)) for ref in refs[:20]],
        "is_open": wait.status == "open" and not wait.is_overdue and not (run is not None and run.finished),
        "can": asked.may("approve"),
        "by_link": asked.exchange.route.startswith("/answer/"),  # which opens the question, and no picture in it
        "operation": random_id(),
    }


MEANS: dict[str, dict[str, str]] = {  # what a choice does, in words
    "": {"abort": "give the run up for good", "skip": "go on without it, with the result below"},
    "in_doubt": {"retry": "it did not happen: do it", "skip": "it happened: go on with the result below"},
    "crash_loop": {"retry": "try it once more"},
    "partial": {
        "keep": "go on with what is there: the next attempt sees it",
        "restore": "put the files back as they were, then try again; what gives way is kept",
    },
    "inputs_changed": {"reuse": "keep what is done", "again": "do it anew"},
    "limit": {"more": "allow more rounds", "continue": "go on as it is"},
}


def _void(asked: PageRequest, wait: Interrupt, run: RunRecord | None) -> dict[str, str] | None:
    """Why no answer counts any more, although nobody gave one; None while one does, or one was given."""
    if wait.status == "cancelled":
        newer = _asked_now(asked, wait)
        why = wait.reason or "what was shown has changed, or its run went another way"
        return {"title": "This question is void.", "why": f"Nobody's answer counts any more: {why}.{newer}"}
    if wait.status == "open" and wait.is_overdue:
        counts = f"{json.dumps(wait.default)[:200]} counts instead" if wait.has_default else "its run is told so"
        return {"title": "Its deadline has passed.", "why": f"Nobody can answer it any more; {counts}."}
    if wait.status == "open" and run is not None and run.finished:
        return {"title": "This question is void.", "why": f"Its run has {run.status}."}
    return None


def _asked_now(asked: PageRequest, wait: Interrupt) -> str:
    """That the same place of the run asks something else now."""
    waits = asked.maybe("interrupt_list", run_id=wait.run_id)
    newer = next((each for each in (waits.items if waits else ()) if each.name == wait.name), None)
    return f" It asks now: {question_of(newer) or newer.says} ({newer.id})" if newer else ""


def answer(asked: PageRequest) -> str:
    """Take an answer; the page to go to."""
    interrupt_id, form = asked.path["interrupt_id"], asked.form
    back = form.get("back") or f"/inbox/{interrupt_id}"
    back = back if back.startswith("/") and not back.startswith("//") else "/"
    try:
        if form.get("do") == "cancel":
            asked("interrupt_cancel", interrupt_id=interrupt_id, why=form.get("why", ""), **once(form))
            asked.visit.say("The wait was called off.")
            return back
        if _has_changed(asked, interrupt_id):
            place = back if back.startswith(("/inbox/", "/answer/")) else f"/inbox/{interrupt_id}"
            return f"{place}?changed=yes"
        _answer(asked, interrupt_id)
    except OutlastError as error:
        asked.visit.say(said_of(error))
    return back


def _has_changed(asked: PageRequest, interrupt_id: str) -> bool:
    """Whether what is asked is not what the page showed that the answer was given on."""
    shown = asked.form.get("shown", "")
    found = asked("interrupt_get", interrupt_id=interrupt_id)
    return bool(shown) and found.status == "open" and found.digest != shown


def _answer(asked: PageRequest, interrupt_id: str) -> None:
    form = asked.form
    value = _value(asked, interrupt_id)
    shown = {"shown": form["shown"]} if form.get("shown") else {}
    done = asked("interrupt_answer", interrupt_id=interrupt_id, answer=value, **shown, **once(form))
    goes_on = done.goes_on or done.why_not.startswith(("run_held", "run_finished"))  # the same form, sent twice
    refused = f"Answered. Its run does not go on here: {done.why_not}"
    asked.visit.say("Answered; its run goes on." if goes_on else refused)


def _value(asked: PageRequest, interrupt_id: str) -> Any:
    form, why = asked.form, asked.form.get("why", "").strip()
    do = form.get("do", "")
    if do in ("approve", "decline"):
        return {"approved": do == "approve"} | ({"comment": why} if why else {})
    if do == "choose":
        said = {"choice": form.get("choice", "")} | ({"why": why} if why else {})
        return said | ({"result": result_in(form.get("result", ""))} if said["choice"] == "skip" else {})
    return answer_in(form, asked("interrupt_get", interrupt_id=interrupt_id).schema)


def result_in(text: str) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError as error:
        raise RequestInvalid("result", f"it is no JSON: {error}") from error


def once(form: Any) -> dict[str, str]:
    """A form that is sent twice does its work once."""
    return {"operation_id": f"console-{form['operation']}"} if form.get("operation") else {}


# -- the form of an answer: fields made from a JSON Schema, and what was filled in ----------------------------


MOST_FIELDS = 40
PREFIX = "answer."


class Field(Struct, frozen=True):
    """One thing to fill in."""

    name: str
    label: str
    kind: str  # text, long, number, flag, choice, json
    required: bool = False
    help: str = ""
    choices: tuple[str, ...] = ()
    value: str = ""


def fields_of(schema: Mapping[str, Any] | None) -> list[Field]:
    """The fields of a schema's object, in its order; one for the whole answer where it is no plain object."""
    if not isinstance(schema, Mapping) or not _is_plain(schema):
        return [Field(PREFIX + "json", "Answer", "json", True, "any JSON value, as the schema wants it")]
    needed = schema.get("required", ())
    return [_field(name, of, name in needed) for name, of in schema["properties"].items()]


def _is_plain(schema: Mapping[str, Any]) -> bool:
    fields = schema.get("properties")
    return (
        isinstance(fields, Mapping)
        and 0 < len(fields) <= MOST_FIELDS
        and all(isinstance(each, Mapping) and isinstance(name, str) for name, each in fields.items())
        and not any(word in schema for word in ("oneOf", "anyOf", "allOf", "not", "$ref"))
    )


def _field(name: str, of: Mapping[str, Any], required: bool) -> Field:
    label = str(of.get("title") or name)
    help, value = str(of.get("description", "")), "" if "default" not in of else _text(of["default"])
    choices = of.get("enum")
    if isinstance(choices, list) and all(isinstance(each, str) for each in choices):
        return Field(PREFIX + name, label, "choice", required, help, tuple(choices), value)
    kinds = {"boolean": "flag", "integer": "number", "number": "number"}
    if of.get("type") == "string":
        kind = "long" if of.get("maxLength", 0) > 200 or of.get("format") == "textarea" else "text"
    else:
        kind = kinds.get(str(of.get("type")), "json")
    return Field(PREFIX + name, label, kind, required, help, (), value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def answer_in(form: Mapping[str, str], schema: Mapping[str, Any] | None) -> Any:
    """What was filled in. A field that was left empty and need not be there is left out. Raises RequestInvalid."""
    fields = fields_of(schema)
    if [each.name for each in fields] == [PREFIX + "json"]:
        return _json("answer", form.get(PREFIX + "json", ""))
    found = {each.name.removeprefix(PREFIX): _filled_in(each, form.get(each.name, "")) for each in fields}
    return {name: value for name, value in found.items() if value is not _NOTHING}


_NOTHING: Any = object()


def _filled_in(field: Field, text: str) -> Any:
    if field.kind == "flag":
        return bool(text)
    if text == "" and not (field.required and field.kind in ("text", "long")):
        return _NOTHING
    return text if field.kind in ("text", "long", "choice") else _json(field.label, text)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestInvalid(name, f"it is no JSON: {error}") from error
