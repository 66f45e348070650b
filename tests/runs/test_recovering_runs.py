"""Recovering what a dead run left, from another process: the verdict, the claim, and who may go on."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, effect, flow, step
from outlast.clock import ManualClock
from outlast.errors import RunHeld
from outlast.runs.receipt import Event

from ..crash.clerk import Clerk
from ..crash.command_folder import KILLED, Folder
from ..crash.processes import wait_until
from ..kit.ledgers import change as tamper
from ..kit.place import Place, ran, reach

ANCHOR = "task:report"
Hire = Callable[..., Clerk]


@step
def plan() -> str:
    ran("plan")
    return "a plan"


@step(writes=["draft.md"])
def write(folder: str) -> str:
    Path(folder, "draft.md").write_text("half of it")
    reach("writing")
    ran("write")
    return "a draft"


@effect
def publish() -> str:
    reach("publishing")
    return "published"


@step
def linger(folder: str) -> str:
    Path(folder, "lingering").touch()
    wait_until(Path(folder, "go").exists, "the word to go")
    return "at last"


@flow
def reports(run: Run, folder: str) -> list[str]:
    return [plan(), write(folder)]


@flow
def publishes(run: Run) -> str:
    plan()
    return publish()


@flow
def lingers(run: Run, folder: str) -> str:
    return linger(folder)


@pytest.fixture
def place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """By a clock that stands still today, since clerks have the machine's own; everybody stands where it is."""
    place.clock = ManualClock(datetime.now(UTC))
    monkeypatch.chdir(place.folder)
    return place


@pytest.fixture
def hire(place: Place) -> Iterator[Hire]:
    """Clerks at the place's home, which nobody else has open meanwhile."""
    clerks: list[Clerk] = []

    def hire(actor: str, **how: Any) -> Clerk:
        place.close()
        clerks.append(Clerk(place.home, actor, **how))
        return clerks[-1]

    yield hire
    for clerk in clerks:
        clerk.kill()


@pytest.fixture
def crashed(place: Place) -> str:
    place.crash(reports, str(place.folder), at="writing", task="report")
    return place.run_id


def told(clerk: Clerk, **how: Any) -> tuple[str, set[str], str]:
    found = clerk.ask("recover", ANCHOR, **how).value
    return found["verdict"], {*found["codes"]}, found["resume"]


def events(place: Place, name: str) -> list[Event]:
    return [event for event in place.outlast.events(place.run_id) if event.name == name]


# -- who may go on -----------------------------------------------------------------------------------


def test_a_dead_run_is_recovered_claimed_and_resumed_by_its_claimer_only(
    place: Place, hire: Hire, crashed: str
) -> None:
    ann, ben = hire("ann"), hire("ben")
    found = ann.ask("recover", ANCHOR).value
    assert (found["verdict"], {*found["codes"]}) == ("candidate", {"auto_composed", "partial_work"})
    command = f"outlast resume {crashed}"
    assert (found["run"]["status"], found["run"]["command"], found["standing"]) == ("crashed", command, "open")
    assert found["next_action"].endswith(command)
    claim = ann.ask("recover", ANCHOR, claim=True).value["claim"]
    assert (claim["run_id"], claim["actor"], claim["handoff_id"]) == (crashed, "ann", f"run:{crashed}")
    refused = ben.ask(".resume", crashed)
    assert refused.code == "run_held"
    assert f"of ann (pid {ann.pid} on " in refused.value["detail"]
    assert told(ben, claim=True) == ("contested", {"auto_composed", "partial_work", "claimed"}, "lost")
    assert ann.ask(".resume", crashed).value == {"status": "succeeded", "result": ["a plan", "a draft"]}
    assert ann.ask("recover", ANCHOR).code == ben.ask("recover", ANCHOR).code == "handoff_not_found"
    assert place.ran == ["plan", "write"]


def test_who_shows_the_claim_resumes_from_another_process(hire: Hire, crashed: str) -> None:
    ann, ben, eve = hire("ann", claimer=False), hire("ann"), hire("eve")
    claim = ann.ask("claim", ANCHOR).value["id"]
    ann.kill()
    assert ben.ask(".resume", crashed).code == "run_held"
    assert eve.ask("recover", ANCHOR, claim_id="a guess").code == "claim_lost"
    assert ben.ask("recover", ANCHOR, claim_id=claim).value["claim"]["id"] == claim
    assert ben.ask("renew", ANCHOR, claim_id=claim).value["id"] == claim
    assert ben.ask(".resume", crashed).value["status"] == "succeeded"
    assert ben.ask("renew", ANCHOR, claim_id=claim).code == "handoff_not_found"


def test_the_same_claimer_is_given_the_same_claim_again(place: Place, hire: Hire, crashed: str) -> None:
    ann = hire("ann")
    first, second = ann.ask("claim", ANCHOR).value, ann.ask("claim", ANCHOR).value
    assert (first["id"], first["epoch"]) == (second["id"], second["epoch"])
    assert ann.ask("renew", ANCHOR).value["id"] == first["id"]
    ann.kill()
    assert len(events(place, "run.claimed")) == 1


def test_a_claim_on_a_run_is_given_back_with_a_word(place: Place, hire: Hire, crashed: str) -> None:
    ann, ben = hire("ann"), hire("ben")
    assert ann.ask("settle", ANCHOR, "released").code == "claim_lost"
    ann.ask("claim", ANCHOR)
    assert ben.ask("settle", ANCHOR, "released").code == "handoff_claimed"
    assert ann.ask("settle", ANCHOR, "completed").code == "handoff_invalid"
    assert ann.ask("settle", ANCHOR, "released", note="not mine").value["outcome"] == "released"
    assert ben.ask("claim", ANCHOR).value["actor"] == "ben"
    ben.kill()
    assert [event.body["note"] for event in events(place, "run.released")] == ["not mine"]


def test_a_claim_of_a_run_is_given_once_for_one_operation(place: Place, hire: Hire, crashed: str) -> None:
    ann, again = hire("ann", claimer=False), hire("ann", claimer=False)
    first = ann.ask("claim", ANCHOR, operation_id="op-1").value
    ann.kill()
    assert again.ask("claim", ANCHOR).code == "handoff_claimed"
    second = again.ask("claim", ANCHOR, operation_id="op-1").value
    assert (first["id"], first["replayed"], second["id"], second["replayed"]) == (
        second["id"],
        False,
        first["id"],
        True,
    )
    assert again.ask("claim", ANCHOR, operation_id="op-1", take=True, why="x").code == "operation_conflict"
    assert again.ask(".resume", crashed).value["status"] == "succeeded"
    again.kill()
    assert len(events(place, "run.claimed")) == 1


def test_a_dead_claimer_is_followed_at_once(hire: Hire, crashed: str) -> None:
    ann, ben = hire("ann"), hire("ben")
    assert ann.ask("claim", ANCHOR).ok
    assert ben.ask("claim", ANCHOR).code == "handoff_claimed"
    ann.kill()
    assert ben.ask("claim", ANCHOR).ok
    assert ben.ask(".resume", crashed).value["status"] == "succeeded"


# -- taking it over ----------------------------------------------------------------------------------


def test_a_claim_on_a_run_is_taken_with_a_reason_that_is_on_the_record(place: Place, hire: Hire, crashed: str) -> None:
    ann, ben = hire("ann"), hire("ben")
    claim = ann.ask("claim", ANCHOR).value["id"]
    assert ben.ask("claim", ANCHOR, take=True).code == "handoff_invalid"  # why?
    taken = ben.ask("recover", ANCHOR, claim=True, take=True, why="ann is on leave").value
    assert (taken["resume"], taken["claim"]["actor"]) == ("attached", "ben")
    assert ann.ask(".resume", crashed).code == "run_held"
    assert ann.ask("recover", ANCHOR, claim_id=claim).code == "claim_lost"
    assert ann.ask("renew", ANCHOR, claim_id=claim).code == "claim_lost"
    assert ben.ask(".resume", crashed).value["status"] == "succeeded"
    for clerk in (ann, ben):
        clerk.kill()
    bodies = [event.body for event in events(place, "run.claimed")]
    assert [(body["by"], body.get("why", "")) for body in bodies] == [("ann", ""), ("ben", "ann is on leave")]


def test_taking_what_nobody_holds_is_claiming_it(place: Place, hire: Hire, crashed: str) -> None:
    ann = hire("ann")
    assert ann.ask("claim", ANCHOR, take=True, why="in case").ok
    ann.kill()
    assert "why" not in events(place, "run.claimed")[0].body


def test_a_run_that_is_executed_is_never_taken(place: Place, hire: Hire) -> None:
    ann, ben = hire("ann"), hire("ben")
    ann.tell(".run", f"{__name__}:lingers", str(place.folder), task="report")
    wait_until((place.folder / "lingering").exists, "the run")
    for take in ({}, {"take": True, "why": "I am in a hurry"}):
        assert told(ben, claim=True, **take)[2] == "lost"
        refused = ben.ask("claim", ANCHOR, **take)
        assert (refused.code, refused.value["until"]) == ("handoff_claimed", "its run ends")
    refused = ben.ask("claim", ANCHOR, accept=["claimed"], why="I am in a hurry")
    assert (refused.code, refused.value["path"]) == ("handoff_invalid", "accept[0]")
    (place.folder / "go").touch()
    assert ann.hear().value["status"] == "succeeded"


# -- what contests -----------------------------------------------------------------------------------


def test_an_effect_in_doubt_contests_until_somebody_takes_it_upon_himself(place: Place, hire: Hire) -> None:
    place.crash(publishes, at="publishing", task="report")
    run_id = place.run_id
    ann, ben = hire("ann"), hire("ben")
    assert told(ann, claim=True) == ("contested", {"auto_composed", "effect_in_doubt", "weak"}, "lost")
    assert ann.ask("claim", ANCHOR).code == "handoff_contested"
    accept: dict[str, Any] = {"accept": ["effect_in_doubt:publish"], "why": "I shall ask the printer"}
    refused = ann.ask("recover", ANCHOR, **accept)
    assert (refused.code, refused.value["path"]) == ("handoff_invalid", "accept")  # by who claims it
    assert ann.ask("recover", ANCHOR, claim=True, accept=["rival"], why="x").code == "handoff_invalid"
    assert told(ann, claim=True, **accept) == ("contested", {"auto_composed", "effect_in_doubt", "weak"}, "attached")
    assert f"of ann (pid {ann.pid} on " in ben.ask(".resume", run_id).value["detail"]
    ann.kill()
    assert told(ben, claim=True)[2] == "attached"  # as found then, and so accepted
    assert ben.ask(".resume", run_id).value["status"] == "waiting"  # it is asked about all the same
    ben.kill()
    (accepted,) = events(place, "run.accepted")
    assert {name: accepted.body[name] for name in ("code", "subject", "why", "actor")} == {
        "code": "effect_in_doubt",
        "subject": "publish",
        "why": "I shall ask the printer",
        "actor": "ann",
    }
    assert [event.body["by"] for event in events(place, "run.claimed")] == ["ann", "ben"]
    assert place.outlast.verify().ok


def test_what_is_accepted_with_a_claim_that_is_held_already_is_on_the_record_too(place: Place, hire: Hire) -> None:
    place.crash(reports, str(place.folder), at="writing", task="report")
    ann = hire("ann")
    claim = ann.ask("claim", ANCHOR).value
    tamper(place.home, "UPDATE journal SET payload = CAST(replace(payload, 'a plan', 'A plan') AS BLOB)")
    accept: dict[str, Any] = {"accept": ["integrity_broken"], "why": "I know what it was"}
    found = ann.ask("recover", ANCHOR, claim=True, **accept).value
    assert (found["verdict"], {*found["codes"]}) == ("contested", {"integrity_broken", "auto_composed", "weak"})
    assert (found["resume"], found["claim"]["id"], found["claim"]["epoch"]) == ("attached", claim["id"], 3)


def test_a_broken_record_of_a_run_is_contested_and_cannot_be_claimed(place: Place, hire: Hire, crashed: str) -> None:
    place.close()
    tamper(place.home, "UPDATE journal SET payload = CAST(replace(payload, 'a plan', 'A plan') AS BLOB)")
    assert told(hire("ann"), claim=True) == ("contested", {"integrity_broken", "auto_composed", "weak"}, "lost")


# -- beside an explicit handoff ----------------------------------------------------------------------


def explicit(outlast: Outlast, folder: Path, **changed: Any) -> Any:
    given: dict[str, Any] = {
        "anchor": ANCHOR,
        "summary": "The report, half way",
        "handoff_text": "Go on in report.md and write the rest of it.",
        "target_files": ["report.md"],
        "next_action": "Ask the harbour master.",
        "acceptance_checks": ["test -s report.md"],
        "repo_root": str(folder),
    }
    return outlast.handoff.store(**given | changed)


def test_an_explicit_handoff_that_is_newer_stays_the_base(place: Place, crashed: str) -> None:
    place.clock.advance(60)
    stored = explicit(place.outlast, place.folder)
    found = place.outlast.handoff.recover(ANCHOR, repo_root=str(place.folder))
    assert found.handoff == stored
    assert {reason.code for reason in found.reasons} == {"checks_not_run", "partial_work", "target_absent"}
    assert found.run is not None
    assert found.run.run_id == crashed
    claim = place.outlast.handoff.claim(ANCHOR, repo_root=str(place.folder))
    assert (claim.run_id, claim.revision) == ("", 1)  # of the handoff; the run is taken with it
    assert place.outlast.get(crashed).holder == ""  # by us
    place.outlast._executor.caller.tokens.clear()
    with pytest.raises(RunHeld):
        place.outlast.resume(crashed)


def test_an_older_one_lends_its_checks_and_they_clear_what_is_only_composed(place: Place, hire: Hire) -> None:
    explicit(place.outlast, place.folder)
    place.clock.advance(60)
    place.crash(reports, str(place.folder), at="writing", task="report")
    ann = hire("ann")
    here = {"repo_root": str(place.folder)}
    assert told(ann, **here) == ("candidate", {"auto_composed", "partial_work", "checks_not_run"}, "")
    assert told(ann, run_checks=True, **here) == ("candidate", {"auto_composed", "partial_work"}, "")  # it fails
    (place.folder / "report.md").write_text("the rest")
    assert told(ann, run_checks=True, claim=True, **here) == ("candidate", {"partial_work"}, "attached")


def test_a_finished_handoff_does_not_hide_a_run_that_died_since(place: Place, hire: Hire) -> None:
    explicit(place.outlast, place.folder, acceptance_checks=[])
    place.outlast.handoff.settle(ANCHOR, "completed", repo_root=str(place.folder), override="seen by eye")
    place.clock.advance(1)
    place.crash(reports, str(place.folder), at="writing", task="report")
    ann = hire("ann")
    assert told(ann) == ("candidate", {"auto_composed", "partial_work"}, "")
    assert ann.ask(".resume", ann.ask("claim", ANCHOR).value["run_id"]).value["status"] == "succeeded"
    assert ann.ask("recover", ANCHOR).code == "finished"


def test_a_broken_handoff_lends_nothing_and_says_so(place: Place, hire: Hire) -> None:
    explicit(place.outlast, place.folder)
    place.clock.advance(60)
    place.crash(reports, str(place.folder), at="writing", task="report")
    place.close()
    tamper(
        place.home,
        "UPDATE journal SET payload = CAST(replace(payload, 'test -s', 'test -x') AS BLOB)"
        " WHERE chain IN (SELECT key FROM anchors)",
    )
    assert told(hire("ann"), claim=True) == ("contested", {"integrity_broken"}, "lost")


# -- one claimer of the handoff and the run ----------------------------------------------------------


@pytest.fixture(params=["the handoff", "the run"])
def base(request: pytest.FixtureRequest, place: Place) -> str:
    """A handoff and a dead run of one task; the newer of the two is the base."""
    if request.param == "the run":
        explicit(place.outlast, place.folder, acceptance_checks=["test -d ."])
        place.clock.advance(60)
    place.crash(reports, str(place.folder), at="writing", task="report")
    if request.param == "the handoff":
        place.clock.advance(60)
        explicit(place.outlast, place.folder, acceptance_checks=["test -d ."])
    return str(request.param)


def test_who_claims_a_task_holds_its_handoff_and_its_run(place: Place, hire: Hire, base: str) -> None:
    run_id, here = place.run_id, {"repo_root": str(place.folder)}
    ann, ben = hire("ann"), hire("ben")
    claim = ann.ask("claim", ANCHOR, **here).value
    assert claim["run_id"] == ("" if base == "the handoff" else run_id)
    assert ben.ask(".resume", run_id).code == "run_held"
    assert ben.ask("claim", ANCHOR, **here).code == "handoff_claimed"
    assert ben.ask("settle", ANCHOR, "released", **here).code == "handoff_claimed"
    assert ann.ask("claim", ANCHOR, **here).value["id"] == claim["id"]
    assert ann.ask("renew", ANCHOR).value["id"] == claim["id"]
    refused = ann.ask("settle", ANCHOR, "completed", **here)
    assert (refused.code, run_id in refused.value["detail"]) == ("not_settled", True)
    assert ann.ask(".resume", run_id).value["status"] == "succeeded"
    assert ben.ask("claim", ANCHOR, **here).code == "handoff_claimed"  # the anchor is still ann's
    done = ann.ask("settle", ANCHOR, "completed", **here)
    assert done.ok, done
    assert done.value["outcome"] == "completed"


def test_who_resumed_its_run_and_died_with_it_is_followed_by_one(place: Place, hire: Hire, base: str) -> None:
    run_id, here = place.run_id, {"repo_root": str(place.folder)}
    ann = hire("ann", claimer=False)
    claim = ann.ask("claim", ANCHOR, **here).value["id"]
    ann.kill()
    place.killed(lambda outlast: (outlast._executor.caller.tokens.add(claim), outlast.resume(run_id)), at="writing")
    ben, eve = hire("ben"), hire("eve")
    assert ben.ask("claim", ANCHOR, **here).code == "handoff_claimed"
    assert ben.ask("recover", ANCHOR, claim_id=claim, claim=True, **here).value["claim"]["id"] == claim
    assert eve.ask(".resume", run_id).code == "run_held"
    assert ben.ask(".resume", run_id).value["status"] == "succeeded"


def test_what_is_given_back_is_free_in_both(place: Place, hire: Hire, base: str) -> None:
    run_id, here = place.run_id, {"repo_root": str(place.folder)}
    ann, ben = hire("ann"), hire("ben")
    ann.ask("claim", ANCHOR, **here)
    assert ann.ask("settle", ANCHOR, "released", **here).value["outcome"] == "released"
    assert ben.ask("claim", ANCHOR, **here).ok
    assert ann.ask(".resume", run_id).code == "run_held"
    assert ben.ask(".resume", run_id).value["status"] == "succeeded"


def test_both_are_taken_over_with_one_reason(place: Place, hire: Hire, base: str) -> None:
    run_id, here = place.run_id, {"repo_root": str(place.folder)}
    ann, ben = hire("ann"), hire("ben")
    ann.ask("claim", ANCHOR, **here)
    assert ben.ask("claim", ANCHOR, take=True, why="ann is away", **here).ok
    assert ann.ask("claim", ANCHOR, **here).code == "handoff_claimed"
    assert ann.ask(".resume", run_id).code == "run_held"
    (claimed,) = [one for one in ben.ask("history", ANCHOR).value if one["body"].get("taken_from")]
    assert claimed["body"]["why"] == "ann is away"
    assert ben.ask(".resume", run_id).value["status"] == "succeeded"


def test_a_claim_on_a_run_goes_on_as_one_on_what_was_stored_since(place: Place, hire: Hire, crashed: str) -> None:
    here = {"repo_root": str(place.folder)}
    ann, ben = hire("ann"), hire("ben")
    claim = ann.ask("claim", ANCHOR).value["id"]
    assert ben.ask("store", anchor=ANCHOR, summary="Beside it", handoff_text="x", **here).ok
    assert ben.ask("claim", ANCHOR, **here).code == "handoff_claimed"
    assert ann.ask("claim", ANCHOR, **here).value["id"] == claim


# -- a flow of commands ------------------------------------------------------------------------------


def test_a_killed_flow_of_commands_is_recovered_claimed_and_resumed(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work")
    folder.flow(
        "- {id: plan, run: echo plan >> diary}\n"
        "- {id: build, run: 'echo half > out.txt; test -e go || kill -9 $RUNTIME; echo whole > out.txt', "
        "writes: [out.txt]}"
    )
    clerks: list[Clerk] = []
    try:
        assert folder.cli("run", "flow.yaml").code == KILLED
        task, run_id = folder.outlast.get(folder.run_id).task, folder.run_id
        folder.close()
        clerks += [Clerk(folder.path / ".outlast", name) for name in ("ann", "ben")]
        ann, ben = clerks
        found = ann.ask("recover", f"task:{task}", repo_root=str(folder.path)).value
        assert (found["verdict"], {*found["codes"]} - {"still_running"}) == (
            "candidate",
            {"auto_composed", "partial_work"},
        )
        assert found["run"]["command"] == f"outlast resume {run_id}"
        folder.write("go", "")
        assert ann.ask("claim", f"task:{task}").value["run_id"] == run_id
        assert ben.ask(".resume", run_id).code == "run_held"
        assert ann.ask(".resume", run_id).value["status"] == "succeeded"
        assert ann.ask("recover", f"task:{task}").code == "handoff_not_found"
        assert (folder.lines(), folder.read("out.txt")) == (["plan"], "whole\n")
    finally:
        for clerk in clerks:
            clerk.kill()
        folder.end()
