"""`outlast workspace record` and its kin: what is printed, and the same as JSON."""

import json
from typing import TYPE_CHECKING

import pytest

from outlast import Outlast

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


@pytest.fixture
def made(cli: "Cli") -> tuple[str, str, str]:
    """An artifact, an observation that was derived from it, and a decision that rests on that."""
    with Outlast(cli.folder / ".outlast") as outlast:
        artifact = outlast.workspace.save("log.txt", "ok\n", summary="The log").ref
        seen = outlast.workspace.record("observation", "The tests pass.", [artifact], tags=["ci"], task="tides").ref
        decision = outlast.workspace.record("decision", "Ship it.", pinned=True).ref
        outlast.workspace.link(seen, "derived_from", artifact)
        outlast.workspace.link(seen, "supports", decision)
    return artifact, seen, decision


def test_what_is_recorded_is_told_listed_and_shown_whole(cli: "Cli", made: tuple[str, str, str]) -> None:
    artifact, seen, decision = made
    (cli.folder / "text.md").write_text("From a file: ünï\nand a second line\n")
    told = cli("workspace", "record", "note", "@text.md", "--ref", seen, "--tag", "a", "--task", "tides", "--pin")
    ref = told.out.split()[0]
    assert (told.code, told.out) == (0, f"{ref} recorded\n")
    shown = cli("workspace", "records", ref)
    assert shown.out.startswith("  From a file: ünï\n  and a second line\n")
    assert all(word in shown.out for word in (seen, "tides", "pinned", "note"))
    listed = cli("workspace", "records").out
    assert [listed.index(word) for word in (ref, decision, seen)] == sorted(map(listed.index, (ref, decision, seen)))
    assert "* decision" in listed
    found = cli("workspace", "records", "--task", "tides", "--kind", "note", "--json").json["records"]
    assert [one["ref"] for one in found] == [ref]
    about = cli("workspace", "records", artifact, "--json").json["records"]
    assert [one["ref"] for one in about] == [seen]


def test_a_text_from_a_pipe_with_a_secret_is_refused_or_masked(cli: "Cli") -> None:
    said = "the key is AKIAIOSFODNN7EXAMPLQ\n"
    refused = cli("workspace", "record", "evidence", "-", stdin=said)
    assert (refused.code, "text holds what looks like" in refused.err, "--redact" in refused.err) == (2, True, True)
    masked = cli("workspace", "record", "evidence", "-", "--redact", stdin=said)
    assert (masked.code, "masked as secret: text" in masked.err) == (0, True)
    (found,) = cli("workspace", "records", "--json").json["records"]
    assert (found["text"], found["masked"]) == ("the key is ***\n", ["text"])


def test_a_pin_is_set_and_taken_away(cli: "Cli", made: tuple[str, str, str]) -> None:
    _, seen, decision = made
    assert cli("workspace", "pin", seen).out == f"{seen} pinned: The tests pass.\n"
    assert cli("workspace", "pin", seen, "--json").json["replayed"] is True
    assert cli("workspace", "unpin", decision).out == f"{decision} not pinned: Ship it.\n"
    assert [one["ref"] for one in cli("workspace", "records", "--pinned", "--json").json["records"]] == [seen]


def test_links_and_why_tell_how_evidence_stands(cli: "Cli", made: tuple[str, str, str]) -> None:
    artifact, seen, decision = made
    doubt = cli("workspace", "record", "evidence", "They are flaky.", "--json").json["ref"]
    linked = cli("workspace", "link", doubt, "contradicts", seen, "-m", "on Tuesday")
    assert (linked.code, linked.out) == (0, f"{doubt} contradicts {seen}\n")
    again = cli("workspace", "link", doubt[:12], "contradicts", seen, "-m", "on Friday")
    assert again.out == f"{doubt} contradicts {seen} (was linked already)\n"
    assert "its note stays" in again.err
    why = cli("workspace", "why", decision)
    assert why.out.splitlines() == [
        f"{decision} [contested] (decision): Ship it.",
        f"  ! rests on {seen}, contradicted by {doubt}",
        f"  supported by {seen} [contested] (observation): The tests pass.",
        f"    ! contradicted by {doubt}",
        f"    derived from {artifact} (artifact): The log, saved by local",
        f"    contradicted by [on Tuesday] {doubt} (evidence): They are flaky.",
    ]
    found = cli("workspace", "why", decision, "--depth", "1", "--json").json
    assert (found["standing"], found["left_out"], found["children"][0]["of"]["cut"]) == ("contested", 2, 2)
    links = cli("workspace", "links", seen, "--json").json["links"]
    assert [(one["relation"], one["note"]) for one in links] == [
        ("derived_from", ""),
        ("supports", ""),
        ("contradicts", "on Tuesday"),
    ]
    assert "on Tuesday" in cli("workspace", "links", doubt).out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("record", "rumour", "x"), 2, "rumour"),
        (("record", "note", ""), 2, "it is empty"),
        (("record", "note", "@missing"), 2, "cannot read"),
        (("record", "note", "x", "--ref", "record:nothing"), 5, "no record"),
        (("records", "record:nothing"), 5, "no record"),
        (("pin", "record:nothing"), 5, "no record"),
        (("link", "record:nothing", "supports", "run:x"), 5, "no record"),
        (("link", "nonsense", "supports", "run:x"), 2, "is no ref"),
        (("why", "artifact:default/x@9"), 5, "no artifact"),
        (("why", "x", "--depth", "101"), 2, "101"),
    ],
)
def test_what_is_wrong_is_told_with_its_exit_code(
    cli: "Cli", made: tuple[str, str, str], words: tuple[str, ...], code: int, says: str
) -> None:
    told = cli("workspace", *words)
    assert (told.code, says in told.err) == (code, True), told.err


def test_verify_and_doctor_count_records_and_links(cli: "Cli", made: tuple[str, str, str]) -> None:
    assert "2 records, 2 links" in cli("verify").out
    assert "2 records, 2 links" in cli("doctor").out


def test_a_handoff_names_its_evidence_and_is_contested_with_it(cli: "Cli", made: tuple[str, str, str]) -> None:
    _, seen, _ = made
    told = cli("handoff", "store", "tides", "-m", "Ship.", "--next", "Ship it.", "--ref", seen, "--no-bind")
    assert told.code == 0, told.err
    assert f"evidence:\n  {seen}\n" in cli("handoff", "show", "tides").out
    doubt = cli("workspace", "record", "evidence", "They are flaky.", "--json").json["ref"]
    cli("workspace", "link", doubt, "contradicts", seen)
    found = cli("handoff", "recover", "tides", "--json").json
    (reason,) = [each for each in found["reasons"] if each["weight"] == "contests"]
    assert (reason["code"], reason["subject"]) == ("evidence_contradicted", seen)
    assert found["refs"] == [seen]


# -- many at once ------------------------------------------------------------------------------------


def test_the_lines_of_a_file_are_recorded_all_or_none_and_once(cli: "Cli") -> None:
    lines = [{"kind": "note", "text": "One."}, {"kind": "decision", "text": "Two.", "at": "2026-11-17T09:00:00Z"}]
    file = cli.folder / "my notes.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    made = cli("workspace", "record-many", file.name, "--operation-id", "import-1")
    assert made.code == 0
    again = cli("workspace", "record-many", file.name, "--operation-id", "import-1")
    assert (again.out, again.err) == (made.out, "2 records were recorded already\n")
    listed = json.loads(cli("workspace", "records", "--json").out)["records"]
    assert [one["ref"] for one in reversed(listed)] == made.out.splitlines()
    assert listed[0]["at"] == "2026-11-17T09:00:00Z"
    file.write_text('{"kind": "note", "text": "Three."}\n{"kind": "thought", "text": "Four."}\n')
    refused = cli("workspace", "record-many", file.name)
    assert (refused.code, "records[1].kind" in refused.err) == (2, True)
    assert len(json.loads(cli("workspace", "records", "--json").out)["records"]) == 2


@pytest.mark.parametrize("text", ["{", '{"kind": "note", "text": "x", "at": "soon"}'])
def test_a_line_that_is_no_record_is_named_by_its_number(cli: "Cli", text: str) -> None:
    refused = cli("workspace", "record-many", "-", stdin='{"kind": "note", "text": "One."}\n' + text)
    assert refused.code == 2
    assert "FILE: line 2: " in refused.err
    assert "cannot read" in cli("workspace", "record-many", "nowhere.jsonl").err


def test_a_record_that_is_refused_is_named_by_its_line(cli: "Cli") -> None:
    good = '\n{"kind": "note", "text": "One."}\n\n'
    for bad, place in (('{"kind": "thought", "text": "x"}', "kind"), ('{"kind": "note", "text": ""}', "text")):
        refused = cli("workspace", "record-many", "-", stdin=good + bad)
        assert f"records[1].{place}" in refused.err
        assert "records[1] is line 4 of FILE" in refused.err
    missing = cli(
        "workspace", "record-many", "-", stdin=good + '{"kind": "note", "text": "x", "refs": ["record:none"]}'
    )
    assert (missing.code, "records[1] is line 4 of FILE" in missing.err) == (5, True)
    file = cli.folder / "latin.jsonl"
    file.write_bytes(b'{"kind": "note", "text": "x"}\n{"kind": "note", "text": "\xe9"}\n')
    assert "at byte 56, line 2" in cli("workspace", "record-many", "latin.jsonl").err


def test_only_line_ends_end_a_record(cli: "Cli") -> None:
    text = "one\u2028two\x85three"
    lines = json.dumps({"kind": "note", "text": text}, ensure_ascii=False) + "\r\n"
    assert cli("workspace", "record-many", "-", stdin=lines * 2).code == 0
    found = json.loads(cli("workspace", "records", "--json").out)["records"]
    assert [one["text"] for one in found] == [text] * 2
