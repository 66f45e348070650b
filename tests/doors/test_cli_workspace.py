"""`outlast workspace`: bytes in, the same bytes out, checked; and where a task stands."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast import Outlast, Run, flow

from .. import ready

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

NOISE = os.urandom(50_000)


def raw(cli: "Cli", *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command with bytes in and out."""
    command = ("-m", "outlast", "workspace", *words)
    return ready.run(command, cwd=cli.folder, env=cli.environment(), stdin=stdin)


def blobs(cli: "Cli") -> list[Path]:
    return sorted((cli.folder / ".outlast" / "default" / "blobs").glob("??/*"))


@flow
def pins(run: Run) -> str:
    run.state["n"] = 1
    run.checkpoint("first")
    run.state["n"] = 2
    draft = run.workspace.save("draft.md", "# Draft", summary="The draft")
    run.checkpoint("second", refs=[draft.ref])
    return run.id


@pytest.fixture
def pinned(cli: "Cli") -> "Cli":
    with Outlast(cli.folder / ".outlast") as outlast:
        outlast.run(pins, task="tides")
    return cli


def test_a_file_and_a_pipe_come_back_byte_for_byte(cli: "Cli") -> None:
    (cli.folder / "in.bin").write_bytes(NOISE)
    saved = cli("workspace", "save", "a b.bin", "in.bin", "--summary", "Noise", "--tag", "x", "--tag", "y")
    assert (saved.code, saved.out) == (0, "artifact:default/a b.bin@1 saved (48.8 KiB)\n")
    assert raw(cli, "get", "artifact:default/a b.bin@1").stdout == NOISE
    piped = raw(cli, "save", "p", "-", stdin=NOISE + b"\0")
    assert piped.returncode == 0, piped.stderr
    done = raw(cli, "get", "p", "-o", "out.bin")
    assert (done.returncode, (cli.folder / "out.bin").read_bytes()) == (0, NOISE + b"\0")


def test_the_same_content_is_the_same_version_and_says_what_it_kept(cli: "Cli") -> None:
    first = cli("workspace", "save", "x", "-", "--json", "--summary", "one", "--media-type", "a/b", stdin="1").json
    assert (first["version"], first["replayed"], first["media_type"]) == (1, False, "a/b")
    again = cli("workspace", "save", "x", "-", "--summary", "two", stdin="1")
    assert "was saved already" in again.out
    assert "its summary stays as it was first saved" in again.err
    cli("workspace", "save", "x", "-", stdin="2")
    shown = cli("workspace", "versions", "x", "--json").json["artifacts"]
    assert [(one["version"], one["size"]) for one in shown] == [(2, 1), (1, 1)]
    assert [cli("workspace", "get", asked).out for asked in ("x", "x@1")] == ["2", "1"]


def test_json_tells_what_is_known_and_lists_are_narrowed(pinned: "Cli") -> None:
    pinned("workspace", "save", "other", "-", "--tag", "t", "--source", "https://example.org", stdin="o")
    known = pinned("workspace", "get", "draft.md", "--json").json
    assert (known["ref"], known["summary"], known["size"]) == ("artifact:default/draft.md@1", "The draft", 7)
    assert known["source"]["run_id"] == pinned.run_id

    def names(*words: str) -> list[str]:
        return [one["name"] for one in pinned("workspace", "list", "--json", *words).json["artifacts"]]

    assert names() == ["other", "draft.md"]
    assert names("--tag", "t") == ["other"]
    assert names("--prefix", "dr") == names("--run", pinned.run_id[:6]) == ["draft.md"]
    assert names("--limit", "1") == ["other"]
    told = pinned("workspace", "list").out
    assert "artifact:default/draft.md@1" in told
    assert "The draft" in told


def test_damage_exits_4_and_prints_not_a_byte(cli: "Cli") -> None:
    (cli.folder / "in.bin").write_bytes(NOISE)
    cli("workspace", "save", "x", "in.bin")
    (file,) = blobs(cli)
    file.write_bytes(NOISE[:-1] + bytes([NOISE[-1] ^ 1]))  # another byte, whatever the noise
    (cli.folder / "out").write_text("before")
    for words in (["get", "x"], ["get", "x", "-o", "out"]):
        done = raw(cli, *words)
        assert (done.returncode, done.stdout) == (4, b"")
        assert b"integrity_broken" in done.stderr
    assert (cli.folder / "out").read_text() == "before"
    verified = cli("verify")
    assert (verified.code, "broken: artifact:default/x@1" in verified.out) == (1, True)


def test_a_checkpoint_is_pinned_listed_and_compared(pinned: "Cli") -> None:
    made = pinned("workspace", "checkpoint", "third", "--task", "tides", "--summary", "S", "--ref",
                  "artifact:default/draft.md@1", "--json").json  # fmt: skip
    assert (made["state"], made["run_id"], made["summary"]) == ({"n": 2}, pinned.run_id, "S")
    shown = pinned("workspace", "checkpoints", "--task", "tides", "--json").json["checkpoints"]
    assert [one["name"] for one in shown] == ["third", "second", "first"]
    assert len(pinned("workspace", "checkpoints", "--run", pinned.run_id, "--json").json["checkpoints"]) == 3
    told = pinned("workspace", "diff", shown[2]["id"], shown[1]["id"])
    assert "state['n']: 1 -> 2" in told.out
    assert "+ artifact:default/draft.md@1" in told.out
    changed = pinned("workspace", "diff", shown[1]["id"], shown[0]["id"], "--json").json
    assert (changed["same"], changed["state"]) == (True, [])
    assert "third" in pinned("workspace", "checkpoints").out
    one = pinned("workspace", "checkpoints", f"checkpoint:{made['id'][:9]}")
    assert "state['n'] = 2" in one.out
    assert "ref artifact:default/draft.md@1" in one.out
    assert pinned("workspace", "checkpoints", made["id"], "--json").json["checkpoints"] == [made]


def test_a_checkpoint_of_a_task_without_a_run_says_so(pinned: "Cli") -> None:
    made = pinned("workspace", "checkpoint", "x", "--task", "nothing yet")
    assert made.code == 0
    assert "has no run yet" in made.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["get", "nothing"], 5, "artifact_not_found"),
        (["versions", "nothing"], 5, "artifact_not_found"),
        (["save", "x", "no such file"], 2, "no such file"),
        (["save", "x", "."], 2, "directory"),
        (["save", "a\nb", "flows.py"], 2, "name_invalid"),
        (["save", "x", "flows.py", "--media-type", "nonsense"], 2, "media_type"),
        (["get", "draft.md", "-o", "no/such/folder"], 2, "cannot be written"),
        (["get", "draft.md", "-o", "."], 2, "folder"),
        (["checkpoint", "x"], 2, "--task"),
        (["checkpoint", "x", "--task", "t", "--ref", "artifact:default/no@1"], 5, "artifact_not_found"),
        (["checkpoint", "x", "--task", "t", "--ref", "no"], 2, "value_refused"),
        (["checkpoints", "--task", "t", "--run", "r"], 2, "not both"),
        (["checkpoints", "nothing"], 5, "checkpoint_not_found"),
        (["diff", "zz", "zz"], 5, "checkpoint_not_found"),
        (["list", "--run", "zz"], 5, "run_not_found"),
    ],
)
def test_what_cannot_be_done_exits_with_its_code(pinned: "Cli", words: list[str], code: int, told: str) -> None:
    answer = pinned("workspace", *words)
    assert (answer.code, told in answer.err) == (code, True), answer.err


def test_reading_without_a_home_says_so_and_makes_none(cli: "Cli") -> None:
    assert cli("workspace", "list").code == 5
    assert not (cli.folder / ".outlast").exists()


def test_doctor_and_verify_count_the_workspace(pinned: "Cli") -> None:
    assert "1 artifact, 2 checkpoints" in pinned("verify").out
    assert "1 artifacts, 2 checkpoints" in pinned("doctor").out
    known: dict[str, Any] = pinned("doctor", "--json").json
    assert (known["artifacts"], known["checkpoints"]) == ({"saved": 1, "pending": 0}, 2)
    assert "1 artifact, whoever saved" in pinned("gc").out
