"""What a flow file says is known to the next process without parsing; only what its bytes say ever counts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from outlast import __version__
from outlast.errors import RecipeInvalid
from outlast.flows.yaml import flow as kept
from outlast.flows.yaml.flow import find_flow_file
from outlast.flows.yaml.model import code_of_definition
from outlast.flows.yaml.read import read_flow_file

FLOW = "flow: report\nsteps:\n  - id: draft\n    run: echo draft\n"
EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/**/*.yaml"))
FULL = """\
flow: full
inputs:
  ticket: string
  most: {type: integer, default: 5}
  ratio: {type: number, default: 1.0}
  more: {type: json, default: {a: [1, 2.5, null, true]}}
env: {MODE: fast}
steps:
  - id: draft
    run: echo draft
    when: "true"
    writes: [out/*.md]
    retry: {max: 2, backoff: 1s, on_exit: [3]}
  - id: both
    parallel:
      - {id: a, run: echo a, timeout: 5s}
      - {id: b, run: echo b}
  - id: loop
    repeat: {max: 3, until: "true", steps: [{id: once, run: echo once}]}
  - id: ok
    pause_for: approval
    payload: {text: "may it?", number: 3}
"""
DECIDES_NOTHING = {"values.frozen", "values.late", "files.repository", "home.ours"}
TELL = """\
import sys
from outlast.flows.yaml.flow import find_flow_file
spec = find_flow_file(sys.argv[1])
print(spec.code, "yaml" in sys.modules or "outlast.flows.yaml.read" in sys.modules)
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW)
    return path


def kept_files() -> list[Path]:
    return sorted(Path(kept.kept_folder()).glob("*"))


def known(path: Path) -> object:
    """As a new process finds it."""
    kept._known.cache_clear()
    return kept.definition_of(path)


def keep(path: Path) -> None:
    """As a process that reads it does."""
    text = path.read_bytes()
    kept.keep(text, read_flow_file(path))


def test_the_next_process_knows_it_without_parsing(flow: Path) -> None:
    def told() -> list[str]:
        done = subprocess.run([sys.executable, "-c", TELL, str(flow)], capture_output=True, text=True, check=True)
        return done.stdout.split()

    first, second = told(), told()
    assert (first[1], second[1]) == ("True", "False")
    assert first[0] == second[0] == find_flow_file(str(flow)).code
    flow.write_text(FLOW.replace("echo draft", "echo better"))
    changed = told()
    assert changed[1] == "True"
    assert changed[0] != first[0]


@pytest.mark.parametrize("text", [FLOW, FULL, *(path.read_text() for path in EXAMPLES)])
def test_what_is_kept_is_what_the_file_says(tmp_path: Path, text: str) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(text)
    try:
        said = read_flow_file(path)
    except RecipeInvalid:
        pytest.skip("it names files that lie around it")
    keep(path)
    found = known(path)
    if found is not None:
        assert found == said
        assert code_of_definition(msgspec.convert(found, type(said))) == code_of_definition(said)


def test_all_kinds_of_nodes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(FULL)
    keep(path)
    assert known(path) == read_flow_file(path)


@pytest.mark.parametrize("damage", [b"", b"no digest", b"\xff" * 40, None])
def test_what_is_damaged_counts_for_nothing(flow: Path, damage: bytes | None) -> None:
    keep(flow)
    assert known(flow) is not None
    (file,) = kept_files()
    file.write_bytes(file.read_bytes().replace(b"echo draft", b"echo other") if damage is None else damage)
    assert known(flow) is None
    assert find_flow_file(str(flow)).definition.steps[0].run == "echo draft"  # type: ignore[union-attr]


def test_what_somebody_else_could_have_written_counts_for_nothing(flow: Path) -> None:
    keep(flow)
    (file,) = kept_files()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.chmod(0o620)
    assert known(flow) is None
    file.unlink()
    os.mkfifo(file)
    assert known(flow) is None


def test_what_other_code_has_read_counts_for_nothing(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(flow)
    monkeypatch.setattr(kept, "READERS", (*kept.READERS, "__init__.py"))
    kept._code.cache_clear()
    assert known(flow) is None
    monkeypatch.undo()
    kept._code.cache_clear()
    assert known(flow) is not None


def test_what_another_version_has_read_counts_for_nothing_where_all_files_have_one_time_and_size(
    flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, other = Path(kept.__file__).parents[2] / "__init__.py", tmp_path / "__init__.py"
    other.write_text(now.read_text().replace(f'"{__version__}"', f'"{"9" * len(__version__)}"'))
    os.utime(other, ns=(now.stat().st_atime_ns, now.stat().st_mtime_ns))
    keep(flow)
    monkeypatch.setattr(kept, "VERSION", str(other))
    kept._code.cache_clear()
    assert known(flow) is None
    monkeypatch.undo()
    kept._code.cache_clear()
    assert known(flow) is not None


def test_what_decides_what_is_read_is_looked_at() -> None:
    """All that the reading imports, but for what only names, finds or tells something."""
    folder = Path(kept.__file__).parents[2]
    looked_at = {os.path.normpath(folder / "flows" / "yaml" / each) for each in kept.READERS}
    for reader in [file for file in looked_at if "yaml" in file]:
        for found in re.findall(r"^from outlast\.(\S+) import", Path(reader).read_text(), re.MULTILINE):
            file = str(folder / f"{found.replace('.', '/')}.py")
            assert file in looked_at or found in DECIDES_NOTHING or not Path(file).exists(), (reader, found)


@pytest.mark.parametrize(
    "text",
    [
        FLOW + "shell: sh\n",
        FLOW + "    shell: sh\n",
        FLOW + "    cwd: ../flows\n",
        FLOW + "  - {id: other, flow: other.yaml}\n",
        FLOW + "    env: {API_PASSWORD: hunter2-is-mine-9Xq}\n",
    ],
    ids=["a shell", "a shell of a step", "a folder above", "another flow", "a secret"],
)
def test_of_what_depends_on_what_lies_around_it_or_is_secret_nothing_is_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    place = tmp_path / "flows"
    place.mkdir()
    (place / "flow.yaml").write_text(text)
    (place / "other.yaml").write_text(FLOW + "# other\n    shell: sh\n")
    assert find_flow_file(str(place / "flow.yaml")).name == "report"
    assert kept_files() == []


def test_a_file_with_a_mistake_is_refused_each_time(flow: Path) -> None:
    flow.write_text(FLOW + "nonsense: 1\n")
    for _ in range(2):
        with pytest.raises(RecipeInvalid, match="nonsense"):
            find_flow_file(str(flow))
    assert kept_files() == []


def test_no_more_than_some_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 10)
    for number in range(30):
        path = tmp_path / f"{number}.yaml"
        path.write_text(FLOW + f"# {number}\n")
        keep(path)
        assert known(path) is not None
        assert len(kept_files()) <= 10


def test_where_nothing_can_be_kept_files_are_read(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (flow.parent / "taken").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(flow.parent / "taken"))
    keep(flow)
    assert known(flow) is None
    assert find_flow_file(str(flow)).name == "report"
