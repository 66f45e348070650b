"""Cursors: a list goes on only where it was; whatever else is given for a place is refused by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.doors.http.app import CALLS
from outlast.errors import NotFound
from outlast.operations.operation import Operation, cursor_of

from .http_world import FLOWS, MARK, World, world
from .server import Served, is_our_failure, served

PAGED = [call for call in CALLS if call.pages is not None]
COUNTED = ("run_events", "run_receipts", "handoff_near", "task_events", "session_messages", "interrupt_list")
NONE = ["!!", "e30", "%00", "a" * 5000, cursor_of(), cursor_of(None), cursor_of([]), cursor_of(-1), cursor_of(2**70)]
NONE += [cursor_of(1, 2, 3), cursor_of({"a": 1}), cursor_of(True), cursor_of(1.5), cursor_of(-1, "x")]
NAMES = ["nothing", "", "\0", "x" * 5000, "record:", "artifact:a/b@1", "../x", "😀", "%"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", flows=FLOWS, poll_seconds=0.02) as found:
        yield found
    assert [line for line in found.log() if is_our_failure(line)] == []


@pytest.fixture(scope="module")
def ours(server: Served) -> World:
    return world(server, "acme")


@pytest.fixture(scope="module")
def theirs(server: Served) -> World:
    return world(server, f"of-{MARK}")


def asked(ours: World, call: Operation, cursor: str) -> tuple[int, Any]:
    path = ours.path_of(call)
    reply = ours.server.get(f"{path}{'&' if '?' in path else '?'}cursor={cursor}", key=ours.owner)
    return reply.status, reply.json


@pytest.mark.parametrize("call", PAGED, ids=lambda call: call.name)
def test_a_cursor_that_is_none_is_refused_by_every_list(ours: World, call: Operation) -> None:
    for cursor in NONE:
        status, said = asked(ours, call, cursor)
        assert (status, said["code"], said["path"]) == (422, "request_invalid", "cursor"), (cursor, said)


@pytest.mark.parametrize("call", [call for call in PAGED if call.name not in COUNTED], ids=lambda call: call.name)
def test_a_cursor_of_another_list_tenant_or_scope_is_refused(ours: World, theirs: World, call: Operation) -> None:
    foreign = [theirs.ids[name] for name in ("run_id", "record", "checkpoint", "handoff_id")]
    foreign += [of_another_scope(ours)[call.name]] if call.name in of_another_scope(ours) else []
    for place in (*NAMES, *foreign):
        status, said = asked(ours, call, cursor_of(place))
        assert (status, said["code"], said["path"]) == (422, "request_invalid", "cursor"), (place, said)


def of_another_scope(ours: World) -> dict[str, str]:
    """What the same tenant has in another scope, by the list that would give it."""

    def post(path: str, body: dict[str, Any]) -> Any:
        return ours.server.post(path, body | {"scope": "elsewhere"}, key=ours.owner).json

    stored = {"anchor": "task:elsewhere", "summary": "s", "handoff_text": "t"}
    return {
        "handoff_list": post("/v1/handoff/store", stored)["id"],
        "workspace_list": post("/v1/workspace/artifacts", {"name": "a", "content": "b"})["ref"],
        "workspace_records": post("/v1/workspace/records", {"kind": "note", "text": "elsewhere"})["ref"],
        "workspace_checkpoints": post("/v1/workspace/checkpoints", {"name": "a", "task": "t"})["id"],
        "session_list": post("/v1/sessions", {"session_id": "elsewhere"})["id"],
        "task_list": post("/v1/tasks/elsewhere/open", {})["task"],
    }


@pytest.mark.parametrize("call", [call for call in PAGED if call.name in COUNTED], ids=lambda call: call.name)
def test_a_number_beyond_the_end_gives_nothing_or_is_refused(ours: World, call: Operation) -> None:
    for place in ((2**62,), (2**62 + 1,), (2**62, "x")):
        status, said = asked(ours, call, cursor_of(*place))
        assert status in (200, 422), said
        assert MARK not in str(said) or call.name == "handoff_near"


def test_what_is_missing_is_said_before_the_cursor(ours: World) -> None:
    reply = ours.server.get(f"/v1/sessions/nothing/messages?cursor={cursor_of(1)}", key=ours.owner)
    assert reply.code == "session_not_found"


def test_the_client_says_what_is_not_in_the_list_as_the_library_does(ours: World, tmp_path: Path) -> None:
    def lists(outlast: Outlast) -> list[type]:
        space = outlast.workspace
        asked = (outlast.runs, outlast.handoff.list, outlast.sessions.list, outlast.tasks.list)
        found = []
        for ask in (*asked, space.list, space.records, space.checkpoints):
            with pytest.raises(NotFound) as error:
                ask(**{"cursor" if ask == outlast.runs else "before": "nothing"})
            found.append(type(error.value))
        return found

    with (
        Outlast(f"http://127.0.0.1:{ours.server.port}", key=ours.owner) as remote,
        Outlast(tmp_path / "home") as embedded,
    ):
        assert lists(remote) == lists(embedded)
