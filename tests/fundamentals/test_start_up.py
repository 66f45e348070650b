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
from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow, step

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
        loaded = sorted(sys.modules)
    print(*loaded)
"""
AT_ITS_STEP = FLOW.replace('return "done"', "print(*sorted(sys.modules)); os._exit(0)")
COUNTED = """\
import builtins, re, re._compiler, sys
build, compile, counts = builtins.__build_class__, re._compiler.compile, dict(classes=0, patterns=0)

def built(body, name, *bases, **how):
    counts["classes"] += body.__globals__["__name__"].startswith("outlast.")
    return build(body, name, *bases, **how)

def compiled(pattern, *flags):
    asking = sys._getframe(1)
    while asking.f_globals["__name__"].startswith("re"):
        asking = asking.f_back
    counts["patterns"] += asking.f_globals["__name__"].startswith("outlast.")
    return compile(pattern, *flags)

builtins.__build_class__, re._compiler.compile = built, compiled
"""
COUNTING = COUNTED + AT_ITS_STEP.replace("print(*sorted(sys.modules))", "print(*counts.values(), flush=True)")
COMMANDS = """\
import os, sys
from outlast import Outlast, flow_file

def tell(event, _):
    if event == "subprocess.Popen" and not said:
        said.append(True)
        print(*sorted(sys.modules), flush=True)

with Outlast(sys.argv[1]) as outlast:
    if os.environ.get("DIE"):
        from outlast.commands import loops
        loops.EVERY = 1
        outlast.run(flow_file(sys.argv[2]))
    said = []
    sys.addaudithook(tell)
    assert outlast.resume(outlast.runs(limit=1)[0].id).status == "succeeded"
"""
LOOP = """\
flow: work
steps:
  - id: loop
    repeat:
      max: 9
      until: test "$OUTLAST_ITERATION" = 3
      steps:
        - id: dies
          run: test -z "$DIE" || test "$OUTLAST_ITERATION" = 1 || kill -9 $PPID
"""
HEAVY = ("outlast.workspace.", "outlast.handoffs.", "outlast.care.", "outlast.doors.", "outlast.secrets.rules")
OF_OTHERS = {"asyncio", "logging", "shlex", "socket", "ssl", "subprocess"}  # each loads others, or compiles patterns
UNASKED = (  # what no step left, waits in, is listed by or is refused with
    *("outlast.commands.flow", "outlast.flows.yaml", "outlast.runs.child", "outlast.runs.look", "outlast.runs.map"),
    *("outlast.runs.outputs", "outlast.runs.queues", "outlast.errors."),
    *("outlast.resources.provider", "outlast.store.contract.protocols"),
)


def said_by(*words: str, **env: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env={**os.environ, **env}, check=False
    )
    assert done.returncode in (0, 9, -9), done.stderr
    return done.stdout.split()


def ours(loaded: list[str]) -> list[str]:
    """The modules of ours, but for kinds of errors."""
    return [name for name in loaded if name.startswith("outlast.") and not name.startswith("outlast.errors.")]


def loads(*words: str, **env: str) -> list[str]:
    """The modules of ours that a process says it has loaded, and any parser."""
    loaded = said_by(*words, **env)
    return [*ours(loaded), *(name for name in loaded if name.startswith("yaml"))]


@pytest.mark.parametrize(
    "names", ["Outlast, flow, step", "Outlast, Run, flow, step", "AsyncOutlast, AsyncRun, flow, step"]
)
def test_an_import_loads_what_decorates_and_nothing_of_a_home(names: str) -> None:
    told = f"import sys; from outlast import {names}; print(*(name for name in sys.modules if name[:8] == 'outlast.'))"
    loaded = loads("-c", told)
    assert 25 < len(loaded) <= 33, loaded
    assert not [name for name in loaded if name.startswith((*HEAVY, "outlast.home.", "outlast.store."))]


def test_a_run_loads_what_executes_it_and_a_resume_what_judges_it(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    script, home = str(tmp_path / "flow.py"), str(tmp_path / "home")
    assert loads(script, home, DIE="1") == []
    resumed, new = loads(script, home), loads(script, str(tmp_path / "other"))
    assert 80 < len(new) <= 100, new
    assert 80 < len(resumed) <= 105, resumed
    for loaded in (new, resumed):
        assert not [name for name in loaded if name.startswith(HEAVY)]
        assert not {"outlast.commands.flow", "outlast.runs.map", "outlast.runs.child"} & {*loaded}


def left_to_resume(folder: Path) -> list[str]:
    """A script, and a home in which its run died."""
    (folder / "flow.py").write_text(FLOW)
    words = [str(folder / "flow.py"), str(folder / "home")]
    assert loads(*words, DIE="1") == []
    return words


def test_until_its_next_step_a_resume_loads_nothing_that_its_run_has_none_of(tmp_path: Path) -> None:
    words = left_to_resume(tmp_path)
    (tmp_path / "flow.py").write_text(AT_ITS_STEP)
    loaded = said_by(*words)
    assert 80 < len(ours(loaded)) <= 105, loaded
    assert not [name for name in loaded if name.startswith((*HEAVY, *UNASKED))]
    assert not OF_OTHERS & {*loaded}


def test_until_its_next_step_a_resume_makes_few_classes_and_compiles_no_pattern_of_ours(tmp_path: Path) -> None:
    words = left_to_resume(tmp_path)
    (tmp_path / "flow.py").write_text(COUNTING)
    classes, patterns = map(int, said_by(*words))
    assert 200 < classes <= 275
    assert patterns == 0


def test_until_its_next_command_a_resume_loads_no_parser_and_nothing_that_its_run_has_none_of(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(COMMANDS)
    (tmp_path / "flow.yaml").write_text(LOOP)
    words = [str(tmp_path / "flow.py"), str(tmp_path / "home"), str(tmp_path / "flow.yaml")]
    assert loads(*words, DIE="1") == []
    loaded = said_by(*words)
    assert 100 < len(ours(loaded)) <= 124, loaded
    parsers = ("yaml", "outlast.flows.yaml.read", "outlast.values.yaml_tree", "outlast.values.schema")
    needless = ("outlast.files.ask_git", "outlast.files.place", "outlast.runs.child", "outlast.runs.outputs.files")
    later = ("outlast.runs.effect", "outlast.runs.receipt", "outlast.errors.")
    assert not [name for name in loaded if name.startswith((*parsers, *needless, *later, *HEAVY))]
    assert not {"outlast.commands.mirror", "heapq", "queue", "struct", "termios"} & {*loaded}
    assert not OF_OTHERS & {*loaded} - {"subprocess"}
