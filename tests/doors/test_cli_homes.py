"""What a command says where there is no home to read, or not the one that was meant."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast

from ..crash.command_folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def test_a_home_without_the_tenant_names_those_it_has(folder: Folder) -> None:
    for tenant in ("acme", "beta"):
        Outlast(folder.path / ".outlast", tenant=tenant).close()
    said = folder.cli("runs")
    assert (said.code, "has no tenant 'default'; it has acme, beta; name one: --tenant NAME" in said.err) == (5, True)
    assert folder.cli("runs", "--tenant", "acme").code == 0


def test_a_home_that_was_named_and_is_not_there_is_called_that(folder: Folder) -> None:
    never = folder.path / "never" / "made"
    said = folder.cli("runs", "--home", str(never))
    assert (said.code, f"the folder {never} does not exist" in said.err) == (5, True)
    file, empty = folder.write("file", ""), folder.path / "empty"
    empty.mkdir()
    assert f"{file} is no folder" in folder.cli("runs", "--home", str(file)).err
    assert f"{empty} is no home" in folder.cli("runs", "--home", str(empty)).err


@pytest.mark.parametrize("tenant", ["../x", "", "a b", "/etc"])
def test_a_tenant_that_is_no_name_is_refused_before_anything_is_looked_for(folder: Folder, tenant: str) -> None:
    said = folder.cli("runs", "--tenant", tenant)
    assert (said.code, "[name_invalid]" in said.err) == (2, True)


def test_an_empty_home_is_refused(folder: Folder) -> None:
    assert folder.cli("runs", "--home", "").code == 2


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_advice_names_what_makes_a_home(folder: Folder, words: tuple[str, ...]) -> None:
    said = folder.cli("runs", *words)
    assert said.code == 5
    for name in ("run", "import", "session append", "workspace save", "task open", "handoff store"):
        assert name in said.out + said.err


def test_an_audit_of_a_file_without_a_name_says_so(folder: Folder) -> None:
    folder.write("bad.py", "")
    said = folder.cli("audit", "bad.py")
    assert (said.code, "it has no name after a colon" in said.err, "[flow_not_found]" in said.err) == (5, True, True)
