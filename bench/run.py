"""Measure Outlast against the limits of the machine and against its peers, in one run.

python bench/run.py --quick              a look, without peers
python bench/run.py --peers --write      everything, into bench/RESULTS.md
python bench/run.py --rows 11 --peers --write --keep    one row, in the place of what stood there

What was measured is written after each row: a run that is cut short leaves the rest as not measured.
"""

import argparse
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import apsw
import console
import handoffs
import hooks
import imports
import over_http
import postgres
import recall
import resume
import steps
from homes import Homes
from measure import Target, compile_all
from peers import environment
from plan import Plan, as_it_was, peers
from plot import chart
from report import Row, goals
from results import whole, with_rows
from scheduling import ask_for_short_slice

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
INTRODUCTION = """\
Written by `python bench/run.py --peers --write`. Figures are medians over interleaved rounds; a ratio is
the median of the ratios within each round, and the middle half of the rounds lies between the two figures in brackets.
The machine is shared: compare ratios, not times; what else it did is said below. Compiled code is there before
anything is measured.
Acknowledged steps lost by `kill -9` are counted by the crash suite: see `docs/guarantees.md`."""


def main() -> None:
    options = _options()
    compile_all()
    facts = [*_machine(), _load(), _slice(ask_for_short_slice())]
    print("\n".join(facts), flush=True)
    scratch = Path(tempfile.mkdtemp(prefix=".scratch-", dir=options.scratch))
    try:
        rows = _measure(options, scratch, facts)
    finally:
        shutil.rmtree(scratch)
    print("\n" + goals(rows))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and steps")
    parser.add_argument("--rows", default="1,2,3,4,5,6,7,8,9,10,11", help="which rows, such as 1,2")
    parser.add_argument(
        "--peers", action=argparse.BooleanOptionalAction, default=False, help="install and measure them"
    )
    parser.add_argument(
        "--against", default="", help="FOLDER=COMMIT: a checkout of another commit, measured beside this one"
    )
    parser.add_argument("--write", action="store_true", help="write bench/RESULTS.md")
    parser.add_argument("--keep", action="store_true", help="with --write: the other rows stay as they stand there")
    parser.add_argument("--scratch", type=Path, default=HERE, help="a folder on a real disk (not tmpfs)")
    return parser.parse_args()


def _measure(options: argparse.Namespace, scratch: Path, facts: list[str]) -> list[Row]:
    folder, _, commit = options.against.partition("=")
    before = as_it_was(Path(folder), f"at {commit}") if folder else []
    plan = Plan(scratch, _peers(facts) if options.peers else [], before)
    plan = plan.quick() if options.quick else plan
    homes = Homes(scratch)
    work: dict[str, Callable[[], Row]] = {
        "1": lambda: steps.one_step(plan),
        "2": lambda: steps.many_runs(plan),
        "3": lambda: resume.cold_process(plan, homes),
        "4": lambda: resume.storage(plan, homes),
        "5": lambda: imports.imports(plan),
        "6": lambda: handoffs.handoffs(plan),
        "7": lambda: hooks.hooks(plan),
        "8": lambda: recall.recall(plan),
        "9": lambda: over_http.over_http(plan),
        "10": lambda: console.console(plan),
        "11": lambda: postgres.on_postgres(plan),
    }
    rows: list[Row] = []
    for number in options.rows.split(","):
        rows.append(work[number]())
        print("\n" + rows[-1].text(), flush=True)
        if options.write and options.keep:
            text = (HERE / "RESULTS.md").read_text()
            (HERE / "RESULTS.md").write_text(with_rows(text, rows[-1:], [*facts, _load()]))
        elif options.write:
            write(rows, [*facts, _load()], [each for each in work if each not in {str(row.number) for row in rows}])
    return rows


def write(rows: list[Row], facts: list[str], missing: list[str]) -> None:
    """What is there so far."""
    told = [f"- not measured in this run: rows {', '.join(missing)}"] if missing else []
    (HERE / "RESULTS.md").write_text(whole(rows, INTRODUCTION, [*facts, *told]))
    draw(rows, "; ".join(fact.removeprefix("- ") for fact in (facts[0], facts[2])))


def _peers(facts: list[str]) -> list[Target]:
    failure = environment.install()
    facts.append(f"- peers: {failure or ', '.join(environment.versions())}")
    return [] if failure else peers(environment.PYTHON)


def _machine() -> list[str]:
    return [
        f"- {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {_kernel()}",
        f"- Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}",
    ]


def _load() -> str:
    """What else the machine did: much more than it has cores makes times of no worth, and ratios wide."""
    return f"- load of the machine at {datetime.now(UTC):%H:%M}: " + ", ".join(
        f"{each:.1f}" for each in os.getloadavg()
    )


def _kernel() -> str:
    return platform.release().split("-")[0]


def _slice(granted: bool) -> str:
    return "- time slice of 0.1 ms: " + ("granted" if granted else "refused, measured with the default")


def draw(rows: list[Row], caption: str) -> None:
    """The charts of the rows that have one, for the README and the docs."""
    IMAGES.mkdir(exist_ok=True)
    for row in rows:
        if row.bars:
            (IMAGES / f"bench-{row.number}.svg").write_text(chart(row.title, row.unit, row.bars, caption))


if __name__ == "__main__":
    main()
