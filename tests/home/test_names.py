"""Names that a home must not take for something else: tenants like its own files, artifacts like versions."""

import os
import pwd
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow, step
from outlast.doors.hooks.spool import note
from outlast.errors import NameInvalid
from outlast.home.keys import Keys
from outlast.home.place import check_tenant


@step
def one() -> int:
    return 1


@flow
def short(run: Run) -> int:
    return one()


def test_no_tenant_can_be_called_like_what_a_home_keeps(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast:
        outlast.run(short)
    Keys(home).create("ann")
    note(str(home), "something")
    (home / "secrets.yaml").write_text("own: OWN-[0-9]{8}\n")
    (home / "runs").mkdir(exist_ok=True)
    kept = {each.name for each in home.iterdir()} - {"default"}
    assert {"keys.db", ".gitignore", "hooks.log", "secrets.yaml", "runs"} <= kept
    for name in (*kept, *(name.upper() for name in kept), "settings", "config.yaml", "keys.db-wal", "keys.db-journal"):
        with pytest.raises(NameInvalid):
            check_tenant(name)
        with pytest.raises(NameInvalid):
            Outlast(home, tenant=name)
        with pytest.raises(NameInvalid):
            Keys(home).create("ann", tenant=name)


@pytest.mark.parametrize("name", ["default", "acme", "a.b", "v1.2", "run", "example.org", "db"])
def test_other_tenants_are_called_as_they_like(name: str) -> None:
    assert check_tenant(name) == name


@pytest.mark.parametrize("name", ["x@1", "x@0", "x@007", "@1", "a@b@99999999999999999999"])
def test_an_artifact_cannot_hide_a_version_of_another(tmp_path: Path, name: str) -> None:
    with Outlast(tmp_path / "home") as outlast:
        first = outlast.workspace.save("x", "first")
        with pytest.raises(NameInvalid, match="version"):
            outlast.workspace.save(name, "another")
        assert outlast.workspace.get("x@1").ref == first.ref
        assert [each.ref for each in outlast.workspace.list()] == [first.ref]


@pytest.mark.parametrize("name", ["x@1.txt", "x@", "x@one", "ann@example.org", "1@x"])
def test_an_at_sign_elsewhere_is_a_name_like_any_other(tmp_path: Path, name: str) -> None:
    with Outlast(tmp_path / "home") as outlast:
        saved = outlast.workspace.save(name, "text")
        assert outlast.workspace.get(name).ref == outlast.workspace.get(f"{name}@1").ref == saved.ref


# -- who acts ----------------------------------------------------------------------------------------


def started_by(home: Path, **names: str) -> str:
    with Outlast(home, **names) as outlast:
        return str(outlast.get(outlast.run(short).run_id).actor)


def test_who_gives_no_name_acts_by_that_of_the_environment_else_by_his_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_ACTOR", "ann at the desk")
    assert started_by(tmp_path / "home") == "ann at the desk"
    assert started_by(tmp_path / "home", actor="ben") == "ben"
    monkeypatch.delenv("OUTLAST_ACTOR")
    assert started_by(tmp_path / "home") == pwd.getpwuid(os.geteuid()).pw_name


def test_a_user_without_a_name_acts_by_his_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("OUTLAST_ACTOR")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert started_by(tmp_path / "home") == f"uid-{os.geteuid()}"


def test_a_name_of_the_environment_that_cannot_be_printed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_ACTOR", "an\x1b[2Jn")
    with pytest.raises(NameInvalid, match="printed"):
        Outlast(tmp_path / "home")


def test_what_was_stored_without_a_name_is_his_own(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home", actor="local") as outlast:
        outlast.handoff.store("task:x", handoff_text="one", summary="half done", next_action="do the rest")
    with Outlast(tmp_path / "home", actor="ann") as outlast:
        again = outlast.handoff.store("task:x", handoff_text="two", summary="done", next_action="nothing")
        assert again.revision == 2
        assert "rival" not in {reason.code for reason in outlast.handoff.recover("task:x").verdict.reasons}
