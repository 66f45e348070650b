"""A bucket that is slow, fails, breaks off, forgets or changes things: asked again within limits, then named.

What was acknowledged is there, and what is given was stored.
"""

import os
from pathlib import Path

import pytest

from outlast.clock import ManualClock
from outlast.errors import BlobsRefused, BlobsUnreachable, IntegrityBroken
from outlast.store.blobs.bucket import PART_BYTES
from outlast.store.blobs.chosen import place_of
from outlast.store.blobs.s3 import S3Blobs
from outlast.values.codec import digest

from ...kit.bad_bucket import DROP, FORGET, IGNORE, TRUNCATE, BadBucket, changed, fails, slow
from ...kit.seaweed import seaweed
from ..support import thrown

LARGE = os.urandom(PART_BYTES + 1000)


@pytest.mark.parametrize("fault", [fails(500), fails(503), DROP, FORGET, slow(0.2)], ids=lambda fault: str(fault[0]))
def test_what_fails_a_few_times_is_asked_for_again(
    fault: tuple[object, ...], bad: BadBucket, through: S3Blobs, blobs: S3Blobs
) -> None:
    bad.first(3, fault)
    name = through.put(b"content")
    assert blobs.get(name) == b"content"
    bad.first(3, fault)
    assert through.get(name) == b"content"


def test_a_bucket_that_keeps_failing_is_named_with_its_reason_and_nothing_is_acknowledged(
    bad: BadBucket, hasty: S3Blobs
) -> None:
    bad.every(fails(500))
    with pytest.raises(BlobsUnreachable, match=r"500 Internal Server Error: InternalError: made up.*outlast doctor"):
        hasty.put(b"content")
    with pytest.raises(BlobsUnreachable):
        hasty.get(digest(b"content"))


def test_a_bucket_that_nobody_answers_for_is_named(bucket: str, tmp_path: Path) -> None:
    nobody = S3Blobs(place_of(f"{bucket}?endpoint=http://127.0.0.1:9&patience=1s"), "default", tmp_path, "home-1")
    for call in (lambda: nobody.put(b"content"), lambda: nobody.get(digest(b"content")), lambda: nobody.has("0" * 64)):
        with pytest.raises(BlobsUnreachable, match="error sending request"):
            call()


def test_an_answer_that_does_not_come_in_time_is_not_waited_for_for_ever(
    bad: BadBucket, blobs: S3Blobs, hasty: S3Blobs
) -> None:
    name = blobs.put(b"content")
    bad.every(slow(30))
    with pytest.raises(BlobsUnreachable):
        hasty.get(name)


def test_a_body_that_breaks_off_is_read_again_and_never_given_short(
    bad: BadBucket, through: S3Blobs, hasty: S3Blobs
) -> None:
    name = through.put(b"content")
    bad.first(2, TRUNCATE, "GET", name)
    assert through.get(name) == b"content"
    bad.every(TRUNCATE, "GET", f"{name}/0")
    with pytest.raises(BlobsUnreachable):
        hasty.get(name)


def test_a_part_of_large_content_that_breaks_off_is_read_again_alone(
    bad: BadBucket, through: S3Blobs, blobs: S3Blobs
) -> None:
    name = blobs.put(LARGE)
    bad.first(2, TRUNCATE, "GET", f"{name}/0")
    assert through.get(name) == LARGE


def test_content_that_is_changed_on_its_way_is_never_given(bad: BadBucket, through: S3Blobs) -> None:
    name = through.put(b"content")
    bad.every(changed(b"content", b"contemt"), "GET", f"{name}/0")
    with pytest.raises(IntegrityBroken, match="changed"):
        through.get(name)
    with pytest.raises(IntegrityBroken, match="changed"):
        list(through.pieces(name))


def test_a_bucket_that_ignores_conditions_loses_nothing(bad: BadBucket, through: S3Blobs) -> None:
    bad.every(IGNORE)
    name = through.put(b"content")
    assert through.put(b"content") == name
    trash = through.trash()
    trash.grace_seconds = -60.0
    assert trash.throw(name, lambda _: False)
    assert through.put(b"content") == name  # it is condemned: another key has it now
    assert trash.remove(thrown(trash)[0], lambda _: False)
    assert through.get(name) == b"content"
    assert through.probe()["create_only"] == "ignored"


def test_where_the_bucket_tells_no_checksum_content_is_read_back_before_it_is_relied_on(
    bad: BadBucket, through: S3Blobs
) -> None:
    tag = b"9a0364b9e99bb480dd25e1f0284c8555"  # of b"content"
    bad.every(changed(tag, tag[::-1]))
    name = through.put(b"content")
    assert ("GET", f"{name}/0") in [(method, "/".join(path.split("/")[-2:])) for method, path in bad.seen]


SOMETHING_ELSE = changed(b"<Size>7</Size>", b"<Size>6</Size>")


def test_what_arrives_as_something_else_is_sent_again_for_as_long_as_the_place_is_patient(
    bad: BadBucket, through: S3Blobs, blobs: S3Blobs, clock: ManualClock
) -> None:
    bad.first(20, SOMETHING_ELSE, "GET", "list-type")
    before = clock.boot()
    assert blobs.get(through.put(b"content")) == b"content"
    assert 20e6 < clock.boot() - before < 60e6


def test_what_arrives_as_something_else_in_the_end_is_not_acknowledged(
    bad: BadBucket, through: S3Blobs, clock: ManualClock
) -> None:
    bad.every(SOMETHING_ELSE, "GET", "list-type")
    before = clock.boot()
    with pytest.raises(BlobsUnreachable, match="not what was sent"):
        through.put(b"content")
    assert 58e6 < clock.boot() - before <= 60e6


@pytest.mark.parametrize(("named", "says"), [("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"), ("bucket", "NoSuch")])
def test_a_bucket_that_refuses_is_named_at_once_with_what_to_check(
    named: str, says: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named == "bucket":
        bucket = "s3://no-such-bucket/here"
    else:
        monkeypatch.setenv(named, "another")
    refused = S3Blobs(place_of(bucket), "default", tmp_path, "home-1")
    with pytest.raises(BlobsRefused, match=rf"{says}.*AWS_SECRET_ACCESS_KEY"):
        refused.put(b"content")


def test_who_may_only_read_is_told_so_and_reads(
    blobs: S3Blobs, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = blobs.put(b"content")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "r")
    reader = S3Blobs(place_of(bucket), "default", tmp_path, "home-1")
    assert reader.get(name) == b"content"
    with pytest.raises(BlobsRefused, match="403"):
        reader.put(b"more")
    assert "403" in reader.probe()["writable"]


def test_the_probe_tells_what_the_bucket_does_and_leaves_nothing(blobs: S3Blobs) -> None:
    blobs.put(b"content")
    found = blobs.probe()
    assert found == {
        "reachable": "yes",
        "writable": "yes",
        "owner": "this home",
        "listing": "current",
        "create_only": "enforced",
        "if_match": "enforced",
    }
    assert [path for each in blobs.bucket.listed("") if "probe" in (path := each.path)] == []
    assert seaweed().endpoint not in str(found)
