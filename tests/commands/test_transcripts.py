"""Transcripts: everything is kept as it comes, without the secrets, and never in the command's way."""

import os
import resource
import signal
import threading
from collections.abc import Callable, Collection
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.commands.process import hold
from outlast.commands.transcript import Transcript, _KnownSecrets, mask, tail

from ..kit.commands import Runtime, number_in, wait_until

SECRET = "s3cr3t-é"


def record(
    path: Path,
    command: str,
    secrets: Collection[str] = (),
    sink: Callable[[bytes], None] | None = None,
    env: dict[str, str] | None = None,
) -> Transcript:
    """The transcript of a command that ran to its end."""
    transcript = Transcript(path, secrets, sink)
    held = hold(command, cwd=Path("/tmp"), env=os.environ | (env or {}), output=transcript.writer)
    transcript.begin()
    held.go()
    assert held.wait().left == 0
    transcript.join()
    return transcript


def fed(path: Path, *chunks: bytes, secrets: Collection[str] = ()) -> bytes:
    """What a transcript keeps of chunks that come one by one."""
    transcript = Transcript(path, secrets)
    writer = os.dup(transcript.writer)
    transcript.begin()
    for chunk in chunks:
        os.write(writer, chunk)
    os.close(writer)
    assert transcript.join()
    return path.read_bytes()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


# -- what is kept ----------------------------------------------------------------------------------------


def test_stdout_and_stderr_are_kept_in_their_order(out: Path) -> None:
    transcript = record(out, "echo one; echo two >&2; printf three")
    assert out.read_bytes() == b"one\ntwo\nthree"
    assert (transcript.size, transcript.masked, transcript.lost, transcript.failure) == (13, 0, 0, None)


def test_bytes_that_are_no_text_are_kept_as_they_are(out: Path) -> None:
    assert fed(out, bytes(range(256)), b"\xff") == bytes(range(256)) + b"\xff"


def test_what_was_printed_is_there_while_the_command_still_runs(out: Path) -> None:
    transcript = Transcript(out, [SECRET])
    held = hold("echo early; read x < /dev/null; sleep 300", cwd=out.parent, env=os.environ, output=transcript.writer)
    transcript.begin()
    held.go()
    wait_until(lambda: out.read_bytes() == b"early\n")
    held.wait(timeout=0)
    assert transcript.join()


def test_a_transcript_goes_on_where_the_file_ended_and_shows_only_its_own(out: Path) -> None:
    shown: list[bytes] = []
    out.write_bytes(b"before\n")
    record(out, "echo after", sink=shown.append)
    assert out.read_bytes() == b"before\nafter\n"
    assert b"".join(shown) == b"after\n"


def test_fifty_megabytes_pass_in_constant_memory_though_nobody_looks(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, flood=50_000_000)
    assert runtime.hear("ended")[1:3] == ["exited", 0]
    _, ended, size, unshown, grown_kb = runtime.hear("flooded")
    assert (ended, size, unshown) == (True, 50_000_000, 50_000_000)
    assert (tmp_path / "out").stat().st_size == 50_000_000
    assert grown_kb < 8_000
    runtime.close()


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(IsADirectoryError):
        Transcript(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_stays_open(out: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    record(out, "echo", sink=lambda _: None)
    Transcript(out, sink=lambda _: None).close()
    transcript = Transcript(out)
    transcript.close()
    transcript.close()
    assert len(os.listdir("/proc/self/fd")) == before


# -- secrets ---------------------------------------------------------------------------------------------


def test_a_secret_is_masked_wherever_it_is_printed(out: Path) -> None:
    command = 'echo "a$TOKEN"; printf %s "$TOKEN$TOKEN" >&2'
    transcript = record(out, command, [SECRET, ""], env={"TOKEN": SECRET})
    assert out.read_bytes() == b"a***\n******"
    assert transcript.masked == 3


@pytest.mark.parametrize("at", range(len(SECRET.encode()) + 1))
def test_a_secret_split_at_any_place_is_masked(out: Path, at: int) -> None:
    masking = _KnownSecrets([SECRET])
    text = f"<{SECRET}>".encode()
    parts = [text[: at + 1], text[at + 1 :]]
    assert b"".join([*map(masking.feed, parts), masking.rest()]) == b"<***>"
    assert fed(out, *parts, secrets=[SECRET]) == b"<***>"


def test_the_beginning_of_a_secret_is_kept_when_nothing_follows(out: Path) -> None:
    assert fed(out, b"s3c", b"r3", secrets=[SECRET]) == b"s3cr3"


def test_of_two_secrets_the_longer_is_masked() -> None:
    assert mask("abcdef abc", ["abc", "abcdef"]) == "*** ***"
    masking = _KnownSecrets(["abc", "abcdef"])
    assert [masking.feed(b"abc"), masking.feed(b"def abc"), masking.feed(b"x")] == [b"", b"*** ", b"***x"]


def test_what_cannot_become_a_secret_is_not_held_back() -> None:
    masking = _KnownSecrets([SECRET])
    assert masking.feed(b"password: ") == b"password: "
    assert masking.feed(b"s3cr") == b""
    assert masking.feed(b"3x") == b"s3cr3x"


@given(st.text("ab", max_size=30), st.lists(st.text("ab", max_size=5), max_size=4), st.lists(st.integers(0, 30)))
def test_cutting_the_stream_changes_nothing(text: str, secrets: list[str], cuts: list[int]) -> None:
    masking, whole = _KnownSecrets(secrets), text.encode()
    edges = [0, *sorted(cuts), len(whole)]
    pieces = [masking.feed(whole[a:b]) for a, b in pairwise(edges)]
    assert b"".join([*pieces, masking.rest()]) == mask(text, secrets).encode() == mask(whole, secrets)
    assert masking.count == mask(text, secrets).count("***")


def test_secrets_are_text_not_patterns() -> None:
    assert mask("a.c abc $(x) [", ["a.c", "$(x)", "["]) == "*** abc *** ***"
    assert mask(b"\xffkey", ["\udcffkey"]) == b"***"
    assert mask("nothing", []) == "nothing"


# -- the sink --------------------------------------------------------------------------------------------


def test_the_sink_gets_what_the_file_gets(out: Path) -> None:
    shown: list[bytes] = []
    transcript = record(out, f"seq 50000; echo {SECRET}", [SECRET], shown.append)
    assert b"".join(shown) == out.read_bytes()
    assert out.read_bytes().endswith(b"50000\n***\n")
    assert (transcript.unshown, transcript.sink_failure) == (0, None)


def test_the_digest_of_what_was_shown_whole_is_known_and_of_nothing_else(out: Path) -> None:
    transcript = record(out, "seq 50000", sink=lambda _: None)
    assert transcript.digest == sha256(out.read_bytes()).hexdigest()
    out.write_bytes(b"changed\n")
    assert transcript.digest == ""
    assert record(out, "seq 5", sink=lambda _: None).digest == ""  # something was there before
    assert record(out.with_name("unseen"), "seq 5").digest == ""


def test_a_sink_that_raises_is_dropped_and_that_is_noted(out: Path) -> None:
    def broken(_: bytes) -> None:
        raise BrokenPipeError("nobody reads")

    transcript = record(out, "seq 50000", sink=broken)
    assert transcript.sink_failure == "BrokenPipeError: nobody reads"
    assert transcript.unshown == transcript.size == out.stat().st_size
    assert (transcript.failure, transcript.digest) == (None, "")


def test_a_sink_that_blocks_does_not_hold_up_the_command(out: Path) -> None:
    free = threading.Event()
    transcript = Transcript(out, (), lambda _: free.wait() and None)
    held = hold("seq 100000", cwd=out.parent, env=os.environ, output=transcript.writer)
    transcript.begin()
    held.go()
    assert held.wait(timeout=60).how == "exited"
    assert transcript.join(2.0)
    assert transcript.unshown == transcript.size > 500_000
    free.set()


# -- what goes wrong -------------------------------------------------------------------------------------


def test_a_full_disk_is_noted_and_the_command_goes_on(tmp_path: Path) -> None:
    transcript = record(Path("/dev/full"), f"seq 50000; echo over > {tmp_path}/over", sink=lambda _: None)
    assert (tmp_path / "over").exists()
    assert "No space left" in str(transcript.failure)
    assert (transcript.size, transcript.lost) == (0, 288_894)


def test_a_gap_is_named_in_the_file_when_there_is_room_again(out: Path) -> None:
    transcript = Transcript(out)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, limits[1]))
    transcript._keep(b"12345678")
    transcript._keep(b"more")
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    transcript._keep(b"end")
    transcript.close()
    assert out.read_bytes() == f"12345\n[7 bytes are missing in all: {transcript.failure}]\nend".encode()
    assert (transcript.lost, transcript.size) == (7, out.stat().st_size)


def test_a_pipe_that_something_outside_holds_open_is_given_up(out: Path, tmp_path: Path) -> None:
    transcript = Transcript(out)
    daemon = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 300' & while [ ! -s {tmp_path}/pid ]; do :; done"
    held = hold(f"{daemon}; echo printed", cwd=tmp_path, env=os.environ, output=transcript.writer)
    transcript.begin()
    held.go()
    assert held.wait().stragglers == ()
    assert transcript.join(1.0) is False
    assert transcript.left_open
    assert out.read_bytes() == b"printed\n"
    os.kill(number_in(tmp_path / "pid"), signal.SIGKILL)


def test_something_outside_that_never_stops_printing_is_given_up_too(out: Path, tmp_path: Path) -> None:
    transcript = Transcript(out)
    writer, over = os.dup(transcript.writer), threading.Event()

    def chatter() -> None:
        with open(writer, "wb", buffering=0) as pipe:
            while not over.is_set():
                pipe.write(b"x" * 4096)

    def quiet() -> None:
        try:
            chatter()
        except BrokenPipeError:
            over.set()

    transcript.begin()
    threading.Thread(target=quiet, daemon=True).start()
    assert transcript.join(0.05) is False
    assert over.wait(20)


# -- tail ------------------------------------------------------------------------------------------------


def test_the_tail_is_all_of_a_short_transcript(out: Path) -> None:
    out.write_bytes("é 🙂\n".encode() + b"\xff")
    assert tail(out) == "é 🙂\n\ufffd"
    assert tail(out, 5) == "é 🙂\n\ufffd"


@pytest.mark.parametrize("text", ["x" * 5000, "é🙂" * 5000])
def test_a_longer_one_is_cut_and_says_so(out: Path, text: str) -> None:
    out.write_text(text, "utf-8")
    note, _, end = tail(out, 100).partition("\n")
    assert end == text[-100:]
    assert note == f"[the last 100 characters of {len(text.encode())} bytes; all of it: {out}]"


def test_there_is_no_tail_of_nothing(tmp_path: Path, out: Path) -> None:
    out.touch()
    assert tail(out) == ""
    with pytest.raises(FileNotFoundError):
        tail(tmp_path / "none")
