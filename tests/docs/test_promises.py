"""The page of guarantees has every promise, each with how it is tested; extras, ports and probes on pages are true."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from outlast.adapters.temporal.settings import ADDRESS
from outlast.doors.cli.serve import PORT

from .test_flow_example import RUNNING, outlast
from .test_snippets import PAGES, ROOT, named

PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\d+)\. [^\n]*\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_every_promise_is_on_the_page() -> None:
    assert list(SECTIONS) == [str(number) for number in range(1, 18)]


@pytest.mark.parametrize("number", SECTIONS)
def test_a_promise_says_how_it_is_tested(number: str) -> None:
    told = SECTIONS[number].partition("*Tested:*")[2]
    assert re.search(r"\.\./tests/|`tests/\w+`", told)


def test_the_folders_of_tests_that_the_page_names_are_there() -> None:
    assert [name for name in re.findall(r"`(tests/\w+)`", PAGE) if not (ROOT / name).is_dir()] == []


# Extras, ports, probes


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"all"}))
def test_an_extra_installs_what_our_code_imports(extra: str) -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    modules = [re.split(r"[<>=\[]", needed)[0].replace("-", "_") for needed in EXTRAS[extra]]
    assert [name for name in modules if not re.search(rf"^\s*(import|from) {name}\b", source, re.MULTILINE)] == []


def test_all_extras_are_in_all() -> None:
    (everything,) = EXTRAS["all"]
    assert set(re.findall(r"\w+", everything)) - {"outlast"} == set(EXTRAS) - {"all"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_extras_and_ports_on_a_page_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    assert {word for found in re.findall(r"outlast\[(\w[\w,]*)\]", text) for word in found.split(",")} <= {
        *EXTRAS,
        "extra",
    }
    ports = {int(port) for port in re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", text)}
    assert ports <= {PORT, 41234, int(ADDRESS.rpartition(":")[2])}  # ours, a free one, and Temporal's


def with_probes() -> list[tuple[str, str]]:
    found = [(f"{named(page)}:{line}", text) for page, line, text in RUNNING]
    return [(where, text) for where, text in found if any("confirm" in step for step in effects(yaml.safe_load(text)))]


def effects(recipe: Any) -> list[dict[str, Any]]:
    return [step for step in recipe["steps"] if step.get("effect")]


@pytest.mark.parametrize(("where", "text"), with_probes(), ids=[where for where, _ in with_probes()])
def test_a_probe_on_a_page_says_that_nothing_happened_when_nothing_did(where: str, text: str, tmp_path: Path) -> None:
    recipe = yaml.safe_load(text)
    for step in effects(recipe):
        step["run"] = "exit 9"  # cut off before it did anything
    (tmp_path / "flow.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), "utf-8")
    done: subprocess.CompletedProcess[str] = outlast(tmp_path, "run", "flow.yaml")
    assert done.returncode == 1, f"{where}: the probe did not know\n{done.stdout}{done.stderr}"
