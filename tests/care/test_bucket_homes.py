"""A home whose content is in a bucket: it remembers that, and everything that is done to homes knows it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, flow, step
from outlast.care.backup import make_backup
from outlast.care.move import move_home
from outlast.care.restore import restore_backup
from outlast.errors import (
    BlobsElsewhere,
    BlobsRefused,
    BlobsTaken,
    BlobsUnreachable,
    EmbeddedOnly,
    HomeSettingsInvalid,
    IntegrityBroken,
    Invalid,
    OutlastError,
)
from outlast.home.place import FoundHome
from outlast.store import tenants_in
from outlast.store.blobs.s3 import S3Blobs
from outlast.store.blobs.s3_trash import S3Trash

from ..kit.bad_bucket import bad_bucket
from ..kit.postgres import server
from ..kit.seaweed import KEYS, seaweed
from ..ready import completed
from ..store.backends import objects

LONG = bytes(range(256)) * 400
_numbers = count(1)


@step
def find(topic: str) -> str:
    return topic * 20_000  # larger than what is kept in an entry


@flow
def report(run: Run, topic: str) -> int:
    found = len(find(topic))
    run.workspace.save("found.bin", LONG)
    run.wait_for("go")
    return found


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, said in seaweed().environment().items():
        monkeypatch.setenv(name, said)
    return seaweed().new_place()


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FoundHome]:
    """Where the ledger is: nothing of this depends on it."""
    if request.param == "sqlite":
        yield FoundHome(tmp_path / ".outlast")
    else:
        url = server().new_database(f"bucket{os.getpid()}_{next(_numbers)}")
        yield FoundHome(tmp_path / "beside", database=url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ".outlast"


def blobs_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*/blobs/**/*") if path.is_file()]


def stored(bucket: str, tenant: str = "default") -> list[str]:
    """The blobs of a tenant that are in the bucket."""
    return sorted({each.path.split("/")[1] for each in objects(bucket, tenant).listed("") if "/" in each.path})


# -- which blobs a home has ---------------------------------------------------------------------------


def test_a_home_remembers_its_bucket_and_nothing_of_its_content_is_in_the_folder(home: FoundHome, bucket: str) -> None:
    with Outlast(home, blobs=bucket) as outlast:
        run = outlast.run(report, "kelp", task="monday")
        assert run.status == "waiting"
    with Outlast(home) as outlast:
        assert outlast.workspace.get("found.bin").read() == LONG
        outlast.signal("go", run_id=run.run_id)
        assert outlast.resume(run.run_id).unwrap() == 80_000
        assert outlast.verify().ok
    assert blobs_in(home.path) == []
    assert len(stored(bucket)) >= 2


def test_another_bucket_or_endpoint_is_refused_and_the_same_is_not(folder: Path, bucket: str) -> None:
    here = seaweed().endpoint
    with Outlast(folder, blobs=f"{bucket}?endpoint={here}") as outlast:
        outlast.workspace.save("plan", LONG)
    for other in (f"{bucket}x", f"{bucket}?endpoint=http://127.0.0.1:9", "s3://another/place"):
        with pytest.raises(BlobsElsewhere, match="leave --blobs"):
            Outlast(folder, blobs=other)
    for same in (bucket, f"{bucket}/", f"{bucket}?endpoint={here}/", f"{bucket}?region=eu-west-1&patience=5s"):
        with Outlast(folder, blobs=same) as outlast:
            assert outlast.workspace.get("plan").read() == LONG


def test_it_is_named_by_the_environment_and_by_the_settings_too(
    folder: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as env:
        env.setenv("OUTLAST_BLOBS", f"{bucket}/one")
        with Outlast(folder) as outlast:
            outlast.workspace.save("plan", LONG)
    assert len(stored(f"{bucket}/one")) == 1
    other = folder.with_name("other")
    other.mkdir()
    (other / "settings.yaml").write_text(f"blobs: {bucket}/two\n")
    with Outlast(other) as outlast:
        outlast.workspace.save("plan", LONG)
    assert len(stored(f"{bucket}/two")) == 1
    (other / "settings.yaml").write_text("blobs: gs://other/two\n")
    with pytest.raises(HomeSettingsInvalid, match="s3://BUCKET/PREFIX"):
        Outlast(other)


def test_a_home_with_content_in_its_folder_stays_there(folder: Path, bucket: str) -> None:
    with Outlast(folder) as outlast:
        outlast.workspace.save("plan", LONG)
    with pytest.raises(BlobsElsewhere, match=r"blobs, and not in s3://"):
        Outlast(folder, blobs=bucket)
    with Outlast(folder) as outlast:
        assert outlast.workspace.get("plan").read() == LONG
    assert stored(bucket) == []


def test_no_two_homes_have_one_place_and_each_tenant_has_a_prefix(folder: Path, bucket: str) -> None:
    with Outlast(folder, blobs=bucket) as outlast:
        outlast.workspace.save("plan", LONG)
    with pytest.raises(BlobsTaken, match="another prefix"):
        Outlast(folder.with_name("other"), blobs=bucket)
    with Outlast(folder, tenant="harbour") as outlast:  # a new tenant keeps its content where the others have it
        outlast.workspace.save("plan", LONG)
    assert blobs_in(folder) == []
    assert stored(bucket) == stored(bucket, "harbour") != []


def test_a_new_tenant_of_a_database_keeps_its_content_where_the_others_have_it(tmp_path: Path, bucket: str) -> None:
    url = server().new_database(f"bucket{os.getpid()}_{next(_numbers)}")
    for number, tenant in enumerate(("default", "harbour")):
        with Outlast(
            FoundHome(tmp_path / tenant, database=url), tenant=tenant, blobs=None if number else bucket
        ) as outlast:
            outlast.workspace.save("plan", LONG)
    assert stored(bucket, "harbour") != []


def test_credentials_are_in_no_file_of_a_home_and_in_no_error(
    folder: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Outlast(folder, blobs=bucket) as outlast:
        outlast.workspace.save("plan", LONG)
    secret = KEYS["AWS_SECRET_ACCESS_KEY"]
    assert [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] == []
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with Outlast(folder) as outlast, pytest.raises(OutlastError) as refused:
        outlast.workspace.get("plan").read()
    assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("folder", "no URL of a bucket"),
        ("s3://key:secret@bucket/x", "credentials are never part"),
        ("s3://Bad_Bucket/x", "no name of a bucket"),
        ("s3://bucket/../x", "no prefix"),
        ("s3://bucket/x?key=1", "no option"),
        ("s3://bucket/x?endpoint=ftp://x", "no http"),
        ("s3://bucket/x?patience=soon", "no duration"),
    ],
)
def test_what_is_no_place_in_a_bucket_is_refused_with_how_to_name_one(url: str, says: str, folder: Path) -> None:
    with pytest.raises(Invalid, match=rf"{says}.*s3://BUCKET/PREFIX") as refused:
        Outlast(folder, blobs=url)
    assert "secret" not in str(refused.value).replace("AWS_SECRET", "")


def test_a_client_of_a_server_cannot_choose_where_that_keeps_content() -> None:
    with pytest.raises(EmbeddedOnly, match="outlast serve --blobs"):
        Outlast("http://127.0.0.1:9", blobs="s3://bucket/x")


def test_without_the_extra_the_error_names_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "obstore.py").write_text("raise ModuleNotFoundError('obstore')\n")
    script = "import sys; from outlast import Outlast; Outlast(sys.argv[1], blobs='s3://bucket/x')"
    ended = subprocess.run(
        [sys.executable, "-c", script, folder],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "without")},
        capture_output=True,
        text=True,
    )
    assert "pip install 'outlast[s3]'" in ended.stderr


def test_a_child_that_was_forked_is_refused_rather_than_left_waiting(folder: Path, bucket: str) -> None:
    script = """
import os, sys
from outlast import Outlast
from outlast.errors import StoreForked
home = Outlast(sys.argv[1], blobs=sys.argv[2])
home.workspace.save("plan", b"x" * 100_000)
child = os.fork()
if child == 0:
    try:
        Outlast(sys.argv[1] + "-other", blobs=sys.argv[2] + "-other")
    except StoreForked:
        os._exit(7)
    os._exit(1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script, folder, bucket], timeout=60).returncode == 7


def is_made(home: FoundHome) -> bool:
    """Whether anything of a home is there."""
    return home.path.exists() or bool(home.database and tenants_in(home.database))


@pytest.mark.parametrize(
    ("url", "environment", "refused"),
    [
        ("s3://no-such-bucket/x", {}, BlobsRefused),
        ("{bucket}?endpoint=http://127.0.0.1:9&patience=1s", {}, BlobsUnreachable),
        ("{bucket}", {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "r"}, BlobsRefused),  # may not write
        ("{bucket}/taken", {}, BlobsTaken),
    ],
)
def test_a_home_whose_bucket_cannot_be_had_is_not_made(
    url: str,
    environment: dict[str, str],
    refused: type[Exception],
    home: FoundHome,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects(f"{bucket}/taken", "default").put("owner", b"another")
    with monkeypatch.context() as env:
        for name, said in environment.items():
            env.setenv(name, said)
        with pytest.raises(refused):
            Outlast(home, blobs=url.format(bucket=bucket))
    assert not is_made(home)
    assert stored(bucket) == []


# -- care ---------------------------------------------------------------------------------------------


def test_what_was_changed_or_lost_in_the_bucket_is_found_and_never_given(folder: Path, bucket: str) -> None:
    with Outlast(folder, blobs=bucket) as outlast:
        saved = outlast.workspace.save("plan", LONG)
        [name] = stored(bucket)
        objects(bucket, "default").put(f"{name[:2]}/{name}/0", b"other")
        with pytest.raises(IntegrityBroken):
            outlast.workspace.get(saved.ref).read()
        assert [problem.record for problem in outlast.verify().problems] == [saved.ref]
        objects(bucket, "default").remove(f"{name[:2]}/{name}/0")
        with pytest.raises(IntegrityBroken, match="missing"):
            outlast.workspace.get(saved.ref).read()
        assert not outlast.verify().ok


def test_gc_removes_from_the_bucket_what_nobody_needs_and_only_that(
    home: FoundHome, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3Blobs, "trash", lambda self: S3Trash(self, -60.0))  # every period is over
    with Outlast(home, blobs=bucket) as outlast:
        outlast.workspace.save("plan", LONG)
        outlast._home.blobs.put(b"of a process that died")
        assert (outlast.gc(dry_run=False).blobs, len(stored(bucket))) == (1, 2)
        swept = outlast.gc(dry_run=False)
        assert (swept.trash, swept.blobs) == (1, 0)
        assert outlast.workspace.get("plan").read() == LONG
        assert outlast.verify().ok


def test_a_gc_lists_each_part_of_the_bucket_once(folder: Path, bucket: str) -> None:
    with bad_bucket(seaweed().endpoint) as line, Outlast(folder, blobs=f"{bucket}?endpoint={line.endpoint}") as outlast:
        saved = {outlast._home.blobs.put(bytes([number]) * 50_000)[:2] for number in range(5)}
        line.seen.clear()
        for dry_run in (True, False):
            outlast.gc(dry_run=dry_run)
            listed = [path for _, path in line.seen if "list-type" in path]
            line.seen.clear()
            assert len(listed) == len(set(listed)) == 1 + len(saved)  # which parts there are, and each of them


def test_runs_are_exported_from_a_bucket_and_imported_into_one(folder: Path, bucket: str, tmp_path: Path) -> None:
    with Outlast(folder, blobs=f"{bucket}/one") as outlast:
        run = outlast.run(report, "kelp")
        outlast.export(run.run_id, tmp_path / "run.zip")
    for other, place in ((tmp_path / "second", f"{bucket}/two"), (tmp_path / "third", None)):
        with Outlast(other, blobs=place) as outlast:
            outlast.import_(tmp_path / "run.zip")
            assert outlast.verify().ok
            assert outlast.receipts(run.run_id)[0].result == "kelp" * 20_000


def test_a_backup_says_that_content_is_elsewhere_and_a_restored_home_finds_it_and_removes_none(
    folder: Path, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3Blobs, "trash", lambda self: S3Trash(self, -60.0))
    with Outlast(folder, blobs=bucket) as outlast:
        outlast.workspace.save("plan", LONG)
        made = make_backup(folder, tmp_path / "backup.zip")
        later = outlast.workspace.save("later", LONG[::-1])
    assert ("default/blobs", f"its content is in {bucket}; back that up too") in made.left_out
    restore_backup(tmp_path / "backup.zip", tmp_path / "restored")
    with Outlast(tmp_path / "restored") as outlast:
        assert outlast.workspace.get("plan").read() == LONG
        for _ in range(2):
            [trouble] = outlast.gc(dry_run=False).troubles
            assert "the place of another home, or of the one that this was restored from" in trouble
    with Outlast(folder) as outlast:
        assert outlast.workspace.get(later.ref).read() == LONG[::-1]
    objects(bucket, "default").remove("owner")  # the old home is no more, somebody says
    with Outlast(tmp_path / "restored") as outlast:
        assert outlast.gc(dry_run=False).troubles == ()
    with Outlast(folder) as outlast:
        assert outlast.gc(dry_run=False).troubles != ()


def test_a_moved_home_keeps_its_content_in_the_bucket(folder: Path, bucket: str, tmp_path: Path) -> None:
    with Outlast(folder, blobs=bucket) as outlast:
        run = outlast.run(report, "kelp")
    url = server().new_database(f"bucket{os.getpid()}_{next(_numbers)}")
    to = FoundHome(tmp_path / "beside", database=url)
    [moved] = move_home(FoundHome(folder), to).tenants
    assert (moved.blobs, moved.records > 0) == (0, True)
    with Outlast(to) as outlast:
        assert outlast.workspace.get("found.bin").read() == LONG
        outlast.signal("go", run_id=run.run_id)
        assert outlast.resume(run.run_id).unwrap() == 80_000
        assert outlast.verify().ok
    assert blobs_in(to.path) == []


# -- the command line ---------------------------------------------------------------------------------


def outlast(*words: str, cwd: Path, **more: str) -> tuple[int, dict[str, Any]]:
    ended = completed(
        ("-m", "outlast", *words, "--json"),
        cwd=cwd,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return ended.returncode, json.loads(ended.stdout or ended.stderr)


def test_doctor_tells_where_content_is_and_what_the_bucket_enforces(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "plan").write_bytes(LONG)
    code, _ = outlast("workspace", "save", "plan", "plan", "--home", "home", "--blobs", bucket, cwd=tmp_path)
    assert code == 0
    code, found = outlast("doctor", "--home", "home", cwd=tmp_path)
    assert (code, found["problems"]) == (0, [])
    assert found["blobs"] == {
        "place": f"{bucket}/default",
        "reachable": "yes",
        "writable": "yes",
        "owner": "this home",
        "listing": "current",
        "create_only": "enforced",
        "if_match": "enforced",
    }
    code, found = outlast("doctor", "--quick", "--home", "home", cwd=tmp_path, AWS_SECRET_ACCESS_KEY="another")
    assert code == 1
    assert "SignatureDoesNotMatch" in found["problems"][0]
    code, found = outlast("workspace", "list", "--home", "home", "--blobs", f"{bucket}x", cwd=tmp_path)
    assert (code, found["error"]["code"]) == (4, "blobs_elsewhere")


SERVE = [sys.executable, "-m", "outlast", "serve", "--json", "--port", "0", "--home", "home", "--blobs"]


def test_a_server_keeps_content_in_the_bucket_it_was_told(tmp_path: Path, bucket: str) -> None:
    with subprocess.Popen([*SERVE, bucket], cwd=tmp_path, stdout=subprocess.PIPE) as served:
        try:
            assert served.stdout is not None
            with Outlast(json.loads(served.stdout.readline())["address"]) as outlast:
                outlast.workspace.save("plan", LONG)
                assert outlast.workspace.get("plan").read() == LONG
        finally:
            served.send_signal(signal.SIGTERM)
    assert (served.returncode, len(stored(bucket)), blobs_in(tmp_path / "home")) == (0, 1, [])


def test_a_server_whose_bucket_cannot_be_had_says_so_at_once_and_makes_no_home(tmp_path: Path, bucket: str) -> None:
    ended = subprocess.run([*SERVE, "s3://no-such-bucket/x"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert json.loads(ended.stdout)["error"]["code"] == "blobs_refused", ended.stderr
    assert (ended.returncode > 0, list(tmp_path.iterdir())) == (True, [])
