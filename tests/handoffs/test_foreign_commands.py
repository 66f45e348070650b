"""Commands that somebody else stored: noted at every look, and run only once a person agreed to exactly these."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.doors.hooks.leave import SessionWork, fields_of
from outlast.doors.hooks.spool import HookEvent
from outlast.doors.hooks.transcript import TranscriptFacts
from outlast.errors import ForeignCommands, HandoffInvalid, TrustInvalid
from outlast.handoffs import foreign
from outlast.handoffs.contract import contract_of
from outlast.handoffs.handoff import Form
from outlast.handoffs.observer import LOCAL
from outlast.handoffs.store import Storing, store

from ..kit.desk import GOOD, TASK, Desk, codes, digest_of, found, git


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = Desk(tmp_path)
    yield one
    one.close()


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


class Stranger:
    """A clone and a home to which a file with somebody's handoff was brought."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.repo = desk, desk.folder / "clone"
        git(desk.folder, "clone", "-q", str(desk.repo), "clone")

    def bring(self, *checks: Form, **fields: Any) -> None:
        """Each time to a home that knows nothing of it yet."""
        self.outlast = Outlast(self.desk.folder / f"elsewhere-{len(self.desk.opened)}", clock=self.desk.clock)
        self.desk.opened.append(self.outlast)
        self.desk.store(acceptance_checks=list(checks), **fields)
        file = self.desk.folder / "it.handoff"
        self.desk.outlast.handoff.export(TASK, file, force=True)
        self.outlast.handoff.import_(file)

    def recover(self, **how: Any) -> Any:
        return self.outlast.handoff.recover(TASK, repo_root=str(self.repo), **how)

    def verify(self, **how: Any) -> Any:
        return self.outlast.handoff.verify(TASK, repo_root=str(self.repo), **how)

    def settle(self, outcome: Any = "completed", **how: Any) -> Any:
        return self.outlast.handoff.settle(TASK, outcome, repo_root=str(self.repo), **how)

    def session(self) -> Any:
        return self.outlast.tasks.session(TASK.removeprefix("task:"), repo_root=str(self.repo))

    @property
    def digest(self) -> str:
        return digest_of(self.outlast.handoff.get(anchor=TASK))


@pytest.fixture
def stranger(desk: Desk) -> Stranger:
    return Stranger(desk)


# -- a stranger's file -----------------------------------------------------------------------------------


def test_looking_at_it_and_claiming_it_says_whose_commands_they_are_and_runs_none(
    stranger: Stranger, marker: Path
) -> None:
    stranger.bring(f"touch {marker}")
    for got in (stranger.recover(), stranger.recover(claim=True)):
        said = found(got)[f"foreign_commands:{TASK}"]
        assert (str(got.verdict), stranger.digest in said, "imported" in said) == ("trusted", True, True)
        (reason,) = (each for each in got.reasons if each.code == "foreign_commands")
        assert (reason.weight, f"--agree {stranger.digest}" in reason.advice) == ("notes", True)
    assert not marker.exists()


RUNS: dict[str, Callable[[Stranger], Any]] = {
    "recover": lambda it: it.recover(run_checks=True),
    "recover and claim": lambda it: it.recover(run_checks=True, claim=True),
    "verify": lambda it: it.verify(),
    "settle": lambda it: it.settle(),
    "settle, overridden": lambda it: it.settle(override="I know it"),
    "resume the task": lambda it: it.session().resume_task(run_checks=True),
    "complete the task": lambda it: it.session().complete_task(),
}


@pytest.mark.parametrize("way", RUNS)
def test_whatever_would_run_them_is_refused_and_shows_them_whole(stranger: Stranger, marker: Path, way: str) -> None:
    long = f"touch {marker}; true " + "x" * 5000
    stranger.bring(long, {"run": "make test", "cwd": "src", "exit": 3, "timeout": "5s"}, {"file": "a", "contains": "b"})
    before = len(stranger.outlast.handoff.history(TASK))
    with pytest.raises(ForeignCommands) as refused:
        RUNS[way](stranger)
    said = str(refused.value)
    assert (repr(long) in said, "'make test' in 'src', exit 3, timeout 5 s" in said) == (True, True)
    assert "look at 'a': contains 'b'" in said
    assert f"outlast handoff verify {TASK} --agree {stranger.digest}" in said
    assert (marker.exists(), len(stranger.outlast.handoff.history(TASK))) == (False, before)


def test_what_would_hide_in_a_command_is_shown(stranger: Stranger) -> None:
    stranger.bring("echo \x1b[2K\x1b[1Aharmless \u202e#\nrm -r x")
    with pytest.raises(ForeignCommands) as refused:
        stranger.verify()
    said = str(refused.value)
    assert all(line.isprintable() for line in said.splitlines())
    assert r"\x1b[2K" in said
    assert r"\u202e" in said
    assert r"\nrm -r x" in said


@pytest.mark.parametrize("way", RUNS)
def test_agreed_to_by_digest_they_run(stranger: Stranger, marker: Path, way: str, own_folder: Path) -> None:
    stranger.bring(f"touch {marker}")
    calls: dict[str, Callable[[], Any]] = {
        "recover": lambda: stranger.recover(run_checks=True, agree=stranger.digest),
        "recover and claim": lambda: stranger.recover(run_checks=True, claim=True, agree=stranger.digest),
        "verify": lambda: stranger.verify(agree=stranger.digest),
        "settle": lambda: stranger.settle(agree=stranger.digest),
        "settle, overridden": lambda: stranger.settle(override="I know it", agree=stranger.digest),
        "resume the task": lambda: stranger.session().resume_task(run_checks=True, agree=stranger.digest),
        "complete the task": lambda: stranger.session().complete_task(agree=stranger.digest),
    }
    calls[way]()
    assert marker.exists()
    assert stranger.digest in (own_folder / "agreed").read_text().splitlines()


def test_agreement_is_remembered_by_the_user_and_not_by_the_home(
    stranger: Stranger, marker: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.bring(f"touch {marker}")
    stranger.verify(agree=stranger.digest)
    marker.unlink()
    assert "foreign_commands" not in codes(stranger.verify())
    assert marker.exists()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_folder.parent / "somebody-else"))
    with pytest.raises(ForeignCommands):
        stranger.verify()


CHANGED: dict[str, tuple[Form, ...]] = {
    "the command": ("true 2", {"file": "a", "exists": True}),
    "its folder": ({"run": "true", "cwd": "src"}, {"file": "a", "exists": True}),
    "its exit": ({"run": "true", "exit": 1}, {"file": "a", "exists": True}),
    "its time": ({"run": "true", "timeout": "1s"}, {"file": "a", "exists": True}),
    "a file": ("true", {"file": "b", "exists": True}),
    "a rule": ("true", {"file": "a", "absent": True}),
    "one more": ("true", {"file": "a", "exists": True}, "true"),
    "one less": ("true",),
    "their order": ({"file": "a", "exists": True}, "true"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_whatever_changes_about_them_needs_a_new_agreement(stranger: Stranger, what: str) -> None:
    stranger.bring("true", {"file": "a", "exists": True})
    before = stranger.digest
    stranger.verify(agree=before)
    stranger.bring(*CHANGED[what])
    with pytest.raises(ForeignCommands) as refused:
        stranger.verify()
    assert refused.value.digest == stranger.digest != before
    with pytest.raises(ForeignCommands, match="what was agreed to is"):
        stranger.verify(agree=before)


def test_other_words_for_the_same_command_are_the_same_agreement(stranger: Stranger) -> None:
    stranger.bring("true")
    stranger.verify(agree=stranger.digest)
    stranger.bring({"run": "true", "exit": 0}, summary="In other words")
    assert stranger.verify().evidence[0].passed


def test_rules_about_files_alone_are_nobodys_commands(stranger: Stranger) -> None:
    stranger.bring({"file": "src/export.py", "exists": True})
    assert "foreign_commands" not in codes(stranger.recover())
    assert stranger.settle().outcome == "completed"


def test_what_is_stored_here_since_is_ours_again(stranger: Stranger, marker: Path) -> None:
    stranger.bring(f"touch {marker}")
    stranger.desk.store(outlast=stranger.outlast, repo_root=str(stranger.repo))
    assert "foreign_commands" not in codes(stranger.recover())
    assert stranger.recover(run_checks=True).evidence
    with pytest.raises(ForeignCommands):
        stranger.outlast.handoff.recover(TASK, revision=1, repo_root=str(stranger.repo), run_checks=True)
    assert not marker.exists()


def test_settling_without_running_anything_needs_no_agreement(stranger: Stranger, marker: Path) -> None:
    stranger.bring(f"touch {marker}")
    assert stranger.settle("failed").outcome == "failed"
    assert stranger.settle(run_checks=False, override="seen elsewhere").outcome == "completed"
    assert not marker.exists()


# -- ours ------------------------------------------------------------------------------------------------


def test_no_local_actor_is_foreign_in_a_home_that_was_named(desk: Desk) -> None:
    desk.store(outlast=desk.sit_down("ann"))
    got = desk.recover(run_checks=True, outlast=desk.sit_down("ben"))
    assert ("foreign_commands" in codes(got), got.evidence[0].passed) == (False, True)


def test_a_digest_of_other_commands_is_refused_of_our_own_too(desk: Desk, marker: Path) -> None:
    stored = desk.store(acceptance_checks=[f"touch {marker}"])
    with pytest.raises(ForeignCommands, match="what was agreed to is"):
        desk.recover(run_checks=True, agree="0" * 64)
    assert not marker.exists()
    desk.recover(run_checks=True, agree=digest_of(stored))
    assert marker.exists()


@pytest.mark.parametrize("agree", ["", 5, "x"])
def test_agreeing_where_nothing_runs_is_a_mistake(desk: Desk, agree: Any) -> None:
    desk.store()
    for call in (desk.recover, lambda agree: desk.settle("failed", agree=agree)):
        with pytest.raises(HandoffInvalid) as refused:
            call(agree=agree)
        assert refused.value.path == "agree"


def test_nothing_runs_without_leave_for_exactly_that(desk: Desk, marker: Path) -> None:
    about = contract_of(**GOOD | {"acceptance_checks": [f"touch {marker}"]})
    leave = foreign.own(contract_of(**GOOD))
    with pytest.raises(AssertionError, match="leave"):
        LOCAL.run_checks(desk.outlast._executor, about, desk.repo, leave=leave, when="verify", by="me")
    assert not marker.exists()


# -- the user's own folder -------------------------------------------------------------------------------


def unbelievable(file: Path, digest: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{digest}\n")
    file.chmod(0o666)


ODD: dict[str, Callable[[Path, str], object]] = {
    "written by everybody": unbelievable,
    "part of a line": lambda file, digest: file.write_text(f"not {digest}\n{digest} \n{digest[:32]}\n"),
    "in capitals": lambda file, digest: file.write_text(digest.upper()),
    "empty": lambda file, digest: file.write_bytes(b"\0" * 100),
    "a folder": lambda file, digest: file.mkdir(),
    "too large": lambda file, digest: file.write_bytes(b"\n" * (5 << 20) + digest.encode()),
    "of bytes": lambda file, digest: file.write_bytes(b"\xff\xfe" + digest.encode("utf-16")),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_agreement_that_is_none_is_none(stranger: Stranger, own_folder: Path, marker: Path, odd: str) -> None:
    stranger.bring(f"touch {marker}")
    own_folder.mkdir(parents=True, exist_ok=True)
    ODD[odd](own_folder / "agreed", stranger.digest)
    with pytest.raises(ForeignCommands):
        stranger.verify()
    assert not marker.exists()


def test_where_nothing_can_be_kept_it_is_agreed_to_each_time(
    stranger: Stranger, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    stranger.bring(f"touch {marker}")
    stranger.verify(agree=stranger.digest)
    assert marker.exists()
    with pytest.raises(ForeignCommands):
        stranger.verify()


@pytest.mark.parametrize("given", ["config", ".config", ""])
def test_a_folder_that_depends_on_where_one_stands_is_not_the_users(
    stranger: Stranger, given: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stranger.bring("true")
    monkeypatch.setenv("XDG_CONFIG_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    planted = stranger.repo / given / "outlast"
    planted.mkdir(parents=True)
    (planted / "agreed").write_text(stranger.digest)
    monkeypatch.chdir(stranger.repo)
    with pytest.raises(ForeignCommands):
        stranger.verify()


@pytest.mark.parametrize("said", ["trust: ann", "trust: [1]", "- ann", "trust: {", "trust: [[ann]]", "ann", "\0"])
def test_trust_that_is_said_wrongly_trusts_nobody_and_says_so(desk: Desk, own_folder: Path, said: str) -> None:
    stored = desk.store()
    own_folder.mkdir(parents=True)
    (own_folder / "config.yaml").write_text(said)
    with pytest.raises(TrustInvalid):
        foreign.stands_against(stored, foreign.Stranger("somebody", "ann"))


def test_a_name_vouches_for_what_a_key_shows_and_for_no_file(stranger: Stranger, own_folder: Path) -> None:
    stranger.bring("true")
    own_folder.mkdir(parents=True)
    (own_folder / "config.yaml").write_text("trust: [local, ann]\n")
    with pytest.raises(ForeignCommands):
        stranger.verify()
    assert foreign.stands_against(stranger.outlast.handoff.get(anchor=TASK), foreign.Stranger("ann", "ann")) == ""


# -- what a hook carries on ------------------------------------------------------------------------------


def carry_on(stranger: Stranger) -> None:
    """What a hook does after a turn: the next revision, with the checks of the one before."""
    base = stranger.outlast.handoff.get(anchor=TASK)
    event = HookEvent("claude", "stop", "s1", str(stranger.repo), at=stranger.desk.clock.now())
    fields = fields_of(SessionWork(event, TASK, str(stranger.repo), TranscriptFacts(()), ("src/export.py",)), base)
    store(stranger.outlast._executor, fields, Storing(scope="default", actor="claude", source="hook", bind=False))


@pytest.mark.parametrize("way", RUNS)
def test_a_hook_that_carries_them_on_makes_them_nobody_elses(stranger: Stranger, marker: Path, way: str) -> None:
    stranger.bring(f"touch {marker}")
    for _ in range(2):
        carry_on(stranger)
        assert "imported" in found(stranger.recover())[f"foreign_commands:{TASK}"]
        with pytest.raises(ForeignCommands):
            RUNS[way](stranger)
    assert not marker.exists()


def test_a_hook_that_carries_our_own_on_needs_no_agreement(stranger: Stranger, marker: Path) -> None:
    stranger.bring("false")
    stranger.outlast.handoff.store(**GOOD | {"repo_root": str(stranger.repo), "acceptance_checks": [f"touch {marker}"]})
    carry_on(stranger)
    stranger.verify()
    assert marker.exists()
