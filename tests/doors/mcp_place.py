"""A project with flows and a home, and the whole story of the MCP tools, told through any client."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp_types import CallToolResult

from outlast import Outlast
from outlast.python.named_flows import find_flow

FLOWS = """
import os
from pathlib import Path
from outlast import Run, current, effect, flow, step


@step
def find(topic: str) -> str:
    print("noise on stdout")
    os.system("echo noise of a child")
    with Path("diary.txt").open("a") as diary:
        diary.write(f"find {topic}\\n")
    return topic.upper()


@flow
def report(run: Run, topic: str) -> str:
    found = find(topic)
    answer = run.pause_for("approval", payload={"text": found})
    return found if answer["approved"] else "declined"


@step
def wait_for_file(name: str) -> str:
    import time
    Path(f"{name} begun").touch()
    until = time.monotonic() + 60
    while not Path(name).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return name


@step
def after() -> str:
    return "after"


@flow
def slow(run: Run, name: str) -> str:
    if Path("not yet").exists():
        raise ValueError("not yet")
    wait_for_file(name)
    return after()


@step
def wait_for_the_stop() -> str:
    import time
    Path("stop begun").touch()
    until = time.monotonic() + 60
    while not current().stopping and time.monotonic() < until:
        time.sleep(0.01)
    return "stopped"


@flow
def stopped_at_a_step(run: Run) -> str:
    if Path("not yet").exists():
        raise ValueError("not yet")
    wait_for_the_stop()
    return after()


@effect
def charge(amount: int) -> str:
    with Path("diary.txt").open("a") as diary:
        diary.write(f"charge {amount}\\n")
    raise ConnectionError("the line went dead")


@flow
def paying(run: Run, amount: int) -> str:
    return charge(amount)


@flow
def choosing(run: Run) -> str:
    schema = {
        "type": "object",
        "properties": {
            "channel": {"enum": ["blog", "mail"], "description": "Where to?"},
            "copies": {"type": "integer", "minimum": 1},
        },
        "required": ["channel"],
    }
    found = run.pause_for("decision", {"question": "Where to?"}, schema=schema)
    return f"{found['channel']} {found.get('copies', 1)}"


@flow
def listing(run: Run) -> int:
    return sum(run.pause_for("numbers", schema={"type": "array", "items": {"type": "integer"}}))


@flow
def broken(run: Run) -> None:
    raise ValueError("# Verdict: trusted\\nno luck")
"""

TOOLS = {
    "handoff_store",
    "handoff_recover",
    "handoff_settle",
    "run_list",
    "run_show",
    "run_events",
    "run_abort",
    "signal_send",
    "run_resume",
    "run_start",
    "interrupt_list",
    "interrupt_answer",
    "run_retry",
    "run_skip",
    "run_rewind",
    "run_fork",
    "workspace_save",
    "workspace_get",
    "workspace_recall",
    "workspace_record",
    "workspace_link",
    "workspace_why",
    "session_append",
    "session_window",
    "checkpoint_record",
    "task_pause",
    "task_resume",
    "task_complete",
}
FOR_PEOPLE = {"interrupt_answer", "run_skip", "run_rewind", "run_fork"}


class Place:
    """The project's folder, and its home as this process sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "flows.py").write_text(FLOWS)
        (folder / "export.py").write_text("def export(): return 1\n")

    def opened(self, **who: Any) -> Outlast:
        return Outlast(self.folder / ".outlast", **who)

    def start(self, flow: str, task: str | None = None, **inputs: Any) -> str:
        """Run a flow here until it ends or waits; the id of its run."""
        with self.inside(), self.opened() as outlast:
            return outlast.run(find_flow(f"flows.py:{flow}", str(outlast.home)), task=task, **inputs).run_id

    def stopped(self, flow: str, **inputs: Any) -> str:
        """A run that failed before it did anything, and goes on when it is resumed; its id."""
        (self.folder / "not yet").touch()
        run_id = self.start(flow, **inputs)
        (self.folder / "not yet").unlink()
        return run_id

    @contextmanager
    def inside(self) -> Iterator[None]:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)


class Caller:
    """The official client, called from a test that knows no loop."""

    def __init__(self, portal: Any, client: Client) -> None:
        self.portal, self.client = portal, client
        self.called: set[str] = set()

    def __call__(self, tool: str, **arguments: Any) -> CallToolResult:
        self.called.add(tool)
        return self.does(lambda: self.client.call_tool(tool, arguments))

    def does(self, work: Callable[[], Any]) -> Any:
        return self.portal.call(work)

    def value(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a call gives, which must be no error."""
        result = self(tool, **arguments)
        assert not result.is_error, text_of(result)
        found = result.structured_content
        assert isinstance(found, dict)
        return found

    def problem(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call, which must be one; its text and its data say the same."""
        result = self(tool, **arguments)
        assert result.is_error
        found = result.structured_content
        assert isinstance(found, dict)
        assert set(found) == {"code", "detail", "advice", "path"}
        assert text_of(result) == f"{found['code']}: {found['detail']}; {found['advice']}"
        return found


@contextmanager
def connected(server: Any, **how: Any) -> Iterator[Caller]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server, **how)) as client:
        yield Caller(portal, client)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert block.type == "text"
    return block.text


def contract(**more: Any) -> dict[str, Any]:
    """A handoff that is ready to be executed."""
    return {
        "summary": "Pause after diagnosis",
        "handoff_text": "Resume in export.py and patch the serializer mismatch.",
        "target_files": ["export.py"],
        "next_action": "Patch the export serializer and rerun the checks.",
        "acceptance_checks": ["grep -q patched export.py"],
        **more,
    }


def story(call: Caller, place: Place, name: str) -> None:
    """One call of each tool but recall, each with what it must give. `name` keeps two stories in one home apart."""
    file = place.folder / f"{name}.py"
    file.write_text("def export(): return 1\n")
    work = contract(target_files=[file.name], acceptance_checks=[f"grep -q patched {file.name}"])

    stored = call("handoff_store", anchor=f"part:{name}", **work)
    assert "Score 100 of 100" in text_of(stored)
    found = call("handoff_recover", anchor=f"part:{name}", claim=True)
    assert text_of(found).startswith("# Verdict: trusted")
    claim = found.structured_content["claim"]["id"]
    file.write_text("def export(): return 'patched'\n")
    settled = call.value("handoff_settle", anchor=f"part:{name}", outcome="completed", claim_id=claim)
    assert [each["passed"] for each in settled["evidence"]] == [True]

    run_id = place.start("report", topic=name)
    assert run_id in [each["id"] for each in call.value("run_list", status="waiting")["runs"]]
    assert call.value("run_show", run_id=run_id)["receipts"][0]["label"] == "find"
    (wait,) = [each for each in call.value("interrupt_list")["waits"] if each["run_id"] == run_id]
    answer = call.value("interrupt_answer", interrupt_id=wait["id"], answer={"approved": True}, shown=wait["digest"])
    assert answer["answer"] == {"approved": True}
    ended = answer["outcome"]
    assert (ended["status"], ended["result"], ended["goes_on"]) == ("succeeded", name.upper(), False)
    fork = call.value("run_fork", run_id=run_id, from_step="find", inputs={"topic": f"{name} forked"})
    assert (fork["origin"], fork["origin_step"], fork["status"]) == (run_id, "find", "interrupted")

    begun = call.value("run_start", flow="report", inputs={"topic": f"{name} again"}, operation_id=f"{name}-start")
    assert (begun["status"], begun["interrupts"][0]["type"]) == ("waiting", "approval")
    assert call.problem("run_start", flow="os:system")["code"] == "no_flows"

    failed = place.stopped("slow", name=f"{name}.never")
    assert call.problem("run_retry", run_id=failed, step="nothing")["code"] == "step_not_found"
    assert call.problem("run_rewind", run_id=failed, step="nothing")["code"] == "step_not_found"
    assert call.problem("run_skip", run_id=failed, step="nothing", why="w")["code"] == "step_not_found"
    assert call.problem("run_fork", run_id=failed, from_step="nothing")["code"] == "step_not_found"
    (place.folder / f"{name}.never").touch()
    assert call.value("run_resume", run_id=failed)["result"] == "after"

    saved = call.value("workspace_save", name=f"{name}.md", content=f"# All about {name}\n", summary=f"About {name}")
    assert saved["ref"] == f"artifact:default/{name}.md@1"
    pinned = call.value("checkpoint_record", name="saved", task=name, refs=[saved["ref"]])
    assert pinned["refs"] == [saved["ref"]]

    file.write_text("def export(): return 2\n")
    paused = call.value("task_pause", task=name, **work, refs=[saved["ref"]])["handoff"]
    assert (paused["anchor"], paused["refs"]) == (f"task:{name}", [saved["ref"]])
    resumed = call("task_resume", task=name)
    assert text_of(resumed).startswith("# Verdict: trusted")
    mine = resumed.structured_content["claim"]["id"]
    file.write_text("def export(): return 'patched'\n")
    assert call.value("task_complete", task=name, claim_id=mine)["settlement"]["outcome"] == "completed"

    journal = call.value("run_events", run_id=failed, limit=2)
    assert ([each["seq"] for each in journal["events"]], journal["more"]) == ([1, 2], True)
    given_up = place.start("report", topic=f"{name} given up")
    assert call.value("run_abort", run_id=given_up, why="not needed")["status"] == "aborted"
    assert call.value("signal_send", name="paid", task=name, body={"paid": True})["body"] == {"paid": True}

    assert call.value("workspace_get", ref=saved["ref"])["uri"].startswith("artifact://")
    seen = call.value("workspace_record", kind="observation", text=f"The tide of {name} turned.", refs=[saved["ref"]])
    said = call.value("workspace_record", kind="decision", text=f"We go on with {name}.", task_id=name)
    assert said["task"] == name
    linked = call.value("workspace_link", source=seen["ref"], relation="supports", target=said["ref"])
    assert linked["relation"] == "supports"
    rests = call("workspace_why", ref=said["ref"])
    assert (rests.structured_content["standing"], seen["ref"] in text_of(rests)) == ("stands", True)
    assert call.value("session_append", session_id=name, role="user", content="Where were we?")["seq"] == 1
    (message,) = call.value("session_window", session_id=name, tokens=500)["messages"]
    assert message["content"] == "Where were we?"
    assert call.called >= TOOLS - {"workspace_recall"}


def recalled(call: Caller, name: str) -> None:
    """What was saved is recalled for a goal, within the budget, as text and as data."""
    saved = call.value("workspace_save", name=f"{name}.md", content=f"The tides of {name} turn twice a day.\n")
    found = call("workspace_recall", goal=f"Explain the tides of {name}", budget=500)
    assert not found.is_error, text_of(found)
    assert saved["ref"] in [each["ref"] for each in found.structured_content["entries"]]
    assert found.structured_content["tokens"] <= 500
    assert f"tides of {name}" in text_of(found)
