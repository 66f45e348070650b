"""The work of one step, the same for every subject: a result of 1,000 characters.

A process that is to stop in a step sets `STOP_AT` through the environment: with `BENCH_DIE` it is
killed there, without it it reports that it has arrived. Nothing here may be slow to import.
"""

import os

RESULT = "x" * 1000
STOP_AT = int(os.environ.get("BENCH_STOP_AT", "-1"))


def result_of(i: int) -> str:
    """The result of step `i`, unless this process stops at that step."""
    if i == STOP_AT:
        _stop()
    return RESULT


def _stop() -> None:
    if os.environ.get("BENCH_DIE"):
        os._exit(9)
    os.write(1, b"next\n")
    os._exit(0)
