"""Artifacts: what is saved comes back, checked; once in a body, with the receipt in a step, and never half."""

import asyncio
import io
import os
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast import (
    KEY,
    NOT_DONE,
    AsyncOutlast,
    AsyncRun,
    Happened,
    NotDone,
    Outlast,
    Run,
    current,
    effect,
    flow,
    step,
)
from outlast.errors import (
    ArtifactNotFound,
    IntegrityBroken,
    NameInvalid,
    OperationConflict,
    Refused,
    ValueRefused,
)
from outlast.store.nouns.workspace import WorkspaceWriter
from outlast.workspace import artifact, refs
from outlast.workspace.artifact import Artifact
from outlast.workspace.content import media_type_of
from outlast.workspace.refs import ArtifactPlace, parse_ref

from ..kit.place import KNOBS, reach
from ..kit.place import Place as Home
from ..ready import completed

LONG = "the tide comes in, the tide goes out\n" * 4000  # packs well
NOISE = os.urandom(64 << 10)  # does not


def blob_files(place: Home) -> list[Path]:
    return sorted(path for path in (place.home / "default" / "blobs").glob("??/*") if not path.name.startswith("."))


def temporary_files(place: Home) -> list[Path]:
    return sorted((place.home / "default" / "blobs").glob("??/.*"))


def rows(place: Home, sql: str) -> list[Any]:
    """Ask the database from another process: this one has it open."""
    code = "import apsw, json, sys; print(json.dumps(list(apsw.Connection(sys.argv[1]).execute(sys.argv[2]))))"
    file = place.home / "default" / "outlast.db"
    done = subprocess.run([sys.executable, "-c", code, file, sql], capture_output=True, text=True, check=True)
    import json

    return list(json.loads(done.stdout))


def tamper(place: Home, sql: str) -> None:
    place.close()
    code = "import apsw, sys; apsw.Connection(sys.argv[1]).execute(sys.argv[2])"
    completed(("-c", code, place.home / "default" / "outlast.db", sql), check=True)


# -- saving and reading ------------------------------------------------------------------------------


def test_what_is_saved_comes_back_with_all_that_was_said(place: Home) -> None:
    saved = place.outlast.workspace.save(
        "notes/día 1.md", "añb\n", summary="Two\nlines", source="by hand", tags=["b", "a", "b"]
    )
    found = place.reopen().workspace.get(saved.ref)
    assert (found, found.text(), found.read()) == (saved, "añb\n", "añb\n".encode())
    assert (found.ref, found.version, found.size) == ("artifact:default/notes/día 1.md@1", 1, 5)
    assert (found.media_type, found.summary, found.tags) == ("text/markdown", "Two\nlines", ("a", "b"))
    assert (found.source.actor, found.source.run_id, found.source.origin) == ("local", "", "by hand")
    assert not found.replayed


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"x",
        bytearray(b"xyz"),
        memoryview(b"a" * 10),
        "text",
        LONG,
        NOISE,
        io.BytesIO(b"stream"),
        iter([b"a", b"", b"b"]),
    ],
    ids=["empty", "bytes", "bytearray", "memoryview", "text", "long", "noise", "stream", "iterator"],
)
def test_every_kind_of_content_comes_back(place: Home, given: Any) -> None:
    expected = {io.BytesIO: b"stream", str: None}.get(type(given), b"ab" if isinstance(given, Iterator) else None)
    if expected is None:
        expected = given.encode() if isinstance(given, str) else bytes(given)
    saved = place.outlast.workspace.save("x", given)
    assert saved.read() == expected
    with saved.open() as stream:
        assert stream.read() == expected
    assert saved.save_to(place.folder / "out").read_bytes() == expected
    assert temporary_files(place) == []


def test_a_path_is_read_and_links_to_files_are_followed(place: Home) -> None:
    (place.folder / "real.bin").write_bytes(NOISE)
    (place.folder / "link.bin").symlink_to("real.bin")
    assert place.outlast.workspace.save("a", place.folder / "link.bin").read() == NOISE


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "missing", "unreadable"])
def test_what_is_no_readable_file_is_refused_by_its_name(place: Home, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else place.folder / "given"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "unreadable":
        path.symlink_to(path)  # a link to itself; a file without permissions is readable to root
    with pytest.raises(ValueRefused, match=path.name):
        place.outlast.workspace.save("x", path)
    assert place.outlast.workspace.list() == []
    assert blob_files(place) + temporary_files(place) == []


@pytest.mark.parametrize(
    "given",
    [None, 3, {"a": b"x"}, [b"x"], io.StringIO("text"), iter(["text"]), "\udc80"],
    ids=lambda given: type(given).__name__,
)
def test_what_is_no_content_is_refused_and_leaves_nothing(place: Home, given: Any) -> None:
    with pytest.raises(ValueRefused, match="content"):
        place.outlast.workspace.save("x", given)
    assert blob_files(place) + temporary_files(place) == []


def test_a_stream_that_breaks_leaves_nothing(place: Home) -> None:
    def breaks() -> Iterator[bytes]:
        yield NOISE
        raise RuntimeError("the line broke")

    with pytest.raises(RuntimeError, match="the line broke"):
        place.outlast.workspace.save("x", breaks())
    assert (place.outlast.workspace.list(), blob_files(place), temporary_files(place)) == ([], [], [])


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "..",
        "../../etc/passwd",
        "/abs",
        "a@2b",
        "@",
        "a@b@c",
        "emoji 🌊",
        "quote'\"",
        "%2F",
        "x" * 500,
        "con:trol",
        "-rf",
    ],
)
def test_any_printable_name_is_only_a_name(place: Home, name: str) -> None:
    saved = place.outlast.workspace.save(name, name)
    assert place.outlast.workspace.get(saved.ref).text() == name
    assert place.outlast.workspace.get(name).ref == saved.ref
    assert [path.parent.parent.name for path in blob_files(place)] == ["blobs"]


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a\nb", "a\0b", "x" * 501, "artifact:default/x@1", "\x1b[31m", None, 7]
)
def test_a_name_that_cannot_be_one_is_refused(place: Home, name: Any) -> None:
    with pytest.raises(NameInvalid):
        place.outlast.workspace.save(name, b"x")
    assert blob_files(place) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("summary", "x" * 10_001), ("summary", 3), ("summary", "\udc80"), ("source", {"a": 1}), ("tags", "draft"),
        ("tags", [""]), ("tags", [3]), ("tags", ["a\nb"]), ("tags", [str(n) for n in range(101)]), ("tags", 7),
        ("media_type", "markdown"), ("media_type", "a b/c"), ("media_type", 3), ("media_type", "x/" + "y" * 300),
    ],
)  # fmt: skip
def test_a_field_that_does_not_fit_is_refused_by_its_path(place: Home, field: str, value: Any) -> None:
    with pytest.raises(ValueRefused) as refused:
        place.outlast.workspace.save("x", b"x", **{field: value})
    assert refused.value.path.startswith(field)
    assert blob_files(place) == []


def test_ten_thousand_characters_of_summary_are_kept_whole(place: Home) -> None:
    summary = "🌊'\"\n\0" * 2000
    assert place.outlast.workspace.save("x", b"x", summary=summary).summary == summary
    assert place.reopen().workspace.get("x").summary == summary


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.integers(1, 10**12))
def test_a_ref_names_one_place_whatever_is_in_it(scope: str, name: str, version: int) -> None:
    place = ArtifactPlace(scope, name, version)
    assert parse_ref(place.ref) == place


@pytest.mark.parametrize(
    "ref", ["artifact:", "artifact:a", "artifact:a/b", "artifact:a/b@0", "artifact:a/b@x", "record:a/b@1"]
)
def test_what_is_no_ref_names_nothing(place: Home, ref: str) -> None:
    assert parse_ref(ref) is None
    with pytest.raises(ArtifactNotFound):
        place.outlast.workspace.get(ref)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.md", "text/markdown"), ("a.JSON", "application/json"), ("a.tar.gz", "application/gzip"),
     ("a.png", "image/png"), ("a.yml", "application/yaml"), ("a", "application/octet-stream")],
)  # fmt: skip
def test_the_media_type_is_told_by_the_name(name: str, kind: str) -> None:
    assert media_type_of(name, b"") == kind


def test_text_of_no_known_kind_is_text(place: Home) -> None:
    assert place.outlast.workspace.save("a", "x").media_type == "text/plain"
    assert place.outlast.workspace.save("b", "x", media_type="x/y; v=1").media_type == "x/y; v=1"


def test_what_is_no_text_says_so(place: Home) -> None:
    saved = place.outlast.workspace.save("a", b"\xff\xfe")
    with pytest.raises(ValueRefused, match=r"read\(\)"):
        saved.text()
    assert saved.text("utf-16") == ""


# -- versions ----------------------------------------------------------------------------------------


def test_the_same_content_again_is_the_same_version_and_other_content_the_next(place: Home) -> None:
    save = place.outlast.workspace.save
    first, again = save("x", b"1", summary="first"), save("x", b"1", summary="second")
    assert (again.ref, again.replayed, again.summary) == (first.ref, True, "first")
    assert [save("x", b"2").version, save("x", b"1").version] == [2, 3]  # the newest is what was saved last
    assert [one.version for one in place.outlast.workspace.versions("x")] == [3, 2, 1]
    assert place.outlast.workspace.get("x").read() == b"1"
    assert place.outlast.workspace.get("x@2").read() == b"2"
    assert place.outlast.workspace.get("artifact:default/x@2").read() == b"2"


def test_a_name_that_looks_like_a_version_is_refused(place: Home) -> None:
    for content in (b"x1", b"x2"):
        place.outlast.workspace.save("x", content)
    with pytest.raises(NameInvalid):
        place.outlast.workspace.save("x@2", b"its own")
    assert place.outlast.workspace.get("x@2").read() == b"x2"


@pytest.mark.parametrize(
    "asked", ["y", "x@2", "artifact:default/x@2", "artifact:other/x@1", "artifact:default/y@1", ""]
)
def test_what_is_not_there_is_not_found(place: Home, asked: str) -> None:
    place.outlast.workspace.save("x", b"1")
    with pytest.raises(ArtifactNotFound, match="outlast workspace list"):
        place.outlast.workspace.get(asked)


def test_an_operation_id_gives_the_first_answer_and_refuses_another_request(place: Home) -> None:
    save = place.outlast.workspace.save
    first = save("x", b"1", operation_id="op")
    save("x", b"2")
    again = save("x", b"1", operation_id="op")
    assert (again.ref, again.replayed) == (first.ref, True)
    for changed in ({"content": b"3"}, {"summary": "other"}, {"name": "y"}, {"tags": ["t"]}):
        with pytest.raises(OperationConflict):
            save(**{"name": "x", "content": b"1", **changed}, operation_id="op")
    assert [one.version for one in place.outlast.workspace.versions("x")] == [2, 1]


def test_scopes_have_names_of_their_own_and_refs_lead_across(place: Home) -> None:
    with Outlast(place.home, scope="a/b%", actor="ann") as other:
        saved = other.workspace.save("c", b"theirs")
        assert (saved.ref, saved.source.actor) == ("artifact:a%2Fb%25/c@1", "ann")
    mine = place.outlast.workspace.save("c", b"mine")
    assert place.outlast.workspace.get("c").ref == mine.ref
    assert place.outlast.workspace.get(saved.ref).read() == b"theirs"
    assert [one.ref for one in place.outlast.workspace.list()] == [mine.ref]
    assert [one.ref for one in place.outlast.workspace.list(scope="a/b%")] == [saved.ref]


def test_tenants_see_nothing_of_each_other(place: Home) -> None:
    place.outlast.workspace.save("x", b"1")
    with Outlast(place.home, tenant="acme") as other:
        assert other.workspace.list() == []
        with pytest.raises(ArtifactNotFound):
            other.workspace.get("artifact:default/x@1")


def test_lists_are_narrowed_by_prefix_and_tag_and_come_newest_first(place: Home) -> None:
    for name, tags in (("a/1", ["t"]), ("a/2", []), ("b", ["t", "u"]), ("a/1", ["u"])):
        place.outlast.workspace.save(name, os.urandom(8), tags=tags)

    def names(**by: Any) -> list[str]:
        return [f"{one.name}@{one.version}" for one in place.outlast.workspace.list(**by)]

    assert names() == ["a/1@2", "b@1", "a/2@1"]
    assert names(limit=2) == ["a/1@2", "b@1"]
    assert names(prefix="a/") == ["a/1@2", "a/2@1"]
    assert (names(tag="t"), names(tag="u"), names(tag="u", prefix="a")) == (["b@1"], ["a/1@2", "b@1"], ["a/1@2"])
    assert names(tag="%") == names(prefix="_") == names(limit=0) == []


def test_a_long_list_is_read_in_pages(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refs, "PAGE", 7)
    for number in range(40):
        place.outlast.workspace.save(f"{number:04}", b"same", tags=["t"])
    expected = [f"{number:04}" for number in reversed(range(40))]
    for by in ({}, {"prefix": "00"}, {"tag": "t"}):
        assert [one.name for one in place.outlast.workspace.list(limit=1000, **by)] == expected
    assert len(place.outlast.workspace.list(prefix="003", limit=9)) == 9
    assert len(blob_files(place)) == 1


# -- what is stored ----------------------------------------------------------------------------------


def test_equal_content_is_stored_once_in_the_tenant_whatever_its_name_or_scope(place: Home) -> None:
    for name, kind in (("a.txt", None), ("b.png", "image/png"), ("c", None)):
        place.outlast.workspace.save(name, LONG, media_type=kind)
    with Outlast(place.home, scope="other") as other:
        assert other.workspace.save("d", LONG).text() == LONG
    assert len(blob_files(place)) == 1


def test_content_is_packed_where_that_saves_a_quarter(place: Home) -> None:
    saved = place.outlast.workspace.save("long.txt", LONG)
    (file,) = blob_files(place)
    assert file.stat().st_size < len(LONG) / 4
    assert (saved.size, saved.text()) == (len(LONG), LONG)
    assert zlib.decompress(file.read_bytes()).decode() == LONG


@pytest.mark.parametrize(
    ("name", "content"),
    [("noise", NOISE), ("half", os.urandom(7000) + b"a" * 2000), ("x.png", b"a" * 9000), ("s", b"a" * 4095)],
    ids=["noise", "half", "image", "small"],
)
def test_content_that_would_not_shrink_or_is_packed_already_is_stored_as_it_is(
    place: Home, name: str, content: bytes
) -> None:
    saved = place.outlast.workspace.save(name, content)
    (file,) = blob_files(place)
    assert file.read_bytes() == content == saved.read()
    assert file.name == saved.digest


def test_a_result_that_is_a_blob_already_is_shared(place: Home) -> None:
    name = place.outlast._executor.home.blobs.put(LONG.encode())
    saved = place.outlast.workspace.save("a", LONG)
    assert [path.name for path in blob_files(place)] == [name] == [saved.digest]


def test_a_spoilt_blob_is_healed_by_saving_its_content_again(place: Home) -> None:
    saved = place.outlast.workspace.save("a", LONG)
    (file,) = blob_files(place)
    file.write_bytes(b"spoilt")
    assert place.outlast.workspace.save("b", LONG).text() == LONG
    assert saved.text() == LONG
    assert place.outlast.verify().ok


@pytest.mark.parametrize("content", [LONG.encode(), NOISE], ids=["packed", "raw"])
@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "gone", "empty"])
def test_damage_is_found_by_every_way_of_reading_and_named_by_verify(place: Home, content: bytes, damage: str) -> None:
    saved = place.outlast.workspace.save("x", content)
    place.outlast.workspace.save("y", b"another")
    file = max(blob_files(place), key=lambda path: path.stat().st_size)
    spoil(file, damage)
    target = place.folder / "out"
    target.write_text("as it was")
    for read in (saved.read, lambda: saved.open().read(), lambda: saved.save_to(target)):
        with pytest.raises(IntegrityBroken, match="artifact:default/x@1"):
            read()
    assert target.read_text() == "as it was"
    assert sorted(path.name for path in place.folder.iterdir()) == [".outlast", "out"]
    (problem,) = place.outlast.verify().problems
    assert problem.record == saved.ref


def spoil(file: Path, damage: str) -> None:
    content = file.read_bytes()
    middle = len(content) // 2
    changed = {
        "flip": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "cut": content[:-1],
        "longer": content + b"x",
        "empty": b"",
    }
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(changed[damage])


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE artifacts SET summary = 'better' WHERE name = 'x'",
        "UPDATE artifacts SET version = 7 WHERE name = 'x'",
        "UPDATE artifacts SET source = '{\"actor\":\"boss\"}' WHERE name = 'x'",
        "UPDATE artifacts SET blob = (SELECT blob FROM artifacts WHERE name = 'y') WHERE name = 'x'",
        "DELETE FROM artifacts WHERE name = 'x'",
        "DELETE FROM artifact_tags WHERE artifact = (SELECT key FROM artifacts WHERE name = 'x')",
        "DELETE FROM artifact_blobs WHERE artifact = (SELECT key FROM artifacts WHERE name = 'x')",
    ],
)  # fmt: skip
def test_a_changed_row_is_named_by_verify(place: Home, sql: str) -> None:
    place.outlast.workspace.save("y", b"2")
    place.outlast.workspace.save("x", b"1", tags=["t"])
    assert place.outlast.verify().ok
    tamper(place, sql)
    problems = place.outlast.verify().problems
    assert problems
    assert all("x@" in problem.record or problem.record == "artifact number 2" for problem in problems)


def test_whole_content_of_another_artifact_is_not_taken_for_its_own(place: Home) -> None:
    for name, content in (("y", b"2"), ("x", b"1")):
        place.outlast.workspace.save(name, content)
    tamper(place, "UPDATE artifacts SET blob = (SELECT blob FROM artifacts WHERE name = 'y') WHERE name = 'x'")
    with pytest.raises(IntegrityBroken, match="artifact:default/x@1"):
        place.outlast.workspace.get("x").read()
    assert place.outlast.workspace.get("y").read() == b"2"


def test_doctor_and_verify_count_them(place: Home) -> None:
    for name in "ab":
        place.outlast.workspace.save(name, name)
    place.outlast.workspace.checkpoint("here", task="t")
    found = place.outlast.verify()
    assert (found.ok, found.artifacts, found.checkpoints, found.blobs) == (True, 2, 1, 2)
    assert place.outlast.facts()["artifacts"] == {"saved": 2, "pending": 0}
    assert place.outlast.facts()["checkpoints"] == 1


# -- size --------------------------------------------------------------------------------------------

MEBIBYTES = int(os.environ.get("OUTLAST_TEST_ARTIFACT_MIB", "64"))  # 1024: the whole promise, in a minute or so


@pytest.mark.parametrize("kind", ["noise", "text"])
def test_a_large_stream_takes_little_memory_to_save_read_and_check(place: Home, kind: str) -> None:
    piece = os.urandom(1 << 20) if kind == "noise" else b"line of a log, more or less\n" * 37449
    outlast = place.outlast
    tracemalloc.start()
    try:
        saved = outlast.workspace.save("large", (piece for _ in range(MEBIBYTES)))
        with saved.open() as stream:
            while stream.read(1 << 20):
                pass
        saved.save_to(place.folder / "out")
        assert outlast.verify().ok
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert saved.size == len(piece) * MEBIBYTES == (place.folder / "out").stat().st_size
    assert peak < 16 << 20


# -- many at once, and gc ----------------------------------------------------------------------------


def together(work: Callable[[int], Any], count: int) -> list[Any]:
    results: list[Any] = [None] * count

    def one(number: int) -> None:
        try:
            results[number] = work(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def make_old(place: Home) -> None:
    for file in [*blob_files(place), *temporary_files(place), *(place.home / "default" / "blobs" / "trash").glob("*")]:
        os.utime(file, (1, 1))


@pytest.mark.parametrize("lies_about", [False, True], ids=["new", "lies-about"])
def test_saves_of_one_content_at_once_share_a_blob_while_gc_runs(place: Home, lies_about: bool) -> None:
    if lies_about:  # it is old and nobody needs it: gc takes it, or a saver is first
        place.outlast._executor.home.blobs.put(LONG.encode())
        make_old(place)
    over = threading.Event()

    def sweep() -> None:
        while not over.is_set():
            place.outlast.gc(dry_run=False)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    saved = together(lambda number: place.outlast.workspace.save(f"n{number}", LONG), 64)
    over.set()
    sweeper.join(60)
    assert len({one.ref for one in saved}) == 64
    blobs = len(rows(place, "SELECT DISTINCT blob FROM artifacts"))
    assert blobs == 1 or (lies_about and blobs == 2)  # packed from the moment on in which the other one was gone
    place.outlast.gc(dry_run=False)
    assert place.outlast.verify().ok
    assert {one.text() for one in saved} == {LONG}


def test_saves_at_once_under_one_name_are_numbered_without_doubles(place: Home) -> None:
    saved = together(lambda number: place.outlast.workspace.save("x", str(number)), 16)
    assert sorted(one.version for one in saved) == list(range(1, 17))
    assert len(blob_files(place)) == 16
    saved = together(lambda number: place.outlast.workspace.save("y", b"same"), 16)
    assert {one.ref for one in saved} == {"artifact:default/y@1"}


def test_gc_never_takes_what_an_artifact_needs_and_says_so(place: Home) -> None:
    saved = place.run(saves_in_both).unwrap()
    make_old(place)
    swept = place.outlast.gc(older_than=0, dry_run=False)
    assert [len(swept.runs), swept.blobs] == [1, 0]
    assert any("artifacts, whoever saved them" in line for line in swept.proof)
    make_old(place)
    place.outlast.gc(older_than=0, dry_run=False)
    assert [place.outlast.workspace.get(ref).text() for ref in saved] == [LONG, "body"]
    assert len(place.outlast.workspace.list(run=swept.runs[0].id)) == 2  # by the whole id of a run that is gone
    assert place.outlast.verify().ok


# -- in a run ----------------------------------------------------------------------------------------


@step(retries=1)
def saves(name: str, content: str) -> str:
    saved = current().workspace.save(name, content)
    assert current().workspace.get(saved.ref).text() == content
    assert current().workspace.get(name).ref == saved.ref
    again = current().workspace.save(name, content)
    assert again.ref == saved.ref
    reach(f"saved {name}")
    return saved.ref


@flow
def saves_in_both(run: Run) -> list[str]:
    first = saves("step.txt", LONG)
    second = run.workspace.save("body.txt", KNOBS.get("content", "body"), source="a flow")
    reach("between")
    return [first, second.ref]


def test_a_run_fills_in_the_source_and_the_receipt_names_the_refs(place: Home) -> None:
    outcome = place.run(saves_in_both, task="t")
    in_step, in_body = (place.outlast.workspace.get(ref) for ref in outcome.unwrap())
    assert (in_step.source.run_id, in_step.source.step, in_step.source.attempt) == (outcome.run_id, "saves", 1)
    assert (in_body.source.run_id, in_body.source.step, in_body.source.origin) == (outcome.run_id, "", "a flow")
    (receipt,) = place.receipts("saves")
    assert receipt.artifacts == receipt.envelope.artifacts == (in_step.ref,)
    assert {one.ref for one in place.outlast.workspace.list(run=outcome.run_id)} == {in_step.ref, in_body.ref}
    assert place.outlast.facts()["artifacts"] == {"saved": 2, "pending": 0}


def test_on_replay_a_body_gets_its_first_answer_and_writes_nothing(place: Home) -> None:
    place.crash(saves_in_both, at="between")
    KNOBS.clear()
    KNOBS["log"] = str(place.log)
    KNOBS["content"] = "other content"
    refs = place.run(saves_in_both).unwrap()
    assert place.outlast.workspace.get(refs[1]).text() == "body"
    assert [one.version for one in place.outlast.workspace.versions("body.txt")] == [1]
    assert place.outlast.replay(place.run_id).ok


def test_a_step_that_was_killed_after_saving_leaves_nothing_to_see_and_saves_again(place: Home) -> None:
    place.crash(saves_in_both, at="saved step.txt")
    assert place.outlast.workspace.list() == []
    with pytest.raises(ArtifactNotFound):
        place.outlast.workspace.get("artifact:default/step.txt@1")
    assert place.outlast.facts()["artifacts"] == {"saved": 0, "pending": 1}
    assert place.outlast.verify().ok
    KNOBS.pop("die", None)
    assert place.run(saves_in_both).unwrap() == ["artifact:default/step.txt@1", "artifact:default/body.txt@1"]
    assert place.outlast.facts()["artifacts"] == {"saved": 2, "pending": 0}


def test_what_a_killed_step_of_a_run_that_was_given_up_saved_is_found_by_gc(place: Home) -> None:
    place.crash(saves_in_both, at="saved step.txt")
    KNOBS.pop("die", None)
    make_old(place)
    assert place.outlast.gc().blobs == 0  # the run may yet go on
    place.outlast.abort(place.run_id, why="enough")
    assert place.outlast.gc().blobs == 1
    assert place.outlast.gc(dry_run=False).blobs == 1
    assert place.outlast.facts()["artifacts"] == {"saved": 0, "pending": 0}
    assert rows(place, "SELECT * FROM artifact_blobs") == []
    assert place.outlast.verify().ok


def test_content_of_a_step_under_way_is_safe_from_gc_for_as_long_as_it_takes(place: Home) -> None:
    KNOBS["sweep"] = lambda: (
        make_old(place),
        place.outlast.gc(dry_run=False),
        make_old(place),
        place.outlast.gc(dry_run=False),
    )
    assert place.outlast.workspace.get(place.run(slow).unwrap()).text() == LONG
    assert place.outlast.verify().ok


@step
def works_for_hours() -> str:
    ref = current().workspace.save("early", LONG).ref
    KNOBS["sweep"]()
    return ref


@flow
def slow(run: Run) -> str:
    return works_for_hours()


def test_saves_of_a_failed_attempt_are_dropped_and_those_of_the_next_one_seen(place: Home) -> None:
    KNOBS["raise"] = ("saved step.txt", ValueError("no luck"))
    with pytest.raises(Exception, match="no luck"):
        place.run(saves_in_both).unwrap()
    assert place.outlast.workspace.list() == []
    assert [receipt.artifacts for receipt in place.receipts("saves")] == [(), ()]
    assert place.outlast.facts()["artifacts"] == {"saved": 0, "pending": 0}
    KNOBS.pop("raise")
    assert place.run(saves_in_both).unwrap()[0] == "artifact:default/step.txt@1"  # the same content


@step
def looks_from_outside(name: str) -> list[str]:
    current().workspace.save(name, "not yet")
    seen = [one.name for one in KNOBS["outside"].workspace.list()]
    try:
        KNOBS["outside"].workspace.get(name)
    except ArtifactNotFound:
        seen.append("not found")
    return seen


@flow
def is_seen(run: Run) -> list[str]:
    return looks_from_outside("x")


def test_nobody_sees_what_a_step_saved_before_it_has_succeeded(place: Home) -> None:
    KNOBS["outside"] = place.outlast
    assert place.run(is_seen).unwrap() == ["not found"]
    assert place.outlast.workspace.get("x").text() == "not yet"


@step
def saves_part(number: int) -> str:
    return current().workspace.save("part", f"part {number % 3}").ref


@flow
def saves_in_a_map(run: Run) -> list[str]:
    return run.map(saves_part, range(12), concurrency=6)


def test_steps_at_once_never_share_a_version_that_has_other_content(place: Home) -> None:
    refs = place.run(saves_in_a_map).unwrap()
    assert [place.outlast.workspace.get(ref).text() for ref in refs] == [f"part {number % 3}" for number in range(12)]
    assert place.outlast.verify().ok


@step(timeout=0.2)
def saves_late() -> str:
    KNOBS["over"].wait(30)
    try:
        return current().workspace.save("late", b"x").ref
    except BaseException as error:
        KNOBS["late"] = error
        KNOBS["done"].set()
        raise


@flow
def times_out(run: Run) -> str:
    try:
        return saves_late()
    finally:
        KNOBS["over"].set()
        KNOBS["done"].wait(30)


def test_a_body_that_works_on_after_its_time_cannot_save(place: Home) -> None:
    KNOBS["over"], KNOBS["done"] = threading.Event(), threading.Event()
    assert place.run(times_out).status == "failed"
    assert isinstance(KNOBS["late"], Refused)
    assert place.outlast.workspace.list() == []


def until_it_is_over() -> Iterator[bytes]:
    KNOBS["over"].wait(30)
    yield b"late"


@step(timeout=0.2)
def is_still_reading() -> str:
    try:
        return current().workspace.save("late", until_it_is_over()).ref
    except BaseException as error:
        KNOBS["late"] = error
        KNOBS["done"].set()
        raise


@flow
def times_out_while_saving(run: Run) -> str:
    try:
        return is_still_reading()
    finally:
        KNOBS["over"].set()
        KNOBS["done"].wait(30)


def test_a_save_under_way_when_its_attempt_ends_leaves_no_row(place: Home) -> None:
    KNOBS["over"], KNOBS["done"] = threading.Event(), threading.Event()
    assert place.run(times_out_while_saving).status == "failed"
    assert isinstance(KNOBS["late"], Refused)
    assert place.outlast.facts()["artifacts"] == {"saved": 0, "pending": 0}


@step
def tells_its_ref() -> str:
    saved = current().workspace.save("r.md", KNOBS["contents"].pop(0))
    KNOBS["refs"].append(saved.ref)
    if KNOBS["contents"]:
        raise ValueError("once more")
    return saved.ref


@flow
def tells_refs(run: Run) -> str:
    return tells_its_ref()


def test_a_number_that_a_failed_attempt_had_is_never_given_to_other_content(place: Home) -> None:
    KNOBS["contents"], KNOBS["refs"] = ["first", "second", "third"], []
    assert place.run(tells_refs).status == "failed"
    assert place.run(tells_refs).status == "failed"
    ref = place.run(tells_refs).unwrap()
    assert KNOBS["refs"] == [f"artifact:default/r.md@{number}" for number in (1, 2, 3)]
    assert [one.ref for one in place.outlast.workspace.versions("r.md")] == [ref]
    with pytest.raises(ArtifactNotFound):
        place.outlast.workspace.get(KNOBS["refs"][0])
    assert place.outlast.workspace.save("r.md", "fourth").version == 4
    assert place.outlast.facts()["artifacts"] == {"saved": 2, "pending": 0}
    assert place.outlast.verify().ok
    assert rows(place, "SELECT count(*) FROM artifacts") == [[2]]  # of what was dropped only the number is kept


@step
def saves_all(given: str) -> list[str]:
    refs = [current().workspace.save("r.md", part).ref for part in KNOBS["parts"]]
    if KNOBS.get("fails"):
        raise ValueError("not yet")
    return refs


@flow
def saves_parts(run: Run) -> list[str]:
    return saves_all("x")


@pytest.mark.parametrize(("parts", "numbers"), [("abc", (1, 2, 3)), ("axc", (1, 4, 5)), ("cab", (3, 4, 5))])
def test_a_step_that_is_tried_again_gets_its_numbers_again_for_equal_content_only(
    place: Home, parts: str, numbers: tuple[int, ...]
) -> None:
    KNOBS["parts"], KNOBS["fails"] = "abc", True
    assert place.run(saves_parts).status == "failed"
    KNOBS["parts"], KNOBS["fails"] = parts, False
    refs = place.run(saves_parts).unwrap()
    assert refs == [f"artifact:default/r.md@{number}" for number in numbers]
    assert [place.outlast.workspace.get(ref).text() for ref in refs] == list(parts)
    assert place.outlast.workspace.get("r.md").ref == place.outlast.workspace.list()[0].ref == refs[-1]
    assert place.outlast.verify().ok


def test_content_that_only_a_dropped_save_had_is_stored_anew(place: Home) -> None:
    KNOBS["contents"], KNOBS["refs"] = [LONG, "second"], []
    assert place.run(tells_refs).status == "failed"
    make_old(place)
    assert place.outlast.gc(dry_run=False).blobs == 1
    assert place.outlast.workspace.get(place.outlast.workspace.save("other", LONG).ref).text() == LONG
    assert place.outlast.verify().ok
    assert place.outlast.verify().artifacts == 1


def was_sent(key: str) -> object:
    return KNOBS["probe"](key)


@effect(confirm=was_sent)
def sends(key: str = KEY) -> str:
    current().workspace.save("sent", b"what was sent")
    raise KNOBS["error"]


@flow
def sends_once(run: Run) -> str:
    try:
        return sends()
    except ConnectionError:
        return "no"


@pytest.mark.parametrize(("answer", "seen"), [(Happened("yes"), ["sent"]), (NOT_DONE, [])])
def test_saves_of_an_effect_in_doubt_are_seen_if_its_probe_says_that_it_happened(
    place: Home, answer: Any, seen: list[str]
) -> None:
    KNOBS["probe"], KNOBS["error"] = (lambda key: answer), ConnectionError("broken")
    assert place.run(sends_once).unwrap() == ("yes" if seen else "no")
    assert [one.name for one in place.outlast.workspace.list()] == seen
    assert place.outlast.facts()["artifacts"]["pending"] == 0
    refs = [ref for receipt in place.receipts("sends") for ref in receipt.artifacts]
    assert refs == ([place.outlast.workspace.get("sent").ref] if seen else [])


def test_an_effect_that_says_not_done_drops_what_it_saved(place: Home) -> None:
    KNOBS["error"] = NotDone("nothing was sent")
    assert place.run(sends_once).status == "failed"
    assert place.outlast.facts()["artifacts"] == {"saved": 0, "pending": 0}


@flow
async def saves_async(run: AsyncRun) -> list[str]:
    async def one(number: int) -> str:
        with run.branch(f"b{number}"):
            return run.workspace.save("async", f"{number}").ref

    made = await asyncio.gather(*(one(number) for number in range(3)))
    return [*made, await saves_async_step("in a step")]


@step
async def saves_async_step(text: str) -> str:
    return current().workspace.save("step", text).ref


def test_an_async_flow_saves_in_its_branches_and_steps(place: Home) -> None:
    *made, last = place.run(saves_async).unwrap()
    assert sorted(place.outlast.workspace.get(ref).text() for ref in made) == ["0", "1", "2"]
    assert place.outlast.workspace.get(last).source.step.endswith("saves_async_step")


def test_on_a_loop_the_workspace_is_awaited(place: Home) -> None:
    async def work() -> tuple[str, list[Artifact]]:
        async with AsyncOutlast(place.home) as outlast:
            saved = await outlast.workspace.save("x", "1")
            assert (await outlast.workspace.get(saved.ref)).text() == "1"
            return saved.ref, await outlast.workspace.list()

    ref, (found,) = asyncio.run(work())
    assert found.ref == ref


@step
def gives_an_artifact() -> Artifact:
    return current().workspace.save("x", "content")


@flow
def takes_it(run: Run) -> str:
    made = gives_an_artifact()
    try:
        made.read()
    except Refused as error:
        return f"{run.workspace.get(made.ref).text()}: {error}"
    return "it has content"


def test_an_artifact_as_a_result_is_its_facts_and_says_where_the_content_is(place: Home) -> None:
    assert place.run(takes_it).unwrap().startswith("content: this is a copy of artifact:default/x@1")


@flow
def saves_twice(run: Run) -> list[str]:
    return [run.workspace.save("x", content).ref for content in KNOBS["contents"]]


def test_equal_saves_of_a_body_are_told_apart_by_their_number(place: Home) -> None:
    KNOBS["contents"] = ["a", "b", "a"]
    assert place.run(saves_twice).unwrap() == [f"artifact:default/x@{number}" for number in (1, 2, 3)]


@flow
def saves_elsewhere(run: Run) -> list[str]:
    names = KNOBS["names"]
    made = [run.workspace.save(name, name).ref for name in names]
    reach("saved")
    return made


def test_a_save_that_an_edit_put_in_front_is_not_taken_for_another(place: Home) -> None:
    KNOBS["names"] = ["b"]
    place.crash(saves_elsewhere, at="saved")
    KNOBS.pop("die", None)
    KNOBS["names"] = ["a", "b"]
    assert place.run(saves_elsewhere).unwrap() == ["artifact:default/a@1", "artifact:default/b@1"]


def test_a_write_that_was_stopped_until_its_content_was_swept_says_so_and_saves_nothing(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = artifact.stage

    def stopped_meanwhile(*given: Any) -> Any:
        taken = stage(*given)
        for _ in range(2):
            make_old(place)
            place.outlast.gc(dry_run=False)
        return taken

    monkeypatch.setattr(artifact, "stage", stopped_meanwhile)
    with pytest.raises(Exception, match="save it again"):
        place.outlast.workspace.save("x", LONG)
    assert place.outlast.workspace.list() == []


def test_content_and_its_name_are_synced_before_the_row_is_written(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlast, blobs = place.outlast, place.home / "default" / "blobs"
    done: list[str] = []
    sync, rename, add = os.fsync, os.replace, WorkspaceWriter.add_artifact

    def synced(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        done.append(f"synced {'file' if path.is_file() else path.relative_to(blobs).parent}")
        sync(handle)

    def renamed(*given: Any) -> None:
        done.append("named")
        rename(*given)

    def added(*given: Any) -> int:
        done.append("added")
        return add(*given)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(WorkspaceWriter, "add_artifact", added)
    for content in (LONG, NOISE):
        done.clear()
        outlast.workspace.save("x", content)
        assert done == ["synced file", "named", "synced .", "synced .", "added"]
    done.clear()
    outlast.workspace.save("y", NOISE)
    assert done == ["synced .", "added"]  # relied on, and its name made sure of


@flow
def stops_before_saving(run: Run) -> str:
    saves("first", "x")
    reach("before the save")
    return run.workspace.save("second", "y").ref


def test_a_replay_of_an_unfinished_run_ends_at_the_save_that_it_would_make_next(place: Home) -> None:
    place.crash(stops_before_saving, at="before the save")
    KNOBS.pop("die", None)
    found = place.outlast.replay(place.run_id)
    assert (found.ok, found.next) == (True, ("run.workspace.save",))
    assert [one.name for one in place.outlast.workspace.list()] == ["first"]
