"""What of a session fits in a number of tokens, and the memo that stands for the older messages."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from outlast.errors import MemoConflict, OperationConflict, TokenizerInvalid, ValueRefused
from outlast.python.sessions import Sessions
from outlast.sessions.session import TooLarge, Window

from ..kit.place import Place


@pytest.fixture
def chat(place: Place) -> Sessions:
    return place.outlast.sessions


def talk(chat: Sessions, *contents: str) -> None:
    """Messages as `role: content`, user unless another role is named."""
    given = [content.rpartition(": ") for content in contents]
    chat.append_many("s", [{"role": role or "user", "content": text} for role, _, text in given])


def said(window: Window) -> list[Any]:
    return [message.content for message in window.messages]


def words(text: str) -> int:
    """A count that tests can do in their heads: words, of which the role is one."""
    return len(text.split())


# -- the memo ----------------------------------------------------------------------------------------


def test_a_memo_stands_for_the_messages_up_to_one(place: Place, chat: Sessions) -> None:
    chat.append_many("s", [{"role": "user", "content": str(number)} for number in range(5)])
    assert chat.memo("s") is None
    first = chat.set_memo("s", "Ann asked for kelp.", upto=3)
    assert (first.text, first.upto, first.version, first.actor) == ("Ann asked for kelp.", 3, 1, "local")
    assert chat.memo("s") == chat.get("s").memo == first
    second = chat.set_memo("s", "Ann asked for much kelp.\x00\n", expected=1)
    assert (second.version, second.upto) == (2, 3)  # nothing that its writer did not name
    place.reopen()
    assert place.outlast.sessions.memo("s") == second


def test_a_memo_is_set_on_condition_of_its_version(chat: Sessions) -> None:
    chat.open("s")
    chat.set_memo("s", "a", expected=0)
    with pytest.raises(MemoConflict, match="at version 1, not 0"):
        chat.set_memo("s", "b", expected=0)
    memo = chat.memo("s")
    assert memo is not None
    assert memo.text == "a"


def test_of_many_who_set_a_memo_at_once_one_wins(chat: Sessions) -> None:
    chat.open("s")
    won: list[str] = []

    def work(text: str) -> None:
        with suppress(MemoConflict):
            won.append(chat.set_memo("s", text, expected=0).text)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, "abcdefgh"))
    memo = chat.memo("s")
    assert memo is not None
    assert won == [memo.text]


@pytest.mark.parametrize(
    "wrong", [{"text": 5}, {"text": "x" * (1 << 20)}, {"upto": 2}, {"upto": -1}, {"expected": "1"}]
)
def test_a_memo_that_cannot_be_is_refused(chat: Sessions, wrong: dict[str, Any]) -> None:
    chat.append("s", "user", "x")
    with pytest.raises(ValueRefused):
        chat.set_memo(**({"session_id": "s", "text": "memo"} | wrong))
    assert chat.memo("s") is None


def test_an_empty_memo_takes_it_away(chat: Sessions) -> None:
    chat.append_many("s", [{"role": "user", "content": str(number)} for number in range(5)])
    chat.set_memo("s", "sum", upto=5)
    gone = chat.set_memo("s", "")
    assert (gone.version, gone.upto) == (2, 0)
    window = chat.window("s", 1000)
    assert (window.memo, len(window.messages), window.covered) == (None, 5, 0)
    with pytest.raises(ValueRefused):
        chat.set_memo("s", "", upto=2)


def test_a_repeated_memo_is_the_first_one_also_when_it_was_replaced(chat: Sessions) -> None:
    chat.open("s")
    first = chat.set_memo("s", "a", operation_id="op-1")
    newest = chat.set_memo("s", "b")
    again = chat.set_memo("s", "a", operation_id="op-1")
    assert (again, again.replayed, chat.memo("s")) == (first, True, newest)
    with pytest.raises(OperationConflict):
        chat.set_memo("s", "c", operation_id="op-1")


# -- the window --------------------------------------------------------------------------------------


def test_the_newest_that_fit_whole_come_oldest_first(chat: Sessions) -> None:
    talk(chat, "one", "two two", "three three three", "four")
    window = chat.window("s", 12, tokens_of=words)  # 5 for `four`, 7 for `three`, 6 for `two`
    assert said(window) == ["three three three", "four"]
    assert (window.tokens, window.limit, window.left_out, window.too_large) == (12, 12, 2, ())
    assert said(chat.window("s", 11, tokens_of=words)) == ["four"]
    assert said(chat.window("s", 18, tokens_of=words)) == ["two two", "three three three", "four"]
    whole = chat.window("s", 10_000)
    assert (len(whole.messages), whole.left_out) == (4, 0)


def test_there_is_no_gap_for_a_message_that_could_fit_by_itself(chat: Sessions) -> None:
    talk(chat, "small", "five words are in here", "new")
    assert said(chat.window("s", 12, tokens_of=words)) == ["new"]


def test_a_message_that_cannot_fit_is_left_out_with_its_need(chat: Sessions) -> None:
    talk(chat, "old", "word " * 50, "new")
    window = chat.window("s", 12, tokens_of=words)
    assert said(window) == ["old", "new"]
    assert (window.left_out, window.too_large) == (1, (TooLarge(2, 54),))


def test_not_everything_is_read_for_messages_that_cannot_fit(chat: Sessions) -> None:
    talk(chat, *["word " * 50] * 70)
    counted: list[str] = []
    window = chat.window("s", 12, tokens_of=lambda text: counted.append(text) or words(text))  # type: ignore[func-returns-value]
    assert (window.messages, window.left_out, len(window.too_large), len(counted)) == ((), 70, 20, 20)


def test_system_messages_come_first_if_they_fit(chat: Sessions) -> None:
    talk(chat, "system: be kind", "a", "b", "system: " + "word " * 30, "c", "system: be brief", "d")
    window = chat.window("s", 22, tokens_of=words)  # 6 each for two system messages, 5 for each other
    assert said(window) == ["be kind", "be brief", "c", "d"]
    assert (window.tokens, window.left_out, window.too_large) == (22, 3, (TooLarge(4, 34),))


def test_the_memo_comes_before_all_and_stands_for_its_messages(chat: Sessions) -> None:
    talk(chat, "system: be kind", "a", "b", "c", "d")
    chat.set_memo("s", "so far", upto=3)
    window = chat.window("s", 1000, tokens_of=words)
    assert window.memo == chat.memo("s")
    assert said(window) == ["be kind", "c", "d"]
    assert (window.covered, window.left_out, window.tokens) == (2, 0, 22)
    small = chat.window("s", 17, tokens_of=words)
    assert (said(small), small.left_out, small.memo is not None) == (["be kind", "d"], 1, True)


def test_a_memo_that_does_not_fit_is_left_out_and_stands_for_nothing(chat: Sessions) -> None:
    talk(chat, "a", "b")
    chat.set_memo("s", "word " * 40, upto=2)
    window = chat.window("s", 12, tokens_of=words)
    assert (window.memo, window.memo_need, window.covered, window.left_out) == (None, 44, 0, 0)
    assert said(window) == ["a", "b"]


@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_a_window_may_be_empty_and_says_what_it_left_out(chat: Sessions, tokens: int) -> None:
    talk(chat, "system: x", "a", "b")
    window = chat.window("s", tokens)
    assert (window.messages, window.tokens, window.left_out) == ((), 0, 3)
    chat.open("empty")
    assert chat.window("empty", 10).messages == ()


@pytest.mark.parametrize("gives", [-1, 1.5, None, "3", True])
def test_a_count_of_tokens_that_is_none_is_refused(chat: Sessions, gives: Any) -> None:
    talk(chat, "a")
    with pytest.raises(TokenizerInvalid, match="tokens_of"):
        chat.window("s", 10, tokens_of=lambda text: gives)
    with pytest.raises(TokenizerInvalid, match="tokens_of"):
        chat.window("s", 10, tokens_of=5)  # type: ignore[arg-type]


def test_counting_tokens_may_use_the_same_home(chat: Sessions) -> None:
    talk(chat, "a", "b")
    window = chat.window("s", 100, tokens_of=lambda text: chat.get("s").messages)
    assert window.tokens == 10
