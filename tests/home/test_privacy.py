"""Private stays private: a home and all that is in it is its owner's alone, or its group's if its settings say so."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.doors.conftest import environment
from tests.doors.hook_work import git

from outlast import Outlast, Run, flow, step
from outlast.errors import HomeSettingsInvalid
from outlast.home.keys import Keys
from outlast.home.settings import too_open

from ..ready import completed

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
ANN, BEN, TEAM = 54321, 54322, 54320
FLOW = """
flow: report
steps:
  - id: find
    run: 'echo "{\\"found\\": \\"kelp\\"}" > "$OUTLAST_RESULT"; echo told'
"""


@step
def find(topic: str) -> str:
    return topic * 50_000  # a blob


@flow
def report(run: Run, topic: str) -> str:
    return find(topic)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def worked_in(home: Path, project: Path) -> None:
    """Everything that a home holds comes into being."""
    (project / "private.txt").touch(0o600)
    (project / "private.txt").chmod(0o600)
    (project / "private.txt").write_text("secret " * 100)
    (project / "report.yaml").write_text(FLOW)
    with Outlast(home) as outlast:
        outlast.run(report, "kelp")
        outlast.workspace.save("private.txt", project / "private.txt")
        outlast.workspace.save("large.txt", b"kelp " * 100_000)
        outlast.workspace.record("observation", "kelp grows fast")
        outlast.workspace.recall("how fast kelp grows")
        contract = {"summary": "Stopped", "handoff_text": "Go on", "target_files": ["private.txt"]}
        outlast.handoff.store("task:x", repo_root=str(project), **contract)
        outlast.gc(dry_run=False)
        (run,) = outlast.runs(limit=1)
        outlast.export(run.id, project / "run.outlast")
    Keys(home).create("ann")
    said = {"session_id": "s", "cwd": str(project), "transcript_path": "", "hook_event_name": "Stop"}
    command(home, project, "run", "report.yaml")
    for kind in ("start", "stop"):
        command(home, project, "hook", kind, "--client", "claude", given=json.dumps(said).encode())
    command(home, project, "hook", "drain")


def command(home: Path, project: Path, *words: str, given: bytes = b"") -> str:
    env = environment(OUTLAST_HOME=str(home))
    line = ("-P", "-m", "outlast", *words)
    done = completed(line, input=given, cwd=project, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def modes(home: Path) -> dict[str, set[int]]:
    """The permissions of all folders and of all files."""
    found: dict[str, set[int]] = {"folder": set(), "file": set()}
    for path in (home, *home.rglob("*")):
        seen = path.lstat()
        found["folder" if stat.S_ISDIR(seen.st_mode) else "file"].add(stat.S_IMODE(seen.st_mode))
    return found


def opened_up(home: Path) -> None:
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


# -- whoever it belongs to -------------------------------------------------------------------------------


def test_all_that_a_home_holds_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    project.chmod(0o755)
    git(project, "init", "-q", ".")
    home = project / ".outlast"
    worked_in(home, project)
    assert modes(home) == {"folder": {0o700}, "file": {0o600}}
    assert stat.S_IMODE((project / "run.outlast").stat().st_mode) == 0o600
    names = {path.name for path in home.rglob("*")}
    assert {"outlast.db", "keys.db", ".gitignore", "gc.lock", "spool", "receipts", "recall"} <= names


def test_a_log_and_shared_memory_are_as_private_as_the_database(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Outlast(tmp_path / "home") as outlast:
            outlast.run(report, "kelp")
            names = ("outlast.db", "outlast.db-wal", "outlast.db-shm")
            found = {(tmp_path / "home" / "default" / name).stat().st_mode & 0o777 for name in names}
    finally:
        os.umask(before)
    assert found == {0o600}


def test_a_home_that_stands_open_is_closed_when_it_is_opened_to_work_in_it(tmp_path: Path) -> None:
    home = tmp_path / ".outlast"
    worked_in(home, tmp_path)
    opened_up(home)
    assert len(too_open(home)) > 10
    Outlast(home).close()
    assert too_open(home) == []
    assert modes(home) == {"folder": {0o700}, "file": {0o600}}


def test_a_home_in_a_folder_with_other_things_leaves_them_alone(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("for all")
    (tmp_path / "page.html").chmod(0o644)
    tmp_path.chmod(0o755)
    Outlast(tmp_path).close()
    opened_up(tmp_path / "default")
    Outlast(tmp_path).close()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, tmp_path / "page.html")] == [0o755, 0o644]
    assert modes(tmp_path / "default") == {"folder": {0o700}, "file": {0o600}}


def test_no_link_in_a_home_is_followed_to_close_what_it_leads_to(tmp_path: Path) -> None:
    home, other = tmp_path / ".outlast", tmp_path / "other"
    Outlast(home).close()
    other.write_text("for all")
    other.chmod(0o644)
    (home / "default" / "link").symlink_to(other)
    home.chmod(0o755)
    Outlast(home).close()
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


# -- a group ---------------------------------------------------------------------------------------------


def as_(uid: int, group: int, work: Callable[[], object], umask: int = 0o077) -> None:
    """Do something as another user, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([TEAM])
            os.setgid(group)
            os.setuid(uid)
            os.umask(umask)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def team() -> Iterator[Path]:
    """A folder of Ann's that the group may use."""
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        work_in(Path(above) / "first", "kelp")()  # others may not read what has to be imported
        folder = Path(above) / "team"
        folder.mkdir()
        os.chown(folder, ANN, TEAM)
        folder.chmod(0o2770)
        yield folder


def work_in(home: Path, topic: str) -> Callable[[], object]:
    def work() -> None:
        with Outlast(home) as outlast:
            assert outlast.run(report, topic).result == topic * 50_000
            outlast.workspace.save("notes.md", topic.encode() * 1000)
            outlast.workspace.record("observation", f"{topic} grows fast")
            outlast.workspace.recall(f"how fast {topic} grows")

    return work


@AS_ROOT
def test_a_shared_home_can_be_used_by_a_second_member_of_the_group(team: Path) -> None:
    home = team / ".outlast"

    def made() -> None:
        home.mkdir()
        (home / "settings.yaml").write_text("shared: group\n")
        work_in(home, "kelp")()

    as_(ANN, TEAM, made)
    as_(BEN, BEN, work_in(home, "wrack"))
    as_(ANN, TEAM, work_in(home, "dulse"))
    found = modes(home)
    assert found == {"folder": {0o2770}, "file": {0o660}}
    assert {path.stat().st_gid for path in home.rglob("*")} == {TEAM}


@AS_ROOT
def test_a_home_that_is_not_shared_is_closed_to_the_group(team: Path) -> None:
    home = team / ".outlast"
    as_(ANN, TEAM, work_in(home, "kelp"), umask=0o002)

    def looks() -> None:
        with pytest.raises(PermissionError):
            os.listdir(home)

    as_(BEN, BEN, looks)


@AS_ROOT
def test_a_home_that_is_shared_no_longer_is_closed_again(team: Path) -> None:
    home = team / ".outlast"
    as_(ANN, TEAM, lambda: (home.mkdir(), (home / "settings.yaml").write_text("shared: group\n")))
    as_(ANN, TEAM, work_in(home, "kelp"))
    as_(ANN, TEAM, lambda: ((home / "settings.yaml").unlink(), work_in(home, "wrack")()))
    assert modes(home) == {"folder": {0o700}, "file": {0o600}}


@AS_ROOT
def test_what_another_user_owns_is_not_changed_and_root_leaves_them_what_it_makes(team: Path) -> None:
    home = team / ".outlast"
    as_(ANN, TEAM, work_in(home, "kelp"))
    opened_up(home)
    before = {path: path.stat().st_mode for path in home.rglob("*") if not path.name.endswith(("-wal", "-shm"))}
    work_in(home, "wrack")()
    assert {path: path.stat().st_mode for path in before} == before
    assert {path.stat().st_uid for path in (home, *home.rglob("*"))} == {ANN}
    assert any(str(home / "default" / "outlast.db") in each for each in too_open(home))
    as_(ANN, TEAM, work_in(home, "dulse"))
    assert too_open(home) == []


@AS_ROOT
def test_doctor_names_what_stands_open(team: Path) -> None:
    home = team / ".outlast"
    as_(ANN, TEAM, work_in(home, "kelp"))
    assert "nothing to mend" in command(home, team, "doctor")
    (home / "default" / "outlast.db").chmod(0o644)
    line = [sys.executable, "-P", "-m", "outlast", "doctor"]
    env = environment(OUTLAST_HOME=str(home))
    done = subprocess.run(line, cwd=team, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{home}/default/outlast.db (-rw-r--r--, uid {ANN})" in done.stdout


@pytest.mark.parametrize("text", ["shared: all", "shared: [group]", "colour: red", "[", "- x", "shared: group\n\x00"])
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.yaml").write_text(text)
    with pytest.raises(HomeSettingsInvalid) as caught:
        Outlast(tmp_path)
    assert str(tmp_path / "settings.yaml") in str(caught.value)
    assert not (tmp_path / "default").exists()
