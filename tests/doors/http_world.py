"""A tenant with one of everything, and how each call of the table is asked about it.

Requests are made from the table itself: a call with a parameter that nobody thought of here fails its tests.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from outlast import Outlast
from outlast.doors.http.app import CALLS
from outlast.operations.operation import Operation
from outlast.runs.claim import run_fact
from outlast.runs.waits.stored import append_notes
from outlast.store.contract import Writing

from .server import Reply, Served

FLOWS = tuple(str(Path(__file__).with_name(name)) for name in ("http_flows.py", "http_command.yaml"))
MARK = "tangerine"  # stands in all that the tenant stores, and in no name that it is asked for by
ACTOR = f"ann-{MARK}"
BLOB = f"{MARK} in a file".encode()
DIGEST = hashlib.sha256(BLOB).hexdigest()
HANDOFF: dict[str, Any] = {
    "anchor": "task:repair",
    "summary": f"Stopped at {MARK}",
    "handoff_text": f"Go on at {MARK} in src/export.ts.",
    "file_path": "src/export.ts",
    "symbol": MARK,
    "target_files": ["src/export.ts"],
    "next_action": f"Patch {MARK}",
    "acceptance_checks": ["npm test"],
}
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")

COMMAND_RUN = ("run_logs", "run_log")  # asked about a run of commands
# What a call is asked with, where its example and the names of its parameters do not say it.
QUERIES: dict[str, dict[str, Any]] = {
    "handoff_near": {"file_path": "src/export.ts"},
    "workspace_get": {"ref": "artifact"},
    "run_step_handoff": {"step": "noted"},
    "home_verify": {"run_id": "run_id"},
    "run_log": {"step": "say", "attempt": 1},
    "run_displaced_content": {"path": "notes.md"},
    "workspace_versions": {"name": "report.md"},
    "workspace_upload": {"name": "other.md"},
    "workspace_content": {"ref": "artifact"},
    "workspace_diff": {"before": "checkpoint", "after": "checkpoint_2"},
    "session_window": {"tokens": 1000},
    "home_events": {"after": 0},
}
BODIES: dict[str, dict[str, Any]] = {
    "handoff_store": {"scope": None},
    "handoff_recover": {"scope": None},
    "handoff_lint": {},
    "handoff_settle": {"outcome": "released", "missing": ["which one"]},
    "run_start": {"flow": "doubling", "inputs": {"number": 2}, "task": None},
    "run_resume": {"accept": [], "why": ""},
    "run_outputs_restore": {"step": None},
    "interrupt_answer": {"resume": False},
    "signal_send": {"task": None, "run_id": "run_id"},
    "workspace_link": {"source": "record", "relation": "derived_from", "target": "record_2"},
    "workspace_recall": {"goal": "the word that stands everywhere"},
    "session_open": {"session_id": None},
    "schedule_add": {"flow": "doubling", "inputs": {"number": 2}},
}


@dataclass
class World:
    """One tenant, its keys, and what is in it by the names of parameters."""

    server: Served
    tenant: str
    owner: str
    ids: dict[str, str] = field(default_factory=dict)

    def path_of(self, call: Operation, known: Mapping[str, str] | None = None) -> str:
        known = self.known(call) if known is None else known
        slash = {name: "/" if f"{{{name}:path}}" in call.path else "" for name in _PARAMETER.findall(call.path)}
        path = _PARAMETER.sub(lambda found: quote(known[found[1]], safe=slash[found[1]]), call.path)
        query = urlencode(self.query_of(call))
        return f"{path}?{query}" if query else path

    def known(self, call: Operation) -> dict[str, str]:
        other = {"run_id": self.ids["command_run"]} if call.name in COMMAND_RUN else {}
        return self.ids | other | ({"ref": self.ids["checkpoint"]} if call.name == "workspace_get_checkpoint" else {})

    def query_of(self, call: Operation) -> dict[str, Any]:
        """What is needed, by the call's name or the parameter's."""
        given = {name: self.ids.get(str(value), value) for name, value in QUERIES.get(call.name, {}).items()}
        needed = [each.name for each in msgspec.structs.fields(call.query) if each.required and each.name not in given]
        return {name: self.ids[name] for name in needed} | given

    def body_of(self, call: Operation) -> dict[str, Any] | None:
        """The call's example, about what is in the tenant."""
        if call.body is None:
            return None
        names = call.body.__struct_fields__
        given = (call.example or {}) | {name: self.ids[name] for name in ("anchor",) if name in names}
        given |= {"scope": None} if "scope" in names else {}
        given |= {name: self.ids.get(str(value), value) for name, value in BODIES.get(call.name, {}).items()}
        return {name: value for name, value in given.items() if value is not None and name != "tenant_id"}

    def ask(self, call: Operation, key: str | None, **change: Any) -> Reply:
        """Make a call with a key; `change` goes into the body, `headers` to the headers, `query` to the query."""
        headers, path = dict(change.pop("headers", {})), self.path_of(call)
        if more := urlencode(change.pop("query", {})):
            path = f"{path}{'&' if '?' in path else '?'}{more}"
        if call.takes != "application/json":
            headers["content-type"] = call.takes
            return self.server.ask(call.method, path, key=key, headers=headers, raw=b"something else")
        body = self.body_of(call)
        names = call.body.__struct_fields__ if call.body else ()
        sent = None if body is None else body | {name: value for name, value in change.items() if name in names}
        return self.server.ask(call.method, path, sent, key=key, headers=headers)


def world(server: Served, tenant: str) -> World:
    """Fill a tenant, over HTTP as its owner would."""
    found = World(server, tenant, server.keys().create(ACTOR, tenant=tenant, roles=["admin"]).text)
    _runs(found)
    _displaced(found)
    _shared(found)
    _workspace(found)
    _session(found)
    _handoffs(found)
    return found


def post(found: World, path: str, body: dict[str, Any]) -> Any:
    reply = found.server.post(path, body, key=found.owner)
    assert reply.status in (200, 202), (path, reply.raw)
    return reply.json


def _runs(found: World) -> None:
    wait = min(30.0, found.server.settings.wait_seconds)
    waiting = post(found, f"/v1/runs?wait={wait}", {"flow": "noting", "inputs": {"text": MARK}})
    assert waiting["status"] == "waiting", waiting
    said = post(found, f"/v1/runs?wait={wait}", {"flow": "say_it", "inputs": {"word": MARK}})
    assert said["status"] == "succeeded", said
    found.ids |= {
        "queue": "agents",
        "limit": "api",
        "name": "weekly",
        "command_run": said["run_id"],
        "run_id": waiting["run_id"],
        "interrupt_id": waiting["interrupts"][0]["id"],
    }


def _shared(found: World) -> None:
    """A limit and a schedule."""
    put = {"/v1/limits/api": {"concurrency": 2}}
    put["/v1/schedules/weekly"] = {"flow": "doubling", "inputs": {"number": 2}, "cron": "0 7 * * MON"}  # type: ignore[dict-item]
    for path, body in put.items():
        assert found.server.ask("PUT", path, body, key=found.owner).status == 200, path


def _displaced(found: World) -> None:
    """A file that gave way, as an attempt's start notes it."""
    with Outlast(found.server.home, tenant=found.tenant) as outlast:
        home, run_id = outlast._executor.home, found.ids["run_id"]
        blob = home.blobs.put(MARK.encode())
        fact = run_fact("displaced", {"step": MARK, "files": {"notes.md": blob}}, epoch=1, at=home.clock.now())

        def work(tx: Writing) -> None:
            run, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
            assert run is not None
            assert lease is not None
            append_notes(tx, run, lease, [fact._replace(blobs=(blob,))])

        home.store.write(work)


def _workspace(found: World) -> None:
    space = "/v1/workspace"
    saved = post(found, f"{space}/artifacts", {"name": "report.md", "content": f"# {MARK}", "summary": MARK})
    said = {"kind": "note", "text": f"We saw the {MARK}, the word that stands everywhere.", "refs": [saved["ref"]]}
    records = [post(found, f"{space}/records", said)["ref"] for _ in range(2)]
    post(found, f"{space}/links", {"source": records[0], "relation": "supports", "target": records[1], "note": MARK})
    pins = [{"name": name, "task": "repair", "summary": MARK, "refs": [saved["ref"]]} for name in ("one", "two")]
    pinned = [post(found, f"{space}/checkpoints", pin)["id"] for pin in pins]
    found.ids |= {"ref": records[0], "record": records[0], "record_2": records[1]}
    found.ids |= {"artifact": saved["ref"], "checkpoint": pinned[0], "checkpoint_2": pinned[1]}


def _session(found: World) -> None:
    session = post(found, "/v1/sessions", {"session_id": "support-17", "meta": {"about": MARK}})
    path = f"/v1/sessions/{session['id']}"
    post(found, f"{path}/messages", {"role": "user", "content": f"Where is my {MARK}?"})
    memo = found.server.ask("PUT", f"{path}/memo", {"text": f"About a {MARK}.", "upto": 0}, key=found.owner)
    assert memo.status == 200, memo.raw
    found.ids["session_id"] = session["id"]


def _handoffs(found: World) -> None:
    task = "/v1/tasks/repair"
    post(found, f"{task}/open", {"meta": {"about": MARK}})
    post(found, f"{task}/events", {"name": "assigned", "body": {"to": MARK}})
    stored = post(found, f"{task}/pause", {name: value for name, value in HANDOFF.items() if name != "anchor"})
    headers = {"content-type": "application/octet-stream"}
    kept = found.server.ask("PUT", f"/v1/handoff/blobs/{DIGEST}", raw=BLOB, key=found.owner, headers=headers)
    assert kept.status == 200, kept.raw
    found.ids |= {"task_id": "repair", "anchor": "task:repair", "handoff_id": stored["handoff"]["id"]}
    found.ids["digest"] = DIGEST


def reads(call: Operation) -> bool:
    """Whether it only looks, as the requests of a World make it."""
    return call.role == "read" or call.name == "handoff_recover"


def told_by(reply: Reply) -> bytes:
    """All that an answer says."""
    return json.dumps(dict(reply.headers)).encode() + reply.raw


OF_THE_KEY = ("stream_token",)  # is about who asks, and other every time
LOOKS = [call for call in CALLS if reads(call) and call.name not in OF_THE_KEY]
WRITES = [call for call in CALLS if not reads(call)]
