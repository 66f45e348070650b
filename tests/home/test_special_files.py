"""A pipe, a device, a folder or a link in the place of a file of a home: nothing waits for it, and it is named."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.families import add_run, age_blobs

from outlast import Outlast
from outlast.errors import IntegrityBroken, OutlastError, SecretPatternInvalid, StoreForeign, StoreLost
from outlast.home.keys import Keys
from outlast.values.private import NotPlain, open_plain, read_plain

SECONDS = 60  # a test that hangs is ended by the plugin; this is for those who read
TEXT = b'"' + b"t" * 50_000 + b'"'


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    elsewhere.write_bytes(TEXT)
    path.symlink_to(elsewhere)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_device(path: Path) -> None:
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))  # as /dev/zero, which never ends
    except PermissionError:
        pytest.skip("a device needs root")


KINDS = [a_pipe, a_folder, a_link, a_link_to_a_device, a_device]
Put = Callable[[Path], None]


def said(kind: Put) -> str:
    return kind.__name__.replace("_", " ").removesuffix(" to a device")


@pytest.mark.parametrize("kind", KINDS, ids=said)
def test_only_a_plain_file_is_opened(tmp_path: Path, kind: Put) -> None:
    kind(tmp_path / "file")
    with pytest.raises(NotPlain, match=f"it is {said(kind)}, no plain file"):
        open_plain(tmp_path / "file")
    (tmp_path / "plain").write_bytes(b"content")
    assert read_plain(tmp_path / "plain") == b"content"
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "absent")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run and an artifact, each with a blob."""
    with Outlast(tmp_path / "home") as outlast:
        add_run(outlast, "one", contents=[TEXT])
        outlast.workspace.save("plan", os.urandom(50_000))
        outlast.workspace.save("words", b"kelp and salt " * 5000)
    return tmp_path / "home"


def replaced(home: Path, kind: Put) -> list[str]:
    """Put something else in the place of every blob; their names."""
    names = []
    for path in [*(home / "default" / "blobs").glob("??/*")]:
        path.unlink()
        kind(path)
        names.append(path.name)
    return [name for name in names if len(name) == 64]


@pytest.mark.parametrize("kind", KINDS, ids=said)
def test_a_blob_that_is_none_is_named_by_whoever_needs_it(home: Path, kind: Put) -> None:
    names = replaced(home, kind)
    with Outlast(home) as outlast:
        problems = {problem.record: problem.why for problem in outlast.verify().problems}
        for name in names:
            assert any(name[:12] in record or name[:12] in why for record, why in problems.items()), (name, problems)
        assert all(said(kind) in why for why in problems.values())
        with pytest.raises(IntegrityBroken, match=said(kind)):
            outlast.workspace.get("plan").read()
        with pytest.raises(OutlastError):
            outlast.export("one", home.parent / "out.zip")
        assert not (home.parent / "out.zip").exists()
        outlast.workspace.recall("kelp")
        outlast.gc(keep=0, artifacts=True, dry_run=True)
        age_blobs(outlast)
        outlast.gc(keep=0, artifacts=True, dry_run=False)


@pytest.mark.parametrize("kind", [a_pipe, a_link, a_link_to_a_device, a_device], ids=said)
def test_saving_the_same_content_puts_the_blob_right(home: Path, kind: Put) -> None:
    replaced(home, kind)
    with Outlast(home) as outlast:
        name = outlast._executor.home.blobs.put(TEXT)
        assert outlast._executor.home.blobs.get(name) == TEXT


@pytest.mark.parametrize("kind", [a_pipe, a_folder, a_device], ids=said)
def test_settings_that_are_no_file_are_an_error_and_no_wait(home: Path, kind: Put) -> None:
    kind(home / "secrets.yaml")
    with pytest.raises(SecretPatternInvalid):
        Outlast(home)


@pytest.mark.parametrize("kind", KINDS, ids=said)
def test_keys_that_are_no_file_are_an_error_and_no_wait(home: Path, kind: Put) -> None:
    kind(home / "keys.db")
    with pytest.raises((StoreForeign, StoreLost)):
        Keys(home).list()


@pytest.mark.parametrize("kind", KINDS, ids=said)
@pytest.mark.parametrize("ending", [".db", ".lock"])
def test_an_index_of_recall_that_is_no_file_is_done_without(home: Path, kind: Put, ending: str) -> None:
    with Outlast(home) as outlast:
        outlast.workspace.recall("kelp")
        (index,) = (home / "default" / "recall").glob("*.db")
        index.unlink()
        if ending == ".lock":
            index.write_bytes(b"no index")
        kind(index.with_suffix(ending))
        assert outlast.workspace.recall("kelp")


@pytest.mark.parametrize("kind", KINDS, ids=said)
def test_hooks_pass_over_notes_that_are_no_files(tmp_path: Path, kind: Put) -> None:
    from outlast.doors.hooks import spool

    for folder in (spool.SESSIONS, spool.FOLDER):
        (tmp_path / folder).mkdir(parents=True)
        kind(tmp_path / folder / "1.0.json")
    assert [*spool.sessions_of(str(tmp_path), "a")] == []
    with pytest.raises(OSError, match="no plain file"):
        spool.read(str(tmp_path), "1.0.json")
    kind(tmp_path / spool.LOG)
    spool.note(str(tmp_path), "nobody waits")


@pytest.mark.parametrize("kind", KINDS, ids=said)
def test_a_transcript_that_is_none_is_not_waited_for(tmp_path: Path, kind: Put) -> None:
    from outlast.commands.transcript import tail

    kind(tmp_path / "output")
    with pytest.raises(OSError, match="no plain file"):
        tail(tmp_path / "output")
