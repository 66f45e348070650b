"""`outlast mcp install`: what it prints works as it stands, and it writes nothing."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from outlast.doors.cli.group import cli
from outlast.doors.cli.serve import over_stdio

CLIENTS = ("claude", "cursor", "codex")
NASTY = "a \"b\" \\c $HOME `x` é🪸 'd'"


def install(*words: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", "install", *words], standalone_mode=False)


def printed(*words: str) -> Any:
    result = install(*words, "--json")
    assert result.exception is None, result.exception
    return json.loads(result.output)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("url", [None, "http://127.0.0.1:8787/mcp"])
def test_it_prints_and_writes_nothing(
    client: str, url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OUTLAST_API_KEY", "ol_secret")
    for words in (["--client", client], ["--client", client, "--print"]):
        result = install(*words, *(["--url", url] if url else []))
        assert result.exception is None
        assert "outlast" in result.output
        assert "ol_secret" not in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_the_options_are_part_of_what_is_printed(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTLAST_HOME", "")
    found = printed("--client", client, "--home", "h", "--tenant", "t", "--scope", "s", "--actor", "a")
    (file,) = found["files"]
    assert found["transport"] == "stdio"
    if client == "codex":
        entry = tomllib.loads(file["content"])["mcp_servers"]["outlast"]
    else:
        entry = json.loads(file["content"])["mcpServers"]["outlast"]
    wanted = ["mcp", "--home", str(tmp_path / "h"), "--tenant", "t", "--scope", "s", "--actor", "a"]
    assert [entry["command"], *entry["args"]][-9:] == wanted
    for command in found["commands"]:
        assert shlex.split(command)[-9:] == wanted


@pytest.mark.parametrize("client", CLIENTS)
def test_every_name_survives_the_quoting_of_files_and_shells(client: str) -> None:
    found = over_stdio(client, ["outlast", "mcp", "--actor", NASTY])
    (file,) = found.files
    read = tomllib.loads if client == "codex" else json.loads
    table = read(file["content"])["mcp_servers" if client == "codex" else "mcpServers"]
    assert table["outlast"]["args"][-1] == NASTY
    assert [shlex.split(command)[-1] for command in found.commands] == [NASTY] * len(found.commands)


def test_the_key_of_a_server_comes_from_the_environment() -> None:
    for client, said in {
        "claude": "Bearer ${OUTLAST_API_KEY}",
        "cursor": "Bearer ${env:OUTLAST_API_KEY}",
        "codex": 'bearer_token_env_var = "OUTLAST_API_KEY"',
    }.items():
        found = printed("--client", client, "--url", "https://example.org/mcp")
        assert said in found["files"][0]["content"]
        assert found["transport"] == "http"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--client"),
        (["--client", "emacs"], "emacs"),
        (["--client", "claude", "--url", "ftp://x"], "http://"),
        (["--client", "claude", "--url", "http://x y"], "http://"),
        (["--client", "claude", "--url", "http://x/mcp", "--tenant", "t"], "--tenant"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], says: str) -> None:
    result = install(*words)
    assert says in str(result.exception.format_message())  # type: ignore[union-attr]


def test_only_a_file_that_names_no_path_is_said_to_be_shareable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("committed" in note for note in over_stdio("claude", ["outlast", "mcp"]).notes)
    assert not any("committed" in note for note in over_stdio("claude", ["outlast", "mcp", "--home", "/x"]).notes)
    assert not any("committed" in note for note in over_stdio("claude", ["/usr/bin/python3", "mcp"]).notes)
