"""What each button of a run shows before anything is done: what runs again, and what becomes of effects."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing.crashes import in_child

from . import flows
from .pages import Place, Visitor, opened, until

SAID = re.compile(r"<dt>(.*?) <span class=\"quiet\">\d+</span></dt>\s*<dd>(.*?)</dd>", re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


@pytest.fixture
def visitor(place: Place) -> Visitor:
    return place.visitor()


def groups(visitor: Visitor, run_id: str, do: str, step: str = "") -> dict[str, list[str]]:
    """What the page says would happen: each heading with what is under it."""
    shown = visitor.get(f"/runs/{run_id}/choose?do={do}" + (f"&step={step}" if step else ""))
    assert shown.status == 200, shown.text
    assert "What would happen" in shown.text
    spans = {word: re.split(r"</span>(?=<span class=.step|$)", found) for word, found in SAID.findall(shown.text)}
    texts = {word: [html.unescape(re.sub("<[^>]*>", "", one)) for one in found] for word, found in spans.items()}
    return {word: [one for one in found if one] for word, found in texts.items()}


def delivered(outlast: Outlast, path: Path) -> str:
    """A run that found, published, and failed after that."""
    ended = outlast.run(flows.delivering, str(path), task=str(path))
    assert ended.status == "failed"
    return ended.run_id


def test_a_fork_shows_first_what_it_takes_over_and_what_happens_again(
    place: Place, visitor: Visitor, tmp_path: Path
) -> None:
    with Outlast(place.home) as outlast:
        run = delivered(outlast, tmp_path / "made")
        told = groups(visitor, run, "fork", "publish")
        assert told["Taken over, not done again"] == ["find", "publish effect, protected"]
        assert told["Done anew when the fork is resumed"] == ["stumble"]
        (again,) = told["Effects that happen again if you let them be done again"]
        assert again.startswith("publish")
        later = groups(visitor, run, "fork", "stumble")
        assert later["Taken over, not done again"] == ["find", "publish effect, protected"]
        assert "Effects that happen again if you let them be done again" not in later
        assert outlast.get(run).status == "failed"
        assert len(outlast.runs(flow="delivering")) == 1  # looking forks nothing


def test_a_fork_of_a_run_that_is_over_shows_the_same(place: Place, visitor: Visitor) -> None:
    with Outlast(place.home) as outlast:
        run = outlast.run(flows.publishing, 3).run_id
        told = groups(visitor, run, "fork", "publish")
    assert told["Taken over, not done again"] == ["publish effect, protected"]
    assert len(told["Effects that happen again if you let them be done again"]) == 1


@pytest.mark.parametrize(
    ("do", "told"),
    [
        ("retry", {"Run again": ["stumble"], "Kept, their receipts are used": ["find", "publish effect, protected"]}),
        ("skip", {"Kept, their receipts are used": ["find", "publish effect, protected", "stumble"]}),
    ],
)
def test_a_retry_and_a_skip_show_first_what_a_resume_does_with_it(
    place: Place, visitor: Visitor, tmp_path: Path, do: str, told: dict[str, list[str]]
) -> None:
    with Outlast(place.home) as outlast:
        run = delivered(outlast, tmp_path / "made")
        assert groups(visitor, run, do, "stumble") == told
        assert [step.label for step in outlast.plan(run).steps if step.action == "reuse"] == ["find", "publish"]


def test_what_has_succeeded_is_neither_retried_nor_skipped_and_the_page_says_so(
    place: Place, visitor: Visitor, tmp_path: Path
) -> None:
    with Outlast(place.home) as outlast:
        run = delivered(outlast, tmp_path / "made")
    for do in ("retry", "skip"):
        shown = visitor.get(f"/runs/{run}/choose?do={do}&step=publish").text
        assert f"publish has succeeded already, so it cannot be asked to {do}" in shown


@pytest.mark.crash
@pytest.mark.parametrize("do", ["retry", "skip"])
def test_an_effect_in_doubt_is_in_doubt_no_longer_in_what_a_decision_about_it_shows(tmp_path: Path, do: str) -> None:
    home = tmp_path / "home"
    assert in_child(lambda tell: Outlast(home).run(flows.paying), 60).killed
    with Outlast(home) as outlast:
        run = outlast.runs(flow="paying")[0].id
        assert outlast.resume(run).status == "waiting"
    with opened(home) as place:
        visitor = place.visitor()
        before = visitor.get(f"/runs/{run}/choose?do=resume").text
        shown = visitor.get(f"/runs/{run}/choose?do={do}&step=pay").text
        told = groups(visitor, run, do, "pay")
        aborted = groups(visitor, run, "abort")
    assert "effect in doubt" in before
    assert "effect in doubt" not in shown
    assert told == {"Run again" if do == "retry" else "Kept, their receipts are used": ["pay effect, protected"]}
    assert len(aborted["Effects of which nobody knows whether they happened"]) == 1
    assert len(aborted["Asked, and not to be answered any more"]) == 1


def test_an_abort_shows_first_which_effects_stay_done(place: Place, visitor: Visitor, tmp_path: Path) -> None:
    with Outlast(place.home) as outlast:
        run = delivered(outlast, tmp_path / "made")
    told = groups(visitor, run, "abort")
    assert list(told) == ["Effects that were done and stay done"]
    assert len(told["Effects that were done and stay done"]) == 1
    assert "No step runs again." in visitor.get(f"/runs/{run}/choose?do=abort").text


def test_a_pause_and_an_abort_show_first_what_is_under_way(place: Place, visitor: Visitor, tmp_path: Path) -> None:
    with Outlast(place.home) as outlast:
        started = outlast.start(flows.striding, str(tmp_path / "go"))
        until(lambda: any(item.status == "running" for item in outlast.timeline(started.run_id)))
        assert groups(visitor, started.run_id, "pause") == {"Under way, and ends first": ["until_there"]}
        told = groups(visitor, started.run_id, "abort")
        assert told == {"Under way: what comes of it is not recorded any more": ["until_there"]}
        (tmp_path / "go").write_text("on")
        assert started.outcome(30).status == "succeeded"
