"""What a new process loads before it does the first thing: every module of it is waited for, each time.

A ceiling is what it takes today and a little room. Who goes over it with something that is needed raises it; mostly one
import of something that hardly anybody needs drags a whole room along, and belongs into `values.late`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FLOW = """\
import os, sys
from outlast import Outlast, Run, flow, step

@step
def dies(i: int) -> str:
    if os.environ.get("DIE"):
        os._exit(9)
    return "done"

@flow
def work(run: Run) -> str:
    return dies(1)

if __name__ == "__main__":
    with Outlast(sys.argv[1]) as outlast:
        assert outlast.run(work, task="t").unwrap() == "done"
        loaded = sorted(name for name in sys.modules if name.startswith("outlast."))
    print(*loaded)
"""
COMMANDS = """\
import os, sys
from outlast import Outlast, flow_file

with Outlast(sys.argv[1]) as outlast:
    assert outlast.run(flow_file(sys.argv[2])).status == "succeeded"
    print(*sorted(name for name in sys.modules if name.startswith(("outlast.", "yaml"))))
"""
HEAVY = ("outlast.workspace.", "outlast.handoffs.", "outlast.care.", "outlast.doors.", "outlast.secrets.rules")


def loads(*words: str, **env: str) -> list[str]:
    """The modules of ours that a process says it has loaded."""
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env={**os.environ, **env}, check=False
    )
    assert done.returncode in (0, 9, -9), done.stderr
    return [name for name in done.stdout.split() if not name.startswith("outlast.errors.")]  # read when one is raised


@pytest.mark.parametrize(
    "names", ["Outlast, flow, step", "Outlast, Run, flow, step", "AsyncOutlast, AsyncRun, flow, step"]
)
def test_an_import_loads_what_decorates_and_nothing_of_a_home(names: str) -> None:
    told = f"import sys; from outlast import {names}; print(*(name for name in sys.modules if name[:8] == 'outlast.'))"
    loaded = loads("-c", told)
    assert 25 < len(loaded) <= 46, loaded
    assert not [name for name in loaded if name.startswith((*HEAVY, "outlast.home.", "outlast.store."))]


def test_a_run_loads_what_executes_it_and_a_resume_what_judges_it(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    script, home = str(tmp_path / "flow.py"), str(tmp_path / "home")
    assert loads(script, home, DIE="1") == []
    resumed, new = loads(script, home), loads(script, str(tmp_path / "other"))
    assert 80 < len(new) <= 116, new
    assert 80 < len(resumed) <= 128, resumed
    for loaded in (new, resumed):
        assert not [name for name in loaded if name.startswith(HEAVY)]
        assert not {"outlast.commands.flow", "outlast.runs.map", "outlast.runs.child"} & {*loaded}


def test_a_flow_of_commands_that_was_read_before_goes_on_without_a_parser(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(COMMANDS)
    (tmp_path / "flow.yaml").write_text('flow: work\nsteps:\n  - id: dies\n    run: test -z "$DIE" || kill -9 $PPID\n')
    words = [str(tmp_path / "flow.py"), str(tmp_path / "home"), str(tmp_path / "flow.yaml")]
    assert loads(*words, DIE="1") == []
    resumed = loads(*words)
    assert 100 < len(resumed) <= 146, resumed
    parsers = ("yaml", "outlast.flows.yaml.read", "outlast.values.yaml_tree", "outlast.values.schema")
    needless = ("outlast.files.ask_git", "outlast.files.place", "outlast.runs.child")
    assert not [name for name in resumed if name.startswith((*parsers, *needless))]
