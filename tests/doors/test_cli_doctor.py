"""`doctor` is not ok where `verify` is not, in any tenant."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.families import add_run

from outlast import Outlast

if TYPE_CHECKING:
    from .conftest import Cli


@pytest.fixture
def home(cli: "Cli") -> Path:
    home = cli.folder / ".outlast"
    for tenant in ("default", "acme"):
        with Outlast(home, tenant=tenant) as outlast:
            add_run(outlast, "one", contents=[b'"' + b"x" * 50_000 + b'"'])
    return home


def spoil(home: Path, tenant: str) -> None:
    for path in (home / tenant / "blobs").glob("??/*"):
        path.write_bytes(b"changed")


def test_a_sound_home_is_sound_and_says_that_it_was_checked(cli: "Cli", home: Path) -> None:
    told = cli("doctor", "--json")
    assert (told.code, told.json["ok"], told.json["verified"]) == (0, True, True)
    assert told.json["tenants"] == ["acme", "default"]


@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_doctor_names_what_verify_names(cli: "Cli", home: Path, tenant: str) -> None:
    spoil(home, tenant)
    verified = cli("verify", "--tenant", tenant, "--json")
    told = cli("doctor", "--json")
    assert (verified.code, told.code, told.json["ok"]) == (1, 1, False)
    for problem in verified.json["problems"]:
        assert any(problem["record"] in each and tenant in each for each in told.json["problems"])
    said = cli("doctor")
    assert said.code == 1
    assert "its content was changed" in said.out
    assert "nothing to mend" not in said.out


def test_a_quick_doctor_says_what_it_left_out(cli: "Cli", home: Path) -> None:
    spoil(home, "default")
    told = cli("doctor", "--quick")
    assert told.code == 0
    assert "the records were not checked: outlast verify" in told.out
    assert "nothing to mend" not in told.out
    assert cli("doctor", "--quick", "--json").json["verified"] is False


def test_a_tenant_that_cannot_be_opened_is_a_problem_of_the_home(cli: "Cli", home: Path) -> None:
    (home / "acme" / "outlast.db").unlink()
    told = cli("doctor", "--json")
    assert (told.code, told.json["ok"]) == (1, False)
    assert any("acme" in each and "store_lost" in each for each in told.json["problems"])


def test_a_restored_home_says_where_it_came_from(cli: "Cli", home: Path) -> None:
    made = cli("backup", "b.zip", "--json").json
    assert cli("restore", "b.zip", "--home", "restored").code == 0
    said = cli("doctor", "--home", "restored")
    assert said.code == 0
    assert f"restored from backup {made['id']} of {home}" in said.out
    assert "let only one of the two homes go on" in said.out
    assert json.loads(cli("doctor", "--json", "--home", "restored").out)["restored"]["backup"] == made["id"]


def test_backup_and_restore_say_what_they_did(cli: "Cli", home: Path) -> None:
    told = cli("backup")
    assert told.code == 0
    assert "2 tenants" in told.out
    assert "sha256 " in told.out
    (file,) = cli.folder.glob("*.outlast.zip")
    assert cli("backup", file.name, "--json").json["error"]["code"] == "conflict"
    restored = cli("restore", file.name, "--home", "restored")
    assert restored.code == 0
    assert "all proven" in restored.out
    assert cli("verify", "--home", "restored").code == 0
    again = cli("restore", file.name, "--home", "restored", "--json")
    assert (again.code, again.json["error"]["code"]) == (4, "home_not_empty")
    assert cli("restore").code == 2
    assert cli("restore", file.name, "--anew").code == 2


def test_a_backup_of_a_home_with_a_broken_blob_is_taken_and_says_so(cli: "Cli", home: Path) -> None:
    spoil(home, "acme")
    told = cli("backup", "b.zip")
    assert told.code == 1
    assert (cli.folder / "b.zip").exists()
    assert "broken already" in told.err


def test_a_home_is_rebuilt_from_its_mirror_as_testimony(cli: "Cli", home: Path) -> None:
    cli.here("flows.py:report", topic="kelp")
    assert cli("export", cli.run_id, "--mirror").code == 0
    told = cli("restore", "--from-mirror", ".outlast/runs", "--home", "rebuilt")
    assert told.code == 0, told
    assert "in doubt" in told.out
    (run,) = cli("runs", "--home", "rebuilt", "--json").json["runs"]
    assert run["seal"] == "testimony"
    assert cli("resume", run["id"], "--home", "rebuilt").code == 4
