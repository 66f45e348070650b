"""Installing hooks: a client's settings file gets our lines, keeps everybody else's, and can be put back."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.doors.conftest import environment
from tests.doors.hook_work import VERSIONS, Work, command, fixture, git

from outlast.doors.cli.hook import add_hooks, command_for, file_of, hooks_of, take_out_hooks
from outlast.doors.hooks.spool import KINDS, Client
from outlast.errors import SettingsInvalid

OTHERS = {
    "claude": {
        "permissions": {"allow": ["Bash(ls:*)"]},
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "notify-send done"}]}],
            "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "outlast hook of mine"}]}],
        },
    },
    "codex": {"description": "ours", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}},
    "cursor": {"version": 1, "hooks": {"stop": [{"command": "./beep.sh"}], "afterFileEdit": [{"command": "fmt"}]}},
}


@pytest.mark.parametrize("client", VERSIONS)
def test_installing_twice_is_installing_once(tmp_path: Path, client: Client) -> None:
    first = add_hooks(client, tmp_path)
    written = first.file.read_bytes()
    assert first.changed
    assert len(first.events) == 4
    again = add_hooks(client, tmp_path)
    assert not again.changed
    assert first.file.read_bytes() == written
    assert hooks_of(client, tmp_path).events == first.events


@pytest.mark.parametrize("client", VERSIONS)
def test_what_others_configured_stays_and_uninstalling_leaves_only_that(tmp_path: Path, client: Client) -> None:
    file = file_of(client, tmp_path)
    file.parent.mkdir()
    file.write_text(json.dumps(OTHERS[client], indent=2) + "\n")
    before = file.read_bytes()
    settings = add_hooks(client, tmp_path).settings
    assert "beep" in json.dumps(settings) or "notify-send done" in json.dumps(settings)
    assert take_out_hooks(client, tmp_path).changed
    assert file.read_bytes() == before
    assert not take_out_hooks(client, tmp_path).changed


@pytest.mark.parametrize("client", VERSIONS)
def test_a_file_that_was_only_ours_goes_with_our_hooks(tmp_path: Path, client: Client) -> None:
    file = add_hooks(client, tmp_path).file
    take_out_hooks(client, tmp_path)
    assert not file.exists()


def test_a_line_of_an_older_outlast_is_replaced(tmp_path: Path) -> None:
    file = file_of("claude", tmp_path)
    file.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/bin/outlast hook stop --client claude"}]}
    file.write_text(json.dumps({"hooks": {"Stop": [old]}}))
    settings = add_hooks("claude", tmp_path).settings
    assert [group["hooks"][0]["command"] for group in settings["hooks"]["Stop"]] == [command_for("claude", "stop")]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": {"x": [1]}}', "\xff"]
)
def test_a_file_that_could_not_be_kept_as_it_is_is_refused_and_not_touched(tmp_path: Path, text: str) -> None:
    file = file_of("claude", tmp_path)
    file.parent.mkdir()
    file.write_text(text, "latin-1")
    with pytest.raises(SettingsInvalid):
        add_hooks("claude", tmp_path)
    assert file.read_text("latin-1") == text


def test_a_settings_file_that_is_a_link_stays_one_and_keeps_its_permissions(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o600)
    file = file_of("codex", tmp_path)
    file.parent.mkdir()
    file.symlink_to(real)
    add_hooks("codex", tmp_path)
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert "hook stop --client codex" in real.read_text()


def test_printing_writes_nothing(tmp_path: Path) -> None:
    found = add_hooks("claude", tmp_path, write=False)
    assert not found.changed
    assert not found.file.exists()
    assert found.settings["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] <= 3


def test_the_installed_commands_work_as_they_are_written(tmp_path: Path) -> None:
    work = Work(tmp_path)
    for kind in KINDS:
        name = {"start": "session-start", "stop": "stop", "compact": "pre-compact", "end": "session-end"}[kind]
        given = fixture(f"claude-2.1.261-{name}.json", work.folder, work.transcript)
        done = subprocess.run(
            ["sh", "-c", command_for("claude", kind)], input=given, capture_output=True, cwd="/", env=environment()
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    work.settled()
    assert (work.home / ".hooks" / "spool").is_dir()


def test_the_command_installs_in_the_project_and_makes_the_home(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", ".")
    told = command(tmp_path, "install", "--client", "codex", "--json").json
    assert (told["file"], told["changed"]) == (str(tmp_path / ".codex" / "hooks.json"), True)
    assert (tmp_path / ".outlast" / ".gitignore").read_text() == "*\n"
    shown = command(tmp_path, "status", HOME=str(tmp_path))
    assert "codex: SessionStart, Stop, PreCompact, SessionEnd in" in shown.out
    printed = command(tmp_path, "install", "--client", "cursor", "--print")
    assert json.loads(printed.out)["version"] == 1
    assert not (tmp_path / ".cursor").exists()
    assert command(tmp_path, "drain").out == "0 events taken in, 0 left\n"
    assert "taken out of" in command(tmp_path, "uninstall", "--client", "codex").out
    assert command(tmp_path, "install", "--client", "codex", "--home", "elsewhere").code == 2


def test_user_settings_are_in_the_persons_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    files = {client: file_of(client, Path("/p"), user=True) for client in VERSIONS}
    assert {str(file.relative_to(tmp_path)) for file in files.values()} == {
        ".claude/settings.json",
        ".codex/hooks.json",
        ".cursor/hooks.json",
    }
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert file_of("codex", Path("/p"), user=True) == tmp_path / "codex" / "hooks.json"


def test_the_page_shows_every_command() -> None:
    from outlast.doors.cli.hook import SECTIONS

    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    names = [name for section in SECTIONS.values() for name in section]
    assert [name for name in names if not re.search(rf"`outlast hook [^`]*\b{name}\b", page)] == []
