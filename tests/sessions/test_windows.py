"""The rule of a window: never over, never cut, everything counted."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import moment
from outlast.sessions.session import FRAME_TOKENS, Memo, Message, window_of

ROLES = st.sampled_from(["user", "system", "assistant"])


def message(seq: int, role: str, size: int) -> Message:
    return Message("s", seq, role, "x" * size, {}, "", "local", moment(0), "")


def cost(found: Message | Memo) -> int:
    return len(found.text) + FRAME_TOKENS


@given(
    st.integers(0, 60),
    st.lists(st.tuples(ROLES, st.integers(0, 40)), max_size=30),
    st.none() | st.tuples(st.integers(1, 30), st.integers(0, 30)),
)
def test_a_window_is_never_over_and_counts_every_message(
    limit: int, sizes: list[tuple[str, int]], summed: tuple[int, int] | None
) -> None:
    messages = [message(seq, role, size) for seq, (role, size) in enumerate(sizes, 1)]
    memo = Memo("s", "m" * summed[0], min(summed[1], len(messages)), 1, "local", moment(0)) if summed else None
    system = (each for each in messages if each.role == "system")
    window = window_of(
        "s", limit, len(messages), memo, system, reversed(messages), lambda text: len(text.partition("\n")[2])
    )
    shown = window.messages
    kept = [*shown, window.memo] if window.memo else [*shown]
    assert window.tokens == sum(map(cost, kept)) <= limit
    assert len(shown) + window.covered + window.left_out == len(messages)
    floor = window.memo.upto if window.memo else 0
    assert window.left_out >= sum(each.seq > floor for each in window.too_large)
    assert [each.seq for each in shown] == sorted((each.seq for each in shown), key=lambda seq: order(messages, seq))
    assert all(each in messages for each in shown)
    assert all(cost(messages[each.seq - 1]) == each.need for each in window.too_large)
    assert all(each.seq > floor for each in shown if each.role != "system")
    assert without_gap(messages, floor, [each.seq for each in shown] + [each.seq for each in window.too_large])


def order(messages: list[Message], seq: int) -> tuple[bool, int]:
    """System messages first."""
    return messages[seq - 1].role != "system", seq


def without_gap(messages: list[Message], floor: int, seen: list[int]) -> bool:
    """Whether the others that were seen are the newest ones, one after the other."""
    others = [each.seq for each in messages if each.role != "system" and each.seq > floor]
    taken = [seq for seq in others if seq in seen]
    return others[len(others) - len(taken) :] == taken
