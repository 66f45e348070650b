"""A failure is passed over only when it is rare, passes alone each time, and nothing else is wrong."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, in a folder of its own in which `make test` has failed."""
    spec = importlib.util.spec_from_file_location("again", Path(__file__).parents[1] / "again.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "TIMES", 2)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it starts in a fraction of the time
    (tmp_path / "build").mkdir()
    (tmp_path / "build/look.txt").touch()
    return module


def note(root: Path, body: str, tests: list[str]) -> None:
    (root / "test_it.py").write_text(f"from pathlib import Path\n\n\ndef test_it():\n    {body}\n")
    cache = root / ".pytest_cache/v/cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(tests, True)))


def test_a_test_that_passes_alone_each_time_is_named_and_passed_over(again: ModuleType, tmp_path: Path) -> None:
    note(tmp_path, "Path('ran').open('a').write('x')", ["test_it.py::test_it"])
    assert again.main() is None
    assert (tmp_path / "ran").read_text() == "x" * 2


def test_one_that_fails_again_is_a_failure(again: ModuleType, tmp_path: Path) -> None:
    note(tmp_path, "assert not Path('ran').exists() and Path('ran').write_text('x')", ["test_it.py::test_it"])
    assert again.main() == "failed again"


@pytest.mark.parametrize("many", [0, 4])
def test_none_and_many_are_a_failure(again: ModuleType, tmp_path: Path, many: int) -> None:
    note(tmp_path, "pass", [f"test_it.py::test_{number}" for number in range(many)])
    assert again.main() == f"{many} tests failed: only 1 to 3 are run again"


def test_a_complaint_of_lint_is_a_failure(again: ModuleType, tmp_path: Path) -> None:
    note(tmp_path, "pass", ["test_it.py::test_it"])
    (tmp_path / "build/look.txt").write_text("E501")
    assert "E501" in again.main()


def test_without_a_run_of_the_tests_there_is_nothing_to_run_again(again: ModuleType, tmp_path: Path) -> None:
    note(tmp_path, "pass", ["test_it.py::test_it"])
    (tmp_path / "build/look.txt").unlink()
    assert "`make test` did not get so far" in again.main()
