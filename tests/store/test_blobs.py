"""Blobs by the contract: the same promises wherever they are kept. What only a folder has is in `folder/`."""

import os
from pathlib import Path

import pytest

from outlast.errors import IntegrityBroken
from outlast.store.blobs.content import CHUNK_BYTES, LISTED_FROM, check_content, content, content_between, take_in
from outlast.store.contract.blobs import Blobs, Intake, nothing_known
from outlast.values.codec import digest

from .backends import BLOBS, Backend
from .support import kept, thrown


@pytest.fixture(params=BLOBS)
def kind(request: pytest.FixtureRequest) -> str:
    """Where blobs are kept: each test runs on all."""
    return str(request.param)


def test_content_comes_back_under_its_digest_whole_and_in_pieces(blobs: Blobs) -> None:
    name = blobs.put(b"content")
    assert name == digest(b"content") == blobs.put(b"content")
    assert blobs.get(name) == b"".join(blobs.pieces(name)) == b"content"
    assert (blobs.has(name), blobs.renew(name), blobs.size_of(name)) == (True, True, 7)


def test_what_is_missing_is_said_to_be(blobs: Blobs) -> None:
    name = digest(b"never stored")
    assert (blobs.has(name), blobs.renew(name), blobs.size_of(name)) == (False, False, 0)
    for read in (blobs.get, blobs.opened, lambda name: list(blobs.pieces(name))):
        with pytest.raises(IntegrityBroken, match="missing"):
            read(name)


def test_what_was_changed_is_never_given_as_what_was_stored(blobs: Blobs, backend: Backend) -> None:
    name = blobs.put(b"content")
    backend.damage(name)
    for read in (blobs.get, lambda name: list(blobs.pieces(name))):
        with pytest.raises(IntegrityBroken, match="changed"):
            read(name)
    assert not blobs.renew(name)
    assert blobs.put(b"content") == name
    assert blobs.get(name) == b"content"


def test_content_of_a_known_digest_is_kept_only_if_it_is_that(blobs: Blobs) -> None:
    with pytest.raises(IntegrityBroken):
        blobs.keep(digest(b"one"), [b"an", b"other"])
    assert not blobs.has(digest(b"one"))
    blobs.keep(digest(b"one"), [b"o", b"ne"])
    assert blobs.get(digest(b"one")) == b"one"


def test_a_file_is_adopted_and_stays_where_it_is(blobs: Blobs, tmp_path: Path) -> None:
    (tmp_path / "printed").write_bytes(b"lines")
    assert blobs.get(blobs.adopt(tmp_path / "printed")) == b"lines"
    assert (tmp_path / "printed").read_bytes() == b"lines"


def test_content_that_arrives_in_pieces_is_there_once_it_is_settled(blobs: Blobs) -> None:
    with blobs.intake() as intake:
        assert isinstance(intake, Intake)
        for piece in (b"a" * 3000, b"b" * 3000):
            intake.write(piece)
        assert not blobs.has(intake.digest)
        taken = intake.settle(pack=True)
    assert (taken.size, taken.digest) == (6000, digest(b"a" * 3000 + b"b" * 3000))
    assert b"".join(content(blobs, taken, "it")) == b"a" * 3000 + b"b" * 3000
    with blobs.intake() as left:
        left.write(b"never settled")
    assert not blobs.has(digest(b"never settled"))


@pytest.mark.parametrize("pack", [False, True])
def test_a_part_of_large_content_is_proven_without_the_rest(blobs: Blobs, pack: bool) -> None:
    said = bytes(LISTED_FROM) + os.urandom(CHUNK_BYTES)
    taken = take_in(blobs, [said], nothing_known, pack=pack)
    part = b"".join(content_between(blobs, taken, "it", LISTED_FROM - 5, LISTED_FROM + 5))
    assert part == said[LISTED_FROM - 5 : LISTED_FROM + 5]
    check_content(blobs, taken, "it")
    with blobs.opened(taken.blob) as file:
        assert file.seek(0, os.SEEK_END) == blobs.size_of(taken.blob)


def test_a_thrown_blob_is_found_until_it_is_gone_and_comes_back_when_it_is_needed(blobs: Blobs) -> None:
    name, trash = blobs.put(b"content"), blobs.trash()
    assert [file.name for file in kept(trash)] == [name]
    assert not trash.throw(name, lambda _: True)
    assert not trash.throw(name, lambda _: False)  # it was touched just now
    trash.grace_seconds = -60.0
    assert trash.throw(name, lambda _: False)
    assert ([file.name for file in thrown(trash)], blobs.get(name)) == ([name], b"content")
    [condemned] = thrown(trash)
    assert not trash.remove(condemned, lambda _: True)
    assert (thrown(trash), blobs.size_of(name)) == ([], 7)
    assert trash.throw(name, lambda _: False)
    assert trash.remove(thrown(trash)[0], lambda _: False)
    assert not blobs.has(name)
