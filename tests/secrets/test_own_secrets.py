"""Rules of one's own hold everywhere: handoffs, events, tasks, transcripts, checks, artifacts. A bad one stops all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow, step
from outlast.errors import SecretFound, SecretPatternInvalid
from outlast.home.settings import Settings
from outlast.python.decorators import flow_file

OURS = "ours_12345678"
RULE = "ours: 'ours_[0-9]{8}'\n"


@step
def saying() -> None:
    from outlast import current

    current().emit("step", {"note": f"{OURS}, {OURS}"})


@flow
def talking(run: Run) -> None:
    run.emit("body", f"it is {OURS}")
    saying()


def with_file(folder: Path, text: str = RULE) -> Path:
    home = folder / ".outlast"
    home.mkdir(exist_ok=True)
    (home / "secrets.yaml").write_text(text)
    return home


@pytest.fixture(params=["settings", "file"])
def outlast(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outlast]:
    """A home with one rule of its own, said in Python or in the home."""
    said = {"secret_patterns": {"ours": "ours_[0-9]{8}"}} if request.param == "settings" else {}
    home = tmp_path / ".outlast" if said else with_file(tmp_path)
    with Outlast(home, settings=Settings(**said)) as found:
        yield found


def test_a_rule_of_ones_own_holds_wherever_secrets_are_looked_for(outlast: Outlast, tmp_path: Path) -> None:
    said = {"summary": "s", "handoff_text": f"use {OURS}", "next_action": "go on", "bind": False}
    with pytest.raises(SecretFound, match="handoff_text holds what looks like a secret"):
        outlast.handoff.store("a", **said)
    assert outlast.handoff.store("a", **said, redact=True).handoff_text == "use ***"
    run_id = outlast.run(talking).run_id
    events = {event.name: event for event in outlast.events(run_id)}
    assert (events["body"].body, events["body"].masked) == ("it is ***", 1)
    assert (events["step"].body, events["step"].masked) == ({"note": "***, ***"}, 2)
    event = outlast.tasks.open("t").record_event("note", {"a": [OURS, f"{OURS} {OURS}"]})
    assert (event.body, event.masked) == ({"a": ["***", "*** ***"]}, 3)
    for field in ("summary", "source"):
        with pytest.raises(SecretFound, match=f"{field} holds"):
            outlast.workspace.save("x", b"content", **{field: f"see {OURS}"})
    with pytest.raises(SecretFound, match=r"tags\[1\] holds"):
        outlast.workspace.save("x", b"content", tags=["a", OURS])
    with pytest.raises(SecretFound, match="summary holds"):
        outlast.workspace.checkpoint("c", OURS, task="t")


def test_a_rule_of_ones_own_holds_for_what_commands_print(outlast: Outlast, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(f"flow: f\nsteps:\n  - id: one\n    run: 'echo {OURS[:7]}\"\"{OURS[7:]}; printf {OURS}'\n")
    run_id = outlast.run(flow_file(file)).run_id
    (log,) = outlast.logs(run_id)
    assert (b"".join(log.pieces()), log.masked) == (b"***\n***", 2)
    said = {
        "summary": "s",
        "handoff_text": "h",
        "next_action": "n",
        "acceptance_checks": [f"echo {OURS[:7]}{'`true`'}{OURS[7:]}"],
    }
    stored = outlast.handoff.store("b", **said, baseline=True, repo_root=str(tmp_path))
    assert stored.baseline[0].note == "masked 1 secret in its output"


def test_a_file_that_a_rule_of_ones_own_finds_a_secret_in_is_not_kept(outlast: Outlast, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(f"it is {OURS}\n")
    said = {"summary": "s", "handoff_text": "h", "next_action": "n", "target_files": ["notes.txt"]}
    stored = outlast.handoff.store("c", **said, repo_root=str(tmp_path))
    assert stored.binding is not None
    assert stored.binding.files["notes.txt"].why == "secret"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ours: '[a-z'\n", "line 1, ours: '[a-z' is no regular expression"),
        ("a: 'abcdef'\nours: '(a+)+bcdef'\n", "line 2, ours: "),
        ("ours: [abcd]\n", "line 1: this is no text"),
        ("ours:\n", "line 1: this is no text"),
        ("- abcd\n", "line 1: this is no mapping"),
        ("ours: 'abcd'\nours: 'efgh'\n", "line 2, ours: it stands there twice"),
        ("ours:\n  pattern: 'abcd'\n  flags: i\n", "line 1, ours: it has a `pattern`"),
        ("ours: 'abcd\n", "this is not YAML"),
        ("ours: \x00\n", "NUL"),
        ("github: 'abcd'\n", "line 1, github: a rule of this name is built in"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_line_before_anything_is_opened(
    tmp_path: Path, text: str, told: str
) -> None:
    home = with_file(tmp_path, text)
    with pytest.raises(SecretPatternInvalid) as refused:
        Outlast(home)
    assert str(home / "secrets.yaml") in str(refused.value)
    assert told in str(refused.value)
    assert [path.name for path in home.iterdir()] == ["secrets.yaml"]


def test_a_file_that_cannot_be_read_is_never_left_out(tmp_path: Path) -> None:
    home = with_file(tmp_path)
    (home / "secrets.yaml").unlink()
    (home / "secrets.yaml").symlink_to(tmp_path / "gone")
    with pytest.raises(SecretPatternInvalid, match="no plain file"):
        Outlast(home)
    (home / "secrets.yaml").unlink()
    os.mkfifo(home / "secrets.yaml")
    with pytest.raises(SecretPatternInvalid, match="no plain file"):
        Outlast(home)


def test_a_file_of_comments_has_no_rules_and_kinds_are_told(tmp_path: Path) -> None:
    with Outlast(with_file(tmp_path, "# none yet\n\n")) as outlast:
        assert outlast.workspace.save("x", b"content", summary=OURS).summary == OURS
    home = with_file(tmp_path, "ours:\n  pattern: ours_[0-9]{8}\n  kind: one of our keys\n")
    with Outlast(home) as outlast, pytest.raises(SecretFound, match="summary holds what looks like one of our keys"):
        outlast.workspace.save("x", b"content", summary=OURS)


def test_a_name_that_both_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SecretPatternInvalid, match="the settings have a rule of this name too"):
        Outlast(with_file(tmp_path), settings=Settings(secret_patterns={"ours": "abcd"}))
