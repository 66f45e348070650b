"""A sweep and a saver in a bucket, where nothing is renamed: what somebody relies on is never what is removed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from outlast import failpoints
from outlast.errors import BlobsTaken
from outlast.store.blobs.chosen import place_of
from outlast.store.blobs.s3 import S3Blobs
from outlast.store.blobs.s3_trash import S3Trash
from outlast.values.codec import digest

from ..support import kept, left, thrown

NAME = digest(b"content")


@dataclass
class Ledger:
    """Which blobs are referred to."""

    refs: set[str] = field(default_factory=set)

    def needs(self, name: str) -> bool:
        return name in self.refs


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def at_once(blobs: S3Blobs) -> S3Trash:
    """A trash for which every period is over already."""
    return S3Trash(blobs, -60.0)


def sweep(blobs: S3Blobs, ledger: Ledger) -> None:
    """Remove what is condemned, then condemn what is not needed: as a gc does."""
    trash = at_once(blobs)
    for blob in thrown(trash):
        trash.remove(blob, ledger.needs)
    for name in [file.name for file in kept(trash) if not ledger.needs(file.name)]:
        trash.throw(name, ledger.needs)


def keys_of(blobs: S3Blobs) -> list[str]:
    return sorted(each.path.rpartition("/")[2] for each in blobs.bucket.listed(f"{NAME[:2]}/{NAME}"))


@pytest.fixture
def at_point() -> Iterator[Callable[[str, Callable[[], object]], None]]:
    """Do something the first time that a point is reached."""

    def arm(point: str, work: Callable[[], object]) -> None:
        def hook(reached: str) -> None:
            if reached == point:
                failpoints.arm(None)
                work()

        failpoints.arm(hook)

    yield arm
    failpoints.arm(None)


def absent(blobs: S3Blobs, ledger: Ledger) -> None:
    pass


def there(blobs: S3Blobs, ledger: Ledger) -> None:
    blobs.put(b"content")


def condemned(blobs: S3Blobs, ledger: Ledger) -> None:
    blobs.put(b"content")
    assert at_once(blobs).throw(NAME, ledger.needs)


def doomed(blobs: S3Blobs, ledger: Ledger) -> None:
    """Condemned, and the sweep that was about to remove it has died."""
    condemned(blobs, ledger)
    blobs.bucket.put(f"{NAME[:2]}/{NAME}/0.gone", b"")


def removed(blobs: S3Blobs, ledger: Ledger) -> None:
    condemned(blobs, ledger)
    assert at_once(blobs).remove(thrown(at_once(blobs))[0], ledger.needs)


BEFORE = (absent, there, condemned, doomed, removed)


@pytest.mark.parametrize("point", ["blob.written", "blob.named", "blob.synced"])
@pytest.mark.parametrize("before", BEFORE)
def test_what_a_saver_relies_on_is_there_however_a_sweep_comes_between(
    before: Callable[[S3Blobs, Ledger], None],
    point: str,
    blobs: S3Blobs,
    ledger: Ledger,
    at_point: Callable[[str, Callable[[], object]], None],
) -> None:
    """The sweep removes what was condemned before the saver began, and condemns the rest: its second period begins."""
    before(blobs, ledger)
    old = thrown(at_once(blobs))

    def swept() -> None:
        trash = at_once(blobs)
        for blob in old:
            trash.remove(blob, ledger.needs)
        trash.throw(NAME, ledger.needs)

    at_point(point, swept)
    blobs.put(b"content")
    failpoints.arm(None)
    ledger.refs.add(NAME)
    for _ in range(3):
        sweep(blobs, ledger)
        assert blobs.get(NAME) == b"content"
    assert thrown(at_once(blobs)) == []


@pytest.mark.parametrize("point", ["sweep.trashed", "sweep.dated", "sweep.doomed", "sweep.emptied"])
def test_a_saver_that_comes_in_the_midst_of_a_sweep_keeps_its_content(
    point: str, blobs: S3Blobs, ledger: Ledger, at_point: Callable[[str, Callable[[], object]], None]
) -> None:
    blobs.put(b"content")

    def saved() -> None:
        blobs.put(b"content")
        ledger.refs.add(NAME)

    at_point(point, saved)
    for _ in range(4):
        sweep(blobs, ledger)
    assert NAME in ledger.refs, "the point was never reached"
    assert blobs.get(NAME) == b"content"
    assert blobs.renew(NAME)


def test_condemned_content_is_read_and_never_relied_on(blobs: S3Blobs, ledger: Ledger) -> None:
    condemned(blobs, ledger)
    assert (blobs.get(NAME), blobs.has(NAME), blobs.size_of(NAME), blobs.renew(NAME)) == (b"content", True, 0, False)
    blobs.put(b"content")
    assert len(blobs._look(NAME).usable) == 1
    assert "0" not in blobs._look(NAME).usable


def test_no_saver_writes_under_a_key_whose_content_has_just_gone(blobs: S3Blobs, ledger: Ledger) -> None:
    removed(blobs, ledger)
    assert keys_of(blobs) == ["0.gone"]
    assert not blobs.has(NAME)
    blobs.put(b"content")
    ledger.refs.add(NAME)
    assert [*blobs._look(NAME).usable] != ["0"]  # a sweep that was held up may still remove it
    assert left(at_once(blobs)) == []  # what says so stays for a day
    for _ in range(3):
        sweep(blobs, ledger)
    assert len(blobs._look(NAME).content) == 1
    assert blobs.get(NAME) == b"content"


def test_of_two_sweeps_at_once_neither_takes_what_a_saver_wrote_meanwhile(
    blobs: S3Blobs, ledger: Ledger, at_point: Callable[[str, Callable[[], object]], None]
) -> None:
    condemned(blobs, ledger)

    def other() -> None:
        sweep(blobs, ledger)  # removes it first
        blobs.put(b"content")
        ledger.refs.add(NAME)

    at_point("sweep.doomed", other)
    sweep(blobs, ledger)
    sweep(blobs, ledger)
    assert blobs.get(NAME) == b"content"


def test_what_was_written_or_condemned_lately_stays(blobs: S3Blobs, ledger: Ledger) -> None:
    blobs.put(b"content")
    usual = blobs.trash()
    assert not usual.throw(NAME, ledger.needs)
    assert keys_of(blobs) == ["0"]
    assert at_once(blobs).throw(NAME, ledger.needs)
    [blob] = thrown(usual)
    assert not blob.old
    assert not usual.remove(blob, ledger.needs)
    assert not usual.remove(blob._replace(old=True), ledger.needs)  # by a clock of this machine that is wrong
    assert blobs.get(NAME) == b"content"


def test_content_under_two_keys_is_left_under_one(blobs: S3Blobs, ledger: Ledger) -> None:
    condemned(blobs, ledger)
    blobs.put(b"content")
    ledger.refs.add(NAME)
    sweep(blobs, ledger)
    assert len(blobs._look(NAME).content) == 1
    assert blobs.get(NAME) == b"content"


def test_no_home_sweeps_the_place_of_another(blobs: S3Blobs, bucket: str, ledger: Ledger) -> None:
    blobs.put(b"content")
    other = S3Blobs(place_of(bucket), "default", blobs.folder, "home-2")
    restored = S3Blobs(place_of(bucket), "default", blobs.folder, "home-1/backup-1")
    with pytest.raises(BlobsTaken):
        other.put(b"content")
    assert restored.put(b"more") == digest(b"more")
    for each in (other, restored):
        with pytest.raises(BlobsTaken):
            sweep(each, ledger)
    assert blobs.get(NAME) == b"content"
