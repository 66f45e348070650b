"""Checks: commands that are run and ended whole, and what is kept of their output."""

import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.commands.transcript import FIRST_BYTES, LAST_BYTES, Printed
from outlast.errors import NoThread, Stopped, StoreFailed
from outlast.handoffs.checks import run_checks
from outlast.handoffs.handoff import Evidence, Form
from outlast.home.home import Home
from outlast.home.settings import Settings
from outlast.runs.live import Executor

from ..kit.commands import PATIENCE_SECONDS, lives, number_in, wait_until
from ..kit.place import Place

KEPT_BYTES = FIRST_BYTES + LAST_BYTES
FOREVER = "echo $$ > pid; while :; do sleep 0.1; done"
DEAF = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "root é 🙂 'q'"
    found.mkdir()
    return found


@pytest.fixture
def runtime(place: Place) -> Executor:
    place.settings = Settings(patience_seconds=0.3)
    return place.outlast._executor


# -- running commands --------------------------------------------------------------------------------------


def run(executor: Executor, root: Path, *forms: Form, **how: Any) -> list[Evidence]:
    return run_checks(executor, forms, root, when="verify", by="ann", **how)


def one(executor: Executor, root: Path, form: Form) -> Evidence:
    return run(executor, root, form)[0]


def output(home: Home, evidence: Evidence) -> bytes:
    return home.blobs.get(evidence.output) if evidence.output else b""


def test_every_check_gives_its_evidence_in_order(runtime: Executor, root: Path, place: Place) -> None:
    (root / "file").write_text("x")
    forms: list[Form] = ["echo hi; echo there >&2", "exit 3", {"run": "exit 3", "exit": 3}]
    forms += [{"file": "file", "exists": True}, {"file": "file", "contains": "y"}, "test -f file"]
    found = run(runtime, root, *forms)
    assert [each.check for each in found] == forms
    assert [each.passed for each in found] == [True, False, True, True, False, True]
    assert [each.exit for each in found] == [0, 3, 3, None, None, 0]
    assert [each.note for each in found] == ["", "", "", "", "file does not contain 'y'", ""]
    assert [output(runtime.home, each) for each in found] == [b"hi\nthere\n", b"", b"", b"", b"", b""]
    for each in found:
        assert (each.at, each.by, each.where) == (place.clock.now(), "ann", os.uname().nodename)
        assert (each.runner, each.when) == ("runner", "verify")
    assert 0 <= found[0].seconds < PATIENCE_SECONDS


def test_every_check_is_told_in_one_line(runtime: Executor, root: Path) -> None:
    told: list[str] = []
    runtime.home.tell = told.append
    run(runtime, root, "true", {"file": "a b", "absent": True}, "true\necho 🙂 \x1b[31m", ": " + "x" * 10_000)
    assert told[:3] == ["check 1 of 4: true", "check 2 of 4: a b absent", "check 3 of 4: true echo 🙂  [31m"]
    assert told[3].endswith("… (10002 characters)")
    assert len(told[3]) < 300


def test_a_check_runs_in_its_folder_with_the_callers_environment_and_no_input(
    runtime: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub dir").mkdir()
    monkeypatch.setenv("MINE", "1")
    monkeypatch.delenv("OUTLAST_CHECK", raising=False)
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("OUTLAST_RESULT", "/elsewhere")
    asked = 'pwd -P; echo "$OUTLAST_CHECK$MINE${GIT_DIR:-no}${OUTLAST_RESULT:-no}"; cat; echo $?'
    found = one(runtime, root, {"run": asked, "cwd": "sub dir"})
    assert output(runtime.home, found).decode() == f"{root.resolve()}/sub dir\n11nono\n0\n"


def test_the_claim_of_who_has_it_checked_does_not_get_into_the_evidence(
    runtime: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_CLAIM", "01CLAIM")
    assert b"01CLAIM" not in output(runtime.home, one(runtime, root, "env"))


def test_something_can_be_done_after_each_check_and_what_it_raises_ends_them(runtime: Executor, root: Path) -> None:
    seen: list[list[str]] = []

    def between() -> None:
        seen.append(sorted(path.name for path in root.iterdir() if path.name in ("1", "2", "3")))
        if len(seen) == 2:
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        run(runtime, root, "touch 1", {"file": "1", "exists": True}, "touch 3", between=between)
    assert seen == [["1"], ["1"]]
    assert len(run(runtime, root, "touch 2", "false", between=lambda: seen.append([]))) == 2
    assert len(seen) == 4


def test_a_check_that_has_itself_checked_comes_to_an_end(
    runtime: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_CHECK", "7")
    assert output(runtime.home, one(runtime, root, "echo $OUTLAST_CHECK")) == b"8\n"
    monkeypatch.setenv("OUTLAST_CHECK", "8")
    found = one(runtime, root, "touch ran")
    assert (found.passed, (root / "ran").exists()) == (False, False)
    assert "has itself checked" in found.note
    monkeypatch.setenv("OUTLAST_CHECK", "yes")  # somebody's own
    assert output(runtime.home, one(runtime, root, "echo $OUTLAST_CHECK")) == b"1\n"


@pytest.mark.parametrize(
    ("cwd", "why"),
    [
        ("gone", "does not exist"),
        ("file", "is not a folder"),
        ("out", "'out' leaves the root"),
        ("..", "'..' leaves the root"),
        ("/", "'/' leaves the root"),
        ("a\0b", "cannot be read"),
    ],
)
def test_a_check_that_cannot_be_started_has_failed(runtime: Executor, root: Path, cwd: str, why: str) -> None:
    (root / "file").touch()
    (root / "out").symlink_to("/tmp")
    first, second = run(runtime, root, {"run": "touch ran", "cwd": cwd}, "true")
    assert (first.passed, first.exit, first.output) == (False, None, "")
    assert first.note.startswith("could not be started: ")
    assert why in first.note
    assert second.passed


def test_a_root_that_is_gone_fails_the_check(runtime: Executor, tmp_path: Path) -> None:
    found = one(runtime, tmp_path / "gone", "true")
    assert not found.passed
    assert "does not exist" in found.note


def test_text_that_no_system_takes_as_a_command_fails_the_check(runtime: Executor, root: Path) -> None:
    found = run(runtime, root, "echo \0", ": " + "x" * 200_000, "-x", "")
    assert [each.passed for each in found] == [False, False, False, True]
    assert "NUL" in found[0].note
    assert "too long" in found[1].note


def test_a_check_that_takes_too_long_is_ended_with_all_it_started(runtime: Executor, root: Path) -> None:
    form: Form = {"run": "sleep 300 & echo $! > pid; echo before; sleep 300 | cat", "timeout": 1, "exit": 143}
    found, after = run(runtime, root, form, "true")
    assert (found.passed, found.exit, found.note) == (False, None, "timed out after 1 s")
    assert output(runtime.home, found) == b"before\n"
    assert found.seconds >= 1
    assert not lives(number_in(root / "pid"))
    assert after.passed


def test_a_check_that_ignores_term_is_killed(runtime: Executor, root: Path) -> None:
    with pytest.raises(Stopped):
        run(runtime, root, DEAF, stop=(root / "pid").exists)
    assert not lives(number_in(root / "pid"))


def test_what_a_check_leaves_in_the_background_is_ended_and_named(runtime: Executor, root: Path) -> None:
    found = one(runtime, root, "sleep 300 & echo $! > pid")
    assert found.passed
    assert found.note == "ended what it left in the background (1 process)"
    assert not lives(number_in(root / "pid"))


def test_a_daemon_that_keeps_the_output_open_does_not_hold_the_check_up(runtime: Executor, root: Path) -> None:
    found = one(
        runtime, root, "setsid sh -c 'echo $$ > pid; sleep 300' & while [ ! -s pid ]; do sleep 0.01; done; echo x"
    )
    os.kill(number_in(root / "pid"), signal.SIGKILL)
    assert found.passed
    assert output(runtime.home, found) == b"x\n"
    assert "something that it started still has its output open" in found.note


def test_no_file_and_no_process_is_left_open(runtime: Executor, root: Path) -> None:
    one(runtime, root, "true")  # the guard starts with the first

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    before = held()
    run(runtime, root, "echo x", {"run": "true", "cwd": "gone"}, "echo \0", {"run": "sleep 300", "timeout": 0.1})
    wait_until(lambda: held() == before, "the end of the last thread")
    assert held() == before


def test_a_check_that_is_asked_to_stop_is_ended_and_nothing_is_given(runtime: Executor, root: Path) -> None:
    with pytest.raises(Stopped):
        run(runtime, root, "true", FOREVER, "touch after", stop=(root / "pid").exists)
    assert not lives(number_in(root / "pid"))
    with pytest.raises(Stopped):
        run(runtime, root, "touch after", stop=lambda: True)
    assert not (root / "after").exists()


def test_what_stop_raises_ends_the_check_too(runtime: Executor, root: Path) -> None:
    def stop() -> bool:
        if (root / "pid").exists():
            raise ZeroDivisionError
        return False

    with pytest.raises(ZeroDivisionError):
        run(runtime, root, FOREVER, stop=stop)
    assert not lives(number_in(root / "pid"))


def test_a_check_that_cannot_be_waited_for_is_ended(
    runtime: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "check":
            number_in(root / "pid")
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(NoThread, match="new thread"):
        one(runtime, root, FOREVER)
    assert not lives(number_in(root / "pid"))


def test_output_that_cannot_be_kept_is_an_error_and_no_evidence(runtime: Executor, root: Path) -> None:
    folder = runtime.home.blobs.folder
    folder.rename(folder.with_name("moved"))
    folder.touch()
    with pytest.raises(StoreFailed):
        one(runtime, root, "echo x")


# -- what is printed ---------------------------------------------------------------------------------------


def test_bytes_that_are_no_text_are_kept_as_they_are(runtime: Executor, root: Path) -> None:
    (root / "bytes").write_bytes(bytes(range(256)) * 3)
    assert output(runtime.home, one(runtime, root, "cat bytes")) == bytes(range(256)) * 3


def test_a_mebibyte_is_kept_whole(runtime: Executor, root: Path) -> None:
    content = b"".join(b"line %09d\n" % number for number in range(KEPT_BYTES // 15))
    (root / "long").write_bytes(content.ljust(KEPT_BYTES, b"."))
    found = one(runtime, root, "cat long")
    assert output(runtime.home, found) == (root / "long").read_bytes()
    assert found.note == ""


def test_of_more_the_beginning_and_the_end_are_kept_and_what_is_missing_is_said(runtime: Executor, root: Path) -> None:
    lines = [b"line %09d\n" % number for number in range(200_000)]
    (root / "long").write_bytes(b"".join(lines))
    found = one(runtime, root, "cat long")
    kept = output(runtime.home, found)
    first, middle, last = kept.partition(b"\n[")
    missing = int(middle and last.split()[0])
    last = last.partition(b"]\n")[2]
    assert b"".join(lines).startswith(first)
    assert b"".join(lines).endswith(last)
    assert len(first) + 1 + len(last) + missing == 3_000_000
    assert last.startswith(b"line ")
    assert FIRST_BYTES - 100 < len(first) <= FIRST_BYTES
    assert LAST_BYTES - 100 < len(last) <= LAST_BYTES
    assert found.note == f"its output was cut: {missing} of 3000000 bytes were left out"


def test_a_line_without_end_is_cut_too(runtime: Executor, root: Path) -> None:
    found = one(runtime, root, "head -c 3000000 /dev/zero | tr '\\0' x")
    kept = output(runtime.home, found)
    assert found.passed
    assert KEPT_BYTES <= len(kept) < KEPT_BYTES + 200
    assert f"{3_000_000 - KEPT_BYTES} of 3000000 bytes" in found.note


def test_a_check_that_prints_without_end_takes_neither_memory_nor_disk(runtime: Executor, root: Path) -> None:
    tracemalloc.start()
    found = one(runtime, root, {"run": "yes", "timeout": 1})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    sizes = [
        file.stat().st_size for folder in (runtime.home.path, root) for file in folder.rglob("*") if file.is_file()
    ]
    assert found.note.startswith("timed out after 1 s; its output was cut: ")
    assert peak < 16 << 20
    assert sum(sizes) < 4 << 20


def test_what_looks_like_a_secret_is_masked_and_counted(runtime: Executor, root: Path) -> None:
    secret = "ghp_" + "aB3dE6gH9" * 4
    found = one(runtime, root, f"printf 'one\\ntoken {secret} \\377 end\\n'; echo {secret}")
    kept = output(runtime.home, found)
    assert secret.encode() not in kept
    assert kept.startswith(b"one\n")
    assert b" \xff end\n" in kept
    assert found.note == "masked 2 secrets in its output"


@pytest.mark.parametrize("shift", [-39, -20, -4, 0])
@pytest.mark.parametrize("cut", [FIRST_BYTES, 3_000_000 - LAST_BYTES])
def test_a_secret_where_the_output_is_cut_is_not_kept_by_half(
    runtime: Executor, root: Path, cut: int, shift: int
) -> None:
    secret = b"ghp_" + b"aB3dE6gH9" * 4
    (root / "long").write_bytes((b" " * (cut + shift) + secret).ljust(3_000_000))
    found = one(runtime, root, "cat long")
    kept = output(runtime.home, found)
    assert b"ghp_" not in kept
    assert b"gH9" not in kept
    first, _, last = kept.partition(b"\n[")
    missing = int(last.split()[0])
    masked = kept.count(b"***") * (len(secret) - 3)
    assert len(first) + len(last.partition(b"]\n")[2]) + masked + missing == 3_000_000


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 40))
def test_what_is_kept_is_what_was_printed_in_whatever_pieces_it_came(data: bytes, piece: int) -> None:
    printed = Printed()
    printed.close()
    data = (data * 8_000)[: KEPT_BYTES + 20_000]
    for at in range(0, len(data), piece * 1_000):
        printed._keep(data[at : at + piece * 1_000])
    content = printed.content()
    assert content.size == len(data)
    if len(data) <= KEPT_BYTES:
        assert (content.kept, content.left_out) == (data, 0) or content.masked
    elif not content.masked:
        note = b"[%d bytes were left out here]\n" % content.left_out
        first, _, last = content.kept.partition(note)
        assert data.startswith(first.removesuffix(b"\n"))
        assert data.endswith(last)
        assert len(first) + len(last) + content.left_out - len(data) in (0, 1)


# -- this process ends -------------------------------------------------------------------------------------

WORKER = """
import json, signal, sys
from pathlib import Path
from outlast import Outlast
from outlast.handoffs.checks import run_checks
from outlast.home.settings import Settings

def hear(*given):
    print("heard", flush=True)
    signal.default_int_handler(*given)

signal.signal(signal.SIGINT, hear)
outlast = Outlast(sys.argv[1], settings=Settings(patience_seconds=float(sys.argv[3])))
try:
    run_checks(outlast._executor, json.loads(sys.argv[4]), Path(sys.argv[2]), when="verify", by="ann")
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("done", flush=True)
outlast.close()
"""


class Worker:
    """A process that runs checks, until something ends it."""

    def __init__(self, root: Path, patience: float, *forms: Form) -> None:
        self.home = root / "home"
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(self.home), str(root), str(patience), json.dumps(forms)],
            stdout=subprocess.PIPE,
        )

    def interrupt(self) -> None:
        """Send a Ctrl-C, and see it arrive."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout.readline() == b"heard\n"

    def end(self) -> str:
        said, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        return said.decode().strip()

    @property
    def blobs(self) -> list[Path]:
        return [file for file in (self.home / "default" / "blobs").rglob("*") if file.is_file()]


@pytest.fixture
def worker(root: Path) -> Iterator[Any]:
    made: list[Worker] = []

    def start(*forms: Form, patience: float = 0.3) -> Worker:
        made.append(Worker(root, patience, *forms))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.wait(PATIENCE_SECONDS)
        if each.process.stdout:
            each.process.stdout.close()


def test_a_check_ends_when_its_runtime_is_killed(worker: Any, root: Path) -> None:
    started = worker("(sleep 300 & echo $! > other); " + FOREVER)
    pids = [number_in(root / "pid"), number_in(root / "other")]
    started.process.kill()
    for pid in pids:
        wait_until(lambda pid=pid: not lives(pid), "the end of the check")  # type: ignore[misc]
    assert started.blobs == []
    assert not (started.home / "default" / "work").exists()


def test_ctrl_c_ends_the_check_and_is_raised_on(worker: Any, root: Path) -> None:
    started = worker("true", "echo said; " + FOREVER, "touch after")
    pid = number_in(root / "pid")
    started.interrupt()
    assert started.end() == "interrupted"
    assert not lives(pid)
    assert not (root / "after").exists()
    assert started.blobs == []


def test_ctrl_c_while_a_check_is_being_ended_is_not_lost(worker: Any, root: Path) -> None:
    slow = "trap 'echo > asked' TERM; echo $$ > pid; until [ -e enough ]; do sleep 0.05; done"
    started = worker({"run": slow, "timeout": 1}, "touch after", patience=10 * PATIENCE_SECONDS)
    pid = number_in(root / "pid")
    wait_until((root / "asked").exists)
    started.interrupt()
    (root / "enough").touch()
    assert started.end() == "interrupted"
    assert not lives(pid)
    assert not (root / "after").exists()


def test_a_second_ctrl_c_ends_the_patience(worker: Any, root: Path) -> None:
    deaf = "trap 'echo > asked' TERM; echo $$ > pid; while :; do sleep 0.1; done"
    started = worker(deaf, patience=10 * PATIENCE_SECONDS)
    pid = number_in(root / "pid")
    started.interrupt()
    wait_until((root / "asked").exists)
    started.interrupt()
    assert started.end() == "interrupted"
    assert not lives(pid)
