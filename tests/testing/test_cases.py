"""Cases: a run frozen as a file, and its flow held to what it did."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncRun, Run, effect, flow, step
from outlast.errors import FlowNotFound, Invalid, RunNotFound
from outlast.testing import Case, case_from_run

from ..crash.command_folder import Folder
from ..kit.place import KNOBS, Place, ran


@step
def price(item: str) -> int:
    ran(f"price {item}")
    return len(item) * 10


@step
def much() -> str:
    ran("much")
    return "m" * 50_000


@effect
def send(total: int) -> str:
    ran(f"send {total}")
    if KNOBS.get("lost"):
        raise ConnectionError("lost")
    return f"sent {total}"


@flow
def order(run: Run, items: list[str]) -> str:
    run.phase = KNOBS.get("phase", "pricing")
    total = sum(price(item) for item in items) + KNOBS.get("extra", 0)
    run.state["total"] = KNOBS.get("state", total)
    long = len(much())
    return f"{send(total)}, {long}" + KNOBS.get("end", "")


@flow
async def prices(run: AsyncRun) -> list[int]:
    return await asyncio.gather(run.step(price, "a"), run.step(price, "bb"))


def freeze(place: Place, flow: Any, *args: Any) -> Case:
    return case_from_run(place.run(flow, *args).run_id, place.outlast)


def test_a_case_passes_on_the_flow_it_was_frozen_from_and_runs_nothing(place: Place, tmp_path: Path) -> None:
    case = freeze(place, order, ["kelp", "salt"])
    did = place.ran
    assert case.inputs == {"items": ["kelp", "salt"]}
    assert case.accept["result"] == "sent 80, 50000"
    assert [each["label"] for each in case.accept["effects"]] == ["send"]
    case.check()
    case.check(order)
    assert Case.load(case.save(tmp_path / "order.json")) == case
    Case.load(tmp_path / "order.json").check(order)
    assert place.ran == did


@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("extra", 1, "inputs_changed send"),
        ("end", "!", "end_differs order"),
        ("state", 5, "state_differs total"),
        ("phase", "else", "phase_differs phase"),
    ],
)
def test_a_flow_that_does_otherwise_fails_its_case_with_the_list(
    place: Place, knob: str, value: Any, said: str
) -> None:
    case = freeze(place, order, ["kelp"])
    KNOBS[knob] = value
    with pytest.raises(AssertionError, match=said):
        case.check(order)


def test_a_rule_that_is_left_out_is_not_asked_for(place: Place, tmp_path: Path) -> None:
    file = freeze(place, order, ["kelp"]).save(tmp_path / "order.json")
    loose = json.loads(file.read_text())
    for rule in ("result", "state", "phase", "effects"):
        del loose["accept"][rule]
    file.write_text(json.dumps(loose))
    KNOBS.update(end="!", state=5)
    Case.load(file).check(order)
    assert Case.load(file).divergences(order) == ()


def test_a_rule_can_be_changed_by_hand(place: Place, tmp_path: Path) -> None:
    file = freeze(place, order, ["kelp"]).save(tmp_path / "order.json")
    changed = json.loads(file.read_text())
    changed["accept"]["effects"] = []
    changed["accept"]["result"] = "nothing was sent"
    file.write_text(json.dumps(changed))
    with pytest.raises(AssertionError, match="effects_differ send") as caught:
        Case.load(file).check(order)
    assert "nothing was sent" in str(caught.value)


def test_what_a_person_decided_is_frozen_with_the_run(place: Place) -> None:
    KNOBS["lost"] = True
    outcome = place.run(order, ["kelp"])
    (wait,) = outcome.interrupts
    place.outlast.answer(wait.id, {"choice": "skip", "result": "sent by hand"})
    assert place.run(order, ["kelp"]).unwrap() == "sent by hand, 50000"
    case = case_from_run(outcome.run_id, place.outlast)
    case.check()
    assert [each["status"] for each in case.accept["effects"]] == ["skipped"]


def test_a_run_that_waits_is_a_case_too(place: Place) -> None:
    KNOBS["lost"] = True
    case = freeze(place, order, ["kelp"])
    assert case.accept["status"] == "waiting"
    case.check()
    KNOBS["extra"] = 1
    with pytest.raises(AssertionError):
        case.check()
    assert place.count("send 40") == 1


@flow
def report(run: Run) -> str:
    run.workspace.save("draft.md", "an older one")
    draft = run.workspace.save("draft.md", "kelp " * 20_000, media_type="text/markdown", summary="Draft")
    run.checkpoint("drafted", summary="A draft.", refs=[draft.ref])
    handoff = run.handoff("half done", "go on with the draft", next_action="review the draft")
    answer = run.pause_for("approval", payload={"artifact": draft.ref, "revision": handoff.revision})
    return f"{send(len(draft.text()))} {KNOBS.get('end', '')}" if answer["approved"] else "declined"


def test_artifacts_checkpoints_handoffs_and_answers_of_a_body_are_frozen_with_it(place: Place, tmp_path: Path) -> None:
    outcome = place.run(report)
    place.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert place.outlast.resume(outcome.run_id).unwrap() == "sent 100000 "
    file = case_from_run(outcome.run_id, place.outlast).save(tmp_path / "report.json")
    place.close()
    case = Case.load(file)
    assert [answer["answer"] for answer in case.answers] == [{"approved": True}]
    case.check(report)
    KNOBS["end"] = "!"
    with pytest.raises(AssertionError, match="end_differs report"):
        case.check(report)
    assert place.ran == ["send 100000"]


@flow
def on_a_draft(run: Run, ref: str) -> str:
    again = run.workspace.save("draft.md", "somebody's draft")
    run.resource("case.db")
    return run.workspace.get(ref).text() + again.text()


def test_artifacts_that_others_saved_and_the_run_names_are_frozen_too_and_no_resource_is_opened(place: Place) -> None:
    place.outlast.resource("case.db", object())
    older = place.outlast.workspace.save("notes.md", "notes, ")
    place.outlast.workspace.save("draft.md", "somebody's draft")
    case = freeze(place, on_a_draft, older.ref)
    assert case.accept["result"] == "notes, somebody's draft"
    case.check(on_a_draft)


def test_an_async_flow_has_cases_too(place: Place) -> None:
    freeze(place, prices).check(prices)
    assert place.count("price a") == 1


def test_a_flow_file_has_cases_too(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work")
    folder.flow("- {id: one, run: echo one >> diary}\n- {id: two, run: echo two >> diary, effect: true}")
    case = case_from_run(folder.run().run_id, folder.outlast)
    folder.end()
    case.check(folder=folder.path)
    folder.flow("- {id: one, run: echo one >> diary}\n- {id: three, run: echo two >> diary, effect: true}")
    with pytest.raises(AssertionError, match="no_receipt three"):
        case.check(folder=folder.path)
    assert folder.lines() == ["one", "two"]


def test_a_case_is_made_from_a_home_by_its_folder(place: Place) -> None:
    run_id = place.run(order, ["kelp"]).run_id
    place.close()
    assert case_from_run(run_id[:8], place.home).run_id == run_id
    with pytest.raises(RunNotFound):
        case_from_run("nope", place.home)


def test_a_flow_that_is_gone_is_named(place: Place, tmp_path: Path) -> None:
    file = freeze(place, order, ["kelp"]).save(tmp_path / "order.json")
    file.write_text(file.read_text().replace("test_cases:order", "test_cases:ordre"))
    with pytest.raises(FlowNotFound, match="ordre"):
        Case.load(file).check()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda text: "no json", "is no case"),
        (lambda text: "[]", "no case of this version"),
        (lambda text: text.replace("outlast case 1", "outlast case 9"), "no case of this version"),
        (lambda text: text.replace('"phase":', '"faze":'), "unknown rule 'faze'"),
        (lambda text: text.replace('"kind": "step"', '"kin": "step"', 1), "unknown field 'kin'"),
        (lambda text: text.replace('"attempt": 1', '"attempt": "one"', 1), "Expected `int`"),
        (lambda text: text.replace("Im1tbW1t", "Imxtbm1t", 1), "was changed"),
    ],
)
def test_a_file_that_is_no_case_is_refused_by_what_is_wrong(place: Place, tmp_path: Path, edit: Any, why: str) -> None:
    file = freeze(place, order, ["kelp"]).save(tmp_path / "order.json")
    before = file.read_text()
    file.write_text(edit(before))
    assert file.read_text() != before
    with pytest.raises(Invalid, match=why):
        Case.load(file)


def test_a_case_has_no_folder_of_the_machine_in_it_but_values_as_they_are(place: Place, tmp_path: Path) -> None:
    KNOBS["lost"] = True
    text = freeze(place, order, ["hunter2"]).save(tmp_path / "order.json").read_text()
    assert "hunter2" in text
    assert '"trace"' not in text


def test_changed_code_of_a_step_counts_only_when_asked_for(place: Place, tmp_path: Path) -> None:
    file = freeze(place, order, ["kelp"]).save(tmp_path / "order.json")
    changed = json.loads(file.read_text())
    for entry in changed["entries"]:
        if entry["header"]["name"] == "price":
            entry["header"]["code"] = "other"
    file.write_text(json.dumps(changed))
    Case.load(file).check(order)
    with pytest.raises(AssertionError, match="code_changed price"):
        Case.load(file).check(order, code=True)
