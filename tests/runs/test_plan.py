"""The plan and the verdict: what resuming would do, and how far what is found may be trusted."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast import NOT_DONE, UNKNOWN, Run, effect, flow, inject, step
from outlast.errors import Contested, NameInvalid, RunFinished

from ..kit.ledgers import move_folder
from ..kit.place import KNOBS, Place, ran, reach


@step
def fetch(text: str, *, search: Any = inject("search")) -> str:
    ran(f"fetch {text} by {search}")
    return text


@step
def stall() -> str:
    ran("stall")
    reach("stalling")
    return "done"


@step
def fail() -> str:
    if not KNOBS.get("smooth"):
        raise ValueError("no")
    return "smooth"


@effect
def send() -> str:
    reach("sending")
    return "sent"


def look() -> Any:
    return UNKNOWN if not KNOBS.get("smooth") else NOT_DONE


@effect(confirm=look)
def send_probed() -> str:
    reach("sending probed")
    return "sent"


@flow
def works(run: Run) -> list[str]:
    first = fetch("a")
    try:
        second = fail()
    except ValueError:
        second = "caught"
    reach("middle")
    found = [first, second, stall(), send(), send_probed()]
    reach("end")
    return found


def crash(place: Place, at: str, *, resource: str = "engine") -> None:
    def start(outlast: Any) -> None:
        outlast.resource("search", resource)
        outlast.run(works)

    place.killed(start, at=at)


def test_a_plan_says_what_is_reused_raised_again_and_tried_again(place: Place) -> None:
    crash(place, "middle")
    crash(place, "stalling")
    plan = place.outlast.plan(place.run_id)
    assert (plan.of("reuse"), plan.of("raise_again"), plan.of("retry")) == (("fetch",), ("fail",), ("stall",))
    assert plan.status in ("running", "crashed")


def test_a_plan_says_what_is_in_doubt(place: Place) -> None:
    crash(place, "sending")
    place.outlast.resource("search", "engine")
    plan = place.outlast.plan(place.run_id)
    assert plan.of("decide") == ("send",)
    assert str(plan.verdict) == "contested"
    assert [(r.code, r.subject) for r in plan.verdict.reasons if r.weight == "contests"] == [
        ("effect_in_doubt", "send")
    ]


def test_a_plan_says_what_a_probe_will_be_asked(place: Place) -> None:
    crash(place, "sending probed")
    place.outlast.resource("search", "engine")
    plan = place.outlast.plan(place.run_id)
    assert plan.of("confirm") == ("send_probed",)
    assert str(plan.verdict) != "contested"


def test_making_a_plan_writes_and_runs_nothing(place: Place) -> None:
    crash(place, "stalling")
    before = (len(place.outlast.events(place.run_id)), place.ran)
    place.outlast.plan(place.run_id)
    assert (len(place.outlast.events(place.run_id)), place.ran) == before
    assert place.outlast.get(place.run_id).status == "crashed"


def test_a_finished_run_has_no_plan(place: Place) -> None:
    place.outlast.resource("search", "engine")
    outcome = place.run(works)
    with pytest.raises(RunFinished):
        place.outlast.plan(outcome.run_id)


def test_a_run_with_nothing_against_it_is_trusted(place: Place) -> None:
    crash(place, "middle")
    place.outlast.resource("search", "engine")
    assert str(place.outlast.plan(place.run_id).verdict) == "trusted"
    assert str(place.run(works).verdict) == "trusted"


def test_work_that_stopped_half_way_weakens_the_verdict(place: Place) -> None:
    crash(place, "middle")
    crash(place, "stalling")
    place.outlast.resource("search", "engine")
    verdict = place.outlast.plan(place.run_id).verdict
    assert (str(verdict), [r.code for r in verdict.reasons]) == ("candidate", ["partial_work"])


# -- resources ---------------------------------------------------------------------------------------


def test_a_missing_resource_contests_before_any_step_and_is_named(place: Place) -> None:
    crash(place, "end")
    with pytest.raises(Contested, match="search"):
        place.run(works)
    assert place.outlast.get(place.run_id).status == "crashed"
    assert place.outlast.plan(place.run_id).resources == ("search",)
    place.outlast.resource("search", "engine")
    assert place.run(works).status == "succeeded"


def test_a_missing_resource_of_a_failed_run_is_named_too(place: Place) -> None:
    place.outlast.resource("search", "engine")
    assert place.run(fails_after).status == "failed"
    place.reopen()
    with pytest.raises(Contested, match="resource_missing"):
        place.run(fails_after)
    assert place.outlast.get(place.run_id).status == "failed"


@flow
def fails_after(run: Run) -> str:
    fetch("a")
    return fail()


# -- accepting ---------------------------------------------------------------------------------------


@pytest.fixture
def contested(place: Place) -> Place:
    place.outlast.resource("search", "engine")
    place.run(fails_after)
    KNOBS["smooth"] = True
    place.reopen()
    return place


def test_what_contests_can_be_accepted_with_a_reason_on_the_record(contested: Place) -> None:
    outcome = contested.outlast.resume(contested.run_id, accept=["resource_missing"], why="it is not needed any more")
    assert outcome.result == "smooth"
    (accepted,) = contested.events("run.accepted")
    assert accepted.body["why"] == "it is not needed any more"
    assert (accepted.body["code"], accepted.body["subject"], accepted.body["actor"]) == (
        "resource_missing",
        "search",
        "local",
    )


@pytest.mark.parametrize(
    "accept", [["resource_missing:search"], "resource_missing", ["resource_missing", "resource_missing:search"]]
)
def test_an_acceptance_names_the_code_and_may_name_the_subject(contested: Place, accept: Any) -> None:
    assert contested.outlast.resume(contested.run_id, accept=accept, why="fine").status == "succeeded"


@pytest.mark.parametrize("accept", [["resource_missing:other"], ["integrity_broken"], []])
def test_an_acceptance_of_something_else_does_not_help(contested: Place, accept: list[str]) -> None:
    with pytest.raises(Contested):
        contested.outlast.resume(contested.run_id, accept=accept, why="fine")
    assert contested.outlast.get(contested.run_id).status == "failed"


@pytest.mark.parametrize("word", ["integrity_broken", "resource_missing:other", "resource_mising"])
def test_what_does_not_stand_is_not_accepted_in_silence(contested: Place, word: str) -> None:
    accept = ["resource_missing", word]
    plan = contested.outlast.plan(contested.run_id, accept=accept)
    assert plan.refused is not None
    assert plan.refused.code == "name_invalid"
    with pytest.raises(NameInvalid, match=f"accept '{word}' .* there is resource_missing:search"):
        contested.outlast.resume(contested.run_id, accept=accept, why="fine")
    assert contested.outlast.get(contested.run_id).status == "failed"
    assert contested.events("run.accepted") == []


def test_what_was_accepted_before_may_be_said_again(contested: Place) -> None:
    said = {"accept": ["resource_missing"], "why": "fine"}
    del KNOBS["smooth"]
    assert contested.outlast.resume(contested.run_id, **said).status == "failed"
    KNOBS["smooth"] = True
    contested.outlast.resource("search", "engine")  # nothing contests it any more
    assert contested.outlast.resume(contested.run_id, **said).status == "succeeded"


@pytest.mark.parametrize("why", ["", "  "])
def test_an_acceptance_without_a_reason_is_refused(contested: Place, why: str) -> None:
    with pytest.raises(NameInvalid):
        contested.outlast.resume(contested.run_id, accept=["resource_missing"], why=why)


def test_what_was_accepted_as_found_stays_accepted(contested: Place) -> None:
    del KNOBS["smooth"]
    assert contested.outlast.resume(contested.run_id, accept=["resource_missing"], why="fine").status == "failed"
    KNOBS["smooth"] = True
    assert contested.run(fails_after).status == "succeeded"


# -- code --------------------------------------------------------------------------------------------

FLOW = '''
from outlast import Run, flow, step

@step
def fetch(text: str) -> str:
    """Fetch it."""
    return text + "1"

@step
def shorten(text: str) -> str:
    return text[:10]

@flow
def report(run: Run) -> str:
    found = shorten(fetch("kelp"))
    import os
    if not os.path.exists("go"):
        raise SystemExit("not yet")
    return found

if __name__ == "__main__":
    from outlast import Outlast
    outcome = Outlast(".outlast").run(report)
    print(outcome.result, outcome.verdict and outcome.verdict.word, [r.subject for r in outcome.verdict.reasons])
'''
REFORMATTED = FLOW.replace('return text + "1"', 'return (\n        text   +  "1"  # the first\n    )').replace(
    '"""Fetch it."""', '"""Fetch the thing, whatever it is."""'
)
ANNOTATED = FLOW.replace("def shorten(text: str) -> str:", "def shorten(text: 'str') -> 'str':").replace(
    "@step\ndef shorten", "@step(agent='short', retries=3)\ndef shorten"
)
MOVED = FLOW.replace("from outlast import Run, flow, step\n", "from outlast import Run, flow, step\n" + "\n" * 30)
EDITED = FLOW.replace('text + "1"', 'text + "2"')


def interrupted(place: Place) -> Path:
    path = place.script("report.py", FLOW)
    assert _python(place, "report.py").returncode == 1
    (place.folder / "go").touch()
    return path


def _python(place: Place, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd or place.folder, capture_output=True, text=True, timeout=60)


def test_edited_code_of_a_finished_step_is_reported_and_its_result_reused(place: Place) -> None:
    path = interrupted(place)
    path.write_text(EDITED)
    assert place.outlast.plan(place.run_id).code_changed == ("fetch",)
    place.close()
    assert _python(place, "report.py").stdout == "kelp1 candidate ['fetch']\n"


@pytest.mark.parametrize("text", [REFORMATTED, ANNOTATED, MOVED], ids=["reformatted", "annotated", "moved down"])
def test_code_that_does_the_same_is_no_change(place: Place, text: str) -> None:
    path = interrupted(place)
    path.write_text(text)
    assert place.outlast.plan(place.run_id).code_changed == ()
    place.close()
    assert _python(place, "report.py").stdout == "kelp1 trusted []\n"


def test_a_moved_folder_is_no_change(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    interrupted(place)
    elsewhere = tmp_path_factory.mktemp("moved") / "project"
    move_folder(place.folder, elsewhere)
    try:
        assert _python(place, "report.py", cwd=elsewhere).stdout == "kelp1 trusted []\n"
    finally:
        move_folder(elsewhere, place.folder)


@flow
def sends(run: Run) -> str:
    return send()


def test_an_effect_in_doubt_is_decided_on_and_not_accepted(place: Place) -> None:
    place.crash(sends, at="sending")
    KNOBS.pop("die", None)
    outcome = place.outlast.resume(place.run_id, accept=["effect_in_doubt"], why="it will have happened")
    assert outcome.status == "waiting"
    assert [wait.type for wait in outcome.interrupts] == ["in_doubt"]
    assert "succeeded" not in place.statuses("send")
