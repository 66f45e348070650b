"""Hooks: a session that ends, compacts or dies leaves a handoff, and the next starts from it; no agent is disturbed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pytest
from tests.doors.conftest import environment
from tests.doors.hook_work import VERSIONS, Work, context, fixture, forked, git
from tests.kit import ledgers

from outlast import __version__
from outlast.doors.cli import hook as hook_setup
from outlast.doors.hooks import leave as leaving
from outlast.doors.hooks import spool
from outlast.doors.hooks.fire import Called, called
from outlast.doors.hooks.spool import Client
from outlast.errors import HandoffNotFound
from outlast.operations.reading import tokens_of
from outlast.python.work_tree import work_tree_of

NEXT = "Set limit to 2 in app.py"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    if made.agent is not None:
        made.agent.kill()
        made.agent.wait()


# What is left, and what the next session is told


@pytest.mark.parametrize("client", VERSIONS)
def test_a_session_that_ends_leaves_a_handoff_with_its_own_next_step(tmp_path: Path, client: Client) -> None:
    work = Work(tmp_path, client)
    work.plan()
    left = work.leave("end").handoff
    assert left is not None
    assert (left.source, left.anchor, left.next_action, left.target_files[0]) == ("hook", "branch:main", NEXT, "app.py")
    assert "[>] Set limit to 2 in app.py" in left.handoff_text
    text = work.start(session="another")
    assert text.startswith("# Verdict: candidate\n")  # nobody wrote a check
    assert "no_checks (weakens)" in text
    assert f"> {NEXT}" in text
    assert tokens_of(text) <= 1500


@pytest.mark.parametrize("kind", ["stop", "compact"])
def test_a_turn_and_a_compaction_leave_one_too(work: Work, kind: str) -> None:
    work.plan()
    assert work.leave("stop" if kind == "stop" else "compact").handoff == work.newest()


def test_a_session_that_was_killed_left_no_end_and_the_next_start_composes_it(work: Work) -> None:
    work.agent = subprocess.Popen(["sleep", "600"])
    assert work.start() == ""  # nothing is handed over yet
    work.plan()
    work.agent.kill()
    work.agent.wait()
    work.agent = None
    text = work.start(session="the next one")
    assert text.startswith("# Verdict: candidate\n")
    assert "auto_composed (weakens)" in text
    assert f"> {NEXT}" in text
    assert tokens_of(text) <= 1500
    assert (work.newest().source, work.newest().tags) == ("hook", ("hook", "auto_composed"))
    assert [each.event.session for each in spool.all_sessions(str(work.home))] == ["the next one"]


def test_a_start_is_told_within_its_tokens_however_much_was_left(work: Work) -> None:
    for number in range(40):
        work.edit("x = 1\n", f"file with a rather long name {number}.py")
    work.todos(*((f"Step {number}: {'do this and that and more ' * 30}", "pending") for number in range(150)))
    work.leave("end")
    text = work.start(session="next")
    assert text.startswith("# Verdict: ")
    assert "> Step 0: do this" in text
    assert 1000 < tokens_of(text) <= 1500
    whole = work.newest()
    assert len(whole.target_files) == 40
    assert "… and 50 more steps" in whole.handoff_text


def test_a_session_that_is_alive_is_not_taken_for_dead(work: Work) -> None:
    work.agent = subprocess.Popen(["sleep", "600"])
    work.start()
    work.plan()
    work.leave("stop")
    alive, work.agent = work.agent, None
    text = work.start(session="beside it")
    work.agent = alive
    assert "Another Claude Code session is open on the same work" in text
    assert "auto_composed" not in text


def test_without_a_plan_there_is_no_next_action_and_lint_says_weak(work: Work) -> None:
    work.edit("limit = 3\n")
    left = work.leave("end").handoff
    assert left is not None
    assert left.next_action is None
    assert left.lint.weak
    assert "Next action: none was given" in work.start(session="another")


def test_nothing_changed_makes_no_revision(work: Work) -> None:
    work.plan()
    assert work.leave("stop").handoff is not None
    assert work.leave("stop").handoff is None
    git(work.folder, "commit", "-q", "-am", "the same content, committed")
    assert work.leave("end").handoff is None
    assert work.newest().revision == 1


def test_a_changed_file_or_a_changed_plan_makes_one(work: Work) -> None:
    work.plan()
    work.leave("stop")
    work.edit("limit = 9\n")
    assert work.leave("stop").handoff is not None
    work.todos((NEXT, "completed"), ("Run the tests", "in_progress"))
    left = work.leave("stop").handoff
    assert left is not None
    assert (left.revision, left.next_action) == (3, "Run the tests")


def test_a_session_that_only_talked_leaves_nothing(work: Work) -> None:
    work.say({"type": "user", "message": {"role": "user", "content": "What is this?"}})
    assert work.leave("end") == leaving.LeftRevision(None)
    with work.opened() as outlast, pytest.raises(HandoffNotFound):
        outlast.handoff.get(anchor="branch:main")


def test_a_session_without_a_plan_does_not_undo_the_plan_of_another(work: Work) -> None:
    work.plan()
    work.leave("end")
    work.transcript.unlink()  # and one that tells nothing changes no plan at all
    work.edit("limit = 4\n")
    silent = work.leave("stop", session="silent").handoff
    assert silent is not None
    assert silent.next_action == NEXT
    work.say({"type": "user", "message": {"role": "user", "content": "Do something else"}})
    work.edit("limit = 5\n")
    other = work.leave("stop", session="other").handoff
    assert other is not None
    assert other.next_action is None
    assert f"has this left: {NEXT}" in other.handoff_text


def test_the_task_names_the_anchor_when_there_is_one(work: Work) -> None:
    work.plan()
    left = work.leave("end", task="limits").handoff
    assert left is not None
    assert left.anchor == "task:limits"
    assert work.start(session="b", task="limits").startswith("# Verdict: candidate")


def test_worktrees_share_the_home_of_the_main_one(work: Work, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    git(work.folder, "worktree", "add", "-q", "-b", "side", str(beside))
    assert work_tree_of(str(beside)).home == str(work.home)
    (beside / "app.py").write_text("limit = 7\n")
    left = work.leave("end", beside).handoff
    assert left is not None
    assert left.anchor == "branch:side"
    text = work.start(beside, session="b")
    assert "branch:side" in text
    assert "OUTLAST_HOME" not in text  # a command that is run there finds it too


def test_two_sessions_on_one_branch_take_turns_and_neither_repeats_itself(work: Work) -> None:
    work.plan()
    other = work.transcript.with_name("other.jsonl")
    assert work.leave("stop").handoff is not None
    work.transcript, mine = other, work.transcript
    work.todos(("Write the docs", "in_progress"))
    assert work.leave("stop", session="b").handoff is not None
    work.transcript = mine
    assert work.leave("stop").handoff is None  # its own plan and files are as they were
    assert work.newest().next_action == "Write the docs"


def test_the_last_automatic_revisions_are_shown_and_older_ones_stay_as_stored(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hook_setup.SHOWN == 20
    monkeypatch.setattr(hook_setup, "SHOWN", 2)
    work.plan()
    for number in range(4):
        work.edit(f"limit = {number + 10}\n")
        work.leave("stop")
    assert [each["revision"] for each in hook_setup._revisions(work.place)] == [4, 3]
    with work.opened() as outlast:
        assert outlast.handoff.get(anchor="branch:main", revision=1).source == "hook"
        assert outlast.verify().ok


# What others wrote


def store(work: Work, **fields: object) -> None:
    with work.opened() as outlast:
        outlast.handoff.store(
            "branch:main",
            "Limits",
            "Patch app.py.",
            ["app.py"],
            "Patch it",
            ["true"],
            repo_root=str(work.folder),
            **fields,
        )  # type: ignore[arg-type]


def test_a_handoff_that_somebody_wrote_stays_the_newest_until_the_work_goes_on(work: Work) -> None:
    work.plan()
    store(work)
    assert work.leave("stop").handoff is None
    work.edit("limit = 8\n")
    left = work.leave("stop").handoff
    assert left is not None
    assert (left.revision, left.acceptance_checks) == (2, ("true",))
    assert "It goes on from revision 1, written by local: Limits" in left.handoff_text
    assert "What that one asked for next: Patch it" in left.handoff_text
    work.edit("limit = 9\n")
    assert "It goes on from revision 1" in (work.leave("stop").handoff or left).handoff_text


def test_nothing_is_stored_beside_who_holds_the_claim(work: Work) -> None:
    work.plan()
    store(work)
    with work.opened() as outlast:
        outlast.handoff.claim("branch:main", repo_root=str(work.folder))
        work.edit("limit = 8\n")
        left = work.leave("end")
    assert left.handoff is None
    assert "holds the claim on branch:main" in left.why
    assert work.newest().revision == 1


def test_finished_work_is_opened_again_only_by_a_plan_made_since(work: Work) -> None:
    work.plan()
    work.leave("stop")
    with work.opened() as outlast:
        outlast.handoff.settle("branch:main", "completed", repo_root=str(work.folder), override="no check was written")
    work.edit("limit = 8\n")
    assert work.leave("stop").handoff is None
    assert work.start(session="b") == ""
    work.todos(("Raise the limit again", "pending"))
    assert work.leave("stop").handoff is not None


def test_a_secret_in_the_session_is_masked(work: Work) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    work.todos((f"Log in with {token}", "in_progress"))
    left = work.leave("end").handoff
    assert left is not None
    assert left.masked
    assert token not in left.handoff_text + str(left.next_action)


def test_files_that_cannot_be_bound_are_left_out_by_name(work: Work, tmp_path: Path) -> None:
    (work.folder / "away").symlink_to(tmp_path)
    os.mkfifo(work.folder / "pipe")
    work.edit("limit = 2\n")
    work.edit("x", "a 'quoted' name.txt")
    work.edit("x", "two\nlines")
    left = work.leave("end").handoff
    assert left is not None
    assert left.target_files == ("app.py", "a 'quoted' name.txt")
    assert "Left out: 'away'" in left.handoff_text
    assert r"Left out: 'two\nlines'" in left.handoff_text


# Starts


def test_nothing_in_the_home_but_the_ledger_decides_what_a_start_is_told(work: Work) -> None:
    work.plan()
    work.leave("end")
    work.edit("limit = 3\n")
    folder = work.home / ".hooks" / "briefings"
    folder.mkdir(parents=True)
    names = (f"{crc32(word.encode()):08x}" for word in ("branch:main", str(work.folder)))
    (folder / f"{''.join(names)}.json").write_text(forged(work))
    told = context("claude", work.fire("start").stdout)
    assert "FORGED" not in told
    assert "# Verdict: candidate" in told
    assert "file_changed" in told


def test_what_the_user_edits_between_two_sessions_is_shown_and_stops_nobody(work: Work) -> None:
    work.plan()
    work.leave("end")
    assert "file_changed" not in work.start()
    work.edit("limit = 'by hand'\n")
    for _ in range(2):  # a second session is told the same
        told = work.start()
        assert told.startswith("# Verdict: candidate")
        assert "file_changed (weakens)" in told
        assert "Stop" not in told
        assert "> -limit = 2\n> +limit = 'by hand'" in told
    command = [sys.executable, "-P", "-m", "outlast", "handoff", "recover", "branch:main"]
    typed = subprocess.run(command, cwd=work.folder, env=environment(), capture_output=True, check=True)
    assert b"+limit = 'by hand'" in typed.stdout
    (work.folder / "app.py").unlink()
    assert "Stop" in work.start()


def test_what_a_check_came_to_is_not_forgotten_because_a_session_ended(work: Work) -> None:
    def written(how: str) -> None:
        fields = {"summary": "The limit of requests.", "handoff_text": how, "next_action": how}
        checks = {"acceptance_checks": ["grep -q limit app.py"], "target_files": ["app.py"]}
        with work.opened() as outlast:
            outlast.handoff.store("branch:main", repo_root=str(work.folder), baseline=True, **fields, **checks)

    def run() -> None:
        with work.opened() as outlast:
            outlast.handoff.verify("branch:main", repo_root=str(work.folder))

    work.plan()
    written("Set limit to 3 in app.py, then run the check.")
    for text, step in (("limit = 3\n", "Write the docs of the limit"), ("limit = 4\n", "Write the log of changes")):
        work.edit(text)
        work.todos((step, "pending"))
        left = work.leave("end").handoff
        assert left is not None
        assert (left.source, left.acceptance_checks, left.baseline) == ("hook", ("grep -q limit app.py",), ())
    work.edit("bound = 4\n")  # by hand, between two sessions: nobody has run the check on that
    assert work.start(session="next").startswith("# Verdict: candidate")
    run()
    told = work.start(session="after")
    assert told.startswith("# Verdict: contested")
    assert "check_regressed (contests) grep -q limit app.py: expected passed when stored" in told
    work.edit("bound = 5\n")
    work.todos(("Write the page about limits", "pending"))
    assert work.leave("end").handoff is not None  # on other content what failed is still known
    told = work.start(session="last")
    assert told.startswith("# Verdict: candidate")
    assert "failed_before (weakens) grep -q limit app.py" in told
    work.edit("limit = 6\n")
    run()
    assert "failed_before" not in work.start(session="mended")


def test_a_must_that_a_session_broke_is_broken_for_the_next_one_too(work: Work) -> None:
    work.plan()
    asked = {"must_keep": ["lib/tool.py"], "must_change": ["app.py"], "acceptance_checks": ["grep -q limit app.py"]}
    with work.opened() as outlast:
        how = "Set limit to 3 in app.py, then run the check."
        fields = {"summary": "The limit of requests.", "handoff_text": how, "target_files": ["app.py"]}
        outlast.handoff.store("branch:main", repo_root=str(work.folder), **fields, **asked)
    work.edit("limit = 3\n")
    work.edit("tool = 2\n", "lib/tool.py")
    for step in ("Write the docs of the limit", "Write the log of changes"):
        work.todos((step, "pending"))
        assert work.leave("end").handoff is not None
        told = work.start(session=step)
        assert told.startswith("# Verdict: contested")
        assert "must_violated (contests) lib/tool.py: expected kept, found is not as it was" in told
    with work.opened() as outlast:  # whoever asked for it takes it as it is
        taken = {"claim": True, "accept": ["must_violated:lib/tool.py"], "why": "that is fine"}
        outlast.handoff.recover("branch:main", repo_root=str(work.folder), **taken)
        outlast.handoff.settle("branch:main", "released", repo_root=str(work.folder))
    work.todos(("Write the page about limits", "pending"))
    assert work.leave("end").handoff is not None
    assert "must_violated" not in work.start(session="after")
    with work.opened() as outlast:
        outlast.handoff.claim("branch:main", repo_root=str(work.folder))
        done = outlast.handoff.settle("branch:main", "completed", repo_root=str(work.folder))  # app.py has changed
    assert done.outcome == "completed"


def forged(work: Work) -> str:
    """A verdict that somebody left in the home, with all that a reader could compare it with as it is."""
    status = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames")
    more = ("--no-ahead-behind", "--ignored=no", "--ignore-submodules=dirty")
    said = subprocess.run(["git", *status, *more], cwd=work.folder, env=environment(), capture_output=True, check=True)
    ledger = os.stat(work.home / "default" / "outlast.db")
    facts = [[[ledger.st_ino, ledger.st_size, ledger.st_mtime_ns]], sha256(said.stdout).hexdigest(), [], True]
    place = {"version": __version__, "anchor": "branch:main", "top": str(work.folder), "until": 1 << 62}
    return json.dumps({**place, "looked": [], "facts": facts, "text": "# Verdict: trusted FORGED"})


LOADED = """
import os, sys
from outlast.doors.cli import main
real = os._exit
def tell(code):
    print("loaded", *sorted(sys.modules), file=sys.stderr)
    sys.stderr.flush()
    real(code)
os._exit = tell
main(["hook", sys.argv[1], "--client", "claude"])
"""


def loaded(work: Work, kind: str) -> list[str]:
    """What a hook has imported when it ends."""
    name = f"claude-2.1.261-{'session-start' if kind == 'start' else 'stop'}.json"
    given = fixture(name, work.folder, work.transcript)
    command = [sys.executable, "-P", "-c", LOADED, kind]
    done = subprocess.run(command, input=given, capture_output=True, cwd=work.folder, env=environment())
    found = done.stderr.decode().split()
    assert found[0] == "loaded"
    return found[1:]


WHOSE_HOME = {f"outlast.{name}" for name in ("python", "python.work_tree", "home", "home.ours")}
OF_GIT = {f"outlast.{name}" for name in ("files", "files.repository", "values", "values.late", "values.private")}


@pytest.mark.parametrize("kind", ["start", "stop"])  # nothing was ever stored: a start has nothing to load either
def test_a_hook_that_notes_loads_neither_the_runtime_nor_click(work: Work, kind: str) -> None:
    found = loaded(work, kind)
    ours = {name for name in found if name.startswith("outlast.") and not name.startswith("outlast.doors")}
    assert ours == WHOSE_HOME | OF_GIT
    assert [name for name in found if name.startswith(("click", "msgspec", "apsw", "subprocess"))] == []


# What a start never needs to judge what was left: servers, terminals, flow files, and what runs or stores.
NOT_FOR_A_START = {
    *("asyncio", "concurrent", "logging", "socket", "shutil", "tempfile", "importlib.metadata", "multiprocessing"),
    *("click", "rich", "yaml", "fastapi", "starlette", "uvicorn", "mcp", "httpx2", "pydantic"),
    *(
        "outlast.python.outlast",
        "outlast.python.shared",
        "outlast.doors.cli.entry",
        "outlast.doors.http",
        "outlast.doors.mcp",
    ),
    *("outlast.runs.body", "outlast.runs.claim", "outlast.flows.spec", "outlast.resources.provider"),
    *("outlast.handoffs.checks", "outlast.commands.process", "outlast.handoffs.store"),
    *("outlast.handoffs.contract", "outlast.secrets.find", "outlast.handoffs.lint", "outlast.tasks.task"),
    *("outlast.doors.hooks.leave", "outlast.doors.hooks.transcript", "outlast.doors.hooks.leave"),
}
OURS_FOR_A_START = 100  # modules, the rooms themselves among them; each costs the agent about a third of a millisecond


def test_a_start_that_is_looked_up_loads_only_what_judges(work: Work) -> None:
    work.plan()
    work.leave("end")
    found = loaded(work, "start")
    heads = {".".join(name.split(".")[:depth]) for name in found for depth in (1, 2, 3)}
    assert "outlast.handoffs.recover" in found
    assert heads & NOT_FOR_A_START == set()
    assert len([name for name in found if name.startswith("outlast")]) <= OURS_FOR_A_START


# As real commands


def test_the_real_commands_hand_a_session_over_to_the_next(work: Work) -> None:
    work.plan()
    for kind in ("start", "stop", "end"):
        done = work.fire(kind)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        if kind == "stop":
            assert [each.event.session[:8] for each in spool.all_sessions(str(work.home))] == ["8d0f3a52"]
    work.settled()
    assert work.newest().next_action == NEXT
    assert [*spool.all_sessions(str(work.home))] == []
    done = work.fire("start")
    assert context("claude", done.stdout).startswith("# Verdict: candidate")
    assert work.log == ""


def test_many_sessions_that_end_at_once_all_leave_their_work(work: Work) -> None:
    work.plan()
    given = json.loads(fixture("claude-2.1.261-session-end.json", work.folder, work.transcript))
    command = [sys.executable, "-P", "-m", "outlast", "hook", "end", "--client", "claude"]
    for number in range(4):
        git(work.folder, "worktree", "add", "-q", "-b", f"side{number}", str(work.folder.parent / f"side{number}"))
        (work.folder.parent / f"side{number}" / "app.py").write_text(f"limit = {number + 5}\n")
    sessions_ = [{**given, "session_id": f"s{n}", "cwd": str(work.folder.parent / f"side{n}")} for n in range(4)]
    hooks = [subprocess.Popen(command, stdin=subprocess.PIPE, env=environment()) for _ in sessions_]
    for hook, said in zip(hooks, sessions_, strict=True):
        hook.communicate(json.dumps(said).encode())
    assert [hook.returncode for hook in hooks] == [0] * 4
    work.settled()
    assert [work.newest(f"branch:side{number}").next_action for number in range(4)] == [NEXT] * 4
    with work.opened() as outlast:
        assert outlast.verify().ok
    assert work.log == ""


def test_an_event_whose_storing_process_died_is_stored_by_the_next_start(work: Work) -> None:
    work.plan()
    spool.add(str(work.home), work.event("end"))
    assert "branch:main" in work.start(session="next")
    assert spool.waiting(str(work.home)) == []


def test_an_event_that_waited_long_is_no_longer_what_the_session_left(work: Work) -> None:
    work.plan()
    event = work.event("end")
    spool.add(str(work.home), event._replace(at=event.at - 3_600_000_000))
    assert "auto_composed" in work.start(session="next")


def test_an_event_that_cannot_be_stored_is_tried_thrice_and_then_given_up(work: Work) -> None:
    work.plan()
    spool.add(str(work.home), work.event("end"))
    (work.home / "default").write_text("this is no folder")
    for _ in range(3):
        leaving.drain(str(work.home))
    assert spool.waiting(str(work.home)) == []
    assert work.log.count("claude 8d0f3a52-6f0e end: ") == 3
    assert work.log.endswith("given up\n")


# Never fails


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "no json": b"{",
    "a list": b"[1, 2]",
    "no utf-8": b"\xff\xfe\x00",
    "odd types": b'{"session_id": {}, "cwd": 7, "transcript_path": [], "hook_event_name": 3}',
    "a gone folder": b'{"session_id": "s", "cwd": "/gone/for/ever", "hook_event_name": "Stop"}',
    "a nul": b'{"session_id": "s", "cwd": "/tmp/a\\u0000b", "hook_event_name": "Stop"}',
    "deep": b"[" * 100_000,
    "half a pair": b'{"session_id": "\\ud800", "cwd": "\\ud800", "hook_event_name": "SessionStart"}',
}


def test_a_full_disk_is_no_reason_to_fail(work: Work) -> None:
    work.plan()
    for kind, name in (("stop", "stop"), ("start", "session-start")):
        command = f'ulimit -f 0; "{sys.executable}" -P -m outlast hook {kind} --client claude'
        given = fixture(f"claude-2.1.261-{name}.json", work.folder, work.transcript)
        done = subprocess.run(
            ["sh", "-c", command], input=given, capture_output=True, cwd=work.folder, env=environment()
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_without_git_what_the_session_edited_is_handed_over_all_the_same(work: Work) -> None:
    work.plan()
    assert (
        forked(work, "end", fixture("claude-2.1.261-session-end.json", work.folder, work.transcript), PATH="")[0] == 0
    )
    work.settled()
    assert (work.newest().target_files, work.newest().next_action) == (("app.py",), NEXT)


def test_a_submodule_is_a_repository_of_its_own(work: Work, tmp_path: Path) -> None:
    git(work.folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(work.folder), "inner")
    inner = work.folder / "inner"
    assert work_tree_of(str(inner)).home == str(inner / ".outlast")
    given = fixture("claude-2.1.261-session-start.json", inner, work.transcript)
    assert forked(work, "start", given) == (0, b"", b"")
    assert not (inner / ".outlast").exists()


@pytest.mark.parametrize("client", ["claude", "cursor"])
def test_whatever_comes_on_stdin_the_agent_sees_nothing(tmp_path: Path, client: Client) -> None:
    work = Work(tmp_path, client)
    for name, given in BROKEN.items():
        for kind in ("start", "stop"):
            code, out, err = forked(work, kind, given)
            assert (code, out.strip() or b"{}", err) == (0, b"{}", b""), (name, kind)
    work.settled()


def test_places_where_nothing_can_be_handed_over_are_passed_by(work: Work, tmp_path: Path) -> None:
    elsewhere, bare = tmp_path / "elsewhere", tmp_path / "bare.git"
    elsewhere.mkdir()
    git(tmp_path, "init", "-q", "--bare", str(bare))
    git(work.folder, "checkout", "-q", "--detach")
    for folder in (elsewhere, bare, work.folder):
        for kind in ("start", "end"):
            name = f"claude-2.1.261-{'session-start' if kind == 'start' else 'session-end'}.json"
            assert forked(work, kind, fixture(name, folder, work.transcript)) == (0, b"", b""), folder
    work.settled()
    assert "no branch is checked out; set OUTLAST_TASK" in work.log
    assert not (elsewhere / ".outlast").exists()


def test_a_home_that_cannot_be_used_is_no_reason_to_fail(work: Work) -> None:
    work.plan()
    start = fixture("claude-2.1.261-session-start.json", work.folder, work.transcript)
    (work.home / "default").mkdir()
    (work.home / "default" / "outlast.db").write_bytes(b"this is no database, and long enough to be taken for one" * 99)
    assert forked(work, "start", start) == (0, b"", b"")
    assert "start: " in work.log
    (work.home / ".hooks" / "spool").mkdir(parents=True, exist_ok=True)
    (work.home / ".hooks" / "spool").rmdir()
    (work.home / ".hooks" / "spool").write_text("no folder")
    assert forked(work, "stop", fixture("claude-2.1.261-stop.json", work.folder)) == (0, b"", b"")
    assert "stop: FileExistsError" in work.log


def test_a_database_that_is_locked_holds_nobody_up(work: Work) -> None:
    work.plan()
    work.leave("stop")
    with ledgers.held(work.home):
        work.edit("limit = 6\n")
        assert forked(work, "stop", fixture("claude-2.1.261-stop.json", work.folder, work.transcript)) == (0, b"", b"")
        text = context("claude", forked(work, "start", _start_of(work))[1])
        assert "# Verdict: candidate" in text  # app.py is not as it was stored
        assert "> +limit = 6" in text
    work.settled()
    assert work.newest().revision == 2


def _start_of(work: Work) -> bytes:
    return fixture("claude-2.1.261-session-start.json", work.folder, work.transcript)


def test_a_hook_that_is_given_no_stdin_and_no_stdout_exits_0(work: Work) -> None:
    command = f'"{sys.executable}" -P -m outlast hook start --client claude <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], cwd=work.folder).returncode == 0


def test_a_client_that_leaves_stdin_open_is_not_waited_for(work: Work) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, _start_of(work))
    command = [sys.executable, "-P", "-m", "outlast", "hook", "start", "--client", "claude"]
    done = subprocess.run(command, stdin=ours, capture_output=True, cwd=work.folder, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_log_stays_small_and_says_nothing_of_the_session(tmp_path: Path) -> None:
    for number in range(3000):
        spool.note(str(tmp_path), f"line {number} " + "x" * 100)
    log = tmp_path / spool.LOG
    assert log.stat().st_size <= spool.MOST_BYTES
    assert log.read_text().splitlines()[-1].startswith("20")
    with pytest.raises(ValueError, match="Expecting") as raised:
        json.loads('{"the secret that was said"')
    assert spool.words_of(raised.value).startswith("JSONDecodeError at decoder.py")


def test_only_the_events_take_the_quick_way() -> None:
    assert called(["hook", "stop", "--client", "codex"]) == Called("stop", "codex")
    assert called(["hook", "stop", "--client=cursor"]) == Called("stop", "cursor")
    assert called(["hook", "stop", "--client", "codex", '{"type": 1}']) == Called("stop", "codex", '{"type": 1}')
    for words in (["hook"], ["hook", "install", "--client", "codex"], ["hook", "stop", "--help"], ["run", "stop"]):
        assert called(words) is None
