"""A named task happens once over HTTP and for its client, and who starts it again must be allowed to approve."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast
from outlast.errors import Finished, InputsConflict, RepeatsEffects, TaskAborted
from outlast.python.shared import FlowCall
from outlast.runs.run import Options

from . import http_flows
from .server import Served, served
from .test_http_runs import FLOWS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, keyed=True, flows=(FLOWS,), poll_seconds=0.02) as found:
        yield found


class Bill:
    """One named task, and the file that counts how often it was paid."""

    def __init__(self, server: Served, path: Path) -> None:
        self.server, self.path, self.task = server, path, str(path)

    def post(self, **more: Any) -> Any:
        said = {"flow": "paying", "inputs": {"path": str(self.path)}, "task": self.task}
        key = more.pop("key", None)
        headers = {"authorization": f"Bearer {key}"} if key else None
        return self.server.post("/v1/runs?wait=30", said | more, headers=headers)

    @property
    def paid(self) -> int:
        return len(self.path.read_text().splitlines())

    def client(self) -> Outlast:
        return Outlast(f"http://127.0.0.1:{self.server.port}", key=self.server.key)


@pytest.fixture
def bill(server: Served, tmp_path: Path) -> Bill:
    return Bill(server, tmp_path / "paid")


def test_the_same_request_after_success_is_answered_with_the_outcome(bill: Bill) -> None:
    first, again = bill.post(), bill.post()
    assert (first.status, first.json["replayed"], first.json["result"]) == (200, False, "paid")
    assert (again.status, again.json["replayed"], again.json["result"]) == (200, True, "paid")
    assert (again.json["run_id"], again.json["notes"], bill.paid) == (first.json["run_id"], [], 1)


def test_other_inputs_fresh_and_an_aborted_task_are_conflicts(bill: Bill, tmp_path: Path) -> None:
    bill.post()
    for more, code in (
        ({"inputs": {"path": str(tmp_path / "other")}}, "inputs_conflict"),
        ({"fresh": True}, "finished"),
    ):
        told = bill.post(**more)
        assert (told.status, told.code, "again" in told.json["advice"]) == (409, code, True)
    waiting = {"flow": "asking", "inputs": {"question": "?"}, "task": bill.task}
    run = bill.server.post("/v1/runs?wait=30", waiting).json["run_id"]
    bill.server.post(f"/v1/runs/{run}/abort", {"why": "no"})
    told = bill.server.post("/v1/runs?wait=30", waiting)
    assert (told.status, told.code) == (409, "task_aborted")


def test_again_names_the_effects_and_starts_another_when_that_is_agreed_to(bill: Bill) -> None:
    first = bill.post()
    told = bill.post(again=True)
    assert (told.code, bill.paid) == ("repeats_effects", 1)
    (effect,) = told.json["facts"]["effects"]
    assert (effect["step"], effect["run"], effect["result"]) == ("pay", first.json["run_id"], '"paid"')
    assert bill.post(again=True, effects=["pay"]).json["run_id"] != first.json["run_id"]
    assert (bill.paid, bill.post(again=True, yes=True).json["status"], bill.paid) == (2, "succeeded", 3)


@pytest.mark.parametrize("said", [{"again": True}, {"fresh": True, "yes": True}, {"fresh": True, "effects": ["pay"]}])
def test_who_repeats_what_was_done_needs_the_role_approve(bill: Bill, said: dict[str, Any]) -> None:
    writer = bill.server.keys().create("ann", roles=["write"]).text
    assert bill.post(key=writer).json["status"] == "succeeded"
    told = bill.post(key=writer, **said)
    assert (told.status, told.code, "approve" in told.json["detail"], bill.paid) == (403, "forbidden", True, 1)
    both = bill.server.keys().create("bo", roles=["write", "approve"]).text
    assert bill.post(key=both, again=True, yes=True).json["status"] == "succeeded"


def test_a_client_is_given_the_outcome_and_raises_what_the_server_refused(bill: Bill) -> None:
    path = str(bill.path)
    with bill.client() as outlast:
        first = outlast.run(http_flows.paying, path, task=bill.task)
        again = outlast.run(http_flows.paying, path, task=bill.task)
        assert (again.run_id, again.replayed, again.unwrap()) == (first.run_id, True, "paid")
        assert outlast.start(http_flows.paying, path, task=bill.task).outcome(30).replayed
        with pytest.raises(InputsConflict):
            outlast.run(http_flows.paying, path + "x", task=bill.task)
        with pytest.raises(Finished):
            outlast.run(http_flows.paying, path, task=bill.task, fresh=True)
        with pytest.raises(RepeatsEffects) as caught:
            outlast._run(FlowCall(http_flows.paying, (path,), {}, Options(bill.task, again=True)))
        assert [effect["step"] for effect in caught.value.effects] == ["pay"]
        again = Options(bill.task, again=True, effects=("pay",))
        third = outlast._run(FlowCall(http_flows.paying, (path,), {}, again))
        assert (third.replayed, bill.paid) == (False, 2)


def test_an_awaited_client_is_given_it_too(bill: Bill) -> None:
    import asyncio

    async def inside() -> tuple[bool, bool]:
        async with AsyncOutlast(f"http://127.0.0.1:{bill.server.port}", key=bill.server.key) as outlast:
            first = await outlast.run(http_flows.paying, str(bill.path), task=bill.task)
            again = await outlast.run(http_flows.paying, str(bill.path), task=bill.task)
            return first.replayed, again.replayed

    assert (asyncio.run(inside()), bill.paid) == ((False, True), 1)


def test_after_gc_a_client_is_told_that_the_result_was_pruned(bill: Bill) -> None:
    bill.post()
    with bill.server.opened() as outlast:
        outlast.gc(older_than=0, keep=0, dry_run=False)
    with bill.client() as outlast:
        again = outlast.run(http_flows.paying, str(bill.path), task=bill.task)
    assert (again.status, again.result, again.notes, bill.paid) == ("succeeded", None, ("result_pruned",), 1)


def test_what_the_server_raises_is_raised_here(bill: Bill) -> None:
    with bill.client() as outlast:
        run = outlast.run(http_flows.asking, "?", task=bill.task)
        outlast.abort(run.run_id, why="no")
        with pytest.raises(TaskAborted):
            outlast.run(http_flows.asking, "?", task=bill.task)
