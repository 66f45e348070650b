"""How much is measured, and of whom; the subjects that every row knows."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from measure import Target

LIMIT = Target("limit: one commit per step", "limits", "commit")
ROWS = Target("our rows, nothing around them", "limits", "rows")
LEAST = Target("our rows, made with the least code", "limits", "least")
GROUP = Target("limit: group commit", "limits", "group")
DEF = Target("outlast `def`", "ours", "def")
PASSING = Target("outlast `def`, each result given to the next step", "ours", "passing")
ASYNC = Target("outlast `async def`", "ours", "async")
COMMANDS = Target("outlast, flow of commands", "commands", "commands")
THREADS = Target("outlast `def` on threads", "ours", "def")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure, of whom, and where the stores may lie."""

    scratch: Path
    peers: list[Target]
    before: list[Target]
    rounds: int = 31
    steps: int = 100
    runs: int = 64
    run_steps: int = 50
    together_rounds: int = 7
    done: int = 10_000
    cold_rounds: int = 7
    import_rounds: int = 11
    handoffs: tuple[int, ...] = (10, 10_000, 100_000)
    recalls: tuple[int, ...] = (1_000, 20_000, 200_000)
    http_rounds: int = 21
    console_runs: int = 100_000

    def quick(self) -> Self:
        return replace(
            self,
            rounds=9,
            together_rounds=3,
            done=2_000,
            cold_rounds=3,
            import_rounds=5,
            handoffs=(10, 1_000),
            recalls=(1_000, 20_000),
            http_rounds=7,
            console_runs=2_000,
        )


def as_it_was(checkout: Path, named: str) -> list[Target]:
    """Our own code of another commit, measured beside that of now.

    Raises FileNotFoundError where there is none: that of now would be measured in its name.
    """
    source = (checkout / "src").resolve()
    if not (source / "outlast" / "__init__.py").is_file():
        raise FileNotFoundError(f"there is no src/outlast in {checkout}")
    return [replace(target, name=f"{target.name}, {named}", source=str(source)) for target in (DEF, ASYNC)]


def peers(python: Path) -> list[Target]:
    """The peers in their own environment, the slow ones in every third round."""
    return [
        Target("LangGraph, durability sync", "peers.langgraph", "sync", str(python), slow=True),
        Target("Burr", "peers.burr", "default", str(python)),
        Target("Burr, given a WAL", "peers.burr", "wal", str(python)),
        Target("DBOS on SQLite", "peers.dbos", "default", str(python), slow=True),
        Target("DBOS on SQLite, given a WAL", "peers.dbos", "wal", str(python), slow=True),
    ]
