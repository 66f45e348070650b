"""Files that a model names over MCP: of its own project only, never secrets, pipes or what a link leads to outside."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import StdioServerParameters

from ..ready import by_name
from .conftest import environment
from .hook_work import git
from .mcp_place import Caller, Place, connected, contract

WORDS = ["-m", "outlast", "mcp", "--actor", "model"]
SECRET = "root:$6$salt$hash:19000:0:99999:7:::\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A repository in whose folder `lib` the server is started, with a secret beside it."""
    outside = tmp_path_factory.mktemp("outside")
    made = Place(outside / "project" if (outside / "project").mkdir() is None else outside)
    (outside / "shadow").write_text(SECRET)
    (outside / "folder").mkdir()
    (made.folder / "lib").mkdir()
    (made.folder / "lib" / "notes.md").write_text("# Notes\n")
    (made.folder / ".env").write_text("TOKEN=1\n")
    (made.folder / "lib" / "server.pem").write_text("key\n")
    (made.folder / "linked.md").symlink_to("lib/notes.md")
    (made.folder / "away").symlink_to(outside)
    (made.folder / "shadow.md").symlink_to(outside / "shadow")
    (made.folder / "settings.md").symlink_to(".env")
    os.mkfifo(made.folder / "pipe")
    git(made.folder, "init", "-q", ".")
    git(made.folder, "add", "lib")
    git(made.folder, "commit", "-q", "-m", "first")
    git(made.folder, "worktree", "add", "-q", "-b", "other", str(outside / "worktree"))
    made.opened().close()
    return made


@pytest.fixture(scope="module")
def call(place: Place) -> Iterator[Caller]:
    server = StdioServerParameters(**by_name(*WORDS), cwd=place.folder / "lib", env=environment())
    with connected(server) as caller:
        yield caller


@pytest.mark.parametrize("path", ["notes.md", "../export.py", "../linked.md", "{root}/lib/notes.md"])
def test_a_file_of_the_project_is_saved(call: Caller, place: Place, path: str) -> None:
    assert call.value("workspace_save", name="kept.md", path=path.format(root=place.folder))["size"] > 0


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/hostname",
        "../../shadow",
        "{root}/../shadow",
        "../shadow.md",
        "../away/shadow",
        "../.env",
        "../settings.md",
        "server.pem",
        "../.git/config",
        "../.outlast/default/outlast.db",
        "../pipe",
        "/dev/zero",
        "/proc/self/environ",
        "..",
        "missing.md",
        "no\0name",
    ],
)
def test_nothing_else_is_read(call: Caller, place: Place, path: str) -> None:
    problem = call.problem("workspace_save", name="kept", path=path.format(root=place.folder))
    assert problem["code"] == "value_refused"
    assert "root:" not in str(problem)


TOOLS: dict[str, dict[str, Any]] = {
    "handoff_store": {"anchor": "task:x", **contract(target_files=["shadow"], acceptance_checks=[])},
    "handoff_recover": {"anchor": "task:known"},
    "handoff_settle": {"anchor": "task:known", "outcome": "released"},
    "task_pause": {"task": "x", **contract(target_files=["shadow"], acceptance_checks=[])},
    "task_resume": {"task": "x"},
    "task_complete": {"task": "x"},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_looks_at_a_folder_outside(call: Caller, place: Place, tool: str) -> None:
    for folder in ("/etc", str(place.folder.parent), str(place.folder / "away"), "/"):
        problem = call.problem(tool, repo_root=folder, **TOOLS[tool])
        assert (problem["code"], problem["path"]) == ("handoff_invalid", "repo_root")


@pytest.mark.parametrize("field", ["acceptance_checks", "must_keep"])
@pytest.mark.parametrize("file", [".env", "settings.md", "lib/server.pem"])
def test_no_form_tells_what_is_in_a_secrets_file(call: Caller, field: str, file: str) -> None:
    work = contract(target_files=[], acceptance_checks=[]) | {field: [{"file": file, "contains": "TOKEN=1"}]}
    problem = call.problem("handoff_store", anchor="task:guess", **work)
    assert (problem["code"], problem["path"]) == ("handoff_invalid", f"{field}[0].file")


def test_another_work_tree_of_the_repository_is_the_project_too(call: Caller, place: Place) -> None:
    root = place.folder.parent / "worktree"
    work = contract(target_files=["lib/notes.md"], acceptance_checks=[], repo_root=str(root))
    stored = call.value("handoff_store", anchor="task:known", **work)
    assert stored["binding"]["root"] == str(root)


def test_new_files_that_will_stay_behind_are_named_to_who_stores(call: Caller) -> None:
    work = contract(target_files=["lib/notes.md"], acceptance_checks=[])
    done = call("handoff_store", anchor="task:left", repo_root="..", **work)
    (said,) = [line for line in done.content[0].text.splitlines() if line.startswith("Stays behind: ")]
    assert "linked.md" in said


def test_a_server_that_is_started_nowhere_reads_nothing(place: Place) -> None:
    home = str(place.folder.parent / "elsewhere")
    words = [*WORDS[:3], "--home", home, *WORDS[3:]]
    with connected(StdioServerParameters(**by_name(*words), cwd="/", env=environment())) as call:
        assert call.problem("workspace_save", name="x", path="/etc/hostname")["code"] == "value_refused"
        assert call.problem("workspace_save", name="x", path="etc/hostname")["code"] == "value_refused"


def test_no_two_calls_can_swap_a_link_into_the_way(call: Caller, place: Place) -> None:
    """A file that becomes a link out while it is looked at is never read through it."""
    swap = f"import os\nfor n in range(20000):\n  os.symlink({str(place.folder.parent)!r} + '/shadow', 't')\n" + (
        "  os.replace('t', 'swapped.md')\n  open('t', 'w').write('mine')\n  os.replace('t', 'swapped.md')\n"
    )
    with subprocess.Popen([sys.executable, "-c", swap], cwd=place.folder) as swapper:
        refs = []
        while swapper.poll() is None and len(refs) < 300:
            result = call("workspace_save", name="swapped", path="../swapped.md")
            refs += [result.structured_content["ref"]] if not result.is_error else [""]
        swapper.kill()
    with place.opened() as outlast:
        contents = {outlast.workspace.get(ref).read() for ref in set(refs) - {""}}
    assert contents <= {b"mine", b""}
