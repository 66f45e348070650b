"""One flow, three engines, changed by options only.

    python report.py here                       in this process
    python report.py workers                    by Outlast's own worker, through a queue
    python report.py temporal 127.0.0.1:7233    by Temporal (`temporal server start-dev` is one)

Each says what it published; the second and third may as well have their workers elsewhere: `outlast work report.py`,
`outlast work --engine temporal report.py`. With OUTLAST_HOME=postgresql://… that is on as many machines as you like.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from outlast import Outlast, Run, effect, flow, step


@step(retries=2)
def draft(topic: str) -> str:
    return f"All about {topic}."


@effect
def publish(text: str) -> str:
    return f"published: {text}"


@flow(name="engines_report")
def report(run: Run, topic: str) -> str:
    text = draft(topic)
    answer = run.pause_for("approval", payload={"text": text})
    return publish(text) if answer["approved"] else "declined"


def options(engine: str) -> dict[str, Any]:
    """All that differs."""
    return {"here": {}, "workers": {"queue": "reports"}, "temporal": {"engine": "temporal"}}[engine]


def worker(outlast: Outlast, engine: str, address: str) -> AbstractContextManager[Any]:
    if engine == "temporal":
        from outlast.adapters.temporal import TemporalSettings, TemporalWorker

        return TemporalWorker(outlast, [report], TemporalSettings(address=address))
    return outlast.worker(report) if engine == "workers" else nullcontext()


def main(engine: str = "here", address: str = "127.0.0.1:7233") -> None:
    with Outlast() as outlast, worker(outlast, engine, address):
        started = outlast.with_options(**options(engine)).start(report, f"kelp, {engine}", task=f"by {engine}")
        waits = started.outcome().interrupts
        for wait in waits:  # none when this was run before: the task has happened
            outlast.answer(wait.id, {"approved": True}, resume=engine == "here")
        print(outlast.wait(started.run_id).unwrap() if engine == "here" else _awaited(outlast, started.run_id))


def _awaited(outlast: Outlast, run_id: str) -> Any:
    """Its result, once a worker has gone on with it."""
    import time

    while not outlast.get(run_id).finished:
        time.sleep(0.05)
    return outlast.get(run_id).result


if __name__ == "__main__":
    main(*sys.argv[1:])
