"""`outlast audit` and `outlast replay`: real commands, their words and their exit codes."""

from collections.abc import Callable

from .conftest import Cli

GOOD = """\
flow: build
steps:
  - {id: plan, run: echo plan > plan.md, writes: [plan.md]}
  - {id: release, run: 'echo "$OUTLAST_EFFECT_KEY"', effect: true, confirm: 'exit 1'}
"""


def test_a_flow_that_passes_exits_0_and_needs_no_home(cli: Cli) -> None:
    (cli.folder / "flow.yaml").write_text(GOOD)
    said = cli("audit", "flow.yaml")
    assert (said.code, said.err) == (0, "")
    assert "1. Which steps can rerun? pass" in said.out
    assert "flow build: all six pass" in said.out
    assert not (cli.folder / ".outlast").exists()


def test_a_flow_that_fails_exits_4_and_says_which_question_and_what_to_do(cli: Cli) -> None:
    (cli.folder / "flow.yaml").write_text(GOOD.replace("echo plan >", "git push; echo plan >"))
    said = cli("audit", "flow.yaml")
    assert said.code == 4
    assert "1. Which steps can rerun? fail" in said.out
    assert "! plan: git push (line 3)" in said.out
    assert "effect: true" in said.out
    assert "flow build: fails 1" in said.out
    found = cli("audit", "flow.yaml", "--json")
    assert found.code == 4
    assert found.json["passed"] is False
    assert [question["passed"] for question in found.json["questions"]] == [False, True, True, True, True, True]


def test_a_python_flow_is_audited_by_its_file(cli: Cli) -> None:
    said = cli("audit", "flows.py:report", "--json")
    (first, *_) = said.json["questions"]
    assert (said.code, said.json["kind"], said.json["subject"]) == (4, "flow", "report")
    assert {finding["subject"] for finding in first["findings"]} == {"find", "draft"}  # their diary is appended to


def test_a_run_in_doubt_is_audited_by_the_beginning_of_its_id(cli: Cli, in_doubt: Callable[[], str]) -> None:
    run_id = in_doubt()
    said = cli("audit", run_id[:6])
    assert said.code == 4
    assert "2. Which steps cannot rerun? fail" in said.out
    assert f"run {run_id}: fails 2" in said.out


def test_what_is_not_there_exits_5(cli: Cli) -> None:
    cli.here("flows.py:report", topic="ai")
    for words in (["audit", "no.yaml"], ["audit", "flows.py:nothing"], ["audit", "nope"], ["replay", "nope"]):
        said = cli(*words, "--json")
        assert said.code == 5, words
        assert said.json["error"]["code"] in ("flow_not_found", "run_not_found")


def test_a_run_that_replays_exits_0_and_runs_nothing(cli: Cli) -> None:
    run_id = cli.here("flows.py:report", topic="ai")
    before = cli.diary
    said = cli("replay", run_id)
    assert said.code == 0
    assert "3 outcomes given again; the body returned" in said.out
    assert "ok: nothing diverged" in said.out
    assert cli.diary == before
    found = cli("replay", run_id, "--json").json
    assert (found["ok"], found["divergences"], found["next"]) == (True, [], [])


def test_a_run_whose_flow_was_changed_exits_4_and_names_what_diverged(cli: Cli) -> None:
    run_id = cli.here("flows.py:report", topic="ai")
    flows = cli.folder / "flows.py"
    flows.write_text(flows.read_text().replace('{"link": publish(draft(find(topic)))}', '{"link": draft(find(topic))}'))
    said = cli("replay", run_id)
    assert said.code == 4
    assert "end_differs" in said.out
    assert "unasked" in said.out
    assert "2 divergences" in said.out


def test_an_unfinished_run_says_where_it_goes_on(cli: Cli, in_doubt: Callable[[], str]) -> None:
    said = cli("replay", in_doubt())
    assert said.code == 0
    assert "goes on with: publish" in said.out
