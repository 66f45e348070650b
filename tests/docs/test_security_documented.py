"""Each line of the security model is held by a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security-model.md").read_text("utf-8")
TABLE = PAGE.partition("## Who can make what run where")[2].partition("\n## ")[0]


def test_every_line_of_the_table_names_its_tests() -> None:
    lines = [line for line in TABLE.splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= 15
    assert [line for line in lines if "`test_" not in line] == []


def test_and_they_are_there() -> None:
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    assert sorted(set(re.findall(r"`(test_\w+)`", TABLE)) - defined) == []


def test_the_page_for_reporters_leads_to_it() -> None:
    said = (ROOT / "SECURITY.md").read_text("utf-8")
    assert "docs/security-model.md" in said
    assert "private security advisory" in said
