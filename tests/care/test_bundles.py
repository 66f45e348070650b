"""Handoffs that travel as one file: proven whole, added to and never rewritten, safe to be killed over."""

import json
import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import Outlast, failpoints
from outlast.care.travel import archive
from outlast.care.travel.handoff import BundleArrived, Bundled, export_handoff, import_handoff
from outlast.errors import (
    ArchiveInvalid,
    Conflict,
    HandoffClaimed,
    HandoffExists,
    HandoffNotFound,
    IntegrityBroken,
    Invalid,
    NameInvalid,
    StoreReadOnly,
)
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.handoff import Lint
from outlast.ledger.journal import decode_header, encode_header, genesis_of_anchor, link
from outlast.store.disk import PIECE_BYTES
from outlast.testing.crashes import in_child

from ..handoffs.test_handoff_records import everything, tamper
from ..kit.anchored import ANCHOR, anchor_row, checked, claim, evidence, journal, lease_row, revise, settle, story
from ..kit.place import KNOBS, Place
from ..kit.travellers import stopped

QUICK = {"synchronous": "OFF"}  # a killed process leaves its writes to the kernel


def export(place: Place, anchor: str = ANCHOR, path: Path | None = None, **how: Any) -> Bundled:
    return export_handoff(place.outlast._executor.caller, anchor, path or place.folder, **how)


def import_(place: Place, path: str | Path, **how: Any) -> BundleArrived:
    return import_handoff(place.outlast._executor.caller, Path(path), **how)


def travelled(place: Place, other: Place, **how: Any) -> BundleArrived:
    done = export(place, path=place.folder / "bundle.zip", force=True)
    return import_(other, done.path, **how)


def nothing_in(place: Place) -> bool:
    """Whether no trace of any handoff is there, nor of a blob."""
    rows = place.outlast._executor.home.store.read(lambda look: look.anchors_after(0, 9))
    blobs = [path for path in (place.home / "default" / "blobs").rglob("*") if path.is_file()]
    return not rows and not blobs and place.outlast.verify().ok


def shown(outlast: Outlast) -> list[object]:
    """Everything of the handoff that must be the same wherever it is."""
    row, lease = anchor_row(outlast), lease_row(outlast)
    look = outlast._executor.home.store.read
    refs = look(lambda reading: reading.blob_refs_upto(row.key, 1 << 60))
    rows = look(lambda reading: [each._replace(key=0, anchor=0) for each in reading.handoffs_of(row.key)])
    files = look(lambda reading: reading.files_of_anchor(row.key))
    contents = [outlast._executor.home.blobs.get(name) for _, name in refs]
    same = row._replace(key=0, newest=0, arrived=0)
    return [same, journal(outlast), (lease.head, lease.hash), rows, files, refs, contents]


# -- going and coming --------------------------------------------------------------------------------


def test_a_handoff_arrives_with_its_whole_history_and_every_blob(place: Place, other: Place) -> None:
    _, newest = story(place.outlast)
    done = export(place)
    assert (done.anchor, done.scope, done.handoff_id, done.revision) == (ANCHOR, "default", newest.id, 2)
    assert (done.entries, done.blobs, done.bytes) == (4, 5, Path(done.path).stat().st_size)
    assert done.digest == sha256(Path(done.path).read_bytes()).hexdigest()
    came = import_(other, done.path)
    assert came == BundleArrived(ANCHOR, "default", newest.id, 2, "open", "added", 4, 5, False)
    assert shown(other.outlast) == shown(place.outlast)
    found = other.outlast.verify()
    assert (found.ok, found.handoffs, found.blobs) == (True, 2, 5)


def test_a_finished_handoff_arrives_finished(place: Place, other: Place) -> None:
    revise(place.outlast)
    settle(place.outlast, "completed")
    assert travelled(place, other).status == "finished"
    assert (anchor_row(other.outlast).status, anchor_row(other.outlast).outcome) == ("finished", "completed")
    assert other.outlast.verify().ok


def test_odd_names_travel_and_their_file_has_a_safe_name(place: Place, other: Place) -> None:
    for anchor in ("../../etc/passwd", "'; DROP TABLE anchors; --", 'Über 🎉 "quoted"', ".", "x" * 500):
        revise(place.outlast, anchor, scope="../up")
        done = export(place, anchor, scope="../up")
        assert Path(done.path).parent == place.folder
        came = import_(other, done.path)
        assert (came.anchor, came.scope) == (anchor, "../up")
    assert other.outlast.verify().handoffs == 5


def test_a_scope_that_is_asked_for_must_be_the_bundles_own(place: Place, other: Place) -> None:
    revise(place.outlast, scope="team")
    done = export(place, scope="team")
    with pytest.raises(Invalid, match=r"'team'.*keeps its scope.*without naming one"):
        import_(other, done.path, scope="default")
    assert nothing_in(other)
    assert import_(other, done.path, scope="team").scope == "team"


def test_what_is_not_there_cannot_be_exported(place: Place) -> None:
    revise(place.outlast, "task:parser")
    with pytest.raises(HandoffNotFound, match="nearest: task:parser"):
        export(place, "task:parse")
    with pytest.raises(HandoffNotFound):
        export(place, "task:parser", scope="other")
    with pytest.raises(NameInvalid):
        export(place, "a\nb")
    assert list(place.folder.glob("*.zip")) == []


def test_the_same_handoff_makes_the_same_file_and_replaces_it(place: Place) -> None:
    story(place.outlast)
    assert export(place) == export(place)
    assert len(list(place.folder.glob("*.zip"))) == 1


def test_a_file_that_is_there_is_not_replaced_unasked(place: Place) -> None:
    revise(place.outlast)
    taken = place.folder / "bundle.zip"
    taken.write_text("mine")
    with pytest.raises(Conflict, match="force"):
        export(place, path=taken)
    assert taken.read_text() == "mine"
    export(place, path=taken, force=True)
    revise(place.outlast)
    with pytest.raises(Conflict, match="force"):  # an older export is a record of its own
        export(place, path=taken)


@pytest.mark.parametrize("make", ["link", "fifo", "missing", "nul", "file"])
def test_a_place_that_cannot_be_written_is_refused(place: Place, make: str) -> None:
    revise(place.outlast)
    target = place.folder / "bundle.zip"
    if make == "link":
        target.symlink_to(place.folder / "elsewhere.zip")
    elif make == "fifo":
        os.mkfifo(target)
    target = {"missing": place.folder / "no" / "b.zip", "nul": place.folder / "a\0b", "file": Path(__file__) / "b"}.get(
        make, target
    )
    with pytest.raises((Conflict, Invalid, StoreReadOnly)):
        export(place, path=target, force=True)
    assert list(place.folder.glob(".*.tmp")) == []


def test_a_broken_handoff_is_not_exported_and_the_record_is_named(place: Place) -> None:
    story(place.outlast)
    tamper(place, "UPDATE journal SET payload = CAST('{\"facts\":1}' AS BLOB) WHERE seq = 2")
    with pytest.raises(IntegrityBroken, match="entry handoff task:x/2"):
        export(place)
    assert list(place.folder.glob("*.zip")) == list(place.folder.glob(".*.tmp")) == []


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_handoff_whose_blob_is_damaged_is_not_exported_and_the_blob_is_named(place: Place, damage: str) -> None:
    story(place.outlast)
    path = place.outlast._executor.home.blobs.path(checked(place.outlast, b"later"))
    path.write_bytes(b"?") if damage == "changed" else path.unlink()
    with pytest.raises(IntegrityBroken, match=f"blob {path.name[:12]}"):
        export(place)
    assert list(place.folder.glob("*.zip")) == list(place.folder.glob(".*.tmp")) == []


# -- meeting what is here ----------------------------------------------------------------------------


def test_the_same_file_again_has_nothing_to_do_and_says_so(place: Place, other: Place) -> None:
    story(place.outlast)
    done = export(place)
    import_(other, done.path)
    before = everything(other.outlast)
    again = import_(other, done.path)
    assert (again.change, again.added, again.replayed, again.revision) == ("same", 0, True, 2)
    assert everything(other.outlast) == before


def test_the_same_file_again_brings_a_lost_blob_back(place: Place, other: Place) -> None:
    story(place.outlast)
    done = export(place)
    import_(other, done.path)
    lost = other.outlast._executor.home.blobs.path(sha256(b"a = 2\n").hexdigest())
    lost.unlink()
    assert not other.outlast.verify().ok
    assert import_(other, done.path).replayed
    assert other.outlast.verify().ok


def test_what_is_newer_is_added_there_and_back(place: Place, other: Place) -> None:
    revise(place.outlast, content=b"one")
    travelled(place, other)
    claim(other.outlast, "theirs")
    checked(other.outlast, b"passed")
    second = revise(other.outlast, content=b"two", target_files=("src/b.py",))
    settle(other.outlast, "completed")
    came = travelled(other, place)
    assert (came.change, came.added, came.revision, came.handoff_id) == ("continued", 4, 2, second.id)
    assert came.status == "finished"
    assert shown(place.outlast) == shown(other.outlast)
    assert place.outlast.verify().ok
    assert travelled(place, other).change == "same"


def test_an_older_file_has_nothing_to_do_and_says_so(place: Place, other: Place) -> None:
    revise(place.outlast)
    old = export(place)
    import_(other, old.path)
    newest = revise(other.outlast)
    before = everything(other.outlast)
    came = import_(other, old.path)
    assert (came.change, came.replayed, came.revision, came.handoff_id) == ("older", True, 2, newest.id)
    assert everything(other.outlast) == before


def test_histories_that_parted_are_refused_with_where(place: Place, other: Place) -> None:
    revise(place.outlast)
    checked(place.outlast, b"passed")
    travelled(place, other)
    revise(place.outlast)
    for _ in range(3):
        revise(other.outlast)
    for here, there in ((place, other), (other, place)):
        before = everything(there.outlast)
        with pytest.raises(HandoffExists, match=r"parted from the file's after entry 2, revision 1"):
            travelled(here, there)
        assert everything(there.outlast) == before


def test_another_handoff_of_the_same_name_is_refused(place: Place, other: Place) -> None:
    revise(place.outlast, content=b"ours")
    revise(other.outlast, content=b"theirs")
    before = everything(other.outlast)
    with pytest.raises(HandoffExists, match="another one of that name"):
        travelled(place, other)
    assert everything(other.outlast) == before
    assert not other.outlast._executor.home.blobs.has(sha256(b"ours").hexdigest())


def test_ids_that_mean_something_else_here_are_refused(place: Place, other: Place) -> None:
    first = revise(place.outlast)
    revise(other.outlast, "task:other", id=first.id)
    with pytest.raises(HandoffExists, match="the id of another handoff"):
        travelled(place, other)
    assert place.outlast.verify().ok


def test_the_id_of_another_anchor_is_refused(place: Place, other: Place) -> None:
    revise(place.outlast)
    travelled(place, other)
    id_ = anchor_row(place.outlast).id
    tamper(other, "UPDATE anchors SET anchor = 'task:other'")
    with pytest.raises(HandoffExists, match=f"its id {id_} is that of 'task:other'"):
        travelled(place, other)


# -- claims ------------------------------------------------------------------------------------------


def test_a_claim_does_not_travel(place: Place, other: Place) -> None:
    revise(place.outlast)
    claim(place.outlast, "token")
    travelled(place, other)
    assert lease_row(place.outlast).holder == "token"
    assert lease_row(other.outlast).holder is None
    assert other.outlast._executor.home.store.read(lambda look: look.beat_of("token")) is None
    assert lease_row(other.outlast).epoch > lease_row(place.outlast).epoch


def claimed_here(place: Place, other: Place) -> str:
    """Ours is claimed, and theirs has all of ours and more. The file."""
    revise(place.outlast)
    claim(place.outlast, "token")
    travelled(place, other)
    revise(other.outlast)
    return export(other, path=other.folder / "more.zip").path


def test_nothing_is_added_under_the_feet_of_who_works_on_it(place: Place, other: Place) -> None:
    path = claimed_here(place, other)
    before = everything(place.outlast)
    with pytest.raises(HandoffClaimed, match="bob"):
        import_(place, path)
    assert everything(place.outlast) == before


def test_the_claimer_brings_in_what_is_newer_and_the_claim_ends(place: Place, other: Place) -> None:
    path = claimed_here(place, other)
    epoch = lease_row(place.outlast).epoch
    assert import_(place, path, claim_id="token").change == "continued"
    assert (lease_row(place.outlast).holder, lease_row(place.outlast).epoch > epoch) == (None, True)
    assert place.outlast._executor.home.store.read(lambda look: look.beat_of("token")) is None


def test_a_claim_that_is_over_holds_nothing_up(place: Place, other: Place) -> None:
    path = claimed_here(place, other)
    place.clock.advance(901)
    assert import_(place, path).added == 1
    assert place.outlast.verify().ok


def test_a_file_with_nothing_new_is_no_matter_of_claims(place: Place, other: Place) -> None:
    revise(place.outlast)
    claim(place.outlast, "token")
    done = export(place)
    assert import_(place, done.path).change == "same"
    assert lease_row(place.outlast).holder == "token"


# -- files that are not whole ------------------------------------------------------------------------


def members(path: Path | str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as kept:
        return {name: kept.read(name) for name in kept.namelist()}


def packed(path: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as made:
        for name, kept in content.items():
            made.writestr(name, kept)
    return path


def forged(path: Path, content: dict[str, bytes], **changed: Any) -> Path:
    """A file whose manifest fits these members: only what is in them can be wrong."""
    manifest = json.loads(content["manifest.json"])
    rest = {name: kept for name, kept in content.items() if name != "manifest.json"}
    manifest["members"] = [
        {"name": name, "size": len(kept), "sha256": sha256(kept).hexdigest()} for name, kept in rest.items()
    ]
    manifest["handoff"] |= changed
    return packed(path, rest | {"manifest.json": json.dumps(manifest).encode()})


def with_manifest(path: str, change: Callable[[dict[str, Any]], object]) -> Path:
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    return packed(Path(path).with_name("changed.zip"), content | {"manifest.json": json.dumps(manifest).encode()})


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "upgrade outlast": lambda m: m.update(format="outlast handoff 2"),
    "name a file that `outlast handoff export` wrote": lambda m: m.update(format="other"),
    "unknown field": lambda m: m.update(extra=1),
    "unknown field `more`": lambda m: m["handoff"].update(more=1),
    "missing required field": lambda m: m["handoff"].pop("epoch"),
    "cannot be the id": lambda m: m["handoff"].update(id="../up"),
    "its header or its place": lambda m: m["handoff"].update(id="another"),
    "entry handoff task:y/1": lambda m: m["handoff"].update(anchor="task:y"),
    "entry handoff task:x/1": lambda m: m["handoff"].update(scope="other"),
    "cannot be printed": lambda m: m["handoff"].update(anchor="a\nb"),
    "it is empty": lambda m: m["handoff"].update(scope=" "),
    "recorded was": lambda m: m["handoff"].update(head=3),
    "the chain ends": lambda m: m["handoff"].update(hash="0" * 64),
    "chain does not end there": lambda m: m["handoff"].update(hash="00"),
    "non-hexadecimal": lambda m: m["handoff"].update(hash="zz"),
    "no number": lambda m: m["handoff"].update(epoch=2**62),
    "1180591620717411303424 or 4 is no number": lambda m: m["handoff"].update(epoch=2**70),
    "Expected `int`": lambda m: m["handoff"].update(head="4"),
    "0 is no number": lambda m: m["handoff"].update(head=0),
    "is missing": lambda m: m["members"].append({"name": "blobs/x", "size": 1, "sha256": ""}),
    "not in the manifest": lambda m: m["members"].pop(),
    "bytes": lambda m: m["members"][0].update(size=1),
    "digest differs": lambda m: m["members"][0].update(sha256="0" * 64),
    "not its name": lambda m: m["members"][-1].update(sha256="0" * 64),
    "more than once": lambda m: m["members"].append(m["members"][0]),
}


@pytest.mark.parametrize("says", CHANGES)
def test_a_manifest_that_does_not_fit_is_refused_with_what_is_wrong(place: Place, other: Place, says: str) -> None:
    story(place.outlast)
    with pytest.raises(ArchiveInvalid, match=says):
        import_(other, with_manifest(export(place).path, CHANGES[says]))
    assert nothing_in(other)


def test_members_that_are_missing_added_compressed_or_lead_elsewhere_are_refused(place: Place, other: Place) -> None:
    story(place.outlast)
    content = members(export(place).path)
    changed = other.folder / "changed.zip"
    blob = next(name for name in content if name.startswith("blobs/"))
    for missing in ("journal.jsonl", "refs.jsonl", blob):
        with pytest.raises(ArchiveInvalid, match=f"{missing}: it is missing"):
            import_(other, forged(changed, {name: kept for name, kept in content.items() if name != missing}))
    for name in ("../../evil", "/etc/evil", "blobs/../../evil", "blobs/" + "0" * 64, "readme.txt"):
        with pytest.raises(ArchiveInvalid, match=r"nothing in it refers to it|not its name"):
            import_(other, forged(changed, content | {name: b"x"}))
        with pytest.raises(ArchiveInvalid, match="not in the manifest"):
            import_(other, packed(changed, content | {name: b"x"}))
    with pytest.raises(ArchiveInvalid, match="is compressed, which"):
        import_(other, packed(changed, content | {blob: b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED))
    assert nothing_in(other)
    assert not (other.folder / "evil").exists()


def test_a_blob_of_other_content_is_refused_before_anything_is_written(place: Place, other: Place) -> None:
    story(place.outlast)
    content = members(export(place).path)
    last = sorted(name for name in content if name.startswith("blobs/"))[-1]
    with pytest.raises(ArchiveInvalid, match="not its name"):
        import_(other, forged(other.folder / "changed.zip", content | {last: b"other"}))
    assert nothing_in(other)


def chained(content: dict[str, bytes], number: int, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The journal with one entry's facts changed and the whole chain made anew, as only a forger would."""
    manifest = json.loads(content["manifest.json"])["handoff"]
    before = genesis_of_anchor(manifest["id"], manifest["scope"], manifest["anchor"])
    lines = []
    for line in content["journal.jsonl"].splitlines():
        seq, header, _, payload = json.loads(line)
        if seq == number:
            facts = json.loads(payload)
            change(facts["facts"])
            payload = json.dumps(facts)
        named = decode_header(header.encode())
        fields = {name: getattr(named, name) for name in named.__struct_fields__}
        header = encode_header(type(named)(**fields | {"payload": sha256(payload.encode()).hexdigest()}))
        before = link(before, header)
        lines.append(json.dumps([seq, header.decode(), before.hex(), payload]).encode())
    return {"journal": b"\n".join(lines) + b"\n", "hash": before.hex()}


FORGERIES: dict[str, tuple[int, Callable[[dict[str, Any]], object]]] = {
    "it was stored under 'task:y'": (4, lambda f: f.update(anchor="task:y")),
    "in scope 'other'": (4, lambda f: f.update(scope="other")),
    "is revision 3": (4, lambda f: f.update(revision=3)),
    "is revision 1": (4, lambda f: f.update(revision=1)),
    "cannot be the id": (4, lambda f: f.update(id="../up")),
    "is no number": (4, lambda f: f.update(stored_us=-1)),
    "cannot be read": (4, lambda f: f.pop("summary")),
    "date value out of range|is out of range": (4, lambda f: f.update(expires_us=2**61)),
    "leaves the root": (4, lambda f: f.update(target_files=["../../etc/passwd"])),
    "is absolute": (4, lambda f: f.update(target_files=["/etc/passwd"])),
    "leads out of its root": (4, lambda f: f["binding"]["files"].update({"a/../../b": {"mode": "absent"}})),
    "is not in it": (4, lambda f: f["binding"].update(patch="../../../etc/passwd")),
    "Invalid enum value 'won'": (3, lambda f: f.update(outcome="won")),
    "is not in it|is no reference": (2, lambda f: f["evidence"][0].update(output="f" * 64)),
}


@pytest.mark.parametrize("says", FORGERIES)
def test_a_history_that_nobody_can_have_written_is_refused_though_its_chain_is_whole(
    place: Place, other: Place, says: str
) -> None:
    story(place.outlast)
    content = members(export(place).path)
    made = chained(content, *FORGERIES[says])
    path = forged(other.folder / "f.zip", content | {"journal.jsonl": made["journal"]}, hash=made["hash"])
    with pytest.raises(ArchiveInvalid, match=says):
        import_(other, path)
    assert nothing_in(other)


def test_the_forgers_tool_changes_nothing_by_itself(place: Place, other: Place) -> None:
    """Else the test above would refuse for the wrong reason."""
    story(place.outlast)
    content = members(export(place).path)
    made = chained(content, 4, lambda facts: None)
    path = forged(other.folder / "f.zip", content | {"journal.jsonl": made["journal"]}, hash=made["hash"])
    assert import_(other, path).added == 4


def test_a_chain_that_does_not_fit_its_beginning_is_refused(place: Place, other: Place) -> None:
    story(place.outlast)
    content = members(export(place).path)
    lines = content["journal.jsonl"].splitlines(keepends=True)
    for kept in (lines[1:], lines[:-1], [lines[1], lines[0], *lines[2:]], [], [*lines, lines[-1]]):
        with pytest.raises(ArchiveInvalid, match="entry handoff task:x/"):
            import_(other, forged(other.folder / "c.zip", content | {"journal.jsonl": b"".join(kept)}))
    with pytest.raises(ArchiveInvalid, match=r"journal\.jsonl"):
        import_(other, forged(other.folder / "c.zip", content | {"journal.jsonl": b"[1]\n"}))
    assert nothing_in(other)


def test_a_run_and_a_handoff_are_told_apart_and_the_right_command_is_named(place: Place, other: Place) -> None:
    revise(place.outlast)
    run, handoff = place.outlast.export(stopped(place), place.folder).path, export(place).path
    with pytest.raises(ArchiveInvalid, match=r"a run is in it, not a handoff.*`outlast import "):
        import_(other, run)
    with pytest.raises(ArchiveInvalid, match=r"a handoff is in it, not a run.*`outlast handoff import "):
        other.outlast.import_(handoff)
    assert nothing_in(other)
    assert other.outlast.runs() == []


def test_a_file_of_nothing_or_of_something_else_is_refused(place: Place, tmp_path: Path) -> None:
    for name, content in {"empty": b"", "text": b"hello", "half": b"PK\x03\x04"}.items():
        (tmp_path / name).write_bytes(content)
    packed(tmp_path / "foreign.zip", {"readme.txt": b"hello"})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    odd = [
        tmp_path / name
        for name in ("empty", "text", "half", "foreign.zip", "pipe", "loop", "nowhere", "a\0b", "x" * 300)
    ]
    for path in (*odd, tmp_path, Path("/dev/zero")):
        with pytest.raises(ArchiveInvalid):
            import_(place, path)
    assert nothing_in(place)


def test_a_file_that_was_cut_short_is_refused(place: Place, other: Place) -> None:
    story(place.outlast)
    path = Path(export(place).path)
    whole = path.read_bytes()
    for length in (1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ArchiveInvalid):
            import_(other, path)
    assert nothing_in(other)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_byte_that_was_changed_is_found_or_changes_nothing(place: Place, other: Place, data: st.DataObject) -> None:
    if "whole" not in KNOBS:
        story(place.outlast)
        KNOBS["whole"] = Path(export(place).path).read_bytes()
        KNOBS["shown"] = shown(place.outlast)
    flipped = bytearray(KNOBS["whole"])
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = other.folder / "flipped.zip"
    path.write_bytes(bytes(flipped))
    try:
        import_(other, path)
    except ArchiveInvalid:
        return
    assert shown(other.outlast) == KNOBS["shown"]


def test_the_format_says_what_it_is_and_keeps_large_blobs_piece_by_piece(place: Place, other: Place) -> None:
    large = os.urandom(3 * PIECE_BYTES + 17)
    revise(place.outlast, content=large)
    done = export(place)
    with archive.opened(Path(done.path), archive.HANDOFF) as kept:
        assert kept.manifest.format == "outlast handoff 1"
        assert sorted(kept.names) == ["blobs/" + sha256(large).hexdigest(), "journal.jsonl", "refs.jsonl"]
    import_(other, done.path)
    assert other.outlast._executor.home.blobs.get(sha256(large).hexdigest()) == large


# -- deaths ------------------------------------------------------------------------------------------


def killed(home: Path, path: str, hook: Callable[[str], None] | None) -> bool:
    """An import in a process of its own; whether it was killed."""

    def work(tell: object) -> None:
        with Outlast(home, store_options=QUICK) as outlast:
            failpoints.arm(hook)
            import_handoff(outlast._executor.caller, Path(path))
            failpoints.arm(None)

    ended = in_child(work, 60)
    assert not ended.told("error"), ended.told("error")[0]
    return ended.killed


def points(home: Path, path: str, log: Path) -> list[tuple[str, int]]:
    """Every point that an undisturbed import reaches."""
    assert not killed(home, path, failpoints.log_to(str(log)))
    seen: Counter[str] = Counter()
    found = []
    for name in log.read_text().split():
        seen[name] += 1
        found.append((name, seen[name]))
    return found


@pytest.mark.parametrize("known", [False, True])
def test_an_import_that_is_killed_anywhere_is_there_whole_or_not_at_all_and_works_again(
    place: Place, other: Place, tmp_path: Path, known: bool
) -> None:
    revise(place.outlast, content=b"one")
    if known:
        travelled(place, other)
    checked(place.outlast, b"passed")
    revise(place.outlast, patch=b"two")
    done, wanted = export(place), shown(place.outlast)
    place.close()
    assert other.outlast.verify().ok
    before = everything(other.outlast)
    other.close()
    shutil.copytree(other.home, tmp_path / "first")
    found = points(tmp_path / "first", done.path, tmp_path / "log")
    assert {name for name, _ in found} >= {
        "blob.written",
        "blob.synced",
        "commit.begin",
        "commit.applied",
        "commit.done",
    }
    for number, (name, nth) in enumerate(found):
        home = tmp_path / f"home{number}"
        shutil.copytree(other.home, home)
        assert killed(home, done.path, failpoints.kill_at(name, nth)), f"it did not reach {name}:{nth}"
        with Outlast(home, store_options=QUICK) as outlast:
            assert outlast.verify().ok
            whole = name == "commit.done"
            assert (shown(outlast) == wanted) if whole else (everything(outlast) == before), (name, nth)
            assert import_handoff(outlast._executor.caller, Path(done.path)).replayed is whole
            assert shown(outlast) == wanted
            assert outlast.verify().ok


def test_an_export_that_is_killed_leaves_no_file_of_that_name(place: Place) -> None:
    revise(place.outlast, content=b"x" * 100)
    place.close()
    target = place.folder / "bundle.zip"

    def work(tell: object) -> None:
        with Outlast(place.home, store_options=QUICK) as outlast:
            blobs = outlast._executor.home.blobs
            reading = blobs.pieces

            def die(name: str) -> Any:
                yield from reading(name)
                os.kill(os.getpid(), 9)

            blobs.pieces = die  # type: ignore[method-assign]
            export_handoff(outlast._executor.caller, ANCHOR, target)

    assert in_child(work, 60).killed
    assert not target.exists()
    assert export(place, path=target).blobs == 1


def test_evidence_and_bindings_of_every_kind_come_back_equal(place: Place, other: Place) -> None:
    """Links, absent and special files, no binding at all, packets kept byte for byte."""
    import msgspec

    files = {"a": Bound("absent"), "b": Bound("link", "e" * 64), "c": Bound("special", why="special")}
    revise(
        place.outlast,
        binding=Binding(root="/r", host="h", files=files, folders=("d",), environment={"uv.lock": Bound("absent")}),
        baseline=(evidence(place.outlast, b"out", when="store", exit=1, passed=False),),
        execution_packet_v1=msgspec.Raw(b'{ "a" : 1.0 }'),
        lint=Lint(10, weak=True),
    )
    revise(place.outlast, binding=None, target_files=())
    travelled(place, other)
    assert shown(place.outlast) == shown(other.outlast)
    assert b'{ "a" : 1.0 }' in (journal(other.outlast)[0].payload or b"")


# -- what people store -------------------------------------------------------------------------------


def test_work_that_was_stored_checked_claimed_and_settled_travels_and_is_recovered_there(
    place: Place, other: Place
) -> None:
    root = place.folder / "repo"
    root.mkdir()
    (root / "a.py").write_text("a = 1\n")
    (root / "b").mkdir()
    given: dict[str, Any] = {"target_files": ["a.py", "b/"], "repo_root": str(root), "next_action": "make it two"}
    check = {"file": "a.py", "contains": "2"}
    hand = place.outlast.handoff
    hand.store("task:two", "Half", "Go on", acceptance_checks=[check, "echo seen"], baseline=True, **given)
    hand.recover("task:two", repo_root=str(root), claim=True, run_checks=True)
    (root / "a.py").write_text("a = 2\n")
    newest = hand.store("task:two", "Done", "Look", acceptance_checks=[check, "echo seen"], **given)
    assert place.outlast.verify().ok
    settled = hand.settle("task:two", "completed", repo_root=str(root))
    assert settled.outcome == "completed"
    assert place.outlast.verify().ok
    done = hand.export("task:two", place.folder)
    came = other.outlast.handoff.import_(done.path)
    assert (came.handoff_id, came.status, came.added) == (newest.id, "finished", done.entries)
    assert other.outlast.handoff.get(newest.id) == newest
    assert other.outlast.handoff.history("task:two") == hand.history("task:two")
    assert other.outlast.handoff.recover("task:two", include_finished=True).outcome == "completed"
    assert other.outlast.handoff.store("task:two", "Again", "More", bind=False).revision == 3
    found = other.outlast.verify()
    assert (found.ok, found.handoffs) == (True, 3)
    assert (
        place.outlast.handoff.import_(other.outlast.handoff.export("task:two", other.folder).path).change == "continued"
    )
    assert place.outlast.verify().ok
