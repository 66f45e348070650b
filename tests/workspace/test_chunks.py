"""Chunks: a part of large content is proven by its own digest, and nothing else is read for it."""

import os
from pathlib import Path

import pytest

from outlast.errors import IntegrityBroken, ValueRefused
from outlast.store.blobs.content import CHUNK_BYTES, LISTED_FROM
from outlast.workspace.artifact import Artifact

from ..kit.place import Place as Home

CHUNKS = 6
SIZE = CHUNKS * CHUNK_BYTES + 1234
NOISE = os.urandom(SIZE)
WORDS = b"".join(b"%08d the tide comes in\n" % number for number in range(SIZE // 27 + 1))[:SIZE]
KINDS = {"noise, kept as it is": NOISE, "words, which are packed": WORDS}


def blob_files(place: Home) -> list[Path]:
    found = (place.home / "default" / "blobs").glob("??/*")
    return sorted((path for path in found if not path.name.startswith(".")), key=lambda path: path.stat().st_size)


def content_file(place: Home) -> Path:
    return blob_files(place)[-1]


def list_file(place: Home) -> Path:
    return blob_files(place)[0]


def change(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        before = file.read(1)
        file.seek(at)
        file.write(bytes([before[0] ^ 1]))


@pytest.fixture(params=KINDS)
def content(request: pytest.FixtureRequest) -> bytes:
    return KINDS[request.param]


@pytest.fixture
def saved(place: Home, content: bytes) -> Artifact:
    return place.outlast.workspace.save("tides", content)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 1),
        (SIZE - 1, SIZE),
        (CHUNK_BYTES - 1, CHUNK_BYTES + 1),
        (CHUNK_BYTES, 2 * CHUNK_BYTES),
        (5, 3 * CHUNK_BYTES + 7),
        (3, None),
        (SIZE - 3, SIZE + 100),
        (SIZE, None),
        (7, 7),
        (9, 7),
    ],
)
def test_a_part_is_what_a_slice_would_be(saved: Artifact, content: bytes, start: int, end: int | None) -> None:
    assert saved.read(start, end) == content[start:end]


def test_bytes_are_counted_from_the_beginning(saved: Artifact) -> None:
    for start, end in ((-1, None), (0, -1)):
        with pytest.raises(ValueRefused):
            saved.read(start, end)


def test_a_part_reads_its_own_chunks_and_no_others(place: Home, saved: Artifact, content: bytes) -> None:
    change(content_file(place), content_file(place).stat().st_size - 1)  # in the last one
    assert saved.read(0, 2 * CHUNK_BYTES) == content[: 2 * CHUNK_BYTES]
    with pytest.raises(IntegrityBroken):
        saved.read(SIZE - 1, SIZE)
    with pytest.raises(IntegrityBroken):
        saved.read()


def test_no_byte_of_a_damaged_chunk_is_given(place: Home, saved: Artifact) -> None:
    change(content_file(place), 10)
    with pytest.raises(IntegrityBroken):
        next(saved.between(CHUNK_BYTES // 2, CHUNK_BYTES // 2 + 1))


def test_another_list_in_the_place_of_the_right_one_is_noticed(place: Home, saved: Artifact) -> None:
    """Whoever can write files could make content and list agree: the row knows the list by its digest."""
    change(list_file(place), 40)
    with pytest.raises(IntegrityBroken):
        saved.read(0, 1)
    assert [problem.record for problem in place.outlast.verify().problems] == [saved.ref]


def test_content_that_was_damaged_is_named_by_verify(place: Home, saved: Artifact) -> None:
    change(content_file(place), 3 * CHUNK_BYTES if content_file(place).stat().st_size > 4 * CHUNK_BYTES else 99)
    assert [problem.record for problem in place.outlast.verify().problems] == [saved.ref]


def test_equal_content_is_stored_once_with_its_list(place: Home, content: bytes) -> None:
    place.outlast.workspace.save("a", content)
    before = blob_files(place)
    again = place.outlast.workspace.save("b", content)
    assert blob_files(place) == before
    assert len(before) == 2
    assert again.read(5, 9) == content[5:9]
    assert place.outlast.verify().ok


def test_a_list_that_was_lost_comes_back_with_the_next_save(place: Home, saved: Artifact, content: bytes) -> None:
    list_file(place).unlink()
    assert place.outlast.workspace.save("again", content).read(1, 2) == content[1:2]
    assert place.outlast.verify().ok


def test_small_content_has_no_list(place: Home) -> None:
    small = place.outlast.workspace.save("small", NOISE[: LISTED_FROM - 1])
    assert len(blob_files(place)) == 1
    assert small.read(10, 20) == NOISE[10:20]


def test_gc_keeps_the_list_of_what_it_keeps(place: Home, saved: Artifact, content: bytes, later: None) -> None:
    place.outlast.gc()
    assert saved.read(0, 3) == content[:3]
    assert place.outlast.verify().ok


@pytest.fixture
def later(place: Home, saved: Artifact) -> None:
    """Every blob is old enough to be swept."""
    for path in blob_files(place):
        os.utime(path, (0, 0))


def test_one_byte_of_large_content_reads_one_chunk_of_it(place: Home) -> None:
    large = place.outlast.workspace.save("large", os.urandom(40 * CHUNK_BYTES))
    large.read(3, 4)
    before = read_bytes()
    large.read(30 * CHUNK_BYTES, 30 * CHUNK_BYTES + 1)
    assert read_bytes() - before < 2 * CHUNK_BYTES


def read_bytes() -> int:
    """What this process has read of files so far."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])
