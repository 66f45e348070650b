"""A new run whose flow will surely need a resource that nobody provides is refused before its first step."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import ResourceMissing
from outlast.flows.loading import load
from outlast.resources import provider

HEAD = """
import contextlib
import outlast
from outlast import Run, effect, flow, inject, resource, step

made = []

@step
def first(run_on=1):
    made.append("first")

@step
def fetch(url="a", *, http=inject("http")):
    made.append("fetch")
    return str(http)

"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    known, registered = set(sys.modules), dict(provider._registered)
    yield tmp_path
    provider._registered.clear()
    provider._registered.update(registered)
    for name in set(sys.modules) - known:
        del sys.modules[name]


def loaded(project: Path, body: str, more: str = "") -> Any:
    (project / "flows.py").write_text(f"{HEAD}{more}\n@flow\ndef reading(run: Run):\n    first()\n{body}\n")
    return load("flows.py:reading", project)


SURE = {
    "called": "    fetch()",
    "by the run": '    run.step(fetch, "a")',
    "in a function": "    helper()",
    "in the body": '    run.resource("http")',
    "after a condition": "    if made:\n        first(2)\n    fetch()",
    "in a context": "    with open(__file__):\n        fetch()",
    "in a child run": "    run.spawn(below).result()",
}
PERHAPS = {
    "in a branch": "    if len(made) > 5:\n        fetch()",
    "after a return": "    if made:\n        return None\n    fetch()",
    "in a loop": "    for url in ():\n        fetch(url)",
    "in a comprehension": "    [fetch(url) for url in ()]",
    "in a map": "    run.map(fetch, [])",
    "given": '    fetch("a", http="mine")',
    "in a context that may see to it": "    with contextlib.suppress(Exception):\n        fetch()",
    "seen to": "    try:\n        fetch()\n    except outlast.errors.ResourceMissing:\n        return None",
}
HELPER = "def helper():\n    return fetch()\n\n@flow\ndef below(run: Run):\n    first(2)\n    fetch()\n"


@pytest.mark.parametrize("where", SURE)
def test_what_a_flow_surely_needs_is_refused_before_its_first_step(project: Path, where: str) -> None:
    flow = loaded(project, SURE[where], HELPER)
    with Outlast(project / ".outlast") as outlast:
        with pytest.raises(ResourceMissing, match="'http' is needed") as refused:
            outlast.run(flow)
        assert refused.value.facts["step"] in ("fetch", "reading", "helper")
        assert outlast.runs() == []
        outlast.resource("http", "a line")
        assert outlast.run(flow).status == "succeeded"
    assert sys.modules[flow.function.__module__].made[0] == "first"


@pytest.mark.parametrize("where", PERHAPS)
def test_what_is_only_perhaps_needed_refuses_no_start(project: Path, where: str) -> None:
    flow = loaded(project, PERHAPS[where])
    with Outlast(project / ".outlast") as outlast:
        assert outlast.run(flow).status == "succeeded"


PROVIDED = {
    "decorated": '@resource("http")\ndef line():\n    return "a line"\n',
    "by a step": '@step\ndef sign_in():\n    OPEN[0].resource("http", "a line")\nOPEN = []\n',
}


@pytest.mark.parametrize("how", PROVIDED)
def test_what_the_module_provides_counts_as_provided(project: Path, how: str) -> None:
    call = "    sign_in()\n" if how == "by a step" else ""
    flow = loaded(project, f"{call}    fetch()", PROVIDED[how])
    with Outlast(project / ".outlast") as outlast:
        if call:
            sys.modules[flow.function.__module__].OPEN.append(outlast)
        assert outlast.run(flow).status == "succeeded"


def test_a_task_that_has_happened_is_answered_whatever_is_missing(project: Path) -> None:
    flow = loaded(project, "    fetch()")
    with Outlast(project / ".outlast") as outlast:
        outlast.resource("http", "a line")
        assert outlast.run(flow, task="t").status == "succeeded"
    with Outlast(project / ".outlast") as outlast:
        assert outlast.run(flow, task="t").replayed


def test_a_child_that_surely_needs_what_nobody_provides_is_refused_before_its_first_step(project: Path) -> None:
    flow = loaded(project, "    if made:\n        return run.spawn(below).result()", HELPER)
    with Outlast(project / ".outlast") as outlast:
        outcome = outlast.run(flow)
        error = outcome.error or {}
        assert (outcome.status, error["type"]) == ("failed", "outlast.errors:ResourceMissing")
        assert "for fetch of child flow below; nothing of it was run" in error["message"]
        assert sys.modules[flow.function.__module__].made == ["first"]
        assert [run.flow for run in outlast.runs()] == ["flows.py:reading"]
        outlast.resource("http", "a line")
        assert outlast.resume(outcome.run_id).status == "succeeded"
    assert sys.modules[flow.function.__module__].made == ["first", "first", "fetch"]
