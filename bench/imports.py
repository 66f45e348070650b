"""Row 5: what an import costs a new process, until it is done, and what it then holds in memory."""

import sys
from functools import partial
from statistics import median

from measure import Ask, Rounds, Sample, until_output
from plan import Plan
from report import Goal, Row, megabytes, milliseconds, times

RESIDENT = "print(next(line for line in open('/proc/self/status') if line.startswith('VmRSS')).split()[1])"
LIMIT, OURS = "limit: `import apsw, msgspec`", "`import outlast`"
STATEMENTS = {
    "bare Python": "",
    LIMIT: "import apsw, msgspec",
    OURS: "from outlast import Outlast, flow, step",
}
PEERS = {
    "LangGraph": "import langgraph.graph, langgraph.checkpoint.sqlite",
    "Burr": "from burr.core import ApplicationBuilder; from burr.core.persistence import SQLitePersister",
    "DBOS": "from dbos import DBOS",
}


def imports(plan: Plan) -> Row:
    memory: dict[str, list[float]] = {}
    taken = _taken(plan, memory)
    row = Row(5, "Import", ["new process", "ms", "× the limit", "MB"], failed=taken.failed)
    for name in taken.samples:
        spent = milliseconds(taken.median(name, _wall))
        row.lines.append([name, spent, times(taken.ratio(name, LIMIT)), megabytes(median(memory[name]))])
    measured = OURS in taken.samples
    row.goals = [
        Goal(OURS, 105, True, taken.median(OURS, _wall) if measured else None, milliseconds),
        Goal(f"{OURS}, memory", 30, True, median(memory[OURS]) if measured else None, megabytes),
    ]
    return row


def _taken(plan: Plan, memory: dict[str, list[float]]) -> Rounds:
    def ask(name: str, python: str, statement: str) -> Sample:
        sample, line = until_output([python, "-P", "-c", f"{statement}\n{RESIDENT}"])
        memory.setdefault(name, []).append(int(line) * 1024 / 1e6)
        return sample

    asks: dict[str, Ask] = {name: partial(ask, name, sys.executable, text) for name, text in STATEMENTS.items()}
    if plan.peers:
        asks |= {name: partial(ask, name, plan.peers[0].python, text) for name, text in PEERS.items()}
    taken = Rounds()
    taken.take(asks, 1)  # compiles what was not compiled
    taken.forget()
    taken.take(asks, plan.import_rounds)
    return taken


def _wall(sample: Sample) -> float:
    return sample.wall * 1e3
