"""LangGraph: a graph whose one node loops, checkpointed to SQLite with `durability="sync"`.

The state holds the last result only. A state that gathers results grows by all of it at every step.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from work import result_of


class State(TypedDict):
    i: int
    steps: int
    result: str


def work(state: State) -> dict[str, Any]:
    return {"i": state["i"] + 1, "result": result_of(state["i"])}


def onward(state: State) -> str:
    return "work" if state["i"] < state["steps"] else END


def graph_of(saver: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", onward, ["work", END])
    return graph.compile(checkpointer=saver)


def start(steps: int) -> State:
    return {"i": 0, "steps": steps, "result": ""}


def settings(thread: str, steps: int) -> dict[str, Any]:
    return {
        "config": {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10},
        "durability": "sync",
    }


class Sync:
    def open(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.threads = itertools.count()
        self.saver = SqliteSaver.from_conn_string(str(home / "langgraph.db"))
        self.graph = graph_of(self.saver.__enter__())

    def sequential(self, steps: int) -> None:
        self.graph.invoke(start(steps), **settings(f"t{next(self.threads)}", steps))

    def together(self, runs: int, steps: int) -> None:
        with ThreadPoolExecutor(runs) as pool:  # faster than its async saver
            list(pool.map(self.sequential, [steps] * runs))

    def begin(self, steps: int) -> None:
        self.graph.invoke(start(steps + 1), **settings("long", steps))

    def go_on(self, steps: int) -> None:
        self.graph.invoke(None, **settings("long", steps))

    def close(self) -> None:
        self.saver.__exit__(None, None, None)


SUBJECTS = {"sync": Sync}
