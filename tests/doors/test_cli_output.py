"""What commands print and what we say of it, in the order in which it happened, also when both go to one file."""

import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.doors.conftest import Cli


def redirected(cli: "Cli", flow: str, *words: str) -> list[str]:
    """The lines of a file that both stdout and stderr of a run were sent to."""
    (cli.folder / "flow.yaml").write_text(flow)
    with (cli.folder / "both.txt").open("wb") as both:
        subprocess.run(
            [sys.executable, "-m", "outlast", "run", "flow.yaml", *words],
            cwd=cli.folder,
            env=cli.environment(),
            stdin=subprocess.DEVNULL,
            stdout=both,
            stderr=both,
            timeout=60,
            check=False,
        )
    lines = (cli.folder / "both.txt").read_text().splitlines()
    return [re.sub(r" in [0-9.]+ (s|ms|min)\b", "", line) for line in lines]


def in_order(lines: list[str], *wanted: str) -> None:
    places = [lines.index(each) for each in wanted]
    assert places == sorted(places), lines


SLOW = "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.01; done"


def test_a_steps_start_its_output_and_its_end_stand_in_their_order_in_one_file(cli: "Cli") -> None:
    for _ in range(3):
        steps = f"- {{id: one, run: 'echo first; {SLOW}'}}\n  - {{id: two, run: 'echo second >&2; exit 3'}}"
        lines = redirected(cli, f"flow: ordered\nsteps:\n  {steps}\n", "--fresh")
        in_order(
            lines,
            "  one …",
            "one | first",
            "one | line 0",
            "one | line 29",
            "  one succeeded",
            "  two …",
            "two | second",
        )
        assert [line for line in lines if line.startswith("  two failed")]
        assert lines.index("two | second") < next(
            at for at, line in enumerate(lines) if line.startswith("  two failed")
        )


def test_a_line_without_a_newline_stands_in_its_place_and_alone(cli: "Cli") -> None:
    flow = "flow: short\nsteps:\n  - {id: one, run: printf 'no end'}\n  - {id: two, run: printf 'a\\nb'}\n"
    lines = redirected(cli, flow)
    in_order(lines, "  one …", "one | no end", "  one succeeded", "  two …", "two | a", "two | b", "  two succeeded")


def test_each_attempt_has_its_lines_between_its_start_and_its_end(cli: "Cli") -> None:
    flow = "flow: again\nsteps:\n  - {id: one, retries: 1, run: 'echo try; printf open; test $OUTLAST_ATTEMPT = 2'}\n"
    lines = redirected(cli, flow)
    tries = [at for at, line in enumerate(lines) if line == "one | try"]
    assert len(tries) == 2
    assert lines.count("one | open") == 2
    failed = next(at for at, line in enumerate(lines) if line.startswith("  one failed"))
    second = lines.index("  one … (attempt 2)")
    assert tries[0] < failed < second < tries[1] < lines.index("  one succeeded (attempt 2)")


def test_what_a_step_left_running_is_named_while_it_runs_in_show_and_on_its_receipt(cli: "Cli") -> None:
    flow = "flow: left\nsteps:\n  - {id: one, run: 'sleep 307 & echo $! > pid; echo on'}\n"
    lines = redirected(cli, flow)
    pid = (cli.folder / "pid").read_text().strip()
    named = f"one: ended what it left in the background: {pid} (sleep 307)"
    in_order(lines, "one | on", named, "  one succeeded")
    run = cli.run_id
    assert named in cli("show", run).out.replace("\n", " ")
    assert cli("show", run, "--json").json["steps"][0]["stragglers"] == [{"pid": int(pid), "command": "sleep 307"}]
    assert f"{pid} (sleep 307)" in cli("receipts", run, "one").out
