"""A daily report that is drafted, approved and published over four processes, one of which is killed.

Each process makes the same call, `outlast.run(daily_report, "tides")`. The first one finds sources, saves the draft as
an artifact, pins a checkpoint and ends at the approval. A person reads the draft and says yes. The next process is
killed right after it has published; the last one asks the probe, and does not publish twice. Run the example again and
it is a new report: the task has the name that is made from flow and topic, and such a one starts anew once it is done.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Outlast, Run, effect, flow, inject, step

SITE = Path("site")  # the outside world: each page is published under a key


@dataclass(frozen=True)
class Source:
    title: str
    url: str


class Search:
    """Stands for a live client: never saved, provided anew by every process."""

    def find(self, topic: str) -> list[Source]:
        return [Source(f"{topic}, part {number}", f"https://example.org/{topic}/{number}") for number in range(1, 13)]


@step(retries=2, timeout=60, agent="researcher")
def find_sources(topic: str, *, search: Search = inject("search")) -> list[Source]:
    with open("searches.txt", "a") as log:
        log.write(f"{topic}\n")
    return search.find(topic)


def find_published(key: str) -> object:
    """The probe: asked when nobody knows whether `publish` happened."""
    page = SITE / f"{key}.md"
    return Happened(str(page)) if page.exists() else NOT_DONE


@effect(confirm=find_published, not_done=(ConnectionError,))
def publish(report: str, *, key: str = KEY) -> str:
    SITE.mkdir(exist_ok=True)
    page = SITE / f"{key}.md"
    with page.open("x") as file:  # a second one would fail
        file.write(report)
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return str(page)


@flow
def daily_report(run: Run, topic: str) -> str:
    run.phase = "researching"
    sources = find_sources(topic)
    run.state["sources"] = len(sources)
    text = "\n".join([f"# {topic}, {run.now():%Y-%m-%d}", *(f"- [{one.title}]({one.url})" for one in sources)])
    draft = run.workspace.save("report-draft.md", text, media_type="text/markdown", summary="Draft")
    run.checkpoint("source_selection_done", summary=f"Selected {len(sources)} sources.", refs=[draft.ref])
    run.phase = "approval"
    answer = run.pause_for("approval", payload={"artifact": draft.ref}, deadline="48h", default={"approved": False})
    run.phase = "publishing"
    return publish(draft.text()) if answer["approved"] else "declined"


def work() -> None:
    """What a process does, whichever it is."""
    with Outlast() as outlast:
        outlast.resource("search", factory=Search)
        outcome = outlast.run(daily_report, "tides")
        print(f"{outcome.status}: {outcome.result or [wait.type for wait in outcome.interrupts]}")


def in_a_process(**environment: str) -> int:
    child = subprocess.run([sys.executable, __file__, "work"], env={**os.environ, **environment})
    return child.returncode


def approve() -> bytes:
    """A person, elsewhere: reads what is asked about, and answers. Gives what was approved."""
    with Outlast() as outlast:
        (wait,) = outlast.interrupts()
        draft = outlast.workspace.get(wait.payload["artifact"])
        print(f"to approve: {draft.ref} ({draft.summary}, {draft.size} bytes)\n{draft.text()[:60]}…")
        (checkpoint,) = outlast.workspace.checkpoints(run=wait.run_id)
        print(f"checkpoint: {checkpoint.name}: {checkpoint.summary} state {checkpoint.state}")
        outlast.answer(wait.id, {"approved": True, "comment": "good"})
        return draft.read()


def pages() -> int:
    return len(list(SITE.iterdir())) if SITE.exists() else 0


def searches() -> int:
    log = Path("searches.txt")
    return len(log.read_text().splitlines()) if log.exists() else 0


def main() -> None:
    published, searched = pages(), searches()  # by an earlier run of this example
    assert in_a_process() == 0
    assert in_a_process() == 0  # nobody has answered: it still waits, and nothing is done again
    approved = approve()
    assert in_a_process(DIE="1") == -signal.SIGKILL
    assert in_a_process() == 0
    assert (pages(), searches()) == (published + 1, searched + 1)
    with Outlast() as outlast:
        run = outlast.runs()[0]  # the newest
        assert run.status == "succeeded"
        assert Path(str(run.result)).read_bytes() == approved
        assert outlast.verify().ok


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        work()
    else:
        main()
