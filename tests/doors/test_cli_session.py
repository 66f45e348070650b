"""`outlast session`: append, show, list, window, memo."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


def talk(cli: "Cli", *contents: object) -> None:
    with cli.opened() as outlast:
        outlast.sessions.append_many("chat-7", [{"role": "user", "content": content} for content in contents])


def test_a_message_is_appended_and_makes_home_and_session(cli: "Cli") -> None:
    answer = cli("session", "append", "chat-7", "hello 🦑")
    assert (answer.code, answer.out) == (0, "message chat-7/1 appended\n")
    text = "two lines\nfrom a pipe\n"
    run = cli.here("flows.py:report", topic="ai")
    found = cli("session", "append", "chat-7", "-", "--role", "tool", "--run", run[:8], "--json", stdin=text).json
    assert (found["seq"], found["role"], found["content"], found["run_id"]) == (2, "tool", text, run)
    shown = cli("session", "show", "chat-7").out.splitlines()
    assert shown[0].split() == ["session", "chat-7"]
    assert [line.split(" (")[0] for line in shown[-5:]] == [
        *("#1 user", "  hello 🦑"),
        *("#2 tool", "  two lines", "  from a pipe"),
    ]


def test_json_is_kept_as_json_and_a_repeat_is_one(cli: "Cli") -> None:
    words = ("session", "append", "s", '{"a": [1, null]}', "--as-json", "--meta", '{"b": 2}', "--operation-id", "op")
    first = cli(*words, "--json").json
    assert (first["content"], first["meta"], first["replayed"]) == ({"a": [1, None]}, {"b": 2}, False)
    assert cli(*words).out == "message s/1 was appended already\n"
    assert cli(*words[:3], "other", "--operation-id", "op").code == 4


@pytest.mark.parametrize(
    "words",
    [
        ("append", "s", "{", "--as-json"),
        ("append", "s", "x", "--meta", "{"),
        ("append", "s", "NaN", "--as-json"),
        ("append", "", "x"),
        ("memo", "s", "--upto", "3"),
    ],
)
def test_what_cannot_be_is_wrong_usage_and_nothing_is_written(cli: "Cli", words: tuple[str, ...]) -> None:
    answer = cli("session", *words)
    assert answer.code == 2, answer.err
    with cli.opened() as outlast:
        assert outlast.sessions.list() == []


def test_show_says_when_there_is_more(cli: "Cli") -> None:
    talk(cli, *range(30))
    out = cli("session", "show", "chat-7", "--last", "2").out
    assert "[2 of 30 messages shown; --last N and --after SEQ show others]" in out
    assert "#29 user" in out
    assert "#1 user" not in out
    found = cli("session", "show", "chat-7", "--after", "3", "--last", "2", "--json").json
    assert [message["seq"] for message in found["messages"]] == [4, 5]
    assert found["session"]["messages"] == 30


def test_a_message_cannot_steer_the_terminal(cli: "Cli") -> None:
    talk(cli, "\x1b[2Jgone")
    assert "\\x1b[2Jgone" in cli("session", "show", "chat-7").out


def test_the_window_says_what_was_left_out(cli: "Cli") -> None:
    talk(cli, "old", "word " * 500, "new")
    out = cli("session", "window", "chat-7", "--tokens", "8").out
    assert out.splitlines()[-1].startswith("[")
    assert "1 message shown, 2 left out" in out
    assert "#2 does not fit: it needs" in out
    found = cli("session", "window", "chat-7", "--tokens", "100", "--json").json
    assert (found["left_out"], [each["seq"] for each in found["messages"]]) == (1, [1, 3])
    assert [each["seq"] for each in found["too_large"]] == [2]


def test_the_memo_is_set_on_condition_and_shown(cli: "Cli") -> None:
    talk(cli, "a", "b")
    assert cli("session", "memo", "chat-7").out == "session chat-7 has no memo\n"
    answer = cli("session", "memo", "chat-7", "-", "--upto", "2", "--expect", "0", stdin="so far")
    assert answer.out == "memo of chat-7 set: version 1\n"
    assert cli("session", "memo", "chat-7", "no", "--expect", "0").code == 4
    assert cli("session", "memo", "chat-7").out.splitlines() == [
        "memo (version 1, for the messages up to 2, by local):",
        "  so far",
    ]
    assert "2 covered by the memo" in cli("session", "window", "chat-7", "--tokens", "50").out
    assert cli("session", "memo", "chat-7", "").code == 0
    assert cli("session", "memo", "chat-7").out.startswith("session chat-7 has no memo (taken away at ")


def test_the_list_and_what_is_not_there(cli: "Cli") -> None:
    talk(cli, "a")
    heads, row = cli("session", "list").out.splitlines()
    assert heads.split() == ["SESSION", "MESSAGES", "MEMO", "RUNS", "AGE"]
    assert row.split()[:2] == ["chat-7", "1"]
    answer = cli("session", "show", "chat-8")
    assert (answer.code, "[session_not_found]" in answer.err) == (5, True)
    assert cli("session", "show", "chat-7", "--scope", "other").code == 5
    assert cli("session", "list", "--scope", "other").out.startswith("no sessions yet")


def test_verify_counts_sessions(cli: "Cli") -> None:
    talk(cli, "a")
    assert "1 session," in cli("verify").out
    assert cli("verify", "--json").json["sessions"] == 1
