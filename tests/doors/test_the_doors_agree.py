"""The same asked of every door has the same answer, or is refused by the same code: valid, wrong and odd requests."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from outlast import Outlast
from outlast.operations.fields import Json
from outlast.operations.observed import SEEN
from outlast.operations.operation import WHOSE, Operation
from outlast.operations.options import _plain
from outlast.operations.shown import AnsweredWait
from outlast.operations.table import OPERATIONS
from outlast.python.named_flows import find_flow

from .every_door import Asked, Doors, agreed, every_door, is_well_formed
from .http_world import FLOWS


def _without(said: Json, *names: str) -> Json:
    return {name: value for name, value in said.items() if name not in names}


def _at_task(method: str) -> Any:
    def calls(outlast: Outlast, said: Json) -> Any:
        whose = {name: said[name] for name in ("task_id", "claim_id") if name in said}
        return getattr(outlast.tasks.session(**whose), method)(**_without(said, *whose))

    return calls


def _runs(outlast: Outlast, said: Json) -> Any:
    renamed = {"actor": said["started_by"]} if "started_by" in said else {}
    return outlast.runs(**_without(said, "started_by"), **renamed)


def _open(outlast: Outlast, said: Json) -> Any:
    return outlast.tasks.get(outlast.tasks.open(**said).task_id)


def _is_open(said: Json) -> bool:
    """By its tool and its command a task that is new is opened."""
    return said.get("task_id") == "known"


def _start(outlast: Outlast, said: Json) -> Any:
    options = {name: said[name] for name in ("task", "session", "trace_id", "meta", "fresh") if name in said}
    tagged = outlast.with_options(tags=said["tags"]) if "tags" in said else outlast
    return tagged.run(_flow(said["flow"]), **options, **said["inputs"])


def _flow(name: str) -> Any:
    return find_flow(f"{FLOWS[0]}:{name}", None)


TABLE = {
    "run_start": Asked(
        ("run",),
        ("flow", "inputs"),
        "run_start",
        calls=_start,
        in_query={"wait": 30},
        spelt={"flow": lambda name: f"{FLOWS[0]}:{name}"},
        by_tool=lambda said: "fresh" not in said,
    ),
    "run_list": Asked(("runs",), tool="run_list", items="runs", calls=_runs),
    "run_get": Asked(("show",), ("run_id",), "run_show"),
    "run_events": Asked(("events",), ("run_id",), "run_events", "events"),
    "run_abort": Asked(("abort",), ("run_id",), "run_abort"),
    "run_skip": Asked(("skip",), ("run_id", "step"), "run_skip"),
    "run_retry": Asked(("retry",), ("run_id", "step"), "run_retry"),
    "run_rewind": Asked(("rewind",), ("run_id", "step"), "run_rewind"),
    "interrupt_inbox": Asked(calls=lambda o, said: o.inbox(**said)),
    "interrupt_answer": Asked(
        ("answer",),
        ("interrupt_id", "answer"),
        "interrupt_answer",
        beside={"resume": False},
        calls=lambda o, said: AnsweredWait(o.answer(**said)),
        by_command=lambda said: said.get("interrupt_id") != "$wait",  # it tells of the run that it decided about
    ),
    "signal_send": Asked(("signal",), ("name", "body"), "signal_send"),
    "handoff_store": Asked(("handoff", "store"), ("anchor",), "handoff_store"),
    "handoff_recover": Asked(("handoff", "recover"), ("anchor",), "handoff_recover"),
    "handoff_claim": Asked(("handoff", "claim"), ("anchor",)),
    "handoff_settle": Asked(("handoff", "settle"), ("anchor", "outcome"), "handoff_settle"),
    "handoff_lint": Asked(("handoff", "lint"), ("anchor",), by_command=lambda said: set(said) != {"anchor"}),
    "handoff_list": Asked(("handoff", "list"), items="handoffs", flags=("standing",)),
    "handoff_history": Asked(("handoff", "history"), ("anchor",), items="history"),
    "workspace_save": Asked(
        tool="workspace_save",
        calls=lambda o, said: o.workspace.save(**said),
    ),
    "workspace_record": Asked(("workspace", "record"), ("kind", "text"), "workspace_record"),
    "workspace_records": Asked(
        ("workspace", "records"), ("ref",), items="records", by_command=lambda said: said.get("ref") != "$record"
    ),
    "workspace_link": Asked(("workspace", "link"), ("source", "relation", "target"), "workspace_link"),
    "workspace_links": Asked(("workspace", "links"), ("ref",), items="links"),
    "workspace_why": Asked(("workspace", "why"), ("ref",), "workspace_why"),
    "workspace_get": Asked(("workspace", "get"), ("ref",), "workspace_get"),
    "workspace_list": Asked(("workspace", "list"), items="artifacts"),
    "workspace_versions": Asked(("workspace", "versions"), ("name",), items="artifacts"),
    "workspace_checkpoint": Asked(("workspace", "checkpoint"), ("name",), "checkpoint_record"),
    "workspace_checkpoints": Asked(("workspace", "checkpoints"), items="checkpoints"),
    "workspace_recall": Asked(("workspace", "recall"), ("goal",), "workspace_recall"),
    "task_open": Asked(("task", "open"), ("task_id",), calls=_open),
    "task_list": Asked(("task", "list"), items="tasks"),
    "task_inspect": Asked((), calls=_at_task("inspect_task_context")),
    "task_pause": Asked(
        ("task", "pause"),
        ("task_id",),
        "task_pause",
        by_tool=_is_open,
        by_command=_is_open,
        calls=_at_task("pause_task"),
    ),
    "task_resume": Asked(("task", "resume"), ("task_id",), "task_resume", calls=_at_task("resume_task")),
    "task_complete": Asked(("task", "complete"), ("task_id",), "task_complete", calls=_at_task("complete_task")),
    "task_record": Asked(("task", "event"), ("task_id", "name", "body"), calls=_at_task("record_event")),
    "session_open": Asked(()),
    "session_append": Asked(
        ("session", "append"),
        ("session_id", "content"),
        "session_append",
        texts=("content",),
        by_command=lambda said: "role" in said and said.get("run_id", "$run") == "$run",
    ),
    "session_window": Asked(("session", "window"), ("session_id",), "session_window"),
    "session_list": Asked(("session", "list"), items="sessions"),
    "session_get": Asked(()),
    "session_set_memo": Asked(
        ("session", "memo"), ("session_id", "text"), items="memo", by_command=lambda said: "text" in said
    ),
}

ODD = [
    *(
        "",
        " ",
        "a b",
        "it's",
        '"quoted"',
        "../up",
        "/etc/passwd",
        "🦀 émoji",
        "x" * 10_000,
        "a/b",
        "two\nlines",
        "-dash",
    ),
    *("@at", "{brace", "%2e%2e", "null", "true", "7", "\x1b[31mred", "$(ls)", "a\\b", "\u202egnat", "default", "a@1"),
]
NUMBERS = [0, 1, 2, 50, 1000, -1, 10**6, 2**70]
# What makes sense, by the name of a field.
SENSIBLE: dict[str, list[Any]] = {
    "flow": ["doubling", "failing", "noting"],
    "run_start.flow": ["doubling", "failing", "noting"],
    "inputs": [{"number": 2}, {"text": "🦀"}, {}, {"number": "two"}, {"numbr": 2}],
    "run_id": ["$run", "$waiting"],
    "step": ["double", "noted", "approval"],
    "interrupt_id": ["$wait"],
    "answer": [{"approved": True}, {"approved": False, "comment": "no"}, True, "yes", {"approved": "maybe"}],
    "body": [None, {"a": 1}, "text", 3],
    "anchor": ["task:known", "part:two"],
    "run_events.limit": [1, 2, 50],
    "handoff_claim.anchor": ["$unclaimed", *(f"never {odd}" for odd in ODD)],
    "ref": ["$record", "$artifact", "report.md"],
    "source": ["$record", "$artifact"],
    "target": ["$record"],
    "refs": [["$artifact"], ["$record", "$artifact"]],
    "name": ["report.md", "notes.txt", "paid"],
    "task": ["known", "other"],
    "task_id": ["known", "fresh one"],
    "session_id": ["talk", "talk 2"],
    "content": ["some text", "Zeilen\nmehr"],
    "goal": ["what was seen"],
    "text": ["what was seen", "tides"],
    "since": ["7d", "2020-01-01T00:00:00Z"],
    "until": ["7d", "2020-01-01T00:00:00Z"],
    "limit": [1, 2, 50, -1],
    "after": [0, 1],
    "tokens": [500, 100],
    "why": ["because"],
    "expires": ["48h"],
    "baseline": [False],
    "acceptance_checks": [["true"], []],
    "kinds": [["observation"], ["nothing of ours"], ["artifact", "note"]],
}
NOT_ASKED = {  # what means another thing by one door: files, cursors of its own, claims, waiting
    *WHOSE, *SEEN,
    "operation_id", "cursor", "listing", "wait", "follow", "claim_id", "repo_root", "target_files", "file_path",
    "creates", "environment", "content_base64", "baseline", "execution_state_v1", "execution_packet_v1", "looks",
    "supersedes", "evidence", "branch", "look", "at", "stop_run", "run_checks", "must_change", "must_keep",
    "must_remove", "rollback", "bind", "resume", "all", "handoff_id", "symbol", "revision", "claim", "effects",
    "acceptance_checks", "again", "yes", "queue", "priority", "delay", "queue_timeout",
}  # fmt: skip
NEEDED = {"handoff_recover": ("anchor",), "run_start": ("inputs",)}  # though it may be left out
OF_SCOPE = {"scope": "$scope"}  # which is that of the door only where it is named
ALWAYS: dict[str, Json] = {
    "handoff_store": {"bind": False},
    "task_pause": {"bind": False},
    "run_list": OF_SCOPE,
    "interrupt_inbox": OF_SCOPE,
}


def _right(operation: str, name: str, kind: Any) -> st.SearchStrategy[Any]:
    """A value of the field's type: one that makes sense, or an odd one."""
    if f"{operation}.{name}" in SENSIBLE:
        return st.sampled_from(SENSIBLE[f"{operation}.{name}"])
    (first, *_) = (each for each in _plain(kind) if each is not type(None))
    known = st.sampled_from(SENSIBLE[name]) if name in SENSIBLE else st.nothing()
    sensible = known | known | known  # mostly
    if getattr(first, "__origin__", None) is tuple:
        return sensible | st.lists(st.sampled_from(ODD), max_size=2)
    if first is bool:
        return st.booleans()
    if first is int:
        return sensible if name in SENSIBLE else st.sampled_from(NUMBERS)
    if first is dict or getattr(first, "__origin__", None) is dict:
        return sensible if name in SENSIBLE else st.sampled_from([{}, {"a": [1, "two"]}, {"": None}])
    if hasattr(first, "__args__"):
        return sensible | st.sampled_from([*first.__args__, "nothing of ours", ""])
    return sensible | st.sampled_from(ODD)


WRONG = st.sampled_from([3, 2.5, True, ["x"], {"a": 1}, "word"])


@st.composite
def requests(draw: st.DrawFn, operation: Operation) -> Json:
    """A request: mostly what the operation takes, sometimes with a field that is wrong, unknown or missing."""
    fields = [each for each in msgspec.structs.fields(operation.request) if each.name not in NOT_ASKED]
    needed = [each.name for each in fields if each.required or each.name in NEEDED.get(operation.name, ())]
    chosen = [each for each in fields if each.name in needed or draw(st.integers(0, 3)) == 0]
    said = {each.name: draw(_right(operation.name, each.name, each.type)) for each in chosen}
    match draw(st.integers(0, 9)):
        case 0:
            said["nonsense"] = "x"
        case 1 if chosen and operation.name not in NEEDED:
            said.pop(draw(st.sampled_from(chosen)).name)
        case 2 if chosen:
            said[draw(st.sampled_from(chosen)).name] = draw(WRONG)
    return said | ALWAYS.get(operation.name, {})


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with every_door(tmp_path_factory.mktemp("home") / "home", TABLE) as found:
        for door in found.all:
            _furnish(found, door.name, door.known)
        yield found


def _furnish(doors: Doors, scope: str, known: dict[str, str]) -> None:
    """One of each, the same in every scope."""
    with doors.server.opened(scope=scope) as outlast:
        space = outlast.workspace
        known["artifact"] = space.save("report.md", "# Tides\n", summary="what was seen").ref
        known["record"] = space.record("observation", "The tide was seen at noon.").ref
        for anchor in ("task:known", "part:two"):
            outlast.handoff.store(
                anchor=anchor, summary="Stopped", handoff_text="Go on.", next_action="Go.", bind=False
            )
        outlast.tasks.open("known")
        outlast.sessions.append("talk", "user", "Where were we?")
        known["run"] = outlast.run(_flow("doubling"), number=2).run_id
    _anew(doors, scope, known)


def _anew(doors: Doors, scope: str, known: dict[str, str]) -> None:
    """A run that waits, which nobody decided about yet."""
    with doors.server.opened(scope=scope) as outlast:
        known["unclaimed"] = f"unclaimed {1 + int(known.get('unclaimed', '0').rpartition(' ')[2])}"
        waiting = outlast.run(_flow("noting"), text=known["unclaimed"])
        known["waiting"], known["wait"] = waiting.run_id, waiting.interrupts[0].id
        outlast.handoff.store(anchor=known["unclaimed"], summary="Stopped", handoff_text="Go on.", bind=False)


def prepare(doors: Doors, said: Json) -> None:
    """What a request may change is there anew for each."""
    if {"$waiting", "$wait", "$unclaimed"} & {str(each) for each in said.values()}:
        for door in doors.all:
            _anew(doors, door.name, door.known)


@pytest.mark.parametrize("name", TABLE)
def test_every_door_answers_the_same(doors: Doors, name: str, request: pytest.FixtureRequest) -> None:
    long = request.config.getoption("--crash-long")
    many = 200 if long else 8

    @settings(
        max_examples=many,
        derandomize=not long,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=(Phase.generate,),  # what happened before belongs to it: there is nothing to shrink
    )
    @given(requests(OPERATIONS[name]))
    def asked(said: Json) -> None:
        prepare(doors, said)
        told = doors.told(name, said)
        assert agreed(told, well_formed=is_well_formed(OPERATIONS[name], said)), said

    asked()
