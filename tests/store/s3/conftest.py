from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast.clock import ManualClock
from outlast.store.blobs.chosen import place_of
from outlast.store.blobs.s3 import S3Blobs

from ...kit.bad_bucket import BadBucket, bad_bucket
from ...kit.seaweed import seaweed

Open = Callable[..., S3Blobs]


@pytest.fixture
def blobs(bucket: str, tmp_path: Path) -> S3Blobs:
    """Blobs of one home, without a ledger."""
    return S3Blobs(place_of(bucket), "default", tmp_path / "blobs", "home-1")


@pytest.fixture
def bad() -> Iterator[BadBucket]:
    """A proxy before the bucket."""
    with bad_bucket(seaweed().endpoint) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    """By which pauses are made between two tries."""
    return ManualClock()


@pytest.fixture
def through(bad: BadBucket, bucket: str, tmp_path: Path, clock: ManualClock) -> S3Blobs:
    """The same blobs, asked for through the proxy."""
    place = place_of(f"{bucket}?endpoint={bad.endpoint}")
    return S3Blobs(place, "default", tmp_path / "blobs", "home-1", clock=clock)


@pytest.fixture
def hasty(bad: BadBucket, bucket: str, tmp_path: Path) -> S3Blobs:
    """The same with little patience, for who wants to see it end."""
    place = place_of(f"{bucket}?endpoint={bad.endpoint}&patience=1s")
    return S3Blobs(place, "default", tmp_path / "blobs", "home-1")
