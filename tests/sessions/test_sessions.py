"""Sessions: messages in order that are never lost and never changed, whoever writes at once."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, flow
from outlast.clock import moment
from outlast.errors import (
    NameInvalid,
    OperationConflict,
    SessionExists,
    SessionNotFound,
    ValueRefused,
)
from outlast.python.sessions import AsyncSessions, Sessions
from outlast.sessions.session import Message

from ..kit.place import Place
from ..runs.test_integrity import tamper

WORKER = Path(__file__).with_name("session_worker.py")


@pytest.fixture
def chat(place: Place) -> Sessions:
    return place.outlast.sessions


def said(messages: list[Message]) -> list[Any]:
    return [message.content for message in messages]


# -- messages ----------------------------------------------------------------------------------------


def test_messages_come_back_in_order_as_they_were_appended(place: Place, chat: Sessions) -> None:
    first = chat.append("chat-7", "user", "hello", meta={"channel": "web"}, run_id="r1")
    place.clock.advance(5)
    second = chat.append("chat-7", "assistant", {"parts": [1, 2.5, None, True, "é\x00\n🦑"]})
    assert (first.seq, first.role, first.content, first.run_id) == (1, "user", "hello", "r1")
    assert (first.meta, first.actor, second.seq) == ({"channel": "web"}, "local", 2)
    assert (first.at, second.at - first.at) == (moment(place.clock.now() - 5_000_000), timedelta(seconds=5))
    place.reopen()
    assert place.outlast.sessions.messages("chat-7") == [first, second]


@pytest.mark.parametrize("content", ["", None, 0, False, [], {}, "a" * 500_000, {"deep": [[["x"]]]}, -0.5, "\u2028"])
def test_any_json_value_is_content(chat: Sessions, content: Any) -> None:
    chat.append("s", "tool", content)
    (found,) = chat.messages("s")
    assert found.content == content
    assert type(found.content) is type(content)


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ((1, 2), "content"),
        ({"a": [1, float("nan")]}, "content['a'][1]"),
        ({"a": object()}, "content['a']"),
        ({1: "x"}, "content"),
        ([b"bytes"], "content[0]"),
        ([Level.LOW], "content[0]"),
        ("\ud800", "content"),
        ("a" * (1 << 20), "content"),
    ],
)
def test_what_would_not_come_back_equal_is_refused_by_its_path(chat: Sessions, content: Any, path: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        chat.append("s", "user", content)
    assert caught.value.path == path
    assert chat.list() == []


def test_a_message_of_the_largest_size_is_whole(chat: Sessions) -> None:
    text = "ä" * ((1 << 19) - 1)  # with its quotes one MiB of JSON
    assert chat.append("s", "user", text).content == text
    assert chat.last("s", 1)[0].content == text


@pytest.mark.parametrize("name", ["", "  ", "a" * 501, "a\nb", "a\x00", "\ud800", 7, None])
def test_an_id_that_cannot_be_used_is_refused(chat: Sessions, name: Any) -> None:
    with pytest.raises(NameInvalid):
        chat.append(name, "user", "x")


@pytest.mark.parametrize("name", ["../../etc", "a b'\"; DROP TABLE", "🦑" * 500, "--help", "a/1", "%00"])
def test_any_printable_id_is_one(chat: Sessions, name: str) -> None:
    chat.append(name, "user", name)
    assert said(chat.messages(name)) == [name]
    assert [session.id for session in chat.list()] == [name]


@pytest.mark.parametrize("role", ["", "a" * 65, "us\ner", 5])
def test_a_role_is_a_short_text(chat: Sessions, role: Any) -> None:
    with pytest.raises(NameInvalid, match="role"):
        chat.append("s", role, "x")
    assert chat.append("s", "narrator 2", "x").role == "narrator 2"


@pytest.mark.parametrize("meta", [{"a": (1,)}, {1: 2}, "text", [1], {"big": "x" * 70_000}])
def test_meta_is_a_small_json_object(chat: Sessions, meta: Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        chat.append("s", "user", "x", meta=meta)
    assert caught.value.path.startswith("meta")


def test_pages_and_the_newest(chat: Sessions) -> None:
    chat.append_many("s", [{"role": "user", "content": number} for number in range(1, 251)])
    assert said(chat.messages("s")) == list(range(1, 101))
    assert said(chat.messages("s", after=240)) == list(range(241, 251))
    assert said(chat.messages("s", after=100, limit=2)) == [101, 102]
    assert chat.messages("s", after=250) == chat.messages("s", limit=0) == chat.last("s", 0) == []
    assert said(chat.last("s", 3)) == [248, 249, 250]
    assert len(chat.last("s", 1000)) == 250


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "3", None, 1 << 70])
def test_a_number_that_is_none_is_refused(chat: Sessions, wrong: Any) -> None:
    chat.open("s")
    for use in (
        lambda: chat.messages("s", limit=wrong),
        lambda: chat.messages("s", after=wrong),
        lambda: chat.last("s", wrong),
        lambda: chat.window("s", wrong),
        lambda: chat.list(wrong),
    ):
        with pytest.raises(ValueRefused):
            use()


# -- many at once ------------------------------------------------------------------------------------


def test_many_are_appended_all_or_none(chat: Sessions) -> None:
    chat.append("s", "user", "before")
    with pytest.raises(ValueRefused) as caught:
        chat.append_many("s", [{"role": "user", "content": "a"}, {"role": "tool", "content": {"x": {1}}}])
    assert caught.value.path == "messages[1].content['x']"
    found = chat.append_many("s", [{"role": "user", "content": "a"}, {"role": "tool", "content": 1, "run_id": "r"}])
    assert [(message.seq, message.run_id) for message in found] == [(2, ""), (3, "r")]
    assert said(chat.messages("s")) == ["before", "a", 1]
    assert chat.append_many("s", []) == []


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("text", "messages"),
        ({"role": "user", "content": "x"}, "messages"),
        (["text"], "messages[0]"),
        ([{"role": "user"}], "messages[0]['content']"),
        ([{"role": "user", "content": "x", "tool_call_id": "1"}], "messages[0]['tool_call_id']"),
        ([{"role": "user", "content": "x"}] * 1001, "messages"),
        ([{"role": "user", "content": "x" * 1_000_000}] * 9, "messages"),
    ],
)
def test_what_is_no_list_of_messages_is_refused_by_its_path(chat: Sessions, given: Any, path: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        chat.append_many("s", given)
    assert caught.value.path == path
    assert chat.list() == []


# -- sessions ----------------------------------------------------------------------------------------


def test_a_session_is_made_when_it_is_first_used(place: Place, chat: Sessions) -> None:
    made = chat.open("chat-7", meta={"user": "ann"})
    assert (made.id, made.scope, made.messages, made.memo, made.runs) == ("chat-7", "default", 0, None, ())
    assert (made.meta, made.actor, made.created_at) == ({"user": "ann"}, "local", moment(place.clock.now()))
    assert chat.open("chat-7") == chat.open("chat-7", meta={"user": "ann"}) == made
    chat.append("other", "user", "x")
    assert chat.get("other").messages == 1


def test_a_session_without_an_id_gets_one_of_its_own(chat: Sessions) -> None:
    first, second = chat.open(), chat.open()
    assert first.id != second.id
    assert {session.id for session in chat.list()} == {first.id, second.id}


def test_other_meta_for_a_known_session_is_said_and_not_dropped(chat: Sessions) -> None:
    chat.open("s", meta={"a": 1})
    with pytest.raises(SessionExists, match='"a":1'):
        chat.open("s", meta={"a": 2})
    assert chat.get("s").meta == {"a": 1}


def test_the_list_begins_with_what_was_written_to_last(place: Place, chat: Sessions) -> None:
    for name in ("a", "b", "c"):
        chat.append(name, "user", "x")
        place.clock.advance(1)
    chat.append("a", "user", "again")
    assert [session.id for session in chat.list()] == ["a", "c", "b"]
    assert [session.id for session in chat.list(2)] == ["a", "c"]


def test_what_is_not_there_is_not_found(chat: Sessions) -> None:
    for use in (chat.get, chat.messages, chat.memo):
        with pytest.raises(SessionNotFound, match="'nowhere' in scope 'default'"):
            use("nowhere")
    for more in (
        lambda: chat.last("nowhere", 1),
        lambda: chat.window("nowhere", 9),
        lambda: chat.set_memo("nowhere", "x"),
    ):
        with pytest.raises(SessionNotFound):
            more()


def test_another_scope_or_tenant_has_sessions_of_its_own(place: Place, chat: Sessions) -> None:
    chat.append("s", "user", "mine", operation_id="op")
    with Outlast(place.home, scope="other") as other, Outlast(place.home, tenant="acme") as tenant:
        for foreign in (other.sessions, tenant.sessions):
            with pytest.raises(SessionNotFound):
                foreign.messages("s")
            assert foreign.list() == []
            foreign.append("s", "user", "theirs")
        assert said(other.sessions.messages("s", scope="default")) == ["mine"]
        with pytest.raises(OperationConflict):
            other.sessions.append("s", "user", "mine", operation_id="op")
    assert said(chat.messages("s")) == ["mine"]


@flow
def answers(run: Run, text: str) -> str:
    return text.upper()


def test_a_session_shows_the_runs_that_were_started_for_it(place: Place, chat: Sessions) -> None:
    chat.open("s")
    first = place.outlast.run(answers, "a", session="s").run_id
    second = place.outlast.run(answers, "b", session="s").run_id
    place.outlast.run(answers, "c", session="t")
    with Outlast(place.home, scope="other") as other:
        other.run(answers, "d", session="s")
    assert chat.get("s").runs == (second, first)
    assert place.outlast.get(first).session == "s"
    with pytest.raises(SessionNotFound):
        chat.get("t")  # a run only names it


def test_gc_leaves_sessions_alone(place: Place, chat: Sessions) -> None:
    chat.append("s", "user", "x")
    run = place.outlast.run(answers, "a", session="s").run_id
    assert chat.get("s").runs == (run,)
    place.clock.advance(86400 * 365)
    assert len(place.outlast.gc(older_than=1, dry_run=False).runs) == 1
    assert (chat.get("s").runs, said(chat.messages("s"))) == ((), ["x"])


# -- repeats -----------------------------------------------------------------------------------------


def test_an_exact_repeat_gives_the_same_message(chat: Sessions) -> None:
    first = chat.append("s", "user", {"a": 1}, meta={"b": 2}, operation_id="op-1")
    chat.append("s", "user", "more")
    again = chat.append("s", "user", {"a": 1}, meta={"b": 2}, operation_id="op-1")
    assert (again, first.replayed, again.replayed) == (first, False, True)
    assert chat.get("s").messages == 2


def test_an_exact_repeat_of_many_gives_all_of_them(chat: Sessions) -> None:
    given = [{"role": "user", "content": number} for number in range(120)]
    first = chat.append_many("s", given, operation_id="op-1")
    again = chat.append_many("s", given, operation_id="op-1")
    assert again == first
    assert all(message.replayed for message in again)
    assert chat.get("s").messages == 120


OTHERS: list[dict[str, Any]] = [
    {"content": "y"},
    {"role": "tool"},
    {"meta": {"a": 1}},
    {"run_id": "r"},
    {"session_id": "t"},
    {"actor": "eve"},
]


@pytest.mark.parametrize("other", OTHERS)
def test_other_content_under_the_same_operation_is_a_conflict(chat: Sessions, other: dict[str, Any]) -> None:
    given: dict[str, Any] = {"session_id": "s", "role": "user", "content": "x"}
    chat.append(**given, operation_id="op-1")
    with pytest.raises(OperationConflict):
        chat.append(**(given | other), operation_id="op-1")
    assert [session.messages for session in chat.list()] == [1]


def test_a_repeat_in_the_same_moment_appends_once(chat: Sessions) -> None:
    found: list[Message] = []
    line = threading.Barrier(8)

    def work() -> None:
        line.wait(30)
        found.append(chat.append("s", "user", "x", operation_id="op-1"))

    in_threads([work] * 8)
    assert [message.seq for message in found] == [1] * 8
    assert [message.replayed for message in found].count(False) == 1


def test_opening_anew_is_repeated_by_its_operation(chat: Sessions) -> None:
    first, again = chat.open(operation_id="op-1"), chat.open(operation_id="op-1")
    assert (first.id, again.replayed, len(chat.list())) == (again.id, True, 1)


# -- writers at once ---------------------------------------------------------------------------------


def in_threads(jobs: list[Any]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_threads_that_append_at_once_lose_nothing_and_leave_no_hole(place: Place, chat: Sessions) -> None:
    told: dict[int, str] = {}

    def work(name: str) -> None:
        for number in range(25):
            told[chat.append("s", "user", f"{name}-{number}").seq] = f"{name}-{number}"

    in_threads([lambda name=name: work(name) for name in "abcdefgh"])
    assert {message.seq: message.content for message in chat.messages("s", limit=1000)} == told
    assert sorted(told) == list(range(1, 201))
    assert place.outlast.verify().problems == ()


class Worker:
    """A process that appends and says each seq once it was acknowledged."""

    def __init__(self, home: Path, name: str, count: int) -> None:
        command = [sys.executable, str(WORKER), str(home), name, str(count)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def heard(self) -> Iterator[tuple[int, str]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                seq, content = json.loads(line)
                yield seq, content

    def end(self) -> int:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return self.process.wait(60)


def kept(home: Path, told: dict[int, str]) -> int:
    """That everything acknowledged is there and the numbers have no holes; how many there are."""
    with Outlast(home) as outlast:
        messages = outlast.sessions.messages("s", limit=10_000)
        assert outlast.verify().problems == ()
    assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
    found = {message.seq: message.content for message in messages}
    assert {seq: found[seq] for seq in told} == told
    assert len(set(found.values())) == len(found)
    return len(messages)


def test_sixteen_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    workers = [Worker(tmp_path / "home", f"p{number}", 50) for number in range(16)]
    for worker in workers:
        worker.go()
    told: dict[int, str] = {}
    for worker in workers:
        own = dict(worker.heard())
        assert list(own) == sorted(own)  # each of them sees its own in order
        told |= own
        assert worker.end() == 0
    assert len(told) == 800
    assert kept(tmp_path / "home", told) == 800


def test_processes_that_are_killed_lose_nothing_acknowledged(tmp_path: Path) -> None:
    told: dict[int, str] = {}
    for life in range(3):
        workers = [Worker(tmp_path / "home", f"life{life}-{number}", 100_000) for number in range(2)]
        for worker in workers:
            worker.go()
        for worker in workers:
            for heard, (seq, content) in enumerate(worker.heard()):
                told[seq] = content
                if heard == 5 + 10 * life:
                    os.kill(worker.process.pid, signal.SIGKILL)  # what it said until then is still read
            assert worker.end() == -signal.SIGKILL
    assert kept(tmp_path / "home", told) >= len(told) > 0


# -- integrity ---------------------------------------------------------------------------------------

EDITS = {
    "UPDATE messages SET content = '\"bye\"' WHERE seq = 2": "message s/2",
    "UPDATE messages SET role = 'system' WHERE seq = 2": "message s/2",
    "UPDATE messages SET meta = '{\"a\":1}' WHERE seq = 2": "message s/2",
    "UPDATE messages SET actor = 'eve' WHERE seq = 2": "message s/2",
    "UPDATE messages SET run_id = 'r' WHERE seq = 2": "message s/2",
    "UPDATE messages SET at = at + 1 WHERE seq = 2": "message s/2",
    "DELETE FROM messages WHERE seq = 2": "message s/2",
    "DELETE FROM messages WHERE seq = 3": "message s/3",
    "UPDATE sessions SET head = 2": "message s/3",
    "UPDATE sessions SET meta = '{\"a\":1}', memos = memos": "message s/1",
    "UPDATE memos SET text = '\"no\"' WHERE version = 1": "memo s/1",
    "UPDATE memos SET upto = 3 WHERE version = 2": "memo s/2",
    "DELETE FROM memos WHERE version = 2": "memo s/2",
    "DELETE FROM sessions": "messages of session number 1",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_record_that_is_not_what_was_stored_is_named(place: Place, chat: Sessions, edit: str) -> None:
    chat.append_many("s", [{"role": "user", "content": text} for text in ("a", "b", "c")])
    chat.set_memo("s", "sum", upto=1)
    chat.set_memo("s", "sums", upto=2)
    assert (place.outlast.verify().problems, place.outlast.verify().sessions) == ((), 1)
    tamper(place, edit)
    found = place.outlast.verify()
    assert found.problems[0].record == EDITS[edit]
    assert not found.ok


def test_messages_of_another_session_do_not_fit(place: Place, chat: Sessions) -> None:
    for name in ("s", "t"):
        chat.append(name, "user", name)
    tamper(
        place,
        "UPDATE messages SET (content, digest, hash) ="
        " (SELECT o.content, o.digest, o.hash FROM messages o WHERE o.session = 2) WHERE session = 1",
    )
    tamper(place, "UPDATE sessions SET hash = (SELECT hash FROM messages WHERE session = 1) WHERE key = 1")
    assert [problem.record for problem in place.outlast.verify().problems] == ["message s/1", "session s"]


# -- on an event loop --------------------------------------------------------------------------------


def test_the_same_is_awaited_on_an_event_loop(tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            await asyncio.gather(*(outlast.sessions.append("s", "user", number) for number in range(10)))
            assert [message.seq for message in await outlast.sessions.messages("s")] == list(range(1, 11))
            assert (await outlast.sessions.set_memo("s", "ten", upto=10)).version == 1
            assert (await outlast.sessions.window("s", 100)).covered == 10
            assert [session.id for session in await outlast.sessions.list()] == ["s"]

    asyncio.run(work())


def test_both_surfaces_have_the_same_calls() -> None:
    public = {name for name in vars(Sessions) if not name.startswith("_")}
    assert public == {name for name in vars(AsyncSessions) if not name.startswith("_")}
