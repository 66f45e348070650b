"""One bad row: every list shows the others, names that one, and sends people to `verify`."""

import shlex

import pytest

from ..kit import ledgers
from .conftest import Cli

NOT_TEXT = "CAST(x'ff' AS TEXT)"
DAMAGE = {
    "runs meta": f"UPDATE runs SET meta = {NOT_TEXT} WHERE key = 1",
    "runs inputs": "UPDATE runs SET inputs = '{' WHERE key = 1",
    "runs updated_at": "UPDATE runs SET updated_at = 4611686018427387904 WHERE key = 1",
    "runs result": "UPDATE runs SET result = '[]' WHERE key = 1",
}


def damage(cli: Cli, sql: str) -> None:
    cli.close()
    ledgers.change(cli.folder / ".outlast", sql)


@pytest.mark.parametrize("what", DAMAGE)
def test_runs_lists_the_damaged_one_and_the_others(cli: Cli, what: str) -> None:
    for topic in ("a", "b"):
        assert cli("run", "flows.py:report", f"topic={topic}", "--task", topic).code == 0
    damage(cli, DAMAGE[what])
    listed = cli("runs", "--json")
    assert listed.code == 0
    assert [run["status"] for run in listed.json["runs"]] == ["succeeded", "damaged"]
    bad = listed.json["runs"][1]
    assert "outlast verify" in bad["error"]["message"]
    assert bad["id"] in listed.err
    assert "outlast verify" in listed.err
    assert "damaged" in cli("show", bad["id"]).out
    found = cli("verify", "--json")
    assert (found.code, [problem["record"] for problem in found.json["problems"]]) == (1, [f"run {bad['id']}"])


@pytest.mark.parametrize("table", ["runs", "artifacts", "records"])
def test_a_row_with_the_number_of_no_row_makes_no_list_endless(cli: Cli, table: str) -> None:
    with cli.opened() as outlast:
        outlast.workspace.save("notes", b"x")
        outlast.workspace.record("note", "x")
    assert cli("run", "flows.py:report", "topic=a").code == 0
    damage(cli, f"UPDATE {table} SET key = 0")
    looks = (
        ["runs"],
        ["workspace", "list"],
        ["workspace", "records"],
        ["workspace", "recall", "x"],
        ["gc"],
        ["doctor"],
    )
    for words in looks:
        assert cli(*words).code in (0, 1, 2, 4), words
    found = cli("verify")
    assert (found.code, "broken" in found.out) == (1, True)


def test_a_damaged_wait_is_in_the_inbox_and_nobody_answers_it(cli: Cli) -> None:
    assert cli("run", "flows.py:sleeper").code == 3
    damage(cli, "UPDATE interrupts SET payload = '{'")
    (item,) = cli("inbox", "--json").json["waits"]
    assert item["status"] == "damaged"
    assert cli("answer", item["id"], "{}").code == 4
    assert cli("resume", item["run_id"]).code != 0
    assert f"wait {item['id']}" in cli("verify").out


def test_a_trigger_and_an_index_that_is_gone_are_named(cli: Cli) -> None:
    assert cli("run", "flows.py:report", "topic=a").code == 0
    damage(cli, ledgers.SLY_TRIGGER)
    damage(cli, "DROP INDEX one_unfinished_run")
    said = cli("verify").out
    assert "trigger sly is none of ours" in said
    assert "index one_unfinished_run is missing" in said


# -- a damaged record of a run, accepted ---------------------------------------------------------------


def spoilt(cli: Cli) -> str:
    """A run that failed after its steps, and whose receipt of the first one was changed since."""
    run = cli.here("flows.py:report", topic="ai", env={"DIE": "1"})
    header = """CAST(header AS TEXT) LIKE '["step","find"%"succeeded"%'"""
    damage(cli, f"""UPDATE journal SET payload = CAST('{{"result":["forged"]}}' AS BLOB) WHERE {header}""")
    return run


def test_a_damaged_record_is_named_by_its_step_and_taken_upon_oneself_by_the_command_that_is_shown(cli: Cli) -> None:
    run = spoilt(cli)
    shown = cli("show", run).out
    assert "the receipt of step find, attempt 1" in shown
    (named,) = [line for line in shown.splitlines() if line.startswith("mend that, or take it upon you: ")]
    words = shlex.split(named.partition(": ")[2])[1:]
    refused = cli("resume", run)
    assert (refused.code, "integrity_broken" in refused.err, cli.diary) == (4, True, ["find", "draft", "publish"])
    answer = cli(*[word if word != "WHY" else "the disk lost a byte" for word in words])
    assert (answer.code, cli.diary) == (
        4,
        ["find", "draft", "publish", "find"],
    )  # the effect in doubt is still in doubt
    assert "effect publish may have happened" in answer.out


def test_the_damaged_receipt_is_shown_beside_the_one_that_took_its_place(cli: Cli) -> None:
    run = spoilt(cli)
    cli("resume", run, "--accept", "integrity_broken", "--why", "the disk lost a byte")
    kept = cli("receipts", run, "--json").json["receipts"]
    found = [(one["attempt"], bool(one["broken"])) for one in kept if one["label"] == "find"]
    assert found == [(1, True), (2, False)]
    assert "succeeded, damaged" in cli("receipts", run).out
    assert "find, attempt 1: damaged: its payload was changed" in cli("show", run).out
    assert "damaged its payload was changed" in " ".join(cli("receipts", run, "find").out.split())
    checked = cli("verify")
    assert (checked.code, f"entry {run}/" in checked.out, "find" in checked.out) == (1, True, True)
