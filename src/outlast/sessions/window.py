"""What of a session fits in a number of tokens: the rule, and what a message costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from outlast.errors import ValueRefused
from outlast.sessions.session import SYSTEM, Memo, Message, TooLarge, Window

FRAME_TOKENS = 3  # what a model's format puts around a message
SKIPPED = 20  # messages too large to fit that are stepped over; what lies beyond is left out without a look

TokensOf = Callable[[str], int]


def window_of(
    session_id: str,
    limit: int,
    head: int,
    memo: Memo | None,
    system: Iterable[Message],
    newest: Iterable[Message],
    tokens_of: TokensOf,
) -> Window:
    """The memo, the system messages, then the newest others, each whole, as far as the tokens go.

    `system` comes oldest first, `newest` newest first; both are read only as far as needed. The newest messages are
    taken without a gap, but for those that are too large on their own. When the memo is there, the messages that it
    stands for are not.
    """
    filling = _Filling(limit, tokens_of)
    need = filling.need(SYSTEM, memo.text) if memo and memo.text else 0
    kept = memo if need and filling.take(need) else None
    first = filling.each(system)
    floor = kept.upto if kept else 0
    rest = filling.unbroken(message for message in _above(floor, newest) if message.role != SYSTEM)
    covered = floor - sum(message.seq <= floor for message in first)
    return Window(
        session_id=session_id,
        limit=limit,
        tokens=limit - filling.room,
        memo=kept,
        messages=(*first, *reversed(rest)),
        covered=covered,
        left_out=head - covered - len(first) - len(rest),
        too_large=tuple(sorted(filling.skipped)),
        memo_need=0 if kept else need,
    )


def _above(floor: int, newest: Iterable[Message]) -> Iterable[Message]:
    for message in newest:
        if message.seq <= floor:
            return
        yield message


class _Filling:
    """The room that is left, and what was stepped over."""

    def __init__(self, limit: int, tokens_of: TokensOf) -> None:
        self.room, self._tokens_of = limit, tokens_of
        self.skipped: list[TooLarge] = []

    def need(self, role: str, text: str) -> int:
        found = self._tokens_of(f"{role}\n{text}")
        if type(found) is not int or found < 0:
            raise ValueRefused("tokens_of", f"it gave {found!r:.100}", "let it give the number of tokens of a text")
        return found + FRAME_TOKENS

    def take(self, need: int) -> bool:
        if need > self.room:
            return False
        self.room -= need
        return True

    def each(self, messages: Iterable[Message]) -> list[Message]:
        """Each of them that fits."""
        taken: list[Message] = []
        for message in messages:
            need = self.need(message.role, message.text)
            if self.take(need):
                taken.append(message)
            elif not self._skip(message, need, SKIPPED):
                break
        return taken

    def unbroken(self, messages: Iterable[Message]) -> list[Message]:
        """As many as fit one after the other, over those that would not fit even alone."""
        taken: list[Message] = []
        alone, limit = self.room, len(self.skipped) + SKIPPED
        for message in messages:
            need = self.need(message.role, message.text)
            if self.take(need):
                taken.append(message)
            elif need <= alone or not self._skip(message, need, limit):
                break
        return taken

    def _skip(self, message: Message, need: int, limit: int) -> bool:
        self.skipped.append(TooLarge(message.seq, need))
        return len(self.skipped) < limit
