"""Prove your own flow: it is killed at every write point it reaches, in real processes, and resumed.

After each kill: the same result, every delivered outcome kept and not computed again, each effect once, a clean
`verify`. The world outside is a file, so that it outlives the processes.
"""

from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Run, effect, flow, step
from outlast.testing import crash_everywhere

OUTBOX = Path("outbox.txt")


def sent() -> list[str]:
    return OUTBOX.read_text().split() if OUTBOX.exists() else []


def was_sent(key: str) -> object:
    return Happened(key) if key in sent() else NOT_DONE


@step
def price(item: str) -> int:
    return len(item) * 10


@effect(confirm=was_sent)
def send(total: int, *, key: str = KEY) -> str:
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{key}\n")
    return key


@flow
def order(run: Run, items: list[str]) -> int:
    total = sum(price(item) for item in items)
    run.state["total"] = total
    send(total)
    return total


def each_sent_once(result: int) -> None:
    assert len(sent()) == 1, sent()


def main() -> None:
    tried = crash_everywhere(
        order,
        ["kelp", "salt"],
        reset=lambda: OUTBOX.unlink(missing_ok=True),  # the world before each trial
        check=each_sent_once,  # and after it
        twice=True,  # kill the first resume as well
    )
    print(f"{tried.kills} kills at {len(tried.points)} points, {tried.resumes} resumes, always {tried.result}")


if __name__ == "__main__":
    main()
