"""Files of finished steps of a server's runs: looked at, put back and fetched where the run lives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, flow_file
from outlast.errors import DisplacedNotFound, OutputNotFound, OutputNotKept

from .server import Served, served

FLOW = """\
flow: build
steps:
  - {id: plan, run: "echo plan > plan.md", writes: plan.md}
  - {id: use, run: "cat plan.md >> diary; test -f go", reads: plan.md}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "build.yaml").write_text(FLOW)
    return tmp_path / "work"


@pytest.fixture
def server(place: Path) -> Iterator[Served]:
    with served(place / ".outlast", flows=(str(place / "build.yaml"),), poll_seconds=0.02) as found:
        yield found


@pytest.fixture
def outlast(server: Served) -> Iterator[Outlast]:
    with Outlast(f"http://127.0.0.1:{server.port}", store_options={"retry_seconds": 0.01}) as found:
        yield found


def test_a_client_sees_the_files_of_the_server_and_puts_them_back_there(
    outlast: Outlast, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = outlast.run(flow_file(place / "build.yaml")).run_id
    (place / "plan.md").unlink()
    (reason,) = (one for one in outlast.plan(run).verdict.reasons if one.code == "output_missing")
    assert (reason.weight, reason.subject) == ("contests", "plan")
    assert [(one.path, one.found, one.read_by) for one in outlast.outputs(run)] == [("plan.md", "missing", ("use",))]
    assert [one.path for one in outlast.verify(run).outputs] == ["plan.md"]
    done = outlast.restore_outputs(run, step="plan")
    assert ([one.path for one in done.restored], (place / "plan.md").read_text()) == (["plan.md"], "plan\n")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert [(one.path, one.found) for one in outlast.outputs(run)] == [("plan.md", "same")]


def test_what_gave_way_at_a_server_is_listed_and_fetched(outlast: Outlast, place: Path, tmp_path: Path) -> None:
    run = outlast.run(flow_file(place / "build.yaml")).run_id
    (place / "plan.md").write_text("an edit 🙂\n")
    assert outlast.restore_outputs(run, paths=["plan.md"]).displaced == ("plan.md",)
    (one,) = outlast.displaced(run)
    assert (one.step, one.path, one.content()) == ("plan", "plan.md", "an edit 🙂\n".encode())
    assert one.save_to(tmp_path / "copy").read_text() == "an edit 🙂\n"
    assert outlast.displaced(run, path="plan.md", seq=one.seq) == [one]
    with pytest.raises(DisplacedNotFound, match=r"plan\.md"):
        outlast.displaced(run, path="other")


def test_refusals_are_those_of_the_home(outlast: Outlast, place: Path) -> None:
    run = outlast.run(flow_file(place / "build.yaml")).run_id
    with pytest.raises(OutputNotFound):
        outlast.restore_outputs(run, paths=["../secret"])
    (place / "plan.md").unlink()
    for blob in (place / ".outlast").rglob("blobs/*/*"):
        blob.unlink()
    with pytest.raises(OutputNotKept):
        outlast.restore_outputs(run)
