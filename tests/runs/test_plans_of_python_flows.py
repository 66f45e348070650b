"""The plan of a Python flow says what a resume then does, and none of the flow's code runs for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Plan

from ..crash.command_folder import Folder, Said

HEAD = """
import os
from outlast import Run, effect, flow, inject, resource, step

def say(what):
    with open("diary", "a") as diary:
        diary.write(what + "\\n")

say("loaded")
"""
STEPS = """
@step
def fetch(what: str) -> str:
    say(f"fetch {what}")
    return what

@step
def gate() -> str:
    say("gate")
    if not os.path.exists("go"):
        raise ValueError("not yet")
    return "open"

@step
def find(what: str, *, search=inject("search")) -> str:
    say(f"find {what} by {search}")
    return what
"""
BODY = """
@flow
def report(run: Run) -> str:
    found = fetch("kelp")
    gate()
    return find(found)
"""
PROVIDED = """
@resource("search")
def search() -> str:
    return "engine"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def failed(folder: Folder, *parts: str, meanwhile: str = "") -> None:
    """The flow, run until its gate is shut, in a process of its own; `meanwhile` is in its module only for that."""
    folder.write("flows.py", HEAD + STEPS + "".join(parts) + meanwhile)
    folder.cli("run", "flows.py:report")
    folder.write("flows.py", HEAD + STEPS + "".join(parts))
    assert folder.outlast.get(folder.run_id).status == "failed"
    folder.write("diary", "")


def planned(folder: Folder) -> Plan:
    """The plan, for which nothing of the flow ran: not even its module."""
    before = folder.lines()
    plan = folder.outlast.plan(folder.run_id)
    assert folder.lines() == before
    return plan


def resumed(folder: Folder) -> tuple[Said, list[str]]:
    """What `resume` said, and what ran."""
    folder.write("go", "")
    folder.write("diary", "")
    said = folder.cli("resume", folder.run_id, "--json")
    return said, [line for line in folder.lines() if line != "loaded"]


def codes(plan: Plan) -> list[tuple[str, str]]:
    return [(reason.code, reason.subject) for reason in plan.verdict.reasons]


def told(said: Said) -> list[tuple[str, str]]:
    found: Any = said.json
    return [(reason["code"], reason["subject"]) for reason in found["verdict"]["reasons"]]


# -- resources ---------------------------------------------------------------------------------------


def test_a_resource_that_a_later_step_needs_refuses_a_resume_before_its_first_step(folder: Folder) -> None:
    failed(folder, BODY, meanwhile=PROVIDED)
    plan = planned(folder)
    assert (codes(plan), plan.resources) == ([("resource_missing", "search")], ("search",))
    assert plan.refused is not None
    assert plan.refused.code == "contested"
    said, ran = resumed(folder)
    assert (said.json["error"]["code"], ran) == ("contested", [])


def test_a_resource_of_the_flows_module_counts_as_provided(folder: Folder) -> None:
    failed(folder, PROVIDED, BODY)
    plan = planned(folder)
    assert (codes(plan), plan.refused, plan.resources) == ([], None, ("search",))
    said, ran = resumed(folder)
    assert (told(said), ran) == ([], ["gate", "find kelp by engine"])


def test_a_resource_that_a_module_beside_the_flow_provides_counts_too(folder: Folder) -> None:
    folder.write("tools.py", "from outlast import inject, resource, step\n" + PROVIDED)
    failed(folder, "import tools\n", BODY)
    plan = planned(folder)
    assert (codes(plan), plan.refused) == ([], None)
    assert resumed(folder)[1] == ["gate", "find kelp by engine"]


def test_what_a_resource_of_the_module_needs_itself_is_named(folder: Folder) -> None:
    needy = PROVIDED.replace("search()", 'search(*, http=inject("http"))')
    failed(folder, needy, BODY, meanwhile='@resource("http")\ndef http():\n    return 1\n')
    plan = planned(folder)
    assert codes(plan) == [("resource_missing", "http")]
    said, ran = resumed(folder)
    assert (said.json["error"]["code"], ran) == ("contested", [])
    assert "http" in said.json["error"]["detail"]


@pytest.mark.parametrize(
    "body",
    [
        BODY.replace("return find(found)", 'return find(found) if found == "algae" else found'),
        BODY.replace("return find(found)", 'if found == "algae":\n        find(found)\n    return found'),
        BODY.replace("return find(found)", 'if found == "kelp":\n        return found\n    return find(found)'),
        BODY.replace("return find(found)", 'return found == "kelp" or find(found)'),
    ],
    ids=["either or", "under a condition", "after a return", "the second of two"],
)
def test_a_resource_that_may_not_be_needed_refuses_nothing(folder: Folder, body: str) -> None:
    failed(folder, body)
    plan = planned(folder)
    assert (codes(plan), plan.refused) == ([], None)
    assert resumed(folder)[1] == ["gate"]


@pytest.mark.parametrize(
    "body",
    [
        BODY.replace("return find(found)", "return last(found)") + "def last(what):\n    return find(what)\n",
        BODY.replace("return find(found)", "return run.map(find, [found])[0]"),
        BODY.replace("return find(found)", 'return run.resource("search")'),
        BODY.replace("return find(found)", "for each in [found]:\n        find(each)\n    return found"),
        BODY.replace("return find(found)", "with open(__file__):\n        return find(found)"),
    ],
    ids=["in a helper", "in a map", "by the body itself", "in a loop", "in a with"],
)
def test_a_resource_is_found_wherever_the_body_surely_comes_to(folder: Folder, body: str) -> None:
    failed(folder, body, meanwhile=PROVIDED)
    assert codes(planned(folder)) == [("resource_missing", "search")]
    said, ran = resumed(folder)
    assert (said.json["error"]["code"], ran) == ("contested", [])


# -- code --------------------------------------------------------------------------------------------


def test_an_edited_body_weakens_the_plan_and_the_resume_alike(folder: Folder) -> None:
    failed(folder, PROVIDED, BODY)
    folder.write("flows.py", HEAD + STEPS + PROVIDED + BODY.replace('"kelp"', '"algae"'))
    plan = planned(folder)
    assert (plan.verdict.word, codes(plan)) == ("candidate", [("code_changed", "report")])
    said, ran = resumed(folder)
    assert (told(said), ran) == (codes(plan), ["fetch algae", "gate", "find algae by engine"])


def test_a_body_that_does_the_same_is_no_change(folder: Folder) -> None:
    failed(folder, PROVIDED, BODY)
    folder.write("flows.py", HEAD + STEPS + PROVIDED + BODY.replace("    gate()", "    gate()  # wait for it\n"))
    plan = planned(folder)
    assert (plan.verdict.word, codes(plan)) == ("trusted", [])
    assert told(resumed(folder)[0]) == []


@pytest.mark.parametrize(
    "text",
    [None, "def report(:\n", HEAD + STEPS, HEAD + STEPS + BODY.replace("@flow\n", "")],
    ids=["gone", "no Python", "no such flow", "no flow"],
)
def test_a_flow_that_is_not_found_is_in_the_plan_with_the_code_that_refuses(folder: Folder, text: str | None) -> None:
    failed(folder, PROVIDED, BODY)
    if text is None:
        (folder.path / "flows.py").unlink()
    else:
        folder.write("flows.py", text)
    plan = planned(folder)
    assert plan.refused is not None
    assert plan.refused.code == "flow_not_found"
    said, ran = resumed(folder)
    assert (said.json["error"]["code"], ran) == ("flow_not_found", [])


# -- partial work ------------------------------------------------------------------------------------

PARTIAL = """
@step(writes=["out.txt"], on_partial="ask")
def build() -> str:
    say("build")
    with open("out.txt", "a") as out:
        out.write("half\\n")
    if not os.path.exists("go"):
        raise ValueError("not yet")
    return "built"

@flow
def report(run: Run) -> str:
    return build()
"""


def test_a_step_that_asks_about_partial_work_is_planned_as_a_decision(folder: Folder) -> None:
    failed(folder, PARTIAL)
    plan = planned(folder)
    assert (plan.of("decide"), codes(plan)) == (("build",), [("partial_work", "build")])
    said, ran = resumed(folder)
    assert (said.json["status"], told(said), ran) == ("waiting", codes(plan), [])


def test_a_step_that_keeps_partial_work_is_tried_again_and_the_plan_names_the_files(folder: Folder) -> None:
    failed(folder, PARTIAL.replace(', on_partial="ask"', ""))
    plan = planned(folder)
    (reason,) = plan.verdict.reasons
    assert (plan.of("retry"), reason.found) == (("build",), "attempt 1 failed, left partial: out.txt created")
    said, ran = resumed(folder)
    assert (said.json["status"], told(said), ran) == ("succeeded", codes(plan), ["build"])
