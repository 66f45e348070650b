"""What the next agent is told works when it is pasted: in another folder, another scope, without a terminal."""

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Outlast, Run, flow, step
from outlast.testing.crashes import in_child

from .repository import GOOD, Repository

if TYPE_CHECKING:
    from tests.doors.conftest import Answer, Cli

COMMAND = re.compile(r"""(?:OUTLAST_CLAIM=\S+ )?\boutlast (?:'[^']*'|"[^"]*"|[^'"`;()\n])+""")
PLACEHOLDERS = {"FILE", "DIR", "JSON", "ANCHOR", "REF", "PATH", "CODE[:SUBJECT]", "CMD"}


@step(writes=["draft.md"])
def dies() -> int:
    import os
    import signal

    Path("draft.md").write_text("half of it")
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


@flow
def ends_early(run: Run) -> int:
    run.state["topic"] = "tides"
    return dies()


class Agent:
    """Somebody in another folder without a terminal, who pastes what was printed."""

    def __init__(self, repo: Repository, elsewhere: Path) -> None:
        self.repo, self.elsewhere = repo, elsewhere
        elsewhere.mkdir()

    def commands(self, text: str) -> list[str]:
        """Every whole command of a text."""
        found = [each.strip().removesuffix(" (else failed, or released)") for each in COMMAND.findall(text)]
        return [each for each in found if not PLACEHOLDERS & {*shlex.split(each)}]

    def pastes(self, command: str) -> "Answer":
        words = shlex.split(command)
        env = dict([words.pop(0).split("=", 1)]) if words[0].startswith("OUTLAST_CLAIM=") else {}
        assert words.pop(0) == "outlast"
        return self.repo.forked(*words, cwd=self.elsewhere, **env)


@pytest.fixture(params=["plain", 'a home\'s "odd" name'])
def agent(cli: "Cli", tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Agent, tuple[str, ...]]:
    """An agent, and the options that its home needs."""
    repo = Repository(cli)
    home = ("--home", str(tmp_path / request.param / ".outlast")) if request.param != "plain" else ()
    return Agent(repo, tmp_path / "else where"), (*home, "--scope", "team 1")


def found_in(agent: Agent, text: str) -> dict[str, str]:
    """The commands of a text by what they do."""
    commands = agent.commands(text)
    return {re.sub(r".*?\b(handoff \w+|resume|show|inbox|logs|task \w+)\b.*", r"\1", each): each for each in commands}


def test_every_command_of_a_prompt_works_when_it_is_pasted(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    repo = somebody.repo
    assert repo("store", "fix limit", *GOOD, *where).code == 0
    told = repo("recover", "fix limit", "--prompt", "--claim", *where)
    assert told.code == 0, told
    commands = found_in(somebody, told.out)
    assert {"handoff settle", "handoff show", "handoff recover"} <= {*commands}
    for name in ("handoff show", "handoff recover"):
        assert somebody.pastes(commands[name]).code == 0, commands[name]
    repo.write("limit = 2\n")
    settled = somebody.pastes(commands["handoff settle"])
    assert settled.code == 0, settled


def test_the_claim_of_a_prompt_leads_to_its_end(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    assert somebody.repo("store", "fix limit", *GOOD, *where).code == 0
    told = somebody.repo("recover", "fix limit", "--prompt", *where)
    claimed = somebody.pastes(found_in(somebody, told.out)["handoff claim"])
    assert claimed.code == 0, claimed
    assert somebody.pastes(found_in(somebody, told.out)["handoff settle"]).code == 4  # without its id it is not theirs
    somebody.repo.write("limit = 2\n")
    settled = somebody.pastes(found_in(somebody, claimed.out)["handoff settle"])
    assert settled.code == 0, settled


def test_what_a_contested_one_advises_works_and_is_not_open_after_that(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    repo = somebody.repo
    assert repo("store", "fix limit", *GOOD, *where).code == 0
    repo.write("limit = 7\n")
    told = repo("recover", "fix limit", *where)
    assert (told.code, "✗ file_changed app.py" in told.out) == (4, True)
    (accept,) = [each for each in somebody.commands(told.out) if "--accept" in each]
    (diff,) = [each for each in somebody.commands(told.out) if "handoff diff" in each]
    assert somebody.pastes(diff).code == 0
    accepted = somebody.pastes(accept)
    assert accepted.code == 0, accepted
    claim = re.findall(r"claimed: (\S+),", accepted.out)[0]
    for shown in (accepted, repo("recover", "fix limit", *where, OUTLAST_CLAIM=claim)):
        assert "✗ file_changed" not in shown.out
        assert "✓ file_changed app.py" in shown.out
        assert "what contests it was accepted" in shown.out
        assert "--accept" not in shown.out
    table = repo("recover", "fix limit", "--explain", *where, OUTLAST_CLAIM=claim)
    assert (table.code, table.out.count("accepted")) == (0, 2)
    assert repo("settle", "fix limit", "released", "--claim-id", claim, *where).code == 0
    assert "no contested handoffs" in repo("list", "--contested", *where).out
    assert "fix limit" in repo("list", "--open", "--look", *where).out


def test_what_an_error_advises_works_when_it_is_pasted(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    assert somebody.repo("store", "fix limit", *GOOD, *where).code == 0
    assert somebody.repo("claim", "fix limit", *where).code == 0
    refused = somebody.repo("claim", "fix limit", *where)
    assert refused.code == 4
    (take,) = [each for each in somebody.commands(refused.err) if "--take" in each]
    taken = somebody.repo.forked(*shlex.split(take)[1:])
    assert taken.code == 0, taken


def dead(repo: Repository, where: tuple[str, ...]) -> None:
    """A run that died, in the home and scope that the options name."""
    given = dict(zip(where[::2], where[1::2], strict=True))
    home = Path(given.get("--home", repo.folder / ".outlast"))

    def run(tell: Any) -> None:
        import os

        os.chdir(repo.folder)
        with Outlast(home, scope=given["--scope"]) as outlast:
            outlast.run(ends_early, task="the report")

    in_child(run, 60)


def test_what_is_told_of_a_dead_run_works_when_it_is_pasted(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    repo = somebody.repo
    dead(repo, where)
    ways = [("list",), ("recover",)] + [("recover", "--file", "draft.md")] * (where[0] != "--home")
    for words in ways:  # what a step declares to write lies where the home is
        assert "task:the report" in repo(*words, *where).out, words
    assert "the report" in repo.forked("task", "list", *where).out
    told = repo("recover", "task:the report", "--prompt", "--claim", *where)
    assert told.code == 0, told
    commands = found_in(somebody, told.out)
    assert somebody.pastes(commands["show"]).code == 0
    for command in [each for each in somebody.commands(told.out) if " resume " in each]:
        assert "OUTLAST_CLAIM=" in command
        dry = somebody.pastes(f"{command} --dry-run")
        assert dry.code == 0, (command, dry)
        assert "run_held" not in dry.out
    released = somebody.pastes(commands["handoff settle"])
    assert released.code == 0, released


BUILD = """flow: build
steps:
- {id: make, run: echo made > out.txt, accept: test -f out.txt}
- {id: ship, run: exit 3}
"""


def failed(repo: Repository, where: tuple[str, ...]) -> None:
    """A run of a flow file that failed, its checks those of its steps."""
    (repo.folder / "build.yaml").write_text(BUILD)
    assert repo.forked("run", "build.yaml", "--task", "the build", *where).code == 1


def test_the_checks_of_a_run_that_left_no_handoff_run_where_its_files_are(
    cli: "Cli", tmp_path_factory: pytest.TempPathFactory
) -> None:
    somebody, where = Agent(Repository(cli), tmp_path_factory.mktemp("outside") / "of it"), ("--scope", "team 1")
    failed(somebody.repo, where)
    prompt = somebody.repo("recover", "task:the build", "--prompt", *where).out
    told = somebody.repo("recover", "task:the build", "--json", *where)
    advice = "\n".join(reason["advice"] for reason in told.json["reasons"])
    for text in (prompt, advice):
        checks = {each for each in somebody.commands(text) if "--run-checks" in each}
        assert checks, text
        for command in checks:
            ran = somebody.pastes(f"{command} --json")
            assert [each["passed"] for each in ran.json["evidence"]] == [True], (command, ran)
    claimed = somebody.pastes(found_in(somebody, prompt)["handoff claim"])
    assert claimed.code == 0, claimed


def test_what_data_advises_works_when_it_is_pasted(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    repo = somebody.repo
    for actor, risk in (("ann", "low"), ("ben", "high")):
        assert repo("store", "fix limit", *GOOD, "--actor", actor, "--risk", risk, *where).code == 0
    repo.write("limit = 7\n")
    asked = (
        repo("recover", "fix limit", "--json", *where).json["reasons"],
        repo("list", "--contested", "--json", *where).json["handoffs"][0]["verdict"]["reasons"],
        repo.forked("inbox", "--json", *where).json["contested"][0]["reasons"],
    )
    for reasons in asked:
        commands = somebody.commands("\n".join(reason["advice"] for reason in reasons))
        diffs = [each for each in commands if "handoff diff" in each and "1 2" not in each]
        assert diffs, reasons
        for command in diffs:
            assert somebody.pastes(command).code == 0, command


def test_what_is_shown_of_a_dead_run_works_when_it_is_pasted(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    dead(somebody.repo, where)
    for words in (("handoff", "recover", "task:the report", "--claim"), ("task", "resume", "the report")):
        told = somebody.repo.forked(*words, *where)
        assert told.code == 0, told
        resumes = [each for each in somebody.commands(told.out) if " resume " in each]
        assert len(resumes) > 1
        for command in resumes:
            dry = somebody.pastes(f"{command} --dry-run")
            assert (dry.code, "run_held" in dry.out) == (0, False), (command, dry)
        claim = re.findall(r"OUTLAST_CLAIM=(\S+)", told.out)[0]
        assert somebody.repo("settle", "task:the report", "released", "--claim-id", claim, *where).code == 0


FAILING = "flow: nightly\nsteps:\n  - id: two\n    run: echo no room >&2; exit 3\n"


def test_what_a_failed_command_printed_is_found_by_what_the_prompt_says(agent: tuple[Agent, tuple[str, ...]]) -> None:
    somebody, where = agent
    somebody.repo.write(FAILING, "nightly.yaml")
    assert somebody.repo.forked("run", "nightly.yaml", *where).code == 1
    told = somebody.repo("recover", "--prompt", "--tokens", "4000", *where)  # however long the home's name is
    logs = [each for each in somebody.commands(told.out) if " logs " in each]
    assert logs
    for command in logs:
        printed = somebody.pastes(command)
        assert (printed.code, "no room" in printed.out) == (0, True), (command, printed)


def test_a_task_that_is_resumed_without_a_terminal_is_completed_by_what_is_printed(
    agent: tuple[Agent, tuple[str, ...]],
) -> None:
    somebody, where = agent
    assert somebody.repo.forked("task", "pause", "fix it", *GOOD, *where).code == 0
    resumed = somebody.repo.forked("task", "resume", "fix it", *where)
    assert resumed.code == 0, resumed
    somebody.repo.write("limit = 2\n")
    done = somebody.pastes(found_in(somebody, resumed.out)["task complete"])
    assert done.code == 0, done
    shutil.rmtree(somebody.elsewhere)
