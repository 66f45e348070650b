"""A server whose answers ask for more than the call did: nothing of it is run, read, sent or written."""

import asyncio
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from outlast import AsyncOutlast, Outlast
from outlast.doors.cli import main
from outlast.errors import (
    HandoffInvalid,
    IntegrityBroken,
    Invalid,
    LookFirst,
    OtherPlace,
    OutlastError,
    ReplyInvalid,
    ReplyRefused,
    ServerUnreachable,
)
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.foreign import digest_of
from outlast.handoffs.handoff import Evidence, Handoff, Recovered
from outlast.home.process import this_place
from outlast.ledger.verdict import Verdict
from outlast.operations.reading import handoff_in_order, in_order

from .client_story import git, make_repository
from .hostile import Answer, Heard, Hostile, asks, bound, handoff, hostile, problem, said
from .server import served

Call = Callable[[Outlast], Any]
KEY = "ol_" + "k" * 40


@pytest.fixture
def server() -> Iterator[Hostile]:
    with hostile() as found:
        yield found


@pytest.fixture
def outlast(server: Hostile) -> Iterator[Outlast]:
    with Outlast(server.url, key=KEY, store_options={"deadline_seconds": 5.0}) as found:
        yield found


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_repository(tmp_path / "repo")
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of the same machine in which the caller is not."""
    found = tmp_path / "elsewhere"
    found.mkdir()
    (found / "private.txt").write_text("nobody's business\n")
    return found


def touching(marker: Path, **more: Any) -> Handoff:
    return handoff(acceptance_checks=(f"echo ran >> {marker}",), **more)


def at_task(outlast: Outlast) -> Any:
    return outlast.tasks.open("x")


def store(outlast: Outlast, **more: Any) -> Any:
    return outlast.handoff.store("task:x", "Stopped at it", "Resume in app.py", **{"target_files": ["app.py"]} | more)


# what is run

PLAIN: dict[str, Call] = {
    "recover": lambda outlast: outlast.handoff.recover("task:x"),
    "recover by id": lambda outlast: outlast.handoff.recover(handoff_id="abcdefghjkmn"),
    "recover and claim": lambda outlast: outlast.handoff.recover("task:x", claim=True),
    "claim": lambda outlast: outlast.handoff.claim("task:x"),
    "settle as failed": lambda outlast: outlast.handoff.settle("task:x", "failed"),
    "settle without checks": lambda outlast: outlast.handoff.settle("task:x", "completed", run_checks=False),
    "task resume": lambda outlast: at_task(outlast).resume_task(),
    "task inspect": lambda outlast: at_task(outlast).inspect_task_context(),
    "task complete without checks": lambda outlast: at_task(outlast).complete_task(run_checks=False),
}
CHECKING: dict[str, Call] = {
    "recover": lambda outlast: outlast.handoff.recover("task:x", run_checks=True),
    "verify": lambda outlast: outlast.handoff.verify("task:x"),
    "settle": lambda outlast: outlast.handoff.settle("task:x", "completed"),
    "task resume": lambda outlast: at_task(outlast).resume_task(run_checks=True),
    "task complete": lambda outlast: at_task(outlast).complete_task(),
}


@pytest.mark.parametrize("call", PLAIN.values(), ids=PLAIN)
def test_a_call_that_asks_for_no_checks_runs_none(
    server: Hostile, outlast: Outlast, repo: Path, marker: Path, call: Call
) -> None:
    server.answers = lambda heard: Answer() if heard.path.endswith("/open") else asks("checks", touching(marker))
    with pytest.raises(ReplyRefused, match="checks of 'task:x'"):
        call(outlast)
    assert not marker.exists()


def test_a_list_that_is_looked_at_runs_no_checks(server: Hostile, outlast: Outlast, repo: Path, marker: Path) -> None:
    one = {"anchor": "task:x", "scope": "default", "standing": "open", "handoff_id": "abcdefghjkmn", "revision": 1}
    one |= {"summary": "", "next_action": None, "score": 1, "outcome": "", "holder": "", "branch": "", "actor": "m"}
    one |= {"stored_at": "2030-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z"}
    page = said({"items": [one], "next": None})
    server.answers = lambda heard: page if heard.method == "GET" else asks("checks", touching(marker))
    with pytest.raises(ReplyRefused):
        outlast.handoff.list(look=True)
    assert not marker.exists()


def test_the_event_loops_twin_and_the_command_line_refuse_the_same(
    server: Hostile, repo: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = lambda heard: asks("checks", touching(marker))

    async def recover() -> None:
        outlast = AsyncOutlast(server.url)
        try:
            await outlast.handoff.recover("task:x")
        finally:
            await outlast.close()

    with pytest.raises(ReplyRefused):
        asyncio.run(recover())
    for words in (("handoff", "recover", "task:x"), ("handoff", "claim", "task:x")):
        with pytest.raises(SystemExit):
            main(["--home", server.url, *words, "--json"])
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "reply_refused", words
    assert not marker.exists()


OTHERS: dict[str, dict[str, Any]] = {
    "anchor": {"anchor": "task:other"},
    "scope": {"scope": "other"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("call", CHECKING.values(), ids=CHECKING)
def test_only_checks_of_the_handoff_that_was_asked_for_run(
    server: Hostile, outlast: Outlast, repo: Path, marker: Path, call: Call, other: dict[str, Any]
) -> None:
    swapped = asks("checks", touching(marker, **other))
    server.answers = lambda heard: Answer() if heard.path.endswith("/open") else swapped
    with pytest.raises(ReplyRefused, match="was asked for"):
        call(outlast)
    assert not marker.exists()


def test_another_id_or_revision_is_not_the_one_that_was_asked_for(
    server: Hostile, outlast: Outlast, repo: Path, marker: Path
) -> None:
    server.answers = lambda heard: asks("checks", touching(marker, revision=2))
    for given in ({"handoff_id": "zzzz"}, {"anchor": "task:x", "revision": 1}):
        with pytest.raises(ReplyRefused, match="was asked for"):
            outlast.handoff.recover(run_checks=True, **given)  # type: ignore[arg-type]
    assert not marker.exists()


def test_checks_that_were_asked_for_run_once(server: Hostile, outlast: Outlast, repo: Path, marker: Path) -> None:
    server.answers = lambda heard: asks("checks", touching(marker)) if "/recover" in heard.path else Answer()
    with pytest.raises(ReplyRefused, match="again"):
        outlast.handoff.recover("task:x", run_checks=True, agree=digest_of(touching(marker)))
    assert marker.read_text() == "ran\n"


def test_other_checks_are_not_run_in_the_same_call(
    server: Hostile, outlast: Outlast, repo: Path, marker: Path, tmp_path: Path
) -> None:
    first, then = touching(marker), touching(tmp_path / "second", id="bbbbbbbbbbbb", revision=2)
    server.in_turn(asks("files", first), asks("checks", first), asks("checks", then))
    with pytest.raises(ReplyRefused, match="others"):
        outlast.handoff.verify("task:x", agree=digest_of(first))
    assert (marker.read_text(), (tmp_path / "second").exists()) == ("ran\n", False)


def test_a_revision_that_came_meanwhile_has_its_checks_run_if_they_are_the_same(
    server: Hostile, outlast: Outlast, repo: Path, marker: Path
) -> None:
    first, then = touching(marker), touching(marker, id="bbbbbbbbbbbb", revision=2)
    server.in_turn(asks("checks", first), asks("checks", then), problem(HandoffInvalid("x", "y", "z"), 422))
    with pytest.raises(HandoffInvalid):
        outlast.handoff.verify("task:x", agree=digest_of(first))
    assert marker.read_text() == "ran\n" * 2


def test_a_check_runs_in_no_folder_outside_of_the_place(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path, marker: Path
) -> None:
    (repo / "out").symlink_to(elsewhere)
    for folder in ("..", str(elsewhere)):
        server.answers = lambda heard, folder=folder: asks(  # type: ignore[misc]
            "checks", handoff(acceptance_checks=({"run": f"touch {marker}", "cwd": folder},))
        )
        with pytest.raises(ReplyInvalid):
            outlast.handoff.verify("task:x")
    about = handoff(acceptance_checks=({"run": f"touch {marker}", "cwd": "out"},))
    server.in_turn(asks("checks", about), problem(HandoffInvalid("x", "y", "z"), 422))
    with pytest.raises(HandoffInvalid):
        outlast.handoff.verify("task:x", agree=digest_of(about))
    assert "leaves the root" in server.observed()[0]["ran"][0]["note"]
    assert not marker.exists()


def test_storing_runs_its_checks_only_for_a_baseline(
    server: Hostile, outlast: Outlast, repo: Path, marker: Path
) -> None:
    server.answers = lambda heard: Answer() if heard.path.endswith("/open") else problem(LookFirst("checks", "task:x"))
    checks = {"acceptance_checks": [f"echo ran >> {marker}"]}
    with pytest.raises(ReplyRefused):
        store(outlast, **checks)
    with pytest.raises(ReplyRefused):
        at_task(outlast).pause_task("Stopped at it", "Resume in app.py", **checks)
    assert not marker.exists()
    with pytest.raises(ReplyRefused):  # and then once
        store(outlast, baseline=True, **checks)
    assert marker.read_text() == "ran\n"


def test_questions_without_end_are_given_up(server: Hostile, outlast: Outlast, repo: Path) -> None:
    server.answers = lambda heard: asks("files", handoff())
    with pytest.raises(LookFirst):
        outlast.handoff.recover("task:x")
    assert len(server.heard) == 12


# what is read


def recovered(about: Handoff, word: str = "candidate", **more: Any) -> Answer:
    return said(in_order(Recovered(Verdict(word), about, "open", **more)))


def seen_of(server: Hostile, outlast: Outlast, about: Handoff, **given: Any) -> dict[str, Any]:
    """What a plain recover tells the server of the files of a handoff."""
    server.in_turn(asks("files", about), recovered(about))
    outlast.handoff.recover("task:x", **given)
    (seen,) = server.observed()
    return seen


def test_an_answer_opens_no_folder_in_which_the_caller_is_not(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path
) -> None:
    for root in (elsewhere, repo / ".." / "elsewhere", Path("/")):
        seen = seen_of(server, outlast, handoff(binding=bound(root, "private.txt")))
        assert seen == {"handoff_id": "abcdefghjkmn", "here": str(repo)}, root


def test_nor_a_repository_by_its_commit_or_by_a_link(
    server: Hostile, outlast: Outlast, repo: Path, tmp_path: Path, elsewhere: Path
) -> None:
    other = make_repository(tmp_path / "other")
    (other / "app.py").write_text("limit = 77\n")
    git(other, "commit", "-q", "-am", "other")
    commit = git(other, "rev-parse", "HEAD").strip()
    assert "root" not in seen_of(server, outlast, handoff(binding=bound(other, "app.py", commit=commit)))
    (repo / "out").symlink_to(elsewhere)
    assert "root" not in seen_of(server, outlast, handoff(binding=bound(repo / "out", "private.txt")))


def test_a_folder_that_the_caller_names_is_looked_at(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path
) -> None:
    seen = seen_of(server, outlast, handoff(binding=bound("/nowhere", "private.txt")), repo_root=str(elsewhere))
    assert (seen["root"], seen["binding"]["files"]["private.txt"]["mode"]) == (str(elsewhere), "file")


def test_the_place_of_the_caller_and_what_is_below_is_looked_at(server: Hostile, outlast: Outlast, repo: Path) -> None:
    (repo / "sub").mkdir()
    (repo / "sub" / "a.py").write_text("a\n")
    commit = git(repo, "rev-parse", "HEAD").strip()
    below = replace(bound("/another/machine/sub", "a.py", commit=commit), prefix="sub")
    assert seen_of(server, outlast, handoff(binding=below))["root"] == str(repo / "sub")
    about = handoff(binding=bound("/another/machine", "app.py", commit=commit))
    assert seen_of(server, outlast, about)["root"] == str(repo)
    assert "root" not in seen_of(server, outlast, handoff(binding=bound("/another/machine", "app.py")))


@pytest.mark.parametrize("prefix", ["../elsewhere", "/etc", ".git", "out"])
def test_no_word_of_where_the_root_was_leads_out_of_it(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path, prefix: str
) -> None:
    (repo / "out").symlink_to(elsewhere)
    commit = git(repo, "rev-parse", "HEAD").strip()
    about = handoff(binding=replace(bound(repo, "private.txt", commit=commit), prefix=prefix))
    if prefix == "out":
        assert "root" not in seen_of(server, outlast, about)
        return
    server.in_turn(asks("files", about))
    with pytest.raises(ReplyInvalid):
        outlast.handoff.recover("task:x")


def test_whoever_is_in_the_topmost_folder_is_nowhere(
    server: Hostile, outlast: Outlast, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert "root" not in seen_of(server, outlast, handoff(binding=bound(elsewhere, "private.txt")))
    assert "root" not in seen_of(server, outlast, handoff(must_keep=({"file": "etc/passwd", "exists": True},)))


def test_where_a_client_has_bound_files_is_no_place_of_its_own_later(
    tmp_path: Path, repo: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "home") as honest, Outlast(f"http://127.0.0.1:{honest.port}") as outlast:
        store(outlast)
        assert outlast.handoff.recover("task:x").root == str(repo)
        monkeypatch.chdir(elsewhere)
        got = outlast.handoff.recover("task:x")
        assert (got.root, "other_place" in {reason.code for reason in got.reasons}) == ("", True)
        assert outlast.handoff.recover("task:x", repo_root=str(repo)).root == str(repo)


ODD: dict[str, Binding] = {
    "above": bound("/x", "../elsewhere/private.txt"),
    "absolute": bound("/x", "/etc/passwd"),
    "git's own": bound("/x", ".git/config"),
    "no commit": bound("/x", commit="--output=/tmp/x"),
    "too many": bound("/x", *(f"f{number}" for number in range(20_001))),
}


@pytest.mark.parametrize("binding", ODD.values(), ids=ODD)
def test_a_binding_that_nobody_can_have_stored_is_not_looked_at(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path, binding: Binding
) -> None:
    server.answers = lambda heard: asks("files", handoff(binding=binding))
    with pytest.raises(ReplyInvalid):
        outlast.handoff.recover("task:x")


ODD_FORMS: list[Any] = [
    {"file": 3},
    {"file": "app.py"},
    {"file": "app.py", "contains": 3},
    {"file": "app.py", "sha256": 5},
    {"file": ".git/config", "contains": "token"},
    {"file": "/etc/passwd", "contains": "root"},
    {"run": 3},
    {"run": "true", "cwd": 3},
    {"run": "true", "timeout": "x"},
    {"run": "true", "exit": "x"},
    "",
]


@pytest.mark.parametrize("field", ["acceptance_checks", "must_keep", "must_change"])
def test_a_check_or_must_that_nobody_can_have_stored_is_not_looked_at(
    server: Hostile, outlast: Outlast, repo: Path, field: str
) -> None:
    for form in ODD_FORMS:
        server.answers = lambda heard, form=form: asks("files", handoff(**{field: (form,)}))  # type: ignore[misc]
        with pytest.raises(ReplyInvalid):
            outlast.handoff.verify("task:x")
        assert len(server.heard) == 1 + ODD_FORMS.index(form)


def test_a_root_that_can_be_no_folder_is_none(server: Hostile, outlast: Outlast, repo: Path) -> None:
    for root in (f"{repo}/\0", "\0", "", "x" * 4000, f"{repo}/{'x' * 3000}", f"{repo}/app.py"):
        assert "root" not in seen_of(server, outlast, handoff(binding=bound(root, "app.py"))), root


def test_links_out_of_the_place_and_pipes_are_not_opened(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path
) -> None:
    (repo / "out").symlink_to(elsewhere)
    os.mkfifo(repo / "pipe")
    about = handoff(binding=bound(repo, "out/private.txt", "pipe"), must_keep=({"file": "pipe", "contains": "x"},))
    files = seen_of(server, outlast, about)["binding"]["files"]
    assert {path: (each["mode"], each["why"]) for path, each in files.items()} == {
        "out/private.txt": ("special", "outside"),
        "pipe": ("special", "special"),
    }


def test_a_secrets_file_is_not_asked_for_its_words(server: Hostile, outlast: Outlast, repo: Path) -> None:
    (repo / ".env").write_text("PASSWORD=abc\n")
    (repo / "innocent").symlink_to(".env")
    guesses = [{"file": name, "contains": text} for name in (".env", "innocent") for text in ("=abc", "=xyz")]
    digest = sha256(b"PASSWORD=abc\n").hexdigest()
    rules = (*guesses, {"file": ".env", "sha256": digest}, {"file": "app.py", "contains": "limit"})
    musts = seen_of(server, outlast, handoff(must_keep=rules))["musts"]
    assert sorted(musts.values()) == ["", *["is a secrets file, and is not read for a server"] * 5]


def test_nothing_is_trusted_that_nobody_looked_at(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path
) -> None:
    about = handoff(binding=bound(elsewhere, "private.txt"))
    server.answers = lambda heard: recovered(about, "trusted", root=str(repo))
    with pytest.raises(ReplyRefused, match="nobody looked"):
        outlast.handoff.recover("task:x")
    server.in_turn(asks("files", about), recovered(about, "trusted", root=str(repo)))
    with pytest.raises(ReplyRefused, match="nobody looked"):
        outlast.handoff.recover("task:x")


def test_an_answer_about_another_handoff_is_none(server: Hostile, outlast: Outlast, repo: Path) -> None:
    other = handoff("task:other")
    calls: list[Call] = [PLAIN["recover"], lambda outlast: outlast.handoff.get(anchor="task:x")]
    calls += [lambda outlast: outlast.handoff.apply("task:x"), lambda outlast: store(outlast, bind=False)]
    for call in calls:
        server.answers = lambda heard: recovered(other) if "/recover" in heard.path else said(handoff_in_order(other))
        with pytest.raises(ReplyRefused, match="task:other"):
            call(outlast)


# what is sent


def test_content_is_sent_only_for_a_store_that_binds(server: Hostile, outlast: Outlast, repo: Path) -> None:
    server.answers = lambda heard: Answer(404) if "/blobs/" in heard.path else problem(LookFirst("binding", "task:x"))
    with pytest.raises(ReplyRefused):
        store(outlast, bind=False)
    assert [one.path for one in server.heard] == ["/v1/handoff/store"]


def test_no_answer_to_a_recover_makes_content_go_up(server: Hostile, outlast: Outlast, repo: Path) -> None:
    (repo / "app.py").write_text("limit = 3\n")
    digest = sha256(b"limit = 3\n").hexdigest()
    wants = Binding(root=str(repo), host=this_place()[0], files={"app.py": Bound("file", digest, kept=digest)})
    seen_of(server, outlast, handoff(binding=wants))
    server.answers = lambda heard: problem(LookFirst("binding", "task:x"))
    with pytest.raises(ReplyInvalid):
        outlast.handoff.recover("task:x")
    assert {one.method for one in server.heard} == {"POST"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_the_key_nowhere(server: Hostile, outlast: Outlast, repo: Path, status: int) -> None:
    with hostile() as other:
        server.answers = lambda heard: Answer(status, b"", {"location": f"{other.url}{heard.path}"})
        for call in (
            PLAIN["recover"],
            lambda outlast: outlast.get("run"),
            lambda outlast: list(outlast.follow_events("run")),
        ):
            with pytest.raises(Invalid, match=str(status)):
                call(outlast)
        assert other.heard == []
    assert {one.headers["authorization"] for one in server.heard} == {f"Bearer {KEY}"}


def test_a_cursor_is_a_word_and_no_address(server: Hostile, outlast: Outlast) -> None:
    with hostile() as other:
        run = {"id": "r"}
        server.in_turn(said({"items": [run], "next": f"{other.url}/v1/runs"}), said({"items": [], "next": None}))
        with pytest.raises(ReplyInvalid):  # that is no run
            outlast.runs()
        assert other.heard == []


def test_a_claim_that_no_header_can_carry_is_not_shown(server: Hostile, outlast: Outlast, repo: Path) -> None:
    claim = {"anchor": "task:x", "handoff_id": "a", "revision": 1, "epoch": 1, "actor": "m"}
    claim |= {"expires_at": "2030-01-01T00:00:00Z", "id": "a\r\nauthorization: Bearer other"}
    server.answers = lambda heard: said(claim)
    with pytest.raises(ReplyInvalid, match="no id of a claim"):
        outlast.handoff.claim("task:x")
    outlast.handoff.renew("task:x")
    assert "outlast-claims" not in server.heard[-1].headers


# what is written


def work_of(root: Path, path: str, content: bytes = b"evil\n", mode: Any = "exec") -> tuple[Handoff, bytes]:
    digest = sha256(content).hexdigest()
    file = Bound(mode, digest, size=len(content), kept=digest)
    return handoff(binding=Binding(root=str(root), host=this_place()[0], files={path: file})), content


def giving(about: Handoff, content: bytes) -> Callable[[Heard], Answer]:
    kept = Answer(200, content)
    return lambda heard: kept if "/blobs/" in heard.path else said(handoff_in_order(about))


def test_apply_writes_where_the_caller_is_and_not_where_the_answer_says(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path
) -> None:
    server.answers = giving(*work_of(elsewhere, "autostart"))
    with pytest.raises(OtherPlace):
        outlast.handoff.apply("task:x", force=True)
    assert (sorted(path.name for path in elsewhere.iterdir()), (repo / "autostart").exists()) == (
        ["private.txt"],
        False,
    )
    server.answers = giving(*work_of(repo, "autostart"))
    outlast.handoff.apply("task:x", force=True)
    assert (repo / "autostart").exists()


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "../escaped", "/tmp/escaped", "out/escaped", ".GIT/config2"])
def test_apply_leaves_the_place_by_no_path(
    server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path, path: str
) -> None:
    (repo / "out").symlink_to(elsewhere)
    before = sorted(str(each) for each in repo.parent.rglob("*"))
    server.answers = giving(*work_of(repo, path))
    with pytest.raises(OutlastError):
        outlast.handoff.apply("task:x", force=True)
    assert sorted(str(each) for each in repo.parent.rglob("*")) == before


def test_apply_makes_no_link_out_of_the_place(server: Hostile, outlast: Outlast, repo: Path, elsewhere: Path) -> None:
    server.answers = giving(*work_of(repo, "link", os.fsencode(elsewhere), "link"))
    with pytest.raises(OutlastError):
        outlast.handoff.apply("task:x", force=True)
    assert not (repo / "link").is_symlink()


def test_content_is_known_by_its_digest_and_no_path(server: Hostile, outlast: Outlast, elsewhere: Path) -> None:
    given: dict[str, Any] = {"check": "c", "passed": True, "at": 0, "by": "m", "where": "", "when": "verify"}
    for name in (str(elsewhere / "private.txt"), "../../private.txt", "A" * 64):
        with pytest.raises(IntegrityBroken, match="no digest"):
            outlast.handoff.output(Evidence(runner="runner", output=name, **given))
    assert server.heard == []


# how much, and of what shape


def endless(piece: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter(lambda: piece, b"")


def test_an_answer_without_end_is_not_read_to_its_end(server: Hostile) -> None:
    with Outlast(server.url, store_options={"most_bytes": 100_000}) as outlast:
        for status in (200, 409):
            server.answers = lambda heard, status=status: Answer(status, pieces=endless(b"x" * 4096))  # type: ignore[misc]
            with pytest.raises(ReplyInvalid, match="more than 100,000 bytes"):
                outlast.get("run")
        server.answers = lambda heard: Answer(500, pieces=endless(b"x" * 4096))
        with pytest.raises(ReplyInvalid, match="bytes"):
            list(outlast.follow_events("run"))


def test_an_answer_that_only_drips_is_given_up(server: Hostile) -> None:
    never = threading.Event()

    def drops() -> Iterator[bytes]:
        for _ in range(200):
            never.wait(0.02)
            yield b" "

    server.answers = lambda heard: Answer(pieces=drops)
    with (
        Outlast(server.url, store_options={"deadline_seconds": 0.3}) as outlast,
        pytest.raises(ServerUnreachable, match="drips"),
    ):
        outlast.get("run")


def test_what_was_packed_is_not_unpacked(server: Hostile, outlast: Outlast) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    server.answers = lambda heard: Answer(200, bomb, {"content-encoding": "gzip"})
    for call in (lambda: outlast.get("run"), lambda: list(outlast.follow_events("run"))):
        with pytest.raises(ReplyInvalid, match="packed"):
            call()
    assert {one.headers["accept-encoding"] for one in server.heard} == {"identity"}


@pytest.mark.parametrize("piece", [b"x" * 4096, b"data: x\n" * 500, b"x%d: y\n" * 500])
def test_an_event_without_end_is_not_waited_for(server: Hostile, piece: bytes) -> None:
    server.answers = lambda heard: Answer(200, headers={"content-type": "text/event-stream"}, pieces=endless(piece))
    with Outlast(server.url, store_options={"most_bytes": 100_000}) as outlast:
        with pytest.raises(ReplyInvalid, match="an event of more than"):
            list(outlast.follow_events("run"))

        async def follow() -> None:
            async with AsyncOutlast(server.url, store_options={"most_bytes": 100_000}) as loop:
                async for _ in loop.follow_events("run"):
                    pass

        with pytest.raises(ReplyInvalid, match="an event of more than"):
            asyncio.run(follow())


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"status": "x"}', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("name", [b"problem", b"end", b"message"])
def test_an_event_of_another_shape_is_told(server: Hostile, outlast: Outlast, name: bytes, data: bytes) -> None:
    text = b"event: %s\ndata: %s\n\n" % (name, data)
    server.answers = lambda heard: Answer(200, text if len(server.heard) < 3 else b"event: end\ndata: 1\n\n")
    with pytest.raises(ReplyInvalid):
        list(outlast.follow_events("run"))


def test_the_same_event_again_and_again_keeps_nobody_waiting(server: Hostile) -> None:
    event = {"seq": 0, "name": "run.started", "at": "2030-01-01T00:00:00Z", "run_id": "r", "body": {}}
    event |= {"kind": "fact", "step": "", "attempt": 0, "trace_id": ""}
    server.answers = lambda heard: Answer(200, b"data: " + json.dumps(event).encode() + b"\n\n")
    options = {"deadline_seconds": 0.3, "retry_seconds": 0.01, "longest_retry_seconds": 0.01}
    with Outlast(server.url, store_options=options) as outlast, pytest.raises(ServerUnreachable):
        list(outlast.follow_events("run"))


def test_a_list_without_end_is_refused(server: Hostile, outlast: Outlast) -> None:
    page = {"items": [], "next": "x"}
    for answer, why in ((page, "does not end"), ({"items": [1] * 1001, "next": None}, "1,001")):
        server.answers = lambda heard, answer=answer: said(answer)  # type: ignore[misc]
        with pytest.raises(ReplyInvalid, match=why):
            outlast.receipts("run")
    server.answers = lambda heard: said({"items": [1], "next": "x"})
    with pytest.raises(ReplyInvalid):
        outlast.handoff.recover(file_path="app.py")


def test_content_that_is_longer_than_was_said_is_refused(server: Hostile, outlast: Outlast, tmp_path: Path) -> None:
    with served(tmp_path / "home") as honest, Outlast(f"http://127.0.0.1:{honest.port}") as owner:
        owner.workspace.save("a", "x" * 100)
        made = honest.get("/v1/workspace/artifact?ref=a").json
    server.answers = lambda heard: Answer(pieces=endless(b"x" * 4096)) if "/content" in heard.path else said(made)
    with pytest.raises(IntegrityBroken, match="longer"):
        outlast.workspace.get("a").text()


def test_a_transcript_that_is_longer_than_was_said_is_refused(server: Hostile, outlast: Outlast) -> None:
    log = {"step": "s", "attempt": 1, "status": "succeeded", "exit": 0, "started_at": "2030-01-01T00:00:00Z"}
    log |= {"ended_at": None, "size_bytes": 10, "incomplete": "", "masked": 0}
    page = said({"items": [log]})
    server.answers = lambda heard: Answer(pieces=endless(b"x" * 4096)) if "/content" in heard.path else page
    (found,) = outlast.logs("run")
    with pytest.raises(IntegrityBroken, match="longer"):
        list(found.pieces())


CALLS: dict[str, Call] = PLAIN | {
    "get": lambda outlast: outlast.get("run"),
    "runs": lambda outlast: outlast.runs(),
    "receipts": lambda outlast: outlast.receipts("run"),
    "logs": lambda outlast: outlast.logs("run"),
    "resume": lambda outlast: outlast.resume("run"),
    "store": lambda outlast: store(outlast),
    "handoff get": lambda outlast: outlast.handoff.get("abc"),
    "history": lambda outlast: outlast.handoff.history("task:x"),
    "pause task": lambda outlast: at_task(outlast).pause_task("s", "t"),
    "task get": lambda outlast: outlast.tasks.get("x"),
    "artifact": lambda outlast: outlast.workspace.get("a"),
    "save": lambda outlast: outlast.workspace.save("a", "b"),
    "recall": lambda outlast: outlast.workspace.recall("goal", budget=100),
    "session": lambda outlast: outlast.sessions.get("s"),
    "messages": lambda outlast: outlast.sessions.last("s", 3),
    "inbox": lambda outlast: outlast.inbox(),
    "verify": lambda outlast: outlast.verify(),
}
SHAPES = [b"", b"nul", b"[]", b"1", b'"x"', b"{}", b"\xff\xfe", b"[" * 100_000, b'{"items": 3}', b'{"items": [3]}']
SHAPES += [b'{"handoff": 1, "verdict": [], "reasons": 3, "evidence": [1], "stored_at": 7, "claim": "x"}']


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_answer_of_another_shape_is_told(server: Hostile, outlast: Outlast, repo: Path, call: Call) -> None:
    for raw in SHAPES:
        server.answers = lambda heard, raw=raw: Answer() if heard.path.endswith("/open") else Answer(200, raw)  # type: ignore[misc]
        with pytest.raises(ReplyInvalid):
            call(outlast)


PROBLEMS: list[Any] = [
    {"code": "look_first"},
    {"code": "look_first", "facts": {"what": "checks", "handoff": 3}},
    {"code": "look_first", "facts": {"what": 7, "handoff": {"anchor": {}}}},
    {"code": "run_not_found", "facts": {"self": 1, "run": "x"}},
    {"code": "run_not_found", "facts": {"args": 1, "facts": 2, "__class__": 3, "code": 4}},
    {"code": "server_unreachable", "facts": {"seconds": "{0.__class__}"}},
    {"code": "__init__", "detail": "{self.__class__}", "advice": "{0}"},
    {"code": 7},
    [],
]


@pytest.mark.parametrize("told", PROBLEMS, ids=range(len(PROBLEMS)))
def test_an_error_of_a_server_is_one_of_ours_whatever_it_says(
    server: Hostile, outlast: Outlast, repo: Path, told: Any
) -> None:
    for status in (400, 404, 409, 500):
        server.answers = lambda heard, status=status: said(told, status)  # type: ignore[misc]
        for call in (PLAIN["recover"], lambda outlast: store(outlast), CALLS["get"]):
            with pytest.raises(OutlastError) as raised:
                call(outlast)
            assert str(raised.value) is not None
            assert type(raised.value).__module__ == "outlast.errors"


def test_an_error_that_is_nested_without_end_is_one_of_ours(server: Hostile, outlast: Outlast) -> None:
    server.answers = lambda heard: Answer(409, b'{"code": "look_first", "facts": {"x": ' + b"[" * 100_000)
    with pytest.raises(OutlastError, match="answered 409"):
        outlast.get("run")
