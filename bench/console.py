"""Row 10: the console. How long the server takes for every page, beside one indexed read of the rows that it shows.

`python bench/console.py HOME [ROUNDS]`: of a home with many runs, many waits and a long run, which is made with 100,000
runs, 1,000 waits, a run of 10,000 steps and some hundreds of everything else where there is none. CPU time, the median.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from plan import Plan
from report import Goal, Row, goals, milliseconds

from outlast import Outlast, Run, flow, step
from outlast.doors.console import screens
from outlast.doors.console.asked import Visit
from outlast.doors.http.exchange import Exchange
from outlast.doors.http.state import ServerSettings, ServerState
from outlast.home.keys import Keys

RUNS, WAITS, STEPS, OTHERS, EVIDENCE = 100_000, 1000, 10_000, 500, 50
GOAL_MS = 50
Work = Callable[[], object]
UNMEASURED = {"help.html"}  # it shows nothing of a home


@flow(name="small")
def small(run: Run, number: int) -> int:
    return number


@flow(name="asks")
def asks(run: Run, number: int) -> bool:
    return bool(run.pause_for("approval", payload={"question": f"Publish {number}?"})["approved"])


@step
def tick(number: int) -> int:
    return number


@flow(name="long")
def long_one(run: Run, upto: int) -> int:
    return sum(tick(number) for number in range(upto))


# -- a home with many of everything ----------------------------------------------------------------------


def make(home: Path, runs: int) -> None:
    """It takes some minutes."""
    with Outlast(home, store_options={"synchronous": "OFF"}) as outlast:
        outlast.run(long_one, STEPS, task="long").unwrap()
        for number in range(WAITS):
            outlast.run(asks, number, task=f"ask-{number}")
        for number in range(runs):
            outlast.run(small, number, task=f"small-{number}").unwrap()
        make_others(outlast)
    keys = Keys(home)
    for number in range(OTHERS // 10):
        keys.create(f"person-{number}", roles=["read"])
    keys.close()


def make_others(outlast: Outlast) -> None:
    """What pages show besides runs; one decision rests on fifty pieces of evidence."""
    decision = outlast.workspace.record("decision", "publish")
    outlast.sessions.append("chat", "user", "hello")
    for number in range(OTHERS):
        saved = outlast.workspace.save(f"report-{number}.md", f"# Report {number}", summary="a report")
        record = outlast.workspace.record("evidence", f"kelp grew by {number}", refs=[saved.ref])
        if number < EVIDENCE:
            outlast.workspace.link(record.ref, "supports", decision.ref)
        outlast.handoff.store(
            f"task:h{number}", f"Stopped at {number}", "Open a.py.", next_action="Mend it", bind=False
        )
        outlast.tasks.open(f"task-{number}")
        outlast.sessions.append(f"chat-{number}", "user", f"hello {number}")
        outlast.sessions.append("chat", "user", f"and {number}")
        outlast.schedules.add(f"every-{number}", small, "0 7 * * *", inputs={"number": number})


# -- the pages -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A page that is measured: where it is, and one read of the rows that are on it."""

    path: str
    template: str
    read: Work
    params: dict[str, str] = field(default_factory=dict)

    def made(self, state: ServerState, key: str) -> bytes:
        """Its HTML: what a worker thread does for one request of it."""
        place, _, query = self.path.partition("?")
        scope = {"method": "GET", "path": place, "query_string": query.encode(), "raw_path": b"/"}
        scope["headers"] = [(b"authorization", f"Bearer {key}".encode())]
        exchange = Exchange(state, scope, None, None)  # type: ignore[arg-type]
        exchange.path = self.params
        visit = Visit(exchange)
        visit.enter()
        return screens._made(next(each for each in screens.SCREENS if each.template == self.template), visit)


def pages(outlast: Outlast) -> dict[str, Shown]:
    """Every screen, of something that is in the home."""
    found = _of_runs(outlast) | _of_handoffs(outlast) | _of_workspace(outlast) | _rest(outlast)
    missing = {each.template for each in screens.SCREENS} - {each.template for each in found.values()} - UNMEASURED
    if missing:
        raise RuntimeError(f"not measured: {', '.join(sorted(missing))}")
    return found


def _of_runs(outlast: Outlast) -> dict[str, Shown]:
    long = max(outlast.runs(task="long"), key=lambda run: run.head).id
    wait = outlast.interrupts()[0]
    at, ours, theirs = f"/runs/{wait.run_id}", {"run_id": wait.run_id}, {"run_id": long}
    row, entries = partial(outlast.get, wait.run_id), partial(outlast.events, long, limit=100)
    asked = partial(outlast.interrupt, wait.id)
    return {
        "Needs you": Shown("/", "needs.html", outlast.interrupts),
        "Runs": Shown("/runs", "runs.html", partial(outlast.runs, limit=50)),
        "Runs, by a word": Shown("/runs?text=small-77", "runs.html", partial(outlast.runs, limit=50)),
        "Run of 10,000 steps": Shown(f"/runs/{long}", "run.html", entries, theirs),
        "A step of it": Shown(f"/runs/{long}?from=5000&step=5000", "run.html", entries, theirs),
        "Run that waits": Shown(at, "run.html", row, ours),
        "Plan": Shown(f"{at}/plan", "plan.html", row, ours),
        "What an action does": Shown(f"{at}/choose?do=resume", "choose.html", row, ours),
        "Question": Shown(f"/inbox/{wait.id}", "item.html", asked, {"interrupt_id": wait.id}),
    }


def _of_handoffs(outlast: Outlast) -> dict[str, Shown]:
    def fifty() -> list[Any]:
        return [outlast.handoff.get(anchor=f"task:h{number}") for number in range(50)]

    one, of_run = partial(outlast.handoff.get, anchor="task:h7"), partial(outlast.runs, task="ask-7")
    return {
        "Handoffs": Shown("/handoffs", "handoffs.html", fifty),
        "Handoffs, left by runs": Shown("/handoffs?of=runs", "handoffs.html", outlast.interrupts),
        "Handoff": Shown("/handoff?anchor=task%3Ah7", "handoff.html", one),
        "Handoff, left by a run": Shown("/handoff?anchor=task%3Aask-7", "handoff.html", of_run),
    }


def _of_workspace(outlast: Outlast) -> dict[str, Shown]:
    room = outlast.workspace
    decision = next(each.ref for each in room.records(kind="decision"))
    fifty, places = partial(room.records, limit=50), partial(room.checkpoints, limit=50)
    return {
        "Records": Shown("/workspace", "workspace.html", fifty),
        "Artifacts": Shown("/workspace?kind=artifacts", "workspace.html", partial(room.list, limit=50)),
        "Checkpoints": Shown("/workspace?kind=checkpoints", "workspace.html", places),
        "Evidence of a decision": Shown(f"/workspace/why?ref={decision}", "why.html", fifty),
        "Recall": Shown("/workspace/recall?goal=kelp", "recall.html", fifty),
        "Artifact": Shown("/workspace/artifact?ref=report-7.md", "artifact.html", partial(room.get, "report-7.md")),
    }


def _rest(outlast: Outlast) -> dict[str, Shown]:
    chat, messages = {"session_id": "chat"}, partial(outlast.sessions.messages, "chat", limit=50)
    return {
        "Tasks": Shown("/tasks", "tasks.html", partial(outlast.tasks.list, limit=50)),
        "Task": Shown("/tasks/task-7", "task.html", partial(outlast.tasks.get, "task-7"), {"task_id": "task-7"}),
        "Sessions": Shown("/sessions", "sessions.html", partial(outlast.sessions.list, limit=50)),
        "Session": Shown("/sessions/chat", "session.html", messages, chat),
        "Queues and workers": Shown("/queues", "queues.html", outlast.queues),
        "Schedules": Shown("/schedules", "schedules.html", outlast.schedules.list),
        "System": Shown("/system", "system.html", partial(outlast.runs, limit=50)),
        "Keys": Shown("/keys", "keys.html", partial(outlast.runs, limit=50)),
        "Who did what, of one": Shown("/acts?by=nobody", "acts.html", partial(outlast.acts, limit=100)),
        "Who did what": Shown("/acts", "acts.html", partial(outlast.acts, limit=100)),
    }


# -- measuring -------------------------------------------------------------------------------------------


def measure(home: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """By the name of a page: what it takes, and what one read of its rows does, in milliseconds."""

    async def main() -> dict[str, tuple[float, float]]:
        state = ServerState(ServerSettings(home=home, works=False))
        key = state.keys.create("bench", roles=["admin"]).text
        with Outlast(home) as outlast:
            found = {
                name: (median_ms(partial(page.made, state, key), rounds), median_ms(page.read, rounds))
                for name, page in pages(outlast).items()
            }
        state.close()
        return found

    return asyncio.run(main())


def median_ms(work: Work, rounds: int) -> float:
    """The median of the CPU time of one call, after a first one."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)


def console(plan: Plan) -> Row:
    """Every page, with its goal."""
    with tempfile.TemporaryDirectory(prefix="console-", dir=plan.scratch) as folder:
        home = Path(folder) / ".outlast"
        make(home, plan.console_runs)
        return row_of(measure(home, plan.rounds), plan.console_runs)


def row_of(found: dict[str, tuple[float, float]], runs: int) -> Row:
    row = Row(10, "The console", ["page", "CPU, median", "beside one read of its rows"])
    for name, (took, read) in found.items():
        row.lines.append([name, f"{took:.1f} ms", f"{took / max(read, 0.001):.1f}×"])
        row.goals.append(Goal(f"console: {name}", GOAL_MS, True, took, milliseconds))
    row.notes.append(
        f"What the server computes for a request of a page, in a home of {runs:,} runs, {WAITS:,} waits, a run of "
        f"{STEPS:,} steps and {OTHERS} of everything else."
    )
    return row


def main(home: Path, rounds: int) -> None:
    if not home.exists():
        make(home, RUNS)
    row = row_of(measure(home, rounds), RUNS)
    print(row.text() + "\n\n" + goals([row]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15)
