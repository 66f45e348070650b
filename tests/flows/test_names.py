"""A flow has one name per home, wherever the process stands that runs it: its effects are not sent again."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from outlast.flows import loading as names

from ..kit.place import Place
from ..ready import completed

APP = """
import sys
from pathlib import Path
from outlast import Outlast, Run, effect, flow, step

HERE = Path(__file__).parent


class Refused(Exception):
    pass


@step
def ask() -> str:
    with (HERE / "asked.log").open("a") as log:
        log.write("asked\\n")
    raise Refused("not today")


@effect
def send() -> str:
    with (HERE / "sent.log").open("a") as log:
        log.write("sent\\n")
    return "sent"


@flow
def main(run: Run) -> str:
    try:
        ask()
    except Refused:
        answer = "refused"
    send()
    if not (HERE / "go").exists():
        raise ValueError("not yet")
    return answer


@flow
def parent(run: Run) -> str:
    found = run.spawn(child).result()
    if not (HERE / "go").exists():
        raise ValueError("not yet")
    return found


@flow
def child(run: Run) -> str:
    return send()


if __name__ == "__main__":
    home, name = sys.argv[1:]
    with Outlast(home) as outlast:
        print(outlast.run(globals()[name], task="nightly").status)
"""


class Project:
    """A folder with a script in it, and others to stand in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.home = self.folder / ".outlast"
        self.elsewhere = folder / "elsewhere"
        self.inside = self.folder / "inside"
        for made in (self.inside, self.elsewhere / ".outlast"):
            made.mkdir(parents=True)
        (self.folder / "app.py").write_text(APP)

    @property
    def places(self) -> list[Path]:
        return [self.folder, self.inside, self.elsewhere]

    def python(self, *words: str | Path, cwd: Path, **env: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        ran = completed([*map(str, words)], cwd=cwd, env=kept | env, capture_output=True, text=True)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.stdout

    def script(self, name: str = "main", *, cwd: Path, home: Path | None = None) -> str:
        return self.python(self.folder / "app.py", home or self.home, name, cwd=cwd).strip()

    def cli(self, *words: str | Path, cwd: Path, home: Path | None = None) -> str:
        return self.python("-m", "outlast", *words, "--home", home or self.home, cwd=cwd)

    def lines(self, log: str) -> int:
        path = self.folder / log
        return len(path.read_text().splitlines()) if path.exists() else 0

    def flows(self, home: Path | None = None) -> list[str]:
        """The recorded names, one for each run."""
        look = "import sys; from outlast import Outlast; print(*(run.flow for run in Outlast(sys.argv[1]).runs()))"
        return self.python("-c", look, home or self.home, cwd=self.elsewhere).split()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def test_a_script_continues_its_run_from_any_folder(project: Project) -> None:
    assert [project.script(cwd=cwd) for cwd in project.places] == ["failed"] * 3
    assert project.flows() == ["app.py:main"]
    (project.folder / "go").touch()
    assert project.script(cwd=project.elsewhere) == "succeeded"
    assert (project.lines("sent.log"), project.lines("asked.log")) == (1, 1)


def test_the_script_and_the_command_line_meet_in_one_run(project: Project) -> None:
    assert project.script(cwd=project.elsewhere) == "failed"
    for cwd, file in zip(project.places, ("app.py", "app.py", project.folder / "app.py"), strict=True):
        assert "not yet" in project.cli("run", f"{file}:main", "--task", "nightly", cwd=cwd)
    assert project.flows() == ["app.py:main"]
    (project.folder / "go").touch()
    assert "refused" in project.cli("resume", cwd=project.elsewhere)
    assert (project.lines("sent.log"), project.lines("asked.log")) == (1, 1)


def test_a_home_of_another_name_records_the_full_path(project: Project) -> None:
    home = project.elsewhere / "records"
    file = project.folder / "app.py"
    assert [project.script(cwd=cwd, home=home) for cwd in project.places] == ["failed"] * 3
    project.cli("run", "app.py:main", "--task", "nightly", cwd=project.folder, home=home)
    assert project.flows(home) == [f"{file}:main"]
    (project.folder / "go").touch()
    assert "refused" in project.cli("resume", cwd=project.inside, home=home)
    assert project.lines("sent.log") == 1


def test_one_process_may_use_two_homes_and_names_are_each_one_s_own(project: Project) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(project.folder)!r})
from outlast import Outlast
from outlast.flows.loading import load
from pathlib import Path
main = load("app.py:main", Path({str(project.folder)!r}))
for home in sys.argv[1:]:
    with Outlast(home) as outlast:
        outlast.run(main)
"""
    homes: Sequence[Path] = (project.home, project.elsewhere / ".outlast")
    project.python("-c", program, *homes, cwd=project.inside)
    assert [project.flows(home) for home in homes] == [["app.py:main"], [f"{project.folder / 'app.py'}:main"]]


def test_a_home_reached_by_a_link_records_the_same_name(project: Project) -> None:
    link = project.elsewhere / "link"
    link.symlink_to(project.folder)
    assert project.script(cwd=project.elsewhere, home=link / ".outlast") == "failed"
    assert project.script(cwd=project.folder) == "failed"
    assert project.flows() == ["app.py:main"]


def test_a_moved_project_goes_on_with_its_runs_failures_and_children(project: Project) -> None:
    assert project.script(cwd=project.folder) == "failed"
    assert project.script("parent", cwd=project.folder) == "failed"
    assert project.lines("sent.log") == 2
    moved = project.folder.with_name("moved")
    project.folder.rename(moved)
    project.folder, project.home = moved, moved / ".outlast"
    (moved / "go").touch()
    assert [project.script(name, cwd=project.elsewhere) for name in ("main", "parent")] == ["succeeded"] * 2
    assert (project.lines("sent.log"), project.lines("asked.log")) == (2, 1)


def test_a_module_that_is_run_keeps_its_own_name(project: Project) -> None:
    package = project.folder / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mod.py").write_text(APP)
    project.python("-m", "pkg.mod", project.home, "main", cwd=project.folder)
    project.cli("run", "pkg.mod:main", "--task", "nightly", cwd=project.folder)
    assert project.flows() == ["pkg.mod:main"]


def test_a_script_that_multiprocessing_spawned_is_the_same_script(project: Project) -> None:
    (project.folder / "spawns.py").write_text(
        APP.partition("if __name__")[0]
        + """
import multiprocessing

def work(home):
    with Outlast(home) as outlast:
        outlast.run(main, task="nightly")

if __name__ == "__main__":
    work(sys.argv[1])
    child = multiprocessing.get_context("spawn").Process(target=work, args=(sys.argv[1],))
    child.start()
    child.join()
"""
    )
    project.python(project.folder / "spawns.py", project.home, cwd=project.elsewhere)
    assert project.flows() == ["spawns.py:main"]
    assert project.lines("sent.log") == 1


def test_a_failure_of_a_script_that_is_not_here_runs_no_script_to_be_found(place: Place, tmp_path: Path) -> None:
    from outlast.errors import StepFailed
    from outlast.runs.failure import rebuild

    (tmp_path / "gone.py").write_text("raise SystemExit('ran')")
    sys.path.insert(0, str(tmp_path))
    try:
        found = rebuild({"type": "gone.py:Refused", "message": "no", "args": ["no"]}, "ask")
    finally:
        sys.path.remove(str(tmp_path))
    assert isinstance(found, StepFailed)
    assert "gone" not in sys.modules


def test_threads_that_load_one_file_at_once_all_get_the_whole_of_it(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    (tmp_path / "slow_flows.py").write_text("import time\ntime.sleep(0.2)\nlast = 1\n")
    ready = Barrier(4)

    def load(_: int) -> int:
        ready.wait(30)
        return int(names.load_module("slow_flows.py", tmp_path).last)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(load, range(4))) == [1] * 4
