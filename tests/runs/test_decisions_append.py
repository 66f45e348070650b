"""What a person decides is added: the attempts that it is about keep their receipts, transcripts and mirror files."""

import json
from pathlib import Path
from typing import Any

import pytest

from outlast import UNKNOWN, Happened, Run, effect, flow, step
from outlast.runs.effect import NOT_DONE

from ..kit.place import KNOBS, Place, ran, reach

ANSWERS: dict[str, Any] = {"not_done": NOT_DONE, "unknown": UNKNOWN, "happened": Happened("seen")}


def probe() -> Any:
    return ANSWERS[KNOBS["probe"]]


@step
def work() -> str:
    ran("work")
    reach("working")
    return "done"


@effect
def send() -> str:
    ran("send")
    reach("sending")
    return "sent"


@effect(confirm=probe)
def post() -> str:
    ran("post")
    reach("posting")
    return "posted"


@flow
def works(run: Run) -> str:
    reach("begin")
    return work()


@flow
def sends(run: Run) -> str:
    reach("begin")
    return send()


@flow
def posts(run: Run) -> str:
    return post()


def failed(place: Place, body: Any, point: str) -> str:
    KNOBS["raise"] = (point, ValueError("the line broke"))
    outcome = place.run(body)
    KNOBS.pop("raise")
    return outcome.run_id


def told(place: Place, step: str) -> list[tuple[int, str, str]]:
    return [(r.attempt, r.status, (r.error or {}).get("message", "")) for r in place.receipts(step)]


def mirrored(place: Place, step: str) -> dict[str, tuple[int, str]]:
    folder = place.outlast.mirror(place.run_id) / "receipts"
    found = {path.name: json.loads(path.read_text()) for path in Path(folder).glob(f"{step}-main*")}
    return {name: (each["attempt"], each["status"]) for name, each in sorted(found.items())}


CASES = [(works, "work", "working"), (sends, "send", "sending")]


@pytest.mark.parametrize(("body", "step", "point"), CASES)
def test_a_skip_leaves_the_failed_attempt_its_receipt_and_its_mirror_file(
    place: Place, body: Any, step: str, point: str
) -> None:
    run_id = failed(place, body, point)
    (before,) = place.receipts(step)
    place.outlast.skip(run_id, step, result="by hand", why="seen")
    assert place.outlast.resume(run_id).result == "by hand"
    assert told(place, step) == [(1, "failed", "the line broke"), (2, "skipped", "")]
    assert place.receipts(step)[0] == before
    assert mirrored(place, step) == {f"{step}-main.1.json": (1, "failed"), f"{step}-main.json": (2, "skipped")}


@pytest.mark.parametrize(("body", "step", "point"), CASES)
def test_a_skip_leaves_the_crashed_attempt_its_receipt_and_its_mirror_file(
    place: Place, body: Any, step: str, point: str
) -> None:
    KNOBS["raise"] = ("begin", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        place.run(body)
    KNOBS.pop("raise")
    run_id = place.run_id
    place.killed(lambda outlast: outlast.resume(run_id), at=point)  # its start is on disk, as the first after a resume
    KNOBS.pop("die", None)
    place.outlast.skip(run_id, step, result="by hand", why="seen")
    assert place.outlast.resume(run_id).result == "by hand"
    assert told(place, step) == [(1, "started", ""), (2, "skipped", "")]
    assert mirrored(place, step) == {f"{step}-main.1.json": (1, "started"), f"{step}-main.json": (2, "skipped")}


def test_a_second_skip_keeps_the_first(place: Place) -> None:
    run_id = failed(place, sends, "sending")
    place.outlast.skip(run_id, "send", result={"not": "text"}, why="a slip")
    assert place.outlast.resume(run_id).status == "failed"
    place.outlast.skip(run_id, "send", result="text", why="put right")
    assert place.outlast.resume(run_id).result == "text"
    kept = [(r.attempt, r.status, r.result, r.facts.get("why")) for r in place.receipts("send")]
    assert kept[1:] == [(2, "skipped", {"not": "text"}, "a slip"), (3, "skipped", "text", "put right")]


@pytest.mark.parametrize(("body", "step", "point"), CASES)
def test_a_retry_and_an_abort_leave_every_attempt_its_receipt(place: Place, body: Any, step: str, point: str) -> None:
    run_id = failed(place, body, point)
    place.outlast.retry(run_id, step, why="mended")
    KNOBS["raise"] = (point, ValueError("and again"))
    place.outlast.resume(run_id)
    KNOBS.pop("raise")
    place.outlast.abort(run_id, why="enough")
    assert told(place, step) == [(1, "failed", "the line broke"), (2, "failed", "and again")]
    assert mirrored(place, step) == {f"{step}-main.1.json": (1, "failed"), f"{step}-main.json": (2, "failed")}


@pytest.mark.parametrize(("answer", "statuses"), [("happened", ["succeeded"]), ("not_done", ["failed", "succeeded"])])
def test_what_a_probe_finds_out_later_leaves_the_attempt_its_error(
    place: Place, answer: str, statuses: list[str]
) -> None:
    KNOBS["probe"] = "unknown"
    run_id = failed(place, posts, "posting")
    KNOBS["probe"] = answer
    assert place.outlast.resume(run_id).status == "succeeded"
    receipts = place.receipts("post")
    assert [r.status for r in receipts] == statuses
    error = receipts[0].error or receipts[0].facts["failed"]
    assert error["message"] == "the line broke"
