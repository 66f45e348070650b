"""A home with something in every table, made by the real commands; and what is done to copies of it.

The damage is done by another process with the standard library's SQLite: two libraries in one process break each
other's locks.
"""

import json
import os
from pathlib import Path
from typing import Any

from outlast import Outlast

from ..ready import completed

FLOWS = """
import os
from outlast import KEY, Run, current, effect, flow, step


@step
def much() -> str:
    run = current()
    run.workspace.save("table", b"a,b", "text/csv", tags=["t"])
    run.workspace.record("observation", "it works", tags=["t"])
    return "x" * 50_000


@step
def drops() -> None:
    run = current()
    run.workspace.save("never", b"1")
    raise ValueError("no luck")


@effect
def send(text: str, *, key: str = KEY) -> str:
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    return text


@flow
def child(run: Run) -> str:
    return send("child")


@flow
def done(run: Run) -> str:
    found = much()
    run.checkpoint("half", "half way")
    run.spawn(child).result()
    run.phase = "late"
    return found


@flow
def small(run: Run) -> int:
    return 3


@flow
def failing(run: Run) -> None:
    drops()


@flow
def doubtful(run: Run) -> str:
    return send("doubtful")


@flow
def asks(run: Run) -> str:
    run.pause_for("approval", {"question": "go on?"}, deadline="48h")
    run.wait_for("news")
    return "told"
"""

LOOP = """flow: loop
steps:
- {id: first, effect: true, run: echo first >> diary}
- id: fix
  repeat:
    max: 9
    until: test $OUTLAST_ITERATION = 4
    steps:
    - {id: a, effect: true, run: echo $OUTLAST_ITERATION >> diary}
- {id: ok, pause_for: approval}
- {id: last, run: echo last >> diary}
"""

MARKS = (
    "from outlast.commands import loops; loops.EVERY = 4\n"
    "import sys; from outlast.doors.cli import main; main(sys.argv[1:])"
)


def outlast(folder: Path, *words: str, program: str = "", ends: tuple[int, ...] = (0,), **env: str) -> Any:
    """Run a command in a process of its own; gives what it printed as JSON."""
    start = ("-c", program) if program else ("-m", "outlast")
    settings = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")} | env
    done = completed((*start, *words, "--json"), cwd=folder, env=settings, capture_output=True, timeout=120)
    assert done.returncode in ends, (words, done.returncode, done.stdout, done.stderr)
    lines = done.stdout.decode().strip().splitlines()
    return json.loads(lines[-1]) if lines else None


def build(folder: Path) -> None:
    """Runs of every ending, waits of every kind, and something of every noun."""
    (folder / "flows.py").write_text(FLOWS)
    (folder / "loop.yaml").write_text(LOOP)
    outlast(folder, "run", "flows.py:done", "--task", "done")
    outlast(folder, "run", "flows.py:small", "--task", "small")
    outlast(folder, "run", "flows.py:small", "--task", "removed")
    outlast(folder, "run", "flows.py:failing", "--task", "failing", ends=(1,))
    outlast(folder, "run", "flows.py:doubtful", "--task", "doubtful", ends=(-9,), DIE="1")
    outlast(folder, "run", "flows.py:doubtful", "--task", "retried", ends=(-9,), DIE="1")
    for task in ("asked", "answered", "used", "cancelled"):
        outlast(folder, "run", "flows.py:asks", "--task", task, ends=(3,))
    outlast(folder, "run", "loop.yaml", "--task", "loop", ends=(3,), program=MARKS)
    with Outlast(folder / ".outlast") as opened:
        _decide(opened)
    outlast(folder, "resume", _of_task(folder, "used"), ends=(3,))
    with Outlast(folder / ".outlast") as opened:
        opened.signal("news", {"n": 1}, run_id=_run(opened, "used"), operation_id="op-2")
    outlast(folder, "resume", _of_task(folder, "used"))
    with Outlast(folder / ".outlast") as opened:
        _fill(opened)
        runs = {run.task: run.id for run in opened.runs()}
    (folder / "ids.json").write_text(json.dumps({"runs": runs}))


def _run(opened: Outlast, task: str) -> str:
    return next(run.id for run in opened.runs() if run.task == task)


def _of_task(folder: Path, task: str) -> str:
    with Outlast(folder / ".outlast") as opened:
        return _run(opened, task)


def _decide(opened: Outlast) -> None:
    for task, operation in (("answered", "op-1"), ("used", None)):
        wait = opened.interrupts(_run(opened, task))[0]
        opened.answer(wait.id, {"approved": True, "comment": task}, operation_id=operation)
    opened.abort(_run(opened, "cancelled"), why="not needed")
    opened.retry(_run(opened, "retried"), "send", why="it did not happen")
    opened.signal("later", {"n": 2}, task="to come")


def _fill(opened: Outlast) -> None:
    space = opened.workspace
    first = space.save("notes", b"first", summary="one", tags=["t"])
    space.save("notes", b"second")
    third = space.save("notes", b"third")
    record = space.record("decision", "we use it", [first.ref], tags=["t", "u"], task="asked", pinned=True)
    space.record("note", "never mind")
    space.link(record.ref, "supports", third.ref, "why not")
    space.checkpoint("begin", "at first", [third.ref], task="asked")
    opened.sessions.open("talk", meta={"m": 1})
    for role in ("system", "user", "assistant"):
        opened.sessions.append("talk", role, f"said by {role}")
    opened.sessions.set_memo("talk", "in short", upto=2)
    opened.handoff.store("task:one", "half done", "go on with it", target_files=["flows.py"])
    opened.handoff.store("task:one", "more done", "go on with the rest", target_files=["flows.py"])
    opened.handoff.store("task:two", "other", "do it", target_files=["loop.yaml"])
    opened.handoff.claim("task:two")
    task = opened.tasks.open("chore", session="talk")
    task.record_event("looked", {"n": 1})
    task.pause_task("stopped", "go on", target_files=["flows.py"])
    _forget(opened)


def _forget(opened: Outlast) -> None:
    """A run and a version that were removed."""
    removed = _run(opened, "removed")
    from outlast.store.contract import KeptOutcome

    opened._executor.home.store.write(
        lambda tx: tx.bury(tx.run_by_id(removed).key, removed, 5, "gc", KeptOutcome(0, "", None))
    )
    key = opened._executor.home.store.read(lambda look: look.artifact_at("default", "notes", 1)).key
    opened._executor.home.store.write(lambda tx: tx.remove_artifact(key, 5, "gc"))
    opened._executor.home.store.write(lambda tx: [tx.remove_slice(piece) for piece in _pieces(tx)])


def _pieces(tx: Any) -> list[Any]:
    from outlast.store.contract import Slice

    return [Slice(key, 0, 0, True) for key, _ in tx.unswept()]
