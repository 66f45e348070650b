"""Artifacts over HTTP: any size, in constant memory, checked on both ends."""

import hashlib
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.errors import IntegrityBroken, OperationConflict

from .client_story import Plain
from .server import Served, served
from .test_client_runs import Cuts

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


@pytest.fixture
def outlast(server: Served) -> Iterator[Outlast]:
    with Outlast(f"http://127.0.0.1:{server.port}") as found:
        yield found


def pieces(count: int) -> Iterator[bytes]:
    """Content that packs well, each piece another."""
    return (number.to_bytes(4, "big") * (MIB // 4) for number in range(count))


def test_what_is_saved_is_read_again_in_every_way(outlast: Outlast, tmp_path: Path) -> None:
    content = "grüße\n".encode() * 1000
    file = tmp_path / "in.bin"
    file.write_bytes(content)
    for given in (content, content.decode(), file, io.BytesIO(content), iter((content[:10], content[10:]))):
        saved = outlast.workspace.save("ways.txt", given)
        assert (saved.digest, saved.size) == (hashlib.sha256(content).hexdigest(), len(content))
        assert (saved.read(), saved.text()) == (content, content.decode())
    assert outlast.workspace.get("ways.txt").save_to(tmp_path / "out.bin").read_bytes() == content
    with outlast.workspace.get(saved.ref).open() as stream:
        assert (stream.read(5), stream.read()) == (content[:5], content[5:])
    assert outlast.workspace.save("empty", b"").read() == b""


def test_the_same_story_gives_the_same_values(outlast: Outlast, tmp_path: Path) -> None:
    plain = []
    with Outlast(tmp_path / "home", scope="w") as embedded, Outlast(outlast._line.url, scope="w") as remote:
        for each in (embedded, remote):
            work = each.workspace
            text, raw = work.save("a", "text", tags=("b", "a", "a"), source="hand"), work.save("b", b"raw", summary="s")
            again = work.save("a", "text", operation_id="once")
            note = work.record("observation", "it is so", refs=[text.ref], tags=["x"], pinned=True, operation_id="r1")
            against = work.record("evidence", "it is not so", source="mail")
            linked = work.link(against.ref, "contradicts", note.ref, "see mail")
            first = work.checkpoint("first", "began", [text.ref], task="t")
            second = work.checkpoint("second", refs=[raw.ref], task="t")
            told = [text, raw, again, again.replayed, note, linked, first, second, work.pin(note.ref, pinned=False)]
            told += [
                work.versions("a"),
                work.list(tag="a"),
                work.list(prefix="b"),
                work.links(note.ref),
                work.why(note.ref),
            ]
            told += [str(work.why(note.ref)), work.records(kind="evidence"), work.get_record(note.ref)]
            told += [
                work.checkpoints(task="t"),
                work.checkpoints(limit=1, before=second.id),
                work.diff(first.id, second.id),
            ]
            told += [
                work.recall("is it so?", kinds=["observation", "evidence"]),
                work.recall("so", kinds="note").prompt(),
            ]
            talk = each.sessions
            talk.open("s", meta={"a": 1})
            talk.append_many("s", [{"role": "system", "content": "be kind"}, {"role": "user", "content": {"q": [1]}}])
            told += [talk.append("s", "assistant", "yes", run_id="r"), talk.set_memo("s", "asked", upto=2, expected=0)]
            told += [
                talk.get("s"),
                talk.messages("s", after=1, limit=1),
                talk.last("s", 2),
                talk.memo("s"),
                talk.list(),
            ]
            told += [talk.window("s", 100), talk.window("s", 8)]
            plain.append(Plain()(told))
    for place, (wanted, found) in enumerate(zip(*plain, strict=True)):
        assert found == wanted, place


def test_64_mib_go_up_and_down_in_constant_memory(outlast: Outlast, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        saved = outlast.workspace.save("large.bin", pieces(64))
        target = saved.save_to(tmp_path / "large.bin")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (saved.size, target.stat().st_size) == (64 * MIB, 64 * MIB)
    with target.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == saved.digest
    assert peak < 24 * MIB, f"{peak / MIB:.0f} MiB"  # the server's own part is in it too


def test_a_download_that_breaks_is_taken_up_where_it_was(server: Served, outlast: Outlast) -> None:
    saved = outlast.workspace.save("broken.bin", pieces(6))
    cuts = Cuts(server, 2 * MIB)
    with Outlast(cuts.url, store_options={"retry_seconds": 0.001}) as other:
        content = other.workspace.get(saved.ref).read()
    cuts.close()
    assert hashlib.sha256(content).hexdigest() == saved.digest
    assert cuts.lines > 3


def test_an_upload_whose_answer_was_lost_is_saved_once(server: Served) -> None:
    cuts = Cuts(server, 1 << 20, swallow=1)
    with Outlast(cuts.url, store_options={"retry_seconds": 0.01}) as outlast:
        saved = outlast.workspace.save("lost.bin", iter((b"a" * MIB, b"b")))
        assert [each.version for each in outlast.workspace.versions("lost.bin")] == [1]
        assert saved.read() == b"a" * MIB + b"b"
    cuts.close()


def test_other_content_under_the_same_operation_is_a_conflict(outlast: Outlast) -> None:
    outlast.workspace.save("op", b"one", operation_id="up")
    assert outlast.workspace.save("op", b"one", operation_id="up").replayed
    with pytest.raises(OperationConflict):
        outlast.workspace.save("op", b"two", operation_id="up")


def test_content_that_is_not_what_was_saved_is_never_taken_for_it(server: Served, outlast: Outlast) -> None:
    saved = outlast.workspace.save("damaged.bin", b"x" * 100)
    path = next(path for path in (server.home / "default" / "blobs").rglob("*") if path.name == saved.digest)
    path.write_bytes(b"y" * 100)
    with pytest.raises(IntegrityBroken):
        saved.read()


def test_content_that_was_changed_on_its_way_is_never_taken_for_it(server: Served, outlast: Outlast) -> None:
    saved = outlast.workspace.save("way.bin", b"the content")
    line = Cuts(server, swap=(b"the content", b"THE CONTENT"))
    with Outlast(line.url) as other, pytest.raises(IntegrityBroken):
        other.workspace.get(saved.ref).read()
    line.close()
