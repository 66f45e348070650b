"""The name that the project had before stands in one line of the changelog, and nobody is told to install it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
BEFORE = "hold" + "fast"
OURS = ("src", "tests", "docs", "examples", "bench", ".ci")


def lines_with_it(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", errors="replace")
    return [line for line in text.splitlines() if BEFORE in line.lower()]


def test_the_old_name_stands_in_one_line_of_the_changelog_and_nowhere_else() -> None:
    files = [path for folder in OURS for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    sources = [path for path in files if "__pycache__" not in path.parts]
    assert len(sources) > 500
    found = {str(path.relative_to(ROOT)): len(said) for path in sources if (said := lines_with_it(path))}
    assert found == {"CHANGELOG.md": 1}
    assert [str(path) for path in sources if BEFORE in path.name.lower()] == []
