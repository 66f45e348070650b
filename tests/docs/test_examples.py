"""Every example is a script that runs to its end in an empty folder, without arguments or a terminal.

An example that means to end otherwise says so in its first line: `# exit: 3`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def expected_exit(source: str) -> int:
    first = re.match(r"# exit: (\d+)\s*$", source.partition("\n")[0])
    return int(first[1]) if first else 0


def run(example: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    return subprocess.run(
        [sys.executable, example],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_ends_as_it_says(example: Path, tmp_path: Path) -> None:
    done = run(example, tmp_path)
    assert done.returncode == expected_exit(example.read_text("utf-8")), f"{done.stdout}{done.stderr}"


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(
    ("source", "code"),
    [("print()\n", 0), ("# exit: 3\nprint()\n", 3), ("print()\n# exit: 3\n", 0), ("# exit: 3", 3), ("", 0)],
)
def test_the_first_line_says_how_an_example_ends(source: str, code: int) -> None:
    assert expected_exit(source) == code
