"""`--json` of a command is the answer of its operation, as HTTP gives it, and what a table says stands beside it."""

import contextlib
import inspect
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from outlast.doors.cli import main
from outlast.doors.cli.group import CommandGroup, cli
from outlast.operations.fields import Json
from outlast.operations.operation import Operation
from outlast.operations.options import BESIDE, INSTEAD
from outlast.operations.table import OPERATIONS

FLOWS = """
from outlast import Run, flow, step

@step
def one(n: int) -> int:
    return n

@flow
def fine(run: Run, n: int = 1) -> int:
    return one(n)

@flow
def asking(run: Run, n: int = 1) -> bool:
    one(n)
    return run.pause_for("approval", payload={"q": "ok?"})["approved"]
"""
COMMANDS = "flow: printing\nsteps:\n  - id: say\n    run: echo hi | tee out.txt\n    writes: [out.txt]\n"
STORED = ("-m", "Stopped", "--text", "Go on.", "--next", "Go", "--check", "true", "--no-bind")


class Place:
    """A home with one of each, and the commands that ask about it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder = folder / ".outlast", folder

    def __call__(self, *words: str) -> Json:
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit):
            main([*words, "--json", "--home", str(self.home)])
        out.seek(0)
        found: Json = json.loads(out.read().splitlines()[-1])
        assert "error" not in found or "status" in found, found
        return found

    def furnish(self) -> None:
        (self.folder / "flows.py").write_text(FLOWS)
        (self.folder / "printing.yaml").write_text(COMMANDS)
        (self.folder / "many.jsonl").write_text('{"kind": "note", "text": "a"}\n')
        (self.folder / "report.md").write_text("# Report")
        self.fine = self("run", "flows.py:fine")["run_id"]
        self.waits = self("run", "flows.py:asking")
        self.printed = self("run", "printing.yaml")["run_id"]
        self("run", "flows.py:fine", "n=7", "--queue", "slow")
        self.artifact = self("workspace", "save", "report.md", "report.md")["ref"]
        self.record = self("workspace", "record", "note", "seen")["ref"]
        self.before, self.after = (self("workspace", "checkpoint", name, "--task", "t")["id"] for name in "ab")
        self("session", "append", "talk", "hello")
        for anchor in ("h", "again"):
            self("handoff", "store", anchor, *STORED)
        for task in ("known", "left"):
            self("task", "open", task)
        self("task", "pause", "left", *STORED)
        for name in ("nightly", "gone"):
            self("schedule", "add", name, "flows.py:fine", "--cron", "0 3 * * *")
        self("limit", "set", "gone", "--concurrency", "2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place(tmp_path_factory.mktemp("place"))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(found.folder)
        patched.delenv("OUTLAST_HOME", raising=False)
        found.furnish()
        yield found


Words = Callable[[Place], tuple[str, ...]]
ASKED: dict[str, Words] = {  # an operation, and a command that is it
    "handoff_store": lambda p: ("handoff", "store", "new", *STORED),
    "handoff_lint": lambda p: ("handoff", "lint", "h"),
    "handoff_recover": lambda p: ("handoff", "recover", "h", "--prompt"),
    "handoff_verify": lambda p: ("handoff", "verify", "h"),
    "handoff_list": lambda p: ("handoff", "list"),
    "handoff_history": lambda p: ("handoff", "history", "h"),
    "handoff_claim": lambda p: ("handoff", "claim", "again"),
    "run_start": lambda p: ("run", "flows.py:fine", "n=8", "--queue", "slow"),
    "run_resume": lambda p: ("resume", p.waits["run_id"]),
    "run_list": lambda p: ("runs",),
    "run_get": lambda p: ("show", p.fine),
    "run_events": lambda p: ("events", p.fine),
    "run_receipts": lambda p: ("receipts", p.fine),
    "run_displaced": lambda p: ("displaced", p.printed),
    "run_fork": lambda p: ("fork", p.fine, "--from", "one"),
    "run_abort": lambda p: ("abort", p("run", "flows.py:asking", "n=9")["run_id"], "--why", "w"),
    "signal_send": lambda p: ("signal", "paid", "--task", "t"),
    "workspace_upload": lambda p: ("workspace", "save", "again.md", "report.md"),
    "workspace_get": lambda p: ("workspace", "get", p.artifact, "--output", "copy.md"),
    "workspace_list": lambda p: ("workspace", "list"),
    "workspace_versions": lambda p: ("workspace", "versions", "report.md"),
    "workspace_checkpoint": lambda p: ("workspace", "checkpoint", "c", "--task", "t"),
    "workspace_checkpoints": lambda p: ("workspace", "checkpoints"),
    "workspace_diff": lambda p: ("workspace", "diff", p.before, p.after),
    "workspace_record": lambda p: ("workspace", "record", "note", "more"),
    "workspace_record_many": lambda p: ("workspace", "record-many", "many.jsonl"),
    "workspace_records": lambda p: ("workspace", "records"),
    "workspace_pin": lambda p: ("workspace", "pin", p.record),
    "workspace_recall": lambda p: ("workspace", "recall", "seen"),
    "workspace_link": lambda p: ("workspace", "link", p.record, "supports", p.artifact),
    "workspace_links": lambda p: ("workspace", "links", p.record),
    "workspace_why": lambda p: ("workspace", "why", p.record),
    "session_append": lambda p: ("session", "append", "talk", "again"),
    "session_list": lambda p: ("session", "list"),
    "session_messages": lambda p: ("session", "show", "talk"),
    "session_window": lambda p: ("session", "window", "talk", "--tokens", "500"),
    "task_open": lambda p: ("task", "open", "other"),
    "task_list": lambda p: ("task", "list"),
    "task_record": lambda p: ("task", "event", "known", "noted", '{"a": 1}'),
    "task_inspect_seen": lambda p: ("task", "inspect", "known"),
    "task_pause": lambda p: ("task", "pause", "known", *STORED),
    "task_resume": lambda p: ("task", "resume", "left"),
    "queue_list": lambda p: ("queue", "list"),
    "queue_pause": lambda p: ("queue", "pause", "slow", "--operation-id", "once"),
    "queue_move": lambda p: ("queue", "move", "slow", "--to", "outlast"),
    "queue_resume": lambda p: ("queue", "resume", "slow"),
    "schedule_add": lambda p: ("schedule", "add", "hourly", "flows.py:fine", "--cron", "0 * * * *"),
    "schedule_list": lambda p: ("schedule", "list"),
    "schedule_pause": lambda p: ("schedule", "pause", "nightly"),
    "schedule_resume": lambda p: ("schedule", "resume", "nightly"),
    "schedule_trigger": lambda p: ("schedule", "trigger", "nightly"),
    "schedule_remove": lambda p: ("schedule", "remove", "gone"),
    "limit_set": lambda p: ("limit", "set", "openai", "--concurrency", "2"),
    "limit_list": lambda p: ("limit", "list"),
    "limit_remove": lambda p: ("limit", "remove", "gone"),
    "worker_list": lambda p: ("workers",),
    "home_acts": lambda p: ("acts",),
    "home_verify": lambda p: ("verify",),
}
NOT_ASKED = {  # operations with a command whose answer is not compared here, and why
    "interrupt_answer": INSTEAD["answer"],
    "interrupt_inbox": INSTEAD["inbox"],
    "home_events": INSTEAD["watch"],
    "run_logs": INSTEAD["logs"],
    "run_outputs_restore": INSTEAD["outputs"],
    "session_set_memo": INSTEAD["session memo"],
    "run_pause": "it needs a run that goes on; it answers as abort does",
    "run_retry": "it answers as abort does",
    "run_rewind": "it answers as abort does",
    "run_skip": "it answers as abort does",
    "handoff_renew": "it answers as claim does",
    "handoff_settle": "it is compared by test_the_doors_agree",
    "task_complete": "it is compared by test_the_doors_agree",
}


def keys_of(operation: Operation) -> set[str]:
    return {each.encode_name for each in msgspec.structs.fields(operation.answer.shape)}


@pytest.mark.parametrize("name", ASKED)
def test_what_a_command_prints_is_the_answer_of_its_operation_and_what_the_table_says(place: Place, name: str) -> None:
    operation, found = OPERATIONS[name], place(*ASKED[name](place))
    beside = BESIDE.get(name, {}).keys() - ({"error"} if name == "run_events" else set())
    if not operation.items:
        assert found.keys() == keys_of(operation) | beside
        return
    assert found.keys() == {operation.items} | beside
    for item in found[operation.items]:
        assert item.keys() == keys_of(operation)


def test_every_operation_that_has_a_command_is_asked_or_it_is_said_why_not() -> None:
    taken = {getattr(found, "of", "") for found in every_command(cli)} - {""}
    assert ASKED.keys() | NOT_ASKED.keys() == taken
    assert not ASKED.keys() & NOT_ASKED.keys()
    assert BESIDE.keys() <= taken


def test_a_wait_of_the_inbox_is_what_http_gives_and_the_commands_that_answer_it(place: Place) -> None:
    found = place("inbox")
    assert found.keys() == {"waits"} | BESIDE["interrupt_inbox"].keys()
    wait = keys_of(OPERATIONS["interrupt_get"])
    assert all(each.keys() == wait | {"task", "flow", "scope", "commands"} for each in found["waits"])


def test_the_plan_and_the_timeline_and_the_logs_are_those_of_their_operations(place: Place) -> None:
    plan = place("resume", place.waits["run_id"], "--dry-run")
    assert plan.keys() == keys_of(OPERATIONS["run_plan"]) | {"status"}
    (*_, last) = place("show", place.fine, "--timeline")["timeline"]
    assert last.keys() == keys_of(OPERATIONS["run_timeline"])
    (log,) = place("logs", place.printed)["logs"]
    assert log.keys() == keys_of(OPERATIONS["run_logs"]) | {"text"}
    (output,) = place("outputs", place.printed)["outputs"]
    assert output.keys() == keys_of(OPERATIONS["run_outputs"])


def test_no_command_shapes_an_answer_by_hand() -> None:
    """A value becomes JSON in operations/shown.py."""
    folder = Path(inspect.getfile(cli.__class__)).parent
    found = [
        path.name
        for path in folder.rglob("*.py")
        if re.search(r"jsonable|to_builtins|def \w+_json\(", path.read_text())
    ]
    assert found == ["render.py"]  # which shows JSON that people gave, on one line


def every_command(group: CommandGroup) -> Iterator[click.Command]:
    for name in group.lines:
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield from every_command(found) if isinstance(found, CommandGroup) else [found]


def test_a_command_takes_every_option_that_it_has() -> None:
    shared = {"home", "blobs", "tenant", "scope", "acting", "as_json", "raw"}
    for found in every_command(cli):
        function: Any = inspect.unwrap(found.callback or print)
        taken = inspect.signature(function).parameters
        if not any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            assert {each.name for each in found.params} - shared == taken.keys() - {"call"} - shared, found.name
