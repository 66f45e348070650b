"""What work costs in CPU, and how that grows: asked in one way by all tests, so that a busy machine counts little."""

import gc
import time
from collections.abc import Callable
from typing import Any

MOST = 8  # times the CPU for four times the size; what grows with the square has 16
ROUNDS, TRIES = 4, 5
BRIEF = 0.000_5  # seconds: below that a clock tells nothing
ENOUGH = 0.5  # seconds of CPU in a round: what costs so much is measured well by fewer tries


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of this thread's own time, without collections of what other tests left."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        if was_on:
            gc.enable()


def growth(small: Callable[[], Any], large: Callable[[], Any], *, brief: float = BRIEF) -> float:
    """How many times as much `large` costs: the best of each in turns, and again where that seems too much.

    What really grows too fast does so in every round, and what a neighbour slowed down does not.
    """
    found = float("inf")
    for number in range(ROUNDS):
        pairs = _round(small, large)
        ratio = min(pair[1] for pair in pairs) / max(min(pair[0] for pair in pairs), brief)
        found = min(found, ratio)
        if found <= MOST * 0.75 or (number and found > MOST * 1.5):
            break
    return found


def _round(small: Callable[[], Any], large: Callable[[], Any]) -> list[tuple[float, float]]:
    """What both cost, in turns: at least twice."""
    pairs: list[tuple[float, float]] = []
    while len(pairs) < TRIES and (len(pairs) < 2 or sum(map(sum, pairs)) < ENOUGH):
        pairs.append((cpu(small), cpu(large)))
    return pairs
