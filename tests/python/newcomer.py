"""Mistakes of a first day, each as it is written; `test_newcomer.py` makes them."""

from outlast import Run, flow, step


@step
async def find_soon(words: str) -> str:
    return words


@step
def find(words: str) -> str:
    return words


def forgot(run: Run, topic: str) -> str:
    return topic


@flow
def no_run(topic: str) -> str:
    return topic


@flow
def nothing() -> str:
    return ""


@flow
def counted(run: Run, pages: int) -> int:
    return pages


@flow
def spawns(run: Run) -> str:
    return str(run.spawn(forgot, "kelp").result())  # type: ignore[arg-type]


@flow
def unawaited(run: Run) -> str:
    find_soon("kelp")
    return "done"
