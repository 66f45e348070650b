"""What the pages say is true: Python runs, YAML parses, commands exist, links lead somewhere.

The Python snippets of a page are one script, run top to bottom in an empty folder by a process of its own.
Each line keeps its number, so a traceback points into the page. A fence whose info string says `no-run` is
left out.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from ..ready import completed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING_PAGES = [
    *PAGES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")),
]

OPENING = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s{0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fence:
    line: int  # of the first line inside, counted from 1
    info: tuple[str, ...]
    text: str

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""


def fences(page: str) -> Iterator[Fence]:
    """The fenced blocks of a page, also those indented in a list; one that never closes is an error."""
    lines = iter(enumerate(page.splitlines(), start=1))
    for number, line in lines:
        if opening := OPENING.fullmatch(line):
            inside = list(_until_closed(lines, opening["ticks"], number))
            text = textwrap.dedent("".join(f"{each}\n" for each in inside))
            yield Fence(number + 1, tuple(re.split(r"[\s,{}]+", opening["info"].strip("{} "))), text)


def _until_closed(lines: Iterator[tuple[int, str]], ticks: str, opened: int) -> Iterator[str]:
    for _, line in lines:
        bare = line.strip()
        if len(bare) >= len(ticks) and set(bare) == {ticks[0]}:
            return
        yield line
    raise ValueError(f"the fence opened in line {opened} is never closed")


def script(page: str) -> str:
    """The page's runnable Python, every line at its place in the page."""
    lines = [""] * len(page.splitlines())
    for fence in fences(page):
        if fence.language == "python" and "no-run" not in fence.info:
            snippet = fence.text.splitlines()
            lines[fence.line - 1 : fence.line - 1 + len(snippet)] = snippet
    return "\n".join(lines).rstrip()


def prose(page: str) -> str:
    """The page with its fenced blocks left blank."""
    lines = page.splitlines()
    for fence in fences(page):
        size = len(fence.text.splitlines())
        lines[fence.line - 1 : fence.line - 1 + size] = [""] * size
    return "\n".join(lines)


def commands_used(page: str) -> Iterator[tuple[int, list[str]]]:
    """The words after `$ outlast` in console fences, with their lines."""
    for fence in fences(page):
        if fence.language == "console":
            for number, line in enumerate(fence.text.splitlines(), start=fence.line):
                if line.startswith("$ outlast"):
                    yield number, shlex.split(line.removesuffix("\\"), comments=True)[2:]


def names_a_command(words: list[str], known: set[str]) -> bool:
    """Whether the first word that is no option, nor an option's value, is a known subcommand."""
    after_option = False
    for word in words:
        if word in known:
            return True
        if not word.startswith("-") and not after_option:
            return False
        after_option = word.startswith("-")
    return True  # nothing but options, as in `outlast --help`


def commands_in(help_text: str) -> set[str]:
    """The subcommands that a help page lists, under whatever headings, options left out."""
    heading, found = "", set()
    for line in help_text.splitlines():
        if re.fullmatch(r"\S.*:", line):
            heading = line
        elif not line.strip():
            heading = ""
        elif heading and heading != "Options:" and (entry := re.match(r" {2}([a-z][a-z-]*)(?:\s|$)", line)):
            found.add(entry[1])
    return found


def links(page: str) -> Iterator[str]:
    """Targets of links inside the project, outside code."""
    for match in LINK.finditer(re.sub(r"`[^`\n]+`", "", prose(page))):
        target = match[1] or match[2]
        if not ELSEWHERE.match(target):
            yield target


def leads_somewhere(target: str, page: Path, root: Path) -> bool:
    """Whether the file is there, inside the project, and the heading in it, when one is named."""
    path, _, heading = unquote(target).partition("#")
    file = (page.parent / path).resolve() if path else page.resolve()
    if not file.is_relative_to(root.resolve()) or not file.exists():
        return False
    return not heading or file.suffix != ".md" or heading in anchors(file.read_text("utf-8"))


def anchors(page: str) -> set[str]:
    """What a link into the page may name: its headings as slugs, and explicit ids."""
    found = set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", prose(page)))
    for title in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def environment() -> dict[str, str]:
    """This process's environment without anything that would lead Outlast to another home."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}


@cache
def known_commands() -> set[str]:
    program = "import sys; from outlast.doors.cli import main; sys.argv[0] = 'outlast'; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return commands_in(done.stdout)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


# The pages


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_python_on_a_page_runs(page: Path, tmp_path: Path) -> None:
    source = script(page.read_text("utf-8"))
    if not source:
        return
    name = page.stem.replace("-", "_").lower()
    program = tmp_path / f"{name}_page.py" if find_spec(name) else tmp_path / f"{name}.py"  # it would hide the package
    program.write_text(source + "\n", "utf-8")
    done = completed(
        (program.name,),
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_yaml_on_a_page_parses(page: Path) -> None:
    for fence in fences(page.read_text("utf-8")):
        if fence.language in ("yaml", "yml"):
            try:
                list(yaml.safe_load_all(fence.text))
            except yaml.YAMLError as error:
                pytest.fail(f"{named(page)}:{fence.line}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_commands_on_a_page_exist(page: Path) -> None:
    used = list(commands_used(page.read_text("utf-8")))
    unknown = [(line, words) for line, words in used if not names_a_command(words, known_commands())]
    assert unknown == []


@pytest.mark.parametrize("page", LINKING_PAGES, ids=named)
def test_the_links_on_a_page_lead_somewhere(page: Path) -> None:
    dead = [target for target in links(page.read_text("utf-8")) if not leads_somewhere(target, page, ROOT)]
    assert dead == []


def test_the_readme_has_python_that_runs() -> None:
    assert "outlast" in script(PAGES[0].read_text("utf-8"))


# The reader itself

PAGE = """\
# A page

1. In a list:

   ```python
   x = 1  # [not a link](here)
   ```

```python no-run
raise SystemExit(9)
```

~~~python
assert x == 1
~~~

````markdown
```python
raise SystemExit(8)
```
[not a link](nowhere.md)
````

```console
$ outlast run flow.py:build topic=ai
run 7 succeeded
$ outlast --json \\
```

A [link](other.md#two-words), an ![image](<a.png> "title"), `[code](no.md)`, [out](https://example.org).

[ref]: sub/page.md
"""


def test_snippets_become_one_script_that_keeps_its_line_numbers() -> None:
    lines = script(PAGE).splitlines()
    assert lines[5] == "x = 1  # [not a link](here)"
    assert lines[13] == "assert x == 1"
    assert len([line for line in lines if line]) == 2


def test_a_fence_that_never_closes_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2"):
        list(fences("text\n```python\nx = 1\n"))


def test_console_lines_are_read_as_commands() -> None:
    assert list(commands_used(PAGE)) == [(25, ["run", "flow.py:build", "topic=ai"]), (27, ["--json"])]


@pytest.mark.parametrize("line", ["run flow.yaml", "--json runs", "--home x run y", "--help", ""])
def test_a_known_command_passes(line: str) -> None:
    assert names_a_command(line.split(), {"run", "runs"})


@pytest.mark.parametrize("line", ["rnu flow.yaml", "--json --home x rnu run", "flow run"])
def test_an_unknown_command_does_not(line: str) -> None:
    assert not names_a_command(line.split(), {"run", "runs"})


def test_commands_are_read_from_help_under_any_heading() -> None:
    page = "Usage: outlast [OPTIONS]\n\n  prose that\n  wraps here\n\nOptions:\n  --json  as\n\nRun work:\n"
    page += "  run     Start or\n          continue.\n  resume  Go on.\n\nCommands:\n  verify\n"
    assert commands_in(page) == {"run", "resume", "verify"}


def test_links_are_found_outside_code() -> None:
    assert list(links(PAGE)) == ["other.md#two-words", "a.png", "sub/page.md"]


def test_a_link_leads_to_a_file_and_a_heading_inside_the_project(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    page, other = root / "page.md", root / "other.md"
    page.write_text("# Top\n")
    other.write_text("## Two `words`!\n```sh\n# no heading\n```\n")
    (tmp_path / "outside.md").write_text("")
    good = ["other.md", "#top", "other.md#two-words", "."]
    bad = ["missing.md", "other.md#no-heading", "#nowhere", "../outside.md", "/other.md"]
    assert [t for t in good + bad if leads_somewhere(t, page, root)] == good
