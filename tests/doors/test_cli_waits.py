"""Waits on the command line: the inbox, answers of every type, signals, deadlines, and being asked at a terminal."""

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Interrupt, Outlast, Run, flow
from outlast.runs.look import inbox

from ..crash.command_folder import Folder
from .terminal import Open, Terminal

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

FLOWS = '''
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from outlast import Run, flow, step

@dataclass
class Choice:
    """A choice."""
    colour: Literal["red", "blue"]
    count: int = 1
    urgent: bool | None = None

@flow
def pick(run: Run):
    how = {"deadline": os.environ["DEADLINE"]} if "DEADLINE" in os.environ else {}
    if "DEFAULT" in os.environ:
        how["default"] = {"colour": "blue"}
    payload = {"question": "Which \\U0001f3a8?", "long": "x" * 5000}
    found = run.pause_for("decision", payload=payload, schema=Choice, assignee="ann lee", **how)
    return [found.colour, found.count]

@flow
def free(run: Run):
    return run.pause_for("input")

@flow
def listen(run: Run):
    return run.wait_for(os.environ.get("SIGNAL", "news"))

@flow
def parent(run: Run):
    return ["parent", run.spawn(free).result()]
'''
PICKED = '{"colour": "red", "count": 2}'


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    found.write("flows.py", FLOWS)
    yield found
    found.end()


def waiting(folder: Folder, name: str, *words: str, **env: str) -> Interrupt:
    """Run a flow until it waits; its newest wait."""
    said = folder.cli("run", f"flows.py:{name}", *words, **env)
    assert said.code == 3, said
    return folder.outlast.interrupts()[-1]


def of(command: str) -> list[str]:
    """The words of a command that was shown, to be given as they are."""
    first, *words = shlex.split(command)
    assert first == "outlast"
    return words


# -- the inbox ---------------------------------------------------------------------------------------


def test_a_wait_is_listed_with_whose_it_is_until_when_and_how_to_answer(folder: Folder) -> None:
    wait = waiting(folder, "pick", DEADLINE="3h", DEFAULT="1")
    lines = folder.cli("inbox").out.splitlines()
    assert lines[0] == "1 question for you"
    assert "decision: Which 🎨?" in lines
    assert '  decision; for ann lee; due in 3 h, then {"colour": "blue"} counts' in lines
    (shown,) = [line for line in lines if line.startswith("  long: xxx")]
    assert (len(shown) < 400, shown.endswith("…")) == (True, True)
    assert (
        "  takes: colour (one of blue, red); count (whole number, Enter for 1); urgent (yes or no or null"
        in "\n".join(lines)
    )
    assert f'  answer it:  outlast answer {wait.id} \'{{"colour": "blue"}}\' --resume' in lines
    assert f"  cancel it:  outlast answer {wait.id} --cancel WHY --resume" in lines


def test_the_commands_that_are_shown_work_as_they_are(folder: Folder) -> None:
    waiting(folder, "pick")
    home = str(folder.path / ".outlast")
    (found,) = folder.cli("inbox", "--json", "--home", home).json["waits"]
    answered = folder.cli(*of(found["commands"]["answer it"]))
    assert (answered.code, 'result: ["blue", 1]' in answered.out) == (0, True)


def test_json_has_the_whole_wait(folder: Folder) -> None:
    wait = waiting(folder, "pick", DEADLINE="3h", DEFAULT="1")
    (found,) = folder.cli("inbox", "--json").json["waits"]
    assert len(found["payload"]["long"]) == 5000
    assert (found["assignee"], found["default"], found["has_default"]) == ("ann lee", {"colour": "blue"}, True)
    assert (found["digest"], found["schema"]["$ref"]) == (wait.digest, "#/$defs/Choice")
    outcome = folder.cli("run", "flows.py:pick", "--json", DEADLINE="3h", DEFAULT="1")
    (same,) = outcome.json["interrupts"]
    assert (outcome.code, same["id"], same["schema"], same["due_at"]) == (3, wait.id, found["schema"], found["due_at"])


def test_the_inbox_can_be_narrowed(folder: Folder) -> None:
    for name in ("pick", "free", "listen"):
        waiting(folder, name)
    ids = lambda *words: [wait["type"] for wait in folder.cli("inbox", "--json", *words).json["waits"]]  # noqa: E731
    assert ids() == ["decision", "input", "signal"]
    assert ids("--assignee", "ann lee") == ["decision"]
    assert ids("--type", "signal") == ["signal"]
    assert ids("--limit", "2") == ["decision", "input"]
    assert ids("--assignee", "nobody") == []
    shown = folder.cli("inbox", "--limit", "1").out.splitlines()
    assert shown[0] == "2 questions for you; 1 wait for a time, a signal or another run"
    assert shown[-1] == "and 2 more; --limit shows more, --json has all of them"
    assert "nothing of that kind waits" in folder.cli("inbox", "--type", "approval").out


def test_show_names_deadline_and_assignee(folder: Folder) -> None:
    wait = waiting(folder, "pick", DEADLINE="3h")
    shown = folder.cli("show", wait.run_id).out.splitlines()
    assert "waits: decision: Which 🎨?" in shown
    assert "  for ann lee; due in 3 h" in shown


@flow
def asks(run: Run, number: int) -> Any:
    return run.pause_for("input", payload={"number": number, "text": "x" * 200}, assignee=f"person {number % 3}")


def test_a_thousand_waits_are_listed_in_no_time(tmp_path: Path, record_property: Any) -> None:
    with Outlast(tmp_path / ".outlast", store_options={"synchronous": "OFF"}) as outlast:
        for number in range(1000):
            outlast.run(asks, number)
        began = time.process_time()
        found = inbox(outlast._executor.home)
        took = time.process_time() - began
        plan = outlast._executor.home.store.read(
            lambda look: list(look.connection.execute(f"EXPLAIN QUERY PLAN {look.sql['inbox_waits']}"))  # type: ignore[attr-defined]
        )
    record_property("seconds", took)
    assert len(found) == 1000
    assert took < 0.5
    assert not any("SCAN r" in str(step) or "TEMP B-TREE" in str(step) for step in plan)


# -- answering ---------------------------------------------------------------------------------------


def test_an_answer_comes_from_a_word_or_a_file(folder: Folder) -> None:
    folder.write("answer.json", PICKED)
    for given in (PICKED, "@answer.json"):
        wait = waiting(folder, "pick")
        said = folder.cli("answer", wait.id, given, "--resume")
        assert (said.code, 'result: ["red", 2]' in said.out) == (0, True)


def test_an_answer_comes_from_standard_input(cli: "Cli") -> None:
    (cli.folder / "flows.py").write_text(FLOWS)
    cli.here("flows.py:free")
    with cli.opened() as outlast:
        (wait,) = outlast.interrupts()
    said = cli("answer", wait.id, "-", "--resume", stdin='{"n": [1]}')
    assert (said.code, 'result: {"n": [1]}' in said.out) == (0, True)


@pytest.mark.parametrize(
    "given",
    ["{", "red", "@missing.json", '{"colour": 1, "colour": "red"}', "[NaN]", "-", pytest.param("[" * 5000, id="deep")],
)
def test_what_is_no_json_is_refused_and_the_wait_stays_open(folder: Folder, given: str) -> None:
    wait = waiting(folder, "pick")
    said = folder.cli("answer", wait.id, given)
    assert (said.code, folder.outlast.interrupts()[0].id) == (2, wait.id)
    assert "not JSON" in said.err or "cannot read" in said.err


def test_half_a_character_is_refused_by_name(folder: Folder) -> None:
    wait = waiting(folder, "free")
    for words in (("answer", wait.id, r'"\ud800"'), ("signal", "x", r'"\ud800"', "--run", wait.run_id)):
        said = folder.cli(*words)
        assert (said.code, "[value_refused]" in said.err) == (2, True), said
    said = folder.cli("answer", wait.id, "--cancel", "\udcff")
    assert (said.code, "[value_refused]" in said.err) == (2, True), said


def test_an_answer_that_does_not_fit_says_what_is_wrong(folder: Folder) -> None:
    wait = waiting(folder, "pick")
    said = folder.cli("answer", wait.id, '{"colour": "green"}')
    assert (said.code, "answer.colour is none of" in said.err) == (2, True)
    assert len(folder.outlast.interrupts()) == 1


def test_a_script_that_gives_no_answer_is_told_the_schema(folder: Folder) -> None:
    wait = waiting(folder, "pick")
    said = folder.cli("answer", wait.id)
    assert said.code == 2
    assert "JSON is missing" in said.err
    assert '"enum": ["blue", "red"]' in said.err


def test_a_wait_is_cancelled_with_a_reason(folder: Folder) -> None:
    wait = waiting(folder, "pick")
    assert folder.cli("answer", wait.id, "{}", "--cancel", "x").code == 2
    assert folder.cli("answer", wait.id, "--cancel", " ").code == 2
    said = folder.cli("answer", wait.id, "--cancel", "nobody knows", "--resume")
    assert (said.code, "cancelled by local: nobody knows" in said.out) == (1, True)
    assert folder.cli("answer", wait.id, PICKED).code == 4


def test_answering_a_child_goes_on_with_its_parent(folder: Folder) -> None:
    said = folder.cli("run", "flows.py:parent")
    assert said.code == 3
    (wait,) = [each for each in folder.outlast.interrupts() if each.type == "input"]
    top = folder.outlast.get(wait.run_id).parent
    told = folder.cli("answer", wait.id, "7")
    assert told.out.splitlines()[-1] == f"continue: outlast resume {top}"
    assert 'result: ["parent", 7]' in folder.cli("resume", top).out


# -- signals -----------------------------------------------------------------------------------------


def test_a_signal_lets_a_run_go_on_at_once(folder: Folder) -> None:
    wait = waiting(folder, "listen", "--task", "t")
    said = folder.cli("signal", "news", '{"n": 1}', "--task", "t")
    assert said.out.splitlines() == [
        f"signal news is sent; run {wait.run_id} waited for it",
        f"continue: outlast resume {wait.run_id}",
    ]
    assert 'result: {"n": 1}' in folder.cli("resume", wait.run_id).out


def test_a_signal_that_nobody_waits_for_is_kept(folder: Folder) -> None:
    waiting(folder, "free")
    kept = folder.cli("signal", "news", "5", "--task", "t", "--operation-id", "op")
    assert kept.out == "signal news is sent; it is kept until a run of task t waits for it\n"
    again = folder.cli("signal", "news", "5", "--task", "t", "--operation-id", "op", "--json").json
    assert (again["replayed"], again["interrupt"], again["body"]) == (True, "", 5)
    assert folder.cli("signal", "news", "6", "--task", "t", "--operation-id", "op").code == 4
    assert "result: 5" in folder.cli("run", "flows.py:listen", "--task", "t").out


@pytest.mark.parametrize("name", ["news", "-x y", "it's $HOME", "--task"])
def test_the_command_that_sends_a_signal_can_be_copied(folder: Folder, name: str) -> None:
    said = folder.cli("run", "flows.py:listen", "--home", str(folder.path / ".outlast"), SIGNAL=name)
    (line,) = [line for line in said.out.splitlines() if line.startswith("  send it:")]
    words = of(line.partition(":")[2].strip().replace("JSON", "41"))
    sent = folder.cli(words[0], "--resume", *words[1:], SIGNAL=name)
    assert (sent.code, "result: 41" in sent.out) == (0, True), sent


@pytest.mark.parametrize("words", [(), ("--task", "t", "--run", "r")])
def test_a_signal_needs_one_addressee(folder: Folder, words: tuple[str, ...]) -> None:
    waiting(folder, "free")
    said = folder.cli("signal", "news", *words)
    assert (said.code, "to whom" in said.err) == (2, True)


def test_a_signal_to_a_finished_run_is_refused(folder: Folder) -> None:
    wait = waiting(folder, "free")
    folder.cli("answer", wait.id, "1", "--resume")
    assert folder.cli("signal", "news", "--run", wait.run_id).code == 4
    assert folder.cli("signal", "news", "--run", "nosuch").code == 5


# -- time --------------------------------------------------------------------------------------------


def test_until_done_waits_for_a_deadline_and_says_who_could_answer(folder: Folder) -> None:
    said = folder.cli("run", "flows.py:pick", "--until-done", DEADLINE="300ms", DEFAULT="1")
    assert (said.code, 'result: ["blue", 1]' in said.out) == (0, True)
    assert "at the latest; Ctrl-C leaves it waiting" in said.err
    assert "  answer it: outlast answer " in said.err


def test_until_done_goes_on_when_somebody_answers_before_the_deadline(folder: Folder) -> None:
    child = folder.start("run", "flows.py:pick", "--until-done", DEADLINE="1h", DEFAULT="1")
    until = time.monotonic() + 60
    while "at the latest" not in child.err:
        assert time.monotonic() < until
        time.sleep(0.01)
    (wait,) = folder.outlast.interrupts()
    folder.outlast.answer(wait.id, json.loads(PICKED))
    said = child.wait()
    assert (said.code, 'result: ["red", 2]' in said.out) == (0, True)


def test_until_done_stops_at_a_question_without_a_deadline(folder: Folder) -> None:
    wait = waiting(folder, "free", "--until-done")
    assert folder.cli("resume", wait.run_id, "--until-done").code == 3


def test_a_tick_wakes_what_a_deadline_ended_and_names_the_next_question(folder: Folder) -> None:
    waiting(folder, "pick", DEADLINE="1ms", DEFAULT="1")
    said = folder.cli("tick")
    assert (said.code, "was not answered before its deadline; now it is succeeded" in said.out) == (0, True)
    folder.flow("- {id: a, pause_for: input}\n- {id: b, pause_for: approval}\n- {id: c, wait_for: news}")
    folder.cli("run", "flow.yaml")
    for expected in ("outlast approve {wait}", "outlast signal news JSON --run {run}"):
        (wait,) = folder.outlast.interrupts()
        folder.outlast.answer(wait.id, {"approved": True})
        out = folder.cli("tick").out
        (next_one,) = folder.outlast.interrupts()
        assert expected.format(wait=next_one.id, run=next_one.run_id) in out


# -- at a terminal -----------------------------------------------------------------------------------


@pytest.fixture
def at_terminal(cli: "Cli") -> Iterator[Open]:
    (cli.folder / "flows.py").write_text(FLOWS)
    opened: list[Terminal] = []

    def make(*words: str, **env: str) -> Terminal:
        opened.append(Terminal(cli, *words, **env))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()


MENU = "[c]ancel the question, [l]eave it: "


def test_each_field_is_asked_for_and_checked_at_once(at_terminal: Open) -> None:
    screen = at_terminal("run", "flows.py:pick", DEADLINE="3h")
    screen.type("e\n", after=MENU)
    screen.type("\n", after="colour (one of blue, red): ")
    screen.type("green\n", after="colour is needed; Ctrl-D leaves the question open\r\n  colour (one of blue, red): ")
    screen.type("red\n", after='none of "blue", "red"\r\n  colour (one of blue, red): ')
    screen.type("many\n", after="count (whole number, Enter for 1): ")
    screen.type("3\n", after="count is string, not integer\r\n  count (whole number, Enter for 1): ")
    screen.type("yes\n", after="urgent (yes or no or null, Enter for null): ")
    assert screen.end() == 0
    assert 'answer: {"colour": "red", "count": 3, "urgent": true}' in screen.seen
    assert 'result: ["red", 3]' in screen.seen
    assert "for ann lee" in screen.seen


def test_an_answer_without_a_schema_is_typed_and_leaving_leaves_it(cli: "Cli", at_terminal: Open) -> None:
    cli.here("flows.py:free")
    with cli.opened() as outlast:
        (wait,) = outlast.interrupts()
    screen = at_terminal("answer", wait.id)
    screen.type("e\n", after=MENU)
    screen.type("\x04", after="answer (JSON, or text): ")
    screen.type("l\n", after=MENU)
    assert screen.end() == 3
    screen = at_terminal("answer", wait.id, "--resume")
    screen.type("e\n", after=MENU)
    screen.type("two words\n", after="answer (JSON, or text): ")
    assert screen.end() == 0
    assert "result: two words" in screen.seen


def test_a_question_is_cancelled_at_the_terminal(cli: "Cli", at_terminal: Open) -> None:
    screen = at_terminal("run", "flows.py:free")
    screen.type("c\n", after=MENU)
    screen.type("not needed\n", after="why? it is on the record: ")
    assert screen.end() == 1
    assert "cancelled by local: not needed" in screen.seen.replace("\r\n", " ").replace("  ", " ")
