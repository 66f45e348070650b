"""Every example runs by the command on its page, twice in a row in the same folder, and replays without a divergence.

A line of the page that ends in `# …: exit 3` says how the command ends; the others end with 0.
"""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from .. import ready
from .test_snippets import ROOT, environment, fences

EXAMPLES = ROOT / "examples"
PAGE = (EXAMPLES / "README.md").read_text("utf-8")


class Line(NamedTuple):
    """A command of the page."""

    words: tuple[str, ...]
    code: int

    @property
    def example(self) -> str:
        """The file or folder under examples/ that it runs."""
        return next(word for word in self.words if word.startswith("examples/")).split("/")[1].partition(":")[0]


def lines() -> list[Line]:
    found = [line[2:] for fence in fences(PAGE) if fence.language == "console" for line in fence.text.splitlines()]
    codes = [re.search(r"# .*exit (\d+)$", line) for line in found]
    return [
        Line(tuple(shlex.split(line, comments=True)), int(code[1]) if code else 0)
        for line, code in zip(found, codes, strict=True)
    ]


# What is changed in each body: it must be found by a replay.
CHANGES = {
    "hello.py": ("draft(topic)", 'draft(topic + "!")'),
    "daily_report.py": ("find_sources(topic)", 'find_sources(topic + "!")'),
    "release.py": ("archive = build(version)", 'archive = build(version + "!")'),
    "research_report.py": ("find_sources(topic)", 'find_sources(topic + "!")'),
    "fan_out.py": ("group.create_task(fetch(99))", "group.create_task(fetch(98))"),
    "coding_agent": ("id: plan", "id: other"),
}
NO_BODY = {"script_open.py", "prove_your_flow.py"}  # a script's own block; runs in homes of their own, which are gone


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with nothing but its examples."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".outlast"))
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = {"python": (), "outlast": ("-m", "outlast")}[words[0]]
    done = ready.run((*program, *words[1:]), cwd=folder, env=environment())
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def runs(folder: Path) -> list[dict[str, str]]:
    done = run(folder, "outlast", "runs", "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)["runs"]
    return found


def divergences(folder: Path, run_id: str) -> list[str]:
    done = run(folder, "outlast", "replay", run_id, "--json")
    told = json.loads(done.stdout)
    assert "divergences" in told, done.stdout
    return [one["code"] for one in told["divergences"]]


def change(folder: Path, example: str) -> None:
    """Change the body of an example."""
    place = folder / "examples" / example
    file = place / "flow.yaml" if place.is_dir() else place
    before, after = CHANGES[example]
    text = file.read_text("utf-8")
    assert before in text
    file.write_text(text.replace(before, after), "utf-8")


@pytest.mark.parametrize("line", lines(), ids=lambda line: " ".join(line.words))
def test_an_example_runs_twice_by_its_command_and_replays(line: Line, folder: Path) -> None:
    for _ in (1, 2):
        done = run(folder, *line.words)
        assert done.returncode == line.code, f"{done.stdout}{done.stderr}"
    if line.example in NO_BODY:
        return
    found = [one["id"] for one in runs(folder)]
    assert found
    assert {one: divergences(folder, one) for one in found} == {one: [] for one in found}
    change(folder, line.example)
    assert any(divergences(folder, one) for one in found)


def test_every_example_is_on_the_page() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix == ".py" or (path / "flow.yaml").exists()}
    assert {line.example for line in lines()} == there == set(CHANGES) | NO_BODY
    assert set(re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", PAGE, re.MULTILINE)) == there


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda example: example.name)
def test_an_example_can_be_imported_by_who_goes_on_with_its_runs(example: Path, tmp_path: Path) -> None:
    (tmp_path / "imports.py").write_text(f"import runpy; runpy.run_path({str(example)!r})", "utf-8")
    done = run(tmp_path, "python", "imports.py")
    assert (done.returncode, done.stdout, len(list(tmp_path.iterdir()))) == (0, "", 1), done.stderr
