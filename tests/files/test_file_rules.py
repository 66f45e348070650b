"""Rules about files: looked at inside the root only, in constant memory, and never by opening a device."""

import os
import socket
import tracemalloc
from hashlib import sha256 as hashed
from pathlib import Path

import pytest

from outlast.handoffs.checks import broken_rule
from outlast.handoffs.handoff import FileRule


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "root é 🙂 'q'"
    found.mkdir()
    return found


def exists(root: Path, file: str) -> str:
    return broken_rule(root, FileRule(file, "exists", ""))


def absent(root: Path, file: str) -> str:
    return broken_rule(root, FileRule(file, "absent", ""))


def contains(root: Path, file: str, text: str) -> str:
    return broken_rule(root, FileRule(file, "contains", text))


def sha256(root: Path, file: str, digest: str) -> str:
    return broken_rule(root, FileRule(file, "sha256", digest))


def test_a_plain_file_and_a_folder_exist(root: Path) -> None:
    (root / "a b").write_text("x")
    (root / "sub").mkdir()
    for name in ("a b", "sub", "sub/", "sub/../a b"):
        assert exists(root, name) == ""
    for name in ("gone", "gone/", "a b/below", "x" * 10_000):
        assert exists(root, name) == "is missing"
        assert absent(root, name) == ""
    assert exists(root, "a b/") == "is no folder"
    assert [absent(root, name) for name in ("a b", "sub", "gone", "a b/below")] == ["is there", "is there", "", ""]


def test_links_are_followed_only_inside_the_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "root é 🙂 'q' too").mkdir()
    (root / "file").write_text("x")
    for name, target in {
        "inside": "file",
        "out": "../secret",
        "far": "/etc",
        "twin": str(tmp_path / "root é 🙂 'q' too"),
        "dangling": "gone",
        "loop": "loop",
    }.items():
        (root / name).symlink_to(target)
    assert exists(root, "inside") == contains(root, "inside", "x") == ""
    for name in ("out", "far/passwd", "twin", "twin/x", "../secret", "/etc/passwd", ".."):
        assert exists(root, name) == absent(root, name) == contains(root, name, "x") == "leaves the root"
    assert exists(root, "dangling") == exists(root, "loop") == "is a link that leads nowhere"
    assert absent(root, "dangling/") == "is there"
    assert absent(root, "dangling") == absent(root, "loop") == "is there"


def test_a_root_that_is_reached_by_a_link_is_a_root(root: Path, tmp_path: Path) -> None:
    (root / "file").write_text("x")
    (tmp_path / "to").symlink_to(root)
    assert exists(tmp_path / "to", "file") == contains(tmp_path / "to", "file", "x") == ""


def test_devices_and_pipes_are_named_and_never_opened(root: Path) -> None:
    os.mkfifo(root / "fifo")  # opening it would wait for a writer that never comes
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(f"/proc/self/fd/{os.open(root, os.O_RDONLY)}/socket")
    for name in ("fifo", "socket"):
        found = {exists(root, name), contains(root, name, "x"), sha256(root, name, "0" * 64)}
        assert found == {"is neither a plain file nor a folder"}
        assert absent(root, name) == "is there"
    assert contains(Path("/dev"), "zero", "x") == "is neither a plain file nor a folder"


def test_what_cannot_be_read_says_why(root: Path, tmp_path: Path) -> None:
    assert exists(root, "a\0b") == "cannot be read: embedded null byte"
    assert contains(Path("/proc/self"), "mem", "x").startswith("cannot be read: ")
    assert exists(tmp_path / "gone", "x") == absent(tmp_path / "gone", "x")
    assert absent(tmp_path / "gone", "x").startswith("cannot be read: ")
    assert exists(Path(os.fsdecode(b"/gone \xff")), "x").encode().startswith(b"cannot be read: ")


def test_a_text_is_found_wherever_it_lies_in_the_file(root: Path) -> None:
    text = "naïve 🙂\nend"
    for at in (0, 1, 65_536 - 5, 65_536, 131_072 - 1, 300_000):
        (root / "file").write_bytes(b"n" * at + text.encode() + b"n" * 7)
        assert contains(root, "file", text) == ""
        assert contains(root, "file", text + "!") == f"does not contain {text + '!'!r}"
    assert contains(root, "file", "n") == ""
    (root / "empty").touch()
    assert contains(root, "empty", "n") == "does not contain 'n'"


def test_a_long_text_is_found_and_shown_in_short_when_it_is_not(root: Path) -> None:
    long = "ab" * 200_000
    (root / "file").write_text("x" + long + "y")
    assert contains(root, "file", long) == ""
    assert len(contains(root, "file", "c" * 400_000)) < 300


def test_a_big_file_is_read_in_constant_memory(root: Path) -> None:
    with (root / "big").open("wb") as file:
        file.truncate(64 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"last")
    tracemalloc.start()
    assert contains(root, "big", "last") == ""
    assert contains(root, "big", "first") == "does not contain 'first'"
    assert sha256(root, "big", "0" * 64).startswith("has digest ")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_digest_is_that_of_the_bytes(root: Path) -> None:
    (root / "file").write_bytes(b"a\r\n")
    digest = hashed(b"a\r\n").hexdigest()
    assert sha256(root, "file", digest) == sha256(root, "file", digest.upper()) == ""
    assert sha256(root, "file", "0" * 64) == f"has digest {digest}"


def test_a_folder_has_no_content(root: Path) -> None:
    (root / "sub").mkdir()
    assert contains(root, "sub", "x") == sha256(root, "sub", "0" * 64) == "is a folder"
    assert sha256(root, "gone", "0" * 64) == "is missing"
