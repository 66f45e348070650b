"""Names that become folders or are shown to people: nothing leaves the home, nothing unprintable is kept."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast.errors import HomeNotFound, NameInvalid, StoreReadOnly
from outlast.home.place import check_name, find_home, make_folders, tenant_folder


@given(st.text(max_size=70) | st.sampled_from(["..", ".", "a/b", "../x", "/etc", "a\x00", "-a", "a" * 65, "a\n"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_tenant_has_a_folder_right_under_the_home_or_is_refused(tmp_path: Path, tenant: str) -> None:
    try:
        folder = tenant_folder(tmp_path / "home", tenant)
    except NameInvalid:
        return
    assert folder.resolve().parent == (tmp_path / "home").resolve()
    assert folder.name == tenant
    make_folders(tmp_path / "home", folder)
    assert (folder / "blobs").is_dir()


@pytest.mark.parametrize(
    "tenant", ["", "..", ".", "../x", "a/b", "/etc", ".hidden", "a b", "a\n", "ä", "a" * 65, None, 5]
)
def test_a_tenant_s_name_cannot_leave_the_home(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(NameInvalid):
        tenant_folder(tmp_path, tenant)


def test_a_home_that_is_a_file_is_said_to_be_unwritable(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StoreReadOnly):
        make_folders(tmp_path / "home", tenant_folder(tmp_path / "home", "default"))


@given(st.text())
def test_a_name_for_people_is_printable_short_and_not_empty(name: str) -> None:
    good = bool(name.strip()) and name.isprintable() and len(name) <= 500
    if good:
        assert check_name("task", name) == name
    else:
        with pytest.raises(NameInvalid):
            check_name("task", name)


def test_the_nearest_home_upward_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.delenv("OUTLAST_HOME", raising=False)
    monkeypatch.chdir(deep)
    (tmp_path / ".outlast").mkdir()
    assert find_home() == tmp_path / ".outlast"
    (tmp_path / "a" / ".outlast").mkdir()
    assert find_home() == tmp_path / "a" / ".outlast"
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "other"))
    assert find_home() == tmp_path / "other"
    assert find_home(tmp_path / "given") == tmp_path / "given"
    with pytest.raises(HomeNotFound, match="other"):
        find_home(must_exist=True)
