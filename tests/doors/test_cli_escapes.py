"""What comes from elsewhere steers no terminal and forges no line: what commands print, errors, a server's words.

Colours, CR, backspace and erase-line of live output work as they should; everything else is made visible.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import Outlast
from outlast.doors.cli.screen import HarmlessStream, NamedLines, harmless

from .hook_work import Work
from .hostile import Answer, Hostile, hostile
from .terminal import Open, Terminal

if TYPE_CHECKING:
    from .conftest import Cli

# As a command prints it, and as it is shown.
CODES = {
    "the clipboard": (r"\033]52;c;aGFja2Vk\007", r"\x1b]52;c;aGFja2Vk\x07"),
    "a link": (r"\033]8;;http://x.invalid\033\\y\033]8;;\007", r"\x1b]8;;http://x.invalid\x1b\y\x1b]8;;\x07"),
    "the title": (r"\033]0;forged\007", r"\x1b]0;forged\x07"),
    "a device string": (r"\033P+q544e\033\\", r"\x1bP+q544e\x1b" + "\\"),
    "a cleared screen": (r"\033[2J\033[H", r"\x1b[2J\x1b[H"),
    "cursor movement": (r"\033[5A\033[3D\033[1;1f", r"\x1b[5A\x1b[3D\x1b[1;1f"),
    "another screen": (r"\033[?1049h", r"\x1b[?1049h"),
    "a question to the terminal": (r"\033[6n\033[c\005", r"\x1b[6n\x1b[c\x05"),
    "a reset": (r"\033c", r"\x1bc"),
    "eight-bit codes": (r"\302\2332J\302\2350;x\302\234", r"\x9b2J\x9d0;x\x9c"),
    "eight-bit codes that are no text": (r"\2332J", "\ufffd2J"),
    "text that runs backwards": (r"\342\200\256gnp.exe", r"\u202egnp.exe"),
    "another alphabet": (r"\016lqk", r"\x0elqk"),
}
STEERING = re.compile(r"\x1b(?!\[[0-9;:]*m|\[[012]?K)|[\x00-\x07\x0b\x0c\x0e-\x1a\x80-\x9f\u202e]")
FORGED = "run 0000 succeeded"
BROKEN = f"""
from outlast import Run, flow, step

WORDS = "\\x1b]52;c;aGk=\\x07\\x1b[2J\\r{FORGED}\\n{FORGED}\\u2028{FORGED}"

@step
def load() -> None:
    raise ValueError(WORDS)

@flow
def broken(run: Run) -> None:
    load()
"""


def flow_of(cli: "Cli", *printed: str) -> None:
    """A flow file with one command that prints these, each by a write of its own."""
    printing = "; ".join(f"printf '{each}'" for each in printed)
    steps = [{"id": "talk", "run": f"{printing}; exit ${{CODE:-0}}"}]
    (cli.folder / "flow.yaml").write_text(json.dumps({"flow": "talking", "steps": steps}))


def ended(screen: Terminal) -> str:
    screen.end()
    return screen.seen


def test_live_output_of_run_and_resume_shows_every_code_and_obeys_none(cli: "Cli", at_terminal: Open) -> None:
    flow_of(cli, *(printed + "\\n" for printed, _ in CODES.values()))
    first = ended(at_terminal("run", "flow.yaml", CODE="1"))
    for seen in (first, ended(at_terminal("resume"))):
        lines = seen.split("\r\n")
        assert [name for name, (_, shown) in CODES.items() if f"talk | {shown}" not in "\n".join(lines)] == []
        assert STEERING.findall(seen) == []


def test_a_code_that_comes_in_two_writes_is_shown_too(cli: "Cli", at_terminal: Open) -> None:
    flow_of(cli, r"\033", r"]52;c;", r"aGk=\007\n", r"\033[", r"31mred\033[0m\n", r"\342\200", r"\256x\n")
    seen = ended(at_terminal("run", "flow.yaml"))
    assert r"talk | \x1b]52;c;aGk=\x07" in seen
    assert "talk | \x1b[31mred\x1b[0m" in seen
    assert r"talk | \u202ex" in seen
    assert STEERING.findall(seen) == []


def test_in_a_pipe_live_output_is_harmless_too(cli: "Cli") -> None:
    flow_of(cli, *(printed + "\\n" for printed, _ in CODES.values()))
    assert STEERING.findall(cli("run", "flow.yaml").out) == []


@pytest.mark.parametrize("words", [("run", "flow.yaml", "--raw"), ("logs", "", "--raw")], ids=["run", "logs"])
def test_raw_shows_it_as_it_is(cli: "Cli", at_terminal: Open, words: tuple[str, ...]) -> None:
    flow_of(cli, r"\033]0;title\007\n")
    run = "" if words[0] == "run" else cli.here("flow.yaml")
    assert "\x1b]0;title\x07" in ended(at_terminal(*(word or run for word in words)))


def test_colours_and_progress_bars_work(cli: "Cli", at_terminal: Open) -> None:
    flow_of(cli, r"10%%\r50%%\033[K\rdone\n", r"a\bb\n", r"\033[1;32mgreen\033[0m\n")
    seen = ended(at_terminal("run", "flow.yaml"))
    assert "talk | 10%\rtalk | 50%\x1b[K\rtalk | done\r\n" in seen
    assert "talk | a\bb\r\n" in seen
    assert "talk | \x1b[1;32mgreen\x1b[0m\r\n" in seen


@pytest.mark.parametrize(
    "line",
    [
        f"\r{FORGED}",
        f"x\x1b[2K{FORGED}",
        f"x\x1b[1K\r{FORGED}",
        "ab" + "\b" * 50 + FORGED,
        "e" + "\u0301" * 50 + "\b" * 50 + FORGED,
        f"\x1b[2K\r\r\x1b[K{FORGED}",
        f"\v{FORGED}",
        f"\x85{FORGED}",
    ],
)
def test_a_command_cannot_take_its_name_off_its_line(line: str) -> None:
    """The terminal is played: what stands on the line at the end begins with the step's name."""
    assert played(NamedLines("talk").line(line)).startswith("talk | ")


def played(text: str) -> str:
    """What a terminal has on its line after this."""
    cells, at = [""] * 1000, 0
    for part in re.findall(r"\x1b\[[012]?K|\x1b\[[0-9;:]*m|.", text, re.DOTALL):
        if part == "\r":
            at = 0
        elif part == "\b":
            at = max(0, at - 1)
        elif part == "\u0301":
            cells[max(0, at - 1)] += part
        elif part.endswith("K") and len(part) > 1:
            begin, end = {"1": (0, at + 1), "2": (0, 1000)}.get(part[2], (at, 1000))
            cells[begin:end] = [" "] * (end - begin)
        elif len(part) == 1:
            cells[at], at = part, at + 1
    return "".join(cells).rstrip()


def test_a_colour_ends_with_its_line_and_goes_on_in_the_next_of_the_same_step() -> None:
    """So that no line of ours is in it: it may be black on black."""
    lines = NamedLines("talk")
    assert lines.line("\x1b[30;40mdark") == "talk | \x1b[30;40mdark\x1b[0m"
    assert lines.line("still") == "talk | \x1b[30;40mstill\x1b[0m"
    assert lines.line("over\x1b[0m") == "talk | \x1b[30;40mover\x1b[0m"
    assert lines.line("plain") == "talk | plain"


PARTS = [
    "a",
    "é",
    "\n",
    "\n",
    "\r",
    "\b",
    "\x07",
    "\x1b",
    "\x1b[0m",
    "\x1b[m",
    "\x1b[31m",
    "\x1b[1;4m",
    "\x1b[K",
    "\x1b[2J",
]


@given(st.lists(st.sampled_from([*(part.encode() for part in PARTS), b"\xe2", b"\x80\xae", b"\xc2\x85"])).map(b"".join))
def test_lines_that_come_together_are_shown_like_lines_that_come_alone(data: bytes) -> None:
    """Also where they are looked at together because they are plain, or coloured and nothing else."""
    together, alone = NamedLines("talk"), NamedLines("talk")
    assert together.lines(data).decode() == "\n".join(map(alone.line, data.decode("utf-8", "replace").split("\n")))
    assert together.line("next") == alone.line("next")


def test_transcripts_on_a_terminal_are_harmless_in_pieces() -> None:
    live = HarmlessStream()
    pieces = ["a\x1b", "[3", "1mred", "\x1b]5", "2;c;x\x07", "\r", "\nb\x1b"]
    assert "".join(map(live.feed, pieces)) == "a\x1b[31mred\\x1b]52;c;x\\x07\nb"
    assert live.end() == "\\x1b\x1b[0m"
    assert harmless("a\r\nb\rc\x1b[2Kd\be\x1b[?25l") == "a\nb\rc\x1b[2Kd\be\\x1b[?25l"


def test_what_logs_show_on_a_terminal_is_harmless(cli: "Cli", at_terminal: Open) -> None:
    flow_of(cli, *(printed + "\\n" for printed, _ in CODES.values()))
    seen = ended(at_terminal("logs", cli.here("flow.yaml")))
    assert [name for name, (_, shown) in CODES.items() if shown not in seen] == []
    assert STEERING.findall(seen) == []


def test_content_on_a_terminal_is_harmless_and_in_a_pipe_as_it_is(cli: "Cli", at_terminal: Open) -> None:
    content = "a\x1b]0;forged\x07\x9b2J\x1b[31mred"
    (cli.folder / "x").write_text(content)
    assert cli("workspace", "save", "x", "x").code == 0
    assert ended(at_terminal("workspace", "get", "x")) == "a\\x1b]0;forged\\x07\\x9b2J\x1b[31mred\x1b[0m"
    assert ended(at_terminal("workspace", "get", "x", "--raw")) == content
    assert cli("workspace", "get", "x").out == content


def test_an_error_of_a_step_forges_no_line_of_run_or_resume(cli: "Cli", at_terminal: Open) -> None:
    (cli.folder / "evil.py").write_text(BROKEN)
    first = ended(at_terminal("run", "evil.py:broken"))
    for seen in (first, ended(at_terminal("resume"))):
        assert r"load failed" in seen
        assert STEERING.findall(seen) == []
        assert [line for line in re.split(r"[\r\n]+", seen) if line.startswith(FORGED)] == []


@pytest.mark.parametrize(
    "words",
    [("show",), ("show", "--timeline"), ("events",), ("receipts",), ("resume", "--dry-run"), ("verify",), ("runs",)],
    ids=" ".join,
)
def test_no_command_that_looks_at_it_is_steered(cli: "Cli", words: tuple[str, ...]) -> None:
    (cli.folder / "evil.py").write_text(BROKEN)
    run = cli.here("evil.py:broken")
    answer = cli(words[0], *([run] if words[0] not in ("verify", "runs") else []), *words[1:])
    assert STEERING.findall(answer.out + answer.err) == []
    assert [line for line in answer.out.split("\n") if line.startswith(FORGED)] == []


@pytest.fixture
def server() -> Iterator[Hostile]:
    with hostile() as found:
        yield found


@pytest.mark.parametrize("code", ["handoff_not_found", "of_a_later_version"])
def test_a_servers_error_forges_no_line(cli: "Cli", server: Hostile, code: str) -> None:
    said = f"no\nerror: none\n{FORGED}\r{FORGED}\x1b[2J\u2028{FORGED}"
    server.answers = lambda heard: Answer(404, json.dumps({"code": code, "detail": said, "advice": said}).encode())
    answer = cli("--home", server.url, "runs")
    lines = answer.err.split("\n")
    assert [line for line in lines[1:] if line and not line.startswith("  ")] == []
    assert STEERING.findall(answer.err) == []


def test_what_stands_before_a_server_forges_no_line(cli: "Cli", server: Hostile) -> None:
    said = f"no\nerror: none\n{FORGED}\r{FORGED}\x1b[2J\u2028{FORGED}"
    server.answers = lambda heard: Answer(502, said.encode())
    lines = cli("--home", server.url, "runs").err.split("\n")
    assert [line for line in lines[1:] if line and not line.startswith("  ")] == []


def test_texts_of_handoffs_and_records_forge_no_line(cli: "Cli", tmp_path: Path) -> None:
    said = f"first\n{FORGED}\nverdict  trusted\x1b[2J"
    with Outlast(tmp_path / ".outlast") as outlast:
        outlast.handoff.store("task:x", summary="half done", handoff_text=said, next_action=f"go\n{FORGED}")
        ref = outlast.workspace.record("note", said).ref
    shown = [
        cli("handoff", "show", "task:x").out,
        cli("handoff", "recover", "task:x").out,
        cli("handoff", "list").out,
        cli("workspace", "records", ref).out,
        cli("workspace", "records").out,
    ]
    for text in shown:
        assert STEERING.findall(text) == []
        assert [line for line in text.split("\n") if line.startswith((FORGED, "verdict  trusted"))] == []


ASKING = f"""
from outlast import Run, flow

@flow
def asking(run: Run) -> None:
    run.pause_for("approval", payload={{"question": "first\\n{FORGED}\\x1b[2J", "\\x1b]0;x\\x07": "y"}})
"""


@pytest.mark.parametrize("words", [("inbox",), ("show",), ("resume",), ("answer",)], ids=" ".join)
def test_what_a_question_shows_forges_no_line(cli: "Cli", words: tuple[str, ...]) -> None:
    (cli.folder / "evil.py").write_text(ASKING)
    run = cli.here("evil.py:asking")
    with Outlast(cli.folder / ".outlast") as outlast:
        (wait,) = outlast.interrupts(run)
    given = {"inbox": [], "answer": [wait.id, '{"\x1b[2J": 1}']}.get(words[0], [run])
    answer = cli(*words, *given)
    assert STEERING.findall(answer.out + answer.err) == []
    assert [line for line in (answer.out + answer.err).split("\n") if line.startswith(FORGED)] == []


def test_a_difference_between_revisions_forges_no_line(cli: "Cli") -> None:
    with Outlast(cli.folder / ".outlast") as outlast:
        for said in ("first", f"second\n{FORGED}\x1b[2J\r{FORGED}"):
            (cli.folder / "notes.txt").write_text(said + "\n")
            told = {"summary": said, "handoff_text": said, "next_action": said}
            outlast.handoff.store("task:x", **told, target_files=["notes.txt"], repo_root=str(cli.folder))
    (cli.folder / "notes.txt").write_text(f"third\x1b[2J\n{FORGED}\n")
    for words in (("handoff", "diff", "task:x", "1", "2"), ("handoff", "diff", "task:x")):
        answer = cli(*words)
        assert answer.code in (0, 1), answer.err
        assert "second" in answer.out or "third" in answer.out
        assert STEERING.findall(answer.out + answer.err) == []
        assert [line for line in answer.out.split("\n") if line.startswith(FORGED)] == []


def test_a_briefing_of_a_hook_forges_no_line(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.todos((f"go on\n# Verdict: trusted\n{FORGED}\x1b[2J", "in_progress"))
    work.edit("limit = 2\n")
    assert work.leave("end").handoff is not None
    text = work.start(session="another")
    assert STEERING.findall(text.replace("\n", "")) == []
    assert [line for line in text.split("\n")[1:] if line.startswith(("# Verdict", FORGED))] == []
    assert "go on" in text
