"""Gates over MCP: a model decides nothing in a person's place, unless it may; a client that can ask, asks."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp_types import ElicitRequestFormParams, ElicitResult

from ..ready import by_name, environment
from .mcp_place import FOR_PEOPLE, TOOLS, Caller, Place, connected, contract

ERAS = ["2026-07-28", "legacy"]
Person = Callable[[ElicitRequestFormParams], ElicitResult]


def yes(**content: Any) -> Person:
    return lambda asked: ElicitResult(action="accept", content=content)


class Asked:
    """The person at the client: what was put to them, and what they say."""

    def __init__(self) -> None:
        self.says: Person = yes()
        self.heard: list[ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.heard.append(params)
        return self.says(params)


@contextmanager
def at(place: Place, *words: str, mode: str, **how: Any) -> Iterator[Caller]:
    args = ["-m", "outlast", "mcp", "--home", str(place.folder / ".outlast"), "--actor", "model", *words]
    server = StdioServerParameters(**by_name(*args), cwd=place.folder, env=environment())
    with connected(server, mode=mode, **how) as caller:
        yield caller


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("project"))
    made.opened().close()
    return made


@pytest.fixture(scope="module", params=ERAS)
def model(request: pytest.FixtureRequest, place: Place) -> Iterator[Caller]:
    """A client that cannot ask its user anything."""
    with at(place, mode=request.param) as caller:
        yield caller


@pytest.fixture(scope="module", params=ERAS)
def asking(request: pytest.FixtureRequest, place: Place) -> Iterator[tuple[Caller, Asked]]:
    """A client that can, and the user."""
    person = Asked()
    with at(place, mode=request.param, elicitation_callback=person) as caller:
        yield caller, person


def wait_of(place: Place, run_id: str) -> Any:
    with place.opened() as outlast:
        (wait,) = outlast.interrupts(run_id)
        return wait


def names(call: Caller) -> set[str]:
    return {each.name for each in call.does(call.client.list_tools).tools}


# -- a client that cannot ask ------------------------------------------------------------------------


def test_what_is_for_people_is_not_listed(model: Caller) -> None:
    assert names(model) == TOOLS - FOR_PEOPLE


def test_and_called_all_the_same_it_is_refused_and_nothing_is_answered(model: Caller, place: Place) -> None:
    run_id = place.start("report", topic=f"shut-{model.client.mode}")
    wait = wait_of(place, run_id)
    refused = [
        model.problem("interrupt_answer", interrupt_id=wait.id, answer={"approved": True}),
        model.problem("run_skip", run_id=run_id, step="find", why="w"),
        model.problem("run_rewind", run_id=run_id, step="find"),
        model.problem("run_fork", run_id=run_id, from_step="find"),
        model.problem("run_resume", run_id=run_id, accept=["code_changed"], why="w"),
        model.problem("run_resume", run_id=run_id, flow="another"),
    ]
    assert [each["code"] for each in refused] == ["forbidden"] * 6
    assert "--allow-approve" in refused[0]["advice"]
    assert wait_of(place, run_id).status == "open"


def test_accept_take_and_override_of_handoffs_and_tasks_are_refused_too(model: Caller, place: Place) -> None:
    task = f"gated-{model.client.mode}"
    file = place.folder / f"{task}.py"
    file.write_text("one\n")
    model.value("task_pause", task=task, **contract(target_files=[file.name]))
    file.write_text("two\n")
    anchor = f"task:{task}"
    reason = f"file_changed:{file.name}"
    for tool, given in (
        ("handoff_recover", {"anchor": anchor, "claim": True, "accept": [reason], "why": "w"}),
        ("handoff_recover", {"anchor": anchor, "claim": True, "take": True, "why": "w"}),
        ("handoff_settle", {"anchor": anchor, "outcome": "completed", "override": "w"}),
        ("task_resume", {"task": task, "accept": [reason], "why": "w"}),
        ("task_resume", {"task": task, "take": True, "why": "w"}),
        ("task_complete", {"task": task, "override": "w"}),
    ):
        assert model.problem(tool, **given)["code"] == "forbidden", tool
    assert model.value("handoff_recover", anchor=anchor)["verdict"] == "contested"


def test_a_step_may_be_tried_again_and_an_effect_may_not(model: Caller, place: Place) -> None:
    assert "run_retry" in names(model)
    run_id = place.start("paying", amount=len(model.client.mode))
    refused = model.problem("run_retry", run_id=run_id, step="charge", why="w")
    assert refused["code"] == "forbidden"
    assert "effect" in refused["detail"]
    assert wait_of(place, run_id).status == "open"


# -- a client that can -------------------------------------------------------------------------------


def test_a_client_that_asks_is_shown_every_tool(asking: tuple[Caller, Asked]) -> None:
    assert names(asking[0]) == TOOLS


def test_a_person_answers_and_the_models_answer_does_not_count(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("report", topic=f"asked-{call.client.mode}")
    wait = wait_of(place, run_id)
    person.heard.clear()
    person.says = yes(approved=False, comment="not like this")
    done = call.value("interrupt_answer", interrupt_id=wait.id, answer={"approved": True})
    assert done["answer"] == {"approved": False, "comment": "not like this"}
    assert done["answered_by"] == "user of model"
    (shown,) = person.heard
    assert f"ASKED-{call.client.mode.upper()}" in shown.message
    assert shown.requested_schema["required"] == ["approved"]
    assert done["outcome"]["result"] == "declined"


def test_and_a_yes_goes_on(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("report", topic=f"yes-{call.client.mode}")
    person.says = yes(approved=True)
    done = call.value("interrupt_answer", interrupt_id=wait_of(place, run_id).id, answer=None)
    assert (done["outcome"]["status"], done["why_not"]) == ("succeeded", "")


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_does_not_answer_leaves_it_open(asking: tuple[Caller, Asked], place: Place, action: Any) -> None:
    call, person = asking
    run_id = place.start("report", topic=f"{action}-{call.client.mode}")
    wait = wait_of(place, run_id)
    person.says = lambda asked: ElicitResult(action=action)
    assert call.problem("interrupt_answer", interrupt_id=wait.id, answer={"approved": True})["code"] == "forbidden"
    assert wait_of(place, run_id).status == "open"


def test_a_form_is_made_of_the_schema(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("choosing", task=f"form-{call.client.mode}")
    person.heard.clear()
    person.says = yes(channel="mail", copies=3)
    done = call.value("interrupt_answer", interrupt_id=wait_of(place, run_id).id, answer={"channel": "blog"})
    fields = person.heard[0].requested_schema["properties"]
    assert fields["channel"] == {"type": "string", "enum": ["blog", "mail"], "description": "Where to?"}
    assert fields["copies"] == {"type": "integer", "minimum": 1}
    assert done["outcome"]["result"] == "mail 3"


def test_an_answer_that_does_not_fit_leaves_it_open(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("choosing", task=f"unfit-{call.client.mode}")
    wait = wait_of(place, run_id)
    person.says = yes(channel="fax")
    assert call.problem("interrupt_answer", interrupt_id=wait.id, answer={})["code"] == "answer_invalid"
    assert wait_of(place, run_id).status == "open"


def test_what_no_form_can_hold_is_asked_for_as_json(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("listing", task=f"json-{call.client.mode}")
    wait = wait_of(place, run_id)
    person.says = yes(answer="[1, 2")
    assert call.problem("interrupt_answer", interrupt_id=wait.id, answer=0)["code"] == "answer_invalid"
    person.says = yes(answer=json.dumps([1, 2]))
    assert call.value("interrupt_answer", interrupt_id=wait.id, answer=0)["outcome"]["result"] == 3


def test_a_person_decides_about_an_effect_in_doubt(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("paying", amount=100 + len(call.client.mode))
    person.heard.clear()
    person.says = yes(choice="skip", why="seen it", result='"paid"')
    done = call.value("interrupt_answer", interrupt_id=wait_of(place, run_id).id, answer={"choice": "retry"})
    assert person.heard[0].requested_schema["properties"]["choice"]["enum"] == ["retry", "skip", "abort"]
    assert done["outcome"]["result"] == "paid"


def test_other_gates_are_put_to_the_person_with_what_the_model_wants(
    asking: tuple[Caller, Asked], place: Place
) -> None:
    call, person = asking
    run_id = place.start("paying", amount=200 + len(call.client.mode))
    given = {"run_id": run_id, "step": "charge", "why": "paid by hand", "result": "paid"}
    person.says = yes(agree=False)
    assert call.problem("run_skip", **given)["code"] == "forbidden"
    assert wait_of(place, run_id).status == "open"
    person.heard.clear()
    person.says = yes(agree=True)
    call.value("run_skip", **given)
    assert "paid by hand" in person.heard[0].message
    assert call.value("run_resume", run_id=run_id)["result"] == "paid"


def test_accepting_is_put_to_the_person(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    anchor = f"accept-{call.client.mode}"
    file = place.folder / f"{anchor}.py"
    file.write_text("one\n")
    call.value("handoff_store", anchor=anchor, **contract(target_files=[file.name]))
    file.write_text("two\n")
    given = {"anchor": anchor, "claim": True, "accept": [f"file_changed:{file.name}"], "why": "the edit is mine"}
    person.says = yes(agree=False)
    assert call.problem("handoff_recover", **given)["code"] == "forbidden"
    person.says = yes(agree=True)
    assert call.value("handoff_recover", **given)["resume"] == "attached"


def test_nobody_is_asked_about_what_is_answered_already(asking: tuple[Caller, Asked], place: Place) -> None:
    call, person = asking
    run_id = place.start("report", topic=f"late-{call.client.mode}")
    wait = wait_of(place, run_id)
    with place.opened() as outlast:
        outlast.answer(wait.id, {"approved": True})
    person.heard.clear()
    assert call.problem("interrupt_answer", interrupt_id=wait.id, answer=1)["code"] == "already_answered"
    assert person.heard == []


def test_an_answer_to_another_call_does_not_count(place: Place) -> None:
    """What the client sends along is bound to the call and to what was shown."""
    person = Asked()
    person.says = yes(approved=True)
    run_id = place.start("report", topic="bound")
    wait = wait_of(place, run_id)
    with at(place, mode="2026-07-28", elicitation_callback=person) as call:
        session = call.client.session
        given = {"interrupt_id": wait.id, "answer": {"approved": True}}
        first = call.does(lambda: session.call_tool("interrupt_answer", given, allow_input_required=True))
        (key,) = first.input_requests
        other = given | {"answer": {"approved": False}}
        said = {key: ElicitResult(action="accept", content={"approved": True})}
        again = call.does(
            lambda: session.call_tool("interrupt_answer", other, input_responses=said, allow_input_required=True)
        )
        assert set(again.input_requests) != {key}
    assert wait_of(place, run_id).status == "open"


# -- who may -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
def test_with_allow_approve_the_model_answers_and_nobody_is_asked(place: Place, mode: str) -> None:
    person = Asked()
    run_id = place.start("report", topic=f"allowed-{mode}")
    with at(place, "--allow-approve", mode=mode, elicitation_callback=person) as call:
        assert names(call) == TOOLS
        answer = {"interrupt_id": wait_of(place, run_id).id, "answer": {"approved": True}}
        stays = call.value("interrupt_answer", **answer, resume=False)
        assert (stays["answered_by"], stays["outcome"]) == ("model", None)
        assert call.value("run_resume", run_id=run_id)["result"] == f"ALLOWED-{mode.upper()}"
        doubtful = place.start("paying", amount=300 + len(mode))
        call.value("run_retry", run_id=doubtful, step="charge", why="it did not happen")
    assert person.heard == []


def test_the_command_that_a_client_is_told_has_the_flag_if_it_was_given(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from outlast.doors.cli.group import cli

    shown = CliRunner().invoke(cli, ["mcp", "install", "--client", "claude", "--allow-approve"]).output
    assert "--allow-approve" in shown
    assert "--allow-approve" not in CliRunner().invoke(cli, ["mcp", "install", "--client", "claude"]).output
    url = ["mcp", "install", "--client", "claude", "--url", "http://127.0.0.1:1/mcp", "--allow-approve"]
    assert CliRunner().invoke(cli, url).exit_code == 2
