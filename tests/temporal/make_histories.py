"""Makes the histories that are kept of a version of the workflow: `python -m tests.temporal.make_histories 1`.

They are made by a real server, once. What is kept is never made again: later programs have to go on with what
this one began.
"""

import asyncio
import os
import re
import socket
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client, WorkflowExecution

from outlast.adapters.temporal.settings import workflow_id
from outlast.runs.queues import engine

from ..kit import temporal
from . import flows
from .support import Home
from .test_rounds import begun, counted_looks, nudged

OWN = re.compile(rf"\d+@{re.escape(socket.gethostname())}")  # the machine that made them
TRACE = re.compile(r'("stackTrace": )"(?:[^"\\]|\\.)*"')  # has its folders
KEPT = Path(__file__).with_name("histories")


def main(version: str) -> None:
    folder = Path(tempfile.mkdtemp())
    os.environ["TEMPORAL_FOLDER"] = str(folder)
    (folder / "fails").touch()
    home = Home(folder, temporal.server().address)
    long = home.start(flows.hears)
    (run,) = engine.runs_in(home.outlast._executor.home, home.queue)
    asyncio.run(begun(home, workflow_id("default", run), long, 2))
    with counted_looks() as looks, home.worker():
        made = {"plain": home.start(flows.plain), "answered": home.start(flows.asks), "failed": home.start(flows.fails)}
        made |= {"delayed": home.start(flows.plain, "later", delay=8.0), "aborted": home.start(flows.asks, "b")}
        for each in ("answered", "aborted"):
            home.stands(made[each], "waiting")
        home.answer(made["answered"])
        home.outlast.abort(made["aborted"], why="made so")
        asyncio.run(nudged(home, workflow_id("default", run), 1, looks))
        home.outlast.signal("news", {"n": 1}, run_id=long)
        found = {name: home.closed(run_id)[0] for name, run_id in (made | {"continued": long}).items()}
    asyncio.run(keep(home, found, version))
    home.close()


async def keep(home: Home, found: dict[str, WorkflowExecution], version: str) -> None:
    client = await Client.connect(home.address)
    KEPT.mkdir(exist_ok=True)
    for name, each in found.items():
        history = await client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()
        (KEPT / f"v{version}-{name}.json").write_text(TRACE.sub(r'\1""', OWN.sub("kept", history.to_json())))


if __name__ == "__main__":
    main(sys.argv[1])
