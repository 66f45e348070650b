"""What transcripts and hook input of real clients tell: plan, edited files, last wish; pure functions."""

import json
from pathlib import Path

import pytest
from tests.doors.hook_work import EVENTS, TRANSCRIPTS, VERSIONS, fixture

from outlast.doors.hooks import transcript as plans
from outlast.doors.hooks.spool import KINDS, NAMES, Client, Kind, NotAnEvent, answer, pack, parse, unpack
from outlast.doors.hooks.transcript import TranscriptFacts, TranscriptStep, told_in

PLAN = (
    TranscriptStep("Read app.py", "completed"),
    TranscriptStep("Set limit to 2 in app.py", "in_progress"),
    TranscriptStep("Run the tests"),
)
CWD = Path("/work/app")


def told(name: str) -> TranscriptFacts:
    return told_in(fixture(name, CWD).splitlines())


@pytest.mark.parametrize("client", VERSIONS)
def test_the_newest_plan_of_each_client_is_read(client: Client) -> None:
    found = told(f"{client}-{VERSIONS[client]}-{TRANSCRIPTS[client]}.jsonl")
    assert found.plan == PLAN
    assert found.next_action == "Set limit to 2 in app.py"
    assert found.goal == "Refuse requests over the limit"
    assert "app.py" in found.files[-1]


def test_an_edit_that_failed_is_none_and_a_helpers_plan_is_not_the_agents() -> None:
    found = told("claude-2.1.261-transcript-todos.jsonl")
    assert found.files == ("/work/app/app.py",)
    assert "Helper's own" not in [step.text for step in found.plan]


def test_files_of_patches_are_found_in_every_form_that_codex_writes() -> None:
    assert set(told("codex-0.135.0-rollout.jsonl").files) == {"app.py", "/work/app/app.py", "lib/new.py"}


def test_tasks_are_known_by_the_id_that_their_making_was_answered_with() -> None:
    found = told("claude-2.1.261-transcript-tasks.jsonl")
    assert found.plan == (
        TranscriptStep("Set limit to 2 in app.py", "completed"),
        TranscriptStep("Run the tests", "in_progress"),
    )


def test_without_a_plan_there_is_no_next_action() -> None:
    lines = [line for line in fixture("claude-2.1.261-transcript-todos.jsonl", CWD).splitlines() if b"Todo" not in line]
    assert told_in(lines).next_action is None


def test_a_plan_whose_steps_are_all_done_has_no_next_action() -> None:
    assert TranscriptFacts((TranscriptStep("a", "completed"), TranscriptStep("b", "cancelled"))).next_action is None


ODD_LINES = [
    *(b"", b"{", b"null", b"[]", b'{"message": 1}', b"\xff\xfe", b'"user"' + b"[" * 100_000),
    b'{"message": {"content": [1, null, {"type": "tool_use"}]}}',
    b'{"payload": {"type": "function_call", "name": "update_plan", "arguments": "{\\"plan\\": [1, {}]}"}}',
    b'{"type": "user", "timestamp": 7, "message": {"content": {"a": 1}}}',
]


@pytest.mark.parametrize("line", ODD_LINES)
def test_a_line_that_no_client_writes_tells_nothing(line: bytes) -> None:
    assert told_in([line]) == TranscriptFacts()


def test_only_the_end_of_a_huge_transcript_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "TAIL_BYTES", 20_000)
    end = fixture("claude-2.1.261-transcript-todos.jsonl", CWD)
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"type": "user", "message": {"content": "' + b"x" * 50_000 + b'"}}\n' + end)
    found = plans.read(str(file))
    assert found.cut
    assert found.plan == PLAN


def test_a_transcript_that_is_gone_a_folder_or_a_device_tells_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", tmp_path / "gone" / "deeper", tmp_path, Path("/dev/zero"), Path("a\0b")):
        assert plans.read(str(path)) == TranscriptFacts()


# What comes on stdin


@pytest.mark.parametrize("client", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_event_of_each_client_is_one_value(client: Client, kind: Kind) -> None:
    raw = fixture(f"{client}-{VERSIONS[client]}-{EVENTS[kind]}.json", CWD, "/t.jsonl")
    event = parse(client, "stop", raw)
    assert event is not None
    assert (event.client, event.kind, event.cwd, event.transcript) == (client, kind, str(CWD), "/t.jsonl")
    assert event.session
    assert unpack(pack(event)) == event


def test_what_a_hook_takes_over_is_not_what_was_said_in_the_session() -> None:
    raw = fixture("claude-2.1.261-stop.json", CWD, "/t.jsonl")
    event = parse("claude", "stop", raw)
    assert event is not None
    assert b"run the tests next" in raw
    assert b"run the tests next" not in pack(event)


def test_the_older_notify_program_of_codex_is_understood() -> None:
    event = parse("codex", "stop", fixture("codex-0.50.0-notify.json", CWD))
    assert event is not None
    assert (event.kind, event.cwd, event.session[:8]) == ("stop", str(CWD), "019a8c3e")


@pytest.mark.parametrize("name", ["claude-2.1.261-subagent-stop.json", "claude-2.1.261-user-prompt-submit.json"])
def test_an_event_that_is_none_of_ours_is_passed_over(name: str) -> None:
    assert parse("claude", "stop", fixture(name, CWD)) is None


@pytest.mark.parametrize("raw", [b"{", b"[1]", b'"x"', b"\xff", b"nul", b"[" * 100_000])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(NotAnEvent):
        parse("claude", "stop", raw)


def test_fields_that_cannot_be_used_are_as_good_as_missing() -> None:
    odd = {"session_id": 7, "cwd": "a\0b", "transcript_path": ["x"], "source": "y" * 5000, "workspace_roots": [None]}
    event = parse("claude", "start", json.dumps(odd).encode())
    assert event is not None
    assert event[2:6] == ("", "", "", "")


def test_only_a_start_answers_and_as_its_client_reads_it() -> None:
    assert answer("claude", "stop", "x") == answer("codex", "end", "x") == answer("claude", "start") == b""
    assert json.loads(answer("cursor", "stop", "x")) == {}
    assert json.loads(answer("cursor", "start", "x")) == {"additional_context": "x"}
    said = {"hookEventName": "SessionStart", "additionalContext": "x"}
    assert json.loads(answer("codex", "start", "x")) == {"hookSpecificOutput": said}
    assert {*NAMES} == {*VERSIONS}
