"""What a type checker is told: each wrong call of `calls.py` is reported, and no right one is."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = Path(__file__).with_name("calls.py")
WRONG = re.compile(r"  # wrong$", re.MULTILINE)


def lines_of(text: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if WRONG.search(line)}


def test_each_wrong_call_is_reported_and_no_right_one(tmp_path: Path) -> None:
    text = CALLS.read_text("utf-8")
    (tmp_path / "calls.py").write_text(WRONG.sub("", text), "utf-8")
    told = ["--strict", "--config-file=", "--hide-error-context", f"--cache-dir={tmp_path / 'cache'}", "calls.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *told], cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    found = {int(number) for number in re.findall(r"^calls\.py:(\d+): error", done.stdout, re.MULTILINE)}
    assert (sorted(found - lines_of(text)), sorted(lines_of(text) - found)) == ([], []), done.stdout


def test_pyright_reports_the_same_lines(tmp_path: Path) -> None:
    """What it only warns of counts: that a comparison can never be true."""
    pytest.importorskip("basedpyright", reason="requirements-dev.txt has it")
    text = CALLS.read_text("utf-8")
    (tmp_path / "calls.py").write_text(WRONG.sub("", text), "utf-8")
    told = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", "calls.py"]
    done = subprocess.run(told, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    said = json.loads(done.stdout)["generalDiagnostics"]
    counted = [each for each in said if each["severity"] == "error" or each["rule"] == "reportUnnecessaryComparison"]
    found = {each["range"]["start"]["line"] + 1 for each in counted}
    assert (sorted(found - lines_of(text)), sorted(lines_of(text) - found)) == ([], []), done.stdout[-2000:]


def test_there_are_wrong_calls_of_every_kind() -> None:
    assert len(lines_of(CALLS.read_text("utf-8"))) >= 45
