"""Runs are found by what they are: status, flow, task, tag, session, trace, actor, time and text; page by page."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, current, flow
from outlast.errors import NameInvalid, OptionInvalid, RunNotFound, ValueRefused
from outlast.runs.find import RunQuery, is_so


@flow
def tide(run: Run, place: str) -> dict[str, Any]:
    if place == "Nowhere":
        raise LookupError("no such harbour")
    run.state["seen"] = place
    return {
        "task": run.task,
        "trace_id": run.trace_id,
        "session_id": run.session_id,
        "meta": run.meta,
        "tenant": run.tenant,
        "actor": current().actor,
        "scope": run.scope,
        "tags": list(run.tags),
    }


@flow(name="named-watch")
def watch(run: Run) -> None:
    run.phase = "watching"


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home", actor="ada", scope="shore") as found:
        yield found


def ids(runs: list[Any]) -> list[str]:
    return [run.id for run in runs]


@pytest.fixture
def started(outlast: Outlast) -> list[str]:
    """Three runs, the oldest first: of two flows, one tagged, one failed."""
    tagged = outlast.with_options(tags=["nightly", "kelp"])
    first = tagged.run(tide, "Bodø", task="north", session="talk", trace_id="trace-1", meta={"why": "drill"})
    outlast.run(tide, "Nowhere").status  # noqa: B018
    return [first.run_id, *ids(outlast.runs(status="failed")), outlast.run(watch).run_id]


def test_a_body_knows_what_its_run_was_started_with(outlast: Outlast) -> None:
    tagged = outlast.with_options(tags=["nightly", "kelp"])
    known = tagged.run(tide, "Bodø", task="north", session="talk", trace_id="trace-1", meta={"why": "drill"}).unwrap()
    assert known == {
        "task": "north",
        "trace_id": "trace-1",
        "session_id": "talk",
        "meta": {"why": "drill"},
        "tenant": "default",
        "actor": "ada",
        "scope": "shore",
        "tags": ["kelp", "nightly"],
    }


def test_the_state_of_a_run_is_seen_from_outside_also_of_a_finished_one(outlast: Outlast, started: list[str]) -> None:
    assert outlast.get(started[0]).state == {"seen": "Bodø"}
    assert outlast.get(started[1]).state == {}
    assert [run.state for run in outlast.runs()] == [None, None, None]


def test_runs_are_found_by_each_thing_that_they_are(outlast: Outlast, started: list[str]) -> None:
    north, failed, named = started
    assert ids(outlast.runs(status="failed")) == [failed]
    assert ids(outlast.runs(flow="tide")) == [failed, north]
    assert ids(outlast.runs(flow=outlast.get(north).flow)) == [failed, north]
    assert ids(outlast.runs(flow="named-watch")) == ids(outlast.runs(flow="watch")) == [named]
    assert ids(outlast.runs(task="north")) == ids(outlast.runs(tag="kelp")) == [north]
    assert ids(outlast.runs(session="talk")) == ids(outlast.runs(trace="trace-1")) == [north]
    assert ids(outlast.runs(actor="ada")) == [named, failed, north]
    assert ids(outlast.runs(text="BODØ")) == ids(outlast.runs(text="drill")) == [north]
    assert ids(outlast.runs(text="harbour")) == [failed]
    assert outlast.runs(tag="weekly") == outlast.runs(actor="bob") == outlast.runs(text="whale") == []


def test_what_is_asked_for_narrows(outlast: Outlast, started: list[str]) -> None:
    north, failed, named = started
    assert ids(outlast.runs(flow="tide", status="failed")) == [failed]
    assert ids(outlast.runs(actor="ada", tag="nightly", flow="tide", session="talk", text="Bod")) == [north]
    assert outlast.runs(tag="nightly", status="failed") == []
    assert outlast.runs(flow="tide", task="north", trace="trace-2") == []
    assert outlast.get(named).phase == "watching"


def test_runs_are_found_by_when_they_began(outlast: Outlast, started: list[str]) -> None:
    everything = ids(outlast.runs())
    began = outlast.get(started[1]).created_at
    assert ids(outlast.runs(since=began)) == [started[2], started[1]]
    assert ids(outlast.runs(until=began)) == [started[0]]
    assert ids(outlast.runs(since=began.isoformat(), until=began + timedelta(microseconds=1))) == [started[1]]
    assert ids(outlast.runs(since="90m")) == ids(outlast.runs(since=timedelta(days=1))) == everything
    assert ids(outlast.runs(since=f"{datetime.now(UTC):%Y}-01-01", actor="ada", limit=1)) == everything[:1]
    assert outlast.runs(until="7d") == []


def test_pages_follow_each_other_whatever_is_asked_for(outlast: Outlast) -> None:
    tagged = outlast.with_options(tags=["many"])
    made = [tagged.run(watch, task=f"t{number}").run_id for number in range(7)]
    outlast.run(watch, task="another")
    for asked in ({"tag": "many"}, {"flow": "named-watch", "text": "many"}, {"since": "1d", "tag": "many"}):
        found, cursor = list[str](), None
        while page := outlast.runs(limit=3, cursor=cursor, **asked):  # type: ignore[arg-type]
            found, cursor = found + ids(page), page[-1].id
        assert found == made[::-1], asked


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"status": "suceeded"}, "use one of queued, running, waiting, failed"),
        ({"since": "yesterday"}, "is no time"),
        ({"until": datetime(2026, 1, 1)}, "time zone"),
        ({"limit": -1}, "whole number"),
        ({"limit": "5"}, "whole number"),
    ],
)
def test_what_is_no_value_of_a_filter_is_refused(outlast: Outlast, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueRefused, match=says):
        outlast.runs(**asked)


def test_an_empty_name_or_an_unknown_page_is_refused(outlast: Outlast) -> None:
    with pytest.raises(NameInvalid):
        outlast.runs(tag="")
    with pytest.raises(RunNotFound):
        outlast.runs(cursor="nothing")
    with pytest.raises(TypeError):
        outlast.runs(statsu="failed")  # type: ignore[call-arg]


def test_tags_are_names(outlast: Outlast) -> None:
    with pytest.raises(OptionInvalid):
        outlast.with_options(tags="nightly")
    with pytest.raises(NameInvalid):
        outlast.with_options(tags=["a\nb"]).run(watch)
    assert outlast.runs() == []


def test_tags_travel_and_stay_with_a_fork_and_go_with_the_run(outlast: Outlast, tmp_path: Path) -> None:
    run_id = outlast.with_options(tags=["nightly"]).run(watch).run_id
    assert outlast.verify().ok
    outlast.export(run_id, tmp_path / "run.zip")
    with Outlast(tmp_path / "other") as other:
        other.import_(tmp_path / "run.zip")
        assert ids(other.runs(tag="nightly")) == [run_id]
        assert other.verify().ok
    outlast.gc(older_than=0, dry_run=False)
    assert outlast.runs(tag="nightly") == []
    assert outlast.verify().ok


def test_a_changed_index_of_tags_is_noticed(outlast: Outlast) -> None:
    outlast.with_options(tags=["nightly"]).run(watch)
    outlast._executor.home.store.write(lambda tx: tx.add_run_tags(outlast._row(outlast.runs()[0].id).key, ["weekly"]))
    (problem,) = outlast.verify().problems
    assert "index of its tags" in problem.why


def test_a_page_that_is_to_be_there_at_once_looks_at_so_many_runs_and_leads_on(outlast: Outlast) -> None:
    for number in range(12):
        outlast.run(watch, task=f"watch-{number}")
    first = outlast._some_runs(50, 5, None, text="watch-1")
    assert ([run.task for run in first.runs], first.looked_at) == (["watch-11", "watch-10"], 5)
    then = outlast._some_runs(50, 5, first.last, text="watch-1")
    assert (then.runs, then.looked_at) == ([], 5)
    last = outlast._some_runs(50, 5, then.last, text="watch-1")
    assert ([run.task for run in last.runs], last.last) == (["watch-1"], "")
    full = outlast._some_runs(2, 100, None)
    assert (len(full.runs), full.last) == (2, full.runs[-1].id)


@pytest.mark.parametrize("text", ["ß", "SS", "k", "\\n", '"place":"', "\u212a", "nightly", "/", "drill"])
def test_a_text_that_its_row_rules_out_is_in_no_run(outlast: Outlast, text: str) -> None:
    """What is compared with rows finds what a comparison with each whole run does."""
    tagged = outlast.with_options(tags=["Nightly"])
    tagged.run(tide, "Straße\n\u212a/\u2028", meta={"why": "drill \u017f"})
    outlast.run(tide, "Nowhere")
    query = RunQuery(text=text)
    every = [run.id for run in outlast.runs() if is_so(run, query)]
    assert ids(outlast.runs(text=text)) == every
